/* flow_model.c: window and floor, src/shm/board.c, and the lane checks of src/shm/op.c.
 *
 * n members run the same sequence of operations on one board of depth 2 or 4. An operation waits
 * for all lanes (A), for the lane of its root (a, b, c: root 0, 1, 2, which itself waits for
 * nobody), or only its root waits for all, the others for nobody (x, y, z). Posts do not wait: a
 * member has as many operations under way as the window allows, and these end in any order.
 *
 * A step is one look at a lane or at a count, or one publication. The code scans on in one call of
 * hd_board_may_publish where the model may do something else in between, which it also could after
 * a look in vain.
 *
 * Properties:
 *   - a lane is never written while a member that has not consumed the slot's last use may read it;
 *   - whoever waits for a lane finds it there or not yet there, never already gone;
 *   - a member's floor, and the board's, is never above what somebody has really consumed;
 *   - nobody waits for ever.
 */
#include "explorer.h"

#include <string.h>

enum { MAX_N = 3, MAX_D = 4 };

/* planted bugs */
enum {
    NO_BUG,
    NO_WINDOW,
    NO_FLOOR,
    EMPTY_WINDOW,
    LOW_FLOOR,
    ROOT_SAW_ALL,
    CONSUME_OUT_OF_ORDER,
    CURSOR_KEPT,
    HALF_TOO_SMALL
};

typedef struct op {
    uint8_t published;
    uint8_t cursor; /* lanes before it are dealt with */
    uint8_t ended;
} op_t;

typedef struct member {
    uint8_t launched; /* last number that may be published */
    uint8_t consumed; /* what peers read */
    uint8_t over;     /* all numbers <= this have really ended */
    uint8_t floor, floor_target, floor_cursor;
    op_t op[MAX_D];     /* by number - over - 1 */
    uint8_t scanning;   /* has loaded the board's floor for its target */
    uint8_t seen_floor; /* `known` in floor_reaches */
} member_t;

typedef struct state {
    uint8_t lane[MAX_N][MAX_D]; /* seq */
    uint8_t floor;
    member_t m[MAX_N];
} state_t;

typedef struct variant {
    uint8_t n, depth;
    const char *ops;
} variant_t;

enum { ONE_WAY_2, MIXED_2, MIXED_3_2, ONE_WAY_4, MIXED_4, THREE_4, THREE_4_ONE_WAY };

static const char *const variant_names[] = {"one-way-n2-d2", "mixed-n2-d2", "mixed-n3-d2",
                                            "one-way-n2-d4", "mixed-n2-d4", "mixed-n3-d4",
                                            "one-way-n3-d4", NULL};
static const variant_t variants[] = {
    [ONE_WAY_2] = {2, 2, "aaaaaaaa"},           [MIXED_2] = {2, 2, "aAxbybaAAya"},
    [MIXED_3_2] = {3, 2, "abcxAazAy"},          [ONE_WAY_4] = {2, 4, "aaaaaaaaaaabbb"},
    [MIXED_4] = {2, 4, "aAxbyAAbbbbbaaaaaaAA"}, [THREE_4] = {3, 4, "aAxbaaA"},
    [THREE_4_ONE_WAY] = {3, 4, "aaaaaab"},
};

static variant_t cfg;
static uint32_t bug;
static uint8_t last; /* number of operations */

static void start(void *state, uint32_t variant, uint32_t which) {
    memset(state, 0, sizeof(state_t));
    cfg = variants[variant];
    bug = which;
    last = (uint8_t)strlen(cfg.ops);
}

static uint8_t half(void) {
    return (uint8_t)(cfg.depth / 2);
}

/* Which lane operation k waits for at member `me`: all, one root's, or none. */
static uint8_t first_lane(uint8_t k, uint32_t me, uint8_t *end) {
    char kind = cfg.ops[k - 1];
    uint8_t root = (uint8_t)(kind >= 'x' ? kind - 'x' : kind - 'a');
    *end = cfg.n;
    if (kind == 'A' || (kind >= 'x' && root == me)) {
        return 0;
    }
    if (kind >= 'x' || root == me) {
        return cfg.n; /* nobody */
    }
    *end = (uint8_t)(root + 1);
    return root;
}

static bool saw_all(uint8_t k, uint32_t me) {
    uint8_t end, first = first_lane(k, me, &end);
    return (first == 0 && end == cfg.n) || (bug == ROOT_SAW_ALL && first < cfg.n);
}

/* Numbers that nobody will look at again. */
static uint8_t really_consumed(const state_t *s) {
    uint8_t least = UINT8_MAX;
    for (uint32_t i = 0; i < cfg.n; i++) {
        least = s->m[i].over < least ? s->m[i].over : least;
    }
    return least;
}

static void check_floor(const state_t *s, uint8_t floor) {
    if (floor > really_consumed(s)) {
        model_violation("a floor is above what some member has consumed");
    }
}

/* --- publishing ------------------------------------------------------------------------------- */

static void publish(state_t *s, member_t *m, uint32_t me, uint8_t k) {
    uint8_t *lane = &s->lane[me][k % cfg.depth];
    model_say("publish: number %u over %u", k, *lane);
    if (*lane && really_consumed(s) < *lane) {
        model_violation("a lane is written while a peer may still read its last use");
    }
    *lane = k;
    op_t *op = &m->op[k - m->over - 1];
    uint8_t end;
    *op = (op_t){.published = 1, .cursor = first_lane(k, me, &end)};
}

/* One look of floor_reaches; true if there was something to look at. */
static bool scan(state_t *s, member_t *m, uint8_t target) {
    if (!m->scanning) {
        m->seen_floor = s->floor;
        m->scanning = 1;
        if (s->floor > m->floor) {
            m->floor = s->floor;
            check_floor(s, m->floor);
        }
        if (m->floor_target != target && bug != CURSOR_KEPT) {
            m->floor_cursor = 0;
        }
        m->floor_target = target;
        model_say("floor_reaches %u? the board's floor is %u", target, s->floor);
        return true;
    }
    if (m->floor_cursor == cfg.n) { /* all have: hand it on */
        m->floor = target;
        check_floor(s, target);
        if (s->floor < target) {
            s->floor = target;
        }
        m->scanning = m->seen_floor = 0;
        model_say("floor_reaches: yes, the board's floor is %u", s->floor);
        return true;
    }
    if (s->m[m->floor_cursor].consumed < target) {
        return false;
    }
    model_say("floor_reaches: member %u has consumed %u", m->floor_cursor, target);
    m->floor_cursor++;
    return true;
}

/* The decision, under the member's lock. Numbers are then published without it, in any order: one
 * by a post, another by a progress call that drains the queue. */
static bool may_publish(state_t *s, member_t *m) {
    uint8_t k = (uint8_t)(m->launched + 1), window = bug == NO_WINDOW ? cfg.depth : half();
    if (bug == EMPTY_WINDOW) {
        window--;
    }
    if (k > last || k - m->consumed > window || k - m->over > MAX_D) {
        return false;
    }
    uint8_t depth = (uint8_t)(bug == LOW_FLOOR ? cfg.depth + 1 : cfg.depth);
    if (k > depth && bug != NO_FLOOR && m->floor < k - depth) {
        return scan(s, m, (uint8_t)(k - depth));
    }
    m->scanning = m->seen_floor = 0;
    m->launched = k;
    model_say("hd_board_may_publish: %u", k);
    return true;
}

/* --- looking and consuming -------------------------------------------------------------------- */

static void consume(state_t *s, member_t *m, uint32_t me, uint8_t k) {
    uint8_t proven = bug == HALF_TOO_SMALL ? (uint8_t)(half() - 1) : half();
    m->op[k - m->over - 1].ended = 1;
    while (m->op[0].ended) {
        memmove(m->op, m->op + 1, sizeof(m->op) - sizeof(m->op[0]));
        m->op[MAX_D - 1] = (op_t){0};
        m->over++;
    }
    m->consumed = bug == CONSUME_OUT_OF_ORDER && m->consumed < k ? k : m->over;
    if (saw_all(k, me) && k > proven && m->floor < k - proven) {
        m->floor = (uint8_t)(k - proven);
        check_floor(s, m->floor);
    }
    model_say("hd_board_consume: %u is over, consumed %u, floor %u", k, m->consumed, m->floor);
}

/* hd_op_lane of the next lane that number k waits for, or its end. */
static bool step_op(state_t *s, member_t *m, uint32_t me, uint8_t k) {
    op_t *op = &m->op[k - m->over - 1];
    uint8_t end;
    first_lane(k, me, &end);
    if (op->ended) {
        return false;
    }
    if (!op->published) {
        publish(s, m, me, k);
        return true;
    }
    if (op->cursor >= end) {
        consume(s, m, me, k);
        return true;
    }
    uint8_t seq = s->lane[op->cursor][k % cfg.depth];
    if (seq < k) {
        return false;
    }
    model_say("hd_op_lane: number %u, lane %u is there", k, op->cursor);
    if (seq != k) {
        model_violation("a lane is gone before it was read");
    }
    op->cursor++;
    return true;
}

static bool step(void *state, uint32_t actor, uint32_t choice) {
    state_t *s = state;
    member_t *m = &s->m[actor];
    if (actor >= cfg.n) {
        return false;
    }
    if (choice == 0) {
        return may_publish(s, m);
    }
    uint8_t k = (uint8_t)(m->over + choice);
    return k <= m->launched && step_op(s, m, actor, k);
}

static const char *end(const void *state) {
    const state_t *s = state;
    return really_consumed(s) == last ? NULL : "a member waits for ever";
}

static const model_bug_t bugs[] = {
    {"none", 0, ""},
    {"no-window", MIXED_4, "the window is as wide as the ring"},
    {"no-floor", ONE_WAY_2, "members publish when the window allows"},
    {"empty-window", ONE_WAY_2, "nothing may be published before the last is over"},
    {"low-floor", ONE_WAY_4, "the floor asked for is one number too low"},
    {"root-saw-all", MIXED_3_2, "seeing the root's lane counts as seeing all"},
    {"consume-out-of-order", MIXED_4, "a number's end ends all before it"},
    {"cursor-kept", ONE_WAY_4, "a scan for a new target does not start over"},
    {"half-too-small", MIXED_4, "a lane is taken to prove more than its window says"},
    {NULL, 0, NULL},
};

static const model_t model = {
    .name = "flow",
    .bytes = sizeof(state_t),
    .actors = MAX_N,
    .choices = 1 + MAX_D,
    .variants = variant_names,
    .bugs = bugs,
    .start = start,
    .step = step,
    .end = end,
};

int main(int argc, char **argv) {
    return model_main(&model, argc, argv);
}
