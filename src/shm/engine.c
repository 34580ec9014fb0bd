/* engine.c: the DIRECT regime. Data moves from users' buffers to users' buffers, in chunks that any
 * member in progress claims.
 *
 * Every member registers its buffers and initialises its own slice of the work before it publishes;
 * when all have arrived, whoever is in progress claims units, its own slice first (its lines stay
 * in its caches from one iteration to the next), then those of others. The exchange is over when
 * every slice is. Few members (flat) look at each slice's count of finished units themselves: the
 * last finisher is one line transfer away. Beyond, slices are counted, and whoever finishes the
 * last one writes the end line, for which all wait.
 *
 * The claim word of a slice is (generation:32 | closed:1 | next:31), the generation being the low
 * half of k. It is only ever changed by CAS:
 *     owner    any old generation          -> (k, open, 0)        before publishing
 *     claimer  (k, open, next)             -> (k, open, next + b) after seeing all arrivals
 *     closer   anything                    -> (k, closed, next)   to cancel
 * A successful claim pins the exchange: it can't end before the claimed units are finished, so the
 * claimer may read other members' calls and buffers, and must not before. A member that
 * finds its slice already closed leaves it so. Cancelling closes every slice, waits until as many
 * units are finished as were claimed, and poisons the group: then nobody touches, or ever will
 * touch, a buffer of this exchange.
 *
 * Memory of slices is type-stable while the board lives, so a late look at a claim word is safe.
 *
 * The same generation comes back after 2^32 numbers, with what a slot's last use left there. Nobody
 * minds: members work on slices that their owners have registered anew. Who cancels may come before
 * an owner, and goes by the owner's lane, whose number is 64 bits wide. A closed slice or a failure
 * was the group's end.
 */
#include "shm/claim.h"
#include "shm/internal.h"

#include "threads/callback.h"
#include "threads/trace.h"

enum { CHUNKS_PER_STEP = 64 };

static hd_work_t *work_of(const hd_op_t *op) {
    /* acquire: pairs with the installing CAS below */
    return atomic_load_explicit(&op->slot->work, memory_order_acquire);
}

static __attribute__((noinline, cold)) hd_work_t *install_work(hd_op_t *op) {
    hd_work_t *work = NULL;
    const hd_board_t *board = op->place.board;
    hd_work_t *mine = hd_board_create_work(board, (uint32_t)(op->place.k & board->mask));
    /* acq_rel: publishes the arrays, or takes the winner's */
    if (!mine || atomic_compare_exchange_strong_explicit(
                     &op->slot->work, &work, mine, memory_order_acq_rel, memory_order_acquire)) {
        return mine;
    }
    hd_work_free(mine);
    return work;
}

hd_work_t *hd_engine_work_of(hd_op_t *op) {
    hd_work_t *work = work_of(op);
    return work ? work : install_work(op);
}

/* Few members name their buffers in lines that only they write. */
typedef struct view {
    hd_work_t work;
    const void *src[HD_REDUCE_BLOCK];
    void *dst[HD_REDUCE_BLOCK];
    const hd_call_t *call[HD_REDUCE_BLOCK];
} view_t;

static void see(view_t *view, uint32_t i, const hd_expose_t *from) {
    view->src[i] = from->src;
    view->dst[i] = from->dst;
    view->call[i] = from->call;
}

/* The members' buffers; all have arrived. */
static const hd_work_t *work_seen(const hd_op_t *op, view_t *view) {
    hd_work_t *work = work_of(op);
    switch ((hd_naming_t)op->plan.naming) {
    case HD_NAMED_IN_ARRAYS:
        return work;
    case HD_NAMED_IN_SLICES:
        for (uint32_t i = 0; i < op->place.n; i++) {
            see(view, i, &work->slice[i].expose);
        }
        break;
    case HD_NAMED_IN_LANES:
        for (uint32_t i = 0; i < op->place.n; i++) {
            see(view, i,
                i == op->place.me ? &op->expose
                                  : &hd_board_lane(op->place.board, i, op->place.k)->direct);
        }
        break;
    }
    view->work =
        (hd_work_t){.slice = work->slice, .src = view->src, .dst = view->dst, .call = view->call};
    return &view->work;
}

/* Where lanes don't: what is written here is published by the lane. */
static inline __attribute__((always_inline)) void tell(hd_op_t *op, hd_work_t *work) {
    if (op->plan.naming == HD_NAMED_IN_SLICES) {
        work->slice[op->place.me].expose = op->expose;
        return;
    }
    work->src[op->place.me] = op->expose.src;
    work->dst[op->place.me] = op->expose.dst;
    work->call[op->place.me] = op->expose.call;
    if (op->place.me == 0) {
        /* relaxed: who used them last has consumed that number */
        atomic_store_explicit(&op->exchange->slices_done, 0, memory_order_relaxed);
        atomic_store_explicit(&op->exchange->hint, 0, memory_order_relaxed); /* likewise */
    }
}

/* I take part with these buffers. Returns the exchange's work; NULL: no memory for it. */
static inline __attribute__((always_inline)) hd_work_t *enter(hd_op_t *op, const void *src,
                                                              void *dst) {
    hd_work_t *work = work_of(op);
    if (__builtin_expect(!work, 0) && !(work = install_work(op))) {
        hd_error("%s: no memory for the work of %u endpoints", hd_op_type_name(op), op->place.n);
        return NULL;
    }
    op->expose.src = src;
    op->expose.dst = dst;
    op->expose.call = &op->call;
    if (op->plan.naming != HD_NAMED_IN_LANES) {
        tell(op, work);
    }
    op->exposed = true;
    return work;
}

ucc_status_t hd_engine_register(hd_op_t *op, const void *src, void *dst) {
    hd_work_t *work = enter(op, src, dst);
    if (!work) {
        return UCC_ERR_NO_MEMORY;
    }
    for (uint32_t s = op->place.me; s < op->plan.slices; s += op->place.n) {
        op->plan.row->layout(op, s, &work->slice[s]);
        hd_slice_open(op, &work->slice[s]);
    }
    return UCC_OK;
}

ucc_status_t hd_engine_register_idle(hd_op_t *op, const void *src, void *dst) {
    hd_work_t *work = enter(op, src, dst);
    if (!work) {
        return UCC_ERR_NO_MEMORY;
    }
    hd_slice_t *slice = &work->slice[op->place.me];
    hd_slice_set(slice, 1, 1, 1); /* that does nothing */
    hd_slice_open(op, slice);
    return UCC_OK;
}

ucc_status_t hd_engine_register_blocks(hd_op_t *op, const void *src, void *dst) {
    hd_work_t *work = enter(op, src, dst);
    if (!work) {
        return UCC_ERR_NO_MEMORY;
    }
    hd_slice_t *slice = &work->slice[op->place.me];
    hd_slice_set(slice, op->place.n, 1, 1);
    hd_slice_open(op, slice);
    return UCC_OK;
}

ucc_status_t hd_engine_start(hd_op_t *op, const void *src, void *dst) {
    ucc_status_t status = hd_engine_register(op, src, dst);
    if (status == UCC_OK) {
        op->wait = hd_engine_step;
        status = hd_lane_expose(op);
    }
    if (status == UCC_OK) {
        hd_arrive(op, false);
    }
    return status;
}

/* Every unit is finished: what came of it. */
static ucc_status_t work_status(hd_group_t *group, hd_exchange_t *x, uint64_t k) {
    /* acquire: pairs with hd_engine_note_failure */
    uint64_t failure = atomic_load_explicit(&x->work_status, memory_order_acquire);
    if (!hd_is_generation(failure, hd_generation(k))) {
        return UCC_OK;
    }
    hd_group_poison(group, (ucc_status_t)(int32_t)(uint32_t)failure);
    return (ucc_status_t)(int32_t)(uint32_t)failure;
}

ucc_status_t hd_engine_status(hd_group_t *group, hd_exchange_t *x, uint64_t k) {
    return work_status(group, x, k);
}

void hd_engine_end(hd_group_t *group, hd_exchange_t *x, uint64_t k) {
    x->done_status = (int32_t)work_status(group, x, k);
    hd_assert_lt(x->done, k); /* by the last finisher alone */
    hd_delay_point();
    /* release: all chunks' results (each came in through slices_done); pairs with work's acquire */
    atomic_store_explicit(&x->done, k, memory_order_release);
    hd_bell_ring(&group->home.bell);
}

bool hd_engine_count_slice(hd_exchange_t *x, uint32_t slices) {
    /* acq_rel: hands on this slice's results, takes in those of the slices before */
    uint32_t before = atomic_fetch_add_explicit(&x->slices_done, 1, memory_order_acq_rel);
    hd_assert_lt(before, slices);
    return before + 1 == slices;
}

void hd_engine_slice_done(hd_group_t *group, hd_exchange_t *x, uint64_t k, uint32_t slices) {
    if (hd_engine_count_slice(x, slices)) {
        hd_engine_end(group, x, k);
    }
}

/* Of memory that was never used, the generation is 0, and so is the status. */
static bool is_failure(uint64_t work_status, uint64_t k) {
    return hd_is_generation(work_status, hd_generation(k)) && (uint32_t)work_status != UCC_OK;
}

bool hd_engine_note_failure(hd_exchange_t *x, uint64_t k, ucc_status_t status) {
    uint64_t gen = hd_generation(k);
    uint64_t seen = atomic_load_explicit(&x->work_status, memory_order_relaxed);
    bool first = false;
    while (!first && !is_failure(seen, k)) {
        /* release: pairs with hd_engine_end; the first failure wins */
        first =
            atomic_compare_exchange_weak_explicit(&x->work_status, &seen, gen | (uint32_t)status,
                                                  memory_order_release, memory_order_relaxed);
    }
    return first;
}

bool hd_engine_has_failed(const hd_exchange_t *x, uint64_t k) {
    /* relaxed: whoever misses it does work in vain */
    return is_failure(atomic_load_explicit(&x->work_status, memory_order_relaxed), k);
}

/* So many units of slice s, claimed by me, are finished. */
static inline void finish_claimed(hd_op_t *op, uint32_t s, hd_slice_t *slice, uint32_t units,
                                  uint32_t taken) {
    hd_delay_point();
    /* acq_rel: hands on my chunk's results; the last takes in all of the slice's */
    uint64_t before = atomic_fetch_add_explicit(&slice->finished, taken, memory_order_acq_rel);
    hd_assert(hd_is_generation(before, hd_op_generation(op))); /* pinned by what was claimed */
    hd_assert_le((uint32_t)before + taken, units);
    if (before + taken == (hd_op_generation(op) | units)) {
        op->own_finished = op->own_finished || s == op->place.me;
        if (!hd_op_is_flat(op)) {
            hd_engine_slice_done(op->group, op->exchange, op->place.k, op->plan.slices);
        }
    }
    hd_bell_ring(&op->group->home.bell); /* a canceller may sleep until this chunk is finished */
}

static bool work_on_claimed(hd_op_t *op, const hd_work_t *work, uint32_t s) {
    hd_slice_t *slice = &work->slice[s];
    uint32_t unit, taken = hd_slice_claim(op, slice, &unit);
    if (!taken) {
        return false;
    }
    uint32_t units = slice->units; /* read while pinned */
    uint64_t began = hd_trace_is_on() ? hd_ticks() : 0;
    /* relaxed, here and below: only told to those who wait too long */
    atomic_store_explicit(&op->place.member->shared->at_work, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < taken; i++) {
        ucc_status_t status = hd_work_run(op, work, s, unit + i);
        if (status != UCC_OK) {
            hd_engine_note_failure(op->exchange, op->place.k, status);
        }
    }
    atomic_store_explicit(&op->place.member->shared->at_work, 0, memory_order_relaxed);
    if (began) {
        hd_trace_chunk(op, began, s, unit, taken);
    }
    finish_claimed(op, s, slice, units, taken);
    return true;
}

/* --- the user's reduction --------------------------------------------------------------------- */

typedef struct turn {
    hd_op_t *op;
    const hd_work_t *work;
    uint32_t slice;
    bool worked;
} turn_t;

static void take_turn(void *arg) {
    turn_t *turn = arg;
    turn->worked = work_on_claimed(turn->op, turn->work, turn->slice);
}

void hd_engine_end_turn(hd_op_t *op) {
    hd_unlock(&op->exchange->turn);
    hd_bell_ring(&op->group->home.bell); /* members that were refused may sleep */
}

/* The user's reduction did not return: its unit counts as finished, and failed. */
static void abandon_turn(hd_task_t *task) {
    hd_op_t *op = (hd_op_t *)task;
    hd_slice_t *slice = &work_of(op)->slice[op->turn];
    hd_engine_note_failure(op->exchange, op->place.k, UCC_ERR_NO_MESSAGE);
    hd_group_poison(op->group, UCC_ERR_NO_MESSAGE);
    /* relaxed: see work_on_claimed */
    atomic_store_explicit(&op->place.member->shared->at_work, 0, memory_order_relaxed);
    finish_claimed(op, op->turn, slice, slice->units, 1);
    hd_engine_end_turn(op);
}

/* The user's reduction never runs concurrently in one exchange: whoever finds it taken comes back
 * in its next step. Others' run meanwhile, so that no team waits for another one's. */
static __attribute__((noinline)) bool work_exclusively(hd_op_t *op, const hd_work_t *work,
                                                       uint32_t s) {
    if (hd_group_poisoned(op->group) != UCC_OK) {
        return false; /* the user's code is not called for a team that has failed */
    }
    const hd_slice_t *slice = &work->slice[s];
    /* acquire: only a look; the claim repeats it. A turn without a unit would wake those who sleep,
     * this thread too */
    uint64_t word = atomic_load_explicit(&slice->claim, memory_order_acquire);
    if (!hd_slice_claimable(hd_op_generation(op), slice, word) ||
        !hd_lock_try(&op->exchange->turn)) {
        return false;
    }
    turn_t turn = {.op = op, .work = work, .slice = s};
    op->turn = s;
    hd_callback_run(&op->task, take_turn, &turn, abandon_turn);
    hd_engine_end_turn(op);
    return turn.worked;
}

static bool work_on(hd_op_t *op, const hd_work_t *work, uint32_t s) {
    return op->call.exclusive ? work_exclusively(op, work, s) : work_on_claimed(op, work, s);
}

/* Others' slices in the order of their numbers, remembering how far all are exhausted, so that
 * thousands of members don't each look at thousands of slices. */
static bool steal(hd_op_t *op, const hd_work_t *work) {
    hd_exchange_t *x = op->exchange;
    uint32_t slices = op->plan.slices;
    /* relaxed: only a hint, checked by the claim itself */
    uint32_t hint = atomic_load_explicit(&x->hint, memory_order_relaxed);
    for (uint32_t s = hint; s < slices; s++) {
        if (work_on(op, work, s)) {
            return true;
        }
        if (!op->call.exclusive) {
            /* relaxed: see above; losing the race means somebody else moved it on */
            atomic_compare_exchange_strong_explicit(&x->hint, &hint, s + 1, memory_order_relaxed,
                                                    memory_order_relaxed);
            hint = s + 1;
        }
    }
    return false;
}

/* Few members: my slice, then what the others have left of theirs, beginning with my neighbour's;
 * over when every slice says so. One look at a slice's line tells what there is to do: nothing is
 * fetched in vain. */
static ucc_status_t work_flat(hd_op_t *op, const hd_work_t *work) {
    uint32_t slices = op->plan.slices, chunks = 0; /* bounded: others use this context, too */
    hd_slice_t *unfinished = NULL;
    while (op->place.me < slices && !op->own_finished && chunks < CHUNKS_PER_STEP &&
           work_on(op, work, op->place.me)) {
        chunks++;
    }
    for (uint32_t i = op->finished; i < slices; i++) {
        uint32_t s = (op->place.me + 1 + i) % slices;
        hd_slice_t *slice = &work->slice[s];
        while (!(op->own_finished && s == op->place.me) && !hd_slice_is_finished(op, slice)) {
            if (chunks == CHUNKS_PER_STEP || !work_on(op, work, s)) {
                unfinished = unfinished ? unfinished : slice;
                break;
            }
            chunks++;
        }
        op->finished += !unfinished; /* those before it need no second look */
    }
    if (!unfinished) {
        return work_status(op->group, op->exchange, op->place.k);
    }
    if (!op->call.exclusive && chunks < CHUNKS_PER_STEP) { /* else there may be units to claim */
        op->task.awaited = &unfinished->finished;
        op->task.awaited_value = hd_op_generation(op) | unfinished->units;
    }
    return UCC_INPROGRESS;
}

bool hd_engine_has_ended(hd_op_t *op, ucc_status_t *status) {
    /* acquire: pairs with hd_engine_end */
    if (atomic_load_explicit(&op->exchange->done, memory_order_acquire) != op->place.k) {
        hd_op_await(op, &op->exchange->done);
        return false;
    }
    *status = (ucc_status_t)op->exchange->done_status;
    return true;
}

static ucc_status_t work_deep(hd_op_t *op, const hd_work_t *work) {
    bool own = op->place.me < op->plan.slices;
    uint32_t chunks = 0; /* as above */
    while (chunks < CHUNKS_PER_STEP &&
           ((own && work_on(op, work, op->place.me)) || (own = false, steal(op, work)))) {
        chunks++;
    }
    ucc_status_t status;
    if (hd_engine_has_ended(op, &status)) {
        return status;
    }
    if (op->call.exclusive || chunks == CHUNKS_PER_STEP) {
        op->task.awaited = NULL; /* there may be units to claim */
    }
    return UCC_INPROGRESS;
}

ucc_status_t hd_engine_work_unordered(hd_op_t *op) {
    const hd_work_t *work = work_of(op);
    uint32_t slices = op->plan.slices, chunks = 0; /* as above */
    for (uint32_t s = op->place.me; s < slices; s += op->place.n) {
        while (chunks < CHUNKS_PER_STEP && work_on(op, work, s)) {
            chunks++;
        }
    }
    /* no hint: a slice that has nothing for now may have something later */
    for (uint32_t i = 1; i < slices; i++) {
        uint32_t s = (op->place.me + i) % slices;
        while (chunks < CHUNKS_PER_STEP && work_on(op, work, s)) {
            chunks++;
        }
    }
    ucc_status_t status;
    if (hd_engine_has_ended(op, &status)) {
        return status;
    }
    op->task.awaited = NULL; /* units may become ready before the end does */
    return UCC_INPROGRESS;
}

ucc_status_t hd_engine_work(hd_op_t *op) {
    view_t view;
    const hd_work_t *work = work_seen(op, &view);
    ucc_status_t status = hd_op_is_flat(op) ? work_flat(op, work) : work_deep(op, work);
    op->exposed = status == UCC_INPROGRESS;
    return status;
}

ucc_status_t hd_engine_step(hd_op_t *op) {
    ucc_status_t status = hd_arrived(op);
    if (status != UCC_OK) {
        return status;
    }
    op->phase = HD_PHASE_LOCAL;
    return hd_engine_work(op);
}

ucc_status_t hd_engine_after_lanes(hd_op_t *op, hd_take_fn take) {
    ucc_status_t status = hd_op_take_lanes(op, take);
    if (status != UCC_OK) {
        return status;
    }
    if (!op->any_direct) {
        op->exposed = false; /* nobody has work on my buffers */
        return UCC_OK;
    }
    op->phase = HD_PHASE_LOCAL;
    op->wait = hd_engine_work;
    return hd_engine_work(op);
}

/* --- cancelling ------------------------------------------------------------------------------- */

ucc_status_t hd_engine_cancel(hd_op_t *op, ucc_status_t why) {
    hd_group_poison(op->group, why);
    hd_work_t *work = work_of(op);
    if (hd_group_is_inherited(op->group)) { /* peers at work are at work in the parent */
        op->exposed = false;
        return why;
    }
    for (uint32_t s = 0; s < op->plan.slices; s++) {
        if (!hd_slice_close(op, &work->slice[s], s)) {
            return UCC_INPROGRESS;
        }
    }
    op->exposed = false;
    return why;
}
