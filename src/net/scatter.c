/* scatter.c: scatter(v): give[r] of the root goes to take[0] of r. */
#include "net/internal.h"

static void start_direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    if (call->me != call->root) {
        hd_leg_receive(leg, 0, call->root, &call->take[0]);
        return;
    }
    for (uint32_t i = 1; i < call->n; i++) {
        uint32_t to = (call->me + i) % call->n;
        hd_leg_send(leg, 0, to, &call->give[to]);
    }
}

ucc_status_t hd_net_scatter(hd_leg_t *leg) {
    if (leg->phase == 0) {
        leg->phase = 1;
        start_direct(leg);
    }
    return leg->receiving ? UCC_INPROGRESS : UCC_OK;
}
