/*
 * The vector kernels for AVX2. F16C converts float16 exactly as reduce_scalar.h does, except for
 * NaN payloads, which no kernel lets through.
 */
#if defined(__x86_64__)

#include <immintrin.h>

#include "core/reduce_scalar.h"

#define HD_TARGET  __attribute__((target("avx2,f16c")))
#define HD_KERNELS hd_kernels_avx2

HD_TARGET static void widen_halves(float *out, const hd_u16 *in, size_t n) {
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m128i halves = _mm_loadu_si128((const __m128i_u *)(const void *)(in + i));

        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
    }
    for (; i < n; i++) {
        out[i] = widen_f16(in[i]);
    }
}

HD_TARGET static void narrow_halves(hd_u16 *out, const float *in, size_t n) {
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);

        _mm_storeu_si128((__m128i_u *)(void *)(out + i), halves);
    }
    for (; i < n; i++) {
        out[i] = narrow_f16(in[i]);
    }
}

#include "core/reduce_vector.h"

#define HD_STREAM_KERNELS      hd_streams_avx2
#define HD_VECTOR_BYTES        32
#define HD_STREAM(_to, _value) _mm256_stream_si256((__m256i *)(void *)(_to), (__m256i)(_value))

#include "core/reduce_stream.h"

#else
typedef int hd_reduce_avx2_not_here; /* a translation unit has to declare something */
#endif
