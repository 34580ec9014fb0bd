/* gather.c: gather(v): give[0] of each goes to take[r] of the root. */
#include "net/internal.h"

/* The root takes plan.radix of them at a time. leg->round: ranks that were looked at. */
static ucc_status_t direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    if (call->me != call->root) {
        hd_leg_send(leg, 0, call->root, &call->give[0]);
        return UCC_OK;
    }
    for (; leg->round < call->n && leg->receiving < leg->plan.radix; leg->round++) {
        if (leg->round != call->me) {
            hd_leg_receive(leg, 0, leg->round, &call->take[leg->round]);
        }
    }
    return leg->round < call->n || leg->receiving ? UCC_INPROGRESS : UCC_OK;
}

static void unpack_all(const hd_net_call_t *call, const hd_net_node_t *node, const char *block,
                       size_t bytes) {
    for (uint32_t v = 1; v < call->n; v++) {
        hd_net_unpack(&call->take[hd_net_rank(node, v)], block + v * bytes);
    }
}

/* Each collects the blocks below it, in the order of the tree's numbers, and sends them on as
 * one. */
static ucc_status_t tree(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    hd_net_node_t node = hd_net_tree(call, call->root, leg->plan.radix);
    size_t bytes = node.v ? call->give[0].bytes : call->take[hd_net_rank(&node, 1)].bytes;
    char *block = call->scratch;
    if (leg->phase == 0) {
        leg->phase = 1;
        for (hd_net_child_t child = {0}; hd_net_next_child(&node, &child);) {
            hd_leg_receive_bytes(leg, 0, hd_net_rank(&node, child.v),
                                 block + (child.v - node.v) * bytes, child.span * bytes);
        }
        if (node.v) {
            hd_net_pack(&call->give[0], block);
        }
    }
    if (leg->receiving) {
        return UCC_INPROGRESS;
    }
    if (node.v) {
        hd_leg_send_bytes(leg, 0, hd_net_rank(&node, node.parent), block, node.span * bytes);
    } else {
        unpack_all(call, &node, block, bytes);
    }
    return UCC_OK;
}

size_t hd_net_gather_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan) {
    if (plan->algorithm != HD_NET_TREE) {
        return 0;
    }
    hd_net_node_t node = hd_net_tree(call, call->root, plan->radix);
    return node.span * (node.v ? call->give[0].bytes : call->take[hd_net_rank(&node, 1)].bytes);
}

ucc_status_t hd_net_gather(hd_leg_t *leg) {
    return leg->plan.algorithm == HD_NET_TREE ? tree(leg) : direct(leg);
}
