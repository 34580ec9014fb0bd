/* locks.c: set, test and clear. A lock is the long at PE 0; those at other PEs are not used. Its
 * upper half is the next number to be drawn, its lower half the number whose turn it is: first
 * come, first served. When nobody holds it and nobody waits it is 0, as the program made it.
 */
#include "pe.h"

static const uint64_t ticket = (uint64_t)1 << 32;

_Static_assert(sizeof(long) == sizeof(uint64_t), "a lock has two halves of 32 bits");

static _Atomic uint64_t *lock_at_0(long *lock, const char *call) {
    return (_Atomic uint64_t *)remote_address(lock, 0, call);
}

void shmem_set_lock(long *lock) {
    _Atomic uint64_t *there = lock_at_0(lock, __func__);
    /* Acquire, here and below: the holder sees what the one before did until its release in clear.
     */
    uint64_t mine = atomic_fetch_add_explicit(there, ticket, memory_order_acquire);
    for (waiting_t waiting = {0}; (uint32_t)mine != (uint32_t)(mine >> 32);) {
        pause_in_wait(&waiting, __func__, "the lock", lock);
        uint64_t now = atomic_load_explicit(there, memory_order_acquire);
        mine = (mine & ~(ticket - 1)) | (uint32_t)now;
    }
}

int shmem_test_lock(long *lock) {
    uint64_t unlocked = 0;
    bool got = atomic_compare_exchange_strong_explicit(lock_at_0(lock, __func__), &unlocked, ticket,
                                                       memory_order_acquire, memory_order_relaxed);
    if (!got) {
        sched_yield(); /* programs test in loops */
    }
    return !got;
}

void shmem_clear_lock(long *lock) {
    _Atomic uint64_t *there = lock_at_0(lock, __func__);
    uint64_t seen = atomic_load_explicit(there, memory_order_relaxed), next;
    shmem_quiet();
    if ((uint32_t)seen == (uint32_t)(seen >> 32)) { /* whoever sets it would wait for ever */
        fail(__func__, "nobody holds the lock");
    }
    do {
        uint32_t turn = (uint32_t)seen + 1;
        next = turn == (uint32_t)(seen >> 32) ? 0 : (seen & ~(ticket - 1)) | turn;
    } while (!atomic_compare_exchange_weak_explicit(there, &seen, next, memory_order_release,
                                                    memory_order_relaxed));
}
