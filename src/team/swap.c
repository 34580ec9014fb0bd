/* swap.c: barriers and small allreduces of teams that have one endpoint in each of a few processes (net/swap.c): there
 * is nothing to gather inside the process, so the call itself gives its part to the others, looks for theirs, and combines.
 *
 * Such an operation has a number of the main board like any other. It is marked as exposed though nobody touches its
 * buffers: so one that fails or times out fails the team, in all processes, as all do that cross them (shm/outer.c).
 */
#include "team/flight.h"

#include <string.h>

_Static_assert((int)HD_SWAP_PROCESSES <= (int)HD_REDUCE_BLOCK,
               "operands are one block of a reduction");

static hd_net_team_t *team_of(const hd_group_t *group) {
    return hd_group_crossing(group)->team;
}

/* All parts are there, and fit. */
static void combine(const hd_net_team_t *team, uint64_t k, const hd_call_t *call, const void *src,
                    void *dst, uint32_t n, uint32_t me) {
    const void *operand[HD_SWAP_PROCESSES];
    if (call->type == HD_BARRIER) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        operand[i] = i == me ? src : hd_net_swap_part(team, k, i);
    }
    call->reducer.root(n, operand, dst, call->bytes / call->element * call->reducer.scalars, n);
}

/* --- operations -------------------------------------------------------------------------------------- */

static ucc_status_t end(hd_op_t *op, ucc_status_t status) {
    op->exposed = status != UCC_OK;
    op->task.impatient = false;
    return status;
}

ucc_status_t hd_swap_wait(hd_op_t *op) {
    hd_net_team_t *team = team_of(op->group);
    uint64_t k = op->place.k;
    uint32_t n = hd_flight_request(op)->n;
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
    uint32_t odd = hd_net_swap_odd(team, k, op->call.signature, op->call.bytes);
    if (odd < n) {
        hd_error("%s: process %u was called with other arguments than process %u",
                 hd_op_type_name(op), odd, hd_flight_span(op)->mine);
        hd_group_poison(op->group, UCC_ERR_INVALID_PARAM);
        return end(op, UCC_ERR_INVALID_PARAM);
    }
    combine(team, k, &op->call, hd_call_operand(&op->call), op->call.dst, n,
            hd_flight_span(op)->mine);
    hd_net_swap_over(team, k);
    return end(op, UCC_OK);
}

static ucc_status_t start(hd_op_t *op) {
    op->wait = hd_swap_wait;
    (void)hd_net_swap(team_of(op->group), op->place.k, op->call.signature,
                      hd_call_operand(&op->call), op->call.bytes, 0);
    return UCC_OK;
}

bool hd_swap_choose(hd_request_t *r) {
    hd_op_t *op = &r->op;
    const hd_call_t *call = &op->call;
    bool barrier = call->type == HD_BARRIER, allreduce = call->type == HD_ALLREDUCE;
    if (r->route != HD_ROUTE_NUMBER || !op->start || !op->outer || !(barrier || allreduce) ||
        call->empty || call->exclusive || (allreduce && hd_reducer_is_user(&call->reducer)) ||
        op->prepare || !hd_net_may_swap(op->team->crossing->team, call->type, call->bytes)) {
        return false;
    }
    /* all operands are combined at once, so the result is no partial one */
    if (allreduce &&
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
    uint32_t n = crossing->span->n;
    if (hd_net_swap_odd(team, k, call->signature, call->bytes) < n) {
        return k; /* the operation that takes over says so */
    }
    combine(team, k, call, src, dst, n, crossing->span->mine);
    hd_net_swap_over(team, k);
    consume(at, k);
    return HD_EXPRESS_OVER;
}

uint64_t hd_swap_express(const hd_place_t *at, const hd_call_t *call, uint32_t looks) {
    return hd_swap_express_of(at, call, hd_call_operand(call), call->dst, looks);
}
