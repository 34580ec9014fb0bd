/* barrier.c: barrier, fanin and fanout: messages without bytes. */
#include "net/internal.h"

static void say(hd_leg_t *leg, uint32_t step, uint32_t to) {
    hd_leg_send_bytes(leg, step, to, NULL, 0);
}
static void hear(hd_leg_t *leg, uint32_t step, uint32_t from) {
    hd_leg_receive_bytes(leg, step, from, NULL, 0);
}

static hd_flow_t flow_of(const hd_leg_t *leg) {
    return (hd_flow_t)hd_coll[leg->call.type].flow;
}

/* Everybody to everybody; or to the root, or from it. */
static ucc_status_t direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    hd_flow_t flow = flow_of(leg);
    bool is_root = call->me == call->root, all = flow == HD_AMONG_ALL;
    bool says = all || is_root == (flow == HD_FROM_ROOT);
    bool hears = all || is_root == (flow == HD_TO_ROOT);
    for (uint32_t r = 0; leg->phase == 0 && r < call->n; r++) {
        bool other = r != call->me && (all || is_root || r == call->root);
        if (other && hears) {
            hear(leg, 0, r);
        }
        if (other && says) {
            say(leg, 0, r);
        }
    }
    leg->phase = 1;
    return leg->receiving ? UCC_INPROGRESS : UCC_OK;
}

/* After round i everybody has heard, at second hand, of radix^i ranks before it. leg->phase: 1 +
 * the rounds that were begun. */
static ucc_status_t disseminate(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    uint64_t distance = 1;
    for (uint32_t i = 0; i < leg->phase; i++) {
        distance *= leg->plan.radix;
    }
    while (!leg->receiving && distance < call->n) {
        for (uint64_t j = 1; j < leg->plan.radix && j * distance < call->n; j++) {
            uint32_t far = (uint32_t)(j * distance);
            hear(leg, leg->phase, (call->me + call->n - far) % call->n);
            say(leg, leg->phase, (call->me + far) % call->n);
        }
        leg->phase++;
        distance *= leg->plan.radix;
    }
    return leg->receiving ? UCC_INPROGRESS : UCC_OK;
}

static void hear_children(hd_leg_t *leg, const hd_net_node_t *node) {
    for (hd_net_child_t child = {0}; hd_net_next_child(node, &child);) {
        hear(leg, 0, hd_net_rank(node, child.v));
    }
}
static void tell_children(hd_leg_t *leg, const hd_net_node_t *node) {
    for (hd_net_child_t child = {0}; hd_net_next_child(node, &child);) {
        say(leg, 0, hd_net_rank(node, child.v));
    }
}

static ucc_status_t tree(hd_leg_t *leg) {
    hd_net_node_t node = hd_net_tree(&leg->call, leg->call.root, leg->plan.radix);
    bool in = flow_of(leg) == HD_TO_ROOT;
    if (leg->phase == 0) {
        leg->phase = 1;
        if (in) {
            hear_children(leg, &node);
        } else if (node.v) {
            hear(leg, 0, hd_net_rank(&node, node.parent));
        }
    }
    if (leg->receiving) {
        return UCC_INPROGRESS;
    }
    if (!in) {
        tell_children(leg, &node);
    } else if (node.v) {
        say(leg, 0, hd_net_rank(&node, node.parent));
    }
    return UCC_OK;
}

ucc_status_t hd_net_barrier(hd_leg_t *leg) {
    switch ((hd_net_algorithm_t)leg->plan.algorithm) {
    case HD_NET_DISSEMINATION:
        return disseminate(leg);
    case HD_NET_TREE:
        return tree(leg);
    default:
        return direct(leg);
    }
}
