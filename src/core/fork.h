/* fork.h: what becomes of this library in the child of a fork. The child is another process, and
 * alone: none of the threads that its copies of groups and contexts belong to is there, one of them
 * may have held a lock, and nobody will ever publish what an inherited operation waits for.
 *
 * So the child's copies fail, and only they: whatever lives in a process and can be waited for is
 * a fork hook, known from its making to its end, and is told in the child what has happened, before
 * fork() returns there. That costs nothing elsewhere. New groups work in the child as in any
 * process.
 */
#ifndef HD_CORE_FORK_H
#define HD_CORE_FORK_H

#include <pthread.h>
#include <stdint.h>

typedef struct hd_fork_hook {
    void (*in_child)(
        struct hd_fork_hook *self); /* one thread is there, and no lock is worth anything */
    struct hd_fork_hook *next, **at;
} hd_fork_hook_t;

/* Any thread; the second only after the first. */
void hd_fork_watch(hd_fork_hook_t *fork_hook, void (*in_child)(hd_fork_hook_t *self));
void hd_fork_forget(hd_fork_hook_t *fork_hook);
/* What this mutex guards is whole in the child, and the mutex free. For ever; under it, nothing
 * else is locked. Says once too often is harmless. */
void hd_fork_guard(pthread_mutex_t *mutex);
/* How many forks lie between this process and the one that loaded the library: what was made at
 * another count was inherited. */
uint32_t hd_forks(void);

#endif
