/* active_sets.c: the deprecated collectives, of the PEs 1, 1 + 2^s, 1 + 2 * 2^s, ... for several s,
 * and of all; and the deprecated calls about caches.
 */
#include <mpp/shmem.h> /* its deprecated name */
#include <string.h>

#include "operands.h"
#include "verify.h"

enum { N = 9, MOST = 64 }; /* PEs */

static long psync[SHMEM_SYNC_SIZE];
static char from[MOST * N * 16], to[2 * MOST * N * 16], work[N * 16 * 2];

/* The caller's set. */
static int start, log_stride, size, me;

static int pattern(int pe, int other, int i) {
    return (pe * 5 + other * 3 + i) % 127;
}

static void meet(void) {
    shmem_barrier(start, log_stride, size, psync);
}

#define CHECK_MOVES(BITS, TYPE)                                                                    \
    static void fill_##BITS(int gap) {                                                             \
        memset(to, 0, sizeof(to));                                                                 \
        for (int i = 0; i < size * N; i++) {                                                       \
            ((TYPE *)from)[i * gap] = (TYPE)pattern(me, i / N, i % N);                             \
        }                                                                                          \
        meet();                                                                                    \
    }                                                                                              \
    static void moves_##BITS(void) {                                                               \
        const TYPE *dest = (TYPE *)to;                                                             \
        int root = size - 1;                                                                       \
        fill_##BITS(1);                                                                            \
        shmem_broadcast##BITS(to, from, N, root, start, log_stride, size, psync);                  \
        for (int i = 0; i < N; i++) { /* the root's dest is left alone */                          \
            VERIFY(dest[i] == (TYPE)(me == root ? 0 : pattern(root, 0, i)));                       \
        }                                                                                          \
        meet();                                                                                    \
        fill_##BITS(1);                                                                            \
        shmem_collect##BITS(to, from, (size_t)(me % N), start, log_stride, size, psync);           \
        for (int pe = 0, at = 0; pe < size; pe++) {                                                \
            for (int i = 0; i < pe % N; i++) {                                                     \
                VERIFY(dest[at++] == (TYPE)pattern(pe, 0, i));                                     \
            }                                                                                      \
        }                                                                                          \
        meet();                                                                                    \
        fill_##BITS(1);                                                                            \
        shmem_fcollect##BITS(to, from, N, start, log_stride, size, psync);                         \
        for (int i = 0; i < size * N; i++) {                                                       \
            VERIFY(dest[i] == (TYPE)pattern(i / N, 0, i % N));                                     \
        }                                                                                          \
        meet();                                                                                    \
        fill_##BITS(1);                                                                            \
        shmem_alltoall##BITS(to, from, N, start, log_stride, size, psync);                         \
        for (int i = 0; i < size * N; i++) {                                                       \
            VERIFY(dest[i] == (TYPE)pattern(i / N, me, i % N));                                    \
        }                                                                                          \
        meet();                                                                                    \
        fill_##BITS(2);                                                                            \
        shmem_alltoalls##BITS(to, from, 3, 2, N, start, log_stride, size, psync);                  \
        for (int i = 0; i < size * N; i++) {                                                       \
            VERIFY(dest[3 * i] == (TYPE)pattern(i / N, me, i % N));                                \
        }                                                                                          \
        meet();                                                                                    \
    }
CHECK_MOVES(32, uint32_t)
CHECK_MOVES(64, uint64_t)

#define CHECK_REDUCE(OP, FOLD, VALUE, TYPE, NAME)                                                  \
    static void reduce_##OP##_##NAME(void) {                                                       \
        TYPE *source = (TYPE *)from, *dest = (TYPE *)to;                                           \
        for (int i = 0; i < N; i++) {                                                              \
            source[i] = (TYPE)VALUE(me, i);                                                        \
        }                                                                                          \
        meet();                                                                                    \
        shmem_##NAME##_##OP##_to_all(dest, source, N, start, log_stride, size, (TYPE *)work,       \
                                     psync);                                                       \
        for (int i = 0; i < N; i++) {                                                              \
            TYPE a = (TYPE)VALUE(0, i);                                                            \
            for (int pe = 1; pe < size; pe++) {                                                    \
                TYPE b = (TYPE)VALUE(pe, i);                                                       \
                a = (TYPE)(FOLD);                                                                  \
            }                                                                                      \
            VERIFY(dest[i] == a);                                                                  \
        }                                                                                          \
        meet();                                                                                    \
    }
SHMEM_SET_INTEGER_TYPES(CHECK_BITS)
SHMEM_SET_INTEGER_TYPES(CHECK_ORDER)
SHMEM_REAL_TYPES(CHECK_ORDER)
SHMEM_SET_INTEGER_TYPES(CHECK_SUM)
SHMEM_REAL_TYPES(CHECK_SUM)
SHMEM_COMPLEX_TYPES(CHECK_SUM)

static void all(int first, int log, int n) {
    start = first;
    log_stride = log;
    size = n;
    int distance = shmem_my_pe() - first;
    if (distance < 0 || distance % (1 << log) != 0 || distance >> log >= n) {
        return;
    }
    me = distance >> log;
    shmem_sync(start, log_stride, size, psync);
    moves_32();
    moves_64();
    SHMEM_SET_INTEGER_TYPES(RUN_BITS)
    SHMEM_SET_INTEGER_TYPES(RUN_ORDER)
    SHMEM_REAL_TYPES(RUN_ORDER)
    SHMEM_SET_INTEGER_TYPES(RUN_SUM)
    SHMEM_REAL_TYPES(RUN_SUM)
    SHMEM_COMPLEX_TYPES(RUN_SUM)
}

int main(void) {
    shmem_init();
    int n = shmem_n_pes();
    VERIFY(n <= MOST);
    all(0, 0, n);
    for (int log = 0; 1 + (1 << log) <= n; log++) {
        all(1, log, (n - 2) / (1 << log) + 1);
        if (1 + (1 << log) < n) {
            all(1, log, 2); /* these differ in their stride only */
        }
    }
    all(0, 0, n); /* again, which is the same endpoint */
    shmem_set_cache_inv();
    shmem_set_cache_line_inv(to);
    shmem_clear_cache_inv();
    shmem_clear_cache_line_inv(to);
    shmem_udcflush();
    shmem_udcflush_line(to);
    verified("active_sets");
    return 0;
}
