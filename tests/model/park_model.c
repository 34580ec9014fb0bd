/* park_model.c: bells and sleepers, src/threads/park.c, night.c, hd_bell_ring, and sleep_once of
 * runner.c, over memory with store buffers.
 *
 * A store goes into its thread's buffer and reaches memory later, in order (x86-TSO); a thread
 * reads its own buffer first. A read-modify-write empties the thread's buffer before it acts.
 * membarrier empties the buffers of all threads, one after the other, before it returns. Other
 * stores do not wait: that is what makes the ringer cheap, and what this model is about.
 *
 * The futex is the kernel's: comparing and falling asleep are one step, and waking ends a sleep
 * that has begun. Sleeps have no time limit here, so that a lost wake-up shows as a sleep for ever.
 *
 * Threads: sleepers wait for all events that are theirs; ringers publish an event each and ring its
 * bell. Sleepers on several bells have a word each, others share the bell's, which is woken after
 * its lock is free. Variant "helper": one sleeper and a thread that does one hd_runner_progress on
 * the same context at the same time. The peer's event is seen by whoever holds the context's lock
 * and looks; who sees it completes the task, then rings the context's bell. Variants "awaited":
 * both ringers ring one bell, and pass by a sleeper as long as they do not see both events.
 * "watched": the bell is watched from the beginning, and its watch never ends; "watch-ends": who
 * rings and finds nobody asleep ends it. "watch-begins": two sleepers of one event, the first of
 * whom begins the watch; "watch-comes-and-goes": it also ends; "watch-awaited": that, and both are
 * passed by.
 *
 * Properties: nobody sleeps for ever; nobody touches the word of a sleeper that has left.
 */
#include "buffered.h"
#include "explorer.h"

#include <string.h>

enum { MAX_THREADS = 4, MAX_BELLS = 2, MAX_SLEEPERS = 2, BUFFER = 4 };
_Static_assert((int)BUFFER <= (int)MODEL_BUFFER, "there is room for it");

/* memory: one cell each */
enum {
    EVENT_0,
    EVENT_1,
    TAKEN,  /* helper: the context's only task has been stepped to its end */
    STATUS, /* and its status has been published */
    SLEEPERS_0,
    SLEEPERS_1,
    BELL_LOCK_0,
    BELL_LOCK_1,
    LIST_0, /* bit per sleeper */
    LIST_1,
    RUNG_0, /* bit per sleeper */
    RUNG_1,
    WORD_0, /* futex word of sleeper 0; or the bell's */
    WORD_1,
    RUNNER_LOCK,
    CELLS
};

enum { WATCHED = 1, FENCED = 2, SLEEPER = 4 }; /* in SLEEPERS, as HD_BELL_ of threads.h */
enum { CONTEXT_BELL = 1 }; /* helper: bell 0 is the group's, bell 1 the context's */

/* planted bugs */
enum {
    NO_BUG,
    NO_MEMBARRIER,
    CHECK_BEFORE_ENLIST,
    RING_BEFORE_STORE,
    PLAIN_RING,
    WAKE_WITHOUT_BUMP,
    WAKE_WITHOUT_LOCK,
    GROUPS_SKIPPED,
    LAST_LOOK_SKIPPED,
    STATUS_NOT_RUNG,
    WATCHED_WITHOUT_FENCE,
    WATCH_READ_APART,
    WATCHED_AT_ONCE
};

/* where a thread is */
enum {
    /* a sleeper */
    S_LOOK,
    S_LOCK,
    S_LINK,
    S_COUNT,
    S_UNLOCK,
    S_GROUPS_TRY, /* helper: hd_night_find_groups */
    S_GROUPS_LEAVE,
    S_BARRIER,
    S_FENCED,   /* hd_bell_begin_watch */
    S_LAST_TRY, /* helper: hd_runner_progress */
    S_LAST,
    S_LAST_LEAVE,
    S_STATUS,
    S_SEEN,
    S_SLEEP,
    S_ASLEEP,
    D_LOCK,
    D_UNLINK,
    D_COUNT,
    D_UNLOCK,
    /* a thread that looks once and does not sleep */
    P_TRY,
    P_LOOK,
    P_LEAVE,
    /* who saw the event completes the task */
    C_STATUS,
    /* a ringer */
    R_STORE,
    R_RING,
    R_FENCE,
    R_END, /* end_watch */
    R_LOCK,
    R_NEXT,
    R_COUNT,
    R_MARK,
    R_BUMP,
    R_WAKE,
    R_UNLOCK,
    R_WAKE_ALL,
    GONE
};

typedef struct thread {
    uint8_t at;
    uint8_t after_ring; /* where to go on */
    uint8_t bell;       /* being enlisted on, delisted from, or rung */
    uint8_t event;      /* a ringer's */
    uint8_t cursor;     /* membarrier: threads done; waking: sleepers done */
    uint8_t enlisted;   /* bit per bell */
    uint8_t saw;        /* the last look was successful */
    uint8_t fenced;     /* all its bells were watched and fenced: it needs no membarrier */
    uint8_t begins;     /* it began the watch of its bell */
    uint8_t seen;       /* the word, before it sleeps */
    uint8_t mine;       /* waking: those on the bell's word */
    model_buffer_t stores;
} thread_t;

typedef struct state {
    uint8_t memory[CELLS];
    thread_t t[MAX_THREADS];
} state_t;

typedef struct variant {
    uint8_t sleepers, ringers;
    bool helper, fallback;
    bool awaited; /* all ringers have one bell */
    bool watched, begins, ends;
} variant_t;

enum {
    ONE,
    TWO_BELLS,
    TWO_SLEEPERS,
    FALLBACK,
    HELPER,
    HELPER_FALLBACK,
    AWAITED,
    AWAITED_FALLBACK,
    WATCHED_BELL,
    WATCH_ENDS,
    WATCH_BEGINS,
    WATCH_COMES_AND_GOES,
    WATCH_AWAITED
};

static const char *const variant_names[] = {"one",           "two-bells",
                                            "two-sleepers",  "fallback",
                                            "helper",        "helper-fallback",
                                            "awaited",       "awaited-fallback",
                                            "watched",       "watch-ends",
                                            "watch-begins",  "watch-comes-and-goes",
                                            "watch-awaited", NULL};
static const variant_t variants[] = {
    [ONE] = {.sleepers = 1, .ringers = 1},
    [TWO_BELLS] = {.sleepers = 1, .ringers = 2},
    [TWO_SLEEPERS] = {.sleepers = 2, .ringers = 1},
    [FALLBACK] = {.sleepers = 1, .ringers = 2, .fallback = true},
    [HELPER] = {.sleepers = 1, .ringers = 1, .helper = true},
    [HELPER_FALLBACK] = {.sleepers = 1, .ringers = 1, .helper = true, .fallback = true},
    [AWAITED] = {.sleepers = 1, .ringers = 2, .awaited = true},
    [AWAITED_FALLBACK] = {.sleepers = 1, .ringers = 2, .awaited = true, .fallback = true},
    [WATCHED_BELL] = {.sleepers = 1, .ringers = 2, .awaited = true, .watched = true},
    [WATCH_ENDS] = {.sleepers = 1, .ringers = 2, .awaited = true, .watched = true, .ends = true},
    [WATCH_BEGINS] = {.sleepers = 2, .ringers = 1, .begins = true},
    [WATCH_COMES_AND_GOES] = {.sleepers = 2, .ringers = 1, .begins = true, .ends = true},
    [WATCH_AWAITED] = {.sleepers = 2, .ringers = 2, .awaited = true, .begins = true, .ends = true},
};

static variant_t cfg;
static uint32_t bug;
static uint8_t n_threads;

static void start(void *state, uint32_t variant, uint32_t which) {
    state_t *s = state;
    memset(s, 0, sizeof(*s));
    cfg = variants[variant];
    bug = which;
    n_threads = 0;
    for (uint8_t i = 0; i < cfg.sleepers; i++) {
        s->t[n_threads++].at = S_LOOK;
    }
    for (uint8_t i = 0; i < cfg.ringers; i++) {
        s->t[n_threads].event = i;
        s->t[n_threads].bell = cfg.awaited ? 0 : i;
        s->t[n_threads++].at = R_STORE;
    }
    s->memory[SLEEPERS_0] = cfg.watched ? WATCHED | FENCED : 0;
    if (cfg.helper) {
        s->t[n_threads++].at = P_TRY;
    }
}

/* --- memory ----------------------------------------------------------------------------------- */

static uint8_t load(const state_t *s, const thread_t *t, uint8_t cell) {
    return model_load(s->memory, &t->stores, cell);
}

static void put(thread_t *t, uint8_t cell, uint8_t value) {
    model_store(&t->stores, cell, value);
}

static bool drain(state_t *s, thread_t *t) {
    return model_drain(s->memory, &t->stores);
}

/* For read-modify-writes: true if the buffer is empty, as it must be. */
static uint8_t *modify(state_t *s, const thread_t *t, uint8_t cell) {
    return t->stores.n ? NULL : &s->memory[cell];
}

static bool try_lock(state_t *s, const thread_t *t, uint8_t cell) {
    uint8_t *lock = modify(s, t, cell);
    if (!lock || *lock) {
        return false;
    }
    *lock = 1;
    return true;
}

/* --- a sleeper -------------------------------------------------------------------------------- */

static bool uses_bell(uint8_t bell) {
    return cfg.helper || bell < (cfg.awaited ? 1 : cfg.ringers);
}

/* Whoever is on one bell sleeps on that bell's word. */
static bool shares_word(void) {
    return !cfg.helper && !uses_bell(1);
}

static uint8_t word_of(uint8_t sleeper) {
    return shares_word() ? WORD_0 : (uint8_t)(WORD_0 + sleeper);
}

static bool sees_all(const state_t *s, const thread_t *t) {
    for (uint8_t i = 0; i < cfg.ringers; i++) {
        if (!load(s, t, (uint8_t)(EVENT_0 + i))) {
            return false;
        }
    }
    return true;
}

/* All that is waited for has been seen, outside of the runner's lock (without a helper, nobody else
 * wants it). With a helper: the task's status, then the group's events. */
static bool is_over(const state_t *s, const thread_t *t) {
    return cfg.helper ? load(s, t, STATUS) != 0 : sees_all(s, t);
}

static void after_enlisting(thread_t *t) {
    t->cursor = 0;
    if (t->bell + 1 < MAX_BELLS && uses_bell((uint8_t)(t->bell + 1))) {
        t->bell++;
        t->at = S_LOCK;
    } else {
        t->at = S_BARRIER;
    }
}

static bool step_enlist(state_t *s, thread_t *t, uint8_t me) {
    uint8_t list = (uint8_t)(LIST_0 + t->bell), lock = (uint8_t)(BELL_LOCK_0 + t->bell);
    uint8_t rung = (uint8_t)(RUNG_0 + t->bell);
    uint8_t *sleepers = modify(s, t, (uint8_t)(SLEEPERS_0 + t->bell));
    switch (t->at) {
    case S_LOCK:
        model_say("hd_bell_enlist: lock of bell %u", t->bell);
        t->at = S_LINK;
        return try_lock(s, t, lock);
    case S_LINK:
        put(t, list, (uint8_t)(load(s, t, list) | 1u << me));
        put(t, rung, (uint8_t)(load(s, t, rung) & ~(1u << me)));
        model_say("hd_bell_enlist: linked on bell %u", t->bell);
        t->fenced &= bug == WATCH_READ_APART ? load(s, t, (uint8_t)(SLEEPERS_0 + t->bell)) : FENCED;
        t->at = S_COUNT;
        return true;
    case S_COUNT:
        if (!sleepers) {
            return false;
        }
        if (bug == WATCHED_AT_ONCE) {
            t->fenced &= *sleepers & WATCHED ? FENCED : 0;
        } else {
            t->fenced &= bug == WATCH_READ_APART ? FENCED : *sleepers & FENCED;
        }
        t->begins = cfg.begins && !(*sleepers & WATCHED);
        *sleepers = (uint8_t)(*sleepers + SLEEPER + (t->begins ? WATCHED : 0));
        t->enlisted |= (uint8_t)(1u << t->bell);
        model_say("hd_bell_enlist: bell %u has %u", t->bell, *sleepers);
        t->at = S_UNLOCK;
        return true;
    default: /* S_UNLOCK */
        put(t, lock, 0);
        model_say("hd_bell_enlist: unlock");
        after_enlisting(t);
        return true;
    }
}

static void leave_bed(thread_t *t) {
    t->cursor = 0;
    for (t->bell = 0; !(t->enlisted >> t->bell & 1); t->bell++) {
    }
    t->at = D_LOCK;
}

/* Falls asleep, or goes back to the loop of hd_runner_wait. */
static void end_of_last_look(thread_t *t, bool over) {
    if (over) {
        leave_bed(t);
    } else {
        t->at = S_SEEN;
    }
}

/* step_all, under the runner's lock. */
static void step_task(const state_t *s, thread_t *t) {
    t->saw = !load(s, t, TAKEN) && sees_all(s, t);
    if (t->saw) {
        put(t, TAKEN, 1);
    }
    model_say("hd_runner_progress: %s", t->saw ? "the task has finished" : "nothing");
}

static bool step_groups(state_t *s, thread_t *t) {
    switch (t->at) {
    case S_GROUPS_TRY:
        if (t->stores.n) {
            return false;
        }
        if (try_lock(s, t, RUNNER_LOCK)) {
            model_say("hd_night_find_groups: inside");
            t->at = S_GROUPS_LEAVE;
        } else if (bug == GROUPS_SKIPPED) {
            model_say("hd_night_find_groups: somebody is inside");
            t->bell = CONTEXT_BELL;
            t->at = S_LOCK;
        } else {
            model_say("hd_night_find_groups: somebody is inside: a short nap only");
            t->at = S_LOOK;
        }
        return true;
    case S_GROUPS_LEAVE:
        put(t, RUNNER_LOCK, 0);
        model_say("hd_night_find_groups: leaves");
        t->at = S_LOCK;
        return true;
    case S_LAST_TRY:
        if (t->stores.n) {
            return false;
        }
        if (try_lock(s, t, RUNNER_LOCK)) {
            model_say("sleep_once: the last look, inside");
            t->at = S_LAST;
        } else if (bug == LAST_LOOK_SKIPPED) {
            model_say("sleep_once: no last look, somebody is inside");
            t->at = S_STATUS;
        } else {
            model_say("sleep_once: no last look, somebody is inside: a short nap only");
            leave_bed(t);
        }
        return true;
    case S_LAST:
        step_task(s, t);
        t->at = S_LAST_LEAVE;
        return true;
    default: /* S_LAST_LEAVE */
        put(t, RUNNER_LOCK, 0);
        model_say("hd_runner_progress: leaves");
        t->at = t->saw ? C_STATUS : S_STATUS;
        return true;
    }
}

/* hd_park_fence: the barrier reaches one thread per step. */
static bool step_barrier(state_t *s, thread_t *t) {
    if (t->fenced && bug != WATCHED_WITHOUT_FENCE && t->stores.n) {
        return false;
    }
    if (cfg.fallback || bug == NO_MEMBARRIER || t->fenced || t->cursor == n_threads) {
        t->cursor = 0;
        t->at = t->begins                    ? S_FENCED
                : bug == CHECK_BEFORE_ENLIST ? S_SEEN
                : cfg.helper                 ? S_LAST_TRY
                                             : S_STATUS;
        model_say("hd_park_fence: done");
        return true;
    }
    while (drain(s, &s->t[t->cursor])) {
    }
    model_say("hd_park_fence: thread %u has passed a barrier", t->cursor);
    t->cursor++;
    return true;
}

static bool step_fenced(state_t *s, thread_t *t) {
    uint8_t *sleepers = modify(s, t, SLEEPERS_0);
    if (!sleepers) {
        return false;
    }
    *sleepers |= FENCED;
    t->begins = 0;
    t->at = S_STATUS;
    model_say("hd_bell_begin_watch: bell 0 has %u", *sleepers);
    return true;
}

static bool step_sleep(state_t *s, thread_t *t, uint8_t me) {
    switch (t->at) {
    case S_LOOK:
        model_say("hd_runner_wait: %s", is_over(s, t) ? "over" : "not yet");
        t->bell = 0;
        t->fenced = FENCED;
        t->at = is_over(s, t) ? GONE : cfg.helper ? S_GROUPS_TRY : S_LOCK;
        return true;
    case S_STATUS:
        model_say("sleep_once: the last look: %s", is_over(s, t) ? "over" : "not yet");
        end_of_last_look(t, is_over(s, t));
        return true;
    case S_SEEN: {
        bool rung = false;
        t->seen = load(s, t, word_of(me));
        for (uint8_t bell = 0; bell < MAX_BELLS; bell++) {
            rung = rung ||
                   ((t->enlisted >> bell & 1) && (load(s, t, (uint8_t)(RUNG_0 + bell)) >> me & 1));
        }
        model_say("hd_night_sleep: the word is %u, %s", t->seen, rung ? "rung" : "not rung");
        t->at = S_SLEEP;
        if (rung) {
            leave_bed(t);
        }
        return true;
    }
    case S_SLEEP:
        if (t->stores.n) {
            return false;
        }
        model_say("hd_park_until: the word is %u", s->memory[word_of(me)]);
        t->at = s->memory[word_of(me)] == t->seen ? S_ASLEEP : S_SEEN;
        return true;
    default: /* S_ASLEEP: only waking ends it */
        return false;
    }
}

static bool step_delist(state_t *s, thread_t *t, uint8_t me) {
    uint8_t list = (uint8_t)(LIST_0 + t->bell), lock = (uint8_t)(BELL_LOCK_0 + t->bell);
    uint8_t rung = (uint8_t)(RUNG_0 + t->bell);
    uint8_t *sleepers = modify(s, t, (uint8_t)(SLEEPERS_0 + t->bell));
    switch (t->at) {
    case D_LOCK:
        model_say("hd_bell_delist: lock of bell %u", t->bell);
        t->at = D_UNLINK;
        return try_lock(s, t, lock);
    case D_UNLINK:
        put(t, list, (uint8_t)(load(s, t, list) & ~(1u << me)));
        model_say("hd_bell_delist: unlinked from bell %u", t->bell);
        t->at = load(s, t, rung) >> me & 1 ? D_UNLOCK : D_COUNT;
        return true;
    case D_COUNT:
        if (!sleepers) {
            return false;
        }
        *sleepers = (uint8_t)(*sleepers - SLEEPER);
        model_say("hd_bell_delist: bell %u has %u", t->bell, *sleepers);
        t->at = D_UNLOCK;
        return true;
    default: /* D_UNLOCK */
        put(t, lock, 0);
        model_say("hd_bell_delist: unlock");
        t->enlisted &= (uint8_t) ~(1u << t->bell);
        if (t->enlisted) {
            leave_bed(t);
        } else {
            t->bell = 0;
            t->at = S_LOOK;
        }
        return true;
    }
}

/* --- completing ------------------------------------------------------------------------------- */

/* One hd_runner_progress by a thread that has other things to do. */
static bool step_progress(state_t *s, thread_t *t) {
    switch (t->at) {
    case P_TRY:
        model_say("hd_runner_progress: %s",
                  s->memory[RUNNER_LOCK] ? "somebody is inside" : "inside");
        t->at = try_lock(s, t, RUNNER_LOCK) ? P_LOOK : GONE;
        return true;
    case P_LOOK:
        step_task(s, t);
        t->at = P_LEAVE;
        return true;
    case P_LEAVE:
        put(t, RUNNER_LOCK, 0);
        model_say("hd_runner_progress: leaves");
        t->at = t->saw ? C_STATUS : GONE;
        return true;
    default: /* C_STATUS */
        if (load(s, t, STATUS)) {
            model_violation("a task is completed twice");
        }
        put(t, STATUS, 1);
        model_say("hd_task_complete");
        t->bell = CONTEXT_BELL;
        t->cursor = 0;
        t->saw = 0;
        t->after_ring = t->enlisted ? D_LOCK : GONE;
        t->at = R_RING;
        if (bug == STATUS_NOT_RUNG) {
            t->at = t->after_ring;
            if (t->enlisted) {
                leave_bed(t);
            }
        }
        return true;
    }
}

/* --- a ringer --------------------------------------------------------------------------------- */

static void end_of_ring(thread_t *t) {
    t->cursor = 0;
    t->at = GONE;
    if (t->enlisted) {
        leave_bed(t);
    }
}

static bool is_linked(const state_t *s, const thread_t *t, uint8_t i) {
    return load(s, t, (uint8_t)(LIST_0 + t->bell)) >> i & 1;
}

static bool ring(state_t *s, thread_t *t) {
    uint8_t cell = (uint8_t)(SLEEPERS_0 + t->bell);
    if (cfg.fallback && bug != PLAIN_RING && !modify(s, t, cell)) {
        return false;
    }
    uint8_t sleepers = load(s, t, cell);
    model_say("hd_bell_ring: bell %u has %u sleepers", t->bell, sleepers);
    if (!sleepers && bug == RING_BEFORE_STORE && t->after_ring == R_STORE) {
        t->at = R_STORE;
    } else if (!sleepers) {
        end_of_ring(t);
    } else {
        t->at = bug == WAKE_WITHOUT_LOCK ? R_NEXT : R_FENCE;
    }
    return true;
}

static bool step_fence(state_t *s, thread_t *t) {
    uint8_t cell = (uint8_t)(SLEEPERS_0 + t->bell);
    switch (t->at) {
    case R_FENCE:
        if (t->stores.n && bug != WATCHED_WITHOUT_FENCE) {
            return false;
        }
        model_say("hd_bell_wake: fence; bell %u has %u", t->bell, load(s, t, cell));
        t->at = R_LOCK;
        if (load(s, t, cell) < SLEEPER) {
            t->at = R_END;
            if (!cfg.ends || load(s, t, cell) != (WATCHED | FENCED)) {
                end_of_ring(t);
            }
        }
        return true;
    default: /* R_END */
        if (!modify(s, t, cell)) {
            return false;
        }
        if (s->memory[cell] == (WATCHED | FENCED)) {
            s->memory[cell] = 0;
        }
        model_say("end_watch: bell %u has %u", t->bell, s->memory[cell]);
        end_of_ring(t);
        return true;
    }
}

/* Not rung yet; and if that is told, all that it waits for is there. */
static bool is_due(const state_t *s, const thread_t *t, uint8_t i) {
    bool rung = load(s, t, (uint8_t)(RUNG_0 + t->bell)) >> i & 1;
    bool come = !cfg.awaited || sees_all(s, t);
    return is_linked(s, t, i) && !rung && come;
}

static void wake_asleep(thread_t *sleeper) {
    if (sleeper->at == S_ASLEEP) {
        sleeper->at = S_SEEN;
    }
}

static bool step_wake(state_t *s, thread_t *t) {
    uint8_t rung = (uint8_t)(RUNG_0 + t->bell);
    uint8_t *sleepers = modify(s, t, (uint8_t)(SLEEPERS_0 + t->bell));
    uint8_t *word = modify(s, t, word_of(t->cursor));
    switch (t->at) {
    case R_LOCK:
        model_say("hd_bell_wake: lock of bell %u", t->bell);
        t->at = R_NEXT;
        return try_lock(s, t, (uint8_t)(BELL_LOCK_0 + t->bell));
    case R_NEXT:
        while (t->cursor < cfg.sleepers && !is_due(s, t, t->cursor)) {
            t->cursor++;
        }
        t->at = R_MARK;
        if (t->cursor == cfg.sleepers) {
            model_say("hd_bell_wake: nobody else is due on bell %u", t->bell);
            t->cursor = 0;
            t->at = t->mine && shares_word() ? R_BUMP : R_UNLOCK;
        }
        return true;
    case R_MARK:
        put(t, rung, (uint8_t)(load(s, t, rung) | 1u << t->cursor));
        model_say("hd_bell_wake: marks sleeper %u", t->cursor);
        t->at = R_COUNT;
        return true;
    case R_COUNT:
        if (!sleepers) {
            return false;
        }
        *sleepers = (uint8_t)(*sleepers - SLEEPER);
        t->mine |= (uint8_t)(1u << t->cursor);
        t->at = R_BUMP;
        if (shares_word()) {
            t->cursor++;
            t->at = R_NEXT;
        }
        return true;
    case R_BUMP:
        if (!word) {
            return false;
        }
        *word = (uint8_t)(*word + (bug != WAKE_WITHOUT_BUMP));
        model_say("hd_bell_wake: bumps the word");
        t->at = shares_word() ? R_UNLOCK : R_WAKE;
        return true;
    case R_WAKE: {
        if (!(s->memory[LIST_0 + t->bell] >> t->cursor & 1)) {
            model_violation("the word of a sleeper that has left is touched");
        }
        model_say("hd_bell_wake: wakes sleeper %u", t->cursor);
        wake_asleep(&s->t[t->cursor]);
        t->cursor++;
        t->at = R_NEXT;
        return true;
    }
    case R_UNLOCK:
        if (bug != WAKE_WITHOUT_LOCK) {
            put(t, (uint8_t)(BELL_LOCK_0 + t->bell), 0);
        }
        model_say("hd_bell_wake: unlock");
        t->at = R_WAKE_ALL;
        return true;
    default: /* R_WAKE_ALL: a system call, by which stores have reached memory */
        if (t->stores.n) {
            return false;
        }
        for (uint8_t i = 0; i < cfg.sleepers && shares_word(); i++) {
            if (t->mine >> i & 1) {
                model_say("hd_bell_wake: wakes sleeper %u", i);
                wake_asleep(&s->t[i]);
            }
        }
        t->mine = 0;
        end_of_ring(t);
        return true;
    }
}

static bool step_ringer(state_t *s, thread_t *t) {
    if (t->at == R_STORE) {
        if (bug == RING_BEFORE_STORE && !t->after_ring) {
            t->after_ring = R_STORE;
            t->at = R_RING;
            model_say("(bug) rings first");
            return true;
        }
        put(t, (uint8_t)(EVENT_0 + t->event), 1);
        model_say("publish: event %u", t->event);
        t->at = bug == RING_BEFORE_STORE ? GONE : R_RING;
        return true;
    }
    return t->at == R_RING ? ring(s, t) : t->at >= R_LOCK ? step_wake(s, t) : step_fence(s, t);
}

static bool step(void *state, uint32_t actor, uint32_t choice) {
    state_t *s = state;
    thread_t *t = &s->t[actor];
    uint8_t me = (uint8_t)actor;
    if (actor >= n_threads) {
        return false;
    }
    if (choice == 1) {
        model_say("(a store reaches memory)");
        return drain(s, t);
    }
    if (t->stores.n == BUFFER) {
        return false; /* full: it must drain first */
    }
    switch (t->at) {
    case S_LOCK:
    case S_LINK:
    case S_UNLOCK:
    case S_COUNT:
        return step_enlist(s, t, me);
    case S_GROUPS_TRY:
    case S_GROUPS_LEAVE:
    case S_LAST_TRY:
    case S_LAST:
    case S_LAST_LEAVE:
        return step_groups(s, t);
    case S_BARRIER:
        return step_barrier(s, t);
    case S_FENCED:
        return step_fenced(s, t);
    case S_LOOK:
    case S_STATUS:
    case S_SEEN:
    case S_SLEEP:
        return step_sleep(s, t, me);
    case D_LOCK:
    case D_UNLINK:
    case D_UNLOCK:
    case D_COUNT:
        return step_delist(s, t, me);
    case P_TRY:
    case P_LOOK:
    case P_LEAVE:
    case C_STATUS:
        return step_progress(s, t);
    case R_STORE:
    case R_RING:
    case R_FENCE:
    case R_END:
    case R_LOCK:
    case R_NEXT:
    case R_COUNT:
    case R_MARK:
    case R_BUMP:
    case R_WAKE:
    case R_UNLOCK:
    case R_WAKE_ALL:
        return step_ringer(s, t);
    default: /* GONE, S_ASLEEP */
        return false;
    }
}

static const char *end(const void *state) {
    const state_t *s = state;
    for (uint8_t i = 0; i < n_threads; i++) {
        if (s->t[i].at != GONE) {
            return s->t[i].at == S_ASLEEP ? "a wake-up is lost: a sleeper sleeps for ever"
                                          : "a thread waits for ever";
        }
    }
    return NULL;
}

static const model_bug_t bugs[] = {
    {"none", 0, ""},
    {"no-membarrier", ONE, "the sleeper does not make ringers empty their store buffers"},
    {"check-before-enlist", ONE, "the last look comes before enlisting"},
    {"ring-before-store", ONE, "the ringer rings, then publishes"},
    {"plain-ring", FALLBACK, "without membarrier, the ringer loads `sleepers` all the same"},
    {"wake-without-bump", ONE, "the ringer wakes, but leaves the word as it is"},
    {"wake-without-lock", TWO_BELLS, "the ringer walks the list without the bell's lock"},
    {"groups-skipped", HELPER,
     "a sleeper that could not enlist with its groups sleeps all the same"},
    {"last-look-skipped", HELPER,
     "a sleeper that could not have its last look sleeps all the same"},
    {"status-not-rung", HELPER, "who completes another thread's task does not ring the context"},
    {"watched-without-fence", WATCHED_BELL, "a watched bell's ringers and sleepers do not fence"},
    {"watch-read-apart", WATCH_ENDS,
     "a sleeper asks whether the bell is watched before it counts itself"},
    {"watched-at-once", WATCH_BEGINS,
     "a bell counts as watched before its first watcher's membarrier has ended"},
    {NULL, 0, NULL},
};

static const model_t model = {
    .name = "park",
    .bytes = sizeof(state_t),
    .actors = MAX_THREADS,
    .choices = 2,
    .variants = variant_names,
    .bugs = bugs,
    .start = start,
    .step = step,
    .end = end,
};

int main(int argc, char **argv) {
    return model_main(&model, argc, argv);
}
