/* plan.c: how a collective among processes runs: the only place where sizes and numbers of
 * processes are compared with thresholds. Plans are made of what all processes agree on: for v
 * types, whose sizes differ, of their number alone.
 *
 * What the configuration names is taken wherever it is possible at all; the trees and Bruck's
 * algorithm, which pack blocks of one size, are not for v types.
 */
#include "net/internal.h"

#include "core/reduce.h"

enum {
    EIGHT = HD_REDUCE_BLOCK, /* reductions have the canonical tree's blocks */
    BARRIER_DIRECT_N = 8,
    BARRIER_RADIX = 4,
    BCAST_WIDE = 8 << 10,  /* bytes up to which a bcast's tree is wide */
    BCAST_TREE = 64 << 10, /* bytes below which it is a tree, whatever n */
    BCAST_PART = 4 << 10,  /* bytes of each process's part from which on scattering is worth it */
    ALLGATHER_DIRECT_N = 12,
    BRUCK_WHOLE = 8 << 10, /* bytes of an allgather's result, of few */
    BRUCK_BLOCK = 2 << 10, /* bytes of a block, of more */
    GATHER_TREE = 2 << 10,
    GATHER_TREE_N = 16,
    ALLREDUCE_EXCHANGE = 16 << 10,
    ALLREDUCE_SWAP =
        64 << 10, /* of two processes: half of what they exchange is more than they need */
    REDUCE_TREE = 16 << 10,
    REDUCE_MESSAGE = 256, /* bytes that take as long as a message, beyond these two */
    WINDOW = 16
};

/* Rounds of a ring are steps, of which a message has 16 bits. */
static bool has_ring(uint32_t n) {
    return n <= UINT16_MAX;
}

/* A chain sends the fewest bytes, but needs more segments than there are to be the fastest
 * (docs/scaling.md). */
static hd_net_algorithm_t of_bcast(uint32_t n, size_t bytes) {
    bool large = bytes >= BCAST_TREE && bytes / n >= BCAST_PART && has_ring(n);
    return n > 2 && large ? HD_NET_SCATTER_ALLGATHER : HD_NET_TREE;
}

static hd_net_algorithm_t of_allgather(uint32_t n, size_t bytes, bool vector) {
    bool few = n <= ALLGATHER_DIRECT_N;
    if (!vector && n > EIGHT && (few ? bytes * n <= BRUCK_WHOLE : bytes <= BRUCK_BLOCK)) {
        return HD_NET_BRUCK;
    }
    /* direct: one step, and every block goes once over every way */
    return few || !has_ring(n) ? HD_NET_DIRECT : HD_NET_RING;
}

/* A combination that the starter shares out among threads, or that calls the user's code, may come
 * once in a leg: then levels of it are not possible. */
static bool has_levels(const hd_net_call_t *call) {
    return call->n > EIGHT && !call->parallel;
}

/* Parts of a reduction cost 2 (n - 1) messages: among many processes, more bytes are worth fewer
 * messages. */
static size_t up_to(size_t bytes, uint32_t n) {
    size_t many = (size_t)n * REDUCE_MESSAGE;
    return many > bytes ? many : bytes;
}

static hd_net_algorithm_t of_allreduce(const hd_net_call_t *call, size_t bytes) {
    uint32_t n = call->n;
    if (call->several || (n > EIGHT && !has_levels(call))) {
        return HD_NET_REDUCE_ALLGATHER;
    }
    size_t most = n == 2 ? ALLREDUCE_SWAP : up_to(ALLREDUCE_EXCHANGE, n);
    return bytes <= most ? HD_NET_EXCHANGE : HD_NET_REDUCE_ALLGATHER;
}

static hd_net_algorithm_t best(const hd_net_call_t *call, size_t bytes) {
    uint32_t n = call->n;
    bool vector = hd_coll[call->type].vector;
    switch ((hd_net_family_t)hd_net_family_of[call->type]) {
    case HD_NET_OF_BARRIER:
        if (hd_coll[call->type].rooted) { /* fanin, fanout */
            return HD_NET_TREE;
        }
        return n <= BARRIER_DIRECT_N ? HD_NET_DIRECT : HD_NET_DISSEMINATION;
    case HD_NET_OF_BCAST:
        return of_bcast(n, bytes);
    case HD_NET_OF_ALLGATHER:
        return of_allgather(n, bytes, vector);
    case HD_NET_OF_ALLTOALL:
        return HD_NET_PAIRWISE;
    case HD_NET_OF_GATHER:
    case HD_NET_OF_SCATTER:
        return !vector && n > GATHER_TREE_N && bytes <= GATHER_TREE ? HD_NET_TREE : HD_NET_DIRECT;
    case HD_NET_OF_ALLREDUCE:
        return of_allreduce(call, bytes);
    case HD_NET_OF_REDUCE:
        if (call->several || (n > EIGHT && !has_levels(call))) {
            return HD_NET_REDUCE_ALLGATHER;
        }
        return bytes <= up_to(REDUCE_TREE, n) || n == 2 ? HD_NET_TREE : HD_NET_REDUCE_ALLGATHER;
    case HD_NET_OF_REDUCE_SCATTER:
    case HD_NET_FAMILIES:
        break;
    }
    return HD_NET_DIRECT;
}

/* Of the configuration's word: can a call of this type run like that? */
static bool is_possible(const hd_net_call_t *call, uint8_t algorithm) {
    const hd_coll_t *coll = &hd_coll[call->type];
    if (call->several && hd_net_family_of[call->type] != HD_NET_OF_REDUCE_SCATTER) {
        return algorithm == HD_NET_REDUCE_ALLGATHER;
    }
    switch ((hd_net_algorithm_t)algorithm) {
    case HD_NET_NOTHING:
        return false;
    case HD_NET_DISSEMINATION:
        return !coll->rooted;
    case HD_NET_RING:
    case HD_NET_SCATTER_ALLGATHER:
        return has_ring(call->n);
    case HD_NET_BRUCK:
        return !coll->vector;
    case HD_NET_TREE:
        return coll->rooted && !coll->vector &&
               (!coll->reducing || call->n <= EIGHT || has_levels(call));
    case HD_NET_EXCHANGE:
        return call->n <= EIGHT || has_levels(call);
    default:
        return true;
    }
}

static uint32_t radix_of(const hd_net_call_t *call, hd_net_algorithm_t algorithm, size_t bytes) {
    switch (algorithm) {
    case HD_NET_DISSEMINATION:
        return BARRIER_RADIX;
    case HD_NET_TREE:
        return hd_net_family_of[call->type] == HD_NET_OF_BCAST && bytes > BCAST_WIDE ? 2 : EIGHT;
    case HD_NET_EXCHANGE:
        return EIGHT;
    default:
        return WINDOW;
    }
}

hd_net_plan_t hd_net_plan_of(const hd_net_team_t *team, const hd_net_call_t *call, size_t bytes) {
    return hd_net_plan_with(team->choice, call, bytes);
}

hd_net_plan_t hd_net_plan_with(const uint8_t choice[HD_NET_FAMILIES], const hd_net_call_t *call,
                               size_t bytes) {
    uint8_t family = hd_net_family_of[call->type];
    uint8_t chosen = family == HD_NET_OF_NONE ? HD_NET_NOTHING : choice[family];
    if (call->n == 1) {
        return (hd_net_plan_t){HD_NET_NOTHING, WINDOW};
    }
    hd_net_algorithm_t algorithm =
        is_possible(call, chosen) ? (hd_net_algorithm_t)chosen : best(call, bytes);
    return (hd_net_plan_t){(uint8_t)algorithm, radix_of(call, algorithm, bytes)};
}

size_t hd_net_scratch(const hd_net_call_t *call, const hd_net_plan_t *plan) {
    const hd_net_family_row_t *row = &hd_net_families[hd_net_family_of[call->type]];
    return row->scratch ? row->scratch(call, plan) : 0;
}
