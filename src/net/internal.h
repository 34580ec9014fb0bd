/* internal.h: the network's data structures, with who may touch what, and what its files offer each
 * other.
 *
 * Files call downward, in this order, from the top: each calls files below it alone.
 *
 *     job                          asks other processes; for people
 *     show                         for people
 *     team_make                    making a team, and its end
 *     net                          opening and closing; what UCX brings
 *     swap                         exchanges of few bytes
 *     turn                         what a lane's holder does, and pumping
 *     sleep                        who sleeps for other processes
 *     losses, news                 what follows from losses, and from what the watch has heard
 *     ask                          answers who asks for whom the processes wait
 *     awaited                      for whom something waits, for people
 *     deaf                         whether this process still hears
 *     start, match                 legs come, and messages come
 *     plan, families               how a leg runs, and by which functions
 *     barrier ... reduce_scatter   the families of algorithms; fold: what reductions have in common
 *     leg                          sending and receiving for a leg, and its end
 *     park                         what comes before somebody expects it
 *     parts                        where the parts of swaps lie
 *     team                         the table of teams; how a team fails
 *     flow, message                how far ahead a process runs; messages
 *     lane                         what other threads hand to a lane
 *     peer, gossip                 other processes; what all of them tell each other
 *     address, algorithm, shape    plain bytes and words
 *     devices                      which network devices there are
 *     watch, watch_address, ucx, wire    below all of it, with headers of their own
 *
 * Where a file below has to reach one above it, the one above has left a pointer to a function:
 * hd_net_item.take, set by whoever hands the item; hd_message.over and .release, set by whoever
 * sends or receives the message; hd_leg.family, set when the leg is started; hd_ucx_port.arrive,
 * set when the lane is opened.
 *
 * Everything that belongs to a lane (its port, the links of peers in it, the lane's part of each
 * team, messages, parked messages, legs that were taken in) is touched by the holder of the lane's
 * lock alone. What belongs to all lanes (the table of teams, peers) has a lock of its own, under
 * which nothing else is called.
 *
 * The way of a message. A leg's algorithm calls hd_leg_send, which writes the header and hands the
 * message to UCX, or keeps it while the peer is too far behind (flow.c). In the other process UCX
 * calls the lane, which parses the header (wire.c) and looks up the team (team.c); match.c finds
 * the leg, and what the leg expects of that source at that step, or parks the message until the leg
 * is there and asks for it.
 *
 * What comes to a lane from other threads (legs that start, teams that end or fail) is an ITEM on
 * its stack.
 */
#ifndef HD_NET_INTERNAL_H
#define HD_NET_INTERNAL_H

#include "core/debug.h"
#include "core/fork.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/who.h"
#include "net/ask.h"
#include "net/net.h"
#include "net/ucx.h"
#include "net/watch.h"
#include "net/wire.h"
#include "threads/clock.h"
#include "threads/lock.h"
#include "threads/stall.h"
#include "threads/trace.h"

#include <ck_stack.h>
#include <pthread.h>
#include <stddef.h>

enum {
    HD_NET_MOST_LANES = 8,
    HD_NET_AHEAD = 16, /* numbered exchanges that a peer need not have consumed */
    /* bytes sent eagerly that a peer need not have taken: matched classes */
    HD_NET_MATCHED_QUOTA = 64 << 10,
    HD_NET_NUMBERED_QUOTA = 256 << 10, /* the same where the numbers bound how much there can be */
    /* eager data of a peer that is kept for legs to come; more fails the team */
    HD_NET_PARKED_BYTES = 16 << 20,
    HD_NET_PARKED_MESSAGES = 1 << 16,
    HD_NET_PARKED_SMALL = 192,       /* bytes of data that are kept in memory that is used again */
    HD_NET_EARLY_MESSAGES = 1 << 18, /* for teams that are not known yet, in a lane */
    HD_NET_EARLY_BYTES = 1024,       /* of one of them */
    HD_NET_EARLY_ABORTS = 1 << 14,   /* of such teams, of most of which the process never will be */
    HD_NET_EARLY_BUCKETS = 1024,
    HD_NET_EARLY_SECONDS = 3600, /* a process may come to form a team much later than the others */
    HD_NET_SWEEP_SECONDS = 10,   /* from one look for those that came longer ago to the next */
    /* after a peer was lost, until what UCX does not end with it counts as ended */
    HD_NET_ORPHAN_MS = 1000,
    /* for which who has failed still sends data that lies in memory of ours */
    HD_NET_MOMENT_MS = 1000,
    HD_NET_PACKED = 128 << 10, /* bytes up to which several pieces are sent as one */
    HD_NET_ORPHAN_TURNS = 16,  /* and so many turns */
    HD_NET_MOURN_MS = 10,      /* from one look for them to the next */
    HD_NET_QUIET_TURNS = 4, /* without progress: what a process had sent when it was lost is here */
    HD_NET_BUSY_TURNS = 4096, /* or so many, if others always send something */
    HD_NET_BUCKETS = 64,
    HD_NET_LOOK_TURNS = 1024, /* of lane 0, from one look at the watch to the next */
    HD_NET_LOOK_MS = 20,      /* or so long */
    HD_NET_CLOCK_TURNS = 16,  /* after which it is seen how long that was */
    HD_NET_LOSS_TURNS = 16,   /* from one look at the clock to the next, while there are losses */
    HD_SWAP_LAG = 12,   /* numbers that a process may be behind one that ends a swap: swap.c */
    HD_NET_CLOSED = 256 /* legs that a team's lane remembers when they are over */
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

/* --- messages --------------------------------------------------------------------------------- */

/* A message that is sent, or a rendezvous that is received. Of the lane's pool. */
struct hd_message {
    hd_ucx_request_t ucx; /* first */
    uint8_t header[HD_WIRE_BYTES];
    hd_net_lane_t *lane;
    /* in the lane's list of what is under way, a team's of what is held back, or free */
    hd_message_t *next, **at;
    /* UCX has done with the message: called once, before it goes back to the pool. Set by whoever
     * sends or receives it (leg.c, swap.c), and taken away when its owner does not wait for it any
     * more. NULL: nobody asks. UCC_ERR_IO_ERROR: the other process is lost. */
    void (*over)(hd_message_t *message, ucc_status_t status);
    hd_leg_t *leg;             /* whose it is; NULL: no leg's */
    struct hd_swap_mine *swap; /* whose part it is; NULL: no swap's, or its team has ended */
    hd_peer_t *peer;           /* of a swap: the receiver */
    uint32_t to; /* number of the receiver in the team; of one that is received: of its sender */
    bool receives;
    uint64_t trace; /* the message's name in a trace, if one is kept */
    hd_wire_t wire;
    hd_net_piece_t own; /* where there is one piece */
    const hd_net_piece_t *piece;
    uint32_t n;
    /* What has to stay until UCX has done with the message, and how it is let go then. Set by the
     * message's owner: packed pieces (leg.c), or the swaps of a team that has ended (swap.c). NULL:
     * nothing. */
    void *kept;
    void (*release)(void *kept);
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

/* --- lanes ------------------------------------------------------------------------------------ */

struct hd_net_lane {
    hd_ucx_port_t port; /* first */
    hd_lock_t lock;
    int cancelling; /* whether the thread inside may be cancelled: see hd_net_lane_enter */
    uint32_t number;
    bool moved; /* something happened in this turn */
    uint64_t turns;
    uint64_t linked;  /* ns: when a way to a peer was last made */
    uint32_t young;   /* ways made shortly after each other by then */
    uint64_t looked;  /* ns: when the watch was last looked at */
    uint64_t mourned; /* ns: when legs that need a lost peer were last looked for */
    uint32_t quiet;   /* turns in a row in which UCX brought nothing, since there are losses */
    hd_net_t *net;
    hd_leg_t *legs, **last; /* those that were taken in */
    hd_message_t *under_way;
    hd_message_t *free_messages;
    hd_expected_t *free_expected;
    hd_parked_t *free_parked;
    /* the team that a swap came for last, and that has not seen its end here; NULL: none */
    hd_net_team_t *swapping;
    hd_parked_t *early[HD_NET_EARLY_BUCKETS]; /* for teams that are not known yet, by wire id */
    uint32_t n_early, n_early_aborts;
    uint64_t swept;           /* ns: when those that came too long ago were last looked for */
    uint64_t logged;          /* ns: of the last line about a message that was dropped */
    hd_net_team_peer_t *owed; /* peers that want to hear of us */
    /* written by the holder, read by lane 0's: the last probe that has come, and how often losses
     * were looked for since that was sent */
    _Atomic uint64_t probed;
    _Atomic uint32_t listened;
    struct { /* as hd_net_traffic_t; read by any thread */
        _Atomic uint64_t messages_sent, bytes_sent, told, messages_received, bytes_received;
    } traffic;
    /* written by any thread */
    alignas(HD_LINE_PAIR) ck_stack_t handed;
};

/* --- peers ------------------------------------------------------------------------------------ */

enum { HD_NET_WAY_DESCRIPTORS = 8 /* that a way to a peer may take */ };

/* Of the lane. */
typedef struct hd_peer_link {
    hd_ucx_link_t ucx; /* first */
    hd_peer_t *peer;
    const void *address; /* of the peer's lane */
    uint64_t seen;       /* the lane's turn in which it saw that the peer is lost; 0: it has not */
    uint64_t noticed;    /* and that in which it took it for gone */
    void *closing;       /* what hd_ucx_disconnect gave then, until it is over */
    uint8_t warmth;      /* hd_warmth_t */
    bool broken;         /* UCX has said so, and has nothing in it any more */
} hd_peer_link_t;

struct hd_peer {
    uint64_t identity[2];
    /* of the net that it has open: who comes back has another one, and is another peer */
    uint64_t token[2];
    hd_peer_t *next; /* of the net's */
    hd_net_t *net;
    uint32_t lanes;
    /* lost: its ways are cut, and teams that were made before fail when they need it. Later ones
     * have another peer for the process, if that lives. left: it has said so. */
    _Atomic bool lost, left;
    _Atomic uint64_t lost_at;  /* ns; written before `lost` */
    _Atomic(const char *) why; /* it was lost: a constant, for people; written likewise */
    hd_who_t who;
    uint64_t host;      /* number of its host; 0: not known */
    bool far;           /* it is reached as a process of another host */
    uint32_t breaks;    /* peers of this process before, whose ways broke soon though it lived */
    uint64_t broken_at; /* ns: when the first of those broke */
    uint64_t made_at;   /* ns */
    bool asked;         /* lane 0's: the watch looks for it, or it is known to be gone */
    /* The other side has said that it has cut the ways; they were cut for it did not react. */
    _Atomic bool was_told, slow;
    hd_peer_link_t link[HD_NET_MOST_LANES];
    void *address; /* a copy of all of it */
    size_t address_bytes;
    const void *watch_address; /* in it, for watch.c */
    size_t watch_bytes;        /* 0: it can't be watched */
    _Atomic bool kept;         /* it is watched */
};

/* --- teams ------------------------------------------------------------------------------------ */

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
    HD_NET_FAMILIES,
    HD_NET_OF_NONE = HD_NET_FAMILIES /* of types that nobody runs among processes */
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
    /* In lane 0, written there and read in all: the first number of which it takes no part, for it
     * has left the team; 0: it has not. Before that: when it was heard, in ns. */
    _Atomic uint64_t left_before, left_at;
};

/* A team in a lane. */
struct hd_net_team_lane {
    hd_net_team_t *team;
    hd_net_item_t end, failed, abort;
    hd_leg_t *open[HD_NET_BUCKETS];
    hd_parked_t *parked[HD_NET_BUCKETS];
    /* names of legs that have ended well: nothing may come for them; 0: none */
    uint64_t closed[HD_NET_CLOSED];
    hd_message_t *held;       /* sends that wait for their receivers to come nearer */
    uint64_t floor;           /* all numbered exchanges below were consumed */
    uint64_t highest;         /* number of an exchange that was opened, and one more */
    uint32_t n_numbered;      /* open legs of numbered exchanges */
    bool greeted;             /* the processes' greeting is over */
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

/* The swaps of a team, by their numbers modulo the slots. Lane 0's holder writes parts, and whoever
 * waits for them reads. */
struct hd_net_swaps {
    uint32_t types;          /* bit t: collectives of type t may be swaps */
    bool early;              /* some wait for parts before this process has begun to give its own */
    _Atomic uint32_t users;  /* the team, and messages (hd_message.kept) */
    uint64_t latest;         /* the highest number that a part was given or has come of; lane 0's */
    uint64_t looked_for;     /* the number that lane 0's holder looks for; 0: none */
    _Atomic uint32_t n_late; /* lane 0's, looked at by others */
    hd_swap_late_t *late;    /* lane 0's */
    /* the last one that this process has begun to give its part of */
    _Atomic uint64_t begun[HD_SWAP_SLOTS];
    uint8_t needed[HD_SWAP_SLOTS];         /* bit p: of process p's part in that one; lane 0's */
    _Atomic uint64_t given[HD_SWAP_SLOTS]; /* and that it has given it of */
    _Atomic uint64_t over[HD_SWAP_SLOTS];  /* the last one that is over */
    /* for parts of more bytes, hd_net_swap_most each: [HD_SWAP_SLOTS][n], given, then taken. NULL:
     * none yet */
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
    void (*tell)(void *arg, void (*line)(void *to, const char *text), void *to);
    void *arg;
    /* around calls of failed and tell, and over `tell`: whoever destroys the team waits for their
     * end */
    hd_lock_t telling;
    bool destroyed;       /* under `telling` */
    bool leaves;          /* the others are told at the end that this process has left it, ... */
    uint64_t last;        /* ... after this exchange */
    _Atomic int failure;  /* ucc_status_t; UCC_OK: none */
    _Atomic int aborting; /* what the others are told; UCC_OK: nothing */
    bool relays; /* by who set `aborting`: another process has told; before the item is handed */
    _Atomic uint32_t lanes_left; /* that have not seen its end */
    /* net->losses when its peers were last looked at, times 2; and 1 if one of them was lost */
    _Atomic uint64_t bereft;
    hd_peer_t **peer;       /* by number; NULL: me */
    hd_net_swaps_t *swaps;  /* NULL: it has none */
    hd_net_decision_t over; /* see hd_net_team_params_t */
    uint64_t over_since;    /* ns: when lane 0 has first seen that; 0: it has not */
    hd_net_team_lane_t lane[];
};

/* --- what processes tell each other by the watch ---------------------------------------------- */

/* DEAD, ABORT, CUT, BROKEN, ASK and AGREED travel, so their numbers stay; the others are what the
 * process's own watch has found. */
typedef enum hd_words_kind {
    HD_WORDS_LOST = 1,
    HD_WORDS_LEFT,
    HD_WORDS_DEAD,
    HD_WORDS_ABORT,
    HD_WORDS_SILENT,
    HD_WORDS_UNREACHED,
    HD_WORDS_CUT,
    HD_WORDS_BROKEN,
    HD_WORDS_ASK,
    HD_WORDS_AGREED
} hd_words_kind_t;

/* What is known of the life of a process. JUDGED: it has to go, but may live. SURE: the kernel of
 * its host says so, or it has said goodbye. */
typedef enum hd_death { HD_ALIVE, HD_DEAD_JUDGED, HD_DEAD_SURE } hd_death_t;

/* As they travel, and as they are handed to lane 0. */
typedef struct hd_words {
    uint32_t kind;  /* hd_words_kind_t */
    int32_t status; /* of an ABORT: an error; of a DEAD: hd_death_t */
    /* a token; of an ABORT: a team's wire id, and 0; of a CUT: the host of whose word it is, and
     * the one that nothing of it reaches; of an ASK: the question, and 0; of an AGREED: a
     * decision's name, and 0 */
    uint64_t subject[2];
    uint64_t by[2];  /* whose word it is: a token */
    uint64_t number; /* counts that process's words; from 1 */
} hd_words_t;

_Static_assert(sizeof(hd_words_t) <= HD_WATCH_WORDS, "words fit into a frame");

/* What is known of a process by what it has said, and by what others have said of it. */
typedef struct hd_net_known {
    uint64_t token[2]; /* 0, 0: the place is free */
    uint64_t highest;  /* the highest number of its words that has come */
    uint64_t seen;     /* bit i: the number so far below has come */
    uint8_t death;     /* hd_death_t */
    uint8_t before;    /* and before it was last heard of that */
    uint32_t reached;  /* net->n_reaches when a way last led to it */
    uint32_t number;   /* see say_peers; else 0 */
} hd_net_known_t;

/* A link between two hosts is broken, at least one of them has said. */
typedef struct hd_cut {
    uint64_t host[2];
    uint64_t said[2]; /* ns: when that one has last said so; 0: it has not, or long ago */
    uint64_t since;   /* ns: when somebody first did */
    bool found;       /* this process has found the other host silent */
    /* Who goes: how many cuts of that host count; 0: this one does not. */
    uint32_t count[2];
} hd_cut_t;

/* --- a message of this process to itself ------------------------------------------------------ */

typedef struct hd_net_ping {
    hd_ucx_request_t ucx; /* first */
    uint8_t header[HD_WIRE_BYTES];
    hd_ucx_link_t link; /* to the lane */
    struct hd_net *net;
    bool under_way, broken;
} hd_net_ping_t;

/* --- who asks (ask.c) ------------------------------------------------------------------------- */

enum { HD_NET_ASKED = 16 };

/* A question that was heard of, and the token of the process that has told it. */
typedef struct hd_net_asked {
    uint64_t ask, from[2];
} hd_net_asked_t;

typedef struct hd_net_asks {
    hd_askers_t askers;
    bool ready;   /* somebody has come, or a connection is worth a look */
    bool entered; /* other lanes were: something may have been handed meanwhile */
    hd_net_asked_t asked[HD_NET_ASKED]; /* the last ones */
    uint32_t n_asked;
    uint64_t since; /* ns: when the last second of questions began, and how many it has had */
    uint32_t n_since;
} hd_net_asks_t;

/* --- the network ------------------------------------------------------------------------------ */

enum {
    HD_NET_TABLE = 256,
    HD_NET_GONE = 4096,
    HD_NET_ABORTS = 1024, /* so many are remembered */
    HD_NET_NUMBERS = 64,  /* of a process's words: those of them that come late are told apart */
};

typedef struct hd_net_address {
    void *bytes;
    size_t n;
} hd_net_address_t;

struct hd_net {
    /* far: for processes of other hosts, if the first one is for this host alone. NULL: none yet */
    struct ucp_context *context, *far;
    bool parts; /* the first one is for this host alone */
    bool stays; /* UCX has something that it can't give back before the process ends */
    uint32_t lanes;
    bool survive;            /* NET_SURVIVE */
    _Atomic bool has_losses; /* a peer has been lost since it was opened */
    _Atomic uint32_t losses; /* how many */
    uint64_t token[2];       /* random */
    uint64_t host;           /* as the watch counts hosts */
    hd_who_t who;            /* this process */
    hd_lock_t telling;       /* taken before the watch's lock, and before that below */
    uint64_t n_said;         /* words of this process; under `telling` */
    /* In lane 0: */
    _Atomic bool given_up; /* by all others; written there alone */
    uint64_t judged;       /* ns: when losses were last judged */
    hd_cut_t *cut;         /* in the order of their hosts' numbers */
    uint32_t n_cuts, cut_room;
    uint32_t n_reaches;                 /* how often it was looked whom ways lead to */
    uint64_t cuts_changed, cuts_judged; /* ns: when one was new, and when they were last judged */
    bool shares, probing;               /* UCX may use shared memory; probes are on their way */
    hd_ucx_port_t prober; /* from which they come; without a worker: none was needed yet */
    hd_net_ping_t probe[HD_NET_MOST_LANES]; /* to each lane */
    uint64_t n_probes, probed_at;           /* rounds of them; ns: when the last one began */
    uint32_t probe_looks;                   /* how often it was looked for */
    uint64_t probe_again; /* ns: when to try again, for something was lacking; 0: nothing was */
    int held[HD_UCX_DESCRIPTORS]; /* descriptors for that: n_held of them */
    uint32_t n_held;
    hd_net_asks_t asks;
    /* by lane 0's holder, while the lane has a worker, or with a reference */
    struct hd_watch *watch;
    uint64_t grace_ns, cut_off_ns;
    uint64_t silent_ns; /* after which the watch finds another host silent */
    /* What others need to reach this process: those of its host, and all. The second is there when
     * somebody has asked for it; if the first context is for all, it is the first. */
    hd_net_address_t address, far_address;
    hd_lock_t lock; /* guards what follows */
    hd_net_team_t *table[HD_NET_TABLE];
    uint64_t gone[HD_NET_GONE]; /* wire ids of teams that were destroyed, the last ones */
    uint32_t n_gone;
    hd_peer_t *peers;
    hd_net_known_t *known; /* a hash table of so many places, at most half of them in use */
    uint32_t known_room, n_known;
    /* wire ids of teams whose aborts, and names of decisions whose end, were heard or told, the
     * last */
    uint64_t aborts[HD_NET_ABORTS];
    uint32_t n_aborts;
    hd_net_decision_t *decisions; /* that somebody here awaits */
    alignas(HD_LINE_PAIR) hd_net_lane_t lane[HD_NET_MOST_LANES];
};

/* Wire ids, the last `room` of those that were noted; n counts them, and goes on from `room` when
 * it comes to twice that. Under the net's lock. */
static inline bool hd_net_is_recent(const uint64_t *ids, uint32_t room, uint32_t n, uint64_t wire) {
    uint32_t i = 0, end = n < room ? n : room;
    while (i < end && ids[i] != wire) {
        i++;
    }
    return i < end;
}
static inline void hd_net_note_recent(uint64_t *ids, uint32_t room, uint32_t *n, uint64_t wire) {
    ids[(*n)++ % room] = wire;
    *n = *n == 2 * room ? room : *n;
}

/* --- algorithm.c: the words for algorithms ---------------------------------------------------- */

/* hd_net_family_t of a collective's type. */
extern const uint8_t hd_net_family_of[HD_N_TYPES];

/* The algorithm that the configuration calls so; HD_NET_NOTHING: none is. */
hd_net_algorithm_t hd_net_algorithm_named(const char *word);

/* --- shape.c: trees, and cutting data --------------------------------------------------------- */

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

/* --- devices.c -------------------------------------------------------------------------------- */

/* UCC_ERR_INVALID_PARAM: this host has not all of these network devices ("all", or names with
 * commas), or they are down: a line names the variable, and those that there are. */
ucc_status_t hd_net_check_devices(const char *variable, const char *devices);
bool hd_net_has_device(const char *name);

/* --- address.c: what a process's address says ------------------------------------------------- */

/* What a process's address says. */
typedef struct hd_net_reach {
    uint32_t lanes;
    uint64_t token[2];
    hd_who_t who;
    const void *lane[HD_NET_MOST_LANES]; /* each one's address */
    const void *far[HD_NET_MOST_LANES];  /* for other hosts; where there is none apart, the same */
    uint64_t host;                       /* as the watch counts hosts */
    const void *watch;
    size_t watch_bytes; /* 0: none */
} hd_net_reach_t;

/* False: it is malformed. */
bool hd_net_address_parse(const void *address, size_t bytes, hd_net_reach_t *reach);
/* The process's own, from its lanes and its watch. far: with what other hosts need. */
ucc_status_t hd_net_address_make(hd_net_t *net, bool far, hd_net_address_t *address);

/* --- gossip.c: what all processes tell each other --------------------------------------------- */

/* Have the others given up this process? */
static inline bool hd_net_is_given_up(const hd_net_t *net) {
    /* relaxed: looked at again */
    return atomic_load_explicit(&net->given_up, memory_order_relaxed);
}

/* Who hears them, of those who are connected later? What is said of a link is of that moment. Who
 * does not know of a death makes teams with the dead. */
static inline hd_watch_relay_t hd_words_last(const hd_words_t *words) {
    bool lasts = words->kind == HD_WORDS_ABORT || words->kind == HD_WORDS_AGREED;
    return words->kind == HD_WORDS_DEAD ? HD_WATCH_EVER
           : lasts                      ? HD_WATCH_ALL
                                        : HD_WATCH_THOSE_HERE;
}
/* Is it the first time that these words are heard, or said, and do they count? They are known from
 * then on. from: the process that has told them to this one. */
bool hd_words_are_new(hd_net_t *net, const hd_words_t *words, const uint64_t from[2]);
/* Nothing has come of them here: when somebody says them again, they are new. */
void hd_words_forget(hd_net_t *net, const hd_words_t *words);
/* Has somebody said that the process with this token is dead? */
bool hd_net_is_dead(hd_net_t *net, const uint64_t token[2]);
bool hd_net_is_surely_dead(hd_net_t *net, const uint64_t token[2]);
/* All tell all processes that can be reached, once: that a process is dead, that nothing reaches
 * another host from this one, that the ways from this process to another one are cut, and that a
 * team was aborted. */
void hd_net_tell_dead(hd_net_t *net, const uint64_t token[2], hd_death_t death);
void hd_net_tell_broken(hd_net_t *net, const uint64_t token[2]);
void hd_net_tell_cut(hd_net_t *net, uint64_t host);
/* The same of a question: for whom do you wait? */
void hd_net_tell_ask(hd_net_t *net, uint64_t ask);
/* Makes room for what that process says, and for what is said of it. False: no memory. */
bool hd_gossip_meet(hd_net_t *net, const uint64_t token[2]);
/* What is known of the process with this token. NULL: nothing is. The caller holds the net's
 * lock. */
hd_net_known_t *hd_gossip_find(const hd_net_t *net, const uint64_t token[2]);
/* Forgets all. By the thread that closes the net. */
void hd_gossip_clear(hd_net_t *net);

/* --- peer.c: other processes, and the ways to them -------------------------------------------- */

static inline bool hd_net_same_token(const uint64_t one[2], const uint64_t other[2]) {
    return one[0] == other[0] && one[1] == other[1];
}
/* The latest peer with this token; NULL: there is none. The caller holds the net's lock. */
static inline hd_peer_t *hd_net_peer_with(const hd_net_t *net, const uint64_t token[2]) {
    hd_peer_t *peer = net->peers;
    while (peer && !hd_net_same_token(peer->token, token)) {
        peer = peer->next;
    }
    return peer;
}
/* The same; the caller holds no lock of the net's. */
hd_peer_t *hd_peer_find(hd_net_t *net, const uint64_t token[2]);
/* The peer for new teams that the process is, looked up or made. NULL: no memory, or the address is
 * malformed (logged). */
hd_peer_t *hd_peer_of(hd_net_t *net, const hd_net_process_t *process);
/* The way to the peer in that lane, made if there is none. NULL: the peer is lost. */
const hd_ucx_link_t *hd_peer_link(hd_peer_t *peer, hd_net_lane_t *lane);
/* From now on nothing is sent to the peer, in any lane. Teams that need it fail when all that it
 * has sent before has come (losses.c). The process may live: news.c finds that out. */
void hd_peer_lose(hd_peer_t *peer, const char *why);
/* The first of the net's peers, which stay; others come before it. */
hd_peer_t *hd_peer_first(hd_net_t *net);
/* Loses all peers of the process with this token; and does so because it has closed its network. */
void hd_peer_lose_all(hd_net_t *net, const uint64_t token[2], const char *why);
void hd_peer_part(hd_net_t *net, const uint64_t token[2]);
/* The number in the team of one of its processes. */
uint32_t hd_net_number_of(const hd_net_team_t *team, const hd_peer_t *peer);
/* May its process live, as far as is known, and has it not given up this one? */
bool hd_peer_lives(hd_peer_t *peer);
/* Is the peer gone, and has all come that it sent in this lane? ns: now. Under the lane's lock. */
bool hd_peer_is_gone(const hd_peer_t *peer, const hd_net_lane_t *lane, uint64_t ns);
/* Would UCX end this process if the peer's way in this lane were cut? Under the lane's lock. */
bool hd_peer_must_stay(const hd_net_lane_t *lane, const hd_peer_t *peer);
/* Ends all of a lane's links: waits a second at most. False: UCX would end the process over what is
 * left. */
bool hd_peer_close_links(hd_net_t *net, hd_net_lane_t *lane);
void hd_peer_free_all(hd_net_t *net);

/* --- lane.c: a lane's lock, and what is handed to it ------------------------------------------ */

/* A count of the lane's, whose only writer holds its lock. relaxed: whoever reads it wants the
 * number alone. */
static inline void hd_net_add_up(_Atomic uint64_t *count, uint64_t more) {
    uint64_t was = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, was + more, memory_order_relaxed);
}

/* Tries the lock. UCX's system calls would end a thread that is cancelled, and nobody else could
 * ever enter. */
static inline bool hd_net_lane_enter(hd_net_lane_t *lane) {
    bool entered = hd_lock_try(&lane->lock);
    if (entered) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &lane->cancelling);
    }
    return entered;
}
/* The caller looks afterwards whether something was handed: the unlocking comes before that look
 * (lane.c). */
static inline void hd_net_lane_unlock(hd_net_lane_t *lane) {
    int cancelling = lane->cancelling;
    hd_unlock_first(&lane->lock);
    pthread_setcancelstate(cancelling, NULL);
}
/* Hands an item, whose `take` is set, to the lane, whose next turn takes it in. Any thread. */
void hd_net_lane_hand(hd_net_lane_t *lane, hd_net_item_t *item);
/* Is something on the stack? The answer may be true for a moment after all was taken: then a turn
 * is taken in vain. */
static inline bool hd_net_lane_was_handed(const hd_net_lane_t *lane) {
    return ck_pr_load_ptr(&lane->handed.head) != NULL;
}
/* Under the lock: takes in what was handed. False: nothing was. */
bool hd_net_lane_take(hd_net_lane_t *lane);
/* Under the lock: may a line be logged about a message that is dropped? One line a second. */
bool hd_net_lane_may_log(hd_net_lane_t *lane);

/* --- message.c: under the lane's lock --------------------------------------------------------- */

/* A message of the lane's pool, without an owner. NULL: no memory. */
hd_message_t *hd_message_get(hd_net_lane_t *lane);
void hd_message_put(hd_message_t *message);
/* Puts a message into a list, and takes it out of the one that it is in. */
void hd_message_link(hd_message_t **list, hd_message_t *message);
void hd_message_unlink(hd_message_t *message);
/* Sends a message, whose header, pieces and owner are set, over that link. The message may be over,
 * and gone, when this returns. */
void hd_message_send(hd_message_t *message, const hd_ucx_link_t *link, size_t header_bytes,
                     hd_ucx_way_t way);
/* The same: writes the header from message->wire, and finds the link to the team's process
 * message->to. */
void hd_message_send_wire(hd_net_team_lane_t *tl, hd_message_t *message, hd_ucx_way_t way);
/* Receives a rendezvous into the message's pieces. data: what names it (hd_ucx_receive). */
void hd_message_receive(hd_message_t *message, void *data);
/* Tells the message's owner of its end, and puts it back into the pool. It is in no list. */
void hd_message_end(hd_message_t *message, ucc_status_t status);
/* Sends a credit or an abort to the team's process `to`: a message without an owner. */
void hd_message_tell(hd_net_team_lane_t *tl, uint32_t to, const hd_wire_t *wire);
/* Names the message in a trace: the same at both ends, and of no other message. to: number of the
 * receiver. */
uint64_t hd_message_id(const hd_wire_t *wire, uint32_t to);
/* Frees what is left of the lane's messages. By the thread that closes the net. */
void hd_message_clear(hd_net_lane_t *lane);

static inline hd_net_lane_t *hd_net_team_lane_of(const hd_net_team_lane_t *tl) {
    return &tl->team->net->lane[tl - tl->team->lane];
}

/* --- flow.c: how far ahead -------------------------------------------------------------------- */

/* A leg's message, whose wire, pieces and receiver are set, goes out, now or when its receiver has
 * come near enough. */
void hd_flow_send(hd_message_t *message);
/* Takes note of what the header of a message from that peer says. */
void hd_flow_in(hd_net_team_peer_t *peer, const hd_wire_t *wire);
/* A leg has taken the message that has this header. */
void hd_flow_taken(hd_net_team_peer_t *peer, const hd_wire_t *wire);
/* A leg has come into the table of open ones, and has left it. */
void hd_flow_opened(hd_net_team_lane_t *tl, const hd_leg_t *leg);
void hd_flow_closed(hd_net_team_lane_t *tl, const hd_leg_t *leg);
/* Sends the credits that the lane owes, and what was held back and may go now. */
void hd_flow_pay(hd_net_lane_t *lane);
/* The team's end: the lane owes nothing to its peers any more. */
void hd_flow_forget(hd_net_team_lane_t *tl);

/* --- team.c: the table of teams, and how a team fails ----------------------------------------- */

/* The processes so far behind and ahead of process i, in a circle. */
static inline uint32_t hd_net_team_behind(const hd_net_team_t *team, uint32_t i, uint32_t by) {
    return (uint32_t)(((uint64_t)i + team->n - by) % team->n);
}
static inline uint32_t hd_net_team_ahead(const hd_net_team_t *team, uint32_t i, uint32_t by) {
    return (uint32_t)(((uint64_t)i + by) % team->n);
}

/* The team of that wire id, for the holder of that lane's lock. NULL: there is none, or it does not
 * use that lane, in which its end would not be seen; *gone: it was here, and is destroyed. */
hd_net_team_t *hd_net_team_find(const hd_net_lane_t *lane, uint64_t wire, bool *gone);
/* Messages find the team from now on. False: there is another one of its wire id. */
bool hd_net_team_enter(hd_net_team_t *team);
/* Messages do not find the team any more, and its wire id is remembered. */
void hd_net_team_forget(hd_net_team_t *team);
/* The team is lost, here and, as the other processes are told, elsewhere; the first cause counts.
 * Under a lane's lock. */
void hd_net_team_fail(hd_net_team_t *team, ucc_status_t why);
/* Another process has said that the team is lost: it is, and this process's neighbours are told.
 * Under a lane's lock. */
void hd_net_team_relay(hd_net_team_t *team, ucc_status_t why);
/* The process of number `source` has left the team: takes note of that. In lane 0. */
void hd_net_team_left(hd_net_team_t *team, uint32_t source, uint64_t last);
/* Has the process left before that exchange, of which nothing of it will come any more? ns: now. */
bool hd_net_team_lacks(const hd_net_team_t *team, uint32_t process, const hd_net_key_t *key,
                       uint64_t ns);
/* The process of number `source` was called with other arguments: logs that, and fails the team.
 * Under a lane's lock. */
void hd_net_team_differs(hd_net_team_t *team, uint32_t source);

/* Is a peer of the team's lost? */
bool hd_net_team_look_for_losses(hd_net_team_t *team);
static inline bool hd_net_team_is_bereft(hd_net_team_t *team) {
    /* relaxed, both: looked at again and again */
    uint64_t losses = atomic_load_explicit(&team->net->losses, memory_order_relaxed),
             seen = atomic_load_explicit(&team->bereft, memory_order_relaxed);
    return seen >> 1 == losses ? seen & 1 : hd_net_team_look_for_losses(team);
}

static inline ucc_status_t hd_net_team_failure(const hd_net_team_t *team) {
    if (team->forks != hd_forks()) {
        return UCC_ERR_NOT_SUPPORTED; /* inherited: as every group in the child of a fork */
    }
    /* relaxed: says nothing of other memory */
    return (ucc_status_t)atomic_load_explicit(&team->failure, memory_order_relaxed);
}

/* --- parts.c: where the parts of swaps lie ---------------------------------------------------- */

static inline uint32_t hd_swap_slot(uint64_t k) {
    return (uint32_t)(k % HD_SWAP_SLOTS);
}
static inline hd_swap_part_t *hd_swap_part_of(const hd_net_team_t *team, uint64_t k,
                                              uint32_t process) {
    return &team->swaps->part[hd_swap_slot(k) * team->n + process];
}
/* Where a long part is given, or was taken. */
static inline uint8_t *hd_swap_long_of(const hd_net_team_t *team, uint64_t k, uint32_t process,
                                       bool taken) {
    size_t which = 2 * ((size_t)hd_swap_slot(k) * team->n + process) + taken;
    /* acquire: pairs with hd_net_swap_reserve */
    return atomic_load_explicit(&team->swaps->longs, memory_order_acquire) +
           which * hd_net_swap_most(team->n);
}
static inline bool hd_swap_has_part(const hd_net_team_t *team, uint64_t k, uint32_t process) {
    /* acquire: the part; see parts.c */
    return atomic_load_explicit(&hd_swap_part_of(team, k, process)->k, memory_order_acquire) == k;
}
/* Where the bytes of a part that has come are. */
static inline uint8_t *hd_swap_bytes_of(const hd_net_team_t *team, uint64_t k, uint32_t process,
                                        uint32_t bytes) {
    return bytes > HD_SWAP_BYTES ? hd_swap_long_of(team, k, process, true)
                                 : hd_swap_part_of(team, k, process)->data;
}

/* Bit t: collectives of type t may be swaps, for no other way is asked for. */
uint32_t hd_net_swap_types(const uint8_t choice[HD_NET_FAMILIES]);
/* Makes a team's swaps. NULL: no memory. */
hd_net_swaps_t *hd_net_swaps_create(const hd_net_team_t *team, bool early);
/* Called by a team at its end, or by a message that outlives it: the last user frees the swaps.
 * NULL: nothing to do. */
void hd_net_swaps_leave(hd_net_swaps_t *swaps);
/* Is exchange k a swap here, and has this process begun to give its part? And, in lane 0, has a
 * part of another come? */
bool hd_net_swap_has_begun(const hd_net_team_t *team, uint64_t k);
bool hd_net_swap_has_come(const hd_net_team_t *team, uint64_t k, uint32_t *source);

/* --- park.c: what comes before somebody expects it; under the lane's lock --------------------- */

/* Where legs of this key, and what is parked for them, hang in a team's lane. */
uint32_t hd_park_bucket(const hd_net_key_t *key, uint32_t segment);
/* A leg of this key has ended well, and is remembered. */
bool hd_park_was_closed(hd_net_team_lane_t *tl, const hd_net_key_t *key, uint32_t segment);
/* Numbered exchange k is a swap for one process: is it, or was it, something else here (leg), or
 * for a process that has sent something (parked)? */
bool hd_park_has_leg(hd_net_team_lane_t *tl, uint64_t k);
bool hd_park_has_parked(const hd_net_team_lane_t *tl, uint64_t k, uint32_t *source);
/* Parks a message in a list of the team's lane or of a leg. */
hd_ucx_arrival_t hd_park(hd_net_team_lane_t *tl, hd_parked_t **list, const hd_wire_t *wire,
                         void *data, bool rendezvous);
/* A message that is parked with the leg, unlinked; the caller drops it. NULL: none is of that
 * source and step. */
hd_parked_t *hd_park_find(hd_leg_t *leg, uint32_t source, uint32_t step);
void hd_park_drop(hd_net_lane_t *lane, hd_parked_t *parked);
/* Drops all that is parked in a team's lane. */
void hd_park_drop_all(hd_net_team_lane_t *tl);
/* The leg is over: messages do not find it any more, and what is left with it goes. */
void hd_park_close(hd_leg_t *leg);

/* A message has come for a team that is not known here, maybe not yet. */
hd_ucx_arrival_t hd_park_early(hd_net_lane_t *lane, const hd_wire_t *wire, void *data,
                               bool rendezvous);
/* An early message for that team, unlinked; the caller drops it. NULL: there is no more. */
hd_parked_t *hd_park_next_early(hd_net_lane_t *lane, uint64_t wire);
/* Drops and frees what is left in the lane. By the thread that closes the net. */
void hd_park_clear(hd_net_lane_t *lane);

/* --- leg.c: under the lane's lock ------------------------------------------------------------- */

/* Algorithms call these. Failures are the leg's. to, from: ranks. The data stays as it is while the
 * leg lasts. */
void hd_leg_send(hd_leg_t *leg, uint32_t step, uint32_t to, const hd_net_data_t *data);
void hd_leg_send_bytes(hd_leg_t *leg, uint32_t step, uint32_t to, const void *at, size_t bytes);
void hd_leg_receive(hd_leg_t *leg, uint32_t step, uint32_t from, const hd_net_data_t *data);
void hd_leg_receive_bytes(hd_leg_t *leg, uint32_t step, uint32_t from, void *at, size_t bytes);
/* The message is what the leg expected; its data, or a rendezvous, is moved into place. */
hd_ucx_arrival_t hd_leg_take(hd_leg_t *leg, hd_expected_t *expected, const hd_wire_t *wire,
                             void *data, bool rendezvous);
/* Fails the leg; the first cause counts. tell: the other processes must know, too: the team is
 * lost. */
void hd_leg_fail(hd_leg_t *leg, ucc_status_t why, bool tell);
/* Frees the lane's pool of what legs expect. By the thread that closes the net. */
void hd_leg_clear(hd_net_lane_t *lane);

static inline uint32_t hd_leg_number_of(const hd_leg_t *leg, uint32_t rank) {
    return leg->call.process ? leg->call.process[rank] : rank;
}
static inline hd_net_team_lane_t *hd_leg_tl(const hd_leg_t *leg) {
    return &leg->team->lane[leg->lane];
}

/* --- fold.c: operands, and combining them ----------------------------------------------------- */

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

/* Operands of all ranks, of so many bytes each, of which hd_net_collect gets those of others: how
 * many there are; the table, at the beginning of the leg's scratch, and how many bytes it takes;
 * and a place in it that nothing comes to. */
uint32_t hd_net_operands_in_all(const hd_net_call_t *call);
size_t hd_net_collected_bytes(const hd_net_call_t *call, size_t bytes);
hd_operands_t hd_net_collected(const hd_leg_t *leg, size_t bytes);
void *hd_net_own_place(const hd_net_call_t *call, const hd_operands_t *o);

/* My operand of a rank's block; of several, the first one's. Blocks of no bytes are not sent. */
typedef hd_net_piece_t (*hd_net_block_fn)(const hd_net_call_t *call, uint32_t rank);
/* Of a reduction whose elements are cut evenly: hd_net_first and hd_net_count. */
hd_net_piece_t hd_net_part_of_operand(const hd_net_call_t *call, uint32_t rank);
/* Sends all others my operands of their blocks, at step 0, and gets theirs of mine into their
 * places: all of them are in o->pointer[] then, by rank, or in their order. So many at a time;
 * again and again until it says true. Uses leg->round. */
bool hd_net_collect(hd_leg_t *leg, const hd_operands_t *o, hd_net_block_fn block, uint32_t window);

/* Where rank r's part of a reduction's elements begins, and how many it has. */
static inline size_t hd_net_first(const hd_net_call_t *call, uint32_t r) {
    return hd_net_part(call->count, call->n, r);
}
static inline size_t hd_net_count(const hd_net_call_t *call, uint32_t r) {
    return hd_net_first(call, r + 1) - hd_net_first(call, r);
}

/* --- the families ----------------------------------------------------------------------------- */

/* One step each: UCC_INPROGRESS, or UCC_OK when all has been begun and has come. */
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
size_t hd_net_bcast_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan);
size_t hd_net_allgather_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan);
size_t hd_net_gather_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan);
size_t hd_net_scatter_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan);
size_t hd_net_allreduce_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan);
size_t hd_net_reduce_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan);
size_t hd_net_reduce_scatter_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan);

/* --- families.c ------------------------------------------------------------------------------- */

typedef struct hd_net_family_row {
    ucc_status_t (*step)(hd_leg_t *leg); /* NULL: there is no such collective among processes */
    size_t (*scratch)(const hd_net_call_t *call, const hd_net_plan_t *plan); /* NULL: none */
} hd_net_family_row_t;

extern const hd_net_family_row_t hd_net_families[HD_NET_FAMILIES + 1]; /* by hd_net_family_t */

/* --- plan.c ----------------------------------------------------------------------------------- */

/* hd_net_plan_of, with the choices of a configuration. */
hd_net_plan_t hd_net_plan_with(const uint8_t choice[HD_NET_FAMILIES], const hd_net_call_t *call,
                               size_t bytes);

/* --- match.c: under the lane's lock ----------------------------------------------------------- */

/* A message has come that is no swap. */
hd_ucx_arrival_t hd_net_match_arrive(hd_net_lane_t *lane, const void *header, size_t header_bytes,
                                     void *data, size_t bytes, bool rendezvous);
/* Messages for the leg find it from now on, and those that came before. */
void hd_net_match_open(hd_leg_t *leg);
/* Some process has said that the team was aborted, which may not be known here yet. */
void hd_net_match_aborted(hd_net_lane_t *lane, uint64_t wire, ucc_status_t why);

/* --- cuts.c: in lane 0 ------------------------------------------------------------------------ */

/* Nothing reaches that host from this one. found: this process itself has found that. */
void hd_cuts_find(hd_net_t *net, uint64_t host, bool found);
/* A process of host `by` says that nothing reaches `other` from there. */
void hd_cuts_hear(hd_net_t *net, uint64_t by, uint64_t other);
/* In so many of the last ns nothing was heard of anybody. */
void hd_cuts_miss(hd_net_t *net, uint64_t missed, uint64_t now);
/* Gives up hosts that are gone. True: this process has to go. */
bool hd_cuts_judge(hd_net_t *net, uint64_t now);
/* Forgets all. By the thread that opens the net. */
void hd_cuts_clear(hd_net_t *net);

/* --- news.c: what follows from what is heard by the watch ------------------------------------- */

void hd_net_watch_open(hd_net_t *net, const hd_config_t *config);
void hd_net_watch_close(hd_net_t *net);
/* The peer is watched, or can't be. Under lane 0's lock. */
bool hd_net_watch_is_settled(hd_net_t *net, const hd_peer_t *peer);
/* Watches the peer, if its address says how. The caller has a reference to the net. */
void hd_net_watch_keep(hd_net_t *net, hd_peer_t *peer);
/* An operation needs the peer, which is lost: the others have to hear of that if it has left. What
 * has become of it otherwise, hd_net_judge finds out. Under a lane's lock. */
void hd_net_miss(hd_net_t *net, hd_peer_t *peer);
/* Nothing has come of the peer's host for long. In lane 0. */
void hd_net_lose_silent(hd_net_t *net, hd_peer_t *peer);
/* Finds out what has become of peers that were lost, and of hosts that are cut off. Called in lane
 * 0, now and then. */
void hd_net_judge(hd_net_t *net, uint64_t now);

/* --- deaf.c: in lane 0 ------------------------------------------------------------------------ */

/* A process of this host has died: begins to find out whether this one still hears. */
void hd_net_probe(hd_net_t *net);
/* Holds the descriptors that a prober will take, all or none; and closes those that are held. */
void hd_net_hold(hd_net_t *net);
void hd_net_let_go(hd_net_t *net);
/* True, once: a lane hears no more. */
bool hd_net_is_deaf(hd_net_t *net, uint64_t now);
/* False: UCX would end the process over what is left. By the thread that closes the net. */
bool hd_net_close_prober(hd_net_t *net);

/* --- losses.c --------------------------------------------------------------------------------- */

/* Fails the lane's legs that need peers that were lost, and cuts the ways to those. Under its
 * lock. */
void hd_net_tell_losses(hd_net_lane_t *lane);

/* --- ask.c: in lane 0, under its lock --------------------------------------------------------- */

/* listens: at a socket of this process's; else it only answers to others' questions. */
void hd_ask_open(hd_net_t *net, bool listens);
/* Before that, and before there is a watch: nobody asks. */
void hd_ask_clear(hd_net_t *net);
/* Before the watch is closed; and in the child of a fork. */
void hd_ask_close(hd_net_t *net);
void hd_ask_abandon(hd_net_t *net);
/* Takes questions, if the watch has seen that there are some. */
void hd_ask_look(hd_net_t *net);
/* Another process has told of a question: answers it. */
void hd_ask_hear(hd_net_t *net, uint64_t ask, const uint64_t from[2]);
/* The watch calls these, under its lock: somebody asks; a mail has come. */
void hd_ask_asked(void *net);
void hd_ask_mail(void *net, const void *bytes, size_t n);

/* --- awaited.c -------------------------------------------------------------------------------- */

enum { HD_NET_AWAITED = 64 };

/* Processes of a team that are waited for, by their numbers; no more than there is room for. */
typedef struct hd_net_awaited {
    uint32_t n, process[HD_NET_AWAITED];
} hd_net_awaited_t;

/* What is known of the peer, as a clause (", which is stopped"). False: that it is there, or
 * nothing. The caller is not in a call of the watch's. */
bool hd_peer_say(hd_peer_t *peer, hd_text_t *text);
/* For whom a leg waits, under its lane's lock, or swap k, which has begun: adds them to *all, too,
 * unless that is NULL. False: for nobody, as far as can be seen. */
bool hd_leg_say(const hd_leg_t *leg, hd_text_t *text, hd_net_awaited_t *all);
bool hd_swap_say(const hd_net_team_t *team, uint64_t k, hd_text_t *text, hd_net_awaited_t *all);

/* --- sleep.c ---------------------------------------------------------------------------------- */

/* What threads sleep on, made by the first call. arm: as hd_fd_waiter has it; NULL is returned if
 * there is no descriptor. */
struct hd_fd_waiter *hd_net_sleep_on(uint32_t (*arm)(struct hd_fd_waiter *outside, int *fds));
/* A thread that may not look again has moved something: whoever sleeps in the lanes' descriptors
 * looks, and arms them anew. */
void hd_net_rouse(void);

/* --- turn.c ----------------------------------------------------------------------------------- */

/* One turn, under the lane's lock. */
void hd_net_lane_turn(hd_net_lane_t *lane);
/* Enters the lane, and takes turns until nothing moves. False: another thread is in it. */
bool hd_net_lane_pump(hd_net_lane_t *lane);
/* Unlocks the lane, and takes in what was handed meanwhile. */
void hd_net_lane_leave(hd_net_lane_t *lane);
/* A descriptor that will be readable if the lane is worth a turn; -1: it is now, or somebody is in
 * it. watch: one more, likewise; -1: none. */
int hd_net_lane_arm(hd_net_lane_t *lane, int *watch);

/* --- swap.c: under lane 0's lock -------------------------------------------------------------- */

/* A message has come that is a swap. */
hd_ucx_arrival_t hd_net_swap_arrive(hd_net_lane_t *lane, const void *header, size_t header_bytes,
                                    const void *data, size_t bytes, bool rendezvous);
/* The team's end in lane 0. */
void hd_net_swap_forget(hd_net_lane_t *lane, const hd_net_team_t *team);

/* --- net.c ------------------------------------------------------------------------------------ */

/* One more reference, by somebody who has one. */
void hd_net_keep(hd_net_t *net);

/* --- team_make.c ------------------------------------------------------------------------------ */

/* What the configuration says of each family. */
void hd_net_read_choices(uint8_t choice[HD_NET_FAMILIES], const hd_config_t *config);

#endif
