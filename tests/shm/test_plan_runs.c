/* test_plan_runs.c: what runs is what was planned. One thread drives all members of a board through
 * each row of the table and looks, at every one, what its lane says, how it arrives, what it waits
 * for, and what the engine was given to do.
 */
#include "plan_rows.h"

#include "shm/claim.h"

enum { ROUNDS = 3 };

typedef struct member {
    hd_op_t *op;
    hd_plan_t plan; /* of hd_plan_here, before anything was started */
    ucc_status_t status;
    uint8_t *src, *dst;
} member_t;

typedef struct run {
    const row_t *row;
    char what[80];
    hd_group_t *group;
    hd_runner_t runner; /* as if a context had all of it */
    uint32_t counts[MOST];
    member_t member[MOST];
} run_t;

TestSuite(plan_runs, .init = describe_machine, .timeout = 60);

/* --- members ---------------------------------------------------------------------------------- */

static void leave_board(hd_op_t *op) {
    hd_match_leave(op->place.board);
}

static void make_buffers(run_t *r, uint32_t i) {
    member_t *m = &r->member[i];
    hd_call_t *call = &m->op->call;
    bool divided = hd_coll[call->type].source != HD_WHOLE;
    size_t room = (r->row->bytes + HD_LINE) * (divided ? r->row->n : 1);
    m->src = hd_alloc(HD_LINE, room);
    m->dst = hd_alloc(HD_LINE, room);
    call->src = m->src;
    call->dst = hd_coll[call->type].bcast ? m->src : m->dst;
    if (call->one_sided) {
        r->group->region[i].address = call->dst;
        r->group->region[i].bytes = room;
    }
}

/* As request/plan.c does: at init, or, if not all have joined by then, at the first post. */
static ucc_status_t start_late(hd_op_t *op);

static void choose_plan(hd_op_t *op) {
    bool complete = hd_group_is_complete(op->group);
    op->plan = complete ? hd_plan_here(op->group, &op->call, &op->place)
                        : (hd_plan_t){.path = HD_PATH_NOTHING};
    op->start = complete ? hd_plan_start(op) : start_late;
}

static ucc_status_t start_late(hd_op_t *op) {
    choose_plan(op);
    return op->start(op);
}

static void make_member(run_t *r, uint32_t i) {
    member_t *m = &r->member[i];
    hd_op_t *op = m->op = hd_alloc(HD_LINE_PAIR, sizeof(*op));
    op->group = r->group;
    op->team_ep = i;
    op->task.home = &r->group->home;
    op->task.context = (void *)&r->runner;
    op->call = call_of(r->row, i, r->counts);
    op->place = place_of(r->row, i);
    make_buffers(r, i);
    choose_plan(op);
}

/* early: an endpoint joins only when all calls have been prepared. */
static void make(run_t *r, size_t row, bool early) {
    memset(r, 0, sizeof(*r));
    r->row = &plan_rows[row];
    snprintf(r->what, sizeof(r->what), "row %zu, %s among %u, %zu bytes, \"%s\"", row,
             hd_type_name(r->row->type), r->row->n, r->row->bytes, r->row->how);
    r->group = empty_group_of(r->row);
    hd_runner_init(&r->runner, false, 1, 0);
    join_up_to(r->row, r->group, r->group->n - early);
    for (uint32_t i = 0; i < r->row->n; i++) {
        make_member(r, i);
        cr_assert_eq(r->member[i].op->plan.path == HD_PATH_NOTHING, early, "%s", r->what);
    }
    join_up_to(r->row, r->group, r->group->n);
    for (uint32_t i = 0; i < r->row->n; i++) {
        const hd_op_t *op = r->member[i].op;
        r->member[i].plan = hd_plan_here(r->group, &op->call, &op->place);
    }
}

static void unmake(run_t *r) {
    for (uint32_t i = 0; i < r->row->n; i++) {
        hd_free(r->member[i].op);
        hd_free(r->member[i].src);
        hd_free(r->member[i].dst);
    }
    hd_home_unpin(&r->group->home);
}

/* --- what its lane says ----------------------------------------------------------------------- */

/* A v type's plan may be made anew for each post: nothing else has changed. */
static void check_kept(const run_t *r, const member_t *m) {
    const hd_plan_t *is = &m->op->plan, *was = &m->plan;
    cr_assert(is->path == was->path && is->arrival == was->arrival &&
                  is->all_wait == was->all_wait && is->regime == was->regime &&
                  is->data == was->data && is->lines == was->lines && is->naming == was->naming &&
                  is->stores == was->stores && is->slices == was->slices &&
                  is->window == was->window && is->row == was->row,
              "%s: another plan was made", r->what);
}

static void check_lane(const run_t *r, uint32_t i) {
    const member_t *m = &r->member[i];
    const hd_place_t *place = &m->op->place;
    const hd_lane_t *lane = hd_board_lane(place->board, i, place->k);
    cr_assert(hd_lane_is_there(lane, place->k), "%s: no lane of %u", r->what, i);
    cr_assert_eq(hd_lane_regime(lane), m->plan.regime, "%s: the lane of %u is %s", r->what, i,
                 hd_regime_name(hd_lane_regime(lane)));
}

/* After one round: all have their lines. What it waits for comes in as many as the plan says. */
static void check_awaited(const run_t *r, uint32_t i, uint32_t round) {
    const member_t *m = &r->member[i];
    bool by_lane = m->plan.path == HD_PATH_LANES && m->status == UCC_INPROGRESS;
    if (round > 0 && by_lane) {
        cr_assert_eq(m->op->task.n_along, m->plan.lines, "%s: %u looks at %u lines", r->what, i,
                     m->op->task.n_along);
    }
}

/* --- how it arrives, and what is done --------------------------------------------------------- */

static void check_arrival(const run_t *r, uint32_t i) {
    const hd_op_t *op = r->member[i].op;
    const hd_plan_t *plan = &r->member[i].plan;
    const hd_coll_t *coll = &hd_coll[op->call.type];
    bool down_lines = coll->bcast && plan->path == HD_PATH_TREE && !op->call.empty;
    bool by_tree = plan->arrival != HD_ARRIVAL_FLAT && !(down_lines && op->call.is_root);
    cr_assert_eq(op->arriving, by_tree, "%s: %u", r->what, i);
    if (by_tree) {
        bool combines = coll->reducing && plan->path == HD_PATH_TREE;
        bool in_steps = plan->arrival == HD_ARRIVAL_BUTTERFLY;
        const hd_board_t *board = op->place.board;
        uint32_t by_steps = board->at_once ? 0 : board->steps_by;
        cr_assert_eq(op->arrive_which,
                     combines   ? 0
                     : in_steps ? by_steps
                                : 1,
                     "%s: %u", r->what, i);
        bool is_fixed = plan->arrival == HD_ARRIVAL_STATIC || plan->arrival == HD_ARRIVAL_BUTTERFLY;
        cr_assert_eq(is_fixed, r->group->static_arrival, "%s", r->what);
        cr_assert_eq(plan->arrival == HD_ARRIVAL_BUTTERFLY, r->group->butterfly && plan->all_wait,
                     "%s", r->what); /* of the rows' numbers, all climb */
    }
}

static bool engine_works(const run_t *r) {
    bool works = false;
    for (uint32_t i = 0; i < r->row->n; i++) {
        works = works || r->member[i].plan.regime == HD_REGIME_DIRECT;
    }
    return works;
}

/* Windows of a block. */
static size_t windows(const hd_plan_t *plan, size_t block) {
    return (block + plan->window - 1) / plan->window;
}

/* By windows that are the plan's, but for slices of members that have published their data. */
static size_t planned_units(const run_t *r, uint32_t s) {
    const hd_call_t *call = &r->member[s].op->call;
    const hd_plan_t *plan = &r->member[s].plan;
    const hd_coll_t *coll = &hd_coll[call->type];
    uint64_t n = r->row->n, shares = plan->slices;
    size_t units;
    if (plan->row->windowed) {
        size_t all = windows(plan, call->bytes);
        units = all * (s + 1) / shares - all * s / shares;
    } else if (coll->pairwise) {
        size_t parts = windows(plan, block_of(r->row, 0));
        units = (parts ? parts : 1) * (call->in_place ? n - s - 1 : n);
    } else {
        units = windows(plan, call->bytes) * (call->exclusive ? n : 1);
    }
    return units ? units : 1;
}

static void check_work(const run_t *r) {
    const hd_op_t *op = r->member[0].op;
    const hd_work_t *work = atomic_load(&op->slot->work);
    uint64_t gen = hd_generation(op->place.k);
    cr_assert_not_null(work, "%s", r->what);
    for (uint32_t s = 0; s < hd_board_slices(op->place.board); s++) {
        const hd_slice_t *slice = &work->slice[s];
        cr_assert_eq(hd_is_generation(slice->claim, gen), s < r->member[0].plan.slices, "%s: %u",
                     r->what, s);
        if (hd_is_generation(slice->claim, gen)) {
            cr_assert_eq(slice->units, planned_units(r, s), "%s: %u units of slice %u", r->what,
                         slice->units, s);
            cr_assert_eq(slice->finished, gen | slice->units, "%s: slice %u", r->what, s);
        }
    }
}

static void check_end(const run_t *r) {
    bool works = engine_works(r);
    for (uint32_t i = 0; i < r->row->n; i++) {
        const member_t *m = &r->member[i];
        /* of a gatherv: a member that is done with its lane leaves the work to others */
        bool own = works && (m->plan.path == HD_PATH_ENGINE || m->plan.regime == HD_REGIME_DIRECT ||
                             m->op->call.is_root || hd_coll[m->op->call.type].flow != HD_TO_ROOT);
        cr_assert_eq(m->op->phase, own ? HD_PHASE_LOCAL : HD_PHASE_ARRIVE,
                     "%s: %u ends in phase %d", r->what, i, m->op->phase);
        check_arrival(r, i);
        check_kept(r, m);
    }
    if (works) {
        check_work(r);
    }
}

/* --- running ---------------------------------------------------------------------------------- */

static void launch_in_set(run_t *r, uint32_t i) {
    hd_op_t *op = r->member[i].op;
    hd_subset_t set = {0, 1, r->row->n, r->row->n};
    op->place.board = hd_match_join(r->group, &set, HD_MATCH_ACTIVE_SET, 0, i);
    cr_assert_not_null(op->place.board);
    op->place.k = op->place.board->head->use;
    op->place.member = op->place.board->member[i];
    op->numbered = false;
    op->leave = leave_board;
    r->member[i].status = hd_op_launch(op);
}

static void launch(run_t *r, uint32_t i) {
    hd_op_t *op = r->member[i].op;
    if (is(r->row, 'a')) {
        launch_in_set(r, i);
        return;
    }
    cr_assert_eq(hd_board_enter(op, r->group->board), HD_TURN_NOW, "%s", r->what);
    r->member[i].status = hd_op_launch(op);
}

/* As a post does whose plan has it: the lane goes out, and an operation goes on if a peer is late.
 */
static void launch_by_express(run_t *r, uint32_t i) {
    hd_op_t *op = r->member[i].op;
    op->place.board = r->group->board;
    op->place.member = r->group->board->member[i];
    uint64_t k = hd_family[op->call.type].express(&op->place, &op->call, 0);
    cr_assert_neq(k, 0, "%s: %u", r->what, i);
    op->numbered = true;
    op->leave = NULL;
    op->place.k = k == HD_EXPRESS_OVER ? op->place.member->taken : k;
    r->member[i].status = UCC_OK;
    if (k != HD_EXPRESS_OVER) {
        hd_op_resume(op, hd_family[op->call.type].wait);
        r->member[i].status = UCC_INPROGRESS;
    }
}

static bool step_all(run_t *r) {
    bool over = true;
    for (uint32_t i = 0; i < r->row->n; i++) {
        member_t *m = &r->member[i];
        m->status = m->status == UCC_INPROGRESS ? hd_op_step(&m->op->task) : m->status;
        cr_assert_geq(m->status, UCC_OK, "%s: %u fails: %s", r->what, i,
                      ucc_status_string(m->status));
        over = over && m->status == UCC_OK;
    }
    return over;
}

static void finish(run_t *r) {
    for (uint32_t steps = 0; !step_all(r); steps++) {
        cr_assert_lt(steps, 100 * r->row->n, "%s: does not end", r->what);
    }
}

static void run_round(run_t *r, uint32_t round) {
    for (uint32_t i = 0; i < r->row->n; i++) {
        launch(r, i);
        check_lane(r, i);
        check_awaited(r, i, round);
        for (uint32_t j = 0; r->member[i].plan.all_wait && i + 1 < r->row->n && j <= i; j++) {
            cr_assert_eq(r->member[j].status, UCC_INPROGRESS, "%s: %u is done", r->what, j);
        }
    }
    finish(r);
    check_end(r);
}

Test(plan_runs, lanes_arrival_and_work_are_as_planned) {
    run_t *r = malloc(sizeof(*r));
    for (size_t row = 0; row < ROWS; row++) {
        make(r, row, false);
        for (uint32_t round = 0; round < ROUNDS; round++) {
            run_round(r, round);
        }
        unmake(r);
    }
    free(r);
}

Test(plan_runs, a_call_that_was_prepared_before_all_had_joined_is_planned_when_it_starts) {
    run_t *r = malloc(sizeof(*r));
    for (size_t row = 0; row < ROWS; row++) {
        make(r, row, true);
        run_round(r, 0);
        run_round(r, 1);
        unmake(r);
    }
    free(r);
}

Test(plan_runs, the_express_publishes_what_was_planned) {
    run_t *r = malloc(sizeof(*r));
    for (size_t row = 0; row < ROWS; row++) {
        make(r, row, false);
        bool by_express = r->member[0].plan.express && !is(r->row, 'a');
        if (by_express) {
            run_round(r, 0); /* from which on there are lines */
        }
        for (uint32_t i = 0; i < r->row->n && by_express; i++) {
            launch_by_express(r, i);
            check_lane(r, i);
        }
        finish(r);
        unmake(r);
    }
    free(r);
}
