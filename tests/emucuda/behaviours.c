/* behaviours.c: what a CUDA driver does in cases that programs depend on, or trip over: one line
 * for each. Runs on the emulator, or on the library that the first argument names:
 *
 *     test_emucuda_behaviours libcuda.so.1
 *
 * so that the logs of both can be compared. It fails if a line is not as the public documentation
 * has it, which is said above each behaviour: "Driver" is the CUDA Driver API reference, "Guide"
 * the CUDA C++ Programming Guide.
 */
#include "behaviours.h"
#include "heddle_emucuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

driver_t driver;
world_t world;

static char line[256];

void say_text(const char *text) {
    size_t at = strlen(line);
    snprintf(line + at, sizeof(line) - at, "%s%s", at > 0 ? ", " : "", text);
}

void say(CUresult status) {
    const char *name = "?";
    driver.getErrorName(status, &name);
    say_text(strncmp(name, "CUDA_ERROR_", 11) == 0 ? name + 11
             : strcmp(name, "CUDA_SUCCESS") == 0   ? "ok"
                                                   : name);
}

static void must(CUresult status, const char *what) {
    const char *name = "?";
    if (status != CUDA_SUCCESS) {
        driver.getErrorName(status, &name);
        fprintf(stderr, "behaviours: %s: %s\n", what, name);
        exit(2);
    }
}

void close_gate(CUstream stream) {
    __atomic_store_n(world.gate, 0, __ATOMIC_RELEASE);
    must(driver.streamWaitValue32(stream, (CUdeviceptr)(uintptr_t)world.gate, 1,
                                  CU_STREAM_WAIT_VALUE_EQ),
         "gate");
}

void open_gate(void) {
    __atomic_store_n(world.gate, 1, __ATOMIC_RELEASE);
    must(driver.ctxSynchronize(), "cuCtxSynchronize");
}

CUstream new_stream(unsigned int flags) {
    CUstream stream;
    must(driver.streamCreate(&stream, flags), "cuStreamCreate");
    return stream;
}

CUevent new_event(void) {
    CUevent event;
    must(driver.eventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    return event;
}

/* Events ------------------------------------------------------------------------------------------
 */

/* Driver, cuStreamWaitEvent, cuEventQuery, cuEventSynchronize: an event that was never recorded
 * counts as complete. */
static void unrecorded(void) {
    CUevent event = new_event();
    say(driver.streamWaitEvent(world.stream, event, 0));
    say(driver.streamSynchronize(world.stream));
    say(driver.eventQuery(event));
    say(driver.eventSynchronize(event));
    driver.eventDestroy(event);
}

/* Driver, cuEventRecord: calls of cuStreamWaitEvent made before are not changed by recording the
 * event again; others, and cuEventQuery, take the last one. */
static void recorded_again(void) {
    close_gate(world.stream);
    driver.eventRecord(world.event, world.stream);
    driver.streamWaitEvent(world.second, world.event, 0);
    CUstream third = new_stream(CU_STREAM_NON_BLOCKING);
    driver.eventRecord(world.event, third);
    say(driver.eventSynchronize(world.event));
    say(driver.streamQuery(world.second));
    open_gate();
    say(driver.streamQuery(world.second));
    driver.streamDestroy(third);
}

/* The same: what is recorded after the call is not waited for. */
static void recorded_later(void) {
    CUevent event = new_event();
    driver.streamWaitEvent(world.second, event, 0);
    close_gate(world.stream);
    driver.eventRecord(event, world.stream);
    say(driver.streamSynchronize(world.second));
    say(driver.eventQuery(event));
    open_gate();
    driver.eventDestroy(event);
}

/* Driver, cuEventElapsedTime: INVALID_HANDLE for events without time, or not recorded; NOT_READY
 * before they are done. */
static void elapsed(void) {
    CUevent start, end;
    float ms;
    driver.eventCreate(&start, 0);
    driver.eventCreate(&end, 0);
    say(driver.eventElapsedTime(&ms, start, end));
    driver.eventRecord(start, world.stream);
    close_gate(world.stream);
    driver.eventRecord(end, world.stream);
    say(driver.eventElapsedTime(&ms, start, end));
    open_gate();
    say(driver.eventElapsedTime(&ms, start, end));
    say_text(ms >= 0 ? "not negative" : "negative");
    driver.eventRecord(world.event, world.stream);
    driver.ctxSynchronize();
    say(driver.eventElapsedTime(&ms, start, world.event));
    driver.eventDestroy(start);
    driver.eventDestroy(end);
}

/* Driver, cuEventDestroy: an event may be destroyed before it is complete; the call does not block.
 */
static void destroyed_event(void) {
    CUevent event = new_event();
    close_gate(world.stream);
    driver.eventRecord(event, world.stream);
    driver.streamWaitEvent(world.second, event, 0);
    say(driver.eventDestroy(event));
    say(driver.streamQuery(world.second));
    open_gate();
    say(driver.streamQuery(world.second));
}

/* Contexts ----------------------------------------------------------------------------------------
 */

/* Driver, cuEventRecord: event and stream must be of the same context; cuStreamWaitEvent: they need
 * not be. Guide, "Stream and event behavior": a launch fails in a stream of another device (here:
 * context), a copy does not. */
static void other_context(void) {
    CUstream foreign;
    unsigned int value = 1;
    void *params[] = {&world.memory, &value};
    driver.ctxPushCurrent(world.other);
    driver.streamCreate(&foreign, CU_STREAM_NON_BLOCKING);
    driver.ctxPopCurrent(NULL);
    say(driver.eventRecord(world.event, foreign));
    driver.eventRecord(world.event, world.stream);
    say(driver.streamWaitEvent(foreign, world.event, 0));
    say(driver.launchKernel(world.fill, 1, 1, 1, 1, 1, 1, 0, foreign, params, NULL));
    say(driver.memcpyHtoDAsync(world.memory, world.gate, 4, foreign));
    say(driver.streamSynchronize(foreign));
    driver.ctxPushCurrent(world.other);
    driver.streamDestroy(foreign);
    driver.ctxPopCurrent(NULL);
}

/* Driver, every function of memory and streams: INVALID_CONTEXT without a current context; so
 * cuCtxPopCurrent. */
static void no_context(void) {
    CUdeviceptr pointer;
    CUcontext context;
    driver.ctxSetCurrent(NULL);
    say(driver.memAlloc(&pointer, 16));
    say(driver.ctxPopCurrent(&context));
    say(driver.ctxGetCurrent(&context));
    say_text(context ? "some" : "none");
    driver.ctxSetCurrent(world.context);
}

/* Streams -----------------------------------------------------------------------------------------
 */

/* Driver, cuStreamQuery: NOT_READY while there is work. */
static void query(void) {
    close_gate(world.stream);
    say(driver.streamQuery(world.stream));
    open_gate();
    say(driver.streamQuery(world.stream));
}

/* Driver, cuStreamDestroy: with work still pending, it returns at once, and the work is done. */
static void destroyed_stream(void) {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    unsigned int word = 0;
    close_gate(stream);
    driver.memsetD32Async(world.memory, 77, 1, stream);
    say(driver.streamDestroy(stream));
    open_gate();
    driver.memcpyDtoH(&word, world.memory, 4);
    say_text(word == 77 ? "done" : "not done");
}

/* Driver, "Stream synchronization behavior": the legacy default stream waits for all blocking
 * streams, and they for it; not so non-blocking ones. */
static void null_stream(void) {
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), another = new_stream(CU_STREAM_DEFAULT);
    close_gate(world.stream);
    driver.memsetD32Async(world.memory, 1, 1, NULL);
    say(driver.streamSynchronize(NULL));
    open_gate();
    close_gate(blocking);
    driver.memsetD32Async(world.memory, 1, 1, NULL);
    driver.memsetD32Async(world.memory + 4, 1, 1, another);
    driver.memsetD32Async(world.memory + 8, 1, 1, world.second);
    say(driver.streamSynchronize(world.second));
    say(driver.streamQuery(NULL));
    say(driver.streamQuery(another));
    open_gate();
    say(driver.streamQuery(another));
    driver.streamDestroy(blocking);
    driver.streamDestroy(another);
}

/* Driver, the same page: the per-thread default stream is ordered with the legacy one, and is no
 * other thread's. */
static void per_thread_stream(void) {
    close_gate(CU_STREAM_PER_THREAD);
    driver.memsetD32Async(world.memory, 1, 1, NULL);
    say(driver.streamQuery(NULL));
    say(driver.streamQuery(world.stream));
    open_gate();
    say(driver.streamQuery(NULL));
}

static void refuse_calls(void *status) {
    *(CUresult *)status = driver.streamQuery(world.second);
}

/* Driver, cuLaunchHostFunc: the function must not make CUDA calls; they may return NOT_PERMITTED
 * (the emulator's do; driver 580's did not).
 */
static void host_function(void) {
    CUresult inside = CUDA_SUCCESS;
    say(driver.launchHostFunc(world.stream, refuse_calls, &inside));
    say(driver.streamSynchronize(world.stream));
    say_text(inside == CUDA_SUCCESS || inside == CUDA_ERROR_NOT_PERMITTED ? "either" : "another");
}

/* Memory ------------------------------------------------------------------------------------------
 */

/* Driver, cuMemAlloc: INVALID_VALUE for 0 bytes; cuMemHostRegister, cuMemHostUnregister: what is
 * registered already, or not, has an error of its own. */
static void allocation(void) {
    static char plain[8192];
    CUdeviceptr pointer;
    say(driver.memAlloc(&pointer, 0));
    say(driver.memFree(world.memory + 256));
    say(driver.memHostUnregister(plain));
    say(driver.memHostRegister(plain, sizeof(plain), 0));
    say(driver.memHostRegister(plain, sizeof(plain), 0));
    say(driver.memHostUnregister(plain));
}

static void say_type(CUdeviceptr pointer) {
    static const char *const names[] = {"none", "host", "device", "array", "unified"};
    unsigned int type = 9, managed = 9;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *values[] = {&type, &managed};
    if (driver.pointerGetAttributes(2, attributes, values, pointer) != CUDA_SUCCESS || type > 4) {
        say_text("?");
        return;
    }
    say_text(names[type]);
    if (managed) {
        say_text("managed");
    }
}

/* Driver, cuPointerGetAttribute: INVALID_VALUE for a pointer that no CUDA call made or registered;
 * cuPointerGetAttributes: no error, and null values; managed memory counts as the device's. */
static void pointer_kinds(void) {
    static char plain[4096];
    CUdeviceptr managed, pool;
    unsigned int type;
    driver.memAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL);
    driver.memAllocAsync(&pool, 4096, world.stream);
    say(driver.pointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)plain));
    say_type((uintptr_t)plain);
    say_type(world.memory + 100);
    say_type((uintptr_t)world.gate);
    say_type(managed);
    say_type(pool);
    driver.memFree(managed);
    driver.memFreeAsync(pool, world.stream);
    driver.ctxSynchronize();
}

/* Driver, cuPointerGetAttribute: range, pool, host pointer and context of memory, by kind. */
static void pointer_attributes(void) {
    CUdeviceptr pool, start = 0;
    CUmemoryPool handle = NULL;
    CUcontext context = NULL;
    void *host;
    size_t bytes = 0;
    driver.memAllocAsync(&pool, 4096, world.stream);
    driver.pointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, world.memory + 100);
    driver.pointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, world.memory + 100);
    say_text(start == world.memory && bytes == 1 << 20 ? "range" : "no range");
    driver.pointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, world.memory);
    say_text(context == world.context ? "context" : "no context");
    say(driver.pointerGetAttribute(&handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pool));
    say_text(handle ? "pool" : "no pool");
    say(driver.pointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, world.memory));
    say(driver.pointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                   (uintptr_t)world.gate));
    say_text(host == world.gate ? "same" : "different");
    driver.memFreeAsync(pool, world.stream);
    driver.ctxSynchronize();
}

/* Kernels -----------------------------------------------------------------------------------------
 */

/* Driver, cuLaunchKernel: INVALID_VALUE for dimensions of zero or beyond what the device has;
 * cuModuleGetFunction: NOT_FOUND. */
static void launch_errors(void) {
    unsigned int value = 1;
    void *params[] = {&world.memory, &value};
    CUfunction function;
    say(driver.launchKernel(world.fill, 0, 1, 1, 1, 1, 1, 0, world.stream, params, NULL));
    say(driver.launchKernel(world.fill, 1, 1, 1, 2048, 1, 1, 0, world.stream, params, NULL));
    say(driver.launchKernel(world.fill, 1, 1, 1, 1, 1, 1, 1 << 20, world.stream, params, NULL));
    say(driver.moduleGetFunction(&function, world.module, "empty"));
    say(driver.launchKernel(world.fill, 1, 1, 1, 1, 1, 1, 0, world.stream, params, NULL));
    say(driver.streamSynchronize(world.stream));
}

static void no_destructor(void *arg) {
    (void)arg;
}

/* Driver, cuUserObjectCreate: its one flag is required. */
static void user_object_flags(void) {
    CUuserObject object;
    say(driver.userObjectCreate(&object, NULL, no_destructor, 1, 0));
}

/* Last, for nothing works after it. Driver, CUDA_ERROR_ILLEGAL_ADDRESS: it leaves the process in an
 * inconsistent state, and any further work returns the same error. */
static void sticky(void) {
    CUdeviceptr nowhere = 0x100, pointer;
    unsigned int value = 1;
    void *params[] = {&nowhere, &value};
    say(driver.launchKernel(world.fill, 1, 1, 1, 1, 1, 1, 0, world.stream, params, NULL));
    say(driver.streamSynchronize(world.stream));
    say(driver.streamQuery(world.second));
    say(driver.memAlloc(&pointer, 16));
    say(driver.launchKernel(world.fill, 1, 1, 1, 1, 1, 1, 0, world.second, params, NULL));
    say(driver.ctxSynchronize());
}

static const behaviour_t behaviours[] = {
    {"events never recorded", "ok, ok, ok, ok", unrecorded},
    {"an event recorded again", "ok, NOT_READY, ok", recorded_again},
    {"an event recorded after the wait", "ok, NOT_READY", recorded_later},
    {"time between events", "INVALID_HANDLE, NOT_READY, ok, not negative, INVALID_HANDLE", elapsed},
    {"an event destroyed while it is waited for", "ok, NOT_READY, ok", destroyed_event},
    {"streams of another context", "INVALID_HANDLE, ok, INVALID_HANDLE, ok, ok", other_context},
    {"no context", "INVALID_CONTEXT, INVALID_CONTEXT, ok, none", no_context},
    {"a stream with work", "NOT_READY, ok", query},
    {"a stream destroyed with work", "ok, done", destroyed_stream},
    {"the NULL stream", "ok, ok, NOT_READY, NOT_READY, ok", null_stream},
    {"the stream of a thread", "NOT_READY, ok, ok", per_thread_stream},
    {"calls from a host function", "ok, ok, either", host_function},
    {"allocations and registrations",
     "INVALID_VALUE, INVALID_VALUE, HOST_MEMORY_NOT_REGISTERED, ok, "
     "HOST_MEMORY_ALREADY_REGISTERED, ok",
     allocation},
    {"kinds of pointers", "INVALID_VALUE, none, device, host, device, managed, device",
     pointer_kinds},
    {"attributes of pointers", "range, context, ok, pool, INVALID_VALUE, ok, same",
     pointer_attributes},
    {"launches", "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, NOT_FOUND, ok, ok", launch_errors},
    {"flags of user objects", "INVALID_VALUE", user_object_flags},
    {NULL, NULL, NULL}};

static const behaviour_t last_behaviours[] = {
    {"an illegal address",
     "ok, ILLEGAL_ADDRESS, ILLEGAL_ADDRESS, ILLEGAL_ADDRESS, ILLEGAL_ADDRESS, ILLEGAL_ADDRESS",
     sticky},
    {NULL, NULL, NULL}};

/* The world ---------------------------------------------------------------------------------------
 */

/* For a GPU: one thread stores value at pointer. */
static const char ptx[] = ".version 7.0\n"
                          ".target sm_70\n"
                          ".address_size 64\n"
                          ".visible .entry fill(.param .u64 pointer, .param .u32 value) {\n"
                          "  .reg .u64 %a<3>;\n"
                          "  .reg .u32 %v;\n"
                          "  ld.param.u64 %a1, [pointer];\n"
                          "  ld.param.u32 %v, [value];\n"
                          "  cvta.to.global.u64 %a2, %a1;\n"
                          "  st.global.u32 [%a2], %v;\n"
                          "  ret;\n"
                          "}\n";

static void fill_run(const heddle_emucuda_block_t *block, void **params) {
    *(uint32_t *)block->memory(*(void **)params[0]) = *(uint32_t *)params[1];
}

static void fill_ranges(const heddle_emucuda_launch_t *launch, void **params,
                        heddle_emucuda_ranges_t *ranges) {
    (void)launch;
    ranges->write(ranges, *(void **)params[0], sizeof(uint32_t));
}

static const uint32_t fill_bytes[] = {8, 4};
static const heddle_emucuda_kernel_t fill_kernel = {
    .name = "fill", .params = 2, .param_bytes = fill_bytes, .run = fill_run, .ranges = fill_ranges};
static const heddle_emucuda_module_t emulated = {.magic = {'H', 'd', 'E', 'm', 'C', 'u', 'M', 'd'},
                                                 .version = HEDDLE_EMUCUDA_VERSION,
                                                 .kernels = 1,
                                                 .kernel = &fill_kernel};

typedef struct name {
    const char *name;
    void *function; /* where it is kept */
} name_t;

static const name_t names[] = {
    {"cuInit", &driver.init},
    {"cuDeviceGet", &driver.deviceGet},
    {"cuDriverGetVersion", &driver.driverGetVersion},
    {"cuDevicePrimaryCtxRetain", &driver.devicePrimaryCtxRetain},
    {"cuDevicePrimaryCtxRelease", &driver.devicePrimaryCtxRelease},
    {"cuCtxCreate", &driver.ctxCreate},
    {"cuCtxDestroy", &driver.ctxDestroy},
    {"cuCtxSetCurrent", &driver.ctxSetCurrent},
    {"cuCtxGetCurrent", &driver.ctxGetCurrent},
    {"cuCtxPopCurrent", &driver.ctxPopCurrent},
    {"cuCtxPushCurrent", &driver.ctxPushCurrent},
    {"cuCtxSynchronize", &driver.ctxSynchronize},
    {"cuMemAlloc", &driver.memAlloc},
    {"cuMemFree", &driver.memFree},
    {"cuMemAllocHost", &driver.memAllocHost},
    {"cuMemFreeHost", &driver.memFreeHost},
    {"cuMemHostRegister", &driver.memHostRegister},
    {"cuMemHostUnregister", &driver.memHostUnregister},
    {"cuMemAllocManaged", &driver.memAllocManaged},
    {"cuMemAllocAsync", &driver.memAllocAsync},
    {"cuMemFreeAsync", &driver.memFreeAsync},
    {"cuMemGetAddressRange", &driver.memGetAddressRange},
    {"cuPointerGetAttribute", &driver.pointerGetAttribute},
    {"cuPointerGetAttributes", &driver.pointerGetAttributes},
    {"cuMemcpyHtoDAsync", &driver.memcpyHtoDAsync},
    {"cuMemcpyDtoD", &driver.memcpyDtoD},
    {"cuMemcpyDtoH", &driver.memcpyDtoH},
    {"cuMemsetD32Async", &driver.memsetD32Async},
    {"cuStreamCreate", &driver.streamCreate},
    {"cuStreamDestroy", &driver.streamDestroy},
    {"cuStreamQuery", &driver.streamQuery},
    {"cuStreamSynchronize", &driver.streamSynchronize},
    {"cuStreamWaitEvent", &driver.streamWaitEvent},
    {"cuStreamWaitValue32", &driver.streamWaitValue32},
    {"cuLaunchHostFunc", &driver.launchHostFunc},
    {"cuEventCreate", &driver.eventCreate},
    {"cuEventDestroy", &driver.eventDestroy},
    {"cuEventRecord", &driver.eventRecord},
    {"cuEventQuery", &driver.eventQuery},
    {"cuEventSynchronize", &driver.eventSynchronize},
    {"cuEventElapsedTime", &driver.eventElapsedTime},
    {"cuModuleLoadData", &driver.moduleLoadData},
    {"cuModuleUnload", &driver.moduleUnload},
    {"cuModuleGetFunction", &driver.moduleGetFunction},
    {"cuModuleGetGlobal", &driver.moduleGetGlobal},
    {"cuLaunchKernel", &driver.launchKernel},
    {"cuStreamBeginCapture", &driver.streamBeginCapture},
    {"cuStreamEndCapture", &driver.streamEndCapture},
    {"cuStreamIsCapturing", &driver.streamIsCapturing},
    {"cuThreadExchangeStreamCaptureMode", &driver.threadExchangeStreamCaptureMode},
    {"cuGraphDestroy", &driver.graphDestroy},
    {"cuGraphInstantiate", &driver.graphInstantiate},
    {"cuGraphLaunch", &driver.graphLaunch},
    {"cuGraphExecDestroy", &driver.graphExecDestroy},
    {"cuUserObjectCreate", &driver.userObjectCreate},
    {"cuGetErrorName", &driver.getErrorName},
};

/* 77: there is no such library. */
static void *load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("skipped: %s\n", dlerror());
        exit(77);
    }
    __typeof__(&cuGetProcAddress_v2) get;
    *(void **)&get = dlsym(library, "cuGetProcAddress_v2");
    if (!get) {
        puts("skipped: the driver is older than CUDA 12.0");
        exit(77);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (get(names[i].name, names[i].function, 12020, 0, NULL) != CUDA_SUCCESS ||
            !*(void **)names[i].function) {
            fprintf(stderr, "behaviours: there is no %s\n", names[i].name);
            exit(2);
        }
    }
    return library;
}

static void make_world(bool emulates) {
    CUdevice device;
    CUresult status = driver.init(0);
    if (status != CUDA_SUCCESS) {
        say(status);
        printf("skipped: cuInit: %s\n", line);
        exit(77);
    }
    must(driver.deviceGet(&device, 0), "cuDeviceGet");
    must(driver.ctxCreate(&world.other, NULL, 0, 0, device), "cuCtxCreate");
    must(driver.ctxPopCurrent(NULL), "cuCtxPopCurrent");
    must(driver.devicePrimaryCtxRetain(&world.context, device), "cuDevicePrimaryCtxRetain");
    must(driver.ctxSetCurrent(world.context), "cuCtxSetCurrent");
    must(driver.moduleLoadData(&world.module, emulates ? (const void *)&emulated : ptx),
         "cuModuleLoadData");
    must(driver.moduleGetFunction(&world.fill, world.module, "fill"), "cuModuleGetFunction");
    world.stream = new_stream(CU_STREAM_NON_BLOCKING);
    world.second = new_stream(CU_STREAM_NON_BLOCKING);
    world.event = new_event();
    must(driver.memAlloc(&world.memory, 1 << 20), "cuMemAlloc");
    must(driver.memAllocHost((void **)&world.gate, 4096), "cuMemAllocHost");
}

static int run_all(const behaviour_t *list) {
    int wrong = 0;
    for (const behaviour_t *b = list; b->name; b++) {
        line[0] = '\0';
        b->run();
        printf("%s: %s\n", b->name, line);
        if (strcmp(line, b->expected) != 0) {
            printf("    expected: %s\n", b->expected);
            wrong++;
        }
        fflush(stdout);
    }
    return wrong;
}

int main(int argc, char **argv) {
    alarm(120); /* a gate that never opens is a failure */
    void *library = load(argc > 1 ? argv[1] : EMUCUDA_LIBRARY);
    make_world(dlsym(library, "heddle_emucuda_site") != NULL);
    int wrong = run_all(behaviours) + run_all(capture_behaviours) + run_all(last_behaviours);
    printf("%d lines are not as documented\n", wrong);
    return wrong ? 1 : 0;
}
