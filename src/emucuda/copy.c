/* copy.c: copies and fills, asynchronous and not.
 *
 * How far a copy is asynchronous depends on the memory, and is as asynchronous here as the driver's
 * documentation allows ("API synchronization behavior"): memory of the host that is not pinned is
 * read before the call returns, and is written before it does; a synchronous copy within devices
 * returns before it is done.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

static bool on_device(uint64_t address) {
    const emu_allocation_t *allocation = emu_allocation_at(address);
    return allocation &&
           (allocation->kind == EMU_DEVICE_MEMORY || allocation->kind == EMU_POOL_MEMORY);
}

static bool pageable(uint64_t address) {
    return !emu_allocation_at(address);
}

static uint64_t extent(uint64_t pitch, uint64_t width, uint64_t height) {
    return height == 0 || width == 0 ? 0 : pitch * (height - 1) + width;
}

/* What lies in an allocation lies there with all its bytes, and nothing lies in a device where
 * there is none. */
static bool valid_range(uint64_t address, uint64_t bytes) {
    const emu_allocation_t *allocation = emu_allocation_at(address);
    if (allocation) {
        return bytes <= allocation->bytes - (address - allocation->base);
    }
    return address != 0 && emu_bytes_at(address) == (void *)(uintptr_t)address;
}

static void stage(emu_copy_t *copy) {
    copy->staged = emu_alloc(copy->width * copy->height, 1);
    for (uint64_t row = 0; row < copy->height; row++) {
        memcpy((char *)copy->staged + row * copy->width,
               (const char *)(uintptr_t)copy->source + row * copy->source_pitch, copy->width);
    }
}

static const char *name(const emu_copy_t *copy) {
    static const char *const names[] = {"a copy", "a copy to a device", "a copy to the host",
                                        "a copy of devices"};
    return names[(on_device(copy->target) ? 1 : 0) + (on_device(copy->source) ? 2 : 0)];
}

static bool between_devices(const emu_copy_t *copy) {
    return on_device(copy->target) && on_device(copy->source) &&
           emu_allocation_at(copy->target)->device != emu_allocation_at(copy->source)->device;
}

/* Submits the copy, after what the stream must have done first, and waits for it, if need be. */
static CUresult submit(CUstream stream, emu_copy_t copy, bool synchronous) {
    uint64_t target = extent(copy.target_pitch, copy.width, copy.height);
    uint64_t source = extent(copy.source_pitch, copy.width, copy.height);
    if (target == 0) {
        return CUDA_SUCCESS;
    }
    if (!valid_range(copy.target, target) || !valid_range(copy.source, source)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool staged = pageable(copy.source), wait = pageable(copy.target);
    wait = wait || (synchronous && !(on_device(copy.target) && on_device(copy.source)) && !staged);
    if (stream->capture) {
        staged = wait = false; /* memory is read and written when the graph runs */
    }
    if (staged) {
        CUresult status = synchronous ? emu_wait_stream(stream) : CUDA_SUCCESS;
        if (status != CUDA_SUCCESS) {
            return status;
        }
        stage(&copy);
    }
    emu_op_t *op = emu_op_new(EMU_OP_COPY, name(&copy));
    op->copy = copy;
    CUresult status = emu_submit(stream, op);
    emu.report.copies += status == CUDA_SUCCESS;
    emu.report.peer_copies += status == CUDA_SUCCESS && between_devices(&copy);
    return status == CUDA_SUCCESS && wait ? emu_wait_stream(stream) : status;
}

/* Synchronous ones may not be called while a stream is captured that the NULL stream would have to
 * wait for. */
static CUresult copy_rows(CUstream handle, const emu_copy_t *copy, bool synchronous) {
    CUcontext context;
    CUstream stream;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = emu_stream(handle, context, &stream);
    if (status == CUDA_SUCCESS && synchronous) {
        status = stream->legacy ? emu_capture_legacy(context) : CUDA_SUCCESS;
        status = status == CUDA_SUCCESS ? emu_capture_unsafe() : status;
    }
    return emu_leave(status == CUDA_SUCCESS ? submit(stream, *copy, synchronous) : status);
}

static CUresult copy_bytes(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream,
                           bool synchronous) {
    emu_copy_t copy = {.target = target,
                       .source = source,
                       .target_pitch = bytes,
                       .source_pitch = bytes,
                       .width = bytes,
                       .height = 1};
    return copy_rows(stream, &copy, synchronous);
}

CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
    return copy_bytes(target, source, bytes, stream, false);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t bytes,
                              CUstream stream) {
    return copy_bytes(target, (uintptr_t)source, bytes, stream, false);
}

CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
    return copy_bytes((uintptr_t)target, source, bytes, stream, false);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                              CUstream stream) {
    return copy_bytes(target, source, bytes, stream, false);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                           CUcontext source_context, size_t bytes, CUstream stream) {
    if (!target_context || !source_context) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    return copy_bytes(target, source, bytes, stream, false);
}

CUresult cuMemcpy(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
    return copy_bytes(target, source, bytes, CU_STREAM_LEGACY, true);
}

CUresult cuMemcpy_ptds(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
    return copy_bytes(target, source, bytes, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void *source, size_t bytes) {
    return copy_bytes(target, (uintptr_t)source, bytes, CU_STREAM_LEGACY, true);
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr target, const void *source, size_t bytes) {
    return copy_bytes(target, (uintptr_t)source, bytes, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyDtoH_v2(void *target, CUdeviceptr source, size_t bytes) {
    return copy_bytes((uintptr_t)target, source, bytes, CU_STREAM_LEGACY, true);
}

CUresult cuMemcpyDtoH_v2_ptds(void *target, CUdeviceptr source, size_t bytes) {
    return copy_bytes((uintptr_t)target, source, bytes, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
    return copy_bytes(target, source, bytes, CU_STREAM_LEGACY, true);
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
    return copy_bytes(target, source, bytes, CU_STREAM_PER_THREAD, true);
}

static CUresult copy_peer(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                          CUcontext source_context, size_t bytes, CUstream stream) {
    if (!target_context || !source_context) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    return copy_bytes(target, source, bytes, stream, true);
}

CUresult cuMemcpyPeer(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                      CUcontext source_context, size_t bytes) {
    return copy_peer(target, target_context, source, source_context, bytes, CU_STREAM_LEGACY);
}

CUresult cuMemcpyPeer_ptds(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                           CUcontext source_context, size_t bytes) {
    return copy_peer(target, target_context, source, source_context, bytes, CU_STREAM_PER_THREAD);
}

/* Two dimensions ----------------------------------------------------------------------------------
 */

static bool end_of(CUmemorytype type, const void *host, CUdeviceptr device, size_t pitch, size_t x,
                   size_t y, uint64_t *begin) {
    if (type == CU_MEMORYTYPE_HOST) {
        *begin = (uintptr_t)host + y * pitch + x;
    } else if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED) {
        *begin = device + y * pitch + x;
    } else {
        return false;
    }
    return true;
}

static CUresult copy_plane(const CUDA_MEMCPY2D *plane, CUstream stream, bool synchronous) {
    if (!plane) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    emu_copy_t copy = {.width = plane->WidthInBytes, .height = plane->Height};
    copy.source_pitch = plane->srcPitch ? plane->srcPitch : plane->WidthInBytes;
    copy.target_pitch = plane->dstPitch ? plane->dstPitch : plane->WidthInBytes;
    if (copy.source_pitch < copy.width || copy.target_pitch < copy.width) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool linear = end_of(plane->srcMemoryType, plane->srcHost, plane->srcDevice, copy.source_pitch,
                         plane->srcXInBytes, plane->srcY, &copy.source) &&
                  end_of(plane->dstMemoryType, plane->dstHost, plane->dstDevice, copy.target_pitch,
                         plane->dstXInBytes, plane->dstY, &copy.target);
    return linear ? copy_rows(stream, &copy, synchronous) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream) {
    return copy_plane(copy, stream, false);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy) {
    return copy_plane(copy, CU_STREAM_LEGACY, true);
}

CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy) {
    return copy_plane(copy, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy) {
    return copy_plane(copy, CU_STREAM_LEGACY, true);
}

CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *copy) {
    return copy_plane(copy, CU_STREAM_PER_THREAD, true);
}

/* Fills -------------------------------------------------------------------------------------------
 */

static CUresult fill(CUstream handle, emu_fill_t fill, bool synchronous) {
    CUcontext context;
    CUstream stream;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = emu_stream(handle, context, &stream);
    if (status == CUDA_SUCCESS && synchronous) {
        status = stream->legacy ? emu_capture_legacy(context) : CUDA_SUCCESS;
    }
    if (status != CUDA_SUCCESS || fill.count == 0) {
        return emu_leave(status);
    }
    bool valid = emu_allocation_at(fill.target) &&
                 valid_range(fill.target, fill.count * fill.bytes) && fill.target % fill.bytes == 0;
    if (!valid) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    emu_op_t *op = emu_op_new(EMU_OP_FILL, "a fill");
    op->fill = fill;
    status = emu_submit(stream, op);
    if (status == CUDA_SUCCESS && synchronous && !on_device(fill.target)) {
        status = emu_wait_stream(stream);
    }
    return emu_leave(status);
}

CUresult cuMemsetD8_v2(CUdeviceptr target, unsigned char value, size_t count) {
    return fill(CU_STREAM_LEGACY, (emu_fill_t){target, count, value, 1}, true);
}

CUresult cuMemsetD8_v2_ptds(CUdeviceptr target, unsigned char value, size_t count) {
    return fill(CU_STREAM_PER_THREAD, (emu_fill_t){target, count, value, 1}, true);
}

CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) {
    return fill(stream, (emu_fill_t){target, count, value, 1}, false);
}

CUresult cuMemsetD16_v2(CUdeviceptr target, unsigned short value, size_t count) {
    return fill(CU_STREAM_LEGACY, (emu_fill_t){target, count, value, 2}, true);
}

CUresult cuMemsetD16_v2_ptds(CUdeviceptr target, unsigned short value, size_t count) {
    return fill(CU_STREAM_PER_THREAD, (emu_fill_t){target, count, value, 2}, true);
}

CUresult cuMemsetD16Async(CUdeviceptr target, unsigned short value, size_t count, CUstream stream) {
    return fill(stream, (emu_fill_t){target, count, value, 2}, false);
}

CUresult cuMemsetD32_v2(CUdeviceptr target, unsigned int value, size_t count) {
    return fill(CU_STREAM_LEGACY, (emu_fill_t){target, count, value, 4}, true);
}

CUresult cuMemsetD32_v2_ptds(CUdeviceptr target, unsigned int value, size_t count) {
    return fill(CU_STREAM_PER_THREAD, (emu_fill_t){target, count, value, 4}, true);
}

CUresult cuMemsetD32Async(CUdeviceptr target, unsigned int value, size_t count, CUstream stream) {
    return fill(stream, (emu_fill_t){target, count, value, 4}, false);
}
