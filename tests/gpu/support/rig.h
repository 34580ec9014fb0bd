/* rig.h: what tests of devices share: an emulated driver, the table that is opened over it, and a
 * user's own memory and streams there. Those call the emulated driver, like a program that uses
 * CUDA.
 */
#ifndef TESTS_GPU_RIG_H_
#define TESTS_GPU_RIG_H_

#include "emucuda/calls.h"
#include "gpu/gpu.h"
#include "heddle_emucuda.h"

#include <stdbool.h>

/* HEDDLE_GPU=emulated:config. Lines of the log and findings of the emulator are kept from now on.
 * Aborts if there is no table. */
const hd_gpu_driver_t *rig_open(const char *config);
/* Closes it, and aborts if anything is left, or a line was logged or something found that nobody
 * has forgotten. */
void rig_close(void);
/* Without opening: for tests in which that may fail. */
void rig_watch(void);

unsigned rig_lines(void);    /* of the log */
const char *rig_line(void);  /* the last */
unsigned rig_found(void);    /* findings of the emulator */
const char *rig_find(void);  /* the last */
void rig_forget(void);       /* lines and findings so far */
bool rig_nothing_left(void); /* in the emulated driver; what there is, is printed */

/* Aborts unless CUDA_SUCCESS. */
#define rig_must(_call) rig_must_at((_call), #_call, __FILE__, __LINE__)
void rig_must_at(CUresult result, const char *call, const char *file, int line);

/* The user's: of the primary context of a device, which is retained until the end of the process.
 */
CUcontext rig_context(int device);
hd_gpu_stream_t rig_stream(int device);
void rig_stream_end(hd_gpu_stream_t stream);
void *rig_alloc(int device, size_t bytes); /* zeros, and they are there */
void rig_free(int device, void *memory);
void rig_release(int device); /* the context */
/* Waits, and gets what is there. */
void rig_read(int device, void *to, const void *from, size_t bytes);

#endif
