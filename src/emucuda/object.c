/* object.c: what programs hold handles of. A dead object is kept, and used again only when many
 * others have died, so that the handle of something destroyed is an error instead of a crash.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_DEAD = 256 };

static uint32_t slot(emu_mark_t mark) {
    static const emu_mark_t marks[] = {EMU_CONTEXT,  EMU_STREAM,  EMU_EVENT,  EMU_MODULE,
                                       EMU_FUNCTION, EMU_LIBRARY, EMU_KERNEL, EMU_POOL,
                                       EMU_GRAPH,    EMU_NODE,    EMU_EXEC,   EMU_USER_OBJECT};
    uint32_t i = 0;
    while (marks[i] != mark) {
        i++;
    }
    return i;
}

static emu_object_t *take_dead(size_t bytes) {
    emu_object_t *object = emu.dead;
    if (emu.dead_count < KEPT_DEAD || object->bytes < bytes) {
        return NULL;
    }
    emu.dead = object->next_dead;
    emu.dead_last = emu.dead ? emu.dead_last : NULL;
    emu.dead_count--;
    emu_object_t kept = *object;
    memset(object, 0, kept.bytes);
    object->bytes = kept.bytes;
    object->next = kept.next;
    return object;
}

/* All have room for the largest, so that any of the dead serves. */
static size_t room(size_t bytes) {
    const size_t largest = sizeof(struct CUctx_st) > sizeof(struct CUstream_st)
                               ? sizeof(struct CUctx_st)
                               : sizeof(struct CUstream_st);
    return bytes > largest ? bytes : largest;
}

void *emu_object_new(emu_mark_t mark, size_t bytes) {
    emu_object_t *object = emu.dead ? take_dead(room(bytes)) : NULL;
    if (!object) {
        object = emu_alloc(1, room(bytes));
        object->bytes = (uint32_t)room(bytes);
        object->next = emu.objects;
        emu.objects = object;
    }
    uint32_t i = slot(mark);
    object->mark = mark;
    object->before = emu.alive_last[i];
    if (object->before) {
        object->before->behind = object;
    } else {
        emu.alive[i] = object;
    }
    emu.alive_last[i] = object;
    emu.alive_count[i]++;
    return object;
}

void emu_object_kill(void *dying) {
    emu_object_t *object = dying;
    uint32_t i = slot(object->mark);
    *(object->before ? &object->before->behind : &emu.alive[i]) = object->behind;
    *(object->behind ? &object->behind->before : &emu.alive_last[i]) = object->before;
    emu.alive_count[i]--;
    object->mark = EMU_DEAD;
    object->before = object->behind = object->next_dead = NULL;
    if (emu.dead_last) {
        emu.dead_last->next_dead = object;
    } else {
        emu.dead = object;
    }
    emu.dead_last = object;
    emu.dead_count++;
}

bool emu_object_is(const void *object, emu_mark_t mark) {
    /* The first pages hold the special handles of streams. */
    return (uintptr_t)object >= 4096 && (uintptr_t)object % sizeof(void *) == 0 &&
           ((const emu_object_t *)object)->mark == mark;
}

emu_object_t *emu_object_first(emu_mark_t mark) {
    return emu.alive[slot(mark)];
}

uint64_t emu_object_count(emu_mark_t mark) {
    return emu.alive_count[slot(mark)];
}

void emu_objects_free(void) {
    while (emu.objects) {
        emu_object_t *next = emu.objects->next;
        free(emu.objects);
        emu.objects = next;
    }
}
