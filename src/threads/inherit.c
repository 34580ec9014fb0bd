/* inherit.c: what the child of a fork finds of a context whose threads are not there.
 *
 * Called before fork() returns in the child, by its only thread: nothing here is shared. If that thread is
 * inside user's code that was called from the context, it will go on where it is, with what it holds in hand:
 * then nothing is lost, and nothing is changed.
 */
#include "threads/callback.h"

#include "core/log.h"

enum { LISTED = UINT32_MAX }; /* in `fruitless`, which is a hint, and 0 in all others */

static void mark(hd_task_t *list) {
    for (; list; list = list->next) {
        list->fruitless = LISTED;
    }
}

void hd_runner_mark_listed(hd_runner_t *runner) {
    mark(atomic_load_explicit(&runner->incoming, memory_order_relaxed)); /* alone */
    mark(runner->active);
}

bool hd_task_is_lost(const hd_task_t *task) {
    return task->magic == HD_TASK_LIVE && task->fruitless != LISTED && !hd_callback_is_running() &&
           hd_task_status(task) == UCC_INPROGRESS;
}

static ucc_status_t end(hd_task_t *task) {
    hd_error("an operation was inherited through a fork while another thread was at work on it");
    return task->outcome;
}

void hd_runner_adopt(hd_runner_t *runner, hd_task_t *task, bool step) {
    if (!step) {
        task->step = end;
        task->outcome = UCC_ERR_NOT_SUPPORTED;
        task->awaited = NULL; /* nothing else will come */
        task->n_along = 0;
        task->queued = false;
    }
    task->fruitless = LISTED;
    task->next = atomic_load_explicit(&runner->incoming, memory_order_relaxed); /* alone */
    atomic_store_explicit(&runner->incoming, task, memory_order_relaxed);       /* alone */
}

void hd_runner_unlock(hd_runner_t *runner) {
    hd_lock_forget(&runner->lock);
    hd_bell_forget(&runner->bell);
    if (hd_callback_is_running()) {
        return;
    }
    runner->finished = NULL; /* lost ones: they are adopted */
    runner->active_tail = &runner->active;
    while (*runner->active_tail) {
        runner->active_tail = &(*runner->active_tail)->next;
    }
}
