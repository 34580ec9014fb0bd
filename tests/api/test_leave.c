/* test_leave.c: endpoints leave once, and also when their thread ends instead of returning. */
#include "../support/deadline.h"
#include "core/log.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <heddle/schedule.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char lines[4096];

static void capture(hd_log_level_t level, const char *line, void *arg) {
    (void)level, (void)arg;
    size_t used = strlen(lines);
    snprintf(lines + used, sizeof(lines) - used, "%s\n", line);
}

static void listen(void) {
    hd_log_capture(capture, NULL);
}

TestSuite(leave, .timeout = 60, .init = listen);

static void join_two(heddle_group_t **group, heddle_ep_t *ep[2]) {
    heddle_group_params_t params = {.endpoints = 2};
    must(heddle_group_create(&params, group), "heddle_group_create");
    must(heddle_join(*group, 0, &ep[0]), "heddle_join");
    must(heddle_join(*group, 1, &ep[1]), "heddle_join");
}

Test(leave, to_leave_twice_is_a_mistake_that_is_told) {
    heddle_group_t *group;
    heddle_ep_t *ep[2];
    join_two(&group, ep);
    must(heddle_leave(ep[1]), "heddle_leave");
    cr_assert_eq(heddle_leave(ep[1]), UCC_ERR_INVALID_PARAM);
    cr_assert(strstr(lines, "heddle_leave: endpoint 1 has left already"), "%s", lines);
    cr_assert_eq(heddle_barrier(ep[1]), UCC_ERR_INVALID_PARAM);
    must(heddle_leave(ep[0]), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
}

static void run_in(ucc_schedule_t *schedule, ucc_coll_task_t *task, heddle_ep_t *ep) {
    must(ucc_schedule_init(schedule), "ucc_schedule_init");
    must(ucc_coll_task_init(task), "ucc_coll_task_init");
    must(ucc_schedule_add_task(schedule, task), "ucc_schedule_add_task");
    must(heddle_schedule_attach(schedule, heddle_ep_context(ep)), "heddle_schedule_attach");
    must(ucc_schedule_start(schedule), "ucc_schedule_start");
}

static void end(ucc_schedule_t *schedule, ucc_coll_task_t *task) {
    must(heddle_coll_task_end(task, UCC_OK), "heddle_coll_task_end");
    must(ucc_schedule_progress(schedule), "ucc_schedule_progress");
}

Test(leave, a_context_of_its_own_stays_while_a_schedule_runs_there) {
    heddle_group_t *group;
    heddle_ep_t *ep[2], *sub;
    ucc_schedule_t schedule;
    ucc_coll_task_t task;
    uint32_t list[] = {1};
    join_two(&group, ep);
    must(heddle_subset(ep[1], list, 1, &sub), "heddle_subset");
    run_in(&schedule, &task, ep[1]);
    must(heddle_leave(ep[1]), "heddle_leave, where the sub-team's endpoint has the same context");
    cr_assert_eq(heddle_leave(sub), UCC_ERR_INVALID_PARAM);
    cr_assert(strstr(lines, "1 schedules are running"), "%s", lines);
    end(&schedule, &task);
    must(heddle_leave(sub), "heddle_leave");
    must(heddle_leave(ep[0]), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
}

Test(leave, a_team_stays_while_a_schedule_that_runs_has_a_collective_to_start_on_it) {
    heddle_group_params_t params = {.endpoints = 1, .contexts = 1};
    heddle_group_t *group;
    heddle_ep_t *ep, *sub;
    ucc_schedule_t schedule, inner;
    ucc_coll_task_t first;
    heddle_request_task_t task;
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
    uint32_t list[] = {0};
    must(heddle_group_create(&params, &group), "heddle_group_create");
    must(heddle_join(group, 0, &ep), "heddle_join");
    for (int round = 0; round < 3; round++) {
        must(heddle_subset(ep, list, 1, &sub), "heddle_subset");
        must(heddle_collective_task_init(&task, heddle_ep_team(sub), &args, NULL), "task");
        must(ucc_schedule_init(&inner), "ucc_schedule_init");
        must(ucc_schedule_add_task(&inner, &task.super), "ucc_schedule_add_task");
        run_in(&schedule, &first, ep);
        must(heddle_schedule_cancel(&schedule), "heddle_schedule_cancel");
        cr_assert_eq(ucc_schedule_progress(&schedule), HEDDLE_ERR_CANCELED);
        must(ucc_event_manager_subscribe(&first.em, UCC_EVENT_COMPLETED, &inner.super),
             "subscribe");
        must(ucc_schedule_add_task(&schedule, &inner.super), "ucc_schedule_add_task");
        must(ucc_schedule_start(&schedule), "ucc_schedule_start");
        lines[0] = '\0';
        cr_assert_eq(heddle_leave(sub), UCC_ERR_INVALID_PARAM);
        cr_assert(strstr(lines, "1 collectives of schedules"), "%s", lines);
        if (round == 0) {
            must(heddle_coll_task_end(&first, UCC_OK), "heddle_coll_task_end");
        } else if (round == 1) {
            must(heddle_schedule_cancel(&schedule), "heddle_schedule_cancel");
        } else {
            cr_assert_eq(heddle_coll_task_end(&first, UCC_ERR_IO_ERROR), UCC_OK);
        }
        while (ucc_schedule_progress(&schedule) == UCC_INPROGRESS) {
        }
        must(heddle_leave(sub), "heddle_leave");
    }
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
}

Test(leave, a_group_s_contexts_stay_while_a_schedule_runs_there) {
    for (int creator_first = 0; creator_first < 2; creator_first++) {
        heddle_group_params_t params = {.endpoints = 1, .contexts = 1};
        heddle_group_t *group;
        heddle_ep_t *ep;
        ucc_schedule_t schedule;
        ucc_coll_task_t task;
        must(heddle_group_create(&params, &group), "heddle_group_create");
        must(heddle_join(group, 0, &ep), "heddle_join");
        run_in(&schedule, &task, ep);
        if (creator_first) {
            must(heddle_group_destroy(group), "heddle_group_destroy");
            cr_assert_eq(heddle_leave(ep), UCC_ERR_INVALID_PARAM);
            end(&schedule, &task);
            must(heddle_leave(ep), "heddle_leave");
        } else {
            must(heddle_leave(ep), "heddle_leave");
            cr_assert_eq(heddle_group_destroy(group), UCC_ERR_INVALID_PARAM);
            end(&schedule, &task);
            must(heddle_group_destroy(group), "heddle_group_destroy");
        }
    }
}

Test(leave, an_endpoint_of_a_sub_team_that_left_is_told_too) {
    heddle_group_t *group;
    heddle_ep_t *ep[2], *sub = NULL;
    uint32_t list[] = {1};
    join_two(&group, ep);
    for (int i = 0; i < 3; i++) { /* its memory is used again */
        must(heddle_subset(ep[1], list, 1, &sub), "heddle_subset");
        must(heddle_barrier(sub), "heddle_barrier");
        must(heddle_leave(sub), "heddle_leave");
        cr_assert_eq(heddle_leave(sub), UCC_ERR_INVALID_PARAM);
        cr_assert(strstr(lines, "endpoint 0 has left already"), "%s", lines);
        lines[0] = '\0';
    }
    must(heddle_leave(ep[0]), "heddle_leave");
    must(heddle_leave(ep[1]), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
}

static ucc_status_t seen[2];

static void one_exits(heddle_ep_t *ep, void *arg) {
    (void)arg;
    uint32_t me = heddle_ep_index(ep);
    must(heddle_barrier(ep), "heddle_barrier");
    if (me == 1) {
        pthread_exit(NULL);
    }
    seen[me] = heddle_barrier(ep);
}

Test(leave, a_thread_that_ends_in_work_has_left) {
    cr_assert_eq(heddle_run(2, one_exits, NULL), UCC_ERR_NO_MESSAGE);
    cr_assert_eq(seen[0], UCC_ERR_NOT_FOUND);
    cr_assert(strstr(lines, "the thread of endpoint 1 has ended in work"), "%s", lines);
}

/* With a large exchange under way, in which the others may be at work on its memory. */
static void one_exits_in_an_exchange(heddle_ep_t *ep, void *arg) {
    enum { LARGE = 100000 };
    static double result[3][LARGE];
    double mine[1000];
    uint32_t me = heddle_ep_index(ep);
    ucc_coll_req_h request;
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        mine[i] = i;
    }
    must(heddle_barrier(ep), "heddle_barrier");
    if (me == 1) {
        must(heddle_iallgather(ep, mine, result[me], 1000, UCC_DT_FLOAT64, &request), "post");
        pthread_exit(NULL);
    }
    ucc_status_t status = heddle_allgather(ep, mine, result[me], 1000, UCC_DT_FLOAT64);
    if (status == UCC_OK) {
        status = heddle_barrier(ep);
    }
    cr_expect_eq(status, UCC_ERR_NOT_FOUND);
}

Test(leave, what_a_thread_has_in_progress_ends_with_it) {
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(heddle_run(3, one_exits_in_an_exchange, NULL), UCC_ERR_NO_MESSAGE);
    }
}

static void one_leaves_and_exits(heddle_ep_t *ep, void *arg) {
    (void)arg;
    must(heddle_barrier(ep), "heddle_barrier");
    if (heddle_ep_index(ep) == 1) {
        must(heddle_leave(ep), "heddle_leave");
        pthread_exit(NULL);
    }
}

Test(leave, a_thread_may_end_in_work_after_its_endpoint_has_left) {
    cr_assert_eq(heddle_run(2, one_leaves_and_exits, NULL), UCC_ERR_NO_MESSAGE);
    cr_assert(strstr(lines, "the thread of endpoint 1 has ended in work"), "%s", lines);
}

/* arg: has the endpoint that they were made from left before? */
static void one_exits_from_sub_teams(heddle_ep_t *ep, void *arg) {
    uint32_t list[] = {1, 0}, me = heddle_ep_index(ep);
    heddle_ep_t *sub = NULL, *below = NULL, *gone = NULL;
    must(heddle_split(ep, 1, 0, &sub), "heddle_split");
    must(heddle_subset(sub, list, 2, &gone), "heddle_subset");
    must(heddle_subset(sub, list, 2, &below), "heddle_subset");
    must(heddle_barrier(below), "heddle_barrier");
    must(heddle_leave(gone), "heddle_leave");
    if (me == 1) {
        if (arg) {
            must(heddle_leave(ep), "heddle_leave");
        }
        pthread_exit(NULL);
    }
    cr_expect_eq(heddle_barrier(below), UCC_ERR_NOT_FOUND);
    cr_expect_eq(heddle_barrier(sub), UCC_ERR_NOT_FOUND);
    must(heddle_leave(below), "heddle_leave");
    must(heddle_leave(sub), "heddle_leave");
}

Test(leave, a_thread_that_ends_in_work_has_left_its_sub_teams_too) {
    int left = 1;
    cr_assert_eq(heddle_run(2, one_exits_from_sub_teams, NULL), UCC_ERR_NO_MESSAGE);
    cr_assert_eq(heddle_run(2, one_exits_from_sub_teams, &left), UCC_ERR_NO_MESSAGE);
}

static void one_exits_in_an_exchange_of_a_sub_team(heddle_ep_t *ep, void *arg) {
    heddle_ep_t *sub = NULL;
    must(heddle_split(ep, 1, 0, &sub), "heddle_split");
    one_exits_in_an_exchange(sub, arg);
    must(heddle_leave(sub), "heddle_leave");
}

Test(leave, what_a_thread_has_in_progress_in_a_sub_team_ends_with_it) {
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(heddle_run(3, one_exits_in_an_exchange_of_a_sub_team, NULL),
                     UCC_ERR_NO_MESSAGE);
    }
}

/* Two of them; arg: does a triggered collective wait for its event? */
static void one_exits_with_an_engine(heddle_ep_t *ep, void *arg) {
    ucc_ee_params_t params = {.ee_type = UCC_EE_CPU_THREAD};
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
    ucc_ee_h engine;
    ucc_ev_t event = {.ev_type = UCC_EVENT_COMPUTE_COMPLETE};
    must(heddle_barrier(ep), "heddle_barrier");
    if (heddle_ep_index(ep) == 0) {
        cr_expect_eq(heddle_barrier(ep), UCC_ERR_NOT_FOUND);
        return;
    }
    must(ucc_ee_create(heddle_ep_team(ep), &params, &engine), "ucc_ee_create");
    must(ucc_ee_create(heddle_ep_team(ep), &params, &engine), "ucc_ee_create");
    if (arg) {
        must(ucc_collective_init(&args, &event.req, heddle_ep_team(ep)), "init");
        must(ucc_collective_triggered_post(engine, &event), "ucc_collective_triggered_post");
    }
    pthread_exit(NULL);
}

Test(leave, the_engines_of_a_thread_that_ends_in_work_end_with_it) {
    int waits = 1;
    cr_assert_eq(heddle_run(2, one_exits_with_an_engine, NULL), UCC_ERR_NO_MESSAGE);
    cr_assert_eq(heddle_run(2, one_exits_with_an_engine, &waits), UCC_ERR_NO_MESSAGE);
}

/* --- teams that the program makes ------------------------------------------------------------- */

/* Teams of both endpoints' own team. */
static void derive(heddle_ep_t *ep[2], ucc_team_h team[2]) {
    for (uint32_t i = 0; i < 2; i++) {
        must(ucc_team_create_from_parent(i, 1, heddle_ep_team(ep[i]), &team[i]), "from a parent");
    }
    deadline_t deadline = deadline_start("a team from a parent");
    for (bool all = false; !all;) {
        ucc_status_t status[2] = {ucc_team_create_test(team[0]), ucc_team_create_test(team[1])};
        must(status[0] < 0   ? status[0]
             : status[1] < 0 ? status[1]
                             : UCC_OK,
             "a team from a parent");
        all = status[0] == UCC_OK && status[1] == UCC_OK;
        deadline_poll(&deadline);
    }
}

/* By one thread: both post, and progress until both have it. */
static void sum(ucc_team_h team[2], ucc_context_h context[2]) {
    uint64_t one[2] = {1, 2}, all[2] = {0, 0};
    ucc_coll_req_h request[2];
    for (uint32_t i = 0; i < 2; i++) {
        ucc_coll_args_t args = {
            .coll_type = UCC_COLL_TYPE_ALLREDUCE,
            .src.info = {&one[i], 1, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST},
            .dst.info = {&all[i], 1, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST},
            .op = UCC_OP_SUM,
        };
        must(ucc_collective_init(&args, &request[i], team[i]), "ucc_collective_init");
        must(ucc_collective_post(request[i]), "ucc_collective_post");
    }
    deadline_t deadline = deadline_start("a sum");
    while (ucc_collective_test(request[0]) != UCC_OK || ucc_collective_test(request[1]) != UCC_OK) {
        must(ucc_context_progress(context[0]), "ucc_context_progress");
        must(ucc_context_progress(context[1]), "ucc_context_progress");
        deadline_poll(&deadline);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cr_expect_eq(all[i], 3);
        must(ucc_collective_finalize(request[i]), "ucc_collective_finalize");
    }
}

/* Which of the two endpoints, the team and the group go first: all orders. */
static void leave_in_order(bool group_first, bool progress_thread, uint32_t left_before,
                           uint32_t contexts) {
    heddle_group_params_t params = {
        .endpoints = 2, .progress_thread = progress_thread, .contexts = contexts};
    heddle_group_t *group;
    heddle_ep_t *ep[2];
    ucc_team_h team[2], second[2];
    ucc_context_h context[2];
    must(heddle_group_create(&params, &group), "heddle_group_create");
    for (uint32_t i = 0; i < 2; i++) {
        must(heddle_join(group, i, &ep[i]), "heddle_join");
        context[i] = heddle_ep_context(ep[i]);
    }
    derive(ep, team);
    derive(ep, second);
    for (uint32_t i = 0; i < left_before; i++) {
        must(heddle_leave(ep[i]), "heddle_leave");
    }
    if (group_first) {
        must(heddle_group_destroy(group), "heddle_group_destroy");
    }
    sum(team, context);
    for (uint32_t i = 0; i < 2; i++) {
        must(ucc_team_destroy(team[i]), "ucc_team_destroy");
    }
    sum(second, context);
    for (uint32_t i = 0; i < 2; i++) {
        must(ucc_team_destroy(second[i]), "ucc_team_destroy");
    }
    for (uint32_t i = left_before; i < 2; i++) {
        must(heddle_leave(ep[i]), "heddle_leave");
    }
    if (!group_first) {
        must(heddle_group_destroy(group), "heddle_group_destroy");
    }
    cr_expect_str_empty(lines);
}

/* AddressSanitizer says whether all is given back. */
Test(leave, teams_that_the_program_has_made_live_on_with_their_contexts) {
    for (uint32_t i = 0; i < 36; i++) {
        leave_in_order(i & 1, i >> 1 & 1, i / 4 % 3, i / 12);
    }
}

/* --- whose callbacks are called meanwhile --- */

typedef struct last {
    ucc_team_h team;
    heddle_ep_t *ep;
    bool called;
    sem_t entered, may_go;
} last_t;

static ucc_coll_req_h post_barrier(ucc_team_h team, ucc_coll_callback_t callback) {
    ucc_coll_args_t args = {
        .mask = UCC_COLL_ARGS_FIELD_CB, .coll_type = UCC_COLL_TYPE_BARRIER, .cb = callback};
    ucc_coll_req_h request;
    must(ucc_collective_init(&args, &request, team), "ucc_collective_init");
    must(ucc_collective_post(request), "ucc_collective_post");
    return request;
}

/* All of both but what the program has made is given up: the first one's barrier calls back, the
 * second one's is over, and its team gone. */
static void leave_last(bool progress_thread, void (*call)(void *arg, ucc_status_t status),
                       last_t *last, ucc_context_h *context) {
    heddle_group_params_t params = {.endpoints = 2, .progress_thread = progress_thread};
    heddle_group_t *group;
    heddle_ep_t *ep[2];
    ucc_team_h team[2];
    must(heddle_group_create(&params, &group), "heddle_group_create");
    for (uint32_t i = 0; i < 2; i++) {
        must(heddle_join(group, i, &ep[i]), "heddle_join");
    }
    *context = heddle_ep_context(ep[0]);
    derive(ep, team);
    last->team = team[0];
    (void)post_barrier(team[0], (ucc_coll_callback_t){call, last});
    ucc_coll_req_h other = post_barrier(team[1], (ucc_coll_callback_t){0});
    deadline_t deadline = deadline_start("a barrier");
    while (ucc_collective_test(other) == UCC_INPROGRESS) {
        must(ucc_context_progress(heddle_ep_context(ep[1])), "ucc_context_progress");
        deadline_poll(&deadline);
    }
    must(ucc_collective_finalize(other), "ucc_collective_finalize");
    must(ucc_team_destroy(team[1]), "ucc_team_destroy");
    if (progress_thread) {
        cr_assert_eq(sem_wait(&last->entered), 0);
    }
    must(heddle_group_destroy(group), "heddle_group_destroy");
    must(heddle_leave(ep[1]), "heddle_leave");
    must(heddle_leave(ep[0]), "heddle_leave");
}

static void destroy_last(void *arg, ucc_status_t status) {
    last_t *last = arg;
    cr_expect_eq(status, UCC_OK);
    last->called = true;
    must(ucc_team_destroy(last->team), "ucc_team_destroy");
}

/* With it go the context that calls it, the group and the library. */
Test(leave, a_callback_may_destroy_the_last_team) {
    last_t last = {.called = false};
    ucc_context_h context;
    leave_last(false, destroy_last, &last, &context);
    cr_assert_not(last.called);
    deadline_t deadline = deadline_start("a callback");
    while (!last.called) {
        must(ucc_context_progress(context), "ucc_context_progress");
        deadline_poll(&deadline);
    }
    cr_expect_str_empty(lines);
}

static void destroy_and_throw(void *arg, ucc_status_t status) {
    destroy_last(arg, status);
    pthread_exit(NULL);
}

static void *progress(void *arg) {
    while (ucc_context_progress(arg) == UCC_OK) {
    }
    return NULL;
}

Test(leave, a_callback_may_destroy_the_last_team_and_end_its_thread) {
    last_t last = {.called = false};
    ucc_context_h context;
    pthread_t thread;
    leave_last(false, destroy_and_throw, &last, &context);
    cr_assert_eq(pthread_create(&thread, NULL, progress, context), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert(last.called);
    cr_expect_str_empty(lines);
}

static void stay(void *arg, ucc_status_t status) {
    last_t *last = arg;
    cr_expect_eq(status, UCC_OK);
    sem_post(&last->entered);
    sem_wait(&last->may_go);
}

/* It has the context in hand as the last endpoint leaves, and as the last team goes. */
Test(leave, a_team_lives_on_while_the_progress_thread_is_in_its_callback) {
    for (uint32_t i = 0; i < 20; i++) {
        last_t last = {.called = false};
        ucc_context_h context;
        cr_assert_eq(sem_init(&last.entered, 0, 0), 0);
        cr_assert_eq(sem_init(&last.may_go, 0, 0), 0);
        leave_last(true, stay, &last, &context);
        sem_post(&last.may_go);
        if (i % 2) { /* it may have gone on, and given the context back */
            usleep(1000);
        }
        must(ucc_team_destroy(last.team), "ucc_team_destroy");
        cr_expect_str_empty(lines);
    }
}

static void leave_in_callback(void *arg, ucc_status_t status) {
    last_t *last = arg;
    cr_expect_eq(status, UCC_OK);
    must(heddle_leave(last->ep), "heddle_leave");
    sem_post(&last->entered);
    sem_wait(&last->may_go);
}

static void *progress_once(void *arg) {
    (void)ucc_context_progress(arg);
    return NULL;
}

/* The progress thread, or whoever holds the group last, must not take the context from under it. */
Test(leave, a_callback_may_give_up_the_endpoint_whose_context_calls_it) {
    for (uint32_t contexts = 0; contexts < 3; contexts++) {
        for (uint32_t round = 0; round < 20; round++) {
            heddle_group_params_t params = {.endpoints = 2, .contexts = contexts};
            heddle_group_t *group;
            heddle_ep_t *ep[2];
            pthread_t thread;
            params.thread_mode = UCC_THREAD_MULTIPLE;
            must(heddle_group_create(&params, &group), "heddle_group_create");
            for (uint32_t i = 0; i < 2; i++) {
                must(heddle_join(group, i, &ep[i]), "heddle_join");
            }
            last_t last = {.ep = ep[0]};
            cr_assert_eq(sem_init(&last.entered, 0, 0), 0);
            cr_assert_eq(sem_init(&last.may_go, 0, 0), 0);
            ucc_context_h context = heddle_ep_context(ep[0]);
            (void)post_barrier(heddle_ep_team(ep[0]),
                               (ucc_coll_callback_t){leave_in_callback, &last});
            ucc_coll_req_h other = post_barrier(heddle_ep_team(ep[1]), (ucc_coll_callback_t){0});
            cr_assert_eq(pthread_create(&thread, NULL, progress_once, context), 0);
            cr_assert_eq(sem_wait(&last.entered), 0);
            deadline_t deadline = deadline_start("a barrier");
            while (ucc_collective_test(other) == UCC_INPROGRESS) {
                must(heddle_progress(ep[1]), "heddle_progress");
                deadline_poll(&deadline);
            }
            must(ucc_collective_finalize(other), "ucc_collective_finalize");
            must(heddle_leave(ep[1]), "heddle_leave");
            must(heddle_group_destroy(group), "heddle_group_destroy");
            sem_post(&last.may_go);
            cr_assert_eq(pthread_join(thread, NULL), 0);
            cr_expect_str_empty(lines);
        }
    }
}
