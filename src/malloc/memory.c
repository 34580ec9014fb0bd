/* memory.c: the heap of libheddle_malloc: one memfd, mapped once, whose place never changes. Its
 * addresses are many, so those that no block has had yet are closed (PROT_NONE): mlockall and dumps
 * pass over them.
 *
 * FORKS. A shared mapping would be the same memory in the child of a fork, and each would spoil the
 * other's blocks. So the child has a heap of its own, at the same place, with a copy of all blocks:
 *
 *     before      in the parent: signals wait, and the lock is held; what is in blocks is copied
 *                 into another memfd, or, where none can be had, into private memory
 *     in_child    that is mapped in place of the heap. Private memory is a heap that is CLOSED:
 *                 its blocks can be freed, and no new one is had
 *     in_parent   the copy is dropped
 *
 * The library is initialised before all others, so its handlers are the last before the fork and
 * the first behind it: nobody's handler sees the child without its heap. And the heap is not
 * inherited (MADV_DONTFORK): the child of a system call that runs no handlers lacks it, and ends
 * where it touches it; in no case does it write into its parent's. Children that share their
 * parent's memory (vfork, posix_spawn) see the heap as their parent does.
 *
 * Everything is under one lock, but for the question whether an address lies in the heap.
 */
#include "internal.h"
#include "memfd.h"
#include "seam.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* Bytes. */
#define STEP (64 * MIB) /* by which it is opened */
#define WIPE MIB        /* more is not set to zero, but given back */

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) /* which libheddle insists on */

typedef enum state {
    NONE, /* not yet */
    OPEN,
    CLOSED,
    HOPELESS /* there is none to be had */
} state_t;

/* A descriptor that the program may have closed: its number may be another file's now. */
typedef struct file {
    int fd; /* -1: none */
    dev_t device;
    ino_t inode;
} file_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static bool is_ready;                                    /* forks are watched */
static state_t state;
static file_t file;
static size_t opened; /* bytes */
static hd_blocks_t blocks;

/* Written once, under the lock. Relaxed, both: whoever asks about a block has it from who took it,
 * and so sees them; about any other address, each answer from before and after is right. */
static _Atomic uintptr_t heap_base;
static _Atomic size_t heap_bytes; /* 0: there is no heap */

static uint8_t *base_of(void) {
    return (uint8_t *)atomic_load_explicit(&heap_base, memory_order_relaxed);
}

static size_t bytes_of(void) {
    return atomic_load_explicit(&heap_bytes, memory_order_relaxed);
}

bool hd_memory_has(const void *address) {
    return (uintptr_t)address - (uintptr_t)base_of() < bytes_of();
}

/* --- files ------------------------------------------------------------------------------------ */

/* Programs know their first descriptors by number: this is none of those. */
static int move_up(int fd) {
    struct rlimit limit = {.rlim_cur = 0};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    int from = limit.rlim_cur < 1024 ? (int)limit.rlim_cur / 16 * 15 : 960;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, from);
    if (moved >= 0) {
        close(fd);
    }
    return moved >= 0 ? moved : fd;
}

static void drop(file_t *f) {
    if (f->fd >= 0) {
        close(f->fd);
    }
    f->fd = -1;
}

/* A memfd of so many bytes. False: none can be had. */
static bool make_file(size_t bytes, file_t *f) {
    struct stat stat;
    if (bytes > hd_memfd_most()) { /* ftruncate would end the process by SIGXFSZ */
        return false;
    }
    f->fd = hd_memfd("heddle_malloc");
    if (f->fd < 0) {
        return false;
    }
    f->fd = move_up(f->fd);
    if (ftruncate(f->fd, (off_t)bytes) != 0 || fcntl(f->fd, F_ADD_SEALS, SEALS) != 0 ||
        fstat(f->fd, &stat) != 0) {
        drop(f);
        return false;
    }
    f->device = stat.st_dev;
    f->inode = stat.st_ino;
    return true;
}

static bool is_there(const file_t *f) {
    struct stat stat;
    return f->fd >= 0 && fstat(f->fd, &stat) == 0 && stat.st_dev == f->device &&
           stat.st_ino == f->inode;
}

/* --- making the heap -------------------------------------------------------------------------- */

/* Does the system promise no more memory than it has? Then malloc fails in time, and shared memory
 * would not. */
static bool is_strict(void) {
    char mode = '0';
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    bool said = fd >= 0 && read(fd, &mode, 1) == 1;
    if (fd >= 0) {
        close(fd);
    }
    return said && mode == '2';
}

static void *reserve(size_t bytes) {
    void *where = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return where == MAP_FAILED ? NULL : where;
}

static bool map_at(uint8_t *base, size_t bytes, int fd) {
    return mmap(base, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) == base &&
           madvise(base, bytes, MADV_DONTFORK) == 0 && madvise(base, bytes, MADV_DONTDUMP) == 0;
}

/* Addresses for so many bytes, where huge pages could be. */
static uint8_t *find_place(size_t bytes) {
    uint8_t *begin = reserve(bytes + HD_HUGE_PAGE);
    if (!begin) {
        return NULL;
    }
    size_t before = (HD_HUGE_PAGE - (uintptr_t)begin % HD_HUGE_PAGE) % HD_HUGE_PAGE;
    if (before > 0) {
        munmap(begin, before);
    }
    munmap(begin + before + bytes, HD_HUGE_PAGE - before);
    return begin + before;
}

static hd_extent_t *make_extents(size_t units) {
    void *got = mmap(NULL, units * sizeof(hd_extent_t), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return got == MAP_FAILED ? NULL : got;
}

static void make_heap(void) {
    size_t bytes = hd_memfd_heap();
    state = HOPELESS;
    if (bytes == 0 || sysconf(_SC_PAGESIZE) != HD_UNIT || is_strict() || !make_file(bytes, &file)) {
        return;
    }
    hd_extent_t *extent = make_extents(bytes / HD_UNIT);
    uint8_t *base = extent ? find_place(bytes) : NULL;
    if (!base || !map_at(base, bytes, file.fd)) {
        if (base) {
            munmap(base, bytes);
        }
        if (extent) {
            munmap(extent, bytes / HD_UNIT * sizeof(*extent));
        }
        drop(&file);
        return;
    }
    hd_blocks_init(&blocks, extent, (uint32_t)(bytes / HD_UNIT));
    state = OPEN;
    atomic_store_explicit(&heap_base, (uintptr_t)base, memory_order_relaxed); /* both: see there */
    atomic_store_explicit(&heap_bytes, bytes, memory_order_relaxed);
}

static bool open_bytes(uint8_t *base, size_t bytes) {
    return mprotect(base, bytes, PROT_READ | PROT_WRITE) == 0 &&
           madvise(base, bytes, MADV_DODUMP) == 0;
}

/* Opens the heap so far. False: it can't be done. */
static bool open_until(size_t end) {
    size_t bytes = bytes_of(), to = (end + STEP - 1) / STEP * STEP;
    if (end <= opened) {
        return true;
    }
    to = to < bytes ? to : bytes;
    if (!open_bytes(base_of() + opened, to - opened)) {
        return false;
    }
    (void)madvise(base_of(), to, MADV_HUGEPAGE); /* where the system lets shared memory */
    opened = to;
    return true;
}

/* --- blocks ----------------------------------------------------------------------------------- */

static uint8_t *at_unit(uint32_t unit) {
    return base_of() + (size_t)unit * HD_UNIT;
}

static uint32_t unit_of(const void *address) {
    return (uint32_t)(((uintptr_t)address - (uintptr_t)base_of()) / HD_UNIT);
}

static uint32_t units_for(size_t bytes) {
    return (uint32_t)(bytes / HD_UNIT + (bytes % HD_UNIT > 0));
}

/* Under the lock. What is read there next is zero, if true is returned. */
static bool give_back(hd_run_t run) {
    size_t bytes = (size_t)(run.end - run.begin) * HD_UNIT;
    int advice = state == OPEN ? MADV_REMOVE : MADV_DONTNEED;
    return bytes == 0 || madvise(at_unit(run.begin), bytes, advice) == 0;
}

/* Under the lock. */
static void give_units(uint32_t at) {
    (void)give_back(hd_blocks_give(&blocks, at));
}

/* Under the lock. *zero: from that unit on, the block is zero. */
static uint32_t take_units(size_t bytes, size_t alignment, uint32_t *zero) {
    if (state == NONE && is_ready) {
        make_heap();
    }
    if (state != OPEN || bytes > bytes_of() || alignment > HD_HUGE_PAGE) {
        return HD_NO_BLOCK;
    }
    uint32_t units = units_for(bytes), align = units_for(alignment);
    *zero = blocks.fresh;
    uint32_t at = hd_blocks_take(&blocks, units, align);
    if (at != HD_NO_BLOCK && !open_until((size_t)(at + units) * HD_UNIT)) {
        give_units(at);
        return HD_NO_BLOCK;
    }
    return at;
}

static void wipe(uint32_t begin, uint32_t end) {
    size_t bytes = (size_t)(end - begin) * HD_UNIT;
    if (bytes < WIPE || madvise(at_unit(begin), bytes, MADV_REMOVE) != 0) {
        memset(at_unit(begin), 0, bytes);
    }
}

void *hd_memory_take(size_t bytes, size_t alignment, bool zeroed) {
    int before = errno;
    uint32_t zero;
    pthread_mutex_lock(&lock);
    uint32_t at = take_units(bytes ? bytes : 1, alignment ? alignment : 1, &zero);
    pthread_mutex_unlock(&lock);
    if (zeroed && at != HD_NO_BLOCK && at < zero) {
        uint32_t end = at + units_for(bytes);
        wipe(at, end < zero ? end : zero);
    }
    errno = before;
    return at == HD_NO_BLOCK ? NULL : at_unit(at);
}

/* Under the lock. */
static uint32_t units_at(const void *block) {
    bool aligned = ((uintptr_t)block & (HD_UNIT - 1)) == 0;
    uint32_t units = aligned ? hd_blocks_units(&blocks, unit_of(block)) : 0;
    if (units == 0) {
        static const char text[] = "libheddle_malloc: not the beginning of a block\n";
        pthread_mutex_unlock(&lock); /* a handler may allocate */
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
        abort();
    }
    return units;
}

size_t hd_memory_bytes(void *block) {
    pthread_mutex_lock(&lock);
    size_t bytes = (size_t)units_at(block) * HD_UNIT;
    pthread_mutex_unlock(&lock);
    return bytes;
}

void hd_memory_give(void *block) {
    int before = errno;
    pthread_mutex_lock(&lock);
    (void)units_at(block);
    give_units(unit_of(block));
    pthread_mutex_unlock(&lock);
    errno = before;
}

/* Under the lock. */
static bool resize(uint32_t at, uint32_t had, uint32_t units) {
    if (units < had) {
        hd_blocks_cut(&blocks, at, units);
        give_units(at + units);
        return true;
    }
    if (units == had) {
        return true;
    }
    if (state != OPEN || !hd_blocks_lengthen(&blocks, at, units)) {
        return false;
    }
    if (!open_until((size_t)(at + units) * HD_UNIT)) {
        hd_blocks_cut(&blocks, at, had);
        give_units(at + had);
        return false;
    }
    return true;
}

bool hd_memory_resize(void *block, size_t bytes) {
    int before = errno;
    pthread_mutex_lock(&lock);
    uint32_t had = units_at(block);
    bool done = bytes <= bytes_of() && resize(unit_of(block), had, units_for(bytes));
    pthread_mutex_unlock(&lock);
    errno = before;
    return done;
}

/* --- forks ------------------------------------------------------------------------------------ */

/* A fork that is under way, under the lock. */
static struct {
    sigset_t signals;
    uint8_t *view;    /* the heap once more, to be read, whatever the program did to its pages */
    size_t bytes;     /* of it, up to the last block */
    file_t file;      /* the copy; or */
    uint8_t *private; /* this */
    bool is_whole;    /* all is copied */
} copy;

static bool write_all(int fd, const uint8_t *from, size_t bytes, size_t at) {
    while (bytes > 0) {
        ssize_t n = pwrite(fd, from, bytes, (off_t)at);
        if (n <= 0) {
            return false;
        }
        from += n;
        at += (size_t)n;
        bytes -= (size_t)n;
    }
    return true;
}

static bool copy_bytes(size_t begin, size_t end) {
    if (copy.private) {
        memcpy(copy.private + begin, copy.view + begin, end - begin);
        return true;
    }
    return write_all(copy.file.fd, copy.view + begin, end - begin, begin);
}

/* What was never written takes no memory, and is not read, which would change that. */
static bool copy_run(size_t begin, size_t end, bool skips) {
    while (begin < end) {
        off_t data = skips ? lseek(file.fd, (off_t)begin, SEEK_DATA) : (off_t)begin;
        if (data < 0 && errno == ENXIO) {
            return true;
        }
        off_t hole = skips && data >= 0 ? lseek(file.fd, data, SEEK_HOLE) : (off_t)end;
        if (data < 0 || hole < 0) {
            return copy_bytes(begin, end);
        }
        size_t to = (size_t)hole < end ? (size_t)hole : end;
        if ((size_t)data < to && !copy_bytes((size_t)data, to)) {
            return false;
        }
        begin = to > (size_t)data ? to : end;
    }
    return true;
}

static bool copy_blocks(void) {
    bool skips = is_there(&file);
    for (hd_run_t run = hd_blocks_used(&blocks, 0); run.begin < run.end;
         run = hd_blocks_used(&blocks, run.end)) {
        if (!copy_run((size_t)run.begin * HD_UNIT, (size_t)run.end * HD_UNIT, skips)) {
            return false;
        }
    }
    return true;
}

static void drop_private(void) {
    if (copy.private) {
        munmap(copy.private, copy.bytes);
    }
    copy.private = NULL;
}

/* False: there is no memory for it. */
static bool make_private_copy(void) {
    void *got = mmap(NULL, copy.bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) {
        return false;
    }
    copy.private = got;
    return copy_blocks();
}

/* The heap's pages at another place. That is a second mapping of the memfd, which needs no
 * descriptor. */
static uint8_t *view_heap(size_t bytes) {
    void *view = mremap(base_of(), 0, bytes, MREMAP_MAYMOVE);
    if (view == MAP_FAILED) {
        return NULL;
    }
    if (mprotect(view, bytes, PROT_READ) != 0) {
        munmap(view, bytes);
        return NULL;
    }
    return view;
}

static void copy_heap(void) {
    copy.bytes = 0;
    copy.private = NULL;
    copy.file.fd = -1;
    for (hd_run_t run = hd_blocks_used(&blocks, 0); run.begin < run.end;
         run = hd_blocks_used(&blocks, run.end)) {
        copy.bytes = (size_t)run.end * HD_UNIT;
    }
    copy.view = copy.bytes > 0 ? view_heap(copy.bytes) : NULL;
    bool can = copy.bytes == 0 || copy.view;
    copy.is_whole = can && make_file(bytes_of(), &copy.file) && copy_blocks();
    if (!copy.is_whole) {
        drop(&copy.file);
        copy.is_whole = can && (copy.bytes == 0 || make_private_copy());
    }
    if (copy.view) {
        munmap(copy.view, copy.bytes);
    }
}

static void before(void) {
    sigset_t all, signals;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &signals);
    pthread_mutex_lock(&lock);
    copy.signals = signals;
    if (state == OPEN) {
        copy_heap();
    }
}

static void after(void) {
    sigset_t signals = copy.signals;
    pthread_mutex_unlock(&lock);
    pthread_sigmask(SIG_SETMASK, &signals, NULL);
}

static void in_parent(void) {
    if (state == OPEN) {
        drop(&copy.file);
        drop_private();
    }
    after();
}

/* Maps the copy where the parent has its heap. False: it can't be done. */
static bool replace_heap(void) {
    uint8_t *base = base_of();
    size_t bytes = bytes_of();
    if (copy.file.fd >= 0) {
        file = copy.file;
        size_t to = opened;
        opened = 0;
        return map_at(base, bytes, file.fd) && open_until(to);
    }
    file.fd = -1;
    state = CLOSED;
    if (mmap(base, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) != base) {
        return false;
    }
    return !copy.private || mremap(copy.private, copy.bytes, copy.bytes,
                                   MREMAP_MAYMOVE | MREMAP_FIXED, base) == base;
}

static void in_child(void) {
    if (state == OPEN) {
        if (is_there(&file)) {
            close(file.fd);
        }
        if (!copy.is_whole || !replace_heap()) {
            static const char text[] = "libheddle_malloc: no memory for the child of a fork\n";
            (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
            abort();
        }
    }
    after();
}

static __attribute__((constructor)) void watch_forks(void) {
    if (pthread_atfork(before, in_parent, in_child) == 0) {
        pthread_mutex_lock(&lock);
        is_ready = true;
        pthread_mutex_unlock(&lock);
    }
}

/* --- libheddle -------------------------------------------------------------------------------- */

__attribute__((visibility("default"))) hd_malloc_ask_fn heddle_malloc_heap;

int heddle_malloc_heap(uint32_t version, hd_malloc_heap_t *heap) {
    pthread_mutex_lock(&lock);
    if (state == NONE && is_ready) {
        make_heap();
    }
    bool tells = version == HD_MALLOC_VERSION && state == OPEN && is_there(&file);
    if (tells) {
        *heap = (hd_malloc_heap_t){.base = base_of(), .bytes = bytes_of(), .fd = file.fd};
    }
    pthread_mutex_unlock(&lock);
    return tells ? 0 : -1;
}
