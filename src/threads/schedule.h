/* schedule.h: work that has several stages: which waits for which, and who drives them.
 *
 * A STAGE is one step of an algorithm: {start, step, cancel} of its class, and a handler per event.
 * A SCHEDULE is the stages of one endpoint's part of a collective, and a stage itself, so schedules
 * nest. EVENTS is what a stage tells others by: whoever subscribed has its handler called. Plans of
 * several stages are schedules; <heddle/schedule.h> is the public face of the same structures: its
 * ucc_coll_task_t is a hd_stage, seen from outside (api/schedule.c holds the two layouts together).
 *
 * A stage, per run of its schedule:
 *
 *     NOT_READY --all whose COMPLETED it subscribed to have completed,--> INPROGRESS
 *     --hd_stage_end--> COMPLETED
 *         |       or its own handler says so
 *                 ^
 *         +---- the schedule is canceled, or it ends before its turn
 *         -----------------------------------+
 *
 * A schedule:
 *
 *     IDLE --start--> RUNNING --all stages are over--> ENDING --> IDLE, with a result
 *                      ^  |                             ^  |
 *                      |  +-- hd_schedule_cancel, or ---+  |   (through CANCELING, until those
 *                         stages have
 *                      |      a stage has failed           |    ended that were under way)
 *                      +------ started by a listener ------+
 *
 * Who drives it. A schedule with a runner is driven by whoever progresses that context: its
 * `carrier` is a task of the runner, whose step says, under the context's lock, whether there is
 * anything to do. If so, the task is taken off the list like one that is over, and its completion
 * callback plays a ROUND, outside every lock: handlers may call anything, progress and waits
 * included. Then the carrier is pushed again. A schedule without a runner is driven by
 * hd_schedule_progress alone. Either way one thread at a time is inside (`inside`), and a handler
 * that comes back to its own schedule finds it taken.
 *
 * Who may call. A schedule's stages belong to whoever is inside it, or, while it is idle, to its
 * owner. From any other thread, at any time while it runs: hd_schedule_cancel; hd_stage_end and
 * hd_events_raise on one of its stages, and events that its stages listen to: what they bring is
 * kept with the stage, and taken up by the schedule's next round. hd_events_subscribe and
 * _unsubscribe may be called by anybody.
 *
 * Lifetimes. The result is published by the last access to a schedule; then its memory is its
 * owner's again. A stage may be destroyed by any handler, its own and those that its events call
 * included. A schedule that runs may not.
 */
#ifndef HD_THREADS_SCHEDULE_H
#define HD_THREADS_SCHEDULE_H

#include "threads/stall.h"
#include "threads/threads.h"

typedef enum hd_stage_event {
    HD_ON_PROGRESS,
    HD_ON_COMPLETED,
    HD_ON_FRAGMENT_COMPLETED,
    HD_ON_CANCELED, /* raised instead of COMPLETED by what was canceled or has failed */
    HD_ON_LAST
} hd_stage_event_t;

typedef enum hd_stage_state {
    HD_STAGE_NOT_READY,
    HD_STAGE_INPROGRESS,
    HD_STAGE_COMPLETED
} hd_stage_state_t;

typedef struct hd_stage hd_stage_t;
typedef struct hd_schedule hd_schedule_t;
typedef void (*hd_stage_handler_fn)(hd_stage_t *stage);

/* --- events ----------------------------------------------------------------------------------- */

enum { HD_OWN_LISTENERS = 4 }; /* room for so many needs no heap */

typedef struct hd_listener {
    hd_stage_t *stage; /* NULL: unsubscribed */
    uint32_t event : 2;
    uint32_t told : 30; /* COMPLETED: the stage's epoch when it was last told */
    uint32_t serial;    /* of the subscription: events raised before it are not for this listener */
} hd_listener_t;

typedef struct hd_walk hd_walk_t;

typedef struct hd_events {
    hd_listener_t *listener; /* `own`, or from the heap; in the order of subscription */
    uint32_t n, room;
    uint32_t serial;   /* subscriptions ever */
    hd_lock_t lock;    /* guards all of it; not held while a handler runs */
    hd_walk_t *walk;   /* those who are raising an event just now */
    hd_stage_t *stage; /* whose events these are; NULL: of nothing in particular */
    hd_listener_t own[HD_OWN_LISTENERS];
} hd_events_t;

void hd_events_init(hd_events_t *events, hd_stage_t *stage);
/* False: they are zeros that nobody has initialised, or have moved since. */
bool hd_events_are_in_place(hd_events_t *events);
/* Nobody is told any more, also by those who are just raising one (on the calling thread). in_use,
 * or while one is raised: nor does anybody wait for it any more. Else listeners are not touched: at
 * the end of everything they may have been freed before. */
void hd_events_destroy(hd_events_t *events, bool in_use);
/* From the next event on. A stage subscribed twice hears twice. UCC_ERR_NO_MEMORY. */
ucc_status_t hd_events_subscribe(hd_events_t *events, hd_stage_event_t event, hd_stage_t *stage);
/* The oldest such subscription ends; UCC_ERR_NOT_FOUND. */
ucc_status_t hd_events_unsubscribe(hd_events_t *events, hd_stage_event_t event, hd_stage_t *stage);
/* Of a stage's events, COMPLETED and CANCELED end the stage. UCC_ERR_INVALID_PARAM (logged): it is
 * over. */
ucc_status_t hd_events_raise(hd_events_t *events, hd_stage_event_t event);

/* --- stages ----------------------------------------------------------------------------------- */

/* What a kind of stage does. All are called by the thread inside the schedule. */
typedef struct hd_stage_class {
    void (*start)(hd_stage_t *stage); /* it is INPROGRESS now; may end it */
    void (*step)(hd_stage_t *stage);  /* INPROGRESS: what can be done now; ends it */
    /* INPROGRESS, and not wanted any more: it may end with `why` now, or later by its steps. */
    void (*cancel)(hd_stage_t *stage, ucc_status_t why);
    /* Is there any use in a step? Under the context's lock: quick, and no call of user's code.
     * NULL: yes. */
    bool (*is_due)(hd_stage_t *stage);
    /* INPROGRESS: it can't be over yet, whoever says so: its steps will end it. Quick, as is_due.
     * NULL: it can. */
    bool (*is_busy)(hd_stage_t *stage);
    /* A run begins in which it will be started, or it is over there: what it needs has to stay till
     * then. NULL: it needs nothing. By whoever begins the run, too. */
    void (*hold)(hd_stage_t *stage, bool holds);
    bool
        is_schedule; /* the stage is the first member of a hd_schedule: schedule.c has that class */
} hd_stage_class_t;

struct hd_stage {
    hd_events_t events;     /* must stay first; so must the next three, which users see */
    hd_stage_state_t state; /* users' handlers write it, too */
    hd_stage_handler_fn handler[HD_ON_LAST];
    ucc_status_t status;           /* how it ended */
    bool started, over;            /* what counts in this run */
    bool asked;                    /* its handler for COMPLETED was called in this run */
    bool held;                     /* class->hold was called */
    _Atomic uint32_t met;          /* so many of those that it awaits have completed in this run */
    const hd_stage_class_t *class; /* NULL: its handlers are all */
    hd_schedule_t *schedule;
    hd_stage_t *next, **at;  /* in the schedule's list */
    _Atomic uint32_t awaits; /* subscriptions to COMPLETED */
    _Atomic uint32_t epoch;  /* changes with each run: who completes twice in one is met once */
    /* what came from outside, for the next round: */
    _Atomic int32_t letter; /* 0: nothing; HD_LETTER_OK or an error: it is to end so */
    _Atomic uint32_t fragments;
    _Atomic uint32_t heard[HD_ON_LAST];
    _Atomic uint32_t
        heard_again; /* of COMPLETED: from those that had completed before in this run */
};

enum { HD_LETTER_OK = 1 };

/* Of what was canceled: heddle.h's HEDDLE_ERR_CANCELED. */
#define HD_STAGE_CANCELED ((ucc_status_t)-41)

void hd_stage_init(hd_stage_t *stage, const hd_stage_class_t *class);
/* False: it was never initialised, or has moved since. */
static inline bool hd_stage_is_in_place(const hd_stage_t *stage) {
    return stage->events.stage == stage;
}
/* Takes it out of its schedule. Its own subscriptions elsewhere must have ended.
 * UCC_ERR_INVALID_PARAM (logged): it is a schedule that runs, or another thread is to drive the one
 * that it is part of. */
ucc_status_t hd_stage_destroy(hd_stage_t *stage);
/* It is over, or will be when it is not busy any more: UCC_OK, or why it failed, which cancels its
 * schedule. Any thread; once per run: else UCC_ERR_INVALID_PARAM, logged. */
ucc_status_t hd_stage_end(hd_stage_t *stage, ucc_status_t status);
/* The schedule at the top of those that it is part of; NULL: it is in none. */
hd_schedule_t *hd_stage_root(hd_stage_t *stage);

/* --- schedules -------------------------------------------------------------------------------- */

typedef enum hd_schedule_phase {
    HD_SCHEDULE_IDLE,
    HD_SCHEDULE_RUNNING,
    HD_SCHEDULE_CANCELING,
    HD_SCHEDULE_ENDING
} hd_schedule_phase_t;

struct hd_schedule {
    hd_stage_t super; /* must stay first; so must the next one, which users see */
    int n_completed;
    hd_schedule_phase_t phase;
    uint32_t n_stages;
    uint32_t changes;           /* stages started and ended ever: whether a round did anything */
    hd_stage_t *first, **last;  /* the stages */
    hd_stage_t *next, *current; /* of the walk over them that is under way */
    ucc_status_t why;           /* UCC_OK, or the first failure of this run */
    bool again;                 /* ENDING: a listener has started it anew */
    bool aborts;                /* canceling fails the teams of stages that would wait on */
    bool aborted;               /* it has failed the one that the carrier is at home in */
    uint8_t depth;      /* of algorithms' runs that this run is inside of, its own included */
    uint64_t yield_max; /* ticks between two yields of rounds in vain, at most */
    uint64_t patience;  /* ticks without a change that are talked about; 0: never */
    hd_stall_t stall;
    hd_stall_t own_wait; /* of a handler of this round for the schedule's end */
    hd_idle_t idle;
    hd_runner_t *runner; /* NULL: see above */
    hd_task_t carrier;
    const char *name; /* in messages; NULL: it has none */
    /* before and after each round, and whenever its context looks whether one is due: an error
       cancels it; NULL: nobody watches. Called under the context's lock, too: quick, no user's
       code. */
    ucc_status_t (*watch)(void *arg);
    void (*done)(void *arg, ucc_status_t result); /* after the result was published; or NULL */
    void *arg;
    _Atomic(const void *) inside; /* the thread that plays a round; NULL: none */
    _Atomic int32_t asked;        /* 0, or the status to be canceled with */
    /* UCC_OPERATION_INITIALIZED, UCC_INPROGRESS, or how the last run ended: for those outside */
    _Atomic int32_t result;
};

void hd_schedule_init(hd_schedule_t *schedule);
/* As hd_stage_is_in_place. */
bool hd_schedule_is_in_place(const hd_schedule_t *schedule);
/* The calling thread is inside so many runs of algorithms, one of which made the next. To be put
 * back. */
extern _Thread_local __attribute__((tls_model("initial-exec"))) uint8_t hd_schedule_depth;
/* Idle: UCC_OK. Its stages are their owners' again. */
ucc_status_t hd_schedule_destroy(hd_schedule_t *schedule);
/* While it is idle, or by one of its handlers. */
ucc_status_t hd_schedule_add(hd_schedule_t *schedule, hd_stage_t *stage);
/* While it is idle: whoever progresses this context will drive it. home: of the group that it works
 * in, or NULL. */
void hd_schedule_attach(hd_schedule_t *schedule, hd_runner_t *runner, hd_home_t *home);
/* All stages are NOT_READY again, and the first are started by the first round. By one of its own
 * listeners to COMPLETED or CANCELED: after they have all been told. UCC_ERR_INVALID_PARAM
 * (logged): it runs. */
ucc_status_t hd_schedule_start(hd_schedule_t *schedule);
/* One round, if it has no runner and nobody is inside; else a look. Its result. */
ucc_status_t hd_schedule_progress(hd_schedule_t *schedule);
static inline ucc_status_t hd_schedule_result(const hd_schedule_t *schedule) {
    /* acquire: pairs with the release that publishes it */
    return (ucc_status_t)atomic_load_explicit(&schedule->result, memory_order_acquire);
}
/* Any thread. Its next round cancels it: `why` becomes its result unless it has failed before.
 * False: it does not run. */
bool hd_schedule_cancel(hd_schedule_t *schedule, ucc_status_t why);
/* Of a carrier in its context's list: as hd_look_after_fn. */
uint64_t hd_schedule_look_after(hd_task_t *carrier, uint64_t now);

#endif
