/* request.h: requests: how a collective gets from its arguments to a launched operation. What api/
 * calls, and form/ at a handle's end. A call runs hd_request_init, hd_request_post, and, once its
 * status is final, hd_request_finalize; a blocking call may do without a request (hd_team_barrier
 * and its like).
 */
#ifndef HD_REQUEST_REQUEST_H
#define HD_REQUEST_REQUEST_H

#include "device/device.h"
#include "team/team.h"

/* What of a call's arguments decided its plan. A request keeps the plan for calls that agree in all
 * of this. Fields that have no meaning for the collective at this endpoint are not compared: their
 * masks are 0. */
typedef struct hd_shape {
    uint64_t type; /* the complement of ucc_coll_type_t; 0, like no call: no plan is kept */
    bool vector;   /* a v type: its counts are taken anew by each call */
    uint64_t flags, op, root;
    uint64_t src_count, src_dt, dst_count, dst_dt;
    uint64_t op_mask, root_mask, src_mask, dst_mask;
} hd_shape_t;

/* A buffer that only its user can pack, and what stands in for it (pack.c). */
typedef struct hd_pack {
    ucc_coll_buffer_info_t user;
    uint8_t *copy; /* NULL: there is none, or it has no bytes */
    size_t bytes;
} hd_pack_t;

/* What a triggered post keeps with its request (engine.c). */
typedef struct hd_trigger hd_trigger_t;

/* A flag of arguments beyond UCC's: nobody changes the counts of a v type between init and launch.
 */
#define HD_ARGS_COUNTS_STAY UCC_BIT(63)

/* A request: an operation, and what is kept with it between its calls. */
struct hd_request {
    hd_op_t op; /* must stay first */
    enum hd_route {
        HD_ROUTE_NOTHING,    /* zero bytes, and over inside post; or an algorithm runs it (`run`) */
        HD_ROUTE_NUMBER,     /* the main board, number taken at post */
        HD_ROUTE_TAG,        /* matched at post by tag */
        HD_ROUTE_INIT,       /* private exchange, number taken at init, matched at post */
        HD_ROUTE_PERSISTENT, /* private board, number taken at init, matched at the first post */
        HD_ROUTE_ACTIVE_SET  /* matched at post among the set's members */
    } route;
    uint64_t tag;                    /* the tag; or the number that was taken at init */
    hd_subset_t *subset, active_set; /* subset: NULL, or the address of active_set */
    /* of the route PERSISTENT, from the first post to finalize; else NULL */
    hd_board_t *private_board;
    double timeout; /* seconds; 0: none */
    hd_shape_t shape;
    /* The express of this call, which is taken only while place.board is set; NULL: the call may
     * not take it. It completes the collective if all peers have published; else it publishes this
     * member's part, and leaves the rest to `resumed`. Only calls that have one may be remembered
     * (hd_team_cache_call). */
    uint64_t (*express)(const hd_place_t *at, const hd_call_t *call, uint32_t looks);
    ucc_status_t (*resumed)(hd_op_t *op);
    uint64_t *prefix; /* counts and displacements that nobody has written down (shapes.c) */
    hd_pack_t pack_src, pack_dst;
    /* flags, src and dst: what hd_prepare reads, at init, and at each post of a v type */
    ucc_coll_args_t args;
    hd_trigger_t *trigger;  /* NULL before the first triggered post */
    struct hd_request *all; /* in the list of all requests that this handle ever made */
    hd_op_waits_t waits;    /* how long its post has waited */
    struct hd_run *run;     /* of the algorithm that runs the call (algorithm.c); NULL: none does */
};

_Static_assert(offsetof(hd_request_t, op) == 0, "a request is an operation, and so a task");

/* --- plans (plan.c) --------------------------------------------------------------------------- */

/* Returns how the request's call would run if it were posted now. The request is prepared, and has
 * something to do; all endpoints have joined. */
hd_plan_t hd_plan_of(const hd_request_t *r);

/* --- small collectives (shortcut.c) ----------------------------------------------------------- */

/* Blocking calls without a request: they try the express for a call like the one that the handle
 * remembers. They return what hd_express_barrier returns: HD_EXPRESS_OVER; 0, if nothing has
 * happened; or the number whose lane is out. */
uint64_t hd_team_barrier(ucc_team_h team);
uint64_t hd_team_bcast(ucc_team_h team, void *buffer, uint64_t count, ucc_datatype_t dt,
                       uint32_t root);
uint64_t hd_team_allreduce(ucc_team_h team, const void *src, void *dst, uint64_t count,
                           ucc_datatype_t dt, ucc_reduction_op_t op);
uint64_t hd_team_scatter(ucc_team_h team, const void *src, void *dst, uint64_t count,
                         ucc_datatype_t dt, uint32_t root);
/* Does the same for a barrier, bcast or allreduce that crosses processes as a swap. api/ tries this
 * in teams of several processes, after the functions above have returned 0. */
uint64_t hd_team_swap(ucc_team_h team, const ucc_coll_args_t *args);
/* Called after a blocking call with a request has succeeded: remembers the call for the next
 * one. */
void hd_team_cache_call(const hd_request_t *r);
/* Forgets all that hd_team_cache_call has remembered. */
void hd_team_clear_call_cache(ucc_team_h team);

/* --- requests (request.c) --------------------------------------------------------------------- */

/* Returns a request that is prepared for these arguments, and may be posted. tag: NULL, or 64 bits
 * in place of args->tag. */
ucc_status_t hd_request_init(ucc_team_h team, const ucc_coll_args_t *args, const uint64_t *tag,
                             hd_request_t **out);
/* Posts a request. After this, the client may have finalized it in its callback. */
ucc_status_t hd_request_post(hd_request_t *r);
/* Returns whether the request may be posted: it was initialised, or it is persistent and its last
 * post has succeeded. */
static inline bool hd_request_may_post(const hd_request_t *r) {
    ucc_status_t status = hd_task_status(&r->op.task);
    return status == UCC_OPERATION_INITIALIZED || (status == UCC_OK && r->op.call.persistent);
}
/* Gives a request back to its handle. UCC_ERR_INVALID_PARAM: it is in progress (logged). */
ucc_status_t hd_request_finalize(hd_request_t *r);
/* Frees what a request holds besides itself. Called by finalize, if op.frame is set, and at the
 * handle's end. */
void hd_request_release(hd_request_t *r);
/* Is given to hd_runner_look_after by api/: says whom a task waits for, and lets it time out.
 * Returns when (ticks) to be called again at the latest. */
uint64_t hd_request_look_after(hd_task_t *task, uint64_t now);
/* Called when the express has put out the lane of number k on the operation's board, and a peer's
 * is not out: an operation does the rest. A blocking call whose express did that calls this instead
 * of post; its request is like that of the call that is remembered. */
void hd_request_resume(hd_request_t *r, uint64_t k);

/* --- posts that an event starts, or in the order of a stream (engine.c, stream.c) ------------- */

/* Posts in the order of a stream: that of the engine, or, if ee is NULL, that with this handle. */
ucc_status_t hd_request_post_on(hd_request_t *r, ucc_ee_h ee, void *handle, hd_on_t on);
/* Called for a request whose last post was triggered, and is over: undoes what was done to the
 * request for that post. */
void hd_request_unhook(hd_request_t *r);
/* Waits until nobody touches the trigger any more, so that it may be freed. NULL: there is none. */
void hd_trigger_settle(hd_trigger_t *t);
/* Returns the task that a context steps until the trigger's event comes. */
hd_task_t *hd_trigger_carrier(hd_trigger_t *t);
/* Called at the handle's end: takes all engines off the handle. Those of streams live on without a
 * team. */
void hd_team_leave_engines(ucc_team_h team);

#endif
