/* unsupported.c: calls that are there, so that programs that have them can be linked, and say that
 * they are not supported: memory and events of other processes, and the management of virtual
 * memory.
 */
#include "emu.h"

static CUresult refuse(void) {
    CUresult status = emu_enter();
    return status == CUDA_SUCCESS ? emu_leave(CUDA_ERROR_NOT_SUPPORTED) : status;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event) {
    (void)handle;
    (void)event;
    return refuse();
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle) {
    (void)event;
    (void)handle;
    return refuse();
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) {
    (void)handle;
    (void)pointer;
    return refuse();
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags) {
    (void)pointer;
    (void)handle;
    (void)flags;
    return refuse();
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
    (void)pointer;
    return refuse();
}

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment,
                             CUdeviceptr address, unsigned long long flags) {
    (void)pointer;
    (void)bytes;
    (void)alignment;
    (void)address;
    (void)flags;
    return refuse();
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
    (void)pointer;
    (void)bytes;
    return refuse();
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *properties, unsigned long long flags) {
    (void)handle;
    (void)bytes;
    (void)properties;
    (void)flags;
    return refuse();
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    (void)handle;
    return refuse();
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
    (void)pointer;
    (void)bytes;
    (void)offset;
    (void)handle;
    (void)flags;
    return refuse();
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
    (void)pointer;
    (void)bytes;
    return refuse();
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access,
                        size_t count) {
    (void)pointer;
    (void)bytes;
    (void)access;
    (void)count;
    return refuse();
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr pointer) {
    (void)flags;
    (void)location;
    (void)pointer;
    return refuse();
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option) {
    (void)bytes;
    (void)properties;
    (void)option;
    return refuse();
}

CUresult cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
    (void)shared;
    (void)handle;
    (void)type;
    (void)flags;
    return refuse();
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                        CUmemAllocationHandleType type) {
    (void)handle;
    (void)shared;
    (void)type;
    return refuse();
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *pointer) {
    (void)handle;
    (void)pointer;
    return refuse();
}
