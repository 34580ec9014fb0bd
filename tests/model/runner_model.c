/* runner_model.c: a context's task list, src/threads/list.c and runner.c: push, take in, step,
 * complete.
 *
 * Threads post tasks (hd_runner_push), post them again once they see them completed, as persistent
 * requests may be, and call hd_runner_progress, of which only the holder of the try-lock does
 * anything. A task's step finishes it or does not, once.
 *
 * Links are modelled as they are in memory: a task has one `next`, whichever list it is on, and the
 * active list's tail is the address of the last link. A thread that finds nothing to take in or to
 * step does not call progress: so a task that fell out of all lists shows as a wait for ever.
 *
 * Properties: a task is stepped only between its post and its end, by one thread at a time, and is
 * completed once per post; tasks that one thread posted are stepped in that order; the active list
 * is well formed whenever the lock is released; no task is lost.
 */
#include "explorer.h"

#include <string.h>

enum { MAX_THREADS = 3, MAX_TASKS = 3 };

/* planted bugs */
enum {
    NO_BUG,
    NO_LOCK,
    PUSH_BY_STORE,
    TAKE_BY_STORE,
    TAIL_KEPT,
    NO_REVERSE,
    NEXT_AFTER_COMPLETE,
    COMPLETE_IN_STEP
};

enum { IDLE, PUSH, PUSH_STORE, TRY, LOOK, TAKE, TAKE_STORE, APPEND, STEP, LEAVE, NEXT, STATUS };

enum { INITIALIZED, IN_PROGRESS, COMPLETED }; /* req.status */

typedef struct task {
    uint8_t next; /* a task's number + 1, 0: none */
    uint8_t status, posts, stepped, finished, order;
} task_t;

/* A link is named by 0 for the head of the active list, i + 1 for task i's next. */
typedef struct thread {
    uint8_t at;
    uint8_t task;            /* being pushed, number + 1 */
    uint8_t seen;            /* `head` in push, `stack` in hd_runner_take_in */
    uint8_t link;            /* `at` in step_all */
    uint8_t done, done_tail; /* the finished list, and its last task */
    uint8_t rest;            /* `next` in hd_complete_all */
    uint8_t order;           /* posts so far */
} thread_t;

typedef struct state {
    uint8_t lock, incoming, active, tail;
    task_t task[MAX_TASKS];
    thread_t t[MAX_THREADS];
} state_t;

typedef struct variant {
    uint8_t threads, tasks;
    uint8_t owner[MAX_TASKS]; /* who posts */
    uint8_t posts[MAX_TASKS]; /* how often */
} variant_t;

enum { TWO, THREE, AGAIN };

static const char *const variant_names[] = {"two", "three", "again", NULL};
static const variant_t variants[] = {
    [TWO] = {2, 3, {0, 0, 1}, {1, 1, 1}},
    [THREE] = {3, 3, {0, 1, 1}, {1, 1, 1}},
    [AGAIN] = {2, 3, {0, 0, 1}, {2, 2, 2}},
};

static variant_t cfg;
static uint32_t bug;

static void start(void *state, uint32_t variant, uint32_t which) {
    memset(state, 0, sizeof(state_t));
    cfg = variants[variant];
    bug = which;
}

static uint8_t *link_at(state_t *s, uint8_t link) {
    return link ? &s->task[link - 1].next : &s->active;
}

/* --- posting ---------------------------------------------------------------------------------- */

static bool begin_post(state_t *s, thread_t *t, uint8_t me, uint8_t i) {
    if (i >= cfg.tasks || cfg.owner[i] != me) {
        return false;
    }
    task_t *task = &s->task[i];
    if (task->posts == cfg.posts[i] || task->status == IN_PROGRESS) {
        return false;
    }
    task->posts++;
    task->status = IN_PROGRESS;
    task->stepped = task->finished = 0;
    task->order = ++t->order;
    t->seen = s->incoming;
    t->task = (uint8_t)(i + 1);
    t->at = PUSH;
    model_say("hd_runner_push: task %u, the stack begins with %u", t->task, t->seen);
    return true;
}

static bool step_push(state_t *s, thread_t *t) {
    if (t->at == PUSH) {
        s->task[t->task - 1].next = t->seen;
        t->at = PUSH_STORE;
        model_say("hd_runner_push: task %u links to %u", t->task, t->seen);
        return true;
    }
    if (s->incoming != t->seen && bug != PUSH_BY_STORE) {
        t->seen = s->incoming;
        t->at = PUSH;
        model_say("hd_runner_push: the stack has changed to %u", t->seen);
        return true;
    }
    s->incoming = t->task;
    model_say("hd_runner_push: task %u is in", t->task);
    t->task = t->seen = 0;
    t->at = IDLE;
    return true;
}

/* --- progress --------------------------------------------------------------------------------- */

static void append(state_t *s, thread_t *t) {
    uint8_t queue = 0;
    for (uint8_t stack = t->seen, n = 0; stack && n < MAX_TASKS; n++) {
        uint8_t next = s->task[stack - 1].next;
        if (bug == NO_REVERSE) {
            queue = t->seen;
            break;
        }
        s->task[stack - 1].next = queue;
        queue = stack;
        stack = next;
    }
    *link_at(s, s->tail) = queue;
    for (uint8_t n = 0; *link_at(s, s->tail); n++) {
        if (n > MAX_TASKS) {
            model_violation("the active list goes round in a circle");
            return;
        }
        s->tail = *link_at(s, s->tail);
    }
    t->seen = 0;
    t->link = 0;
    model_say("hd_runner_take_in: the active list begins with %u", s->active);
}

static bool step_take_in(state_t *s, thread_t *t) {
    switch (t->at) {
    case TRY:
        if (s->lock && bug != NO_LOCK) {
            model_say("hd_runner_progress: somebody is inside");
            t->at = IDLE;
            return true;
        }
        s->lock = 1;
        model_say("hd_runner_progress: inside");
        t->at = LOOK;
        return true;
    case LOOK:
        model_say("hd_runner_take_in: the stack begins with %u", s->incoming);
        t->seen = bug == TAKE_BY_STORE ? s->incoming : 0;
        t->link = 0;
        t->at = !s->incoming ? STEP : bug == TAKE_BY_STORE ? TAKE_STORE : TAKE;
        return true;
    case TAKE:
    case TAKE_STORE:
        t->seen = t->at == TAKE ? s->incoming : t->seen;
        s->incoming = 0;
        model_say("hd_runner_take_in: takes the stack from %u on", t->seen);
        t->at = APPEND;
        return true;
    default: /* APPEND */
        append(s, t);
        t->at = STEP;
        return true;
    }
}

static void complete(task_t *task) {
    if (task->status != IN_PROGRESS) {
        model_violation("a task is completed twice");
    }
    if (!task->finished) {
        model_violation("a task is completed that has not finished");
    }
    task->status = COMPLETED;
}

/* Oldest first, among those that a thread posted. */
static void check_order(const state_t *s, uint8_t i) {
    for (uint8_t other = 0; other < cfg.tasks; other++) {
        const task_t *o = &s->task[other];
        if (cfg.owner[other] == cfg.owner[i] && o->status == IN_PROGRESS && !o->finished &&
            o->order < s->task[i].order && o->stepped < s->task[i].stepped) {
            model_violation("a task is stepped before an older one of the same thread");
        }
    }
}

/* One round of step_all's loop. choice 1: the task does not finish now. */
static bool step_all(state_t *s, thread_t *t, uint32_t choice) {
    uint8_t *link = link_at(s, t->link), i = *link;
    if (!i) {
        model_say("step_all: the end of the list");
        t->at = LEAVE;
        return choice == 0;
    }
    task_t *task = &s->task[i - 1];
    if (task->status != IN_PROGRESS || task->finished) {
        model_violation("a task is stepped before its post or after its end");
    }
    if (choice == 1) {
        if (task->stepped) {
            return false;
        }
        task->stepped = 1;
        check_order(s, (uint8_t)(i - 1));
        model_say("step_all: task %u waits on", i);
        t->link = i;
        return true;
    }
    task->finished = 1;
    model_say("step_all: task %u has finished", i);
    if (bug == COMPLETE_IN_STEP) {
        complete(task);
    }
    *link = task->next;
    if (!*link && bug != TAIL_KEPT) {
        s->tail = t->link;
    }
    task->next = 0;
    if (t->done) {
        s->task[t->done_tail - 1].next = i;
    } else {
        t->done = i;
    }
    t->done_tail = i;
    return true;
}

static void check_active(state_t *s) {
    uint8_t link = 0;
    for (uint8_t n = 0; *link_at(s, link); n++) {
        if (n > MAX_TASKS) {
            model_violation("the active list goes round in a circle");
            return;
        }
        link = *link_at(s, link);
    }
    if (link != s->tail) {
        model_violation("the active list's tail is not its end");
    }
}

static bool step_complete(state_t *s, thread_t *t) {
    task_t *task = t->done ? &s->task[t->done - 1] : NULL;
    switch (t->at) {
    case LEAVE:
        check_active(s);
        s->lock = 0;
        t->link = t->done_tail = 0;
        model_say("hd_runner_progress: leaves");
        t->at = !t->done ? IDLE : bug == NEXT_AFTER_COMPLETE ? STATUS : NEXT;
        return true;
    case NEXT:
        t->rest = task->next;
        model_say("hd_complete_all: after task %u comes %u", t->done, t->rest);
        t->at = STATUS;
        if (bug == NEXT_AFTER_COMPLETE) {
            t->done = t->rest;
            t->at = t->done ? STATUS : IDLE;
            t->rest = 0;
        }
        return true;
    default: /* STATUS */
        if (bug != COMPLETE_IN_STEP) {
            complete(task);
        }
        model_say("hd_task_complete: task %u", t->done);
        if (bug == NEXT_AFTER_COMPLETE) {
            t->at = NEXT;
            return true;
        }
        t->done = t->rest;
        t->rest = 0;
        t->at = t->done ? NEXT : IDLE;
        return true;
    }
}

/* choices 0, 1: the step in hand; from idle, 0 calls progress and 1 + i posts task i. */
static bool step(void *state, uint32_t actor, uint32_t choice) {
    state_t *s = state;
    thread_t *t = &s->t[actor];
    if (actor >= cfg.threads) {
        return false;
    }
    if (t->at == IDLE && choice > 0) {
        return begin_post(s, t, (uint8_t)actor, (uint8_t)(choice - 1));
    }
    if (t->at == STEP) {
        return choice < 2 && step_all(s, t, choice);
    }
    if (choice != 0) {
        return false;
    }
    switch (t->at) {
    case IDLE:
        t->at = TRY;
        model_say("calls hd_runner_progress");
        return !s->lock && (s->incoming || s->active);
    case PUSH:
    case PUSH_STORE:
        return step_push(s, t);
    case TRY:
    case LOOK:
    case TAKE:
    case TAKE_STORE:
    case APPEND:
        return step_take_in(s, t);
    default:
        return step_complete(s, t);
    }
}

static const char *end(const void *state) {
    const state_t *s = state;
    for (uint8_t i = 0; i < cfg.tasks; i++) {
        if (s->task[i].status != COMPLETED || s->task[i].posts != cfg.posts[i]) {
            return "a task is lost: it is on no list, and never completes";
        }
    }
    return NULL;
}

static const model_bug_t bugs[] = {
    {"none", 0, ""},
    {"no-lock", TWO, "progress goes on although somebody is inside"},
    {"push-by-store", TWO, "the stack's head is loaded and stored"},
    {"take-by-store", TWO, "the stack is loaded, then emptied"},
    {"tail-kept", TWO, "removing the last task leaves the tail where it was"},
    {"no-reverse", TWO, "tasks are appended newest first"},
    {"next-after-complete", AGAIN, "a finished task's link is read after its status is published"},
    {"complete-in-step", AGAIN, "the status is published before the task is off the list"},
    {NULL, 0, NULL},
};

static const model_t model = {
    .name = "runner",
    .bytes = sizeof(state_t),
    .actors = MAX_THREADS,
    .choices = 1 + MAX_TASKS,
    .variants = variant_names,
    .bugs = bugs,
    .start = start,
    .step = step,
    .end = end,
};

int main(int argc, char **argv) {
    return model_main(&model, argc, argv);
}
