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

/* Of the buffer that says what there is at this endpoint. */
ucc_datatype_t hd_args_datatype(const hd_op_t *op, const ucc_coll_args_t *args);

#endif
