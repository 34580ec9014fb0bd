/* reduce_scatter.c: reduce_scatter(v): everybody's operands of a rank's block (give[rank]) are combined into that
 * rank's take[0]. */
#include "net/internal.h"

#include <string.h>

/* The result in one piece: where it goes, or, if that is several pieces, a place of ours. */
static void *result_place(const hd_leg_t *leg, const hd_operands_t *o) {
    const hd_net_data_t *take = &leg->call.take[0];
    return take->n == 1 ? take->piece[0].at : hd_net_place(o, leg->call.me);
}

static void spread(const hd_net_data_t *take, const char *from) {
    for (uint32_t i = 0; i < take->n; i++) {
        if (take->piece[i].bytes) {
            memcpy(take->piece[i].at, from, take->piece[i].bytes);
            from += take->piece[i].bytes;
        }
    }
}

/* My operand of my block may be where the result goes, and is sent nowhere. But other blocks may be there, too. */
static bool may_combine(const hd_leg_t *leg) {
    return !leg->receiving && !leg->under_way;
}

static void start(hd_leg_t *leg, const hd_operands_t *o) {
    const hd_net_call_t *call = &leg->call;
    for (uint32_t i = 1; i < call->n; i++) {
        uint32_t from = (call->me + call->n - i) % call->n, to = (call->me + i) % call->n;
        hd_leg_receive_bytes(leg, 0, from, hd_net_place(o, from), call->take[0].bytes);
        hd_leg_send(leg, 0, to, &call->give[to]);
    }
    for (uint32_t r = 0; r < call->n; r++) {
        o->pointer[r] = hd_net_place(o, r);
    }
    o->pointer[call->me] = call->give[call->me].n ? call->give[call->me].piece[0].at : NULL;
}

/* Everybody sends each rank its block, and combines its own. */
static ucc_status_t direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    size_t bytes = call->take[0].bytes;
    hd_operands_t o = hd_net_operands(leg, 0, call->n, bytes);
    if (leg->phase == 0) {
        leg->phase = 1;
        start(leg, &o);
    }
    if (leg->failure != UCC_OK || !may_combine(leg)) {
        return UCC_INPROGRESS;
    }
    if (bytes == 0) {
        return UCC_OK;
    }
    void *result = result_place(leg, &o);
    const void *mine = call->give[call->me].piece[0].at;
    ucc_status_t status =
        hd_net_fold(leg, o.pointer, call->n, mine, result, 0, bytes / call->element, true);
    if (status == UCC_OK && call->take[0].n != 1) {
        spread(&call->take[0], result);
    }
    return status;
}

ucc_status_t hd_net_reduce_scatter(hd_leg_t *leg) {
    return direct(leg);
}
