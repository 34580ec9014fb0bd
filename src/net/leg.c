/* leg.c: sending and receiving for a leg, and how a leg goes on and ends.
 *
 * leg->under_way counts what UCX, or the flow control, still has of the leg: only when it is 0 the leg ends, whatever
 * happened. leg->receiving counts messages that are expected and not in place: the algorithm waits for those.
 */
#include "net/internal.h"

#include "core/hash.h"

#include <string.h>

/* --- pools ------------------------------------------------------------------------------------------------------------ */

static void on_done(hd_ucx_request_t *ucx, ucc_status_t status);

hd_message_t *hd_message_get(hd_net_lane_t *lane) {
    hd_message_t *r = lane->free_requests;
    if (r) {
        lane->free_requests = r->next;
    } else {
        r = hd_alloc(HD_LINE, sizeof(*r));
        if (!r) {
            return NULL;
        }
        r->ucx.done = on_done;
        r->lane = lane;
    }
    r->next = NULL;
    r->at = NULL;
    r->leg = NULL;
    r->peer = NULL;
    r->swap = NULL;
    r->ended = NULL;
    r->packed = NULL;
    r->receives = false;
    return r;
}

void hd_message_put(hd_message_t *r) {
    hd_free(r->packed);
    if (r->ended) {
        hd_net_swaps_leave(r->ended);
    }
    r->next = r->lane->free_requests;
    r->lane->free_requests = r;
}

static void link_request(hd_message_t **list, hd_message_t *r) {
    r->next = *list;
    r->at = list;
    if (r->next) {
        r->next->at = &r->next;
    }
    *list = r;
}

static void unlink_request(hd_message_t *r) {
    *r->at = r->next;
    if (r->next) {
        r->next->at = r->at;
    }
}

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

static hd_net_lane_t *lane_of(const hd_leg_t *leg) {
    return &leg->team->net->lane[leg->lane];
}

/* --- failure ------------------------------------------------------------------------------------------------------------ */

void hd_leg_fail(hd_leg_t *leg, ucc_status_t why, bool tell) {
    if (leg->failure == UCC_OK) {
        leg->failure = why;
    }
    if (tell) {
        hd_net_team_fail(leg->team, why);
        hd_net_team_abort(leg->team, why);
    }
}

/* --- traces ----------------------------------------------------------------------------------------------------------------- */

uint64_t hd_message_id(const hd_wire_t *wire, uint32_t to) {
    const uint64_t named[] = {wire->number,  wire->ordinal,
                              wire->subset,  (uint64_t)wire->class << 32 | wire->step,
                              wire->segment, (uint64_t)wire->source << 32 | to};
    uint64_t id = wire->team;
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        id = hd_hash_mix(id, named[i]);
    }
    return id;
}

/* --- requests -------------------------------------------------------------------------------------------------------------- */

/* The request is over, and is in no list. */
static void end_request(hd_message_t *r, ucc_status_t status) {
    hd_leg_t *leg = r->leg;
    bool lost = false;
    r->lane->moved = true;
    if (leg) {
        leg->under_way--;
        ucc_status_t failure = hd_net_team_failure(leg->team);
        if (status == UCC_ERR_IO_ERROR && failure == UCC_OK) {
            hd_peer_lose(leg->team->peer[r->to], "a message was lost");
            leg->bereft = leg->team->peer[r->to]; /* and fails soon */
        } else if (status != UCC_OK && leg->failure == UCC_OK) {
            hd_leg_fail(leg, failure == UCC_OK ? status : failure, failure == UCC_OK);
        }
        /* What can't be received stays expected. */
        lost = r->receives && status == UCC_ERR_IO_ERROR;
        if (r->receives && !lost && hd_trace_is_on()) {
            hd_trace_taken(leg, hd_ticks(), r->trace, r->wire.bytes, r->to);
        }
        if (r->receives && !lost && leg->receiving > 0) {
            leg->receiving--;
        }
    } else if (r->peer) {
        if (status == UCC_ERR_IO_ERROR) {
            hd_peer_lose(r->peer, "a message was lost");
        }
        if (r->swap) {
            hd_net_swap_sent(r->swap, status == UCC_ERR_IO_ERROR ? UCC_OK : status);
        }
    }
    hd_message_put(r);
}

static void on_done(hd_ucx_request_t *ucx, ucc_status_t status) {
    hd_message_t *r = (hd_message_t *)ucx;
    unlink_request(r);
    end_request(r, status);
}

/* A message whose wire, pieces and receiver are set goes out. */
static void send_now(hd_net_team_lane_t *tl, hd_message_t *r) {
    bool rendezvous = r->wire.kind == HD_WIRE_DATA && hd_flow_out(&tl->peer[r->to], &r->wire);
    hd_wire_write(&r->wire, r->header);
    const hd_ucx_link_t *link = hd_peer_link(tl->team->peer[r->to], r->lane);
    if (!link) {
        if (r->leg) {
            r->leg->bereft = tl->team->peer[r->to];
        }
        end_request(r, UCC_OK);
        return;
    }
    if (r->wire.kind == HD_WIRE_DATA) {
        hd_net_add_up(&r->lane->traffic.messages_sent, 1);
        hd_net_add_up(&r->lane->traffic.bytes_sent, r->wire.bytes);
    } else {
        hd_net_add_up(&r->lane->traffic.told, 1);
    }
    link_request(&r->lane->under_way, r);
    r->lane->moved = true;            /* UCX may keep it: who sleeps for the lane arms anew */
    if (hd_trace_is_on() && r->leg) { /* before: it may be over and gone when UCX has it */
        hd_trace_sent(r->leg, hd_ticks(), hd_message_id(&r->wire, r->to), r->wire.bytes, r->to);
    }
    ucc_status_t status = hd_ucx_send(link, r->header, HD_WIRE_BYTES, r->piece, r->n,
                                      rendezvous ? HD_UCX_RENDEZVOUS : HD_UCX_EITHER, &r->ucx);
    if (status != UCC_INPROGRESS) { /* else it may be over and gone */
        on_done(&r->ucx, status);
    }
}

void hd_message_tell(hd_net_team_lane_t *tl, uint32_t to, const hd_wire_t *wire) {
    hd_message_t *r = hd_message_get(hd_net_team_lane_of(tl));
    if (!r) {
        return; /* credits are told again; an abort that is lost is found out in other ways */
    }
    r->wire = *wire;
    r->wire.team = tl->team->wire;
    r->wire.source = tl->team->me;
    r->to = to;
    r->n = 0;
    send_now(tl, r);
}

void hd_message_swap(hd_net_team_lane_t *tl, uint32_t to, hd_swap_mine_t *mine, const void *data,
                     uint32_t bytes, bool tells) {
    hd_net_lane_t *lane = hd_net_team_lane_of(tl);
    const hd_ucx_link_t *link = hd_peer_link(tl->team->peer[to], lane);
    hd_message_t *r = link ? hd_message_get(lane) : NULL;
    if (!r) { /* who is lost is missed by whoever waits for its part */
        hd_net_swap_sent(mine, link ? UCC_ERR_NO_MEMORY : UCC_OK);
        return;
    }
    const hd_wire_swap_t wire = {.team = tl->team->wire,
                                 .number = mine->swap.k,
                                 .source = tl->team->me,
                                 .signature = mine->swap.signature,
                                 .bytes = bytes};
    size_t header = hd_wire_write_swap(&wire, data, r->header);
    r->own = (hd_net_piece_t){(void *)(uintptr_t)data, bytes};
    r->n = header == HD_WIRE_SWAP_HEAD && bytes;
    r->swap = mine;
    r->peer = tl->team->peer[to];
    hd_net_add_up(tells ? &lane->traffic.told : &lane->traffic.messages_sent, 1);
    hd_net_add_up(&lane->traffic.bytes_sent, bytes);
    link_request(&lane->under_way, r);
    lane->moved = true; /* as in send_now */
    ucc_status_t status =
        hd_ucx_send(link, r->header, header, &r->own, r->n, HD_UCX_EAGER, &r->ucx);
    if (status != UCC_INPROGRESS) { /* else it may be over and gone */
        on_done(&r->ucx, status);
    }
}

bool hd_message_resume(hd_net_team_lane_t *tl, const hd_net_team_peer_t *peer) {
    bool left = false;
    hd_message_t *next;
    for (hd_message_t *r = tl->held; r; r = next) {
        next = r->next;
        if (&tl->peer[r->to] != peer) {
            continue;
        }
        if (hd_flow_allows(peer, &r->leg->key)) {
            unlink_request(r);
            send_now(tl, r);
        } else {
            left = true;
        }
    }
    return left;
}

/* --- sending ------------------------------------------------------------------------------------------------------------------ */

/* One piece as it is; several, if they are small, in memory of ours. */
static bool set_pieces(hd_message_t *r, const hd_net_piece_t *piece, uint32_t n, size_t bytes) {
    if (bytes == 0) {
        r->n = 0;
        return true;
    }
    if (n == 1) {
        r->own = *piece;
    } else if (bytes <= HD_NET_PACKED) {
        r->packed = hd_alloc(HD_LINE, bytes);
        if (!r->packed) {
            return false;
        }
        char *at = r->packed;
        for (uint32_t i = 0; i < n; i++) {
            if (piece[i].bytes) {
                memcpy(at, piece[i].at, piece[i].bytes);
                at += piece[i].bytes;
            }
        }
        r->own = (hd_net_piece_t){r->packed, bytes};
    } else {
        r->piece = piece;
        r->n = n;
        return true;
    }
    r->piece = &r->own;
    r->n = 1;
    return true;
}

static void send_pieces(hd_leg_t *leg, uint32_t step, uint32_t to, const hd_net_piece_t *piece,
                        uint32_t n, size_t bytes) {
    hd_net_team_lane_t *tl = hd_leg_tl(leg);
    if (leg->failure != UCC_OK) {
        return;
    }
    hd_message_t *r = hd_message_get(lane_of(leg));
    if (!r || !set_pieces(r, piece, n, bytes)) {
        hd_error("no memory for a message of %zu bytes", bytes);
        if (r) {
            hd_message_put(r);
        }
        hd_leg_fail(leg, UCC_ERR_NO_MEMORY, true);
        return;
    }
    r->wire = (hd_wire_t){.kind = HD_WIRE_DATA,
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
    r->leg = leg;
    r->to = hd_leg_number_of(leg, to);
    leg->under_way++;
    if (hd_flow_allows(&tl->peer[r->to], &leg->key)) {
        send_now(tl, r);
    } else {
        link_request(&tl->held, r);
        hd_flow_ask(&tl->peer[r->to]);
    }
}

void hd_leg_send(hd_leg_t *leg, uint32_t step, uint32_t to, const hd_net_data_t *data) {
    send_pieces(leg, step, to, data->piece, data->n, data->bytes);
}

void hd_leg_send_bytes(hd_leg_t *leg, uint32_t step, uint32_t to, const void *at, size_t bytes) {
    hd_net_piece_t piece = {(void *)(uintptr_t)at, bytes};
    send_pieces(leg, step, to, &piece, 1, bytes);
}

/* --- receiving ------------------------------------------------------------------------------------------------------------------ */

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
    hd_net_match_expect(leg, e);
}

void hd_leg_receive(hd_leg_t *leg, uint32_t step, uint32_t from, const hd_net_data_t *data) {
    expect(leg, step, from, data->piece, data->n, data->bytes);
}

void hd_leg_receive_bytes(hd_leg_t *leg, uint32_t step, uint32_t from, void *at, size_t bytes) {
    hd_net_piece_t piece = {at, bytes};
    expect(leg, step, from, &piece, 1, bytes);
}

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
    hd_net_lane_t *lane = lane_of(leg);
    hd_message_t *r = hd_message_get(lane);
    if (!r) {
        hd_error("no memory for a message of %zu bytes", e->bytes);
        hd_leg_fail(leg, UCC_ERR_NO_MEMORY, true);
        return HD_UCX_DONE;
    }
    r->leg = leg;
    r->receives = true;
    r->wire.bytes = wire->bytes;
    if (hd_trace_is_on()) {
        r->trace = hd_message_id(wire, leg->team->me);
    }
    r->to = e->source;
    r->own = e->own;
    r->n = e->n;
    r->piece = e->n == 1 ? &r->own : e->piece;
    leg->under_way++;
    link_request(&lane->under_way, r);
    ucc_status_t status = hd_ucx_receive(&lane->port, data, r->piece, r->n, &r->ucx);
    if (status != UCC_INPROGRESS) {
        on_done(&r->ucx, status);
    }
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

/* --- a leg's way ---------------------------------------------------------------------------------------------------------------- */

enum { ALL_BEGUN = UINT32_MAX }; /* phase: the algorithm has ended, its sends maybe not */

static ucc_status_t run(hd_leg_t *leg) {
    switch ((enum hd_type)leg->call.type) {
    case HD_BARRIER:
    case HD_FANIN:
    case HD_FANOUT:
        return hd_net_barrier(leg);
    case HD_BCAST:
    case HD_MCAST:
        return hd_net_bcast(leg);
    case HD_ALLGATHER:
    case HD_ALLGATHERV:
        return hd_net_allgather(leg);
    case HD_ALLTOALL:
    case HD_ALLTOALLV:
        return hd_net_alltoall(leg);
    case HD_GATHER:
    case HD_GATHERV:
        return hd_net_gather(leg);
    case HD_SCATTER:
    case HD_SCATTERV:
        return hd_net_scatter(leg);
    case HD_ALLREDUCE:
        return hd_net_allreduce(leg);
    case HD_REDUCE:
        return hd_net_reduce(leg);
    case HD_REDUCE_SCATTER:
    case HD_REDUCE_SCATTERV:
        return hd_net_reduce_scatter(leg);
    case HD_SCAN:
    case HD_EXSCAN:
    case HD_N_TYPES:
        break;
    }
    hd_error("%s among processes is not supported", hd_type_name(leg->call.type));
    return UCC_ERR_NOT_SUPPORTED;
}

static ucc_status_t end_leg(hd_leg_t *leg) {
    if (hd_trace_is_on()) {
        hd_trace_leg_done(leg, leg->failure);
    }
    if (leg->opened) {
        hd_net_match_close(leg);
    }
    leg->over = true;
    return leg->failure;
}

/* UCX does not end every request with a process that is gone: one over shared memory waits until the dead process takes
 * something from a full queue. But a second after the loss, and some turns after this lane has cut the way to that
 * process, nothing of it is left to be received, and nobody is there to ask for what we send, so no buffer is touched
 * any more. The message itself stays, for UCX may still call it, until the lane is closed. */
static void abandon(hd_leg_t *leg) {
    uint64_t now = hd_clock_ns();
    const hd_net_lane_t *lane = lane_of(leg);
    for (hd_message_t *r = lane->under_way; r; r = r->next) {
        const hd_peer_t *peer = r->leg == leg ? leg->team->peer[r->to] : NULL;
        const hd_peer_link_t *link = peer ? &peer->link[leg->lane] : NULL;
        /* acquire: the time; pairs with hd_peer_lose */
        if (peer && atomic_load_explicit(&peer->lost, memory_order_acquire) && link->noticed &&
            lane->turns - link->noticed > HD_NET_ORPHAN_TURNS &&
            now - atomic_load_explicit(&peer->lost_at, memory_order_relaxed) >
                HD_NET_ORPHAN_MS * UINT64_C(1000000)) {
            r->leg = NULL;
            leg->under_way--;
        }
    }
}

/* A process that is alive, but does nothing, may keep a buffer for as long as it likes. It is given up then. */
static void cut_off(hd_leg_t *leg, uint64_t now) {
    hd_net_t *net = leg->team->net;
    if (!net->cut_off_ns || now - leg->failing < net->cut_off_ns) {
        return;
    }
    for (const hd_message_t *r = lane_of(leg)->under_way; r; r = r->next) {
        hd_peer_t *peer = r->leg == leg ? leg->team->peer[r->to] : NULL;
        /* relaxed: losing it twice is harmless */
        if (peer && !atomic_load_explicit(&peer->lost, memory_order_relaxed)) {
            hd_error(
                "process %u has not given up a buffer of a failed %s for %.1f s: it is cut off",
                r->to, hd_type_name(leg->call.type), (double)(now - leg->failing) * 1e-9);
            hd_peer_lose(peer, "it does not react");
            hd_net_tell_dead(net, peer->token);
        }
    }
}

/* What has no buffer of a user's need not be waited for: a process that has not come to a new team yet may hold back a
 * message to it for as long as it likes. UCX still has the message, which is the lane's. But data that the other is about
 * to receive into a buffer of its user's comes only while this process takes part: for a moment it does, lest it be cut off
 * for that. */
static void let_go(hd_leg_t *leg, uint64_t now) {
    const uint64_t moment = HD_NET_MOMENT_MS * UINT64_C(1000000),
                   half = leg->team->net->cut_off_ns / 2;
    bool over = now - leg->failing > (half && half < moment ? half : moment);
    for (hd_message_t *r = lane_of(leg)->under_way; r; r = r->next) {
        if (r->leg == leg && !r->receives && (r->n == 0 || (r->packed && over))) {
            r->leg = NULL;
            leg->under_way--;
        }
    }
}

/* Nothing of it is begun any more. UCC_INPROGRESS while something is under way. */
static ucc_status_t wind_up(hd_leg_t *leg) {
    hd_net_team_lane_t *tl = hd_leg_tl(leg);
    hd_message_t *next;
    while (leg->expected) {
        hd_expected_t *e = leg->expected;
        leg->expected = e->next;
        expected_put(lane_of(leg), e);
    }
    leg->receiving = 0;
    for (hd_message_t *r = leg->under_way ? tl->held : NULL; r; r = next) {
        next = r->next;
        if (r->leg == leg) {
            unlink_request(r);
            end_request(r, UCC_OK);
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
        ucc_status_t status =
            leg->plan.algorithm == HD_NET_NOTHING && !hd_coll[leg->call.type].reducing ? UCC_OK
                                                                                       : run(leg);
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
