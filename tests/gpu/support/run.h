/* run.h: runs a launch on the host: every thread of every block, in an order drawn from a seed, on
 * a grid that may be another than the launch asks for.
 *
 * Threads share nothing, so they run one after the other; a kernel that is right here for all
 * orders is right for all interleavings of whole threads.
 *
 * With HEDDLE_TEST_GPU in the environment, a value of HEDDLE_GPU, launches run on the first device
 * of that driver instead, on its own grid or on the one that is asked for. All memory that they
 * reach is run_memory's then: pinned.
 */
#ifndef TESTS_GPU_RUN_H_
#define TESTS_GPU_RUN_H_

#include "gpu/kernel.h"

typedef struct run_grid {
    uint32_t blocks, threads; /* 0: those of the launch */
} run_grid_t;

/* What kernels reach: content undefined; aligned to 64. */
void *run_memory(size_t bytes);
void run_memory_free(void *memory);

/* Memory in which all buffers lie. */
void run_watch(const void *base, size_t bytes);

/* Aborts if a thread reaches memory that hd_gpu_ranges() does not tell. */
void run_launch(const hd_gpu_launch_t *launch, run_grid_t grid, uint64_t *seed);

/* Through the module of the emulated driver: as its functions are called there. */
void run_module(const hd_gpu_launch_t *launch);

#endif
