/* fuzz.c: calls at random, with handles that are alive or were destroyed, captures, failing calls,
 * lost devices and kernels that fault: nothing crashes, hangs or leaks, and a new start is a new
 * start. For the sanitizers, above all. The first argument is the number of sequences, the second
 * the first seed.
 */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEQUENCES = 400, CALLS = 600, KEPT = 8, COUNT = 200 };

/* Some of what was made, dead or alive; NULL until the first is made. */
typedef struct state {
    uint64_t random;
    rig_t rig[2]; /* by device */
    CUstream stream[KEPT];
    CUevent event[KEPT];
    CUdeviceptr memory[KEPT];
    CUgraph graph[KEPT];
    CUgraphExec exec[KEPT];
    CUuserObject object[KEPT];
    uint32_t *pinned;
    unsigned destroyed;
} state_t;

static unsigned draw(state_t *s, unsigned below) {
    s->random = s->random * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(s->random >> 33) % below;
}

static unsigned any(state_t *s) {
    return draw(s, KEPT);
}

/* One in eight times a special stream. */
static CUstream any_stream(state_t *s) {
    unsigned special = draw(s, 24);
    return special < 3 ? (CUstream)(uintptr_t)special : s->stream[any(s)];
}

static void nothing(void *arg) {
    (void)arg;
}

static void make(state_t *s) {
    unsigned i = any(s);
    switch (draw(s, 6)) {
    case 0:
        cuStreamCreate(&s->stream[i], draw(s, 2));
        break;
    case 1:
        cuEventCreate(&s->event[i], CU_EVENT_DISABLE_TIMING);
        break;
    case 2:
        cuMemAlloc_v2(&s->memory[i], COUNT * 4);
        break;
    case 3:
        cuMemAllocAsync(&s->memory[i], COUNT * 4, any_stream(s));
        break;
    case 4:
        cuUserObjectCreate(&s->object[i], s, nothing, 1 + draw(s, 2),
                           CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
        break;
    default:
        if (s->graph[i]) {
            cuGraphInstantiateWithFlags(&s->exec[any(s)], s->graph[i], 0);
        }
    }
}

/* What is destroyed is mostly replaced, or all would soon be dead. */
static void end(state_t *s) {
    unsigned i = any(s);
    bool again = draw(s, 16) > 0;
    switch (draw(s, 7)) {
    case 0:
        cuStreamDestroy_v2(s->stream[i]);
        if (again) {
            cuStreamCreate(&s->stream[i], draw(s, 2));
        }
        break;
    case 1:
        cuEventDestroy_v2(s->event[i]);
        if (again) {
            cuEventCreate(&s->event[i], CU_EVENT_DISABLE_TIMING);
        }
        break;
    case 2:
        cuMemFree_v2(s->memory[i]);
        if (again) {
            cuMemAlloc_v2(&s->memory[i], COUNT * 4);
        }
        break;
    case 3:
        cuMemFreeAsync(s->memory[i], any_stream(s));
        if (again) {
            cuMemAllocAsync(&s->memory[i], COUNT * 4, any_stream(s));
        }
        break;
    case 4:
        cuGraphDestroy(s->graph[i]);
        break;
    case 5:
        cuGraphExecDestroy(s->exec[i]);
        break;
    default:
        cuUserObjectRelease(s->object[i], 1);
    }
}

static void launch(state_t *s) {
    CUdeviceptr target = s->memory[any(s)], a = s->memory[any(s)], b = s->memory[any(s)];
    uint32_t count = draw(s, 400) == 0 ? COUNT + 1 : 1 + draw(s, COUNT), factor = draw(s, 9);
    void *add[] = {&target, &a, &b, &count}, *scale[] = {&target, &factor, &count};
    const rig_t *rig = &s->rig[draw(s, 2)];
    bool adds = draw(s, 2);
    rig_launch(adds ? rig->add : rig->scale, any_stream(s), count, adds ? add : scale);
}

static void work(state_t *s) {
    CUdeviceptr x = s->memory[any(s)], y = s->memory[any(s)],
                word = (CUdeviceptr)(uintptr_t)&s->pinned[any(s)];
    static uint32_t pageable[COUNT]; /* captured copies read it when they run */
    switch (draw(s, 8)) {
    case 0:
        cuMemcpyAsync(x, y, 4 + 4 * draw(s, COUNT), any_stream(s));
        break;
    case 1:
        cuMemcpyHtoDAsync_v2(x, pageable, sizeof(pageable), any_stream(s));
        break;
    case 2:
        cuMemsetD32Async(x, 1, draw(s, COUNT), any_stream(s));
        break;
    case 3:
        cuLaunchHostFunc(any_stream(s), nothing, NULL);
        break;
    case 4:
        cuStreamWriteValue32_v2(any_stream(s), word, draw(s, 4), 0);
        break;
    case 5:
        if (draw(s, 8) == 0) {
            cuStreamWaitValue32_v2(any_stream(s), word, draw(s, 4), draw(s, 4));
        }
        break;
    default:
        if (s->exec[any(s)]) {
            cuGraphLaunch(s->exec[any(s)], any_stream(s));
        }
    }
}

static void order(state_t *s) {
    switch (draw(s, 8)) {
    case 0:
        cuStreamQuery(any_stream(s));
        break;
    case 1:
        cuEventQuery(s->event[any(s)]);
        break;
    case 2:
        if (draw(s, 4) == 0) {
            cuStreamSynchronize(any_stream(s));
        }
        break;
    case 3:
    case 4:
        cuEventRecord(s->event[any(s)], any_stream(s));
        break;
    default:
        cuStreamWaitEvent(any_stream(s), s->event[any(s)], 0);
    }
}

static void capture(state_t *s) {
    CUstream stream = any_stream(s);
    CUgraph graph = NULL;
    CUstreamCaptureStatus status;
    switch (draw(s, 10)) {
    case 0:
        cuStreamBeginCapture_v2(stream, draw(s, 3));
        break;
    case 1:
        cuStreamIsCapturing(stream, &status);
        break;
    case 2:
        if (cuStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, NULL, NULL) == CUDA_SUCCESS &&
            graph) {
            cuGraphRetainUserObject(graph, s->object[any(s)], 1, draw(s, 2));
        }
        break;
    default:
        if (cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS) {
            s->graph[any(s)] = graph;
        }
    }
}

/* What breaks more than one object. */
static void trouble(state_t *s) {
    CUdevice device = (CUdevice)draw(s, 2);
    switch (draw(s, 32)) {
    case 0:
        heddle_emucuda_fail_call(1 + draw(s, 20), CUDA_ERROR_UNKNOWN);
        break;
    case 1:
        heddle_emucuda_lose_device(device, draw(s, 30));
        break;
    case 2:
        if (cuDevicePrimaryCtxReset_v2(device) == CUDA_SUCCESS) {
            memset(&s->rig[device], 0, sizeof(s->rig[device]));
        }
        break;
    default:
        if (s->rig[device].context) {
            cuCtxSetCurrent(s->rig[device].context);
        }
    }
}

static void call(state_t *s) {
    switch (draw(s, 16)) {
    case 0:
    case 1:
    case 2:
        make(s);
        break;
    case 3:
        end(s);
        break;
    case 4:
    case 5:
    case 6:
        launch(s);
        break;
    case 7:
    case 8:
    case 9:
        work(s);
        break;
    case 10:
    case 11:
    case 12:
    case 13:
        order(s);
        break;
    case 14:
        capture(s);
        break;
    default:
        if (draw(s, 4) == 0) {
            trouble(s);
        }
    }
}

static uint64_t operations, races, faults;

static void sequence(uint64_t seed) {
    static const char *const policies[] = {"random", "lazy", "starve", "newest"};
    char config[128];
    state_t s = {.random = seed};
    snprintf(config, sizeof(config),
             "2,seed=%llu,policy=%s,channels=%u,memory=1M,idle=0,patience=0",
             (unsigned long long)seed, policies[seed % 4], (unsigned)(seed / 4 % 3));
    s.rig[0] = rig_open(config);
    CUcontext other;
    must(cuDevicePrimaryCtxRetain(&other, 1));
    must(cuCtxSetCurrent(other));
    s.rig[1].context = other;
    rig_load(&s.rig[1]);
    must(cuCtxEnablePeerAccess(s.rig[0].context, 0));
    must(cuCtxSetCurrent(s.rig[0].context));
    must(cuCtxEnablePeerAccess(other, 0));
    for (int device = 0; device < 2; device++) {
        CUmemAccessDesc access = {
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 - device},
            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CUmemoryPool pool;
        must(cuDeviceGetDefaultMemPool(&pool, device));
        must(cuMemPoolSetAccess(pool, &access, 1));
    }
    s.pinned = calloc(KEPT, sizeof(uint32_t));
    must(cuMemHostRegister_v2(s.pinned, KEPT * sizeof(uint32_t), 0));
    for (unsigned i = 0; i < KEPT; i++) {
        s.stream[i] = rig_stream();
        s.event[i] = rig_event();
        s.memory[i] = rig_alloc(COUNT);
    }
    for (unsigned i = 0; i < CALLS; i++) {
        call(&s);
    }
    heddle_emucuda_report_t report = rig_report();
    operations += report.operations;
    races += report.races;
    faults += report.faults;
    rig_close(&s.rig[0]);
    free(s.pinned);
}

int main(int argc, char **argv) {
    unsigned sequences = argc > 1 ? (unsigned)atoi(argv[1]) : SEQUENCES;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    alarm(280);
    for (uint64_t seed = first; seed < first + sequences; seed++) {
        if (argc > 3) {
            fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
        }
        sequence(seed);
    }
    printf("%u sequences of %d calls: %llu operations, %llu races, %llu faults\n", sequences, CALLS,
           (unsigned long long)operations, (unsigned long long)races, (unsigned long long)faults);
    return 0;
}
