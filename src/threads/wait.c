/* wait.c: the one place that decides when a thread with nothing to do gives up its processor.
 *
 * No thread counting, no thread-local state: the cost of a yield says all. If sched_yield() came
 * back at once, nobody wanted the processor, so the next spin may be twice as long; if it took long,
 * somebody did, so the next yield comes after the shortest spin. That sees other processes and
 * cgroups too. Time is accounted per context, in time spent looking in vain: a thread that sweeps
 * over thousands of contexts spends little in each, and so yields once per so many microseconds of
 * looking, not once per context.
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

/* All accesses are relaxed: see hd_idle_t. */
static inline uint64_t get(const _Atomic uint64_t *field) {
    return atomic_load_explicit(field, memory_order_relaxed);
}

static inline void set(_Atomic uint64_t *field, uint64_t value) {
    atomic_store_explicit(field, value, memory_order_relaxed);
}

bool hd_idle_is_tight(const hd_idle_t *idle, uint64_t now) {
    return now - get(&idle->last) < ns_to_ticks(TIGHT_NS);
}

void hd_idle_note(hd_idle_t *idle, uint64_t began, uint64_t yield_max) {
    uint64_t now = hd_ticks(), floor = ns_to_ticks(MIN_SPIN_NS);
    uint64_t spent = get(&idle->spent) + now - began, budget = get(&idle->budget);
    if (spent >= budget) {
        spent = 0;
        sched_yield();
        uint64_t after = hd_ticks();
        if (after - now > ns_to_ticks(FAST_YIELD_NS)) {
            set(&idle->budget, floor);
        } else if (budget < yield_max) {
            set(&idle->budget, budget < floor ? floor : budget * 2);
        }
        now = after;
    }
    set(&idle->spent, spent);
    set(&idle->last, now);
}
