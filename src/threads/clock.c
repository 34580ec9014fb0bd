/* clock.c: decides what ticks are, and calibrates them against CLOCK_MONOTONIC, once per process.
 *
 * Both clocks are read as a pair whose halves are as close together as they can be had: a
 * preemption between the two would bend the rate for the life of the process. A rate counts when a
 * second measurement agrees with it.
 */
#include "threads/clock.h"

#include "core/log.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

uint64_t hd_ticks_per_us = 1000;
bool hd_clock_counts_cycles = false;

__attribute__((noinline, cold)) uint64_t hd_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

typedef struct pair {
    uint64_t ns, ticks;
} pair_t;

/* The closest of a few tries, or the first that is close enough. */
static pair_t read_both(const hd_clock_reader_t *read) {
    enum { TRIES = 20, CLOSE_NS = 1000 };
    pair_t best = {0};
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < TRIES && least > CLOSE_NS; i++) {
        uint64_t before = read->ns(), ticks = read->ticks(), after = read->ns();
        if (after - before < least) {
            least = after - before;
            best = (pair_t){before + least / 2, ticks};
        }
    }
    return best;
}

/* Ticks per millisecond over at least so many nanoseconds. */
static uint64_t measure(const hd_clock_reader_t *read, uint64_t ns) {
    pair_t first = read_both(read), last;
    do {
        last = read_both(read);
    } while (last.ns - first.ns < ns);
    return (uint64_t)((double)(last.ticks - first.ticks) * 1e6 / (double)(last.ns - first.ns));
}

/* 150 us of counting are right within a few per mille: enough for time-outs and back-off. */
uint64_t hd_clock_rate(const hd_clock_reader_t *read) {
    enum { FIRST_NS = 150000, ROUNDS = 6, PARTS = 64 };
    uint64_t before = measure(read, FIRST_NS);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t now = measure(read, (uint64_t)FIRST_NS << round);
        if (now && now / PARTS >= (now > before ? now - before : before - now)) {
            return (now + 500) / 1000 ? (now + 500) / 1000 : 1;
        }
        before = now;
    }
    return 0;
}

bool hd_clock_trusts(bool invariant, const char *sources) {
    return invariant && (!sources || strstr(sources, "tsc"));
}

#if defined(__x86_64__)
/* The counter runs at one rate whatever the processor does. */
static bool is_invariant(void) {
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8);
}

/* The kernel watches whether the processors' counters agree, and strikes them off this list if not.
 */
static const char *clock_sources(char *line, int size) {
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/available_clocksource", "re");
    char *got = file ? fgets(line, size, file) : NULL;
    if (file) {
        fclose(file);
    }
    return got;
}

static uint64_t cycles(void) {
    return __builtin_ia32_rdtsc();
}

static void calibrate(void) {
    static const hd_clock_reader_t reader = {hd_clock_ns, cycles};
    char line[256];
    if (!hd_clock_trusts(is_invariant(), clock_sources(line, sizeof(line)))) {
        hd_info("the time-stamp counter is not invariant or not synchronised: not used");
        return;
    }
    uint64_t rate = hd_clock_rate(&reader);
    if (rate) {
        hd_ticks_per_us = rate;
        hd_clock_counts_cycles = true;
    } else {
        hd_info("the time-stamp counter does not keep time: not used");
    }
}
#else
static void calibrate(void) {
}
#endif

void hd_clock_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, calibrate);
}
