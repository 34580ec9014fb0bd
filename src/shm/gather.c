/* gather.c: gather and gatherv. A small block is published with its lane, and its source is done;
 * the root copies blocks as they come. A large one waits for the engine, which copies it to the
 * root.
 *
 * In gatherv nobody but the root knows the others' sizes, so both kinds meet in one exchange: all
 * register with the engine, and the root finds out from the lanes whether there is work for it.
 * op->call.src is my block of op->call.bytes bytes (at the root: in place inside op->call.dst).
 */
#include "core/copy.h"
#include "shm/internal.h"

#include <string.h>

enum { LARGE = 64 * 1024 }; /* a root's own block that is worth a look at how it is copied */

static inline uint8_t *place_of(const hd_op_t *op, uint32_t i, bool vector, size_t *bytes) {
    if (!vector) {
        *bytes = op->call.bytes;
        return op->call.dst + i * op->call.bytes;
    }
    *bytes = hd_vector_count(&op->call.receive, i) * op->call.element;
    return hd_at(op->call.dst, hd_vector_displacement(&op->call.receive, i) * op->call.element);
}

/* The root's own block, by the stores that fit how much it receives. */
static __attribute__((noinline)) void take_large(hd_op_t *op, uint8_t *place, size_t bytes) {
    hd_copy(place, op->call.src, bytes, op->plan.stores);
    if (hd_stores_stream(op->plan.stores)) {
        hd_copy_fence();
    }
}

/* Copies the block that came with a lane; true unless it is still being written. */
static inline ucc_status_t take(hd_op_t *op, uint32_t i, const hd_lane_t *lane, bool vector) {
    size_t bytes;
    uint8_t *place = place_of(op, i, vector, &bytes);
    if (i == op->place.me) {
        if (place != op->call.src) {
            if (bytes - 1 < LARGE - 1) {
                memcpy(place, op->call.src, bytes);
            } else if (bytes) {
                take_large(op, place, bytes);
            }
        }
        return UCC_OK;
    }
    if (hd_lane_regime(lane) == HD_REGIME_DIRECT) {
        op->any_direct = true;
        return UCC_OK;
    }
    return hd_lane_take(op, i, lane, bytes, place);
}

static ucc_status_t take_block(hd_op_t *op, uint32_t i, const hd_lane_t *lane) {
    return take(op, i, lane, false);
}

static ucc_status_t take_of_vector(hd_op_t *op, uint32_t i, const hd_lane_t *lane) {
    return take(op, i, lane, true);
}

static ucc_status_t wait_for_all(hd_op_t *op) {
    return hd_engine_after_lanes(op, take_block);
}

static ucc_status_t wait_for_vector(hd_op_t *op) {
    return hd_engine_after_lanes(op, take_of_vector);
}

static ucc_status_t wait_for_vector_apart(hd_op_t *op) {
    return hd_far_after_lanes(op, take_of_vector);
}

ucc_status_t hd_gather_start(hd_op_t *op) {
    if (op->plan.path == HD_PATH_ENGINE) {
        return hd_engine_start(op, op->call.src, op->call.dst);
    }
    op->wait = op->call.is_root ? wait_for_all : hd_arrive_done;
    return hd_lane_publish(op, op->call.src, op->call.bytes);
}

/* `at_root`, `directly`: how the root waits, and a source whose block is large. */
static inline __attribute__((always_inline)) ucc_status_t
start_mixed(hd_op_t *op, ucc_status_t registered, ucc_status_t (*at_root)(hd_op_t *op),
            ucc_status_t (*directly)(hd_op_t *op)) {
    ucc_status_t status = registered;
    if (status != UCC_OK) {
        return status;
    }
    if (op->call.is_root) { /* takes its own block itself */
        op->wait = at_root;
    } else if (op->plan.regime == HD_REGIME_DIRECT) {
        op->wait = directly;
    } else {
        op->wait = hd_arrive_done;
        op->exposed = false; /* nobody will look at my buffer */
    }
    status = hd_lane_publish(op, op->call.src, op->call.bytes);
    if (status == UCC_OK) {
        hd_arrive(op, false);
    }
    return status;
}

ucc_status_t hd_gatherv_start(hd_op_t *op) {
    if (op->plan.path == HD_PATH_ENGINE) {
        return hd_engine_start(op, op->call.src, op->call.dst);
    }
    return start_mixed(op, hd_engine_register(op, op->call.src, op->call.dst), wait_for_vector,
                       hd_engine_step);
}

ucc_status_t hd_gatherv_start_apart(hd_op_t *op) {
    return start_mixed(op, hd_far_register(op, hd_arrived), wait_for_vector_apart, hd_far_step);
}
