/* allgather.c: allgather(v): give[0] of each goes to take[r] of all others. */
#include "net/internal.h"

#include <string.h>

static ucc_status_t direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    for (uint32_t i = 1; leg->phase == 0 && i < call->n; i++) {
        uint32_t from = (call->me + call->n - i) % call->n;
        hd_leg_receive(leg, 0, from, &call->take[from]);
        hd_leg_send(leg, 0, (call->me + i) % call->n, &call->give[0]);
    }
    leg->phase = 1;
    return leg->receiving ? UCC_INPROGRESS : UCC_OK;
}

/* In round i, everybody passes on the block that came in the round before. */
static ucc_status_t ring(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    uint32_t n = call->n, me = call->me;
    while (!leg->receiving && leg->round + 1 < n) {
        uint32_t out = (me + n - leg->round) % n, in = (me + n - leg->round - 1) % n;
        hd_leg_receive(leg, leg->round, (me + n - 1) % n, &call->take[in]);
        hd_leg_send(leg, leg->round, (me + 1) % n, out == me ? &call->give[0] : &call->take[out]);
        leg->round++;
    }
    return leg->receiving ? UCC_INPROGRESS : UCC_OK;
}

/* Before round i I have the blocks of the min(2^i, n) ranks from me on, in this order, in scratch
 * memory; the round brings as many from the rank 2^i after me. */
static ucc_status_t bruck(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    uint32_t n = call->n, me = call->me, have = 1u << leg->round;
    size_t bytes = call->give[0].bytes;
    char *block = call->scratch;
    if (leg->phase == 0) {
        leg->phase = 1;
        hd_net_pack(&call->give[0], block);
    }
    while (!leg->receiving && have < n) {
        size_t more = (have < n - have ? have : n - have) * bytes;
        hd_leg_receive_bytes(leg, leg->round, (me + have) % n, block + have * bytes, more);
        hd_leg_send_bytes(leg, leg->round, (me + n - have) % n, block, more);
        leg->round++;
        have *= 2;
    }
    if (leg->receiving) {
        return UCC_INPROGRESS;
    }
    for (uint32_t i = 1; i < n; i++) {
        hd_net_unpack(&call->take[(me + i) % n], block + i * bytes);
    }
    return UCC_OK;
}

size_t hd_net_allgather_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan) {
    return plan->algorithm == HD_NET_BRUCK ? call->n * call->give[0].bytes : 0;
}

ucc_status_t hd_net_allgather(hd_leg_t *leg) {
    switch ((hd_net_algorithm_t)leg->plan.algorithm) {
    case HD_NET_RING:
        return ring(leg);
    case HD_NET_BRUCK:
        return bruck(leg);
    default:
        return direct(leg);
    }
}
