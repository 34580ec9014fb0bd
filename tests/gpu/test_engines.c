/* test_engines.c: execution engines of streams, and triggered posts on them, as UCC's clients use
 * them (support/ranks.h). */
#include "core/log.h"
#include "gpu/site.h"
#include "support/deadline.h"
#include "support/device_cases.h"
#include "support/driver.h"
#include "support/ranks.h"
#include "support/small.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char lines[4096];

static void keep(hd_log_level_t level, const char *text, void *arg) {
    (void)arg;
    if (level <= HD_LOG_WARN) {
        snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s\n", text);
    }
}

/* For tests with gates. */
static void open_gated(const char *config, uint32_t n, int devices) {
    setenv("HEDDLE_GPU_GATE", "memop", 1);
    ranks_open(config, n, devices);
    unsetenv("HEDDLE_GPU_GATE");
}

static void listen(void) {
    hd_log_capture(keep, NULL);
}

TestSuite(engines, .timeout = 120, .init = listen);

Test(engines, ranks_of_a_process_group_on_one_device) {
    ranks_run("1,seed=1", 2, 1);
    ranks_run("1,seed=2,channels=1,policy=newest", 4, 1);
}

Test(engines, ranks_of_a_process_group_on_a_device_each) {
    ranks_run("2,seed=3", 2, 2);
    ranks_run("4,seed=4,policy=lazy", 4, 4);
}

Test(engines, ranks_of_a_process_group_whose_devices_reach_nothing) {
    ranks_run("3,seed=5,nopeer", 3, 3);
}

/* --- UCC's own pattern: one stream, collective after collective, completion by test ----------- */

static void be_client(void *arg, uint32_t i) {
    (void)arg;
    for (int32_t times = 0; times < 5; times++) {
        rank_fill(i, rank[i].src, times + (int32_t)i, RANKS_COUNT);
        ucc_coll_req_h request = rank_allreduce(i);
        rank_keep(i, rank[i].dst, (size_t)times * RANKS_COUNT, RANKS_COUNT);
        rank_fill(i, rank[i].dst, -1, RANKS_COUNT);
        deadline_t deadline = deadline_start("a triggered collective");
        while (ucc_collective_test(request) == UCC_INPROGRESS) {
            ucc_context_progress(world_context(ranks_world, i));
            deadline_poll(&deadline);
        }
        must(ucc_collective_test(request), "its status");
        must(ucc_collective_finalize(request), "ucc_collective_finalize");
    }
    rank_await(i);
}

Test(engines, a_client_that_tests_for_completion) {
    ranks_open("1,seed=6,host=threads", 3, 1);
    driver_threads(3, be_client, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        for (int32_t times = 0; times < 5; times++) {
            rank_check(i, (size_t)times * RANKS_COUNT, RANKS_COUNT, 3 * times + 3);
        }
    }
    ranks_close();
}

/* --- peers that are late ---------------------------------------------------------------------- */

static void finish_all(ucc_coll_req_h *request) {
    deadline_t deadline = deadline_start("triggered collectives of one thread");
    for (uint32_t i = 0; i < ranks_world->size; i++) {
        while (ucc_collective_test(request[i]) == UCC_INPROGRESS) {
            for (uint32_t c = 0; c < ranks_world->n_contexts; c++) {
                ucc_context_progress(ranks_world->contexts[c]);
            }
            deadline_poll(&deadline);
        }
        must(ucc_collective_finalize(request[i]), "ucc_collective_finalize");
    }
}

/* All endpoints, each on its device, by one thread: who posts first can't meet the others. */
static void trigger_in_turn(void) {
    ucc_coll_req_h request[2];
    for (uint32_t i = 0; i < 2; i++) {
        rank_fill(i, rank[i].src, (int32_t)i + 5, RANKS_COUNT);
        request[i] = rank_allreduce(i);
        rank_keep(i, rank[i].dst, 0, RANKS_COUNT);
        rank_fill(i, rank[i].src, 0, RANKS_COUNT);
        rank_fill(i, rank[i].dst, 0, RANKS_COUNT);
    }
    finish_all(request);
    rank_await(0);
    rank_await(1);
}

Test(engines, the_stream_of_one_who_comes_first_waits_at_a_gate) {
    open_gated("2,seed=7", 2, 2);
    for (int times = 0; times < 3; times++) {
        trigger_in_turn();
        rank_check(0, 0, RANKS_COUNT, 11);
        rank_check(1, 0, RANKS_COUNT, 11);
    }
    cr_assert_gt(heddle_emucuda_site_count(HD_GPU_SITE_GATE), 0);
    ranks_close();
}

static _Atomic unsigned found;

static void count_finding(heddle_emucuda_finding_t kind, const char *text, void *arg) {
    (void)kind, (void)text, (void)arg;
    atomic_fetch_add(&found, 1);
}

Test(engines, without_the_gate_the_order_is_missing) {
    open_gated("2,seed=7", 2, 2);
    heddle_emucuda_on_finding(count_finding, NULL);
    heddle_emucuda_drop_site(HD_GPU_SITE_GATE);
    trigger_in_turn();
    cr_assert_gt(found, 0);
}

Test(engines, a_gate_is_opened_when_time_is_up) {
    ucc_coll_req_h request;
    open_gated("2,seed=8", 2, 2);
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = UCC_COLL_ARGS_FLAG_TIMEOUT,
                            .timeout = 0.05,
                            .coll_type = UCC_COLL_TYPE_ALLREDUCE,
                            .op = UCC_OP_SUM};
    args.src.info = rank_info(rank[0].src, RANKS_COUNT);
    args.dst.info = rank_info(rank[0].dst, RANKS_COUNT);
    must(ucc_collective_init(&args, &request, ranks_world->teams[0]), "ucc_collective_init");
    ucc_ev_t compute = {.ev_type = UCC_EVENT_COMPUTE_COMPLETE, .req = request};
    must(ucc_collective_triggered_post(rank[0].ee, &compute), "triggered_post");
    cr_assert_gt(heddle_emucuda_site_count(HD_GPU_SITE_GATE), 0);
    deadline_t deadline = deadline_start("a time-out");
    while (ucc_collective_test(request) == UCC_INPROGRESS) {
        ucc_context_progress(world_context(ranks_world, 0));
        deadline_poll(&deadline);
    }
    cr_assert_eq(ucc_collective_test(request), UCC_ERR_TIMED_OUT);
    must(ucc_collective_finalize(request), "ucc_collective_finalize");
    rank_await(0);
    ranks_close();
}

/* More than the team's window holds: those that were not launched when time was up have gates, too.
 */
Test(engines, gates_of_posts_that_never_start_are_opened) {
    enum { MANY = 20 };
    ucc_coll_req_h request[MANY];
    open_gated("2,seed=8", 2, 2);
    for (int k = 0; k < MANY; k++) {
        ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                                .flags = UCC_COLL_ARGS_FLAG_TIMEOUT,
                                .timeout = 0.2,
                                .coll_type = UCC_COLL_TYPE_ALLREDUCE,
                                .op = UCC_OP_SUM};
        args.src.info = rank_info(rank[0].src, RANKS_COUNT);
        args.dst.info = rank_info(rank[0].dst, RANKS_COUNT);
        must(ucc_collective_init(&args, &request[k], ranks_world->teams[0]), "init");
        ucc_ev_t compute = {.ev_type = UCC_EVENT_COMPUTE_COMPLETE, .req = request[k]};
        must(ucc_collective_triggered_post(rank[0].ee, &compute), "triggered_post");
    }
    for (int k = 0; k < MANY; k++) {
        deadline_t deadline = deadline_start("a time-out");
        while (ucc_collective_test(request[k]) == UCC_INPROGRESS) {
            ucc_context_progress(world_context(ranks_world, 0));
            deadline_poll(&deadline);
        }
        cr_assert_lt(ucc_collective_test(request[k]), 0);
        must(ucc_collective_finalize(request[k]), "ucc_collective_finalize");
    }
    rank_await(0);
    ranks_close();
}

Test(engines, an_engine_stays_while_a_request_behind_a_gate_is_in_progress) {
    ucc_coll_req_h request[2];
    open_gated("2,seed=9", 2, 2);
    request[0] = rank_allreduce(0);
    cr_assert_gt(heddle_emucuda_site_count(HD_GPU_SITE_GATE), 0);
    cr_assert_eq(ucc_ee_destroy(rank[0].ee), UCC_ERR_INVALID_PARAM);
    cr_assert(strstr(lines, "while 1 triggered operations are outstanding at endpoint 0"), "%s",
              lines);
    request[1] = rank_allreduce(1);
    finish_all(request);
    must(ucc_ee_destroy(rank[0].ee), "ucc_ee_destroy");
    must(ucc_ee_destroy(rank[1].ee), "ucc_ee_destroy");
    rank_await(0);
    rank_await(1);
    ranks_renew_engines();
    ranks_close();
}

/* A thread that does nothing but wait for its stream. */
static void *wait_for_stream(void *arg) {
    rank_await((uint32_t)(uintptr_t)arg);
    return NULL;
}

Test(engines, an_abort_by_another_opens_gates_of_those_who_are_in_the_driver) {
    pthread_t thread[2];
    ucc_coll_req_h request[2];
    open_gated("3,seed=10,host=threads", 3, 3);
    for (uint32_t i = 0; i < 2; i++) {
        request[i] = rank_allreduce(i);
    }
    cr_assert_eq(heddle_emucuda_site_count(HD_GPU_SITE_GATE), 2);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(pthread_create(&thread[i], NULL, wait_for_stream, (void *)(uintptr_t)i), 0);
    }
    usleep(50 * 1000); /* most likely they are there */
    must(heddle_team_abort(ranks_world->teams[2]), "heddle_team_abort");
    for (uint32_t i = 0; i < 2; i++) { /* nobody progresses their contexts */
        pthread_join(thread[i], NULL);
        cr_assert_eq(ucc_collective_test(request[i]), UCC_INPROGRESS);
    }
    for (uint32_t i = 0; i < 2; i++) {
        deadline_t deadline = deadline_start("a collective that was aborted");
        while (ucc_collective_test(request[i]) == UCC_INPROGRESS) {
            ucc_context_progress(world_context(ranks_world, i));
            deadline_poll(&deadline);
        }
        cr_assert_eq(ucc_collective_test(request[i]), HEDDLE_ERR_ABORTED);
        must(ucc_collective_finalize(request[i]), "ucc_collective_finalize");
    }
    ranks_close();
}

/* --- what is refused -------------------------------------------------------------------------- */

Test(engines, memory_of_the_host_is_refused_and_nothing_is_posted) {
    int32_t host[4] = {1, 2, 3, 4};
    ucc_coll_req_h request;
    ucc_ev_t *event;
    ranks_open("1", 1, 1);
    ucc_coll_args_t args = small_allreduce(host, host + 2, 2);
    must(ucc_collective_init(&args, &request, ranks_world->teams[0]), "ucc_collective_init");
    ucc_ev_t compute = {.ev_type = UCC_EVENT_COMPUTE_COMPLETE, .req = request};
    cr_assert_eq(ucc_collective_triggered_post(rank[0].ee, &compute), UCC_ERR_NOT_SUPPORTED);
    cr_assert(strstr(lines, "no buffer is in memory of a device"), "%s", lines);
    cr_assert_eq(ucc_ee_get_event(rank[0].ee, &event), UCC_ERR_NOT_FOUND);
    must(ucc_collective_post(request), "it may be posted without the stream");
    must(ucc_collective_finalize(request), "ucc_collective_finalize");
    ranks_close();
}

Test(engines, nothing_at_all_is_posted_all_the_same) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLREDUCE, .op = UCC_OP_SUM};
    ranks_open("1", 2, 1);
    args.src.info = rank_info(rank[0].src, 0);
    args.dst.info = rank_info(rank[0].dst, 0);
    ucc_coll_req_h request = rank_trigger(0, &args);
    must(ucc_collective_test(request), "it is over");
    must(ucc_collective_finalize(request), "ucc_collective_finalize");
    ranks_close();
}

Test(engines, a_stream_that_waits_no_more_has_an_engine_without_a_team) {
    ucc_ev_t *event, last;
    ranks_open("1", 1, 1);
    ucc_coll_req_h request = rank_allreduce(0);
    finish_all(&request);
    rank_await(0);
    world_destroy(ranks_world);
    cr_assert_eq(ucc_ee_get_event(rank[0].ee, &event), UCC_ERR_NOT_FOUND);
    cr_assert_eq(ucc_ee_wait(rank[0].ee, &last), UCC_ERR_NOT_FOUND);
    must(ucc_ee_destroy(rank[0].ee), "ucc_ee_destroy");
    device_stream_end(rank[0].stream);
    device_put(rank[0].src);
    device_put(rank[0].dst);
    device_put(rank[0].kept);
    device_cases_end();
}
