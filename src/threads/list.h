/* list.h: a context's task lists, for the files of threads/ that work on them: threads.h says what
 * is in which list, and who may touch it. runner.c takes in, steps and completes; night.c and
 * wait.c only look. list.c hands tasks over and gives them back, for all who lie below the runner.
 */
#ifndef HD_THREADS_LIST_H
#define HD_THREADS_LIST_H

#include "threads/threads.h"

/* False: another thread is inside. */
static inline bool hd_runner_enter(hd_runner_t *runner) {
    return !runner->multiple || hd_lock_try(&runner->lock);
}

static inline void hd_runner_leave(hd_runner_t *runner) {
    if (runner->multiple) {
        hd_unlock(&runner->lock);
    }
}

/* Moves what was posted to the end of the active list, oldest first. */
static inline void hd_runner_take_in(hd_runner_t *runner) {
    if (!atomic_load_explicit(&runner->incoming,
                              memory_order_relaxed)) { /* a look before the RMW */
        return;
    }
    /* acquire: pairs with hd_runner_push */
    hd_task_t *stack = atomic_exchange_explicit(&runner->incoming, NULL, memory_order_acquire);
    hd_task_t *queue = NULL;
    while (stack) {
        hd_task_t *next = stack->next;
        stack->next = queue;
        queue = stack;
        stack = next;
    }
    hd_assert(!*runner->active_tail);
    *runner->active_tail = queue;
    while (*runner->active_tail) {
        runner->active_tail = &(*runner->active_tail)->next;
    }
}

/* The calling thread waits no more: it leaves its wait otherwise than by returning from it. */
void hd_runner_forget_waiter(hd_runner_t *runner);

#endif
