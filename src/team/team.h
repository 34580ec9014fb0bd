/* team.h: what a user holds: libraries, contexts and team handles, as data. api/ creates them and
 * form/ fills team handles in; requests, devices and what crosses processes keep with them what
 * belongs to a handle. All of those folders lie above this one, and read and write the fields
 * themselves.
 *
 *   lib      configuration and promises (thread mode); no state on any hot path
 *   context  a runner (threads/) plus, when created with an out-of-band exchange, its place among
 *            the contexts of that exchange
 *   team     one endpoint's handle on a group; its requests; how it is being formed
 *
 * A team handle's states:
 *
 *     FORMING --create_test--> ACTIVE
 *        |                       |
 *        +------> FAILED --------+--destroy--> gone
 *
 *     EXCLUDED: what create_from_parent gives those that take no part; it can only be destroyed.
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
    hd_cfg_mappings_t mappings;
    uint32_t max_polls;
    uint64_t yield_max_us, park_after_us;
    uint64_t stall; /* ticks after which a wait is logged; 0: never */
    /* ticks after which a wait fails that has no time-out of its own; 0: never */
    uint64_t timeout;
    hd_cfg_gate_t gpu_gate;      /* how a triggered post brings order to its stream */
    size_t gpu_copy_min;         /* bytes of a block from which devices copy it to each other */
    size_t gpu_partial_min;      /* bytes of an operand from which devices reduce blocks apart */
    hd_profile_choice_t profile; /* the machine's, as configured */
    _Atomic uint32_t contexts;   /* alive */
    _Atomic bool told_tunes;     /* it has been logged which tunes have no effect */
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
    uint32_t rank;          /* of this context in the out-of-band exchange */
    struct {                /* what the exchange has told of its contexts (form/context_group.c) */
        uint32_t n;         /* how many; 0: there was no exchange */
        /* endpoints of a team over them meet by this number, which rank 0 has drawn */
        uint64_t serial;
        /* teams of the same list of contexts are told apart by their ids, not by their order
         * alone */
        bool by_id;
        /* NULL: all of them live in this process (form/internal.h) */
        struct hd_context_group *group;
        /* by list of contexts: how many teams this context has made of it; under offers_lock */
        hd_ordinals_t lists;
    } peers;
    ucc_mem_map_params_t mem_params; /* the array of segments is the context's own */
    /* the configuration's TUNE of tl/ucp, where it changes what calls mean (api/one_sided.c); else
     * NULL */
    char *tune;
    _Atomic uint32_t teams; /* alive */
    /* of a group (heddle.h), which lives as long as any of its contexts' teams: told that there is
     * one more, or one less, after which the context may be gone. NULL: of the client's own.
     * Constant */
    void (*keep)(void *kept_by, bool one_more);
    void *kept_by;
    hd_lock_t offers_lock;
    struct hd_offer *offers; /* algorithms for teams that this context makes; under offers_lock */
    struct {
        uint64_t process[2];
        uint64_t number; /* never used again, as an address might be */
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

/* What a team was made of, and by what name, where processes are left of another one (span.h). */
typedef struct hd_origin hd_origin_t;

/* A request is what a collective of a handle is posted with (request/request.h). */
typedef struct hd_request hd_request_t;

typedef struct hd_forming hd_forming_t;

/* What the last blocking call of a kind has left (request/shortcut.c), so that a repetition needs
 * no request. */
typedef struct hd_cached_call {
    alignas(HD_LINE) bool known;
    /* `known` is for the express of shm; this call crosses processes as a swap instead */
    bool swaps;
    ucc_reduction_op_t op; /* op, count and dt are the arguments that must be the same again */
    uint64_t count;
    ucc_datatype_t dt;
    hd_call_t call; /* the call; its addresses are not used */
} hd_cached_call_t;

/* Where in hd_call_cache the entry of a kind lies. Kinds with a root have an entry for each root
 * that the express takes. */
enum {
    HD_CACHED_BARRIER = 0,
    HD_CACHED_ALLREDUCE,
    HD_CACHED_BCAST,
    HD_CACHED_SCATTER = HD_CACHED_BCAST + HD_REDUCE_BLOCK,
    HD_N_CACHED = HD_CACHED_SCATTER + HD_REDUCE_BLOCK
};

/* Read and written by the handle's only user, without a lock. */
typedef struct hd_call_cache {
    hd_place_t place; /* where the endpoint stands on the main board */
    hd_cached_call_t entry[HD_N_CACHED];
} hd_call_cache_t;

extern const hd_call_cache_t hd_no_cached_calls; /* of a handle that has kept no call yet */

struct ucc_team {
    /* The first line has all that a small collective needs of its handle, but for its request. */
    uint32_t magic;
    hd_team_state_t state;
    hd_group_t *group;
    const hd_call_cache_t *call_cache;
    /* `contexts` is the address of `context` where there is only one */
    ucc_context_h *contexts, context;
    uint32_t n_contexts;
    _Atomic uint32_t next_context; /* spreads operations over the contexts */
    /* linger_skip: how many posts from now on do not linger (look for the others a while);
     * linger_penalty: how many did not after the last one that lingered in vain. relaxed: a lost
     * update costs some looks more or less */
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
    /* the group whose contexts long waits progress, too, so that those contexts have locks; NULL:
     * none */
    heddle_group_t *helped;
    bool owned_by_ep; /* belongs to a heddle_ep_t: ucc_team_destroy refuses it */
    /* For handles of a heddle_ep_t. unnoticed: the status of the first call that has failed since
     * heddle_ep_failure was last called; noticed: heddle_ep_failure has been called since the team
     * failed. */
    _Atomic int32_t unnoticed;
    _Atomic bool noticed;
    /* for debug_order: the thread whose post is under way, and the one that posted last */
    _Atomic int32_t posting, posted;
    uint32_t n_engines; /* how many of `engines` belong to threads; under the lock */
    uint32_t n_held;    /* collectives that hd_team_hold counts; under the lock */
    /* One free request is kept at hand, and is taken and put back by one atomic exchange. */
    alignas(HD_LINE_PAIR) _Atomic(hd_request_t *) cached;
    hd_lock_t lock;  /* guards the two lists, the counters below, and the engines */
    hd_task_t *free; /* free requests of this handle */
    hd_request_t *all;
    uint32_t n_requests;
    uint64_t inits; /* operations matched by init order */
    uint64_t persistent_inits;
    uint64_t splits;     /* teams that all members have derived from this one */
    uint64_t agreements; /* that this endpoint has begun; touched only by the handle's user */
    /* by list of members, of several processes: how many teams were derived by the members of it */
    hd_ordinals_t lists;
    /* numbers given out to runs of algorithms that users registered */
    uint64_t runs, persistent_runs;
    /* those algorithms (request/algorithm.c); touched only by the handle's user */
    struct hd_offer *offers;
    hd_op_t *early; /* matched operations posted before the team was complete */
    _Atomic uint32_t n_early;
    /* execution engines that are alive; those of streams may outlive the team */
    ucc_ee_h engines;
    struct hd_devices *devices;      /* NULL before the first call on devices; under the lock */
    struct {                         /* what only the attributes of the handle tell */
        ucc_oob_coll_t oob;          /* n_oob_eps is 0 if there was none */
        uint64_t hints, constraints; /* for the memory of the team that the handle allocates */
    } given;
};

_Static_assert(offsetof(struct ucc_team, debug_order) < HD_LINE, "see above");

static inline bool hd_team_is_unordered(ucc_team_h team) {
    return team->ordering == UCC_COLLECTIVE_POST_UNORDERED ||
           team->ordering == UCC_COLLECTIVE_INIT_UNORDERED ||
           team->ordering == UCC_COLLECTIVE_INIT_AND_POST_UNORDERED;
}

/* Are collectives matched by the order of their inits? */
static inline bool hd_team_orders_inits(ucc_team_h team) {
    return team->ordering == UCC_COLLECTIVE_INIT_ORDERED ||
           team->ordering == UCC_COLLECTIVE_INIT_AND_POST_ORDERED;
}

/* Is p an address, neither NULL nor HEDDLE_IN_PLACE? */
static inline bool hd_is_address(const void *p) {
    return (uintptr_t)p + 1 > 1;
}

/* --- team.c ----------------------------------------------------------------------------------- */

/* It has one team more, or one less: then it may be gone. */
void hd_context_keep(ucc_context_h context);
void hd_context_let_go(ucc_context_h context);
/* Both return how a team's group is configured, from the library's configuration:
 * hd_team_group_config where all endpoints live in this process, n of them, hd_team_span_config for
 * this process's group in a team of several processes. */
hd_group_config_t hd_team_group_config(ucc_lib_h lib, ucc_coll_sync_type_t sync_type, uint32_t n);
hd_group_config_t hd_team_span_config(ucc_lib_h lib, ucc_coll_sync_type_t sync_type);
/* Is the team needed by an execution engine, or by a collective that hd_team_hold has counted? They
 * must end before the team: if one has not, an error is logged. Called before a team is
 * destroyed. */
bool hd_team_is_needed(ucc_team_h team);
/* Counts a collective of a schedule's run, a triggered post, or an agreement, that needs the team
 * (holds), or does so no more. */
void hd_team_hold(ucc_team_h team, bool holds);

#endif
