/* internal.h: the network's data structures, with who may touch what.
 *
 * Everything that belongs to a lane (its port, the links of peers in it, the lane's part of each team, requests,
 * parked messages, legs that were taken in) is touched by the holder of the lane's lock alone. What belongs to all
 * lanes (the table of teams, peers) has a lock of its own, under which nothing else is called.
 *
 * The way of a message. A leg's algorithm calls hd_leg_send, which writes the header and hands the message to UCX, or
 * keeps it while the peer is too far behind (flow.c). In the other process UCX calls the lane, which parses the header
 * (wire.c) and looks up the team (team.c); match.c finds the leg, and what the leg expects of that source at that step,
 * or parks the message until the leg is there and asks for it.
 *
 * What comes to a lane from other threads (legs that start, teams that end or fail) is an ITEM on its stack.
 */
#ifndef HD_NET_INTERNAL_H
#define HD_NET_INTERNAL_H

#include "core/debug.h"
#include "core/fork.h"
#include "core/log.h"
#include "core/mem.h"
#include "net/net.h"
#include "net/ucx.h"
#include "net/watch.h"
#include "net/wire.h"
#include "threads/clock.h"
#include "threads/lock.h"
#include "threads/trace.h"

#include <ck_stack.h>
#include <pthread.h>
#include <stddef.h>

enum {
    HD_NET_MOST_LANES = 8,
    HD_NET_AHEAD = 16, /* numbered exchanges that a peer need not have consumed */
    HD_NET_MATCHED_QUOTA =
        64 << 10, /* bytes sent eagerly that a peer need not have taken: matched classes */
    HD_NET_NUMBERED_QUOTA = 256 << 10, /* the same where the numbers bound how much there can be */
    HD_NET_PARKED_BYTES =
        16 << 20, /* eager data of a peer that is kept for legs to come; more fails the team */
    HD_NET_PARKED_MESSAGES = 1 << 16,
    HD_NET_PARKED_SMALL = 192,    /* bytes of data that are kept in memory that is used again */
    HD_NET_EARLY_MESSAGES = 4096, /* for teams that are not known yet, in a lane */
    HD_NET_EARLY_BYTES = 1024,    /* of one of them */
    HD_NET_EARLY_SECONDS = 3600,  /* a process may come to form a team much later than the others */
    HD_NET_ORPHAN_MS =
        1000, /* after a peer was lost, until what UCX does not end with it counts as ended */
    HD_NET_MOMENT_MS =
        1000, /* for which who has failed still sends data that lies in memory of ours */
    HD_NET_PACKED = 128 << 10, /* bytes up to which several pieces are sent as one */
    HD_NET_ORPHAN_TURNS = 16,  /* and so many turns */
    HD_NET_MOURN_MS = 10,      /* from one look for them to the next */
    HD_NET_QUIET_TURNS = 4, /* without progress: what a process had sent when it was lost is here */
    HD_NET_BUSY_TURNS = 4096, /* or so many, if others always send something */
    HD_NET_BUCKETS = 64,
    HD_NET_LOOK_TURNS = 1024, /* of lane 0, from one look at the watch to the next */
    HD_NET_CLOSED = 256       /* legs that a team's lane remembers when they are over */
};

typedef struct hd_net_lane hd_net_lane_t;
typedef struct hd_peer hd_peer_t;
typedef struct hd_net_team_lane hd_net_team_lane_t;
typedef struct hd_net_team_peer hd_net_team_peer_t;
typedef struct hd_parked hd_parked_t;
typedef struct hd_expected hd_expected_t;
typedef struct hd_message hd_message_t;
typedef struct hd_swap_mine hd_swap_mine_t;
typedef struct hd_net_swaps hd_net_swaps_t;

/* --- what is on a lane's stack ------------------------------------------------------------------------------ */

enum { HD_ITEM_LEG, HD_ITEM_END, HD_ITEM_FAILED, HD_ITEM_ABORT, HD_ITEM_NEWS, HD_ITEM_SWAP };

/* --- messages ----------------------------------------------------------------------------------------------- */

/* A message that is sent, or a rendezvous that is received. Of the lane's pool. */
struct hd_message {
    hd_ucx_request_t ucx; /* first */
    uint8_t header[HD_WIRE_BYTES];
    hd_net_lane_t *lane;
    hd_leg_t *leg; /* NULL: of no leg */
    hd_message_t *next,
        **at; /* in the lane's list of what is under way, a team's of what is held back, or free */
    uint32_t to;               /* number of the receiver in the team */
    bool receives, counts;     /* counts: as something that a leg expects */
    uint64_t trace;            /* the message's name in a trace, if one is kept */
    struct hd_swap_mine *swap; /* a part of this; NULL: of none, or its team has ended */
    hd_net_swaps_t *ended;     /* of a team that has ended, with the data; NULL: none */
    hd_peer_t *peer;           /* of a swap: the receiver */
    hd_wire_t wire;
    hd_net_piece_t own; /* where there is one piece */
    const hd_net_piece_t *piece;
    uint32_t n;
    void *packed; /* memory that ends with it; NULL: none */
};

/* What a leg waits for. */
struct hd_expected {
    hd_expected_t *next;
    uint32_t source; /* number in the team */
    uint16_t step;
    hd_net_piece_t own;
    const hd_net_piece_t *piece;
    uint32_t n;
    size_t bytes;
};

/* A message that came before somebody expected it. */
struct hd_parked {
    hd_parked_t *next;
    hd_wire_t wire;
    void *rendezvous; /* what UCX calls it; NULL: the data follows */
    size_t bytes;     /* of the data that follows */
    uint64_t since;   /* ns; of those for teams that are not known */
    uint8_t data[];
};

/* --- lanes ---------------------------------------------------------------------------------------------------- */

struct hd_net_lane {
    hd_ucx_port_t port; /* first */
    hd_lock_t lock;
    int cancelling; /* whether the thread inside may be cancelled: see hd_net_lane_enter */
    uint32_t number;
    bool moved; /* something happened in this turn */
    uint64_t turns;
    uint64_t linked;  /* ns: when a way to a peer was last made */
    uint64_t mourned; /* ns: when legs that need a lost peer were last looked for */
    uint32_t quiet;   /* turns in a row in which UCX brought nothing, since there are losses */
    hd_net_t *net;
    hd_leg_t *legs, **last; /* those that were taken in */
    hd_message_t *under_way;
    hd_message_t *free_requests;
    hd_expected_t *free_expected;
    hd_parked_t *free_parked;
    hd_net_team_t
        *swapping; /* that a swap came for last, and that has not seen its end here; NULL: none */
    hd_parked_t *early; /* for teams that are not known yet */
    uint32_t n_early;
    uint64_t logged;          /* ns: of the last line about a message that was dropped */
    hd_net_team_peer_t *owed; /* peers that want to hear of us */
    struct {                  /* as hd_net_traffic_t; read by any thread */
        _Atomic uint64_t messages_sent, bytes_sent, told, messages_received, bytes_received;
    } traffic;
    /* written by any thread */
    alignas(HD_LINE_PAIR) ck_stack_t handed;
};

/* --- peers ------------------------------------------------------------------------------------------------------- */

/* Of the lane. */
typedef struct hd_peer_link {
    hd_ucx_link_t ucx; /* first */
    hd_peer_t *peer;
    const void *address; /* of the peer's lane */
    uint64_t seen;       /* the lane's turn in which it saw that the peer is lost; 0: it has not */
    uint64_t noticed;    /* and that in which it took it for gone */
    void *closing;       /* what hd_ucx_disconnect gave then, until it is over */
    uint8_t
        warmth; /* HD_NET_WARMING: 0: nothing of it; 1: under way: UCX may have questions in it; 2: over */
    bool broken; /* UCX has said so, and has nothing in it any more */
} hd_peer_link_t;

struct hd_peer {
    uint64_t identity[2];
    uint64_t token
        [2]; /* of the net that it has open: who comes back has another one, and is another peer */
    hd_peer_t *next; /* of the net's */
    hd_net_t *net;
    uint32_t lanes;
    _Atomic bool lost, left;     /* left: it has said so */
    bool told;                   /* that it is gone, to all or by another; under the net's lock */
    _Atomic uint64_t lost_at;    /* ns; written before `lost` */
    _Atomic uint64_t accused_at; /* ns: when this process said so, of one that may live; 0: never */
    uint64_t host;               /* number of its host; 0: not known */
    bool accuses, judged;        /* it has lost this process; all know that it is gone; in lane 0 */
    hd_peer_link_t link[HD_NET_MOST_LANES];
    void *address;             /* a copy of all of it */
    const void *watch_address; /* in it, for watch.c */
    size_t watch_bytes;        /* 0: it can't be watched */
    _Atomic bool kept;         /* it is watched */
};

/* --- teams ------------------------------------------------------------------------------------------------------- */

/* What the configuration says of each family: 0: plan.c decides, else hd_net_algorithm_t. */
typedef enum hd_net_family {
    HD_NET_OF_BARRIER,
    HD_NET_OF_BCAST,
    HD_NET_OF_ALLGATHER,
    HD_NET_OF_ALLTOALL,
    HD_NET_OF_GATHER,
    HD_NET_OF_SCATTER,
    HD_NET_OF_ALLREDUCE,
    HD_NET_OF_REDUCE,
    HD_NET_OF_REDUCE_SCATTER,
    HD_NET_FAMILIES
} hd_net_family_t;

/* What a lane knows of the flow to and from one process of one team. */
struct hd_net_team_peer {
    hd_net_team_lane_t *tl;
    /* to it */
    uint64_t floor; /* it has consumed all numbered exchanges below */
    uint64_t *sent; /* numbers sent to it that are not below, in no order */
    uint32_t n_sent, room;
    uint32_t out, out_taken; /* bytes sent eagerly, and those of them that legs there have taken */
    /* from it */
    uint64_t wanted;      /* if `wants`: it waits for our floor to be above this */
    bool wants, owed;     /* owed: in the lane's list */
    uint32_t in, in_told; /* bytes taken, and those of them that it knows of */
    uint32_t parked_messages;
    size_t parked_bytes;
    hd_net_team_peer_t *next_owed;
};

/* A team in a lane. */
struct hd_net_team_lane {
    hd_net_team_t *team;
    hd_net_item_t end, failed, abort;
    hd_leg_t *open[HD_NET_BUCKETS];
    hd_parked_t *parked[HD_NET_BUCKETS];
    uint64_t closed
        [HD_NET_CLOSED]; /* names of legs that have ended well: nothing may come for them; 0: none */
    hd_message_t *held;  /* sends that wait for their receivers to come nearer */
    uint64_t floor;      /* all numbered exchanges below were consumed */
    uint64_t highest;    /* number of an exchange that was opened, and one more */
    uint32_t n_numbered; /* open legs of numbered exchanges */
    bool returns; /* the processes' greeting was here: the team's wire id may be used again ... */
    bool greeted; /* ... and it is over */
    hd_net_team_peer_t *peer; /* by number in the team */
};

/* A process's part of a swap. */
typedef struct hd_swap_part {
    alignas(HD_LINE) _Atomic uint64_t k; /* written last */
    uint32_t signature, bytes;
    uint8_t data[HD_SWAP_BYTES]; /* more than these bytes: in `longs` */
} hd_swap_part_t;

/* What this process gives, for whoever sends it. */
struct hd_swap_mine {
    hd_net_item_t item;
    hd_net_team_t *team;
    hd_net_swap_t swap;
    uint32_t pending; /* messages that UCX has not taken over yet; lane 0's */
    bool is_long;     /* its bytes are in `longs` */
    uint8_t data[HD_SWAP_BYTES];
};

/* How far another process has come, and how far it has been told that this one has. */
typedef struct hd_swap_heard {
    _Atomic uint64_t heard; /* the highest number that a part of it has come of */
    uint64_t told;          /* and that it was given one of; lane 0's */
} hd_swap_heard_t;

/* A part whose place is not free yet. */
typedef struct hd_swap_late {
    struct hd_swap_late *next;
    uint64_t k;
    uint32_t source, signature, bytes;
    uint8_t data[];
} hd_swap_late_t;

/* The swaps of a team, by their numbers modulo the slots. Lane 0's holder writes parts, and whoever waits for them reads. */
struct hd_net_swaps {
    uint32_t types;          /* bit t: collectives of type t may be swaps */
    bool early;              /* some wait for parts before this process has begun to give its own */
    _Atomic uint32_t users;  /* the team, and messages (hd_message.ended) */
    uint64_t latest;         /* the highest number that a part was given or has come of; lane 0's */
    uint64_t looked_for;     /* the number that lane 0's holder looks for; 0: none */
    _Atomic uint32_t n_late; /* lane 0's, looked at by others */
    hd_swap_late_t *late;    /* lane 0's */
    _Atomic uint64_t
        begun[HD_SWAP_SLOTS]; /* the last one that this process has begun to give its part of */
    uint8_t needed[HD_SWAP_SLOTS];         /* bit p: of process p's part in that one; lane 0's */
    _Atomic uint64_t given[HD_SWAP_SLOTS]; /* and that it has given it of */
    _Atomic uint64_t over[HD_SWAP_SLOTS];  /* the last one that is over */
    /* for parts of more bytes, hd_net_swap_most each: [HD_SWAP_SLOTS][n], given, then taken. NULL: none yet */
    _Atomic(uint8_t *) longs;
    hd_swap_heard_t other[HD_SWAP_PROCESSES];
    hd_swap_mine_t mine[HD_SWAP_SLOTS];
    hd_swap_part_t part[]; /* [HD_SWAP_SLOTS][n] */
};

struct hd_net_team {
    hd_net_t *net;
    uint64_t wire;
    uint32_t n, me, lanes;
    uint32_t forks;                  /* hd_forks() when it was made: a child's copy is dead */
    hd_net_team_t *next;             /* of the table's bucket */
    uint8_t choice[HD_NET_FAMILIES]; /* hd_net_algorithm_t; HD_NET_NOTHING: as plan.c thinks best */
    void (*failed)(void *arg, ucc_status_t why);
    void (*swapped)(void *arg);
    void *arg;
    hd_lock_t telling; /* around the call of failed: whoever destroys the team waits for its end */
    bool destroyed;    /* under `telling` */
    _Atomic int failure;  /* ucc_status_t; UCC_OK: none */
    _Atomic int aborting; /* what the others are told; UCC_OK: nothing */
    bool relays; /* by who set `aborting`: another process has told; before the item is handed */
    _Atomic uint32_t lanes_left; /* that have not seen its end */
    hd_peer_t **peer;            /* by number; NULL: me */
    hd_net_swaps_t *swaps;       /* NULL: it has none */
    hd_net_team_lane_t lane[];
};

/* --- the network --------------------------------------------------------------------------------------------------- */

enum { HD_NET_TABLE = 256, HD_NET_GONE = 4096, HD_NET_HEARD = 1024 };

struct hd_net {
    struct ucp_context *context;
    bool stays; /* UCX has something that it can't give back before the process ends */
    uint32_t lanes;
    _Atomic bool has_losses; /* a peer has been lost since it was opened */
    uint64_t token[2];       /* random */
    uint64_t host;           /* as the watch counts hosts */
    bool given_up;           /* by all others; in lane 0 */
    uint64_t accused_at; /* ns: since when somebody has lost this process; 0: nobody; in lane 0 */
    struct hd_watch
        *watch; /* by lane 0's holder, while the lane has a worker, or with a reference */
    uint64_t grace_ns, cut_off_ns;
    void *address;
    size_t address_bytes;
    hd_lock_t lock; /* guards what follows */
    hd_net_team_t *table[HD_NET_TABLE];
    uint64_t gone[HD_NET_GONE]; /* wire ids of teams that were destroyed, the last ones */
    uint32_t n_gone;
    hd_peer_t *peers;
    uint64_t heard[HD_NET_HEARD]; /* hashes of the news that were heard or told, the last ones */
    uint32_t n_heard;
    alignas(HD_LINE_PAIR) hd_net_lane_t lane[HD_NET_MOST_LANES];
};

/* --- net.c ----------------------------------------------------------------------------------------------------------- */

/* One more reference, by somebody who has one. */
void hd_net_keep(hd_net_t *net);
/* What the configuration says of each family. */
void hd_net_read_choices(uint8_t choice[HD_NET_FAMILIES], const hd_config_t *config);

/* A count of the lane's, whose only writer holds its lock. relaxed: whoever reads it wants the number alone. */
static inline void hd_net_add_up(_Atomic uint64_t *count, uint64_t more) {
    uint64_t was = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, was + more, memory_order_relaxed);
}

/* What a process's address says. */
typedef struct hd_net_reach {
    uint32_t lanes;
    uint64_t token[2];
    const void *lane[HD_NET_MOST_LANES]; /* each one's address */
    const void *watch;
    size_t watch_bytes; /* 0: none */
} hd_net_reach_t;

/* False: it is malformed. */
bool hd_net_address_parse(const void *address, size_t bytes, hd_net_reach_t *reach);

/* --- plan.c ---------------------------------------------------------------------------------------------------------- */

/* hd_net_plan_of, with the choices of a configuration. */
hd_net_plan_t hd_net_plan_with(const uint8_t choice[HD_NET_FAMILIES], const hd_net_call_t *call,
                               size_t bytes);

/* --- lane.c ---------------------------------------------------------------------------------------------------------- */

/* Tries the lock. UCX's system calls would end a thread that is cancelled, and nobody else could ever enter. */
static inline bool hd_net_lane_enter(hd_net_lane_t *lane) {
    bool entered = hd_lock_try(&lane->lock);
    if (entered) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &lane->cancelling);
    }
    return entered;
}
void hd_net_lane_hand(hd_net_lane_t *lane, hd_net_item_t *item);
/* False: another thread is in it. */
bool hd_net_lane_pump(hd_net_lane_t *lane);
/* A descriptor that will be readable if the lane is worth a turn; -1: it is now, or somebody is in it. watch: one more,
 * likewise; -1: none. */
int hd_net_lane_arm(hd_net_lane_t *lane, int *watch);
/* What is left of the lane's memory, by the thread that closes the net. */
void hd_net_lane_clear(hd_net_lane_t *lane);
/* Under the lane's lock: one turn. */
void hd_net_lane_turn(hd_net_lane_t *lane);
/* Unlocks it, and takes in what was handed meanwhile. */
void hd_net_lane_leave(hd_net_lane_t *lane);

/* --- sleep.c ---------------------------------------------------------------------------------------------------------- */

/* Something has moved, by a thread that may not look again: who sleeps in the lanes' descriptors looks, and arms them
 * anew. */
void hd_net_rouse(void);

/* --- peer.c ------------------------------------------------------------------------------------------------------------ */

/* Looked up, or made. NULL: no memory, or the address is malformed (logged). */
hd_peer_t *hd_peer_of(hd_net_t *net, const hd_net_process_t *process);
/* The way to it in that lane, made if there is none. NULL: the peer is lost. */
const hd_ucx_link_t *hd_peer_link(hd_peer_t *peer, hd_net_lane_t *lane);
/* From now on nothing is sent to it, in any lane. Teams that need it fail when all that it has sent before has come. */
void hd_peer_lose(hd_peer_t *peer, const char *why);
/* Fails the legs that need peers that were lost, and cuts the ways to those. */
void hd_peer_tell_losses(hd_net_lane_t *lane);
/* The number in the team of one of its processes. */
uint32_t hd_net_number_of(const hd_net_team_t *team, const hd_peer_t *peer);
/* Is it gone, and all that it sent in this lane there? ns: now. Under the lane's lock. */
bool hd_peer_is_gone(const hd_peer_t *peer, const hd_net_lane_t *lane, uint64_t ns);
/* Ends all of a lane's links: waits a second at most. False: UCX would end the process over what is left. */
bool hd_peer_close_links(hd_net_t *net, hd_net_lane_t *lane);
void hd_peer_free_all(hd_net_t *net);

/* --- news.c: what is heard by the watch, and told -------------------------------------------------------------------------- */

void hd_net_watch_open(hd_net_t *net, const hd_config_t *config);
void hd_net_watch_close(hd_net_t *net);
/* It is, or can't be. Under lane 0's lock. */
bool hd_net_watch_is_settled(hd_net_t *net, const hd_peer_t *peer);
/* Watches it, if its address says how. With a reference to the net. */
void hd_net_watch_keep(hd_net_t *net, hd_peer_t *peer);
/* An item. */
void hd_net_take_news(hd_net_t *net, hd_net_item_t *item);
/* Has somebody said so? */
bool hd_net_is_dead(hd_net_t *net, const uint64_t token[2]);
/* To all processes that can be reached, once. Under a lane's lock. */
void hd_net_tell_dead(hd_net_t *net, const uint64_t token[2]);
/* Of one that was lost, but may live: if it does, one of the two has to go, and it says which. */
void hd_net_accuse(hd_net_t *net, hd_peer_t *peer);
/* In lane 0, now and then: what becomes of those who have lost this process. */
void hd_net_decide(hd_net_t *net, uint64_t now);
/* Likewise, of one that is gone: the others have to hear of it, and that it has not answered for long. */
void hd_net_judge(hd_net_t *net, hd_peer_t *peer, uint64_t now);
void hd_net_tell_abort(hd_net_t *net, uint64_t wire, ucc_status_t why);

/* --- team.c -------------------------------------------------------------------------------------------------------------- */

/* NULL: unknown; *gone: it was here, and is destroyed. */
hd_net_team_t *hd_net_team_find(hd_net_t *net, uint64_t wire, bool *gone);
/* The team is lost; the first cause counts. Under a lane's lock. */
void hd_net_team_fail(hd_net_team_t *team, ucc_status_t why);
/* Another process has told so: the team is lost, and those who are told by this one hear of it. Under a lane's lock. */
void hd_net_team_relay(hd_net_team_t *team, ucc_status_t why);
/* Items. */
void hd_net_team_lane_end(hd_net_team_lane_t *tl);
void hd_net_team_lane_failed(hd_net_team_lane_t *tl);
void hd_net_team_lane_abort(hd_net_team_lane_t *tl);

static inline ucc_status_t hd_net_team_failure(const hd_net_team_t *team) {
    if (team->forks != hd_forks()) {
        return UCC_ERR_NOT_SUPPORTED; /* inherited: as every group in the child of a fork */
    }
    /* relaxed: says nothing of other memory */
    return (ucc_status_t)atomic_load_explicit(&team->failure, memory_order_relaxed);
}

static inline hd_net_lane_t *hd_net_team_lane_of(const hd_net_team_lane_t *tl) {
    return &tl->team->net->lane[tl - tl->team->lane];
}

/* --- flow.c: how far ahead ------------------------------------------------------------------------------------------------ */

/* May a message of this number go to that peer now? */
bool hd_flow_allows(const hd_net_team_peer_t *peer, const hd_net_key_t *key);
/* It goes: fills in the header's fields of flow. True: as a rendezvous, whatever UCX thinks. */
bool hd_flow_out(hd_net_team_peer_t *peer, hd_wire_t *wire);
/* What a message's header says. */
void hd_flow_in(hd_net_team_peer_t *peer, const hd_wire_t *wire);
/* A leg has taken the message. */
void hd_flow_taken(hd_net_team_peer_t *peer, const hd_wire_t *wire);
void hd_flow_opened(hd_net_team_lane_t *tl, const hd_leg_t *leg);
/* After the leg has left the table of open ones. */
void hd_flow_closed(hd_net_team_lane_t *tl, const hd_leg_t *leg);
/* Sends the credits that are owed. */
void hd_flow_pay(hd_net_lane_t *lane);
/* Something is still held back for it: ask how far it is. */
void hd_flow_ask(hd_net_team_peer_t *peer);
void hd_flow_forget(hd_net_team_lane_t *tl);

/* --- match.c ---------------------------------------------------------------------------------------------------------------- */

hd_ucx_arrival_t hd_net_match_arrive(hd_ucx_port_t *port, const void *header, size_t header_bytes,
                                     void *data, size_t bytes, bool rendezvous);
/* Messages for the leg find it from now on, and those that came before. */
void hd_net_match_open(hd_leg_t *leg);
void hd_net_match_close(hd_leg_t *leg);
/* Parked messages of the leg that fit this are taken. */
void hd_net_match_expect(hd_leg_t *leg, hd_expected_t *expected);
void hd_net_match_drop(hd_net_lane_t *lane, hd_parked_t *parked);
/* Some process has said so of the team, which may not be known here yet. */
void hd_net_match_aborted(hd_net_lane_t *lane, uint64_t wire, ucc_status_t why);
/* All that is parked in a team's lane. */
void hd_net_match_drop_all(hd_net_team_lane_t *tl);
/* Those for unknown teams that came too long ago; ns: now. */
void hd_net_match_drop_early(hd_net_lane_t *lane, uint64_t ns);
/* Numbered exchange k is a swap for one process: is it, or was it, something else here (leg), or for a process that
 * has sent something (parked)? */
bool hd_net_match_has_leg(hd_net_team_lane_t *tl, uint64_t k);
bool hd_net_match_has_parked(const hd_net_team_lane_t *tl, uint64_t k, uint32_t *source);
/* Other processes were called with other arguments: logs it, and fails the team. */
void hd_net_match_differs(hd_net_team_t *team, uint32_t source);
/* One line a second. */
bool hd_net_match_may_log(hd_net_lane_t *lane);

/* --- swap.c -------------------------------------------------------------------------------------------------------------------- */

/* Bit t: collectives of type t may be swaps, for no other way is asked for. */
uint32_t hd_net_swap_types(const uint8_t choice[HD_NET_FAMILIES]);
/* A team's. NULL: no memory. */
hd_net_swaps_t *hd_net_swaps_create(const hd_net_team_t *team, bool early);
/* By its team, or a message that outlives it. The last user frees it. NULL: nothing to do. */
void hd_net_swaps_leave(hd_net_swaps_t *swaps);
/* Under lane 0's lock. An item: a part is to be sent; a message. */
void hd_net_swap_send(hd_net_lane_t *lane, hd_net_item_t *item);
hd_ucx_arrival_t hd_net_swap_arrive(hd_net_lane_t *lane, const void *header, size_t header_bytes,
                                    const void *data, size_t bytes, bool rendezvous);
/* One message of it is over. */
void hd_net_swap_sent(hd_swap_mine_t *mine, ucc_status_t status);
/* The team's end in lane 0. */
void hd_net_swap_forget(hd_net_lane_t *lane, const hd_net_team_t *team);
/* Is exchange k a swap here, and has this process begun to give its part? And, in lane 0, has a part of another come? */
bool hd_net_swap_has_begun(const hd_net_team_t *team, uint64_t k);
bool hd_net_swap_has_come(const hd_net_team_t *team, uint64_t k, uint32_t *source);

/* --- leg.c -------------------------------------------------------------------------------------------------------------------- */

/* Memory of the lane's pools. NULL: none. */
hd_message_t *hd_message_get(hd_net_lane_t *lane);
void hd_message_put(hd_message_t *request);
/* A message of no leg: a credit, an abort. */
void hd_message_tell(hd_net_team_lane_t *tl, uint32_t to, const hd_wire_t *wire);
/* A part of a swap goes out; hd_net_swap_sent says when UCX has it, maybe at once. The data stays until then. tells: it has
 * none, and is only to be heard. */
void hd_message_swap(hd_net_team_lane_t *tl, uint32_t to, hd_swap_mine_t *mine, const void *data,
                     uint32_t bytes, bool tells);
/* Sends what was held back for that peer and may go now. True: something is left. */
bool hd_message_resume(hd_net_team_lane_t *tl, const hd_net_team_peer_t *peer);

/* For algorithms. Failures are the leg's. to, from: ranks. The data stays as it is while the leg lasts. */
void hd_leg_send(hd_leg_t *leg, uint32_t step, uint32_t to, const hd_net_data_t *data);
void hd_leg_send_bytes(hd_leg_t *leg, uint32_t step, uint32_t to, const void *at, size_t bytes);
void hd_leg_receive(hd_leg_t *leg, uint32_t step, uint32_t from, const hd_net_data_t *data);
void hd_leg_receive_bytes(hd_leg_t *leg, uint32_t step, uint32_t from, void *at, size_t bytes);
/* For match.c: the message is what the leg expected; its data, or a rendezvous, is moved into place. */
hd_ucx_arrival_t hd_leg_take(hd_leg_t *leg, hd_expected_t *expected, const hd_wire_t *wire,
                             void *data, bool rendezvous);
/* The first cause counts. tell: the other processes must know, too: the team is lost. */
void hd_leg_fail(hd_leg_t *leg, ucc_status_t why, bool tell);

static inline uint32_t hd_leg_number_of(const hd_leg_t *leg, uint32_t rank) {
    return leg->call.process ? leg->call.process[rank] : rank;
}
static inline hd_net_team_lane_t *hd_leg_tl(const hd_leg_t *leg) {
    return &leg->team->lane[leg->lane];
}

/* Names the message in a trace: the same at both ends, and of no other message. to: number of the receiver. */
uint64_t hd_message_id(const hd_wire_t *wire, uint32_t to);

/* --- the families: UCC_INPROGRESS, or UCC_OK when all has been begun and has come ------------------------------------------------ */

ucc_status_t hd_net_barrier(hd_leg_t *leg); /* also fanin, fanout */
ucc_status_t hd_net_bcast(hd_leg_t *leg);
ucc_status_t hd_net_allgather(hd_leg_t *leg);
ucc_status_t hd_net_alltoall(hd_leg_t *leg);
ucc_status_t hd_net_gather(hd_leg_t *leg);
ucc_status_t hd_net_scatter(hd_leg_t *leg);
ucc_status_t hd_net_allreduce(hd_leg_t *leg);
ucc_status_t hd_net_reduce(hd_leg_t *leg);
ucc_status_t hd_net_reduce_scatter(hd_leg_t *leg);

/* Scratch that they need, in bytes. */
size_t hd_net_bcast_scratch(const hd_net_call_t *call, uint8_t algorithm);
size_t hd_net_gather_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan);
size_t hd_net_scatter_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan);
size_t hd_net_allreduce_scratch(const hd_net_call_t *call, uint8_t algorithm);
size_t hd_net_reduce_scratch(const hd_net_call_t *call, uint8_t algorithm);
size_t hd_net_reduce_scatter_scratch(const hd_net_call_t *call);

/* --- shape.c: trees, and cutting data ------------------------------------------------------------------------------------------------ */

/* Where a rank stands in a tree. Numbers count from the root, around the ranks. */
typedef struct hd_net_node {
    uint32_t n, root, radix;
    uint32_t v, parent; /* my number, and my parent's (mine is not 0) */
    uint32_t span;      /* numbers v, v + 1, ... below me, with mine */
    uint64_t reach;     /* the same in a tree without end */
} hd_net_node_t;

typedef struct hd_net_child {
    uint64_t v; /* number */
    uint32_t span;
    uint64_t step, digit; /* 0 to begin with */
} hd_net_child_t;

hd_net_node_t hd_net_tree(const hd_net_call_t *call, uint32_t root, uint32_t radix);
/* One child after the other, those with most below them first; false: no more. */
bool hd_net_next_child(const hd_net_node_t *node, hd_net_child_t *child);
static inline uint32_t hd_net_rank(const hd_net_node_t *node, uint64_t v) {
    return (uint32_t)((v + node->root) % node->n);
}

void hd_net_pack(const hd_net_data_t *data, void *to);
void hd_net_unpack(const hd_net_data_t *data, const void *from);
/* Where part i of so many begins. */
static inline size_t hd_net_part(size_t whole, uint32_t parts, uint32_t i) {
    return whole / parts * i + whole % parts * i / parts;
}
/* Cuts data into parts, in memory of hd_net_parts_bytes. */
size_t hd_net_parts_bytes(uint32_t parts, uint32_t pieces);
hd_net_data_t *hd_net_cut(const hd_net_data_t *data, uint32_t parts, void *memory);

/* --- fold.c: operands, and combining them ------------------------------------------------------------------------------------------ */

/* A table of operands in a leg's scratch: pointers, then places for them. */
typedef struct hd_operands {
    const void **pointer;
    char *place;
    size_t stride; /* from one place to the next */
} hd_operands_t;

/* Scratch for `pointers` pointers and `places` operands of so many bytes. */
size_t hd_net_operands_bytes(uint32_t pointers, uint32_t places, size_t bytes);
/* at: where the table begins in the leg's scratch, a multiple of a line. */
hd_operands_t hd_net_operands(const hd_leg_t *leg, size_t at, uint32_t pointers, size_t bytes);
static inline void *hd_net_place(const hd_operands_t *o, uint32_t i) {
    return o->place + i * o->stride;
}

/* Operands of all ranks, of so many bytes each, of which hd_net_collect gets those of others: how many there are; the table,
 * at the beginning of the leg's scratch, and how many bytes it takes; and a place in it that nothing comes to. */
uint32_t hd_net_operands_in_all(const hd_net_call_t *call);
size_t hd_net_collected_bytes(const hd_net_call_t *call, size_t bytes);
hd_operands_t hd_net_collected(const hd_leg_t *leg, size_t bytes);
void *hd_net_own_place(const hd_net_call_t *call, const hd_operands_t *o);

/* My operand of a rank's block; of several, the first one's. Blocks of no bytes are not sent. */
typedef hd_net_piece_t (*hd_net_block_fn)(const hd_net_call_t *call, uint32_t rank);
/* Of a reduction whose elements are cut evenly: hd_net_first and hd_net_count. */
hd_net_piece_t hd_net_part_of_operand(const hd_net_call_t *call, uint32_t rank);
/* Sends all others my operands of their blocks, at step 0, and gets theirs of mine into their places: all of them are in
 * o->pointer[] then, by rank, or in their order. So many at a time; again and again until it says true. Uses leg->round. */
bool hd_net_collect(hd_leg_t *leg, const hd_operands_t *o, hd_net_block_fn block, uint32_t window);

/* Where rank r's part of a reduction's elements begins, and how many it has. */
static inline size_t hd_net_first(const hd_net_call_t *call, uint32_t r) {
    return hd_net_part(call->count, call->n, r);
}
static inline size_t hd_net_count(const hd_net_call_t *call, uint32_t r) {
    return hd_net_first(call, r + 1) - hd_net_first(call, r);
}

#endif
