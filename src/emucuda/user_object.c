/* user_object.c: what lives as long as a graph needs it. */
#include "emu.h"

#include <stdlib.h>

void emu_user_object_drop(CUuserObject object, uint64_t count) {
    object->references -= count;
    if (object->references == 0) {
        emu_destroy_later(object->destroy, object->pointer);
        emu_object_kill(object);
    }
}

void emu_held_drop(emu_held_t *held, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (held[i].count > 0) {
            emu_user_object_drop(held[i].object, held[i].count);
        }
    }
}

CUresult cuUserObjectCreate(CUuserObject *object, void *pointer, CUhostFn destroy,
                            unsigned int references, unsigned int flags) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!object || !destroy || references == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *object = emu_object_new(EMU_USER_OBJECT, sizeof(**object));
    (*object)->destroy = destroy;
    (*object)->pointer = pointer;
    (*object)->references = (*object)->owned = references;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(object, EMU_USER_OBJECT) || count == 0) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    object->references += count;
    object->owned += count;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(object, EMU_USER_OBJECT) || count == 0 || count > object->owned) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    object->owned -= count;
    emu_user_object_drop(object, count);
    return emu_leave(planted);
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                 unsigned int flags) {
    CUresult status = emu_enter();
    if (status != CUDA_SUCCESS) {
        return status;
    }
    bool valid = emu_object_is(graph, EMU_GRAPH) && emu_object_is(object, EMU_USER_OBJECT) &&
                 count > 0 && flags <= CU_GRAPH_USER_OBJECT_MOVE &&
                 (flags == 0 || count <= object->owned);
    if (!valid) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (flags == 0) {
        object->references += count;
    } else {
        object->owned -= count; /* the program's are the graph's now */
    }
    uint32_t room = (uint32_t)graph->held_count;
    graph->held = emu_grow(graph->held, &room, room + 1, sizeof(*graph->held));
    graph->held[graph->held_count++] = (emu_held_t){.object = object, .count = count};
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
    CUresult planted, status = emu_enter_freeing(&planted);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    if (!emu_object_is(graph, EMU_GRAPH) || !emu_object_is(object, EMU_USER_OBJECT)) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    size_t i = 0;
    while (i < graph->held_count &&
           !(graph->held[i].object == object && graph->held[i].count >= count)) {
        i++;
    }
    if (i == graph->held_count || count == 0) {
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    graph->held[i].count -= count;
    emu_user_object_drop(object, count);
    return emu_leave(planted);
}
