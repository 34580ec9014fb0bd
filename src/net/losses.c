/* losses.c: what follows in a lane from the loss of a process. While there are losses, each turn of
 * a lane calls hd_net_tell_losses: now and then it notes who is lost, cuts the ways to those, and
 * fails the legs that need them. What has become of them, and who is to go of processes that have
 * lost each other, news.c finds out.
 */
#include "net/internal.h"

static hd_peer_t *one_that_is_gone(const hd_net_team_t *team, const hd_net_lane_t *lane,
                                   uint64_t now) {
    for (uint32_t i = 0; i < team->n; i++) {
        if (hd_peer_is_gone(team->peer[i], lane, now)) {
            return team->peer[i];
        }
    }
    return NULL;
}

static hd_peer_t *gone_of(const hd_message_t *message, const hd_leg_t *leg,
                          const hd_net_lane_t *lane, uint64_t now) {
    for (; message; message = message->next) {
        if (message->leg == leg && hd_peer_is_gone(leg->team->peer[message->to], lane, now)) {
            return leg->team->peer[message->to];
        }
    }
    return NULL;
}

/* Returns a process that is gone and that the leg needs: it waits for a message of that process, or
 * has to send one to it. NULL: there is none. A team that forms needs all. */
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

/* Fails the leg if it waits for a message of a process that has left the team before it. */
static void miss_leaver(hd_leg_t *leg, uint64_t now) {
    for (const hd_expected_t *e = leg->expected; e; e = e->next) {
        if (hd_net_team_lacks(leg->team, e->source, &leg->key, now)) {
            hd_error("%s: process %u has left the team before it, process %u waits in vain",
                     hd_type_name(leg->call.type), e->source, leg->team->me);
            hd_leg_fail(leg, UCC_ERR_NOT_FOUND, true);
            return;
        }
    }
}

/* Fails the leg of a team that forms, if nobody comes any more. Who has come before may have sent
 * what is still on its way. */
static void miss_comers(hd_leg_t *leg, uint64_t now) {
    hd_net_team_t *team = leg->team;
    if (leg->key.class != HD_NET_FORMING || !hd_net_is_agreed(team->net, &team->over)) {
        return;
    }
    team->over_since = team->over_since ? team->over_since : now;
    if (now - team->over_since >= team->net->grace_ns) {
        hd_error("a team of %u processes can't be made of those that are left: others agree "
                 "without it",
                 team->n);
        hd_leg_fail(leg, UCC_ERR_NOT_FOUND, true);
    }
}

/* Notes who is lost, and cuts the ways to those that are gone. What is under way on a way that is
 * cut ends, and its buffers are free, also if the other process is alive. */
static void cut(hd_net_lane_t *lane, uint64_t now) {
    for (hd_peer_t *peer = hd_peer_first(lane->net); peer; peer = peer->next) {
        hd_peer_link_t *link = &peer->link[lane->number];
        /* relaxed: looked at again */
        if (!link->seen && atomic_load_explicit(&peer->lost, memory_order_relaxed)) {
            link->seen = lane->turns;
        }
        if (!lane->port.worker || !hd_peer_is_gone(peer, lane, now)) {
            continue;
        }
        link->noticed = link->noticed ? link->noticed : lane->turns;
        if (link->ucx.ep && !hd_peer_must_stay(lane, peer)) {
            link->closing = hd_ucx_disconnect(&link->ucx, true);
        } else if (link->closing && hd_ucx_is_over(link->closing)) {
            link->closing = NULL;
        }
    }
}

/* A process that has done all its part in a team may end, and take its connections with it: who is
 * lost fails the teams that still need it, and no others. Not at once: what it sent before may come
 * on other connections, such as a last message, or why it went. */
void hd_net_tell_losses(hd_net_lane_t *lane) {
    uint64_t now = hd_clock_ns();
    if (now - lane->mourned < HD_NET_MOURN_MS * UINT64_C(1000000)) {
        return;
    }
    lane->mourned = now;
    /* relaxed: a count, written here alone while it is wanted */
    atomic_fetch_add_explicit(&lane->listened, 1, memory_order_relaxed);
    if (lane->number == 0) {
        hd_net_judge(lane->net, now);
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
            hd_net_miss(lane->net, gone);
            hd_leg_fail(leg, UCC_ERR_IO_ERROR, true);
        } else {
            miss_leaver(leg, now);
            miss_comers(leg, now);
        }
    }
}
