/* park.c: bells and the futex that sleepers sleep on.
 *
 * Usage by a sleeper:   seen = load(word); enlist on every bell that may ring; hd_park_fence();
 *                       look once more; nothing -> hd_park_sleep(word, seen); delist from all.
 * Usage by a ringer:    release store of whatever was awaited; hd_bell_ring(bell).
 *
 * No wake-up is lost: the ringer's load of `sleepers` comes after its store. If it reads zero, the
 * sleeper's increment comes later in the line's order, so the sleeper's fence (membarrier: every
 * running thread passes a full barrier) comes after the ringer's store too, and the sleeper's last
 * look sees it. If it reads non-zero, the ringer bumps the word under the bell's lock; the sleeper
 * either reads the bumped value before it sleeps, and does not, or is woken.
 */
#include "threads/threads.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

bool hd_park_has_membarrier = false;

_Static_assert(sizeof(_Atomic uint32_t) == 4, "the kernel's futex is a plain word");

static void park_init_once(void) {
    long commands = syscall(__NR_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    hd_park_has_membarrier =
        commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) &&
        syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void hd_park_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, park_init_once);
}

void hd_park_fence(void) {
    if (hd_park_has_membarrier) {
        syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    }
    /* else: hd_bell_enlist's increment and the ringer's read-modify-write are both seq_cst on one
       word, so one of them comes first and the later one sees the other's past */
}

void hd_bell_enlist(hd_bell_t *bell, hd_sleeper_t *sleeper, _Atomic uint32_t *word,
                    _Atomic int *event) {
    sleeper->word = word;
    sleeper->event = event;
    sleeper->bell = bell;
    hd_lock(&bell->lock);
    sleeper->next = bell->list;
    bell->list = sleeper;
    hd_unlock(&bell->lock);
    atomic_fetch_add_explicit(&bell->sleepers, 1, memory_order_seq_cst); /* see hd_park_fence */
}

void hd_bell_delist(hd_sleeper_t *sleeper) {
    hd_bell_t *bell = sleeper->bell;
    hd_lock(&bell->lock);
    hd_sleeper_t **at = &bell->list;
    while (*at != sleeper) {
        hd_assert(*at);
        at = &(*at)->next;
    }
    *at = sleeper->next;
    hd_unlock(&bell->lock);
    /* relaxed: my own is among them */
    hd_assert_lt(0, atomic_load_explicit(&bell->sleepers, memory_order_relaxed));
    atomic_fetch_sub_explicit(&bell->sleepers, 1,
                              memory_order_relaxed); /* only fewer rings follow */
}

static void wake(const hd_sleeper_t *s) {
    const uint64_t one = 1;
    /* seq_cst, both: what was published before the ring is visible to who sees the new value; and outside.h */
    atomic_fetch_add_explicit(s->word, 1, memory_order_seq_cst);
    int event = s->event ? atomic_load_explicit(s->event, memory_order_seq_cst) : -1;
    if (event < 0) {
        syscall(__NR_futex, s->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    } else {
        (void)!write(event, &one, sizeof(one));
    }
}

/* Not inlined, here and below: those who ring, and wake nobody, would pay for it. */
__attribute__((noinline, cold)) void hd_bell_wake(hd_bell_t *bell) {
    hd_lock(&bell->lock);
    for (const hd_sleeper_t *s = bell->list; s; s = s->next) {
        wake(s);
    }
    hd_unlock(&bell->lock);
}

__attribute__((noinline, cold)) void hd_bell_wake_one(hd_bell_t *bell) {
    hd_lock(&bell->lock);
    if (bell->list) {
        wake(bell->list);
    }
    hd_unlock(&bell->lock);
}

void hd_bell_forget(hd_bell_t *bell) {
    /* relaxed: the caller is alone */
    atomic_store_explicit(&bell->sleepers, 0, memory_order_relaxed);
    bell->list = NULL;
    hd_lock_forget(&bell->lock);
}

void hd_park_sleep(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns) {
    struct timespec limit = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                             .tv_nsec = (long)(timeout_ns % 1000000000u)};
    syscall(__NR_futex, word, FUTEX_WAIT_PRIVATE, seen, timeout_ns == UINT64_MAX ? NULL : &limit,
            NULL, 0);
}
