/* reduce_scatter.c: reduce_scatter and reduce_scatterv. Small and flat: everybody publishes its whole
 * operand and reduces its own block from all. Else: the engine reduces each block once.
 *
 * op->src is my operand of op->total bytes (the same buffer that holds op->dst in place), op->dst
 * where my block of op->bytes bytes goes; block i starts where the blocks before it end.
 */
#include "shm/shm.h"

static size_t own_offset(const hd_op_t *op) {
    return op->type == HD_REDUCE_SCATTER
               ? op->me * op->bytes
               : hd_vector_displacement(&op->receive, op->me) * op->element;
}

static ucc_status_t wait_flat(hd_op_t *op) {
    const void *source[HD_REDUCE_BLOCK];
    alignas(HD_LINE) uint8_t scratch[HD_REDUCE_BLOCK][HD_LINES_LIMIT];
    ucc_status_t status = hd_op_all_lanes(op);
    if (status != UCC_OK) {
        return status;
    }
    size_t offset = own_offset(op);
    for (uint32_t i = 0; i < op->n; i++) {
        if (i == op->me) {
            source[i] = op->src + offset;
            continue;
        }
        const uint8_t *view = hd_lane_view(hd_board_lane(op->board, i, op->k), op->k, scratch[i]);
        if (!view) {
            return UCC_INPROGRESS;
        }
        source[i] = view + offset;
    }
    return op->bytes == 0 ? UCC_OK
                          : hd_reduce_block(&op->reducer, op->n, source, op->dst,
                                            op->bytes / op->element, true);
}

ucc_status_t hd_reduce_scatter_start(hd_op_t *op) {
    hd_regime_t regime = hd_regime_for(op->group, op->type, op->n, op->total);
    if (regime == HD_REGIME_DIRECT || op->exclusive || !hd_op_is_flat(op) ||
        op->n > HD_REDUCE_BLOCK) {
        return hd_engine_start(op, op->src, op->dst);
    }
    op->wait = wait_flat;
    hd_op_expect(op, regime, op->total);
    return hd_lane_publish(op, regime, op->src, op->total);
}
