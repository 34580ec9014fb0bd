/* claim_model.c: the DIRECT regime of src/shm/engine.c: claiming, finishing, closing, reusing.
 *
 * n members go through `rounds` exchanges that all use one slot (a board of depth 1: round k + 1
 * begins when all have consumed k, which is what the floor of a deeper board says about k + depth).
 * Any member that waits may time out, which poisons the group and closes the exchange. Steps carry
 * the names of the functions they stand for. A loop around a compare-and-swap that cannot fail for
 * good is one step.
 *
 * Properties:
 *   - a unit is run only by who has seen all arrivals, and by one member only;
 *   - once a member has reported, with success or not, no unit of that exchange is under way;
 *   - the end line is written once per exchange, when every unit has been run;
 *   - a claim that succeeds is of the generation that its slot is in;
 *   - exclusive: never are two units under way;
 *   - nobody waits for ever.
 *
 * Variants "early": the last member's data came with its lane, as in gatherv: it has registered its
 * slice like all others, publishes, and is over; units of its slice are left to the rest, and touch
 * none of its buffers.
 */
#include "explorer.h"

#include <string.h>

enum { MAX_N = 3 };

/* where a member is */
enum {
    ENTER,
    FLOOR,
    RESET,
    REGISTER,
    PUBLISH,
    LATE_RESET, /* only with the bug of that name */
    ARRIVED,
    TURN,  /* exclusive: about to try for the user's turn */
    CLAIM, /* about to load the claim word of m->slice */
    CLAIM_SWAP,
    RUN,
    FINISH,
    UNLOCK, /* exclusive: gives the turn back, then goes on at m->after */
    SLICE_DONE,
    END_EXCHANGE,
    HINT,
    MOVE_HINT,
    DONE,
    POISON,
    CLOSE,
    CLOSE_WAIT,
    CONSUME,
    REPORT,
    GONE
};

/* planted bugs */
enum {
    NO_BUG,
    NO_GENERATION,
    OLD_GENERATION_CLOSED,
    RESET_FINISHED_LATE,
    NO_RESET,
    COUNT_WITHOUT_GENERATION,
    CANCEL_WITHOUT_WAITING,
    CLOSE_OWN_SLICE,
    CLAIM_IGNORES_CLOSED,
    CLAIM_BY_STORE,
    FINISH_BEFORE_RUN,
    CLAIM_BEFORE_ARRIVAL,
    NO_FLOOR,
    EXCLUSIVE_WITHOUT_TURN
};

typedef struct word {
    uint8_t generation, closed, next;
} word_t;

typedef struct member {
    uint8_t at, k, cursor;
    uint8_t slice, unit, taken, stealing, cancelling;
    uint8_t has_turn, after;
    word_t seen;
    uint8_t seen_hint_generation, seen_hint;
    uint8_t consumed;
    uint8_t reported; /* rounds whose outcome the client knows */
} member_t;

typedef struct state {
    word_t claim[MAX_N];
    uint8_t finished[MAX_N];
    uint8_t lane[MAX_N];
    uint8_t slices_generation, slices_count;
    uint8_t hint_generation, hint;
    uint8_t done, poison;
    uint8_t turn;       /* user_turn is taken */
    uint8_t ran[MAX_N]; /* bit per unit, of round ran_k */
    uint8_t ran_k;
    member_t m[MAX_N];
} state_t;

typedef struct variant {
    uint8_t n, slices, units, batch, rounds;
    uint8_t may_time_out; /* bit per member */
    uint8_t early;        /* likewise */
    bool exclusive;
} variant_t;

/* Variants. A time-out ends every wait, so waits for ever show only where nobody times out. */
enum {
    QUIET,
    BATCH,
    EXCLUSIVE,
    EARLY,
    CANCEL,
    CANCEL_OF_THREE,
    BATCH_CANCEL,
    EXCLUSIVE_CANCEL,
    EARLY_CANCEL
};

static const char *const variant_names[] = {
    "quiet",           "batch",        "exclusive",        "early",        "cancel",
    "cancel-of-three", "batch-cancel", "exclusive-cancel", "early-cancel", NULL};
/* n, slices, units, batch, rounds, may_time_out, early, exclusive */
/* clang-format off */
static const variant_t variants[] = {
    [QUIET]            = {3, 3, 2, 1, 2, 0, 0, false},
    [BATCH]            = {2, 2, 5, 2, 3, 0, 0, false},
    [EXCLUSIVE]        = {3, 1, 2, 1, 2, 0, 0, true},
    [EARLY]            = {3, 3, 2, 1, 2, 0, 4, false},
    [CANCEL]           = {2, 2, 2, 1, 3, 3, 0, false},
    [CANCEL_OF_THREE]  = {3, 3, 2, 1, 2, 7, 0, false},
    [BATCH_CANCEL]     = {2, 2, 5, 2, 2, 3, 0, false},
    [EXCLUSIVE_CANCEL] = {3, 1, 2, 1, 2, 3, 0, true},
    [EARLY_CANCEL]     = {3, 3, 2, 1, 2, 3, 4, false},
};
/* clang-format on */

static variant_t cfg;
static uint32_t bug;

static void start(void *state, uint32_t variant, uint32_t which) {
    state_t *s = state;
    memset(s, 0, sizeof(*s));
    cfg = variants[variant];
    bug = which;
    for (uint32_t i = 0; i < cfg.n; i++) {
        s->m[i].k = 1;
    }
    s->ran_k = 1;
}

static bool all_consumed(const state_t *s, uint8_t k) {
    for (uint32_t i = 0; i < cfg.n; i++) {
        if (s->m[i].consumed < k) {
            return false;
        }
    }
    return true;
}

/* Forgets registers that the code does not use again either: fewer states. */
static void forget(member_t *m) {
    m->unit = m->taken = m->cursor = 0;
    memset(&m->seen, 0, sizeof(m->seen));
    m->seen_hint_generation = m->seen_hint = 0;
}

/* --- registering ------------------------------------------------------------------------------ */

static void enter_register(state_t *s, member_t *m, uint8_t me) {
    word_t *word = &s->claim[me];
    if (word->generation != m->k || bug == NO_GENERATION) {
        *word = (word_t){m->k, 0, 0};
        model_say("hd_engine_register: my slice is open for %u", m->k);
    } else {
        model_say("hd_engine_register: my slice was closed for %u already", m->k);
    }
    m->at = PUBLISH;
}

static bool step_entry(state_t *s, member_t *m, uint8_t me) {
    switch (m->at) {
    case ENTER:
        model_say("launch: round %u, the group is %s", m->k, s->poison ? "poisoned" : "fine");
        m->at = s->poison ? GONE : FLOOR;
        return true;
    case FLOOR:
        if (bug == NO_FLOOR || all_consumed(s, (uint8_t)(m->k - 1))) {
            model_say("hd_board_may_publish: yes");
            m->at = RESET;
            return true;
        }
        model_say("step_queued: the group is poisoned");
        m->at = GONE;
        return s->poison;
    case RESET:
        if (bug != RESET_FINISHED_LATE && bug != NO_RESET) {
            s->finished[me] = 0;
        }
        model_say("hd_engine_register: finished = 0");
        m->at = REGISTER;
        return true;
    case REGISTER:
        enter_register(s, m, me);
        return true;
    case PUBLISH:
        s->lane[me] = m->k;
        if (s->ran_k < m->k) { /* the first of this round: a new account of what was run */
            s->ran_k = m->k;
            memset(s->ran, 0, sizeof(s->ran));
        }
        model_say("publish: lane = %u", m->k);
        m->at = bug == RESET_FINISHED_LATE ? LATE_RESET : cfg.early >> me & 1 ? CONSUME : ARRIVED;
        return true;
    default: /* LATE_RESET */
        s->finished[me] = 0;
        model_say("(bug) finished = 0");
        m->at = ARRIVED;
        return true;
    }
}

/* --- claiming --------------------------------------------------------------------------------- */

/* work_on begins. */
static uint8_t first_step(void) {
    return cfg.exclusive && bug != EXCLUSIVE_WITHOUT_TURN ? TURN : CLAIM;
}

/* work_on is over. */
static void go_on(member_t *m, uint8_t at) {
    m->after = m->has_turn ? at : 0;
    m->at = m->has_turn ? UNLOCK : at;
}

static void begin_work(member_t *m, uint8_t me) {
    forget(m);
    m->stealing = me >= cfg.slices;
    m->slice = m->stealing ? 0 : me;
    m->at = m->stealing ? HINT : first_step();
}

static bool is_claimable(const member_t *m, const word_t *word) {
    return word->generation == m->k && (!word->closed || bug == CLAIM_IGNORES_CLOSED) &&
           word->next < cfg.units;
}

static void not_claimed(member_t *m) {
    go_on(m, !m->stealing ? HINT : MOVE_HINT);
    m->stealing = true;
    memset(&m->seen, 0, sizeof(m->seen));
}

static bool same_word(const word_t *a, const word_t *b) {
    return a->generation == b->generation && a->closed == b->closed && a->next == b->next;
}

static void swap_claim(state_t *s, member_t *m) {
    word_t *word = &s->claim[m->slice];
    if (!same_word(word, &m->seen) && bug != CLAIM_BY_STORE) {
        m->seen = *word;
        model_say("claim: slice %u has changed to %u.%u%s", m->slice, word->generation, word->next,
                  word->closed ? " closed" : "");
        if (!is_claimable(m, &m->seen)) {
            not_claimed(m);
        }
        return;
    }
    m->unit = m->seen.next;
    m->taken = cfg.units - m->unit < cfg.batch ? (uint8_t)(cfg.units - m->unit) : cfg.batch;
    *word = m->seen;
    word->next = (uint8_t)(word->next + m->taken);
    memset(&m->seen, 0, sizeof(m->seen));
    model_say("claim: slice %u, %u units from %u, of round %u", m->slice, m->taken, m->unit, m->k);
    if (s->lane[m->slice] != m->k) {
        model_violation("a claim succeeded in a slot that is in another generation");
    }
    m->at = bug == FINISH_BEFORE_RUN ? FINISH : RUN;
}

static void run(state_t *s, member_t *m) {
    for (uint32_t i = 0; i < cfg.n; i++) {
        if (s->m[i].reported >= m->k && !(cfg.early >> i & 1)) {
            model_violation("a unit touches the buffers of a member that has reported");
        }
        if (s->lane[i] != m->k) {
            model_violation("a unit is run before all have arrived");
        }
        if (cfg.exclusive && &s->m[i] != m && s->m[i].at == RUN) {
            model_violation("two units of the user's operation are under way at once");
        }
    }
    for (uint32_t u = m->unit; u < m->unit + m->taken; u++) {
        if (s->ran[m->slice] >> u & 1) {
            model_violation("a unit is run twice");
        }
        s->ran[m->slice] |= (uint8_t)(1u << u);
    }
    model_say("hd_work_run: slice %u, %u units from %u", m->slice, m->taken, m->unit);
}

static void after_finish(member_t *m, bool last, uint8_t me) {
    if (last) {
        m->at = SLICE_DONE;
    } else {
        go_on(m, m->stealing ? HINT : first_step());
        forget(m);
        m->slice = m->stealing ? 0 : me;
    }
}

static bool step_claim(state_t *s, member_t *m, uint8_t me) {
    switch (m->at) {
    case CLAIM:
        m->seen = s->claim[m->slice];
        model_say("claim: slice %u is %u.%u%s", m->slice, m->seen.generation, m->seen.next,
                  m->seen.closed ? " closed" : "");
        if (is_claimable(m, &m->seen)) {
            m->at = CLAIM_SWAP;
        } else {
            not_claimed(m);
        }
        return true;
    case TURN:
        model_say("work_on: the user's turn is %s", s->turn ? "taken" : "mine");
        if (s->turn) {
            not_claimed(m);
        } else {
            s->turn = m->has_turn = 1;
            m->at = CLAIM;
        }
        return true;
    case UNLOCK:
        s->turn = m->has_turn = 0;
        m->at = m->after;
        m->after = 0;
        model_say("work_on: gives the user's turn back");
        return true;
    case CLAIM_SWAP:
        swap_claim(s, m);
        return true;
    case RUN:
        run(s, m);
        if (bug == FINISH_BEFORE_RUN) {
            after_finish(m, s->finished[m->slice] == cfg.units, me);
        } else {
            m->at = FINISH;
        }
        return true;
    default: /* FINISH */
        s->finished[m->slice] = (uint8_t)(s->finished[m->slice] + m->taken);
        model_say("work_on: %u of slice %u are finished", s->finished[m->slice], m->slice);
        if (bug == FINISH_BEFORE_RUN) {
            m->at = RUN;
        } else {
            after_finish(m, s->finished[m->slice] == cfg.units, me);
        }
        return true;
    }
}

static void end_exchange(state_t *s, const member_t *m) {
    uint8_t all = (uint8_t)((1u << cfg.units) - 1);
    if (s->done == m->k) {
        model_violation("the end line is written twice");
    }
    for (uint32_t i = 0; i < cfg.slices; i++) {
        if (s->ran[i] != all) {
            model_violation("the end line is written before every unit has been run");
        }
    }
    s->done = m->k;
    model_say("end_exchange: done = %u", m->k);
}

static bool step_after_claim(state_t *s, member_t *m, uint8_t me) {
    switch (m->at) {
    case SLICE_DONE:
        if (s->slices_generation != m->k && bug != COUNT_WITHOUT_GENERATION) {
            s->slices_count = 0;
        }
        s->slices_generation = m->k;
        s->slices_count++;
        model_say("slice_done: %u slices", s->slices_count);
        if (s->slices_count == cfg.slices) {
            m->at = END_EXCHANGE;
            return true;
        }
        after_finish(m, false, me);
        return true;
    case END_EXCHANGE:
        end_exchange(s, m);
        after_finish(m, false, me);
        return true;
    case HINT:
        m->seen_hint_generation = s->hint_generation;
        m->seen_hint = s->hint;
        m->slice = s->hint_generation == m->k ? s->hint : 0;
        model_say("steal: from slice %u", m->slice);
        m->at = m->slice < cfg.slices ? first_step() : DONE;
        return true;
    default: /* MOVE_HINT */
        if (!cfg.exclusive) {
            if (s->hint_generation == m->seen_hint_generation && s->hint == m->seen_hint) {
                s->hint_generation = m->k;
                s->hint = (uint8_t)(m->slice + 1);
            }
            m->seen_hint_generation = m->k;
            m->seen_hint = (uint8_t)(m->slice + 1);
        }
        model_say("steal: nothing in slice %u", m->slice);
        m->slice++;
        m->at = m->slice < cfg.slices ? first_step() : DONE;
        return true;
    }
}

/* --- waiting and cancelling ------------------------------------------------------------------- */

/* op.c, advance: the operation waits; poison and deadline may end it. */
static bool give_up(state_t *s, member_t *m, uint8_t me, uint32_t choice) {
    if (choice == 1 && cfg.may_time_out >> me & 1) {
        model_say("timed_out: round %u", m->k);
    } else if (choice == 0 && s->poison) {
        model_say("advance: the group is poisoned");
    } else {
        return false;
    }
    forget(m);
    m->slice = bug == CLOSE_OWN_SLICE ? me : 0;
    m->cancelling = 1;
    m->at = POISON;
    return true;
}

/* The user's turn was taken, and is not any more: the next step will find that. */
static bool is_there_work(const state_t *s, const member_t *m) {
    return cfg.exclusive && is_claimable(m, &s->claim[0]) && !s->turn;
}

static bool step_wait(state_t *s, member_t *m, uint8_t me, uint32_t choice) {
    if (m->at == ARRIVED) {
        if (choice == 0 && (s->lane[m->cursor] == m->k || bug == CLAIM_BEFORE_ARRIVAL)) {
            model_say("hd_arrived: lane %u is there", m->cursor);
            if (++m->cursor == cfg.n) {
                begin_work(m, me);
            }
            return true;
        }
        return give_up(s, m, me, choice);
    }
    if (choice == 0 && s->done == m->k) {
        model_say("hd_engine_work: round %u is over", m->k);
        forget(m);
        m->at = CONSUME;
        return true;
    }
    if (choice == 0 && is_there_work(s, m)) {
        model_say("hd_engine_work: again");
        begin_work(m, me);
        return true;
    }
    return give_up(s, m, me, choice);
}

static void next_to_close(member_t *m) {
    m->slice++;
    m->at = m->slice < cfg.n && bug != CLOSE_OWN_SLICE ? CLOSE : CONSUME;
}

static bool step_cancel(state_t *s, member_t *m) {
    word_t *word = &s->claim[m->slice];
    switch (m->at) {
    case POISON:
        s->poison = 1;
        model_say("hd_group_poison");
        m->at = CLOSE;
        return true;
    case CLOSE:
        if (word->generation != m->k && bug != OLD_GENERATION_CLOSED) {
            *word = (word_t){m->k, 0, 0};
        }
        word->closed = 1;
        m->seen = *word;
        model_say("close_slice: slice %u at %u", m->slice, word->next);
        m->at = CLOSE_WAIT;
        return true;
    default: /* CLOSE_WAIT */
        if (m->seen.next && s->finished[m->slice] != m->seen.next &&
            bug != CANCEL_WITHOUT_WAITING) {
            return false;
        }
        model_say("close_slice: no claimed unit of slice %u is unfinished", m->slice);
        memset(&m->seen, 0, sizeof(m->seen));
        next_to_close(m);
        return true;
    }
}

static bool step_report(state_t *s, member_t *m, uint8_t me) {
    if (m->at == CONSUME) {
        m->consumed = m->k;
        model_say("hd_board_consume: %u", m->k);
        m->at = REPORT;
        return true;
    }
    for (uint32_t i = 0; i < cfg.n && !(cfg.early >> me & 1); i++) {
        if (s->m[i].k == m->k && s->m[i].at == RUN) {
            model_violation("a member reports while a unit of its exchange is under way");
        }
    }
    m->reported = m->k;
    model_say("hd_task_complete: round %u %s", m->k, m->cancelling ? "failed" : "succeeded");
    m->stealing = m->slice = 0;
    m->at = m->cancelling || m->k == cfg.rounds ? GONE : ENTER;
    m->k = m->at == ENTER ? (uint8_t)(m->k + 1) : m->k;
    return true;
}

static bool step(void *state, uint32_t actor, uint32_t choice) {
    state_t *s = state;
    member_t *m = &s->m[actor];
    uint8_t me = (uint8_t)actor;
    if (actor >= cfg.n || m->at == GONE) {
        return false;
    }
    if (m->at == ARRIVED || m->at == DONE) {
        return step_wait(s, m, me, choice);
    }
    if (choice != 0) {
        return false;
    }
    if (m->at < ARRIVED) {
        return step_entry(s, m, me);
    }
    if (m->at < SLICE_DONE) {
        return step_claim(s, m, me);
    }
    if (m->at < DONE) {
        return step_after_claim(s, m, me);
    }
    return m->at < CONSUME ? step_cancel(s, m) : step_report(s, m, me);
}

static const char *end(const void *state) {
    const state_t *s = state;
    for (uint32_t i = 0; i < cfg.n; i++) {
        if (s->m[i].at != GONE) {
            return "a member waits for ever";
        }
    }
    return s->poison || s->done == cfg.rounds ? NULL : "the last exchange did not end";
}

static const model_bug_t bugs[] = {
    {"none", 0, ""},
    {"no-generation", CANCEL, "the owner opens its slice although a canceller has closed it"},
    {"old-generation-closed", CANCEL, "the canceller closes a late owner's slice as it finds it"},
    {"reset-finished-late", QUIET, "the owner resets `finished` after it has published"},
    {"no-reset", QUIET, "the owner does not reset `finished`"},
    {"no-slices-generation", QUIET, "finished slices of the slot's last use are counted"},
    {"cancel-without-waiting", CANCEL, "the canceller does not wait for claimed units"},
    {"close-own-slice", CANCEL, "the canceller closes its own slice only"},
    {"claim-ignores-closed", CANCEL, "claims succeed in closed slices"},
    {"claim-by-store", QUIET, "a claim is a load and a store"},
    {"finish-before-run", CANCEL, "units are counted as finished before they are run"},
    {"claim-before-arrival", QUIET, "claims do not wait for all arrivals"},
    {"no-floor", QUIET, "the slot is used again before all have consumed its last use"},
    {"exclusive-without-turn", EXCLUSIVE, "exclusive claims do not take the user's turn"},
    {NULL, 0, NULL},
};

static const model_t model = {
    .name = "claim",
    .bytes = sizeof(state_t),
    .actors = MAX_N,
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
