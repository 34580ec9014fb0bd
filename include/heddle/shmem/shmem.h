/* shmem.h: OpenSHMEM 1.5 whose PEs are threads of one process.
 *
 * A program that includes this header is linked as a shared module, by oshcc, and started by
 * shmemrun, which gives each PE a copy of it: docs/shmem.md. What calls mean is the specification's
 * to say; here is which there are. Types come from the lists of shmem_types.h: wherever a name has
 * TYPENAME in the specification, a macro here declares the calls of one type, once without a
 * context (PRE is shmem_) and once with one (shmem_ctx_). The C11 names without a type are in
 * shmem_generic.h.
 */
#ifndef SHMEM_H_
#define SHMEM_H_

#include <stddef.h>
#include <stdint.h>

#include "shmem_types.h"

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 5
#define SHMEM_MAX_NAME_LEN  64
#define SHMEM_VENDOR_STRING "OpenSHMEM of threads on Heddle"

enum { SHMEM_THREAD_SINGLE, SHMEM_THREAD_FUNNELED, SHMEM_THREAD_SERIALIZED, SHMEM_THREAD_MULTIPLE };
enum { SHMEM_CMP_EQ = 1, SHMEM_CMP_NE, SHMEM_CMP_GT, SHMEM_CMP_LE, SHMEM_CMP_LT, SHMEM_CMP_GE };
enum { SHMEM_SIGNAL_SET = 1, SHMEM_SIGNAL_ADD };

#define SHMEM_CTX_SERIALIZED          1L
#define SHMEM_CTX_PRIVATE             2L
#define SHMEM_CTX_NOSTORE             4L
#define SHMEM_MALLOC_ATOMICS_REMOTE   1L
#define SHMEM_MALLOC_SIGNAL_REMOTE    2L
#define SHMEM_TEAM_NUM_CONTEXTS       1L
#define SHMEM_SYNC_VALUE              0L
#define SHMEM_SYNC_SIZE               1
#define SHMEM_BARRIER_SYNC_SIZE       SHMEM_SYNC_SIZE
#define SHMEM_BCAST_SYNC_SIZE         SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_SYNC_SIZE        SHMEM_SYNC_SIZE
#define SHMEM_COLLECT_SYNC_SIZE       SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALL_SYNC_SIZE      SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALLS_SYNC_SIZE     SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1

/* Deprecated names of the constants. */
#define _SHMEM_MAJOR_VERSION           SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION           SHMEM_MINOR_VERSION
#define _SHMEM_MAX_NAME_LEN            SHMEM_MAX_NAME_LEN
#define _SHMEM_VENDOR_STRING           SHMEM_VENDOR_STRING
#define _SHMEM_SYNC_VALUE              SHMEM_SYNC_VALUE
#define _SHMEM_BARRIER_SYNC_SIZE       SHMEM_BARRIER_SYNC_SIZE
#define _SHMEM_BCAST_SYNC_SIZE         SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE        SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE       SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE
#define _SHMEM_CMP_EQ                  SHMEM_CMP_EQ
#define _SHMEM_CMP_NE                  SHMEM_CMP_NE
#define _SHMEM_CMP_GT                  SHMEM_CMP_GT
#define _SHMEM_CMP_LE                  SHMEM_CMP_LE
#define _SHMEM_CMP_LT                  SHMEM_CMP_LT
#define _SHMEM_CMP_GE                  SHMEM_CMP_GE

/** Handles. The predefined ones are the same pointers at all PEs: the library finds what they mean
 * for the caller. */
typedef struct shmem_team *shmem_team_t;
typedef struct shmem_context *shmem_ctx_t;
typedef struct {
    int num_contexts;
} shmem_team_config_t;

#ifdef __cplusplus
#define SHMEM_NORETURN [[noreturn]]
extern "C" {
#else
#define SHMEM_NORETURN _Noreturn
#endif
#pragma GCC visibility push(default)

extern char shmem_handle_world, shmem_handle_shared;
extern struct shmem_context shmem_handle_default, shmem_handle_invalid;
#define SHMEM_TEAM_WORLD   ((shmem_team_t)&shmem_handle_world)
#define SHMEM_TEAM_SHARED  ((shmem_team_t)&shmem_handle_shared)
#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_CTX_DEFAULT  (&shmem_handle_default)
#define SHMEM_CTX_INVALID  (&shmem_handle_invalid)

/* Setup and queries. */
void shmem_init(void);
int shmem_init_thread(int requested, int *provided);
void shmem_finalize(void);
SHMEM_NORETURN void shmem_global_exit(int status);
void shmem_query_thread(int *provided);
void shmem_query_initialized(int *initialized);
int shmem_my_pe(void);
int shmem_n_pes(void);
int shmem_pe_accessible(int pe);
int shmem_addr_accessible(const void *address, int pe);
void *shmem_ptr(const void *dest, int pe);
void *shmem_team_ptr(shmem_team_t team, const void *dest, int pe);
void shmem_info_get_version(int *major, int *minor);
void shmem_info_get_name(char *name);
void shmem_pcontrol(int level, ...);
void start_pes(int npes);
int _my_pe(void);
int _num_pes(void);
void shmem_set_cache_inv(void);
void shmem_clear_cache_inv(void);
void shmem_set_cache_line_inv(void *dest);
void shmem_clear_cache_line_inv(void *dest);
void shmem_udcflush(void);
void shmem_udcflush_line(void *dest);

/* The symmetric heap. */
void *shmem_malloc(size_t size);
void *shmem_malloc_with_hints(size_t size, long hints);
void *shmem_calloc(size_t count, size_t size);
void *shmem_align(size_t alignment, size_t size);
void *shmem_realloc(void *ptr, size_t size);
void shmem_free(void *ptr);
void *shmalloc(size_t size);
void *shmemalign(size_t alignment, size_t size);
void *shrealloc(void *ptr, size_t size);
void shfree(void *ptr);

/* Teams and contexts. */
int shmem_team_my_pe(shmem_team_t team);
int shmem_team_n_pes(shmem_team_t team);
int shmem_team_get_config(shmem_team_t team, long mask, shmem_team_config_t *config);
int shmem_team_translate_pe(shmem_team_t from, int pe, shmem_team_t to);
int shmem_team_split_strided(shmem_team_t parent, int start, int stride, int size,
                             const shmem_team_config_t *config, long mask, shmem_team_t *team);
int shmem_team_split_2d(shmem_team_t parent, int xrange, const shmem_team_config_t *x_config,
                        long x_mask, shmem_team_t *x_team, const shmem_team_config_t *y_config,
                        long y_mask, shmem_team_t *y_team);
void shmem_team_destroy(shmem_team_t team);
int shmem_ctx_create(long options, shmem_ctx_t *ctx);
int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx);
int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team);
void shmem_ctx_destroy(shmem_ctx_t ctx);

/* Order, locks, signals. */
void shmem_fence(void);
void shmem_quiet(void);
void shmem_ctx_fence(shmem_ctx_t ctx);
void shmem_ctx_quiet(shmem_ctx_t ctx);
void shmem_set_lock(long *lock);
void shmem_clear_lock(long *lock);
int shmem_test_lock(long *lock);
uint64_t shmem_signal_fetch(const uint64_t *address);
uint64_t shmem_signal_wait_until(uint64_t *address, int cmp, uint64_t value);

/* Put and get. */
#define SHMEM_DECLARE_RMA(TYPE, NAME, PRE, CTX)                                                    \
    void PRE##NAME##_put(CTX TYPE *dest, const TYPE *source, size_t nelems, int pe);               \
    void PRE##NAME##_get(CTX TYPE *dest, const TYPE *source, size_t nelems, int pe);               \
    void PRE##NAME##_put_nbi(CTX TYPE *dest, const TYPE *source, size_t nelems, int pe);           \
    void PRE##NAME##_get_nbi(CTX TYPE *dest, const TYPE *source, size_t nelems, int pe);           \
    void PRE##NAME##_iput(CTX TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst,        \
                          size_t nelems, int pe);                                                  \
    void PRE##NAME##_iget(CTX TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst,        \
                          size_t nelems, int pe);                                                  \
    void PRE##NAME##_p(CTX TYPE *dest, TYPE value, int pe);                                        \
    TYPE PRE##NAME##_g(CTX const TYPE *source, int pe);                                            \
    void PRE##NAME##_put_signal(CTX TYPE *dest, const TYPE *source, size_t nelems,                 \
                                uint64_t *address, uint64_t signal, int op, int pe);               \
    void PRE##NAME##_put_signal_nbi(CTX TYPE *dest, const TYPE *source, size_t nelems,             \
                                    uint64_t *address, uint64_t signal, int op, int pe);
/* Elements of a size, and bytes (SUFFIX is mem), which have no strides. */
#define SHMEM_DECLARE_BLOCK(SUFFIX, PRE, CTX)                                                      \
    void PRE##put##SUFFIX(CTX void *dest, const void *source, size_t nelems, int pe);              \
    void PRE##get##SUFFIX(CTX void *dest, const void *source, size_t nelems, int pe);              \
    void PRE##put##SUFFIX##_nbi(CTX void *dest, const void *source, size_t nelems, int pe);        \
    void PRE##get##SUFFIX##_nbi(CTX void *dest, const void *source, size_t nelems, int pe);        \
    void PRE##put##SUFFIX##_signal(CTX void *dest, const void *source, size_t nelems,              \
                                   uint64_t *address, uint64_t signal, int op, int pe);            \
    void PRE##put##SUFFIX##_signal_nbi(CTX void *dest, const void *source, size_t nelems,          \
                                       uint64_t *address, uint64_t signal, int op, int pe);
#define SHMEM_DECLARE_STRIDED(SUFFIX, PRE, CTX)                                                    \
    void PRE##iput##SUFFIX(CTX void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,       \
                           size_t nelems, int pe);                                                 \
    void PRE##iget##SUFFIX(CTX void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,       \
                           size_t nelems, int pe);

/* Atomics. The last parameter takes SHMEM_WITH, comma and all. */
#define SHMEM_DECLARE_ATOMIC_EXTENDED(TYPE, NAME, PRE, CTX)                                        \
    TYPE PRE##NAME##_atomic_fetch(CTX const TYPE *source, int pe);                                 \
    void PRE##NAME##_atomic_set(CTX TYPE *dest, TYPE value, int pe);                               \
    TYPE PRE##NAME##_atomic_swap(CTX TYPE *dest, TYPE value, int pe);                              \
    void PRE##NAME##_atomic_fetch_nbi(CTX TYPE *fetch, const TYPE *source, int pe);                \
    void PRE##NAME##_atomic_swap_nbi(CTX TYPE *fetch, TYPE *dest, TYPE value, int pe);
#define SHMEM_DECLARE_ATOMIC(TYPE, NAME, PRE, CTX)                                                 \
    TYPE PRE##NAME##_atomic_compare_swap(CTX TYPE *dest, TYPE cond, TYPE value, int pe);           \
    void PRE##NAME##_atomic_compare_swap_nbi(CTX TYPE *fetch, TYPE *dest, TYPE cond, TYPE value,   \
                                             int pe);                                              \
    void PRE##NAME##_atomic_inc(CTX TYPE *dest, int pe);                                           \
    TYPE PRE##NAME##_atomic_fetch_inc(CTX TYPE *dest, int pe);                                     \
    void PRE##NAME##_atomic_fetch_inc_nbi(CTX TYPE *fetch, TYPE *dest, int pe);
#define SHMEM_DECLARE_ATOMIC_OP(OP, TYPE, NAME, PRE, CTX)                                          \
    void PRE##NAME##_atomic_##OP(CTX TYPE *dest, TYPE value, int pe);                              \
    TYPE PRE##NAME##_atomic_fetch_##OP(CTX TYPE *dest, TYPE value, int pe);                        \
    void PRE##NAME##_atomic_fetch_##OP##_nbi(CTX TYPE *fetch, TYPE *dest, TYPE value, int pe);

/* Each of them without and with a context. */
#define SHMEM_WITH shmem_ctx_t ctx,
#define SHMEM_RMA_OF(TYPE, NAME)                                                                   \
    SHMEM_DECLARE_RMA(TYPE, NAME, shmem_, )                                                        \
    SHMEM_DECLARE_RMA(TYPE, NAME, shmem_ctx_, SHMEM_WITH)
#define SHMEM_SIZED_OF(SUFFIX, BYTES)                                                              \
    SHMEM_DECLARE_BLOCK(SUFFIX, shmem_, )                                                          \
    SHMEM_DECLARE_BLOCK(SUFFIX, shmem_ctx_, SHMEM_WITH)                                            \
    SHMEM_DECLARE_STRIDED(SUFFIX, shmem_, )                                                        \
    SHMEM_DECLARE_STRIDED(SUFFIX, shmem_ctx_, SHMEM_WITH)
#define SHMEM_ATOMIC_EXTENDED_OF(TYPE, NAME)                                                       \
    SHMEM_DECLARE_ATOMIC_EXTENDED(TYPE, NAME, shmem_, )                                            \
    SHMEM_DECLARE_ATOMIC_EXTENDED(TYPE, NAME, shmem_ctx_, SHMEM_WITH)
#define SHMEM_ATOMIC_OF(TYPE, NAME)                                                                \
    SHMEM_DECLARE_ATOMIC(TYPE, NAME, shmem_, )                                                     \
    SHMEM_DECLARE_ATOMIC(TYPE, NAME, shmem_ctx_, SHMEM_WITH)                                       \
    SHMEM_DECLARE_ATOMIC_OP(add, TYPE, NAME, shmem_, )                                             \
    SHMEM_DECLARE_ATOMIC_OP(add, TYPE, NAME, shmem_ctx_, SHMEM_WITH)
#define SHMEM_ATOMIC_BITS_OF(TYPE, NAME)                                                           \
    SHMEM_DECLARE_ATOMIC_OP(and, TYPE, NAME, shmem_, )                                             \
    SHMEM_DECLARE_ATOMIC_OP(and, TYPE, NAME, shmem_ctx_, SHMEM_WITH)                               \
    SHMEM_DECLARE_ATOMIC_OP(or, TYPE, NAME, shmem_, )                                              \
    SHMEM_DECLARE_ATOMIC_OP(or, TYPE, NAME, shmem_ctx_, SHMEM_WITH)                                \
    SHMEM_DECLARE_ATOMIC_OP(xor, TYPE, NAME, shmem_, )                                             \
    SHMEM_DECLARE_ATOMIC_OP(xor, TYPE, NAME, shmem_ctx_, SHMEM_WITH)
SHMEM_RMA_TYPES(SHMEM_RMA_OF)
SHMEM_SIZES(SHMEM_SIZED_OF)
SHMEM_DECLARE_BLOCK(mem, shmem_, )
SHMEM_DECLARE_BLOCK(mem, shmem_ctx_, SHMEM_WITH)
SHMEM_ATOMIC_EXTENDED_TYPES(SHMEM_ATOMIC_EXTENDED_OF)
SHMEM_ATOMIC_TYPES(SHMEM_ATOMIC_OF)
SHMEM_ATOMIC_BITS_TYPES(SHMEM_ATOMIC_BITS_OF)

/* Deprecated names of atomics. */
#define SHMEM_OLD_ATOMIC_EXTENDED_OF(TYPE, NAME)                                                   \
    TYPE shmem_##NAME##_fetch(const TYPE *source, int pe);                                         \
    void shmem_##NAME##_set(TYPE *dest, TYPE value, int pe);                                       \
    TYPE shmem_##NAME##_swap(TYPE *dest, TYPE value, int pe);
#define SHMEM_OLD_ATOMIC_OF(TYPE, NAME)                                                            \
    TYPE shmem_##NAME##_cswap(TYPE *dest, TYPE cond, TYPE value, int pe);                          \
    TYPE shmem_##NAME##_finc(TYPE *dest, int pe);                                                  \
    TYPE shmem_##NAME##_fadd(TYPE *dest, TYPE value, int pe);                                      \
    void shmem_##NAME##_inc(TYPE *dest, int pe);                                                   \
    void shmem_##NAME##_add(TYPE *dest, TYPE value, int pe);
SHMEM_OLD_ATOMIC_EXTENDED_TYPES(SHMEM_OLD_ATOMIC_EXTENDED_OF)
SHMEM_OLD_ATOMIC_TYPES(SHMEM_OLD_ATOMIC_OF)

/* Wait and test: one variable, all, any, some of many; the values to compare with are one, or one
 * each (vector). */
#define SHMEM_DECLARE_WAIT(TYPE, NAME, SUFFIX, VALUE)                                              \
    void shmem_##NAME##_wait_until_all##SUFFIX(TYPE *ivars, size_t nelems, const int *status,      \
                                               int cmp, VALUE);                                    \
    size_t shmem_##NAME##_wait_until_any##SUFFIX(TYPE *ivars, size_t nelems, const int *status,    \
                                                 int cmp, VALUE);                                  \
    size_t shmem_##NAME##_wait_until_some##SUFFIX(TYPE *ivars, size_t nelems, size_t *indices,     \
                                                  const int *status, int cmp, VALUE);              \
    int shmem_##NAME##_test_all##SUFFIX(TYPE *ivars, size_t nelems, const int *status, int cmp,    \
                                        VALUE);                                                    \
    size_t shmem_##NAME##_test_any##SUFFIX(TYPE *ivars, size_t nelems, const int *status, int cmp, \
                                           VALUE);                                                 \
    size_t shmem_##NAME##_test_some##SUFFIX(TYPE *ivars, size_t nelems, size_t *indices,           \
                                            const int *status, int cmp, VALUE);
#define SHMEM_WAIT_OF(TYPE, NAME)                                                                  \
    void shmem_##NAME##_wait(TYPE *ivar, TYPE value);                                              \
    void shmem_##NAME##_wait_until(TYPE *ivar, int cmp, TYPE value);                               \
    int shmem_##NAME##_test(TYPE *ivar, int cmp, TYPE value);                                      \
    SHMEM_DECLARE_WAIT(TYPE, NAME, , TYPE value)                                                   \
    SHMEM_DECLARE_WAIT(TYPE, NAME, _vector, TYPE *values)
SHMEM_WAIT_TYPES(SHMEM_WAIT_OF)
void shmem_wait(long *ivar, long value);

/* Collectives of teams. */
void shmem_barrier_all(void);
void shmem_sync_all(void);
int shmem_team_sync(shmem_team_t team);
#define SHMEM_DECLARE_COLLECTIVES(TYPE, PRE, POST)                                                 \
    int PRE##broadcast##POST(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems,     \
                             int root);                                                            \
    int PRE##collect##POST(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems);      \
    int PRE##fcollect##POST(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems);     \
    int PRE##alltoall##POST(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems);     \
    int PRE##alltoalls##POST(shmem_team_t team, TYPE *dest, const TYPE *source, ptrdiff_t dst,     \
                             ptrdiff_t sst, size_t nelems);
#define SHMEM_COLLECTIVES_OF(TYPE, NAME) SHMEM_DECLARE_COLLECTIVES(TYPE, shmem_##NAME##_, )
SHMEM_RMA_TYPES(SHMEM_COLLECTIVES_OF)
SHMEM_DECLARE_COLLECTIVES(void, shmem_, mem)

#define SHMEM_DECLARE_REDUCE(OP, TYPE, NAME)                                                       \
    int shmem_##NAME##_##OP##_reduce(shmem_team_t team, TYPE *dest, const TYPE *source,            \
                                     size_t nreduce);
#define SHMEM_REDUCE_BITS_OF(TYPE, NAME)                                                           \
    SHMEM_DECLARE_REDUCE(and, TYPE, NAME)                                                          \
    SHMEM_DECLARE_REDUCE(or, TYPE, NAME)                                                           \
    SHMEM_DECLARE_REDUCE(xor, TYPE, NAME)
#define SHMEM_REDUCE_ORDER_OF(TYPE, NAME)                                                          \
    SHMEM_DECLARE_REDUCE(max, TYPE, NAME)                                                          \
    SHMEM_DECLARE_REDUCE(min, TYPE, NAME)
#define SHMEM_REDUCE_SUM_OF(TYPE, NAME)                                                            \
    SHMEM_DECLARE_REDUCE(sum, TYPE, NAME)                                                          \
    SHMEM_DECLARE_REDUCE(prod, TYPE, NAME)
SHMEM_BITS_TYPES(SHMEM_REDUCE_BITS_OF)
SHMEM_RMA_TYPES(SHMEM_REDUCE_ORDER_OF)
SHMEM_RMA_TYPES(SHMEM_REDUCE_SUM_OF)

/* Deprecated: collectives of active sets. Work arrays may be anything: nothing is done with them.
 */
#define SHMEM_SET int start, int log_stride, int size
void shmem_barrier(SHMEM_SET, long *psync);
void shmem_sync(SHMEM_SET, long *psync);
#define SHMEM_DECLARE_SET_COLLECTIVES(BITS)                                                        \
    void shmem_broadcast##BITS(void *dest, const void *source, size_t nelems, int root, SHMEM_SET, \
                               long *psync);                                                       \
    void shmem_collect##BITS(void *dest, const void *source, size_t nelems, SHMEM_SET,             \
                             long *psync);                                                         \
    void shmem_fcollect##BITS(void *dest, const void *source, size_t nelems, SHMEM_SET,            \
                              long *psync);                                                        \
    void shmem_alltoall##BITS(void *dest, const void *source, size_t nelems, SHMEM_SET,            \
                              long *psync);                                                        \
    void shmem_alltoalls##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,       \
                               size_t nelems, SHMEM_SET, long *psync);
SHMEM_DECLARE_SET_COLLECTIVES(32)
SHMEM_DECLARE_SET_COLLECTIVES(64)

#define SHMEM_DECLARE_TO_ALL(OP, TYPE, NAME)                                                       \
    void shmem_##NAME##_##OP##_to_all(TYPE *dest, const TYPE *source, int nreduce, SHMEM_SET,      \
                                      TYPE *pwrk, long *psync);
#define SHMEM_TO_ALL_BITS_OF(TYPE, NAME)                                                           \
    SHMEM_DECLARE_TO_ALL(and, TYPE, NAME)                                                          \
    SHMEM_DECLARE_TO_ALL(or, TYPE, NAME)                                                           \
    SHMEM_DECLARE_TO_ALL(xor, TYPE, NAME)
#define SHMEM_TO_ALL_ORDER_OF(TYPE, NAME)                                                          \
    SHMEM_DECLARE_TO_ALL(max, TYPE, NAME)                                                          \
    SHMEM_DECLARE_TO_ALL(min, TYPE, NAME)
#define SHMEM_TO_ALL_SUM_OF(TYPE, NAME)                                                            \
    SHMEM_DECLARE_TO_ALL(sum, TYPE, NAME)                                                          \
    SHMEM_DECLARE_TO_ALL(prod, TYPE, NAME)
SHMEM_SET_INTEGER_TYPES(SHMEM_TO_ALL_BITS_OF)
SHMEM_SET_INTEGER_TYPES(SHMEM_TO_ALL_ORDER_OF)
SHMEM_REAL_TYPES(SHMEM_TO_ALL_ORDER_OF)
SHMEM_SET_INTEGER_TYPES(SHMEM_TO_ALL_SUM_OF)
SHMEM_REAL_TYPES(SHMEM_TO_ALL_SUM_OF)

#if !defined(__cplusplus) || defined(__GNUC__) /* which knows C's complex numbers in C++ */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
SHMEM_COMPLEX_TYPES(SHMEM_REDUCE_SUM_OF)
SHMEM_COMPLEX_TYPES(SHMEM_TO_ALL_SUM_OF)
#pragma GCC diagnostic pop
#endif

#pragma GCC visibility pop
#ifdef __cplusplus
}
#elif __STDC_VERSION__ >= 201112L && !defined(SHMEM_IN_LIBRARY)
#include "shmem_generic.h"
#endif
#endif
