/* express.c: small collectives of few endpoints that are over within one blocking call.
 *
 * When everybody comes at about the same time, a barrier is one line transfer: publish my lane,
 * look at the others'. This file is that and nothing else: no operation, no request, no task. What
 * it publishes is what the operation would publish (same number, same lane, same signature), so a
 * peer cannot tell and need not care; and if the others are not there after some looks, the caller
 * goes on with an operation whose lane is out already (hd_op_resume), and which is left the
 * family's wait. Errors are found there, too: a lane that does not match ends the looking, and the
 * operation that takes over finds and reports it.
 *
 * Payloads in lines: reader and writer know the size, so the reader looks at the lane and at all
 * lines at once, and their misses overlap. (One after the other, the lane's and the first line's
 * would add up.)
 *
 * Who may call: an endpoint of a flat group of at most HD_REDUCE_BLOCK members that is complete,
 * not poisoned, and not two-sided. The reduction is one of a predefined datatype, which can't fail.
 */
#include "shm/internal.h"

/* How a payload travels whose plan has the express: in lines, or else in the lane. A plan says so,
 * too; to ask it would take one more load. */
static inline bool in_lines(size_t bytes) {
    return bytes > HD_INLINE_MAX;
}

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

/* Several threads post at this endpoint. Apart, so that who posts alone does not pay for it. */
static __attribute__((noinline)) void lock(hd_member_t *m) {
    hd_lock(&m->lock);
}

/* The next number, published; 0 if it can't be now. */
static inline __attribute__((always_inline)) uint64_t
publish(const hd_place_t *at, const hd_call_t *call, const void *data, size_t bytes) {
    hd_board_t *board = at->board;
    hd_member_t *m = at->member;
    if (at->locked) {
        lock(m);
    }
    uint64_t k = m->taken + 1;
    bool may = !m->queue && hd_board_may_publish(board, m, k) &&
               (!in_lines(bytes) || hd_lines_of(board, at->me, k));
    m->taken += may;
    if (at->locked) {
        hd_unlock(&m->lock);
    }
    if (!may) {
        return 0;
    }
    hd_checked(hd_board_check_slot(board, k));
    hd_lane_t *lane = &m->shared->lane[k & board->mask];
    if (in_lines(bytes)) {
        hd_lane_fill_lines(lane, k, call->signature, hd_lines_of(board, at->me, k), data, bytes);
    } else {
        if (bytes) {
            copy_small(lane->payload, data, bytes);
        }
        hd_lane_fill(lane, k, call->signature, bytes ? HD_REGIME_INLINE : HD_REGIME_NONE, bytes);
    }
    hd_bell_ring(&board->group->home.bell);
    return k;
}

/* Has member i published a lane for k that matches? */
static inline bool look(const hd_place_t *at, const hd_call_t *call, uint32_t i, uint64_t k,
                        uint32_t looks) {
    const hd_lane_t *lane = hd_board_lane(at->board, i, k);
    while (!hd_lane_is_there(lane, k)) {
        if (looks-- == 0) {
            return false;
        }
    }
    return lane->signature == call->signature;
}

/* The same for the lane and all its lines. */
static __attribute__((noinline)) bool look_at_lines(const hd_place_t *at, const hd_call_t *call,
                                                    size_t bytes, uint32_t i, uint64_t k,
                                                    uint32_t looks) {
    const hd_lane_t *lane = hd_board_lane(at->board, i, k);
    const hd_data_line_t *line = hd_lines_of(at->board, i, k);
    size_t n = hd_lines_for(bytes);
    uint64_t missing;
    if (!line) {
        return false;
    }
    do {
        /* acquire, here and below: pairs with hd_lane_fill_lines; the data is readable after it */
        missing = atomic_load_explicit(&lane->seq, memory_order_acquire) ^ k;
        for (size_t j = 0; j < n; j++) {
            missing |= atomic_load_explicit(&line[j].seq, memory_order_acquire) ^ k;
        }
    } while (missing && looks-- > 0);
    return !missing && lane->signature == call->signature;
}

/* bytes: what member i publishes. */
static inline bool look_at(const hd_place_t *at, const hd_call_t *call, size_t bytes, uint32_t i,
                           uint64_t k, uint32_t looks) {
    return in_lines(bytes) ? look_at_lines(at, call, bytes, i, k, looks)
                           : look(at, call, i, k, looks);
}

/* At the others', nearest number first: everybody begins with another one. */
static inline bool look_at_all(const hd_place_t *at, const hd_call_t *call, size_t bytes,
                               uint64_t k, uint32_t looks) {
    uint32_t n = at->n, me = at->me;
    for (uint32_t i = me + 1; i < n; i++) {
        if (!look_at(at, call, bytes, i, k, looks)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < me; i++) {
        if (!look_at(at, call, bytes, i, k, looks)) {
            return false;
        }
    }
    return true;
}

/* Likewise. */
static __attribute__((noinline)) void consume_locked(const hd_place_t *at, uint64_t k,
                                                     bool saw_all) {
    hd_lock(&at->member->lock);
    hd_board_consume(at->board, at->member, k, saw_all);
    hd_checked(hd_board_check(at->board, at->me));
    hd_unlock(&at->member->lock);
}

static inline __attribute__((always_inline)) uint64_t end(const hd_place_t *at, uint64_t k,
                                                          bool saw_all) {
    if (at->locked) {
        consume_locked(at, k, saw_all);
    } else {
        hd_board_consume(at->board, at->member, k, saw_all);
        hd_checked(hd_board_check(at->board, at->me));
    }
    hd_bell_ring(&at->board->group->home.bell); /* peers may wait for the floor */
    return HD_EXPRESS_OVER;
}

uint64_t hd_express_end(const hd_place_t *at, uint64_t k) {
    return end(at, k, true);
}

static inline __attribute__((always_inline)) uint64_t
barrier(const hd_place_t *at, const hd_call_t *call, uint32_t looks) {
    uint64_t k = publish(at, call, NULL, 0);
    bool there = at->n == 2 ? k && look(at, call, 1 - at->me, k, looks) /* without loops */
                            : k && look_at_all(at, call, 0, k, looks);
    return there ? end(at, k, true) : k;
}

static inline __attribute__((always_inline)) uint64_t
bcast(const hd_place_t *at, const hd_call_t *call, void *buffer, uint32_t looks) {
    bool is_root = call->is_root;
    uint64_t k = publish(at, call, buffer, is_root ? call->bytes : 0);
    if (!k || (!is_root && !look_at(at, call, call->bytes, call->root, k, looks))) {
        return k;
    }
    if (!is_root) {
        const hd_lane_t *lane = hd_board_lane(at->board, call->root, k);
        if (in_lines(call->bytes)) {
            (void)hd_lane_read(lane, k, 0, call->bytes, buffer); /* all lines are there */
        } else {
            copy_small(buffer, lane->payload, call->bytes);
        }
    }
    return end(at, k, false);
}

static inline __attribute__((always_inline)) uint64_t
scatter(const hd_place_t *at, const hd_call_t *call, const void *src, void *dst, uint32_t looks) {
    bool is_root = call->is_root;
    size_t block = call->bytes, bytes = block * at->n, offset = block * at->me;
    uint64_t k = publish(at, call, src, is_root ? bytes : 0);
    if (!k || (!is_root && !look_at(at, call, bytes, call->root, k, looks))) {
        return k;
    }
    if (!is_root) { /* all is there */
        (void)hd_lane_read(hd_board_lane(at->board, call->root, k), k, offset, block, dst);
    } else if (dst != (const uint8_t *)src + offset) {
        memcpy(dst, (const uint8_t *)src + offset, block);
    }
    return end(at, k, false);
}

static inline __attribute__((always_inline)) uint64_t
allreduce(const hd_place_t *at, const hd_call_t *call, const void *src, void *dst, uint32_t looks) {
    const void *operand[HD_REDUCE_BLOCK];
    const hd_reducer_t *reducer = &call->reducer;
    uint32_t n = at->n;
    uint64_t k = publish(at, call, src, call->bytes);
    bool there = n == 2 && !in_lines(call->bytes)
                     ? k && look(at, call, 1 - at->me, k, looks) /* without loops */
                     : k && look_at_all(at, call, call->bytes, k, looks);
    if (!there) {
        return k;
    }
    if (n == 1) {
        if (dst != src) {
            memcpy(dst, src, call->bytes);
        }
        return end(at, k, true);
    }
    if (in_lines(call->bytes)) {
        /* all lines are there, and a predefined datatype can't fail */
        (void)hd_reduce_lanes(at->board, at->me, k, reducer, src, 0, dst, call->count);
        return end(at, k, true);
    }
    if (n == 2) {
        operand[1 - at->me] = hd_board_lane(at->board, 1 - at->me, k)->payload;
    } else {
        for (uint32_t i = 0; i < n; i++) {
            operand[i] = hd_board_lane(at->board, i, k)->payload;
        }
    }
    operand[at->me] = src; /* not my lane: see types.h */
    reducer->root(n, operand, dst, call->count * reducer->scalars, n);
    return end(at, k, true);
}

/* --- by the addresses of the call, and by a caller's own -------------------------------------- */

uint64_t hd_express_barrier(const hd_place_t *at, const hd_call_t *call, uint32_t looks) {
    return barrier(at, call, looks);
}

uint64_t hd_express_bcast(const hd_place_t *at, const hd_call_t *call, uint32_t looks) {
    return bcast(at, call, call->dst, looks); /* at the root, dst is src */
}

uint64_t hd_express_bcast_of(const hd_place_t *at, const hd_call_t *call, void *buffer,
                             uint32_t looks) {
    return bcast(at, call, buffer, looks);
}

uint64_t hd_express_scatter(const hd_place_t *at, const hd_call_t *call, uint32_t looks) {
    return scatter(at, call, call->src, call->dst, looks);
}

uint64_t hd_express_scatter_of(const hd_place_t *at, const hd_call_t *call, const void *src,
                               void *dst, uint32_t looks) {
    return scatter(at, call, src, dst, looks);
}

uint64_t hd_express_allreduce(const hd_place_t *at, const hd_call_t *call, uint32_t looks) {
    return allreduce(at, call, hd_call_operand(call), call->dst, looks);
}

/* Apart: inside its caller, which keeps its own registers, it takes more instructions. */
__attribute__((noinline)) uint64_t hd_express_allreduce_of(const hd_place_t *at,
                                                           const hd_call_t *call, const void *src,
                                                           void *dst, uint32_t looks) {
    return allreduce(at, call, src, dst, looks);
}
