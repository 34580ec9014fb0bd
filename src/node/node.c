/* node.c: a node from its making to its end (node.h). */
#include "node/heap.h"
#include "node/internal.h"

#include "core/debug.h"
#include "core/log.h"
#include "core/mem.h"

#include <stdint.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS = 64 };

static hd_node_t *of_process; /* under the lock, as all nodes are */

const hd_node_address_t *hd_node_address(const hd_node_t *node) {
    return &node->address;
}

int hd_node_fd(const hd_node_t *node) {
    return node->epoll;
}

bool hd_node_progress(hd_node_t *node) {
    struct epoll_event event[EVENTS];
    if (node->inherited || !hd_node_try_lock()) {
        return false;
    }
    int n = epoll_wait(node->epoll, event, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        void *what = event[i].data.ptr;
        if (what == &node->listener) {
            hd_node_door_accept(node);
        } else if (what == &node->timer) {
            hd_node_door_tend(node);
        } else {
            hd_node_door_serve(node, what, event[i].events);
        }
    }
    hd_node_line_free_closed(node);
    hd_node_unlock();
    return n > 0;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void close_descriptors(hd_node_t *node) {
    int *all[] = {&node->listener, &node->timer, &node->epoll, &node->spare};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (*all[i] >= 0) {
            close(*all[i]);
        }
        *all[i] = -1;
    }
}

/* The child of a fork has copies of descriptors: the epoll set and the sockets themselves are its
 * parent's, too, and stay as they are. It holds the lock. */
static void abandon(hd_fork_hook_t *hook) {
    hd_node_t *node = (hd_node_t *)hook;
    node->inherited = true;
    of_process = of_process == node ? NULL : of_process;
    close_descriptors(node);
    for (hd_node_line_t *line = node->lines; line; line = line->next) {
        if (line->fd >= 0) {
            close(line->fd);
            line->fd = -1;
        }
        line->stage = HD_NODE_AT_END;
        line->peer = NULL;
    }
    node->has_closed = true;
    for (hd_node_peer_t *peer = node->peers; peer; peer = peer->next) {
        peer->line = peer->life = NULL;
        peer->due = 0;
        while (peer->requests) {
            hd_node_peer_remove_request(peer, &peer->requests);
        }
        for (hd_node_fetch_t *fetch = peer->fetches; fetch; fetch = fetch->next) {
            hd_segment_close(&fetch->segment);
            /* relaxed: alone */
            atomic_store_explicit(&fetch->state, HD_NODE_INHERITED, memory_order_relaxed);
        }
        if (!hd_node_peer_has_failed(peer)) {
            hd_node_peer_fail(peer, HD_NODE_INHERITED);
        }
    }
    for (hd_node_offer_t *offer = node->offers; offer; offer = offer->next) {
        hd_segment_close(&offer->segment);
    }
}

ucc_status_t hd_node_open(uint64_t layout, const uint64_t door[2], hd_node_t **made) {
    *made = NULL;
    hd_node_t *node = hd_alloc(64, sizeof(*node));
    if (!node) {
        hd_info("no door for processes of this machine: no memory");
        return UCC_ERR_NO_MEMORY;
    }
    node->layout = layout;
    node->epoll = node->listener = node->timer = node->spare = -1;
    node->rings_at = UINT64_MAX;
    hd_heap_adopt();
    hd_fork_guard(hd_node_mutex());
    hd_fork_watch(&node->fork_hook, abandon);
    hd_node_lock();
    ucc_status_t status = hd_node_door_open(node, door);
    hd_node_unlock();
    if (status != UCC_OK) {
        hd_node_close(node);
        return status;
    }
    *made = node;
    return UCC_OK;
}

/* All that know the door hear that it is closed. */
static void say_bye(hd_node_t *node) {
    hd_node_message_t bye = hd_node_write(HD_NODE_BYE);
    bye.code = HD_NODE_LEAVES;
    for (hd_node_line_t *line = node->lines; line; line = line->next) {
        if (line->fd >= 0 && line->peer && !line->is_life) {
            (void)hd_node_line_send(node, line, &bye, -1);
        }
        hd_node_line_close(node, line);
    }
}

void hd_node_close(hd_node_t *node) {
    hd_fork_forget(&node->fork_hook);
    hd_node_lock();
    say_bye(node);
    hd_node_line_free_closed(node);
    for (hd_node_peer_t *peer = node->peers, *next; peer; peer = next) {
        next = peer->next;
        hd_node_share_forget(peer);
    }
    hd_assert(!node->peers && !node->offers);
    close_descriptors(node);
    hd_node_unlock();
    hd_free(node);
}

/* The process's node, once more. NULL: there is none. Under the lock. */
static hd_node_t *enter_open(void) {
    if (of_process) {
        of_process->entered++;
    }
    return of_process;
}

ucc_status_t hd_node_enter(uint64_t layout, const uint64_t door[2], hd_node_t **node) {
    hd_fork_guard(hd_node_mutex());
    hd_node_lock();
    *node = enter_open();
    hd_node_unlock();
    if (*node) {
        return UCC_OK;
    }
    hd_node_t *made;
    ucc_status_t status = hd_node_open(layout, door, &made); /* not under the lock: fork.h */
    if (status != UCC_OK) {
        return status;
    }
    hd_node_lock();
    *node = enter_open(); /* another thread may have been faster */
    if (!*node) {
        of_process = *node = made;
        made->entered = 1;
        made = NULL;
    }
    hd_node_unlock();
    if (made) {
        hd_node_close(made);
    }
    return UCC_OK;
}

void hd_node_leave(hd_node_t *node) {
    hd_node_lock();
    bool last = --node->entered == 0;
    if (last && of_process == node) {
        of_process = NULL;
    }
    hd_node_unlock();
    if (last) {
        hd_node_close(node);
    }
}
