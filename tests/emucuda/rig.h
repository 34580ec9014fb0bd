/* rig.h: what the tests of the emulator share: kernels, a context that is set up, and calls that
 * must succeed.
 *
 * Kernels move 32-bit integers, a block for each 64 of them:
 *
 *     add    (target, a, b, count)        target[i] = a[i] + b[i]
 *     scale  (target, factor, count)      target[i] *= factor
 *     hide   (target, hidden, count)      target[i] = hidden[i], which it does not declare
 *     ring   (target, count, word, value) target[i] = value, and the last of its blocks sets *word
 *            to value
 */
#ifndef TESTS_EMUCUDA_RIG_H_
#define TESTS_EMUCUDA_RIG_H_

#include "emucuda/calls.h"
#include "heddle_emucuda.h"

#include <stdbool.h>
#include <stdint.h>

enum { RIG_BLOCK = 64 };

typedef struct rig {
    CUcontext context; /* of device 0, and current */
    CUmodule module;
    CUfunction add, scale, hide, ring;
} rig_t;

/* Aborts with a line, unless the status is CUDA_SUCCESS. */
#define must(call) rig_must((call), #call, __FILE__, __LINE__)
void rig_must(CUresult status, const char *call, const char *file, int line);

/* Findings are collected, not printed: rig_line(i) is the i-th line. */
rig_t rig_open(const char *config);
void rig_close(rig_t *rig); /* what is left of the program's is a leak, and the emulator is reset */
const char *rig_line(unsigned i);

/* Loads the kernels into the current context. */
void rig_load(rig_t *rig);

CUdeviceptr rig_alloc(size_t count);                        /* of 32-bit integers */
CUdeviceptr rig_alloc_filled(size_t count, uint32_t value); /* and waits until they are there */
uint32_t *rig_pinned(size_t count);
CUstream rig_stream(void); /* non-blocking */
CUevent rig_event(void);   /* without time */

CUresult rig_launch(CUfunction function, CUstream stream, uint32_t count, void **params);
void rig_add(const rig_t *rig, CUstream stream, CUdeviceptr target, CUdeviceptr a, CUdeviceptr b,
             uint32_t count);
void rig_scale(const rig_t *rig, CUstream stream, CUdeviceptr target, uint32_t factor,
               uint32_t count);

/* Waits for everything, and says whether all are value. */
bool rig_all(CUdeviceptr pointer, size_t count, uint32_t value);

heddle_emucuda_report_t rig_report(void);

#endif
