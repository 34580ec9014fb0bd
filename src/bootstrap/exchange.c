/* exchange.c: an allgather among the processes of a bootstrap, along their tree.
 *
 * What comes from a child are the blocks of its subtree, which lie beside each other in the result.
 * A process passes them on to its parent behind its own block, as they come: so how much has come
 * from a child says who is missing. When rank 0 has all, it sends that to its children, and
 * everybody to his own, as it comes.
 *
 * A process has begun the next exchange only after it has received all of this one. So its parent
 * may read its conn until it has sent all to it, and no longer: what comes up to then can only be
 * an ABORT, or the conn's end.
 */
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <errno.h>
#include <string.h>

/* Anything that is wrong now goes out to the others, without waiting: req_test goes on with it. */
static void begin_telling(heddle_bootstrap_t *b) {
    b->exchange = HD_EXCHANGE_TELLING;
    b->outcome = b->failure;
}

/* A result's blocks of some ranks; no memory if they are empty. */
static hd_transfer_t blocks_of(const heddle_bootstrap_t *b, uint8_t *result, hd_range_t ranks) {
    return (hd_transfer_t){.round = b->round,
                           .block = b->block,
                           .total = b->block * ranks.n,
                           .base = b->block > 0 ? result + b->block * ranks.first : NULL,
                           .open = true};
}

/* Bytes of this process's subtree that are here, without a gap. */
static uint64_t prefix(const heddle_bootstrap_t *b) {
    uint64_t bytes = b->block;
    for (uint32_t i = 0; i < b->tree.children; i++) {
        const hd_transfer_t *from = &b->peer[1 + i]->wire.expecting;
        bytes += from->at;
        if (from->at < from->total) {
            break;
        }
    }
    return bytes;
}

/* What has come can go on: upwards, and, where it is the result, downwards. */
static void pass_on(heddle_bootstrap_t *b) {
    hd_conn_t *parent = b->peer[0];
    uint64_t result = b->missing == 0 ? HD_WIRE_ALL : 0;
    if (parent) {
        parent->giving.ready = b->missing == 0 ? HD_WIRE_ALL : prefix(b);
        result = parent->have ? HD_WIRE_ALL : parent->wire.expecting.at;
    }
    for (uint32_t i = 0; i < b->tree.children; i++) {
        b->peer[1 + i]->giving.ready = result;
    }
}

static void begin(heddle_bootstrap_t *b, const void *src, uint8_t *dst, size_t bytes) {
    const hd_range_t all = {0, b->size};
    b->round++;
    b->block = bytes;
    b->missing = b->tree.children;
    b->exchange = HD_EXCHANGE_OPEN;
    if (bytes > 0) {
        memmove(dst + bytes * b->rank, src, bytes);
    }
    for (uint32_t i = 0; i < b->n_peers; i++) {
        hd_conn_t *conn = b->peer[i];
        if (conn) {
            hd_range_t theirs = i == 0 ? all : hd_tree_child(&b->tree, i - 1);
            conn->wire.expecting = blocks_of(b, dst, theirs);
            conn->giving = blocks_of(b, dst, i == 0 ? b->tree.own : all);
            conn->have = false;
        }
    }
    pass_on(b);
}

ucc_status_t hd_exchange_allgather(void *src, void *dst, size_t bytes, void *bootstrap,
                                   void **request) {
    heddle_bootstrap_t *b = bootstrap;
    *request = NULL;
    if (b->inherited) {
        hd_error("bootstrap of rank %u: its connections belong to the process that made it, not to "
                 "the child of a fork",
                 b->rank);
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (b->exchange != HD_EXCHANGE_NONE) {
        hd_error("bootstrap of rank %u: an allgather is outstanding already", b->rank);
        return UCC_ERR_INVALID_PARAM;
    }
    if (b->failure != UCC_OK) {
        hd_error("bootstrap of rank %u has failed before: %s", b->rank, b->failure_text);
        return b->failure;
    }
    if (bytes > SIZE_MAX / b->size || (bytes > 0 && (!src || !dst))) {
        hd_error("bootstrap of rank %u: blocks of %zu bytes, from %p to %p", b->rank, bytes, src,
                 dst);
        return UCC_ERR_INVALID_PARAM;
    }
    *request = b;
    if (b->size == 1) {
        if (bytes > 0) {
            memmove(dst, src, bytes);
        }
        b->exchange = HD_EXCHANGE_OVER;
        b->outcome = UCC_OK;
        return UCC_OK;
    }
    b->deadline = hd_deadline(b->exchange_timeout);
    begin(b, src, dst, bytes);
    return UCC_OK;
}

/* This exchange has nothing more to do with the conn, so it is not looked at. */
static bool conn_over(const hd_conn_t *conn) {
    return conn->have && !conn->giving.open && !hd_conn_busy(conn);
}

/* The bytes that have come, event by event. */
static void read_conn(heddle_bootstrap_t *b, hd_conn_t *conn) {
    hd_read_t read = hd_conn_read(conn);
    if (read.event == HD_WIRE_RECEIVED) {
        conn->have = true;
        b->missing -= conn != b->peer[0];
    } else if (read.event != HD_WIRE_MORE) {
        hd_bootstrap_lost(b, conn, read);
    }
}

static void write_conn(heddle_bootstrap_t *b, hd_conn_t *conn) {
    if (!hd_conn_write(conn)) {
        hd_bootstrap_lost(b, conn, hd_conn_last_words(conn));
    }
}

/* Looks at all conns once. */
static void look(heddle_bootstrap_t *b) {
    for (uint32_t i = 0; i < b->n_peers; i++) {
        const hd_conn_t *conn = b->peer[i];
        bool over = !conn || conn_over(conn);
        b->polls[i] = (struct pollfd){.fd = over ? -1 : conn->fd, .events = POLLIN};
    }
    int n = poll(b->polls, b->n_peers, 0);
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
        hd_bootstrap_fail(b, UCC_ERR_IO_ERROR, "rank %u cannot poll: %s", b->rank, strerror(errno));
    }
    for (uint32_t i = 0; n > 0 && i < b->n_peers && b->failure == UCC_OK; i++) {
        if (b->polls[i].revents & (POLLIN | POLLHUP | POLLERR)) {
            read_conn(b, b->peer[i]);
        }
    }
    pass_on(b);
    for (uint32_t i = 0; i < b->n_peers && b->failure == UCC_OK; i++) {
        if (b->peer[i] && hd_conn_busy(b->peer[i])) {
            write_conn(b, b->peer[i]);
        }
    }
}

static bool all_over(const heddle_bootstrap_t *b) {
    for (uint32_t i = 0; i < b->n_peers; i++) {
        if (b->peer[i] && !conn_over(b->peer[i])) {
            return false;
        }
    }
    return true;
}

/* The first of a subtree whose block is not here. Of empty blocks its first is named, which is the
 * one that should have told. */
static uint32_t first_missing(const hd_transfer_t *from, hd_range_t ranks) {
    return ranks.first + (from->block > 0 ? (uint32_t)(from->at / from->block) : 0);
}

static void time_out(heddle_bootstrap_t *b) {
    hd_names_t missing = {0};
    for (uint32_t i = 0; i < b->tree.children; i++) {
        if (!b->peer[1 + i]->have) {
            hd_range_t ranks = hd_tree_child(&b->tree, i);
            hd_names_add(&missing, first_missing(&b->peer[1 + i]->wire.expecting, ranks));
        }
    }
    if (b->missing > 0) {
        hd_bootstrap_fail(b, UCC_ERR_TIMED_OUT,
                          "no data for an allgather came within %g s from rank %s",
                          b->exchange_timeout, hd_names_text(&missing));
    } else if (b->peer[0] && !b->peer[0]->have) {
        hd_bootstrap_fail(b, UCC_ERR_TIMED_OUT,
                          "rank %u has waited for the result of an allgather for %g s, from %s",
                          b->rank, b->exchange_timeout, b->peer[0]->name);
    } else {
        hd_bootstrap_fail(b, UCC_ERR_TIMED_OUT,
                          "the result of an allgather was not taken by all children of rank %u "
                          "within %g s",
                          b->rank, b->exchange_timeout);
    }
}

static void go_on(heddle_bootstrap_t *b) {
    look(b);
    if (b->failure == UCC_OK && all_over(b)) {
        b->exchange = HD_EXCHANGE_OVER;
        b->outcome = UCC_OK;
        return;
    }
    double grace = b->missing > 0 || b->rank == 0 ? 0 : HD_GRACE_SECONDS;
    if (b->failure == UCC_OK && hd_seconds() > b->deadline + grace) {
        time_out(b);
    }
    if (b->failure != UCC_OK) {
        begin_telling(b);
    }
}

ucc_status_t hd_exchange_test(void *request) {
    heddle_bootstrap_t *b = request;
    if (b->inherited) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    if (b->exchange == HD_EXCHANGE_OPEN) {
        go_on(b);
    }
    if (b->exchange == HD_EXCHANGE_TELLING && hd_bootstrap_told(b)) {
        b->exchange = HD_EXCHANGE_OVER;
    }
    return b->exchange == HD_EXCHANGE_OVER ? b->outcome : UCC_INPROGRESS;
}

ucc_status_t hd_exchange_free(void *request) {
    heddle_bootstrap_t *b = request;
    if (!b->inherited && b->exchange == HD_EXCHANGE_OPEN) {
        /* Conns read into and write from buffers that the caller may free now. */
        hd_bootstrap_fail(b, UCC_ERR_NO_MESSAGE, "rank %u has given up an allgather", b->rank);
        begin_telling(b);
    }
    if (!b->inherited && b->exchange == HD_EXCHANGE_TELLING) {
        hd_bootstrap_tell_all(b);
    }
    b->exchange = HD_EXCHANGE_NONE;
    return UCC_OK;
}
