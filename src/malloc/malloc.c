/* malloc.c: the functions that a program calls: blocks of HD_LARGE bytes and more are the heap's,
 * if it has room; all others are the C library's, by names under which it is always there, so that
 * nothing is to be found first.
 *
 * operator new and what else allocates call these.
 */
#include "internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *block);

/* Bytes that fit in a block of the C library's. */
static size_t usable(void *block) {
    static size_t (*_Atomic next)(void *);
    /* relaxed, both: all who find it find the same */
    size_t (*find)(void *) = atomic_load_explicit(&next, memory_order_relaxed);
    if (!find) {
        *(void **)&find = dlsym(RTLD_NEXT, "malloc_usable_size");
        atomic_store_explicit(&next, find, memory_order_relaxed);
    }
    return find ? find(block) : 0;
}

static bool is_power(size_t n) {
    return n > 0 && (n & (n - 1)) == 0;
}

static void *take_aligned(size_t alignment, size_t bytes) {
    void *block =
        bytes >= HD_LARGE && is_power(alignment) ? hd_memory_take(bytes, alignment, false) : NULL;
    return block ? block : __libc_memalign(alignment, bytes);
}

EXPORT void *malloc(size_t bytes) {
    void *block = bytes >= HD_LARGE ? hd_memory_take(bytes, 1, false) : NULL;
    return block ? block : __libc_malloc(bytes);
}

EXPORT void free(void *block) {
    if (hd_memory_has(block)) {
        hd_memory_give(block);
    } else {
        __libc_free(block);
    }
}

EXPORT void *calloc(size_t n, size_t bytes) {
    size_t all;
    void *block = !__builtin_mul_overflow(n, bytes, &all) && all >= HD_LARGE
                      ? hd_memory_take(all, 1, true)
                      : NULL;
    return block ? block : __libc_calloc(n, bytes);
}

/* Another block with the first bytes of this one, which is freed. NULL: no memory, and it stays. */
static void *move(void *block, size_t had, size_t bytes) {
    void *other = malloc(bytes);
    if (other) {
        memcpy(other, block, had < bytes ? had : bytes);
        free(block);
    }
    return other;
}

EXPORT void *realloc(void *block, size_t bytes) {
    if (!block) {
        return malloc(bytes);
    }
    if (!hd_memory_has(block)) {
        size_t had = bytes >= HD_LARGE ? usable(block) : 0;
        void *other = had > 0 ? hd_memory_take(bytes, 1, false) : NULL;
        if (!other) {
            return __libc_realloc(block, bytes);
        }
        memcpy(other, block, had < bytes ? had : bytes);
        __libc_free(block);
        return other;
    }
    if (bytes == 0) {
        free(block);
        return NULL;
    }
    if (bytes >= HD_LARGE && hd_memory_resize(block, bytes)) {
        return block;
    }
    return move(block, hd_memory_bytes(block), bytes);
}

EXPORT void *memalign(size_t alignment, size_t bytes) {
    return take_aligned(alignment, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
    return take_aligned(alignment, bytes);
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t bytes) {
    int before = errno;
    if (!is_power(alignment) || alignment % sizeof(void *) != 0) {
        return EINVAL;
    }
    void *got = take_aligned(alignment, bytes);
    errno = before;
    if (!got) {
        return ENOMEM;
    }
    *block = got;
    return 0;
}

EXPORT void *valloc(size_t bytes) {
    return take_aligned(HD_UNIT, bytes);
}

EXPORT void *pvalloc(size_t bytes) {
    size_t whole = (bytes + HD_UNIT - 1) / HD_UNIT * HD_UNIT;
    if (whole < bytes) {
        errno = ENOMEM;
        return NULL;
    }
    return take_aligned(HD_UNIT, whole ? whole : HD_UNIT);
}

EXPORT size_t malloc_usable_size(void *block) {
    if (!block) {
        return 0;
    }
    return hd_memory_has(block) ? hd_memory_bytes(block) : usable(block);
}
