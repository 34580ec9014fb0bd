/* test_near.c: collectives whose buffers lie in heaps, among endpoints that reach each other's
 * memory at other addresses (DEBUG_MAPPINGS), as processes of a node do.
 */
#include "shm/leaning.h"
#include "shm/near.h"
#include "shm/reach.h"
#include "team/team.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <heddle/heddle.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(near, .timeout = 120);

enum { N = 4, LARGE = 100000, MIDDLE = 8000, ROUNDS = 200 };

typedef struct run {
    uint64_t count;
    uint32_t rounds;
    bool plain[N]; /* whose buffers are in no heap */
    bool wrong[N];
} run_t;

static uint64_t value(uint32_t from, uint64_t at) {
    return from * 1000003u + at;
}

static void *memory_of(const run_t *run, heddle_ep_t *ep, uint64_t n) {
    void *memory = run->plain[heddle_ep_index(ep)]
                       ? malloc(n * sizeof(uint64_t))
                       : heddle_alloc(n * sizeof(uint64_t), HEDDLE_ALLOC_NEAR);
    cr_assert(memory);
    return memory;
}

static void gather_all(heddle_ep_t *ep, void *arg) {
    run_t *run = arg;
    uint32_t me = heddle_ep_index(ep), n = heddle_ep_size(ep);
    uint64_t *src = memory_of(run, ep, run->count), *dst = memory_of(run, ep, run->count * n);
    for (uint32_t round = 0; round < run->rounds; round++) {
        for (uint64_t i = 0; i < run->count; i++) {
            src[i] = value(me + round, i);
        }
        run->wrong[me] =
            run->wrong[me] || heddle_allgather(ep, src, dst, run->count, UCC_DT_UINT64) != UCC_OK;
        for (uint64_t i = 0; i < run->count * n; i++) {
            run->wrong[me] = run->wrong[me] ||
                             dst[i] != value((uint32_t)(i / run->count) + round, i % run->count);
        }
    }
    heddle_barrier(ep);
    heddle_free(src);
    heddle_free(dst);
}

/* How often one of them found that all buffers are in reach. */
static uint64_t found(const char *how, run_t run) {
    uint64_t before = atomic_load(&hd_near_found);
    setenv("HEDDLE_DEBUG_MAPPINGS", how, 1);
    cr_assert_eq(heddle_run(N, gather_all, &run), UCC_OK);
    for (uint32_t i = 0; i < N; i++) {
        cr_expect_not(run.wrong[i], "%s: endpoint %u", how, i);
    }
    return atomic_load(&hd_near_found) - before;
}

Test(near, what_lies_in_heaps_is_near_from_the_second_time_on) {
    cr_expect_eq(found("far", (run_t){.count = LARGE, .rounds = 3}), 2 * N);
    cr_expect_eq(found("pairs", (run_t){.count = LARGE, .rounds = 3}), 2 * N);
}

Test(near, one_buffer_elsewhere_keeps_all_far) {
    run_t run = {.count = LARGE, .rounds = 3, .plain = {[2] = true}};
    cr_expect_eq(found("far", run), 0);
    cr_expect_eq(found("pairs", run), 0);
}

Test(near, data_of_a_middle_size_follow_those_before_them) {
    uint64_t near = found("far", (run_t){.count = MIDDLE, .rounds = ROUNDS});
    cr_expect_gt(near, ROUNDS / 3 * N); /* once it was tried */
    run_t plain = {.count = MIDDLE, .rounds = ROUNDS, .plain = {[1] = true}};
    cr_expect_eq(found("far", plain), 0);
}

/* --- what is told of it ----------------------------------------------------------------------- */

/* Does the timeline of such a run have an exchange that has this plan? */
static bool tells(run_t run, const char *plan) {
    static char text[1 << 20];
    char path[] = "/tmp/test_near_XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    setenv("HEDDLE_TRACE", path, 1);
    (void)found("far", run);
    unsetenv("HEDDLE_TRACE");
    fd = open(path, O_RDONLY); /* it is another file now */
    cr_assert_geq(fd, 0);
    ssize_t length = read(fd, text, sizeof(text) - 1);
    cr_assert_gt(length, 0);
    text[length] = '\0';
    close(fd);
    unlink(path);
    return strstr(text, plan) != NULL;
}

Test(near, a_timeline_tells_what_was_near_and_what_was_far) {
    run_t heaps = {.count = LARGE, .rounds = 3}, plain = {.count = LARGE, .rounds = 3};
    plain.plain[1] = true;
    cr_expect(tells(heaps, "\"plan\":\"near in windows of "));
    cr_expect(tells(heaps, "\"plan\":\"far in windows of "), "the heaps' first exchange");
    cr_expect(tells(plain, "\"plan\":\"far in windows of "));
    cr_expect_not(tells(plain, "\"plan\":\"near"));
}

static void look_at_heaps(heddle_ep_t *ep, void *arg) {
    hd_group_t *group = heddle_ep_team(ep)->group;
    hd_text_t before = {0}, mapped = {0}, missed = {0};
    bool looks = heddle_ep_index(ep) == 0;
    heddle_barrier(ep);
    uint32_t other = group->home_of[1];
    if (looks) {
        hd_reach_say(group->reach, other, &before);
    }
    heddle_barrier(ep);
    gather_all(ep, arg);
    if (looks) {
        hd_reach_say(group->reach, other, &mapped);
        for (uint32_t slot = 1; slot < HD_REACH_SLOTS; slot++) {
            hd_reach_miss(group->reach, slot, "has died");
        }
        hd_reach_say(group->reach, other, &missed);
        cr_expect_str_eq(before.line, "near where all buffers lie in heaps (none of it so far)");
        cr_expect_str_eq(mapped.line, "near where all buffers lie in heaps (1 of its 1 mapped)");
        cr_expect_str_eq(missed.line, "not near: a heap of it can't be mapped: it has died");
    }
}

Test(near, it_is_told_whether_heaps_are_mapped_and_why_not) {
    run_t run = {.count = LARGE, .rounds = 3};
    setenv("HEDDLE_DEBUG_MAPPINGS", "far", 1);
    cr_assert_eq(heddle_run(N, look_at_heaps, &run), UCC_OK);
}

/* --- leaning ---------------------------------------------------------------------------------- */

typedef struct leaner {
    hd_member_t member;
    hd_board_t board;
    hd_op_t op;
} leaner_t;

static hd_op_t *at(leaner_t *l, uint64_t k) {
    l->board.depth = 8;
    l->board.mask = 7;
    l->op.place = (hd_place_t){.board = &l->board, .member = &l->member, .k = k};
    l->op.numbered = true;
    cr_assert(hd_leaning_prepare(&l->op));
    return &l->op;
}

/* Of two members, one sees an exchange end before it publishes the next ones, the other after that.
 * Both lean alike, at any number. */
Test(near, all_lean_alike_whatever_they_have_seen_beyond) {
    enum { ALL = 5000, WINDOW = 4 };
    static bool goes[ALL], near[ALL];
    leaner_t *eager = calloc(1, sizeof(*eager)), *late = calloc(1, sizeof(*late));
    uint32_t differing = 0, leaning = 0;
    srand(5);
    for (uint64_t k = 1; k < ALL; k++) {
        goes[k] = rand() % (k / 1000 % 2 ? 2 : 20) == 0;
        near[k] = rand() % 2;
        if (k > WINDOW && goes[k - WINDOW]) { /* over, before k can be published */
            hd_leaning_note(at(late, k - WINDOW), near[k - WINDOW]);
        }
        bool a = hd_leaning_is_near(at(eager, k)), b = hd_leaning_is_near(at(late, k));
        differing += a != b;
        leaning += a;
        if (goes[k]) {
            hd_leaning_note(at(eager, k), near[k]);
        }
    }
    cr_expect_eq(differing, 0);
    cr_expect(leaning > ALL / 4 && leaning < ALL * 3 / 4);
}

Test(near, where_exchanges_have_no_numbers_nobody_leans) {
    leaner_t *l = calloc(1, sizeof(*l));
    for (uint64_t k = 1; k < 1000; k++) {
        hd_op_t *op = at(l, k);
        op->numbered = false;
        hd_leaning_note(op, true);
        cr_assert_not(hd_leaning_is_near(op));
    }
}

/* --- cancelling ------------------------------------------------------------------------------- */

enum { LIVES, IS_LOST, RETURNS };

typedef struct stuck {
    _Atomic bool is_posted, is_inside, may_return;
    _Atomic uint64_t polls;
    ucc_status_t while_inside, in_the_end;
} stuck_t;

static _Thread_local bool gets_stuck;
static stuck_t *stuck;

static ucc_status_t add(const ucc_reduce_cb_params_t *p) {
    (void)p;
    atomic_store(&stuck->is_inside, gets_stuck);
    while (gets_stuck && !atomic_load(&stuck->may_return)) {
    }
    return UCC_OK;
}

static ucc_coll_req_h post(heddle_ep_t *ep, void *x, size_t bytes, ucc_datatype_t *dt) {
    ucc_generic_dt_ops_t ops = {.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
                                .flags =
                                    UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
                                .contig_size = bytes,
                                .reduce = {.cb = add}};
    ucc_coll_req_h request;
    cr_assert_eq(ucc_dt_create_generic(&ops, NULL, dt), UCC_OK);
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = UCC_COLL_ARGS_FLAG_IN_PLACE,
                            .coll_type = UCC_COLL_TYPE_ALLREDUCE,
                            .dst.info = {x, 1, *dt, UCC_MEMORY_TYPE_HOST}};
    cr_assert_eq(ucc_collective_init(&args, &request, heddle_ep_team(ep)), UCC_OK);
    cr_assert_eq(ucc_collective_post(request), UCC_OK);
    return request;
}

static ucc_status_t poll(ucc_coll_req_h request, uint32_t times) {
    ucc_status_t status = UCC_INPROGRESS;
    for (uint32_t i = 0; i < times && status == UCC_INPROGRESS; i++) {
        status = heddle_wait(request, 0.0001);
    }
    return status;
}

/* Endpoint 1 is inside the user's reduction, on buffers of both, when endpoint 0 aborts. */
static void cancel(heddle_ep_t *ep, void *arg) {
    bool is_lost = *(int *)arg == IS_LOST;
    enum { BYTES_OF_IT = 100000 };
    uint64_t *x = heddle_alloc(BYTES_OF_IT, HEDDLE_ALLOC_NEAR | HEDDLE_ALLOC_TOUCH), *y = x;
    ucc_datatype_t dt;
    hd_reach_t *reach = heddle_ep_team(ep)->group->reach;
    (void)heddle_allreduce(ep, HEDDLE_IN_PLACE, y, BYTES_OF_IT / 8, UCC_DT_UINT64, UCC_OP_MAX);
    (void)heddle_barrier(ep);
    gets_stuck = heddle_ep_index(ep) == 1;
    ucc_coll_req_h request;
    if (gets_stuck) {
        while (!atomic_load(&stuck->is_posted)) { /* else the other one might do it, in its post */
        }
        request = post(ep, x, BYTES_OF_IT, &dt);
        while (heddle_wait(request, 1) == UCC_INPROGRESS) {
        }
    } else {
        request = post(ep, x, BYTES_OF_IT, &dt);
        atomic_store(&stuck->is_posted, true);
        while (!atomic_load(&stuck->is_inside)) { /* without a step of its own */
        }
        heddle_team_abort(heddle_ep_team(ep));
        stuck->while_inside = poll(request, 300);
        if (is_lost) {
            hd_reach_lose(reach, heddle_ep_team(ep)->group->home_of[1]);
            stuck->while_inside = poll(request, 300);
        }
        atomic_store(&stuck->may_return, true);
        stuck->in_the_end = poll(request, 100000);
    }
    ucc_collective_finalize(request);
    ucc_dt_destroy(dt);
}

static void expect_while_inside(int what, ucc_status_t expected) {
    uint64_t before = atomic_load(&hd_near_found);
    setenv("HEDDLE_DEBUG_MAPPINGS", "far", 1);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    stuck = calloc(1, sizeof(*stuck));
    (void)heddle_run(2, cancel, &what);
    cr_expect_eq(stuck->while_inside, expected);
    cr_expect_eq(stuck->in_the_end, HEDDLE_ERR_ABORTED);
    cr_expect_gt(atomic_load(&hd_near_found), before);
}

Test(near, who_cancels_waits_for_a_member_that_is_inside) {
    expect_while_inside(LIVES, UCC_INPROGRESS);
}

Test(near, who_cancels_does_not_wait_for_the_dead) {
    expect_while_inside(IS_LOST, HEDDLE_ERR_ABORTED);
}

/* --- errors ----------------------------------------------------------------------------------- */

enum { MANY = 12, BLOCK = 20000 }; /* MANY are not flat: slices are counted */

/* Some processes lack the memory to work on the others' buffers, when all see that they could. */
static void lack_memory(heddle_ep_t *ep, void *arg) {
    uint32_t me = heddle_ep_index(ep), depth = heddle_ep_team(ep)->group->depth;
    uint64_t counts[MANY], places[MANY];
    uint64_t *x = heddle_alloc(MANY * BLOCK * sizeof(*x), HEDDLE_ALLOC_NEAR | HEDDLE_ALLOC_TOUCH);
    ucc_status_t *status = arg;
    for (uint32_t i = 0; i < MANY; i++) {
        counts[i] = BLOCK;
        places[i] = (uint64_t)i * BLOCK;
    }
    for (uint32_t i = 0; i < 2 * depth; i++) { /* all that is the same of other types is there */
        cr_assert_eq(heddle_allgather(ep, HEDDLE_IN_PLACE, x, BLOCK, UCC_DT_UINT64), UCC_OK);
    }
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = UCC_COLL_ARGS_FLAG_IN_PLACE | UCC_COLL_ARGS_FLAG_COUNT_64BIT |
                                     UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT,
                            .coll_type = UCC_COLL_TYPE_ALLGATHERV,
                            .dst.info_v = {x, counts, places, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST}};
    ucc_coll_req_h request;
    cr_assert_eq(ucc_collective_init(&args, &request, heddle_ep_team(ep)), UCC_OK);
    (void)heddle_barrier(ep);
    if (me == 0) {
        hd_alloc_fail_after(MANY / 2);
    }
    (void)heddle_barrier(ep);
    (void)ucc_collective_post(request);
    while ((status[me] = heddle_wait(request, 1)) == UCC_INPROGRESS) {
    }
    ucc_collective_finalize(request);
}

Test(near, who_lacks_memory_to_be_near_fails_the_exchange_and_counts_nothing) {
    setenv("HEDDLE_DEBUG_MAPPINGS", "far", 1);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    for (uint32_t run = 0; run < 20; run++) {
        ucc_status_t status[MANY];
        uint32_t failed = 0;
        (void)heddle_run(MANY, lack_memory, status);
        hd_alloc_fail_after(-1);
        for (uint32_t i = 0; i < MANY; i++) {
            failed += status[i] == UCC_ERR_NO_MEMORY;
            /* those who have it may do all of the work before they hear of it */
            cr_assert(status[i] == UCC_OK || status[i] == UCC_ERR_NO_MEMORY);
        }
        cr_assert_gt(failed, 0);
    }
}
