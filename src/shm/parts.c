/* parts.c: see parts.h. */
#include "shm/parts.h"

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
    if (!*address) {
        hd_reach_want(group->reach, hd_reach_bit(word) & ~hd_reach_slots(group->reach));
        return hd_reach_lacks(group->reach, hd_reach_bit(word)) ? UCC_ERR_NO_RESOURCE
                                                                : UCC_INPROGRESS;
    }
    return hd_reach_holds(group->reach, word, *bytes) ? UCC_OK : UCC_ERR_NOT_SUPPORTED;
}
