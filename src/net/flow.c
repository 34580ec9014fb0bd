/* flow.c: how far a process may run ahead of another, which never makes anybody wait inside the
 * net.
 *
 * NUMBERED exchanges. A process has consumed all numbers below its FLOOR: the lowest of its open
 * legs, or, if there is none, what follows the highest one. Every message tells it. A message of
 * number k goes to a peer only if fewer than HD_NET_AHEAD numbers below k were sent to that peer
 * and are not below its floor; else it is held back. So the lowest number that is not complete
 * anywhere is never held back, and, by induction, nothing is for ever.
 *   A peer that sends nothing tells its floor when it is asked: from half of that distance on,
 * messages carry HD_WIRE_WANTED with the lowest number that is not consumed, and the answer comes
 * as soon as the floor is above that. What is still held back after an answer asks again.
 *
 * MATCHED exchanges may run ahead without bound, but not their data: a process counts the bytes
 * that it has sent eagerly to a peer, and the peer tells how many of them legs have taken. With
 * more than a quota out, further messages are rendezvous, whose data stays with the sender.
 * (Numbered ones have a quota, too, a larger one.) A peer that sends nothing tells what it has
 * taken whenever that is half of the smaller quota.
 *
 * Legs send by hd_flow_send, and say what they have taken; match.c says what headers tell; a lane's
 * turn pays what is owed. All of it under the lane's lock.
 */
#include "net/internal.h"

#include <string.h>

enum { HEAD_COST = 64 }; /* of a message without bytes: it takes room, too */

/* A message that fills the largest quota alone counts as that: what is out is then always less than
 * two of them, so that counts modulo 2^32 can be told apart whatever has gone before. */
static uint32_t cost(const hd_wire_t *wire) {
    uint64_t most = HD_NET_NUMBERED_QUOTA;
    return (uint32_t)(wire->bytes < most ? wire->bytes : most) + HEAD_COST;
}

/* --- to a peer -------------------------------------------------------------------------------- */

static bool allows(const hd_net_team_peer_t *peer, const hd_net_key_t *key) {
    uint32_t below = 0;
    if (key->class != HD_NET_NUMBERED || peer->n_sent < HD_NET_AHEAD) {
        return true;
    }
    for (uint32_t i = 0; i < peer->n_sent; i++) {
        below += peer->sent[i] < key->number;
    }
    return below < HD_NET_AHEAD;
}

static void note(hd_net_team_peer_t *peer, uint64_t number) {
    if (number < peer->floor) {
        return;
    }
    for (uint32_t i = peer->n_sent; i-- > 0;) { /* mostly the last one */
        if (peer->sent[i] == number) {
            return;
        }
    }
    if (peer->n_sent == peer->room) {
        uint32_t room = peer->room ? 2 * peer->room : 2 * HD_NET_AHEAD;
        uint64_t *more = hd_alloc(HD_LINE, room * sizeof(*more));
        if (!more) {
            return; /* it runs further ahead */
        }
        if (peer->n_sent) {
            memcpy(more, peer->sent, peer->n_sent * sizeof(*more));
        }
        hd_free(peer->sent);
        peer->sent = more;
        peer->room = room;
    }
    peer->sent[peer->n_sent++] = number;
}

static uint64_t lowest(const hd_net_team_peer_t *peer) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < peer->n_sent; i++) {
        least = peer->sent[i] < least ? peer->sent[i] : least;
    }
    return least;
}

/* Writes into a header what every header says of this process's progress. */
static void tell(hd_net_team_peer_t *peer, hd_wire_t *wire) {
    wire->floor = peer->tl->floor;
    wire->taken = peer->in;
    peer->in_told = peer->in;
    if (peer->wants && peer->tl->floor > peer->wanted) {
        peer->wants = false;
    }
}

/* When so many bytes are out that a peer has not taken, nothing more goes to it eagerly. */
static const uint32_t quota[HD_NET_N_CLASSES] = {[HD_NET_FORMING] = HD_NET_MATCHED_QUOTA,
                                                 [HD_NET_NUMBERED] = HD_NET_NUMBERED_QUOTA,
                                                 [HD_NET_TAG] = HD_NET_MATCHED_QUOTA,
                                                 [HD_NET_INIT] = HD_NET_MATCHED_QUOTA,
                                                 [HD_NET_PERSISTENT] = HD_NET_MATCHED_QUOTA,
                                                 [HD_NET_ACTIVE_SET] = HD_NET_MATCHED_QUOTA,
                                                 [HD_NET_WARMING] = 0};

/* Counts a message that goes to the peer, and fills in what its header says of the flow. True: the
 * message has to be a rendezvous, whatever UCX thinks. */
static bool count_out(hd_net_team_peer_t *peer, hd_wire_t *wire) {
    bool numbered = wire->class == HD_NET_NUMBERED;
    uint32_t out = peer->out - peer->out_taken;
    tell(peer, wire);
    if (numbered) {
        note(peer, wire->number);
        if (peer->n_sent >= HD_NET_AHEAD / 2) {
            uint64_t least = lowest(peer);
            uint64_t apart = wire->number > least ? wire->number - least : least - wire->number;
            wire->flags |= HD_WIRE_WANTED;
            wire->wanted = apart <= INT16_MAX ? least : wire->number;
        }
    }
    if (wire->bytes && out >= quota[wire->class]) {
        wire->flags |= HD_WIRE_FORCED;
        return true;
    }
    peer->out += cost(wire);
    return false;
}

/* The peer will be told, or asked, in this turn (hd_flow_pay). */
static void owe(hd_net_team_peer_t *peer) {
    if (!peer->owed) {
        hd_net_lane_t *lane = hd_net_team_lane_of(peer->tl);
        peer->owed = true;
        peer->next_owed = lane->owed;
        lane->owed = peer;
    }
}

static void send_now(hd_net_team_lane_t *tl, hd_message_t *message) {
    bool rendezvous = count_out(&tl->peer[message->to], &message->wire);
    hd_message_send_wire(tl, message, rendezvous ? HD_UCX_RENDEZVOUS : HD_UCX_EITHER);
}

void hd_flow_send(hd_message_t *message) {
    hd_net_team_lane_t *tl = hd_leg_tl(message->leg);
    if (allows(&tl->peer[message->to], &message->leg->key)) {
        send_now(tl, message);
    } else {
        hd_message_link(&tl->held, message);
        owe(&tl->peer[message->to]); /* which asks how far the peer is */
    }
}

/* --- from a peer ------------------------------------------------------------------------------ */

static void drop_consumed(hd_net_team_peer_t *peer) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < peer->n_sent; i++) {
        if (peer->sent[i] >= peer->floor) {
            peer->sent[kept++] = peer->sent[i];
        }
    }
    peer->n_sent = kept;
}

void hd_flow_in(hd_net_team_peer_t *peer, const hd_wire_t *wire) {
    /* Messages may overtake each other where UCX uses several ways: an older word changes
     * nothing. */
    if ((int32_t)(wire->taken - peer->out_taken) > 0) {
        peer->out_taken = wire->taken;
    }
    if (wire->floor > peer->floor) {
        peer->floor = wire->floor;
        drop_consumed(peer);
        if (peer->tl->held) {
            owe(peer); /* what is held back goes on in this turn: not from inside UCX */
        }
    }
    if (wire->flags & HD_WIRE_WANTED) {
        peer->wants = true;
        peer->wanted = wire->wanted;
        if (peer->tl->floor > peer->wanted) {
            owe(peer);
        }
    }
}

void hd_flow_taken(hd_net_team_peer_t *peer, const hd_wire_t *wire) {
    if (wire->flags & HD_WIRE_FORCED) {
        return;
    }
    peer->in += cost(wire);
    if (peer->in - peer->in_told > HD_NET_MATCHED_QUOTA / 2) {
        owe(peer);
    }
}

void hd_flow_opened(hd_net_team_lane_t *tl, const hd_leg_t *leg) {
    if (leg->key.class == HD_NET_NUMBERED) {
        tl->n_numbered++;
        if (leg->key.number >= tl->highest) {
            tl->highest = leg->key.number + 1;
        }
    }
}

static uint64_t floor_of(const hd_net_team_lane_t *tl) {
    uint64_t least = tl->highest;
    for (uint32_t b = 0; b < HD_NET_BUCKETS && tl->n_numbered; b++) {
        for (const hd_leg_t *leg = tl->open[b]; leg; leg = leg->next_open) {
            if (leg->key.class == HD_NET_NUMBERED && leg->key.number < least) {
                least = leg->key.number;
            }
        }
    }
    return least;
}

void hd_flow_closed(hd_net_team_lane_t *tl, const hd_leg_t *leg) {
    if (leg->key.class != HD_NET_NUMBERED) {
        return;
    }
    tl->n_numbered--;
    uint64_t floor = floor_of(tl);
    if (floor <= tl->floor) {
        return;
    }
    tl->floor = floor;
    for (uint32_t i = 0; i < tl->team->n; i++) {
        hd_net_team_peer_t *peer = &tl->peer[i];
        if (peer->wants && floor > peer->wanted) {
            owe(peer);
        }
    }
}

/* Sends what was held back for that peer and may go now. True: something is left. */
static bool resume(hd_net_team_lane_t *tl, const hd_net_team_peer_t *peer) {
    bool left = false;
    hd_message_t *next;
    for (hd_message_t *message = tl->held; message; message = next) {
        next = message->next;
        if (&tl->peer[message->to] != peer) {
            continue;
        }
        if (allows(peer, &message->leg->key)) {
            hd_message_unlink(message);
            send_now(tl, message);
        } else {
            left = true;
        }
    }
    return left;
}

static void pay(hd_net_team_peer_t *peer) {
    hd_net_team_lane_t *tl = peer->tl;
    bool asks = tl->held && resume(tl, peer);
    bool wants = peer->wants && tl->floor > peer->wanted;
    bool took = peer->in - peer->in_told > HD_NET_MATCHED_QUOTA / 2;
    if (!(wants || took || asks) || hd_net_team_failure(tl->team) != UCC_OK) {
        return;
    }
    hd_wire_t wire = {.kind = HD_WIRE_CREDIT, .class = HD_NET_NUMBERED};
    tell(peer, &wire);
    if (asks) {
        wire.flags = HD_WIRE_WANTED;
        wire.number = wire.wanted = lowest(peer);
    }
    hd_message_tell(tl, (uint32_t)(peer - tl->peer), &wire);
}

void hd_flow_pay(hd_net_lane_t *lane) {
    hd_net_team_peer_t *owed = lane->owed;
    lane->owed = NULL; /* who is added meanwhile has its turn next time */
    while (owed) {
        hd_net_team_peer_t *peer = owed;
        owed = peer->next_owed;
        peer->owed = false;
        pay(peer);
    }
}

void hd_flow_forget(hd_net_team_lane_t *tl) {
    for (hd_net_team_peer_t **at = &hd_net_team_lane_of(tl)->owed; *at;) {
        if ((*at)->tl == tl) {
            *at = (*at)->next_owed;
        } else {
            at = &(*at)->next_owed;
        }
    }
    for (uint32_t i = 0; i < tl->team->n; i++) {
        hd_free(tl->peer[i].sent);
    }
}
