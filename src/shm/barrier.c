/* barrier.c: barrier, fanin and fanout: arrival and release without data.
 *
 *   barrier  everybody waits for all
 *   fanin    the root waits for all, the others for nobody
 *   fanout   the others wait for the root, the root for nobody
 * Two-sided (SYNC, CHECK), all three wait for all.
 */
#include "shm/shm.h"

static ucc_status_t publish_and_arrive(hd_op_t *op) {
    ucc_status_t status = hd_lane_publish(op, HD_REGIME_NONE, NULL, 0);
    if (status == UCC_OK) {
        hd_arrive(op, false);
    }
    return status;
}

/* I owe the others my share of combining, and nothing else. */
static ucc_status_t wait_for_nobody(hd_op_t *op) {
    return hd_arrive_help(op) ? UCC_OK : UCC_INPROGRESS;
}

static ucc_status_t wait_for_root(hd_op_t *op) {
    const hd_lane_t *lane;
    return hd_op_lane(op, op->root, &lane);
}

ucc_status_t hd_barrier_start(hd_op_t *op) {
    op->wait = hd_arrived;
    return publish_and_arrive(op);
}

ucc_status_t hd_fanin_start(hd_op_t *op) {
    op->wait = op->is_root || op->group->two_sided ? hd_arrived : wait_for_nobody;
    return publish_and_arrive(op);
}

static ucc_status_t nothing_left(hd_op_t *op) {
    (void)op;
    return UCC_OK;
}

ucc_status_t hd_fanout_start(hd_op_t *op) {
    if (op->group->two_sided) {
        return hd_barrier_start(op);
    }
    op->wait = op->is_root ? nothing_left : wait_for_root;
    return hd_lane_publish(op, HD_REGIME_NONE, NULL, 0);
}
