/* peer.c: other processes, and the one line to each, while it is used (internal.h). */
#include "node/internal.h"

#include "core/debug.h"
#include "core/descriptors.h"
#include "core/log.h"
#include "core/mem.h"
#include "threads/clock.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MILLISECOND = 1000 * 1000, MORE_DESCRIPTORS = 4 };

/* ns. crowd: until that process has accepted some of those that wait to be. patience: until who
 * should be connected to by the peer connects itself: of two of which one has died before, or has
 * closed its door, the other must notice. */
static const uint64_t crowd = 5 * MILLISECOND, patience = 100 * MILLISECOND;

hd_node_peer_t *hd_node_peer_find(hd_node_t *node, const uint64_t door[2]) {
    hd_node_peer_t *peer = node->peers;
    while (peer && !hd_node_is_same(peer->door, door)) {
        peer = peer->next;
    }
    return peer;
}

hd_node_peer_t *hd_node_peer_make(hd_node_t *node, const uint64_t door[2]) {
    hd_node_peer_t *peer = hd_alloc(64, sizeof(*peer));
    if (!peer) {
        return NULL;
    }
    peer->node = node;
    memcpy(peer->door, door, sizeof(peer->door));
    peer->next = node->peers;
    node->peers = peer;
    return peer;
}

static void free_peer(hd_node_peer_t *peer) {
    hd_node_peer_t **at = &peer->node->peers;
    hd_assert(!peer->requests && !peer->fetches);
    while (*at != peer) {
        at = &(*at)->next;
    }
    *at = peer->next;
    hd_free(peer);
}

hd_node_state_t hd_node_peer_state(const hd_node_peer_t *peer) {
    /* acquire: pairs with fail: who sees a failure sees what the peer has left */
    return (hd_node_state_t)atomic_load_explicit(&peer->state, memory_order_acquire);
}

bool hd_node_peer_has_answered(const hd_node_peer_t *peer) {
    hd_node_lock();
    bool has = peer->line && peer->line->stage == HD_NODE_AT_OPEN;
    hd_node_unlock();
    return has;
}

uint32_t hd_node_peer_pid(const hd_node_peer_t *peer) {
    hd_node_lock();
    uint32_t pid = peer->pid ? peer->pid : peer->line ? peer->line->pid : 0;
    hd_node_unlock();
    return pid;
}

bool hd_node_peer_has_failed(const hd_node_peer_t *peer) {
    return hd_node_peer_state(peer) >= HD_NODE_FIRST_FAILURE;
}

static void set_state(hd_node_peer_t *peer, hd_node_state_t state) {
    /* release: publishes what has come from the peer before */
    atomic_store_explicit(&peer->state, (uint32_t)state, memory_order_release);
}

/* Those of its fetches that are pending. */
static void fail_fetches(hd_node_peer_t *peer, hd_node_state_t why) {
    for (hd_node_fetch_t *fetch = peer->fetches; fetch; fetch = fetch->next) {
        uint32_t pending = HD_NODE_PENDING;
        /* relaxed, both: the state is all there is to read, and changes under the lock */
        atomic_compare_exchange_strong_explicit(&fetch->state, &pending, (uint32_t)why,
                                                memory_order_relaxed, memory_order_relaxed);
    }
}

/* No line is open. */
static void set_unconnected(hd_node_peer_t *peer) {
    set_state(peer, peer->life ? HD_NODE_DONE : HD_NODE_PENDING);
}

void hd_node_peer_fail(hd_node_peer_t *peer, hd_node_state_t why) {
    if (peer->line) {
        hd_node_line_close(peer->node, peer->line);
    }
    if (peer->life) {
        hd_node_line_close(peer->node, peer->life);
    }
    peer->due = 0;
    set_state(peer, why);
    /* release: who sees the count sees the state */
    atomic_fetch_add_explicit(&peer->node->losses, 1, memory_order_release);
}

void hd_node_peer_no_line(hd_node_peer_t *peer, hd_node_state_t why) {
    if (!peer->life) {
        hd_node_peer_fail(peer, why);
        return;
    }
    if (peer->line) {
        hd_node_line_close(peer->node, peer->line);
    }
    peer->due = 0;
    peer->tries = 0; /* the next fetch tries anew */
    fail_fetches(peer, why);
}

void hd_node_peer_again(hd_node_peer_t *peer, uint64_t after) {
    set_unconnected(peer);
    if (peer->uses > 0) {
        peer->due = hd_clock_ns() + after;
        hd_node_ring_at(peer->node, peer->due);
    }
}

/* --- connecting ------------------------------------------------------------------------------- */

static int make_socket(void) {
    const int type = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
    int fd = socket(AF_UNIX, type, 0);
    if (fd < 0 && errno == EMFILE && hd_descriptors_reserve(MORE_DESCRIPTORS)) {
        fd = socket(AF_UNIX, type, 0);
    }
    return fd;
}

/* Of a socket of this kind, connect() does not wait: it is done, refused, or to be tried again. */
static int dial(const uint64_t door[2]) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    uint32_t n = hd_node_door_name(door, at.sun_path);
    int fd = make_socket();
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&at,
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) != 0) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

static void no_way(hd_node_peer_t *peer, int why) {
    hd_node_state_t state = HD_NODE_FORBIDDEN;
    switch (why) {
    case EAGAIN:
    case EINTR:
        hd_node_peer_again(peer, crowd);
        return;
    case ECONNREFUSED:
        if (hd_node_is_at(&peer->node->address)) {
            hd_node_peer_fail(peer, HD_NODE_ABSENT);
            return;
        }
        break;
    case EMFILE:
    case ENFILE:
        state = HD_NODE_NO_DESCRIPTOR;
        break;
    case ENOMEM:
    case ENOBUFS:
        state = HD_NODE_NO_MEMORY;
        break;
    default:
        break;
    }
    hd_info("no connection to process %u of this machine: %s", peer->pid, strerror(why));
    hd_node_peer_no_line(peer, state);
}

void hd_node_peer_connect(hd_node_peer_t *peer) {
    hd_node_t *node = peer->node;
    hd_node_message_t hello = hd_node_write(HD_NODE_HELLO);
    peer->due = 0;
    int fd = dial(peer->door);
    if (fd < 0) {
        no_way(peer, errno);
        return;
    }
    hd_node_line_t *line = hd_node_line_add(node, fd, false);
    if (!line) {
        no_way(peer, ENOMEM);
        return;
    }
    if (line->uid != node->address.uid) { /* before it hears the secret */
        hd_info("behind the door of process %u is process %u of user %u, not of user %u", peer->pid,
                line->pid, line->uid, node->address.uid);
        hd_node_line_close(node, line);
        hd_node_peer_no_line(peer, HD_NODE_FOREIGN);
        return;
    }
    hello.word = node->layout;
    memcpy(hello.name, peer->door, sizeof(hello.name));
    memcpy(hello.from, node->address.door, sizeof(hello.from));
    if (!hd_node_line_send(node, line, &hello, -1)) {
        hd_node_line_close(node, line);
        hd_node_peer_again(peer, crowd);
        return;
    }
    line->tells = true;
    line->peer = peer;
    peer->line = line;
}

hd_node_peer_t *hd_node_peer_hold(hd_node_t *node, const uint64_t door[2]) {
    hd_node_peer_t *peer = hd_node_peer_find(node, door);
    peer = peer ? peer : hd_node_peer_make(node, door);
    if (peer) {
        peer->uses++;
    }
    return peer;
}

void hd_node_peer_want_line(hd_node_peer_t *peer, bool connects) {
    if (peer->line || hd_node_peer_has_failed(peer)) {
        return;
    }
    if (connects) {
        hd_node_peer_connect(peer);
    } else if (peer->due == 0) {
        hd_node_peer_again(peer, patience);
    }
}

hd_node_peer_t *hd_node_peer_use(hd_node_t *node, const uint64_t door[2], bool connects) {
    hd_node_peer_t *peer = hd_node_peer_hold(node, door);
    if (peer) {
        hd_node_peer_want_line(peer, connects);
    }
    return peer;
}

/* False: it can't be had. */
static bool add_life(hd_node_peer_t *peer, uint32_t pid) {
    peer->life = hd_node_line_add_life(peer->node, pid);
    if (peer->life) {
        peer->life->peer = peer;
        set_unconnected(peer);
    } else if (errno == ESRCH) {
        hd_node_peer_fail(peer, HD_NODE_ABSENT);
    } else {
        return false;
    }
    return true;
}

hd_node_peer_t *hd_node_peer_watch(hd_node_t *node, const uint64_t door[2], uint32_t pid,
                                   bool connects) {
    hd_node_peer_t *peer = hd_node_peer_hold(node, door);
    if (!peer || peer->life || hd_node_peer_has_failed(peer)) {
        return peer;
    }
    errno = 0;
    if (pid == 0 || !add_life(peer, pid)) { /* out of descriptors: the other one may have a life */
        hd_node_peer_want_line(peer, connects || errno == EMFILE);
    }
    return peer;
}

/* --- using ------------------------------------------------------------------------------------ */

void hd_node_peer_open(hd_node_peer_t *peer, bool holds) {
    peer->line->stage = HD_NODE_AT_OPEN;
    peer->line->due = 0;
    peer->line->is_told = holds;
    peer->due = 0;
    peer->tries = 0;
    peer->pid = peer->pid ? peer->pid : peer->line->pid;
    set_state(peer, HD_NODE_DONE);
}

void hd_node_peer_rest(hd_node_peer_t *peer) {
    peer->due = 0;
    set_unconnected(peer);
}

bool hd_node_peer_end_line(hd_node_peer_t *peer, hd_node_bye_t why) {
    hd_node_message_t bye = hd_node_write(HD_NODE_BYE);
    bye.code = why;
    bool said = hd_node_line_send(peer->node, peer->line, &bye, -1);
    if (said) {
        hd_node_line_close(peer->node, peer->line);
        set_unconnected(peer);
    }
    return said;
}

void hd_node_peer_settle(hd_node_peer_t *peer) {
    hd_node_line_t *line = peer->line;
    bool holds = peer->uses > 0, open = line && line->stage == HD_NODE_AT_OPEN;
    if (open && !line->accepted && !holds && !line->is_told && !peer->requests) {
        /* begun by this process, and nobody holds it */
        (void)hd_node_peer_end_line(peer, HD_NODE_NOT_HELD);
    } else if (open && line->tells != holds) {
        hd_node_message_t says = hd_node_write(holds ? HD_NODE_HOLD : HD_NODE_RELEASE);
        line->tells = hd_node_line_send(peer->node, line, &says, -1) ? holds : line->tells;
    }
    if (!holds && peer->life) {
        hd_node_line_close(peer->node, peer->life);
    }
    if (!holds && !peer->line) {
        free_peer(peer);
    }
}

void hd_node_peer_drop(hd_node_peer_t *peer) {
    peer->uses--;
    hd_node_peer_settle(peer);
}

void hd_node_peer_remove_request(hd_node_peer_t *peer, hd_node_request_t **at) {
    hd_node_request_t *request = *at;
    *at = request->next;
    peer->n_requests--;
    peer->node->n_requests--;
    hd_free(request);
}

static ucc_status_t meet(hd_node_t *node, const hd_node_address_t *address, uint32_t pid,
                         bool connects, hd_node_peer_t **peer) {
    *peer = NULL;
    if (node->inherited || !hd_node_may_reach(&node->address, address) ||
        hd_node_is_same(address->door, node->address.door)) {
        hd_warn("process %u is none that this process can meet", address->pid);
        return UCC_ERR_INVALID_PARAM;
    }
    hd_node_lock();
    *peer = hd_node_peer_watch(node, address->door, pid, connects);
    if (*peer) {
        (*peer)->pid = address->pid;
        hd_node_peer_settle(*peer); /* a line that it has made is held from now on */
    }
    hd_node_unlock();
    if (!*peer) {
        hd_warn("no memory to meet process %u", address->pid);
        return UCC_ERR_NO_MEMORY;
    }
    return UCC_OK;
}

ucc_status_t hd_node_meet(hd_node_t *node, const hd_node_address_t *address, bool connects,
                          hd_node_peer_t **peer) {
    return meet(node, address, 0, connects, peer);
}

ucc_status_t hd_node_watch(hd_node_t *node, const hd_node_address_t *address, bool connects,
                           hd_node_peer_t **peer) {
    return meet(node, address, address->pid, connects, peer);
}

void hd_node_part(hd_node_peer_t *peer) {
    hd_node_lock();
    hd_node_peer_drop(peer);
    hd_node_unlock();
}

uint32_t hd_node_losses(const hd_node_t *node) {
    /* acquire: pairs with fail */
    return atomic_load_explicit(&node->losses, memory_order_acquire);
}
