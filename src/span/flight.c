/* flight.c: how the operations of a team of several processes live, if they are not swaps: the
 * stage that shm calls (shm/outer.h), and the steps of a flight's legs, which the network calls
 * (net/net.h). internal.h has the structures.
 *
 *   a member   has its plan (hd_flight_plan) and its start (hd_flight_follow) from init; its start
 *              publishes, as any operation's does
 *   `arrived`  is called by the completer of the local arrival. It sets the flight up, claims a
 *              unit for each leg (a small flight holds the exchange instead), releases the members
 *              of a work flight, and hands the legs to the network
 *   `step`     of a leg is called by whoever pumps. It waits for the slices that the leg needs,
 *              lets the leg go on, makes ready what follows, and ends by finishing the unit or by
 *              the release
 *   `closed`   is called when the exchange has failed. It tells the other processes, and sets
 *              `closing`, at which the legs cancel
 *
 * Each leg keeps the group from `arrived` on, and gives that up in its last step. This is under the
 * lane's lock, where the group must not end, because its end destroys a team of the net's; so the
 * reference is noted with the crossing and given up by whoever has pumped (hd_span_drain).
 */
#include "span/internal.h"

#include <string.h>

/* --- memory ----------------------------------------------------------------------------------- */

static void free_flight(hd_outer_memory_t *memory) {
    hd_flight_t *f = (hd_flight_t *)(void *)memory;
    for (uint32_t j = 0; j < HD_FLIGHT_SEGMENTS; j++) {
        hd_free(f->segment[j].scratch.at); /* legs that have failed keep theirs */
    }
    hd_free(f->own.at);
    hd_free(f->legs_own.at);
    hd_free(f->pieces);
    hd_free(f->data);
    hd_free(f);
}

/* Returns the flight of this exchange's slot, which is made at the first call. Called by the
 * completer, so by one thread at a time. NULL: no memory (logged). */
static hd_flight_t *take_flight(hd_op_t *op) {
    hd_assert(op->completer);
    hd_flight_t *f = hd_flight_of(op);
    if (f) {
        return f;
    }
    f = hd_alloc(HD_LINE_PAIR, sizeof(*f));
    if (!f) {
        hd_error("%s: no memory for what crosses processes", hd_op_type_name(op));
        return NULL;
    }
    f->memory.release = free_flight;
    hd_outer_memory_t *none = NULL;
    /* acq_rel: publishes the flight */
    if (!atomic_compare_exchange_strong_explicit(&op->exchange->flight, &none, &f->memory,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        free_flight(&f->memory);
        f = (hd_flight_t *)(void *)none;
    }
    return f;
}

enum { KEPT_SCRATCH = 4 * 1024 };

/* Makes sure that `scratch` has room for so many bytes. Up to KEPT_SCRATCH, memory stays with the
 * flight; more is freed as soon as a call needs no more than KEPT_SCRATCH, because a slot that has
 * seen one large call must not keep its memory. */
static ucc_status_t take_scratch(const hd_flight_t *f, hd_scratch_t *scratch, size_t bytes) {
    if (bytes <= scratch->room && (scratch->room <= KEPT_SCRATCH || bytes > KEPT_SCRATCH)) {
        return UCC_OK;
    }
    hd_free(scratch->at);
    scratch->at = bytes ? hd_alloc(HD_LINE_PAIR, bytes) : NULL;
    scratch->room = scratch->at ? bytes : 0;
    if (bytes && !scratch->at) {
        hd_error("%s: no memory for %zu bytes of other processes'", hd_type_name(f->call.type),
                 bytes);
        return UCC_ERR_NO_MEMORY;
    }
    return UCC_OK;
}

/* --- combining -------------------------------------------------------------------------------- */

void hd_flight_make_partial(hd_reducer_t *reducer) {
    if (reducer->root != reducer->inner) {
        reducer->root = reducer->inner;
        reducer->stream = NULL;
    }
}

/* A leg's `combine` (net/net.h): combines at once, or asks the slice COMBINE to, and returns
 * UCC_INPROGRESS until that is finished. Under the lane's lock. */
static ucc_status_t combine(hd_leg_t *leg, uint32_t k, const void *const *operand, void *dst,
                            size_t first, size_t count, bool last) {
    (void)first; /* operands and dst begin there already */
    hd_segment_t *s = (hd_segment_t *)(void *)leg;
    hd_flight_t *f = s->flight;
    if (!leg->call.parallel) {
        hd_reducer_t reducer = f->reducer;
        if (!last) {
            hd_flight_make_partial(&reducer);
        }
        return hd_reduce_tree(&reducer, k, operand, 0, 1, &dst, 0, count, HD_STORES_PLAIN);
    }
    uint32_t slice = hd_slice_of(&f->plan, HD_COMBINE, s->index);
    if (!s->asked) {
        s->asked = true;
        s->operand = operand;
        s->k = k;
        s->dst = dst;
        s->count = count;
        (void)hd_outer_ready(&f->ref, slice, UINT32_MAX);
    }
    return hd_outer_slice_is_finished(&f->ref, slice) ? UCC_OK : UCC_INPROGRESS;
}

/* Takes a leg's scratch from the pool if it is large, so that it goes from leg to leg. plan_legs
 * places smaller scratch in legs_own. */
static ucc_status_t take_leg_scratch(hd_segment_t *s, size_t bytes) {
    if (bytes <= KEPT_SCRATCH) {
        return UCC_OK;
    }
    s->scratch = hd_pool_take(&s->flight->crossing->pool, bytes);
    s->leg.call.scratch = s->scratch.at;
    if (!s->scratch.at) {
        hd_error("%s: no memory for %zu bytes of other processes'",
                 hd_type_name(s->flight->call.type), bytes);
        return UCC_ERR_NO_MEMORY;
    }
    return UCC_OK;
}

/* Takes the passage's memory. If the passage lends it, large memory comes from the pool and goes
 * from flight to flight as a leg's does, because it is in the caches. */
static ucc_status_t take_own(hd_flight_t *f, size_t bytes) {
    if (!f->passage->lends || bytes <= KEPT_SCRATCH) {
        return take_scratch(f, &f->own, bytes);
    }
    hd_free(f->own.at);
    f->own = hd_pool_take(&f->crossing->pool, bytes);
    if (!f->own.at) {
        hd_error("%s: no memory for %zu bytes of this process's", hd_type_name(f->call.type),
                 bytes);
        return UCC_ERR_NO_MEMORY;
    }
    return UCC_OK;
}

/* Called when the leg of a segment has ended well. After the last one, nobody touches the passage's
 * memory any more: what LOCAL writes there was finished before the legs began, and a leg that asks
 * COMBINE waits for it. A passage that lends its memory gives it back then. */
static void give_own(hd_flight_t *f) {
    /* acq_rel: the last takes in what the others have done with the memory */
    uint32_t lasting = atomic_fetch_sub_explicit(&f->lasting, 1, memory_order_acq_rel);
    bool last = lasting == 1;
    hd_assert(lasting >= 1 && lasting <= f->plan.segments);
    if (last && f->passage->lends && f->own.room > KEPT_SCRATCH) {
        hd_pool_give(&f->crossing->pool, f->own);
        f->own = (hd_scratch_t){NULL, 0};
    }
}

/* Gives a leg's scratch back. The leg has ended well, or has not begun. A leg that has failed keeps
 * its scratch as long as the flight lives, because a member may still be combining what lies
 * there. */
static void give_leg_scratch(hd_segment_t *s) {
    hd_pool_give(&s->flight->crossing->pool, s->scratch);
    s->scratch = (hd_scratch_t){NULL, 0};
}

/* --- the steps of a leg, under its lane's lock ------------------------------------------------ */

/* Lets the leg go on, if it has begun or may begin; cancels it if the exchange has failed. Returns
 * UCC_INPROGRESS, or how the leg has ended. */
static ucc_status_t advance(hd_segment_t *s, bool may_begin) {
    hd_flight_t *f = s->flight;
    /* acquire: pairs with closed */
    int32_t closing = atomic_load_explicit(&f->closing, memory_order_acquire);
    if (closing) {
        return hd_leg_cancel(&s->leg, (ucc_status_t)closing);
    }
    s->begun = s->begun || may_begin;
    return s->begun ? hd_leg_go(&s->leg) : UCC_INPROGRESS;
}

/* Do all processes know the team? */
static bool is_greeted(const hd_flight_t *f) {
    /* relaxed: what the greeting has done is the network's state, whose lock is held */
    return atomic_load_explicit(&f->crossing->greeted, memory_order_relaxed) == HD_GREETED;
}

/* The step of a small flight's leg; true: it is over. */
static bool step_small(hd_leg_t *leg) {
    hd_segment_t *s = (hd_segment_t *)(void *)leg;
    hd_flight_t *f = s->flight;
    ucc_status_t status = advance(s, is_greeted(f));
    if (status == UCC_INPROGRESS) {
        return false;
    }
    if (status == UCC_OK) {
        give_leg_scratch(s);
    }
    hd_crossing_t *crossing = f->crossing;
    hd_exchange_ref_t ref = f->ref;
    bool brings = hd_coll[f->call.type].reducing && !f->call.empty;
    if (status != UCC_OK) {
        hd_group_poison(crossing->group, status);
    }
    (void)hd_outer_release(&ref, status, f->result, brings ? f->call.bytes : 0);
    hd_outer_drop(&ref); /* the flight may be another's from here on */
    hd_span_defer_unref(crossing);
    return true;
}

/* Is slice s of the flight finished? */
static bool is_over(const hd_flight_t *f, uint32_t s) {
    return hd_outer_slice_is_finished(&f->ref, s);
}

/* May the leg of a work flight begin? */
static bool may_begin(const hd_segment_t *s) {
    const hd_flight_t *f = s->flight;
    if (s == &f->exit) { /* the exit begins after all other slices */
        bool over = true;
        for (uint32_t i = 0; over && i < hd_slice_exit(&f->plan); i++) {
            over = is_over(f, i);
        }
        return over;
    }
    return is_greeted(f) &&
           (!f->passage->needs_local(f) || (is_over(f, hd_slice_of(&f->plan, HD_LOCAL, s->index)) &&
                                            (!f->passage->is_filled || f->passage->is_filled(s))));
}

/* The step of a leg of a work flight; true: it is over. */
static bool step_work(hd_leg_t *leg) {
    hd_segment_t *s = (hd_segment_t *)(void *)leg;
    hd_flight_t *f = s->flight;
    ucc_status_t status = advance(s, s->begun || may_begin(s));
    if (status == UCC_INPROGRESS) {
        return false;
    }
    bool exits = s == &f->exit;
    hd_assert(s->begun || status != UCC_OK);
    if (status == UCC_OK) {
        give_leg_scratch(s);
    }
    if (status == UCC_OK && !exits) {
        give_own(f);
    }
    hd_crossing_t *crossing = f->crossing;
    hd_exchange_ref_t ref = f->ref;
    uint32_t slice = exits ? hd_slice_exit(&f->plan) : hd_slice_of(&f->plan, HD_NET, s->index);
    if (status == UCC_OK && !exits) {
        if (!s->asked) {
            (void)hd_outer_ready(&ref, hd_slice_of(&f->plan, HD_COMBINE, s->index), UINT32_MAX);
        }
        (void)hd_outer_ready(&ref, hd_slice_of(&f->plan, HD_SPREAD, s->index), UINT32_MAX);
    }
    (void)hd_outer_finish(&ref, slice, s->unit,
                          status); /* the flight may be another's from here on */
    hd_span_defer_unref(crossing);
    return true;
}

/* --- departure: by the completer of the arrival ----------------------------------------------- */

/* Returns the name that all processes know the exchange by. */
static hd_net_key_t key_of(const hd_op_t *op, const hd_span_t *span) {
    static const uint8_t class_of[] = {
        [HD_MATCH_NUMBERED] = HD_NET_NUMBERED,
        [HD_MATCH_TAG] = HD_NET_TAG,
        [HD_MATCH_INIT] = HD_NET_INIT,
        [HD_MATCH_PERSISTENT] = HD_NET_PERSISTENT,
        [HD_MATCH_ACTIVE_SET] = HD_NET_ACTIVE_SET,
    };
    hd_exchange_name_t name = hd_op_exchange_name(op);
    return (hd_net_key_t){.number = name.key,
                          .ordinal = name.ordinal,
                          .subset = span->set_hash,
                          .class = class_of[name.class]};
}

/* Sets a leg up, but for its plan and what the passage prepares. */
static void set_leg(hd_segment_t *s, hd_op_t *op, uint32_t segment, bool (*step)(hd_leg_t *)) {
    hd_flight_t *f = s->flight;
    const hd_span_t *span = f->span;
    const hd_coll_t *coll = &hd_coll[f->call.type];
    s->index = segment;
    s->leg = (hd_leg_t){
        .team = f->crossing->team,
        .key = key_of(op, span),
        .segment = segment,
        .step = step,
        .call = {.type = f->plan.leg,
                 .n = span->processes,
                 .me = span->mine,
                 .root = coll->rooted && !f->call.empty ? span->process_of[f->call.root] : 0,
                 .process = span->team_process,
                 .signature = f->call.signature,
                 .element = f->call.element,
                 .parallel = f->plan.parallel,
                 .combine = combine},
    };
}

/* Sets what does not depend on the kind of flight. An error fails the team. */
static ucc_status_t set_up(hd_flight_t *f, hd_op_t *op, const hd_exchange_ref_t *ref) {
    f->crossing = hd_group_crossing(op->group);
    f->span = op->span;
    f->ref = *ref;
    f->call = op->call;
    f->n = op->place.n;
    hd_assert_eq(f->n, hd_span_count(f->span, f->span->mine));
    f->two_sided = op->group->two_sided;
    f->plan = op->plan;
    /* relaxed: published with the key */
    atomic_store_explicit(&f->closing, 0, memory_order_relaxed);
    if (!hd_coll[f->call.type].reducing || f->call.empty) {
        return UCC_OK;
    }
    const hd_reducer_t *given = &op->call.reducer;
    return hd_reducer_init(&f->reducer, given->dt, given->op, op->n);
}

/* Lets `closed` find the flight from here on. */
static void announce(hd_flight_t *f, const hd_op_t *op) {
    /* release: publishes the flight; pairs with closed */
    atomic_store_explicit(&f->key, hd_outer_key(op), memory_order_release);
}

static size_t lines_of(size_t bytes) {
    return (bytes + HD_LINE - 1) & ~(size_t)(HD_LINE - 1);
}

/* Plans the legs, whose calls are set, and gives them the scratch memory that they need. An error
 * has been logged. */
static ucc_status_t plan_legs(hd_flight_t *f, uint32_t legs) {
    size_t bytes = 0;
    ucc_status_t status = UCC_OK;
    for (uint32_t j = 0; j < legs && status == UCC_OK; j++) {
        hd_leg_t *leg = &f->segment[j].leg;
        leg->plan = hd_flight_leg_plan(f->crossing->team, f->span, &f->call, &f->plan, &leg->call);
        size_t needs = lines_of(hd_net_scratch(&leg->call, &leg->plan));
        bytes += needs <= KEPT_SCRATCH ? needs : 0;
        status = take_leg_scratch(&f->segment[j], needs);
    }
    if (status == UCC_OK) {
        status = take_scratch(f, &f->legs_own, bytes);
    }
    uint8_t *at = f->legs_own.at;
    for (uint32_t j = 0; j < legs && status == UCC_OK; j++) {
        hd_leg_t *leg = &f->segment[j].leg;
        size_t needs = lines_of(hd_net_scratch(&leg->call, &leg->plan));
        if (needs <= KEPT_SCRATCH) {
            leg->call.scratch = needs ? at : NULL;
            at += needs;
        }
    }
    return status;
}

/* Starts the leg of a small flight. payload: the combined operands; NULL: the call has none. */
static void depart_small(hd_op_t *op, hd_flight_t *f, const void *payload) {
    hd_segment_t *s = &f->segment[0];
    s->flight = f; /* a small flight uses only these fields and the leg */
    s->begun = false;
    s->scratch = (hd_scratch_t){NULL, 0};
    set_leg(s, op, 0, step_small);
    hd_assert_eq(payload != NULL, hd_coll[f->call.type].reducing && !f->call.empty);
    if (payload) {
        hd_assert_le(f->call.bytes, HD_FLIGHT_PAYLOAD);
        memcpy(f->operand, payload, f->call.bytes);
        s->leg.call.operand = f->operand;
        s->leg.call.result = f->result;
        s->leg.call.count = f->call.bytes / f->call.element;
    }
    ucc_status_t status = plan_legs(f, 1);
    if (status != UCC_OK) {
        give_leg_scratch(s);
        hd_group_poison(op->group, status);
        return;
    }
    if (!hd_outer_hold(&f->ref)) {
        give_leg_scratch(s);
        return; /* a member has cancelled the exchange, and the others will */
    }
    hd_home_pin(&op->group->home);
    announce(f, op);
    hd_leg_start(&s->leg);
}

/* Claims a unit for each leg, and for the exit in a two-sided group. False: the exchange is closed,
 * and the units that were claimed are finished again. */
static bool claim_units(hd_flight_t *f) {
    uint32_t legs = f->plan.segments;
    for (uint32_t j = 0; j < legs; j++) {
        if (!hd_outer_claim(&f->ref, hd_slice_of(&f->plan, HD_NET, j), &f->segment[j].unit)) {
            for (uint32_t i = 0; i < j; i++) {
                (void)hd_outer_finish(&f->ref, hd_slice_of(&f->plan, HD_NET, i), f->segment[i].unit,
                                      UCC_ERR_NO_MESSAGE);
            }
            return false;
        }
        hd_assert_eq(f->segment[j].unit, 0); /* a slice NET has one unit */
    }
    if (f->two_sided && !hd_outer_claim(&f->ref, hd_slice_exit(&f->plan), &f->exit.unit)) {
        for (uint32_t i = 0; i < legs; i++) {
            (void)hd_outer_finish(&f->ref, hd_slice_of(&f->plan, HD_NET, i), f->segment[i].unit,
                                  UCC_ERR_NO_MESSAGE);
        }
        return false;
    }
    return true;
}

/* Prepares all that the legs and the slices need. The units are claimed, so other members' calls
 * may be read. An error has been logged. */
static ucc_status_t prepare_legs(hd_flight_t *f) {
    ucc_status_t status = take_own(f, f->passage->scratch ? f->passage->scratch(f) : 0);
    /* relaxed: published with the legs */
    atomic_store_explicit(&f->lasting, f->plan.segments, memory_order_relaxed);
    for (uint32_t j = 0; j < f->plan.segments && status == UCC_OK; j++) {
        status = f->passage->prepare(&f->segment[j]);
    }
    return status == UCC_OK ? plan_legs(f, f->plan.segments) : status;
}

/* Releases the members of a work flight and starts its legs. After an error, the legs start all the
 * same, and find `closing` set. */
static void depart_work(hd_op_t *op, hd_flight_t *f) {
    hd_assert(op->plan.row && op->plan.slices == hd_flight_slices(op, &op->plan));
    f->passage = (const hd_passage_t *)(const void *)op->plan.row;
    f->relay = NULL;
    for (uint32_t j = 0; j < f->plan.segments; j++) {
        f->segment[j] = (hd_segment_t){.flight = f};
        set_leg(&f->segment[j], op, j, step_work);
    }
    f->exit = (hd_segment_t){.flight = f};
    set_leg(&f->exit, op, HD_FLIGHT_SEGMENTS, step_work);
    f->exit.leg.call.type = HD_BARRIER;
    if (!claim_units(f)) {
        return;
    }
    f->exit.leg.plan = hd_net_plan_of(f->crossing->team, &f->exit.leg.call, 0);
    ucc_status_t status = prepare_legs(f);
    if (status != UCC_OK) {
        hd_group_poison(op->group, status);
        atomic_store_explicit(&f->closing, (int32_t)status,
                              memory_order_relaxed); /* relaxed: announce publishes it */
    }
    /* each leg keeps the group, because it rings the group's bell when it ends, however late and on
     * whichever lane */
    for (uint32_t legs = f->plan.segments + (f->two_sided ? 1u : 0); legs; legs--) {
        hd_home_pin(&op->group->home);
    }
    announce(f, op);
    if (status == UCC_OK) {
        (void)hd_outer_release(&f->ref, UCC_OK, NULL, 0);
    }
    bool exits = f->two_sided; /* the flight may be over as soon as its last leg is started */
    for (uint32_t j = f->plan.segments; j-- > 0;) {
        hd_segment_t *s = &f->segment[j];
        if (j == 0 && exits) {
            hd_leg_start(&f->exit.leg);
        }
        hd_leg_start(&s->leg);
    }
}

/* --- the stage -------------------------------------------------------------------------------- */

static void arrived(hd_op_t *op, const hd_exchange_ref_t *ref, ucc_status_t status,
                    const void *payload) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    hd_flight_t *f = status == UCC_OK ? take_flight(op) : NULL;
    if (status == UCC_OK) {
        status = f ? set_up(f, op, ref) : UCC_ERR_NO_MEMORY;
    }
    if (status != UCC_OK) { /* the members find the group poisoned, and cancel */
        hd_group_poison(op->group, status);
        hd_crossing_abort(crossing, status);
    } else if (op->plan.path == HD_PATH_TREE) {
        depart_small(op, f, payload);
    } else {
        depart_work(op, f);
    }
}

/* Waits a leg of the operation's flight for a device? Nothing announces that it is done. */
static bool waits_for_device(const hd_op_t *op) {
    const hd_passage_t *passage = (const hd_passage_t *)(const void *)op->plan.row;
    return op->outer_shape & HD_OUTER_WORKS && passage && passage->is_filled;
}

uint8_t hd_flight_pump(hd_op_t *op) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    if (hd_group_is_complete(op->group)) {
        (void)hd_net_pump(crossing->net);
    } else {
        hd_crossing_pump(crossing);
    }
    hd_span_drain();
    return waits_for_device(op) ? HD_UNANNOUNCED : HD_IMPATIENT;
}

static void closed(hd_op_t *op, ucc_status_t why) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    hd_flight_t *f = hd_flight_of(op);
    hd_crossing_abort(crossing, why);
    /* acquire: pairs with announce. The flight may be about to be announced; then the next call of
     * this function, in the member's next step, finds it */
    if (f && atomic_load_explicit(&f->key, memory_order_acquire) == hd_outer_key(op)) {
        /* release: pairs with advance, though only the value matters */
        atomic_store_explicit(&f->closing, (int32_t)why, memory_order_release);
    }
    (void)hd_flight_pump(op);
}

/* --- operations ------------------------------------------------------------------------------- */

ucc_status_t hd_flight_start_small(hd_op_t *op) {
    return hd_outer_start(op, hd_flight_small_shape(op));
}

static const hd_passage_t *const passages[HD_N_TYPES] = {
    [HD_ALLGATHER] = &hd_passage_allgather,
    [HD_ALLGATHERV] = &hd_passage_allgather,
    [HD_ALLREDUCE] = &hd_passage_allreduce,
    [HD_ALLTOALL] = &hd_passage_alltoall,
    [HD_ALLTOALLV] = &hd_passage_alltoall,
    [HD_BCAST] = &hd_passage_bcast,
    [HD_GATHER] = &hd_passage_gather,
    [HD_GATHERV] = &hd_passage_gather,
    [HD_REDUCE] = &hd_passage_reduce,
    [HD_REDUCE_SCATTER] = &hd_passage_reduce_scatter,
    [HD_REDUCE_SCATTERV] = &hd_passage_reduce_scatter,
    [HD_SCATTER] = &hd_passage_scatter,
    [HD_SCATTERV] = &hd_passage_scatter,
    [HD_MCAST] = &hd_passage_bcast,
    [HD_SCAN] = &hd_passage_scan,
    [HD_EXSCAN] = &hd_passage_scan,
};

const hd_work_row_t *hd_flight_row(uint8_t type) {
    return passages[type] ? &passages[type]->row : NULL;
}

static ucc_status_t start_work(hd_op_t *op) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    const void *src = coll->source == HD_WHOLE && !coll->bcast ? hd_call_operand(call) : call->src;
    return hd_outer_start_work(op, src, call->dst);
}

const hd_outer_t hd_flight_stage = {
    .arrived = arrived, .pump = hd_flight_pump, .closed = closed, .phases = hd_flight_phases};

void hd_flight_follow(hd_op_t *op) {
    hd_flight_make_partial(&op->call.reducer);
    op->outer = &hd_flight_stage;
    op->start = op->plan.path == HD_PATH_TREE ? hd_flight_start_small : start_work;
}
