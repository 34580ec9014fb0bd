/* runner.c: a context's task list: taking in, stepping, completing, waiting.
 *
 * Who may call: any thread if runner->multiple, else one thread at a time (the promise made by
 * UCC_THREAD_SINGLE and FUNNELED, or by a team's own thread mode).
 */
#include "threads/callback.h"
#include "threads/list.h"
#include "threads/night.h"
#include "threads/strangers.h"
#include "threads/fd_waiter.h"

#include "core/log.h"
#include "threads/stall.h"
#include "threads/trace.h"

#include <pthread.h>

enum {
    GLANCE_EVERY = 4096
}; /* a look at the network takes about a microsecond: that is for free then */

void hd_runner_init(hd_runner_t *runner, bool multiple, uint32_t max_polls, uint64_t yield_max_us) {
    runner->multiple = multiple;
    runner->max_polls = max_polls ? max_polls : 1;
    runner->yield_max = yield_max_us * hd_ticks_per_us;
    runner->may_doze = false;
    runner->active = NULL;
    runner->active_tail = &runner->active;
    runner->finished = NULL;
    runner->promised = false;
    atomic_init(&runner->told, false);
    atomic_init(&runner->waiter, 0);
    hd_idle_init(&runner->idle);
    hd_runner_look_after(runner, NULL, 0);
    atomic_init(&runner->glance, NULL);
    runner->until_glance = GLANCE_EVERY;
    hd_lock_init(&runner->lock);
    atomic_init(&runner->incoming, NULL);
    atomic_init(&runner->bell.sleepers, 0);
    hd_lock_init(&runner->bell.lock);
    atomic_init(&runner->refused, 0);
    atomic_init(&runner->schedules, 0);
    runner->bell.list = NULL;
    runner->bell.fars = NULL;
}

void hd_runner_look_after(hd_runner_t *runner, hd_look_after_fn look_after, uint64_t every) {
    runner->look_after = look_after;
    runner->look_every = every;
    runner->look_due = every ? 0 : UINT64_MAX;
}

void hd_runner_glance(hd_runner_t *runner, hd_glance_fn glance) {
    /* relaxed: a function; what it looks at, it finds for itself */
    atomic_store_explicit(&runner->glance, glance, memory_order_relaxed);
}

#if HD_DEBUG >= 2 || defined(HD_TEST)
/* Tasks that wait are in one list, those that are over in the other, each there once: a task that
 * were there twice would make the list go round in a circle. Returns the place of the list's
 * end. */
static hd_task_t *const *check_list(const hd_runner_t *runner, hd_task_t *const *list, bool over) {
    enum { LONGEST = 1 << 24 }; /* more than anybody posts */
    uint32_t n = 0;
    for (; *list; list = &(*list)->next) {
        const hd_task_t *task = *list;
        hd_always_lt(n++, LONGEST);
        hd_always(hd_task_is_live(task));
        hd_always_eq(task->req.status, UCC_INPROGRESS);
        hd_always((const void *)task->context == (const void *)runner);
        hd_always(task->step && (task->home || task->magic == HD_TASK_SCHEDULE));
        /* relaxed: more than 0 at any time, as this task's endpoint is one of them */
        hd_always(!task->home || atomic_load_explicit(&task->home->refs, memory_order_relaxed) > 0);
        hd_always(!over || task->outcome <= UCC_OK);
    }
    return list;
}

void hd_runner_check(const hd_runner_t *runner) {
    hd_always(check_list(runner, &runner->active, false) == runner->active_tail);
    check_list(runner, &runner->finished, true);
}
#endif

bool hd_runner_is_empty(hd_runner_t *runner) {
    if (!hd_runner_enter(runner)) {
        return false; /* somebody is at work in it */
    }
    bool empty = !runner->active &&
                 /* acquire: pairs with hd_runner_push, though only emptiness is asked here */
                 !atomic_load_explicit(&runner->incoming, memory_order_acquire);
    hd_runner_leave(runner);
    return empty;
}

/* One step of every active task; the finished ones are appended to runner->finished. Their status
 * is not published here: the client may destroy everything once it sees it, and the lock is still
 * held. Adds the number of steps to *looks. True if any has finished. */
static bool step_all(hd_runner_t *runner, uint32_t *looks) {
    bool any = false;
    hd_task_t **finished = &runner->finished;
    while (*finished) { /* in a round that was abandoned */
        finished = &(*finished)->next;
        any = true;
    }
    for (hd_task_t **at = &runner->active; *at; ++*looks) {
        hd_task_t *task = *at;
        ucc_status_t status = task->step(task);
        if (status == UCC_INPROGRESS) {
            at = &task->next;
            continue;
        }
        *at = task->next;
        if (!*at) {
            hd_assert(runner->active_tail == &task->next);
            runner->active_tail = at;
        }
        hd_assert(status <= UCC_OK);
        hd_assert_eq(task->req.status, UCC_INPROGRESS); /* only completion changes it */
        task->outcome = status;
        task->next = NULL;
        *finished = task;
        finished = &task->next;
        any = true;
    }
    return any;
}

/* Some wait may have become too long. Under the lock. */
static __attribute__((noinline, cold)) void look_after_all(hd_runner_t *runner, uint64_t now) {
    uint64_t next = now + runner->look_every;
    int cancelling; /* what it reads and writes may end a cancelled thread, and with it the lock */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    for (hd_task_t *task = runner->active; task; task = task->next) {
        uint64_t due = runner->look_after(task, now);
        next = due < next ? due : next;
    }
    runner->look_due = next > now ? next : now + 1;
    if (hd_trace_is_on()) {
        hd_trace_tick();
    }
    pthread_setcancelstate(cancelling, NULL);
}

__attribute__((noinline, cold)) void hd_runner_two_threads(hd_runner_t *runner, const char *where) {
    /* relaxed: only decides who says it */
    if (!atomic_exchange_explicit(&runner->told, true, memory_order_relaxed)) {
        hd_error("two threads are %s at once, but the library was not initialised for that "
                 "(UCC_THREAD_MULTIPLE)",
                 where);
    }
}

/* Another thread is at work in this context. Its work is ours too, so there is nothing to do but to
 * come back; if the holder was preempted, it needs the processor more than we do. */
static void back_off(hd_runner_t *runner, uint64_t *vain) {
    enum { REFUSALS_PER_YIELD = 32 };
    uint64_t began = hd_ticks();
    if (runner->promised) {
        hd_runner_two_threads(runner, "inside one context");
    }
    /* relaxed: only decides who yields */
    uint32_t n = atomic_fetch_add_explicit(&runner->refused, 1, memory_order_relaxed);
    hd_relax();
    if (vain) {
        *vain += hd_ticks() - began;
    }
    if (n % REFUSALS_PER_YIELD == REFUSALS_PER_YIELD - 1) {
        hd_give_way();
    }
}

/* The caller does nothing else than to wait: looks again and again, until `until`. */
static bool look_on(hd_runner_t *runner, uint64_t until) {
    enum { LOOKS_PER_CLOCK = 64 };
    const hd_task_t *only = runner->active->next ? NULL : runner->active;
    bool any = false;
    for (uint32_t looks = 1; looks < runner->max_polls && !any && hd_ticks() < until;) {
        if (only && only->awaited) {
            looks += LOOKS_PER_CLOCK;
            if (!hd_task_look(only, LOOKS_PER_CLOCK)) {
                continue;
            }
        } else {
            hd_relax();
        }
        any = step_all(runner, &looks);
    }
    return any;
}

/* By whoever entered, and has found nothing for the last of many times. */
static __attribute__((noinline, cold)) bool leave_and_glance(hd_runner_t *runner) {
    runner->until_glance = GLANCE_EVERY;
    hd_runner_leave(runner);
    /* relaxed: see hd_runner_glance */
    hd_glance_fn glance = atomic_load_explicit(&runner->glance, memory_order_relaxed);
    if (glance) {
        glance();
    }
    return false;
}

static void doze(hd_runner_t *runner);

/* By whoever entered. enlisted: it looks for the last time before it sleeps. */
static inline __attribute__((always_inline)) bool round_of(hd_runner_t *runner, uint64_t *vain,
                                                           bool enlisted) {
    hd_runner_take_in(runner);
    hd_checked(hd_runner_check(runner));
    if (!runner->active && !vain) {   /* idle loops call again and again: no clock, no yield */
        hd_assert(!runner->finished); /* or the task that was abandoned would be active */
        if (__builtin_expect(--runner->until_glance == 0, 0)) {
            return leave_and_glance(runner);
        }
        hd_runner_leave(runner);
        return false;
    }
    uint32_t looks = 0;
    /* with many tasks the first round is most of the time spent; for one a clock costs too much */
    uint64_t began = 0;
    if (runner->active && runner->active->next) {
        began = hd_ticks();
        if (__builtin_expect(began > runner->look_due, 0)) { /* others finish, and one may not */
            look_after_all(runner, began);
        }
    }
    bool any = step_all(runner, &looks);
    if (any) {
        hd_idle_reset(&runner->idle);
    } else {
        if (!began) {
            began = hd_ticks();
            if (__builtin_expect(began > runner->look_due, 0)) {
                look_after_all(runner, began);
            }
        }
        if (runner->active && hd_idle_is_tight(&runner->idle, began)) {
            any = look_on(runner, began + hd_idle_left(&runner->idle));
        }
    }
    hd_checked(hd_runner_check(runner));
    hd_task_t *finished = runner->finished;
    runner->finished = NULL;
    hd_runner_leave(runner);
    if (any) {
        if (enlisted) { /* the clients' callbacks may do anything */
            hd_runner_rise();
        }
        if (hd_complete_all(runner, finished)) {
            hd_bell_ring(&runner->bell);
        }
        return true;
    }
    if (enlisted) { /* it gives its processor up by sleeping */
        return false;
    }
    /* outside the lock: nobody should have to wait for a thread that yields */
    uint64_t looked = hd_idle_note(&runner->idle, began, runner->yield_max, runner);
    if (vain) {
        *vain = looked == HD_IDLE_SLEEP ? looked : *vain + looked;
    } else if (looked == HD_IDLE_SLEEP) {
        doze(runner);
    }
    return false;
}

/* *refused: another thread was inside, so nothing was looked at. */
static inline bool progress(hd_runner_t *runner, uint64_t *vain, bool *refused, bool enlisted) {
    *refused = !hd_runner_enter(runner);
    if (*refused) {
        back_off(runner, vain);
        return false;
    }
    return round_of(runner, vain, enlisted);
}

bool hd_runner_progress(hd_runner_t *runner, uint64_t *vain) {
    bool refused;
    return progress(runner, vain, &refused, false);
}

static __attribute__((noinline)) ucc_status_t refuse(hd_runner_t *runner) {
    if (hd_callback_refuses("ucc_context_progress")) {
        return UCC_ERR_INVALID_PARAM;
    }
    back_off(runner, NULL);
    return UCC_OK;
}

ucc_status_t hd_runner_poll(hd_runner_t *runner) {
    if (!hd_runner_enter(runner)) {
        return refuse(runner);
    }
    round_of(runner, NULL, false);
    return UCC_OK;
}

/* --- sleeping --------------------------------------------------------------------------------- */

/* Nobody has told of what is awaited for so long: a peer may have called something else. */
static void look_closely(hd_runner_t *runner) {
    enum { LOOKS = 64 };
    bool any = false, refused = false;
    for (uint32_t i = 0; i < LOOKS && !any && !refused && hd_runner_enter(runner); i++) {
        for (hd_task_t *task = runner->active; task; task = task->next) {
            task->fruitless = HD_WATCH_EVERY - 1;
        }
        hd_runner_leave(runner);
        any = progress(runner, NULL, &refused, true);
    }
}

/* Sleeps until something rings, at most `limit` ticks from now; task: it waits for the end of that,
 * or NULL. Returns the outside for whose sake it has slept, too; or NULL. */
static hd_fd_waiter_t *sleep_once(hd_runner_t *runner, hd_task_t *task, uint64_t limit,
                                  uint64_t may_spin) {
    enum { NAP_US = 500, LONGEST_US = 100000 };
    hd_night_t night;
    hd_night_init(&night);
    uint64_t longest = hd_night_find_groups(runner, task, &night) ? LONGEST_US : NAP_US;
    hd_night_enlist(runner, &night);
    bool rung = true, refused, any = progress(runner, NULL, &refused, true); /* the last look */
    if (night.over) {
        return night.outside;
    }
    if (!any && (!task || hd_task_status(task) == UCC_INPROGRESS)) {
        uint64_t us = limit / hd_ticks_per_us;
        /* refused: it was no look, something may have come before; or it waits for something else
         * now */
        longest = refused || !hd_night_bells_tell(runner, &night) ? NAP_US : longest;
        us = us < longest ? us : longest;
        us = night.until_deadline < us ? night.until_deadline : us;
        uint64_t began = hd_ticks();
        hd_processor_yields(began);
        if (night.outside) {
            rung = hd_fd_waiter_sleep(night.outside, night.word, &night.event, us * 1000u);
        } else {
            rung = hd_night_sleep(&night, us);
        }
        if (!night.often) {
            hd_idle_slept(&runner->idle, may_spin, hd_ticks() - began, rung);
        }
    }
    hd_night_end(&night);
    if (!rung && night.awaited.has_come) { /* what else happened in the group has woken nobody */
        look_closely(runner);
    }
    return night.outside;
}

static bool any_impatient(hd_runner_t *runner) {
    if (!hd_runner_enter(runner)) {
        return true;
    }
    bool any = false;
    for (const hd_task_t *task = runner->active; task && !any; task = task->next) {
        any = task->impatient;
    }
    hd_runner_leave(runner);
    return any;
}

/* Instead of a yield: the caller may have more to do, so not for long. */
static __attribute__((noinline, cold)) void doze(hd_runner_t *runner) {
    enum { DOZE_US = 500 };
    if (any_impatient(runner)) {
        hd_give_way();
        return;
    }
    hd_fd_waiter_t *outside = sleep_once(runner, NULL, DOZE_US * hd_ticks_per_us, 0);
    if (outside) {
        hd_fd_waiter_leave(outside);
    }
}

/* Who sleeps looks idle, so the system leaves processes that wait for each other on one processor;
 * and each message takes a wake-up there. Where all have processors, they look for so many times as
 * long. */
enum { ROOMY_SPINS = 128 };

/* *outside: for whose sake this thread has slept; it leaves that when it has waited. */
static ucc_status_t wait_or_sleep(hd_runner_t *runner, hd_task_t *task, double timeout,
                                  bool may_park, uint64_t park_after_us, hd_fd_waiter_t **outside) {
    uint64_t began = 0, limit = UINT64_MAX, vain = 0;
    /* Counted in time spent looking, not in time passed: among many runnable threads of ours a wait
       takes long although nobody sleeps, and a yield per turn costs far less than a sleep and a
       wake-up. Beside strangers it is the other way round (wait.c): HD_IDLE_SLEEP. */
    uint64_t may_spin = park_after_us * hd_ticks_per_us,
             spin = hd_idle_spin(&runner->idle, may_spin);
    uint64_t roomy_spin = may_spin * ROOMY_SPINS;
    if (timeout >= 0 && timeout < 1e9) {
        limit = hd_seconds_to_ticks(timeout);
        began = hd_ticks();
    }
    for (;;) {
        if (hd_runner_progress(runner, &vain)) {
            vain = 0;
        }
        ucc_status_t status = hd_task_status(task);
        if (status != UCC_INPROGRESS) {
            if (hd_trace_is_on()) {
                hd_trace_waited(task);
            }
            return status;
        }
        if (hd_callback_refuses("heddle_wait")) {
            return UCC_ERR_INVALID_PARAM;
        }
        uint64_t passed = limit == UINT64_MAX ? 0 : hd_ticks() - began;
        if (passed >= limit) {
            if (vain >= HD_IDLE_SLEEP) { /* a yield was due, and there is no time left to sleep */
                hd_give_way();
            }
            return UCC_INPROGRESS;
        }
        if (!may_park || vain < spin) {
            continue;
        }
        if (vain < roomy_spin && spin < roomy_spin && hd_runner_is_roomy(runner)) {
            spin = roomy_spin;
            continue;
        }
        hd_fd_waiter_t *slept = sleep_once(runner, task, limit - passed, may_spin);
        *outside = slept ? slept : *outside;
        bool at_once = vain >= HD_IDLE_SLEEP;
        spin = spin == roomy_spin ? spin : hd_idle_spin(&runner->idle, may_spin);
        /* a few looks between two sleeps: some errors are found by looking */
        vain = at_once ? 0 : spin - may_spin / 16;
    }
}

static ucc_status_t wait(hd_runner_t *runner, hd_task_t *task, double timeout, bool may_park,
                         uint64_t park_after_us) {
    hd_fd_waiter_t *outside = NULL;
    ucc_status_t status = wait_or_sleep(runner, task, timeout, may_park, park_after_us, &outside);
    if (outside) {
        hd_fd_waiter_leave(outside);
    }
    return status;
}

ucc_status_t hd_runner_wait(hd_runner_t *runner, hd_task_t *task, double timeout, bool may_park,
                            uint64_t park_after_us) {
    if (!runner->promised) {
        return wait(runner, task, timeout, may_park, park_after_us);
    }
    /* relaxed, here and in hd_runner_waited_in: a detector, not a lock */
    int32_t me = hd_thread_number();
    int32_t before = atomic_load_explicit(&runner->waiter, memory_order_relaxed);
    atomic_store_explicit(&runner->waiter, me, memory_order_relaxed);
    if (before && before != me) {
        hd_runner_two_threads(runner, "waiting in one context");
    }
    ucc_status_t status = wait(runner, task, timeout, may_park, park_after_us);
    if (before != me) {
        atomic_store_explicit(&runner->waiter, 0, memory_order_relaxed);
    }
    return status;
}

bool hd_runner_waited_in(hd_runner_t *runner) {
    int32_t waiter = atomic_load_explicit(&runner->waiter, memory_order_relaxed);
    return waiter && waiter != hd_thread_number();
}
