/* op.c: the engine of all operations: launching, stepping from phase to phase, ending.
 *
 * An operation goes MATCH -> (COPY_IN) -> ARRIVE -> (LOCAL) -> (COPY_OUT) -> over; from each of
 * them it may fail, and it cancels if peers may be working on its buffers then. Its step,
 * hd_op_step, runs the current phase. What a phase does, it does by functions that were fixed
 * before the post (family.c, the operation's frame, its outer stage); this file goes on to
 * another one. The step is called by one thread at a time: the poster until it hands the task to
 * its context, then the holder of the context's lock.
 */
#include "shm/outer.h"
#include "shm/phases.h"

#include "threads/callback.h"
#include "threads/trace.h"

#include <stdarg.h>
#include <stdio.h>

ucc_status_t hd_op_refuse(const hd_op_t *op, ucc_status_t status, const char *format, ...) {
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    hd_error("%s at endpoint %u: %s", hd_op_type_name(op), op->team_ep, text);
    return status;
}

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
    op->phase = HD_PHASE_COPY_OUT;
    op->task.impatient = HD_UNANNOUNCED;
    op->apart = true;
    op->task.fruitless = 0;
    end(op);
    if (op->leave) { /* the board is somebody else's now */
        op->place.board = NULL;
    }
}

/* Is what is DIRECT in its exchange far.c's? */
static bool goes_far(const hd_op_t *op) {
    return op->plan.path == HD_PATH_FAR || (op->plan.path == HD_PATH_MIXED && op->group->apart);
}

static ucc_status_t cancel(hd_op_t *op) {
    if (op->call.one_sided) {
        return hd_put_cancel(op, op->why);
    }
    if (goes_far(op)) {
        return hd_far_cancel(op, op->why);
    }
    return op->outer ? hd_outer_cancel(op, op->why) : hd_engine_cancel(op, op->why);
}

/* From now on, steps close the exchange until nobody works on the operation's buffers any more. */
static void begin_cancel(hd_op_t *op, ucc_status_t why) {
    op->cancels = op->apart = true;
    op->task.awaited = NULL; /* the poster looks no more */
    op->why = why;
}

static __attribute__((noinline, cold)) ucc_status_t fail(hd_op_t *op, ucc_status_t why) {
    if (op->exposed) {
        begin_cancel(op, why);
        return cancel(op);
    }
    return why;
}

/* May this operation end alone, leaving peers able to finish theirs? */
static bool ends_alone(hd_op_t *op) {
    return op->phase == HD_PHASE_ARRIVE && !op->exposed && hd_arrive_help(op) &&
           !op->call.global_errors;
}

static ucc_status_t timed_out(hd_op_t *op) {
    hd_op_log_timeout(op);
    if (!ends_alone(op)) {
        hd_group_poison(op->group, UCC_ERR_TIMED_OUT);
    }
    return fail(op, UCC_ERR_TIMED_OUT);
}

/* Runs one step of the current phase, `does`, and if that does not end the operation, looks for
 * what ends it from outside: a group that has failed, a call that differs, its deadline. */
static inline __attribute__((always_inline)) ucc_status_t
advance(hd_op_t *op, ucc_status_t (*does)(hd_op_t *op)) {
    ucc_status_t status = does(op);
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

static void trace_step(const hd_op_t *op, uint8_t before, ucc_status_t status) {
    if (status != UCC_INPROGRESS) {
        hd_trace_done(op, status);
    } else if (before == HD_PHASE_ARRIVE && op->phase == HD_PHASE_LOCAL) {
        hd_trace_seen(op);
    }
}

/* The step has returned `status`; ends the operation if it is over. */
static inline ucc_status_t conclude(hd_op_t *op, uint8_t before, ucc_status_t status) {
    if (status != UCC_INPROGRESS) {
        if (op->frame && op->frame->finish) {
            status = op->frame->finish(op, status);
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

/* One step in ARRIVE or LOCAL. */
static inline ucc_status_t step_phase(hd_op_t *op) {
    uint8_t before = op->phase;
    hd_assert(before == HD_PHASE_ARRIVE || before == HD_PHASE_LOCAL);
    op->task.awaited = NULL;
    op->task.n_along = 0;
    return conclude(op, before, advance(op, op->wait));
}

/* --- steps that are more than the family's, or other ones ------------------------------------- */

/* Publishes an operation whose frame has done what comes before that; op->phase is COPY_IN. An
 * error: nobody has been shown anything. */
static ucc_status_t begin(hd_op_t *op) {
    op->task.impatient = false;
    op->phase = HD_PHASE_ARRIVE;
    ucc_status_t status = op->start(op);
    if (status < 0) {
        op->phase = HD_PHASE_COPY_IN; /* for the frame's `finish` */
        op->exposed = false;
        return status;
    }
    op->apart = op->calls_user;
    return op->wait(op);
}

static ucc_status_t copy_in(hd_op_t *op) {
    if (hd_group_poisoned(op->group) != UCC_OK) { /* advance fails the operation */
        return UCC_INPROGRESS;
    }
    ucc_status_t status = op->frame->copy_in(op);
    if (status == UCC_OK) {
        status = begin(op);
    }
    if (status < 0 && op->phase == HD_PHASE_COPY_IN) { /* the others must not wait for me */
        hd_group_poison(op->group, status);
    }
    return status;
}

static ucc_status_t copy_out(hd_op_t *op) {
    ucc_status_t status = op->frame->copy_out(op);
    if (status != UCC_INPROGRESS && hd_trace_is_on()) {
        hd_trace_done(op, status);
    }
    return status;
}

/* User's code has not returned: nothing more of the operation is done. */
static ucc_status_t end_abandoned(hd_op_t *op) {
    end(op);
    if (hd_trace_is_on()) {
        hd_trace_done(op, UCC_ERR_NO_MESSAGE);
    }
    return UCC_ERR_NO_MESSAGE;
}

/* As stepped by the operation's context (threads/callback.h). */
static ucc_status_t step_calling_user(hd_op_t *op) {
    op->task.listed = true;
    ucc_status_t status = step_phase(op);
    op->task.listed = false;
    return status;
}

static ucc_status_t do_apart(hd_op_t *op) {
    if (op->abandoned) {
        return end_abandoned(op);
    }
    switch ((hd_phase_kind_t)op->phase) {
    case HD_PHASE_MATCH:
        return op->match(op);
    case HD_PHASE_COPY_OUT:
        return copy_out(op);
    default:
        break;
    }
    if (op->cancels) {
        return conclude(op, op->phase, cancel(op));
    }
    if (op->phase == HD_PHASE_COPY_IN) { /* it may have come as far as LOCAL in this step */
        ucc_status_t status = advance(op, copy_in);
        return conclude(op, HD_PHASE_ARRIVE, status);
    }
    return step_calling_user(op);
}

static __attribute__((noinline)) ucc_status_t step_apart(hd_op_t *op) {
    op->task.awaited = NULL;
    op->task.n_along = 0;
    ucc_status_t status = do_apart(op);
    if (status != UCC_INPROGRESS) {
        op->abandoned = op->cancels = false;
        op->apart = op->calls_user;
    }
    return status;
}

ucc_status_t hd_op_step(hd_task_t *task) {
    hd_op_t *op = (hd_op_t *)task;
    return __builtin_expect(op->apart, 0) ? step_apart(op) : step_phase(op);
}

ucc_status_t hd_op_look(hd_op_t *op) {
    return step_phase(op);
}

/* --- operations that call user's code --------------------------------------------------------- */

ucc_status_t hd_op_calls_user(hd_op_t *op) {
    op->calls_user = op->apart = true;
    return UCC_OK;
}

void hd_op_abandon(hd_task_t *task) {
    hd_op_t *op = (hd_op_t *)task;
    hd_group_poison(op->group, UCC_ERR_NO_MESSAGE); /* it may not have published yet */
    op->abandoned = op->apart = true;
}

static ucc_status_t wait_for_nothing(hd_op_t *op) {
    return hd_group_poisoned(op->group);
}

void hd_op_disown(hd_op_t *op) {
    if (op->exposed) {
        begin_cancel(op, hd_group_poisoned(op->group));
    } else {
        op->wait = wait_for_nothing;
    }
}

void hd_op_inherited(hd_op_t *op) {
    if (op->group && hd_group_is_mapped(op->group)) {
        op->wait = wait_for_nothing;
        op->numbered = op->exposed = false;
        op->leave = NULL;
    }
}

static __attribute__((noinline, cold)) void trace_published(const hd_op_t *op) {
    if (hd_trace_records()) {
        hd_trace_published(op, hd_op_plan_to_trace(op), op->place.k);
    }
}

/* All that is set anew at each post. */
static void reset(hd_op_t *op) {
    op->lane = hd_board_lane(op->place.board, op->place.me, op->place.k);
    uint64_t slot = op->place.k & op->place.board->mask;
    op->exchange = &op->place.board->exchange[slot];
    op->slot = &op->place.board->slot[slot];
    op->cursor = 0;
    op->finished = 0;
    op->own_finished = false;
    op->watch = op->place.me + 1 < op->place.n ? op->place.me + 1 : 0;
    op->arriving = op->saw_all = op->any_direct = op->exposed = false;
    op->arrival = 0;
    op->arrive_level = 0;
    op->task.fruitless = 0;
    op->phase = HD_PHASE_ARRIVE;
    hd_assert(op->place.n == op->place.board->n && op->place.me < op->place.n);
}

/* The launch has failed: the others must not wait for this member. */
static __attribute__((noinline, cold)) ucc_status_t fail_launch(hd_op_t *op, ucc_status_t status) {
    hd_group_poison(op->group, status);
    op->wait = NULL;
    end(op);
    return status;
}

/* Lets the operation's frame begin, and publishes if that is over at once. */
static __attribute__((noinline)) ucc_status_t start_in_frame(hd_op_t *op) {
    ucc_status_t status = op->frame->enter(op);
    if (status == UCC_INPROGRESS) {
        op->phase = HD_PHASE_COPY_IN;
        op->task.impatient = HD_UNANNOUNCED;
        op->apart = true;
        return UCC_OK;
    }
    status = status == UCC_OK ? op->start(op) : status;
    if (status < 0) {
        op->frame->undo(op);
    }
    return status;
}

/* The operation ends before its frame has been entered. */
static __attribute__((noinline, cold)) void drop(hd_op_t *op) {
    if (op->frame && op->frame->drop) {
        op->frame->drop(op);
    }
}

/* The operation has been started, or that has failed: its first step, by `step`. */
static inline __attribute__((always_inline)) ucc_status_t go_on(hd_op_t *op, ucc_status_t status,
                                                                ucc_status_t (*step)(hd_op_t *op)) {
    if (status < 0) {
        return fail_launch(op, status);
    }
    if (hd_trace_is_on()) {
        trace_published(op);
    }
    return step(op);
}

/* Launches an operation that has more to do than its family's start. */
static __attribute__((noinline)) ucc_status_t launch_more(hd_op_t *op) {
    ucc_status_t status = op->prepare ? op->prepare(op) : UCC_OK;
    if (__builtin_expect(status != UCC_OK, 0)) {
        drop(op);
    } else {
        status = op->frame && op->frame->enter ? start_in_frame(op) : op->start(op);
    }
    return go_on(op, status, op->phase == HD_PHASE_COPY_IN ? step_apart : hd_op_look);
}

ucc_status_t hd_op_launch(hd_op_t *op) {
    reset(op);
    hd_checked(hd_board_check_slot(op->place.board, op->place.k));
    return op->prepare || op->frame ? launch_more(op) : go_on(op, op->start(op), step_phase);
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
    drop(op);
    if (!op->call.one_sided && !op->call.may_be_one_sided) {
        return why;
    }
    op->call.one_sided = true; /* its peers may write into its buffers */
    begin_cancel(op, why);
    op->phase = HD_PHASE_ARRIVE;
    op->numbered = false;   /* it has no part in any exchange */
    op->place.board = NULL; /* it may be that of the request's last use */
    op->place.k = 0;
    op->leave = NULL;
    return cancel(op);
}
