/* alltoall.c: alltoall(v): give[r] of me goes to take[me] of r. */
#include "net/internal.h"

/* In round i everybody sends to the rank i after it. So many rounds are under way at a time. */
static ucc_status_t rotate(hd_leg_t *leg, uint32_t window) {
    const hd_net_call_t *call = &leg->call;
    uint32_t n = call->n, me = call->me;
    while (leg->round + 1 < n && leg->receiving < window && leg->under_way < 2 * window) {
        uint32_t i = ++leg->round;
        uint32_t from = (me + n - i) % n, to = (me + i) % n;
        hd_leg_receive(leg, 0, from, &call->take[from]);
        hd_leg_send(leg, 0, to, &call->give[to]);
        if (leg->failure != UCC_OK) {
            return UCC_INPROGRESS;
        }
    }
    return leg->round + 1 < n || leg->receiving ? UCC_INPROGRESS : UCC_OK;
}

ucc_status_t hd_net_alltoall(hd_leg_t *leg) {
    return rotate(leg, leg->plan.algorithm == HD_NET_PAIRWISE ? leg->plan.radix : leg->call.n);
}
