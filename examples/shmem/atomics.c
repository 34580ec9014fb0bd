/* atomics.c: every atomic operation with every type: all PEs on one object of PE 0, and each on one
 * of the next PE. */
#include "verify.h"

static int me, n, next, before;
static shmem_ctx_t context;

/* All at once on PE 0. */
#define CHECK_ATOMIC(TYPE, NAME)                                                                   \
    static TYPE sum_##NAME, turn_##NAME, own_##NAME;                                               \
    static void atomic_##NAME(void) {                                                              \
        TYPE fetched = 0;                                                                          \
        shmem_##NAME##_atomic_add(&sum_##NAME, (TYPE)(me + 1), 0);                                 \
        shmem_ctx_##NAME##_atomic_inc(context, &sum_##NAME, 0);                                    \
        VERIFY(shmem_ctx_##NAME##_atomic_fetch_add(context, &sum_##NAME, 2, 0) >= 2);              \
        VERIFY(shmem_##NAME##_atomic_fetch_inc(&sum_##NAME, 0) >= 4);                              \
        shmem_##NAME##_atomic_fetch_inc_nbi(&fetched, &sum_##NAME, 0);                             \
        shmem_##NAME##_atomic_fetch_add_nbi(&fetched, &sum_##NAME, 3, 0);                          \
        shmem_quiet();                                                                             \
        VERIFY(fetched >= 6);                                                                      \
        /* PEs take turns: the one whose number is there puts the next one. */                     \
        while (shmem_##NAME##_atomic_compare_swap(&turn_##NAME, (TYPE)me, (TYPE)(me + 1), 0) !=    \
               (TYPE)me) {                                                                         \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        VERIFY(shmem_##NAME##_atomic_fetch(&sum_##NAME, 0) == (TYPE)(n * (n + 1) / 2 + 8 * n));    \
        VERIFY(shmem_##NAME##_g(&turn_##NAME, 0) == (TYPE)n);                                      \
        shmem_##NAME##_atomic_compare_swap_nbi(&fetched, &own_##NAME, 0, (TYPE)(me + 1), next);    \
        shmem_barrier_all();                                                                       \
        VERIFY(fetched == 0 && own_##NAME == (TYPE)(before + 1));                                  \
    }
SHMEM_ATOMIC_TYPES(CHECK_ATOMIC)

/* Each on the next. */
#define CHECK_EXTENDED(TYPE, NAME)                                                                 \
    static TYPE word_##NAME;                                                                       \
    static void extended_##NAME(void) {                                                            \
        TYPE fetched = 0;                                                                          \
        shmem_##NAME##_atomic_set(&word_##NAME, (TYPE)(me + 10), next);                            \
        VERIFY(shmem_ctx_##NAME##_atomic_fetch(context, &word_##NAME, next) == (TYPE)(me + 10));   \
        VERIFY(shmem_##NAME##_atomic_swap(&word_##NAME, (TYPE)7, next) == (TYPE)(me + 10));        \
        shmem_##NAME##_atomic_swap_nbi(&fetched, &word_##NAME, (TYPE)(me + 20), next);             \
        shmem_quiet();                                                                             \
        VERIFY(fetched == (TYPE)7);                                                                \
        shmem_##NAME##_atomic_fetch_nbi(&fetched, &word_##NAME, next);                             \
        shmem_barrier_all();                                                                       \
        VERIFY(fetched == (TYPE)(me + 20) && word_##NAME == (TYPE)(before + 20));                  \
    }
SHMEM_ATOMIC_EXTENDED_TYPES(CHECK_EXTENDED)

/* A bit of each PE. */
#define CHECK_BITS(TYPE, NAME)                                                                     \
    static TYPE bits_##NAME;                                                                       \
    static void bits_of_##NAME(void) {                                                             \
        TYPE mine = (TYPE)((TYPE)1 << (me % 31)), fetched = 0;                                     \
        TYPE before_all = shmem_##NAME##_atomic_fetch_or(&bits_##NAME, mine, 0);                   \
        VERIFY(!(before_all & mine) || n > 31);                                                    \
        shmem_##NAME##_atomic_or(&bits_##NAME, mine, 0);                                           \
        shmem_barrier_all();                                                                       \
        VERIFY(shmem_##NAME##_g(&bits_##NAME, 0) ==                                                \
               (TYPE)(n >= 31 ? 0x7fffffff : ((TYPE)1 << n) - 1));                                 \
        shmem_barrier_all();                                                                       \
        if (n <= 31) {                                                                             \
            shmem_##NAME##_atomic_xor(&bits_##NAME, mine, 0);                                      \
            shmem_##NAME##_atomic_fetch_xor_nbi(&fetched, &bits_##NAME, mine, 0);                  \
            shmem_quiet();                                                                         \
            VERIFY(!(fetched & mine));                                                             \
            VERIFY(shmem_##NAME##_atomic_fetch_and(&bits_##NAME, (TYPE)~mine, 0) & mine);          \
            shmem_ctx_##NAME##_atomic_and(context, &bits_##NAME, (TYPE)~mine, 0);                  \
            VERIFY(!(shmem_##NAME##_atomic_fetch_xor(&bits_##NAME, 0, 0) & mine));                 \
            shmem_barrier_all();                                                                   \
            VERIFY(shmem_##NAME##_atomic_fetch(&bits_##NAME, 0) == 0);                             \
        }                                                                                          \
    }
SHMEM_ATOMIC_BITS_TYPES(CHECK_BITS)

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    VERIFY(shmem_ctx_create(SHMEM_CTX_PRIVATE, &context) == 0);
#define RUN_ATOMIC(TYPE, NAME) atomic_##NAME();
    SHMEM_ATOMIC_TYPES(RUN_ATOMIC)
#define RUN_EXTENDED(TYPE, NAME) extended_##NAME();
    SHMEM_ATOMIC_EXTENDED_TYPES(RUN_EXTENDED)
#define RUN_BITS(TYPE, NAME) bits_of_##NAME();
    SHMEM_ATOMIC_BITS_TYPES(RUN_BITS)
    shmem_ctx_destroy(context);
    verified("atomics");
    return 0;
}
