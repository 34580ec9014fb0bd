/* outer.c: exchanges that go on outside their group. outer.h has the protocol and its proof.
 *
 * The first part is called by members, in steps of their operations; the second by anybody who holds a
 * ticket.
 */
#include "shm/outer.h"

#include <string.h>

#define CLOSED    ((uint64_t)1)
#define RELEASED  ((uint64_t)2)
#define INSIDE    ((uint64_t)4)
#define KEY_SHIFT 16

_Static_assert((uint64_t)1 << KEY_SHIFT == INSIDE << 14, "the counter lies below the key");

static bool has_key(uint64_t word, uint64_t key) {
    return word >> KEY_SHIFT == key;
}

static uint32_t count_inside(uint64_t word) {
    return (uint32_t)((word & (((uint64_t)1 << KEY_SHIFT) - 1)) / INSIDE);
}

uint64_t hd_outer_key(const hd_op_t *op) {
    return ((op->place.board->use << 32) + op->place.k) << KEY_SHIFT >> KEY_SHIFT;
}

/* --- arriving --------------------------------------------------------------------------------------- */

void hd_outer_arrived(hd_op_t *op, ucc_status_t status, const void *payload) {
    hd_exchange_t *x = op->exchange;
    bool works = op->outer_shape & HD_OUTER_WORKS;
    hd_ticket_t ticket = {op->place.board, x, op->place.k, hd_outer_key(op),
                          works ? op->plan.slices : 0};
    if (status != UCC_OK) {
        hd_op_mismatch(op, op->place.me);
    }
    op->completer = true;
    hd_delay_point();
    uint64_t word = atomic_load_explicit(&x->outer, memory_order_relaxed); /* a guess */
    do {
        if (has_key(word, ticket.key)) { /* by a member that has cancelled */
            return;
        }
        /* release: everybody's arrival, which came in through the tree; pairs with enter */
    } while (!atomic_compare_exchange_weak_explicit(&x->outer, &word, ticket.key << KEY_SHIFT,
                                                    memory_order_release, memory_order_relaxed));
    op->outer->arrived(op->outer, op, &ticket, status,
                       status == UCC_OK && (op->arrival & HD_ARRIVE_REDUCING) ? payload : NULL);
}

bool hd_outer_has_arrived(const hd_op_t *op) {
    /* relaxed: only told */
    uint64_t word = atomic_load_explicit(&op->exchange->outer, memory_order_relaxed);
    return has_key(word, hd_outer_key(op));
}

/* --- ending ------------------------------------------------------------------------------------------ */

/* No act begins any more. */
static void close_exchange(const hd_op_t *op) {
    uint64_t key = hd_outer_key(op);
    uint64_t word = atomic_load_explicit(&op->exchange->outer, memory_order_relaxed); /* a guess */
    while (!has_key(word, key) || !(word & CLOSED)) {
        uint64_t mine = has_key(word, key) ? word : key << KEY_SHIFT;
        hd_delay_point();
        /* acq_rel: acts before it are known, acts after it fail */
        if (atomic_compare_exchange_weak_explicit(&op->exchange->outer, &word, mine | CLOSED,
                                                  memory_order_acq_rel, memory_order_relaxed)) {
            break;
        }
    }
}

/* Closed, and every act is over. */
static bool is_quiet(const hd_op_t *op) {
    hd_exchange_t *x = op->exchange;
    /* acquire: pairs with leave, and with who closed */
    uint64_t word = atomic_load_explicit(&x->outer, memory_order_acquire);
    return count_inside(word) == 0 &&
           /* acquire: pairs with hd_outer_release, whose writes are over */
           (!(word & RELEASED) ||
            atomic_load_explicit(&x->arrived, memory_order_acquire) == op->place.k);
}

ucc_status_t hd_outer_cancel(hd_op_t *op, ucc_status_t why) {
    hd_group_poison(op->group, why);
    if (hd_group_is_inherited(op->group)) { /* what is under way is under way in the parent */
        op->exposed = false;
        return why;
    }
    close_exchange(op);
    op->outer->closed(op->outer, op, why);
    op->task.impatient = true;
    if (op->outer_shape & HD_OUTER_WORKS && hd_engine_cancel(op, why) == UCC_INPROGRESS) {
        return UCC_INPROGRESS;
    }
    if (!is_quiet(op)) { /* after the slices: see outer.h */
        return UCC_INPROGRESS;
    }
    op->exposed = op->task.impatient = false;
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
    op->exposed = op->task.impatient = false;
    return UCC_OK;
}

/* --- waiting ----------------------------------------------------------------------------------------- */

/* The release brings so much, to be handed on along lines of release: the payload, or where it is. */
static size_t carried(const hd_op_t *op) {
    if (!(op->outer_shape & HD_OUTER_BRINGS)) {
        return 0;
    }
    return op->call.bytes <= HD_RESULT_MAX ? op->call.bytes : sizeof(const void *);
}

static void pump(hd_op_t *op) {
    /* a failed group's members are about to cancel; and in the child of a fork nothing may be touched */
    if (hd_group_poisoned(op->group) == UCC_OK) {
        op->task.impatient = !op->outer->pump(op->outer, op);
    }
}

static void take_payload(hd_op_t *op) {
    const void *from = hd_arrive_result(op);
    if (op->call.bytes > HD_RESULT_MAX) {
        memcpy(&from, hd_arrive_result(op), sizeof(from));
    }
    if (op->call.bytes) {
        memcpy(op->call.dst, from, op->call.bytes);
    }
}

static ucc_status_t wait_for_release(hd_op_t *op) {
    pump(op);
    if (!hd_arrive_help_outer(op, carried(op))) {
        op->task.awaited = NULL;
        return UCC_INPROGRESS;
    }
    if ((op->outer_shape & HD_OUTER_GOES) && !op->completer) {
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
    pump(op);
    if (!hd_arrive_help_outer(op, carried(op))) {
        op->task.awaited = NULL;
        return UCC_INPROGRESS;
    }
    ucc_status_t status = hd_arrived_outer(op);
    if (status != UCC_OK) {
        return status;
    }
    op->state = HD_OP_ENGINE;
    status = hd_engine_work_unordered(op);
    return status == UCC_OK ? leave_exchange(op) : status;
}

static void begin(hd_op_t *op, uint32_t shape) {
    op->outer_shape = shape;
    op->completer = false;
    op->task.impatient = false;
    op->exposed = true; /* whoever fails cancels */
}

ucc_status_t hd_outer_start(hd_op_t *op, uint32_t shape) {
    bool reduces = shape & HD_OUTER_REDUCES;
    begin(op, shape);
    op->wait = wait_for_release;
    op->plan = (hd_plan_t){.path = HD_PATH_TREE,
                           .all_wait = shape & HD_OUTER_ALL_WAIT,
                           .regime = reduces ? HD_REGIME_INLINE : HD_REGIME_NONE};
    ucc_status_t status =
        hd_lane_publish(op, hd_call_operand(&op->call), reduces ? op->call.bytes : 0);
    if (status == UCC_OK) {
        hd_arrive_outer(op, reduces, shape & HD_OUTER_ALL_WAIT, carried(op));
    }
    return status;
}

ucc_status_t hd_outer_start_work(hd_op_t *op, const hd_work_row_t *row, const void *src,
                                 void *dst) {
    begin(op, HD_OUTER_WORKS | HD_OUTER_ALL_WAIT);
    op->wait = wait_for_work;
    op->plan = hd_plan_of_outer_work(op, row);
    ucc_status_t status = hd_engine_register(op, src, dst);
    if (status == UCC_OK) {
        status = hd_lane_expose(op);
    }
    if (status == UCC_OK) {
        hd_arrive_outer(op, false, true, 0);
    }
    return status;
}

bool hd_outer_is_finished(const hd_op_t *op, uint32_t s) {
    /* acquire, both: pairs with the installing of the work, and with each finisher of a unit */
    const hd_work_t *work = atomic_load_explicit(&op->exchange->work, memory_order_acquire);
    const hd_slice_t *slice = &work->slice[s];
    return atomic_load_explicit(&slice->finished, memory_order_acquire) ==
           (hd_generation(op->place.k) | slice->units);
}

/* --- acts ------------------------------------------------------------------------------------------- */

static bool enter(const hd_ticket_t *t) {
    uint64_t word = atomic_load_explicit(&t->exchange->outer, memory_order_relaxed); /* a guess */
    do {
        if (!has_key(word, t->key) || (word & CLOSED)) {
            return false;
        }
        hd_delay_point();
        /* acquire: pairs with hd_outer_arrived */
    } while (!atomic_compare_exchange_weak_explicit(&t->exchange->outer, &word, word + INSIDE,
                                                    memory_order_acquire, memory_order_relaxed));
    return true;
}

/* The exchange may be over when this returns; the group is the caller's to keep. */
static void leave(const hd_ticket_t *t) {
    hd_group_t *group = t->board->group;
    hd_delay_point();
    /* release: what I did in the exchange; pairs with is_quiet */
    atomic_fetch_sub_explicit(&t->exchange->outer, INSIDE, memory_order_release);
    hd_bell_ring(&group->home.bell); /* who works on units that are ready now; who closes */
}

/* By who is inside, or whose unit pins the exchange. */
static hd_slice_t *slice_of(const hd_ticket_t *t, uint32_t s) {
    /* acquire: pairs with the installing of the work */
    return &atomic_load_explicit(&t->exchange->work, memory_order_acquire)->slice[s];
}

bool hd_outer_release(const hd_ticket_t *t, ucc_status_t status, const void *payload,
                      size_t bytes) {
    hd_exchange_t *x = t->exchange;
    hd_group_t *group = t->board->group;
    uint64_t word = atomic_load_explicit(&x->outer, memory_order_relaxed); /* a guess */
    do {
        if (!has_key(word, t->key) || (word & (CLOSED | RELEASED))) {
            return false;
        }
        hd_delay_point();
        /* acq_rel: the result line is mine: nobody reads it before I have written it, nobody else writes it,
           and whoever closes waits for me */
    } while (!atomic_compare_exchange_weak_explicit(&x->outer, &word, word | RELEASED,
                                                    memory_order_acq_rel, memory_order_relaxed));
    hd_assert_lt(x->arrived, t->k); /* once */
    x->arrived_status = (int32_t)status;
    if (status == UCC_OK && bytes > HD_RESULT_MAX) {
        memcpy(x->result, &payload, sizeof(payload));
    } else if (status == UCC_OK && bytes) {
        memcpy(x->result, payload, bytes);
    }
    hd_delay_point();
    /* release: the result line, and what it points to; pairs with has_come in arrival.c. After this the
       exchange may be over */
    atomic_store_explicit(&x->arrived, t->k, memory_order_release);
    hd_bell_ring(&group->home.bell);
    return true;
}

bool hd_outer_ready(const hd_ticket_t *t, uint32_t s, uint32_t ready) {
    if (!enter(t)) {
        return false;
    }
    hd_slice_t *slice = slice_of(t, s);
    ready = ready < slice->units ? ready : slice->units;
    uint32_t before = atomic_load_explicit(&slice->ready, memory_order_relaxed); /* a guess */
    /* release: what the units need; pairs with claim in engine.c. Every raise is an RMW, so a claimer that sees
       a later one takes in the earlier ones, too */
    while (before < ready &&
           !atomic_compare_exchange_weak_explicit(&slice->ready, &before, ready,
                                                  memory_order_release, memory_order_relaxed)) {
    }
    leave(t);
    return true;
}

/* Like claim in engine.c, of one unit, whether it is ready or not. */
static bool claim_unit(const hd_ticket_t *t, hd_slice_t *slice, uint32_t *unit) {
    uint64_t word = atomic_load_explicit(&slice->claim, memory_order_relaxed); /* a guess */
    do {
        *unit = (uint32_t)(word & (HD_CLAIM_CLOSED - 1));
        if (!hd_is_generation(word, hd_generation(t->k)) || (word & HD_CLAIM_CLOSED) ||
            *unit >= slice->units) {
            return false;
        }
        hd_delay_point();
        /* acq_rel: from here on the unit pins the exchange; pairs with close_slice */
    } while (!atomic_compare_exchange_weak_explicit(&slice->claim, &word, word + 1,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return true;
}

bool hd_outer_claim(const hd_ticket_t *t, uint32_t s, uint32_t *unit) {
    if (!enter(t)) {
        return false;
    }
    hd_slice_t *slice = slice_of(t, s);
    bool mine = claim_unit(t, slice, unit);
    if (mine) {
        /* relaxed: whoever finishes it was told of it by me */
        atomic_fetch_or_explicit(&slice->under_way, (uint64_t)1 << *unit, memory_order_relaxed);
    }
    leave(t);
    return mine;
}

/* Takes the unit's bit: it is mine to finish. */
static bool take_unit(const hd_ticket_t *t, hd_slice_t *slice, uint32_t unit) {
    uint64_t bit = (uint64_t)1 << unit;
    uint64_t bits = atomic_load_explicit(&slice->under_way, memory_order_relaxed); /* a guess */
    do {
        if (!hd_is_generation(bits, hd_generation(t->k)) || !(bits & bit)) {
            return false;
        }
        /* relaxed: of two who come for the same unit, one gets it */
    } while (!atomic_compare_exchange_weak_explicit(&slice->under_way, &bits, bits & ~bit,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

bool hd_outer_finish(const hd_ticket_t *t, uint32_t s, uint32_t unit, ucc_status_t status) {
    hd_exchange_t *x = t->exchange;
    hd_group_t *group = t->board->group;
    hd_slice_t *slice = slice_of(t, s);
    /* relaxed: a late completion; and no more than a hint, for the bit decides */
    if (!has_key(atomic_load_explicit(&x->outer, memory_order_relaxed), t->key) ||
        !take_unit(t, slice, unit)) {
        return false;
    }
    /* relaxed: counted before the unit is, see outer.h */
    atomic_fetch_add_explicit(&x->outer, INSIDE, memory_order_relaxed);
    if (status != UCC_OK) {
        hd_engine_note_failure(x, t->k, status);
        hd_group_poison(group, status);
    }
    uint32_t units = slice->units;
    hd_delay_point();
    /* acq_rel: hands on what the request did; the last takes in all of the slice's */
    uint64_t before = atomic_fetch_add_explicit(&slice->finished, 1, memory_order_acq_rel);
    if (before + 1 == (hd_generation(t->k) | units)) {
        hd_engine_slice_done(group, x, t->k, t->slices);
    }
    leave(t);
    return true;
}
