/* Generations are the low half of a number: they come back after 2^32 numbers of a board, with
 * whatever a slot's last use left there. Here boards are moved on by so much at once. */
#include "team/team.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_N = 70, SWEEPS = 20000 };

static const uint64_t ROUND = (uint64_t)1 << 32;

static heddle_group_t *group;
static heddle_ep_t *ep[MAX_N];
static uint32_t n;

static void open_group(uint32_t endpoints) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    setenv("HEDDLE_ARRIVAL", "counter", 0);
    n = endpoints;
    heddle_group_params_t params = {.endpoints = n};
    cr_assert_eq(heddle_group_create(&params, &group), UCC_OK);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(heddle_join(group, i, &ep[i]), UCC_OK);
    }
}

static void close_group(void) {
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(heddle_leave(ep[i]), UCC_OK);
    }
    cr_assert_eq(heddle_group_destroy(group), UCC_OK);
}

/* The next number is last + 1; nothing is outstanding. */
static void move_on_to(uint64_t last) {
    hd_board_t *board = heddle_ep_team(ep[0])->group->board;
    for (uint32_t i = 0; i < n; i++) {
        hd_member_t *m = board->member[i];
        m->taken = m->floor = m->floor_target = last;
        atomic_store(&m->shared->consumed, last);
    }
    atomic_store(&board->head->floor, last);
}

static ucc_coll_buffer_info_t bytes_at(void *buffer, uint64_t count) {
    return (ucc_coll_buffer_info_t){buffer, count, UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST};
}

/* Runs the calls of all endpoints to their ends; false if that takes too long. */
static bool run(ucc_coll_args_t args[], ucc_status_t status[]) {
    ucc_coll_req_h request[MAX_N];
    uint32_t sweeps = 0, left = n;
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(ucc_collective_init(&args[i], &request[i], heddle_ep_team(ep[i])), UCC_OK);
        (void)ucc_collective_post(request[i]);
    }
    while (left && sweeps++ < SWEEPS) {
        left = 0;
        for (uint32_t i = 0; i < n; i++) {
            ucc_context_progress(heddle_ep_context(ep[i]));
            left += ucc_collective_test(request[i]) == UCC_INPROGRESS;
        }
    }
    for (uint32_t i = 0; i < n && !left; i++) {
        status[i] = ucc_collective_test(request[i]);
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
    }
    return left == 0;
}

static void check_all_ok(ucc_coll_args_t args[], const char *what) {
    ucc_status_t status[MAX_N];
    cr_assert(run(args, status), "%s does not end", what);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(status[i], UCC_OK, "%s at endpoint %u: %d", what, i, status[i]);
    }
}

static void run_bcast(size_t bytes) {
    ucc_coll_args_t args[MAX_N];
    uint8_t *buffer = calloc(n, bytes);
    memset(buffer, 5, bytes);
    for (uint32_t i = 0; i < n; i++) {
        args[i] = (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_BCAST};
        args[i].src.info = bytes_at(buffer + i * bytes, bytes);
    }
    check_all_ok(args, "bcast");
    for (uint32_t i = 0; i < n; i++) {
        cr_assert(buffer[i * bytes] == 5 && buffer[(i + 1) * bytes - 1] == 5);
    }
    free(buffer);
}

static void run_allgather(size_t block) {
    ucc_coll_args_t args[MAX_N];
    size_t all = block * n;
    uint8_t *src = calloc(n, block), *dst = calloc(n, all);
    for (uint32_t i = 0; i < n; i++) {
        memset(src + i * block, (int)i + 1, block);
        args[i] = (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_ALLGATHER};
        args[i].src.info = bytes_at(src + i * block, block);
        args[i].dst.info = bytes_at(dst + i * all, all);
    }
    check_all_ok(args, "allgather");
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < n; j++) {
            cr_assert_eq(dst[i * all + j * block], j + 1, "block %u at %u", j, i);
            cr_assert_eq(dst[i * all + (j + 1) * block - 1], j + 1, "block %u at %u", j, i);
        }
    }
    free(src);
    free(dst);
}

static void run_allreduce(uint64_t count) {
    ucc_coll_args_t args[MAX_N];
    uint64_t *x = calloc(n * count, sizeof(*x));
    for (uint32_t i = 0; i < n; i++) {
        for (uint64_t j = 0; j < count; j++) {
            x[i * count + j] = i + j;
        }
        args[i] = (ucc_coll_args_t){.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                                    .flags = UCC_COLL_ARGS_FLAG_IN_PLACE,
                                    .coll_type = UCC_COLL_TYPE_ALLREDUCE,
                                    .op = UCC_OP_SUM};
        args[i].dst.info =
            (ucc_coll_buffer_info_t){x + i * count, count, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
    }
    check_all_ok(args, "allreduce");
    for (uint64_t j = 0; j < n * count; j++) {
        cr_assert_eq(x[j], (uint64_t)n * (n - 1) / 2 + n * (j % count));
    }
    free(x);
}

/* The root's own block is large; the others' are so small that they come with their lanes, but
 * one's. */
static void run_gatherv(void) {
    enum { LARGE = 200000, SMALL = 8 };
    ucc_coll_args_t args[MAX_N];
    uint32_t counts[MAX_N];
    uint8_t *src = malloc(LARGE), *dst = malloc(2 * LARGE + (size_t)n * SMALL);
    for (uint32_t i = 0; i < n; i++) {
        counts[i] = i == 0 || i == n - 1 ? LARGE : SMALL;
    }
    memset(src, 9, LARGE);
    for (uint32_t i = 0; i < n; i++) {
        args[i] = (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_GATHERV};
        args[i].src.info = bytes_at(src, counts[i]);
        args[i].dst.info_v = (ucc_coll_buffer_info_v_t){dst, (ucc_count_t *)(void *)counts, NULL,
                                                        UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST};
    }
    check_all_ok(args, "gatherv");
    free(src);
    free(dst);
}

/* Endpoint 0 expects of endpoint 1 less than it sends: found by whoever copies that block. */
static void check_sizes_that_differ(void) {
    enum { BLOCK = 50000 };
    ucc_coll_args_t args[MAX_N];
    ucc_status_t status[MAX_N];
    uint32_t counts[MAX_N], less[MAX_N];
    uint8_t *src = calloc(n, BLOCK), *dst = malloc((size_t)n * n * BLOCK);
    for (uint32_t i = 0; i < n; i++) {
        counts[i] = BLOCK;
        less[i] = i == 1 ? BLOCK / 2 : BLOCK;
    }
    for (uint32_t i = 0; i < n; i++) {
        ucc_count_t *expected = (ucc_count_t *)(void *)(i == 0 ? less : counts);
        args[i] = (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_ALLTOALLV};
        args[i].src.info_v = (ucc_coll_buffer_info_v_t){src, (ucc_count_t *)(void *)counts, NULL,
                                                        UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST};
        args[i].dst.info_v = (ucc_coll_buffer_info_v_t){dst + (size_t)i * n * BLOCK, expected, NULL,
                                                        UCC_DT_UINT8, UCC_MEMORY_TYPE_HOST};
    }
    cr_assert(run(args, status));
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(status[i], UCC_ERR_INVALID_PARAM, "endpoint %u: %d", i, status[i]);
    }
    free(src);
    free(dst);
}

TestSuite(generations, .timeout = 300);

static void check_all_regimes(uint32_t endpoints) {
    open_group(endpoints);
    move_on_to(ROUND - 5);
    for (uint32_t i = 0; i < 3; i++) {
        run_bcast(40 + i);
        run_bcast(600);
        run_allgather(3000);
        run_bcast(100000);
        run_allreduce(2);
        run_allreduce(40);
        run_allreduce(20000);
        run_allgather(60000);
        run_gatherv();
    }
    check_sizes_that_differ();
    close_group();
}

Test(generations, all_regimes_work_across_the_wrap_among_few) {
    check_all_regimes(3);
}

Test(generations, all_regimes_work_across_the_wrap_among_many) {
    check_all_regimes(12);
}

Test(generations, a_failure_in_the_number_of_generation_0_is_reported) {
    open_group(3);
    move_on_to(ROUND - 1);
    check_sizes_that_differ();
    close_group();
}

Test(generations, slices_that_an_earlier_use_finished_are_not_counted) {
    open_group(MAX_N);
    run_bcast(300000); /* 64 slices */
    move_on_to(ROUND);
    run_allgather(20000); /* one each */
    close_group();
}

Test(generations, slices_of_those_who_are_over_are_stolen_whatever_the_last_use_left) {
    open_group(12);
    run_gatherv();
    move_on_to(ROUND);
    run_gatherv();
    close_group();
}

Test(generations, a_slice_that_is_not_registered_yet_is_closed_with_nothing_claimed) {
    ucc_coll_req_h request;
    open_group(2);
    run_allgather(60000);
    move_on_to(ROUND);
    uint8_t *buffer = malloc(180000);
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = UCC_COLL_ARGS_FLAG_TIMEOUT,
                            .timeout = 1e-3,
                            .coll_type = UCC_COLL_TYPE_ALLGATHER};
    args.src.info = bytes_at(buffer, 60000);
    args.dst.info = bytes_at(buffer + 60000, 120000);
    cr_assert_eq(ucc_collective_init(&args, &request, heddle_ep_team(ep[0])), UCC_OK);
    cr_assert_eq(ucc_collective_post(request), UCC_OK);
    cr_assert_eq(heddle_wait(request, 60), UCC_ERR_TIMED_OUT);
    cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
    hd_board_t *board = heddle_ep_team(ep[0])->group->board;
    hd_work_t *work = atomic_load(&board->slot[1].work);
    /* what the owner takes for closed when it comes */
    cr_assert_eq(atomic_load(&work->slice[1].claim), (ROUND + 1) << 32 | 1u << 31);
    free(buffer);
    close_group();
}
