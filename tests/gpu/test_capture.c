/* Streams that are captured into graphs: who notices, what survives, and what a graph keeps. */
#include "gpu/kernel.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <string.h>
#include <time.h>

enum { BYTES = 4096 };

static const hd_gpu_driver_t *gpu;

static void ok(ucc_status_t status) {
    cr_assert_eq(status, UCC_OK, "%s", rig_line());
}

static void begin(hd_gpu_stream_t stream, CUstreamCaptureMode mode) {
    rig_must(cuCtxSetCurrent(rig_context(stream.device)));
    rig_must(cuStreamBeginCapture_v2(stream.handle, mode));
    rig_must(cuCtxSetCurrent(NULL));
}

static CUgraph end(hd_gpu_stream_t stream) {
    CUgraph graph;
    rig_must(cuCtxSetCurrent(rig_context(stream.device)));
    rig_must(cuStreamEndCapture(stream.handle, &graph));
    rig_must(cuCtxSetCurrent(NULL));
    return graph;
}

Test(capture, it_is_known_by_its_id) {
    hd_gpu_capture_t none, first, second, other;
    gpu = rig_open("1");
    hd_gpu_stream_t a = rig_stream(0), b = rig_stream(0), c = rig_stream(0);
    hd_gpu_event_t *event;
    ok(gpu->event_take(0, &event));
    ok(gpu->capture(a, &none));
    cr_assert(!none.active);
    cr_assert_eq(none.id, 0);
    begin(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
    begin(c, CU_STREAM_CAPTURE_MODE_GLOBAL);
    ok(gpu->record(a, event));
    ok(gpu->wait(b, event, HD_GPU_SITE_NONE)); /* which so becomes part of it */
    ok(gpu->capture(a, &first));
    ok(gpu->capture(b, &second));
    ok(gpu->capture(c, &other));
    cr_assert(first.active && second.active && other.active);
    cr_assert_neq(first.id, 0);
    cr_assert_eq(first.id, second.id);
    cr_assert_neq(first.id, other.id);
    ok(gpu->record(b, event));
    ok(gpu->wait(a, event, HD_GPU_SITE_NONE));
    rig_must(cuGraphDestroy(end(a)));
    rig_must(cuGraphDestroy(end(c)));
    ok(gpu->capture(a, &none));
    cr_assert(!none.active);
    gpu->event_put(event);
    rig_stream_end(a);
    rig_stream_end(b);
    rig_stream_end(c);
    rig_close();
}

Test(capture, one_that_is_broken_is_said_to_be) {
    hd_gpu_capture_t capture;
    CUgraph graph = NULL;
    gpu = rig_open("1");
    hd_gpu_stream_t stream = rig_stream(0);
    begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    rig_must(cuCtxSetCurrent(rig_context(0)));
    cr_assert_neq(cuStreamSynchronize(stream.handle), CUDA_SUCCESS);
    ok(gpu->capture(stream, &capture));
    cr_assert(capture.broken && !capture.active);
    cr_assert_eq(gpu->keep(stream, NULL, NULL), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(rig_lines(), 1);
    (void)cuStreamEndCapture(stream.handle, &graph);
    rig_must(cuCtxSetCurrent(NULL));
    rig_stream_end(stream);
    rig_forget();
    rig_close();
}

/* A capture in global mode forbids much to all threads; in this thread's own mode, to this one. */
static void own_calls(hd_gpu_stream_t stream, hd_gpu_event_t *event) {
    hd_gpu_block_t *block;
    hd_gpu_event_t *fresh;
    hd_gpu_flag_t *word;
    hd_gpu_stream_t internal;
    hd_gpu_memory_t memory;
    bool yes;
    ok(gpu->use(1));
    ok(gpu->take(0, HD_GPU_DEVICE, BYTES, &block));
    ok(gpu->memory_of(block->memory, &memory));
    ok(gpu->reachable(1, block->memory, &yes));
    cr_assert(yes);
    gpu->put(block);
    ok(gpu->take(0, HD_GPU_PINNED, BYTES, &block));
    gpu->put(block);
    ok(gpu->stream(0, 2, &internal));
    ok(gpu->event_take(0, &fresh));
    gpu->event_put(fresh);
    ok(gpu->word_take(0, &word));
    ok(gpu->signal(internal, word, 1));
    ok(gpu->record(internal, event));
    while (gpu->event_query(event, HD_GPU_SITE_NONE) == UCC_INPROGRESS) {
    }
    ok(gpu->event_await(event, HD_GPU_SITE_NONE));
    gpu->word_put(0, word);
    ok(gpu->stream_of(stream.handle, &internal));
}

Test(capture, nothing_that_is_called_here_breaks_somebodys_capture) {
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_RELAXED};
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        hd_gpu_event_t *event;
        hd_gpu_capture_t capture;
        gpu = rig_open("2");
        ok(gpu->event_take(0, &event));
        hd_gpu_stream_t stream = rig_stream(0);
        begin(stream, modes[i]);
        own_calls(stream, event);
        ok(gpu->capture(stream, &capture));
        cr_assert(capture.active);
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
        rig_must(cuThreadExchangeStreamCaptureMode(&mode));
        cr_assert_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL, "the thread's own mode has changed");
        rig_must(cuGraphDestroy(end(stream)));
        gpu->event_put(event);
        rig_stream_end(stream);
        rig_close();
        heddle_emucuda_reset();
    }
}

static void count(void *arg) {
    __atomic_fetch_add((int *)arg, 1, __ATOMIC_RELAXED);
}

static void settle(const int *released, int expected) {
    for (int i = 0; i < 10000 && __atomic_load_n(released, __ATOMIC_RELAXED) != expected; i++) {
        heddle_emucuda_run(1);
        struct timespec moment = {0, 1000000};
        nanosleep(&moment, NULL);
    }
    cr_assert_eq(__atomic_load_n(released, __ATOMIC_RELAXED), expected);
}

Test(capture, a_graph_keeps_what_it_was_given_until_it_and_what_was_made_of_it_are_gone) {
    CUgraphExec exec;
    int released = 0;
    gpu = rig_open("1");
    void *a = rig_alloc(0, BYTES), *b = rig_alloc(0, BYTES);
    hd_gpu_stream_t stream = rig_stream(0);
    begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    ok(gpu->copy(stream, a, 0, b, 0, BYTES));
    ok(gpu->keep(stream, count, &released));
    CUgraph graph = end(stream);
    rig_must(cuCtxSetCurrent(rig_context(0)));
    rig_must(cuGraphInstantiateWithFlags(&exec, graph, 0));
    rig_must(cuGraphDestroy(graph));
    rig_must(cuGraphLaunch(exec, stream.handle));
    rig_must(cuStreamSynchronize(stream.handle));
    cr_assert_eq(released, 0);
    rig_must(cuGraphExecDestroy(exec));
    rig_must(cuCtxSetCurrent(NULL));
    settle(&released, 1);
    rig_stream_end(stream);
    rig_free(0, a);
    rig_free(0, b);
    rig_close();
}

Test(capture, a_stream_that_is_not_captured_keeps_nothing) {
    int released = 0;
    gpu = rig_open("1");
    hd_gpu_stream_t stream = rig_stream(0);
    cr_assert_eq(gpu->keep(stream, count, &released), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(rig_lines(), 1);
    cr_assert_eq(released, 0);
    rig_stream_end(stream);
    rig_forget();
    rig_close();
}
