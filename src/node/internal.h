/* internal.h: what the files of this folder share. They call each other in this order: node, door,
 * share, peer, line, wire and address.
 *
 *   LINE    a connection. A stranger's until its HELLO was right; then a peer's.
 *   LIFE    a peer's process, as the kernel knows it (pidfd): readable when it has ended
 *   PEER    another process: used by `uses` here, or only connected from there
 *   FETCH   a segment that this process wants of a peer
 *   REQUEST a segment that a peer wants of this process, and has not been answered
 *   OFFER   a segment that this process gives away
 *
 *     line:   accepted   AT_HELLO ---right, WELCOME sent---> AT_OPEN --its end, or BYE--> closed
 *             connected  AT_VERDICT ---WELCOME------------->
 *
 *     peer:   PENDING <--------> DONE ----> a failure
 *             (no line is open)  (one is, or it has a life)
 *
 * What is to be sent is kept as a state, not in a queue: what is owed is sent when the socket takes
 * it (hd_node_share_pump), so what a slow peer costs is bounded by what it has asked for.
 *
 * Everything here is under one lock of the process's. Outside of it, states are read: they are
 * atomic.
 */
#ifndef HD_NODE_INTERNAL_H
#define HD_NODE_INTERNAL_H

#include "core/fork.h"
#include "node/node.h"
#include "node/wire.h"

#include <stdatomic.h>

enum {
    HD_NODE_STRANGERS = 64,  /* accepted lines that have not said who they are */
    HD_NODE_REQUESTS = 4096, /* that wait, of all peers */
    HD_NODE_REQUESTS_OF_ONE = 256,
    HD_NODE_ENDED = 256 /* names that are remembered as withdrawn */
};

typedef _Atomic uint32_t hd_node_word_t; /* an hd_node_state_t */

typedef struct hd_node_line {
    int fd;       /* -1: closed, to be freed */
    bool is_life; /* of the peer's process: nothing is said on it, and its stage is AT_END */
    bool accepted;
    hd_node_stage_t stage;
    uint32_t uid, pid;    /* of the other end, as the kernel says */
    uint32_t serial;      /* no other line of the node has it; never 0 */
    bool blocked;         /* its socket was full: EPOLLOUT is awaited */
    bool tells, is_told;  /* this process holds the line, as the other end knows; likewise there */
    uint64_t due;         /* ns: a stranger's deadline; else when to send again; 0: never */
    hd_node_peer_t *peer; /* NULL: a stranger's */
    struct hd_node_line *next;
} hd_node_line_t;

typedef struct hd_node_request {
    uint64_t name[2], number;
    hd_node_offer_t *offer;  /* not NULL: to be answered by its segment */
    hd_node_state_t refusal; /* not PENDING: to be answered by this */
    struct hd_node_request *next;
} hd_node_request_t;

struct hd_node_peer {
    hd_node_t *node;
    uint64_t door[2];
    uint32_t pid;         /* 0: not known */
    uint32_t uses;        /* by callers, fetches and offers; 0: no life, and freed without a line */
    hd_node_word_t state; /* by those under the lock; read by all */
    hd_node_line_t *line; /* NULL: none */
    hd_node_line_t *life; /* beside the line, if it is watched by its pid; or NULL */
    uint64_t due;         /* ns: when to connect; 0: never */
    uint32_t tries;       /* connections in a row that ended before an answer */
    hd_node_request_t *requests;
    uint32_t n_requests;
    hd_node_fetch_t *fetches;
    struct hd_node_peer *next;
};

/* What a fetch owes to its leader. */
typedef enum hd_node_debt {
    HD_NODE_OWES_NOTHING,
    HD_NODE_OWES_TAKEN,
    HD_NODE_OWES_CANCEL
} hd_node_debt_t;

struct hd_node_fetch {
    hd_node_peer_t *peer;
    uint64_t name[2], number;
    uint32_t asked_on; /* serial of the line on which FETCH was sent; 0: on none */
    hd_node_debt_t debt;
    bool ended;                /* by the caller: freed when nothing is owed */
    hd_node_segment_t segment; /* written before the state is DONE; then the caller's */
    hd_node_word_t state;
    struct hd_node_fetch *next;
};

typedef struct hd_node_slot {
    hd_node_peer_t *peer;
    uint64_t number; /* of the request that was answered; 0: none yet */
    hd_node_word_t state;
} hd_node_slot_t;

struct hd_node_offer {
    hd_node_t *node;
    uint64_t name[2];
    hd_node_segment_t segment;
    struct hd_node_offer *next;
    uint32_t n;
    hd_node_slot_t slot[];
};

struct hd_node {
    hd_fork_hook_t fork_hook; /* first */
    hd_node_address_t address;
    uint64_t layout;
    uint32_t entered; /* of the process's node: by how many */
    bool inherited;   /* this is a child: only ends are allowed */
    int epoll, listener, timer;
    int spare;         /* kept for one more line, if descriptors end; -1: it has been given away */
    uint64_t rings_at; /* ns: when the timer is next due; UINT64_MAX: never */
    uint64_t deaf_until; /* ns: nobody is accepted before then; 0: the listener is awaited */
    hd_node_line_t *lines;
    bool has_closed; /* lines to be freed */
    hd_node_peer_t *peers;
    hd_node_offer_t *offers;
    uint32_t strangers, serials, n_requests;
    uint64_t numbers;
    uint64_t ended[HD_NODE_ENDED][2]; /* a ring */
    uint32_t n_ended;
    bool told_foreign, told_secret, told_deaf, told_unlike;
    _Atomic uint32_t losses;
};

static inline bool hd_node_is_same(const uint64_t a[2], const uint64_t b[2]) {
    /* In a time that does not depend on what they are. */
    return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;
}

/* --- address.c --- */

enum { HD_NODE_NAME = 48 };
/* door: NULL: drawn. */
ucc_status_t hd_node_find_address(hd_node_address_t *address, const uint64_t door[2]);
/* Does this process still see the machine's sockets as when it found that address? */
bool hd_node_is_at(const hd_node_address_t *address);
/* The name of the door's socket, in the abstract namespace: whoever sees it does not know the door.
 * Returns its bytes, the first of which is 0. */
uint32_t hd_node_door_name(const uint64_t door[2], char name[HD_NODE_NAME]);

/* --- line.c --- */

void hd_node_lock(void);
bool hd_node_try_lock(void);
void hd_node_unlock(void);
pthread_mutex_t *hd_node_mutex(void);

/* The timer is due then (ns of hd_clock_ns), or earlier. */
void hd_node_ring_at(hd_node_t *node, uint64_t when);

/* Takes fd in any case. NULL: no memory, or it can't be watched. */
hd_node_line_t *hd_node_line_add(hd_node_t *node, int fd, bool accepted);
/* The life of the process of that pid. NULL: errno says why; ESRCH: there is no such process. */
hd_node_line_t *hd_node_line_add_life(hd_node_t *node, uint32_t pid);
/* Has the node a spare descriptor, or can it be had? */
bool hd_node_line_keep_spare(hd_node_t *node);
/* Freed later: events may still speak of it. */
void hd_node_line_close(hd_node_t *node, hd_node_line_t *line);
void hd_node_line_free_closed(hd_node_t *node);
/* Sends the message, with a descriptor if fd is not -1. False: not now; the line is served again
 * when it can be tried, or has ended. */
bool hd_node_line_send(hd_node_t *node, hd_node_line_t *line, const hd_node_message_t *message,
                       int fd);

typedef enum hd_node_line_event {
    HD_NODE_LINE_NOTHING,
    HD_NODE_LINE_MESSAGE,
    HD_NODE_LINE_END,
    HD_NODE_LINE_BAD
} hd_node_line_event_t;
/* Takes one message. *fd: its descriptor, of a SEGMENT; -1: it was lost for want of room. *why: of
 * HD_NODE_LINE_BAD. */
hd_node_line_event_t hd_node_line_receive(hd_node_line_t *line, hd_node_message_t *message, int *fd,
                                          const char **why);

/* --- peer.c --- */

/* NULL: there is none. */
hd_node_peer_t *hd_node_peer_find(hd_node_t *node, const uint64_t door[2]);
/* Of a process that has come by itself: not used. NULL: no memory. */
hd_node_peer_t *hd_node_peer_make(hd_node_t *node, const uint64_t door[2]);
/* One more use, which alone connects nothing. NULL: no memory. */
hd_node_peer_t *hd_node_peer_hold(hd_node_t *node, const uint64_t door[2]);
/* Of one that is used: connects at once, or after a while. */
void hd_node_peer_want_line(hd_node_peer_t *peer, bool connects);
/* Both. NULL: no memory. */
hd_node_peer_t *hd_node_peer_use(hd_node_t *node, const uint64_t door[2], bool connects);
/* Likewise, where the life of the process of that pid will do, if it can be had. */
hd_node_peer_t *hd_node_peer_watch(hd_node_t *node, const uint64_t door[2], uint32_t pid,
                                   bool connects);
void hd_node_peer_connect(hd_node_peer_t *peer);
/* Connects again after so many ns, if it is used. */
void hd_node_peer_again(hd_node_peer_t *peer, uint64_t after);
/* It has no line, and needs none now. */
void hd_node_peer_rest(hd_node_peer_t *peer);
/* Ends its line, which is open, and says why. False: not now. */
bool hd_node_peer_end_line(hd_node_peer_t *peer, hd_node_bye_t why);
bool hd_node_peer_has_failed(const hd_node_peer_t *peer);
/* Its line ends, if it has one. */
void hd_node_peer_fail(hd_node_peer_t *peer, hd_node_state_t why);
/* No line can be had, and this is why: so its fetches fail; and so does the peer, unless it has a
 * life. The caller has the rest of it forgotten (hd_node_share_forget). */
void hd_node_peer_no_line(hd_node_peer_t *peer, hd_node_state_t why);
/* Its line is open: `holds`: the other end holds it. */
void hd_node_peer_open(hd_node_peer_t *peer, bool holds);
/* Says whether this process holds the line; ends it if neither does; frees the peer if nobody knows
 * it any more. */
void hd_node_peer_settle(hd_node_peer_t *peer);
/* One use less, and settles. */
void hd_node_peer_drop(hd_node_peer_t *peer);
void hd_node_peer_remove_request(hd_node_peer_t *peer, hd_node_request_t **at);

/* --- share.c --- */

/* Sends what is owed to the peer, and settles it: the peer may be gone afterwards. */
void hd_node_share_pump(hd_node_peer_t *peer);
/* Of an open line. fd: of a SEGMENT, taken. NULL, or what is wrong with it. */
const char *hd_node_share_take(hd_node_peer_t *peer, const hd_node_message_t *message, int fd);
/* Its line has ended, or it has failed: forgets what was asked by it and owed to it, and settles
 * it. */
void hd_node_share_forget(hd_node_peer_t *peer);
/* Does anything wait for an answer of that peer? */
bool hd_node_share_awaits(const hd_node_peer_t *peer);
/* Ends the line, of those that can be made anew, which is needed least. False: there is none. */
bool hd_node_share_spare_line(hd_node_t *node);

/* --- door.c --- */

ucc_status_t hd_node_door_open(hd_node_t *node, const uint64_t door[2]);
void hd_node_door_accept(hd_node_t *node);
void hd_node_door_serve(hd_node_t *node, hd_node_line_t *line, uint32_t events);
/* Whatever is due. */
void hd_node_door_tend(hd_node_t *node);

#endif
