/* cuda.h: what the files of libheddle_cuda share: the driver's functions, and what there is of each
 * device.
 *
 * There is one driver in a process, and so one of all this. It is filled by heddle_cuda_open and
 * emptied by close; in between, devices come into use one by one.
 */
#ifndef HD_GPU_CUDA_H
#define HD_GPU_CUDA_H

#include "emucuda/calls.h"
#include "gpu/device.h"
#include "gpu/kernel.h"

#include <pthread.h>

/* The driver's functions that are called, by the names that cuGetProcAddress knows, and as what
 * cuda.h of VERSION declares them. */
enum { HD_CUDA_VERSION = 12020 };
#define HD_CUDA_FUNCTIONS(_of)                                                                     \
    _of(Init, cuInit) _of(DriverGetVersion, cuDriverGetVersion) _of(                               \
        GetErrorName, cuGetErrorName) _of(GetErrorString,                                          \
                                          cuGetErrorString) _of(DeviceGet,                         \
                                                                cuDeviceGet) _of(DeviceGetCount,   \
                                                                                 cuDeviceGetCount) \
        _of(DeviceGetName, cuDeviceGetName) _of(DeviceGetAttribute, cuDeviceGetAttribute) _of(     \
            DeviceGetPCIBusId, cuDeviceGetPCIBusId) _of(DeviceTotalMem, cuDeviceTotalMem_v2)       \
            _of(DeviceCanAccessPeer, cuDeviceCanAccessPeer) _of(                                   \
                DevicePrimaryCtxRetain,                                                            \
                cuDevicePrimaryCtxRetain) _of(DevicePrimaryCtxRelease,                             \
                                              cuDevicePrimaryCtxRelease_v2)                        \
                _of(DevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState) _of(                     \
                    CtxGetCurrent, cuCtxGetCurrent) _of(CtxSetCurrent,                             \
                                                        cuCtxSetCurrent) _of(CtxPushCurrent,       \
                                                                             cuCtxPushCurrent_v2)  \
                    _of(CtxPopCurrent, cuCtxPopCurrent_v2) _of(CtxGetDevice, cuCtxGetDevice) _of(  \
                        CtxEnablePeerAccess, cuCtxEnablePeerAccess) _of(PointerGetAttribute,       \
                                                                        cuPointerGetAttribute)     \
                        _of(PointerGetAttributes, cuPointerGetAttributes) _of(                     \
                            MemAlloc, cuMemAlloc_v2) _of(MemFree, cuMemFree_v2)                    \
                            _of(MemHostAlloc, cuMemHostAlloc) _of(MemFreeHost, cuMemFreeHost) _of( \
                                MemcpyAsync, cuMemcpyAsync) _of(MemcpyPeerAsync,                   \
                                                                cuMemcpyPeerAsync)                 \
                                _of(StreamCreate, cuStreamCreate) _of(                             \
                                    StreamDestroy, cuStreamDestroy_v2) _of(StreamGetCtx,           \
                                                                           cuStreamGetCtx)         \
                                    _of(StreamWaitEvent, cuStreamWaitEvent) _of(                   \
                                        StreamWaitValue64,                                         \
                                        cuStreamWaitValue64_v2) _of(StreamWriteValue64,            \
                                                                    cuStreamWriteValue64_v2)       \
                                        _of(StreamGetCaptureInfo, cuStreamGetCaptureInfo_v2) _of(  \
                                            ThreadExchangeStreamCaptureMode,                       \
                                            cuThreadExchangeStreamCaptureMode) _of(EventCreate,    \
                                                                                   cuEventCreate)  \
                                            _of(EventDestroy, cuEventDestroy_v2) _of(              \
                                                EventRecord, cuEventRecord) _of(EventQuery,        \
                                                                                cuEventQuery)      \
                                                _of(EventSynchronize, cuEventSynchronize) _of(     \
                                                    ModuleLoadData, cuModuleLoadData)              \
                                                    _of(ModuleUnload, cuModuleUnload) _of(         \
                                                        ModuleGetFunction, cuModuleGetFunction)    \
                                                        _of(LaunchKernel, cuLaunchKernel) _of(     \
                                                            UserObjectCreate, cuUserObjectCreate)  \
                                                            _of(UserObjectRelease,                 \
                                                                cuUserObjectRelease)               \
                                                                _of(GraphRetainUserObject,         \
                                                                    cuGraphRetainUserObject)

typedef struct hd_cuda_functions {
#define HD_CUDA_POINTER(_name, _function) __typeof__(&_function) _name;
    HD_CUDA_FUNCTIONS(HD_CUDA_POINTER)
    void (*site)(uint32_t n); /* heddle_emucuda_site; NULL: a real driver */
} hd_cuda_functions_t;

extern hd_cuda_functions_t hd_cu;

struct hd_gpu_event {
    CUevent handle;
    int device;
    struct hd_gpu_event *next; /* of those put back; and of all */
    struct hd_gpu_event *next_made;
};

typedef struct hd_cuda_block {
    hd_gpu_block_t shown; /* first */
    unsigned size;        /* class: 2^size bytes */
    struct hd_cuda_block *next, *next_made;
} hd_cuda_block_t;

enum { HD_CUDA_SIZES = 48 };

/* A line of pinned memory. */
typedef struct hd_cuda_word {
    hd_gpu_flag_t value;
    struct hd_cuda_word *next; /* of those put back */
    char pad[64 - sizeof(hd_gpu_flag_t) - sizeof(void *)];
} hd_cuda_word_t;

typedef struct hd_cuda_device {
    CUdevice handle;
    hd_gpu_info_t info; /* constant */
    int node;           /* the operating system's, that it is nearest to; -1: unknown; constant */
    _Atomic bool lost;  /* for ever, until close */
    _Atomic bool ready; /* what follows to the blank line is there, and constant */
    CUcontext context;  /* its primary one */
    CUmodule module[HD_GPU_MODULES];
    CUfunction kernel[HD_GPU_KERNELS];

    /* guards the rest, and the way to ready; under it the driver is called, nothing else locked */
    pthread_mutex_t lock;
    CUstream stream[HD_GPU_STREAMS];
    hd_gpu_event_t *free_event, *event;                    /* put back; all */
    hd_cuda_block_t *free_block[2][HD_CUDA_SIZES], *block; /* DEVICE, PINNED; all */
    hd_cuda_word_t *free_word;
    uint64_t reaches; /* bit p: access to the context of device p is enabled */
} hd_cuda_device_t;

typedef struct hd_cuda {
    uint32_t devices;
    bool emulated;
    int (*node_of)(const char *bus); /* of libheddle */
    _Atomic bool forked;
    hd_cuda_device_t device[HD_GPU_DEVICES];
} hd_cuda_t;

extern hd_cuda_t hd_cuda;

/* ---- log.c ---- */

/* Where lines go from now on; before anything else is called. */
void hd_cuda_log_to(void (*line)(int level, const char *function, const char *line));

/* ---- cuda.c ---- */

bool hd_cuda_is_number(int device);
bool hd_cuda_lost(int device);

/* ---- error.c ---- */

/* After such an error a device does nothing any more in this process. */
bool hd_cuda_loses_device(CUresult result);
/* UCC_OK for CUDA_SUCCESS. Otherwise a line, and what CUDA's error is here; an error that a device
 * does not recover from makes it lost. device -1: of none. */
ucc_status_t hd_cuda_check(int device, CUresult result, const char *call);
/* For what gives back: a lost device's complaints are no news. */
void hd_cuda_check_freed(int device, CUresult result, const char *call);
/* The process may use CUDA: it is no child of a fork. */
ucc_status_t hd_cuda_alive(void);

/* ---- context.c ---- */

/* A call on a device: its context is current until leave, which restores the caller's. */
typedef struct hd_cuda_scope {
    hd_cuda_device_t *device;
    CUcontext before; /* the caller's */
    bool pushed, relaxed;
    CUstreamCaptureMode mode; /* the caller's, if relaxed */
} hd_cuda_scope_t;

/* For a device that is not ready yet, or not any more: its context is current until hd_cuda_leave.
 */
ucc_status_t hd_cuda_push(hd_cuda_device_t *d, hd_cuda_scope_t *scope);
/* In the device's context. */
void hd_cuda_unload(int device, hd_cuda_device_t *d);
/* Makes the device ready, if it is not. */
ucc_status_t hd_cuda_enter(int device, hd_cuda_scope_t *scope);
/* The same for calls that could break the capture of a stream by any thread: this thread is allowed
 * them. */
ucc_status_t hd_cuda_enter_relaxed(int device, hd_cuda_scope_t *scope);
void hd_cuda_leave(hd_cuda_scope_t *scope);
/* Takes away the context that was pushed when `before` was current, another one. An error is
 * logged: it is gone all the same. */
ucc_status_t hd_cuda_pop(int device, CUcontext before);

ucc_status_t hd_cuda_use(int device);
ucc_status_t hd_cuda_info(int device, hd_gpu_info_t *info);
ucc_status_t hd_cuda_find_devices(void);

/* ---- probe.c ---- */

/* As hd_cuda_check, for a call on a stream of device that has to do with memory or events of
 * others, too (-1: nobody's): whichever of them turns out not to work is lost, or else device. */
ucc_status_t hd_cuda_check_among(int device, int other, int another, CUresult result,
                                 const char *call);
/* The same where nobody says which device it is about: those that turn out not to work are lost. */
ucc_status_t hd_cuda_check_all(CUresult result, const char *call);

/* ---- memory.c ---- */
ucc_status_t hd_cuda_memory_of(const void *pointer, hd_gpu_memory_t *memory);
ucc_status_t hd_cuda_reachable(int device, const void *pointer, bool *yes);
ucc_status_t hd_cuda_take(int device, hd_gpu_kind_t kind, size_t bytes, hd_gpu_block_t **block);
void hd_cuda_put(hd_gpu_block_t *block);
ucc_status_t hd_cuda_word_take(int device, hd_gpu_flag_t **word);
void hd_cuda_word_put(int device, hd_gpu_flag_t *word);
void hd_cuda_free_memory(hd_cuda_device_t *device); /* all of it, in its context */

/* ---- near.c ---- */

/* Between the two, pages that the calling thread is given lie near the device. */
void hd_cuda_near(const hd_cuda_device_t *device, bool *changed);
void hd_cuda_near_end(bool changed);

/* ---- stream.c ---- */
ucc_status_t hd_cuda_stream(int device, uint32_t i, hd_gpu_stream_t *stream);
ucc_status_t hd_cuda_stream_of(void *handle, hd_gpu_stream_t *stream);
ucc_status_t hd_cuda_event_take(int device, hd_gpu_event_t **event);
void hd_cuda_event_put(hd_gpu_event_t *event);
ucc_status_t hd_cuda_record(hd_gpu_stream_t stream, hd_gpu_event_t *event);
ucc_status_t hd_cuda_wait(hd_gpu_stream_t stream, hd_gpu_event_t *event, hd_gpu_site_t site);
ucc_status_t hd_cuda_event_query(hd_gpu_event_t *event, hd_gpu_site_t site);
ucc_status_t hd_cuda_event_await(hd_gpu_event_t *event, hd_gpu_site_t site);
void hd_cuda_free_streams(hd_cuda_device_t *device); /* and events, in its context */

/* ---- work.c ---- */
ucc_status_t hd_cuda_launch(hd_gpu_stream_t stream, const struct hd_gpu_launch *launch);
ucc_status_t hd_cuda_copy(hd_gpu_stream_t stream, void *to, int to_device, const void *from,
                          int from_device, size_t bytes);
ucc_status_t hd_cuda_signal(hd_gpu_stream_t stream, hd_gpu_flag_t *word, uint64_t value);
ucc_status_t hd_cuda_gate(hd_gpu_stream_t stream, hd_gpu_flag_t *word, uint64_t value,
                          hd_gpu_site_t site);

/* ---- capture.c ---- */
ucc_status_t hd_cuda_capture(hd_gpu_stream_t stream, hd_gpu_capture_t *capture);
ucc_status_t hd_cuda_keep(hd_gpu_stream_t stream, void (*release)(void *arg), void *arg);

#endif
