/* root.c: forming, by rank 0, where all come (door.c). When all are there, and those that shall
 * have children listen, it tells everybody where his parent is; when all have found theirs, that
 * they may begin; and keeps its own children.
 */
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- listening -------------------------------------------------------------------------------- */

/* Somebody else listens there. Logged. */
static ucc_status_t address_in_use(heddle_bootstrap_t *b, const char *address) {
    char job[HD_WIRE_JOB];
    hd_wire_verdict_t verdict = hd_connect_to_twin(b, address, job);
    if (verdict == HD_WIRE_TAKEN) {
        hd_error("bootstrap of rank 0: two processes have rank 0: another one listens at %s",
                 address);
        return UCC_ERR_INVALID_PARAM;
    }
    if (verdict == HD_WIRE_OTHER_JOB) {
        hd_error("bootstrap of rank 0: rank 0 of job '%s' listens at %s, this one is of job '%s'",
                 job, address, b->job);
        return UCC_ERR_NO_RESOURCE;
    }
    hd_error("bootstrap of rank 0: cannot listen at %s: %s", address, strerror(EADDRINUSE));
    return UCC_ERR_NO_RESOURCE;
}

static ucc_status_t listen_at(heddle_bootstrap_t *b, const char *address, int *listener) {
    struct addrinfo *list;
    ucc_status_t status = hd_address_resolve(address, false, &list);
    if (status != UCC_OK) {
        return status;
    }
    int error = 0;
    for (const struct addrinfo *at = list; at && *listener < 0; at = at->ai_next) {
        *listener = hd_address_listen(at->ai_addr, at->ai_addrlen, hd_door_backlog(b->size));
        error = *listener < 0 && error != EADDRINUSE ? errno : error;
    }
    freeaddrinfo(list);
    if (*listener >= 0) {
        return UCC_OK;
    }
    if (error == EADDRINUSE) {
        return address_in_use(b, address);
    }
    hd_error("bootstrap of rank 0: cannot listen at %s: %s%s", address, strerror(error),
             hd_files_hint(error));
    return UCC_ERR_NO_RESOURCE;
}

static ucc_status_t check_listener(int fd) {
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

/* --- the steps -------------------------------------------------------------------------------- */

static hd_tree_t place(const heddle_bootstrap_t *b, uint32_t rank) {
    return hd_tree_place(rank, b->size, b->fanout);
}

/* Others than rank 0 that have children. */
static uint32_t count_inner(const heddle_bootstrap_t *b) {
    uint32_t inner = 0;
    for (uint32_t r = 1; r < b->size; r++) {
        inner += place(b, r).children > 0;
    }
    return inner;
}

static void gather(hd_door_t *door, uint32_t inner) {
    heddle_bootstrap_t *b = door->b;
    while (b->failure == UCC_OK && (door->present < b->size - 1 || door->listening < inner)) {
        if (hd_seconds() > b->deadline) {
            hd_names_t missing = {0};
            char strangers[80] = "", others[80] = "";
            for (uint32_t r = 1; r < b->size; r++) {
                if (!b->peer[r] || (place(b, r).children > 0 && b->peer[r]->wire.peer.port == 0)) {
                    hd_names_add(&missing, r);
                }
            }
            if (door->turned_away > 0) {
                snprintf(strangers, sizeof(strangers),
                         "; %u connections did not know the job's key", door->turned_away);
            }
            if (door->other_jobs > 0) {
                snprintf(others, sizeof(others), "; %u were of another job", door->other_jobs);
            }
            hd_bootstrap_fail(
                b, UCC_ERR_TIMED_OUT, "%u of %u processes have come within %g s, not rank %s%s%s",
                1 + door->present, b->size, b->timeout, hd_names_text(&missing), strangers, others);
            return;
        }
        hd_door_wait(door, b->deadline);
    }
}

/* A message of conn->head's. */
static void say(heddle_bootstrap_t *b, hd_conn_t *conn) {
    if (!hd_conn_send_small(conn, HD_WIRE_HEAD)) {
        hd_bootstrap_lost(b, conn, hd_conn_last_words(conn));
    }
}

/* All are here. Rank 0's children have found their parent. */
static void tell_parents(heddle_bootstrap_t *b) {
    for (uint32_t r = 1; r < b->size && b->failure == UCC_OK; r++) {
        hd_conn_t *parent = b->peer[place(b, r).parent];
        if (!parent) {
            continue;
        }
        hd_place_t at = hd_address_place(parent, parent->wire.peer.port);
        if (at.family == 0) {
            hd_bootstrap_lost(b, parent, hd_conn_last_words(parent));
            return;
        }
        hd_wire_write_parent(&b->peer[r]->wire, &at, b->peer[r]->head);
        say(b, b->peer[r]);
    }
}

static void wait_for_links(hd_door_t *door) {
    heddle_bootstrap_t *b = door->b;
    while (b->failure == UCC_OK && door->linked < b->size - 1 - b->tree.children) {
        if (hd_seconds() > b->deadline) {
            hd_names_t missing = {0};
            for (uint32_t r = 1; r < b->size; r++) {
                if (place(b, r).parent != 0 && !b->peer[r]->have) {
                    hd_names_add(&missing, r);
                }
            }
            hd_bootstrap_fail(b, UCC_ERR_TIMED_OUT,
                              "all processes have come within %g s, but some have found no other "
                              "one to connect to: rank %s",
                              b->timeout, hd_names_text(&missing));
            return;
        }
        hd_door_wait(door, b->deadline);
    }
}

static void start(heddle_bootstrap_t *b) {
    for (uint32_t r = 1; r < b->size && b->failure == UCC_OK; r++) {
        hd_wire_write_start(&b->peer[r]->wire, b->peer[r]->head);
        say(b, b->peer[r]);
    }
}

/* The other connections have done what they were for; what was sent still arrives. */
static void keep_children(heddle_bootstrap_t *b) {
    for (uint32_t i = 0, r = 1; r < b->size; r++) {
        hd_conn_t *conn = b->peer[r];
        b->peer[r] = NULL;
        if (place(b, r).parent == 0) {
            b->peer[1 + i++] = conn;
        } else {
            hd_conn_destroy(conn);
        }
    }
    b->n_peers = 1 + b->tree.children;
}

static void form(heddle_bootstrap_t *b, int listener) {
    hd_door_t door;
    b->listens_all = hd_address_is_all(listener);
    b->deadline = hd_deadline(b->timeout);
    if (hd_door_open(&door, b, listener, b->size - 1) == UCC_OK) {
        gather(&door, count_inner(b));
        tell_parents(b);
        wait_for_links(&door);
        start(b);
    }
    hd_door_close(&door);
    if (b->failure == UCC_OK) {
        keep_children(b);
    } else {
        hd_bootstrap_tell_all(b);
    }
}

ucc_status_t hd_root_form(heddle_bootstrap_t *b, const char *address, int listener) {
    int own = -1;
    ucc_status_t status = check_descriptors(b);
    if (status == UCC_OK) {
        status = listener >= 0 ? check_listener(listener) : listen_at(b, address, &own);
    }
    if (status != UCC_OK) {
        return status;
    }
    b->tree = place(b, 0);
    if (hd_bootstrap_make_peers(b, b->size)) {
        form(b, listener >= 0 ? listener : own);
    }
    if (own >= 0) {
        close(own);
    }
    return b->failure;
}
