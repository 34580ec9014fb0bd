/* lock.c: hd_lock_t, which is a ck_spinlock with our waiting, beside the same in C11's atomics, and
 * beside ck_spinlock_lock, which never yields. A section writes one line; between two a thread is
 * away for a moment.
 */
#include "structures.h"
#include "threads/lock.h"

#include <ck_spinlock.h>
#include <stdalign.h>
#include <stdlib.h>

typedef struct c11_lock {
    _Atomic uint32_t held;
} c11_lock_t;

typedef struct locks {
    alignas(128) hd_lock_t ours;
    alignas(128) c11_lock_t c11;
    alignas(128) ck_spinlock_t ck;
    alignas(128) uint64_t guarded[8];
    uint32_t threads;
} locks_t;

static void *create(uint32_t threads) {
    locks_t *l = zeroed(sizeof(*l));
    l->threads = threads;
    ck_spinlock_init(&l->ck);
    return l;
}

static inline void use(locks_t *l) {
    for (int i = 0; i < 4; i++) {
        l->guarded[i]++;
    }
}

/* Alone, nothing: the section is what is measured. */
static inline void be_away(const locks_t *l) {
    for (uint32_t i = 0; l->threads > 1 && i < 16; i++) {
        __asm__ volatile("" ::: "memory");
    }
}

static void with_ours(void *shared, uint32_t thread, uint64_t operations) {
    locks_t *l = shared;
    (void)thread;
    for (uint64_t i = 0; i < operations; i++) {
        hd_lock(&l->ours);
        use(l);
        hd_unlock(&l->ours);
        be_away(l);
    }
}

static void with_ck(void *shared, uint32_t thread, uint64_t operations) {
    locks_t *l = shared;
    (void)thread;
    for (uint64_t i = 0; i < operations; i++) {
        ck_spinlock_lock(&l->ck);
        use(l);
        ck_spinlock_unlock(&l->ck);
        be_away(l);
    }
}

static inline bool try_c11(c11_lock_t *lock) {
    /* relaxed look first: keeps a contended line shared; acquire pairs with the release that ends a
     * section */
    return atomic_load_explicit(&lock->held, memory_order_relaxed) == 0 &&
           atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) == 0;
}

/* As hd_lock_wait, but for the sleep in the end. */
static __attribute__((noinline, cold)) void wait_c11(c11_lock_t *lock) {
    enum { LOOKS = 100 };
    for (unsigned looks = 1; !try_c11(lock); looks++) {
        if (looks % LOOKS != 0) {
            hd_relax();
        } else {
            sched_yield();
        }
    }
}

static inline void lock_c11(c11_lock_t *lock) {
    for (unsigned spins = 0; !try_c11(lock);) {
        if (++spins == 100) {
            wait_c11(lock);
            return;
        }
        hd_relax();
    }
}

static void with_c11(void *shared, uint32_t thread, uint64_t operations) {
    locks_t *l = shared;
    (void)thread;
    for (uint64_t i = 0; i < operations; i++) {
        lock_c11(&l->c11);
        use(l);
        /* release: publishes the section */
        atomic_store_explicit(&l->c11.held, 0, memory_order_release);
        be_away(l);
    }
}

const contest_t lock_contests[] = {{"lock: C11's atomics, ck_spinlock",
                                    "lock and unlock",
                                    {create, free, with_c11},
                                    {create, free, with_ours},
                                    MAX_THREADS},
                                   {"lock: our waiting, ck_spinlock_lock",
                                    "lock and unlock",
                                    {create, free, with_ours},
                                    {create, free, with_ck},
                                    MAX_THREADS},
                                   {0}};
