/* wire.c: see wire.h. */
#define _GNU_SOURCE
#include "wire.h"
#include "deadline.h"
#include "processes.h"
#include "random.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_HOSTS = 8, MOST_FRAME = 1600, QUEUE = 2048, MAC = 6 };

typedef struct frame {
    double due;
    size_t bytes;
    unsigned char data[MOST_FRAME];
} frame_t;

/* A host's end: what it has sent waits in its queue. */
typedef struct end {
    int tap;
    unsigned char mac[MAC]; /* as seen in what it sends; 0: not yet */
    uint64_t head, tail;
    frame_t *queue; /* [QUEUE] */
    double last_due;
} end_t;

static pid_t carrier;
static volatile sig_atomic_t over;

static void stop(int signal) {
    (void)signal;
    over = 1;
}

/* --- devices of the host that the process is in --- */

static bool control(unsigned long what, struct ifreq *request) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && ioctl(fd, what, request) == 0;
    close(fd);
    return ok;
}

static struct ifreq device(const char *name) {
    struct ifreq request;
    memset(&request, 0, sizeof(request));
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    return request;
}

static bool set_up(const char *name, bool up) {
    struct ifreq request = device(name);
    if (!control(SIOCGIFFLAGS, &request)) {
        return false;
    }
    request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    return control(SIOCSIFFLAGS, &request);
}

static bool set_address(unsigned long what, const char *name, const char *address) {
    struct ifreq request = device(name);
    struct sockaddr_in to = {.sin_family = AF_INET};
    inet_pton(AF_INET, address, &to.sin_addr);
    memcpy(&request.ifr_addr, &to, sizeof(to));
    return control(what, &request);
}

/* A tap of host number `host` (from 1); -1: none. */
static int open_tap(uint32_t host) {
    char address[32];
    struct ifreq request = device("tap0");
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    snprintf(address, sizeof(address), "10.77.0.%u", host);
    if (fd >= 0 && ioctl(fd, TUNSETIFF, &request) == 0 && set_up("net0", false) &&
        set_address(SIOCSIFADDR, "tap0", address) &&
        set_address(SIOCSIFNETMASK, "tap0", "255.255.255.0") && set_up("tap0", true)) {
        return fd;
    }
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

/* --- carrying --- */

static void receive(end_t *end, uint32_t microseconds, uint64_t *random) {
    for (;;) {
        frame_t lost, *frame = &lost;
        if (end->tail - end->head < QUEUE) {
            frame = &end->queue[end->tail % QUEUE];
        }
        ssize_t bytes = read(end->tap, frame->data, MOST_FRAME);
        if (bytes < 2 * MAC) {
            return;
        }
        memcpy(end->mac, frame->data + MAC, MAC);
        frame->bytes = (size_t)bytes;
        frame->due = test_now() + 1e-6 * (double)random_below(random, microseconds + 1);
        frame->due = frame->due > end->last_due ? frame->due : end->last_due;
        if (frame != &lost) {
            end->last_due = frame->due;
            end->tail++;
        }
    }
}

/* To whom it is addressed, or to all if nobody is known by that address. */
static void deliver(end_t *ends, uint32_t n, uint32_t from, const frame_t *frame) {
    uint32_t to = n;
    for (uint32_t h = 0; h < n; h++) {
        to = h != from && memcmp(ends[h].mac, frame->data, MAC) == 0 ? h : to;
    }
    for (uint32_t h = 0; h < n; h++) {
        if (h == to || (to == n && h != from)) {
            /* a full device drops it, as a cable may */
            (void)!write(ends[h].tap, frame->data, frame->bytes);
        }
    }
}

/* Delivers what is due; seconds until the next one is, or 1. */
static double deliver_due(end_t *ends, uint32_t n) {
    double now = test_now(), next = now + 1;
    for (uint32_t h = 0; h < n; h++) {
        end_t *end = &ends[h];
        while (end->head < end->tail && end->queue[end->head % QUEUE].due <= now) {
            deliver(ends, n, h, &end->queue[end->head++ % QUEUE]);
        }
        if (end->head < end->tail && end->queue[end->head % QUEUE].due < next) {
            next = end->queue[end->head % QUEUE].due;
        }
    }
    return next - now;
}

static void carry(end_t *ends, uint32_t n, uint32_t microseconds) {
    struct pollfd polls[MOST_HOSTS];
    uint64_t random = 11;
    for (uint32_t h = 0; h < n; h++) {
        polls[h] = (struct pollfd){.fd = ends[h].tap, .events = POLLIN};
    }
    while (!over) {
        double wait = deliver_due(ends, n);
        struct timespec timeout = {.tv_sec = (time_t)wait,
                                   .tv_nsec = (long)((wait - (double)(time_t)wait) * 1e9)};
        if (ppoll(polls, n, &timeout, NULL) <= 0) {
            continue;
        }
        for (uint32_t h = 0; h < n; h++) {
            receive(&ends[h], microseconds, &random);
        }
    }
}

static _Noreturn void be_carrier(uint32_t n, uint32_t microseconds, int tell) {
    end_t ends[MOST_HOSTS] = {{.tap = -1}};
    bool ok = true;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGTERM, stop);
    signal(SIGINT, SIG_IGN);
    for (uint32_t h = 0; h < n && ok; h++) {
        process_enter_host(h + 1);
        ends[h].queue = must_alloc(QUEUE, sizeof(frame_t));
        ends[h].tap = open_tap(h + 1);
        ok = ends[h].tap >= 0;
    }
    ok = write(tell, ok ? "y" : "n", 1) == 1 && ok;
    close(tell);
    if (ok) {
        carry(ends, n, microseconds);
    }
    for (uint32_t h = 0; h < n; h++) {
        process_enter_host(h + 1);
        set_up("net0", true);
    }
    _exit(0); /* which takes the taps away */
}

bool wire_begin(uint32_t microseconds, const char **why) {
    uint32_t n = processes_hosts(why);
    int told[2];
    char answer = 'n';
    if (n < 2 || n > MOST_HOSTS || pipe(told) != 0) {
        return false;
    }
    fflush(NULL);
    carrier = fork();
    if (carrier == 0) {
        close(told[0]);
        be_carrier(n, microseconds, told[1]);
    }
    close(told[1]);
    bool ok = carrier > 0 && read(told[0], &answer, 1) == 1 && answer == 'y';
    close(told[0]);
    if (!ok) {
        *why = "no tap devices here";
        wire_end();
    }
    return ok;
}

void wire_end(void) {
    if (carrier > 0) {
        kill(carrier, SIGTERM);
        waitpid(carrier, NULL, 0);
    }
    carrier = 0;
}
