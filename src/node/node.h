/* node.h: how processes of one machine come to share memory: by descriptors, sent over a socket
 * that is in no file system, to processes of the same user.
 *
 *     hd_node_enter(layout, NULL, &node)           the process's door is open
 *     hd_node_address(node)                        goes to the others by whatever way
 *     hd_node_may_reach(mine, theirs)              they are on one machine, as far as it seems
 *
 *     leader: hd_segment_create(bytes, &segment)   others: hd_node_fetch(node, &leader's, name, &f)
 *             hd_node_offer(node, name, ...)               hd_node_fetch_test(f, &segment)
 *             hd_node_offer_test(offer)                    hd_segment_map(&segment, ...)
 *             hd_node_offer_end(offer)                     hd_node_fetch_end(f)
 *
 *     hd_node_meet(node, &theirs, true, &peer)     from now on, peer's state says if that process
 *     hd_node_part(peer)                           is there: its end is noticed by its kernel
 *
 * Nothing waits, nothing is called back, and no thread of its own runs: whoever waits calls
 * hd_node_progress, or sleeps until hd_node_fd is readable and then calls it. Ends of processes are
 * states to look at, not callbacks: who waits looks anyway, a look is a load, and nobody's code
 * runs below a lock or on a stranger's stack. All functions may be called by any thread; one object
 * (an offer, a fetch, a peer) by one thread at a time.
 *
 * In the child of a fork, before fork() returns there, the copies of all descriptors are closed,
 * and all objects have failed (HD_NODE_INHERITED); they are ended as ever. hd_node_enter opens a
 * door of the child's own.
 */
#ifndef HD_NODE_NODE_H
#define HD_NODE_NODE_H

#include "node/segment.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct hd_node hd_node_t;
typedef struct hd_node_peer hd_node_peer_t;
typedef struct hd_node_offer hd_node_offer_t;
typedef struct hd_node_fetch hd_node_fetch_t;

/* Goes into records that processes exchange. Without padding; the same in all builds. The door is a
 * secret: who knows it is served. So it goes only to processes of the same job. */
typedef struct hd_node_address {
    uint64_t identity[2]; /* of the machine, as sockets see it, and of the user */
    uint64_t door[2];     /* random; no two processes have the same */
    uint32_t pid, uid;    /* as the process itself knows them; for people */
} hd_node_address_t;

_Static_assert(sizeof(hd_node_address_t) == 40, "without padding");

/* Of a peer, a fetch, or one process of an offer. */
typedef enum hd_node_state {
    HD_NODE_PENDING,
    HD_NODE_DONE, /* the peer is there; the segment has come; that process has it */
    /* of a peer; its fetches, and what is offered to it, fail likewise */
    HD_NODE_ABSENT,    /* nobody is behind that door (any more) */
    HD_NODE_DIED,      /* it has ended, or its connection has, without a word */
    HD_NODE_LEFT,      /* it has closed its door, and there was a connection to hear it by */
    HD_NODE_UNLIKE,    /* it has another version or layout */
    HD_NODE_FOREIGN,   /* it is another user's */
    HD_NODE_SPURNED,   /* it does not answer to the door's name, or says what nobody says */
    HD_NODE_FORBIDDEN, /* the system does not let this process connect to it */
    HD_NODE_INHERITED, /* this is the child of a fork */
    /* of a fetch, or of one process of an offer */
    HD_NODE_UNEXPECTED,    /* the segment is not offered to the process that asks, or not twice */
    HD_NODE_WITHDRAWN,     /* it is not offered any more, or never will be */
    HD_NODE_CROWDED,       /* too many requests wait there */
    HD_NODE_NO_DESCRIPTOR, /* this process's limit of descriptors is reached */
    HD_NODE_NO_MEMORY,
    HD_NODE_BAD_SEGMENT, /* what has come is not a sealed memfd of the right size */
    HD_NODE_STATES,
    HD_NODE_FIRST_FAILURE = HD_NODE_ABSENT
} hd_node_state_t;

/* UCC_INPROGRESS, UCC_OK, or an error: UCC_ERR_NOT_FOUND (ABSENT, LEFT, WITHDRAWN),
 * UCC_ERR_IO_ERROR (DIED, BAD_SEGMENT), UCC_ERR_NOT_SUPPORTED (UNLIKE, FOREIGN, SPURNED,
 * FORBIDDEN), UCC_ERR_INVALID_PARAM (INHERITED, UNEXPECTED), UCC_ERR_NO_RESOURCE (CROWDED,
 * NO_DESCRIPTOR), UCC_ERR_NO_MEMORY. */
ucc_status_t hd_node_status(hd_node_state_t state);
/* For people: "has died", as if a process's name stood before it. */
const char *hd_node_describe(hd_node_state_t state);

/* --- the door --------------------------------------------------------------------------------- */

/* The process's node: opens its door on first use. As many hd_node_leave. `layout` says what must
 * be the same in processes that share memory; all who enter say the same. door: its name, which no
 * door has had before; NULL: one that is drawn. If the door is open, it keeps the one that it has.
 *
 * UCC_ERR_NOT_SUPPORTED: there are no such sockets here (seccomp, for one). UCC_ERR_NO_RESOURCE: no
 * descriptor. UCC_ERR_NO_MEMORY. Each is logged once, at level info: processes can do without. */
ucc_status_t hd_node_enter(uint64_t layout, const uint64_t door[2], hd_node_t **node);
/* The last one closes the door, and tells all that are connected. Offers, fetches and peers have
 * been ended before. */
void hd_node_leave(hd_node_t *node);

/* A node beside the process's: for tests. */
ucc_status_t hd_node_open(uint64_t layout, const uint64_t door[2], hd_node_t **node);
void hd_node_close(hd_node_t *node);

const hd_node_address_t *hd_node_address(const hd_node_t *node);
/* Whether it is worth trying: the same machine, network namespace and user. Whoever does not know
 * its own machine reaches nobody. */
bool hd_node_may_reach(const hd_node_address_t *a, const hd_node_address_t *b);

/* Does what can be done now. While another thread does so, nothing. True: something has come, which
 * may be what a thread waits for that sleeps: the caller wakes it. */
bool hd_node_progress(hd_node_t *node);
/* For poll() and epoll: readable when progress is worth it. Nothing else is done with it. */
int hd_node_fd(const hd_node_t *node);

/* --- other processes -------------------------------------------------------------------------- */

/* From now on there is a connection to that process, at most one of each pair whoever uses it, as
 * soon as it can be had, as long as one of the two uses it; and as soon as its process ends, the
 * peer's state says so. One that has failed stays failed. `connects`: at once; else the other
 * process is given a while to do it.
 *
 * UCC_ERR_INVALID_PARAM: it is this process, or can't be reached. UCC_ERR_NO_MEMORY. */
ucc_status_t hd_node_meet(hd_node_t *node, const hd_node_address_t *address, bool connects,
                          hd_node_peer_t **peer);
/* As hd_node_meet, where a connection is not needed if the kernel tells of that process's end by
 * its pid: address->pid, as this process sees it; 0: not known. Then the process is there at once,
 * or HD_NODE_ABSENT; a connection that fetches want and can't have is their failure, not the
 * peer's; and that it closes its door is not heard. */
ucc_status_t hd_node_watch(hd_node_t *node, const hd_node_address_t *address, bool connects,
                           hd_node_peer_t **peer);
hd_node_state_t hd_node_peer_state(const hd_node_peer_t *peer);
/* For people: is there a connection to it now? */
bool hd_node_peer_has_answered(const hd_node_peer_t *peer);
/* For people: its pid, as this process sees it, or as its line's end has it; 0: not known. */
uint32_t hd_node_peer_pid(const hd_node_peer_t *peer);
void hd_node_part(hd_node_peer_t *peer);
/* How many peers have failed: while this stays the same, no state of a peer becomes a failure. */
uint32_t hd_node_losses(const hd_node_t *node);

/* --- segments --------------------------------------------------------------------------------- */

/* Offers the segment, under a name that no other segment has, to the processes behind these doors,
 * each of which may fetch it once. Takes its descriptor, and closes it when nobody may fetch it any
 * more: the caller maps it before.
 *
 * UCC_ERR_INVALID_PARAM: the name is null or is offered already, or one of the doors is this
 * process's own. UCC_ERR_NO_MEMORY. On an error, the descriptor stays the caller's. */
ucc_status_t hd_node_offer(hd_node_t *node, const uint64_t name[2], hd_node_segment_t *segment,
                           const uint64_t (*doors)[2], uint32_t n, hd_node_offer_t **offer);
/* Of the process behind doors[i]. */
hd_node_state_t hd_node_offer_state(const hd_node_offer_t *offer, uint32_t i);
/* UCC_OK: all have it. An error: no process is pending any more, and this is why the first of those
 * failed that have not got it. */
ucc_status_t hd_node_offer_test(hd_node_offer_t *offer);
/* Withdraws it if processes are pending. */
void hd_node_offer_end(hd_node_offer_t *offer);
/* Whoever asks for a segment of that name, or waits for it, is refused: it is not, or will never
 * be, offered. It is remembered of the last few hundred names. */
void hd_node_withdraw(hd_node_t *node, const uint64_t name[2]);

/* Asks that process for its segment of that name. It need not be offered yet: the request waits
 * there. UCC_ERR_INVALID_PARAM: the name is null, or as hd_node_meet. UCC_ERR_NO_MEMORY. */
ucc_status_t hd_node_fetch(hd_node_t *node, const hd_node_address_t *leader, const uint64_t name[2],
                           hd_node_fetch_t **fetch);
hd_node_state_t hd_node_fetch_state(const hd_node_fetch_t *fetch);
/* UCC_OK: the segment has come. It is the caller's from the first time on; later ones have no
 * descriptor. */
ucc_status_t hd_node_fetch_test(hd_node_fetch_t *fetch, hd_node_segment_t *segment);
/* One that is under way is taken back; at the other end, this process is pending as before. */
void hd_node_fetch_end(hd_node_fetch_t *fetch);

#endif
