/* heap.h: memory for users' buffers that other processes of the node can map.
 *
 *   HEAP    a segment of this process, mapped once for good. It has a name, drawn at random, which
 *           no other heap has or will have. Blocks of it are given out and come back; what becomes
 *           of the memory between two uses is nobody's business but this file's: a heap stays
 *           where it is until the process ends, so an offset always means the same byte.
 *   VIEW    a heap of another process, as it is mapped here: once, whoever uses it. It stays valid
 *           memory, whatever its owner does, until nobody here uses it any more. A block of
 *           another process's addresses (xpmem.h) is one, too, but vanishes with its owner.
 *
 * Whoever has a connection with this process (node.h) may fetch any of its heaps by its name; the
 * connection says that it is a process of the same user and job.
 *
 * In the child of a fork, heaps are the parent's: their memory is there, and the same as the
 * parent's, but they are not looked up, and what is freed there stays as it is. The child's own
 * blocks come from heaps of its own.
 */
#ifndef HD_NODE_HEAP_H
#define HD_NODE_HEAP_H

#include "node/segment.h"
#include "node/xpmem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { HD_HEAPS = 64 }; /* of a process, with those that it inherited */

#define HD_HEAP_NONE UINT32_MAX

/* Where the process's heaps lie: what a look-up needs. Entries are written once, before `n` counts
 * them, and those before `first` are inherited. */
typedef struct hd_heaps {
    _Atomic uint32_t n;
    _Atomic uint32_t first;
    struct {
        uintptr_t base;
        size_t bytes;
    } at[HD_HEAPS];
} hd_heaps_t;

extern hd_heaps_t hd_heaps;

/* The heap of this process that has this address, and where it is there. HD_HEAP_NONE: none has.
 * Takes no lock: one comparison per heap, of which a process has one, mostly. */
static inline uint32_t hd_heap_find(const void *address, size_t *offset) {
    /* acquire: pairs with who adds a heap; relaxed: it is written in a child only, alone */
    uint32_t n = atomic_load_explicit(&hd_heaps.n, memory_order_acquire);
    uint32_t i = atomic_load_explicit(&hd_heaps.first, memory_order_relaxed);
    for (; i < n; i++) {
        *offset = (uintptr_t)address - hd_heaps.at[i].base;
        if (*offset < hd_heaps.at[i].bytes) {
            return i;
        }
    }
    return HD_HEAP_NONE;
}

/* A block of so many bytes (at least 1), aligned to a pair of lines; a large one to pages, or to
 * huge pages. What is in it is not said. Its pages are placed by whoever touches them first. NULL:
 * no heap has room, and no other one can be had (logged at level info, once). */
void *hd_heap_alloc(size_t bytes);
/* Gives the block back; another process's, which is mapped here, stays as it is (logged). False: it
 * is none of a heap's, and stays as it is. */
bool hd_heap_free(void *block);
/* Does this address lie in a heap of this process, if an inherited one? */
bool hd_heap_has(const void *address);

/* Counts the heap of libheddle_malloc, if that is preloaded, or of libheddle_shmem
 * (malloc/seam.h): its blocks are found from then on, and the other processes may fetch it;
 * hd_heap_alloc and hd_heap_free pass over it. Asks once in a process. */
void hd_heap_adopt(void);

/* Of a heap of this process. */
void hd_heap_name(uint32_t heap, uint64_t name[2]);
/* The segment of this process's heap of that name; its descriptor stays the heap's. False: there
 * is none. */
bool hd_heap_segment(const uint64_t name[2], hd_node_segment_t *segment);

typedef struct hd_heap_view {
    uint8_t *base; /* NULL: inherited, and not there */
    size_t bytes;
    int64_t permit; /* of XPMEM; 0: it is a heap's */
    uint64_t name[2];
    uint32_t uses; /* under the heaps' lock */
    struct hd_heap_view *next;
} hd_heap_view_t;

/* Of that heap, once more; NULL: it is not mapped here. */
hd_heap_view_t *hd_heap_view_find(const uint64_t name[2]);
/* Maps the segment of a heap of that name, or finds it mapped. NULL: it can't be mapped (logged).
 * The segment stays the caller's. */
hd_heap_view_t *hd_heap_view_map(const uint64_t name[2], const hd_node_segment_t *segment);
/* Attaches the block of that name, or finds it attached; NULL: *why it can't be, a constant. */
hd_heap_view_t *hd_heap_view_attach(const uint64_t name[2], size_t bytes, const char **why);
/* As many as those before; the last one unmaps it. */
void hd_heap_view_drop(hd_heap_view_t *view);

#endif
