/* rig.c: see rig.h. */
#include "rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 64, LINE = 1024 };

static char lines[LINES][LINE];
static unsigned line_count;

static void keep_line(heddle_emucuda_finding_t kind, const char *line, void *arg) {
    (void)kind, (void)arg;
    if (line_count < LINES) {
        snprintf(lines[line_count++], LINE, "%s", line);
    }
}

const char *rig_line(unsigned i) {
    return i < line_count ? lines[i] : "";
}

void rig_must(CUresult status, const char *call, const char *file, int line) {
    const char *name = "?";
    if (status != CUDA_SUCCESS) {
        cuGetErrorName(status, &name);
        fprintf(stderr, "%s:%d: %s is %d, %s\n", file, line, call, (int)status, name);
        abort();
    }
}

/* Kernels -----------------------------------------------------------------------------------------
 */

static void *pointer_of(void *param) {
    return *(void **)param;
}

static uint32_t number_of(const void *param) {
    return *(const uint32_t *)param;
}

static uint32_t first_of(const heddle_emucuda_block_t *block) {
    return block->index.x * RIG_BLOCK;
}

static uint32_t end_of(const heddle_emucuda_block_t *block, uint32_t count) {
    uint32_t end = first_of(block) + RIG_BLOCK;
    return end < count ? end : count;
}

static void add_run(const heddle_emucuda_block_t *block, void **params) {
    uint32_t *target = block->memory(pointer_of(params[0]));
    const uint32_t *a = block->memory(pointer_of(params[1])),
                   *b = block->memory(pointer_of(params[2]));
    for (uint32_t i = first_of(block); i < end_of(block, number_of(params[3])); i++) {
        target[i] = a[i] + b[i];
    }
}

static void add_ranges(const heddle_emucuda_launch_t *launch, void **params,
                       heddle_emucuda_ranges_t *ranges) {
    size_t bytes = number_of(params[3]) * sizeof(uint32_t);
    (void)launch;
    ranges->write(ranges, pointer_of(params[0]), bytes);
    ranges->read(ranges, pointer_of(params[1]), bytes);
    ranges->read(ranges, pointer_of(params[2]), bytes);
}

static void scale_run(const heddle_emucuda_block_t *block, void **params) {
    uint32_t *target = block->memory(pointer_of(params[0]));
    for (uint32_t i = first_of(block); i < end_of(block, number_of(params[2])); i++) {
        target[i] *= number_of(params[1]);
    }
}

static void scale_ranges(const heddle_emucuda_launch_t *launch, void **params,
                         heddle_emucuda_ranges_t *ranges) {
    (void)launch;
    ranges->write(ranges, pointer_of(params[0]), number_of(params[2]) * sizeof(uint32_t));
}

static void hide_run(const heddle_emucuda_block_t *block, void **params) {
    uint32_t *target = block->memory(pointer_of(params[0]));
    const uint32_t *hidden = block->memory(pointer_of(params[1]));
    for (uint32_t i = first_of(block); i < end_of(block, number_of(params[2])); i++) {
        target[i] = hidden[i];
    }
}

static void ring_run(const heddle_emucuda_block_t *block, void **params) {
    static uint32_t blocks; /* launches of it don't overlap in tests */
    uint32_t *target = block->memory(pointer_of(params[0])), value = number_of(params[3]);
    for (uint32_t i = first_of(block); i < end_of(block, number_of(params[1])); i++) {
        target[i] = value;
    }
    if (++blocks == block->launch->grid.x) {
        blocks = 0;
        __atomic_store_n((uint32_t *)block->memory(pointer_of(params[2])), value, __ATOMIC_RELEASE);
    }
}

static void ring_ranges(const heddle_emucuda_launch_t *launch, void **params,
                        heddle_emucuda_ranges_t *ranges) {
    (void)launch;
    ranges->write(ranges, pointer_of(params[0]), number_of(params[1]) * sizeof(uint32_t));
    ranges->signal(ranges, pointer_of(params[2]), sizeof(uint32_t));
}

static const uint32_t add_bytes[] = {8, 8, 8, 4}, scale_bytes[] = {8, 4, 4},
                      hide_bytes[] = {8, 8, 4}, ring_bytes[] = {8, 4, 8, 4};
static const uint32_t table[] = {2, 3, 5, 7};
static const heddle_emucuda_kernel_t kernels[] = {
    {.name = "add", .params = 4, .param_bytes = add_bytes, .run = add_run, .ranges = add_ranges},
    {.name = "scale",
     .params = 3,
     .param_bytes = scale_bytes,
     .run = scale_run,
     .ranges = scale_ranges},
    {.name = "hide",
     .params = 3,
     .param_bytes = hide_bytes,
     .run = hide_run,
     .ranges = scale_ranges /* the target alone: its count is at the same place */},
    {.name = "ring",
     .params = 4,
     .param_bytes = ring_bytes,
     .max_threads = 128,
     .run = ring_run,
     .ranges = ring_ranges},
};
static const heddle_emucuda_global_t globals[] = {
    {.name = "table", .bytes = sizeof(table), .initial = table}};
static const heddle_emucuda_module_t image = {.magic = {'H', 'd', 'E', 'm', 'C', 'u', 'M', 'd'},
                                              .version = HEDDLE_EMUCUDA_VERSION,
                                              .kernels = sizeof(kernels) / sizeof(*kernels),
                                              .globals = 1,
                                              .kernel = kernels,
                                              .global = globals};

/* Set up ------------------------------------------------------------------------------------------
 */

void rig_load(rig_t *rig) {
    must(cuModuleLoadData(&rig->module, &image));
    must(cuModuleGetFunction(&rig->add, rig->module, "add"));
    must(cuModuleGetFunction(&rig->scale, rig->module, "scale"));
    must(cuModuleGetFunction(&rig->hide, rig->module, "hide"));
    must(cuModuleGetFunction(&rig->ring, rig->module, "ring"));
}

rig_t rig_open(const char *config) {
    rig_t rig;
    line_count = 0;
    if (heddle_emucuda_configure(config) != 0) {
        abort();
    }
    heddle_emucuda_on_finding(keep_line, NULL);
    must(cuInit(0));
    must(cuDevicePrimaryCtxRetain(&rig.context, 0));
    must(cuCtxSetCurrent(rig.context));
    rig_load(&rig);
    return rig;
}

void rig_close(rig_t *rig) {
    (void)rig;
    heddle_emucuda_reset();
}

CUdeviceptr rig_alloc(size_t count) {
    CUdeviceptr pointer;
    must(cuMemAlloc_v2(&pointer, count * sizeof(uint32_t)));
    return pointer;
}

CUdeviceptr rig_alloc_filled(size_t count, uint32_t value) {
    CUdeviceptr pointer = rig_alloc(count);
    must(cuMemsetD32_v2(pointer, value, count));
    must(cuCtxSynchronize());
    return pointer;
}

uint32_t *rig_pinned(size_t count) {
    void *pointer;
    must(cuMemAllocHost_v2(&pointer, count * sizeof(uint32_t)));
    return pointer;
}

CUstream rig_stream(void) {
    CUstream stream;
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

CUevent rig_event(void) {
    CUevent event;
    must(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

CUresult rig_launch(CUfunction function, CUstream stream, uint32_t count, void **params) {
    uint32_t blocks = (count + RIG_BLOCK - 1) / RIG_BLOCK;
    return cuLaunchKernel(function, blocks, 1, 1, RIG_BLOCK, 1, 1, 0, stream, params, NULL);
}

void rig_add(const rig_t *rig, CUstream stream, CUdeviceptr target, CUdeviceptr a, CUdeviceptr b,
             uint32_t count) {
    void *params[] = {&target, &a, &b, &count};
    must(rig_launch(rig->add, stream, count, params));
}

void rig_scale(const rig_t *rig, CUstream stream, CUdeviceptr target, uint32_t factor,
               uint32_t count) {
    void *params[] = {&target, &factor, &count};
    must(rig_launch(rig->scale, stream, count, params));
}

bool rig_all(CUdeviceptr pointer, size_t count, uint32_t value) {
    uint32_t *copy = malloc(count * sizeof(*copy));
    must(cuCtxSynchronize());
    must(cuMemcpyDtoH_v2(copy, pointer, count * sizeof(*copy)));
    bool all = copy != NULL;
    for (size_t i = 0; i < count; i++) {
        all = all && copy[i] == value;
    }
    free(copy);
    return all;
}

heddle_emucuda_report_t rig_report(void) {
    heddle_emucuda_report_t report;
    heddle_emucuda_report(&report, sizeof(report));
    return report;
}
