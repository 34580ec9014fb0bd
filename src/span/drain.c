/* drain.c: references to groups that are given up later. The end of a group destroys a team of the
 * net's, which a leg that ends under its lane's lock must not do. So the leg notes its reference
 * with the crossing (hd_span_defer_unref), and whoever has pumped the network and holds no lock any
 * more gives it up (hd_span_drain). Any thread may call both. The lock here guards the list of
 * crossings, and their `unrefs` and `next_deferred`. */
#include "span/span.h"

#include "core/fork.h"

#include <pthread.h>

static hd_lock_t deferred_lock;
static _Atomic(hd_crossing_t *) deferred;

/* Counts one reference to give up; the first one puts the crossing on the list. */
void hd_span_defer_unref(hd_crossing_t *crossing) {
    hd_lock(&deferred_lock);
    if (crossing->unrefs++ == 0) {
        /* relaxed, both: the lock hands on */
        crossing->next_deferred = atomic_load_explicit(&deferred, memory_order_relaxed);
        atomic_store_explicit(&deferred, crossing, memory_order_relaxed);
    }
    hd_unlock(&deferred_lock);
}

void hd_span_drain(void) {
    /* relaxed: one that is missed is settled by the next who pumps */
    while (atomic_load_explicit(&deferred, memory_order_relaxed)) {
        hd_lock(&deferred_lock);
        hd_crossing_t *crossing = atomic_load_explicit(&deferred, memory_order_relaxed);
        uint32_t unrefs = crossing ? crossing->unrefs : 0;
        if (crossing) {
            atomic_store_explicit(&deferred, crossing->next_deferred, memory_order_relaxed);
            crossing->unrefs = 0;
        }
        hd_unlock(&deferred_lock);
        hd_assert(!crossing || unrefs > 0);
        hd_group_t *group = unrefs ? crossing->group : NULL;
        for (; unrefs; unrefs--) {
            hd_home_unpin(&group->home);
        }
    }
}

/* Called in the child of a fork. A thread that held the lock does not exist here. References that
 * were noted are given up here, too, so that those groups end; groups whose flights were under way
 * stay. */
static void inherit_deferred(hd_fork_hook_t *self) {
    (void)self;
    hd_lock_forget(&deferred_lock);
}

static void watch_forks(void) {
    static hd_fork_hook_t fork_hook;
    hd_fork_watch(&fork_hook, inherit_deferred);
}

void hd_span_drain_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
}
