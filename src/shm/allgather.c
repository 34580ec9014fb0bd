/* allgather.c: allgather and allgatherv. Small: everybody publishes its block and copies all
 * others' as they come. Large: the engine copies parts of each block to all.
 *
 * For allgatherv the regime follows the largest block, which all know, so that all agree on it.
 * op->call.src is my block of op->call.bytes bytes (inside op->call.dst in place).
 */
#include "shm/internal.h"

#include <string.h>

typedef struct place {
    size_t at, bytes;
} place_t;

static inline place_t place_of(const hd_op_t *op, uint32_t i, bool vector) {
    if (!vector) {
        return (place_t){i * op->call.bytes, op->call.bytes};
    }
    return (place_t){hd_vector_displacement(&op->call.receive, i) * op->call.element,
                     hd_vector_count(&op->call.receive, i) * op->call.element};
}

static inline ucc_status_t take_all(hd_op_t *op, bool vector) {
    const hd_lane_t *lane;
    for (; op->cursor < op->place.n; op->cursor++) {
        place_t place = place_of(op, op->cursor, vector);
        uint8_t *dst = hd_at(op->call.dst, place.at);
        if (op->cursor == op->place.me) {
            if (dst != op->call.src && place.bytes) {
                memcpy(dst, op->call.src, place.bytes);
            }
            continue;
        }
        ucc_status_t status = hd_op_lane(op, op->cursor, &lane);
        if (status != UCC_OK) {
            return status;
        }
        status = hd_lane_take(op, op->cursor, lane, place.bytes, dst);
        if (status != UCC_OK) {
            return status;
        }
    }
    op->saw_all = true;
    return UCC_OK;
}

static ucc_status_t wait_for_all(hd_op_t *op) {
    return take_all(op, false);
}

static ucc_status_t wait_for_vector(hd_op_t *op) {
    return take_all(op, true);
}

/* allgatherv: only a member whose exchange is DIRECT, too, has registered: before any chunk of its
 * work is claimed, all lanes must say so. */
static ucc_status_t wait_for_direct(hd_op_t *op) {
    ucc_status_t status = hd_arrived(op);
    for (uint32_t i = 0; status == UCC_OK && i < op->place.n; i++) {
        const hd_lane_t *lane = hd_board_lane(op->place.board, i, op->place.k);
        if (hd_lane_regime(lane) != HD_REGIME_DIRECT) {
            status = hd_op_sizes_differ(op, i, hd_lane_bytes(lane), place_of(op, i, true).bytes);
        }
    }
    if (status != UCC_OK) {
        return status;
    }
    op->phase = HD_PHASE_LOCAL;
    op->wait = hd_engine_work;
    return hd_engine_work(op);
}

ucc_status_t hd_allgather_start(hd_op_t *op) {
    if (op->plan.path == HD_PATH_ENGINE) {
        return hd_engine_start(op, op->call.src, op->call.dst);
    }
    op->wait = wait_for_all;
    return hd_lane_publish(op, op->call.src, op->call.bytes);
}

ucc_status_t hd_allgatherv_start(hd_op_t *op) {
    if (op->plan.path == HD_PATH_ENGINE) {
        ucc_status_t status = hd_engine_start(op, op->call.src, op->call.dst);
        op->wait = wait_for_direct;
        return status;
    }
    op->wait = wait_for_vector;
    return hd_lane_publish(op, op->call.src, op->call.bytes);
}
