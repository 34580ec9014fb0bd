/* swap.c: how swaps live: small collectives of teams of few processes, for which each process sends
 * one message to each (net/swap.c). plan.c asks whether a call is one; request/ calls the express;
 * shm calls the stages.
 *
 * ALONE: this process has one endpoint of the team. There is nothing to gather, so the call itself
 * gives its part to the others, looks for theirs, and takes what they bring. Such an operation has
 * a number of the main board like any other. It is marked as exposed although nobody touches its
 * buffers, so that its failing or timing out fails the team in all processes, as with all
 * operations that cross processes (shm/outer.c).
 *
 * TOGETHER: this process has several endpoints of the team. They arrive and are released as in a
 * flight (flight.c), by a stage of their own. The completer of the arrival writes the process's
 * parts, leaves the ref in the exchange's swap_place, and lets the parts go out. The first member
 * that finds there that all needed parts have come takes the ref, makes the results and releases.
 * Nothing has to keep the group meanwhile, because members that are in the exchange do all this. A
 * reduction that fits into the arrival's lines is combined there, and its result comes with the
 * release. Otherwise members publish their contributions, which stay in their lanes until all have
 * left the exchange, and the release says where the results are.
 *
 * Whether a process is alone or together is its own affair: the messages are the same.
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

/* Called when all needed parts are there: do they belong to the same call? If not, that is logged,
 * and the team has failed. */
static bool fits(const hd_op_t *op, const hd_swap_t *swap) {
    uint32_t odd = hd_swap_odd(swap);
    if (odd < swap->span->processes) {
        hd_error("%s: process %u was called with other arguments than process %u",
                 hd_op_type_name(op), odd, swap->span->mine);
        hd_group_poison(op->group, UCC_ERR_INVALID_PARAM);
    }
    return odd == swap->span->processes;
}

/* Has all come that is needed? If the team is crowded, the caller gives the processor up when the
 * answer is no. But processes on other processors may just be giving their parts, and giving up
 * would cost one more change of processes; so then this looks a few more times. */
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

/* Ends an operation of a process with one endpoint, in its step. */
static ucc_status_t end(hd_op_t *op, ucc_status_t status) {
    op->exposed = status != UCC_OK;
    op->task.impatient = false;
    return status;
}

/* Gives this process's only member its results. */
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
        return UCC_INPROGRESS; /* the operation's step sees that, too */
    }
    bool there = is_there_soon(crossing, k);
    hd_span_drain(); /* legs of other teams may have ended as well */
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

/* The start of an operation of a process with one endpoint: gives the parts to the others. */
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

/* Are contributions in lanes, and results in memory of the crossing? Else the arrival combines
 * operands, or there is no data. */
static bool is_by_lanes(const hd_op_t *op) {
    return hd_coll[op->call.type].moves_data && !(op->outer_shape & HD_OUTER_REDUCES);
}

/* Finds the members' contributions in their lanes. All members have published. Their lanes stay as
 * they are, because the caller has not left the exchange yet. */
static void find_contributions(const hd_op_t *op, const void *data[HD_SWAP_MEMBERS]) {
    for (uint32_t i = 0; i < op->place.n; i++) {
        const hd_lane_t *lane = hd_board_lane(op->place.board, i, op->place.k);
        data[i] = hd_lane_view(lane, op->place.k, NULL); /* contributions are never in lines */
    }
}

/* Returns the bytes that a slot has for results. */
static size_t bytes_of_results(const hd_crossing_t *crossing) {
    uint32_t processes = crossing->span->processes;
    return processes * hd_net_swap_most(processes);
}

/* Returns where the results of exchange k lie. */
static uint8_t *results_of(const hd_crossing_t *crossing, uint64_t k) {
    /* acquire: pairs with reserve */
    uint8_t *all = atomic_load_explicit(&crossing->swap_results, memory_order_acquire);
    return all + k % HD_SWAP_SLOTS * bytes_of_results(crossing);
}

/* Called when all needed parts are there, by the completer or by members that wait. One of them
 * takes the ref, makes the results and releases; the others do nothing. */
static void try_release(hd_crossing_t *crossing, const hd_op_t *op) {
    hd_swap_place_t *place = &crossing->swap_place[op->place.k % HD_SWAP_SLOTS];
    /* initialized because gcc takes passing a const pointer to it for a read */
    const void *data[HD_SWAP_MEMBERS] = {NULL};
    /* zero where nobody has a result; nobody reads it then */
    uint8_t small[HD_SWAP_BYTES] = {0};
    uint64_t k = op->place.k;
    hd_swap_t swap = swap_of(crossing, &op->call, k, data);
    hd_reducer_t reducer;
    /* acquire: pairs with all_are_here, although who saw the parts has the ref through them; of
     * several callers, one gets the ref */
    if (!atomic_compare_exchange_strong_explicit(&place->k, &k, 0, memory_order_acquire,
                                                 memory_order_relaxed) ||
        !fits(op, &swap)) {
        return;
    }
    hd_exchange_ref_t ref = place->ref; /* it stays as it is as long as I am in the exchange */
    bool by_lanes = is_by_lanes(op), brings = op->outer_shape & HD_OUTER_BRINGS;
    uint8_t *results = by_lanes ? results_of(crossing, op->place.k) : small;
    /* the operation's own reducer makes partial results; its datatype and operation have been
     * checked with it */
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
        /* relaxed, as in end_read: threads of this process are ordered by their lanes */
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

/* Lets go of parts that members may have read early (take_early). They must stay until all members
 * have left their exchange; by the board's window, members that have published k have left k -
 * depth/2. Called by the completer of exchange k. */
static void end_read(hd_crossing_t *crossing, const hd_op_t *op) {
    uint64_t left = op->place.k - op->place.board->depth / 2;
    if (op->place.k <= op->place.board->depth / 2) {
        return;
    }
    for (uint32_t i = 0; i < HD_SWAP_SLOTS; i++) {
        uint64_t k = atomic_load_explicit(&crossing->swap_place[i].unread, memory_order_relaxed);
        if (k && k <= left &&
            /* relaxed: one of several completers has to get it, no more */
            atomic_compare_exchange_strong_explicit(&crossing->swap_place[i].unread, &k, 0,
                                                    memory_order_relaxed, memory_order_relaxed)) {
            hd_net_swap_over(crossing->team, k);
        }
    }
}

/* Writes the process's parts. partial: what the arrival has combined; NULL: the contributions are
 * in lanes, or there is no data. */
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

/* The stage's `arrived`: all members of this process have published. Called by the completer. */
static void all_are_here(hd_op_t *op, const hd_exchange_ref_t *ref, ucc_status_t status,
                         const void *payload) {
    enum { LOOKS = 1 }; /* no more, because the others in this process may need the processor */
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    hd_swap_place_t *place = &crossing->swap_place[op->place.k % HD_SWAP_SLOTS];
    uint64_t k = op->place.k;
    if (status == UCC_OK && hd_group_poisoned(op->group) != UCC_OK) {
        /* the team has failed, or this is the child of a fork, which has another net */
        return;
    }
    if (status == UCC_OK) {
        hd_swap_t swap = swap_of(crossing, &op->call, k, NULL);
        hd_swap_set(swap.net, swap.span, &op->call, k);
        status = write_together(op, &swap, payload);
    }
    if (status != UCC_OK) { /* the members find the group poisoned, and cancel */
        hd_group_poison(op->group, status);
        hd_crossing_abort(crossing, status);
        return;
    }
    end_read(crossing, op);
    /* relaxed: who took the ref of the slot's last exchange is out of that, unless the team has
     * failed */
    hd_assert(atomic_load_explicit(&place->k, memory_order_relaxed) == 0 ||
              hd_group_poisoned(op->group) != UCC_OK);
    place->ref = *ref;
    /* release: the ref, and what the exchange needs; pairs with try_release and pump */
    atomic_store_explicit(&place->k, k, memory_order_release);
    if (hd_net_swap(crossing->team, k, LOOKS)) {
        try_release(crossing, op);
    }
}

static uint8_t pump(hd_op_t *op) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    const hd_swap_place_t *place = &crossing->swap_place[op->place.k % HD_SWAP_SLOTS];
    if (!hd_group_is_complete(op->group)) {
        hd_crossing_pump(crossing);
        /* acquire: what the exchange needs; pairs with all_are_here. try_release takes the ref */
    } else if (atomic_load_explicit(&place->k, memory_order_acquire) != op->place.k) {
        (void)hd_net_pump(crossing->net); /* not all members are here, or one has taken the ref */
    } else if (hd_net_swap_is_there(crossing->team, op->place.k)) {
        try_release(crossing, op);
    }
    hd_span_drain(); /* legs of other operations may have ended */
    return HD_IMPATIENT;
}

static void closed(hd_op_t *op, ucc_status_t why) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    hd_crossing_abort(crossing, why);
    (void)hd_net_pump(crossing->net);
    hd_span_drain();
}

/* The stage's `take`: copies a member's own out of the results. */
static void take(hd_op_t *op, const void *results) {
    const hd_crossing_t *crossing = hd_group_crossing(op->group);
    size_t bytes, at = hd_swap_takes(crossing->span, &op->call, op->place.me, &bytes);
    hd_assert_le(at + bytes, bytes_of_results(crossing));
    memcpy(op->call.dst, (const uint8_t *)results + at, bytes);
}

/* The stage's `take_early`: where data comes from a root, a member takes its own as soon as it is
 * there, before all members of this process are. The data is in the root's lane, or in the part of
 * its process. It stays until this member has left the exchange: nobody publishes a lane in the
 * same place before that, and no part takes the place of this one (end_read). If it belongs to
 * another call, this returns false, and whoever releases finds that. */
static bool take_early(hd_op_t *op) {
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
        take(op, hd_net_swap_part(crossing->team, k, process));
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

static void phases(const hd_op_t *op, const hd_plan_t *plan, hd_phases_t *phases) {
    (void)plan;
    hd_phases_add(phases, (hd_phase_t){.kind = HD_PHASE_NETWORK,
                                       .algorithm = "one message each way",
                                       .processes = op->span->processes});
}

static const hd_outer_t stage = {.arrived = all_are_here,
                                 .pump = pump,
                                 .closed = closed,
                                 .take = take,
                                 .take_early = take_early,
                                 .phases = phases};
static const hd_outer_t alone_stage = {.pump = hd_flight_pump, .closed = closed, .phases = phases};

/* The start of an operation of a process with several endpoints that has data in lanes. */
static ucc_status_t start_together(hd_op_t *op) {
    const hd_call_t *call = &op->call;
    const hd_span_t *span = op->span;
    const void *source = hd_swap_source(call);
    bool waits = hd_swap_waits(call);
    uint32_t shape = waits ? HD_OUTER_TAKES : HD_OUTER_GOES;
    if (hd_coll[call->type].flow == HD_AMONG_ALL) {
        shape |= HD_OUTER_ALL_WAIT;
    }
    if (!waits && call->type == HD_SCATTER && !call->in_place) { /* the root copies its own block */
        uint32_t me = hd_span_endpoint(span, span->mine, op->place.me);
        memmove(call->dst, (const uint8_t *)source + me * call->bytes, call->bytes);
    }
    return hd_outer_start_giving(op, shape, source, hd_swap_gives(span, call));
}

/* --- which ------------------------------------------------------------------------------------ */

bool hd_swap_is(const hd_op_t *op) {
    const hd_call_t *call = &op->call;
    /* nothing is asked here that one endpoint alone knows, such as that it packs its data */
    if (call->empty || call->exclusive || call->one_sided) {
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

/* Allocates, at their first call, what only some swaps need: the net's memory of long parts, and
 * the crossing's of results. Any thread. False: no memory (logged). */
static bool reserve(hd_crossing_t *crossing, const hd_op_t *op) {
    size_t bytes = HD_SWAP_SLOTS * bytes_of_results(crossing);
    uint8_t *none = NULL;
    hd_net_swap_t net;
    hd_swap_set(&net, crossing->span, &op->call, 0);
    if (hd_net_swap_is_long(&net) && hd_net_swap_reserve(crossing->team) != UCC_OK) {
        return false;
    }
    /* relaxed: it only matters whether there is some */
    if (op->place.n == 1 || atomic_load_explicit(&crossing->swap_results, memory_order_relaxed)) {
        return true;
    }
    uint8_t *results = hd_alloc_local(bytes, -1); /* near the thread that uses it first */
    if (!results) {
        hd_error("no memory for what %u processes bring", crossing->span->processes);
        return false;
    }
    /* release: pairs with results_of; relaxed: if another thread was first, its memory is as
     * good */
    if (!atomic_compare_exchange_strong_explicit(&crossing->swap_results, &none, results,
                                                 memory_order_release, memory_order_relaxed)) {
        hd_free_local(results);
    }
    return true;
}

/* The start of an operation for which reserve found no memory. */
static ucc_status_t start_nowhere(hd_op_t *op) {
    (void)op;
    return UCC_ERR_NO_MEMORY; /* reserve has logged it, and it fails the team */
}

/* Of several endpoints: what fits into the tree's release goes there, as in a flight. */
void hd_swap_plan(const hd_op_t *op, hd_plan_t *plan) {
    const hd_call_t *call = &op->call;
    if (op->place.n == 1) {
        *plan = (hd_plan_t){.path = HD_PATH_LANES, .express = true};
    } else if (plan->path != HD_PATH_TREE) {
        bool all_wait = hd_coll[call->type].flow == HD_AMONG_ALL;
        *plan = hd_plan_of_outer_giving(op, hd_swap_gives(op->span, call), all_wait);
    }
    plan->network = HD_NETWORK_SWAP;
}

/* Sets the reducer to one of final results: all operands of the team are combined at once. The
 * datatype and the operation have been checked with it. */
static void make_final(hd_op_t *op) {
    hd_reducer_t *reducer = &op->call.reducer;
    ucc_status_t status = hd_reducer_init(reducer, reducer->dt, reducer->op, op->n);
    hd_assert_eq(status, UCC_OK);
    (void)status;
}

bool hd_swap_follow(hd_op_t *op) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    bool alone = op->place.n == 1, reduces = hd_coll[op->call.type].reducing;
    op->outer = alone ? &alone_stage : &stage;
    if (reduces && alone) {
        make_final(op);
    } else if (reduces) {
        hd_flight_make_partial(&op->call.reducer);
    }
    if (!alone &&
        op->plan.data != HD_REGIME_STAGED) { /* the arrival combines, or there is no data */
        op->start = hd_flight_start_small;
        return true;
    }
    bool may = reserve(crossing, op);
    op->start = !may ? start_nowhere : alone ? start_alone : start_together;
    return may;
}

/* --- the express ------------------------------------------------------------------------------ */

/* One look of a swap is a turn of the net's lane, which takes as long as so many looks at
 * memory. */
enum { A_TURN = 8 };

/* Takes the next number on the main board for the express; 0: it may not be published yet. */
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

/* Ends the express: the member has consumed exchange k. */
static void consume(const hd_place_t *at, uint64_t k) {
    if (at->locked) {
        hd_lock(&at->member->lock);
    }
    hd_board_consume(at->board, at->member, k, true);
    hd_checked(hd_board_check(at->board, at->me));
    if (at->locked) {
        hd_unlock(&at->member->lock);
    }
    hd_bell_ring(&at->board->group->home.bell); /* others may wait for the board's window */
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
    (void)hd_swap_write(&swap); /* nothing fails with one member */
    /* if the team is crowded, a process that is waited for may need this processor */
    if (!hd_net_swap(swap.team, k, crossing->crowded ? 0 : looks / A_TURN)) {
        return k;
    }
    if (hd_swap_odd(&swap) < swap.span->processes) {
        return k; /* the operation that takes over finds that again and logs it */
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
