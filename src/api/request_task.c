/* request_task.c: a request as a task of a schedule: posted when the task begins, over when the
 * request is.
 *
 * It makes the calls that a client would make. A request is progressed by its own context; where
 * that is not the one that drives the schedule, the task does it: whoever handed the schedule over
 * vouches for its requests' contexts, as with heddle_wait_all().
 */
#include "api/api.h"
#include "threads/schedule.h"

#include <heddle/schedule.h>
#include <string.h>

static heddle_request_task_t *task_of(hd_stage_t *stage) {
    return (heddle_request_task_t *)(void *)stage;
}

static hd_request_t *request_of(const heddle_request_task_t *task) {
    return (hd_request_t *)(void *)task->request;
}

static void finish(hd_stage_t *stage, ucc_status_t status) {
    heddle_request_task_t *task = task_of(stage);
    if (task->owned && task->request) {
        ucc_collective_finalize(task->request);
        task->request = NULL;
    }
    hd_stage_end(stage, status);
}

static void hold(hd_stage_t *stage, bool holds) {
    heddle_request_task_t *task = task_of(stage);
    if (task->held) {
        hd_team_hold(task->held, false);
    }
    task->held = holds && task->team && task->team->magic == HD_TEAM_MAGIC ? task->team : NULL;
    if (task->held) {
        hd_team_hold(task->held, true);
    }
}

static void start(hd_stage_t *stage) {
    heddle_request_task_t *task = task_of(stage);
    if (task->held != task->team) { /* a handler has chosen another one */
        hold(stage, true);
    }
    ucc_status_t status = UCC_OK;
    if (task->owned) {
        task->request = NULL;
        status = task->has_tag ? heddle_collective_init_tagged(&task->args, task->tag,
                                                               &task->request, task->team)
                               : ucc_collective_init(&task->args, &task->request, task->team);
    }
    if (status == UCC_OK) {
        status = ucc_collective_post(task->request);
    }
    if (status != UCC_OK) { /* over already, or never begun; what was wrong was logged */
        finish(stage, status);
    }
}

/* Its context is not progressed by those who drive the schedule. */
static bool is_elsewhere(hd_stage_t *stage, const hd_request_t *r) {
    return &r->op.task.context->runner != hd_stage_root(stage)->runner;
}

static void step(hd_stage_t *stage) {
    hd_request_t *r = request_of(task_of(stage));
    if (hd_task_status(&r->op.task) == UCC_INPROGRESS && is_elsewhere(stage, r)) {
        (void)hd_api_look_at(r->op.task.context); /* others wait while it is inside the schedule */
    }
    ucc_status_t status = hd_task_status(&r->op.task);
    if (status != UCC_INPROGRESS) {
        finish(stage, status);
    }
}

/* What was posted can't be taken back: the peers may be at work on it. Either it is waited for, or
 * its team fails. */
static void cancel(hd_stage_t *stage, ucc_status_t why) {
    hd_request_t *r = request_of(task_of(stage));
    hd_schedule_t *root = hd_stage_root(stage);
    if (!root->aborts || hd_task_status(&r->op.task) != UCC_INPROGRESS ||
        hd_group_poisoned(r->op.group) != UCC_OK) {
        return;
    }
    root->aborted |= &r->op.group->home == root->carrier.home;
    hd_group_poison(r->op.group, why);
}

static bool is_due(hd_stage_t *stage) {
    const hd_request_t *r = request_of(task_of(stage));
    return hd_task_status(&r->op.task) != UCC_INPROGRESS || is_elsewhere(stage, r);
}

/* Its buffers are at work, or the request is still to be finalized. */
static bool is_busy(hd_stage_t *stage) {
    const hd_request_t *r = request_of(task_of(stage));
    return r && (task_of(stage)->owned || hd_task_status(&r->op.task) == UCC_INPROGRESS);
}

static const hd_stage_class_t request_class = {.start = start,
                                               .step = step,
                                               .cancel = cancel,
                                               .is_due = is_due,
                                               .is_busy = is_busy,
                                               .hold = hold};

void hd_api_request_task_init(heddle_request_task_t *task) {
    memset(task, 0, sizeof(*task)); /* no assignment: the memory is written as a stage next */
    hd_stage_init((hd_stage_t *)&task->super, &request_class);
}
