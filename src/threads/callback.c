/* callback.c: see callback.h. Compiled with -fexceptions, so that cleanups run when a foreign
 * exception or the end of the thread passes through.
 */
#define _GNU_SOURCE
#include "threads/callback.h"

#include "core/log.h"
#include "threads/list.h"
#include "threads/stall.h"
#include "threads/trace.h"

#include <pthread.h>

/* How the callback's context was closed to nested calls. */
typedef enum hd_closed {
    HD_CLOSED_ALREADY, /* by its lock: the caller is inside progress, or another thread is */
    HD_CLOSED_BY_LOCK, /* the lock was free: the caller is posting */
    HD_CLOSED_SINGLE   /* it knows no lock: made to look like one that is taken */
} hd_closed_t;

typedef struct held {
    void (*release)(void *arg); /* NULL: nothing is held */
    void *arg;
} held_t;

/* The calling thread's callback; task NULL: none. A copy of what hd_callback_run was called with,
 * because after a longjmp its frame is gone. */
typedef struct inside {
    hd_task_t *task;
    void (*abandon)(hd_task_t *task);
    const void *frame; /* of hd_callback_run */
    hd_closed_t closed;
    bool told;
    held_t held;
} inside_t;

/* initial-exec: one load, and only on slow paths */
static _Thread_local __attribute__((tls_model("initial-exec"))) inside_t inside;
static _Thread_local __attribute__((tls_model("initial-exec"))) held_t held;

void hd_callback_hold(void (*release)(void *arg), void *arg) {
    held = (held_t){release, arg};
}

static hd_closed_t close_runner(hd_runner_t *runner) {
    if (!runner->multiple) { /* nobody else may look: the caller is its only user */
        runner->multiple = true;
        hd_lock_alone(&runner->lock);
        return HD_CLOSED_SINGLE;
    }
    return hd_lock_try(&runner->lock) ? HD_CLOSED_BY_LOCK : HD_CLOSED_ALREADY;
}

static void open_runner(hd_runner_t *runner, hd_closed_t closed) {
    if (closed == HD_CLOSED_ALREADY) {
        return;
    }
    hd_unlock(&runner->lock);
    if (closed == HD_CLOSED_SINGLE) {
        runner->multiple = false;
    }
}

/* The callback will not return any more. */
static void abandon(void) {
    inside_t gone = inside;
    inside = (inside_t){0};
    if (held.arg == gone.held.arg) {
        held = (held_t){0};
    }
    hd_trace_leave();
    hd_stall_help(false); /* whoever set that was left, too */
    hd_runner_t *runner = hd_task_runner(gone.task);
    bool listed = gone.task->listed;
    hd_error(
        "a datatype's callback ended its thread, threw, or jumped out of the library, instead of "
        "returning: its operation fails");
    gone.task->listed = false;
    gone.abandon(gone.task);
    open_runner(runner, gone.closed);
    if (listed) {
        hd_runner_abandon(runner);
    } else {
        hd_runner_push(runner, gone.task); /* its post will not do it */
    }
    if (gone.held.release) {
        gone.held.release(gone.held.arg);
    }
}

typedef struct frame {
    inside_t outer;
    bool returned;
} frame_t;

static void leave(frame_t *frame) {
    if (!frame->returned) {
        abandon();
    }
    inside = frame->outer;
}

__attribute__((noinline)) void hd_callback_run(hd_task_t *task, void (*run)(void *arg), void *arg,
                                               void (*abandon_task)(hd_task_t *task)) {
    __attribute__((cleanup(leave))) frame_t frame = {.outer = inside};
    hd_runner_t *runner = hd_task_runner(task);
    inside = (inside_t){.task = task,
                        .abandon = abandon_task,
                        .frame = &frame,
                        .closed = close_runner(runner),
                        .held = held};
    hd_runner_rise();
    hd_trace_attend();
    run(arg);
    hd_trace_leave();
    open_runner(runner, inside.closed);
    frame.returned = true;
}

/* Do both addresses lie on the stack that the system gave to this thread? Tasks bring stacks of
 * their own, of which nothing is known. */
static bool on_threads_stack(const void *a, const void *b) {
    pthread_attr_t attributes;
    void *low = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return false;
    }
    bool known = pthread_attr_getstack(&attributes, &low, &size) == 0;
    pthread_attr_destroy(&attributes);
    uintptr_t base = (uintptr_t)low;
    return known && (uintptr_t)a - base < size && (uintptr_t)b - base < size;
}

/* --- completion callbacks --------------------------------------------------------------------- */

typedef struct completion {
    hd_runner_t *runner;
    hd_task_t *others;
    held_t held;    /* not to be given back by what the callback calls */
    uint32_t depth; /* of `completing` before it */
    bool helping;   /* so was the caller; what the callback waits for is its own */
    bool returned;
    bool *over; /* to be told whether the runner's context may be gone */
} completion_t;

/* The completion callbacks that the calling thread is inside of, each called by the one before.
 * Copies, because after a longjmp their frames are gone. More than DEEPEST are counted as one
 * more. */
enum { DEEPEST = 4 };
typedef struct completing {
    struct {
        const hd_runner_t *runner; /* NULL: destroyed */
        const void *frame;         /* of hd_callback_complete */
        held_t deferred;
    } entry[DEEPEST];
    uint32_t depth;
} completing_t;

static _Thread_local __attribute__((tls_model("initial-exec"))) completing_t completing;

/* On behalf of a completion callback that did not return, or after which its caller may not touch
 * the runner: completes those that come after it. */
static void go_on(hd_runner_t *runner, hd_task_t *finished) {
    hd_runner_forget_waiter(runner);
    if (hd_complete_all(runner, finished)) {
        hd_bell_ring(&runner->bell);
    }
}

static void release_deferred(held_t *deferred) {
    held_t gone = *deferred;
    *deferred = (held_t){0};
    if (gone.release) {
        gone.release(gone.arg);
    }
}

/* By its callback. Too deep, or on another thread than where it began, nobody knows. */
static bool is_destroyed(const completion_t *c) {
    return c->depth < DEEPEST && completing.entry[c->depth].frame == c &&
           !completing.entry[c->depth].runner;
}

/* What its callback has left to it, which the context lives for. */
static held_t take_deferred(const completion_t *c) {
    held_t deferred = {0};
    if (c->depth < DEEPEST && completing.entry[c->depth].frame == c) {
        deferred = completing.entry[c->depth].deferred;
        completing.entry[c->depth].deferred = (held_t){0};
    }
    return deferred;
}

static void end_completion(completion_t *c) {
    bool destroyed = is_destroyed(c);
    held_t deferred = take_deferred(c);
    completing.depth = c->depth;
    held = c->held;
    if (c->returned) {
        hd_stall_help(c->helping);
    } else {
        hd_stall_help(false); /* whoever set that is being left, too */
    }
    *c->over = destroyed || deferred.release;
    if (!destroyed && (!c->returned || deferred.release)) {
        go_on(c->runner, c->others);
    }
    if (!c->returned) {
        held = (held_t){0};
        if (c->held.release) {
            c->held.release(c->held.arg);
        }
    }
    release_deferred(&deferred);
}

/* A callback whose frame lies at or below `here` can't have called what runs there: it was left by
 * longjmp. */
static __attribute__((noinline, cold)) void forget_left(const void *here) {
    uint32_t i = completing.depth < DEEPEST ? completing.depth : DEEPEST;
    for (; i > 0 && (uintptr_t)completing.entry[i - 1].frame <= (uintptr_t)here &&
           on_threads_stack(completing.entry[i - 1].frame, here);
         i--) {
        completing.depth = i - 1;
    }
}

static void enter_completion(completion_t *c) {
    uint32_t depth = completing.depth;
    if (depth > 0 &&
        (depth > DEEPEST || (uintptr_t)completing.entry[depth - 1].frame <= (uintptr_t)c)) {
        forget_left(c);
        depth = completing.depth;
    }
    c->depth = depth;
    if (depth < DEEPEST) {
        release_deferred(&completing.entry[depth].deferred); /* of one that was left */
        completing.entry[depth].runner = c->runner;
        completing.entry[depth].frame = c;
    }
    completing.depth = depth < DEEPEST ? depth + 1 : DEEPEST + 1;
}

void hd_callback_forget(const hd_runner_t *runner) {
    for (uint32_t i = 0; i < completing.depth && i < DEEPEST; i++) {
        if (completing.entry[i].runner == runner) {
            completing.entry[i].runner = NULL;
        }
    }
}

bool hd_callback_defer(const hd_runner_t *runner, void (*release)(void *arg), void *arg) {
    for (uint32_t i = 0; i < completing.depth && i < DEEPEST; i++) {
        if (completing.entry[i].runner == runner) {            /* the outermost uses it longest */
            bool free = !completing.entry[i].deferred.release; /* else that one is enough */
            if (free) {
                completing.entry[i].deferred = (held_t){release, arg};
            }
            return free;
        }
    }
    return false;
}

__attribute__((noinline)) bool hd_callback_complete(hd_runner_t *runner,
                                                    ucc_coll_callback_t callback,
                                                    ucc_status_t status, hd_task_t *others) {
    bool over = false;
    {
        __attribute__((cleanup(end_completion)))
        completion_t completion = {.runner = runner,
                                   .others = others,
                                   .held = held,
                                   .helping = hd_stall_is_helping(),
                                   .over = &over};
        enter_completion(&completion);
        hd_stall_help(false);
        held = (held_t){0};
        callback.cb(callback.data, status);
        completion.returned = true;
    }
    return over;
}

bool hd_callback_holds(const hd_runner_t *runner) {
    return inside.task && hd_task_runner(inside.task) == runner &&
           (inside.closed != HD_CLOSED_ALREADY || inside.task->listed); /* else by another thread */
}

bool hd_callback_is_in(const hd_runner_t *runner) {
    bool found = completing.depth > DEEPEST || hd_callback_holds(runner);
    for (uint32_t i = 0; i < completing.depth && !found; i++) { /* NULL: destroyed */
        found = completing.entry[i].runner == runner;
    }
    return found;
}

bool hd_callback_is_of(const hd_task_t *task) {
    return inside.task == task;
}

/* --- calls from inside ------------------------------------------------------------------------ */

/* A caller whose frame lies above that of hd_callback_run can't be called by it: stacks grow
 * downwards. */
static __attribute__((noinline)) bool was_jumped_out_of(void) {
    const void *here = __builtin_frame_address(0);
    return (uintptr_t)here > (uintptr_t)inside.frame && on_threads_stack(here, inside.frame);
}

static bool is_inside(void) {
    if (!inside.task) {
        return false;
    }
    if (was_jumped_out_of()) {
        abandon();
        return false;
    }
    return true;
}

__attribute__((noinline, cold)) bool hd_callback_refuses(const char *caller) {
    if (!is_inside()) {
        return false;
    }
    if (!inside.told) {
        inside.told = true;
        hd_error(
            "%s: called inside a datatype's callback (reduction, pack or unpack), which may not "
            "call the library",
            caller);
    }
    return true;
}
