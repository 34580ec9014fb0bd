/* context.c: contexts, which of them is current, and what access they have to each other's memory.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

CUcontext emu_context_new(int device, unsigned int flags) {
    CUcontext context = emu_object_new(EMU_CONTEXT, sizeof(*context));
    context->device = device;
    context->flags = flags;
    context->id = ++emu.ids;
    context->error = emu.device[device].lost ? CUDA_ERROR_ECC_UNCORRECTABLE : CUDA_SUCCESS;
    context->limit[CU_LIMIT_STACK_SIZE] = 1024;
    context->limit[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    context->limit[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    return context;
}

CUresult emu_context_status(CUcontext context) {
    if (!context) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    return emu_object_is(context, EMU_CONTEXT) ? context->error : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* Work that is queued in it goes by without being done, and whoever waits is told. */
void emu_context_fail(CUcontext context, CUresult error) {
    if (context->error == CUDA_SUCCESS) {
        context->error = error;
        pthread_cond_broadcast(&emu.changed);
    }
}

static void leak(const char *what, const CUcontext context) {
    if (!emu.closing) {
        emu_find(HEDDLE_EMUCUDA_LEAK, "%s when its context of device %d was destroyed", what,
                 context->device);
    }
}

static void destroy_graphs(CUcontext context) {
    for (emu_object_t *o = emu_object_first(EMU_EXEC); o;) {
        CUgraphExec exec = (CUgraphExec)o;
        bool here = exec->context == context;
        for (uint32_t i = 0; i < exec->lanes; i++) {
            here = here || exec->lane[i]->context == context;
        }
        o = o->behind;
        if (here && !exec->destroyed) {
            leak("an executable graph", context);
            emu_exec_destroy(exec);
        }
    }
}

static void destroy_streams(CUcontext context) {
    for (emu_object_t *o = emu_object_first(EMU_STREAM); o;) {
        CUstream stream = (CUstream)o;
        o = o->behind;
        if (stream->context == context) {
            if (!stream->internal && !stream->destroyed) {
                leak("a stream", context);
            }
            emu_capture_stream_gone(stream);
            emu_stream_purge(stream);
            emu_stream_gone(stream);
        }
    }
}

static void destroy_others(CUcontext context) {
    for (emu_object_t *o = emu_object_first(EMU_EVENT); o;) {
        CUevent event = (CUevent)o;
        o = o->behind;
        if (event->context == context) {
            leak("an event", context);
            emu_event_free(event);
        }
    }
    for (emu_object_t *o = emu_object_first(EMU_MODULE); o;) {
        CUmodule module = (CUmodule)o;
        o = o->behind;
        if (module->context == context) {
            if (!module->library) {
                leak("a module", context);
            }
            emu_module_unload(module);
        }
    }
}

/* A host function of one of its streams that runs. */
static bool calls_host(CUcontext context) {
    for (emu_object_t *o = emu_object_first(EMU_STREAM); o; o = o->behind) {
        CUstream stream = (CUstream)o;
        if (stream->context == context && stream->queue->busy &&
            stream->queue->head->stream == stream) {
            return true;
        }
    }
    return false;
}

/* The lock is given up only while host functions end. */
void emu_context_destroy(CUcontext context) {
    emu_context_fail(context, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    while (calls_host(context)) {
        pthread_cond_wait(&emu.changed, &emu.lock);
    }
    destroy_graphs(context);
    destroy_streams(context);
    destroy_others(context);
    emu_allocations_of(context, !emu.closing);
    if (emu.device[context->device].primary == context) {
        emu.device[context->device].primary = NULL;
    }
    free(context->per_thread);
    free(context->thread);
    emu_object_kill(context);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!context || (flags & ~(unsigned int)CU_CTX_FLAGS_MASK) != 0) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (!emu_device_valid(device)) {
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    }
    *context = emu_context_new(device, flags);
    emu_context_push(*context);
    return emu_leave(CUDA_SUCCESS);
}

/* No multiprocessors can be set aside here. */
CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *parameters, int n,
                        unsigned int flags, CUdevice device) {
    if (parameters || n != 0) {
        CUresult status = emu_enter();
        return status == CUDA_SUCCESS ? emu_leave(CUDA_ERROR_NOT_SUPPORTED) : status;
    }
    return cuCtxCreate_v2(context, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(context, EMU_CONTEXT) || context->primary) {
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    if (emu_current() == context) {
        emu_self()->depth--;
    }
    emu_context_destroy(context);
    return emu_leave(planted);
}

/* The stack of a thread ---------------------------------------------------------------------------
 */

void emu_context_push(CUcontext context) {
    emu_thread_t *self = emu_self();
    self->stack = emu_grow(self->stack, &self->capacity, self->depth + 1, sizeof(*self->stack));
    self->stack[self->depth++] = context;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(context, EMU_CONTEXT)) {
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    emu_context_push(context);
    return emu_leave(CUDA_SUCCESS);
}

/* Does its work whatever is planted: a thread must be able to get rid of a context. */
CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    emu_thread_t *self = emu_self();
    if (self->depth == 0) {
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    CUcontext popped = self->stack[--self->depth];
    if (context) {
        *context = popped;
    }
    return emu_leave(planted);
}

CUresult cuCtxSetCurrent(CUcontext context) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (context && !emu_object_is(context, EMU_CONTEXT)) {
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    emu_thread_t *self = emu_self();
    if (self->depth > 0) {
        self->depth--;
    }
    if (context) {
        emu_context_push(context);
    }
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (context) {
        *context = emu_current();
    }
    return emu_leave(context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* Questions ---------------------------------------------------------------------------------------
 */

/* Enters with a current context, whatever has happened to it. */
static CUresult enter_current(CUcontext *context) {
    CUresult status = emu_enter();
    if (status == CUDA_SUCCESS) {
        *context = emu_current();
        if (!emu_object_is(*context, EMU_CONTEXT)) {
            status = emu_leave(CUDA_ERROR_INVALID_CONTEXT);
        }
    }
    return status;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    CUcontext context;
    CUresult status = enter_current(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (device) {
        *device = context->device;
    }
    return emu_leave(device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuCtxGetFlags(unsigned int *flags) {
    CUcontext context;
    CUresult status = enter_current(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (flags) {
        *flags = context->flags;
    }
    return emu_leave(flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static CUresult enter_named(CUcontext *context) {
    if (!*context) {
        return enter_current(context);
    }
    CUresult status = emu_enter();
    if (status == CUDA_SUCCESS && !emu_object_is(*context, EMU_CONTEXT)) {
        status = emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    return status;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id) {
    CUresult status = enter_named(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (id) {
        *id = context->id;
    }
    return emu_leave(id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version) {
    CUresult status = enter_named(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (version) {
        *version = 3020;
    }
    return emu_leave(version ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (limit < 0 || limit > CU_LIMIT_PERSISTING_L2_CACHE_SIZE) {
        return emu_leave(CUDA_ERROR_UNSUPPORTED_LIMIT);
    }
    context->limit[limit] = value;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!value || limit < 0 || limit > CU_LIMIT_PERSISTING_L2_CACHE_SIZE) {
        return emu_leave(value ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE);
    }
    *value = context->limit[limit];
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (least) {
        *least = 0;
    }
    if (greatest) {
        *greatest = -5;
    }
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxSynchronize(void) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = emu_capture_unsafe();
    if (status == CUDA_SUCCESS && !emu_site_dropped()) {
        status = emu_wait_context(context);
    }
    return emu_leave(status);
}

/* Peers -------------------------------------------------------------------------------------------
 */

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (flags != 0) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (!emu_object_is(peer, EMU_CONTEXT) || peer == context) {
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    if (!emu.config.peers || peer->device == context->device) {
        return emu_leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    }
    uint64_t bit = (uint64_t)1 << peer->device;
    status = context->peers & bit ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
    context->peers |= bit;
    return emu_leave(status);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(peer, EMU_CONTEXT)) {
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    uint64_t bit = (uint64_t)1 << peer->device;
    status = context->peers & bit ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers &= ~bit;
    return emu_leave(status);
}
