/* threads.h: the runtime that all stages run on: contexts, tasks, progress, waiting, bells.
 *
 * A TASK is one posted collective at one endpoint. Its first member is the request that clients
 * poll inline, so a ucc_coll_req_h is a hd_task_t. It belongs to exactly one CONTEXT from post to
 * completion; only the thread that holds that context's lock steps it. Its states, as clients see
 * them in req.status:
 *
 *     UCC_OPERATION_INITIALIZED --post--> UCC_INPROGRESS --step--> UCC_OK or an error
 *                ^                                                    |
 *                +---------------- persistent re-post (UCC_OK only) --+
 *
 * Life of a context's list: post pushes a task on `incoming` (a stack that many threads push on and
 * the lock holder takes whole); the lock holder moves tasks to `active`, steps them, and puts those
 * that finished on a list of its own; after unlocking it completes them: status, then callback.
 * Whatever a step touches of the group, it touches before the status is published: after that the
 * client may finalize the request, destroy the team, or free its buffers.
 *
 * A BELL is where sleepers of a group (or of a context) register. Whoever publishes something that
 * could let a peer go on rings it; ringing costs one load of a read-mostly word when nobody sleeps.
 */
#ifndef HD_THREADS_H
#define HD_THREADS_H

#include "core/debug.h"
#include "threads/lock.h"

#include <stdalign.h>
#include <stddef.h>
#include <time.h>
#include <ucc/api/ucc.h>

typedef struct hd_task hd_task_t;
typedef struct ucc_context hd_context_t;

/* --- words to sleep on (futex.c) -------------------------------------------------------------- */

/* Writes to an event descriptor. */
void hd_park_signal(int event);
/* Wakes those who sleep on the word with a bit of the mask. Its memory may be gone: then nobody
 * sleeps there. far: some of them know the word by another mapping. */
void hd_park_wake(_Atomic uint32_t *word, uint32_t mask, bool far);
/* Sleeps while *word == seen, at most timeout_ns (UINT64_MAX: for ever). */
void hd_park_sleep(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns);
/* The same by those who share a word, until `deadline` (CLOCK_MONOTONIC). False: it is over. */
bool hd_park_until(_Atomic uint32_t *word, uint32_t seen, uint32_t mask, bool far,
                   const struct timespec *deadline);
/* The same on several words, all far but the first, while each is what was seen; at most 128. */
bool hd_park_until_any(_Atomic uint32_t *const word[], const uint32_t seen[], uint32_t n,
                       const struct timespec *deadline);

/* --- bells (park.c) --------------------------------------------------------------------------- */

typedef struct hd_sleeper hd_sleeper_t;

/* Where the memory that a bell tells of is mapped several times (by several processes), each
 * mapping has a bell of its own, whose first line is the same memory; and of each of them the
 * others see this, in that memory. */
typedef struct hd_far_bell {
    alignas(64) _Atomic uint32_t word; /* the futex of those who sleep there */
    _Atomic uint32_t rings;            /* by others, ever */
    _Atomic uint32_t asleep;           /* so many are enlisted there */
    /* What they wait for, all of them: so many words that have this value, the first of them so far
     * from the bell; or that somebody has raised an alarm since. n_words is 0: it is not known. */
    _Atomic uint32_t n_words, alarms;
    _Atomic ptrdiff_t first, stride;
    _Atomic uint64_t value;
} hd_far_bell_t;

typedef struct hd_bell {
    /* HD_BELL_SLEEPER for each that is not rung yet; + HD_BELL_WATCHED, _FENCED; read by every
     * ringer */
    alignas(64) _Atomic uint32_t sleepers;
    _Atomic uint32_t alarms;        /* raised ever: read by those who ring for other mappings */
    _Atomic uint64_t watched_until; /* ticks */
    /* From here on it is this mapping's. */
    alignas(64) hd_lock_t lock; /* guards what follows */
    hd_sleeper_t *list;
    uint32_t masks;      /* in use among those who sleep for this bell above all */
    uint32_t n_far, far; /* mappings, which of them this one is */
    hd_far_bell_t *fars; /* of all of them; NULL: there is no other */
    size_t reach;
    _Atomic uint32_t word;
} hd_bell_t;

/* The futex of all who sleep for this bell above all: one call wakes them. */
static inline _Atomic uint32_t *hd_bell_word(hd_bell_t *bell) {
    return bell->fars ? &bell->fars[bell->far].word : &bell->word;
}

/* A bell is watched while its sleepers come and go often: then every ringer fences, and looks
 * whether somebody sleeps. FENCED: so has every ringer that came before the watch began, whose
 * first sleeper has stopped all processors once. From then on who falls asleep need not do that
 * (park.c). */
enum { HD_BELL_WATCHED = 1, HD_BELL_FENCED = 2, HD_BELL_SLEEPER = 4 };

/* What a sleeper waits for, for those who ring to see whether that is there. A copy: its task may
 * end meanwhile. */
typedef struct hd_awaited hd_awaited_t;
struct hd_awaited {
    /* By who rings, under the bell's lock. NULL: any ring may be what is waited for. */
    bool (*has_come)(const hd_awaited_t *awaited);
    const void *home, *where;
    uint64_t value;
    uint32_t losses; /* of the home, when this was asked: more of them may end the wait, too */
    /* The same for those who have the home's memory elsewhere: so many words are awaited, so far
     * from each other, all of `value`; 0: they can't be told. */
    uint32_t n_words;
    const _Atomic uint64_t *first;
    ptrdiff_t stride;
};

/* Lives on the sleeper's stack: it is unlinked, under the bell's lock, before the sleeper returns,
 * and before it calls user's code, which may never return. */
struct hd_sleeper {
    _Atomic uint32_t
        *word; /* the futex the ringer bumps and wakes: the bell's, or the sleeper's own */
    _Atomic int
        *event; /* NULL, or an event descriptor that it signals unless that is -1 (fd_waiter.h) */
    uint32_t mask;     /* whom of those on that word it wakes */
    _Atomic bool rung; /* set before the word is bumped; never reset */
    bool begins;       /* its enlisting began the bell's watch */
    bool by_far;       /* the word is that of a bell that is one of several */
    hd_awaited_t awaited;
    hd_bell_t *bell;
    hd_sleeper_t *next;
};

/* Once per process: registers for membarrier(PRIVATE_EXPEDITED) if the kernel has it. */
void hd_park_init(void);
extern bool hd_park_has_membarrier;
/* By each process of those that share a bell, before it does: the same for GLOBAL_EXPEDITED. False:
 * this process is not reached by the others' barriers. */
bool hd_park_init_far(void);
/* Before anybody knows the bell: it is one of several, of that number. reach: so many bytes before
 * the bell are the memory that it tells of. */
void hd_bell_is_far(hd_bell_t *bell, hd_far_bell_t *fars, uint32_t n, uint32_t number,
                    size_t reach);
/* Something has happened that ends all waits; the ring that follows passes by nobody. */
static inline void hd_bell_alarm(hd_bell_t *bell) {
    /* relaxed: read by the ring that follows, and by later ones */
    atomic_fetch_add_explicit(&bell->alarms, 1, memory_order_relaxed);
}

void hd_bell_wake(hd_bell_t *bell);
/* The sleeper that came last, for it to do something for all. */
void hd_bell_wake_one(hd_bell_t *bell);
/* In the child of a fork: nobody sleeps. */
void hd_bell_forget(hd_bell_t *bell);

/* Called after a release store that may end somebody's wait. With membarrier the sleeper pays for
 * the store-load order: it bumps `sleepers`, makes every running thread of the process execute a
 * full barrier, and only then looks again. So either this load sees the sleeper, or the sleeper's
 * second look sees the store. Without membarrier both sides are sequentially consistent. */
static inline void hd_bell_ring(hd_bell_t *bell) {
    uint32_t sleepers;
    if (__builtin_expect(hd_park_has_membarrier, 1)) {
        atomic_signal_fence(
            memory_order_seq_cst); /* compiler only: the load stays below the store */
        sleepers = atomic_load_explicit(&bell->sleepers, memory_order_relaxed); /* see above */
    } else {
        sleepers =
            atomic_fetch_add_explicit(&bell->sleepers, 0, memory_order_seq_cst); /* see above */
    }
    if (__builtin_expect(sleepers != 0, 0)) {
        hd_bell_wake(bell);
    }
}

/* The sleeper's word, event and awaited are set; so is its mask, unless the word is this bell's:
 * that gives it one. */
/* often: the bell is watched from now on. True: all its ringers fence, and have fenced, so this
 * sleeper needs no hd_park_fence. */
bool hd_bell_enlist(hd_bell_t *bell, hd_sleeper_t *sleeper, bool often);
/* After the hd_park_fence that follows the enlisting: says so to those who come later, if the watch
 * began with it. */
void hd_bell_begin_watch(const hd_sleeper_t *sleeper);
void hd_bell_delist(hd_sleeper_t *sleeper);
static inline bool hd_sleeper_is_rung(const hd_sleeper_t *sleeper) {
    /* relaxed: who has read the bumped word (acquire) sees it, and who has not will not sleep on it
     */
    return atomic_load_explicit(&sleeper->rung, memory_order_relaxed);
}
/* Between enlisting everywhere and the last look: makes the enlisting visible to all ringers; far:
 * also to those of other processes. */
void hd_park_fence(bool far);

/* What threads/ knows of a group: the first member of hd_group. A sleeper pins it, because another
 * thread may complete the group's last task and destroy the team while this one is still
 * enlisted. */
typedef struct hd_home hd_home_t;
struct hd_home {
    hd_bell_t bell;
    _Atomic uint32_t refs; /* endpoints, sleepers, and whoever is creating it */
    struct hd_fd_waiter
        *fd_waiter; /* what its impatient tasks wait for (fd_waiter.h); NULL: nothing of the kind */
    /* What this task of it waits for, and nothing else; NULL: nobody knows. */
    void (*awaits)(const hd_task_t *task, hd_awaited_t *awaited);
    void (*release)(hd_home_t *home);
    /* members wait for other processes, and there are processors for all of them: see wait.c */
    bool roomy;
};

static inline void hd_home_pin(hd_home_t *home) {
    /* relaxed: the caller already holds a reference, or the lock of a context with a live task */
    uint32_t before = atomic_fetch_add_explicit(&home->refs, 1, memory_order_relaxed);
    hd_assert_lt(0, before);
    (void)before;
}

static inline void hd_home_unpin(hd_home_t *home) {
    /* acq_rel: everybody's last accesses happen before the release of the memory */
    uint32_t before = atomic_fetch_sub_explicit(&home->refs, 1, memory_order_acq_rel);
    hd_assert_lt(0, before);
    if (before == 1) {
        home->release(home);
    }
}

/* Serial numbers of objects that endpoints meet by; never reused, unlike addresses. */
uint64_t hd_serial(void);

/* --- tasks ------------------------------------------------------------------------------------ */

enum { HD_IMPATIENT = 1, HD_UNANNOUNCED = 2 };

struct hd_task {
    ucc_coll_req_t req; /* must stay first: clients read req.status */
    uint32_t magic;     /* HD_TASK_LIVE or _HOOKED between init and finalize */
    hd_context_t *context;
    hd_task_t *next; /* on `incoming`, `active`, a finished list, or a free list */
    /* Does what can be done now. UCC_INPROGRESS, or the final status; then never called again. */
    ucc_status_t (*step)(hd_task_t *task);
    hd_home_t *home; /* the group it works in; NULL: none, and the context's bell announces all */
    /* HD_IMPATIENT: waits for something that no bell announces, so that sleepers only nap, or sleep
     * on its home's outside; HD_UNANNOUNCED: that does not announce it either */
    uint8_t impatient;
    bool queued;       /* in no context's list, but a bell will announce that it comes there */
    bool listed;       /* calls user's code, and is stepped by its context: see callback.h */
    uint64_t deadline; /* ticks; 0: none */
    /* A hint, from the last step that returned UCC_INPROGRESS: no use in another one before this
     * word has this value (unless something fails). NULL: nothing so simple. */
    const _Atomic uint64_t *awaited;
    uint64_t awaited_value;
    /* Lines that come with it: fetched again and again while looking, so that they arrive together.
     */
    const char *along;
    uint32_t n_along;
    /* Steps in vain. Every so many of them one looks more closely: for what no awaited word tells.
       So does the last one before its thread sleeps. */
    uint32_t fruitless;
    ucc_status_t outcome; /* final status, between the step that found it and its publication */
    ucc_coll_callback_t callback;
};

_Static_assert(offsetof(hd_task_t, req) == 0,
               "clients have the address of the task, and read a status");

/* HOOKED: post and finalize have more to do than usual (request/engine.c). SCHEDULE: no request,
 * but a schedule's carrier (schedule.h). */
enum {
    HD_TASK_LIVE = 0x7a5c11feu,
    HD_TASK_HOOKED = 0x7a5c400bu,
    HD_TASK_SCHEDULE = 0x7a5c5c4eu,
    HD_TASK_FREE = 0x0f4ee000u
};

static inline bool hd_task_is_live(const hd_task_t *task) {
    return task->magic == HD_TASK_LIVE || task->magic == HD_TASK_HOOKED ||
           task->magic == HD_TASK_SCHEDULE;
}
enum { HD_WATCH_EVERY = 16 }; /* steps in vain from one closer look to the next */

/* Looks at the awaited word up to `looks` times: true if it has come. No pause between the looks:
 * they are few, and the pause would be most of what a collective takes. */
static inline bool hd_task_look(const hd_task_t *task, uint32_t looks) {
    for (uint32_t i = 0; i < looks; i++) {
        for (uint32_t j = 0; j < task->n_along; j++) {
            __builtin_prefetch(task->along + j * (size_t)64);
        }
        /* relaxed: only a hint; the step that follows reads it again, with acquire */
        if (atomic_load_explicit(task->awaited, memory_order_relaxed) == task->awaited_value) {
            return true;
        }
    }
    return false;
}

static inline ucc_status_t hd_task_status(const hd_task_t *task) {
    return __atomic_load_n(&task->req.status, __ATOMIC_ACQUIRE); /* pairs with hd_task_complete */
}

/* The task may be gone when this returns. */
static inline void hd_task_publish(hd_task_t *task, ucc_status_t status) {
    hd_assert(hd_task_is_live(task));
    hd_assert(status <= UCC_OK);
    /* publishes results, and everything the step wrote, to whoever sees the status */
    __atomic_store_n(&task->req.status, status, __ATOMIC_RELEASE);
}

/* Publishes the final status and calls back. The task may be gone when this returns. */
static inline void hd_task_complete(hd_task_t *task, ucc_status_t status) {
    ucc_coll_callback_t callback = task->callback;
    hd_task_publish(task, status);
    if (callback.cb) {
        callback.cb(callback.data, status);
    }
}

/* --- contexts (runner.c, list.c, night.c) ----------------------------------------------------- */

/* Back-off state, in ticks. Atomic because it is kept after the context's lock is given back
 * (nobody should wait for a yielding thread); always relaxed: a lost update costs a yield more or
 * less. */
typedef struct hd_idle {
    _Atomic uint64_t last;   /* when the previous fruitless progress call returned */
    _Atomic uint64_t spent;  /* time spent looking in vain since the last yield */
    _Atomic uint64_t budget; /* yield when spent exceeds this; 0: at once */
    _Atomic uint32_t
        patience; /* spin 2^this times as long as set before sleeping (hd_idle_slept) */
} hd_idle_t;

/* A task in the list, between two steps: may say that it has waited long. Returns when (ticks) to
 * be called again at the latest. */
typedef uint64_t (*hd_look_after_fn)(hd_task_t *task, uint64_t now);

/* Looks at what lies outside of the process, and at which nobody looks whose contexts are all
 * empty. */
typedef void (*hd_glance_fn)(void);

/* What threads/ knows of a context; api/ embeds it as the first member of ucc_context. */
typedef struct hd_runner {
    bool multiple; /* several threads may call at once; else no lock is taken */
    bool promised; /* DEBUG_ORDER: takes the lock though callers promised to be one at a time */
    uint32_t max_polls;           /* looks per progress call when the caller does nothing else */
    bool may_doze;                /* may sleep where it would yield; set before first use */
    uint64_t yield_max;           /* ticks: longest time spent spinning between two yields */
    _Atomic(hd_glance_fn) glance; /* NULL: nothing is there to look at */
    alignas(64) hd_lock_t lock;
    uint32_t until_glance;            /* progress calls that find the context empty; under lock */
    hd_task_t *active, **active_tail; /* under lock */
    /* under lock; empty when it is given back, unless a round was abandoned: then a task is active
     */
    hd_task_t *finished;
    hd_idle_t idle; /* under lock */
    hd_look_after_fn look_after;
    uint64_t look_every; /* ticks between two rounds of it; 0: none */
    uint64_t look_due;   /* ticks of the next one; UINT64_MAX: never; under lock */
    alignas(64) _Atomic(hd_task_t *) incoming;
    _Atomic uint32_t refused;   /* progress calls that found the lock taken */
    _Atomic bool told;          /* promised: that two threads were seen */
    _Atomic int32_t waiter;     /* promised: the thread inside hd_runner_wait; 0: none */
    _Atomic uint32_t schedules; /* that it drives, and that are not over (schedule.h) */
    hd_bell_t bell; /* rung when a task completes or arrives: for threads that sleep here */
} hd_runner_t;

/* The runner is its context's first member (team/team.h). */
static inline hd_runner_t *hd_task_runner(const hd_task_t *task) {
    return (hd_runner_t *)(void *)task->context;
}

void hd_runner_init(hd_runner_t *runner, bool multiple, uint32_t max_polls, uint64_t yield_max_us);
/* In the child of a fork, before it goes on (inherit.c): nobody is in it. */
void hd_runner_unlock(hd_runner_t *runner);
/* There, too, and before that: tasks that another thread had taken out of all lists. Marks those
 * that are in one; says which are not; and puts such a task into the list, to be stepped, or if it
 * may have been stepped for the last time already, to end with UCC_ERR_NOT_SUPPORTED. */
void hd_runner_mark_listed(hd_runner_t *runner);
bool hd_task_is_lost(const hd_task_t *task);
void hd_runner_adopt(hd_runner_t *runner, hd_task_t *task, bool step);
#if HD_DEBUG >= 2 || defined(HD_TEST)
/* By whoever is inside: that the lists are whole, and that every task in them may be there. */
void hd_runner_check(const hd_runner_t *runner);
#endif
/* Before first use: calls this for every task about so often (ticks; 0: never), as long as somebody
 * progresses the context. */
void hd_runner_look_after(hd_runner_t *runner, hd_look_after_fn look_after, uint64_t every);
/* From now on every so many progress calls that find the context empty call this, under no lock.
 * Any thread. */
void hd_runner_glance(hd_runner_t *runner, hd_glance_fn glance);
/* True if no task is in it. */
bool hd_runner_is_empty(hd_runner_t *runner);
/* Hands over a task whose status is UCC_INPROGRESS; the caller must not touch it afterwards. */
void hd_runner_push(hd_runner_t *runner, hd_task_t *task);
/* One round over all tasks. True if any task finished, else the ticks spent looking in vain are
 * added to *vain. It waits for nobody, and may yield the processor. vain may be NULL: then it may
 * doze beside strangers instead of yielding, for half a millisecond at most (may_doze). */
bool hd_runner_progress(hd_runner_t *runner, uint64_t *vain);
/* The same for a caller that may do anything else: an error if it may not call now. */
ucc_status_t hd_runner_poll(hd_runner_t *runner);
/* promised: says, once, that two threads were seen where one may be. */
void hd_runner_two_threads(hd_runner_t *runner, const char *where);
/* promised: is another thread inside hd_runner_wait? */
bool hd_runner_waited_in(hd_runner_t *runner);
/* On behalf of a progress call that will not go on in a task's step: gives back the lock. What has
 * finished is completed in the next round. */
void hd_runner_abandon(hd_runner_t *runner);
/* Before the calling thread runs user's code: it is on no bell any more, and will look again before
 * it sleeps. */
void hd_runner_rise(void);
/* Progress, then sleep, until the task is done or `timeout` seconds have passed (negative: never).
 */
ucc_status_t hd_runner_wait(hd_runner_t *runner, hd_task_t *task, double timeout, bool may_park,
                            uint64_t park_after_us);

/* --- strangers (strangers.c) ------------------------------------------------------------------ */

/* Of the memory by which processes know each other's yields, a multiple of pages. */
size_t hd_processors_bytes(void);

/* All zero: none. */
typedef struct hd_processors_use {
    uint32_t forks; /* hd_forks() when it began */
    bool by_table;  /* processes know each other's yields */
    bool lacks;
} hd_processors_use_t;

/* From now on, this process waits for other processes of its machine. `memory`, which begins with a
 * page and was zero at first, is theirs and ours; `name` is the same for teams that use the same
 * memory, all but the first of which may pass NULL. With neither (NULL, 0), and where another name
 * is in use, it can't be mapped a second time or has times of another clock, they can't be told
 * from strangers: where they lack processors (`lacks`), nobody is taken for one then. */
hd_processors_use_t hd_processors_share(void *memory, uint64_t name, bool lacks);
/* Until now. */
void hd_processors_part(const hd_processors_use_t *use);

/* --- idling (wait.c) -------------------------------------------------------------------------- */

/* Does somebody else want the calling thread's processor? Measured by yielding, in vain for
 * hundreds of nanoseconds if nobody does. */
bool hd_processor_is_shared(void);

/* True if all its tasks are of roomy homes; false as well if another thread is inside. */
bool hd_runner_is_roomy(hd_runner_t *runner);
void hd_idle_init(hd_idle_t *idle);
/* The last yield found somebody else who wanted the processor. */
static inline bool hd_idle_is_crowded(const hd_idle_t *idle) {
    return atomic_load_explicit(&idle->budget, memory_order_relaxed) == 0; /* see hd_idle_t */
}
/* For whom we wait needs a processor: yields, or naps where a yield would hand ours to strangers.
 */
void hd_give_way(void);
/* True if the caller seems to do nothing but call progress on this context: then it pays to look
 * at the awaited line many times per call. */
bool hd_idle_is_tight(const hd_idle_t *idle, uint64_t now);
/* Ticks to look before the next yield is due: no use in looking longer than that in one call. */
uint64_t hd_idle_left(const hd_idle_t *idle);
/* A progress call that began at `began` found nothing. May yield. Returns the ticks spent looking,
 * without the yield: what a sleeper counts against the time it may spin. HD_IDLE_SLEEP: a yield is
 * due, but the caller should sleep at once instead. runner: whose it is, unless it only yields. */
#define HD_IDLE_SLEEP (UINT64_MAX / 2)
uint64_t hd_idle_note(hd_idle_t *idle, uint64_t began, uint64_t yield_max, hd_runner_t *runner);
/* How long to look in vain before sleeping, given what is set; and what a sleep teaches about that,
 * which has taken so many ticks, and was ended by a bell or not. */
static inline uint64_t hd_idle_spin(const hd_idle_t *idle, uint64_t may_spin) {
    return may_spin << atomic_load_explicit(&idle->patience,
                                            memory_order_relaxed); /* see hd_idle_t */
}
void hd_idle_slept(hd_idle_t *idle, uint64_t may_spin, uint64_t ticks, bool rung);
static inline void hd_idle_reset(hd_idle_t *idle) {
    atomic_store_explicit(&idle->spent, 0, memory_order_relaxed); /* see hd_idle_t */
}

#endif
