/* fd_waiter.c: the one thread that sleeps on descriptors for all; fd_waiter.h has the protocol. */
#include "threads/fd_waiter.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

bool hd_fd_waiter_init(hd_fd_waiter_t *outside,
                       uint32_t (*arm)(hd_fd_waiter_t *outside, int *fds)) {
    outside->arm = arm;
    outside->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    hd_lock_init(&outside->bell.lock);
    return outside->event >= 0;
}

void hd_fd_waiter_end(hd_fd_waiter_t *outside) {
    if (outside->event >= 0) {
        close(outside->event);
    }
}

/* False: the time is over. */
static bool watch(hd_fd_waiter_t *outside, _Atomic uint32_t *word, uint64_t timeout_ns) {
    int fds[HD_FD_WAITER_MOST];
    struct pollfd at[HD_FD_WAITER_MOST + 1];
    uint32_t n = outside->arm(outside, fds);
    /* seq_cst: after the event was set, see fd_waiter.h */
    if (n == 0 || atomic_load_explicit(word, memory_order_seq_cst) != 0) {
        return true;
    }
    for (uint32_t i = 0; i < n; i++) {
        at[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    }
    at[n] = (struct pollfd){.fd = outside->event, .events = POLLIN};
    struct timespec limit = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                             .tv_nsec = (long)(timeout_ns % 1000000000u)};
    return ppoll(at, n + 1, &limit, NULL) != 0;
}

bool hd_fd_waiter_sleep(hd_fd_waiter_t *outside, _Atomic uint32_t *word, _Atomic int *event,
                        uint64_t timeout_ns) {
    uint32_t nobody = 0;
    uint64_t rung;
    /* seq_cst: the watcher before has drained the event; and see hd_fd_waiter_leave */
    if (!atomic_compare_exchange_strong_explicit(&outside->watched, &nobody, 1,
                                                 memory_order_seq_cst, memory_order_seq_cst)) {
        hd_park_sleep(word, 0, timeout_ns);
        /* relaxed: only says why it is awake; the caller looks at everything anew */
        return atomic_load_explicit(word, memory_order_relaxed) != 0;
    }
    /* seq_cst, both: before the word is read, see fd_waiter.h */
    atomic_store_explicit(event, outside->event, memory_order_seq_cst);
    bool has_come = watch(outside, word, timeout_ns);
    atomic_store_explicit(event, -1, memory_order_seq_cst);
    while (read(outside->event, &rung, sizeof(rung)) > 0) {
    }
    /* seq_cst: the event is drained; and see hd_fd_waiter_leave */
    atomic_store_explicit(&outside->watched, 0, memory_order_seq_cst);
    return has_come;
}

void hd_fd_waiter_rouse(hd_fd_waiter_t *outside) {
    /* seq_cst: a watcher that is not seen here arms after this, and sees what has moved */
    if (atomic_load_explicit(&outside->watched, memory_order_seq_cst)) {
        hd_park_signal(outside->event);
    }
}

void hd_fd_waiter_leave(hd_fd_waiter_t *outside) {
    /* seq_cst, both: who enlists, and then finds a watcher, is found by that watcher when it
       leaves; so are the counting and the trying of the other side (hd_bell_enlist,
       hd_fd_waiter_sleep) */
    if (atomic_load_explicit(&outside->watched, memory_order_seq_cst) == 0 &&
        atomic_load_explicit(&outside->bell.sleepers, memory_order_seq_cst) != 0) {
        hd_bell_wake_one(&outside->bell);
    }
}
