/* allgather.c: allgather(v): give[0] of each goes to take[r] of all others. */
#include "net/internal.h"

static void start_direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    for (uint32_t i = 1; i < call->n; i++) {
        uint32_t from = (call->me + call->n - i) % call->n;
        hd_leg_receive(leg, 0, from, &call->take[from]);
        hd_leg_send(leg, 0, (call->me + i) % call->n, &call->give[0]);
    }
}

ucc_status_t hd_net_allgather(hd_leg_t *leg) {
    if (leg->phase == 0) {
        leg->phase = 1;
        start_direct(leg);
    }
    return leg->receiving ? UCC_INPROGRESS : UCC_OK;
}
