/* enqueue.c: what a claimer does of an exchange among the endpoints of one process: finds out which
 * devices work and which way they go about it, and enqueues one slice of that (internal.h).
 * Everything here is decided from the members' parts, the group and the devices, so all claimers of
 * an exchange decide the same; the one who claims slice s then writes done[s].
 */
#include "device/internal.h"

/* --- who works ------------------------------------------------------------------------------- */

typedef struct workers {
    uint32_t n;
    uint8_t device[HD_GPU_DEVICES];
} workers_t;

_Static_assert(HD_GPU_DEVICES <= UINT8_MAX + 1, "a device's number fits");

static void add_worker(workers_t *workers, uint64_t *seen, int device) {
    if (device >= 0 && !(*seen >> device & 1)) {
        hd_assert_lt(device, HD_GPU_DEVICES);
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

/* Returns the bytes of an endpoint's larger buffer. SIZE_MAX: they are not known to all. */
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

/* Finds out whether all workers reach all buffers. */
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

ucc_status_t hd_device_decide(hd_device_view_t *v, const bool *known) {
    workers_t workers = find_workers(v);
    bool reached = known && *known, copies = false;
    if (v->share >= workers.n) { /* nothing to do */
        v->shares = 0;
        return UCC_OK;
    }
    v->shares = workers.n;
    v->workers = bits_of(&workers);
    v->device = workers.device[v->share];
    ucc_status_t status = known ? UCC_OK : all_reach(v, &workers, &reached);
    if (status == UCC_OK && reached && has_data(v->op)) {
        status = hd_device_find_copies(v, &copies, &v->rows);
    }
    v->way = !reached ? HD_DEVICE_WINDOWS : copies ? HD_DEVICE_COPIES : HD_DEVICE_FUSED;
    if (v->way == HD_DEVICE_FUSED && has_data(v->op) && hd_device_find_partials(v)) {
        v->way = HD_DEVICE_PARTIALS;
    }
    return status;
}

/* --- enqueuing ------------------------------------------------------------------------------- */

/* Returns the most words of a table that the description may need. */
static uint32_t count_words(const hd_device_view_t *v) {
    return hd_coll[v->op->call.type].reducing ? hd_device_reduce_words(v) : hd_device_move_words(v);
}

/* Writes what those wait for who are to know of the end of what has been enqueued, which may be
 * nothing or part of it if status is an error. If there is a line, the caller holds its lock. */
static ucc_status_t tell(const hd_device_view_t *v, hd_line_t *line, hd_gpu_stream_t stream,
                         bool ticket, ucc_status_t status) {
    struct hd_device_done *done = v->done;
    ucc_status_t told = UCC_OK;
    hd_assert(!line || hd_line_is_locked(line));
    done->wait.line = NULL;
    done->recorded = false;
    done->own = !line && !v->capture;
    done->key = hd_outer_key(v->op);
    if (v->ordered) {
        told = hd_device_record_done(v, stream);
    }
    bool runs = !v->capture; /* else the host has nothing to wait for */
    if (runs && line && (ticket || told != UCC_OK)) {
        ucc_status_t signalled =
            hd_line_is_broken(line) ? UCC_ERR_IO_ERROR : hd_line_signal(v->devices, line);
        if (signalled == UCC_OK) {
            done->wait = (struct hd_device_wait){.line = line, .ticket = line->ticket};
        }
        told = told == UCC_OK ? signalled : told;
    } else if (runs && told != UCC_OK) {
        /* nobody else would learn of the end of what is on a member's stream */
        hd_device_drain(v, stream);
    }
    hd_gpu_handed_over(done);
    return status == UCC_OK ? told : status;
}

/* Where a share is enqueued, and whose table it may use. */
typedef struct spot {
    hd_gpu_stream_t stream;
    hd_line_t *line; /* locked, if its stream is the one */
    const hd_gpu_info_t *info;
} spot_t;

/* Describes the share. *table is to be filled in before the launch; NULL: there is none, or it is a
 * graph's. */
static ucc_status_t describe(const hd_device_view_t *v, const spot_t *spot, hd_device_job_t *job,
                             hd_device_table_t **table) {
    uint32_t words = count_words(v);
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
    if (status != UCC_OK) {
        return status;
    }
    return hd_coll[v->op->call.type].reducing ? hd_device_reduce(v, job) : hd_device_move(v, job);
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
        const hd_device_copy_t *copy = &job->copy[i];
        status = v->devices->driver->copy(stream, copy->to, copy->to_device, copy->from,
                                          copy->from_device, copy->bytes);
    }
    return status;
}

static ucc_status_t enqueue_share(const hd_device_view_t *v, const spot_t *spot) {
    hd_device_job_t job = {.launch.blocks = 0};
    hd_device_table_t *table = NULL;
    hd_assert_eq(spot->stream.device, v->device);
    /* This comes first of all: in a capture, it makes the stream part of it. */
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
    if (hd_line_is_broken(line)) { /* no ticket will tell when the other devices are done */
        hd_devices_drain_others(v->devices, v->op->group, line);
    }
    return status;
}

bool hd_device_suits_own(const hd_device_view_t *v) {
    const hd_device_order_t *own = &hd_device_part_of(v->op)->order;
    /* relaxed: a stream of the user's may be ordered with others' by itself (NULL streams), and so
     * stand behind a gate though its `ready` did not: no harm but while there are some */
    if (!v->capture && atomic_load_explicit(&v->devices->gates, memory_order_relaxed) != 0) {
        return false;
    }
    return own->is && !own->stream.by_thread && own->stream.device == v->device && !v->told &&
           (v->capture || !has_data(v->op) || count_words(v) <= HD_GPU_WORDS) &&
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

ucc_status_t hd_device_run(hd_device_view_t *v) {
    for (uint32_t i = 0; i < v->op->place.n; i++) {
        const hd_device_part_t *part = hd_device_part(v, i);
        hd_gpu_taken_over(v->work->call[i]);
        v->ordered = v->ordered || part->order.is;
        v->told = v->told || !part->order.is || part->order.tells;
        /* The same for all: it is part of the signature. */
        v->capture = part->order.is ? part->order.capture : 0;
    }
    ucc_status_t status = hd_device_decide(v, NULL);
    if (status != UCC_OK || v->shares == 0) {
        return status;
    }
    hd_assert_lt(v->device, v->devices->driver->devices);
    if (v->way == HD_DEVICE_WINDOWS) {
        v->shares = 1;
        return v->share == 0 ? enqueue_in_windows(v) : UCC_OK; /* the first claimer does it all */
    }
    if (v->way == HD_DEVICE_PARTIALS) {
        /* The first claimer does it all, from the lowest device's line. */
        v->device = __builtin_ctzll(v->workers);
        return v->share == 0 ? enqueue(v, enqueue_trip) : UCC_OK;
    }
    return hd_device_suits_own(v) ? enqueue_own(v) : enqueue(v, enqueue_on);
}
