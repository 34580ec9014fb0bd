/* module.c: modules, whose kernels are functions of the host, and libraries, which are modules of
 * every context. */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

/* NULL: it is none of ours. What it is instead begins with other bytes, of which the first that
 * differs is the last one looked at. */
const heddle_emucuda_module_t *emu_image(const void *image) {
    const heddle_emucuda_module_t *module = image;
    for (size_t i = 0; i < sizeof(module->magic); i++) {
        if (module->magic[i] != HEDDLE_EMUCUDA_MAGIC[i]) {
            return NULL;
        }
    }
    return module->version == HEDDLE_EMUCUDA_VERSION ? module : NULL;
}

static bool valid_kernel(const heddle_emucuda_kernel_t *kernel) {
    size_t bytes = 0;
    for (uint32_t i = 0; kernel->params <= EMU_PARAMS && i < kernel->params; i++) {
        bytes += kernel->param_bytes[i];
    }
    return kernel->name && kernel->run && kernel->params <= EMU_PARAMS && bytes <= EMU_PARAM_BYTES;
}

static CUresult check_image(const void *data, const heddle_emucuda_module_t **image) {
    if (!data) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *image = emu_image(data);
    if (!*image) {
        return CUDA_ERROR_NO_BINARY_FOR_GPU; /* code of a GPU */
    }
    for (uint32_t i = 0; i < (*image)->kernels; i++) {
        if (!valid_kernel(&(*image)->kernel[i])) {
            return CUDA_ERROR_INVALID_IMAGE;
        }
    }
    return CUDA_SUCCESS;
}

static bool load_globals(CUmodule module) {
    for (uint32_t i = 0; i < module->image->globals; i++) {
        const heddle_emucuda_global_t *from = &module->image->global[i];
        emu_allocation_t *to =
            emu_allocate(module->context->device, module->context, EMU_DEVICE_MEMORY, from->bytes);
        if (!to) {
            return false;
        }
        to->module = module;
        module->global[i] = to;
        if (from->initial) {
            memcpy(emu_bytes_at(to->base), from->initial, from->bytes);
        } else {
            memset(emu_bytes_at(to->base), 0, from->bytes);
        }
    }
    return true;
}

CUmodule emu_module_load(CUcontext context, const void *data, CUresult *status) {
    const heddle_emucuda_module_t *image;
    *status = check_image(data, &image);
    if (*status != CUDA_SUCCESS) {
        return NULL;
    }
    CUmodule module = emu_object_new(EMU_MODULE, sizeof(*module));
    module->context = context;
    module->image = image;
    module->function = emu_alloc(image->kernels, sizeof(CUfunction));
    module->global = emu_alloc(image->globals, sizeof(*module->global));
    if (!load_globals(module)) {
        emu_module_unload(module);
        *status = CUDA_ERROR_OUT_OF_MEMORY;
        return NULL;
    }
    return module;
}

void emu_module_unload(CUmodule module) {
    for (uint32_t i = 0; i < module->image->kernels; i++) {
        if (module->function[i]) {
            emu_object_kill(module->function[i]);
        }
    }
    for (uint32_t i = 0; i < module->image->globals; i++) {
        emu_allocation_t *global = module->global[i];
        if (global) {
            global->pending++;
            emu_allocation_unlist(global);
            emu_allocation_end(global);
            emu_allocation_drop(global);
        }
    }
    if (module->library) {
        CUlibrary library = module->library;
        for (uint32_t i = 0; i < library->modules; i++) {
            if (library->module[i] == module) {
                library->module[i] = library->module[--library->modules];
            }
        }
    }
    free(module->function);
    free(module->global);
    emu_object_kill(module);
}

CUfunction emu_module_function(CUmodule module, uint32_t kernel) {
    if (!module->function[kernel]) {
        CUfunction function = emu_object_new(EMU_FUNCTION, sizeof(*function));
        function->module = module;
        function->kernel = &module->image->kernel[kernel];
        function->what = emu_keep("kernel %s", function->kernel->name);
        function->shared_limit = 48 << 10;
        module->function[kernel] = function;
    }
    return module->function[kernel];
}

/* The image's number of kernels if there is none of that name. */
static uint32_t kernel_named(const heddle_emucuda_module_t *image, const char *name) {
    uint32_t i = 0;
    while (i < image->kernels && strcmp(image->kernel[i].name, name) != 0) {
        i++;
    }
    return i;
}

/* Modules -----------------------------------------------------------------------------------------
 */

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = module ? emu_capture_unsafe() : CUDA_ERROR_INVALID_VALUE;
    if (status == CUDA_SUCCESS) {
        *module = emu_module_load(context, image, &status);
    }
    return emu_leave(status);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
                            CUjit_option *options, void **values) {
    (void)count; /* of a compiler that is not needed */
    (void)options;
    (void)values;
    return cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
    return cuModuleLoadData(module, image);
}

CUresult cuModuleLoad(CUmodule *module, const char *file) {
    (void)file;
    return module && file ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleUnload(CUmodule module) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(module, EMU_MODULE) || module->library) {
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    status = module->context->error;
    if (status == CUDA_SUCCESS) {
        status = emu_capture_unsafe();
        if (status != CUDA_SUCCESS) {
            return emu_leave(status);
        }
        status = emu_wait_context(module->context); /* its kernels may be queued */
    }
    emu_module_unload(module);
    return emu_leave(planted != CUDA_SUCCESS ? planted : status);
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
    if (!mode) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}

static CUresult enter_module(CUmodule module) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status == CUDA_SUCCESS && !emu_object_is(module, EMU_MODULE)) {
        status = emu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    return status;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    CUresult status = enter_module(module);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!function || !name) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    uint32_t kernel = kernel_named(module->image, name);
    if (kernel == module->image->kernels) {
        return emu_leave(CUDA_ERROR_NOT_FOUND);
    }
    *function = emu_module_function(module, kernel);
    return emu_leave(CUDA_SUCCESS);
}

static CUresult get_global(CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name) {
    if (!name) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (uint32_t i = 0; i < module->image->globals; i++) {
        if (strcmp(module->image->global[i].name, name) == 0) {
            if (pointer) {
                *pointer = module->global[i]->base;
            }
            if (bytes) {
                *bytes = module->global[i]->bytes;
            }
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes, CUmodule module,
                              const char *name) {
    CUresult status = enter_module(module);
    return status == CUDA_SUCCESS ? emu_leave(get_global(pointer, bytes, module, name)) : status;
}

/* Libraries ---------------------------------------------------------------------------------------
 */

CUresult cuLibraryLoadData(CUlibrary *library, const void *data, CUjit_option *options,
                           void **values, unsigned int count, CUlibraryOption *library_options,
                           void **library_values, unsigned int library_count) {
    (void)options;
    (void)values;
    (void)count;
    (void)library_options;
    (void)library_values;
    (void)library_count;
    const heddle_emucuda_module_t *image;
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = library ? check_image(data, &image) : CUDA_ERROR_INVALID_VALUE;
    if (status == CUDA_SUCCESS) {
        *library = emu_object_new(EMU_LIBRARY, sizeof(**library));
        (*library)->image = image;
        (*library)->kernel = emu_alloc(image->kernels, sizeof(CUkernel));
    }
    return emu_leave(status);
}

void emu_library_free(CUlibrary library) {
    while (library->modules > 0) {
        emu_module_unload(library->module[library->modules - 1]);
    }
    for (uint32_t i = 0; i < library->image->kernels; i++) {
        if (library->kernel[i]) {
            emu_object_kill(library->kernel[i]);
        }
    }
    free(library->kernel);
    free(library->module);
    emu_object_kill(library);
}

CUresult cuLibraryUnload(CUlibrary library) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(library, EMU_LIBRARY)) {
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    for (uint32_t i = 0; i < library->modules; i++) {
        emu_wait_context(library->module[i]->context);
    }
    emu_library_free(library);
    return emu_leave(planted);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!kernel || !name || !emu_object_is(library, EMU_LIBRARY)) {
        return emu_leave(kernel && name ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE);
    }
    uint32_t index = kernel_named(library->image, name);
    if (index == library->image->kernels) {
        return emu_leave(CUDA_ERROR_NOT_FOUND);
    }
    if (!library->kernel[index]) {
        library->kernel[index] = emu_object_new(EMU_KERNEL, sizeof(**kernel));
        library->kernel[index]->library = library;
        library->kernel[index]->index = index;
    }
    *kernel = library->kernel[index];
    return emu_leave(CUDA_SUCCESS);
}

/* The library's module in the context. */
static CUmodule library_module(CUlibrary library, CUcontext context, CUresult *status) {
    for (uint32_t i = 0; i < library->modules; i++) {
        if (library->module[i]->context == context) {
            return library->module[i];
        }
    }
    CUmodule module = emu_module_load(context, library->image, status);
    if (module) {
        uint32_t room = library->modules;
        module->library = library;
        library->module = emu_grow(library->module, &room, room + 1, sizeof(CUmodule));
        library->module[library->modules++] = module;
    }
    return module;
}

static CUresult enter_library(CUlibrary library, CUmodule *module) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status == CUDA_SUCCESS) {
        status = emu_object_is(library, EMU_LIBRARY) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
        *module = status == CUDA_SUCCESS ? library_module(library, context, &status) : NULL;
        if (!*module) {
            emu_leave(status);
        }
    }
    return status;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
    CUmodule found;
    CUresult status = enter_library(library, &found);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (module) {
        *module = found;
    }
    return emu_leave(module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUlibrary library,
                            const char *name) {
    CUmodule module;
    CUresult status = enter_library(library, &module);
    return status == CUDA_SUCCESS ? emu_leave(get_global(pointer, bytes, module, name)) : status;
}

/* A function, or a kernel in the context. NULL: neither, or the context has no memory left for it.
 */
CUfunction emu_function(CUfunction handle, CUcontext context) {
    if (emu_object_is(handle, EMU_FUNCTION)) {
        return handle;
    }
    if (!emu_object_is(handle, EMU_KERNEL) || !context) {
        return NULL;
    }
    CUkernel kernel = (CUkernel)(void *)handle;
    CUresult status = CUDA_SUCCESS;
    CUmodule module = library_module(kernel->library, context, &status);
    return module ? emu_module_function(module, kernel->index) : NULL;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!function || !emu_object_is(kernel, EMU_KERNEL)) {
        return emu_leave(function ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE);
    }
    *function = emu_function((CUfunction)(void *)kernel, context);
    return emu_leave(*function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}
