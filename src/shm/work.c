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
    switch (op->call.type) {
    case HD_ALLGATHER:
    case HD_ALLGATHERV:
    case HD_ALLTOALL:
    case HD_GATHER:
    case HD_GATHERV:
        return op->call.bytes * op->place.n;
    case HD_ALLTOALLV:
        return op->call.total;
    default:
        return op->call.bytes;
    }
}

/* Results that would not stay in their readers' caches go past them. */
static hd_stores_t stores_of(const hd_op_t *op) {
    return received(op) >= op->group->streaming_min ? HD_STORES_STREAMING : HD_STORES_PLAIN;
}

/* Streams of memory that one byte of a window touches. */
static size_t streams(const hd_op_t *op) {
    switch (op->call.type) {
    case HD_ALLREDUCE:
    case HD_SCAN:
    case HD_EXSCAN:
        return 2 * (size_t)op->place.n;
    case HD_BCAST:
    case HD_MCAST:
    case HD_REDUCE:
    case HD_REDUCE_SCATTER:
    case HD_REDUCE_SCATTERV:
    case HD_ALLGATHER:
    case HD_ALLGATHERV:
        return (size_t)op->place.n + 1;
    default:
        return 2;
    }
}

/* Bytes of one unit's window: whole elements, whole lines where elements fit into lines. */
static size_t window(const hd_op_t *op, size_t all) {
    /* only reductions agree on the element; blocks of data may be cut anywhere */
    size_t grain =
        is_reduction(op->call.type) && HD_LINE % op->call.element != 0 ? op->call.element : HD_LINE;
    size_t bytes = op->group->chunk / streams(op);
    size_t share = is_windowed(op->call.type) ? all / op->place.n : all;
    /* so that who is done first can take from who is not */
    if (share > UNSHARED) {
        share /= op->call.type == HD_SCATTER ? 4 : 2;
    } else if (share > UNSHARED_PULL && op->call.type == HD_SCATTER) {
        share /= 2;
    }
    share += grain - 1; /* a remainder is not worth a unit of its own */
    if (!hd_work_is_vector(op->call.type) && bytes > share) {
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
    if (op->call.exclusive) {
        return 1; /* one claim word: one chunk of the user's operation at a time */
    }
    return is_windowed(op->call.type) && op->place.n > MAX_SHARES ? MAX_SHARES : op->place.n;
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
    if (!hd_work_is_vector(op->call.type)) {
        return op->call.bytes;
    }
    return op->call.type == HD_ALLTOALLV && !op->call.in_place
               ? largest(&op->call.send, op->place.n, op->call.send_element)
               : largest(&op->call.receive, op->place.n, op->call.element);
}

void hd_work_layout(const hd_op_t *op, hd_slice_t *slice) {
    uint32_t slices = hd_work_slices(op);
    size_t units = 1;
    slice->batch = 1;
    slice->parts = 1;
    if (is_windowed(op->call.type)) {
        if (op->place.me < slices) {
            size_t all = windows(op, op->call.bytes);
            units = all * (op->place.me + 1) / slices - all * op->place.me / slices;
        }
    } else if (op->call.type == HD_ALLTOALL || op->call.type == HD_ALLTOALLV) {
        size_t block = largest_block(op);
        size_t parts = windows(op, block);
        slice->parts = (uint32_t)(parts ? parts : 1);
        if (slice->parts == 1) {
            slice->batch = (uint32_t)(SMALL_BATCH / (block + 64) + 1);
        }
        units = (size_t)slice->parts *
                (op->call.in_place ? op->place.n - op->place.me - 1 : op->place.n);
    } else if (op->call.exclusive) { /* a reduce_scatter(v): all blocks in slice 0 */
        slice->parts = (uint32_t)windows(op, largest_block(op));
        units = (size_t)slice->parts * op->place.n;
    } else {
        units = windows(op, op->call.bytes); /* v types: op->call.bytes is my own block's size */
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

static ucc_status_t run_allreduce(const hd_op_t *op, const hd_work_t *work, span_t span) {
    if (stores_of(op) == HD_STORES_STREAMING) {
        return hd_reduce_tree(&op->call.reducer, op->place.n, work->src, span.at, op->place.n,
                              work->dst, span.at, span.bytes / op->call.element,
                              HD_STORES_STREAMING);
    }
    ucc_status_t status = UCC_OK;
    size_t step = op->call.element < PUSH_WINDOW ? PUSH_WINDOW - PUSH_WINDOW % op->call.element
                                                 : op->call.element;
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
    if (op->call.type == HD_SCAN) {
        hd_copy((uint8_t *)work->dst[0] + at, source[0], bytes, HD_STORES_PLAIN);
    }
    for (uint32_t i = 1; i < op->place.n && status == UCC_OK; i++) {
        uint8_t *dst = (uint8_t *)work->dst[i] + at;
        uint8_t *to = op->call.type == HD_SCAN ? dst : held[i % 2];
        source[1] = (const uint8_t *)work->src[i] + at;
        if (op->call.type == HD_SCAN || i + 1 < op->place.n) {
            status =
                hd_reduce_block(&op->call.reducer, 2, source, to, bytes / op->call.element, true);
        }
        if (op->call.type == HD_EXSCAN) {
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
    size_t step = op->call.element < PUSH_WINDOW ? PUSH_WINDOW - PUSH_WINDOW % op->call.element
                                                 : op->call.element;
    ucc_status_t status = UCC_OK;
    if (op->call.element > PUSH_WINDOW &&
        op->call.type == HD_EXSCAN) { /* a user's large elements */
        heap = hd_alloc(HD_LINE, 2 * op->call.element);
        if (!heap) {
            hd_error("%s: no memory for prefixes of %zu bytes", hd_type_name(op->call.type),
                     op->call.element);
            return UCC_ERR_NO_MEMORY;
        }
        held[0] = heap;
        held[1] = heap + op->call.element;
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
    size_t all = windows(op, op->call.bytes);
    size_t first = all * slice / hd_work_slices(op);
    span_t span = span_of(op, op->call.bytes, first + unit);
    if (!span.bytes || first + unit >= all * (slice + 1) / hd_work_slices(op)) {
        return UCC_OK;
    }
    size_t count = span.bytes / op->call.element;
    if (op->call.type == HD_REDUCE) {
        return hd_reduce_tree(&op->call.reducer, op->place.n, work->src, span.at, 1,
                              &work->dst[op->call.root], span.at, count, stores_of(op));
    }
    if (op->call.type == HD_ALLREDUCE) {
        return run_allreduce(op, work, span);
    }
    if (op->call.type == HD_SCAN || op->call.type == HD_EXSCAN) {
        return run_scan(op, work, span);
    }
    hd_copy_to_many(op->place.n, work->dst, span.at,
                    (const uint8_t *)work->src[op->call.root] + span.at, span.bytes, stores_of(op));
    return UCC_OK;
}

static ucc_status_t differ(const hd_op_t *op, uint32_t from, uint32_t to, size_t sent,
                           size_t received) {
    hd_op_say_sizes(op, from, to, sent, received);
    return UCC_ERR_INVALID_PARAM;
}

static ucc_status_t run_allgather(const hd_op_t *op, const hd_work_t *work, uint32_t s,
                                  uint32_t unit) {
    if (op->call.type == HD_ALLGATHER) {
        span_t span = span_of(op, op->call.bytes, unit);
        hd_copy_to_many(op->place.n, work->dst, s * op->call.bytes + span.at,
                        (const uint8_t *)work->src[s] + span.at, span.bytes, stores_of(op));
        return UCC_OK;
    }
    size_t bytes = work->call[s]->bytes;
    span_t span = span_of(op, bytes, unit);
    for (uint32_t d = 0; d < op->place.n; d++) {
        const hd_call_t *to = work->call[d];
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
    if (op->call.type == HD_GATHER) {
        span_t span = span_of(op, op->call.bytes, unit);
        hd_copy((uint8_t *)work->dst[op->call.root] + s * op->call.bytes + span.at,
                (const uint8_t *)work->src[s] + span.at, span.bytes, stores_of(op));
        return UCC_OK;
    }
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
        return differ(op, s, op->call.root, bytes, expected);
    }
    span_t span = span_of(op, bytes, unit);
    uint64_t offset = hd_vector_displacement(&root->receive, s) * root->element + span.at;
    hd_copy(hd_at(work->dst[op->call.root], offset), (const uint8_t *)work->src[s] + span.at,
            span.bytes, stores_of(op));
    return UCC_OK;
}

static ucc_status_t run_scatter(const hd_op_t *op, const hd_work_t *work, uint32_t d,
                                uint32_t unit) {
    const uint8_t *src = work->src[op->call.root];
    if (op->call.type == HD_SCATTER) {
        span_t span = span_of(op, op->call.bytes, unit);
        hd_copy((uint8_t *)work->dst[d] + span.at, src + d * op->call.bytes + span.at, span.bytes,
                stores_of(op));
        return UCC_OK;
    }
    const hd_call_t *root = work->call[op->call.root];
    size_t bytes = work->call[d]->bytes;
    size_t sent = hd_vector_count(&root->send, d) * root->element;
    if (sent != bytes) {
        return differ(op, op->call.root, d, sent, bytes);
    }
    span_t span = span_of(op, bytes, unit);
    hd_copy((uint8_t *)work->dst[d] + span.at,
            hd_at(src, hd_vector_displacement(&root->send, d) * root->element + span.at),
            span.bytes, stores_of(op));
    return UCC_OK;
}

static ucc_status_t run_reduce_scatter(const hd_op_t *op, const hd_work_t *work, uint32_t d,
                                       uint32_t unit) {
    if (op->call.exclusive) {
        uint32_t parts = work->slice[0].parts;
        d = parts ? unit / parts : op->place.n;
        unit = parts ? unit % parts : 0;
        if (d >= op->place.n) {
            return UCC_OK;
        }
    }
    size_t bytes = op->call.bytes, before = d * op->call.bytes;
    if (op->call.type == HD_REDUCE_SCATTERV) {
        bytes = hd_vector_count(&op->call.receive, d) * op->call.element;
        before = hd_vector_displacement(&op->call.receive, d) * op->call.element;
    }
    span_t span = span_of(op, bytes, unit);
    return hd_reduce_tree(&op->call.reducer, op->place.n, work->src, before + span.at, 1,
                          &work->dst[d], span.at, span.bytes / op->call.element, stores_of(op));
}

static ucc_status_t run_alltoallv(const hd_op_t *op, const hd_work_t *work, uint32_t d, uint32_t s,
                                  uint32_t part) {
    if (!op->call.in_place &&
        hd_lane_regime(hd_board_lane(op->place.board, s, op->place.k)) != HD_REGIME_DIRECT) {
        return UCC_OK; /* came with its lane: the destination copies it */
    }
    const hd_call_t *to = work->call[d], *from = work->call[s];
    const hd_vector_t *sent = op->call.in_place ? &from->receive : &from->send;
    size_t element = op->call.in_place ? from->element : from->send_element;
    size_t bytes = hd_vector_count(sent, d) * element;
    size_t expected = hd_vector_count(&to->receive, s) * to->element;
    if (bytes != expected) {
        return differ(op, s, d, bytes, expected);
    }
    span_t span = span_of(op, bytes, part);
    uint8_t *dst =
        hd_at(work->dst[d], hd_vector_displacement(&to->receive, s) * to->element + span.at);
    uint64_t offset = hd_vector_displacement(sent, d) * element + span.at;
    if (op->call.in_place) {
        swap(dst, hd_at(work->dst[s], offset), span.bytes);
    } else {
        hd_copy(dst, hd_at(work->src[s], offset), span.bytes, stores_of(op));
    }
    return UCC_OK;
}

static ucc_status_t run_alltoall(const hd_op_t *op, const hd_work_t *work, uint32_t slice,
                                 uint32_t unit) {
    uint32_t parts = work->slice[slice].parts, part = unit % parts;
    uint32_t other = unit / parts + (op->call.in_place ? slice + 1 : 0);
    if (other >= op->place.n) {
        return UCC_OK; /* the empty unit of a slice without work */
    }
    if (op->call.type == HD_ALLTOALLV) {
        return run_alltoallv(op, work, other, slice, part);
    }
    span_t span = span_of(op, op->call.bytes, part);
    uint8_t *dst = (uint8_t *)work->dst[other] + slice * op->call.bytes + span.at;
    if (op->call.in_place) {
        swap(dst, (uint8_t *)work->dst[slice] + other * op->call.bytes + span.at, span.bytes);
    } else {
        hd_copy(dst, (const uint8_t *)work->src[slice] + other * op->call.bytes + span.at,
                span.bytes, stores_of(op));
    }
    return UCC_OK;
}

static ucc_status_t run(const hd_op_t *op, const hd_work_t *work, uint32_t slice, uint32_t unit) {
    switch (op->call.type) {
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
