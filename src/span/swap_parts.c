/* swap_parts.c: what is in the contributions, parts and results of a swap, by what hd_coll says of
 * the collective. swap.c calls these functions, which neither wait nor know of lanes and stages,
 * before the parts go out and when the others' are there.
 *
 * A member's CONTRIBUTION is what it would publish inside one process: its operand, its block, or
 * all the blocks that it sends. Where data comes from a root, only the root has one. A process's
 * PARTS are made of the contributions of its members; its RESULTS are made of the other processes'
 * parts and of those contributions. A contribution and a part are at most hd_net_swap_most bytes,
 * and the results at most as much for each process.
 *
 * Here b is call->bytes, n the team's endpoints, and n_p those of process p; blocks are in the
 * order of their endpoints:
 *
 *                       contribution       part of p for q              results of q
 *   allreduce, reduce   b                  b, reduced                   b
 *   bcast, mcast        b of the root      b                            b
 *   allgather, gather   b                  n_p b                        n b
 *   scatter             n b of the root    n_q b                        n_q b
 *   alltoall            n b                n_p n_q b, rows by sender    n b for each endpoint of q
 *
 * So there is a factor for senders where the result has a block of each (it gathers), and one for
 * receivers where the source has a block for each (it is divided).
 */
#include "span/internal.h"

#include <string.h>

/* Does the source have a block for each endpoint? */
static bool is_divided(const hd_call_t *call) {
    return hd_coll[call->type].source == HD_BLOCKS;
}

/* Does the result have a block of each endpoint? */
static bool gathers(const hd_call_t *call) {
    return hd_coll[call->type].result == HD_BLOCKS;
}

size_t hd_swap_part_bytes(const hd_span_t *span, const hd_call_t *call, uint32_t p, uint32_t q) {
    size_t senders = gathers(call) ? hd_span_count(span, p) : 1;
    return call->bytes * senders * (is_divided(call) ? hd_span_count(span, q) : 1);
}

/* Returns how many bytes the contribution has of a member that has one. */
static size_t contribution_bytes(const hd_span_t *span, const hd_call_t *call) {
    return is_divided(call) ? call->bytes * span->n : call->bytes;
}

bool hd_swap_suits(const hd_span_t *span, const hd_call_t *call, size_t most) {
    /* n may be less than the blocks in a part */
    bool suits = call->bytes <= most && contribution_bytes(span, call) <= most;
    for (uint32_t p = 0; suits && p < span->processes; p++) {
        /* two processes of the largest size have the longest parts for each other */
        suits = hd_span_count(span, p) <= HD_SWAP_MEMBERS &&
                hd_swap_part_bytes(span, call, p, p) <= most;
    }
    return suits;
}

const void *hd_swap_source(const hd_call_t *call) {
    const hd_coll_t *coll = &hd_coll[call->type];
    /* in place, all of dst is given; of an allgather or gather, src is the own block in it */
    return coll->reducing || coll->pairwise ? hd_call_operand(call) : call->src;
}

size_t hd_swap_gives(const hd_span_t *span, const hd_call_t *call) {
    bool gives = hd_coll[call->type].flow != HD_FROM_ROOT || call->is_root;
    return gives ? contribution_bytes(span, call) : 0;
}

size_t hd_swap_takes(const hd_span_t *span, const hd_call_t *call, uint32_t member, size_t *bytes) {
    *bytes = gathers(call) ? call->bytes * span->n : call->bytes;
    return is_divided(call) ? member * *bytes : 0; /* else all members' results are the same */
}

void hd_swap_set(hd_net_swap_t *net, const hd_span_t *span, const hd_call_t *call, uint64_t k) {
    uint8_t flow = hd_coll[call->type].flow, all = (uint8_t)((1u << span->processes) - 1);
    all &= (uint8_t) ~(1u << span->mine);
    net->k = k;
    net->signature = call->signature;
    net->same = span->processes == 2 || !is_divided(call); /* all others get the same part */
    net->to = net->from = all;
    if (flow != HD_AMONG_ALL) {
        uint8_t root = all & (uint8_t)(1u << span->process_of[call->root]),
                if_root = root ? 0 : all;
        net->to = flow == HD_TO_ROOT ? root : if_root;
        net->from = flow == HD_TO_ROOT ? if_root : root;
    }
    net->bytes[0] = (uint32_t)hd_swap_part_bytes(span, call, span->mine, !span->mine);
    for (uint32_t p = 0; p < span->processes && !net->same; p++) {
        net->bytes[p] = (uint32_t)hd_swap_part_bytes(span, call, span->mine, p);
    }
}

/* Returns where this process's part for p is written; in a reduction that is its partial result. */
static uint8_t *room(const hd_swap_t *swap, uint32_t p) {
    const hd_net_swap_t *net = swap->net;
    return hd_net_swap_room(swap->team, net->k, net->same ? 0 : p, hd_net_swap_is_long(net));
}

/* Copies bytes; knows the most frequent size, and that both addresses may be the same. */
static void copy(void *to, const void *from, size_t bytes) {
    if (bytes == sizeof(uint64_t)) {
        memmove(to, from, sizeof(uint64_t));
    } else if (to != from && bytes) {
        memcpy(to, from, bytes);
    }
}

/* Writes this process's partial result. */
static ucc_status_t reduce(const hd_swap_t *swap, const void *partial) {
    const hd_call_t *call = swap->call;
    uint32_t n = hd_span_count(swap->span, swap->span->mine);
    void *to = room(swap, 0);
    if (partial || n == 1) {
        copy(to, partial ? partial : swap->data[0], call->bytes);
        return UCC_OK;
    }
    return hd_reduce_tree(&call->reducer, n, swap->data, 0, 1, &to, 0, call->bytes / call->element,
                          HD_STORES_PLAIN);
}

/* Writes this process's part for p, or, if the source isn't divided, for all. */
static void write_part(const hd_swap_t *swap, uint32_t p) {
    const hd_span_t *span = swap->span;
    hd_members_t givers = hd_span_givers(span, swap->call, span->mine);
    size_t b = swap->call->bytes;
    uint32_t blocks = is_divided(swap->call) ? hd_span_count(span, p) : 1;
    uint8_t *to = room(swap, p);
    for (uint32_t i = givers.first; i < givers.end; i++) {
        for (uint32_t j = 0; j < blocks; j++, to += b) {
            size_t at = is_divided(swap->call) ? hd_span_endpoint(span, p, j) * b : 0;
            copy(to, (const uint8_t *)swap->data[i] + at, b);
        }
    }
}

ucc_status_t hd_swap_write(const hd_swap_t *swap, const void *partial) {
    const hd_coll_t *coll = &hd_coll[swap->call->type];
    bool written = !coll->moves_data;
    if (coll->reducing) {
        return reduce(swap, partial);
    }
    for (uint32_t p = 0; p < swap->span->processes && !written; p++) {
        if (p != swap->span->mine) {
            write_part(swap, p);
            written = swap->net->same;
        }
    }
    return UCC_OK;
}

uint32_t hd_swap_odd(const hd_swap_t *swap) {
    const hd_span_t *span = swap->span;
    const hd_net_swap_t *net = swap->net;
    uint32_t p = 0;
    for (; p < span->processes; p++) {
        bool needed = net->from >> p & 1;
        /* a part that is not needed may have come by chance, and must match nevertheless */
        if (p == span->mine || !(needed || hd_net_swap_has_part(swap->team, net->k, p))) {
            continue;
        }
        size_t bytes = needed ? hd_swap_part_bytes(span, swap->call, p, span->mine) : 0;
        if (!hd_net_swap_fits(swap->team, net->k, p, net->signature, bytes)) {
            break;
        }
    }
    return p;
}

/* Combines the processes' partial results to the final one. */
static void combine(const hd_swap_t *swap, const hd_reducer_t *reducer, void *result) {
    const void *operand[HD_SWAP_PROCESSES];
    const hd_span_t *span = swap->span;
    const hd_call_t *call = swap->call;
    for (uint32_t p = 0; p < span->processes; p++) {
        operand[p] =
            p == span->mine ? room(swap, 0) : hd_net_swap_part(swap->team, swap->net->k, p);
    }
    reducer->root(span->processes, operand, result, call->bytes / call->element * reducer->scalars,
                  span->n);
}

/* Makes the result of member i or, if the source isn't divided, of all members, out of what process
 * p gives. */
static void place_part(const hd_swap_t *swap, uint32_t p, uint32_t i, uint8_t *result) {
    const hd_span_t *span = swap->span;
    hd_members_t givers = hd_span_givers(span, swap->call, p);
    bool here = p == span->mine, divided = is_divided(swap->call);
    size_t b = swap->call->bytes, row = divided ? hd_span_count(span, span->mine) * b : b;
    size_t own = divided ? hd_span_endpoint(span, span->mine, i) * b : 0;
    bool comes = !here && givers.first < givers.end;
    const uint8_t *part = comes ? hd_net_swap_part(swap->team, swap->net->k, p) : NULL;
    for (uint32_t j = givers.first; j < givers.end; j++) {
        const uint8_t *from =
            here ? (const uint8_t *)swap->data[j] + own : part + (j - givers.first) * row + i * b;
        copy(result + (gathers(swap->call) ? hd_span_endpoint(span, p, j) * b : 0), from, b);
    }
}

void hd_swap_compose(const hd_swap_t *swap, const hd_reducer_t *reducer, void *results) {
    const hd_span_t *span = swap->span;
    const hd_coll_t *coll = &hd_coll[swap->call->type];
    hd_members_t takers = hd_span_takers(span, swap->call, span->mine);
    if (!coll->moves_data || takers.first == takers.end) {
        return;
    }
    if (coll->reducing) {
        combine(swap, reducer, results);
        return;
    }
    uint32_t different = is_divided(swap->call) ? hd_span_count(span, span->mine) : 1;
    for (uint32_t i = 0; i < different; i++) {
        size_t bytes, at = hd_swap_takes(span, swap->call, i, &bytes);
        for (uint32_t p = 0; p < span->processes; p++) {
            place_part(swap, p, i, (uint8_t *)results + at);
        }
    }
}
