/* internal.h: libheddle_malloc, which is preloaded, and gives a program's large blocks from memory
 * that the other processes of the node can map. It knows nothing of libheddle, which asks it
 * (seam.h), and calls nothing that could allocate.
 *
 *     malloc.c    malloc, free, and their like: large blocks are the heap's, others the C library's
 *     memory.c    the heap: a memfd; and what becomes of it in the child of a fork
 *     blocks.c    which parts of it are blocks: numbers alone, no memory is touched
 *
 * WHAT IS KNOWN OF BLOCKS LIES OUTSIDE THEM, in private memory, for two reasons. Another process
 * that writes into the heap, as it may, spoils data, and never the allocator. And at a fork, the
 * heap is copied while other threads may write into their blocks; the child's copy of these may be
 * torn, as its users' locks see to, but what is known of blocks comes over whole, under the lock.
 */
#ifndef HD_MALLOC_INTERNAL_H
#define HD_MALLOC_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HD_UNIT = 4096,       /* bytes; what is given out is a number of these */
    HD_LARGE = 16 * 1024, /* bytes; a smaller block is of no use to collectives of large data */
    HD_BINS = 192,        /* eight for each doubling */
    HD_WORTH = 256,       /* units; less is not worth giving back to the system */
    HD_KEPT = 16 * 1024   /* units that are free, and may have memory: for whoever comes next */
};

#define HD_NO_BLOCK UINT32_MAX

/* The heap's units are cut into EXTENTS, one after the other, each a block or free. Two free ones
 * never touch. Of an extent, the entries of its first and its last unit say how long it is; those
 * between are zero. */
typedef struct hd_extent {
    uint32_t length;     /* units, with flags: blocks.c */
    uint32_t next, prev; /* first unit, free: others of its bin; HD_NO_BLOCK: none */
    uint32_t worn;       /* likewise: so many of its units may have memory; a guess */
} hd_extent_t;

typedef struct hd_blocks {
    hd_extent_t *extent; /* by unit; zero at first */
    uint32_t n;          /* units */
    uint32_t fresh;      /* units from here on were never part of a block: they are zero */
    uint32_t kept;       /* the sum of all `worn` */
    uint64_t filled[HD_BINS / 64]; /* bins that are not empty */
    uint32_t bin[HD_BINS];         /* the first of their extents */
} hd_blocks_t;

typedef struct hd_run {
    uint32_t begin, end; /* units */
} hd_run_t;

/* extent: n entries, all zero. n < 2^24 + 1. */
void hd_blocks_init(hd_blocks_t *blocks, hd_extent_t *extent, uint32_t n);
/* Where so many units begin (at least 1), a multiple of align, a power of two. HD_NO_BLOCK: there
 * is no room. */
uint32_t hd_blocks_take(hd_blocks_t *blocks, uint32_t units, uint32_t align);
/* Of the block that begins there. 0: none does. */
uint32_t hd_blocks_units(const hd_blocks_t *blocks, uint32_t at);
/* Lengthens the block where it is. False: there is no room. */
bool hd_blocks_lengthen(hd_blocks_t *blocks, uint32_t at, uint32_t units);
/* Cuts the block into two, the first of so many units, which are fewer than it has. */
void hd_blocks_cut(hd_blocks_t *blocks, uint32_t at, uint32_t units);
/* Frees the block. What is returned is free, and its memory is to be given back; mostly nothing. */
hd_run_t hd_blocks_give(hd_blocks_t *blocks, uint32_t at);
/* The next units from there on that are parts of blocks; empty: there are none. */
hd_run_t hd_blocks_used(const hd_blocks_t *blocks, uint32_t from);

/* A block of at least so many bytes, at a multiple of `alignment`, a power of two. NULL: the heap
 * has none. */
void *hd_memory_take(size_t bytes, size_t alignment, bool zeroed);
/* Does it lie in the heap? */
bool hd_memory_has(const void *address);
/* Of a block; anything else that lies in the heap ends the program. */
size_t hd_memory_bytes(void *block);
/* Makes the block longer or shorter where it is. False: it stays as it is. */
bool hd_memory_resize(void *block, size_t bytes);
void hd_memory_give(void *block);

#endif
