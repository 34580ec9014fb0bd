/* collectives.c: collectives of teams that move data, in bytes, by Heddle's; those of active sets
 * call them, too (collectives.h).
 */
#include "collectives.h"

#include <stdlib.h>
#include <string.h>

/* Heddle's barrier orders all accesses before it and after it: no quiet is needed. */
static void barrier_all(const char *call) {
    ucc_status_t status = heddle_barrier(this_pe->world.endpoint);
    if (status != UCC_OK && !this_pe->world.endpoint) {
        fail_before_init(call);
    }
    must(status, call);
}

void shmem_barrier_all(void) {
    barrier_all(__func__);
}

void shmem_sync_all(void) {
    barrier_all(__func__);
}

int shmem_team_sync(shmem_team_t team) {
    return team == SHMEM_TEAM_INVALID || heddle_barrier(own_team(team)->endpoint) != UCC_OK;
}

static void must_be_two(const void *dest, const void *source, size_t bytes, const char *call) {
    if (bytes > 0) {
        must_be_symmetric(dest, call);
        must_be_symmetric(source, call);
    }
}

/* Heddle's root has one buffer, which everybody else gets. */
int team_broadcast(const struct shmem_team *team, void *dest, const void *source, size_t bytes,
                   int root, const char *call) {
    must_be_two(dest, source, bytes, call);
    if (root < 0 || root >= team->size) {
        fail_number(call, root, team->size);
    }
    void *buffer = team->my_pe == root ? (void *)(uintptr_t)source : dest;
    return heddle_bcast(team->endpoint, buffer, bytes, UCC_DT_UINT8, (uint32_t)root) != UCC_OK;
}

int team_fcollect(const struct shmem_team *team, void *dest, const void *source, size_t bytes,
                  const char *call) {
    must_be_two(dest, source, bytes, call);
    return heddle_allgather(team->endpoint, source, dest, bytes, UCC_DT_UINT8) != UCC_OK;
}

/* Blocks of different lengths: the lengths are told first. */
int team_collect(const struct shmem_team *team, void *dest, const void *source, size_t bytes,
                 const char *call) {
    must_be_two(dest, source, bytes, call);
    uint64_t *lengths = malloc((size_t)team->size * sizeof(*lengths)), mine = bytes;
    if (!lengths) {
        fail(call, "no memory");
    }
    ucc_status_t status = heddle_allgather(team->endpoint, &mine, lengths, 1, UCC_DT_UINT64);
    if (status == UCC_OK) {
        status =
            heddle_allgatherv(team->endpoint, source, bytes, dest, lengths, NULL, UCC_DT_UINT8);
    }
    free(lengths);
    return status != UCC_OK;
}

int team_alltoall(const struct shmem_team *team, void *dest, const void *source, size_t bytes,
                  const char *call) {
    must_be_two(dest, source, bytes, call);
    return heddle_alltoall(team->endpoint, source, dest, bytes, UCC_DT_UINT8) != UCC_OK;
}

/* Elements with gaps go straight to their places, which the specification wants to be ready before
 * anybody calls. */
int team_alltoalls(const struct shmem_team *team, void *dest, const void *source, ptrdiff_t dst,
                   ptrdiff_t sst, size_t n, size_t size, const char *call) {
    must_be_two(dest, source, n, call);
    for (int i = 0; n > 0 && i < team->size; i++) {
        char *there = remote_address(dest, team->start + i * team->stride, call);
        for (size_t k = 0; k < n; k++) {
            size_t to = ((size_t)team->my_pe * n + k) * size, from = ((size_t)i * n + k) * size;
            memcpy(there + (ptrdiff_t)to * dst, (const char *)source + (ptrdiff_t)from * sst, size);
        }
    }
    return heddle_barrier(team->endpoint) != UCC_OK;
}

/* The root of a team's broadcast gets the data in dest as well. */
static int broadcast(shmem_team_t team, void *dest, const void *source, size_t bytes, int root,
                     const char *call) {
    const struct shmem_team *own = member_team(team, call);
    int status = team_broadcast(own, dest, source, bytes, root, call);
    if (own->my_pe == root && bytes > 0) {
        memmove(dest, source, bytes);
    }
    return status;
}

#define DEFINE_COLLECTIVES(TYPE, SIZE, PRE, POST)                                                  \
    int PRE##broadcast##POST(shmem_team_t team, TYPE *dest, const TYPE *source, size_t n,          \
                             int root) {                                                           \
        return broadcast(team, dest, source, n * (SIZE), root, __func__);                          \
    }                                                                                              \
    int PRE##collect##POST(shmem_team_t team, TYPE *dest, const TYPE *source, size_t n) {          \
        return team_collect(member_team(team, __func__), dest, source, n * (SIZE), __func__);      \
    }                                                                                              \
    int PRE##fcollect##POST(shmem_team_t team, TYPE *dest, const TYPE *source, size_t n) {         \
        return team_fcollect(member_team(team, __func__), dest, source, n * (SIZE), __func__);     \
    }                                                                                              \
    int PRE##alltoall##POST(shmem_team_t team, TYPE *dest, const TYPE *source, size_t n) {         \
        return team_alltoall(member_team(team, __func__), dest, source, n * (SIZE), __func__);     \
    }                                                                                              \
    int PRE##alltoalls##POST(shmem_team_t team, TYPE *dest, const TYPE *source, ptrdiff_t dst,     \
                             ptrdiff_t sst, size_t n) {                                            \
        return team_alltoalls(member_team(team, __func__), dest, source, dst, sst, n, SIZE,        \
                              __func__);                                                           \
    }
#define DEFINE_COLLECTIVES_OF(TYPE, NAME) DEFINE_COLLECTIVES(TYPE, sizeof(TYPE), shmem_##NAME##_, )
SHMEM_RMA_TYPES(DEFINE_COLLECTIVES_OF)
DEFINE_COLLECTIVES(void, (size_t)1, shmem_, mem)
