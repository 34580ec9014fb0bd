/* sleep.c: what threads sleep on who wait for other processes (threads/fd_waiter.h): one thread of
 * the process sleeps in the descriptors of all lanes, which the function that net.c passes arms.
 *
 * A thread that pumps while another one sleeps here may take in what the armed descriptors were to
 * tell, and then go: so whoever has moved anything rouses the sleeper, which looks, and arms anew.
 * Any thread may call.
 */
#include "net/internal.h"
#include "threads/fd_waiter.h"

#include <pthread.h>

static hd_fd_waiter_t outside;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool is_made;
static uint32_t made_at; /* hd_forks(): a child has a descriptor of its own */

struct hd_fd_waiter *hd_net_sleep_on(uint32_t (*arm)(struct hd_fd_waiter *outside, int *fds)) {
    hd_fork_guard(&making);
    pthread_mutex_lock(&making);
    bool made = atomic_load_explicit(&is_made, memory_order_relaxed); /* under the mutex */
    if (made && made_at != hd_forks()) {
        hd_fd_waiter_end(&outside);
        outside = (hd_fd_waiter_t){.event = -1}; /* the child has no sleepers */
        made = false;
    }
    if (!made) {
        made = hd_fd_waiter_init(&outside, arm);
        made_at = hd_forks();
        /* release: pairs with hd_net_rouse */
        atomic_store_explicit(&is_made, made, memory_order_release);
    }
    pthread_mutex_unlock(&making);
    return made ? &outside : NULL;
}

void hd_net_rouse(void) {
    /* acquire: pairs with hd_net_sleep_on */
    if (atomic_load_explicit(&is_made, memory_order_acquire)) {
        hd_fd_waiter_rouse(&outside);
    }
}
