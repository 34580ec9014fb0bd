/* schedule.h: algorithms of several steps, and algorithms of one's own.
 *
 * The interface of "UCC Schedule and Tasks" (Lebedev, UCF Collective WG, 2020), under its names,
 * with its open questions answered; what goes beyond it is called heddle_*. Four things:
 *
 *   event manager   others subscribe to its events, and their handlers are called when one is
 *                   raised
 *   task            one step; has an event manager, and a handler for each event that it may hear
 *                   of
 *   schedule        the tasks of one endpoint's part of a collective; a task itself, so schedules
 *                   nest
 *   algorithm       what makes a schedule for a collective: registered with a team, it is what
 *                   ucc_collective_init() uses there, so that programs that know nothing of it run
 *                   it
 *
 * A schedule of two tasks, of which the second waits for the first:
 *
 *     ucc_schedule_init(&schedule);
 *     for (int i = 0; i < 2; i++) {
 *         ucc_coll_task_init(&task[i]);
 *         task[i].handlers[UCC_EVENT_PROGRESS] = step;      // calls heddle_coll_task_end(task,
 *                                                           UCC_OK)
 *         ucc_schedule_add_task(&schedule, &task[i]);
 *     }
 *     ucc_event_manager_subscribe(&task[0].em, UCC_EVENT_COMPLETED, &task[1]);
 *     heddle_schedule_attach(&schedule, context);           // or drive it by
 *                                                           ucc_schedule_progress() alone
 *     ucc_schedule_start(&schedule);
 *     while (ucc_schedule_progress(&schedule) == UCC_INPROGRESS) {
 *     }
 *
 * A task's states, in each run of its schedule:
 *
 *     NOT_READY ----------------> INPROGRESS ---UCC_EVENT_COMPLETED of its own, or ---> COMPLETED
 *        |     it begins                        heddle_coll_task_end()                      ^
 *        +----- the schedule is canceled, or the task is ended before its turn -------------+
 *
 * A task begins when every event manager to whose COMPLETED it has subscribed has raised it, at
 * once if there is none; if it has a handler for COMPLETED, then when that handler sets `state` to
 * UCC_TASK_STATE_INPROGRESS instead. Handlers may write `state` for no other purpose.
 *
 * Threads. A schedule is one thread's at a time: whoever progresses the context that it is attached
 * to, or calls ucc_schedule_progress(). Its handlers are called by that thread, outside all locks
 * of the library, and may call everything: init, post, test, wait, progress of any context, start,
 * cancel and notify of any schedule, subscribe and unsubscribe, heddle_coll_task_destroy() of any
 * task of the same schedule, the handler's own included. They return; one that ends its thread or
 * jumps away leaves its schedule as it is, for ever in progress. While a schedule runs, these may
 * also be called by any other thread, concurrently: heddle_schedule_cancel(),
 * ucc_schedule_progress(), and, on its tasks, heddle_coll_task_end(), ucc_event_manager_notify(),
 * _subscribe and _unsubscribe; handlers then follow in the schedule's next round. Whoever
 * unsubscribes from another thread may find the handler still running. To progress a schedule that
 * is attached is to progress its context: by several threads only where that is for several
 * threads.
 *
 * Memory. All structures are the program's, and may lie anywhere but must not move. When a
 * schedule's result has been seen, the library touches it and its tasks no more. Event managers
 * with more than four listeners, and only those, hold memory until heddle_event_manager_destroy(),
 * heddle_coll_task_destroy() or heddle_schedule_destroy().
 *
 * Calls that return ucc_status_t where the document says void return UCC_OK, or log what is wrong
 * and return why; so they do with structures that were never initialised, but filled with zeros, or
 * that have moved.
 *
 * After a fork, a child has its own copies of schedules: those that were attached end there when
 * the operations that they wait for have failed (see heddle.h), unless another thread was just
 * progressing them: it is not in the child, and they stay as they are. Runs of algorithms end in
 * either case.
 */
#ifndef HEDDLE_SCHEDULE_H_
#define HEDDLE_SCHEDULE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucc/api/ucc.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/** Result of a schedule that was canceled by heddle_schedule_cancel(), and of its tasks that did
 * not complete. */
#define HEDDLE_ERR_CANCELED ((ucc_status_t)-41)

/* ------------------------------------------------------------------------------------------------
 * Event managers
 * ---------------------------------------------------------------------------------------------- */

/** What a task may hear of. The last two are Heddle's answer to the document's open questions. */
typedef enum {
    UCC_EVENT_PROGRESS =
        0, /**< of a schedule: once per round; each of its tasks hears it that is not over */
    UCC_EVENT_COMPLETED, /**< of a task or schedule: it has ended well */
    /**< of a task: a part of its work is done; raised by the task, as often as it likes */
    UCC_EVENT_FRAGMENT_COMPLETED,
    UCC_EVENT_CANCELED, /**< of a task or schedule: it was canceled, or has failed (`status` says which). Also heard
                             by every task of a schedule that is canceled, unless the task is over */
    UCC_EVENT_LAST
} ucc_event_t;

typedef struct ucc_coll_task ucc_coll_task_t;

/** Called with the task that hears of the event, its listener. */
typedef void (*ucc_task_event_handler_p)(ucc_coll_task_t *task);

/** What others subscribe to. Opaque; as many listeners as there is memory for. */
typedef struct ucc_event_manager {
    uint64_t heddle_private[13];
} ucc_event_manager_t;

/** Before any other use. Tasks and schedules initialise their own. */
ucc_status_t ucc_event_manager_init(ucc_event_manager_t *em);

/** From now on, event `event` of `em` calls task->handlers[event], if there is one by then.
 *  Listeners are told in the order of their subscriptions; one that subscribes twice is told twice;
 *  one that subscribes while an event is being raised hears of the next one. The subscription must
 *  end before the task's memory does. @return UCC_OK; UCC_ERR_INVALID_PARAM; UCC_ERR_NO_MEMORY, and
 *  nothing was changed */
ucc_status_t ucc_event_manager_subscribe(ucc_event_manager_t *em, ucc_event_t event,
                                         ucc_coll_task_t *task);

/** Ends the oldest such subscription: the handler is not called for it again, also not for an event
 *  that is just being raised and has not reached it. Of COMPLETED, the task waits only for the
 *  others that it has subscribed to. @return UCC_OK; UCC_ERR_NOT_FOUND, if there is none;
 *  UCC_ERR_INVALID_PARAM */
ucc_status_t heddle_event_manager_unsubscribe(ucc_event_manager_t *em, ucc_event_t event,
                                              ucc_coll_task_t *task);

/** Raises an event: calls the listeners' handlers before it returns, those of tasks in another
 *  schedule that runs excepted, which are called in that schedule's next round. Of a task in a
 *  schedule, COMPLETED is heddle_coll_task_end(task, UCC_OK), and CANCELED is
 *  heddle_coll_task_end(task, HEDDLE_ERR_CANCELED). @return UCC_OK; UCC_ERR_INVALID_PARAM: no such
 *  event, or the task is over already */
ucc_status_t ucc_event_manager_notify(ucc_event_manager_t *em, ucc_event_t event);

/** All subscriptions end, and their memory is freed. By a handler, too, while an event of `em` is
 *  being raised: then nobody else hears of it or waits for it, and `em` is not touched any more.
 *  Else who waits for its COMPLETED goes on waiting, and is to unsubscribe before. */
ucc_status_t heddle_event_manager_destroy(ucc_event_manager_t *em);

/* ------------------------------------------------------------------------------------------------
 * Tasks
 * ---------------------------------------------------------------------------------------------- */

typedef enum {
    UCC_TASK_STATE_NOT_READY,
    UCC_TASK_STATE_INPROGRESS,
    UCC_TASK_STATE_COMPLETED
} ucc_task_state_t;

/** One step. Programs put it first in a structure of their own, and cast. */
struct ucc_coll_task {
    ucc_event_manager_t em; /**< what others may subscribe to */
    ucc_task_state_t state; /**< see above; to be read by handlers */
    ucc_task_event_handler_p
        handlers[UCC_EVENT_LAST]; /**< by event; NULL: none. Set while the schedule is idle */
    ucc_status_t status;          /**< COMPLETED: UCC_OK, or why it failed (Heddle's addition) */
    uint64_t heddle_private[10];
};

/** NOT_READY, without handlers or listeners, in no schedule. */
ucc_status_t ucc_coll_task_init(ucc_coll_task_t *task);

/** The task is over: UCC_OK, or an error, which cancels its schedule and becomes the schedule's
 *  result. Once per run; by a handler of its schedule, or by any other thread. While its request is
 *  in progress, whose buffers are at work, it takes effect when that is over. @return UCC_OK;
 *  UCC_ERR_INVALID_PARAM: it is over already, or its schedule does not run */
ucc_status_t heddle_coll_task_end(ucc_coll_task_t *task, ucc_status_t status);

/** Takes the task out of its schedule, which goes on without it, and ends all subscriptions to it.
 *  Its own subscriptions elsewhere must have ended, and a request that it waits for must be over.
 *  By handlers of its schedule: nobody waits for it any more; or while that is idle: tasks that are
 *  to run again unsubscribe before. @return UCC_OK; UCC_ERR_INVALID_PARAM: by another thread while
 *  the schedule runs, or it is a schedule that runs, or its
 *          request is in progress */
ucc_status_t heddle_coll_task_destroy(ucc_coll_task_t *task);

/* ------------------------------------------------------------------------------------------------
 * Schedules
 * ---------------------------------------------------------------------------------------------- */

/** Tasks of one endpoint, and what has become of them. */
typedef struct ucc_schedule {
    ucc_coll_task_t
        super; /**< a schedule is a task: of another schedule, and for those who listen to it */
    /**< in this run, failed and canceled ones included; to be read by handlers */
    int n_completed_tasks;
    uint64_t heddle_private[40];
    ucc_coll_args_t args; /**< the program's: the library does not look at it */
} ucc_schedule_t;

/** Without tasks, attached to no context, never started. */
ucc_status_t ucc_schedule_init(ucc_schedule_t *schedule);

/** The schedule calls the task's PROGRESS handler, and is complete only when the task is. While the
 *  schedule is idle, or by one of its handlers. A schedule that is added (&inner.super) is started,
 *  driven and canceled by the one that it is added to. @return UCC_OK; UCC_ERR_INVALID_PARAM: the
 *  task is in a schedule already */
ucc_status_t ucc_schedule_add_task(ucc_schedule_t *schedule, ucc_coll_task_t *task);

/** From now on whoever progresses this context drives the schedule, whenever it runs. While it is
 *  idle; the context can't be destroyed while it runs. Requests that are its tasks may belong to
 *  other contexts, which it then progresses, too. */
ucc_status_t heddle_schedule_attach(ucc_schedule_t *schedule, ucc_context_h context);

/** Begins a run: all tasks are NOT_READY again; handlers are called from the first round on. It may
 *  have run before, however that ended. By a handler of its own COMPLETED or CANCELED: takes effect
 *  when all listeners were told. @return UCC_OK; UCC_ERR_INVALID_PARAM: it runs, or is part of
 *  another schedule */
ucc_status_t ucc_schedule_start(ucc_schedule_t *schedule);

/** One round, or one progress of the context that it is attached to. @return UCC_INPROGRESS;
 *  UCC_OK: all tasks have completed; the first failure; HEDDLE_ERR_CANCELED;
 *          UCC_ERR_INVALID_PARAM: it was never started */
ucc_status_t ucc_schedule_progress(ucc_schedule_t *schedule);

/** Ends the run: in its next round tasks that have not begun complete with HEDDLE_ERR_CANCELED.
 *  Those in progress hear CANCELED: without a handler for it they are over, with one they are when
 *  they say so. Requests can't be taken back: their tasks end with them (heddle_team_abort() ends
 *  them at once). When all tasks are over, the schedule is. Any thread, once or often. @return
 *  UCC_OK; UCC_ERR_INVALID_PARAM: it does not run */
ucc_status_t heddle_schedule_cancel(ucc_schedule_t *schedule);

/** Takes all tasks out, and ends all subscriptions to the schedule. While it is idle.
 *  @return UCC_OK; UCC_ERR_INVALID_PARAM: it runs */
ucc_status_t heddle_schedule_destroy(ucc_schedule_t *schedule);

/* ------------------------------------------------------------------------------------------------
 * Requests as tasks
 * ---------------------------------------------------------------------------------------------- */

/** A collective that is a task: posted when the task begins; over, with its status, when the
 * request is. */
typedef struct heddle_request_task {
    ucc_coll_task_t super;  /**< its handlers are called as well, those that are set */
    ucc_coll_req_h request; /**< heddle_collective_task_init: from post to completion, else NULL */
    ucc_team_h team;        /**< heddle_collective_task_init: and this */
    ucc_coll_args_t args;   /**< and these; handlers may fill them in before the task begins */
    uint64_t tag;           /**< and this, if has_tag */
    bool has_tag, owned;
    ucc_team_h held; /**< the library's */
} heddle_request_task_t;

/** Of a request that the program has initialised, and finalizes when the schedule is over. To run
 *  the schedule again, it must be persistent. Its team can't be destroyed, nor left, before the
 *  task is over in a run that has begun; that holds for the next call's, too. */
ucc_status_t heddle_request_task_init(heddle_request_task_t *task, ucc_coll_req_h request);

/** Of a request that is initialised, posted and finalized by the task itself, in each run.
 *  Collectives of one team match in the order of their posts, which tasks make when their turn
 *  comes: concurrent ones, and those of registered algorithms, are kept apart by tags
 *  (heddle_collective_init_tagged()) or teams. @param [in] args  copied; the arrays and buffers
 *  they point to are not @param [in] tag   NULL: args->tag, if the mask says so, else none;
 *  copied */
ucc_status_t heddle_collective_task_init(heddle_request_task_t *task, ucc_team_h team,
                                         const ucc_coll_args_t *args, const uint64_t *tag);

/* ------------------------------------------------------------------------------------------------
 * Algorithms of one's own
 * ---------------------------------------------------------------------------------------------- */

/** A collective for which an algorithm is asked. The arguments were checked. */
typedef struct heddle_algorithm_call {
    const ucc_coll_args_t
        *args; /**< as given to ucc_collective_init(), valid only during the call */
    ucc_team_h team;
    ucc_context_h
        context; /**< the first of the team's contexts; the schedule will be attached to it */
    uint32_t endpoint, size; /**< own number in the team, and how many there are */
    /**< bcast, reduce, allreduce and scans: of the whole message; v types: 0; else of one block */
    size_t bytes;
    void *team_data; /**< what `join` returned for this team handle */
} heddle_algorithm_call_t;

/** How an algorithm is registered. What all endpoints of a team register must be alike, in the same
 *  order, with predicates that decide by what all endpoints pass alike. If they differ, some
 *  endpoints run one algorithm and the others another, and wait for each other in vain: they say so
 *  after HEDDLE_STALL seconds, HEDDLE_TIMEOUT ends it, and the next collective of the team that
 *  meets another one fails everywhere. */
typedef struct heddle_algorithm_params {
    const char *name;    /**< in messages; copied */
    uint64_t coll_types; /**< ucc_coll_type_t, or-ed */
    void *arg;           /**< for the calls below */
    /** NULL, or: is it to be used for this call? Calls with a tag or an active set are never asked
     *  for, nor are empty ones. */
    bool (*matches)(const heddle_algorithm_call_t *call, void *arg);
    /** NULL, or called before the first use at a team handle: what the algorithm keeps with it. */
    ucc_status_t (*join)(ucc_team_h team, void *arg, void **team_data);
    /** NULL, or called when that handle is destroyed. */
    void (*leave)(void *team_data);
    /** By ucc_collective_init(): makes a schedule for this call, and whatever else it needs
     *  (*self). It is this request's alone until `finalize`, and started by its post only. What it
     *  needs of the arguments it copies. UCC_ERR_NOT_SUPPORTED declines: another algorithm is
     *  taken, so all endpoints must decline alike. Any other error is the result of
     *  ucc_collective_init(). */
    ucc_status_t (*init)(const heddle_algorithm_call_t *call, void *arg, ucc_schedule_t **schedule,
                         void **self);
    /** NULL, or by each ucc_collective_post(), before the schedule is started: fills in what is new
     *  in this run. Tags tag .. tag + 65535 are this call's alone, the same at all endpoints, for
     *  the collectives that the schedule runs on this team or on others with the same endpoints
     *  (heddle_collective_init_tagged()). One without a tag may be given to the algorithm again: of
     *  runs inside runs, the 16th is refused. */
    ucc_status_t (*start)(void *self, uint64_t tag);
    /** By ucc_collective_finalize(), or with the team handle: frees the schedule and what else
     * there is. */
    void (*finalize)(void *self);
} heddle_algorithm_params_t;

/** A registered algorithm; opaque. */
typedef struct heddle_algorithm heddle_algorithm_t;

/** The collectives of this team handle that match use the algorithm from now on: those initialised
 *  by ucc_collective_init() and by heddle.h's calls, blocking ones included. Of several that match,
 *  the last registered is asked first. No other thread may use the handle meanwhile, and no
 *  collective of it be in progress.
 *
 *  A request whose schedule fails ends with the schedule's result; one line is logged, and the team
 *  fails with the same status, so that the others' operations end, too. A team that fails or is
 *  aborted, and a time-out, cancel the schedule; the teams of its collectives that are in progress
 *  then are aborted. */
ucc_status_t heddle_algorithm_register(ucc_team_h team, const heddle_algorithm_params_t *params,
                                       heddle_algorithm_t **algorithm);

/** The same for all teams that are made from this context (as their first) after this, those made
 * from teams included. */
ucc_status_t heddle_algorithm_register_context(ucc_context_h context,
                                               const heddle_algorithm_params_t *params,
                                               heddle_algorithm_t **algorithm);

/** New collectives, and teams made from now on, do not use it any more. Requests that do go on, and
 *  its functions may be called until they are finalized and the teams destroyed. The handle is
 *  gone. At all endpoints alike, and under the same rules as registering. A team or context that
 *  ends unregisters its algorithms itself. */
ucc_status_t heddle_algorithm_unregister(heddle_algorithm_t *algorithm);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
