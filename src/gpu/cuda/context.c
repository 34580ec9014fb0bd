/* context.c: devices, how they come into use and go, and the context that is current during a call.
 *
 * Each device has one context here, its primary one, which the program shares if it uses CUDA's
 * runtime. It is retained when the device is first used and released by close; its flags are the
 * program's business, and it is never reset.
 */
#include "gpu/cuda/cuda.h"

#include "core/log.h"

#include <string.h>

/* ---- what there is ---- */

static uint32_t attribute(int device, CUdevice_attribute which, ucc_status_t *status) {
    int value = 0;
    if (*status == UCC_OK) {
        *status = hd_cuda_check(
            device, hd_cu.DeviceGetAttribute(&value, which, hd_cuda.device[device].handle),
            "cuDeviceGetAttribute");
    }
    return value > 0 ? (uint32_t)value : 0;
}

static ucc_status_t find_peers(int device, uint64_t *peers) {
    ucc_status_t status = UCC_OK;
    for (uint32_t p = 0; p < hd_cuda.devices && status == UCC_OK; p++) {
        int can = 0;
        if ((int)p != device) {
            status = hd_cuda_check(device,
                                   hd_cu.DeviceCanAccessPeer(&can, hd_cuda.device[device].handle,
                                                             hd_cuda.device[p].handle),
                                   "cuDeviceCanAccessPeer");
        }
        *peers |= (uint64_t)(can != 0) << p;
    }
    return status;
}

static ucc_status_t find_info(int device) {
    hd_cuda_device_t *d = &hd_cuda.device[device];
    hd_gpu_info_t *info = &d->info;
    ucc_status_t status = hd_cuda_check(
        device, hd_cu.DeviceGetName(info->name, sizeof(info->name), d->handle), "cuDeviceGetName");
    if (status == UCC_OK) {
        status = hd_cuda_check(device, hd_cu.DeviceTotalMem(&info->bytes, d->handle),
                               "cuDeviceTotalMem");
    }
    if (status == UCC_OK) {
        status =
            hd_cuda_check(device, hd_cu.DeviceGetPCIBusId(info->bus, sizeof(info->bus), d->handle),
                          "cuDeviceGetPCIBusId");
    }
    info->major = (int)attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &status);
    info->minor = (int)attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &status);
    info->l2_bytes = attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &status);
    info->multiprocessors = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &status);
    uint32_t threads =
        attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &status);
    info->words = attribute(device, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, &status);
    info->host_managed = attribute(device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, &status);
    d->node = hd_cuda.node_of(info->bus);
    uint32_t width = info->multiprocessors * (threads / HD_GPU_THREADS);
    info->width = width > 0 ? width : 1;
    return status == UCC_OK ? find_peers(device, &info->peers) : status;
}

ucc_status_t hd_cuda_find_devices(void) {
    int count = 0;
    CUresult result = hd_cu.DeviceGetCount(&count);
    ucc_status_t status =
        result == CUDA_ERROR_NO_DEVICE ? UCC_OK : hd_cuda_check(-1, result, "cuDeviceGetCount");
    if (count > HD_GPU_DEVICES) {
        hd_warn("GPUs: there are %d; those from %d on are not used", count, HD_GPU_DEVICES);
        count = HD_GPU_DEVICES;
    }
    hd_cuda.devices = count > 0 ? (uint32_t)count : 0;
    for (int i = 0; i < count; i++) {
        memset(&hd_cuda.device[i], 0, sizeof(hd_cuda.device[i]));
        pthread_mutex_init(&hd_cuda.device[i].lock, NULL);
    }
    for (int i = 0; i < count && status == UCC_OK; i++) {
        status = hd_cuda_check(i, hd_cu.DeviceGet(&hd_cuda.device[i].handle, i), "cuDeviceGet");
    }
    for (int i = 0; i < count && status == UCC_OK; i++) {
        status = find_info(i);
    }
    return status;
}

static ucc_status_t check_number(int device) {
    if (!hd_cuda_is_number(device)) {
        hd_error("GPU %d: there are %u", device, hd_cuda.devices);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

ucc_status_t hd_cuda_info(int device, hd_gpu_info_t *info) {
    ucc_status_t status = check_number(device);
    if (status == UCC_OK) {
        *info = hd_cuda.device[device].info;
    }
    return status;
}

/* ---- the current context ---- */

ucc_status_t hd_cuda_push(hd_cuda_device_t *d, hd_cuda_scope_t *scope) {
    int device = (int)(d - hd_cuda.device);
    *scope = (hd_cuda_scope_t){.device = d};
    ucc_status_t status =
        hd_cuda_check(device, hd_cu.CtxGetCurrent(&scope->before), "cuCtxGetCurrent");
    if (status != UCC_OK || scope->before == d->context) {
        return status;
    }
    status = hd_cuda_check(device, hd_cu.CtxPushCurrent(d->context), "cuCtxPushCurrent");
    scope->pushed = status == UCC_OK;
    return status;
}

static ucc_status_t relax(hd_cuda_scope_t *scope) {
    scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    ucc_status_t status = hd_cuda_check((int)(scope->device - hd_cuda.device),
                                        hd_cu.ThreadExchangeStreamCaptureMode(&scope->mode),
                                        "cuThreadExchangeStreamCaptureMode");
    scope->relaxed = status == UCC_OK;
    return status;
}

ucc_status_t hd_cuda_pop(int device, CUcontext before) {
    CUcontext popped, current = NULL;
    CUresult result = hd_cu.CtxPopCurrent(&popped);
    if (result != CUDA_SUCCESS && hd_cu.CtxGetCurrent(&current) == CUDA_SUCCESS &&
        current != before) { /* else it was popped all the same */
        (void)hd_cu.CtxPopCurrent(&popped);
    }
    return hd_cuda_check(device, result, "cuCtxPopCurrent");
}

/* What was changed for the call must not stay, even if the driver refuses once. */
void hd_cuda_leave(hd_cuda_scope_t *scope) {
    int device = (int)(scope->device - hd_cuda.device);
    if (scope->relaxed) {
        CUstreamCaptureMode mode = scope->mode;
        CUresult result = hd_cu.ThreadExchangeStreamCaptureMode(&mode);
        if (result != CUDA_SUCCESS) {
            mode = scope->mode;
            (void)hd_cu.ThreadExchangeStreamCaptureMode(&mode);
            (void)hd_cuda_check(device, result, "cuThreadExchangeStreamCaptureMode");
        }
    }
    if (scope->pushed) {
        (void)hd_cuda_pop(device, scope->before);
    }
}

static ucc_status_t enter(int device, hd_cuda_scope_t *scope, bool relaxed) {
    ucc_status_t status = hd_cuda_alive();
    status = status == UCC_OK ? check_number(device) : status;
    if (status != UCC_OK) {
        return status;
    }
    hd_cuda_device_t *d = &hd_cuda.device[device];
    /* acquire: pairs with the release in hd_cuda_use, and has the context and kernels with it */
    if (!atomic_load_explicit(&d->ready, memory_order_acquire)) {
        status = hd_cuda_use(device);
    }
    if (status == UCC_OK && hd_cuda_lost(device)) {
        status = UCC_ERR_IO_ERROR;
    }
    if (status != UCC_OK) {
        return status;
    }
    status = hd_cuda_push(d, scope);
    if (status == UCC_OK && relaxed) {
        status = relax(scope);
        if (status != UCC_OK) {
            hd_cuda_leave(scope);
        }
    }
    return status;
}

ucc_status_t hd_cuda_enter(int device, hd_cuda_scope_t *scope) {
    return enter(device, scope, false);
}

ucc_status_t hd_cuda_enter_relaxed(int device, hd_cuda_scope_t *scope) {
    return enter(device, scope, true);
}

/* ---- into use ---- */

/* The module and the name of each kernel. A real device's modules are loaded, and functions
 * looked up, all at once: with the driver's lazy loading, that is when code goes to the device,
 * which must not happen while something is captured. */
static ucc_status_t load_modules(int device, hd_cuda_device_t *d) {
    hd_gpu_image_t image[HD_GPU_MODULES] = {{0}};
    ucc_status_t status = UCC_OK;
    if (hd_cuda.emulated) {
        image[0].fatbin = &hd_gpu_host_module;
    } else if (!hd_gpu_images(image)) {
        hd_error("GPU %d: this libheddle_cuda was built without nvcc, and has no kernels for it",
                 device);
        return UCC_ERR_NOT_SUPPORTED;
    }
    for (int i = 0; i < HD_GPU_MODULES && status == UCC_OK; i++) {
        if (image[i].fatbin) {
            status = hd_cuda_check(device, hd_cu.ModuleLoadData(&d->module[i], image[i].fatbin),
                                   "cuModuleLoadData");
        }
    }
    for (uint32_t k = 0; k < HD_GPU_KERNELS && status == UCC_OK; k++) {
        CUmodule module = d->module[hd_cuda.emulated ? 0 : hd_gpu_kernel[k].module];
        status = hd_cuda_check(
            device, hd_cu.ModuleGetFunction(&d->kernel[k], module, hd_gpu_kernel[k].name),
            "cuModuleGetFunction");
    }
    return status;
}

void hd_cuda_unload(int device, hd_cuda_device_t *d) {
    for (int i = 0; i < HD_GPU_MODULES; i++) {
        if (d->module[i]) {
            hd_cuda_check_freed(device, hd_cu.ModuleUnload(d->module[i]), "cuModuleUnload");
            d->module[i] = NULL;
        }
    }
}

static ucc_status_t make_ready(int device, hd_cuda_device_t *d) {
    hd_cuda_scope_t scope;
    ucc_status_t status = hd_cuda_check(
        device, hd_cu.DevicePrimaryCtxRetain(&d->context, d->handle), "cuDevicePrimaryCtxRetain");
    if (status != UCC_OK) {
        return status;
    }
    status = hd_cuda_push(d, &scope);
    if (status == UCC_OK) {
        status = relax(&scope);
        if (status == UCC_OK) {
            status = load_modules(device, d);
        }
        if (status != UCC_OK) {
            hd_cuda_unload(device, d);
        }
        hd_cuda_leave(&scope);
    }
    if (status != UCC_OK) {
        hd_cuda_check_freed(device, hd_cu.DevicePrimaryCtxRelease(d->handle),
                            "cuDevicePrimaryCtxRelease");
    }
    return status;
}

ucc_status_t hd_cuda_use(int device) {
    ucc_status_t status = hd_cuda_alive();
    status = status == UCC_OK ? check_number(device) : status;
    if (status != UCC_OK) {
        return status;
    }
    hd_cuda_device_t *d = &hd_cuda.device[device];
    pthread_mutex_lock(&d->lock);
    /* relaxed: set under the lock */
    bool ready = atomic_load_explicit(&d->ready, memory_order_relaxed);
    if (!ready && hd_cuda_lost(device)) {
        status = UCC_ERR_IO_ERROR;
    } else if (!ready) {
        status = make_ready(device, d);
        if (status == UCC_OK) {
            /* release: pairs with the acquire in enter */
            atomic_store_explicit(&d->ready, true, memory_order_release);
        }
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}
