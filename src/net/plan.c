/* plan.c: how a collective among processes runs: the only place where sizes and numbers of processes are compared with
 * thresholds. Plans are made of what all processes agree on: for v types, whose sizes differ, of their number alone.
 */
#include "net/internal.h"

static hd_net_family_t family_of(uint8_t type) {
    switch ((enum hd_type)type) {
    case HD_BARRIER:
    case HD_FANIN:
    case HD_FANOUT:
    case HD_SCAN:
    case HD_EXSCAN:
    case HD_N_TYPES:
        break;
    case HD_BCAST:
    case HD_MCAST:
        return HD_NET_OF_BCAST;
    case HD_ALLGATHER:
    case HD_ALLGATHERV:
        return HD_NET_OF_ALLGATHER;
    case HD_ALLTOALL:
    case HD_ALLTOALLV:
        return HD_NET_OF_ALLTOALL;
    case HD_GATHER:
    case HD_GATHERV:
        return HD_NET_OF_GATHER;
    case HD_SCATTER:
    case HD_SCATTERV:
        return HD_NET_OF_SCATTER;
    case HD_ALLREDUCE:
        return HD_NET_OF_ALLREDUCE;
    case HD_REDUCE:
        return HD_NET_OF_REDUCE;
    case HD_REDUCE_SCATTER:
    case HD_REDUCE_SCATTERV:
        return HD_NET_OF_REDUCE_SCATTER;
    }
    return HD_NET_OF_BARRIER;
}

hd_net_plan_t hd_net_plan_of(const hd_net_team_t *team, const hd_net_call_t *call, size_t bytes) {
    (void)bytes;
    uint8_t chosen = team->net->choice[family_of(call->type)];
    if (call->n == 1) {
        return (hd_net_plan_t){HD_NET_NOTHING, 0};
    }
    return (hd_net_plan_t){chosen ? chosen : HD_NET_DIRECT, 8};
}

size_t hd_net_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan) {
    (void)plan;
    switch ((enum hd_type)call->type) {
    case HD_ALLREDUCE:
        return hd_net_operands_bytes(call->n, call->n, call->count * call->element);
    case HD_REDUCE:
        return call->me == call->root
                   ? hd_net_operands_bytes(call->n, call->n, call->count * call->element)
                   : 0;
    case HD_REDUCE_SCATTER:
    case HD_REDUCE_SCATTERV:
        return hd_net_operands_bytes(call->n, call->n, call->take[0].bytes);
    default:
        return 0;
    }
}
