/* open.c: what libheddle_cuda exports: the table of device.h, over the driver that it is given
 * (plug.h). Libheddle opens it once, and closes it when nobody is in a call; in between, all calls
 * go through the table.
 */
#include "gpu/plug.h"

#include "core/log.h"
#include "gpu/cuda/cuda.h"

#include <heddle/heddle_version.h>
#include <stdio.h>
#include <string.h>

typedef __typeof__(&cuGetProcAddress_v2) find_fn;

/* ---- the end ---- */

static void give_back(int device, hd_cuda_device_t *d) {
    hd_cuda_scope_t scope;
    /* Once more, in case that was a passing error. A lost device's things are given back all the
     * same, as far as it lets us. */
    bool entered = hd_cuda_push(d, &scope) == UCC_OK || hd_cuda_push(d, &scope) == UCC_OK;
    hd_cuda_free_streams(d);
    hd_cuda_free_memory(d);
    hd_cuda_unload(device, d);
    if (entered) {
        hd_cuda_leave(&scope);
    }
    hd_cuda_check_freed(device, hd_cu.DevicePrimaryCtxRelease(d->handle),
                        "cuDevicePrimaryCtxRelease");
}

static void close_all(void) {
    for (uint32_t i = 0; i < hd_cuda.devices; i++) {
        hd_cuda_device_t *d = &hd_cuda.device[i];
        /* relaxed: nobody is in a call */
        if (atomic_load_explicit(&d->ready, memory_order_relaxed)) {
            give_back((int)i, d);
        }
        pthread_mutex_destroy(&d->lock);
    }
    hd_cuda.devices = 0;
}

/* ---- the table ---- */

static void forked(void) {
    /* relaxed: the child has no other thread */
    atomic_store_explicit(&hd_cuda.forked, true, memory_order_relaxed);
}

static hd_gpu_driver_t driver = {
    .info = hd_cuda_info,
    .use = hd_cuda_use,
    .lost = hd_cuda_lost,
    .memory_of = hd_cuda_memory_of,
    .reachable = hd_cuda_reachable,
    .take = hd_cuda_take,
    .put = hd_cuda_put,
    .stream = hd_cuda_stream,
    .stream_of = hd_cuda_stream_of,
    .event_take = hd_cuda_event_take,
    .event_put = hd_cuda_event_put,
    .record = hd_cuda_record,
    .wait = hd_cuda_wait,
    .event_query = hd_cuda_event_query,
    .event_await = hd_cuda_event_await,
    .word_take = hd_cuda_word_take,
    .word_put = hd_cuda_word_put,
    .signal = hd_cuda_signal,
    .gate = hd_cuda_gate,
    .launch = hd_cuda_launch,
    .copy = hd_cuda_copy,
    .capture = hd_cuda_capture,
    .keep = hd_cuda_keep,
    .close = close_all,
    .forked = forked,
};

/* ---- the driver's functions ---- */

static bool find(find_fn get, const char *name, void *pointer) {
    CUdriverProcAddressQueryResult why = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    void *found = NULL;
    if (get(name, &found, HD_CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, &why) != CUDA_SUCCESS ||
        why != CU_GET_PROC_ADDRESS_SUCCESS || !found) {
        return false;
    }
    memcpy(pointer, &found, sizeof(found)); /* a pointer to a function */
    return true;
}

/* The driver's versions of functions have names of their own, which cuGetProcAddress adds. */
static bool find_base(find_fn get, const char *symbol, void *pointer) {
    char name[64];
    snprintf(name, sizeof(name), "%s", symbol);
    size_t length = strlen(name);
    if (length > 3 && strcmp(&name[length - 3], "_v2") == 0) {
        name[length - 3] = '\0';
    }
    if (!find(get, name, pointer)) {
        hd_error("GPUs: the driver has no %s of CUDA %d.%d: it is too old", name,
                 HD_CUDA_VERSION / 1000, HD_CUDA_VERSION % 1000 / 10);
        return false;
    }
    return true;
}

static bool find_all(find_fn get) {
    bool all = true;
#define FIND(_name, _function) all = all && find_base(get, #_function, &hd_cu._name);
    HD_CUDA_FUNCTIONS(FIND)
    hd_cu.site = NULL;
    hd_cuda.emulated = find(get, "heddle_emucuda_site", &hd_cu.site);
    return all;
}

static ucc_status_t start(find_fn get) {
    int version = 0;
    if (!find(get, "cuDriverGetVersion", &hd_cu.DriverGetVersion) ||
        hd_cu.DriverGetVersion(&version) != CUDA_SUCCESS || version < HD_CUDA_VERSION) {
        hd_error("GPUs: the driver is of CUDA %d.%d, but %d.%d or later is needed", version / 1000,
                 version % 1000 / 10, HD_CUDA_VERSION / 1000, HD_CUDA_VERSION % 1000 / 10);
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (!find_all(get)) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    CUresult result = hd_cu.Init(0);
    if (result != CUDA_SUCCESS) {
        ucc_status_t status = hd_cuda_check(-1, result, "cuInit");
        return status == UCC_ERR_NO_MEMORY ? status : UCC_ERR_NOT_SUPPORTED;
    }
    return hd_cuda_find_devices();
}

__attribute__((visibility("default"))) ucc_status_t heddle_cuda_open(const hd_gpu_plug_t *plug,
                                                                     const hd_gpu_driver_t **out);

ucc_status_t heddle_cuda_open(const hd_gpu_plug_t *plug, const hd_gpu_driver_t **out) {
    find_fn get;
    hd_cuda_log_to(plug->log);
    if (plug->bytes != sizeof(driver) || strcmp(plug->version, HEDDLE_VERSION_STRING) != 0) {
        hd_error("GPUs: libheddle is %s, but libheddle_cuda is of another build, %s", plug->version,
                 HEDDLE_VERSION_STRING);
        return UCC_ERR_NOT_SUPPORTED;
    }
    hd_cuda.node_of = plug->node_of;
    memcpy(&get, &plug->get_proc_address, sizeof(get)); /* a pointer to a function */
    ucc_status_t status = start(get);
    if (status != UCC_OK) {
        close_all();
        return status;
    }
    driver.devices = hd_cuda.devices;
    driver.emulated = hd_cuda.emulated;
    *out = &driver;
    return UCC_OK;
}
