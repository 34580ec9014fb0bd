/* fd_waiter.h: sleeping while what is waited for comes from outside the process: from other
 * processes, by descriptors that the network has. Futexes don't wait for descriptors, so of all
 * threads that sleep for the sake of one OUTSIDE one at most is its WATCHER: it sleeps in poll(),
 * on the outside's descriptors and on an event descriptor that the bells signal on which it is
 * enlisted. The others sleep on their futexes, as always, and also on the outside's bell: who has
 * waited long enough, the watcher or whoever finds none, wakes one of them when it leaves. A
 * watcher that has been woken and goes on waiting wakes nobody: it is awake, and looks.
 *
 * No wake-up from inside is lost: a ringer bumps the word, then reads the event descriptor; the
 * watcher sets the descriptor, then reads the word (all sequentially consistent): one of them sees
 * the other. None from outside is: the descriptors are armed before the last look at them (see
 * arm), and what comes later makes them readable.
 */
#ifndef HD_THREADS_OUTSIDE_H
#define HD_THREADS_OUTSIDE_H

#include "threads/threads.h"

enum { HD_FD_WAITER_MOST = 16 }; /* descriptors */

typedef struct hd_fd_waiter hd_fd_waiter_t;

/* Static: sleepers look at it when what they waited for, and the network, may be gone. */
struct hd_fd_waiter {
    /* By the watcher, one at a time: sees to it that whatever comes from now on makes a descriptor
     * readable, and writes those into fds, HD_FD_WAITER_MOST at most. How many; 0: something has
     * come, or somebody is about to look. Waits for nobody. */
    uint32_t (*arm)(hd_fd_waiter_t *outside, int *fds);
    hd_bell_t bell;           /* of those who would watch */
    _Atomic uint32_t watched; /* 1: a thread is the watcher */
    int event;                /* eventfd: written by bells while there is a watcher */
};

/* event is made. False: no descriptor. */
bool hd_fd_waiter_init(hd_fd_waiter_t *outside, uint32_t (*arm)(hd_fd_waiter_t *outside, int *fds));
void hd_fd_waiter_end(hd_fd_waiter_t *outside);
/* A sleeper, enlisted on its bells and on the outside's with this word and this event (which is
 * -1), has looked for the last time: sleeps until one of them rings, something comes from outside,
 * or the time is over. False: the time is over, as far as this thread can tell. */
bool hd_fd_waiter_sleep(hd_fd_waiter_t *outside, _Atomic uint32_t *word, _Atomic int *event,
                        uint64_t timeout_ns);
/* Wakes the watcher, if there is one: what it has armed may be out of date. */
void hd_fd_waiter_rouse(hd_fd_waiter_t *outside);
/* By whoever has slept for its sake and will not look again: it has waited, or runs user's code. */
void hd_fd_waiter_leave(hd_fd_waiter_t *outside);

#endif
