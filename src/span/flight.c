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
 *   `closed`   is called when the exchange has failed. It sets `closing`, at which the legs cancel
 *
 * Each leg keeps the group from `arrived` on, because it rings the group's bell when it ends,
 * however late and on whichever lane. It gives that up in its last step (hd_span_defer_unref).
 */
#include "span/internal.h"

#include <string.h>

/* --- memory ----------------------------------------------------------------------------------- */

static void free_flight(hd_outer_memory_t *memory) {
    hd_flight_t *f = (hd_flight_t *)(void *)memory;
    for (uint32_t j = 0; j <= HD_FLIGHT_SEGMENTS; j++) {
        hd_free(f->segment[j].scratch.at);
    }
    hd_free(f->own.at);
    hd_free(f->lists.at);
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
    /* release: publishes the flight; pairs with hd_flight_of */
    atomic_store_explicit(&op->slot->flight, &f->memory, memory_order_release);
    return f;
}

/* Up to KEPT_SCRATCH, memory stays with the flight. More comes from the crossing's pool: it goes
 * from leg to leg and from flight to flight, mapped and in the caches. */
enum { KEPT_SCRATCH = 4 * 1024 };

/* Gives large memory back to the pool, or frees it if the pool is full. */
static void give_memory(const hd_flight_t *f, hd_scratch_t *scratch) {
    hd_pool_t *pool = &f->crossing->pool;
    if (scratch->room <= KEPT_SCRATCH) {
        return;
    }
    hd_lock(&pool->lock);
    hd_assert(pool->n <= HD_POOL_BLOCKS && pool->bytes <= HD_POOL_BYTES);
    if (pool->n < HD_POOL_BLOCKS && pool->bytes + scratch->room <= HD_POOL_BYTES) {
        pool->block[pool->n++] = *scratch;
        pool->bytes += scratch->room;
        scratch->at = NULL;
    }
    hd_unlock(&pool->lock);
    hd_free(scratch->at);
    *scratch = (hd_scratch_t){NULL, 0};
}

/* Makes sure that `scratch` has room for so many bytes. A slot that has seen one large call does
 * not keep its memory when a call needs little. */
static ucc_status_t take_memory(const hd_flight_t *f, hd_scratch_t *scratch, size_t bytes) {
    hd_pool_t *pool = &f->crossing->pool;
    bool large = bytes > KEPT_SCRATCH;
    if (bytes <= scratch->room && (large || scratch->room <= KEPT_SCRATCH)) {
        return UCC_OK;
    }
    give_memory(f, scratch);
    hd_free(scratch->at);
    *scratch = (hd_scratch_t){NULL, 0};
    hd_lock(&pool->lock);
    /* the block that came last is the warmest; none is used that is much too large */
    for (uint32_t i = large ? pool->n : 0; i-- > 0 && !scratch->at;) {
        if (pool->block[i].room >= bytes && pool->block[i].room / 4 <= bytes) {
            *scratch = pool->block[i];
            pool->block[i] = pool->block[--pool->n];
            hd_assert_le(scratch->room, pool->bytes);
            pool->bytes -= scratch->room;
        }
    }
    hd_unlock(&pool->lock);
    if (!scratch->at) {
        scratch->at = hd_alloc(HD_LINE_PAIR, bytes);
        scratch->room = scratch->at ? bytes : 0;
    }
    if (scratch->room < bytes) {
        hd_error("%s: no memory for %zu bytes of what crosses processes",
                 hd_type_name(f->call.type), bytes);
        return UCC_ERR_NO_MEMORY;
    }
    return UCC_OK;
}

static size_t lines_of(size_t bytes) {
    return (bytes + HD_LINE - 1) & ~(size_t)(HD_LINE - 1);
}

/* Takes the passage's memory, and fills the table in. */
static ucc_status_t take_own(hd_flight_t *f) {
    const hd_passage_t *passage = f->passage;
    if (!passage->entry) {
        return UCC_OK;
    }
    uint32_t operands = hd_flight_operands(f), entries = passage->entries ? passage->entries(f) : 1;
    size_t list = lines_of(operands * sizeof(*f->operands)), bytes = 0;
    size_t table = lines_of((entries + (size_t)1) * sizeof(*f->table));
    for (uint32_t i = 0; i < entries; i++) {
        bytes += passage->entry(f, i);
    }
    ucc_status_t status = take_memory(f, &f->own, list + table + operands * bytes);
    if (status == UCC_OK) {
        f->operands = (const void **)(void *)f->own.at;
        f->table = (size_t *)(void *)(f->own.at + list);
        f->blocks = f->own.at + list + table;
        f->table[0] = 0;
    }
    for (uint32_t i = 0; i < entries && status == UCC_OK; i++) {
        f->table[i + 1] = f->table[i] + passage->entry(f, i);
    }
    return status;
}

/* Makes room for the pieces of all legs, and empties their lists. */
static ucc_status_t take_lists(hd_flight_t *f) {
    size_t lists = 2 * (size_t)f->span->processes, pieces = f->span->n;
    lists = lists > f->plan.segments ? lists : f->plan.segments;
    pieces *= hd_coll[f->call.type].pairwise ? 2 * (size_t)f->n : 1;
    pieces = pieces > f->plan.segments ? pieces : f->plan.segments;
    size_t bytes = lists * sizeof(*f->give) + pieces * sizeof(*f->piece);
    ucc_status_t status = take_memory(f, &f->lists, bytes);
    if (status == UCC_OK) {
        f->give = (hd_net_data_t *)(void *)f->lists.at;
        f->take = f->give + f->span->processes;
        f->piece = (hd_net_piece_t *)(void *)(f->give + lists);
        f->pieces = 0;
        memset(f->give, 0, lists * sizeof(*f->give));
    }
    return status;
}

/* --- combining -------------------------------------------------------------------------------- */

/* Makes the reducer one of partial results, which are not divided where the operation is an
 * average. */
static void make_partial(hd_reducer_t *reducer) {
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
            make_partial(&reducer);
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

/* --- the steps of a leg, under its lane's lock ------------------------------------------------ */

/* May a leg begin, which has not? The exit does after all other slices; the others if all processes
 * know the team, and what the leg reads is there. */
static bool may_begin(const hd_segment_t *s) {
    const hd_flight_t *f = s->flight;
    if (s->index == f->plan.segments) {
        uint32_t i = 0, exit = hd_slice_of(&f->plan, HD_NET, s->index);
        while (i < exit && hd_outer_slice_is_finished(&f->ref, i)) {
            i++;
        }
        return i == exit;
    }
    /* relaxed: what the greeting has done is the network's state, whose lock is held */
    return atomic_load_explicit(&f->crossing->greeted, memory_order_relaxed) == HD_GREETED &&
           (!f->passage || !f->passage->is_filled || f->passage->is_filled(s));
}

/* The leg of a small flight is over. */
static void end_small(const hd_flight_t *f, ucc_status_t status) {
    hd_exchange_ref_t ref = f->ref;
    bool brings = hd_coll[f->call.type].reducing && !f->call.empty;
    if (status != UCC_OK) {
        hd_group_poison(f->crossing->group, status);
    }
    (void)hd_outer_release(&ref, status, f->result, brings ? f->call.bytes : 0);
    hd_outer_drop(&ref); /* the flight may be another's from here on */
}

/* A leg of a work flight is over. After the last one with data, nobody touches the passage's memory
 * any more if it lends it: what LOCAL writes there was finished before the legs began, and a leg
 * that asks COMBINE waits for it. */
static void end_work(hd_segment_t *s, ucc_status_t status) {
    hd_flight_t *f = s->flight;
    hd_exchange_ref_t ref = f->ref;
    if (status == UCC_OK && s->index < f->plan.segments) {
        /* acq_rel: the last takes in what the others have done with the memory */
        uint32_t lasting = atomic_fetch_sub_explicit(&f->lasting, 1, memory_order_acq_rel);
        hd_assert(lasting >= 1 && lasting <= f->plan.segments);
        if (lasting == 1 && f->passage->lends) {
            give_memory(f, &f->own);
        }
        if (!s->asked) {
            (void)hd_outer_ready(&ref, hd_slice_of(&f->plan, HD_COMBINE, s->index), UINT32_MAX);
        }
        (void)hd_outer_ready(&ref, hd_slice_of(&f->plan, HD_SPREAD, s->index), UINT32_MAX);
    }
    /* the flight may be another's from here on */
    (void)hd_outer_finish(&ref, hd_slice_of(&f->plan, HD_NET, s->index), 0, status);
}

/* The step of a leg; true: it is over. A leg that has failed keeps its scratch as long as the
 * flight lives, because a member may still be combining what lies there. */
static bool step(hd_leg_t *leg) {
    hd_segment_t *s = (hd_segment_t *)(void *)leg;
    hd_flight_t *f = s->flight;
    hd_crossing_t *crossing = f->crossing;
    /* acquire: pairs with hd_flight_closed */
    int32_t closing = atomic_load_explicit(&f->closing, memory_order_acquire);
    s->begun = s->begun || (!closing && may_begin(s));
    if (!closing && !s->begun) {
        return false;
    }
    ucc_status_t status = closing ? hd_leg_cancel(leg, (ucc_status_t)closing) : hd_leg_go(leg);
    if (status == UCC_INPROGRESS) {
        return false;
    }
    hd_assert(s->begun || status != UCC_OK);
    if (status == UCC_OK) {
        give_memory(f, &s->scratch);
    }
    if (f->passage) {
        end_work(s, status);
    } else {
        end_small(f, status);
    }
    hd_span_defer_unref(crossing);
    return true;
}

/* --- departure: by the completer of the arrival ----------------------------------------------- */

hd_net_key_t hd_exchange_key(const hd_op_t *op, const hd_span_t *span) {
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

/* Sets a segment up, but for the leg's plan and what the passage prepares. */
static void set_segment(hd_flight_t *f, hd_op_t *op, uint32_t j) {
    hd_segment_t *s = &f->segment[j];
    const hd_span_t *span = f->span;
    bool exits = j == f->plan.segments, to_root = hd_coll[f->call.type].rooted && !f->call.empty;
    *s = (hd_segment_t){.flight = f, .index = j, .scratch = s->scratch};
    s->leg = (hd_leg_t){.team = f->crossing->team,
                        .key = hd_exchange_key(op, span),
                        .segment = exits ? HD_FLIGHT_SEGMENTS : j,
                        .step = step,
                        .call = {.type = exits ? HD_BARRIER : f->plan.leg,
                                 .n = span->processes,
                                 .me = span->mine,
                                 .root = to_root ? span->process_of[f->call.root] : 0,
                                 .process = span->team_process,
                                 .signature = f->call.signature,
                                 .element = f->call.element,
                                 .parallel = f->plan.parallel,
                                 .combine = combine}};
}

/* Sets up what does not depend on the kind of flight. An error fails the team. */
static ucc_status_t set_up(hd_flight_t *f, hd_op_t *op, const hd_exchange_ref_t *ref) {
    const hd_reducer_t *given = &op->call.reducer;
    f->crossing = hd_group_crossing(op->group);
    f->span = op->span;
    f->ref = *ref;
    f->call = op->call;
    f->n = op->place.n;
    hd_assert_eq(f->n, hd_span_count(f->span, f->span->mine));
    f->plan = op->plan;
    /* relaxed: published with the key */
    atomic_store_explicit(&f->closing, 0, memory_order_relaxed);
    return hd_coll[f->call.type].reducing && !f->call.empty
               ? hd_reducer_init(&f->reducer, given->dt, given->op, op->n)
               : UCC_OK;
}

/* Lets hd_flight_closed find the flight from here on, and its legs keep the group. */
static void announce(hd_flight_t *f, const hd_op_t *op, uint32_t legs) {
    for (uint32_t j = 0; j < legs; j++) {
        hd_crossing_hold(f->crossing);
    }
    /* release: publishes the flight; pairs with hd_flight_closed */
    atomic_store_explicit(&f->key, hd_outer_key(op), memory_order_release);
}

/* Plans a leg, whose call is set, and gives it scratch memory. An error has been logged. */
static ucc_status_t plan_leg(hd_flight_t *f, uint32_t j) {
    hd_segment_t *s = &f->segment[j];
    bool exits = j == f->plan.segments;
    size_t bytes = exits ? 0 : hd_flight_leg_bytes(f->span, &f->call, &f->plan);
    s->leg.plan = hd_net_plan_of(f->crossing->team, &s->leg.call, bytes);
    size_t needs = hd_net_scratch(&s->leg.call, &s->leg.plan);
    ucc_status_t status = take_memory(f, &s->scratch, needs);
    s->leg.call.scratch = needs ? s->scratch.at : NULL;
    return status;
}

/* Starts the leg of a small flight. payload: the combined operands; NULL: the call has none. */
static void depart_small(hd_op_t *op, hd_flight_t *f, const void *payload) {
    hd_leg_t *leg = &f->segment[0].leg;
    f->passage = NULL;
    set_segment(f, op, 0);
    hd_assert_eq(payload != NULL, hd_coll[f->call.type].reducing && !f->call.empty);
    if (payload) {
        hd_assert_le(f->call.bytes, HD_FLIGHT_PAYLOAD);
        memcpy(f->operand, payload, f->call.bytes);
        leg->call.operand = f->operand;
        leg->call.result = f->result;
        leg->call.count = f->call.bytes / f->call.element;
    }
    ucc_status_t status = plan_leg(f, 0);
    if (status != UCC_OK) {
        hd_group_poison(op->group, status);
        return;
    }
    if (!hd_outer_hold(&f->ref)) {
        return; /* a member has cancelled the exchange, and the others will */
    }
    announce(f, op, 1);
    hd_leg_start(leg);
}

/* Claims the unit of each leg. False: the exchange is closed, and the units that were claimed are
 * finished again. */
static bool claim_units(hd_flight_t *f, uint32_t legs) {
    for (uint32_t j = 0; j < legs; j++) {
        uint32_t unit = 0, slice = hd_slice_of(&f->plan, HD_NET, j);
        if (!hd_outer_claim(&f->ref, slice, &unit)) {
            while (slice-- > hd_slice_of(&f->plan, HD_NET, 0)) {
                (void)hd_outer_finish(&f->ref, slice, 0, UCC_ERR_NO_MESSAGE);
            }
            return false;
        }
        hd_assert_eq(unit, 0); /* a slice NET has one */
    }
    return true;
}

/* Prepares all that the legs and the slices need. The units are claimed, so other members' calls
 * may be read. An error has been logged. */
static ucc_status_t prepare_legs(hd_flight_t *f, uint32_t legs) {
    ucc_status_t status = take_own(f);
    status = status == UCC_OK ? take_lists(f) : status;
    /* relaxed: published with the legs */
    atomic_store_explicit(&f->lasting, f->plan.segments, memory_order_relaxed);
    for (uint32_t j = 0; j < f->plan.segments && status == UCC_OK; j++) {
        f->segment[j].leg.call.give = f->give;
        f->segment[j].leg.call.take = f->take;
        status = f->passage->prepare(&f->segment[j]);
    }
    for (uint32_t j = 0; j < legs && status == UCC_OK; j++) {
        status = plan_leg(f, j);
    }
    return status;
}

/* Releases the members of a work flight and starts its legs. After an error, the legs start all the
 * same, and find `closing` set. */
static void depart_work(hd_op_t *op, hd_flight_t *f) {
    uint32_t legs = f->plan.segments + op->group->two_sided;
    hd_assert(op->plan.row && op->plan.slices == hd_flight_slices(op, &op->plan));
    f->passage = (const hd_passage_t *)(const void *)op->plan.row;
    /* acquire: pairs with the installing of the work */
    f->work = atomic_load_explicit(&f->ref.slot->work, memory_order_acquire);
    f->relay = NULL;
    for (uint32_t j = 0; j < legs; j++) {
        set_segment(f, op, j);
    }
    if (!claim_units(f, legs)) {
        return;
    }
    ucc_status_t status = prepare_legs(f, legs);
    if (status != UCC_OK) {
        hd_group_poison(op->group, status);
        atomic_store_explicit(&f->closing, (int32_t)status,
                              memory_order_relaxed); /* relaxed: announce publishes it */
    }
    announce(f, op, legs);
    if (status == UCC_OK) {
        (void)hd_outer_release(&f->ref, UCC_OK, NULL, 0);
    }
    /* the flight may be over as soon as its first leg, the last here, is started */
    for (uint32_t j = legs; j-- > 0;) {
        hd_leg_start(&f->segment[j].leg);
    }
}

/* --- the stage -------------------------------------------------------------------------------- */

static void arrived(hd_op_t *op, const hd_exchange_ref_t *ref, ucc_status_t status,
                    const void *payload) {
    hd_flight_t *f = status == UCC_OK ? take_flight(op) : NULL;
    if (status == UCC_OK) {
        status = f ? set_up(f, op, ref) : UCC_ERR_NO_MEMORY;
    }
    if (status != UCC_OK) { /* the members find the group poisoned, and cancel */
        hd_group_poison(op->group, status);
    } else if (op->plan.path == HD_PATH_TREE) {
        depart_small(op, f, payload);
    } else {
        depart_work(op, f);
    }
}

uint8_t hd_flight_pump(hd_op_t *op) {
    hd_crossing_t *crossing = hd_group_crossing(op->group);
    /* a leg may wait for a device, and nothing announces that it is done */
    bool by_device = op->outer_shape & HD_OUTER_WORKS && op->plan.where == HD_ON_BOTH;
    if (hd_group_is_complete(op->group)) {
        (void)hd_net_pump(crossing->net);
    } else {
        hd_crossing_pump(crossing);
    }
    hd_span_drain();
    return by_device ? HD_UNANNOUNCED : HD_IMPATIENT;
}

void hd_flight_closed(hd_op_t *op, ucc_status_t why) {
    hd_flight_t *f = hd_flight_of(op);
    /* acquire: pairs with announce. The flight may be about to be announced; then the next call of
     * this function, in the member's next step, finds it */
    if (f && atomic_load_explicit(&f->key, memory_order_acquire) == hd_outer_key(op)) {
        /* release: pairs with `step`, though only the value matters */
        atomic_store_explicit(&f->closing, (int32_t)why, memory_order_release);
    }
    (void)hd_flight_pump(op);
}

/* The stage's `awaits`. The operation has not ended here, so its flight is not another's, and its
 * legs stay. One that waits to be matched has no exchange yet, or still that of its last use. */
static void awaits(const hd_op_t *op, hd_text_t *text) {
    bool said = false;
    if (!hd_group_is_complete(op->group)) {
        hd_crossing_awaits(hd_group_crossing(op->group), text);
        return;
    }
    bool matched = op->place.board && op->phase != HD_PHASE_MATCH;
    const hd_flight_t *f = matched ? hd_flight_of(op) : NULL;
    /* acquire: pairs with announce */
    if (f && atomic_load_explicit(&f->key, memory_order_acquire) == hd_outer_key(op)) {
        uint32_t legs = f->passage ? f->plan.segments + op->group->two_sided : 1;
        for (uint32_t j = 0; j < legs && !said; j++) {
            said = hd_net_leg_awaits(f->crossing->team, &f->segment[j].leg, text);
        }
    }
    if (!said) {
        hd_text_add(text, "other processes");
    }
}

const hd_outer_t hd_flight_stage = {.arrived = arrived,
                                    .pump = hd_flight_pump,
                                    .closed = hd_flight_closed,
                                    .awaits = awaits,
                                    .phases = hd_flight_phases};

/* --- operations ------------------------------------------------------------------------------- */

const hd_work_row_t *hd_flight_row(uint8_t type) {
    const hd_coll_t *coll = &hd_coll[type];
    if (coll->bcast) {
        return &hd_passage_bcast.row;
    }
    if (coll->prefix) {
        return &hd_passage_scan.row;
    }
    if (coll->reducing) {
        return coll->source == HD_WHOLE ? &hd_passage_reduce.row : &hd_passage_reduce_scatter.row;
    }
    return &hd_passage_blocks.row;
}

static ucc_status_t start_small(hd_op_t *op) {
    return hd_outer_start(op, hd_flight_small_shape(op));
}

static ucc_status_t start_work(hd_op_t *op) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    const void *src = coll->source == HD_WHOLE && !coll->bcast ? hd_call_operand(call) : call->src;
    return hd_outer_start_work(op, src, call->dst);
}

void hd_flight_follow(hd_op_t *op) {
    make_partial(&op->call.reducer);
    op->outer = &hd_flight_stage;
    op->start = op->plan.path == HD_PATH_TREE ? start_small : start_work;
}
