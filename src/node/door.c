/* door.c: the socket by which others come, and what is said before a line is open (internal.h). A
 * line is a stranger's until it has named the door. Strangers of other users are closed unheard;
 * those of this user are few at once and have little time, and what they say has no effect but a
 * line in the log.
 */
#include "node/internal.h"

#include "core/descriptors.h"
#include "core/log.h"
#include "threads/clock.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

enum { MILLISECOND = 1000 * 1000, READS_AT_ONCE = 16, MORE_DESCRIPTORS = 16, MOST_TRIES = 6 };

/* ns. greeting: a stranger's time. young: those are not dropped for others: a process needs less
 * between connecting and its HELLO. deaf: until descriptors are asked for again. */
static const uint64_t greeting = UINT64_C(2000) * MILLISECOND, young = 250 * MILLISECOND,
                      deaf = UINT64_C(1000) * MILLISECOND, soon = MILLISECOND,
                      crossing = 10 * MILLISECOND;

/* --- opening ---------------------------------------------------------------------------------- */

static bool await(const hd_node_t *node, int fd, const int *which) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = (void *)(uintptr_t)which};
    return epoll_ctl(node->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool listen_at(const hd_node_t *node) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    uint32_t n = hd_node_door_name(node->address.door, at.sun_path);
    return bind(node->listener, (const struct sockaddr *)&at,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) == 0 &&
           listen(node->listener, SOMAXCONN) == 0;
}

static ucc_status_t status_of(int error) {
    bool is_out = error == EMFILE || error == ENFILE || error == ENOSPC;
    bool no_memory = error == ENOMEM || error == ENOBUFS;
    return is_out ? UCC_ERR_NO_RESOURCE : no_memory ? UCC_ERR_NO_MEMORY : UCC_ERR_NOT_SUPPORTED;
}

ucc_status_t hd_node_door_open(hd_node_t *node, const uint64_t door[2]) {
    ucc_status_t status = hd_node_find_address(&node->address, door);
    if (status != UCC_OK) {
        return status;
    }
    (void)hd_descriptors_reserve(MORE_DESCRIPTORS);
    const char *what = "epoll";
    node->epoll = epoll_create1(EPOLL_CLOEXEC);
    bool fine = node->epoll >= 0;
    if (fine) {
        what = "timer";
        node->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        fine = node->timer >= 0 && await(node, node->timer, &node->timer);
    }
    if (fine) {
        what = "abstract socket";
        node->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        fine =
            node->listener >= 0 && listen_at(node) && await(node, node->listener, &node->listener);
    }
    if (fine) {
        what = "spare descriptor";
        fine = hd_node_line_keep_spare(node);
    }
    if (!fine) {
        status = status_of(errno);
        hd_info("no door for processes of this machine: %s: %s", what, strerror(errno));
    }
    return status;
}

/* --- accepting -------------------------------------------------------------------------------- */

/* Nobody is accepted for so long: who sleeps until somebody comes is not woken meanwhile. */
static void be_deaf(hd_node_t *node, uint64_t for_ns) {
    struct epoll_event event = {.events = 0, .data.ptr = &node->listener};
    (void)epoll_ctl(node->epoll, EPOLL_CTL_MOD, node->listener, &event);
    node->deaf_until = hd_clock_ns() + for_ns;
    hd_node_ring_at(node, node->deaf_until);
}

static void hear_again(hd_node_t *node) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &node->listener};
    node->deaf_until = 0;
    (void)epoll_ctl(node->epoll, EPOLL_CTL_MOD, node->listener, &event);
}

/* False: there is none that may be dropped. */
static bool drop_oldest_stranger(hd_node_t *node) {
    hd_node_line_t *oldest = NULL;
    for (hd_node_line_t *line = node->lines; line; line = line->next) {
        if (line->stage == HD_NODE_AT_HELLO && (!oldest || line->due < oldest->due)) {
            oldest = line;
        }
    }
    if (!oldest || oldest->due > hd_clock_ns() + greeting - young) {
        return false;
    }
    hd_node_line_close(node, oldest);
    return true;
}

/* False: there is none. */
static bool give_spare(hd_node_t *node) {
    bool has = node->spare >= 0;
    if (has) {
        close(node->spare);
        node->spare = -1;
    }
    return has;
}

/* Is there a line that may be spared soon? */
static bool has_line(const hd_node_t *node) {
    const hd_node_line_t *line = node->lines;
    while (line && (line->is_life || line->fd < 0)) {
        line = line->next;
    }
    return line;
}

/* Where the spare one has gone, a line is that is needed once: so all who come get in in turn. */
static void no_descriptor(hd_node_t *node, int why) {
    if ((why == EMFILE && hd_descriptors_reserve(MORE_DESCRIPTORS)) || drop_oldest_stranger(node) ||
        give_spare(node) || hd_node_share_spare_line(node)) {
        return; /* they can be had at the next look */
    }
    if (!node->told_deaf) {
        node->told_deaf = true;
        hd_warn("no descriptor for a process that connects to this one: %s", strerror(why));
    }
    be_deaf(node, has_line(node) ? crossing : deaf);
}

/* False: there is nobody more to accept, now. */
static bool accept_one(hd_node_t *node) {
    if (node->strangers >= HD_NODE_STRANGERS && !drop_oldest_stranger(node)) {
        be_deaf(node, young);
        return false;
    }
    int fd = accept4(node->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            no_descriptor(node, errno);
        }
        return errno == EINTR || errno == ECONNABORTED;
    }
    hd_node_line_t *line = hd_node_line_add(node, fd, true);
    if (!line) {
        be_deaf(node, deaf);
        return false;
    }
    if (line->uid != node->address.uid) {
        if (!node->told_foreign) {
            node->told_foreign = true;
            hd_warn("a connection of process %u of user %u is closed: this process is user %u's",
                    line->pid, line->uid, node->address.uid);
        }
        hd_node_line_close(node, line);
        return true;
    }
    line->due = hd_clock_ns() + greeting;
    hd_node_ring_at(node, line->due);
    hd_node_door_serve(node, line, EPOLLIN); /* its HELLO is there, mostly */
    return true;
}

void hd_node_door_accept(hd_node_t *node) {
    for (int i = 0; i < HD_NODE_STRANGERS && accept_one(node); i++) { /* others come later */
    }
}

/* --- greeting --------------------------------------------------------------------------------- */

static void tell_unlike(hd_node_t *node, uint32_t pid, const hd_node_message_t *theirs) {
    if (theirs->version != HD_NODE_VERSION) {
        hd_warn("no shared memory with process %u: it has version %u of the protocol, this "
                "process version %u",
                pid, theirs->version, (unsigned)HD_NODE_VERSION);
    } else {
        hd_warn("no shared memory with process %u: its layout is %#llx, that of this process %#llx",
                pid, (unsigned long long)theirs->word, (unsigned long long)node->layout);
    }
}

static bool send_verdict(hd_node_t *node, hd_node_line_t *line, hd_node_verdict_t code,
                         bool holds) {
    hd_node_message_t verdict = hd_node_write(HD_NODE_VERDICT);
    verdict.code = code;
    verdict.holds = holds;
    verdict.word = node->layout;
    return hd_node_line_send(node, line, &verdict, -1);
}

/* Two may connect to each other at once: the line of the one whose door is less stays. A line that
 * is open may have ended meanwhile: it is looked at first. True: the new one is to stay. */
static bool is_welcome(hd_node_t *node, const uint64_t from[2]) {
    hd_node_peer_t *peer = hd_node_peer_find(node, from);
    hd_node_line_t *line = peer ? peer->line : NULL;
    if (line && line->stage == HD_NODE_AT_OPEN) {
        hd_node_door_serve(node, line, EPOLLIN);
        return line->fd < 0;
    }
    if (line) {
        const uint64_t *mine = node->address.door;
        bool stays = mine[0] != from[0] ? mine[0] < from[0] : mine[1] < from[1];
        if (!stays) {
            hd_node_line_close(node, line);
        }
        return !stays;
    }
    return true;
}

/* A stranger knows the door: its line becomes a peer's, or is closed by the caller (false). */
static bool let_in(hd_node_t *node, hd_node_line_t *line, const hd_node_message_t *m) {
    if (m->version != HD_NODE_VERSION || m->word != node->layout) {
        if (!node->told_unlike) {
            node->told_unlike = true;
            tell_unlike(node, line->pid, m);
        }
        (void)send_verdict(
            node, line,
            m->version != HD_NODE_VERSION ? HD_NODE_OTHER_VERSION : HD_NODE_OTHER_LAYOUT, false);
        return false;
    }
    if (!is_welcome(node, m->from)) {
        (void)send_verdict(node, line, HD_NODE_CROSSED, false);
        return false;
    }
    hd_node_peer_t *peer = hd_node_peer_find(node, m->from);
    peer = peer ? peer : hd_node_peer_make(node, m->from);
    if (!peer) {
        (void)send_verdict(node, line, HD_NODE_STARVED, false);
        return false;
    }
    if (hd_node_peer_has_failed(peer)) {
        return false; /* who has died does not come back */
    }
    bool holds = peer->uses > 0;
    if (!send_verdict(node, line, HD_NODE_WELCOME, holds)) {
        hd_node_peer_again(peer,
                           crossing); /* it has ended meanwhile: a line of ours may be needed */
        hd_node_peer_settle(peer);
        return false;
    }
    node->strangers--;
    line->peer = peer;
    line->tells = holds;
    peer->line = line;
    hd_node_peer_open(peer, true);
    hd_node_share_pump(peer);
    return true;
}

static void take_hello(hd_node_t *node, hd_node_line_t *line, const hd_node_message_t *m) {
    bool knows = hd_node_is_same(m->name, node->address.door) &&
                 !hd_node_is_same(m->from, node->address.door);
    if (!knows && !node->told_secret) {
        node->told_secret = true;
        hd_warn("a connection of process %u is closed: it does not know this process's door",
                line->pid);
    }
    if (!knows || !let_in(node, line, m)) {
        hd_node_line_close(node, line);
    }
}

static void take_verdict(hd_node_t *node, hd_node_line_t *line, const hd_node_message_t *m) {
    hd_node_peer_t *peer = line->peer;
    switch ((hd_node_verdict_t)m->code) {
    case HD_NODE_WELCOME:
        hd_node_peer_open(peer, m->holds);
        hd_node_share_pump(peer);
        return;
    case HD_NODE_CROSSED:
        hd_node_line_close(node, line);
        hd_node_peer_again(peer, crossing); /* the other line comes before */
        hd_node_share_forget(peer);
        return;
    case HD_NODE_STARVED:
        hd_info("process %u has no memory for a connection", line->pid);
        hd_node_peer_no_line(peer, HD_NODE_NO_MEMORY);
        hd_node_share_forget(peer);
        return;
    default:
        tell_unlike(node, line->pid, m);
        hd_node_peer_no_line(peer, HD_NODE_UNLIKE);
        hd_node_share_forget(peer);
        return;
    }
}

/* --- lines that end --------------------------------------------------------------------------- */

/* Its process has died; or, before it has answered, has not let this one in, or had no room. */
static void take_end(hd_node_t *node, hd_node_line_t *line) {
    hd_node_peer_t *peer = line->peer;
    bool was_open = line->stage == HD_NODE_AT_OPEN;
    hd_node_line_close(node, line);
    if (!peer) {
        return;
    }
    if (was_open) {
        hd_node_peer_fail(peer, HD_NODE_DIED);
    } else if (++peer->tries < MOST_TRIES) {
        hd_node_peer_again(peer, soon << 2 * (peer->tries - 1));
    } else {
        hd_info("process %u closes connections before it answers", peer->pid);
        hd_node_peer_no_line(peer, HD_NODE_SPURNED);
    }
    hd_node_share_forget(peer);
}

static void take_bye(hd_node_t *node, hd_node_line_t *line, hd_node_bye_t code) {
    hd_node_peer_t *peer = line->peer;
    bool awaits = hd_node_share_awaits(peer);
    hd_node_line_close(node, line);
    if (code == HD_NODE_LEAVES) {
        hd_node_peer_fail(peer, HD_NODE_LEFT);
    } else if (code == HD_NODE_NOT_HELD) {
        hd_node_peer_again(peer, 0); /* this process has held it a moment too late */
    } else if (awaits || !peer->life) {
        hd_node_peer_again(peer, awaits ? crossing : deaf); /* others first */
    } else {
        hd_node_peer_rest(peer);
    }
    hd_node_share_forget(peer);
}

static void turn_away(hd_node_t *node, hd_node_line_t *line, const char *why) {
    hd_node_peer_t *peer = line->peer;
    if (peer || !node->told_secret) {
        node->told_secret = node->told_secret || !peer;
        hd_warn("a connection with process %u is closed: it %s", line->pid, why);
    }
    hd_node_line_close(node, line);
    if (peer) {
        hd_node_peer_no_line(peer, HD_NODE_SPURNED);
        hd_node_share_forget(peer);
    }
}

/* --- what comes ------------------------------------------------------------------------------- */

/* Takes one message. False: there is none, or the line has ended. */
static bool take(hd_node_t *node, hd_node_line_t *line) {
    hd_node_message_t m;
    const char *why = NULL;
    int fd;
    switch (hd_node_line_receive(line, &m, &fd, &why)) {
    case HD_NODE_LINE_NOTHING:
        return false;
    case HD_NODE_LINE_END:
        take_end(node, line);
        return false;
    case HD_NODE_LINE_BAD:
        turn_away(node, line, why);
        return false;
    case HD_NODE_LINE_MESSAGE:
        break;
    }
    if (m.kind == HD_NODE_HELLO) {
        take_hello(node, line, &m);
    } else if (m.kind == HD_NODE_VERDICT) {
        take_verdict(node, line, &m);
    } else if (m.kind == HD_NODE_BYE) {
        take_bye(node, line, (hd_node_bye_t)m.code);
    } else if ((why = hd_node_share_take(line->peer, &m, fd))) {
        turn_away(node, line, why);
    }
    return line->fd >= 0;
}

/* The process has ended. What it has said before comes first; the line's own end may not come: a
 * child of that process may have a copy of it. */
static void take_death(hd_node_t *node, hd_node_line_t *life) {
    hd_node_peer_t *peer = life->peer;
    peer->uses++;
    for (int i = 0; i < HD_NODE_REQUESTS_OF_ONE && peer->line && take(node, peer->line); i++) {
    }
    if (!hd_node_peer_has_failed(peer)) {
        hd_node_peer_fail(peer, HD_NODE_DIED);
        hd_node_share_forget(peer);
    }
    hd_node_peer_drop(peer);
}

void hd_node_door_serve(hd_node_t *node, hd_node_line_t *line, uint32_t events) {
    if (line->is_life) {
        if (line->fd >= 0) {
            take_death(node, line);
        }
        return;
    }
    if (line->fd >= 0 && (events & EPOLLOUT) && line->blocked) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = line};
        line->blocked = false;
        (void)epoll_ctl(node->epoll, EPOLL_CTL_MOD, line->fd, &event);
    }
    for (int i = 0; i < READS_AT_ONCE && line->fd >= 0 && take(node, line); i++) {
    }
    if (line->fd >= 0 && line->peer) {
        hd_node_share_pump(line->peer);
    }
}

/* --- what is due ------------------------------------------------------------------------------ */

static void tend_lines(hd_node_t *node, uint64_t now) {
    for (hd_node_line_t *line = node->lines; line; line = line->next) {
        if (line->fd < 0 || line->due == 0) {
            continue;
        }
        if (line->due > now) {
            hd_node_ring_at(node, line->due);
        } else if (line->peer) {
            line->due = 0;
            hd_node_share_pump(line->peer);
        } else {
            hd_debug("a connection of process %u is closed: it has said nothing", line->pid);
            hd_node_line_close(node, line);
        }
    }
}

static void tend_peers(hd_node_t *node, uint64_t now) {
    for (hd_node_peer_t *peer = node->peers, *next; peer; peer = next) {
        next = peer->next;
        if (peer->due > now) {
            hd_node_ring_at(node, peer->due);
        } else if (peer->due && !peer->line) {
            hd_node_peer_connect(peer);
            if (hd_node_peer_has_failed(peer)) {
                hd_node_share_forget(peer);
            }
        }
    }
}

void hd_node_door_tend(hd_node_t *node) {
    uint64_t rung, now = hd_clock_ns();
    while (read(node->timer, &rung, sizeof(rung)) > 0) {
    }
    node->rings_at = UINT64_MAX;
    if (node->deaf_until > now) {
        hd_node_ring_at(node, node->deaf_until);
    } else if (node->deaf_until) {
        hear_again(node);
    }
    tend_lines(node, now);
    tend_peers(node, now);
}
