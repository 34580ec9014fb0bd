/* request.c: requests: taken, initialised, posted, finalized. api/ calls hd_request_init,
 * hd_request_post and hd_request_finalize for each collective that is not over without a request
 * (shortcut.c).
 *
 * Each handle keeps one request at hand, which is taken and given back by one exchange each; the
 * free list under the handle's lock is the slow path. Requests are never freed before the handle.
 *
 * A request keeps the plan of its last call. If a call is not like the last one of the request at
 * hand, init looks for a request that suits among the next ones on the free list, whose newest is
 * first. So a loop that makes a few different calls in turn plans each of them once.
 *
 * Post decides which board and number the operation gets, by the request's route (request.h). On
 * the main board it may have to wait for its turn (shm/queue.c).
 *
 * After the task has been handed to its context, or completed, post does not touch it: the client
 * may have finalized it in its callback.
 */
#include "request/algorithm.h"
#include "request/internal.h"
#include "span/span.h"
#include "threads/callback.h"
#include "threads/stall.h"
#include "threads/trace.h"

#include <string.h>

static hd_request_t *request_of(hd_task_t *task) {
    return (hd_request_t *)(void *)task;
}

uint64_t hd_request_look_after(hd_task_t *task, uint64_t now) {
    if (task->magic == HD_TASK_SCHEDULE) {
        return hd_schedule_look_after(task, now);
    }
    hd_request_t *r = request_of(task);
    return hd_op_look_after(&r->op, &r->waits, now);
}

/* --- taking and giving back ------------------------------------------------------------------- */

static ucc_status_t match(hd_op_t *op);

/* Makes a request. NULL: no memory (logged). */
static hd_request_t *make(ucc_team_h team) {
    hd_request_t *r = hd_alloc(HD_LINE_PAIR, sizeof(*r));
    if (!r) {
        hd_error("no memory for a request");
        return NULL;
    }
    r->op.team = team;
    r->op.task.step = hd_op_step;
    r->op.match = match;
    r->op.place.locked = team->locked;
    hd_lock(&team->lock);
    team->n_requests++;
    r->all = team->all;
    team->all = r;
    hd_unlock(&team->lock);
    return r;
}

/* Puts r in place of the request at hand, and returns that (both may be NULL). A handle that one
 * thread uses at a time needs no locked instruction. */
static hd_request_t *swap_cached(ucc_team_h team, hd_request_t *r) {
    if (team->locked) {
        /* acq_rel: hands on r's fields, and takes in those of the request that r displaces */
        return atomic_exchange_explicit(&team->cached, r, memory_order_acq_rel);
    }
    /* relaxed: the caller keeps the handle's users apart */
    hd_request_t *before = atomic_load_explicit(&team->cached, memory_order_relaxed);
    /* relaxed: the caller keeps the handle's users apart */
    atomic_store_explicit(&team->cached, r, memory_order_relaxed);
    return before;
}

/* Takes a request off the free list. The caller holds the handle's lock. */
static hd_request_t *unlink_free(hd_task_t **link) {
    hd_request_t *r = request_of(*link);
    *link = r->op.task.next;
    return r;
}

/* Returns a request for a new call: the one at hand, else one from the free list, else a new one.
 * NULL: no memory (logged). */
static hd_request_t *take(ucc_team_h team) {
    hd_request_t *r = swap_cached(team, NULL);
    if (!r) {
        hd_lock(&team->lock);
        r = team->free ? unlink_free(&team->free) : NULL;
        hd_unlock(&team->lock);
    }
    if (!r && !(r = make(team))) {
        return NULL;
    }
    hd_assert(!hd_task_is_live(&r->op.task));
    r->op.task.magic = HD_TASK_LIVE;
    return r;
}

static void push_free(ucc_team_h team, hd_request_t *r) {
    hd_lock(&team->lock);
    r->op.task.next = team->free;
    team->free = &r->op.task;
    hd_unlock(&team->lock);
}

/* Gives a request back that is over, or was never posted. */
static void give_back(hd_request_t *r) {
    ucc_team_h team = r->op.team;
    hd_assert(hd_task_is_live(&r->op.task));
    r->op.task.magic = HD_TASK_FREE;
    r = swap_cached(team, r);
    if (r) {
        push_free(team, r);
    }
}

/* So many requests a handle makes at most for the sake of the plans that they keep. */
enum { MOST_KEPT = 8 };

/* Takes a request off the free list, the best of its first few: one that suits these arguments;
 * else, if `any` will do, one that keeps no plan; else, if the handle has `enough` requests, the
 * oldest of those looked at. NULL: there is none. The caller holds the handle's lock. */
static hd_request_t *take_kept(ucc_team_h team, const ucc_coll_args_t *args, bool tagged, bool any,
                               bool enough) {
    hd_task_t **link = &team->free, **empty = NULL, **last = NULL;
    for (int i = 0; *link && i < MOST_KEPT; i++) {
        const hd_request_t *r = request_of(*link);
        if (hd_args_suit(r, args, tagged)) {
            return unlink_free(link);
        }
        empty = !empty && !r->shape.type ? link : empty;
        last = link;
        link = &(*link)->next;
    }
    last = empty ? empty : enough ? last : NULL;
    if (!any || !last) {
        return NULL;
    }
    request_of(*last)->shape.type = 0; /* the plan that it may keep is given up */
    return unlink_free(last);
}

/* Returns the request to be prepared for this call: r itself, or, if the plan that r keeps does not
 * fit, another one; then r is given back, since its plan may fit the next call. */
static __attribute__((noinline)) hd_request_t *
exchange(ucc_team_h team, const ucc_coll_args_t *args, bool tagged, hd_request_t *r) {
    if (hd_args_suit(r, args, tagged)) {
        return r;
    }
    bool keeps = r->shape.type != 0;
    hd_lock(&team->lock);
    bool enough = team->n_requests >= MOST_KEPT;
    hd_request_t *other = take_kept(team, args, tagged, keeps, enough);
    hd_unlock(&team->lock);
    if (!other && keeps && !enough) {
        other = make(team);
    }
    if (!other) {
        return r;
    }
    hd_assert(!hd_task_is_live(&other->op.task));
    other->op.task.magic = HD_TASK_LIVE;
    r->op.task.magic = HD_TASK_FREE;
    push_free(team, r);
    return other;
}

/* --- init ------------------------------------------------------------------------------------- */

/* Decides how the operation will find its exchange. That of a number taken at init is looked up at
 * the first post. */
static ucc_status_t choose_route(ucc_team_h team, const ucc_coll_args_t *args, const uint64_t *tag,
                                 hd_request_t *r) {
    bool unordered = hd_team_is_unordered(team), persistent = r->op.call.persistent;
    r->route = HD_ROUTE_NUMBER;
    if (!r->op.start) {
        r->route = HD_ROUTE_NOTHING;
    } else if (tag || (args->mask & UCC_COLL_ARGS_FIELD_TAG)) {
        r->route = HD_ROUTE_TAG;
        r->tag = tag ? *tag : args->tag;
    } else if (r->subset) {
        r->route = HD_ROUTE_ACTIVE_SET;
        r->tag = 0;
    } else if (unordered && r->op.call.empty) {
        r->op.start = NULL; /* there is nothing by which the others could know this call */
        r->route = HD_ROUTE_NOTHING;
    } else if (unordered) {
        return hd_op_refuse(&r->op, UCC_ERR_INVALID_PARAM,
                            "tag is not set, and the team is unordered");
    } else if (persistent || hd_team_orders_inits(team)) {
        r->route = persistent ? HD_ROUTE_PERSISTENT : HD_ROUTE_INIT;
        hd_lock(&team->lock);
        r->tag = persistent ? ++team->persistent_inits : ++team->inits;
        hd_unlock(&team->lock);
    }
    return UCC_OK;
}

/* Prepares r for this call, with all that it takes. */
static ucc_status_t plan(ucc_team_h team, const ucc_coll_args_t *args, const uint64_t *tag,
                         hd_request_t *r) {
    hd_op_t *op = &r->op;
    r->private_board = NULL;
    op->group = team->group;
    op->team_ep = team->ep;
    op->place.board = NULL;
    op->task.home = &team->group->home;
    r->shape.type = 0;
    ucc_status_t status = team->offers ? hd_algorithm_prepare(team, args, tag != NULL, r)
                                       : hd_args_prepare(team, args, r);
    if (status != UCC_OK || r->run) {
        return status;
    }
    status = choose_route(team, args, tag, r);
    if (status == UCC_OK) {
        status = hd_request_decide(r);
    }
    if (status == UCC_OK) {
        hd_args_note_shape(r, args);
    }
    return status;
}

/* hd_args_repeat has failed for r with `status`: prepares r for this call, if that is what has to
 * be done. If this fails, too, r is given back. */
static __attribute__((noinline)) ucc_status_t prepare(ucc_team_h team, const ucc_coll_args_t *args,
                                                      const uint64_t *tag, hd_request_t *r,
                                                      ucc_status_t status) {
    if (status == UCC_INPROGRESS) {
        status = plan(team, args, tag, r);
    }
    if (status != UCC_OK) {
        hd_pack_release(r);
        give_back(r);
    }
    return status;
}

ucc_status_t hd_request_init(ucc_team_h team, const ucc_coll_args_t *args, const uint64_t *tag,
                             hd_request_t **out) {
    hd_request_t *r = take(team);
    if (!r) {
        return UCC_ERR_NO_MEMORY;
    }
    ucc_status_t status;
    while ((status = tag ? UCC_INPROGRESS : hd_args_repeat(r, args)) != UCC_OK) {
        hd_request_t *other = status == UCC_INPROGRESS ? exchange(team, args, tag != NULL, r) : r;
        if (other == r) { /* at the second time at the latest: then r suits, or keeps nothing */
            status = prepare(team, args, tag, r, status);
            if (status != UCC_OK) {
                return status;
            }
            break;
        }
        r = other;
    }
    /* relaxed: the handle reaches other threads by the client's own means */
    __atomic_store_n(&r->op.task.req.status, UCC_OPERATION_INITIALIZED, __ATOMIC_RELAXED);
    if (hd_trace_logs_calls(HD_LOG_INFO)) {
        hd_request_log(r, args);
    }
    *out = r;
    return UCC_OK;
}

/* --- post ------------------------------------------------------------------------------------- */

/* op->leave of a matched operation: it gives its exchange back. */
static void leave_board(hd_op_t *op) {
    hd_match_leave(op->place.board);
}

/* Returns the exchange of a matched operation, or the board of a persistent one, which is looked up
 * once. NULL: no memory, and the team has failed. */
static hd_board_t *find_board(hd_request_t *r) {
    static const hd_match_class_t class_of[] = {
        [HD_ROUTE_TAG] = HD_MATCH_TAG,
        [HD_ROUTE_INIT] = HD_MATCH_INIT,
        [HD_ROUTE_PERSISTENT] = HD_MATCH_PERSISTENT,
        [HD_ROUTE_ACTIVE_SET] = HD_MATCH_ACTIVE_SET,
    };
    hd_op_t *op = &r->op;
    hd_board_t *board = r->private_board;
    if (board) { /* hd_board_enter sets the member */
        op->place.board = board;
        return board;
    }
    board = hd_match_join(op->group, r->subset, class_of[r->route], r->tag, op->place.me);
    op->place.board = board;
    if (!board) { /* or the others would wait for this endpoint */
        hd_group_poison(op->group, UCC_ERR_NO_MEMORY);
        return NULL;
    }
    op->place.member = board->member[op->place.me];
    r->private_board = r->route == HD_ROUTE_PERSISTENT ? board : NULL;
    return board;
}

/* Logs if two threads are in the ordered post of one handle at once: an error of the caller, which
 * is hard to find otherwise, since a post takes too little time for two threads to meet in it. So a
 * thread that did not post last stays in its post for so long that the other thread, if it goes on
 * posting, comes in. A client that hands the endpoint over properly only waits. */
static __attribute__((noinline, cold)) void check_order(ucc_team_h team) {
    enum { LINGER_US = 300 };
    int32_t me = hd_thread_number();
    hd_runner_t *runner = &team->contexts[0]->runner;
    /* relaxed, all three: a detector, not a lock */
    int32_t other = atomic_exchange_explicit(&team->posting, me, memory_order_relaxed);
    if (other && other != me) {
        hd_error("two threads post ordered collectives on endpoint %u at once", team->ep);
    } else if (runner->promised && hd_runner_waited_in(runner)) {
        hd_runner_two_threads(runner, "using one endpoint");
    }
    int32_t last = atomic_exchange_explicit(&team->posted, me, memory_order_relaxed);
    if (last && last != me) {
        _Atomic uint32_t word = 0;
        hd_park_sleep(&word, 0, LINGER_US * 1000u);
    }
}

/* Gives the operation its number, and launches it; or queues it, sets *queued and returns
 * UCC_INPROGRESS: then it may already be another thread's. listed: the task is in its context's
 * list already. */
static ucc_status_t launch_numbered(hd_request_t *r, hd_board_t *board, bool listed, bool *queued) {
    hd_op_t *op = &r->op;
    hd_assert(op->start && op->place.n == board->n);
    hd_turn_t turn = hd_board_enter(op, board);
    if (op->team->debug_order && r->route == HD_ROUTE_NUMBER) {
        /* ends check_order before the operation can be over, and the handle gone; relaxed: a
         * detector */
        atomic_store_explicit(&op->team->posting, 0, memory_order_relaxed);
    }
    if (turn == HD_TURN_NOW) {
        return hd_op_launch(op);
    }
    *queued = true;
    if (turn == HD_TURN_NEXT && !listed) {
        hd_runner_push(&op->task.context->runner, &op->task);
    }
    return UCC_INPROGRESS;
}

/* Launches an operation whose board is known. listed: the task is in its context's list already.
 * Apart: the way of numbered operations stays short. */
static __attribute__((noinline)) ucc_status_t launch_found(hd_request_t *r, bool listed,
                                                           bool *queued) {
    hd_op_t *op = &r->op;
    if (r->route == HD_ROUTE_PERSISTENT) {
        return launch_numbered(r, op->place.board, listed, queued);
    }
    hd_assert_eq(op->place.n, op->place.board->n);
    op->place.k = op->place.board->head->use;
    op->numbered = false;
    op->leave = leave_board;
    return hd_op_launch(op);
}

/* --- posted before all endpoints have joined: there is no board to be matched on yet ---------- */

/* Matches an early operation and takes it off the list, if it is at the head and the team is
 * complete, or has failed. UCC_INPROGRESS: it is not its turn. */
static ucc_status_t leave_early(hd_op_t *op, ucc_status_t failed) {
    ucc_team_h team = op->team;
    hd_lock(&team->lock);
    bool turn = team->early == op && (failed != UCC_OK || hd_group_is_complete(op->group));
    if (turn) {
        failed = failed == UCC_OK && !find_board((hd_request_t *)op) ? UCC_ERR_NO_MEMORY : failed;
        team->early = op->queue_next;
        /* relaxed, both: see append_early */
        hd_assert_lt(0, atomic_load_explicit(&team->n_early, memory_order_relaxed));
        atomic_fetch_sub_explicit(&team->n_early, 1, memory_order_relaxed);
    }
    hd_unlock(&team->lock);
    return turn ? failed : UCC_INPROGRESS;
}

/* The step of an operation that was posted early, until it is launched. */
static ucc_status_t step_early(hd_op_t *op) {
    hd_task_t *task = &op->task;
    ucc_status_t failed = hd_group_poisoned(op->group);
    bool queued = false;
    if (failed != UCC_OK) {
        hd_group_say_inherited(op->group);
    } else if (op->team->crossing) {
        hd_crossing_pump(op->team->crossing);
        task->impatient = HD_IMPATIENT;
    }
    ucc_status_t status = leave_early(op, failed);
    if (status == UCC_INPROGRESS && failed == UCC_OK && task->deadline &&
        hd_ticks() > task->deadline && !hd_group_is_complete(op->group)) {
        hd_op_time_out(op);
        return step_early(op); /* now the team has failed */
    }
    if (status == UCC_OK) {
        task->listed = true; /* see callback.h */
        task->impatient = false;
        op->apart = op->calls_user;
        status = launch_found(request_of(task), true, &queued);
        if (!queued) { /* if it is queued, the member's queue decides who steps it */
            task->listed = false;
        }
    } else if (status < 0) {
        status = hd_op_fail_unlaunched(op, status);
    }
    if (status < 0 && hd_trace_is_on()) {
        hd_trace_done(op, status);
    }
    return status;
}

/* op->match of every request. */
static ucc_status_t match(hd_op_t *op) {
    return op->task.queued ? hd_op_step_queued(op) : step_early(op);
}

/* Puts r at the end of the handle's list of early operations, so that operations are matched in the
 * order of their posts also when the team becomes complete between two of them. */
static void append_early(ucc_team_h team, hd_request_t *r) {
    hd_op_t **at = &team->early;
    r->op.phase = HD_PHASE_MATCH;
    r->op.apart = true;
    r->op.place.board = NULL; /* it has none yet */
    r->op.place.k = 0;
    r->op.queue_next = NULL;
    hd_lock(&team->lock);
    while (*at) {
        hd_assert(*at != &r->op);
        at = &(*at)->queue_next;
    }
    *at = &r->op;
    /* relaxed: read under the lock, or by a post that the caller orders after this one */
    atomic_fetch_add_explicit(&team->n_early, 1, memory_order_relaxed);
    hd_unlock(&team->lock);
}

/* Launches an operation that has a route, or queues it and sets *queued. */
static ucc_status_t launch(hd_request_t *r, bool *queued) {
    hd_op_t *op = &r->op;
    ucc_status_t failure = hd_group_poisoned(op->group);
    if (failure != UCC_OK) {
        hd_group_say_inherited(op->group);
        hd_op_refuse(op, failure, "the team has failed: %s", ucc_status_string(failure));
        return hd_op_fail_unlaunched(op, failure);
    }
    if (r->route == HD_ROUTE_NUMBER) {
        return launch_numbered(r, op->group->board, false, queued);
    }
    ucc_team_h team = op->team;
    /* relaxed: see append_early */
    if (!hd_group_is_complete(op->group) ||
        atomic_load_explicit(&team->n_early, memory_order_relaxed) != 0) {
        append_early(team, r);
        return UCC_INPROGRESS;
    }
    return find_board(r) ? launch_found(r, false, queued)
                         : hd_op_fail_unlaunched(op, UCC_ERR_NO_MEMORY);
}

/* Spreads operations over the contexts of a handle. */
static void choose_context(hd_request_t *r) {
    ucc_team_h team = r->op.team;
    uint32_t i = 0;
    if (team->n_contexts > 1) {
        /* relaxed: any spread will do */
        i = atomic_fetch_add_explicit(&team->next_context, 1, memory_order_relaxed) %
            team->n_contexts;
    }
    r->op.task.context = team->contexts[i];
}

__attribute__((noinline)) void hd_request_resume(hd_request_t *r, uint64_t k) {
    hd_op_t *op = &r->op;
    hd_task_t *task = &op->task;
    hd_assert(r->express && op->place.board);
    choose_context(r);
    task->impatient = false;
    task->deadline = 0;
    /* relaxed: as in hd_request_start */
    __atomic_store_n(&task->req.status, UCC_INPROGRESS, __ATOMIC_RELAXED);
    op->numbered = true;
    op->leave = NULL;
    op->place.k = k;
    hd_op_resume(op, r->resumed);
    hd_runner_push(&task->context->runner, task);
}

/* Starts a request without a route: there is nothing to be done, or a user's algorithm does it. */
static __attribute__((noinline)) ucc_status_t start_nothing(hd_request_t *r, bool *queued) {
    ucc_status_t status = r->run ? hd_algorithm_post(r) : UCC_OK;
    *queued = status == UCC_INPROGRESS;
    return status;
}

__attribute__((noinline)) ucc_status_t hd_request_start(hd_request_t *r) {
    hd_task_t *task = &r->op.task;
    ucc_team_h team = r->op.team;
    bool queued = false;
    if (hd_trace_logs_calls(HD_LOG_DEBUG)) {
        if (hd_callback_refuses("ucc_collective_post")) {
            return UCC_ERR_INVALID_PARAM;
        }
        hd_request_log(r, NULL);
    }
    if (team->debug_order && r->route == HD_ROUTE_NUMBER) {
        check_order(team);
    }
    choose_context(r);
    task->impatient = false;
    task->awaited = NULL;
    task->deadline = hd_request_deadline(r);
    /* relaxed: the client knows that it posted; completion publishes with release */
    __atomic_store_n(&task->req.status, UCC_INPROGRESS, __ATOMIC_RELAXED);
    if (hd_trace_is_on()) {
        uint64_t bytes = r->op.call.bytes ? r->op.call.bytes : r->op.call.total;
        hd_trace_post(r, hd_op_type_name(&r->op), bytes, team->group->serial, team->ep);
    }
    hd_runner_t *runner = &task->context->runner;
    ucc_status_t status =
        r->route == HD_ROUTE_NOTHING ? start_nothing(r, &queued) : launch(r, &queued);
    if (queued) {
        return UCC_OK;
    }
    if (status == UCC_INPROGRESS) {
        status = hd_request_linger(r);
    }
    if (status == UCC_INPROGRESS) {
        hd_runner_push(runner, task);
        return UCC_OK;
    }
    if (hd_trace_is_on()) {
        hd_trace_done(r, status); /* if it was launched, op.c has traced this already */
    }
    hd_assert_eq(task->req.status, UCC_INPROGRESS); /* nobody else has completed it */
    hd_task_complete(task, status);
    return status < 0 ? status : UCC_OK;
}

ucc_status_t hd_request_post(hd_request_t *r) {
    if (__builtin_expect(!hd_request_may_post(r), 0)) {
        return hd_op_refuse(&r->op, UCC_ERR_INVALID_PARAM, "posted with status %s",
                            ucc_status_string(hd_task_status(&r->op.task)));
    }
    uint64_t k = r->express ? hd_request_express(r) : 0;
    if (k == HD_EXPRESS_OVER) {
        hd_task_complete(&r->op.task, UCC_OK);
        return UCC_OK;
    }
    if (k) {
        hd_request_resume(r, k);
        return UCC_OK;
    }
    return hd_request_start(r);
}

void hd_request_release(hd_request_t *r) {
    hd_pack_release(r);
    if (r->run) {
        hd_algorithm_release(r);
    }
}

/* --- finalize --------------------------------------------------------------------------------- */

ucc_status_t hd_request_finalize(hd_request_t *r) {
    if (hd_task_status(&r->op.task) == UCC_INPROGRESS) {
        return hd_op_refuse(&r->op, UCC_ERR_INVALID_PARAM, "finalized while in progress");
    }
    if (r->private_board) {
        hd_match_leave(r->private_board);
        r->private_board = NULL;
    }
    if (r->op.frame) { /* packed datatypes have one, and so have users' algorithms */
        hd_request_release(r);
    }
    give_back(r);
    return UCC_OK;
}
