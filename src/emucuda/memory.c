/* memory.c: address ranges, allocations, and who may touch them.
 *
 * A device's memory is a range of addresses that nobody can touch, which programs get their
 * pointers from, and a second one of the same size, where the bytes are. Pinned and managed memory
 * is memory of the host: its bytes are where its address says.
 */
#include "emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, POISON = 0xe5, GIVE_BACK = 1 << 16 };

static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* Arenas ------------------------------------------------------------------------------------------
 */

bool emu_arena_open(emu_arena_t *arena, uint64_t bytes) {
    /* Twice the addresses: freed ones are used again late, and fragments don't matter. */
    uint64_t range = round_up(bytes, PAGE) * 2;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *user = mmap(NULL, range, PROT_NONE, flags, -1, 0);
    void *real = mmap(NULL, range, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (user == MAP_FAILED || real == MAP_FAILED) {
        fprintf(stderr, "emucuda: no addresses for a device of %llu bytes\n",
                (unsigned long long)bytes);
        if (user != MAP_FAILED) {
            munmap(user, range);
        }
        if (real != MAP_FAILED) {
            munmap(real, range);
        }
        return false;
    }
    /* A core of a program that fails would be as large as the devices. */
    (void)madvise(user, range, MADV_DONTDUMP);
    (void)madvise(real, range, MADV_DONTDUMP);
    *arena = (emu_arena_t){
        .user = (uintptr_t)user, .bytes = bytes, .shift = (char *)real - (char *)user};
    arena->gap = emu_grow(NULL, &arena->capacity, 1, sizeof(*arena->gap));
    arena->gap[0] = (emu_gap_t){.begin = arena->user, .bytes = range};
    arena->gaps = 1;
    return true;
}

static uint64_t arena_range(const emu_arena_t *arena) {
    return round_up(arena->bytes, PAGE) * 2;
}

bool emu_arena_has(const emu_arena_t *arena, uint64_t address) {
    return address - arena->user < arena_range(arena);
}

void emu_arena_close(emu_arena_t *arena) {
    if (arena->user) {
        munmap((void *)(uintptr_t)arena->user, arena_range(arena));
        munmap((void *)(uintptr_t)(arena->user + (uint64_t)arena->shift), arena_range(arena));
    }
    free(arena->gap);
    *arena = (emu_arena_t){.user = 0};
}

/* What an allocation takes: with a granule behind it that belongs to nobody. */
static uint64_t taken(uint64_t bytes) {
    return round_up(bytes, EMU_GRANULARITY) + EMU_GRANULARITY;
}

/* 0: there is no room. The search goes on where the last one ended. */
static uint64_t arena_take(emu_arena_t *arena, uint64_t bytes) {
    uint64_t need = taken(bytes), address = 0;
    if (round_up(bytes, EMU_GRANULARITY) > arena->bytes - arena->used) {
        return 0;
    }
    for (uint32_t i = 0; i < arena->gaps && !address; i++) {
        uint32_t at = (arena->last + i) % arena->gaps;
        emu_gap_t *gap = &arena->gap[at];
        if (gap->bytes >= need) {
            address = gap->begin;
            gap->begin += need;
            gap->bytes -= need;
            arena->last = at;
            if (gap->bytes == 0) {
                memmove(gap, gap + 1, (--arena->gaps - at) * sizeof(*gap));
                arena->last = 0;
            }
        }
    }
    if (address) {
        arena->used += round_up(bytes, EMU_GRANULARITY);
    }
    return address;
}

static void arena_give(emu_arena_t *arena, uint64_t address, uint64_t bytes) {
    uint64_t back = taken(bytes);
    arena->used -= round_up(bytes, EMU_GRANULARITY);
    if (back >= GIVE_BACK) {
        uint64_t first = round_up(address, PAGE), end = (address + back) / PAGE * PAGE;
        madvise((void *)(uintptr_t)(first + (uint64_t)arena->shift), end - first, MADV_DONTNEED);
    }
    uint32_t at = 0;
    while (at < arena->gaps && arena->gap[at].begin < address) {
        at++;
    }
    bool joins_before = at > 0 && arena->gap[at - 1].begin + arena->gap[at - 1].bytes == address;
    bool joins_behind = at < arena->gaps && address + back == arena->gap[at].begin;
    if (joins_before) {
        arena->gap[at - 1].bytes += back + (joins_behind ? arena->gap[at].bytes : 0);
        if (joins_behind) {
            memmove(&arena->gap[at], &arena->gap[at + 1],
                    (--arena->gaps - at) * sizeof(*arena->gap));
            arena->last = 0;
        }
    } else if (joins_behind) {
        arena->gap[at].begin = address;
        arena->gap[at].bytes += back;
    } else {
        arena->gap = emu_grow(arena->gap, &arena->capacity, arena->gaps + 1, sizeof(*arena->gap));
        memmove(&arena->gap[at + 1], &arena->gap[at], (arena->gaps++ - at) * sizeof(*arena->gap));
        arena->gap[at] = (emu_gap_t){.begin = address, .bytes = back};
    }
}

void *emu_bytes_at(uint64_t address) {
    for (int d = 0; d < emu.config.devices; d++) {
        const emu_arena_t *arena = &emu.device[d].arena;
        if (emu_arena_has(arena, address)) {
            return (void *)(uintptr_t)(address + (uint64_t)arena->shift);
        }
    }
    return (void *)(uintptr_t)address;
}

/* Allocations -------------------------------------------------------------------------------------
 */

/* The first of those listed that begins behind address. */
static uint32_t find_behind(uint64_t address) {
    uint32_t low = 0, high = emu.allocations;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (emu.allocation[middle]->base <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

emu_allocation_t *emu_allocation_at(uint64_t address) {
    uint32_t behind = find_behind(address);
    if (behind == 0) {
        return NULL;
    }
    emu_allocation_t *allocation = emu.allocation[behind - 1];
    return address - allocation->base < allocation->bytes ? allocation : NULL;
}

emu_allocation_t *emu_allocation_list(uint64_t base, uint64_t bytes, emu_memory_kind_t kind,
                                      int device, CUcontext context) {
    emu_allocation_t *allocation = emu_alloc(1, sizeof(*allocation));
    *allocation = (emu_allocation_t){.base = base,
                                     .bytes = bytes,
                                     .kind = kind,
                                     .device = device,
                                     .context = context,
                                     .id = ++emu.allocation_ids,
                                     .alive = true,
                                     .listed = true};
    uint32_t at = find_behind(base);
    emu.allocation = emu_grow(emu.allocation, &emu.allocation_capacity, emu.allocations + 1,
                              sizeof(*emu.allocation));
    memmove(&emu.allocation[at + 1], &emu.allocation[at],
            (emu.allocations++ - at) * sizeof(*emu.allocation));
    emu.allocation[at] = allocation;
    return allocation;
}

static bool is_device(const emu_allocation_t *allocation) {
    return allocation->kind == EMU_DEVICE_MEMORY || allocation->kind == EMU_POOL_MEMORY;
}

emu_allocation_t *emu_allocate(int device, CUcontext context, emu_memory_kind_t kind,
                               uint64_t bytes) {
    uint64_t base;
    if (kind == EMU_DEVICE_MEMORY || kind == EMU_POOL_MEMORY) {
        base = arena_take(&emu.device[device].arena, bytes);
    } else {
        base = (uintptr_t)aligned_alloc(PAGE, round_up(bytes, PAGE));
    }
    if (!base) {
        return NULL;
    }
    memset(emu_bytes_at(base), POISON, bytes);
    return emu_allocation_list(base, bytes, kind, device, context);
}

/* Gives back what nobody can name or touch any more. */
static void release_unused(emu_allocation_t *allocation) {
    if (allocation->listed || allocation->alive || allocation->pending > 0) {
        return;
    }
    if (is_device(allocation)) {
        arena_give(&emu.device[allocation->device].arena, allocation->base, allocation->bytes);
    } else if (allocation->kind != EMU_REGISTERED_MEMORY) {
        free((void *)(uintptr_t)allocation->base);
    }
    emu_shadow_free(&allocation->shadow);
    free(allocation);
}

void emu_allocation_unlist(emu_allocation_t *allocation) {
    if (allocation->listed) {
        uint32_t at = find_behind(allocation->base) - 1;
        memmove(&emu.allocation[at], &emu.allocation[at + 1],
                (--emu.allocations - at) * sizeof(*emu.allocation));
        allocation->listed = false;
        release_unused(allocation);
    }
}

void emu_allocation_end(emu_allocation_t *allocation) {
    if (allocation->alive) {
        allocation->alive = false;
        release_unused(allocation);
    }
}

void emu_allocation_drop(emu_allocation_t *allocation) {
    allocation->pending--;
    release_unused(allocation);
}

void emu_allocations_of(CUcontext context, bool leaked) {
    for (uint32_t i = emu.allocations; i-- > 0;) {
        emu_allocation_t *allocation = emu.allocation[i];
        if (allocation->context != context) {
            continue;
        }
        if (leaked && !allocation->module) {
            emu_find(HEDDLE_EMUCUDA_LEAK,
                     "%llu bytes of memory at 0x%llx when their context was destroyed",
                     (unsigned long long)allocation->bytes, (unsigned long long)allocation->base);
        }
        if (allocation->kind == EMU_POOL_MEMORY && allocation->alive) {
            emu_pool_used(allocation, false);
        }
        allocation->pending++; /* until the end of this */
        emu_allocation_unlist(allocation);
        emu_allocation_end(allocation);
        emu_allocation_drop(allocation);
        i = i < emu.allocations ? i : emu.allocations;
    }
}

bool emu_reaches(CUcontext context, const emu_allocation_t *allocation) {
    if (!is_device(allocation) || allocation->device == context->device) {
        return true;
    }
    uint64_t peers = allocation->kind == EMU_POOL_MEMORY ? allocation->pool->access : 0;
    return allocation->kind == EMU_POOL_MEMORY ? (peers >> context->device & 1) != 0
                                               : (context->peers >> allocation->device & 1) != 0;
}
