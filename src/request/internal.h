/* internal.h: between the files of request/: arguments (args.c, shapes.c, pack.c), and requests. */
#ifndef HD_REQUEST_INTERNAL_H
#define HD_REQUEST_INTERNAL_H

#include "core/dtype.h"
#include "request/request.h"

/* One call being prepared. */
typedef struct hd_intake {
    ucc_team_h team;
    const ucc_coll_args_t *args;
    hd_request_t *r;
    hd_op_t *op;
    uint64_t flags;
    uint32_t n, me; /* members of this collective, and my number among them */
} hd_intake_t;

/* By type: checks the buffers and takes them; NULL: it has none. */
extern ucc_status_t (*const hd_prepare[HD_N_TYPES])(hd_intake_t *c);

/* Logs "type at endpoint e: field what" and returns UCC_ERR_INVALID_PARAM. */
ucc_status_t hd_args_bad(const hd_intake_t *c, const char *field, const char *what);

/* The address of a vector's first block that is not empty, or of its buffer. */
const void *hd_args_first_block(const ucc_coll_buffer_info_v_t *info, uint64_t flags, uint32_t n);

/* Checks the fields that matter for this collective at this endpoint, and only those, and puts
 * what the operation needs into r. Logs the field that is wrong. */
ucc_status_t hd_args_prepare(ucc_team_h team, const ucc_coll_args_t *args, hd_request_t *r);
/* The same for a request whose plan can be kept: true if r was prepared for arguments of this shape
 * and now has these addresses. hd_args_note_shape says, after all of init succeeded, that it
 * can. */
bool hd_args_repeat(hd_request_t *r, const ucc_coll_args_t *args);
void hd_args_note_shape(hd_request_t *r, const ucc_coll_args_t *args);
/* Is r the one to be prepared for these arguments? It keeps a plan for them; or none, if none can
 * be kept for them. */
bool hd_args_suit(const hd_request_t *r, const ucc_coll_args_t *args, bool tagged);
/* Likewise for v types, whose counts are checked in any case: their status, if true is returned.
 * UCC_INPROGRESS: it is the same but for the memory, and has to be prepared. */
bool hd_args_repeat_vector(hd_request_t *r, const ucc_coll_args_t *args, ucc_status_t *status);
/* hd_args_repeat for memory of which nothing is said (UCC_MEMORY_TYPE_UNKNOWN) and which turns out
 * to be the host's. */
bool hd_args_repeat_unknown(hd_request_t *r, const ucc_coll_args_t *args);
/* A call without a byte here, that is to be in the order of a stream: one of devices from now on.
 */
ucc_status_t hd_args_become_device(hd_request_t *r);
/* Datatypes that only the user can pack: contiguous copies stand in for the user's buffers. */
ucc_status_t hd_pack_setup(ucc_team_h team, const ucc_coll_args_t *args, hd_request_t *r);
void hd_pack_release(hd_request_t *r);

/* Of the buffer that says what there is at this endpoint. */
ucc_datatype_t hd_args_datatype(const hd_op_t *op, const ucc_coll_args_t *args);

#endif
