/* parts.h: the team's memory (group->region), of which each endpoint has a part: the parts of other
 * processes' endpoints, if they lie in heaps. */
#ifndef HD_SHM_PARTS_H
#define HD_SHM_PARTS_H

#include "shm/types.h"

/* Memory for an endpoint's part: reads as zero; in a heap, if other processes may ask for it and a
 * heap can be had. NULL: no memory. */
void *hd_part_alloc(const hd_group_t *group, size_t bytes);
void hd_part_free(void *part, size_t bytes);

/* By this process, when region[ep] is written, before endpoint ep joins: others may ask for it. */
void hd_part_show(hd_group_t *group, uint32_t ep);
/* Of an endpoint of another process. UCC_ERR_NOT_FOUND: it has none; UCC_ERR_NOT_SUPPORTED: it lies
 * in no heap; UCC_INPROGRESS: the heap is being mapped; UCC_ERR_NO_RESOURCE: it can't be. */
ucc_status_t hd_part_find(hd_group_t *group, uint32_t ep, void **address, size_t *bytes);

/* All have joined, and nobody of this mapping knows it yet. True: it has to be found out whether
 * all processes reach all parts; then hd_parts_look is called until it says that this is known. */
bool hd_parts_begin(hd_group_t *group);
bool hd_parts_look(hd_group_t *group);
static inline bool hd_parts_are_awaited(const hd_group_t *group) {
    /* acquire: pairs with hd_parts_begin */
    return atomic_load_explicit(&group->awaits_parts, memory_order_acquire) != 0;
}

#endif
