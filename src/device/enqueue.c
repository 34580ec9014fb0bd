/* enqueue.c: what a claimer does of an exchange among the endpoints of one process: finds out which
 * devices work and which way they go about it, and enqueues one slice of that (internal.h). It
 * decides by the members' parts, the group and the devices, so all claimers decide the same.
 */
#include "device/internal.h"

/* --- who works ------------------------------------------------------------------------------- */

/* Adds a device to those that work: the share-th of them is the claimer's. */
static void add_worker(hd_device_view_t *v, int device) {
    if (device >= 0 && !(v->workers >> device & 1)) {
        hd_assert_lt(device, HD_GPU_DEVICES);
        v->workers |= UINT64_C(1) << device;
        v->device = v->shares == v->share ? device : v->device;
        v->shares++;
    }
}

/* Returns the bytes of an endpoint's larger buffer. SIZE_MAX: they are not known to all. */
static size_t endpoint_bytes(const hd_op_t *op) {
    const hd_coll_t *coll = &hd_coll[op->call.type];
    bool blocks = coll->source == HD_BLOCKS || coll->result == HD_BLOCKS;
    return coll->vector ? SIZE_MAX : op->call.bytes * (blocks ? op->place.n : 1);
}

static void find_workers(hd_device_view_t *v) {
    const hd_op_t *op = v->op;
    if (hd_coll[op->call.type].rooted) {
        add_worker(v, hd_device_part(v, op->call.root)->device);
    }
    for (uint32_t i = 0; i < op->place.n; i++) {
        add_worker(v, hd_device_part(v, i)->device);
    }
    if (v->shares > 1 && endpoint_bytes(op) <= HD_DEVICE_SHARED_ABOVE) {
        v->shares = 1;
    }
    if (v->share >= v->shares) {
        v->shares = 0; /* nothing is left for the claimer */
    } else if (v->shares == 1) {
        v->workers = UINT64_C(1) << v->device;
    }
}

static bool has_data(const hd_op_t *op) {
    return hd_coll[op->call.type].moves_data && !op->call.empty;
}

/* Finds out whether all workers reach all buffers. */
static ucc_status_t all_reach(const hd_device_view_t *v, bool *yes) {
    ucc_status_t status = UCC_OK;
    *yes = true;
    for (int d = 0; d < HD_GPU_DEVICES; d++) {
        for (uint32_t i = 0; v->workers >> d & 1 && i < v->op->place.n; i++) {
            const hd_device_side_t *side = hd_device_part(v, i)->side;
            for (int s = 0; s < HD_SIDES && status == UCC_OK && *yes; s++) {
                status = hd_devices_reach(v->devices, d, &side[s].memory, side[s].at, yes);
            }
        }
    }
    return status;
}

ucc_status_t hd_device_decide(hd_device_view_t *v, const bool *known) {
    bool reached = known && *known, copies = false;
    find_workers(v);
    if (v->shares == 0) {
        return UCC_OK;
    }
    ucc_status_t status = known ? UCC_OK : all_reach(v, &reached);
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

/* Waits until all is done that the claimer has enqueued on its own stream: no event could be
 * recorded behind that. */
static void drain(const hd_device_view_t *v, hd_gpu_stream_t stream) {
    const hd_gpu_driver_t *driver = v->devices->driver;
    hd_gpu_event_t *event = hd_device_part_of(v->op)->order.ready;
    if (driver->record(stream, event) != UCC_OK ||
        hd_device_await_event(driver, event, HD_GPU_SITE_FAILED) != UCC_OK) {
        hd_devices_abandon(v->devices, stream.device);
    }
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
        told = hd_device_record(v->op, done, stream);
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
        drain(v, stream);
    }
    hd_gpu_handed_over(done);
    return status == UCC_OK ? told : status;
}

/* Describes the share, for a launch on the stream, and finds a table for that. */
static ucc_status_t describe(const hd_device_view_t *v, hd_gpu_stream_t stream, hd_line_t *line,
                             hd_device_job_t *job) {
    hd_gpu_info_t info;
    uint32_t words = count_words(v);
    ucc_status_t status = v->devices->driver->info(v->device, &info);
    if (status == UCC_OK && v->capture) {
        status = hd_devices_keep(v->devices, stream, words, &job->table);
    } else if (status == UCC_OK && line) {
        status = hd_line_table(v->devices, line, words, job);
    }
    if (status != UCC_OK) {
        return status;
    }
    job->width.blocks = info.width;
    job->width.streaming = v->op->call.bytes * v->op->place.n > info.l2_bytes / 2;
    return hd_coll[v->op->call.type].reducing ? hd_device_reduce(v, job) : hd_device_move(v, job);
}

/* Enqueues the share on the stream: that of the line, whose lock the caller holds, or, if that is
 * NULL, the claimer's own. */
static ucc_status_t enqueue_share(const hd_device_view_t *v, hd_gpu_stream_t stream,
                                  hd_line_t *line) {
    hd_device_job_t job = {.launch.blocks = 0};
    hd_assert_eq(stream.device, v->device);
    /* This comes first of all: in a capture, it makes the stream part of it. */
    ucc_status_t status = hd_device_await_ready(v, stream);
    if (status == UCC_OK && has_data(v->op)) {
        status = describe(v, stream, line, &job);
    }
    bool nothing =
        status != UCC_OK || (has_data(v->op) && job.launch.blocks == 0 && job.copies == 0);
    if (nothing && !v->capture) { /* what has become part of a capture must be joined */
        return status;
    }
    if (status == UCC_OK) {
        status = hd_device_launch(v->devices, stream, line, &job);
    }
    return tell(v, line, stream, v->told || job.kept, status);
}

/* Enqueues the whole collective, beginning on the line, whose lock the caller holds. */
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

/* Returns whether one claimer does the whole collective. */
static bool is_trip(const hd_device_view_t *v) {
    return v->way == HD_DEVICE_WINDOWS || v->way == HD_DEVICE_PARTIALS;
}

bool hd_device_suits_own(const hd_device_view_t *v) {
    const hd_device_order_t *own = &hd_device_part_of(v->op)->order;
    /* relaxed: a stream of the user's may be ordered with others' by itself (NULL streams), and so
     * stand behind a gate though its `ready` did not: no harm but while there are some */
    if (!v->capture && atomic_load_explicit(&v->devices->gates, memory_order_relaxed) != 0) {
        return false;
    }
    return !is_trip(v) && own->is && !own->stream.by_thread && own->stream.device == v->device &&
           !v->told && (v->capture || !has_data(v->op) || count_words(v) <= HD_GPU_WORDS) &&
           !hd_device_captured_since(v->op);
}

static ucc_status_t enqueue_on_line(const hd_device_view_t *v) {
    hd_line_t *line;
    ucc_status_t status =
        hd_devices_lock_line(v->devices, v->device, v->op->group, v->capture, &line);
    if (status == UCC_OK) {
        status = is_trip(v) ? enqueue_trip(v, line) : enqueue_share(v, line->stream, line);
        hd_line_unlock(line);
    }
    return status;
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
    if (is_trip(v) && v->share > 0) {
        return UCC_OK; /* the first claimer does it all */
    }
    if (v->way == HD_DEVICE_PARTIALS) {
        v->device = __builtin_ctzll(v->workers); /* whose line is locked first */
    } else if (v->way == HD_DEVICE_WINDOWS) {
        v->shares = 1;
    }
    if (v->way == HD_DEVICE_WINDOWS && v->capture) {
        hd_error("%s: devices that don't reach each other's memory can't have it captured",
                 hd_op_type_name(v->op));
        return UCC_ERR_NOT_SUPPORTED;
    }
    return hd_device_suits_own(v) ? enqueue_share(v, hd_device_part_of(v->op)->order.stream, NULL)
                                  : enqueue_on_line(v);
}
