/* capture.c: streams that are being captured into a graph. */
#include "gpu/cuda/cuda.h"

#include "core/log.h"

#include <stdlib.h>

static ucc_status_t ask(hd_gpu_stream_t stream, hd_gpu_capture_t *capture, CUgraph *graph) {
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    *capture = (hd_gpu_capture_t){.active = false};
    ucc_status_t status = hd_cuda_check(
        stream.device, hd_cu.StreamGetCaptureInfo(stream.handle, &state, &id, graph, NULL, NULL),
        "cuStreamGetCaptureInfo");
    capture->broken = status == UCC_OK && state == CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    if (status == UCC_OK && state == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        *capture = (hd_gpu_capture_t){.active = true, .id = id};
    }
    return status;
}

ucc_status_t hd_cuda_capture(hd_gpu_stream_t stream, hd_gpu_capture_t *capture) {
    hd_cuda_scope_t scope;
    CUgraph graph = NULL;
    *capture = (hd_gpu_capture_t){.active = false};
    ucc_status_t status = hd_cuda_enter(stream.device, &scope);
    if (status == UCC_OK) {
        status = ask(stream, capture, &graph);
        hd_cuda_leave(&scope);
    }
    return status;
}

/* What a graph holds. */
typedef struct kept {
    void (*release)(void *arg);
    void *arg;
    bool dropped; /* the graph does not hold it after all */
} kept_t;

static void let_go(void *arg) {
    kept_t *kept = arg;
    if (!kept->dropped) {
        kept->release(kept->arg);
    }
    free(kept);
}

static ucc_status_t hold(int device, CUgraph graph, kept_t *kept) {
    CUuserObject object = NULL;
    ucc_status_t status = hd_cuda_check(
        device, hd_cu.UserObjectCreate(&object, kept, let_go, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
        "cuUserObjectCreate");
    if (status != UCC_OK) {
        free(kept);
        return status;
    }
    status = hd_cuda_check(device,
                           hd_cu.GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE),
                           "cuGraphRetainUserObject");
    if (status != UCC_OK) {
        kept->dropped = true; /* the driver orders this before let_go */
        hd_cuda_check_freed(device, hd_cu.UserObjectRelease(object, 1), "cuUserObjectRelease");
    }
    return status;
}

ucc_status_t hd_cuda_keep(hd_gpu_stream_t stream, void (*release)(void *arg), void *arg) {
    hd_cuda_scope_t scope;
    hd_gpu_capture_t capture;
    CUgraph graph = NULL;
    ucc_status_t status = hd_cuda_enter_relaxed(stream.device, &scope);
    if (status != UCC_OK) {
        return status;
    }
    status = ask(stream, &capture, &graph);
    if (status == UCC_OK && !capture.active) {
        hd_error("GPU %d: stream %p is not being captured%s", stream.device, stream.handle,
                 capture.broken ? " any more: the capture has been broken" : "");
        status = UCC_ERR_INVALID_PARAM;
    }
    kept_t *kept = status == UCC_OK ? malloc(sizeof(*kept)) : NULL;
    if (kept) {
        *kept = (kept_t){release, arg, false};
        status = hold(stream.device, graph, kept);
    } else if (status == UCC_OK) {
        hd_error("GPU %d: no memory", stream.device);
        status = UCC_ERR_NO_MEMORY;
    }
    hd_cuda_leave(&scope);
    return status;
}
