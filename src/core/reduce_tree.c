/*
 * The canonical tree over any number of operands, window by window.
 *
 * A node of level l stands for up to 8^l consecutive operands; level 0 are the operands themselves.
 * Nodes are computed depth first, so a window needs 8 partial results per inner level, whatever n
 * is. Windows are small enough for all partial results to stay in the first cache level. A node
 * with a single child is that child: nothing is copied, and a pointer to it is handed up.
 *
 * Destinations are written after all sources of their window are read, streaming ones from scratch:
 * a destination may be a source.
 */
#include <string.h>

#include "core/copy.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/reduce.h"

enum {
    TREE_SCRATCH = 32 * 1024, /* partial results of a window, all levels */
    DIRECT_DESTINATIONS = 4,  /* at most, for results that stream from registers */
    PLAIN_WINDOW = 8 * 1024   /* of results for several destinations; they are copied while hot */
};

typedef struct walk {
    const hd_reducer_t *reducer;
    const void *const *src;
    size_t offset; /* of the window in every source, bytes */
    size_t count;  /* elements of the window */
    uint32_t n;    /* operands in all */
    char *scratch; /* slot (level - 1) * 8 + child: partial results of nodes of that level */
    size_t slot_bytes;
    size_t window_bytes; /* at most, unless an element is larger */
    ucc_status_t status;
} walk_t;

/* The destinations. The root's results go to scratch, a window behind the last line of the window
 * before it, and from there to all: copying to lines that another core holds takes less time than
 * the stores of a kernel. Straight to the first one if it is the only one and stores are plain, or
 * if elements are too large for scratch. */
typedef struct result {
    void *const *dst;
    size_t offset; /* in every destination, bytes */
    size_t bytes;  /* of all windows */
    char *scratch; /* NULL: straight to the first one */
    uint32_t m;
    hd_stores_t stores;
} result_t;

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

static const void *walk_node(walk_t *w, uint32_t level, uint64_t first, void *out);

/* Results of the children of the node of that level that begins at operand `first`; returns their
 * number. Child results may be operands themselves. */
static uint32_t walk_children(walk_t *w, uint32_t level, uint64_t first, const void **results) {
    uint64_t span = UINT64_C(1) << (3 * (level - 1));
    uint32_t k = 0;

    for (uint64_t at = first; k < HD_REDUCE_BLOCK && at < w->n; at += span) {
        char *slot = NULL;

        if (level > 1) {
            slot = w->scratch + ((level - 2) * HD_REDUCE_BLOCK + k) * w->slot_bytes;
        }
        results[k++] = walk_node(w, level - 1, at, slot);
    }
    return k;
}

/* Where the result of the node lies: out, or an operand. */
static const void *walk_node(walk_t *w, uint32_t level, uint64_t first, void *out) {
    const void *results[HD_REDUCE_BLOCK];
    uint32_t k;

    if (level == 0) {
        return (const char *)w->src[first] + w->offset;
    }
    k = walk_children(w, level, first, results);
    if (k == 1) {
        return results[0];
    }
    if (w->status == UCC_OK) {
        w->status = hd_reduce_block(w->reducer, k, results, out, w->count, false);
    }
    return out;
}

/* ---- results ---- */

static char *destination(const result_t *out, uint32_t j, size_t at) {
    return (char *)out->dst[j] + out->offset + at;
}

/* Where the root's result of the window that begins at byte `begin` is to be written. */
static void *result_place(const result_t *out, size_t begin) {
    return out->scratch != NULL ? out->scratch + HD_COPY_LINE : destination(out, 0, begin);
}

static void result_stream(const result_t *out, size_t begin, size_t end) {
    char *window = out->scratch + HD_COPY_LINE;

    for (uint32_t j = 0; j < out->m; j++) {
        hd_copy_stream_window(destination(out, j, 0), window, begin, end, end == out->bytes);
    }
    memmove(out->scratch, window + (end - begin) - HD_COPY_LINE, HD_COPY_LINE);
}

/* The window is complete, and its sources are read. */
static void result_finish(const result_t *out, size_t begin, size_t end) {
    if (out->stores == HD_STORES_STREAMING) {
        result_stream(out, begin, end);
        return;
    }
    for (uint32_t j = 0; j < out->m; j++) { /* one of them may be where the result is */
        hd_copy(destination(out, j, begin), result_place(out, begin), end - begin, HD_STORES_PLAIN);
    }
}

/* ---- windows ---- */

/* Elements of the window that begins at byte `begin`. The first ends at a line of the destination,
 * so that all others begin at one. */
static size_t window_count(const walk_t *w, const result_t *out, size_t begin) {
    size_t element_size = w->reducer->element_size;
    size_t bytes = out->bytes - begin;

    if (bytes > w->window_bytes) {
        size_t gap = hd_copy_gap(destination(out, 0, begin));
        size_t beyond = gap == 0 ? 0 : HD_COPY_LINE - gap;

        bytes = w->window_bytes - (beyond % element_size == 0 ? beyond : 0);
    }
    return bytes < element_size ? 1 : bytes / element_size;
}

/* Only for few operands: more would ask for more lines than a core can wait for. */
static void prefetch_operands(const walk_t *w, size_t offset, size_t bytes) {
    for (uint32_t i = 0; i < w->n && w->n <= HD_REDUCE_BLOCK; i++) {
        hd_copy_prefetch((const char *)w->src[i] + offset, bytes);
    }
}

static ucc_status_t reduce_windows(walk_t *w, uint32_t levels, size_t src_offset,
                                   const result_t *out) {
    const void *results[HD_REDUCE_BLOCK];

    for (size_t begin = 0, end; begin < out->bytes; begin = end) {
        uint32_t k;

        w->offset = src_offset + begin;
        w->count = window_count(w, out, begin);
        end = begin + w->count * w->reducer->element_size;
        k = walk_children(w, levels, 0, results);
        if (w->status == UCC_OK) {
            w->status =
                hd_reduce_block(w->reducer, k, results, result_place(out, begin), w->count, true);
        }
        if (w->status != UCC_OK) {
            return w->status;
        }
        if (out->stores == HD_STORES_STREAMING) {
            prefetch_operands(w, src_offset + end, out->bytes - end);
        }
        result_finish(out, begin, end);
    }
    return UCC_OK;
}

/* Bytes [begin, end) with plain stores. */
static void reduce_edge(const walk_t *w, size_t src_offset, const result_t *out, size_t begin,
                        size_t end) {
    walk_t edge_walk = *w;
    result_t edge = *out;

    edge.offset += begin;
    edge.bytes = end - begin;
    edge.stores = HD_STORES_PLAIN;
    reduce_windows(&edge_walk, 1, src_offset + begin, &edge); /* only user types can fail */
}

/* The whole lines by the streaming kernel, what lies before and behind by plain stores. */
static void reduce_lines(const walk_t *w, size_t src_offset, const result_t *out) {
    size_t head = min_size(hd_copy_gap(destination(out, 0, 0)), out->bytes);
    size_t body = (out->bytes - head) / HD_REDUCE_TURN * HD_REDUCE_TURN;
    const void *src[HD_REDUCE_BLOCK];
    void *dst[DIRECT_DESTINATIONS];

    for (uint32_t i = 0; i < w->n; i++) {
        src[i] = (const char *)w->src[i] + src_offset + head;
    }
    for (uint32_t j = 0; j < out->m; j++) {
        dst[j] = destination(out, j, head);
    }
    reduce_edge(w, src_offset, out, 0, head);
    w->reducer->stream(w->n, src, out->m, dst, body, w->reducer->n);
    reduce_edge(w, src_offset, out, head + body, out->bytes);
}

/* All destinations reach their lines after the same number of whole elements. */
static bool has_lines(const walk_t *w, const result_t *out) {
    size_t gap = hd_copy_gap(destination(out, 0, 0));

    if (w->reducer->stream == NULL || w->n > HD_REDUCE_BLOCK || out->m > DIRECT_DESTINATIONS ||
        gap % w->reducer->element_size != 0) {
        return false;
    }
    for (uint32_t j = 1; j < out->m; j++) {
        if (hd_copy_gap(destination(out, j, 0)) != gap) {
            return false;
        }
    }
    return true;
}

/* More than 8 operands: partial results need memory. */
static ucc_status_t reduce_deep(walk_t *w, size_t src_offset, const result_t *out) {
    _Alignas(HD_COPY_LINE) char stack[TREE_SCRATCH];
    size_t element_size = w->reducer->element_size;
    char *heap = NULL;
    uint32_t levels = 2;
    uint32_t slots;

    while (UINT64_C(1) << (3 * levels) < w->n) {
        levels++;
    }
    slots = (levels - 1) * HD_REDUCE_BLOCK;
    w->scratch = stack;
    w->slot_bytes = TREE_SCRATCH / slots / HD_COPY_LINE * HD_COPY_LINE;
    if (w->slot_bytes < element_size) { /* large elements of a generic type */
        w->slot_bytes = (element_size + HD_COPY_LINE - 1) / HD_COPY_LINE * HD_COPY_LINE;
        w->scratch = heap = hd_alloc(HD_COPY_LINE, slots * w->slot_bytes);
        if (heap == NULL) {
            hd_error("no memory for partial results of %zu bytes", element_size);
            return UCC_ERR_NO_MEMORY;
        }
    }
    w->window_bytes = min_size(w->window_bytes, w->slot_bytes);
    reduce_windows(w, levels, src_offset, out);
    hd_free(heap);
    return w->status;
}

/* In place, the lines have just been read: plain stores need not read them again, while streaming
 * stores have to throw them out first and take two to four times as long. Collectives are in place
 * everywhere or nowhere, so the first destination tells. */
static bool in_place(uint32_t n, const void *const *src, size_t src_offset, const void *dst) {
    for (uint32_t i = 0; i < n; i++) {
        if ((const char *)src[i] + src_offset == dst) {
            return true;
        }
    }
    return false;
}

/* Streaming has to be of use, and elements have to fit into scratch. */
static hd_stores_t choose_stores(const walk_t *w, size_t src_offset, const result_t *out) {
    return out->stores == HD_STORES_PLAIN || w->reducer->element_size > HD_COPY_WINDOW ||
                   in_place(w->n, w->src, src_offset, destination(out, 0, 0))
               ? HD_STORES_PLAIN
               : HD_STORES_STREAMING;
}

ucc_status_t hd_reduce_tree(const hd_reducer_t *r, uint32_t n, const void *const *src,
                            size_t src_offset, uint32_t m, void *const *dst, size_t dst_offset,
                            size_t count, hd_stores_t stores) {
    _Alignas(HD_COPY_LINE) char scratch[HD_COPY_LINE + PLAIN_WINDOW];
    walk_t w = {.reducer = r, .src = src, .n = n, .window_bytes = SIZE_MAX, .status = UCC_OK};
    result_t out = {dst, dst_offset, count * r->element_size, NULL, m, stores};

    if (m == 0 || count == 0) {
        return UCC_OK;
    }
    if (n == 1) {
        hd_copy_to_many(m, dst, dst_offset, (const char *)src[0] + src_offset, out.bytes, stores);
        return UCC_OK;
    }
    out.stores = choose_stores(&w, src_offset, &out);
    if (out.stores == HD_STORES_STREAMING || m > 1) {
        w.window_bytes = out.stores == HD_STORES_STREAMING ? HD_COPY_WINDOW : PLAIN_WINDOW;
        out.scratch = r->element_size <= w.window_bytes ? scratch : NULL;
    }
    if (out.stores == HD_STORES_STREAMING && has_lines(&w, &out)) {
        reduce_lines(&w, src_offset, &out);
        return UCC_OK;
    }
    return n <= HD_REDUCE_BLOCK ? reduce_windows(&w, 1, src_offset, &out)
                                : reduce_deep(&w, src_offset, &out);
}
