/* asker.c: connections of those who ask, and what is queued for them (asker.h). */
#include "threads/asker.h"

#include "core/log.h"
#include "core/mem.h"
#include "threads/clock.h"

#include <errno.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 8, MOST_QUEUED = 1 << 16 };
static const uint64_t patience = 30 * UINT64_C(1000000000); /* ns */

/* A mail that waits for its asker to read. */
struct hd_queued {
    hd_queued_t *next;
    hd_mail_t mail;
};

uint32_t hd_ask_address(struct sockaddr_un *at, hd_ask_kind_t of, uint32_t pid) {
    static const char *const kind[HD_ASK_KINDS] = {"", "/node"};
    *at = (struct sockaddr_un){.sun_family = AF_UNIX}; /* its first byte is 0: in no file system */
    int length =
        snprintf(at->sun_path + 1, sizeof(at->sun_path) - 1, "heddle/ask/%u%s", pid, kind[of]);
    return (uint32_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static void look_at(hd_askers_t *askers, int fd, uint32_t events) {
    if (askers->also) {
        askers->also(askers->arg, fd, events);
    }
}

static void await(hd_askers_t *askers, hd_asker_t *asker, uint32_t events) {
    asker->events = events;
    look_at(askers, asker->fd, events);
}

static void end(hd_askers_t *askers, hd_asker_t *asker) {
    look_at(askers, asker->fd, 0);
    close(asker->fd);
    for (hd_queued_t *next, *q = asker->first; q; q = next) {
        next = q->next;
        hd_free(q);
    }
    *asker = (hd_asker_t){.fd = -1};
}

static void flush(hd_askers_t *askers, hd_asker_t *asker) {
    while (asker->first) {
        hd_queued_t *q = asker->first;
        ssize_t sent =
            send(asker->fd, &q->mail, hd_mail_bytes(&q->mail), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            break;
        }
        if (sent < 0) {
            end(askers, asker);
            return;
        }
        asker->first = q->next;
        asker->n--;
        hd_free(q);
    }
    await(askers, asker, asker->first ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void hd_askers_hand(hd_askers_t *askers, hd_asker_t *asker, const hd_mail_t *mail) {
    hd_queued_t *q = asker->fd >= 0 && asker->n < MOST_QUEUED
                         ? hd_alloc(alignof(hd_queued_t), sizeof(*q))
                         : NULL;
    if (!q) {
        return; /* the asker misses it */
    }
    q->mail = *mail;
    hd_queued_t **at = &asker->first;
    if (asker->first) {
        at = &asker->last->next;
    }
    *at = asker->last = q;
    asker->n++;
    flush(askers, asker);
}

/* --- questions -------------------------------------------------------------------------------- */

static void begin(hd_askers_t *askers, hd_asker_t *asker, const hd_question_t *question) {
    const hd_question_t mine = {HD_ASK_MAGIC, HD_ASK_VERSION};
    bool known = question->magic == mine.magic && question->version == mine.version;
    uint64_t ask = 0;
    (void)send(asker->fd, &mine, sizeof(mine), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (!known || getrandom(&ask, sizeof(ask), GRND_NONBLOCK) != (ssize_t)sizeof(ask)) {
        end(askers, asker);
        return;
    }
    asker->ask = ask ? ask : 1;
    askers->answer(askers->arg, asker);
}

static void read_from(hd_askers_t *askers, hd_asker_t *asker) {
    hd_question_t question;
    /* MSG_TRUNC: how long it is, however much of it fits */
    ssize_t got = recv(asker->fd, &question, sizeof(question), MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        flush(askers, asker);
    } else if (got == (ssize_t)sizeof(question) && !asker->ask) {
        begin(askers, asker, &question);
    } else {
        end(askers, asker);
    }
}

static bool may_ask(int fd) {
    struct ucred who;
    socklen_t size = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
           (who.uid == geteuid() || who.uid == 0);
}

static void accept_some(hd_askers_t *askers, uint64_t now) {
    for (uint32_t i = 0; i < HD_ASKERS; i++) {
        if (askers->asker[i].fd >= 0 && now - askers->asker[i].since > patience) {
            end(askers, &askers->asker[i]);
        }
    }
    for (uint32_t i = 0; i < BACKLOG && askers->listener >= 0; i++) {
        int fd = accept4(askers->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        hd_asker_t *asker = askers->asker;
        if (fd < 0) {
            return;
        }
        while (asker < askers->asker + HD_ASKERS && asker->fd >= 0) {
            asker++;
        }
        if (asker == askers->asker + HD_ASKERS || !may_ask(fd)) {
            close(fd);
            continue;
        }
        *asker = (hd_asker_t){.fd = fd, .since = now};
        await(askers, asker, EPOLLIN);
    }
}

void hd_askers_look(hd_askers_t *askers) {
    accept_some(askers, hd_clock_ns());
    for (uint32_t i = 0; i < HD_ASKERS; i++) {
        if (askers->asker[i].fd >= 0) {
            read_from(askers, &askers->asker[i]);
        }
    }
}

/* --- opening, closing ------------------------------------------------------------------------- */

void hd_askers_clear(hd_askers_t *askers) {
    *askers = (hd_askers_t){.listener = -1};
    for (uint32_t i = 0; i < HD_ASKERS; i++) {
        askers->asker[i].fd = -1;
    }
}

void hd_askers_open(hd_askers_t *askers, hd_ask_kind_t of) {
    struct sockaddr_un at;
    uint32_t bytes = hd_ask_address(&at, of, (uint32_t)getpid());
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&at, bytes) != 0 || listen(fd, BACKLOG) != 0) {
        hd_info("heddle_info --job can't ask this process: %s", strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    askers->listener = fd;
    look_at(askers, fd, EPOLLIN);
}

void hd_askers_close(hd_askers_t *askers) {
    for (uint32_t i = 0; i < HD_ASKERS; i++) {
        if (askers->asker[i].fd >= 0) {
            end(askers, &askers->asker[i]);
        }
    }
    if (askers->listener >= 0) {
        look_at(askers, askers->listener, 0);
        close(askers->listener);
        askers->listener = -1;
    }
}

void hd_askers_abandon(hd_askers_t *askers) {
    for (uint32_t i = 0; i < HD_ASKERS; i++) {
        if (askers->asker[i].fd >= 0) {
            close(askers->asker[i].fd);
        }
        askers->asker[i] = (hd_asker_t){.fd = -1};
    }
    if (askers->listener >= 0) {
        close(askers->listener);
        askers->listener = -1;
    }
}

/* --- what is said ----------------------------------------------------------------------------- */

void hd_report_say(hd_report_t *report, const char *format, ...) {
    char line[2048];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    size_t n = length < 0 ? 0 : (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1;
    if (n == sizeof(line) - 1) {
        line[n - 1] = '\n';
    }
    for (size_t i = 0; i < n; i++) {
        report->mail.text[report->mail.bytes++] = line[i];
        if (report->mail.bytes == HD_MAIL_TEXT) {
            report->deliver(report->to, &report->mail);
            report->mail.bytes = 0;
        }
    }
}

void hd_report_end(hd_report_t *report) {
    report->mail.last = 1;
    report->deliver(report->to, &report->mail);
}
