/* alltoall.c: alltoall and alltoallv. Small: everybody publishes all its blocks, and copies its own
 * from each lane as it comes. Large: the engine copies (in place: swaps) the pairs' blocks.
 *
 * In alltoallv nobody knows the others' sizes: all register with the engine and find out from the
 * lanes who has published data and who has not.
 * In place, blocks are sent from op->call.dst as it was.
 */
#include "shm/internal.h"

#include <string.h>

static const uint8_t *source(const hd_op_t *op) {
    return op->call.in_place ? op->call.dst : op->call.src;
}

/* --- alltoall --------------------------------------------------------------------------------- */

static ucc_status_t wait_for_all(hd_op_t *op) {
    const hd_lane_t *lane;
    for (; op->cursor < op->place.n; op->cursor++) {
        if (op->cursor == op->place.me) {
            if (op->call.bytes) { /* else there may be no buffers */
                memmove(op->call.dst + op->place.me * op->call.bytes,
                        source(op) + op->place.me * op->call.bytes, op->call.bytes);
            }
            continue;
        }
        ucc_status_t status = hd_op_lane(op, op->cursor, &lane);
        if (status != UCC_OK) {
            return status;
        }
        if (!hd_lane_read(lane, op->place.k, op->place.me * op->call.bytes, op->call.bytes,
                          op->call.dst + op->cursor * op->call.bytes)) {
            return UCC_INPROGRESS;
        }
    }
    op->saw_all = true;
    return UCC_OK;
}

/* --- alltoallv -------------------------------------------------------------------------------- */

/* The block for itself, which does not travel. Never in place. */
static ucc_status_t take_own(hd_op_t *op) {
    size_t sent = hd_vector_count(&op->call.send, op->place.me) * op->call.send_element;
    size_t expected = hd_vector_count(&op->call.receive, op->place.me) * op->call.element;
    if (sent != expected) {
        return hd_op_sizes_differ(op, op->place.me, sent, expected);
    }
    if (sent) {
        memmove(hd_at(op->call.dst,
                      hd_vector_displacement(&op->call.receive, op->place.me) * op->call.element),
                hd_at(op->call.src,
                      hd_vector_displacement(&op->call.send, op->place.me) * op->call.send_element),
                sent);
    }
    return UCC_OK;
}

static ucc_status_t take(hd_op_t *op, uint32_t from, const hd_lane_t *lane) {
    if ((lane ? hd_lane_regime(lane) : (hd_regime_t)op->plan.regime) == HD_REGIME_DIRECT) {
        op->any_direct = true;
        return UCC_OK;
    }
    if (!lane) {
        return take_own(op);
    }
    return hd_lane_take_own(
        op, from, lane, hd_vector_count(&op->call.receive, from) * op->call.element,
        hd_at(op->call.dst, hd_vector_displacement(&op->call.receive, from) * op->call.element));
}

static ucc_status_t wait_for_vector(hd_op_t *op) {
    return hd_engine_after_lanes(op, take);
}

static ucc_status_t wait_for_vector_apart(hd_op_t *op) {
    return hd_far_after_lanes(op, take);
}

/* On the path MIXED. register_little: if my data go out with my lane. */
static inline __attribute__((always_inline)) ucc_status_t
start_vector(hd_op_t *op,
             ucc_status_t (*register_little)(hd_op_t *op, const void *src, void *dst)) {
    bool direct = op->plan.regime == HD_REGIME_DIRECT;
    ucc_status_t status = direct ? hd_engine_register(op, op->call.src, op->call.dst)
                                 : register_little(op, op->call.src, op->call.dst);
    if (status != UCC_OK) {
        return status;
    }
    op->wait = wait_for_vector;
    status = direct ? hd_lane_expose(op)
                    : hd_lane_publish_blocks(op, op->call.send_element, op->place.me);
    if (status == UCC_OK) {
        hd_arrive(op, false);
    }
    return status;
}

ucc_status_t hd_alltoallv_start(hd_op_t *op) {
    if (op->plan.path == HD_PATH_ENGINE) { /* in place, too */
        return hd_engine_start(op, source(op), op->call.dst);
    }
    return start_vector(op, hd_engine_register_idle);
}

/* My slice has what I get, also if I give little: then that is not looked into, but a unit for
 * each. */
ucc_status_t hd_alltoallv_start_pulled(hd_op_t *op) {
    return start_vector(op, hd_engine_register_blocks);
}

ucc_status_t hd_alltoallv_start_apart(hd_op_t *op) {
    ucc_status_t status = hd_far_register(op, hd_arrived);
    if (status != UCC_OK) {
        return status;
    }
    op->wait = wait_for_vector_apart;
    status = op->plan.regime == HD_REGIME_DIRECT
                 ? hd_far_expose(op)
                 : hd_lane_publish_blocks(op, op->call.send_element, op->place.me);
    if (status == UCC_OK) {
        hd_arrive(op, false);
    }
    return status;
}

ucc_status_t hd_alltoall_start(hd_op_t *op) {
    if (op->plan.path == HD_PATH_ENGINE) {
        return hd_engine_start(op, source(op), op->call.dst);
    }
    op->wait = wait_for_all;
    return hd_lane_publish(op, source(op), op->call.bytes * op->place.n);
}

/* My own block I take from its buffer. */
ucc_status_t hd_alltoall_start_staged(hd_op_t *op) {
    size_t block = op->call.bytes;
    op->wait = wait_for_all;
    return hd_lane_stage_others(op, source(op), block * op->place.n, block * op->place.me, block);
}
