/* flight_whole.c: bcast, reduce and allreduce across processes: one piece of data, in segments that
 * are in flight together. The engine runs the units of the slices, flight.c prepares legs.
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
 * Where operands cross one by one (internal.h), LOCAL combines the operands of each block of
 * several members into memory of the flight, and NET brings the result as above.
 */
#include "span/internal.h"

/* Returns the member whose buffer stands for the process; n: there is none. */
static uint32_t leader(const hd_flight_t *f) {
    if (hd_coll[f->call.type].rooted && hd_flight_has_root(f)) {
        return hd_flight_root(f);
    }
    return f->call.type == HD_REDUCE ? f->n : 0;
}

/* Does LOCAL make the operands that cross, out of several members'? */
static bool combines(const hd_flight_t *f) {
    return f->plan.apart ? f->span->together > 1 : f->n > 1;
}

/* Does it make them in memory of the flight? */
static bool needs_memory(const hd_flight_t *f) {
    return combines(f) && (f->plan.apart || leader(f) == f->n);
}

/* Returns where operand i of this process lies. */
static uint8_t *operand(const hd_flight_t *f, uint32_t i) {
    if (needs_memory(f)) {
        return f->blocks + i * f->call.bytes;
    }
    return combines(f) ? f->work->dst[leader(f)] : (uint8_t *)(uintptr_t)f->work->src[i];
}

static size_t entry(const hd_flight_t *f, uint32_t i) {
    (void)i;
    return needs_memory(f) ? f->call.bytes : 0;
}

/* --- units: windows of the data --------------------------------------------------------------- */

static ucc_status_t reduce_local(const hd_flight_t *f, const hd_op_t *op, uint32_t segment,
                                 uint32_t unit) {
    hd_range_t r = hd_cut_window(&f->plan, f->call.bytes, segment, unit);
    (void)op;
    return combines(f) ? hd_flight_reduce(f, r.at, r.bytes, operand(f, 0) + r.at, f->call.bytes)
                       : UCC_OK;
}

/* Copies a window from a member's buffer to all others'. */
static void spread(const hd_flight_t *f, const void *from, uint32_t segment, uint32_t unit) {
    hd_range_t r = hd_cut_window(&f->plan, f->call.bytes, segment, unit);
    if (f->n > 1) {
        hd_copy_to_many(f->n, f->work->dst, r.at, hd_at(from, r.at), r.bytes, HD_STORES_PLAIN);
    }
}

static ucc_status_t spread_root(const hd_flight_t *f, const hd_op_t *op, uint32_t segment,
                                uint32_t unit) {
    (void)op;
    if (hd_flight_has_root(f)) {
        spread(f, f->work->src[hd_flight_root(f)], segment, unit);
    }
    return UCC_OK;
}

/* Copies the leader's data to the other members, if they need it and have not got it by LOCAL. */
static ucc_status_t spread_leader(const hd_flight_t *f, const hd_op_t *op, uint32_t segment,
                                  uint32_t unit) {
    (void)op;
    if (f->call.type == HD_ALLREDUCE || (hd_coll[f->call.type].bcast && !hd_flight_has_root(f))) {
        spread(f, f->work->dst[leader(f)], segment, unit);
    }
    return UCC_OK;
}

/* --- legs ------------------------------------------------------------------------------------- */

static ucc_status_t prepare_bcast(hd_segment_t *s) {
    const hd_flight_t *f = s->flight;
    const hd_work_t *work = f->work;
    const void *whole = hd_flight_has_root(f) ? work->src[hd_flight_root(f)] : work->dst[leader(f)];
    hd_flight_prepare_bcast(s, (uint8_t *)(uintptr_t)whole);
    return UCC_OK;
}

static ucc_status_t prepare_reduce(hd_segment_t *s) {
    hd_flight_t *f = s->flight;
    hd_range_t r = hd_cut_segment(&f->plan, f->call.bytes, s->index);
    for (uint32_t i = 0; i < hd_flight_operands(f); i++) {
        f->operands[i] = operand(f, i);
    }
    hd_flight_give_operands(s, r.at);
    s->leg.call.result = leader(f) < f->n ? hd_at(f->work->dst[leader(f)], r.at) : NULL;
    s->leg.call.count = r.bytes / f->call.element;
    return UCC_OK;
}

static bool is_filled(const hd_segment_t *s) {
    return !combines(s->flight) || hd_flight_has_local(s);
}

const hd_passage_t hd_passage_bcast = {.row = HD_PASSAGE_ROW,
                                       .slice = {[HD_LOCAL] = {HD_UNIT_WINDOWS, spread_root},
                                                 [HD_SPREAD] = {HD_UNIT_WINDOWS, spread_leader}},
                                       .prepare = prepare_bcast};
const hd_passage_t hd_passage_reduce = {
    .row = HD_PASSAGE_ROW,
    .slice = {[HD_LOCAL] = {HD_UNIT_WINDOWS, reduce_local},
              [HD_COMBINE] = {HD_UNIT_PARTS, hd_flight_run_combine},
              [HD_SPREAD] = {HD_UNIT_WINDOWS, spread_leader}},
    .prepare = prepare_reduce,
    .is_filled = is_filled,
    .entry = entry,
    .lends = true};
