/*
 * Reductions: one canonical association, the same bits everywhere.
 *
 * n operands are reduced in blocks of up to HD_REDUCE_BLOCK consecutive operand numbers, each block
 * from left to right; the blocks' results are the operands of the next level, until one is left
 * (the root). A block of one operand is that operand, bit for bit. So the result depends on the
 * operands and their numbers alone: not on who computes which block, how the elements are cut into
 * windows, the alignment, whether a destination is also a source, or the vector unit in use.
 *
 * The operations:
 *   - Integers: SUM and PROD wrap (two's complement). LAND, LOR, LXOR give 0 or 1. BAND, BOR, BXOR
 *     bit by bit. MAX and MIN. AVG, up to 64 bits, is SUM (which wraps), divided by n at the root
 *     and truncated toward zero.
 *   - float32, float64: SUM and PROD round each step to nearest even in their own format, never
 *     fused. AVG is SUM, divided by n (in that format) at the root. A NaN result is the positive
 *     quiet NaN without payload, whatever the NaN operands were.
 *   - float16, bfloat16: SUM, PROD and AVG accumulate in float32 inside a block and round once at
 *     its end, AVG after dividing. Subnormals are kept. NaN as above.
 *   - float128 is the compiler's long double, as in the released UCC, and not supported where that
 *     has not 16 bytes. Its padding is zero in the result of an operation.
 *   - Complex: SUM and AVG by parts; PROD (ac - bd) + (ad + bc)i, each step rounded; a part that is
 *     NaN stays NaN, there is no recovery of infinities. No order, no logic.
 *   - MAX and MIN of floats are maximum and minimum of IEEE 754-2019: a NaN operand gives NaN, as
 *     above; +0 is larger than -0.
 *   - MAXLOC and MINLOC take the pair types only, by the rules of heddle_dt.h.
 *   - Generic datatypes are reduced by the user's callback with one vector at a time, in the same
 *     association; op has no meaning for them.
 *
 * Buffers need no alignment. A destination may be exactly a source; no two buffers may overlap
 * otherwise. Everything here is pure: any thread may call, except that a user's callback
 * (hd_reducer_is_user) must be serialised by the caller.
 */
#ifndef HD_CORE_REDUCE_H
#define HD_CORE_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucc/api/ucc.h>

#include "core/copy.h"
#include "core/isa.h"

enum {
    HD_REDUCE_BLOCK = 8,              /* operands of a canonical block */
    HD_REDUCE_TURN = 4 * HD_COPY_LINE /* what a streaming kernel reads of a source at once */
};

/* dst[i] = src[0][i] op ... op src[k - 1][i] for i < count scalars. k >= 2. Only AVG looks at n. */
typedef void (*hd_kernel_fn)(uint32_t k, const void *const *src, void *dst, size_t count,
                             uint32_t n);

/* The same at the root, to m destinations by streaming stores. Destinations begin at lines; bytes
 * is a multiple of HD_REDUCE_TURN. */
typedef void (*hd_stream_fn)(uint32_t k, const void *const *src, uint32_t m, void *const *dst,
                             size_t bytes, uint32_t n);

/* How one pair of datatype and operation is reduced over n operands. Plain data: copy it freely; it
 * stays valid as long as a generic datatype does. */
typedef struct hd_reducer {
    ucc_datatype_t dt;
    size_t element_size; /* bytes */
    uint32_t n;          /* operands in all: AVG divides by it */
    uint32_t scalars;    /* per element, as the kernel counts: 2 for the sum of complex numbers */
    hd_kernel_fn inner;  /* of a block below the root; NULL for generic types */
    hd_kernel_fn root;   /* of the root: differs for AVG */
    hd_stream_fn stream; /* NULL: there is none, results stream through scratch memory */
    ucc_dt_generic_t *user; /* NULL for predefined and pair types */
    ucc_reduction_op_t op;
} hd_reducer_t;

/* UCC_ERR_INVALID_PARAM: there is no such op, or dt is not valid. UCC_ERR_NOT_SUPPORTED: op has no
 * meaning on dt, dt is generic without a reduction, or not contiguous (there is nowhere to keep
 * partial results of it), or float128 where it is missing. Both are logged. n >= 1. */
ucc_status_t hd_reducer_init(hd_reducer_t *r, ucc_datatype_t dt, ucc_reduction_op_t op, uint32_t n);
/* The same, and logs nothing; what is to be logged then, for that call at that endpoint. */
ucc_status_t hd_reducer_take(hd_reducer_t *r, ucc_datatype_t dt, ucc_reduction_op_t op, uint32_t n);
void hd_reducer_explain(ucc_datatype_t dt, ucc_reduction_op_t op, const char *call, uint32_t ep);

static inline bool hd_reducer_is_user(const hd_reducer_t *r) {
    return r->user != NULL;
}

/* One canonical block, 1 <= k <= HD_REDUCE_BLOCK; last: this block is the root of the tree. dst may
 * be any src[i]. Fails only if a user's callback does, or memory is short for generic elements of
 * more than some KiB. */
ucc_status_t hd_reduce_block(const hd_reducer_t *r, uint32_t k, const void *const src[], void *dst,
                             size_t count, bool last);

/* The whole tree over the n operands src[i] + src_offset (bytes), written to each of the m
 * destinations dst[j] + dst_offset. m may be 0. Any dst may be any src: the work is done in small
 * windows, and all sources of a window are read before its first destination is written. n is the
 * one given to hd_reducer_init(). With streaming stores, hd_copy_fence() is left to the caller.
 * Uses 48 KiB of stack at most; fails like hd_reduce_block(). */
ucc_status_t hd_reduce_tree(const hd_reducer_t *r, uint32_t n, const void *const *src,
                            size_t src_offset, uint32_t m, void *const *dst, size_t dst_offset,
                            size_t count, hd_stores_t stores);

/* Name of the kernels in use: "avx512", ... */
static inline const char *hd_reduce_isa_name(void) {
    return hd_isa_name();
}

#endif
