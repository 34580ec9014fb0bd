/* test_lines.c: a line about a mistake names the call, the endpoint, the field and its value. */
#include "core/log.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static char last[512];
static hd_log_level_t level_of_last;

static void keep(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    level_of_last = level;
    strncpy(last, line, sizeof(last) - 1);
}

static heddle_ep_t *ep[4];
static heddle_group_t *group;

static void open_group(void) {
    hd_log_capture(keep, NULL);
    heddle_group_params_t params = {.endpoints = 4};
    cr_assert_eq(heddle_group_create(&params, &group), UCC_OK);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_eq(heddle_join(group, i, &ep[i]), UCC_OK);
    }
}

TestSuite(lines, .init = open_group, .timeout = 30);

#define EXPECT_LINE(_call, _status, _text)                                                         \
    do {                                                                                           \
        last[0] = '\0';                                                                            \
        cr_expect_eq((_call), (_status));                                                          \
        cr_expect(strstr(last, (_text)) != NULL, "\"%s\" is not in \"%s\"", (_text), last);        \
    } while (0)

Test(lines, operation_that_a_datatype_has_not) {
    double x = 1;
    EXPECT_LINE(heddle_allreduce(ep[2], &x, &x, 1, UCC_DT_FLOAT64, UCC_OP_BAND),
                UCC_ERR_NOT_SUPPORTED,
                "allreduce at endpoint 2: operation band (7) has no meaning on datatype float64");
}

Test(lines, datatype_that_is_none) {
    double x = 1;
    EXPECT_LINE(heddle_reduce(ep[3], &x, &x, 1, (ucc_datatype_t)0x270f, UCC_OP_SUM, 3),
                UCC_ERR_INVALID_PARAM, "reduce at endpoint 3: datatype 0x270f is not valid");
}

Test(lines, root_that_is_none) {
    double x = 1;
    EXPECT_LINE(heddle_bcast(ep[1], &x, 1, UCC_DT_FLOAT64, 9), UCC_ERR_INVALID_PARAM,
                "bcast at endpoint 1: root 9 is not an endpoint of the team, which has 4");
}

Test(lines, call_on_a_team_that_has_failed) {
    cr_assert_eq(heddle_team_abort(heddle_ep_team(ep[0])), UCC_OK);
    EXPECT_LINE(heddle_barrier(ep[2]), HEDDLE_ERR_ABORTED,
                "barrier at endpoint 2: the team has failed: team aborted");
}

Test(lines, request_that_is_finalized_too_early) {
    ucc_coll_req_h request;
    cr_assert_eq(heddle_ibarrier(ep[3], &request), UCC_OK);
    EXPECT_LINE(ucc_collective_finalize(request), UCC_ERR_INVALID_PARAM,
                "barrier at endpoint 3: finalized while in progress");
    EXPECT_LINE(ucc_collective_post(request), UCC_ERR_INVALID_PARAM,
                "barrier at endpoint 3: posted with status ");
}

Test(lines, in_place_in_the_argument_of_a_vector_that_can_not_be) {
    double x[4] = {0};
    uint64_t one[] = {1, 1, 1, 1}, at[] = {0, 1, 2, 3};
    void *in_place = HEDDLE_IN_PLACE;
    const char *dst = "dst must not be HEDDLE_IN_PLACE";
    EXPECT_LINE(heddle_scatterv(ep[0], in_place, one, NULL, x, 1, UCC_DT_FLOAT64, 0),
                UCC_ERR_INVALID_PARAM, "scatterv at endpoint 0: src must not be HEDDLE_IN_PLACE");
    EXPECT_LINE(heddle_alltoallv(ep[1], x, one, NULL, in_place, one, NULL, UCC_DT_FLOAT64),
                UCC_ERR_INVALID_PARAM, dst);
    EXPECT_LINE(heddle_alltoallv(ep[1], x, one, at, in_place, one, at, UCC_DT_FLOAT64),
                UCC_ERR_INVALID_PARAM, dst);
    EXPECT_LINE(heddle_allgatherv(ep[2], x, 1, in_place, one, NULL, UCC_DT_FLOAT64),
                UCC_ERR_INVALID_PARAM, dst);
    EXPECT_LINE(heddle_gatherv(ep[0], x, 1, in_place, one, NULL, UCC_DT_FLOAT64, 0),
                UCC_ERR_INVALID_PARAM, dst);
    EXPECT_LINE(heddle_reduce_scatterv(ep[3], x, in_place, one, UCC_DT_FLOAT64, UCC_OP_SUM),
                UCC_ERR_INVALID_PARAM, dst);
}

Test(lines, time_out_that_fails_a_call_is_an_error) {
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .coll_type = UCC_COLL_TYPE_BARRIER,
                            .flags = UCC_COLL_ARGS_FLAG_TIMEOUT,
                            .timeout = 0.05};
    EXPECT_LINE(heddle_collective(&args, heddle_ep_team(ep[0])), UCC_ERR_TIMED_OUT, "time-out: ");
    cr_expect_eq(level_of_last, HD_LOG_ERROR);
}

Test(lines, time_out_of_a_watch_is_an_error) {
    double next;
    setenv("HEDDLE_TIMEOUT", "1", 1);
    EXPECT_LINE(heddle_watch_wait("a thread", "another", 5, &next), UCC_ERR_TIMED_OUT,
                "time-out: a thread has waited in vain for another");
    cr_expect_eq(level_of_last, HD_LOG_ERROR);
}

/* --- the thread's last one -------------------------------------------------------------------- */

static void *ask_elsewhere(void *arg) {
    (void)arg;
    return *heddle_last_error() ? "heard" : NULL;
}

Test(lines, last_error_is_the_threads_own) {
    pthread_t thread;
    void *heard;
    double x = 1;
    cr_expect_str_eq(heddle_last_error(), "");
    heddle_bcast(ep[1], &x, 1, UCC_DT_FLOAT64, 9);
    cr_expect_str_eq(heddle_last_error(),
                     "bcast at endpoint 1: root 9 is not an endpoint of the team, which has 4");
    cr_assert_eq(pthread_create(&thread, NULL, ask_elsewhere, NULL), 0);
    pthread_join(thread, &heard);
    cr_expect_null(heard);
    heddle_forget_error();
    cr_expect_str_eq(heddle_last_error(), "");
}
