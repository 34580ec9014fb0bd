/* driver.h: the few functions of the CUDA driver that train.c calls, found at run time, so that the
 * example also runs where there is no GPU. A program that has CUDA anyway includes cuda.h, or
 * cuda_runtime.h, and needs nothing of this: Heddle uses the same contexts as CUDA's runtime.
 */
#ifndef DRIVER_H_
#define DRIVER_H_

#include <dlfcn.h>
#include <heddle/heddle_version.h>
#include <heddle_emucuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER(F)                                                                                  \
    F(Init, (unsigned flags))                                                                      \
    F(DeviceGetCount, (int *count))                                                                \
    F(DeviceGetName, (char *name, int bytes, int device))                                          \
    F(DevicePrimaryCtxRetain, (void **context, int device))                                        \
    F(DevicePrimaryCtxRelease_v2, (int device))                                                    \
    F(CtxSetCurrent, (void *context))                                                              \
    F(ModuleLoadData, (void **module, const void *image))                                          \
    F(ModuleUnload, (void *module))                                                                \
    F(ModuleGetFunction, (void **function, void *module, const char *name))                        \
    F(MemAlloc_v2, (uint64_t * memory, size_t bytes))                                              \
    F(MemFree_v2, (uint64_t memory))                                                               \
    F(MemcpyHtoD_v2, (uint64_t to, const void *from, size_t bytes))                                \
    F(MemcpyDtoH_v2, (void *to, uint64_t from, size_t bytes))                                      \
    F(StreamCreate, (void **stream, unsigned flags))                                               \
    F(StreamSynchronize, (void *stream))                                                           \
    F(StreamDestroy_v2, (void *stream))                                                            \
    F(LaunchKernel,                                                                                \
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,            \
       unsigned bz, unsigned shared, void *stream, void **params, void **extra))

#define DRIVER_MEMBER(_name, _params) int(*_name) _params;
static struct { DRIVER(DRIVER_MEMBER) } cu;

static void *cu_library;

/* Every one of them returns 0, or the program ends. */
#define CU(_call) cu_must(cu._call, "cu" #_call)

static void cu_must(int result, const char *call) {
    if (result != 0) {
        fprintf(stderr, "train: %s: error %d\n", call, result);
        exit(2);
    }
}

/* The driver that Heddle uses: of a GPU, or with HEDDLE_GPU=emulated:N the emulated one, which a
 * group has loaded. */
static void cu_load(int emulated) {
    char name[64] = "libcuda.so.1";
    void *found;
    if (emulated) {
        snprintf(name, sizeof(name), "libheddle_emucuda.so.%d", HEDDLE_VERSION_MAJOR);
    }
    cu_library = dlopen(name, emulated ? RTLD_NOW | RTLD_NOLOAD : RTLD_NOW);
    cu_must(!cu_library, name);
#define DRIVER_FIND(_name, _params)                                                                \
    found = dlsym(cu_library, "cu" #_name);                                                        \
    cu_must(!found, "cu" #_name);                                                                  \
    memcpy(&cu._name, &found, sizeof(found));
    DRIVER(DRIVER_FIND)
}

/* What the emulated driver has found: work that is not ordered, or that touches what it must not.
 */
static uint64_t cu_findings(void) {
    heddle_emucuda_report_t r;
    void (*report)(heddle_emucuda_report_t *, size_t);
    void *found = dlsym(cu_library, "heddle_emucuda_report");
    cu_must(!found, "heddle_emucuda_report");
    memcpy(&report, &found, sizeof(found));
    report(&r, sizeof(r));
    return r.races + r.deadlocks + r.faults + r.leaks;
}

#endif
