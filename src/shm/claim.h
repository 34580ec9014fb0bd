/* claim.h: the words by which units of work are claimed and finished; engine.c says what they mean.
 * Whoever works on a slice's units does it by the functions below.
 */
#ifndef HD_SHM_CLAIM_H
#define HD_SHM_CLAIM_H

#include "shm/internal.h"

#define HD_CLAIM_CLOSED ((uint64_t)1 << 31) /* in a claim word: no unit is claimed any more */

#define HD_CLAIM_NEXT (HD_CLAIM_CLOSED - 1) /* below it: the next unit */

/* What words carry of an exchange's number, in their upper halves. */
static inline uint64_t hd_generation(uint64_t k) {
    return k << 32;
}

static inline bool hd_is_generation(uint64_t word, uint64_t generation) {
    return (word & ~(uint64_t)UINT32_MAX) == generation;
}

static inline uint64_t hd_op_generation(const hd_op_t *op) {
    return hd_generation(op->place.k);
}

/* By its owner: units may be claimed once all have arrived. */
static inline void hd_slice_open(const hd_op_t *op, hd_slice_t *slice) {
    hd_assert(slice->units > 0 && slice->batch > 0);
    hd_assert_le(slice->units, HD_CLAIM_NEXT);
    /* relaxed: published by the CAS below and by the lane */
    atomic_store_explicit(&slice->finished, hd_op_generation(op), memory_order_relaxed);
    uint64_t old = atomic_load_explicit(&slice->claim, memory_order_relaxed); /* a guess */
    /* closed with nothing claimed: by a peer that gave up before I came. (The same generation
       otherwise: left from 2^32 numbers ago; see hd_slice_close.) */
    while (old != (hd_op_generation(op) | HD_CLAIM_CLOSED)) {
        hd_delay_point();
        /* release: the slice's fields, for claimers */
        if (atomic_compare_exchange_weak_explicit(&slice->claim, &old, hd_op_generation(op),
                                                  memory_order_release, memory_order_relaxed)) {
            break;
        }
    }
}

/* How many units of a slice may be claimed, whose claim word is this. */
static inline uint32_t hd_slice_claimable(uint64_t gen, const hd_slice_t *slice, uint64_t word) {
    uint32_t next = (uint32_t)(word & HD_CLAIM_NEXT);
    /* acquire: what made the units ready; pairs with hd_outer_ready. It is this generation's: a
       slot is registered anew when all have consumed its last use, and I have not */
    uint32_t ready = atomic_load_explicit(&slice->ready, memory_order_acquire);
    if (!hd_is_generation(word, gen) || (word & HD_CLAIM_CLOSED) || next >= ready) {
        return 0;
    }
    return ready - next;
}

/* Takes up to `batch` units of a slice; returns how many, the first in *unit. */
static inline uint32_t hd_slice_claim(const hd_op_t *op, hd_slice_t *slice, uint32_t *unit) {
    uint64_t gen = hd_op_generation(op);
    /* acquire: if we go on to claim, the CAS repeats it */
    uint64_t word = atomic_load_explicit(&slice->claim, memory_order_acquire);
    for (;;) {
        uint32_t next = (uint32_t)(word & HD_CLAIM_NEXT),
                 some = hd_slice_claimable(gen, slice, word);
        if (!some) {
            return 0;
        }
        hd_assert_le(next, slice->units);
        uint32_t take = some < slice->batch ? some : slice->batch;
        if (op->call.exclusive) {
            take = 1; /* the caller holds the user's turn: the unit before it is finished */
        }
        hd_delay_point();
        /* acq_rel: after this the exchange is pinned, and its members' calls are readable */
        if (atomic_compare_exchange_weak_explicit(&slice->claim, &word, word + take,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            *unit = next;
            return take;
        }
    }
}

static inline bool hd_slice_is_finished(const hd_op_t *op, hd_slice_t *slice) {
    /* acquire: pairs with each finisher's addition; takes in the slice's results */
    return atomic_load_explicit(&slice->finished, memory_order_acquire) ==
           (hd_op_generation(op) | slice->units);
}

/* Closes slice s for this generation; true when no claimed unit of it is unfinished. */
static inline bool hd_slice_close(const hd_op_t *op, hd_slice_t *slice, uint32_t s) {
    uint64_t gen = hd_op_generation(op);
    const hd_lane_t *lane = hd_board_lane(op->place.board, s % op->place.n, op->place.k);
    uint64_t word =
        atomic_load_explicit(&slice->claim, memory_order_acquire); /* pairs with claim */
    uint64_t shut;
    do {
        /* nothing is claimed before the owner's lane is out: the same generation without it is that
           of 2^32 numbers ago. (If it is out by now, the owner has changed the word.) */
        shut = (hd_is_generation(word, gen) && hd_lane_is_there(lane, op->place.k) ? word : gen) |
               HD_CLAIM_CLOSED;
        /* acq_rel: claims before it are known, claims after it fail */
    } while (word != shut &&
             !atomic_compare_exchange_weak_explicit(&slice->claim, &word, shut,
                                                    memory_order_acq_rel, memory_order_acquire));
    uint32_t claimed = (uint32_t)(shut & HD_CLAIM_NEXT);
    /* acquire: pairs with the finisher; its accesses are over. With no claim of this generation the
       count may be an older one's: not looked at. */
    return claimed == 0 ||
           atomic_load_explicit(&slice->finished, memory_order_acquire) == (gen | claimed);
}

#endif
