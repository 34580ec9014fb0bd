/* scatter.c: scatter and scatterv. Small: the root publishes all blocks, each member copies its
 * own. Large: the engine copies.
 *
 * In scatterv only the root knows the total: all register with the engine, and find out from the
 * root's lane. op->call.dst takes my block of op->call.bytes bytes; op->call.src is the root's
 * buffer of op->call.total bytes.
 */
#include "shm/internal.h"

#include <string.h>

static inline const uint8_t *root_block(const hd_op_t *op, uint32_t i, bool vector, size_t *bytes) {
    if (!vector) {
        *bytes = op->call.bytes;
        return op->call.src + i * op->call.bytes;
    }
    *bytes = hd_vector_count(&op->call.send, i) * op->call.element;
    return hd_at(op->call.src, hd_vector_displacement(&op->call.send, i) * op->call.element);
}

static inline ucc_status_t take_own(hd_op_t *op, bool vector) {
    size_t bytes;
    const uint8_t *block = root_block(op, op->place.me, vector, &bytes);
    if (!op->call.in_place && bytes != op->call.bytes) {
        return hd_op_sizes_differ(op, op->place.me, bytes, op->call.bytes);
    }
    if (!op->call.in_place && bytes && block != op->call.dst) {
        memcpy(op->call.dst, block, bytes);
    }
    return UCC_OK;
}

ucc_status_t hd_scatter_wait(hd_op_t *op) {
    const hd_lane_t *lane;
    ucc_status_t status = hd_op_lane(op, op->call.root, &lane);
    if (status == UCC_OK && !hd_lane_read(lane, op->place.k, op->place.me * op->call.bytes,
                                          op->call.bytes, op->call.dst)) {
        return UCC_INPROGRESS;
    }
    return status;
}

/* `directly`: how all wait if the root's blocks are large. */
static inline __attribute__((always_inline)) ucc_status_t
wait_for_mixed(hd_op_t *op, ucc_status_t (*directly)(hd_op_t *op)) {
    const hd_lane_t *lane;
    ucc_status_t status = hd_op_lane(op, op->call.root, &lane);
    if (status != UCC_OK) {
        return status;
    }
    if (hd_lane_regime(lane) == HD_REGIME_DIRECT) {
        op->wait = directly;
        return directly(op);
    }
    op->exposed = false; /* no work in this exchange */
    return hd_arrive_help(op)
               ? hd_lane_take_own(op, op->call.root, lane, op->call.bytes, op->call.dst)
               : UCC_INPROGRESS;
}

static ucc_status_t wait_for_vector(hd_op_t *op) {
    return wait_for_mixed(op, hd_engine_step);
}

static ucc_status_t wait_for_vector_apart(hd_op_t *op) {
    return wait_for_mixed(op, hd_far_step);
}

/* By the root of a scatterv, all of whose data goes out with its lane. */
static ucc_status_t publish_all(hd_op_t *op) {
    op->wait = hd_arrive_done;
    op->exposed = false;
    ucc_status_t status = hd_lane_publish_blocks(op, op->call.element, UINT32_MAX);
    if (status == UCC_OK) {
        status = take_own(op, true);
    }
    if (status == UCC_OK) {
        hd_arrive(op, false);
    }
    return status;
}

/* `wait`: how all but the root do; `expose`, `directly`: what the root does if its blocks are
 * large, and how it waits. */
static inline __attribute__((always_inline)) ucc_status_t
start_mixed(hd_op_t *op, ucc_status_t registered, ucc_status_t (*wait)(hd_op_t *op),
            ucc_status_t (*expose)(hd_op_t *op), ucc_status_t (*directly)(hd_op_t *op)) {
    ucc_status_t status = registered;
    if (status != UCC_OK) {
        return status;
    }
    if (!op->call.is_root) {
        op->wait = wait;
        status = hd_lane_announce(op);
    } else if (op->plan.regime == HD_REGIME_DIRECT) {
        op->wait = directly;
        status = expose(op);
    } else {
        return publish_all(op);
    }
    if (status == UCC_OK) {
        hd_arrive(op, false);
    }
    return status;
}

ucc_status_t hd_scatterv_start(hd_op_t *op) {
    if (op->plan.path == HD_PATH_ENGINE) {
        return hd_engine_start(op, op->call.src, op->call.dst);
    }
    if (op->call.is_root && op->plan.regime != HD_REGIME_DIRECT) {
        /* the engine has no work in this exchange, of which nobody else has data: it need not know
         * of the root */
        return publish_all(op);
    }
    return start_mixed(op, hd_engine_register(op, op->call.src, op->call.dst), wait_for_vector,
                       hd_lane_expose, hd_engine_step);
}

ucc_status_t hd_scatterv_start_apart(hd_op_t *op) {
    return start_mixed(op, hd_far_register(op, hd_arrived), wait_for_vector_apart, hd_far_expose,
                       hd_far_step);
}

ucc_status_t hd_scatter_start(hd_op_t *op) {
    if (op->plan.path == HD_PATH_ENGINE) {
        return hd_engine_start(op, op->call.src, op->call.dst);
    }
    op->wait = op->call.is_root ? hd_arrive_done : hd_scatter_wait;
    ucc_status_t status = hd_lane_publish(op, op->call.src, op->call.bytes * op->place.n);
    return status == UCC_OK && op->call.is_root ? take_own(op, false) : status;
}

ucc_status_t hd_scatter_start_staged(hd_op_t *op) {
    size_t block = op->call.bytes;
    hd_assert(op->call.is_root); /* nobody else has anything that would be staged */
    op->wait = hd_arrive_done;
    ucc_status_t status =
        hd_lane_stage_others(op, op->call.src, block * op->place.n, block * op->place.me, block);
    return status == UCC_OK ? take_own(op, false) : status;
}
