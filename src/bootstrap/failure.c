/* failure.c: what forming and exchanges have in common: time, and failure. How a failure is
 * recorded and told, bootstrap.h says. Called by whoever forms the bootstrap or drives its
 * exchange, one thread at a time.
 */
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
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
        /* What comes from rank 0 says of itself whose fault it is. */
        hd_bootstrap_fail(b, conn->wire.peer.status, "%s%s%s", b->rank == 0 ? conn->name : "",
                          b->rank == 0 ? ": " : "", conn->wire.peer.text);
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

void hd_bootstrap_name_missing(const heddle_bootstrap_t *b, bool forming, char *out, size_t size) {
    uint32_t named = 0, more = 0;
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < b->n_peers; i++) {
        const hd_conn_t *conn = b->peer[i];
        if (i == b->rank || (forming ? conn != NULL : conn->have)) {
            continue;
        }
        if (named == 8 || used + 16 > size) {
            more++;
            continue;
        }
        used += (size_t)snprintf(out + used, size - used, "%s%u", named++ > 0 ? ", " : "", i);
    }
    if (more > 0) {
        snprintf(out + used, size - used, " and %u more", more);
    }
}
