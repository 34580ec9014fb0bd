/* peer.c: other processes, and the ways to them. A peer is known by its identity and shared by all
 * teams; a way to one of its lanes is made when something is first sent there. If its ways break
 * and the process lives, teams that are made later have another peer for it. Peers stay until the
 * net is closed: there are as many as there are processes, and one more for each such break.
 *
 * A peer is made by whoever makes a team with it (any thread); ways belong to their lanes, whose
 * holders make and end them. Whoever finds out that a peer is lost says so (hd_peer_lose); what
 * follows from that is the business of losses.c.
 */
#include "net/internal.h"

#include "core/descriptors.h"
#include "threads/clock.h"

#include <sched.h>
#include <string.h>

enum { CLOSE_NS = 1000000000, LINKED_NS = 50000000, YOUNG_NS = 500000000 };
static const uint64_t SOON_NS = 10000000000;

/* --- loss ------------------------------------------------------------------------------------- */

void hd_peer_lose(hd_peer_t *peer, const char *why) {
    /* relaxed, all: two lanes may write the time and the cause, and either will do */
    if (!atomic_load_explicit(&peer->lost, memory_order_relaxed)) {
        atomic_store_explicit(&peer->lost_at, hd_clock_ns(), memory_order_relaxed);
        atomic_store_explicit(&peer->why, why, memory_order_relaxed);
    }
    /* release: the time; pairs with hd_peer_is_gone, with abandon in leg.c, and with judge_peers in
     * news.c. Others only look whether the peer is lost, and will look again. */
    if (!atomic_exchange_explicit(&peer->lost, true, memory_order_release)) {
        hd_info("the ways to another process are cut: %s", why);
        /* release: `lost`; pairs with hd_net_team_look_for_losses */
        atomic_fetch_add_explicit(&peer->net->losses, 1, memory_order_release);
    }
    /* relaxed: only told to look */
    atomic_store_explicit(&peer->net->has_losses, true, memory_order_relaxed);
}

hd_peer_t *hd_peer_first(hd_net_t *net) {
    hd_lock(&net->lock);
    hd_peer_t *first = net->peers;
    hd_unlock(&net->lock);
    return first;
}

void hd_peer_lose_all(hd_net_t *net, const uint64_t token[2], const char *why) {
    for (hd_peer_t *peer = hd_peer_first(net); peer; peer = peer->next) {
        if (hd_net_same_token(peer->token, token)) {
            hd_peer_lose(peer, why);
        }
    }
}

void hd_peer_part(hd_net_t *net, const uint64_t token[2]) {
    for (hd_peer_t *peer = hd_peer_first(net); peer; peer = peer->next) {
        if (hd_net_same_token(peer->token, token)) {
            /* relaxed: whoever learns it later asks again */
            atomic_store_explicit(&peer->left, true, memory_order_relaxed);
            hd_peer_lose(peer, "it has closed its network");
        }
    }
}

static void on_lost(hd_ucx_link_t *link, const char *why) {
    ((hd_peer_link_t *)link)->broken = true;
    hd_peer_lose(((hd_peer_link_t *)link)->peer, why);
}

bool hd_peer_lives(hd_peer_t *peer) {
    /* relaxed: looked at again */
    return !atomic_load_explicit(&peer->left, memory_order_relaxed) &&
           !hd_net_is_given_up(peer->net) && !hd_net_is_dead(peer->net, peer->token);
}

/* The peer was lost long enough ago that what it sent before has come: the grace is over, and this
 * lane has found nothing more since it saw the loss. The time alone says nothing about a thread
 * that had no processor in it. */
bool hd_peer_is_gone(const hd_peer_t *peer, const hd_net_lane_t *lane, uint64_t now) {
    /* acquire: the time; pairs with hd_peer_lose. The time may be later than `now`, which was read
     * before. */
    if (!peer || !atomic_load_explicit(&peer->lost, memory_order_acquire) ||
        (int64_t)(now - atomic_load_explicit(&peer->lost_at, memory_order_relaxed)) <=
            (int64_t)peer->net->grace_ns) {
        return false;
    }
    uint64_t seen = peer->link[lane->number].seen;
    return seen && lane->turns > seen + HD_NET_QUIET_TURNS &&
           (lane->quiet >= HD_NET_QUIET_TURNS || lane->turns > seen + HD_NET_BUSY_TURNS);
}

uint32_t hd_net_number_of(const hd_net_team_t *team, const hd_peer_t *peer) {
    uint32_t i = 0;
    while (i + 1 < team->n && team->peer[i] != peer) {
        i++;
    }
    return i;
}

/* UCX 1.13 ends the process if it is told to drop a way in which a question for the other end's
 * number, or the answer, waits. So such a way stays, if nothing else is under way in it that a
 * user's buffer is in. */
bool hd_peer_must_stay(const hd_net_lane_t *lane, const hd_peer_t *peer) {
    const hd_peer_link_t *link = &peer->link[lane->number];
    bool stays = link->warmth == HD_WARMING && !link->broken;
    for (const hd_message_t *message = lane->under_way; message && stays; message = message->next) {
        const hd_leg_t *leg = message->leg;
        stays = !leg || leg->team->peer[message->to] != peer || leg->key.class == HD_NET_FORMING ||
                leg->key.class == HD_NET_WARMING;
    }
    return stays;
}

/* --- making ----------------------------------------------------------------------------------- */

static bool is_same(const hd_peer_t *peer, const hd_net_process_t *process) {
    return memcmp(peer->identity, process->identity, sizeof(peer->identity)) == 0;
}

static void discard(hd_peer_t *peer) {
    hd_free(peer->address);
    hd_free(peer);
}

static hd_peer_t *make(hd_net_t *net, const hd_net_process_t *process) {
    hd_net_reach_t reach;
    (void)hd_net_address_parse(process->address, process->bytes, &reach); /* the caller has */
    hd_peer_t *peer = hd_alloc(alignof(hd_peer_t), sizeof(*peer));
    if (!peer) {
        return NULL;
    }
    peer->address = hd_alloc(sizeof(uint64_t), process->bytes);
    if (!peer->address || !hd_gossip_meet(net, reach.token)) {
        discard(peer);
        return NULL;
    }
    peer->address_bytes = process->bytes;
    memcpy(peer->address, process->address, process->bytes);
    memcpy(peer->identity, process->identity, sizeof(peer->identity));
    peer->net = net;
    (void)hd_net_address_parse(peer->address, process->bytes, &reach); /* it points into the copy */
    memcpy(peer->token, reach.token, sizeof(peer->token));
    peer->lanes = reach.lanes;
    peer->who = reach.who;
    peer->far = reach.host != net->host;
    for (uint32_t l = 0; l < peer->lanes; l++) {
        peer->link[l] = (hd_peer_link_t){.ucx = {.lost = on_lost},
                                         .peer = peer,
                                         .address = peer->far ? reach.far[l] : reach.lane[l]};
    }
    peer->watch_address = reach.watch;
    peer->watch_bytes = reach.watch_bytes;
    hd_watch_record_t record;
    if (reach.watch_bytes && hd_watch_parse(&record, reach.watch, reach.watch_bytes)) {
        peer->host = record.host;
    }
    return peer;
}

/* token: of the net that the process has open; NULL: of the last one that was heard of. Of several
 * peers of one process, the latest. */
static hd_peer_t *look_up(hd_net_t *net, const hd_net_process_t *process, const uint64_t *token) {
    hd_peer_t *peer = net->peers;
    while (peer && !(is_same(peer, process) &&
                     (!token || memcmp(peer->token, token, sizeof(peer->token)) == 0))) {
        peer = peer->next;
    }
    return peer;
}

/* May new teams have that peer? Not if its ways are cut, and its process lives. */
static bool serves(hd_peer_t *peer) {
    /* relaxed: one that is lost right now fails the team */
    return peer &&
           (!atomic_load_explicit(&peer->lost, memory_order_relaxed) || !hd_peer_lives(peer));
}

/* Counts ways that have broken one soon after the other. */
static uint32_t breaks_of(const hd_peer_t *old) {
    if (!old) {
        return 0;
    }
    /* relaxed, both: written before it was lost */
    uint64_t lasted = atomic_load_explicit(&old->lost_at, memory_order_relaxed) - old->made_at;
    bool slow = atomic_load_explicit(&old->slow, memory_order_relaxed);
    bool counts = lasted < SOON_NS && !slow;
    return counts ? old->breaks + 1 : 0;
}

hd_peer_t *hd_peer_of(hd_net_t *net, const hd_net_process_t *process) {
    hd_net_reach_t reach;
    hd_net_process_t known = *process;
    if (process->address && !hd_net_address_parse(process->address, process->bytes, &reach)) {
        hd_error("the address of another process is malformed (%zu bytes)", process->bytes);
        return NULL;
    }
    const uint64_t *token = process->address ? reach.token : NULL;
    hd_lock(&net->lock);
    hd_peer_t *old = look_up(net, process, token);
    hd_unlock(&net->lock);
    if (serves(old)) {
        return old;
    }
    if (old) {
        token = old->token;
        known.address = old->address;
        known.bytes = old->address_bytes;
    }
    if (!known.address) {
        hd_error("the address of another process is not known");
        return NULL;
    }
    hd_peer_t *made = make(net, &known); /* allocated outside the lock */
    if (!made) {
        hd_error("no memory for another process");
        return NULL;
    }
    made->made_at = hd_clock_ns();
    made->breaks = breaks_of(old);
    if (made->breaks) {
        /* relaxed: written before it was lost */
        made->broken_at = made->breaks > 1
                              ? old->broken_at
                              : atomic_load_explicit(&old->lost_at, memory_order_relaxed);
    }
    hd_lock(&net->lock);
    hd_peer_t *peer = look_up(net, &known, token);
    if (peer == old) {
        made->next = net->peers;
        net->peers = made;
    }
    hd_unlock(&net->lock);
    if (peer != old) { /* another thread has made it meanwhile */
        discard(made);
        return peer;
    }
    if (hd_net_is_dead(net, made->token)) {
        hd_peer_lose(made, "others have said so");
    }
    return made;
}

hd_peer_t *hd_peer_find(hd_net_t *net, const uint64_t token[2]) {
    hd_lock(&net->lock);
    hd_peer_t *peer = hd_net_peer_with(net, token);
    hd_unlock(&net->lock);
    return peer;
}

/* --- ways ------------------------------------------------------------------------------------- */

/* Before a way is made. UCX opens its descriptors later, where it fails without them, or ends the
 * process; and meanwhile as many others make ways to this one. False: there are too few for one. */
static bool reserve_descriptors(hd_net_lane_t *lane) {
    enum { BESIDE = 8 };
    uint64_t now = hd_clock_ns();
    lane->young = now - lane->linked < YOUNG_NS ? lane->young + 1 : 1;
    lane->linked = now;
    if (hd_descriptors_reserve(2 * lane->young + BESIDE) ||
        hd_descriptors_reserve(HD_NET_WAY_DESCRIPTORS)) {
        return true;
    }
    /* those that are held are lane 0's, whose holder alone lets them go */
    if (lane->number == 0) {
        hd_net_let_go(lane->net);
    }
    return hd_descriptors_reserve(HD_NET_WAY_DESCRIPTORS);
}

const hd_ucx_link_t *hd_peer_link(hd_peer_t *peer, hd_net_lane_t *lane) {
    hd_ucx_link_t *link = &peer->link[lane->number].ucx;
    /* relaxed: see on_lost */
    if (atomic_load_explicit(&peer->lost, memory_order_relaxed)) {
        return NULL;
    }
    if (!link->ep) {
        if (!reserve_descriptors(lane)) {
            on_lost(link, "this process has no descriptors for them (RLIMIT_NOFILE)");
            return NULL;
        }
        if (hd_ucx_connect(&lane->port, peer->far, peer->link[lane->number].address, link) !=
            UCC_OK) {
            on_lost(link, "no endpoint can be made");
            return NULL;
        }
    }
    return link;
}

/* What UCX has not ended yet of ways that are closed. */
typedef struct closing {
    void **request; /* NULL: no memory, and nothing is waited for */
    uint32_t n;
} closing_t;

static void add(closing_t *closing, void *request) {
    if (request && closing->request) {
        closing->request[closing->n++] = request;
    } else if (request) {
        hd_ucx_forget(request);
    }
}

/* Drops the way to a lost peer, and flushes another one. False: the way must stay. */
static bool close_link(hd_net_lane_t *lane, hd_peer_t *peer, closing_t *closing) {
    hd_peer_link_t *link = &peer->link[lane->number];
    /* relaxed: the lane is closed whatever becomes of the peer */
    bool lost = atomic_load_explicit(&peer->lost, memory_order_relaxed);
    bool stays = link->ucx.ep && lost && hd_peer_must_stay(lane, peer);
    add(closing, link->closing);
    link->closing = NULL;
    if (link->ucx.ep && !stays) {
        add(closing, hd_ucx_disconnect(&link->ucx, lost));
    }
    return !stays;
}

/* UCX 1.13.1 ends the other process if a way by TCP breaks while that one still answers to its
 * making, which no flush waits for: so young ways stay for a moment. */
static void let_answer(hd_net_lane_t *lane) {
    while (lane->linked && hd_clock_ns() < lane->linked + LINKED_NS) {
        if (!hd_ucx_progress(&lane->port)) {
            sched_yield();
        }
    }
}

static void await(hd_net_lane_t *lane, closing_t *closing) {
    uint64_t end = hd_clock_ns() + CLOSE_NS;
    while (closing->n && hd_clock_ns() < end) {
        if (!hd_ucx_progress(&lane->port)) {
            sched_yield();
        }
        while (closing->n && hd_ucx_is_over(closing->request[closing->n - 1])) {
            closing->n--;
        }
    }
}

bool hd_peer_close_links(hd_net_t *net, hd_net_lane_t *lane) {
    let_answer(lane);
    hd_peer_t *first = hd_peer_first(net); /* none is added or taken any more */
    uint32_t n = 0;
    for (const hd_peer_t *peer = first; peer; peer = peer->next) {
        n++;
    }
    bool clean = true;
    closing_t closing = {n ? hd_alloc(sizeof(void *), n * sizeof(void *)) : NULL, 0};
    for (hd_peer_t *peer = first; peer; peer = peer->next) {
        clean = close_link(lane, peer, &closing) && clean;
    }
    await(lane, &closing);
    for (const hd_peer_t *peer = first; peer && closing.n; peer = peer->next) {
        clean = clean && !hd_peer_must_stay(lane, peer); /* which one it is, is not known */
    }
    while (closing.n) {
        hd_ucx_forget(closing.request[--closing.n]);
    }
    hd_free(closing.request);
    return clean;
}

void hd_peer_free_all(hd_net_t *net) {
    for (hd_peer_t *next, *peer = net->peers; peer; peer = next) {
        next = peer->next;
        discard(peer);
    }
    net->peers = NULL;
}
