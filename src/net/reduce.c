/* reduce.c: everybody's operands are combined into the root's result. */
#include "net/internal.h"

#include "core/reduce.h"

enum { EIGHT = HD_REDUCE_BLOCK };

static size_t bytes_of(const hd_net_call_t *call) {
    return call->count * call->element;
}

/* Everybody sends to the root, which combines all. */
static ucc_status_t direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    bool is_root = call->me == call->root;
    if (!is_root) {
        hd_leg_send_bytes(leg, 0, call->root, call->operand, bytes_of(call));
        return UCC_OK;
    }
    hd_operands_t o = hd_net_operands(leg, 0, call->n, bytes_of(call));
    for (uint32_t r = 0; leg->phase == 0 && r < call->n; r++) {
        o.pointer[r] = r == call->me ? call->operand : hd_net_place(&o, r);
        if (r != call->me) {
            hd_leg_receive_bytes(leg, 0, r, hd_net_place(&o, r), bytes_of(call));
        }
    }
    leg->phase = 1;
    if (leg->failure != UCC_OK || leg->receiving) {
        return UCC_INPROGRESS;
    }
    return call->combine(leg, call->n, o.pointer, call->result, 0, call->count, true);
}

/* --- tree: blocks of 8 ------------------------------------------------------------------------ */

static uint64_t size_at(uint32_t l) {
    return UINT64_C(1) << (3 * l);
}

/* Of a tree of 8^l ranks, the one that has its partial: the root, if it is in there, else the
 * first. */
static uint32_t owner(const hd_net_call_t *call, uint32_t l, uint64_t first) {
    return call->root >= first && call->root < first + size_at(l) ? call->root : (uint32_t)first;
}

static uint64_t tree_of(const hd_net_call_t *call, uint32_t l) {
    return call->me / size_at(l) * size_at(l);
}

static uint32_t children(const hd_net_call_t *call, uint32_t l) {
    uint64_t left = call->n - tree_of(call, l + 1), size = size_at(l);
    uint64_t k = (left + size - 1) / size;
    return k < EIGHT ? (uint32_t)k : EIGHT;
}

static uint32_t levels_of(const hd_net_call_t *call) {
    uint32_t levels = 1;
    while (size_at(levels) < call->n) {
        levels++;
    }
    return levels;
}

/* One place for each child, and, where there is a level above, one for the partial. */
static size_t level_bytes(const hd_net_call_t *call) {
    uint32_t places = call->n <= EIGHT ? call->n : EIGHT + 1;
    return hd_net_operands_bytes(EIGHT, places, bytes_of(call));
}

/* Who owns no tree receives nothing. */
static size_t tree_bytes(const hd_net_call_t *call) {
    bool owns = owner(call, 1, tree_of(call, 1)) == call->me;
    return owns ? levels_of(call) * level_bytes(call) : 0;
}

static void receive_children(hd_leg_t *leg, uint32_t l, const hd_operands_t *o,
                             const void *partial) {
    const hd_net_call_t *call = &leg->call;
    uint64_t first = tree_of(call, l + 1);
    for (uint32_t t = 0; t < children(call, l); t++) {
        uint32_t from = owner(call, l, first + t * size_at(l));
        o->pointer[t] = from == call->me ? partial : hd_net_place(o, t);
        if (from != call->me) {
            hd_leg_receive_bytes(leg, l, from, hd_net_place(o, t), bytes_of(call));
        }
    }
}

/* leg->round: the level, of which I own the tree; leg->phase: 1: its children's partials are
 * coming. */
static ucc_status_t tree(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    const void *partial = call->operand;
    for (;;) {
        uint32_t l = leg->round;
        bool last = size_at(l + 1) >= call->n;
        if (l) {
            hd_operands_t before =
                hd_net_operands(leg, (l - 1) * level_bytes(call), EIGHT, bytes_of(call));
            partial = hd_net_place(&before, EIGHT);
        }
        uint32_t to = owner(call, l + 1, tree_of(call, l + 1));
        if (to != call->me) {
            hd_leg_send_bytes(leg, l, to, partial, bytes_of(call));
            return UCC_OK;
        }
        hd_operands_t o = hd_net_operands(leg, l * level_bytes(call), EIGHT, bytes_of(call));
        if (leg->phase == 0) {
            leg->phase = 1;
            receive_children(leg, l, &o, partial);
        }
        if (leg->failure != UCC_OK || leg->receiving) {
            return UCC_INPROGRESS;
        }
        void *dst = last ? call->result : hd_net_place(&o, EIGHT);
        ucc_status_t status =
            call->combine(leg, children(call, l), o.pointer, dst, 0, call->count, last);
        if (status != UCC_OK || last) {
            return status;
        }
        leg->phase = 0;
        leg->round++;
    }
}

/* --- reduce-scatter, and gather to the root --------------------------------------------------- */

static size_t part_bytes(const hd_net_call_t *call) {
    return (hd_net_part(call->count, call->n, 1) + 1) * call->element;
}

static void collect_results(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    for (uint32_t r = 0; r < call->n; r++) {
        if (r != call->me && hd_net_count(call, r)) {
            hd_leg_receive_bytes(leg, 1, r,
                                 (char *)call->result + hd_net_first(call, r) * call->element,
                                 hd_net_count(call, r) * call->element);
        }
    }
}

/* In place, parts come where the root's operands are: see allreduce.c. */
static ucc_status_t reduce_gather(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    uint32_t me = call->me;
    bool is_root = me == call->root;
    size_t first = hd_net_first(call, me), count = hd_net_count(call, me);
    hd_operands_t o = hd_net_collected(leg, part_bytes(call));
    if (leg->phase == 0) {
        if (!hd_net_collect(leg, &o, hd_net_part_of_operand, leg->plan.radix)) {
            return UCC_INPROGRESS;
        }
        leg->phase = 1;
    }
    if (leg->phase == 1) {
        /* Elsewhere the result takes the place of my operand among the others', which lies where it
         * was given. */
        void *dst =
            is_root ? (char *)call->result + first * call->element : hd_net_own_place(call, &o);
        ucc_status_t status = count ? call->combine(leg, hd_net_operands_in_all(call), o.pointer,
                                                    dst, first, count, true)
                                    : UCC_OK;
        if (status != UCC_OK) {
            return status;
        }
        leg->phase = 2;
        if (is_root) {
            collect_results(leg);
        } else if (count) {
            hd_leg_send_bytes(leg, 1, call->root, dst, count * call->element);
        }
    }
    return leg->receiving ? UCC_INPROGRESS : UCC_OK;
}

size_t hd_net_reduce_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan) {
    switch ((hd_net_algorithm_t)plan->algorithm) {
    case HD_NET_NOTHING:
        return 0;
    case HD_NET_TREE:
        return tree_bytes(call);
    case HD_NET_REDUCE_ALLGATHER:
        return hd_net_collected_bytes(call, part_bytes(call));
    default:
        return call->me == call->root ? hd_net_operands_bytes(call->n, call->n, bytes_of(call)) : 0;
    }
}

ucc_status_t hd_net_reduce(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    switch ((hd_net_algorithm_t)leg->plan.algorithm) {
    case HD_NET_NOTHING: /* my operand is all there is */
        return call->combine(leg, 1, &call->operand, call->result, 0, call->count, true);
    case HD_NET_TREE:
        return tree(leg);
    case HD_NET_REDUCE_ALLGATHER:
        return reduce_gather(leg);
    default:
        return direct(leg);
    }
}
