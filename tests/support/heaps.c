/* heaps.c: see heaps.h. */
#include "heaps.h"

#include "node/xpmem.h"

#include <heddle/heddle.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of the shared memory, blocks are given out one behind the other, and again from the beginning
 * when all have come back. */
static struct {
    pthread_mutex_t lock;
    pid_t owner;
    uint8_t *base;
    size_t used, blocks;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { SHARED_BYTES = 1 << 30 }; /* of addresses */

/* The library as it ships has neither. */
#pragma weak hd_xpmem_library
#pragma weak hd_xpmem_device

static __attribute__((constructor)) void choose_library(void) {
    const char *library = getenv("TEST_XPMEM");
    if (library && *library && &hd_xpmem_library) {
        hd_xpmem_library = library;
        hd_xpmem_device = "/dev/null";
        setenv("HEDDLE_XPMEM", "auto", 0);
    }
}

static bool is(const char *word) {
    const char *heaps = getenv("TEST_HEAPS");
    return heaps && strcmp(heaps, word) == 0;
}

static void *take_shared(size_t bytes) {
    void *block = NULL;
    pthread_mutex_lock(&shared.lock);
    if (shared.owner != getpid()) {                   /* a forked process has its own */
        int fd = memfd_create("shared", MFD_CLOEXEC); /* kept: the stand-in looks for it */
        void *base = fd < 0 || ftruncate(fd, SHARED_BYTES) != 0
                         ? MAP_FAILED
                         : mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        shared.base = base == MAP_FAILED ? NULL : base;
        shared.used = shared.blocks = 0;
        shared.owner = getpid();
    }
    if (shared.base && bytes <= SHARED_BYTES - shared.used) {
        block = shared.base + shared.used;
        shared.used += (bytes + 63) / 64 * 64;
        shared.blocks++;
    }
    pthread_mutex_unlock(&shared.lock);
    return block;
}

void *heaps_alloc(size_t bytes, bool one) {
    if (is("shared")) {
        return take_shared(bytes);
    }
    return is("all") || (is("some") && one) ? heddle_alloc(bytes, HEDDLE_ALLOC_NEAR)
                                            : aligned_alloc(64, bytes);
}

void heaps_free(void *memory) {
    pthread_mutex_lock(&shared.lock);
    bool mine = shared.owner == getpid() && memory && (uint8_t *)memory >= shared.base &&
                (uint8_t *)memory < shared.base + SHARED_BYTES;
    if (mine && --shared.blocks == 0) {
        shared.used = 0;
    }
    pthread_mutex_unlock(&shared.lock);
    if (!mine) {
        heddle_free(memory);
    }
}
