/* span.h: teams of several processes.
 *
 *   SPAN      which endpoints live in which process. Processes are numbered by their lowest
 *             endpoints, so all of them have the same picture. Immutable. Of the team, or of an
 *             active set of it
 *   CROSSING  what a team of several processes has beside its group: its span, its processes as the
 *             net knows them, and the stage by which its operations go on outside the group. One
 *             per process, hung on the group, freed with it
 *
 * In a spanning team the group, its board and its members are those of this process: numbers in
 * shm/ (place.me, place.n, member numbers) are local ones. team->n, team->ep, roots, and the
 * entries of counts are the team's.
 */
#ifndef HD_SPAN_SPAN_H
#define HD_SPAN_SPAN_H

#include "core/log.h"
#include "net/net.h"
#include "shm/outer.h"
#include "threads/lock.h"

typedef struct hd_crossing hd_crossing_t;

typedef struct hd_span {
    uint32_t n; /* endpoints in all */
    bool even;  /* every process has as many of them */
    /* Blocks of so many endpoints in a row, 1 or 8 or 64 ..., the most so that each lives in one
       process; and how many blocks there are. A reduction whose processes have one each has the
       bits of one process */
    uint32_t together, blocks;
    uint32_t processes, mine;   /* mine: processes, if this process has no endpoint in it */
    const uint32_t *process_of; /* by endpoint: the process it lives in */
    const uint32_t *local_of;   /* by endpoint: its number in that process's group */
    const uint32_t *first; /* by process, and one more: where its endpoints begin in `endpoint` */
    const uint32_t *endpoint; /* process by process, ascending in each */
    /* by process: its number in the team's span, in no order (a set may go down, or skip lowest
       endpoints); NULL: the same */
    const uint32_t *team_process;
    hd_subset_t set;      /* whose span this is; n is 0: the team's */
    uint64_t set_hash;    /* names it on the wire; 0: the team's */
    struct hd_span *next; /* of the crossing's cache */
} hd_span_t;

static inline uint32_t hd_span_count(const hd_span_t *span, uint32_t process) {
    return span->first[process + 1] - span->first[process];
}
/* Blocks of those that live in a process. */
static inline uint32_t hd_span_blocks(const hd_span_t *span, uint32_t process) {
    return (hd_span_count(span, process) + span->together - 1) / span->together;
}
/* Endpoint number of local member i of that process. */
static inline uint32_t hd_span_endpoint(const hd_span_t *span, uint32_t process, uint32_t i) {
    return span->endpoint[span->first[process] + i];
}

/* process_of gives, by endpoint, any numbers that tell processes apart; my_endpoint is one of mine.
 * The span numbers processes by their lowest endpoints. One block of memory; hd_free. NULL: no
 * memory (logged). */
hd_span_t *hd_span_create(uint32_t n, const uint32_t *process_of, uint32_t my_endpoint);
/* Of an active set of the team, which has a member in this process. */
hd_span_t *hd_span_of_set(const hd_span_t *team, const hd_subset_t *set);

typedef struct hd_survivors hd_survivors_t;

/* Of a team that was left by another one (form/shrink.c): the first of those. */
typedef struct hd_origin {
    uint64_t wire;
    uint64_t *endpoint; /* by endpoint: its number there; NULL: this team was left by none */
} hd_origin_t;

/* Memory of legs that is too large for each exchange to keep its own, by size and in no order: the
 * next leg gets what the last one has given back, which is there and in the caches, instead of
 * pages that nobody has touched. Any thread. */
enum { HD_POOL_BLOCKS = 16, HD_POOL_BYTES = 16 << 20 };

typedef struct hd_scratch {
    uint8_t *at;
    size_t room;
} hd_scratch_t;

typedef struct hd_pool {
    hd_lock_t lock; /* a leaf */
    uint32_t n;
    size_t bytes; /* of all blocks */
    hd_scratch_t block[HD_POOL_BLOCKS];
} hd_pool_t;

/* Of a swap in which this process has several endpoints, by its number modulo the slots. */
typedef struct hd_swap_place {
    alignas(HD_LINE) _Atomic uint64_t k; /* the exchange that is to be released; 0: none */
    _Atomic uint64_t unread;             /* an exchange whose parts some may still read; 0: none */
    hd_exchange_ref_t ref;
} hd_swap_place_t;

/* How far a crossing's greeting has come; when it is over, all processes are there, or the team has
 * failed. */
typedef enum hd_greeting { HD_GREETED_NOT = 0, HD_GREETING, HD_GREETED } hd_greeting_t;

struct hd_crossing {
    hd_outer_t stage;                   /* must stay first: op->outer is its address (flight.c) */
    hd_outer_t swap_stage, alone_stage; /* of swaps (swap.c); alone: in a process of one endpoint */
    hd_swap_place_t
        *swap_place; /* HD_SWAP_SLOTS of them; NULL: there are no swaps, or one endpoint */
    /* of such swaps, by slot: as much as a part for each process; NULL: none yet */
    _Atomic(uint8_t *) swap_results;
    size_t swap_most; /* bytes of a part */
    bool crowded;     /* the team has more endpoints on this host than there are processors */
    hd_outer_memory_t memory; /* hung on the group (group->outside): ends the crossing with it */
    hd_group_t *group;
    hd_span_t *span;
    hd_net_t *net;  /* a reference */
    bool placement; /* reductions have the bits of one process, wherever endpoints are */
    /* its endpoints go on before all processes are there; the greeting keeps the group */
    bool ahead;
    hd_net_team_t *team; /* messages for it are welcome */
    uint64_t wire;
    uint64_t *labels; /* by endpoint of the team: the user's names; the group's, as group->labels */
    uint64_t since;   /* ticks when it was made */
    uint32_t terms; /* what the processes have to agree on, hashed: they compare it as they greet */
    uint64_t (*identity)[2]; /* by process: hd_process_identity */
    _Atomic(hd_span_t *)
        sets; /* spans of active sets, made when first used; a list that only grows */
    _Atomic uint32_t splits; /* exchanges for teams that are made from this one by all, under way */
    hd_origin_t origin;
    hd_lock_t judging;             /* guards `survivor_sets` */
    hd_survivors_t *survivor_sets; /* who is left, call by call; form/shrink.c makes them, */
    void (*end_survivor_sets)(
        hd_crossing_t *crossing); /* and ends them; set with the first. NULL: there is none */
    /* forming: a barrier among the processes, so that no message comes for a team that is not known
     */
    hd_leg_t hello;
    void *hello_scratch;
    struct hd_words *words;   /* that are exchanged before the team is used */
    uint32_t hellos;          /* legs of them that were begun; by who steps the last one */
    _Atomic uint32_t greeted; /* hd_greeting_t */
    _Atomic uint32_t aborted; /* the others have been told */
    hd_pool_t pool;
    /* flights that are over and still keep the group: see flight.c */
    uint32_t unrefs;
    hd_crossing_t *next_deferred;
};

/* Hangs a crossing on a group that nobody has joined yet. processes: of the span, by number. If it
 * succeeds, the span, the caller's reference to the net, the labels (hd_alloc) and the origin are
 * the crossing's. config: the team's library's. */
ucc_status_t hd_crossing_create(hd_group_t *group, hd_span_t *span, hd_net_t *net, uint64_t wire,
                                const hd_net_process_t *process, uint64_t *labels, uint32_t terms,
                                hd_origin_t origin, const hd_config_t *config);
/* What is hung on a group of this kind. */
static inline hd_crossing_t *hd_crossing_of(hd_outer_memory_t *memory) {
    return (hd_crossing_t *)(void *)((char *)memory - offsetof(hd_crossing_t, memory));
}
/* Of a group of this kind; NULL: all its endpoints live in this process. */
static inline hd_crossing_t *hd_group_crossing(const hd_group_t *group) {
    return group->outside ? hd_crossing_of(group->outside) : NULL;
}
/* By any endpoint, again and again, once the group is sealed, or by whoever makes the group,
 * before: UCC_OK when all processes have said so. The group can't be complete earlier. */
ucc_status_t hd_crossing_greet(hd_crossing_t *crossing);
/* By whoever has nothing to wait for, now and then: its part of what the processes do for each
 * other. It hears that a process is gone, or a team has failed, and tells it on, and what UCX does
 * between messages goes on. */
void hd_crossing_glance(void);
/* Whoever waits pumps the network; false: it may end without the group's bell being rung. */
bool hd_crossing_pump(hd_crossing_t *crossing);
/* By an endpoint that goes: true while the greeting is under way, in which case the team fails, and
 * the caller comes again: the group must not end before. Of a team that is ahead, the greeting goes
 * on without its endpoints. */
bool hd_crossing_lingers(hd_crossing_t *crossing);
/* The span of an active set of the crossing's team: looked up, or made. NULL: no memory (logged).
 */
const hd_span_t *hd_crossing_set(hd_crossing_t *crossing, const hd_subset_t *set);
/* Tells the other processes, once, that the team has failed. Any thread. */
void hd_crossing_abort(hd_crossing_t *crossing, ucc_status_t why);

/* pool.c: at least so many bytes, aligned to a pair of lines; `at` is NULL: no memory. */
hd_scratch_t hd_pool_take(hd_pool_t *pool, size_t bytes);
/* Nothing is given back if `at` is NULL. */
void hd_pool_give(hd_pool_t *pool, hd_scratch_t block);
void hd_pool_clear(hd_pool_t *pool);

/* swap.c: at the end of init: if it is a swap among the processes, op->outer or op->start and plan
 * say so. True: it may take the express. */
bool hd_swap_choose(hd_op_t *op);
void hd_swap_stage(hd_outer_t *stage);
void hd_swap_stage_alone(hd_outer_t *stage);
/* Its express, and what is left of it after that. */
uint64_t hd_swap_express(const hd_place_t *at, const hd_call_t *call, uint32_t looks);
ucc_status_t hd_swap_wait(hd_op_t *op);
/* The same with other addresses than the call's. */
uint64_t hd_swap_express_of(const hd_place_t *at, const hd_call_t *call, const void *src, void *dst,
                            uint32_t looks);

/* drain.c: lets go of the groups whose legs are over. Under no lock. */
void hd_span_drain(void);
/* The group of a leg that is just ending is let go of by whoever has pumped. Under the lane's lock.
 */
void hd_span_defer_unref(hd_crossing_t *crossing);
/* Before the first of those: the child of a fork finds their lock free. */
void hd_span_drain_init(void);
/* flight.c: from hd_args_prepare, instead of hd_op_choose_plan: the operation's call is checked,
 * c->n and c->me are the team's or the active set's; op->place.me and .n are local. Sets op->outer,
 * op->start. */
void hd_flight_choose(hd_op_t *op, const hd_span_t *span);
/* The stage of a crossing. */
void hd_flight_stage(hd_outer_t *stage);

#endif
