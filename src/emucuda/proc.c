/* proc.c: functions by name and version. */
#include "emu.h"

#include <string.h>

typedef void (*function_t)(void);

/* A form of a function: the one that programs of CUDA `since`, in units of 1/1000, and later mean
 * by `name`, up to the next form; and the same for programs whose default stream is one of each
 * thread. */
typedef struct form {
    const char *name;
    int since;
    function_t function;
    function_t per_thread; /* NULL: the same */
} form_t;

/* Sorted by name, then by since. */
static const form_t forms[] = {
    {"cuCtxCreate", 3020, (function_t)cuCtxCreate_v2, NULL},
    {"cuCtxCreate", 11040, (function_t)cuCtxCreate_v3, NULL},
    {"cuCtxDestroy", 4000, (function_t)cuCtxDestroy_v2, NULL},
    {"cuCtxDisablePeerAccess", 4000, (function_t)cuCtxDisablePeerAccess, NULL},
    {"cuCtxEnablePeerAccess", 4000, (function_t)cuCtxEnablePeerAccess, NULL},
    {"cuCtxGetApiVersion", 3020, (function_t)cuCtxGetApiVersion, NULL},
    {"cuCtxGetCurrent", 4000, (function_t)cuCtxGetCurrent, NULL},
    {"cuCtxGetDevice", 2000, (function_t)cuCtxGetDevice, NULL},
    {"cuCtxGetFlags", 7000, (function_t)cuCtxGetFlags, NULL},
    {"cuCtxGetId", 12000, (function_t)cuCtxGetId, NULL},
    {"cuCtxGetLimit", 3010, (function_t)cuCtxGetLimit, NULL},
    {"cuCtxGetStreamPriorityRange", 5050, (function_t)cuCtxGetStreamPriorityRange, NULL},
    {"cuCtxPopCurrent", 4000, (function_t)cuCtxPopCurrent_v2, NULL},
    {"cuCtxPushCurrent", 4000, (function_t)cuCtxPushCurrent_v2, NULL},
    {"cuCtxSetCurrent", 4000, (function_t)cuCtxSetCurrent, NULL},
    {"cuCtxSetLimit", 3010, (function_t)cuCtxSetLimit, NULL},
    {"cuCtxSynchronize", 2000, (function_t)cuCtxSynchronize, NULL},
    {"cuDeviceCanAccessPeer", 4000, (function_t)cuDeviceCanAccessPeer, NULL},
    {"cuDeviceGet", 2000, (function_t)cuDeviceGet, NULL},
    {"cuDeviceGetAttribute", 2000, (function_t)cuDeviceGetAttribute, NULL},
    {"cuDeviceGetByPCIBusId", 4010, (function_t)cuDeviceGetByPCIBusId, NULL},
    {"cuDeviceGetCount", 2000, (function_t)cuDeviceGetCount, NULL},
    {"cuDeviceGetDefaultMemPool", 11020, (function_t)cuDeviceGetDefaultMemPool, NULL},
    {"cuDeviceGetMemPool", 11020, (function_t)cuDeviceGetMemPool, NULL},
    {"cuDeviceGetName", 2000, (function_t)cuDeviceGetName, NULL},
    {"cuDeviceGetP2PAttribute", 8000, (function_t)cuDeviceGetP2PAttribute, NULL},
    {"cuDeviceGetPCIBusId", 4010, (function_t)cuDeviceGetPCIBusId, NULL},
    {"cuDeviceGetUuid", 9020, (function_t)cuDeviceGetUuid, NULL},
    {"cuDeviceGetUuid", 11040, (function_t)cuDeviceGetUuid_v2, NULL},
    {"cuDevicePrimaryCtxGetState", 7000, (function_t)cuDevicePrimaryCtxGetState, NULL},
    {"cuDevicePrimaryCtxRelease", 11000, (function_t)cuDevicePrimaryCtxRelease_v2, NULL},
    {"cuDevicePrimaryCtxReset", 11000, (function_t)cuDevicePrimaryCtxReset_v2, NULL},
    {"cuDevicePrimaryCtxRetain", 7000, (function_t)cuDevicePrimaryCtxRetain, NULL},
    {"cuDevicePrimaryCtxSetFlags", 11000, (function_t)cuDevicePrimaryCtxSetFlags_v2, NULL},
    {"cuDeviceSetMemPool", 11020, (function_t)cuDeviceSetMemPool, NULL},
    {"cuDeviceTotalMem", 3020, (function_t)cuDeviceTotalMem_v2, NULL},
    {"cuDriverGetVersion", 2020, (function_t)cuDriverGetVersion, NULL},
    {"cuEventCreate", 2000, (function_t)cuEventCreate, NULL},
    {"cuEventDestroy", 4000, (function_t)cuEventDestroy_v2, NULL},
    {"cuEventElapsedTime", 2000, (function_t)cuEventElapsedTime, NULL},
    {"cuEventQuery", 2000, (function_t)cuEventQuery, NULL},
    {"cuEventRecord", 2000, (function_t)cuEventRecord, (function_t)cuEventRecord_ptsz},
    {"cuEventRecordWithFlags", 11010, (function_t)cuEventRecordWithFlags,
     (function_t)cuEventRecordWithFlags_ptsz},
    {"cuEventSynchronize", 2000, (function_t)cuEventSynchronize, NULL},
    {"cuFuncGetAttribute", 2020, (function_t)cuFuncGetAttribute, NULL},
    {"cuFuncGetModule", 11000, (function_t)cuFuncGetModule, NULL},
    {"cuFuncSetAttribute", 9000, (function_t)cuFuncSetAttribute, NULL},
    {"cuFuncSetCacheConfig", 3000, (function_t)cuFuncSetCacheConfig, NULL},
    {"cuGetErrorName", 6000, (function_t)cuGetErrorName, NULL},
    {"cuGetErrorString", 6000, (function_t)cuGetErrorString, NULL},
    {"cuGetProcAddress", 11030, (function_t)cuGetProcAddress, NULL},
    {"cuGetProcAddress", 12000, (function_t)cuGetProcAddress_v2, NULL},
    {"cuGraphCreate", 10000, (function_t)cuGraphCreate, NULL},
    {"cuGraphDestroy", 10000, (function_t)cuGraphDestroy, NULL},
    {"cuGraphExecDestroy", 10000, (function_t)cuGraphExecDestroy, NULL},
    {"cuGraphGetNodes", 10000, (function_t)cuGraphGetNodes, NULL},
    {"cuGraphInstantiate", 12000, (function_t)cuGraphInstantiateWithFlags, NULL},
    {"cuGraphInstantiateWithFlags", 11040, (function_t)cuGraphInstantiateWithFlags, NULL},
    {"cuGraphLaunch", 10000, (function_t)cuGraphLaunch, (function_t)cuGraphLaunch_ptsz},
    {"cuGraphNodeGetType", 10000, (function_t)cuGraphNodeGetType, NULL},
    {"cuGraphReleaseUserObject", 11030, (function_t)cuGraphReleaseUserObject, NULL},
    {"cuGraphRetainUserObject", 11030, (function_t)cuGraphRetainUserObject, NULL},
    {"cuGraphUpload", 11010, (function_t)cuGraphUpload, (function_t)cuGraphUpload_ptsz},
    {"cuInit", 2000, (function_t)cuInit, NULL},
    {"cuIpcCloseMemHandle", 4010, (function_t)cuIpcCloseMemHandle, NULL},
    {"cuIpcGetEventHandle", 4010, (function_t)cuIpcGetEventHandle, NULL},
    {"cuIpcGetMemHandle", 4010, (function_t)cuIpcGetMemHandle, NULL},
    {"cuIpcOpenEventHandle", 4010, (function_t)cuIpcOpenEventHandle, NULL},
    {"cuIpcOpenMemHandle", 11000, (function_t)cuIpcOpenMemHandle_v2, NULL},
    {"cuKernelGetAttribute", 12000, (function_t)cuKernelGetAttribute, NULL},
    {"cuKernelGetFunction", 12000, (function_t)cuKernelGetFunction, NULL},
    {"cuKernelSetAttribute", 12000, (function_t)cuKernelSetAttribute, NULL},
    {"cuLaunchCooperativeKernel", 9000, (function_t)cuLaunchCooperativeKernel,
     (function_t)cuLaunchCooperativeKernel_ptsz},
    {"cuLaunchHostFunc", 10000, (function_t)cuLaunchHostFunc, (function_t)cuLaunchHostFunc_ptsz},
    {"cuLaunchKernel", 4000, (function_t)cuLaunchKernel, (function_t)cuLaunchKernel_ptsz},
    {"cuLaunchKernelEx", 11060, (function_t)cuLaunchKernelEx, (function_t)cuLaunchKernelEx_ptsz},
    {"cuLibraryGetGlobal", 12000, (function_t)cuLibraryGetGlobal, NULL},
    {"cuLibraryGetKernel", 12000, (function_t)cuLibraryGetKernel, NULL},
    {"cuLibraryGetModule", 12000, (function_t)cuLibraryGetModule, NULL},
    {"cuLibraryLoadData", 12000, (function_t)cuLibraryLoadData, NULL},
    {"cuLibraryUnload", 12000, (function_t)cuLibraryUnload, NULL},
    {"cuMemAddressFree", 10020, (function_t)cuMemAddressFree, NULL},
    {"cuMemAddressReserve", 10020, (function_t)cuMemAddressReserve, NULL},
    {"cuMemAdvise", 8000, (function_t)cuMemAdvise, NULL},
    {"cuMemAdvise", 12020, (function_t)cuMemAdvise_v2, NULL},
    {"cuMemAlloc", 3020, (function_t)cuMemAlloc_v2, NULL},
    {"cuMemAllocAsync", 11020, (function_t)cuMemAllocAsync, (function_t)cuMemAllocAsync_ptsz},
    {"cuMemAllocFromPoolAsync", 11020, (function_t)cuMemAllocFromPoolAsync,
     (function_t)cuMemAllocFromPoolAsync_ptsz},
    {"cuMemAllocHost", 3020, (function_t)cuMemAllocHost_v2, NULL},
    {"cuMemAllocManaged", 6000, (function_t)cuMemAllocManaged, NULL},
    {"cuMemAllocPitch", 3020, (function_t)cuMemAllocPitch_v2, NULL},
    {"cuMemCreate", 10020, (function_t)cuMemCreate, NULL},
    {"cuMemExportToShareableHandle", 10020, (function_t)cuMemExportToShareableHandle, NULL},
    {"cuMemFree", 3020, (function_t)cuMemFree_v2, NULL},
    {"cuMemFreeAsync", 11020, (function_t)cuMemFreeAsync, (function_t)cuMemFreeAsync_ptsz},
    {"cuMemFreeHost", 2000, (function_t)cuMemFreeHost, NULL},
    {"cuMemGetAccess", 10020, (function_t)cuMemGetAccess, NULL},
    {"cuMemGetAddressRange", 3020, (function_t)cuMemGetAddressRange_v2, NULL},
    {"cuMemGetAllocationGranularity", 10020, (function_t)cuMemGetAllocationGranularity, NULL},
    {"cuMemGetInfo", 3020, (function_t)cuMemGetInfo_v2, NULL},
    {"cuMemHostAlloc", 2020, (function_t)cuMemHostAlloc, NULL},
    {"cuMemHostGetDevicePointer", 3020, (function_t)cuMemHostGetDevicePointer_v2, NULL},
    {"cuMemHostGetFlags", 2030, (function_t)cuMemHostGetFlags, NULL},
    {"cuMemHostRegister", 6050, (function_t)cuMemHostRegister_v2, NULL},
    {"cuMemHostUnregister", 4000, (function_t)cuMemHostUnregister, NULL},
    {"cuMemImportFromShareableHandle", 10020, (function_t)cuMemImportFromShareableHandle, NULL},
    {"cuMemMap", 10020, (function_t)cuMemMap, NULL},
    {"cuMemPoolCreate", 11020, (function_t)cuMemPoolCreate, NULL},
    {"cuMemPoolDestroy", 11020, (function_t)cuMemPoolDestroy, NULL},
    {"cuMemPoolGetAccess", 11020, (function_t)cuMemPoolGetAccess, NULL},
    {"cuMemPoolGetAttribute", 11020, (function_t)cuMemPoolGetAttribute, NULL},
    {"cuMemPoolSetAccess", 11020, (function_t)cuMemPoolSetAccess, NULL},
    {"cuMemPoolSetAttribute", 11020, (function_t)cuMemPoolSetAttribute, NULL},
    {"cuMemPoolTrimTo", 11020, (function_t)cuMemPoolTrimTo, NULL},
    {"cuMemPrefetchAsync", 8000, (function_t)cuMemPrefetchAsync,
     (function_t)cuMemPrefetchAsync_ptsz},
    {"cuMemPrefetchAsync", 12020, (function_t)cuMemPrefetchAsync_v2,
     (function_t)cuMemPrefetchAsync_v2_ptsz},
    {"cuMemRelease", 10020, (function_t)cuMemRelease, NULL},
    {"cuMemRetainAllocationHandle", 11000, (function_t)cuMemRetainAllocationHandle, NULL},
    {"cuMemSetAccess", 10020, (function_t)cuMemSetAccess, NULL},
    {"cuMemUnmap", 10020, (function_t)cuMemUnmap, NULL},
    {"cuMemcpy", 4000, (function_t)cuMemcpy, (function_t)cuMemcpy_ptds},
    {"cuMemcpy2D", 3020, (function_t)cuMemcpy2D_v2, (function_t)cuMemcpy2D_v2_ptds},
    {"cuMemcpy2DAsync", 3020, (function_t)cuMemcpy2DAsync_v2, (function_t)cuMemcpy2DAsync_v2_ptsz},
    {"cuMemcpy2DUnaligned", 3020, (function_t)cuMemcpy2DUnaligned_v2,
     (function_t)cuMemcpy2DUnaligned_v2_ptds},
    {"cuMemcpyAsync", 4000, (function_t)cuMemcpyAsync, (function_t)cuMemcpyAsync_ptsz},
    {"cuMemcpyDtoD", 3020, (function_t)cuMemcpyDtoD_v2, (function_t)cuMemcpyDtoD_v2_ptds},
    {"cuMemcpyDtoDAsync", 3020, (function_t)cuMemcpyDtoDAsync_v2,
     (function_t)cuMemcpyDtoDAsync_v2_ptsz},
    {"cuMemcpyDtoH", 3020, (function_t)cuMemcpyDtoH_v2, (function_t)cuMemcpyDtoH_v2_ptds},
    {"cuMemcpyDtoHAsync", 3020, (function_t)cuMemcpyDtoHAsync_v2,
     (function_t)cuMemcpyDtoHAsync_v2_ptsz},
    {"cuMemcpyHtoD", 3020, (function_t)cuMemcpyHtoD_v2, (function_t)cuMemcpyHtoD_v2_ptds},
    {"cuMemcpyHtoDAsync", 3020, (function_t)cuMemcpyHtoDAsync_v2,
     (function_t)cuMemcpyHtoDAsync_v2_ptsz},
    {"cuMemcpyPeer", 4000, (function_t)cuMemcpyPeer, (function_t)cuMemcpyPeer_ptds},
    {"cuMemcpyPeerAsync", 4000, (function_t)cuMemcpyPeerAsync, (function_t)cuMemcpyPeerAsync_ptsz},
    {"cuMemsetD16", 3020, (function_t)cuMemsetD16_v2, (function_t)cuMemsetD16_v2_ptds},
    {"cuMemsetD16Async", 3020, (function_t)cuMemsetD16Async, (function_t)cuMemsetD16Async_ptsz},
    {"cuMemsetD32", 3020, (function_t)cuMemsetD32_v2, (function_t)cuMemsetD32_v2_ptds},
    {"cuMemsetD32Async", 3020, (function_t)cuMemsetD32Async, (function_t)cuMemsetD32Async_ptsz},
    {"cuMemsetD8", 3020, (function_t)cuMemsetD8_v2, (function_t)cuMemsetD8_v2_ptds},
    {"cuMemsetD8Async", 3020, (function_t)cuMemsetD8Async, (function_t)cuMemsetD8Async_ptsz},
    {"cuModuleGetFunction", 2000, (function_t)cuModuleGetFunction, NULL},
    {"cuModuleGetGlobal", 3020, (function_t)cuModuleGetGlobal_v2, NULL},
    {"cuModuleGetLoadingMode", 11070, (function_t)cuModuleGetLoadingMode, NULL},
    {"cuModuleLoad", 2000, (function_t)cuModuleLoad, NULL},
    {"cuModuleLoadData", 2000, (function_t)cuModuleLoadData, NULL},
    {"cuModuleLoadDataEx", 2010, (function_t)cuModuleLoadDataEx, NULL},
    {"cuModuleLoadFatBinary", 2000, (function_t)cuModuleLoadFatBinary, NULL},
    {"cuModuleUnload", 2000, (function_t)cuModuleUnload, NULL},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050,
     (function_t)cuOccupancyMaxActiveBlocksPerMultiprocessor, NULL},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 7000,
     (function_t)cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, NULL},
    {"cuOccupancyMaxPotentialBlockSize", 6050, (function_t)cuOccupancyMaxPotentialBlockSize, NULL},
    {"cuPointerGetAttribute", 4000, (function_t)cuPointerGetAttribute, NULL},
    {"cuPointerGetAttributes", 7000, (function_t)cuPointerGetAttributes, NULL},
    {"cuPointerSetAttribute", 6000, (function_t)cuPointerSetAttribute, NULL},
    {"cuStreamAddCallback", 5000, (function_t)cuStreamAddCallback,
     (function_t)cuStreamAddCallback_ptsz},
    {"cuStreamAttachMemAsync", 6000, (function_t)cuStreamAttachMemAsync,
     (function_t)cuStreamAttachMemAsync_ptsz},
    {"cuStreamBatchMemOp", 11070, (function_t)cuStreamBatchMemOp_v2,
     (function_t)cuStreamBatchMemOp_v2_ptsz},
    {"cuStreamBeginCapture", 10010, (function_t)cuStreamBeginCapture_v2,
     (function_t)cuStreamBeginCapture_v2_ptsz},
    {"cuStreamCreate", 2000, (function_t)cuStreamCreate, NULL},
    {"cuStreamCreateWithPriority", 5050, (function_t)cuStreamCreateWithPriority, NULL},
    {"cuStreamDestroy", 4000, (function_t)cuStreamDestroy_v2, NULL},
    {"cuStreamEndCapture", 10000, (function_t)cuStreamEndCapture,
     (function_t)cuStreamEndCapture_ptsz},
    {"cuStreamGetCaptureInfo", 11030, (function_t)cuStreamGetCaptureInfo_v2,
     (function_t)cuStreamGetCaptureInfo_v2_ptsz},
    {"cuStreamGetCtx", 9020, (function_t)cuStreamGetCtx, (function_t)cuStreamGetCtx_ptsz},
    {"cuStreamGetFlags", 5050, (function_t)cuStreamGetFlags, (function_t)cuStreamGetFlags_ptsz},
    {"cuStreamGetId", 12000, (function_t)cuStreamGetId, (function_t)cuStreamGetId_ptsz},
    {"cuStreamGetPriority", 5050, (function_t)cuStreamGetPriority,
     (function_t)cuStreamGetPriority_ptsz},
    {"cuStreamIsCapturing", 10000, (function_t)cuStreamIsCapturing,
     (function_t)cuStreamIsCapturing_ptsz},
    {"cuStreamQuery", 2000, (function_t)cuStreamQuery, (function_t)cuStreamQuery_ptsz},
    {"cuStreamSynchronize", 2000, (function_t)cuStreamSynchronize,
     (function_t)cuStreamSynchronize_ptsz},
    {"cuStreamUpdateCaptureDependencies", 11030, (function_t)cuStreamUpdateCaptureDependencies,
     (function_t)cuStreamUpdateCaptureDependencies_ptsz},
    {"cuStreamWaitEvent", 3020, (function_t)cuStreamWaitEvent, (function_t)cuStreamWaitEvent_ptsz},
    {"cuStreamWaitValue32", 11070, (function_t)cuStreamWaitValue32_v2,
     (function_t)cuStreamWaitValue32_v2_ptsz},
    {"cuStreamWaitValue64", 11070, (function_t)cuStreamWaitValue64_v2,
     (function_t)cuStreamWaitValue64_v2_ptsz},
    {"cuStreamWriteValue32", 11070, (function_t)cuStreamWriteValue32_v2,
     (function_t)cuStreamWriteValue32_v2_ptsz},
    {"cuStreamWriteValue64", 11070, (function_t)cuStreamWriteValue64_v2,
     (function_t)cuStreamWriteValue64_v2_ptsz},
    {"cuThreadExchangeStreamCaptureMode", 10010, (function_t)cuThreadExchangeStreamCaptureMode,
     NULL},
    {"cuUserObjectCreate", 11030, (function_t)cuUserObjectCreate, NULL},
    {"cuUserObjectRelease", 11030, (function_t)cuUserObjectRelease, NULL},
    {"cuUserObjectRetain", 11030, (function_t)cuUserObjectRetain, NULL},
    {"heddle_emucuda_configure", 0, (function_t)heddle_emucuda_configure, NULL},
    {"heddle_emucuda_drop_site", 0, (function_t)heddle_emucuda_drop_site, NULL},
    {"heddle_emucuda_fail_call", 0, (function_t)heddle_emucuda_fail_call, NULL},
    {"heddle_emucuda_host_acquire", 0, (function_t)heddle_emucuda_host_acquire, NULL},
    {"heddle_emucuda_host_read", 0, (function_t)heddle_emucuda_host_read, NULL},
    {"heddle_emucuda_host_release", 0, (function_t)heddle_emucuda_host_release, NULL},
    {"heddle_emucuda_host_write", 0, (function_t)heddle_emucuda_host_write, NULL},
    {"heddle_emucuda_lose_device", 0, (function_t)heddle_emucuda_lose_device, NULL},
    {"heddle_emucuda_memory", 0, (function_t)heddle_emucuda_memory, NULL},
    {"heddle_emucuda_on_finding", 0, (function_t)heddle_emucuda_on_finding, NULL},
    {"heddle_emucuda_report", 0, (function_t)heddle_emucuda_report, NULL},
    {"heddle_emucuda_reset", 0, (function_t)heddle_emucuda_reset, NULL},
    {"heddle_emucuda_run", 0, (function_t)heddle_emucuda_run, NULL},
    {"heddle_emucuda_site", 0, (function_t)heddle_emucuda_site, NULL},
    {"heddle_emucuda_site_count", 0, (function_t)heddle_emucuda_site_count, NULL},
};

enum { FORMS = sizeof(forms) / sizeof(*forms) };

static const form_t *find(const char *name) {
    size_t low = 0, high = FORMS;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(forms[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < FORMS && strcmp(forms[low].name, name) == 0 ? &forms[low] : NULL;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *result) {
    const cuuint64_t both =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (!symbol || !function || flags > both || flags == both) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const form_t *first = find(symbol), *form = NULL;
    for (const form_t *f = first; f && f < forms + FORMS && strcmp(f->name, symbol) == 0; f++) {
        form = f->since <= version ? f : form;
    }
    function_t found = !form ? NULL
                       : (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) && form->per_thread
                           ? form->per_thread
                           : form->function;
    memcpy(function, &found, sizeof(found)); /* a pointer to a function is one to an object here */
    if (result) {
        *result = form    ? CU_GET_PROC_ADDRESS_SUCCESS
                  : first ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    return form || result ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
