/* memfd.h: files of memory, as libheddle (node/) and libheddle_malloc both make them: what the
 * system may forbid, and how many addresses a heap takes.
 */
#ifndef HD_MALLOC_MEMFD_H
#define HD_MALLOC_MEMFD_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif

/* Bytes. */
#define HD_HUGE_PAGE  ((size_t)2 << 20)
#define HD_LEAST_HEAP ((size_t)64 << 20)
#define HD_MOST_HEAP  ((size_t)64 << 30)

/* A file that can be sealed. -1: errno says why not. */
static inline int hd_memfd(const char *name) {
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    /* an older system does not know the flag; a hardened one may insist on it */
    int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
    return fd < 0 && errno == EINVAL ? memfd_create(name, flags) : fd;
}

/* Maps all of a file for reading and writing; at: in place of what is there, or NULL. MAP_FAILED:
 * errno says why not. It is opened when it is unlocked: of a program that has locked what it will
 * map (mlockall), only what is touched is made. */
static inline void *hd_memfd_map(int fd, size_t bytes, void *at) {
    int flags = MAP_SHARED | MAP_NORESERVE | (at ? MAP_FIXED : 0);
    void *base = mmap(at, bytes, PROT_NONE, flags, fd, 0);
    if (base == MAP_FAILED ||
        (munlock(base, bytes) == 0 && mprotect(base, bytes, PROT_READ | PROT_WRITE) == 0)) {
        return base;
    }
    int why = errno;
    munmap(base, bytes);
    errno = why;
    return MAP_FAILED;
}

/* The most bytes that ftruncate may give a file: beyond that, a signal ends the process. */
static inline size_t hd_memfd_most(void) {
    struct rlimit limit;
    bool limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < LONG_MAX;
    return limited ? (size_t)limit.rlim_cur : LONG_MAX;
}

/* Bytes of a heap: as many as the machine has, so that one is enough; less where the process's
 * addresses are limited. */
static inline size_t hd_memfd_heap(void) {
    struct rlimit limit;
    size_t most = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    most = most < HD_MOST_HEAP ? most : HD_MOST_HEAP;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur / 64 < most) {
        most = (size_t)limit.rlim_cur / 64;
    }
    most = most > HD_LEAST_HEAP ? most : HD_LEAST_HEAP;
    most = most < hd_memfd_most() ? most : hd_memfd_most();
    return most / HD_HUGE_PAGE * HD_HUGE_PAGE;
}

#endif
