/* internal.h: what the files of request/ call of each other. Nobody outside request/ includes this:
 * others call what request.h, engine.h and algorithm.h declare.
 *
 * The files, bottom up; each calls only those above it in this list:
 *
 *     shapes.c     the buffers of each collective
 *     pack.c       copies in place of buffers that only their user can pack
 *     shortcut.c   small collectives, which may end inside their post
 *     plan.c       how a call runs
 *     args.c       all arguments, and whether a kept plan fits them
 *     algorithm.c  calls that an algorithm of the user's runs
 *     call_log.c   the lines of COLL_TRACE
 *     request.c    requests: init, post, finalize
 *     engine.c     execution engines, and posts that an event starts
 *     stream.c     posts in the order of a stream
 */
#ifndef HD_REQUEST_INTERNAL_H
#define HD_REQUEST_INTERNAL_H

#include "core/dtype.h"
#include "request/request.h"

/* --- shapes.c --------------------------------------------------------------------------------- */

/* Logs "type at endpoint e: field what" and returns UCC_ERR_INVALID_PARAM. */
ucc_status_t hd_args_bad(const hd_request_t *r, const char *field, const char *what);
/* Checks the buffers of a call that has some, which r->args names, and takes them into the
 * operation. Logs what is wrong. UCC_INPROGRESS: see hd_args_repeat. */
ucc_status_t hd_prepare(hd_request_t *r);

/* --- pack.c ----------------------------------------------------------------------------------- */

/* If a buffer has a datatype that only the user can pack: lets contiguous copies stand in for the
 * user's buffers in r->args, and sets op->prepare and op->frame. Else changes nothing. */
ucc_status_t hd_pack_setup(hd_request_t *r);
/* Frees the copies; r need not have any. */
void hd_pack_release(hd_request_t *r);

/* --- args.c ----------------------------------------------------------------------------------- */

/* Checks the fields that matter for this collective at this endpoint, and only those, and puts what
 * the operation needs into r. Logs the field that is wrong. */
ucc_status_t hd_args_prepare(ucc_team_h team, const ucc_coll_args_t *args, hd_request_t *r);
/* If r keeps a plan for these arguments, takes their addresses, and a v type's counts, into r.
 * UCC_INPROGRESS: r has to be prepared: it keeps no such plan, or the memory is of another kind. */
ucc_status_t hd_args_repeat(hd_request_t *r, const ucc_coll_args_t *args);
/* Called when all of init has succeeded: notes the shape of these arguments in r, if r's plan can
 * be kept for other calls of this shape. */
void hd_args_note_shape(hd_request_t *r, const ucc_coll_args_t *args);
/* Returns whether r is the request to be prepared for these arguments: it keeps a plan for them, or
 * it keeps none and none can be kept for them. */
bool hd_args_suit(const hd_request_t *r, const ucc_coll_args_t *args, bool tagged);
/* Makes a call of devices of a call without a byte here, which is to be in the order of a stream.
 */
ucc_status_t hd_args_become_device(hd_request_t *r);
/* Returns the datatype of the buffer that says how much there is at this endpoint. */
ucc_datatype_t hd_args_datatype(const hd_op_t *op, const ucc_coll_args_t *args);

/* --- plan.c ----------------------------------------------------------------------------------- */

/* Called at the end of a preparation: makes the plan, and sets what carries the operation out.
 * UCC_ERR_NO_MEMORY: see hd_span_follow. */
ucc_status_t hd_request_decide(hd_request_t *r);
/* op->start of an operation whose plan its first post makes. */
ucc_status_t hd_request_start_late(hd_op_t *op);
/* Called at a post whose counts are other ones than at the last: if the operation crosses
 * processes, its plan is made anew. */
void hd_request_replan(hd_op_t *op);

/* --- shortcut.c ------------------------------------------------------------------------------- */

/* Decides whether posts may try the express; called when the plan has been made. */
void hd_request_plan_express(hd_request_t *r);
/* Called after an operation was launched: looks a little longer for what it awaits. Returns the
 * operation's status then. */
ucc_status_t hd_request_linger(hd_request_t *r);
/* Tries the express of a request that has one. Returns what hd_express_barrier returns. */
uint64_t hd_request_express(hd_request_t *r);

/* --- request.c, call_log.c -------------------------------------------------------------------- */

/* Posts in the ordinary way: every route, every check but whether the request may be posted. The
 * event has come that starts a triggered one (engine.c). */
ucc_status_t hd_request_start(hd_request_t *r);
/* Returns the deadline of a post that is made now, in ticks; 0: it has none. */
static inline uint64_t hd_request_deadline(const hd_request_t *r) {
    return r->timeout > 0 ? hd_ticks() + hd_seconds_to_ticks(r->timeout) : 0;
}
/* Logs one line about this call. args: as at init; NULL: at post. */
void hd_request_log(const hd_request_t *r, const ucc_coll_args_t *args);

#endif
