/* test_leave.c: endpoints that leave while others go on, and groups whose missing endpoints can't
 * come any more: what can still complete completes, everything else ends with a status.
 */
#include "../support/deadline.h"
#include "../support/small.h"
#include "core/log.h"
#include "shm/internal.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static _Atomic uint32_t errors;

static void count_error(hd_log_level_t level, const char *line, void *arg) {
    (void)line, (void)arg;
    errors += level <= HD_LOG_ERROR;
}

static void watch_log(void) {
    hd_log_capture(count_error, NULL);
    setenv("HEDDLE_TEST_SLOWDOWN", "0.34", 0);
}

TestSuite(leave, .timeout = 60, .init = watch_log);

enum { MOST = 12 };

static uint32_t n_endpoints;
static heddle_ep_t *eps[MOST];

static void open_group(uint32_t n, uint32_t joining, heddle_group_params_t params) {
    heddle_group_t *group;
    params.endpoints = n;
    n_endpoints = n;
    must(heddle_group_create(&params, &group), "heddle_group_create");
    for (uint32_t i = 0; i < joining; i++) {
        must(heddle_join(group, i, &eps[i]), "heddle_join");
    }
    must(heddle_group_destroy(group), "heddle_group_destroy");
}

static void leave(uint32_t first, uint32_t last) {
    for (uint32_t i = first; i <= last; i++) {
        cr_assert_eq(heddle_leave(eps[i]), UCC_OK);
    }
}

static ucc_coll_req_h posted(uint32_t i, ucc_coll_args_t args) {
    ucc_coll_req_h request;
    must(ucc_collective_init_and_post(&args, &request, heddle_ep_team(eps[i])), "post");
    return request;
}

static void ends_with(ucc_coll_req_h request, ucc_status_t status) {
    cr_assert_eq(heddle_wait(request, 20), status, "%s, not %s",
                 ucc_status_string(heddle_wait(request, 0)), ucc_status_string(status));
    cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
}

static ucc_coll_args_t from_root(uint64_t *buffer, uint64_t root) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BCAST, .root = root};
    args.src.info = (ucc_coll_buffer_info_t){buffer, 1, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
    return args;
}

/* Flat and by a tree; by one that never took part, and by one that did for a while. */
Test(leave, who_posts_after_a_peer_has_left_gets_a_status) {
    static const uint32_t sizes[] = {2, 3, MOST};
    for (uint32_t s = 0; s < 3; s++) {
        for (uint32_t before = 0; before <= 6; before += 3) {
            uint32_t n = sizes[s];
            ucc_coll_req_h requests[MOST];
            open_group(n, n, (heddle_group_params_t){0});
            for (uint32_t k = 0; k < before; k++) {
                for (uint32_t i = 0; i < n; i++) {
                    requests[i] = posted(i, small_barrier());
                }
                for (uint32_t i = 0; i < n; i++) {
                    for (uint32_t j = 0; j < n; j++) {
                        ucc_context_progress(heddle_ep_context(eps[j]));
                    }
                    ends_with(requests[i], UCC_OK);
                }
            }
            leave(n - 1, n - 1);
            errors = 0;
            for (uint32_t i = 0; i + 1 < n; i++) {
                requests[i] = posted(i, small_barrier());
            }
            for (uint32_t i = 0; i + 1 < n; i++) {
                ends_with(requests[i], UCC_ERR_NOT_FOUND);
            }
            cr_assert_eq(errors, 1, "one line, not %u", errors);
            cr_assert_eq(heddle_barrier(eps[0]), UCC_ERR_NOT_FOUND, "and so does all that follows");
            leave(0, n - 2);
        }
    }
}

Test(leave, blocking_call_that_waits_for_who_has_left_returns) {
    open_group(2, 2, (heddle_group_params_t){0});
    leave(1, 1);
    cr_assert_eq(heddle_barrier(eps[0]), UCC_ERR_NOT_FOUND);
    leave(0, 0);
}

static void *leave_later(void *arg) {
    usleep(200000); /* the waiter sleeps by then, most probably */
    must(heddle_leave(arg), "leave");
    return NULL;
}

Test(leave, leaving_wakes_those_who_sleep) {
    pthread_t thread;
    open_group(2, 2, (heddle_group_params_t){0});
    cr_assert_eq(pthread_create(&thread, NULL, leave_later, eps[1]), 0);
    cr_assert_eq(heddle_barrier(eps[0]), UCC_ERR_NOT_FOUND);
    pthread_join(thread, NULL);
    leave(0, 0);
}

/* The root of a bcast waits for nobody, and may leave at once; nobody is hurt. */
Test(leave, what_the_leaver_took_part_in_completes) {
    for (uint32_t n = 2; n <= MOST; n += 5) {
        uint64_t numbers[MOST][3];
        ucc_coll_req_h requests[MOST][3];
        open_group(n, n, (heddle_group_params_t){0});
        for (uint32_t k = 0; k < 3; k++) {
            numbers[0][k] = 70 + k;
            ends_with(posted(0, from_root(&numbers[0][k], 0)), UCC_OK);
        }
        leave(0, 0);
        for (uint32_t i = 1; i < n; i++) {
            for (uint32_t k = 0; k < 3; k++) {
                requests[i][k] = posted(i, from_root(&numbers[i][k], 0));
            }
        }
        for (uint32_t i = 1; i < n; i++) {
            for (uint32_t k = 0; k < 3; k++) {
                ends_with(requests[i][k], UCC_OK);
                cr_assert_eq(numbers[i][k], 70 + k);
            }
        }
        leave(1, n - 1);
    }
}

/* Operations that can't be published any more for lack of window. */
Test(leave, who_queues_up_behind_a_leaver_gets_a_status) {
    enum { POSTS = 20 };
    uint64_t number = 5;
    ucc_coll_req_h requests[POSTS];
    open_group(3, 3, (heddle_group_params_t){0});
    leave(2, 2);
    uint32_t n = 0;
    ucc_status_t status = UCC_OK;
    while (n < POSTS && status == UCC_OK) {
        ucc_coll_args_t args = from_root(&number, 0);
        status = ucc_collective_init_and_post(&args, &requests[n], heddle_ep_team(eps[0]));
        n += status == UCC_OK;
    }
    uint32_t failed = status != UCC_OK;
    for (uint32_t k = 0; k < n; k++) {
        status = heddle_wait(requests[k], 20);
        cr_assert(status == UCC_OK || status == UCC_ERR_NOT_FOUND);
        failed += status != UCC_OK;
        cr_assert_eq(ucc_collective_finalize(requests[k]), UCC_OK);
    }
    cr_assert_geq(failed, 1);
    leave(0, 1);
}

/* Matched by tag, by the members of a set, by the order of init, and persistent ones. */
Test(leave, matched_operations_that_miss_a_leaver_get_a_status) {
    for (int way = 0; way < 4; way++) {
        for (int met_before = 0; met_before < 2; met_before++) {
            heddle_group_params_t params = {.ordering = way == 2 ? UCC_COLLECTIVE_INIT_ORDERED
                                                                 : UCC_COLLECTIVE_POST_ORDERED};
            uint64_t numbers[3];
            ucc_coll_req_h requests[3];
            open_group(3, 3, params);
            for (uint32_t i = 0; i < 3; i++) {
                ucc_coll_args_t args = from_root(&numbers[i], 2);
                if (way == 0) {
                    args.mask |= UCC_COLL_ARGS_FIELD_TAG;
                    args.tag = 9;
                } else if (way == 1) {
                    args.mask |= UCC_COLL_ARGS_FIELD_ACTIVE_SET;
                    args.active_set.start = 0;
                    args.active_set.stride = 2;
                    args.active_set.size = 2;
                } else if (way == 3) {
                    args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
                    args.flags |= UCC_COLL_ARGS_FLAG_PERSISTENT;
                }
                if (way != 1 || i != 1) {
                    must(ucc_collective_init(&args, &requests[i], heddle_ep_team(eps[i])), "init");
                }
            }
            if (met_before) { /* the root goes through it once; so do the others */
                numbers[2] = 33;
                must(ucc_collective_post(requests[2]), "post");
                cr_assert_eq(heddle_wait(requests[2], 20), UCC_OK);
            }
            must(ucc_collective_finalize(requests[2]), "finalize");
            leave(2, 2);
            uint32_t left = way == 1 ? 1 : 2;
            for (uint32_t i = 0; i < left; i++) {
                must(ucc_collective_post(requests[i]), "post");
            }
            for (uint32_t i = 0; i < left; i++) {
                cr_assert_eq(heddle_wait(requests[i], 20), met_before ? UCC_OK : UCC_ERR_NOT_FOUND,
                             "way %d, met before %d", way, met_before);
            }
            if (way == 3 && met_before) { /* the second start of a persistent one */
                must(ucc_collective_post(requests[0]), "post");
                cr_assert_eq(heddle_wait(requests[0], 20), UCC_ERR_NOT_FOUND);
            }
            for (uint32_t i = 0; i < left; i++) {
                must(ucc_collective_finalize(requests[i]), "finalize");
            }
            leave(0, 1);
        }
    }
}

/* Endpoint 0 has taken part and leaves; endpoint 1 is late, while the root looks for leavers. */
Test(leave, a_persistent_operation_does_not_miss_a_leaver_that_has_taken_part) {
    uint64_t numbers[3] = {1, 2, 3}, sum = 0;
    ucc_coll_req_h requests[3];
    open_group(3, 3, (heddle_group_params_t){0});
    for (uint32_t i = 0; i < 3; i++) {
        ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                                .flags = UCC_COLL_ARGS_FLAG_PERSISTENT,
                                .coll_type = UCC_COLL_TYPE_REDUCE,
                                .op = UCC_OP_SUM,
                                .root = 2};
        args.src.info =
            (ucc_coll_buffer_info_t){&numbers[i], 1, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
        args.dst.info = (ucc_coll_buffer_info_t){&sum, 1, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
        must(ucc_collective_init(&args, &requests[i], heddle_ep_team(eps[i])), "init");
    }
    must(ucc_collective_post(requests[0]), "post");
    cr_assert_eq(heddle_wait(requests[0], 20), UCC_OK);
    must(ucc_collective_finalize(requests[0]), "finalize");
    leave(0, 0);
    must(ucc_collective_post(requests[2]), "post");
    cr_assert_eq(heddle_wait(requests[2], 0.1), UCC_INPROGRESS, "it waits for endpoint 1");
    must(ucc_collective_post(requests[1]), "post");
    cr_assert_eq(heddle_wait(requests[2], 20), UCC_OK);
    cr_assert_eq(sum, 6);
    cr_assert_eq(heddle_wait(requests[1], 20), UCC_OK);
    for (uint32_t i = 1; i < 3; i++) {
        must(ucc_collective_finalize(requests[i]), "finalize");
    }
    leave(1, 2);
}

Test(leave, destroying_a_ucc_team_is_leaving_it) {
    world_t *world = world_create(&(world_params_t){.size = 2, .form = WORLD_OOB});
    oob_board_t *board = oob_board_create(2);
    ucc_team_h teams[2];
    ucc_coll_args_t args = small_barrier();
    ucc_coll_req_h request;
    for (uint32_t i = 0; i < 2; i++) {
        ucc_team_params_t p = {.mask = UCC_TEAM_PARAM_FIELD_OOB, .oob = oob_endpoint(board, i)};
        must(ucc_team_create_post(&world->contexts[i], 1, &p, &teams[i]), "create_post");
    }
    world_finish_teams(2, teams);
    must(ucc_collective_init_and_post(&args, &request, teams[0]), "post");
    world_destroy_team(teams[1]);
    cr_assert_eq(heddle_wait(request, 20), UCC_ERR_NOT_FOUND);
    must(ucc_collective_finalize(request), "finalize");
    world_destroy_team(teams[0]);
    oob_board_destroy(board);
    world_destroy(world);
}

Test(leave, group_that_is_destroyed_before_all_have_joined_fails_those_who_have) {
    ucc_coll_req_h requests[2];
    errors = 0;
    open_group(3, 2, (heddle_group_params_t){0});
    cr_assert_eq(errors, 1);
    cr_assert_eq(heddle_barrier(eps[1]), UCC_ERR_NOT_FOUND);
    leave(0, 1);
    heddle_group_t *group; /* the same with operations that are queued already */
    heddle_group_params_t params = {.endpoints = 3};
    must(heddle_group_create(&params, &group), "heddle_group_create");
    for (uint32_t i = 0; i < 2; i++) {
        must(heddle_join(group, i, &eps[i]), "heddle_join");
        requests[i] = posted(i, small_barrier());
    }
    must(heddle_group_destroy(group), "heddle_group_destroy");
    ends_with(requests[0], UCC_ERR_NOT_FOUND);
    ends_with(requests[1], UCC_ERR_NOT_FOUND);
    leave(0, 1);
}
