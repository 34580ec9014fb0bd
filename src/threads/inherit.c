/* inherit.c: what the child of a fork finds of a context whose threads are not there.
 *
 * Called before fork() returns in the child, by its only thread: nothing here is shared. If that
 * thread is inside user's code that was called from the context, it will go on where it is, with
 * what it holds in hand: then nothing of that context is lost, and no task of it is touched.
 *
 * Other threads ran while the memory was copied, page by page: a list may be of several moments,
 * even one that runs in a circle, or into another one.
 */
#include "threads/callback.h"

#include "core/log.h"

/* In `fruitless`, which is a hint. LISTED: of a task in one of the lists, and 0 in all others;
 * ACTIVE: while the lists are compared. */
enum { LISTED = UINT32_MAX, ACTIVE = UINT32_MAX - 1 };

/* Where a list runs in a circle, it ends with the last task before it would come back. */
static void cut_circle(hd_task_t *list) {
    hd_task_t *slow = list, *fast = list;
    do {
        if (!fast || !fast->next) {
            return;
        }
        slow = slow->next;
        fast = fast->next->next;
    } while (slow != fast);
    hd_task_t *first = list; /* of the circle: as far from here as from where the two met */
    while (first != slow) {
        first = first->next;
        slow = slow->next;
    }
    while (slow->next != first) {
        slow = slow->next;
    }
    slow->next = NULL;
}

static void mark(hd_task_t *list, uint32_t as) {
    cut_circle(list);
    for (; list; list = list->next) {
        list->fruitless = as;
    }
}

void hd_runner_mark_listed(hd_runner_t *runner) {
    mark(atomic_load_explicit(&runner->incoming, memory_order_relaxed), LISTED); /* alone */
    mark(runner->active, LISTED);
}

bool hd_task_is_lost(const hd_task_t *task) {
    return (task->magic == HD_TASK_LIVE || task->magic == HD_TASK_HOOKED) &&
           task->fruitless != LISTED && hd_task_status(task) == UCC_INPROGRESS &&
           !hd_callback_is_of(task) && !hd_callback_is_in(hd_task_runner(task));
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

/* A task that is in both lists, and so are all behind it, stays in `active`. */
static void part_lists(hd_runner_t *runner) {
    hd_task_t *incoming = atomic_load_explicit(&runner->incoming, memory_order_relaxed); /* alone */
    hd_task_t **at = &incoming;
    mark(incoming, LISTED);
    mark(runner->active, ACTIVE);
    while (*at && (*at)->fruitless != ACTIVE) {
        at = &(*at)->next;
    }
    *at = NULL;
    atomic_store_explicit(&runner->incoming, incoming, memory_order_relaxed); /* alone */
}

void hd_runner_unlock(hd_runner_t *runner) {
    hd_bell_forget(&runner->bell);
    if (hd_callback_holds(runner)) {
        return; /* the lists are this thread's, which gives the lock back */
    }
    hd_lock_forget(&runner->lock);
    if (!hd_callback_is_in(runner)) {
        runner->finished = NULL; /* lost ones: they are adopted */
    }
    part_lists(runner);
    runner->active_tail = &runner->active;
    while (*runner->active_tail) {
        runner->active_tail = &(*runner->active_tail)->next;
    }
}
