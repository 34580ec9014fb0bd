/* peer.c: other processes, and the ways to them. A peer is known by its identity and shared by all teams; a way to one
 * of its lanes is made when something is first sent there. Peers stay until the net is closed: there are as many as
 * there are processes.
 */
#include "net/internal.h"

#include "threads/clock.h"

#include <sched.h>
#include <string.h>

enum { CLOSE_NS = 1000000000 };

static bool is_same(const hd_peer_t *peer, const hd_net_process_t *process) {
    return memcmp(peer->identity, process->identity, sizeof(peer->identity)) == 0;
}

void hd_peer_lose(hd_peer_t *peer, hd_net_lane_t *lane, const char *why) {
    /* relaxed: two lanes may write the time, and either will do */
    if (!atomic_load_explicit(&peer->lost, memory_order_relaxed)) {
        atomic_store_explicit(&peer->lost_at, hd_clock_ns(), memory_order_relaxed);
    }
    /* release: the time; pairs with abandon in leg.c. Others only look whether it is lost, and will look again. */
    if (!atomic_exchange_explicit(&peer->lost, true, memory_order_release)) {
        hd_info("another process can't be reached any more: %s", why);
    }
    (void)lane;
    /* relaxed: only told to look */
    atomic_store_explicit(&peer->net->has_losses, true, memory_order_relaxed);
}

static void on_lost(hd_ucx_link_t *link, const char *why) {
    hd_peer_link_t *mine = (hd_peer_link_t *)link;
    hd_peer_t *peer = mine->peer;
    hd_peer_lose(peer, &peer->net->lane[mine - peer->link], why);
}

/* Lost for long enough that what it sent before has come. */
static bool is_gone(const hd_peer_t *peer, uint64_t now) {
    /* acquire: the time; pairs with hd_peer_lose */
    return peer && atomic_load_explicit(&peer->lost, memory_order_acquire) &&
           now - atomic_load_explicit(&peer->lost_at, memory_order_relaxed) >
               HD_NET_GRACE_MS * UINT64_C(1000000);
}

/* Is there a message that this leg waits for, or that is to be sent or is being sent for it, of a process that is
 * gone? */
static bool needs_the_gone(const hd_leg_t *leg, const hd_net_lane_t *lane, uint64_t now) {
    const hd_net_team_t *team = leg->team;
    for (const hd_expected_t *e = leg->expected; e; e = e->next) {
        if (is_gone(team->peer[e->source], now)) {
            return true;
        }
    }
    for (const hd_message_t *r = leg->under_way ? lane->under_way : NULL; r; r = r->next) {
        if (r->leg == leg && is_gone(team->peer[r->to], now)) {
            return true;
        }
    }
    for (const hd_message_t *r = leg->under_way ? hd_leg_tl(leg)->held : NULL; r; r = r->next) {
        if (r->leg == leg && is_gone(team->peer[r->to], now)) {
            return true;
        }
    }
    return leg->bereft;
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
    for (hd_leg_t *leg = lane->legs; leg; leg = leg->next) {
        if (leg->failure == UCC_OK && hd_net_team_failure(leg->team) == UCC_OK &&
            needs_the_gone(leg, lane, now)) {
            hd_error("a process of a team has gone, and %s needs it", hd_type_name(leg->call.type));
            hd_leg_fail(leg, UCC_ERR_IO_ERROR, true);
        }
    }
}

static hd_peer_t *make(hd_net_t *net, const hd_net_process_t *process) {
    const void *at[HD_NET_MOST_LANES];
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
    peer->lanes = hd_net_address_parse(peer->address, process->bytes, at);
    for (uint32_t l = 0; l < peer->lanes; l++) {
        peer->link[l] = (hd_peer_link_t){.ucx = {.lost = on_lost}, .peer = peer, .address = at[l]};
    }
    return peer;
}

static hd_peer_t *look_up(hd_net_t *net, const hd_net_process_t *process) {
    hd_peer_t *peer = net->peers;
    while (peer && !is_same(peer, process)) {
        peer = peer->next;
    }
    return peer;
}

static void discard(hd_peer_t *peer) {
    hd_free(peer->address);
    hd_free(peer);
}

hd_peer_t *hd_peer_of(hd_net_t *net, const hd_net_process_t *process) {
    const void *at[HD_NET_MOST_LANES];
    hd_lock(&net->lock);
    hd_peer_t *peer = look_up(net, process);
    hd_unlock(&net->lock);
    if (peer) {
        return peer;
    }
    if (!process->address || !hd_net_address_parse(process->address, process->bytes, at)) {
        hd_error("the address of another process is malformed (%zu bytes)", process->bytes);
        return NULL;
    }
    hd_peer_t *made = make(net, process); /* allocated outside the lock */
    if (!made) {
        hd_error("no memory for another process");
        return NULL;
    }
    hd_lock(&net->lock);
    peer = look_up(net, process);
    if (!peer) {
        made->next = net->peers;
        net->peers = made;
    }
    hd_unlock(&net->lock);
    if (peer) {
        discard(made);
        return peer;
    }
    return made;
}

const hd_ucx_link_t *hd_peer_link(hd_peer_t *peer, hd_net_lane_t *lane) {
    hd_ucx_link_t *link = &peer->link[lane->number].ucx;
    /* relaxed: see on_lost */
    if (atomic_load_explicit(&peer->lost, memory_order_relaxed)) {
        return NULL;
    }
    if (!link->ep &&
        hd_ucx_connect(&lane->port, peer->link[lane->number].address, link) != UCC_OK) {
        on_lost(link, "no endpoint can be made");
        return NULL;
    }
    return link;
}

/* Ways to lost peers are dropped, others flushed. */
void hd_peer_close_links(hd_net_t *net, hd_net_lane_t *lane) {
    uint64_t end = hd_clock_ns() + CLOSE_NS;
    uint32_t n = 0, closing = 0;
    hd_lock(&net->lock);
    hd_peer_t *first = net->peers; /* none is added or taken any more */
    hd_unlock(&net->lock);
    for (hd_peer_t *peer = first; peer; peer = peer->next) {
        n++;
    }
    void **request = n ? hd_alloc(sizeof(void *), n * sizeof(*request)) : NULL;
    for (hd_peer_t *peer = first; peer; peer = peer->next) {
        hd_ucx_link_t *link = &peer->link[lane->number].ucx;
        if (link->ep) {
            bool lost = atomic_load_explicit(&peer->lost, memory_order_relaxed);
            void *over = hd_ucx_disconnect(link, lost);
            if (over && request) {
                request[closing++] = over;
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
    hd_free(request);
}

void hd_peer_free_all(hd_net_t *net) {
    for (hd_peer_t *next, *peer = net->peers; peer; peer = next) {
        next = peer->next;
        discard(peer);
    }
    net->peers = NULL;
}
