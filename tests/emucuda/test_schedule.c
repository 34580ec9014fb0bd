/* test_schedule.c: work runs in an order that the program asked for, and otherwise in any. */
#include "rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = 1000, SEEDS = 30 };

TestSuite(schedule, .timeout = 120);

static void count_call(void *arg) {
    ++*(unsigned *)arg;
}

static const char *const policies[] = {"random", "lazy", "starve", "newest"};

/* x = 1; two streams make a = 2x and b = 3x; a third one adds them. Returns the order. */
static uint64_t diamond(const char *config) {
    rig_t rig = rig_open(config);
    CUstream first = rig_stream(), left = rig_stream(), right = rig_stream();
    CUevent begun = rig_event(), a_done = rig_event(), b_done = rig_event();
    CUdeviceptr x = rig_alloc(COUNT), a = rig_alloc(COUNT), b = rig_alloc(COUNT),
                sum = rig_alloc(COUNT);
    unsigned calls = 0;

    for (uint32_t round = 1; round <= 5; round++) {
        must(cuMemsetD32Async(x, round, COUNT, first));
        must(cuEventRecord(begun, first));
        must(cuStreamWaitEvent(left, begun, 0));
        must(cuStreamWaitEvent(right, begun, 0));
        rig_add(&rig, left, a, x, x, COUNT);
        must(cuMemcpyDtoDAsync_v2(b, x, COUNT * 4, right));
        rig_scale(&rig, right, b, 3, COUNT);
        must(cuLaunchHostFunc(left, count_call, &calls));
        must(cuEventRecord(a_done, left));
        must(cuEventRecord(b_done, right));
        must(cuStreamWaitEvent(first, a_done, 0));
        must(cuStreamWaitEvent(first, b_done, 0));
        rig_add(&rig, first, sum, a, b, COUNT);
    }
    cr_expect(rig_all(sum, COUNT, 25), "%s", config);
    cr_expect_eq(calls, 5);
    heddle_emucuda_report_t report = rig_report();
    cr_expect_eq(report.races + report.deadlocks + report.faults, 0, "%s: %s", config, rig_line(0));
    cr_expect_eq(report.pending, 0);
    rig_close(&rig);
    return report.order;
}

Test(schedule, results_are_right_whatever_the_policy_the_seed_and_the_channels) {
    char config[128];
    for (size_t p = 0; p < 4; p++) {
        for (int seed = 1; seed <= SEEDS; seed++) {
            snprintf(config, sizeof(config), "1,policy=%s,seed=%d,channels=%d,window=%d",
                     policies[p], seed, seed % 3, 1 + seed % 5);
            diamond(config);
        }
    }
}

Test(schedule, the_same_seed_gives_the_same_order_and_others_give_others) {
    char config[64];
    uint64_t order[SEEDS];
    unsigned same = 0;
    for (int seed = 1; seed <= SEEDS; seed++) {
        snprintf(config, sizeof(config), "1,seed=%d", seed);
        order[seed - 1] = diamond(config);
        cr_expect_eq(diamond(config), order[seed - 1], "seed %d", seed);
    }
    for (int i = 1; i < SEEDS; i++) {
        same += order[i] == order[0];
    }
    cr_expect_lt(same, 3);
}

Test(schedule, nothing_runs_under_the_lazy_policy_before_somebody_waits) {
    rig_t rig = rig_open("1,policy=lazy,idle=0");
    CUstream needed = rig_stream(), other = rig_stream();
    uint32_t *word = rig_pinned(2);
    word[0] = word[1] = 0;
    must(cuMemsetD32Async((CUdeviceptr)(uintptr_t)&word[0], 1, 1, needed));
    must(cuMemsetD32Async((CUdeviceptr)(uintptr_t)&word[1], 1, 1, other));
    cr_expect_eq(word[0] + word[1], 0);
    must(cuStreamSynchronize(needed));
    cr_expect_eq(word[0], 1);
    cr_expect_eq(word[1], 0, "the wait did not need it");
    must(cuStreamSynchronize(other));
    cr_expect_eq(word[1], 1);
    rig_close(&rig);
}

Test(schedule, a_kernel_runs_in_pieces_between_those_of_others) {
    rig_t rig = rig_open("1,policy=lazy,window=1,idle=0");
    CUstream stream = rig_stream();
    CUdeviceptr x = rig_alloc_filled(COUNT, 1);
    uint64_t before = rig_report().operations;
    rig_scale(&rig, stream, x, 2, COUNT);
    cr_expect_eq(heddle_emucuda_run(COUNT / RIG_BLOCK), COUNT / RIG_BLOCK);
    cr_expect_eq(rig_report().operations, before, "its last block is left");
    cr_expect_eq(heddle_emucuda_run(1), 1);
    cr_expect_eq(rig_report().operations, before + 1);
    rig_close(&rig);
}

static void set_word(void *arg) {
    *(uint32_t *)arg = 7;
    cr_expect_eq(cuCtxSynchronize(), CUDA_ERROR_NOT_PERMITTED, "no calls from there");
}

static void note_stream(CUstream stream, CUresult status, void *arg) {
    *(CUstream *)arg = status == CUDA_SUCCESS ? stream : NULL;
}

Test(schedule, host_functions_run_in_stream_order) {
    rig_t rig = rig_open("1,idle=0");
    CUstream stream = rig_stream(), told = NULL;
    uint32_t *word = rig_pinned(2);
    CUdeviceptr pinned = (CUdeviceptr)(uintptr_t)word;
    word[0] = 1;
    must(cuMemcpyDtoDAsync_v2(pinned + 4, pinned, 4, stream));
    must(cuLaunchHostFunc(stream, set_word, word));
    must(cuStreamAddCallback(stream, note_stream, &told, 0));
    must(cuMemcpyDtoDAsync_v2(pinned + 4, pinned, 4, stream));
    must(cuStreamSynchronize(stream));
    cr_expect_eq(word[1], 7);
    cr_expect_eq(told, stream);
    rig_close(&rig);
}

Test(schedule, the_null_stream_is_ordered_with_blocking_streams_only) {
    char config[64];
    for (int seed = 1; seed <= SEEDS; seed++) {
        snprintf(config, sizeof(config), "1,seed=%d,idle=0", seed);
        rig_t rig = rig_open(config);
        CUstream blocking;
        CUdeviceptr x = rig_alloc_filled(COUNT, 1);
        must(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
        rig_scale(&rig, blocking, x, 2, COUNT);
        must(cuMemsetD32Async(x, 5, COUNT, NULL));
        rig_scale(&rig, blocking, x, 3, COUNT);
        cr_expect(rig_all(x, COUNT, 15));
        cr_expect_eq(rig_report().races, 0, "%s", rig_line(0));
        rig_scale(&rig, rig_stream(), x, 2, COUNT);
        must(cuMemsetD32Async(x, 5, COUNT, NULL));
        cr_expect_eq(rig_report().races, 1, "a non-blocking stream is not ordered");
        rig_close(&rig);
    }
}

Test(schedule, a_wait_for_a_value_ends_by_a_write_of_another_stream) {
    char config[64];
    for (int seed = 1; seed <= SEEDS; seed++) {
        snprintf(config, sizeof(config), "1,seed=%d,policy=%s", seed, policies[seed % 4]);
        rig_t rig = rig_open(config);
        CUstream waits = rig_stream(), writes = rig_stream();
        uint32_t *word = rig_pinned(1);
        CUdeviceptr x = rig_alloc_filled(COUNT, 1), gate = (CUdeviceptr)(uintptr_t)word;
        *word = 0;
        must(cuStreamWaitValue32_v2(waits, gate, 3, CU_STREAM_WAIT_VALUE_GEQ));
        rig_scale(&rig, waits, x, 2, COUNT);
        must(cuMemsetD32Async(x, 10, COUNT, writes));
        must(cuStreamWriteValue32_v2(writes, gate, 3, 0));
        cr_expect(rig_all(x, COUNT, 20));
        cr_expect_eq(rig_report().races, 0, "%s", rig_line(0));
        rig_close(&rig);
    }
}

Test(schedule, a_wait_for_a_value_that_nobody_writes_is_a_deadlock_at_once) {
    rig_t rig = rig_open("1,patience=100000");
    CUstream stream = rig_stream(), other = rig_stream();
    CUevent event = rig_event();
    uint32_t *word = rig_pinned(1);
    *word = 0;
    must(cuStreamWaitValue32_v2(stream, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
    must(cuEventRecord(event, stream));
    must(cuStreamWaitEvent(other, event, 0));
    cr_expect_eq(cuStreamSynchronize(other), CUDA_ERROR_TIMEOUT);
    cr_expect_eq(rig_report().deadlocks, 1);
    cr_expect(strstr(rig_line(0), "waits for a value") && strstr(rig_line(0), "waits for a record"),
              "%s", rig_line(0));
    rig_close(&rig);
}

Test(schedule, streams_that_share_a_channel_may_block_each_other) {
    for (int channels = 0; channels <= 1; channels++) {
        rig_t rig = rig_open(channels ? "1,channels=1,idle=0" : "1,idle=0");
        CUstream waits = rig_stream(), opens = rig_stream();
        uint32_t *word = rig_pinned(1);
        *word = 0;
        must(cuStreamWaitValue32_v2(waits, (CUdeviceptr)(uintptr_t)word, 1,
                                    CU_STREAM_WAIT_VALUE_EQ));
        must(cuStreamWriteValue32_v2(opens, (CUdeviceptr)(uintptr_t)word, 1, 0));
        cr_expect_eq(cuStreamSynchronize(waits), channels ? CUDA_ERROR_TIMEOUT : CUDA_SUCCESS);
        cr_expect_eq(rig_report().deadlocks, (uint64_t)channels);
        rig_close(&rig);
    }
}

Test(schedule, work_goes_on_for_a_host_that_only_watches_memory) {
    rig_t rig = rig_open("1,policy=lazy");
    CUstream stream = rig_stream();
    uint32_t *word = rig_pinned(1);
    *word = 0;
    must(cuStreamWriteValue32_v2(stream, (CUdeviceptr)(uintptr_t)word, 1, 0));
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) { /* the suite has a time limit */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    rig_close(&rig);
}
