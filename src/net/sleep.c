/* sleep.c: what threads sleep on who wait for other processes: the lanes' descriptors (threads/outside.h). One thread of
 * the process does; it arms every lane when nothing moves there.
 *
 * A thread that pumps while another one sleeps here may take in what the armed descriptors were to tell, and then go:
 * so whoever has moved anything rouses the sleeper, which looks, and arms anew.
 */
#include "net/internal.h"
#include "threads/outside.h"

#include <pthread.h>

static hd_outside_t outside;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool is_made;
static uint32_t made_at; /* hd_forks(): a child has a descriptor of its own */

/* The sleeper's group keeps the net. */
static uint32_t arm(hd_outside_t *self, int *fds) {
    hd_net_t *net = hd_net_opened();
    uint32_t n = 0;
    (void)self;
    for (uint32_t l = 0; net && l < net->lanes; l++) {
        int watch;
        fds[n] = hd_net_lane_arm(&net->lane[l], &watch);
        if (fds[n++] < 0) {
            return 0;
        }
        if (watch >= 0) {
            fds[n++] = watch;
        }
    }
    return n;
}

_Static_assert((int)HD_NET_MOST_LANES + 1 <= (int)HD_OUTSIDE_MOST,
               "each lane has a descriptor, and the watch has one");

struct hd_outside *hd_net_outside(void) {
    hd_fork_guard(&making);
    pthread_mutex_lock(&making);
    bool made = atomic_load_explicit(&is_made, memory_order_relaxed); /* under the mutex */
    if (made && made_at != hd_forks()) {
        hd_outside_end(&outside);
        outside = (hd_outside_t){.event = -1}; /* the child has no sleepers */
        made = false;
    }
    if (!made) {
        made = hd_outside_init(&outside, arm);
        made_at = hd_forks();
        /* release: pairs with hd_net_rouse */
        atomic_store_explicit(&is_made, made, memory_order_release);
    }
    pthread_mutex_unlock(&making);
    return made ? &outside : NULL;
}

void hd_net_rouse(void) {
    /* acquire: pairs with hd_net_outside */
    if (atomic_load_explicit(&is_made, memory_order_acquire)) {
        hd_outside_rouse(&outside);
    }
}
