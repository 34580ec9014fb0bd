/* swap_parts.c: what is in the contributions, parts and results of a swap (swap.h), by collective.
 * swap.c calls these functions, before the parts go out and when the others' are there. Here b is
 * call->bytes, n the team's endpoints, and n_p those of process p; blocks are in the order of their
 * endpoints:
 *
 *                       contribution       part of p for q              results of q
 *   allreduce, reduce   b                  b, reduced                   b
 *   bcast, mcast        b of the root      b                            b
 *   allgather, gather   b                  n_p b                        n b
 *   scatter             n b of the root    n_q b                        n_q b
 *   alltoall            n b                n_p n_q b, rows by sender    n b for each endpoint of q
 *
 * Contributions lie in users' buffers or in lanes, results where swap.c says. All of this is small,
 * so one thread does it at once.
 */
#include "span/swap.h"

#include <string.h>

static hd_flow_t flow_of(const hd_call_t *call) {
    return (hd_flow_t)hd_coll[call->type].flow;
}

/* Returns how many bytes the part of p for q has, if there is one. */
static size_t part_bytes(const hd_span_t *span, const hd_call_t *call, uint32_t p, uint32_t q) {
    switch (call->type) {
    case HD_ALLGATHER:
    case HD_GATHER:
        return hd_span_count(span, p) * call->bytes;
    case HD_SCATTER:
        return hd_span_count(span, q) * call->bytes;
    case HD_ALLTOALL:
        return (size_t)hd_span_count(span, p) * hd_span_count(span, q) * call->bytes;
    default:
        return call->bytes;
    }
}

/* Does each other process get the same part from this one? */
static bool same_to_all(const hd_span_t *span, uint8_t type) {
    return span->processes == 2 || (type != HD_ALLTOALL && type != HD_SCATTER);
}

bool hd_swap_suits(const hd_span_t *span, const hd_call_t *call, size_t most) {
    uint32_t members = 0;
    for (uint32_t p = 0; p < span->processes; p++) {
        members = hd_span_count(span, p) > members ? hd_span_count(span, p) : members;
    }
    if (members > HD_SWAP_MEMBERS || call->bytes > most) {
        return false;
    }
    switch (call->type) {
    case HD_ALLGATHER:
    case HD_GATHER:
        return call->bytes * members <= most;
    case HD_SCATTER:
        return call->bytes * span->n <= most;
    /* two processes of the largest size have members * members blocks for each other, and n may be
     * less than that */
    case HD_ALLTOALL:
        return call->bytes * span->n <= most && call->bytes * members * members <= most;
    default:
        return true;
    }
}

const void *hd_swap_source(const hd_call_t *call) {
    bool own = hd_coll[call->type].reducing || call->type == HD_ALLTOALL;
    return own ? hd_call_operand(call) : call->src;
}

size_t hd_swap_gives(const hd_span_t *span, const hd_call_t *call) {
    if (flow_of(call) == HD_FROM_ROOT && !call->is_root) {
        return 0;
    }
    bool blocks = call->type == HD_SCATTER || call->type == HD_ALLTOALL;
    return blocks ? call->bytes * span->n : call->bytes;
}

bool hd_swap_waits(const hd_call_t *call) {
    switch (flow_of(call)) {
    case HD_TO_ROOT:
        return call->is_root;
    case HD_FROM_ROOT:
        return !call->is_root;
    case HD_AMONG_ALL:
        break;
    }
    return true;
}

size_t hd_swap_takes(const hd_span_t *span, const hd_call_t *call, uint32_t member, size_t *bytes) {
    bool all = call->type == HD_ALLGATHER || call->type == HD_GATHER || call->type == HD_ALLTOALL;
    *bytes = all ? call->bytes * span->n : call->bytes;
    return call->type == HD_ALLTOALL || call->type == HD_SCATTER ? member * *bytes : 0;
}

size_t hd_swap_comes(const hd_span_t *span, const hd_call_t *call, uint32_t *process) {
    *process = span->process_of[call->root];
    return part_bytes(span, call, *process, span->mine);
}

/* Returns a bit for each process but this one. */
static uint8_t others(const hd_span_t *span) {
    return (uint8_t)(((1u << span->processes) - 1) & ~(1u << span->mine));
}

void hd_swap_set(hd_net_swap_t *net, const hd_span_t *span, const hd_call_t *call, uint64_t k) {
    hd_flow_t flow = flow_of(call);
    uint8_t all = others(span);
    net->k = k;
    net->signature = call->signature;
    net->same = same_to_all(span, call->type);
    net->to = net->from = all;
    if (flow != HD_AMONG_ALL) {
        uint8_t root = (uint8_t)(1u << span->process_of[call->root]);
        uint8_t if_root = all & root ? 0 : all;
        net->to = flow == HD_TO_ROOT ? all & root : if_root;
        net->from = flow == HD_TO_ROOT ? if_root : all & root;
    }
    net->bytes[0] = (uint32_t)part_bytes(span, call, span->mine, !span->mine);
    for (uint32_t p = 0; p < span->processes && !net->same; p++) {
        net->bytes[p] = (uint32_t)part_bytes(span, call, span->mine, p);
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

/* Reduces this process's contributions to its partial result. */
static ucc_status_t reduce(const hd_swap_t *swap, void *to) {
    const hd_call_t *call = swap->call;
    uint32_t n = hd_span_count(swap->span, swap->span->mine);
    if (n == 1) {
        copy(to, swap->data[0], call->bytes);
        return UCC_OK;
    }
    return hd_reduce_tree(&call->reducer, n, swap->data, 0, 1, &to, 0, call->bytes / call->element,
                          HD_STORES_PLAIN);
}

/* Copies, out of blocks for all endpoints, those of process p's endpoints. Returns the end of the
 * copy. */
static uint8_t *copy_blocks_of(const hd_swap_t *swap, uint32_t p, const uint8_t *blocks,
                               uint8_t *to) {
    size_t b = swap->call->bytes;
    for (uint32_t i = 0; i < hd_span_count(swap->span, p); i++, to += b) {
        copy(to, blocks + hd_span_endpoint(swap->span, p, i) * b, b);
    }
    return to;
}

ucc_status_t hd_swap_write(const hd_swap_t *swap) {
    const hd_span_t *span = swap->span;
    const hd_call_t *call = swap->call;
    uint32_t n = hd_span_count(span, span->mine);
    bool has_root = hd_coll[call->type].rooted && span->process_of[call->root] == span->mine;
    uint32_t root = has_root ? span->local_of[call->root] : 0;
    uint8_t *to = room(swap, 0);
    switch (call->type) {
    case HD_ALLREDUCE:
    case HD_REDUCE:
        return reduce(swap, to);
    case HD_BCAST:
    case HD_MCAST:
        if (has_root) {
            copy(to, swap->data[root], call->bytes);
        }
        break;
    case HD_ALLGATHER:
    case HD_GATHER:
        for (uint32_t i = 0; i < n; i++) {
            copy(to + i * call->bytes, swap->data[i], call->bytes);
        }
        break;
    case HD_SCATTER:
        for (uint32_t p = 0; p < span->processes && has_root; p++) {
            if (p != span->mine) {
                (void)copy_blocks_of(swap, p, swap->data[root], room(swap, p));
            }
        }
        break;
    case HD_ALLTOALL:
        for (uint32_t p = 0; p < span->processes; p++) {
            to = room(swap, p);
            for (uint32_t i = 0; i < n && p != span->mine; i++) {
                to = copy_blocks_of(swap, p, swap->data[i], to);
            }
        }
        break;
    default:
        break;
    }
    return UCC_OK;
}

void hd_swap_write_partial(const hd_swap_t *swap, const void *partial) {
    memcpy(room(swap, 0), partial, swap->call->bytes);
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
        size_t bytes = needed ? part_bytes(span, swap->call, p, span->mine) : 0;
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

/* Makes the results of an allgather or gather. */
static void place_blocks(const hd_swap_t *swap, uint8_t *results) {
    const hd_span_t *span = swap->span;
    size_t b = swap->call->bytes;
    for (uint32_t p = 0; p < span->processes; p++) {
        const uint8_t *part =
            p == span->mine ? NULL : hd_net_swap_part(swap->team, swap->net->k, p);
        for (uint32_t i = 0; i < hd_span_count(span, p); i++) {
            const void *from = part ? part + i * b : swap->data[i];
            copy(results + hd_span_endpoint(span, p, i) * b, from, b);
        }
    }
}

/* Makes member i's result of an alltoall. */
static void place_column(const hd_swap_t *swap, uint32_t i, uint8_t *results) {
    const hd_span_t *span = swap->span;
    uint32_t mine = span->mine, n = hd_span_count(span, mine), me = hd_span_endpoint(span, mine, i);
    size_t b = swap->call->bytes;
    for (uint32_t p = 0; p < span->processes; p++) {
        const uint8_t *part = p == mine ? NULL : hd_net_swap_part(swap->team, swap->net->k, p);
        for (uint32_t j = 0; j < hd_span_count(span, p); j++) {
            const uint8_t *from =
                part ? part + (j * n + i) * b : (const uint8_t *)swap->data[j] + me * b;
            copy(results + hd_span_endpoint(span, p, j) * b, from, b);
        }
    }
}

void hd_swap_compose(const hd_swap_t *swap, const hd_reducer_t *reducer, void *results) {
    const hd_span_t *span = swap->span;
    const hd_call_t *call = swap->call;
    uint32_t mine = span->mine, n = hd_span_count(span, mine);
    uint32_t root = hd_coll[call->type].rooted ? span->process_of[call->root] : mine;
    if (flow_of(call) == HD_TO_ROOT && root != mine) {
        return;
    }
    switch (call->type) {
    case HD_ALLREDUCE:
    case HD_REDUCE:
        combine(swap, reducer, results);
        break;
    case HD_BCAST:
    case HD_MCAST:
        copy(results,
             root == mine ? room(swap, 0) : hd_net_swap_part(swap->team, swap->net->k, root),
             call->bytes);
        break;
    case HD_ALLGATHER:
    case HD_GATHER:
        place_blocks(swap, results);
        break;
    case HD_SCATTER:
        if (root == mine) {
            (void)copy_blocks_of(swap, mine, swap->data[span->local_of[call->root]], results);
        } else {
            copy(results, hd_net_swap_part(swap->team, swap->net->k, root), n * call->bytes);
        }
        break;
    case HD_ALLTOALL:
        for (uint32_t i = 0; i < n; i++) {
            place_column(swap, i, (uint8_t *)results + i * span->n * call->bytes);
        }
        break;
    default:
        break;
    }
}
