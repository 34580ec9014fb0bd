/* rig.c: see rig.h. */
#include "rig.h"

#include "core/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 1024 };

static unsigned lines, found;
static char last_line[LINE], last_find[LINE];
static CUcontext context[HD_GPU_DEVICES];

static void fail(const char *what) {
    fprintf(stderr, "rig: %s; last line: %s; last finding: %s\n", what, last_line, last_find);
    abort();
}

static void keep_line(hd_log_level_t level, const char *line, void *arg) {
    (void)level, (void)arg;
    __atomic_fetch_add(&lines, 1, __ATOMIC_RELAXED);
    snprintf(last_line, sizeof(last_line), "%s", line);
}

static void keep_find(heddle_emucuda_finding_t kind, const char *line, void *arg) {
    (void)kind, (void)arg;
    found++;
    snprintf(last_find, sizeof(last_find), "%s", line);
}

void rig_watch(void) {
    hd_log_capture(keep_line, NULL);
    heddle_emucuda_on_finding(keep_find, NULL);
}

const hd_gpu_driver_t *rig_open(const char *config) {
    const hd_gpu_driver_t *driver = NULL;
    char mode[256];
    snprintf(mode, sizeof(mode), "emulated:%s", config);
    rig_watch();
    if (hd_gpu_configure(mode, "") != UCC_OK || hd_gpu_open(&driver) != UCC_OK) {
        fail("no table");
    }
    return driver;
}

bool rig_nothing_left(void) {
    heddle_emucuda_report_t r;
    heddle_emucuda_report(&r, sizeof(r));
    bool nothing = r.device_allocations + r.host_allocations + r.streams + r.events + r.modules +
                       r.pools + r.graphs + r.graph_execs + r.user_objects + r.contexts + r.leaks ==
                   0;
    if (!nothing) {
        fprintf(stderr,
                "rig: left are %llu device and %llu host allocations, %llu streams, %llu events, "
                "%llu modules, %llu graphs, %llu user objects, %llu contexts; %llu leaks\n",
                (unsigned long long)r.device_allocations, (unsigned long long)r.host_allocations,
                (unsigned long long)r.streams, (unsigned long long)r.events,
                (unsigned long long)r.modules, (unsigned long long)(r.graphs + r.graph_execs),
                (unsigned long long)r.user_objects, (unsigned long long)r.contexts,
                (unsigned long long)r.leaks);
    }
    return nothing;
}

void rig_close(void) {
    for (int d = 0; d < HD_GPU_DEVICES; d++) {
        if (context[d]) {
            rig_release(d);
        }
    }
    hd_gpu_close();
    hd_gpu_unconfigure();
    if (!rig_nothing_left() || rig_lines() || rig_found()) {
        fail("at the end");
    }
}

unsigned rig_lines(void) {
    return __atomic_load_n(&lines, __ATOMIC_RELAXED);
}

const char *rig_line(void) {
    return last_line;
}

unsigned rig_found(void) {
    return found;
}

const char *rig_find(void) {
    return last_find;
}

void rig_forget(void) {
    lines = found = 0;
    last_line[0] = last_find[0] = '\0';
}

void rig_must_at(CUresult result, const char *call, const char *file, int line) {
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "%s:%d: %s is %d\n", file, line, call, (int)result);
        fail("a call of the test's own");
    }
}

CUcontext rig_context(int device) {
    if (!context[device]) {
        rig_must(cuDevicePrimaryCtxRetain(&context[device], device));
    }
    return context[device];
}

void rig_release(int device) {
    rig_must(cuDevicePrimaryCtxRelease_v2(device));
    context[device] = NULL;
}

static void push(int device) {
    rig_must(cuCtxPushCurrent_v2(rig_context(device)));
}

static void pop(void) {
    CUcontext popped;
    rig_must(cuCtxPopCurrent_v2(&popped));
}

hd_gpu_stream_t rig_stream(int device) {
    CUstream stream;
    push(device);
    rig_must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    pop();
    return (hd_gpu_stream_t){.device = device, .handle = stream};
}

void rig_stream_end(hd_gpu_stream_t stream) {
    rig_must(cuStreamDestroy_v2(stream.handle));
}

void *rig_alloc(int device, size_t bytes) {
    CUdeviceptr pointer;
    push(device);
    rig_must(cuMemAlloc_v2(&pointer, bytes));
    rig_must(cuMemsetD8_v2(pointer, 0, bytes));
    rig_must(cuCtxSynchronize());
    pop();
    return (void *)(uintptr_t)pointer;
}

void rig_free(int device, void *memory) {
    push(device);
    rig_must(cuMemFree_v2((CUdeviceptr)(uintptr_t)memory));
    pop();
}

void rig_read(int device, void *to, const void *from, size_t bytes) {
    push(device);
    rig_must(cuCtxSynchronize());
    rig_must(cuMemcpyDtoH_v2(to, (CUdeviceptr)(uintptr_t)from, bytes));
    pop();
}
