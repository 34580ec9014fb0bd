/* claim_model.c: the DIRECT regime of src/shm/engine.c: claiming, finishing, closing, reusing.
 *
 * n members go through `rounds` exchanges that all use one slot (a board of depth 1: round k + 1
 * begins when all have consumed k, which is what the floor of a deeper board says about k + depth).
 * Any member that waits may time out, which poisons the group and closes the exchange. Steps carry
 * the names of the functions they stand for. A loop around a compare-and-swap that cannot fail for
 * good is one step.
 *
 * The end is seen in one of two ways. Deep: finished slices are counted, and who finishes the last
 * one writes the end line. Flat: each member looks at every slice's `finished` word (generation and
 * count) in the order of their numbers, but for its own where its own addition was the last one.
 *
 * Properties:
 *   - a unit is run only by who has seen all arrivals, and by one member only;
 *   - once a member has reported, with success or not, no unit of that exchange is under way;
 *   - who sees the end does so when every unit has been run; deep: the end line is written once;
 *   - if a unit failed, nobody reports success;
 *   - a claim that succeeds is of the generation that its slot is in;
 *   - exclusive: never are two units under way;
 *   - nobody waits for ever.
 *
 * Generations are the low bits of the round's number. In the variants "wrap" all rounds have the
 * same one: what is left in a slot from its last use looks like this one's.
 *
 * Variants "early": the last member's data came with its lane, as in gatherv: it has registered its
 * slice like all others, publishes, and is over; units of its slice are left to the rest, and touch
 * none of its buffers. Variants "failing": the first unit of slice 0 fails.
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
    NOTE, /* a unit has failed */
    FINISH,
    UNLOCK, /* exclusive: gives the turn back, then goes on at m->after */
    SLICE_DONE,
    END_EXCHANGE,
    HINT,
    MOVE_HINT,
    LOOK,   /* flat: about to load `finished` of slice m->finished */
    STATUS, /* flat: has seen every slice finished */
    DONE,   /* waits for the end */
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
    NO_COUNT_RESET,
    NO_HINT_RESET,
    CLOSE_BY_GENERATION,
    CANCEL_WITHOUT_WAITING,
    CLOSE_OWN_SLICE,
    CLAIM_IGNORES_CLOSED,
    CLAIM_BY_STORE,
    FINISH_BEFORE_RUN,
    CLAIM_BEFORE_ARRIVAL,
    NO_FLOOR,
    EXCLUSIVE_WITHOUT_TURN,
    NOTE_FAILURE_LATE,
    END_WITHOUT_OTHERS,
    END_BY_CLAIMS,
    OWN_FINISHED_BY_CLAIM,
    OWN_FINISHED_WHEN_EMPTY,
    UNITS_OF_LAST_USE,
    N_BUGS, /* below: bugs from above, found in a flat variant */
    FLAT_NO_GENERATION = N_BUGS,
    FLAT_RESET_FINISHED_LATE,
    FLAT_NO_RESET,
    FLAT_CANCEL_WITHOUT_WAITING,
    FLAT_FINISH_BEFORE_RUN,
    FLAT_NO_FLOOR,
    FLAT_NOTE_FAILURE_LATE
};

static const uint8_t same_bug[] = {NO_GENERATION,          RESET_FINISHED_LATE, NO_RESET,
                                   CANCEL_WITHOUT_WAITING, FINISH_BEFORE_RUN,   NO_FLOOR,
                                   NOTE_FAILURE_LATE};

typedef struct word {
    uint8_t generation, closed, next;
} word_t;

typedef struct finished {
    uint8_t generation, count;
} finished_t;

typedef struct member {
    uint8_t at, k, cursor;
    uint8_t slice, unit, taken, stealing, cancelling;
    uint8_t has_turn, after;
    uint8_t finished, own_finished; /* flat */
    uint8_t failed;                 /* a unit did, as I know */
    word_t seen;
    uint8_t seen_hint;
    uint8_t consumed;
    uint8_t reported; /* rounds whose outcome the client knows */
} member_t;

typedef struct state {
    word_t claim[MAX_N];
    finished_t finished[MAX_N];
    uint8_t lane[MAX_N];
    uint8_t slices_count, hint;
    uint8_t done, done_failed, poison;
    uint8_t failure;    /* work_status: the round in which a unit failed */
    uint8_t turn;       /* user_turn is taken */
    uint8_t ran[MAX_N]; /* bit per unit, of round ran_k */
    uint8_t ran_k;
    member_t m[MAX_N];
} state_t;

typedef struct variant {
    uint8_t n, slices, units, batch, rounds;
    uint8_t may_time_out; /* bit per member */
    uint8_t early;        /* likewise */
    bool exclusive, flat, failing, wrap;
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
    EARLY_CANCEL,
    FAILING,
    FLAT,
    FLAT_BATCH,
    FLAT_EXCLUSIVE,
    FLAT_EARLY,
    FLAT_CANCEL,
    FLAT_CANCEL_OF_THREE,
    FLAT_BATCH_CANCEL,
    FLAT_EXCLUSIVE_CANCEL,
    FLAT_EARLY_CANCEL,
    FLAT_FAILING,
    WRAP,
    WRAP_EARLY,
    WRAP_CANCEL,
    FLAT_WRAP,
    FLAT_WRAP_CANCEL
};

static const char *const variant_names[] = {"quiet",
                                            "batch",
                                            "exclusive",
                                            "early",
                                            "cancel",
                                            "cancel-of-three",
                                            "batch-cancel",
                                            "exclusive-cancel",
                                            "early-cancel",
                                            "failing",
                                            "flat",
                                            "flat-batch",
                                            "flat-exclusive",
                                            "flat-early",
                                            "flat-cancel",
                                            "flat-cancel-of-three",
                                            "flat-batch-cancel",
                                            "flat-exclusive-cancel",
                                            "flat-early-cancel",
                                            "flat-failing",
                                            "wrap",
                                            "wrap-early",
                                            "wrap-cancel",
                                            "flat-wrap",
                                            "flat-wrap-cancel",
                                            NULL};
/* n, slices, units, batch, rounds, may_time_out, early, exclusive, flat, failing, wrap */
/* clang-format off */
static const variant_t variants[] = {
    [QUIET]                 = {3, 3, 2, 1, 2, 0, 0, false, false, false, false},
    [BATCH]                 = {2, 2, 5, 2, 3, 0, 0, false, false, false, false},
    [EXCLUSIVE]             = {3, 1, 2, 1, 2, 0, 0, true,  false, false, false},
    [EARLY]                 = {3, 3, 2, 1, 2, 0, 4, false, false, false, false},
    [CANCEL]                = {2, 2, 2, 1, 3, 3, 0, false, false, false, false},
    [CANCEL_OF_THREE]       = {3, 3, 2, 1, 2, 7, 0, false, false, false, false},
    [BATCH_CANCEL]          = {2, 2, 5, 2, 2, 3, 0, false, false, false, false},
    [EXCLUSIVE_CANCEL]      = {3, 1, 2, 1, 2, 3, 0, true,  false, false, false},
    [EARLY_CANCEL]          = {3, 3, 2, 1, 2, 3, 4, false, false, false, false},
    [FAILING]               = {2, 2, 2, 1, 2, 3, 0, false, false, true, false},
    [FLAT]                  = {3, 3, 2, 1, 2, 0, 0, false, true,  false, false},
    [FLAT_BATCH]            = {2, 2, 5, 2, 3, 0, 0, false, true,  false, false},
    [FLAT_EXCLUSIVE]        = {3, 1, 2, 1, 2, 0, 0, true,  true,  false, false},
    [FLAT_EARLY]            = {3, 3, 2, 1, 2, 0, 4, false, true,  false, false},
    [FLAT_CANCEL]           = {2, 2, 2, 1, 3, 3, 0, false, true,  false, false},
    [FLAT_CANCEL_OF_THREE]  = {3, 3, 2, 1, 2, 7, 0, false, true,  false, false},
    [FLAT_BATCH_CANCEL]     = {2, 2, 5, 2, 2, 3, 0, false, true,  false, false},
    [FLAT_EXCLUSIVE_CANCEL] = {3, 1, 2, 1, 2, 3, 0, true,  true,  false, false},
    [FLAT_EARLY_CANCEL]     = {3, 3, 2, 1, 2, 3, 4, false, true,  false, false},
    [FLAT_FAILING]          = {3, 3, 2, 1, 2, 0, 0, false, true,  true, false},
    [WRAP]                  = {3, 3, 2, 1, 2, 0, 0, false, false, false, true},
    [WRAP_EARLY]            = {3, 3, 2, 1, 2, 0, 4, false, false, false, true},
    [WRAP_CANCEL]           = {2, 2, 2, 1, 3, 3, 0, false, false, false, true},
    [FLAT_WRAP]             = {3, 3, 2, 1, 2, 0, 0, false, true,  false, true},
    [FLAT_WRAP_CANCEL]      = {2, 2, 2, 1, 3, 3, 0, false, true,  false, true},
};
/* clang-format on */

static variant_t cfg;
static uint32_t bug;

static void start(void *state, uint32_t variant, uint32_t which) {
    state_t *s = state;
    memset(s, 0, sizeof(*s));
    cfg = variants[variant];
    bug = which < N_BUGS ? which : same_bug[which - N_BUGS];
    for (uint32_t i = 0; i < cfg.n; i++) {
        s->m[i].k = 1;
    }
    s->ran_k = 1;
}

/* What words carry of round k. */
static uint8_t generation(uint8_t k) {
    return cfg.wrap ? 1 : k;
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
    m->seen_hint = 0;
}

/* --- registering ------------------------------------------------------------------------------ */

static void enter_register(state_t *s, member_t *m, uint8_t me) {
    word_t *word = &s->claim[me];
    bool closed = word->generation == generation(m->k) && word->closed && word->next == 0;
    if (!closed || bug == NO_GENERATION) {
        *word = (word_t){generation(m->k), 0, 0};
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
        if (bug != RESET_FINISHED_LATE && bug != NO_RESET && bug != UNITS_OF_LAST_USE) {
            s->finished[me] = (finished_t){generation(m->k), 0};
        }
        if (me == 0 && bug != NO_COUNT_RESET) {
            s->slices_count = 0;
        }
        if (me == 0 && bug != NO_HINT_RESET) {
            s->hint = 0;
        }
        model_say("hd_engine_register: finished = %u.%u", s->finished[me].generation,
                  s->finished[me].count);
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
        s->finished[me] = (finished_t){generation(m->k), 0};
        model_say("(bug) finished = %u.0", m->k);
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

/* Where work on others' slices begins. */
static uint8_t steal_step(void) {
    return cfg.flat ? LOOK : HINT;
}

static void begin_work(member_t *m, uint8_t me) {
    forget(m);
    m->stealing = me >= cfg.slices || m->own_finished;
    m->slice = m->stealing ? 0 : me;
    m->at = m->stealing ? steal_step() : first_step();
}

static bool is_claimable(const member_t *m, const word_t *word) {
    return word->generation == generation(m->k) && (!word->closed || bug == CLAIM_IGNORES_CLOSED) &&
           word->next < cfg.units;
}

static void not_claimed(member_t *m) {
    if (!m->stealing) {
        m->own_finished = bug == OWN_FINISHED_WHEN_EMPTY;
        go_on(m, steal_step());
    } else {
        go_on(m, cfg.flat ? DONE : MOVE_HINT);
    }
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

static bool is_finished(const state_t *s, const member_t *m, uint8_t slice) {
    const finished_t *finished = &s->finished[slice];
    if (bug == END_BY_CLAIMS) {
        return s->claim[slice].next == cfg.units;
    }
    return (finished->generation == generation(m->k) || bug == UNITS_OF_LAST_USE) &&
           finished->count == cfg.units;
}

static void after_finish(member_t *m, bool last, uint8_t me) {
    if (last && !cfg.flat) {
        m->at = SLICE_DONE;
        return;
    }
    if (cfg.flat && m->slice == me) {
        bool claimed_last = bug == OWN_FINISHED_BY_CLAIM && m->unit + m->taken == cfg.units;
        m->own_finished = m->own_finished || last || claimed_last;
    }
    m->stealing = m->stealing || m->own_finished;
    go_on(m, m->stealing ? steal_step() : first_step());
    forget(m);
    m->slice = m->stealing ? 0 : me;
}

static bool fails(const member_t *m) {
    return cfg.failing && m->slice == 0 && m->unit == 0;
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
            after_finish(m, is_finished(s, m, m->slice), me);
        } else {
            m->at = fails(m) && bug != NOTE_FAILURE_LATE ? NOTE : FINISH;
        }
        return true;
    case NOTE:
        s->failure = m->k;
        model_say("note_failure: of slice %u", m->slice);
        m->at = FINISH;
        if (bug == NOTE_FAILURE_LATE) {
            after_finish(m, is_finished(s, m, m->slice), me);
        }
        return true;
    default: /* FINISH */
        s->finished[m->slice].count = (uint8_t)(s->finished[m->slice].count + m->taken);
        model_say("work_on: %u of slice %u are finished", s->finished[m->slice].count, m->slice);
        if (bug == FINISH_BEFORE_RUN) {
            m->at = RUN;
        } else if (bug == NOTE_FAILURE_LATE && fails(m)) {
            m->at = NOTE;
        } else {
            after_finish(m, is_finished(s, m, m->slice), me);
        }
        return true;
    }
}

/* This member takes the exchange for over. */
static void see_end(const state_t *s) {
    uint8_t all = (uint8_t)((1u << cfg.units) - 1);
    for (uint32_t i = 0; i < cfg.slices; i++) {
        if (s->ran[i] != all) {
            model_violation("the end is seen before every unit has been run");
        }
    }
}

static void end_exchange(state_t *s, const member_t *m) {
    if (s->done == m->k) {
        model_violation("the end line is written twice");
    }
    see_end(s);
    s->done_failed = s->failure == m->k;
    s->poison = s->poison || s->done_failed;
    s->done = m->k;
    model_say("end_exchange: done = %u", m->k);
}

static bool step_after_claim(state_t *s, member_t *m, uint8_t me) {
    switch (m->at) {
    case SLICE_DONE:
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
        m->seen_hint = m->slice = s->hint;
        model_say("steal: from slice %u", m->slice);
        m->at = m->slice < cfg.slices ? first_step() : DONE;
        return true;
    default: /* MOVE_HINT */
        if (!cfg.exclusive) {
            if (s->hint == m->seen_hint) {
                s->hint = (uint8_t)(m->slice + 1);
            }
            m->seen_hint = (uint8_t)(m->slice + 1);
        }
        model_say("steal: nothing in slice %u", m->slice);
        m->slice++;
        m->at = m->slice < cfg.slices ? first_step() : DONE;
        return true;
    }
}

/* --- the flat end ----------------------------------------------------------------------------- */

static void skip_own(member_t *m, uint8_t me) {
    if (m->own_finished && m->finished == me) {
        m->finished++;
    }
}

/* work_flat: one look at a slice. */
static bool look(state_t *s, member_t *m, uint8_t me, uint32_t choice) {
    skip_own(m, me);
    bool finished = m->finished == cfg.slices || is_finished(s, m, m->finished);
    if (!finished && choice == 1) {
        model_say("work_flat: enough for one step");
        m->at = DONE;
        return cfg.may_time_out >> me & 1; /* else it makes no difference */
    }
    if (choice == 1) {
        return false;
    }
    if (!finished) {
        model_say("work_flat: slice %u is not finished", m->finished);
        m->slice = m->finished;
        m->at = first_step();
        return true;
    }
    model_say("work_flat: slice %u is finished", m->finished);
    m->finished = (uint8_t)(m->finished + (m->finished < cfg.slices));
    skip_own(m, me);
    if (m->finished == cfg.slices || (bug == END_WITHOUT_OTHERS && m->own_finished)) {
        see_end(s);
        m->at = STATUS;
    }
    return true;
}

static bool step_flat_end(state_t *s, member_t *m, uint8_t me, uint32_t choice) {
    if (m->at == LOOK) {
        return look(s, m, me, choice);
    }
    m->failed = s->failure == m->k;
    s->poison = s->poison || m->failed;
    model_say("work_status: round %u is over", m->k);
    forget(m);
    m->at = CONSUME;
    return choice == 0;
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

/* What the next step will find: the user's turn was taken, and is not any more; or the last step
 * had done enough. */
static bool is_there_work(const state_t *s, const member_t *m) {
    if (!cfg.flat && !cfg.exclusive) {
        return false;
    }
    return is_claimable(m, &s->claim[m->finished]) && !s->turn;
}

static bool has_ended(const state_t *s, const member_t *m) {
    return cfg.flat ? is_finished(s, m, m->finished) : s->done == m->k;
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
    if (choice == 0 && !cfg.flat && has_ended(s, m)) {
        model_say("hd_engine_work: round %u is over", m->k);
        m->failed = s->done_failed;
        forget(m);
        m->at = CONSUME;
        return true;
    }
    if (choice == 0 && (has_ended(s, m) || is_there_work(s, m))) {
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
        if ((word->generation != generation(m->k) ||
             (s->lane[m->slice] != m->k && bug != CLOSE_BY_GENERATION)) &&
            bug != OLD_GENERATION_CLOSED) {
            *word = (word_t){generation(m->k), 0, 0};
        }
        word->closed = 1;
        m->seen = *word;
        model_say("close_slice: slice %u at %u", m->slice, word->next);
        m->at = CLOSE_WAIT;
        return true;
    default: /* CLOSE_WAIT */
        if (m->seen.next && bug != CANCEL_WITHOUT_WAITING &&
            (s->finished[m->slice].generation != generation(m->k) ||
             s->finished[m->slice].count != m->seen.next)) {
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
    bool failed = m->cancelling || m->failed;
    if (!failed && cfg.failing && !(cfg.early >> me & 1)) {
        model_violation("a member reports success although a unit failed");
    }
    m->reported = m->k;
    model_say("hd_task_complete: round %u %s", m->k, failed ? "failed" : "succeeded");
    m->stealing = m->slice = m->finished = m->own_finished = m->failed = 0;
    m->at = failed || m->k == cfg.rounds ? GONE : ENTER;
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
    if (m->at == LOOK || m->at == STATUS) {
        return step_flat_end(s, m, me, choice);
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
    for (uint32_t i = 0; i < cfg.n; i++) {
        if (!s->poison && s->m[i].reported != cfg.rounds) {
            return "the last exchange did not end";
        }
    }
    return NULL;
}

static const model_bug_t bugs[] = {
    {"none", 0, ""},
    {"no-generation", CANCEL, "the owner opens its slice although a canceller has closed it"},
    {"old-generation-closed", CANCEL, "the canceller closes a late owner's slice as it finds it"},
    {"reset-finished-late", QUIET, "the owner resets `finished` after it has published"},
    {"no-reset", QUIET, "the owner does not reset `finished`"},
    {"no-count-reset", QUIET, "finished slices of the slot's last use are counted"},
    {"no-hint-reset", EARLY, "work is stolen from where the slot's last use ended"},
    {"close-by-generation", WRAP_CANCEL,
     "the canceller takes a late owner's last use for this one"},
    {"cancel-without-waiting", CANCEL, "the canceller does not wait for claimed units"},
    {"close-own-slice", CANCEL, "the canceller closes its own slice only"},
    {"claim-ignores-closed", CANCEL, "claims succeed in closed slices"},
    {"claim-by-store", QUIET, "a claim is a load and a store"},
    {"finish-before-run", CANCEL, "units are counted as finished before they are run"},
    {"claim-before-arrival", QUIET, "claims do not wait for all arrivals"},
    {"no-floor", QUIET, "the slot is used again before all have consumed its last use"},
    {"exclusive-without-turn", EXCLUSIVE, "exclusive claims do not take the user's turn"},
    {"note-failure-late", FAILING, "a failure is noted after its unit is counted"},
    {"end-without-others", FLAT, "a member is content with its own slice"},
    {"end-by-claims", FLAT, "a slice whose units are all claimed is taken for finished"},
    {"own-finished-by-claim", FLAT,
     "the owner ran its last unit, others are still at earlier ones"},
    {"own-finished-when-empty", FLAT, "the owner finds no unit left in its slice"},
    {"units-of-last-use", FLAT, "`finished` is not reset, and looked at without its generation"},
    {"flat-no-generation", FLAT_CANCEL, "as above"},
    {"flat-reset-finished-late", FLAT, "as above"},
    {"flat-no-reset", FLAT, "as above"},
    {"flat-cancel-without-waiting", FLAT_CANCEL, "as above"},
    {"flat-finish-before-run", FLAT, "as above"},
    {"flat-no-floor", FLAT, "as above"},
    {"flat-note-failure-late", FLAT_FAILING, "as above"},
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
