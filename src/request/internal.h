/* internal.h: from a call's arguments to a prepared request: what the files of request/ call of
 * each other. Nobody outside request/ includes this: others call what request.h, engine.h and
 * algorithm.h declare.
 *
 * The files, bottom up; each calls only those above it in this list:
 *
 *     shapes.c     the buffers of each collective
 *     pack.c       copies in place of buffers that only their user can pack
 *     shortcut.c   small collectives, which may end inside their post (request.h)
 *     plan.c       how a call runs (request.h)
 *     args.c       all arguments, and whether a kept plan fits them
 *     algorithm.c  calls that an algorithm of the user's runs (algorithm.h)
 *     call_log.c   the lines of COLL_TRACE (request.h)
 *     request.c    requests: init, post, finalize (request.h)
 *     engine.c     execution engines, and posts that an event starts (engine.h)
 *     stream.c     posts in the order of a stream (request.h, engine.h)
 *
 * The sections below stand in this order; files without a section are called through the header
 * that the list names.
 */
#ifndef HD_REQUEST_INTERNAL_H
#define HD_REQUEST_INTERNAL_H

#include "core/dtype.h"
#include "request/request.h"

/* One call while it is prepared. It lives on the stack of its preparation. */
typedef struct hd_intake {
    ucc_team_h team;
    const ucc_coll_args_t *args;
    hd_request_t *r;
    hd_op_t *op; /* the request's */
    uint64_t flags;
    uint32_t n, me; /* members of this collective, and the caller's number among them */
} hd_intake_t;

/* --- shapes.c --------------------------------------------------------------------------------- */

/* Logs "type at endpoint e: field what" and returns UCC_ERR_INVALID_PARAM. */
ucc_status_t hd_args_bad(const hd_intake_t *c, const char *field, const char *what);
/* Returns the address of a vector's first block that is not empty; if there is none, the vector's
 * buffer. */
const void *hd_args_first_block(const ucc_coll_buffer_info_v_t *info, uint64_t flags, uint32_t n);
/* Checks the buffers of a call that has some, and takes them into the operation. Logs what is
 * wrong. */
ucc_status_t hd_prepare(hd_intake_t *c);

/* --- pack.c ----------------------------------------------------------------------------------- */

/* If a buffer has a datatype that only the user can pack: lets contiguous copies stand in for the
 * user's buffers, and sets op->prepare and op->frame. Else changes nothing. */
ucc_status_t hd_pack_setup(ucc_team_h team, const ucc_coll_args_t *args, hd_request_t *r);
/* Frees the copies; r need not have any. */
void hd_pack_release(hd_request_t *r);

/* --- args.c ----------------------------------------------------------------------------------- */

/* Checks the fields that matter for this collective at this endpoint, and only those, and puts what
 * the operation needs into r. Logs the field that is wrong. */
ucc_status_t hd_args_prepare(ucc_team_h team, const ucc_coll_args_t *args, hd_request_t *r);
/* Returns true if r was prepared for arguments of this shape, and gives r these addresses: then r
 * need not be prepared again. */
bool hd_args_repeat(hd_request_t *r, const ucc_coll_args_t *args);
/* Called when all of init has succeeded: notes the shape of these arguments in r, if r's plan can
 * be kept for other calls of this shape. */
void hd_args_note_shape(hd_request_t *r, const ucc_coll_args_t *args);
/* Returns whether r is the request to be prepared for these arguments: it keeps a plan for them, or
 * it keeps none and none can be kept for them. */
bool hd_args_suit(const hd_request_t *r, const ucc_coll_args_t *args, bool tagged);
/* Does what hd_args_repeat does, for v types. Their counts are checked at each call: if true is
 * returned, *status says how that went. UCC_INPROGRESS: only the memory is of another kind, and r
 * has to be prepared. */
bool hd_args_repeat_vector(hd_request_t *r, const ucc_coll_args_t *args, ucc_status_t *status);
/* Does what hd_args_repeat does, for memory of which nothing is said (UCC_MEMORY_TYPE_UNKNOWN) and
 * which turns out to be the host's. */
bool hd_args_repeat_unknown(hd_request_t *r, const ucc_coll_args_t *args);
/* Makes a call of devices of a call without a byte here, which is to be in the order of a stream.
 */
ucc_status_t hd_args_become_device(hd_request_t *r);
/* Returns the datatype of the buffer that says how much there is at this endpoint. */
ucc_datatype_t hd_args_datatype(const hd_op_t *op, const ucc_coll_args_t *args);

#endif
