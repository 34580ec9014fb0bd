/* reference.h: what every collective must do, written once, naively.
 *
 * The reference sees all endpoints' buffers at once and moves one element after the other. It
 * shares no code with src/; where a result depends on rounding it follows the documented canonical
 * order: blocks of up to 8 consecutive endpoints, recursively, each block folded from its left;
 * scan and exscan strictly from the left, rounding at each step.
 *
 * One description serves the plain and the v types: a plain type is one whose counts are all equal
 * and whose displacements are dense. Matrices have size * size entries; row i is endpoint i's view.
 *
 *     type                     reads                            writes, at displacement
 *     allgather(v), gather(v)  src[j], counts[i][j] elements    dst[i], dst_displacements[i][j]
 *     scatter(v)               src[root], counts[root][i]       dst[i], 0
 *                                from src_displacements[root][i]
 *     alltoall(v)              src[i], counts[i][j]             dst[j], dst_displacements[j][i]
 *                                from src_displacements[i][j]
 *     bcast, mcast             dst[root], counts[0][0]          dst[i], 0: one buffer serves both
 *     reduce, allreduce        src[j], counts[0][0]             dst[root] or all dst, 0
 *     scan                     src[0] ... src[i], counts[0][0]  dst[i], 0
 *     exscan                   src[0] ... src[i-1]              dst[i], 0, but for dst[0]
 *     reduce_scatter(v)        src[j], sum of counts[0][...]    dst[i], 0: block i of the result
 *
 * In place (where it has a meaning): gather(v), allgather(v): own block already in dst; scatter(v):
 * the root's block stays in its src; reduce: the root's operand is its dst; allreduce, scan,
 * exscan, alltoall(v): dst is operand and result; reduce_scatter(v): dst is the operand, and block
 * i of endpoint i's dst receives the result.
 */
#ifndef TESTS_REFERENCE_H_
#define TESTS_REFERENCE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucc/api/ucc.h>

/* How elements of a datatype are stored, combined and compared. */
typedef enum reference_kind {
    REFERENCE_INT, /* two's complement, wraps */
    REFERENCE_UINT,
    REFERENCE_FLOAT16, /* accumulates in float */
    REFERENCE_BFLOAT16,
    REFERENCE_FLOAT32,
    REFERENCE_FLOAT64,
    REFERENCE_FLOAT128, /* long double */
    REFERENCE_COMPLEX32,
    REFERENCE_COMPLEX64,
    REFERENCE_COMPLEX128,
    REFERENCE_PAIR, /* (value, index): MINLOC and MAXLOC */
    REFERENCE_USER  /* generic datatype */
} reference_kind_t;

typedef struct reference_dt {
    const char *name;
    ucc_datatype_t handle;
    reference_kind_t kind;
    size_t extent;    /* bytes from one element to the next */
    size_t alignment; /* natural alignment of an element */
    /* [extent] nonzero where a byte is moved by data movement; NULL: all are. */
    const unsigned char *moved;
    /* REFERENCE_PAIR: kind and bytes of the value, offset and bytes of the signed index. */
    reference_kind_t value_kind;
    size_t value_bytes, index_offset, index_bytes;
    /* REFERENCE_USER: acc = acc op x; NULL when the datatype has no reduction. */
    void (*combine)(void *acc, const void *x);
} reference_dt_t;

typedef struct reference_coll {
    ucc_coll_type_t type;
    uint32_t size, root;
    bool in_place;
    ucc_reduction_op_t op;
    const reference_dt_t *dt;
    const uint32_t *process_of;        /* [size] as of reference_reduce; NULL: one process */
    const uint64_t *counts;            /* [size][size] elements */
    const uint64_t *src_displacements; /* [size][size] elements */
    const uint64_t *dst_displacements;
    unsigned char *const *src; /* [size]; entries without a meaning may be NULL */
    unsigned char *const *dst;
} reference_coll_t;

/* Performs the collective on the buffers. */
void reference_collective(const reference_coll_t *coll);

/* Predefined datatypes in the order of their numbers, then the pair types. */
extern const reference_dt_t reference_datatypes[];
extern const uint32_t reference_n_datatypes;
const reference_dt_t *reference_datatype(ucc_datatype_t handle);

const char *reference_coll_name(ucc_coll_type_t type);
const char *reference_op_name(ucc_reduction_op_t op);

/* Is op defined on dt? Anything else must be refused by ucc_collective_init(). */
bool reference_op_valid(const reference_dt_t *dt, ucc_reduction_op_t op);

/* dst[e] = sources[0][e] op ... op sources[n-1][e] in the canonical order. dst may be a source. */
void reference_reduce(const reference_dt_t *dt, ucc_reduction_op_t op,
                      unsigned char *const *sources, uint32_t n, uint64_t count,
                      unsigned char *dst);

/* The same of sources that live in several processes: source i in process process_of[i], numbers
 * that need not be dense. In each process its sources are reduced in the canonical order, by their
 * numbers among them; then the processes' results are, ordered by the lowest number of a source in
 * them. AVG divides once, at the end. */
void reference_reduce_across(const reference_dt_t *dt, ucc_reduction_op_t op,
                             unsigned char *const *sources, const uint32_t *process_of, uint32_t n,
                             uint64_t count, unsigned char *dst);

/* Bytes of an element that carry its value: float128 has padding on some machines. Reductions leave
 * the others undefined. Sets them to zero in `count` elements. */
void reference_clear_padding(const reference_dt_t *dt, unsigned char *elements, uint64_t count);

/* Writes one random element that no operation turns into a NaN, given 64 random bits at a time. */
void reference_random_element(const reference_dt_t *dt, ucc_reduction_op_t op,
                              unsigned char *element, uint64_t (*random)(void *state), void *state);

#endif
