/* calls.h: the driver's functions that are emulated, under the names that its library exports.
 * Names with _v2 are what cuda.h makes of the plain ones; names with _ptsz and _ptds are the same
 * for programs whose default stream is one per thread. Each is defined where its subject is, the
 * last two in default_stream.c.
 */
#ifndef EMUCUDA_CALLS_H_
#define EMUCUDA_CALLS_H_

#include "cuda_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

EMU_API CUresult cuInit(unsigned int flags);
EMU_API CUresult cuDriverGetVersion(int *version);
EMU_API CUresult cuGetErrorName(CUresult error, const char **name);
EMU_API CUresult cuGetErrorString(CUresult error, const char **text);
EMU_API CUresult cuGetProcAddress(const char *symbol, void **function, int version,
                                  cuuint64_t flags);
EMU_API CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                     cuuint64_t flags, CUdriverProcAddressQueryResult *result);

EMU_API CUresult cuDeviceGet(CUdevice *device, int ordinal);
EMU_API CUresult cuDeviceGetCount(int *count);
EMU_API CUresult cuDeviceGetName(char *name, int bytes, CUdevice device);
EMU_API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
EMU_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
EMU_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
EMU_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device);
EMU_API CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *bus);
EMU_API CUresult cuDeviceGetPCIBusId(char *bus, int bytes, CUdevice device);
EMU_API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer);
EMU_API CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute,
                                         CUdevice source, CUdevice target);
EMU_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
EMU_API CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device);
EMU_API CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);
EMU_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
EMU_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
EMU_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
EMU_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags);
EMU_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active);

EMU_API CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
EMU_API CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *parameters, int n,
                                unsigned int flags, CUdevice device);
EMU_API CUresult cuCtxDestroy_v2(CUcontext context);
EMU_API CUresult cuCtxPushCurrent_v2(CUcontext context);
EMU_API CUresult cuCtxPopCurrent_v2(CUcontext *context);
EMU_API CUresult cuCtxSetCurrent(CUcontext context);
EMU_API CUresult cuCtxGetCurrent(CUcontext *context);
EMU_API CUresult cuCtxGetDevice(CUdevice *device);
EMU_API CUresult cuCtxGetFlags(unsigned int *flags);
EMU_API CUresult cuCtxGetId(CUcontext context, unsigned long long *id);
EMU_API CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version);
EMU_API CUresult cuCtxSynchronize(void);
EMU_API CUresult cuCtxSetLimit(CUlimit limit, size_t value);
EMU_API CUresult cuCtxGetLimit(size_t *value, CUlimit limit);
EMU_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest);
EMU_API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags);
EMU_API CUresult cuCtxDisablePeerAccess(CUcontext peer);

EMU_API CUresult cuMemGetInfo_v2(size_t *available, size_t *total);
EMU_API CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
EMU_API CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width,
                                    size_t height, unsigned int element);
EMU_API CUresult cuMemFree_v2(CUdeviceptr pointer);
EMU_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer);
EMU_API CUresult cuMemAllocHost_v2(void **pointer, size_t bytes);
EMU_API CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags);
EMU_API CUresult cuMemFreeHost(void *pointer);
EMU_API CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags);
EMU_API CUresult cuMemHostUnregister(void *pointer);
EMU_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *pointer,
                                              unsigned int flags);
EMU_API CUresult cuMemHostGetFlags(unsigned int *flags, void *pointer);
EMU_API CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags);
EMU_API CUresult cuMemAdvise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice,
                             CUdevice device);
EMU_API CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice device,
                                    CUstream stream);
EMU_API CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr pointer, size_t bytes, CUdevice device,
                                         CUstream stream);
EMU_API CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, CUmem_advise advice,
                                CUmemLocation location);
EMU_API CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation location,
                                       unsigned int flags, CUstream stream);
EMU_API CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr pointer, size_t bytes,
                                            CUmemLocation location, unsigned int flags,
                                            CUstream stream);
EMU_API CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute,
                                       CUdeviceptr pointer);
EMU_API CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
                                        void **values, CUdeviceptr pointer);
EMU_API CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                       CUdeviceptr pointer);
EMU_API CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream);
EMU_API CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream);
EMU_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                         CUstream stream);
EMU_API CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                              CUstream stream);
EMU_API CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream);
EMU_API CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream);
EMU_API CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties);
EMU_API CUresult cuMemPoolDestroy(CUmemoryPool pool);
EMU_API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes);
EMU_API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                       void *value);
EMU_API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                       void *value);
EMU_API CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count);
EMU_API CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool,
                                    CUmemLocation *location);

EMU_API CUresult cuMemcpy(CUdeviceptr target, CUdeviceptr source, size_t bytes);
EMU_API CUresult cuMemcpy_ptds(CUdeviceptr target, CUdeviceptr source, size_t bytes);
EMU_API CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                               CUstream stream);
EMU_API CUresult cuMemcpyAsync_ptsz(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                                    CUstream stream);
EMU_API CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void *source, size_t bytes);
EMU_API CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr target, const void *source, size_t bytes);
EMU_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t bytes,
                                      CUstream stream);
EMU_API CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr target, const void *source, size_t bytes,
                                           CUstream stream);
EMU_API CUresult cuMemcpyDtoH_v2(void *target, CUdeviceptr source, size_t bytes);
EMU_API CUresult cuMemcpyDtoH_v2_ptds(void *target, CUdeviceptr source, size_t bytes);
EMU_API CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t bytes,
                                      CUstream stream);
EMU_API CUresult cuMemcpyDtoHAsync_v2_ptsz(void *target, CUdeviceptr source, size_t bytes,
                                           CUstream stream);
EMU_API CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes);
EMU_API CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr target, CUdeviceptr source, size_t bytes);
EMU_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                                      CUstream stream);
EMU_API CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                                           CUstream stream);
EMU_API CUresult cuMemcpyPeer(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                              CUcontext source_context, size_t bytes);
EMU_API CUresult cuMemcpyPeer_ptds(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                                   CUcontext source_context, size_t bytes);
EMU_API CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                                   CUcontext source_context, size_t bytes, CUstream stream);
EMU_API CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr target, CUcontext target_context,
                                        CUdeviceptr source, CUcontext source_context, size_t bytes,
                                        CUstream stream);
EMU_API CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy);
EMU_API CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy);
EMU_API CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy);
EMU_API CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *copy);
EMU_API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream);
EMU_API CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *copy, CUstream stream);
EMU_API CUresult cuMemsetD8_v2(CUdeviceptr target, unsigned char value, size_t count);
EMU_API CUresult cuMemsetD8_v2_ptds(CUdeviceptr target, unsigned char value, size_t count);
EMU_API CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count,
                                 CUstream stream);
EMU_API CUresult cuMemsetD8Async_ptsz(CUdeviceptr target, unsigned char value, size_t count,
                                      CUstream stream);
EMU_API CUresult cuMemsetD16_v2(CUdeviceptr target, unsigned short value, size_t count);
EMU_API CUresult cuMemsetD16_v2_ptds(CUdeviceptr target, unsigned short value, size_t count);
EMU_API CUresult cuMemsetD16Async(CUdeviceptr target, unsigned short value, size_t count,
                                  CUstream stream);
EMU_API CUresult cuMemsetD16Async_ptsz(CUdeviceptr target, unsigned short value, size_t count,
                                       CUstream stream);
EMU_API CUresult cuMemsetD32_v2(CUdeviceptr target, unsigned int value, size_t count);
EMU_API CUresult cuMemsetD32_v2_ptds(CUdeviceptr target, unsigned int value, size_t count);
EMU_API CUresult cuMemsetD32Async(CUdeviceptr target, unsigned int value, size_t count,
                                  CUstream stream);
EMU_API CUresult cuMemsetD32Async_ptsz(CUdeviceptr target, unsigned int value, size_t count,
                                       CUstream stream);

EMU_API CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
EMU_API CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority);
EMU_API CUresult cuStreamDestroy_v2(CUstream stream);
EMU_API CUresult cuStreamGetPriority(CUstream stream, int *priority);
EMU_API CUresult cuStreamGetPriority_ptsz(CUstream stream, int *priority);
EMU_API CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags);
EMU_API CUresult cuStreamGetFlags_ptsz(CUstream stream, unsigned int *flags);
EMU_API CUresult cuStreamGetId(CUstream stream, unsigned long long *id);
EMU_API CUresult cuStreamGetId_ptsz(CUstream stream, unsigned long long *id);
EMU_API CUresult cuStreamGetCtx(CUstream stream, CUcontext *context);
EMU_API CUresult cuStreamGetCtx_ptsz(CUstream stream, CUcontext *context);
EMU_API CUresult cuStreamQuery(CUstream stream);
EMU_API CUresult cuStreamQuery_ptsz(CUstream stream);
EMU_API CUresult cuStreamSynchronize(CUstream stream);
EMU_API CUresult cuStreamSynchronize_ptsz(CUstream stream);
EMU_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
EMU_API CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags);
EMU_API CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *arg,
                                     unsigned int flags);
EMU_API CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void *arg,
                                          unsigned int flags);
EMU_API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *arg);
EMU_API CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *arg);
EMU_API CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr pointer, size_t bytes,
                                        unsigned int flags);
EMU_API CUresult cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr pointer, size_t bytes,
                                             unsigned int flags);
EMU_API CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr word, cuuint32_t value,
                                        unsigned int flags);
EMU_API CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr word, cuuint32_t value,
                                             unsigned int flags);
EMU_API CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr word, cuuint64_t value,
                                        unsigned int flags);
EMU_API CUresult cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr word, cuuint64_t value,
                                             unsigned int flags);
EMU_API CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr word, cuuint32_t value,
                                         unsigned int flags);
EMU_API CUresult cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr word, cuuint32_t value,
                                              unsigned int flags);
EMU_API CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr word, cuuint64_t value,
                                         unsigned int flags);
EMU_API CUresult cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr word, cuuint64_t value,
                                              unsigned int flags);
EMU_API CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                                       CUstreamBatchMemOpParams *operations, unsigned int flags);
EMU_API CUresult cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count,
                                            CUstreamBatchMemOpParams *operations,
                                            unsigned int flags);

EMU_API CUresult cuEventCreate(CUevent *event, unsigned int flags);
EMU_API CUresult cuEventDestroy_v2(CUevent event);
EMU_API CUresult cuEventRecord(CUevent event, CUstream stream);
EMU_API CUresult cuEventRecord_ptsz(CUevent event, CUstream stream);
EMU_API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags);
EMU_API CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags);
EMU_API CUresult cuEventQuery(CUevent event);
EMU_API CUresult cuEventSynchronize(CUevent event);
EMU_API CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);

EMU_API CUresult cuModuleLoad(CUmodule *module, const char *file);
EMU_API CUresult cuModuleLoadData(CUmodule *module, const void *image);
EMU_API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
                                    CUjit_option *options, void **values);
EMU_API CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image);
EMU_API CUresult cuModuleUnload(CUmodule module);
EMU_API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode);
EMU_API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
EMU_API CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes, CUmodule module,
                                      const char *name);
EMU_API CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *options,
                                   void **values, unsigned int count,
                                   CUlibraryOption *library_options, void **library_values,
                                   unsigned int library_count);
EMU_API CUresult cuLibraryUnload(CUlibrary library);
EMU_API CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name);
EMU_API CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library);
EMU_API CUresult cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUlibrary library,
                                    const char *name);
EMU_API CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel);
EMU_API CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
                                      CUdevice device);
EMU_API CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                      CUdevice device);
EMU_API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                                    CUfunction function);
EMU_API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value);
EMU_API CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config);
EMU_API CUresult cuFuncGetModule(CUmodule *module, CUfunction function);
EMU_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                             int threads, size_t shared);
EMU_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                      CUfunction function,
                                                                      int threads, size_t shared,
                                                                      unsigned int flags);
EMU_API CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *threads, CUfunction function,
                                                  CUoccupancyB2DSize shared_of, size_t shared,
                                                  int limit);
EMU_API CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                unsigned int block_z, unsigned int shared, CUstream stream,
                                void **params, void **extra);
EMU_API CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                     unsigned int grid_z, unsigned int block_x,
                                     unsigned int block_y, unsigned int block_z,
                                     unsigned int shared, CUstream stream, void **params,
                                     void **extra);
EMU_API CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                                  void **extra);
EMU_API CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function,
                                       void **params, void **extra);
EMU_API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x,
                                           unsigned int grid_y, unsigned int grid_z,
                                           unsigned int block_x, unsigned int block_y,
                                           unsigned int block_z, unsigned int shared,
                                           CUstream stream, void **params);
EMU_API CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned int grid_x,
                                                unsigned int grid_y, unsigned int grid_z,
                                                unsigned int block_x, unsigned int block_y,
                                                unsigned int block_z, unsigned int shared,
                                                CUstream stream, void **params);

EMU_API CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode);
EMU_API CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode);
EMU_API CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
EMU_API CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph);
EMU_API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status);
EMU_API CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus *status);
EMU_API CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status,
                                           cuuint64_t *id, CUgraph *graph,
                                           const CUgraphNode **dependencies, size_t *count);
EMU_API CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, CUstreamCaptureStatus *status,
                                                cuuint64_t *id, CUgraph *graph,
                                                const CUgraphNode **dependencies, size_t *count);
EMU_API CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies,
                                                   size_t count, unsigned int flags);
EMU_API CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream stream, CUgraphNode *dependencies,
                                                        size_t count, unsigned int flags);
EMU_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode);
EMU_API CUresult cuGraphCreate(CUgraph *graph, unsigned int flags);
EMU_API CUresult cuGraphDestroy(CUgraph graph);
EMU_API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
EMU_API CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type);
EMU_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                             unsigned long long flags);
EMU_API CUresult cuGraphUpload(CUgraphExec exec, CUstream stream);
EMU_API CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream);
EMU_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
EMU_API CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream);
EMU_API CUresult cuGraphExecDestroy(CUgraphExec exec);
EMU_API CUresult cuUserObjectCreate(CUuserObject *object, void *pointer, CUhostFn destroy,
                                    unsigned int references, unsigned int flags);
EMU_API CUresult cuUserObjectRetain(CUuserObject object, unsigned int count);
EMU_API CUresult cuUserObjectRelease(CUuserObject object, unsigned int count);
EMU_API CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                         unsigned int flags);
EMU_API CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count);

EMU_API CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event);
EMU_API CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle);
EMU_API CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer);
EMU_API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle,
                                       unsigned int flags);
EMU_API CUresult cuIpcCloseMemHandle(CUdeviceptr pointer);
EMU_API CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment,
                                     CUdeviceptr address, unsigned long long flags);
EMU_API CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes);
EMU_API CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                             const CUmemAllocationProp *properties, unsigned long long flags);
EMU_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
EMU_API CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags);
EMU_API CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes);
EMU_API CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access,
                                size_t count);
EMU_API CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                                CUdeviceptr pointer);
EMU_API CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                               CUmemAllocationGranularity_flags option);
EMU_API CUresult cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType type,
                                              unsigned long long flags);
EMU_API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                                CUmemAllocationHandleType type);
EMU_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *pointer);

#ifdef __cplusplus
}
#endif

#endif
