/* work.c: what the units of a DIRECT exchange are, collective by collective.
 *
 *   bcast, reduce, allreduce, (ex)scan  a unit is a byte window; slices are equal runs of windows
 *   allgather(v), gather(v)       slice s holds the parts of member s's block
 *   scatter(v), reduce_scatter(v) slice d holds the parts of member d's block
 *   alltoall(v)                   slice s holds, destination by destination, the parts of the pair's
 *                                 block; in place, only members above s, and a unit swaps the pair
 *
 * A unit touches at most about group->chunk bytes over all its sources and destinations, and, where
 * all members know the size, is at most half of a member's share, unless that is small. Every byte is read and written
 * as often as the collective needs it and no more: a window of an allreduce is reduced once and
 * written to all; of a bcast, read once and written to all.
 *
 * Results are pushed: who has the source writes them to all, so that each byte is read once, and cores
 * write to each other's lines at the same time, which measured faster than reading from them. Results that
 * would not stay in their readers' caches are written past them, by streaming stores: docs/performance.md
 * has the figures.
 *
 * Every slice has at least one unit (empty if there is nothing to do), so that counting finished
 * slices needs no knowledge of their contents.
 */
#include "core/copy.h"
#include "shm/shm.h"

#include <string.h>

enum {
    MAX_SHARES = 64,          /* slices of a windowed collective */
    SMALL_BATCH = 64 * 1024,  /* bytes of small blocks taken by one claim */
    UNSHARED = 32 * 1024,     /* a member's share of so many bytes is one unit */
    UNSHARED_PULL = 4 * 1024, /* less in a scatter, whose root is soon done with its own block */
    PUSH_WINDOW = 8 * 1024    /* a result that is copied on while the first-level cache holds it */
};

#define TYPE(name) ((uint32_t)1 << HD_##name)

static bool among(uint8_t type, uint32_t set) {
    return set >> type & 1;
}

static bool is_windowed(uint8_t type) {
    return among(type, TYPE(BCAST) | TYPE(MCAST) | TYPE(REDUCE) | TYPE(ALLREDUCE) | TYPE(SCAN) |
                           TYPE(EXSCAN));
}

bool hd_work_is_vector(uint8_t type) {
    return among(type, TYPE(ALLGATHERV) | TYPE(ALLTOALLV) | TYPE(GATHERV) | TYPE(SCATTERV) |
                           TYPE(REDUCE_SCATTERV));
}

static bool is_reduction(uint8_t type) {
    return among(type, TYPE(REDUCE) | TYPE(ALLREDUCE) | TYPE(REDUCE_SCATTER) |
                           TYPE(REDUCE_SCATTERV) | TYPE(SCAN) | TYPE(EXSCAN));
}

/* --- plans: the same at all members, for they depend on what all agree on ------------------------- */

/* About as many bytes as one member receives. For v types each knows its own; only who copies minds. */
static size_t received(const hd_op_t *op) {
    switch (op->type) {
    case HD_ALLGATHER:
    case HD_ALLGATHERV:
    case HD_ALLTOALL:
    case HD_GATHER:
    case HD_GATHERV:
        return op->bytes * op->n;
    case HD_ALLTOALLV:
        return op->total;
    default:
        return op->bytes;
    }
}

/* Results that would not stay in their readers' caches go past them. */
static hd_stores_t stores_of(const hd_op_t *op) {
    return received(op) >= op->group->streaming_min ? HD_STORES_STREAMING : HD_STORES_PLAIN;
}

/* Streams of memory that one byte of a window touches. */
static size_t streams(const hd_op_t *op) {
    switch (op->type) {
    case HD_ALLREDUCE:
    case HD_SCAN:
    case HD_EXSCAN:
        return 2 * (size_t)op->n;
    case HD_BCAST:
    case HD_MCAST:
    case HD_REDUCE:
    case HD_REDUCE_SCATTER:
    case HD_REDUCE_SCATTERV:
    case HD_ALLGATHER:
    case HD_ALLGATHERV:
        return (size_t)op->n + 1;
    default:
        return 2;
    }
}

/* Bytes of one unit's window: whole elements, whole lines where elements fit into lines. */
static size_t window(const hd_op_t *op, size_t all) {
    /* only reductions agree on the element; blocks of data may be cut anywhere */
    size_t grain = is_reduction(op->type) && HD_LINE % op->element != 0 ? op->element : HD_LINE;
    size_t bytes = op->group->chunk / streams(op);
    size_t share = is_windowed(op->type) ? all / op->n : all;
    /* so that who is done first can take from who is not */
    if (share > UNSHARED) {
        share /= op->type == HD_SCATTER ? 4 : 2;
    } else if (share > UNSHARED_PULL && op->type == HD_SCATTER) {
        share /= 2;
    }
    share += grain - 1; /* a remainder is not worth a unit of its own */
    if (!hd_work_is_vector(op->type) && bytes > share) {
        bytes = share;
    }
    bytes -= bytes % grain;
    return bytes ? bytes : grain;
}

static size_t windows(const hd_op_t *op, size_t all) {
    size_t w = window(op, all);
    return (all + w - 1) / w;
}

uint32_t hd_work_slices(const hd_op_t *op) {
    if (op->exclusive) {
        return 1; /* one claim word: one chunk of the user's operation at a time */
    }
    return is_windowed(op->type) && op->n > MAX_SHARES ? MAX_SHARES : op->n;
}

static size_t largest(const hd_vector_t *v, uint32_t n, size_t element) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t count = hd_vector_count(v, i);
        most = count > most ? count : most;
    }
    return (size_t)most * element;
}

/* Of the blocks that a slice of several is made of. */
static size_t largest_block(const hd_op_t *op) {
    if (!hd_work_is_vector(op->type)) {
        return op->bytes;
    }
    return op->type == HD_ALLTOALLV && !op->in_place ? largest(&op->send, op->n, op->send_element)
                                                     : largest(&op->receive, op->n, op->element);
}

void hd_work_layout(const hd_op_t *op, hd_slice_t *slice) {
    uint32_t slices = hd_work_slices(op);
    size_t units = 1;
    slice->batch = 1;
    slice->parts = 1;
    if (is_windowed(op->type)) {
        if (op->me < slices) {
            size_t all = windows(op, op->bytes);
            units = all * (op->me + 1) / slices - all * op->me / slices;
        }
    } else if (op->type == HD_ALLTOALL || op->type == HD_ALLTOALLV) {
        size_t block = largest_block(op);
        size_t parts = windows(op, block);
        slice->parts = (uint32_t)(parts ? parts : 1);
        if (slice->parts == 1) {
            slice->batch = (uint32_t)(SMALL_BATCH / (block + 64) + 1);
        }
        units = (size_t)slice->parts * (op->in_place ? op->n - op->me - 1 : op->n);
    } else if (op->exclusive) { /* a reduce_scatter(v): all blocks in slice 0 */
        slice->parts = (uint32_t)windows(op, largest_block(op));
        units = (size_t)slice->parts * op->n;
    } else {
        units = windows(op, op->bytes); /* v types: op->bytes is my own block's size */
    }
    slice->units = (uint32_t)(units ? units : 1);
}

/* --- moving data -------------------------------------------------------------------------------- */

static void swap(uint8_t *a, uint8_t *b, size_t bytes) {
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

static span_t span_of(const hd_op_t *op, size_t all, size_t index) {
    size_t w = window(op, all), at = index * w;
    if (at >= all) {
        return (span_t){0, 0};
    }
    return (span_t){at, all - at < w ? all - at : w};
}

/* A window of the result in the caches: to the claimer's own destination first, where the stores are
 * cheapest, and from there to the others'. All operands are read before any is overwritten. */
static ucc_status_t push_window(const hd_op_t *op, const hd_work_t *work, size_t at, size_t bytes) {
    uint8_t *own = (uint8_t *)work->dst[op->me] + at;
    ucc_status_t status = hd_reduce_tree(&op->reducer, op->n, work->src, at, 1, &work->dst[op->me],
                                         at, bytes / op->element, HD_STORES_PLAIN);
    for (uint32_t i = 1; status == UCC_OK && i < op->n; i++) {
        uint32_t to = (op->me + i) % op->n;
        hd_copy((uint8_t *)work->dst[to] + at, own, bytes, HD_STORES_PLAIN);
    }
    return status;
}

static ucc_status_t run_allreduce(const hd_op_t *op, const hd_work_t *work, span_t span) {
    if (stores_of(op) == HD_STORES_STREAMING) {
        return hd_reduce_tree(&op->reducer, op->n, work->src, span.at, op->n, work->dst, span.at,
                              span.bytes / op->element, HD_STORES_STREAMING);
    }
    ucc_status_t status = UCC_OK;
    size_t step = op->element < PUSH_WINDOW ? PUSH_WINDOW - PUSH_WINDOW % op->element : op->element;
    for (size_t done = 0; status == UCC_OK && done < span.bytes; done += step) {
        size_t left = span.bytes - done;
        status = push_window(op, work, span.at + done, left < step ? left : step);
    }
    return status;
}

/* Prefixes through a window that the first-level cache holds: each is made from the one before. A scan's
 * lie in the destinations. Those of an exscan are made before the destination is written: it may be the
 * operand. */
static ucc_status_t scan_window(const hd_op_t *op, const hd_work_t *work, size_t at, size_t bytes,
                                uint8_t *const held[2]) {
    const void *source[2] = {(const uint8_t *)work->src[0] + at, NULL};
    ucc_status_t status = UCC_OK;
    if (op->type == HD_SCAN) {
        hd_copy((uint8_t *)work->dst[0] + at, source[0], bytes, HD_STORES_PLAIN);
    }
    for (uint32_t i = 1; i < op->n && status == UCC_OK; i++) {
        uint8_t *dst = (uint8_t *)work->dst[i] + at;
        uint8_t *to = op->type == HD_SCAN ? dst : held[i % 2];
        source[1] = (const uint8_t *)work->src[i] + at;
        if (op->type == HD_SCAN || i + 1 < op->n) {
            status = hd_reduce_block(&op->reducer, 2, source, to, bytes / op->element, true);
        }
        if (op->type == HD_EXSCAN) {
            hd_copy(dst, source[0], bytes, HD_STORES_PLAIN);
        }
        source[0] = to;
    }
    return status;
}

/* Not inlined: its stack is not for the others. */
static __attribute__((noinline)) ucc_status_t run_scan(const hd_op_t *op, const hd_work_t *work,
                                                       span_t span) {
    alignas(HD_LINE) uint8_t stack[2][PUSH_WINDOW];
    uint8_t *held[2] = {stack[0], stack[1]}, *heap = NULL;
    size_t step = op->element < PUSH_WINDOW ? PUSH_WINDOW - PUSH_WINDOW % op->element : op->element;
    ucc_status_t status = UCC_OK;
    if (op->element > PUSH_WINDOW && op->type == HD_EXSCAN) { /* a user's large elements */
        heap = hd_alloc(HD_LINE, 2 * op->element);
        if (!heap) {
            hd_error("%s: no memory for prefixes of %zu bytes", hd_type_name(op->type),
                     op->element);
            return UCC_ERR_NO_MEMORY;
        }
        held[0] = heap;
        held[1] = heap + op->element;
    }
    for (size_t done = 0; status == UCC_OK && done < span.bytes; done += step) {
        size_t left = span.bytes - done;
        status = scan_window(op, work, span.at + done, left < step ? left : step, held);
    }
    hd_free(heap);
    return status;
}

static ucc_status_t run_windowed(const hd_op_t *op, const hd_work_t *work, uint32_t slice,
                                 uint32_t unit) {
    size_t all = windows(op, op->bytes);
    size_t first = all * slice / hd_work_slices(op);
    span_t span = span_of(op, op->bytes, first + unit);
    if (!span.bytes || first + unit >= all * (slice + 1) / hd_work_slices(op)) {
        return UCC_OK;
    }
    size_t count = span.bytes / op->element;
    if (op->type == HD_REDUCE) {
        return hd_reduce_tree(&op->reducer, op->n, work->src, span.at, 1, &work->dst[op->root],
                              span.at, count, stores_of(op));
    }
    if (op->type == HD_ALLREDUCE) {
        return run_allreduce(op, work, span);
    }
    if (op->type == HD_SCAN || op->type == HD_EXSCAN) {
        return run_scan(op, work, span);
    }
    hd_copy_to_many(op->n, work->dst, span.at, (const uint8_t *)work->src[op->root] + span.at,
                    span.bytes, stores_of(op));
    return UCC_OK;
}

static ucc_status_t differ(const hd_op_t *op, uint32_t from, uint32_t to, size_t sent,
                           size_t received) {
    hd_op_say_sizes(op, from, to, sent, received);
    return UCC_ERR_INVALID_PARAM;
}

static ucc_status_t run_allgather(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                                  uint32_t unit) {
    if (op->type == HD_ALLGATHER) {
        span_t span = span_of(op, op->bytes, unit);
        hd_copy_to_many(op->n, work->dst, s * op->bytes + span.at,
                        (const uint8_t *)work->src[s] + span.at, span.bytes, stores_of(op));
        return UCC_OK;
    }
    size_t bytes = work->op[s]->bytes;
    span_t span = span_of(op, bytes, unit);
    for (uint32_t d = 0; d < op->n; d++) {
        const hd_op_t *to = work->op[d];
        size_t expected = hd_vector_count(&to->receive, s) * to->element;
        if (expected != bytes) {
            return differ(op, s, d, bytes, expected);
        }
        uint64_t offset = hd_vector_displacement(&to->receive, s) * to->element + span.at;
        hd_copy(hd_at(work->dst[d], offset), (const uint8_t *)work->src[s] + span.at, span.bytes,
                stores_of(op));
    }
    return UCC_OK;
}

static ucc_status_t run_gather(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                               uint32_t unit) {
    if (op->type == HD_GATHER) {
        span_t span = span_of(op, op->bytes, unit);
        hd_copy((uint8_t *)work->dst[op->root] + s * op->bytes + span.at,
                (const uint8_t *)work->src[s] + span.at, span.bytes, stores_of(op));
        return UCC_OK;
    }
    if (hd_lane_regime(hd_board_lane(op->board, s, op->k)) != HD_REGIME_DIRECT) {
        return UCC_OK; /* came with its lane: the root copies it */
    }
    const hd_op_t *root = work->op[op->root];
    size_t bytes = work->op[s]->bytes;
    size_t expected = hd_vector_count(&root->receive, s) * root->element;
    if (s == op->root) {
        bytes = expected; /* the root's own block: copied, or in place, by its own count */
    }
    if (bytes != expected) {
        return differ(op, s, op->root, bytes, expected);
    }
    span_t span = span_of(op, bytes, unit);
    uint64_t offset = hd_vector_displacement(&root->receive, s) * root->element + span.at;
    hd_copy(hd_at(work->dst[op->root], offset), (const uint8_t *)work->src[s] + span.at, span.bytes,
            stores_of(op));
    return UCC_OK;
}

static ucc_status_t run_scatter(const hd_op_t *op, const hd_work_t *work, uint32_t d,
                                uint32_t unit) {
    const uint8_t *src = work->src[op->root];
    if (op->type == HD_SCATTER) {
        span_t span = span_of(op, op->bytes, unit);
        hd_copy((uint8_t *)work->dst[d] + span.at, src + d * op->bytes + span.at, span.bytes,
                stores_of(op));
        return UCC_OK;
    }
    const hd_op_t *root = work->op[op->root];
    size_t bytes = work->op[d]->bytes;
    size_t sent = hd_vector_count(&root->send, d) * root->element;
    if (sent != bytes) {
        return differ(op, op->root, d, sent, bytes);
    }
    span_t span = span_of(op, bytes, unit);
    hd_copy((uint8_t *)work->dst[d] + span.at,
            hd_at(src, hd_vector_displacement(&root->send, d) * root->element + span.at),
            span.bytes, stores_of(op));
    return UCC_OK;
}

static ucc_status_t run_reduce_scatter(const hd_op_t *op, const hd_work_t *work, uint32_t d,
                                       uint32_t unit) {
    if (op->exclusive) {
        uint32_t parts = work->slice[0].parts;
        d = parts ? unit / parts : op->n;
        unit = parts ? unit % parts : 0;
        if (d >= op->n) {
            return UCC_OK;
        }
    }
    size_t bytes = op->bytes, before = d * op->bytes;
    if (op->type == HD_REDUCE_SCATTERV) {
        bytes = hd_vector_count(&op->receive, d) * op->element;
        before = hd_vector_displacement(&op->receive, d) * op->element;
    }
    span_t span = span_of(op, bytes, unit);
    return hd_reduce_tree(&op->reducer, op->n, work->src, before + span.at, 1, &work->dst[d],
                          span.at, span.bytes / op->element, stores_of(op));
}

static ucc_status_t run_alltoallv(const hd_op_t *op, const hd_work_t *work, uint32_t d, uint32_t s,
                                  uint32_t part) {
    if (!op->in_place && hd_lane_regime(hd_board_lane(op->board, s, op->k)) != HD_REGIME_DIRECT) {
        return UCC_OK; /* came with its lane: the destination copies it */
    }
    const hd_op_t *to = work->op[d], *from = work->op[s];
    const hd_vector_t *sent = op->in_place ? &from->receive : &from->send;
    size_t element = op->in_place ? from->element : from->send_element;
    size_t bytes = hd_vector_count(sent, d) * element;
    size_t expected = hd_vector_count(&to->receive, s) * to->element;
    if (bytes != expected) {
        return differ(op, s, d, bytes, expected);
    }
    span_t span = span_of(op, bytes, part);
    uint8_t *dst =
        hd_at(work->dst[d], hd_vector_displacement(&to->receive, s) * to->element + span.at);
    uint64_t offset = hd_vector_displacement(sent, d) * element + span.at;
    if (op->in_place) {
        swap(dst, hd_at(work->dst[s], offset), span.bytes);
    } else {
        hd_copy(dst, hd_at(work->src[s], offset), span.bytes, stores_of(op));
    }
    return UCC_OK;
}

static ucc_status_t run_alltoall(const hd_op_t *op, const hd_work_t *work, uint32_t slice,
                                 uint32_t unit) {
    uint32_t parts = work->slice[slice].parts, part = unit % parts;
    uint32_t other = unit / parts + (op->in_place ? slice + 1 : 0);
    if (other >= op->n) {
        return UCC_OK; /* the empty unit of a slice without work */
    }
    if (op->type == HD_ALLTOALLV) {
        return run_alltoallv(op, work, other, slice, part);
    }
    span_t span = span_of(op, op->bytes, part);
    uint8_t *dst = (uint8_t *)work->dst[other] + slice * op->bytes + span.at;
    if (op->in_place) {
        swap(dst, (uint8_t *)work->dst[slice] + other * op->bytes + span.at, span.bytes);
    } else {
        hd_copy(dst, (const uint8_t *)work->src[slice] + other * op->bytes + span.at, span.bytes,
                stores_of(op));
    }
    return UCC_OK;
}

static ucc_status_t run(const hd_op_t *op, const hd_work_t *work, uint32_t slice, uint32_t unit) {
    switch (op->type) {
    case HD_ALLGATHER:
    case HD_ALLGATHERV:
        return run_allgather(op, work, slice, unit);
    case HD_GATHER:
    case HD_GATHERV:
        return run_gather(op, work, slice, unit);
    case HD_SCATTER:
    case HD_SCATTERV:
        return run_scatter(op, work, slice, unit);
    case HD_REDUCE_SCATTER:
    case HD_REDUCE_SCATTERV:
        return run_reduce_scatter(op, work, slice, unit);
    case HD_ALLTOALL:
    case HD_ALLTOALLV:
        return run_alltoall(op, work, slice, unit);
    default:
        return run_windowed(op, work, slice, unit);
    }
}

ucc_status_t hd_work_run(const hd_op_t *op, const hd_work_t *work, uint32_t slice, uint32_t unit) {
    ucc_status_t status = run(op, work, slice, unit);
    if (stores_of(op) == HD_STORES_STREAMING) {
        hd_copy_fence(); /* before anybody is told that the unit is finished */
    }
    return status;
}
