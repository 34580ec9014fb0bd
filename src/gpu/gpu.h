/* gpu.h: whether this process has GPUs, and how it gets at them (gpu.c).
 *
 * Nothing of CUDA is loaded before somebody needs it: a process that never loads libcuda.so.1
 * itself, and does not ask for it by HEDDLE_GPU, has no memory but the host's, and finding that out
 * costs a look into the loader's list. libcuda's cuInit is not called just to look, either: while
 * the program has not called it, there can be no memory of a device.
 *
 *     ucc_init      hd_gpu_configure(mode, library)         loads nothing, unless mode says so
 *     arguments     hd_gpu_memory_of(pointer, &memory)      where the memory type is unknown
 *     a team        hd_gpu_open(&driver) ... hd_gpu_close() while it has collectives on devices
 */
#ifndef HD_GPU_GPU_H
#define HD_GPU_GPU_H

#include "gpu/device.h"

#include <stdio.h>

/* HEDDLE_GPU and HEDDLE_GPU_LIBRARY; each library handle says it, and takes it back as it ends.
 * What counts is what the first said after there was none. mode is one of
 *
 *     auto                 CUDA where the program uses it
 *     n                    none: all memory is the host's
 *     cuda                 CUDA; loaded at once
 *     emulated[:CONFIG]    libheddle_emucuda, with this configuration (heddle_emucuda.h); loaded at
 *                          once
 *
 * Anything else is auto, with a line. Where what is loaded at once can't be, a line says why, and
 * there are no GPUs: that is no error here. */
ucc_status_t hd_gpu_configure(const char *mode, const char *library);
void hd_gpu_unconfigure(void);

/* Loads what is needed. UCC_ERR_NOT_SUPPORTED, with a line: there is no driver, it is too old,
 * HEDDLE_GPU forbids it, or the process is the child of a fork of one that had it. */
ucc_status_t hd_gpu_open(const hd_gpu_driver_t **driver);
void hd_gpu_close(void);

/* The process is such a child: it has no devices, and what it has of its parent's is not to be
 * waited for. */
bool hd_gpu_inherited(void);

/* What there is, if it is loaded or HEDDLE_GPU asks for it; UCC_ERR_NOT_FOUND, without a line,
 * otherwise. To be closed, too. */
ucc_status_t hd_gpu_peek(const hd_gpu_driver_t **driver);

/* Where CUDA is not in use, everything is HOST. */
ucc_status_t hd_gpu_memory_of(const void *pointer, hd_gpu_memory_t *memory);

/* For heddle_info: GPUs, their peers, and whose they should be of n endpoints. */
ucc_status_t hd_gpu_print(FILE *out, uint32_t n);

/* ---- what the host does, said to the emulator ----
 *
 * An emulated driver does not see what the host does by loads and stores: which words it has seen,
 * which memory it touches, and, with host=threads, how its threads order what they do. It is told.
 * With a real driver these are a load and a branch.
 */

extern _Atomic bool hd_gpu_told;

void hd_gpu_tell_handed(const void *token);
void hd_gpu_tell_taken(const void *token);
void hd_gpu_tell_touched(const void *pointer, size_t bytes, bool written);

/* Before the store by which others learn of what this thread has enqueued, and after their load of
 * it. */
static inline void hd_gpu_handed_over(const void *token) {
    /* relaxed: set before there is a device */
    if (__builtin_expect(atomic_load_explicit(&hd_gpu_told, memory_order_relaxed), 0)) {
        hd_gpu_tell_handed(token);
    }
}

static inline void hd_gpu_taken_over(const void *token) {
    if (__builtin_expect(atomic_load_explicit(&hd_gpu_told, memory_order_relaxed), 0)) {
        hd_gpu_tell_taken(token);
    }
}

/* The host reads or writes pinned memory that streams use as well. */
static inline void hd_gpu_touched(const void *pointer, size_t bytes, bool written) {
    if (__builtin_expect(atomic_load_explicit(&hd_gpu_told, memory_order_relaxed), 0)) {
        hd_gpu_tell_touched(pointer, bytes, written);
    }
}

/* Whether a stream has set the word to value, or more: what it did before has been done. */
static inline bool hd_gpu_word_reached(hd_gpu_flag_t *word, uint64_t value) {
    /* acquire: pairs with the device's write, which comes after its other writes for the whole
     * system */
    bool reached = atomic_load_explicit(word, memory_order_acquire) >= value;
    if (reached) {
        hd_gpu_taken_over(word);
    }
    return reached;
}

/* Opens a gate. */
static inline void hd_gpu_word_open(hd_gpu_flag_t *word, uint64_t value) {
    hd_gpu_handed_over(word);
    /* release: what the host wrote before is there for the stream's later work */
    atomic_store_explicit(word, value, memory_order_release);
}

#endif
