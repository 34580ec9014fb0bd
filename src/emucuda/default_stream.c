/* default_stream.c: calls of programs whose default stream is one of each thread. Those of
 * synchronous copies are in copy.c. */
#include "emu.h"

CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr pointer, size_t bytes, CUdevice device,
                                 CUstream stream) {
    return cuMemPrefetchAsync(pointer, bytes, device, emu_per_thread(stream));
}

CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr pointer, size_t bytes, CUmemLocation location,
                                    unsigned int flags, CUstream stream) {
    return cuMemPrefetchAsync_v2(pointer, bytes, location, flags, emu_per_thread(stream));
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
    return cuMemAllocAsync(pointer, bytes, emu_per_thread(stream));
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                      CUstream stream) {
    return cuMemAllocFromPoolAsync(pointer, bytes, pool, emu_per_thread(stream));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) {
    return cuMemFreeAsync(pointer, emu_per_thread(stream));
}

CUresult cuMemcpyAsync_ptsz(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
    return cuMemcpyAsync(target, source, bytes, emu_per_thread(stream));
}

CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr target, const void *source, size_t bytes,
                                   CUstream stream) {
    return cuMemcpyHtoDAsync_v2(target, source, bytes, emu_per_thread(stream));
}

CUresult cuMemcpyDtoHAsync_v2_ptsz(void *target, CUdeviceptr source, size_t bytes,
                                   CUstream stream) {
    return cuMemcpyDtoHAsync_v2(target, source, bytes, emu_per_thread(stream));
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                                   CUstream stream) {
    return cuMemcpyDtoDAsync_v2(target, source, bytes, emu_per_thread(stream));
}

CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                                CUcontext source_context, size_t bytes, CUstream stream) {
    return cuMemcpyPeerAsync(target, target_context, source, source_context, bytes,
                             emu_per_thread(stream));
}

CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *copy, CUstream stream) {
    return cuMemcpy2DAsync_v2(copy, emu_per_thread(stream));
}

CUresult cuMemsetD8Async_ptsz(CUdeviceptr target, unsigned char value, size_t count,
                              CUstream stream) {
    return cuMemsetD8Async(target, value, count, emu_per_thread(stream));
}

CUresult cuMemsetD16Async_ptsz(CUdeviceptr target, unsigned short value, size_t count,
                               CUstream stream) {
    return cuMemsetD16Async(target, value, count, emu_per_thread(stream));
}

CUresult cuMemsetD32Async_ptsz(CUdeviceptr target, unsigned int value, size_t count,
                               CUstream stream) {
    return cuMemsetD32Async(target, value, count, emu_per_thread(stream));
}

CUresult cuStreamGetPriority_ptsz(CUstream stream, int *priority) {
    return cuStreamGetPriority(emu_per_thread(stream), priority);
}

CUresult cuStreamGetFlags_ptsz(CUstream stream, unsigned int *flags) {
    return cuStreamGetFlags(emu_per_thread(stream), flags);
}

CUresult cuStreamGetId_ptsz(CUstream stream, unsigned long long *id) {
    return cuStreamGetId(emu_per_thread(stream), id);
}

CUresult cuStreamGetCtx_ptsz(CUstream stream, CUcontext *context) {
    return cuStreamGetCtx(emu_per_thread(stream), context);
}

CUresult cuStreamQuery_ptsz(CUstream stream) {
    return cuStreamQuery(emu_per_thread(stream));
}

CUresult cuStreamSynchronize_ptsz(CUstream stream) {
    return cuStreamSynchronize(emu_per_thread(stream));
}

CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags) {
    return cuStreamWaitEvent(emu_per_thread(stream), event, flags);
}

CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void *arg,
                                  unsigned int flags) {
    return cuStreamAddCallback(emu_per_thread(stream), callback, arg, flags);
}

CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *arg) {
    return cuLaunchHostFunc(emu_per_thread(stream), function, arg);
}

CUresult cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr pointer, size_t bytes,
                                     unsigned int flags) {
    return cuStreamAttachMemAsync(emu_per_thread(stream), pointer, bytes, flags);
}

CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr word, cuuint32_t value,
                                     unsigned int flags) {
    return cuStreamWaitValue32_v2(emu_per_thread(stream), word, value, flags);
}

CUresult cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr word, cuuint64_t value,
                                     unsigned int flags) {
    return cuStreamWaitValue64_v2(emu_per_thread(stream), word, value, flags);
}

CUresult cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr word, cuuint32_t value,
                                      unsigned int flags) {
    return cuStreamWriteValue32_v2(emu_per_thread(stream), word, value, flags);
}

CUresult cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr word, cuuint64_t value,
                                      unsigned int flags) {
    return cuStreamWriteValue64_v2(emu_per_thread(stream), word, value, flags);
}

CUresult cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count,
                                    CUstreamBatchMemOpParams *operations, unsigned int flags) {
    return cuStreamBatchMemOp_v2(emu_per_thread(stream), count, operations, flags);
}

CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
    return cuEventRecord(event, emu_per_thread(stream));
}

CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags) {
    return cuEventRecordWithFlags(event, emu_per_thread(stream), flags);
}

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                             unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                             unsigned int block_z, unsigned int shared, CUstream stream,
                             void **params, void **extra) {
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
                          emu_per_thread(stream), params, extra);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned int grid_x,
                                        unsigned int grid_y, unsigned int grid_z,
                                        unsigned int block_x, unsigned int block_y,
                                        unsigned int block_z, unsigned int shared, CUstream stream,
                                        void **params) {
    return cuLaunchCooperativeKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                     shared, emu_per_thread(stream), params);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
    return cuStreamBeginCapture_v2(emu_per_thread(stream), mode);
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
    return cuStreamEndCapture(emu_per_thread(stream), graph);
}

CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus *status) {
    return cuStreamIsCapturing(emu_per_thread(stream), status);
}

CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, CUstreamCaptureStatus *status,
                                        cuuint64_t *id, CUgraph *graph,
                                        const CUgraphNode **dependencies, size_t *count) {
    return cuStreamGetCaptureInfo_v2(emu_per_thread(stream), status, id, graph, dependencies,
                                     count);
}

CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream stream, CUgraphNode *dependencies,
                                                size_t count, unsigned int flags) {
    return cuStreamUpdateCaptureDependencies(emu_per_thread(stream), dependencies, count, flags);
}

CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
    return cuGraphUpload(exec, emu_per_thread(stream));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
    return cuGraphLaunch(exec, emu_per_thread(stream));
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **params,
                               void **extra) {
    if (!config) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUlaunchConfig own = *config;
    own.hStream = emu_per_thread(config->hStream);
    return cuLaunchKernelEx(&own, function, params, extra);
}
