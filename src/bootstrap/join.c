/* join.c: forming, by all but rank 0. A process comes to rank 0, and hears its place in the tree;
 * if it shall have children, it listens for them, and tells where. When all have come, rank 0 tells
 * it where its parent listens; and when all have found their parents, that they may begin.
 */
#include "bootstrap/bootstrap.h"

#include "core/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Rank 0's conn: behind the children, or the parent's. */
static hd_conn_t **root_of(heddle_bootstrap_t *b) {
    return &b->peer[b->tree.parent == 0 ? 0 : 1 + b->tree.children];
}

/* Room for the parent, the children and rank 0. */
static bool make_peers(heddle_bootstrap_t *b, hd_conn_t *root) {
    b->fanout = root->wire.peer.fanout;
    b->listens_all = root->wire.peer.listens_all;
    b->tree = hd_tree_place(b->rank, b->size, b->fanout);
    if (!hd_bootstrap_make_peers(b, 2 + b->tree.children)) {
        return false;
    }
    *root_of(b) = root;
    return true;
}

/* Where this process has reached rank 0 from, which is what rank 0 will tell its children; at all
 * addresses if rank 0 does so, because rank 0 may have seen another one then. -1: failed. */
static int listen_for_children(heddle_bootstrap_t *b) {
    struct sockaddr_storage at = {0};
    socklen_t bytes = sizeof(at);
    struct sockaddr_in *v4 = (struct sockaddr_in *)&at;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&at;
    int fd = -1;
    if (getsockname((*root_of(b))->fd, (struct sockaddr *)&at, &bytes) == 0) {
        if (at.ss_family == AF_INET6) {
            v6->sin6_port = 0;
            v6->sin6_addr = b->listens_all ? in6addr_any : v6->sin6_addr;
        } else {
            v4->sin_port = 0;
            v4->sin_addr.s_addr = b->listens_all ? htonl(INADDR_ANY) : v4->sin_addr.s_addr;
        }
        fd = hd_address_listen((struct sockaddr *)&at, bytes, hd_door_backlog(b->tree.children));
    }
    if (fd < 0) {
        hd_bootstrap_fail(b, UCC_ERR_NO_RESOURCE, "rank %u cannot listen for its children: %s%s",
                          b->rank, strerror(errno), hd_files_hint(errno));
    }
    return fd;
}

/* A message of rank 0's conn->head. */
static void say(heddle_bootstrap_t *b) {
    hd_conn_t *root = *root_of(b);
    if (!hd_conn_send_small(root, HD_WIRE_HEAD)) {
        hd_bootstrap_lost(b, root, hd_conn_last_words(root));
    }
}

static void tell_port(heddle_bootstrap_t *b, int listener) {
    struct sockaddr_storage at = {0};
    socklen_t bytes = sizeof(at);
    hd_conn_t *root = *root_of(b);
    if (getsockname(listener, (struct sockaddr *)&at, &bytes) != 0) {
        hd_bootstrap_fail(b, UCC_ERR_IO_ERROR, "rank %u has no port: %s", b->rank, strerror(errno));
        return;
    }
    in_port_t port = at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                              : ((struct sockaddr_in *)&at)->sin_port;
    hd_wire_write_listens(&root->wire, ntohs(port), root->head);
    say(b);
}

static void wait_for(hd_door_t *door, const bool *that) {
    heddle_bootstrap_t *b = door->b;
    while (b->failure == UCC_OK && !*that) {
        if (hd_seconds() > b->deadline) {
            hd_bootstrap_fail(b, UCC_ERR_TIMED_OUT,
                              "rank %u has waited for the other processes for %g s", b->rank,
                              b->timeout);
            return;
        }
        hd_door_wait(door, b->deadline);
    }
}

/* Before rank 0 gives up, so that it hears why not; and later than the parent, which answers when
 * it has found its own. */
static void find_parent(hd_door_t *door) {
    heddle_bootstrap_t *b = door->b;
    hd_conn_t *root = *root_of(b);
    char address[HD_NAME_BYTES];
    hd_address_reach(&root->wire.peer.at, root, address, sizeof(address));
    double patience = (b->deadline - hd_seconds()) * (1 - 1.0 / b->tree.depth);
    if (b->timeout >= 0 && patience < 0) {
        patience = 0; /* less than nothing would be for ever */
    }
    b->peer[0] = hd_connect(b, b->tree.parent, address, root, hd_deadline(patience));
    if (b->peer[0]) {
        hd_wire_write_linked(&root->wire, root->head);
        say(b);
    }
}

static void link_up(hd_door_t *door) {
    heddle_bootstrap_t *b = door->b;
    hd_door_watch(door, *root_of(b));
    if (door->listener >= 0) {
        tell_port(b, door->listener);
    }
    if (b->tree.parent != 0) {
        wait_for(door, &door->addressed);
        if (b->failure == UCC_OK) {
            find_parent(door);
        }
    }
    wait_for(door, &door->started);
}

/* With a conn to rank 0. */
static void take_place(heddle_bootstrap_t *b) {
    hd_door_t door;
    int listener = b->tree.children > 0 ? listen_for_children(b) : -1;
    if (b->failure == UCC_OK) {
        if (hd_door_open(&door, b, listener, b->tree.children) == UCC_OK) {
            link_up(&door);
        }
        hd_door_close(&door);
    }
    if (listener >= 0) {
        close(listener);
    }
    if (b->failure != UCC_OK) {
        hd_bootstrap_tell_all(b);
    }
}

ucc_status_t hd_join(heddle_bootstrap_t *b, const char *address) {
    if (!address) {
        hd_error("heddle_bootstrap_tcp: no address of rank 0");
        return UCC_ERR_INVALID_PARAM;
    }
    b->deadline = hd_deadline(b->timeout);
    hd_conn_t *root = hd_connect(b, 0, address, NULL, b->deadline);
    if (!root) {
        return b->failure;
    }
    if (!make_peers(b, root)) {
        hd_conn_destroy(root);
        return b->failure;
    }
    b->deadline += HD_GRACE_SECONDS;
    take_place(b);
    b->n_peers = 1 + b->tree.children;
    if (b->tree.parent != 0) {
        hd_conn_destroy(*root_of(b));
        *root_of(b) = NULL;
    }
    return b->failure;
}
