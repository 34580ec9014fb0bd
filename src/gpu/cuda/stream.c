/* stream.c: streams and events. */
#include "gpu/cuda/cuda.h"

#include "core/log.h"

#include <stdlib.h>

/* The next wait of this thread has that number in the source. */
static void at_site(hd_gpu_site_t site) {
    if (hd_cu.site) {
        hd_cu.site((uint32_t)site);
    }
}

/* ---- streams ---- */

ucc_status_t hd_cuda_stream(int device, uint32_t i, hd_gpu_stream_t *stream) {
    hd_cuda_scope_t scope;
    ucc_status_t status = hd_cuda_enter_relaxed(device, &scope);
    if (status != UCC_OK) {
        return status;
    }
    hd_cuda_device_t *d = &hd_cuda.device[device];
    i %= HD_GPU_STREAMS;
    pthread_mutex_lock(&d->lock);
    if (!d->stream[i]) {
        status = hd_cuda_check(device, hd_cu.StreamCreate(&d->stream[i], CU_STREAM_NON_BLOCKING),
                               "cuStreamCreate");
        d->stream[i] = status == UCC_OK ? d->stream[i] : NULL;
    }
    *stream = (hd_gpu_stream_t){.device = device, .handle = d->stream[i]};
    pthread_mutex_unlock(&d->lock);
    hd_cuda_leave(&scope);
    return status;
}

static ucc_status_t not_primary(CUstream stream) {
    hd_error(
        "GPUs: stream %p is of a context that is no device's primary one, which is the one that "
        "CUDA's runtime uses",
        (void *)stream);
    return UCC_ERR_NOT_SUPPORTED;
}

/* The device of the current context, and whether that is its primary one. */
static ucc_status_t device_of_current(CUstream stream, CUcontext context, int *device) {
    CUdevice handle = -1;
    ucc_status_t status = hd_cuda_check(-1, hd_cu.CtxGetDevice(&handle), "cuCtxGetDevice");
    int found = 0;
    while ((uint32_t)found < hd_cuda.devices && hd_cuda.device[found].handle != handle) {
        found++;
    }
    if (status == UCC_OK) {
        status = hd_cuda_use(found);
    }
    if (status == UCC_OK && hd_cuda.device[found].context != context) {
        status = not_primary(stream);
    }
    *device = found;
    return status;
}

static ucc_status_t device_of(CUstream stream, CUcontext context, int *device) {
    for (uint32_t i = 0; i < hd_cuda.devices; i++) {
        hd_cuda_device_t *d = &hd_cuda.device[i];
        /* acquire: has the context with it */
        if (atomic_load_explicit(&d->ready, memory_order_acquire) && d->context == context) {
            *device = (int)i;
            return UCC_OK;
        }
    }
    CUcontext before = NULL;
    ucc_status_t status = hd_cuda_check(-1, hd_cu.CtxGetCurrent(&before), "cuCtxGetCurrent");
    if (status == UCC_OK && before != context) {
        status = hd_cuda_check(-1, hd_cu.CtxPushCurrent(context), "cuCtxPushCurrent");
    }
    if (status == UCC_OK) {
        status = device_of_current(stream, context, device);
        ucc_status_t popping = before != context ? hd_cuda_pop(-1, before) : UCC_OK;
        status = status == UCC_OK ? popping : status;
    }
    return status;
}

/* A driver may want some context to be current before it answers. Any will do that is there
 * already: one that has to be made would take memory of a device that the program may not use at
 * all. */
static ucc_status_t context_of(CUstream stream, CUcontext *context) {
    hd_cuda_scope_t scope;
    CUresult result = hd_cu.StreamGetCtx(stream, context);
    for (uint32_t i = 0; i < hd_cuda.devices && result == CUDA_ERROR_INVALID_CONTEXT; i++) {
        unsigned int flags;
        int active = 0;
        ucc_status_t status = hd_cuda_check(
            (int)i, hd_cu.DevicePrimaryCtxGetState(hd_cuda.device[i].handle, &flags, &active),
            "cuDevicePrimaryCtxGetState");
        if (status == UCC_OK && active && !hd_cuda_lost((int)i)) {
            status = hd_cuda_enter((int)i, &scope);
            if (status == UCC_OK) {
                result = hd_cu.StreamGetCtx(stream, context);
                hd_cuda_leave(&scope);
            }
        }
        if (status != UCC_OK) {
            return status;
        }
    }
    if (result == CUDA_ERROR_INVALID_CONTEXT) { /* no device's primary one is there */
        *context = NULL;
        return not_primary(stream);
    }
    return hd_cuda_check_all(result, "cuStreamGetCtx");
}

ucc_status_t hd_cuda_stream_of(void *handle, hd_gpu_stream_t *stream) {
    CUcontext context = NULL;
    CUstream known = handle;
    bool special = !known || known == CU_STREAM_LEGACY || known == CU_STREAM_PER_THREAD;
    ucc_status_t status = hd_cuda_alive();
    if (status != UCC_OK) {
        return status;
    }
    *stream = (hd_gpu_stream_t){
        .device = -1, .handle = handle, .by_thread = known == CU_STREAM_PER_THREAD};
    status = special ? hd_cuda_check(-1, hd_cu.CtxGetCurrent(&context), "cuCtxGetCurrent")
                     : context_of(known, &context);
    if (status == UCC_OK && !context) {
        hd_error("GPUs: stream %p is of the current context, but no context is current", handle);
        status = UCC_ERR_INVALID_PARAM;
    }
    return status == UCC_OK ? device_of(known, context, &stream->device) : status;
}

/* ---- events ---- */

static ucc_status_t make_event(int device, hd_gpu_event_t **out) {
    hd_cuda_scope_t scope;
    hd_cuda_device_t *d = &hd_cuda.device[device];
    ucc_status_t status = hd_cuda_enter_relaxed(device, &scope);
    if (status != UCC_OK) {
        return status;
    }
    hd_gpu_event_t *event = calloc(1, sizeof(*event));
    if (!event) {
        hd_error("GPU %d: no memory", device);
        status = UCC_ERR_NO_MEMORY;
    } else {
        event->device = device;
        status = hd_cuda_check(device, hd_cu.EventCreate(&event->handle, CU_EVENT_DISABLE_TIMING),
                               "cuEventCreate");
    }
    hd_cuda_leave(&scope);
    if (status != UCC_OK) {
        free(event);
        return status;
    }
    pthread_mutex_lock(&d->lock);
    event->next_made = d->event;
    d->event = event;
    pthread_mutex_unlock(&d->lock);
    *out = event;
    return UCC_OK;
}

ucc_status_t hd_cuda_event_take(int device, hd_gpu_event_t **out) {
    ucc_status_t status = hd_cuda_use(device);
    if (status == UCC_OK && hd_cuda_lost(device)) {
        status = UCC_ERR_IO_ERROR;
    }
    if (status != UCC_OK) {
        return status;
    }
    hd_cuda_device_t *d = &hd_cuda.device[device];
    pthread_mutex_lock(&d->lock);
    hd_gpu_event_t *event = d->free_event;
    d->free_event = event ? event->next : NULL;
    pthread_mutex_unlock(&d->lock);
    *out = event;
    return event ? UCC_OK : make_event(device, out);
}

void hd_cuda_event_put(hd_gpu_event_t *event) {
    if (hd_cuda_alive() != UCC_OK) {
        return;
    }
    hd_cuda_device_t *d = &hd_cuda.device[event->device];
    pthread_mutex_lock(&d->lock);
    event->next = d->free_event;
    d->free_event = event;
    pthread_mutex_unlock(&d->lock);
}

ucc_status_t hd_cuda_record(hd_gpu_stream_t stream, hd_gpu_event_t *event) {
    hd_cuda_scope_t scope;
    ucc_status_t status = hd_cuda_enter(stream.device, &scope);
    if (status == UCC_OK) {
        status = hd_cuda_check(stream.device, hd_cu.EventRecord(event->handle, stream.handle),
                               "cuEventRecord");
        hd_cuda_leave(&scope);
    }
    return status;
}

ucc_status_t hd_cuda_wait(hd_gpu_stream_t stream, hd_gpu_event_t *event, hd_gpu_site_t site) {
    hd_cuda_scope_t scope;
    if (hd_cuda_lost(event->device)) { /* it never comes, or nobody knows what came before it */
        return UCC_ERR_IO_ERROR;
    }
    ucc_status_t status = hd_cuda_enter(stream.device, &scope);
    if (status == UCC_OK) {
        at_site(site);
        status = hd_cuda_check_among(stream.device, event->device, -1,
                                     hd_cu.StreamWaitEvent(stream.handle, event->handle, 0),
                                     "cuStreamWaitEvent");
        hd_cuda_leave(&scope);
    }
    return status;
}

ucc_status_t hd_cuda_event_query(hd_gpu_event_t *event, hd_gpu_site_t site) {
    hd_cuda_scope_t scope;
    ucc_status_t status = hd_cuda_enter_relaxed(event->device, &scope);
    if (status == UCC_OK) {
        at_site(site);
        status = hd_cuda_check(event->device, hd_cu.EventQuery(event->handle), "cuEventQuery");
        hd_cuda_leave(&scope);
    }
    return status;
}

ucc_status_t hd_cuda_event_await(hd_gpu_event_t *event, hd_gpu_site_t site) {
    hd_cuda_scope_t scope;
    ucc_status_t status = hd_cuda_enter_relaxed(event->device, &scope);
    if (status == UCC_OK) {
        at_site(site);
        status = hd_cuda_check(event->device, hd_cu.EventSynchronize(event->handle),
                               "cuEventSynchronize");
        hd_cuda_leave(&scope);
    }
    return status;
}

ucc_status_t hd_cuda_gate(hd_gpu_stream_t stream, hd_gpu_flag_t *word, uint64_t value,
                          hd_gpu_site_t site) {
    hd_cuda_scope_t scope;
    ucc_status_t status = hd_cuda_enter(stream.device, &scope);
    if (status != UCC_OK) {
        return status;
    }
    if (!hd_cuda.device[stream.device].info.words) {
        status = UCC_ERR_NOT_SUPPORTED;
    } else {
        at_site(site);
        status = hd_cuda_check(stream.device,
                               hd_cu.StreamWaitValue64(stream.handle, (CUdeviceptr)(uintptr_t)word,
                                                       value, CU_STREAM_WAIT_VALUE_GEQ),
                               "cuStreamWaitValue64");
    }
    hd_cuda_leave(&scope);
    return status;
}

/* ---- the end ---- */

void hd_cuda_free_streams(hd_cuda_device_t *d) {
    int device = (int)(d - hd_cuda.device);
    for (hd_gpu_event_t *event = d->event, *next; event; event = next) {
        next = event->next_made;
        hd_cuda_check_freed(device, hd_cu.EventDestroy(event->handle), "cuEventDestroy");
        free(event);
    }
    for (int i = 0; i < HD_GPU_STREAMS; i++) {
        if (d->stream[i]) {
            hd_cuda_check_freed(device, hd_cu.StreamDestroy(d->stream[i]), "cuStreamDestroy");
        }
    }
}
