/* bcast.c: bcast and mcast. Small: the root publishes the data and is done; each of the others
 * copies it from the root's lane; or, over several domains of a machine, from a line that the first
 * member of its domain writes. Large: the engine copies windows to all.
 *
 * op->call.src is the buffer at the root, op->call.dst the same buffer elsewhere; op->call.bytes
 * its size.
 */
#include "shm/internal.h"

#include <string.h>

ucc_status_t hd_bcast_wait(hd_op_t *op) {
    const hd_lane_t *lane;
    ucc_status_t status = hd_op_lane(op, op->call.root, &lane);
    if (status == UCC_OK && !hd_lane_read(lane, op->place.k, 0, op->call.bytes, op->call.dst)) {
        return UCC_INPROGRESS;
    }
    return status;
}

/* Over several domains: takes the data from above, hands it on to those below. */
static ucc_status_t wait_for_relay(hd_op_t *op) {
    const void *data = op->call.dst;
    ucc_status_t status =
        op->release.from == HD_TREE_ORIGIN ? hd_bcast_wait(op) : hd_relay_data(op, &data);
    if (status != UCC_OK) {
        return status;
    }
    if (data != op->call.dst && op->call.bytes) {
        memcpy(op->call.dst, data, op->call.bytes);
    }
    return hd_relay(op, op->call.dst);
}

ucc_status_t hd_bcast_start(hd_op_t *op) {
    if (op->plan.path == HD_PATH_ENGINE) {
        return hd_engine_start(op, op->call.is_root ? op->call.src : NULL,
                               op->call.is_root ? (void *)(uintptr_t)op->call.src : op->call.dst);
    }
    if (op->call.is_root) {
        op->wait = hd_arrive_done;
    } else if (op->plan.path == HD_PATH_TREE) {
        hd_relay_enter(op);
        op->wait = wait_for_relay;
    } else {
        op->wait = hd_bcast_wait;
    }
    return hd_lane_publish(op, op->call.src, op->call.bytes);
}
