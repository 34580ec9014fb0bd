/* test_capture.c: captures, the graphs that come of them, and what spoils them. */
#include "rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { COUNT = 300 };

TestSuite(capture, .timeout = 60);

static CUstream begin(CUstreamCaptureMode mode) {
    CUstream stream = rig_stream();
    must(cuStreamBeginCapture_v2(stream, mode));
    return stream;
}

static CUgraphExec end(CUstream stream) {
    CUgraph graph;
    CUgraphExec exec;
    must(cuStreamEndCapture(stream, &graph));
    must(cuGraphInstantiateWithFlags(&exec, graph, 0));
    must(cuGraphDestroy(graph));
    return exec;
}

/* Makes stream come after what first has captured. */
static void fork_to(CUstream first, CUstream stream) {
    CUevent event = rig_event();
    must(cuEventRecord(event, first));
    must(cuStreamWaitEvent(stream, event, 0));
    must(cuEventDestroy_v2(event));
}

Test(capture, a_graph_does_at_each_launch_what_was_captured) {
    char config[64];
    for (int seed = 1; seed <= 20; seed++) {
        snprintf(config, sizeof(config), "1,seed=%d,policy=%s,channels=%d", seed,
                 seed % 2 ? "random" : "newest", seed % 3);
        rig_t rig = rig_open(config);
        CUdeviceptr x = rig_alloc_filled(COUNT, 1), a = rig_alloc(COUNT), b = rig_alloc(COUNT);
        CUstream stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL), left = rig_stream();
        rig_scale(&rig, stream, x, 2, COUNT);
        fork_to(stream, left);
        rig_add(&rig, stream, a, x, x, COUNT);
        rig_add(&rig, left, b, x, x, COUNT);
        rig_scale(&rig, left, b, 3, COUNT);
        fork_to(left, stream);
        rig_add(&rig, stream, x, a, b, COUNT); /* x = 2x * 2 + 2x * 6 = 16x */
        CUgraphExec exec = end(stream);
        must(cuGraphLaunch(exec, stream));
        must(cuGraphLaunch(exec, left)); /* launches follow each other */
        must(cuGraphLaunch(exec, stream));
        cr_expect(rig_all(x, COUNT, 4096), "%s", config);
        cr_expect_eq(rig_report().races, 0, "%s", rig_line(0));
        must(cuGraphLaunch(exec, stream));
        must(cuGraphExecDestroy(exec)); /* it still runs */
        cr_expect(rig_all(x, COUNT, 65536), "%s", config);
        cr_expect_eq(rig_report().graph_execs, 0);
        rig_close(&rig);
    }
}

Test(capture, a_launch_comes_after_all_branches_of_the_one_before) {
    rig_t rig = rig_open("1");
    CUdeviceptr x = rig_alloc_filled(COUNT, 1), y = rig_alloc(COUNT);
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL), left = rig_stream();
    rig_add(&rig, stream, y, x, x, COUNT);
    fork_to(stream, left);
    rig_add(&rig, stream, y, y, y, COUNT);
    rig_scale(&rig, left, x, 3, COUNT);
    fork_to(left, stream);
    CUgraphExec exec = end(stream);
    must(cuGraphLaunch(exec, stream));
    must(cuGraphLaunch(exec, left)); /* another stream */
    cr_expect_eq(rig_report().races, 0, "%s", rig_line(0));
    cr_expect(rig_all(y, COUNT, 12));
    rig_close(&rig);
}

Test(capture, branches_of_a_graph_that_should_be_ordered_are_a_race) {
    rig_t rig = rig_open("1");
    CUdeviceptr x = rig_alloc_filled(COUNT, 1);
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL), left = rig_stream();
    fork_to(stream, left);
    rig_scale(&rig, stream, x, 2, COUNT);
    rig_scale(&rig, left, x, 3, COUNT);
    fork_to(left, stream);
    CUgraphExec exec = end(stream);
    cr_expect_eq(rig_report().races, 0, "nothing has run");
    must(cuGraphLaunch(exec, stream));
    must(cuStreamSynchronize(stream));
    cr_expect_eq(rig_report().races, 1);
    rig_close(&rig);
}

static CUstreamCaptureStatus status_of(CUstream stream) {
    CUstreamCaptureStatus status;
    must(cuStreamIsCapturing(stream, &status));
    return status;
}

static void expect_spoilt(CUstream stream) {
    CUgraph graph = (CUgraph)1;
    cr_expect_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    cr_expect_eq(cuMemsetD32Async(0x1000, 0, 0, stream), CUDA_SUCCESS, "nothing to do is no error");
    cr_expect_eq(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    cr_expect_null(graph);
    cr_expect_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    cr_expect_eq(rig_report().graphs, 0);
}

Test(capture, a_captured_stream_can_not_be_waited_for) {
    rig_t rig = rig_open("1");
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    cr_expect_eq(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_spoilt(stream);
    stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    cr_expect_eq(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_spoilt(stream);
    CUevent event = rig_event();
    stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    must(cuEventRecord(event, stream));
    cr_expect_eq(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    expect_spoilt(stream);
    rig_close(&rig);
}

Test(capture, a_branch_must_be_joined) {
    rig_t rig = rig_open("1");
    CUdeviceptr x = rig_alloc_filled(COUNT, 1);
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL), left = rig_stream();
    CUgraph graph;
    fork_to(stream, left);
    cr_expect_eq(status_of(left), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    rig_scale(&rig, left, x, 3, COUNT);
    cr_expect_eq(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    cr_expect_null(graph);
    cr_expect_eq(status_of(left), CU_STREAM_CAPTURE_STATUS_NONE);
    cr_expect(rig_all(x, COUNT, 1));
    stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    fork_to(stream, left);
    cr_expect_eq(cuStreamEndCapture(left, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    expect_spoilt(stream);
    rig_close(&rig);
}

Test(capture, captures_do_not_merge_nor_wait_for_what_is_outside) {
    rig_t rig = rig_open("1");
    CUstream one = begin(CU_STREAM_CAPTURE_MODE_RELAXED),
             two = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUevent event = rig_event();
    must(cuEventRecord(event, one));
    cr_expect_eq(cuStreamWaitEvent(two, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    expect_spoilt(one);
    expect_spoilt(two);
    CUstream outside = rig_stream();
    must(cuEventRecord(event, outside));
    one = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    cr_expect_eq(cuStreamWaitEvent(one, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    expect_spoilt(one);
    rig_close(&rig);
}

Test(capture, the_null_stream_would_have_to_wait_for_a_blocking_one) {
    rig_t rig = rig_open("1");
    CUdeviceptr x = rig_alloc_filled(COUNT, 1);
    CUstreamCaptureStatus status;
    CUstream stream;
    must(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    cr_expect_eq(cuStreamBeginCapture_v2(NULL, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    cr_expect_eq(cuStreamBeginCapture_v2(stream, 0), CUDA_ERROR_ILLEGAL_STATE);
    cr_expect_eq(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    cr_expect_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE, "a question spoils nothing");
    cr_expect_eq(cuMemsetD32Async(x, 1, COUNT, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect_spoilt(stream);
    stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    must(cuMemsetD32Async(x, 1, COUNT, NULL));
    must(cuGraphExecDestroy(end(stream)));
    rig_close(&rig);
}

/* A call that is unsafe while others capture, by another thread, in a mode of its own. */
static void *call_unsafe(void *arg) {
    CUstreamCaptureMode mode = *(CUstreamCaptureMode *)arg;
    CUcontext context;
    CUdeviceptr x;
    must(cuThreadExchangeStreamCaptureMode(&mode));
    must(cuDevicePrimaryCtxRetain(&context, 0));
    must(cuCtxSetCurrent(context));
    CUresult status = cuMemAlloc_v2(&x, 16);
    must(cuDevicePrimaryCtxRelease_v2(0));
    return (void *)(intptr_t)status;
}

static CUresult unsafe_elsewhere(CUstreamCaptureMode mode) {
    pthread_t thread;
    void *status;
    cr_assert_eq(pthread_create(&thread, NULL, call_unsafe, &mode), 0);
    pthread_join(thread, &status);
    return (CUresult)(intptr_t)status;
}

Test(capture, modes_say_which_threads_may_make_unsafe_calls) {
    rig_t rig = rig_open("1");
    const CUstreamCaptureMode all = CU_STREAM_CAPTURE_MODE_RELAXED + 1;
    for (CUstreamCaptureMode mine = 0; mine < all; mine++) {
        for (CUstreamCaptureMode other = 0; other < all; other++) {
            CUstream stream = begin(mine);
            bool forbidden =
                mine == CU_STREAM_CAPTURE_MODE_GLOBAL && other == CU_STREAM_CAPTURE_MODE_GLOBAL;
            cr_expect_eq(unsafe_elsewhere(other),
                         forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS, "%d %d",
                         (int)mine, (int)other);
            if (forbidden) {
                expect_spoilt(stream);
            } else {
                must(cuGraphExecDestroy(end(stream)));
            }
        }
        CUstream stream = begin(mine);
        CUdeviceptr x;
        bool may = mine == CU_STREAM_CAPTURE_MODE_RELAXED;
        cr_expect_eq(cuMemAlloc_v2(&x, 16),
                     may ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        if (!may) {
            expect_spoilt(stream);
            stream = begin(mine);
            CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
            must(cuThreadExchangeStreamCaptureMode(&relaxed));
            must(cuMemAlloc_v2(&x, 16));
            must(cuThreadExchangeStreamCaptureMode(&relaxed));
        }
        must(cuGraphExecDestroy(end(stream)));
    }
    rig_close(&rig);
}

static void *end_elsewhere(void *arg) {
    CUcontext context;
    CUgraph graph;
    must(cuDevicePrimaryCtxRetain(&context, 0));
    must(cuCtxSetCurrent(context));
    CUresult status = cuStreamEndCapture(arg, &graph);
    must(cuDevicePrimaryCtxRelease_v2(0));
    return (void *)(intptr_t)status;
}

Test(capture, only_relaxed_captures_end_in_another_thread) {
    rig_t rig = rig_open("1");
    for (CUstreamCaptureMode mode = 0; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
        CUstream stream = begin(mode);
        pthread_t thread;
        void *status;
        cr_assert_eq(pthread_create(&thread, NULL, end_elsewhere, stream), 0);
        pthread_join(thread, &status);
        bool may = mode == CU_STREAM_CAPTURE_MODE_RELAXED;
        cr_expect_eq((intptr_t)status, may ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        if (!may) {
            must(cuGraphExecDestroy(end(stream)));
        }
    }
    rig_close(&rig);
}

Test(capture, its_id_its_graph_and_its_dependencies_can_be_asked_and_changed) {
    rig_t rig = rig_open("1");
    CUdeviceptr x = rig_alloc_filled(COUNT, 1);
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL), left = rig_stream();
    CUstreamCaptureStatus status;
    cuuint64_t id, other_id;
    CUgraph graph;
    const CUgraphNode *nodes;
    CUgraphNode node, listed[2];
    CUgraphNodeType type;
    size_t count, all = 2;
    rig_scale(&rig, stream, x, 2, COUNT);
    must(cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &nodes, &count));
    cr_assert(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1);
    node = nodes[0];
    must(cuGraphNodeGetType(node, &type));
    cr_expect_eq(type, CU_GRAPH_NODE_TYPE_KERNEL);
    must(cuGraphGetNodes(graph, listed, &all));
    cr_expect(all == 1 && listed[0] == node);
    fork_to(stream, left);
    must(cuStreamGetCaptureInfo_v2(left, &status, &other_id, NULL, NULL, &count));
    cr_expect(other_id == id && count == 1);
    must(cuStreamUpdateCaptureDependencies(left, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    must(cuStreamGetCaptureInfo_v2(left, &status, NULL, NULL, NULL, &count));
    cr_expect_eq(count, 0);
    must(cuMemsetD32Async(x, 7, COUNT, left)); /* not after the kernel any more */
    fork_to(left, stream);
    CUgraphExec exec = end(stream);
    must(cuGraphLaunch(exec, stream));
    must(cuStreamSynchronize(stream));
    cr_expect_eq(rig_report().races, 1);
    rig_close(&rig);
}

static atomic_int destroyed;

static void destroy(void *pointer) {
    destroyed += *(int *)pointer;
}

static void expect_destroyed(int value) {
    while (destroyed < value) { /* by a thread of the emulator, soon */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    cr_expect_eq(destroyed, value);
}

Test(capture, user_objects_live_as_long_as_a_graph_needs_them) {
    rig_t rig = rig_open("1,policy=lazy,idle=0");
    CUdeviceptr x = rig_alloc_filled(COUNT, 1);
    CUuserObject object;
    CUgraph graph;
    CUgraphExec exec;
    int value = 5;
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUstreamCaptureStatus status;
    must(cuStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, NULL, NULL));
    cr_expect_eq(cuUserObjectCreate(&object, &value, destroy, 1, 0), CUDA_ERROR_INVALID_VALUE);
    must(cuUserObjectCreate(&object, &value, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    must(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    cr_expect_eq(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE, "it is the graph's");
    rig_scale(&rig, stream, x, 2, COUNT);
    must(cuStreamEndCapture(stream, &graph));
    must(cuGraphInstantiateWithFlags(&exec, graph, 0));
    must(cuGraphDestroy(graph));
    cr_expect_eq(rig_report().user_objects, 1);
    must(cuGraphLaunch(exec, stream));
    must(cuGraphExecDestroy(exec));
    cr_expect_eq(rig_report().user_objects, 1, "the launch has not run");
    must(cuStreamSynchronize(stream));
    cr_expect_eq(rig_report().user_objects, 0);
    expect_destroyed(5);
    must(cuUserObjectCreate(&object, &value, destroy, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    must(cuUserObjectRetain(object, 1));
    cr_expect_eq(cuUserObjectRelease(object, 4), CUDA_ERROR_INVALID_VALUE);
    must(cuUserObjectRelease(object, 2));
    must(cuUserObjectRelease(object, 1));
    expect_destroyed(10);
    rig_close(&rig);
}

Test(capture, a_capture_whose_stream_is_destroyed_is_gone) {
    rig_t rig = rig_open("1");
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL), left = rig_stream();
    fork_to(stream, left);
    must(cuStreamDestroy_v2(stream));
    cr_expect_eq(status_of(left), CU_STREAM_CAPTURE_STATUS_NONE);
    stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    fork_to(stream, left);
    must(cuStreamDestroy_v2(left));
    expect_spoilt(stream);
    rig_close(&rig);
}

Test(capture, events_outside_are_recorded_and_waited_for_at_each_launch) {
    rig_t rig = rig_open("1");
    CUdeviceptr x = rig_alloc_filled(COUNT, 1);
    CUstream stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL), other = rig_stream();
    CUevent before = rig_event(), after = rig_event();
    must(cuStreamWaitEvent(stream, before, CU_EVENT_WAIT_EXTERNAL));
    rig_scale(&rig, stream, x, 2, COUNT);
    must(cuEventRecordWithFlags(after, stream, CU_EVENT_RECORD_EXTERNAL));
    CUgraphExec exec = end(stream);
    for (int i = 0; i < 3; i++) {
        rig_scale(&rig, other, x, 3, COUNT);
        must(cuEventRecord(before, other));
        must(cuGraphLaunch(exec, stream));
        must(cuStreamWaitEvent(other, after, 0));
    }
    cr_expect(rig_all(x, COUNT, 216));
    cr_expect_eq(rig_report().races, 0, "%s", rig_line(0));
    rig_close(&rig);
}
