/* rma.c: put and get. A PE's memory is this process's, so both are copies and complete at once.
 *
 * A block of up to 64 bytes is stored in words, each an atomic store with release order, for
 * another PE may wait for one of them to change and then read what was put before. Larger blocks
 * are copied plainly: whoever reads them has been told by a signal, a flag or a barrier.
 */
#include "pe.h"

#include <string.h>

enum { BLOCK_OF_WORDS = 64 };

/* The largest word of which the address and the length are multiples: 1, 2, 4 or 8 bytes. */
static size_t word_of(const void *address, size_t bytes) {
    size_t bits = (size_t)(uintptr_t)address | bytes | sizeof(uint64_t);
    return bits & (~bits + 1);
}

#define STORE_WORDS(WORD)                                                                          \
    for (size_t i = 0; i < bytes; i += sizeof(WORD)) {                                             \
        WORD word;                                                                                 \
        memcpy(&word, (const char *)source + i, sizeof(word));                                     \
        atomic_store_explicit((_Atomic WORD *)((char *)dest + i), word,                            \
                              memory_order_release); /* pairs with acquire in sync.c */            \
    }
#define LOAD_WORDS(WORD)                                                                           \
    for (size_t i = 0; i < bytes; i += sizeof(WORD)) {                                             \
        WORD word = atomic_load_explicit((_Atomic WORD *)((char *)(uintptr_t)source + i),          \
                                         memory_order_acquire); /* pairs with STORE_WORDS */       \
        memcpy((char *)dest + i, &word, sizeof(word));                                             \
    }
#define IN_WORDS(ADDRESS, WORDS)                                                                   \
    switch (bytes <= BLOCK_OF_WORDS ? word_of(ADDRESS, bytes) : 0) {                               \
    case 8:                                                                                        \
        WORDS(uint64_t) break;                                                                     \
    case 4:                                                                                        \
        WORDS(uint32_t) break;                                                                     \
    case 2:                                                                                        \
        WORDS(uint16_t) break;                                                                     \
    case 1:                                                                                        \
        WORDS(uint8_t) break;                                                                      \
    default:                                                                                       \
        memmove(dest, source, bytes);                                                              \
    }

static inline void store(void *dest, const void *source, size_t bytes) {
    IN_WORDS(dest, STORE_WORDS)
}

static inline void load(void *dest, const void *source, size_t bytes) {
    IN_WORDS(source, LOAD_WORDS)
}

static inline void put(shmem_ctx_t ctx, void *dest, const void *source, size_t bytes, int pe,
                       const char *call) {
    if (bytes > 0) { /* else addresses may be anything */
        store(remote(ctx, dest, pe, call), source, bytes);
    }
}

static inline void get(shmem_ctx_t ctx, void *dest, const void *source, size_t bytes, int pe,
                       const char *call) {
    if (bytes > 0) {
        load(dest, remote(ctx, source, pe, call), bytes);
    }
}

/* Strides are in elements, at the destination (dst) and the source (sst). */
static void iput(shmem_ctx_t ctx, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,
                 size_t n, size_t size, int pe, const char *call) {
    char *to = n > 0 ? remote(ctx, dest, pe, call) : NULL;
    for (size_t i = 0; i < n; i++) {
        store(to + (ptrdiff_t)(i * size) * dst, (const char *)source + (ptrdiff_t)(i * size) * sst,
              size);
    }
}

static void iget(shmem_ctx_t ctx, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,
                 size_t n, size_t size, int pe, const char *call) {
    const char *from = n > 0 ? remote(ctx, source, pe, call) : NULL;
    for (size_t i = 0; i < n; i++) {
        load((char *)dest + (ptrdiff_t)(i * size) * dst, from + (ptrdiff_t)(i * size) * sst, size);
    }
}

/* The signal comes after the block: whoever sees it sees the block. */
static void put_signal(shmem_ctx_t ctx, void *dest, const void *source, size_t bytes,
                       uint64_t *address, uint64_t signal, int op, int pe, const char *call) {
    put(ctx, dest, source, bytes, pe, call);
    _Atomic uint64_t *there = (_Atomic uint64_t *)remote(ctx, address, pe, call);
    if (op == SHMEM_SIGNAL_SET) {
        atomic_store_explicit(there, signal, memory_order_release); /* with acquire in sync.c */
    } else if (op == SHMEM_SIGNAL_ADD) {
        atomic_fetch_add_explicit(there, signal, memory_order_release);
    } else {
        fail(call, "sig_op is %d", op);
    }
}

#define DEFINE_RMA(TYPE, NAME, PRE, CTX, CONTEXT)                                                  \
    void PRE##NAME##_put(CTX TYPE *dest, const TYPE *source, size_t n, int pe) {                   \
        put(CONTEXT, dest, source, n * sizeof(TYPE), pe, __func__);                                \
    }                                                                                              \
    void PRE##NAME##_get(CTX TYPE *dest, const TYPE *source, size_t n, int pe) {                   \
        get(CONTEXT, dest, source, n * sizeof(TYPE), pe, __func__);                                \
    }                                                                                              \
    void PRE##NAME##_put_nbi(CTX TYPE *dest, const TYPE *source, size_t n, int pe) {               \
        put(CONTEXT, dest, source, n * sizeof(TYPE), pe, __func__);                                \
    }                                                                                              \
    void PRE##NAME##_get_nbi(CTX TYPE *dest, const TYPE *source, size_t n, int pe) {               \
        get(CONTEXT, dest, source, n * sizeof(TYPE), pe, __func__);                                \
    }                                                                                              \
    void PRE##NAME##_iput(CTX TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst,        \
                          size_t n, int pe) {                                                      \
        iput(CONTEXT, dest, source, dst, sst, n, sizeof(TYPE), pe, __func__);                      \
    }                                                                                              \
    void PRE##NAME##_iget(CTX TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst,        \
                          size_t n, int pe) {                                                      \
        iget(CONTEXT, dest, source, dst, sst, n, sizeof(TYPE), pe, __func__);                      \
    }                                                                                              \
    void PRE##NAME##_p(CTX TYPE *dest, TYPE value, int pe) {                                       \
        put(CONTEXT, dest, &value, sizeof(TYPE), pe, __func__);                                    \
    }                                                                                              \
    TYPE PRE##NAME##_g(CTX const TYPE *source, int pe) {                                           \
        TYPE value;                                                                                \
        get(CONTEXT, &value, source, sizeof(TYPE), pe, __func__);                                  \
        return value;                                                                              \
    }                                                                                              \
    void PRE##NAME##_put_signal(CTX TYPE *dest, const TYPE *source, size_t n, uint64_t *address,   \
                                uint64_t signal, int op, int pe) {                                 \
        put_signal(CONTEXT, dest, source, n * sizeof(TYPE), address, signal, op, pe, __func__);    \
    }                                                                                              \
    void PRE##NAME##_put_signal_nbi(CTX TYPE *dest, const TYPE *source, size_t n,                  \
                                    uint64_t *address, uint64_t signal, int op, int pe) {          \
        put_signal(CONTEXT, dest, source, n * sizeof(TYPE), address, signal, op, pe, __func__);    \
    }
#define DEFINE_RMA_OF(TYPE, NAME)                                                                  \
    DEFINE_RMA(TYPE, NAME, shmem_, , SHMEM_CTX_DEFAULT)                                            \
    DEFINE_RMA(TYPE, NAME, shmem_ctx_, SHMEM_WITH, ctx)
SHMEM_RMA_TYPES(DEFINE_RMA_OF)

#define DEFINE_BLOCK(SUFFIX, BYTES, PRE, CTX, CONTEXT)                                             \
    void PRE##put##SUFFIX(CTX void *dest, const void *source, size_t n, int pe) {                  \
        put(CONTEXT, dest, source, n *(BYTES), pe, __func__);                                      \
    }                                                                                              \
    void PRE##get##SUFFIX(CTX void *dest, const void *source, size_t n, int pe) {                  \
        get(CONTEXT, dest, source, n *(BYTES), pe, __func__);                                      \
    }                                                                                              \
    void PRE##put##SUFFIX##_nbi(CTX void *dest, const void *source, size_t n, int pe) {            \
        put(CONTEXT, dest, source, n *(BYTES), pe, __func__);                                      \
    }                                                                                              \
    void PRE##get##SUFFIX##_nbi(CTX void *dest, const void *source, size_t n, int pe) {            \
        get(CONTEXT, dest, source, n *(BYTES), pe, __func__);                                      \
    }                                                                                              \
    void PRE##put##SUFFIX##_signal(CTX void *dest, const void *source, size_t n,                   \
                                   uint64_t *address, uint64_t signal, int op, int pe) {           \
        put_signal(CONTEXT, dest, source, n *(BYTES), address, signal, op, pe, __func__);          \
    }                                                                                              \
    void PRE##put##SUFFIX##_signal_nbi(CTX void *dest, const void *source, size_t n,               \
                                       uint64_t *address, uint64_t signal, int op, int pe) {       \
        put_signal(CONTEXT, dest, source, n *(BYTES), address, signal, op, pe, __func__);          \
    }
#define DEFINE_STRIDED(SUFFIX, BYTES, PRE, CTX, CONTEXT)                                           \
    void PRE##iput##SUFFIX(CTX void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,       \
                           size_t n, int pe) {                                                     \
        iput(CONTEXT, dest, source, dst, sst, n, BYTES, pe, __func__);                             \
    }                                                                                              \
    void PRE##iget##SUFFIX(CTX void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,       \
                           size_t n, int pe) {                                                     \
        iget(CONTEXT, dest, source, dst, sst, n, BYTES, pe, __func__);                             \
    }
#define DEFINE_SIZED_OF(SUFFIX, BYTES)                                                             \
    DEFINE_BLOCK(SUFFIX, BYTES, shmem_, , SHMEM_CTX_DEFAULT)                                       \
    DEFINE_BLOCK(SUFFIX, BYTES, shmem_ctx_, SHMEM_WITH, ctx)                                       \
    DEFINE_STRIDED(SUFFIX, BYTES, shmem_, , SHMEM_CTX_DEFAULT)                                     \
    DEFINE_STRIDED(SUFFIX, BYTES, shmem_ctx_, SHMEM_WITH, ctx)
SHMEM_SIZES(DEFINE_SIZED_OF)
DEFINE_BLOCK(mem, 1, shmem_, , SHMEM_CTX_DEFAULT)
DEFINE_BLOCK(mem, 1, shmem_ctx_, SHMEM_WITH, ctx)
