/* reduce_scatter.c: reduce_scatter and reduce_scatterv. Small and flat: everybody publishes its
 * whole operand and reduces its own block from all. Else: the engine reduces each block once.
 *
 * op->call.src is my operand of op->call.total bytes (the same buffer that holds op->call.dst in
 * place), op->call.dst where my block of op->call.bytes bytes goes; block i starts where the blocks
 * before it end.
 */
#include "shm/internal.h"

static size_t own_offset(const hd_op_t *op) {
    return hd_coll[op->call.type].vector
               ? hd_vector_displacement(&op->call.receive, op->place.me) * op->call.element
               : op->place.me * op->call.bytes;
}

static ucc_status_t wait_flat(hd_op_t *op) {
    ucc_status_t status = hd_op_all_lanes(op);
    if (status != UCC_OK || op->call.bytes == 0) {
        return status;
    }
    return hd_reduce_lanes(op->place.board, op->place.me, op->place.k, &op->call.reducer,
                           op->call.src, own_offset(op), op->call.dst,
                           op->call.bytes / op->call.element);
}

ucc_status_t hd_reduce_scatter_start(hd_op_t *op) {
    if (op->plan.path == HD_PATH_ENGINE) {
        return hd_engine_start(op, op->call.src, op->call.dst);
    }
    op->wait = wait_flat;
    return hd_lane_publish(op, op->call.src, op->call.total);
}

/* My own block's operand I take from its buffer. */
ucc_status_t hd_reduce_scatter_start_staged(hd_op_t *op) {
    op->wait = wait_flat;
    return hd_lane_stage_others(op, op->call.src, op->call.total, own_offset(op), op->call.bytes);
}
