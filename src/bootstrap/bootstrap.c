/* bootstrap.c: the interface: parameters and the environment, forming by root.c or join.c, and the
 * end. One thread at a time for each bootstrap.
 */
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <unistd.h>

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

static ucc_status_t set_fanout(heddle_bootstrap_t *b) {
    const char *text = getenv("HEDDLE_BOOTSTRAP_FANOUT");
    uint64_t fanout = HD_DEFAULT_FANOUT;
    if (text && (!hd_launcher_number(text, UINT32_MAX, &fanout) || fanout == 0)) {
        hd_error("HEDDLE_BOOTSTRAP_FANOUT=%s is no number from 1 on", text);
        return UCC_ERR_INVALID_PARAM;
    }
    b->fanout = (uint32_t)fanout;
    return UCC_OK;
}

static ucc_status_t read_environment(heddle_bootstrap_t *b,
                                     const heddle_bootstrap_params_t *params) {
    const char *job = params->job ? params->job : getenv("HEDDLE_BOOTSTRAP_JOB");
    hd_job_name(b, job ? job : "");
    ucc_status_t status = set_timeouts(b, params);
    return status == UCC_OK ? set_fanout(b) : status;
}

/* Where and by which key the processes meet. */
typedef struct meeting {
    const char *address; /* NULL: there is a listener */
    int listener;        /* rank 0's; -1: none */
    int own;             /* the listener, if it is not the caller's; -1 */
    char text[HD_KVS_TEXT];
} meeting_t;

static ucc_status_t find_meeting(heddle_bootstrap_t *b, const heddle_bootstrap_params_t *params,
                                 meeting_t *m) {
    bool key_is_given = hd_key_is_given(params);
    *m = (meeting_t){.own = -1};
    m->listener = b->rank == 0 && params->listener > 0 ? params->listener : -1;
    m->address = params->address ? params->address : getenv("HEDDLE_BOOTSTRAP_ADDRESS");
    bool has_address = m->address || m->listener >= 0;
    ucc_status_t status = key_is_given ? hd_key_load(b, params) : UCC_OK;
    if (status == UCC_OK && b->by_launcher && hd_kvs_is_there() && !(key_is_given && has_address)) {
        status = hd_kvs_meet(b, has_address, &m->own, m->text);
        m->address = m->address ? m->address : m->text;
        m->listener = m->own >= 0 ? m->own : m->listener;
        return status;
    }
    if (!has_address && hd_launcher_address(m->text, sizeof(m->text))) {
        m->address = m->text;
    } else if (!has_address) {
        hd_error("heddle_bootstrap_tcp: no address of rank 0: neither address nor "
                 "HEDDLE_BOOTSTRAP_ADDRESS is set");
        return UCC_ERR_INVALID_PARAM;
    }
    return key_is_given ? status : hd_key_load(b, params);
}

/* Meets the others. */
static ucc_status_t form(heddle_bootstrap_t *b, const heddle_bootstrap_params_t *params) {
    meeting_t m;
    if (sodium_init() < 0) {
        hd_error("heddle_bootstrap_tcp: libsodium cannot be used here: no random numbers");
        return UCC_ERR_NOT_SUPPORTED;
    }
    ucc_status_t status = find_meeting(b, params, &m);
    if (status == UCC_OK) {
        hd_fork_watch(&b->fork_hook, leave_to_parent);
        status = b->rank == 0 ? hd_root_form(b, m.address, m.listener) : hd_join(b, m.address);
        if (status != UCC_OK) {
            hd_fork_forget(&b->fork_hook);
        }
    }
    if (m.own >= 0) {
        close(m.own);
    }
    return status;
}

/* params have been checked. Into *bootstrap only after UCC_OK. */
static ucc_status_t create(const heddle_bootstrap_params_t *params, bool by_launcher,
                           heddle_bootstrap_t **bootstrap) {
    heddle_bootstrap_t *b = calloc(1, sizeof(*b));
    if (!b) {
        hd_error("heddle_bootstrap_tcp: no memory");
        return UCC_ERR_NO_MEMORY;
    }
    b->rank = params->rank;
    b->size = params->size;
    b->by_launcher = by_launcher;
    ucc_status_t status = read_environment(b, params);
    if (status == UCC_OK && b->size > 1) {
        status = form(b, params);
    }
    if (status != UCC_OK) {
        bootstrap_free(b);
        return status;
    }
    *bootstrap = b;
    return UCC_OK;
}

ucc_status_t heddle_bootstrap_tcp(const heddle_bootstrap_params_t *params,
                                  heddle_bootstrap_t **bootstrap) {
    if (!params || !bootstrap) {
        hd_error("heddle_bootstrap_tcp: %s is NULL", params ? "bootstrap" : "params");
        return UCC_ERR_INVALID_PARAM;
    }
    *bootstrap = NULL;
    ucc_status_t status = check_params(params);
    return status == UCC_OK ? create(params, false, bootstrap) : status;
}

ucc_status_t heddle_bootstrap_env(const heddle_bootstrap_params_t *params,
                                  heddle_bootstrap_t **bootstrap) {
    heddle_bootstrap_params_t own = {0};
    char job[512];
    if (!bootstrap) {
        hd_error("heddle_bootstrap_env: bootstrap is NULL");
        return UCC_ERR_INVALID_PARAM;
    }
    if (params) {
        own = *params;
    }
    *bootstrap = NULL;
    ucc_status_t status = hd_launcher_place(&own.rank, &own.size);
    if (status == UCC_OK && own.size == 0) {
        status = hd_kvs_size(&own.size);
    }
    bool by_launcher = hd_launcher_job(job, sizeof(job));
    if (!own.job && !getenv("HEDDLE_BOOTSTRAP_JOB")) {
        own.job = job;
    }
    status = status == UCC_OK ? check_params(&own) : status;
    return status == UCC_OK ? create(&own, by_launcher, bootstrap) : status;
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
