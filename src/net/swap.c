/* swap.c: swaps: numbered exchanges of few bytes among few processes, a message from each to each
 * that needs something of it. No leg, no matching: a message says its number, and has a place of
 * its own (parts.c). Any thread begins a swap and looks whether it is there; parts are sent and put
 * in their places by lane 0's holder, to whom UCX brings them by way of net.c.
 *
 * Places. Part k of process i lies at slot k mod HD_SWAP_SLOTS, and stays there until this process
 * says that k is over. A process gives its parts of k only when all exchanges up to k - W are over
 * there, W being half of its board's depth, which is as many as there are slots. So a part of k, or
 * a leg of it, says that its process has done with all up to k - W: it has been HEARD up to k.
 * Nobody ends an exchange k before he has heard all others up to k - LAG. So a process that ends
 * each exchange before it begins the next gives k when the others have done with all up to k - 1 -
 * LAG - W, and finds their places free. Where they are not (it has several under way, the boards'
 * other exchanges are no swaps, a process keeps parts a while longer), the part is late: kept aside
 * until somebody looks for it. So no part is ever written over one that is still to be read,
 * whatever the other process does.
 *   Of one source, LAG + 2 W numbers are outstanding at most, or, with legs between, so many that
 * are swaps: not too many are late.
 *   Who would give nothing is heard all the same: each gives a part, if only of no bytes, to whom
 * it was silent for TELL numbers. Where a part of k is waited for that way, it comes: who needs
 * nothing else gives it before he waits for anything.
 *   What this process gives is its own: at most HD_SWAP_SLOTS numbers are under way (the window of
 * the deepest board).
 *
 * Numbers travel with their lowest bits, and are taken for the nearest to the latest one: see
 * above.
 *
 * Arguments that differ. Parts of one number must have one signature: who reads them compares. A
 * part with bytes for who needs none is one of another call (another root's). A process that does
 * something else there has a leg with this number, and sends or waits for other messages: whichever
 * of a swap and a leg comes second, by a message or by a call, finds the first.
 */
#include "net/internal.h"

#include "core/hash.h"

#include <string.h>

enum {
    MOST_LATE = HD_SWAP_PROCESSES * HD_SWAP_SLOTS, /* of a team; more fails it */
    FAR = 4096,        /* numbers from the latest; all processes are within some dozens of it */
    LAG = HD_SWAP_LAG, /* see above */
    TELL = LAG / 2,
    TRACE_MARK = 5 /* tells the names of swaps' messages in a trace from those of others */
};

static uint32_t bit_of(uint32_t process) {
    return 1u << process;
}

/* --- giving ----------------------------------------------------------------------------------- */

/* A part of exchange k was given, or has come. Under lane 0's lock. */
static void note(hd_net_swaps_t *swaps, uint64_t k) {
    swaps->latest = swaps->latest < k ? k : swaps->latest;
}

/* Names the message of a part of k in a trace. */
static uint64_t id_of(const hd_net_team_t *team, uint64_t k, uint32_t from, uint32_t to) {
    return hd_hash_mix(hd_hash_mix(team->wire, k), (uint64_t)from << 32 | to) ^ TRACE_MARK;
}

static uint64_t heard(const hd_net_team_t *team, uint32_t process) {
    /* relaxed: nothing but how far it is */
    return atomic_load_explicit(&team->swaps->other[process].heard, memory_order_relaxed);
}

/* The process has come as far as k. Under lane 0's lock. */
static void hear(hd_net_team_t *team, uint32_t process, uint64_t k) {
    if (heard(team, process) < k) {
        atomic_store_explicit(&team->swaps->other[process].heard, k, memory_order_relaxed);
    }
}

/* Is what exchange k waits for from that process there? */
static bool has_come(const hd_net_team_t *team, uint64_t k, uint32_t needed, uint32_t process) {
    return needed & bit_of(process) ? hd_swap_has_part(team, k, process)
                                    : heard(team, process) + LAG >= k;
}

/* Are all parts there that exchange k needs, and has this process given its own? */
static bool is_there(const hd_net_team_t *team, uint64_t k, uint32_t needed) {
    /* acquire: pairs with count_sent */
    if (atomic_load_explicit(&team->swaps->given[hd_swap_slot(k)], memory_order_acquire) != k) {
        return false;
    }
    for (uint32_t i = 0; i < team->n; i++) {
        if (i != team->me && !has_come(team, k, needed, i)) {
            return false;
        }
    }
    return true;
}

/* Wakes whoever sleeps until parts are there. Under lane 0's lock. */
static void wake(hd_net_team_t *team) {
    hd_lock(&team->telling); /* from here on the exchange may be over, and the team's owner gone */
    if (!team->destroyed) {
        team->swapped(team->arg);
    }
    hd_unlock(&team->telling);
}

/* A part of exchange k, which has begun, has just come, or mine have gone: if that was the last,
 * whoever sleeps until all are there is woken. Under lane 0's lock, which whoever looks has
 * himself. */
static void tell(hd_net_team_t *team, uint64_t k) {
    if (k != team->swaps->looked_for && is_there(team, k, team->swaps->needed[hd_swap_slot(k)])) {
        wake(team);
    }
}

/* One of the messages of `mine` is over, or all are on their way. */
static void count_sent(hd_swap_mine_t *mine, ucc_status_t status) {
    hd_net_team_t *team = mine->team;
    uint64_t k = mine->swap.k;
    if (status != UCC_OK) {
        hd_error("a part of a small collective can't be sent: %s", ucc_status_string(status));
        hd_net_team_fail(team, status);
    }
    if (--mine->pending == 0) {
        /* release: `mine` may be written again, and may be read; pairs with is_there */
        atomic_store_explicit(&team->swaps->given[hd_swap_slot(k)], k, memory_order_release);
        tell(team, k);
    }
}

/* What legs have told of that process's progress counts, too: they have the same numbers. */
static void hear_legs(hd_net_team_t *team, uint64_t k, uint32_t process) {
    uint64_t floor = team->lane[0].peer[process].floor;
    if (floor && heard(team, process) + LAG < k && heard(team, process) < floor - 1) {
        hear(team, process, floor - 1);
        wake(team); /* an older exchange may be over by that */
    }
}

/* A message with a part is over (hd_message.over). A receiver that is lost is missed by whoever
 * waits for its part. */
static void on_over(hd_message_t *message, ucc_status_t status) {
    if (status == UCC_ERR_IO_ERROR) {
        hd_peer_lose(message->peer, "a message was lost");
    }
    if (message->swap) {
        count_sent(message->swap, status == UCC_ERR_IO_ERROR ? UCC_OK : status);
    }
}

/* Sends a part to that process; the data stays until the message is over, maybe at once. tells: the
 * part has no data, and only says how far this process is. */
static void send_part(hd_net_team_t *team, uint32_t to, hd_swap_mine_t *mine, const void *data,
                      uint32_t bytes, bool tells) {
    hd_net_lane_t *lane = &team->net->lane[0];
    const hd_ucx_link_t *link = hd_peer_link(team->peer[to], lane);
    hd_message_t *message = link ? hd_message_get(lane) : NULL;
    if (!message) {
        count_sent(mine, link ? UCC_ERR_NO_MEMORY : UCC_OK);
        return;
    }
    const hd_wire_swap_t wire = {.team = team->wire,
                                 .number = mine->swap.k,
                                 .source = team->me,
                                 .signature = mine->swap.signature,
                                 .bytes = bytes};
    size_t header = hd_wire_write_swap(&wire, data, message->header);
    message->own = (hd_net_piece_t){(void *)(uintptr_t)data, bytes};
    message->piece = &message->own;
    message->n = header == HD_WIRE_SWAP_HEAD && bytes;
    message->over = on_over;
    message->swap = mine;
    message->peer = team->peer[to];
    hd_net_add_up(tells ? &lane->traffic.told : &lane->traffic.messages_sent, 1);
    hd_net_add_up(&lane->traffic.bytes_sent, bytes);
    hd_message_send(message, link, header, HD_UCX_EAGER);
}

static void send_to(hd_net_team_t *team, uint32_t to, hd_swap_mine_t *mine) {
    const hd_net_swap_t *swap = &mine->swap;
    bool given = swap->to & bit_of(to);
    hd_swap_heard_t *other = &team->swaps->other[to];
    if (!(swap->from & bit_of(to))) {
        hear_legs(team, swap->k, to);
    }
    if (!given && swap->k - other->told < TELL) {
        return;
    }
    other->told = swap->k;
    mine->pending++;
    uint32_t bytes = given ? swap->bytes[swap->same ? 0 : to] : 0;
    if (hd_trace_is_on()) {
        hd_trace_sent(mine, hd_ticks(), id_of(team, swap->k, team->me, to), bytes, to);
    }
    const void *at =
        mine->is_long ? hd_swap_long_of(team, swap->k, swap->same ? 0 : to, false) : mine->data;
    send_part(team, to, mine, at, bytes, !given);
}

static void take_late(hd_net_team_t *team);

/* Has a part come, before this exchange began, that is of another call? It has bytes, and its
 * source is one of which nobody here needs any. */
static bool has_strange(const hd_net_team_t *team, const hd_net_swap_t *swap, uint32_t *source) {
    for (uint32_t i = 0; i < team->n; i++) {
        if (i != team->me && !(swap->from & bit_of(i)) && hd_swap_has_part(team, swap->k, i) &&
            hd_swap_part_of(team, swap->k, i)->bytes > 0) {
            *source = i;
            return true;
        }
    }
    return false;
}

static void send(hd_net_lane_t *lane, hd_swap_mine_t *mine) {
    hd_net_team_t *team = mine->team;
    hd_net_swaps_t *swaps = team->swaps;
    uint64_t k = mine->swap.k;
    uint32_t other;
    note(swaps, k);
    if (swaps->late) {
        take_late(team);
    }
    /* relaxed: other lanes only look whether this exchange is a swap */
    atomic_store_explicit(&swaps->begun[hd_swap_slot(k)], k, memory_order_relaxed);
    swaps->needed[hd_swap_slot(k)] = mine->swap.from;
    if (hd_park_has_parked(&team->lane[0], k, &other) || has_strange(team, &mine->swap, &other)) {
        hd_net_team_differs(team, other);
        return;
    }
    if (hd_trace_is_on()) {
        hd_trace_leg(mine, "swap", "direct", k, 0, lane->number);
    }
    mine->pending = 1; /* until all are on their way */
    for (uint32_t i = 1; i < team->n; i++) {
        send_to(team, (team->me + i) % team->n, mine);
    }
    count_sent(mine, UCC_OK);
}

static void give(hd_net_lane_t *lane, hd_swap_mine_t *mine) {
    if (hd_net_team_failure(mine->team) == UCC_OK) {
        send(lane, mine);
    }
}

/* A part is handed to lane 0 by whoever has found another thread in it. */
static void take_mine(hd_net_lane_t *lane, hd_net_item_t *item) {
    give(lane, (hd_swap_mine_t *)(void *)((char *)item - offsetof(hd_swap_mine_t, item)));
}

static void release(void *swaps) {
    hd_net_swaps_leave(swaps);
}

void hd_net_swap_forget(hd_net_lane_t *lane, const hd_net_team_t *team) {
    for (hd_message_t *message = lane->under_way; message; message = message->next) {
        if (message->swap && message->swap->team == team) {
            message->swap = NULL;
            message->kept =
                team->swaps; /* UCX may still read the data, of a collective that has failed */
            message->release = release;
            /* relaxed: the team is a user */
            atomic_fetch_add_explicit(&team->swaps->users, 1, memory_order_relaxed);
        }
    }
    if (lane->swapping == team) {
        lane->swapping = NULL;
    }
}

bool hd_net_swap(hd_net_team_t *team, uint64_t k, uint32_t looks) {
    hd_net_lane_t *lane = &team->net->lane[0];
    hd_swap_mine_t *mine = &team->swaps->mine[hd_swap_slot(k)];
    uint32_t needed = mine->swap.from;
    hd_assert(mine->swap.k == k);
    mine->team = team;
    mine->is_long = hd_net_swap_is_long(&mine->swap);
    if (!hd_net_lane_enter(lane)) {
        mine->item.take = take_mine;
        hd_net_lane_hand(lane, &mine->item);
        return hd_net_lane_pump(lane) && is_there(team, k, needed);
    }
    team->swaps->looked_for = k;
    give(lane, mine);
    bool there = is_there(team, k, needed);
    for (; !there && looks > 0; looks--) {
        hd_net_lane_turn(lane);
        there = is_there(team, k, needed);
    }
    team->swaps->looked_for = 0;
    hd_net_lane_leave(lane);
    hd_net_rouse();
    return there;
}

/* --- coming ----------------------------------------------------------------------------------- */

/* A part that has come; its data lasts as long as its message is in hand. */
typedef struct arrival {
    uint64_t k;
    uint32_t source, signature, bytes;
    const uint8_t *data;
} arrival_t;

static void put(hd_net_team_t *team, const arrival_t *a) {
    hd_swap_part_t *part = hd_swap_part_of(team, a->k, a->source);
    part->signature = a->signature;
    part->bytes = a->bytes;
    if (a->bytes) {
        memcpy(hd_swap_bytes_of(team, a->k, a->source, a->bytes), a->data, a->bytes);
    }
    /* release: the part; see parts.c */
    atomic_store_explicit(&part->k, a->k, memory_order_release);
    /* relaxed: written under this lock */
    if (atomic_load_explicit(&team->swaps->begun[hd_swap_slot(a->k)], memory_order_relaxed) ==
        a->k) {
        tell(team, a->k);
    } else if (team->swaps->early) {
        wake(team);
    }
}

typedef enum place { FREE, TAKEN, OVERTAKEN, KNOWN } place_t;

/* What is the place of source's part of k? KNOWN: the part is there, or is over. OVERTAKEN: a later
 * part of the source lies there. */
static place_t place_of(const hd_net_team_t *team, uint64_t k, uint32_t source) {
    /* acquire: who read what lies there has done with it */
    uint64_t over = atomic_load_explicit(&team->swaps->over[hd_swap_slot(k)], memory_order_acquire);
    /* relaxed: written under this lock */
    uint64_t there =
        atomic_load_explicit(&hd_swap_part_of(team, k, source)->k, memory_order_relaxed);
    if (k <= over || k == there) {
        return KNOWN;
    }
    return there <= over ? FREE : there < k ? TAKEN : OVERTAKEN;
}

static void count_late(hd_net_swaps_t *swaps, int32_t more) {
    uint32_t n = atomic_load_explicit(&swaps->n_late, memory_order_relaxed); /* under this lock */
    /* relaxed: whoever sees it takes the lock, and looks */
    atomic_store_explicit(&swaps->n_late, n + (uint32_t)more, memory_order_relaxed);
}

/* Is the part of a call that is not this process's? It has bytes, and nobody here needs any of
 * it. */
static bool is_strange(const hd_net_team_t *team, const arrival_t *a) {
    const hd_net_swaps_t *swaps = team->swaps;
    /* relaxed: written under this lock */
    return a->bytes > 0 &&
           atomic_load_explicit(&swaps->begun[hd_swap_slot(a->k)], memory_order_relaxed) == a->k &&
           !(swaps->needed[hd_swap_slot(a->k)] & bit_of(a->source));
}

/* Puts the late parts into their places that have become free. Under lane 0's lock. */
static void take_late(hd_net_team_t *team) {
    hd_net_swaps_t *swaps = team->swaps;
    for (hd_swap_late_t **at = &swaps->late; *at;) {
        hd_swap_late_t *late = *at;
        place_t place = place_of(team, late->k, late->source);
        if (place == TAKEN || place == OVERTAKEN) {
            at = &late->next;
            continue;
        }
        if (place == FREE) {
            const arrival_t a = {late->k, late->source, late->signature, late->bytes, late->data};
            if (is_strange(team, &a)) {
                hd_net_team_differs(team, a.source);
            }
            put(team, &a);
        }
        *at = late->next;
        count_late(swaps, -1);
        hd_free(late);
    }
}

/* Keeps a part aside. False: the team has failed. */
static bool keep_late(hd_net_team_t *team, const arrival_t *a) {
    hd_net_swaps_t *swaps = team->swaps;
    uint32_t n = atomic_load_explicit(&swaps->n_late, memory_order_relaxed); /* under this lock */
    hd_swap_late_t *late =
        n < MOST_LATE ? hd_alloc(alignof(hd_swap_late_t), sizeof(*late) + a->bytes) : NULL;
    if (!late) {
        hd_error("process %u is too far ahead: %u swaps are kept", a->source, n);
        hd_net_team_fail(team, n < MOST_LATE ? UCC_ERR_NO_MEMORY : UCC_ERR_NO_RESOURCE);
        return false;
    }
    *late = (hd_swap_late_t){.next = swaps->late,
                             .k = a->k,
                             .source = a->source,
                             .signature = a->signature,
                             .bytes = a->bytes};
    memcpy(late->data, a->data, a->bytes);
    swaps->late = late;
    count_late(swaps, 1);
    return true;
}

/* The part of a later number that lies in the place of `a` makes room for it. */
static bool move_aside(hd_net_team_t *team, const arrival_t *a) {
    const hd_swap_part_t *part = hd_swap_part_of(team, a->k, a->source);
    const arrival_t there = {.k = atomic_load_explicit(&part->k, memory_order_relaxed), /* lock's */
                             .source = a->source,
                             .signature = part->signature,
                             .bytes = part->bytes,
                             .data = hd_swap_bytes_of(team, a->k, a->source, part->bytes)};
    return keep_late(team, &there);
}

/* The number with these lowest bits that is nearest to the latest one. */
static uint64_t whole_number(uint64_t latest, uint64_t lowest) {
    const uint64_t half = UINT64_C(1) << (HD_WIRE_SWAP_BITS - 1), mask = 2 * half - 1;
    uint64_t ahead = (lowest - latest) & mask;
    return ahead < half ? latest + ahead : latest + ahead - 2 * half;
}

static uint64_t latest_of(const hd_net_team_t *team) {
    uint64_t swap = team->swaps->latest, leg = team->lane[0].highest;
    return swap < leg ? leg : swap;
}

static void drop(hd_net_lane_t *lane, const char *why) {
    if (hd_net_lane_may_log(lane)) {
        hd_warn("a message was dropped: %s", why);
    }
}

/* The part's source has come as far as its number. An exchange that waits for nothing else may be
 * over now, whichever it is. */
static void hear_part(hd_net_team_t *team, const arrival_t *a) {
    bool waits = heard(team, a->source) + LAG < team->swaps->latest;
    hear(team, a->source, a->k);
    if (waits) {
        wake(team);
    }
}

static void take_in(hd_net_lane_t *lane, hd_net_team_t *team, const arrival_t *a) {
    hd_net_team_lane_t *tl = &team->lane[0];
    place_t place = place_of(team, a->k, a->source);
    if (is_strange(team, a)) {
        hd_net_team_differs(team, a->source);
        return;
    }
    if (place == KNOWN) {
        if (a->bytes) {
            drop(lane, "a swap that is over, or has come before");
        }
        return;
    }
    note(team->swaps, a->k);
    if ((tl->n_numbered || a->k < tl->highest) && hd_park_has_leg(tl, a->k)) {
        hd_net_team_differs(team, a->source);
        return;
    }
    if (place == TAKEN) {
        (void)keep_late(team, a);
        return;
    }
    if (place == OVERTAKEN && !move_aside(team, a)) {
        return;
    }
    put(team, a);
}

static void arrive(hd_net_lane_t *lane, hd_net_team_t *team, arrival_t *a) {
    uint64_t latest = latest_of(team);
    a->k = whole_number(latest, a->k);
    if (a->k - latest + FAR > 2 * FAR || a->k > INT64_MAX) {
        hd_error("process %u sends parts of exchange %llu, but this one is at %llu", a->source,
                 (unsigned long long)a->k, (unsigned long long)latest);
        hd_net_team_fail(team, UCC_ERR_INVALID_PARAM);
        return;
    }
    if (a->bytes > HD_SWAP_BYTES && hd_net_swap_reserve(team) != UCC_OK) {
        hd_net_team_fail(team, UCC_ERR_NO_MEMORY);
        return;
    }
    if (team->swaps->late) { /* those that came before come first */
        take_late(team);
    }
    hear_part(team, a);
    take_in(lane, team, a);
}

hd_ucx_arrival_t hd_net_swap_arrive(hd_net_lane_t *lane, const void *header, size_t header_bytes,
                                    const void *data, size_t bytes, bool rendezvous) {
    hd_wire_swap_t wire;
    const char *wrong = hd_wire_parse_swap(header, header_bytes, bytes, &wire);
    if (!wrong && (rendezvous || lane->number)) {
        wrong = "a swap that is a rendezvous, or in another lane than 0";
    }
    if (wrong) {
        drop(lane, wrong);
        return HD_UCX_DONE;
    }
    lane->moved = true;
    hd_net_add_up(&lane->traffic.messages_received, 1);
    hd_net_add_up(&lane->traffic.bytes_received, wire.bytes);
    hd_net_team_t *team = lane->swapping;
    if (!team || team->wire != wire.team) {
        bool gone;
        team = hd_net_team_find(lane, wire.team, &gone);
        if (!team) { /* whoever gives a part has been greeted by this process: it is gone */
            return HD_UCX_DONE;
        }
        lane->swapping = team->swaps ? team : NULL; /* until its end (hd_net_swap_forget) */
    }
    if (!team->swaps || wire.source >= team->n || wire.source == team->me ||
        wire.bytes > hd_net_swap_most(team->n)) {
        drop(lane, "a swap in a team without, of no process of the team, or too long for it");
    } else if (hd_net_team_failure(team) == UCC_OK) {
        arrival_t a = {.k = wire.number,
                       .source = wire.source,
                       .signature = wire.signature,
                       .bytes = wire.bytes,
                       .data = bytes ? data : (const uint8_t *)header + HD_WIRE_SWAP_HEAD};
        arrive(lane, team, &a);
    }
    return HD_UCX_DONE;
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* Returns a process that is gone, and that exchange k waits for, or that this process's part can't
 * be given to. NULL: there is none. Under lane 0's lock. */
static hd_peer_t *missed(const hd_net_team_t *team, const hd_net_lane_t *lane, uint64_t k) {
    uint64_t now = hd_clock_ns();
    const hd_swap_mine_t *mine = &team->swaps->mine[hd_swap_slot(k)];
    for (uint32_t i = 0; i < team->n; i++) {
        if (i != team->me && !has_come(team, k, mine->swap.from, i) &&
            hd_peer_is_gone(team->peer[i], lane, now)) {
            return team->peer[i];
        }
    }
    for (const hd_message_t *message = lane->under_way; message; message = message->next) {
        if (message->swap == mine && hd_peer_is_gone(message->peer, lane, now)) {
            return message->peer;
        }
    }
    return NULL;
}

/* Fails the team if exchange k needs the part of a process that has left the team before it. */
static void miss_leaver(hd_net_team_t *team, uint64_t k) {
    const hd_net_key_t key = {.number = k, .class = HD_NET_NUMBERED};
    uint32_t needed = team->swaps->mine[hd_swap_slot(k)].swap.from;
    for (uint32_t i = 0; i < team->n && hd_net_team_failure(team) == UCC_OK; i++) {
        if (i != team->me && !has_come(team, k, needed, i) && hd_net_team_lacks(team, i, &key, 0)) {
            hd_error("process %u has left the team before a small collective, process %u waits in "
                     "vain",
                     i, team->me);
            hd_net_team_fail(team, UCC_ERR_NOT_FOUND);
        }
    }
}

/* Looks for what is rare: late parts, what legs have told, and losses. Under lane 0's lock. */
static void look_closer(hd_net_team_t *team, const hd_net_lane_t *lane, uint64_t k) {
    take_late(team);
    for (uint32_t i = 0; i < team->n; i++) {
        if (i != team->me) {
            hear_legs(team, k, i);
        }
    }
    hd_peer_t *gone = hd_net_team_failure(team) == UCC_OK ? missed(team, lane, k) : NULL;
    if (gone) {
        hd_error("process %u of a team of %u has gone, and a small collective needs it",
                 hd_net_number_of(team, gone), team->n);
        hd_net_miss(team->net, gone);
        hd_net_team_fail(team, UCC_ERR_IO_ERROR);
    } else {
        miss_leaver(team, k);
    }
}

/* Does exchange k wait until it hears of a process? Legs may have told of it. */
static bool lags(const hd_net_team_t *team, uint64_t k, uint32_t needed) {
    for (uint32_t i = 0; i < team->n; i++) {
        if (i != team->me && !(needed & bit_of(i)) && heard(team, i) + LAG < k) {
            return true;
        }
    }
    return false;
}

bool hd_net_swap_is_there(hd_net_team_t *team, uint64_t k) {
    hd_net_lane_t *lane = &team->net->lane[0];
    uint32_t needed = team->swaps->mine[hd_swap_slot(k)].swap.from;
    (void)hd_net_pump(team->net);
    if (is_there(team, k, needed)) {
        return true;
    }
    /* relaxed: looked at again and again */
    bool rare = hd_net_team_is_bereft(team) ||
                atomic_load_explicit(&team->swaps->n_late, memory_order_relaxed) != 0 ||
                lags(team, k, needed);
    if (!rare || !hd_net_lane_enter(lane)) {
        return false;
    }
    look_closer(team, lane, k);
    hd_net_lane_leave(lane);
    return is_there(team, k, needed);
}

void hd_net_swap_done(hd_net_team_t *team, uint64_t k) {
    if (hd_trace_is_on()) {
        const hd_swap_mine_t *mine = &team->swaps->mine[hd_swap_slot(k)];
        for (uint32_t i = 0; i < team->n; i++) {
            if (i != team->me && mine->swap.from & bit_of(i)) {
                hd_trace_taken(mine, hd_ticks(), id_of(team, k, i, team->me),
                               hd_swap_part_of(team, k, i)->bytes, i);
            }
        }
        hd_trace_leg_done(mine, UCC_OK);
    }
}
