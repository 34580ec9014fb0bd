/* swap.c: small collectives of teams of few processes (net/swap.c).
 *
 * ALONE: this process has one endpoint of the team. There is nothing to gather, so the call itself
 * gives its part to the others, looks for theirs, and takes what they bring. Such an operation has
 * a number of the main board like any other. It is marked as exposed though nobody touches its
 * buffers: so one that fails or times out fails the team, in all processes, as all do that cross
 * them (shm/outer.c).
 *
 * TOGETHER: it has several. These arrive and are released as in a flight (flight.c), by a stage of
 * their own: the completer of the arrival gives the process's parts, and whoever finds there first
 * all that is needed, by the place where the completer has left the ref, makes the results of it
 * and releases. There is nothing to keep the group for: all this is done by members that are in the
 * exchange. Reductions that fit into the arrival's lines are combined there, and their result comes
 * with the release; else members publish their contributions, which stay in their lanes until all
 * have left the exchange, and the release says where the results are.
 *
 * Which of the two is a process's own affair: on the wire they are the same.
 */
#include "shm/phases.h"
#include "span/internal.h"
#include "span/swap.h"

#include <string.h>

_Static_assert((int)HD_SWAP_PROCESSES <= (int)HD_REDUCE_BLOCK,
               "operands are one block of a reduction");

static hd_swap_t swap_of(const hd_crossing_t *crossing, const hd_call_t *call, uint64_t k,
                         const void *const *data) {
    return (hd_swap_t){.team = crossing->team,
                       .span = crossing->span,
                       .call = call,
                       .net = hd_net_swap_of(crossing->team, k),
                       .data = data};
}

/* All that is needed is there: does it fit? Else it has been logged, and the team has failed. */
static bool fits(const hd_op_t *op, const hd_swap_t *swap) {
    uint32_t odd = hd_swap_odd(swap);
    if (odd < swap->span->processes) {
        hd_error("%s: process %u was called with other arguments than process %u",
                 hd_op_type_name(op), odd, swap->span->mine);
        hd_group_poison(op->group, UCC_ERR_INVALID_PARAM);
    }
    return odd == swap->span->processes;
}

/* Where others may need this processor, it is given up at the first look in vain. But those that
 * run on other processors may just be giving their parts, and then all that comes of giving it up
 * is one more change of processes. */
static bool is_there_soon(const hd_crossing_t *crossing, uint64_t k) {
    enum { LOOKS = 4 };
    uint32_t left = crossing->crowded ? LOOKS : 0;
    bool there = hd_net_swap_is_there(crossing->team, k);
    for (; !there && left > 0; left--) {
        there = hd_net_swap_is_there(crossing->team, k);
    }
    return there;
}

/* --- alone ------------------------------------------------------------------------------------ */

static ucc_status_t end(hd_op_t *op, ucc_status_t status) {
    op->exposed = status != UCC_OK;
    op->task.impatient = false;
    return status;
}

/* This process's only member has its results. */
static void take_alone(const hd_swap_t *swap, void *dst) {
    const hd_call_t *call = swap->call;
    if (hd_swap_waits(call)) {
        hd_swap_compose(swap, &call->reducer, dst);
    } else if (call->type == HD_SCATTER && !call->in_place) {
        uint32_t me = hd_span_endpoint(swap->span, swap->span->mine, 0);
        memmove(dst, (const uint8_t *)swap->data[0] + me * call->bytes, call->bytes);
    }
}

ucc_status_t hd_swap_wait(hd_op_t *op) {
    const hd_crossing_t *crossing = hd_group_crossing(op->group);
    const void *data[1] = {hd_swap_source(&op->call)};
    uint64_t k = op->place.k;
    hd_swap_t swap = swap_of(crossing, &op->call, k, data);
    hd_assert(op->place.n == 1 && !op->place.of_set && op->numbered);
    op->outer_shape = 0;
    op->exposed = true;
    op->task.impatient = true; /* no bell is rung */
    if (hd_group_poisoned(op->group) != UCC_OK) {
        return UCC_INPROGRESS; /* its step sees that, too */
    }
    bool there = is_there_soon(crossing, k);
    hd_span_drain(); /* of other teams: legs of theirs may have ended */
    if (!there) {
        return UCC_INPROGRESS;
    }
    if (!fits(op, &swap)) {
        return end(op, UCC_ERR_INVALID_PARAM);
    }
    take_alone(&swap, op->call.dst);
    hd_net_swap_done(crossing->team, k);
    hd_net_swap_over(crossing->team, k);
    return end(op, UCC_OK);
}

static ucc_status_t start_alone(hd_op_t *op) {
    const void *data[1] = {hd_swap_source(&op->call)};
    uint64_t k = op->place.k;
    hd_swap_t swap = swap_of(hd_group_crossing(op->group), &op->call, k, data);
    op->wait = hd_swap_wait;
    hd_swap_set(swap.net, swap.span, &op->call, k);
    ucc_status_t status = hd_swap_write(&swap);
    if (status == UCC_OK) {
        (void)hd_net_swap(swap.team, k, 0);
    }
    return status;
}

/* --- together --------------------------------------------------------------------------------- */

/* Contributions are in lanes, and results in memory of the crossing's. */
static bool is_by_lanes(const hd_op_t *op) {
    return hd_coll[op->call.type].moves_data && !(op->outer_shape & HD_OUTER_REDUCES);
}

/* Members have published, and are in the exchange, or not out of the numbers after which their
 * lanes are used again. */
static void find_contributions(const hd_op_t *op, const void *data[HD_SWAP_MEMBERS]) {
    for (uint32_t i = 0; i < op->place.n; i++) {
        const hd_lane_t *lane = hd_board_lane(op->place.board, i, op->place.k);
        data[i] = hd_lane_view(lane, op->place.k, NULL); /* it is never in lines */
    }
}

static size_t bytes_of_results(const hd_crossing_t *crossing) {
    uint32_t processes = crossing->span->processes;
    return processes * hd_net_swap_most(processes);
}

static uint8_t *results_of(const hd_crossing_t *crossing, uint64_t k) {
    /* acquire: pairs with reserve */
    uint8_t *all = atomic_load_explicit(&crossing->swap_results, memory_order_acquire);
    return all + k % HD_SWAP_SLOTS * bytes_of_results(crossing);
}

/* Under its completer, or whoever waits in it: is all there that is needed? Then one of those
 * releases. */
static void try_release(hd_crossing_t *crossing, const hd_op_t *op) {
    hd_swap_place_t *place = &crossing->swap_place[op->place.k % HD_SWAP_SLOTS];
    const void *data[HD_SWAP_MEMBERS] = {NULL}; /* gcc takes a const pointer to it for a read */
    uint8_t small[HD_SWAP_BYTES] = {0};         /* where nobody has a result, nobody reads it */
    uint64_t k = op->place.k;
    hd_swap_t swap = swap_of(crossing, &op->call, k, data);
    hd_reducer_t reducer;
    /* acquire: pairs with all_are_here, though who saw the parts has the ref by them; of many,
     * one gets it */
    if (!atomic_compare_exchange_strong_explicit(&place->k, &k, 0, memory_order_acquire,
                                                 memory_order_relaxed) ||
        !fits(op, &swap)) {
        return;
    }
    hd_exchange_ref_t ref = place->ref; /* as long as I am in the exchange */
    bool by_lanes = is_by_lanes(op), brings = op->outer_shape & HD_OUTER_BRINGS;
    uint8_t *results = by_lanes ? results_of(crossing, op->place.k) : small;
    /* the operation's own makes partial results; its datatype and operation have been checked with
     * that */
    if (hd_coll[op->call.type].reducing &&
        hd_reducer_init(&reducer, op->call.reducer.dt, op->call.reducer.op, crossing->span->n) !=
            UCC_OK) {
        hd_group_poison(op->group, UCC_ERR_NO_RESOURCE);
        return;
    }
    if (by_lanes) {
        find_contributions(op, data);
    }
    hd_swap_compose(&swap, &reducer, results);
    hd_net_swap_done(crossing->team, op->place.k);
    if (hd_coll[op->call.type].flow == HD_FROM_ROOT) {
        /* relaxed, as in end_read: all of this process know each other by their lanes */
        atomic_store_explicit(&place->unread, op->place.k, memory_order_relaxed);
    } else {
        hd_net_swap_over(crossing->team, op->place.k);
    }
    if (by_lanes) {
        (void)hd_outer_release(&ref, UCC_OK, &results, sizeof(results));
    } else {
        (void)hd_outer_release(&ref, UCC_OK, results, brings ? op->call.bytes : 0);
    }
}

/* Parts that members may take before they are all here stay until all have left the exchange: that
 * they have, their lanes of a later one say, by the board's window. By the completer of exchange
 * k. */
static void end_read(hd_crossing_t *crossing, const hd_op_t *op) {
    uint64_t left = op->place.k - op->place.board->depth / 2;
    if (op->place.k <= op->place.board->depth / 2) {
        return;
    }
    for (uint32_t i = 0; i < HD_SWAP_SLOTS; i++) {
        uint64_t k = atomic_load_explicit(&crossing->swap_place[i].unread, memory_order_relaxed);
        if (k && k <= left &&
            /* relaxed: of several completers, one gets it */
            atomic_compare_exchange_strong_explicit(&crossing->swap_place[i].unread, &k, 0,
                                                    memory_order_relaxed, memory_order_relaxed)) {
            hd_net_swap_over(crossing->team, k);
        }
    }
}

/* The process's parts, which go out. */
static ucc_status_t write_together(const hd_op_t *op, hd_swap_t *swap, const void *partial) {
    const void *data[HD_SWAP_MEMBERS];
    if (partial) {
        hd_swap_write_partial(swap, partial);
        return UCC_OK;
    }
    if (!is_by_lanes(op)) {
        return UCC_OK;
    }
    find_contributions(op, data);
    swap->data = data;
    return hd_swap_write(swap);
}

/* In this process. */
static void all_are_here(hd_outer_t *stage, hd_op_t *op, const hd_exchange_ref_t *ref,
                         ucc_status_t status, const void *payload) {
    enum { LOOKS = 1 }; /* the others in this process may need the processor */
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    hd_swap_place_t *place = &crossing->swap_place[op->place.k % HD_SWAP_SLOTS];
    uint64_t k = op->place.k;
    (void)stage;
    if (status == UCC_OK && hd_group_poisoned(op->group) != UCC_OK) {
        return; /* or this is the child of a fork, whose net is another */
    }
    if (status == UCC_OK) {
        hd_swap_t swap = swap_of(crossing, &op->call, k, NULL);
        hd_swap_set(swap.net, swap.span, &op->call, k);
        status = write_together(op, &swap, payload);
    }
    if (status != UCC_OK) { /* the members are about to cancel */
        hd_group_poison(op->group, status);
        hd_crossing_abort(crossing, status);
        return;
    }
    end_read(crossing, op);
    /* relaxed: whoever took the slot's last exchange is out of it, unless the team has failed */
    hd_assert(atomic_load_explicit(&place->k, memory_order_relaxed) == 0 ||
              hd_group_poisoned(op->group) != UCC_OK);
    place->ref = *ref;
    /* release: the ref, and what the exchange needs; pairs with try_release and pump */
    atomic_store_explicit(&place->k, k, memory_order_release);
    if (hd_net_swap(crossing->team, k, LOOKS)) {
        try_release(crossing, op);
    }
}

static bool pump(hd_outer_t *stage, hd_op_t *op) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    (void)stage;
    const hd_swap_place_t *place = &crossing->swap_place[op->place.k % HD_SWAP_SLOTS];
    if (!hd_group_is_complete(op->group)) {
        (void)hd_crossing_pump(crossing);
        /* acquire: what the exchange needs; pairs with all_are_here. try_release takes it */
    } else if (atomic_load_explicit(&place->k, memory_order_acquire) != op->place.k) {
        (void)hd_net_pump(crossing->net); /* not all are here, or it has been released */
    } else if (hd_net_swap_is_there(crossing->team, op->place.k)) {
        try_release(crossing, op);
    }
    hd_span_drain(); /* of other operations: legs of theirs may have ended */
    return false;
}

static void closed(hd_outer_t *stage, hd_op_t *op, ucc_status_t why) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    (void)stage;
    hd_crossing_abort(crossing, why);
    (void)hd_net_pump(crossing->net);
    hd_span_drain();
}

/* A member takes its own from the results. */
static void take(hd_outer_t *stage, hd_op_t *op, const void *results) {
    const hd_crossing_t *crossing = hd_group_crossing(op->group);
    size_t bytes, at = hd_swap_takes(crossing->span, &op->call, op->place.me, &bytes);
    (void)stage;
    hd_assert_le(at + bytes, bytes_of_results(crossing));
    memcpy(op->call.dst, (const uint8_t *)results + at, bytes);
}

/* From a root: its lane, or its process's part, has what this member waits for, before the others
 * of this process are here. That stays until this member is out of the exchange: nobody publishes a
 * lane in the same place before he knows that, and no part takes another's place before (end_read).
 * What is of another call is for the completer to find. */
static bool take_early(hd_outer_t *stage, hd_op_t *op) {
    const hd_crossing_t *crossing = hd_group_crossing(op->group);
    const hd_span_t *span = crossing->span;
    const hd_call_t *call = &op->call;
    uint64_t k = op->place.k;
    uint32_t process;
    size_t bytes = hd_swap_comes(span, call, &process);
    if (hd_coll[call->type].flow != HD_FROM_ROOT) {
        return false;
    }
    if (process != span->mine) {
        if (!hd_net_swap_has_part(crossing->team, k, process) ||
            !hd_net_swap_fits(crossing->team, k, process, call->signature, bytes)) {
            return false;
        }
        take(stage, op, hd_net_swap_part(crossing->team, k, process));
        return true;
    }
    const hd_lane_t *lane = hd_board_lane(op->place.board, span->local_of[call->root], k);
    if (!hd_lane_is_there(lane, k) || lane->signature != call->signature) {
        return false;
    }
    const uint8_t *from = hd_lane_view(lane, k, NULL);
    uint32_t me = hd_span_endpoint(span, span->mine, op->place.me);
    memcpy(call->dst, call->type == HD_SCATTER ? from + me * call->bytes : from, call->bytes);
    return true;
}

static void phases(const hd_op_t *op, hd_phases_t *phases) {
    const hd_crossing_t *crossing = hd_group_crossing(op->group);
    hd_phases_add(phases, (hd_phase_t){.kind = HD_PHASE_NETWORK,
                                       .algorithm = "one message each way",
                                       .processes = crossing->span->processes});
}

void hd_swap_stage(hd_outer_t *stage) {
    *stage = (hd_outer_t){.arrived = all_are_here,
                          .pump = pump,
                          .closed = closed,
                          .take = take,
                          .take_early = take_early,
                          .phases = phases};
}

/* Of a process of one endpoint: while its operation is queued, or is cancelled. */
static bool pump_alone(hd_outer_t *stage, hd_op_t *op) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    (void)stage;
    if (hd_group_is_complete(op->group)) {
        (void)hd_net_pump(crossing->net);
    } else {
        (void)hd_crossing_pump(crossing);
    }
    hd_span_drain();
    return false;
}

void hd_swap_stage_alone(hd_outer_t *stage) {
    *stage = (hd_outer_t){.pump = pump_alone, .closed = closed, .phases = phases};
}

static ucc_status_t start_together(hd_op_t *op) {
    const hd_call_t *call = &op->call;
    const hd_span_t *span = op->span;
    const void *source = hd_swap_source(call);
    bool waits = hd_swap_waits(call);
    uint32_t shape = waits ? HD_OUTER_TAKES : HD_OUTER_GOES;
    if (hd_coll[call->type].flow == HD_AMONG_ALL) {
        shape |= HD_OUTER_ALL_WAIT;
    }
    if (!waits && call->type == HD_SCATTER && !call->in_place) { /* the root's own block */
        uint32_t me = hd_span_endpoint(span, span->mine, op->place.me);
        memmove(call->dst, (const uint8_t *)source + me * call->bytes, call->bytes);
    }
    return hd_outer_start_giving(op, shape, source, hd_swap_gives(span, call));
}

/* --- which ------------------------------------------------------------------------------------ */

/* The same in all processes. */
static bool swaps(const hd_op_t *op) {
    const hd_call_t *call = &op->call;
    /* nothing of what an endpoint knows alone: that it packs what others do not, for one */
    if (!op->start || !op->outer || call->empty || call->exclusive || call->one_sided) {
        return false;
    }
    const hd_crossing_t *crossing = hd_group_crossing(op->group);
    const hd_span_t *span = crossing->span;
    const hd_coll_t *coll = &hd_coll[call->type];
    if (!hd_net_may_swap(crossing->team, call->type) || (coll->moves_data && !call->bytes)) {
        return false;
    }
    if (coll->reducing && (hd_reducer_is_user(&call->reducer) ||
                           (crossing->placement && span->blocks != span->processes))) {
        return false;
    }
    return hd_swap_suits(span, call, crossing->swap_most);
}

/* Memory that only some calls need. False: there is none (logged). */
static bool reserve(hd_crossing_t *crossing, const hd_op_t *op) {
    size_t bytes = HD_SWAP_SLOTS * bytes_of_results(crossing);
    uint8_t *none = NULL;
    hd_net_swap_t net;
    hd_swap_set(&net, crossing->span, &op->call, 0);
    if (hd_net_swap_is_long(&net) && hd_net_swap_reserve(crossing->team) != UCC_OK) {
        return false;
    }
    /* relaxed: only whether there is some */
    if (op->place.n == 1 || atomic_load_explicit(&crossing->swap_results, memory_order_relaxed)) {
        return true;
    }
    uint8_t *results = hd_alloc_local(bytes, -1); /* where its first user is */
    if (!results) {
        hd_error("no memory for what %u processes bring", crossing->span->processes);
        return false;
    }
    /* release: pairs with results_of; relaxed: another's is as good */
    if (!atomic_compare_exchange_strong_explicit(&crossing->swap_results, &none, results,
                                                 memory_order_release, memory_order_relaxed)) {
        hd_free_local(results);
    }
    return true;
}

static ucc_status_t start_nowhere(hd_op_t *op) {
    (void)op;
    return UCC_ERR_NO_MEMORY; /* which was logged, and fails the team */
}

bool hd_swap_choose(hd_op_t *op) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    const hd_call_t *call = &op->call;
    bool reducing = hd_coll[call->type].reducing;
    if (!swaps(op)) {
        return false;
    }
    if (op->place.n > 1) {
        op->outer = &crossing->swap_stage;
        if (!hd_flight_cut(op).small) {
            bool may = reserve(crossing, op);
            op->start = may ? start_together : start_nowhere;
            op->plan = may ? hd_plan_of_outer_giving(op, hd_swap_gives(op->span, call),
                                                     hd_coll[call->type].flow == HD_AMONG_ALL)
                           : (hd_plan_t){.path = HD_PATH_NOTHING}; /* no plan of that is kept */
        }
        return false;
    }
    /* all operands are combined at once, so the result is no partial one */
    if (reducing &&
        hd_reducer_init(&op->call.reducer, call->reducer.dt, call->reducer.op, op->n) != UCC_OK) {
        return false;
    }
    op->outer = &crossing->alone_stage;
    op->start = reserve(crossing, op) ? start_alone : start_nowhere;
    /* before the team is complete, nobody may take a number by the express, and no plan is kept */
    bool complete = hd_group_is_complete(op->group) && op->start == start_alone;
    op->plan = (hd_plan_t){.path = complete ? HD_PATH_LANES : HD_PATH_NOTHING, .express = complete};
    return true;
}

/* --- the express ------------------------------------------------------------------------------ */

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
    const void *data[1] = {src};
    uint64_t k = take_number(at);
    if (!k) {
        return 0;
    }
    const hd_crossing_t *crossing = hd_group_crossing(at->board->group);
    hd_swap_t swap = swap_of(crossing, call, k, data);
    hd_swap_set(swap.net, swap.span, call, k);
    (void)hd_swap_write(&swap); /* of one member: nothing can fail */
    /* who is waited for may need this processor */
    if (!hd_net_swap(swap.team, k, crossing->crowded ? 0 : looks / A_TURN)) {
        return k;
    }
    if (hd_swap_odd(&swap) < swap.span->processes) {
        return k; /* the operation that takes over says so */
    }
    take_alone(&swap, dst);
    hd_net_swap_done(swap.team, k);
    hd_net_swap_over(swap.team, k);
    consume(at, k);
    return HD_EXPRESS_OVER;
}

uint64_t hd_swap_express(const hd_place_t *at, const hd_call_t *call, uint32_t looks) {
    return hd_swap_express_of(at, call, hd_swap_source(call), call->dst, looks);
}
