/* conversions.c: all 2^32 floats to half and to bfloat16, and all of those to floats, on a device
 * and on the host: the same bits. On an emulated device, where the same functions run, the program
 * is what is tested: a part of the floats.
 *
 * HEDDLE_TEST_GPU=cuda and LD_PRELOAD=libcuda.so.1: a real device.
 *
 * usage: test_gpu_check_conversions
 */
#include "conversions.h"

#include "emucuda/calls.h"
#include "support/deadline.h"

#include <heddle_emucuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 24, CHUNKS = 256, HALVES = 1 << 16, MOST_THREADS = 64 };

#ifdef CONVERSIONS_FATBIN
extern const char conversions_fatbin[];
__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        "conversions_fatbin:\n"
        ".incbin \"" CONVERSIONS_FATBIN "\"\n"
        ".popsection\n");
static const void *const device_module = conversions_fatbin;
#else
static const void *const device_module = NULL;
#endif

/* ---- the same by the emulated driver ---- */

static void run_narrow(const heddle_emucuda_block_t *block, void **params) {
    const conversions_args_t *a = params[0];
    uint16_t *half = block->memory((void *)(uintptr_t)a->out[0]);
    uint16_t *bfloat = block->memory((void *)(uintptr_t)a->out[1]);
    for (uint32_t t = 0; t < CONVERSIONS_THREADS; t++) {
        uint32_t i = block->index.x * CONVERSIONS_THREADS + t;
        if (i < a->count) {
            half[i] = narrow_f16(float_with(a->first + i));
            bfloat[i] = narrow_bf16(float_with(a->first + i));
        }
    }
}

static void run_widen(const heddle_emucuda_block_t *block, void **params) {
    const conversions_args_t *a = params[0];
    uint32_t *half = block->memory((void *)(uintptr_t)a->out[0]);
    uint32_t *bfloat = block->memory((void *)(uintptr_t)a->out[1]);
    for (uint32_t t = 0; t < CONVERSIONS_THREADS; t++) {
        uint32_t i = block->index.x * CONVERSIONS_THREADS + t;
        if (i < a->count) {
            half[i] = bits_f32(widen_f16((uint16_t)(a->first + i)));
            bfloat[i] = bits_f32(widen_bf16((uint16_t)(a->first + i)));
        }
    }
}

static void ranges(const conversions_args_t *a, size_t width, heddle_emucuda_ranges_t *r) {
    r->write(r, (void *)(uintptr_t)a->out[0], a->count * width);
    r->write(r, (void *)(uintptr_t)a->out[1], a->count * width);
}

static void narrow_ranges(const heddle_emucuda_launch_t *launch, void **params,
                          heddle_emucuda_ranges_t *r) {
    (void)launch;
    ranges(params[0], sizeof(uint16_t), r);
}

static void widen_ranges(const heddle_emucuda_launch_t *launch, void **params,
                         heddle_emucuda_ranges_t *r) {
    (void)launch;
    ranges(params[0], sizeof(uint32_t), r);
}

static const uint32_t param_bytes[] = {sizeof(conversions_args_t)};
static const heddle_emucuda_kernel_t kernels[] = {{.name = "narrow",
                                                   .params = 1,
                                                   .param_bytes = param_bytes,
                                                   .run = run_narrow,
                                                   .ranges = narrow_ranges},
                                                  {.name = "widen",
                                                   .params = 1,
                                                   .param_bytes = param_bytes,
                                                   .run = run_widen,
                                                   .ranges = widen_ranges}};
static const heddle_emucuda_module_t emulated_module = {
    .magic = {'H', 'd', 'E', 'm', 'C', 'u', 'M', 'd'},
    .version = HEDDLE_EMUCUDA_VERSION,
    .kernels = 2,
    .kernel = kernels};

/* ---- both ---- */

#define CHECK(call) check((call), #call)

static void check(CUresult result, const char *call) {
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "conversions: %s: %d\n", call, (int)result);
        exit(2);
    }
}

static uint16_t *narrowed[2]; /* pinned: what the device made of a chunk */
static uint32_t chunk_first;

typedef struct checker {
    pthread_t thread;
    uint32_t begin, end; /* of the chunk */
    uint64_t wrong[2];
    uint32_t example[2];
} checker_t;

static void *compare(void *arg) {
    checker_t *c = arg;
    for (uint32_t i = c->begin; i < c->end; i++) {
        float x = float_with(chunk_first + i);
        uint16_t hosts[] = {narrow_f16(x), narrow_bf16(x)};
        for (int t = 0; t < 2; t++) {
            if (narrowed[t][i] != hosts[t]) {
                c->wrong[t]++;
                c->example[t] = chunk_first + i;
            }
        }
    }
    return NULL;
}

static uint64_t compare_chunk(uint32_t count) {
    static checker_t checkers[MOST_THREADS];
    static const char *const names[] = {"half", "bfloat16"};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t n = processors < 1              ? 1
                 : processors > MOST_THREADS ? MOST_THREADS
                                             : (uint32_t)processors;
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < n; i++) {
        checkers[i] = (checker_t){.begin = (uint32_t)((uint64_t)count * i / n),
                                  .end = (uint32_t)((uint64_t)count * (i + 1) / n)};
        if (pthread_create(&checkers[i].thread, NULL, compare, &checkers[i]) != 0) {
            check(CUDA_ERROR_UNKNOWN, "pthread_create");
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(checkers[i].thread, NULL);
        for (int t = 0; t < 2; t++) {
            wrong += checkers[i].wrong[t];
            if (checkers[i].wrong[t] > 0) {
                printf("%llu floats differ as %s, the last one is %08x\n",
                       (unsigned long long)checkers[i].wrong[t], names[t], checkers[i].example[t]);
            }
        }
    }
    return wrong;
}

static void launch(CUfunction kernel, conversions_args_t args) {
    void *params[] = {&args};
    CHECK(cuLaunchKernel(kernel, (args.count + CONVERSIONS_THREADS - 1) / CONVERSIONS_THREADS, 1, 1,
                         CONVERSIONS_THREADS, 1, 1, 0, NULL, params, NULL));
}

static uint64_t check_narrow(CUfunction kernel, const CUdeviceptr out[2], uint32_t chunks,
                             uint32_t count) {
    uint64_t wrong = 0;
    for (uint32_t c = 0; c < chunks; c++) {
        chunk_first = (uint32_t)((UINT64_C(1) << 32) / chunks * c);
        launch(kernel, (conversions_args_t){{out[0], out[1]}, chunk_first, count});
        for (int t = 0; t < 2; t++) {
            CHECK(cuMemcpyDtoH_v2(narrowed[t], out[t], count * sizeof(uint16_t)));
        }
        wrong += compare_chunk(count);
    }
    return wrong;
}

static uint64_t check_widen(CUfunction kernel, const CUdeviceptr out[2]) {
    static uint32_t got[2][HALVES];
    uint64_t wrong = 0;
    launch(kernel, (conversions_args_t){{out[0], out[1]}, 0, HALVES});
    CHECK(cuMemcpyDtoH_v2(got[0], out[0], sizeof(got[0])));
    CHECK(cuMemcpyDtoH_v2(got[1], out[1], sizeof(got[1])));
    for (uint32_t i = 0; i < HALVES; i++) {
        wrong += got[0][i] != bits_f32(widen_f16((uint16_t)i));
        wrong += got[1][i] != bits_f32(widen_bf16((uint16_t)i));
    }
    return wrong;
}

int main(void) {
    const char *mode = getenv("HEDDLE_TEST_GPU");
    bool real = mode && strcmp(mode, "cuda") == 0;
    uint32_t chunks = CHUNKS, count = real ? CHUNK : 1 << 14;
    CUcontext context;
    CUmodule module;
    CUfunction narrow, widen;
    CUdeviceptr out[2];
    if (real && !device_module) {
        puts("skipped: the build had no nvcc");
        return 77;
    }
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, real ? device_module : &emulated_module));
    CHECK(cuModuleGetFunction(&narrow, module, "narrow"));
    CHECK(cuModuleGetFunction(&widen, module, "widen"));
    for (int t = 0; t < 2; t++) {
        CHECK(cuMemAlloc_v2(&out[t], (size_t)CHUNK * sizeof(uint16_t)));
        CHECK(cuMemHostAlloc((void **)&narrowed[t], (size_t)CHUNK * sizeof(uint16_t), 0));
    }
    uint64_t widened = check_widen(widen, out), wrong = check_narrow(narrow, out, chunks, count);
    printf("%llu floats to half and bfloat16: %llu differ; %d of each back: %llu differ\n",
           (unsigned long long)chunks * count, (unsigned long long)wrong, HALVES,
           (unsigned long long)widened);
    return wrong != 0 || widened != 0;
}
