/* test_mismatch.c: what the log says when endpoints' calls disagree: the collective, the endpoint
 * that differs from the others, the field, and both values. Status and reach are test_errors.c's
 * business.
 */
#include "../support/cases.h"
#include "../support/deadline.h"
#include "../support/driver.h"
#include "../support/small.h"
#include "core/log.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { N = 4, LARGE = 20000 };

static char lines[4096];
static int n_lines;
static world_t *world;
static int32_t src[N][LARGE], dst[N][N * LARGE];

/* All but what is said at later posts. */
static void capture(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    if (level <= HD_LOG_ERROR && !strstr(line, "the team has failed") &&
        strlen(lines) + strlen(line) + 2 < sizeof(lines)) {
        strcat(strcat(lines, line), "\n");
        n_lines++;
    }
}

static void open_world(void) {
    world = small_world(N);
    lines[0] = '\0';
    n_lines = 0;
    hd_log_capture(capture, NULL);
}

static void close_world(void) {
    hd_log_capture(NULL, NULL);
    world_destroy(world);
}

TestSuite(mismatch, .init = open_world, .fini = close_world, .timeout = 120);

/* Runs the calls of those with a coll_type, on what the collective is in a team that has run one
 * before. */
static void run(ucc_coll_args_t args[N]) {
    ucc_coll_req_h request[N] = {NULL};
    for (uint32_t i = 0; i < N; i++) {
        if (args[i].coll_type) {
            cr_assert_eq(ucc_collective_init(&args[i], &request[i], world->teams[i]), UCC_OK);
            (void)ucc_collective_post(request[i]); /* of the last it may fail at once */
        }
    }
    small_wait(world, request, N);
    for (uint32_t i = 0; i < N; i++) {
        if (request[i]) {
            cr_assert_eq(ucc_collective_test(request[i]), UCC_ERR_INVALID_PARAM, "at %u", i);
            cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
        }
    }
}

static void said(const char *line) {
    cr_assert(strstr(lines, line), "'%s' lacks '%s'", lines, line);
    cr_assert_eq(n_lines, 1, "%d lines: %s", n_lines, lines);
    cr_assert_not(strstr(lines, "hd_") || strstr(lines, "say"), "an internal name: %s", lines);
}

static void allreduces(ucc_coll_args_t args[N], uint64_t count) {
    for (uint32_t i = 0; i < N; i++) {
        args[i] = small_allreduce(src[i], dst[i], count);
    }
}

Test(mismatch, of_the_count_names_endpoint_field_and_both_values) {
    ucc_coll_args_t args[N];
    cr_assert(small_team_works(world)); /* two collectives: the next is number 3 */
    allreduces(args, 4);
    args[2] = small_allreduce(src[2], dst[2], 8);
    run(args);
    said("allreduce 3: endpoint 2 has count 8, endpoint ");
    said(" has count 4\n");
}

Test(mismatch, names_the_odd_one_also_if_that_one_finds_it) {
    ucc_coll_args_t args[N];
    allreduces(args, LARGE);
    args[3] = small_allreduce(src[3], dst[3], 8);
    run(args);
    said("allreduce 1: endpoint 3 has count 8, endpoint ");
    said(" has count 20000\n");
}

Test(mismatch, of_datatype_and_operation_names_both) {
    ucc_coll_args_t args[N];
    allreduces(args, 4);
    args[1].op = UCC_OP_MAX;
    args[1].src.info.datatype = args[1].dst.info.datatype = UCC_DT_FLOAT32;
    run(args);
    said("endpoint 1 has datatype float32 and operation max, endpoint ");
    said(" has datatype int32 and operation sum\n");
}

Test(mismatch, of_the_root_names_both) {
    ucc_coll_args_t args[N];
    for (uint32_t i = 0; i < N; i++) {
        args[i] = small_bcast(src[i], LARGE, i == 1 ? 3 : 0);
    }
    run(args);
    said("bcast 1: endpoint 1 has root 3, endpoint ");
    said(" has root 0\n");
}

Test(mismatch, of_bytes_says_bytes_where_datatypes_differ) {
    ucc_coll_args_t args[N];
    for (uint32_t i = 0; i < N; i++) {
        args[i] = small_allgather(src[i], dst[i], LARGE, N);
    }
    args[2].src.info.datatype = args[2].dst.info.datatype = UCC_DT_INT8;
    run(args);
    said("allgather 1: endpoint 2 has 20000 bytes per endpoint, endpoint ");
    said(" has 80000 bytes per endpoint\n");
}

Test(mismatch, of_the_collective_names_both) {
    ucc_coll_args_t args[N];
    allreduces(args, 4);
    args[0] = small_barrier();
    run(args);
    said("collective 1: endpoint 0 calls barrier, endpoint ");
    said(" calls allreduce\n");
}

Test(mismatch, with_a_tag_is_named_by_the_tag) {
    ucc_coll_args_t args[N];
    allreduces(args, 4);
    args[2] = small_allreduce(src[2], dst[2], 8);
    for (uint32_t i = 0; i < N; i++) {
        args[i].mask |= UCC_COLL_ARGS_FIELD_TAG;
        args[i].tag = 77;
    }
    run(args);
    said("allreduce with tag 77: endpoint 2 has count 8");
}

Test(mismatch, in_an_active_set_names_endpoints_of_the_team) {
    ucc_coll_args_t args[N] = {{0}};
    for (uint32_t i = 1; i < N; i += 2) {
        args[i] = small_bcast(src[i], i == 3 ? 8 : LARGE, 1);
        args[i].mask |= UCC_COLL_ARGS_FIELD_ACTIVE_SET;
        args[i].active_set.start = 1;
        args[i].active_set.stride = 2;
        args[i].active_set.size = 2;
    }
    run(args);
    said("bcast of active set {start 1, stride 2, size 2}: endpoint 3 has count 8, endpoint 1 has "
         "count 20000\n");
}

Test(mismatch, in_a_tree_names_the_odd_one) {
    enum { MANY = 20, ODD = 13 };
    world_t *many = small_world(MANY);
    ucc_coll_req_h request[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        ucc_coll_args_t args = small_allreduce(src[0], dst[0], i == ODD ? 2 : 1);
        cr_assert_eq(ucc_collective_init(&args, &request[i], many->teams[i]), UCC_OK);
        (void)ucc_collective_post(request[i]);
    }
    small_wait(many, request, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        cr_assert_eq(ucc_collective_test(request[i]), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
    }
    said("allreduce 1: endpoint 13 has count 2, endpoint ");
    world_destroy(many);
}

Test(mismatch, of_a_call_that_nobody_remembers_still_names_endpoints) {
    ucc_coll_args_t args[N], other;
    ucc_coll_req_h request[N], scratch;
    allreduces(args, 4);
    args[2] = small_allreduce(src[2], dst[2], 8);
    for (uint32_t i = 0; i < N; i++) {
        request[i] = small_init(world, i, &args[i]);
    }
    for (uint32_t i = 0; i < 100000; i++) { /* pushes everything else out */
        other = small_bcast(src[0], 1 + i % LARGE, i % N);
        other.src.info.datatype = i % 2 ? UCC_DT_INT8 : UCC_DT_INT32;
        scratch = small_init(world, 0, &other);
        cr_assert_eq(ucc_collective_finalize(scratch), UCC_OK);
    }
    for (uint32_t i = 0; i < N; i++) {
        (void)ucc_collective_post(request[i]);
    }
    small_wait(world, request, N);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(ucc_collective_test(request[i]), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
    }
    said("allreduce 1: root, count, datatype or operation differ between endpoints 2 and ");
}

static ucc_coll_args_t reduce_scatter_in_place(uint32_t i, uint64_t count) {
    ucc_coll_args_t args = small_args(UCC_COLL_TYPE_REDUCE_SCATTER);
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
    args.op = UCC_OP_SUM;
    args.dst.info = small_info(dst[i], count);
    return args;
}

/* It runs as a reduce_scatterv, which is nobody's business. */
Test(mismatch, an_uneven_reduce_scatter_is_called_so) {
    ucc_coll_args_t args[N];
    for (uint32_t i = 0; i < N; i++) {
        args[i] = reduce_scatter_in_place(i, i == 2 ? 4 * N : 4 * N + 1);
    }
    run(args);
    cr_assert_null(strstr(lines, "reduce_scatterv"), "%s", lines);
    cr_assert(strstr(lines, "endpoint 2 has count 4 per endpoint"), "%s", lines);
    cr_assert(strstr(lines, "has count 17 in all"), "%s", lines);
}

/* --- found by two threads at once ------------------------------------------------------------- */

enum { ROUNDS = 200 };

static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;

static void capture_by_threads(hd_log_level_t level, const char *line, void *arg) {
    pthread_mutex_lock(&lines_lock);
    capture(level, line, arg);
    pthread_mutex_unlock(&lines_lock);
}

static uint32_t round_now;
static heddle_group_t *pair_group;

/* Both threads prepare both calls, which nobody has prepared before; each posts one of them. */
static void differ(void *arg, uint32_t i) {
    ucc_coll_req_h request[2];
    heddle_ep_t *ep;
    (void)arg;
    must(heddle_join(pair_group, i, &ep), "heddle_join");
    for (uint32_t k = 0; k < 2; k++) {
        ucc_coll_args_t args = small_allreduce(src[i], dst[i], 1 + 2 * round_now + k);
        must(ucc_collective_init(&args, &request[k], heddle_ep_team(ep)), "init");
    }
    (void)ucc_collective_post(request[i]);
    cr_assert_eq(heddle_wait(request[i], 30), UCC_ERR_INVALID_PARAM);
    for (uint32_t k = 0; k < 2; k++) {
        must(heddle_request_free(&request[k]), "free");
    }
    must(heddle_leave(ep), "heddle_leave");
}

Test(mismatch, that_two_threads_find_at_once_is_one_line_with_one_field) {
    hd_log_capture(capture_by_threads, NULL);
    for (round_now = 0; round_now < ROUNDS; round_now++) {
        heddle_group_params_t params = {.endpoints = 2};
        char expected[128];
        lines[0] = '\0';
        n_lines = 0;
        must(heddle_group_create(&params, &pair_group), "heddle_group_create");
        driver_threads(2, differ, NULL);
        must(heddle_group_destroy(pair_group), "heddle_group_destroy");
        snprintf(expected, sizeof(expected),
                 "allreduce 1: endpoint 1 has count %u, endpoint 0 has count %u\n",
                 2 * round_now + 2, 2 * round_now + 1);
        said(expected);
    }
}
