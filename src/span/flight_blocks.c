/* flight_blocks.c: allgather, gather, scatter and alltoall across processes, and their v variants:
 * blocks that belong to an endpoint, or to a pair of them. The row's functions lay slices out and
 * run units, called by the engine; the passage's functions prepare the one leg, called by flight.c.
 *
 *   allgather  LOCAL: each member's block into the result of member 0 (the LEADER). NET: gives this
 *              process's blocks from there, and takes the others' into there. SPREAD: the leader's
 *              result to the other members
 *   gather     LOCAL: in the root's process, the members' blocks into the root's result. NET:
 *              straight from the members' blocks, and straight into the root's result
 *   scatter    as gather, in the other direction
 *   alltoall   LOCAL: pairs inside the process. NET: straight from and into the members' buffers;
 *              the blocks between two processes are ordered by receiver. If the call is in place,
 *              LOCAL first puts aside what is sent
 *
 * Between two processes, the blocks come in an order that both know: by endpoint. The sizes of a v
 * type's blocks are compared here inside the process, and by the network across processes, which
 * knows how much a message has to bring.
 */
#include "span/internal.h"

#include <string.h>

/* --- blocks ----------------------------------------------------------------------------------- */

typedef struct block {
    uint8_t *at;
    size_t bytes;
} block_t;

/* Returns block e of a buffer that has a block for each endpoint, as this member's call describes
 * it. */
static block_t block_of(const hd_call_t *call, const void *base, bool sends, uint32_t e) {
    if (!hd_coll[call->type].vector) {
        return (block_t){hd_at(base, e * call->bytes), call->bytes};
    }
    const hd_vector_t *v = sends ? &call->send : &call->receive;
    /* in an alltoallv, what is sent may have other elements than what is received */
    size_t element = sends && hd_coll[call->type].pairwise ? call->send_element : call->element;
    return (block_t){hd_at(base, hd_vector_displacement(v, e) * element),
                     hd_vector_count(v, e) * element};
}

/* Returns what member i sends to endpoint e. In place, that lies where the block from e is
 * received. */
static block_t sent_block(const hd_work_t *work, uint32_t i, uint32_t e) {
    const hd_call_t *call = work->call[i];
    return call->in_place ? block_of(call, work->dst[i], false, e)
                          : block_of(call, work->src[i], true, e);
}

/* Logs that two members disagree on a block's size, and returns the error for it. */
static ucc_status_t differ(const hd_op_t *op, uint32_t from, uint32_t to, size_t sent,
                           size_t expected) {
    hd_op_say_sizes(op, from, to, sent, expected);
    return UCC_ERR_INVALID_PARAM;
}

/* Copies a block between two members, if they agree on its size. */
static ucc_status_t copy(const hd_op_t *op, uint32_t from, uint32_t to, block_t src, block_t dst) {
    if (src.bytes != dst.bytes) {
        return differ(op, from, to, src.bytes, dst.bytes);
    }
    if (src.bytes && src.at != dst.at) {
        hd_copy(dst.at, src.at, src.bytes, HD_STORES_PLAIN);
    }
    return UCC_OK;
}

/* --- slices: a unit of LOCAL and SPREAD is a member ------------------------------------------- */

static void lay_out(const hd_op_t *op, uint32_t s, hd_slice_t *slice) {
    const hd_plan_t *plan = &op->plan;
    hd_slice_kind_t kind;
    uint32_t j;
    if (!hd_slice_is(plan, s, &kind, &j) || kind == HD_NET) {
        hd_slice_outer(slice, 1, op->place.k);
    } else if (kind == HD_LOCAL) {
        hd_slice_set(slice, op->place.n, 1, 1);
    } else {
        hd_slice_later(slice, kind == HD_SPREAD ? op->place.n : 1, 1, 0);
    }
}

typedef ucc_status_t (*do_unit_fn)(const hd_flight_t *f, const hd_op_t *op, const hd_work_t *work,
                                   uint32_t i);

static ucc_status_t run_unit(const hd_op_t *op, const hd_work_t *work, uint32_t s, uint32_t unit,
                             do_unit_fn local, do_unit_fn spread) {
    const hd_flight_t *f = hd_flight_of(op);
    hd_slice_kind_t kind;
    uint32_t j;
    (void)hd_slice_is(&f->plan, s, &kind, &j);
    do_unit_fn one = kind == HD_LOCAL ? local : kind == HD_SPREAD ? spread : NULL;
    return one ? one(f, op, work, unit) : UCC_OK;
}

static bool always(const hd_flight_t *f) {
    (void)f;
    return true;
}

static bool never(const hd_flight_t *f) {
    (void)f;
    return false;
}

/* --- allgather -------------------------------------------------------------------------------- */

/* Returns member i's own block. Its own call says the size, also in a v type. */
static block_t own_block(const hd_work_t *work, uint32_t i) {
    return (block_t){(uint8_t *)(uintptr_t)work->src[i], work->call[i]->bytes};
}

/* A unit of an allgather's LOCAL. */
static ucc_status_t gather_own(const hd_flight_t *f, const hd_op_t *op, const hd_work_t *work,
                               uint32_t i) {
    block_t dst = block_of(work->call[0], work->dst[0], false, hd_flight_endpoint(f, i));
    return copy(op, i, 0, own_block(work, i), dst);
}

/* A unit of an allgather's SPREAD. */
static ucc_status_t spread_all(const hd_flight_t *f, const hd_op_t *op, const hd_work_t *work,
                               uint32_t i) {
    ucc_status_t status = UCC_OK;
    if (i == 0) {
        return UCC_OK;
    }
    if (!hd_coll[f->call.type].vector) {
        hd_copy(work->dst[i], work->dst[0], f->call.bytes * f->span->n, HD_STORES_PLAIN);
        return UCC_OK;
    }
    for (uint32_t e = 0; e < f->span->n && status == UCC_OK; e++) {
        status = copy(op, 0, i, block_of(work->call[0], work->dst[0], false, e),
                      block_of(work->call[i], work->dst[i], false, e));
    }
    return status;
}

static ucc_status_t run_allgather(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                                  uint32_t unit) {
    return run_unit(op, work, s, unit, gather_own, spread_all);
}

static ucc_status_t prepare_allgather(hd_segment_t *s) {
    hd_flight_t *f = s->flight;
    const hd_span_t *span = f->span;
    const hd_work_t *work = hd_flight_work(f);
    hd_pieces_t pieces;
    ucc_status_t status = hd_flight_room(f, span->n, &pieces);
    if (status != UCC_OK) {
        return status;
    }
    s->leg.call.give = hd_flight_give(f);
    s->leg.call.take = hd_flight_take(f);
    for (uint32_t p = 0; p < span->processes; p++) {
        hd_net_data_t *data = p == span->mine ? hd_flight_give(f) : &hd_flight_take(f)[p];
        hd_pieces_begin(&pieces, data);
        for (uint32_t i = 0; i < hd_span_count(span, p); i++) {
            block_t b = block_of(work->call[0], work->dst[0], false, hd_span_endpoint(span, p, i));
            hd_pieces_add(&pieces, data, b.at, b.bytes);
        }
    }
    return UCC_OK;
}

/* --- gather and scatter ----------------------------------------------------------------------- */

/* Returns endpoint e's block in the root's buffer. */
static block_t root_block(const hd_flight_t *f, const hd_work_t *work, bool sends, uint32_t e) {
    uint32_t root = hd_flight_root(f);
    const void *base = sends ? work->src[root] : work->dst[root];
    return block_of(work->call[root], base, sends, e);
}

static ucc_status_t gather_here(const hd_flight_t *f, const hd_op_t *op, const hd_work_t *work,
                                uint32_t i) {
    if (!hd_flight_has_root(f)) {
        return UCC_OK;
    }
    block_t dst = root_block(f, work, false, hd_flight_endpoint(f, i)), src = own_block(work, i);
    if (i == hd_flight_root(f)) {
        src.bytes = dst.bytes; /* the root's count for itself is the size of its own block */
    }
    return copy(op, i, hd_flight_root(f), src, dst);
}

static ucc_status_t run_gather(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                               uint32_t unit) {
    return run_unit(op, work, s, unit, gather_here, NULL);
}

static ucc_status_t scatter_here(const hd_flight_t *f, const hd_op_t *op, const hd_work_t *work,
                                 uint32_t i) {
    if (!hd_flight_has_root(f)) {
        return UCC_OK;
    }
    block_t src = root_block(f, work, true, hd_flight_endpoint(f, i));
    block_t dst = {work->dst[i], work->call[i]->bytes};
    if (i == hd_flight_root(f)) {
        dst.bytes = src.bytes;
    }
    return copy(op, hd_flight_root(f), i, src, dst);
}

static ucc_status_t run_scatter(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                                uint32_t unit) {
    return run_unit(op, work, s, unit, scatter_here, NULL);
}

/* Lists the blocks for the leg: in the root's process those of each other process, in the root's
 * buffer; in another process those of its members. */
static ucc_status_t prepare_rooted(hd_segment_t *s, bool scatters) {
    hd_flight_t *f = s->flight;
    const hd_span_t *span = f->span;
    const hd_work_t *work = hd_flight_work(f);
    hd_pieces_t pieces;
    ucc_status_t status = hd_flight_room(f, span->n, &pieces);
    if (status != UCC_OK) {
        return status;
    }
    bool has_root = hd_flight_has_root(f);
    s->leg.call.give = hd_flight_give(f);
    s->leg.call.take = hd_flight_take(f);
    hd_net_data_t *lists = has_root == scatters ? hd_flight_give(f) : hd_flight_take(f);
    for (uint32_t p = 0; has_root && p < span->processes; p++) {
        hd_pieces_begin(&pieces, &lists[p]);
        for (uint32_t i = 0; p != span->mine && i < hd_span_count(span, p); i++) {
            block_t b = root_block(f, work, scatters, hd_span_endpoint(span, p, i));
            hd_pieces_add(&pieces, &lists[p], b.at, b.bytes);
        }
    }
    if (!has_root) {
        hd_pieces_begin(&pieces, lists);
        for (uint32_t i = 0; i < f->n; i++) {
            const void *at = scatters ? work->dst[i] : work->src[i];
            hd_pieces_add(&pieces, lists, at, work->call[i]->bytes);
        }
    }
    return UCC_OK;
}

static ucc_status_t prepare_gather(hd_segment_t *s) {
    return prepare_rooted(s, false);
}

static ucc_status_t prepare_scatter(hd_segment_t *s) {
    return prepare_rooted(s, true);
}

/* --- alltoall --------------------------------------------------------------------------------- */

/* In place, what is sent to other processes is put aside first. The flight's `own` memory then
 * begins with a table of where each block lies, and has the blocks behind it: by receiving process,
 * by its members, and by the members here that send. Returns the table. */
static size_t *aside_table(const hd_flight_t *f) {
    return (size_t *)(void *)f->own.at;
}

/* How many blocks are put aside. */
static size_t aside_blocks(const hd_flight_t *f) {
    return (size_t)f->n * (f->span->n - f->n);
}

/* Returns where this block is put aside; the table is filled in. */
static uint8_t *aside(const hd_flight_t *f, size_t block) {
    size_t table = (aside_blocks(f) + 1) * sizeof(size_t);
    return f->own.at + ((table + HD_LINE - 1) & ~(size_t)(HD_LINE - 1)) + aside_table(f)[block];
}

/* Returns the bytes of all blocks that are put aside. Fills the table in if it is not NULL. */
static size_t lay_aside(const hd_flight_t *f, const hd_work_t *work, size_t *table) {
    size_t bytes = 0;
    for (uint32_t p = 0; p < f->span->processes; p++) {
        for (uint32_t j = 0; p != f->span->mine && j < hd_span_count(f->span, p); j++) {
            for (uint32_t i = 0; i < f->n; i++) {
                if (table) {
                    *table++ = bytes;
                }
                bytes += sent_block(work, i, hd_span_endpoint(f->span, p, j)).bytes;
            }
        }
    }
    if (table) {
        *table = bytes;
    }
    return bytes;
}

static size_t alltoall_scratch(const hd_flight_t *f) {
    size_t table = (aside_blocks(f) + 1) * sizeof(size_t);
    return f->call.in_place ? table + HD_LINE + lay_aside(f, hd_flight_work(f), NULL) : 0;
}

/* Puts aside what member `me` sends to other processes. */
static void put_aside(const hd_flight_t *f, const hd_work_t *work, uint32_t me) {
    size_t block = me;
    for (uint32_t p = 0; p < f->span->processes; p++) {
        for (uint32_t j = 0; p != f->span->mine && j < hd_span_count(f->span, p); j++) {
            block_t b = sent_block(work, me, hd_span_endpoint(f->span, p, j));
            if (b.bytes) {
                hd_copy(aside(f, block), b.at, b.bytes, HD_STORES_PLAIN);
            }
            block += f->n;
        }
    }
}

/* Swaps two members' blocks, if they agree on the size. */
static ucc_status_t swap(const hd_op_t *op, uint32_t i, uint32_t j, block_t a, block_t b) {
    uint8_t held[4096];
    if (a.bytes != b.bytes) {
        return differ(op, i, j, a.bytes, b.bytes);
    }
    for (size_t at = 0; at < a.bytes; at += sizeof(held)) {
        size_t part = a.bytes - at < sizeof(held) ? a.bytes - at : sizeof(held);
        memcpy(held, a.at + at, part);
        memcpy(a.at + at, b.at + at, part);
        memcpy(b.at + at, held, part);
    }
    return UCC_OK;
}

/* A unit of LOCAL: copies what member i sends inside the process. In place, it swaps blocks with
 * each member after i instead, so that each pair is swapped once. */
static ucc_status_t exchange_here(const hd_flight_t *f, const hd_op_t *op, const hd_work_t *work,
                                  uint32_t i) {
    ucc_status_t status = UCC_OK;
    bool in_place = f->call.in_place;
    if (in_place) {
        put_aside(f, work, i);
    }
    for (uint32_t j = in_place ? i + 1 : 0; j < f->n && status == UCC_OK; j++) {
        block_t sent = sent_block(work, i, hd_flight_endpoint(f, j));
        block_t there = block_of(work->call[j], work->dst[j], false, hd_flight_endpoint(f, i));
        status = in_place ? swap(op, i, j, sent, there) : copy(op, i, j, sent, there);
    }
    return status;
}

static ucc_status_t run_alltoall(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                                 uint32_t unit) {
    return run_unit(op, work, s, unit, exchange_here, NULL);
}

/* Lists what this process sends to process p. */
static void list_sent(hd_flight_t *f, const hd_work_t *work, hd_pieces_t *pieces, uint32_t p) {
    hd_net_data_t *data = &hd_flight_give(f)[p];
    hd_pieces_begin(pieces, data);
    if (f->call.in_place) {
        /* `before`: endpoints of the processes before p, without those of this process */
        size_t before = f->span->first[p] - (p > f->span->mine ? f->n : 0);
        size_t from = before * f->n, to = from + (size_t)hd_span_count(f->span, p) * f->n;
        hd_pieces_add(pieces, data, aside(f, from), aside_table(f)[to] - aside_table(f)[from]);
        return;
    }
    for (uint32_t j = 0; j < hd_span_count(f->span, p); j++) {
        for (uint32_t i = 0; i < f->n; i++) {
            block_t b = sent_block(work, i, hd_span_endpoint(f->span, p, j));
            hd_pieces_add(pieces, data, b.at, b.bytes);
        }
    }
}

/* Lists where this process receives what process p sends. */
static void list_received(hd_flight_t *f, const hd_work_t *work, hd_pieces_t *pieces, uint32_t p) {
    hd_net_data_t *data = &hd_flight_take(f)[p];
    hd_pieces_begin(pieces, data);
    for (uint32_t j = 0; j < f->n; j++) {
        for (uint32_t i = 0; i < hd_span_count(f->span, p); i++) {
            block_t b =
                block_of(work->call[j], work->dst[j], false, hd_span_endpoint(f->span, p, i));
            hd_pieces_add(pieces, data, b.at, b.bytes);
        }
    }
}

static ucc_status_t prepare_alltoall(hd_segment_t *s) {
    hd_flight_t *f = s->flight;
    const hd_span_t *span = f->span;
    const hd_work_t *work = hd_flight_work(f);
    hd_pieces_t pieces;
    ucc_status_t status = hd_flight_room(f, 2 * (size_t)f->n * span->n, &pieces);
    if (f->call.in_place) {
        (void)lay_aside(f, work, aside_table(f));
    }
    for (uint32_t p = 0; status == UCC_OK && p < span->processes; p++) {
        if (p != span->mine) {
            list_sent(f, work, &pieces, p);
            list_received(f, work, &pieces, p);
        }
    }
    s->leg.call.give = hd_flight_give(f);
    s->leg.call.take = hd_flight_take(f);
    return status;
}

static bool in_place(const hd_flight_t *f) {
    return f->call.in_place;
}

const hd_passage_t hd_passage_allgather = {
    {.layout = lay_out, .run = run_allgather, .streams_more = 2},
    .prepare = prepare_allgather,
    .needs_local = always};
const hd_passage_t hd_passage_gather = {{.layout = lay_out, .run = run_gather, .streams_more = 2},
                                        .prepare = prepare_gather,
                                        .needs_local = never};
const hd_passage_t hd_passage_scatter = {{.layout = lay_out, .run = run_scatter, .streams_more = 2},
                                         .prepare = prepare_scatter,
                                         .needs_local = never};
const hd_passage_t hd_passage_alltoall = {
    {.layout = lay_out, .run = run_alltoall, .streams_more = 2},
    .prepare = prepare_alltoall,
    .scratch = alltoall_scratch,
    .needs_local = in_place};
