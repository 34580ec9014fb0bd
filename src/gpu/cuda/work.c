/* work.c: what streams are given to do: kernels, copies, words. */
#include "gpu/cuda/cuda.h"

static ucc_status_t launch(hd_gpu_stream_t stream, const hd_gpu_launch_t *what) {
    /* The driver copies the argument before it returns. */
    void *params[] = {(void *)(uintptr_t)&what->args};
    CUfunction kernel = hd_cuda.device[stream.device].kernel[what->kernel];
    return hd_cuda_check(stream.device,
                         hd_cu.LaunchKernel(kernel, what->blocks, what->parts, 1, what->threads, 1,
                                            1, 0, stream.handle, params, NULL),
                         "cuLaunchKernel");
}

ucc_status_t hd_cuda_launch(hd_gpu_stream_t stream, const struct hd_gpu_launch *what) {
    hd_cuda_scope_t scope;
    if (what->blocks == 0) {
        return UCC_OK;
    }
    ucc_status_t status = hd_cuda_enter(stream.device, &scope);
    if (status == UCC_OK) {
        status = launch(stream, what);
        hd_cuda_leave(&scope);
    }
    return status;
}

/* Another device's memory takes its context, and works only if it does. */
static ucc_status_t use_memory_of(int device, hd_gpu_stream_t stream) {
    ucc_status_t status = device < 0 || device == stream.device ? UCC_OK : hd_cuda_use(device);
    return status == UCC_OK && hd_cuda_lost(device) ? UCC_ERR_IO_ERROR : status;
}

ucc_status_t hd_cuda_copy(hd_gpu_stream_t stream, void *to, int to_device, const void *from,
                          int from_device, size_t bytes) {
    hd_cuda_scope_t scope;
    CUdeviceptr target = (CUdeviceptr)(uintptr_t)to, source = (CUdeviceptr)(uintptr_t)from;
    bool peers = to_device >= 0 && from_device >= 0 && to_device != from_device;
    if (bytes == 0) {
        return UCC_OK;
    }
    ucc_status_t status = use_memory_of(to_device, stream);
    status = status == UCC_OK ? use_memory_of(from_device, stream) : status;
    status = status == UCC_OK ? hd_cuda_enter(stream.device, &scope) : status;
    if (status != UCC_OK) {
        return status;
    }
    CUresult result =
        peers ? hd_cu.MemcpyPeerAsync(target, hd_cuda.device[to_device].context, source,
                                      hd_cuda.device[from_device].context, bytes, stream.handle)
              : hd_cu.MemcpyAsync(target, source, bytes, stream.handle);
    status = hd_cuda_check_among(stream.device, to_device, from_device, result,
                                 peers ? "cuMemcpyPeerAsync" : "cuMemcpyAsync");
    hd_cuda_leave(&scope);
    return status;
}

ucc_status_t hd_cuda_signal(hd_gpu_stream_t stream, hd_gpu_flag_t *word, uint64_t value) {
    hd_cuda_scope_t scope;
    hd_gpu_launch_t by_kernel;
    ucc_status_t status = hd_cuda_enter(stream.device, &scope);
    if (status != UCC_OK) {
        return status;
    }
    if (hd_cuda.device[stream.device].info.words) {
        /* With a barrier: earlier work's writes are there for the whole system. */
        status = hd_cuda_check(stream.device,
                               hd_cu.StreamWriteValue64(stream.handle, (CUdeviceptr)(uintptr_t)word,
                                                        value, CU_STREAM_WRITE_VALUE_DEFAULT),
                               "cuStreamWriteValue64");
    } else {
        hd_gpu_write_word(&by_kernel, (uint64_t *)(uintptr_t)word, value);
        status = launch(stream, &by_kernel);
    }
    hd_cuda_leave(&scope);
    return status;
}
