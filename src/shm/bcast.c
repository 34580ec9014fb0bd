/* bcast.c: bcast and mcast. Small: the root publishes the data and is done; each of the others
 * copies it from the root's lane. Large: the engine copies windows to all.
 *
 * op->src is the buffer at the root, op->dst the same buffer elsewhere; op->bytes its size.
 */
#include "shm/shm.h"

static ucc_status_t done(hd_op_t *op) {
    (void)op;
    return UCC_OK;
}

static ucc_status_t wait_for_data(hd_op_t *op) {
    const hd_lane_t *lane;
    ucc_status_t status = hd_op_lane(op, op->root, &lane);
    if (status == UCC_OK && !hd_lane_read(lane, op->k, 0, op->bytes, op->dst)) {
        return UCC_INPROGRESS;
    }
    return status;
}

ucc_status_t hd_bcast_start(hd_op_t *op) {
    hd_regime_t regime = hd_regime_for(op->group, op->bytes);
    if (regime == HD_REGIME_DIRECT) {
        return hd_engine_start(op, op->is_root ? op->src : NULL,
                               op->is_root ? (void *)(uintptr_t)op->src : op->dst);
    }
    if (!op->is_root) {
        op->wait = wait_for_data;
        return hd_lane_publish(op, HD_REGIME_NONE, NULL, 0);
    }
    op->wait = done;
    return hd_lane_publish(op, regime, op->src, op->bytes);
}
