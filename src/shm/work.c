/* work.c: what the units of a DIRECT exchange are: a table with a row for each collective.
 *
 *   bcast, reduce, allreduce, (ex)scan  a unit is a byte window; slices are equal runs of windows
 *   allgather(v), gather(v)       slice s holds the parts of member s's block
 *   scatter(v), reduce_scatter(v) slice d holds the parts of member d's block
 *   alltoall(v)                   slice s holds, destination by destination, the parts of the
 *                                 pair's block; in place, only members above s, and a unit swaps
 *                                 the pair
 *   allgather(v), alltoall(v), by destination
 *                                 slice d holds, source by source, the parts of the block that
 *                                 member d takes from it
 *
 * How large a window is, how many slices there are and by which stores results are written, the
 * plan says (plan.c). Every byte is read and written as often as the collective needs it and no
 * more: a window of an allreduce is reduced once and written to all; of a bcast, read once and
 * written to all.
 *
 * Results are pushed: who has the source writes them to all, so that each byte is read once, and
 * cores write to each other's lines at the same time; or, where a machine writes to lines of other
 * cores more slowly than it reads them, pulled by who gets them (profile.h).
 *
 * Every slice has at least one unit (empty if there is nothing to do), so that counting finished
 * slices needs no knowledge of their contents. Which member a slice belongs to is the engine's
 * rule, and the same for all rows: number s to member s mod n.
 */
#include "core/copy.h"
#include "shm/internal.h"

#include <string.h>

/* --- blocks ----------------------------------------------------------------------------------- */

static hd_data_t block_of(const hd_call_t *call, uint8_t extent, const void *base,
                          const hd_vector_t *v, size_t element, uint32_t e) {
    if (extent == HD_VECTOR) {
        return hd_vector_block(base, v, element, e);
    }
    return (hd_data_t){hd_at(base, extent == HD_BLOCKS ? e * call->bytes : 0), call->bytes};
}

hd_data_t hd_work_taken(const hd_work_t *work, uint32_t i, uint32_t e) {
    const hd_call_t *call = work->call[i];
    return block_of(call, hd_coll[call->type].result, work->dst[i], &call->receive, call->element,
                    e);
}

hd_data_t hd_work_given(const hd_work_t *work, uint32_t i, uint32_t e) {
    const hd_call_t *call = work->call[i];
    const hd_coll_t *coll = &hd_coll[call->type];
    if (coll->pairwise && call->in_place) {
        return hd_work_taken(work, i, e);
    }
    /* in an alltoallv, what is sent may have other elements than what is received */
    return block_of(call, coll->source, work->src[i], &call->send,
                    coll->pairwise ? call->send_element : call->element, e);
}

/* --- slices, and the units they have ---------------------------------------------------------- */

/* So many windows are in a block. */
static size_t windows(const hd_op_t *op, size_t block) {
    return (block + op->plan.window - 1) / op->plan.window;
}

static size_t largest(const hd_vector_t *v, uint32_t n, size_t element) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t count = hd_vector_count(v, i);
        most = count > most ? count : most;
    }
    return (size_t)most * element;
}

static void set_units(hd_slice_t *slice, size_t units, uint32_t parts, uint32_t batch) {
    hd_slice_set(slice, (uint32_t)(units ? units : 1), parts, batch);
}

/* Equal runs of windows. */
static void lay_out_windows(const hd_op_t *op, uint32_t s, hd_slice_t *slice) {
    size_t all = windows(op, op->call.bytes);
    set_units(slice, all * (s + 1) / op->plan.slices - all * s / op->plan.slices, 1, 1);
}

/* Member s's block; v types: op->call.bytes is my own block's size. */
static void lay_out_block(const hd_op_t *op, uint32_t s, hd_slice_t *slice) {
    (void)s;
    set_units(slice, windows(op, op->call.bytes), 1, 1);
}

/* The user's reductions: all blocks in slice 0. */
static void lay_out_blocks(const hd_op_t *op, size_t largest_block, hd_slice_t *slice) {
    uint32_t parts = (uint32_t)windows(op, largest_block);
    set_units(slice, (size_t)parts * op->place.n, parts, 1);
}

static void lay_out_reduce_scatter(const hd_op_t *op, uint32_t s, hd_slice_t *slice) {
    if (op->call.exclusive) {
        lay_out_blocks(op, op->call.bytes, slice);
    } else {
        lay_out_block(op, s, slice);
    }
}

static void lay_out_reduce_scatterv(const hd_op_t *op, uint32_t s, hd_slice_t *slice) {
    if (op->call.exclusive) {
        lay_out_blocks(op, largest(&op->call.receive, op->place.n, op->call.element), slice);
    } else {
        lay_out_block(op, s, slice);
    }
}

static void lay_out_parts(const hd_op_t *op, size_t blocks, size_t block, hd_slice_t *slice) {
    uint32_t parts = (uint32_t)windows(op, block), batch = 1;
    if (parts <= 1) {
        parts = 1;
        batch = hd_plan_batch(block);
    }
    set_units(slice, parts * blocks, parts, batch);
}

/* One block to each member, or, in place, one with each member above s. */
static void lay_out_pairs(const hd_op_t *op, uint32_t s, size_t block, hd_slice_t *slice) {
    lay_out_parts(op, op->call.in_place ? op->place.n - s - 1 : op->place.n, block, slice);
}

static void lay_out_alltoall(const hd_op_t *op, uint32_t s, hd_slice_t *slice) {
    lay_out_pairs(op, s, op->call.bytes, slice);
}

static void lay_out_alltoallv(const hd_op_t *op, uint32_t s, hd_slice_t *slice) {
    const hd_call_t *call = &op->call;
    lay_out_pairs(op, s,
                  call->in_place ? largest(&call->receive, op->place.n, call->element)
                                 : largest(&call->send, op->place.n, call->send_element),
                  slice);
}

/* One block from each member. */
static void lay_out_taken(const hd_op_t *op, uint32_t d, hd_slice_t *slice) {
    (void)d;
    lay_out_parts(op, op->place.n, op->call.bytes, slice);
}

static void lay_out_taken_v(const hd_op_t *op, uint32_t d, hd_slice_t *slice) {
    (void)d;
    lay_out_parts(op, op->place.n, largest(&op->call.receive, op->place.n, op->call.element),
                  slice);
}

/* --- moving data ------------------------------------------------------------------------------ */

void hd_work_swap(uint8_t *a, uint8_t *b, size_t bytes) {
    uint8_t held[4096];
    for (size_t at = 0; at < bytes; at += sizeof(held)) {
        size_t part = bytes - at < sizeof(held) ? bytes - at : sizeof(held);
        memcpy(held, a + at, part);
        memcpy(a + at, b + at, part);
        memcpy(b + at, held, part);
    }
}

/* The part of a block that a unit covers. */
typedef struct span {
    size_t at, bytes;
} span_t;

static span_t span_of(const hd_op_t *op, size_t block, size_t index) {
    size_t w = op->plan.window, at = index * w;
    if (at >= block) {
        return (span_t){0, 0};
    }
    return (span_t){at, block - at < w ? block - at : w};
}

/* A window of the result in the caches: to the claimer's own destination first, where the stores
 * are cheapest, and from there to the others'. All operands are read before any is overwritten. */
static ucc_status_t push_window(const hd_op_t *op, const hd_work_t *work, size_t at, size_t bytes) {
    uint8_t *own = (uint8_t *)work->dst[op->place.me] + at;
    ucc_status_t status =
        hd_reduce_tree(&op->call.reducer, op->place.n, work->src, at, 1, &work->dst[op->place.me],
                       at, bytes / op->call.element, HD_STORES_PLAIN);
    for (uint32_t i = 1; status == UCC_OK && i < op->place.n; i++) {
        uint32_t to = (op->place.me + i) % op->place.n;
        hd_copy((uint8_t *)work->dst[to] + at, own, bytes, HD_STORES_PLAIN);
    }
    return status;
}

static ucc_status_t push_windows(const hd_op_t *op, const hd_work_t *work, span_t span) {
    ucc_status_t status = UCC_OK;
    size_t step = hd_plan_push(op->call.element);
    for (size_t done = 0; status == UCC_OK && done < span.bytes; done += step) {
        size_t left = span.bytes - done;
        status = push_window(op, work, span.at + done, left < step ? left : step);
    }
    return status;
}

/* Prefixes through a window that the first-level cache holds: each is made from the one before. A
 * scan's lie in the destinations. Those of an exscan are made before the destination is written: it
 * may be the operand. */
static ucc_status_t scan_window(const hd_op_t *op, const hd_work_t *work, size_t at, size_t bytes,
                                bool exclusive, uint8_t *const held[2]) {
    const void *source[2] = {(const uint8_t *)work->src[0] + at, NULL};
    ucc_status_t status = UCC_OK;
    if (!exclusive) {
        hd_copy((uint8_t *)work->dst[0] + at, source[0], bytes, HD_STORES_PLAIN);
    }
    for (uint32_t i = 1; i < op->place.n && status == UCC_OK; i++) {
        uint8_t *dst = (uint8_t *)work->dst[i] + at;
        uint8_t *to = exclusive ? held[i % 2] : dst;
        source[1] = (const uint8_t *)work->src[i] + at;
        if (!exclusive || i + 1 < op->place.n) {
            status =
                hd_reduce_block(&op->call.reducer, 2, source, to, bytes / op->call.element, true);
        }
        if (exclusive) {
            hd_copy(dst, source[0], bytes, HD_STORES_PLAIN);
        }
        source[0] = to;
    }
    return status;
}

/* Not inlined: its stack is not for the others. */
static __attribute__((noinline)) ucc_status_t scan_windows(const hd_op_t *op, const hd_work_t *work,
                                                           span_t span, bool exclusive) {
    alignas(HD_LINE) uint8_t stack[2][HD_PUSH_WINDOW];
    uint8_t *held[2] = {stack[0], stack[1]}, *heap = NULL;
    size_t step = hd_plan_push(op->call.element);
    ucc_status_t status = UCC_OK;
    if (exclusive && step > sizeof(stack[0])) { /* a user's large elements */
        heap = hd_alloc(HD_LINE, 2 * step);
        if (!heap) {
            hd_error("%s: no memory for prefixes of %zu bytes", hd_type_name(op->call.type), step);
            return UCC_ERR_NO_MEMORY;
        }
        held[0] = heap;
        held[1] = heap + step;
    }
    for (size_t done = 0; status == UCC_OK && done < span.bytes; done += step) {
        size_t left = span.bytes - done;
        status = scan_window(op, work, span.at + done, left < step ? left : step, exclusive, held);
    }
    hd_free(heap);
    return status;
}

/* The window that a unit is; none if it is the empty unit of a slice without work. */
static span_t share_of(const hd_op_t *op, uint32_t s, uint32_t unit) {
    size_t all = windows(op, op->call.bytes), index = all * s / op->plan.slices + unit;
    if (index >= all * (s + 1) / op->plan.slices) {
        return (span_t){0, 0};
    }
    return span_of(op, op->call.bytes, index);
}

static ucc_status_t run_bcast(const hd_op_t *op, const hd_work_t *work, uint32_t s, uint32_t unit) {
    span_t span = share_of(op, s, unit);
    if (span.bytes) {
        hd_copy_to_many(op->place.n, work->dst, span.at,
                        (const uint8_t *)work->src[op->call.root] + span.at, span.bytes,
                        op->plan.stores);
    }
    return UCC_OK;
}

static ucc_status_t run_reduce(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                               uint32_t unit) {
    span_t span = share_of(op, s, unit);
    if (!span.bytes) {
        return UCC_OK;
    }
    return hd_reduce_tree(&op->call.reducer, op->place.n, work->src, span.at, 1,
                          &work->dst[op->call.root], span.at, span.bytes / op->call.element,
                          op->plan.stores);
}

static ucc_status_t run_allreduce(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                                  uint32_t unit) {
    span_t span = share_of(op, s, unit);
    if (!span.bytes) {
        return UCC_OK;
    }
    if (hd_stores_stream(op->plan.stores)) {
        return hd_reduce_tree(&op->call.reducer, op->place.n, work->src, span.at, op->place.n,
                              work->dst, span.at, span.bytes / op->call.element,
                              HD_STORES_STREAMING);
    }
    return push_windows(op, work, span);
}

ucc_status_t hd_work_scan(const hd_op_t *op, const hd_work_t *work, size_t bytes) {
    return scan_windows(op, work, (span_t){0, bytes}, op->call.type == HD_EXSCAN);
}

static ucc_status_t run_scan(const hd_op_t *op, const hd_work_t *work, uint32_t s, uint32_t unit) {
    span_t span = share_of(op, s, unit);
    return span.bytes ? scan_windows(op, work, span, false) : UCC_OK;
}

static ucc_status_t run_exscan(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                               uint32_t unit) {
    span_t span = share_of(op, s, unit);
    return span.bytes ? scan_windows(op, work, span, true) : UCC_OK;
}

static ucc_status_t run_allgather(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                                  uint32_t unit) {
    span_t span = span_of(op, op->call.bytes, unit);
    hd_copy_to_many(op->place.n, work->dst, s * op->call.bytes + span.at,
                    (const uint8_t *)work->src[s] + span.at, span.bytes, op->plan.stores);
    return UCC_OK;
}

/* To all, wherever in their buffers it belongs. */
static void spread(const hd_op_t *op, const hd_work_t *work, uint32_t s, span_t span) {
    for (uint32_t d = 0; d < op->place.n; d++) {
        hd_copy(hd_at(hd_work_taken(work, d, s).at, span.at),
                (const uint8_t *)work->src[s] + span.at, span.bytes, op->plan.stores);
    }
}

/* Does every member expect so much of member s? */
static ucc_status_t compare_block(const hd_op_t *op, const hd_work_t *work, uint32_t s) {
    size_t bytes = work->call[s]->bytes;
    for (uint32_t d = 0; d < op->place.n; d++) {
        const hd_call_t *to = work->call[d];
        size_t expected = hd_vector_count(&to->receive, s) * to->element;
        if (expected != bytes) {
            return hd_op_say_sizes(op, s, d, bytes, expected);
        }
    }
    return UCC_OK;
}

/* By pieces that stay in the first cache level, so that the source is fetched once. */
static ucc_status_t run_allgatherv(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                                   uint32_t unit) {
    ucc_status_t status = compare_block(op, work, s);
    if (status != UCC_OK) {
        return status;
    }
    span_t span = span_of(op, work->call[s]->bytes, unit);
    size_t piece = op->plan.stores == HD_STORES_PAGES ? HD_COPY_PAGES : HD_PUSH_WINDOW;
    for (size_t done = 0; done < span.bytes; done += piece) {
        size_t left = span.bytes - done;
        spread(op, work, s, (span_t){span.at + done, left < piece ? left : piece});
    }
    return UCC_OK;
}

static ucc_status_t run_gather(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                               uint32_t unit) {
    span_t span = span_of(op, op->call.bytes, unit);
    hd_copy((uint8_t *)work->dst[op->call.root] + s * op->call.bytes + span.at,
            (const uint8_t *)work->src[s] + span.at, span.bytes, op->plan.stores);
    return UCC_OK;
}

static ucc_status_t run_gatherv(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                                uint32_t unit) {
    if (hd_lane_regime(hd_board_lane(op->place.board, s, op->place.k)) != HD_REGIME_DIRECT) {
        return UCC_OK; /* came with its lane: the root copies it */
    }
    const hd_call_t *root = work->call[op->call.root];
    size_t bytes = work->call[s]->bytes;
    size_t expected = hd_vector_count(&root->receive, s) * root->element;
    if (s == op->call.root) {
        bytes = expected; /* the root's own block: copied, or in place, by its own count */
    }
    if (bytes != expected) {
        return hd_op_say_sizes(op, s, op->call.root, bytes, expected);
    }
    span_t span = span_of(op, bytes, unit);
    uint64_t offset = hd_vector_displacement(&root->receive, s) * root->element + span.at;
    hd_copy(hd_at(work->dst[op->call.root], offset), (const uint8_t *)work->src[s] + span.at,
            span.bytes, op->plan.stores);
    return UCC_OK;
}

static ucc_status_t run_scatter(const hd_op_t *op, const hd_work_t *work, uint32_t d,
                                uint32_t unit) {
    span_t span = span_of(op, op->call.bytes, unit);
    hd_copy((uint8_t *)work->dst[d] + span.at,
            (const uint8_t *)work->src[op->call.root] + d * op->call.bytes + span.at, span.bytes,
            op->plan.stores);
    return UCC_OK;
}

static ucc_status_t run_scatterv(const hd_op_t *op, const hd_work_t *work, uint32_t d,
                                 uint32_t unit) {
    const uint8_t *src = work->src[op->call.root];
    const hd_call_t *root = work->call[op->call.root];
    size_t bytes = work->call[d]->bytes;
    size_t sent = hd_vector_count(&root->send, d) * root->element;
    if (sent != bytes) {
        return hd_op_say_sizes(op, op->call.root, d, sent, bytes);
    }
    span_t span = span_of(op, bytes, unit);
    hd_copy((uint8_t *)work->dst[d] + span.at,
            hd_at(src, hd_vector_displacement(&root->send, d) * root->element + span.at),
            span.bytes, op->plan.stores);
    return UCC_OK;
}

/* One part of member d's block, which begins `before` bytes after the operands do. */
static ucc_status_t reduce_part(const hd_op_t *op, const hd_work_t *work, uint32_t d, size_t before,
                                size_t bytes, uint32_t part) {
    span_t span = span_of(op, bytes, part);
    return hd_reduce_tree(&op->call.reducer, op->place.n, work->src, before + span.at, 1,
                          &work->dst[d], span.at, span.bytes / op->call.element, op->plan.stores);
}

/* Whose block a unit belongs to, and which part of it it is: slice by slice, or, exclusively, all
 * in slice
 * 0. False: the empty unit. */
static bool find_part(const hd_op_t *op, const hd_work_t *work, uint32_t *d, uint32_t *unit) {
    if (op->call.exclusive) {
        uint32_t parts = work->slice[0].parts;
        *d = parts ? *unit / parts : op->place.n;
        *unit = parts ? *unit % parts : 0;
    }
    return *d < op->place.n;
}

static ucc_status_t run_reduce_scatter(const hd_op_t *op, const hd_work_t *work, uint32_t d,
                                       uint32_t unit) {
    if (!find_part(op, work, &d, &unit)) {
        return UCC_OK;
    }
    return reduce_part(op, work, d, d * op->call.bytes, op->call.bytes, unit);
}

static ucc_status_t run_reduce_scatterv(const hd_op_t *op, const hd_work_t *work, uint32_t d,
                                        uint32_t unit) {
    if (!find_part(op, work, &d, &unit)) {
        return UCC_OK;
    }
    const hd_vector_t *blocks = &op->call.receive;
    return reduce_part(op, work, d, hd_vector_displacement(blocks, d) * op->call.element,
                       hd_vector_count(blocks, d) * op->call.element, unit);
}

/* A unit's pair: this slice's member sends the part to member *to. False: the empty unit. */
static bool find_pair(const hd_op_t *op, const hd_work_t *work, uint32_t s, uint32_t unit,
                      uint32_t *to, uint32_t *part) {
    uint32_t parts = work->slice[s].parts;
    *part = unit % parts;
    *to = unit / parts + (op->call.in_place ? s + 1 : 0);
    return *to < op->place.n;
}

static ucc_status_t run_alltoall(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                                 uint32_t unit) {
    uint32_t to, part;
    if (!find_pair(op, work, s, unit, &to, &part)) {
        return UCC_OK;
    }
    span_t span = span_of(op, op->call.bytes, part);
    uint8_t *dst = (uint8_t *)work->dst[to] + s * op->call.bytes + span.at;
    if (op->call.in_place) {
        hd_work_swap(dst, (uint8_t *)work->dst[s] + to * op->call.bytes + span.at, span.bytes);
    } else {
        hd_copy(dst, (const uint8_t *)work->src[s] + to * op->call.bytes + span.at, span.bytes,
                op->plan.stores);
    }
    return UCC_OK;
}

static ucc_status_t run_alltoallv(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                                  uint32_t unit) {
    uint32_t d, part;
    if (!find_pair(op, work, s, unit, &d, &part)) {
        return UCC_OK;
    }
    if (!op->call.in_place &&
        hd_lane_regime(hd_board_lane(op->place.board, s, op->place.k)) != HD_REGIME_DIRECT) {
        return UCC_OK; /* came with its lane: the destination copies it */
    }
    hd_data_t from = hd_work_given(work, s, d), to = hd_work_taken(work, d, s);
    if (from.bytes != to.bytes) {
        return hd_op_say_sizes(op, s, d, from.bytes, to.bytes);
    }
    span_t span = span_of(op, from.bytes, part);
    if (op->call.in_place) {
        hd_work_swap(hd_at(to.at, span.at), hd_at(from.at, span.at), span.bytes);
    } else {
        hd_copy(hd_at(to.at, span.at), hd_at(from.at, span.at), span.bytes, op->plan.stores);
    }
    return UCC_OK;
}

/* --- by destination --- */

/* Where a unit's block comes from: beginning behind its own member, so that not all read from the
 * same one. */
static uint32_t source_of(const hd_op_t *op, const hd_work_t *work, uint32_t d, uint32_t unit,
                          uint32_t *part) {
    uint32_t parts = work->slice[d].parts;
    *part = unit % parts;
    return (d + 1 + unit / parts) % op->place.n;
}

/* A part of a block, or, if there is one, all of it; in place, it may be there already. */
static void pull(const hd_op_t *op, const hd_slice_t *slice, uint8_t *dst, const uint8_t *src,
                 size_t block, uint32_t part) {
    span_t span = slice->parts == 1 ? (span_t){0, block} : span_of(op, block, part);
    dst = hd_at(dst, span.at);
    src = hd_at(src, span.at);
    if (dst != src) {
        hd_copy(dst, src, span.bytes, op->plan.stores);
    }
}

static ucc_status_t pull_allgather(const hd_op_t *op, const hd_work_t *work, uint32_t d,
                                   uint32_t unit) {
    uint32_t part, s = source_of(op, work, d, unit, &part);
    size_t block = op->call.bytes;
    pull(op, &work->slice[d], hd_at(work->dst[d], s * block), work->src[s], block, part);
    return UCC_OK;
}

static ucc_status_t pull_alltoall(const hd_op_t *op, const hd_work_t *work, uint32_t d,
                                  uint32_t unit) {
    uint32_t part, s = source_of(op, work, d, unit, &part);
    size_t block = op->call.bytes;
    pull(op, &work->slice[d], hd_at(work->dst[d], s * block), hd_at(work->src[s], d * block), block,
         part);
    return UCC_OK;
}

/* As both members' calls say it. */
static ucc_status_t pull_block(const hd_op_t *op, const hd_work_t *work, uint32_t s, uint32_t d,
                               hd_data_t from, uint32_t part) {
    hd_data_t to = hd_work_taken(work, d, s);
    if (from.bytes != to.bytes) {
        return hd_op_say_sizes(op, s, d, from.bytes, to.bytes);
    }
    pull(op, &work->slice[d], to.at, from.at, from.bytes, part);
    return UCC_OK;
}

static ucc_status_t pull_allgatherv(const hd_op_t *op, const hd_work_t *work, uint32_t d,
                                    uint32_t unit) {
    /* who expects other blocks than I do may push: then nobody else compares mine with theirs */
    ucc_status_t status = unit == 0 ? compare_block(op, work, d) : UCC_OK;
    if (status != UCC_OK) {
        return status;
    }
    uint32_t part, s = source_of(op, work, d, unit, &part);
    return pull_block(op, work, s, d, (hd_data_t){hd_at(work->src[s], 0), work->call[s]->bytes},
                      part);
}

static ucc_status_t pull_alltoallv(const hd_op_t *op, const hd_work_t *work, uint32_t d,
                                   uint32_t unit) {
    uint32_t part, s = source_of(op, work, d, unit, &part);
    if (hd_lane_regime(hd_board_lane(op->place.board, s, op->place.k)) != HD_REGIME_DIRECT) {
        return UCC_OK; /* came with its lane: the destination copies it */
    }
    return pull_block(op, work, s, d, hd_work_given(work, s, d), part);
}

ucc_status_t hd_work_run(const hd_op_t *op, const hd_work_t *work, uint32_t slice, uint32_t unit) {
    ucc_status_t status = op->plan.row->run(op, work, slice, unit);
    if (hd_stores_stream(op->plan.stores)) {
        hd_copy_fence(); /* before anybody is told that the unit is finished */
    }
    return status;
}

/* --- the table -------------------------------------------------------------------------------- */

/* Streams of memory that one byte of a window touches: from one to one, from or to one and all, or
 * all and all. */
#define ONE_ONE .streams_more = 2
#define ONE_ALL .streams_each = 1, .streams_more = 1
#define ALL_ALL .streams_each = 2

const hd_work_row_t hd_work_rows[HD_N_TYPES] = {
    [HD_ALLGATHER] = {lay_out_block, run_allgather, ONE_ALL, .receives = HD_WORK_ALL_BLOCKS},
    [HD_ALLGATHERV] = {lay_out_block, run_allgatherv, ONE_ALL, .receives = HD_WORK_ALL_BLOCKS,
                       .vector = true},
    [HD_ALLREDUCE] = {lay_out_windows, run_allreduce, ALL_ALL, .windowed = true, .reducing = true},
    [HD_ALLTOALL] = {lay_out_alltoall, run_alltoall, ONE_ONE, .receives = HD_WORK_ALL_BLOCKS},
    [HD_ALLTOALLV] = {lay_out_alltoallv, run_alltoallv, ONE_ONE, .receives = HD_WORK_TOTAL,
                      .vector = true},
    [HD_BCAST] = {lay_out_windows, run_bcast, ONE_ALL, .windowed = true},
    [HD_GATHER] = {lay_out_block, run_gather, ONE_ONE, .receives = HD_WORK_ALL_BLOCKS},
    [HD_GATHERV] = {lay_out_block, run_gatherv, ONE_ONE, .receives = HD_WORK_ALL_BLOCKS,
                    .vector = true},
    [HD_REDUCE] = {lay_out_windows, run_reduce, ONE_ALL, .windowed = true, .reducing = true},
    [HD_REDUCE_SCATTER] = {lay_out_reduce_scatter, run_reduce_scatter, ONE_ALL, .reducing = true},
    [HD_REDUCE_SCATTERV] = {lay_out_reduce_scatterv, run_reduce_scatterv, ONE_ALL, .vector = true,
                            .reducing = true},
    [HD_SCATTER] = {lay_out_block, run_scatter, ONE_ONE, .pulled = true},
    [HD_SCATTERV] = {lay_out_block, run_scatterv, ONE_ONE, .vector = true},
    [HD_MCAST] = {lay_out_windows, run_bcast, ONE_ALL, .windowed = true},
    [HD_SCAN] = {lay_out_windows, run_scan, ALL_ALL, .windowed = true, .reducing = true},
    [HD_EXSCAN] = {lay_out_windows, run_exscan, ALL_ALL, .windowed = true, .reducing = true},
};

/* By destination; run is NULL: there is no such row. */
static const hd_work_row_t pulled[HD_N_TYPES] = {
    [HD_ALLGATHER] = {lay_out_taken, pull_allgather, ONE_ONE, .receives = HD_WORK_ALL_BLOCKS,
                      .by_destination = true},
    [HD_ALLGATHERV] = {lay_out_taken_v, pull_allgatherv, ONE_ONE, .receives = HD_WORK_ALL_BLOCKS,
                       .by_destination = true, .vector = true},
    [HD_ALLTOALL] = {lay_out_taken, pull_alltoall, ONE_ONE, .receives = HD_WORK_ALL_BLOCKS,
                     .by_destination = true},
    [HD_ALLTOALLV] = {lay_out_taken_v, pull_alltoallv, ONE_ONE, .receives = HD_WORK_TOTAL,
                      .by_destination = true, .vector = true},
};

const hd_work_row_t *hd_work_by_destination(const hd_call_t *call) {
    /* in place, an alltoall swaps */
    return pulled[call->type].run && !(call->in_place && hd_coll[call->type].pairwise)
               ? &pulled[call->type]
               : NULL;
}
