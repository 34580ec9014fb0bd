/* door.c: a socket that listens while processes form, at rank 0 and at all that have children in
 * the tree, and the connections that have come by it. A connection is a stranger's until it has
 * proved that it knows the job's key. Strangers have little time, are few at once, and what they
 * say or not has no effect but a line. A process that knows the key and does not fit, or goes
 * before all are there, ends the forming for everybody; one of another job is sent away.
 */
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Younger strangers are not dropped for others: a process needs less to prove itself. */
#define YOUNG_SECONDS 0.25

enum {
    SPARE_STRANGERS = 128, /* beyond one per process that may come at once */
    LINES_ABOUT_STRANGERS = 4,
    EVENTS_AT_ONCE = 256
};

uint32_t hd_door_backlog(uint32_t expected) {
    return expected + SPARE_STRANGERS;
}

/* Of the listener (conn NULL), or of a connection. */
static bool watch(hd_door_t *door, int how, int fd, hd_conn_t *conn, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = conn};
    if (epoll_ctl(door->epoll, how, fd, &event) == 0) {
        return true;
    }
    hd_bootstrap_fail(door->b, UCC_ERR_NO_RESOURCE, "rank %u cannot wait for a connection: %s",
                      door->b->rank, strerror(errno));
    return false;
}

void hd_door_watch(hd_door_t *door, hd_conn_t *conn) {
    watch(door, EPOLL_CTL_ADD, conn->fd, conn, EPOLLIN);
}

ucc_status_t hd_door_open(hd_door_t *door, heddle_bootstrap_t *b, int listener, uint32_t expected) {
    *door = (hd_door_t){.b = b, .listener = listener, .expected = expected};
    door->patience = b->timeout >= 0 && b->timeout / 2 < HD_HANDSHAKE_SECONDS
                         ? b->timeout / 2
                         : HD_HANDSHAKE_SECONDS;
    door->most_strangers = hd_door_backlog(expected);
    door->stranger = calloc(door->most_strangers, sizeof(hd_conn_t *));
    door->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!door->stranger) {
        hd_bootstrap_fail(b, UCC_ERR_NO_MEMORY, "rank %u has no memory for %u connections", b->rank,
                          expected);
    } else if (door->epoll < 0) {
        hd_bootstrap_fail(b, UCC_ERR_NO_RESOURCE, "rank %u cannot wait for connections: %s%s",
                          b->rank, strerror(errno), hd_files_hint(errno));
    } else if (listener >= 0) {
        watch(door, EPOLL_CTL_ADD, listener, NULL, 0);
    }
    return b->failure;
}

/* --- strangers -------------------------------------------------------------------------------- */

static void forget_stranger(hd_door_t *door, hd_conn_t *conn) {
    hd_conn_t *last = door->stranger[--door->strangers];
    door->stranger[conn->stranger - 1] = last;
    last->stranger = conn->stranger;
    conn->stranger = 0;
}

static void drop_stranger(hd_door_t *door, hd_conn_t *conn) {
    forget_stranger(door, conn);
    /* Closing alone would leave it in the set while a child of this process has a copy. */
    (void)epoll_ctl(door->epoll, EPOLL_CTL_DEL, conn->fd, NULL);
    hd_conn_destroy(conn);
}

/* Makes room for another one. False: all of them are young, or there is none. */
static bool drop_oldest(hd_door_t *door) {
    hd_conn_t *oldest = door->strangers > 0 ? door->stranger[0] : NULL;
    for (uint32_t i = 1; i < door->strangers; i++) {
        oldest = door->stranger[i]->deadline < oldest->deadline ? door->stranger[i] : oldest;
    }
    if (!oldest || oldest->deadline >= hd_seconds() + door->patience - YOUNG_SECONDS) {
        return false;
    }
    drop_stranger(door, oldest);
    return true;
}

static void turn_away(hd_door_t *door, hd_conn_t *conn, const char *why) {
    if (door->turned_away++ < LINES_ABOUT_STRANGERS) {
        hd_warn("bootstrap of rank %u: a connection from %s is closed: it %s", door->b->rank,
                conn->name, why);
    }
    drop_stranger(door, conn);
}

/* No descriptor, or no memory for one. True: there is room now. */
static bool make_room(hd_door_t *door, int error) {
    heddle_bootstrap_t *b = door->b;
    if (drop_oldest(door)) {
        return true;
    }
    door->full = door->strangers > 0;
    if (!door->full) {
        hd_bootstrap_fail(b, UCC_ERR_NO_RESOURCE,
                          "rank %u cannot accept more than %u of %u processes: %s: raise its limit "
                          "of open files (ulimit -n)",
                          b->rank, door->present, door->expected, strerror(error));
    }
    return false;
}

/* True: there may be more to accept. */
static bool accept_one(hd_door_t *door) {
    heddle_bootstrap_t *b = door->b;
    struct sockaddr_storage from;
    socklen_t bytes = sizeof(from);
    char name[HD_NAME_BYTES];
    if (door->strangers == door->most_strangers && !drop_oldest(door)) {
        door->full = true;
        return false;
    }
    int fd =
        accept4(door->listener, (struct sockaddr *)&from, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        return make_room(door, errno);
    }
    if (fd < 0) {
        return errno == EINTR || errno == ECONNABORTED;
    }
    hd_address_name((struct sockaddr *)&from, bytes, name, sizeof(name));
    hd_conn_t *conn = hd_conn_create(fd, true, b, name);
    if (!conn) {
        hd_bootstrap_fail(b, UCC_ERR_NO_MEMORY, "rank %u has no memory for a connection", b->rank);
        return false;
    }
    conn->deadline = hd_deadline(door->patience);
    door->stranger[door->strangers++] = conn;
    conn->stranger = door->strangers;
    hd_door_watch(door, conn);
    return b->failure == UCC_OK;
}

/* --- processes that know the key -------------------------------------------------------------- */

/* Where a process's connection belongs; NULL: it does not belong here. */
static hd_conn_t **slot_of(const heddle_bootstrap_t *b, uint32_t rank) {
    if (b->rank == 0) {
        return &b->peer[rank];
    }
    if (rank <= b->rank || rank - b->rank >= b->tree.own.n) {
        return NULL;
    }
    uint32_t i = hd_tree_towards(&b->tree, rank);
    return hd_tree_child(&b->tree, i).first == rank ? &b->peer[1 + i] : NULL;
}

/* Who is no process of this job, or has lost his way, is told so; nobody else is concerned. */
static hd_wire_verdict_t judge_errant(hd_door_t *door, const hd_conn_t *conn) {
    const hd_wire_t *w = &conn->wire;
    if (strcmp(w->peer.job, w->job) != 0) {
        if (door->other_jobs++ < LINES_ABOUT_STRANGERS) {
            hd_warn("bootstrap of rank %u: %s is sent away: it is of job '%s', not '%s'",
                    door->b->rank, conn->name, w->peer.job, w->job);
        }
        return HD_WIRE_OTHER_JOB;
    }
    return w->peer.to == w->rank ? HD_WIRE_ACCEPTED : HD_WIRE_NOT_HERE;
}

/* Whether a process fits. If it does not, that ends the forming. */
static hd_wire_verdict_t judge(hd_door_t *door, const hd_conn_t *conn) {
    heddle_bootstrap_t *b = door->b;
    const hd_wire_t *w = &conn->wire;
    if (w->peer.version != w->version) {
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM,
                          "different versions: the bootstrap of %s is of version %u, that of rank "
                          "%u of version %u",
                          conn->name, w->peer.version, b->rank, w->version);
        return HD_WIRE_WRONG_VERSION;
    }
    hd_wire_verdict_t errant = judge_errant(door, conn);
    if (errant != HD_WIRE_ACCEPTED) {
        return errant;
    }
    if (w->peer.size != b->size) {
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM,
                          "different sizes: rank %u at %s says size %u, rank %u says %u",
                          w->peer.rank, conn->name, w->peer.size, b->rank, b->size);
        return HD_WIRE_WRONG_SIZE;
    }
    if (w->peer.rank >= b->size) {
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM, "rank %u of %s is not below size %u",
                          w->peer.rank, conn->name, b->size);
        return HD_WIRE_WRONG_RANK;
    }
    hd_conn_t **slot = slot_of(b, w->peer.rank);
    if (slot && (w->peer.rank == b->rank || *slot)) {
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM, "two processes have rank %u: %s and %s",
                          w->peer.rank, w->peer.rank == b->rank ? "this one" : (*slot)->name,
                          conn->name);
        return HD_WIRE_TAKEN;
    }
    return slot ? HD_WIRE_ACCEPTED : HD_WIRE_NOT_HERE;
}

static void admit(hd_door_t *door, hd_conn_t *conn) {
    hd_wire_verdict_t verdict = judge(door, conn);
    hd_wire_write_verdict(&conn->wire, verdict, conn->head);
    (void)hd_conn_send_small(conn, HD_WIRE_VERDICT); /* if it is broken, a read will tell */
    if (verdict != HD_WIRE_ACCEPTED) {
        hd_conn_end(conn);
        drop_stranger(door, conn);
        return;
    }
    char at[HD_NAME_BYTES];
    memcpy(at, conn->name, sizeof(at));
    snprintf(conn->name, sizeof(conn->name), "rank %u (%.70s)", conn->wire.peer.rank, at);
    *slot_of(door->b, conn->wire.peer.rank) = conn;
    forget_stranger(door, conn);
    door->present++;
    if (door->b->rank != 0) {
        /* A child may have been told to start, and have begun an exchange, before this process. If
         * it goes meanwhile, rank 0 tells. */
        watch(door, EPOLL_CTL_DEL, conn->fd, conn, 0);
    }
}

static void serve_stranger(hd_door_t *door, hd_conn_t *conn) {
    hd_read_t read = hd_conn_read(conn);
    if (read.closed) {
        drop_stranger(door, conn); /* it may come again */
        return;
    }
    switch (read.event) {
    case HD_WIRE_MORE:
        break;
    case HD_WIRE_GREETED:
        hd_wire_write_challenge(&conn->wire, conn->head);
        if (!hd_conn_send_small(conn, HD_WIRE_CHALLENGE)) {
            drop_stranger(door, conn);
        }
        break;
    case HD_WIRE_PROVEN:
        admit(door, conn);
        break;
    default:
        turn_away(door, conn, conn->wire.why);
        break;
    }
}

/* What is said while forming, by processes to rank 0 and by rank 0 to them. */
static void serve_peer(hd_door_t *door, hd_conn_t *conn) {
    hd_read_t read = hd_conn_read(conn);
    switch (read.event) {
    case HD_WIRE_MORE:
        break;
    case HD_WIRE_LISTENING:
        door->listening++;
        break;
    case HD_WIRE_HAS_LINKED:
        conn->have = true;
        door->linked++;
        break;
    case HD_WIRE_ADDRESSED:
        door->addressed = true;
        break;
    case HD_WIRE_STARTED:
        door->started = true;
        break;
    default:
        hd_bootstrap_lost(door->b, conn, read);
        break;
    }
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* By when something is to be done though nothing has come. */
static double next_deadline(const hd_door_t *door, double until) {
    double full_until = hd_deadline(YOUNG_SECONDS / 4);
    until = door->full && full_until < until ? full_until : until;
    for (uint32_t i = 0; i < door->strangers; i++) {
        until = door->stranger[i]->deadline < until ? door->stranger[i]->deadline : until;
    }
    return until;
}

void hd_door_wait(hd_door_t *door, double until) {
    heddle_bootstrap_t *b = door->b;
    struct epoll_event event[EVENTS_AT_ONCE];
    bool accepts = door->listener >= 0 && door->present < door->expected, knock = false;
    if (door->listener >= 0 &&
        !watch(door, EPOLL_CTL_MOD, door->listener, NULL, accepts && !door->full ? EPOLLIN : 0)) {
        return;
    }
    int n = epoll_wait(door->epoll, event, EVENTS_AT_ONCE,
                       hd_milliseconds_until(next_deadline(door, until)));
    door->full = false;
    if (n < 0 && errno != EINTR) {
        hd_bootstrap_fail(b, UCC_ERR_IO_ERROR, "rank %u cannot wait: %s", b->rank, strerror(errno));
    }
    for (int i = 0; i < n && b->failure == UCC_OK; i++) {
        hd_conn_t *conn = event[i].data.ptr;
        knock = knock || !conn;
        if (conn && conn->stranger > 0) {
            serve_stranger(door, conn);
        } else if (conn) {
            serve_peer(door, conn);
        }
    }
    /* After the events, which speak of these connections. */
    double now = hd_seconds();
    for (uint32_t i = door->strangers; i-- > 0 && b->failure == UCC_OK;) {
        if (door->stranger[i]->deadline < now) {
            turn_away(door, door->stranger[i],
                      "has not proved in time that it knows the job's key");
        }
    }
    while (knock && b->failure == UCC_OK && accept_one(door)) {
        continue;
    }
}

void hd_door_close(hd_door_t *door) {
    while (door->strangers > 0) {
        drop_stranger(door, door->stranger[0]);
    }
    if (door->epoll >= 0) {
        close(door->epoll);
    }
    free(door->stranger);
    door->stranger = NULL;
    door->epoll = -1;
}
