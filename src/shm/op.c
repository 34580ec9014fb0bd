/* op.c: what all families share: launching, stepping, lane checks, ending.
 *
 * An operation goes QUEUED -> (FILLING) -> WAITING -> (ENGINE) -> over, or through CANCEL when it
 * fails while peers may be working on its buffers. Its step is called by one thread at a time: the
 * poster until it hands the task to its context, then the holder of the context's lock.
 */
#include "shm/outer.h"
#include "shm/phases.h"

#include "threads/callback.h"
#include "threads/trace.h"

/* Now and then a waiting operation looks at one more lane: a peer that called something else for
 * the same number would otherwise be waited for in vain (two leaves that believe in different
 * roots). Not at every step: most operations end after a few, and each lane is a cache miss. */
static ucc_status_t watch(hd_op_t *op) {
    if (++op->task.fruitless % HD_WATCH_EVERY != 0) {
        return UCC_OK;
    }
    /* not by hd_op_lane: this is not the lane that the operation waits for */
    uint32_t i = op->watch;
    const hd_lane_t *lane = hd_board_lane(op->place.board, i, op->place.k);
    op->watch = i + 1 < op->place.n ? i + 1 : 0;
    bool odd = hd_lane_is_there(lane, op->place.k) && lane->signature != op->call.signature;
    return odd ? hd_op_mismatch(op, i) : hd_op_watch_leavers(op);
}

/* Several threads post at this endpoint. Apart, so that who posts alone does not pay for it. */
static __attribute__((noinline)) void consume_locked(hd_op_t *op) {
    hd_member_t *member = op->place.member;
    hd_lock(&member->lock);
    hd_board_consume(op->place.board, member, op->place.k, op->saw_all);
    hd_checked(hd_board_check(op->place.board, op->place.me));
    hd_unlock(&member->lock);
}

/* The number is over for me: frees my window, lets the next queued operation be tried. */
static void end(hd_op_t *op) {
    if (op->numbered) {
        if (op->place.locked) {
            consume_locked(op);
        } else {
            hd_board_consume(op->place.board, op->place.member, op->place.k, op->saw_all);
            hd_checked(hd_board_check(op->place.board, op->place.me));
        }
        hd_bell_ring(&op->group->home.bell); /* peers may wait for the floor */
    }
    if (op->leave) {
        op->leave(op);
    }
}

void hd_op_leave(hd_op_t *op) {
    end(op);
    if (op->leave) { /* the board is somebody else's now */
        op->place.board = NULL;
    }
}

static ucc_status_t cancel(hd_op_t *op) {
    if (op->call.one_sided) {
        return hd_put_cancel(op, op->why);
    }
    return op->outer ? hd_outer_cancel(op, op->why) : hd_engine_cancel(op, op->why);
}

static ucc_status_t fail(hd_op_t *op, ucc_status_t why) {
    if (op->exposed) {
        op->state = HD_OP_CANCEL;
        op->why = why;
        return cancel(op);
    }
    return why;
}

/* May this operation end alone, leaving peers able to finish theirs? */
static bool ends_alone(hd_op_t *op) {
    return op->state == HD_OP_WAITING && !op->exposed && hd_arrive_help(op) &&
           !op->call.global_errors;
}

static ucc_status_t timed_out(hd_op_t *op) {
    hd_op_log_timeout(op);
    if (!ends_alone(op)) {
        hd_group_poison(op->group, UCC_ERR_TIMED_OUT);
    }
    return fail(op, UCC_ERR_TIMED_OUT);
}

static ucc_status_t advance(hd_op_t *op) {
    if (op->state == HD_OP_CANCEL) {
        return cancel(op);
    }
    ucc_status_t status = op->wait(op);
    if (status == UCC_INPROGRESS) {
        status = hd_group_poisoned(op->group);
        if (status == UCC_OK) {
            status = watch(op);
        } else {
            hd_group_say_inherited(op->group);
        }
        if (status == UCC_OK && op->task.deadline && hd_ticks() > op->task.deadline) {
            return timed_out(op);
        }
        return status == UCC_OK ? UCC_INPROGRESS : fail(op, status);
    }
    if (status < 0) {
        if (op->call.global_errors) {
            hd_group_poison(op->group, status);
        }
        return fail(op, status);
    }
    return status;
}

static void trace_step(const hd_op_t *op, hd_op_state_t before, ucc_status_t status) {
    if (status != UCC_INPROGRESS) {
        hd_trace_done(op, status);
    } else if (before == HD_OP_WAITING && op->state == HD_OP_ENGINE) {
        hd_trace_seen(op);
    }
}

ucc_status_t hd_op_step(hd_task_t *task) {
    hd_op_t *op = (hd_op_t *)task;
    hd_op_state_t before = op->state;
    hd_assert(before == HD_OP_EARLY || before == HD_OP_WAITING || before == HD_OP_ENGINE ||
              before == HD_OP_CANCEL);
    task->awaited = NULL;
    task->n_along = 0;
    ucc_status_t status = advance(op);
    if (status != UCC_INPROGRESS) {
        if (op->finish) {
            status = op->finish(op, status);
        }
        if (status != UCC_INPROGRESS) {
            end(op);
        }
    }
    if (hd_trace_is_on()) {
        trace_step(op, before, status);
    }
    return status;
}

/* --- operations that call user's code --------------------------------------------------------- */

/* As stepped by its context: posts call hd_op_step or launch it. */
static ucc_status_t step_listed(hd_task_t *task) {
    task->listed = true;
    ucc_status_t status = hd_op_step(task);
    task->listed = false;
    return status;
}

ucc_status_t hd_op_calls_user(hd_op_t *op) {
    op->task.step = step_listed;
    return UCC_OK;
}

static ucc_status_t step_abandoned(hd_task_t *task) {
    hd_op_t *op = (hd_op_t *)task;
    end(op);
    if (hd_trace_is_on()) {
        hd_trace_done(op, UCC_ERR_NO_MESSAGE);
    }
    return UCC_ERR_NO_MESSAGE;
}

void hd_op_abandon(hd_task_t *task) {
    hd_op_t *op = (hd_op_t *)task;
    hd_group_poison(op->group, UCC_ERR_NO_MESSAGE); /* it may not have published yet */
    task->step = step_abandoned;
}

static ucc_status_t wait_for_nothing(hd_op_t *op) {
    return hd_group_poisoned(op->group);
}

void hd_op_disown(hd_op_t *op) {
    if (op->exposed) {
        op->state = HD_OP_CANCEL;
        op->why = hd_group_poisoned(op->group);
    } else {
        op->wait = wait_for_nothing;
    }
}

static __attribute__((noinline, cold)) void trace_published(const hd_op_t *op) {
    hd_text_t text = {0};
    if (!hd_trace_records()) {
        return;
    }
    hd_phases_t phases = hd_op_phases(op, &op->plan);
    hd_phases_print(&phases, &text);
    hd_trace_published(op, hd_trace_keep(text.line), op->place.k);
}

/* All that is set anew at each post. */
static void reset(hd_op_t *op) {
    op->lane = hd_board_lane(op->place.board, op->place.me, op->place.k);
    op->exchange = &op->place.board->exchange[op->place.k & op->place.board->mask];
    op->cursor = 0;
    op->finished = 0;
    op->own_finished = false;
    op->watch = op->place.me + 1 < op->place.n ? op->place.me + 1 : 0;
    op->arriving = op->saw_all = op->any_direct = op->exposed = false;
    op->arrival = 0;
    op->arrive_level = 0;
    op->task.fruitless = 0;
    op->state = HD_OP_WAITING;
    op->task.step = hd_op_step;
    hd_assert(op->place.n == op->place.board->n && op->place.me < op->place.n);
}

ucc_status_t hd_op_launch(hd_op_t *op) {
    reset(op);
    hd_checked(hd_board_check_slot(op->place.board, op->place.k));
    ucc_status_t status = op->prepare ? op->prepare(op) : UCC_OK;
    if (status == UCC_OK) {
        status = op->start(op);
    }
    if (status < 0) { /* could not publish: the others must not wait for me */
        hd_group_poison(op->group, status);
        op->wait = NULL;
        end(op);
        return status;
    }
    if (hd_trace_is_on()) {
        trace_published(op);
    }
    return hd_op_step(&op->task);
}

void hd_op_resume(hd_op_t *op, ucc_status_t (*wait)(hd_op_t *op)) {
    hd_assert(op->plan.express && !op->prepare);
    reset(op);
    op->wait = wait;
    if (hd_trace_is_on()) { /* it was not when the lane went out */
        trace_published(op);
    }
}

ucc_status_t hd_op_fail_unlaunched(hd_op_t *op, ucc_status_t why) {
    if (op->drop) {
        op->drop(op);
    }
    if (!op->call.one_sided) {
        return why;
    }
    op->state = HD_OP_CANCEL;
    op->why = why;
    op->numbered = false;   /* it has no part in any exchange */
    op->place.board = NULL; /* it may be that of the request's last use */
    op->place.k = 0;
    op->leave = NULL;
    op->task.step = hd_op_step;
    return cancel(op);
}
