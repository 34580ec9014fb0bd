/* test_errors_cancel.c: timeouts, aborts, and error_type GLOBAL. When a request reports an error,
 * nobody touches its buffers any more: here every endpoint frees them at once, while others are in
 * the middle of chunks, so that AddressSanitizer catches a late touch.
 *
 * All this holds however members arrive, so the tests can also be run with any HEDDLE_ARRIVAL. What
 * differs is who may end alone: with static arrival, not a member that combines for others.
 */
#include "../support/cases.h"
#include "../support/deadline.h"
#include "../support/driver.h"
#include "../support/random.h"
#include "team/team.h"
#include "threads/delay.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void quiet(void) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    setenv("HEDDLE_TEST_SLOWDOWN", "0.34", 0);
}

TestSuite(errors_cancel, .timeout = 600, .init = quiet);

/* --- buffers that die with the request -------------------------------------------------------- */

enum { MAX_N = 11, SEEDS = 20, BLOCK = 60000, ALL_BLOCKS = 4 * BLOCK, EARLY = 4 };

/* Flat ones, whose members look at each slice for the end, and beyond FLAT_MAX. */
static const uint32_t sizes[] = {2, 4, 8, 3, MAX_N};
enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

typedef enum cause { TIMEOUT, ABORT } cause_t;

typedef struct large {
    ucc_coll_type_t type;
    bool user; /* a user's reduction: one chunk at a time */
} large_t;

typedef struct round {
    world_t *world;
    large_t large;
    ucc_datatype_t user_dt;
    uint32_t n;
    cause_t cause;
    uint64_t seed;
    ucc_status_t first[MAX_N], next[MAX_N];
} round_t;

static ucc_coll_buffer_info_t info(void *buffer, uint64_t count) {
    return (ucc_coll_buffer_info_t){.buffer = buffer,
                                    .count = count,
                                    .datatype = UCC_DT_INT32,
                                    .mem_type = UCC_MEMORY_TYPE_HOST};
}

static ucc_coll_buffer_info_v_t info_v(void *buffer, uint32_t *counts) {
    return (ucc_coll_buffer_info_v_t){.buffer = buffer,
                                      .counts = (ucc_count_t *)(void *)counts,
                                      .datatype = UCC_DT_INT32,
                                      .mem_type = UCC_MEMORY_TYPE_HOST};
}

/* Blocks of gatherv and scatterv: every other member has next to nothing. What it gives comes with
 * its lane, and it is over while the others still work. */
static void set_counts(const round_t *round, uint32_t *counts) {
    bool uneven =
        round->large.type == UCC_COLL_TYPE_GATHERV || round->large.type == UCC_COLL_TYPE_SCATTERV;
    for (uint32_t j = 0; j < round->n; j++) {
        counts[j] = uneven && (j + round->seed) % 2 ? EARLY : ALL_BLOCKS / round->n;
    }
}

static ucc_coll_args_t large_args(const round_t *round, uint32_t i, int32_t *src, int32_t *dst,
                                  uint32_t *counts) {
    ucc_coll_type_t type = round->large.type;
    uint32_t block = ALL_BLOCKS / round->n, all = block * round->n;
    bool blocks_in_src = type == UCC_COLL_TYPE_ALLTOALL || type == UCC_COLL_TYPE_SCATTER ||
                         type == UCC_COLL_TYPE_REDUCE_SCATTER;
    bool blocks_in_dst = type == UCC_COLL_TYPE_ALLTOALL || type == UCC_COLL_TYPE_ALLGATHER ||
                         type == UCC_COLL_TYPE_GATHER;
    ucc_coll_args_t args = {
        .coll_type = type, .op = UCC_OP_SUM, .root = round->seed / 3 % round->n};
    args.src.info = info(src, blocks_in_src ? all : block);
    args.dst.info = info(dst, blocks_in_dst ? all : block);
    switch (type) {
    case UCC_COLL_TYPE_ALLTOALLV:
        args.src.info_v = info_v(src, counts);
        args.dst.info_v = info_v(dst, counts);
        break;
    case UCC_COLL_TYPE_ALLGATHERV:
        args.dst.info_v = info_v(dst, counts);
        break;
    case UCC_COLL_TYPE_GATHERV:
        args.src.info.count = counts[i];
        args.dst.info_v = info_v(dst, counts);
        break;
    case UCC_COLL_TYPE_SCATTERV:
        args.src.info_v = info_v(src, counts);
        args.dst.info.count = counts[i];
        break;
    default:
        break;
    }
    if (round->large.user) {
        args.src.info.datatype = args.dst.info.datatype = round->user_dt;
    }
    return args;
}

static ucc_status_t wait_for(world_t *world, uint32_t i, ucc_coll_req_h request) {
    deadline_t deadline = deadline_start("an operation that is cancelled");
    while (ucc_collective_test(request) == UCC_INPROGRESS) {
        ucc_context_progress(world_context(world, i));
        deadline_poll(&deadline);
    }
    ucc_status_t status = ucc_collective_test(request);
    must(ucc_collective_finalize(request), "ucc_collective_finalize");
    return status;
}

static ucc_status_t collective(world_t *world, uint32_t i, ucc_coll_args_t *args) {
    ucc_coll_req_h request;
    must(ucc_collective_init(args, &request, world->teams[i]), "ucc_collective_init");
    ucc_status_t status = ucc_collective_post(request);
    if (status != UCC_OK) {
        must(ucc_collective_finalize(request), "ucc_collective_finalize");
        return status;
    }
    return wait_for(world, i, request);
}

static void endpoint(void *arg, uint32_t i) {
    round_t *round = arg;
    uint64_t random = round->seed * 977 + i;
    int32_t *src = must_alloc(ALL_BLOCKS, sizeof(*src));
    int32_t *dst = must_alloc(ALL_BLOCKS, sizeof(*dst));
    uint32_t *counts = must_alloc(round->n, sizeof(*counts));
    set_counts(round, counts);
    ucc_coll_args_t args = large_args(round, i, src, dst, counts);
    if (round->cause == TIMEOUT && i == round->seed % round->n) {
        args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
        args.timeout = 1e-6 * (double)random_below(&random, 100 * round->n);
    }
    if (round->cause == ABORT && i == round->seed % round->n) { /* besides taking part */
        usleep((useconds_t)random_below(&random, 400));
        heddle_team_abort(round->world->teams[i]);
    } else {
        usleep((useconds_t)random_below(&random, 100));
    }
    round->first[i] = collective(round->world, i, &args);
    free(src);
    free(dst);
    free(counts);
    ucc_coll_args_t barrier = {.coll_type = UCC_COLL_TYPE_BARRIER};
    round->next[i] = collective(round->world, i, &barrier);
}

/* Everybody's operation ends well or with the documented status; if anybody's failed, all of the
 * next ones do. Returns whether it failed. */
static bool run_round(round_t *round, ucc_status_t expected) {
    bool failed = false;
    round->world = world_create(&(world_params_t){.size = round->n, .form = WORLD_GROUP});
    hd_delay_arm((uint32_t)round->seed * 2654435761u + 1);
    driver_threads(round->n, endpoint, round);
    hd_delay_arm(0);
    for (uint32_t i = 0; i < round->n; i++) {
        cr_assert(round->first[i] == UCC_OK || round->first[i] == expected,
                  "%s: endpoint %u of %u: status %d", reference_coll_name(round->large.type), i,
                  round->n, (int)round->first[i]);
        failed = failed || round->first[i] != UCC_OK;
    }
    for (uint32_t i = 0; i < round->n; i++) {
        cr_assert(!failed || round->next[i] == expected,
                  "%s: endpoint %u of %u: the next operation has status %d",
                  reference_coll_name(round->large.type), i, round->n, (int)round->next[i]);
    }
    world_destroy(round->world);
    return failed;
}

static ucc_status_t add_words(const ucc_reduce_cb_params_t *params) {
    const int32_t *a = params->src1, *b = params->src2;
    int32_t *sum = params->dst;
    for (uint64_t i = 0; i < params->count; i++) {
        sum[i] = a[i] + b[i];
    }
    return UCC_OK;
}

static const large_t larges[] = {
    {UCC_COLL_TYPE_ALLREDUCE, false}, {UCC_COLL_TYPE_BCAST, false},
    {UCC_COLL_TYPE_ALLTOALL, false},  {UCC_COLL_TYPE_ALLGATHER, false},
    {UCC_COLL_TYPE_GATHER, false},    {UCC_COLL_TYPE_SCATTER, false},
    {UCC_COLL_TYPE_REDUCE, false},    {UCC_COLL_TYPE_REDUCE_SCATTER, false},
    {UCC_COLL_TYPE_ALLTOALLV, false}, {UCC_COLL_TYPE_ALLGATHERV, false},
    {UCC_COLL_TYPE_GATHERV, false},   {UCC_COLL_TYPE_SCATTERV, false},
    {UCC_COLL_TYPE_ALLREDUCE, true}};
enum { N_LARGE = sizeof(larges) / sizeof(larges[0]) };

static void cancel_all(cause_t cause, ucc_status_t expected) {
    ucc_generic_dt_ops_t ops = {.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
                                .flags =
                                    UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
                                .contig_size = sizeof(int32_t),
                                .reduce.cb = add_words};
    round_t round = {.cause = cause};
    must(ucc_dt_create_generic(&ops, NULL, &round.user_dt), "ucc_dt_create_generic");
    unsigned failed[N_SIZES] = {0}, total = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (uint32_t t = 0; t < N_LARGE; t++) {
            round.large = larges[t];
            round.seed = seed * N_LARGE + t;
            round.n = sizes[seed % N_SIZES];
            failed[seed % N_SIZES] += run_round(&round, expected);
        }
    }
    for (uint32_t s = 0; s < N_SIZES; s++) {
        printf("%u endpoints: %u of %u rounds were cut short\n", sizes[s], failed[s],
               SEEDS / N_SIZES * N_LARGE);
        total += failed[s];
    }
    cr_assert_gt(total, 0u);
    ucc_dt_destroy(round.user_dt);
}

Test(errors_cancel, buffers_are_nobodys_any_more_when_a_timeout_is_reported) {
    cancel_all(TIMEOUT, UCC_ERR_TIMED_OUT);
}

Test(errors_cancel, buffers_are_nobodys_any_more_when_an_abort_is_reported) {
    cancel_all(ABORT, HEDDLE_ERR_ABORTED);
}

/* --- abort ------------------------------------------------------------------------------------ */

Test(errors_cancel, abort_ends_what_waits_and_what_comes_later) {
    for (uint32_t n = 2; n <= 33; n += 31) {
        world_t *world = world_create(&(world_params_t){.size = n, .form = WORLD_OOB});
        ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
        ucc_coll_req_h requests[40];
        for (uint32_t k = 0; k < 40; k++) { /* more than the ring holds: some are queued */
            must(ucc_collective_init(&args, &requests[k], world->teams[1]), "init");
            must(ucc_collective_post(requests[k]), "post");
        }
        cr_assert_eq(heddle_team_abort(world->teams[0]), UCC_OK);
        cr_assert_eq(heddle_team_abort(world->teams[0]), UCC_OK, "once or often");
        for (uint32_t k = 0; k < 40; k++) {
            cr_assert_eq(wait_for(world, 1, requests[k]), HEDDLE_ERR_ABORTED);
        }
        for (uint32_t i = 0; i < n; i++) {
            cr_assert_eq(collective(world, i, &args), HEDDLE_ERR_ABORTED);
        }
        world_destroy(world);
    }
}

/* --- timeouts of small operations ------------------------------------------------------------- */

typedef struct lonely {
    coll_case_t c;
    uint32_t waiter;    /* it posts alone, and times out */
    bool usable;        /* the others can still complete, and the team lives on: if flat */
    bool usable_tree;   /* the same with a tree of arrivals */
    bool usable_static; /* whose combiners are fixed: the waiter is one */
} lonely_t;

static bool stays_usable(const lonely_t *l, const world_t *world) {
    const hd_group_t *group = world->teams[0]->group;
    if (!group->board->tree[0]) {
        return l->usable;
    }
    return group->static_arrival ? l->usable_static : l->usable_tree;
}

static void set_timeout(ucc_coll_args_t *args, double seconds) {
    args->flags =
        (args->mask & UCC_COLL_ARGS_FIELD_FLAGS ? args->flags : 0) | UCC_COLL_ARGS_FLAG_TIMEOUT;
    args->mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    args->timeout = seconds;
}

static void run_lonely(const lonely_t *l, ucc_error_type_t error_type) {
    uint32_t n = l->c.size;
    /* a barrier's arguments may be garbage but for type and mask: its error_type says nothing */
    bool says = !(l->c.type & (UCC_COLL_TYPE_BARRIER | UCC_COLL_TYPE_FANIN | UCC_COLL_TYPE_FANOUT));
    world_t *world = world_create(&(world_params_t){.size = n, .form = WORLD_GROUP});
    bool usable = stays_usable(l, world) && (error_type == UCC_ERR_TYPE_LOCAL || !says);
    prepared_t *p = case_prepare(&l->c);
    set_timeout(&p->args[l->waiter], 0.002);
    p->args[l->waiter].error_type = error_type;
    cr_assert_eq(collective(world, l->waiter, &p->args[l->waiter]), UCC_ERR_TIMED_OUT, "%s",
                 p->name);
    ucc_coll_req_h requests[64] = {NULL};
    for (uint32_t i = 0; i < n; i++) {
        if (i != l->waiter) {
            must(ucc_collective_init(&p->args[i], &requests[i], world->teams[i]), "init");
            ucc_status_t status = ucc_collective_post(requests[i]);
            cr_assert(status == UCC_OK || !usable);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        if (i != l->waiter) {
            cr_assert_eq(wait_for(world, i, requests[i]), usable ? UCC_OK : UCC_ERR_TIMED_OUT,
                         "%s: endpoint %u", p->name, i);
        }
    }
    ucc_coll_args_t *barriers = must_alloc(n, sizeof(*barriers));
    ucc_status_t *statuses = must_alloc(n, sizeof(*statuses));
    for (uint32_t i = 0; i < n; i++) {
        barriers[i].coll_type = UCC_COLL_TYPE_BARRIER;
    }
    job_t jobs[20];
    for (uint32_t k = 0; k < 20;
         k++) { /* round the ring: what was left behind is in nobody's way */
        jobs[k] = (job_t){.args = barriers, .statuses = statuses, .name = "after a timeout"};
    }
    driver_run(world, DRIVER_ONE, jobs, 20);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(statuses[i], usable ? UCC_OK : UCC_ERR_TIMED_OUT, "%s: endpoint %u", p->name,
                     i);
    }
    free(barriers);
    free(statuses);
    case_free(p);
    world_destroy(world);
}

/* Which operations may time out without harm: those whose data, up to STAGED_MAX, leaves with the
 * lane. alltoallv, and the side of gatherv and scatterv that learns the regime from its peers,
 * expose buffers from the start; so does everything direct, and reductions that a tree can't carry.
 * With static arrival, what the waiter combines for others they would wait for in vain. */
static void run_lonely_table(uint64_t count, uint32_t n, bool direct) {
    for (uint32_t t = 0; t < COLL_TYPES; t++) {
        ucc_coll_type_t type = coll_type_at(t);
        bool waits_at_root = type == UCC_COLL_TYPE_FANIN || type == UCC_COLL_TYPE_REDUCE ||
                             type == UCC_COLL_TYPE_GATHER || type == UCC_COLL_TYPE_GATHERV;
        bool scans = coll_is_scan(type); /* one-way: the last waits for all before it */
        bool is_reduction = coll_is_reduction(type) && !scans;
        bool blocks = type == UCC_COLL_TYPE_REDUCE_SCATTER || type == UCC_COLL_TYPE_REDUCE_SCATTERV;
        bool by_engine = is_reduction && (count > 12 || blocks);
        bool adapts = type == UCC_COLL_TYPE_ALLTOALLV || type == UCC_COLL_TYPE_GATHERV ||
                      type == UCC_COLL_TYPE_SCATTERV;
        bool combines = is_reduction || type == UCC_COLL_TYPE_BARRIER;
        bool alone = (!direct || !coll_moves_data(type)) && !adapts;
        lonely_t l = {.waiter = scans ? n - 1 : 0,
                      .usable = alone && !(is_reduction && n > HD_REDUCE_BLOCK),
                      .usable_tree = alone && !by_engine,
                      .usable_static = alone && !by_engine && !combines};
        l.c = (coll_case_t){.type = type,
                            .size = n,
                            .root = waits_at_root ? 0 : 1,
                            .count = count,
                            .dt = reference_datatype(UCC_DT_INT32),
                            .op = UCC_OP_SUM,
                            .seed = 5};
        run_lonely(&l, UCC_ERR_TYPE_LOCAL);
        run_lonely(&l, UCC_ERR_TYPE_GLOBAL);
    }
}

Test(errors_cancel, a_timeout_of_a_small_operation_leaves_a_flat_team_usable) {
    run_lonely_table(2, 3, false);
    run_lonely_table(100, 3, false);
}

Test(errors_cancel, a_timeout_of_a_small_operation_leaves_a_tree_usable) {
    run_lonely_table(2, 17, false);
    run_lonely_table(200, 17, false);
}

Test(errors_cancel, a_timeout_of_a_large_operation_fails_the_team) {
    run_lonely_table(20000, 3, true);
    run_lonely_table(20000, 9, true);
}

/* --- timeouts elsewhere ----------------------------------------------------------------------- */

Test(errors_cancel, an_operation_posted_before_all_have_joined_times_out) {
    heddle_group_params_t params = {.endpoints = 2};
    heddle_group_t *group;
    heddle_ep_t *ep;
    must(heddle_group_create(&params, &group), "heddle_group_create");
    must(heddle_join(group, 0, &ep), "heddle_join");
    for (int tagged = 0; tagged < 2; tagged++) {
        ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
        args.mask = tagged ? UCC_COLL_ARGS_FIELD_TAG : 0;
        set_timeout(&args, 0.002);
        ucc_coll_req_h request;
        must(ucc_collective_init(&args, &request, heddle_ep_team(ep)), "init");
        ucc_status_t status = ucc_collective_post(request);
        status = status == UCC_OK ? heddle_wait(request, 10) : status;
        cr_assert_eq(status, UCC_ERR_TIMED_OUT);
        must(ucc_collective_finalize(request), "finalize");
    }
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
}

Test(errors_cancel, an_endless_timeout_is_as_good_as_none) {
    world_t *world = world_create(&(world_params_t){.size = 2, .form = WORLD_GROUP});
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
    ucc_coll_req_h request;
    set_timeout(&args, 1e300);
    must(ucc_collective_init(&args, &request, world->teams[0]), "init");
    must(ucc_collective_post(request), "post");
    cr_assert_eq(heddle_wait(request, 0.05), UCC_INPROGRESS);
    ucc_coll_args_t barrier = {.coll_type = UCC_COLL_TYPE_BARRIER};
    ucc_coll_req_h late;
    must(ucc_collective_init(&barrier, &late, world->teams[1]), "init");
    must(ucc_collective_post(late), "post");
    cr_assert_eq(wait_for(world, 0, request), UCC_OK); /* first: it may combine for both */
    cr_assert_eq(wait_for(world, 1, late), UCC_OK);
    world_destroy(world);
}

/* --- who learns of a failure ------------------------------------------------------------------ */

static ucc_status_t refuse(const ucc_reduce_cb_params_t *params) {
    return *(const ucc_status_t *)params->cb_ctx;
}

static void a_reduction_fails_with(ucc_status_t returned, ucc_status_t wanted) {
    ucc_generic_dt_ops_t ops = {.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
                                .flags =
                                    UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
                                .contig_size = 8,
                                .reduce = {.cb = refuse, .cb_ctx = &returned}};
    ucc_datatype_t dt;
    must(ucc_dt_create_generic(&ops, NULL, &dt), "ucc_dt_create_generic");
    world_t *world = world_create(&(world_params_t){.size = 3, .form = WORLD_OOB});
    uint64_t src[3][4] = {{0}}, dst[3][4];
    ucc_coll_args_t args[3];
    ucc_status_t statuses[3];
    for (uint32_t i = 0; i < 3; i++) {
        args[i] = (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_ALLREDUCE};
        args[i].src.info = (ucc_coll_buffer_info_t){.buffer = src[i], .count = 4, .datatype = dt};
        args[i].dst.info = (ucc_coll_buffer_info_t){.buffer = dst[i], .count = 4, .datatype = dt};
    }
    job_t job = {.args = args, .statuses = statuses, .name = "a failing reduction"};
    driver_run(world, DRIVER_ONE, &job, 1);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(statuses[i], wanted, "endpoint %u: %d", i, (int)statuses[i]);
    }
    world_destroy(world);
    ucc_dt_destroy(dt);
}

/* A user's reduction runs in one place for all: when it fails, it fails everywhere. */
Test(errors_cancel, a_failing_user_reduction_fails_at_all_endpoints) {
    a_reduction_fails_with(UCC_ERR_NO_RESOURCE, UCC_ERR_NO_RESOURCE);
}

Test(errors_cancel, a_user_reduction_that_says_in_progress_has_failed) {
    a_reduction_fails_with(UCC_INPROGRESS, UCC_ERR_NO_MESSAGE);
}
