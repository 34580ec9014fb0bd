/* test_contract_events.c: execution engines of processor threads: their events, and collectives
 * that an event starts. */
#include "../support/deadline.h"
#include "../support/small.h"

#include <criterion/criterion.h>

TestSuite(contract_events, .timeout = 120);

enum { N = 3 };

static world_t *world;
static ucc_ee_h ee[N];
static int32_t src[N], sum[N];

static ucc_ee_h engine_of(uint32_t i) {
    ucc_ee_params_t params = {.ee_type = UCC_EE_CPU_THREAD};
    ucc_ee_h engine = NULL;
    must(ucc_ee_create(world->teams[i], &params, &engine), "ucc_ee_create");
    return engine;
}

static void open_engines(void) {
    world = small_world(N);
    for (uint32_t i = 0; i < N; i++) {
        ee[i] = engine_of(i);
        src[i] = (int32_t)i + 1;
        sum[i] = 0;
    }
}

static void close_engines(void) {
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(ucc_ee_destroy(ee[i]), UCC_OK);
    }
    world_destroy(world);
}

static ucc_ev_t computed(ucc_coll_req_h request) {
    return (ucc_ev_t){.ev_type = UCC_EVENT_COMPUTE_COMPLETE, .req = request};
}

static ucc_coll_req_h triggered(uint32_t i, ucc_coll_args_t *args) {
    ucc_coll_req_h request = small_init(world, i, args);
    ucc_ev_t event = computed(request);
    must(ucc_collective_triggered_post(ee[i], &event), "ucc_collective_triggered_post");
    return request;
}

static void set_event(uint32_t i) {
    ucc_ev_t event = computed(NULL);
    cr_assert_eq(ucc_ee_set_event(ee[i], &event), UCC_OK);
}

static void expect_event(uint32_t i, ucc_event_type_t type, ucc_coll_req_h request) {
    ucc_ev_t *event = NULL;
    cr_assert_eq(ucc_ee_get_event(ee[i], &event), UCC_OK);
    cr_assert_eq(event->ev_type, type);
    cr_assert_eq(event->req, request);
    cr_assert_eq(ucc_ee_ack_event(ee[i], event), UCC_OK);
}

static void expect_no_event(uint32_t i) {
    ucc_ev_t *event = NULL;
    cr_assert_eq(ucc_ee_get_event(ee[i], &event), UCC_ERR_NOT_FOUND);
}

Test(contract_events, a_triggered_collective_waits_for_its_event, .init = open_engines,
     .fini = close_engines) {
    ucc_coll_req_h requests[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_allreduce(&src[i], &sum[i], 1);
        requests[i] = triggered(i, &args);
        cr_assert_eq(ucc_collective_test(requests[i]), UCC_INPROGRESS);
    }
    small_idle(world);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(ucc_collective_test(requests[i]), UCC_INPROGRESS);
        expect_no_event(i);
    }
    for (uint32_t i = 0; i < N; i++) {
        set_event(i);
    }
    small_wait(world, requests, N);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(sum[i], 6);
        expect_event(i, UCC_EVENT_COLLECTIVE_POST, requests[i]);
        expect_event(i, UCC_EVENT_COLLECTIVE_COMPLETE, requests[i]);
        expect_no_event(i);
    }
    small_finish(world, requests, N);
}

Test(contract_events, an_event_that_came_before_starts_the_collective_at_once, .init = open_engines,
     .fini = close_engines) {
    ucc_coll_req_h requests[N];
    for (uint32_t i = 0; i < N; i++) {
        set_event(i);
        ucc_coll_args_t args = small_allreduce(&src[i], &sum[i], 1);
        requests[i] = triggered(i, &args);
        expect_event(i, UCC_EVENT_COLLECTIVE_POST, requests[i]);
    }
    small_finish(world, requests, N);
    cr_assert_eq(sum[0], 6);
}

Test(contract_events, each_event_starts_the_one_that_has_waited_longest, .init = open_engines,
     .fini = close_engines) {
    enum { OPERATIONS = 5 };
    ucc_coll_req_h requests[OPERATIONS][N];
    int32_t value[OPERATIONS][N];
    for (uint32_t k = 0; k < OPERATIONS; k++) {
        for (uint32_t i = 0; i < N; i++) {
            value[k][i] = i == 0 ? 10 * (int32_t)k : -1;
            ucc_coll_args_t args = small_bcast(&value[k][i], 1, 0);
            requests[k][i] = triggered(i, &args);
        }
    }
    for (uint32_t k = 0; k < OPERATIONS; k++) {
        for (uint32_t i = 0; i < N; i++) {
            set_event(i);
        }
        small_wait(world, requests[k], N);
        cr_assert_eq(value[k][N - 1], 10 * (int32_t)k);
        small_idle(world);
        if (k + 1 < OPERATIONS) {
            cr_assert_eq(ucc_collective_test(requests[k + 1][1]), UCC_INPROGRESS);
            cr_assert_eq(value[k + 1][1], -1);
        }
    }
    small_finish(world, &requests[0][0], OPERATIONS * N);
}

static uint32_t called;

static void finalize_in_callback(void *data, ucc_status_t status) {
    cr_assert_eq(status, UCC_OK);
    cr_assert_eq(ucc_collective_finalize(*(ucc_coll_req_h *)data), UCC_OK);
    called++;
}

Test(contract_events, callbacks_are_called_and_may_finalize, .init = open_engines,
     .fini = close_engines) {
    ucc_coll_req_h requests[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_allreduce(&src[i], &sum[i], 1);
        args.mask = UCC_COLL_ARGS_FIELD_CB;
        args.cb = (ucc_coll_callback_t){.cb = finalize_in_callback, .data = &requests[i]};
        requests[i] = triggered(i, &args);
    }
    for (uint32_t i = 0; i < N; i++) {
        set_event(i);
    }
    for (int round = 0; round < 1000 && called < N; round++) {
        small_idle(world);
    }
    cr_assert_eq(called, N);
    cr_assert_eq(sum[2], 6);
}

static void count_call(void *data, ucc_status_t status) {
    ++*(uint32_t *)data;
    cr_assert_eq(status, UCC_OK);
}

Test(contract_events, persistent_requests_are_triggered_and_posted_in_turns, .init = open_engines,
     .fini = close_engines) {
    enum { ROUNDS = 6 };
    ucc_coll_req_h requests[N];
    uint32_t calls = 0;
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_allreduce(&src[i], &sum[i], 1);
        args.mask = UCC_COLL_ARGS_FIELD_FLAGS | UCC_COLL_ARGS_FIELD_CB;
        args.flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
        args.cb = (ucc_coll_callback_t){.cb = count_call, .data = &calls};
        requests[i] = small_init(world, i, &args);
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < N; i++) {
            src[i] = (int32_t)round;
            ucc_ev_t event = computed(requests[i]);
            if (round % 3 == 2) {
                cr_assert_eq(ucc_collective_post(requests[i]), UCC_OK);
                continue;
            }
            cr_assert_eq(ucc_collective_triggered_post(ee[i], &event), UCC_OK);
            cr_assert_eq(ucc_ee_set_event(ee[i], &event), UCC_OK);
        }
        small_wait(world, requests, N);
        cr_assert_eq(sum[1], 3 * (int32_t)round);
        cr_assert_eq(calls, N * (round + 1));
        for (uint32_t i = 0; i < N && round % 3 != 2; i++) {
            expect_event(i, UCC_EVENT_COLLECTIVE_POST, requests[i]);
            expect_event(i, UCC_EVENT_COLLECTIVE_COMPLETE, requests[i]);
        }
        expect_no_event(0);
    }
    small_finish(world, requests, N);
}

Test(contract_events, nothing_outstanding_is_finalized_or_destroyed, .init = open_engines,
     .fini = close_engines) {
    ucc_coll_req_h requests[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_barrier();
        requests[i] = triggered(i, &args);
        cr_assert_eq(ucc_collective_finalize(requests[i]), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(ucc_collective_post(requests[i]), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(ucc_ee_destroy(ee[i]), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(ucc_team_destroy(world->teams[i]), UCC_ERR_INVALID_PARAM);
    }
    for (uint32_t i = 0; i < N; i++) {
        set_event(i);
    }
    small_finish(world, requests, N);
    cr_assert_eq(ucc_team_destroy(world->teams[0]), UCC_ERR_INVALID_PARAM); /* its engine lives */
}

Test(contract_events, an_event_that_does_not_come_in_time_ends_the_collective, .init = open_engines,
     .fini = close_engines) {
    ucc_coll_args_t args = small_barrier();
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
    args.timeout = 0.02;
    ucc_coll_req_h request = triggered(0, &args);
    small_wait(world, &request, 1);
    cr_assert_eq(ucc_collective_test(request), UCC_ERR_TIMED_OUT);
    expect_event(0, UCC_EVENT_COLLECTIVE_COMPLETE, request);
    cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
}

Test(contract_events, events_that_nobody_takes_are_lost_and_that_is_told, .init = open_engines,
     .fini = close_engines) {
    enum { POSTS = 3000 }; /* two events each */
    ucc_ev_t *event;
    for (uint32_t k = 0; k < POSTS; k++) {
        int32_t nothing;
        ucc_coll_args_t args = small_bcast(&nothing, 0, 0);
        set_event(0);
        ucc_coll_req_h request = triggered(0, &args);
        cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
    }
    uint32_t taken = 0, told = 0;
    while (ucc_ee_get_event(ee[0], &event) == UCC_OK) {
        told += event->ev_type == UCC_EVENT_OVERFLOW;
        taken++;
        cr_assert_eq(ucc_ee_ack_event(ee[0], event), UCC_OK);
    }
    cr_assert_eq(told, 1);
    cr_assert_lt(taken, 2 * POSTS);
}

Test(contract_events, an_endpoint_does_not_leave_before_its_engine_ends) {
    heddle_group_params_t group_params = {.endpoints = 1};
    ucc_ee_params_t params = {.ee_type = UCC_EE_CPU_THREAD};
    heddle_group_t *group;
    heddle_ep_t *ep;
    ucc_ee_h engine;
    must(heddle_group_create(&group_params, &group), "heddle_group_create");
    must(heddle_join(group, 0, &ep), "heddle_join");
    must(ucc_ee_create(heddle_ep_team(ep), &params, &engine), "ucc_ee_create");
    cr_assert_eq(heddle_leave(ep), UCC_ERR_INVALID_PARAM);
    must(ucc_ee_destroy(engine), "ucc_ee_destroy");
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
}

Test(contract_events, what_is_not_there_is_refused, .init = open_engines, .fini = close_engines) {
    ucc_ee_params_t params = {.ee_type = UCC_EE_CUDA_STREAM};
    ucc_ee_h none = NULL;
    ucc_ev_t event = computed(NULL), *out;
    cr_assert_eq(ucc_ee_create(world->teams[0], &params, &none), UCC_ERR_NOT_SUPPORTED);
    params.ee_type = UCC_EE_ROCM_STREAM;
    cr_assert_eq(ucc_ee_create(world->teams[0], &params, &none), UCC_ERR_NOT_SUPPORTED);
    params.ee_type = UCC_EE_UNKNOWN;
    cr_assert_eq(ucc_ee_create(world->teams[0], &params, &none), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_ee_get_event(NULL, &out), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_ee_ack_event(ee[0], &event), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_collective_triggered_post(ee[0], &event), UCC_ERR_INVALID_PARAM);
    event.ev_type = UCC_EVENT_COLLECTIVE_POST;
    cr_assert_eq(ucc_ee_set_event(ee[0], &event), UCC_ERR_NOT_IMPLEMENTED);
    cr_assert_eq(ucc_collective_triggered_post(ee[0], &event), UCC_ERR_NOT_IMPLEMENTED);
    ucc_coll_args_t args = small_barrier();
    event = computed(small_init(world, 1, &args));
    cr_assert_eq(ucc_collective_triggered_post(ee[0], &event), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(ucc_collective_finalize(event.req), UCC_OK);
}

static void wait_for_events(void *arg, uint32_t i) {
    ucc_coll_req_h *requests = arg;
    ucc_ev_t event;
    set_event(i);
    cr_assert_eq(ucc_ee_wait(ee[i], &event), UCC_OK);
    cr_assert_eq(event.ev_type, UCC_EVENT_COLLECTIVE_POST);
    cr_assert_eq(ucc_ee_wait(ee[i], &event), UCC_OK);
    cr_assert_eq(event.ev_type, UCC_EVENT_COLLECTIVE_COMPLETE);
    cr_assert_eq(event.req, requests[i]);
    cr_assert_eq(ucc_collective_test(requests[i]), UCC_OK);
}

Test(contract_events, wait_progresses_until_there_is_an_event, .init = open_engines,
     .fini = close_engines) {
    ucc_coll_req_h requests[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_allreduce(&src[i], &sum[i], 1);
        requests[i] = triggered(i, &args);
    }
    driver_threads(N, wait_for_events, requests);
    small_finish(world, requests, N);
}
