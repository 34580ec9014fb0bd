/* kernels.h: what the machine's limits are made of: copying with plain and with non-temporal
 * stores, and reading. Used by heddle_perf and by the loops of bench/peers, so that both mean the
 * same limits.
 */
#ifndef HEDDLE_PERF_KERNELS_H_
#define HEDDLE_PERF_KERNELS_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static inline void
perf_stream_512(unsigned char *dst, const unsigned char *src, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64) {
        _mm512_stream_si512((void *)(dst + at), _mm512_loadu_si512((const void *)(src + at)));
    }
    _mm_sfence();
}

__attribute__((target("avx2"))) static inline void
perf_stream_256(unsigned char *dst, const unsigned char *src, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 32) {
        _mm256_stream_si256((void *)(dst + at), _mm256_loadu_si256((const void *)(src + at)));
    }
    _mm_sfence();
}
#endif

/** Copies with stores that bypass the caches. dst is a multiple of 64, bytes too. Where the
 *  processor has no such stores: memcpy. */
static inline void perf_copy_streaming(void *dst, const void *src, size_t bytes) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        perf_stream_512(dst, src, bytes);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        perf_stream_256(dst, src, bytes);
        return;
    }
#endif
    memcpy(dst, src, bytes);
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static inline uint64_t perf_read_512(const unsigned char *src,
                                                                        size_t bytes) {
    __m512i a = _mm512_setzero_si512(), b = a;
    for (size_t at = 0; at + 128 <= bytes; at += 128) {
        a = _mm512_or_si512(a, _mm512_loadu_si512((const void *)(src + at)));
        b = _mm512_or_si512(b, _mm512_loadu_si512((const void *)(src + at + 64)));
    }
    return (uint64_t)_mm512_reduce_or_epi64(_mm512_or_si512(a, b));
}
#endif

/** Reads every line of the buffer, which starts on a line; returns something that depends on all it
 *  read. The last bytes, fewer than 128, are read one per line. */
static inline uint64_t perf_read(const void *src, size_t bytes) {
    const unsigned char *from = src;
    uint64_t sum[4] = {0, 0, 0, 0};
    for (size_t at = bytes - bytes % 128; at < bytes; at += 64) {
        sum[0] |= from[at];
    }
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        return sum[0] | perf_read_512(from, bytes);
    }
#endif
    for (size_t at = 0; at + 32 <= bytes; at += 32) {
        uint64_t word[4];
        memcpy(word, from + at, sizeof(word));
        for (size_t i = 0; i < 4; i++) {
            sum[i] |= word[i];
        }
    }
    return sum[0] | sum[1] | sum[2] | sum[3];
}

/** Rewrites the buffer. Plain stores: its lines end up in this core's caches, as an application's
 * do. */
static inline void perf_write(void *dst, uint64_t value, size_t bytes) {
    memset(dst, (int)(value & 0x3f), bytes);
}

#endif
