/* table.c: tables: the words of a launch that are too many for its arguments. The host writes them
 * to pinned memory, a copy on the launch's stream brings them to the device, and the kernel reads
 * them there.
 *
 * A table belongs to a line, and is written again once that has reached the ticket of the work that
 * reads it; or to a graph, and is given back after the driver has said that the graph is gone.
 */
#include "device/internal.h"

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
    if (status == UCC_OK) {
        table->capacity = capacity;
    } else {
        put_table(driver, table);
    }
    return status;
}

static hd_gpu_table_t table_of(const hd_device_table_t *table, uint32_t words) {
    hd_gpu_touched(table->host->memory, words * sizeof(uint64_t), true);
    return (hd_gpu_table_t){.device = (uintptr_t)table->device->memory,
                            .host = table->host->memory,
                            .capacity = table->capacity};
}

/* --- a line's -------------------------------------------------------------------------------- */

/* Returns a table that nobody reads any more: a large enough one if there is one, or a new one if
 * all are in use. To wait for one of those would be to wait for streams of the user's, which may
 * wait for what the caller is going to do. NULL: there is no memory (logged). */
static hd_device_table_t *find_table(hd_line_t *line, uint32_t words) {
    hd_device_table_t *found = NULL;
    for (hd_device_table_t *table = line->table; table; table = table->next) {
        bool larger = !found || (found->capacity < words && table->capacity > found->capacity);
        if (larger && hd_gpu_word_reached(line->word, table->ticket)) {
            found = table;
        }
    }
    if (found) {
        return found;
    }
    found = hd_alloc(HD_LINE, sizeof(*found));
    if (found) {
        found->next = line->table;
        line->table = found;
    } else {
        hd_error("device %d: no memory for a table of a launch", line->stream.device);
    }
    return found;
}

ucc_status_t hd_line_table(hd_devices_t *devices, hd_line_t *line, uint32_t words,
                           hd_device_job_t *job) {
    if (words <= HD_GPU_WORDS) {
        return UCC_OK;
    }
    hd_assert(hd_line_is_locked(line));
    hd_device_table_t *table = find_table(line, words);
    ucc_status_t status = table ? UCC_OK : UCC_ERR_NO_MEMORY;
    if (table && table->capacity < words) {
        status = take_table(devices, line->stream.device, table, words);
    }
    if (status == UCC_OK) {
        job->table = table_of(table, words);
        job->kept = table;
    }
    return status;
}

ucc_status_t hd_device_launch(hd_devices_t *devices, hd_gpu_stream_t stream, hd_line_t *line,
                              const hd_device_job_t *job) {
    const hd_gpu_table_t *words = &job->table;
    hd_device_table_t *kept = job->kept;
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; i < job->copies && status == UCC_OK; i++) {
        const hd_device_copy_t *copy = &job->copy[i];
        status = devices->driver->copy(stream, copy->to, copy->to_device, copy->from,
                                       copy->from_device, copy->bytes);
    }
    if (status != UCC_OK || !job->launch.blocks) {
        return status;
    }
    if (words->used && kept) {
        hd_assert(hd_line_is_locked(line));
        hd_assert_le(words->used, kept->capacity);
        hd_assert_le(kept->ticket, line->ticket); /* else its last words are still to be read */
        kept->ticket = line->ticket + 1;
    }
    if (words->used) {
        status = devices->driver->copy(stream, (void *)(uintptr_t)words->device, stream.device,
                                       words->host, -1, words->used * sizeof(uint64_t));
    }
    return status == UCC_OK ? devices->driver->launch(stream, &job->launch) : status;
}

void hd_line_put_tables(hd_devices_t *devices, hd_line_t *line, bool forget) {
    while (line->table) {
        hd_device_table_t *table = line->table;
        line->table = table->next;
        if (!forget) {
            put_table(devices->driver, table);
        }
        hd_free(table);
    }
}

/* --- a graph's ------------------------------------------------------------------------------- */

/* What a launch in a graph needs: the kernels, which stay as long as the devices do, and its table,
 * if it has one. */
typedef struct hd_device_kept {
    hd_devices_t *devices;
    hd_device_table_t table;
    struct hd_device_kept *next;
} hd_device_kept_t;

/* What graphs let go of can't be put back there and then (let_go), so it is put back here. */
void hd_devices_collect(hd_devices_t *devices) {
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

/* The driver calls this in any thread when the graph is gone; it may not be called from here. */
static void let_go(void *arg) {
    hd_device_kept_t *kept = arg;
    hd_devices_t *devices = kept->devices;
    kept->next = atomic_load_explicit(&devices->returned, memory_order_relaxed); /* a guess */
    /* release: hands on what is kept; pairs with hd_devices_collect */
    while (!atomic_compare_exchange_weak_explicit(&devices->returned, &kept->next, kept,
                                                  memory_order_release, memory_order_relaxed)) {
    }
    /* release: my last touch of devices; pairs with drop */
    atomic_fetch_sub_explicit(&devices->graphs, 1, memory_order_release);
}

ucc_status_t hd_devices_keep(hd_devices_t *devices, hd_gpu_stream_t stream, uint32_t words,
                             hd_gpu_table_t *out) {
    hd_devices_collect(devices);
    hd_device_kept_t *kept = hd_alloc(HD_LINE, sizeof(*kept));
    if (!kept) {
        hd_error("device %d: no memory for what a graph keeps", stream.device);
        return UCC_ERR_NO_MEMORY;
    }
    kept->devices = devices;
    ucc_status_t status = UCC_OK;
    if (words > HD_GPU_WORDS) {
        status = take_table(devices, stream.device, &kept->table, words);
    }
    /* relaxed, both: devices are not given up while I use them */
    atomic_fetch_add_explicit(&devices->graphs, 1, memory_order_relaxed);
    if (status == UCC_OK && words > HD_GPU_WORDS) {
        *out = table_of(&kept->table, words);
    }
    if (status == UCC_OK) {
        status = devices->driver->keep(stream, let_go, kept);
    }
    if (status != UCC_OK) {
        atomic_fetch_sub_explicit(&devices->graphs, 1, memory_order_relaxed);
        put_table(devices->driver, &kept->table);
        hd_free(kept);
    }
    return status;
}
