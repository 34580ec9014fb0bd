/* memory.c: see memory.h. */
#include "memory.h"

#include "job.h"
#include "malloc/memfd.h"
#include "malloc/seam.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char *blocks;  /* of PE 0, and of the others behind it */
static size_t stride; /* from one block to the next: a multiple of HEAP_ALIGNMENT */
static void *room;    /* the addresses, with what is lost by alignment */
static int files[JOB_PROCESSES];

static size_t up(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

static size_t page(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- blocks ---- */

static size_t room_bytes(void) {
    return stride * (size_t)the_world.size + HEAP_ALIGNMENT;
}

static int make_file(size_t bytes) {
    if (bytes > hd_memfd_most()) {
        complain("symmetric memory", "more than the limit of a file's size (ulimit -f)");
    }
    int file = hd_memfd("symmetric");
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0 ||
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        complain("symmetric memory", strerror(errno));
    }
    return file;
}

/* Those of the PEs of a process. */
static void map_blocks(int process) {
    int first = first_pe(process), n = first_pe(process + 1) - first;
    size_t bytes = stride * (size_t)n;
    char *at = blocks + stride * (size_t)first;
    files[process] = make_file(bytes);
    if (hd_memfd_map(files[process], bytes, at) == MAP_FAILED) {
        complain("symmetric memory", strerror(errno));
    }
    (void)madvise(at, bytes, MADV_HUGEPAGE); /* where the system lets shared memory */
    (void)madvise(at, bytes, MADV_DONTDUMP); /* a dump would touch all of it */
}

void memory_make(void) {
    stride = up(the_world.heap_bytes + up(the_world.image_bytes, page()), HEAP_ALIGNMENT);
    if (stride > LONG_MAX / 2 / (size_t)the_world.size) {
        complain("symmetric memory", strerror(ENOMEM));
    }
    room = mmap(NULL, room_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
        complain("symmetric memory", strerror(errno));
    }
    blocks = (char *)up((uintptr_t)room, HEAP_ALIGNMENT);
    for (int i = 0; i < the_world.processes; i++) {
        map_blocks(i);
    }
}

void memory_keep(void) {
    for (int i = 0; i < the_world.processes; i++) {
        if (i != the_world.process) {
            close(files[i]);
        }
    }
}

void memory_unmake(void) {
    munmap(room, room_bytes());
    for (int i = 0; i < the_world.processes; i++) {
        close(files[i]);
    }
}

char *memory_heap(int pe) {
    return blocks + stride * (size_t)pe;
}

char *memory_image(int pe) {
    return memory_heap(pe) + the_world.heap_bytes;
}

/* Heddle asks for it, and does large collectives in the heaps as among threads then. Each process
 * tells of its own PEs' blocks. */
__attribute__((visibility("default"))) int heddle_malloc_heap(uint32_t version,
                                                              hd_malloc_heap_t *heap) {
    if (version != HD_MALLOC_VERSION || the_world.processes == 1) {
        return 1;
    }
    heap->base = memory_heap(the_world.first);
    heap->bytes = stride * (size_t)the_world.here;
    heap->fd = files[the_world.process];
    return 0;
}

/* ---- copies of the program ---- */

/* The pages from the first to the last byte of its segments. */
typedef struct span {
    uintptr_t first;
    uintptr_t end;
} span_t;

static const span_t nothing = {UINTPTR_MAX, 0};

static void add(span_t *span, const ElfW(Phdr) * segment, uintptr_t base) {
    uintptr_t first = (base + segment->p_vaddr) & ~(page() - 1);
    uintptr_t end = base + segment->p_vaddr + segment->p_memsz;
    if (segment->p_type == PT_LOAD) {
        span->first = first < span->first ? first : span->first;
        span->end = end > span->end ? end : span->end;
    }
}

size_t image_span(const char *path) {
    ElfW(Ehdr) head;
    ElfW(Phdr) segment;
    span_t span = nothing;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool good = file >= 0 && pread(file, &head, sizeof(head), 0) == sizeof(head) &&
                memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_phentsize == sizeof(segment);
    for (int i = 0; good && i < head.e_phnum; i++) {
        off_t at = (off_t)(head.e_phoff + (size_t)i * sizeof(segment));
        good = pread(file, &segment, sizeof(segment), at) == sizeof(segment);
        add(&span, &segment, 0);
    }
    if (file >= 0) {
        close(file);
    }
    return good && span.first < span.end ? span.end - span.first : 0;
}

typedef struct search {
    uintptr_t base;
    span_t span;
} search_t;

static int find(struct dl_phdr_info *info, size_t size, void *argument) {
    search_t *search = argument;
    (void)size;
    if (info->dlpi_addr != search->base) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        add(&search->span, &info->dlpi_phdr[i], search->base);
    }
    return 1;
}

char *image_find(uintptr_t base, size_t *bytes) {
    search_t search = {base, nothing};
    if (dl_iterate_phdr(find, &search) == 0) {
        return NULL;
    }
    *bytes = search.span.end - search.span.first;
    return (char *)search.span.first;
}

/* A copy that is shared. */
typedef struct share {
    uintptr_t image;
    int pe;
} share_t;

/* Pages that the loader has set right, and then made read-only, stay the copy's own. */
static uintptr_t end_of_read_only(const struct dl_phdr_info *info, span_t span) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t first = info->dlpi_addr + part->p_vaddr, end = first + part->p_memsz;
        if (part->p_type == PT_GNU_RELRO && (first & ~(page() - 1)) == span.first) {
            return end & ~(page() - 1);
        }
    }
    return span.first;
}

static void share_segment(const share_t *share, const struct dl_phdr_info *info,
                          const ElfW(Phdr) * segment) {
    span_t span = nothing;
    add(&span, segment, info->dlpi_addr);
    span.end = up(span.end, page());
    char *there = memory_image(share->pe) + (span.first - share->image);
    memcpy(there, (const void *)span.first, span.end - span.first);
    if (!(segment->p_flags & PF_W)) {
        return;
    }
    uintptr_t first = end_of_read_only(info, span);
    there += first - span.first;
    off_t at = (off_t)(there - memory_heap(the_world.first));
    int access = PROT_READ | PROT_WRITE | (segment->p_flags & PF_X ? PROT_EXEC : 0);
    if (first < span.end && mmap((void *)first, span.end - first, access, MAP_SHARED | MAP_FIXED,
                                 files[the_world.process], at) == MAP_FAILED) {
        complain("the program's globals", strerror(errno));
    }
}

static int share_all(struct dl_phdr_info *info, size_t size, void *argument) {
    const share_t *share = argument;
    span_t span = nothing;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        add(&span, &info->dlpi_phdr[i], info->dlpi_addr);
    }
    for (int i = 0; span.first == share->image && i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_memsz > 0) {
            share_segment(share, info, &info->dlpi_phdr[i]);
        }
    }
    return span.first == share->image;
}

void image_share(char *image, int pe) {
    share_t share = {(uintptr_t)image, pe};
    dl_iterate_phdr(share_all, &share);
}
