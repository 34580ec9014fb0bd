/* device.c: what this process has on devices: the driver's table, and the lines on which work is enqueued; whose
 * memory a buffer is. device.h says how it all goes together.
 */
#include "device/internal.h"

#include "core/fork.h"

#include <stdlib.h>

/* --- one for all handles -------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hd_devices_t *the_devices; /* under the lock */
static uint32_t references;       /* likewise */

/* In the child of a fork: who may have held it is not there. */
static void inherit(hd_heirloom_t *self) {
    (void)self;
    pthread_mutex_init(&lock, NULL);
    hd_device_gates_inherit();
}

hd_devices_t *hd_devices_make(const hd_gpu_driver_t *driver) {
    uint32_t lines = driver->devices * HD_GPU_STREAMS;
    hd_devices_t *devices = hd_alloc(HD_LINE, sizeof(*devices) + lines * sizeof(hd_line_t));
    if (!devices) {
        hd_error("no memory for the lines of %u devices", driver->devices);
        return NULL;
    }
    devices->driver = driver;
    for (uint32_t i = 0; i < lines; i++) {
        pthread_mutex_init(&devices->line[i].lock, NULL);
        pthread_mutex_init(&devices->line[i].making, NULL);
    }
    return devices;
}

static hd_devices_t *create(void) {
    static hd_heirloom_t heirloom;
    static bool watching; /* under the lock */
    const hd_gpu_driver_t *driver;
    if (hd_gpu_open(&driver) != UCC_OK) {
        return NULL;
    }
    hd_devices_t *devices = hd_devices_make(driver);
    if (!devices) {
        hd_gpu_close();
        return NULL;
    }
    if (!watching) {
        hd_fork_watch(&heirloom, inherit);
        watching = true;
    }
    return devices;
}

static void put_table(const hd_gpu_driver_t *driver, hd_device_table_t *table) {
    if (table->device) {
        driver->put(table->device);
    }
    if (table->host) {
        driver->put(table->host);
    }
    table->host = table->device = NULL;
    table->capacity = 0;
}

/* Under the lock, or by its end: what was left there, as far as it is not used any more. */
static void put_late(hd_devices_t *devices, hd_line_t *line, bool all) {
    while (line->late && (all || hd_gpu_word_reached(line->word, line->late->ticket))) {
        hd_device_late_t *late = line->late;
        line->late = late->next;
        hd_gpu_handed_over(late->block->memory); /* to who gets it next */
        devices->driver->put(late->block);
        hd_free(late);
    }
}

static void put_line(hd_devices_t *devices, hd_line_t *line) {
    const hd_gpu_driver_t *driver = devices->driver;
    put_late(devices, line, true);
    while (line->table) {
        hd_device_table_t *table = line->table;
        line->table = table->next;
        put_table(driver, table);
        hd_free(table);
    }
    hd_bounce_put(devices, line->bounce);
    hd_partials_put(devices, line->partials);
    if (line->ask) {
        driver->event_put(line->ask);
    }
    if (line->word) {
        driver->word_put(line->stream.device, line->word);
    }
}

/* Devices may go on to use what it has. That this process remembers it is of no use to them. */
static void forget_line(hd_devices_t *devices, hd_line_t *line) {
    (void)devices;
    while (line->late) {
        hd_device_late_t *late = line->late;
        line->late = late->next;
        hd_free(late);
    }
    while (line->table) {
        hd_device_table_t *table = line->table;
        line->table = table->next;
        hd_free(table);
    }
    hd_free(line->bounce);
    hd_free(line->partials);
}

/* What a launch in a graph needs: the kernels, which stay as long as the devices do; a table, if it has one. */
typedef struct hd_device_kept {
    hd_devices_t *devices;
    hd_device_table_t table;
    struct hd_device_kept *next;
} hd_device_kept_t;

/* What graphs have let go of, which could not be put back there and then. */
static void collect_returned(hd_devices_t *devices) {
    /* acquire: pairs with let_go */
    hd_device_kept_t *kept =
        atomic_exchange_explicit(&devices->returned, NULL, memory_order_acquire);
    while (kept) {
        hd_device_kept_t *next = kept->next;
        put_table(devices->driver, &kept->table);
        hd_free(kept);
        kept = next;
    }
}

/* Between two looks at what a device does. */
static void nap(void) {
    _Atomic uint32_t word = 0;
    hd_park_sleep(&word, 0, 50 * 1000u);
}

ucc_status_t hd_device_await_event(const hd_gpu_driver_t *driver, hd_gpu_event_t *event,
                                   hd_gpu_site_t site) {
    uint64_t until = hd_ticks() + hd_seconds_to_ticks(HD_DEVICE_DRAIN_SECONDS);
    ucc_status_t status = driver->event_query(event, site);
    while (status == UCC_INPROGRESS && hd_ticks() < until) {
        nap();
        status = driver->event_query(event, site);
    }
    return status == UCC_INPROGRESS ? UCC_ERR_TIMED_OUT : status;
}

static bool is_abandoned(const hd_devices_t *devices) {
    /* relaxed: every user is gone */
    return atomic_load_explicit(&devices->abandoned, memory_order_relaxed);
}

/* The end of what a device had to do has been waited for. */
static void judge(hd_devices_t *devices, int device, ucc_status_t status) {
    if (status == UCC_ERR_TIMED_OUT) {
        /* relaxed: read by this thread */
        atomic_store_explicit(&devices->abandoned, true, memory_order_relaxed);
        hd_error("device %d has not done what was posted on streams %d s after the last team has "
                 "ended: what it uses for that is never given back",
                 device, HD_DEVICE_DRAIN_SECONDS);
    } else if (status != UCC_OK) {
        hd_devices_abandon(devices, device);
    }
}

void hd_devices_leave(hd_devices_t *devices, int device, hd_gpu_event_t *event) {
    const hd_gpu_driver_t *driver = devices->driver;
    hd_device_left_t *left = NULL;
    if (!hd_gpu_inherited() && driver->event_query(event, HD_GPU_SITE_NONE) == UCC_INPROGRESS) {
        left = hd_alloc(HD_LINE, sizeof(*left));
    }
    if (!left) { /* without memory, whoever gives back kernels waits */
        driver->event_put(event);
        return;
    }
    *left = (hd_device_left_t){.event = event, .device = device};
    pthread_mutex_lock(&lock);
    left->next = devices->left;
    devices->left = left;
    pthread_mutex_unlock(&lock);
}

/* What was put on members' own streams uses the kernels, which a driver does not give back before. */
static void await_left(hd_devices_t *devices) {
    while (devices->left) {
        hd_device_left_t *left = devices->left;
        devices->left = left->next;
        if (!is_abandoned(devices)) { /* else they stay in any case */
            ucc_status_t status =
                hd_device_await_event(devices->driver, left->event, HD_GPU_SITE_NONE);
            judge(devices, left->device, status);
        }
        devices->driver->event_put(left->event);
        hd_free(left);
    }
}

/* What was posted on streams may not be done yet, and uses what the line has. */
static void await_line(hd_devices_t *devices, hd_line_t *line) {
    const hd_gpu_driver_t *driver = devices->driver;
    ucc_status_t status = driver->record(line->stream, line->ask);
    if (status == UCC_OK) {
        status = hd_device_await_event(driver, line->ask, HD_GPU_SITE_LEFT);
    }
    judge(devices, line->stream.device, status);
}

/* Lines for captures have nothing. */
static void await_lines(hd_devices_t *devices) {
    for (uint32_t i = 0; i < devices->driver->devices * HD_GPU_STREAMS; i++) {
        hd_line_t *line = &devices->line[i];
        /* relaxed: every user is gone */
        if (i % HD_GPU_STREAMS < HD_DEVICE_LINES && !hd_line_is_broken(line) &&
            atomic_load_explicit(&line->ready, memory_order_relaxed)) {
            await_line(devices, line);
        }
    }
}

static void each_line(hd_devices_t *devices, void (*does)(hd_devices_t *devices, hd_line_t *line)) {
    for (uint32_t i = 0; i < devices->driver->devices * HD_GPU_STREAMS; i++) {
        does(devices, &devices->line[i]);
    }
}

void hd_devices_unmake(hd_devices_t *devices) {
    each_line(devices, put_line);
    hd_free(devices);
}

static void destroy(hd_devices_t *devices) {
    bool ours = !hd_gpu_inherited();
    if (ours) {
        await_lines(devices);
        await_left(devices);
        hd_device_gates_await(devices);
    }
    bool kept = !ours || is_abandoned(devices);
    hd_device_gates_put(devices, kept);
    if (kept) {
        each_line(devices, forget_line);
    } else {
        each_line(devices, put_line);
    }
    collect_returned(devices); /* graphs that are gone use nothing */
    if (!kept) {               /* else devices may still write to what the driver would give back */
        hd_gpu_close();
    }
    hd_free(devices);
}

hd_devices_t *hd_devices_open(void) {
    pthread_mutex_lock(&lock);
    if (!the_devices) {
        the_devices = create();
    }
    references += the_devices != NULL;
    hd_devices_t *devices = the_devices;
    pthread_mutex_unlock(&lock);
    return devices;
}

hd_devices_t *hd_team_devices(ucc_team_h team) {
    hd_lock(&team->lock);
    hd_devices_t *devices = team->devices;
    hd_unlock(&team->lock);
    if (devices || !(devices = hd_devices_open())) {
        return devices;
    }
    hd_lock(&team->lock);
    bool late = team->devices != NULL; /* another thread was faster: there is only one */
    team->devices = devices;
    hd_unlock(&team->lock);
    if (late) {
        hd_devices_close(devices);
    }
    return devices;
}

hd_devices_t *hd_devices_share(hd_devices_t *devices) {
    pthread_mutex_lock(&lock);
    references++;
    pthread_mutex_unlock(&lock);
    return devices;
}

/* So many references less. Nobody has any more: they go, unless graphs keep something. */
static void drop(uint32_t n) {
    pthread_mutex_lock(&lock);
    references -= n;
    hd_devices_t *devices = the_devices;
    /* acquire: the graph's last touch; pairs with let_go */
    bool last = devices && references == 0 &&
                atomic_load_explicit(&devices->graphs, memory_order_acquire) == 0;
    if (last) {
        the_devices = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (last) {
        destroy(devices);
    }
}

ucc_status_t hd_device_stream_of(hd_devices_t *devices, void *handle, hd_gpu_stream_t *stream) {
    return devices->driver->stream_of(handle, stream);
}

void hd_devices_close(hd_devices_t *devices) {
    if (devices) {
        drop(1);
    }
}

void hd_devices_sweep(void) {
    drop(0);
}

void hd_devices_abandon(hd_devices_t *devices, int device) {
    if (devices->driver->lost(device) || hd_gpu_inherited()) { /* it uses nothing of this process */
        return;
    }
    /* relaxed: read when all users are gone */
    atomic_store_explicit(&devices->abandoned, true, memory_order_relaxed);
    hd_error("device %d may go on to use the buffers of a collective that has failed", device);
}

/* --- lines ------------------------------------------------------------------------------------------------ */

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

/* Line i of a device, made ready. */
static ucc_status_t ready_line(hd_devices_t *devices, int device, uint32_t i, hd_line_t **out) {
    hd_line_t *line = &devices->line[(uint32_t)device * HD_GPU_STREAMS + i];
    ucc_status_t status = UCC_OK;
    /* acquire: pairs with make_ready; relaxed under the lock, which orders it */
    if (!atomic_load_explicit(&line->ready, memory_order_acquire)) {
        pthread_mutex_lock(&line->making);
        if (!atomic_load_explicit(&line->ready, memory_order_relaxed)) {
            status = make_ready(devices, line, device, i);
        }
        pthread_mutex_unlock(&line->making);
    }
    *out = line;
    return status;
}

hd_line_t *hd_devices_line(hd_devices_t *devices, int device, const hd_group_t *group) {
    hd_line_t *line;
    ucc_status_t status =
        ready_line(devices, device, (uint32_t)(group->serial % HD_DEVICE_LINES), &line);
    bool broken = hd_line_is_broken(line);
    if (broken) {
        hd_error("device %d: nothing is enqueued there after an error", device);
    }
    return status == UCC_OK && !broken ? line : NULL;
}

/* One that is part of this capture, or becomes so when it waits for something that is; locked. */
static hd_line_t *lock_capture_line(hd_devices_t *devices, int device, uint64_t capture) {
    for (uint32_t round = 0; round < 2; round++) { /* rather one that is part of it already */
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
    if (capture) {
        *line = lock_capture_line(devices, device, capture);
        return *line ? UCC_OK : UCC_ERR_NO_RESOURCE;
    }
    *line = hd_devices_line(devices, device, group);
    if (*line) {
        hd_line_lock(*line);
    }
    return *line ? UCC_OK : UCC_ERR_IO_ERROR;
}

void hd_line_put_later(hd_devices_t *devices, hd_line_t *line, hd_device_late_t *late) {
    hd_line_lock(line);
    put_late(devices, line, false);
    late->next = NULL;
    if (line->late) {
        line->late_last->next = late;
    } else {
        line->late = late;
    }
    line->late_last = late;
    hd_line_unlock(line);
}

bool hd_line_reached(const struct hd_device_wait *wait) {
    return hd_gpu_word_reached(wait->line->word, wait->ticket);
}

/* As often as this one asks the driver, of all that wait for a line. */
enum { ASK_EVERY_US = 1000 };

/* What was recorded last is asked for until it has come: records that pile up would keep an emulated stream from its work. */
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
    if (!driver->emulated) { /* whose work goes on while it is asked */
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

/* --- tables ------------------------------------------------------------------------------------------------ */

static ucc_status_t take_table(hd_devices_t *devices, int device, hd_device_table_t *table,
                               uint32_t words) {
    enum { LEAST = 512 };
    const hd_gpu_driver_t *driver = devices->driver;
    uint32_t capacity = LEAST;
    while (capacity < words) {
        capacity *= 2;
    }
    put_table(driver, table);
    size_t bytes = capacity * sizeof(uint64_t);
    ucc_status_t status = driver->take(device, HD_GPU_PINNED, bytes, &table->host);
    if (status == UCC_OK) {
        status = driver->take(device, HD_GPU_DEVICE, bytes, &table->device);
    }
    if (status != UCC_OK) {
        put_table(driver, table);
        return status;
    }
    table->capacity = capacity;
    return UCC_OK;
}

/* One that nobody reads any more, large enough if there is such a one; NULL: all are in use, or there is none. */
static hd_device_table_t *find_table(hd_line_t *line, uint32_t words) {
    hd_device_table_t *found = NULL;
    for (hd_device_table_t *table = line->table; table; table = table->next) {
        if (!hd_gpu_word_reached(line->word, table->ticket)) {
            continue;
        }
        if (!found || (found->capacity < words && table->capacity > found->capacity)) {
            found = table;
        }
        if (found->capacity >= words) {
            return found;
        }
    }
    return found;
}

/* One more. To wait for the others would be to wait for streams of the user's, which may wait for what the caller is going
 * to do. */
static hd_device_table_t *add_table(hd_line_t *line) {
    hd_device_table_t *table = hd_alloc(HD_LINE, sizeof(*table));
    if (!table) {
        hd_error("device %d: no memory for a table of a launch", line->stream.device);
        return NULL;
    }
    table->next = line->table;
    line->table = table;
    return table;
}

static hd_gpu_table_t table_of(const hd_device_table_t *table, uint32_t words) {
    hd_gpu_touched(table->host->memory, words * sizeof(uint64_t), true);
    return (hd_gpu_table_t){.device = (uintptr_t)table->device->memory,
                            .host = table->host->memory,
                            .capacity = table->capacity};
}

ucc_status_t hd_line_table(hd_devices_t *devices, hd_line_t *line, uint32_t words,
                           hd_gpu_table_t *out, hd_device_table_t **kept) {
    *out = (hd_gpu_table_t){0};
    *kept = NULL;
    if (words <= HD_GPU_WORDS) {
        return UCC_OK;
    }
    hd_device_table_t *table = find_table(line, words);
    if (!table && !(table = add_table(line))) {
        return UCC_ERR_NO_MEMORY;
    }
    if (table->capacity < words) {
        ucc_status_t status = take_table(devices, line->stream.device, table, words);
        if (status != UCC_OK) {
            return status;
        }
    }
    *out = table_of(table, words);
    *kept = table;
    return UCC_OK;
}

/* By the driver, in any thread, when the graph is gone: the driver may not be called. */
static void let_go(void *arg) {
    hd_device_kept_t *kept = arg;
    hd_devices_t *devices = kept->devices;
    kept->next = atomic_load_explicit(&devices->returned, memory_order_relaxed); /* a guess */
    /* release: hands on what is kept; pairs with collect_returned */
    while (!atomic_compare_exchange_weak_explicit(&devices->returned, &kept->next, kept,
                                                  memory_order_release, memory_order_relaxed)) {
    }
    /* release: my last touch of devices; pairs with drop */
    atomic_fetch_sub_explicit(&devices->graphs, 1, memory_order_release);
}

ucc_status_t hd_devices_keep(hd_devices_t *devices, hd_gpu_stream_t stream, uint32_t words,
                             hd_gpu_table_t *out) {
    collect_returned(devices);
    hd_device_kept_t *kept = hd_alloc(HD_LINE, sizeof(*kept));
    if (!kept) {
        hd_error("device %d: no memory for what a graph keeps", stream.device);
        return UCC_ERR_NO_MEMORY;
    }
    kept->devices = devices;
    *out = (hd_gpu_table_t){0};
    ucc_status_t status = UCC_OK;
    if (words > HD_GPU_WORDS) {
        status = take_table(devices, stream.device, &kept->table, words);
    }
    if (status == UCC_OK) {
        /* relaxed: devices are not given up while I use them */
        atomic_fetch_add_explicit(&devices->graphs, 1, memory_order_relaxed);
        if (kept->table.capacity) {
            *out = table_of(&kept->table, words);
        }
        status = devices->driver->keep(stream, let_go, kept);
        if (status != UCC_OK) {
            atomic_fetch_sub_explicit(&devices->graphs, 1, memory_order_relaxed); /* likewise */
        }
    }
    if (status != UCC_OK) {
        put_table(devices->driver, &kept->table);
        hd_free(kept);
    }
    return status;
}

ucc_status_t hd_line_fill(hd_devices_t *devices, hd_line_t *line, hd_device_table_t *table,
                          uint32_t words) {
    table->ticket = line->ticket + 1;
    return devices->driver->copy(line->stream, table->device->memory, line->stream.device,
                                 table->host->memory, -1, words * sizeof(uint64_t));
}

/* A call of the driver's has failed, which may not mean that its device has: waits until the stream is empty. */
static ucc_status_t drain(const hd_gpu_driver_t *driver, hd_line_t *line) {
    ucc_status_t status = driver->record(line->stream, line->ask);
    return status == UCC_OK ? hd_device_await_event(driver, line->ask, HD_GPU_SITE_DRAINED)
                            : status;
}

ucc_status_t hd_line_drain(hd_devices_t *devices, hd_line_t *line) {
    ucc_status_t status = drain(devices->driver, line);
    if (status != UCC_OK &&
        status != UCC_ERR_TIMED_OUT) { /* once more: it may have been the waiting that failed */
        status = drain(devices->driver, line);
    }
    if (status == UCC_OK) {
        return status;
    }
    hd_line_break(line);
    hd_devices_abandon(devices, line->stream.device);
    return status;
}

void hd_devices_drain_others(hd_devices_t *devices, const hd_group_t *group,
                             const hd_line_t *lost) {
    for (uint32_t d = 0; d < devices->driver->devices; d++) {
        hd_line_t *line =
            &devices->line[d * HD_GPU_STREAMS + (uint32_t)(group->serial % HD_DEVICE_LINES)];
        /* acquire: pairs with make_ready */
        bool ready = atomic_load_explicit(&line->ready, memory_order_acquire);
        if (line != lost && ready && !hd_line_is_broken(line)) {
            (void)hd_line_drain(devices, line);
        }
    }
}

ucc_status_t hd_line_signal(hd_devices_t *devices, hd_line_t *line) {
    ucc_status_t status = devices->driver->signal(line->stream, line->word, line->ticket + 1);
    if (status != UCC_OK) {
        status = hd_line_drain(devices, line);
        if (status != UCC_OK) {
            return status;
        }
        hd_gpu_word_open(line->word,
                         line->ticket + 1); /* all before it is done, in the device's stead */
    }
    line->ticket++;
    return UCC_OK;
}

/* --- who reaches what -------------------------------------------------------------------------------------- */

ucc_status_t hd_devices_reach(hd_devices_t *devices, int device, const hd_gpu_memory_t *memory,
                              const void *pointer, bool *yes) {
    uint64_t bit = UINT64_C(1) << device;
    uint32_t i = (uint32_t)(memory->id % HD_DEVICE_REACH);
    *yes = true;
    bool own = memory->device == device && memory->kind != HD_GPU_PINNED;
    if (memory->device < 0 || own) { /* pinned memory may be elsewhere for its own device, too */
        return UCC_OK;
    }
    hd_lock(&devices->reach_lock);
    bool same = memory->id && devices->reach[i].id == memory->id;
    bool known = same && (devices->reach[i].asked & bit);
    *yes = known && (devices->reach[i].yes & bit);
    hd_unlock(&devices->reach_lock);
    if (known) {
        return UCC_OK;
    }
    ucc_status_t status = devices->driver->reachable(device, pointer, yes);
    if (status != UCC_OK) {
        return status;
    }
    hd_lock(&devices->reach_lock);
    if (devices->reach[i].id != memory->id) {
        devices->reach[i].id = memory->id;
        devices->reach[i].asked = devices->reach[i].yes = 0;
    }
    devices->reach[i].asked |= bit;
    devices->reach[i].yes |= *yes ? bit : 0;
    hd_unlock(&devices->reach_lock);
    return UCC_OK;
}

bool hd_devices_have_pinned(hd_devices_t *devices, const hd_gpu_memory_t *memory,
                            const void *pointer) {
    bool yes = false;
    return hd_devices_reach(devices, memory->device, memory, pointer, &yes) == UCC_OK && yes;
}
