/* test_heap.c: blocks of heaps, how they are found, and heaps as other processes map them. Tests
 * change their process's limits: each has its own.
 */
#include "../support/random.h"
#include "malloc/seam.h"
#include "node/heap.h"
#include "two.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

TestSuite(heap, .timeout = 60);

enum { PAGE = 4096, HUGE = 2 << 20 };

static void limit(int what, rlim_t to) {
    struct rlimit limit = {to, to};
    cr_assert_eq(setrlimit((__rlimit_resource_t)what, &limit), 0);
}

Test(heap, blocks_are_aligned_apart_and_found) {
    size_t sizes[] = {1, 128, 129, PAGE, HUGE + 1, 100}, offset, last = 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t bytes = sizes[i];
        uint8_t *block = hd_heap_alloc(bytes);
        cr_assert(block);
        cr_expect_eq((uintptr_t)block % (bytes >= HUGE ? HUGE : bytes >= PAGE ? PAGE : 128), 0);
        memset(block, (int)i + 1, bytes);
        cr_expect_eq(hd_heap_find(block, &offset), 0);
        cr_expect_eq(hd_heap_find(block + bytes - 1, &last), 0);
        cr_expect_eq(last - offset, bytes - 1);
        cr_expect(hd_heap_has(block));
    }
}

Test(heap, what_is_not_there_is_not_found_nor_freed) {
    size_t offset;
    int local = 0;
    void *other = malloc(100);
    cr_expect_eq(hd_heap_find(&local, &offset), HD_HEAP_NONE);
    cr_assert(hd_heap_alloc(100));
    cr_expect_eq(hd_heap_find(other, &offset), HD_HEAP_NONE);
    cr_expect_eq(hd_heap_find(NULL, &offset), HD_HEAP_NONE);
    cr_expect_not(hd_heap_free(other));
    free(other);
}

Test(heap, a_block_that_is_freed_twice_is_nobodys_else) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    void *block = hd_heap_alloc(1000);
    cr_assert(hd_heap_free(block));
    cr_expect(hd_heap_free(block)); /* said, and nothing else */
    void *a = hd_heap_alloc(1000), *b = hd_heap_alloc(1000);
    cr_expect_neq(a, b);
}

/* Whatever comes and goes, no two blocks overlap, and in the end all is one piece again. */
Test(heap, blocks_keep_what_is_in_them) {
    enum { BLOCKS = 200, STEPS = 20000 };
    static uint8_t *block[BLOCKS];
    static size_t bytes[BLOCKS];
    uint64_t random = 5;
    void *first = hd_heap_alloc(64), *whole = hd_heap_alloc(8 * HUGE);
    cr_assert(hd_heap_free(whole));
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t i = (uint32_t)random_below(&random, BLOCKS);
        if (block[i]) {
            for (size_t at = 0; at < bytes[i]; at++) {
                cr_assert_eq(block[i][at], (uint8_t)i);
            }
            cr_assert(hd_heap_free(block[i]));
            block[i] = NULL;
            continue;
        }
        bytes[i] = 1 + random_below(&random, random_below(&random, 10) ? 3000 : 100000);
        block[i] = hd_heap_alloc(bytes[i]);
        cr_assert(block[i]);
        memset(block[i], (int)i, bytes[i]);
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        cr_expect(!block[i] || hd_heap_free(block[i]));
    }
    cr_expect_eq(hd_heap_alloc(8 * HUGE), whole);
    cr_expect(hd_heap_free(first));
}

Test(heap, a_large_block_that_is_freed_gives_its_pages_back) {
    enum { BYTES_OF_IT = 16 << 20 };
    unsigned char there[BYTES_OF_IT / PAGE];
    uint32_t n = 0;
    uint8_t *block = hd_heap_alloc(BYTES_OF_IT);
    memset(block, 1, BYTES_OF_IT);
    cr_assert(hd_heap_free(block));
    cr_assert_eq(mincore(block, BYTES_OF_IT, there), 0);
    for (size_t i = 0; i < sizeof(there); i++) {
        n += there[i] & 1;
    }
    cr_expect_eq(n, 0);
    cr_expect_eq(block[5], 0); /* and stays memory */
}

/* A program closes all descriptors, and the numbers are its own files' then. */
Test(heap, freeing_a_block_leaves_a_file_alone_that_has_the_heaps_descriptor) {
    enum { BYTES = 2 * HUGE, FILES = 32 };
    uint8_t *block = hd_heap_alloc(BYTES);
    static uint8_t data[BYTES], back[BYTES];
    int file[FILES];
    cr_assert(block);
    memset(data, 7, BYTES);
    size_t offset;
    hd_node_segment_t segment;
    uint64_t name[2];
    hd_heap_name(hd_heap_find(block, &offset), name);
    cr_assert(hd_heap_segment(name, &segment));
    close(segment.fd);
    uint32_t n = 0;
    do {
        cr_assert(n < FILES);
        file[n] = memfd_create("the program's", 0);
    } while (file[n++] != segment.fd);
    cr_assert_eq(write(segment.fd, data, BYTES), BYTES);
    cr_assert(hd_heap_free(block));
    cr_assert_eq(pread(segment.fd, back, BYTES, 0), BYTES);
    cr_expect_arr_eq(back, data, BYTES);
    while (n > 0) {
        close(file[--n]);
    }
}

Test(heap, without_descriptors_there_is_none_and_plain_memory_does) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    limit(RLIMIT_NOFILE, 3);
    cr_expect_null(hd_heap_alloc(1000));
    cr_expect_null(heddle_alloc(1000, HEDDLE_ALLOC_NEAR));
    setenv("HEDDLE_NODE", "y", 1);
    void *memory = heddle_alloc(1000, HEDDLE_ALLOC_TOUCH);
    cr_assert(memory);
    cr_expect_not(hd_heap_has(memory));
    heddle_free(memory);
}

Test(heap, a_shortage_that_is_over_is_forgotten) {
    struct rlimit before, none = {3, 3};
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    getrlimit(RLIMIT_NOFILE, &before);
    if (setrlimit(RLIMIT_NOFILE, &none) != 0) {
        cr_skip_test("no limit can be set");
    }
    cr_expect_null(hd_heap_alloc(1000));
    if (setrlimit(RLIMIT_NOFILE, &before) == 0) { /* only root can take that back */
        cr_expect(hd_heap_alloc(1000));
    }
}

Test(heap, more_than_the_machine_has_is_not_to_be_had) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    setenv("HEDDLE_NODE", "y", 1);
    cr_expect_null(hd_heap_alloc((size_t)1 << 46));
    cr_expect_null(heddle_alloc((size_t)1 << 46, HEDDLE_ALLOC_NEAR));
    cr_expect(hd_heap_alloc(1000));
}

Test(heap, memory_that_is_refused_is_not_asked_for_in_smaller_pieces) {
    char said[4096];
    int log = memfd_create("log", 0);
    cr_assert_eq(dup2(log, STDERR_FILENO), STDERR_FILENO);
    close(log);
    limit(RLIMIT_NOFILE, 3);
    cr_expect_null(hd_heap_alloc(1000));
    ssize_t n = pread(STDERR_FILENO, said, sizeof(said), 0);
    uint32_t lines = 0;
    for (ssize_t i = 0; i < n; i++) {
        lines += said[i] == '\n';
    }
    cr_expect_eq(lines, 1);
}

Test(heap, where_addresses_are_few_a_heap_is_small) {
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("the sanitizer's own addresses are too many");
#endif
    limit(RLIMIT_AS, (rlim_t)2 << 30);
    void *block = hd_heap_alloc(1000);
    cr_expect(block);
    cr_expect_leq(hd_heaps.at[0].bytes, (size_t)64 << 20);
    cr_expect(hd_heap_alloc((size_t)300 << 20)); /* one of its own */
    cr_expect_null(hd_heap_alloc((size_t)3 << 30));
    cr_expect(hd_heap_alloc(1000));
}

Test(heap, where_files_are_small_a_heap_is) {
    limit(RLIMIT_FSIZE, (rlim_t)8 << 20);
    cr_expect(hd_heap_alloc(1000));
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    cr_expect_null(hd_heap_alloc((size_t)16 << 20));
}

/* --- views ------------------------------------------------------------------------------------ */

static hd_node_segment_t segment_of(uint32_t heap, uint64_t of[2]) {
    hd_node_segment_t segment;
    hd_heap_name(heap, of);
    cr_assert(hd_heap_segment(of, &segment));
    return segment;
}

Test(heap, a_view_is_the_same_memory_elsewhere_and_one_for_all) {
    uint64_t of[2], other[2] = {1, 2};
    size_t offset;
    hd_node_segment_t segment;
    uint8_t *block = hd_heap_alloc(1000);
    cr_assert_eq(hd_heap_find(block, &offset), 0);
    segment = segment_of(0, of);
    cr_expect_null(hd_heap_view_find(of));
    hd_heap_view_t *view = hd_heap_view_map(of, &segment), *same = hd_heap_view_find(of);
    cr_assert(view);
    cr_expect_eq(view, same);
    cr_expect_eq(view, hd_heap_view_map(of, &segment));
    cr_expect_null(hd_heap_view_find(other));
    cr_expect_not(hd_heap_segment(other, &segment));
    cr_expect_neq(view->base + offset, block);
    block[999] = 7;
    cr_expect_eq(view->base[offset + 999], 7);
    hd_heap_view_drop(view);
    hd_heap_view_drop(view);
    cr_expect_eq(view->base[offset + 999], 7);
    hd_heap_view_drop(view);
    cr_expect_null(hd_heap_view_find(of));
}

Test(heap, memory_of_another_process_is_not_freed_here) {
    uint64_t of[2];
    uint8_t *block = hd_heap_alloc(1000);
    hd_node_segment_t segment = segment_of(0, of);
    hd_heap_view_t *view = hd_heap_view_map(of, &segment);
    cr_assert(block && view);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    cr_expect(hd_heap_free(view->base)); /* said, and nothing else */
    cr_expect(hd_heap_free(view->base + view->bytes - 1));
    cr_expect_not(hd_heap_free(view->base + view->bytes));
    uint8_t *mapped = view->base;
    hd_heap_view_drop(view);
    cr_expect_not(hd_heap_free(mapped));
}

Test(heap, whoever_is_let_in_may_fetch_it_and_again) {
    hd_node_t *a = opened(), *b = opened();
    uint64_t of[2];
    size_t offset;
    uint8_t *block = hd_heap_alloc(1000);
    cr_assert_eq(hd_heap_find(block, &offset), 0);
    hd_heap_name(0, of);
    strcpy((char *)block, "told");
    for (int i = 0; i < 2; i++) {
        hd_node_fetch_t *fetch;
        hd_node_segment_t segment;
        cr_assert_eq(hd_node_fetch(b, hd_node_address(a), of, &fetch), UCC_OK);
        UNTIL(hd_node_fetch_state(fetch) != HD_NODE_PENDING, a, b);
        cr_assert_eq(hd_node_fetch_test(fetch, &segment), UCC_OK);
        hd_heap_view_t *view = hd_heap_view_map(of, &segment);
        cr_expect_str_eq((char *)view->base + offset, "told");
        hd_segment_close(&segment);
        hd_node_fetch_end(fetch);
        hd_heap_view_drop(view);
    }
    settle(a, b);
    hd_node_close(a);
    hd_node_close(b);
}

/* --- fork ------------------------------------------------------------------------------------- */

Test(heap, a_childs_heaps_are_its_own) {
    size_t offset;
    uint8_t *block = hd_heap_alloc(HUGE);
    memset(block, 1, HUGE);
    pid_t child = fork();
    if (child == 0) {
        uint8_t *mine = hd_heap_alloc(1000);
        bool fine = hd_heap_find(block, &offset) == HD_HEAP_NONE && hd_heap_has(block) &&
                    hd_heap_free(block) && mine && hd_heap_find(mine, &offset) == 1 &&
                    hd_heap_free(mine);
        heddle_free(block);
        _exit(fine ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
    cr_expect_eq(block[HUGE - 1], 1);
    uint8_t *next = hd_heap_alloc(1000);
    cr_expect_eq(hd_heap_find(next, &offset), 0);
    cr_expect(next < block || next >= block + HUGE);
}

/* --- libheddle_malloc's ----------------------------------------------------------------------- */

static hd_malloc_heap_t preloaded = {.fd = -1};

/* What the library finds when it looks for libheddle_malloc's. */
hd_malloc_ask_fn heddle_malloc_heap;
int heddle_malloc_heap(uint32_t version, hd_malloc_heap_t *heap) {
    cr_expect_eq(version, HD_MALLOC_VERSION);
    *heap = preloaded;
    return preloaded.fd >= 0 ? 0 : -1;
}

static void preload(hd_node_segment_t *segment) {
    cr_assert_eq(hd_segment_create(HUGE, segment), UCC_OK);
    cr_assert_eq(hd_segment_map(segment, NULL, &preloaded.base), UCC_OK);
    preloaded.bytes = segment->bytes;
    preloaded.fd = segment->fd;
}

Test(heap, a_preloaded_one_is_found_and_fetched_and_nothing_else) {
    hd_node_segment_t segment;
    uint64_t of[2];
    size_t offset;
    preload(&segment);
    uint8_t *theirs = preloaded.base, *mine = hd_heap_alloc(1000);
    cr_expect_eq(hd_heap_find(theirs, &offset), HD_HEAP_NONE);
    hd_node_close(opened());
    cr_expect_eq(hd_heap_find(theirs + 5, &offset), 1);
    cr_expect_eq(offset, 5);
    hd_segment_close(&segment); /* it has a descriptor of its own */
    segment = segment_of(1, of);
    hd_heap_view_t *view = hd_heap_view_map(of, &segment);
    theirs[HUGE - 1] = 3;
    cr_expect_eq(view->base[HUGE - 1], 3);
    hd_heap_view_drop(view);
    cr_expect_not(hd_heap_free(theirs)); /* it is free()'s */
    for (int i = 0; i < 3; i++) {
        uint8_t *block = hd_heap_alloc(10 * HUGE);
        cr_expect(block < theirs || block >= theirs + HUGE);
    }
    cr_expect(hd_heap_free(mine));
    hd_heap_adopt(); /* which it is already */
    cr_expect_eq(hd_heap_find(theirs, &offset), 1);
}

Test(heap, a_childs_preloaded_one_is_another_at_the_same_place) {
    hd_node_segment_t segment;
    uint64_t of[2], before[2];
    size_t offset;
    preload(&segment);
    hd_node_close(opened());
    uint8_t *theirs = preloaded.base;
    cr_assert_eq(hd_heap_find(theirs, &offset), 0);
    hd_heap_name(0, before);
    pid_t child = fork();
    if (child == 0) {
        bool fine = hd_heap_find(theirs, &offset) == HD_HEAP_NONE && !hd_heap_free(theirs);
        hd_node_close(opened());
        fine = fine && hd_heap_find(theirs, &offset) == 1;
        hd_heap_name(1, of);
        _exit(fine && memcmp(of, before, sizeof(of)) != 0 ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
    cr_expect_eq(hd_heap_find(theirs, &offset), 0);
}

Test(heap, a_preloaded_one_that_may_shrink_is_refused) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    size_t offset;
    preloaded = (hd_malloc_heap_t){.bytes = HUGE, .fd = memfd_create("other", MFD_CLOEXEC)};
    cr_assert(preloaded.fd >= 0 && ftruncate(preloaded.fd, HUGE) == 0);
    preloaded.base = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, preloaded.fd, 0);
    hd_node_close(opened());
    cr_expect_eq(hd_heap_find(preloaded.base, &offset), HD_HEAP_NONE);
}

/* --- heddle_alloc ----------------------------------------------------------------------------- */

Test(heap, without_node_memory_is_near_if_asked) {
    setenv("HEDDLE_NODE", "n", 1);
    void *plain = heddle_alloc(5000, 0), *near = heddle_alloc(5000, HEDDLE_ALLOC_NEAR);
    cr_expect_not(hd_heap_has(plain));
    cr_expect(hd_heap_has(near));
    cr_expect_eq((uintptr_t)plain % PAGE, 0);
    heddle_free(plain);
    heddle_free(near);
    heddle_free(NULL);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    cr_expect_null(heddle_alloc(1, UCC_BIT(20)));
    cr_expect_null(heddle_alloc(SIZE_MAX - 5, HEDDLE_ALLOC_NEAR));
    cr_expect_null(heddle_alloc_like(NULL, 1, 0));
}

Test(heap, with_node_memory_is_near_and_touched_if_asked) {
    setenv("HEDDLE_NODE", "y", 1);
    uint8_t *block = heddle_alloc(50000, 0);
    cr_assert(hd_heap_has(block));
    memset(block, 1, 50000);
    heddle_free(block);
    uint8_t *again = heddle_alloc(50000, HEDDLE_ALLOC_TOUCH);
    cr_expect_eq(again, block);
    cr_expect_eq(again[49999], 0);
    heddle_free(again);
}
