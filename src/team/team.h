/* team.h: what a user holds: libraries, contexts, team handles, as data. Form fills them in,
 * requests are kept with them, devices and what crosses processes find here what belongs to them;
 * all of those lie above.
 *
 *   lib      configuration and promises (thread mode); no state on any hot path
 *   context  a runner (threads/) plus, when created with an out-of-band exchange, its place among
 *            the contexts of this process
 *   team     one endpoint's handle on a group; its requests; how it is being formed
 *
 * A team handle's states:
 *
 *     FORMING --create_test--> ACTIVE
 *        |                       |
 *        +------> FAILED --------+--destroy--> gone
 *
 *     EXCLUDED: what create_from_parent gives those that take no part; only destroy is of use.
 */
#ifndef HD_TEAM_H
#define HD_TEAM_H

#include "core/config.h"
#include "core/log.h"
#include "shm/ordinals.h"
#include "shm/shm.h"
#include "threads/meet.h"

#include <heddle/heddle.h>

enum {
    HD_LIB_MAGIC = 0x11b0a5e1u,
    HD_CONTEXT_MAGIC = 0xc0a7e872u,
    HD_TEAM_MAGIC = 0x7ea4b0a8u,
    HD_DEAD_MAGIC = 0xdeadbea7u
};

struct ucc_lib_info {
    uint32_t magic;
    ucc_lib_params_t params; /* as given, defaults filled in; mask says what was given */
    char *own_prefix;
    hd_config_t *config;
    bool check, strict_exclusive, debug_order, may_park;
    uint32_t max_polls;
    uint64_t yield_max_us, park_after_us;
    uint64_t stall;            /* ticks after which a wait is talked about; 0: never */
    uint64_t timeout;          /* ticks after which one fails that has no other; 0: never */
    hd_cfg_gate_t gpu_gate;    /* how a triggered post brings order to its stream */
    size_t gpu_copy_min;       /* bytes of a block from which devices copy it to each other */
    size_t gpu_partial_min;    /* bytes of an operand from which devices reduce blocks apart */
    _Atomic uint32_t contexts; /* alive */
    _Atomic bool told_tunes;   /* which tunes have no effect: once */
};

struct ucc_context {
    hd_runner_t runner;       /* must stay first: see hd_task_runner */
    hd_fork_hook_t fork_hook; /* a child finds its copy unlocked */
    uint32_t magic;
    ucc_lib_h lib;
    ucc_context_type_t type;
    ucc_coll_sync_type_t sync_type;
    uint64_t id;
    hd_locality_t locality; /* of the thread that created it, or a hint */
    uint32_t rank;          /* in the out-of-band exchange */
    struct {                /* what the exchange told of all its contexts (context_group.c) */
        uint32_t n;         /* how many; 0: there was no exchange */
        uint64_t serial;    /* what teams over them meet by; rank 0 drew it */
        bool by_id; /* teams of one list are told apart by their ids, not by their order alone */
        struct hd_context_group *group; /* NULL: they live in one process (context_group.h) */
        hd_ordinals_t
            lists; /* how often this one has made a team of each list; under offers_lock */
    } peers;
    ucc_mem_map_params_t mem_params; /* the array of segments is the context's own */
    char *tune; /* NULL, or TUNE of tl/ucp, where it changes what calls mean (api/one_sided.c) */
    _Atomic uint32_t teams; /* alive */
    hd_lock_t offers_lock;
    struct hd_offer *offers; /* algorithms for teams that are made from it; under the lock */
    struct {
        uint64_t process[2];
        uint64_t number; /* never reused: not an address */
    } address;
};

_Static_assert(offsetof(struct ucc_context, runner) == 0, "threads/ knows a context as its runner");

typedef enum hd_team_state {
    HD_TEAM_FORMING,
    HD_TEAM_ACTIVE,
    HD_TEAM_FAILED,
    HD_TEAM_EXCLUDED
} hd_team_state_t;

/* What a team of several processes has beside its group (span.h). */
typedef struct hd_crossing hd_crossing_t;

/* What a handle's collectives are posted with (request/request.h). */
typedef struct hd_request hd_request_t;

typedef struct hd_forming hd_forming_t;

/* What the last blocking call of a kind taught (shortcut.c): a repetition needs no request. */
typedef struct hd_cached_call {
    alignas(HD_LINE) bool known;
    bool swaps; /* known, but not to the express of shm: it crosses processes as a swap */
    ucc_reduction_op_t op; /* these three are the arguments that must be the same */
    uint64_t count;
    ucc_datatype_t dt;
    hd_call_t call; /* but for its addresses */
} hd_cached_call_t;

/* Where a kind's entry lies; where there is a root, one for each of as many as the express takes.
 */
enum {
    HD_CACHED_BARRIER = 0,
    HD_CACHED_ALLREDUCE,
    HD_CACHED_BCAST,
    HD_CACHED_SCATTER = HD_CACHED_BCAST + HD_REDUCE_BLOCK,
    HD_N_CACHED = HD_CACHED_SCATTER + HD_REDUCE_BLOCK
};

/* By the handle's only user. */
typedef struct hd_call_cache {
    hd_place_t place; /* on the main board */
    hd_cached_call_t entry[HD_N_CACHED];
} hd_call_cache_t;

extern const hd_call_cache_t hd_no_cached_calls; /* of a handle that has learned nothing */

struct ucc_team {
    /* one line: all that a small collective needs of its handle but a request */
    uint32_t magic;
    hd_team_state_t state;
    hd_group_t *group;
    const hd_call_cache_t *call_cache;
    ucc_context_h *contexts, context; /* the address of the other, where there is one only */
    uint32_t n_contexts;
    _Atomic uint32_t next_context; /* spreads operations over them */
    /* how many posts from now on don't linger, and how many did not after the last vain one;
       relaxed: a lost update costs some looks more or less */
    _Atomic uint32_t linger_skip, linger_penalty;
    bool locked; /* several threads may use this handle */
    bool debug_order;
    uint32_t ep, n;
    hd_member_t *member;
    ucc_lib_h lib;
    ucc_post_ordering_t ordering;
    ucc_coll_sync_type_t sync_type;
    ucc_ep_range_type_t ep_range;
    uint64_t outstanding_colls;
    uint64_t id;
    ucc_thread_mode_t thread_mode;
    ucc_mem_map_params_t mem_params;
    hd_forming_t *forming;
    hd_fork_hook_t fork_hook; /* a child finds its copy unlocked */
    ucc_status_t failure;     /* FAILED: why */
    hd_crossing_t *crossing;  /* NULL: all endpoints live in this process */
    heddle_group_t *helped; /* NULL, or whose contexts long waits progress, too: they have locks */
    bool owned_by_ep;       /* belongs to a heddle_ep_t: not for ucc_team_destroy */
    bool refuses;           /* FORMING: only to say why it can't, from memory of form/oob.c's */
    /* of such: what the first call since heddle_ep_failure has failed with; whether that was asked
     * since the team failed */
    _Atomic int32_t unnoticed;
    _Atomic bool noticed;
    /* debug_order: the thread whose post is under way, and the one that posted last */
    _Atomic int32_t posting, posted;
    uint32_t n_engines; /* of `engines`, those of threads; under the lock */
    uint32_t n_held;    /* hd_team_hold; under the lock, too */
    /* requests: one is kept at hand, taken and put back by one exchange */
    alignas(HD_LINE_PAIR) _Atomic(hd_request_t *) cached;
    hd_lock_t lock;  /* guards the two lists, the counters below, and the engines */
    hd_task_t *free; /* requests of this handle */
    hd_request_t *all;
    uint32_t n_requests;
    uint64_t inits; /* operations matched by init order */
    uint64_t persistent_inits;
    uint64_t splits;  /* teams derived by all members */
    uint64_t shrinks; /* teams of those that are left */
    hd_ordinals_t
        lists; /* likewise by the members of a list, of several processes: how often each */
    uint64_t runs, persistent_runs; /* of algorithms that users registered: numbers given out */
    struct hd_offer *offers;        /* those algorithms (algorithm.c); by the handle's user */
    hd_request_t *early;            /* matched operations posted before the team was complete */
    _Atomic uint32_t n_early;
    ucc_ee_h engines;           /* execution engines, alive; those of streams may live longer */
    struct hd_devices *devices; /* NULL before the first call on devices; under the lock */
    struct {                    /* what attributes tell, and nothing else reads */
        ucc_oob_coll_t oob;     /* n_oob_eps is 0 if there was none */
        uint64_t hints, constraints; /* of the handle's own memory */
    } given;
};

_Static_assert(offsetof(struct ucc_team, debug_order) < HD_LINE, "see above");

static inline bool hd_team_is_unordered(ucc_team_h team) {
    return team->ordering == UCC_COLLECTIVE_POST_UNORDERED ||
           team->ordering == UCC_COLLECTIVE_INIT_UNORDERED ||
           team->ordering == UCC_COLLECTIVE_INIT_AND_POST_UNORDERED;
}

/* Neither NULL nor HEDDLE_IN_PLACE. */
static inline bool hd_is_address(const void *p) {
    return (uintptr_t)p + 1 > 1;
}

/* --- team.c ----------------------------------------------------------------------------------- */

hd_group_config_t hd_team_group_config(ucc_lib_h lib, ucc_coll_sync_type_t sync_type);
/* Of this process's group in a team of several. */
hd_group_config_t hd_team_span_config(ucc_lib_h lib, ucc_coll_sync_type_t sync_type);
/* Engines end before their team, and so do runs of schedules that have collectives on it to start;
 * logs that some have not. */
bool hd_team_is_needed(ucc_team_h team);
/* Such a collective of a run that begins, or is over. */
void hd_team_hold(ucc_team_h team, bool holds);

#endif
