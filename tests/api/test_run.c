/* test_run.c: what heddle_run returns of what happened in its threads. */
#include "core/log.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>

static void ignore(hd_log_level_t level, const char *line, void *arg) {
    (void)level, (void)line, (void)arg;
}

static void be_silent(void) {
    hd_log_capture(ignore, NULL);
}

TestSuite(run, .init = be_silent, .timeout = 60);

static void sum_right(heddle_ep_t *ep, void *arg) {
    double x[2] = {heddle_ep_index(ep)};
    (void)arg;
    heddle_allreduce(ep, HEDDLE_IN_PLACE, x, 1, UCC_DT_FLOAT64, UCC_OP_SUM);
}

Test(run, says_that_all_went_well) {
    cr_assert_eq(heddle_run(4, sum_right, NULL), UCC_OK);
}

/* README's first program, with a mistake. */
static void sum_different_counts(heddle_ep_t *ep, void *arg) {
    double x[2] = {heddle_ep_index(ep)};
    (void)arg;
    heddle_allreduce(ep, HEDDLE_IN_PLACE, x, 1 + (heddle_ep_index(ep) == 1), UCC_DT_FLOAT64,
                     UCC_OP_SUM);
}

Test(run, returns_a_failure_that_work_ignores) {
    cr_assert_eq(heddle_run(4, sum_different_counts, NULL), UCC_ERR_INVALID_PARAM);
}

static void refused_at_one(heddle_ep_t *ep, void *arg) {
    double x = 1;
    (void)arg;
    if (heddle_ep_index(ep) == 1) {
        heddle_bcast(ep, &x, 1, UCC_DT_FLOAT64, 77);
    }
}

Test(run, returns_a_refusal_of_one_endpoint) {
    cr_assert_eq(heddle_run(4, refused_at_one, NULL), UCC_ERR_INVALID_PARAM);
}

static void take_note(heddle_ep_t *ep, void *arg) {
    sum_different_counts(ep, arg);
    cr_assert_eq(heddle_ep_failure(ep), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(heddle_ep_failure(ep), UCC_OK);
}

Test(run, does_not_return_what_work_took_note_of) {
    cr_assert_eq(heddle_run(4, take_note, NULL), UCC_OK);
}

static void fail_after_taking_note(heddle_ep_t *ep, void *arg) {
    take_note(ep, arg);
    sum_right(ep, arg); /* the team has failed */
}

Test(run, returns_what_failed_after_that) {
    cr_assert_eq(heddle_run(4, fail_after_taking_note, NULL), UCC_ERR_INVALID_PARAM);
}

/* --- what fails after work has asked ---------------------------------------------------------- */

/* The team fails without a blocking call. */
static void fail_without_blocking(heddle_ep_t *ep, void *arg) {
    double x[2] = {1};
    ucc_coll_req_h request = NULL;
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLREDUCE, .op = UCC_OP_SUM};
    (void)arg;
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
    args.dst.info = (ucc_coll_buffer_info_t){
        .buffer = x, .count = 1 + (heddle_ep_index(ep) == 1), .datatype = UCC_DT_FLOAT64};
    if (ucc_collective_init_and_post(&args, &request, heddle_ep_team(ep)) == UCC_OK) {
        heddle_wait(request, -1); /* else it has failed already */
    }
    ucc_collective_finalize(request);
}

Test(run, returns_the_failure_of_a_team_whatever_the_calls_were) {
    cr_assert_eq(heddle_run(4, fail_without_blocking, NULL), UCC_ERR_INVALID_PARAM);
}

static void ask_too_early(heddle_ep_t *ep, void *arg) {
    cr_assert_eq(heddle_barrier(ep), UCC_OK);
    cr_assert_eq(heddle_ep_failure(ep), UCC_OK);
    cr_assert_eq(heddle_barrier(ep), UCC_OK); /* nobody asks when the team has failed */
    fail_without_blocking(ep, arg);
}

Test(run, returns_what_the_team_fails_with_after_work_has_asked) {
    cr_assert_eq(heddle_run(4, ask_too_early, NULL), UCC_ERR_INVALID_PARAM);
}

static void ask_too_early_and_again(heddle_ep_t *ep, void *arg) {
    ask_too_early(ep, arg);
    cr_assert_eq(heddle_ep_failure(ep), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(heddle_ep_failure(ep), UCC_OK);
}

Test(run, tells_work_what_the_team_has_failed_with_since_it_last_asked) {
    cr_assert_eq(heddle_run(4, ask_too_early_and_again, NULL), UCC_OK);
}

static void take_note_of_a_refusal(heddle_ep_t *ep, void *arg) {
    double x = 1;
    bool refused = heddle_ep_index(ep) == 1;
    if (refused) {
        heddle_bcast(ep, &x, 1, UCC_DT_FLOAT64, 77);
    }
    cr_assert_eq(heddle_ep_failure(ep), refused ? UCC_ERR_INVALID_PARAM : UCC_OK);
    cr_assert_eq(heddle_barrier(ep), UCC_OK); /* the team is whole */
    fail_without_blocking(ep, arg);
    cr_assert_eq(heddle_ep_failure(ep), UCC_ERR_INVALID_PARAM);
}

Test(run, tells_of_the_team_after_work_took_note_of_a_refusal) {
    cr_assert_eq(heddle_run(4, take_note_of_a_refusal, NULL), UCC_OK);
}

/* --- sub-teams, and calls that do not block --------------------------------------------------- */

static void fail_in_a_sub_team(heddle_ep_t *ep, void *arg) {
    heddle_ep_t *sub;
    cr_assert_eq(heddle_split(ep, heddle_ep_index(ep) % 2, 0, &sub), UCC_OK);
    if (heddle_ep_index(ep) % 2) {
        double x = 1;
        heddle_bcast(sub, &x, 1, UCC_DT_FLOAT64, heddle_ep_index(sub) == 0 ? 0 : 77);
    } else {
        sum_right(sub, arg);
    }
    cr_assert_eq(heddle_leave(sub), UCC_OK);
}

Test(run, returns_what_failed_in_a_sub_team) {
    cr_assert_eq(heddle_run(4, fail_in_a_sub_team, NULL), UCC_ERR_INVALID_PARAM);
}

static void refused_a_start(heddle_ep_t *ep, void *arg) {
    double x = 1;
    ucc_coll_req_h request;
    if (heddle_ep_index(ep) == *(uint32_t *)arg) {
        cr_assert_eq(heddle_ibcast(ep, &x, 1, UCC_DT_FLOAT64, 77, &request), UCC_ERR_INVALID_PARAM);
    }
}

Test(run, returns_the_refusal_of_a_nonblocking_call) {
    uint32_t at = 2;
    cr_assert_eq(heddle_run(4, refused_a_start, &at), UCC_ERR_INVALID_PARAM);
}

static void refused_on_a_stream(heddle_ep_t *ep, void *arg) {
    double x = 1;
    if (heddle_ep_index(ep) == *(uint32_t *)arg) {
        cr_assert_eq(heddle_bcast_on(ep, NULL, &x, 1, UCC_DT_FLOAT64, 77), UCC_ERR_INVALID_PARAM);
    }
}

Test(run, returns_the_refusal_of_a_call_on_a_stream) {
    uint32_t at = 2;
    cr_assert_eq(heddle_run(4, refused_on_a_stream, &at), UCC_ERR_INVALID_PARAM);
}

Test(run, endpoint_that_is_none_has_no_failure_to_tell) {
    cr_assert_eq(heddle_ep_failure(NULL), UCC_ERR_INVALID_PARAM);
}
