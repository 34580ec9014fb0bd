/* heap.c: the symmetric heap. Every PE keeps a list of the blocks of its own heap, free ones
 * included, and gives out the first that fits. PEs call in the same order with the same sizes, so
 * their lists are equal and objects have the same offset everywhere, without a word exchanged.
 * Lists are not in the heap: what a program overwrites there does not break them.
 */
#include "job.h"
#include "pe.h"

#include <stdlib.h>
#include <string.h>

/* In the order of offsets, without gaps; no two free neighbours. */
struct block {
    size_t offset;
    size_t bytes;
    bool used;
    struct block *next;
    struct block *before;
};

/* A cache line: objects of different PEs' interest do not share one. Larger than any type's
 * alignment. */
static const size_t unit = 64;

void heap_begin(pe_t *pe) {
    pe->blocks = calloc(1, sizeof(block_t));
    if (!pe->blocks) {
        fail("shmem_init", "no memory");
    }
    pe->blocks->bytes = the_world.heap_bytes;
}

void heap_end(pe_t *pe) {
    for (block_t *block = pe->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    pe->blocks = NULL;
}

/* Cuts a block; the second part is free. */
static void cut(block_t *block, size_t bytes) {
    if (bytes == block->bytes) {
        return;
    }
    block_t *rest = malloc(sizeof(*rest));
    if (!rest) {
        fail("shmem_malloc", "no memory");
    }
    *rest = (block_t){block->offset + bytes, block->bytes - bytes, false, block->next, block};
    if (rest->next) {
        rest->next->before = rest;
    }
    block->next = rest;
    block->bytes = bytes;
}

/* Adds the next block to this one. */
static void unite(block_t *block) {
    block_t *next = block->next;
    block->bytes += next->bytes;
    block->next = next->next;
    if (block->next) {
        block->next->before = block;
    }
    free(next);
}

static void release(block_t *block) {
    block->used = false;
    if (block->next && !block->next->used) {
        unite(block);
    }
    if (block->before && !block->before->used) {
        unite(block->before);
    }
}

static size_t in_units(size_t bytes) {
    return bytes > SIZE_MAX - unit ? SIZE_MAX - unit + 1 : (bytes + unit - 1) & ~(unit - 1);
}

/* NULL: no free block is large enough. */
static block_t *take(size_t alignment, size_t bytes) {
    for (block_t *block = this_pe->blocks; block; block = block->next) {
        size_t skip = (0 - block->offset) & (alignment - 1);
        if (block->used || block->bytes < skip || block->bytes - skip < bytes) {
            continue;
        }
        if (skip > 0) {
            cut(block, skip);
            block = block->next;
        }
        cut(block, bytes);
        block->used = true;
        return block;
    }
    return NULL;
}

/* At the first that fails, and never again. All PEs allocate alike: the one that comes first says
 * it. */
static void say_full(const char *call, size_t bytes) {
    size_t unused = 0, largest = 0;
    /* relaxed: only decides who says it */
    if (atomic_exchange_explicit(&the_job->is_full, true, memory_order_relaxed)) {
        return;
    }
    for (const block_t *block = this_pe->blocks; block; block = block->next) {
        unused += block->used ? 0 : block->bytes;
        largest = block->used || block->bytes < largest ? largest : block->bytes;
    }
    tell(call,
         "no room for %zu bytes in a symmetric heap of %zu, of which %zu are free, at most %zu "
         "in one piece: SHMEM_SYMMETRIC_SIZE enlarges it",
         bytes, the_world.heap_bytes, unused, largest);
}

static block_t *block_of(const void *ptr, const char *call) {
    size_t offset = (size_t)((const char *)ptr - this_pe->heap);
    for (block_t *block = this_pe->blocks; block; block = block->next) {
        if (block->used && block->offset == offset) {
            return block;
        }
    }
    fail(call, "%p was not allocated from the symmetric heap, or is free", ptr);
}

static void *allocate(size_t alignment, size_t bytes, bool zero, const char *call) {
    if (bytes == 0 || alignment > HEAP_ALIGNMENT || (alignment & (alignment - 1)) != 0) {
        return NULL;
    }
    block_t *block = take(alignment < unit ? unit : alignment, in_units(bytes));
    void *ptr = block ? this_pe->heap + block->offset : NULL;
    if (!ptr) {
        say_full(call, bytes);
    } else if (zero) {
        memset(ptr, 0, bytes);
    }
    shmem_barrier_all();
    return ptr;
}

void *shmem_malloc(size_t size) {
    return allocate(unit, size, false, __func__);
}

void *shmem_malloc_with_hints(size_t size, long hints) {
    (void)hints; /* all memory is good for atomics and signals */
    return allocate(unit, size, false, __func__);
}

void *shmem_calloc(size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL
                                                       : allocate(unit, bytes, true, __func__);
}

void *shmem_align(size_t alignment, size_t size) {
    return allocate(alignment, size, false, __func__);
}

void shmem_free(void *ptr) {
    if (ptr) {
        shmem_barrier_all(); /* others may still put there */
        release(block_of(ptr, __func__));
    }
}

/* Grows into the next block if that is free and large enough, or moves. */
static void *resize(block_t *block, size_t bytes) {
    if (bytes <= block->bytes) {
        return this_pe->heap + block->offset;
    }
    if (block->next && !block->next->used && bytes - block->bytes <= block->next->bytes) {
        unite(block);
        cut(block, bytes);
        return this_pe->heap + block->offset;
    }
    block_t *other = take(unit, bytes);
    if (!other) {
        say_full("shmem_realloc", bytes);
        return NULL;
    }
    memcpy(this_pe->heap + other->offset, this_pe->heap + block->offset, block->bytes);
    release(block);
    return this_pe->heap + other->offset;
}

void *shmem_realloc(void *ptr, size_t size) {
    if (!ptr) {
        return shmem_malloc(size);
    }
    if (size == 0) {
        shmem_free(ptr);
        return NULL;
    }
    shmem_barrier_all();
    void *result = resize(block_of(ptr, __func__), in_units(size));
    shmem_barrier_all();
    return result;
}

/* Deprecated names. */
void *shmalloc(size_t size) {
    return shmem_malloc(size);
}

void *shmemalign(size_t alignment, size_t size) {
    return shmem_align(alignment, size);
}

void *shrealloc(void *ptr, size_t size) {
    return shmem_realloc(ptr, size);
}

void shfree(void *ptr) {
    shmem_free(ptr);
}
