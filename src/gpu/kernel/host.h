/* host.h: makes functions of the host of the bodies: what device.h is to nvcc. Included by
 * image_*.c.
 *
 * For each kernel, one thread of it (hd_thread_*), and a block as the emulated driver runs it
 * (hd_block_*): all threads, one after the other, for they share nothing.
 */
#ifndef HD_GPU_KERNEL_HOST_H
#define HD_GPU_KERNEL_HOST_H

#include "gpu/kernel.h"
#include "gpu/kernel/move.h"
#include "gpu/kernel/scan.h"

typedef void (*hd_thread_fn)(const hd_gpu_place_t *at, const void *args);

/* By kernel: for tests, which run threads in orders of their own. */
extern const hd_thread_fn hd_gpu_thread[HD_GPU_KERNELS];

void hd_run_block(const heddle_emucuda_block_t *block, const void *args, hd_thread_fn thread);

#define HD_HOST_KERNEL(_name)                                                                      \
    void hd_thread_##_name(const hd_gpu_place_t *at, const void *args);                            \
    void hd_block_##_name(const heddle_emucuda_block_t *block, void **params);                     \
    void hd_ranges_##_name(const heddle_emucuda_launch_t *launch, void **params,                   \
                           heddle_emucuda_ranges_t *ranges);

#define HD_HOST_BLOCK(_name, _kernel)                                                              \
    void hd_block_##_name(const heddle_emucuda_block_t *block, void **params) {                    \
        hd_run_block(block, params[0], hd_thread_##_name);                                         \
    }                                                                                              \
    void hd_ranges_##_name(const heddle_emucuda_launch_t *launch, void **params,                   \
                           heddle_emucuda_ranges_t *ranges) {                                      \
        (void)launch;                                                                              \
        hd_declare_ranges(_kernel, params[0], ranges);                                             \
    }

void hd_declare_ranges(uint32_t kernel, const void *args, heddle_emucuda_ranges_t *ranges);

#define HD_HOST_REDUCE(_name)                                                                      \
    HD_HOST_KERNEL(reduce_##_name)                                                                 \
    void hd_thread_reduce_##_name(const hd_gpu_place_t *at, const void *args) {                    \
        const hd_lanes_t lanes = HD_LANES_OF(lanes_##_name);                                       \
        hd_body_reduce(at, (const hd_gpu_reduce_args_t *)args, &lanes);                            \
    }                                                                                              \
    HD_HOST_BLOCK(reduce_##_name, HD_GPU_REDUCE_##_name)

#define HD_HOST_FEW(_name, _few, _kernel)                                                          \
    HD_HOST_KERNEL(reduce_##_name##_##_few)                                                        \
    void hd_thread_reduce_##_name##_##_few(const hd_gpu_place_t *at, const void *args) {           \
        const hd_lanes_t lanes = HD_LANES_OF(lanes_##_name);                                       \
        hd_body_few(at, (const hd_gpu_reduce_few_t *)args, &lanes, _few);                          \
    }                                                                                              \
    HD_HOST_BLOCK(reduce_##_name##_##_few, _kernel)

#define HD_HOST_FEWS(_name)                                                                        \
    HD_HOST_FEW(_name, 2, HD_GPU_FEW_##_name)                                                      \
    HD_HOST_FEW(_name, 4, HD_GPU_FEW_##_name##_4)                                                  \
    HD_HOST_FEW(_name, 8, HD_GPU_FEW_##_name##_8)

#define HD_HOST_SCAN(_name)                                                                        \
    HD_HOST_KERNEL(scan_##_name)                                                                   \
    void hd_thread_scan_##_name(const hd_gpu_place_t *at, const void *args) {                      \
        const hd_lanes_t lanes = HD_LANES_OF(lanes_##_name);                                       \
        hd_body_scan(at, (const hd_gpu_reduce_args_t *)args, &lanes);                              \
    }                                                                                              \
    HD_HOST_BLOCK(scan_##_name, HD_GPU_SCAN_##_name)

#define HD_HOST_MOVE(_name)                                                                        \
    HD_HOST_KERNEL(move_##_name)                                                                   \
    void hd_thread_move_##_name(const hd_gpu_place_t *at, const void *args) {                      \
        hd_body_##_name(at, (const hd_gpu_move_args_t *)args);                                     \
    }                                                                                              \
    HD_HOST_BLOCK(move_##_name, HD_GPU_MOVE_##_name)

#endif
