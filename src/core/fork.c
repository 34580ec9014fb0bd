/* fork.c: fork hooks, and mutexes that are held over a fork (fork.h). Any thread. */
#include "core/fork.h"

#include "core/debug.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { MAX_MUTEXES = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static bool registered;
static hd_fork_hook_t *fork_hooks;
static pthread_mutex_t *guarded[MAX_MUTEXES];
static int n_guarded;
static _Atomic uint32_t forks; /* written in a child only, before it has threads */

static void before(void) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_guarded; i++) {
        pthread_mutex_lock(guarded[i]);
    }
}

static void in_parent(void) {
    for (int i = n_guarded; i-- > 0;) {
        pthread_mutex_unlock(guarded[i]);
    }
    pthread_mutex_unlock(&lock);
}

static void in_child(void) {
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed); /* alone */
    for (hd_fork_hook_t *h = fork_hooks; h; h = h->next) {
        h->in_child(h);
    }
    in_parent();
}

/* Under the lock. */
static void watch_forks(void) {
    registered = registered || pthread_atfork(before, in_parent, in_child) == 0;
}

void hd_fork_watch(hd_fork_hook_t *fork_hook, void (*child)(hd_fork_hook_t *self)) {
    fork_hook->in_child = child;
    pthread_mutex_lock(&lock);
    watch_forks();
    fork_hook->next = fork_hooks;
    fork_hook->at = &fork_hooks;
    if (fork_hooks) {
        fork_hooks->at = &fork_hook->next;
    }
    fork_hooks = fork_hook;
    pthread_mutex_unlock(&lock);
}

void hd_fork_forget(hd_fork_hook_t *fork_hook) {
    pthread_mutex_lock(&lock);
    *fork_hook->at = fork_hook->next;
    if (fork_hook->next) {
        fork_hook->next->at = fork_hook->at;
    }
    pthread_mutex_unlock(&lock);
}

void hd_fork_guard(pthread_mutex_t *mutex) {
    int i = 0;
    pthread_mutex_lock(&lock);
    watch_forks();
    while (i < n_guarded && guarded[i] != mutex) {
        i++;
    }
    hd_assert_lt(i, MAX_MUTEXES);
    if (i == n_guarded && i < MAX_MUTEXES) {
        guarded[n_guarded++] = mutex;
    }
    pthread_mutex_unlock(&lock);
}

uint32_t hd_forks(void) {
    return atomic_load_explicit(&forks, memory_order_relaxed); /* constant in each process */
}
