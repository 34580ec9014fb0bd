/* lock.h: a one-word lock for sections of a few dozen instructions (request free lists, a handle's
 * sequence window, a bucket of the tag table). Never held across a callback, a copy of user data or
 * a system call. The waiting side yields soon, because the holder may have been preempted, and
 * sleeps in the end: under SCHED_FIFO a yield lets nobody run whose priority is lower.
 *
 * The word is Concurrency Kit's ck_spinlock: swapped in by its trylock, which orders the section
 * after the swap (acquire), and cleared by its unlock, which orders it before the store (release).
 * The waiting is ours, because ck_spinlock_lock spins for as long as it takes.
 */
#ifndef HD_THREADS_LOCK_H
#define HD_THREADS_LOCK_H

#include "core/debug.h"
#include "core/sanitizer.h"
#include "threads/clock.h"

#include <ck_spinlock.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

/* All zeros: nobody holds it. */
typedef struct hd_lock {
    ck_spinlock_t word;
} hd_lock_t;

static inline void hd_lock_init(hd_lock_t *lock) {
    ck_spinlock_init(&lock->word);
}

static inline bool hd_lock_try(hd_lock_t *lock) {
    /* A look first, without any order, keeps a contended line shared; the swap pairs with
     * hd_unlock. */
    if (ck_pr_load_uint(&lock->word.value) != 0 || !ck_spinlock_trylock(&lock->word)) {
        return false;
    }
    hd_sanitizer_after_assembly(lock);
    return true;
}

/* The caller is its only user, and takes it without the price of a swap. */
static inline void hd_lock_alone(hd_lock_t *lock) {
    ck_pr_store_uint(&lock->word.value, 1);
}

/* By whoever has spun in vain: takes the lock, giving up the processor between the looks (wait.c).
 */
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
    hd_assert(ck_spinlock_locked(&lock->word));
    hd_sanitizer_before_assembly(lock);
    ck_spinlock_unlock(&lock->word); /* publishes the section */
}

/* The same, and what is read after it is read after others can see that the lock is free: by a
 * swap, which takes half as long as a store and a full fence. */
static inline void hd_unlock_first(hd_lock_t *lock) {
    hd_assert(ck_spinlock_locked(&lock->word));
    hd_sanitizer_before_assembly(lock);
    ck_pr_fence_unlock(); /* publishes the section, where a swap alone does not */
    (void)ck_pr_fas_uint(&lock->word.value, 0);
    ck_pr_fence_atomic_load();
}

/* In the child of a fork: whoever may have held it is not there. */
static inline void hd_lock_forget(hd_lock_t *lock) {
    ck_spinlock_init(&lock->word); /* the caller is alone */
}

#endif
