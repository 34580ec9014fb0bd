/* alltoall.c: alltoall(v): give[r] of me goes to take[me] of r. */
#include "net/internal.h"

static void exchange(hd_leg_t *leg, uint32_t i) {
    const hd_net_call_t *call = &leg->call;
    uint32_t from = (call->me + call->n - i) % call->n, to = (call->me + i) % call->n;
    hd_leg_receive(leg, 0, from, &call->take[from]);
    hd_leg_send(leg, 0, to, &call->give[to]);
}

static void start_direct(hd_leg_t *leg) {
    for (uint32_t i = 1; i < leg->call.n; i++) {
        exchange(leg, i);
    }
}

ucc_status_t hd_net_alltoall(hd_leg_t *leg) {
    if (leg->phase == 0) {
        leg->phase = 1;
        start_direct(leg);
    }
    return leg->receiving ? UCC_INPROGRESS : UCC_OK;
}
