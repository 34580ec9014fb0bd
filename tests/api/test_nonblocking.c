/* test_nonblocking.c: the nonblocking calls of heddle.h, and waiting for several requests. One
 * thread drives all endpoints.
 */
#include "../support/deadline.h"
#include "core/log.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(nonblocking, .timeout = 60);

enum { N = 3 };

static heddle_group_t *group;
static heddle_ep_t *ep[N];
static ucc_coll_req_h request[N];
static int64_t src[N][64], dst[N][64];

static void open_with(heddle_group_params_t params) {
    must(heddle_group_create(&params, &group), "heddle_group_create");
    for (uint32_t i = 0; i < N; i++) {
        must(heddle_join(group, i, &ep[i]), "heddle_join");
    }
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t j = 0; j < 64; j++) {
            src[i][j] = 100 * (int64_t)i + j;
            dst[i][j] = -1;
        }
    }
}

static void open_one_context(void) {
    open_with((heddle_group_params_t){.endpoints = N, .contexts = 1});
}

static void open_own_contexts(void) {
    open_with((heddle_group_params_t){.endpoints = N});
}

static void close_group(void) {
    for (uint32_t i = 0; i < N; i++) {
        must(heddle_leave(ep[i]), "heddle_leave");
    }
    must(heddle_group_destroy(group), "heddle_group_destroy");
    hd_log_capture(NULL, NULL);
}

/* All were started; they end well, and are given back. */
static void finish(void) {
    cr_assert_eq(heddle_wait_all(request, N, 30), UCC_OK);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(heddle_request_free(&request[i]), UCC_OK);
        cr_assert_null(request[i]);
    }
}

#define EACH(_i, _start)                                                                           \
    for (uint32_t _i = 0; _i < N; _i++) {                                                          \
        cr_assert_eq(_start, UCC_OK);                                                              \
    }                                                                                              \
    finish()

#define EXPECT(_i, _j, _value)                                                                     \
    cr_assert_eq(dst[_i][_j], (int64_t)(_value), "endpoint %u element %u: %lld", _i, _j,           \
                 (long long)dst[_i][_j])

Test(nonblocking, synchronization, .init = open_one_context, .fini = close_group) {
    EACH(i, heddle_ibarrier(ep[i], &request[i]));
    EACH(i, heddle_ifanin(ep[i], 1, &request[i]));
    EACH(i, heddle_ifanout(ep[i], 1, &request[i]));
}

Test(nonblocking, one_to_all, .init = open_one_context, .fini = close_group) {
    EACH(i, heddle_ibcast(ep[i], i == 1 ? src[i] : dst[i], 64, UCC_DT_INT64, 1, &request[i]));
    EXPECT(0u, 63u, 163);
    EXPECT(2u, 0u, 100);
    EACH(i, heddle_imcast(ep[i], i == 2 ? src[i] : dst[i], 9, UCC_DT_INT64, 2, &request[i]));
    EXPECT(0u, 8u, 208);
}

Test(nonblocking, reductions, .init = open_one_context, .fini = close_group) {
    EACH(i, heddle_ireduce(ep[i], src[i], dst[i], 64, UCC_DT_INT64, UCC_OP_SUM, 2, &request[i]));
    EXPECT(2u, 5u, 315);
    EACH(i, heddle_iallreduce(ep[i], src[i], dst[i], 64, UCC_DT_INT64, UCC_OP_MAX, &request[i]));
    EXPECT(0u, 5u, 205);
    EACH(i,
         heddle_ireduce_scatter(ep[i], src[i], dst[i], 2, UCC_DT_INT64, UCC_OP_SUM, &request[i]));
    EXPECT(1u, 1u, 300 + 3 * 3);
    uint64_t counts[N] = {1, 2, 3};
    EACH(i, heddle_ireduce_scatterv(ep[i], src[i], dst[i], counts, UCC_DT_INT64, UCC_OP_SUM,
                                    &request[i]));
    EXPECT(2u, 2u, 300 + 3 * 5);
}

Test(nonblocking, prefixes, .init = open_one_context, .fini = close_group) {
    EACH(i, heddle_iscan(ep[i], src[i], dst[i], 64, UCC_DT_INT64, UCC_OP_SUM, &request[i]));
    EXPECT(0u, 7u, 7);
    EXPECT(1u, 7u, 114);
    EXPECT(2u, 7u, 321);
    dst[0][7] = -1;
    EACH(i, heddle_iexscan(ep[i], src[i], dst[i], 64, UCC_DT_INT64, UCC_OP_SUM, &request[i]));
    EXPECT(0u, 7u, -1);
    EXPECT(1u, 7u, 7);
    EXPECT(2u, 7u, 114);
}

Test(nonblocking, gathers, .init = open_one_context, .fini = close_group) {
    uint64_t counts[N] = {1, 2, 3}, at[N] = {10, 5, 0};
    EACH(i, heddle_iallgather(ep[i], src[i], dst[i], 4, UCC_DT_INT64, &request[i]));
    EXPECT(0u, 11u, 203);
    EACH(i, heddle_igather(ep[i], src[i], dst[i], 2, UCC_DT_INT64, 1, &request[i]));
    EXPECT(1u, 3u, 101);
    EACH(i, heddle_iallgatherv(ep[i], src[i], counts[i], dst[i], counts, at, UCC_DT_INT64,
                               &request[i]));
    EXPECT(1u, 10u, 0);
    EXPECT(1u, 6u, 101);
    EACH(i, heddle_igatherv(ep[i], src[i], counts[i], dst[i], counts, NULL, UCC_DT_INT64, 0,
                            &request[i]));
    EXPECT(0u, 5u, 202);
}

Test(nonblocking, scatters, .init = open_one_context, .fini = close_group) {
    uint64_t counts[N] = {1, 2, 3}, at[N] = {10, 5, 0};
    EACH(i, heddle_iscatter(ep[i], src[i], dst[i], 3, UCC_DT_INT64, 2, &request[i]));
    EXPECT(1u, 0u, 203);
    EACH(i, heddle_iscatterv(ep[i], src[i], counts, at, dst[i], counts[i], UCC_DT_INT64, 0,
                             &request[i]));
    EXPECT(0u, 0u, 10);
    EXPECT(1u, 1u, 6);
    EACH(i, heddle_ialltoall(ep[i], src[i], dst[i], 2, UCC_DT_INT64, &request[i]));
    EXPECT(1u, 5u, 203);
    uint64_t two[N] = {2, 2, 2};
    EACH(i,
         heddle_ialltoallv(ep[i], src[i], two, at, dst[i], two, NULL, UCC_DT_INT64, &request[i]));
    EXPECT(1u, 5u, 206);
    EXPECT(2u, 1u, 1);
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* Endpoint i gives endpoint j counts[i][j] elements, each block 8 apart. */
static uint64_t counts[N][N], taken[N][N];
static const uint64_t apart[N] = {0, 8, 16};

static void set_counts(uint64_t round) {
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t j = 0; j < N; j++) {
            counts[i][j] = taken[j][i] = (round + 2 * i + j) % 8;
        }
        memset(dst[i], 0, sizeof(dst[i]));
    }
}

static void expect_blocks(uint32_t round, const char *how) {
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t e = 0; e < 8 * N; e++) {
            uint32_t from = e / 8;
            bool given = e % 8 < counts[from][i];
            int64_t value = given ? 100 * (int64_t)from + 8 * i + e % 8 : 0;
            cr_expect_eq(dst[i][e], value, "%s, round %u: element %u at endpoint %u", how, round, e,
                         i);
        }
    }
}

/* A blocking call looks at its counts once, and one that is posted later again. */
Test(nonblocking, calls_of_all_kinds_go_by_the_counts_of_their_post, .init = open_one_context,
     .fini = close_group) {
    for (uint32_t round = 0; round < 24; round++) {
        ucc_coll_args_t args[N];
        set_counts(round);
        for (uint32_t i = 0; i + 1 < N; i++) {
            must(heddle_ialltoallv(ep[i], src[i], counts[i], apart, dst[i], taken[i], apart,
                                   UCC_DT_INT64, &request[i]),
                 "heddle_ialltoallv");
        }
        must(heddle_alltoallv(ep[N - 1], src[N - 1], counts[N - 1], apart, dst[N - 1], taken[N - 1],
                              apart, UCC_DT_INT64),
             "heddle_alltoallv");
        must(heddle_wait_all(request, N - 1, 30), "heddle_wait_all");
        expect_blocks(round, "blocking");
        for (uint32_t i = 0; i < N; i++) {
            if (i + 1 < N) {
                must(heddle_request_free(&request[i]), "heddle_request_free");
            }
            args[i] = (ucc_coll_args_t){.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                                        .coll_type = UCC_COLL_TYPE_ALLTOALLV,
                                        .flags = UCC_COLL_ARGS_FLAG_COUNT_64BIT |
                                                 UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT};
            args[i].src.info_v =
                (ucc_coll_buffer_info_v_t){src[i], counts[i], (uint64_t *)(uintptr_t)apart,
                                           UCC_DT_INT64, UCC_MEMORY_TYPE_HOST};
            args[i].dst.info_v = (ucc_coll_buffer_info_v_t){
                dst[i], taken[i], (uint64_t *)(uintptr_t)apart, UCC_DT_INT64, UCC_MEMORY_TYPE_HOST};
            must(ucc_collective_init(&args[i], &request[i], heddle_ep_team(ep[i])), "init");
        }
        set_counts(round + 3);
        for (uint32_t i = 0; i < N; i++) {
            must(ucc_collective_post(request[i]), "post");
        }
        finish();
        expect_blocks(round, "posted later");
    }
}

Test(nonblocking, one_thread_waits_for_all_endpoints_on_contexts_of_their_own_beyond_the_window,
     .init = open_own_contexts, .fini = close_group) {
    enum { MANY = 20 };
    ucc_coll_req_h all[N * MANY];
    int64_t one[N], sum[N * MANY];
    for (uint32_t i = 0; i < N; i++) {
        one[i] = 1;
        for (uint32_t k = 0; k < MANY; k++) {
            cr_assert_eq(heddle_iallreduce(ep[i], &one[i], &sum[i * MANY + k], 1, UCC_DT_INT64,
                                           UCC_OP_SUM, &all[i * MANY + k]),
                         UCC_OK);
        }
    }
    cr_assert_eq(heddle_wait_all(all, N * MANY, 30), UCC_OK);
    for (uint32_t i = 0; i < N * MANY; i++) {
        cr_assert_eq(sum[i], N);
        cr_assert_eq(heddle_request_free(&all[i]), UCC_OK);
    }
}

static void open_multiple(void) {
    open_with((heddle_group_params_t){.endpoints = N, .thread_mode = UCC_THREAD_MULTIPLE});
}

Test(nonblocking, where_contexts_have_locks_a_wait_for_one_request_looks_after_the_other_contexts,
     .init = open_multiple, .fini = close_group) {
    enum { MANY = 20 };
    ucc_coll_req_h all[N * MANY];
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = 0; k < MANY; k++) {
            must(heddle_ibarrier(ep[i], &all[i * MANY + k]), "heddle_ibarrier");
        }
    }
    cr_assert_eq(heddle_wait(all[MANY - 1], 30), UCC_OK);
    cr_assert_eq(heddle_wait_all(&all[2 * MANY - 1], 1, 30), UCC_OK);
    cr_assert_eq(heddle_wait_all(all, N * MANY, 30), UCC_OK);
}

Test(nonblocking, a_wait_for_requests_of_several_groups_looks_after_the_contexts_of_each,
     .init = open_multiple, .fini = close_group) {
    enum { MANY = 20 };
    heddle_group_t *other;
    heddle_ep_t *end[2];
    ucc_coll_req_h all[N * MANY], ends[2];
    must(heddle_group_create(&(heddle_group_params_t){.endpoints = 2, .contexts = 1}, &other),
         "heddle_group_create");
    for (uint32_t i = 0; i < N * MANY; i++) {
        must(heddle_ibarrier(ep[i / MANY], &all[i]), "heddle_ibarrier");
    }
    for (uint32_t i = 0; i < 2; i++) {
        must(heddle_join(other, i, &end[i]), "heddle_join");
        must(heddle_ibarrier(end[i], &ends[i]), "heddle_ibarrier");
    }
    ucc_coll_req_h two[2] = {all[MANY - 1], ends[0]};
    cr_assert_eq(heddle_wait_all(two, 2, 60), UCC_OK);
    cr_assert_eq(heddle_wait_all(all, N * MANY, 30), UCC_OK);
    cr_assert_eq(heddle_wait_all(ends, 2, 30), UCC_OK);
    for (uint32_t i = 0; i < 2; i++) {
        must(heddle_leave(end[i]), "heddle_leave");
    }
    must(heddle_group_destroy(other), "heddle_group_destroy");
}

Test(nonblocking, a_test_of_one_request_looks_at_its_own_context_alone, .init = open_multiple,
     .fini = close_group) {
    ucc_coll_req_h later;
    for (uint32_t i = 0; i < N; i++) {
        must(heddle_ibarrier(ep[i], &request[i]), "heddle_ibarrier");
    }
    must(heddle_ibarrier(ep[0], &later), "heddle_ibarrier");
    cr_assert_eq(heddle_test(later), UCC_INPROGRESS);
    cr_assert_eq(ucc_collective_test(request[1]), UCC_INPROGRESS, "endpoint 1 was progressed");
    must(heddle_ibarrier(ep[1], &request[1]), "heddle_ibarrier");
    must(heddle_ibarrier(ep[2], &request[2]), "heddle_ibarrier");
    cr_assert_eq(heddle_wait_all(request, N, 30), UCC_OK);
    cr_assert_eq(heddle_wait_all(&later, 1, 30), UCC_OK);
}

/* PARK_SPIN_US=0: a wait looks after its kin, and sleeps, at once. */
static void open_sleepy(void) {
    setenv("HEDDLE_PARK_SPIN_US", "0", 1);
    open_multiple();
}

Test(nonblocking, a_look_at_several_requests_is_no_round_over_the_group, .init = open_sleepy,
     .fini = close_group) {
    ucc_coll_req_h later;
    size_t index;
    for (uint32_t i = 0; i < N; i++) {
        must(heddle_ibarrier(ep[i], &request[i]), "heddle_ibarrier");
    }
    must(heddle_ibarrier(ep[0], &later), "heddle_ibarrier");
    cr_assert_eq(heddle_wait_any(&later, 1, &index, 0), UCC_INPROGRESS);
    cr_assert_eq(heddle_wait_all(&later, 1, 0), UCC_INPROGRESS);
    cr_assert_eq(ucc_collective_test(request[1]), UCC_INPROGRESS, "endpoint 1 was progressed");
    cr_assert_eq(heddle_wait_any(&later, 1, &index, 1e-9), UCC_INPROGRESS);
    cr_assert_eq(ucc_collective_test(request[1]), UCC_OK, "a wait, however short, is one");
    must(heddle_ibarrier(ep[1], &request[1]), "heddle_ibarrier");
    must(heddle_ibarrier(ep[2], &request[2]), "heddle_ibarrier");
    cr_assert_eq(heddle_wait_all(request, N, 30), UCC_OK);
    cr_assert_eq(heddle_wait_all(&later, 1, 30), UCC_OK);
}

static void open_with_thread(void) {
    open_with((heddle_group_params_t){.endpoints = N, .progress_thread = 1});
}

static void count_call(void *data, ucc_status_t status) {
    __atomic_fetch_add((uint32_t *)data, status == UCC_OK, __ATOMIC_RELEASE);
}

Test(nonblocking, with_a_progress_thread_callbacks_come_while_nobody_calls,
     .init = open_with_thread, .fini = close_group) {
    enum { MANY = 20 };
    uint32_t calls = 0;
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = 0; k < MANY; k++) {
            ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_CB,
                                    .coll_type = UCC_COLL_TYPE_BARRIER,
                                    .cb = {.cb = count_call, .data = &calls}};
            ucc_coll_req_h one;
            must(ucc_collective_init_and_post(&args, &one, heddle_ep_team(ep[i])), "post");
        }
    }
    deadline_t deadline = deadline_start("callbacks from the progress thread");
    while (__atomic_load_n(&calls, __ATOMIC_ACQUIRE) < N * MANY) {
        deadline_poll(&deadline);
    }
}

Test(nonblocking, a_progress_thread_ends_with_its_group) {
    for (uint32_t i = 0; i < 20; i++) {
        open_with(
            (heddle_group_params_t){.endpoints = N, .contexts = i % (N + 1), .progress_thread = 1});
        close_group();
    }
}

Test(nonblocking, waiting_for_any_gives_each_once_its_request_is_freed, .init = open_own_contexts,
     .fini = close_group) {
    for (uint32_t i = 0; i < N; i++) {
        must(heddle_ibarrier(ep[i], &request[i]), "heddle_ibarrier");
    }
    uint32_t seen = 0;
    size_t index;
    for (uint32_t k = 0; k < N; k++) {
        cr_assert_eq(heddle_wait_any(request, N, &index, 30), UCC_OK);
        cr_assert_lt(index, N);
        cr_assert_not(seen & 1u << index);
        seen |= 1u << index;
        must(heddle_request_free(&request[index]), "heddle_request_free");
    }
    cr_assert_eq(heddle_wait_any(request, N, &index, 30), UCC_OK);
    cr_assert_eq(index, N);
    cr_assert_eq(heddle_wait_all(request, N, 30), UCC_OK);
}

Test(nonblocking, a_time_out_leaves_the_requests_going_on, .init = open_own_contexts,
     .fini = close_group) {
    size_t index = 77;
    must(heddle_ibarrier(ep[0], &request[0]), "heddle_ibarrier");
    cr_assert_eq(heddle_test(request[0]), UCC_INPROGRESS);
    cr_assert_eq(heddle_wait_all(request, 1, 0.001), UCC_INPROGRESS);
    cr_assert_eq(heddle_wait_all(request, 1, 0), UCC_INPROGRESS);
    cr_assert_eq(heddle_wait_any(request, 1, &index, 0.001), UCC_INPROGRESS);
    cr_assert_eq(index, 1);
    ucc_coll_req_h kept = request[0];
    cr_assert_eq(heddle_request_free(&request[0]), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(request[0], kept);
    must(heddle_ibarrier(ep[1], &request[1]), "heddle_ibarrier");
    must(heddle_ibarrier(ep[2], &request[2]), "heddle_ibarrier");
    finish();
}

Test(nonblocking, waiting_reports_the_first_failure_of_the_array, .init = open_own_contexts,
     .fini = close_group) {
    must(heddle_ibarrier(ep[1], &request[1]), "heddle_ibarrier");
    must(heddle_team_abort(heddle_ep_team(ep[0])), "heddle_team_abort");
    cr_assert_eq(heddle_wait_all(request, N, 30), HEDDLE_ERR_ABORTED);
    size_t index;
    cr_assert_eq(heddle_wait_any(request, N, &index, 30), HEDDLE_ERR_ABORTED);
    cr_assert_eq(index, 1);
    cr_assert_eq(heddle_request_free(&request[1]), UCC_OK);
}

Test(nonblocking, requests_that_were_forgotten_go_with_the_endpoint, .init = open_one_context,
     .fini = close_group) {
    for (uint32_t i = 0; i < N; i++) {
        must(heddle_ibarrier(ep[i], &request[i]), "heddle_ibarrier");
    }
    cr_assert_eq(heddle_wait_all(request, N, 30), UCC_OK);
}

Test(nonblocking, progress_on_each_endpoint_is_all_that_completion_needs, .init = open_own_contexts,
     .fini = close_group) {
    for (uint32_t i = 0; i < N; i++) {
        must(heddle_ibarrier(ep[i], &request[i]), "heddle_ibarrier");
    }
    deadline_t deadline = deadline_start("progress");
    for (uint32_t i = 0; i < N; i++) {
        while (ucc_collective_test(request[i]) == UCC_INPROGRESS) {
            cr_assert_eq(heddle_progress(ep[i]), UCC_OK);
            deadline_poll(&deadline);
        }
    }
    finish();
}

/* --- mistakes --------------------------------------------------------------------------------- */

static char last_line[512];

static void capture(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    if (level <= HD_LOG_ERROR) {
        snprintf(last_line, sizeof(last_line), "%s", line);
    }
}

static void says(ucc_status_t status, const char *words) {
    cr_assert_eq(status, UCC_ERR_INVALID_PARAM);
    cr_assert(strstr(last_line, words), "'%s' lacks '%s'", last_line, words);
    last_line[0] = '\0';
}

Test(nonblocking, mistakes_have_a_status_and_a_line, .init = open_one_context,
     .fini = close_group) {
    size_t index;
    hd_log_capture(capture, NULL);
    request[0] = (ucc_coll_req_h)(void *)src;
    says(heddle_ibarrier(NULL, &request[0]), "not an endpoint");
    cr_assert_null(request[0], "nothing was started");
    says(heddle_ibarrier(ep[0], NULL), "request");
    request[0] = (ucc_coll_req_h)(void *)src;
    says(heddle_ibcast(ep[0], NULL, 1, UCC_DT_INT64, 0, &request[0]), "src");
    cr_assert_null(request[0], "nothing was started");
    says(heddle_test(NULL), "heddle_test");
    says(heddle_progress(NULL), "heddle_progress");
    says(heddle_request_free(NULL), "heddle_request_free");
    says(heddle_wait_all(NULL, 1, 0), "requests");
    says(heddle_wait_any(request, 1, NULL, 0), "index");
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
    must(ucc_collective_init(&args, &request[2], heddle_ep_team(ep[2])), "init");
    says(heddle_wait_all(request, N, 30), "request 2 was never posted");
    says(heddle_wait_any(request, N, &index, 30), "request 2 was never posted");
    says(heddle_test(request[2]), "never posted");
    must(heddle_request_free(&request[2]), "heddle_request_free");
    cr_assert_eq(heddle_request_free(&request[2]), UCC_OK, "NULL is no mistake");
}

Test(nonblocking, a_blocking_collective_of_no_team_is_named, .init = open_one_context,
     .fini = close_group) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
    hd_log_capture(capture, NULL);
    says(heddle_collective(&args, NULL), "heddle_collective: not a team handle");
    says(heddle_collective(NULL, heddle_ep_team(ep[0])), "heddle_collective: coll_args");
}

Test(nonblocking, a_blocking_call_without_an_endpoint_is_named, .init = open_one_context,
     .fini = close_group) {
    hd_log_capture(capture, NULL);
    says(heddle_barrier(NULL), "heddle_barrier: not an endpoint");
    says(heddle_reduce_scatterv(NULL, src, dst, NULL, UCC_DT_INT64, UCC_OP_SUM),
         "heddle_reduce_scatterv: not an endpoint");
    says(heddle_exscan(NULL, src, dst, 1, UCC_DT_INT64, UCC_OP_SUM),
         "heddle_exscan: not an endpoint");
}
