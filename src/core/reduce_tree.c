/*
 * The canonical tree over any number of operands, window by window.
 *
 * A node of level l stands for up to 8^l consecutive operands; level 0 are the operands themselves.
 * Nodes are computed depth first, so a window needs 8 partial results per inner level, whatever n
 * is. Windows are small enough for all partial results to stay in the first cache level. A node
 * with a single child is that child: nothing is copied, and a pointer to it is handed up.
 */
#include <string.h>

#include "core/dtype.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/reduce.h"

enum {
    TREE_SCRATCH = 32 * 1024, /* partial results of a window, all levels */
    COPY_WINDOW = 4 * 1024    /* a result that is copied to further destinations while it is hot */
};

typedef struct walk {
    const hd_reducer_t *reducer;
    const void *const *src;
    size_t offset; /* of the window in every source, bytes */
    size_t count;  /* elements of the window */
    uint32_t n;    /* operands in all */
    char *scratch; /* slot (level - 1) * 8 + child: partial results of nodes of that level */
    size_t slot_bytes;
    ucc_status_t status;
} walk_t;

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

static void copy_result(uint32_t m, void *const *dst, size_t offset, size_t bytes) {
    for (uint32_t j = 1; j < m; j++) {
        if (dst[j] != dst[0]) {
            memcpy((char *)dst[j] + offset, (const char *)dst[0] + offset, bytes);
        }
    }
}

/* n <= 8: no partial results. One destination needs no windows either. */
static ucc_status_t reduce_flat(const hd_reducer_t *r, uint32_t n, const void *const *src,
                                size_t src_offset, uint32_t m, void *const *dst, size_t dst_offset,
                                size_t count) {
    size_t window = m == 1 ? count : COPY_WINDOW / r->element_size;
    const void *at[HD_REDUCE_BLOCK];
    ucc_status_t status;

    window = window == 0 ? 1 : window;
    for (size_t done = 0; done < count; done += window) {
        size_t offset = done * r->element_size;
        size_t part = min_size(window, count - done);

        for (uint32_t i = 0; i < n; i++) {
            at[i] = (const char *)src[i] + src_offset + offset;
        }
        status = hd_reduce_block(r, n, at, (char *)dst[0] + dst_offset + offset, part, true);
        if (status != UCC_OK) {
            return status;
        }
        copy_result(m, dst, dst_offset + offset, part * r->element_size);
    }
    return UCC_OK;
}

/* w holds what all windows share. */
static ucc_status_t reduce_windows(walk_t *w, uint32_t levels, size_t src_offset, uint32_t m,
                                   void *const *dst, size_t dst_offset, size_t count) {
    size_t element_size = w->reducer->element_size;
    const void *results[HD_REDUCE_BLOCK];
    size_t window = w->slot_bytes / element_size;

    for (size_t done = 0; done < count; done += window) {
        size_t offset = done * element_size;
        uint32_t k;

        w->offset = src_offset + offset;
        w->count = min_size(window, count - done);
        k = walk_children(w, levels, 0, results);
        if (w->status == UCC_OK) {
            w->status = hd_reduce_block(w->reducer, k, results,
                                        (char *)dst[0] + dst_offset + offset, w->count, true);
        }
        if (w->status != UCC_OK) {
            return w->status;
        }
        copy_result(m, dst, dst_offset + offset, w->count * element_size);
    }
    return UCC_OK;
}

/* n > 8 */
static ucc_status_t reduce_deep(const hd_reducer_t *r, uint32_t n, const void *const *src,
                                size_t src_offset, uint32_t m, void *const *dst, size_t dst_offset,
                                size_t count) {
    _Alignas(64) char stack[TREE_SCRATCH];
    walk_t w = {.reducer = r, .src = src, .n = n, .scratch = stack, .status = UCC_OK};
    char *heap = NULL;
    uint32_t levels = 2;
    uint32_t slots;

    while (UINT64_C(1) << (3 * levels) < n) {
        levels++;
    }
    slots = (levels - 1) * HD_REDUCE_BLOCK;
    w.slot_bytes = TREE_SCRATCH / slots / 64 * 64;
    if (w.slot_bytes < r->element_size) { /* large elements of a generic type */
        w.slot_bytes = (r->element_size + 63) / 64 * 64;
        w.scratch = heap = hd_alloc(64, slots * w.slot_bytes);
        if (heap == NULL) {
            hd_error("no memory for partial results of %zu bytes", r->element_size);
            return UCC_ERR_NO_MEMORY;
        }
    }
    reduce_windows(&w, levels, src_offset, m, dst, dst_offset, count);
    hd_free(heap);
    return w.status;
}

ucc_status_t hd_reduce_tree(const hd_reducer_t *r, uint32_t n, const void *const *src,
                            size_t src_offset, uint32_t m, void *const *dst, size_t dst_offset,
                            size_t count) {
    if (m == 0 || count == 0) {
        return UCC_OK;
    }
    if (n <= HD_REDUCE_BLOCK) {
        return reduce_flat(r, n, src, src_offset, m, dst, dst_offset, count);
    }
    return reduce_deep(r, n, src, src_offset, m, dst, dst_offset, count);
}
