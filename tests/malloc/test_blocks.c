/* test_blocks.c: which units of a heap are blocks. No memory is behind them: the test keeps a map.
 */
#include "../support/random.h"
#include "malloc/internal.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(blocks, .timeout = 60);

enum { UNITS = 100000, MOST = 500 };

static hd_blocks_t blocks;
static uint16_t map[UNITS]; /* whose it is; 0: nobody's */
static uint32_t at[MOST];   /* of a block, which has number k + 1 in the map */

static void start(uint32_t n) {
    hd_extent_t *extent = calloc(n, sizeof(*extent));
    cr_assert(extent);
    hd_blocks_init(&blocks, extent, n);
    for (uint32_t k = 0; k < MOST; k++) {
        at[k] = HD_NO_BLOCK;
    }
}

static void mark(uint32_t begin, uint32_t end, uint16_t from, uint16_t to) {
    for (uint32_t i = begin; i < end; i++) {
        cr_assert_eq(map[i], from, "unit %u is %u's", i, map[i]);
        map[i] = to;
    }
}

/* What is said of each unit is what the map has; extents and sums are whole. */
static void check(void) {
    uint64_t worn = 0;
    bool was_free = false;
    uint32_t i = 0;
    while (i < blocks.n) {
        uint32_t units = hd_blocks_units(&blocks, i), length = blocks.extent[i].length & 0x3fffffff;
        cr_assert_neq(length, 0);
        cr_assert(!units || units == length);
        cr_assert(units || !was_free, "two free extents meet at %u", i);
        was_free = !units;
        worn += units ? 0 : blocks.extent[i].worn;
        cr_assert(units || blocks.extent[i].worn <= length);
        for (uint32_t u = i; u < i + length; u++) {
            cr_assert_eq(map[u] != 0, units != 0);
            cr_assert(u == i || hd_blocks_units(&blocks, u) == 0);
        }
        i += length;
    }
    cr_assert_eq(i, blocks.n);
    cr_assert_eq(worn, blocks.kept);
    hd_run_t run = {0, 0};
    for (i = 0; i <= blocks.n; i = run.end) {
        run = hd_blocks_used(&blocks, i);
        for (uint32_t u = i; u < run.end; u++) {
            cr_assert_eq(map[u] != 0, u >= run.begin);
        }
        if (run.begin == run.end) {
            break;
        }
    }
}

static void take(uint32_t k, uint32_t units, uint32_t align) {
    at[k] = hd_blocks_take(&blocks, units, align);
    if (at[k] != HD_NO_BLOCK) {
        cr_assert_eq(at[k] % align, 0);
        cr_assert_eq(hd_blocks_units(&blocks, at[k]), units);
        mark(at[k], at[k] + units, 0, (uint16_t)(k + 1));
    }
}

static void give(uint32_t k) {
    uint32_t units = hd_blocks_units(&blocks, at[k]);
    mark(at[k], at[k] + units, (uint16_t)(k + 1), 0);
    hd_run_t back = hd_blocks_give(&blocks, at[k]);
    mark(back.begin, back.end, 0, 0);
    at[k] = HD_NO_BLOCK;
}

static void resize(uint32_t k, uint32_t units) {
    uint32_t had = hd_blocks_units(&blocks, at[k]);
    if (units < had) {
        hd_blocks_cut(&blocks, at[k], units);
        mark(at[k] + units, at[k] + had, (uint16_t)(k + 1), 0);
        cr_assert_eq(hd_blocks_units(&blocks, at[k] + units), had - units);
        (void)hd_blocks_give(&blocks, at[k] + units);
    } else if (units > had && hd_blocks_lengthen(&blocks, at[k], units)) {
        mark(at[k] + had, at[k] + units, 0, (uint16_t)(k + 1));
    }
}

Test(blocks, are_apart_whatever_comes_and_goes) {
    uint64_t random = 7;
    start(UNITS);
    for (uint32_t step = 0; step < 40000; step++) {
        uint32_t k = (uint32_t)random_below(&random, MOST);
        uint32_t units =
            1 + (uint32_t)random_below(&random, random_below(&random, 20) ? 100 : 3000);
        if (at[k] == HD_NO_BLOCK) {
            take(k, units, 1u << random_below(&random, random_below(&random, 4) ? 1 : 10));
        } else if (random_below(&random, 3)) {
            give(k);
        } else {
            resize(k, units);
        }
        if (step % 2000 == 0) {
            check();
        }
    }
    for (uint32_t k = 0; k < MOST; k++) {
        if (at[k] != HD_NO_BLOCK) {
            give(k);
        }
    }
    check();
    take(0, UNITS, 1); /* all is one again */
    cr_expect_eq(at[0], 0);
}

Test(blocks, the_last_units_are_had) {
    start(1000);
    take(0, 900, 1);
    take(1, 101, 1);
    cr_expect_eq(at[1], HD_NO_BLOCK);
    take(1, 100, 1); /* that is the length of its bin's extents only in part */
    cr_expect_eq(at[1], 900);
    take(2, 1, 1);
    cr_expect_eq(at[2], HD_NO_BLOCK);
    give(1);
    take(1, 97, 4);
    cr_expect_eq(at[1], 900);
}

Test(blocks, no_number_is_too_large) {
    start(1000);
    cr_expect_eq(hd_blocks_take(&blocks, UINT32_MAX, 1), HD_NO_BLOCK);
    cr_expect_eq(hd_blocks_take(&blocks, 1, 1u << 31), HD_NO_BLOCK);
    cr_expect_eq(hd_blocks_take(&blocks, 1001, 1), HD_NO_BLOCK);
    cr_expect_eq(hd_blocks_units(&blocks, 1000), 0);
    cr_expect_eq(hd_blocks_take(&blocks, 1000, 1), 0);
}

Test(blocks, memory_that_nobody_uses_goes_back_but_for_some) {
    start(UNITS);
    uint32_t given = 0;
    for (uint32_t k = 0; k < 20; k++) {
        take(k, 2000, 1);
    }
    for (uint32_t k = 0; k < 20; k++) {
        at[k] = k * 2000;
        mark(at[k], at[k] + 2000, (uint16_t)(k + 1), 0);
        hd_run_t back = hd_blocks_give(&blocks, at[k]);
        given += back.end - back.begin;
        cr_expect_leq(blocks.kept, HD_KEPT + HD_WORTH);
    }
    cr_expect_geq(given, 20 * 2000 - HD_KEPT);
    cr_expect_eq(blocks.fresh, 20 * 2000);
}
