/* bcast.c: bcast and multicast: give[0] of the root goes to take[0] of the others.
 *
 * Large ones come in segments, each a leg of its own, so a chain moves several of them at a time.
 */
#include "net/internal.h"

static const hd_net_data_t *data_of(const hd_net_call_t *call) {
    return call->me == call->root ? &call->give[0] : &call->take[0];
}

static ucc_status_t direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    if (leg->phase == 0) {
        leg->phase = 1;
        if (call->me != call->root) {
            hd_leg_receive(leg, 0, call->root, &call->take[0]);
        }
        for (uint32_t i = 1; call->me == call->root && i < call->n; i++) {
            hd_leg_send(leg, 0, (call->root + i) % call->n, &call->give[0]);
        }
    }
    return leg->receiving ? UCC_INPROGRESS : UCC_OK;
}

/* From the parent, and on to all children. */
static ucc_status_t tree(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    hd_net_node_t node = hd_net_tree(call, call->root, leg->plan.radix);
    if (leg->phase == 0) {
        leg->phase = 1;
        if (node.v) {
            hd_leg_receive(leg, 0, hd_net_rank(&node, node.parent), &call->take[0]);
        }
    }
    if (leg->receiving) {
        return UCC_INPROGRESS;
    }
    for (hd_net_child_t child = {0}; hd_net_next_child(&node, &child);) {
        hd_leg_send(leg, 0, hd_net_rank(&node, child.v), data_of(call));
    }
    return UCC_OK;
}

static ucc_status_t chain(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    uint32_t before = (call->me + call->n - 1) % call->n, after = (call->me + 1) % call->n;
    if (leg->phase == 0) {
        leg->phase = 1;
        if (call->me != call->root) {
            hd_leg_receive(leg, 0, before, &call->take[0]);
        }
    }
    if (leg->receiving) {
        return UCC_INPROGRESS;
    }
    if (after != call->root) {
        hd_leg_send(leg, 0, after, data_of(call));
    }
    return UCC_OK;
}

/* Part p is that of the rank p after the root. */
static uint32_t number_of(const hd_net_call_t *call) {
    return (call->me + call->n - call->root) % call->n;
}

/* The root sends each its part; then all parts go around the ring, in which nobody sends to the
 * root, who has all. */
static ucc_status_t scatter_allgather(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    uint32_t n = call->n, v = number_of(call);
    uint32_t before = (call->me + n - 1) % n, after = (call->me + 1) % n;
    hd_net_data_t *part = call->scratch;
    if (leg->phase == 0) {
        leg->phase = 1;
        hd_net_cut(data_of(call), n, call->scratch);
        for (uint32_t p = 1; v == 0 && p < n; p++) {
            hd_leg_send(leg, 0, (call->root + p) % n, &part[p]);
        }
        if (v) {
            hd_leg_receive(leg, 0, call->root, &part[v]);
        }
    }
    /* In round i, v passes on part v - i, which came in the round before, or from the root. */
    while (!leg->receiving && leg->round + 1 < n) {
        uint32_t out = (v + n - leg->round) % n, in = (v + n - leg->round - 1) % n;
        leg->round++;
        if (v) {
            hd_leg_receive(leg, leg->round, before, &part[in]);
        }
        if (v + 1 < n) {
            hd_leg_send(leg, leg->round, after, &part[out]);
        }
    }
    return leg->receiving ? UCC_INPROGRESS : UCC_OK;
}

size_t hd_net_bcast_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan) {
    return plan->algorithm == HD_NET_SCATTER_ALLGATHER
               ? hd_net_parts_bytes(call->n, data_of(call)->n)
               : 0;
}

ucc_status_t hd_net_bcast(hd_leg_t *leg) {
    switch ((hd_net_algorithm_t)leg->plan.algorithm) {
    case HD_NET_TREE:
        return tree(leg);
    case HD_NET_CHAIN:
        return chain(leg);
    case HD_NET_SCATTER_ALLGATHER:
        return scatter_allgather(leg);
    default:
        return direct(leg);
    }
}
