/* swap.c: swaps: numbered exchanges in which each process of a team has one message of few bytes for each other, and
 * nobody is done before all have come: barriers and small allreduces of few processes. No leg, no matching: a message says
 * its number, and has a place of its own.
 *
 * Places. Part k of process i lies at slot k mod HD_SWAP_SLOTS. A process gives its part of k only when all exchanges up
 * to k - W are over there, W being half of its board's depth. If these were swaps, the others have given their parts of
 * them, and so had done with all up to k - 2 W: with the usual depth, the place is free. If they were not, it may still be in
 * use, and the part is late: kept aside until somebody looks for it. So no part is ever written over one that is still to
 * be read, whatever the other process does: a slot says which number is over.
 *   What this process gives is its own: at most HD_SWAP_SLOTS numbers are under way (the window of the deepest board).
 *
 * Who reads. A part's number is written last (release), so whoever sees it (acquire), with or without the lane's lock, may
 * read the part, until it says that the number is over (release), which who writes the next one has seen (acquire).
 *
 * Numbers travel with their lowest bits, and are taken for the nearest to the latest one: a process can't be as far ahead
 * of another as half of what these can say (it gives a part, so the others' of the one before are needed).
 *
 * Arguments that differ. Parts of one number must have one signature: who reads them compares. A process that does
 * something else there has a leg with this number, and sends or waits for other messages: whichever of a swap and a leg
 * comes second, by a message or by a call, finds the first.
 */
#include "net/internal.h"

#include "core/hash.h"

#include <string.h>

enum {
    MOST_LATE = HD_SWAP_PROCESSES * HD_SWAP_SLOTS, /* of a team; more fails it */
    FAR = 4096 /* numbers from the latest; all processes are within some dozens of it */
};

static uint32_t slot_of(uint64_t k) {
    return (uint32_t)(k % HD_SWAP_SLOTS);
}

static hd_swap_part_t *part_of(const hd_net_team_t *team, uint64_t k, uint32_t process) {
    return &team->swaps->part[slot_of(k) * team->n + process];
}

static bool direct_will_do(const hd_net_team_t *team, hd_net_family_t family) {
    return team->choice[family] == HD_NET_NOTHING || team->choice[family] == HD_NET_DIRECT;
}

hd_net_swaps_t *hd_net_swaps_create(const hd_net_team_t *team) {
    size_t parts = (size_t)HD_SWAP_SLOTS * team->n;
    hd_net_swaps_t *swaps = hd_alloc(HD_LINE_PAIR, sizeof(*swaps) + parts * sizeof(hd_swap_part_t));
    if (swaps) {
        swaps->barrier = direct_will_do(team, HD_NET_OF_BARRIER);
        swaps->allreduce = direct_will_do(team, HD_NET_OF_ALLREDUCE);
    }
    return swaps;
}

void hd_net_swaps_free(hd_net_swaps_t *swaps) {
    for (hd_swap_late_t *next, *late = swaps ? swaps->late : NULL; late; late = next) {
        next = late->next;
        hd_free(late);
    }
    hd_free(swaps);
}

bool hd_net_may_swap(const hd_net_team_t *team, uint8_t type, size_t bytes) {
    const hd_net_swaps_t *swaps = team->swaps;
    if (!swaps) {
        return false;
    }
    return type == HD_BARRIER ? swaps->barrier
                              : type == HD_ALLREDUCE && bytes <= HD_SWAP_BYTES && swaps->allreduce;
}

/* --- giving ---------------------------------------------------------------------------------------------------------------- */

/* The number is known now, as far as it goes. Under lane 0's lock. */
static void note(hd_net_swaps_t *swaps, uint64_t k) {
    swaps->latest = swaps->latest < k ? k : swaps->latest;
}

/* Names the message in a trace. */
static uint64_t id_of(const hd_net_team_t *team, uint64_t k, uint32_t from, uint32_t to) {
    return hd_hash_mix(hd_hash_mix(team->wire, k), (uint64_t)from << 32 | to) ^ HD_ITEM_SWAP;
}

static void fail(hd_net_team_t *team, ucc_status_t why) {
    hd_net_team_fail(team, why);
    hd_net_team_abort(team, why);
}

/* All parts, and mine has been given. */
static bool is_there(const hd_net_team_t *team, uint64_t k) {
    /* acquire: pairs with hd_net_swap_sent */
    if (atomic_load_explicit(&team->swaps->given[slot_of(k)], memory_order_acquire) != k) {
        return false;
    }
    for (uint32_t i = 0; i < team->n; i++) {
        /* acquire: the part; see above */
        if (i != team->me &&
            atomic_load_explicit(&part_of(team, k, i)->k, memory_order_acquire) != k) {
            return false;
        }
    }
    return true;
}

/* A part of exchange k has just come, or mine has gone: if that was the last, whoever sleeps until all are there is woken. Under
 * lane 0's lock, which whoever looks has himself. */
static void tell(hd_net_team_t *team, uint64_t k) {
    if (k == team->swaps->looked_for || !is_there(team, k)) {
        return;
    }
    hd_lock(&team->telling); /* from here on the exchange may be over, and the team's owner gone */
    if (!team->destroyed) {
        team->swapped(team->arg);
    }
    hd_unlock(&team->telling);
}

void hd_net_swap_sent(hd_swap_mine_t *mine, ucc_status_t status) {
    hd_net_team_t *team = mine->team;
    if (status != UCC_OK) {
        hd_error("a part of a barrier or allreduce can't be sent: %s", ucc_status_string(status));
        fail(team, status);
    }
    if (--mine->pending == 0) {
        /* release: `mine` may be written again; pairs with is_there */
        atomic_store_explicit(&team->swaps->given[slot_of(mine->k)], mine->k, memory_order_release);
        tell(team, mine->k);
    }
}

static void send(hd_net_lane_t *lane, hd_swap_mine_t *mine) {
    hd_net_team_t *team = mine->team;
    uint64_t k = mine->k;
    uint32_t other;
    note(team->swaps, k);
    /* relaxed: other lanes only look whether this exchange is a swap */
    atomic_store_explicit(&team->swaps->begun[slot_of(k)], k, memory_order_relaxed);
    if (hd_net_match_has_parked(&team->lane[0], k, &other)) {
        hd_net_match_differs(team, other);
        return;
    }
    if (hd_trace_is_on()) {
        hd_trace_leg(mine, "swap", "direct", k, 0, lane->number);
    }
    mine->pending = team->n - 1;
    for (uint32_t i = 1; i < team->n; i++) {
        uint32_t to = (team->me + i) % team->n;
        if (hd_trace_is_on()) {
            hd_trace_sent(mine, hd_ticks(), id_of(team, k, team->me, to), mine->bytes, to);
        }
        hd_message_swap(&team->lane[0], to, mine);
    }
}

void hd_net_swap_send(hd_net_lane_t *lane, hd_net_item_t *item) {
    hd_swap_mine_t *mine =
        (hd_swap_mine_t *)(void *)((char *)item - offsetof(hd_swap_mine_t, item));
    if (hd_net_team_failure(mine->team) == UCC_OK) {
        send(lane, mine);
    }
}

void hd_net_swap_forget(hd_net_lane_t *lane, const hd_net_team_t *team) {
    for (hd_message_t *r = lane->under_way; r; r = r->next) {
        if (r->swap && r->swap->team == team) {
            r->swap = NULL;
        }
    }
    if (lane->swapping == team) {
        lane->swapping = NULL;
    }
}

bool hd_net_swap(hd_net_team_t *team, uint64_t k, uint32_t signature, const void *data,
                 size_t bytes, uint32_t looks) {
    hd_net_lane_t *lane = &team->net->lane[0];
    hd_swap_mine_t *mine = &team->swaps->mine[slot_of(k)];
    const hd_wire_swap_t wire = {.team = team->wire,
                                 .number = k,
                                 .source = team->me,
                                 .signature = signature,
                                 .bytes = (uint32_t)bytes};
    mine->item.kind = HD_ITEM_SWAP;
    mine->team = team;
    mine->bytes = (uint32_t)bytes;
    mine->k = k;
    (void)hd_wire_write_swap(&wire, data, mine->message);
    if (!hd_lock_try(&lane->lock)) {
        hd_net_lane_hand(lane, &mine->item);
        return hd_net_lane_pump(lane) && is_there(team, k);
    }
    team->swaps->looked_for = k;
    hd_net_swap_send(lane, &mine->item);
    bool there = is_there(team, k);
    for (; !there && looks > 0; looks--) {
        hd_net_lane_turn(lane);
        there = is_there(team, k);
    }
    team->swaps->looked_for = 0;
    hd_net_lane_leave(lane);
    hd_net_rouse();
    return there;
}

/* --- coming ------------------------------------------------------------------------------------------------------------------ */

static void put(hd_swap_part_t *part, uint64_t k, uint32_t signature, uint32_t bytes,
                const uint8_t *data) {
    part->signature = signature;
    part->bytes = bytes;
    if (bytes) {
        memcpy(part->data, data, bytes);
    }
    /* release: the part; see above */
    atomic_store_explicit(&part->k, k, memory_order_release);
}

typedef enum place { FREE, TAKEN, OVERTAKEN, KNOWN } place_t;

/* Of source's part of k. KNOWN: it is there, or is over. OVERTAKEN: a later part of its source lies there. */
static place_t place_of(const hd_net_team_t *team, uint64_t k, uint32_t source) {
    /* acquire: who read what lies there has done with it */
    uint64_t over = atomic_load_explicit(&team->swaps->over[slot_of(k)], memory_order_acquire);
    /* relaxed: written under this lock */
    uint64_t there = atomic_load_explicit(&part_of(team, k, source)->k, memory_order_relaxed);
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

/* Under lane 0's lock: those whose places have become free. */
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
            put(part_of(team, late->k, late->source), late->k, late->signature, late->bytes,
                late->data);
            tell(team, late->k);
        }
        *at = late->next;
        count_late(swaps, -1);
        hd_free(late);
    }
}

/* False: the team has failed. */
static bool keep_late(hd_net_team_t *team, uint64_t k, uint32_t source, uint32_t signature,
                      uint32_t bytes, const uint8_t *data) {
    hd_net_swaps_t *swaps = team->swaps;
    uint32_t n = atomic_load_explicit(&swaps->n_late, memory_order_relaxed); /* under this lock */
    hd_swap_late_t *late = n < MOST_LATE ? hd_alloc(alignof(hd_swap_late_t), sizeof(*late)) : NULL;
    if (!late) {
        hd_error("process %u is too far ahead: %u swaps are kept", source, n);
        fail(team, n < MOST_LATE ? UCC_ERR_NO_MEMORY : UCC_ERR_NO_RESOURCE);
        return false;
    }
    *late = (hd_swap_late_t){
        .next = swaps->late, .k = k, .source = source, .signature = signature, .bytes = bytes};
    memcpy(late->data, data, bytes);
    swaps->late = late;
    count_late(swaps, 1);
    return true;
}

/* That with these lowest bits which is nearest to the latest. */
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
    if (hd_net_match_may_log(lane)) {
        hd_warn("a message was dropped: %s", why);
    }
}

static void arrive(hd_net_lane_t *lane, hd_net_team_t *team, const hd_wire_swap_t *wire,
                   const uint8_t *data) {
    hd_net_swaps_t *swaps = team->swaps;
    hd_net_team_lane_t *tl = &team->lane[0];
    uint64_t latest = latest_of(team), k = whole_number(latest, wire->number);
    hd_swap_part_t *part = part_of(team, k, wire->source);
    if (k - latest + FAR > 2 * FAR || k > INT64_MAX) {
        hd_error("process %u sends parts of exchange %llu, but this one is at %llu", wire->source,
                 (unsigned long long)k, (unsigned long long)latest);
        fail(team, UCC_ERR_INVALID_PARAM);
        return;
    }
    if (swaps->late) { /* those that came before come first */
        take_late(team);
    }
    place_t place = place_of(team, k, wire->source);
    if (place == KNOWN) {
        drop(lane, "a swap that is over, or has come before");
        return;
    }
    note(swaps, k);
    if ((tl->n_numbered || k < tl->highest) && hd_net_match_has_leg(tl, k)) {
        hd_net_match_differs(team, wire->source);
        return;
    }
    if (place == TAKEN) {
        (void)keep_late(team, k, wire->source, wire->signature, wire->bytes, data);
        return;
    }
    if (place == OVERTAKEN &&
        !keep_late(team, atomic_load_explicit(&part->k, memory_order_relaxed), /* this lock's */
                   wire->source, part->signature, part->bytes, part->data)) {
        return;
    }
    put(part, k, wire->signature, wire->bytes, data);
    tell(team, k);
}

hd_ucx_arrival_t hd_net_swap_arrive(hd_net_lane_t *lane, const void *header, size_t header_bytes,
                                    size_t data) {
    hd_wire_swap_t wire;
    const char *wrong = lane->number == 0 ? hd_wire_parse_swap(header, header_bytes, data, &wire)
                                          : "it is too short, or a swap in another lane than 0";
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
        team = hd_net_team_find(lane->net, wire.team, &gone);
        if (!team) { /* whoever gives a part has been greeted by this process: it is gone */
            return HD_UCX_DONE;
        }
        lane->swapping = team->swaps ? team : NULL; /* until its end (hd_net_swap_forget) */
    }
    if (!team->swaps || wire.source >= team->n || wire.source == team->me) {
        drop(lane, "a swap in a team without, or of no process of the team");
    } else if (hd_net_team_failure(team) == UCC_OK) {
        arrive(lane, team, &wire, (const uint8_t *)header + HD_WIRE_SWAP_HEAD);
    }
    return HD_UCX_DONE;
}

bool hd_net_swap_has_begun(const hd_net_team_t *team, uint64_t k) {
    /* relaxed: written under lane 0's lock, which those have who come before or after it there */
    return team->swaps &&
           atomic_load_explicit(&team->swaps->begun[slot_of(k)], memory_order_relaxed) == k;
}

bool hd_net_swap_has_come(const hd_net_team_t *team, uint64_t k, uint32_t *source) {
    for (uint32_t i = 0; team->swaps && i < team->n; i++) {
        /* relaxed: written under this lock */
        if (atomic_load_explicit(&part_of(team, k, i)->k, memory_order_relaxed) == k) {
            *source = i;
            return true;
        }
    }
    for (const hd_swap_late_t *late = team->swaps ? team->swaps->late : NULL; late;
         late = late->next) {
        if (late->k == k) {
            *source = late->source;
            return true;
        }
    }
    return false;
}

/* --- waiting ------------------------------------------------------------------------------------------------------------------- */

/* Under lane 0's lock: one that is gone, and whose part is missing, or that mine can't be given to; NULL: none. */
static hd_peer_t *missed(const hd_net_team_t *team, const hd_net_lane_t *lane, uint64_t k) {
    uint64_t now = hd_clock_ns();
    const hd_swap_mine_t *mine = &team->swaps->mine[slot_of(k)];
    for (uint32_t i = 0; i < team->n; i++) {
        /* relaxed: written under this lock */
        if (i != team->me &&
            atomic_load_explicit(&part_of(team, k, i)->k, memory_order_relaxed) != k &&
            hd_peer_is_gone(team->peer[i], lane, now)) {
            return team->peer[i];
        }
    }
    for (const hd_message_t *r = lane->under_way; r; r = r->next) {
        if (r->swap == mine && hd_peer_is_gone(r->peer, lane, now)) {
            return r->peer;
        }
    }
    return NULL;
}

/* Under lane 0's lock: what is rare. */
static void look_closer(hd_net_team_t *team, const hd_net_lane_t *lane, uint64_t k) {
    take_late(team);
    hd_peer_t *gone = hd_net_team_failure(team) == UCC_OK ? missed(team, lane, k) : NULL;
    if (gone) {
        hd_error("a process of a team has gone, and a barrier or allreduce needs it");
        hd_net_accuse(team->net, gone);
        fail(team, UCC_ERR_IO_ERROR);
    }
}

bool hd_net_swap_is_there(hd_net_team_t *team, uint64_t k) {
    hd_net_lane_t *lane = &team->net->lane[0];
    (void)hd_net_pump(team->net);
    if (is_there(team, k)) {
        return true;
    }
    /* relaxed, both: looked at again and again */
    bool rare = atomic_load_explicit(&team->net->has_losses, memory_order_relaxed) ||
                atomic_load_explicit(&team->swaps->n_late, memory_order_relaxed) != 0;
    if (!rare || !hd_lock_try(&lane->lock)) {
        return false;
    }
    look_closer(team, lane, k);
    hd_net_lane_leave(lane);
    return is_there(team, k);
}

uint32_t hd_net_swap_odd(const hd_net_team_t *team, uint64_t k, uint32_t signature, size_t bytes) {
    for (uint32_t i = 0; i < team->n; i++) {
        const hd_swap_part_t *part = part_of(team, k, i);
        if (i != team->me && (part->signature != signature || part->bytes != bytes)) {
            return i;
        }
    }
    return team->n;
}

const void *hd_net_swap_part(const hd_net_team_t *team, uint64_t k, uint32_t process) {
    return process == team->me ? team->swaps->mine[slot_of(k)].message + HD_WIRE_SWAP_HEAD
                               : part_of(team, k, process)->data;
}

void hd_net_swap_over(hd_net_team_t *team, uint64_t k) {
    hd_net_swaps_t *swaps = team->swaps;
    if (hd_trace_is_on()) {
        const hd_swap_mine_t *mine = &swaps->mine[slot_of(k)];
        for (uint32_t i = 0; i < team->n; i++) {
            if (i != team->me) {
                hd_trace_taken(mine, hd_ticks(), id_of(team, k, i, team->me),
                               part_of(team, k, i)->bytes, i);
            }
        }
        hd_trace_leg_done(mine, UCC_OK);
    }
    /* release: what was read of the parts; see above */
    atomic_store_explicit(&swaps->over[slot_of(k)], k, memory_order_release);
}
