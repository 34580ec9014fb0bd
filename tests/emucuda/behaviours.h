/* behaviours.h: what the parts of the program of behaviours.c share. The driver's functions are
 * found at run time, in whatever library the program was told.
 */
#ifndef TESTS_EMUCUDA_BEHAVIOURS_H_
#define TESTS_EMUCUDA_BEHAVIOURS_H_

#include "emucuda/calls.h"

#include <stdbool.h>

/* The functions, each under its plain name, of the version that the declaration has. */
typedef struct driver {
    __typeof__(&cuInit) init;
    __typeof__(&cuDeviceGet) deviceGet;
    __typeof__(&cuDriverGetVersion) driverGetVersion;
    __typeof__(&cuDevicePrimaryCtxRetain) devicePrimaryCtxRetain;
    __typeof__(&cuDevicePrimaryCtxRelease_v2) devicePrimaryCtxRelease;
    __typeof__(&cuCtxCreate_v3) ctxCreate;
    __typeof__(&cuCtxDestroy_v2) ctxDestroy;
    __typeof__(&cuCtxSetCurrent) ctxSetCurrent;
    __typeof__(&cuCtxGetCurrent) ctxGetCurrent;
    __typeof__(&cuCtxPopCurrent_v2) ctxPopCurrent;
    __typeof__(&cuCtxPushCurrent_v2) ctxPushCurrent;
    __typeof__(&cuCtxSynchronize) ctxSynchronize;
    __typeof__(&cuMemAlloc_v2) memAlloc;
    __typeof__(&cuMemFree_v2) memFree;
    __typeof__(&cuMemAllocHost_v2) memAllocHost;
    __typeof__(&cuMemFreeHost) memFreeHost;
    __typeof__(&cuMemHostRegister_v2) memHostRegister;
    __typeof__(&cuMemHostUnregister) memHostUnregister;
    __typeof__(&cuMemAllocManaged) memAllocManaged;
    __typeof__(&cuMemAllocAsync) memAllocAsync;
    __typeof__(&cuMemFreeAsync) memFreeAsync;
    __typeof__(&cuMemGetAddressRange_v2) memGetAddressRange;
    __typeof__(&cuPointerGetAttribute) pointerGetAttribute;
    __typeof__(&cuPointerGetAttributes) pointerGetAttributes;
    __typeof__(&cuMemcpyHtoDAsync_v2) memcpyHtoDAsync;
    __typeof__(&cuMemcpyDtoD_v2) memcpyDtoD;
    __typeof__(&cuMemcpyDtoH_v2) memcpyDtoH;
    __typeof__(&cuMemsetD32Async) memsetD32Async;
    __typeof__(&cuStreamCreate) streamCreate;
    __typeof__(&cuStreamDestroy_v2) streamDestroy;
    __typeof__(&cuStreamQuery) streamQuery;
    __typeof__(&cuStreamSynchronize) streamSynchronize;
    __typeof__(&cuStreamWaitEvent) streamWaitEvent;
    __typeof__(&cuStreamWaitValue32_v2) streamWaitValue32;
    __typeof__(&cuLaunchHostFunc) launchHostFunc;
    __typeof__(&cuEventCreate) eventCreate;
    __typeof__(&cuEventDestroy_v2) eventDestroy;
    __typeof__(&cuEventRecord) eventRecord;
    __typeof__(&cuEventQuery) eventQuery;
    __typeof__(&cuEventSynchronize) eventSynchronize;
    __typeof__(&cuEventElapsedTime) eventElapsedTime;
    __typeof__(&cuModuleLoadData) moduleLoadData;
    __typeof__(&cuModuleUnload) moduleUnload;
    __typeof__(&cuModuleGetFunction) moduleGetFunction;
    __typeof__(&cuModuleGetGlobal_v2) moduleGetGlobal;
    __typeof__(&cuLaunchKernel) launchKernel;
    __typeof__(&cuStreamBeginCapture_v2) streamBeginCapture;
    __typeof__(&cuStreamEndCapture) streamEndCapture;
    __typeof__(&cuStreamIsCapturing) streamIsCapturing;
    __typeof__(&cuThreadExchangeStreamCaptureMode) threadExchangeStreamCaptureMode;
    __typeof__(&cuGraphDestroy) graphDestroy;
    __typeof__(&cuGraphInstantiateWithFlags) graphInstantiate;
    __typeof__(&cuGraphLaunch) graphLaunch;
    __typeof__(&cuGraphExecDestroy) graphExecDestroy;
    __typeof__(&cuUserObjectCreate) userObjectCreate;
    __typeof__(&cuGetErrorName) getErrorName;
} driver_t;

extern driver_t driver;

/* What is there for every behaviour: a context that is current, and a second one of the same
 * device. */
typedef struct world {
    CUcontext context, other;
    CUmodule module;
    CUfunction fill;         /* (pointer, value): one thread stores one word */
    CUstream stream, second; /* non-blocking, of context */
    CUevent event;           /* without time */
    CUdeviceptr memory;      /* 1 MiB */
    unsigned int *gate;      /* pinned */
} world_t;

extern world_t world;

/* A behaviour: it returns what is to be printed, name by name of results, in at most 200
 * characters. */
typedef struct behaviour {
    const char *name;
    const char *expected;
    void (*run)(void);
} behaviour_t;

/* Adds the result to the line: its name, or "CUDA_ERROR_" left out. */
void say(CUresult status);
void say_text(const char *text);

/* Work of the stream stops until the gate is opened. */
void close_gate(CUstream stream);
void open_gate(void);

CUstream new_stream(unsigned int flags);
CUevent new_event(void);

extern const behaviour_t capture_behaviours[];

#endif
