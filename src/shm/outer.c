/* outer.c: operations that go on outside their group: starting, waiting, ending. By members, in
 * steps of their operations. outer.h has the protocol and its proof.
 */
#include "shm/outer_word.h"

#include <string.h>

/* --- ending ----------------------------------------------------------------------------------- */

/* No act begins any more. */
static void close_exchange(const hd_op_t *op) {
    uint64_t key = hd_outer_key(op);
    uint64_t word = atomic_load_explicit(&op->exchange->outer, memory_order_relaxed); /* a guess */
    while (!hd_outer_has_key(word, key) || !(word & HD_OUTER_CLOSED)) {
        uint64_t mine = hd_outer_has_key(word, key) ? word : key << HD_OUTER_KEY_SHIFT;
        hd_delay_point();
        /* acq_rel: acts before it are known, acts after it fail */
        if (atomic_compare_exchange_weak_explicit(&op->exchange->outer, &word,
                                                  mine | HD_OUTER_CLOSED, memory_order_acq_rel,
                                                  memory_order_relaxed)) {
            break;
        }
    }
}

/* Closed, and every act is over. */
static bool is_quiet(const hd_op_t *op) {
    hd_exchange_t *x = op->exchange;
    /* acquire: pairs with leave, and with who closed */
    uint64_t word = atomic_load_explicit(&x->outer, memory_order_acquire);
    return hd_outer_count_inside(word) == 0 &&
           /* acquire: pairs with hd_outer_release, whose writes are over */
           (!(word & HD_OUTER_RELEASED) ||
            atomic_load_explicit(&x->arrived, memory_order_acquire) == op->place.k);
}

ucc_status_t hd_outer_cancel(hd_op_t *op, ucc_status_t why) {
    hd_group_poison(op->group, why);
    if (hd_group_is_inherited(op->group)) { /* what is under way is under way in the parent */
        op->exposed = false;
        return why;
    }
    close_exchange(op);
    op->outer->closed(op, why);
    op->task.impatient = true;
    if (op->outer_shape & HD_OUTER_WORKS && hd_engine_cancel(op, why) == UCC_INPROGRESS) {
        return UCC_INPROGRESS;
    }
    if (!is_quiet(op)) { /* after the slices: see outer.h */
        return UCC_INPROGRESS;
    }
    op->task.impatient = op->exposed = false;
    return why;
}

/* I have seen the end. UCC_INPROGRESS: the last act has just been done. */
static ucc_status_t leave_exchange(hd_op_t *op) {
    if (op->completer) {
        close_exchange(op);
        if (!is_quiet(op)) {
            op->task.impatient = true;
            return UCC_INPROGRESS;
        }
    }
    op->task.impatient = op->exposed = false;
    return UCC_OK;
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* The release brings so much, to be handed on along lines of release: the payload, or where it is.
 */
static size_t carried(const hd_op_t *op) {
    switch ((hd_regime_t)op->plan.data) {
    case HD_REGIME_INLINE:
        return op->call.bytes;
    case HD_REGIME_STAGED:
        return sizeof(const void *);
    default:
        return 0;
    }
}

static void pump(hd_op_t *op) {
    /* a failed group's members are about to cancel; and in the child of a fork nothing may be
     * touched */
    if (hd_group_poisoned(op->group) == UCC_OK) {
        op->task.impatient = op->outer->pump(op);
    }
}

static void take_payload(hd_op_t *op) {
    const void *from = hd_arrive_result(op);
    if (op->plan.data == HD_REGIME_STAGED) {
        memcpy(&from, hd_arrive_result(op), sizeof(from));
    }
    if (op->outer_shape & HD_OUTER_GIVES) {
        op->outer->take(op, from);
    } else if (op->call.bytes) {
        memcpy(op->call.dst, from, op->call.bytes);
    }
}

/* Nobody else waits for what this member waits for. */
static bool has_its_own(hd_op_t *op) {
    return op->outer_shape & HD_OUTER_GIVES && !(op->outer_shape & HD_OUTER_ALL_WAIT) &&
           op->outer->take_early && hd_group_poisoned(op->group) == UCC_OK &&
           op->outer->take_early(op);
}

/* Helps the arrival. What this member starts by that, as the last arriver, it also moves on: this
 * may be its last look before it sleeps, and nobody is told of a leg that was only handed. False:
 * not all have arrived. */
static bool help(hd_op_t *op) {
    bool completed = op->completer;
    pump(op);
    bool arrived = hd_arrive_help_outer(op, carried(op));
    if (op->completer && !completed) {
        pump(op);
    }
    return arrived;
}

static ucc_status_t wait_for_release(hd_op_t *op) {
    if (!help(op)) {
        op->task.awaited = NULL;
        return UCC_INPROGRESS;
    }
    if (!op->completer && (op->outer_shape & HD_OUTER_GOES || has_its_own(op))) {
        return leave_exchange(op);
    }
    ucc_status_t status = hd_arrived_outer(op);
    if (status == UCC_OK) {
        if (op->outer_shape & HD_OUTER_TAKES) {
            take_payload(op);
        }
        status = leave_exchange(op);
    }
    return status;
}

static ucc_status_t wait_for_work(hd_op_t *op) {
    if (!help(op)) {
        op->task.awaited = NULL;
        return UCC_INPROGRESS;
    }
    ucc_status_t status = hd_arrived_outer(op);
    if (status != UCC_OK) {
        return status;
    }
    op->phase = HD_PHASE_LOCAL;
    status = hd_engine_work_unordered(op);
    return status == UCC_OK ? leave_exchange(op) : status;
}

static void begin(hd_op_t *op, uint32_t shape) {
    op->outer_shape = (uint8_t)shape;
    op->completer = false;
    op->task.impatient = false;
    op->exposed = true; /* whoever fails cancels */
}

/* Counted arrivals wake those who sleep when all are there. A wake-up for each of them would take
 * processors from the process that is waited for. */
static ucc_status_t publish(hd_op_t *op, const void *data, size_t bytes) {
    bool awaited =
        op->outer_shape & HD_OUTER_GIVES && bytes && !(op->outer_shape & HD_OUTER_ALL_WAIT);
    return op->group->static_arrival || awaited ? hd_lane_publish(op, data, bytes)
                                                : hd_lane_put(op, data, bytes);
}

ucc_status_t hd_outer_start(hd_op_t *op, uint32_t shape) {
    bool reduces = shape & HD_OUTER_REDUCES;
    begin(op, shape);
    op->wait = wait_for_release;
    ucc_status_t status = publish(op, hd_call_operand(&op->call), reduces ? op->call.bytes : 0);
    if (status == UCC_OK) {
        hd_arrive_outer(op, reduces, shape & HD_OUTER_ALL_WAIT, carried(op));
    }
    return status;
}

ucc_status_t hd_outer_start_giving(hd_op_t *op, uint32_t shape, const void *data, size_t bytes) {
    begin(op, shape | HD_OUTER_GIVES);
    op->wait = wait_for_release;
    ucc_status_t status = publish(op, data, bytes);
    if (status == UCC_OK) {
        hd_arrive_outer(op, false, shape & HD_OUTER_ALL_WAIT, carried(op));
    }
    return status;
}

ucc_status_t hd_outer_start_work(hd_op_t *op, const void *src, void *dst) {
    begin(op, HD_OUTER_WORKS | HD_OUTER_ALL_WAIT);
    op->wait = wait_for_work;
    ucc_status_t status = hd_engine_register(op, src, dst);
    if (status == UCC_OK) {
        status = publish(op, NULL, 0);
    }
    if (status == UCC_OK) {
        hd_arrive_outer(op, false, true, 0);
    }
    return status;
}

bool hd_outer_is_finished(const hd_op_t *op, uint32_t s) {
    /* acquire, both: pairs with the installing of the work, and with each finisher of a unit */
    const hd_work_t *work = atomic_load_explicit(&op->slot->work, memory_order_acquire);
    const hd_slice_t *slice = &work->slice[s];
    return atomic_load_explicit(&slice->finished, memory_order_acquire) ==
           (hd_generation(op->place.k) | slice->units);
}
