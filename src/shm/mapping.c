/* mapping.c: memory of a group that is mapped more than once, each time with a group of its own.
 *
 * What endpoints share lies in one piece of memory without a name (memfd). Each mapping of it has
 * it at an address of its own, followed by a page of private memory:
 *
 *     base                                                          base + bytes
 *     | charter | far bells | board | ... | boards of matching | hd_common_t | bell | own part
 *                                                                            ^ group
 *
 * So a hd_group_t lies across the end of what is shared: its first line, and hd_common_t before it,
 * are the same memory in all mappings, what follows is this mapping's, and all of it is as far from
 * the group's address as in a group that has private memory. Nothing shared is a pointer into this
 * memory: places are computed from the base, in the same order in each mapping (hd_mapping_place).
 *
 * Most of it is never touched, and costs address space alone.
 *
 * The mappings are of one process, for tests, or each is another process's. Then the first one's
 * memory is handed on as a descriptor, and everything there that others count on has been written
 * before that.
 */
#define _GNU_SOURCE
#include "node/segment.h"
#include "shm/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of all mappings together: a quarter of what a process can address. */
#define MOST_OF_ALL ((size_t)1 << 45)
#define MOST_OF_ONE ((size_t)1 << 36)
/* Among processes: a process may be in many teams. */
#define MOST_OF_ONE_OF_SEVERAL ((size_t)1 << 32)

static size_t page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t up(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

size_t hd_mapping_place(size_t *cursor, size_t bytes, size_t alignment) {
    size_t at = up(*cursor, alignment);
    *cursor = at + bytes;
    return at;
}

static size_t own_bytes(void) {
    return up(sizeof(hd_group_t), page_size());
}

/* Room for the shared bytes, and the group's own part behind them; NULL: no memory. What is to be
 * mapped over is closed: a program that locks all memory (mlockall) would have it made. */
static uint8_t *reserve(size_t bytes) {
    size_t all = bytes + own_bytes();
    uint8_t *base = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        return NULL;
    }
    if (mprotect(base + bytes, own_bytes(), PROT_READ | PROT_WRITE) != 0) {
        munmap(base, all);
        return NULL;
    }
    return base;
}

enum { OF_GROUP = HD_LINE }; /* bytes of a group that are shared */

static hd_group_t *group_at(uint8_t *base, size_t bytes) {
    return (hd_group_t *)(void *)(base + bytes - OF_GROUP);
}

/* What boards may have. */
static size_t limit_of(size_t bytes) {
    return bytes - OF_GROUP - sizeof(hd_common_t);
}

static void unmap(uint8_t *base, size_t bytes) {
    munmap(base, bytes + own_bytes());
}

/* Is there address space for n mappings? */
static bool has_room(size_t bytes, uint32_t n) {
    size_t all = n * (bytes + own_bytes());
    void *room = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room != MAP_FAILED && munmap(room, all) == 0;
}

/* Maps a segment behind which there is room for a group; NULL: no memory. */
static uint8_t *map(const hd_node_segment_t *segment) {
    void *at = NULL;
    uint8_t *base = reserve(segment->bytes);
    if (base && hd_segment_map(segment, base, &at) != UCC_OK) {
        unmap(base, segment->bytes);
        base = NULL;
    }
    return base;
}

/* Makes a segment of so many bytes, of which this process has n mappings, and maps it for the first
 * time; NULL: no memory; or there is none of any size: *refused. */
static uint8_t *make(size_t bytes, uint32_t n, hd_node_segment_t *segment, bool *refused) {
    if (bytes > hd_segment_most() || !has_room(bytes, n)) {
        return NULL;
    }
    ucc_status_t status = hd_segment_create(bytes, segment);
    *refused = status < 0 && status != UCC_ERR_NO_MEMORY;
    uint8_t *base = status == UCC_OK ? map(segment) : NULL;
    if (status == UCC_OK && !base) {
        hd_segment_close(segment);
    }
    return base;
}

static hd_charter_t *charter_at(uint8_t *base) {
    return (hd_charter_t *)(void *)base;
}

static hd_group_t *begin(uint8_t *base, size_t bytes, uint32_t n, uint32_t number) {
    hd_group_t *group = group_at(base, bytes);
    (void)madvise(base, bytes, MADV_DONTDUMP); /* a dump would have what was never touched, too */
    group->mapping =
        (hd_mapping_t){.base = base, .bytes = bytes, .n = n, .number = number, .fd = -1};
    group->charter = charter_at(base);
    /* they come next: see hd_mapping_first */
    hd_bell_is_far(&group->home.bell, (hd_far_bell_t *)(void *)(base + sizeof(hd_charter_t)), n,
                   number, bytes - OF_GROUP);
    return group;
}

size_t hd_mapping_first(uint32_t n) {
    return sizeof(hd_charter_t) + n * sizeof(hd_far_bell_t);
}

static bool can_be_far(void) {
    static _Atomic bool told; /* relaxed: twice does no harm */
    bool can = hd_park_init_far();
    if (!can && !atomic_exchange_explicit(&told, true, memory_order_relaxed)) {
        hd_warn("the system has no membarrier that reaches other processes, or forbids it: they "
                "share no memory");
    }
    return can;
}

hd_group_t *hd_mapping_create(uint32_t n, uint32_t number, bool by_processes, size_t least) {
    size_t bytes = up(least + sizeof(hd_common_t) + OF_GROUP, page_size());
    size_t most_of_one = by_processes ? MOST_OF_ONE_OF_SEVERAL : MOST_OF_ONE;
    size_t most = MOST_OF_ALL / n < most_of_one ? MOST_OF_ALL / n : most_of_one;
    hd_node_segment_t segment;
    uint32_t here = by_processes ? 1 : n; /* mappings of this process */
    uint8_t *base = NULL;
    bool refused = false;
    if (!can_be_far()) {
        return NULL;
    }
    /* What windows take grows with the square of the processes: boards get something beside it. */
    most = most > bytes + most / 4 ? most : bytes + most / 4;
    for (size_t spare = most > bytes ? most - bytes : 0; !base && !refused && spare > page_size();
         spare /= 4) {
        base = make(up(bytes + spare, page_size()), here, &segment, &refused);
    }
    base = base || refused ? base : make(bytes, here, &segment, &refused);
    if (!base) {
        if (by_processes) { /* they may have another way */
            bool limited = bytes > hd_segment_most();
            hd_warn("no memory of %zu bytes that %u processes can map%s", bytes, n,
                    limited ? ": the limit of a file's size (ulimit -f) is lower" : "");
        } else {
            hd_error("no memory of %zu bytes that can be mapped %u times", bytes, n);
        }
        return NULL;
    }
    hd_group_t *group = begin(base, segment.bytes, n, number);
    group->mapping.made = true;
    if (by_processes) {
        group->mapping.fd = segment.fd;
    } else {
        hd_segment_close(&segment);
    }
    return group;
}

hd_group_t *hd_mapping_of(const hd_node_segment_t *segment, uint32_t n, uint32_t number) {
    size_t bytes = segment->bytes, least = hd_mapping_first(n) + sizeof(hd_common_t) + OF_GROUP;
    hd_assert_lt(number, n);
    if (!can_be_far()) {
        return NULL;
    }
    uint8_t *base = bytes % page_size() == 0 && bytes >= least ? map(segment) : NULL;
    if (!base) {
        hd_info("%zu bytes of another process can't be mapped as a team's memory", bytes);
        return NULL;
    }
    if (charter_at(base)->mappings != n) {
        hd_info("memory of another process is no team's of %u processes", n);
        unmap(base, bytes);
        return NULL;
    }
    return begin(base, bytes, n, number);
}

bool hd_mapping_has(const hd_group_t *group, size_t least) {
    return least <= limit_of(group->mapping.bytes);
}

hd_group_t *hd_mapping_again(hd_group_t *first, uint32_t number) {
    const hd_mapping_t *of = &first->mapping;
    hd_assert(number > 0 && number < of->n);
    uint8_t *base = reserve(of->bytes);
    /* An old size of 0: maps it once more. The system's, not what UCX puts in front of it, which
     * knows no fixed address. */
    if (base && (uint8_t *)syscall(SYS_mremap, of->base, 0, of->bytes,
                                   MREMAP_MAYMOVE | MREMAP_FIXED, base) != base) {
        unmap(base, of->bytes);
        base = NULL;
    }
    if (!base) {
        hd_error("no memory for another mapping of %zu bytes: %s", of->bytes, strerror(errno));
        return NULL;
    }
    hd_group_t *group = begin(base, of->bytes, of->n, number);
    group->mapping.first = first;
    return group;
}

void hd_mapping_end(hd_group_t *group) {
    hd_mapping_t mapping = group->mapping;
    if (mapping.fd >= 0) {
        close(mapping.fd);
    }
    unmap(mapping.base, mapping.bytes);
    if (mapping.first) {
        hd_home_unpin(&mapping.first->home);
    }
}

void hd_mapping_init_mutex(pthread_mutex_t *mutex) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

uint8_t *hd_mapping_give(hd_group_t *group, size_t bytes) {
    const hd_mapping_t *mapping = &group->mapping;
    size_t size = up(bytes, HD_LINE_PAIR), limit = limit_of(mapping->bytes);
    /* relaxed: whose it is, is all that counts; what is there reads as zero */
    uint64_t at = atomic_load_explicit(&hd_common(group)->given_away, memory_order_relaxed);
    do {
        if (size > limit - at) {
            return NULL;
        }
    } while (!atomic_compare_exchange_weak_explicit(&hd_common(group)->given_away, &at, at + size,
                                                    memory_order_relaxed, memory_order_relaxed));
    return mapping->base + at;
}

bool hd_mapping_spares(const hd_group_t *group, size_t bytes) {
    size_t limit = limit_of(group->mapping.bytes), all = limit - group->windows_end;
    /* relaxed: a guess, which others may outrun by as much as they are given */
    uint64_t at = atomic_load_explicit(&hd_common(group)->given_away, memory_order_relaxed);
    return limit - at >= bytes && limit - at - bytes >= all / 2;
}

/* Copies what is there of so many bytes at `from`; where nothing is, it reads as zero. */
static void copy_there(uint8_t *to, const uint8_t *from, size_t bytes) {
    enum { PAGES = 256 };
    unsigned char there[PAGES];
    size_t page = page_size();
    for (size_t at = 0; at < bytes; at += page * PAGES) {
        size_t some = bytes - at < page * PAGES ? bytes - at : page * PAGES;
        bool known = mincore((void *)(uintptr_t)(from + at), some, there) == 0;
        for (size_t p = 0; p < some / page; p++) {
            if (!known || there[p] & 1) {
                memcpy(to + at + p * page, from + at + p * page, page);
            }
        }
    }
}

/* The parent's memory is the parent's: the child has a copy there, as of memory that was private;
 * but not of windows, which nobody looks at in a group that has failed. */
void hd_mapping_inherited(hd_group_t *group, size_t windows, size_t windows_end) {
    const hd_mapping_t *mapping = &group->mapping;
    size_t page = page_size(), bytes = mapping->bytes;
    /* relaxed: the child is alone */
    size_t used = atomic_load_explicit(&hd_common(group)->given_away, memory_order_relaxed);
    used = up(used, page) < bytes - page ? up(used, page) : bytes - page;
    uint8_t *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy != MAP_FAILED) {
        copy_there(copy, mapping->base, windows / page * page);
        copy_there(copy + up(windows_end, page), mapping->base + up(windows_end, page),
                   used - up(windows_end, page));
        copy_there(copy + bytes - page, mapping->base + bytes - page, page);
    }
    if (copy == MAP_FAILED ||
        (uint8_t *)syscall(SYS_mremap, copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                           mapping->base) != mapping->base) {
        hd_error("no memory for the copy of a team in a child process");
        _exit(1); /* it would write into the parent's team */
    }
}
