/* shmem_generic.h: OpenSHMEM's names without a type, for C11. shmem.h includes it.
 *
 * The type of the first pointer decides, and the number of arguments whether a context comes first.
 * Fixed-width types and size_t are other names of the types below, so these stand once each.
 */
#ifndef SHMEM_GENERIC_H_
#define SHMEM_GENERIC_H_

/** What a call of no fitting type resolves to: it takes no argument, so the compiler points at the
 * call. */
void shmem_has_no_such_type(void);

/* Put, get, collectives that move data, minimum, maximum */
#define SHMEM_OF_RMA(POINTER, PRE, POST)                                                           \
    _Generic(*(POINTER), char                                                                      \
             : PRE##char##POST, signed char                                                        \
             : PRE##schar##POST, short                                                             \
             : PRE##short##POST, int                                                               \
             : PRE##int##POST, long                                                                \
             : PRE##long##POST, long long                                                          \
             : PRE##longlong##POST, unsigned char                                                  \
             : PRE##uchar##POST, unsigned short                                                    \
             : PRE##ushort##POST, unsigned int                                                     \
             : PRE##uint##POST, unsigned long                                                      \
             : PRE##ulong##POST, unsigned long long                                                \
             : PRE##ulonglong##POST, float                                                         \
             : PRE##float##POST, double                                                            \
             : PRE##double##POST, long double                                                      \
             : PRE##longdouble##POST, default                                                      \
             : shmem_has_no_such_type)
/* Sum and product */
#define SHMEM_OF_SUM(POINTER, PRE, POST)                                                           \
    _Generic(*(POINTER), char                                                                      \
             : PRE##char##POST, signed char                                                        \
             : PRE##schar##POST, short                                                             \
             : PRE##short##POST, int                                                               \
             : PRE##int##POST, long                                                                \
             : PRE##long##POST, long long                                                          \
             : PRE##longlong##POST, unsigned char                                                  \
             : PRE##uchar##POST, unsigned short                                                    \
             : PRE##ushort##POST, unsigned int                                                     \
             : PRE##uint##POST, unsigned long                                                      \
             : PRE##ulong##POST, unsigned long long                                                \
             : PRE##ulonglong##POST, float                                                         \
             : PRE##float##POST, double                                                            \
             : PRE##double##POST, long double                                                      \
             : PRE##longdouble##POST, float _Complex                                               \
             : PRE##complexf##POST, double _Complex                                                \
             : PRE##complexd##POST, default                                                        \
             : shmem_has_no_such_type)
/* Reductions of bits */
#define SHMEM_OF_BITS(POINTER, PRE, POST)                                                          \
    _Generic(*(POINTER), unsigned char                                                             \
             : PRE##uchar##POST, unsigned short                                                    \
             : PRE##ushort##POST, unsigned int                                                     \
             : PRE##uint##POST, unsigned long                                                      \
             : PRE##ulong##POST, unsigned long long                                                \
             : PRE##ulonglong##POST, int8_t                                                        \
             : PRE##int8##POST, int16_t                                                            \
             : PRE##int16##POST, int32_t                                                           \
             : PRE##int32##POST, int64_t                                                           \
             : PRE##int64##POST, default                                                           \
             : shmem_has_no_such_type)
/* Atomics */
#define SHMEM_OF_ATOMIC(POINTER, PRE, POST)                                                        \
    _Generic(*(POINTER), int                                                                       \
             : PRE##int##POST, long                                                                \
             : PRE##long##POST, long long                                                          \
             : PRE##longlong##POST, unsigned int                                                   \
             : PRE##uint##POST, unsigned long                                                      \
             : PRE##ulong##POST, unsigned long long                                                \
             : PRE##ulonglong##POST, default                                                       \
             : shmem_has_no_such_type)
/* Fetch, set, swap */
#define SHMEM_OF_ATOMIC_EXTENDED(POINTER, PRE, POST)                                               \
    _Generic(*(POINTER), int                                                                       \
             : PRE##int##POST, long                                                                \
             : PRE##long##POST, long long                                                          \
             : PRE##longlong##POST, unsigned int                                                   \
             : PRE##uint##POST, unsigned long                                                      \
             : PRE##ulong##POST, unsigned long long                                                \
             : PRE##ulonglong##POST, float                                                         \
             : PRE##float##POST, double                                                            \
             : PRE##double##POST, default                                                          \
             : shmem_has_no_such_type)
/* Atomics on bits */
#define SHMEM_OF_ATOMIC_BITS(POINTER, PRE, POST)                                                   \
    _Generic(*(POINTER), unsigned int                                                              \
             : PRE##uint##POST, unsigned long                                                      \
             : PRE##ulong##POST, unsigned long long                                                \
             : PRE##ulonglong##POST, int32_t                                                       \
             : PRE##int32##POST, int64_t                                                           \
             : PRE##int64##POST, default                                                           \
             : shmem_has_no_such_type)
/* Wait and test */
#define SHMEM_OF_WAIT(POINTER, PRE, POST)                                                          \
    _Generic(*(POINTER), int                                                                       \
             : PRE##int##POST, long                                                                \
             : PRE##long##POST, long long                                                          \
             : PRE##longlong##POST, unsigned int                                                   \
             : PRE##uint##POST, unsigned long                                                      \
             : PRE##ulong##POST, unsigned long long                                                \
             : PRE##ulonglong##POST, short                                                         \
             : PRE##short##POST, unsigned short                                                    \
             : PRE##ushort##POST, default                                                          \
             : shmem_has_no_such_type)

/* SHMEM_CALL(N, TABLE, POST, arguments): with N arguments the first decides, with N + 1 it is a
 * context. */
#define SHMEM_COUNT(...)                            SHMEM_NINTH(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define SHMEM_NINTH(a, b, c, d, e, f, g, h, n, ...) n
#define SHMEM_CALL(N, TABLE, POST, ...)                                                            \
    SHMEM_WAY(N, SHMEM_COUNT(__VA_ARGS__))(TABLE, POST, __VA_ARGS__)
#define SHMEM_WAY(N, COUNT)                  SHMEM_WAY_(N, COUNT)
#define SHMEM_WAY_(N, COUNT)                 SHMEM_WAY_##N##_##COUNT
#define SHMEM_PLAIN(TABLE, POST, first, ...) TABLE(first, shmem_, POST)(first, __VA_ARGS__)
#define SHMEM_ON(TABLE, POST, ctx, first, ...)                                                     \
    TABLE(first, shmem_ctx_, POST)(ctx, first, __VA_ARGS__)
#define SHMEM_WAY_2_2 SHMEM_PLAIN
#define SHMEM_WAY_2_3 SHMEM_ON
#define SHMEM_WAY_3_3 SHMEM_PLAIN
#define SHMEM_WAY_3_4 SHMEM_ON
#define SHMEM_WAY_4_4 SHMEM_PLAIN
#define SHMEM_WAY_4_5 SHMEM_ON
#define SHMEM_WAY_5_5 SHMEM_PLAIN
#define SHMEM_WAY_5_6 SHMEM_ON
#define SHMEM_WAY_6_6 SHMEM_PLAIN
#define SHMEM_WAY_6_7 SHMEM_ON
#define SHMEM_WAY_7_7 SHMEM_PLAIN
#define SHMEM_WAY_7_8 SHMEM_ON

#define shmem_put(...)            SHMEM_CALL(4, SHMEM_OF_RMA, _put, __VA_ARGS__)
#define shmem_get(...)            SHMEM_CALL(4, SHMEM_OF_RMA, _get, __VA_ARGS__)
#define shmem_put_nbi(...)        SHMEM_CALL(4, SHMEM_OF_RMA, _put_nbi, __VA_ARGS__)
#define shmem_get_nbi(...)        SHMEM_CALL(4, SHMEM_OF_RMA, _get_nbi, __VA_ARGS__)
#define shmem_iput(...)           SHMEM_CALL(6, SHMEM_OF_RMA, _iput, __VA_ARGS__)
#define shmem_iget(...)           SHMEM_CALL(6, SHMEM_OF_RMA, _iget, __VA_ARGS__)
#define shmem_p(...)              SHMEM_CALL(3, SHMEM_OF_RMA, _p, __VA_ARGS__)
#define shmem_g(...)              SHMEM_CALL(2, SHMEM_OF_RMA, _g, __VA_ARGS__)
#define shmem_put_signal(...)     SHMEM_CALL(7, SHMEM_OF_RMA, _put_signal, __VA_ARGS__)
#define shmem_put_signal_nbi(...) SHMEM_CALL(7, SHMEM_OF_RMA, _put_signal_nbi, __VA_ARGS__)
#define shmem_atomic_fetch(...)   SHMEM_CALL(2, SHMEM_OF_ATOMIC_EXTENDED, _atomic_fetch, __VA_ARGS__)
#define shmem_atomic_set(...)     SHMEM_CALL(3, SHMEM_OF_ATOMIC_EXTENDED, _atomic_set, __VA_ARGS__)
#define shmem_atomic_swap(...)    SHMEM_CALL(3, SHMEM_OF_ATOMIC_EXTENDED, _atomic_swap, __VA_ARGS__)
#define shmem_atomic_fetch_nbi(...)                                                                \
    SHMEM_CALL(3, SHMEM_OF_ATOMIC_EXTENDED, _atomic_fetch_nbi, __VA_ARGS__)
#define shmem_atomic_swap_nbi(...)                                                                 \
    SHMEM_CALL(4, SHMEM_OF_ATOMIC_EXTENDED, _atomic_swap_nbi, __VA_ARGS__)
#define shmem_atomic_compare_swap(...)                                                             \
    SHMEM_CALL(4, SHMEM_OF_ATOMIC, _atomic_compare_swap, __VA_ARGS__)
#define shmem_atomic_compare_swap_nbi(...)                                                         \
    SHMEM_CALL(5, SHMEM_OF_ATOMIC, _atomic_compare_swap_nbi, __VA_ARGS__)
#define shmem_atomic_inc(...)       SHMEM_CALL(2, SHMEM_OF_ATOMIC, _atomic_inc, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...) SHMEM_CALL(2, SHMEM_OF_ATOMIC, _atomic_fetch_inc, __VA_ARGS__)
#define shmem_atomic_fetch_inc_nbi(...)                                                            \
    SHMEM_CALL(3, SHMEM_OF_ATOMIC, _atomic_fetch_inc_nbi, __VA_ARGS__)
#define shmem_atomic_add(...)       SHMEM_CALL(3, SHMEM_OF_ATOMIC, _atomic_add, __VA_ARGS__)
#define shmem_atomic_fetch_add(...) SHMEM_CALL(3, SHMEM_OF_ATOMIC, _atomic_fetch_add, __VA_ARGS__)
#define shmem_atomic_fetch_add_nbi(...)                                                            \
    SHMEM_CALL(4, SHMEM_OF_ATOMIC, _atomic_fetch_add_nbi, __VA_ARGS__)
#define shmem_atomic_and(...) SHMEM_CALL(3, SHMEM_OF_ATOMIC_BITS, _atomic_and, __VA_ARGS__)
#define shmem_atomic_fetch_and(...)                                                                \
    SHMEM_CALL(3, SHMEM_OF_ATOMIC_BITS, _atomic_fetch_and, __VA_ARGS__)
#define shmem_atomic_fetch_and_nbi(...)                                                            \
    SHMEM_CALL(4, SHMEM_OF_ATOMIC_BITS, _atomic_fetch_and_nbi, __VA_ARGS__)
#define shmem_atomic_or(...) SHMEM_CALL(3, SHMEM_OF_ATOMIC_BITS, _atomic_or, __VA_ARGS__)
#define shmem_atomic_fetch_or(...)                                                                 \
    SHMEM_CALL(3, SHMEM_OF_ATOMIC_BITS, _atomic_fetch_or, __VA_ARGS__)
#define shmem_atomic_fetch_or_nbi(...)                                                             \
    SHMEM_CALL(4, SHMEM_OF_ATOMIC_BITS, _atomic_fetch_or_nbi, __VA_ARGS__)
#define shmem_atomic_xor(...) SHMEM_CALL(3, SHMEM_OF_ATOMIC_BITS, _atomic_xor, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...)                                                                \
    SHMEM_CALL(3, SHMEM_OF_ATOMIC_BITS, _atomic_fetch_xor, __VA_ARGS__)
#define shmem_atomic_fetch_xor_nbi(...)                                                            \
    SHMEM_CALL(4, SHMEM_OF_ATOMIC_BITS, _atomic_fetch_xor_nbi, __VA_ARGS__)

#define shmem_wait_until(ivars, ...) SHMEM_OF_WAIT(ivars, shmem_, _wait_until)(ivars, __VA_ARGS__)
#define shmem_test(ivars, ...)       SHMEM_OF_WAIT(ivars, shmem_, _test)(ivars, __VA_ARGS__)
#define shmem_wait_until_all(ivars, ...)                                                           \
    SHMEM_OF_WAIT(ivars, shmem_, _wait_until_all)(ivars, __VA_ARGS__)
#define shmem_wait_until_all_vector(ivars, ...)                                                    \
    SHMEM_OF_WAIT(ivars, shmem_, _wait_until_all_vector)(ivars, __VA_ARGS__)
#define shmem_wait_until_any(ivars, ...)                                                           \
    SHMEM_OF_WAIT(ivars, shmem_, _wait_until_any)(ivars, __VA_ARGS__)
#define shmem_wait_until_any_vector(ivars, ...)                                                    \
    SHMEM_OF_WAIT(ivars, shmem_, _wait_until_any_vector)(ivars, __VA_ARGS__)
#define shmem_wait_until_some(ivars, ...)                                                          \
    SHMEM_OF_WAIT(ivars, shmem_, _wait_until_some)(ivars, __VA_ARGS__)
#define shmem_wait_until_some_vector(ivars, ...)                                                   \
    SHMEM_OF_WAIT(ivars, shmem_, _wait_until_some_vector)(ivars, __VA_ARGS__)
#define shmem_test_all(ivars, ...) SHMEM_OF_WAIT(ivars, shmem_, _test_all)(ivars, __VA_ARGS__)
#define shmem_test_all_vector(ivars, ...)                                                          \
    SHMEM_OF_WAIT(ivars, shmem_, _test_all_vector)(ivars, __VA_ARGS__)
#define shmem_test_any(ivars, ...) SHMEM_OF_WAIT(ivars, shmem_, _test_any)(ivars, __VA_ARGS__)
#define shmem_test_any_vector(ivars, ...)                                                          \
    SHMEM_OF_WAIT(ivars, shmem_, _test_any_vector)(ivars, __VA_ARGS__)
#define shmem_test_some(ivars, ...) SHMEM_OF_WAIT(ivars, shmem_, _test_some)(ivars, __VA_ARGS__)
#define shmem_test_some_vector(ivars, ...)                                                         \
    SHMEM_OF_WAIT(ivars, shmem_, _test_some_vector)(ivars, __VA_ARGS__)

#define shmem_broadcast(team, dest, ...)                                                           \
    SHMEM_OF_RMA(dest, shmem_, _broadcast)(team, dest, __VA_ARGS__)
#define shmem_collect(team, dest, ...) SHMEM_OF_RMA(dest, shmem_, _collect)(team, dest, __VA_ARGS__)
#define shmem_fcollect(team, dest, ...)                                                            \
    SHMEM_OF_RMA(dest, shmem_, _fcollect)(team, dest, __VA_ARGS__)
#define shmem_alltoall(team, dest, ...)                                                            \
    SHMEM_OF_RMA(dest, shmem_, _alltoall)(team, dest, __VA_ARGS__)
#define shmem_alltoalls(team, dest, ...)                                                           \
    SHMEM_OF_RMA(dest, shmem_, _alltoalls)(team, dest, __VA_ARGS__)
#define shmem_and_reduce(team, dest, ...)                                                          \
    SHMEM_OF_BITS(dest, shmem_, _and_reduce)(team, dest, __VA_ARGS__)
#define shmem_or_reduce(team, dest, ...)                                                           \
    SHMEM_OF_BITS(dest, shmem_, _or_reduce)(team, dest, __VA_ARGS__)
#define shmem_xor_reduce(team, dest, ...)                                                          \
    SHMEM_OF_BITS(dest, shmem_, _xor_reduce)(team, dest, __VA_ARGS__)
#define shmem_max_reduce(team, dest, ...)                                                          \
    SHMEM_OF_RMA(dest, shmem_, _max_reduce)(team, dest, __VA_ARGS__)
#define shmem_min_reduce(team, dest, ...)                                                          \
    SHMEM_OF_RMA(dest, shmem_, _min_reduce)(team, dest, __VA_ARGS__)
#define shmem_sum_reduce(team, dest, ...)                                                          \
    SHMEM_OF_SUM(dest, shmem_, _sum_reduce)(team, dest, __VA_ARGS__)
#define shmem_prod_reduce(team, dest, ...)                                                         \
    SHMEM_OF_SUM(dest, shmem_, _prod_reduce)(team, dest, __VA_ARGS__)

/* One argument is a team, four are an active set. */
#define shmem_sync(...)  SHMEM_WAY(sync, SHMEM_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define SHMEM_WAY_sync_1 shmem_team_sync
#define SHMEM_WAY_sync_4 (shmem_sync)

/* Deprecated. */
#define shmem_fetch(...) SHMEM_CALL(2, SHMEM_OF_ATOMIC_EXTENDED, _atomic_fetch, __VA_ARGS__)
#define shmem_set(...)   SHMEM_CALL(3, SHMEM_OF_ATOMIC_EXTENDED, _atomic_set, __VA_ARGS__)
#define shmem_swap(...)  SHMEM_CALL(3, SHMEM_OF_ATOMIC_EXTENDED, _atomic_swap, __VA_ARGS__)
#define shmem_cswap(...) SHMEM_CALL(4, SHMEM_OF_ATOMIC, _atomic_compare_swap, __VA_ARGS__)
#define shmem_finc(...)  SHMEM_CALL(2, SHMEM_OF_ATOMIC, _atomic_fetch_inc, __VA_ARGS__)
#define shmem_inc(...)   SHMEM_CALL(2, SHMEM_OF_ATOMIC, _atomic_inc, __VA_ARGS__)
#define shmem_fadd(...)  SHMEM_CALL(3, SHMEM_OF_ATOMIC, _atomic_fetch_add, __VA_ARGS__)
#define shmem_add(...)   SHMEM_CALL(3, SHMEM_OF_ATOMIC, _atomic_add, __VA_ARGS__)

#endif
