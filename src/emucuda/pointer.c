/* pointer.c: what a pointer is. */
#include "emu.h"

#include <string.h>

static bool is_device(const emu_allocation_t *allocation) {
    return allocation->kind == EMU_DEVICE_MEMORY || allocation->kind == EMU_POOL_MEMORY;
}

/* The device pointer's host pointer exists unless the memory is the device's alone. */
static CUresult host_pointer(const emu_allocation_t *allocation, CUdeviceptr pointer, void *value) {
    if (is_device(allocation)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *(void **)value = (void *)(uintptr_t)pointer;
    return CUDA_SUCCESS;
}

static unsigned int access_flags(const emu_allocation_t *allocation) {
    CUcontext current = emu_current();
    bool reaches = emu_object_is(current, EMU_CONTEXT) && emu_reaches(current, allocation);
    return reaches ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

static CUresult get(const emu_allocation_t *a, CUpointer_attribute attribute, CUdeviceptr pointer,
                    void *value) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)value = a->kind == EMU_POOL_MEMORY ? NULL : a->context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)value = a->kind == EMU_HOST_MEMORY || a->kind == EMU_REGISTERED_MEMORY
                                     ? CU_MEMORYTYPE_HOST
                                     : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)value = pointer;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return host_pointer(a, pointer, value);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(unsigned int *)value = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)value = a->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned int *)value = a->kind == EMU_MANAGED_MEMORY;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = a->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = a->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = a->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned int *)value = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)value = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned int *)value = access_flags(a);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)value = a->kind == EMU_POOL_MEMORY ? a->pool : NULL;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static bool known(CUpointer_attribute attribute) {
    return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT &&
           attribute <= CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr pointer) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    const emu_allocation_t *allocation = emu_allocation_at(pointer);
    if (!value || !known(attribute) || !allocation) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return emu_leave(get(allocation, attribute, pointer, value));
}

static size_t size_of(CUpointer_attribute attribute) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return 4;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return 16;
    default:
        return 8;
    }
}

/* What does not apply is zero, and no error: a pointer that nobody knows has type 0. Its device is
 * -2. */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **values,
                                CUdeviceptr pointer) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (count == 0 || !attributes || !values) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    const emu_allocation_t *allocation = emu_allocation_at(pointer);
    for (unsigned int i = 0; i < count; i++) {
        if (!known(attributes[i]) || !values[i]) {
            return emu_leave(CUDA_ERROR_INVALID_VALUE);
        }
        if (allocation && get(allocation, attributes[i], pointer, values[i]) == CUDA_SUCCESS) {
            continue;
        }
        memset(values[i], 0, size_of(attributes[i]));
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
            *(int *)values[i] = CU_DEVICE_INVALID;
        }
    }
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr pointer) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    bool valid =
        value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && emu_allocation_at(pointer);
    return emu_leave(valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
