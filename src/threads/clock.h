/* clock.h: a cheap monotonic clock in ticks, and the tiny pause between two looks at a cache line.
 *
 * Ticks are the time-stamp counter where there is one that keeps time (about 20 cycles a read, no
 * system call), nanoseconds elsewhere. hd_clock_init() must have run once in the process (ucc_init
 * does it).
 *
 * Nearly every file includes this one: it names the compiler's builtins, since the header that has
 * their usual names, x86intrin.h, takes longer to read than most of our files take to compile.
 */
#ifndef HD_THREADS_CLOCK_H
#define HD_THREADS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Ticks per microsecond; written once by hd_clock_init() before any context exists. */
extern uint64_t hd_ticks_per_us;

void hd_clock_init(void);

/* Ticks are cycles of the time-stamp counter; written as above. */
extern bool hd_clock_counts_cycles;

/* CLOCK_MONOTONIC. */
uint64_t hd_clock_ns(void);

/* How the two clocks are read: tests have their own. */
typedef struct hd_clock_reader {
    uint64_t (*ns)(void);
    uint64_t (*ticks)(void);
} hd_clock_reader_t;

/* Ticks per microsecond; 0 if no two measurements agree: then the ticks don't keep time. */
uint64_t hd_clock_rate(const hd_clock_reader_t *read);
/* May the counter be used? sources: what the kernel offers, NULL: not known. */
bool hd_clock_trusts(bool invariant, const char *sources);

static inline uint64_t hd_ticks(void) {
#if defined(__x86_64__)
    if (__builtin_expect(hd_clock_counts_cycles, 1)) {
        return __builtin_ia32_rdtsc();
    }
#endif
    return hd_clock_ns();
}

/* seconds: not negative, and few enough for 64 bits of ticks. */
static inline uint64_t hd_seconds_to_ticks(double seconds) {
    return (uint64_t)(seconds * 1e6 * (double)hd_ticks_per_us);
}

static inline double hd_ticks_to_seconds(uint64_t ticks) {
    return (double)ticks / (double)hd_ticks_per_us * 1e-6;
}

static inline void hd_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield"); /* a hint, not a memory access: no ordering depends on it */
#endif
}

#endif
