/* device.c: see device.h. */
#include "device.h"

#include "run.h"

#include <dlfcn.h>
#include <heddle/heddle_version.h>
#include <heddle_emucuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_DEVICES = 64,
    ATTACH_GLOBAL = 1, /* CU_MEM_ATTACH_GLOBAL */
    NON_BLOCKING = 1,  /* CU_STREAM_NON_BLOCKING */
    NO_TIMING = 2,     /* CU_EVENT_DISABLE_TIMING */
    L2_CACHE_SIZE = 38 /* CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE */
};

/* The functions of the driver interface that are needed here. */
typedef uint64_t address_t;
typedef struct driver {
    int (*Init)(unsigned flags);
    int (*GetErrorName)(int error, const char **name);
    int (*DeviceGetCount)(int *count);
    int (*DeviceGetName)(char *name, int bytes, int device);
    int (*DeviceGetAttribute)(int *value, int attribute, int device);
    int (*DeviceTotalMem)(size_t *bytes, int device);
    int (*DevicePrimaryCtxRetain)(void **context, int device);
    int (*DevicePrimaryCtxRelease)(int device);
    int (*CtxSetCurrent)(void *context);
    int (*MemAlloc)(address_t *memory, size_t bytes);
    int (*MemAllocManaged)(address_t *memory, size_t bytes, unsigned flags);
    int (*MemFree)(address_t memory);
    int (*MemcpyHtoD)(address_t to, const void *from, size_t bytes);
    int (*MemcpyDtoH)(void *to, address_t from, size_t bytes);
    int (*MemsetD8)(address_t memory, unsigned char value, size_t bytes);
    int (*MemsetD8Async)(address_t memory, unsigned char value, size_t bytes, void *stream);
    int (*MemcpyDtoDAsync)(address_t to, address_t from, size_t bytes, void *stream);
    int (*StreamCreate)(void **stream, unsigned flags);
    int (*StreamDestroy)(void *stream);
    int (*StreamSynchronize)(void *stream);
    int (*EventCreate)(void **event, unsigned flags);
    int (*EventDestroy)(void *event);
    int (*EventRecord)(void *event, void *stream);
    int (*EventQuery)(void *event);
    int (*ModuleLoadData)(void **module, const void *image);
    int (*ModuleUnload)(void *module);
    int (*ModuleGetFunction)(void **function, void *module, const char *name);
    int (*LaunchKernel)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, void *stream, void **params,
                        void **extra);
} driver_t;

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
    {"cuInit", offsetof(driver_t, Init)},
    {"cuGetErrorName", offsetof(driver_t, GetErrorName)},
    {"cuDeviceGetCount", offsetof(driver_t, DeviceGetCount)},
    {"cuDeviceGetName", offsetof(driver_t, DeviceGetName)},
    {"cuDeviceGetAttribute", offsetof(driver_t, DeviceGetAttribute)},
    {"cuDeviceTotalMem_v2", offsetof(driver_t, DeviceTotalMem)},
    {"cuDevicePrimaryCtxRetain", offsetof(driver_t, DevicePrimaryCtxRetain)},
    {"cuDevicePrimaryCtxRelease_v2", offsetof(driver_t, DevicePrimaryCtxRelease)},
    {"cuCtxSetCurrent", offsetof(driver_t, CtxSetCurrent)},
    {"cuMemAlloc_v2", offsetof(driver_t, MemAlloc)},
    {"cuMemAllocManaged", offsetof(driver_t, MemAllocManaged)},
    {"cuMemFree_v2", offsetof(driver_t, MemFree)},
    {"cuMemcpyHtoD_v2", offsetof(driver_t, MemcpyHtoD)},
    {"cuMemcpyDtoH_v2", offsetof(driver_t, MemcpyDtoH)},
    {"cuMemsetD8_v2", offsetof(driver_t, MemsetD8)},
    {"cuMemsetD8Async", offsetof(driver_t, MemsetD8Async)},
    {"cuMemcpyDtoDAsync_v2", offsetof(driver_t, MemcpyDtoDAsync)},
    {"cuStreamCreate", offsetof(driver_t, StreamCreate)},
    {"cuStreamDestroy_v2", offsetof(driver_t, StreamDestroy)},
    {"cuStreamSynchronize", offsetof(driver_t, StreamSynchronize)},
    {"cuEventCreate", offsetof(driver_t, EventCreate)},
    {"cuEventDestroy_v2", offsetof(driver_t, EventDestroy)},
    {"cuEventRecord", offsetof(driver_t, EventRecord)},
    {"cuEventQuery", offsetof(driver_t, EventQuery)},
    {"cuModuleLoadData", offsetof(driver_t, ModuleLoadData)},
    {"cuModuleUnload", offsetof(driver_t, ModuleUnload)},
    {"cuModuleGetFunction", offsetof(driver_t, ModuleGetFunction)},
    {"cuLaunchKernel", offsetof(driver_t, LaunchKernel)},
};

/* A device that endpoints are on. */
typedef struct device {
    int ordinal;
    void *context, *stream, *event;
    unsigned char *from, *to; /* of copies: `span` bytes each */
    uint64_t span, next;      /* where the next copy is */
} device_t;

static driver_t cu;
static void *library; /* NULL: --mem host */
static bool emulated;
static heddle_group_t *group; /* for as long as it exists, the library uses the driver */
static device_t devices[MOST_DEVICES];
static uint8_t *place; /* by endpoint: which of `devices`; NULL: they are on the first */
static perf_device_summary_t summary;
static void *module,
    /* a kernel that does nothing, on the first device; NULL: the driver can't translate it */
    *nothing;

static void require(int result, const char *call) {
    const char *name = "?";
    if (result != 0) {
        (void)cu.GetErrorName(result, &name);
        fprintf(stderr, "heddle_perf: %s: %s\n", call, name);
        fflush(NULL);
        _Exit(1); /* as perf_fatal */
    }
}

static void enter(const device_t *device) {
    require(cu.CtxSetCurrent(device->context), "cuCtxSetCurrent");
}

static const device_t *device_of(uint32_t e) {
    return &devices[place != NULL ? place[e] : 0];
}

uint32_t perf_device_most(const perf_options_t *o) {
    uint32_t on[MOST_DEVICES] = {0}, most = 0;
    for (uint32_t e = 0; e < o->endpoints; e++) {
        uint32_t n = ++on[device_of(e) - devices];
        most = n > most ? n : most;
    }
    return most;
}

/* ------------------------------------------------------------------------------------------------
 * Memory
 * ---------------------------------------------------------------------------------------------- */

void perf_device_free(unsigned char *memory) {
    if (memory != NULL) {
        require(cu.MemFree((address_t)(uintptr_t)memory), "cuMemFree");
    }
}

static void grow(const perf_options_t *o, const device_t *device, unsigned char **memory,
                 size_t *capacity, uint64_t bytes) {
    address_t address = 0;
    if (bytes <= *capacity && *memory != NULL) {
        return;
    }
    perf_device_free(*memory);
    enter(device);
    bytes = bytes == 0 ? 256 : bytes;
    require(o->memory == UCC_MEMORY_TYPE_CUDA_MANAGED
                ? cu.MemAllocManaged(&address, bytes, ATTACH_GLOBAL)
                : cu.MemAlloc(&address, bytes),
            "memory of a device");
    *memory = (unsigned char *)(uintptr_t)address;
    *capacity = bytes;
}

void perf_device_grow(const perf_options_t *o, uint32_t e, unsigned char **memory, size_t *capacity,
                      uint64_t bytes) {
    grow(o, device_of(e), memory, capacity, bytes);
}

void perf_device_to(uint32_t e, void *memory, const void *from, uint64_t bytes) {
    enter(device_of(e));
    require(cu.MemcpyHtoD((address_t)(uintptr_t)memory, from, bytes), "cuMemcpyHtoD");
    require(cu.StreamSynchronize(NULL), "cuStreamSynchronize"); /* a small copy may return before */
}

void perf_device_from(uint32_t e, void *to, const void *memory, uint64_t bytes) {
    enter(device_of(e));
    require(cu.MemcpyDtoH(to, (address_t)(uintptr_t)memory, bytes), "cuMemcpyDtoH");
}

static void clear(const device_t *device, void *memory, uint64_t bytes) {
    enter(device);
    require(cu.MemsetD8((address_t)(uintptr_t)memory, 0, bytes), "cuMemsetD8");
    require(cu.StreamSynchronize(NULL), "cuStreamSynchronize");
}

void perf_device_clear(uint32_t e, void *memory, uint64_t bytes) {
    clear(device_of(e), memory, bytes);
}

void *perf_device_stream(uint32_t e) {
    void *stream = NULL;
    enter(device_of(e));
    require(cu.StreamCreate(&stream, NON_BLOCKING), "cuStreamCreate");
    return stream;
}

void perf_device_stream_end(uint32_t e, void *stream) {
    enter(device_of(e));
    require(cu.StreamDestroy(stream), "cuStreamDestroy");
}

void perf_device_stream_await(uint32_t e, void *stream) {
    enter(device_of(e));
    require(cu.StreamSynchronize(stream), "cuStreamSynchronize");
}

/* ------------------------------------------------------------------------------------------------
 * Limits
 * ---------------------------------------------------------------------------------------------- */

/* By asking, as those who want to know soon do. */
static void await(const device_t *device) {
    enum { NOT_READY = 600 };
    int result;
    while ((result = cu.EventQuery(device->event)) == NOT_READY) {
    }
    require(result, "cuEventQuery");
}

double perf_device_launch(uint64_t batch) {
    const device_t *device = &devices[0];
    enter(device);
    uint64_t begin = perf_clock_ticks();
    for (uint64_t i = 0; i < batch; i++) {
        require(nothing != NULL
                    ? cu.LaunchKernel(nothing, 1, 1, 1, 32, 1, 1, 0, device->stream, NULL, NULL)
                    : cu.MemsetD8Async((address_t)(uintptr_t)device->to, 0, 4, device->stream),
                "cuLaunchKernel");
    }
    require(cu.EventRecord(device->event, device->stream), "cuEventRecord");
    await(device);
    return perf_clock_seconds(perf_clock_ticks() - begin) / (double)batch;
}

/* Memory for copies of so many bytes: twice the cache, or what one needs. */
static void reserve(device_t *device, uint64_t bytes) {
    const perf_options_t plain = {.memory = UCC_MEMORY_TYPE_CUDA};
    uint64_t span = bytes > summary.l2_bytes ? bytes : summary.l2_bytes;
    size_t from = device->span, to = device->span;
    if (span <= device->span) {
        return;
    }
    grow(&plain, device, &device->from, &from, span);
    grow(&plain, device, &device->to, &to, span);
    clear(device, device->from, span);
    clear(device, device->to, span);
    device->span = span;
    device->next = 0;
}

/* The place of the next copy. */
static uint64_t turn(device_t *device, uint64_t bytes) {
    if (device->next + bytes > device->span) {
        device->next = 0;
    }
    uint64_t at = device->next;
    device->next += (bytes + 255) / 256 * 256;
    return at;
}

double perf_device_copy(uint64_t bytes, uint64_t batch) {
    for (uint32_t d = 0; d < summary.devices; d++) {
        reserve(&devices[d], bytes);
    }
    uint64_t begin = perf_clock_ticks();
    for (uint32_t d = 0; d < summary.devices; d++) {
        device_t *device = &devices[d];
        enter(device);
        for (uint64_t i = 0; i < batch; i++) {
            uint64_t at = turn(device, bytes);
            require(cu.MemcpyDtoDAsync((address_t)(uintptr_t)device->to + at,
                                       (address_t)(uintptr_t)device->from + at, bytes,
                                       device->stream),
                    "cuMemcpyDtoDAsync");
        }
        require(cu.EventRecord(device->event, device->stream), "cuEventRecord");
    }
    for (uint32_t d = 0; d < summary.devices; d++) {
        enter(&devices[d]);
        await(&devices[d]);
    }
    return perf_clock_seconds(perf_clock_ticks() - begin) / (double)batch;
}

/* ------------------------------------------------------------------------------------------------
 * Opening
 * ---------------------------------------------------------------------------------------------- */

/* The kernel that does nothing, as text that the driver translates, and as a module of the
 * emulator. */
static const char nothing_ptx[] = ".version 7.0\n"
                                  ".target sm_80\n"
                                  ".address_size 64\n"
                                  ".visible .entry nothing() { ret; }\n";

static void run_nothing(const heddle_emucuda_block_t *block, void **params) {
    (void)block, (void)params;
}

static const heddle_emucuda_kernel_t nothing_kernel = {.name = "nothing", .run = run_nothing};
static const heddle_emucuda_module_t nothing_module = {
    .magic = {'H', 'd', 'E', 'm', 'C', 'u', 'M', 'd'},
    .version = HEDDLE_EMUCUDA_VERSION,
    .kernels = 1,
    .kernel = &nothing_kernel};

static bool say(const char *what, const char *why) {
    fprintf(stderr, "heddle_perf: --mem: %s%s\n", what, why);
    return false;
}

static bool load(void) {
    const char *mode = getenv("HEDDLE_GPU");
    emulated = mode != NULL && strncmp(mode, "emulated", 8) == 0;
    char name[64] = "libcuda.so.1";
    if (emulated) { /* which the library has loaded */
        snprintf(name, sizeof(name), "libheddle_emucuda.so.%d", HEDDLE_VERSION_MAJOR);
    }
    library = dlopen(name, emulated ? RTLD_NOLOAD | RTLD_NOW : RTLD_NOW);
    if (library == NULL) {
        const char *why = dlerror();
        return say("no driver: ", why != NULL ? why : name);
    }
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *found = dlsym(library, functions[i].name);
        if (found == NULL) {
            return say("the driver has no ", functions[i].name);
        }
        memcpy((char *)&cu + functions[i].offset, &found, sizeof(found));
    }
    return true;
}

static void open_device(device_t *device, int ordinal) {
    device->ordinal = ordinal;
    require(cu.DevicePrimaryCtxRetain(&device->context, ordinal), "cuDevicePrimaryCtxRetain");
    enter(device);
    require(cu.StreamCreate(&device->stream, NON_BLOCKING), "cuStreamCreate");
    require(cu.EventCreate(&device->event, NO_TIMING), "cuEventCreate");
}

static int compare(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median_of(double (*measure)(uint64_t), uint64_t bytes) {
    double seconds[25];
    const size_t n = sizeof(seconds) / sizeof(seconds[0]);
    (void)measure(bytes);
    for (size_t i = 0; i < n; i++) {
        seconds[i] = measure(bytes);
    }
    qsort(seconds, n, sizeof(seconds[0]), compare);
    return seconds[n / 2];
}

static double one_launch(uint64_t bytes) {
    (void)bytes;
    return perf_device_launch(1);
}

static double one_copy(uint64_t bytes) {
    return perf_device_copy(bytes, 1);
}

static void summarize(void) {
    const uint64_t large = emulated ? UINT64_C(4) << 20 : UINT64_C(256) << 20;
    int l2 = 0, ordinal = devices[0].ordinal;
    require(cu.DeviceGetName(summary.name, sizeof(summary.name), ordinal), "cuDeviceGetName");
    require(cu.DeviceGetAttribute(&l2, L2_CACHE_SIZE, ordinal), "cuDeviceGetAttribute");
    require(cu.DeviceTotalMem(&summary.bytes, ordinal), "cuDeviceTotalMem");
    summary.l2_bytes = (size_t)l2;
    enter(&devices[0]);
    if (cu.ModuleLoadData(&module, emulated ? (const void *)&nothing_module : nothing_ptx) == 0) {
        require(cu.ModuleGetFunction(&nothing, module, "nothing"), "cuModuleGetFunction");
    } else { /* a driver without a translator: a fill of 4 bytes is a launch, too */
        module = NULL;
        reserve(&devices[0], 256);
    }
    summary.launch = median_of(one_launch, 0);
    summary.copy_rate = 2.0 * (double)large * summary.devices / median_of(one_copy, large);
}

/* A thread that is bound as one that will measure, and joins as that one's endpoints. */
typedef struct stand_in {
    const perf_options_t *options;
    uint32_t index;
    heddle_ep_t **endpoints; /* of all */
    pthread_t thread;
} stand_in_t;

static void *join_bound(void *arg) {
    const stand_in_t *s = arg;
    const perf_options_t *o = s->options;
    perf_bind(o->bind, s->index, o->workers);
    for (uint32_t e = 0; e < o->endpoints; e++) {
        if ((uint64_t)e * o->workers / o->endpoints == s->index) { /* as perf_run's workers do */
            perf_require(heddle_join(group, e, &s->endpoints[e]), "heddle_join");
        }
    }
    return NULL;
}

/* The driver's number of the GPU of each endpoint: those that the library proposes where threads
 * are bound as they will be. */
static void ask_places(const perf_options_t *o, int *ordinal) {
    stand_in_t *threads = perf_allocate(o->workers * sizeof(*threads));
    heddle_ep_t **endpoints = perf_allocate(o->endpoints * sizeof(heddle_ep_t *));
    for (uint32_t i = 0; i < o->workers; i++) {
        threads[i] = (stand_in_t){.options = o, .index = i, .endpoints = endpoints};
        if (pthread_create(&threads[i].thread, NULL, join_bound, &threads[i]) != 0) {
            perf_fatal("cannot start a thread", UCC_ERR_NO_RESOURCE);
        }
    }
    for (uint32_t i = 0; i < o->workers; i++) {
        pthread_join(threads[i].thread, NULL);
    }
    for (uint32_t e = 0; e < o->endpoints; e++) {
        perf_require(heddle_team_gpu(heddle_ep_team(endpoints[0]), e, &ordinal[e]),
                     "heddle_team_gpu");
    }
    for (uint32_t e = 0; e < o->endpoints; e++) {
        perf_require(heddle_leave(endpoints[e]), "heddle_leave");
    }
    free(endpoints);
    free(threads);
}

/* Those that endpoints are on, in the order of their endpoints. */
static void open_devices(const perf_options_t *o) {
    int *ordinal = perf_allocate(o->endpoints * sizeof(*ordinal));
    ask_places(o, ordinal);
    place = perf_allocate(o->endpoints);
    for (uint32_t e = 0; e < o->endpoints; e++) {
        uint32_t d = 0;
        while (d < summary.devices && devices[d].ordinal != ordinal[e]) {
            d++;
        }
        if (d == summary.devices) {
            open_device(&devices[summary.devices++], ordinal[e]);
        }
        place[e] = (uint8_t)d;
    }
    free(ordinal);
}

bool perf_device_open(const perf_options_t *o) {
    const heddle_group_params_t alike = {.endpoints = o->endpoints,
                                         .contexts = o->tasks ? o->workers : 0};
    int count = 0;
    if (o->memory == UCC_MEMORY_TYPE_HOST) {
        return true;
    }
    if (heddle_group_create(&alike, &group) != UCC_OK) {
        return say("the library can't be opened", "");
    }
    if (!load()) {
        return false;
    }
    require(cu.Init(0), "cuInit");
    require(cu.DeviceGetCount(&count), "cuDeviceGetCount");
    if (count == 0 || o->device >= count) {
        return say(count == 0 ? "there is no device" : "--device: there are fewer devices", "");
    }
    if (o->device >= 0) {
        open_device(&devices[summary.devices++], o->device);
    } else {
        open_devices(o);
    }
    summarize();
    return true;
}

void perf_device_close(void) {
    if (summary.devices == 0) {
        return;
    }
    enter(&devices[0]);
    if (module != NULL) {
        require(cu.ModuleUnload(module), "cuModuleUnload");
    }
    for (uint32_t d = 0; d < summary.devices; d++) {
        device_t *device = &devices[d];
        enter(device);
        perf_device_free(device->from);
        perf_device_free(device->to);
        require(cu.EventDestroy(device->event), "cuEventDestroy");
        require(cu.StreamDestroy(device->stream), "cuStreamDestroy");
    }
    require(cu.CtxSetCurrent(NULL), "cuCtxSetCurrent");
    perf_require(heddle_group_destroy(group), "heddle_group_destroy"); /* before its contexts go */
    for (uint32_t d = 0; d < summary.devices; d++) {
        require(cu.DevicePrimaryCtxRelease(devices[d].ordinal), "cuDevicePrimaryCtxRelease");
    }
    summary.devices = 0;
    free(place);
    place = NULL;
}

void perf_device_print_places(FILE *to, uint32_t endpoints) {
    for (uint32_t first = 0, end; first < endpoints; first = end) {
        for (end = first + 1; end < endpoints && device_of(end) == device_of(first);) {
            end++;
        }
        fprintf(to, first == 0 ? "# endpoints" : ",");
        fprintf(to, end - first > 1 ? " %u-%u" : " %u", first, end - 1);
        fprintf(to, " on GPU %d", device_of(first)->ordinal);
    }
    fputc('\n', to);
}

const perf_device_summary_t *perf_device_summary(void) {
    return &summary;
}
