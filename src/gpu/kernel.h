/* kernel.h: the kernels of devices, as the rest of src/gpu knows them.
 *
 * There are two images of the same bodies (kernel/): modules for devices, compiled by nvcc where
 * there was one, and a module of functions of the host for the emulated driver (heddle_emucuda.h).
 * Both have the kernels of hd_gpu_kernel, under the same names and with the same arguments, so
 * whoever launches them does not ask which it is.
 *
 * A launch is described, and then enqueued by somebody else: hd_gpu_reduce and its like fill in the
 * kernel, the grid and the arguments. They touch no device, and any thread may call. A kernel takes
 * one parameter, a struct of hd_gpu_kernel[kernel].args_bytes.
 *
 * Addresses of buffers are words in that struct. If they are too many, they go into a table in the
 * device's memory, which the caller provides (hd_gpu_table_t). That is for the largest teams:
 * tables have to be copied before the launch and kept until the kernel is over, while arguments are
 * the driver's, and captured with the launch.
 *
 * Buffers need no alignment; those that agree modulo 16 are fastest. A destination may be exactly a
 * source, where it says so; otherwise no two buffers may overlap. There is no limit to sizes.
 */
#ifndef HD_GPU_KERNEL_H
#define HD_GPU_KERNEL_H

#include "gpu/kernel/args.h"
#include "gpu/kernel/list.h"

#include <heddle_emucuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <ucc/api/ucc.h>

/* ---- kernels ---- */

#define HD_GPU_REDUCE_ID(_name) HD_GPU_REDUCE_##_name,
#define HD_GPU_FEW_IDS(_name)   HD_GPU_FEW_##_name, HD_GPU_FEW_##_name##_4, HD_GPU_FEW_##_name##_8,
#define HD_GPU_SCAN_ID(_name)   HD_GPU_SCAN_##_name,
#define HD_GPU_MOVE_ID(_name)   HD_GPU_MOVE_##_name,
enum {
    HD_LIST_REDUCTIONS(HD_GPU_REDUCE_ID) /**/
    HD_LIST_FEW(HD_GPU_FEW_IDS)          /**/
    HD_GPU_FIRST_SCAN,
    HD_GPU_BEFORE_SCANS = HD_GPU_FIRST_SCAN - 1,
    HD_LIST_SCANS(HD_GPU_SCAN_ID) /**/
    HD_GPU_FIRST_MOVE,
    HD_GPU_BEFORE_MOVES = HD_GPU_FIRST_MOVE - 1,
    HD_LIST_MOVES(HD_GPU_MOVE_ID) /**/
    HD_GPU_WORD,
    HD_GPU_KERNELS
};

/* One module for each .cu file. */
enum {
    HD_GPU_MODULE_FLOATS,
    HD_GPU_MODULE_HALVES,
    HD_GPU_MODULE_INTEGERS,
    HD_GPU_MODULE_SMALL,
    HD_GPU_MODULE_PAIRS,
    HD_GPU_MODULE_MOVES,
    HD_GPU_MODULES
};

typedef struct hd_gpu_kernel {
    const char *name;
    uint16_t args_bytes;
    uint8_t module;
    uint8_t size; /* bytes of what it reduces; 0: a move */
    uint8_t unit; /* its natural alignment */
} hd_gpu_kernel_t;

extern const hd_gpu_kernel_t hd_gpu_kernel[HD_GPU_KERNELS];

typedef struct hd_gpu_image {
    const void *fatbin; /* for cuModuleLoadData */
    size_t bytes;
} hd_gpu_image_t;

/* The modules for devices. False: this build has none. */
bool hd_gpu_images(hd_gpu_image_t image[HD_GPU_MODULES]);

/* The one for the emulated driver: all kernels. */
extern const heddle_emucuda_module_t hd_gpu_host_module;

/* ---- launches ---- */

typedef struct hd_gpu_launch {
    uint32_t kernel;  /* index of hd_gpu_kernel */
    uint32_t blocks;  /* of the grid: x. 0: there is nothing to do, and nothing else is set */
    uint32_t parts;   /* y */
    uint32_t threads; /* of a block: x */
    union {
        hd_gpu_reduce_few_t few;
        hd_gpu_reduce_args_t reduce;
        hd_gpu_move_args_t move;
        hd_gpu_word_t word;
    } args;
} hd_gpu_launch_t;

/* For words that do not fit into arguments. Those that fill it write host, which is to be copied to
 * the device before the kernel runs, and is not looked at after the launch. */
typedef struct hd_gpu_table {
    uint64_t device; /* its address there, a multiple of 8 */
    uint64_t *host;
    uint32_t capacity; /* words */
    uint32_t used;     /* out: words; 0: there is no need of it */
} hd_gpu_table_t;

/* How wide a grid may be: what a device can run at once. */
typedef struct hd_gpu_width {
    uint32_t blocks; /* of HD_GPU_THREADS threads, at most; >= 1 */
    bool streaming;  /* what is read and written will not be in the cache again */
} hd_gpu_width_t;

/* ---- reductions and scans ---- */

typedef struct hd_gpu_part {
    void *dst;
    size_t first, count; /* elements of the sources */
} hd_gpu_part_t;

/* Elements [first, first + count) of k sources. With HD_GPU_TO_ALL each of m destinations gets
 * them, at the same place. With HD_GPU_BLOCKS destination p gets elements [first, first + count) of
 * block p of the sources, which are m blocks of `block` elements. With HD_GPU_PARTS part p
 * describes what its destination gets, from its beginning on. */
typedef struct hd_gpu_reduction {
    ucc_datatype_t dt;
    ucc_reduction_op_t op;
    /* operands in all, for AVG; 0: this is part of a larger tree, which divides: a node of it, that
     * is, 8 or 64 or ... operands from a multiple of as many on, or what is left behind those */
    uint32_t n;
    uint32_t k, m;
    int form;
    const void *const *src;
    void *const *dst;          /* unused with PARTS */
    const hd_gpu_part_t *part; /* m of them */
    size_t first, count, block;
} hd_gpu_reduction_t;

/* The canonical tree over the sources, as hd_reduce_tree() on the host: the same bits. A
 * destination may be exactly a source, where both are read and written at the same elements.
 * UCC_ERR_NOT_SUPPORTED: no kernel has this type and operation (float128; generic types), more than
 * HD_GPU_OPERANDS sources, or 65535 parts. UCC_ERR_NO_RESOURCE: too many words, and the table is
 * too small or NULL. All are logged. */
ucc_status_t hd_gpu_reduce(hd_gpu_launch_t *launch, const hd_gpu_reduction_t *what,
                           hd_gpu_width_t width, hd_gpu_table_t *table);

/* Prefixes: k destinations (m is ignored, form is TO_ALL), of which i may be exactly source i.
 * Exclusively, the first one is not touched. Any number of sources. */
ucc_status_t hd_gpu_scan(hd_gpu_launch_t *launch, const hd_gpu_reduction_t *what, bool exclusive,
                         hd_gpu_width_t width, hd_gpu_table_t *table);

/* Words that these may need of a table: 0 if arguments suffice. */
uint32_t hd_gpu_reduce_words(const hd_gpu_reduction_t *what);

/* ---- moves ---- */

/* Bytes [at, at + bytes) of every block; blocks are `block` bytes apart, in sources and
 * destinations. */
typedef struct hd_gpu_blocks {
    uint32_t k, m;
    const void *const *src;
    void *const *dst;
    size_t block, at, bytes;
} hd_gpu_blocks_t;

/* Block s of each destination gets source s, which is one block: allgather; gather (m = 1); bcast
 * (k = 1). What is in its place already is not moved. */
ucc_status_t hd_gpu_spread(hd_gpu_launch_t *launch, const hd_gpu_blocks_t *what,
                           hd_gpu_width_t width, hd_gpu_table_t *table);

/* Block s of destination d gets block d of source s: alltoall; scatter (k = 1). */
ucc_status_t hd_gpu_pairs(hd_gpu_launch_t *launch, const hd_gpu_blocks_t *what,
                          hd_gpu_width_t width, hd_gpu_table_t *table);

/* The same within k buffers dst; m and src are ignored. */
ucc_status_t hd_gpu_swaps(hd_gpu_launch_t *launch, const hd_gpu_blocks_t *what,
                          hd_gpu_width_t width, hd_gpu_table_t *table);

typedef struct hd_gpu_row {
    const void *src; /* swap: written as well */
    void *dst;
    size_t bytes;
    bool swap; /* the two change places */
} hd_gpu_row_t;

/* Each row; those whose source is their destination are left out. */
ucc_status_t hd_gpu_rows(hd_gpu_launch_t *launch, const hd_gpu_row_t *row, uint32_t rows,
                         hd_gpu_width_t width, hd_gpu_table_t *table);

/* ---- words ---- */

/* Writes a 64-bit word, a multiple of 8, in pinned memory of the host: whoever sees the value there
 * (acquire) sees what all work before it has written. Where cuStreamWriteValue64 can't. */
void hd_gpu_write_word(hd_gpu_launch_t *launch, uint64_t *address, uint64_t value);

/* ---- for who looks after races ---- */

/* What a launch touches: each range of bytes, once or in pieces. `args` is the kernel's parameter;
 * a table is read by its host_table. */
typedef void (*hd_gpu_touch_fn)(void *arg, const void *pointer, size_t bytes, bool written);
void hd_gpu_ranges(uint32_t kernel, const void *args, hd_gpu_touch_fn touch, void *arg);

#endif
