/* event.c: events. Recording one makes a record, and a wait takes the record that there is at its
 * call. */
#include "emu.h"

#include <stdlib.h>

/* The record or the capture that the event has now goes. */
static void forget(CUevent event) {
    if (event->record) {
        emu_record_drop(event->record);
        event->record = NULL;
    }
    emu_event_uncapture(event);
}

void emu_event_free(CUevent event) {
    forget(event);
    emu_object_kill(event);
}

/* Enters, with a current context and an event, of whatever context. */
static CUresult enter_event(CUevent event, CUcontext *context) {
    CUresult status = emu_enter_context(context);
    if (status == CUDA_SUCCESS && !emu_object_is(event, EMU_EVENT)) {
        status = emu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    return status;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
    CUcontext context;
    CUresult status = emu_enter_context(&context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    const unsigned int all =
        CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    bool untimed = !(flags & CU_EVENT_INTERPROCESS) || (flags & CU_EVENT_DISABLE_TIMING);
    if (!event || (flags & ~all) != 0 || !untimed) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *event = emu_object_new(EMU_EVENT, sizeof(**event));
    (*event)->context = context;
    (*event)->flags = flags;
    return emu_leave(CUDA_SUCCESS);
}

/* Work that waits for it goes on waiting: for its record. */
CUresult cuEventDestroy_v2(CUevent event) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(event, EMU_EVENT)) {
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    status = event->context->error;
    emu_event_free(event);
    return emu_leave(planted != CUDA_SUCCESS ? planted : status);
}

CUresult emu_event_record(CUevent event, CUstream stream) {
    emu_op_t *op = emu_op_new(EMU_OP_RECORD, "an event's recording");
    op->record = emu_record_new();
    emu_record_hold(op->record);
    emu_record_t *record = op->record;
    CUresult status = emu_enqueue(stream, op);
    if (status == CUDA_SUCCESS) {
        forget(event);
        event->record = record;
    } else {
        emu_record_drop(record);
    }
    return status;
}

/* A node that records, or waits for, the event whenever its graph is launched. */
static CUresult submit_node(CUstream stream, CUevent event, emu_kind_t kind, const char *what) {
    emu_op_t *op = emu_op_new(kind, what);
    op->event = event;
    return emu_capture_node(stream, op);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned int flags) {
    CUcontext context;
    CUstream stream;
    CUresult status = enter_event(event, &context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = emu_stream(handle, context, &stream);
    if (status != CUDA_SUCCESS) {
        return emu_leave(status);
    }
    if (flags > CU_EVENT_RECORD_EXTERNAL) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (stream->context != event->context) {
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    if (stream->capture && flags == CU_EVENT_RECORD_EXTERNAL) {
        return emu_leave(submit_node(stream, event, EMU_OP_RECORD, "an event's recording"));
    }
    if (stream->capture) {
        return emu_leave(emu_capture_record(stream, event));
    }
    status = stream->legacy ? emu_capture_legacy(context) : CUDA_SUCCESS;
    return emu_leave(status == CUDA_SUCCESS ? emu_event_record(event, stream) : status);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    return cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags) {
    CUcontext context;
    CUstream stream;
    CUresult status = enter_event(event, &context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = emu_stream(handle, context, &stream);
    if (status != CUDA_SUCCESS) {
        return emu_leave(status);
    }
    if (flags > CU_EVENT_WAIT_EXTERNAL) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (emu_site_dropped()) {
        return emu_leave(CUDA_SUCCESS);
    }
    if (stream->capture && flags == CU_EVENT_WAIT_EXTERNAL) {
        return emu_leave(submit_node(stream, event, EMU_OP_WAIT, "a wait"));
    }
    if (stream->capture || event->capture) {
        return emu_leave(emu_capture_wait(stream, event));
    }
    status = stream->legacy ? emu_capture_legacy(context) : CUDA_SUCCESS;
    if (status == CUDA_SUCCESS && event->record) {
        status = emu_stream_after(stream, event->record);
    }
    return emu_leave(status);
}

/* The host may not ask about an event that is part of a capture. */
static CUresult host_may_ask(CUevent event) {
    if (event->capture) {
        emu_capture_invalidate(event->capture);
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    return emu_capture_unsafe();
}

CUresult cuEventQuery(CUevent event) {
    CUcontext context;
    CUresult status = enter_event(event, &context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = host_may_ask(event);
    if (status != CUDA_SUCCESS || emu_site_dropped()) {
        return emu_leave(status);
    }
    if (event->record && !event->record->done) {
        emu_step();
    }
    status = event->context->error;
    if (status == CUDA_SUCCESS && event->record && !event->record->done) {
        return emu_leave(CUDA_ERROR_NOT_READY);
    }
    if (event->record && event->record->done) {
        emu_host_join(&event->record->clock);
    }
    return emu_leave(status);
}

CUresult cuEventSynchronize(CUevent event) {
    CUcontext context;
    CUresult status = enter_event(event, &context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    status = host_may_ask(event);
    if (status != CUDA_SUCCESS || emu_site_dropped()) {
        return emu_leave(status);
    }
    status = event->record ? emu_wait(event->record, event->context) : event->context->error;
    return emu_leave(status);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    CUcontext context;
    CUresult status = enter_event(start, &context);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!milliseconds) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    bool pair = emu_object_is(end, EMU_EVENT) && start->context == end->context;
    if (!pair || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0) {
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    if (start->capture || end->capture) {
        return emu_leave(CUDA_ERROR_CAPTURED_EVENT);
    }
    if (!start->record || !end->record) {
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    if (!start->record->done || !end->record->done) {
        return emu_leave(start->context->error != CUDA_SUCCESS ? start->context->error
                                                               : CUDA_ERROR_NOT_READY);
    }
    *milliseconds =
        (float)((double)(int64_t)(end->record->nanoseconds - start->record->nanoseconds) / 1e6);
    return emu_leave(CUDA_SUCCESS);
}
