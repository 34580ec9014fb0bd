/* flight_operands.c: reduce_scatter(v), scan and exscan across processes: reductions in which each
 * endpoint has a result of its own. The row's functions lay slices out and run units, called by the
 * engine; the passage's functions prepare the one leg, called by flight.c.
 *
 *   reduce_scatter  LOCAL: the members' operands, block by block, into memory of the flight, where
 *                   a process's blocks lie together. NET: to each process its blocks. COMBINE:
 *                   straight into the members' results
 *   scan            LOCAL: the members' operands into memory of the flight, which has room for all
 *                   endpoints' operands. NET: an allgather of them. SPREAD: the prefixes, in the
 *                   order of all endpoints, one operand at a time, as inside one process: so the
 *                   bits are those of one process
 *
 * The flight's `own` memory: the lists of operands, if these cross one by one; a table of where
 * each block begins; the blocks, ordered by position: process by process, and by endpoint in each.
 */
#include "span/internal.h"

#include <string.h>

/* --- blocks, process by process --------------------------------------------------------------- */

static bool is_prefix(const hd_call_t *call) {
    return hd_coll[call->type].prefix;
}

/* Returns the size of endpoint e's block. */
static size_t block_bytes(const hd_call_t *call, uint32_t e) {
    return hd_coll[call->type].vector ? hd_vector_count(&call->receive, e) * call->element
                                      : call->bytes;
}

/* Returns the bytes of the lists of operands, at the beginning of the flight's memory. */
static size_t lists_bytes(const hd_flight_t *f) {
    return f->plan.apart ? hd_apart_bytes(f->span) : 0;
}

/* Returns how many operands this process makes of its members'. */
static uint32_t operands(const hd_flight_t *f) {
    return f->plan.apart ? hd_span_blocks(f->span, f->span->mine) : 1;
}

/* Returns the table: by position, where the block begins in an operand; and the size of an operand
 * at the end. */
static size_t *table(const hd_flight_t *f) {
    return (size_t *)(void *)(f->own.at + lists_bytes(f));
}

static size_t table_bytes(const hd_flight_t *f) {
    size_t bytes = ((size_t)f->span->n + 1) * sizeof(size_t);
    return (bytes + HD_LINE - 1) & ~(size_t)(HD_LINE - 1);
}

/* Returns where the blocks begin. */
static uint8_t *blocks(const hd_flight_t *f) {
    return f->own.at + lists_bytes(f) + table_bytes(f);
}

/* Returns the bytes of one operand. Blocks may be empty. */
static size_t all_bytes(const hd_flight_t *f) {
    size_t bytes = 0;
    for (uint32_t e = 0; e < f->span->n; e++) {
        bytes += block_bytes(&f->call, e);
    }
    return bytes;
}

static size_t scratch(const hd_flight_t *f) {
    return lists_bytes(f) + table_bytes(f) + operands(f) * all_bytes(f);
}

static void make_table(const hd_flight_t *f) {
    size_t at = 0;
    for (uint32_t i = 0; i < f->span->n; i++) {
        table(f)[i] = at;
        at += block_bytes(&f->call, f->span->endpoint[i]);
    }
    table(f)[f->span->n] = at;
}

/* Returns endpoint e's position: its index in the order process by process. */
static uint32_t position_of(const hd_flight_t *f, uint32_t e) {
    return f->span->first[f->span->process_of[e]] + f->span->local_of[e];
}

/* Lists the blocks of process p's endpoints. */
static void list_process(const hd_flight_t *f, hd_pieces_t *pieces, hd_net_data_t *data,
                         uint32_t p) {
    size_t from = table(f)[f->span->first[p]], to = table(f)[f->span->first[p + 1]];
    hd_pieces_begin(pieces, data);
    hd_pieces_add(pieces, data, blocks(f) + from, to - from);
}

/* --- slices: a unit of LOCAL is an endpoint's block, or (scan) a member's operand ------------- */

static void lay_out(const hd_op_t *op, uint32_t s, hd_slice_t *slice) {
    const hd_plan_t *plan = &op->plan;
    bool prefix = is_prefix(&op->call);
    hd_slice_kind_t kind;
    uint32_t j;
    if (!hd_slice_is(plan, s, &kind, &j) || kind == HD_NET) {
        hd_slice_outer(slice, 1, op->place.k);
    } else if (kind == HD_LOCAL) {
        hd_slice_set(slice, prefix ? op->place.n : op->span->n, 1, 1);
    } else if (kind == HD_COMBINE) {
        hd_slice_later(slice, prefix ? 1 : op->place.n, 1, 0);
    } else {
        hd_slice_later(slice, prefix ? hd_cut_windows(plan, op->call.bytes) : 1, 1, 0);
    }
}

/* --- reduce_scatter --------------------------------------------------------------------------- */

/* Returns where block e begins in the members' operands. */
static size_t offset_of(const hd_call_t *call, uint32_t e) {
    return hd_coll[call->type].vector ? hd_vector_displacement(&call->receive, e) * call->element
                                      : e * call->bytes;
}

/* A unit of LOCAL: reduces the block at position i of the members' operands. */
static ucc_status_t reduce_block(const hd_flight_t *f, const hd_op_t *op, const hd_work_t *work,
                                 uint32_t i) {
    uint32_t e = f->span->endpoint[i];
    size_t bytes = table(f)[i + 1] - table(f)[i];
    ucc_status_t status = UCC_OK;
    for (uint32_t j = 0; j < operands(f) && bytes && status == UCC_OK; j++) {
        uint32_t first = 0, k = f->plan.apart ? hd_apart_members(f, j, &first) : f->n;
        void *to = blocks(f) + j * table(f)[f->span->n] + table(f)[i];
        status = hd_reduce_tree(&op->call.reducer, k, work->src + first, offset_of(&op->call, e), 1,
                                &to, 0, bytes / f->call.element, HD_STORES_PLAIN);
    }
    return status;
}

/* A unit of COMBINE: makes member i's result, if the leg has asked for it. */
static ucc_status_t combine_block(const hd_flight_t *f, const hd_work_t *work, uint32_t i) {
    const hd_segment_t *s = &f->segment[0];
    uint32_t first = f->span->first[f->span->mine];
    size_t at = table(f)[first + i] - table(f)[first];
    size_t bytes = table(f)[first + i + 1] - table(f)[first + i];
    if (!s->asked || !bytes) {
        return UCC_OK;
    }
    void *to = work->dst[i];
    return hd_reduce_tree(&f->reducer, s->k, s->operand, at, 1, &to, 0, bytes / f->call.element,
                          HD_STORES_PLAIN);
}

static ucc_status_t run_reduce_scatter(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                                       uint32_t unit) {
    const hd_flight_t *f = hd_flight_of(op);
    hd_slice_kind_t kind;
    uint32_t j;
    (void)hd_slice_is(&f->plan, s, &kind, &j);
    switch (kind) {
    case HD_LOCAL:
        return reduce_block(f, op, work, unit);
    case HD_COMBINE:
        return combine_block(f, work, unit);
    default:
        return UCC_OK;
    }
}

static ucc_status_t prepare_reduce_scatter(hd_segment_t *s) {
    hd_flight_t *f = s->flight;
    const hd_span_t *span = f->span;
    hd_pieces_t pieces;
    ucc_status_t status = hd_flight_room(f, (size_t)span->processes + 1, &pieces);
    if (status != UCC_OK) {
        return status;
    }
    make_table(f);
    for (uint32_t p = 0; p < span->processes; p++) {
        list_process(f, &pieces, &hd_flight_give(f)[p], p);
    }
    /* the leg reads only the size, which is that of each operand it combines */
    hd_flight_take(f)[0] = hd_flight_give(f)[span->mine];
    s->leg.call.give = hd_flight_give(f);
    s->leg.call.take = hd_flight_take(f);
    s->leg.call.count = hd_flight_give(f)[span->mine].bytes / f->call.element;
    if (f->plan.apart) {
        s->several = hd_apart_list(f);
        for (uint32_t j = 0; j < operands(f); j++) {
            *hd_apart_mine(f, j) = blocks(f) + j * table(f)[span->n];
        }
        s->leg.call.operand = blocks(f);
        s->leg.call.several = &s->several;
    }
    return UCC_OK;
}

/* --- scan ------------------------------------------------------------------------------------- */

/* A unit of a scan's LOCAL: copies member i's operand to where the leg gives it from. */
static ucc_status_t put_operand(const hd_flight_t *f, const hd_work_t *work, uint32_t i) {
    uint8_t *to = blocks(f) + table(f)[f->span->first[f->span->mine] + i];
    hd_copy(to, work->src[i], f->call.bytes, HD_STORES_PLAIN);
    return UCC_OK;
}

/* Makes the prefixes of all members here, for one window of the elements. Of the two buffers
 * `held`, one has the last prefix and the other takes the next. An exscan's result lacks the
 * member's own operand. */
static ucc_status_t make_prefixes(const hd_flight_t *f, const hd_work_t *work, hd_range_t r,
                                  uint8_t *const held[2]) {
    bool with_own = hd_coll[f->call.type].result_at == HD_EVERYBODY;
    const hd_span_t *span = f->span;
    const void *source[2] = {NULL, NULL};
    ucc_status_t status = UCC_OK;
    for (uint32_t e = 0; e < span->n && status == UCC_OK; e++) {
        const uint8_t *own = blocks(f) + table(f)[position_of(f, e)] + r.at;
        bool here = span->process_of[e] == span->mine;
        uint8_t *to = here ? (uint8_t *)work->dst[span->local_of[e]] + r.at : NULL;
        if (here && !with_own && e > 0) {
            hd_copy(to, source[0], r.bytes, HD_STORES_PLAIN);
        }
        if (e == 0) {
            source[0] = own;
        } else if (with_own || e + 1 < span->n) {
            source[1] = own;
            status = hd_reduce_block(&f->reducer, 2, source, held[e % 2], r.bytes / f->call.element,
                                     true);
            source[0] = held[e % 2];
        }
        if (here && with_own) {
            hd_copy(to, source[0], r.bytes, HD_STORES_PLAIN);
        }
    }
    return status;
}

/* A unit of a scan's SPREAD. */
static ucc_status_t scan_window(const hd_flight_t *f, const hd_work_t *work, uint32_t unit) {
    hd_range_t r = hd_cut_window(&f->plan, (hd_range_t){0, f->call.bytes}, unit);
    uint8_t *heap = r.bytes ? hd_alloc(HD_LINE, 2 * r.bytes) : NULL;
    if (!r.bytes) {
        return UCC_OK;
    }
    if (!heap) {
        hd_error("%s: no memory for prefixes of %zu bytes", hd_type_name(f->call.type), r.bytes);
        return UCC_ERR_NO_MEMORY;
    }
    uint8_t *held[2] = {heap, heap + r.bytes};
    ucc_status_t status = make_prefixes(f, work, r, held);
    hd_free(heap);
    return status;
}

static ucc_status_t run_scan(const hd_op_t *op, const hd_work_t *work, uint32_t s, uint32_t unit) {
    const hd_flight_t *f = hd_flight_of(op);
    hd_slice_kind_t kind;
    uint32_t j;
    (void)hd_slice_is(&f->plan, s, &kind, &j);
    switch (kind) {
    case HD_LOCAL:
        return put_operand(f, work, unit);
    case HD_SPREAD:
        return scan_window(f, work, unit);
    default:
        return UCC_OK;
    }
}

static ucc_status_t prepare_scan(hd_segment_t *s) {
    hd_flight_t *f = s->flight;
    const hd_span_t *span = f->span;
    hd_pieces_t pieces;
    ucc_status_t status = hd_flight_room(f, span->processes, &pieces);
    if (status != UCC_OK) {
        return status;
    }
    make_table(f);
    for (uint32_t p = 0; p < span->processes; p++) {
        list_process(f, &pieces, p == span->mine ? hd_flight_give(f) : &hd_flight_take(f)[p], p);
    }
    s->leg.call.give = hd_flight_give(f);
    s->leg.call.take = hd_flight_take(f);
    return UCC_OK;
}

static bool always(const hd_flight_t *f) {
    (void)f;
    return true;
}

const hd_passage_t hd_passage_reduce_scatter = {{.layout = lay_out,
                                                 .run = run_reduce_scatter,
                                                 .streams_each = 1,
                                                 .streams_more = 1,
                                                 .reducing = true},
                                                .prepare = prepare_reduce_scatter,
                                                .needs_local = always,
                                                .scratch = scratch};
const hd_passage_t hd_passage_scan = {
    {.layout = lay_out, .run = run_scan, .streams_each = 2, .reducing = true},
    .prepare = prepare_scan,
    .needs_local = always,
    .scratch = scratch};
