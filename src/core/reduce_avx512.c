/*
 * The vector kernels for AVX-512 (F, BW, DQ, VL). See reduce_avx2.c for the conversion of float16.
 */
#if defined(__x86_64__)

#include <immintrin.h>

#include "core/reduce_scalar.h"

#define HD_TARGET  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c")))
#define HD_KERNELS hd_kernels_avx512

HD_TARGET static void widen_halves(float *out, const hd_u16 *in, size_t n) {
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m256i halves = _mm256_loadu_si256((const __m256i_u *)(const void *)(in + i));

        _mm512_storeu_ps(out + i, _mm512_cvtph_ps(halves));
    }
    for (; i < n; i++) {
        out[i] = widen_f16(in[i]);
    }
}

HD_TARGET static void narrow_halves(hd_u16 *out, const float *in, size_t n) {
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m512 floats = _mm512_loadu_ps(in + i);
        __m256i halves = _mm512_maskz_cvtps_ph(0xffff, floats, _MM_FROUND_TO_NEAREST_INT);

        _mm256_storeu_si256((__m256i_u *)(void *)(out + i), halves);
    }
    for (; i < n; i++) {
        out[i] = narrow_f16(in[i]);
    }
}

#include "core/reduce_vector.h"

#define HD_STREAM_KERNELS      hd_streams_avx512
#define HD_VECTOR_BYTES        64
#define HD_STREAM(_to, _value) _mm512_stream_si512((void *)(_to), (__m512i)(_value))

#include "core/reduce_stream.h"

#else
typedef int hd_reduce_avx512_not_here; /* a translation unit has to declare something */
#endif
