/*
 * What reduce.c knows about the kernels: tables indexed by datatype number and operation.
 *
 * Three copies of the vector kernels are compiled from reduce_vector.h, one per vector unit
 * (reduce_base.c, reduce_avx2.c, reduce_avx512.c); they differ in speed only. Types that no vector
 * unit knows are in reduce_wide.c, once. Kernels that would be the same code share an entry: see
 * kernel_find() in reduce.c.
 */
#ifndef HD_CORE_REDUCE_KERNELS_H
#define HD_CORE_REDUCE_KERNELS_H

#include "core/dtype.h"
#include "core/reduce.h"

/* Number of a predefined datatype as a constant. */
#define HD_NUMBER(_dt) ((_dt) >> UCC_DATATYPE_SHIFT)

enum { HD_N_PAIRS = HEDDLE_DT_PAIR_LAST - HEDDLE_DT_PAIR_FIRST };

typedef hd_kernel_fn hd_kernel_table_t[UCC_DT_PREDEFINED_LAST][UCC_OP_LAST];

extern const hd_kernel_table_t hd_kernels_base;
#if defined(__x86_64__)
extern const hd_kernel_table_t hd_kernels_avx2;
extern const hd_kernel_table_t hd_kernels_avx512;
#endif

/* Only some types and operations have one: reduce_stream.h. */
typedef hd_stream_fn hd_stream_table_t[UCC_DT_PREDEFINED_LAST][UCC_OP_LAST];

#if defined(__x86_64__)
extern const hd_stream_table_t hd_streams_avx2;
extern const hd_stream_table_t hd_streams_avx512;
#endif

/* 128-bit integers, long double, and its complex product. */
extern const hd_kernel_table_t hd_kernels_wide;

/* By number from HEDDLE_DT_PAIR_FIRST on: MAXLOC, MINLOC. */
extern const hd_kernel_fn hd_kernels_pair[HD_N_PAIRS][2];

#endif
