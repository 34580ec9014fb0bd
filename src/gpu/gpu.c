/* gpu.c: whether this process has GPUs, and who uses them: see gpu.h. Any thread. */
#include "gpu/gpu.h"

#include "core/fork.h"
#include "core/log.h"
#include "gpu/load.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef enum gpu_mode { MODE_AUTO, MODE_NONE, MODE_CUDA, MODE_EMULATED } gpu_mode_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all to the blank line */
static uint32_t configured; /* by so many; 0: what follows is as if nobody had said anything */
static gpu_mode_t mode;
static char *emulator_config; /* NULL: as it is */
static char *library;         /* NULL: where it belongs */
static bool held;             /* one of the users is this file, until the last hd_gpu_unconfigure */
static bool
    unloadable; /* as it is configured, libheddle_cuda can't be loaded, and that has been said */
static uint32_t users;
static bool ever; /* a driver was started in this process */

/* Those who have opened it know that it is there; memory_of may be called all the same while others
 * close it. */
static const hd_gpu_driver_t *_Atomic opened;
static _Atomic bool inherited; /* the process is a child of a fork, and its parent had GPUs */
_Atomic bool hd_gpu_told;

static struct {
    void (*handed)(const void *token);
    void (*taken)(const void *token);
    void (*read)(const void *pointer, size_t bytes);
    void (*write)(const void *pointer, size_t bytes);
} tell;

/* ---- forks ---- */

/* Another thread may have held the lock, or been anywhere: of what it guards, only what `inherited`
 * leaves is used. The lock is not held over forks because drivers have handlers of their own, with
 * locks that are taken under it. */
static void in_child(hd_fork_hook_t *fork_hook) {
    (void)fork_hook;
    /* relaxed, all: the child has no other thread */
    const hd_gpu_driver_t *driver = atomic_load_explicit(&opened, memory_order_relaxed);
    if (driver) {
        driver->forked();
    }
    pthread_mutex_init(&lock, NULL);
    atomic_store_explicit(&inherited, ever, memory_order_relaxed);
    atomic_store_explicit(&opened, NULL, memory_order_relaxed);
    atomic_store_explicit(&hd_gpu_told, false, memory_order_relaxed);
}

bool hd_gpu_inherited(void) {
    /* relaxed: set while the process was alone */
    return atomic_load_explicit(&inherited, memory_order_relaxed);
}

static void watch_once(void) {
    static hd_fork_hook_t fork_hook;
    hd_fork_watch(&fork_hook, in_child);
}

static void enter(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_once);
    pthread_mutex_lock(&lock);
}

static void leave(void) {
    pthread_mutex_unlock(&lock);
}

/* ---- opening; all under the lock ---- */

static bool find_tells(void *emulator) {
    return hd_gpu_look_up(emulator, "heddle_emucuda_host_release", &tell.handed) &&
           hd_gpu_look_up(emulator, "heddle_emucuda_host_acquire", &tell.taken) &&
           hd_gpu_look_up(emulator, "heddle_emucuda_host_read", &tell.read) &&
           hd_gpu_look_up(emulator, "heddle_emucuda_host_write", &tell.write);
}

static ucc_status_t open_first(void) {
    const hd_gpu_driver_t *driver;
    if (mode == MODE_NONE) {
        hd_error("GPU=n: collectives on devices are not supported");
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (unloadable) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    void *handle =
        mode == MODE_EMULATED ? hd_gpu_load_emulator(emulator_config) : hd_gpu_load_cuda();
    if (!handle) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    ever = true;
    ucc_status_t status = hd_gpu_load_driver(handle, library ? library : "", &driver);
    if (status != UCC_OK) {
        unloadable = configured && status == UCC_ERR_NOT_SUPPORTED;
        return status;
    }
    hd_info("GPUs: %u%s", driver->devices, driver->emulated ? ", emulated" : "");
    /* relaxed: who works with a device learns of it by the pointer below, or from who did */
    atomic_store_explicit(&hd_gpu_told, driver->emulated && find_tells(handle),
                          memory_order_relaxed);
    /* release: pairs with the acquire in hd_gpu_memory_of */
    atomic_store_explicit(&opened, driver, memory_order_release);
    return UCC_OK;
}

static ucc_status_t open_locked(void) {
    if (hd_gpu_inherited()) {
        hd_error("GPUs: this process is the child of a fork of one that used them: CUDA can't be "
                 "used in it");
        return UCC_ERR_NOT_SUPPORTED;
    }
    ucc_status_t status = users == 0 ? open_first() : UCC_OK;
    users += status == UCC_OK;
    return status;
}

static void close_locked(void) {
    /* relaxed, all: changed under the lock, or while the process was alone */
    const hd_gpu_driver_t *driver = atomic_load_explicit(&opened, memory_order_relaxed);
    if (--users == 0 && driver) {
        atomic_store_explicit(&opened, NULL, memory_order_relaxed);
        atomic_store_explicit(&hd_gpu_told, false, memory_order_relaxed);
        driver->close();
    }
}

static ucc_status_t hold(void) {
    ucc_status_t status = held ? UCC_OK : open_locked();
    held = held || status == UCC_OK;
    return status;
}

ucc_status_t hd_gpu_open(const hd_gpu_driver_t **driver) {
    enter();
    ucc_status_t status = open_locked();
    /* relaxed: stored under the lock */
    *driver = atomic_load_explicit(&opened, memory_order_relaxed);
    leave();
    return status;
}

void hd_gpu_close(void) {
    enter();
    close_locked();
    leave();
}

/* The program has called cuInit. */
static bool cuda_runs(void) {
    enum { NOT_INITIALIZED = 3 };
    int (*count)(int *devices), devices;
    void *loaded = hd_gpu_loaded_cuda();
    return loaded && hd_gpu_look_up(loaded, "cuDeviceGetCount", &count) &&
           count(&devices) != NOT_INITIALIZED;
}

ucc_status_t hd_gpu_peek(const hd_gpu_driver_t **driver) {
    enter();
    bool may = !hd_gpu_inherited();
    if (may && (users > 0 || (mode == MODE_AUTO && cuda_runs()))) {
        (void)open_locked();
    }
    /* relaxed: stored under the lock */
    *driver = may ? atomic_load_explicit(&opened, memory_order_relaxed) : NULL;
    leave();
    return *driver ? UCC_OK : UCC_ERR_NOT_FOUND;
}

/* ---- configuration ---- */

static bool parse(const char *text, gpu_mode_t *parsed, const char **config) {
    static const char emulated[] = "emulated";
    size_t length = strlen(emulated);
    *config = NULL;
    if (strcmp(text, "auto") == 0) {
        *parsed = MODE_AUTO;
    } else if (strcmp(text, "n") == 0 || strcmp(text, "no") == 0 || strcmp(text, "off") == 0) {
        *parsed = MODE_NONE;
    } else if (strcmp(text, "cuda") == 0) {
        *parsed = MODE_CUDA;
    } else if (strncmp(text, emulated, length) == 0 &&
               (text[length] == ':' || text[length] == '\0')) {
        *parsed = MODE_EMULATED;
        *config = text[length] == ':' ? &text[length + 1] : NULL;
    } else {
        return false;
    }
    return true;
}

static ucc_status_t take(gpu_mode_t parsed, const char *config, const char *file) {
    char *own_config = config ? strdup(config) : NULL, *own_file = strdup(file);
    if ((config && !own_config) || !own_file) {
        free(own_config);
        free(own_file);
        return UCC_ERR_NO_MEMORY;
    }
    mode = parsed;
    emulator_config = own_config;
    library = own_file;
    return UCC_OK;
}

ucc_status_t hd_gpu_configure(const char *text, const char *file) {
    gpu_mode_t parsed;
    const char *config;
    if (!parse(text, &parsed, &config)) {
        hd_error("GPU: '%s' is none of auto, n, cuda, emulated[:CONFIGURATION]: taken for auto",
                 text);
        parsed = MODE_AUTO;
    }
    enter();
    ucc_status_t status = configured == 0 ? take(parsed, config, file) : UCC_OK;
    configured += status == UCC_OK;
    if (status == UCC_OK && configured == 1 && (mode == MODE_CUDA || mode == MODE_EMULATED)) {
        (void)hold();
    }
    leave();
    return status;
}

void hd_gpu_unconfigure(void) {
    enter();
    if (--configured == 0) {
        if (held) {
            close_locked();
        }
        held = unloadable = false;
        mode = MODE_AUTO;
        free(emulator_config);
        free(library);
        emulator_config = library = NULL;
    }
    leave();
}

/* ---- memory ---- */

/* Nothing is open. If the program has CUDA all the same, and that knows the pointer, there will be.
 */
static ucc_status_t look(const void *pointer) {
    enum { MEMORY_TYPE = 2 };
    static void *loaded; /* libcuda, which stays loaded: found once */
    int (*get)(void *value, int attribute, unsigned long long address);
    unsigned int type = 0;
    loaded = loaded ? loaded : hd_gpu_loaded_cuda();
    /* If the program has not called cuInit, this is an error as for any memory of the host. */
    bool known = loaded && hd_gpu_look_up(loaded, "cuPointerGetAttribute", &get) &&
                 get(&type, MEMORY_TYPE, (unsigned long long)(uintptr_t)pointer) == 0;
    return known ? hold() : UCC_OK;
}

ucc_status_t hd_gpu_memory_of(const void *pointer, hd_gpu_memory_t *memory) {
    ucc_status_t status = UCC_OK;
    *memory = (hd_gpu_memory_t){.kind = HD_GPU_HOST, .device = -1};
    /* acquire: pairs with the release in open_first, and has the table with it */
    const hd_gpu_driver_t *driver = atomic_load_explicit(&opened, memory_order_acquire);
    if (!driver) {
        enter();
        if (mode == MODE_AUTO && !hd_gpu_inherited()) {
            status = look(pointer);
        }
        /* relaxed: stored under the lock */
        driver = atomic_load_explicit(&opened, memory_order_relaxed);
        leave();
    }
    return driver && status == UCC_OK ? driver->memory_of(pointer, memory) : status;
}

/* ---- what the host does ---- */

void hd_gpu_tell_handed(const void *token) {
    tell.handed(token);
}

void hd_gpu_tell_taken(const void *token) {
    tell.taken(token);
}

void hd_gpu_tell_touched(const void *pointer, size_t bytes, bool written) {
    (written ? tell.write : tell.read)(pointer, bytes);
}
