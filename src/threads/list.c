/* list.c: handing tasks to a context, by those who post them and by callbacks that have not
 * returned. A task goes onto the context's stack of incoming tasks; whoever enters the context next
 * takes the stack in (list.h). hd_runner_push may be called by any thread at any time;
 * hd_runner_abandon by the thread inside the context, which leaves it.
 */
#include "threads/list.h"

#include "threads/stall.h"

void hd_runner_push(hd_runner_t *runner, hd_task_t *task) {
    hd_assert(hd_task_is_live(task));
    hd_assert_eq(task->req.status, UCC_INPROGRESS);
    hd_assert((void *)task->context == (void *)runner);
    hd_task_t *head = atomic_load_explicit(&runner->incoming, memory_order_relaxed); /* a guess */
    do {
        task->next = head;
        /* release: the task's fields, for whoever takes the stack in */
    } while (!atomic_compare_exchange_weak_explicit(&runner->incoming, &head, task,
                                                    memory_order_release, memory_order_relaxed));
    hd_bell_ring(&runner->bell);
}

void hd_runner_forget_waiter(hd_runner_t *runner) {
    int32_t me = runner->promised ? hd_thread_number() : 0;
    if (me) { /* relaxed: see hd_runner_wait */
        atomic_compare_exchange_strong_explicit(&runner->waiter, &me, 0, memory_order_relaxed,
                                                memory_order_relaxed);
    }
}

void hd_runner_abandon(hd_runner_t *runner) {
    hd_runner_forget_waiter(runner);
    hd_runner_leave(runner); /* the next round completes what has finished in this one */
    hd_bell_ring(&runner->bell);
}
