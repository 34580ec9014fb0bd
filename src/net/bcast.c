/* bcast.c: bcast and multicast: give[0] of the root goes to take[0] of the others. */
#include "net/internal.h"

static void start_direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    if (call->me != call->root) {
        hd_leg_receive(leg, 0, call->root, &call->take[0]);
        return;
    }
    for (uint32_t i = 1; i < call->n; i++) {
        hd_leg_send(leg, 0, (call->root + i) % call->n, &call->give[0]);
    }
}

ucc_status_t hd_net_bcast(hd_leg_t *leg) {
    if (leg->phase == 0) {
        leg->phase = 1;
        start_direct(leg);
    }
    return leg->receiving ? UCC_INPROGRESS : UCC_OK;
}
