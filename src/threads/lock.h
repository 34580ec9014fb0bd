/* lock.h: a one-word lock for sections of a few dozen instructions (request free lists, a handle's
 * sequence window, a bucket of the tag table). Never held across a callback, a copy of user data or
 * a system call. The waiting side yields soon, because the holder may have been preempted, and sleeps in
 * the end: under SCHED_FIFO a yield lets nobody run whose priority is lower.
 */
#ifndef HD_THREADS_LOCK_H
#define HD_THREADS_LOCK_H

#include "core/debug.h"
#include "threads/clock.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct hd_lock {
    _Atomic uint32_t held;
} hd_lock_t;

static inline bool hd_lock_try(hd_lock_t *lock) {
    /* relaxed look first: keeps a contended line shared; acquire pairs with hd_unlock's release */
    return atomic_load_explicit(&lock->held, memory_order_relaxed) == 0 &&
           atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) == 0;
}

/* By whoever has spun in vain: takes the lock, giving up the processor between the looks (wait.c). */
void hd_lock_wait(hd_lock_t *lock);

static inline void hd_lock(hd_lock_t *lock) {
    for (unsigned spins = 0; !hd_lock_try(lock);) {
        if (++spins == 100) {
            hd_lock_wait(lock);
            return;
        }
        hd_relax();
    }
}

static inline void hd_unlock(hd_lock_t *lock) {
    /* relaxed: the caller's own exchange wrote it */
    hd_assert_eq(atomic_load_explicit(&lock->held, memory_order_relaxed), 1);
    atomic_store_explicit(&lock->held, 0, memory_order_release); /* publishes the section */
}

/* In the child of a fork: whoever may have held it is not there. */
static inline void hd_lock_forget(hd_lock_t *lock) {
    atomic_store_explicit(&lock->held, 0, memory_order_relaxed); /* the caller is alone */
}

#endif
