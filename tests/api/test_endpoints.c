/* test_endpoints.c: what a group knows of who drives its endpoints, and how many it may have. */
#include "../support/deadline.h"
#include "../support/driver.h"
#include "api/api.h"
#include "core/log.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N = 3 };

static heddle_group_t *group;
static heddle_ep_t *ep[N];

static void open_group(void) {
    heddle_group_params_t params = {.endpoints = N, .thread_mode = UCC_THREAD_MULTIPLE};
    cr_assert_eq(heddle_group_create(&params, &group), UCC_OK);
}

static void close_group(void) {
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(heddle_leave(ep[i]), UCC_OK);
    }
    cr_assert_eq(heddle_group_destroy(group), UCC_OK);
}

static void join_and_meet(void *arg, uint32_t i) {
    (void)arg;
    must(heddle_join(group, i, &ep[i]), "join");
    for (int round = 0; round < 100; round++) {
        must(heddle_barrier(ep[i]), "barrier");
    }
}

Test(endpoints, a_thread_each_shares_none) {
    open_group();
    driver_threads(N, join_and_meet, NULL);
    cr_assert_not(hd_api_group_is_shared(group));
    close_group();
}

Test(endpoints, a_thread_that_joins_twice_may_drive_both) {
    open_group();
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(hd_api_group_is_shared(group), i >= 2);
        cr_assert_eq(heddle_join(group, i, &ep[i]), UCC_OK);
    }
    cr_assert(hd_api_group_is_shared(group));
    close_group();
}

static void join_alone(void *arg, uint32_t i) {
    (void)arg;
    must(heddle_join(group, i, &ep[i]), "join");
}

/* Joined by a thread each, and driven by one all the same: it waits in each context, and gets on.
 */
Test(endpoints, one_thread_may_drive_those_that_others_joined) {
    ucc_coll_req_h request[N];
    open_group();
    driver_threads(N, join_alone, NULL);
    cr_assert_not(hd_api_group_is_shared(group));
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
        ucc_team_h team = heddle_ep_team(ep[i]);
        cr_assert_eq(ucc_collective_init(&args, &request[i], team), UCC_OK);
        cr_assert_eq(ucc_collective_post(request[i]), UCC_OK);
    }
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(heddle_wait(request[i], -1), UCC_OK);
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
    }
    close_group();
}

static int n_lines;

static void listen(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    n_lines += level == HD_LOG_ERROR && strstr(line, "endpoints is") != NULL;
}

/* Nor does it take all memory to find out. */
Test(endpoints, more_than_anybody_can_mean_are_refused) {
    static const uint32_t number[] = {0, (1u << 24) + 1, 1u << 30, UINT32_MAX};
    hd_log_capture(listen, NULL);
    for (size_t i = 0; i < sizeof(number) / sizeof(number[0]); i++) {
        heddle_group_params_t params = {.endpoints = number[i]};
        cr_assert_eq(heddle_group_create(&params, &group), UCC_ERR_INVALID_PARAM);
    }
    cr_assert_eq(n_lines, 4);
}
