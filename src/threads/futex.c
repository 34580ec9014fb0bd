/* futex.c: sleeping on a word of memory and waking those who sleep there; and event descriptors,
 * for a sleeper that a futex can't wake. These are the kernel's calls and no more: who may sleep on
 * which word, and why no wake-up is lost, is said in park.c and fd_waiter.h. Any thread may call
 * these functions, under any lock.
 */
#include "threads/threads.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(_Atomic uint32_t) == 4, "the kernel's futex is a plain word");

void hd_park_sleep(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns) {
    struct timespec limit = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                             .tv_nsec = (long)(timeout_ns % 1000000000u)};
    syscall(__NR_futex, word, FUTEX_WAIT_PRIVATE, seen, timeout_ns == UINT64_MAX ? NULL : &limit,
            NULL, 0);
}

bool hd_park_until(_Atomic uint32_t *word, uint32_t seen, uint32_t mask,
                   const struct timespec *deadline) {
    return syscall(__NR_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, deadline, NULL, mask) == 0 ||
           errno != ETIMEDOUT;
}

void hd_park_wake(_Atomic uint32_t *word, uint32_t mask) {
    syscall(__NR_futex, word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, mask);
}

void hd_park_signal(int event) {
    const uint64_t one = 1;
    int cancelling; /* a cancelled thread would end in the write, under its caller's locks */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    (void)!write(event, &one, sizeof(one));
    pthread_setcancelstate(cancelling, NULL);
}
