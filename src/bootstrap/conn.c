/* conn.c: one connection (bootstrap.h). */
#include "bootstrap/bootstrap.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Reads in a row before others have their turn. */
enum { READS_AT_ONCE = 64 };

static void set_option(int fd, int level, int option, int value) {
    /* None of them is needed for a right result. */
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

/* A peer whose host is lost says nothing: the system asks it now and then. */
static void set_options(int fd, double stall) {
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    if (stall > 0 && stall < 1e6) {
        set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)(stall * 1e3) + 1);
    }
}

hd_conn_t *hd_conn_create(int fd, bool accepting, const heddle_bootstrap_t *b, const char *name) {
    hd_conn_t *conn = calloc(1, sizeof(*conn));
    if (!conn) {
        close(fd);
        return NULL;
    }
    conn->fd = fd;
    set_options(fd, b->exchange_timeout);
    hd_wire_open(&conn->wire, accepting, b->key, b->key_bytes, b->size, b->rank);
    conn->wire.job = b->job;
    conn->wire.fanout = b->fanout;
    conn->wire.listens_all = b->listens_all;
    strncat(conn->name, name, sizeof(conn->name) - 1);
    return conn;
}

void hd_conn_close(hd_conn_t *conn) {
    if (conn->fd >= 0) {
        close(conn->fd);
        conn->fd = -1;
    }
    conn->giving.open = false;
    conn->wire.expecting.open = false;
}

void hd_conn_end(hd_conn_t *conn) {
    if (conn->fd >= 0) {
        shutdown(conn->fd, SHUT_WR);
    }
    conn->giving.open = false;
    hd_conn_send_head(conn, 0);
}

void hd_conn_destroy(hd_conn_t *conn) {
    if (!conn) {
        return;
    }
    hd_conn_close(conn);
    hd_wire_close(&conn->wire);
    free(conn);
}

static hd_read_t broken(hd_conn_t *conn, const char *why) {
    conn->wire.why = why;
    return (hd_read_t){HD_WIRE_BAD, true};
}

hd_read_t hd_conn_read(hd_conn_t *conn) {
    for (int i = 0; i < READS_AT_ONCE && conn->fd >= 0; i++) {
        size_t bytes;
        uint8_t *space = hd_wire_space(&conn->wire, &bytes);
        if (bytes == 0) {
            break; /* its wire has ended */
        }
        ssize_t n = recv(conn->fd, space, bytes, 0);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            break;
        }
        if (n <= 0) {
            return broken(conn, n == 0 ? "has closed its connection" : strerror(errno));
        }
        hd_wire_event_t event = hd_wire_took(&conn->wire, (size_t)n);
        if (event != HD_WIRE_MORE) {
            return (hd_read_t){event, false};
        }
    }
    return (hd_read_t){HD_WIRE_MORE, false};
}

/* What a peer has said last is worth more than that it hears no more. */
hd_read_t hd_conn_last_words(hd_conn_t *conn) {
    const char *why = conn->wire.why;
    hd_read_t read = hd_conn_read(conn);
    return read.event == HD_WIRE_MORE || read.event == HD_WIRE_RECEIVED ? broken(conn, why) : read;
}

static size_t message_bytes(const hd_conn_t *conn) {
    return conn->head_bytes + conn->payload_bytes + conn->mac_bytes;
}

void hd_conn_send_head(hd_conn_t *conn, size_t n) {
    conn->head_bytes = n;
    conn->payload_bytes = conn->mac_bytes = 0;
    conn->sent = 0;
}

/* The next piece of the transfer becomes what is being sent. */
static void begin_piece(hd_conn_t *conn) {
    hd_transfer_t *giving = &conn->giving;
    size_t bytes;
    hd_wire_write_piece(&conn->wire, giving, conn->head, &bytes, conn->mac);
    conn->head_bytes = HD_WIRE_HEAD;
    conn->payload = bytes > 0 ? giving->base + giving->at : NULL;
    conn->payload_bytes = bytes;
    conn->mac_bytes = bytes > 0 ? HD_WIRE_MAC : 0;
    conn->sent = 0;
    giving->at += bytes;
    giving->open = giving->at < giving->total;
}

bool hd_conn_send_small(hd_conn_t *conn, size_t n) {
    hd_conn_send_head(conn, n);
    return hd_conn_write(conn) && !hd_conn_busy(conn);
}

/* What is left of the message, in at most three parts. */
static int parts_left(hd_conn_t *conn, struct iovec part[3]) {
    const void *at[3] = {conn->head, conn->payload, conn->mac};
    const size_t bytes[3] = {conn->head_bytes, conn->payload_bytes, conn->mac_bytes};
    size_t over = conn->sent;
    int n = 0;
    for (int i = 0; i < 3; i++) {
        if (over < bytes[i]) {
            part[n++] = (struct iovec){(char *)at[i] + over, bytes[i] - over};
            over = 0;
        } else {
            over -= bytes[i];
        }
    }
    return n;
}

bool hd_conn_busy(const hd_conn_t *conn) {
    return conn->fd >= 0 && (conn->sent < message_bytes(conn) || hd_wire_has_piece(&conn->giving));
}

bool hd_conn_write(hd_conn_t *conn) {
    while (hd_conn_busy(conn)) {
        if (conn->sent == message_bytes(conn)) {
            begin_piece(conn);
        }
        struct iovec part[3];
        struct msghdr message = {.msg_iov = part, .msg_iovlen = (size_t)parts_left(conn, part)};
        ssize_t n = sendmsg(conn->fd, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return true;
        }
        if (n < 0) {
            conn->wire.why = strerror(errno);
            return false;
        }
        conn->sent += (size_t)n;
    }
    return true;
}

void hd_conn_tell(hd_conn_t *conn, ucc_status_t status, const char *text) {
    if (conn->told || conn->fd < 0) {
        return;
    }
    conn->giving.open = false;
    if (conn->sent < message_bytes(conn)) {
        return; /* hd_bootstrap_told comes again after this frame */
    }
    conn->told = true;
    hd_conn_send_head(conn, hd_wire_write_abort(&conn->wire, status, text, conn->head));
}
