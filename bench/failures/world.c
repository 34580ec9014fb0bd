/* world.c: time, links between hosts, and sockets. */
#include "failures.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { FIRST_FD = 1 << 20, WORDS_KIND = 3, HEAD = 8 };
static const uint64_t MS = 1000000, SECOND = 1000000000;

uint64_t sim_now;
sim_process_t *sim_self;
uint64_t sim_last_loss;

static void *must(void *memory) {
    if (!memory) {
        fprintf(stderr, "no memory\n");
        exit(2);
    }
    return memory;
}

/* --- chance ----------------------------------------------------------------------------------- */

static uint64_t chance;

uint64_t sim_random(void) { /* splitmix64 */
    uint64_t x = chance += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

uint64_t sim_below(uint64_t end) {
    return sim_random() % end;
}

/* --- events ----------------------------------------------------------------------------------- */

typedef struct event {
    uint64_t at, order;
    void (*what)(void *arg, uint64_t number);
    void *arg;
    uint64_t number;
} event_t;

static event_t *heap;
static size_t n_events, room;
static uint64_t order;

static bool is_before(const event_t *a, const event_t *b) {
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void swap(size_t a, size_t b) {
    event_t between = heap[a];
    heap[a] = heap[b];
    heap[b] = between;
}

void sim_at(uint64_t ns, void (*what)(void *arg, uint64_t number), void *arg, uint64_t number) {
    if (n_events == room) {
        room = room ? 2 * room : 1024;
        heap = must(realloc(heap, room * sizeof(*heap)));
    }
    size_t i = n_events++;
    heap[i] = (event_t){ns, order++, what, arg, number};
    for (; i && is_before(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2) {
        swap(i, (i - 1) / 2);
    }
}

static event_t pop(void) {
    event_t first = heap[0];
    heap[0] = heap[--n_events];
    for (size_t i = 0;;) {
        size_t least = 2 * i + 1;
        if (least >= n_events) {
            break;
        }
        least += least + 1 < n_events && is_before(&heap[least + 1], &heap[least]);
        if (!is_before(&heap[least], &heap[i])) {
            break;
        }
        swap(i, least);
        i = least;
    }
    return first;
}

void sim_run_until(uint64_t ns) {
    while (n_events && heap[0].at <= ns) {
        event_t event = pop();
        sim_now = event.at;
        event.what(event.arg, event.number);
    }
    sim_now = ns;
}

uint64_t hd_clock_ns(void) {
    return sim_now;
}

/* --- sockets ---------------------------------------------------------------------------------- */

typedef struct bytes {
    uint8_t *at;
    size_t n, room;
} bytes_t;

/* An end of a connection, or a listener. */
typedef struct end {
    bool used, listens, connects, closed; /* closed: by its process */
    bool told_fin, got_fin, moving;
    int error;
    uint32_t fd, peer, next; /* next: of the process's; or in the list of free ones. 0: none */
    uint32_t backlog, next_waiting; /* of a listener: who waits */
    uint64_t serial;                /* of its use: events for earlier ones are void */
    uint64_t unacknowledged;        /* ns: since when; 0: all is */
    uint64_t silent_since;          /* ns: a sign of the other end last came; 0: they come */
    sim_process_t *process;
    uint32_t host, other_host, events; /* other_host: of the other end's */
    void *data;                        /* epoll's */
    bytes_t in, out;
} end_t;

static end_t **ends; /* by their numbers, from 1 */
static uint32_t n_ends, n_room, free_ends;
static uint64_t serials;
static uint8_t down[MOST_HOSTS][MOST_HOSTS];

static end_t *at(uint32_t number) {
    return number ? ends[number] : NULL;
}

static end_t *of_fd(int fd) {
    return fd >= FIRST_FD && (uint32_t)(fd - FIRST_FD) <= n_ends ? at((uint32_t)(fd - FIRST_FD))
                                                                 : NULL;
}

static uint32_t make_end(sim_process_t *process) {
    uint32_t number = free_ends;
    if (number) {
        free_ends = ends[number]->next;
    } else {
        if (n_ends + 2 > n_room) {
            n_room = n_room ? 2 * n_room : 1024;
            ends = must(realloc(ends, n_room * sizeof(end_t *)));
        }
        number = ++n_ends;
        ends[number] = must(calloc(1, sizeof(end_t)));
    }
    end_t *end = ends[number];
    bytes_t in = end->in, out = end->out;
    in.n = out.n = 0;
    *end = (end_t){.used = true,
                   .fd = number,
                   .serial = ++serials,
                   .process = process,
                   .in = in,
                   .out = out,
                   .host = process->host,
                   .next = process->first_fd};
    process->first_fd = number;
    return number;
}

static void free_end(end_t *end) {
    uint32_t *at_it = &end->process->first_fd;
    while (*at_it != end->fd) {
        at_it = &ends[*at_it]->next;
    }
    *at_it = end->next;
    end->used = false;
    end->serial = 0;
    end->next = free_ends;
    free_ends = end->fd;
}

static void append(bytes_t *bytes, const uint8_t *more, size_t n) {
    if (bytes->n + n > bytes->room) {
        bytes->room = 2 * (bytes->n + n);
        bytes->at = must(realloc(bytes->at, bytes->room));
    }
    memcpy(bytes->at + bytes->n, more, n);
    bytes->n += n;
}

bool sim_is_up(uint32_t host, uint32_t other) {
    return !down[host][other];
}

static uint64_t latency(const end_t *end) {
    return (end->host == end->other_host ? 20000 : 60000) + sim_below(20000);
}

static void fail(end_t *end, int why) {
    if (end->used && !end->error && !end->closed) {
        end->error = why;
        sim_wake(end->process);
    }
    end_t *peer = at(end->peer);
    if (peer && peer->peer == end->fd) {
        peer->peer = 0; /* what it sends from now on is refused */
    }
    end->peer = 0;
}

static void time_out(void *arg, uint64_t serial) {
    end_t *end = arg;
    if (end->serial != serial || end->error || sim_is_up(end->host, end->other_host)) {
        return;
    }
    uint64_t due = end->unacknowledged + 4 * SECOND;
    if (end->unacknowledged && sim_now < due) {
        sim_at(due, time_out, end, serial);
        return;
    }
    end_t *other = at(end->peer);
    fail(end, ETIMEDOUT);
    if (end->closed) {
        free_end(end);
    }
    if (other && other->closed) {
        free_end(other);
    }
}

/* The other end's kernel knows nothing of it any more. */
static void reset(void *arg, uint64_t serial) {
    end_t *end = arg;
    if (end->serial == serial && !end->peer) {
        fail(end, ECONNRESET);
    }
}

static void move(void *arg, uint64_t serial);

static void begin_move(end_t *end) {
    if (!end->moving && !end->connects) {
        end->moving = true;
        sim_at(sim_now + latency(end), move, end, end->serial);
    }
}

/* What was sent has come. */
static void move(void *arg, uint64_t serial) {
    end_t *end = arg, *peer = at(end->peer);
    if (end->serial != serial) {
        return;
    }
    end->moving = false;
    if (!sim_is_up(end->host, end->other_host)) {
        if (!end->unacknowledged) {
            end->unacknowledged = sim_now;
            sim_at(sim_now + 4 * SECOND, time_out, end, serial);
        }
        return;
    }
    end->unacknowledged = end->silent_since = 0;
    if (!peer) {
        reset(end, serial);
        return;
    }
    peer->silent_since = 0;
    if (peer->closed && end->out.n) { /* nobody takes it */
        end->out.n = 0;
        fail(end, ECONNRESET);
        return;
    }
    append(&peer->in, end->out.at, end->out.n);
    end->out.n = 0;
    bool fin = end->closed && !peer->got_fin;
    peer->got_fin = peer->got_fin || end->closed || end->told_fin;
    if (!peer->closed) {
        sim_wake(peer->process);
    }
    if (fin && peer->closed) {
        end->peer = peer->peer = 0;
        free_end(peer);
        free_end(end);
    } else if (fin) {
        peer->peer = 0;
        free_end(end);
    }
}

static void close_end(end_t *end) {
    if (end->closed) {
        return;
    }
    end_t *peer = at(end->peer);
    end->closed = true;
    if (end->listens || !peer || end->connects) {
        if (peer) {
            peer->peer = 0;
        }
        free_end(end);
    } else if (end->in.n && sim_is_up(end->host, peer->host)) { /* unread: a reset */
        fail(peer, ECONNRESET);
        free_end(end);
    } else {
        begin_move(end);
    }
}

void sim_set_link(uint32_t host, uint32_t other, bool up) {
    if (sim_is_up(host, other) == up || host == other) {
        return;
    }
    down[host][other] = down[other][host] = !up;
    for (uint32_t i = 1; i <= n_ends; i++) {
        end_t *end = ends[i], *peer = at(end->peer);
        bool over = end->used && !end->listens && !end->connects &&
                    ((end->host == host && end->other_host == other) ||
                     (end->host == other && end->other_host == host));
        if (over && up && !peer) {
            sim_at(sim_now + sim_below(SECOND), reset, end, end->serial);
        } else if (over && up && !end->moving) { /* it is sent again */
            end->moving = true;
            sim_at(sim_now + sim_below(400 * MS), move, end, end->serial);
        } else if (over && !up && peer && end->fd < peer->fd) {
            uint64_t last = sim_now - sim_below(SECOND); /* when something last came to both */
            end->silent_since = peer->silent_since = last;
            sim_at(last + 4 * SECOND + sim_below(4 * MS), time_out, end, end->serial);
            sim_at(last + 4 * SECOND + sim_below(4 * MS), time_out, peer, peer->serial);
        }
    }
}

void sim_kill(sim_process_t *process, bool silently) {
    process->dead = true;
    for (uint32_t i = process->first_fd, next; i; i = next) {
        next = ends[i]->next;
        if (!silently) {
            close_end(ends[i]);
        }
    }
}

void sim_reset(uint64_t seed) {
    chance = seed * UINT64_C(0xD1342543DE82EF95);
    n_events = 0;
    order = sim_now = sim_last_loss = 0;
    sim_now = 1000 * SECOND;
    memset(down, 0, sizeof(down));
    for (uint32_t i = 1; i <= n_ends; i++) { /* no trace of earlier runs: a seed is a run */
        free(ends[i]->in.at);
        free(ends[i]->out.at);
        free(ends[i]);
    }
    n_ends = free_ends = 0;
    serials = 0;
}

/* --- connecting ------------------------------------------------------------------------------- */

/* The SYN has come, or comes again after a second. */
static void arrive(void *arg, uint64_t serial) {
    end_t *end = arg;
    const uint32_t to = end->backlog; /* of one that connects: the other process */
    if (end->serial != serial || end->error) {
        return;
    }
    sim_process_t *other = &sim_process[to];
    if (!sim_is_up(end->host, other->host)) {
        sim_at(sim_now + SECOND, arrive, end, serial);
        return;
    }
    uint32_t listening = other->listener[other->host != end->host];
    if (other->dead || !listening) {
        end->connects = false;
        fail(end, ECONNREFUSED);
        return;
    }
    uint32_t fd = make_end(other);
    end_t *accepted = ends[fd], *listener = ends[listening];
    accepted->other_host = end->host;
    end->other_host = other->host;
    accepted->peer = end->fd;
    end->peer = fd;
    end->connects = false;
    uint32_t *last = &listener->backlog;
    while (*last) {
        last = &ends[*last]->next_waiting;
    }
    *last = fd;
    sim_wake(other);
    sim_wake(end->process);
}

int hd_watch_connect(const hd_watch_record_t *record, uint64_t host, uint32_t *attempt) {
    if ((*attempt)++) {
        errno = 0;
        return -1;
    }
    uint32_t to;
    memcpy(&to, record->line[0].bytes, sizeof(to));
    if (record->host == host && sim_process[to].dead) {
        errno = ECONNREFUSED;
        return -1;
    }
    uint32_t fd = make_end(sim_self);
    ends[fd]->connects = true;
    ends[fd]->backlog = to;
    sim_at(sim_now + 60000 + sim_below(20000), arrive, ends[fd], ends[fd]->serial);
    return FIRST_FD + (int)fd;
}

int hd_watch_bind(bool wide, uint16_t *port) {
    uint32_t fd = make_end(sim_self);
    ends[fd]->listens = true;
    if (!wide) {
        sim_self->listener[0] = fd;
    }
    *port = 1;
    return FIRST_FD + (int)fd;
}

bool hd_watch_listen(int fd) {
    sim_self->listener[1] = (uint32_t)(fd - FIRST_FD);
    return true;
}

/* --- what watch.c calls of the system --------------------------------------------------------- */

int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_wait(int epoll, struct epoll_event *event, int n, int ms);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags);
int __wrap_shutdown(int fd, int how);
int __wrap_close(int fd);
int __real_close(int fd);

int __wrap_epoll_create1(int flags) {
    (void)flags;
    return FIRST_FD - 1; /* each process has one: its sockets are all in it */
}

int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
    end_t *end = of_fd(fd);
    (void)epoll;
    end->events = operation == EPOLL_CTL_DEL ? 0 : event->events;
    end->data = operation == EPOLL_CTL_DEL ? NULL : event->data.ptr;
    return 0;
}

static uint32_t ready(const end_t *end) {
    bool reads = end->error || (end->listens ? end->backlog != 0 : end->in.n || end->got_fin);
    bool writes = !end->connects && !end->listens;
    return ((reads ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u)) & end->events;
}

int __wrap_epoll_wait(int epoll, struct epoll_event *event, int n, int ms) {
    int found = 0;
    (void)epoll, (void)ms;
    for (uint32_t i = sim_self->first_fd; i && found < n; i = ends[i]->next) {
        uint32_t events = ends[i]->closed || !ends[i]->data ? 0 : ready(ends[i]);
        if (events) {
            event[found++] = (struct epoll_event){.events = events, .data.ptr = ends[i]->data};
        }
    }
    return found;
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags) {
    end_t *listener = of_fd(fd);
    (void)address, (void)bytes, (void)flags;
    uint32_t first = listener->backlog;
    if (!first) {
        errno = EAGAIN;
        return -1;
    }
    listener->backlog = ends[first]->next_waiting;
    ends[first]->next_waiting = 0;
    return FIRST_FD + (int)first;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes) {
    (void)level, (void)name, (void)bytes;
    *(int *)value = of_fd(fd)->error;
    return 0;
}

static void count_words(sim_process_t *process, const uint8_t *bytes, size_t n) {
    while (n >= HEAD) {
        uint32_t length;
        memcpy(&length, bytes + 4, sizeof(length));
        process->words_sent += bytes[2] == WORDS_KIND;
        bytes += HEAD + length;
        n -= HEAD + length;
    }
}

ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags) {
    end_t *end = of_fd(fd);
    (void)flags;
    if (end->error || (!end->peer && end->got_fin)) {
        errno = end->error ? end->error : EPIPE;
        return -1;
    }
    count_words(end->process, bytes, n);
    append(&end->out, bytes, n);
    begin_move(end);
    return (ssize_t)n;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags) {
    end_t *end = of_fd(fd);
    (void)flags;
    size_t k = end->in.n < n ? end->in.n : n;
    if (end->error && (k == 0 || end->error == ECONNRESET)) {
        errno = end->error;
        return -1;
    }
    if (k == 0 && !end->got_fin) {
        errno = EAGAIN;
        return -1;
    }
    memcpy(bytes, end->in.at, k);
    end->in.n -= k;
    memmove(end->in.at, end->in.at + k, end->in.n);
    return (ssize_t)k;
}

int __wrap_shutdown(int fd, int how) {
    (void)how;
    of_fd(fd)->told_fin = true;
    begin_move(of_fd(fd));
    return 0;
}

int __wrap_close(int fd) {
    end_t *end = of_fd(fd);
    if (fd < FIRST_FD - 1) {
        return __real_close(fd);
    }
    if (end) {
        close_end(end);
    }
    return 0;
}

bool hd_watch_is_ours(const hd_watch_record_t *record, int fd) {
    (void)record, (void)fd;
    return true;
}

/* All processes of a host have its one address. */
uint32_t hd_watch_attempt_from(const hd_watch_record_t *record, int fd) {
    const end_t *end = of_fd(fd);
    return end->host != end->other_host && record->host == end->other_host + 1;
}

void hd_watch_abort(int fd) {
    end_t *end = of_fd(fd), *peer = at(end->peer);
    if (peer && sim_is_up(end->host, end->other_host)) {
        fail(peer, ECONNRESET);
    } else if (peer) {
        peer->peer = 0; /* what it sends from now on is refused */
    }
    end->peer = 0;
    if (peer && peer->closed) {
        free_end(peer);
    }
}

double hd_watch_silence(int fd) {
    const end_t *end = of_fd(fd);
    return end->silent_since ? (double)(sim_now - end->silent_since) * 1e-9 : 0;
}

bool hd_watch_has_ceased(int fd, double seconds) {
    return hd_watch_silence(fd) > seconds;
}
