/* swap_parts.c: what is in the contributions, parts and results of a swap (swap.h), by what hd_coll
 * says of the collective. swap.c calls these functions, before the parts go out and when the others' are there. Here b is
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
 * So there is a factor for senders where the result has a block of each (it gathers), and one for
 * receivers where the source has a block for each (it is divided).
 *
 * Contributions lie in users' buffers or in lanes, results where swap.c says. All of this is small,
 * so one thread does it at once.
 */
#include "span/swap.h"

#include <string.h>

static hd_flow_t flow_of(const hd_call_t *call) {
    return (hd_flow_t)hd_coll[call->type].flow;
}

/* Does the source have a block for each endpoint? */
static bool is_divided(const hd_call_t *call) {
    return hd_coll[call->type].source == HD_BLOCKS;
}

/* Does the result have a block of each endpoint? */
static bool gathers(const hd_call_t *call) {
    return hd_coll[call->type].result == HD_BLOCKS;
}

/* Returns how many bytes a part has that goes from so many endpoints to so many. */
static size_t part_between(const hd_call_t *call, uint32_t senders, uint32_t receivers) {
    size_t blocks = gathers(call) ? senders : 1;
    return (is_divided(call) ? blocks * receivers : blocks) * call->bytes;
}

/* Returns how many bytes the part of p for q has, if there is one. */
static size_t part_bytes(const hd_span_t *span, const hd_call_t *call, uint32_t p, uint32_t q) {
    return part_between(call, hd_span_count(span, p), hd_span_count(span, q));
}

/* Returns how many bytes the contribution has of a member that has one. */
static size_t contribution_bytes(const hd_span_t *span, const hd_call_t *call) {
    return is_divided(call) ? call->bytes * span->n : call->bytes;
}

bool hd_swap_suits(const hd_span_t *span, const hd_call_t *call, size_t most) {
    uint32_t members = 0;
    for (uint32_t p = 0; p < span->processes; p++) {
        members = hd_span_count(span, p) > members ? hd_span_count(span, p) : members;
    }
    if (members > HD_SWAP_MEMBERS || call->bytes > most) {
        return false;
    }
    /* two processes of the largest size have the longest parts for each other; and n may be less
     * than the blocks in such a part */
    return contribution_bytes(span, call) <= most && part_between(call, members, members) <= most;
}

const void *hd_swap_source(const hd_call_t *call) {
    const hd_coll_t *coll = &hd_coll[call->type];
    /* in place, all of dst is given; of an allgather or gather, src is the own block in it */
    return coll->reducing || coll->pairwise ? hd_call_operand(call) : call->src;
}

size_t hd_swap_gives(const hd_span_t *span, const hd_call_t *call) {
    bool gives = flow_of(call) != HD_FROM_ROOT || call->is_root;
    return gives ? contribution_bytes(span, call) : 0;
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
    *bytes = gathers(call) ? call->bytes * span->n : call->bytes;
    return is_divided(call) ? member * *bytes : 0; /* else all members' results are the same */
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
    net->same = span->processes == 2 || !is_divided(call); /* all others get the same part */
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

/* Writes this process's part for p, or, if the source isn't divided, for all: what `members` local
 * members from the first one on contribute. */
static void write_part(const hd_swap_t *swap, uint32_t p, uint32_t first, uint32_t members) {
    size_t b = swap->call->bytes;
    uint8_t *to = room(swap, p);
    for (uint32_t i = first; i < first + members; i++) {
        if (is_divided(swap->call)) {
            to = copy_blocks_of(swap, p, swap->data[i], to);
        } else {
            copy(to, swap->data[i], b);
            to += b;
        }
    }
}

ucc_status_t hd_swap_write(const hd_swap_t *swap) {
    const hd_span_t *span = swap->span;
    const hd_call_t *call = swap->call;
    const hd_coll_t *coll = &hd_coll[call->type];
    if (coll->reducing) {
        return reduce(swap, room(swap, 0));
    }
    bool from_root = coll->flow == HD_FROM_ROOT;
    if (!coll->moves_data || (from_root && span->process_of[call->root] != span->mine)) {
        return UCC_OK;
    }
    uint32_t first = from_root ? span->local_of[call->root] : 0;
    uint32_t members = from_root ? 1 : hd_span_count(span, span->mine);
    if (!is_divided(call)) {
        write_part(swap, 0, first, members);
        return UCC_OK;
    }
    for (uint32_t p = 0; p < span->processes; p++) {
        if (p != span->mine) {
            write_part(swap, p, first, members);
        }
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

/* Makes the results of a collective from a root. */
static void spread(const hd_swap_t *swap, uint8_t *results) {
    const hd_span_t *span = swap->span;
    const hd_call_t *call = swap->call;
    uint32_t root = span->process_of[call->root], mine = span->mine;
    if (root != mine) {
        copy(results, hd_net_swap_part(swap->team, swap->net->k, root),
             part_bytes(span, call, root, mine));
    } else if (is_divided(call)) {
        (void)copy_blocks_of(swap, mine, swap->data[span->local_of[call->root]], results);
    } else {
        copy(results, room(swap, 0), call->bytes);
    }
}

/* Makes a result that has a block of each endpoint: member i's or, if the source isn't divided, that
 * of all members. */
static void place_blocks(const hd_swap_t *swap, uint32_t i, uint8_t *result) {
    const hd_span_t *span = swap->span;
    size_t b = swap->call->bytes;
    bool divided = is_divided(swap->call);
    uint32_t columns = divided ? hd_span_count(span, span->mine) : 1;
    size_t at = divided ? hd_span_endpoint(span, span->mine, i) * b : 0;
    for (uint32_t p = 0; p < span->processes; p++) {
        const uint8_t *part =
            p == span->mine ? NULL : hd_net_swap_part(swap->team, swap->net->k, p);
        for (uint32_t j = 0; j < hd_span_count(span, p); j++) {
            const uint8_t *from =
                part ? part + (j * columns + i) * b : (const uint8_t *)swap->data[j] + at;
            copy(result + hd_span_endpoint(span, p, j) * b, from, b);
        }
    }
}

void hd_swap_compose(const hd_swap_t *swap, const hd_reducer_t *reducer, void *results) {
    const hd_span_t *span = swap->span;
    const hd_call_t *call = swap->call;
    hd_flow_t flow = flow_of(call);
    if (!hd_coll[call->type].moves_data ||
        (flow == HD_TO_ROOT && span->process_of[call->root] != span->mine)) {
        return;
    }
    if (hd_coll[call->type].reducing) {
        combine(swap, reducer, results);
    } else if (flow == HD_FROM_ROOT) {
        spread(swap, results);
    } else {
        uint32_t different = is_divided(call) ? hd_span_count(span, span->mine) : 1;
        for (uint32_t i = 0; i < different; i++) {
            place_blocks(swap, i, (uint8_t *)results + i * span->n * call->bytes);
        }
    }
}
