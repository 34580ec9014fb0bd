/* join.c: forming, by all but rank 0: connect until rank 0 listens, prove to know the key, be
 * judged, and wait for the others.
 *
 * What is not rank 0's word does not count: a connection that breaks before the verdict, or one to
 * somebody who does not know the key, is tried again; the last reason is told when time is over.
 * Three refusals without a verdict are enough, though: keys differ then, or another program listens
 * there.
 */
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_PAUSE  0.005
#define LAST_PAUSE   0.2
#define TWIN_SECONDS 2.0

enum { MOST_REFUSALS = 3 };

typedef enum outcome {
    JUDGED, /* rank 0 has answered */
    AGAIN,  /* `why` says what has happened */
    REFUSED /* likewise, by somebody who listens there */
} outcome_t;

typedef struct attempt {
    heddle_bootstrap_t *b;
    hd_conn_t *conn; /* with JUDGED */
    double deadline; /* of the whole */
    char why[160];
    ucc_status_t fatal; /* not UCC_OK: to try again is of no use (`why`) */
} attempt_t;

/* Waits for an event of a descriptor. False: not by then. */
static bool wait_for(int fd, short events, double until) {
    struct pollfd one = {.fd = fd, .events = events};
    while (poll(&one, 1, hd_milliseconds_until(until)) <= 0) {
        if (hd_seconds() >= until) {
            return false;
        }
    }
    return true;
}

static double sooner(double a, double b) {
    return a < b ? a : b;
}

/* A port from which the system also takes those of clients can connect a client with itself. */
static bool is_own(int fd) {
    struct sockaddr_storage mine, other;
    socklen_t mine_bytes = sizeof(mine), other_bytes = sizeof(other);
    memset(&mine, 0, sizeof(mine));
    memset(&other, 0, sizeof(other));
    return getsockname(fd, (struct sockaddr *)&mine, &mine_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&other, &other_bytes) == 0 &&
           mine_bytes == other_bytes && memcmp(&mine, &other, mine_bytes) == 0;
}

/* A connected descriptor, or -1 and why not. */
static int connect_to(attempt_t *a, const struct addrinfo *at) {
    int fd = socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE) {
            a->fatal = UCC_ERR_NO_RESOURCE;
        }
        snprintf(a->why, sizeof(a->why), "no socket: %s%s", strerror(errno),
                 errno == EMFILE ? ": raise the limit of open files (ulimit -n)" : "");
        return -1;
    }
    int error = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS || error == EINTR) {
        socklen_t bytes = sizeof(error);
        if (!wait_for(fd, POLLOUT, sooner(a->deadline, hd_deadline(HD_HANDSHAKE_SECONDS)))) {
            error = ETIMEDOUT;
        } else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) {
            error = errno;
        }
    }
    if (error == 0 && is_own(fd)) {
        error = ECONNREFUSED;
    }
    if (error != 0) {
        snprintf(a->why, sizeof(a->why), "%s", strerror(error));
        close(fd);
        return -1;
    }
    return fd;
}

/* A message of a few bytes: an empty socket takes it whole. */
static bool send_small(hd_conn_t *conn, size_t bytes) {
    hd_conn_send_head(conn, bytes);
    return hd_conn_write(conn) && !hd_conn_busy(conn);
}

/* Until the verdict. */
static outcome_t shake_hands(attempt_t *a, hd_conn_t *conn) {
    double until = sooner(a->deadline, hd_deadline(HD_HANDSHAKE_SECONDS));
    bool proven = false;
    hd_wire_write_hello(&conn->wire, conn->head);
    bool sound = send_small(conn, HD_WIRE_HELLO);
    while (sound && wait_for(conn->fd, POLLIN, until)) {
        hd_read_t read = hd_conn_read(conn);
        if (read.event == HD_WIRE_JUDGED) {
            return JUDGED;
        }
        if (read.event == HD_WIRE_CHALLENGED) {
            hd_wire_write_proof(&conn->wire, conn->head);
            sound = send_small(conn, HD_WIRE_PROOF);
            proven = true;
        } else if (read.closed && proven) {
            snprintf(
                a->why, sizeof(a->why),
                "it closes the connection after this process's proof: have both the same key?");
            return REFUSED;
        } else if (read.event != HD_WIRE_MORE) {
            snprintf(a->why, sizeof(a->why), "it %s", conn->wire.why);
            return read.closed ? AGAIN : REFUSED;
        }
    }
    snprintf(a->why, sizeof(a->why),
             sound ? "it accepts connections, and says nothing" : "it closes connections");
    return AGAIN;
}

static outcome_t try_one(attempt_t *a, const struct addrinfo *at) {
    int fd = connect_to(a, at);
    if (fd < 0) {
        return AGAIN;
    }
    hd_conn_t *conn = hd_conn_create(fd, false, a->b, a->b->rank, "rank 0");
    if (!conn) {
        snprintf(a->why, sizeof(a->why), "no memory for a connection");
        a->fatal = UCC_ERR_NO_MEMORY;
        return AGAIN;
    }
    outcome_t outcome = shake_hands(a, conn);
    if (outcome == JUDGED) {
        a->conn = conn;
    } else {
        hd_conn_destroy(conn);
    }
    return outcome;
}

static outcome_t try_all(attempt_t *a, const char *address) {
    struct addrinfo *list;
    ucc_status_t status = hd_address_resolve(address, true, &list);
    if (status != UCC_OK) { /* a name may become known yet */
        a->fatal = status == UCC_ERR_INVALID_PARAM ? status : UCC_OK;
        snprintf(a->why, sizeof(a->why), "no such host");
        return AGAIN;
    }
    outcome_t outcome = AGAIN;
    for (const struct addrinfo *at = list; at && outcome == AGAIN && a->fatal == UCC_OK;
         at = at->ai_next) {
        outcome = try_one(a, at);
    }
    freeaddrinfo(list);
    return outcome;
}

/* Logged; nobody is there to be told. */
static ucc_status_t find_root(attempt_t *a, const char *address) {
    heddle_bootstrap_t *b = a->b;
    double pause = FIRST_PAUSE;
    for (int refusals = 0;;) {
        outcome_t outcome = try_all(a, address);
        if (outcome == JUDGED) {
            return UCC_OK;
        }
        if (a->fatal != UCC_OK) {
            hd_error("bootstrap of rank %u: rank 0 at %s: %s", b->rank, address, a->why);
            return a->fatal;
        }
        if (outcome == REFUSED && ++refusals == MOST_REFUSALS) {
            hd_error("bootstrap of rank %u: who listens at %s is not rank 0 of this job: %s",
                     b->rank, address, a->why);
            return UCC_ERR_INVALID_PARAM;
        }
        if (hd_seconds() >= a->deadline) {
            hd_error("bootstrap of rank %u: no rank 0 at %s within %g s: %s", b->rank, address,
                     b->timeout, a->why);
            return UCC_ERR_TIMED_OUT;
        }
        poll(NULL, 0, (int)(1e3 * pause));
        pause = sooner(pause * 1.5, LAST_PAUSE);
    }
}

static ucc_status_t refused(const heddle_bootstrap_t *b, const hd_conn_t *conn) {
    const hd_wire_t *w = &conn->wire;
    switch (w->peer.verdict) {
    case HD_WIRE_ACCEPTED:
        return UCC_OK;
    case HD_WIRE_WRONG_VERSION:
        hd_error("bootstrap of rank %u: different versions: this one is %u, that of rank 0 is %u",
                 b->rank, w->version, w->peer.version);
        break;
    case HD_WIRE_WRONG_SIZE:
        hd_error("bootstrap of rank %u: different sizes: this process says %u, rank 0 says %u",
                 b->rank, b->size, w->peer.size);
        break;
    case HD_WIRE_WRONG_RANK:
        hd_error("bootstrap of rank %u: the rank is not below rank 0's size %u", b->rank,
                 w->peer.size);
        break;
    default:
        hd_error("bootstrap of rank %u: two processes have rank %u", b->rank, b->rank);
        break;
    }
    return UCC_ERR_INVALID_PARAM;
}

static ucc_status_t wait_for_start(heddle_bootstrap_t *b, hd_conn_t *conn, double deadline) {
    while (b->failure == UCC_OK) {
        hd_read_t read = {HD_WIRE_MORE, false};
        if (wait_for(conn->fd, POLLIN, deadline)) {
            read = hd_conn_read(conn);
        } else {
            hd_bootstrap_fail(b, UCC_ERR_TIMED_OUT,
                              "rank %u has waited for the other processes for %g s", b->rank,
                              b->timeout);
        }
        if (read.event == HD_WIRE_STARTED) {
            return UCC_OK;
        }
        if (read.event != HD_WIRE_MORE) {
            hd_bootstrap_lost(b, conn, read);
        }
    }
    hd_bootstrap_tell_all(b);
    return b->failure;
}

ucc_status_t hd_join(heddle_bootstrap_t *b, const char *address) {
    attempt_t attempt = {.b = b, .deadline = hd_deadline(b->timeout)};
    if (!address) {
        hd_error("heddle_bootstrap_tcp: no address of rank 0");
        return UCC_ERR_INVALID_PARAM;
    }
    ucc_status_t status = find_root(&attempt, address);
    if (status != UCC_OK) {
        return status;
    }
    b->peer[0] = attempt.conn;
    status = refused(b, attempt.conn);
    return status != UCC_OK ? status
                            : wait_for_start(b, attempt.conn, attempt.deadline + HD_GRACE_SECONDS);
}

bool hd_join_finds_twin(heddle_bootstrap_t *b, const char *address) {
    attempt_t attempt = {.b = b, .deadline = hd_deadline(TWIN_SECONDS)};
    bool twin =
        try_all(&attempt, address) == JUDGED && attempt.conn->wire.peer.verdict == HD_WIRE_TAKEN;
    hd_conn_destroy(attempt.conn);
    return twin;
}
