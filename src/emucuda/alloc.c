/* alloc.c: calls that allocate and free: device, pinned and managed memory. */
#include "emu.h"

#include <string.h>

/* Enters a call that allocates, which captures don't allow. */
static CUresult enter_allocating(CUcontext *context) {
    CUresult status = emu_enter_context(context);
    if (status == CUDA_SUCCESS) {
        status = emu_capture_unsafe();
        if (status != CUDA_SUCCESS) {
            emu_leave(status);
        }
    }
    return status;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    const emu_arena_t *arena = &emu.device[context->device].arena;
    if (available) {
        *available = arena->bytes - arena->used;
    }
    if (total) {
        *total = arena->bytes;
    }
    return emu_leave(CUDA_SUCCESS);
}

static CUresult allocate(CUcontext context, emu_memory_kind_t kind, size_t bytes,
                         unsigned int flags, uint64_t *pointer) {
    if (!pointer || bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    emu_allocation_t *allocation = emu_allocate(context->device, context, kind, bytes);
    if (!allocation) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    allocation->flags = flags;
    *pointer = allocation->base;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    CUcontext context;
    uint64_t address = 0;
    CUresult status = enter_allocating(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = allocate(context, EMU_DEVICE_MEMORY, pointer ? bytes : 0, 0, &address);
    if (status == CUDA_SUCCESS) {
        *pointer = address;
    }
    return emu_leave(status);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                            unsigned int element) {
    bool valid =
        pitch && width > 0 && height > 0 && (element == 4 || element == 8 || element == 16);
    if (!valid) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pitch = (width + EMU_GRANULARITY - 1) / EMU_GRANULARITY * EMU_GRANULARITY;
    return cuMemAlloc_v2(pointer, *pitch * height);
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags) {
    CUcontext context;
    uint64_t address = 0;
    CUresult status = enter_allocating(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    status = allocate(context, EMU_MANAGED_MEMORY, pointer ? bytes : 0, flags, &address);
    if (status == CUDA_SUCCESS) {
        *pointer = address;
    }
    return emu_leave(status);
}

/* Waits for what uses it, as drivers do. */
static CUresult free_allocation(emu_allocation_t *allocation) {
    allocation->pending++;
    emu_allocation_unlist(allocation);
    CUresult status = CUDA_SUCCESS;
    if (allocation->kind == EMU_POOL_MEMORY) {
        /* Who frees it so says that nobody uses it any more: nobody waits. */
        emu_pool_used(allocation, false);
    } else {
        allocation->pending--;
        status = emu_wait_allocation(allocation);
        allocation->pending++;
    }
    emu_allocation_end(allocation);
    emu_allocation_drop(allocation);
    return status;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    CUcontext context = emu_current();
    status = emu_context_status(context);
    if (status == CUDA_ERROR_INVALID_CONTEXT || status == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
        pointer == 0) {
        return emu_leave(status);
    }
    emu_allocation_t *allocation = emu_allocation_at(pointer);
    bool device = allocation && allocation->base == pointer && !allocation->module &&
                  allocation->kind != EMU_HOST_MEMORY && allocation->kind != EMU_REGISTERED_MEMORY;
    if (!device) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (status == CUDA_SUCCESS) {
        status = emu_capture_unsafe();
        if (status != CUDA_SUCCESS) {
            return emu_leave(status);
        }
    }
    if (allocation->kind == EMU_POOL_MEMORY) {
        emu_host_access(allocation->base, allocation->bytes, EMU_WRITE, "a free by the host");
    }
    CUresult freed = free_allocation(allocation);
    status = status == CUDA_SUCCESS ? freed : status;
    return emu_leave(planted != CUDA_SUCCESS ? planted : status);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    const emu_allocation_t *allocation = emu_allocation_at(pointer);
    if (!allocation) {
        return emu_leave(CUDA_ERROR_NOT_FOUND);
    }
    if (base) {
        *base = allocation->base;
    }
    if (bytes) {
        *bytes = allocation->bytes;
    }
    return emu_leave(CUDA_SUCCESS);
}

/* Pinned memory -----------------------------------------------------------------------------------
 */

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags) {
    CUcontext context;
    uint64_t address = 0;
    CUresult status = enter_allocating(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (flags >
        (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    status = allocate(context, EMU_HOST_MEMORY, pointer ? bytes : 0, flags, &address);
    if (status == CUDA_SUCCESS) {
        *pointer = (void *)(uintptr_t)address;
    }
    return emu_leave(status);
}

CUresult cuMemAllocHost_v2(void **pointer, size_t bytes) {
    return cuMemHostAlloc(pointer, bytes, 0);
}

/* Enters, with the allocation that begins at pointer and is of that kind. */
static CUresult enter_host(const void *pointer, emu_memory_kind_t kind, CUresult none,
                           CUresult *planted, emu_allocation_t **allocation) {
    CUresult status = emu_enter_freeing(planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = emu_context_status(emu_current());
    *allocation = emu_allocation_at((uintptr_t)pointer);
    if (status == CUDA_ERROR_INVALID_CONTEXT || status == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
        return emu_leave(status);
    }
    bool found =
        *allocation && (*allocation)->base == (uintptr_t)pointer && (*allocation)->kind == kind;
    return found ? CUDA_SUCCESS : emu_leave(none);
}

static CUresult free_host(const void *pointer, emu_memory_kind_t kind, CUresult none) {
    CUresult planted = CUDA_SUCCESS;
    emu_allocation_t *allocation;
    CUresult status = enter_host(pointer, kind, none, &planted, &allocation);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    CUresult sticky = emu_current()->error;
    status = sticky == CUDA_SUCCESS ? emu_capture_unsafe() : CUDA_SUCCESS;
    if (status != CUDA_SUCCESS) {
        return emu_leave(status);
    }
    status = free_allocation(allocation);
    status = sticky != CUDA_SUCCESS ? sticky : status;
    return emu_leave(planted != CUDA_SUCCESS ? planted : status);
}

CUresult cuMemFreeHost(void *pointer) {
    return free_host(pointer, EMU_HOST_MEMORY, CUDA_ERROR_INVALID_VALUE);
}

static bool overlaps(uint64_t begin, uint64_t bytes) {
    for (uint32_t i = 0; i < emu.allocations; i++) {
        const emu_allocation_t *a = emu.allocation[i];
        if (begin < a->base + a->bytes && a->base < begin + bytes) {
            return true;
        }
    }
    return false;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags) {
    CUcontext context;
    CUresult status = enter_allocating(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!pointer || bytes == 0 || flags > 15) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY) {
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    }
    if (overlaps((uintptr_t)pointer, bytes)) {
        return emu_leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    }
    emu_allocation_list((uintptr_t)pointer, bytes, EMU_REGISTERED_MEMORY, context->device, context)
        ->flags = flags;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemHostUnregister(void *pointer) {
    return free_host(pointer, EMU_REGISTERED_MEMORY, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static bool is_pinned(const emu_allocation_t *allocation) {
    return allocation &&
           (allocation->kind == EMU_HOST_MEMORY || allocation->kind == EMU_REGISTERED_MEMORY);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *pointer, unsigned int flags) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!device || flags != 0 || !is_pinned(emu_allocation_at((uintptr_t)pointer))) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *device = (uintptr_t)pointer;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *pointer) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    const emu_allocation_t *allocation = emu_allocation_at((uintptr_t)pointer);
    if (!flags || !allocation || allocation->kind != EMU_HOST_MEMORY) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *flags =
        allocation->flags | CU_MEMHOSTALLOC_DEVICEMAP; /* all is mapped, as addresses are unified */
    return emu_leave(CUDA_SUCCESS);
}

/* Managed memory's hints: it moves nowhere. */

CUresult cuMemAdvise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice device) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    const emu_allocation_t *allocation = emu_allocation_at(pointer);
    bool managed =
        allocation && allocation->kind == EMU_MANAGED_MEMORY && bytes <= allocation->bytes;
    bool known = advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && device < emu.config.devices;
    return emu_leave(managed && known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream handle) {
    CUcontext context;
    CUstream stream;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    const emu_allocation_t *allocation = emu_allocation_at(pointer);
    bool managed =
        allocation && allocation->kind == EMU_MANAGED_MEMORY && bytes <= allocation->bytes;
    if (!managed || (device != CU_DEVICE_CPU && !emu_device_valid(device))) {
        return emu_leave(managed ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE);
    }
    status = emu_stream(handle, context, &stream);
    if (status == CUDA_SUCCESS) {
        status = emu_submit(stream, emu_op_new(EMU_OP_NOTHING, "a prefetch"));
    }
    return emu_leave(status);
}

static CUdevice device_of(CUmemLocation location) {
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
}

CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, CUmem_advise advice,
                        CUmemLocation location) {
    return cuMemAdvise(pointer, bytes, advice, device_of(location));
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation location,
                               unsigned int flags, CUstream stream) {
    return flags == 0 ? cuMemPrefetchAsync(pointer, bytes, device_of(location), stream)
                      : CUDA_ERROR_INVALID_VALUE;
}
