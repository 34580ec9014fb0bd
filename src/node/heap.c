/* heap.c: see heap.h. A heap is cut into PIECES, one after the other, each a block or free. They
 * are known by where they begin, in one array that is sorted by that and lies in private memory:
 * what another process writes into a heap is its users' loss alone. Two free pieces never touch.
 *
 * Blocks are few and large, so a search for a free piece walks the array, and a change of it moves
 * what comes behind.
 *
 * Everything is under one lock, but for look-ups (hd_heap_find).
 */
#include "node/heap.h"

#include "core/debug.h"
#include "core/fork.h"
#include "core/log.h"
#include "core/mem.h"
#include "malloc/memfd.h"
#include "malloc/seam.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* Bytes. A heap costs addresses in all processes that map it, and no memory before it is used. */
#define WORTH_GIVING_BACK                                                                          \
    ((size_t)1 << 20) /* of a block that is freed: its pages go to the system */

typedef struct piece {
    size_t at; /* it ends where the next one begins */
    bool used;
} piece_t;

typedef struct heap {
    uint8_t *base;
    size_t bytes;
    uint64_t name[2];
    int fd;
    piece_t *piece; /* NULL: another library's, which knows its blocks */
    uint32_t n, room;
} heap_t;

hd_heaps_t hd_heaps;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static heap_t heaps[HD_HEAPS]; /* of the same numbers as hd_heaps */
static hd_heap_view_t *views;
static bool told_none, has_asked;
static size_t hopeless = SIZE_MAX; /* for so many bytes, no heap could be had */
static hd_fork_hook_t fork_hook;

static size_t up(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

/* The lock is not held: hd_fork_guard. */
static void inherited(hd_fork_hook_t *self) {
    (void)self;
    /* relaxed, all: the child is alone */
    uint32_t n = atomic_load_explicit(&hd_heaps.n, memory_order_relaxed);
    for (uint32_t i = atomic_load_explicit(&hd_heaps.first, memory_order_relaxed); i < n; i++) {
        close(heaps[i].fd);
        heaps[i].fd = -1;
        if (!heaps[i].piece) { /* the child has its own there, and may adopt that */
            hd_heaps.at[i].bytes = 0;
            has_asked = false;
        }
        hd_free(heaps[i].piece);
    }
    atomic_store_explicit(&hd_heaps.first, n, memory_order_relaxed);
    for (hd_heap_view_t **at = &views; *at;) {
        hd_heap_view_t *view = *at;
        if (view->permit) { /* its users, who are inherited, drop it */
            view->base = NULL;
            *at = view->next;
        } else {
            at = &view->next;
        }
    }
}

/* Not under the lock: fork.h. */
static void watch_forks_once(void) {
    hd_fork_guard(&lock);
    hd_fork_watch(&fork_hook, inherited);
}

/* Before there is anything that a child inherits, whichever thread makes it. */
static void watch_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks_once);
}

/* --- making heaps ----------------------------------------------------------------------------- */

/* Maps the segment where huge pages could be. NULL: no memory (logged). */
static uint8_t *map(const hd_node_segment_t *segment) {
    size_t room = segment->bytes + HD_HUGE_PAGE;
    void *got,
        *where = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (where == MAP_FAILED) {
        return NULL;
    }
    uint8_t *begin = where, *base = (uint8_t *)up((uintptr_t)where, HD_HUGE_PAGE);
    uint8_t *end = base + segment->bytes;
    if (hd_segment_map(segment, base, &got) != UCC_OK) {
        munmap(where, room);
        return NULL;
    }
    if (base > begin) {
        munmap(begin, (size_t)(base - begin));
    }
    if (begin + room > end) {
        munmap(end, (size_t)(begin + room - end));
    }
    (void)madvise(base, segment->bytes, MADV_HUGEPAGE); /* where the system lets shared memory */
    (void)madvise(base, segment->bytes, MADV_DONTDUMP); /* a dump would touch all of it */
    return base;
}

/* Of the machine, with what it can swap out: a block of more would be had, and end its user. */
static size_t memory_of_machine(void) {
    struct sysinfo info;
    return sysinfo(&info) == 0 ? ((size_t)info.totalram + info.totalswap) * info.mem_unit
                               : SIZE_MAX;
}

/* A segment that has room for a block, smaller than wished for if need be, and where it is. Not OK:
 * NO_MEMORY: of that size; NO_RESOURCE: now; NOT_SUPPORTED: of any size. */
static ucc_status_t make_segment(size_t least, hd_node_segment_t *segment, uint8_t **where) {
    size_t enough = up(least, HD_HUGE_PAGE);
    size_t wished = hd_memfd_heap(); /* one is enough, unless a block needs more */
    if (enough > memory_of_machine()) {
        return UCC_ERR_NO_MEMORY;
    }
    for (size_t bytes = wished > enough ? wished : enough;;
         bytes = bytes / 4 > enough ? up(bytes / 4, HD_HUGE_PAGE) : enough) {
        ucc_status_t status = hd_segment_create(bytes, segment);
        *where = status == UCC_OK ? map(segment) : NULL;
        if (*where) {
            return UCC_OK;
        }
        hd_segment_close(segment);
        status = status == UCC_OK || bytes > hd_segment_most() ? UCC_ERR_NO_MEMORY : status;
        if (bytes == enough || status != UCC_ERR_NO_MEMORY) {
            return status;
        }
    }
}

static bool draw_name(uint64_t name[2]) {
    return getrandom(name, 2 * sizeof(*name), 0) == 2 * sizeof(*name) && (name[0] | name[1]) != 0;
}

/* The next heap: what is not its segment's is there. */
static void count(heap_t *heap, const hd_node_segment_t *segment) {
    uint32_t n = (uint32_t)(heap - heaps);
    heap->bytes = segment->bytes;
    heap->fd = segment->fd;
    hd_heaps.at[n].base = (uintptr_t)heap->base;
    hd_heaps.at[n].bytes = heap->bytes;
    /* release: the entry; pairs with hd_heap_find */
    atomic_store_explicit(&hd_heaps.n, n + 1, memory_order_release);
}

/* One more heap. Not OK: as make_segment. */
static ucc_status_t make_heap(size_t least, heap_t **made) {
    enum { PIECES = 64 };
    /* relaxed: written under the lock */
    uint32_t n = atomic_load_explicit(&hd_heaps.n, memory_order_relaxed);
    heap_t *heap = n < HD_HEAPS ? &heaps[n] : NULL;
    hd_node_segment_t segment;
    if (!heap) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    heap->piece = draw_name(heap->name) ? hd_alloc(HD_LINE, PIECES * sizeof(*heap->piece)) : NULL;
    ucc_status_t status =
        heap->piece ? make_segment(least, &segment, &heap->base) : UCC_ERR_NO_RESOURCE;
    if (status != UCC_OK) {
        hd_free(heap->piece);
        return status;
    }
    heap->room = PIECES;
    heap->n = 1; /* the first piece begins at 0, and is free */
    count(heap, &segment);
    hd_debug("a heap of %zu bytes at %p", heap->bytes, (void *)heap->base);
    *made = heap;
    return UCC_OK;
}

/* Under the lock. */
static void adopt(void) {
    hd_malloc_ask_fn *ask;
    hd_malloc_heap_t theirs;
    hd_node_segment_t segment;
    /* relaxed: written under the lock */
    uint32_t n = atomic_load_explicit(&hd_heaps.n, memory_order_relaxed);
    *(void **)&ask = dlsym(RTLD_DEFAULT, HD_MALLOC_ASK);
    if (!ask || n == HD_HEAPS || !draw_name(heaps[n].name)) {
        return;
    }
    int fd = ask(HD_MALLOC_VERSION, &theirs) == 0 ? fcntl(theirs.fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (fd < 0 || hd_segment_adopt(fd, theirs.bytes, &segment) != UCC_OK) {
        hd_info("libheddle_malloc, or libheddle_shmem, has no heap that others could map");
        return;
    }
    heaps[n].base = theirs.base;
    count(&heaps[n], &segment);
    hd_info("a heap of libheddle_malloc's, or libheddle_shmem's, of %zu bytes is at %p",
            theirs.bytes, theirs.base);
}

void hd_heap_adopt(void) {
    watch_forks();
    pthread_mutex_lock(&lock);
    if (!has_asked) {
        has_asked = true;
        adopt();
    }
    pthread_mutex_unlock(&lock);
}

/* --- pieces ----------------------------------------------------------------------------------- */

static size_t end_of(const heap_t *heap, uint32_t i) {
    return i + 1 < heap->n ? heap->piece[i + 1].at : heap->bytes;
}

/* Room for so many more; false: no memory. */
static bool make_room(heap_t *heap, uint32_t more) {
    if (heap->n + more <= heap->room) {
        return true;
    }
    piece_t *piece = hd_alloc(HD_LINE, 2 * (size_t)heap->room * sizeof(*piece));
    if (!piece) {
        return false;
    }
    memcpy(piece, heap->piece, heap->n * sizeof(*piece));
    hd_free(heap->piece);
    heap->piece = piece;
    heap->room *= 2;
    return true;
}

static void insert(heap_t *heap, uint32_t i, size_t at, bool used) {
    memmove(&heap->piece[i + 1], &heap->piece[i], (heap->n - i) * sizeof(piece_t));
    heap->piece[i] = (piece_t){.at = at, .used = used};
    heap->n++;
}

static void erase(heap_t *heap, uint32_t i) {
    heap->n--;
    memmove(&heap->piece[i], &heap->piece[i + 1], (heap->n - i) * sizeof(piece_t));
}

/* The block in the first free piece that has room for it; NULL: none has. */
static void *take(heap_t *heap, size_t bytes, size_t alignment) {
    for (uint32_t i = 0; i < heap->n; i++) {
        size_t begin = heap->piece[i].at, end = end_of(heap, i), at = up(begin, alignment);
        if (heap->piece[i].used || at > end || end - at < bytes) {
            continue;
        }
        if (!make_room(heap, 2)) {
            return NULL;
        }
        if (at > begin) {
            insert(heap, ++i, at, true);
        }
        heap->piece[i].used = true;
        if (at + bytes < end) {
            insert(heap, i + 1, at + bytes, false);
        }
        return heap->base + at;
    }
    return NULL;
}

/* The piece that begins there; heap->n: none does. */
static uint32_t piece_at(const heap_t *heap, size_t at) {
    uint32_t low = 0, high = heap->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (heap->piece[middle].at < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < heap->n && heap->piece[low].at == at ? low : heap->n;
}

static void give(heap_t *heap, uint32_t i) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t at = heap->piece[i].at, bytes = end_of(heap, i) - at;
    if (bytes >= WORTH_GIVING_BACK) { /* its pages; what reads there reads zeros */
        size_t begin = up(at, page), end = (at + bytes) / page * page;
        /* By the mapping: a program may have closed the descriptor, and has a file there now. */
        (void)madvise(heap->base + begin, end - begin, MADV_REMOVE);
    }
    heap->piece[i].used = false;
    if (i + 1 < heap->n && !heap->piece[i + 1].used) {
        erase(heap, i + 1);
    }
    if (i > 0 && !heap->piece[i - 1].used) {
        erase(heap, i);
    }
}

/* --- blocks ----------------------------------------------------------------------------------- */

static size_t alignment_of(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return bytes >= HD_HUGE_PAGE ? HD_HUGE_PAGE : bytes >= page ? page : HD_LINE_PAIR;
}

static void *alloc_locked(size_t bytes, size_t alignment) {
    /* relaxed: both are written under the lock */
    uint32_t i = atomic_load_explicit(&hd_heaps.first, memory_order_relaxed);
    uint32_t n = atomic_load_explicit(&hd_heaps.n, memory_order_relaxed);
    void *block = NULL;
    for (; !block && i < n; i++) {
        block = take(&heaps[i], bytes, alignment);
    }
    if (block || bytes >= hopeless) {
        return block;
    }
    heap_t *heap = NULL;
    ucc_status_t status = make_heap(bytes, &heap);
    if (status == UCC_ERR_NO_MEMORY || status == UCC_ERR_NOT_SUPPORTED) {
        hopeless = status == UCC_ERR_NO_MEMORY ? bytes : 0;
    }
    return status == UCC_OK ? take(heap, bytes, alignment) : NULL;
}

void *hd_heap_alloc(size_t bytes) {
    size_t alignment = alignment_of(bytes);
    if (bytes > SIZE_MAX / 4) {
        return NULL;
    }
    watch_forks();
    pthread_mutex_lock(&lock);
    void *block = alloc_locked(up(bytes ? bytes : 1, HD_LINE_PAIR), alignment);
    bool tells = !block && !told_none;
    told_none = told_none || !block;
    pthread_mutex_unlock(&lock);
    if (tells) {
        hd_info("no heap has room for %zu bytes, and no other one can be had", bytes);
    }
    return block;
}

bool hd_heap_has(const void *address) {
    /* acquire: pairs with make_heap */
    uint32_t n = atomic_load_explicit(&hd_heaps.n, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) {
        if ((uintptr_t)address - hd_heaps.at[i].base < hd_heaps.at[i].bytes) {
            return true;
        }
    }
    return false;
}

/* Is it another process's, mapped here? */
static bool is_in_view(const void *address) {
    pthread_mutex_lock(&lock);
    const hd_heap_view_t *view = views;
    while (view && (uintptr_t)address - (uintptr_t)view->base >= view->bytes) {
        view = view->next;
    }
    pthread_mutex_unlock(&lock);
    return view != NULL;
}

bool hd_heap_free(void *block) {
    size_t at;
    uint32_t number = hd_heap_find(block, &at);
    if (number == HD_HEAP_NONE && is_in_view(block)) {
        hd_error("%p is memory of another process, which alone can free it", block);
        return true;
    }
    if (number == HD_HEAP_NONE) {
        return hd_heap_has(block); /* the parent's stays as it is */
    }
    pthread_mutex_lock(&lock);
    heap_t *heap = &heaps[number];
    bool mine = heap->piece;
    uint32_t i = piece_at(heap, at);
    bool known = i < heap->n && heap->piece[i].used;
    if (known) {
        give(heap, i);
    }
    pthread_mutex_unlock(&lock);
    if (!mine) {
        return false;
    }
    if (!known) {
        hd_error("%p is not the beginning of a block of a heap", block);
    }
    return true;
}

/* --- other processes -------------------------------------------------------------------------- */

void hd_heap_name(uint32_t heap, uint64_t name[2]) {
    hd_assert_lt(heap, HD_HEAPS);
    memcpy(name, heaps[heap].name, sizeof(heaps[heap].name)); /* constant once it is counted */
}

bool hd_heap_segment(const uint64_t name[2], hd_node_segment_t *segment) {
    /* acquire: pairs with make_heap; relaxed: see hd_heap_find */
    uint32_t n = atomic_load_explicit(&hd_heaps.n, memory_order_acquire);
    uint32_t i = atomic_load_explicit(&hd_heaps.first, memory_order_relaxed);
    while (i < n && memcmp(heaps[i].name, name, sizeof(heaps[i].name)) != 0) {
        i++;
    }
    if (i < n) {
        *segment = (hd_node_segment_t){.fd = heaps[i].fd, .bytes = heaps[i].bytes};
    }
    return i < n;
}

/* Under the lock. */
static hd_heap_view_t *use(const uint64_t name[2]) {
    hd_heap_view_t *view = views;
    while (view && memcmp(view->name, name, sizeof(view->name)) != 0) {
        view = view->next;
    }
    if (view) {
        view->uses++;
    }
    return view;
}

hd_heap_view_t *hd_heap_view_find(const uint64_t name[2]) {
    pthread_mutex_lock(&lock);
    hd_heap_view_t *view = use(name);
    pthread_mutex_unlock(&lock);
    return view;
}

static hd_heap_view_t *make_view(const uint64_t name[2], const hd_node_segment_t *segment) {
    hd_heap_view_t *view = hd_alloc(HD_LINE, sizeof(*view));
    uint8_t *base = view ? map(segment) : NULL;
    if (!base) {
        hd_free(view);
        return NULL;
    }
    *view = (hd_heap_view_t){.base = base, .bytes = segment->bytes, .uses = 1, .next = views};
    memcpy(view->name, name, sizeof(view->name));
    views = view;
    return view;
}

hd_heap_view_t *hd_heap_view_map(const uint64_t name[2], const hd_node_segment_t *segment) {
    watch_forks();
    pthread_mutex_lock(&lock);
    hd_heap_view_t *view = use(name);
    view = view ? view : make_view(name, segment);
    pthread_mutex_unlock(&lock);
    if (!view) {
        hd_info("a heap of %zu bytes of another process can't be mapped", segment->bytes);
    }
    return view;
}

hd_heap_view_t *hd_heap_view_attach(const uint64_t name[2], size_t bytes, const char **why) {
    watch_forks();
    hd_heap_view_t *view = hd_heap_view_find(name);
    hd_heap_view_t *made = view ? NULL : hd_alloc(HD_LINE, sizeof(*made));
    hd_xpmem_t xpmem;
    *why = view ? NULL : made ? hd_xpmem_attach(name, bytes, &xpmem) : "there is no memory for it";
    if (view || *why) { /* two threads that come at once have it twice, which does no harm */
        hd_free(made);
        return view;
    }
    *made = (hd_heap_view_t){.base = xpmem.base, .bytes = bytes, .permit = xpmem.permit, .uses = 1};
    memcpy(made->name, name, sizeof(made->name));
    pthread_mutex_lock(&lock);
    made->next = views;
    views = made;
    pthread_mutex_unlock(&lock);
    return made;
}

void hd_heap_view_drop(hd_heap_view_t *view) {
    pthread_mutex_lock(&lock);
    bool last = --view->uses == 0;
    for (hd_heap_view_t **at = &views; last && *at; at = &(*at)->next) {
        if (*at == view) {
            *at = view->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (last && view->permit && view->base) {
        hd_xpmem_detach(&(hd_xpmem_t){.base = view->base, .permit = view->permit});
    } else if (last && view->base) {
        munmap(view->base, view->bytes);
    }
    if (last) {
        hd_free(view);
    }
}
