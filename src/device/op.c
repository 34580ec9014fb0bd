/* op.c: an operation on devices: starting, enqueuing, and waiting until it is complete. device.h says how it goes,
 * and why it ends.
 */
#include "device/internal.h"

#include "threads/trace.h"

/* --- the slot's memory --------------------------------------------------------------------------------------- */

static hd_device_flight_t *flight_of(const hd_op_t *op) {
    /* acquire: pairs with the installing CAS below */
    return (hd_device_flight_t *)(void *)atomic_load_explicit(&op->exchange->flight,
                                                              memory_order_acquire);
}

static void free_flight(hd_outer_memory_t *memory) {
    hd_device_flight_t *f = (hd_device_flight_t *)(void *)memory;
    for (uint32_t s = 0; s < f->slices; s++) {
        const struct hd_device_done *done = &f->done[s];
        if (done->event && done->recorded && done->own) {
            hd_devices_leave(f->devices, done->event_of, done->event);
        } else if (done->event) {
            f->devices->driver->event_put(done->event);
        }
        hd_free(f->done[s].scratch);
    }
    hd_devices_close(f->devices);
    hd_free(f);
}

/* By every member before it publishes: then whoever claims finds it. */
static ucc_status_t install_flight(hd_op_t *op, uint32_t slices) {
    if (flight_of(op)) {
        return UCC_OK;
    }
    hd_device_flight_t *f = hd_alloc(HD_LINE_PAIR, sizeof(*f) + slices * sizeof(f->done[0]));
    if (!f) {
        hd_error("%s: no memory for what is enqueued on devices", hd_op_type_name(op));
        return UCC_ERR_NO_MEMORY;
    }
    f->memory.release = free_flight;
    f->devices = hd_devices_share(op->team->devices);
    f->slices = slices;
    hd_outer_memory_t *none = NULL;
    /* acq_rel: publishes the flight */
    if (!atomic_compare_exchange_strong_explicit(&op->exchange->flight, &none, &f->memory,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        free_flight(&f->memory);
    }
    return UCC_OK;
}

void *hd_device_scratch(const hd_device_view_t *v, size_t bytes) {
    struct hd_device_done *done = v->done;
    if (bytes > done->scratch_bytes) {
        hd_free(done->scratch);
        done->scratch = hd_alloc(HD_LINE, bytes);
        done->scratch_bytes = done->scratch ? bytes : 0;
    }
    if (!done->scratch) {
        hd_error("%s: no memory to describe it to a device", hd_op_type_name(v->op));
    }
    return done->scratch;
}

/* --- who works ----------------------------------------------------------------------------------------------- */

typedef struct workers {
    uint32_t n;
    uint8_t device[HD_GPU_DEVICES];
} workers_t;

_Static_assert(HD_GPU_DEVICES <= UINT8_MAX + 1, "a device's number fits");

static void add_worker(workers_t *workers, uint64_t *seen, int device) {
    if (device >= 0 && !(*seen >> device & 1)) {
        *seen |= UINT64_C(1) << device;
        workers->device[workers->n++] = (uint8_t)device;
    }
}

static uint64_t bits_of(const workers_t *workers) {
    uint64_t bits = 0;
    for (uint32_t w = 0; w < workers->n; w++) {
        bits |= UINT64_C(1) << workers->device[w];
    }
    return bits;
}

/* Bytes of an endpoint's larger buffer; SIZE_MAX: not known to all. */
static size_t endpoint_bytes(const hd_op_t *op) {
    const hd_coll_t *coll = &hd_coll[op->call.type];
    bool blocks = coll->source == HD_BLOCKS || coll->result == HD_BLOCKS;
    return coll->vector ? SIZE_MAX : op->call.bytes * (blocks ? op->place.n : 1);
}

static workers_t find_workers(const hd_device_view_t *v) {
    const hd_op_t *op = v->op;
    workers_t workers = {.n = 0};
    uint64_t seen = 0;
    if (hd_coll[op->call.type].rooted) {
        add_worker(&workers, &seen, hd_device_part(v, op->call.root)->device);
    }
    for (uint32_t i = 0; i < op->place.n; i++) {
        add_worker(&workers, &seen, hd_device_part(v, i)->device);
    }
    if (workers.n > 1 && endpoint_bytes(op) <= HD_DEVICE_SHARED_ABOVE) {
        workers.n = 1;
    }
    return workers;
}

static bool has_data(const hd_op_t *op) {
    return hd_coll[op->call.type].moves_data && !op->call.empty;
}

/* Can all of them reach all buffers? */
static ucc_status_t all_reach(const hd_device_view_t *v, const workers_t *workers, bool *yes) {
    *yes = true;
    for (uint32_t w = 0; w < workers->n; w++) {
        for (uint32_t i = 0; i < v->op->place.n; i++) {
            for (int side = 0; side < HD_SIDES; side++) {
                const hd_device_side_t *of = &hd_device_part(v, i)->side[side];
                ucc_status_t status =
                    hd_devices_reach(v->devices, workers->device[w], &of->memory, of->at, yes);
                if (status != UCC_OK || !*yes) {
                    return status;
                }
            }
        }
    }
    return UCC_OK;
}

/* Which way it goes: the same for each of its claimers, as they look at the same things. */
static ucc_status_t choose_way(hd_device_view_t *v, const workers_t *workers) {
    bool reached, copies = false;
    ucc_status_t status = all_reach(v, workers, &reached);
    if (status == UCC_OK && reached && has_data(v->op)) {
        status = hd_device_find_copies(v, &copies, &v->rows);
    }
    v->way = !reached ? HD_DEVICE_WINDOWS : copies ? HD_DEVICE_COPIES : HD_DEVICE_FUSED;
    if (v->way == HD_DEVICE_FUSED && has_data(v->op) && hd_device_find_partials(v)) {
        v->way = HD_DEVICE_PARTIALS;
    }
    return status;
}

/* --- enqueuing ----------------------------------------------------------------------------------------------- */

size_t hd_device_cut(size_t count, size_t grain, uint32_t share, uint32_t shares) {
    size_t grains = count / grain + (count % grain != 0);
    size_t at = (grains / shares * share + grains % shares * share / shares) * grain;
    return share == shares || at > count ? count : at;
}

uint32_t hd_device_words(const hd_device_view_t *v) {
    return hd_coll[v->op->call.type].reducing ? hd_device_reduce_words(v) : hd_device_move_words(v);
}

ucc_status_t hd_device_describe(const hd_device_view_t *v, hd_device_job_t *job) {
    return hd_coll[v->op->call.type].reducing ? hd_device_reduce(v, job) : hd_device_move(v, job);
}

/* After something may have been enqueued, and that with this status: what those wait for who are to know of its end. Of a line,
 * its lock is held. */
static ucc_status_t tell(const hd_device_view_t *v, hd_line_t *line, hd_gpu_stream_t stream,
                         bool ticket, ucc_status_t status) {
    struct hd_device_done *done = v->done;
    ucc_status_t told = UCC_OK;
    done->wait.line = NULL;
    done->recorded = false;
    done->own = !line && !v->capture;
    done->key = hd_outer_key(v->op);
    if (v->ordered) {
        told = hd_device_record_done(v, stream);
    }
    bool runs = !v->capture; /* else there is nothing to wait for */
    if (runs && line && (ticket || told != UCC_OK)) {
        ucc_status_t signalled =
            hd_line_is_broken(line) ? UCC_ERR_IO_ERROR : hd_line_signal(v->devices, line);
        if (signalled == UCC_OK) {
            done->wait = (struct hd_device_wait){.line = line, .ticket = line->ticket};
        }
        told = told == UCC_OK ? signalled : told;
    } else if (runs && told != UCC_OK) {
        /* of what is on a member's stream nobody else would learn */
        hd_device_drain(v, stream);
    }
    hd_gpu_handed_over(done);
    return status == UCC_OK ? told : status;
}

/* Where a share goes, and whose table it may use. */
typedef struct spot {
    hd_gpu_stream_t stream;
    hd_line_t *line; /* locked, if its stream is the one */
    const hd_gpu_info_t *info;
} spot_t;

/* Describes the share. *table: to be filled in before the launch; NULL: none, or it is a graph's. */
static ucc_status_t describe(const hd_device_view_t *v, const spot_t *spot, hd_device_job_t *job,
                             hd_device_table_t **table) {
    uint32_t words = hd_device_words(v);
    ucc_status_t status = UCC_OK;
    *table = NULL;
    job->table = (hd_gpu_table_t){0};
    job->width.blocks = spot->info->width;
    job->width.streaming = v->op->call.bytes * v->op->place.n > spot->info->l2_bytes / 2;
    if (v->capture) {
        status = hd_devices_keep(v->devices, spot->stream, words, &job->table);
    } else if (spot->line) {
        status = hd_line_table(v->devices, spot->line, words, &job->table, table);
    }
    return status == UCC_OK ? hd_device_describe(v, job) : status;
}

static ucc_status_t fill_table(const hd_device_view_t *v, const spot_t *spot,
                               const hd_device_job_t *job, hd_device_table_t *table) {
    if (!job->table.used) {
        return UCC_OK;
    }
    if (table) {
        return hd_line_fill(v->devices, spot->line, table, job->table.used);
    }
    return v->devices->driver->copy(spot->stream, (void *)(uintptr_t)job->table.device,
                                    spot->stream.device, job->table.host, -1,
                                    job->table.used * sizeof(uint64_t));
}

static ucc_status_t enqueue_copies(const hd_device_view_t *v, hd_gpu_stream_t stream,
                                   const hd_device_job_t *job) {
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; i < job->copies && status == UCC_OK; i++) {
        const hd_device_copy_t *copy = &job->copy[(job->first_copy + i) % job->copies];
        status = v->devices->driver->copy(stream, copy->to, copy->to_device, copy->from,
                                          copy->from_device, copy->bytes);
    }
    return status;
}

static ucc_status_t enqueue_share(const hd_device_view_t *v, const spot_t *spot) {
    hd_device_job_t job = {.launch.blocks = 0};
    hd_device_table_t *table = NULL;
    /* first of all: in a capture, this makes the stream part of it */
    ucc_status_t status = hd_device_await_ready(v, spot->stream);
    if (status == UCC_OK && has_data(v->op)) {
        status = describe(v, spot, &job, &table);
    }
    bool nothing =
        status != UCC_OK || (has_data(v->op) && job.launch.blocks == 0 && job.copies == 0);
    if (nothing && !v->capture) { /* what has become part of a capture must be joined */
        return status;
    }
    if (status == UCC_OK) {
        status = enqueue_copies(v, spot->stream, &job);
    }
    if (status == UCC_OK && job.launch.blocks) {
        status = fill_table(v, spot, &job, table);
    }
    if (status == UCC_OK && job.launch.blocks) {
        status = v->devices->driver->launch(spot->stream, &job.launch);
    }
    return tell(v, spot->line, spot->stream, v->told || table, status);
}

static ucc_status_t enqueue_on(const hd_device_view_t *v, hd_line_t *line) {
    spot_t spot = {line->stream, line, &line->info};
    return enqueue_share(v, &spot);
}

static ucc_status_t enqueue_trip(const hd_device_view_t *v, hd_line_t *line) {
    ucc_status_t status = v->way == HD_DEVICE_WINDOWS ? hd_device_enqueue_windows(v, line)
                                                      : hd_device_enqueue_partials(v, line);
    status = tell(v, line, line->stream, v->told, status);
    v->done->wait.others = true;
    if (hd_line_is_broken(line)) { /* no ticket will tell when the others are done */
        hd_devices_drain_others(v->devices, v->op->group, line);
    }
    return status;
}

/* The claimer's own stream, if that will do: then nobody changes streams. */
static bool suits_own(const hd_device_view_t *v) {
    const hd_device_order_t *own = &hd_device_part_of(v->op)->order;
    /* relaxed: a stream of the user's may be ordered with others' by itself (NULL streams), and so stand behind a gate
       though its `ready` did not: no harm but while there are some */
    if (!v->capture && atomic_load_explicit(&v->devices->gates, memory_order_relaxed) != 0) {
        return false;
    }
    return own->is && !own->stream.by_thread && own->stream.device == v->device && !v->told &&
           (v->capture || !has_data(v->op) || hd_device_words(v) <= HD_GPU_WORDS) &&
           !hd_device_captured_since(v->op);
}

static ucc_status_t enqueue(const hd_device_view_t *v,
                            ucc_status_t (*on)(const hd_device_view_t *v, hd_line_t *line)) {
    hd_line_t *line;
    ucc_status_t status =
        hd_devices_lock_line(v->devices, v->device, v->op->group, v->capture, &line);
    if (status != UCC_OK) {
        return status;
    }
    status = hd_line_is_broken(line) ? UCC_ERR_IO_ERROR : on(v, line);
    hd_line_unlock(line);
    return status;
}

static ucc_status_t enqueue_in_windows(const hd_device_view_t *v) {
    if (v->capture) {
        hd_error("%s: devices that don't reach each other's memory can't have it captured",
                 hd_op_type_name(v->op));
        return UCC_ERR_NOT_SUPPORTED;
    }
    return enqueue(v, enqueue_trip);
}

static ucc_status_t enqueue_own(const hd_device_view_t *v) {
    hd_gpu_info_t info;
    ucc_status_t status = v->devices->driver->info(v->device, &info);
    spot_t spot = {hd_device_part_of(v->op)->order.stream, NULL, &info};
    return status == UCC_OK ? enqueue_share(v, &spot) : status;
}

/* --- the row ------------------------------------------------------------------------------------------------- */

static uint32_t count_slices(const hd_op_t *op) {
    uint32_t devices = op->team->devices->driver->devices;
    return op->place.n < devices ? op->place.n : devices;
}

static void lay_out(const hd_op_t *op, uint32_t s, hd_slice_t *slice) {
    (void)op;
    (void)s;
    hd_slice_set(slice, 1, 1, 1);
}

ucc_status_t hd_device_run(hd_device_view_t *v) {
    for (uint32_t i = 0; i < v->op->place.n; i++) {
        const hd_device_part_t *part = hd_device_part(v, i);
        hd_gpu_taken_over(part);
        v->ordered = v->ordered || part->order.is;
        v->told = v->told || !part->order.is || part->order.tells;
        v->capture = part->order.is ? part->order.capture : 0; /* the same for all: it is signed */
    }
    workers_t workers = find_workers(v);
    if (v->share >= workers.n) {
        return UCC_OK;
    }
    v->shares = workers.n;
    v->workers = bits_of(&workers);
    v->device = workers.device[v->share];
    ucc_status_t status = choose_way(v, &workers);
    if (status != UCC_OK) {
        return status;
    }
    if (v->way == HD_DEVICE_WINDOWS) {
        v->shares = 1;
        return v->share == 0 ? enqueue_in_windows(v) : UCC_OK; /* the first one does it all */
    }
    if (v->way ==
        HD_DEVICE_PARTIALS) { /* the first claimer does it all, from the lowest device's line */
        v->device = __builtin_ctzll(v->workers);
        return v->share == 0 ? enqueue(v, enqueue_trip) : UCC_OK;
    }
    return suits_own(v) ? enqueue_own(v) : enqueue(v, enqueue_on);
}

static ucc_status_t run(const hd_op_t *op, const hd_work_t *work, uint32_t s, uint32_t unit) {
    (void)unit;
    hd_device_view_t v = {.op = op,
                          .work = work,
                          .done = &flight_of(op)->done[s],
                          .devices = op->team->devices,
                          .share = s};
    return hd_device_run(&v);
}

static const hd_work_row_t device_row = {.layout = lay_out, .run = run, .slices = count_slices};

/* --- a member ------------------------------------------------------------------------------------------------ */

void hd_device_buffers_of(const hd_op_t *op, const void **src, void **dst) {
    const hd_call_t *call = &op->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    *src = call->src;
    *dst = call->dst;
    if (coll->bcast) {
        *dst = call->is_root ? (void *)(uintptr_t)call->src : call->dst;
    } else if ((coll->reducing && coll->source == HD_WHOLE) || coll->pairwise) {
        *src = call->in_place ? call->dst : call->src;
    }
}

/* Where its buffers are: pinned memory that is said to be a device's is of the device for which it was allocated, if there is
 * nothing else. Of who has none, where its stream is. */
static int device_of(const hd_device_part_t *part) {
    int device = -1, pinned = -1;
    for (int side = HD_SIDES; side-- > 0 && device < 0;) {
        const hd_gpu_memory_t *memory = &part->side[side].memory;
        if (memory->kind == HD_GPU_DEVICE || memory->kind == HD_GPU_MANAGED) {
            device = memory->device;
        } else if (memory->kind == HD_GPU_PINNED) {
            pinned = memory->device >= 0 ? memory->device : 0;
        }
    }
    device = device >= 0 ? device : pinned;
    return device < 0 && part->order.is ? part->order.stream.device : device;
}

void hd_device_take_order(hd_op_t *op) {
    hd_device_order_t *order = &hd_device_part_of(op)->order;
    order->is = order->armed;
    order->armed = false;
    order->signature = op->call.signature;
    if (order->is && order->capture) {
        op->call.signature = hd_terms_captured(op->call.signature, order->capture);
    }
}

void hd_device_leave_order(hd_op_t *op) {
    hd_device_order_t *order = &hd_device_part_of(op)->order;
    if (order->is) {
        op->call.signature = order->signature;
        hd_device_end_order(op);
    }
}

/* It never starts: whoever waits for its order need not. */
static void drop(hd_op_t *op) {
    hd_device_order_t *order = &hd_device_part_of(op)->order;
    if (order->armed) {
        order->armed = false;
        hd_device_end_order(op);
    }
}

static ucc_status_t publish(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_gpu_handed_over(part);
    return hd_engine_start(op, part->src, part->dst);
}

/* Until its stream has come to the post: hd_device_order.held says why. */
static ucc_status_t hold(hd_op_t *op) {
    ucc_status_t status = hd_device_ready(op);
    if (status == UCC_INPROGRESS && op->task.deadline && hd_ticks() > op->task.deadline) {
        hd_op_log_timeout(op); /* it can't end alone: the others count on it */
        status = UCC_ERR_TIMED_OUT;
    }
    if (status == UCC_OK) {
        status = publish(op);
    }
    if (status < 0) { /* the others must not wait for me */
        hd_group_poison(op->group, status);
    }
    return status == UCC_OK ? op->wait(op) : status;
}

static ucc_status_t start(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    const void *src;
    void *dst;
    hd_device_take_order(op);
    part->device = device_of(part);
    part->send = op->call.send;
    part->receive = op->call.receive;
    part->outcome = UCC_OK;
    part->drained_by = 0;
    part->waits = 0;
    op->plan = hd_plan_of_device(op, &device_row);
    hd_device_buffers_of(op, &src, &dst);
    ucc_status_t status = install_flight(op, op->plan.slices);
    if (status == UCC_OK) {
        status = hd_device_stand_in(op, &src, &dst);
        part->device = device_of(part);
    }
    part->src = src;
    part->dst = dst;
    if (status == UCC_OK && part->order.is && part->order.held) {
        op->wait = hold;
        return UCC_OK;
    }
    if (status == UCC_OK) {
        status = publish(op);
    }
    if (status != UCC_OK) {
        hd_device_put_stand_ins(op);
        hd_device_leave_order(op);
    }
    return status;
}

/* --- until it is complete -------------------------------------------------------------------------------------- */

/* False: something is not reached yet. Of a context that several threads progress, another one may have seen what was reached
 * before. */
static bool is_complete(hd_device_part_t *part) {
    hd_gpu_taken_over(part->wait);
    while (part->waits && hd_line_reached(&part->wait[part->waits - 1])) {
        part->waits--;
        hd_gpu_handed_over(part->wait);
    }
    return part->waits == 0;
}

static ucc_status_t complete(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    if (part->outcome == UCC_OK) {
        hd_device_copy_out(op);
    }
    hd_device_put_stand_ins(op);
    hd_device_leave_order(op);
    hd_gpu_handed_over(op); /* to whichever thread sees that the request has ended */
    return part->outcome;
}

static void fail(hd_op_t *op, ucc_status_t why) {
    hd_device_part_t *part = hd_device_part_of(op);
    part->outcome = why;
    part->drained_by = hd_ticks() + hd_seconds_to_ticks(HD_DEVICE_DRAIN_SECONDS);
}

/* Devices may use its memory for ever. */
static ucc_status_t abandon(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_device_lose_stand_ins(part);
    part->relay = NULL;
    /* relaxed: read when all users are gone */
    atomic_store_explicit(&op->team->devices->abandoned, true, memory_order_relaxed);
    part->waits = 0;
    hd_device_leave_order(op);
    return part->outcome;
}

/* The device of a line that it waits for has failed. One that is lost does nothing any more; of others nobody knows. */
static ucc_status_t lose(hd_op_t *op, hd_line_t *line) {
    hd_device_part_t *part = hd_device_part_of(op);
    struct hd_device_wait *last = &part->wait[part->waits - 1];
    if (last->line != line) { /* it has got there after all */
        return UCC_INPROGRESS;
    }
    hd_error("%s at endpoint %u: device %d has failed before it was complete", hd_op_type_name(op),
             op->team_ep, line->stream.device);
    hd_group_poison(op->group, UCC_ERR_IO_ERROR);
    if (part->outcome == UCC_OK) {
        fail(op, UCC_ERR_IO_ERROR);
    }
    bool lost = op->team->devices->driver->lost(line->stream.device);
    if (lost && last->others) { /* whose work the lost one would have told of */
        hd_devices_drain_others(op->team->devices, op->group, line);
    }
    if (last->others || !lost) {
        return abandon(op);
    }
    part->waits--;
    return is_complete(part) ? complete(op) : UCC_INPROGRESS;
}

/* One that its devices let wait: is there anything that ends it? */
static ucc_status_t look_closer(hd_op_t *op) {
    hd_device_part_t *part = hd_device_part_of(op);
    hd_line_t *line = part->wait[part->waits - 1].line;
    if (hd_line_has_failed(op->team->devices, line) && !is_complete(part)) {
        return lose(op, line);
    }
    if (part->outcome == UCC_OK) {
        ucc_status_t status = hd_group_poisoned(op->group);
        if (status == UCC_OK && op->task.deadline && hd_ticks() > op->task.deadline) {
            hd_op_log_timeout(op);
            status = UCC_ERR_TIMED_OUT;
            hd_group_poison(op->group, status);
        }
        if (status != UCC_OK) {
            fail(op, status);
        }
    } else if (hd_ticks() > part->drained_by) {
        hd_error(
            "%s at endpoint %u: not complete %d s after it has failed: device %d may still use "
            "its buffers",
            hd_op_type_name(op), op->team_ep, HD_DEVICE_DRAIN_SECONDS, line->stream.device);
        return abandon(op);
    }
    return UCC_INPROGRESS;
}

static ucc_status_t step_enqueued(hd_task_t *task) {
    hd_op_t *op = (hd_op_t *)task;
    ucc_status_t status = UCC_INPROGRESS;
    task->awaited = NULL;
    if (hd_group_is_inherited(op->group)) { /* the devices are the parent's */
        hd_group_say_inherited(op->group);
        status = hd_group_poisoned(op->group); /* nor is a gate mine to open */
    } else if (is_complete(hd_device_part_of(op))) {
        status = complete(op);
    } else if (++task->fruitless % HD_WATCH_EVERY == 0 || op->team->devices->driver->emulated) {
        status = look_closer(op);
    }
    if (status != UCC_INPROGRESS && hd_trace_is_on()) {
        hd_trace_done(op, status);
    }
    return status;
}

ucc_status_t hd_device_await(hd_op_t *op, ucc_status_t status) {
    hd_device_part_t *part = hd_device_part_of(op);
    part->outcome = status;
    if (is_complete(part)) {
        return complete(op);
    }
    if (status != UCC_OK) {
        fail(op, status);
    }
    hd_op_leave(op);
    op->state = HD_OP_ENQUEUED;
    op->task.step = step_enqueued;
    op->task.impatient = HD_UNANNOUNCED;
    op->task.fruitless = 0;
    return UCC_INPROGRESS;
}

/* Everything is enqueued, or nothing more will be. */
static ucc_status_t finish(hd_op_t *op, ucc_status_t status) {
    hd_device_part_t *part = hd_device_part_of(op);
    const hd_device_flight_t *f = flight_of(op);
    if (hd_group_is_inherited(op->group)) { /* what is enqueued is the parent's */
        return status == UCC_OK ? hd_group_poisoned(op->group) : status;
    }
    for (uint32_t s = 0; s < f->slices; s++) {
        hd_gpu_taken_over(&f->done[s]);
    }
    if (part->order.is) {
        ucc_status_t joined = hd_device_join(op, f->done, f->slices);
        status = status == UCC_OK ? joined : status;
    }
    /* who has a stream's order is told by that, unless something has failed */
    bool waits = !hd_device_is_told_by_stream(part) || status != UCC_OK;
    for (uint32_t s = 0; s < f->slices; s++) {
        if (waits && f->done[s].key == hd_outer_key(op) && f->done[s].wait.line) {
            part->wait[part->waits++] = f->done[s].wait;
        }
    }
    return hd_device_await(op, status);
}

/* --- at init --------------------------------------------------------------------------------------------------- */

ucc_status_t hd_device_settle(hd_op_t *op) {
    const char *name = hd_type_name(op->call.type);
    if (op->call.exclusive) {
        hd_error("%s at endpoint %u: a user's reduction is not supported on devices", name,
                 op->team_ep);
        return UCC_ERR_NOT_SUPPORTED;
    }
    op->device->order.armed = op->device->order.is = false;
    if (hd_coll[op->call.type].reducing) {
        ucc_status_t status = hd_device_can_reduce(&op->call);
        if (status != UCC_OK) {
            return status;
        }
    }
    op->drop = drop;
    if (op->team->crossing) { /* the rest is hd_device_span_choose's */
        return UCC_OK;
    }
    op->plan = (hd_plan_t){.path = HD_PATH_DEVICE};
    op->start = start;
    op->finish = finish;
    return UCC_OK;
}

void hd_device_forget(hd_op_t *op) {
    hd_device_part_t *part = op->device;
    if (part) {
        hd_device_forget_order(op->team->devices, &part->order);
        if (part->own.event) {
            op->team->devices->driver->event_put(part->own.event);
        }
        hd_free(part->dense);
        hd_free(part);
    }
}
