/* test_order.c: HEDDLE_DEBUG_ORDER=1 tells of two threads on one endpoint, and of nothing else. */
#include "core/log.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Atomic int told;

static void listen(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    told += level == HD_LOG_ERROR && strstr(line, "two threads") != NULL;
}

static void start(void) {
    setenv("HEDDLE_DEBUG_ORDER", "y", 1);
    hd_log_capture(listen, NULL);
}

TestSuite(order, .init = start, .timeout = 60);

enum { N = 2, CALLS = 20 };

static heddle_ep_t *ep[N];
static _Atomic int wrong;

static ucc_status_t block(heddle_ep_t *mine) {
    return heddle_barrier(mine);
}

static ucc_status_t post_and_test(heddle_ep_t *mine) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
    ucc_coll_req_h request;
    ucc_status_t status = ucc_collective_init(&args, &request, heddle_ep_team(mine));
    if (status != UCC_OK) {
        return status;
    }
    status = ucc_collective_post(request);
    while (status == UCC_OK && ucc_collective_test(request) == UCC_INPROGRESS) {
        ucc_context_progress(heddle_ep_context(mine));
    }
    status = ucc_collective_test(request);
    return ucc_collective_finalize(request) == UCC_OK ? status : UCC_ERR_LAST;
}

static ucc_status_t (*call)(heddle_ep_t *mine);

static void assemble(heddle_group_t **group) {
    heddle_group_params_t params = {.endpoints = N};
    cr_assert_eq(heddle_group_create(&params, group), UCC_OK);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(heddle_join(*group, i, &ep[i]), UCC_OK);
    }
}

static void dismiss(heddle_group_t *group) {
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(heddle_leave(ep[i]), UCC_OK);
    }
    cr_assert_eq(heddle_group_destroy(group), UCC_OK);
}

/* --- two at once ------------------------------------------------------------------------------ */

/* Until somebody has told, which takes a few calls once both run. */
static void *call_until_told(void *arg) {
    struct timespec now, began;
    clock_gettime(CLOCK_MONOTONIC, &began);
    do {
        wrong += call(arg) != UCC_OK;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (!told && now.tv_sec - began.tv_sec < 10);
    return NULL;
}

static void *call_until_stopped(void *arg) {
    while (call(arg) == UCC_OK) {
    }
    return NULL;
}

static void use_at_once(void) {
    heddle_group_t *group;
    pthread_t thread[3];
    told = 0;
    assemble(&group);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(pthread_create(&thread[i], NULL, call_until_told, ep[0]), 0);
    }
    cr_assert_eq(pthread_create(&thread[2], NULL, call_until_stopped, ep[1]), 0);
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    cr_assert_eq(heddle_team_abort(heddle_ep_team(ep[0])), UCC_OK); /* ends the last barrier */
    pthread_join(thread[2], NULL);
    cr_assert_gt(told, 0);
    cr_assert_eq(wrong, 0);
    dismiss(group);
}

Test(order, two_threads_in_blocking_calls_on_one_endpoint_are_seen) {
    call = block;
    for (int i = 0; i < 5; i++) {
        use_at_once();
    }
}

Test(order, two_threads_that_post_on_one_endpoint_are_seen) {
    call = post_and_test;
    for (int i = 0; i < 5; i++) {
        use_at_once();
    }
}

/* --- one after the other ---------------------------------------------------------------------- */

static void *call_some(void *arg) {
    for (int i = 0; i < CALLS; i++) {
        wrong += call(arg) != UCC_OK;
    }
    return NULL;
}

static void hand_over(void) {
    heddle_group_t *group;
    pthread_t thread[N];
    assemble(&group);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            cr_assert_eq(pthread_create(&thread[i], NULL, call_some, ep[i]), 0);
        }
        for (int i = 0; i < N; i++) {
            pthread_join(thread[i], NULL);
        }
    }
    cr_assert_eq(wrong, 0);
    cr_assert_eq(told, 0);
    dismiss(group);
}

Test(order, endpoint_may_be_handed_from_thread_to_thread) {
    call = block;
    hand_over();
    call = post_and_test;
    hand_over();
}
