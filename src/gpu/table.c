/* table.c: the names of kernels, and what else there is to know of each. See kernel.h. */
#include "gpu/kernel.h"
#include "gpu/kernel/lanes.h"

#define MODULE_REDUCE(_module, _name)                                                              \
    [HD_GPU_REDUCE_##_name] = {"hd_reduce_" #_name, sizeof(hd_gpu_reduce_args_t), _module,         \
                               lanes_##_name##_size, lanes_##_name##_unit},
#define MODULE_FEW(_module, _name)                                                                 \
    [HD_GPU_FEW_##_name] = {"hd_reduce_" #_name "_2", sizeof(hd_gpu_reduce_few_t), _module,        \
                            lanes_##_name##_size, lanes_##_name##_unit},                           \
    [HD_GPU_FEW_##_name##_4] = {"hd_reduce_" #_name "_4", sizeof(hd_gpu_reduce_few_t), _module,    \
                                lanes_##_name##_size, lanes_##_name##_unit},                       \
    [HD_GPU_FEW_##_name##_8] = {"hd_reduce_" #_name "_8", sizeof(hd_gpu_reduce_few_t), _module,    \
                                lanes_##_name##_size, lanes_##_name##_unit},
#define MODULE_SCAN(_module, _name)                                                                \
    [HD_GPU_SCAN_##_name] = {"hd_scan_" #_name, sizeof(hd_gpu_reduce_args_t), _module,             \
                             lanes_##_name##_size, lanes_##_name##_unit},

#define FLOATS_REDUCE(_name)   MODULE_REDUCE(HD_GPU_MODULE_FLOATS, _name)
#define FLOATS_FEW(_name)      MODULE_FEW(HD_GPU_MODULE_FLOATS, _name)
#define FLOATS_SCAN(_name)     MODULE_SCAN(HD_GPU_MODULE_FLOATS, _name)
#define HALVES_REDUCE(_name)   MODULE_REDUCE(HD_GPU_MODULE_HALVES, _name)
#define HALVES_FEW(_name)      MODULE_FEW(HD_GPU_MODULE_HALVES, _name)
#define HALVES_SCAN(_name)     MODULE_SCAN(HD_GPU_MODULE_HALVES, _name)
#define INTEGERS_REDUCE(_name) MODULE_REDUCE(HD_GPU_MODULE_INTEGERS, _name)
#define INTEGERS_FEW(_name)    MODULE_FEW(HD_GPU_MODULE_INTEGERS, _name)
#define INTEGERS_SCAN(_name)   MODULE_SCAN(HD_GPU_MODULE_INTEGERS, _name)
#define SMALL_REDUCE(_name)    MODULE_REDUCE(HD_GPU_MODULE_SMALL, _name)
#define SMALL_SCAN(_name)      MODULE_SCAN(HD_GPU_MODULE_SMALL, _name)
#define PAIRS_REDUCE(_name)    MODULE_REDUCE(HD_GPU_MODULE_PAIRS, _name)
#define PAIRS_SCAN(_name)      MODULE_SCAN(HD_GPU_MODULE_PAIRS, _name)
#define MOVE(_name)                                                                                \
    [HD_GPU_MOVE_##                                                                                \
        _name] = {"hd_move_" #_name, sizeof(hd_gpu_move_args_t), HD_GPU_MODULE_MOVES, 0, 0},

const hd_gpu_kernel_t hd_gpu_kernel[HD_GPU_KERNELS] = {
    HD_LIST_FLOATS(FLOATS_REDUCE)         /**/
    HD_LIST_FLOATS_AVG(FLOATS_REDUCE)     /**/
    HD_LIST_FLOATS_FEW(FLOATS_FEW)        /**/
    HD_LIST_FLOATS(FLOATS_SCAN)           /**/
    HD_LIST_HALVES(HALVES_REDUCE)         /**/
    HD_LIST_HALVES_AVG(HALVES_REDUCE)     /**/
    HD_LIST_HALVES_FEW(HALVES_FEW)        /**/
    HD_LIST_HALVES(HALVES_SCAN)           /**/
    HD_LIST_INTEGERS(INTEGERS_REDUCE)     /**/
    HD_LIST_INTEGERS_AVG(INTEGERS_REDUCE) /**/
    HD_LIST_INTEGERS_FEW(INTEGERS_FEW)    /**/
    HD_LIST_INTEGERS(INTEGERS_SCAN)       /**/
    HD_LIST_SMALL(SMALL_REDUCE)           /**/
    HD_LIST_SMALL_AVG(SMALL_REDUCE)       /**/
    HD_LIST_SMALL(SMALL_SCAN)             /**/
    HD_LIST_PAIRS(PAIRS_REDUCE)           /**/
    HD_LIST_PAIRS(PAIRS_SCAN)             /**/
    HD_LIST_MOVES(MOVE)                   /**/
        [HD_GPU_WORD] = {"hd_word", sizeof(hd_gpu_word_t), HD_GPU_MODULE_MOVES, 0, 0},
};
