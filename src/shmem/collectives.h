/* collectives.h: collectives of a team of this PE's, for teams and for active sets. They return 0,
 * or 1 when Heddle's failed; buffers must be symmetric where there is any data.
 */
#ifndef SHMEM_COLLECTIVES_H_
#define SHMEM_COLLECTIVES_H_

#include "pe.h"

/** dest at the root is left alone. */
int team_broadcast(const struct shmem_team *team, void *dest, const void *source, size_t bytes,
                   int root, const char *call);
int team_collect(const struct shmem_team *team, void *dest, const void *source, size_t bytes,
                 const char *call);
int team_fcollect(const struct shmem_team *team, void *dest, const void *source, size_t bytes,
                  const char *call);
int team_alltoall(const struct shmem_team *team, void *dest, const void *source, size_t bytes,
                  const char *call);
/** n elements of size bytes for each PE; strides dst and sst in elements. */
int team_alltoalls(const struct shmem_team *team, void *dest, const void *source, ptrdiff_t dst,
                   ptrdiff_t sst, size_t n, size_t size, const char *call);

/** Of n elements. */
static inline int team_reduce(const struct shmem_team *team, void *dest, const void *source,
                              size_t n, ucc_datatype_t type, ucc_reduction_op_t op,
                              const char *call) {
    if (n > 0) {
        must_be_symmetric(dest, call);
        must_be_symmetric(source, call);
    }
    return heddle_allreduce(team->endpoint, dest == source ? HEDDLE_IN_PLACE : source, dest, n,
                            type, op) != UCC_OK;
}

/* Heddle's datatype of a type of C, and its operations by OpenSHMEM's names. */
#define DATATYPE(TYPE)                                                                             \
    _Generic((TYPE)0, char                                                                         \
             : (char)-1 < 0 ? UCC_DT_INT8 : UCC_DT_UINT8, signed char                              \
             : UCC_DT_INT8, short                                                                  \
             : UCC_DT_INT16, int                                                                   \
             : UCC_DT_INT32, long                                                                  \
             : sizeof(long) == 8 ? UCC_DT_INT64 : UCC_DT_INT32, long long                          \
             : UCC_DT_INT64, unsigned char                                                         \
             : UCC_DT_UINT8, unsigned short                                                        \
             : UCC_DT_UINT16, unsigned int                                                         \
             : UCC_DT_UINT32, unsigned long                                                        \
             : sizeof(long) == 8 ? UCC_DT_UINT64 : UCC_DT_UINT32, unsigned long long               \
             : UCC_DT_UINT64, float                                                                \
             : UCC_DT_FLOAT32, double                                                              \
             : UCC_DT_FLOAT64, long double                                                         \
             : UCC_DT_FLOAT128, float _Complex                                                     \
             : UCC_DT_FLOAT32_COMPLEX, double _Complex                                             \
             : UCC_DT_FLOAT64_COMPLEX)
enum {
    OPERATION_and = UCC_OP_BAND,
    OPERATION_or = UCC_OP_BOR,
    OPERATION_xor = UCC_OP_BXOR,
    OPERATION_max = UCC_OP_MAX,
    OPERATION_min = UCC_OP_MIN,
    OPERATION_sum = UCC_OP_SUM,
    OPERATION_prod = UCC_OP_PROD
};

#endif
