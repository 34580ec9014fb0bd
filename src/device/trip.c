/* trip.c: a collective that one claimer enqueues on the lines of several devices (windows.c,
 * partials.c): from the first step to the last, in the order of the data, so that each wait is for
 * what has been enqueued above it. In the end one line, whose lock the claimer holds, comes after
 * all others: its ticket is everybody's.
 */
#include "device/internal.h"

void hd_trip_note(hd_trip_t *t, ucc_status_t status) {
    if (t->status == UCC_OK) {
        t->status = status;
    }
}

hd_trip_t hd_trip_begin(const hd_device_view_t *v, hd_line_t *line, hd_mark_t *end) {
    hd_assert(hd_line_is_locked(line));
    hd_assert_eq(line->stream.device, v->device);
    hd_trip_t t = {
        .v = v, .driver = v->devices->driver, .line = line, .end = end, .status = UCC_OK};
    (void)hd_trip_line(&t, v->device);
    return t;
}

hd_line_t *hd_trip_line(hd_trip_t *t, int device) {
    uint64_t bit = UINT64_C(1) << device;
    hd_line_t *line =
        device == t->v->device ? t->line : hd_devices_line(t->v->devices, device, t->v->op->group);
    if (!line) {
        hd_trip_note(t, UCC_ERR_IO_ERROR);
    } else if (t->status == UCC_OK && !(t->ready & bit)) { /* nothing is enqueued there yet */
        hd_trip_note(t, hd_device_await_ready(t->v, line->stream));
        t->ready |= bit;
    }
    return line;
}

void hd_trip_mark(hd_trip_t *t, hd_mark_t *mark, const hd_line_t *line) {
    if (t->status == UCC_OK && !mark->event) {
        hd_trip_note(t, t->driver->event_take(line->stream.device, &mark->event));
    }
    if (t->status == UCC_OK) {
        hd_trip_note(t, t->driver->record(line->stream, mark->event));
        mark->recorded = t->status == UCC_OK;
    }
}

void hd_trip_await(hd_trip_t *t, const hd_line_t *line, const hd_mark_t *mark, uint64_t of,
                   hd_gpu_site_t site) {
    for (int d = 0; d < (int)t->driver->devices; d++) {
        bool counts = of >> d & 1 && mark[d].recorded && d != line->stream.device;
        if (t->status == UCC_OK && counts) {
            hd_trip_note(t, t->driver->wait(line->stream, mark[d].event, site));
        }
    }
}

void hd_marks_put(const hd_gpu_driver_t *driver, hd_mark_t *mark, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (mark[i].event) {
            driver->event_put(mark[i].event);
        }
    }
}

void hd_trip_reduce(hd_trip_t *t, hd_line_t *line, const hd_gpu_reduction_t *what,
                    hd_gpu_width_t width) {
    hd_devices_t *devices = t->v->devices;
    hd_device_job_t job = {.launch.blocks = 0};
    if (t->status == UCC_OK) {
        hd_trip_note(t, hd_line_table(devices, line, hd_gpu_reduce_words(what), &job));
    }
    if (t->status == UCC_OK) {
        hd_trip_note(t, hd_device_describe(&t->v->op->call, what, &job.launch, width, &job.table));
    }
    if (t->status != UCC_OK || !job.launch.blocks) {
        return;
    }
    t->used |= UINT64_C(1) << line->stream.device;
    hd_trip_note(t, hd_device_launch(devices, line->stream, line, &job));
    if (job.table.used && t->status == UCC_OK) { /* who waits for the table waits for this ticket */
        hd_trip_note(t, hd_line_signal(devices, line));
    }
}

/* Lets the trip's line come after all that this device was given. */
static ucc_status_t join_device(hd_trip_t *t, hd_line_t *line) {
    hd_mark_t *end = &t->end[line->stream.device];
    t->status = UCC_OK;
    hd_trip_mark(t, end, line);
    if (t->status == UCC_OK) {
        hd_trip_note(t, t->driver->wait(t->line->stream, end->event, HD_GPU_SITE_END));
    }
    ucc_status_t status = t->status;
    if (status != UCC_OK && hd_line_drain(t->v->devices, line) != UCC_OK) {
        /* The host could not wait for the device instead. */
        hd_line_break(t->line);
        /* relaxed: read when all users are gone. What is enqueued may wait for what never comes. */
        atomic_store_explicit(&t->v->devices->abandoned, true, memory_order_relaxed);
    }
    return status;
}

/* A trip that has failed may have left something that no mark tells of: lets its marks tell of all
 * that is on the line, for whoever uses the memory next. */
static void mark_left(hd_trip_t *t, hd_line_t *line) {
    for (int i = 0; i < 2 && t->left[i]; i++) {
        t->status = UCC_OK;
        hd_trip_mark(t, &t->left[i][line->stream.device], line);
        if (t->status != UCC_OK) { /* the host waits instead */
            (void)hd_line_drain(t->v->devices, line);
        }
    }
}

ucc_status_t hd_trip_join(hd_trip_t *t) {
    ucc_status_t status = t->status;
    bool failed = status != UCC_OK;
    if (failed && t->used >> t->v->device & 1) {
        mark_left(t, t->line);
    }
    for (int d = 0; d < (int)t->driver->devices; d++) {
        if (t->used >> d & 1 && d != t->v->device) {
            t->status = UCC_OK;
            hd_line_t *line = hd_trip_line(t, d);
            if (failed && line) {
                mark_left(t, line);
            }
            ucc_status_t joined = line ? join_device(t, line) : t->status;
            status = status == UCC_OK ? joined : status;
        }
    }
    if (hd_line_is_broken(t->line)) { /* its stream waits for all that is joined */
        (void)hd_line_drain(t->v->devices, t->line);
    }
    t->status = status;
    return status;
}
