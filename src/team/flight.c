/* flight.c: operations of teams of several processes. */
#include "team/span.h"

static ucc_status_t refuse(hd_op_t *op) {
    hd_error("%s: not across processes", hd_op_type_name(op));
    return UCC_ERR_NOT_SUPPORTED;
}

void hd_flight_choose(hd_op_t *op, const hd_span_t *span) {
    (void)span;
    op->start = refuse;
}

void hd_flight_stage(hd_outer_t *stage) {
    (void)stage;
}
