/* test_stall.c: whoever waits too long says so, and for whom: one test for each way to wait. One
 * thread plays all endpoints that are there, unless the wait itself is a blocking call: then a
 * second thread comes as soon as the line is out. No test depends on how fast lines come.
 */
#include "../support/deadline.h"
#include "../support/world.h"
#include "core/log.h"
#include "request/request.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- lines ------------------------------------------------------------------------------------ */

enum { MOST_LINES = 512 };

static struct {
    pthread_mutex_t lock;
    int n;
    char line[MOST_LINES][1024];
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void hear(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)arg;
    pthread_mutex_lock(&heard.lock);
    if (heard.n < MOST_LINES) {
        snprintf(heard.line[heard.n++], sizeof(heard.line[0]), "%s", line);
    }
    pthread_mutex_unlock(&heard.lock);
}

/* Is there a line with both texts? */
static bool said(const char *one, const char *other) {
    bool found = false;
    pthread_mutex_lock(&heard.lock);
    for (int i = 0; i < heard.n && !found; i++) {
        found = strstr(heard.line[i], one) && strstr(heard.line[i], other);
    }
    pthread_mutex_unlock(&heard.lock);
    return found;
}

static void tell_all(void) {
    for (int i = 0; i < heard.n; i++) {
        fprintf(stderr, "    %s\n", heard.line[i]);
    }
}

static void listen(void) {
    unsetenv("HEDDLE_LOG_LEVEL");
    setenv("HEDDLE_STALL", "0.02", 1);
    setenv("HEDDLE_TEST_SLOWDOWN", "0.34", 0); /* 20 s: a hang is found soon */
    hd_log_capture(hear, NULL);
}

TestSuite(stall, .init = listen, .timeout = 120);
TestSuite(timeout, .init = listen, .timeout = 120);

/* --- endpoints -------------------------------------------------------------------------------- */

enum { MOST = 40 };

typedef struct crew {
    uint32_t n;
    heddle_group_t *group;
    heddle_ep_t *ep[MOST];
} crew_t;

static crew_t crew_of(uint32_t n, uint32_t joined) {
    crew_t crew = {.n = n};
    must(heddle_group_create(&(heddle_group_params_t){.endpoints = n}, &crew.group), "group");
    for (uint32_t i = 0; i < joined; i++) {
        must(heddle_join(crew.group, i, &crew.ep[i]), "join");
    }
    return crew;
}

static ucc_coll_args_t barrier_args(void) {
    return (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_BARRIER};
}

static ucc_coll_req_h post(heddle_ep_t *ep, ucc_coll_args_t args) {
    ucc_coll_req_h request;
    must(ucc_collective_init(&args, &request, heddle_ep_team(ep)), "init");
    must(ucc_collective_post(request), "post");
    return request;
}

/* Progresses one endpoint's context until there is such a line. */
static void expect_line(heddle_ep_t *ep, const char *one, const char *other) {
    deadline_t deadline = deadline_start(other);
    while (!said(one, other)) {
        ucc_context_progress(heddle_ep_context(ep));
        if (test_now() > deadline.end) {
            tell_all();
            cr_assert_fail("no line says \"%s\" and \"%s\"", one, other);
        }
    }
}

/* A barrier of all, so that everybody has a past. */
static void meet(crew_t *crew) {
    ucc_coll_req_h request[MOST];
    for (uint32_t i = 0; i < crew->n; i++) {
        request[i] = post(crew->ep[i], barrier_args());
    }
    deadline_t deadline = deadline_start("a barrier of all");
    for (uint32_t i = 0; i < crew->n; i++) {
        while (ucc_collective_test(request[i]) == UCC_INPROGRESS) {
            for (uint32_t j = 0; j < crew->n; j++) {
                ucc_context_progress(heddle_ep_context(crew->ep[j]));
            }
            deadline_poll(&deadline);
        }
        must(ucc_collective_finalize(request[i]), "finalize");
    }
}

/* --- one test for each way to wait ------------------------------------------------------------ */

Test(stall, a_client_that_polls_hears_who_is_missing) {
    crew_t crew = crew_of(3, 3);
    meet(&crew);
    post(crew.ep[0], barrier_args());
    post(crew.ep[2], barrier_args());
    expect_line(crew.ep[0], "barrier 2: endpoint 0 of 3 has waited",
                "for endpoint 1 (last in barrier 1");
}

/* By endpoint 1, for an event that never comes. */
static void post_triggered(crew_t *crew, ucc_coll_args_t *args) {
    ucc_team_h team = heddle_ep_team(crew->ep[1]);
    ucc_ee_params_t params = {.ee_type = UCC_EE_CPU_THREAD};
    ucc_ev_t event = {.ev_type = UCC_EVENT_COMPUTE_COMPLETE};
    ucc_ee_h ee;
    must(ucc_ee_create(team, &params, &ee), "ucc_ee_create");
    must(ucc_collective_init(args, &event.req, team), "init");
    must(ucc_collective_triggered_post(ee, &event), "ucc_collective_triggered_post");
}

Test(stall, a_triggered_collective_waits_for_its_event) {
    crew_t crew = crew_of(2, 2);
    ucc_coll_args_t args = barrier_args();
    post_triggered(&crew, &args);
    expect_line(crew.ep[1], "barrier: endpoint 1 of 2 has waited", "for its event");
}

Test(stall, a_triggered_allgatherv_is_called_so) {
    crew_t crew = crew_of(2, 2);
    int32_t src = 1, dst[2];
    uint32_t counts[] = {1, 1};
    ucc_coll_args_t args = {
        .coll_type = UCC_COLL_TYPE_ALLGATHERV,
        .src.info = {.buffer = &src, .count = 1, .datatype = UCC_DT_INT32},
        .dst.info_v = {.buffer = dst, .counts = (ucc_count_t *)counts, .datatype = UCC_DT_INT32}};
    post_triggered(&crew, &args);
    expect_line(crew.ep[1], "allgatherv: endpoint 1 of 2 has waited", "for its event");
}

Test(stall, a_line_comes_again_when_the_wait_is_twice_as_long) {
    crew_t crew = crew_of(2, 2);
    post(crew.ep[0], barrier_args());
    expect_line(crew.ep[0], "barrier 1: endpoint 0 of 2", "in no collective yet");
    int before = heard.n;
    deadline_t deadline = deadline_start("a second line");
    while (heard.n == before) {
        ucc_context_progress(heddle_ep_context(crew.ep[0]));
        deadline_poll(&deadline);
    }
}

Test(stall, nothing_is_said_when_it_is_off) {
    setenv("HEDDLE_STALL", "0", 1);
    crew_t crew = crew_of(2, 2);
    post(crew.ep[0], barrier_args());
    for (double end = test_now() + 0.1; test_now() < end;) {
        ucc_context_progress(heddle_ep_context(crew.ep[0]));
    }
    cr_assert_eq(heard.n, 0);
}

typedef struct late {
    heddle_ep_t *ep;
    const char *one, *other;
    bool came;
} late_t;

/* Comes once the line is out. */
static void *come_late(void *arg) {
    late_t *late = arg;
    deadline_t deadline = deadline_start(late->other);
    while (!said(late->one, late->other) && test_now() < deadline.end) {
        sched_yield();
    }
    late->came = test_now() < deadline.end;
    must(heddle_barrier(late->ep), "heddle_barrier");
    return NULL;
}

static void expect_line_of(late_t *late, ucc_status_t (*wait)(heddle_ep_t *ep), heddle_ep_t *ep) {
    pthread_t thread;
    pthread_create(&thread, NULL, come_late, late);
    ucc_status_t status = wait(ep);
    pthread_join(thread, NULL);
    if (!late->came) {
        tell_all();
    }
    cr_assert(late->came, "no line says \"%s\" and \"%s\"", late->one, late->other);
    cr_assert_eq(status, UCC_OK);
}

static ucc_status_t wait_for_request(heddle_ep_t *ep) {
    ucc_coll_req_h request = post(ep, barrier_args());
    return heddle_wait(request, -1);
}

Test(stall, a_thread_that_sleeps_in_heddle_wait_says_for_whom) {
    crew_t crew = crew_of(2, 2);
    late_t late = {crew.ep[1], "barrier 1: endpoint 0 of 2", "endpoint 1 (in no collective yet", 0};
    expect_line_of(&late, wait_for_request, crew.ep[0]);
}

Test(stall, a_blocking_call_says_for_whom_it_waits) {
    crew_t crew = crew_of(2, 2);
    meet(&crew);
    late_t late = {crew.ep[1], "barrier 2: endpoint 0 of 2", "endpoint 1 (last in barrier 1", 0};
    expect_line_of(&late, heddle_barrier, crew.ep[0]);
}

static ucc_status_t call_twice(heddle_ep_t *ep) {
    ucc_status_t status = heddle_barrier(ep);
    return status == UCC_OK ? heddle_barrier(ep) : status;
}

static void *call_once_and_come_late(void *arg) {
    must(heddle_barrier(((late_t *)arg)->ep), "heddle_barrier");
    return come_late(arg);
}

Test(stall, so_does_a_call_that_began_by_the_express) {
    crew_t crew = crew_of(2, 2);
    late_t late = {crew.ep[1], "barrier 2: endpoint 0 of 2", "endpoint 1 (last in barrier 1", 0};
    pthread_t thread;
    pthread_create(&thread, NULL, call_once_and_come_late, &late);
    must(call_twice(crew.ep[0]), "two barriers");
    pthread_join(thread, NULL);
    cr_assert(late.came);
}

Test(stall, an_operation_held_back_by_flow_control_says_by_whom) {
    crew_t crew = crew_of(3, 3);
    static int32_t word;
    for (int i = 0; i < 20; i++) { /* the ring has 8 places */
        ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BCAST, .root = 0};
        args.src.info = (ucc_coll_buffer_info_t){&word, 1, UCC_DT_INT32, UCC_MEMORY_TYPE_HOST};
        post(crew.ep[0], args);
        if (i < 4) {
            post(crew.ep[1], args);
        }
        ucc_context_progress(heddle_ep_context(crew.ep[1]));
    }
    expect_line(crew.ep[0], "bcast 9: endpoint 0 of 3",
                "for endpoint 2 (in no collective yet; joined by the caller's thread) to end");
}

Test(stall, an_operation_behind_its_own_says_so) {
    crew_t crew = crew_of(2, 2);
    for (int i = 0; i < 6; i++) {
        post(crew.ep[0], barrier_args());
    }
    expect_line(crew.ep[0], "barrier 5: endpoint 0 of 2", "its own operations before it");
    expect_line(crew.ep[0], "barrier 1: endpoint 0 of 2", "endpoint 1 (in no collective yet");
}

Test(stall, before_all_have_joined_it_is_said_who_has_not) {
    crew_t crew = crew_of(4, 2);
    post(crew.ep[0], barrier_args());
    expect_line(crew.ep[0], "barrier 1: endpoint 0 of 4",
                "endpoint 2 (has not joined) and endpoint 3 (has not joined) to join");
}

static ucc_coll_args_t tagged(uint16_t tag) {
    ucc_coll_args_t args = barrier_args();
    args.mask = UCC_COLL_ARGS_FIELD_TAG;
    args.tag = tag;
    return args;
}

Test(stall, the_same_for_tagged_ones) {
    crew_t crew = crew_of(3, 2);
    post(crew.ep[1], tagged(7));
    expect_line(crew.ep[1], "barrier: endpoint 1 of 3", "endpoint 2 (has not joined) to join");
}

Test(stall, a_tagged_one_names_its_tag) {
    crew_t crew = crew_of(3, 3);
    meet(&crew);
    post(crew.ep[1], tagged(7));
    post(crew.ep[2], tagged(7));
    post(crew.ep[0], tagged(8));
    expect_line(crew.ep[1], "barrier with tag 7: endpoint 1 of 3",
                "for endpoint 0 (last in barrier 1");
}

Test(stall, an_active_set_names_the_team_s_endpoints) {
    crew_t crew = crew_of(6, 6);
    static int32_t word;
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_ACTIVE_SET,
                            .coll_type = UCC_COLL_TYPE_BCAST,
                            .root = 3,
                            .active_set = {.start = 1, .stride = 2, .size = 3}};
    args.src.info = (ucc_coll_buffer_info_t){&word, 1, UCC_DT_INT32, UCC_MEMORY_TYPE_HOST};
    post(crew.ep[5], args);
    expect_line(crew.ep[5], "size 3}: endpoint 5 of 6", "for endpoint 3 (");
}

Test(stall, an_active_set_posted_before_all_have_joined_names_those_who_have_not) {
    crew_t crew = crew_of(6, 4);
    static int32_t word;
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_ACTIVE_SET,
                            .coll_type = UCC_COLL_TYPE_BCAST,
                            .root = 1,
                            .active_set = {.start = 1, .stride = 1, .size = 3}};
    args.src.info = (ucc_coll_buffer_info_t){&word, 1, UCC_DT_INT32, UCC_MEMORY_TYPE_HOST};
    post(crew.ep[2], args);
    expect_line(crew.ep[2], "bcast: endpoint 2 of 6",
                "endpoint 4 (has not joined) and endpoint 5 (has not joined) to join");
}

static ucc_coll_args_t persistent_args(void) {
    ucc_coll_args_t args = barrier_args();
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
    return args;
}

/* A persistent barrier of all, made and started by endpoint 0 first, whose waiting is looked after
 * at these two times. Returns its request, which is over. */
static ucc_coll_req_h start_anew(crew_t *crew, uint64_t now, uint64_t then) {
    ucc_coll_req_h request[MOST];
    request[0] = post(crew->ep[0], persistent_args());
    (void)hd_request_look_after((hd_task_t *)(void *)request[0], now);
    (void)hd_request_look_after((hd_task_t *)(void *)request[0], then);
    for (uint32_t i = 1; i < crew->n; i++) {
        request[i] = post(crew->ep[i], persistent_args());
    }
    deadline_t deadline = deadline_start("a persistent barrier");
    for (uint32_t i = 0; i < crew->n; i++) {
        while (ucc_collective_test(request[i]) == UCC_INPROGRESS) {
            ucc_context_progress(heddle_ep_context(crew->ep[i]));
            deadline_poll(&deadline);
        }
        must(ucc_collective_finalize(request[i]), "finalize");
    }
    return request[0];
}

enum { SECOND_US = 1000000 };

Test(stall, a_persistent_request_made_anew_begins_to_wait_anew) {
    setenv("HEDDLE_STALL", "1000", 1);
    crew_t crew = crew_of(2, 2);
    uint64_t now = hd_ticks(), later = now + 1500 * SECOND_US * hd_ticks_per_us;
    ucc_coll_req_h first = start_anew(&crew, now, now);
    cr_assert_eq(start_anew(&crew, later, later), first, "not the same memory");
    cr_assert_eq(heard.n, 0, "a wait that began just now: %s", heard.line[0]);
}

Test(stall, the_board_of_a_persistent_request_made_anew_has_said_nothing_yet) {
    setenv("HEDDLE_STALL", "1000", 1);
    crew_t crew = crew_of(12, 12); /* of so many, one speaks for all */
    uint64_t now = hd_ticks(), wait = 1500 * SECOND_US * hd_ticks_per_us;
    start_anew(&crew, now, now + wait);
    cr_assert_eq(heard.n, 1);
    start_anew(&crew, now + 2 * wait, now + 3 * wait);
    cr_assert_eq(heard.n, 2);
}

Test(stall, a_persistent_one_names_its_number) {
    crew_t crew = crew_of(2, 2);
    post(crew.ep[0], persistent_args());
    expect_line(crew.ep[0], "persistent barrier 1, start 1: endpoint 0 of 2", "for endpoint 1 (");
}

Test(stall, so_does_one_of_a_team_ordered_by_init) {
    world_t *world = world_create(
        &(world_params_t){.size = 2, .form = WORLD_OOB, .ordering = UCC_COLLECTIVE_INIT_ORDERED});
    ucc_coll_args_t args = barrier_args();
    ucc_coll_req_h request;
    must(ucc_collective_init(&args, &request, world->teams[0]), "init");
    must(ucc_collective_post(request), "post");
    deadline_t deadline = deadline_start("a line");
    while (!said("barrier 1 in the order of init: endpoint 0 of 2", "for endpoint 1 (")) {
        ucc_context_progress(world_context(world, 0));
        deadline_poll(&deadline);
    }
}

/* --- beyond a few endpoints ------------------------------------------------------------------- */

Test(stall, an_arrival_by_counter_knows_who_has_not_come) {
    setenv("HEDDLE_ARRIVAL", "counter", 1);
    crew_t crew = crew_of(12, 12);
    for (uint32_t i = 0; i < 12; i++) {
        if (i != 9) {
            post(crew.ep[i], barrier_args());
        }
    }
    expect_line(crew.ep[4], "barrier 1: endpoint 4 of 12", "for endpoint 9 (in no collective yet");
}

Test(stall, a_static_arrival_knows_who_has_not_come) {
    setenv("HEDDLE_ARRIVAL", "static", 1);
    crew_t crew = crew_of(12, 12);
    for (uint32_t i = 0; i < 12; i++) {
        if (i != 9) {
            post(crew.ep[i], barrier_args());
        }
    }
    expect_line(crew.ep[4], "barrier 1: endpoint 4 of 12", "for endpoint 9 (in no collective yet");
}

Test(stall, a_static_arrival_knows_who_has_come_and_does_not_combine) {
    setenv("HEDDLE_ARRIVAL", "static", 1);
    crew_t crew = crew_of(12, 12);
    for (uint32_t i = 0; i < 12; i++) {
        post(crew.ep[i], barrier_args());
    }
    expect_line(
        crew.ep[4], "barrier 1: endpoint 4 of 12 has waited",
        " for endpoint 0 (in barrier; joined by the caller's thread) and endpoint 8 (in barrier; "
        "joined by the caller's thread) to hand on what has arrived");
}

Test(stall, a_butterfly_knows_who_has_not_come) {
    setenv("HEDDLE_ARRIVAL", "butterfly", 1);
    crew_t crew = crew_of(12, 12);
    for (uint32_t i = 0; i < 12; i++) {
        if (i != 9) {
            post(crew.ep[i], barrier_args());
        }
    }
    expect_line(crew.ep[4], "barrier 1: endpoint 4 of 12", "for endpoint 9 (in no collective yet");
}

/* Of blocks 0 to 7, 8 to 15 and 16 to 19, endpoint 4 reads what 12 and 16 combine; 12 first. */
Test(stall, a_butterfly_knows_who_has_come_and_does_not_combine) {
    setenv("HEDDLE_ARRIVAL", "butterfly", 1);
    crew_t crew = crew_of(20, 20);
    for (uint32_t i = 0; i < 20; i++) {
        post(crew.ep[i], barrier_args());
    }
    expect_line(crew.ep[4], "barrier 1: endpoint 4 of 20 has waited",
                " for endpoint 12 (in barrier; joined by the caller's thread) to hand on what has "
                "arrived");
}

static int32_t one_way_data[MOST];
static uint64_t one_way_counts[MOST];

/* A scatterv or gatherv of one number for each, of or to this root. */
static ucc_coll_args_t one_way_args(ucc_coll_type_t type, uint32_t me, uint32_t root, uint32_t n) {
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = UCC_COLL_ARGS_FLAG_COUNT_64BIT |
                                     UCC_COLL_ARGS_FLAG_CONTIG_SRC_BUFFER |
                                     UCC_COLL_ARGS_FLAG_CONTIG_DST_BUFFER,
                            .coll_type = type,
                            .root = root};
    static int32_t mine[MOST];
    ucc_coll_buffer_info_t block = {&mine[me], 1, UCC_DT_INT32, UCC_MEMORY_TYPE_HOST};
    ucc_coll_buffer_info_v_t all = {.buffer = one_way_data,
                                    .counts = (ucc_count_t *)(void *)one_way_counts,
                                    .datatype = UCC_DT_INT32,
                                    .mem_type = UCC_MEMORY_TYPE_HOST};
    for (uint32_t i = 0; i < n; i++) {
        one_way_counts[i] = 1;
    }
    if (type == UCC_COLL_TYPE_SCATTERV) {
        args.dst.info = block;
        args.src.info_v = all;
    } else {
        args.src.info = block;
        args.dst.info_v = all;
    }
    return args;
}

/* All but these two; root 1, which is not the first of a block. */
static crew_t one_way_without(ucc_coll_type_t type, uint32_t one, uint32_t other) {
    setenv("HEDDLE_ARRIVAL", "static", 1);
    crew_t crew = crew_of(20, 20);
    for (uint32_t i = 0; i < 20; i++) {
        if (i != one && i != other) {
            post(crew.ep[i], one_way_args(type, i, 1, 20));
        }
    }
    return crew;
}

Test(stall, who_has_its_block_of_a_scatterv_and_combines_arrivals_says_whose) {
    crew_t crew = one_way_without(UCC_COLL_TYPE_SCATTERV, 3, 10);
    expect_line(crew.ep[8], "scatterv 1: endpoint 8 of 20",
                "for endpoint 10 (in no collective yet; joined by the caller's thread)");
    cr_assert(!said("scatterv 1: endpoint 8 of 20", "endpoint 3"));
}

Test(stall, who_has_sent_its_part_of_a_gatherv_and_combines_arrivals_says_whose) {
    crew_t crew = one_way_without(UCC_COLL_TYPE_GATHERV, 3, 10);
    expect_line(crew.ep[8], "gatherv 1: endpoint 8 of 20",
                "for endpoint 10 (in no collective yet; joined by the caller's thread)");
    cr_assert(!said("gatherv 1: endpoint 8 of 20", "endpoint 3"));
}

Test(stall, many_are_summed_up_in_one_line) {
    crew_t crew = crew_of(MOST, MOST - 3);
    post(crew.ep[0], barrier_args());
    expect_line(crew.ep[0], "barrier 1: endpoint 0 of 40",
                "for endpoint 37 (has not joined), endpoint 38 (has not joined)");
    for (uint32_t i = MOST - 3; i < MOST; i++) {
        must(heddle_join(crew.group, i, &crew.ep[i]), "join");
    }
    post(crew.ep[20], barrier_args());
    expect_line(crew.ep[0], "barrier 1: endpoint 0 of 40", "for 38 of 40 endpoints: 1-19, 21-39");
}

/* --- large data ------------------------------------------------------------------------------- */

enum { LARGE = 100000 };

static ucc_coll_args_t large_args(double *data) {
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = UCC_COLL_ARGS_FLAG_IN_PLACE,
                            .coll_type = UCC_COLL_TYPE_ALLREDUCE,
                            .op = UCC_OP_SUM};
    args.dst.info = (ucc_coll_buffer_info_t){data, LARGE, UCC_DT_FLOAT64, UCC_MEMORY_TYPE_HOST};
    return args;
}

Test(stall, a_large_exchange_knows_who_has_not_come) {
    crew_t crew = crew_of(3, 3);
    static double data[LARGE];
    post(crew.ep[0], large_args(data));
    expect_line(
        crew.ep[0], "allreduce 1: endpoint 0 of 3",
        "endpoint 1 (in no collective yet; joined by the caller's thread) and endpoint 2 (");
}

static atomic_bool is_inside, may_go_on;

static ucc_status_t reduce_slowly(const ucc_reduce_cb_params_t *params) {
    (void)params;
    atomic_store(&is_inside, true);
    while (!atomic_load(&may_go_on)) {
        sched_yield();
    }
    return UCC_OK;
}

typedef struct posting {
    heddle_ep_t *ep;
    ucc_coll_args_t args;
} posting_t;

/* The last to come works at once, inside post. */
static void *post_and_wait(void *arg) {
    posting_t *p = arg;
    ucc_coll_req_h request = post(p->ep, p->args);
    must(heddle_wait(request, -1), "an allreduce by the user's function");
    return NULL;
}

Test(stall, a_large_exchange_knows_who_is_inside_a_chunk) {
    crew_t crew = crew_of(2, 2);
    static double data[2][LARGE];
    ucc_generic_dt_ops_t ops = {.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
                                .flags =
                                    UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
                                .contig_size = sizeof(double),
                                .reduce.cb = reduce_slowly};
    ucc_datatype_t dt;
    must(ucc_dt_create_generic(&ops, NULL, &dt), "dt");
    posting_t posting = {crew.ep[1], large_args(data[1])};
    ucc_coll_args_t args = large_args(data[0]);
    args.dst.info.datatype = posting.args.dst.info.datatype = dt;
    ucc_coll_req_h request = post(crew.ep[0], args);
    pthread_t thread;
    pthread_create(&thread, NULL, post_and_wait, &posting);
    while (!atomic_load(&is_inside)) { /* else this thread might take the chunk */
        sched_yield();
    }
    expect_line(crew.ep[0], "allreduce 1: endpoint 0 of 2",
                "for endpoint 1 (in allreduce; joined by ");
    cr_assert(said("allreduce 1: endpoint 0 of 2", ") to finish a chunk"));
    atomic_store(&may_go_on, true);
    must(heddle_wait(request, -1), "an allreduce by the user's function");
    pthread_join(thread, NULL);
}

static ucc_status_t reduce_and_end_the_thread(const ucc_reduce_cb_params_t *params) {
    (void)params;
    pthread_exit(NULL);
}

Test(stall, a_chunk_whose_thread_has_ended_in_it_is_nobody_s_work) {
    crew_t crew = crew_of(2, 2);
    static double data[2][LARGE];
    ucc_generic_dt_ops_t ops = {.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
                                .flags =
                                    UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
                                .contig_size = sizeof(double),
                                .reduce.cb = reduce_and_end_the_thread};
    ucc_datatype_t dt;
    must(ucc_dt_create_generic(&ops, NULL, &dt), "dt");
    posting_t posting = {crew.ep[1], large_args(data[1])};
    ucc_coll_args_t args = large_args(data[0]);
    args.dst.info.datatype = posting.args.dst.info.datatype = dt;
    ucc_coll_req_h request = post(crew.ep[0], args);
    pthread_t thread;
    pthread_create(&thread, NULL, post_and_wait, &posting);
    pthread_join(thread, NULL);
    cr_assert_eq(heddle_wait(request, -1), UCC_ERR_NO_MESSAGE);
    cr_assert_eq(atomic_load(&heddle_ep_team(crew.ep[1])->group->board->shared[1]->at_work), 0);
}

/* --- who is not there any more ---------------------------------------------------------------- */

static void *join_and_go(void *arg) {
    crew_t *crew = arg;
    must(heddle_join(crew->group, 1, &crew->ep[1]), "join");
    return NULL;
}

Test(stall, it_is_said_that_a_peer_s_thread_has_ended) {
    crew_t crew = crew_of(2, 1);
    pthread_t thread;
    pthread_create(&thread, NULL, join_and_go, &crew);
    pthread_join(thread, NULL);
    post(crew.ep[0], barrier_args());
    expect_line(crew.ep[0], "barrier 1: endpoint 0 of 2",
                "for endpoint 1 (in no collective yet; the thread that joined it has ended)");
}

/* Nor is whoever progresses a context for others. */
Test(stall, a_progress_thread_is_not_taken_for_whom_it_progresses) {
    crew_t crew = {.n = 2};
    heddle_group_params_t params = {.endpoints = 2, .progress_thread = 1};
    must(heddle_group_create(&params, &crew.group), "group");
    must(heddle_join(crew.group, 0, &crew.ep[0]), "join");
    must(heddle_join(crew.group, 1, &crew.ep[1]), "join");
    ucc_coll_req_h request = post(crew.ep[0], barrier_args());
    deadline_t deadline = deadline_start("a line");
    while (!said("barrier 1: endpoint 0 of 2", "for endpoint 1")) {
        cr_assert_lt(test_now(), deadline.end);
        usleep(1000);
    }
    const hd_shared_t *shared = heddle_ep_team(crew.ep[0])->group->board->shared[0];
    cr_assert_eq(shared->thread, -hd_thread_number(), "it is known who joined, and no more");
    post(crew.ep[1], barrier_args());
    cr_assert_eq(heddle_wait(request, 20), UCC_OK);
}

/* --- the default time-out --------------------------------------------------------------------- */

static void expect_time_out(ucc_status_t status, const char *one, const char *other) {
    if (!said(one, other)) {
        tell_all();
    }
    cr_assert_eq(status, UCC_ERR_TIMED_OUT);
    cr_assert(said(one, other));
}

static ucc_status_t end_of(heddle_ep_t *ep, ucc_coll_req_h request) {
    deadline_t deadline = deadline_start("the end of a request");
    while (ucc_collective_test(request) == UCC_INPROGRESS) {
        ucc_context_progress(heddle_ep_context(ep));
        deadline_poll(&deadline);
    }
    return ucc_collective_test(request);
}

Test(timeout, a_blocking_call_ends_and_names_whom_it_waited_for) {
    setenv("HEDDLE_TIMEOUT", "0.05", 1);
    crew_t crew = crew_of(2, 2);
    expect_time_out(heddle_barrier(crew.ep[0]), "time-out: barrier 1: endpoint 0 of 2",
                    "for endpoint 1 (in no collective yet");
}

static void *call_once(void *arg) {
    must(heddle_barrier(arg), "heddle_barrier");
    return NULL;
}

Test(timeout, so_does_a_call_that_began_by_the_express) {
    setenv("HEDDLE_TIMEOUT", "3", 1); /* long enough for the first barrier */
    crew_t crew = crew_of(2, 2);
    pthread_t thread;
    pthread_create(&thread, NULL, call_once, crew.ep[1]);
    must(heddle_barrier(crew.ep[0]), "heddle_barrier");
    pthread_join(thread, NULL);
    expect_time_out(heddle_barrier(crew.ep[0]), "time-out: barrier 2: endpoint 0 of 2",
                    "for endpoint 1 (last in barrier 1");
}

Test(timeout, a_request_ends) {
    setenv("HEDDLE_TIMEOUT", "0.05", 1);
    crew_t crew = crew_of(2, 2);
    ucc_coll_req_h request = post(crew.ep[0], barrier_args());
    expect_time_out(end_of(crew.ep[0], request), "time-out: barrier 1: endpoint 0 of 2",
                    "for endpoint 1 (in no collective yet");
}

Test(timeout, a_request_before_all_have_joined_ends) {
    setenv("HEDDLE_TIMEOUT", "0.05", 1);
    crew_t crew = crew_of(2, 1);
    ucc_coll_req_h request = post(crew.ep[0], barrier_args());
    expect_time_out(end_of(crew.ep[0], request), "time-out: barrier 1: endpoint 0 of 2",
                    "for endpoint 1 (has not joined)");
}

Test(timeout, a_tagged_request_before_all_have_joined_ends) {
    setenv("HEDDLE_TIMEOUT", "0.05", 1);
    crew_t crew = crew_of(2, 1);
    ucc_coll_req_h request = post(crew.ep[0], tagged(7));
    expect_time_out(end_of(crew.ep[0], request), "time-out: barrier: endpoint 0 of 2",
                    "for endpoint 1 (has not joined)");
}

Test(timeout, a_large_exchange_ends) {
    setenv("HEDDLE_TIMEOUT", "0.05", 1);
    crew_t crew = crew_of(2, 2);
    static double data[LARGE];
    ucc_coll_req_h request = post(crew.ep[0], large_args(data));
    expect_time_out(end_of(crew.ep[0], request), "time-out: allreduce 1: endpoint 0 of 2",
                    "for endpoint 1 (in no collective yet");
}

Test(timeout, a_request_s_own_counts_first) {
    setenv("HEDDLE_TIMEOUT", "0.05", 1);
    crew_t crew = crew_of(2, 2);
    ucc_coll_args_t args = barrier_args();
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
    args.timeout = 1000;
    ucc_coll_req_h request = post(crew.ep[0], args);
    for (double end = test_now() + 0.3; test_now() < end;) {
        ucc_context_progress(heddle_ep_context(crew.ep[0]));
    }
    cr_assert_eq(ucc_collective_test(request), UCC_INPROGRESS);
}

/* --- time-outs of what has not been published ------------------------------------------------- */

static ucc_coll_args_t limited(ucc_coll_args_t args) {
    args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags |= UCC_COLL_ARGS_FLAG_TIMEOUT;
    args.timeout = 0.05;
    return args;
}

enum { QUEUED = 6, LAUNCHED = 4 }; /* so many of one endpoint's are under way at once */

Test(timeout, a_queued_operation_goes_on_late_if_its_peers_are_there) {
    crew_t crew = crew_of(2, 2);
    ucc_coll_req_h mine[QUEUED];
    for (int i = 0; i < QUEUED; i++) {
        mine[i] = post(crew.ep[0], i < LAUNCHED ? barrier_args() : limited(barrier_args()));
        post(crew.ep[1], barrier_args());
    }
    for (int i = 0; i < 20; i++) { /* endpoint 1 publishes all of its own */
        ucc_context_progress(heddle_ep_context(crew.ep[1]));
    }
    usleep(100000);
    for (int i = 0; i < QUEUED; i++) {
        cr_assert_eq(end_of(crew.ep[0], mine[i]), UCC_OK, "barrier %d", i + 1);
    }
}

Test(timeout, the_line_names_the_queued_operation_whose_time_it_was) {
    crew_t crew = crew_of(2, 2);
    ucc_coll_req_h request = NULL;
    for (int i = 0; i < QUEUED; i++) {
        request = post(crew.ep[0], i < QUEUED - 1 ? barrier_args() : limited(barrier_args()));
    }
    expect_time_out(end_of(crew.ep[0], request), "time-out: barrier 6: endpoint 0 of 2",
                    "its own operations before it");
}

Test(timeout, an_early_operation_goes_on_late_if_its_peers_are_there) {
    crew_t crew = crew_of(2, 1);
    ucc_coll_req_h request = post(crew.ep[0], limited(tagged(7)));
    must(heddle_join(crew.group, 1, &crew.ep[1]), "join");
    post(crew.ep[1], tagged(7));
    usleep(100000);
    cr_assert_eq(end_of(crew.ep[0], request), UCC_OK);
}

/* --- waits of the program's own --------------------------------------------------------------- */

Test(stall, a_wait_of_the_program_is_told_when_due) {
    double next = 0;
    setenv("HEDDLE_STALL", "10", 1);
    cr_assert_eq(heddle_watch_wait("thread 3", "thread 4", 0, &next), UCC_INPROGRESS);
    cr_assert_eq(next, 10);
    cr_assert_eq(heddle_watch_wait("thread 3", "thread 4", 5, &next), UCC_INPROGRESS);
    cr_assert_eq(heddle_watch_wait("thread 3", NULL, 10, &next), UCC_INPROGRESS);
    cr_assert_not(said("thread 3", ""), "before it is due, or in another one's stead");
    cr_assert_eq(next, 20);
    cr_assert_eq(heddle_watch_wait("thread 3", "thread 4", 21, &next), UCC_INPROGRESS);
    cr_assert(said("stall: thread 3 has waited 21.0 s for thread 4", ""));
    cr_assert_eq(next, 40);
}

Test(timeout, a_wait_of_the_program_ends) {
    double next = 0;
    setenv("HEDDLE_STALL", "0", 1);
    setenv("HEDDLE_TIMEOUT", "30", 1);
    cr_assert_eq(heddle_watch_wait("thread 3", "thread 4", 0, &next), UCC_INPROGRESS);
    cr_assert_eq(next, 30);
    cr_assert_eq(heddle_watch_wait("thread 3", "thread 4", 30, &next), UCC_ERR_TIMED_OUT);
    cr_assert(said("time-out: thread 3 has waited in vain for thread 4", ""));
}

Test(timeout, a_wait_of_the_program_needs_a_name_and_a_time) {
    double next = 0;
    cr_assert_eq(heddle_watch_wait(NULL, NULL, 0, &next), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(heddle_watch_wait("thread 3", NULL, 0, NULL), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(heddle_watch_wait("thread 3", NULL, -1, &next), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(heddle_watch_wait("thread 3", NULL, INFINITY, &next), UCC_ERR_INVALID_PARAM);
}
