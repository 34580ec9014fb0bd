/* blocks.h: where the blocks of a case lie: counts and displacements of every endpoint, in
 * elements. See the table in reference.h for their meaning. Blocks of one buffer never overlap.
 */
#ifndef TESTS_BLOCKS_H_
#define TESTS_BLOCKS_H_

#include "cases.h"

typedef struct blocks {
    uint64_t *counts, *src_displacements, *dst_displacements; /* [size][size] */
} blocks_t;

blocks_t blocks_create(const coll_case_t *c, uint64_t *random);
void blocks_free(blocks_t *blocks);

/* Does the in-place rule of this case apply at endpoint i? */
bool case_in_place_at(const coll_case_t *c, uint32_t i);

/* Elements of endpoint i's source and destination; 0 where it has none. For bcast and mcast the one
 * buffer is the destination. */
uint64_t blocks_src_elements(const coll_case_t *c, const blocks_t *blocks, uint32_t i);
uint64_t blocks_dst_elements(const coll_case_t *c, const blocks_t *blocks, uint32_t i);

/* Sum of one row of counts. */
uint64_t blocks_total(const coll_case_t *c, const blocks_t *blocks);

#endif
