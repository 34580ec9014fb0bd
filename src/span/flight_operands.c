/* flight_operands.c: reduce_scatter(v), scan and exscan across processes: reductions in which each
 * endpoint has a result of its own. The engine runs the units of the slices, flight.c prepares the
 * one leg.
 *
 *   reduce_scatter  LOCAL: the members' operands, block by block, into memory of the flight, where
 *                   a process's blocks lie together. NET: to each process its blocks. COMBINE:
 *                   straight into the members' results
 *   scan            LOCAL: the members' operands into memory of the flight, which has room for all
 *                   endpoints' operands. NET: an allgather of them. SPREAD: the prefixes, in the
 *                   order of all endpoints, one operand at a time, as inside one process: so the
 *                   bits are those of one process
 *
 * The flight's table has an entry for each endpoint's block or operand: process by process, and by
 * endpoint in each.
 */
#include "span/internal.h"

static uint32_t entries(const hd_flight_t *f) {
    return f->span->n;
}

static size_t entry(const hd_flight_t *f, uint32_t i) {
    const hd_call_t *call = &f->call;
    return hd_coll[call->type].vector
               ? hd_vector_count(&call->receive, f->span->endpoint[i]) * call->element
               : call->bytes;
}

/* Lists the memory of process p's endpoints. */
static void list_process(hd_flight_t *f, hd_net_data_t *data, uint32_t p) {
    size_t from = f->table[f->span->first[p]], end = f->table[f->span->first[p + 1]];
    hd_pieces_begin(f, data);
    hd_pieces_add(f, data, f->blocks + from, end - from);
}

/* --- reduce_scatter --------------------------------------------------------------------------- */

/* A unit of LOCAL: reduces the block of entry i of the members' operands. */
static ucc_status_t reduce_block(const hd_flight_t *f, const hd_op_t *op, uint32_t segment,
                                 uint32_t i) {
    const hd_call_t *call = &f->call;
    uint32_t e = f->span->endpoint[i];
    size_t at = hd_coll[call->type].vector
                    ? hd_vector_displacement(&call->receive, e) * call->element
                    : e * call->bytes;
    (void)op;
    (void)segment;
    return hd_flight_reduce(f, at, f->table[i + 1] - f->table[i], f->blocks + f->table[i],
                            f->table[f->span->n]);
}

/* A unit of COMBINE: makes member i's result. */
static ucc_status_t combine_block(const hd_flight_t *f, const hd_op_t *op, uint32_t segment,
                                  uint32_t i) {
    const size_t *table = f->table + f->span->first[f->span->mine];
    (void)op;
    return hd_flight_combine(&f->segment[segment], table[i] - table[0], table[i + 1] - table[i],
                             f->work->dst[i]);
}

static ucc_status_t prepare_reduce_scatter(hd_segment_t *s) {
    hd_flight_t *f = s->flight;
    const hd_net_data_t *mine = &f->give[f->span->mine];
    for (uint32_t p = 0; p < f->span->processes; p++) {
        list_process(f, &f->give[p], p);
    }
    for (uint32_t i = 0; i < hd_flight_operands(f); i++) {
        f->operands[i] = f->blocks + i * f->table[f->span->n];
    }
    hd_flight_give_operands(s, 0);
    f->take[0] = *mine; /* the leg reads only the size, which is that of each operand it combines */
    s->leg.call.count = mine->bytes / f->call.element;
    return UCC_OK;
}

/* --- scan ------------------------------------------------------------------------------------- */

/* A unit of LOCAL: copies member i's operand to where the leg gives it from. */
static ucc_status_t put_operand(const hd_flight_t *f, const hd_op_t *op, uint32_t segment,
                                uint32_t i) {
    uint8_t *to = f->blocks + f->table[f->span->first[f->span->mine] + i];
    (void)op;
    (void)segment;
    hd_copy(to, f->work->src[i], f->call.bytes, HD_STORES_PLAIN);
    return UCC_OK;
}

/* Makes the prefixes of all members here, for one window of the elements. Of the two buffers
 * `held`, one has the last prefix and the other takes the next. An exscan's result lacks the
 * member's own operand. */
static ucc_status_t make_prefixes(const hd_flight_t *f, hd_range_t r, uint8_t *const held[2]) {
    bool with_own = hd_coll[f->call.type].result_at == HD_EVERYBODY;
    const hd_span_t *span = f->span;
    const void *source[2] = {NULL, NULL}; /* the prefix so far, and the next operand */
    ucc_status_t status = UCC_OK;
    for (uint32_t e = 0; e < span->n && status == UCC_OK; e++) {
        uint32_t process = span->process_of[e], i = span->local_of[e];
        const void *before = source[0];
        source[1] = f->blocks + f->table[span->first[process] + i] + r.at;
        if (e == 0) {
            source[0] = source[1];
        } else if (with_own || e + 1 < span->n) {
            status = hd_reduce_block(&f->reducer, 2, source, held[e % 2], r.bytes / f->call.element,
                                     true);
            source[0] = held[e % 2];
        }
        const void *result = with_own ? source[0] : before;
        if (process == span->mine && result) {
            hd_copy(hd_at(f->work->dst[i], r.at), result, r.bytes, HD_STORES_PLAIN);
        }
    }
    return status;
}

/* A unit of SPREAD. */
static ucc_status_t scan_window(const hd_flight_t *f, const hd_op_t *op, uint32_t segment,
                                uint32_t unit) {
    hd_range_t r = hd_cut_window(&f->plan, f->call.bytes, segment, unit);
    uint8_t *heap = hd_alloc(HD_LINE, 2 * r.bytes);
    (void)op;
    if (!heap) {
        hd_error("%s: no memory for prefixes of %zu bytes", hd_type_name(f->call.type), r.bytes);
        return UCC_ERR_NO_MEMORY;
    }
    uint8_t *held[2] = {heap, heap + r.bytes};
    ucc_status_t status = make_prefixes(f, r, held);
    hd_free(heap);
    return status;
}

static ucc_status_t prepare_scan(hd_segment_t *s) {
    hd_flight_t *f = s->flight;
    for (uint32_t p = 0; p < f->span->processes; p++) {
        list_process(f, p == f->span->mine ? f->give : &f->take[p], p);
    }
    return UCC_OK;
}

const hd_passage_t hd_passage_reduce_scatter = {
    .row = HD_PASSAGE_ROW,
    .slice = {[HD_LOCAL] = {HD_UNIT_ENDPOINTS, reduce_block},
              [HD_COMBINE] = {HD_UNIT_MEMBERS, combine_block}},
    .prepare = prepare_reduce_scatter,
    .is_filled = hd_flight_has_local,
    .entries = entries,
    .entry = entry};
const hd_passage_t hd_passage_scan = {
    .row = HD_PASSAGE_ROW,
    .slice =
        {[HD_LOCAL] = {HD_UNIT_MEMBERS, put_operand}, [HD_SPREAD] = {HD_UNIT_WINDOWS, scan_window}},
    .prepare = prepare_scan,
    .is_filled = hd_flight_has_local,
    .entries = entries,
    .entry = entry};
