/* active_sets.c: the deprecated collectives, whose PEs are given with each call: start, start +
 * 2^log_stride, ... A PE makes an endpoint for each set when it first takes part, and keeps it; for
 * that, nobody waits for anybody. The work arrays of the calls are not used.
 */
#include "collectives.h"
#include "job.h"

#include <stdlib.h>

struct active_set {
    int start;
    int log_stride;
    struct shmem_team team;
    struct active_set *next;
};

void sets_end(pe_t *pe) {
    for (active_set_t *set = pe->sets, *next; set; set = next) {
        next = set->next;
        must(heddle_leave(set->team.endpoint), "shmem_finalize");
        free(set);
    }
    pe->sets = NULL;
}

static active_set_t *make(int start, int log_stride, int size, const char *call) {
    pe_t *pe = this_pe;
    int64_t stride = log_stride >= 0 && log_stride < 31 ? (int64_t)1 << log_stride : INT32_MAX;
    int64_t distance = (int64_t)pe->number - start;
    if (start < 0 || size < 1 || start + stride * (size - 1) >= the_world.size) {
        fail(call, "there is no active set of start %d, log stride %d, size %d", start, log_stride,
             size);
    }
    if (distance < 0 || distance % stride != 0 || distance / stride >= size) {
        fail(call, "this PE is not in the active set of start %d, log stride %d, size %d", start,
             log_stride, size);
    }
    active_set_t *set = calloc(1, sizeof(*set));
    if (!set) {
        fail(call, "no memory");
    }
    set->start = start;
    set->log_stride = log_stride;
    team_form(&set->team, &pe->world, start, (int)stride, size);
    set->next = pe->sets;
    pe->sets = set;
    return set;
}

/* NULL: this PE has not made it. One that is found becomes the first of the list, where the next
 * call looks first. */
static active_set_t *find(int start, int log_stride, int size) {
    active_set_t **link = &this_pe->sets, *set;
    while ((set = *link) != NULL &&
           (set->start != start || set->log_stride != log_stride || set->team.size != size)) {
        link = &set->next;
    }
    if (set) {
        *link = set->next;
        set->next = this_pe->sets;
        this_pe->sets = set;
    }
    return set;
}

/* Threads of a PE may be in collectives of different sets at a time. A set stays where it is. */
static const struct shmem_team *team_of(int start, int log_stride, int size, const char *call) {
    pthread_mutex_lock(&this_pe->lock);
    active_set_t *set = find(start, log_stride, size);
    set = set ? set : make(start, log_stride, size, call);
    pthread_mutex_unlock(&this_pe->lock);
    return &set->team;
}

/* These calls return nothing: an error ends the program. */
static void must_be_zero(int status, const char *call) {
    if (status) {
        job_heed();
        fail(call, "the collective failed");
    }
}

void shmem_barrier(SHMEM_SET, long *psync) {
    (void)psync;
    must(heddle_barrier(team_of(start, log_stride, size, __func__)->endpoint), __func__);
}

void shmem_sync(SHMEM_SET, long *psync) {
    (void)psync;
    must(heddle_barrier(team_of(start, log_stride, size, __func__)->endpoint), __func__);
}

#define TEAM team_of(start, log_stride, size, __func__)
#define DEFINE_SET_COLLECTIVES(BITS)                                                               \
    void shmem_broadcast##BITS(void *dest, const void *source, size_t n, int root, SHMEM_SET,      \
                               long *psync) {                                                      \
        (void)psync;                                                                               \
        must_be_zero(team_broadcast(TEAM, dest, source, n *((BITS) / 8), root, __func__),          \
                     __func__);                                                                    \
    }                                                                                              \
    void shmem_collect##BITS(void *dest, const void *source, size_t n, SHMEM_SET, long *psync) {   \
        (void)psync;                                                                               \
        must_be_zero(team_collect(TEAM, dest, source, n *((BITS) / 8), __func__), __func__);       \
    }                                                                                              \
    void shmem_fcollect##BITS(void *dest, const void *source, size_t n, SHMEM_SET, long *psync) {  \
        (void)psync;                                                                               \
        must_be_zero(team_fcollect(TEAM, dest, source, n *((BITS) / 8), __func__), __func__);      \
    }                                                                                              \
    void shmem_alltoall##BITS(void *dest, const void *source, size_t n, SHMEM_SET, long *psync) {  \
        (void)psync;                                                                               \
        must_be_zero(team_alltoall(TEAM, dest, source, n *((BITS) / 8), __func__), __func__);      \
    }                                                                                              \
    void shmem_alltoalls##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,       \
                               size_t n, SHMEM_SET, long *psync) {                                 \
        (void)psync;                                                                               \
        must_be_zero(team_alltoalls(TEAM, dest, source, dst, sst, n, (BITS) / 8, __func__),        \
                     __func__);                                                                    \
    }
DEFINE_SET_COLLECTIVES(32)
DEFINE_SET_COLLECTIVES(64)

#define DEFINE_TO_ALL(OP, TYPE, NAME)                                                              \
    void shmem_##NAME##_##OP##_to_all(TYPE *dest, const TYPE *source, int n, SHMEM_SET,            \
                                      TYPE *pwrk, long *psync) {                                   \
        (void)pwrk;                                                                                \
        (void)psync;                                                                               \
        must_be_zero(team_reduce(TEAM, dest, source, (size_t)n, DATATYPE(TYPE),                    \
                                 (ucc_reduction_op_t)OPERATION_##OP, __func__),                    \
                     __func__);                                                                    \
    }
#define DEFINE_BITS_OF(TYPE, NAME)                                                                 \
    DEFINE_TO_ALL(and, TYPE, NAME)                                                                 \
    DEFINE_TO_ALL(or, TYPE, NAME)                                                                  \
    DEFINE_TO_ALL(xor, TYPE, NAME)
#define DEFINE_ORDER_OF(TYPE, NAME)                                                                \
    DEFINE_TO_ALL(max, TYPE, NAME)                                                                 \
    DEFINE_TO_ALL(min, TYPE, NAME)
#define DEFINE_SUM_OF(TYPE, NAME)                                                                  \
    DEFINE_TO_ALL(sum, TYPE, NAME)                                                                 \
    DEFINE_TO_ALL(prod, TYPE, NAME)
SHMEM_SET_INTEGER_TYPES(DEFINE_BITS_OF)
SHMEM_SET_INTEGER_TYPES(DEFINE_ORDER_OF)
SHMEM_REAL_TYPES(DEFINE_ORDER_OF)
SHMEM_SET_INTEGER_TYPES(DEFINE_SUM_OF)
SHMEM_REAL_TYPES(DEFINE_SUM_OF)
SHMEM_COMPLEX_TYPES(DEFINE_SUM_OF)
