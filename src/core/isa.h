/*
 * The vector unit in use: chosen once per process, for all kernels.
 */
#ifndef HD_CORE_ISA_H
#define HD_CORE_ISA_H

#include <stdbool.h>

/* The vector units that kernels exist for, from the poorest to the richest. BASE is what every CPU
 * of the architecture has. */
typedef enum hd_isa { HD_ISA_BASE, HD_ISA_AVX2, HD_ISA_AVX512, HD_ISA_LAST } hd_isa_t;

/* The best one of this CPU. */
hd_isa_t hd_isa(void);

/* Its name: "avx512", ... */
const char *hd_isa_name(void);

/* For tests: copies, and reducers initialised from now on, use this one. False, and no change, if
 * the CPU or the build lacks it. */
bool hd_isa_force(hd_isa_t isa);

#endif
