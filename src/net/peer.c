/* peer.c: other processes, and the ways to them. A peer is known by its identity and shared by all teams; a way to one
 * of its lanes is made when something is first sent there. Peers stay until the net is closed: there are as many as
 * there are processes.
 */
#include "net/internal.h"

#include "threads/clock.h"

#include <sched.h>
#include <string.h>

enum { CLOSE_NS = 1000000000, LINKED_NS = 50000000 };

static bool is_same(const hd_peer_t *peer, const hd_net_process_t *process) {
    return memcmp(peer->identity, process->identity, sizeof(peer->identity)) == 0;
}

void hd_peer_lose(hd_peer_t *peer, const char *why) {
    /* relaxed: two lanes may write the time, and either will do */
    if (!atomic_load_explicit(&peer->lost, memory_order_relaxed)) {
        atomic_store_explicit(&peer->lost_at, hd_clock_ns(), memory_order_relaxed);
    }
    /* release: the time; pairs with is_gone and with abandon in leg.c. Others only look whether it is lost, and will
       look again. */
    if (!atomic_exchange_explicit(&peer->lost, true, memory_order_release)) {
        hd_info("another process can't be reached any more: %s", why);
    }
    /* relaxed: only told to look */
    atomic_store_explicit(&peer->net->has_losses, true, memory_order_relaxed);
}

static void on_lost(hd_ucx_link_t *link, const char *why) {
    ((hd_peer_link_t *)link)->broken = true;
    hd_peer_lose(((hd_peer_link_t *)link)->peer, why);
}

/* Lost for long enough that what it sent before has come: a while ago, and this lane has found nothing more since it saw
 * the loss. The time alone says nothing about a thread that had no processor in it. */
bool hd_peer_is_gone(const hd_peer_t *peer, const hd_net_lane_t *lane, uint64_t now) {
    /* acquire: the time; pairs with hd_peer_lose. The time may be later than `now`, which was read before. */
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

static hd_peer_t *one_that_is_gone(const hd_net_team_t *team, const hd_net_lane_t *lane,
                                   uint64_t now) {
    for (uint32_t i = 0; i < team->n; i++) {
        if (hd_peer_is_gone(team->peer[i], lane, now)) {
            return team->peer[i];
        }
    }
    return NULL;
}

static hd_peer_t *gone_of(const hd_message_t *r, const hd_leg_t *leg, const hd_net_lane_t *lane,
                          uint64_t now) {
    for (; r; r = r->next) {
        if (r->leg == leg && hd_peer_is_gone(leg->team->peer[r->to], lane, now)) {
            return leg->team->peer[r->to];
        }
    }
    return NULL;
}

/* A process that is gone, of which this leg waits for a message, or to which one is to be sent or is being sent for it;
 * NULL: none. A team that forms needs all. */
static hd_peer_t *needed_and_gone(const hd_leg_t *leg, const hd_net_lane_t *lane, uint64_t now) {
    hd_peer_t *gone = leg->bereft && hd_peer_is_gone(leg->bereft, lane, now) ? leg->bereft : NULL;
    if (!gone && leg->key.class == HD_NET_FORMING) {
        gone = one_that_is_gone(leg->team, lane, now);
    }
    for (const hd_expected_t *e = leg->expected; e && !gone; e = e->next) {
        gone = hd_peer_is_gone(leg->team->peer[e->source], lane, now) ? leg->team->peer[e->source]
                                                                      : NULL;
    }
    if (!gone && leg->under_way) {
        gone = gone_of(lane->under_way, leg, lane, now);
        gone = gone ? gone : gone_of(hd_leg_tl(leg)->held, leg, lane, now);
    }
    return gone;
}

/* UCX 1.13 ends the process if it is told to drop a way in which a question for the other end's number, or the answer,
 * waits. So such a way stays, if nothing else is under way in it that a user's buffer is in. */
static bool must_stay(const hd_net_lane_t *lane, const hd_peer_t *peer) {
    const hd_peer_link_t *link = &peer->link[lane->number];
    bool stays = link->warmth == 1 && !link->broken;
    for (const hd_message_t *r = lane->under_way; r && stays; r = r->next) {
        const hd_leg_t *leg = r->leg;
        stays = !leg || leg->team->peer[r->to] != peer || leg->key.class == HD_NET_FORMING ||
                leg->key.class == HD_NET_WARMING;
    }
    return stays;
}

/* Notes who is lost. What is under way on a way that is cut ends, and its buffers are free, also if the other process is
 * alive. */
static void cut(hd_net_lane_t *lane, uint64_t now) {
    hd_lock(&lane->net->lock);
    hd_peer_t *peer = lane->net->peers; /* they stay; others come before this one */
    hd_unlock(&lane->net->lock);
    for (; peer; peer = peer->next) {
        hd_peer_link_t *link = &peer->link[lane->number];
        /* relaxed: looked at again */
        if (!link->seen && atomic_load_explicit(&peer->lost, memory_order_relaxed)) {
            link->seen = lane->turns;
        }
        if (!lane->port.worker || !hd_peer_is_gone(peer, lane, now)) {
            continue;
        }
        if (lane->number == 0) {
            hd_net_judge(lane->net, peer, now);
        }
        link->noticed = link->noticed ? link->noticed : lane->turns;
        if (link->ucx.ep && !must_stay(lane, peer)) {
            link->closing = hd_ucx_disconnect(&link->ucx, true);
        } else if (link->closing && hd_ucx_is_over(link->closing)) {
            link->closing = NULL;
        }
    }
}

/* A process that has done all its part in a team may end, and take its connections with it: who is lost fails the
 * teams that still need it, and no others. Not at once: what it sent before may come on other connections, such as a
 * last message, or why it went. */
void hd_peer_tell_losses(hd_net_lane_t *lane) {
    uint64_t now = hd_clock_ns();
    if (now - lane->mourned < HD_NET_MOURN_MS * UINT64_C(1000000)) {
        return;
    }
    lane->mourned = now;
    if (lane->number == 0) {
        hd_net_decide(lane->net, now);
    }
    cut(lane, now);
    for (hd_leg_t *leg = lane->legs; leg; leg = leg->next) {
        if (leg->failure != UCC_OK || hd_net_team_failure(leg->team) != UCC_OK) {
            continue;
        }
        hd_peer_t *gone = needed_and_gone(leg, lane, now);
        if (gone) {
            hd_error("process %u of a team of %u has gone, and %s needs it",
                     hd_net_number_of(leg->team, gone), leg->team->n, hd_type_name(leg->call.type));
            hd_net_accuse(lane->net, gone);
            hd_leg_fail(leg, UCC_ERR_IO_ERROR, true);
        }
    }
}

static hd_peer_t *make(hd_net_t *net, const hd_net_process_t *process) {
    hd_net_reach_t reach;
    hd_peer_t *peer = hd_alloc(alignof(hd_peer_t), sizeof(*peer));
    if (!peer) {
        return NULL;
    }
    peer->address = hd_alloc(sizeof(uint64_t), process->bytes);
    if (!peer->address) {
        hd_free(peer);
        return NULL;
    }
    memcpy(peer->address, process->address, process->bytes);
    memcpy(peer->identity, process->identity, sizeof(peer->identity));
    peer->net = net;
    (void)hd_net_address_parse(peer->address, process->bytes, &reach); /* the caller has */
    memcpy(peer->token, reach.token, sizeof(peer->token));
    peer->lanes = reach.lanes;
    for (uint32_t l = 0; l < peer->lanes; l++) {
        peer->link[l] =
            (hd_peer_link_t){.ucx = {.lost = on_lost}, .peer = peer, .address = reach.lane[l]};
    }
    peer->watch_address = reach.watch;
    peer->watch_bytes = reach.watch_bytes;
    hd_watch_record_t record;
    if (reach.watch_bytes && hd_watch_parse(&record, reach.watch, reach.watch_bytes)) {
        peer->host = record.host;
    }
    return peer;
}

/* token: of its net; NULL: of the last one that was heard of. */
static hd_peer_t *look_up(hd_net_t *net, const hd_net_process_t *process, const uint64_t *token) {
    hd_peer_t *peer = net->peers;
    while (peer && !(is_same(peer, process) &&
                     (!token || memcmp(peer->token, token, sizeof(peer->token)) == 0))) {
        peer = peer->next;
    }
    return peer;
}

static void discard(hd_peer_t *peer) {
    hd_free(peer->address);
    hd_free(peer);
}

hd_peer_t *hd_peer_of(hd_net_t *net, const hd_net_process_t *process) {
    hd_net_reach_t reach;
    if (process->address && !hd_net_address_parse(process->address, process->bytes, &reach)) {
        hd_error("the address of another process is malformed (%zu bytes)", process->bytes);
        return NULL;
    }
    const uint64_t *token = process->address ? reach.token : NULL;
    hd_lock(&net->lock);
    hd_peer_t *peer = look_up(net, process, token);
    hd_unlock(&net->lock);
    if (peer) {
        return peer;
    }
    if (!process->address) {
        hd_error("the address of another process is not known");
        return NULL;
    }
    hd_peer_t *made = make(net, process); /* allocated outside the lock */
    if (!made) {
        hd_error("no memory for another process");
        return NULL;
    }
    hd_lock(&net->lock);
    peer = look_up(net, process, token);
    if (!peer) {
        made->next = net->peers;
        net->peers = made;
    }
    hd_unlock(&net->lock);
    if (peer) {
        discard(made);
        return peer;
    }
    if (hd_net_is_dead(net, made->token)) {
        hd_peer_lose(made, "others have said so");
    }
    return made;
}

const hd_ucx_link_t *hd_peer_link(hd_peer_t *peer, hd_net_lane_t *lane) {
    hd_ucx_link_t *link = &peer->link[lane->number].ucx;
    /* relaxed: see on_lost */
    if (atomic_load_explicit(&peer->lost, memory_order_relaxed)) {
        return NULL;
    }
    if (!link->ep) {
        if (hd_ucx_connect(&lane->port, peer->link[lane->number].address, link) != UCC_OK) {
            on_lost(link, "no endpoint can be made");
            return NULL;
        }
        lane->linked = hd_clock_ns();
    }
    return link;
}

/* Ways to lost peers are dropped, others flushed. UCX 1.13.1 ends the other process if a way by TCP breaks while that one
 * still answers to its making, which no flush waits for: so young ones stay for a moment. */
bool hd_peer_close_links(hd_net_t *net, hd_net_lane_t *lane) {
    while (lane->linked && hd_clock_ns() < lane->linked + LINKED_NS) {
        if (!hd_ucx_progress(&lane->port)) {
            sched_yield();
        }
    }
    uint64_t end = hd_clock_ns() + CLOSE_NS;
    uint32_t n = 0, closing = 0;
    hd_lock(&net->lock);
    hd_peer_t *first = net->peers; /* none is added or taken any more */
    hd_unlock(&net->lock);
    for (hd_peer_t *peer = first; peer; peer = peer->next) {
        n++;
    }
    bool clean = true;
    void **request = n ? hd_alloc(sizeof(void *), n * sizeof(*request)) : NULL;
    for (hd_peer_t *peer = first; peer; peer = peer->next) {
        hd_ucx_link_t *link = &peer->link[lane->number].ucx;
        void *before = peer->link[lane->number].closing;
        peer->link[lane->number].closing = NULL;
        if (before && request) {
            request[closing++] = before;
        } else if (before) {
            hd_ucx_forget(before);
        }
        bool lost = atomic_load_explicit(&peer->lost, memory_order_relaxed);
        clean = clean && !(link->ep && lost && must_stay(lane, peer));
        if (link->ep && !(lost && must_stay(lane, peer))) {
            void *over = hd_ucx_disconnect(link, lost);
            if (over && request) {
                request[closing++] = over;
            } else if (over) {
                hd_ucx_forget(over);
            }
        }
    }
    while (closing && hd_clock_ns() < end) {
        if (!hd_ucx_progress(&lane->port)) {
            sched_yield();
        }
        while (closing && hd_ucx_is_over(request[closing - 1])) {
            closing--;
        }
    }
    for (const hd_peer_t *peer = first; peer && closing; peer = peer->next) {
        clean = clean && !must_stay(lane, peer); /* which one it is, is not known */
    }
    while (closing) {
        hd_ucx_forget(request[--closing]);
    }
    hd_free(request);
    return clean;
}

void hd_peer_free_all(hd_net_t *net) {
    for (hd_peer_t *next, *peer = net->peers; peer; peer = next) {
        next = peer->next;
        discard(peer);
    }
    net->peers = NULL;
}
