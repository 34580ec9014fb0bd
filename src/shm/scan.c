/* scan.c: scan and exscan: prefixes over the sources in the order of the members' numbers.
 *
 *   small   everybody publishes its source; member i reads those before it and combines them
 *           itself. It waits for nobody behind it, and member 0 for nobody at all.
 *   else    the engine: whoever claims a window takes the running prefix through it, over all
 *           members
 *
 * Both combine strictly from the left, one operand at a time, each step rounded in the datatype:
 * same bits everywhere. n members read n * n / 2 lanes in the small way, which is why many don't
 * take it: the engine's one claimer takes n steps. op->call.src is my source (op->call.dst in
 * place), op->call.dst where I want the prefix, op->call.bytes its size.
 */
#include "shm/internal.h"

#include <string.h>

enum {
    PREFIX =
        HD_LINES_LIMIT + HD_LINE /* of a partial prefix: all that lines carry, in whole elements */
};

/* Operand i of mine at this offset; NULL: a line of it is still being written. */
static const uint8_t *operand(const hd_op_t *op, uint32_t i, size_t at, uint8_t *scratch) {
    if (i == op->place.me) {
        return hd_call_operand(&op->call) + at;
    }
    const uint8_t *view =
        hd_lane_view(hd_board_lane(op->place.board, i, op->place.k), op->place.k, scratch);
    return view ? view + at : NULL;
}

/* dst gets the prefix over k operands. It may be my own source: that is the last operand, or none,
 * and dst is written by the last step only. */
static ucc_status_t combine(const hd_op_t *op, uint32_t k, size_t at, size_t bytes) {
    alignas(HD_LINE) uint8_t prefix[PREFIX], scratch[2][HD_LINES_LIMIT];
    const void *source[2] = {operand(op, 0, at, scratch[0]), NULL};
    ucc_status_t status = source[0] ? UCC_OK : UCC_INPROGRESS;
    if (k == 1 && status == UCC_OK && source[0] != op->call.dst + at) {
        memcpy(op->call.dst + at, source[0], bytes);
    }
    for (uint32_t i = 1; i < k && status == UCC_OK; i++) {
        source[1] = operand(op, i, at, scratch[1]);
        if (!source[1]) {
            return UCC_INPROGRESS;
        }
        void *to = i + 1 == k ? op->call.dst + at : prefix;
        status = hd_reduce_block(&op->call.reducer, 2, source, to, bytes / op->call.element, true);
        source[0] = prefix;
    }
    return status;
}

static ucc_status_t wait_for_those_before(hd_op_t *op) {
    const hd_lane_t *lane;
    for (; op->cursor < op->place.me; op->cursor++) {
        ucc_status_t status = hd_op_lane(op, op->cursor, &lane);
        if (status != UCC_OK) {
            return status;
        }
    }
    op->saw_all = op->place.me + 1 == op->place.n;
    bool with_own = hd_coll[op->call.type].result_at == HD_EVERYBODY; /* a scan */
    uint32_t k = op->place.me + with_own;
    size_t window = PREFIX - PREFIX % op->call.element;
    ucc_status_t status = UCC_OK;
    /* lines, which may be late, fill one window at most: no window is combined twice */
    for (size_t at = 0; k && at < op->call.bytes && status == UCC_OK; at += window) {
        size_t left = op->call.bytes - at;
        status = combine(op, k, at, left < window ? left : window);
    }
    return status;
}

ucc_status_t hd_scan_start(hd_op_t *op) {
    if (op->plan.path == HD_PATH_ENGINE) {
        return hd_engine_start(op, hd_call_operand(&op->call), op->call.dst);
    }
    op->wait = wait_for_those_before;
    return hd_lane_publish(op, hd_call_operand(&op->call), op->call.bytes);
}
