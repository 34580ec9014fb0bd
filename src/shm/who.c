/* who.c: what lines say of the processes of a group whose memory several share. Each writes who it
 * is there as it maps the group, and its number in the team; it is read by people only.
 */
#include "shm/internal.h"

#include "core/who.h"

/* Shared, by mapping. */
typedef struct entry {
    alignas(HD_LINE) hd_who_t who;
    uint32_t number;           /* of the process in the team */
    _Atomic uint32_t is_there; /* 1: the rest is written */
} entry_t;

_Static_assert(sizeof(entry_t) == HD_LINE, "a line for each process");

size_t hd_who_bytes(uint32_t mappings) {
    return mappings * sizeof(entry_t);
}

static entry_t *entry_of(const hd_group_t *group, uint32_t mapping) {
    return (entry_t *)(void *)group->who + mapping;
}

void hd_who_write(hd_group_t *group) {
    entry_t *mine = entry_of(group, group->mapping.number);
    mine->who = hd_who_am_i();
    mine->number = group->config.number;
    /* release: what is above; pairs with hd_who_of */
    atomic_store_explicit(&mine->is_there, 1, memory_order_release);
}

bool hd_who_of(const hd_group_t *group, uint32_t mapping, hd_who_t *who, uint32_t *number) {
    if (mapping >= group->mapping.n) { /* it is read in memory that others write */
        return false;
    }
    const entry_t *entry = entry_of(group, mapping);
    /* acquire: pairs with hd_who_write */
    if (!atomic_load_explicit(&entry->is_there, memory_order_acquire)) {
        return false;
    }
    *who = entry->who;
    *number = entry->number;
    hd_who_clean(who);
    return true;
}

bool hd_who_is_here(const hd_group_t *group, uint32_t mapping) {
    return !hd_group_spans_processes(group) || mapping == group->mapping.number;
}

bool hd_who_number(const hd_group_t *group, uint32_t mapping, uint32_t *number) {
    hd_who_t who;
    return hd_who_of(group, mapping, &who, number);
}

void hd_who_say(const hd_group_t *group, uint32_t mapping, hd_text_t *text) {
    hd_who_t who;
    uint32_t number;
    if (hd_who_of(group, mapping, &who, &number)) {
        hd_text_add(text, "process %u (host %s, pid %u", number, who.host, who.pid);
    } else {
        hd_text_add(text, "a process (which has not come");
    }
}

const char *hd_who_thread_state(const hd_group_t *group, uint32_t mapping, int32_t thread) {
    hd_who_t who, mine = {0};
    uint32_t number;
    if (hd_who_is_here(group, mapping)) {
        return hd_thread_state(thread);
    }
    bool known = hd_who_of(group, mapping, &who, &number) &&
                 hd_who_of(group, group->mapping.number, &mine, &number);
    return known && hd_who_is_beside(&who, &mine) ? hd_thread_state_in((int32_t)who.pid, thread)
                                                  : NULL;
}
