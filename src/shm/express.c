/* express.c: small collectives of few endpoints that are over within one blocking call.
 *
 * When everybody comes at about the same time, a barrier is one line transfer: publish my lane, look at
 * the others'. This file is that and nothing else: no operation, no request, no task. What it publishes
 * is what the operation would publish (same number, same lane, same signature), so a peer cannot tell
 * and need not care; and if the others are not there after some looks, the caller goes on with an
 * operation whose lane is out already (hd_op_launch_published). Errors are found there, too: a lane that
 * does not match ends the looking, and the operation that takes over finds and reports it.
 *
 * Who may call: the only user of the endpoint's handle at this time, of a flat group of at most
 * HD_REDUCE_BLOCK members that is complete, not poisoned, and not two-sided.
 */
#include "shm/shm.h"

/* Most payloads here are one number. */
static inline void copy_small(void *dst, const void *src, size_t bytes) {
    if (bytes == 8) {
        memcpy(dst, src, 8);
    } else if (bytes == 4) {
        memcpy(dst, src, 4);
    } else {
        memcpy(dst, src, bytes);
    }
}

/* The next number, published; 0 if it can't be now. */
static inline uint64_t publish(hd_board_t *board, hd_member_t *m, const hd_express_t *x,
                               const void *data, size_t bytes) {
    uint64_t k = m->taken + 1;
    if (m->queue || !hd_board_may_publish(board, m, k)) {
        return 0;
    }
    m->taken = k;
    hd_lane_t *lane = &m->lane[k & board->mask];
    if (bytes) {
        copy_small(lane->payload, data, bytes);
    }
    hd_lane_fill(lane, k, x->signature, bytes ? HD_REGIME_INLINE : HD_REGIME_NONE, bytes);
    hd_bell_ring(&board->group->home.bell);
    return k;
}

/* Has member i published a lane for k that matches? */
static inline bool look(const hd_board_t *board, const hd_express_t *x, uint32_t i, uint64_t k) {
    const hd_lane_t *lane = hd_board_lane(board, i, k);
    for (uint32_t looks = 0; !hd_lane_is_there(lane, k);) {
        if (++looks == HD_EXPRESS_LOOKS) {
            return false;
        }
    }
    return lane->signature == x->signature;
}

static inline bool look_at_all(const hd_board_t *board, const hd_express_t *x, uint64_t k) {
    for (uint32_t i = 0; i < board->n; i++) {
        if (!look(board, x, i, k)) {
            return false;
        }
    }
    return true;
}

static inline ucc_status_t end(hd_board_t *board, hd_member_t *m, uint64_t k, bool saw_all) {
    hd_board_consume(board, m, k, saw_all);
    hd_bell_ring(&board->group->home.bell); /* peers may wait for the floor */
    return UCC_OK;
}

ucc_status_t hd_express_barrier(hd_board_t *board, hd_member_t *m, const hd_express_t *x,
                                uint64_t *k) {
    *k = publish(board, m, x, NULL, 0);
    if (!*k || !look_at_all(board, x, *k)) {
        return UCC_INPROGRESS;
    }
    return end(board, m, *k, true);
}

ucc_status_t hd_express_bcast(hd_board_t *board, hd_member_t *m, const hd_express_t *x,
                              bool is_root, void *buffer, uint64_t *k) {
    *k = publish(board, m, x, buffer, is_root ? x->bytes : 0);
    if (!*k || (!is_root && !look(board, x, x->root, *k))) {
        return UCC_INPROGRESS;
    }
    if (!is_root) {
        copy_small(buffer, hd_board_lane(board, x->root, *k)->payload, x->bytes);
    }
    return end(board, m, *k, false);
}

ucc_status_t hd_express_allreduce(hd_board_t *board, hd_member_t *m, const hd_express_t *x,
                                  const hd_reducer_t *reducer, const void *src, void *dst,
                                  uint64_t *k) {
    const void *operand[HD_REDUCE_BLOCK];
    *k = publish(board, m, x, src, x->bytes);
    if (!*k || !look_at_all(board, x, *k)) {
        return UCC_INPROGRESS;
    }
    for (uint32_t i = 0; i < board->n; i++) {
        operand[i] = hd_board_lane(board, i, *k)->payload;
    }
    /* a predefined datatype: can't fail */
    (void)hd_reduce_block(reducer, board->n, operand, dst, x->count, true);
    return end(board, m, *k, true);
}
