/* load.c: see load.h. Two libraries: the driver, that is libcuda.so.1 or libheddle_emucuda; and
 * libheddle_cuda, which speaks to it.
 */
#define _GNU_SOURCE
#include "gpu/load.h"

#include "core/log.h"
#include "core/topo.h"
#include "gpu/plug.h"

#include <dlfcn.h>
#include <heddle/heddle_version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUDA "libcuda.so.1"

bool hd_gpu_look_up(void *library, const char *name, void *pointer) {
    void *found = dlsym(library, name);
    memcpy(pointer, &found, sizeof(found)); /* a pointer to a function */
    return found != NULL;
}

/* libheddle_NAME of this version: the one that is loaded, or the one beside this library, or
 * wherever the loader finds it. */
static void *load_own(const char *name) {
    char file[64], path[PATH_MAX];
    Dl_info self;
    snprintf(file, sizeof(file), "libheddle_%s.so.%d", name, HEDDLE_VERSION_MAJOR);
    void *handle = dlopen(file, RTLD_NOLOAD | RTLD_NOW);
#ifdef HD_GPU_FOLDER /* tests, of which this is a part: the build's */
    if (!handle) {
        snprintf(path, sizeof(path), "%s/%s", HD_GPU_FOLDER, file);
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
#endif
    if (!handle && dladdr(__func__, &self) && strchr(self.dli_fname, '/')) {
        int folder = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);
        snprintf(path, sizeof(path), "%.*s/%s", folder, self.dli_fname, file);
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return handle ? handle : dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

void *hd_gpu_loaded_cuda(void) {
    return dlopen(CUDA, RTLD_NOLOAD | RTLD_LAZY);
}

void *hd_gpu_load_cuda(void) {
    void *handle = dlopen(CUDA, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        hd_error("GPUs: the CUDA driver can't be loaded: %s", dlerror());
    }
    return handle;
}

/* Does this text ask for so many devices, and nothing else? */
static bool asks_for(const char *config, int devices) {
    char text[16];
    snprintf(text, sizeof(text), "%d", devices);
    return strcmp(config, text) == 0;
}

/* An emulator that is running stays as it is. It is joined if this configured it so, or if all that
 * is asked for is as many devices as it has. */
static bool configure(void *handle, const char *config) {
    enum { NOT_INITIALIZED = 3 };
    static char *before; /* for ever */
    int (*count)(int *devices), (*set)(const char *config), devices = 0;
    if (!hd_gpu_look_up(handle, "cuDeviceGetCount", &count) ||
        !hd_gpu_look_up(handle, "heddle_emucuda_configure", &set)) {
        hd_error("GPU: libheddle_emucuda is of another version");
        return false;
    }
    if (count(&devices) != NOT_INITIALIZED) {
        bool same = (before && strcmp(before, config) == 0) || asks_for(config, devices);
        if (!same) {
            hd_error(
                "GPU: emulated:%s: the emulator runs already, with %d device%s, configured %s%s",
                config, devices, devices == 1 ? "" : "s", before ? "as emulated:" : "by others",
                before ? before : "");
        }
        return same;
    }
    if (set(config) != 0) {
        hd_error("GPU: emulated:%s: the emulator does not understand it", config);
        return false;
    }
    free(before);
    before = strdup(config);
    return true;
}

void *hd_gpu_load_emulator(const char *config) {
    void *handle = load_own("emucuda");
    if (!handle) {
        hd_error("GPU=emulated: libheddle_emucuda can't be loaded: %s", dlerror());
        return NULL;
    }
    return !config || configure(handle, config) ? handle : NULL;
}

static void log_line(int level, const char *function, const char *line) {
    if (hd_log_enabled((hd_log_level_t)level)) {
        hd_log_line((hd_log_level_t)level, function, "%s", line);
    }
}

static int node_of(const char *bus) {
    const hd_topo_t *topo = hd_topo_get();
    hd_locality_t where;
    hd_topo_locate_pci(topo, bus, NULL, &where);
    return hd_topo_is_this_machine(topo) ? hd_topo_node_os(topo, where.numa) : -1;
}

ucc_status_t hd_gpu_load_driver(void *driver, const char *library, const hd_gpu_driver_t **table) {
    hd_gpu_plug_t plug = {.bytes = sizeof(hd_gpu_driver_t),
                          .version = HEDDLE_VERSION_STRING,
                          .log = log_line,
                          .node_of = node_of};
    hd_gpu_plug_fn plug_in;
    if (!hd_gpu_look_up(driver, "cuGetProcAddress_v2", &plug.get_proc_address)) {
        hd_error("GPUs: the CUDA driver is older than 12.0, but 12.2 or later is needed");
        return UCC_ERR_NOT_SUPPORTED;
    }
    void *handle = *library ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : load_own("cuda");
    if (!handle) {
        hd_error("GPU_LIBRARY: %s can't be loaded: %s", *library ? library : "libheddle_cuda",
                 dlerror());
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (!hd_gpu_look_up(handle, HD_GPU_PLUG_NAME, &plug_in)) {
        hd_error("GPU_LIBRARY: it has no function " HD_GPU_PLUG_NAME);
        return UCC_ERR_NOT_SUPPORTED;
    }
    return plug_in(&plug, table);
}
