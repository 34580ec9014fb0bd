/* error.c: the driver's errors, as statuses and lines of the log. Each call of the driver passes
 * its result through here, on any thread; which device an error is about, where nobody says so,
 * probe.c finds out.
 */
#include "gpu/cuda/cuda.h"

#include "core/log.h"

/* Errors after which a device does nothing any more in this process. Numbers that cuda_abi.h
 * does not name: the assertion of a kernel, bad instructions and addresses, and links between
 * devices. */
bool hd_cuda_loses_device(CUresult result) {
    enum { NVLINK_UNCORRECTABLE = 220, ASSERT = 710, HARDWARE_STACK_ERROR = 714, INVALID_PC = 718 };
    switch ((int)result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case ASSERT:
    case CUDA_ERROR_LAUNCH_FAILED:
        return true;
    default:
        return (int)result >= HARDWARE_STACK_ERROR && (int)result <= INVALID_PC;
    }
}

static ucc_status_t status_of(CUresult result) {
    switch ((int)result) {
    case CUDA_SUCCESS:
        return UCC_OK;
    case CUDA_ERROR_NOT_READY:
        return UCC_INPROGRESS;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return UCC_ERR_NO_MEMORY;
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
        return UCC_ERR_NO_RESOURCE;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_INVALID_HANDLE:
        return UCC_ERR_INVALID_PARAM;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_NOT_SUPPORTED:
        return UCC_ERR_NOT_SUPPORTED;
    case CUDA_ERROR_TIMEOUT:
        return UCC_ERR_TIMED_OUT;
    default: /* what breaks a capture, or is forbidden in one, is the caller's mistake */
        return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
                       result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
                   ? UCC_ERR_INVALID_PARAM
                   : UCC_ERR_IO_ERROR;
    }
}

static void tell(int device, CUresult result, const char *call, const char *what) {
    const char *name = NULL, *text = NULL;
    (void)hd_cu.GetErrorName(result, &name);
    (void)hd_cu.GetErrorString(result, &text);
    name = name ? name : "an unknown error";
    text = text ? text : "";
    if (device < 0) {
        hd_error("GPUs: %s: %s (%d) %s", call, name, (int)result, text);
    } else {
        hd_error("GPU %d: %s: %s (%d) %s%s", device, call, name, (int)result, text, what);
    }
}

ucc_status_t hd_cuda_check(int device, CUresult result, const char *call) {
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) {
        return status_of(result);
    }
    if (device < 0 || !hd_cuda_loses_device(result)) {
        tell(device, result, call, "");
        return status_of(result);
    }
    /* relaxed: whoever reads it needs nothing else */
    if (!atomic_exchange_explicit(&hd_cuda.device[device].lost, true, memory_order_relaxed)) {
        tell(device, result, call, "; it is lost");
    }
    return UCC_ERR_IO_ERROR;
}

void hd_cuda_check_freed(int device, CUresult result, const char *call) {
    if (result != CUDA_SUCCESS && !hd_cuda_lost(device)) {
        (void)hd_cuda_check(device, result, call);
    }
}

ucc_status_t hd_cuda_alive(void) {
    static _Atomic bool said;
    /* relaxed, both: set in the child before it has other threads; and a line too many does no
     * harm */
    if (!atomic_load_explicit(&hd_cuda.forked, memory_order_relaxed)) {
        return UCC_OK;
    }
    if (!atomic_exchange_explicit(&said, true, memory_order_relaxed)) {
        hd_error("GPUs: this process is the child of a fork of one that used them: CUDA can't be "
                 "used in it");
    }
    return UCC_ERR_NOT_SUPPORTED;
}
