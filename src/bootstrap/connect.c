/* connect.c: connects to a process until it listens, proves to know the key, and is judged; by all
 * but rank 0 to rank 0, and to their parents.
 *
 * What is not that process's word does not count: a connection that breaks before the verdict, or
 * one to somebody who does not know the key, is tried again; the last reason is told when time is
 * over. Three refusals without a verdict are enough, though: keys differ then, or another program
 * listens there.
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
    uint32_t to;
    hd_conn_t *watched; /* NULL: none */
    hd_conn_t *conn;    /* with JUDGED */
    double deadline;    /* of the whole */
    char why[160];
    ucc_status_t fatal; /* not UCC_OK: to try again is of no use (`why`) */
} attempt_t;

/* Who is watched may only tell that all has failed. */
static void look_at_watched(attempt_t *a) {
    hd_read_t read = hd_conn_read(a->watched);
    if (read.event != HD_WIRE_MORE) {
        hd_bootstrap_lost(a->b, a->watched, read);
    }
}

/* Waits for an event of a descriptor; -1: only for the time to pass. False: not by then. */
static bool wait_for(attempt_t *a, int fd, short events, double until) {
    struct pollfd both[2] = {{.fd = fd, .events = events},
                             {.fd = a->watched ? a->watched->fd : -1, .events = POLLIN}};
    while (a->b->failure == UCC_OK) {
        int n = poll(both, 2, hd_milliseconds_until(until));
        if (n > 0 && both[1].revents) {
            look_at_watched(a);
        }
        if (n > 0 && both[0].revents) {
            return true;
        }
        if (hd_seconds() >= until) {
            return false;
        }
    }
    return false;
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
        snprintf(a->why, sizeof(a->why), "no socket: %s%s", strerror(errno), hd_files_hint(errno));
        return -1;
    }
    int error = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS || error == EINTR) {
        socklen_t bytes = sizeof(error);
        if (!wait_for(a, fd, POLLOUT, sooner(a->deadline, hd_deadline(HD_HANDSHAKE_SECONDS)))) {
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

/* Until the verdict. */
static outcome_t shake_hands(attempt_t *a, hd_conn_t *conn) {
    double until = sooner(a->deadline, hd_deadline(HD_HANDSHAKE_SECONDS));
    bool proven = false;
    hd_wire_write_hello(&conn->wire, conn->head);
    bool sound = hd_conn_send_small(conn, HD_WIRE_HELLO);
    while (sound && wait_for(a, conn->fd, POLLIN, until)) {
        hd_read_t read = hd_conn_read(conn);
        if (read.event == HD_WIRE_JUDGED) {
            return JUDGED;
        }
        if (read.event == HD_WIRE_CHALLENGED) {
            hd_wire_write_proof(&conn->wire, conn->head);
            sound = hd_conn_send_small(conn, HD_WIRE_PROOF);
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
    char name[HD_NAME_BYTES], at_name[HD_NAME_BYTES];
    hd_address_name(at->ai_addr, at->ai_addrlen, at_name, sizeof(at_name));
    snprintf(name, sizeof(name), a->to == 0 ? "rank %u" : "rank %u (%.70s)", a->to, at_name);
    hd_conn_t *conn = hd_conn_create(fd, false, a->b, name);
    if (!conn) {
        snprintf(a->why, sizeof(a->why), "no memory for a connection");
        a->fatal = UCC_ERR_NO_MEMORY;
        return AGAIN;
    }
    conn->wire.to = a->to;
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

/* Of somebody else than rank 0: what can be done about it. */
static const char *hint(const attempt_t *a) {
    return a->to == 0 ? ""
                      : ": processes connect to each other's hosts; with HEDDLE_BOOTSTRAP_FANOUT "
                        "at rank 0 above their number, to that of rank 0 alone";
}

/* After an attempt that was in vain. */
static void give_up_or_pause(attempt_t *a, const char *address, outcome_t outcome, int *refusals,
                             double *pause) {
    heddle_bootstrap_t *b = a->b;
    if (a->fatal != UCC_OK) {
        hd_bootstrap_fail(b, a->fatal, "rank %u at %s: %s", a->to, address, a->why);
    } else if (outcome == REFUSED && ++*refusals == MOST_REFUSALS) {
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM,
                          "who listens at %s is not rank %u of this job: %s", address, a->to,
                          a->why);
    } else if (hd_seconds() >= a->deadline) {
        hd_bootstrap_fail(b, UCC_ERR_TIMED_OUT, "rank %u has found no rank %u at %s in time: %s%s",
                          b->rank, a->to, address, a->why, hint(a));
    }
    wait_for(a, -1, 0, hd_deadline(*pause));
    *pause = sooner(*pause * 1.5, LAST_PAUSE);
}

static void refused(heddle_bootstrap_t *b, uint32_t to, const hd_conn_t *conn) {
    const hd_wire_t *w = &conn->wire;
    switch (w->peer.verdict) {
    case HD_WIRE_ACCEPTED:
        return;
    case HD_WIRE_WRONG_VERSION:
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM,
                          "different versions: this one is %u, that of rank %u is %u", w->version,
                          to, w->peer.version);
        return;
    case HD_WIRE_WRONG_SIZE:
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM,
                          "different sizes: this process says %u, rank %u says %u", b->size, to,
                          w->peer.size);
        return;
    case HD_WIRE_WRONG_RANK:
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM, "the rank is not below rank %u's size %u", to,
                          w->peer.size);
        return;
    case HD_WIRE_OTHER_JOB:
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM,
                          "different jobs: this process is of job '%s', rank %u of '%s'", b->job,
                          to, w->peer.job);
        return;
    case HD_WIRE_NOT_HERE:
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM,
                          "rank %u has found another process where rank %u should listen: at %s",
                          b->rank, to, conn->name);
        return;
    default:
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM, "two processes have rank %u", b->rank);
        return;
    }
}

hd_conn_t *hd_connect(heddle_bootstrap_t *b, uint32_t to, const char *address, hd_conn_t *watched,
                      double deadline) {
    attempt_t attempt = {.b = b, .to = to, .watched = watched, .deadline = deadline};
    double pause = FIRST_PAUSE;
    for (int refusals = 0; b->failure == UCC_OK;) {
        outcome_t outcome = try_all(&attempt, address);
        if (outcome == JUDGED) {
            refused(b, to, attempt.conn);
            break;
        }
        if (b->failure == UCC_OK) {
            give_up_or_pause(&attempt, address, outcome, &refusals, &pause);
        }
    }
    if (b->failure != UCC_OK) {
        hd_conn_destroy(attempt.conn);
        return NULL;
    }
    return attempt.conn;
}

hd_wire_verdict_t hd_connect_to_twin(heddle_bootstrap_t *b, const char *address,
                                     char job[HD_WIRE_JOB]) {
    attempt_t attempt = {.b = b, .deadline = hd_deadline(TWIN_SECONDS)};
    hd_wire_verdict_t verdict = HD_WIRE_N_VERDICTS;
    if (try_all(&attempt, address) == JUDGED) {
        verdict = (hd_wire_verdict_t)attempt.conn->wire.peer.verdict;
        memcpy(job, attempt.conn->wire.peer.job, HD_WIRE_JOB);
    }
    hd_conn_destroy(attempt.conn);
    return verdict;
}
