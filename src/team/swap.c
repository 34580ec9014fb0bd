/* swap.c: barriers and small allreduces of teams of few processes (net/swap.c).
 *
 * ALONE: this process has one endpoint of the team. There is nothing to gather, so the call itself gives its part to the
 * others, looks for theirs, and combines. Such an operation has a number of the main board like any other. It is marked as
 * exposed though nobody touches its buffers: so one that fails or times out fails the team, in all processes, as all do
 * that cross them (shm/outer.c).
 *
 * TOGETHER: it has several. These arrive and are released as in a flight (flight.c), by a stage of their own: the completer
 * of the arrival gives the process's part, and whoever finds all parts there first, by the place where the completer has
 * left the ticket, combines them and releases. There is nothing to keep the group for: all this is done by members that
 * are in the exchange.
 *
 * Which of the two is a process's own affair: on the wire they are the same.
 */
#include "team/flight.h"

#include <string.h>

_Static_assert((int)HD_SWAP_PROCESSES <= (int)HD_REDUCE_BLOCK,
               "operands are one block of a reduction");

static hd_net_team_t *team_of(const hd_group_t *group) {
    return hd_group_crossing(group)->team;
}

/* All parts are there, and fit. src: mine. */
static void combine(const hd_crossing_t *crossing, uint64_t k, const hd_call_t *call,
                    const hd_reducer_t *reducer, const void *src, void *dst) {
    const void *operand[HD_SWAP_PROCESSES];
    const hd_span_t *span = crossing->span;
    if (call->type == HD_BARRIER) {
        return;
    }
    for (uint32_t i = 0; i < span->processes; i++) {
        operand[i] = i == span->mine ? src : hd_net_swap_part(crossing->team, k, i);
    }
    reducer->root(span->processes, operand, dst, call->bytes / call->element * reducer->scalars,
                  span->n);
}

/* All parts are there: do they fit? Else it has been logged, and the team has failed. */
static bool fits(const hd_op_t *op) {
    const hd_span_t *span = hd_flight_span(op);
    uint32_t odd =
        hd_net_swap_odd(team_of(op->group), op->place.k, op->call.signature, op->call.bytes);
    if (odd < span->processes) {
        hd_error("%s: process %u was called with other arguments than process %u",
                 hd_op_type_name(op), odd, span->mine);
        hd_group_poison(op->group, UCC_ERR_INVALID_PARAM);
    }
    return odd == span->processes;
}

/* --- alone ------------------------------------------------------------------------------------------- */

static ucc_status_t end(hd_op_t *op, ucc_status_t status) {
    op->exposed = status != UCC_OK;
    op->task.impatient = false;
    return status;
}

ucc_status_t hd_swap_wait(hd_op_t *op) {
    const hd_crossing_t *crossing = hd_group_crossing(op->group);
    hd_net_team_t *team = crossing->team;
    uint64_t k = op->place.k;
    op->outer_shape = 0;
    op->exposed = true;
    op->task.impatient = true; /* no bell is rung */
    if (hd_group_poisoned(op->group) != UCC_OK) {
        return UCC_INPROGRESS; /* its step sees that, too */
    }
    bool there = hd_net_swap_is_there(team, k);
    hd_flight_settle(); /* of other teams: legs of theirs may have ended */
    if (!there) {
        return UCC_INPROGRESS;
    }
    if (!fits(op)) {
        return end(op, UCC_ERR_INVALID_PARAM);
    }
    combine(crossing, k, &op->call, &op->call.reducer, hd_call_operand(&op->call), op->call.dst);
    hd_net_swap_over(team, k);
    return end(op, UCC_OK);
}

static ucc_status_t start(hd_op_t *op) {
    op->wait = hd_swap_wait;
    (void)hd_net_swap(team_of(op->group), op->place.k, op->call.signature,
                      hd_call_operand(&op->call), op->call.bytes, 0);
    return UCC_OK;
}

/* --- together ---------------------------------------------------------------------------------------- */

/* Under its completer, or whoever waits in it: are all parts of the exchange there? Then one of those releases. */
static void try_release(hd_crossing_t *crossing, const hd_op_t *op) {
    hd_swap_place_t *place = &crossing->swap_place[op->place.k % HD_SWAP_SLOTS];
    uint64_t k = op->place.k;
    uint8_t result[HD_SWAP_BYTES];
    hd_reducer_t reducer;
    /* acquire: pairs with all_are_here, though who saw the parts has the ticket by them; of many, one gets it */
    if (!atomic_compare_exchange_strong_explicit(&place->k, &k, 0, memory_order_acquire,
                                                 memory_order_relaxed) ||
        !fits(op)) {
        return;
    }
    hd_ticket_t ticket = place->ticket; /* as long as I am in the exchange */
    k = op->place.k;
    bool brings = op->call.type != HD_BARRIER;
    /* the operation's own makes partial results; its datatype and operation have been checked with that */
    if (brings && hd_reducer_init(&reducer, op->call.reducer.dt, op->call.reducer.op,
                                  crossing->span->n) != UCC_OK) {
        hd_group_poison(op->group, UCC_ERR_NO_RESOURCE);
        return;
    }
    combine(crossing, k, &op->call, &reducer,
            hd_net_swap_part(crossing->team, k, crossing->span->mine), result);
    hd_net_swap_over(crossing->team, k);
    (void)hd_outer_release(&ticket, UCC_OK, result, brings ? op->call.bytes : 0);
}

/* In this process. */
static void all_are_here(hd_outer_t *stage, hd_op_t *op, const hd_ticket_t *ticket,
                         ucc_status_t status, const void *payload) {
    enum { LOOKS = 1 }; /* the others in this process may need the processor */
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    hd_swap_place_t *place = &crossing->swap_place[op->place.k % HD_SWAP_SLOTS];
    (void)stage;
    if (status != UCC_OK) { /* the members are about to cancel */
        hd_group_poison(op->group, status);
        hd_crossing_abort(crossing, status);
        return;
    }
    if (hd_group_poisoned(op->group) !=
        UCC_OK) { /* or this is the child of a fork, whose net is another */
        return;
    }
    place->ticket = *ticket;
    /* release: the ticket; pairs with try_release */
    atomic_store_explicit(&place->k, op->place.k, memory_order_release);
    if (hd_net_swap(crossing->team, op->place.k, op->call.signature, payload, op->call.bytes,
                    LOOKS)) {
        try_release(crossing, op);
    }
}

static bool pump(hd_outer_t *stage, hd_op_t *op) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    (void)stage;
    const hd_swap_place_t *place = &crossing->swap_place[op->place.k % HD_SWAP_SLOTS];
    if (!hd_group_is_complete(op->group)) {
        (void)hd_crossing_pump(crossing);
        /* relaxed: looked at again, and try_release takes it */
    } else if (atomic_load_explicit(&place->k, memory_order_relaxed) != op->place.k) {
        (void)hd_net_pump(crossing->net); /* not all are here, or it has been released */
    } else if (hd_net_swap_is_there(crossing->team, op->place.k)) {
        try_release(crossing, op);
    }
    hd_flight_settle(); /* of other operations: legs of theirs may have ended */
    return false;
}

static void closed(hd_outer_t *stage, hd_op_t *op, ucc_status_t why) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    (void)stage;
    hd_crossing_abort(crossing, why);
    (void)hd_net_pump(crossing->net);
    hd_flight_settle();
}

void hd_swap_stage(hd_outer_t *stage) {
    *stage = (hd_outer_t){.arrived = all_are_here, .pump = pump, .closed = closed};
}

/* --- which ------------------------------------------------------------------------------------------- */

/* The same in all processes. */
static bool swaps(const hd_request_t *r) {
    const hd_op_t *op = &r->op;
    const hd_call_t *call = &op->call;
    if (r->route != HD_ROUTE_NUMBER || !op->start || !op->outer || op->prepare || call->empty ||
        call->exclusive) {
        return false;
    }
    const hd_crossing_t *crossing = op->team->crossing;
    const hd_span_t *span = crossing->span;
    bool barrier = call->type == HD_BARRIER;
    bool allreduce = call->type == HD_ALLREDUCE && !hd_reducer_is_user(&call->reducer) &&
                     (!crossing->placement || span->blocks == span->processes);
    return (barrier || allreduce) && hd_net_may_swap(crossing->team, call->type, call->bytes);
}

bool hd_swap_choose(hd_request_t *r) {
    hd_op_t *op = &r->op;
    const hd_call_t *call = &op->call;
    if (!swaps(r)) {
        return false;
    }
    if (op->place.n > 1) {
        op->outer = &op->team->crossing->swap_stage;
        return false;
    }
    /* all operands are combined at once, so the result is no partial one */
    if (call->type == HD_ALLREDUCE &&
        hd_reducer_init(&op->call.reducer, call->reducer.dt, call->reducer.op, r->n) != UCC_OK) {
        return false;
    }
    op->start = start;
    /* before the team is complete, nobody may take a number by the express, and no plan is kept */
    bool complete = hd_group_is_complete(op->group);
    op->plan = (hd_plan_t){.path = complete ? HD_PATH_LANES : HD_PATH_NOTHING, .express = complete};
    return true;
}

/* --- the express ---------------------------------------------------------------------------------------- */

/* One look is a turn of the lane: as long as so many at memory. */
enum { A_TURN = 8 };

static uint64_t take_number(const hd_place_t *at) {
    hd_member_t *m = at->member;
    if (at->locked) {
        hd_lock(&m->lock);
    }
    uint64_t k = m->taken + 1;
    bool may = !m->queue && hd_board_may_publish(at->board, m, k);
    m->taken += may;
    if (at->locked) {
        hd_unlock(&m->lock);
    }
    return may ? k : 0;
}

static void consume(const hd_place_t *at, uint64_t k) {
    if (at->locked) {
        hd_lock(&at->member->lock);
    }
    hd_board_consume(at->board, at->member, k, true);
    hd_checked(hd_board_check(at->board, at->me));
    if (at->locked) {
        hd_unlock(&at->member->lock);
    }
    hd_bell_ring(&at->board->group->home.bell); /* others may wait for the window */
}

uint64_t hd_swap_express_of(const hd_place_t *at, const hd_call_t *call, const void *src, void *dst,
                            uint32_t looks) {
    hd_group_t *group = at->board->group;
    const hd_crossing_t *crossing = hd_group_crossing(group);
    hd_net_team_t *team = crossing->team;
    uint64_t k = take_number(at);
    if (!k) {
        return 0;
    }
    if (!hd_net_swap(team, k, call->signature, src, call->bytes, looks / A_TURN)) {
        return k;
    }
    if (hd_net_swap_odd(team, k, call->signature, call->bytes) < crossing->span->processes) {
        return k; /* the operation that takes over says so */
    }
    combine(crossing, k, call, &call->reducer, src, dst);
    hd_net_swap_over(team, k);
    consume(at, k);
    return HD_EXPRESS_OVER;
}

uint64_t hd_swap_express(const hd_place_t *at, const hd_call_t *call, uint32_t looks) {
    return hd_swap_express_of(at, call, hd_call_operand(call), call->dst, looks);
}
