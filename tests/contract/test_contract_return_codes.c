/* test_contract_return_codes.c: what post, test, finalize, create_test and destroy return, and
 * when. */
#include "../support/deadline.h"
#include "../support/small.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(contract_return_codes, .timeout = 120);

enum { N = 3 };

/* --- what a status is called --- */

Test(contract_return_codes, every_status_has_a_text_of_its_own_and_unknown_ones_have_one) {
    static const ucc_status_t known[] = {
        UCC_OK,
        UCC_INPROGRESS,
        UCC_OPERATION_INITIALIZED,
        UCC_ERR_NOT_SUPPORTED,
        UCC_ERR_NOT_IMPLEMENTED,
        UCC_ERR_INVALID_PARAM,
        UCC_ERR_NO_MEMORY,
        UCC_ERR_NO_RESOURCE,
        UCC_ERR_NO_MESSAGE,
        UCC_ERR_NOT_FOUND,
        UCC_ERR_TIMED_OUT,
        UCC_ERR_IO_ERROR,
        HEDDLE_ERR_ABORTED,
        (ucc_status_t)3, /* and all others have one together */
    };
    enum { KNOWN = sizeof(known) / sizeof(known[0]) };
    for (size_t i = 0; i < KNOWN; i++) {
        const char *text = ucc_status_string(known[i]);
        cr_assert(text && text[0] != 0 && strchr(text, '\n') == NULL);
        for (size_t k = 0; k < i; k++) {
            cr_assert_str_neq(text, ucc_status_string(known[k]), "%d and %d", known[i], known[k]);
        }
    }
    cr_assert_str_eq(ucc_status_string((ucc_status_t)-1234), ucc_status_string((ucc_status_t)3));
}

/* --- post and test --- */

static uint64_t sizes[] = {1, 100, 3000, 40000}; /* one per regime */
enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

Test(contract_return_codes, post_returns_ok_never_inprogress_and_test_then_is_never_initialized) {
    world_t *world = small_world(N);
    for (int s = 0; s < N_SIZES; s++) {
        int32_t *buffers[N];
        ucc_coll_req_h requests[N];
        for (uint32_t i = 0; i < N; i++) {
            buffers[i] = must_alloc(sizes[s], sizeof(int32_t));
            ucc_coll_args_t args = small_bcast(buffers[i], sizes[s], 0);
            requests[i] = small_init(world, i, &args);
        }
        for (uint32_t k = N; k > 0; k--) { /* the root posts last: the first two can't be done */
            cr_assert_eq(ucc_collective_post(requests[k - 1]), UCC_OK);
            cr_assert_neq(ucc_collective_test(requests[k - 1]), UCC_OPERATION_INITIALIZED);
        }
        small_finish(world, requests, N);
        for (uint32_t i = 0; i < N; i++) {
            free(buffers[i]);
        }
    }
    world_destroy(world);
}

Test(contract_return_codes, init_and_post_returns_ok) {
    world_t *world = small_world(N);
    ucc_coll_req_h requests[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_barrier();
        cr_assert_eq(ucc_collective_init_and_post(&args, &requests[i], world->teams[i]), UCC_OK);
        cr_assert_neq(ucc_collective_test(requests[i]), UCC_OPERATION_INITIALIZED);
    }
    small_finish(world, requests, N);
    world_destroy(world);
}

/* --- finalize --- */

Test(contract_return_codes, finalize_of_an_unposted_request_is_ok) {
    world_t *world = small_world(N);
    ucc_coll_args_t args = small_barrier();
    ucc_coll_req_h request = small_init(world, 0, &args);
    cr_assert_eq(ucc_collective_test(request), UCC_OPERATION_INITIALIZED);
    cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
    world_destroy(world);
}

Test(contract_return_codes, finalize_while_in_progress_is_invalid_param) {
    world_t *world = small_world(N);
    ucc_coll_args_t args = small_barrier();
    ucc_coll_req_h requests[N];
    requests[0] = small_start(world, 0, &args);
    cr_assert_eq(ucc_collective_test(requests[0]), UCC_INPROGRESS);
    cr_assert_eq(ucc_collective_finalize(requests[0]), UCC_ERR_INVALID_PARAM);
    requests[1] = small_start(world, 1, &args);
    requests[2] = small_start(world, 2, &args);
    small_finish(world, requests, N); /* the refusal did no harm */
    world_destroy(world);
}

Test(contract_return_codes, finalize_after_an_error_is_ok) {
    world_t *world = small_world(2);
    ucc_coll_args_t args = small_barrier();
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
    args.timeout = 0.05;
    ucc_coll_req_h request = small_start(world, 0, &args); /* the peer never comes */
    deadline_t deadline = deadline_start("a barrier with a timeout");
    while (ucc_collective_test(request) == UCC_INPROGRESS) {
        ucc_context_progress(world->contexts[0]);
        deadline_poll(&deadline);
    }
    cr_assert_eq(ucc_collective_test(request), UCC_ERR_TIMED_OUT);
    cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
    world_destroy(world);
}

/* --- posting again --- */

static void make_persistent(ucc_coll_args_t *args) {
    args->mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args->flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
}

Test(contract_return_codes, persistent_requests_are_posted_again_and_again) {
    world_t *world = small_world(N);
    int32_t src[N], dst[N];
    ucc_coll_req_h requests[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_allreduce(&src[i], &dst[i], 1);
        make_persistent(&args);
        requests[i] = small_init(world, i, &args);
    }
    for (int32_t round = 0; round < 50; round++) {
        for (uint32_t i = 0; i < N; i++) {
            src[i] = round + (int32_t)i;
            cr_assert_eq(ucc_collective_post(requests[i]), UCC_OK);
        }
        small_wait(world, requests, N);
        for (uint32_t i = 0; i < N; i++) {
            cr_assert_eq(ucc_collective_test(requests[i]), UCC_OK);
            cr_assert_eq(dst[i], 3 * round + 3);
        }
    }
    small_finish(world, requests, N);
    world_destroy(world);
}

Test(contract_return_codes, posting_again_needs_a_persistent_request) {
    world_t *world = small_world(N);
    ucc_coll_req_h requests[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_barrier();
        requests[i] = small_start(world, i, &args);
    }
    small_wait(world, requests, N);
    cr_assert_eq(ucc_collective_post(requests[0]), UCC_ERR_INVALID_PARAM);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(ucc_collective_finalize(requests[i]), UCC_OK);
    }
    cr_assert(small_team_works(world));
    world_destroy(world);
}

Test(contract_return_codes, posting_again_needs_status_ok) {
    world_t *world = small_world(N);
    ucc_coll_args_t args = small_barrier();
    make_persistent(&args);
    ucc_coll_req_h requests[N];
    requests[0] = small_start(world, 0, &args);
    cr_assert_eq(ucc_collective_post(requests[0]), UCC_ERR_INVALID_PARAM); /* in progress */
    requests[1] = small_start(world, 1, &args);
    requests[2] = small_start(world, 2, &args);
    small_finish(world, requests, N);
    world_destroy(world);
}

/* --- creating and destroying teams --- */

static ucc_status_t failing_allgather(void *src, void *recv, size_t size, void *info, void **req) {
    (void)src, (void)recv, (void)size;
    *req = info;
    return UCC_OK;
}

static ucc_status_t failing_test(void *request) {
    (void)request;
    return UCC_ERR_NO_MESSAGE;
}

static ucc_status_t failing_free(void *request) {
    (void)request;
    return UCC_OK;
}

Test(contract_return_codes, after_a_failing_create_test_the_user_calls_destroy) {
    world_t *world = small_world(1);
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB,
                                .oob = {.allgather = failing_allgather,
                                        .req_test = failing_test,
                                        .req_free = failing_free,
                                        .coll_info = &params,
                                        .n_oob_eps = 2,
                                        .oob_ep = 1}};
    ucc_team_h team;
    ucc_status_t st;
    must(ucc_team_create_post(&world->contexts[0], 1, &params, &team), "ucc_team_create_post");
    deadline_t deadline = deadline_start("a team creation that must fail");
    while ((st = ucc_team_create_test(team)) == UCC_INPROGRESS) {
        deadline_poll(&deadline);
    }
    cr_assert_lt(st, 0);
    cr_assert_eq(ucc_team_destroy(team), UCC_OK);
    cr_assert(small_team_works(world), "the context is still good");
    world_destroy(world);
}

/* "while (ucc_team_destroy(t) == UCC_INPROGRESS); without progress: destroy must not need a peer"
 */
Test(contract_return_codes, destroy_needs_no_peer_and_no_progress) {
    world_t *world = small_world(N);
    cr_assert(small_team_works(world));
    for (uint32_t i = 0; i < N; i++) { /* each alone, to its end, before the next begins */
        world_destroy_team(world->teams[i]);
        cr_assert_eq(ucc_context_destroy(world->contexts[i]), UCC_OK);
        cr_assert_eq(ucc_finalize(world->libs[i]), UCC_OK);
    }
    world_free(world);
}

/* One that left early: its peers go on with what it has already given. */
Test(contract_return_codes, destroy_does_not_disturb_what_peers_still_do) {
    enum { COUNT = 200 };
    world_t *world = small_world(N);
    int32_t buffers[N][COUNT];
    ucc_coll_req_h requests[N] = {NULL};
    for (uint32_t i = 0; i < N; i++) {
        for (int e = 0; e < COUNT; e++) {
            buffers[i][e] = (int32_t)i * 1000 + e;
        }
    }
    ucc_coll_args_t args = small_bcast(buffers[0], COUNT, 0);
    requests[0] = small_start(world, 0, &args);
    if (ucc_collective_test(requests[0]) == UCC_OK) { /* a root may run ahead */
        cr_assert_eq(ucc_collective_finalize(requests[0]), UCC_OK);
        requests[0] = NULL;
        world_destroy_team(world->teams[0]);
        world->teams[0] = NULL;
    }
    for (uint32_t i = 1; i < N; i++) {
        args = small_bcast(buffers[i], COUNT, 0);
        requests[i] = small_start(world, i, &args);
    }
    small_finish(world, requests, N);
    for (uint32_t i = 1; i < N; i++) {
        cr_assert_arr_eq(buffers[i], buffers[0], sizeof(buffers[0]));
    }
    for (uint32_t i = 0; i < N; i++) {
        if (world->teams[i] != NULL) {
            world_destroy_team(world->teams[i]);
        }
        cr_assert_eq(ucc_context_destroy(world->contexts[i]), UCC_OK);
        cr_assert_eq(ucc_finalize(world->libs[i]), UCC_OK);
    }
    world_free(world);
}
