/* capture.c: streams that write a graph instead of working.
 *
 * A capture begins in one stream, and spreads to those that wait for an event recorded in it. What
 * a stream's next node depends on is the stream's list; an event keeps a copy of it. What breaks a
 * rule invalidates the capture: nothing is captured any more, and its end says so.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

void emu_capture_hold(emu_capture_t *capture) {
    capture->references++;
}

void emu_capture_drop(emu_capture_t *capture) {
    if (--capture->references == 0) {
        free(capture);
    }
}

void emu_capture_invalidate(emu_capture_t *capture) {
    capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

/* A thread may not make calls that are unsafe while it captures itself, other than relaxed, or
 * another one captures globally; unless its own mode says that it knows what it does. Such a call
 * spoils those captures. */
CUresult emu_capture_unsafe(void) {
    if (!emu.captures) {
        return CUDA_SUCCESS;
    }
    const emu_thread_t *self = emu_self();
    CUresult status = CUDA_SUCCESS;
    for (emu_capture_t *c = emu.captures; c && self->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
         c = c->next) {
        bool own = c->thread == self && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        bool global = c->thread != self && c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                      self->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if ((own || global) && c->status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
            emu_capture_invalidate(c);
            status = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return status;
}

static CUresult legacy(CUcontext context, bool invalidate) {
    CUresult status = CUDA_SUCCESS;
    if (!emu.captures) {
        return status;
    }
    for (emu_object_t *o = emu_object_first(EMU_STREAM); o; o = o->behind) {
        CUstream stream = (CUstream)o;
        if (stream->context == context && stream->capture &&
            !(stream->flags & CU_STREAM_NON_BLOCKING)) {
            status = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
            if (invalidate) {
                emu_capture_invalidate(stream->capture);
            }
        }
    }
    return status;
}

/* The NULL stream would have to wait for the streams that it is ordered with. */
CUresult emu_capture_legacy(CUcontext context) {
    return legacy(context, true);
}

/* Dependencies ------------------------------------------------------------------------------------
 */

static void set_dependencies(CUgraphNode **list, size_t *count, const CUgraphNode *from,
                             size_t from_count) {
    CUgraphNode *copy = emu_alloc(from_count, sizeof(*copy));
    if (from_count > 0) {
        memcpy(copy, from, from_count * sizeof(*copy));
    }
    free(*list);
    *list = copy;
    *count = from_count;
}

static void add_dependencies(CUstream stream, const CUgraphNode *from, size_t count) {
    CUgraphNode *all = emu_alloc(stream->dependencies + count, sizeof(*all));
    size_t kept = stream->dependencies;
    if (kept > 0) {
        memcpy(all, stream->dependency, kept * sizeof(*all));
    }
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < kept && all[at] != from[i]) {
            at++;
        }
        if (at == kept) {
            all[kept++] = from[i];
        }
    }
    free(stream->dependency);
    stream->dependency = all;
    stream->dependencies = kept;
}

static void join(CUstream stream, emu_capture_t *capture) {
    stream->capture = capture;
    emu_capture_hold(capture);
}

static void part(CUstream stream) {
    emu_capture_drop(stream->capture);
    stream->capture = NULL;
    free(stream->dependency);
    stream->dependency = NULL;
    stream->dependencies = 0;
}

void emu_event_uncapture(CUevent event) {
    if (event->capture) {
        emu_capture_drop(event->capture);
        event->capture = NULL;
        free(event->dependency);
        event->dependency = NULL;
        event->dependencies = 0;
    }
}

/* What streams do ---------------------------------------------------------------------------------
 */

CUresult emu_capture_node(CUstream stream, emu_op_t *op) {
    emu_capture_t *capture = stream->capture;
    if (capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        emu_op_free(op);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    CUgraphNode node = emu_graph_add(capture->graph, op, stream->context, stream->dependency,
                                     stream->dependencies);
    set_dependencies(&stream->dependency, &stream->dependencies, &node, 1);
    return CUDA_SUCCESS;
}

CUresult emu_capture_record(CUstream stream, CUevent event) {
    emu_capture_t *capture = stream->capture;
    if (capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    emu_capture_hold(capture);
    if (event->record) {
        emu_record_drop(event->record);
        event->record = NULL;
    }
    emu_event_uncapture(event);
    event->capture = capture;
    set_dependencies(&event->dependency, &event->dependencies, stream->dependency,
                     stream->dependencies);
    return CUDA_SUCCESS;
}

CUresult emu_capture_wait(CUstream stream, CUevent event) {
    emu_capture_t *mine = stream->capture, *other = event->capture;
    if (mine && mine->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (mine && (!other || !other->graph)) {
        emu_capture_invalidate(mine);
        /* it would wait for work outside of the capture */
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (mine && mine != other) {
        emu_capture_invalidate(mine);
        emu_capture_invalidate(other);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!mine && !other->graph) {
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    if (!mine && other->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (!mine && stream->legacy) {
        emu_capture_invalidate(other);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!mine) {
        join(stream, other);
    }
    add_dependencies(stream, event->dependency, event->dependencies);
    return CUDA_SUCCESS;
}

/* Begin and end -----------------------------------------------------------------------------------
 */

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

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
    CUstream stream;
    CUresult status = enter_stream(handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (stream->legacy || stream->capture) {
        return emu_leave(stream->legacy ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                        : CUDA_ERROR_ILLEGAL_STATE);
    }
    emu_capture_t *capture = emu_alloc(1, sizeof(*capture));
    *capture = (emu_capture_t){.next = emu.captures,
                               .id = ++emu.ids,
                               .mode = mode,
                               .status = CU_STREAM_CAPTURE_STATUS_ACTIVE,
                               .thread = emu_self(),
                               .origin = stream,
                               .graph = emu_graph_new()};
    capture->graph->captured = true;
    emu.captures = capture;
    join(stream, capture);
    return emu_leave(CUDA_SUCCESS);
}

static void mark_before(CUgraphNode node, bool *marked) {
    if (!marked[node->index]) {
        marked[node->index] = true;
        for (size_t i = 0; i < node->dependencies; i++) {
            mark_before(node->dependency[i], marked);
        }
    }
}

/* Whether what the stream that began it does next would come after all nodes. */
static bool all_joined(CUstream stream) {
    CUgraph graph = stream->capture->graph;
    bool *marked = emu_alloc(graph->nodes, sizeof(*marked)), all = true;
    for (size_t i = 0; i < stream->dependencies; i++) {
        mark_before(stream->dependency[i], marked);
    }
    for (size_t i = 0; i < graph->nodes; i++) {
        all = all && marked[i];
    }
    free(marked);
    return all;
}

/* All its streams leave it, and its graph goes, unless the program has it. */
static void end(emu_capture_t *capture, bool keep_graph) {
    emu_capture_t **at = &emu.captures;
    while (*at != capture) {
        at = &(*at)->next;
    }
    *at = capture->next;
    capture->references++;
    for (emu_object_t *o = emu_object_first(EMU_STREAM); o; o = o->behind) {
        if (((CUstream)o)->capture == capture) {
            part((CUstream)o);
        }
    }
    capture->graph->captured = false;
    if (!keep_graph) {
        emu_graph_free(capture->graph);
    }
    capture->graph = NULL;
    emu_capture_drop(capture);
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
    CUstream stream;
    CUresult status = enter_stream(handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    emu_capture_t *capture = stream->capture;
    if (!graph || !capture) {
        return emu_leave(graph ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_INVALID_VALUE);
    }
    *graph = NULL;
    if (capture->origin != stream) {
        emu_capture_invalidate(capture); /* as driver 580 does */
        return emu_leave(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != emu_self()) {
        return emu_leave(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    }
    if (capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        status = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (!all_joined(stream)) {
        status = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    } else {
        *graph = capture->graph;
    }
    end(capture, status == CUDA_SUCCESS);
    return emu_leave(status);
}

void emu_capture_stream_gone(CUstream stream) {
    emu_capture_t *capture = stream->capture;
    if (!capture) {
        return;
    }
    emu_capture_invalidate(capture);
    if (capture->origin == stream) {
        end(capture, false); /* nobody can end it any more */
    } else {
        part(stream);
    }
}

/* Questions ---------------------------------------------------------------------------------------
 */

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *captures) {
    CUstream stream;
    CUresult status = enter_stream(handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!captures) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    status = stream->legacy ? legacy(stream->context, false) : CUDA_SUCCESS;
    *captures = stream->capture ? stream->capture->status : CU_STREAM_CAPTURE_STATUS_NONE;
    return emu_leave(status);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *captures, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies,
                                   size_t *count) {
    CUstream stream;
    CUresult status = enter_stream(handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!captures) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    status = stream->legacy ? legacy(stream->context, false) : CUDA_SUCCESS;
    const emu_capture_t *capture = stream->capture;
    *captures = capture ? capture->status : CU_STREAM_CAPTURE_STATUS_NONE;
    if (capture && id) {
        *id = capture->id;
    }
    if (capture && graph) {
        *graph = capture->graph;
    }
    if (capture && dependencies) {
        *dependencies = stream->dependency;
    }
    if (capture && count) {
        *count = stream->dependencies;
    }
    return emu_leave(status);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode *dependencies, size_t count,
                                           unsigned int flags) {
    CUstream stream;
    CUresult status = enter_stream(handle, &stream);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!stream->capture || stream->capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        return emu_leave(CUDA_ERROR_ILLEGAL_STATE);
    }
    bool valid = flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES && (count == 0 || dependencies);
    for (size_t i = 0; i < count && valid; i++) {
        valid = emu_object_is(dependencies[i], EMU_NODE) &&
                dependencies[i]->graph == stream->capture->graph;
    }
    if (!valid) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
        set_dependencies(&stream->dependency, &stream->dependencies, dependencies, count);
    } else {
        add_dependencies(stream, dependencies, count);
    }
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    emu_thread_t *self = emu_self();
    CUstreamCaptureMode before = self->mode;
    self->mode = *mode;
    *mode = before;
    return emu_leave(CUDA_SUCCESS);
}
