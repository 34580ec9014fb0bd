/* reductions.c: reductions of teams. */
#include "collectives.h"

#define DEFINE_REDUCE(OP, TYPE, NAME)                                                              \
    int shmem_##NAME##_##OP##_reduce(shmem_team_t team, TYPE *dest, const TYPE *source,            \
                                     size_t n) {                                                   \
        return team_reduce(member_team(team, __func__), dest, source, n, DATATYPE(TYPE),           \
                           (ucc_reduction_op_t)OPERATION_##OP, __func__);                          \
    }
#define DEFINE_BITS_OF(TYPE, NAME)                                                                 \
    DEFINE_REDUCE(and, TYPE, NAME)                                                                 \
    DEFINE_REDUCE(or, TYPE, NAME)                                                                  \
    DEFINE_REDUCE(xor, TYPE, NAME)
#define DEFINE_ORDER_OF(TYPE, NAME)                                                                \
    DEFINE_REDUCE(max, TYPE, NAME)                                                                 \
    DEFINE_REDUCE(min, TYPE, NAME)
#define DEFINE_SUM_OF(TYPE, NAME)                                                                  \
    DEFINE_REDUCE(sum, TYPE, NAME)                                                                 \
    DEFINE_REDUCE(prod, TYPE, NAME)
SHMEM_BITS_TYPES(DEFINE_BITS_OF)
SHMEM_RMA_TYPES(DEFINE_ORDER_OF)
SHMEM_RMA_TYPES(DEFINE_SUM_OF)
SHMEM_COMPLEX_TYPES(DEFINE_SUM_OF)
