/* reduce.c: reduce and allreduce.
 *
 *   flat, small    everybody publishes its operand; whoever wants the result reads all operands and
 *                  reduces them itself: redundant arithmetic, but one line transfer of latency
 *   tree, inline   operands are combined on the way up the canonical tree; the result comes back
 *                  in the exchange's result line, or down lines of release
 *   else           the engine reduces windows, each once, and writes them where they are wanted
 *
 * All three apply the operation in the canonical order (core/reduce.h): same bits everywhere.
 * op->call.src is my operand (op->call.dst in place), op->call.dst where I want the result,
 * op->call.bytes its size.
 */
#include "shm/internal.h"

#include <string.h>

static size_t elements(const hd_op_t *op) {
    return op->call.bytes / op->call.element;
}

/* The others' operands are read into the stack where they came in lines, then reduced. */
ucc_status_t hd_reduce_lanes(const hd_board_t *board, uint32_t me, uint64_t k,
                             const hd_reducer_t *reducer, const uint8_t *operand, size_t offset,
                             void *dst, size_t count) {
    const void *source[HD_REDUCE_BLOCK];
    alignas(HD_LINE) uint8_t scratch[HD_REDUCE_BLOCK][HD_LINES_LIMIT];
    for (uint32_t i = 0; i < board->n; i++) {
        const uint8_t *from =
            i == me ? operand : hd_lane_view(hd_board_lane(board, i, k), k, scratch[i]);
        if (!from) {
            return UCC_INPROGRESS;
        }
        source[i] = from + offset;
    }
    return hd_reduce_block(reducer, board->n, source, dst, count, true);
}

ucc_status_t hd_allreduce_wait(hd_op_t *op) {
    ucc_status_t status = hd_op_all_lanes(op);
    if (status != UCC_OK) {
        return status;
    }
    return hd_reduce_lanes(op->place.board, op->place.me, op->place.k, &op->call.reducer,
                           hd_call_operand(&op->call), 0, op->call.dst, elements(op));
}

/* Flat: with what waits inside it, it takes 20 instructions less an endpoint. */
static __attribute__((flatten)) ucc_status_t wait_tree(hd_op_t *op) {
    ucc_status_t status = hd_arrived(op);
    if (status == UCC_OK) {
        memcpy(op->call.dst, hd_arrive_result(op), op->call.bytes);
    }
    return status;
}

static inline ucc_status_t start(hd_op_t *op, bool wants_result) {
    const void *operand = hd_call_operand(&op->call);
    if (op->plan.path == HD_PATH_ENGINE) {
        return hd_engine_start(op, operand, wants_result ? op->call.dst : NULL);
    }
    op->wait = !wants_result                   ? hd_arrive_done
               : op->plan.path == HD_PATH_TREE ? wait_tree
                                               : hd_allreduce_wait;
    ucc_status_t status = hd_lane_publish(op, operand, op->call.bytes);
    if (status == UCC_OK) {
        hd_arrive(op, true);
    }
    return status;
}

ucc_status_t hd_reduce_start(hd_op_t *op) {
    return start(op, op->call.is_root);
}

ucc_status_t hd_allreduce_start(hd_op_t *op) {
    return start(op, true);
}
