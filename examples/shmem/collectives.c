/* collectives.c: every collective of teams with every type, on the world and on a team that counts
 * backwards, beside what a loop says.
 */
#include "operands.h"
#include "verify.h"

#include <string.h>

enum { N = 11, GAP = 3 };

static int me, size; /* in the team */
static shmem_team_t team;
static char *from, *to; /* on the heap */

/* Element i of what PE pe has for PE other. */
static int pattern(int pe, int other, int i) {
    return (pe * 5 + other * 3 + i) % 127;
}

/* PEs are at the same place, and the buffers are free for the next call. */
static void meet(void) {
    VERIFY(shmem_team_sync(team) == 0);
}

#define CHECK_MOVES(TYPE, NAME)                                                                    \
    static void fill_##NAME(int others, int n, int gap) {                                          \
        memset(to, 0, (size_t)(others * n * GAP) * sizeof(TYPE));                                  \
        for (int i = 0; i < others * n; i++) {                                                     \
            ((TYPE *)from)[i * gap] = (TYPE)pattern(me, i / n, i % n);                             \
        }                                                                                          \
        meet();                                                                                    \
    }                                                                                              \
    static void collect_##NAME(TYPE *source, TYPE *dest) {                                         \
        fill_##NAME(size, N, 1); /* different lengths: the PE's number, up to N */                 \
        VERIFY(shmem_##NAME##_collect(team, dest, source, (size_t)(me % (N + 1))) == 0);           \
        for (int pe = 0, at = 0; pe < size; pe++) {                                                \
            for (int i = 0; i < pe % (N + 1); i++) {                                               \
                VERIFY(dest[at++] == (TYPE)pattern(pe, 0, i));                                     \
            }                                                                                      \
        }                                                                                          \
        meet();                                                                                    \
        fill_##NAME(size, N, 1);                                                                   \
        VERIFY(shmem_##NAME##_fcollect(team, dest, source, N) == 0);                               \
        for (int i = 0; i < size * N; i++) {                                                       \
            VERIFY(dest[i] == (TYPE)pattern(i / N, 0, i % N));                                     \
        }                                                                                          \
        meet();                                                                                    \
    }                                                                                              \
    static void moves_##NAME(void) {                                                               \
        TYPE *source = (TYPE *)from, *dest = (TYPE *)to;                                           \
        for (int root = 0; root < size; root++) {                                                  \
            fill_##NAME(1, N, 1);                                                                  \
            VERIFY(shmem_##NAME##_broadcast(team, dest, source, N, root) == 0);                    \
            for (int i = 0; i < N; i++) {                                                          \
                VERIFY(dest[i] == (TYPE)pattern(root, 0, i));                                      \
            }                                                                                      \
            meet();                                                                                \
        }                                                                                          \
        collect_##NAME(source, dest);                                                              \
        fill_##NAME(size, N, 1);                                                                   \
        VERIFY(shmem_##NAME##_alltoall(team, dest, source, N) == 0);                               \
        for (int i = 0; i < size * N; i++) {                                                       \
            VERIFY(dest[i] == (TYPE)pattern(i / N, me, i % N));                                    \
        }                                                                                          \
        meet();                                                                                    \
        fill_##NAME(size, N, 2);                                                                   \
        VERIFY(shmem_##NAME##_alltoalls(team, dest, source, GAP, 2, N) == 0);                      \
        for (int i = 0; i < size * N * GAP; i++) {                                                 \
            int k = i / GAP;                                                                       \
            VERIFY(dest[i] == (TYPE)(i % GAP ? 0 : pattern(k / N, me, k % N)));                    \
        }                                                                                          \
        meet();                                                                                    \
    }
SHMEM_RMA_TYPES(CHECK_MOVES)

/* Into another buffer, then in place. */
#define CHECK_REDUCE(OP, FOLD, VALUE, TYPE, NAME)                                                  \
    static void reduce_##OP##_##NAME(void) {                                                       \
        TYPE *source = (TYPE *)from, *dest = (TYPE *)to;                                           \
        for (int i = 0; i < N; i++) {                                                              \
            source[i] = (TYPE)VALUE(me, i);                                                        \
        }                                                                                          \
        meet();                                                                                    \
        VERIFY(shmem_##NAME##_##OP##_reduce(team, dest, source, N) == 0);                          \
        meet();                                                                                    \
        VERIFY(shmem_##NAME##_##OP##_reduce(team, source, source, N) == 0);                        \
        for (int i = 0; i < N; i++) {                                                              \
            TYPE a = (TYPE)VALUE(0, i);                                                            \
            for (int pe = 1; pe < size; pe++) {                                                    \
                TYPE b = (TYPE)VALUE(pe, i);                                                       \
                a = (TYPE)(FOLD);                                                                  \
            }                                                                                      \
            VERIFY(dest[i] == a && source[i] == a);                                                \
        }                                                                                          \
        meet();                                                                                    \
    }
SHMEM_BITS_TYPES(CHECK_BITS)
SHMEM_RMA_TYPES(CHECK_ORDER)
SHMEM_RMA_TYPES(CHECK_SUM)
SHMEM_COMPLEX_TYPES(CHECK_SUM)

/* Bytes, names without a type, and nothing at all. */
static void others(void) {
    from[0] = (char)(me + 1);
    meet();
    VERIFY(shmem_fcollectmem(team, to, from, 1) == 0);
    VERIFY(to[size - 1] == (char)size);
    meet();
    double *sum = (double *)to, *part = (double *)from;
    *part = me;
    meet();
    VERIFY(shmem_sum_reduce(team, sum, part, 1) == 0 && *sum == size * (size - 1) / 2.0);
    meet();
    VERIFY(shmem_broadcast(team, sum, part, 1, size - 1) == 0 && *sum == size - 1);
    VERIFY(shmem_sum_reduce(team, sum, part, 0) == 0);
    VERIFY(shmem_collectmem(team, to, from, 0) == 0);
    meet();
}

static void all(shmem_team_t of) {
    team = of;
    me = shmem_team_my_pe(team);
    size = shmem_team_n_pes(team);
#define RUN_MOVES(TYPE, NAME) moves_##NAME();
    SHMEM_RMA_TYPES(RUN_MOVES)
    SHMEM_BITS_TYPES(RUN_BITS)
    SHMEM_RMA_TYPES(RUN_ORDER)
    SHMEM_RMA_TYPES(RUN_SUM)
    SHMEM_COMPLEX_TYPES(RUN_SUM)
    others();
}

int main(void) {
    shmem_init();
    int n = shmem_n_pes();
    shmem_team_t reversed;
    from = shmem_malloc((size_t)n * N * GAP * 16);
    to = shmem_malloc((size_t)n * N * GAP * 16);
    VERIFY(from && to);
    all(SHMEM_TEAM_WORLD);
    VERIFY(shmem_team_split_strided(SHMEM_TEAM_WORLD, n - 1, -1, n, NULL, 0, &reversed) == 0);
    all(reversed);
    verified("collectives");
    return 0;
}
