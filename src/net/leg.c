/* leg.c: sending and receiving for a leg, and how a leg goes on and ends.
 *
 * A leg's step is its owner's, which calls hd_leg_go; that runs the leg's algorithm, by the row of
 * its family, and the algorithm sends and receives by the functions below. What comes from UCX
 * comes by match.c to hd_leg_take.
 *
 * leg->under_way counts what UCX, or the flow control, still has of the leg: only when it is 0 the
 * leg ends, whatever happened. leg->receiving counts messages that are expected and not in place:
 * the algorithm waits for those.
 *
 * All of it under the lock of the leg's lane.
 */
#include "net/internal.h"

#include <string.h>

/* --- what is expected ------------------------------------------------------------------------- */

static hd_expected_t *expected_get(hd_net_lane_t *lane) {
    hd_expected_t *e = lane->free_expected;
    if (e) {
        lane->free_expected = e->next;
        return e;
    }
    return hd_alloc(alignof(hd_expected_t), sizeof(*e));
}

static void expected_put(hd_net_lane_t *lane, hd_expected_t *e) {
    e->next = lane->free_expected;
    lane->free_expected = e;
}

void hd_leg_clear(hd_net_lane_t *lane) {
    for (hd_expected_t *next, *e = lane->free_expected; e; e = next) {
        next = e->next;
        hd_free(e);
    }
    lane->free_expected = NULL;
}

static hd_net_lane_t *lane_of(const hd_leg_t *leg) {
    return &leg->team->net->lane[leg->lane];
}

/* --- failure ---------------------------------------------------------------------------------- */

void hd_leg_fail(hd_leg_t *leg, ucc_status_t why, bool tell) {
    if (leg->failure == UCC_OK) {
        leg->failure = why;
    }
    if (tell) {
        hd_net_team_fail(leg->team, why);
    }
}

/* One of the leg's messages is over (hd_message.over). What can't be received stays expected. */
static void on_over(hd_message_t *message, ucc_status_t status) {
    hd_leg_t *leg = message->leg;
    hd_peer_t *peer = leg->team->peer[message->to];
    ucc_status_t failure = hd_net_team_failure(leg->team);
    leg->under_way--;
    if (status == UCC_ERR_IO_ERROR && failure == UCC_OK) {
        hd_peer_lose(peer, "a message was lost");
        leg->bereft = peer; /* and fails soon */
    } else if (status != UCC_OK && leg->failure == UCC_OK) {
        hd_leg_fail(leg, failure == UCC_OK ? status : failure, failure == UCC_OK);
    }
    if (!message->receives || status == UCC_ERR_IO_ERROR) {
        return;
    }
    if (hd_trace_is_on()) {
        hd_trace_taken(leg, hd_ticks(), message->trace, message->wire.bytes, message->to);
    }
    if (leg->receiving > 0) {
        leg->receiving--;
    }
}

/* UCX still has the message, but the leg does not wait for its end. */
static void disown(hd_message_t *message) {
    message->leg->under_way--;
    message->leg = NULL;
    message->over = NULL;
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Sends one piece as it lies; several, if they are small, are packed in memory of the message's. */
static bool set_pieces(hd_message_t *message, const hd_net_piece_t *piece, uint32_t n,
                       size_t bytes) {
    if (bytes == 0) {
        message->n = 0;
        return true;
    }
    if (n == 1) {
        message->own = *piece;
    } else if (bytes <= HD_NET_PACKED) {
        message->kept = hd_alloc(HD_LINE, bytes);
        message->release = hd_free;
        if (!message->kept) {
            return false;
        }
        char *at = message->kept;
        for (uint32_t i = 0; i < n; i++) {
            if (piece[i].bytes) {
                memcpy(at, piece[i].at, piece[i].bytes);
                at += piece[i].bytes;
            }
        }
        message->own = (hd_net_piece_t){message->kept, bytes};
    } else {
        message->piece = piece;
        message->n = n;
        return true;
    }
    message->piece = &message->own;
    message->n = 1;
    return true;
}

static void send_pieces(hd_leg_t *leg, uint32_t step, uint32_t to, const hd_net_piece_t *piece,
                        uint32_t n, size_t bytes) {
    hd_net_team_lane_t *tl = hd_leg_tl(leg);
    if (leg->failure != UCC_OK) {
        return;
    }
    hd_message_t *message = hd_message_get(lane_of(leg));
    if (!message || !set_pieces(message, piece, n, bytes)) {
        hd_error("no memory for a message of %zu bytes", bytes);
        if (message) {
            hd_message_put(message);
        }
        hd_leg_fail(leg, UCC_ERR_NO_MEMORY, true);
        return;
    }
    message->wire = (hd_wire_t){.kind = HD_WIRE_DATA,
                                .class = leg->key.class,
                                .step = (uint16_t)step,
                                .source = tl->team->me,
                                .segment = leg->segment,
                                .signature = leg->call.signature,
                                .team = tl->team->wire,
                                .number = leg->key.number,
                                .ordinal = leg->key.ordinal,
                                .subset = leg->key.subset,
                                .bytes = bytes};
    message->leg = leg;
    message->over = on_over;
    message->to = hd_leg_number_of(leg, to);
    leg->under_way++;
    hd_flow_send(message);
}

void hd_leg_send(hd_leg_t *leg, uint32_t step, uint32_t to, const hd_net_data_t *data) {
    send_pieces(leg, step, to, data->piece, data->n, data->bytes);
}

void hd_leg_send_bytes(hd_leg_t *leg, uint32_t step, uint32_t to, const void *at, size_t bytes) {
    hd_net_piece_t piece = {(void *)(uintptr_t)at, bytes};
    send_pieces(leg, step, to, &piece, 1, bytes);
}

/* --- receiving -------------------------------------------------------------------------------- */

static void scatter_into(const hd_expected_t *e, const uint8_t *data) {
    for (uint32_t i = 0; i < e->n; i++) {
        if (e->piece[i].bytes) {
            memcpy(e->piece[i].at, data, e->piece[i].bytes);
            data += e->piece[i].bytes;
        }
    }
}

static bool fits(hd_leg_t *leg, const hd_expected_t *e, const hd_wire_t *wire) {
    if (wire->signature != leg->call.signature) {
        hd_error("%s: process %u was called with other arguments than process %u",
                 hd_type_name(leg->call.type), wire->source, leg->team->me);
        return false;
    }
    if (wire->bytes != e->bytes) {
        hd_error("%s: process %u sends %llu bytes, process %u expects %zu",
                 hd_type_name(leg->call.type), wire->source, (unsigned long long)wire->bytes,
                 leg->team->me, e->bytes);
        return false;
    }
    return true;
}

static hd_ucx_arrival_t receive(hd_leg_t *leg, const hd_expected_t *e, const hd_wire_t *wire,
                                void *data) {
    hd_message_t *message = hd_message_get(lane_of(leg));
    if (!message) {
        hd_error("no memory for a message of %zu bytes", e->bytes);
        hd_leg_fail(leg, UCC_ERR_NO_MEMORY, true);
        return HD_UCX_DONE;
    }
    message->leg = leg;
    message->over = on_over;
    message->receives = true;
    message->wire.bytes = wire->bytes;
    if (hd_trace_is_on()) {
        message->trace = hd_message_id(wire, leg->team->me);
    }
    message->to = e->source;
    message->own = e->own;
    message->n = e->n;
    message->piece = e->n == 1 ? &message->own : e->piece;
    leg->under_way++;
    hd_message_receive(message, data);
    return HD_UCX_KEPT;
}

hd_ucx_arrival_t hd_leg_take(hd_leg_t *leg, hd_expected_t *e, const hd_wire_t *wire, void *data,
                             bool rendezvous) {
    hd_ucx_arrival_t end = HD_UCX_DONE;
    hd_net_lane_t *lane = lane_of(leg);
    lane->moved = true;
    if (!fits(leg, e, wire)) {
        hd_leg_fail(leg, UCC_ERR_INVALID_PARAM, true);
    } else {
        hd_flow_taken(&hd_leg_tl(leg)->peer[wire->source], wire);
        if (rendezvous && e->bytes) {
            end = receive(leg, e, wire, data);
        } else {
            uint64_t began = hd_trace_is_on() ? hd_ticks() : 0;
            scatter_into(e, data);
            leg->receiving--;
            if (hd_trace_is_on()) {
                hd_trace_taken(leg, began ? began : hd_ticks(), hd_message_id(wire, leg->team->me),
                               wire->bytes, wire->source);
            }
        }
    }
    expected_put(lane, e);
    return end;
}

/* Takes the message that is expected if it has come before, and is parked. False: it has not
 * come. */
static bool take_parked(hd_leg_t *leg, hd_expected_t *e) {
    hd_parked_t *parked = hd_park_find(leg, e->source, e->step);
    if (!parked) {
        return false;
    }
    bool rendezvous = parked->rendezvous != NULL;
    hd_ucx_arrival_t end = hd_leg_take(leg, e, &parked->wire,
                                       rendezvous ? parked->rendezvous : parked->data, rendezvous);
    if (end == HD_UCX_KEPT) {
        parked->rendezvous = NULL; /* the receive has it */
    }
    hd_park_drop(lane_of(leg), parked);
    return true;
}

static void expect(hd_leg_t *leg, uint32_t step, uint32_t from, const hd_net_piece_t *piece,
                   uint32_t n, size_t bytes) {
    if (leg->failure != UCC_OK) {
        return;
    }
    hd_expected_t *e = expected_get(lane_of(leg));
    if (!e) {
        hd_error("no memory for a message that is expected");
        hd_leg_fail(leg, UCC_ERR_NO_MEMORY, true);
        return;
    }
    e->source = hd_leg_number_of(leg, from);
    e->step = (uint16_t)step;
    e->piece = piece;
    e->n = n;
    e->bytes = bytes;
    if (n == 1) {
        e->own = *piece;
        e->piece = &e->own;
    }
    leg->receiving++;
    if (!take_parked(leg, e)) {
        e->next = leg->expected;
        leg->expected = e;
    }
}

void hd_leg_receive(hd_leg_t *leg, uint32_t step, uint32_t from, const hd_net_data_t *data) {
    expect(leg, step, from, data->piece, data->n, data->bytes);
}

void hd_leg_receive_bytes(hd_leg_t *leg, uint32_t step, uint32_t from, void *at, size_t bytes) {
    hd_net_piece_t piece = {at, bytes};
    expect(leg, step, from, &piece, 1, bytes);
}

/* --- a leg's way ------------------------------------------------------------------------------ */

enum { ALL_BEGUN = UINT32_MAX }; /* phase: the algorithm has ended, its sends maybe not */

static ucc_status_t run(hd_leg_t *leg) {
    if (leg->plan.algorithm == HD_NET_NOTHING && !hd_coll[leg->call.type].reducing) {
        return UCC_OK;
    }
    if (!leg->family->step) {
        hd_error("%s among processes is not supported", hd_type_name(leg->call.type));
        return UCC_ERR_NOT_SUPPORTED;
    }
    return leg->family->step(leg);
}

static ucc_status_t end_leg(hd_leg_t *leg) {
    if (hd_trace_is_on()) {
        hd_trace_leg_done(leg, leg->failure);
    }
    if (leg->opened) {
        hd_park_close(leg);
    }
    leg->over = true;
    return leg->failure;
}

/* Has the process ended, or closed its network, so that the kernel reads no buffer for it? */
static bool is_over(hd_peer_t *peer) {
    /* relaxed: looked at again */
    return atomic_load_explicit(&peer->left, memory_order_relaxed) ||
           hd_net_is_surely_dead(peer->net, peer->token);
}

/* UCX does not end every request with a process that is gone: one over shared memory waits until
 * the dead process takes something from a full queue. But a second after the loss, and some turns
 * after this lane has cut the way to that process, nothing of it is left to be received, and nobody
 * is there to ask for what we send, so no buffer is touched any more. The message itself stays, for
 * UCX may still call it, until the lane is closed. */
static void abandon(hd_leg_t *leg) {
    uint64_t now = hd_clock_ns();
    const hd_net_lane_t *lane = lane_of(leg);
    for (hd_message_t *message = lane->under_way; message; message = message->next) {
        hd_peer_t *peer = message->leg == leg ? leg->team->peer[message->to] : NULL;
        const hd_peer_link_t *link = peer ? &peer->link[leg->lane] : NULL;
        /* acquire: the time; pairs with hd_peer_lose */
        if (peer && atomic_load_explicit(&peer->lost, memory_order_acquire) && link->noticed &&
            (leg->team->net->survive || is_over(peer)) &&
            lane->turns - link->noticed > HD_NET_ORPHAN_TURNS &&
            now - atomic_load_explicit(&peer->lost_at, memory_order_relaxed) >
                HD_NET_ORPHAN_MS * UINT64_C(1000000)) {
            disown(message);
        }
    }
}

/* A process that is alive, but does nothing, may keep a buffer for as long as it likes. The ways to
 * such a process are cut, and then it has the buffer no longer. Without NET_SURVIVE the kernel may
 * copy from the buffer all the same, which UCX can't call back: so the leg waits. */
static void cut_off(hd_leg_t *leg, uint64_t now) {
    const hd_net_t *net = leg->team->net;
    if (!net->survive || !net->cut_off_ns || now - leg->failing < net->cut_off_ns) {
        return;
    }
    for (const hd_message_t *message = lane_of(leg)->under_way; message; message = message->next) {
        hd_peer_t *peer = message->leg == leg ? leg->team->peer[message->to] : NULL;
        /* relaxed: losing it twice is harmless */
        if (peer && !atomic_load_explicit(&peer->lost, memory_order_relaxed)) {
            hd_error("process %u has not given up a buffer of a failed %s for %.1f s: the ways to "
                     "it are cut",
                     message->to, hd_type_name(leg->call.type),
                     (double)(now - leg->failing) * 1e-9);
            /* relaxed: before the loss */
            atomic_store_explicit(&peer->slow, true, memory_order_relaxed);
            hd_peer_lose(peer, "it does not react");
        }
    }
}

/* What has no buffer of a user's need not be waited for: a process that has not come to a new team
 * yet may hold back a message to it for as long as it likes. UCX still has the message, which is
 * the lane's. But data that the other is about to receive into a buffer of its user's comes only
 * while this process takes part: for a moment it does, lest it be cut off for that. */
static void let_go(hd_leg_t *leg, uint64_t now) {
    const uint64_t moment = HD_NET_MOMENT_MS * UINT64_C(1000000),
                   half = leg->team->net->cut_off_ns / 2;
    bool over = now - leg->failing > (half && half < moment ? half : moment);
    for (hd_message_t *message = lane_of(leg)->under_way; message; message = message->next) {
        if (message->leg == leg && !message->receives &&
            (message->n == 0 || (message->kept && over))) {
            disown(message);
        }
    }
}

/* Brings the leg to its end: nothing of it is begun any more. UCC_INPROGRESS while something is
 * under way. */
static ucc_status_t wind_up(hd_leg_t *leg) {
    hd_net_team_lane_t *tl = hd_leg_tl(leg);
    hd_message_t *next;
    while (leg->expected) {
        hd_expected_t *e = leg->expected;
        leg->expected = e->next;
        expected_put(lane_of(leg), e);
    }
    leg->receiving = 0;
    for (hd_message_t *message = leg->under_way ? tl->held : NULL; message; message = next) {
        next = message->next;
        if (message->leg == leg) {
            hd_message_unlink(message);
            hd_message_end(message, UCC_OK);
        }
    }
    if (leg->under_way) {
        uint64_t now = hd_clock_ns();
        leg->failing = leg->failing ? leg->failing : now;
        let_go(leg, now);
        cut_off(leg, now);
        abandon(leg);
    }
    return leg->under_way ? UCC_INPROGRESS : end_leg(leg);
}

ucc_status_t hd_leg_go(hd_leg_t *leg) {
    if (leg->over) {
        return leg->failure;
    }
    if (leg->team->forks != hd_forks()) {
        return hd_leg_cancel(leg, UCC_ERR_NOT_SUPPORTED);
    }
    if (leg->failure == UCC_OK) {
        leg->failure = hd_net_team_failure(leg->team);
    }
    if (leg->failure == UCC_OK && leg->phase != ALL_BEGUN) {
        ucc_status_t status = run(leg);
        if (status == UCC_OK) {
            leg->phase = ALL_BEGUN;
        } else if (status != UCC_INPROGRESS) {
            hd_leg_fail(leg, status, false);
        }
    }
    if (leg->failure != UCC_OK) {
        return wind_up(leg);
    }
    bool over = leg->phase == ALL_BEGUN && !leg->receiving && !leg->under_way && !leg->bereft;
    return over ? end_leg(leg) : UCC_INPROGRESS;
}

ucc_status_t hd_leg_cancel(hd_leg_t *leg, ucc_status_t why) {
    if (leg->failure == UCC_OK) {
        leg->failure = why;
    }
    if (leg->team->forks != hd_forks()) {
        leg->over = true; /* the parent's net has it, this process has no part in it */
    }
    if (leg->over) {
        return why;
    }
    return wind_up(leg) == UCC_INPROGRESS ? UCC_INPROGRESS : why;
}
