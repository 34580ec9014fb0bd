/* far_bell_model.c: bells of memory that several processes have mapped, src/threads/park.c ("FAR
 * BELLS") and night.c, over memory with store buffers, as in park_model.c.
 *
 * One process sleeps, with one thread or two, which share its bell, its list's lock and its words;
 * every ringer is another process. What is modelled is what only far bells have: the count of
 * sleepers that all processes share, the note of what is awaited, the count of rings, and the
 * membarrier that reaches all processes. Ringers never mark a sleeper, nor see the list.
 *
 * A sleeper waits for an event, or for both; the note says which, or that it is not known.
 * Variants:
 * "one"; "both": two ringers publish an event each, of which the sleeper awaits both; "again": it
 * waits for the first, and then for the second; "two": two sleepers, of which each awaits its own;
 * "alarm": what is awaited never comes, but an alarm is raised.
 *
 * Properties: nobody sleeps for ever.
 */
#include "buffered.h"
#include "explorer.h"

#include <string.h>

enum { MAX_THREADS = 4 };

/* memory: one cell each */
enum {
    EVENT_0,
    EVENT_1,
    ALARMS,
    SLEEPERS, /* of all processes; shared */
    LOCK,     /* of the sleeping process's bell */
    ASLEEP,
    NOTE,     /* which events are awaited, a bit each; 0: not known */
    NOTED_AT, /* alarms when that was written */
    RINGS,
    WORD,
    CELLS
};

/* planted bugs */
enum {
    NO_BUG,
    NEAR_BARRIER,    /* the membarrier reaches the sleeper's own process alone */
    NOTE_STAYS,      /* the second sleeper leaves the first one's note */
    RING_UNCOUNTED,  /* the word is bumped, and no ring is counted */
    RINGS_READ_LATE, /* the sleeper reads the count after its last look */
    ALARM_UNSEEN,    /* an alarm does not count as what is awaited */
    NO_FENCE         /* the ringer does not fence between its two looks */
};

/* where a thread is */
enum {
    S_LOOK,
    S_RINGS,
    S_LOCK,
    S_FORGET,
    S_NOTE_AT,
    S_NOTE,
    S_ASLEEP_COUNT,
    S_COUNT,
    S_UNLOCK,
    S_BARRIER,
    S_LAST,
    S_LATE_RINGS,
    S_WORD,
    S_RUNG,
    S_SLEEP,
    S_ASLEEP,
    D_LOCK,
    D_ASLEEP,
    D_COUNT,
    D_UNLOCK,
    R_STORE,
    R_LOOK,
    R_FENCE,
    R_ASLEEP,
    R_NOTE,
    R_RING,
    R_BUMP,
    R_WAKE,
    GONE
};

typedef struct thread {
    uint8_t at;
    uint8_t awaits; /* a sleeper: events, a bit each */
    uint8_t then;   /* and after that; 0: it is over */
    uint8_t event;  /* a ringer's cell */
    uint8_t cursor; /* membarrier: threads done */
    uint8_t others; /* were asleep when it came */
    uint8_t rings, word, note;
    model_buffer_t stores;
} thread_t;

typedef struct state {
    uint8_t memory[CELLS];
    thread_t t[MAX_THREADS];
} state_t;

enum { ONE, BOTH, AGAIN, TWO, ALARM };
static const char *const variant_names[] = {"one", "both", "again", "two", "alarm", NULL};

static uint32_t bug, variant;
static uint8_t n_threads, n_sleepers;

static void add_sleeper(state_t *s, uint8_t awaits, uint8_t then) {
    s->t[n_threads++] = (thread_t){.at = S_LOOK, .awaits = awaits, .then = then};
    n_sleepers++;
}

static void add_ringer(state_t *s, uint8_t event) {
    s->t[n_threads++] = (thread_t){.at = R_STORE, .event = event};
}

static void start(void *state, uint32_t of, uint32_t which) {
    state_t *s = state;
    memset(s, 0, sizeof(*s));
    bug = which;
    variant = of;
    n_threads = n_sleepers = 0;
    switch (variant) {
    case BOTH:
        add_sleeper(s, 3, 0);
        break;
    case AGAIN:
        add_sleeper(s, 1, 2);
        break;
    case TWO:
        add_sleeper(s, 1, 0);
        add_sleeper(s, 2, 0);
        break;
    default:
        add_sleeper(s, variant == ALARM ? 2 : 1, 0);
        break;
    }
    add_ringer(s, variant == ALARM ? ALARMS : EVENT_0);
    if (variant == BOTH || variant == AGAIN || variant == TWO) {
        add_ringer(s, EVENT_1);
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

/* A read-modify-write: false if the buffer is not empty, as it must be. */
static bool add(state_t *s, const thread_t *t, uint8_t cell, uint8_t value) {
    if (t->stores.n) {
        return false;
    }
    s->memory[cell] = (uint8_t)(s->memory[cell] + value);
    return true;
}

static bool take_lock(state_t *s, const thread_t *t) {
    return !t->stores.n && !s->memory[LOCK] && add(s, t, LOCK, 1);
}

/* --- a sleeper -------------------------------------------------------------------------------- */

static bool have_come(const state_t *s, const thread_t *t, uint8_t events) {
    uint8_t there = (uint8_t)((load(s, t, EVENT_0) != 0) | (load(s, t, EVENT_1) != 0) << 1);
    return (there & events) == events;
}

static bool is_over(const state_t *s, const thread_t *t) {
    return have_come(s, t, t->awaits) || load(s, t, ALARMS);
}

static bool step_enlist(state_t *s, thread_t *t) {
    uint8_t at = t->at++;
    switch (at) {
    case S_RINGS:
        t->rings = load(s, t, RINGS);
        model_say("enlist_on_all: %u rings so far", t->rings);
        return true;
    case S_LOCK:
        model_say("hd_bell_enlist: lock");
        return take_lock(s, t);
    case S_FORGET:
        t->others = load(s, t, ASLEEP);
        if (bug == NOTE_STAYS && t->others) {
            t->at = S_ASLEEP_COUNT;
            return true;
        }
        put(t, NOTE, 0);
        model_say("enlist_far: it is not known what is awaited");
        t->at = t->others ? S_ASLEEP_COUNT : S_NOTE_AT;
        return true;
    case S_NOTE_AT:
        put(t, NOTED_AT, load(s, t, ALARMS));
        return true;
    case S_NOTE:
        put(t, NOTE, t->awaits);
        model_say("enlist_far: %u is awaited", t->awaits);
        return true;
    case S_ASLEEP_COUNT:
        put(t, ASLEEP, (uint8_t)(load(s, t, ASLEEP) + 1));
        return true;
    case S_COUNT:
        model_say("hd_bell_enlist: counted");
        return add(s, t, SLEEPERS, 1);
    default: /* S_UNLOCK */
        put(t, LOCK, 0);
        t->cursor = 0;
        model_say("hd_bell_enlist: unlock");
        return true;
    }
}

/* The barrier reaches one thread per step. */
static bool step_barrier(state_t *s, thread_t *t) {
    uint8_t reached = bug == NEAR_BARRIER ? n_sleepers : n_threads;
    if (t->cursor == reached) {
        t->cursor = 0;
        t->at = S_LAST;
        return true;
    }
    while (drain(s, &s->t[t->cursor])) {
    }
    model_say("hd_park_fence: thread %u has passed a barrier", t->cursor);
    t->cursor++;
    return true;
}

static bool step_sleep(state_t *s, thread_t *t) {
    switch (t->at) {
    case S_LOOK:
        model_say("hd_runner_wait: %s", is_over(s, t) ? "over" : "not yet");
        t->at = S_RINGS;
        if (is_over(s, t)) {
            t->awaits = t->then;
            t->then = 0;
            t->at = t->awaits && !load(s, t, ALARMS) ? S_LOOK : GONE;
        }
        return true;
    case S_LAST:
        model_say("sleep_once: the last look: %s", is_over(s, t) ? "over" : "not yet");
        t->at = is_over(s, t) ? D_LOCK : bug == RINGS_READ_LATE ? S_LATE_RINGS : S_WORD;
        return true;
    case S_LATE_RINGS:
        t->rings = load(s, t, RINGS);
        t->at = S_WORD;
        return true;
    case S_WORD:
        t->word = load(s, t, WORD);
        t->at = S_RUNG;
        return true;
    case S_RUNG:
        t->at = load(s, t, RINGS) != t->rings ? D_LOCK : S_SLEEP;
        model_say("hd_night_sleep: %s", t->at == D_LOCK ? "rung" : "not rung");
        return true;
    default: /* S_SLEEP: the kernel compares, and lets it fall asleep, in one step */
        if (t->stores.n) {
            return false;
        }
        t->at = s->memory[WORD] == t->word ? S_ASLEEP : S_WORD;
        model_say("hd_park_until: %s", t->at == S_ASLEEP ? "asleep" : "the word has changed");
        return true;
    }
}

static bool step_delist(state_t *s, thread_t *t) {
    uint8_t at = t->at++;
    switch (at) {
    case D_LOCK:
        model_say("hd_bell_delist: lock");
        return take_lock(s, t);
    case D_ASLEEP:
        put(t, ASLEEP, (uint8_t)(load(s, t, ASLEEP) - 1));
        return true;
    case D_COUNT:
        model_say("hd_bell_delist: counted out");
        return add(s, t, SLEEPERS, (uint8_t)-1);
    default: /* D_UNLOCK */
        put(t, LOCK, 0);
        t->at = S_LOOK;
        return true;
    }
}

/* --- a ringer --------------------------------------------------------------------------------- */

static bool step_ringer(state_t *s, thread_t *t) {
    uint8_t at = t->at++;
    switch (at) {
    case R_STORE:
        if (variant == TWO && t->event == EVENT_0 && s->t[1].at != GONE) {
            return false;
        }
        put(t, t->event, 1);
        model_say("publish: %s", t->event == ALARMS ? "an alarm" : "an event");
        return true;
    case R_LOOK:
        t->at = load(s, t, SLEEPERS) ? R_FENCE : GONE;
        model_say("hd_bell_ring: %u sleepers", load(s, t, SLEEPERS));
        return true;
    case R_FENCE:
        return !t->stores.n || bug == NO_FENCE;
    case R_ASLEEP:
        t->at = load(s, t, ASLEEP) ? R_NOTE : GONE;
        return true;
    case R_NOTE: {
        bool alarm = load(s, t, NOTED_AT) != load(s, t, ALARMS) && bug != ALARM_UNSEEN;
        t->note = load(s, t, NOTE);
        t->at = alarm || have_come(s, t, t->note) ? R_RING : GONE;
        model_say("far_is_due: %u is awaited: %s", t->note, t->at == R_RING ? "due" : "not due");
        return true;
    }
    case R_RING:
        model_say("wake_far: a ring is counted");
        return add(s, t, RINGS, bug == RING_UNCOUNTED ? 0 : 1);
    case R_BUMP:
        model_say("wake_far: bumps the word");
        return add(s, t, WORD, 1);
    default: /* R_WAKE: all who sleep on the word */
        for (uint8_t i = 0; i < n_sleepers; i++) {
            s->t[i].at = s->t[i].at == S_ASLEEP ? S_WORD : s->t[i].at;
        }
        model_say("wake_far: wakes");
        t->at = GONE;
        return true;
    }
}

static bool step(void *state, uint32_t actor, uint32_t choice) {
    state_t *s = state;
    thread_t *t = &s->t[actor];
    if (actor >= n_threads || t->at == GONE || t->at == S_ASLEEP) {
        return actor < n_threads && choice == 1 && drain(s, t);
    }
    if (choice == 1) {
        model_say("(a store reaches memory)");
        return drain(s, t);
    }
    if (t->stores.n == MODEL_BUFFER) {
        return false; /* full: it must drain first */
    }
    if (t->at >= R_STORE) {
        return step_ringer(s, t);
    }
    if (t->at >= D_LOCK) {
        return step_delist(s, t);
    }
    if (t->at == S_BARRIER) {
        return step_barrier(s, t);
    }
    return t->at >= S_RINGS && t->at <= S_UNLOCK ? step_enlist(s, t) : step_sleep(s, t);
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
    {"near-barrier", ONE, "the membarrier reaches the sleeper's own process alone"},
    {"note-stays", TWO, "a second sleeper leaves the first one's note as it is"},
    {"ring-uncounted", ONE, "the word is bumped, but no ring is counted"},
    {"rings-read-late", ONE, "the sleeper reads the count of rings after its last look"},
    {"alarm-unseen", ALARM, "an alarm does not count as what is awaited"},
    {"no-fence", BOTH, "a ringer looks for the others' events before its own is visible"},
    {NULL, 0, NULL},
};

static const model_t model = {
    .name = "far_bell",
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
