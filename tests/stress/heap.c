/* heap.c: the hot path allocates nothing: a million cycles of init, post, test, finalize on teams
 * of one and two endpoints, counted by allocators of our own in front of the C library's.
 */
#include "stress.h"

#include "../support/driver.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WARM_UP = 2000 };

static _Atomic uint64_t calls; /* of any allocating or freeing function, while `counting` */
static _Atomic bool counting;

#if !STRESS_TSAN && !defined(__SANITIZE_ADDRESS__)

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);
extern void __libc_free(void *block);

static void note(void) {
    /* relaxed: added up after the threads are joined */
    if (atomic_load_explicit(&counting, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    }
}

void *malloc(size_t bytes) {
    note();
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
    note();
    return __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes) {
    note();
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t bytes) {
    note();
    return __libc_memalign(align, bytes);
}

void *memalign(size_t align, size_t bytes) {
    note();
    return __libc_memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes) {
    note();
    *out = __libc_memalign(align, bytes);
    return *out != NULL ? 0 : ENOMEM;
}

void free(void *block) {
    note();
    __libc_free(block);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    note();
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

enum { COUNTED = 1 };
#else
enum { COUNTED = 0 }; /* the sanitizer's allocator is in the way */
#endif

typedef struct run {
    world_t *world;
    ucc_coll_type_t type;
    size_t words;
    uint64_t cycles;
    pthread_barrier_t *start;
} run_t;

static void cycle(const run_t *run, uint32_t index, uint64_t *src, uint64_t *dst) {
    ucc_coll_req_h request;
    ucc_coll_args_t args = {.coll_type = run->type, .op = UCC_OP_SUM};
    args.src.info = (ucc_coll_buffer_info_t){src, run->words, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
    args.dst.info = (ucc_coll_buffer_info_t){dst, run->words, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
    must(ucc_collective_init(&args, &request, run->world->teams[index]), "init");
    must(ucc_collective_post(request), "post");
    ucc_status_t status;
    while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        ucc_context_progress(world_context(run->world, index));
    }
    stress_expect(status, UCC_OK, "status");
    must(ucc_collective_finalize(request), "finalize");
}

static void cycles(void *arg, uint32_t index) {
    const run_t *run = arg;
    uint64_t src[512] = {1, 2, 3}, dst[512];
    for (uint64_t i = 0; i < WARM_UP; i++) {
        cycle(run, index, src, dst);
    }
    pthread_barrier_wait(run->start);
    if (index == 0) {
        atomic_store(&counting, true);
    }
    pthread_barrier_wait(run->start);
    for (uint64_t i = 0; i < run->cycles; i++) {
        cycle(run, index, src, dst);
    }
    pthread_barrier_wait(run->start);
    if (index == 0) {
        atomic_store(&counting, false);
    }
    pthread_barrier_wait(run->start);
}

static void expect_no_heap(const char *name, uint32_t size, ucc_coll_type_t type, size_t words,
                           uint64_t n) {
    pthread_barrier_t start;
    stress_phase(name, 120);
    pthread_barrier_init(&start, NULL, size);
    run_t run = {.type = type, .words = words, .cycles = stress_scaled(n), .start = &start};
    run.world = world_create(&(world_params_t){.size = size, .form = WORLD_OOB});
    uint64_t before = atomic_load(&calls);
    double began = test_now();
    driver_threads(size, cycles, &run);
    double seconds = test_now() - began;
    uint64_t counted = atomic_load(&calls) - before;
    if (counted != 0) {
        stress_error("%llu calls of the allocator", (unsigned long long)counted);
    }
    printf("%-32s %8llu cycles, %5.0f ns each, %llu calls of the allocator\n", name,
           (unsigned long long)run.cycles, seconds * 1e9 / (double)run.cycles,
           (unsigned long long)counted);
    world_destroy(run.world);
    pthread_barrier_destroy(&start);
}

/* The counters count, or all of the above proves nothing. */
static void expect_counting(void) {
    if (!COUNTED) {
        return;
    }
    uint64_t before = atomic_load(&calls);
    atomic_store(&counting, true);
    void *volatile block = malloc(100);
    free(block);
    atomic_store(&counting, false);
    if (atomic_load(&calls) != before + 2) {
        stress_error("malloc and free were not counted");
    }
}

int main(int argc, char **argv) {
    stress_begin(argc, argv);
    expect_counting();
    expect_no_heap("barrier, 1 endpoint", 1, UCC_COLL_TYPE_BARRIER, 0, 1000000);
    expect_no_heap("barrier, 2 endpoints", 2, UCC_COLL_TYPE_BARRIER, 0, 1000000);
    expect_no_heap("allreduce of 8 B, 2 endpoints", 2, UCC_COLL_TYPE_ALLREDUCE, 1, 200000);
    expect_no_heap("allreduce of 4 KiB, 2 endpoints", 2, UCC_COLL_TYPE_ALLREDUCE, 512, 50000);
    expect_no_heap("barrier, 12 endpoints", 12, UCC_COLL_TYPE_BARRIER, 0, 3000);
    printf("heap: %s\n", COUNTED ? "no allocation after warm-up" : "not counted");
    return stress_end();
}
