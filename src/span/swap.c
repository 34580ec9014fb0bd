/* swap.c: how swaps live: small collectives of teams of few processes, for which each process sends
 * one message to each (net/swap.c). And which way a call crosses processes, by a swap or by a
 * flight. request/ asks that, and calls the express; shm calls the stage.
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
    enum { LOOKS = 5 };
    bool there = false;
    for (uint32_t left = crossing->crowded ? LOOKS : 1; !there && left > 0; left--) {
        there = hd_net_swap_is_there(crossing->team, k);
    }
    return there;
}

/* Returns the reducer of final results, which combines all operands of the team at once. Its
 * datatype and operation have been checked with the operation's own, of partial results. */
static hd_reducer_t final_reducer(const hd_op_t *op) {
    hd_reducer_t reducer;
    ucc_status_t status =
        hd_reducer_init(&reducer, op->call.reducer.dt, op->call.reducer.op, op->n);
    hd_assert_eq(status, UCC_OK);
    (void)status;
    return reducer;
}

/* --- alone ------------------------------------------------------------------------------------ */

/* Gives this process's only member its results: the root of a scatter has its own block. */
static void take_alone(const hd_swap_t *swap, void *dst) {
    const hd_call_t *call = swap->call;
    if (hd_call_waits(call) || (call->type == HD_SCATTER && !call->in_place)) {
        hd_swap_compose(swap, &call->reducer, dst);
    }
    hd_net_swap_done(swap->team, swap->net->k);
    hd_net_swap_over(swap->team, swap->net->k);
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
    op->task.impatient = false;
    if (!fits(op, &swap)) {
        return UCC_ERR_INVALID_PARAM;
    }
    op->exposed = false;
    take_alone(&swap, op->call.dst);
    return UCC_OK;
}

/* The start of an operation of a process with one endpoint: gives the parts to the others. */
static ucc_status_t start_alone(hd_op_t *op) {
    const void *data[1] = {hd_swap_source(&op->call)};
    uint64_t k = op->place.k;
    hd_swap_t swap = swap_of(hd_group_crossing(op->group), &op->call, k, data);
    op->wait = hd_swap_wait;
    hd_swap_set(swap.net, swap.span, &op->call, k);
    (void)hd_swap_write(&swap, NULL); /* nothing fails with one member */
    (void)hd_net_swap(swap.team, k, 0);
    return UCC_OK;
}

/* --- together --------------------------------------------------------------------------------- */

/* With HD_OUTER_GIVES, contributions are in lanes, and results in memory of the crossing. Else the
 * arrival combines operands, or there is no data. */

/* Finds the members' contributions. All members have published. Their lanes stay as they are,
 * because the caller has not left the exchange yet. */
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
    /* acquire: pairs with all_are_here, although who saw the parts has the ref through them; of
     * several callers, one gets the ref */
    if (!atomic_compare_exchange_strong_explicit(&place->k, &k, 0, memory_order_acquire,
                                                 memory_order_relaxed) ||
        !fits(op, &swap)) {
        return;
    }
    hd_exchange_ref_t ref = place->ref; /* it stays as it is as long as I am in the exchange */
    bool by_lanes = op->outer_shape & HD_OUTER_GIVES, brings = op->outer_shape & HD_OUTER_BRINGS;
    uint8_t *results = by_lanes ? results_of(crossing, op->place.k) : small;
    hd_reducer_t reducer = {0};
    if (hd_coll[op->call.type].reducing) {
        reducer = final_reducer(op);
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
    size_t bytes = brings ? op->call.bytes : 0;
    (void)hd_outer_release(&ref, UCC_OK, by_lanes ? (const void *)&results : results,
                           by_lanes ? sizeof(results) : bytes);
}

/* Lets go of parts that members may have read early (take_early). They must stay until all members
 * have left their exchange; by the board's window, members that have published k have left k -
 * depth/2. Called by the completer of exchange k. */
static void end_read(hd_crossing_t *crossing, const hd_op_t *op) {
    uint64_t window = op->place.board->depth / 2;
    uint64_t left = op->place.k > window ? op->place.k - window : 0;
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
        const void *data[HD_SWAP_MEMBERS];
        hd_swap_t swap = swap_of(crossing, &op->call, k, NULL);
        hd_swap_set(swap.net, swap.span, &op->call, k);
        if (op->outer_shape & HD_OUTER_GIVES) {
            find_contributions(op, data);
            swap.data = data;
        }
        status = hd_swap_write(&swap, payload);
    }
    if (status != UCC_OK) { /* the members find the group poisoned, and cancel */
        hd_group_poison(op->group, status);
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
    uint64_t k = op->place.k;
    /* acquire: what the exchange needs; pairs with all_are_here. try_release takes the ref */
    if (op->place.n == 1 || !hd_group_is_complete(op->group) ||
        atomic_load_explicit(&crossing->swap_place[k % HD_SWAP_SLOTS].k, memory_order_acquire) !=
            k) {
        return hd_flight_pump(op); /* not all members are here, or one has taken the ref */
    }
    if (hd_net_swap_is_there(crossing->team, k)) {
        try_release(crossing, op);
    }
    hd_span_drain(); /* legs of other operations may have ended */
    return HD_IMPATIENT;
}

/* The stage's `take`: copies a member's own out of the results. */
static void take(hd_op_t *op, const void *results) {
    const hd_crossing_t *crossing = hd_group_crossing(op->group);
    size_t bytes, at = hd_swap_takes(crossing->span, &op->call, op->place.me, &bytes);
    hd_assert_le(at + bytes, bytes_of_results(crossing));
    memcpy(op->call.dst, (const uint8_t *)results + at, bytes);
}

/* Takes a member's own out of what the root, which is here, gives. */
static void take_of_root(const hd_op_t *op, const void *source) {
    const hd_call_t *call = &op->call;
    uint32_t me = hd_span_endpoint(op->span, op->span->mine, op->place.me);
    memmove(call->dst, hd_at(source, call->type == HD_SCATTER ? me * call->bytes : 0), call->bytes);
}

/* The stage's `take_early`: where data comes from a root, a member takes its own as soon as it is
 * there, before all members of this process are. The data is in the root's lane, or in the part of
 * its process. It stays until this member has left the exchange: nobody publishes a lane in the
 * same place before that, and no part takes the place of this one (end_read). If it belongs to
 * another call, this returns false, and whoever releases finds that. */
static bool take_early(hd_op_t *op) {
    hd_net_team_t *team = hd_group_crossing(op->group)->team;
    const hd_span_t *span = op->span;
    const hd_call_t *call = &op->call;
    uint64_t k = op->place.k;
    if (hd_coll[call->type].flow != HD_FROM_ROOT) {
        return false;
    }
    uint32_t root = span->process_of[call->root];
    if (root != span->mine) {
        size_t bytes = hd_swap_part_bytes(span, call, root, span->mine);
        bool may = hd_net_swap_has_part(team, k, root) &&
                   hd_net_swap_fits(team, k, root, call->signature, bytes);
        if (may) {
            take(op, hd_net_swap_part(team, k, root));
        }
        return may;
    }
    const hd_lane_t *lane = hd_board_lane(op->place.board, span->local_of[call->root], k);
    bool may = hd_lane_is_there(lane, k) && lane->signature == call->signature;
    if (may) {
        take_of_root(op, hd_lane_view(lane, k, NULL));
    }
    return may;
}

static void phases(const hd_op_t *op, const hd_plan_t *plan, hd_phases_t *phases) {
    (void)plan;
    hd_phases_add(phases, (hd_phase_t){.kind = HD_PHASE_NETWORK,
                                       .algorithm = "one message each way",
                                       .processes = op->span->processes});
}

/* The stage's `awaits`. */
static void awaits(const hd_op_t *op, hd_text_t *text) {
    const hd_crossing_t *crossing = hd_group_crossing(op->group);
    if (!hd_group_is_complete(op->group)) {
        hd_crossing_awaits(crossing, text);
    } else if (!hd_net_swap_awaits(crossing->team, op->place.k, text)) {
        hd_text_add(text, "other processes");
    }
}

static const hd_outer_t stage = {.arrived = all_are_here,
                                 .pump = pump,
                                 .closed = hd_flight_closed,
                                 .take = take,
                                 .take_early = take_early,
                                 .awaits = awaits,
                                 .phases = phases};

/* The start of an operation of a process with several endpoints that has data in lanes. */
static ucc_status_t start_together(hd_op_t *op) {
    const hd_call_t *call = &op->call;
    const void *source = hd_swap_source(call);
    uint32_t shape = hd_call_waits(call) ? HD_OUTER_TAKES : HD_OUTER_GOES;
    if (hd_coll[call->type].flow == HD_AMONG_ALL) {
        shape |= HD_OUTER_ALL_WAIT;
    }
    if (call->type == HD_SCATTER && call->is_root && !call->in_place) { /* it has its own block */
        take_of_root(op, source);
    }
    return hd_outer_start_giving(op, shape, source, hd_swap_gives(op->span, call));
}

/* --- which ------------------------------------------------------------------------------------ */

/* Is this call a swap, if it has a number of the main board? All processes get the same answer:
 * nothing is asked that one endpoint alone knows, such as that it packs its data. plan: that by
 * which it would go by a flight. */
static bool is_swap(const hd_op_t *op, const hd_plan_t *plan) {
    const hd_call_t *call = &op->call;
    const hd_crossing_t *crossing = hd_group_crossing(op->group);
    bool no_data = hd_coll[call->type].moves_data && !call->bytes;
    /* a user's reduction is exclusive */
    return !call->empty && !call->exclusive && !call->one_sided && !plan->apart && !no_data &&
           hd_net_may_swap(crossing->team, call->type) &&
           hd_swap_suits(crossing->span, call, crossing->swap_most);
}

/* Allocates, at their first call, what only some swaps need: the net's memory of long parts, and
 * the crossing's of results. Any thread. */
static ucc_status_t reserve(const hd_op_t *op) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    size_t bytes = HD_SWAP_SLOTS * bytes_of_results(crossing);
    uint8_t *none = NULL;
    hd_net_swap_t net;
    hd_swap_set(&net, crossing->span, &op->call, 0);
    if (hd_net_swap_is_long(&net) && hd_net_swap_reserve(crossing->team) != UCC_OK) {
        return UCC_ERR_NO_MEMORY;
    }
    /* relaxed: it only matters whether there is some */
    if (op->place.n == 1 || atomic_load_explicit(&crossing->swap_results, memory_order_relaxed)) {
        return UCC_OK;
    }
    uint8_t *results = hd_alloc_local(bytes, -1); /* near the thread that uses it first */
    if (!results) {
        hd_error("no memory for what %u processes bring", crossing->span->processes);
        return UCC_ERR_NO_MEMORY;
    }
    /* release: pairs with results_of; relaxed: if another thread was first, its memory is as
     * good */
    if (!atomic_compare_exchange_strong_explicit(&crossing->swap_results, &none, results,
                                                 memory_order_release, memory_order_relaxed)) {
        hd_free_local(results);
    }
    return UCC_OK;
}

/* Among several endpoints, what fits into the tree's release goes there, as in a flight. */
hd_plan_t hd_span_plan(const hd_op_t *op, bool numbered) {
    if (hd_group_crossing(op->group)->nodes) {
        return hd_ferry_plan(op);
    }
    hd_plan_t plan = hd_flight_plan(op, hd_flight_row(op->call.type));
    if (!numbered || !is_swap(op, &plan)) {
        return plan;
    }
    if (op->place.n == 1) {
        plan = (hd_plan_t){.path = HD_PATH_LANES, .express = true};
    } else if (plan.path != HD_PATH_TREE) {
        plan = hd_plan_of_outer_giving(op, hd_swap_gives(op->span, &op->call),
                                       hd_coll[op->call.type].flow == HD_AMONG_ALL);
    }
    plan.network = HD_NETWORK_SWAP;
    return plan;
}

ucc_status_t hd_span_follow(hd_op_t *op) {
    bool alone = op->place.n == 1;
    if (op->plan.path == HD_PATH_FERRY) {
        hd_ferry_follow(op);
        return UCC_OK;
    }
    hd_flight_follow(op);
    if (op->plan.network != HD_NETWORK_SWAP) {
        return UCC_OK;
    }
    op->outer = &stage;
    if (alone && hd_coll[op->call.type].reducing) {
        op->call.reducer = final_reducer(op);
    }
    if (!alone && op->plan.data != HD_REGIME_STAGED) {
        return UCC_OK; /* the arrival combines, or there is no data */
    }
    op->start = alone ? start_alone : start_together;
    return reserve(op);
}

/* --- the express ------------------------------------------------------------------------------ */

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

uint64_t hd_swap_express_of(const hd_place_t *at, const hd_call_t *call, const void *src, void *dst,
                            uint32_t looks) {
    /* one look of a swap is a turn of the net's lane, which takes as long as so many looks at
     * memory */
    enum { A_TURN = 8 };
    const void *data[1] = {src};
    uint64_t k = take_number(at);
    if (!k) {
        return 0;
    }
    const hd_crossing_t *crossing = hd_group_crossing(at->board->group);
    hd_swap_t swap = swap_of(crossing, call, k, data);
    hd_swap_set(swap.net, swap.span, call, k);
    (void)hd_swap_write(&swap, NULL); /* nothing fails with one member */
    /* if the team is crowded, a process that is waited for may need this processor */
    if (!hd_net_swap(swap.team, k, crossing->crowded ? 0 : looks / A_TURN)) {
        return k;
    }
    if (hd_swap_odd(&swap) < swap.span->processes) {
        return k; /* the operation that takes over finds that again and logs it */
    }
    take_alone(&swap, dst);
    return hd_express_end(at, k);
}

uint64_t hd_swap_express(const hd_place_t *at, const hd_call_t *call, uint32_t looks) {
    return hd_swap_express_of(at, call, hd_swap_source(call), call->dst, looks);
}
