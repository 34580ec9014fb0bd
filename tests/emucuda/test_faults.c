/* test_faults.c: calls that fail, devices that are lost, and what is left behind. */
#include "rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 500, MOST_CALLS = 200 };

TestSuite(faults, .timeout = 120);

/* What a careful program does: it undoes what it has done, whatever fails. Returns the first
 * failure. */
static CUresult careful(const rig_t *rig) {
    CUdeviceptr x = 0, y = 0;
    void *pinned = NULL;
    CUstream stream = NULL, other = NULL;
    CUevent event = NULL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUresult failed;
    uint32_t factor = 2, count = COUNT;
    void *params[] = {&x, &factor, &count};
    bool capturing = false;
#define TRY(call)                                                                                  \
    if ((failed = (call)) != CUDA_SUCCESS) {                                                       \
        goto undo;                                                                                 \
    }
    TRY(cuMemAlloc_v2(&x, COUNT * 4))
    TRY(cuMemHostAlloc(&pinned, COUNT * 4, 0))
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
    TRY(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING))
    TRY(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING))
    TRY(cuMemsetD32Async(x, 1, COUNT, stream))
    TRY(rig_launch(rig->scale, stream, COUNT, params))
    TRY(cuEventRecord(event, stream))
    TRY(cuStreamWaitEvent(other, event, 0))
    TRY(cuMemAllocAsync(&y, COUNT * 4, other))
    TRY(cuMemcpyDtoDAsync_v2(y, x, COUNT * 4, other))
    TRY(cuMemcpyDtoHAsync_v2(pinned, y, COUNT * 4, other))
    TRY(cuStreamSynchronize(other))
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED))
    capturing = true;
    TRY(rig_launch(rig->scale, stream, COUNT, params))
    capturing = false;
    TRY(cuStreamEndCapture(stream, &graph))
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0))
    TRY(cuGraphLaunch(exec, stream))
    TRY(cuEventQuery(event))
    TRY(cuStreamSynchronize(stream))
#undef TRY
undo:
    if (capturing) {
        cuStreamEndCapture(stream, &graph);
    }
    if (exec) {
        cuGraphExecDestroy(exec);
    }
    if (graph) {
        cuGraphDestroy(graph);
    }
    if (y) {
        cuMemFreeAsync(y, other);
    }
    if (event) {
        cuEventDestroy_v2(event);
    }
    if (stream) {
        cuStreamDestroy_v2(stream);
    }
    if (other) {
        cuStreamDestroy_v2(other);
    }
    if (pinned) {
        cuMemFreeHost(pinned);
    }
    if (x) {
        cuMemFree_v2(x);
    }
    return failed;
}

static void expect_nothing_left(unsigned n) {
    heddle_emucuda_report_t r = rig_report();
    cr_expect_eq(
        r.device_allocations + r.host_allocations + r.streams + r.events + r.graphs + r.graph_execs,
        0, "call %u: %d %d %d %d %d %d", n, (int)r.device_allocations, (int)r.host_allocations,
        (int)r.streams, (int)r.events, (int)r.graphs, (int)r.graph_execs);
}

Test(faults, every_call_can_fail_and_nothing_is_left) {
    unsigned failures = 0, n = 1;
    for (CUresult status = CUDA_ERROR_UNKNOWN; status != CUDA_SUCCESS && n < MOST_CALLS; n++) {
        rig_t rig = rig_open("1");
        uint64_t before = rig_report().calls;
        heddle_emucuda_fail_call(n, CUDA_ERROR_UNKNOWN);
        status = careful(&rig);
        bool reached = rig_report().calls - before >= n;
        heddle_emucuda_fail_call(0, 0);
        cr_expect(status == CUDA_SUCCESS || status == CUDA_ERROR_UNKNOWN, "call %u: %d", n,
                  (int)status);
        failures += status != CUDA_SUCCESS;
        must(cuCtxSynchronize());
        expect_nothing_left(n);
        rig_close(&rig);
        if (status == CUDA_SUCCESS && reached) {
            status = CUDA_ERROR_UNKNOWN; /* a call that frees failed: go on to the next */
        }
    }
    cr_expect_eq(failures, 20, "%u", failures);
    cr_expect_lt(n, MOST_CALLS);
}

Test(faults, the_nth_call_fails_and_no_other) {
    rig_t rig = rig_open("1");
    CUstream stream = rig_stream();
    heddle_emucuda_fail_call(2, CUDA_ERROR_OUT_OF_MEMORY);
    must(cuStreamQuery(stream));
    cr_expect_eq(cuStreamQuery(stream), CUDA_ERROR_OUT_OF_MEMORY);
    must(cuStreamQuery(stream));
    heddle_emucuda_fail_call(1, CUDA_ERROR_UNKNOWN);
    cr_expect_eq(cuStreamDestroy_v2(stream), CUDA_ERROR_UNKNOWN, "and does its work");
    cr_expect_eq(cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE);
    rig_close(&rig);
}

Test(faults, a_device_can_be_lost_at_every_operation) {
    unsigned lost = 0;
    for (uint64_t left = 0; left <= 40; left++) {
        rig_t rig = rig_open("2");
        heddle_emucuda_lose_device(0, left);
        CUresult status = careful(&rig);
        if (status != CUDA_SUCCESS) {
            lost++;
            cr_expect_eq(status, CUDA_ERROR_ECC_UNCORRECTABLE, "after %d: %d", (int)left,
                         (int)status);
            cr_expect_eq(cuCtxSynchronize(), CUDA_ERROR_ECC_UNCORRECTABLE);
        }
        heddle_emucuda_run(1000);
        expect_nothing_left((unsigned)left);
        CUcontext other;
        must(cuDevicePrimaryCtxRetain(&other, 1));
        must(cuCtxSetCurrent(other));
        must(cuCtxSynchronize());
        rig_close(&rig);
    }
    cr_expect(lost > 8 && lost < 40, "%u", lost);
}

Test(faults, who_waits_for_a_lost_device_is_told) {
    rig_t rig = rig_open("2");
    CUcontext other;
    CUstream here = rig_stream();
    CUevent event = rig_event();
    uint32_t *word = rig_pinned(1);
    *word = 0;
    must(cuStreamWaitValue32_v2(here, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
    must(cuEventRecord(event, here));
    must(cuDevicePrimaryCtxRetain(&other, 1));
    must(cuCtxSetCurrent(other));
    CUstream there = rig_stream();
    must(cuStreamWaitEvent(there, event, 0));
    heddle_emucuda_lose_device(0, 0);
    must(cuStreamSynchronize(there));
    cr_expect_eq(cuEventSynchronize(event), CUDA_ERROR_ECC_UNCORRECTABLE);
    rig_close(&rig);
}

Test(faults, what_a_lost_device_was_given_races_with_nobody) {
    rig_t rig = rig_open("2,policy=lazy,idle=0");
    CUcontext other;
    CUstream here = rig_stream();
    CUdeviceptr words = (CUdeviceptr)(uintptr_t)rig_pinned(2);
    must(cuMemsetD32Async(words, 1, 2, here));
    must(cuDevicePrimaryCtxRetain(&other, 1));
    must(cuCtxSetCurrent(other));
    CUstream there = rig_stream();
    must(cuMemsetD32Async(words, 2, 1, there));
    cr_expect_eq(rig_report().races, 1);
    heddle_emucuda_lose_device(0, 0);
    must(cuMemsetD32Async(words + sizeof(uint32_t), 2, 1, there));
    cr_expect_eq(rig_report().races, 1);
    rig_close(&rig);
}

Test(faults, what_lives_when_its_context_ends_is_a_leak) {
    rig_t rig = rig_open("1");
    rig_alloc(COUNT);
    rig_stream();
    rig_event();
    must(cuDevicePrimaryCtxRelease_v2(0));
    cr_expect_eq(rig_report().leaks, 4, "with the module: %d", (int)rig_report().leaks);
    cr_expect_eq(cuStreamCreate(&(CUstream){NULL}, 0), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    rig_close(&rig);
}

Test(faults, handles_of_what_is_destroyed_are_errors) {
    rig_t rig = rig_open("1");
    CUstream stream = rig_stream();
    CUevent event = rig_event();
    must(cuEventDestroy_v2(event));
    cr_expect_eq(cuEventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
    cr_expect_eq(cuEventDestroy_v2(event), CUDA_ERROR_INVALID_HANDLE);
    must(cuStreamDestroy_v2(stream));
    cr_expect_eq(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    rig_close(&rig);
}

Test(faults, streams_are_destroyed_with_work_that_goes_on) {
    rig_t rig = rig_open("1,policy=lazy,idle=0");
    CUstream stream = rig_stream();
    CUdeviceptr x = rig_alloc_filled(COUNT, 1);
    rig_scale(&rig, stream, x, 3, COUNT);
    must(cuStreamDestroy_v2(stream));
    cr_expect_eq(rig_report().streams, 0);
    cr_expect_gt(rig_report().pending, 0);
    cr_expect(rig_all(x, COUNT, 3));
    rig_close(&rig);
}

Test(faults, a_child_of_a_fork_has_no_devices) {
    rig_t rig = rig_open("1");
    pid_t child = fork();
    if (child == 0) {
        _exit(cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED &&
                      cuInit(0) == CUDA_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    cr_expect_eq(status, 0);
    must(cuCtxSynchronize());
    rig_close(&rig);
}

Test(faults, nothing_works_before_cu_init_or_with_a_wrong_configuration) {
    int count;
    cr_expect_eq(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    cr_expect_eq(heddle_emucuda_configure("4,sede=1"), -1);
    cr_expect_eq(heddle_emucuda_configure("65"), -1);
    cr_expect_eq(heddle_emucuda_configure("1,memory=12Q"), -1);
    cr_expect_eq(heddle_emucuda_configure(
                     "3,memory=12M,nopeer,policy=lazy,window=3,host=threads,patience=1"),
                 0);
    must(cuInit(0));
    must(cuDeviceGetCount(&count));
    cr_expect_eq(count, 3);
    cr_expect_eq(heddle_emucuda_configure("2"), -1, "too late");
    size_t bytes;
    must(cuDeviceTotalMem_v2(&bytes, 2));
    cr_expect_eq(bytes, 12 << 20);
    heddle_emucuda_reset();
    cr_expect_eq(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
}

Test(faults, functions_are_found_by_name_and_version) {
    void *found, *plain;
    CUdriverProcAddressQueryResult result;
    must(cuGetProcAddress_v2("cuMemAlloc", &found, 12020, 0, &result));
    cr_expect_eq(found, (void *)cuMemAlloc_v2);
    must(cuGetProcAddress_v2("cuMemAlloc", &found, 2000, 0, &result));
    cr_expect(!found && result == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    must(cuGetProcAddress_v2("cuMemAllocate", &found, 12020, 0, &result));
    cr_expect(!found && result == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    cr_expect_eq(cuGetProcAddress("cuMemAllocate", &found, 12020, 0), CUDA_ERROR_NOT_FOUND);
    must(cuGetProcAddress_v2("cuMemcpyAsync", &plain, 12020, CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                             &result));
    must(cuGetProcAddress_v2("cuMemcpyAsync", &found, 12020,
                             CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &result));
    cr_expect(found == (void *)cuMemcpyAsync_ptsz && plain == (void *)cuMemcpyAsync);
    must(cuGetProcAddress_v2("heddle_emucuda_site", &found, 12020, 0, &result));
    cr_expect_eq(found, (void *)heddle_emucuda_site);
    must(cuGetProcAddress_v2("cuGetProcAddress", &found, 12020, 0, NULL));
    cr_expect_eq(found, (void *)cuGetProcAddress_v2);
}
