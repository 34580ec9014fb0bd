/* pool.c: large memory that goes from leg to leg and from flight to flight: see hd_pool_t in
 * span.h. A pool is a crossing's. Steps of legs and completers of arrivals take blocks and give
 * them back, under any lock; memory is allocated and freed outside the pool's own. */
#include "span/span.h"

hd_scratch_t hd_pool_take(hd_pool_t *pool, size_t bytes) {
    hd_scratch_t found = {NULL, 0};
    hd_lock(&pool->lock);
    /* the block that came last is the warmest; none is used that is much too large */
    for (uint32_t i = pool->n; i-- > 0;) {
        if (pool->block[i].room >= bytes && pool->block[i].room / 4 <= bytes) {
            found = pool->block[i];
            pool->block[i] = pool->block[--pool->n];
            hd_assert_le(found.room, pool->bytes);
            pool->bytes -= found.room;
            break;
        }
    }
    hd_unlock(&pool->lock);
    if (!found.at) {
        found.at = hd_alloc(HD_LINE_PAIR, bytes);
        found.room = found.at ? bytes : 0;
    }
    return found;
}

void hd_pool_give(hd_pool_t *pool, hd_scratch_t block) {
    bool kept = false;
    if (!block.at) {
        return;
    }
    hd_assert_lt(0, block.room);
    hd_lock(&pool->lock);
    hd_assert(pool->n <= HD_POOL_BLOCKS && pool->bytes <= HD_POOL_BYTES);
    if (pool->n < HD_POOL_BLOCKS && pool->bytes + block.room <= HD_POOL_BYTES) {
        pool->block[pool->n++] = block;
        pool->bytes += block.room;
        kept = true;
    }
    hd_unlock(&pool->lock);
    if (!kept) {
        hd_free(block.at);
    }
}

void hd_pool_clear(hd_pool_t *pool) {
    while (pool->n > 0) {
        hd_free(pool->block[--pool->n].at);
    }
    pool->bytes = 0;
}
