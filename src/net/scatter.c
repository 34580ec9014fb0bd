/* scatter.c: scatter(v): give[r] of the root goes to take[0] of r. */
#include "net/internal.h"

/* The root sends to plan.radix of them at a time. leg->round: ranks that were sent to. */
static ucc_status_t direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    if (call->me != call->root) {
        if (leg->phase == 0) {
            leg->phase = 1;
            hd_leg_receive(leg, 0, call->root, &call->take[0]);
        }
        return leg->receiving ? UCC_INPROGRESS : UCC_OK;
    }
    for (; leg->round + 1 < call->n && leg->under_way < leg->plan.radix; leg->round++) {
        uint32_t to = (call->root + leg->round + 1) % call->n;
        hd_leg_send(leg, 0, to, &call->give[to]);
        if (leg->failure != UCC_OK) {
            break;
        }
    }
    return leg->round + 1 < call->n ? UCC_INPROGRESS : UCC_OK;
}

static void pack_all(const hd_net_call_t *call, const hd_net_node_t *node, char *block,
                     size_t bytes) {
    for (uint32_t v = 1; v < call->n; v++) {
        hd_net_pack(&call->give[hd_net_rank(node, v)], block + v * bytes);
    }
}

/* Each gets the blocks of all below it as one message, in the order of the tree's numbers. */
static ucc_status_t tree(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    hd_net_node_t node = hd_net_tree(call, call->root, leg->plan.radix);
    size_t bytes = node.v ? call->take[0].bytes : call->give[hd_net_rank(&node, 1)].bytes;
    char *block = call->scratch;
    if (leg->phase == 0) {
        leg->phase = 1;
        if (node.v) {
            hd_leg_receive_bytes(leg, 0, hd_net_rank(&node, node.parent), block, node.span * bytes);
        } else {
            pack_all(call, &node, block, bytes);
        }
    }
    if (leg->receiving) {
        return UCC_INPROGRESS;
    }
    for (hd_net_child_t child = {0}; hd_net_next_child(&node, &child);) {
        hd_leg_send_bytes(leg, 0, hd_net_rank(&node, child.v), block + (child.v - node.v) * bytes,
                          child.span * bytes);
    }
    if (node.v) {
        hd_net_unpack(&call->take[0], block);
    }
    return UCC_OK;
}

size_t hd_net_scatter_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan) {
    if (plan->algorithm != HD_NET_TREE) {
        return 0;
    }
    hd_net_node_t node = hd_net_tree(call, call->root, plan->radix);
    return node.span * (node.v ? call->take[0].bytes : call->give[hd_net_rank(&node, 1)].bytes);
}

ucc_status_t hd_net_scatter(hd_leg_t *leg) {
    return leg->plan.algorithm == HD_NET_TREE ? tree(leg) : direct(leg);
}
