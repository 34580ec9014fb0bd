/*
 * What the rest of api/ may know about a library handle. Implemented by the file that owns
 * struct ucc_lib_info.
 */
#ifndef HD_API_LIB_INTERNAL_H
#define HD_API_LIB_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <ucc/api/ucc.h>

#include "core/config.h"

/* False for NULL and for handles that ucc_init did not return or ucc_finalize has taken back, as
 * far as a magic number can tell. */
bool hd_lib_valid(ucc_lib_h lib);

/* Requires a valid handle. All that the names of the program's own variables begin with; "" if it
 * gave no prefix. */
const char *hd_lib_own_prefix(ucc_lib_h lib);

/* ucc_lib_config_read, where the names of the program's own variables begin with before, env_prefix
 * and behind. Neither is NULL. */
ucc_status_t hd_lib_config_read(const char *before, const char *env_prefix, const char *behind,
                                const char *filename, ucc_lib_config_h *config);

/* The configuration behind a public handle; NULL if the handle is NULL or no such thing. */
static inline hd_config_t *hd_lib_config_unwrap(ucc_lib_config_h config) {
    hd_config_t *cfg = (hd_config_t *)config;
    return hd_config_valid(cfg, HD_CFG_SCOPE_LIB) ? cfg : NULL;
}

static inline hd_config_t *hd_context_config_unwrap(ucc_context_config_h config) {
    hd_config_t *cfg = (hd_config_t *)config;
    return hd_config_valid(cfg, HD_CFG_SCOPE_CONTEXT) ? cfg : NULL;
}

#endif
