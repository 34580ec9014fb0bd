/* put.c: one-sided bcast, allgather and alltoall into the team's symmetric memory. Every member said that
 * its buffers lie there and may be touched before it posts (HEDDLE_COLL_FLAG_SYMMETRIC and _READY), so
 * the source writes straight into its peers' buffers, whether they have entered or not, and its lane
 * only says that the data is there. One copy, one synchronization, at any size.
 *
 * A buffer has the same offset in every member's part of the memory (group->region): it is part of the
 * signature, so that a member with another one is found, if too late for what was overwritten. Whether a
 * peer still reads what is overwritten is the caller's business: that is what READY promises.
 */
#include "shm/shm.h"

#include <string.h>

size_t hd_put_offset(const hd_op_t *op, const uint8_t *buffer) {
    return (size_t)(buffer - (const uint8_t *)op->group->region[op->me].address);
}

/* Where my buffer lies at member i. */
static uint8_t *at_peer(const hd_op_t *op, const uint8_t *buffer, uint32_t i) {
    return (uint8_t *)op->group->region[i].address + hd_put_offset(op, buffer);
}

bool hd_put_fits(const hd_op_t *op, const uint8_t *buffer, size_t bytes) {
    const struct hd_region *region = op->group->region;
    uintptr_t base = (uintptr_t)region[op->me].address, at = (uintptr_t)buffer;
    for (uint32_t i = 0; i < op->n; i++) {
        if (at < base || at - base > region[i].bytes || bytes > region[i].bytes - (at - base)) {
            return false;
        }
    }
    return true;
}

static ucc_status_t done(hd_op_t *op) {
    (void)op;
    return UCC_OK;
}

static ucc_status_t wait_for_root(hd_op_t *op) {
    const hd_lane_t *lane;
    return hd_op_lane(op, op->root, &lane);
}

static void put(const hd_op_t *op, uint32_t i, const uint8_t *buffer, const uint8_t *src) {
    uint8_t *dst = at_peer(op, buffer, i);
    if (dst != src) {
        memcpy(dst, src, op->bytes);
    }
}

ucc_status_t hd_put_start(hd_op_t *op) {
    bool is_bcast = op->type == HD_BCAST || op->type == HD_MCAST;
    op->wait = !is_bcast ? hd_op_all_lanes : op->is_root ? done : wait_for_root;
    for (uint32_t i = 0; (!is_bcast || op->is_root) && i < op->n; i++) {
        if (is_bcast) {
            put(op, i, op->src, op->src);
        } else {
            const uint8_t *src = op->type == HD_ALLTOALL ? op->src + i * op->bytes : op->src;
            put(op, i, op->dst + op->me * op->bytes, src);
        }
    }
    return hd_lane_publish(op, HD_REGIME_NONE, NULL, 0);
}
