/* rma.c: put, get and their kin, with each type, between a PE and the next, on globals and on the
 * heap, with and without a context.
 */
#include "verify.h"

#include <string.h>

enum { N = 40 };

static int me, next, before;
static shmem_ctx_t context;
static uint64_t arrived;
static char *area; /* on the heap */

static int pattern(int pe, int i) {
    return (pe * 7 + i * 3) % 101;
}

#define CHECK_RMA(TYPE, NAME)                                                                      \
    static TYPE global_##NAME[3 * N];                                                              \
    static void rma_##NAME(void) {                                                                 \
        TYPE mine[N], got[4 * N], *heap = (TYPE *)area;                                            \
        for (int i = 0; i < N; i++) {                                                              \
            mine[i] = (TYPE)pattern(me, i);                                                        \
        }                                                                                          \
        shmem_##NAME##_put(global_##NAME, mine, N, next);                                          \
        shmem_ctx_##NAME##_put_nbi(context, heap, mine, N, next);                                  \
        shmem_ctx_##NAME##_iput(context, global_##NAME + N, mine, 2, 1, N, next);                  \
        shmem_##NAME##_p(&global_##NAME[N + 1], (TYPE)99, next);                                   \
        shmem_ctx_quiet(context);                                                                  \
        shmem_barrier_all();                                                                       \
        for (int i = 0; i < N; i++) {                                                              \
            VERIFY(global_##NAME[i] == (TYPE)pattern(before, i));                                  \
            VERIFY(heap[i] == (TYPE)pattern(before, i));                                           \
            VERIFY(global_##NAME[N + 2 * i] == (TYPE)pattern(before, i));                          \
            VERIFY(global_##NAME[N + 2 * i + 1] == (TYPE)(i == 0 ? 99 : 0));                       \
        }                                                                                          \
        shmem_##NAME##_get(got, global_##NAME, N, next);                                           \
        shmem_ctx_##NAME##_get_nbi(context, got + N, heap, N, next);                               \
        shmem_##NAME##_iget(got + 2 * N, global_##NAME + N, 2, 2, N, next);                        \
        shmem_quiet();                                                                             \
        for (int i = 0; i < N; i++) {                                                              \
            VERIFY(got[i] == mine[i] && got[N + i] == mine[i] && got[2 * N + 2 * i] == mine[i]);   \
        }                                                                                          \
        VERIFY(shmem_ctx_##NAME##_g(context, &global_##NAME[5], next) == mine[5]);                 \
        shmem_barrier_all();                                                                       \
        arrived = 0;                                                                               \
        memset(area, 0, N * sizeof(TYPE));                                                         \
        shmem_barrier_all();                                                                       \
        shmem_##NAME##_put_signal(heap, mine, N / 2, &arrived, 1, SHMEM_SIGNAL_ADD, next);         \
        shmem_ctx_##NAME##_put_signal_nbi(context, heap + N / 2, mine + N / 2, N / 2, &arrived, 5, \
                                          SHMEM_SIGNAL_SET, next);                                 \
        shmem_signal_wait_until(&arrived, SHMEM_CMP_EQ, 5);                                        \
        for (int i = 0; i < N; i++) {                                                              \
            VERIFY(heap[i] == (TYPE)pattern(before, i));                                           \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
    }
SHMEM_RMA_TYPES(CHECK_RMA)

#define CHECK_SIZED(BITS, BYTES)                                                                   \
    static void sized_##BITS(void) {                                                               \
        char mine[N * (BYTES)], got[N * (BYTES)];                                                  \
        memset(mine, me + 1, sizeof(mine));                                                        \
        shmem_put##BITS(area, mine, N, next);                                                      \
        shmem_iput##BITS(area + sizeof(mine), mine, 1, 2, N / 2, next);                            \
        shmem_barrier_all();                                                                       \
        shmem_get##BITS(got, area, N, next);                                                       \
        VERIFY(memcmp(got, mine, sizeof(mine)) == 0);                                              \
        shmem_iget##BITS(got, area + sizeof(mine), 2, 1, N / 2, next);                             \
        VERIFY(memcmp(got, mine, sizeof(mine)) == 0);                                              \
        shmem_barrier_all();                                                                       \
    }
SHMEM_SIZES(CHECK_SIZED)

static void memory(void) {
    static char odd[N];
    char mine[N];
    memset(mine, me + 3, N);
    shmem_putmem(odd + 1, mine, 13, next); /* at no multiple of anything */
    shmem_barrier_all();
    VERIFY(odd[0] == 0 && odd[1] == (char)(before + 3) && odd[13] == odd[1] && odd[14] == 0);
    shmem_getmem(mine, odd + 1, 13, before);
    VERIFY(shmem_ptr(odd, next) && !shmem_ptr(mine, next));
    VERIFY(((char *)shmem_ptr(odd, next))[1] == (char)(me + 3));
    VERIFY(shmem_addr_accessible(area, next) && !shmem_addr_accessible(mine, next));
}

int main(void) {
    shmem_init();
    int n = shmem_n_pes();
    me = shmem_my_pe();
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    area = shmem_calloc(4 * N, 16);
    VERIFY(area && shmem_ctx_create(0, &context) == 0);
#define RUN_RMA(TYPE, NAME) rma_##NAME();
    SHMEM_RMA_TYPES(RUN_RMA)
#define RUN_SIZED(BITS, BYTES) sized_##BITS();
    SHMEM_SIZES(RUN_SIZED)
    memory();
    shmem_ctx_destroy(context);
    verified("rma");
    return 0;
}
