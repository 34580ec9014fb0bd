/* coll.h: what a collective is, as data: its types, and one call of it.
 *
 * A CALL is what is asked of one endpoint, checked. It is written at init and not changed after it, except
 * that a v type's counts, and what follows from them, are taken anew before each post. Peers may read it
 * while a claim pins its exchange (shm/engine.c). It says nothing of how the collective runs.
 */
#ifndef HD_CORE_COLL_H
#define HD_CORE_COLL_H

#include "core/reduce.h"

/* log2 of ucc_coll_type_t. */
enum hd_type {
    HD_ALLGATHER,
    HD_ALLGATHERV,
    HD_ALLREDUCE,
    HD_ALLTOALL,
    HD_ALLTOALLV,
    HD_BARRIER,
    HD_BCAST,
    HD_FANIN,
    HD_FANOUT,
    HD_GATHER,
    HD_GATHERV,
    HD_REDUCE,
    HD_REDUCE_SCATTER,
    HD_REDUCE_SCATTERV,
    HD_SCATTER,
    HD_SCATTERV,
    HD_MCAST,
    HD_SCAN,
    HD_EXSCAN,
    HD_N_TYPES
};

_Static_assert(1u << HD_ALLGATHER == UCC_COLL_TYPE_ALLGATHER &&
                   1u << HD_SCATTERV == UCC_COLL_TYPE_SCATTERV,
               "types are numbered as their bits in ucc_coll_type_t are");

/* Counts and displacements of a v collective, 32 or 64 bits wide. */
typedef struct hd_vector {
    const void *counts, *displacements; /* displacements NULL: densely packed */
    bool wide_counts, wide_displacements;
} hd_vector_t;

typedef struct hd_call {
    uint8_t type; /* enum hd_type */
    bool in_place, is_root, persistent;
    bool exclusive;      /* the user's reduction: one chunk at a time */
    bool global_errors;  /* UCC_ERR_TYPE_GLOBAL */
    uint32_t root;       /* member number */
    uint32_t signature;  /* what must agree across members, hashed */
    size_t element;      /* bytes per element */
    size_t send_element; /* alltoallv: of what is sent */
    size_t bytes;        /* per block, or all of it for bcast, reduce, allreduce */
    size_t total;        /* bytes this member gives in all */
    size_t count;        /* reductions of `bytes`: elements */
    const uint8_t *src;
    uint8_t *dst;
    hd_vector_t send, receive;
    hd_reducer_t reducer;
} hd_call_t;

/* What this member gives to a reduction. */
static inline const uint8_t *hd_call_operand(const hd_call_t *call) {
    return call->in_place ? call->dst : call->src;
}

static inline uint64_t hd_vector_count(const hd_vector_t *v, uint32_t i) {
    return v->wide_counts ? ((const uint64_t *)v->counts)[i] : ((const uint32_t *)v->counts)[i];
}
/* base may be NULL, with absolute addresses for displacements. */
static inline uint8_t *hd_at(const void *base, uint64_t offset) {
    return (uint8_t *)((uintptr_t)base + (uintptr_t)offset);
}
/* Where block i starts, in elements. Dense vectors cost a sum: callers that walk all blocks keep a
 * running offset instead. */
static inline uint64_t hd_vector_displacement(const hd_vector_t *v, uint32_t i) {
    if (v->displacements) {
        return v->wide_displacements ? ((const uint64_t *)v->displacements)[i]
                                     : ((const uint32_t *)v->displacements)[i];
    }
    uint64_t sum = 0;
    for (uint32_t j = 0; j < i; j++) {
        sum += hd_vector_count(v, j);
    }
    return sum;
}

#endif
