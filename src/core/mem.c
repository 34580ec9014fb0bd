/*
 * Memory: see mem.h.
 *
 * Blocks for one NUMA node are anonymous mappings: they are zero without being touched, and the
 * kernel's placement policy works on whole pages. A header just below the block, in a page of its
 * own, remembers how much to unmap.
 */
#define _GNU_SOURCE
#include "core/mem.h"
#include "core/debug.h"

#include <dlfcn.h>
#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/log.h"

enum { LOCAL_MIN = 64 * 1024, MAX_NODES = 1024 };

static const uint64_t local_magic = 0x68642d6c6f63616cu;

typedef struct local_header {
    uint64_t magic;
    size_t mapped; /* bytes of the mapping, header page included */
} local_header_t;

/* Bytes; 0: not asked yet. relaxed: every thread gets the same answer */
static _Atomic size_t known_page;

static size_t page_size(void) {
    size_t page = atomic_load_explicit(&known_page, memory_order_relaxed);

    if (page == 0) {
        long answer = sysconf(_SC_PAGESIZE);
        page = answer > 0 ? (size_t)answer : 4096;
        atomic_store_explicit(&known_page, page, memory_order_relaxed);
    }
    return page;
}

#ifdef HD_TEST
void hd_pages_are(size_t bytes) {
    atomic_store_explicit(&known_page, bytes, memory_order_relaxed); /* a test knob */
}

static atomic_long allocations_left = -1;

void hd_alloc_fail_after(long n) {
    atomic_store_explicit(&allocations_left, n < 0 ? -1 : n,
                          memory_order_relaxed); /* a test knob */
}

static bool allocation_fails(void) {
    /* relaxed: only the count matters */
    long left = atomic_load_explicit(&allocations_left, memory_order_relaxed);

    while (left > 0 &&
           !atomic_compare_exchange_weak_explicit(&allocations_left, &left, left - 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    return left == 0;
}
#else
static bool allocation_fails(void) {
    return false;
}
#endif

/* bytes rounded up to a multiple of align (a power of two); 0 if that overflows. */
static size_t padded(size_t bytes, size_t align) {
    return bytes > SIZE_MAX - (align - 1) ? 0 : (bytes + align - 1) & ~(align - 1);
}

void *hd_alloc(size_t align, size_t bytes) {
    hd_assert(align > 0 && (align & (align - 1)) == 0);
    size_t alignment = align < sizeof(void *) ? sizeof(void *) : align;
    size_t size = padded(bytes, alignment);
    void *block = NULL;

    if (size == 0 || allocation_fails() || posix_memalign(&block, alignment, size) != 0) {
        return NULL;
    }
    return memset(block, 0, size);
}

void hd_free(void *block) {
    free(block);
}

/* libnuma, where there is one: without it memory lies where it is touched first. */
static long (*numa_mbind)(void *at, unsigned long bytes, int mode, const unsigned long *mask,
                          unsigned long max_node, unsigned flags);
static bool has_nodes; /* several of them */

void hd_alloc_find_nodes(void) {
    void *library = dlopen("libnuma.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        hd_info("no libnuma.so.1: memory is not placed on NUMA nodes");
        return;
    }
    __typeof__(&numa_available) available;
    __typeof__(&numa_max_node) max_node;
    *(void **)&available = dlsym(library, "numa_available");
    *(void **)&max_node = dlsym(library, "numa_max_node");
    *(void **)&numa_mbind = dlsym(library, "mbind");
    has_nodes = available && max_node && numa_mbind && available() >= 0 && max_node() > 0;
}

/* Prefers, not binds: a full node must cost speed, not the process. */
static void prefer_node(void *block, size_t bytes, int node) {
    enum { WORD_BITS = 8 * sizeof(unsigned long) };
    unsigned long mask[MAX_NODES / WORD_BITS] = {0};

    if (node >= MAX_NODES) {
        return;
    }
    mask[(unsigned)node / WORD_BITS] = 1ul << ((unsigned)node % WORD_BITS);
    if (numa_mbind(block, bytes, MPOL_PREFERRED, mask, MAX_NODES + 1, 0) != 0) {
        hd_debug("can't place %zu bytes on NUMA node %d: %s", bytes, node, strerror(errno));
    }
}

void *hd_alloc_local(size_t bytes, int numa_node) {
    size_t page = page_size(), size = padded(bytes, page);

    if (size == 0 || size > SIZE_MAX - page || allocation_fails()) {
        return NULL;
    }
    char *mapping =
        mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return NULL;
    }
    char *block = mapping + page;
    if (numa_node >= 0 && bytes >= LOCAL_MIN && has_nodes) {
        prefer_node(block, size, numa_node);
    }
    local_header_t *header = (local_header_t *)(void *)(block - sizeof(*header));
    *header = (local_header_t){.magic = local_magic, .mapped = size + page};
    return block;
}

void hd_free_local(void *block) {
    if (block == NULL) {
        return;
    }
    local_header_t *header = (local_header_t *)(void *)((char *)block - sizeof(*header));
    if (header->magic != local_magic) {
        hd_fatal("%p is no block of hd_alloc_local", block);
        abort(); /* memory is corrupt or freed twice: nothing after this can be trusted */
    }
    munmap((char *)block - page_size(), header->mapped);
}

void *hd_alloc_part(size_t bytes) {
    return bytes >= LOCAL_MIN ? hd_alloc_local(bytes, -1) : hd_alloc(HD_LINE_PAIR, bytes);
}

void hd_free_part(void *block, size_t bytes) {
    if (bytes >= LOCAL_MIN) {
        hd_free_local(block);
    } else {
        hd_free(block);
    }
}
