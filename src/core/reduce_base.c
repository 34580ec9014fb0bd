/*
 * The vector kernels for what every CPU of the architecture has (SSE2, NEON).
 */
#include "core/reduce_scalar.h"

#define HD_TARGET
#define HD_KERNELS hd_kernels_base

static void widen_halves(float *out, const hd_u16 *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        out[i] = widen_f16(in[i]);
    }
}

static void narrow_halves(hd_u16 *out, const float *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        out[i] = narrow_f16(in[i]);
    }
}

#include "core/reduce_vector.h"
