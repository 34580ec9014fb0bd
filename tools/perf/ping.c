/* ping.c: a message between two processes, through UCX alone: what no collective among processes
 * can be faster than.
 *
 * A context, worker and endpoint of the tool's own, loaded as the library loads UCX, and told the
 * same of transports (NET_TLS, NET_SHM); without error handling, which is when UCX is fastest. The
 * first process sends a message, the last one sends one back, over and over, as UCX's own
 * ucx_perftest does for active messages. What comes is copied to where a receiver would want it.
 */
#include "run.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

#ifdef TOOL_HAVE_UCX

#include <dlfcn.h>
#include <sched.h>
#include <ucp/api/ucp.h>

enum { MESSAGE = 1, MOST_ADDRESS = 4096, PATIENCE = 1 << 14 };

#define FUNCTIONS(_of)                                                                             \
    _of(ucp_config_read) _of(ucp_config_modify) _of(ucp_config_release) _of(ucp_init_version)      \
        _of(ucp_cleanup) _of(ucp_worker_create) _of(ucp_worker_destroy)                            \
            _of(ucp_worker_get_address) _of(ucp_worker_release_address) _of(ucp_worker_progress)   \
                _of(ucp_worker_set_am_recv_handler) _of(ucp_ep_create) _of(ucp_ep_close_nbx)       \
                    _of(ucp_am_send_nbx) _of(ucp_am_recv_data_nbx) _of(ucp_request_check_status)   \
                        _of(ucp_request_free)

static struct {
#define POINTER(_name) __typeof__(&_name) _name;
    FUNCTIONS(POINTER)
} ucx;

static struct {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    uint32_t processes, me;
    bool plays; /* one of the two that measure */
    unsigned char *out, *in;
    size_t out_bytes, in_bytes, bytes;
    uint64_t arrived; /* messages that are in place */
    void *receiving;  /* a request */
} ping;

static bool load(void) {
    const char *name = getenv("HEDDLE_NET_LIBRARY");
    void *library =
        dlopen(name != NULL && *name != '\0' ? name : "libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    bool all = library != NULL;
#define LOOK_UP(_name)                                                                             \
    if (all) {                                                                                     \
        void *found = dlsym(library, #_name);                                                      \
        memcpy(&ucx._name, &found, sizeof(found));                                                 \
        all = found != NULL;                                                                       \
    }
    FUNCTIONS(LOOK_UP)
    return all;
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_bytes, void *data,
                               size_t bytes, const ucp_am_recv_param_t *param) {
    (void)arg, (void)header, (void)header_bytes;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
        memcpy(ping.in, data, bytes < ping.bytes ? bytes : ping.bytes);
        ping.arrived++;
        return UCS_OK;
    }
    ucp_request_param_t none = {0};
    ucs_status_ptr_t got = ucx.ucp_am_recv_data_nbx(ping.worker, data, ping.in, ping.bytes, &none);
    if (UCS_PTR_IS_PTR(got)) {
        ping.receiving = got;
    } else {
        ping.arrived++;
    }
    return UCS_INPROGRESS;
}

static bool make_worker(void) {
    ucp_config_t *config;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM};
    ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_am_handler_param_t am = {.field_mask =
                                     UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                 .id = MESSAGE,
                                 .cb = on_message};
    const char *tls = getenv("HEDDLE_NET_TLS"), *shm = getenv("HEDDLE_NET_SHM");
    if (ucx.ucp_config_read(NULL, NULL, &config) != UCS_OK) {
        return false;
    }
    if (tls != NULL && *tls != '\0') {
        (void)ucx.ucp_config_modify(config, "TLS", tls);
    } else if (shm != NULL && (*shm == 'n' || *shm == '0')) {
        (void)ucx.ucp_config_modify(config, "TLS", "^shm");
    }
    bool made = ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config,
                                     &ping.context) == UCS_OK;
    ucx.ucp_config_release(config);
    return made && ucx.ucp_worker_create(ping.context, &single, &ping.worker) == UCS_OK &&
           ucx.ucp_worker_set_am_recv_handler(ping.worker, &am) == UCS_OK;
}

/* What the two tell each other; bytes is 0 where there is no worker. */
typedef struct card {
    uint64_t bytes;
    unsigned char address[MOST_ADDRESS];
} card_t;

static void write_card(card_t *card) {
    ucp_address_t *address;
    size_t bytes;
    if (ucx.ucp_worker_get_address(ping.worker, &address, &bytes) != UCS_OK) {
        return;
    }
    if (bytes <= MOST_ADDRESS) {
        memcpy(card->address, address, bytes);
        card->bytes = bytes;
    }
    ucx.ucp_worker_release_address(ping.worker, address);
}

bool perf_ping_open(const char **why) {
    const ucc_oob_coll_t *oob = perf_world_oob();
    ping.processes = oob->n_oob_eps;
    ping.me = oob->oob_ep;
    ping.plays = ping.me == 0 || ping.me == ping.processes - 1;
    card_t *mine = calloc(1, sizeof(*mine)), *all = calloc(ping.processes, sizeof(*all));
    if (mine == NULL || all == NULL) {
        perf_fatal("addresses", UCC_ERR_NO_MEMORY);
    }
    if (ping.plays && load() && make_worker()) {
        write_card(mine);
    }
    perf_world_gather(mine, sizeof(*mine), all);
    card_t *other = &all[ping.me == 0 ? ping.processes - 1 : 0];
    uint32_t good = all[0].bytes != 0 && all[ping.processes - 1].bytes != 0;
    if (good && ping.plays) {
        ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                  .address = (const ucp_address_t *)(const void *)other->address};
        good = ucx.ucp_ep_create(ping.worker, &params, &ping.ep) == UCS_OK;
    }
    free(mine);
    free(all);
    uint32_t *goods = perf_allocate(ping.processes * sizeof(*goods));
    perf_world_gather(&good, sizeof(good), goods);
    for (uint32_t p = 0; p < ping.processes; p++) {
        good = good && goods[p];
    }
    free(goods);
    *why = "UCX could not be used by the tool itself";
    return good;
}

void perf_ping_close(void) {
    if (ping.ep != NULL) {
        ucp_request_param_t none = {0};
        ucs_status_ptr_t closing = ucx.ucp_ep_close_nbx(ping.ep, &none);
        while (UCS_PTR_IS_PTR(closing) && ucx.ucp_request_check_status(closing) == UCS_INPROGRESS) {
            ucx.ucp_worker_progress(ping.worker);
        }
        if (UCS_PTR_IS_PTR(closing)) {
            ucx.ucp_request_free(closing);
        }
    }
    perf_world_meet(); /* nobody's worker goes before the other has let go of it */
    if (ping.worker != NULL) {
        ucx.ucp_worker_destroy(ping.worker);
    }
    if (ping.context != NULL) {
        ucx.ucp_cleanup(ping.context);
    }
    free(ping.out);
    free(ping.in);
    memset(&ping, 0, sizeof(ping));
}

static void end(void **request) {
    if (*request != NULL && ucx.ucp_request_check_status(*request) != UCS_INPROGRESS) {
        if (ucx.ucp_request_check_status(*request) != UCS_OK) {
            perf_fatal("a message through UCX", UCC_ERR_IO_ERROR);
        }
        ucx.ucp_request_free(*request);
        *request = NULL;
    }
}

static void progress(uint32_t *turns) {
    if (ucx.ucp_worker_progress(ping.worker) == 0 && ++*turns > PATIENCE) {
        sched_yield(); /* where the other has no processor */
        *turns = 0;
    }
    if (ping.receiving != NULL) {
        end(&ping.receiving);
        ping.arrived += ping.receiving == NULL;
    }
}

static void send_one(void) {
    ucp_request_param_t none = {0};
    uint32_t turns = 0;
    ucs_status_ptr_t sent =
        ucx.ucp_am_send_nbx(ping.ep, MESSAGE, NULL, 0, ping.out, ping.bytes, &none);
    if (UCS_PTR_IS_ERR(sent)) {
        perf_fatal("a message through UCX", UCC_ERR_IO_ERROR);
    }
    for (void *request = UCS_PTR_IS_PTR(sent) ? sent : NULL; request != NULL;) {
        progress(&turns);
        end(&request);
    }
}

static void await(uint64_t number) {
    for (uint32_t turns = 0; ping.arrived < number;) {
        progress(&turns);
    }
}

static double play(uint64_t bytes, uint32_t rounds) {
    perf_grow(&ping.out, &ping.out_bytes, bytes);
    perf_grow(&ping.in, &ping.in_bytes, bytes);
    ping.bytes = bytes;
    memset(ping.out, 1, bytes);
    uint64_t number = ping.arrived, begin = 0;
    for (uint32_t i = 0; i <= rounds; i++) {
        if (i == 1) { /* the first found the other asleep */
            begin = perf_clock_ticks();
        }
        if (ping.me == 0) {
            send_one();
            await(++number);
        } else {
            await(++number);
            send_one();
        }
    }
    return perf_clock_seconds(perf_clock_ticks() - begin) / rounds / 2;
}

double perf_ping_half(uint64_t bytes) {
    uint32_t rounds = bytes <= 4096 ? 500 : bytes <= 64 << 10 ? 100 : bytes <= 1 << 20 ? 20 : 5;
    double seconds = -1.0;
    perf_world_meet();
    if (ping.plays) {
        seconds = play(bytes, rounds);
    }
    perf_world_share(&seconds, sizeof(seconds));
    return seconds;
}

#else /* no headers of UCX */

bool perf_ping_open(const char **why) {
    *why = "built without UCX's headers";
    return false;
}
void perf_ping_close(void) {
}
double perf_ping_half(uint64_t bytes) {
    (void)bytes;
    return -1.0;
}

#endif
