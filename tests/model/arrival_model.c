/* arrival_model.c: arrival trees, src/shm/arrival.c, on a ring of two slots that are used again.
 *
 * n members in leaf blocks of two under one top block. Operations: A waits for all; x, y: root 0, 1
 * waits for all, the others for nobody, so that they run ahead as far as window (1) and floor (all
 * have consumed k - 2) allow. By counter the last member of a block to arrive combines it and goes
 * on above; static, the first member of a block waits for the others.
 *
 * With lines of release the second block has one: its first member, 2, hands on to member 3 what it
 * has seen, in A, and in B: everybody waits for member 0's lane, member 0 for nobody, and no one
 * arrives.
 *
 * A record (a block's, the result, a line's) is empty while it is being written.
 *
 * Properties: who combines finds every operand complete and of this exchange; who waits gets this
 * exchange's result; every exchange is announced once; nobody waits for ever.
 */
#include "explorer.h"

#include <string.h>

enum { MAX_N = 4, SLOTS = 2, BLOCKS = 3, TOP = 2, RELAY = 2, BELOW_RELAY = 3 };

/* planted bugs */
enum {
    NO_BUG,
    NO_MODULO,
    RESET_AFTER_CONSUME,
    ADD_BY_STORE,
    ARRIVE_BEFORE_PUBLISH,
    NO_FLOOR,
    LEAVE_WITHOUT_ARRIVING,
    LEAVE_WITHOUT_COMBINING,
    ANNOUNCE_EARLY,
    COMBINE_WITHOUT_WAITING,
    RELAY_WITHOUT_WAITING,
    LEAVE_WITHOUT_RELAYING,
    RELAY_EARLY,
    NO_FLOOR_FOR_LINES
};

enum {
    ENTER,
    PUBLISH,
    ADD,
    ADD_STORE,
    HELP,
    COMBINE,
    RESULT,
    ARRIVED,
    WAIT,
    HAND_ON,
    HANDED_ON,
    READ_LINE,
    CONSUME,
    RESET,
    GONE
};

typedef struct block {
    uint8_t count;  /* arrivals ever */
    uint8_t seq;    /* static arrival */
    uint8_t record; /* k when complete, 0 while being written */
} block_t;

typedef struct member {
    uint8_t at, k, consumed;
    uint8_t block, cursor; /* block being arrived at or combined, operand being looked at */
    uint8_t seen;          /* ADD_BY_STORE */
} member_t;

typedef struct state {
    uint8_t lane[MAX_N][SLOTS];
    block_t block[BLOCKS][SLOTS];
    uint8_t result[SLOTS], arrived[SLOTS];
    uint8_t line_record[SLOTS], line_seq[SLOTS];
    member_t m[MAX_N];
} state_t;

typedef struct variant {
    uint8_t n;
    bool fixed; /* static arrival */
    bool lines; /* of release */
    const char *ops;
} variant_t;

enum { COUNTER_3, COUNTER_4, STATIC_3, STATIC_4, LINES_4, LINES_BCAST };

static const char *const variant_names[] = {
    "counter-n3", "counter-n4", "static-n3", "static-n4", "lines-n4", "lines-bcast-n4", NULL};
static const variant_t variants[] = {
    [COUNTER_3] = {3, false, false, "xxyAxyA"}, [COUNTER_4] = {4, false, false, "xxyAxA"},
    [STATIC_3] = {3, true, false, "xxyAxyA"},   [STATIC_4] = {4, true, false, "xxyAxA"},
    [LINES_4] = {4, true, true, "xAByA"},       [LINES_BCAST] = {4, true, true, "BBBBB"},
};

static variant_t cfg;
static uint32_t bug;
static uint8_t last;

static void start(void *state, uint32_t variant, uint32_t which) {
    state_t *s = state;
    memset(s, 0, sizeof(*s));
    cfg = variants[variant];
    bug = which;
    last = (uint8_t)strlen(cfg.ops);
    for (uint32_t i = 0; i < cfg.n; i++) {
        s->m[i].k = 1;
    }
}

static bool waits_for_all(const member_t *m, uint8_t me) {
    char kind = cfg.ops[m->k - 1];
    return kind == 'A' || (kind == 'B' && me != 0) || kind - 'x' == me;
}

static bool is_bcast(const member_t *m) {
    return cfg.ops[m->k - 1] == 'B';
}

/* Does this operation's release pass over the line? */
static bool uses_line(const member_t *m) {
    return cfg.lines && (cfg.ops[m->k - 1] == 'A' || is_bcast(m));
}

static uint8_t slot_of(const member_t *m) {
    return m->k % SLOTS;
}

static uint8_t size_of(uint8_t block) {
    return block == TOP || 2 * block + 1 < cfg.n ? 2 : 1;
}

static uint8_t operand_of(const member_t *m) {
    return m->block == TOP ? m->cursor : (uint8_t)(2 * m->block + m->cursor);
}

static bool may_publish(const state_t *s, const member_t *m) {
    for (uint32_t i = 0; i < cfg.n; i++) {
        if (s->m[i].consumed + SLOTS < m->k && bug != NO_FLOOR && bug != NO_FLOOR_FOR_LINES) {
            return false;
        }
    }
    return true;
}

/* --- arriving --------------------------------------------------------------------------------- */

static void after_publishing(member_t *m, uint8_t me) {
    m->cursor = m->block = 0;
    m->at = waits_for_all(m, me) ? WAIT : CONSUME;
    if (bug == RELAY_WITHOUT_WAITING && me == RELAY && uses_line(m)) {
        m->at = HAND_ON;
    }
}

static void after_arriving(member_t *m, uint8_t me) {
    after_publishing(m, me);
    if (bug == ARRIVE_BEFORE_PUBLISH) {
        m->at = PUBLISH;
    }
}

static void arrive(member_t *m, uint8_t me) {
    if (is_bcast(m)) {
        after_publishing(m, me);
        return;
    }
    m->block = me / 2;
    m->cursor = 0;
    m->at = cfg.fixed ? HELP : ADD;
    if (!waits_for_all(m, me) &&
        (bug == LEAVE_WITHOUT_ARRIVING || (bug == LEAVE_WITHOUT_COMBINING && cfg.fixed))) {
        after_arriving(m, me);
    }
    if (cfg.fixed && me % 2 != 0) {
        after_arriving(m, me); /* not the first of its block */
    }
}

static void combine_or_leave(state_t *s, member_t *m, uint8_t me, bool is_last) {
    m->cursor = 0;
    if (is_last) {
        s->block[m->block][slot_of(m)].record = 0;
        m->at = bug == ANNOUNCE_EARLY && m->block == TOP ? ARRIVED : COMBINE;
    } else {
        after_arriving(m, me);
    }
}

static bool step_add(state_t *s, member_t *m, uint8_t me) {
    block_t *block = &s->block[m->block][slot_of(m)];
    uint8_t size = size_of(m->block);
    if (m->at == ADD && bug == ADD_BY_STORE) {
        m->seen = block->count;
        m->at = ADD_STORE;
        model_say("(bug) block %u: loads %u", m->block, m->seen);
        return true;
    }
    uint8_t before = bug == ADD_BY_STORE ? m->seen : block->count;
    m->seen = 0;
    block->count = (uint8_t)(before + 1);
    bool is_last = (before + 1) % size == 0;
    if (bug == NO_MODULO || bug == RESET_AFTER_CONSUME) {
        is_last = before + 1 == size;
    }
    model_say("arrive_by_counter: block %u has %u arrivals%s", m->block, block->count,
              is_last ? ", mine is the last" : "");
    combine_or_leave(s, m, me, is_last);
    return true;
}

/* Static: operand_is_there, one look a step. */
static bool step_help(state_t *s, member_t *m, uint8_t me) {
    uint8_t operand = operand_of(m), slot = slot_of(m);
    if (m->cursor == size_of(m->block)) {
        model_say("hd_arrive_help: all of block %u are there", m->block);
        combine_or_leave(s, m, me, true);
        return true;
    }
    uint8_t seq = m->block == TOP ? s->block[operand][slot].seq : s->lane[operand][slot];
    if (seq != m->k && bug != COMBINE_WITHOUT_WAITING) {
        return false;
    }
    model_say("hd_arrive_help: operand %u of block %u is there", m->cursor, m->block);
    m->cursor++;
    return true;
}

static void combined(state_t *s, member_t *m, uint8_t me) {
    block_t *block = &s->block[m->block][slot_of(m)];
    block->record = m->k;
    m->cursor = 0;
    if (m->block == TOP) {
        s->result[slot_of(m)] = 0;
        m->at = RESULT;
        return;
    }
    if (cfg.fixed) {
        block->seq = m->k;
    }
    if (cfg.fixed && m->block != 0) {
        after_arriving(m, me); /* not the first block of the top one */
        return;
    }
    m->block = TOP;
    m->at = cfg.fixed ? HELP : ADD;
}

static bool step_combine(state_t *s, member_t *m, uint8_t me) {
    uint8_t slot = slot_of(m);
    if (m->at == RESULT) {
        s->result[slot] = m->k;
        model_say("announce: result of %u", m->k);
        m->at = bug == ANNOUNCE_EARLY ? WAIT : ARRIVED;
        if (bug == ANNOUNCE_EARLY) {
            after_arriving(m, me);
        }
        return true;
    }
    if (m->at == ARRIVED) {
        if (s->arrived[slot] == m->k) {
            model_violation("an exchange is announced twice");
        }
        s->arrived[slot] = m->k;
        model_say("announce: arrived = %u", m->k);
        if (bug == ANNOUNCE_EARLY) {
            m->at = COMBINE;
        } else {
            after_arriving(m, me);
        }
        return true;
    }
    if (m->cursor == size_of(m->block)) {
        model_say("combine: block %u is complete", m->block);
        combined(s, m, me);
        return true;
    }
    uint8_t operand = operand_of(m);
    uint8_t value = m->block == TOP ? s->block[operand][slot].record : s->lane[operand][slot];
    model_say("combine: operand %u of block %u is of %u", m->cursor, m->block, value);
    if (value != m->k) {
        model_violation("an operand is combined that is not there, or of another exchange");
    }
    m->cursor++;
    return true;
}

/* --- release ---------------------------------------------------------------------------------- */

/* What the origin wrote: the result, or its lane. */
static uint8_t origin_record(const state_t *s, const member_t *m) {
    return is_bcast(m) ? s->lane[0][slot_of(m)] : s->result[slot_of(m)];
}

static bool step_wait(state_t *s, member_t *m, uint8_t me) {
    uint8_t slot = slot_of(m);
    if (uses_line(m) && me == BELOW_RELAY) {
        if (s->line_seq[slot] != m->k) {
            return false;
        }
        model_say("has_come: the line of %u", m->k);
        m->at = READ_LINE;
        return true;
    }
    if ((is_bcast(m) ? s->lane[0][slot] : s->arrived[slot]) != m->k) {
        return false;
    }
    model_say("has_come: %u, the result is of %u", m->k, origin_record(s, m));
    if (origin_record(s, m) != m->k) {
        model_violation("a result is read that is not this exchange's");
    }
    m->at = CONSUME;
    if (uses_line(m) && me == RELAY && bug != LEAVE_WITHOUT_RELAYING) {
        m->at = HAND_ON;
    }
    return true;
}

static bool step_line(state_t *s, member_t *m) {
    uint8_t slot = slot_of(m);
    bool first = bug == RELAY_EARLY ? m->at == HANDED_ON : m->at == HAND_ON;
    if (m->at == READ_LINE) {
        model_say("hd_arrive_result: the line's record is of %u", s->line_record[slot]);
        if (s->line_record[slot] != m->k) {
            model_violation("a line is read that is not this exchange's");
        }
        m->at = CONSUME;
    } else if (first) {
        s->line_record[slot] = origin_record(s, m);
        model_say("hand_on: the record of %u", m->k);
        m->at = m->at == HAND_ON ? HANDED_ON : CONSUME;
    } else {
        s->line_seq[slot] = m->k;
        model_say("hand_on: seq = %u", m->k);
        m->at = m->at == HAND_ON ? HANDED_ON : CONSUME;
    }
    return true;
}

/* --- the rest --------------------------------------------------------------------------------- */

static bool publish(state_t *s, member_t *m, uint8_t me) {
    uint8_t *lane = &s->lane[me][slot_of(m)];
    *lane = m->k;
    model_say("publish: lane = %u", m->k);
    if (bug == ARRIVE_BEFORE_PUBLISH) {
        after_publishing(m, me);
    } else {
        arrive(m, me);
    }
    return true;
}

static bool step_end(state_t *s, member_t *m) {
    switch (m->at) {
    case CONSUME:
        m->consumed = m->k;
        model_say("hd_board_consume: %u", m->k);
        m->at = bug == RESET_AFTER_CONSUME && m == &s->m[0] ? RESET : ENTER;
        break;
    default: /* RESET */
        for (uint32_t b = 0; b < BLOCKS; b++) {
            s->block[b][slot_of(m)].count = 0;
        }
        model_say("(bug) member 0 resets the counters");
        m->at = ENTER;
        break;
    }
    if (m->at == ENTER && m->k == last) {
        m->at = GONE;
    } else if (m->at == ENTER) {
        m->k++;
    }
    return true;
}

static bool step(void *state, uint32_t actor, uint32_t choice) {
    state_t *s = state;
    member_t *m = &s->m[actor];
    uint8_t me = (uint8_t)actor;
    (void)choice;
    if (actor >= cfg.n) {
        return false;
    }
    switch (m->at) {
    case ENTER:
        model_say("hd_board_may_publish: %u", m->k);
        m->at = PUBLISH;
        if (bug == ARRIVE_BEFORE_PUBLISH) {
            arrive(m, me);
        }
        return may_publish(s, m);
    case PUBLISH:
        return publish(s, m, me);
    case ADD:
    case ADD_STORE:
        return step_add(s, m, me);
    case HELP:
        return step_help(s, m, me);
    case COMBINE:
    case RESULT:
    case ARRIVED:
        return step_combine(s, m, me);
    case WAIT:
        return step_wait(s, m, me);
    case HAND_ON:
    case HANDED_ON:
    case READ_LINE:
        return step_line(s, m);
    case CONSUME:
    case RESET:
        return step_end(s, m);
    default:
        return false;
    }
}

static const char *end(const void *state) {
    const state_t *s = state;
    for (uint32_t i = 0; i < cfg.n; i++) {
        if (s->m[i].at != GONE) {
            return "a member waits for ever";
        }
    }
    return NULL;
}

static const model_bug_t bugs[] = {
    {"none", 0, ""},
    {"no-modulo", COUNTER_3, "the last arriver is the one that makes the count the block's size"},
    {"reset-after-consume", COUNTER_3, "counts are put back to zero, but too late"},
    {"add-by-store", COUNTER_3, "an arrival is a load and a store"},
    {"arrive-before-publish", COUNTER_3, "members arrive, then publish"},
    {"no-floor", COUNTER_3, "slots are used again before all have consumed their last use"},
    {"leave-without-arriving", COUNTER_3, "who waits for nobody does not arrive"},
    {"leave-without-combining", STATIC_3, "who waits for nobody does not combine its block"},
    {"announce-early", COUNTER_3, "the top block is announced, then combined"},
    {"combine-without-waiting", STATIC_3, "fixed combiners do not wait for the others"},
    {"relay-without-waiting", LINES_4, "who hands on does not wait for what it hands on"},
    {"leave-without-relaying", LINES_4, "who should hand on leaves"},
    {"relay-early", LINES_4, "a line's number is written before its record"},
    {"no-floor-for-lines", LINES_BCAST, "lines are used again before all have consumed"},
    {NULL, 0, NULL},
};

static const model_t model = {
    .name = "arrival",
    .bytes = sizeof(state_t),
    .actors = MAX_N,
    .choices = 1,
    .variants = variant_names,
    .bugs = bugs,
    .start = start,
    .step = step,
    .end = end,
};

int main(int argc, char **argv) {
    return model_main(&model, argc, argv);
}
