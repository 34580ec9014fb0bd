/* span.h: teams of several processes: what other folders may use of span/. form/ makes spans and
 * crossings and lets processes greet each other; request/ asks for each call how it crosses;
 * device/ adds ways of its own (internal.h); shm calls back through the stages.
 *
 *   SPAN      which endpoints live in which process: of a team, or of an active set of it.
 *             Processes are numbered by their lowest endpoints, so all of them have the same
 *             picture. A span does not change once it is made
 *   CROSSING  what a team of several processes has beside its group: its span, its processes as the
 *             net knows them, and what swaps and flights need. There is one per process and team;
 *             it hangs on the group and is freed with it
 *
 * In a team of several processes the group, its board and its members are those of this process:
 * numbers in shm/ (place.me, place.n, member numbers) are local ones. team->n, team->ep, roots, and
 * the entries of counts are the whole team's.
 */
#ifndef HD_SPAN_SPAN_H
#define HD_SPAN_SPAN_H

#include "span/obstacle.h"
#include "core/log.h"
#include "net/net.h"
#include "shm/outer.h"
#include "threads/lock.h"
#include "threads/meet.h"

typedef struct hd_crossing hd_crossing_t;

typedef struct hd_span {
    uint32_t n; /* endpoints in all processes */
    bool even;  /* every process has the same number of endpoints */
    /* `together` is the largest of 1, 8, 64, ... below n such that each block of so many
     * consecutive endpoints lives in one process; `blocks` says how many such blocks there are. If
     * each process has exactly one block, a reduction that combines process by process has the same
     * bits as one inside a single process. */
    uint32_t together, blocks;
    uint32_t processes, mine;   /* how many processes; the number of this one */
    const uint32_t *process_of; /* by endpoint: the process it lives in */
    const uint32_t *local_of;   /* by endpoint: its number in that process's group */
    /* by process, with one entry more at the end: where its endpoints begin in `endpoint` */
    const uint32_t *first;
    const uint32_t *endpoint; /* the endpoints, process by process, ascending in each */
    /* likewise of those blocks: where a process's begin in `block`, which has their numbers */
    const uint32_t *first_block, *block;
    /* by process of a set: its number in the team's span. The numbers are not sorted, because a set
     * may go down or skip a process's lowest endpoint. NULL: the numbers are the same */
    const uint32_t *team_process;
    hd_subset_t set;      /* the active set whose span this is; n is 0: the whole team's */
    uint64_t set_hash;    /* names the set in messages; 0: the whole team's */
    struct hd_span *next; /* in the crossing's list of spans of active sets */
} hd_span_t;

static inline uint32_t hd_span_count(const hd_span_t *span, uint32_t process) {
    return span->first[process + 1] - span->first[process];
}
/* Returns how many blocks of `together` endpoints live in that process. */
static inline uint32_t hd_span_blocks(const hd_span_t *span, uint32_t process) {
    return span->first_block[process + 1] - span->first_block[process];
}
/* Returns the number, among the span's endpoints, of local member i of that process. */
static inline uint32_t hd_span_endpoint(const hd_span_t *span, uint32_t process, uint32_t i) {
    return span->endpoint[span->first[process] + i];
}

/* Makes a span, which its owner gives to hd_free. process_of: by endpoint, any numbers that tell
 * processes apart; my_endpoint: one of this process's. NULL: no memory (logged). */
hd_span_t *hd_span_create(uint32_t n, const uint32_t *process_of, uint32_t my_endpoint);
/* The same of an active set of the team, which must have a member in this process. */
hd_span_t *hd_span_of_set(const hd_span_t *team, const hd_subset_t *set);

/* The NODES of a team or of an active set, if some processes of the team share memory and others
 * don't (form/roll.h): the processes of a node have one group, and what crosses goes between nodes,
 * by one process of each, its CARRIER. */
typedef struct hd_nodes {
    hd_span_t *span; /* which endpoints live on which node: each counts as a process there */
    uint32_t least;  /* processes of the node that has the fewest */
    /* by node, with one entry more: where its processes begin in `process`, which has their numbers
     * in the team, ascending on each node */
    uint32_t *first, *process;
    struct hd_nodes *next; /* in the crossing's list of those of active sets */
} hd_nodes_t;

/* Returns the process that carries the number-th piece of work for that node. All processes find
 * the same ones, without a message. */
static inline uint32_t hd_nodes_carrier(const hd_nodes_t *nodes, uint32_t node, uint64_t number) {
    return nodes->process[nodes->first[node] + number % nodes->least];
}

/* Makes the nodes of these processes' endpoints. span: theirs, by node; taken over, also on an
 * error. NULL: no memory (logged). */
hd_nodes_t *hd_nodes_create(const hd_span_t *processes, hd_span_t *span);
void hd_nodes_free(hd_nodes_t *nodes);

/* An endpoint of this process, in a team and those that were made of its survivors. Its ERA begins
 * with the last agreement that it has begun in any of them. */
typedef struct hd_origin_member {
    uint64_t calls;  /* for a team of survivors */
    uint64_t era;    /* names the agreement, the same in all processes; 0: there was none */
    bool has_shrunk; /* it has called since the era began */
} hd_origin_member_t;

/* A team that was not made of the survivors of another one, as those know it that were made of its
 * own, one after the other (form/shrink.c): shared by the crossings of all of them in this
 * process. */
typedef struct hd_origin {
    _Atomic uint32_t refs;
    uint64_t wire;         /* the team's */
    uint32_t n;            /* its endpoints */
    uint64_t serial;       /* endpoints meet by it */
    hd_lock_t lock;        /* guards what follows */
    hd_fingerprint_t left; /* the survivors at the last attempt to make a team of them, ... */
    uint64_t era;          /* ... the era of that attempt, ... */
    uint64_t attempts;     /* ... and how many attempts there were with these survivors in it */
    uint64_t *failed;      /* a bit for each endpoint that an agreement has found failed */
    /* Of an agreement (hd_crossing_origin): its number, and another one's; under the lock of the
     * crossing's own origin. */
    uint64_t number;
    struct hd_origin *next;
    hd_origin_member_t member[]; /* of this process's endpoints, in the order of their numbers */
} hd_origin_t;

/* Of a team with this wire id and this span; one reference. NULL: no memory. */
hd_origin_t *hd_origin_create(uint64_t wire, const hd_span_t *span);
void hd_origin_keep(hd_origin_t *origin);
void hd_origin_drop(hd_origin_t *origin);
/* Stands for a team with that origin in its endpoints' agreement of that number. agreements: the
 * list of all of these, for whoever has the team; hd_origins_drop ends it. As hd_crossing_origin.
 */
hd_origin_t *hd_origin_of_agreement(hd_origin_t *team, hd_origin_t **agreements, uint64_t wire,
                                    const hd_span_t *span, uint64_t number);
void hd_origins_drop(hd_origin_t *origins);
/* Stands for the crossing's team in its endpoints' agreement of that number: all teams of that one
 * have wire ids, meetings and attempts of their own. The endpoints of this process share it; the
 * caller gets a reference. NULL: no memory (logged). */
hd_origin_t *hd_crossing_origin(hd_crossing_t *crossing, uint64_t number);

/* A pool keeps memory of legs and flights that is too large for each exchange to keep its own
 * (flight.c). The blocks are in no order. The next leg gets what the last one has given back, which
 * is mapped and in the caches, instead of pages that nobody has touched. */
enum { HD_POOL_BLOCKS = 16, HD_POOL_BYTES = 16 << 20 };

typedef struct hd_scratch {
    uint8_t *at;
    size_t room;
} hd_scratch_t;

typedef struct hd_pool {
    hd_lock_t lock; /* no other lock is taken while it is held */
    uint32_t n;
    size_t bytes; /* of all blocks together */
    hd_scratch_t block[HD_POOL_BLOCKS];
} hd_pool_t;

/* What this process keeps of a swap if several of its endpoints take part. The swap with number k
 * has entry k modulo HD_SWAP_SLOTS. */
typedef struct hd_swap_place {
    /* number of the exchange that waits for its release; 0: none */
    alignas(HD_LINE) _Atomic uint64_t k;
    /* number of an exchange whose parts members may still read; 0: none */
    _Atomic uint64_t unread;
    hd_exchange_ref_t ref;
} hd_swap_place_t;

/* How far a crossing's greeting has come. When it is over (HD_GREETED), all processes are there, or
 * the team has failed. */
typedef enum hd_greeting { HD_GREETED_NOT = 0, HD_GREETING, HD_GREETED } hd_greeting_t;

/* Memory of areas follows it. A list that only grows. */
typedef struct hd_ferry_block {
    alignas(HD_LINE_PAIR) struct hd_ferry_block *next;
} hd_ferry_block_t;

typedef enum hd_node_word { HD_NODE_LACKS = 0, HD_NODE_HAS, HD_NODE_VETOES } hd_node_word_t;

/* What processes tell as they greet: whether they share memory with those of their node. */
typedef struct hd_tally {
    hd_nodes_t *claimed; /* the nodes, if all can */
    bool has;            /* this process does */
    uint64_t *word;      /* by process: hd_node_word_t */
    hd_net_piece_t *piece;
    hd_net_data_t *data;
    uint32_t *node_of; /* by process */
} hd_tally_t;

enum { HD_FERRY_AREAS = 1024 }; /* exchanges of a node that are under way at a time (ferry.c) */

enum { HD_WARM_PROCESSES = 16 }; /* most processes of a team whose ways are warmed */

struct hd_crossing {
    /* results of swaps with several endpoints here, by slot, each with room for a part from every
     * process; NULL: not allocated yet */
    _Atomic(uint8_t *) swap_results;
    /* the last numbered exchange of an endpoint that has left */
    _Atomic uint64_t last;
    size_t swap_most; /* most bytes of a part of a swap */
    bool crowded;     /* the team has more endpoints on this host than there are processors */
    hd_processors_use_t processors; /* as shared with processes beside, but without memory */
    /* what hangs on the group (group->outside): its release frees the crossing */
    hd_outer_memory_t memory;
    hd_group_t *group;
    hd_span_t *span;
    hd_net_t *net; /* the crossing has a reference */
    /* NULL: each process is a node, and has a group of its own. Set by the end of the greeting at
     * the latest, before the group is complete */
    hd_nodes_t *nodes;
    hd_tally_t *tally;               /* NULL: the nodes were agreed on before (crossing.c) */
    _Atomic(hd_nodes_t *) node_sets; /* of active sets, as `sets` */
    uint64_t *labels;                /* of the group, which does not free them then */
    /* by area (ferry.c), NULL: not needed yet; there if there are nodes. And, of a process that is
     * a node, the areas' memory */
    _Atomic(hd_outer_memory_t *) *ferry;
    _Atomic(hd_ferry_block_t *) ferry_blocks;
    bool placement;      /* reductions must have the bits of one process, wherever endpoints live */
    bool ahead;          /* endpoints go on before all processes are there (crossing.c) */
    hd_net_team_t *team; /* the net accepts messages for it from its creation on */
    uint64_t wire;
    uint64_t since; /* ticks when it was made */
    uint32_t terms; /* a hash of what the processes must agree on; they compare it as they greet */
    /* by number: the processes, by whose identities the net finds their addresses */
    hd_net_process_t *process;
    /* spans of active sets, each made when it is first used; a list that only grows */
    _Atomic(hd_span_t *) sets;
    /* by process: why it shares no memory with this one; whoever makes the team sets it, before
     * anybody uses it. NULL: there was no memory for that */
    hd_obstacle_t *obstacle;
    hd_origin_t *origin; /* the crossing has a reference */
    uint64_t *in_origin; /* by endpoint: its number there, ascending; NULL: this is the origin */
    /* those of agreements, each with a reference that it keeps until a later one begins; under the
     * origin's lock */
    hd_origin_t *agreements;
    /* The greeting: a barrier among the processes, so that no message comes for a team that its
     * receiver does not know yet. */
    hd_leg_t hello;
    /* what processes exchange to warm the ways between them: a word, for each process the same */
    hd_net_piece_t given_word, taken_word;
    hd_net_data_t give[HD_WARM_PROCESSES], take[HD_WARM_PROCESSES];
    _Atomic uint32_t greeted; /* hd_greeting_t */
    _Atomic uint32_t legs;    /* under way, each with a reference to the group */
    _Atomic uint64_t parting; /* since when somebody waits for them alone; 0: nobody does */
    /* the other processes need not be told any more that the team has failed */
    _Atomic uint32_t aborted;
    hd_pool_t pool;
    /* How many references to the group are to be given up by hd_span_drain, and the next crossing
     * in its list; both under the lock of that list. */
    uint32_t unrefs;
    hd_crossing_t *next_deferred;
    /* HD_SWAP_SLOTS entries; none if the team has no swaps, or one endpoint here */
    hd_swap_place_t swap_place[];
};

/* Where a team of survivors comes from; all of it 0: the team is none. */
typedef struct hd_origin_ref {
    hd_origin_t *origin; /* of whose survivors it is made */
    uint64_t *in_origin; /* by endpoint: its number there, ascending */
    uint64_t over; /* nobody comes to it any more when that is agreed on (net.h); 0: nothing is */
} hd_origin_ref_t;

/* What a process knows of the nodes of its team as it makes its crossing. */
typedef struct hd_node_claim {
    /* by process, any numbers that tell nodes apart; NULL: each process is a node */
    const uint32_t *node_of;
    /* All processes know that the processes of each node share its memory. Otherwise they tell as
     * they greet: those of a node share it if each has it, else they are nodes of their own. */
    bool agreed;
    bool has; /* the group is the node's; else it is this process's */
    /* not agreed: operations begin before the greeting is over, as of a team without nodes; the
     * process does not have its node's memory, and nobody may */
    bool vetoes;
} hd_node_claim_t;

/* Makes a crossing and hangs it on a group that nobody has joined yet. process: the span's
 * processes, by number. On success the span, the caller's reference to the net and
 * from->in_origin belong to the crossing, and the labels (the user's names of endpoints) to the
 * group. */
ucc_status_t hd_crossing_create(hd_group_t *group, hd_span_t *span, const hd_node_claim_t *claim,
                                hd_net_t *net, uint64_t wire, const hd_net_process_t *process,
                                uint64_t *labels, uint32_t terms, const hd_origin_ref_t *from,
                                const hd_config_t *config);
/* Returns the crossing whose `memory` this is. */
static inline hd_crossing_t *hd_crossing_of(hd_outer_memory_t *memory) {
    return (hd_crossing_t *)(void *)((char *)memory - offsetof(hd_crossing_t, memory));
}
/* Returns the group's crossing; NULL: all endpoints of its team live in this process. */
static inline hd_crossing_t *hd_group_crossing(const hd_group_t *group) {
    return group->outside ? hd_crossing_of(group->outside) : NULL;
}
/* Starts the greeting at the first call, and drives it on. Any endpoint calls it again and again
 * once the group is sealed: UCC_INPROGRESS until all processes have greeted; an error if the team
 * has failed. The group is not complete before the greeting is over. */
ucc_status_t hd_crossing_greet(hd_crossing_t *crossing);
/* Does this process's part of what processes do for each other, such as noticing that one is gone.
 * Contexts that have nothing to wait for call it now and then. */
void hd_crossing_glance(void);
/* Adds for whom the greeting waits. */
void hd_crossing_awaits(const hd_crossing_t *crossing, hd_text_t *text);
/* Drives the greeting on, if the group is sealed. Called by those who wait while the group is not
 * complete; the greeting may end without the group's bell being rung. */
void hd_crossing_pump(hd_crossing_t *crossing);
/* Must the endpoint that is being destroyed come again? Because the greeting is under way, which is
 * cancelled, and the team fails; but that of a team that is `ahead` goes on without endpoints. Or
 * because the team has failed, it is the last here, and legs are under way: for some seconds at
 * most. */
bool hd_crossing_lingers(hd_crossing_t *crossing);
/* Waits for those legs, if the caller, which has left, is the last here. */
void hd_crossing_see_off(hd_crossing_t *crossing);
/* Returns the span of an active set of the team, made at the first call; it is the crossing's. Any
 * thread. NULL: no memory (logged). */
const hd_span_t *hd_crossing_set(hd_crossing_t *crossing, const hd_subset_t *set);
/* The same for a crossing that has nodes: theirs. */
const hd_nodes_t *hd_crossing_node_set(hd_crossing_t *crossing, const hd_subset_t *set);
/* Tells the other processes that the team has failed; further calls do nothing. Any thread. */
void hd_crossing_abort(hd_crossing_t *crossing, ucc_status_t why);
/* An endpoint of this process has left the team after that exchange. When the last one has, the
 * other processes are told, of which nothing more is to be expected. */
void hd_crossing_leave(hd_crossing_t *crossing, uint64_t last);

/* ferry_rounds.c: most bytes of an element that can be reduced by the user's operation in a team
 * with nodes. */
size_t hd_ferry_most(const hd_crossing_t *crossing);
/* swap.c: returns the plan of an operation that crosses processes; op->span, op->place, op->n and
 * op->me are set. numbered: it has a number of the main board. */
hd_plan_t hd_span_plan(const hd_op_t *op, bool numbered);
/* Sets op->outer and op->start as op->plan says. UCC_ERR_NO_MEMORY (logged): it can't be started.
 */
ucc_status_t hd_span_follow(hd_op_t *op);
/* flight.c: op->outer of what is no swap, or whose plan can't be made yet: its pump drives the
 * team's forming on. */
extern const hd_outer_t hd_flight_stage;
/* hd_swap_express carries a swap out at once, if this process has one endpoint and the other parts
 * come within some looks; it returns what shm's express returns (shm/shm.h). hd_swap_wait is
 * op->wait of such an operation: the step of one that the express or its start has left waiting. */
uint64_t hd_swap_express(const hd_place_t *at, const hd_call_t *call, uint32_t looks);
ucc_status_t hd_swap_wait(hd_op_t *op);
/* Does what hd_swap_express does, with these addresses instead of the call's. */
uint64_t hd_swap_express_of(const hd_place_t *at, const hd_call_t *call, const void *src, void *dst,
                            uint32_t looks);

/* crossing.c: gives up the references to groups that hd_span_defer_unref has noted. The caller
 * holds no lock. */
void hd_span_drain(void);
/* A leg has a reference to the crossing's group, from before it starts. */
void hd_crossing_hold(hd_crossing_t *crossing);
/* Notes that a leg gives it up. By the leg's last step. */
void hd_span_defer_unref(hd_crossing_t *crossing);

#endif
