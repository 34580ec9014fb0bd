/* device.c: what this process has on devices, from the first handle that needs it to the last: the
 * driver's table, the lines (line.c), and which device reaches which memory. The end waits for what
 * was posted on streams and nobody has waited for.
 */
#include "device/internal.h"

#include "core/fork.h"

#include <stdlib.h>

/* An event on a stream of the user's, behind work that nobody had waited for when its team
 * ended. */
typedef struct hd_device_left {
    hd_gpu_event_t *event;
    int device;
    struct hd_device_left *next;
} hd_device_left_t;

/* --- one for all handles --------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hd_devices_t *the_devices; /* under the lock */
static uint32_t references;       /* under the lock */

/* In the child of a fork, whoever may have held the lock is not there. */
static void inherit(hd_fork_hook_t *self) {
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
    static hd_fork_hook_t fork_hook;
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
        hd_fork_watch(&fork_hook, inherit);
        watching = true;
    }
    return devices;
}

static bool is_abandoned(const hd_devices_t *devices) {
    /* relaxed: every user is gone */
    return atomic_load_explicit(&devices->abandoned, memory_order_relaxed);
}

/* Waits for the end of work that the event was recorded behind with this status. */
static void await(hd_devices_t *devices, int device, ucc_status_t status, hd_gpu_event_t *event,
                  hd_gpu_site_t site) {
    if (status == UCC_OK) {
        status = hd_device_await_event(devices->driver, event, site);
    }
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
    if (!left) { /* without memory for it, whoever gives back the kernels waits */
        driver->event_put(event);
        return;
    }
    *left = (hd_device_left_t){.event = event, .device = device};
    pthread_mutex_lock(&lock);
    left->next = devices->left;
    devices->left = left;
    pthread_mutex_unlock(&lock);
}

/* Waits for what was put on members' own streams: it uses the kernels, which a driver does not give
 * back before. */
static void await_left(hd_devices_t *devices) {
    while (devices->left) {
        hd_device_left_t *left = devices->left;
        devices->left = left->next;
        if (!is_abandoned(devices)) { /* else the kernels stay in any case */
            await(devices, left->device, UCC_OK, left->event, HD_GPU_SITE_NONE);
        }
        devices->driver->event_put(left->event);
        hd_free(left);
    }
}

/* Waits for what was posted on streams, which uses what the lines have: not on lines of captures,
 * which nothing hangs on. */
static void await_lines(hd_devices_t *devices) {
    const hd_gpu_driver_t *driver = devices->driver;
    for (uint32_t i = 0; i < driver->devices * HD_GPU_STREAMS; i++) {
        hd_line_t *line = &devices->line[i];
        /* relaxed: every user is gone */
        if (i % HD_GPU_STREAMS < HD_DEVICE_LINES && !hd_line_is_broken(line) &&
            atomic_load_explicit(&line->ready, memory_order_relaxed)) {
            await(devices, line->stream.device, driver->record(line->stream, line->ask), line->ask,
                  HD_GPU_SITE_LEFT);
        }
    }
}

void hd_devices_unmake(hd_devices_t *devices, bool forget) {
    for (uint32_t i = 0; i < devices->driver->devices * HD_GPU_STREAMS; i++) {
        hd_line_put(devices, &devices->line[i], forget);
    }
    hd_devices_collect(devices); /* graphs that are gone use nothing */
    hd_free(devices);
}

static void destroy(hd_devices_t *devices) {
    bool ours = !hd_gpu_inherited();
    if (ours) {
        await_lines(devices);
        await_left(devices);
        hd_device_gates_await(devices);
    }
    bool forget = !ours || is_abandoned(devices);
    hd_device_gates_put(devices, forget);
    hd_devices_unmake(devices, forget);
    if (!forget) { /* else devices may still write to what the driver would give back */
        hd_gpu_close();
    }
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
    bool late = team->devices != NULL; /* another thread was faster, and has got the same */
    if (!late) {
        team->devices = devices;
    }
    hd_unlock(&team->lock);
    if (late) {
        hd_devices_close(devices);
    }
    return devices;
}

/* Takes back so many references. When nobody has any more, the devices go, unless graphs keep
 * something of them. */
static void drop(uint32_t n) {
    pthread_mutex_lock(&lock);
    hd_assert_le(n, references);
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

void hd_devices_close(hd_devices_t *devices) {
    if (devices) {
        drop(1);
    }
}

void hd_devices_sweep(void) {
    drop(0);
}

ucc_status_t hd_device_stream_of(hd_devices_t *devices, void *handle, hd_gpu_stream_t *stream) {
    return devices->driver->stream_of(handle, stream);
}

/* --- who reaches what ------------------------------------------------------------------------ */

ucc_status_t hd_devices_reach(hd_devices_t *devices, int device, const hd_gpu_memory_t *memory,
                              const void *pointer, bool *yes) {
    uint64_t bit = UINT64_C(1) << device;
    uint32_t i = (uint32_t)(memory->id % HD_DEVICE_REACH);
    *yes = true;
    bool own = memory->device == device && memory->kind != HD_GPU_PINNED;
    /* A device may have even pinned memory of its own at another address. */
    if (memory->device < 0 || own) {
        return UCC_OK;
    }
    hd_lock(&devices->reach_lock);
    if (devices->reach[i].id != memory->id) {
        devices->reach[i].id = memory->id;
        devices->reach[i].asked = devices->reach[i].yes = 0;
    }
    bool known = memory->id && (devices->reach[i].asked & bit);
    *yes = known && (devices->reach[i].yes & bit);
    hd_unlock(&devices->reach_lock);
    ucc_status_t status = known ? UCC_OK : devices->driver->reachable(device, pointer, yes);
    if (known || status != UCC_OK) {
        return status;
    }
    hd_lock(&devices->reach_lock);
    if (devices->reach[i].id == memory->id) { /* else the place is another allocation's by now */
        devices->reach[i].asked |= bit;
        devices->reach[i].yes |= *yes ? bit : 0;
    }
    hd_unlock(&devices->reach_lock);
    return UCC_OK;
}

bool hd_devices_have_pinned(hd_devices_t *devices, const hd_gpu_memory_t *memory,
                            const void *pointer) {
    bool yes = false;
    return hd_devices_reach(devices, memory->device, memory, pointer, &yes) == UCC_OK && yes;
}
