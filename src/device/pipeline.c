/* pipeline.c: bcast, reduce and allreduce of large data across processes, in a process that has one
 * device: the passage of flight_whole.c, whose copies and reductions devices do. A stand-in is the
 * process's, not each endpoint's.
 *
 *     LOCAL     enqueues one launch: the members' operands, combined, or the root's data, go to the
 *               RELAY, pinned memory
 *     NET       the leg of a segment begins when that launch's ticket is reached, and works on the
 *               relay
 *     SPREAD    enqueues one launch: from the relay to all destinations here
 *
 * All of this is done by segment (flight_plan.c), so that devices and the network work at the same
 * time. The combination of the local operands is that of hd_reduce_tree(), so the bits are the
 * host's. A member is complete when the last ticket is reached, and one in the order of a stream
 * (order.c) when its stream has been told to wait for that; the line waits for the members' streams
 * before the first launch. Whoever is last gives the relay back. What one device can't do alone
 * goes by stand-ins (span.c); which of the two it is, is this process's own affair: on the wire
 * they are the same.
 */
#include "device/internal.h"
#include "span/internal.h"

static bool is_bcast(const hd_flight_t *f) {
    return hd_coll[f->call.type].bcast;
}

static uint8_t *relay_at(const hd_flight_t *f, size_t at) {
    return (uint8_t *)f->relay->late.block->memory + at;
}

/* The completer of the exchange takes the relay. It needs no reference to the devices: the members'
 * handles keep them. */
static ucc_status_t take_relay(hd_flight_t *f) {
    hd_device_relay_t *relay =
        hd_alloc(HD_LINE, sizeof(*relay) + HD_FLIGHT_SEGMENTS * sizeof(relay->filled[0]));
    hd_devices_t *devices = relay ? hd_devices_open() : NULL;
    ucc_status_t status = UCC_ERR_NO_MEMORY;
    if (devices) {
        relay->devices = devices;
        relay->line = hd_devices_line(devices, 0, f->crossing->group);
        status = relay->line
                     ? devices->driver->take(0, HD_GPU_PINNED, f->call.bytes, &relay->late.block)
                     : UCC_ERR_IO_ERROR;
        hd_devices_close(devices);
    } else {
        hd_error("%s: no memory for what devices give to other processes",
                 hd_type_name(f->call.type));
    }
    if (status != UCC_OK) {
        hd_free(relay);
        return status;
    }
    hd_gpu_taken_over(relay->late.block->memory);
    atomic_init(&relay->users, f->n);
    f->relay = relay;
    return UCC_OK;
}

/* --- enqueuing ------------------------------------------------------------------------------- */

/* What one launch or copy does: it combines k operands, or copies a single one. */
typedef struct work {
    const hd_flight_t *f;
    hd_range_t range;
    const void *const *src;
    void *const *dst;
    uint32_t k, m;
} work_t;

static ucc_status_t describe(const work_t *w, hd_device_job_t *job) {
    const hd_call_t *call = &w->f->call;
    hd_range_t range = w->range;
    if (w->k > 1) {
        hd_gpu_reduction_t what =
            hd_device_reduction(call, range.at / call->element, range.bytes / call->element);
        what.k = w->k;
        what.m = w->m;
        what.src = w->src;
        what.dst = w->dst;
        return hd_device_describe(call, &what, &job->launch, job->width, &job->table);
    }
    hd_gpu_blocks_t what = {1, w->m, w->src, w->dst, call->bytes, range.at, range.bytes};
    return hd_gpu_spread(&job->launch, &what, job->width, &job->table);
}

/* Enqueues it. The caller holds the line's lock. Of one source and one destination, at most one is
 * the device's. */
static ucc_status_t launch(const work_t *w, hd_devices_t *devices, hd_line_t *line) {
    hd_device_job_t job = {.width = {.blocks = line->info.width}};
    if (w->k == 1 && w->m == 1) {
        return devices->driver->copy(line->stream, (uint8_t *)w->dst[0] + w->range.at, 0,
                                     (const uint8_t *)w->src[0] + w->range.at, 0, w->range.bytes);
    }
    ucc_status_t status = hd_line_table(devices, line, w->k + w->m, &job);
    if (status == UCC_OK) {
        status = describe(w, &job);
    }
    return status == UCC_OK ? hd_device_launch(devices, line->stream, line, &job) : status;
}

/* Enqueues so many of them, one after the other. *ticket is that of all. */
static ucc_status_t enqueue(const hd_op_t *op, const hd_work_t *of, const work_t *work, uint32_t n,
                            uint64_t *ticket) {
    hd_device_relay_t *relay = work->f->relay;
    const hd_device_view_t v = {.op = op, .work = of, .devices = relay->devices};
    hd_line_t *line = relay->line;
    ucc_status_t status = UCC_ERR_IO_ERROR;
    hd_line_lock(line);
    if (!hd_line_is_broken(line)) { /* the first waits for what the members' streams had */
        status = relay->ordered ? UCC_OK : hd_device_await_ready(&v, line->stream);
        relay->ordered = status == UCC_OK;
    }
    for (uint32_t i = 0; i < n && status == UCC_OK; i++) {
        status = launch(&work[i], relay->devices, line);
    }
    if (!hd_line_is_broken(line)) {
        ucc_status_t signalled = hd_line_signal(relay->devices, line);
        relay->lost = relay->lost || signalled != UCC_OK;
        hd_assert(signalled != UCC_OK || relay->late.ticket < line->ticket);
        relay->late.ticket = *ticket = line->ticket;
        status = status == UCC_OK ? signalled : status;
    }
    hd_line_unlock(line);
    return status;
}

/* --- slices ---------------------------------------------------------------------------------- */

/* Called by each unit that devices do: they take over what the members have handed over. */
static void take_over_calls(const hd_flight_t *f) {
    for (uint32_t i = 0; i < f->n; i++) {
        hd_gpu_taken_over(f->work->call[i]);
    }
}

static ucc_status_t run_local(const hd_flight_t *f, const hd_op_t *op, uint32_t j, uint32_t unit) {
    hd_range_t range = hd_cut_segment(&f->plan, f->call.bytes, j);
    const hd_work_t *work = f->work;
    void *relay = f->relay->late.block->memory;
    work_t w[2] = {{.f = f, .range = range, .src = work->src, .dst = &relay, .k = f->n, .m = 1}};
    uint32_t n = 1;
    uint64_t ticket = 0;
    (void)unit;
    take_over_calls(f);
    if (is_bcast(f)) {
        if (!hd_flight_has_root(f)) {
            return UCC_OK;
        }
        w[0].src = &work->src[hd_flight_root(f)];
        w[0].k = 1;
        if (f->n > 1) { /* the root's buffer is in its place already */
            w[n] = w[0];
            w[n].dst = work->dst;
            w[n++].m = f->n;
        }
    }
    ucc_status_t status = enqueue(op, work, w, n, &ticket);
    hd_assert_lt(j, HD_FLIGHT_SEGMENTS);
    /* relaxed: this slice alone writes it */
    hd_assert_eq(atomic_load_explicit(&f->relay->filled[j], memory_order_relaxed), 0);
    /* release: pairs with is_filled, though what matters is that the slice is finished */
    atomic_store_explicit(&f->relay->filled[j], ticket, memory_order_release);
    return status;
}

static ucc_status_t run_spread(const hd_flight_t *f, const hd_op_t *op, uint32_t j, uint32_t unit) {
    hd_range_t range = hd_cut_segment(&f->plan, f->call.bytes, j);
    const hd_work_t *work = f->work;
    const void *relay = f->relay->late.block->memory;
    work_t w = {.f = f, .range = range, .src = &relay, .dst = work->dst, .k = 1, .m = f->n};
    uint64_t ticket;
    (void)unit;
    take_over_calls(f);
    if (f->call.type == HD_REDUCE) {
        w.dst = &work->dst[hd_flight_has_root(f) ? hd_flight_root(f) : 0];
        w.m = hd_flight_has_root(f);
    } else if (is_bcast(f) && hd_flight_has_root(f)) {
        w.m = 0;
    }
    if (w.m == 0) {
        return UCC_OK;
    }
    hd_gpu_taken_over(f->relay);
    hd_gpu_touched(relay_at(f, range.at), range.bytes, true);
    return enqueue(op, work, &w, 1, &ticket);
}

/* --- legs ------------------------------------------------------------------------------------ */

static ucc_status_t prepare(hd_segment_t *s) {
    hd_flight_t *f = s->flight;
    hd_range_t r = hd_cut_segment(&f->plan, f->call.bytes, s->index);
    ucc_status_t status = s->index == 0 ? take_relay(f) : UCC_OK;
    if (status != UCC_OK) {
        return status;
    }
    if (is_bcast(f)) {
        hd_flight_prepare_bcast(s, relay_at(f, 0));
        return UCC_OK;
    }
    bool wants = f->call.type == HD_ALLREDUCE || hd_flight_has_root(f);
    s->leg.call.operand = relay_at(f, r.at);
    s->leg.call.result = wants ? relay_at(f, r.at) : NULL;
    s->leg.call.count = r.bytes / f->call.element;
    return UCC_OK;
}

/* Is LOCAL finished, and the work done that it has enqueued? */
static bool is_filled(const hd_segment_t *s) {
    const hd_flight_t *f = s->flight;
    hd_device_relay_t *relay = f->relay;
    if (is_bcast(f) && !hd_flight_has_root(f)) {
        return true;
    }
    if (!hd_flight_has_local(s)) {
        return false;
    }
    /* acquire: pairs with run_local */
    uint64_t ticket = atomic_load_explicit(&relay->filled[s->index], memory_order_acquire);
    struct hd_device_wait wait = {.line = relay->line, .ticket = ticket};
    if (ticket == 0 || hd_line_reached(&wait)) {
        hd_range_t r = hd_cut_segment(&f->plan, f->call.bytes, s->index);
        hd_gpu_touched(relay_at(f, r.at), r.bytes, false);
        hd_gpu_handed_over(relay); /* to whoever spreads what comes of it */
        return true;
    }
    if (hd_line_has_failed(relay->devices, relay->line) && !hd_line_reached(&wait)) {
        hd_group_poison(f->crossing->group, UCC_ERR_IO_ERROR); /* the members close the exchange */
    }
    return false;
}

static const hd_passage_t passage_bcast = {
    .row = HD_PASSAGE_ROW,
    .slice = {[HD_LOCAL] = {.run = run_local}, [HD_SPREAD] = {.run = run_spread}},
    .prepare = prepare,
    .is_filled = is_filled};
static const hd_passage_t passage_reduce = {
    .row = HD_PASSAGE_ROW,
    .slice = {[HD_LOCAL] = {.run = run_local},
              [HD_COMBINE] = {HD_UNIT_PARTS, hd_flight_run_combine},
              [HD_SPREAD] = {.run = run_spread}},
    .prepare = prepare,
    .is_filled = is_filled};

/* --- a member -------------------------------------------------------------------------------- */

/* Lets the member's stream come after all that this process does for the exchange, which is
 * enqueued. */
static ucc_status_t join(hd_op_t *op, hd_line_t *line) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_line_lock(line);
    ucc_status_t status = hd_device_record(op, &part->own, line->stream);
    hd_line_unlock(line);
    return status == UCC_OK ? hd_device_join(op, &part->own, 1) : status;
}

ucc_status_t hd_device_finish_pipeline(hd_op_t *op, ucc_status_t status) {
    hd_device_part_t *part = hd_device_part_of(op);
    const hd_flight_t *f = hd_flight_of(op);
    /* acquire: the relay. Else the completer of this exchange never came so far */
    if (f && atomic_load_explicit(&f->key, memory_order_acquire) == hd_outer_key(op)) {
        part->relay = f->relay;
    }
    bool enqueued = part->relay && part->relay->late.ticket;
    if (enqueued && status == UCC_OK && part->order.is) {
        status = join(op, part->relay->line);
    }
    if (enqueued && (status != UCC_OK || !hd_device_is_told_by_stream(part))) {
        part->wait[part->waits++] =
            (struct hd_device_wait){.line = part->relay->line, .ticket = part->relay->late.ticket};
    }
    return status;
}

bool hd_device_may_pipeline(uint8_t type, uint32_t n, uint32_t devices) {
    bool whole = type == HD_ALLREDUCE || type == HD_REDUCE || hd_coll[type].bcast;
    return whole && devices == 1 && n <= HD_GPU_OPERANDS;
}

bool hd_device_plan_pipeline(const hd_op_t *op, hd_plan_t *plan) {
    const hd_passage_t *passage = hd_coll[op->call.type].bcast ? &passage_bcast : &passage_reduce;
    if (plan->network != HD_NETWORK_LEGS || plan->path != HD_PATH_ENGINE || plan->apart ||
        !hd_device_may_pipeline(op->call.type, op->place.n, op->team->devices->driver->devices)) {
        return false;
    }
    *plan = hd_flight_plan(op, &passage->row);
    plan->where = HD_ON_BOTH;
    return true;
}
