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

bool hd_park_until(_Atomic uint32_t *word, uint32_t seen, uint32_t mask, bool far,
                   const struct timespec *deadline) {
    int op = far ? FUTEX_WAIT_BITSET : FUTEX_WAIT_BITSET_PRIVATE;
    return syscall(__NR_futex, word, op, seen, deadline, NULL, mask) == 0 || errno != ETIMEDOUT;
}

void hd_park_wake(_Atomic uint32_t *word, uint32_t mask, bool far) {
    int op = far ? FUTEX_WAKE_BITSET : FUTEX_WAKE_BITSET_PRIVATE;
    syscall(__NR_futex, word, op, INT_MAX, NULL, NULL, mask);
}

/* What the kernel takes from Linux 5.16 on; headers may be older. */
typedef struct wait_word {
    uint64_t seen, address;
    uint32_t flags, reserved;
} wait_word_t;

_Static_assert(sizeof(wait_word_t) == 24, "the kernel's struct futex_waitv");

bool hd_park_until_any(_Atomic uint32_t *const word[], const uint32_t seen[], uint32_t n,
                       const struct timespec *deadline) {
    enum { MOST = 128, WAITV = 449, WORD_32 = 2, PRIVATE = 128, NAP_NS = 1000000 };
    wait_word_t wait[MOST];
    hd_assert(n > 0 && n <= MOST);
    for (uint32_t i = 0; i < n; i++) {
        wait[i] = (wait_word_t){seen[i], (uintptr_t)word[i], i ? WORD_32 : WORD_32 | PRIVATE, 0};
    }
    if (syscall(WAITV, wait, n, 0, deadline, CLOCK_MONOTONIC) >= 0) {
        return true;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT) {
        return errno != ETIMEDOUT;
    }
    hd_park_sleep(word[0], seen[0], NAP_NS); /* an older kernel, or a filter of system calls */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec < deadline->tv_sec ||
           (now.tv_sec == deadline->tv_sec && now.tv_nsec < deadline->tv_nsec);
}

void hd_park_signal(int event) {
    const uint64_t one = 1;
    int cancelling; /* a cancelled thread would end in the write, under its caller's locks */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    (void)!write(event, &one, sizeof(one));
    pthread_setcancelstate(cancelling, NULL);
}
