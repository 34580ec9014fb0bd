/* gather.c: gather(v): give[0] of each goes to take[r] of the root. */
#include "net/internal.h"

static void start_direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    if (call->me != call->root) {
        hd_leg_send(leg, 0, call->root, &call->give[0]);
        return;
    }
    for (uint32_t r = 0; r < call->n; r++) {
        if (r != call->me) {
            hd_leg_receive(leg, 0, r, &call->take[r]);
        }
    }
}

ucc_status_t hd_net_gather(hd_leg_t *leg) {
    if (leg->phase == 0) {
        leg->phase = 1;
        start_direct(leg);
    }
    return leg->receiving ? UCC_INPROGRESS : UCC_OK;
}
