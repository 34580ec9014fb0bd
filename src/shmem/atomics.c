/* atomics.c: atomic operations on other PEs' memory are C11's, on objects that programs declare
 * plainly: all types of the lists are as wide when _Atomic.
 *
 * Their order is acquire and release: OpenSHMEM promises less, but a program may pass a turn by
 * them (a lock of its own), and on processors of today it costs nothing beside the operation.
 */
#include "pe.h"

/* The object at PE pe. */
#define THERE(TYPE, CONTEXT, ADDRESS) ((_Atomic(TYPE) *)remote(CONTEXT, ADDRESS, pe, __func__))

#define DEFINE_EXTENDED(TYPE, NAME, PRE, CTX, CONTEXT)                                             \
    TYPE PRE##NAME##_atomic_fetch(CTX const TYPE *source, int pe) {                                \
        return atomic_load_explicit(THERE(TYPE, CONTEXT, source), memory_order_acquire);           \
    }                                                                                              \
    void PRE##NAME##_atomic_set(CTX TYPE *dest, TYPE value, int pe) {                              \
        atomic_store_explicit(THERE(TYPE, CONTEXT, dest), value, memory_order_release);            \
    }                                                                                              \
    TYPE PRE##NAME##_atomic_swap(CTX TYPE *dest, TYPE value, int pe) {                             \
        return atomic_exchange_explicit(THERE(TYPE, CONTEXT, dest), value, memory_order_acq_rel);  \
    }                                                                                              \
    void PRE##NAME##_atomic_fetch_nbi(CTX TYPE *fetch, const TYPE *source, int pe) {               \
        *fetch = atomic_load_explicit(THERE(TYPE, CONTEXT, source), memory_order_acquire);         \
    }                                                                                              \
    void PRE##NAME##_atomic_swap_nbi(CTX TYPE *fetch, TYPE *dest, TYPE value, int pe) {            \
        *fetch =                                                                                   \
            atomic_exchange_explicit(THERE(TYPE, CONTEXT, dest), value, memory_order_acq_rel);     \
    }
#define DEFINE_ATOMIC(TYPE, NAME, PRE, CTX, CONTEXT)                                               \
    TYPE PRE##NAME##_atomic_compare_swap(CTX TYPE *dest, TYPE cond, TYPE value, int pe) {          \
        atomic_compare_exchange_strong_explicit(THERE(TYPE, CONTEXT, dest), &cond, value,          \
                                                memory_order_acq_rel, memory_order_acquire);       \
        return cond;                                                                               \
    }                                                                                              \
    void PRE##NAME##_atomic_compare_swap_nbi(CTX TYPE *fetch, TYPE *dest, TYPE cond, TYPE value,   \
                                             int pe) {                                             \
        atomic_compare_exchange_strong_explicit(THERE(TYPE, CONTEXT, dest), &cond, value,          \
                                                memory_order_acq_rel, memory_order_acquire);       \
        *fetch = cond;                                                                             \
    }                                                                                              \
    void PRE##NAME##_atomic_inc(CTX TYPE *dest, int pe) {                                          \
        atomic_fetch_add_explicit(THERE(TYPE, CONTEXT, dest), 1, memory_order_acq_rel);            \
    }                                                                                              \
    TYPE PRE##NAME##_atomic_fetch_inc(CTX TYPE *dest, int pe) {                                    \
        return atomic_fetch_add_explicit(THERE(TYPE, CONTEXT, dest), 1, memory_order_acq_rel);     \
    }                                                                                              \
    void PRE##NAME##_atomic_fetch_inc_nbi(CTX TYPE *fetch, TYPE *dest, int pe) {                   \
        *fetch = atomic_fetch_add_explicit(THERE(TYPE, CONTEXT, dest), 1, memory_order_acq_rel);   \
    }
#define DEFINE_OP(OP, TYPE, NAME, PRE, CTX, CONTEXT)                                               \
    void PRE##NAME##_atomic_##OP(CTX TYPE *dest, TYPE value, int pe) {                             \
        atomic_fetch_##OP##_explicit(THERE(TYPE, CONTEXT, dest), value, memory_order_acq_rel);     \
    }                                                                                              \
    TYPE PRE##NAME##_atomic_fetch_##OP(CTX TYPE *dest, TYPE value, int pe) {                       \
        return atomic_fetch_##OP##_explicit(THERE(TYPE, CONTEXT, dest), value,                     \
                                            memory_order_acq_rel);                                 \
    }                                                                                              \
    void PRE##NAME##_atomic_fetch_##OP##_nbi(CTX TYPE *fetch, TYPE *dest, TYPE value, int pe) {    \
        *fetch =                                                                                   \
            atomic_fetch_##OP##_explicit(THERE(TYPE, CONTEXT, dest), value, memory_order_acq_rel); \
    }

#define DEFINE_EXTENDED_OF(TYPE, NAME)                                                             \
    _Static_assert(sizeof(_Atomic(TYPE)) == sizeof(TYPE),                                          \
                   "an atomic is as wide as what it is of");                                       \
    DEFINE_EXTENDED(TYPE, NAME, shmem_, , SHMEM_CTX_DEFAULT)                                       \
    DEFINE_EXTENDED(TYPE, NAME, shmem_ctx_, SHMEM_WITH, ctx)
#define DEFINE_ATOMIC_OF(TYPE, NAME)                                                               \
    DEFINE_ATOMIC(TYPE, NAME, shmem_, , SHMEM_CTX_DEFAULT)                                         \
    DEFINE_ATOMIC(TYPE, NAME, shmem_ctx_, SHMEM_WITH, ctx)                                         \
    DEFINE_OP(add, TYPE, NAME, shmem_, , SHMEM_CTX_DEFAULT)                                        \
    DEFINE_OP(add, TYPE, NAME, shmem_ctx_, SHMEM_WITH, ctx)
#define DEFINE_BITS_OF(TYPE, NAME)                                                                 \
    DEFINE_OP(and, TYPE, NAME, shmem_, , SHMEM_CTX_DEFAULT)                                        \
    DEFINE_OP(and, TYPE, NAME, shmem_ctx_, SHMEM_WITH, ctx)                                        \
    DEFINE_OP(or, TYPE, NAME, shmem_, , SHMEM_CTX_DEFAULT)                                         \
    DEFINE_OP(or, TYPE, NAME, shmem_ctx_, SHMEM_WITH, ctx)                                         \
    DEFINE_OP(xor, TYPE, NAME, shmem_, , SHMEM_CTX_DEFAULT)                                        \
    DEFINE_OP(xor, TYPE, NAME, shmem_ctx_, SHMEM_WITH, ctx)
SHMEM_ATOMIC_EXTENDED_TYPES(DEFINE_EXTENDED_OF)
SHMEM_ATOMIC_TYPES(DEFINE_ATOMIC_OF)
SHMEM_ATOMIC_BITS_TYPES(DEFINE_BITS_OF)

/* Deprecated names. */
#define DEFINE_OLD_EXTENDED_OF(TYPE, NAME)                                                         \
    TYPE shmem_##NAME##_fetch(const TYPE *source, int pe) {                                        \
        return shmem_##NAME##_atomic_fetch(source, pe);                                            \
    }                                                                                              \
    void shmem_##NAME##_set(TYPE *dest, TYPE value, int pe) {                                      \
        shmem_##NAME##_atomic_set(dest, value, pe);                                                \
    }                                                                                              \
    TYPE shmem_##NAME##_swap(TYPE *dest, TYPE value, int pe) {                                     \
        return shmem_##NAME##_atomic_swap(dest, value, pe);                                        \
    }
#define DEFINE_OLD_OF(TYPE, NAME)                                                                  \
    TYPE shmem_##NAME##_cswap(TYPE *dest, TYPE cond, TYPE value, int pe) {                         \
        return shmem_##NAME##_atomic_compare_swap(dest, cond, value, pe);                          \
    }                                                                                              \
    TYPE shmem_##NAME##_finc(TYPE *dest, int pe) {                                                 \
        return shmem_##NAME##_atomic_fetch_inc(dest, pe);                                          \
    }                                                                                              \
    TYPE shmem_##NAME##_fadd(TYPE *dest, TYPE value, int pe) {                                     \
        return shmem_##NAME##_atomic_fetch_add(dest, value, pe);                                   \
    }                                                                                              \
    void shmem_##NAME##_inc(TYPE *dest, int pe) {                                                  \
        shmem_##NAME##_atomic_inc(dest, pe);                                                       \
    }                                                                                              \
    void shmem_##NAME##_add(TYPE *dest, TYPE value, int pe) {                                      \
        shmem_##NAME##_atomic_add(dest, value, pe);                                                \
    }
SHMEM_OLD_ATOMIC_EXTENDED_TYPES(DEFINE_OLD_EXTENDED_OF)
SHMEM_OLD_ATOMIC_TYPES(DEFINE_OLD_OF)
