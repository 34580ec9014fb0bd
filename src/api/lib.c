/* lib.c: library handles: init, attributes, finalize, version. Any thread. */
#include "api/api.h"
#include "core/log.h"
#include "gpu/gpu.h"
#include "threads/clock.h"
#include "threads/stall.h"
#include "threads/trace.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool hd_lib_valid(ucc_lib_h lib) {
    return lib && lib->magic == HD_LIB_MAGIC;
}

const char *hd_lib_own_prefix(ucc_lib_h lib) {
    return lib->own_prefix ? lib->own_prefix : "";
}

bool hd_api_lib(ucc_lib_h lib, const char *caller) {
    if (!hd_lib_valid(lib)) {
        hd_error("%s: not a library handle", caller);
        return false;
    }
    return true;
}

static ucc_status_t take_params(ucc_lib_h lib, const ucc_lib_params_t *p) {
    ucc_lib_params_t *own = &lib->params;
    own->mask = p->mask;
    own->thread_mode =
        p->mask & UCC_LIB_PARAM_FIELD_THREAD_MODE ? p->thread_mode : UCC_THREAD_SINGLE;
    own->coll_types = p->mask & UCC_LIB_PARAM_FIELD_COLL_TYPES ? p->coll_types : 0;
    own->reduction_types = p->mask & UCC_LIB_PARAM_FIELD_REDUCTION_TYPES ? p->reduction_types : 0;
    own->sync_type =
        p->mask & UCC_LIB_PARAM_FIELD_SYNC_TYPE ? p->sync_type : UCC_NO_SYNC_COLLECTIVES;
    if ((unsigned)own->thread_mode > UCC_THREAD_MULTIPLE) {
        hd_error("ucc_init: thread_mode %d does not exist", (int)own->thread_mode);
        return UCC_ERR_INVALID_PARAM;
    }
    if ((unsigned)own->sync_type > UCC_SYNC_COLLECTIVES) {
        hd_error("ucc_init: sync_type %d does not exist", (int)own->sync_type);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

static ucc_status_t take_config(ucc_lib_h lib, const ucc_lib_config_h config) {
    const hd_config_t *given = (const hd_config_t *)config;
    if (given && !hd_config_valid(given, HD_CFG_SCOPE_LIB)) {
        hd_error("ucc_init: not a configuration handle");
        return UCC_ERR_INVALID_PARAM;
    }
    if (given) {
        lib->config = hd_config_copy(given);
        if (!lib->config) {
            return UCC_ERR_NO_MEMORY;
        }
    } else {
        ucc_status_t status = hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &lib->config);
        if (status != UCC_OK) {
            return status;
        }
    }
    const char *prefix = hd_config_own_prefix(lib->config);
    lib->own_prefix = prefix && *prefix ? strdup(prefix) : NULL;
    if (prefix && *prefix && !lib->own_prefix) {
        return UCC_ERR_NO_MEMORY;
    }
    const hd_config_t *c = lib->config;
    hd_log_set_level((hd_log_level_t)hd_log_level_parse(hd_config_string(c, HD_CFG_LIB_LOG_LEVEL)));
    hd_log_set_file(hd_config_string(c, HD_CFG_LIB_LOG_FILE));
    hd_config_check_environment(hd_config_own_prefix(c));
    lib->check = hd_config_bool(c, HD_CFG_LIB_CHECK);
    lib->strict_exclusive = hd_config_bool(c, HD_CFG_LIB_STRICT_EXCLUSIVE);
    lib->debug_order = hd_config_bool(c, HD_CFG_LIB_DEBUG_ORDER);
    lib->mappings = (hd_cfg_mappings_t)hd_config_choice(c, HD_CFG_LIB_DEBUG_MAPPINGS);
    lib->may_park = hd_config_bool(c, HD_CFG_LIB_PARK);
    lib->max_polls = (uint32_t)hd_config_uint(c, HD_CFG_LIB_SPIN_POLLS);
    lib->yield_max_us = hd_config_uint(c, HD_CFG_LIB_YIELD_MAX_US);
    lib->park_after_us = hd_config_uint(c, HD_CFG_LIB_PARK_SPIN_US);
    lib->stall = hd_stall_ticks(hd_config_double(c, HD_CFG_LIB_STALL));
    lib->gpu_gate = (hd_cfg_gate_t)hd_config_choice(c, HD_CFG_LIB_GPU_GATE);
    lib->gpu_copy_min = hd_config_size(c, HD_CFG_LIB_GPU_COPY_MIN);
    lib->gpu_partial_min = hd_config_size(c, HD_CFG_LIB_GPU_PARTIAL_MIN);
    lib->timeout = hd_stall_ticks(hd_config_double(c, HD_CFG_LIB_TIMEOUT));
    return hd_profile_parse(hd_config_string(c, HD_CFG_LIB_PROFILE), &lib->profile);
}

static void release(ucc_lib_h lib) {
    hd_config_release(lib->config);
    free(lib->own_prefix);
    hd_profile_forget(&lib->profile);
    hd_free(lib);
}

ucc_status_t ucc_init_version(unsigned api_major_version, unsigned api_minor_version,
                              const ucc_lib_params_t *params, const ucc_lib_config_h config,
                              ucc_lib_h *lib_p) {
    if (!hd_api_pointer(params, "params", __func__) || !hd_api_pointer(lib_p, "lib_p", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    if (api_major_version != UCC_API_MAJOR) {
        hd_error("%s: API version %u.%u is not compatible with %s", __func__, api_major_version,
                 api_minor_version, UCC_VERSION_STRING);
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (api_minor_version > UCC_API_MINOR) {
        hd_debug("client speaks API %u.%u, newer than %s: fields added since are ignored",
                 api_major_version, api_minor_version, UCC_VERSION_STRING);
    }
    hd_clock_init();
    hd_park_init();
    ucc_lib_h lib = hd_alloc(HD_LINE, sizeof(*lib));
    if (!lib) {
        hd_error("%s: no memory", __func__);
        return UCC_ERR_NO_MEMORY;
    }
    lib->magic = HD_LIB_MAGIC;
    ucc_status_t status = take_params(lib, params);
    if (status == UCC_OK) {
        status = take_config(lib, config);
    }
    if (status == UCC_OK) {
        status = hd_gpu_configure(hd_config_string(lib->config, HD_CFG_LIB_GPU),
                                  hd_config_string(lib->config, HD_CFG_LIB_GPU_LIBRARY));
    }
    if (status != UCC_OK) {
        release(lib);
        return status;
    }
    hd_trace_open(hd_config_string(lib->config, HD_CFG_LIB_TRACE),
                  hd_log_level_parse(hd_config_string(lib->config, HD_CFG_LIB_COLL_TRACE)));
    *lib_p = lib;
    return UCC_OK;
}

ucc_status_t ucc_finalize(ucc_lib_h lib_p) {
    if (!hd_api_lib(lib_p, __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    /* relaxed: the client has destroyed its contexts before */
    uint32_t contexts = atomic_load_explicit(&lib_p->contexts, memory_order_relaxed);
    if (contexts) {
        hd_error("%s: %u contexts of this library are alive", __func__, contexts);
        return UCC_ERR_INVALID_PARAM;
    }
    lib_p->magic = HD_DEAD_MAGIC;
    hd_trace_close();
    hd_devices_sweep();
    hd_gpu_unconfigure();
    release(lib_p);
    return UCC_OK;
}

enum { ALL_TYPES = (1 << 16) - 1 };

ucc_status_t ucc_lib_get_attr(ucc_lib_h lib_p, ucc_lib_attr_t *lib_attr) {
    if (!hd_api_lib(lib_p, __func__) || !hd_api_pointer(lib_attr, "lib_attr", __func__)) {
        return UCC_ERR_INVALID_PARAM;
    }
    const ucc_lib_params_t *p = &lib_p->params;
    if (lib_attr->mask & UCC_LIB_ATTR_FIELD_THREAD_MODE) {
        lib_attr->thread_mode = p->thread_mode;
    }
    if (lib_attr->mask & UCC_LIB_ATTR_FIELD_COLL_TYPES) {
        lib_attr->coll_types = p->mask & UCC_LIB_PARAM_FIELD_COLL_TYPES && p->coll_types
                                   ? p->coll_types & (ALL_TYPES | UCC_COLL_TYPE_MCAST |
                                                      UCC_COLL_TYPE_SCAN | UCC_COLL_TYPE_EXSCAN)
                                   : ALL_TYPES;
    }
    if (lib_attr->mask & UCC_LIB_ATTR_FIELD_REDUCTION_TYPES) {
        lib_attr->reduction_types = p->mask & UCC_LIB_PARAM_FIELD_REDUCTION_TYPES
                                        ? p->reduction_types
                                        : UCC_MASK(UCC_OP_LAST);
    }
    if (lib_attr->mask & UCC_LIB_ATTR_FIELD_SYNC_TYPE) {
        lib_attr->sync_type = p->sync_type;
    }
    return UCC_OK;
}

void ucc_get_version(unsigned *major_version, unsigned *minor_version, unsigned *release_number) {
    if (major_version) {
        *major_version = UCC_API_MAJOR;
    }
    if (minor_version) {
        *minor_version = UCC_API_MINOR;
    }
    if (release_number) {
        const char *last = strrchr(UCC_VERSION_STRING, '.');
        *release_number = last ? (unsigned)strtoul(last + 1, NULL, 10) : 0;
    }
}

const char *ucc_get_version_string(void) {
    return UCC_VERSION_STRING;
}

unsigned heddle_version(void) {
    return HEDDLE_VERSION;
}

const char *heddle_last_error(void) {
    return hd_log_last_error();
}

void heddle_forget_error(void) {
    hd_log_forget_error();
}

const char *heddle_version_string(void) {
    return HEDDLE_VERSION_STRING;
}

void heddle_loaded_as_ucc(void) {
    hd_log_set_default(STDOUT_FILENO);
}
