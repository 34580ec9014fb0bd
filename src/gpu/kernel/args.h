/* args.h: what a launch hands to a kernel: one struct, read by the device, filled by launch.c.
 *
 * Device and host compile it, so nothing but fixed widths; addresses are 64-bit numbers. A struct
 * is a head and then words: addresses and rows, whose meaning the head's form says. Words that do
 * not fit lie in memory of the device (table), and then the struct's own are unused.
 */
#ifndef HD_GPU_KERNEL_ARGS_H
#define HD_GPU_KERNEL_ARGS_H

#include <stdint.h>

#if defined(__cplusplus)
#define HD_GPU_ASSERT(_that, _why) static_assert(_that, _why)
#else
#define HD_GPU_ASSERT(_that, _why) _Static_assert(_that, _why)
#endif

enum {
    HD_GPU_THREADS = 256,   /* of a block, at most */
    HD_GPU_VECTOR = 16,     /* bytes that a thread reads and writes at once, where it can */
    HD_GPU_BLOCK = 8,       /* operands of a canonical block: HD_REDUCE_BLOCK */
    HD_GPU_UPPER = 3,       /* levels above the first */
    HD_GPU_OPERANDS = 4096, /* 8^(1 + HD_GPU_UPPER): of a reduction, at most */
    HD_GPU_FEW = 16,        /* words of a launch for 2, 4 or 8 operands */
    HD_GPU_WORDS = 128,     /* of others */
    HD_GPU_ROW_WORDS = 4,   /* of a row that is moved */
    HD_GPU_PART_WORDS = 3   /* of a part that is reduced */
};

/* Where a reduction's results go. */
enum {
    HD_GPU_TO_ALL, /* every destination gets all elements */
    HD_GPU_BLOCKS, /* destination p gets block p: part p of the grid (y) */
    /* part p is described by words: destination, first element in the sources, elements */
    HD_GPU_PARTS
};

/* A reduction, and a scan. Scalars: what the kernel's type is; a complex number's sum is made of
 * two. word: k sources, then m destinations, or the parts' words. Of a scan: k sources, k
 * destinations. */
typedef struct hd_gpu_reduce {
    uint64_t table;        /* of words; 0: they follow */
    uint64_t host_table;   /* the same words in memory of the host, readable as it launches */
    uint64_t first, count; /* scalars: of the sources; within each block; unused with PARTS */
    uint64_t block;        /* scalars of a block */
    uint32_t k, m;
    uint32_t n; /* operands in all, by which an average is divided; 0: not yet */
    uint8_t form;
    uint8_t agree;   /* all sources, and TO_ALL's destinations, are the same modulo 16 */
    uint8_t natural; /* they are aligned as the type wants it */
    uint8_t flags;
} hd_gpu_reduce_t;

enum { HD_GPU_STREAMING = 1, HD_GPU_EXCLUSIVE = 2 };

typedef struct hd_gpu_reduce_few {
    hd_gpu_reduce_t head;
    uint64_t word[HD_GPU_FEW];
} hd_gpu_reduce_few_t;

typedef struct hd_gpu_reduce_args {
    hd_gpu_reduce_t head;
    uint64_t word[HD_GPU_WORDS];
} hd_gpu_reduce_args_t;

/* Moves. Every block of bytes is cut into chunks, and each is moved by a team of threads. Block b
 * of a source begins at b * src_step, and b of a destination at b * dst_step. */
typedef struct hd_gpu_move {
    uint64_t table, host_table;  /* as above */
    uint64_t items;              /* chunks in all */
    uint64_t bytes;              /* of each block; unused by rows */
    uint64_t src_step, dst_step; /* bytes */
    uint32_t chunk;              /* bytes; a multiple of HD_GPU_VECTOR */
    uint32_t chunks;             /* of a block; unused by rows */
    uint32_t k, m;               /* sources, destinations; or rows */
    uint32_t team;               /* threads: a power of 2, up to HD_GPU_THREADS */
    uint32_t unit; /* bytes, 1 to 16: where all is the same modulo this; unused by rows */
    uint32_t flags;
    uint32_t reserved;
} hd_gpu_move_t;

/* word: k sources, then m destinations; of swaps, k buffers; or k rows. */
typedef struct hd_gpu_move_args {
    hd_gpu_move_t head;
    uint64_t word[HD_GPU_WORDS];
} hd_gpu_move_args_t;

/* The words of a row. Rows of zero bytes have no chunk. */
enum { HD_GPU_ROW_SRC, HD_GPU_ROW_DST, HD_GPU_ROW_BYTES, HD_GPU_ROW_CHUNK /* its first one */ };

#define HD_GPU_ROW_SWAP ((uint64_t)1 << 63) /* in a row's bytes: what is there is exchanged */

typedef struct hd_gpu_word {
    uint64_t address;
    uint64_t value;
} hd_gpu_word_t;

HD_GPU_ASSERT(sizeof(hd_gpu_reduce_t) == 56, "the same on the host and on the device");
HD_GPU_ASSERT(sizeof(hd_gpu_reduce_few_t) == 184, "the same on the host and on the device");
HD_GPU_ASSERT(sizeof(hd_gpu_reduce_args_t) == 1080, "the same on the host and on the device");
HD_GPU_ASSERT(sizeof(hd_gpu_move_t) == 80, "the same on the host and on the device");
HD_GPU_ASSERT(sizeof(hd_gpu_move_args_t) == 1104, "the same on the host and on the device");
HD_GPU_ASSERT(sizeof(hd_gpu_word_t) == 16, "the same on the host and on the device");

#endif
