/* ucx.c: UCX behind one table of pointers: see ucx.h. */
#include "net/ucx.h"

#include "core/descriptors.h"
#include "core/log.h"
#include "core/mem.h"

#ifdef HD_HAVE_UCX

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum { MESSAGE = 1 }; /* id of all our active messages */

_Static_assert(sizeof(hd_net_piece_t) == sizeof(ucp_dt_iov_t) &&
                   offsetof(hd_net_piece_t, at) == offsetof(ucp_dt_iov_t, buffer) &&
                   offsetof(hd_net_piece_t, bytes) == offsetof(ucp_dt_iov_t, length),
               "our pieces are UCX's");

/* --- the table -------------------------------------------------------------------------------- */

#define FUNCTIONS(_of)                                                                             \
    _of(ucp_get_version) _of(ucp_config_read) _of(ucp_config_modify) _of(ucp_config_release)       \
        _of(ucp_init_version) _of(ucp_cleanup) _of(ucp_worker_create) _of(ucp_worker_destroy)      \
            _of(ucp_worker_get_address) _of(ucp_worker_release_address) _of(ucp_worker_progress)   \
                _of(ucp_worker_set_am_recv_handler) _of(ucp_ep_create) _of(ucp_ep_close_nbx)       \
                    _of(ucp_am_send_nbx) _of(ucp_am_recv_data_nbx) _of(ucp_am_data_release)        \
                        _of(ucp_request_check_status) _of(ucp_request_free)                        \
                            _of(ucp_worker_get_efd) _of(ucp_worker_arm) _of(ucp_ep_print_info)

static struct {
#define POINTER(_name) __typeof__(&_name) _name;
    FUNCTIONS(POINTER)
    const char *(*ucs_status_string)(ucs_status_t status);
} ucx;
static _Atomic int spare = -1; /* a descriptor that is kept for UCX */
static bool prefixed;          /* its transports' settings are named with their prefixes */
static bool loaded; /* for ever: UCX has threads and hooks of its own, and can't be unloaded */

static bool look_up(void *library, const char *name, void *pointer) {
    void *found = dlsym(library, name);
    if (!found) {
        hd_error("NET_LIBRARY: it has no function %s", name);
        return false;
    }
    memcpy(pointer, &found, sizeof(found)); /* a pointer to a function */
    return true;
}

ucc_status_t hd_ucx_load(const char *library) {
    unsigned major = 0, minor = 0, release = 0;
    if (loaded) {
        return UCC_OK;
    }
    const char *name = library && *library ? library : "libucp.so.0";
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        hd_error("NET_LIBRARY: %s can't be loaded: %s", name, dlerror());
        return UCC_ERR_NOT_SUPPORTED;
    }
#define LOOK_UP(_name) &&look_up(handle, #_name, &ucx._name)
    /* The last is of libucs, which libucp brings along. */
    if (!(true FUNCTIONS(LOOK_UP) LOOK_UP(ucs_status_string))) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    ucx.ucp_get_version(&major, &minor, &release);
    if (major != 1 || minor < 12) {
        hd_error("NET_LIBRARY: %s is version %u.%u.%u, but 1.12 or later is needed", name, major,
                 minor, release);
        return UCC_ERR_NOT_SUPPORTED;
    }
    hd_info("UCX %u.%u.%u (%s)", major, minor, release, name);
    prefixed = minor >= 17;
    loaded = true;
    return UCC_OK;
}

/* UCX asks for a descriptor, for a moment, where it makes the first way by a device, or gives back
 * the last one, and ends the process if it gets none. So one is kept that it can have then. False:
 * there is none. */
static bool lend_spare(void) {
    /* acquire: it is closed after it was opened; pairs with take_spare */
    int fd = atomic_exchange_explicit(&spare, -1, memory_order_acquire);
    if (fd < 0) {
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static void take_spare(void) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    /* acq_rel: see lend_spare; what comes back is another lane's */
    fd = atomic_exchange_explicit(&spare, fd, memory_order_acq_rel);
    if (fd >= 0) {
        close(fd);
    }
}

/* UCX 1.13 ends the process where it lacks one of the descriptors that a context (2 to 4 left) or a
 * worker (15 left) needs, though with fewer, or at most others, it returns an error. */
static bool has_descriptors(void) {
    int fd[HD_UCX_DESCRIPTORS], n = 0;
    (void)hd_descriptors_reserve(2 * HD_UCX_DESCRIPTORS);
    while (n < HD_UCX_DESCRIPTORS && (fd[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        n++;
    }
    for (int i = 0; i < n; i++) {
        close(fd[i]);
    }
    if (n < HD_UCX_DESCRIPTORS) {
        hd_error("UCX needs descriptors, but only %d are left (RLIMIT_NOFILE)", n);
    }
    return n == HD_UCX_DESCRIPTORS;
}

/* Whether a list of transports leaves room for one of those of these names, whose settings UCX
 * warns of otherwise. */
static bool leaves(const char *tls, const char *const *name) {
    bool named = *tls == '\0' || *tls == '^' || strstr(tls, "all");
    for (; *name; name++) {
        named = named || strstr(tls, *name) != NULL;
    }
    return named;
}

/* The user's choice of transports; "": none. */
static const char *chosen_tls(const hd_ucx_options_t *options) {
    const char *environment = getenv("UCX_TLS");
    return *options->tls || !environment ? options->tls : environment;
}

bool hd_ucx_shares(const hd_ucx_options_t *options) {
    static const char *const shm[] = {"shm", "sm", "mm", "posix", "sysv", "xpmem", NULL};
    return options->shm && leaves(options->tls, shm);
}

bool hd_ucx_parts(const hd_ucx_options_t *options) {
    static const char *const tcp[] = {"tcp", NULL};
    const char *tls = chosen_tls(options);
    bool excluded = *tls == '^' && strstr(tls, "tcp");
    return strcmp(options->devices, "all") == 0 && !getenv("UCX_NET_DEVICES") && !excluded &&
           leaves(tls, tcp);
}

static ucc_status_t failed(const char *what, ucs_status_t status) {
    hd_error("UCX: %s: %s", what, ucx.ucs_status_string(status));
    return status == UCS_ERR_NO_MEMORY ? UCC_ERR_NO_MEMORY : UCC_ERR_NO_RESOURCE;
}

/* Of a request that has ended. UCC_ERR_IO_ERROR: the other process can't be reached; any other
 * error is of this request alone. */
static ucc_status_t end_of(ucs_status_t status) {
    switch (status) {
    case UCS_OK:
        return UCC_OK;
    case UCS_ERR_NO_MEMORY:
        return UCC_ERR_NO_MEMORY;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_MESSAGE_TRUNCATED:
        return UCC_ERR_INVALID_PARAM;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
        return UCC_ERR_NOT_SUPPORTED;
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT:
        return UCC_ERR_NO_RESOURCE;
    default:
        return UCC_ERR_IO_ERROR;
    }
}

/* --- context, worker, endpoint ---------------------------------------------------------------- */

/* In which mode all endpoints of this process find out that a peer is lost: chosen with the
 * context.
 *
 * PEER: requests with a lost process end with an error. UCX then leaves out transports that can't
 * tell, among them its shared memory, unless it is told to watch the processes there, too; and it
 * does without copies straight from one process's memory into another's (CMA), which it can't call
 * back. NONE has these, but what is under way with a process that was killed may never end.
 */
static ucp_err_handling_mode_t error_mode;

/* What a newer UCX may lack is no error. */
static bool set(ucp_config_t *config, const char *name, const char *value) {
    ucs_status_t status = ucx.ucp_config_modify(config, name, value);
    if (status != UCS_OK) {
        hd_info("UCX: %s can't be set to %s: %s", name, value, ucx.ucs_status_string(status));
    }
    return status == UCS_OK;
}

static bool configure(const hd_ucx_options_t *options, ucp_config_t *config) {
    static const char *const tcp[] = {"tcp", NULL};
    if (options->whom != HD_UCX_FAR) { /* else lanes are read that use it */
        error_mode = options->survive ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
    }
    if (options->survive) {
        set(config, "KEEPALIVE_INTERVAL", "1s");
    }
    if (options->survive && hd_ucx_shares(options) && options->whom != HD_UCX_FAR) {
        set(config, "MM_ERROR_HANDLING", "y");
    }
    if (leaves(options->tls, tcp)) {
        /* Else a thread would wait in connect(), with its lane, for a host that is gone: for two
         * minutes. */
        set(config, prefixed ? "TCP_CONN_NB" : "CONN_NB", "y");
        /* Data in several pieces goes through UCX's buffers: with its usual 8 KiB, at half the
         * speed. A message
         *           has to fit into the receiver's buffer (RX_SEG_SIZE), of which this is the usual
         * size. */
        if (!getenv("UCX_TCP_TX_SEG_SIZE") && !getenv("UCX_TCP_RX_SEG_SIZE")) {
            set(config, prefixed ? "TCP_TX_SEG_SIZE" : "TX_SEG_SIZE", "64k");
        }
    }
    if (options->whom == HD_UCX_NEAR) {
        set(config, "NET_DEVICES", "lo");
    } else if (strcmp(options->devices, "all") != 0) {
        set(config, "NET_DEVICES", options->devices);
    }
    if (*options->tls) {
        return set(config, "TLS", options->tls);
    }
    /* Nobody of another host is in this one's shared memory; and what UCX keeps there for each
     * worker would be in vain. */
    bool without = !options->shm || (options->whom == HD_UCX_FAR && !*chosen_tls(options));
    return !without || set(config, "TLS", "^shm");
}

ucc_status_t hd_ucx_open(const hd_ucx_options_t *options, struct ucp_context **context) {
    ucp_config_t *config;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME |
                                         UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                           .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                           .mt_workers_shared = options->shared, /* their registered memory is */
                           .name = "heddle"};
    if (!has_descriptors()) {
        return UCC_ERR_NO_RESOURCE;
    }
    ucs_status_t status = ucx.ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) {
        return failed("its configuration can't be read", status);
    }
    if (!configure(options, config)) {
        hd_error("NET_TLS: UCX does not take %s", *options->tls ? options->tls : "^shm");
        ucx.ucp_config_release(config);
        return UCC_ERR_INVALID_PARAM;
    }
    status = ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, context);
    ucx.ucp_config_release(config);
    return status == UCS_OK ? UCC_OK : failed("no transport can be opened", status);
}

void hd_ucx_close(struct ucp_context *context) {
    ucx.ucp_cleanup(context);
    (void)lend_spare();
}

/* A rendezvous belongs to the worker that it has come by: the name that it goes by here has the
 * highest bit, which no address in a process has, if that is the far one. */
static const uintptr_t far_bit = UINTPTR_MAX - UINTPTR_MAX / 2;
_Static_assert(sizeof(void *) == 8, "an address has a bit to spare");

static ucp_worker_h worker_of(const hd_ucx_port_t *port, void *data) {
    return (uintptr_t)data & far_bit ? port->far : port->worker;
}

static void *without_bit(void *data) {
    return (void *)((uintptr_t)data & ~far_bit);
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_bytes, void *data,
                               size_t bytes, const ucp_am_recv_param_t *param) {
    hd_ucx_port_t *port = arg;
    bool rendezvous = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    hd_ucx_arrival_t end = port->arrive(port, header, header_bytes, data, bytes, rendezvous);
    return end == HD_UCX_KEPT && rendezvous ? UCS_INPROGRESS : UCS_OK;
}

static ucs_status_t on_far_message(void *arg, const void *header, size_t header_bytes, void *data,
                                   size_t bytes, const ucp_am_recv_param_t *param) {
    bool rendezvous = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    void *named = rendezvous ? (void *)((uintptr_t)data | far_bit) : data;
    return on_message(arg, header, header_bytes, named, bytes, param);
}

/* False: UCX could not do it without ending the process, and keeps it. */
static bool dismiss(ucp_worker_h *worker) {
    bool can = lend_spare();
    if (can) {
        ucx.ucp_worker_destroy(*worker);
        take_spare();
    }
    *worker = NULL;
    return can;
}

static const char *why_no_worker(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
               ? "no worker can be made (files may not be large, ulimit -f: NET_SHM=n does without)"
               : "no worker can be made";
}

/* UCX makes files for its shared memory. Where they may not be that large, a signal would end the
 * process: it is kept off, and UCX hears of an error. */
static ucs_status_t create_worker(struct ucp_context *context, const ucp_worker_params_t *params,
                                  ucp_worker_h *worker) {
    sigset_t short_files, before, pending;
    sigemptyset(&short_files);
    sigaddset(&short_files, SIGXFSZ);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &short_files, &before);
    ucs_status_t status = ucx.ucp_worker_create(context, params, worker);
    while (!was_pending && sigtimedwait(&short_files, NULL, &(struct timespec){0}) == SIGXFSZ) {
        /* taken off */
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* Makes a worker, which hands what comes to the port. */
static ucc_status_t employ(struct ucp_context *context, hd_ucx_port_t *port, bool far) {
    ucp_worker_h *worker = far ? &port->far : &port->worker;
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_am_handler_param_t am = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                               UCP_AM_HANDLER_PARAM_FIELD_CB |
                                               UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                 .id = MESSAGE,
                                 .cb = far ? on_far_message : on_message,
                                 .arg = port};
    *worker = NULL;
    if (!has_descriptors()) {
        return UCC_ERR_NO_RESOURCE;
    }
    ucs_status_t status = create_worker(context, &params, worker);
    if (status != UCS_OK) {
        *worker = NULL;
        return failed(why_no_worker(), status);
    }
    status = ucx.ucp_worker_set_am_recv_handler(*worker, &am);
    if (status != UCS_OK) {
        (void)dismiss(worker);
        return failed("it takes no handler", status);
    }
    return UCC_OK;
}

ucc_status_t hd_ucx_listen(struct ucp_context *context, hd_ucx_port_t *port) {
    port->far = NULL;
    port->both = -1;
    return employ(context, port, false);
}

/* One descriptor to sleep on both workers. */
static bool join(hd_ucx_port_t *port) {
    const ucp_worker_h worker[] = {port->worker, port->far};
    struct epoll_event event = {.events = EPOLLIN};
    port->both = epoll_create1(EPOLL_CLOEXEC);
    bool joined = port->both >= 0;
    for (int i = 0; i < 2 && joined; i++) {
        int fd;
        joined = ucx.ucp_worker_get_efd(worker[i], &fd) == UCS_OK &&
                 epoll_ctl(port->both, EPOLL_CTL_ADD, fd, &event) == 0;
    }
    return joined;
}

static void part(hd_ucx_port_t *port) {
    if (port->both >= 0) {
        close(port->both);
    }
    port->both = -1;
}

ucc_status_t hd_ucx_listen_far(struct ucp_context *context, hd_ucx_port_t *port) {
    ucc_status_t status = employ(context, port, true);
    if (status == UCC_OK && !join(port)) {
        hd_error("UCX: no descriptor to wait for processes of other hosts by: %s", strerror(errno));
        part(port);
        (void)dismiss(&port->far);
        status = UCC_ERR_NO_RESOURCE;
    }
    return status;
}

bool hd_ucx_hang_up(hd_ucx_port_t *port) {
    part(port);
    bool clean = !port->far || dismiss(&port->far);
    return dismiss(&port->worker) && clean;
}

void hd_ucx_abandon(hd_ucx_port_t *port) {
    if (port->far) { /* else it may never have been open, and the descriptor is nobody's */
        part(port);
    }
    port->worker = port->far = NULL;
}

ucc_status_t hd_ucx_address(const hd_ucx_port_t *port, bool far, void **address, size_t *bytes) {
    ucp_address_t *at;
    ucp_worker_h worker = far ? port->far : port->worker;
    ucs_status_t status = ucx.ucp_worker_get_address(worker, &at, bytes);
    if (status != UCS_OK) {
        return failed("a worker has no address", status);
    }
    *address = hd_alloc(sizeof(uint64_t), *bytes);
    if (*address) {
        memcpy(*address, at, *bytes);
    }
    ucx.ucp_worker_release_address(worker, at);
    return *address ? UCC_OK : UCC_ERR_NO_MEMORY;
}

bool hd_ucx_progress(const hd_ucx_port_t *port) {
    unsigned far = port->far ? ucx.ucp_worker_progress(port->far) : 0;
    return (ucx.ucp_worker_progress(port->worker) | far) != 0;
}

int hd_ucx_arm(const hd_ucx_port_t *port) {
    int fd = port->both;
    if (port->far && ucx.ucp_worker_arm(port->far) != UCS_OK) {
        return -1;
    }
    ucs_status_t status = port->far ? UCS_OK : ucx.ucp_worker_get_efd(port->worker, &fd);
    return status == UCS_OK && ucx.ucp_worker_arm(port->worker) == UCS_OK ? fd : -1;
}

static void on_lost(void *arg, ucp_ep_h ep, ucs_status_t status) {
    hd_ucx_link_t *link = arg;
    (void)ep;
    link->lost(link, ucx.ucs_status_string(status));
}

ucc_status_t hd_ucx_connect(const hd_ucx_port_t *port, bool far, const void *address,
                            hd_ucx_link_t *link) {
    ucp_worker_h worker = far && port->far ? port->far : port->worker;
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .address = address,
                              .err_mode = error_mode,
                              .err_handler = {on_lost, link}};
    if (!lend_spare()) {
        hd_error("UCX: no way to another process: %s", strerror(errno));
        return UCC_ERR_NO_RESOURCE;
    }
    ucs_status_t status = ucx.ucp_ep_create(worker, &params, &link->ep);
    take_spare();
    if (status != UCS_OK) {
        link->ep = NULL;
        return failed("no way to another process", status);
    }
    return UCC_OK;
}

void *hd_ucx_disconnect(hd_ucx_link_t *link, bool force) {
    ucp_request_param_t param = {0};
    if (force && error_mode == UCP_ERR_HANDLING_MODE_PEER) {
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    }
    (void)lend_spare();
    ucs_status_ptr_t closing = ucx.ucp_ep_close_nbx(link->ep, &param);
    take_spare();
    link->ep = NULL;
    return UCS_PTR_IS_PTR(closing) ? closing : NULL;
}

bool hd_ucx_is_over(void *closing) {
    if (ucx.ucp_request_check_status(closing) == UCS_INPROGRESS) {
        return false;
    }
    ucx.ucp_request_free(closing);
    return true;
}

/* UCX says it to a stream, in many lines. Those of interest look like
 *     #                 lane[0]:  7:tcp/eth0.0 md[2]   -> md[2]/tcp/sysdev[255] am am_bw#0 wireup
 * of which the resource and what it is for are kept. */
static void describe_lane(const char *line, FILE *out, const char *indent) {
    char resource[128], use[128] = "";
    int skipped = 0;
    if (sscanf(line, "# lane[%*d]: %*d:%127s md[%*d] -> %*s %n", resource, &skipped) < 1) {
        return;
    }
    snprintf(use, sizeof(use), "%.*s", skipped ? (int)strcspn(line + skipped, "\n") : 0,
             line + skipped);
    fprintf(out, "%s%-24s %s\n", indent, resource, use);
}

void hd_ucx_describe(const hd_ucx_link_t *link, FILE *out, const char *indent) {
    char *text = NULL;
    size_t bytes;
    FILE *stream = link->ep ? open_memstream(&text, &bytes) : NULL;
    if (!stream) {
        fprintf(out, "%s%s\n", indent, link->ep ? "no memory" : "not connected: nothing was sent");
        return;
    }
    ucx.ucp_ep_print_info(link->ep, stream);
    fclose(stream);
    for (char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        describe_lane(line, out, indent);
    }
    free(text);
}

void hd_ucx_forget(void *closing) {
    ucx.ucp_request_free(closing);
}

/* --- messages --------------------------------------------------------------------------------- */

static void on_sent(void *ucx_request, ucs_status_t status, void *arg) {
    hd_ucx_request_t *request = arg;
    ucx.ucp_request_free(ucx_request);
    request->done(request, end_of(status));
}

static void on_received(void *ucx_request, ucs_status_t status, size_t bytes, void *arg) {
    (void)bytes;
    on_sent(ucx_request, status, arg);
}

static ucc_status_t begun(ucs_status_ptr_t got) {
    if (UCS_PTR_IS_PTR(got)) {
        return UCC_INPROGRESS;
    }
    return end_of(UCS_PTR_STATUS(got));
}

/* The buffer that UCX is given: one piece as it is, several as a vector. */
static void *describe(const hd_net_piece_t *piece, size_t n, size_t *count,
                      ucp_request_param_t *param) {
    if (n <= 1) {
        param->datatype = ucp_dt_make_contig(1);
        *count = n ? piece->bytes : 0;
        return n ? piece->at : NULL;
    }
    param->datatype = UCP_DATATYPE_IOV;
    *count = n;
    return (void *)(uintptr_t)piece;
}

ucc_status_t hd_ucx_send(const hd_ucx_link_t *link, const void *header, size_t header_bytes,
                         const hd_net_piece_t *piece, size_t n, hd_ucx_way_t way,
                         hd_ucx_request_t *request) {
    static const uint32_t flags[] = {[HD_UCX_EITHER] = 0,
                                     [HD_UCX_RENDEZVOUS] = UCP_AM_SEND_FLAG_RNDV,
                                     [HD_UCX_EAGER] = UCP_AM_SEND_FLAG_EAGER};
    ucp_request_param_t param = {.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                     UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = flags[way],
                                 .cb = {.send = on_sent},
                                 .user_data = request};
    size_t count;
    void *buffer = describe(piece, n, &count, &param);
    return begun(
        ucx.ucp_am_send_nbx(link->ep, MESSAGE, header, header_bytes, buffer, count, &param));
}

ucc_status_t hd_ucx_receive(const hd_ucx_port_t *port, void *data, const hd_net_piece_t *piece,
                            size_t n, hd_ucx_request_t *request) {
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_DATATYPE,
                                 .cb = {.recv_am = on_received},
                                 .user_data = request};
    size_t count;
    void *buffer = describe(piece, n, &count, &param);
    return begun(
        ucx.ucp_am_recv_data_nbx(worker_of(port, data), without_bit(data), buffer, count, &param));
}

void hd_ucx_release(const hd_ucx_port_t *port, void *data) {
    ucx.ucp_am_data_release(worker_of(port, data), without_bit(data));
}

#else /* this build has no headers of UCX: nothing but hd_ucx_load is ever reached */

ucc_status_t hd_ucx_load(const char *library) {
    (void)library;
    hd_error("teams of several processes: this library was built without UCX");
    return UCC_ERR_NOT_SUPPORTED;
}
bool hd_ucx_shares(const hd_ucx_options_t *options) {
    (void)options;
    return false;
}
bool hd_ucx_parts(const hd_ucx_options_t *options) {
    (void)options;
    return false;
}
ucc_status_t hd_ucx_open(const hd_ucx_options_t *options, struct ucp_context **context) {
    (void)options, (void)context;
    return UCC_ERR_NOT_SUPPORTED;
}
void hd_ucx_close(struct ucp_context *context) {
    (void)context;
}
ucc_status_t hd_ucx_listen(struct ucp_context *context, hd_ucx_port_t *port) {
    (void)context, (void)port;
    return UCC_ERR_NOT_SUPPORTED;
}
ucc_status_t hd_ucx_listen_far(struct ucp_context *context, hd_ucx_port_t *port) {
    (void)context, (void)port;
    return UCC_ERR_NOT_SUPPORTED;
}
bool hd_ucx_hang_up(hd_ucx_port_t *port) {
    (void)port;
    return true;
}
void hd_ucx_abandon(hd_ucx_port_t *port) {
    (void)port;
}
ucc_status_t hd_ucx_address(const hd_ucx_port_t *port, bool far, void **address, size_t *bytes) {
    (void)port, (void)far, (void)address, (void)bytes;
    return UCC_ERR_NOT_SUPPORTED;
}
bool hd_ucx_progress(const hd_ucx_port_t *port) {
    (void)port;
    return false;
}
int hd_ucx_arm(const hd_ucx_port_t *port) {
    (void)port;
    return -1;
}
ucc_status_t hd_ucx_connect(const hd_ucx_port_t *port, bool far, const void *address,
                            hd_ucx_link_t *link) {
    (void)port, (void)far, (void)address, (void)link;
    return UCC_ERR_NOT_SUPPORTED;
}
void hd_ucx_describe(const hd_ucx_link_t *link, FILE *out, const char *indent) {
    (void)link, (void)out, (void)indent;
}
void *hd_ucx_disconnect(hd_ucx_link_t *link, bool force) {
    (void)link, (void)force;
    return NULL;
}
bool hd_ucx_is_over(void *closing) {
    (void)closing;
    return true;
}
void hd_ucx_forget(void *closing) {
    (void)closing;
}
ucc_status_t hd_ucx_send(const hd_ucx_link_t *link, const void *header, size_t header_bytes,
                         const hd_net_piece_t *piece, size_t n, hd_ucx_way_t way,
                         hd_ucx_request_t *request) {
    (void)link, (void)header, (void)header_bytes, (void)piece, (void)n, (void)way;
    (void)request;
    return UCC_ERR_NOT_SUPPORTED;
}
ucc_status_t hd_ucx_receive(const hd_ucx_port_t *port, void *data, const hd_net_piece_t *piece,
                            size_t n, hd_ucx_request_t *request) {
    (void)port, (void)data, (void)piece, (void)n, (void)request;
    return UCC_ERR_NOT_SUPPORTED;
}
void hd_ucx_release(const hd_ucx_port_t *port, void *data) {
    (void)port, (void)data;
}

#endif
