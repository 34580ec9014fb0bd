/* timer.c: the clock, places for threads, and the machine's own limit for small collectives.
 *
 * The time stamp counter is used where the processor says that it runs at one rate in every power
 * state; it costs a few nanoseconds, clock_gettime() some twenty. Only differences taken on one
 * thread are formed, so the counters of different processors need not agree.
 */
#include "perf.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

static bool use_counter;
static double seconds_per_tick = 1e-9;

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static bool counter_is_invariant(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007U, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
#else
    return false;
#endif
}

uint64_t perf_clock_ticks(void) {
#if defined(__x86_64__)
    if (use_counter) {
        return __rdtsc();
    }
#endif
    return nanoseconds();
}

void perf_clock_start(void) {
    use_counter = counter_is_invariant();
    if (!use_counter) {
        return;
    }
    const uint64_t calibration = UINT64_C(20000000); /* 20 ms: within a few parts in 1e5 */
    uint64_t begin = nanoseconds(), first = perf_clock_ticks(), now;
    do {
        now = nanoseconds();
    } while (now - begin < calibration);
    uint64_t ticks = perf_clock_ticks() - first;
    if (ticks == 0) {
        use_counter = false;
        return;
    }
    seconds_per_tick = (double)(now - begin) * 1e-9 / (double)ticks;
}

double perf_clock_seconds(uint64_t ticks) {
    return (double)ticks * seconds_per_tick;
}

uint64_t perf_clock_ticks_of(double seconds) {
    return (uint64_t)(seconds / seconds_per_tick + 0.5);
}

const char *perf_clock_name(void) {
    return use_counter ? "tsc" : "clock_gettime";
}

/* ------------------------------------------------------------------------------------------------
 * Places
 * ---------------------------------------------------------------------------------------------- */

uint32_t perf_processors(void) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return 1;
    }
    return (uint32_t)CPU_COUNT(&allowed);
}

/* The set is read once, by the first caller, before anybody is pinned: a pinned thread's own set
 * would have a single member. */
static cpu_set_t places;
static pthread_once_t places_once = PTHREAD_ONCE_INIT;

static void places_read(void) {
    if (sched_getaffinity(0, sizeof(places), &places) != 0) {
        CPU_ZERO(&places);
    }
}

static int place(uint32_t index) {
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &places) && index-- == 0) {
            return (int)cpu;
        }
    }
    return -1;
}

void perf_bind(perf_bind_t bind, uint32_t index, uint32_t n) {
    pthread_once(&places_once, places_read);
    uint32_t cpus = (uint32_t)CPU_COUNT(&places);
    if (bind == PERF_BIND_AUTO) {
        bind = n <= cpus ? PERF_BIND_COMPACT : PERF_BIND_NONE;
    }
    if (bind == PERF_BIND_NONE || cpus == 0) {
        return;
    }
    uint32_t at = bind == PERF_BIND_SPREAD && n < cpus ? index * cpus / n : index % cpus;
    int cpu = place(at);
    if (cpu >= 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)cpu, &one);
        (void)pthread_setaffinity_np(pthread_self(), sizeof(one), &one); /* a wish, not a need */
    }
}

/* ------------------------------------------------------------------------------------------------
 * The two-store exchange
 * ---------------------------------------------------------------------------------------------- */

enum { EXCHANGE_BATCHES = 41, EXCHANGE_ROUNDS = 2000 };

typedef struct exchange {
    perf_flag_t flags[2];
    double samples[EXCHANGE_BATCHES];
} exchange_t;

typedef struct exchange_thread {
    exchange_t *exchange;
    uint32_t side;
} exchange_thread_t;

void perf_exchange_round(perf_flag_t *mine, const perf_flag_t *theirs, uint64_t round) {
    /* release: as a collective would publish a payload; pairs with the acquire below */
    atomic_store_explicit(&mine->value, round, memory_order_release);
    uint32_t spins = 0;
    /* acquire: as a collective would read the payload; pairs with the release above */
    while (atomic_load_explicit(&theirs->value, memory_order_acquire) < round) {
        if (++spins == 100000) { /* the other side has lost its processor */
            sched_yield();
            spins = 0;
        }
    }
}

static void *exchange_run(void *arg) {
    const exchange_thread_t *self = arg;
    exchange_t *x = self->exchange;
    uint64_t round = 0;
    perf_bind(PERF_BIND_COMPACT, self->side, 2);
    for (uint32_t batch = 0; batch < EXCHANGE_BATCHES; batch++) {
        uint64_t begin = perf_clock_ticks();
        for (uint32_t i = 0; i < EXCHANGE_ROUNDS; i++) {
            perf_exchange_round(&x->flags[self->side], &x->flags[1 - self->side], ++round);
        }
        if (self->side == 0) {
            x->samples[batch] = perf_clock_seconds(perf_clock_ticks() - begin) / EXCHANGE_ROUNDS;
        }
    }
    return NULL;
}

static int compare_doubles(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

double perf_exchange_limit(void) {
    if (perf_processors() < 2) {
        return -1.0;
    }
    static exchange_t exchange;
    exchange_thread_t selves[2] = {{&exchange, 0}, {&exchange, 1}};
    pthread_t threads[2];
    for (uint32_t i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, exchange_run, &selves[i]) != 0) {
            perf_fatal("cannot start a thread", UCC_ERR_NO_RESOURCE);
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    qsort(exchange.samples, EXCHANGE_BATCHES, sizeof(double), compare_doubles);
    return exchange.samples[EXCHANGE_BATCHES / 2];
}
