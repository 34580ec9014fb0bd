/* behaviours_capture.c: what a driver does while streams are captured. Sources as in behaviours.c;
 * "Capture" is Guide, "Stream capture", and Driver, cuStreamBeginCapture.
 */
#include "behaviours.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

static void begin(CUstream stream, CUstreamCaptureMode mode) {
    CUresult status = driver.streamBeginCapture(stream, mode);
    if (status != CUDA_SUCCESS) {
        say(status);
    }
}

/* Ends it, says how, and throws away what was captured. */
static void end(CUstream stream) {
    CUgraph graph = NULL;
    say(driver.streamEndCapture(stream, &graph));
    say_text(graph ? "a graph" : "none");
    if (graph) {
        driver.graphDestroy(graph);
    }
}

static void say_status(CUstream stream) {
    static const char *const names[] = {"not captured", "captured", "invalidated"};
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = driver.streamIsCapturing(stream, &status);
    if (result != CUDA_SUCCESS) {
        say(result);
    } else {
        say_text(names[status]);
    }
}

static CUresult store(CUstream stream) {
    return driver.memsetD32Async(world.memory, 1, 1, stream);
}

/* Capture: work is captured instead of done; a graph does it at each launch. */
static void work(void) {
    CUgraph graph;
    CUgraphExec exec;
    unsigned int word = 0;
    driver.memsetD32Async(world.memory, 5, 1, world.stream);
    driver.streamSynchronize(world.stream);
    begin(world.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    say_status(world.stream);
    say(store(world.stream));
    say(driver.streamEndCapture(world.stream, &graph));
    driver.memcpyDtoH(&word, world.memory, 4);
    say_text(word == 5 ? "not done" : "done");
    say(driver.graphInstantiate(&exec, graph, 0));
    say(driver.graphLaunch(exec, world.stream));
    driver.ctxSynchronize();
    driver.memcpyDtoH(&word, world.memory, 4);
    say_text(word == 1 ? "done" : "not done");
    driver.graphExecDestroy(exec);
    driver.graphDestroy(graph);
}

/* Capture, "Prohibited and unhandled operations": a captured stream can't be waited for, and the
 * capture is invalid after that: its end says so, and gives no graph. */
static void synchronized(void) {
    begin(world.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    say(driver.streamSynchronize(world.stream));
    say_status(world.stream);
    say(store(world.stream));
    end(world.stream);
    say_status(world.stream);
    begin(world.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    say(driver.streamQuery(world.stream));
    end(world.stream);
}

/* The same of an event that was captured. */
static void captured_event(void) {
    CUevent event;
    driver.eventCreate(&event, CU_EVENT_DISABLE_TIMING);
    begin(world.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    say(driver.eventRecord(event, world.stream));
    say(driver.eventQuery(event));
    end(world.stream);
    driver.eventDestroy(event);
}

/* Capture, "Cross-stream dependencies and events": waiting for a captured event brings another
 * stream into the same capture, which must be joined before the end. */
static void forked(void) {
    begin(world.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    driver.eventRecord(world.event, world.stream);
    say(driver.streamWaitEvent(world.second, world.event, 0));
    say_status(world.second);
    say(store(world.second));
    driver.eventRecord(world.event, world.second);
    say(driver.streamWaitEvent(world.stream, world.event, 0));
    end(world.stream);
    say_status(world.second);
}

static void not_joined(void) {
    begin(world.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    driver.eventRecord(world.event, world.stream);
    driver.streamWaitEvent(world.second, world.event, 0);
    store(world.second);
    end(world.stream);
    say_status(world.second);
}

/* Only where it began can it be ended. That is an error of the capture. */
static void wrong_stream(void) {
    CUgraph graph;
    begin(world.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    driver.eventRecord(world.event, world.stream);
    driver.streamWaitEvent(world.second, world.event, 0);
    say(driver.streamEndCapture(world.second, &graph));
    end(world.stream);
}

/* The same: captures can't be merged, and don't wait for work outside. */
static void merged(void) {
    begin(world.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    begin(world.second, CU_STREAM_CAPTURE_MODE_RELAXED);
    driver.eventRecord(world.event, world.stream);
    say(driver.streamWaitEvent(world.second, world.event, 0));
    end(world.stream);
    end(world.second);
}

static void isolated(void) {
    CUevent event;
    driver.eventCreate(&event, CU_EVENT_DISABLE_TIMING);
    driver.eventRecord(event, world.second);
    begin(world.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    say(driver.streamWaitEvent(world.stream, event, 0));
    end(world.stream);
    driver.eventDestroy(event);
}

/* Capture: not allowed on the legacy default stream, whose work would depend on blocking streams
 * that are captured. Driver, cuStreamIsCapturing: asking it then is the same error, which does no
 * harm. */
static void null_stream(void) {
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    say(driver.streamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
    say_status(NULL);
    say_status(blocking);
    say(store(NULL));
    end(blocking);
    begin(world.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    say(store(NULL));
    end(world.stream);
    driver.streamDestroy(blocking);
    driver.ctxSynchronize();
}

/* Driver, cuStreamBeginCapture, cuStreamEndCapture: neither twice. */
static void twice(void) {
    CUgraph graph;
    say(driver.streamEndCapture(world.stream, &graph));
    begin(world.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    begin(world.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    end(world.stream);
}

/* Threads -----------------------------------------------------------------------------------------
 */

typedef struct other {
    CUstreamCaptureMode mode;
    CUresult status;
} other_t;

static void *allocate(void *arg) {
    other_t *other = arg;
    CUstreamCaptureMode mode = other->mode;
    CUdeviceptr pointer;
    driver.ctxSetCurrent(world.context);
    driver.threadExchangeStreamCaptureMode(&mode);
    other->status = driver.memAlloc(&pointer, 64);
    return NULL;
}

static void allocate_elsewhere(CUstreamCaptureMode captures, CUstreamCaptureMode mode) {
    other_t other = {.mode = mode, .status = CUDA_ERROR_UNKNOWN};
    pthread_t thread;
    begin(world.stream, captures);
    if (pthread_create(&thread, NULL, allocate, &other) == 0) {
        pthread_join(thread, NULL);
    }
    say(other.status);
    end(world.stream);
}

/* Driver, cuThreadExchangeStreamCaptureMode: who may make calls that are potentially unsafe. */
static void modes(void) {
    allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
    allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED);
    allocate_elsewhere(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
    allocate_elsewhere(CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* The same of the thread that captures. */
static void own_mode(void) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr pointer;
    begin(world.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    say(driver.memAlloc(&pointer, 64));
    end(world.stream);
    begin(world.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    driver.threadExchangeStreamCaptureMode(&mode);
    say(driver.memAlloc(&pointer, 64));
    driver.threadExchangeStreamCaptureMode(&mode);
    end(world.stream);
}

static void *end_here(void *status) {
    CUgraph graph = NULL;
    driver.ctxSetCurrent(world.context);
    *(CUresult *)status = driver.streamEndCapture(world.stream, &graph);
    if (graph) {
        driver.graphDestroy(graph);
    }
    return NULL;
}

/* Driver, cuStreamEndCapture: in the thread that began it, unless the mode is relaxed. */
static void wrong_thread(void) {
    for (CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
         mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode += 2) {
        CUresult status = CUDA_ERROR_UNKNOWN;
        pthread_t thread;
        begin(world.stream, mode);
        if (pthread_create(&thread, NULL, end_here, &status) == 0) {
            pthread_join(thread, NULL);
        }
        say(status);
        if (status != CUDA_SUCCESS) {
            CUgraph graph = NULL;
            driver.streamEndCapture(world.stream, &graph);
            if (graph) {
                driver.graphDestroy(graph);
            }
        }
    }
}

const behaviour_t capture_behaviours[] = {
    {"captured work", "captured, ok, ok, not done, ok, ok, done", work},
    {"waiting for a captured stream",
     "STREAM_CAPTURE_UNSUPPORTED, invalidated, STREAM_CAPTURE_INVALIDATED, "
     "STREAM_CAPTURE_INVALIDATED, none, not "
     "captured, STREAM_CAPTURE_UNSUPPORTED, STREAM_CAPTURE_INVALIDATED, none",
     synchronized},
    {"asking a captured event", "ok, CAPTURED_EVENT, STREAM_CAPTURE_INVALIDATED, none",
     captured_event},
    {"a branch", "ok, captured, ok, ok, ok, a graph, not captured", forked},
    {"a branch that is not joined", "STREAM_CAPTURE_UNJOINED, none, not captured", not_joined},
    {"the end at another stream", "STREAM_CAPTURE_UNMATCHED, STREAM_CAPTURE_INVALIDATED, none",
     wrong_stream},
    {"two captures",
     "STREAM_CAPTURE_MERGE, STREAM_CAPTURE_INVALIDATED, none, STREAM_CAPTURE_INVALIDATED, none",
     merged},
    {"work outside", "STREAM_CAPTURE_ISOLATION, STREAM_CAPTURE_INVALIDATED, none", isolated},
    {"captures and the NULL stream",
     "STREAM_CAPTURE_UNSUPPORTED, STREAM_CAPTURE_IMPLICIT, captured, STREAM_CAPTURE_IMPLICIT, "
     "STREAM_CAPTURE_INVALIDATED, none, ok, ok, a graph",
     null_stream},
    {"begin and end twice", "ILLEGAL_STATE, ILLEGAL_STATE, ok, a graph", twice},
    {"unsafe calls of other threads",
     "STREAM_CAPTURE_UNSUPPORTED, STREAM_CAPTURE_INVALIDATED, none, ok, ok, a graph, ok, ok, a "
     "graph, ok, ok, a graph",
     modes},
    {"unsafe calls of the thread itself",
     "STREAM_CAPTURE_UNSUPPORTED, STREAM_CAPTURE_INVALIDATED, none, ok, ok, a graph", own_mode},
    {"the end in another thread", "STREAM_CAPTURE_WRONG_THREAD, ok", wrong_thread},
    {NULL, NULL, NULL}};
