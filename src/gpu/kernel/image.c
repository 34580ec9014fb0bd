/* image.c: the module of the emulated driver: every kernel, as functions of the host. See host.h.
 */
#include "gpu/kernel/host.h"

#define DECLARE_REDUCE(_name) HD_HOST_KERNEL(reduce_##_name)
#define DECLARE_FEW(_name)                                                                         \
    HD_HOST_KERNEL(reduce_##_name##_2)                                                             \
    HD_HOST_KERNEL(reduce_##_name##_4)                                                             \
    HD_HOST_KERNEL(reduce_##_name##_8)
#define DECLARE_SCAN(_name) HD_HOST_KERNEL(scan_##_name)
#define DECLARE_MOVE(_name) HD_HOST_KERNEL(move_##_name)
HD_LIST_REDUCTIONS(DECLARE_REDUCE)
HD_LIST_FEW(DECLARE_FEW)
HD_LIST_SCANS(DECLARE_SCAN)
HD_LIST_MOVES(DECLARE_MOVE)
HD_HOST_KERNEL(word)

#define THREAD_REDUCE(_name) [HD_GPU_REDUCE_##_name] = hd_thread_reduce_##_name,
#define THREAD_FEW(_name)                                                                          \
    [HD_GPU_FEW_##_name] = hd_thread_reduce_##_name##_2,                                           \
    [HD_GPU_FEW_##_name##_4] = hd_thread_reduce_##_name##_4,                                       \
    [HD_GPU_FEW_##_name##_8] = hd_thread_reduce_##_name##_8,
#define THREAD_SCAN(_name) [HD_GPU_SCAN_##_name] = hd_thread_scan_##_name,
#define THREAD_MOVE(_name) [HD_GPU_MOVE_##_name] = hd_thread_move_##_name,

const hd_thread_fn hd_gpu_thread[HD_GPU_KERNELS] = {
    HD_LIST_REDUCTIONS(THREAD_REDUCE) /**/
    HD_LIST_FEW(THREAD_FEW)           /**/
    HD_LIST_SCANS(THREAD_SCAN)        /**/
    HD_LIST_MOVES(THREAD_MOVE)        /**/
        [HD_GPU_WORD] = hd_thread_word,
};

/* ---- the module ---- */

static const uint32_t few_bytes = sizeof(hd_gpu_reduce_few_t);
static const uint32_t reduce_bytes = sizeof(hd_gpu_reduce_args_t);
static const uint32_t move_bytes = sizeof(hd_gpu_move_args_t);
static const uint32_t word_bytes = sizeof(hd_gpu_word_t);

#define KERNEL(_name, _bytes)                                                                      \
    {                                                                                              \
        .name = "hd_" #_name, .params = 1, .param_bytes = &(_bytes),                               \
        .max_threads = HD_GPU_THREADS, .run = hd_block_##_name, .ranges = hd_ranges_##_name        \
    }
#define KERNEL_REDUCE(_name) [HD_GPU_REDUCE_##_name] = KERNEL(reduce_##_name, reduce_bytes),
#define KERNEL_FEW(_name)                                                                          \
    [HD_GPU_FEW_##_name] = KERNEL(reduce_##_name##_2, few_bytes),                                  \
    [HD_GPU_FEW_##_name##_4] = KERNEL(reduce_##_name##_4, few_bytes),                              \
    [HD_GPU_FEW_##_name##_8] = KERNEL(reduce_##_name##_8, few_bytes),
#define KERNEL_SCAN(_name) [HD_GPU_SCAN_##_name] = KERNEL(scan_##_name, reduce_bytes),
#define KERNEL_MOVE(_name) [HD_GPU_MOVE_##_name] = KERNEL(move_##_name, move_bytes),

static const heddle_emucuda_kernel_t kernels[HD_GPU_KERNELS] = {
    HD_LIST_REDUCTIONS(KERNEL_REDUCE) /**/
    HD_LIST_FEW(KERNEL_FEW)           /**/
    HD_LIST_SCANS(KERNEL_SCAN)        /**/
    HD_LIST_MOVES(KERNEL_MOVE)        /**/
        [HD_GPU_WORD] = KERNEL(word, word_bytes),
};

const heddle_emucuda_module_t hd_gpu_host_module = {
    .magic = {'H', 'd', 'E', 'm', 'C', 'u', 'M', 'd'},
    .version = HEDDLE_EMUCUDA_VERSION,
    .kernels = HD_GPU_KERNELS,
    .kernel = kernels,
};
