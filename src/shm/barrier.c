/* barrier.c: barrier, fanin and fanout: arrival and release without data.
 *
 *   barrier  everybody waits for all
 *   fanin    the root waits for all, the others for nobody
 *   fanout   the others wait for the root, the root for nobody
 * Two-sided (SYNC, CHECK), all three wait for all; under CHECK, so does a data collective at a
 * member that has no data.
 */
#include "shm/internal.h"

static ucc_status_t publish_and_arrive(hd_op_t *op) {
    ucc_status_t status = hd_lane_announce(op);
    if (status == UCC_OK) {
        hd_arrive(op, false);
    }
    return status;
}

/* All lanes, also where there is a tree: whoever combined arrivals for the root would have to stay
 * for others' sake. The next lanes are on their way while one is looked at. */
static ucc_status_t wait_for_lanes(hd_op_t *op) {
    enum { AHEAD = 8 };
    for (uint32_t i = op->cursor; i < op->place.n && i < op->cursor + AHEAD; i++) {
        __builtin_prefetch(hd_board_lane(op->place.board, i, op->place.k));
    }
    return hd_op_all_lanes(op);
}

static ucc_status_t wait_for_root(hd_op_t *op) {
    const hd_lane_t *lane;
    return hd_op_lane(op, op->call.root, &lane);
}

ucc_status_t hd_barrier_start(hd_op_t *op) {
    op->wait = hd_arrived;
    return publish_and_arrive(op);
}

ucc_status_t hd_fanin_start(hd_op_t *op) {
    if (op->plan.all_wait) {
        return hd_barrier_start(op);
    }
    bool by_tree = op->plan.path == HD_PATH_TREE;
    op->wait = !op->call.is_root ? hd_arrive_done : by_tree ? hd_arrived : wait_for_lanes;
    return by_tree ? publish_and_arrive(op) : hd_lane_announce(op);
}

ucc_status_t hd_fanout_start(hd_op_t *op) {
    if (op->plan.all_wait) {
        return hd_barrier_start(op);
    }
    op->wait = op->call.is_root ? hd_arrive_done : wait_for_root;
    return hd_lane_announce(op);
}
