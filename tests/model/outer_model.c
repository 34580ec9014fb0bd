/* outer_model.c: exchanges with an outer stage (src/shm/outer.h): opening, acting, releasing, units
 * that become ready later, a slice of outer requests, closing, and reusing the slot.
 *
 * Two members go through two exchanges in one slot (round k + 1 is entered when both have consumed
 * k). There are two slices of one unit each: REQUEST, which the stage claims and finishes, and
 * LATER, which the stage makes ready and any member claims. The completer's hook hands the ticket
 * to the stage, which releases, starts its request, completes it, makes LATER ready and finishes
 * REQUEST. A GHOST has the ticket of round 1 and acts once more with it, at any time: it releases,
 * raises, claims, and finishes what has been completed. Members may time out while they wait; then
 * they cancel.
 *
 * Properties:
 *   - the stage and the ghost touch the slot only in their ticket's round, before both members have
 *     consumed it;
 *   - a request is under way, and LATER is run, only while no member has reported;
 *   - LATER is run after the request it depends on;
 *   - the result line is written once per round, and read after that;
 *   - a unit is finished once, and the end seen when both are;
 *   - nobody waits for ever.
 */
#include "explorer.h"

#include <string.h>

enum {
    MEMBERS = 2,
    STAGE = MEMBERS,
    GHOST,
    ACTORS,
    ROUNDS = 2,
    REQUEST = 0,
    LATER = 1,
    SLICES = 2
};

/* where a member is */
enum {
    ENTER,
    REGISTER,
    ARRIVE,
    OPEN,
    WAIT,
    WORK,
    RUN,
    COUNT_UNIT,
    COUNT_SLICE,
    END_LINE,
    CLOSE,
    QUIET,
    POISON,
    CANCEL_CLOSE,
    CANCEL_QUIET_FIRST, /* only with the bug of that name */
    CLOSE_SLICE,
    WAIT_SLICE,
    CONSUME,
    REPORT,
    GONE
};

/* where the stage or the ghost is */
enum {
    IDLE,
    RELEASE,
    RESULT,
    ARRIVED,
    IN_CLAIM,
    CLAIM,
    OUT_CLAIM,
    TRANSFER,
    IN_READY,
    RAISE,
    OUT_READY,
    TAKE,
    IN_FINISH,
    FINISH,
    SLICE,
    END,
    OUT_FINISH,
    OVER
};

/* planted bugs */
enum {
    NO_BUG,
    NO_KEY,
    NO_CLOSE,
    QUIET_FIRST,
    FINISH_OUTSIDE,
    RELEASE_TWICE,
    NO_BIT,
    IGNORE_READY,
    RAISE_EARLY,
    CANCEL_WITHOUT_WAITING,
    ENTER_CLOSED
};

typedef struct word {
    uint8_t key, inside, released, closed;
} word_t;

typedef struct slice {
    uint8_t round, closed, next, finished, ready, bit;
} slice_t;

typedef struct member {
    uint8_t at, k, slice, completer, failed, consumed, reported;
} member_t;

typedef struct agent {
    uint8_t at, k;   /* ticket */
    uint8_t claimed; /* a request is mine to finish */
} agent_t;

typedef struct state {
    word_t word;
    slice_t slice[SLICES];
    uint8_t slot_k; /* whose exchange is in the slot */
    uint8_t count, slices_done, arrived, done, result, poison;
    uint8_t ticket, under_way, completed, ran; /* rounds */
    member_t m[MEMBERS];
    agent_t a[2];
} state_t;

typedef struct variant {
    uint8_t may_time_out; /* bit per member */
    bool ghost;
} variant_t;

enum { PLAIN, WITH_GHOST, CANCEL, CANCEL_WITH_GHOST };

static const char *const variant_names[] = {"plain", "ghost", "cancel", "cancel-ghost", NULL};
static const variant_t variants[] = {{0, false}, {0, true}, {3, false}, {1, true}};

static variant_t cfg;
static uint32_t bug;

static void start(void *state, uint32_t variant, uint32_t which) {
    state_t *s = state;
    memset(s, 0, sizeof(*s));
    cfg = variants[variant];
    bug = which;
    s->m[0].k = s->m[1].k = 1;
    s->a[GHOST - MEMBERS].k = 1;
}

static bool all_consumed(const state_t *s, uint8_t k) {
    return s->m[0].consumed >= k && s->m[1].consumed >= k;
}

static bool any_reported(const state_t *s, uint8_t k) {
    return s->m[0].reported >= k || s->m[1].reported >= k;
}

/* The stage, the ghost, or a member touches the slot for round k. */
static void touch(const state_t *s, uint8_t k) {
    if (s->slot_k != k || all_consumed(s, k)) {
        model_violation("the slot is touched for an exchange that is over");
    }
}

/* --- members ---------------------------------------------------------------------------------- */

static bool step_entry(state_t *s, member_t *m, uint32_t me) {
    switch (m->at) {
    case ENTER:
        if (s->poison) {
            m->at = GONE;
            return true;
        }
        if (!all_consumed(s, (uint8_t)(m->k - 1))) {
            return false;
        }
        m->at = me == 0 ? REGISTER : ARRIVE;
        return true;
    case REGISTER:
        /* member 0 owns both slices; a slice that is closed for this round stays so */
        s->slot_k = m->k;
        s->slices_done = 0;
        for (uint32_t i = 0; i < SLICES; i++) {
            uint8_t closed = s->slice[i].round == m->k && s->slice[i].closed;
            s->slice[i] = (slice_t){.round = m->k, .closed = closed};
        }
        model_say("hd_engine_register_row: round %u", m->k);
        m->at = ARRIVE;
        return true;
    case ARRIVE:
        s->count++;
        m->completer = s->count % MEMBERS == 0;
        model_say("hd_arrive_outer: %u have", s->count);
        m->at = m->completer ? OPEN : WAIT;
        return true;
    default: /* OPEN */
        m->at = WAIT;
        if (s->word.key == m->k) {
            model_say("hd_outer_arrived: a member has cancelled");
            return true;
        }
        s->word = (word_t){.key = m->k};
        s->ticket = m->k;
        model_say("hd_outer_arrived: open for %u", m->k);
        return true;
    }
}

static bool step_work(state_t *s, member_t *m, uint32_t me, uint32_t choice) {
    slice_t *later = &s->slice[LATER];
    switch (m->at) {
    case WAIT:
    case WORK:
        if (choice == 1) {
            if (!s->poison && !(cfg.may_time_out >> me & 1)) {
                return false;
            }
            model_say("advance: gives up round %u", m->k);
            m->failed = 1;
            m->at = POISON;
            return true;
        }
        if (m->at == WAIT) {
            m->at = WORK;
            if (s->arrived == m->k && s->result != m->k) {
                model_violation("the result line is read before it is written");
            }
            return s->arrived == m->k;
        }
        if (s->done == m->k) {
            model_say("hd_engine_work_unordered: round %u is over", m->k);
            if (s->completed != m->k || s->ran != m->k) {
                model_violation("the end is seen before all units are finished");
            }
            m->at = m->completer && bug != NO_CLOSE ? CLOSE : CONSUME;
            return true;
        }
        if (later->round != m->k || later->closed || later->next ||
            (!later->ready && bug != IGNORE_READY)) {
            return false;
        }
        later->next = 1;
        model_say("claim: LATER of round %u", m->k);
        m->at = RUN;
        return true;
    case RUN:
        touch(s, m->k);
        if (s->completed != m->k) {
            model_violation("a unit is run before what it needs has come");
        }
        if (any_reported(s, m->k)) {
            model_violation("a unit is run when a member has reported");
        }
        s->ran = m->k;
        m->at = COUNT_UNIT;
        return true;
    case COUNT_UNIT:
        later->finished++;
        m->at = COUNT_SLICE;
        return true;
    case COUNT_SLICE:
        m->at = ++s->slices_done == SLICES ? END_LINE : WORK;
        return true;
    default: /* END_LINE */
        s->done = m->k;
        m->at = WORK;
        return true;
    }
}

static bool is_quiet(const state_t *s, const member_t *m) {
    return s->word.inside == 0 && (!s->word.released || s->arrived == m->k);
}

static void close_word(state_t *s, const member_t *m) {
    if (s->word.key != m->k) {
        s->word = (word_t){.key = m->k};
    }
    s->word.closed = 1;
    model_say("close_exchange: %u", m->k);
}

static bool step_end(state_t *s, member_t *m) {
    slice_t *slice = &s->slice[m->slice % SLICES];
    switch (m->at) {
    case CLOSE:
        close_word(s, m);
        m->at = QUIET;
        return true;
    case QUIET:
        m->at = CONSUME;
        return is_quiet(s, m) || (bug == QUIET_FIRST && m->failed);
    case POISON:
        s->poison = 1;
        m->at = CANCEL_CLOSE;
        return true;
    case CANCEL_CLOSE:
        close_word(s, m);
        m->slice = 0;
        m->at = bug == QUIET_FIRST ? CANCEL_QUIET_FIRST : CLOSE_SLICE;
        return true;
    case CANCEL_QUIET_FIRST:
        m->at = CLOSE_SLICE;
        return is_quiet(s, m);
    case CLOSE_SLICE:
        if (slice->round != m->k) {
            *slice = (slice_t){.round = m->k};
        }
        slice->closed = 1;
        model_say("close_slice: %u of round %u", m->slice, m->k);
        m->at = WAIT_SLICE;
        return true;
    case WAIT_SLICE:
        if (slice->next != slice->finished && bug != CANCEL_WITHOUT_WAITING) {
            return false;
        }
        m->at = ++m->slice < SLICES ? CLOSE_SLICE : QUIET;
        return true;
    case CONSUME:
        m->consumed = m->k;
        m->at = REPORT;
        return true;
    default: /* REPORT */
        model_say("hd_task_complete: round %u %s", m->k, m->failed ? "failed" : "succeeded");
        m->reported = m->k;
        m->slice = m->completer = 0;
        m->at = m->failed || m->k == ROUNDS ? GONE : ENTER;
        m->k = m->at == ENTER ? (uint8_t)(m->k + 1) : m->k;
        return true;
    }
}

/* --- the stage and the ghost ------------------------------------------------------------------ */

static bool may_act(const state_t *s, const agent_t *a) {
    return (s->word.key == a->k || bug == NO_KEY) && (!s->word.closed || bug == ENTER_CLOSED);
}

/* hd_outer_release, _claim, _ready, _finish: what comes next for the stage; the ghost chooses. */
static bool begin_act(state_t *s, agent_t *a, bool is_ghost, uint32_t choice) {
    if (is_ghost) {
        if (!cfg.ghost || !s->ticket || choice > 3) {
            return false;
        }
        static const uint8_t acts[] = {RELEASE, IN_READY, TAKE, IN_CLAIM};
        if (acts[choice] == TAKE && s->completed < a->k) {
            return false; /* nobody says that a request has completed which has not */
        }
        if (acts[choice] == IN_READY && s->completed < a->k) {
            return false;
        }
        a->at = acts[choice];
        return true;
    }
    if (choice || s->ticket <= (a->at == IDLE ? a->k : ROUNDS)) {
        return false;
    }
    a->k = s->ticket;
    a->at = RELEASE;
    return true;
}

/* The act that comes after this one. */
static uint8_t after(bool is_ghost, uint8_t next) {
    return is_ghost ? OVER : next;
}

static bool step_release(state_t *s, agent_t *a, bool is_ghost) {
    switch (a->at) {
    case RELEASE:
        if (!may_act(s, a) || (s->word.released && bug != RELEASE_TWICE)) {
            a->at = after(is_ghost, IN_CLAIM);
            return true;
        }
        s->word.released = 1;
        a->at = RESULT;
        return true;
    case RESULT:
        touch(s, a->k);
        if (s->result == a->k) {
            model_violation("the result line is written twice");
        }
        s->result = a->k;
        a->at = ARRIVED;
        return true;
    default: /* ARRIVED */
        touch(s, a->k);
        s->arrived = a->k;
        model_say("hd_outer_release: %u", a->k);
        a->at = after(is_ghost, IN_CLAIM);
        return true;
    }
}

static bool step_request(state_t *s, agent_t *a, bool is_ghost) {
    slice_t *slice = &s->slice[REQUEST];
    switch (a->at) {
    case IN_CLAIM:
    case IN_READY:
        if (!may_act(s, a)) {
            /* a request that is not started needs no end; one that is, is finished all the same */
            a->at = a->at == IN_READY && a->claimed ? TAKE : after(is_ghost, IDLE);
            return true;
        }
        s->word.inside++;
        a->at = a->at == IN_CLAIM ? CLAIM : RAISE;
        return true;
    case CLAIM:
        a->claimed = slice->round == a->k && !slice->closed && !slice->next;
        if (a->claimed) {
            touch(s, a->k);
            slice->next = slice->bit = 1;
            s->under_way = a->k;
            model_say("hd_outer_claim: of round %u", a->k);
        }
        a->at = OUT_CLAIM;
        return true;
    case OUT_CLAIM:
        touch(s, a->k);
        s->word.inside--;
        /* what the ghost claims, it completes, too */
        a->at = a->claimed ? (bug == RAISE_EARLY ? IN_READY : TRANSFER) : after(is_ghost, IDLE);
        return true;
    case TRANSFER:
        if (any_reported(s, a->k)) {
            model_violation("a request is under way when a member has reported");
        }
        s->completed = a->k;
        model_say("the network: the request of round %u has completed", a->k);
        a->at = bug == RAISE_EARLY ? TAKE : IN_READY;
        return true;
    case RAISE:
        touch(s, a->k);
        s->slice[LATER].ready = 1;
        a->at = OUT_READY;
        return true;
    default: /* OUT_READY */
        touch(s, a->k);
        s->word.inside--;
        a->at = bug == RAISE_EARLY && s->completed != a->k ? TRANSFER : TAKE;
        return true;
    }
}

static bool step_finish(state_t *s, agent_t *a, bool is_ghost) {
    slice_t *slice = &s->slice[REQUEST];
    switch (a->at) {
    case TAKE:
        if (slice->round != a->k || (!slice->bit && bug != NO_BIT)) {
            model_say("hd_outer_finish: not under way");
            a->at = after(is_ghost, IDLE);
            return true;
        }
        slice->bit = a->claimed = 0;
        a->at = bug == FINISH_OUTSIDE ? FINISH : IN_FINISH;
        return true;
    case IN_FINISH:
        touch(s, a->k);
        s->word.inside++;
        a->at = FINISH;
        return true;
    case FINISH:
        touch(s, a->k);
        slice->finished++;
        if (slice->finished > 1) {
            model_violation("a unit is finished twice");
        }
        a->at = SLICE;
        return true;
    case SLICE:
        touch(s, a->k);
        a->at = ++s->slices_done == SLICES ? END : OUT_FINISH;
        return true;
    case END:
        touch(s, a->k);
        s->done = a->k;
        a->at = OUT_FINISH;
        return true;
    default: /* OUT_FINISH */
        if (bug != FINISH_OUTSIDE) {
            touch(s, a->k);
            s->word.inside--;
        }
        a->at = after(is_ghost, IDLE);
        return true;
    }
}

static bool step_agent(state_t *s, agent_t *a, bool is_ghost, uint32_t choice) {
    if (a->at == IDLE) {
        return begin_act(s, a, is_ghost, choice);
    }
    if (choice || a->at == OVER) {
        return false;
    }
    if (a->at < IN_CLAIM) {
        return step_release(s, a, is_ghost);
    }
    return a->at < TAKE ? step_request(s, a, is_ghost) : step_finish(s, a, is_ghost);
}

static bool step(void *state, uint32_t actor, uint32_t choice) {
    state_t *s = state;
    if (actor >= MEMBERS) {
        return step_agent(s, &s->a[actor - MEMBERS], actor == GHOST, choice);
    }
    member_t *m = &s->m[actor];
    if (m->at == GONE) {
        return false;
    }
    if (m->at == WAIT || m->at == WORK) {
        return choice < 2 && step_work(s, m, actor, choice);
    }
    if (choice) {
        return false;
    }
    if (m->at < WAIT) {
        return step_entry(s, m, actor);
    }
    return m->at < CLOSE ? step_work(s, m, actor, 0) : step_end(s, m);
}

static const char *end(const void *state) {
    const state_t *s = state;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (s->m[i].at != GONE) {
            return "a member waits for ever";
        }
        if (!s->poison && s->m[i].reported != ROUNDS) {
            return "the last exchange did not end";
        }
    }
    return NULL;
}

static const model_bug_t bugs[] = {
    {"none", 0, ""},
    {"no-key", WITH_GHOST, "acts don't ask whose exchange is in the slot"},
    {"no-close", PLAIN, "the completer ends while others are inside"},
    {"quiet-first", CANCEL, "who cancels looks for others inside only before it closes the slices"},
    {"finish-outside", CANCEL, "who finishes a unit is not counted as inside"},
    {"release-twice", WITH_GHOST, "a release does not look whether there was one"},
    {"no-bit", WITH_GHOST, "a completion does not look whether its unit is under way"},
    {"ignore-ready", PLAIN, "a claimer does not look how many units are ready"},
    {"raise-early", PLAIN, "units are made ready before what they need has come"},
    {"cancel-without-waiting", CANCEL, "who cancels does not wait for requests that are under way"},
    {"enter-closed", CANCEL, "acts begin in a closed exchange"},
    {NULL, 0, NULL},
};

static const model_t model = {
    .name = "outer",
    .bytes = sizeof(state_t),
    .actors = ACTORS,
    .choices = 4,
    .variants = variant_names,
    .bugs = bugs,
    .start = start,
    .step = step,
    .end = end,
};

int main(int argc, char **argv) {
    return model_main(&model, argc, argv);
}
