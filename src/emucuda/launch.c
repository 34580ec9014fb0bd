/* launch.c: launches, and what functions say of themselves. */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_THREADS = 1024,
    MAX_DEPTH = 64,
    MAX_ROWS = 65535,
    MAX_SHARED = 227 << 10,
    RESIDENT = 2048,
    BLOCKS = 32
};

void emu_launch_params(const emu_launch_t *launch, void **params) {
    const heddle_emucuda_kernel_t *kernel = launch->function->kernel;
    size_t at = 0;
    for (uint32_t i = 0; i < kernel->params; i++) {
        params[i] = launch->param + at;
        at += (kernel->param_bytes[i] + 15) / 16 * 16;
    }
}

static void copy_params(emu_launch_t *launch, void *const *params) {
    const heddle_emucuda_kernel_t *kernel = launch->function->kernel;
    void *to[EMU_PARAMS];
    launch->param_bytes = 0;
    for (uint32_t i = 0; i < kernel->params; i++) {
        launch->param_bytes += (kernel->param_bytes[i] + 15) / 16 * 16;
    }
    launch->param = emu_alloc(1, launch->param_bytes);
    emu_launch_params(launch, to);
    for (uint32_t i = 0; i < kernel->params; i++) {
        memcpy(to[i], params[i], kernel->param_bytes[i]);
    }
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b > 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Blocks run in any order: with a first one and a stride that are drawn. */
static void draw_order(emu_launch_t *launch) {
    launch->blocks =
        (uint64_t)launch->launch.grid.x * launch->launch.grid.y * launch->launch.grid.z;
    launch->first = emu_draw(launch->blocks < UINT32_MAX ? launch->blocks : UINT32_MAX);
    launch->stride = 1 + emu_draw(launch->blocks < 64 ? launch->blocks : 64);
    while (common_divisor(launch->stride, launch->blocks) != 1) {
        launch->stride++;
    }
}

static CUresult check_launch(CUfunction function, const heddle_emucuda_launch_t *launch) {
    const heddle_emucuda_dim_t *grid = &launch->grid, *block = &launch->block;
    uint32_t most = function->kernel->max_threads ? function->kernel->max_threads : MAX_THREADS;
    bool empty = !grid->x || !grid->y || !grid->z || !block->x || !block->y || !block->z;
    bool large = grid->x > INT32_MAX || grid->y > MAX_ROWS || grid->z > MAX_ROWS ||
                 block->x > MAX_THREADS || block->y > MAX_THREADS || block->z > MAX_DEPTH ||
                 (uint64_t)block->x * block->y * block->z > MAX_THREADS ||
                 launch->shared_bytes > function->shared_limit;
    if (empty || large) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return block->x * block->y * block->z > most ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
                                                 : CUDA_SUCCESS;
}

static CUresult submit(CUstream stream, CUfunction function, heddle_emucuda_launch_t launch,
                       void **params) {
    if (function->module->context != stream->context) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    CUresult status = check_launch(function, &launch);
    if (status != CUDA_SUCCESS || (function->kernel->params > 0 && !params)) {
        return status != CUDA_SUCCESS ? status : CUDA_ERROR_INVALID_VALUE;
    }
    launch.device = stream->context->device;
    emu_op_t *op = emu_op_new(EMU_OP_KERNEL, function->what);
    op->kernel = (emu_launch_t){.function = function, .launch = launch};
    copy_params(&op->kernel, params);
    draw_order(&op->kernel);
    status = emu_submit(stream, op);
    emu.report.launches += status == CUDA_SUCCESS;
    return status;
}

static CUresult launch_in(CUfunction handle, const heddle_emucuda_launch_t *launch,
                          CUstream handle_stream, void **params, void **extra) {
    CUcontext context;
    CUstream stream;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = emu_stream(handle_stream, context, &stream);
    if (status != CUDA_SUCCESS) {
        return emu_leave(status);
    }
    CUfunction function = emu_function(handle, stream->context);
    if (!function) {
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    if (extra) {
        return emu_leave(
            CUDA_ERROR_NOT_SUPPORTED); /* parameters in one buffer: their alignment is unknown */
    }
    return emu_leave(submit(stream, function, *launch, params));
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared, CUstream stream, void **params,
                        void **extra) {
    heddle_emucuda_launch_t launch = {.grid = {grid_x, grid_y, grid_z},
                                      .block = {block_x, block_y, block_z},
                                      .shared_bytes = shared};
    return launch_in(function, &launch, stream, params, extra);
}

/* Attributes change how a kernel runs, not what it may assume here; but for blocks that wait for
 * each other. */
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                          void **extra) {
    if (!config || (config->numAttrs > 0 && !config->attrs)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned int i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        bool together =
            attribute->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION ||
            attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
            (attribute->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute->value.cooperative);
        if (together) {
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ,
                          config->blockDimX, config->blockDimY, config->blockDimZ,
                          config->sharedMemBytes, config->hStream, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared, CUstream stream,
                                   void **params) {
    (void)function;
    (void)grid_x;
    (void)grid_y;
    (void)grid_z;
    (void)block_x;
    (void)block_y;
    (void)block_z;
    (void)shared;
    (void)stream;
    (void)params;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* Functions ---------------------------------------------------------------------------------------
 */

static CUresult enter_function(CUfunction *function) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status == CUDA_SUCCESS) {
        *function = emu_function(*function, context);
        if (!*function) {
            status = emu_leave(CUDA_ERROR_INVALID_HANDLE);
        }
    }
    return status;
}

static CUresult get(const heddle_emucuda_kernel_t *kernel, unsigned int shared_limit,
                    CUfunction_attribute attribute, int *value) {
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = kernel->max_threads ? (int)kernel->max_threads : MAX_THREADS;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)kernel->static_shared;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = kernel->registers ? (int)kernel->registers : 32;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 90;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = (int)shared_limit;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    CUresult status = enter_function(&function);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = value ? get(function->kernel, function->shared_limit, attribute, value)
                   : CUDA_ERROR_INVALID_VALUE;
    return emu_leave(status);
}

static CUresult set(CUfunction function, CUfunction_attribute attribute, int value) {
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
        return value >= -1 && value <= 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value > MAX_SHARED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    function->shared_limit = (unsigned int)value;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    CUresult status = enter_function(&function);
    return status == CUDA_SUCCESS ? emu_leave(set(function, attribute, value)) : status;
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
    CUresult status = enter_function(&function);
    (void)config;
    return status == CUDA_SUCCESS ? emu_leave(CUDA_SUCCESS) : status;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
    CUresult status = enter_function(&function);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (module) {
        *module = function->module;
    }
    return emu_leave(module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* A kernel's function in the primary context of the device, which must be there. */
static CUresult enter_kernel(CUkernel kernel, CUdevice device, CUfunction *function) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    CUcontext context = emu_device_valid(device) ? emu.device[device].primary : NULL;
    *function = emu_object_is(kernel, EMU_KERNEL)
                    ? emu_function((CUfunction)(void *)kernel, context)
                    : NULL;
    if (!*function) {
        status = emu_leave(emu_device_valid(device) ? CUDA_ERROR_INVALID_HANDLE
                                                    : CUDA_ERROR_INVALID_DEVICE);
    }
    return status;
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device) {
    CUfunction function;
    CUresult status = enter_kernel(kernel, device, &function);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = value ? get(function->kernel, function->shared_limit, attribute, value)
                   : CUDA_ERROR_INVALID_VALUE;
    return emu_leave(status);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device) {
    CUfunction function;
    CUresult status = enter_kernel(kernel, device, &function);
    return status == CUDA_SUCCESS ? emu_leave(set(function, attribute, value)) : status;
}

static int occupancy(const heddle_emucuda_kernel_t *kernel, int threads, size_t shared) {
    size_t each = shared + kernel->static_shared;
    int by_threads = RESIDENT / threads, by_shared = each > 0 ? (int)((228U << 10) / each) : BLOCKS;
    int blocks = by_threads < BLOCKS ? by_threads : BLOCKS;
    return blocks < by_shared ? blocks : by_shared;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared) {
    CUresult status = enter_function(&function);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!blocks || threads < 1 || threads > MAX_THREADS) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *blocks = occupancy(function->kernel, threads, shared);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
                                                              int threads, size_t shared,
                                                              unsigned int flags) {
    return flags <= 1
               ? cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared)
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *threads, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t shared, int limit) {
    CUresult status = enter_function(&function);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!grid || !threads) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    int most = function->kernel->max_threads ? (int)function->kernel->max_threads : MAX_THREADS;
    *threads = limit > 0 && limit < most ? limit : most;
    size_t bytes = shared_of ? shared_of(*threads) : shared;
    *grid = 8 * occupancy(function->kernel, *threads, bytes);
    return emu_leave(CUDA_SUCCESS);
}
