/* device.c: what a device says of itself, and its primary context. */
#include "emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MULTIPROCESSORS = 8 };

bool emu_device_valid(CUdevice device) {
    return device >= 0 && device < emu.config.devices;
}

/* Locks, if it returns CUDA_SUCCESS. */
static CUresult enter_device(CUdevice device) {
    CUresult status = emu_enter();
    if (status == CUDA_SUCCESS && !emu_device_valid(device)) {
        status = emu_leave(CUDA_ERROR_INVALID_DEVICE);
    }
    return status;
}

CUresult cuDriverGetVersion(int *version) {
    if (!version) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *version = EMU_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    CUresult status = enter_device(ordinal);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (device) {
        *device = ordinal;
    }
    return emu_leave(device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDeviceGetCount(int *count) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (count) {
        *count = emu.config.devices;
    }
    return emu_leave(count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
    CUresult status = enter_device(device);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (name && bytes > 0) {
        snprintf(name, (size_t)bytes, "Heddle emulated device");
    }
    return emu_leave(name && bytes > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    CUresult status = enter_device(device);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (uuid) {
        memcpy(uuid->bytes, "heddle-emucuda-", 15);
        uuid->bytes[15] = (char)device;
    }
    return emu_leave(uuid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    return cuDeviceGetUuid(uuid, device);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    CUresult status = enter_device(device);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (bytes) {
        *bytes = emu.config.memory;
    }
    return emu_leave(bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* Those of a device of compute capability 9.0, with few multiprocessors: grids sized by them are
 * run one block after the other. What is not listed, and up to the last one of 12.2, is 0. */
static int attribute(CUdevice_attribute attribute, CUdevice device) {
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
        return INT32_MAX;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return 227 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return 228 << 10;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
        return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        return 32;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return 1000000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return 5120;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return MULTIPROCESSORS;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return 4 << 20;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return 2048;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        return 3;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return 9;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return device + 1;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
        return -1;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        return 1;
    default:
        return 0;
    }
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute what, CUdevice device) {
    CUresult status = enter_device(device);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!value || what < 1 || what > CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *value = attribute(what, device);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetPCIBusId(char *bus, int bytes, CUdevice device) {
    CUresult status = enter_device(device);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!bus || bytes < 13) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    snprintf(bus, (size_t)bytes, "0000:%02X:00.0", (unsigned int)device + 1);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *bus) {
    unsigned int domain = 0, number = 0, slot = 0;
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!device || !bus) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    bool long_form = sscanf(bus, "%x:%x:%x", &domain, &number, &slot) == 3;
    if (!long_form && (domain = 0, sscanf(bus, "%x:%x", &number, &slot)) != 2) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (domain != 0 || slot != 0 || !emu_device_valid((int)number - 1)) {
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    }
    *device = (int)number - 1;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    CUresult status = enter_device(device);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_device_valid(peer)) {
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    }
    if (can) {
        *can = device != peer && emu.config.peers;
    }
    return emu_leave(can ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute what, CUdevice source,
                                 CUdevice target) {
    CUresult status = enter_device(source);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_device_valid(target) || source == target) {
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    }
    if (!value || what < 1 || what > CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    bool supported = what == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
                     what == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    *value = supported && emu.config.peers;
    return emu_leave(CUDA_SUCCESS);
}

/* Primary contexts --------------------------------------------------------------------------------
 */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    CUresult status = enter_device(device);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!context) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    emu_device_t *d = &emu.device[device];
    if (d->lost) {
        return emu_leave(CUDA_ERROR_ECC_UNCORRECTABLE);
    }
    if (!d->primary) {
        d->primary = emu_context_new(device, d->primary_flags);
        d->primary->primary = true;
    }
    d->primary->references++;
    *context = d->primary;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_device_valid(device)) {
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    }
    emu_device_t *d = &emu.device[device];
    if (!d->primary || d->primary->references == 0) {
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    if (--d->primary->references == 0) {
        emu_context_destroy(d->primary);
    }
    return emu_leave(planted);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_device_valid(device)) {
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    }
    if (emu.device[device].primary) {
        emu_context_destroy(emu.device[device].primary);
    }
    return emu_leave(planted);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
    CUresult status = enter_device(device);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if ((flags & ~(unsigned int)CU_CTX_FLAGS_MASK) != 0) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    emu.device[device].primary_flags = flags;
    if (emu.device[device].primary) {
        emu.device[device].primary->flags = flags;
    }
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active) {
    CUresult status = enter_device(device);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!flags || !active) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *flags = emu.device[device].primary_flags;
    *active = emu.device[device].primary != NULL;
    return emu_leave(CUDA_SUCCESS);
}

/* Pools of devices --------------------------------------------------------------------------------
 */

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
    CUresult status = enter_device(device);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (pool) {
        *pool = emu.device[device].standard_pool;
    }
    return emu_leave(pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
    CUresult status = enter_device(device);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (pool) {
        *pool = emu.device[device].pool;
    }
    return emu_leave(pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    CUresult status = enter_device(device);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(pool, EMU_POOL) || pool->device != device) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    emu.device[device].pool = pool;
    return emu_leave(CUDA_SUCCESS);
}

/* The end of devices ------------------------------------------------------------------------------
 */

void emu_device_lose(int device) {
    emu.device[device].lost = true;
    for (emu_object_t *o = emu_object_first(EMU_CONTEXT); o; o = o->behind) {
        if (((CUcontext)o)->device == device) {
            emu_context_fail((CUcontext)o, CUDA_ERROR_ECC_UNCORRECTABLE);
        }
    }
}

void emu_devices_close(void) {
    emu.closing = true;
    while (emu_object_first(EMU_CONTEXT)) {
        emu_context_destroy((CUcontext)emu_object_first(EMU_CONTEXT));
    }
    while (emu.allocations > 0) { /* registered without a context that is left */
        emu_allocation_t *allocation = emu.allocation[emu.allocations - 1];
        emu_allocation_unlist(allocation);
        emu_allocation_end(allocation);
    }
    for (int d = 0; d < emu.config.devices; d++) {
        for (uint32_t i = 0; emu.device[d].channel && i < emu.config.channels; i++) {
            free(emu.device[d].channel[i]);
        }
        free(emu.device[d].channel);
        emu_arena_close(&emu.device[d].arena);
    }
    while (emu_object_first(EMU_LIBRARY)) {
        emu_library_free((CUlibrary)emu_object_first(EMU_LIBRARY));
    }
    while (emu_object_first(EMU_GRAPH)) {
        emu_graph_free((CUgraph)emu_object_first(EMU_GRAPH));
    }
}
