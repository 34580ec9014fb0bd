/*
 * config_calls.c: the public configuration calls, ucc_lib_config_* and ucc_context_config_*.
 *
 * A public handle is a core configuration object under another name. Handles are checked, since
 * programs do pass the wrong one; printing and releasing NULL is allowed and does nothing. A
 * context's configuration is read with the library handle's environment prefix and keeps no
 * reference to the handle.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <ucc/api/ucc.h>

#include "api/lib_internal.h"
#include "core/config.h"
#include "core/log.h"
#include "core/mem.h"

/* own_prefix may be NULL. */
static ucc_status_t read_lib(const char *own_prefix, const char *filename,
                             ucc_lib_config_h *config) {
    hd_config_t *cfg = NULL;

    if (config == NULL) {
        hd_error("ucc_lib_config_read: config is NULL");
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = hd_config_read(HD_CFG_SCOPE_LIB, own_prefix, filename, &cfg);
    if (status == UCC_OK) {
        *config = (ucc_lib_config_h)cfg;
    }
    return status;
}

ucc_status_t hd_lib_config_read(const char *before, const char *env_prefix, const char *behind,
                                const char *filename, ucc_lib_config_h *config) {
    size_t size = strlen(before) + strlen(env_prefix) + strlen(behind) + 1;
    char *own_prefix = hd_alloc(1, size);

    if (own_prefix == NULL) {
        hd_error("ucc_lib_config_read: no memory for env_prefix");
        return UCC_ERR_NO_MEMORY;
    }
    snprintf(own_prefix, size, "%s%s%s", before, env_prefix, behind);
    ucc_status_t status = read_lib(own_prefix, filename, config);
    hd_free(own_prefix);
    return status;
}

ucc_status_t ucc_lib_config_read(const char *env_prefix, const char *filename,
                                 ucc_lib_config_h *config) {
    return env_prefix != NULL && env_prefix[0] != '\0'
               ? hd_lib_config_read("", env_prefix, "_UCC_", filename, config)
               : read_lib(NULL, filename, config);
}

/* A library's or a context's; cfg NULL: the handle is none of that kind. */
static ucc_status_t modify(hd_config_t *cfg, const char *component, const char *name,
                           const char *value) {
    if (cfg == NULL || name == NULL || value == NULL) {
        hd_error("%s is missing or invalid",
                 cfg == NULL ? "config" : (name == NULL ? "name" : "value"));
        return UCC_ERR_INVALID_PARAM;
    }
    return hd_config_modify(cfg, component, name, value);
}

static void print(const hd_config_t *cfg, FILE *stream, const char *title,
                  ucc_config_print_flags_t print_flags) {
    if (cfg != NULL && stream != NULL) {
        hd_config_print(cfg, stream, title, print_flags);
    }
}

static void release(hd_config_t *cfg, const void *handle, const char *kind) {
    if (handle != NULL && cfg == NULL) {
        hd_error("%p is no %s configuration", handle, kind);
    }
    hd_config_release(cfg);
}

ucc_status_t ucc_lib_config_modify(ucc_lib_config_h config, const char *name, const char *value) {
    return modify(hd_lib_config_unwrap(config), NULL, name, value);
}

void ucc_lib_config_print(const ucc_lib_config_h config, FILE *stream, const char *title,
                          ucc_config_print_flags_t print_flags) {
    print(hd_lib_config_unwrap(config), stream, title, print_flags);
}

void ucc_lib_config_release(ucc_lib_config_h config) {
    release(hd_lib_config_unwrap(config), config, "library");
}

ucc_status_t ucc_context_config_read(ucc_lib_h lib_handle, const char *filename,
                                     ucc_context_config_h *config) {
    hd_config_t *cfg = NULL;

    if (config == NULL || !hd_lib_valid(lib_handle)) {
        hd_error("%s is missing or invalid", config == NULL ? "config" : "lib_handle");
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status =
        hd_config_read(HD_CFG_SCOPE_CONTEXT, hd_lib_own_prefix(lib_handle), filename, &cfg);
    if (status == UCC_OK) {
        *config = (ucc_context_config_h)cfg;
    }
    return status;
}

ucc_status_t ucc_context_config_modify(ucc_context_config_h config, const char *component,
                                       const char *name, const char *value) {
    return modify(hd_context_config_unwrap(config), component, name, value);
}

void ucc_context_config_print(const ucc_context_config_h config, FILE *stream, const char *title,
                              ucc_config_print_flags_t print_flags) {
    print(hd_context_config_unwrap(config), stream, title, print_flags);
}

void ucc_context_config_release(ucc_context_config_h config) {
    release(hd_context_config_unwrap(config), config, "context");
}
