/* memory.c: what a pointer leads to, and blocks that are kept for those who need some again. */
#include "gpu/cuda/cuda.h"

#include "core/log.h"

#include <stdlib.h>
#include <string.h>

/* ---- pointers ---- */

ucc_status_t hd_cuda_memory_of(const void *pointer, hd_gpu_memory_t *memory) {
    unsigned int type = 0, managed = 0;
    int device = -1;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    unsigned long long id = 0;
    CUpointer_attribute what[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_BUFFER_ID};
    void *values[] = {&type, &managed, &device, &base, &bytes, &id};
    *memory = (hd_gpu_memory_t){.kind = HD_GPU_HOST, .device = -1};
    ucc_status_t status = hd_cuda_alive();
    if (status == UCC_OK) {
        status = hd_cuda_check(-1,
                               hd_cu.PointerGetAttributes(sizeof(what) / sizeof(*what), what,
                                                          values, (CUdeviceptr)(uintptr_t)pointer),
                               "cuPointerGetAttributes");
    }
    if (status != UCC_OK || type == 0) {
        return status;
    }
    *memory = (hd_gpu_memory_t){.kind = managed                      ? HD_GPU_MANAGED
                                        : type == CU_MEMORYTYPE_HOST ? HD_GPU_PINNED
                                                                     : HD_GPU_DEVICE,
                                .device = device,
                                .base = base,
                                .bytes = bytes,
                                .id = id};
    return UCC_OK;
}

/* An attribute of memory that the device of the current context may have no answer for: zero then.
 */
static ucc_status_t ask(int device, const void *pointer, CUpointer_attribute attribute,
                        const char *call, void *value) {
    CUresult result = hd_cu.PointerGetAttribute(value, attribute, (CUdeviceptr)(uintptr_t)pointer);
    return result == CUDA_ERROR_INVALID_VALUE ? UCC_OK : hd_cuda_check(device, result, call);
}

/* Access flags speak of memory of devices. */
static ucc_status_t may_access(int device, const void *pointer, bool *yes) {
    unsigned int flags = 0;
    ucc_status_t status = ask(device, pointer, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
                              "cuPointerGetAttribute(ACCESS_FLAGS)", &flags);
    *yes = status == UCC_OK && flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return status;
}

/* Memory that the program has registered may have another address on devices, which is not the one
 * that kernels are given. */
static ucc_status_t has_this_address(int device, const void *pointer, bool *yes) {
    CUdeviceptr there = 0;
    ucc_status_t status = ask(device, pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                              "cuPointerGetAttribute(DEVICE_POINTER)", &there);
    *yes = status == UCC_OK && there == (CUdeviceptr)(uintptr_t)pointer;
    return status;
}

/* Plain memory of another device is reached once its context has been opened for this one's; for
 * memory of pools and what is mapped page by page, that is the program's to decide, and this
 * changes nothing. */
static ucc_status_t reach_peer(int device, int peer) {
    hd_cuda_device_t *d = &hd_cuda.device[device];
    bool can = peer >= 0 && peer != device && (d->info.peers >> peer & 1) != 0;
    ucc_status_t status = can ? hd_cuda_use(peer) : UCC_OK;
    if (!can || status != UCC_OK) {
        return status;
    }
    pthread_mutex_lock(&d->lock);
    if ((d->reaches >> peer & 1) == 0) {
        CUresult result = hd_cu.CtxEnablePeerAccess(hd_cuda.device[peer].context, 0);
        if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
            status = hd_cuda_check(device, result, "cuCtxEnablePeerAccess");
        }
        d->reaches |= (uint64_t)(status == UCC_OK) << peer;
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* Its own, or a peer's. */
static ucc_status_t reaches_device(int device, int owner, const void *pointer, bool *yes) {
    ucc_status_t status = may_access(device, pointer, yes);
    if (status == UCC_OK && !*yes) {
        status = reach_peer(device, owner);
        status = status == UCC_OK ? may_access(device, pointer, yes) : status;
    }
    return status;
}

ucc_status_t hd_cuda_reachable(int device, const void *pointer, bool *yes) {
    hd_cuda_scope_t scope;
    hd_gpu_memory_t memory;
    *yes = false;
    ucc_status_t status = hd_cuda_enter_relaxed(device, &scope);
    if (status != UCC_OK) {
        return status;
    }
    status = hd_cuda_memory_of(pointer, &memory);
    if (status == UCC_OK && memory.kind == HD_GPU_DEVICE) {
        status = reaches_device(device, memory.device, pointer, yes);
    } else if (status == UCC_OK && memory.kind == HD_GPU_PINNED) {
        status = has_this_address(device, pointer, yes);
    } else {
        *yes = status == UCC_OK && memory.kind == HD_GPU_MANAGED; /* it comes to whoever uses it */
    }
    hd_cuda_leave(&scope);
    return status;
}

/* ---- blocks ---- */

enum { LEAST = 12 }; /* 4096 bytes */

static unsigned size_of(size_t bytes) {
    unsigned size = LEAST;
    while (size < HD_CUDA_SIZES && ((size_t)1 << size) < bytes) {
        size++;
    }
    return size;
}

static ucc_status_t allocate(int device, hd_cuda_block_t *block) {
    hd_cuda_scope_t scope;
    CUdeviceptr pointer = 0;
    ucc_status_t status = hd_cuda_enter_relaxed(device, &scope);
    if (status != UCC_OK) {
        return status;
    }
    if (block->shown.kind == HD_GPU_PINNED) {
        bool changed;
        hd_cuda_near(&hd_cuda.device[device], &changed);
        CUresult result = hd_cu.MemHostAlloc(&block->shown.memory, block->shown.bytes,
                                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
        hd_cuda_near_end(changed);
        status = hd_cuda_check(device, result, "cuMemHostAlloc");
    } else {
        status = hd_cuda_check(device, hd_cu.MemAlloc(&pointer, block->shown.bytes), "cuMemAlloc");
        block->shown.memory = (void *)(uintptr_t)pointer;
    }
    hd_cuda_leave(&scope);
    return status;
}

static ucc_status_t make_block(int device, hd_gpu_kind_t kind, unsigned size,
                               hd_cuda_block_t **out) {
    hd_cuda_device_t *d = &hd_cuda.device[device];
    hd_cuda_block_t *block = calloc(1, sizeof(*block));
    if (!block) {
        hd_error("GPU %d: no memory", device);
        return UCC_ERR_NO_MEMORY;
    }
    block->size = size;
    block->shown = (hd_gpu_block_t){.bytes = (size_t)1 << size, .device = device, .kind = kind};
    ucc_status_t status = allocate(device, block);
    if (status != UCC_OK) {
        free(block);
        return status;
    }
    pthread_mutex_lock(&d->lock);
    block->next_made = d->block;
    d->block = block;
    pthread_mutex_unlock(&d->lock);
    *out = block;
    return UCC_OK;
}

/* What is kept of a lost device is nothing to be used. */
static ucc_status_t use_working(int device) {
    ucc_status_t status = hd_cuda_use(device);
    return status == UCC_OK && hd_cuda_lost(device) ? UCC_ERR_IO_ERROR : status;
}

/* Where those of a size are kept. */
static hd_cuda_block_t **shelf(hd_cuda_device_t *d, hd_gpu_kind_t kind, unsigned size) {
    return &d->free_block[kind == HD_GPU_PINNED][size];
}

ucc_status_t hd_cuda_take(int device, hd_gpu_kind_t kind, size_t bytes, hd_gpu_block_t **out) {
    unsigned size = size_of(bytes);
    if ((kind != HD_GPU_PINNED && kind != HD_GPU_DEVICE) || size == HD_CUDA_SIZES) {
        hd_error("GPU %d: no block of %zu bytes", device, bytes);
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = use_working(device);
    if (status != UCC_OK) {
        return status;
    }
    hd_cuda_device_t *d = &hd_cuda.device[device];
    pthread_mutex_lock(&d->lock);
    hd_cuda_block_t **from = shelf(d, kind, size), *block = *from;
    *from = block ? block->next : NULL;
    pthread_mutex_unlock(&d->lock);
    if (!block) {
        status = make_block(device, kind, size, &block);
    }
    *out = status == UCC_OK ? &block->shown : NULL;
    return status;
}

void hd_cuda_put(hd_gpu_block_t *shown) {
    hd_cuda_block_t *block = (hd_cuda_block_t *)(void *)shown; /* which begins with it */
    if (hd_cuda_alive() != UCC_OK) {
        return; /* a copy of the parent's */
    }
    hd_cuda_device_t *d = &hd_cuda.device[shown->device];
    pthread_mutex_lock(&d->lock);
    hd_cuda_block_t **to = shelf(d, shown->kind, block->size);
    block->next = *to;
    *to = block;
    pthread_mutex_unlock(&d->lock);
}

/* ---- words ---- */

ucc_status_t hd_cuda_word_take(int device, hd_gpu_flag_t **out) {
    hd_gpu_block_t *block;
    ucc_status_t status = use_working(device);
    if (status != UCC_OK) {
        return status;
    }
    hd_cuda_device_t *d = &hd_cuda.device[device];
    pthread_mutex_lock(&d->lock);
    hd_cuda_word_t *word = d->free_word;
    d->free_word = word ? word->next : NULL;
    pthread_mutex_unlock(&d->lock);
    if (!word) { /* another block of them, of which the first is the caller's */
        status = hd_cuda_take(device, HD_GPU_PINNED, 1, &block);
        if (status != UCC_OK) {
            return status;
        }
        word = block->memory;
        for (size_t i = 1; i < block->bytes / sizeof(*word); i++) {
            hd_cuda_word_put(device, &word[i].value);
        }
    }
    /* relaxed: nobody else knows it yet */
    atomic_store_explicit(&word->value, 0, memory_order_relaxed);
    *out = &word->value;
    return UCC_OK;
}

void hd_cuda_word_put(int device, hd_gpu_flag_t *value) {
    hd_cuda_word_t *word = (hd_cuda_word_t *)(void *)value; /* which begins with it */
    if (hd_cuda_alive() != UCC_OK) {
        return;
    }
    hd_cuda_device_t *d = &hd_cuda.device[device];
    pthread_mutex_lock(&d->lock);
    word->next = d->free_word;
    d->free_word = word;
    pthread_mutex_unlock(&d->lock);
}

/* ---- the end ---- */

void hd_cuda_free_memory(hd_cuda_device_t *d) {
    int device = (int)(d - hd_cuda.device);
    for (hd_cuda_block_t *block = d->block, *next; block; block = next) {
        next = block->next_made;
        if (block->shown.kind == HD_GPU_PINNED) {
            hd_cuda_check_freed(device, hd_cu.MemFreeHost(block->shown.memory), "cuMemFreeHost");
        } else {
            hd_cuda_check_freed(device, hd_cu.MemFree((CUdeviceptr)(uintptr_t)block->shown.memory),
                                "cuMemFree");
        }
        free(block);
    }
}
