/* coll.h: what a collective is, as data: its types, the facts about each, and one call of it.
 *
 * The facts stand in one table, hd_coll. Whoever wants to know who has a source, how far a result
 * reaches or whether there is a root asks it, and does not look at the type.
 *
 * A CALL is what is asked of one endpoint, checked. It is written at init and not changed after it,
 * except that a v type's counts, and what follows from them, are taken anew before each post. Peers
 * may read it while a claim pins its exchange (shm/engine.c). It says nothing of how the collective
 * runs.
 */
#ifndef HD_CORE_COLL_H
#define HD_CORE_COLL_H

#include "core/reduce.h"

#include <heddle/heddle.h>

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
                   1u << HD_ALLGATHERV == UCC_COLL_TYPE_ALLGATHERV &&
                   1u << HD_ALLREDUCE == UCC_COLL_TYPE_ALLREDUCE &&
                   1u << HD_ALLTOALL == UCC_COLL_TYPE_ALLTOALL &&
                   1u << HD_ALLTOALLV == UCC_COLL_TYPE_ALLTOALLV &&
                   1u << HD_BARRIER == UCC_COLL_TYPE_BARRIER &&
                   1u << HD_BCAST == UCC_COLL_TYPE_BCAST && 1u << HD_FANIN == UCC_COLL_TYPE_FANIN &&
                   1u << HD_FANOUT == UCC_COLL_TYPE_FANOUT &&
                   1u << HD_GATHER == UCC_COLL_TYPE_GATHER &&
                   1u << HD_GATHERV == UCC_COLL_TYPE_GATHERV &&
                   1u << HD_REDUCE == UCC_COLL_TYPE_REDUCE &&
                   1u << HD_REDUCE_SCATTER == UCC_COLL_TYPE_REDUCE_SCATTER &&
                   1u << HD_REDUCE_SCATTERV == UCC_COLL_TYPE_REDUCE_SCATTERV &&
                   1u << HD_SCATTER == UCC_COLL_TYPE_SCATTER &&
                   1u << HD_SCATTERV == UCC_COLL_TYPE_SCATTERV &&
                   1u << HD_MCAST == UCC_COLL_TYPE_MCAST && 1u << HD_SCAN == UCC_COLL_TYPE_SCAN &&
                   1u << HD_EXSCAN == UCC_COLL_TYPE_EXSCAN && HD_N_TYPES == HD_EXSCAN + 1,
               "types are numbered as their bits in ucc_coll_type_t are");

/* --- facts ------------------------------------------------------------------------------------ */

/* The members that have a buffer. */
typedef enum hd_holder {
    HD_NOBODY,
    HD_EVERYBODY,
    HD_THE_ROOT,
    HD_THE_OTHERS, /* all but the root */
    HD_SUCCESSORS  /* all but member 0 */
} hd_holder_t;

/* How far a buffer reaches. */
typedef enum hd_extent {
    HD_NOTHING,
    HD_WHOLE,  /* as many bytes at every member; nothing is divided */
    HD_BLOCK,  /* one member's part */
    HD_BLOCKS, /* a part for each member, one after the other */
    HD_VECTOR  /* described by counts (info_v): a part for each member, of any size and place; what
                  reduce_scatterv stores is one of them */
} hd_extent_t;

typedef enum hd_flow {
    HD_AMONG_ALL,
    HD_TO_ROOT,  /* only the root waits for others */
    HD_FROM_ROOT /* the others wait for the root */
} hd_flow_t;

typedef struct hd_coll {
    const char *name;
    ucc_coll_type_t bit;
    uint8_t source_at, source; /* hd_holder_t, hd_extent_t: of what is read */
    uint8_t result_at, result; /* likewise: of what is written */
    uint8_t flow;              /* hd_flow_t */
    bool rooted;               /* flow has a root */
    bool moves_data;           /* there are buffers */
    bool reducing;             /* an operation combines the sources */
    bool vector;               /* of the v types: blocks of any size */
    bool all_wait;             /* nobody has a result before all have come */
    bool bcast;                /* src is the only buffer: read at the root, written elsewhere */
    bool pairwise;             /* a block for each pair of members: in place, the two swap */
    bool prefix;               /* the result at a member is made of sources up to its own */
    bool one_sided;            /* has a variant for symmetric memory (shm/put.c) */
    bool empty_is_over;        /* a call of zero bytes is over inside its post */
    uint8_t vector_type;       /* of a type with one block each: the same with blocks of any size */
} hd_coll_t;

_Static_assert((sizeof(hd_coll_t) & (sizeof(hd_coll_t) - 1)) == 0, "hd_coll is indexed by a shift");

extern const hd_coll_t hd_coll[HD_N_TYPES];

/* The type whose bit this is; HD_N_TYPES: none, or several. */
static inline uint8_t hd_type_of(uint64_t coll_type) {
    bool one = coll_type && !(coll_type & (coll_type - 1));
    return one && coll_type >> HD_N_TYPES == 0 ? (uint8_t)__builtin_ctzll(coll_type) : HD_N_TYPES;
}
static inline const char *hd_type_name(uint8_t type) {
    return type < HD_N_TYPES ? hd_coll[type].name : "unknown collective";
}
static inline bool hd_holds(uint8_t holder, bool is_root, uint32_t me) {
    switch ((hd_holder_t)holder) {
    case HD_EVERYBODY:
        return true;
    case HD_THE_ROOT:
        return is_root;
    case HD_THE_OTHERS:
        return !is_root;
    case HD_SUCCESSORS:
        return me > 0;
    case HD_NOBODY:
        break;
    }
    return false;
}
/* Says which buffers of a call have a meaning at this member: any may be garbage that has none. */
static inline void hd_coll_buffers(const hd_coll_t *coll, bool is_root, uint32_t me, bool in_place,
                                   bool *src, bool *dst) {
    if (coll->bcast) {
        *src = true;
        *dst = false;
        return;
    }
    *src = hd_holds(coll->source_at, is_root, me);
    *dst = hd_holds(coll->result_at, is_root, me);
    if (!coll->moves_data || !in_place || (coll->rooted && !is_root)) {
        return; /* where there is a root, it alone works in place */
    }
    if (coll->flow == HD_FROM_ROOT) {
        *dst = false;
    } else { /* also at a member that has no result */
        *src = false;
        *dst = true;
    }
}

/* Returns whether src says how much there is, and of what; else dst does. (In exscan, whose first
 * member has no result, and in scan alike: the one that is read.) */
static inline bool hd_coll_goes_by_src(const hd_coll_t *coll, bool is_root, bool in_place) {
    if (coll->bcast) {
        return true;
    }
    switch ((hd_flow_t)coll->flow) {
    case HD_TO_ROOT:
        return !is_root;
    case HD_FROM_ROOT:
        return is_root;
    case HD_AMONG_ALL:
        break;
    }
    return coll->prefix && !in_place;
}

/* --- a call ----------------------------------------------------------------------------------- */

/* Counts and displacements of a v collective, 32 or 64 bits wide. */
typedef struct hd_vector {
    const void *counts, *displacements; /* displacements NULL: densely packed */
    bool wide_counts, wide_displacements;
} hd_vector_t;

typedef struct hd_call {
    uint8_t type; /* enum hd_type */
    bool in_place, is_root, persistent;
    bool exclusive;        /* the user's reduction: one chunk at a time */
    bool global_errors;    /* UCC_ERR_TYPE_GLOBAL */
    bool uneven;           /* a reduce_scatter that runs as a reduce_scatterv (request/shapes.c) */
    bool one_sided;        /* into symmetric memory (shm/put.c) */
    bool may_be_one_sided; /* that is not known yet here, and others may know */
    bool empty;            /* zero bytes here: takes part all the same, for the sake of CHECK */
    bool device;           /* a buffer is a device's, and devices do it (device/device.h) */
    uint32_t root;         /* member number */
    uint32_t signature;    /* what must agree across members, hashed */
    size_t element;        /* bytes per element */
    size_t send_element;   /* alltoallv: of what is sent */
    size_t bytes;          /* per block, or all of it for bcast, reduce, allreduce */
    size_t total;          /* bytes this member gives in all */
    size_t count;          /* reductions of `bytes`: elements */
    const uint8_t *src;
    uint8_t *dst;
    hd_vector_t send, receive;
    hd_reducer_t reducer;
} hd_call_t;

/* The type that the caller named. */
static inline uint8_t hd_call_asked(const hd_call_t *call) {
    return call->uneven ? HD_REDUCE_SCATTER : call->type;
}

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
