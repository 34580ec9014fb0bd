/* reduce_scatter.c: reduce_scatter and reduce_scatterv. Small and flat: everybody publishes its whole
 * operand and reduces its own block from all. Else: the engine reduces each block once.
 *
 * op->call.src is my operand of op->call.total bytes (the same buffer that holds op->call.dst in place), op->call.dst
 * where my block of op->call.bytes bytes goes; block i starts where the blocks before it end.
 */
#include "shm/shm.h"

static size_t own_offset(const hd_op_t *op) {
    return hd_coll[op->call.type].vector
               ? hd_vector_displacement(&op->call.receive, op->place.me) * op->call.element
               : op->place.me * op->call.bytes;
}

static ucc_status_t wait_flat(hd_op_t *op) {
    const void *source[HD_REDUCE_BLOCK];
    alignas(HD_LINE) uint8_t scratch[HD_REDUCE_BLOCK][HD_LINES_LIMIT];
    ucc_status_t status = hd_op_all_lanes(op);
    if (status != UCC_OK) {
        return status;
    }
    size_t offset = own_offset(op);
    for (uint32_t i = 0; i < op->place.n; i++) {
        if (i == op->place.me) {
            source[i] = op->call.src + offset;
            continue;
        }
        const uint8_t *view =
            hd_lane_view(hd_board_lane(op->place.board, i, op->place.k), op->place.k, scratch[i]);
        if (!view) {
            return UCC_INPROGRESS;
        }
        source[i] = view + offset;
    }
    return op->call.bytes == 0
               ? UCC_OK
               : hd_reduce_block(&op->call.reducer, op->place.n, source, op->call.dst,
                                 op->call.bytes / op->call.element, true);
}

ucc_status_t hd_reduce_scatter_start(hd_op_t *op) {
    if (op->plan.path == HD_PATH_ENGINE) {
        return hd_engine_start(op, op->call.src, op->call.dst);
    }
    op->wait = wait_flat;
    return hd_lane_publish(op, op->call.src, op->call.total);
}
