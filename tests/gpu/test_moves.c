/* test_moves.c: moves by the bodies of device kernels put every byte where it belongs, and none
 * anywhere else.
 *
 * As in test_kernels.c: the kernel works in an arena, memcpy in its twin.
 */
#include "core/log.h"
#include "gpu/kernel.h"
#include "support/arena.h"
#include "support/run.h"

#include "support/random.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

TestSuite(moves, .timeout = 300);

enum { MAX_K = 70, MAX_ROWS = 200, ARENA = 8 << 20 };

static arena_t arena;
enum { WORDS = MAX_ROWS * HD_GPU_ROW_WORDS };
static uint64_t *words;
static hd_gpu_table_t table;

static void set_up(void) {
    arena = arena_make(ARENA);
    words = run_memory(WORDS * sizeof(*words));
    run_watch(arena.memory, arena.bytes);
    table = (hd_gpu_table_t){(uint64_t)(uintptr_t)words, words, WORDS, 0};
}

static void tear_down(void) {
    arena_free(&arena);
    run_memory_free(words);
}

typedef struct draw {
    void *src[MAX_K], *dst[MAX_K];
    hd_gpu_blocks_t what;
    hd_gpu_width_t width;
    run_grid_t grid;
} draw_t;

/* Small ones of every size, and some that are more than a chunk. */
static size_t draw_bytes(uint64_t *seed) {
    switch (random_below(seed, 8)) {
    case 0:
        return random_below(seed, 4);
    case 1:
        return 1 << random_below(seed, 10);
    case 2:
        return 16 * random_below(seed, 70);
    case 3:
        return random_below(seed, 8) ? random_below(seed, 3000) : 20000 + random_below(seed, 30000);
    default:
        return random_below(seed, 300);
    }
}

/* Addresses that agree modulo 16, 8, 4, 2 or not at all. */
static size_t draw_phase(uint64_t *seed, size_t agree, size_t common) {
    return (common + random_below(seed, 16) / agree * agree) % 16;
}

static void draw(draw_t *d, uint32_t k, uint32_t m, size_t src_blocks, size_t dst_blocks,
                 uint64_t *seed) {
    size_t bytes = draw_bytes(seed), agree = (size_t)1 << random_below(seed, 5);
    size_t common = random_below(seed, 16);
    if (random_below(seed, 2)) { /* so that blocks agree, too */
        bytes = bytes / 16 * 16;
    }
    bytes = bytes * (src_blocks * k + dst_blocks * m) > ARENA / 2 ? bytes % 100 : bytes;
    arena_clear(&arena, seed);
    for (uint32_t i = 0; i < k; i++) {
        d->src[i] = arena_take(&arena, src_blocks * bytes, draw_phase(seed, agree, common));
    }
    for (uint32_t i = 0; i < m; i++) {
        d->dst[i] = arena_take(&arena, dst_blocks * bytes, draw_phase(seed, agree, common));
    }
    size_t at = random_below(seed, 2) ? 0 : random_below(seed, bytes + 1);
    d->what = (hd_gpu_blocks_t){.k = k,
                                .m = m,
                                .src = (const void *const *)d->src,
                                .dst = d->dst,
                                .block = bytes,
                                .at = at,
                                .bytes = at ? random_below(seed, bytes - at + 1) : bytes};
    d->width = (hd_gpu_width_t){1 + (uint32_t)random_below(seed, 20), random_below(seed, 2)};
    d->grid = (run_grid_t){random_below(seed, 2) ? 1 + (uint32_t)random_below(seed, 5) : 0, 0};
}

static uint8_t *twin(const void *pointer) {
    return arena_twin(&arena, pointer);
}

static void check(const draw_t *d, const char *what) {
    size_t at = arena_compare(&arena);
    cr_assert_eq(
        at, arena.used,
        "%s: %u sources, %u destinations, blocks of %zu, bytes %zu + %zu: byte %zu is %02x "
        "instead of %02x",
        what, d->what.k, d->what.m, d->what.block, d->what.at, d->what.bytes, at, arena.memory[at],
        arena.twin[at]);
}

/* ---- blocks ---- */

static uint32_t draw_k(uint64_t *seed) {
    return 1 + (uint32_t)random_below(seed, random_below(seed, 20) ? 9 : MAX_K);
}

Test(moves, spread_puts_every_source_into_every_destination) {
    uint64_t seed = 1;
    set_up();
    for (int i = 0; i < 3000; i++) {
        draw_t d;
        uint32_t k = draw_k(&seed), m = draw_k(&seed);
        draw(&d, k, m, 1, k, &seed);
        for (uint32_t j = 0; j < m && j < k; j++) { /* in place: the source is its block already */
            if (random_below(&seed, 3) == 0) {
                d.src[j] = (uint8_t *)d.dst[j] + j * d.what.block;
            }
        }
        arena_copy(&arena);
        for (uint32_t s = 0; s < k; s++) {
            for (uint32_t t = 0; t < m; t++) {
                memmove(twin(d.dst[t]) + s * d.what.block + d.what.at, twin(d.src[s]) + d.what.at,
                        d.what.bytes);
            }
        }
        hd_gpu_launch_t launch;
        cr_assert_eq(hd_gpu_spread(&launch, &d.what, d.width, &table), UCC_OK);
        run_launch(&launch, d.grid, &seed);
        check(&d, "spread");
    }
    tear_down();
}

/* Others may be reading it. */
Test(moves, what_is_in_its_place_is_not_written) {
    if (getenv("HEDDLE_TEST_GPU")) {
        cr_skip("memory that is read-only for the host is nothing to a device");
    }
    enum { PAGE = 4096 };
    static uint8_t other[PAGE];
    uint64_t seed = 6;
    uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(page != MAP_FAILED);
    memset(page, 7, PAGE);
    mprotect(page, PAGE, PROT_READ);
    const void *src[] = {page};
    void *dst[] = {page, other};
    hd_gpu_blocks_t what = {.k = 1, .m = 2, .src = src, .dst = dst, .block = PAGE, .bytes = PAGE};
    hd_gpu_launch_t launch;
    cr_assert_eq(hd_gpu_spread(&launch, &what, (hd_gpu_width_t){4, false}, NULL), UCC_OK);
    run_launch(&launch, (run_grid_t){0, 0}, &seed);
    cr_expect_eq(memcmp(other, page, PAGE), 0);
    munmap(page, PAGE);
}

Test(moves, pairs_put_block_d_of_s_into_block_s_of_d) {
    uint64_t seed = 2;
    set_up();
    for (int i = 0; i < 3000; i++) {
        draw_t d;
        uint32_t k = draw_k(&seed), m = draw_k(&seed);
        draw(&d, k, m, m, k, &seed);
        arena_copy(&arena);
        for (uint32_t s = 0; s < k; s++) {
            for (uint32_t t = 0; t < m; t++) {
                memcpy(twin(d.dst[t]) + s * d.what.block + d.what.at,
                       twin(d.src[s]) + t * d.what.block + d.what.at, d.what.bytes);
            }
        }
        hd_gpu_launch_t launch;
        cr_assert_eq(hd_gpu_pairs(&launch, &d.what, d.width, &table), UCC_OK);
        run_launch(&launch, d.grid, &seed);
        check(&d, "pairs");
    }
    tear_down();
}

static void exchange(uint8_t *a, uint8_t *b, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        uint8_t held = a[i];
        a[i] = b[i];
        b[i] = held;
    }
}

Test(moves, swaps_exchange_blocks_in_place) {
    uint64_t seed = 3;
    set_up();
    for (int i = 0; i < 3000; i++) {
        draw_t d;
        uint32_t k = draw_k(&seed);
        draw(&d, 0, k, 0, k, &seed);
        arena_copy(&arena);
        for (uint32_t s = 0; s < k; s++) {
            for (uint32_t t = 0; t < s; t++) {
                exchange(twin(d.dst[t]) + s * d.what.block + d.what.at,
                         twin(d.dst[s]) + t * d.what.block + d.what.at, d.what.bytes);
            }
        }
        hd_gpu_launch_t launch;
        d.what.k = k;
        d.what.m = 0;
        d.what.src = NULL;
        cr_assert_eq(hd_gpu_swaps(&launch, &d.what, d.width, &table), UCC_OK);
        run_launch(&launch, d.grid, &seed);
        check(&d, "swaps");
    }
    tear_down();
}

/* ---- rows ---- */

static void draw_row(hd_gpu_row_t *row, uint64_t *seed) {
    size_t bytes = draw_bytes(seed), phase = random_below(seed, 16);
    bytes = arena.used > ARENA / 4 * 3 ? bytes % 100 : bytes;
    size_t other = random_below(seed, 2) ? phase : random_below(seed, 16);
    void *src = arena_take(&arena, bytes, phase);
    bool in_place = random_below(seed, 8) == 0;
    *row = (hd_gpu_row_t){src, in_place ? src : arena_take(&arena, bytes, other), bytes,
                          random_below(seed, 3) == 0};
}

Test(moves, rows_are_moved_or_exchanged_each) {
    uint64_t seed = 4;
    set_up();
    for (int i = 0; i < 1500; i++) {
        hd_gpu_row_t row[MAX_ROWS];
        uint32_t rows = 1 + (uint32_t)random_below(&seed, random_below(&seed, 3) ? 12 : MAX_ROWS);
        arena_clear(&arena, &seed);
        for (uint32_t r = 0; r < rows; r++) {
            draw_row(&row[r], &seed);
        }
        arena_copy(&arena);
        for (uint32_t r = 0; r < rows; r++) {
            if (row[r].swap) {
                exchange(twin(row[r].src), twin(row[r].dst), row[r].bytes);
            } else {
                memmove(twin(row[r].dst), twin(row[r].src), row[r].bytes);
            }
        }
        hd_gpu_launch_t launch;
        hd_gpu_width_t width = {1 + (uint32_t)random_below(&seed, 20), random_below(&seed, 2)};
        cr_assert_eq(hd_gpu_rows(&launch, row, rows, width, &table), UCC_OK);
        cr_assert(launch.blocks == 0 ||
                  table.used ==
                      (rows * HD_GPU_ROW_WORDS > HD_GPU_WORDS ? rows * HD_GPU_ROW_WORDS : 0));
        run_launch(&launch, (run_grid_t){(uint32_t)random_below(&seed, 5), 0}, &seed);
        size_t at = arena_compare(&arena);
        cr_assert_eq(at, arena.used, "%u rows: byte %zu is %02x instead of %02x", rows, at,
                     arena.memory[at], arena.twin[at]);
    }
    tear_down();
}

/* ---- what is launched ---- */

Test(moves, nothing_to_move_is_no_launch) {
    static uint8_t data[64];
    const void *src[] = {data};
    void *dst[] = {data};
    hd_gpu_blocks_t what = {.k = 1, .m = 1, .src = src, .dst = dst};
    hd_gpu_row_t row[] = {
        {data, data, 64, false}, {data, data + 32, 0, false}, {data, data, 64, true}};
    hd_gpu_width_t width = {4, false};
    hd_gpu_launch_t launch = {.blocks = 1};
    cr_expect_eq(hd_gpu_spread(&launch, &what, width, NULL), UCC_OK);
    cr_expect_eq(launch.blocks, 0);
    launch.blocks = 1;
    cr_expect_eq(hd_gpu_pairs(&launch, &what, width, NULL), UCC_OK);
    cr_expect_eq(launch.blocks, 0);
    launch.blocks = 1;
    what.bytes = 8;
    cr_expect_eq(hd_gpu_swaps(&launch, &what, width, NULL), UCC_OK); /* of one buffer */
    cr_expect_eq(launch.blocks, 0);
    launch.blocks = 1;
    cr_expect_eq(hd_gpu_rows(&launch, row, 3, width, NULL), UCC_OK);
    cr_expect_eq(launch.blocks, 0);
}

/* A block of threads has many small blocks of bytes to move, and a large one many blocks of
 * threads. */
Test(moves, teams_are_as_large_as_what_they_move) {
    static uint8_t data[16] __attribute__((aligned(16)));
    const void *src[8];
    void *dst[8];
    for (int i = 0; i < 8; i++) {
        src[i] = dst[i] = data;
    }
    static const struct {
        size_t bytes;
        uint32_t team, blocks, threads;
    } expected[] = {
        {8, 1, 1, 64}, /* 64 pairs, each one unit of 8 bytes */
        {64, 4, 1, 256}, {1024, 64, 16, 256}, {16 << 10, 256, 64, 256}, {16 << 20, 256, 1000, 256},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        hd_gpu_blocks_t what = {.k = 8,
                                .m = 8,
                                .src = src,
                                .dst = dst,
                                .block = expected[i].bytes,
                                .bytes = expected[i].bytes};
        hd_gpu_launch_t launch;
        cr_assert_eq(hd_gpu_pairs(&launch, &what, (hd_gpu_width_t){1000, false}, NULL), UCC_OK);
        cr_expect(launch.args.move.head.team == expected[i].team &&
                      launch.blocks == expected[i].blocks && launch.threads == expected[i].threads,
                  "%zu bytes: teams of %u, %u blocks of %u threads", expected[i].bytes,
                  launch.args.move.head.team, launch.blocks, launch.threads);
    }
}

static char last_line[256];

static void keep_line(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)arg;
    snprintf(last_line, sizeof(last_line), "%s", line);
}

Test(moves, too_many_words_need_a_table) {
    static uint8_t data[64];
    hd_gpu_row_t row[33];
    for (int i = 0; i < 33; i++) {
        row[i] = (hd_gpu_row_t){data, data + 32, 8, false};
    }
    hd_gpu_launch_t launch;
    hd_log_capture(keep_line, NULL);
    cr_expect_eq(hd_gpu_rows(&launch, row, 32, (hd_gpu_width_t){1, false}, NULL), UCC_OK);
    cr_expect_eq(hd_gpu_rows(&launch, row, 33, (hd_gpu_width_t){1, false}, NULL),
                 UCC_ERR_NO_RESOURCE);
    cr_expect(strstr(last_line, "132 words") != NULL, "%s", last_line);
    hd_log_capture(NULL, NULL);
}

Test(moves, a_word_is_written_once_and_by_one_thread) {
    uint64_t *word = run_memory(3 * sizeof(*word)), seed = 5;
    word[0] = 1, word[1] = 2, word[2] = 3;
    hd_gpu_launch_t launch;
    hd_gpu_write_word(&launch, &word[1], UINT64_C(0x123456789abcdef0));
    cr_assert_str_eq(hd_gpu_kernel[launch.kernel].name, "hd_word");
    run_watch(word, 3 * sizeof(*word));
    run_launch(&launch, (run_grid_t){0, 0}, &seed);
    cr_expect(word[0] == 1 && word[1] == UINT64_C(0x123456789abcdef0) && word[2] == 3);
    run_memory_free(word);
}
