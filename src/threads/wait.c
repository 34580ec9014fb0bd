/* wait.c: the one place that decides when a thread with nothing to do gives up its processor.
 *
 * No thread counting, no thread-local state: the cost of a yield says all. If sched_yield() came
 * back at once, nobody wanted the processor, so the next spin may be twice as long. If it took
 * long, somebody did: the place is crowded, and from then on the first look in vain is followed by
 * a yield, because whoever we wait for needs the processor more than we do. "At once" is judged
 * against the fastest yield that this process has seen. That sees other processes and cgroups too.
 * Time is accounted per context, in time spent looking in vain: a thread that sweeps over thousands
 * of contexts spends little in each, and so yields once per so many microseconds of looking, not
 * once per context. Nor may it do so at one context after the other: where the caller was away for
 * longer than it takes to post the next operation, a context also waits until it has spent as long
 * as that, which adds up to about one yield per sweep over all of them.
 *
 * A yield hands the processor to whom the scheduler likes, and beside strangers nobody yields who
 * can sleep instead (strangers.c).
 *
 * Processes that all have processors for their threads hardly ever yield when they wait for each
 * other. Who yields looks idle: the system leaves two of them on one processor where another
 * program keeps the second one busy, and they take turns there, at 2 us an allreduce; those who
 * look busy it keeps apart.
 */
#include "threads/list.h"
#include "threads/strangers.h"

#include <ctype.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    TIGHT_NS = 400,          /* a caller that came back this soon did nothing else in between */
    SOON_US = 1,             /* from one vain call, over a completion and a post, to the next */
    MIN_SPIN_NS = 600,       /* between two yields, when the last one found nobody */
    LONGEST_LOOK_US = 20,    /* one call's looking takes less: more means preemption */
    SLOWEST_YIELD_NS = 1000, /* the fastest of those that find nobody else is no slower */
    FASTEST_YIELD_NS = 150,  /* a system call takes as long: less is a clock's mistake */
    /* times the fastest: 2 takes cold ones for crowded, and with somebody else it is 5 or more */
    YIELD_SLACK = 3
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

void hd_idle_init(hd_idle_t *idle) {
    *idle = (hd_idle_t){.budget = ns_to_ticks(MIN_SPIN_NS)};
}

uint64_t hd_idle_left(const hd_idle_t *idle) {
    uint64_t budget = get(&idle->budget), spent = get(&idle->spent);
    return budget > spent ? budget - spent : 0;
}

/* --- giving way ------------------------------------------------------------------------------- */

static void nap(void) {
    enum { NAP_NS = 50000 };
    _Atomic uint32_t word = 0; /* not nanosleep, where a cancelled thread would end */
    hd_processor_yields(hd_ticks());
    hd_park_sleep(&word, 0, NAP_NS);
}

void hd_give_way(void) {
    if (hd_processor_has_strangers(hd_ticks())) {
        nap();
    } else {
        hd_processor_yields(hd_ticks());
        sched_yield();
    }
}

__attribute__((noinline, cold)) void hd_lock_wait(hd_lock_t *lock) {
    enum { LOOKS = 100, YIELDS = 100 };
    for (unsigned looks = 1; !hd_lock_try(lock); looks++) {
        if (looks % LOOKS != 0) {
            hd_relax();
        } else if (looks / LOOKS % YIELDS != 0) {
            hd_give_way();
        } else {
            nap();
        }
    }
}

/* --- yielding --------------------------------------------------------------------------------- */

/* The fastest yield of this process in which nobody else ran, in ticks; 0: none was seen yet. */
static _Atomic uint64_t fastest;
static _Atomic uint64_t asked;

/* How often this thread has given a processor up, of itself or not. */
static uint64_t switches(void) {
    struct rusage use;
    return getrusage(RUSAGE_THREAD, &use) == 0 ? (uint64_t)(use.ru_nvcsw + use.ru_nivcsw) : 0;
}

static void learn(uint64_t took) {
    uint64_t least = ns_to_ticks(FASTEST_YIELD_NS), most = ns_to_ticks(SLOWEST_YIELD_NS);
    uint64_t best = get(&fastest);
    took = took > least ? took : least;
    took = took < most ? took : most;
    if (best == 0 || took < best) {
        set(&fastest, took); /* a lost update is made up by a later yield */
    }
}

/* The system knows whether somebody else ran, but to ask it takes as long as a yield. */
static bool ask(uint64_t *after) {
    uint64_t before = switches(), began = hd_ticks();
    sched_yield();
    *after = hd_ticks();
    set(&asked, get(&asked) + 1); /* about so many */
    if (switches() != before) {
        return true;
    }
    learn(*after - began);
    return false;
}

/* Yields. Did that let somebody else run? *now: the time before it, and then after it. How long a
 * yield takes if nobody did differs by machine (0.2 us to 0.8), so no constant would do: the first
 * ones tell. */
static bool yield_was_slow(uint64_t *now) {
    enum { ASKED = 128 };
    if (get(&asked) < ASKED) {
        return ask(now);
    }
    uint64_t began = *now, best = get(&fastest);
    sched_yield();
    *now = hd_ticks();
    bool slow = *now - began > YIELD_SLACK * (best ? best : ns_to_ticks(SLOWEST_YIELD_NS));
    if (!slow) {
        learn(*now - began);
    }
    return slow;
}

/* Do more threads run, or want to, than there are processors? */
static bool is_crowded(void) {
    char text[128] = "";
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0) {
        close(fd);
    }
    /* "0.20 0.18 0.12 3/289 11206": 3 run */
    const char *slash = size > 0 ? strchr(text, '/') : NULL;
    while (slash && slash > text && isdigit((unsigned char)slash[-1])) {
        slash--;
    }
    return slash && processors > 0 && strtoul(slash, NULL, 10) > (unsigned long)processors;
}

/* A scheduler that is fair lets a thread that has just come go on at its first yields in spite of
 * others, who had more than their share by then. So where all processors may be busy, vain yields
 * say nothing for some milliseconds; and what counts after some is the time that others took. */
bool hd_processor_is_shared(void) {
    enum { MOST = 5, LONGEST_US = 20000, ADVANTAGE_US = 8000, SOME_US = 2000 };
    uint64_t began = hd_ticks(), now = began, away = 0;
    int slow = 0, fast = 0;
    /* several: others may only pass by, such as threads that are still being placed */
    while (slow < MOST && now - began < LONGEST_US * hd_ticks_per_us) {
        if (fast >= MOST) {
            if (now - began >= ADVANTAGE_US * hd_ticks_per_us || !is_crowded()) {
                break;
            }
            now = hd_ticks(); /* to ask takes as long as several yields */
        }
        uint64_t before = now;
        if (yield_was_slow(&now)) {
            slow++;
            away += now - before;
        } else {
            fast++;
        }
    }
    bool some = now - began > SOME_US * hd_ticks_per_us;
    return some ? away > (now - began) / 4 : slow > fast;
}

/* Yields, and learns from how long that took. Returns the time after it. */
static uint64_t yield(hd_idle_t *idle, uint64_t now, uint64_t yield_max) {
    uint64_t shortest = ns_to_ticks(MIN_SPIN_NS), budget = get(&idle->budget), began = now;
    hd_processor_yields(now);
    if (yield_was_slow(&now)) {
        set(&idle->budget, 0);
    } else if (budget < yield_max) {
        set(&idle->budget, budget < shortest ? shortest : budget * 2);
    }
    hd_processor_came_back(began, now);
    return now;
}

bool hd_runner_is_roomy(hd_runner_t *runner) {
    if (!hd_runner_enter(runner)) {
        return false;
    }
    const hd_task_t *task = runner->active;
    while (task && task->home && task->home->roomy) {
        task = task->next;
    }
    bool roomy = runner->active && !task;
    hd_runner_leave(runner);
    return roomy;
}

uint64_t hd_idle_note(hd_idle_t *idle, uint64_t began, uint64_t yield_max, hd_runner_t *runner) {
    uint64_t now = hd_ticks(), longest = LONGEST_LOOK_US * hd_ticks_per_us;
    uint64_t looked = now - began < longest ? now - began : longest;
    uint64_t away = began - get(&idle->last), spent = get(&idle->spent) + looked;
    bool returns_soon =
        away < SOON_US * hd_ticks_per_us; /* it may have posted meanwhile, no more */
    if (spent >= get(&idle->budget) && (returns_soon || spent >= away)) {
        if (runner && spent < yield_max && hd_runner_is_roomy(runner)) {
            set(&idle->budget, yield_max);
        } else if (!runner || !runner->may_doze || !hd_processor_has_strangers(now)) {
            spent = 0;
            now = yield(idle, now, yield_max);
        } else if (spent >= ns_to_ticks(MIN_SPIN_NS)) {
            spent = 0;
            looked = HD_IDLE_SLEEP;
        }
    }
    set(&idle->spent, spent);
    set(&idle->last, now);
    return looked;
}

/* To wake a thread takes some 50 us where its processor has gone to sleep as well (in a virtual
 * machine, above all), which is as long as others spin before they sleep in turn: threads that lost
 * each other once would go on with a sleep per collective for ever. So a bell that rings soon, or a
 * message that comes soon, says that spinning on would have been better. */
void hd_idle_slept(hd_idle_t *idle, uint64_t may_spin, uint64_t ticks, bool rung) {
    enum { SOON = 8, LATE = 64, MOST = 4 };
    uint32_t patience =
        atomic_load_explicit(&idle->patience, memory_order_relaxed); /* see hd_idle_t */
    uint64_t spun = may_spin << patience;
    if (!rung || ticks > LATE * spun) {
        patience = 0;
    } else if (ticks < SOON * spun && patience < MOST) {
        patience++;
    }
    atomic_store_explicit(&idle->patience, patience, memory_order_relaxed); /* see hd_idle_t */
}
