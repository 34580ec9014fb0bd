/* queue.c: a board gives numbers to its members' operations, and keeps those that may not be
 * published yet.
 *
 * A post may not block, and there is no limit to how many a member makes. What the board's flow
 * control (or a team that is not complete) holds up waits in the member's queue, in the order of
 * its numbers. Only the head of the queue is in its context's list: its step tries to launch it,
 * and puts its successor into the list when it leaves the queue. So a long queue costs its contexts
 * one look, whatever its length.
 *
 * Who may call: enter, by whoever posts for this member, one thread at a time; the step, by the
 * holder of the context's lock. The queue is guarded by the member's lock where several threads use
 * the endpoint.
 */
#include "shm/outer.h"

#include "threads/trace.h"

/* Under the member's lock: the head of the queue, if it may be published now. */
static bool head_may_go(hd_op_t *op) {
    return hd_group_is_complete(op->group) &&
           hd_board_may_publish(op->place.board, op->place.member, op->place.k);
}

/* Under the member's lock: the earliest deadline in the queue. */
static void note_deadline(hd_member_t *member, uint64_t deadline) {
    if (deadline && (!member->queue_deadline || deadline < member->queue_deadline)) {
        member->queue_deadline = deadline;
    }
}

/* Under the member's lock: takes the head off the queue; returns the next. */
static hd_op_t *dequeue(hd_member_t *member) {
    hd_op_t *op = member->queue, *next = op->queue_next;
    hd_assert(op->task.queued && op->place.member == member);
    hd_assert(next || member->queue_tail == &op->queue_next);
    hd_assert(!next || next->place.k == op->place.k + 1);
    member->queue = next;
    if (!next) {
        member->queue_tail = &member->queue;
    }
    if (op->task.deadline && op->task.deadline == member->queue_deadline) {
        member->queue_deadline = 0;
        for (hd_op_t *o = next; o; o = o->queue_next) {
            note_deadline(member, o->task.deadline);
        }
    }
    return next;
}

/* Under the member's lock: one in the queue whose deadline has passed, or NULL. */
static const hd_op_t *find_late(const hd_member_t *member) {
    uint64_t now = member->queue_deadline ? hd_ticks() : 0;
    const hd_op_t *op = now > member->queue_deadline ? member->queue : NULL;
    while (op && !(op->task.deadline && now > op->task.deadline)) {
        op = op->queue_next;
    }
    return op;
}

void hd_op_time_out(const hd_op_t *op) {
    hd_op_log_timeout(op);
    hd_group_poison(op->group, UCC_ERR_TIMED_OUT);
}

/* The head has left the queue. */
static ucc_status_t go(hd_op_t *op, ucc_status_t failure) {
    hd_task_t *task = &op->task;
    ucc_status_t status;
    task->queued = false;
    op->apart = op->calls_user;
    if (failure != UCC_OK) {
        hd_group_say_inherited(op->group);
        status = hd_op_fail_unlaunched(op, failure);
    } else {
        task->listed = true; /* see callback.h */
        status = hd_op_launch(op);
        task->listed = false;
    }
    if (status < 0 && hd_trace_is_on()) {
        hd_trace_done(op, status);
    }
    return status;
}

ucc_status_t hd_op_step_queued(hd_op_t *op) {
    hd_task_t *task = &op->task;
    hd_member_t *member = op->place.member;
    ucc_status_t failure = hd_group_poisoned(op->group);
    if (op->place.locked) {
        hd_lock(&member->lock);
    }
    bool leaves = failure != UCC_OK || head_may_go(op);
    /* only the head is stepped: it watches the deadlines of all that wait behind it, while it must
     * wait */
    const hd_op_t *late = leaves ? NULL : find_late(member);
    hd_assert(member->queue == op);
    hd_op_t *next = leaves ? dequeue(member) : NULL;
    if (op->place.locked) {
        hd_unlock(&member->lock);
    }
    if (late) { /* nobody but the head's step takes anything off the queue: it is still there */
        hd_op_time_out(late);
    }
    if (!leaves && op->outer && !hd_group_is_complete(op->group)) { /* it becomes that by pumping */
        task->impatient = op->outer->pump(op);
    }
    if (!leaves) { /* the team has failed in the first case: so does the head, now */
        return late || hd_op_watch_leavers(op) != UCC_OK ? hd_op_step_queued(op) : UCC_INPROGRESS;
    }
    if (next) {
        hd_runner_push(hd_task_runner(&next->task), &next->task);
    }
    return go(op, failure);
}

hd_turn_t hd_board_enter(hd_op_t *op, hd_board_t *board) {
    hd_member_t *member = board->member[op->place.me];
    op->place.board = board;
    op->place.member = member;
    op->numbered = true;
    op->leave = NULL;
    op->queue_next = NULL;
    if (op->place.locked) {
        hd_lock(&member->lock);
    }
    op->place.k = ++member->taken;
    hd_turn_t turn = member->queue ? HD_TURN_LATER : HD_TURN_NEXT;
    if (turn == HD_TURN_NEXT && head_may_go(op)) {
        turn = HD_TURN_NOW;
    } else {
        note_deadline(member, op->task.deadline);
        op->phase = HD_PHASE_MATCH;
        op->task.queued = op->apart = true;
        *member->queue_tail = op;
        member->queue_tail = &op->queue_next;
    }
    hd_checked(hd_board_check(board, op->place.me));
    if (op->place.locked) {
        hd_unlock(&member->lock);
    }
    return turn;
}
