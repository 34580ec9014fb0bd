/* line.c: lines: internal streams of devices, on which work is enqueued under a lock and told of by
 * tickets (internal.h). A line is made ready when it is first needed, and broken when it is not
 * known any more what is enqueued on it; waiting for a ticket or an event is here, too.
 */
#include "device/internal.h"

/* --- waiting for a device -------------------------------------------------------------------- */

ucc_status_t hd_device_await_event(const hd_gpu_driver_t *driver, hd_gpu_event_t *event,
                                   hd_gpu_site_t site) {
    uint64_t until = hd_ticks() + hd_seconds_to_ticks(HD_DEVICE_DRAIN_SECONDS);
    _Atomic uint32_t word = 0;
    ucc_status_t status = driver->event_query(event, site);
    while (status == UCC_INPROGRESS && hd_ticks() < until) {
        hd_park_sleep(&word, 0, 50 * 1000u); /* nobody rings */
        status = driver->event_query(event, site);
    }
    return status == UCC_INPROGRESS ? UCC_ERR_TIMED_OUT : status;
}

void hd_devices_abandon(hd_devices_t *devices, int device) {
    /* The device uses nothing of this process. */
    if (devices->driver->lost(device) || hd_gpu_inherited()) {
        return;
    }
    /* relaxed: read when all users are gone */
    atomic_store_explicit(&devices->abandoned, true, memory_order_relaxed);
    hd_error("device %d may go on to use the buffers of a collective that has failed", device);
}

/* --- one that is ready ----------------------------------------------------------------------- */

static ucc_status_t make_ready(hd_devices_t *devices, hd_line_t *line, int device, uint32_t i) {
    const hd_gpu_driver_t *driver = devices->driver;
    ucc_status_t status = driver->info(device, &line->info);
    if (status == UCC_OK) {
        status = driver->stream(device, i, &line->stream);
    }
    if (status == UCC_OK && !line->word) {
        status = driver->word_take(device, &line->word);
    }
    if (status == UCC_OK && !line->ask) {
        status = driver->event_take(device, &line->ask);
    }
    /* release: publishes the line's fields */
    atomic_store_explicit(&line->ready, status == UCC_OK, memory_order_release);
    return status;
}

/* Returns the number of the line that the group uses of each device. */
static uint32_t number_of(const hd_group_t *group) {
    return (uint32_t)(group->serial % HD_DEVICE_LINES);
}

/* Finds line i of a device, and makes it ready. */
static ucc_status_t ready_line(hd_devices_t *devices, int device, uint32_t i, hd_line_t **out) {
    hd_line_t *line = *out = &devices->line[(uint32_t)device * HD_GPU_STREAMS + i];
    ucc_status_t status = UCC_OK;
    /* acquire: pairs with make_ready; relaxed under the lock, which orders it */
    if (!atomic_load_explicit(&line->ready, memory_order_acquire)) {
        pthread_mutex_lock(&line->making);
        if (!atomic_load_explicit(&line->ready, memory_order_relaxed)) {
            status = make_ready(devices, line, device, i);
        }
        pthread_mutex_unlock(&line->making);
    }
    return status;
}

hd_line_t *hd_devices_line(hd_devices_t *devices, int device, const hd_group_t *group) {
    hd_line_t *line;
    ucc_status_t status = ready_line(devices, device, number_of(group), &line);
    bool broken = hd_line_is_broken(line);
    if (broken) {
        hd_error("device %d: nothing is enqueued there after an error", device);
    }
    return status == UCC_OK && !broken ? line : NULL;
}

/* Finds and locks a line that is part of this capture, or becomes part of it when it waits for
 * something that is. */
static hd_line_t *lock_capture_line(hd_devices_t *devices, int device, uint64_t capture) {
    for (uint32_t round = 0; round < 2; round++) { /* one that is part of it already is better */
        for (uint32_t i = HD_DEVICE_LINES; i < HD_GPU_STREAMS; i++) {
            hd_gpu_capture_t of = {.id = 0};
            hd_line_t *line;
            if (ready_line(devices, device, i, &line) != UCC_OK) {
                return NULL;
            }
            hd_line_lock(line);
            if (devices->driver->capture(line->stream, &of) == UCC_OK && !of.broken &&
                (of.active ? of.id == capture : round > 0)) {
                return line;
            }
            hd_line_unlock(line);
        }
    }
    hd_error("device %d: collectives are captured into %d graphs at a time, and no more", device,
             HD_DEVICE_CAPTURES);
    return NULL;
}

ucc_status_t hd_devices_lock_line(hd_devices_t *devices, int device, const hd_group_t *group,
                                  uint64_t capture, hd_line_t **line) {
    *line = capture ? lock_capture_line(devices, device, capture)
                    : hd_devices_line(devices, device, group);
    if (*line && !capture) {
        hd_line_lock(*line);
        if (hd_line_is_broken(*line)) { /* since I have found it */
            hd_line_unlock(*line);
            *line = NULL;
        }
    }
    return *line ? UCC_OK : capture ? UCC_ERR_NO_RESOURCE : UCC_ERR_IO_ERROR;
}

/* --- tickets --------------------------------------------------------------------------------- */

ucc_status_t hd_line_drain(hd_devices_t *devices, hd_line_t *line) {
    const hd_gpu_driver_t *driver = devices->driver;
    ucc_status_t status = UCC_ERR_IO_ERROR;
    /* Twice: it may have been the waiting that failed. */
    for (int i = 0; i < 2 && status != UCC_OK && status != UCC_ERR_TIMED_OUT; i++) {
        status = driver->record(line->stream, line->ask);
        if (status == UCC_OK) {
            status = hd_device_await_event(driver, line->ask, HD_GPU_SITE_DRAINED);
        }
    }
    if (status != UCC_OK) {
        hd_line_break(line);
        hd_devices_abandon(devices, line->stream.device);
    }
    return status;
}

void hd_devices_drain_others(hd_devices_t *devices, const hd_group_t *group,
                             const hd_line_t *lost) {
    for (uint32_t d = 0; d < devices->driver->devices; d++) {
        hd_line_t *line = &devices->line[d * HD_GPU_STREAMS + number_of(group)];
        /* acquire: pairs with make_ready */
        bool ready = atomic_load_explicit(&line->ready, memory_order_acquire);
        if (line != lost && ready && !hd_line_is_broken(line)) {
            (void)hd_line_drain(devices, line);
        }
    }
}

ucc_status_t hd_line_signal(hd_devices_t *devices, hd_line_t *line) {
    hd_assert(hd_line_is_locked(line));
    hd_assert(!hd_gpu_word_reached(line->word, line->ticket + 1)); /* nobody has given it */
    ucc_status_t status = devices->driver->signal(line->stream, line->word, line->ticket + 1);
    if (status != UCC_OK) {
        status = hd_line_drain(devices, line);
        if (status == UCC_OK) { /* all before the ticket is done: the host sets it instead */
            hd_gpu_word_open(line->word, line->ticket + 1);
        }
    }
    line->ticket += status == UCC_OK;
    return status;
}

bool hd_line_reached(const struct hd_device_wait *wait) {
    return hd_gpu_word_reached(wait->line->word, wait->ticket);
}

/* Of all that wait for a line, one asks the driver, no more often than this. */
enum { ASK_EVERY_US = 1000 };

/* Returns whether the driver answers without an error. It is asked for what was recorded last until
 * that has come: records that pile up would keep an emulated stream from its work. */
static bool answers(const hd_gpu_driver_t *driver, hd_line_t *line) {
    /* relaxed, all: at worst two record, or one that has come is asked for once more */
    if (!atomic_load_explicit(&line->asked, memory_order_relaxed)) {
        if (driver->record(line->stream, line->ask) != UCC_OK) {
            return false;
        }
        atomic_store_explicit(&line->asked, true, memory_order_relaxed);
    }
    ucc_status_t status = driver->event_query(line->ask, HD_GPU_SITE_NONE);
    if (status != UCC_INPROGRESS) {
        atomic_store_explicit(&line->asked, false, memory_order_relaxed);
    }
    return status >= 0;
}

bool hd_line_has_failed(hd_devices_t *devices, hd_line_t *line) {
    const hd_gpu_driver_t *driver = devices->driver;
    if (driver->lost(line->stream.device)) {
        return true;
    }
    if (!driver->emulated) { /* an emulated device's work goes on while it is asked */
        uint64_t now = hd_ticks();
        /* relaxed, both: only decides who asks */
        uint64_t due = atomic_load_explicit(&line->ask_due, memory_order_relaxed);
        uint64_t next = now + hd_seconds_to_ticks(ASK_EVERY_US * 1e-6);
        if (now < due ||
            !atomic_compare_exchange_strong_explicit(&line->ask_due, &due, next,
                                                     memory_order_relaxed, memory_order_relaxed)) {
            return false;
        }
    }
    /* twice: it may have been the asking that failed */
    return !answers(driver, line) && (driver->lost(line->stream.device) || !answers(driver, line));
}

/* --- its end, and what is put back before ---------------------------------------------------- */

/* Frees the oldest of what was left on the line; its block is put back, or forgotten. */
static void put_oldest(hd_devices_t *devices, hd_line_t *line, bool forget) {
    hd_device_late_t *late = line->late;
    line->late = late->next;
    if (!forget) {
        hd_gpu_handed_over(late->block->memory); /* to whoever gets it next */
        devices->driver->put(late->block);
    }
    hd_free(late);
}

void hd_line_put_later(hd_devices_t *devices, hd_line_t *line, hd_device_late_t *late) {
    hd_line_lock(line);
    while (line->late && hd_gpu_word_reached(line->word, line->late->ticket)) {
        put_oldest(devices, line, false);
    }
    hd_assert_le(late->ticket, line->ticket);
    late->next = NULL;
    if (line->late) {
        line->late_last->next = late;
    } else {
        line->late = late;
    }
    line->late_last = late;
    hd_line_unlock(line);
}

void hd_line_put(hd_devices_t *devices, hd_line_t *line, bool forget) {
    const hd_gpu_driver_t *driver = devices->driver;
    while (line->late) {
        put_oldest(devices, line, forget);
    }
    hd_line_put_tables(devices, line, forget);
    for (int i = 0; i < HD_LINE_MEMORIES; i++) {
        if (forget) {
            hd_free(line->memory[i]);
        } else if (line->memory[i]) {
            line->memory[i]->put(devices, line->memory[i]);
        }
    }
    if (!forget && line->ask) {
        driver->event_put(line->ask);
    }
    if (!forget && line->word) {
        driver->word_put(line->stream.device, line->word);
    }
}
