/* outer_act.c: what anybody does for an exchange who holds a ref of it. outer.h has the
 * protocol and its proof.
 */
#include "shm/outer_word.h"

#include <string.h>

static bool enter(const hd_exchange_ref_t *t) {
    uint64_t word = atomic_load_explicit(&t->exchange->outer, memory_order_relaxed); /* a guess */
    do {
        if (!hd_outer_has_key(word, t->key) || (word & HD_OUTER_CLOSED)) {
            return false;
        }
        hd_delay_point();
        /* acquire: pairs with hd_outer_arrived */
    } while (!atomic_compare_exchange_weak_explicit(&t->exchange->outer, &word,
                                                    word + HD_OUTER_INSIDE, memory_order_acquire,
                                                    memory_order_relaxed));
    return true;
}

/* The exchange may be over when this returns; the group is the caller's to keep. */
static void leave(const hd_exchange_ref_t *t) {
    hd_group_t *group = t->board->group;
    hd_delay_point();
    /* release: what I did in the exchange; pairs with is_quiet */
    atomic_fetch_sub_explicit(&t->exchange->outer, HD_OUTER_INSIDE, memory_order_release);
    hd_bell_ring(&group->home.bell); /* who works on units that are ready now; who closes */
}

/* By who is inside, or whose unit pins the exchange. */
static hd_slice_t *slice_of(const hd_exchange_ref_t *t, uint32_t s) {
    /* acquire: pairs with the installing of the work */
    return &atomic_load_explicit(&t->slot->work, memory_order_acquire)->slice[s];
}

bool hd_outer_hold(const hd_exchange_ref_t *t) {
    return enter(t);
}

void hd_outer_drop(const hd_exchange_ref_t *t) {
    leave(t);
}

bool hd_outer_slice_is_finished(const hd_exchange_ref_t *t, uint32_t s) {
    const hd_slice_t *slice = slice_of(t, s);
    /* acquire: pairs with each finisher of a unit; takes in the slice's results */
    return atomic_load_explicit(&slice->finished, memory_order_acquire) ==
           (hd_generation(t->k) | slice->units);
}

bool hd_outer_release(const hd_exchange_ref_t *t, ucc_status_t status, const void *payload,
                      size_t bytes) {
    hd_exchange_t *x = t->exchange;
    hd_group_t *group = t->board->group;
    uint64_t word = atomic_load_explicit(&x->outer, memory_order_relaxed); /* a guess */
    do {
        if (!hd_outer_has_key(word, t->key) || (word & (HD_OUTER_CLOSED | HD_OUTER_RELEASED))) {
            return false;
        }
        hd_delay_point();
        /* acq_rel: the result line is mine: nobody reads it before I have written it, nobody else
           writes it, and whoever closes waits for me */
    } while (!atomic_compare_exchange_weak_explicit(&x->outer, &word, word | HD_OUTER_RELEASED,
                                                    memory_order_acq_rel, memory_order_relaxed));
    hd_assert_lt(x->arrived, t->k); /* once */
    x->arrived_status = (int32_t)status;
    if (status == UCC_OK && hd_plan_release(bytes) == HD_REGIME_STAGED) {
        memcpy(x->result, &payload, sizeof(payload));
    } else if (status == UCC_OK && bytes) {
        memcpy(x->result, payload, bytes);
    }
    hd_delay_point();
    /* release: the result line, and what it points to; pairs with has_come in arrival.c. After this
       the exchange may be over */
    atomic_store_explicit(&x->arrived, t->k, memory_order_release);
    hd_bell_ring(&group->home.bell);
    return true;
}

bool hd_outer_ready(const hd_exchange_ref_t *t, uint32_t s, uint32_t ready) {
    if (!enter(t)) {
        return false;
    }
    hd_slice_t *slice = slice_of(t, s);
    ready = ready < slice->units ? ready : slice->units;
    uint32_t before = atomic_load_explicit(&slice->ready, memory_order_relaxed); /* a guess */
    /* release: what the units need; pairs with claim in engine.c. Every raise is an RMW, so a
       claimer that sees a later one takes in the earlier ones, too */
    while (before < ready &&
           !atomic_compare_exchange_weak_explicit(&slice->ready, &before, ready,
                                                  memory_order_release, memory_order_relaxed)) {
    }
    leave(t);
    return true;
}

/* Like claim in engine.c, of one unit, whether it is ready or not. */
static bool claim_unit(const hd_exchange_ref_t *t, hd_slice_t *slice, uint32_t *unit) {
    uint64_t word = atomic_load_explicit(&slice->claim, memory_order_relaxed); /* a guess */
    do {
        *unit = (uint32_t)(word & HD_CLAIM_NEXT);
        if (!hd_is_generation(word, hd_generation(t->k)) || (word & HD_CLAIM_CLOSED) ||
            *unit >= slice->units) {
            return false;
        }
        hd_delay_point();
        /* acq_rel: from here on the unit pins the exchange; pairs with close_slice */
    } while (!atomic_compare_exchange_weak_explicit(&slice->claim, &word, word + 1,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return true;
}

bool hd_outer_claim(const hd_exchange_ref_t *t, uint32_t s, uint32_t *unit) {
    if (!enter(t)) {
        return false;
    }
    hd_slice_t *slice = slice_of(t, s);
    bool mine = claim_unit(t, slice, unit);
    if (mine) {
        /* relaxed: whoever finishes it was told of it by me */
        atomic_fetch_or_explicit(&slice->under_way, (uint64_t)1 << *unit, memory_order_relaxed);
    }
    leave(t);
    return mine;
}

/* Takes the unit's bit: it is mine to finish. */
static bool take_unit(const hd_exchange_ref_t *t, hd_slice_t *slice, uint32_t unit) {
    uint64_t bit = (uint64_t)1 << unit;
    uint64_t bits = atomic_load_explicit(&slice->under_way, memory_order_relaxed); /* a guess */
    do {
        if (!hd_is_generation(bits, hd_generation(t->k)) || !(bits & bit)) {
            return false;
        }
        /* relaxed: of two who come for the same unit, one gets it */
    } while (!atomic_compare_exchange_weak_explicit(&slice->under_way, &bits, bits & ~bit,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

bool hd_outer_finish(const hd_exchange_ref_t *t, uint32_t s, uint32_t unit, ucc_status_t status) {
    hd_exchange_t *x = t->exchange;
    hd_group_t *group = t->board->group;
    hd_slice_t *slice = slice_of(t, s);
    /* relaxed: a late completion; and no more than a hint, for the bit decides */
    if (!hd_outer_has_key(atomic_load_explicit(&x->outer, memory_order_relaxed), t->key) ||
        !take_unit(t, slice, unit)) {
        return false;
    }
    /* relaxed: counted before the unit is, see outer.h */
    atomic_fetch_add_explicit(&x->outer, HD_OUTER_INSIDE, memory_order_relaxed);
    if (status != UCC_OK) {
        hd_engine_note_failure(x, t->k, status);
        hd_group_poison(group, status);
    }
    uint32_t units = slice->units;
    hd_delay_point();
    /* acq_rel: hands on what the request did; the last takes in all of the slice's */
    uint64_t before = atomic_fetch_add_explicit(&slice->finished, 1, memory_order_acq_rel);
    if (before + 1 == (hd_generation(t->k) | units)) {
        hd_engine_slice_done(group, x, t->k, t->slices);
    }
    leave(t);
    return true;
}
