/* args.h: between args.c (what is common to all collectives) and shapes.c (buffers and sizes of each). */
#ifndef HD_TEAM_ARGS_H
#define HD_TEAM_ARGS_H

#include "core/dtype.h"
#include "team/team.h"

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

/* Whose memory a significant buffer is, of which so many bytes matter, and which is not said to be the host's: if it is a
 * device's, so is the call from now on (device.h). field: "src" or "dst". UCC_INPROGRESS: so far it was not (only from
 * hd_args_repeat_vector). */
ucc_status_t hd_device_look(const hd_intake_t *c, const char *field, ucc_memory_type_t type,
                            const void *buffer, size_t bytes);
/* After that: is there so much memory as it says? For a device's, and what else is given to devices as it is. Of a vector with
 * displacements, each block. UCC_ERR_INVALID_PARAM: no (logged). */
ucc_status_t hd_device_fits(const hd_intake_t *c, const char *field, const void *buffer,
                            size_t bytes);
ucc_status_t hd_device_blocks_fit(const hd_intake_t *c, const char *field, const hd_vector_t *v,
                                  void *buffer, size_t element);
/* The call is one of devices; none of its buffers is known yet. */
ucc_status_t hd_device_become(const hd_intake_t *c);
/* Such a call is known: decides how it runs. */
ucc_status_t hd_device_settle(hd_intake_t *c);

/* Of the buffer that says what there is at this endpoint. */
ucc_datatype_t hd_args_datatype(const hd_op_t *op, const ucc_coll_args_t *args);

#endif
