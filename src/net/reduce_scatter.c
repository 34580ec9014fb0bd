/* reduce_scatter.c: reduce_scatter(v): everybody's operands of a rank's block (give[rank]) are
 * combined into that rank's take[0]. */
#include "net/internal.h"

/* The result in one piece: where it goes, or, if that is several pieces, a place of ours. */
static void *result_place(const hd_leg_t *leg, const hd_operands_t *o) {
    const hd_net_data_t *take = &leg->call.take[0];
    return take->n == 1 ? take->piece[0].at : hd_net_own_place(&leg->call, o);
}

static hd_net_piece_t block(const hd_net_call_t *call, uint32_t r) {
    const hd_net_data_t *give = &call->give[r];
    return give->bytes ? give->piece[0] : (hd_net_piece_t){NULL, 0};
}

/* Everybody sends each rank its block, so many at a time, and combines its own. That goes where
 * other blocks' operands may lie, in place: those have been sent by then. */
static ucc_status_t direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    size_t bytes = call->take[0].bytes;
    hd_operands_t o = hd_net_collected(leg, bytes);
    if (leg->phase == 0) {
        if (!hd_net_collect(leg, &o, block, leg->plan.radix)) {
            return UCC_INPROGRESS;
        }
        leg->phase = 1;
    }
    if (leg->under_way) {
        return UCC_INPROGRESS;
    }
    if (bytes == 0) {
        return UCC_OK;
    }
    void *result = result_place(leg, &o);
    ucc_status_t status = call->combine(leg, hd_net_operands_in_all(call), o.pointer, result, 0,
                                        bytes / call->element, true);
    if (status == UCC_OK && call->take[0].n != 1) {
        hd_net_unpack(&call->take[0], result);
    }
    return status;
}

size_t hd_net_reduce_scatter_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan) {
    (void)plan;
    return hd_net_collected_bytes(call, call->take[0].bytes);
}

/* One process is the same, with nobody to send to. */
ucc_status_t hd_net_reduce_scatter(hd_leg_t *leg) {
    return direct(leg);
}
