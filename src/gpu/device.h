/* device.h: GPUs, as the rest of Heddle sees them: one table of functions, which knows no type of
 * CUDA.
 *
 * The only implementation is libheddle_cuda (cuda/), over the CUDA driver interface, real or
 * emulated (heddle_emucuda.h). gpu.h says how a process gets the table; it stays until the last
 * hd_gpu_close.
 *
 * Every function may be called by any thread, with whatever context current, and leaves that
 * current again. Streams and addresses are the driver's: a cudaStream_t, a device pointer. Nothing
 * here waits for a device except event_await; nothing allocates on the way of a collective if what
 * it needs was taken before: what is put back is kept for the next who asks.
 *
 * Errors: a status, and one line in the log with the driver's call and its error. After an error
 * that a device does not recover from, or when it is gone, it is lost: lost() says so, every later
 * call there returns UCC_ERR_IO_ERROR without asking the driver and without a line, and what was
 * put back is not used again. In the child of a fork all functions return UCC_ERR_NOT_SUPPORTED,
 * with one line in all.
 */
#ifndef HD_GPU_DEVICE_H
#define HD_GPU_DEVICE_H

#include "gpu/site.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucc/api/ucc_status.h>

enum {
    HD_GPU_DEVICES = 64, /* at most, of a process */
    HD_GPU_STREAMS = 8   /* internal ones of a device, at most */
};

typedef struct hd_gpu_info {
    char name[64];
    char bus[16];     /* its PCI bus id: "0000:65:00.0" */
    int major, minor; /* compute capability */
    size_t bytes;     /* of memory */
    size_t l2_bytes;
    uint32_t multiprocessors;
    uint32_t width;    /* blocks of HD_GPU_THREADS threads that can run at once */
    uint64_t peers;    /* bit p: its kernels may reach memory of device p, as far as devices go */
    bool words;        /* streams can write and await words in memory of the host by themselves */
    bool host_managed; /* the host may touch managed memory while kernels run */
} hd_gpu_info_t;

/* What a pointer leads to. */
typedef enum hd_gpu_kind {
    HD_GPU_HOST,   /* memory of the host, of which the driver knows nothing */
    HD_GPU_PINNED, /* memory of the host that devices can reach */
    HD_GPU_DEVICE, /* memory of a device */
    HD_GPU_MANAGED /* moves between both */
} hd_gpu_kind_t;

typedef struct hd_gpu_memory {
    hd_gpu_kind_t kind;
    int device;    /* where it was allocated; -1: HOST */
    uint64_t base; /* the allocation that the pointer lies in; 0: HOST, or unknown */
    size_t bytes;
    /* of the allocation: no other gets it in this process, so that it tells whether memory was
     * freed and allocated anew; 0: HOST */
    uint64_t id;
} hd_gpu_memory_t;

typedef struct hd_gpu_block {
    void *memory;
    size_t bytes;
    int device;
    hd_gpu_kind_t kind;
} hd_gpu_block_t;

/* A stream, and the device that it is on: a caller's (stream_of), or an internal one. */
typedef struct hd_gpu_stream {
    int device;
    void *handle;
    bool by_thread; /* the handle means another stream in each thread: CU_STREAM_PER_THREAD */
} hd_gpu_stream_t;

/* Of the graph that a stream is being captured into. */
typedef struct hd_gpu_capture {
    bool active;
    bool broken; /* it was, and nothing can become part of it any more */
    uint64_t id; /* streams of one capture have the same; 0: none */
} hd_gpu_capture_t;

typedef struct hd_gpu_event hd_gpu_event_t;

/* 64 bits in pinned memory, on a line of its own, that a stream or the host sets, and the other
 * awaits. Devices have it at the same address. The host reads it by an acquire load
 * (hd_gpu_word_reached) and sets it by hd_gpu_word_open. */
typedef _Atomic uint64_t hd_gpu_flag_t;

struct hd_gpu_launch; /* kernel.h */

typedef struct hd_gpu_driver {
    /* ---- devices: numbers 0 .. devices - 1 ---- */
    uint32_t devices;
    bool emulated;
    ucc_status_t (*info)(int device, hd_gpu_info_t *info);
    /* Makes a device ready: retains its primary context, loads all kernels. Others do that when
     * they first need it; this is to have it done where time does not matter, and before anything
     * is captured. */
    ucc_status_t (*use)(int device);
    bool (*lost)(int device);

    /* ---- memory ---- */
    /* Never an error for memory of which the driver knows nothing; that is HOST. */
    ucc_status_t (*memory_of)(const void *pointer, hd_gpu_memory_t *memory);
    /* Whether kernels of the device may read and write there. To be asked once for each allocation.
     */
    ucc_status_t (*reachable)(int device, const void *pointer, bool *yes);
    /* A block of so many bytes or more, with any content, aligned to 256: of DEVICE memory there,
     * or of PINNED, which every device has at the same address. Who puts one back knows that
     * nothing uses it. */
    ucc_status_t (*take)(int device, hd_gpu_kind_t kind, size_t bytes, hd_gpu_block_t **block);
    void (*put)(hd_gpu_block_t *block);

    /* ---- streams ---- */
    /* Internal number i, modulo HD_GPU_STREAMS, of a device: it does not wait for the NULL stream.
     */
    ucc_status_t (*stream)(int device, uint32_t i, hd_gpu_stream_t *stream);
    /* A caller's. NULL and the driver's other special values mean those of the context that is
     * current. Streams of contexts other than devices' primary ones are UCC_ERR_NOT_SUPPORTED. */
    ucc_status_t (*stream_of)(void *handle, hd_gpu_stream_t *stream);

    /* ---- events: of one device, without time ---- */
    ucc_status_t (*event_take)(int device, hd_gpu_event_t **event);
    void (*event_put)(hd_gpu_event_t *event); /* nobody is going to wait for it */
    /* All that was enqueued there so far: replaces what it was before. The stream is of the event's
     * device. */
    ucc_status_t (*record)(hd_gpu_stream_t stream, hd_gpu_event_t *event);
    /* What is enqueued there later comes after what event was last recorded behind. */
    ucc_status_t (*wait)(hd_gpu_stream_t stream, hd_gpu_event_t *event, hd_gpu_site_t site);
    /* UCC_OK, UCC_INPROGRESS, or the error that the device has met. */
    ucc_status_t (*event_query)(hd_gpu_event_t *event, hd_gpu_site_t site);
    ucc_status_t (*event_await)(hd_gpu_event_t *event, hd_gpu_site_t site); /* the caller sleeps */

    /* ---- words ---- */
    ucc_status_t (*word_take)(int device, hd_gpu_flag_t **word); /* 0 */
    void (*word_put)(int device, hd_gpu_flag_t *word);           /* nobody is going to set it */
    /* The word gets the value after all earlier work in stream; whoever reads it (acquire) sees
     * what that wrote. */
    ucc_status_t (*signal)(hd_gpu_stream_t stream, hd_gpu_flag_t *word, uint64_t value);
    /* Later work in stream waits until the word is the value, or more. UCC_ERR_NOT_SUPPORTED,
     * without a line: the device can't (info.words). Only the host may open it: a gate for what a
     * stream is to do later breaks the rule that no wait is for anything that is not yet
     * enqueued. */
    ucc_status_t (*gate)(hd_gpu_stream_t stream, hd_gpu_flag_t *word, uint64_t value,
                         hd_gpu_site_t site);

    /* ---- work ---- */
    ucc_status_t (*launch)(hd_gpu_stream_t stream, const struct hd_gpu_launch *launch);
    /* Between memory of devices and pinned memory; to_device, from_device: where it is, -1 for the
     * host's. Devices need not reach each other. */
    ucc_status_t (*copy)(hd_gpu_stream_t stream, void *to, int to_device, const void *from,
                         int from_device, size_t bytes);

    /* ---- capture ---- */
    ucc_status_t (*capture)(hd_gpu_stream_t stream, hd_gpu_capture_t *capture);
    /* The graph that stream is captured into, and all that are made of it, have to be gone before
     * release is called: once, by any thread, also later than hd_gpu_close; it calls no function of
     * this table. On an error it never is. */
    ucc_status_t (*keep)(hd_gpu_stream_t stream, void (*release)(void *arg), void *arg);

    /* ---- for gpu.c ---- */
    void (*close)(void);  /* gives everything back; nobody is in a call or uses anything */
    void (*forked)(void); /* the process is the child of a fork */
} hd_gpu_driver_t;

#endif
