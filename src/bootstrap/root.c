/* root.c: forming, by rank 0. It listens; a connection is a stranger's until it has proved that it
 * knows the job's key. Strangers have little time, are few at once, and what they say or not has no
 * effect but a line. A process that knows the key and does not fit, or goes before all are there,
 * ends the forming for everybody.
 */
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* Younger strangers are not dropped for others: a process needs less to prove itself. */
#define YOUNG_SECONDS 0.25

enum {
    SPARE_STRANGERS = 128, /* beyond one per process that may come at once */
    LINES_ABOUT_STRANGERS = 4
};

typedef struct root {
    heddle_bootstrap_t *b;
    int listener;
    hd_conn_t **stranger;
    uint32_t strangers, most_strangers;
    uint32_t present;     /* this process included */
    double patience;      /* seconds for a stranger to prove that it knows the key */
    uint32_t turned_away; /* strangers that did not know the key */
    bool full;            /* nobody is accepted for a moment */
    struct pollfd *polls; /* the listener, strangers, peers */
} root_t;

/* --- listening -------------------------------------------------------------------------------- */

static int bind_and_listen(const struct addrinfo *at, int backlog) {
    int fd = socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol);
    int yes = 1;
    if (fd < 0) {
        return -1;
    }
    /* A port that a job before this one has left is free. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, backlog) == 0) {
        return fd;
    }
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static ucc_status_t listen_at(root_t *root, const char *address) {
    heddle_bootstrap_t *b = root->b;
    struct addrinfo *list;
    ucc_status_t status = hd_address_resolve(address, false, &list);
    if (status != UCC_OK) {
        return status;
    }
    int error = 0;
    for (const struct addrinfo *at = list; at && root->listener < 0; at = at->ai_next) {
        root->listener = bind_and_listen(at, (int)root->most_strangers);
        error = root->listener < 0 && error != EADDRINUSE ? errno : error;
    }
    freeaddrinfo(list);
    if (root->listener >= 0) {
        return UCC_OK;
    }
    if (error == EADDRINUSE && hd_join_finds_twin(b, address)) {
        hd_error("bootstrap of rank 0: two processes have rank 0: another one listens at %s",
                 address);
        return UCC_ERR_INVALID_PARAM;
    }
    hd_error("bootstrap of rank 0: cannot listen at %s: %s%s", address, strerror(error),
             error == EMFILE ? ": raise the limit of open files (ulimit -n)" : "");
    return UCC_ERR_NO_RESOURCE;
}

static ucc_status_t use_listener(root_t *root, int fd) {
    int listening = 0, flags = fcntl(fd, F_GETFL);
    socklen_t bytes = sizeof(listening);
    if (flags < 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes) != 0 ||
        !listening) {
        hd_error("heddle_bootstrap_tcp: listener %d is no listening socket", fd);
        return UCC_ERR_INVALID_PARAM;
    }
    if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        hd_error("heddle_bootstrap_tcp: listener %d: %s", fd, strerror(errno));
        return UCC_ERR_IO_ERROR;
    }
    root->listener = fd;
    return UCC_OK;
}

/* Better said now than by the last process in vain. */
static ucc_status_t check_descriptors(const heddle_bootstrap_t *b) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= b->size) {
        hd_error("bootstrap of rank 0: %u processes need as many descriptors at rank 0, and its "
                 "limit is %llu: raise the limit of open files (ulimit -n)",
                 b->size, (unsigned long long)limit.rlim_cur);
        return UCC_ERR_NO_RESOURCE;
    }
    return UCC_OK;
}

/* --- strangers -------------------------------------------------------------------------------- */

static void forget_stranger(root_t *root, uint32_t i) {
    root->stranger[i] = root->stranger[--root->strangers];
}

static void drop_stranger(root_t *root, uint32_t i) {
    hd_conn_destroy(root->stranger[i]);
    forget_stranger(root, i);
}

/* Makes room for another one. False: all of them are young, or there is none. */
static bool drop_oldest(root_t *root) {
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < root->strangers; i++) {
        if (root->stranger[i]->deadline < root->stranger[oldest]->deadline) {
            oldest = i;
        }
    }
    double young = hd_seconds() + root->patience - YOUNG_SECONDS;
    if (root->strangers > 0 && root->stranger[oldest]->deadline < young) {
        drop_stranger(root, oldest);
        return true;
    }
    return false;
}

static void turn_away(root_t *root, uint32_t i, const char *why) {
    if (root->turned_away++ < LINES_ABOUT_STRANGERS) {
        hd_warn("bootstrap of rank 0: a connection from %s is closed: it %s",
                root->stranger[i]->name, why);
    }
    drop_stranger(root, i);
}

/* True: there may be more to accept. */
static bool accept_one(root_t *root) {
    heddle_bootstrap_t *b = root->b;
    struct sockaddr_storage from;
    socklen_t bytes = sizeof(from);
    char name[HD_NAME_BYTES];
    if (root->strangers == root->most_strangers && !drop_oldest(root)) {
        root->full = true;
        return false;
    }
    int fd =
        accept4(root->listener, (struct sockaddr *)&from, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        int error = errno;
        if (drop_oldest(root)) {
            return true;
        }
        if (root->strangers > 0) {
            root->full = true;
            return false;
        }
        hd_bootstrap_fail(b, UCC_ERR_NO_RESOURCE,
                          "rank 0 cannot accept more than %u of %u processes: %s: raise its limit "
                          "of open files (ulimit -n)",
                          root->present, b->size, strerror(error));
        return false;
    }
    if (fd < 0) {
        return errno == EINTR || errno == ECONNABORTED;
    }
    hd_address_name((struct sockaddr *)&from, bytes, name, sizeof(name));
    hd_conn_t *conn = hd_conn_create(fd, true, b, 0, name);
    if (!conn) {
        hd_bootstrap_fail(b, UCC_ERR_NO_MEMORY, "rank 0 has no memory for a connection");
        return false;
    }
    conn->deadline = hd_deadline(root->patience);
    root->stranger[root->strangers++] = conn;
    return true;
}

/* --- processes that know the key -------------------------------------------------------------- */

/* Whether a process fits. If it does not, that ends the forming. */
static hd_wire_verdict_t judge(root_t *root, const hd_conn_t *conn) {
    heddle_bootstrap_t *b = root->b;
    const hd_wire_t *w = &conn->wire;
    if (w->peer.version != w->version) {
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM,
                          "different versions: the bootstrap of %s is of version %u, that of rank "
                          "0 of version %u",
                          conn->name, w->peer.version, w->version);
        return HD_WIRE_WRONG_VERSION;
    }
    if (w->peer.size != b->size) {
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM,
                          "different sizes: rank %u at %s says size %u, rank 0 says %u",
                          w->peer.rank, conn->name, w->peer.size, b->size);
        return HD_WIRE_WRONG_SIZE;
    }
    if (w->peer.rank >= b->size) {
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM, "rank %u of %s is not below size %u",
                          w->peer.rank, conn->name, b->size);
        return HD_WIRE_WRONG_RANK;
    }
    if (w->peer.rank == 0 || b->peer[w->peer.rank]) {
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM, "two processes have rank %u: %s and %s",
                          w->peer.rank,
                          w->peer.rank == 0 ? "this one" : b->peer[w->peer.rank]->name, conn->name);
        return HD_WIRE_TAKEN;
    }
    return HD_WIRE_ACCEPTED;
}

static void admit(root_t *root, uint32_t i) {
    heddle_bootstrap_t *b = root->b;
    hd_conn_t *conn = root->stranger[i];
    hd_wire_verdict_t verdict = judge(root, conn);
    hd_wire_write_verdict(&conn->wire, verdict, conn->head);
    hd_conn_send_head(conn, HD_WIRE_VERDICT);
    hd_conn_write(conn); /* that it is broken is found when it is read */
    if (verdict != HD_WIRE_ACCEPTED) {
        hd_conn_end(conn);
        drop_stranger(root, i);
        return;
    }
    char at[HD_NAME_BYTES];
    memcpy(at, conn->name, sizeof(at));
    snprintf(conn->name, sizeof(conn->name), "rank %u (%.70s)", conn->wire.peer.rank, at);
    b->peer[conn->wire.peer.rank] = conn;
    forget_stranger(root, i);
    root->present++;
}

/* The stranger with this number may be another one afterwards, or none. */
static void serve_stranger(root_t *root, uint32_t i) {
    hd_conn_t *conn = root->stranger[i];
    hd_read_t read = hd_conn_read(conn);
    if (read.closed) {
        drop_stranger(root, i); /* it may come again */
        return;
    }
    switch (read.event) {
    case HD_WIRE_MORE:
        break;
    case HD_WIRE_GREETED:
        hd_wire_write_challenge(&conn->wire, conn->head);
        hd_conn_send_head(conn, HD_WIRE_CHALLENGE);
        if (!hd_conn_write(conn)) {
            drop_stranger(root, i);
        }
        break;
    case HD_WIRE_PROVEN:
        admit(root, i);
        break;
    default:
        turn_away(root, i, conn->wire.why);
        break;
    }
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* One per descriptor, never more: poll refuses more than there may be open files. */
static uint32_t fill_polls(root_t *root) {
    const heddle_bootstrap_t *b = root->b;
    uint32_t n = 0;
    root->polls[n++] = (struct pollfd){.fd = root->full ? -1 : root->listener, .events = POLLIN};
    for (uint32_t i = 0; i < root->strangers; i++) {
        root->polls[n++] = (struct pollfd){.fd = root->stranger[i]->fd, .events = POLLIN};
    }
    for (uint32_t i = 0; i < b->size; i++) {
        if (b->peer[i]) {
            short events = (short)(POLLIN | (hd_conn_busy(b->peer[i]) ? POLLOUT : 0));
            root->polls[n++] = (struct pollfd){.fd = b->peer[i]->fd, .events = events};
        }
    }
    return n;
}

static void serve_peer(root_t *root, hd_conn_t *conn) {
    hd_read_t read = hd_conn_read(conn);
    if (read.event != HD_WIRE_MORE) {
        hd_bootstrap_lost(root->b, conn, read);
    } else if (!hd_conn_write(conn)) {
        hd_bootstrap_lost(root->b, conn, hd_conn_last_words(conn));
    }
}

/* One round of poll; serves what it finds. */
static void wait_and_serve(root_t *root) {
    heddle_bootstrap_t *b = root->b;
    uint32_t before = root->strangers; /* the polls' numbers */
    uint32_t n = fill_polls(root);
    double until = root->full ? hd_deadline(YOUNG_SECONDS / 4) : b->deadline;
    root->full = false;
    for (uint32_t i = 0; i < root->strangers; i++) {
        until = root->stranger[i]->deadline < until ? root->stranger[i]->deadline : until;
    }
    if (poll(root->polls, n, hd_milliseconds_until(until)) < 0 && errno != EINTR) {
        hd_bootstrap_fail(b, UCC_ERR_IO_ERROR, "rank 0 cannot poll: %s", strerror(errno));
        return;
    }
    const struct pollfd *of_peer = root->polls + 1 + before;
    for (uint32_t i = 0; i < b->size && b->failure == UCC_OK; i++) {
        if (b->peer[i] && (of_peer++)->revents) {
            serve_peer(root, b->peer[i]);
        }
    }
    double now = hd_seconds();
    for (uint32_t i = before;
         i-- > 0 && b->failure == UCC_OK;) { /* the last takes a gone one's place */
        if (root->polls[1 + i].revents) {
            serve_stranger(root, i);
        } else if (root->stranger[i]->deadline < now) {
            turn_away(root, i, "has not proved in time that it knows the job's key");
        }
    }
    while (root->polls[0].revents && !root->full && b->failure == UCC_OK &&
           root->present < b->size && accept_one(root)) {
        continue;
    }
}

static void time_out(root_t *root) {
    char missing[96], strangers[80] = "";
    hd_bootstrap_name_missing(root->b, true, missing, sizeof(missing));
    if (root->turned_away > 0) {
        snprintf(strangers, sizeof(strangers), "; %u connections did not know the job's key",
                 root->turned_away);
    }
    hd_bootstrap_fail(root->b, UCC_ERR_TIMED_OUT,
                      "%u of %u processes have come within %g s, not rank %s%s", root->present,
                      root->b->size, root->b->timeout, missing, strangers);
}

/* All are here: they may begin. True when all have been told (conn->have). */
static bool start(heddle_bootstrap_t *b) {
    bool all = true;
    for (uint32_t i = 1; i < b->size && b->failure == UCC_OK; i++) {
        hd_conn_t *conn = b->peer[i];
        if (!conn->have && !hd_conn_busy(conn)) { /* its verdict is out */
            hd_wire_write_start(&conn->wire, conn->head);
            hd_conn_send_head(conn, HD_WIRE_HEAD);
            conn->have = true;
        }
        if (!hd_conn_write(conn)) {
            hd_bootstrap_lost(b, conn, hd_conn_last_words(conn));
        }
        all = all && conn->have && !hd_conn_busy(conn);
    }
    return all;
}

static void gather(root_t *root) {
    heddle_bootstrap_t *b = root->b;
    while (b->failure == UCC_OK && root->present < b->size) {
        wait_and_serve(root);
        if (b->failure == UCC_OK && root->present < b->size && hd_seconds() > b->deadline) {
            time_out(root);
        }
    }
    while (root->strangers > 0) {
        drop_stranger(root, 0);
    }
}

static ucc_status_t form(root_t *root, const char *address, int listener) {
    heddle_bootstrap_t *b = root->b;
    if (!root->stranger || !root->polls) {
        hd_error("bootstrap of rank 0: no memory for %u processes", b->size);
        return UCC_ERR_NO_MEMORY;
    }
    ucc_status_t status = listener >= 0 ? use_listener(root, listener) : listen_at(root, address);
    if (status != UCC_OK) {
        return status;
    }
    b->deadline = hd_deadline(b->timeout);
    gather(root);
    while (b->failure == UCC_OK && !start(b)) {
        if (hd_seconds() > b->deadline) {
            hd_bootstrap_fail(b, UCC_ERR_TIMED_OUT, "not all processes could be told to start");
        }
        poll(NULL, 0, 1);
    }
    if (listener < 0) {
        close(root->listener);
    }
    if (b->failure != UCC_OK) {
        hd_bootstrap_tell_all(b);
    }
    return b->failure;
}

ucc_status_t hd_root_form(heddle_bootstrap_t *b, const char *address, int listener) {
    root_t root = {.b = b, .listener = -1, .present = 1, .patience = HD_HANDSHAKE_SECONDS};
    ucc_status_t status = check_descriptors(b);
    if (b->timeout >= 0 && b->timeout / 2 < root.patience) {
        root.patience = b->timeout / 2;
    }
    if (status == UCC_OK) {
        root.most_strangers = b->size + SPARE_STRANGERS;
        root.stranger = calloc(root.most_strangers, sizeof(hd_conn_t *));
        root.polls = calloc(1 + (size_t)root.most_strangers + b->size, sizeof(*root.polls));
        status = form(&root, address, listener);
    }
    free(root.stranger);
    free(root.polls);
    return status;
}
