/* allreduce.c: everybody's operands are combined into everybody's result. */
#include "net/internal.h"

#include "core/reduce.h"

enum { EIGHT = HD_REDUCE_BLOCK };

static size_t bytes_of(const hd_net_call_t *call) {
    return call->count * call->element;
}

/* The combination may go where my operand is, which must have been sent by then. */
static bool may_combine(const hd_leg_t *leg) {
    return leg->failure == UCC_OK && !leg->receiving &&
           (!leg->under_way || leg->call.operand != leg->call.result);
}

/* Everybody sends to everybody, and combines for itself. */
static ucc_status_t direct(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    hd_operands_t o = hd_net_operands(leg, 0, call->n, bytes_of(call));
    for (uint32_t i = 1; leg->phase == 0 && i < call->n; i++) {
        uint32_t from = (call->me + call->n - i) % call->n;
        hd_leg_receive_bytes(leg, 0, from, hd_net_place(&o, from), bytes_of(call));
        hd_leg_send_bytes(leg, 0, (call->me + i) % call->n, call->operand, bytes_of(call));
        o.pointer[from] = hd_net_place(&o, from);
    }
    if (leg->phase == 0) {
        o.pointer[call->me] = call->operand;
        leg->phase = 1;
    }
    if (!may_combine(leg)) {
        return UCC_INPROGRESS;
    }
    return call->combine(leg, call->n, o.pointer, call->result, 0, call->count, true);
}

/* --- exchange: level by level, in blocks of 8 ------------------------------------------------- */

/* At level l, ranks stand in trees of 8^l: all ranks of a tree have its partial. Eight trees side
 * by side exchange theirs: rank i of a tree gets that of each other tree from the tree's rank i mod
 * its size, so that also the last one, which may be smaller, is asked evenly. */
typedef struct level {
    uint32_t n;
    uint64_t size;  /* ranks of a whole tree */
    uint64_t first; /* of the eight trees together */
    uint32_t k;     /* trees there are of them */
    uint32_t mine;  /* my tree's number */
} level_t;

static uint64_t size_at(uint32_t l) {
    return UINT64_C(1) << (3 * l);
}

static level_t level_of(const hd_net_call_t *call, uint32_t l) {
    level_t level = {.n = call->n, .size = size_at(l)};
    level.first = call->me / (EIGHT * level.size) * (EIGHT * level.size);
    uint64_t trees = (call->n - level.first + level.size - 1) / level.size;
    level.k = trees < EIGHT ? (uint32_t)trees : EIGHT;
    level.mine = (uint32_t)((call->me - level.first) / level.size);
    return level;
}

static uint64_t tree_first(const level_t *level, uint32_t t) {
    return level->first + t * level->size;
}

static uint64_t tree_size(const level_t *level, uint32_t t) {
    uint64_t left = level->n - tree_first(level, t);
    return left < level->size ? left : level->size;
}

static void swap_partials(hd_leg_t *leg, uint32_t l, const level_t *level, const hd_operands_t *o,
                          const void *partial) {
    const hd_net_call_t *call = &leg->call;
    uint64_t i = call->me - tree_first(level, level->mine), mine = tree_size(level, level->mine);
    for (uint32_t t = 0; t < level->k; t++) {
        if (t == level->mine) {
            o->pointer[t] = partial;
            continue;
        }
        uint64_t first = tree_first(level, t), size = tree_size(level, t);
        o->pointer[t] = hd_net_place(o, t);
        hd_leg_receive_bytes(leg, l, (uint32_t)(first + i % size), hd_net_place(o, t),
                             bytes_of(call));
        for (uint64_t j = i; j < size; j += mine) { /* those that get it from me */
            hd_leg_send_bytes(leg, l, (uint32_t)(first + j), partial, bytes_of(call));
        }
    }
}

static size_t level_bytes(const hd_net_call_t *call) {
    return hd_net_operands_bytes(EIGHT, EIGHT + 1, bytes_of(call));
}

/* leg->round: the level; leg->phase: 1: its partials are being exchanged. */
static ucc_status_t exchange(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    const void *partial = call->operand;
    for (;;) {
        level_t level = level_of(call, leg->round);
        hd_operands_t o =
            hd_net_operands(leg, leg->round * level_bytes(call), EIGHT, bytes_of(call));
        bool last = size_at(leg->round + 1) >= call->n;
        if (leg->round) { /* the place beyond the eighth of the level before has what came of it */
            hd_operands_t before =
                hd_net_operands(leg, (leg->round - 1) * level_bytes(call), EIGHT, bytes_of(call));
            partial = hd_net_place(&before, EIGHT);
        }
        if (leg->phase == 0) {
            leg->phase = 1;
            swap_partials(leg, leg->round, &level, &o, partial);
        }
        if (!may_combine(leg)) {
            return UCC_INPROGRESS;
        }
        void *dst = last ? call->result : hd_net_place(&o, EIGHT);
        ucc_status_t status = UCC_OK;
        status = leg->call.combine(leg, level.k, o.pointer, dst, 0, call->count, last);
        if (status != UCC_OK || last) {
            return status;
        }
        leg->phase = 0;
        leg->round++;
    }
}

/* --- reduce-scatter and allgather ------------------------------------------------------------- */

static char *result_of(const hd_net_call_t *call, uint32_t r) {
    return (char *)call->result + hd_net_first(call, r) * call->element;
}

/* Everybody combines its part, and sends the result to all. In place, parts come where my operands
 * are: a part that comes was made of mine, which has arrived by then. */
static ucc_status_t reduce_allgather(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    uint32_t n = call->n, me = call->me;
    size_t count = hd_net_count(call, me);
    hd_operands_t o = hd_net_collected(leg, (hd_net_part(call->count, n, 1) + 1) * call->element);
    if (leg->phase == 0) {
        if (!hd_net_collect(leg, &o, hd_net_part_of_operand, leg->plan.radix)) {
            return UCC_INPROGRESS;
        }
        leg->phase = 1;
    }
    if (leg->phase == 1) {
        ucc_status_t status =
            count ? call->combine(leg, hd_net_operands_in_all(call), o.pointer, result_of(call, me),
                                  hd_net_first(call, me), count, true)
                  : UCC_OK;
        if (status != UCC_OK) {
            return status;
        }
        leg->phase = 2;
        leg->round = 0;
    }
    while (leg->round + 1 < n && leg->receiving < leg->plan.radix && leg->failure == UCC_OK) {
        uint32_t i = ++leg->round, from = (me + n - i) % n, to = (me + i) % n;
        if (hd_net_count(call, from)) {
            hd_leg_receive_bytes(leg, 1, from, result_of(call, from),
                                 hd_net_count(call, from) * call->element);
        }
        if (count) {
            hd_leg_send_bytes(leg, 1, to, result_of(call, me), count * call->element);
        }
    }
    return leg->round + 1 < n || leg->receiving ? UCC_INPROGRESS : UCC_OK;
}

size_t hd_net_allreduce_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan) {
    uint32_t levels = 1;
    switch ((hd_net_algorithm_t)plan->algorithm) {
    case HD_NET_NOTHING:
        return 0;
    case HD_NET_EXCHANGE:
        while (size_at(levels) < call->n) {
            levels++;
        }
        return levels * level_bytes(call);
    case HD_NET_REDUCE_ALLGATHER:
        return hd_net_collected_bytes(call,
                                      (hd_net_part(call->count, call->n, 1) + 1) * call->element);
    default:
        return hd_net_operands_bytes(call->n, call->n, bytes_of(call));
    }
}

ucc_status_t hd_net_allreduce(hd_leg_t *leg) {
    const hd_net_call_t *call = &leg->call;
    switch ((hd_net_algorithm_t)leg->plan.algorithm) {
    case HD_NET_NOTHING: /* my operand is all there is */
        return call->combine(leg, 1, &call->operand, call->result, 0, call->count, true);
    case HD_NET_EXCHANGE:
        return exchange(leg);
    case HD_NET_REDUCE_ALLGATHER:
        return reduce_allgather(leg);
    default:
        return direct(leg);
    }
}
