/* clock.h: a cheap monotonic clock in ticks, and the tiny pause between two looks at a cache line.
 *
 * Ticks are the time-stamp counter where there is one (about 20 cycles a read, no system call),
 * nanoseconds elsewhere. hd_clock_init() must have run once in the process (ucc_init does it).
 */
#ifndef HD_THREADS_CLOCK_H
#define HD_THREADS_CLOCK_H

#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* Ticks per microsecond; written once by hd_clock_init() before any context exists. */
extern uint64_t hd_ticks_per_us;

void hd_clock_init(void);

static inline uint64_t hd_ticks(void) {
#if defined(__x86_64__)
    return __rdtsc();
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#endif
}

static inline void hd_relax(void) {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield"); /* a hint, not a memory access: no ordering depends on it */
#endif
}

#endif
