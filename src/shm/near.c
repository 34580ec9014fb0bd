/* near.c: the DIRECT regime among members of several processes (or mappings) whose buffers lie in
 * heaps that all of them have mapped: the engine's work (engine.c, work.c), on addresses of each
 * process's own.
 *
 * A member shows where its buffers are in its lane, or, on the path MIXED, in its slice, as words
 * of reach.h, with the heaps that its process reaches; in any exchange that may go by windows
 * (far.c), so that a slice never tells of an older one. Who has seen all arrive compares: the
 * exchange is NEAR if all words are heaps', and each heap is in reach of every process. All
 * members see the same words, so all decide alike. If it is not, it goes by windows, and what was
 * not in reach is asked for.
 *
 * The first of a process to decide translates all words, for all of that process (hd_far_t.work).
 * Of a v type, a member also shows its counts and displacements, as they are read by whoever copies
 * (hd_work_rows): calls of other processes are made up of those.
 *
 * Buffers that lie in no heap are near by XPMEM, where all processes have it: a process shows its
 * memory in blocks of addresses (node/xpmem.h), which are heaps but for two things. They vanish
 * when their owner ends, so that units run caught (core/fault.h); and what devices have, or a
 * program keeps for itself, the kernel does not let others have, so that a buffer is looked at
 * before it is shown.
 *
 * Cancelling differs from the engine's in that a process may die while one of its threads has
 * claimed units: these never finish. A member says that it is INSIDE before it claims anything, and
 * that it is not when that is finished. Who cancels closes the slices; then it waits until all
 * claimed units are finished, or no member of a process that lives is inside: whoever claims later
 * finds the slices closed, and whoever claimed before was inside when it did, which who closes sees
 * (tests/model/near_cancel_model.c).
 */
#include "shm/near.h"

#include "core/copy.h"
#include "core/fault.h"
#include "shm/claim.h"
#include "shm/leaning.h"
#include "shm/reach.h"
#include "threads/callback.h"
#include "threads/trace.h"

enum { CHUNKS_PER_STEP = 64 };

static const hd_coll_t *coll_of(const hd_op_t *op) {
    return &hd_coll[op->call.type];
}

static hd_work_t *slices_of(const hd_op_t *op) {
    /* acquire: pairs with who installs it; somebody has (hd_near_register) */
    return atomic_load_explicit(&op->slot->work, memory_order_acquire);
}

/* Which of the two ways op's plan describes at the moment. */
static void plan_near(hd_op_t *op, hd_far_t *far) {
    /* relaxed, both: mine, or, of the same exchange, the same; all of this process's have written
       them before they published */
    op->plan.window = atomic_load_explicit(&far->near_window, memory_order_relaxed);
    op->plan.slices = atomic_load_explicit(&far->near_slices, memory_order_relaxed);
}

static void cut_near(hd_op_t *op, hd_far_t *far) {
    hd_plan_cut_near(op, &op->plan.window, &op->plan.slices);
    atomic_store_explicit(&far->near_window, op->plan.window, memory_order_relaxed); /* see above */
    atomic_store_explicit(&far->near_slices, op->plan.slices, memory_order_relaxed);
}

static void plan_far(hd_op_t *op) {
    op->plan.window = hd_far_window(op->group, &op->call, op->place.n);
    op->plan.slices = 0;
}

/* --- counts ----------------------------------------------------------------------------------- */

/* Shared: what others need of a member's call of a v type. `word` has counts and displacements of
 * what it sends, then of what it receives; n each. */
typedef struct shown {
    uint64_t bytes, element, send_element, total;
    uint64_t word[];
} shown_t;

static size_t shown_bytes(uint32_t n) {
    return sizeof(shown_t) + 4 * (size_t)n * sizeof(uint64_t);
}

/* Do units of this type look at calls of other members? (A reduce_scatterv's go by the claimer's,
 * whose counts are the same.) */
static bool shows_calls(const hd_op_t *op) {
    return coll_of(op)->vector && !coll_of(op)->reducing;
}

static const shown_t *shown_at(const hd_op_t *op, uint64_t at) {
    const hd_mapping_t *mapping = &op->group->mapping;
    size_t bytes = shown_bytes(op->place.n);
    bool fine = at % sizeof(uint64_t) == 0 && at < mapping->bytes && mapping->bytes - at >= bytes;
    return fine ? (const shown_t *)(const void *)(mapping->base + at) : NULL;
}

/* Where I show mine, in this slot of the ring; NULL: there is no memory left for that. */
static shown_t *place_to_show(const hd_op_t *op, hd_far_t *far) {
    uint64_t *at = &far->vectors[op->place.me];
    if (!*at) {
        uint8_t *given = hd_mapping_give(op->group, shown_bytes(op->place.n));
        *at = given ? (uint64_t)(given - op->group->mapping.base) : 0;
    }
    return *at ? (shown_t *)(void *)(op->group->mapping.base + *at) : NULL;
}

/* How far blocks of so large elements reach, from the buffer's beginning; SIZE_MAX: to somewhere
 * else. */
static size_t show_blocks(uint64_t *word, const hd_vector_t *v, size_t element, uint32_t n) {
    uint64_t at = 0, end, most = 0, bytes;
    for (uint32_t i = 0; i < n; i++) {
        word[i] = hd_vector_count(v, i);
        word[n + i] = v->displacements ? hd_vector_displacement(v, i) : at;
        at += word[i];
        if (word[i] == 0) {
            continue;
        }
        if (__builtin_add_overflow(word[n + i], word[i], &end) ||
            __builtin_mul_overflow(end, element, &bytes)) {
            return SIZE_MAX;
        }
        most = bytes > most ? bytes : most;
    }
    return (size_t)most;
}

typedef struct extents {
    size_t src, dst;
} extents_t;

/* Whose call has blocks of what is sent, and of what is received. */
static bool sends_blocks(const hd_op_t *op) {
    return coll_of(op)->source == HD_VECTOR && !(coll_of(op)->pairwise && op->call.in_place) &&
           hd_holds(coll_of(op)->source_at, op->call.is_root, op->place.me);
}

static bool receives_blocks(const hd_op_t *op) {
    return coll_of(op)->result == HD_VECTOR &&
           hd_holds(coll_of(op)->result_at, op->call.is_root, op->place.me);
}

/* Shows my call; false: there is no memory for that. */
static bool show_call(const hd_op_t *op, hd_far_t *far, extents_t *reaches) {
    const hd_call_t *call = &op->call;
    uint32_t n = op->place.n;
    shown_t *shown = place_to_show(op, far);
    if (!shown) {
        return false;
    }
    shown->bytes = call->bytes;
    shown->total = call->total;
    shown->element = call->element;
    shown->send_element = call->send_element;
    if (sends_blocks(op)) {
        reaches->src = show_blocks(shown->word, &call->send,
                                   coll_of(op)->pairwise ? call->send_element : call->element, n);
    }
    if (receives_blocks(op)) {
        reaches->dst = show_blocks(shown->word + 2 * (size_t)n, &call->receive, call->element, n);
    }
    if (coll_of(op)->pairwise && call->in_place) {
        reaches->src = reaches->dst;
    }
    return true;
}

/* A call of another process, as it is shown. */
static hd_call_t call_shown(const hd_op_t *op, const shown_t *shown) {
    const uint64_t *word = shown->word;
    uint32_t n = op->place.n;
    hd_call_t call = op->call;
    call.bytes = (size_t)shown->bytes;
    call.total = (size_t)shown->total;
    call.element = (size_t)shown->element;
    call.send_element = (size_t)shown->send_element;
    call.send = (hd_vector_t){word, word + n, true, true};
    call.receive = (hd_vector_t){word + 2 * (size_t)n, word + 3 * (size_t)n, true, true};
    return call;
}

/* --- showing ---------------------------------------------------------------------------------- */

static size_t extent_of(const hd_op_t *op, uint8_t extent) {
    const hd_call_t *call = &op->call;
    if (extent != HD_BLOCKS) {
        return call->bytes;
    }
    return coll_of(op)->vector ? call->total : call->bytes * op->place.n;
}

/* A buffer in no heap: where others may attach it. Not for reductions of users, which can't be left
 * in the middle if that memory vanishes. */
static uint64_t word_of_block(const hd_op_t *op, const void *at, size_t bytes) {
    hd_reach_t *reach = op->group->reach;
    bool can = bytes > 0 && hd_reach_has_blocks(reach) && !op->call.exclusive &&
               hd_pull_is_open(at, bytes);
    return can ? hd_reach_word_of_block(reach, at, bytes) : HD_REACH_FAR;
}

static uint64_t word_of(const hd_op_t *op, const void *at, size_t bytes) {
    if (!at && !coll_of(op)->vector) {
        return 0;
    }
    uint64_t word = bytes == SIZE_MAX ? HD_REACH_FAR : hd_reach_word(op->group->reach, at, bytes);
    return word == HD_REACH_FAR && bytes != SIZE_MAX ? word_of_block(op, at, bytes) : word;
}

/* Where the buffers are that others may work on. */
static hd_near_t buffers_of(const hd_op_t *op, const hd_far_t *far, const extents_t *reaches) {
    const hd_coll_t *coll = coll_of(op);
    uint32_t me = op->place.me;
    bool is_root = op->call.is_root;
    hd_near_t near = {.reach = hd_reach_usable(op->group->reach)};
    /* what my lane takes along is nobody's to read */
    bool read = hd_holds(coll->source_at, is_root, me) && op->plan.regime == HD_REGIME_DIRECT;
    bool written = coll->bcast || hd_holds(coll->result_at, is_root, me);
    near.src = read ? word_of(op, far->work.src[me], reaches->src) : 0;
    near.dst = written ? word_of(op, far->work.dst[me], reaches->dst) : 0;
    return near;
}

/* My slices, as the engine would have them. */
static void open_slices(hd_op_t *op, hd_far_t *far, const hd_work_t *work) {
    bool idle = op->call.type == HD_ALLTOALLV && op->plan.regime != HD_REGIME_DIRECT;
    cut_near(op, far);
    for (uint32_t s = op->place.me; s < op->plan.slices; s += op->place.n) {
        if (idle) {
            /* my lane has all that I send; what I get, I don't look into */
            hd_slice_set(&work->slice[s], op->plan.row->by_destination ? op->place.n : 1, 1, 1);
        } else {
            op->plan.row->layout(op, s, &work->slice[s]);
        }
        hd_slice_open(op, &work->slice[s]);
    }
    plan_far(op);
}

/* What I show of an exchange that is published, or about to be. */
static hd_near_t shown_by_me(const hd_op_t *op, const hd_slice_t *slice) {
    const hd_expose_t *e = &op->expose;
    return op->plan.path == HD_PATH_MIXED
               ? slice[op->place.me].near
               : (hd_near_t){(uintptr_t)e->src, (uintptr_t)e->dst, (uintptr_t)e->call};
}

/* All have arrived. */
static hd_near_t shown_by(const hd_op_t *op, const hd_slice_t *slice, uint32_t i) {
    if (op->plan.path == HD_PATH_MIXED) {
        return slice[i].near;
    }
    return i == op->place.me ? shown_by_me(op, slice)
                             : hd_board_lane(op->place.board, i, op->place.k)->near;
}

static void show(hd_op_t *op, hd_slice_t *slice, hd_near_t near) {
    if (op->plan.path == HD_PATH_MIXED) {
        slice->near = near;
        return;
    }
    op->expose = (hd_expose_t){(const void *)(uintptr_t)near.src, (void *)(uintptr_t)near.dst,
                               (const hd_call_t *)(uintptr_t)near.reach};
}

static bool is_far(hd_near_t near) {
    return near.src == HD_REACH_FAR || near.dst == HD_REACH_FAR;
}

ucc_status_t hd_near_register(hd_op_t *op, hd_far_t *far) {
    hd_work_t *work = hd_engine_work_of(op);
    uint32_t me = op->place.me;
    if (!work) {
        hd_error("%s: no memory for the work of %u endpoints", hd_op_type_name(op), op->place.n);
        return UCC_ERR_NO_MEMORY;
    }
    if (!hd_leaning_prepare(op)) {
        hd_error("%s: no memory for %u numbers", hd_op_type_name(op), op->place.board->depth);
        return UCC_ERR_NO_MEMORY;
    }
    if (op->plan.slices) {
        plan_far(op); /* the post before this one was near */
    }
    extents_t reaches = {extent_of(op, coll_of(op)->source), extent_of(op, coll_of(op)->result)};
    hd_slice_t *slice = &work->slice[me];
    bool can = !shows_calls(op) || show_call(op, far, &reaches);
    hd_near_t near = can ? buffers_of(op, far, &reaches) : (hd_near_t){.src = HD_REACH_FAR};
    show(op, slice, near);
    if (is_far(near)) {
        return UCC_OK;
    }
    slice->vectors = far->vectors[me];
    open_slices(op, far, work);
    if (me == 0) {
        /* relaxed: who used it last has consumed that number */
        atomic_store_explicit(&op->exchange->hint, 0, memory_order_relaxed);
    }
    return UCC_OK;
}

/* --- deciding --------------------------------------------------------------------------------- */

/* The heaps that an exchange needs, as bits. */
typedef struct need {
    bool far; /* a buffer lies in none */
    uint64_t slots;
} need_t;

static need_t need_of(const hd_op_t *op, const hd_slice_t *slice, uint64_t *reach) {
    need_t need = {0};
    *reach = UINT64_MAX;
    for (uint32_t i = 0; i < op->place.n; i++) {
        hd_near_t near = shown_by(op, slice, i);
        need.far = need.far || is_far(near);
        need.slots |= is_far(near) ? 0 : hd_reach_bit(near.src) | hd_reach_bit(near.dst);
        *reach &= near.reach;
    }
    return need;
}

/* Translates what a member of another process shows. False: it is not what it should be. */
static bool translate(const hd_op_t *op, hd_far_t *far, const hd_slice_t *slice, uint32_t i) {
    const hd_reach_t *reach = op->group->reach;
    hd_near_t near = shown_by(op, slice, i);
    far->work.src[i] = hd_reach_at(reach, near.src);
    far->work.dst[i] = hd_reach_at(reach, near.dst);
    bool fine = (!near.src || far->work.src[i]) && (!near.dst || far->work.dst[i]);
    if (shows_calls(op)) {
        const shown_t *shown = shown_at(op, slice[i].vectors);
        if (!shown) {
            return false;
        }
        far->shown[i] = call_shown(op, shown);
        far->work.call[i] = &far->shown[i];
    }
    return fine;
}

/* The exchange is near: this process finds all of it where it has that mapped. An error is its own
 * alone: the team fails. It does not go by windows instead, since the others count slices of
 * theirs. */
static ucc_status_t translate_all(const hd_op_t *op, hd_far_t *far, const hd_slice_t *slice) {
    if (shows_calls(op) && !far->shown) {
        far->shown = hd_alloc(HD_LINE, op->place.n * sizeof(*far->shown));
        if (!far->shown) {
            hd_error("%s: no memory for calls of %u endpoints", hd_op_type_name(op), op->place.n);
            return UCC_ERR_NO_MEMORY;
        }
    }
    for (uint32_t i = 0; i < op->place.n; i++) {
        bool is_other = op->group->home_of[hd_op_member(op, i)] != op->group->mapping.number;
        if (is_other && !translate(op, far, slice, i)) {
            hd_error("%s: endpoint %llu shows a buffer that is in no heap", hd_op_type_name(op),
                     (unsigned long long)hd_op_endpoint(op, i));
            return UCC_ERR_INVALID_PARAM;
        }
    }
    return UCC_OK;
}

/* Under far's lock. */
static void decide(const hd_op_t *op, hd_far_t *far) {
    const hd_slice_t *slice = slices_of(op)->slice;
    uint64_t reach;
    need_t need = need_of(op, slice, &reach);
    far->nearness = UCC_INPROGRESS;
    if (!need.far && (need.slots & ~reach) == 0) {
        far->vanishes = (need.slots & hd_reach_attached(op->group->reach)) != 0;
        far->nearness = translate_all(op, far, slice);
        if (far->nearness != UCC_OK) {
            hd_engine_note_failure(op->exchange, op->place.k, far->nearness);
            hd_group_poison(op->group, far->nearness);
        }
    } else if (!need.far || need.slots > 1) {
        hd_reach_want(op->group->reach, need.slots & ~hd_reach_slots(op->group->reach));
    }
    /* release: all of it; pairs with the acquire below */
    atomic_store_explicit(&far->decided, hd_far_key(op), memory_order_release);
}

static bool is_decided(const hd_op_t *op, const hd_far_t *far) {
    /* acquire: see decide */
    return atomic_load_explicit(&far->decided, memory_order_acquire) == hd_far_key(op);
}

static ucc_status_t nearness_of(const hd_op_t *op, hd_far_t *far) {
    if (is_far(shown_by_me(op, slices_of(op)->slice))) {
        return UCC_INPROGRESS;
    }
    if (!is_decided(op, far)) {
        hd_lock(&far->lock);
        if (!is_decided(op, far)) {
            decide(op, far);
        }
        hd_unlock(&far->lock);
    }
    return far->nearness;
}

#ifdef HD_TEST
_Atomic uint64_t hd_near_found;
#endif

ucc_status_t hd_near_begins(hd_op_t *op, hd_far_t *far) {
    ucc_status_t nearness = nearness_of(op, far);
    hd_leaning_note(op, nearness == UCC_OK);
    if (nearness != UCC_OK) {
        return nearness;
    }
#ifdef HD_TEST
    atomic_fetch_add_explicit(&hd_near_found, 1, memory_order_relaxed);
#endif
    plan_near(op, far);
    return UCC_OK;
}

/* --- working ---------------------------------------------------------------------------------- */

/* What a step works with. */
typedef struct step {
    hd_work_t work;
    bool is_inside; /* from the first unit that it finds to its end */
    bool catches;   /* units may touch memory that vanishes ... */
    sigset_t mask;  /* ... inside: the thread's signals */
} step_t;

/* Units of one slice that were claimed. */
typedef struct chunk {
    hd_op_t *op;
    const hd_work_t *work;
    uint32_t slice, first, taken;
} chunk_t;

static void begin_catching(const hd_op_t *op, step_t *step) {
    hd_fault_enter(&step->mask);
    if (!hd_fault_catches() && /* since this member has shown its buffers */
        hd_engine_note_failure(op->exchange, op->place.k, UCC_ERR_IO_ERROR)) {
        hd_error("%s: the program has taken SIGBUS for itself meanwhile", hd_op_type_name(op));
    }
}

/* See the head of this file. */
static void enter(const hd_op_t *op, step_t *step) {
    hd_shared_t *shared = op->place.member->shared;
    /* relaxed: published by the claims that follow. Several threads may use this endpoint */
    atomic_fetch_add_explicit(&shared->inside, 1, memory_order_relaxed);
    atomic_store_explicit(&shared->at_work, 1, memory_order_relaxed); /* for people */
    hd_delay_point();
    if (step->catches) {
        begin_catching(op, step);
    }
    step->is_inside = true;
}

static void leave(const hd_op_t *op) {
    hd_shared_t *shared = op->place.member->shared;
    hd_delay_point();
    atomic_store_explicit(&shared->at_work, 0, memory_order_relaxed);
    /* release: my accesses are over; pairs with hd_near_is_quiet */
    atomic_fetch_sub_explicit(&shared->inside, 1, memory_order_release);
    hd_bell_ring(&op->group->home.bell); /* who waits for units, or cancels */
}

static void finish(hd_op_t *op, uint32_t s, hd_slice_t *slice, uint32_t taken) {
    uint32_t units = slice->units; /* while it is pinned */
    hd_delay_point();
    /* acq_rel: hands on my chunk's results; the last takes in all of the slice's */
    uint64_t before = atomic_fetch_add_explicit(&slice->finished, taken, memory_order_acq_rel);
    hd_assert(hd_is_generation(before, hd_op_generation(op)));
    if (before + taken == (hd_op_generation(op) | units)) {
        op->own_finished = op->own_finished || s == op->place.me;
        if (!hd_op_is_flat(op)) {
            hd_engine_slice_done(op->group, op->exchange, op->place.k, op->plan.slices);
        }
    }
}

static void run_chunk(void *arg) {
    const chunk_t *chunk = arg;
    for (uint32_t i = 0; i < chunk->taken; i++) {
        ucc_status_t status = hd_work_run(chunk->op, chunk->work, chunk->slice, chunk->first + i);
        if (status != UCC_OK) {
            hd_engine_note_failure(chunk->op->exchange, chunk->op->place.k, status);
        }
    }
}

/* Some of the buffers are memory of others, which vanishes when those end: then the exchange has
 * failed, as it would have by the news of that. What is left of it is not touched any more. */
static void run_chunk_caught(chunk_t *chunk) {
    hd_op_t *op = chunk->op;
    if (hd_engine_has_failed(op->exchange, op->place.k) || hd_fault_run(run_chunk, chunk)) {
        return;
    }
    hd_copy_fence(); /* what was written by streaming stores, before it is called finished */
    if (hd_engine_note_failure(op->exchange, op->place.k, UCC_ERR_IO_ERROR)) {
        hd_error("%s: buffers of another process are gone, as it has ended or unmapped them",
                 hd_op_type_name(op));
    }
}

/* By who is inside. */
static bool work_on_claimed(hd_op_t *op, const hd_work_t *work, uint32_t s, bool catches) {
    hd_slice_t *slice = &work->slice[s];
    chunk_t chunk = {.op = op, .work = work, .slice = s};
    uint32_t taken = chunk.taken = hd_slice_claim(op, slice, &chunk.first);
    if (!taken) {
        return false;
    }
    uint64_t began = hd_trace_is_on() ? hd_ticks() : 0;
    if (catches) {
        run_chunk_caught(&chunk);
    } else {
        run_chunk(&chunk);
    }
    if (began) {
        hd_trace_chunk(op, began, s, chunk.first, taken);
    }
    finish(op, s, slice, taken);
    return true;
}

typedef struct turn {
    hd_op_t *op;
    const hd_work_t *work;
    uint32_t slice;
    bool worked;
} turn_t;

static void take_turn(void *arg) {
    turn_t *turn = arg;
    turn->worked = work_on_claimed(turn->op, turn->work, turn->slice, false);
}

/* The user's reduction did not return: its unit counts as finished, and failed. */
static void abandon_turn(hd_task_t *task) {
    hd_op_t *op = (hd_op_t *)task;
    hd_engine_note_failure(op->exchange, op->place.k, UCC_ERR_NO_MESSAGE);
    hd_group_poison(op->group, UCC_ERR_NO_MESSAGE);
    finish(op, op->turn, &slices_of(op)->slice[op->turn], 1);
    hd_engine_end_turn(op);
    leave(op);
}

/* See engine.c. By who is inside. */
static __attribute__((noinline)) bool work_exclusively(hd_op_t *op, const hd_work_t *work,
                                                       uint32_t s) {
    turn_t turn = {.op = op, .work = work, .slice = s};
    if (hd_group_poisoned(op->group) != UCC_OK || !hd_lock_try(&op->exchange->turn)) {
        return false;
    }
    op->turn = s;
    hd_callback_run(&op->task, take_turn, &turn, abandon_turn);
    hd_engine_end_turn(op);
    return turn.worked;
}

static bool work_on(hd_op_t *op, step_t *step, uint32_t s) {
    const hd_slice_t *slice = &step->work.slice[s];
    /* acquire: only a look; the claim repeats it */
    uint64_t word = atomic_load_explicit(&slice->claim, memory_order_acquire);
    if (!hd_slice_claimable(hd_op_generation(op), slice, word)) {
        return false;
    }
    if (!step->is_inside) {
        enter(op, step);
    }
    return op->call.exclusive ? work_exclusively(op, &step->work, s)
                              : work_on_claimed(op, &step->work, s, step->catches);
}

/* Few members: my slice, then what the others have left of theirs; over when every slice says
 * so. */
static ucc_status_t work_flat(hd_op_t *op, step_t *step) {
    uint32_t slices = op->plan.slices, chunks = 0; /* bounded: others use this context, too */
    hd_slice_t *unfinished = NULL;
    while (op->place.me < slices && !op->own_finished && chunks < CHUNKS_PER_STEP &&
           work_on(op, step, op->place.me)) {
        chunks++;
    }
    for (uint32_t i = op->finished; i < slices; i++) {
        uint32_t s = (op->place.me + 1 + i) % slices;
        hd_slice_t *slice = &step->work.slice[s];
        while (!(op->own_finished && s == op->place.me) && !hd_slice_is_finished(op, slice)) {
            if (chunks == CHUNKS_PER_STEP || !work_on(op, step, s)) {
                unfinished = unfinished ? unfinished : slice;
                break;
            }
            chunks++;
        }
        op->finished += !unfinished;
    }
    if (!unfinished) {
        return hd_engine_status(op->group, op->exchange, op->place.k);
    }
    if (!op->call.exclusive && chunks < CHUNKS_PER_STEP) {
        op->task.awaited = &unfinished->finished;
        op->task.awaited_value = hd_op_generation(op) | unfinished->units;
    }
    return UCC_INPROGRESS;
}

/* Others' slices from the first on that may still have units. */
static bool steal(hd_op_t *op, step_t *step) {
    hd_exchange_t *x = op->exchange;
    uint32_t slices = op->plan.slices;
    /* relaxed: only a hint, checked by the claim itself */
    uint32_t hint = atomic_load_explicit(&x->hint, memory_order_relaxed);
    for (uint32_t s = hint; s < slices; s++) {
        if (work_on(op, step, s)) {
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

static ucc_status_t work_deep(hd_op_t *op, step_t *step) {
    bool own = op->place.me < op->plan.slices;
    uint32_t chunks = 0; /* as above */
    while (chunks < CHUNKS_PER_STEP &&
           ((own && work_on(op, step, op->place.me)) || (own = false, steal(op, step)))) {
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

ucc_status_t hd_near_work(hd_op_t *op) {
    const hd_far_t *far = hd_far_of(op);
    step_t step = {.work = far->work, .catches = far->vanishes};
    step.work.slice = slices_of(op)->slice;
    ucc_status_t status = hd_op_is_flat(op) ? work_flat(op, &step) : work_deep(op, &step);
    if (step.is_inside) {
        if (step.catches) {
            hd_fault_leave(&step.mask);
        }
        leave(op);
    }
    op->exposed = status == UCC_INPROGRESS;
    return status;
}

/* --- cancelling ------------------------------------------------------------------------------- */

/* Is a member inside whose process lives? */
static bool somebody_is_inside(const hd_op_t *op) {
    for (uint32_t i = 0; i < op->place.n; i++) {
        const hd_shared_t *shared = op->place.board->shared[i];
        /* acquire: pairs with leave */
        if (shared && atomic_load_explicit(&shared->inside, memory_order_acquire) != 0 &&
            !hd_reach_has_lost(op->group->reach, op->group->home_of[hd_op_member(op, i)])) {
            return true;
        }
    }
    return false;
}

bool hd_near_is_quiet(const hd_op_t *op) {
    const hd_work_t *work = slices_of(op);
    bool finished = true;
    size_t window;
    uint32_t slices;
    if (!work || is_far(shown_by_me(op, work->slice))) {
        return true; /* nobody has been shown anything */
    }
    hd_plan_cut_near(op, &window, &slices);
    for (uint32_t s = 0; s < slices; s++) {
        finished = hd_slice_close(op, &work->slice[s], s) && finished;
    }
    return finished || !somebody_is_inside(op);
}
