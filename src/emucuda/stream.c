/* stream.c: streams, how operations get into them, and the order that NULL streams add. */
#include "emu.h"

#include <stdlib.h>

/* Streams -----------------------------------------------------------------------------------------
 */

CUstream emu_stream_new(CUcontext context, unsigned int flags, bool internal) {
    CUstream stream = emu_object_new(EMU_STREAM, sizeof(*stream));
    stream->context = context;
    stream->flags = flags;
    stream->internal = internal;
    stream->id = ++emu.ids;
    stream->queue = emu_queue_for(context->device);
    stream->timeline = emu_timeline_new(stream);
    emu_timeline_begin(stream->timeline, &stream->clock);
    return stream;
}

void emu_stream_gone(CUstream stream) {
    emu_queue_leave(stream->queue);
    emu_timeline_end(stream->timeline, &stream->clock);
    emu_vector_free(&stream->clock);
    free(stream->dependency);
    emu_object_kill(stream);
}

static CUstream legacy(CUcontext context) {
    if (!context->legacy) {
        context->legacy = emu_stream_new(context, CU_STREAM_DEFAULT, true);
        context->legacy->legacy = true;
    }
    return context->legacy;
}

static CUstream per_thread(CUcontext context) {
    emu_thread_t *self = emu_self();
    for (uint32_t i = 0; i < context->per_threads; i++) {
        if (context->thread[i] == self) {
            return context->per_thread[i];
        }
    }
    uint32_t room = context->per_threads, same = room;
    context->per_thread = emu_grow(context->per_thread, &room, room + 1, sizeof(CUstream));
    context->thread = emu_grow(context->thread, &same, same + 1, sizeof(*context->thread));
    context->thread[context->per_threads] = self;
    return context->per_thread[context->per_threads++] =
               emu_stream_new(context, CU_STREAM_DEFAULT, true);
}

CUstream emu_per_thread(CUstream stream) {
    return stream ? stream : CU_STREAM_PER_THREAD;
}

CUresult emu_stream(CUstream handle, CUcontext context, CUstream *stream) {
    if (!handle || handle == CU_STREAM_LEGACY) {
        *stream = legacy(context);
    } else if (handle == CU_STREAM_PER_THREAD) {
        *stream = per_thread(context);
    } else if (!emu_object_is(handle, EMU_STREAM) || handle->destroyed) {
        return CUDA_ERROR_INVALID_HANDLE;
    } else {
        *stream = handle;
    }
    return (*stream)->context->error;
}

/* Order -------------------------------------------------------------------------------------------
 */

void emu_stream_push(CUstream stream, emu_op_t *op) {
    op->stream = stream;
    op->serial = ++emu.serial;
    if (op->kind == EMU_OP_RECORD) {
        op->record->queue = stream->queue;
        op->record->timeline = stream->timeline;
    }
    emu_op_declare(op, stream->context);
    stream->enqueued++;
    stream->pending++;
    stream->last = op;
    emu_clock_pass(stream, op);
    emu_queue_push(stream->queue, op);
    emu_background();
}

emu_record_t *emu_stream_tail(CUstream stream) {
    if (stream->pending == 0) {
        return NULL;
    }
    if (!stream->last || stream->last->kind != EMU_OP_RECORD) {
        emu_op_t *op = emu_op_new(EMU_OP_RECORD, "a mark");
        op->record = emu_record_new();
        emu_stream_push(stream, op);
    }
    emu_record_hold(stream->last->record);
    return stream->last->record;
}

void emu_stream_wait(CUstream stream, emu_record_t *record) {
    emu_op_t *op = emu_op_new(EMU_OP_WAIT, "a wait");
    op->record = record;
    emu_record_hold(record);
    emu_stream_push(stream, op);
}

/* The operation that comes next in stream is to come after all of other so far. */
void emu_stream_follow(CUstream stream, CUstream other) {
    emu_record_t *tail = emu_stream_tail(other);
    if (tail) {
        emu_stream_wait(stream, tail);
        emu_record_drop(tail);
    } else {
        emu_vector_join(&stream->clock, &other->clock);
    }
}

/* The NULL stream waits for all streams of its context, and they for it, unless they are
 * non-blocking. */
static void follow_default(CUstream stream) {
    CUstream null = stream->context->legacy;
    if (stream->legacy) {
        for (emu_object_t *o = emu_object_first(EMU_STREAM); o; o = o->behind) {
            CUstream other = (CUstream)o;
            if (other->context == stream->context && other != stream &&
                !(other->flags & CU_STREAM_NON_BLOCKING)) {
                emu_stream_follow(stream, other);
            }
        }
    } else if (!(stream->flags & CU_STREAM_NON_BLOCKING) && null &&
               null->enqueued != stream->legacy_seen) {
        emu_stream_follow(stream, null);
        stream->legacy_seen = null->enqueued;
    }
}

CUresult emu_enqueue(CUstream stream, emu_op_t *op) {
    CUresult status = stream->context->error;
    if (status != CUDA_SUCCESS) {
        emu_op_free(op);
        return status;
    }
    follow_default(stream);
    emu_stream_push(stream, op);
    return CUDA_SUCCESS;
}

CUresult emu_submit(CUstream stream, emu_op_t *op) {
    if (stream->capture) {
        return emu_capture_node(stream, op);
    }
    CUresult status = stream->legacy ? emu_capture_legacy(stream->context) : CUDA_SUCCESS;
    if (status != CUDA_SUCCESS) {
        emu_op_free(op);
        return status;
    }
    return emu_enqueue(stream, op);
}

CUresult emu_stream_after(CUstream stream, emu_record_t *record) {
    CUresult status = stream->context->error;
    if (status == CUDA_SUCCESS) {
        follow_default(stream);
        emu_stream_wait(stream, record);
    }
    return status;
}

/* Calls -------------------------------------------------------------------------------------------
 */

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!stream || flags > CU_STREAM_NON_BLOCKING) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *stream = emu_stream_new(context, flags, false);
    (*stream)->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(stream, EMU_STREAM) || stream->internal || stream->destroyed) {
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    status = stream->context->error;
    emu_capture_stream_gone(stream);
    stream->destroyed = true;
    if (stream->pending == 0) {
        emu_stream_gone(stream);
    }
    return emu_leave(planted != CUDA_SUCCESS ? planted : status);
}

/* Enters, with the stream that handle means. */
static CUresult enter_stream(CUstream handle, CUstream *stream) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status == CUDA_SUCCESS) {
        status = emu_stream(handle, context, stream);
        if (status != CUDA_SUCCESS) {
            emu_leave(status);
        }
    }
    return status;
}

CUresult cuStreamGetPriority(CUstream handle, int *priority) {
    CUstream stream;
    CUresult status = enter_stream(handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (priority) {
        *priority = stream->priority;
    }
    return emu_leave(priority ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags) {
    CUstream stream;
    CUresult status = enter_stream(handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (flags) {
        *flags = stream->flags;
    }
    return emu_leave(flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id) {
    CUstream stream;
    CUresult status = enter_stream(handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (id) {
        *id = stream->id;
    }
    return emu_leave(id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context) {
    CUstream stream;
    CUresult status = enter_stream(handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (context) {
        *context = stream->context;
    }
    return emu_leave(context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* What the host may ask a stream, or wait for, while captures go on. */
static CUresult host_may_ask(CUstream stream) {
    if (stream->capture) {
        emu_capture_invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    CUresult status = stream->legacy ? emu_capture_legacy(stream->context) : CUDA_SUCCESS;
    return status == CUDA_SUCCESS ? emu_capture_unsafe() : status;
}

CUresult cuStreamQuery(CUstream handle) {
    CUstream stream;
    CUresult status = enter_stream(handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = host_may_ask(stream);
    if (status != CUDA_SUCCESS || emu_site_dropped()) {
        return emu_leave(status);
    }
    if (stream->pending > 0) {
        emu_step();
    }
    status = stream->context->error;
    if (status == CUDA_SUCCESS && stream->pending > 0) {
        return emu_leave(CUDA_ERROR_NOT_READY);
    }
    emu_host_join(&stream->clock);
    return emu_leave(status);
}

CUresult cuStreamSynchronize(CUstream handle) {
    CUstream stream;
    CUresult status = enter_stream(handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = host_may_ask(stream);
    if (status == CUDA_SUCCESS && !emu_site_dropped()) {
        status = emu_wait_stream(stream);
    }
    return emu_leave(status);
}

static CUresult submit_host(CUstream handle, emu_callback_t callback, const char *what) {
    CUstream stream;
    CUresult status = enter_stream(handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!callback.function && !callback.callback) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (callback.callback && stream->capture) {
        emu_capture_invalidate(stream->capture);
        return emu_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    emu_op_t *op = emu_op_new(EMU_OP_HOST, what);
    op->callback = callback;
    return emu_leave(emu_submit(stream, op));
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *arg) {
    return submit_host(stream, (emu_callback_t){.function = function, .arg = arg},
                       "a host function");
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *arg,
                             unsigned int flags) {
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return submit_host(stream, (emu_callback_t){.callback = callback, .handle = stream, .arg = arg},
                       "a callback");
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr pointer, size_t bytes,
                                unsigned int flags) {
    CUstream stream;
    CUresult status = enter_stream(handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    emu_allocation_t *allocation = emu_allocation_at(pointer);
    bool one_flag = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
                    flags == CU_MEM_ATTACH_SINGLE;
    if (!allocation || allocation->kind != EMU_MANAGED_MEMORY || !one_flag ||
        bytes > allocation->bytes) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return emu_leave(emu_submit(stream, emu_op_new(EMU_OP_NOTHING, "an attachment")));
}
