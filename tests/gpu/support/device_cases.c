/* device_cases.c: see device_cases.h. */
#include "device_cases.h"

#include "emucuda/calls.h"
#include "support/deadline.h"
#include "support/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 8, MOST_STREAMS = 32 };

static device_cases_t kind;
static bool real;
static int devices;
static uint32_t in_runs; /* endpoints in a row on one device */
static CUcontext context[MOST_DEVICES];
static bool on_streams;
static CUstream stream_of[MOST_STREAMS]; /* by endpoint */

#define CHECK(call) check((call), #call)

static int lost_device = -1; /* it may be, from some time on; -1: none */

static void check(CUresult result, const char *call) {
    const char *name = "?";
    bool is_lost = lost_device >= 0 && result == CUDA_ERROR_ECC_UNCORRECTABLE;
    if (result != CUDA_SUCCESS && !is_lost) {
        cuGetErrorName(result, &name);
        fprintf(stderr, "FATAL: %s: %s\n", call, name);
        abort();
    }
}

void device_enter(int device) {
    CHECK(cuCtxPushCurrent_v2(context[device]));
}

void device_leave(void) {
    CUcontext popped;
    CHECK(cuCtxPopCurrent_v2(&popped));
}

static void *take_as(device_cases_t what, int device, size_t bytes) {
    CUdeviceptr pointer;
    void *pinned;
    device_enter(device);
    if (what == DEVICE_CASES_PINNED) {
        CHECK(cuMemAllocHost_v2(&pinned, bytes));
        pointer = (uintptr_t)pinned;
    } else if (what == DEVICE_CASES_MANAGED) {
        CHECK(cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL));
    } else {
        CHECK(cuMemAlloc_v2(&pointer, bytes));
    }
    device_leave();
    return (void *)(uintptr_t)pointer; // NOLINT
}

void device_cases_in_runs(uint32_t run) {
    in_runs = run;
}

int device_cases_device(uint32_t endpoint) {
    return (int)(endpoint / in_runs % (uint32_t)devices);
}

static int working(void) {
    return lost_device == 0 && devices > 1 ? 1 : 0;
}

void device_lose(int device, uint64_t operations) {
    lost_device = device;
    heddle_emucuda_lose_device(device, operations);
}

void *device_take(int device, size_t bytes) {
    return take_as(kind, device, bytes);
}

void device_put(void *memory) {
    unsigned int type = 0;
    device_enter(working());
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                (CUdeviceptr)(uintptr_t)memory));
    CHECK(type == CU_MEMORYTYPE_HOST ? cuMemFreeHost(memory)
                                     : cuMemFree_v2((CUdeviceptr)(uintptr_t)memory));
    device_leave();
}

void device_to(void *memory, const void *from, size_t bytes) {
    device_enter(working());
    CHECK(cuMemcpy((CUdeviceptr)(uintptr_t)memory, (CUdeviceptr)(uintptr_t)from, bytes));
    CHECK(cuCtxSynchronize()); /* a copy from memory that is not pinned may go on after the call */
    device_leave();
}

void device_from(void *to, const void *memory, size_t bytes) {
    device_enter(working());
    CHECK(cuMemcpy((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)memory, bytes));
    device_leave();
}

void *device_stream(int device) {
    CUstream stream;
    device_enter(device);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    device_leave();
    return stream;
}

void device_stream_end(void *stream) {
    device_enter(working());
    CHECK(cuStreamDestroy_v2(stream));
    device_leave();
}

/* --- cases --- */

/* What was posted there is over when it is enqueued. */
static void await_streams(void) {
    for (int i = 0; on_streams && i < MOST_STREAMS; i++) {
        device_enter(device_cases_device((uint32_t)i));
        CHECK(cuStreamSynchronize(stream_of[i]));
        device_leave();
    }
}

static void case_from(void *to, const void *memory, size_t bytes) {
    await_streams();
    device_from(to, memory, bytes);
}

#if defined(__SANITIZE_ADDRESS__)
enum { PERCENT = 1 };
#else
enum { PERCENT = 2 };
#endif

static uint64_t scale(void) {
    const char *text = getenv("HEDDLE_STRESS_SCALE");
    return text != NULL && atoi(text) > 0 ? (uint64_t)atoi(text) : PERCENT;
}

static bool can(const coll_case_t *c) {
    bool wide = c->dt->kind == REFERENCE_FLOAT128 || c->dt->kind == REFERENCE_COMPLEX128 ||
                (c->dt->kind == REFERENCE_PAIR && c->dt->value_kind == REFERENCE_FLOAT128);
    return c->dt->kind != REFERENCE_USER && !(wide && coll_is_reduction(c->type));
}

static device_cases_t kind_of_case; /* kind, or what it is at present */
static uint64_t of_cases;           /* drawn from to choose: others in each configuration */

/* Most are plain. Called before each case is made. */
static bool takes(const coll_case_t *c) {
    static const device_cases_t any[] = {DEVICE_CASES_MIXED, DEVICE_CASES_MANAGED,
                                         DEVICE_CASES_PINNED, DEVICE_CASES_MIXED};
    uint64_t drawn = random_below(&of_cases, 2 * sizeof(any) / sizeof(*any));
    kind_of_case = kind != DEVICE_CASES_ANY             ? kind
                   : drawn < sizeof(any) / sizeof(*any) ? any[drawn]
                                                        : DEVICE_CASES_PLAIN;
    return can(c) && (kind != DEVICE_CASES_ANY || random_below(&of_cases, 100) < scale());
}

static void *take(uint32_t endpoint, size_t bytes, bool may_stay, uint64_t *random,
                  ucc_memory_type_t *type) {
    bool mixed = kind_of_case == DEVICE_CASES_MIXED;
    /* pinned memory is a device's only if it is said to be */
    bool said = random_next(random) % 2 == 0 || kind_of_case == DEVICE_CASES_PINNED;
    static bool stays; /* the last one: an endpoint's other buffer may not, too */
    stays = mixed && may_stay && !stays && random_next(random) % 2 == 0;
    if (stays) {
        *type = said ? UCC_MEMORY_TYPE_HOST : UCC_MEMORY_TYPE_UNKNOWN;
        /* in the order of streams it has to be pinned */
        return on_streams ? take_as(DEVICE_CASES_PINNED, 0, bytes) : NULL;
    }
    *type = !said                                  ? UCC_MEMORY_TYPE_UNKNOWN
            : kind_of_case == DEVICE_CASES_MANAGED ? UCC_MEMORY_TYPE_CUDA_MANAGED
                                                   : UCC_MEMORY_TYPE_CUDA;
    int device =
        mixed ? (int)(random_next(random) % (uint64_t)devices) : device_cases_device(endpoint);
    return take_as(kind_of_case, device, bytes);
}

static ucc_status_t post_on_stream(ucc_coll_req_h request, uint32_t endpoint) {
    return heddle_post_on(request, stream_of[endpoint % MOST_STREAMS]);
}

void device_cases_on_streams(void) {
    on_streams = true;
    for (int i = 0; i < MOST_STREAMS; i++) {
        device_enter(device_cases_device((uint32_t)i));
        CHECK(cuStreamCreate(&stream_of[i], CU_STREAM_NON_BLOCKING));
        device_leave();
    }
    driver_posts = post_on_stream;
}

static void end_streams(void) {
    for (int i = 0; on_streams && i < MOST_STREAMS; i++) {
        device_stream_end(stream_of[i]);
    }
    on_streams = false;
    driver_posts = NULL;
}

/* With host=threads, the emulator has to be told which threads know of each other. */
static void meet(bool comes) {
    static const int token;
    if (comes) {
        heddle_emucuda_host_acquire(&token);
    } else {
        heddle_emucuda_host_release(&token);
    }
}

static void see(ucc_coll_req_h request) {
    heddle_emucuda_host_acquire(request);
}

static uint64_t told; /* findings that wrong() has returned */

static uint64_t wrong(void) {
    heddle_emucuda_report_t r = {0};
    if (!real) {
        heddle_emucuda_report(&r, sizeof(r));
    }
    uint64_t found = r.races + r.deadlocks + r.faults + r.leaks, fresh = found - told;
    uint64_t left = r.device_allocations + r.host_allocations + r.events + r.modules + r.streams -
                    (on_streams && !real ? MOST_STREAMS : 0);
    told = found;
    if (fresh + left > 0) {
        fprintf(stderr, "WRONG: %llu findings of the emulator; %llu of what was made is left\n",
                (unsigned long long)fresh, (unsigned long long)left);
    }
    return fresh + left;
}

static const case_memory_t memory = {.takes = takes,
                                     .take = take,
                                     .put = device_put,
                                     .to = device_to,
                                     .from = case_from,
                                     .wrong = wrong};

void device_cases_begin(const char *config, device_cases_t which) {
    const char *mode = getenv("HEDDLE_TEST_GPU");
    real = mode && strcmp(mode, "cuda") == 0;
    setenv("HEDDLE_GPU", real ? "cuda" : "emulated", 1); /* which runs already then */
    must(real || heddle_emucuda_configure(config) == 0 ? UCC_OK : UCC_ERR_INVALID_PARAM, config);
    kind = which;
    in_runs = 1;
    on_streams = false;
    driver_posts = NULL;
    lost_device = -1;
    told = 0;
    of_cases = 1;
    for (const char *at = config; *at; at++) {
        of_cases = 31 * of_cases + (unsigned char)*at;
    }
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&devices));
    devices = devices < MOST_DEVICES ? devices : MOST_DEVICES;
    for (int d = 0; d < devices; d++) {
        CHECK(cuDevicePrimaryCtxRetain(&context[d], d));
    }
    case_memory = &memory;
    driver_meets = real ? NULL : meet;
    driver_sees = real ? NULL : see;
}

void device_cases_end(void) {
    heddle_emucuda_report_t report = {0};
    end_streams();
    case_memory = NULL;
    driver_meets = NULL;
    driver_sees = NULL;
    if (!real) {
        heddle_emucuda_report(&report, sizeof(report));
    }
    bool left = report.device_allocations || report.host_allocations || report.streams ||
                report.events || report.modules || report.pools;
    for (int d = 0; d < devices; d++) {
        CHECK(cuDevicePrimaryCtxRelease_v2(d));
    }
    if (report.races || report.deadlocks || report.faults || report.leaks || left) {
        fprintf(
            stderr,
            "FATAL: races %llu, deadlocks %llu, faults %llu, leaks %llu; left: device %llu, host "
            "%llu, streams %llu, events %llu, modules %llu\n",
            (unsigned long long)report.races, (unsigned long long)report.deadlocks,
            (unsigned long long)report.faults, (unsigned long long)report.leaks,
            (unsigned long long)report.device_allocations,
            (unsigned long long)report.host_allocations, (unsigned long long)report.streams,
            (unsigned long long)report.events, (unsigned long long)report.modules);
        abort();
    }
}
