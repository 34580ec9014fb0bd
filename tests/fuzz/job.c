/* job.c: fuzz target of what a process answers who asks for its job (src/net/job.c): mails, of
 * which other processes have written all but the outermost.
 *
 * There is no process: the linker puts the functions below in the place of those that job.c calls.
 * An input is a sequence of packets, which the connections take in turn: two to the process that is
 * asked, and one to each that it tells of. Whatever comes, it ends, and what is printed are lines
 * that can be read.
 */
#include "net/ask.h"

#include "fuzz.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST = 1024, FIRST = 4000 }; /* descriptors; the process that is asked */

static input_t *input;
static bool greeted[MOST];
static unsigned to[MOST]; /* the pid of the process at the other end */
static uint64_t now;

int __wrap_connect(int fd, const struct sockaddr *at, socklen_t bytes);
ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags);
int __wrap_poll(struct pollfd *wait, nfds_t n, int ms);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
uint64_t __wrap_hd_clock_ns(void);

uint64_t __wrap_hd_clock_ns(void) {
    return now;
}

int __wrap_connect(int fd, const struct sockaddr *at, socklen_t bytes) {
    const char *name = ((const struct sockaddr_un *)(const void *)at)->sun_path;
    CHECK(fd >= 0 && fd < MOST && at->sa_family == AF_UNIX && bytes > sizeof(sa_family_t));
    CHECK(bytes < sizeof(struct sockaddr_un) && name[0] == '\0');
    CHECK(sscanf(name + 1, "heddle/ask/%u", &to[fd]) == 1 && to[fd] > 0);
    greeted[fd] = false;
    if (to[fd] % 8 == 7) { /* some have no room, or are not there */
        errno = to[fd] & 8 ? EAGAIN : ECONNREFUSED;
        return -1;
    }
    return 0;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags) {
    CHECK(fd >= 0 && bytes && n == sizeof(hd_question_t) && flags == MSG_NOSIGNAL);
    return (ssize_t)n;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size) {
    struct ucred who = {.pid = (pid_t)(to[fd] % 8 == 6 ? 1 : to[fd]), .uid = geteuid()};
    CHECK(fd >= 0 && level == SOL_SOCKET && name == SO_PEERCRED && *size == sizeof(who));
    memcpy(value, &who, sizeof(who));
    return 0;
}

int __wrap_poll(struct pollfd *wait, nfds_t n, int ms) {
    CHECK(ms > 0 && (wait != NULL) == (n > 0)); /* of nobody: it only waits */
    now += 1000000;
    for (nfds_t i = 0; i < n; i++) {
        wait[i].revents = wait[i].fd >= 0 ? POLLIN : 0;
    }
    return n > 0;
}

/* What a look at the next packet finds, which takes nothing: a byte of it, or that the process
 * turns the connection away. */
static ssize_t peek(void *bytes) {
    uint8_t how = input->left ? *input->at : 0;
    if (how == 253) {
        (void)next_byte(input);
        errno = ECONNRESET;
        return -1;
    }
    *(uint8_t *)bytes = how;
    return input->left > 0;
}

/* One packet, whose parts that matter are likely to be right. */
ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags) {
    hd_question_t question = {HD_ASK_MAGIC, HD_ASK_VERSION};
    hd_mail_t mail = {.ask = 1};
    if (flags == (MSG_PEEK | MSG_DONTWAIT)) {
        CHECK(fd >= 0 && fd < MOST && n == 1);
        return peek(bytes);
    }
    CHECK(fd >= 0 && fd < MOST && n == sizeof(mail) && flags == MSG_DONTWAIT);
    if (input->left == 0) {
        return 0;
    }
    uint8_t how = next_byte(input);
    if (!greeted[fd]) {
        greeted[fd] = true;
        question.version += how == 255;
        memcpy(bytes, &question, sizeof(question));
        return how == 254 ? 3 : (ssize_t)sizeof(question);
    }
    mail.by[0] = how % 8;
    mail.last = how >> 3 & 1;
    mail.bytes = next_byte(input);
    size_t text = mail.bytes < sizeof(mail.text) ? mail.bytes : sizeof(mail.text);
    text = text < input->left ? text : input->left;
    next_bytes(input, (uint8_t *)mail.text, text);
    if (!(how & 16)) {
        mail.bytes = (uint32_t)text;
    }
    size_t whole = how & 32 ? next_byte(input) % (sizeof(mail) + 1) : hd_mail_bytes(&mail);
    whole = whole < sizeof(mail) ? whole : sizeof(mail);
    memcpy(bytes, &mail, whole);
    return (ssize_t)whole;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input_t in = {data, size};
    char *text = NULL;
    size_t bytes = 0;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 0);
    input = &in;
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out);
    (void)hd_job_print(out, FIRST);
    fclose(out);
    for (size_t i = 0; i < bytes; i++) {
        CHECK(text[i] == '\n' || (text[i] >= ' ' && text[i] <= '~'));
    }
    free(text);
    return 0;
}
