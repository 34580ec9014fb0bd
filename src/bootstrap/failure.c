/* failure.c: what forming and exchanges have in common: time, peers, and failure. How a failure is
 * recorded and told, bootstrap.h says. Called by whoever forms the bootstrap or drives its
 * exchange, one thread at a time.
 */
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* --- time ------------------------------------------------------------------------------------- */

double hd_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double hd_deadline(double seconds) {
    return seconds < 0 ? (double)INFINITY : hd_seconds() + seconds;
}

int hd_milliseconds_until(double deadline) {
    double left = deadline - hd_seconds();
    return left <= 0 ? 0 : left >= 1 ? 1000 : (int)(left * 1e3) + 1;
}

/* --- peers ------------------------------------------------------------------------------------ */

bool hd_bootstrap_make_peers(heddle_bootstrap_t *b, uint32_t n) {
    b->peer = calloc(n, sizeof(hd_conn_t *));
    b->polls = calloc(n, sizeof(*b->polls));
    if (!b->peer || !b->polls) {
        hd_bootstrap_fail(b, UCC_ERR_NO_MEMORY, "rank %u has no memory for %u connections", b->rank,
                          n);
        return false;
    }
    b->n_peers = n;
    return true;
}

/* --- failure ---------------------------------------------------------------------------------- */

void hd_bootstrap_fail(heddle_bootstrap_t *b, ucc_status_t status, const char *format, ...) {
    if (b->failure != UCC_OK) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(b->failure_text, sizeof(b->failure_text), format, arguments);
    va_end(arguments);
    b->failure = status;
    b->tell_until = hd_seconds() + HD_TELL_SECONDS;
    hd_error("bootstrap of rank %u: %s", b->rank, b->failure_text);
}

void hd_bootstrap_lost(heddle_bootstrap_t *b, hd_conn_t *conn, hd_read_t read) {
    if (read.event == HD_WIRE_ABORTED) {
        conn->told = true; /* it knows already */
        /* The text says of itself whose fault it is. */
        hd_bootstrap_fail(b, conn->wire.peer.status, "%s", conn->wire.peer.text);
    } else if (read.event == HD_WIRE_UNEQUAL) {
        hd_bootstrap_fail(b, UCC_ERR_INVALID_PARAM,
                          "blocks of different sizes in one allgather: %llu bytes at %s, %llu at "
                          "rank %u",
                          (unsigned long long)conn->wire.peer.block, conn->name,
                          (unsigned long long)conn->wire.expecting.block, b->rank);
    } else {
        hd_bootstrap_fail(b, UCC_ERR_IO_ERROR, "%s %s%s", conn->name,
                          read.event == HD_WIRE_BAD ? conn->wire.why : "sent what nobody waits for",
                          read.closed ? ": it has ended, or died" : "");
    }
    if (read.closed) {
        hd_conn_close(conn);
    }
}

/* True if there is nothing more to be sent. */
static bool tell(heddle_bootstrap_t *b, hd_conn_t *conn) {
    bool sound = true;
    for (int i = 0; i < 2 && sound; i++) { /* the frame under way, then the ABORT */
        hd_conn_tell(conn, b->failure, b->failure_text);
        sound = hd_conn_write(conn);
    }
    if (!sound) {
        hd_conn_close(conn);
    }
    return !hd_conn_busy(conn);
}

bool hd_bootstrap_told(heddle_bootstrap_t *b) {
    bool all = true;
    for (uint32_t i = 0; i < b->n_peers; i++) {
        all = (!b->peer[i] || tell(b, b->peer[i])) && all;
    }
    if (!all && hd_seconds() < b->tell_until) {
        return false;
    }
    for (uint32_t i = 0; i < b->n_peers; i++) {
        if (b->peer[i]) {
            hd_conn_end(b->peer[i]);
        }
    }
    return true;
}

void hd_bootstrap_tell_all(heddle_bootstrap_t *b) {
    while (!hd_bootstrap_told(b)) {
        poll(NULL, 0, 1);
    }
}

/* --- for lines -------------------------------------------------------------------------------- */

void hd_names_add(hd_names_t *names, uint32_t rank) {
    enum { MOST = 8, LONGEST = 16 };
    if (names->named == MOST || names->used + LONGEST > sizeof(names->text)) {
        names->more++;
        return;
    }
    names->used += (size_t)snprintf(names->text + names->used, sizeof(names->text) - names->used,
                                    "%s%u", names->named++ > 0 ? ", " : "", rank);
}

const char *hd_names_text(hd_names_t *names) {
    if (names->more > 0) {
        snprintf(names->text + names->used, sizeof(names->text) - names->used, " and %u more",
                 names->more);
    }
    return names->text;
}

const char *hd_files_hint(int error) {
    return error == EMFILE ? ": raise the limit of open files (ulimit -n)" : "";
}
