/* flight_blocks.c: allgather, gather, scatter and alltoall across processes, and their v variants:
 * blocks that belong to an endpoint, or to a pair of them. The engine runs the units of the slices,
 * each for one member; flight.c prepares the one leg.
 *
 *   allgather  LOCAL: each member's block into the result of member 0 (the LEADER). NET: gives this
 *              process's blocks from there, and takes the others' into there. SPREAD: the leader's
 *              result to the other members
 *   gather     LOCAL: in the root's process, the members' blocks into the root's result. NET:
 *              straight from the members' blocks, and straight into the root's result
 *   scatter    as gather, in the other direction
 *   alltoall   LOCAL: pairs inside the process. NET: straight from and into the members' buffers;
 *              the blocks between two processes are ordered by receiver. If the call is in place,
 *              LOCAL first puts aside what is sent: the flight's table has an entry for each pair
 *              of an endpoint, process by process, and a member here that gives it a block
 *
 * Between two processes, the blocks come in an order that both know: by endpoint. The sizes of a v
 * type's blocks are compared here inside the process, and by the network across processes, which
 * knows how much a message has to bring.
 */
#include "span/internal.h"

/* Is each endpoint's block given to all? Then the process takes it once, by its leader. */
static bool is_allgather(const hd_flight_t *f) {
    const hd_coll_t *coll = &hd_coll[f->call.type];
    return coll->flow == HD_AMONG_ALL && !coll->pairwise;
}

/* Returns the members of this process that take blocks. */
static hd_members_t takers(const hd_flight_t *f) {
    return is_allgather(f) ? (hd_members_t){0, 1}
                           : hd_span_takers(f->span, &f->call, f->span->mine);
}

/* --- units ------------------------------------------------------------------------------------ */

/* Copies a block between two members, if they agree on its size. */
static ucc_status_t copy(const hd_op_t *op, uint32_t from, uint32_t to, hd_data_t src,
                         hd_data_t dst) {
    if (src.bytes != dst.bytes) {
        return hd_op_say_sizes(op, from, to, src.bytes, dst.bytes);
    }
    if (src.bytes && src.at != dst.at) {
        hd_copy(dst.at, src.at, src.bytes, HD_STORES_PLAIN);
    }
    return UCC_OK;
}

/* Copies what member i gives to member j. */
static ucc_status_t copy_pair(const hd_flight_t *f, const hd_op_t *op, uint32_t i, uint32_t j) {
    const hd_coll_t *coll = &hd_coll[f->call.type];
    hd_data_t src = hd_work_given(f->work, i, hd_flight_endpoint(f, j));
    hd_data_t dst = hd_work_taken(f->work, j, hd_flight_endpoint(f, i));
    if (coll->rooted && i == j) { /* the root's counts say how large its own block is */
        src.bytes = dst.bytes = coll->flow == HD_TO_ROOT ? dst.bytes : src.bytes;
    }
    return copy(op, i, j, src, dst);
}

/* A unit of LOCAL: copies what a member gives inside the process, or, if only the root gives, what
 * it takes. */
static ucc_status_t copy_here(const hd_flight_t *f, const hd_op_t *op, uint32_t unit) {
    hd_members_t one = {unit, unit + 1}, givers = one, to = takers(f);
    ucc_status_t status = UCC_OK;
    if (hd_coll[f->call.type].flow == HD_FROM_ROOT) {
        givers = hd_span_givers(f->span, &f->call, f->span->mine);
        to = one;
    }
    for (uint32_t i = givers.first; i < givers.end; i++) {
        for (uint32_t j = to.first; j < to.end && status == UCC_OK; j++) {
            status = copy_pair(f, op, i, j);
        }
    }
    return status;
}

static bool is_swapped(const hd_flight_t *f) {
    return hd_coll[f->call.type].pairwise && f->call.in_place;
}

static bool is_here(const hd_flight_t *f, uint32_t position) {
    return f->span->process_of[f->span->endpoint[position]] == f->span->mine;
}

static uint32_t entries(const hd_flight_t *f) {
    return is_swapped(f) ? f->span->n * f->n : 0;
}

static size_t entry(const hd_flight_t *f, uint32_t i) {
    uint32_t position = i / f->n;
    return is_here(f, position)
               ? 0
               : hd_work_given(f->work, i % f->n, f->span->endpoint[position]).bytes;
}

/* A unit of LOCAL in place: puts aside what a member gives to other processes, and swaps blocks
 * with each member after it, so that each pair is swapped once. */
static ucc_status_t swap_here(const hd_flight_t *f, const hd_op_t *op, uint32_t i) {
    for (uint32_t position = 0; position < f->span->n; position++) {
        hd_data_t b = hd_work_given(f->work, i, f->span->endpoint[position]);
        if (!is_here(f, position) && b.bytes) {
            hd_copy(f->blocks + f->table[position * f->n + i], b.at, b.bytes, HD_STORES_PLAIN);
        }
    }
    for (uint32_t j = i + 1; j < f->n; j++) {
        hd_data_t a = hd_work_given(f->work, i, hd_flight_endpoint(f, j));
        hd_data_t b = hd_work_taken(f->work, j, hd_flight_endpoint(f, i));
        if (a.bytes != b.bytes) {
            return hd_op_say_sizes(op, i, j, a.bytes, b.bytes);
        }
        hd_work_swap(a.at, b.at, a.bytes);
    }
    return UCC_OK;
}

static ucc_status_t run_local(const hd_flight_t *f, const hd_op_t *op, uint32_t segment,
                              uint32_t unit) {
    (void)segment;
    return is_swapped(f) ? swap_here(f, op, unit) : copy_here(f, op, unit);
}

/* A unit of SPREAD: copies the leader's result to a member. */
static ucc_status_t run_spread(const hd_flight_t *f, const hd_op_t *op, uint32_t segment,
                               uint32_t unit) {
    const hd_work_t *work = f->work;
    ucc_status_t status = UCC_OK;
    (void)segment;
    if (!is_allgather(f) || unit == 0) {
        return UCC_OK;
    }
    if (!hd_coll[f->call.type].vector) {
        hd_copy(work->dst[unit], work->dst[0], f->call.bytes * f->span->n, HD_STORES_PLAIN);
        return UCC_OK;
    }
    for (uint32_t e = 0; e < f->span->n && status == UCC_OK; e++) {
        status = copy(op, 0, unit, hd_work_taken(work, 0, e), hd_work_taken(work, unit, e));
    }
    return status;
}

/* --- the leg ---------------------------------------------------------------------------------- */

/* Lists what this process gives to process p. */
static void list_given(hd_flight_t *f, uint32_t p, hd_net_data_t *data) {
    const hd_span_t *span = f->span;
    hd_members_t givers = hd_span_givers(span, &f->call, span->mine);
    hd_members_t to = hd_span_takers(span, &f->call, p);
    hd_pieces_begin(f, data);
    if (is_swapped(f)) {
        size_t from = f->table[span->first[p] * f->n], end = f->table[span->first[p + 1] * f->n];
        hd_pieces_add(f, data, f->blocks + from, end - from);
        return;
    }
    for (uint32_t j = to.first; j < to.end; j++) {
        for (uint32_t i = givers.first; i < givers.end; i++) {
            hd_data_t b = hd_work_given(f->work, i, hd_span_endpoint(span, p, j));
            hd_pieces_add(f, data, b.at, b.bytes);
        }
    }
}

/* Lists where this process takes what process p gives. */
static void list_taken(hd_flight_t *f, uint32_t p, hd_net_data_t *data) {
    hd_members_t givers = hd_span_givers(f->span, &f->call, p), to = takers(f);
    hd_pieces_begin(f, data);
    for (uint32_t j = to.first; j < to.end; j++) {
        for (uint32_t i = givers.first; i < givers.end; i++) {
            hd_data_t b = hd_work_taken(f->work, j, hd_span_endpoint(f->span, p, i));
            hd_pieces_add(f, data, b.at, b.bytes);
        }
    }
}

static ucc_status_t prepare(hd_segment_t *s) {
    hd_flight_t *f = s->flight;
    const hd_span_t *span = f->span;
    /* a process without the root has one list, for the root's process */
    bool alone = hd_coll[f->call.type].rooted && !hd_flight_has_root(f);
    for (uint32_t p = 0; p < span->processes; p++) {
        uint32_t at = alone ? 0 : p;
        if (is_allgather(f)) { /* what this process gives, LOCAL has put there */
            list_taken(f, p, p == span->mine ? f->give : &f->take[p]);
        } else if (p != span->mine && (!alone || p == span->process_of[f->call.root])) {
            list_given(f, p, &f->give[at]);
            list_taken(f, p, &f->take[at]);
        }
    }
    return UCC_OK;
}

static bool is_filled(const hd_segment_t *s) {
    const hd_flight_t *f = s->flight;
    return !(is_allgather(f) || is_swapped(f)) || hd_flight_has_local(s);
}

const hd_passage_t hd_passage_blocks = {
    .row = HD_PASSAGE_ROW,
    .slice =
        {[HD_LOCAL] = {HD_UNIT_MEMBERS, run_local}, [HD_SPREAD] = {HD_UNIT_MEMBERS, run_spread}},
    .prepare = prepare,
    .is_filled = is_filled,
    .entries = entries,
    .entry = entry};
