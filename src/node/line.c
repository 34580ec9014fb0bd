/* line.c: the lock, the timer, and connections as sockets: a line brings and takes whole messages
 * (internal.h).
 */
#include "node/internal.h"

#include "core/descriptors.h"
#include "core/mem.h"
#include "threads/clock.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    MOST_DESCRIPTORS = 4, /* of one message; the kernel drops more */
    MORE_LIVES = 64
};

static const uint64_t retry_after = 10 * 1000 * 1000; /* ns */

/* Static, so that forks find all nodes whole. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Whether the thread inside may be cancelled: not there, where it would keep the lock. */
static int cancelling;

pthread_mutex_t *hd_node_mutex(void) {
    return &lock;
}

void hd_node_lock(void) {
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_mutex_lock(&lock);
    cancelling = before;
}

bool hd_node_try_lock(void) {
    bool taken = pthread_mutex_trylock(&lock) == 0;
    if (taken) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    }
    return taken;
}

void hd_node_unlock(void) {
    int before = cancelling;
    pthread_mutex_unlock(&lock);
    pthread_setcancelstate(before, NULL);
}

void hd_node_ring_at(hd_node_t *node, uint64_t when) {
    enum { SECOND = 1000 * 1000 * 1000 };
    if (when >= node->rings_at) {
        return;
    }
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(when / SECOND), .tv_nsec = (long)(when % SECOND)}};
    node->rings_at = when;
    (void)timerfd_settime(node->timer, TFD_TIMER_ABSTIME, &at, NULL); /* all is in order */
}

/* No memory, and none is needed to say so. */
static void turn_away(const hd_node_t *node, int fd) {
    hd_node_message_t m = hd_node_write(HD_NODE_VERDICT);
    m.code = HD_NODE_STARVED;
    m.word = node->layout;
    (void)send(fd, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT); /* if it is lost, so is the line */
}

/* In the set, and in the list. NULL: see errno. */
static hd_node_line_t *listen_to(hd_node_t *node, int fd) {
    hd_node_line_t *line = hd_alloc(64, sizeof(*line));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = line};
    if (!line || epoll_ctl(node->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        int why = line ? errno : ENOMEM;
        hd_free(line);
        errno = why;
        return NULL;
    }
    line->fd = fd;
    line->next = node->lines;
    node->lines = line;
    return line;
}

hd_node_line_t *hd_node_line_add(hd_node_t *node, int fd, bool accepted) {
    struct ucred other;
    socklen_t size = sizeof(other);
    bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0;
    hd_node_line_t *line = known ? listen_to(node, fd) : NULL;
    if (!line) {
        if (accepted) {
            turn_away(node, fd);
        }
        close(fd);
        return NULL;
    }
    line->accepted = accepted;
    line->stage = accepted ? HD_NODE_AT_HELLO : HD_NODE_AT_VERDICT;
    line->uid = other.uid;
    line->pid = (uint32_t)other.pid;
    node->strangers += accepted;
    node->serials += node->serials == UINT32_MAX ? 2 : 1;
    line->serial = node->serials;
    return line;
}

/* The C library's headers may be older than the kernel. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

static int open_life(uint32_t pid) {
    long fd = syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && errno == EMFILE) {
        (void)hd_descriptors_reserve(MORE_LIVES); /* there may be some room, if not as much */
        fd = syscall(SYS_pidfd_open, pid, 0);
    }
    return (int)fd;
}

hd_node_line_t *hd_node_line_add_life(hd_node_t *node, uint32_t pid) {
    int fd = open_life(pid);
    hd_node_line_t *line = fd >= 0 ? listen_to(node, fd) : NULL;
    if (line) {
        line->is_life = true;
        line->stage = HD_NODE_AT_END;
        line->pid = pid;
    } else if (fd >= 0) {
        int why = errno;
        close(fd);
        errno = why;
    }
    return line;
}

bool hd_node_line_keep_spare(hd_node_t *node) {
    if (node->spare < 0) {
        node->spare = eventfd(0, EFD_CLOEXEC);
    }
    return node->spare >= 0;
}

void hd_node_line_close(hd_node_t *node, hd_node_line_t *line) {
    if (line->fd < 0) {
        return;
    }
    /* Closing alone would leave it in the set while a child of this process has a copy; and that
     * copy would keep its end from the peer. */
    (void)epoll_ctl(node->epoll, EPOLL_CTL_DEL, line->fd, NULL);
    if (!line->is_life) {
        (void)shutdown(line->fd, SHUT_RDWR);
    }
    close(line->fd);
    (void)hd_node_line_keep_spare(node);
    line->fd = -1;
    node->strangers -= line->stage == HD_NODE_AT_HELLO;
    line->stage = HD_NODE_AT_END;
    node->has_closed = true;
    if (line->peer) {
        *(line->is_life ? &line->peer->life : &line->peer->line) = NULL;
        line->peer = NULL;
    }
}

void hd_node_line_free_closed(hd_node_t *node) {
    hd_node_line_t **at = &node->lines;
    while (node->has_closed && *at) {
        hd_node_line_t *line = *at;
        if (line->fd < 0) {
            *at = line->next;
            hd_free(line);
        } else {
            at = &line->next;
        }
    }
    node->has_closed = false;
}

/* --- messages --------------------------------------------------------------------------------- */

/* Room for descriptors beside a message. */
typedef union room {
    char bytes[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
    struct cmsghdr align;
} room_t;

static void attach(struct msghdr *header, room_t *room, int fd) {
    memset(room, 0, sizeof(*room));
    header->msg_control = room->bytes;
    header->msg_controllen = CMSG_SPACE(sizeof(fd));
    struct cmsghdr *control = CMSG_FIRSTHDR(header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(control), &fd, sizeof(fd));
}

/* What hinders it is not the other end, or is over when that has read. */
static void wait_to_send(hd_node_t *node, hd_node_line_t *line, int why) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = line};
    if (why == EAGAIN || why == EWOULDBLOCK) {
        line->blocked = epoll_ctl(node->epoll, EPOLL_CTL_MOD, line->fd, &event) == 0;
    } else if (why == ENOBUFS || why == ENOMEM || why == ETOOMANYREFS) {
        line->due = hd_clock_ns() + retry_after;
        hd_node_ring_at(node, line->due);
    } /* else its end will be read */
}

bool hd_node_line_send(hd_node_t *node, hd_node_line_t *line, const hd_node_message_t *message,
                       int fd) {
    room_t room;
    struct iovec part = {(void *)(uintptr_t)message, sizeof(*message)};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t n;
    if (line->blocked) {
        return false;
    }
    if (fd >= 0) {
        attach(&header, &room, fd);
    }
    do {
        n = sendmsg(line->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        wait_to_send(node, line, errno);
    }
    return n >= 0;
}

/* Takes the first one of all descriptors that have come; the others are closed. */
static int detach(struct msghdr *header, uint32_t *n) {
    int first = -1, fd;
    *n = 0;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at; at = CMSG_NXTHDR(header, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        for (size_t i = CMSG_LEN(0); i + sizeof(fd) <= at->cmsg_len; i += sizeof(fd)) {
            memcpy(&fd, (const char *)at + i, sizeof(fd));
            if ((*n)++ == 0) {
                first = fd;
            } else {
                close(fd);
            }
        }
    }
    return first;
}

static ssize_t receive(const hd_node_line_t *line, struct msghdr *header) {
    /* What a peer has said before it closed its end comes after the error that it left unread what
     * was sent to it. */
    for (int resets = 0; resets < 2;) {
        ssize_t n = recvmsg(line->fd, header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n >= 0 || (errno != EINTR && errno != ECONNRESET)) {
            return n;
        }
        resets += errno == ECONNRESET;
    }
    header->msg_controllen = 0;
    return 0;
}

hd_node_line_event_t hd_node_line_receive(hd_node_line_t *line, hd_node_message_t *message, int *fd,
                                          const char **why) {
    room_t room;
    uint8_t bytes[HD_NODE_MESSAGE];
    struct iovec part = {bytes, sizeof(bytes)};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    uint32_t descriptors;
    *fd = -1;
    if (line->stage == HD_NODE_AT_OPEN) { /* nobody else's descriptors are let in */
        header.msg_control = room.bytes;
        header.msg_controllen = sizeof(room.bytes);
    }
    ssize_t n = receive(line, &header);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOMEM || errno == ENOBUFS)) {
        return HD_NODE_LINE_NOTHING;
    }
    if (n < 0) {
        return HD_NODE_LINE_END;
    }
    *fd = detach(&header, &descriptors);
    if (n == 0 && descriptors == 0) {
        return HD_NODE_LINE_END;
    }
    *why = hd_node_parse(line->stage, bytes, header.msg_flags & MSG_TRUNC ? SIZE_MAX : (size_t)n,
                         descriptors, header.msg_flags & MSG_CTRUNC, message);
    if (*why && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return *why ? HD_NODE_LINE_BAD : HD_NODE_LINE_MESSAGE;
}
