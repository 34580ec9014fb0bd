/* device.h: makes kernels of the bodies: nvcc's side. Included by the .cu files only. */
#ifndef HD_GPU_KERNEL_DEVICE_H
#define HD_GPU_KERNEL_DEVICE_H

#include "gpu/kernel/list.h"
#include "gpu/kernel/move.h"
#include "gpu/kernel/scan.h"

static __device__ __forceinline__ hd_gpu_place_t hd_here(void) {
    hd_gpu_place_t at = {threadIdx.x, blockDim.x, blockIdx.x, gridDim.x, blockIdx.y};
    return at;
}

#define HD_GLOBAL extern "C" __global__ void __launch_bounds__(HD_GPU_THREADS, 2)

#define HD_REDUCE_KERNEL(_name)                                                                    \
    HD_GLOBAL hd_reduce_##_name(const __grid_constant__ hd_gpu_reduce_args_t args) {               \
        const hd_gpu_place_t at = hd_here();                                                       \
        const hd_lanes_t lanes = HD_LANES_OF(lanes_##_name);                                       \
        hd_body_reduce(&at, &args, &lanes);                                                        \
    }

#define HD_FEW_KERNEL(_name, _few)                                                                 \
    HD_GLOBAL hd_reduce_##_name##_##_few(const __grid_constant__ hd_gpu_reduce_few_t args) {       \
        const hd_gpu_place_t at = hd_here();                                                       \
        const hd_lanes_t lanes = HD_LANES_OF(lanes_##_name);                                       \
        hd_body_few(&at, &args, &lanes, _few);                                                     \
    }
#define HD_FEW_KERNELS(_name)                                                                      \
    HD_FEW_KERNEL(_name, 2)                                                                        \
    HD_FEW_KERNEL(_name, 4)                                                                        \
    HD_FEW_KERNEL(_name, 8)

#define HD_SCAN_KERNEL(_name)                                                                      \
    HD_GLOBAL hd_scan_##_name(const __grid_constant__ hd_gpu_reduce_args_t args) {                 \
        const hd_gpu_place_t at = hd_here();                                                       \
        const hd_lanes_t lanes = HD_LANES_OF(lanes_##_name);                                       \
        hd_body_scan(&at, &args, &lanes);                                                          \
    }

/* hd_move_<name>, of a body that needs nothing but its arguments. */
#define HD_MOVE_KERNEL(_name)                                                                      \
    HD_GLOBAL hd_move_##_name(const __grid_constant__ hd_gpu_move_args_t args) {                   \
        const hd_gpu_place_t at = hd_here();                                                       \
        hd_body_##_name(&at, &args);                                                               \
    }

#endif
