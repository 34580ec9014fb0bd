/* bootstrap.c: the interface: parameters and the environment, forming by root.c or join.c, and the
 * end. One thread at a time for each bootstrap.
 */
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>

static void bootstrap_free(heddle_bootstrap_t *b) {
    for (uint32_t i = 0; b->peer && i < b->n_peers; i++) {
        hd_conn_destroy(b->peer[i]);
    }
    if (b->key) {
        sodium_memzero(b->key, b->key_bytes);
    }
    free(b->key);
    free(b->peer);
    free(b->polls);
    free(b);
}

/* In the child of a fork. Without this, a parent that dies would not be missed: its connections
 * would stay open. */
static void leave_to_parent(hd_fork_hook_t *fork_hook) {
    heddle_bootstrap_t *b = (heddle_bootstrap_t *)fork_hook;
    b->inherited = true;
    for (uint32_t i = 0; i < b->n_peers; i++) {
        if (b->peer[i]) {
            hd_conn_close(b->peer[i]);
        }
    }
}

/* Seconds of HEDDLE_BOOTSTRAP_TIMEOUT, or the default. */
static ucc_status_t timeout_of_environment(double *seconds) {
    const char *text = getenv("HEDDLE_BOOTSTRAP_TIMEOUT");
    *seconds = HD_DEFAULT_SECONDS;
    if (!text) {
        return UCC_OK;
    }
    char *end;
    *seconds = strtod(text, &end);
    if (end == text || *end != '\0' || isnan(*seconds) || *seconds == 0) {
        hd_error("HEDDLE_BOOTSTRAP_TIMEOUT=%s is no number of seconds", text);
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

static ucc_status_t check_params(const heddle_bootstrap_params_t *params) {
    if (params->size == 0 || params->size > HD_WIRE_MOST_PROCESSES) {
        hd_error("heddle_bootstrap_tcp: size %u is not between 1 and %u", params->size,
                 HD_WIRE_MOST_PROCESSES);
        return UCC_ERR_INVALID_PARAM;
    }
    if (params->rank >= params->size) {
        hd_error("heddle_bootstrap_tcp: rank %u is not below size %u", params->rank, params->size);
        return UCC_ERR_INVALID_PARAM;
    }
    if (isnan(params->timeout) || isnan(params->exchange_timeout)) {
        hd_error("heddle_bootstrap_tcp: timeout or exchange_timeout is not a number");
        return UCC_ERR_INVALID_PARAM;
    }
    return UCC_OK;
}

static ucc_status_t set_timeouts(heddle_bootstrap_t *b, const heddle_bootstrap_params_t *params) {
    ucc_status_t status = UCC_OK;
    b->timeout = params->timeout;
    if (b->timeout == 0) {
        status = timeout_of_environment(&b->timeout);
    }
    b->exchange_timeout = params->exchange_timeout != 0 ? params->exchange_timeout : b->timeout;
    return status;
}

/* Meets the others. */
static ucc_status_t form(heddle_bootstrap_t *b, const heddle_bootstrap_params_t *params) {
    char at_slurm[512];
    const char *address = params->address ? params->address : getenv("HEDDLE_BOOTSTRAP_ADDRESS");
    bool has_listener = b->rank == 0 && params->listener > 0;
    if (!address && !has_listener && hd_launcher_address(at_slurm, sizeof(at_slurm))) {
        address = at_slurm;
    }
    if (!address && !has_listener) {
        hd_error("heddle_bootstrap_tcp: no address of rank 0: neither address nor "
                 "HEDDLE_BOOTSTRAP_ADDRESS is set");
        return UCC_ERR_INVALID_PARAM;
    }
    if (sodium_init() < 0) {
        hd_error("heddle_bootstrap_tcp: libsodium cannot be used here: no random numbers");
        return UCC_ERR_NOT_SUPPORTED;
    }
    ucc_status_t status = hd_key_load(b, params);
    if (status != UCC_OK) {
        return status;
    }
    hd_fork_watch(&b->fork_hook, leave_to_parent);
    status = b->rank == 0 ? hd_root_form(b, address, has_listener ? params->listener : -1)
                          : hd_join(b, address);
    if (status != UCC_OK) {
        hd_fork_forget(&b->fork_hook);
    }
    return status;
}

ucc_status_t heddle_bootstrap_tcp(const heddle_bootstrap_params_t *params,
                                  heddle_bootstrap_t **bootstrap) {
    if (!params || !bootstrap) {
        hd_error("heddle_bootstrap_tcp: %s is NULL", params ? "bootstrap" : "params");
        return UCC_ERR_INVALID_PARAM;
    }
    *bootstrap = NULL;
    ucc_status_t status = check_params(params);
    if (status != UCC_OK) {
        return status;
    }
    heddle_bootstrap_t *b = calloc(1, sizeof(*b));
    if (b) {
        b->rank = params->rank;
        b->size = params->size;
        b->n_peers = b->rank == 0 ? b->size : 1;
        b->peer = calloc(b->n_peers, sizeof(hd_conn_t *));
        b->polls = calloc(b->n_peers, sizeof(*b->polls));
    }
    if (!b || !b->peer || !b->polls) {
        hd_error("heddle_bootstrap_tcp: no memory for %u processes", params->size);
        status = UCC_ERR_NO_MEMORY;
    } else {
        status = set_timeouts(b, params);
    }
    if (status == UCC_OK && b->size > 1) {
        status = form(b, params);
    }
    if (status == UCC_OK) {
        *bootstrap = b;
    } else if (b) {
        bootstrap_free(b);
    }
    return status;
}

ucc_status_t heddle_bootstrap_env(const heddle_bootstrap_params_t *params,
                                  heddle_bootstrap_t **bootstrap) {
    heddle_bootstrap_params_t own = {0};
    if (params) {
        own = *params;
    }
    if (bootstrap) {
        *bootstrap = NULL;
    }
    ucc_status_t status = hd_launcher_place(&own.rank, &own.size);
    return status == UCC_OK ? heddle_bootstrap_tcp(&own, bootstrap) : status;
}

void heddle_bootstrap_oob(heddle_bootstrap_t *bootstrap, ucc_oob_coll_t *oob) {
    *oob = (ucc_oob_coll_t){.allgather = hd_exchange_allgather,
                            .req_test = hd_exchange_test,
                            .req_free = hd_exchange_free,
                            .coll_info = bootstrap,
                            .n_oob_eps = bootstrap->size,
                            .oob_ep = bootstrap->rank};
}

uint32_t heddle_bootstrap_rank(const heddle_bootstrap_t *bootstrap) {
    return bootstrap ? bootstrap->rank : 0;
}

uint32_t heddle_bootstrap_size(const heddle_bootstrap_t *bootstrap) {
    return bootstrap ? bootstrap->size : 0;
}

ucc_status_t heddle_bootstrap_end(heddle_bootstrap_t *bootstrap) {
    if (!bootstrap) {
        return UCC_OK;
    }
    if (bootstrap->exchange != HD_EXCHANGE_NONE) {
        hd_error("heddle_bootstrap_end: a request of the exchange has not been freed");
        return UCC_ERR_INVALID_PARAM;
    }
    if (bootstrap->size > 1) {
        hd_fork_forget(&bootstrap->fork_hook);
    }
    bootstrap_free(bootstrap);
    return UCC_OK;
}

const char *heddle_bootstrap_last_error(void) {
    return hd_log_last_error();
}

void heddle_bootstrap_forget_error(void) {
    hd_log_forget_error();
}
