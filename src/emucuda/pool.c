/* pool.c: memory that is allocated and freed in stream order. An allocation has its addresses at
 * the call; its bytes may be touched after the allocation's turn in the stream, and before the
 * free's.
 */
#include "emu.h"

CUmemoryPool emu_pool_new(int device, bool standard) {
    CUmemoryPool pool = emu_object_new(EMU_POOL, sizeof(*pool));
    pool->device = device;
    pool->standard = standard;
    for (int i = 0; i < 4; i++) {
        pool->option[i] = 1;
    }
    return pool;
}

void emu_pool_used(emu_allocation_t *allocation, bool begins) {
    CUmemoryPool pool = allocation->pool;
    pool->used += begins ? allocation->bytes : -allocation->bytes;
    pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
    pool->reserved_high =
        pool->used_high > pool->reserved_high ? pool->used_high : pool->reserved_high;
}

/* Memory that is freed in stream order comes back when that is executed: work goes on until there
 * is enough. */
static emu_allocation_t *allocate(CUmemoryPool pool, size_t bytes) {
    emu_allocation_t *allocation = emu_allocate(pool->device, NULL, EMU_POOL_MEMORY, bytes);
    while (!allocation && emu_step()) {
        allocation = emu_allocate(pool->device, NULL, EMU_POOL_MEMORY, bytes);
    }
    return allocation;
}

static CUresult submit(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
    if (stream->capture) {
        emu_capture_invalidate(stream->capture);
        return CUDA_ERROR_NOT_SUPPORTED; /* allocations as nodes of graphs */
    }
    emu_allocation_t *allocation = allocate(pool, bytes);
    if (!allocation) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    allocation->context = stream->context;
    allocation->pool = pool;
    emu_pool_used(allocation, true);
    emu_op_t *op = emu_op_new(EMU_OP_ALLOC, "an allocation");
    op->memory = allocation;
    *pointer = allocation->base;
    return emu_submit(stream, op);
}

static CUresult enter(CUstream handle, CUcontext *context, CUstream *stream) {
    CUresult status = emu_enter_context(context);
    if (status == CUDA_SUCCESS) {
        status = emu_stream(handle, *context, stream);
        if (status != CUDA_SUCCESS) {
            emu_leave(status);
        }
    }
    return status;
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream handle) {
    CUcontext context;
    CUstream stream;
    CUresult status = enter(handle, &context, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!pointer || bytes == 0) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return emu_leave(submit(pointer, bytes, emu.device[stream->context->device].pool, stream));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                 CUstream handle) {
    CUcontext context;
    CUstream stream;
    CUresult status = enter(handle, &context, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!pointer || bytes == 0 || !emu_object_is(pool, EMU_POOL)) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return emu_leave(submit(pointer, bytes, pool, stream));
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
    CUcontext context = NULL;
    CUstream stream;
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    context = emu_current();
    if (!emu_object_is(context, EMU_CONTEXT)) {
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    status = emu_stream(handle, context, &stream);
    if (status == CUDA_ERROR_INVALID_HANDLE) {
        return emu_leave(status);
    }
    emu_allocation_t *allocation = emu_allocation_at(pointer);
    bool device = allocation && allocation->base == pointer && !allocation->module &&
                  (allocation->kind == EMU_POOL_MEMORY || allocation->kind == EMU_DEVICE_MEMORY);
    if (!device) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (stream->capture) {
        emu_capture_invalidate(stream->capture);
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    }
    emu_op_t *op = emu_op_new(EMU_OP_FREE, "a free");
    op->memory = allocation;
    allocation->pending++;
    status = emu_submit(stream, op);
    if (status != CUDA_SUCCESS && allocation->kind == EMU_POOL_MEMORY) {
        emu_pool_used(allocation, false); /* in a context that has failed */
    }
    emu_allocation_unlist(allocation);
    if (status != CUDA_SUCCESS) {
        emu_allocation_end(allocation);
    }
    emu_allocation_drop(allocation);
    return emu_leave(planted != CUDA_SUCCESS ? planted : status);
}

/* Pools -------------------------------------------------------------------------------------------
 */

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    bool plain = pool && properties && properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                 properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (!plain) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (!emu_device_valid(properties->location.id)) {
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    }
    if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    }
    *pool = emu_pool_new(properties->location.id, false);
    return emu_leave(CUDA_SUCCESS);
}

/* What it gave out lives on. */
CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(pool, EMU_POOL) || pool->standard) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    CUmemoryPool standard = emu.device[pool->device].standard_pool;
    for (uint32_t i = 0; i < emu.allocations; i++) {
        emu_allocation_t *allocation = emu.allocation[i];
        if (allocation->kind == EMU_POOL_MEMORY && allocation->pool == pool) {
            emu_pool_used(allocation, false);
            allocation->pool = standard;
            emu_pool_used(allocation, true);
        }
    }
    if (emu.device[pool->device].pool == pool) {
        emu.device[pool->device].pool = standard;
    }
    emu_object_kill(pool);
    return emu_leave(planted);
}

static CUresult enter_pool(CUmemoryPool pool) {
    CUresult status = emu_enter();
    if (status == CUDA_SUCCESS && !emu_object_is(pool, EMU_POOL)) {
        status = emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return status;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes) {
    CUresult status = enter_pool(pool);
    (void)bytes; /* nothing is kept back */
    return status == CUDA_SUCCESS ? emu_leave(CUDA_SUCCESS) : status;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute what, void *value) {
    CUresult status = enter_pool(pool);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!value) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    switch (what) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->option[what] = *(int *)value;
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = *(cuuint64_t *)value;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(cuuint64_t *)value != 0) {
            return emu_leave(CUDA_ERROR_INVALID_VALUE);
        }
        *(what == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? &pool->used_high : &pool->reserved_high) =
            pool->used;
        break;
    default:
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute what, void *value) {
    CUresult status = enter_pool(pool);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!value || what < 1 || what > CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    switch (what) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(cuuint64_t *)value = pool->threshold;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->used;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *(cuuint64_t *)value = pool->reserved_high;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = pool->used_high;
        break;
    default:
        *(int *)value = pool->option[what];
    }
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count) {
    CUresult status = enter_pool(pool);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    uint64_t changed = pool->access;
    for (size_t i = 0; i < count; i++) {
        int device = access[i].location.id;
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !emu_device_valid(device)) {
            return emu_leave(CUDA_ERROR_INVALID_VALUE);
        }
        bool on = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if (device == pool->device ? !on : on && !emu.config.peers) {
            return emu_leave(device == pool->device ? CUDA_ERROR_INVALID_VALUE
                                                    : CUDA_ERROR_INVALID_DEVICE);
        }
        uint64_t bit = (uint64_t)1 << device;
        changed = on && device != pool->device ? changed | bit : changed & ~bit;
    }
    pool->access = changed;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location) {
    CUresult status = enter_pool(pool);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !emu_device_valid(location->id)) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    bool may = location->id == pool->device || (pool->access >> location->id & 1) != 0;
    *flags = may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return emu_leave(CUDA_SUCCESS);
}
