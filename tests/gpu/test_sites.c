/* test_sites.c: every wait of collectives on devices, left out: the emulator's race detector has to
 * find something then, and nothing when all are there. The loop is over gpu/site.h: a site without
 * a scenario fails.
 */
#include "emucuda/calls.h"
#include "gpu/site.h"
#include "support/deadline.h"
#include "support/device_cases.h"
#include "support/ranks.h"
#include "support/trial.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(sites, .timeout = 120);

enum { UNKNOWN_ERROR = 999, MANY = 3 * 1024 * 1024, MOST_CALLS = 300 };

static uint64_t found;

static void count_finding(heddle_emucuda_finding_t kind, const char *text, void *arg) {
    (void)kind, (void)text, (void)arg;
    found++;
}

static coll_case_t a_case(ucc_coll_type_t type, uint32_t size, uint64_t count) {
    return (coll_case_t){.type = type,
                         .size = size,
                         .count = count,
                         .dt = reference_datatype(UCC_DT_INT32),
                         .op = UCC_OP_SUM,
                         .seed = 1};
}

/* Runs it, and looks at all buffers, as whoever is told that it is complete may do. */
static bool run(const coll_case_t *c) {
    trial_t t;
    trial_open(&t, c, 0);
    bool well = trial_run(&t);
    heddle_emucuda_fail_call(0, 0);
    (void)trial_check(&t); /* without a wait, it may be wrong */
    trial_close(&t);
    return well;
}

/* --- scenarios --- */

/* Windows enough that each slot is used again. Where results go to other devices, which fill slots
 * again only when they have got theirs, a slot is free before anybody waits for that; so is it not
 * where they only send. */
static void send_in_windows(hd_gpu_site_t site) {
    (void)site;
    coll_case_t c = a_case(UCC_COLL_TYPE_REDUCE, 3, MANY);
    run(&c);
}

static void reduce_in_windows(hd_gpu_site_t site) {
    (void)site;
    coll_case_t c = a_case(UCC_COLL_TYPE_ALLREDUCE, 3, MANY);
    run(&c);
}

/* By pieces of what there is memory for, which is used again. */
static void reduce_blocks_apart(hd_gpu_site_t site) {
    (void)site;
    coll_case_t c = a_case(UCC_COLL_TYPE_ALLREDUCE, 16, MANY / 10);
    device_cases_in_runs(8);
    setenv("HEDDLE_GPU_PARTIAL_MIN", "0", 1);
    run(&c);
}

/* Each driver call fails, until it was the one by which a line tells that it is done: then the host
 * waits in its place. */
static void fail_until_waited(hd_gpu_site_t site) {
    coll_case_t c = a_case(UCC_COLL_TYPE_ALLREDUCE, 3, 100);
    for (uint64_t n = 1; n < MOST_CALLS; n++) {
        trial_t t;
        trial_open(&t, &c, 0);
        heddle_emucuda_fail_call(n, UNKNOWN_ERROR);
        bool well = trial_run(&t);
        heddle_emucuda_fail_call(0, 0);
        (void)trial_check(&t);
        trial_close(&t);
        if (well && heddle_emucuda_site_count((uint32_t)site) > 0) {
            return;
        }
    }
}

/* in the order of streams: what was before, a sum, and then other things in the same buffers */

static ucc_coll_args_t sum_of(uint32_t i) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLREDUCE, .op = UCC_OP_SUM};
    args.src.info = rank_info(rank[i].src, RANKS_COUNT);
    args.dst.info = rank_info(rank[i].dst, RANKS_COUNT);
    return args;
}

static void spoil(uint32_t i) {
    rank_keep(i, rank[i].dst, 0, RANKS_COUNT);
    rank_fill(i, rank[i].src, 0, RANKS_COUNT);
    rank_fill(i, rank[i].dst, 0, RANKS_COUNT);
}

static pthread_barrier_t spoilt;

static void sum_in_threads_stream(void *arg, uint32_t i) {
    (void)arg;
    void *own = rank[i].stream;
    ucc_coll_args_t args = sum_of(i);
    device_enter((int)i);
    rank[i].stream = CU_STREAM_PER_THREAD;
    rank_fill(i, rank[i].src, 1, RANKS_COUNT);
    must(heddle_collective_on(&args, ranks_world->teams[i], CU_STREAM_PER_THREAD), "a sum");
    spoil(i);
    pthread_barrier_wait(&spoilt); /* who has seen one stream's end would know of the other's */
    rank_await(i);
    device_leave();
    rank[i].stream = own;
}

static void by_thread(hd_gpu_site_t site) {
    (void)site;
    ranks_form(2, 2);
    pthread_barrier_init(&spoilt, NULL, 2);
    driver_threads(2, sum_in_threads_stream, NULL);
    pthread_barrier_destroy(&spoilt);
    ranks_part();
}

static void fill_both(void) {
    rank_fill(0, rank[0].src, 1, RANKS_COUNT);
    rank_fill(1, rank[1].src, 1, RANKS_COUNT);
}

/* One thread posts for both. False: something has failed. */
static bool sum_in_streams(void) {
    ucc_coll_req_h request[2] = {NULL, NULL};
    bool well = true;
    for (uint32_t i = 0; i < 2 && well; i++) {
        ucc_coll_args_t args = sum_of(i);
        well = ucc_collective_init(&args, &request[i], ranks_world->teams[i]) == UCC_OK &&
               heddle_post_on(request[i], rank[i].stream) == UCC_OK;
    }
    if (!well) {
        heddle_team_abort(ranks_world->teams[0]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (request[i] && request[i]->status != UCC_OPERATION_INITIALIZED) {
            well = heddle_wait(request[i], 30) == UCC_OK && well;
        }
        must(heddle_request_free(&request[i]), "heddle_request_free");
    }
    return well;
}

static void in_streams(hd_gpu_site_t site) {
    (void)site;
    ranks_form(2, 2);
    fill_both();
    must(sum_in_streams() ? UCC_OK : UCC_ERR_LAST, "a sum");
    spoil(0);
    spoil(1);
    ranks_part();
}

/* The teams end while their devices are at work; others, on streams and buffers of their own, use
 * the same memory of lines. */
static void in_streams_of_two_teams(hd_gpu_site_t site) {
    rank_t before[2];
    (void)site;
    ucc_lib_h lib = world_lib(UCC_THREAD_SINGLE); /* so that the driver stays open */
    ranks_form(2, 2);
    fill_both();
    must(sum_in_streams() ? UCC_OK : UCC_ERR_LAST, "a sum");
    world_t *other = world_create(&(world_params_t){.size = 1, .form = WORLD_OOB});
    ranks_renew(); /* which now have other lines */
    world_destroy(other);
    for (uint32_t i = 0; i < 2; i++) {
        before[i] = rank[i];
        rank[i].stream = device_stream((int)i);
        rank[i].src = before[i].kept;
        rank[i].dst = before[i].kept + RANKS_COUNT;
    }
    fill_both();
    must(sum_in_streams() ? UCC_OK : UCC_ERR_LAST, "a sum");
    for (uint32_t i = 0; i < 2; i++) {
        device_stream_end(rank[i].stream);
        rank[i] = before[i];
    }
    ranks_part();
    must(ucc_finalize(lib), "ucc_finalize");
}

/* Each driver call of a collective fails, until one did after which the host waits. */
static void fail_sums(hd_gpu_site_t site, int devices) {
    for (uint64_t n = 1; n < MOST_CALLS && heddle_emucuda_site_count((uint32_t)site) == 0; n++) {
        ranks_form(2, devices);
        fill_both();
        (void)sum_in_streams(); /* what is made at the first call is there */
        heddle_emucuda_fail_call(n, UNKNOWN_ERROR);
        bool well = sum_in_streams();
        heddle_emucuda_fail_call(0, 0);
        if (!well) {
            spoil(0);
            spoil(1);
        }
        ranks_part();
    }
}

static void fail_in_streams(hd_gpu_site_t site) {
    fail_sums(site, 2);
}

/* The claimer's stream is on the device that works. */
static void fail_in_one_stream(hd_gpu_site_t site) {
    fail_sums(site, 1);
}

/* --- late peers: the first post of one thread gets a gate, the second one is held --- */

static void at_a_gate(hd_gpu_site_t site) {
    ucc_coll_req_h request[2][2];
    (void)site;
    setenv("HEDDLE_GPU_GATE", "memop", 1);
    ranks_form(2, 2);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            rank_fill(i, rank[i].src, (int32_t)k, RANKS_COUNT);
            request[i][k] = rank_allreduce(i);
            spoil(i);
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        deadline_t deadline = deadline_start("triggered collectives of one thread");
        while (ucc_collective_test(request[i / 2][i % 2]) == UCC_INPROGRESS) {
            ucc_context_progress(ranks_world->contexts[0]);
            deadline_poll(&deadline);
        }
        must(ucc_collective_finalize(request[i / 2][i % 2]), "ucc_collective_finalize");
    }
    ranks_part();
}

typedef struct scenario {
    const char *config;
    void (*run)(hd_gpu_site_t site);
} scenario_t;

static const scenario_t scenarios[HD_GPU_SITES] = {
    [HD_GPU_SITE_FREE] = {"3,nopeer", send_in_windows},
    [HD_GPU_SITE_FILLED] = {"3,nopeer", reduce_in_windows},
    [HD_GPU_SITE_USED] = {"2", reduce_blocks_apart},
    [HD_GPU_SITE_MADE] = {"2", reduce_blocks_apart},
    [HD_GPU_SITE_END] = {"3,nopeer", reduce_in_windows},
    [HD_GPU_SITE_READY] = {"2", in_streams},
    [HD_GPU_SITE_DONE] = {"2", in_streams},
    [HD_GPU_SITE_LATE] = {"2", by_thread},
    [HD_GPU_SITE_BY_THREAD] = {"2", by_thread},
    [HD_GPU_SITE_HELD] = {"2", at_a_gate},
    [HD_GPU_SITE_GATE] = {"2", at_a_gate},
    [HD_GPU_SITE_FAILED] = {"1", fail_in_one_stream},
    [HD_GPU_SITE_NOT_JOINED] = {"2", fail_in_streams},
    [HD_GPU_SITE_LEFT] = {"2,nopeer,policy=lazy", in_streams_of_two_teams},
    [HD_GPU_SITE_DRAINED] = {"1", fail_until_waited},
};

/* --- all of them --- */

typedef struct site_case {
    int site;
    bool dropped;
} site_case_t;

ParameterizedTestParameters(sites, each) {
    enum { FIRST = HD_GPU_SITE_NONE + 1 };
    static site_case_t cases[2 * (HD_GPU_SITES - FIRST)];
    for (int i = 0; i < 2 * (HD_GPU_SITES - FIRST); i++) {
        cases[i] = (site_case_t){FIRST + i / 2, i % 2 == 1};
    }
    return cr_make_param_array(site_case_t, cases, sizeof(cases) / sizeof(*cases));
}

ParameterizedTest(site_case_t *c, sites, each) {
    const scenario_t *scenario = &scenarios[c->site];
    cr_assert_not_null(scenario->run, "site %d of gpu/site.h has no scenario here", c->site);
    device_cases_begin(scenario->config, DEVICE_CASES_PLAIN);
    heddle_emucuda_on_finding(count_finding, NULL);
    heddle_emucuda_drop_site(c->dropped ? (uint32_t)c->site : 0);
    scenario->run((hd_gpu_site_t)c->site);
    cr_assert_gt(heddle_emucuda_site_count((uint32_t)c->site), 0, "site %d is not met", c->site);
    if (c->dropped) {
        cr_assert_gt(found, 0, "nobody notices that the waits of site %d are left out", c->site);
    } else {
        cr_assert_eq(found, 0, "site %d", c->site);
        device_cases_end();
    }
}
