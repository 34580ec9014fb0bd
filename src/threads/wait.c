/* wait.c: the one place that decides when a thread with nothing to do gives up its processor.
 *
 * No thread counting, no thread-local state: the cost of a yield says all. If sched_yield() came
 * back at once, nobody wanted the processor, so the next spin may be twice as long; if it took long,
 * somebody did, so the next yield comes after the shortest spin. That sees other processes and
 * cgroups too. Time is accounted per context, in time spent looking in vain: a thread that sweeps
 * over thousands of contexts spends little in each, and so yields once per so many microseconds of
 * looking, not once per context. Nor may it do so at one context after the other: a context also
 * waits until it has spent as long as the caller was away since its last call here, which adds up to
 * about one yield per sweep over all of them.
 */
#include "threads/threads.h"

enum {
    TIGHT_NS = 400,          /* a caller that came back this soon did nothing else in between */
    MIN_SPIN_NS = 600,       /* shortest time between two yields */
    LONGEST_LOOK_NS = 20000, /* one call's looking takes less: more means preemption */
    FAST_YIELD_NS = 1500     /* a yield this short found nobody else runnable */
};

static inline uint64_t ns_to_ticks(uint64_t ns) {
    return ns * hd_ticks_per_us / 1000u;
}

/* relaxed throughout: see hd_idle_t */
static uint64_t get(const _Atomic uint64_t *field) {
    return atomic_load_explicit(field, memory_order_relaxed);
}

static void set(_Atomic uint64_t *field, uint64_t value) {
    atomic_store_explicit(field, value, memory_order_relaxed);
}

bool hd_idle_is_tight(const hd_idle_t *idle, uint64_t now) {
    return now - get(&idle->last) < ns_to_ticks(TIGHT_NS);
}

uint64_t hd_idle_left(const hd_idle_t *idle) {
    uint64_t budget = get(&idle->budget), spent = get(&idle->spent);
    uint64_t shortest = ns_to_ticks(MIN_SPIN_NS);
    budget = budget > shortest ? budget : shortest;
    return budget > spent ? budget - spent : 0;
}

/* Yields, and learns from how long that took. Returns the time after it. */
static uint64_t yield(hd_idle_t *idle, uint64_t now, uint64_t yield_max) {
    uint64_t shortest = ns_to_ticks(MIN_SPIN_NS), budget = get(&idle->budget);
    sched_yield();
    uint64_t after = hd_ticks();
    if (after - now > ns_to_ticks(FAST_YIELD_NS)) {
        set(&idle->budget, shortest);
    } else if (budget < yield_max) {
        set(&idle->budget, budget < shortest ? shortest : budget * 2);
    }
    return after;
}

uint64_t hd_idle_note(hd_idle_t *idle, uint64_t began, uint64_t yield_max) {
    uint64_t now = hd_ticks(), longest = ns_to_ticks(LONGEST_LOOK_NS);
    uint64_t looked = now - began < longest ? now - began : longest;
    uint64_t away = began - get(&idle->last), spent = get(&idle->spent) + looked;
    if (spent >= get(&idle->budget) && spent >= away) {
        spent = 0;
        now = yield(idle, now, yield_max);
    }
    set(&idle->spent, spent);
    set(&idle->last, now);
    return looked;
}
