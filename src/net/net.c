/* net.c: the process's network: one, opened by the first who asks, closed by the last who lets go;
 * and what threads sleep on who wait for it. Any thread may call.
 *
 * Its memory is never freed: whoever pumps may look at it at any time, and finds lanes without
 * workers where there is no net. References and states change under a mutex; opening and closing
 * happen outside it, by exactly one thread, and whoever asks meanwhile is told to come again.
 *
 *     CLOSED -> OPENING -> OPEN -> CLOSING -> CLOSED
 *                           |^
 *                         WIDENING
 *
 * As long as all that teams are made with live on this host, its context listens at the loopback
 * address alone. When one is to be made with processes of other hosts, the net is widened: there is
 * another context for these, and each lane has a worker in it, too. What there was goes on.
 *
 * In the child of a fork, the parent's net is forgotten as it is: nothing of UCX's is called for it
 * any more.
 */
#include "net/internal.h"
#include "threads/fd_waiter.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

typedef enum state { CLOSED, OPENING, OPEN, WIDENING, CLOSING } state_t;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards these */
static state_t state;
static uint32_t references;
static char *named_devices; /* NULL: as the configuration says */
static hd_net_t the_net;

static _Atomic(hd_net_t *) opened; /* the_net while it is open */
static hd_fork_hook_t fork_hook;

/* --- opening, and closing --------------------------------------------------------------------- */

/* Frees what is left of the lane's memory. */
static void clear_lane(hd_net_lane_t *lane) {
    lane->owed = NULL;
    hd_park_clear(lane);
    hd_message_clear(lane);
    hd_leg_clear(lane);
}

static void close_lane(hd_net_t *net, hd_net_lane_t *lane) {
    hd_lock(&lane->lock);
    if (lane->port.worker) {
        hd_net_lane_turn(lane); /* teams that have ended */
        /* UCX ends the process over a worker that has messages under way. */
        bool clean =
            hd_peer_close_links(net, lane) && !lane->under_way && hd_ucx_hang_up(&lane->port);
        if (!clean) { /* UCX keeps the worker, and with it what is under way */
            hd_info("a worker of the network stays, with its descriptors and memory: UCX would end "
                    "this process over what processes that have gone left in it "
                    "(docs/processes.md)");
            net->stays = true;
            hd_ucx_abandon(&lane->port);
            lane->under_way = NULL;
        }
        clear_lane(lane);
    }
    hd_unlock(&lane->lock);
}

static void close_context(const hd_net_t *net, struct ucp_context **context) {
    if (*context && !net->stays) {
        hd_ucx_close(*context);
    }
    *context = NULL;
}

static void free_addresses(hd_net_t *net) {
    if (net->far_address.bytes != net->address.bytes) {
        hd_free(net->far_address.bytes);
    }
    hd_free(net->address.bytes);
    net->address = net->far_address = (hd_net_address_t){0};
}

/* Closes what there is of the net. */
static void close_all(hd_net_t *net) {
    hd_lock(&net->lane[0].lock);
    net->shares = false; /* no prober is made any more */
    net->stays = !hd_net_close_prober(net);
    hd_unlock(&net->lane[0].lock);
    for (uint32_t l = 0; l < HD_NET_MOST_LANES; l++) {
        close_lane(net, &net->lane[l]);
    }
    hd_net_watch_close(net); /* the goodbye comes after all that was sent */
    close_context(net, &net->far);
    close_context(net, &net->context);
    net->stays = false;
    hd_peer_free_all(net);
    hd_gossip_clear(net);
    free_addresses(net);
}

/* UCX brings a message (lane->port.arrive): a swap is told from all others by its length. */
static hd_ucx_arrival_t arrive(hd_ucx_port_t *port, const void *header, size_t header_bytes,
                               void *data, size_t bytes, bool rendezvous) {
    hd_net_lane_t *lane = (hd_net_lane_t *)(void *)port;
    return header_bytes < HD_WIRE_BYTES
               ? hd_net_swap_arrive(lane, header, header_bytes, data, bytes, rendezvous)
               : hd_net_match_arrive(lane, header, header_bytes, data, bytes, rendezvous);
}

static ucc_status_t open_lane(hd_net_t *net, uint32_t l) {
    hd_net_lane_t *lane = &net->lane[l];
    hd_lock(&lane->lock);
    lane->net = net;
    lane->number = l;
    lane->last = &lane->legs;
    lane->port.arrive = arrive;
    ucc_status_t status = hd_ucx_listen(net->context, &lane->port);
    hd_unlock(&lane->lock);
    return status;
}

static void draw_token(hd_net_t *net) {
    if (getrandom(net->token, sizeof(net->token), 0) != (ssize_t)sizeof(net->token)) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        net->token[0] = (uint64_t)t.tv_sec ^ (uint64_t)t.tv_nsec << 32;
        net->token[1] = (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)&t;
    }
}

static uint64_t ns_of(const hd_config_t *config, hd_cfg_id_t seconds) {
    double ns = hd_config_double(config, seconds) * 1e9;
    return ns < 1e18 ? (uint64_t)ns : UINT64_C(1000000000000000000);
}

static hd_ucx_options_t options_of(const hd_config_t *config, hd_ucx_whom_t whom) {
    return (hd_ucx_options_t){
        .tls = hd_config_string(config, HD_CFG_LIB_NET_TLS),
        .devices = named_devices ? named_devices : hd_config_string(config, HD_CFG_LIB_NET_DEVICES),
        .shm = hd_config_bool(config, HD_CFG_LIB_NET_SHM),
        .survive = hd_config_bool(config, HD_CFG_LIB_NET_SURVIVE),
        .shared = hd_config_uint(config, HD_CFG_LIB_NET_LANES) > 1,
        .whom = whom};
}

/* Makes the net one for processes of other hosts, too. It may have been tried before. */
static ucc_status_t widen(hd_net_t *net, const hd_config_t *config) {
    hd_ucx_options_t options = options_of(config, HD_UCX_FAR);
    ucc_status_t status = UCC_OK;
    options.survive = net->survive; /* whoever widens it may have been configured otherwise */
    options.shared = net->lanes > 1;
    if (!net->parts) {
        net->far_address = net->address;
        return UCC_OK;
    }
    if (!net->far) {
        status = hd_ucx_open(&options, &net->far);
    }
    for (uint32_t l = 0; l < net->lanes && status == UCC_OK; l++) {
        hd_net_lane_t *lane = &net->lane[l];
        hd_lock(&lane->lock);
        status = lane->port.far ? UCC_OK : hd_ucx_listen_far(net->far, &lane->port);
        hd_unlock(&lane->lock);
    }
    return status == UCC_OK ? hd_net_address_make(net, true, &net->far_address) : status;
}

static ucc_status_t open_all(hd_net_t *net, const hd_config_t *config, bool far) {
    hd_ucx_options_t options = options_of(config, HD_UCX_ALL);
    ucc_status_t status = hd_net_check_devices("NET_DEVICES", options.devices);
    if (status == UCC_OK) {
        status = hd_ucx_load(hd_config_string(config, HD_CFG_LIB_NET_LIBRARY));
    }
    net->parts = !far && hd_ucx_parts(&options) && hd_net_has_device("lo");
    options.whom = net->parts ? HD_UCX_NEAR : HD_UCX_ALL;
    if (status == UCC_OK) {
        status = hd_ucx_open(&options, &net->context);
    }
    if (status != UCC_OK) {
        net->context = NULL;
        return status;
    }
    net->lanes = (uint32_t)hd_config_uint(config, HD_CFG_LIB_NET_LANES);
    net->survive = options.survive;
    net->shares = hd_ucx_shares(&options);
    net->grace_ns = ns_of(config, HD_CFG_LIB_NET_GRACE);
    net->cut_off_ns = ns_of(config, HD_CFG_LIB_NET_CUT_OFF);
    net->silent_ns = ns_of(config, HD_CFG_LIB_NET_LOST_AFTER);
    draw_token(net);
    for (uint32_t l = 0; l < net->lanes && status == UCC_OK; l++) {
        status = open_lane(net, l);
    }
    if (status == UCC_OK && !hd_gossip_meet(net, net->token)) {
        hd_error("no memory for a network");
        status = UCC_ERR_NO_MEMORY;
    }
    if (status == UCC_OK) {
        if (net->shares) {
            hd_net_hold(net);
        }
        hd_net_watch_open(net, config);
        status = hd_net_address_make(net, false, &net->address);
    }
    if (status == UCC_OK && far) {
        status = widen(net, config);
    }
    if (status != UCC_OK) {
        close_all(net);
    }
    return status;
}

/* Called alone, before fork() returns in the child. The parent's legs are never stepped here:
 * whoever would wait for one knows by hd_forks() that it is not this process's. */
static void in_child(hd_fork_hook_t *self) {
    (void)self;
    hd_lock_forget(&the_net.lock);
    hd_lock_forget(&the_net.telling);
    for (uint32_t l = 0; l < HD_NET_MOST_LANES; l++) {
        hd_net_lane_t *lane = &the_net.lane[l];
        hd_lock_forget(&lane->lock);
        hd_ucx_abandon(&lane->port);
        lane->legs = NULL;
        ck_stack_init(&lane->handed);
        memset(lane->early, 0, sizeof(lane->early));
        lane->swapping = NULL;
        lane->owed = NULL;
        lane->n_early = lane->n_early_aborts = 0;
        lane->under_way = NULL;
        lane->free_messages = NULL;
        lane->free_expected = NULL;
        lane->free_parked = NULL;
        memset(&lane->traffic, 0, sizeof(lane->traffic)); /* the parent's */
    }
    memset(the_net.table, 0, sizeof(the_net.table));
    the_net.known = NULL;
    the_net.decisions = NULL;
    the_net.known_room = the_net.n_known = the_net.n_aborts = 0;
    the_net.cut = NULL;
    the_net.n_cuts = the_net.cut_room = 0;
    hd_ask_abandon(&the_net);
    if (the_net.watch) {
        hd_watch_abandon(the_net.watch);
        the_net.watch = NULL;
    }
    the_net.prober.worker = NULL;
    the_net.probing = false;
    the_net.probe_again = 0;
    hd_net_let_go(&the_net); /* copies, in this process */
    the_net.context = the_net.far = NULL;
    the_net.address = the_net.far_address = (hd_net_address_t){0};
    the_net.peers = NULL;
    state = CLOSED; /* the mutex is free: hd_fork_guard */
    references = 0;
    atomic_store_explicit(&opened, NULL, memory_order_relaxed); /* alone */
}

/* Under the mutex: takes a reference, or the task of opening, or that of widening, with a
 * reference. */
static bool enter(bool far, ucc_status_t *status) {
    bool widens = state == OPEN && far && !the_net.far_address.bytes;
    bool is_open = state == OPEN || (state == WIDENING && !far); /* whoever widens keeps it */
    *status = UCC_INPROGRESS;
    references += is_open;
    if (is_open && !widens) {
        *status = UCC_OK;
        return false;
    }
    if (state != CLOSED && !widens) {
        return false;
    }
    state = widens ? WIDENING : OPENING;
    return true;
}

/* The caller has entered. */
static ucc_status_t open_or_widen(const hd_config_t *config, bool far) {
    int cancelling; /* a cancelled thread would end in there, and nobody else could ever open it */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    bool widens = state == WIDENING; /* this thread has written it */
    ucc_status_t status = widens ? widen(&the_net, config) : open_all(&the_net, config, far);
    pthread_setcancelstate(cancelling, NULL);
    pthread_mutex_lock(&mutex);
    state = widens || status == UCC_OK ? OPEN : CLOSED;
    if (!widens && status == UCC_OK) {
        references = 1;
        /* release: the lanes; pairs with hd_net_opened */
        atomic_store_explicit(&opened, &the_net, memory_order_release);
    }
    pthread_mutex_unlock(&mutex);
    if (widens && status != UCC_OK) {
        hd_net_close(&the_net);
    }
    return status;
}

ucc_status_t hd_net_open(const hd_config_t *config, bool far, hd_net_t **net) {
    static _Atomic bool told, watching;
    ucc_status_t status;
    *net = NULL;
    if (!hd_config_bool(config, HD_CFG_LIB_NET)) {
        if (!atomic_exchange_explicit(&told, true, memory_order_relaxed)) { /* one line is enough */
            hd_error("teams of several processes: the configuration says NET=n");
        }
        return UCC_ERR_NOT_SUPPORTED;
    }
    hd_fork_guard(&mutex);
    pthread_mutex_lock(&mutex);
    bool mine = enter(far, &status);
    pthread_mutex_unlock(&mutex);
    /* relaxed: one thread at a time is here */
    if (mine && !atomic_exchange_explicit(&watching, true, memory_order_relaxed)) {
        hd_fork_watch(&fork_hook, in_child);
    }
    status = mine ? open_or_widen(config, far) : status;
    *net = status == UCC_OK ? &the_net : NULL; /* with a reference, or not at all */
    return status;
}

void hd_net_keep(hd_net_t *net) {
    (void)net;
    pthread_mutex_lock(&mutex);
    references++;
    pthread_mutex_unlock(&mutex);
}

void hd_net_close(hd_net_t *net) {
    pthread_mutex_lock(&mutex);
    bool last = references > 0 && --references == 0 && state == OPEN;
    if (last) {
        state = CLOSING;
        atomic_store_explicit(&opened, NULL,
                              memory_order_relaxed); /* those inside hold their lanes' locks */
    }
    pthread_mutex_unlock(&mutex);
    if (last) {
        int cancelling; /* likewise */
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
        close_all(net);
        pthread_setcancelstate(cancelling, NULL);
        pthread_mutex_lock(&mutex);
        state = CLOSED;
        pthread_mutex_unlock(&mutex);
    }
}

/* --- what there is ---------------------------------------------------------------------------- */

const void *hd_net_address(const hd_net_t *net, bool far, size_t *bytes) {
    const hd_net_address_t *address = far ? &net->far_address : &net->address;
    *bytes = address->n;
    return address->bytes;
}

uint64_t hd_net_host(void) {
    return hd_watch_host();
}

ucc_status_t hd_net_name_devices(const char *devices) {
    char *copy = hd_alloc(1, strlen(devices) + 1);
    if (!copy) {
        hd_error("no memory for the names of network devices");
        return UCC_ERR_NO_MEMORY;
    }
    memcpy(copy, devices, strlen(devices));
    hd_fork_guard(&mutex);
    pthread_mutex_lock(&mutex);
    bool taken = state == CLOSED; /* else who opens it reads them */
    char *unused = taken ? named_devices : copy;
    named_devices = taken ? copy : named_devices;
    pthread_mutex_unlock(&mutex);
    hd_free(unused);
    return UCC_OK;
}

hd_net_t *hd_net_opened(void) {
    /* acquire: pairs with hd_net_open */
    return atomic_load_explicit(&opened, memory_order_acquire);
}

hd_net_traffic_t hd_net_traffic(void) {
    hd_net_traffic_t sum = {0};
    for (uint32_t l = 0; l < HD_NET_MOST_LANES; l++) {
        hd_net_lane_t *lane = &the_net.lane[l];
        /* relaxed, all: see hd_net_add_up */
        sum.messages_sent +=
            atomic_load_explicit(&lane->traffic.messages_sent, memory_order_relaxed);
        sum.bytes_sent += atomic_load_explicit(&lane->traffic.bytes_sent, memory_order_relaxed);
        sum.told += atomic_load_explicit(&lane->traffic.told, memory_order_relaxed);
        sum.messages_received +=
            atomic_load_explicit(&lane->traffic.messages_received, memory_order_relaxed);
        sum.bytes_received +=
            atomic_load_explicit(&lane->traffic.bytes_received, memory_order_relaxed);
    }
    return sum;
}

/* --- sleeping --------------------------------------------------------------------------------- */

_Static_assert((int)HD_NET_MOST_LANES + 1 <= (int)HD_FD_WAITER_MOST,
               "each lane has a descriptor, and the watch has one");

/* The sleeper's group keeps the net. */
static uint32_t arm(hd_fd_waiter_t *self, int *fds) {
    hd_net_t *net = hd_net_opened();
    uint32_t n = 0;
    (void)self;
    for (uint32_t l = 0; net && l < net->lanes; l++) {
        int watch;
        fds[n] = hd_net_lane_arm(&net->lane[l], &watch);
        if (fds[n++] < 0) {
            return 0;
        }
        if (watch >= 0) {
            fds[n++] = watch;
        }
    }
    return n;
}

struct hd_fd_waiter *hd_net_fd_waiter(void) {
    return hd_net_sleep_on(arm);
}
