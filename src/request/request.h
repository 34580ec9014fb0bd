/* request.h: requests: how a collective gets from its arguments to a launched operation. What those
 * may call who own handles: api/, and form/ at a handle's end.
 */
#ifndef HD_REQUEST_REQUEST_H
#define HD_REQUEST_REQUEST_H

#include "device/device.h"
#include "team/team.h"

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

/* What a triggered post keeps with its request (engine.c). */
typedef struct hd_trigger hd_trigger_t;

/* A request: an operation, and what is kept with it between its calls. */
struct hd_request {
    hd_op_t op; /* must stay first */
    enum hd_route {
        HD_ROUTE_NOTHING,    /* zero bytes: over inside post; or a user's algorithm: see `run` */
        HD_ROUTE_NUMBER,     /* the main board, number taken at post */
        HD_ROUTE_TAG,        /* matched at post by tag */
        HD_ROUTE_INIT,       /* private exchange joined at init */
        HD_ROUTE_PERSISTENT, /* private board, number taken at init */
        HD_ROUTE_ACTIVE_SET  /* matched at post among the set's members */
    } route;
    bool cacheable; /* a blocking call like it may be remembered (hd_team_cache_call) */
    uint64_t tag;   /* or init number */
    hd_subset_t *subset, active_set; /* NULL, or the address of the other */
    hd_board_t *private_board;       /* PERSISTENT: from the first post to finalize */
    double timeout;                  /* seconds; 0: none */
    hd_shape_t shape;
    /* Small, flat, nothing special: all of it if the others are there, and what is left of it if
     * they are not. NULL: it has no such way. Its place has a board when it is known. */
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
};

_Static_assert(offsetof(hd_request_t, op) == 0, "a request is an operation, and so a task");

/* --- small collectives (shortcut.c) ----------------------------------------------------------- */

/* At the end of init: decides whether posts may try the express. */
void hd_request_plan_express(hd_request_t *r);
/* After launching: looks a little longer for what the operation awaits; its status then. */
ucc_status_t hd_request_linger(hd_request_t *r);
/* On an engine's stream, triggered; or ee NULL: on that with this handle. */
ucc_status_t hd_request_post_on(hd_request_t *r, ucc_ee_h ee, void *handle, hd_on_t on);
ucc_status_t hd_request_join(hd_request_t *r);
/* The post of such a request, and blocking calls: results are those of hd_express_barrier and its
 * like. */
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
void hd_team_cache_call(const hd_request_t *r);
void hd_team_clear_call_cache(ucc_team_h team);

/* On behalf of a client that can't any more; nothing of the team's is in progress. */
void hd_team_end_engines(ucc_team_h team);
/* Those of streams are on their own from now on. */
void hd_team_leave_engines(ucc_team_h team);

/* --- requests (request.c) --------------------------------------------------------------------- */

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
/* Post of a request that is INPROGRESS already: its event has come (engine.c). */
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
