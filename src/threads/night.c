/* night.c: what a thread does around its sleep: it finds the groups in which its context has work,
 * enlists on their bells, and leaves them when it rises. When a night begins, and how long it
 * lasts, sleep_once of runner.c decides; park.c says why no wake-up is lost. A night belongs to the
 * thread on whose stack it lies. Only hd_runner_rise is called by others: by whoever is about to
 * run user's code on that thread.
 */
#include "threads/night.h"

#include "threads/list.h"
#include "threads/fd_waiter.h"
#include "threads/strangers.h"

#include <pthread.h>

#define ALL UINT32_MAX /* a mask: whoever sleeps on the word */

/* The calling thread's, while it looks for the last time; initial-exec: one load */
static _Thread_local __attribute__((tls_model("initial-exec"))) hd_night_t *tonight;

void hd_night_init(hd_night_t *night) {
    *night = (hd_night_t){.n_groups = 0, .until_deadline = UINT64_MAX};
    atomic_init(&night->own_word, 0);
    atomic_init(&night->event, -1);
    night->mask = ALL;
    night->often = hd_processor_has_strangers(hd_ticks());
}

/* Nothing tells of what this task waits for but looking. */
static bool needs_looks(const hd_task_t *task, const hd_fd_waiter_t *outside) {
    bool announced = outside && task->home && task->home->fd_waiter == outside &&
                     task->impatient != HD_UNANNOUNCED;
    return task->impatient && !announced;
}

/* What the context's only task waits for, as far as its group can tell. Under the runner's lock. */
static hd_awaited_t awaited_in(const hd_runner_t *runner) {
    hd_awaited_t awaited = {0};
    const hd_task_t *task = runner->active;
    if (task && !task->next && !task->impatient && task->home && task->home->awaits) {
        task->home->awaits(task, &awaited);
    }
    return awaited;
}

/* Was the home enlisted on? A task that has come since then may be of another group. */
static bool is_of(const hd_night_t *night, const hd_home_t *home) {
    uint32_t i = 0;
    while (i < night->n_groups && night->home[i] != home) {
        i++;
    }
    return i < night->n_groups || !home;
}

/* Would a bell tell of all that the context's tasks wait for now? */
bool hd_night_bells_tell(hd_runner_t *runner, const hd_night_t *night) {
    if (!hd_runner_enter(runner)) {
        return false;
    }
    bool tell = true;
    for (const hd_task_t *task = runner->active; task && tell; task = task->next) {
        tell = !needs_looks(task, night->outside) && is_of(night, task->home);
    }
    if (tell && night->awaited.has_come) { /* it was enlisted for that */
        hd_awaited_t now = awaited_in(runner);
        tell = now.has_come == night->awaited.has_come && now.where == night->awaited.where &&
               now.value == night->awaited.value;
    }
    hd_runner_leave(runner);
    return tell;
}

/* Finds every group in which this context has work, and pins it; false if that is not all that
 * may end the wait (another thread is inside the context, or is posting or completing the
 * awaited task; or there are too many groups): then the sleep must be short. */
bool hd_night_find_groups(hd_runner_t *runner, const hd_task_t *awaited, hd_night_t *night) {
    if (!hd_runner_enter(runner)) {
        return false;
    }
    bool all = true, found = !awaited || awaited->queued;
    hd_runner_take_in(runner);
    uint64_t now = hd_ticks(), look = runner->look_due > now ? runner->look_due - now : 0;
    night->until_deadline = look / hd_ticks_per_us + 1;
    for (hd_task_t *task = runner->active; task; task = task->next) {
        uint32_t i = 0;
        found = found || task == awaited;
        if (task->impatient && task->home && !night->outside) {
            night->outside = task->home->fd_waiter;
        }
        all = all && !needs_looks(task, night->outside);
        task->fruitless = HD_WATCH_EVERY - 1; /* the look that follows is a close one */
        if (task->deadline) {
            uint64_t us = task->deadline > now ? (task->deadline - now) / hd_ticks_per_us + 1 : 0;
            night->until_deadline = us < night->until_deadline ? us : night->until_deadline;
        }
        while (i < night->n_groups && night->home[i] != task->home) {
            i++;
        }
        if (i < night->n_groups || !task->home) {
            continue;
        }
        if (i == HD_NIGHT_BELLS) {
            all = false;
            break;
        }
        hd_home_pin(task->home);
        night->home[i] = task->home;
        night->n_groups++;
    }
    for (uint32_t i = 0; i < night->n_groups; i++) {
        night->n_far += night->home[i]->bell.fars != NULL;
    }
    night->awaited = awaited_in(runner);
    hd_runner_leave(runner);
    return all && found && !(night->outside && night->n_far); /* a descriptor, or a word */
}

/* False: before it sleeps it must pass a fence. */
static bool enlist(hd_bell_t *bell, hd_sleeper_t *sleeper, hd_night_t *night, uint32_t mask) {
    sleeper->word = night->word;
    sleeper->event = night->outside ? &night->event : NULL;
    sleeper->mask = mask;
    sleeper->by_far = night->by_far;
    return hd_bell_enlist(bell, sleeper, night->often);
}

/* The word on which all is announced by this process; what others announce is on those of the far
 * bells (hd_night_sleep). Returns whether it is a bell's, who gives it a mask. */
static bool choose_word(hd_night_t *night) {
    bool one = night->n_groups == 1 && !night->outside;
    night->word = one ? hd_bell_word(&night->home[0]->bell) : &night->own_word;
    night->by_far = one && night->n_far;
    return one;
}

static void enlist_on_all(hd_runner_t *runner, hd_night_t *night) {
    bool watched = true, one = choose_word(night);
    for (uint32_t i = 0; i < night->n_groups; i++) {
        hd_bell_t *bell = &night->home[i]->bell;
        night->group[i].awaited = night->awaited; /* of one group, or none */
        if (bell->fars) {                         /* relaxed: before the last look, that is all */
            night->rings[i] =
                atomic_load_explicit(&bell->fars[bell->far].rings, memory_order_relaxed);
        }
        watched &= enlist(bell, &night->group[i], night, ALL);
    }
    if (night->outside) {
        watched &= enlist(&night->outside->bell, &night->watching, night, ALL);
    }
    night->mask = one ? night->group[0].mask : ALL;
    watched &= enlist(&runner->bell, &night->own, night, night->mask);
    if (watched) {
        atomic_thread_fence(memory_order_seq_cst); /* ringers fence, too */
        return;
    }
    hd_park_fence(night->n_far);
    for (uint32_t i = 0; i < night->n_groups; i++) {
        hd_bell_begin_watch(&night->group[i]);
    }
    if (night->outside) {
        hd_bell_begin_watch(&night->watching);
    }
    hd_bell_begin_watch(&night->own);
}

static void delist_all(hd_night_t *night) {
    hd_bell_delist(&night->own);
    if (night->outside) {
        hd_bell_delist(&night->watching);
    }
    for (uint32_t i = 0; i < night->n_groups; i++) {
        hd_bell_delist(&night->group[i]);
    }
}

void hd_night_end(hd_night_t *night) {
    delist_all(night);
    night->over = true;
    tonight = NULL;
    for (uint32_t i = 0; i < night->n_groups; i++) { /* which may end a group, and more */
        hd_home_unpin(night->home[i]);
    }
    pthread_setcancelstate(night->cancelling, NULL);
}

void hd_night_enlist(hd_runner_t *runner, hd_night_t *night) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &night->cancelling);
    enlist_on_all(runner, night);
    tonight = night;
}

void hd_runner_rise(void) {
    hd_night_t *night = tonight;
    if (night) {
        hd_night_end(night);
        if (night->outside) {
            hd_fd_waiter_leave(night->outside); /* the user's code may never return */
        }
    }
}

static bool is_rung_from_far(const hd_bell_t *bell, uint32_t before) {
    /* relaxed: who has read the bumped word (acquire) sees it, as in hd_sleeper_is_rung */
    return bell->fars &&
           atomic_load_explicit(&bell->fars[bell->far].rings, memory_order_relaxed) != before;
}

static bool is_rung(const hd_night_t *night) {
    bool rung =
        hd_sleeper_is_rung(&night->own) || (night->outside && hd_sleeper_is_rung(&night->watching));
    for (uint32_t i = 0; i < night->n_groups && !rung; i++) {
        rung = hd_sleeper_is_rung(&night->group[i]) ||
               is_rung_from_far(&night->home[i]->bell, night->rings[i]);
    }
    return rung;
}

/* Several words: mine, and those of the far bells. */
typedef struct words {
    _Atomic uint32_t *word[1 + HD_NIGHT_BELLS];
    uint32_t seen[1 + HD_NIGHT_BELLS], n;
} words_t;

static void see(words_t *words, _Atomic uint32_t *word) {
    words->word[words->n] = word;
    /* acquire: who has rung me is seen, or will have bumped the word since */
    words->seen[words->n++] = atomic_load_explicit(word, memory_order_acquire);
}

static void see_all(const hd_night_t *night, words_t *words) {
    words->n = 0;
    see(words, night->word);
    for (uint32_t i = 0; i < night->n_groups && !night->by_far; i++) {
        if (night->home[i]->bell.fars) {
            see(words, hd_bell_word(&night->home[i]->bell));
        }
    }
}

static bool sleep_on(const hd_night_t *night, const words_t *words,
                     const struct timespec *deadline) {
    return words->n == 1
               ? hd_park_until(words->word[0], words->seen[0], night->mask, night->by_far, deadline)
               : hd_park_until_any(words->word, words->seen, words->n, deadline);
}

/* False: the time is over. */
bool hd_night_sleep(hd_night_t *night, uint64_t us) {
    enum { US = 1000000, NS_PER_US = 1000 };
    struct timespec deadline;
    words_t words;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    uint64_t ns = (uint64_t)deadline.tv_nsec + us % US * NS_PER_US;
    deadline.tv_sec += (time_t)(us / US + ns / (US * NS_PER_US));
    deadline.tv_nsec = (long)(ns % (US * NS_PER_US));
    do { /* the words are bumped for others, too */
        see_all(night, &words);
    } while (!is_rung(night) && sleep_on(night, &words, &deadline));
    return is_rung(night);
}
