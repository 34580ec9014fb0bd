/* callback.h: the user's own code that runs inside an operation's step: reductions of generic
 * datatypes, packing and unpacking. (Completion callbacks are none of these: they run after the
 * step, outside every lock, and may call anything. hd_callback_complete calls them.)
 *
 * Such code runs while its context is being stepped, so it may not call back: a nested progress
 * would step the list that the outer one is walking, a nested wait would wait for its own thread.
 * hd_callback_run closes the context for the time of the call, and the calls that lead here ask
 * hd_callback_refuses on their slow paths: progress when it finds the context closed, post when it
 * looks a second time because some thread is inside such code (hd_trace_attend), waiting after a
 * look in vain.
 *
 * Nor may such code end otherwise than by returning. If it does, whatever its operation had begun
 * is ended by `abandon`, and the context is given back, so that nobody else waits for ever: at once
 * when an exception or the end of the thread unwinds the stack, at the thread's next call when it
 * was left by longjmp, of which nobody is told.
 */
#ifndef HD_THREADS_CALLBACK_H
#define HD_THREADS_CALLBACK_H

#include "threads/threads.h"

/* Calls run(arg), which calls the user's code, for a task that the caller is stepping or posting.
 * abandon(task): it did not return; ends what the operation had begun, so that stepping the task
 * from now on ends it with an error. */
void hd_callback_run(hd_task_t *task, void (*run)(void *arg), void *arg,
                     void (*abandon)(hd_task_t *task));

/* Calls a completion callback. `others` have finished in the same round, and are not published yet:
 * should it throw or end its thread, they are completed all the same. True: the runner's context
 * may be gone, and there are no others any more. */
bool hd_callback_complete(hd_runner_t *runner, ucc_coll_callback_t callback, ucc_status_t status,
                          hd_task_t *others);

/* Tells of all that have finished, one after the other: publishes the status, and calls the client
 * back. False: that may have destroyed the runner's context. */
static inline bool hd_complete_all(hd_runner_t *runner, hd_task_t *finished) {
    while (finished) {
        hd_task_t *next = finished->next; /* read first: completing may free the task */
        hd_assert_eq(finished->req.status, UCC_INPROGRESS);
        ucc_coll_callback_t callback = finished->callback;
        ucc_status_t status = finished->outcome;
        hd_task_publish(finished, status);
        if (callback.cb && hd_callback_complete(runner, callback, status, next)) {
            return false;
        }
        finished = next;
    }
    return true;
}

/* Its context is being destroyed, maybe by a completion callback that it has called. */
void hd_callback_forget(const hd_runner_t *runner);
/* A completion callback may give up what keeps the context alive that calls it. True: the calling
 * thread is inside such a callback, and calls release(arg) when it does not touch the context any
 * more. */
bool hd_callback_defer(const hd_runner_t *runner, void (*release)(void *arg), void *arg);

/* In the child of a fork: is its thread inside user's code of either kind that this context called,
 * with tasks of it in hand? Does it hold the context's lock there? Is it this task's datatype that
 * it is inside of? */
bool hd_callback_is_in(const hd_runner_t *runner);
bool hd_callback_holds(const hd_runner_t *runner);
bool hd_callback_is_of(const hd_task_t *task);

/* What the calling thread keeps alive while it progresses: if a callback does not return until the
 * next such call, release(arg) is called once its context is given back. NULL: nothing any more. */
void hd_callback_hold(void (*release)(void *arg), void *arg);

/* Is the calling thread inside one, from which `caller` can't be called? Logs that, once per
 * callback. */
bool hd_callback_refuses(const char *caller);

#endif
