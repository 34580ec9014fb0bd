/* parts.c: see parts.h.
 *
 * Whether members of several processes may write into each other's parts (put.c) is decided once,
 * before the first operation, and for all: each process maps the heaps of all parts, and says so
 * when it has; the last one to say so decides that they may. Who can't, or does not see that come
 * in time (a process may be stopped), decides that they may not. The first decision counts.
 */
#include "shm/parts.h"

#include "core/log.h"
#include "shm/reach.h"
#include "shm/shm.h"

#include <string.h>

_Static_assert(sizeof(hd_part_t) <= sizeof(struct hd_region),
               "parts lie where regions do that all mappings share");

void *hd_part_alloc(const hd_group_t *group, size_t bytes) {
    void *part = group->part ? hd_heap_alloc(bytes) : NULL;
    if (part) {
        memset(part, 0, bytes);
    }
    return part ? part : hd_alloc_part(bytes);
}

void hd_part_free(void *part, size_t bytes) {
    if (!hd_heap_free(part)) {
        hd_free_part(part, bytes);
    }
}

void hd_part_show(hd_group_t *group, uint32_t ep) {
    const struct hd_region *region = &group->region[ep];
    if (group->part && group->reach && region->bytes) {
        group->part[ep].bytes = region->bytes;
        /* release: its size; pairs with hd_part_find */
        atomic_store_explicit(&group->part[ep].word,
                              hd_reach_word(group->reach, region->address, region->bytes),
                              memory_order_release);
    }
}

ucc_status_t hd_part_find(hd_group_t *group, uint32_t ep, void **address, size_t *bytes) {
    /* acquire: pairs with hd_part_show */
    uint64_t word = group->part ? atomic_load_explicit(&group->part[ep].word, memory_order_acquire)
                                : HD_REACH_FAR;
    if (word == 0) {
        return UCC_ERR_NOT_FOUND;
    }
    if (word == HD_REACH_FAR || !group->reach) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    *address = hd_reach_at(group->reach, word);
    *bytes = (size_t)group->part[ep].bytes;
    if (!*address && hd_reach_has_failed(group->reach, word)) {
        return UCC_ERR_NO_RESOURCE;
    }
    if (!*address) {
        hd_reach_want(group->reach, hd_reach_bit(word) & ~hd_reach_slots(group->reach));
        return UCC_INPROGRESS;
    }
    return hd_reach_holds(group->reach, word, *bytes) ? UCC_OK : UCC_ERR_NOT_SUPPORTED;
}

/* --- may they write there? -------------------------------------------------------------------- */

static bool is_here(const hd_group_t *group, uint32_t ep) {
    return group->home_of[ep] == group->mapping.number;
}

/* Is there a part at all, and none that can't be reached? All processes see the same. */
static bool could_be_reached(const hd_group_t *group) {
    bool some = false;
    for (uint32_t ep = 0; ep < group->n; ep++) {
        /* relaxed: ordered by its joining */
        uint64_t word = atomic_load_explicit(&group->part[ep].word, memory_order_relaxed);
        if (word == HD_REACH_FAR) {
            return false;
        }
        some = some || word != 0;
    }
    return some;
}

bool hd_parts_begin(hd_group_t *group) {
    if (!group->apart || group->outside) {
        return false;
    }
    if (!hd_group_spans_processes(group)) { /* addresses are the same in all mappings */
        group->puts = true;
        return false;
    }
    if (!could_be_reached(group)) {
        return false;
    }
    group->awaits_since = hd_ticks();
    /* release: what else hd_group_seal wrote; pairs with hd_parts_are_awaited */
    atomic_store_explicit(&group->awaits_parts, 1, memory_order_release);
    return true;
}

static void decide(hd_group_t *group, hd_puts_t puts) {
    uint32_t open = HD_PUTS_OPEN;
    /* acq_rel: that all reach all parts; pairs with hd_parts_look */
    atomic_compare_exchange_strong_explicit(&group->charter->puts, &open, (uint32_t)puts,
                                            memory_order_acq_rel, memory_order_acquire);
    hd_bell_alarm(&group->home.bell); /* those of other mappings may sleep */
    hd_bell_ring(&group->home.bell);
}

/* Of all endpoints of other processes, asks for all that are not there yet. */
static ucc_status_t find_all(hd_group_t *group) {
    ucc_status_t all = UCC_OK;
    for (uint32_t ep = 0; ep < group->n; ep++) {
        void *address;
        size_t bytes;
        ucc_status_t status =
            is_here(group, ep) ? UCC_ERR_NOT_FOUND : hd_part_find(group, ep, &address, &bytes);
        if (status == UCC_OK) {
            group->region[ep] = (struct hd_region){.address = address, .bytes = bytes};
        } else if (status != UCC_ERR_NOT_FOUND) { /* nobody writes where there is no part */
            all = all < 0 ? all : status;
        }
    }
    return all;
}

static void say(hd_group_t *group) {
    ucc_status_t found = find_all(group);
    group->reaches_parts = found == UCC_OK;
    if (found < 0) {
        decide(group, HD_PUTS_NO);
        /* acq_rel: hands on, and takes in, that heaps are mapped */
    } else if (found == UCC_OK &&
               atomic_fetch_add_explicit(&group->charter->reaching, 1, memory_order_acq_rel) + 1 ==
                   group->mapping.n) {
        decide(group, HD_PUTS_YES);
    }
}

static bool is_in_vain(const hd_group_t *group) {
    enum { PATIENCE_MS = 5000 };
    return hd_group_poisoned(group) != UCC_OK ||
           hd_ticks() - group->awaits_since > PATIENCE_MS * 1000 * hd_ticks_per_us;
}

static hd_puts_t decided(const hd_group_t *group) {
    /* acquire: pairs with decide */
    return (hd_puts_t)atomic_load_explicit(&group->charter->puts, memory_order_acquire);
}

bool hd_parts_look(hd_group_t *group) {
    if (!hd_lock_try(&group->parts_lock)) {
        return false;
    }
    if (!group->reaches_parts && decided(group) == HD_PUTS_OPEN) {
        say(group);
    }
    if (decided(group) == HD_PUTS_OPEN && is_in_vain(group)) {
        hd_info("parts of a team's memory are not mapped in all of its processes: they are not "
                "written to by others");
        decide(group, HD_PUTS_NO);
    }
    hd_puts_t puts = decided(group);
    group->puts = puts == HD_PUTS_YES;
    hd_unlock(&group->parts_lock);
    return puts != HD_PUTS_OPEN;
}
