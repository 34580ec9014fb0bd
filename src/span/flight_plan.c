/* flight_plan.c: how a call of a team of several processes is cut: small or not, into which
 * segments, windows and legs. This is the one place where sizes of what crosses processes are
 * compared with thresholds; how a leg runs among the processes, net/plan.c decides.
 *
 * All of it follows from what all endpoints agree on, and from nothing else, because all processes
 * must come to the same legs.
 */
#include "shm/phases.h"
#include "span/internal.h"

enum {
    WHOLE = 1024 * 1024,  /* up to so many bytes, data is one segment */
    SEGMENT = 512 * 1024, /* else each segment has about so many */
    WINDOW = 64 * 1024,   /* bytes of a unit */
    /* bytes of one process's part of a reduction; less is combined at once by the thread that steps
     * the leg */
    WORTH_A_UNIT = 32 * 1024
};

/* Must operands cross one by one, because combining them process by process would give other bits?
 * A prefix needs all operands anyway, in its own way. */
static bool is_apart(const hd_op_t *op) {
    const hd_crossing_t *crossing = hd_group_crossing(op->group);
    const hd_coll_t *coll = &hd_coll[op->call.type];
    const hd_span_t *span = op->span;
    return crossing->placement && coll->reducing && !coll->prefix && !op->call.empty &&
           span->blocks != span->processes;
}

/* Is the operation's flight a small one (internal.h)? */
static bool is_small(const hd_op_t *op) {
    const hd_coll_t *coll = &hd_coll[op->call.type];
    bool combined = coll->reducing && coll->source == HD_WHOLE && !coll->prefix &&
                    !op->call.exclusive && !is_apart(op);
    return !coll->moves_data || op->call.empty || (combined && op->call.bytes <= HD_FLIGHT_PAYLOAD);
}

/* Returns which collective (enum hd_type) the legs of an operation are. */
static uint8_t leg_of(const hd_op_t *op) {
    const hd_coll_t *coll = &hd_coll[op->call.type];
    bool two_sided = op->group->two_sided;
    /* In a reduce_scatter all of whose blocks are empty nobody would send anything, and a process
     * might run ahead of another without end, beyond what numbers on the wire can tell apart; so it
     * is a barrier. */
    bool no_block = coll->reducing && coll->source == HD_BLOCKS && op->call.total == 0;
    if (op->call.empty || (!coll->moves_data && two_sided) || no_block) {
        return HD_BARRIER;
    }
    if (op->call.type == HD_REDUCE && two_sided && is_small(op)) {
        /* a process that has the result knows that all have come. A reduce that is not small has a
         * barrier behind it */
        return HD_ALLREDUCE;
    }
    /* the legs of a scan gather the operands: each process makes its prefixes itself */
    uint8_t type = coll->prefix ? HD_ALLGATHER : op->call.type;
    /* where processes have different numbers of endpoints, the processes' blocks differ in size */
    if (!op->span->even && hd_coll[type].vector_type) {
        return hd_coll[type].vector_type;
    }
    return type == HD_MCAST ? HD_BCAST : type;
}

uint32_t hd_flight_slices(const hd_op_t *op, const hd_plan_t *plan) {
    return hd_slice_of(plan, HD_NET, plan->segments) + op->group->two_sided;
}

/* Cuts the work into segments and units, all of which are whole elements. */
static void cut(const hd_op_t *op, hd_plan_t *plan) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    size_t element = coll->reducing ? call->element : 1;
    bool whole = coll->source == HD_WHOLE && !coll->prefix;
    plan->window = WINDOW > element ? WINDOW - WINDOW % element : element;
    plan->stores = HD_STORES_PLAIN;
    if (whole && call->bytes > WHOLE) {
        size_t segments = (call->bytes + SEGMENT - 1) / SEGMENT;
        segments = segments < HD_FLIGHT_SEGMENTS ? segments : HD_FLIGHT_SEGMENTS;
        size_t elements = call->bytes / element;
        plan->segment = (elements + segments - 1) / segments * element;
        plan->segments = (uint8_t)((call->bytes + plan->segment - 1) / plan->segment);
    }
    plan->parallel =
        call->exclusive || !whole || plan->segment / op->span->processes >= WORTH_A_UNIT;
    plan->slices = hd_flight_slices(op, plan);
    hd_assert(plan->segments >= 1 && plan->segments <= HD_FLIGHT_SEGMENTS);
    hd_assert(plan->window > 0 && plan->window % element == 0);
    hd_assert(!whole || plan->segment * plan->segments >= call->bytes); /* they hold all data */
}

uint32_t hd_flight_small_shape(const hd_op_t *op) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    bool reduces = coll->reducing && !call->empty;
    uint32_t shape = reduces ? HD_OUTER_REDUCES | HD_OUTER_BRINGS : 0;
    if (coll->all_wait || op->group->two_sided || call->empty) {
        shape |= HD_OUTER_ALL_WAIT;
    } else if (!hd_call_waits(call)) {
        shape |= HD_OUTER_GOES;
    }
    if (reduces && hd_holds(coll->result_at, call->is_root, op->place.me)) {
        shape |= HD_OUTER_TAKES;
    }
    return shape;
}

hd_plan_t hd_flight_plan(const hd_op_t *op, const hd_work_row_t *row) {
    bool small = is_small(op);
    uint32_t shape = hd_flight_small_shape(op);
    hd_plan_t plan = small ? hd_plan_of_outer(op, shape & HD_OUTER_REDUCES, shape & HD_OUTER_BRINGS,
                                              shape & HD_OUTER_ALL_WAIT)
                           : hd_plan_of_outer_work(op, row);
    plan.network = HD_NETWORK_LEGS;
    plan.leg = leg_of(op);
    plan.apart = is_apart(op);
    plan.segments = 1;
    plan.segment = op->call.bytes;
    if (!small) {
        cut(op, &plan);
    }
    return plan;
}

size_t hd_flight_leg_bytes(const hd_span_t *span, const hd_call_t *call, const hd_plan_t *plan) {
    const hd_coll_t *coll = &hd_coll[call->type];
    size_t most = (span->n + span->processes - 1) / span->processes;
    if (hd_coll[plan->leg].vector || !coll->moves_data) {
        return 0;
    }
    if (coll->source == HD_WHOLE) {
        return coll->prefix ? call->bytes * most : plan->segment;
    }
    return call->bytes * most * (coll->pairwise ? most : 1);
}

void hd_flight_phases(const hd_op_t *op, const hd_plan_t *plan, hd_phases_t *phases) {
    static const hd_net_several_t several = {0}; /* the plan asks only whether there are several */
    const hd_span_t *span = op->span;
    hd_net_call_t leg = {.type = plan->leg,
                         .n = span->processes,
                         .me = span->mine,
                         .element = op->call.element,
                         .parallel = plan->parallel,
                         .several = plan->apart ? &several : NULL};
    hd_net_plan_t by = hd_net_plan_of(hd_group_crossing(op->group)->team, &leg,
                                      hd_flight_leg_bytes(span, &op->call, plan));
    hd_phases_add(phases, (hd_phase_t){.kind = HD_PHASE_NETWORK,
                                       .algorithm = hd_net_plan_name(&by),
                                       .type = hd_type_name(plan->leg),
                                       .processes = span->processes,
                                       .radix = hd_net_plan_radix(&by),
                                       .segments = plan->segments,
                                       .segment = plan->segment});
}

hd_range_t hd_cut_segment(const hd_plan_t *plan, size_t bytes, uint32_t segment) {
    hd_assert_lt(segment, plan->segments);
    size_t at = segment * plan->segment, left = at < bytes ? bytes - at : 0;
    return (hd_range_t){at, left < plan->segment ? left : plan->segment};
}

uint32_t hd_cut_windows(const hd_plan_t *plan, size_t bytes, uint32_t segment) {
    hd_range_t r = hd_cut_segment(plan, bytes, segment);
    hd_assert_lt(0, r.bytes); /* a call of no bytes has no work */
    return (uint32_t)((r.bytes + plan->window - 1) / plan->window);
}

hd_range_t hd_cut_window(const hd_plan_t *plan, size_t bytes, uint32_t segment, uint32_t unit) {
    hd_range_t r = hd_cut_segment(plan, bytes, segment);
    size_t skip = (size_t)unit * plan->window, left = r.bytes - skip;
    hd_assert_lt(skip, r.bytes);
    return (hd_range_t){r.at + skip, left < plan->window ? left : plan->window};
}

void hd_flight_print_cuts(FILE *out) {
    fprintf(
        out,
        "reductions of up to %d bytes, and what moves no data, cross in the arrival tree's "
        "release; all else is work of units of %d KiB. Whole data beyond %d KiB crosses in "
        "segments of about %d KiB, at most %d of them in flight together, each with the plan of "
        "its size. Among up to %d processes, what is at most NET_SWAP_MAX bytes from each for "
        "each is a swap instead, of one message\n\n",
        (int)HD_FLIGHT_PAYLOAD, WINDOW / 1024, WHOLE / 1024, SEGMENT / 1024,
        (int)HD_FLIGHT_SEGMENTS, (int)HD_SWAP_PROCESSES);
}
