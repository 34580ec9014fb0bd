/* flight_whole.c: bcast, reduce and allreduce across processes: one piece of data, in segments that
 * are in flight together. The row's functions lay slices out and run units, called by the engine;
 * the passage's functions prepare legs, called by flight.c.
 *
 *   bcast      NET: from the root's buffer into the buffer of member 0 of each other process (its
 *              LEADER). LOCAL: in the root's process, from the root to the others. SPREAD: in the
 *              other processes, from the leader to the others
 *   allreduce  LOCAL: the members' operands into the leader's result. NET: the processes' partial
 *              results into the leader's result. COMBINE: what the leg leaves to the engine.
 *              SPREAD: from the leader to the others
 *   reduce     as allreduce, but into the root's result; in a process without the root, into memory
 *              of the flight; no SPREAD
 *
 * In a process with one member, that member's operand is the partial result, and stays where it is.
 *
 * Where operands cross one by one (flight_apart.c), LOCAL combines the operands of each block of
 * several members into memory of the flight, and NET brings the result as above.
 */
#include "span/internal.h"

static bool is_bcast(const hd_flight_t *f) {
    return hd_coll[f->call.type].bcast;
}

/* Returns the member whose buffer stands for the process; n: there is none. */
static uint32_t leader(const hd_flight_t *f) {
    if (hd_coll[f->call.type].rooted && hd_flight_has_root(f)) {
        return hd_flight_root(f);
    }
    return f->call.type == HD_REDUCE ? f->n : 0;
}

/* Returns where the partial result of this process lies. */
static uint8_t *partial(const hd_flight_t *f, const hd_work_t *work) {
    if (f->n == 1) {
        return (uint8_t *)(uintptr_t)work->src[0];
    }
    return leader(f) < f->n ? work->dst[leader(f)] : f->own.at;
}

/* Returns where LOCAL puts operand i of this process, if it combines it from several members'
 * operands. */
static uint8_t *block(const hd_flight_t *f, uint32_t i) {
    return f->own.at + hd_apart_bytes(f->span) + i * f->call.bytes;
}

/* Does LOCAL make the operands that cross, out of blocks of several members? */
static bool makes_blocks(const hd_flight_t *f) {
    return f->plan.apart && f->span->together > 1;
}

static size_t scratch(const hd_flight_t *f) {
    if (f->plan.apart) {
        size_t made = makes_blocks(f) ? hd_span_blocks(f->span, f->span->mine) : 0;
        return hd_apart_bytes(f->span) + made * f->call.bytes;
    }
    return f->n > 1 && leader(f) == f->n ? f->call.bytes : 0;
}

/* --- slices ----------------------------------------------------------------------------------- */

static void layout(const hd_op_t *op, uint32_t s, hd_slice_t *slice) {
    const hd_plan_t *plan = &op->plan;
    hd_slice_kind_t kind;
    uint32_t j;
    if (!hd_slice_is(plan, s, &kind, &j)) {
        hd_slice_outer(slice, 1, op->place.k);
        return;
    }
    uint32_t windows = hd_cut_windows(plan, hd_cut_segment(plan, op->call.bytes, j).bytes);
    switch (kind) {
    case HD_LOCAL:
        hd_slice_set(slice, windows, 1, 1);
        break;
    case HD_NET:
        hd_slice_outer(slice, 1, op->place.k);
        break;
    case HD_COMBINE:
        hd_slice_later(slice, hd_coll[op->call.type].bcast ? 1 : HD_COMBINE_UNITS, 1, 0);
        break;
    default:
        hd_slice_later(slice, windows, 1, 0);
    }
}

static ucc_status_t combine_blocks(const hd_flight_t *f, const hd_op_t *op, const hd_work_t *work,
                                   hd_range_t r) {
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; i < hd_span_blocks(f->span, f->span->mine) && status == UCC_OK; i++) {
        uint32_t first, k = hd_apart_members(f, i, &first);
        void *to = block(f, i);
        status = hd_reduce_tree(&op->call.reducer, k, work->src + first, r.at, 1, &to, r.at,
                                r.bytes / f->call.element, HD_STORES_PLAIN);
    }
    return status;
}

/* A unit of LOCAL: a window of the data, of all members. */
static ucc_status_t run_local(const hd_flight_t *f, const hd_op_t *op, const hd_work_t *work,
                              hd_range_t r) {
    if (f->plan.apart) {
        return makes_blocks(f) ? combine_blocks(f, op, work, r) : UCC_OK;
    }
    if (f->n == 1 || !r.bytes) {
        return UCC_OK;
    }
    if (!is_bcast(f)) {
        void *to = partial(f, work);
        return hd_reduce_tree(&op->call.reducer, f->n, work->src, r.at, 1, &to, r.at,
                              r.bytes / f->call.element, HD_STORES_PLAIN);
    }
    if (hd_flight_has_root(f)) {
        hd_copy_to_many(f->n, work->dst, r.at, (const uint8_t *)work->src[hd_flight_root(f)] + r.at,
                        r.bytes, HD_STORES_PLAIN);
    }
    return UCC_OK;
}

/* A unit of SPREAD: copies a window of the leader's data to the other members. */
static ucc_status_t run_spread(const hd_flight_t *f, const hd_work_t *work, hd_range_t r) {
    bool spreads = f->call.type == HD_ALLREDUCE || (is_bcast(f) && !hd_flight_has_root(f));
    if (spreads && f->n > 1 && r.bytes) {
        hd_copy_to_many(f->n, work->dst, r.at, (const uint8_t *)work->dst[leader(f)] + r.at,
                        r.bytes, HD_STORES_PLAIN);
    }
    return UCC_OK;
}

static ucc_status_t run(const hd_op_t *op, const hd_work_t *work, uint32_t s, uint32_t unit) {
    const hd_flight_t *f = hd_flight_of(op);
    hd_slice_kind_t kind;
    uint32_t j;
    (void)hd_slice_is(&f->plan, s, &kind, &j);
    if (kind == HD_COMBINE) {
        return hd_flight_combine(f, j, unit);
    }
    hd_range_t r = hd_cut_window(&f->plan, hd_cut_segment(&f->plan, f->call.bytes, j), unit);
    return kind == HD_LOCAL ? run_local(f, op, work, r) : run_spread(f, work, r);
}

/* --- legs ------------------------------------------------------------------------------------- */

ucc_status_t hd_flight_prepare_bcast(hd_segment_t *s, uint8_t *whole) {
    hd_flight_t *f = s->flight;
    hd_range_t r = hd_cut_segment(&f->plan, f->call.bytes, s->index);
    if (s->index == 0) {
        hd_pieces_t pieces;
        ucc_status_t status = hd_flight_room(f, f->plan.segments, &pieces);
        if (status != UCC_OK) {
            return status;
        }
    }
    hd_net_piece_t *piece = &f->pieces[s->index];
    *piece = (hd_net_piece_t){whole + r.at, r.bytes};
    f->data[s->index] = (hd_net_data_t){piece, 1, r.bytes};
    s->leg.call.give = s->leg.call.take = &f->data[s->index];
    return UCC_OK;
}

static ucc_status_t prepare_bcast(hd_segment_t *s) {
    const hd_flight_t *f = s->flight;
    const hd_work_t *work = hd_flight_work(f);
    const uint8_t *buffer =
        hd_flight_has_root(f) ? work->src[hd_flight_root(f)] : work->dst[leader(f)];
    return hd_flight_prepare_bcast(s, (uint8_t *)(uintptr_t)buffer);
}

/* Lists this process's operands for the leg, each `at` bytes behind its address. Returns where the
 * first one's part begins. */
static const uint8_t *list_operands(hd_segment_t *s, const hd_work_t *work, size_t at) {
    const hd_flight_t *f = s->flight;
    s->several = hd_apart_list(f);
    s->several.at = at;
    for (uint32_t i = 0; i < hd_span_blocks(f->span, f->span->mine); i++) {
        *hd_apart_mine(f, i) = makes_blocks(f) ? block(f, i) : work->src[i];
    }
    return (const uint8_t *)s->several.mine[0] + at;
}

static ucc_status_t prepare_reduce(hd_segment_t *s) {
    hd_flight_t *f = s->flight;
    const hd_work_t *work = hd_flight_work(f);
    hd_range_t r = hd_cut_segment(&f->plan, f->call.bytes, s->index);
    hd_net_call_t *call = &s->leg.call;
    if (f->plan.apart) {
        call->operand = list_operands(s, work, r.at);
        call->several = &s->several;
    } else {
        call->operand = partial(f, work) + r.at;
    }
    call->result = leader(f) < f->n ? (uint8_t *)work->dst[leader(f)] + r.at : NULL;
    call->count = r.bytes / f->call.element;
    return UCC_OK;
}

static bool never(const hd_flight_t *f) {
    (void)f;
    return false;
}

/* Does LOCAL combine anything that the leg reads? */
static bool of_several(const hd_flight_t *f) {
    return f->plan.apart ? makes_blocks(f) : f->n > 1;
}

const hd_passage_t hd_passage_bcast = {
    {.layout = layout, .run = run, .streams_each = 1, .streams_more = 1},
    .prepare = prepare_bcast,
    .needs_local = never};
const hd_passage_t hd_passage_reduce = {
    {.layout = layout, .run = run, .streams_each = 2, .reducing = true},
    .prepare = prepare_reduce,
    .needs_local = of_several,
    .scratch = scratch,
    .lends = true};
const hd_passage_t hd_passage_allreduce = {
    {.layout = layout, .run = run, .streams_each = 2, .reducing = true},
    .prepare = prepare_reduce,
    .needs_local = of_several,
    .scratch = scratch,
    .lends = true};
