/* soak.c: everything at once, and torn down as soon as it may be. A few threads drive several teams
 * of a few endpoints each, which come and go (by id, oob, group, from a parent) while others are at
 * work: random collectives, tagged, persistent, among active sets, with callbacks that finalize,
 * waited for and left to progress; and bursts of thousands of small ones, some of them one-sided.
 * Contexts are shared or not, made for a team or kept for the next, endpoints wander between
 * threads or not, and every variable that changes a path is drawn. Whatever an endpoint is done
 * with, it finalizes, destroys or frees at once, so that a late touch ends the program: under
 * AddressSanitizer at the latest. Every result is verified.
 *
 *     soak [percent]                       so many scenarios, in percent
 *     soak --long [seconds [first seed]]   scenarios for so long (an hour), or until something is
 *                                          wrong; prints a line now and then
 *     soak --like [seconds [first seed]]   the same, all of them like one that is known to be hard:
 *                                          two threads, four teams of 4 to 8, HEDDLE_TREE=topology,
 *                                          HEDDLE_CHUNK=256k, HEDDLE_RING=8
 */
#include "stress.h"

#include "../support/burst.h"
#include "../support/oob.h"
#include "../support/random.h"
#include "../support/sweeps.h"

#include <heddle/heddle.h>
#include <inttypes.h>
#include <sched.h>
#include <unistd.h>

enum { MAX_THREADS = 4, MAX_SLOTS = 4, MAX_N = 12, MAX_OPS = 16, MAX_TIMES = 3, FREE_TAG = 1000 };
enum { SYMMETRIC_BYTES = 32 << 10 };

/* Which scenarios there are, and how much of them. */
typedef enum mode { SHORT, LONG, LIKE } soak_mode_t;

/* One collective, shared by the endpoints that take part: all of the team, or those of an active
 * set. */
typedef struct op {
    prepared_t *prepared;
    bool persistent, in_set;
    uint32_t members, times;
    int64_t start, stride; /* of the set */
    _Atomic uint32_t
        left; /* endpoints that are not done with it: the last one checks and frees it */
} op_t;

/* The collectives of one team, in the order of their posts; tagged ones may overtake. */
typedef struct batch_of_ops {
    uint32_t n;
    op_t op[MAX_OPS];
} ops_t;

/* What a team does. */
typedef struct work {
    ops_t ops;
    burst_t burst;
    bool burst_first;
} work_t;

typedef enum kind { BY_ID, BY_OOB, BY_GROUP, KINDS } form_t;

/* Contexts for n endpoints. */
typedef struct contexts {
    uint32_t n, n_libs;
    ucc_lib_h lib[MAX_N];
    ucc_context_h context[MAX_N];
} contexts_t;

/* One life of a team. */
typedef struct life {
    uint64_t number;
    uint32_t n;
    form_t form;
    contexts_t own; /* unless the slot keeps them */
    const contexts_t *contexts;
    size_t memory; /* symmetric bytes of each endpoint */
    heddle_group_t *group;
    oob_board_t *oob;
    bool has_child, by_list; /* else from_parent, called by all */
    bool in_child[MAX_N];
    work_t work, child_work;
    uint32_t left; /* endpoints that have not left, under the slot's lock */
    struct life *next;
} life_t;

typedef struct slot {
    pthread_mutex_t lock;
    life_t *lives; /* those that somebody is in, or has yet to come to */
    uint32_t index, n;
    uint64_t seed, last; /* lives */
    uint64_t longest;    /* burst */
    bool shared, alone;  /* contexts are; no two threads meet at a context */
    bool keeps;          /* contexts, for all lives */
    contexts_t kept;
} slot_t;

/* One endpoint's part of an operation. */
typedef struct part {
    op_t *op;
    ucc_coll_req_h request;
    uint32_t me, times;
    bool posted, over, calls_back, finalizes, finalized;
    _Atomic uint32_t calls; /* the callback's last touch */
} part_t;

typedef enum place { ENTER, FORM, RUN, FORM_CHILD, RUN_CHILD, LEAVE, GONE } place_t;

/* One endpoint, from life to life. One thread at a time steps it. */
typedef struct task {
    atomic_flag busy;
    slot_t *slot;
    uint32_t me, me_in_child;
    place_t at;
    uint64_t random, number;
    life_t *life;
    ucc_context_h context;
    heddle_ep_t *ep;
    ucc_team_h team, child, forming;
    void *memory, *own_memory; /* of the team; what is to be freed after it */
    part_t part[MAX_OPS];
    burst_part_t *burst;
    uint32_t window, halves; /* of the work that are over */
    bool begun;
} task_t;

typedef struct scenario {
    uint64_t seed;
    uint32_t n_threads, n_slots, n_tasks;
    bool wander, like;
    slot_t slot[MAX_SLOTS];
    task_t task[MAX_SLOTS * MAX_N];
    _Atomic uint32_t left;
} scenario_t;

static _Atomic uint64_t collectives, small_ones, teams;
static bool is_long; /* written before there are threads */

static bool chance(uint64_t *random, uint32_t percent) {
    return random_below(random, 100) < percent;
}

/* --- lives ------------------------------------------------------------------------------------ */

/* Another size of team than the case was drawn for is all the same to it. */
static void draw_set(op_t *op, coll_case_t *c, uint64_t *random) {
    uint64_t team = c->size, size = 1 + random_below(random, team);
    uint64_t most = size > 1 ? (team - 1) / (size - 1) : team;
    uint64_t stride = 1 + random_below(random, most), span = (size - 1) * stride;
    bool backwards = chance(random, 30);
    op->in_set = true;
    op->start = (int64_t)(random_below(random, team - span) + (backwards ? span : 0));
    op->stride = backwards ? -(int64_t)stride : (int64_t)stride;
    c->size = (uint32_t)size;
    c->root %= c->size;
}

static void use_set(op_t *op) {
    for (uint32_t i = 0; i < op->members; i++) {
        ucc_coll_args_t *args = &op->prepared->args[i];
        args->mask |= UCC_COLL_ARGS_FIELD_ACTIVE_SET;
        args->active_set.start = (uint64_t)op->start;
        args->active_set.stride = op->stride;
        args->active_set.size = op->members;
        args->root = (uint64_t)(op->start + op->stride * (int64_t)op->prepared->c.root);
    }
}

static void fill_op(op_t *op, uint32_t team, uint16_t tag, uint64_t *random) {
    world_params_t world = {.size = team};
    coll_case_t c = sweep_random_case(random, &world);
    c.tag = tag;
    op->persistent = chance(random, 15);
    op->in_set = false;
    if (chance(random, 15)) {
        draw_set(op, &c, random);
    }
    /* persistent ones of a set match by the order of their posts unless they have a tag */
    c.tagged = chance(random, 25) || (op->persistent && op->in_set);
    op->members = c.size;
    op->prepared = case_prepare(&c);
    if (op->in_set) {
        use_set(op);
    }
    op->times = 1;
    if (op->persistent && c.in_place == IN_PLACE_NO) {
        op->times += (uint32_t)random_below(random, MAX_TIMES);
    }
    atomic_store_explicit(&op->left, op->members, memory_order_relaxed); /* not shared yet */
}

/* Most teams have both; some hardly anything, and are gone at once. */
static void fill_work(work_t *work, const slot_t *slot, uint32_t members, size_t memory,
                      uint64_t *random) {
    uint32_t kind = (uint32_t)random_below(random, 100);
    ops_t *ops = &work->ops;
    ops->n = kind < 25 ? (uint32_t)random_below(random, 2)
                       : 1 + (uint32_t)random_below(random, kind < 60 ? 4 : MAX_OPS);
    for (uint32_t i = 0; i < ops->n; i++) {
        fill_op(&ops->op[i], members, (uint16_t)(FREE_TAG + i), random);
    }
    work->burst = burst_draw(random, members, kind < 10 ? 4 : slot->longest, memory);
    work->burst_first = chance(random, 50);
}

/* Where no two threads meet at a context, each may have a library of its own that knows no threads.
 */
static void make_contexts(const slot_t *slot, contexts_t *contexts, uint64_t *random) {
    contexts->n = slot->shared ? 1 : slot->n;
    bool single = slot->alone && chance(random, 60);
    contexts->n_libs = single ? contexts->n : 1;
    for (uint32_t i = 0; i < contexts->n_libs; i++) {
        ucc_lib_params_t params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE};
        params.thread_mode =
            single ? (ucc_thread_mode_t)random_below(random, 3) : UCC_THREAD_MULTIPLE;
        must(ucc_init(&params, NULL, &contexts->lib[i]), "ucc_init");
    }
    for (uint32_t i = 0; i < contexts->n; i++) {
        ucc_context_params_t cp = {.mask = UCC_CONTEXT_PARAM_FIELD_TYPE,
                                   .type = UCC_CONTEXT_SHARED};
        must(ucc_context_create(contexts->lib[single ? i : 0], &cp, NULL, &contexts->context[i]),
             "ucc_context_create");
    }
}

static void destroy_contexts(contexts_t *contexts) {
    for (uint32_t i = 0; i < contexts->n; i++) {
        must(ucc_context_destroy(contexts->context[i]), "ucc_context_destroy");
    }
    for (uint32_t i = 0; i < contexts->n_libs; i++) {
        must(ucc_finalize(contexts->lib[i]), "ucc_finalize");
    }
}

static void make_group(const slot_t *slot, life_t *life, uint64_t *random) {
    heddle_group_params_t params = {.endpoints = life->n,
                                    .contexts = slot->shared ? 1 : 0,
                                    .symmetric_bytes = life->memory,
                                    .thread_mode = UCC_THREAD_MULTIPLE};
    if (slot->alone && chance(random, 60)) {
        params.thread_mode = (ucc_thread_mode_t)random_below(random, 3);
    }
    must(heddle_group_create(&params, &life->group), "heddle_group_create");
}

static life_t *make_life(slot_t *slot, uint64_t number) {
    life_t *life = must_alloc(1, sizeof(*life));
    uint64_t random = slot->seed + number * 7919;
    life->number = number;
    life->n = life->left = slot->n;
    life->form = (form_t)random_below(&random, KINDS);
    life->memory = chance(&random, 40) ? SYMMETRIC_BYTES : 0;
    if (life->form == BY_GROUP) {
        make_group(slot, life, &random);
    } else if (slot->keeps) {
        life->contexts = &slot->kept;
    } else {
        make_contexts(slot, &life->own, &random);
        life->contexts = &life->own;
    }
    if (life->form == BY_OOB) {
        life->oob = oob_board_create(life->n);
    }
    fill_work(&life->work, slot, life->n, life->memory, &random);
    life->has_child = chance(&random, 50);
    life->by_list = chance(&random, 50);
    uint32_t members = 0;
    for (uint32_t i = 0; life->has_child && i < life->n; i++) {
        life->in_child[i] = chance(&random, 60) || (i + 1 == life->n && !members);
        members += life->in_child[i];
    }
    if (life->has_child) {
        fill_work(&life->child_work, slot, members, 0, &random);
    }
    atomic_fetch_add_explicit(&teams, 1 + life->has_child, memory_order_relaxed); /* a count */
    return life;
}

static life_t *enter_life(slot_t *slot, uint64_t number) {
    pthread_mutex_lock(&slot->lock);
    life_t *life = slot->lives;
    while (life && life->number != number) {
        life = life->next;
    }
    if (!life) {
        life = make_life(slot, number);
        life->next = slot->lives;
        slot->lives = life;
    }
    pthread_mutex_unlock(&slot->lock);
    return life;
}

static void leave_life(slot_t *slot, life_t *life) {
    pthread_mutex_lock(&slot->lock);
    bool last = --life->left == 0;
    life_t **at = &slot->lives;
    while (last && *at != life) {
        at = &(*at)->next;
    }
    if (last) {
        *at = life->next;
    }
    pthread_mutex_unlock(&slot->lock);
    if (!last) {
        return;
    }
    destroy_contexts(&life->own);
    if (life->group) {
        must(heddle_group_destroy(life->group), "heddle_group_destroy");
    }
    if (life->oob) {
        oob_board_destroy(life->oob);
    }
    free(life);
}

/* --- operations ------------------------------------------------------------------------------- */

static void called_back(void *data, ucc_status_t status) {
    part_t *part = data;
    stress_expect(status, UCC_OK, "the callback's status");
    if (part->finalizes) {
        must(ucc_collective_finalize(part->request), "finalize in the callback");
    }
    /* release: the part may be used for something else after this */
    atomic_fetch_add_explicit(&part->calls, 1, memory_order_release);
}

/* The endpoint's number among those who take part; false if it is not one of them. */
static bool takes_part(const op_t *op, uint32_t endpoint, uint32_t *me) {
    *me = endpoint;
    if (!op->in_set) {
        return true;
    }
    int64_t by = (int64_t)endpoint - op->start;
    *me = (uint32_t)(by / op->stride);
    return by % op->stride == 0 && by / op->stride >= 0 && by / op->stride < (int64_t)op->members;
}

static void begin_part(task_t *task, ucc_team_h team, part_t *part) {
    ucc_coll_args_t args = part->op->prepared->args[part->me];
    if (part->op->persistent) {
        args.flags = (args.mask & UCC_COLL_ARGS_FIELD_FLAGS ? args.flags : 0) |
                     UCC_COLL_ARGS_FLAG_PERSISTENT;
        args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    }
    part->calls_back = chance(&task->random, 30);
    part->finalizes = part->calls_back && !part->op->persistent && chance(&task->random, 40);
    if (part->calls_back) {
        args.mask |= UCC_COLL_ARGS_FIELD_CB;
        args.cb = (ucc_coll_callback_t){called_back, part};
    }
    must(ucc_collective_init(&args, &part->request, team), "ucc_collective_init");
}

/* Persistent ones are matched by the order of their inits. */
static void begin_ops(task_t *task, ops_t *ops, ucc_team_h team, uint32_t me) {
    for (uint32_t i = 0; i < ops->n; i++) {
        part_t *part = &task->part[i];
        *part = (part_t){.op = &ops->op[i]};
        if (!takes_part(part->op, me, &part->me)) {
            part->posted = part->over = true;
        } else if (part->op->persistent) {
            begin_part(task, team, part);
        }
    }
    task->window = 1 + (uint32_t)random_below(&task->random, MAX_OPS);
    task->begun = true;
}

static void post_part(task_t *task, ucc_team_h team, part_t *part) {
    if (!part->request) {
        begin_part(task, team, part);
    }
    part->posted = true;
    part->times++;
    must(ucc_collective_post(part->request), "ucc_collective_post");
}

/* The next in order. Tagged ones may be overtaken, but not where the window could keep them from
 * being posted at all: a peer may wait for them before it posts anything else. */
static bool post_some(task_t *task, ops_t *ops, ucc_team_h team) {
    uint32_t outstanding = 0;
    for (uint32_t i = 0; i < ops->n; i++) {
        outstanding += task->part[i].posted && !task->part[i].over;
    }
    for (uint32_t i = 0; i < ops->n && outstanding < task->window; i++) {
        part_t *part = &task->part[i];
        if (part->posted) {
            continue; /* the last one to be done with it may have freed the case */
        }
        bool put_off =
            task->window >= ops->n && part->op->prepared->c.tagged && chance(&task->random, 40);
        if (!put_off) {
            post_part(task, team, part);
            return true;
        }
    }
    return false;
}

/* Has this post of it ended? */
static bool has_ended(task_t *task, part_t *part) {
    /* acquire: pairs with called_back */
    uint32_t calls = atomic_load_explicit(&part->calls, memory_order_acquire);
    if (part->calls_back && calls < part->times) {
        return false; /* also if the status says more: the callback may be about to run */
    }
    if (part->finalizes) {
        return true;
    }
    ucc_status_t status = ucc_collective_test(part->request);
    if (status == UCC_INPROGRESS && chance(&task->random, 3)) {
        status = heddle_wait(part->request, 1e-6 * (double)random_below(&task->random, 200));
        calls = atomic_load_explicit(&part->calls, memory_order_acquire); /* as above */
    }
    if (status == UCC_INPROGRESS || (part->calls_back && calls < part->times)) {
        return false;
    }
    stress_expect(status, UCC_OK, part->op->prepared->name);
    return true;
}

static void end_part(part_t *part) {
    op_t *op = part->op;
    if (!part->finalizes) {
        must(ucc_collective_finalize(part->request), "ucc_collective_finalize");
    }
    part->over = true;
    op->prepared->statuses[part->me] = UCC_OK;
    /* acq_rel: hands on my results, and takes in the others' */
    if (atomic_fetch_sub_explicit(&op->left, 1, memory_order_acq_rel) == 1) {
        if (!case_check(op->prepared)) {
            stress_error("a result is wrong");
        }
        case_free(op->prepared);
        atomic_fetch_add_explicit(&collectives, op->times, memory_order_relaxed); /* a count */
    }
}

/* True when all are over. */
static bool step_ops(task_t *task, ops_t *ops, ucc_team_h team, uint32_t me) {
    if (!task->begun) {
        begin_ops(task, ops, team, me);
    }
    while (post_some(task, ops, team) && chance(&task->random, 50)) {
    }
    must(ucc_context_progress(task->context), "ucc_context_progress");
    uint32_t over = 0;
    for (uint32_t i = 0; i < ops->n; i++) {
        part_t *part = &task->part[i];
        if (part->posted && !part->over && has_ended(task, part)) {
            if (part->times < part->op->times) {
                post_part(task, team, part);
            } else {
                end_part(part);
            }
        }
        over += part->over;
    }
    task->begun = over < ops->n;
    return over == ops->n;
}

/* On a busy machine a scenario may take as long as it likes while it moves on. */
static void note_progress(void) {
    if (is_long) {
        stress_phase("a long scenario", 300);
    }
}

static bool step_burst(task_t *task, const burst_t *burst, ucc_team_h team, uint32_t me) {
    if (!task->burst) {
        task->burst =
            burst_begin(burst, team, task->context, me, task->memory, random_next(&task->random));
    }
    enum { SOME = 64 };
    uint64_t before = burst_posted(task->burst);
    bool over = burst_step(task->burst);
    if (over || before / SOME != burst_posted(task->burst) / SOME) {
        note_progress();
    }
    if (!over) {
        return false;
    }
    uint64_t wrong = 0, counted = burst_end(task->burst, &wrong);
    task->burst = NULL;
    if (wrong) {
        stress_error("%" PRIu64 " small results are wrong", wrong);
    }
    atomic_fetch_add_explicit(&collectives, counted, memory_order_relaxed); /* counts */
    atomic_fetch_add_explicit(&small_ones, counted, memory_order_relaxed);
    return true;
}

/* True when all of it is over. */
static bool step_work(task_t *task, work_t *work, ucc_team_h team, uint32_t me) {
    bool burst = (task->halves == 0) == work->burst_first;
    task->halves +=
        burst ? step_burst(task, &work->burst, team, me) : step_ops(task, &work->ops, team, me);
    if (task->halves < 2) {
        return false;
    }
    task->halves = 0;
    return true;
}

/* --- endpoints -------------------------------------------------------------------------------- */

static void start_forming(task_t *task) {
    life_t *life = task->life;
    if (life->form == BY_GROUP) {
        must(heddle_join(life->group, task->me, &task->ep), "heddle_join");
        task->team = heddle_ep_team(task->ep);
        task->context = heddle_ep_context(task->ep);
        return;
    }
    task->context = life->contexts->context[task->slot->shared ? 0 : task->me];
    ucc_team_params_t p = {.mask = UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE,
                           .ep = task->me,
                           .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG};
    if (life->form == BY_OOB) {
        p.mask |= UCC_TEAM_PARAM_FIELD_OOB;
        p.oob = oob_endpoint(life->oob, task->me);
    } else {
        p.mask |= UCC_TEAM_PARAM_FIELD_TEAM_SIZE | UCC_TEAM_PARAM_FIELD_ID;
        p.team_size = life->n;
        p.id = life->number * MAX_SLOTS + task->slot->index + 1;
    }
    heddle_team_params_t extra = {.mask = HEDDLE_TEAM_PARAM_FIELD_MEMORY};
    if (life->memory) {
        bool ours = chance(&task->random, 70);
        task->own_memory = ours ? must_alloc(1, life->memory) : NULL;
        extra.memory.address = task->own_memory;
        extra.memory.bytes = life->memory;
    }
    must(heddle_team_create_post(&task->context, 1, &p, life->memory ? &extra : NULL,
                                 &task->forming),
         "heddle_team_create_post");
}

static void find_memory(task_t *task) {
    size_t bytes;
    task->memory = NULL;
    if (task->life->memory) {
        must(heddle_team_memory(task->team, task->me, &task->memory, &bytes), "heddle_team_memory");
    }
}

/* True when a team that is being formed (if any) is there. */
static bool step_forming(task_t *task, ucc_team_h *team) {
    if (task->forming) {
        ucc_status_t status = ucc_team_create_test(task->forming);
        if (status == UCC_INPROGRESS) {
            return false;
        }
        stress_expect(status, UCC_OK, "forming");
        *team = task->forming;
        task->forming = NULL;
    }
    return true;
}

static void start_child(task_t *task) {
    const life_t *life = task->life;
    uint64_t list[MAX_N], *members = list, n = 0;
    for (uint32_t i = 0; i < life->n; i++) {
        if (i == task->me) {
            task->me_in_child = (uint32_t)n;
        }
        if (life->in_child[i]) {
            list[n++] = i;
        }
    }
    if (!life->by_list) {
        must(ucc_team_create_from_parent(task->me, life->in_child[task->me], task->team,
                                         &task->forming),
             "ucc_team_create_from_parent");
    } else if (life->in_child[task->me]) {
        must(ucc_create_team_from_eps(task->team, &members, n, &task->forming),
             "ucc_create_team_from_eps");
    }
}

static void destroy(ucc_team_h *team) {
    while (*team && ucc_team_destroy(*team) == UCC_INPROGRESS) {
    }
    *team = NULL;
}

static void leave(task_t *task) {
    if (task->life->form == BY_GROUP) {
        destroy(&task->child); /* it works in the endpoint's context */
        must(heddle_leave(task->ep), "heddle_leave");
        task->team = NULL;
    } else if (chance(&task->random, 50)) {
        destroy(&task->team);
        destroy(&task->child);
    } else {
        destroy(&task->child);
        destroy(&task->team);
    }
    free(task->own_memory); /* nobody writes there any more */
    task->own_memory = NULL;
    leave_life(task->slot, task->life);
}

/* One step, without a wait. True if the endpoint is still there. */
static bool step(task_t *task) {
    life_t *life = task->life;
    switch (task->at) {
    case ENTER:
        task->life = enter_life(task->slot, task->number++);
        start_forming(task);
        task->at = FORM;
        break;
    case FORM:
        if (step_forming(task, &task->team)) {
            find_memory(task);
            task->at = RUN;
        }
        break;
    case RUN:
        if (step_work(task, &life->work, task->team, task->me)) {
            task->at = life->has_child ? FORM_CHILD : LEAVE;
            if (life->has_child) {
                start_child(task);
            }
        }
        break;
    case FORM_CHILD:
        if (step_forming(task, &task->child)) {
            task->at = life->in_child[task->me] ? RUN_CHILD : LEAVE;
        }
        must(ucc_context_progress(task->context), "ucc_context_progress");
        break;
    case RUN_CHILD:
        if (step_work(task, &life->child_work, task->child, task->me_in_child)) {
            task->at = LEAVE;
        }
        break;
    case LEAVE:
        leave(task);
        task->at = task->number < task->slot->last ? ENTER : GONE;
        return task->at != GONE;
    case GONE:
        break;
    }
    return true;
}

/* --- scenarios -------------------------------------------------------------------------------- */

typedef struct worker {
    scenario_t *scenario;
    uint32_t index;
} worker_t;

static void *drive(void *arg) {
    const worker_t *worker = arg;
    scenario_t *s = worker->scenario;
    uint64_t random = s->seed * 31 + worker->index;
    while (atomic_load_explicit(&s->left, memory_order_relaxed)) { /* only a count */
        for (uint32_t i = 0; i < s->n_tasks; i++) {
            task_t *task = &s->task[i];
            bool mine = s->wander ? chance(&random, 50) : i % s->n_threads == worker->index;
            /* acquire: takes in what the thread before wrote of the task; pairs with clear */
            if (!mine || atomic_flag_test_and_set_explicit(&task->busy, memory_order_acquire)) {
                continue;
            }
            if (task->at != GONE && !step(task)) {
                atomic_fetch_sub_explicit(&s->left, 1, memory_order_relaxed); /* as above */
            }
            atomic_flag_clear_explicit(&task->busy, memory_order_release);
        }
        if (chance(&random, 20)) {
            sched_yield();
        } else if (chance(&random, 1)) {
            usleep((useconds_t)random_below(&random, 300));
        }
    }
    return NULL;
}

/* Half of the scenarios change half of what changes a path. */
static void draw_variables(uint64_t *random, bool like) {
    static const struct {
        const char *name, *value[4];
    } variables[] = {
        {"HEDDLE_ARRIVAL", {"flat", "static", "counter", "auto"}},
        {"HEDDLE_FLAT_MAX", {"1", "2", "4", "16"}},
        {"HEDDLE_TREE", {"number", "topology", "topology", "number"}},
        {"HEDDLE_LINES_MAX", {"0", "64", "256", "1024"}},
        {"HEDDLE_STAGED_MAX", {"0", "256", "4k", "64k"}},
        {"HEDDLE_DIRECT_ABOVE", {"0", "256", "16k", "1m"}},
        {"HEDDLE_CHUNK", {"4k", "16k", "256k", "4m"}},
        {"HEDDLE_NONTEMPORAL_MIN", {"0", "64", "1k", "64k"}},
        {"HEDDLE_RING", {"4", "8", "16", "64"}},
        {"HEDDLE_PERSISTENT_RING", {"2", "4", "8", "16"}},
        {"HEDDLE_SPIN_POLLS", {"1", "4", "1000", "1"}},
        {"HEDDLE_PARK_SPIN_US", {"0", "1", "10", "1000"}},
        {"HEDDLE_CHECK", {"y", "n", "n", "n"}},
    };
    bool any = !like && chance(random, 50);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = variables[i].value[random_below(random, 4)];
        if (any && chance(random, 50)) {
            setenv(variables[i].name, value, 1);
        } else {
            unsetenv(variables[i].name);
        }
    }
    if (like) {
        setenv("HEDDLE_TREE", "topology", 1);
        setenv("HEDDLE_CHUNK", "256k", 1);
        setenv("HEDDLE_RING", "8", 1);
    }
}

/* Does each context belong to one thread? */
static bool is_alone(const scenario_t *s, const slot_t *slot) {
    bool one_thread = s->n_threads == 1 || slot->n == 1;
    return !s->wander && (!slot->shared || one_thread);
}

static void make_slots(scenario_t *s, uint64_t *random, soak_mode_t mode) {
    enum { LIVES = 6, LONG_LIVES = 12, BURST = 60, LONG_BURST = 5000 };
    for (uint32_t i = 0; i < s->n_slots; i++) {
        slot_t *slot = &s->slot[i];
        pthread_mutex_init(&slot->lock, NULL);
        slot->index = i;
        slot->n = 1 + (uint32_t)random_below(random, chance(random, 20) ? MAX_N : 8);
        if (s->like) {
            slot->n = 4 + (uint32_t)random_below(random, 5);
        }
        slot->seed = random_next(random);
        slot->last = mode == SHORT ? LIVES : LONG_LIVES;
        slot->longest = mode == SHORT ? BURST : LONG_BURST;
        slot->shared = chance(random, 50);
        slot->alone = is_alone(s, slot);
        slot->keeps = chance(random, 40);
        if (slot->keeps) {
            make_contexts(slot, &slot->kept, random);
        }
        for (uint32_t e = 0; e < slot->n; e++) {
            s->task[s->n_tasks++] = (task_t){
                .busy = ATOMIC_FLAG_INIT, .slot = slot, .me = e, .random = random_next(random)};
        }
    }
    atomic_store_explicit(&s->left, s->n_tasks, memory_order_relaxed); /* not shared yet */
}

static void draw_shape(scenario_t *s, uint64_t *random, soak_mode_t mode) {
    s->like = mode == LIKE || (mode == LONG && chance(random, 30));
    s->n_threads = s->like ? 2 : 1 + (uint32_t)random_below(random, MAX_THREADS);
    s->n_slots = s->like ? MAX_SLOTS : 1 + (uint32_t)random_below(random, MAX_SLOTS);
    s->wander = chance(random, 30);
}

static void run_scenario(uint64_t seed, soak_mode_t mode) {
    scenario_t *s = must_alloc(1, sizeof(*s));
    pthread_t thread[MAX_THREADS];
    worker_t worker[MAX_THREADS];
    uint64_t random = seed;
    s->seed = seed;
    draw_shape(s, &random, mode);
    draw_variables(&random, s->like);
    make_slots(s, &random, mode);
    if (stress.seed == 0) {
        hd_delay_arm(chance(&random, 30) ? (uint32_t)seed | 1 : 0);
    }
    for (uint32_t i = 0; i < s->n_threads; i++) {
        worker[i] = (worker_t){s, i};
        pthread_create(&thread[i], NULL, drive, &worker[i]);
    }
    for (uint32_t i = 0; i < s->n_threads; i++) {
        pthread_join(thread[i], NULL);
    }
    for (uint32_t i = 0; i < s->n_slots; i++) {
        destroy_contexts(&s->slot[i].kept);
        pthread_mutex_destroy(&s->slot[i].lock);
    }
    free(s);
}

static void print_counts(uint64_t seed) {
    printf("to seed %" PRIu64 ": %" PRIu64 " collectives, %" PRIu64 " of them in bursts, %" PRIu64
           " teams\n",
           seed, atomic_load(&collectives), atomic_load(&small_ones), atomic_load(&teams));
    fflush(stdout);
}

static void run_for(double seconds, uint64_t seed, soak_mode_t mode) {
    enum { LINE_EVERY = 50 };
    double end = test_now() + seconds;
    is_long = true;
    for (uint64_t i = 0; test_now() < end && !atomic_load(&stress.errors); i++) {
        note_progress();
        run_scenario(seed + i, mode);
        if (i % LINE_EVERY == 0) {
            print_counts(seed + i);
        }
    }
}

static soak_mode_t mode_of(int argc, char **argv) {
    return argc < 2                         ? SHORT
           : strcmp(argv[1], "--long") == 0 ? LONG
           : strcmp(argv[1], "--like") == 0 ? LIKE
                                            : SHORT;
}

int main(int argc, char **argv) {
    soak_mode_t mode = mode_of(argc, argv);
    stress_begin(mode == SHORT ? argc : 1, argv);
    if (mode != SHORT) {
        run_for(argc > 2 ? atof(argv[2]) : 3600, argc > 3 ? strtoull(argv[3], NULL, 0) : 1, mode);
    } else {
        uint64_t scenarios = stress_scaled(60);
        stress_phase("short scenarios", 300);
        for (uint64_t i = 0; i < scenarios; i++) {
            run_scenario(i + 1, mode);
        }
    }
    print_counts(0);
    return stress_end();
}
