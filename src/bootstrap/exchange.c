/* exchange.c: an allgather among the processes of a bootstrap.
 *
 * Every rank sends its block to rank 0, which receives them where they belong in its own result;
 * when it has all, it sends that to everybody. A rank has begun the next exchange only after it has
 * received all of this one, so rank 0 may read a conn until it has sent all to it, and no longer:
 * what comes up to then can only be an ABORT, or the conn's end.
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

static void expect(hd_conn_t *conn, uint64_t round, uint64_t block, uint64_t total, uint8_t *base) {
    conn->wire.expecting =
        (hd_transfer_t){.round = round, .block = block, .total = total, .base = base, .open = true};
    conn->have = false;
}

static void give(hd_conn_t *conn, uint64_t round, uint64_t block, uint64_t total, uint8_t *base) {
    conn->giving =
        (hd_transfer_t){.round = round, .block = block, .total = total, .base = base, .open = true};
}

static void begin(heddle_bootstrap_t *b, void *src, uint8_t *dst, size_t bytes) {
    b->round++;
    b->missing = b->rank == 0 ? b->size - 1 : 1;
    b->spreading = false;
    b->exchange = HD_EXCHANGE_OPEN;
    if (b->rank != 0) {
        expect(b->peer[0], b->round, bytes, (uint64_t)bytes * b->size, dst);
        give(b->peer[0], b->round, bytes, bytes, src);
        return;
    }
    if (bytes > 0) {
        memmove(dst, src, bytes);
    }
    for (uint32_t i = 1; i < b->size; i++) {
        expect(b->peer[i], b->round, bytes, bytes, bytes > 0 ? dst + bytes * i : NULL);
    }
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
    b->deadline = hd_deadline(b->exchange_timeout) + (b->rank == 0 ? 0 : HD_GRACE_SECONDS);
    begin(b, src, dst, bytes);
    return UCC_OK;
}

/* All blocks are here: everybody gets them. */
static void spread(heddle_bootstrap_t *b) {
    const hd_transfer_t *any = &b->peer[1]->wire.expecting;
    uint8_t *dst = any->block > 0 ? any->base - any->block : NULL;
    b->spreading = true;
    for (uint32_t i = 1; i < b->size; i++) {
        give(b->peer[i], b->round, any->block, any->block * b->size, dst);
    }
}

/* This exchange has nothing more to do with the conn, so it is not looked at. */
static bool conn_over(const heddle_bootstrap_t *b, const hd_conn_t *conn) {
    return conn->have && (b->rank != 0 || b->spreading) && !hd_conn_busy(conn);
}

/* The bytes that have come, event by event. */
static void read_conn(heddle_bootstrap_t *b, hd_conn_t *conn) {
    hd_read_t read = hd_conn_read(conn);
    if (read.event == HD_WIRE_MORE) {
        return;
    }
    if (read.event != HD_WIRE_RECEIVED) {
        hd_bootstrap_lost(b, conn, read);
        return;
    }
    conn->have = true;
    b->missing--;
}

static void serve(heddle_bootstrap_t *b, hd_conn_t *conn, short happened) {
    if (happened & (POLLIN | POLLHUP | POLLERR)) {
        read_conn(b, conn);
    }
    if (b->failure == UCC_OK && !hd_conn_write(conn)) {
        hd_bootstrap_lost(b, conn, hd_conn_last_words(conn));
    }
}

/* Looks at all conns once. */
static void look(heddle_bootstrap_t *b) {
    for (uint32_t i = 0; i < b->n_peers; i++) {
        const hd_conn_t *conn = b->peer[i];
        bool over = !conn || conn_over(b, conn);
        b->polls[i] = (struct pollfd){.fd = over ? -1 : conn->fd, .events = POLLIN};
        if (!over && hd_conn_busy(conn)) {
            b->polls[i].events |= POLLOUT;
        }
    }
    int n = poll(b->polls, b->n_peers, 0);
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
        hd_bootstrap_fail(b, UCC_ERR_IO_ERROR, "rank %u cannot poll: %s", b->rank, strerror(errno));
    }
    for (uint32_t i = 0; n > 0 && i < b->n_peers && b->failure == UCC_OK; i++) {
        if (b->polls[i].revents) {
            serve(b, b->peer[i], b->polls[i].revents);
        }
    }
}

static bool all_over(const heddle_bootstrap_t *b) {
    for (uint32_t i = 0; i < b->n_peers; i++) {
        if (b->peer[i] && !conn_over(b, b->peer[i])) {
            return false;
        }
    }
    return true;
}

static void time_out(heddle_bootstrap_t *b) {
    char missing[160];
    if (b->rank != 0) {
        hd_bootstrap_fail(b, UCC_ERR_TIMED_OUT,
                          "rank %u has waited for the result of an allgather for %g s", b->rank,
                          b->exchange_timeout);
    } else if (b->spreading) {
        hd_bootstrap_fail(b, UCC_ERR_TIMED_OUT,
                          "the result of an allgather was not taken by all within %g s",
                          b->exchange_timeout);
    } else {
        hd_bootstrap_name_missing(b, false, missing, sizeof(missing));
        hd_bootstrap_fail(b, UCC_ERR_TIMED_OUT,
                          "no data for an allgather came within %g s from rank %s",
                          b->exchange_timeout, missing);
    }
}

static void go_on(heddle_bootstrap_t *b) {
    look(b);
    if (b->failure == UCC_OK && b->rank == 0 && b->missing == 0 && !b->spreading) {
        spread(b);
        look(b);
    }
    if (b->failure == UCC_OK && b->missing == 0 && all_over(b)) {
        b->exchange = HD_EXCHANGE_OVER;
        b->outcome = UCC_OK;
        return;
    }
    if (b->failure == UCC_OK && hd_seconds() > b->deadline) {
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
