/* leaning.c: see leaning.h. Several threads may use an endpoint, and note what they see in any
 * order. An exchange that leaves the ring is older than depth / 2 by then, for whoever publishes:
 * the one that takes its place has been published. */
#include "shm/leaning.h"

#include "core/hash.h"
#include "shm/internal.h"

#include <string.h>

enum { TRIES = 64 }; /* one number in so many is tried */

static bool is_tried(uint64_t k) {
    return (hd_hash_mix(1, k) >> 8 & (TRIES - 1)) == 0;
}

/* NULL: nothing has been seen. */
static hd_leaning_t *of(const hd_op_t *op) {
    /* acquire: pairs with hd_leaning_prepare */
    return atomic_load_explicit(&op->place.member->leaning, memory_order_acquire);
}

bool hd_leaning_is_near(const hd_op_t *op) {
    const hd_leaning_t *leaning = of(op);
    uint64_t k = op->place.k, depth = op->place.board->depth, last = 0;
    if (!op->numbered || is_tried(k)) {
        return op->numbered;
    }
    if (!leaning || k <= depth / 2) {
        return false;
    }
    uint64_t limit = (k - depth / 2) * 2 + 1;
    for (uint64_t i = 0; i < depth; i++) {
        /* acquire: the base, of one that has left the ring; pairs with hd_leaning_note */
        uint64_t seen = atomic_load_explicit(&leaning->ring[i], memory_order_acquire);
        last = seen <= limit && seen > last ? seen : last;
    }
    uint64_t base = atomic_load_explicit(&leaning->base, memory_order_relaxed); /* as above */
    return (base > last ? base : last) & 1;
}

bool hd_leaning_is_near_here(const hd_op_t *op) {
    const hd_leaning_t *leaning = of(op);
    /* relaxed: a guess */
    return is_tried(op->place.k) ||
           (leaning && atomic_load_explicit(&leaning->here, memory_order_relaxed));
}

bool hd_leaning_prepare(const hd_op_t *op) {
    _Atomic(hd_leaning_t *) *at = &op->place.member->leaning;
    hd_leaning_t *leaning = of(op), *mine;
    if (leaning) {
        return true;
    }
    mine = hd_alloc(HD_LINE, sizeof(*mine) + op->place.board->depth * sizeof(uint64_t));
    /* acq_rel: publishes it, or takes another thread's */
    if (mine && !atomic_compare_exchange_strong_explicit(at, &leaning, mine, memory_order_acq_rel,
                                                         memory_order_acquire)) {
        hd_free(mine);
        return true;
    }
    return mine != NULL;
}

/* An exchange that leaves the ring. */
static void keep(hd_leaning_t *leaning, uint64_t old) {
    /* relaxed, both: published by what takes its place */
    uint64_t base = atomic_load_explicit(&leaning->base, memory_order_relaxed);
    while (base < old &&
           !atomic_compare_exchange_weak_explicit(&leaning->base, &base, old, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

void hd_leaning_note(const hd_op_t *op, bool near) {
    hd_leaning_t *leaning = of(op);
    if (op->plan.path == HD_PATH_MIXED) {
        atomic_store_explicit(&leaning->here, near, memory_order_relaxed); /* a guess */
    } else if (op->numbered) {
        _Atomic uint64_t *at = &leaning->ring[op->place.k & op->place.board->mask];
        /* relaxed: only this exchange's member writes it until depth more are over */
        keep(leaning, atomic_load_explicit(at, memory_order_relaxed));
        /* release: pairs with hd_leaning_is_near */
        atomic_store_explicit(at, op->place.k * 2 + near, memory_order_release);
    }
}

void hd_leaning_reset(hd_leaning_t *leaning, uint32_t depth) {
    if (leaning) {
        memset(leaning, 0, sizeof(*leaning) + depth * sizeof(uint64_t));
    }
}
