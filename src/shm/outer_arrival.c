/* outer_arrival.c: where the arrival of an exchange meets its outer stage. By members, in steps of
 * their operations.
 */
#include "shm/outer_word.h"

uint64_t hd_outer_key(const hd_op_t *op) {
    return ((op->place.board->head->use << 32) + op->place.k) << HD_OUTER_KEY_SHIFT >>
           HD_OUTER_KEY_SHIFT;
}

void hd_outer_arrived(hd_op_t *op, ucc_status_t status, const void *payload) {
    hd_exchange_t *x = op->exchange;
    bool works = op->outer_shape & HD_OUTER_WORKS;
    hd_exchange_ref_t ref = {
        op->place.board, x, op->slot, op->place.k, hd_outer_key(op), works ? op->plan.slices : 0};
    if (status != UCC_OK) {
        hd_op_mismatch(op, op->place.me);
    }
    op->completer = true;
    hd_delay_point();
    uint64_t word = atomic_load_explicit(&x->outer, memory_order_relaxed); /* a guess */
    do {
        if (hd_outer_has_key(word, ref.key)) { /* by a member that has cancelled */
            return;
        }
        /* release: everybody's arrival, which came in through the tree; pairs with enter */
    } while (!atomic_compare_exchange_weak_explicit(&x->outer, &word, ref.key << HD_OUTER_KEY_SHIFT,
                                                    memory_order_release, memory_order_relaxed));
    op->outer->arrived(op, &ref, status,
                       status == UCC_OK && (op->arrival & HD_ARRIVE_REDUCING) ? payload : NULL);
}

bool hd_outer_has_arrived(const hd_op_t *op) {
    /* relaxed: only told */
    uint64_t word = atomic_load_explicit(&op->exchange->outer, memory_order_relaxed);
    return hd_outer_has_key(word, hd_outer_key(op));
}
