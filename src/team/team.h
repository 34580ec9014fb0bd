/* team.h: libraries, contexts and team handles, and how a collective gets from its arguments to a
 * launched operation.
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
    _Atomic uint32_t contexts; /* alive */
    _Atomic bool told_tunes;   /* which tunes have no effect: once */
};

struct ucc_context {
    hd_runner_t runner;     /* must stay first: see hd_task_runner */
    hd_heirloom_t heirloom; /* a child finds its copy unlocked */
    uint32_t magic;
    ucc_lib_h lib;
    ucc_context_type_t type;
    ucc_coll_sync_type_t sync_type;
    uint64_t id;
    hd_locality_t locality; /* of the thread that created it, or a hint */
    uint32_t rank;          /* in the out-of-band exchange */
    struct {                /* what the exchange told of all its contexts (kin.c) */
        uint32_t n;         /* how many; 0: there was no exchange */
        uint64_t serial;    /* what teams over them meet by; rank 0 drew it */
        bool by_id; /* teams of one list are told apart by their ids, not by their order alone */
        struct hd_kin *kin; /* NULL: they live in one process (kin.h) */
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

/* What of a call's arguments decided its plan. A request whose next call agrees in all of it keeps
 * the plan: only addresses are taken anew. Fields that have no meaning for the collective at this
 * endpoint are not compared: their masks are 0. */
typedef struct hd_shape {
    uint64_t type;   /* ucc_coll_type_t; 0: nothing to be compared with */
    uint64_t vector; /* likewise of a v type, for which counts and addresses are not compared */
    uint64_t flags, op, root;
    uint64_t src_count, src_dt, dst_count, dst_dt;
    uint64_t op_mask, root_mask, src_mask, dst_mask;
} hd_shape_t;

/* What a triggered post keeps with its request (ee.c). */
typedef struct hd_trigger hd_trigger_t;

/* What a team of several processes has beside its group (span.h). */
typedef struct hd_crossing hd_crossing_t;

/* A request: an operation, and what team/ keeps with it. */
typedef struct hd_request {
    hd_op_t op;     /* must stay first */
    uint32_t n, me; /* endpoints of the team, or of the active set, and my number among them */
    const struct hd_span *span; /* of those, where they live in several processes */
    enum hd_route {
        HD_ROUTE_NOTHING,    /* zero bytes: over inside post; or a user's algorithm: see `run` */
        HD_ROUTE_NUMBER,     /* the main board, number taken at post */
        HD_ROUTE_TAG,        /* matched at post by tag */
        HD_ROUTE_INIT,       /* private exchange joined at init */
        HD_ROUTE_PERSISTENT, /* private board, number taken at init */
        HD_ROUTE_ACTIVE_SET  /* matched at post among the set's members */
    } route;
    bool teaches;                    /* a blocking call like it may be remembered (hd_team_learn) */
    uint64_t tag;                    /* or init number */
    hd_subset_t *subset, active_set; /* NULL, or the address of the other */
    hd_board_t *private_board;       /* PERSISTENT: from the first post to finalize */
    double timeout;                  /* seconds; 0: none */
    hd_shape_t shape;
    /* Small, flat, nothing special: all of it if the others are there, and what is left of it if they are not. NULL: it has
     * no such way. Its place has a board when it is known. */
    uint64_t (*express)(const hd_place_t *at, const hd_call_t *call, uint32_t looks);
    ucc_status_t (*resumed)(hd_op_t *op);
    uint64_t *prefix; /* displacements of densely packed vectors */
    size_t prefix_entries;
    struct hd_pack {
        const void *src_user;
        void *dst_user;
        uint64_t src_count, dst_count;
        ucc_datatype_t src_dt, dst_dt;
        uint8_t *src_packed, *dst_packed;
        size_t src_bytes, dst_bytes;
        bool fill_dst; /* in place: dst holds data to send */
    } pack;
    ucc_coll_args_t vectors; /* v types: flags, src, dst as at init, whose counts each post reads */
    hd_trigger_t *trigger;   /* NULL before the first triggered post */
    struct hd_request *next_early;
    struct hd_request *all; /* every request this handle ever made */
    hd_op_waits_t waits;
    struct hd_run *run; /* an algorithm of the user's runs it (algorithm.c); NULL: none */
    struct hd_device_part
        *device; /* what devices have to know of it (device.h); NULL: nothing yet */
} hd_request_t;

_Static_assert(offsetof(hd_request_t, op) == 0, "a request is an operation, and so a task");

typedef struct hd_forming hd_forming_t;

/* What the last blocking call of a kind taught (shortcut.c): a repetition needs no request. */
typedef struct hd_lesson {
    alignas(HD_LINE) bool known;
    bool swaps; /* known, but not to the express of shm: it crosses processes as a swap */
    ucc_reduction_op_t op; /* these three are the arguments that must be the same */
    uint64_t count;
    ucc_datatype_t dt;
    hd_call_t call; /* but for its addresses */
} hd_lesson_t;

/* Where a kind's lesson lies; where there is a root, one for each of as many as the express takes. */
enum {
    HD_LESSON_BARRIER = 0,
    HD_LESSON_ALLREDUCE,
    HD_LESSON_BCAST,
    HD_LESSON_SCATTER = HD_LESSON_BCAST + HD_REDUCE_BLOCK,
    HD_N_LESSONS = HD_LESSON_SCATTER + HD_REDUCE_BLOCK
};

/* By the handle's only user. */
typedef struct hd_lessons {
    hd_place_t place; /* on the main board */
    hd_lesson_t lesson[HD_N_LESSONS];
} hd_lessons_t;

extern const hd_lessons_t hd_no_lessons; /* of a handle that has learned nothing */

struct ucc_team {
    /* one line: all that a small collective needs of its handle but a request */
    uint32_t magic;
    hd_team_state_t state;
    hd_group_t *group;
    const hd_lessons_t *lessons;
    ucc_context_h *contexts, context; /* the address of the other, where there is one only */
    uint32_t n_contexts;
    _Atomic uint32_t next_context; /* spreads operations over them */
    /* how many posts from now on don't linger, and how many did not after the last vain one; relaxed:
       a lost update costs some looks more or less */
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
    hd_heirloom_t heirloom;  /* a child finds its copy unlocked */
    ucc_status_t failure;    /* FAILED: why */
    hd_crossing_t *crossing; /* NULL: all endpoints live in this process */
    heddle_group_t *kin;     /* NULL, or whose contexts long waits progress, too: they have locks */
    bool owned_by_ep;        /* belongs to a heddle_ep_t: not for ucc_team_destroy */
    bool refuses;            /* FORMING: only to say why it can't, from memory of form_oob.c's */
    /* of such: what the first call since heddle_ep_failure has failed with; whether that was asked since the team failed */
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

/* --- group configuration (handle.c) ----------------------------------------------------------- */

hd_group_config_t hd_team_group_config(ucc_lib_h lib, ucc_coll_sync_type_t sync_type);
/* Of this process's group in a team of several. */
hd_group_config_t hd_team_span_config(ucc_lib_h lib, ucc_coll_sync_type_t sync_type);

/* --- forming (form.c, form_meet.c, form_oob.c, handle.c) ------------------------------------------ */

/* unplaced: oob_ep is not known, and the range of ep not either (form_oob.c finds them out). */
ucc_status_t hd_team_create(ucc_context_h *contexts, uint32_t n_contexts,
                            const ucc_team_params_t *params, const heddle_team_params_t *extra,
                            bool unplaced, ucc_team_h *out);
ucc_status_t hd_team_create_test(ucc_team_h team);
ucc_status_t hd_team_destroy(ucc_team_h team);
/* Engines end before their team, and so do runs of schedules that have collectives on it to start; logs that some
 * have not. */
bool hd_team_is_needed(ucc_team_h team);
/* Such a collective of a run that begins, or is over. */
void hd_team_hold(ucc_team_h team, bool holds);
/* On behalf of a client that can't any more; nothing of the team's is in progress. */
void hd_team_end_engines(ucc_team_h team);
/* Those of streams are on their own from now on. */
void hd_team_leave_engines(ucc_team_h team);
/* A handle for endpoint ep of a group, ACTIVE as soon as the group is complete. */
ucc_team_h hd_team_alloc(ucc_context_h *contexts, uint32_t n_contexts);
/* The same in zeroed memory, whose `contexts` has room for them. */
void hd_team_init(ucc_team_h team, ucc_context_h *contexts, uint32_t n_contexts);
ucc_status_t hd_team_attach(ucc_team_h team, hd_group_t *group, uint32_t ep,
                            const hd_locality_t *where);
void hd_team_free(ucc_team_h team);
ucc_status_t hd_team_derive(ucc_team_h parent, bool included, ucc_team_h *out);
/* Of those that are left (form_shrink.c). */
ucc_status_t hd_team_shrink(ucc_team_h parent, ucc_team_h *out);
ucc_status_t hd_team_from_list(ucc_team_h parent, const uint64_t *eps, uint64_t n, ucc_team_h *out);
/* Instead of it, for want of memory: member `me` of the list does not come, and the others need not wait. */
void hd_team_refuse_list(ucc_team_h parent, hd_fingerprint_t list, uint32_t n, uint32_t me);
/* A handle from hd_team_from_list becomes ACTIVE at once: operations wait until all members have come, as
 * after heddle_join. */
ucc_status_t hd_team_form_ahead(ucc_team_h team);
/* By ucc_context_create: finds the other contexts of the exchange. Blocks, by contract. unplaced: oob_ep is
 * not known; its place among them is where its own record is. */
ucc_status_t hd_context_meet(ucc_context_h context, const ucc_oob_coll_t *oob, bool unplaced);
/* By who can't create one, for this reason: enters the exchange, so that the others get an error instead of waiting.
 * oob is valid. */
void hd_context_refuse(const ucc_oob_coll_t *oob, uint64_t stall, ucc_status_t why);
/* At its end: it is no part of them any more. */
void hd_context_part(ucc_context_h context);
/* 128 random bits, drawn once per process and again after a fork. */
void hd_process_identity(uint64_t identity[2]);
/* By one thread of each process, blocking: the group of this process, of the team that those make together
 * (form_processes.c). A reference, for the caller. */
ucc_status_t hd_team_join_processes(ucc_lib_h lib, const ucc_oob_coll_t *oob,
                                    const heddle_group_params_t *params, hd_group_t **group);
/* Instead of it, by who can't make one, for this reason: the others get an error instead of waiting. */
void hd_team_refuse_processes(const ucc_oob_coll_t *oob, uint64_t stall, ucc_status_t why);
/* The same in all processes of this host since it was started. */
uint64_t hd_host_identity(void);

/* Neither NULL nor HEDDLE_IN_PLACE. */
static inline bool hd_is_address(const void *p) {
    return (uintptr_t)p + 1 > 1;
}

/* When a library handle ends: gives back what graphs have let go of since the last team. */
void hd_devices_sweep(void);
/* By member of the group, whose GPU each should be (device_near.c). UCC_INPROGRESS: not all have joined. UCC_ERR_NOT_FOUND:
 * there is none (logged). */
struct hd_gpu_places;
ucc_status_t hd_device_share_out(ucc_team_h team, struct hd_gpu_places *gpus, uint8_t *device);
/* Of memory of which nothing is said: false if it is a device's (device.c). */
bool hd_device_finds_host(const void *buffer);
/* Memory of the host. */
static inline bool hd_is_host(ucc_memory_type_t type, const void *buffer) {
    return __builtin_expect(type == UCC_MEMORY_TYPE_HOST, 1) ||
           (type == UCC_MEMORY_TYPE_UNKNOWN && hd_device_finds_host(buffer));
}

/* --- arguments (args.c, pack.c) ------------------------------------------------------------------ */

/* Checks the fields that matter for this collective at this endpoint, and only those, and puts
 * what the operation needs into r. Logs the field that is wrong. */
ucc_status_t hd_args_prepare(ucc_team_h team, const ucc_coll_args_t *args, hd_request_t *r);
/* The same for a request whose plan can be kept: true if r was prepared for arguments of this shape
 * and now has these addresses. hd_args_note_shape says, after all of init succeeded, that it can. */
bool hd_args_repeat(hd_request_t *r, const ucc_coll_args_t *args);
void hd_args_note_shape(hd_request_t *r, const ucc_coll_args_t *args);
/* Is r the one to be prepared for these arguments? It keeps a plan for them; or none, if none can be kept for
 * them. */
bool hd_args_suit(const hd_request_t *r, const ucc_coll_args_t *args, bool tagged);
/* Likewise for v types, whose counts are checked in any case: their status, if true is returned. UCC_INPROGRESS: it is the
 * same but for the memory, and has to be prepared. */
bool hd_args_repeat_vector(hd_request_t *r, const ucc_coll_args_t *args, ucc_status_t *status);
/* hd_args_repeat for memory of which nothing is said (UCC_MEMORY_TYPE_UNKNOWN) and which turns out to be the host's. */
bool hd_args_repeat_unknown(hd_request_t *r, const ucc_coll_args_t *args);
/* A call without a byte here, that is to be in the order of a stream: one of devices from now on. */
ucc_status_t hd_args_become_device(hd_request_t *r);
/* Datatypes that only the user can pack: contiguous copies stand in for the user's buffers. */
ucc_status_t hd_pack_setup(ucc_team_h team, const ucc_coll_args_t *args, hd_request_t *r);
void hd_pack_release(hd_request_t *r);

/* --- small collectives (shortcut.c) --------------------------------------------------------------- */

/* At the end of init: decides whether posts may try the express. */
void hd_request_plan_express(hd_request_t *r);
/* After launching: looks a little longer for what the operation awaits; its status then. */
ucc_status_t hd_request_linger(hd_request_t *r);
/* A post in the order of a stream (device_order.c). On an error the request has not been posted, or is over with it. */
typedef enum hd_on {
    HD_ON_WAITS, /* over when everything is enqueued; the poster waits for that, and calls hd_request_join */
    HD_ON_POSTED,   /* likewise, without the latter */
    HD_ON_TRIGGERED /* over when it is complete; on return the stream is in order */
} hd_on_t;
/* On an engine's stream, triggered; or ee NULL: on that with this handle. */
ucc_status_t hd_request_post_on(hd_request_t *r, ucc_ee_h ee, void *handle, hd_on_t on);
ucc_status_t hd_request_join(hd_request_t *r);
/* The post of such a request, and blocking calls: results are those of hd_express_barrier and its like. */
uint64_t hd_request_express(hd_request_t *r);
uint64_t hd_team_barrier(ucc_team_h team);
uint64_t hd_team_bcast(ucc_team_h team, void *buffer, uint64_t count, ucc_datatype_t dt,
                       uint32_t root);
uint64_t hd_team_allreduce(ucc_team_h team, const void *src, void *dst, uint64_t count,
                           ucc_datatype_t dt, ucc_reduction_op_t op);
uint64_t hd_team_scatter(ucc_team_h team, const void *src, void *dst, uint64_t count,
                         ucc_datatype_t dt, uint32_t root);
/* The same where these have returned 0: in teams of several processes. */
uint64_t hd_team_swap_barrier(ucc_team_h team);
uint64_t hd_team_swap_allreduce(ucc_team_h team, const ucc_coll_args_t *args);
uint64_t hd_team_swap_bcast(ucc_team_h team, const ucc_coll_args_t *args);
/* After a blocking call with a request has succeeded: remembers it for the next one. */
void hd_team_learn(const hd_request_t *r);
void hd_team_forget_lessons(ucc_team_h team);

/* --- requests (request.c) ------------------------------------------------------------------------ */

ucc_status_t hd_request_init(ucc_team_h team, const ucc_coll_args_t *args, const uint64_t *tag,
                             hd_request_t **out);
ucc_status_t hd_request_post(hd_request_t *r);
static inline bool hd_request_may_post(const hd_request_t *r) {
    ucc_status_t status = hd_task_status(&r->op.task);
    return status == UCC_OPERATION_INITIALIZED || (status == UCC_OK && r->op.call.persistent);
}
/* Of a post now; 0: none. */
static inline uint64_t hd_request_deadline(const hd_request_t *r) {
    return r->timeout > 0 ? hd_ticks() + hd_seconds_to_ticks(r->timeout) : 0;
}
/* Post of a request that is INPROGRESS already: its event has come (ee.c). */
ucc_status_t hd_request_start(hd_request_t *r);
ucc_status_t hd_request_finalize(hd_request_t *r);
/* What a request holds besides itself, if op.finish is set or the handle ends. */
void hd_request_release(hd_request_t *r);
/* For hd_runner_look_after. */
uint64_t hd_request_look_after(hd_task_t *task, uint64_t now);
/* Instead of post: the lane of number k on the main board is out already. */
void hd_request_resume(hd_request_t *r, uint64_t k);
/* A request whose last post was triggered, and is over: what was done to it for that is undone. */
void hd_request_unhook(hd_request_t *r);
/* Nobody touches the trigger any more (NULL: there is none): it may be freed. */
void hd_trigger_settle(hd_trigger_t *t);
/* The task that a context looks at until the event comes. */
hd_task_t *hd_trigger_carrier(hd_trigger_t *t);
/* One line about this call; args as at init, NULL at post (call_log.c). */
void hd_request_log(const hd_request_t *r, const ucc_coll_args_t *args);

#endif
