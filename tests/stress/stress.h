/* stress.h: what the stress programs share: how much to do, which delays, and a watchdog that turns
 * a hang into a failure with a name.
 *
 *     int main(int argc, char **argv) {
 *         stress_begin(argc, argv);
 *         stress_phase("tagged, one context", 120);
 *         ... stress_scaled(100000) ...
 *         return stress_end();
 *     }
 *
 * Amount: the first argument, else HEDDLE_STRESS_SCALE, in percent; 100 by default, 4 under
 * ThreadSanitizer. Delays: HEDDLE_STRESS_SEED arms them from the start; a program may arm its own
 * phases where that is unset. HEDDLE_TEST_SLOWDOWN stretches the limits of all phases.
 */
#ifndef TESTS_STRESS_H_
#define TESTS_STRESS_H_

#include "../support/deadline.h"
#include "threads/delay.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__SANITIZE_THREAD__)
#define STRESS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STRESS_TSAN 1
#endif
#endif
#ifndef STRESS_TSAN
#define STRESS_TSAN 0
#endif

static struct {
    const char *program;
    double percent;
    uint32_t seed;
    _Atomic int64_t phase_end_ms;
    _Atomic(const char *) phase;
    _Atomic uint64_t errors;
} stress;

static inline double stress_slowdown(void) {
    const char *text = getenv("HEDDLE_TEST_SLOWDOWN");
    double factor = text != NULL ? atof(text) : 1.0;
    return (factor > 0 ? factor : 1.0) * (STRESS_TSAN ? 4.0 : 1.0);
}

/* Names what runs now, and how long it may take. The name must be a literal. */
static inline void stress_phase(const char *name, double seconds) {
    int64_t end = (int64_t)((test_now() + seconds * stress_slowdown()) * 1e3);
    atomic_store(&stress.phase, name);
    atomic_store(&stress.phase_end_ms, end);
}

static inline void *stress_watchdog(void *unused) {
    (void)unused;
    for (;;) {
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        if (test_now() * 1e3 > (double)atomic_load(&stress.phase_end_ms)) {
            fprintf(stderr, "HANG: %s: %s\n", stress.program, atomic_load(&stress.phase));
            abort();
        }
    }
    return NULL;
}

/* Without the watchdog, which is a thread: for programs that fork. */
static inline void stress_begin_alone(int argc, char **argv) {
    const char *scale = argc > 1 ? argv[1] : getenv("HEDDLE_STRESS_SCALE");
    const char *seed = getenv("HEDDLE_STRESS_SEED");
    const char *slash = strrchr(argv[0], '/');
    stress.program = slash != NULL ? slash + 1 : argv[0];
    stress.percent = scale != NULL && atof(scale) > 0 ? atof(scale) : STRESS_TSAN ? 4.0 : 100.0;
    stress.seed = seed != NULL ? (uint32_t)strtoul(seed, NULL, 0) : 0;
    /* its hook into a thread's end would call the sanitizer when that has left the thread */
    if (STRESS_TSAN) {
        setenv("UCX_MEM_EVENTS", "n", 0);
    }
    hd_delay_arm(stress.seed);
    stress_phase("start", 60);
}

static inline void stress_begin(int argc, char **argv) {
    pthread_t watchdog;
    stress_begin_alone(argc, argv);
    if (pthread_create(&watchdog, NULL, stress_watchdog, NULL) == 0) {
        pthread_detach(watchdog);
    }
}

/* Random delays from here on, unless a seed from outside has armed them already; 0 disarms. */
static inline void stress_delays(uint32_t seed) {
    hd_delay_arm(stress.seed != 0 ? stress.seed : seed);
}

static inline uint64_t stress_scaled(uint64_t n) {
    double scaled = (double)n * stress.percent / 100.0;
    return scaled < 1 ? 1 : (uint64_t)scaled;
}

/* Counts an error, and prints the first few. */
__attribute__((format(printf, 1, 2))) static inline void stress_error(const char *format, ...) {
    if (atomic_fetch_add(&stress.errors, 1) < 10) {
        char line[256];
        va_list args;
        va_start(args, format);
        vsnprintf(line, sizeof(line), format, args);
        va_end(args);
        fprintf(stderr, "ERROR: %s: %s: %s\n", stress.program, atomic_load(&stress.phase), line);
    }
}

static inline void stress_expect(ucc_status_t status, ucc_status_t wanted, const char *what) {
    if (status != wanted) {
        stress_error("%s: %s instead of %s", what, ucc_status_string(status),
                     ucc_status_string(wanted));
    }
}

/* Exit status of a program that could not do what it is for; scripts/test and ctest know it. */
enum { STRESS_SKIPPED = 77 };

static inline int stress_end(void) {
    uint64_t errors = atomic_load(&stress.errors);
    if (errors != 0) {
        fprintf(stderr, "%s: %llu errors\n", stress.program, (unsigned long long)errors);
    }
    return errors == 0 ? 0 : 1;
}

/* The end where the rest can't be run. */
static inline int stress_skip(const char *what, const char *why) {
    printf("skipped: %s: %s\n", what, why);
    int status = stress_end();
    return status == 0 ? STRESS_SKIPPED : status;
}

/* Processor time of the calling thread, in seconds. */
static inline double stress_cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
