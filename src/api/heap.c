/* heap.c: heddle_alloc and its like: memory out of a heap (node/heap.h), or private memory. Which
 * of the two a block is, its address tells.
 */
#include "api/api.h"
#include "core/config.h"
#include "node/heap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 * 1024 * 1024 };

bool hd_api_shares(void) {
    static _Atomic int32_t known; /* relaxed: 0: not yet; all who find out find the same */
    int32_t said = atomic_load_explicit(&known, memory_order_relaxed);
    if (!said) {
        hd_config_t *config;
        if (hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &config) != UCC_OK) {
            return false;
        }
        said = hd_config_bool(config, HD_CFG_LIB_NODE) ? 1 : -1;
        hd_config_release(config);
        atomic_store_explicit(&known, said, memory_order_relaxed);
    }
    return said > 0;
}

static void *alloc_private(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : bytes >= page ? page : HD_LINE_PAIR;
    void *memory = NULL;
    if (posix_memalign(&memory, alignment, bytes) != 0) {
        return NULL;
    }
    if (bytes >= HUGE_PAGE) {
        (void)madvise(memory, bytes / page * page, MADV_HUGEPAGE);
    }
    return memory;
}

static void *alloc(size_t bytes, uint64_t flags, bool near, const char *caller) {
    if (flags & ~(HEDDLE_ALLOC_NEAR | HEDDLE_ALLOC_TOUCH)) {
        hd_error("%s: flags %#llx do not exist", caller,
                 (unsigned long long)(flags & ~(HEDDLE_ALLOC_NEAR | HEDDLE_ALLOC_TOUCH)));
        return NULL;
    }
    bytes = bytes ? bytes : 1;
    void *memory = near || (flags & HEDDLE_ALLOC_NEAR) ? hd_heap_alloc(bytes) : NULL;
    if (!memory && !(flags & HEDDLE_ALLOC_NEAR)) {
        memory = alloc_private(bytes);
    }
    if (!memory) {
        hd_error("%s: no memory of %zu bytes%s", caller, bytes,
                 flags & HEDDLE_ALLOC_NEAR ? " that other processes can reach" : "");
    } else if (flags & HEDDLE_ALLOC_TOUCH) {
        memset(memory, 0, bytes);
    }
    return memory;
}

void *heddle_alloc(size_t bytes, uint64_t flags) {
    return alloc(bytes, flags, hd_api_shares(), __func__);
}

void *heddle_alloc_like(const heddle_ep_t *ep, size_t bytes, uint64_t flags) {
    if (!hd_api_is_ep(ep)) {
        hd_error("%s: ep is not an endpoint", __func__);
        return NULL;
    }
    const hd_group_t *group = ep->team->group;
    return alloc(bytes, flags, group && hd_group_spans_processes(group), __func__);
}

void heddle_free(void *memory) {
    if (memory && !hd_heap_free(memory)) {
        free(memory);
    }
}
