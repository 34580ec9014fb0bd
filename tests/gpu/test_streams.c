/* test_streams.c: collectives in the order of streams, on emulated devices: producers and consumers
 * are on the streams, and the host waits for nothing in between, so that the race detector sees
 * each order that is missing.
 */
#include "core/log.h"
#include "emucuda/calls.h"
#include "support/deadline.h"
#include "support/device_cases.h"
#include "support/small.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(streams, .timeout = 120);

enum { MOST = 16, COUNT = 1000, BYTES = COUNT * 4, ROUNDS = 6 };

static char last_line[512];

static void keep(hd_log_level_t level, const char *text, void *arg) {
    (void)arg;
    if (level <= HD_LOG_ERROR) {
        snprintf(last_line, sizeof(last_line), "%s", text);
    }
}

/* A group, and for each endpoint a device, a stream and buffers there. */
typedef struct stage {
    uint32_t n;
    int devices;
    heddle_group_t *group;
    heddle_ep_t *ep[MOST];
    void *stream[MOST];
    uint32_t *src[MOST], *dst[MOST], *kept[MOST]; /* COUNT, n * COUNT, ROUNDS * n * COUNT */
} stage_t;

static stage_t stage;

static void must_cu(CUresult result, const char *call) {
    must(result == CUDA_SUCCESS ? UCC_OK : UCC_ERR_NO_MESSAGE, call);
}

static void open_stage(const char *config, uint32_t n, int devices) {
    heddle_group_params_t params = {.endpoints = n, .thread_mode = UCC_THREAD_MULTIPLE};
    hd_log_capture(keep, NULL);
    last_line[0] = 0;
    device_cases_begin(config, DEVICE_CASES_PLAIN);
    case_memory = NULL;
    stage = (stage_t){.n = n, .devices = devices};
    must(heddle_group_create(&params, &stage.group), "heddle_group_create");
    for (uint32_t i = 0; i < n; i++) {
        int device = (int)i % devices;
        must(heddle_join(stage.group, i, &stage.ep[i]), "heddle_join");
        stage.stream[i] = device_stream(device);
        stage.src[i] = device_take(device, (size_t)n * BYTES);
        stage.dst[i] = device_take(device, (size_t)n * BYTES);
        stage.kept[i] = device_take(device, (size_t)n * BYTES * ROUNDS);
    }
}

/* A driver says in a thread of its own that a graph is gone; the next library handle that ends
 * gives back what it kept. */
static void await_graphs(void) {
    heddle_emucuda_report_t report;
    deadline_t deadline = deadline_start("what graphs keep to be given back");
    do {
        must(ucc_finalize(world_lib(UCC_THREAD_SINGLE)), "ucc_finalize");
        heddle_emucuda_report(&report, sizeof(report));
        deadline_poll(&deadline);
    } while (report.modules != 0);
}

static void end_team(void) {
    for (uint32_t i = 0; i < stage.n; i++) {
        must(heddle_leave(stage.ep[i]), "heddle_leave");
    }
    must(heddle_group_destroy(stage.group), "heddle_group_destroy");
    stage.group = NULL;
}

static void close_stage(void) {
    if (stage.group) {
        end_team();
    }
    for (uint32_t i = 0; i < stage.n; i++) {
        device_stream_end(stage.stream[i]);
        device_put(stage.src[i]);
        device_put(stage.dst[i]);
        device_put(stage.kept[i]);
    }
    await_graphs();
    device_cases_end();
}

/* --- what streams do beside collectives ------------------------------------------------------- */

static CUdeviceptr at(const void *pointer) {
    return (CUdeviceptr)(uintptr_t)pointer;
}

static int device_of(uint32_t i) {
    return (int)i % stage.devices;
}

static void fill(uint32_t i, void *stream, void *memory, uint32_t value, size_t count) {
    device_enter(device_of(i));
    must_cu(cuMemsetD32Async(at(memory), value, count, stream), "cuMemsetD32Async");
    device_leave();
}

static void copy(uint32_t i, void *stream, void *to, const void *from, size_t bytes) {
    device_enter(device_of(i));
    must_cu(cuMemcpyDtoDAsync_v2(at(to), at(from), bytes, stream), "cuMemcpyDtoDAsync");
    device_leave();
}

static void await_stream(uint32_t i, void *stream) {
    device_enter(device_of(i));
    must_cu(cuStreamSynchronize(stream), "cuStreamSynchronize");
    device_leave();
}

static void check_kept(uint32_t i, uint32_t round, uint32_t words, uint32_t value) {
    uint32_t *seen = must_alloc(words, sizeof(*seen));
    device_from(seen, stage.kept[i] + (size_t)round * stage.n * COUNT, words * sizeof(*seen));
    for (uint32_t k = 0; k < words; k++) {
        cr_assert_eq(seen[k], value, "endpoint %u, round %u, word %u: %u, not %u", i, round, k,
                     seen[k], value);
    }
    free(seen);
}

static uint32_t value_of(uint32_t i, uint32_t round) {
    return 1000 * round + i + 1;
}

/* one endpoint's part of a chain: it produces, takes part, keeps the result, and spoils both
 * buffers */

static void *stream_of(uint32_t i) {
    return stage.stream[i];
}

static void *(*which_stream)(uint32_t i) = stream_of;

static void chain(void *arg, uint32_t i) {
    (void)arg;
    uint32_t root = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        void *stream = which_stream(i);
        uint32_t *result = stage.kept[i] + (size_t)round * stage.n * COUNT;
        fill(i, stream, stage.src[i], value_of(i, round), COUNT);
        switch (round % 3) {
        case 0:
            must(heddle_allreduce_on(stage.ep[i], stream, stage.src[i], stage.dst[i], COUNT,
                                     UCC_DT_UINT32, UCC_OP_SUM),
                 "heddle_allreduce_on");
            copy(i, stream, result, stage.dst[i], BYTES);
            break;
        case 1:
            root = round % stage.n;
            must(heddle_bcast_on(stage.ep[i], stream, stage.src[i], COUNT, UCC_DT_UINT32, root),
                 "heddle_bcast_on");
            copy(i, stream, result, stage.src[i], BYTES);
            break;
        default:
            must(heddle_allgather_on(stage.ep[i], stream, stage.src[i], stage.dst[i], COUNT,
                                     UCC_DT_UINT32),
                 "heddle_allgather_on");
            copy(i, stream, result, stage.dst[i], (size_t)stage.n * BYTES);
        }
        fill(i, stream, stage.src[i], 0xdeadu, COUNT);
        fill(i, stream, stage.dst[i], 0xdeadu, (size_t)stage.n * COUNT);
    }
    await_stream(i, which_stream(i));
}

static uint32_t sum_of(uint32_t round) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < stage.n; i++) {
        sum += value_of(i, round);
    }
    return sum;
}

static void check_chain(void) {
    for (uint32_t i = 0; i < stage.n; i++) {
        for (uint32_t round = 0; round < ROUNDS; round++) {
            uint32_t *seen = must_alloc(stage.n * COUNT, sizeof(*seen));
            device_from(seen, stage.kept[i] + (size_t)round * stage.n * COUNT,
                        (size_t)stage.n * BYTES);
            for (uint32_t k = 0; round % 3 == 2 && k < stage.n * COUNT; k++) {
                cr_assert_eq(seen[k], value_of(k / COUNT, round));
            }
            free(seen);
            if (round % 3 != 2) {
                check_kept(i, round, COUNT,
                           round % 3 == 0 ? sum_of(round) : value_of(round % stage.n, round));
            }
        }
    }
}

typedef struct chain_case {
    const char *config;
    uint32_t n;
    int devices;
} chain_case_t;

static const chain_case_t chain_cases[] = {
    {"1", 2, 1},
    {"1,seed=2,policy=lazy,channels=1", 3, 1},
    {"1,seed=3,policy=newest,channels=8,host=threads", 9, 1},
    {"2,seed=4,host=threads", 2, 2},
    {"4,seed=5,policy=starve,channels=1", 9, 4},
    {"2,seed=6,nopeer,host=threads", 2, 2},
    {"4,seed=7,nopeer,channels=1", 5, 4},
};

Test(streams, what_is_before_and_after_in_a_stream_is_in_order) {
    for (size_t c = 0; c < sizeof(chain_cases) / sizeof(chain_cases[0]); c++) {
        const chain_case_t *of = &chain_cases[c];
        open_stage(of->config, of->n, of->devices);
        driver_threads(of->n, chain, NULL);
        check_chain();
        close_stage();
        heddle_emucuda_reset();
    }
}

/* --- streams that are not quite ordinary ------------------------------------------------------ */

static void *null_stream(uint32_t i) {
    (void)i;
    return NULL;
}

static void *thread_stream(uint32_t i) {
    (void)i;
    return CU_STREAM_PER_THREAD;
}

static void *one_stream(uint32_t i) {
    (void)i;
    return stage.stream[0];
}

static void chain_in_context(void *arg, uint32_t i) {
    device_enter(device_of(i));
    chain(arg, i);
    device_leave();
}

static void run_streams(const char *config, uint32_t n, int devices, void *(*which)(uint32_t i)) {
    open_stage(config, n, devices);
    which_stream = which;
    driver_threads(n, chain_in_context, NULL);
    which_stream = stream_of;
    check_chain();
    close_stage();
}

Test(streams, the_null_stream_is_that_of_the_current_context) {
    run_streams("2,seed=1", 4, 2, null_stream);
}

Test(streams, the_stream_of_a_thread_is_its_own) {
    run_streams("2,seed=1,host=threads", 4, 2, thread_stream);
}

Test(streams, all_endpoints_may_share_one) {
    run_streams("1,seed=3", 5, 1, one_stream);
}

/* --- no data ---------------------------------------------------------------------------------- */

static void write_then_read(void *arg, uint32_t i) {
    (void)arg;
    uint32_t left = (i + stage.n - 1) % stage.n;
    fill(i, stage.stream[i], stage.src[i], value_of(i, 0), COUNT);
    must(heddle_barrier_on(stage.ep[i], stage.stream[i]), "heddle_barrier_on");
    copy(i, stage.stream[i], stage.kept[i], stage.src[left],
         BYTES); /* unordered but for the barrier */
    must(heddle_barrier_on(stage.ep[i], stage.stream[i]), "heddle_barrier_on");
    fill(i, stage.stream[i], stage.src[i], 0, COUNT);
    await_stream(i, stage.stream[i]);
}

Test(streams, a_barrier_orders_them) {
    open_stage("1,seed=9,policy=newest", 5, 1);
    driver_threads(5, write_then_read, NULL);
    for (uint32_t i = 0; i < 5; i++) {
        check_kept(i, 0, COUNT, value_of((i + 4) % 5, 0));
    }
    close_stage();
}

static void exchange_nothing(void *arg, uint32_t i) {
    (void)arg;
    static const uint64_t counts[3][3] = {{5, 9, 0}, {9, 7, 0}, {0, 0, 0}};
    bool none = i == 2;
    fill(i, stage.stream[i], stage.src[i], value_of(i, 0), COUNT);
    must(heddle_alltoallv_on(stage.ep[i], stage.stream[i], none ? NULL : stage.src[i], counts[i],
                             NULL, none ? NULL : stage.dst[i], counts[i], NULL, UCC_DT_UINT32),
         "heddle_alltoallv_on");
    copy(i, stage.stream[i], stage.kept[i], stage.dst[i], 9 * sizeof(uint32_t));
    await_stream(i, stage.stream[i]);
}

Test(streams, who_has_nothing_takes_part_without_a_buffer) {
    open_stage("1,seed=5", 3, 1);
    driver_threads(3, exchange_nothing, NULL);
    check_kept(1, 0, 9, value_of(0, 0));
    close_stage();
}

/* --- one thread for all ----------------------------------------------------------------------- */

static ucc_coll_args_t sum_args(uint32_t i, uint16_t tag) {
    ucc_coll_args_t args = small_allreduce((int32_t *)stage.src[i], (int32_t *)stage.dst[i], COUNT);
    args.src.info.datatype = args.dst.info.datatype = UCC_DT_UINT32;
    args.src.info.mem_type = args.dst.info.mem_type = UCC_MEMORY_TYPE_CUDA;
    if (tag) {
        args.mask |= UCC_COLL_ARGS_FIELD_TAG;
        args.tag = tag;
    }
    return args;
}

static void post_all(void) {
    ucc_coll_req_h request[MOST];
    for (uint32_t i = 0; i < stage.n; i++) {
        ucc_coll_args_t args = sum_args(i, 0);
        must(ucc_collective_init(&args, &request[i], heddle_ep_team(stage.ep[i])), "init");
        must(heddle_post_on(request[i], stage.stream[i]), "heddle_post_on");
    }
    must(heddle_wait_all(request, stage.n, 30), "heddle_wait_all");
    for (uint32_t i = 0; i < stage.n; i++) {
        must(heddle_request_free(&request[i]), "heddle_request_free");
    }
}

Test(streams, one_thread_posts_for_all) {
    open_stage("2,seed=8", 6, 2);
    for (uint32_t i = 0; i < 6; i++) {
        fill(i, stage.stream[i], stage.src[i], value_of(i, 0), COUNT);
    }
    post_all();
    for (uint32_t i = 0; i < 6; i++) {
        copy(i, stage.stream[i], stage.kept[i], stage.dst[i], BYTES);
        fill(i, stage.stream[i], stage.src[i], 0, COUNT);
        await_stream(i, stage.stream[i]);
    }
    for (uint32_t i = 0; i < 6; i++) {
        check_kept(i, 0, COUNT, sum_of(0));
    }
    close_stage();
}

static ucc_status_t finish_plain(ucc_coll_req_h request) {
    ucc_status_t status = heddle_wait(request, 30);
    ucc_collective_finalize(request);
    return status;
}

Test(streams, who_posts_without_a_stream_meets_those_with_one) {
    ucc_coll_req_h request[3];
    open_stage("2,seed=11", 3, 2);
    for (uint32_t i = 0; i < 3; i++) {
        fill(i, stage.stream[i], stage.src[i], value_of(i, 0), COUNT);
    }
    await_stream(1, stage.stream[1]);
    for (uint32_t i = 0; i < 3; i++) {
        ucc_coll_args_t args = sum_args(i, 0);
        must(ucc_collective_init(&args, &request[i], heddle_ep_team(stage.ep[i])), "init");
        must(i == 1 ? ucc_collective_post(request[i]) : heddle_post_on(request[i], stage.stream[i]),
             "post");
    }
    must(heddle_wait_all(request, 3, 30), "heddle_wait_all");
    for (uint32_t i = 0; i < 3; i++) {
        must(heddle_request_free(&request[i]), "free");
        /* endpoint 1's result is there, because its request is complete */
        copy(i, stage.stream[i], stage.kept[i], stage.dst[i], BYTES);
        await_stream(i, stage.stream[i]);
        check_kept(i, 0, COUNT, sum_of(0));
    }
    close_stage();
}

Test(streams, a_request_is_posted_with_and_without_one_in_turns) {
    ucc_coll_req_h request[2];
    open_stage("1,seed=12", 2, 1);
    for (uint32_t i = 0; i < 2; i++) {
        ucc_coll_args_t args = sum_args(i, 0);
        args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
        must(ucc_collective_init(&args, &request[i], heddle_ep_team(stage.ep[i])), "init");
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < 2; i++) {
            fill(i, stage.stream[i], stage.src[i], value_of(i, round), COUNT);
            if (round % 2) {
                await_stream(i, stage.stream[i]);
            }
        }
        for (uint32_t i = 0; i < 2; i++) {
            must(round % 2 ? ucc_collective_post(request[i])
                           : heddle_post_on(request[i], stage.stream[i]),
                 "post");
        }
        must(heddle_wait_all(request, 2, 30), "heddle_wait_all");
        for (uint32_t i = 0; i < 2; i++) {
            copy(i, stage.stream[i], stage.kept[i], stage.dst[i], BYTES);
            await_stream(i, stage.stream[i]);
            check_kept(i, 0, COUNT, sum_of(round));
        }
    }
    finish_plain(request[0]);
    finish_plain(request[1]);
    close_stage();
}

/* --- what is refused -------------------------------------------------------------------------- */

Test(streams, memory_of_the_host_has_no_place_in_one) {
    uint32_t host[COUNT] = {0};
    open_stage("1", 1, 1);
    cr_assert_eq(heddle_allreduce_on(stage.ep[0], stage.stream[0], host, host + 1, 1, UCC_DT_UINT32,
                                     UCC_OP_SUM),
                 UCC_ERR_NOT_SUPPORTED);
    cr_assert(strstr(last_line, "no buffer is in memory of a device"), "%s", last_line);
    cr_assert_eq(heddle_allreduce_on(stage.ep[0], stage.stream[0], host, stage.dst[0], COUNT,
                                     UCC_DT_UINT32, UCC_OP_SUM),
                 UCC_ERR_NOT_SUPPORTED);
    cr_assert(strstr(last_line, "not pinned"), "%s", last_line);
    must(heddle_allreduce_on(stage.ep[0], stage.stream[0], stage.src[0], stage.dst[0], COUNT,
                             UCC_DT_UINT32, UCC_OP_SUM),
         "it goes on");
    await_stream(0, stage.stream[0]);
    close_stage();
}

Test(streams, a_posted_request_cannot_use_the_stream_of_a_thread) {
    ucc_coll_req_h request;
    open_stage("1", 1, 1);
    ucc_coll_args_t args = sum_args(0, 0);
    must(ucc_collective_init(&args, &request, heddle_ep_team(stage.ep[0])), "init");
    device_enter(0);
    cr_assert_eq(heddle_post_on(request, CU_STREAM_PER_THREAD), UCC_ERR_NOT_SUPPORTED);
    device_leave();
    must(heddle_post_on(request, stage.stream[0]), "it was not posted");
    must(heddle_wait(request, 30), "wait");
    must(heddle_request_free(&request), "free");
    await_stream(0, stage.stream[0]);
    close_stage();
}

Test(streams, one_of_no_current_context_is_an_error) {
    open_stage("1", 1, 1);
    cr_assert_eq(heddle_barrier_on(stage.ep[0], NULL), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(heddle_barrier_on(stage.ep[0], CU_STREAM_PER_THREAD), UCC_ERR_INVALID_PARAM);
    cr_assert(strstr(last_line, "no context is current"), "%s", last_line);
    close_stage();
}

Test(streams, a_request_under_way_is_not_posted_again) {
    ucc_coll_req_h request;
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
    open_stage("1", 2, 1);
    must(ucc_collective_init(&args, &request, heddle_ep_team(stage.ep[0])), "init");
    must(ucc_collective_post(request), "post");
    cr_assert_eq(heddle_post_on(request, stage.stream[0]), UCC_ERR_INVALID_PARAM);
    must(heddle_barrier(stage.ep[1]), "the other one");
    must(heddle_wait(request, 30), "wait");
    must(heddle_request_free(&request), "free");
    close_stage();
}

/* The team may end while devices are at work for it: what they use stays. */
static void sum_and_leave(uint32_t times) {
    for (uint32_t k = 0; k < times; k++) {
        fill(0, stage.stream[0], stage.src[0], k + 1, COUNT);
        fill(1, stage.stream[1], stage.src[1], k + 2, COUNT);
        post_all();
    }
    for (uint32_t i = 0; i < 2; i++) {
        copy(i, stage.stream[i], stage.kept[i], stage.dst[i], BYTES);
    }
    end_team();
}

Test(streams, what_devices_use_stays_when_the_team_ends) {
    open_stage("2,nopeer,policy=lazy,seed=5", 2, 2);
    ucc_lib_h lib = world_lib(UCC_THREAD_SINGLE); /* so that the driver stays open */
    sum_and_leave(3);
    heddle_group_params_t params = {.endpoints = 2, .thread_mode = UCC_THREAD_MULTIPLE};
    must(heddle_group_create(&params, &stage.group), "heddle_group_create");
    for (uint32_t i = 0; i < 2; i++) {
        must(heddle_join(stage.group, i, &stage.ep[i]), "heddle_join");
    }
    for (uint32_t i = 0; i < 2; i++) {
        fill(i, stage.stream[i], stage.src[i], 7, COUNT);
    }
    post_all();
    for (uint32_t i = 0; i < 2; i++) {
        copy(i, stage.stream[i], stage.kept[i] + COUNT, stage.dst[i], BYTES);
        await_stream(i, stage.stream[i]);
        uint32_t seen[2 * COUNT];
        device_from(seen, stage.kept[i], sizeof(seen));
        cr_assert_eq(seen[COUNT - 1], 7);
        cr_assert_eq(seen[2 * COUNT - 1], 14);
    }
    must(ucc_finalize(lib), "ucc_finalize");
    close_stage();
}

/* The `waits`-th endpoint's stream may wait for what its own thread is going to do: nobody waits
 * for it in the driver. */
static void leave_behind_a_gate(const char *config, uint32_t n, int devices, uint32_t waits) {
    uint64_t *word;
    open_stage(config, n, devices);
    device_enter(0);
    must_cu(cuMemHostAlloc((void **)&word, sizeof(*word), 0), "cuMemHostAlloc");
    *word = 0;
    must_cu(cuStreamWaitValue64_v2(stage.stream[waits], at(word), 1, CU_STREAM_WAIT_VALUE_GEQ),
            "cuStreamWaitValue64");
    device_leave();
    post_all();
    end_team();
    cr_assert(strstr(last_line, "has not done what was posted on streams"), "%s", last_line);
    heddle_emucuda_host_write(word, sizeof(*word));
    heddle_emucuda_host_release(word);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < n; i++) {
        copy(i, stage.stream[i], stage.kept[i], stage.dst[i], BYTES);
        await_stream(i, stage.stream[i]);
    }
    heddle_emucuda_report_t report; /* no more than that: what the line has is kept for ever */
    heddle_emucuda_report(&report, sizeof(report));
    cr_assert_eq(report.races + report.deadlocks + report.faults + report.leaks, 0);
}

/* Endpoint 1 has device 0 do it, which so waits on a line. */
Test(streams, an_endpoint_leaves_though_its_stream_waits_for_the_host) {
    leave_behind_a_gate("2", 2, 2, 0);
}

/* The same where there is nothing but the endpoints' own streams. */
Test(streams, an_endpoint_leaves_though_its_own_stream_does_it_all) {
    leave_behind_a_gate("1", 2, 1, 1);
}

/* --- driver calls that fail ------------------------------------------------------------------- */

enum { UNKNOWN_ERROR = 999 };

static ucc_status_t ended[MOST];
static uint64_t failing, calls_made;
static pthread_barrier_t together;

static uint64_t calls_so_far(void) {
    heddle_emucuda_report_t report;
    heddle_emucuda_report(&report, sizeof(report));
    return report.calls;
}

/* Only calls of the collective fail. */
static void fail_call(uint64_t n, uint32_t i) {
    pthread_barrier_wait(&together);
    if (i == 0) {
        calls_made = calls_so_far() - calls_made;
        heddle_emucuda_fail_call(n, UNKNOWN_ERROR);
    }
    pthread_barrier_wait(&together);
}

static void sum_in_own_stream(void *arg, uint32_t i) {
    (void)arg;
    device_enter(device_of(i));
    fail_call(failing, i);
    ended[i] = heddle_allreduce_on(stage.ep[i], CU_STREAM_PER_THREAD, stage.src[i], stage.dst[i],
                                   COUNT, UCC_DT_UINT32, UCC_OP_SUM);
    if (ended[i] != UCC_OK) { /* the others may not know, where it was only the arguments */
        (void)heddle_team_abort(heddle_ep_team(stage.ep[i]));
    }
    fail_call(0, i);
    device_leave();
}

/* False: there are not so many calls. */
static bool sum_with_failing_call(uint64_t n) {
    open_stage("1,seed=3,policy=lazy", 2, 1);
    failing = n;
    calls_made = 0;
    driver_threads(2, sum_in_own_stream, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        if (ended[i] != UCC_OK) { /* its buffers are nobody's */
            cr_assert(last_line[0], "call %llu: no line", (unsigned long long)n);
            fill(i, stage.stream[i], stage.src[i], 0, COUNT);
            fill(i, stage.stream[i], stage.dst[i], 0, COUNT);
            await_stream(i, stage.stream[i]);
        }
    }
    close_stage();
    heddle_emucuda_reset();
    return calls_made >= n;
}

Test(streams, buffers_of_a_call_that_fails_are_the_callers) {
    uint64_t n = 1;
    pthread_barrier_init(&together, NULL, 2);
    while (sum_with_failing_call(n)) {
        n++;
    }
    pthread_barrier_destroy(&together);
    cr_assert_gt(n, 20);
}

/* --- captures --------------------------------------------------------------------------------- */

static void begin_capture(uint32_t i) {
    device_enter(device_of(i));
    must_cu(cuStreamBeginCapture_v2(stage.stream[i], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
            "cuStreamBeginCapture");
    device_leave();
}

static CUgraph end_capture(uint32_t i) {
    CUgraph graph;
    device_enter(device_of(i));
    must_cu(cuStreamEndCapture(stage.stream[i], &graph), "cuStreamEndCapture");
    device_leave();
    return graph;
}

/* All streams are part of stream 0's capture, or are so no longer. */
static void fork_streams(bool out) {
    for (uint32_t i = 1; i < stage.n; i++) {
        uint32_t from = out ? 0 : i, to = out ? i : 0;
        CUevent event;
        device_enter(device_of(from));
        must_cu(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        must_cu(cuEventRecord(event, stage.stream[from]), "cuEventRecord");
        device_leave();
        device_enter(device_of(to));
        must_cu(cuStreamWaitEvent(stage.stream[to], event, 0), "cuStreamWaitEvent");
        must_cu(cuEventDestroy_v2(event), "cuEventDestroy");
        device_leave();
    }
}

static void capture_and_replay(const char *config, uint32_t n, int devices) {
    CUgraphExec exec;
    open_stage(config, n, devices);
    begin_capture(0);
    fork_streams(true);
    for (uint32_t i = 0; i < n; i++) {
        copy(i, stage.stream[i], stage.src[i], stage.kept[i], BYTES);
    }
    post_all();
    for (uint32_t i = 0; i < n; i++) {
        copy(i, stage.stream[i], stage.kept[i], stage.dst[i], BYTES);
    }
    fork_streams(false);
    CUgraph graph = end_capture(0);
    device_enter(0);
    must_cu(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    for (uint32_t i = 0; i < n; i++) {
        fill(i, stage.stream[0], stage.kept[i], i + 1, COUNT);
    }
    for (uint32_t times = 0; times < 3; times++) {
        must_cu(cuGraphLaunch(exec, stage.stream[0]), "cuGraphLaunch");
    }
    must_cu(cuStreamSynchronize(stage.stream[0]), "cuStreamSynchronize");
    must_cu(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
    must_cu(cuGraphDestroy(graph), "cuGraphDestroy");
    device_leave();
    for (uint32_t i = 0; i < n; i++) {
        check_kept(i, 0, COUNT, n * (n + 1) / 2 * n * n);
    }
    close_stage();
}

Test(streams, a_capture_does_it_at_each_launch) {
    capture_and_replay("1,seed=1", 2, 1);
}

Test(streams, a_capture_may_span_devices) {
    capture_and_replay("3,seed=2,policy=newest", 6, 3);
}

Test(streams, a_graph_runs_when_its_team_has_ended) {
    CUgraphExec exec;
    open_stage("2,seed=9", 4, 2);
    begin_capture(0);
    fork_streams(true);
    post_all();
    fork_streams(false);
    CUgraph graph = end_capture(0);
    end_team();
    must(ucc_finalize(world_lib(UCC_THREAD_SINGLE)), "a later library handle ends");
    for (uint32_t i = 0; i < 4; i++) {
        fill(i, stage.stream[i], stage.src[i], i + 1, COUNT);
        await_stream(i, stage.stream[i]);
    }
    device_enter(0);
    must_cu(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    must_cu(cuGraphLaunch(exec, stage.stream[0]), "cuGraphLaunch");
    for (uint32_t i = 0; i < 4; i++) {
        copy(0, stage.stream[0], stage.kept[i], stage.dst[i], BYTES);
    }
    must_cu(cuStreamSynchronize(stage.stream[0]), "cuStreamSynchronize");
    must_cu(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
    must_cu(cuGraphDestroy(graph), "cuGraphDestroy");
    device_leave();
    for (uint32_t i = 0; i < 4; i++) {
        check_kept(i, 0, COUNT, 10);
    }
    close_stage();
}

/* More addresses than a launch takes: the graph keeps a table. */
static void alltoallv_of(uint32_t i, ucc_coll_args_t *args, uint64_t *counts) {
    for (uint32_t k = 0; k < stage.n; k++) {
        counts[k] = COUNT / MOST;
    }
    *args = (ucc_coll_args_t){.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                              .flags = UCC_COLL_ARGS_FLAG_COUNT_64BIT |
                                       UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT,
                              .coll_type = UCC_COLL_TYPE_ALLTOALLV};
    args->src.info_v =
        (ucc_coll_buffer_info_v_t){stage.src[i], counts, NULL, UCC_DT_UINT32, UCC_MEMORY_TYPE_CUDA};
    args->dst.info_v =
        (ucc_coll_buffer_info_v_t){stage.dst[i], counts, NULL, UCC_DT_UINT32, UCC_MEMORY_TYPE_CUDA};
}

static void capture_alltoallv(const char *config, int devices) {
    enum { N = 8 };
    ucc_coll_req_h request[N];
    uint64_t counts[N][N];
    CUgraphExec exec;
    open_stage(config, N, devices);
    begin_capture(0);
    fork_streams(true);
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args;
        alltoallv_of(i, &args, counts[i]);
        must(ucc_collective_init(&args, &request[i], heddle_ep_team(stage.ep[i])), "init");
        must(heddle_post_on(request[i], stage.stream[i]), "heddle_post_on");
    }
    must(heddle_wait_all(request, N, 30), "heddle_wait_all");
    for (uint32_t i = 0; i < N; i++) {
        must(heddle_request_free(&request[i]), "free");
    }
    fork_streams(false);
    CUgraph graph = end_capture(0);
    device_enter(0);
    must_cu(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    must_cu(cuGraphDestroy(graph), "cuGraphDestroy");
    for (uint32_t times = 1; times < 4; times++) {
        for (uint32_t i = 0; i < N; i++) {
            fill(i, stage.stream[0], stage.src[i], times * 100 + i, COUNT);
        }
        must_cu(cuGraphLaunch(exec, stage.stream[0]), "cuGraphLaunch");
        for (uint32_t i = 0; i < N; i++) {
            copy(i, stage.stream[0], stage.kept[i], stage.dst[i], BYTES);
        }
        must_cu(cuStreamSynchronize(stage.stream[0]), "cuStreamSynchronize");
        for (uint32_t i = 0; i < N; i++) {
            uint32_t seen[N * (COUNT / MOST)];
            device_from(seen, stage.kept[i], sizeof(seen));
            for (uint32_t k = 0; k < N * (COUNT / MOST); k++) {
                cr_assert_eq(seen[k], times * 100 + k / (COUNT / MOST));
            }
        }
    }
    must_cu(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
    device_leave();
    close_stage();
}

Test(streams, a_graph_keeps_what_a_launch_cannot_carry) {
    capture_alltoallv("1,seed=4", 1);
}

Test(streams, a_graph_keeps_it_on_each_device) {
    capture_alltoallv("2,seed=5", 2);
}

Test(streams, a_graph_has_copies_between_devices) {
    heddle_emucuda_report_t report;
    setenv("HEDDLE_GPU_COPY_MIN", "64", 1);
    capture_alltoallv("2,seed=6", 2);
    heddle_emucuda_report(&report, sizeof(report));
    cr_assert_eq(report.peer_copies, 8 * 4);
}

Test(streams, streams_of_two_captures_are_refused_at_every_endpoint) {
    ucc_coll_req_h request[2];
    open_stage("1,seed=6", 2, 1);
    begin_capture(0);
    begin_capture(1);
    for (uint32_t i = 0; i < 2; i++) {
        ucc_coll_args_t args = sum_args(i, 0);
        must(ucc_collective_init(&args, &request[i], heddle_ep_team(stage.ep[i])), "init");
        heddle_post_on(request[i], stage.stream[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_lt(heddle_wait(request[i], 30), 0, "endpoint %u", i);
        heddle_request_free(&request[i]);
    }
    cr_assert(strstr(last_line, "capture"), "%s", last_line);
    for (uint32_t i = 0; i < 2; i++) {
        must_cu(cuGraphDestroy(end_capture(i)), "cuGraphDestroy");
    }
    close_stage();
}

Test(streams, a_broken_capture_of_others_is_no_news) {
    void *others[4];
    CUgraph none;
    open_stage("2,seed=8", 4, 2); /* endpoint 3 has device 0 do it, on a line */
    begin_capture(0);
    fork_streams(true);
    post_all();
    device_enter(0);
    cr_assert_neq(cuStreamSynchronize(stage.stream[0]), CUDA_SUCCESS);
    device_leave();
    for (uint32_t i = 0; i < 4; i++) {
        others[i] = stage.stream[i];
        stage.stream[i] = device_stream(device_of(i));
    }
    begin_capture(0);
    fork_streams(true);
    post_all();
    fork_streams(false);
    must_cu(cuGraphDestroy(end_capture(0)), "cuGraphDestroy");
    cr_assert_eq(last_line[0], 0, "%s", last_line);
    device_enter(0);
    cr_assert_neq(cuStreamEndCapture(others[0], &none), CUDA_SUCCESS);
    device_leave();
    for (uint32_t i = 0; i < 4; i++) {
        device_stream_end(others[i]);
    }
    close_stage();
}

Test(streams, a_capture_begun_after_the_post_is_left_alone) {
    ucc_coll_req_h request[2];
    CUgraphExec exec;
    open_stage("1,seed=7", 2, 1);
    for (uint32_t i = 0; i < 2; i++) {
        ucc_coll_args_t args = sum_args(i, 0);
        fill(i, stage.stream[i], stage.src[i], value_of(i, 0), COUNT);
        must(ucc_collective_init(&args, &request[i], heddle_ep_team(stage.ep[i])), "init");
    }
    must(heddle_post_on(request[0], stage.stream[0]), "heddle_post_on");
    begin_capture(0);
    must(heddle_post_on(request[1], stage.stream[1]), "heddle_post_on");
    copy(0, stage.stream[0], stage.kept[0], stage.src[0], BYTES);
    cr_assert_eq(heddle_wait(request[0], 30), UCC_ERR_INVALID_PARAM, "%s", last_line);
    cr_assert(strstr(last_line, "a capture of its stream was begun after the post"), "%s",
              last_line);
    must(heddle_wait(request[1], 30), "heddle_wait");
    for (uint32_t i = 0; i < 2; i++) {
        must(heddle_request_free(&request[i]), "heddle_request_free");
    }
    CUgraph graph = end_capture(0);
    device_enter(0);
    must_cu(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    must_cu(cuGraphLaunch(exec, stage.stream[0]), "cuGraphLaunch");
    must_cu(cuStreamSynchronize(stage.stream[0]), "cuStreamSynchronize");
    must_cu(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
    must_cu(cuGraphDestroy(graph), "cuGraphDestroy");
    device_leave();
    check_kept(0, 0, COUNT, value_of(0, 0)); /* nothing else is in it */
    copy(1, stage.stream[1], stage.kept[1], stage.dst[1], BYTES);
    await_stream(1, stage.stream[1]);
    check_kept(1, 0, COUNT, sum_of(0));
    close_stage();
}

Test(streams, devices_out_of_reach_cannot_be_captured) {
    ucc_coll_req_h request[2];
    open_stage("2,nopeer,seed=6", 2, 2);
    begin_capture(0);
    fork_streams(true);
    for (uint32_t i = 0; i < 2; i++) {
        ucc_coll_args_t args = sum_args(i, 0);
        must(ucc_collective_init(&args, &request[i], heddle_ep_team(stage.ep[i])), "init");
        heddle_post_on(request[i], stage.stream[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_lt(heddle_wait(request[i], 30), 0, "endpoint %u", i);
        heddle_request_free(&request[i]);
    }
    fork_streams(false);
    must_cu(cuGraphDestroy(end_capture(0)), "cuGraphDestroy");
    close_stage();
}

/* --- tags: a stream each ---------------------------------------------------------------------- */

enum { TAGS = 3 };

static void *tagged[MOST][TAGS];

static void tag_by_tag(void *arg, uint32_t i) {
    (void)arg;
    for (uint32_t k = 0; k < TAGS; k++) {
        void *stream = tagged[i][k];
        uint32_t *src = stage.kept[i] + (size_t)k * COUNT, *dst = src + TAGS * COUNT;
        fill(i, stream, src, value_of(i, k), COUNT);
        ucc_coll_args_t args = sum_args(i, (uint16_t)(k + 1));
        args.src.info.buffer = src;
        args.dst.info.buffer = dst;
        must(heddle_collective_on(&args, heddle_ep_team(stage.ep[i]), stream),
             "heddle_collective_on");
        fill(i, stream, src, 0, COUNT);
    }
    for (uint32_t k = 0; k < TAGS; k++) {
        await_stream(i, tagged[i][k]);
    }
}

Test(streams, tags_have_streams_of_their_own) {
    enum { N = 4 };
    open_stage("1,seed=7,channels=8", N, 1);
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = 0; k < TAGS; k++) {
            tagged[i][k] = device_stream(0);
        }
    }
    driver_threads(N, tag_by_tag, NULL);
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = 0; k < TAGS; k++) {
            uint32_t seen[COUNT];
            device_from(seen, stage.kept[i] + (size_t)(TAGS + k) * COUNT, sizeof(seen));
            cr_assert_eq(seen[COUNT - 1], sum_of(k));
            device_stream_end(tagged[i][k]);
        }
    }
    close_stage();
}
