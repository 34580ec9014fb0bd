/* test_thresholds.c: what plans and the engine's rows ask alike. */
#include "core/config.h"
#include "shm/internal.h"

#include <criterion/criterion.h>

/* A batch of small blocks is some 64 KiB; what is copied on at once fits the first-level cache. */
Test(thresholds, many_small_blocks_are_taken_by_one_claim) {
    cr_assert_gt(hd_plan_batch(0), 1000);
    cr_assert_eq(hd_plan_batch((64 << 10) - 64), 2);
    cr_assert_eq(hd_plan_batch(64 << 10), 1);
}

Test(thresholds, whole_elements_are_copied_on_in_steps_that_caches_hold) {
    cr_assert_eq(hd_plan_push(1), HD_PUSH_WINDOW);
    cr_assert_eq(hd_plan_push(24), HD_PUSH_WINDOW / 24 * 24);
    cr_assert_eq(hd_plan_push(HD_PUSH_WINDOW), HD_PUSH_WINDOW);
    cr_assert_eq(hd_plan_push(HD_PUSH_WINDOW + 1), HD_PUSH_WINDOW + 1);
}

static size_t streaming_min(const char *machine, uint32_t n) {
    hd_topo_t *topo;
    cr_assert_eq(hd_topo_create(machine, &topo), UCC_OK);
    size_t bytes = hd_plan_streaming_min(topo, n);
    hd_topo_destroy(topo);
    return bytes;
}

/* Sources and results of all that share a cache; never less than a core's own holds. */
Test(thresholds, results_stream_past_caches_that_would_not_hold_them) {
    enum { MIB = 1 << 20 };
    const char *one = "pack:1 l3:1(size=33554432) l2:32(size=1048576) core:1 pu:1",
               *four = "pack:1 l3:4(size=33554432) l2:8(size=1048576) core:1 pu:1",
               *none = "pack:1 core:4 pu:1";
    cr_assert_eq(streaming_min(one, 1), 16 * MIB);
    cr_assert_eq(streaming_min(one, 2), 8 * MIB);
    cr_assert_eq(streaming_min(one, 16), 1 * MIB);
    cr_assert_eq(streaming_min(one, 17), 1 * MIB);
    cr_assert_eq(streaming_min(one, 4096), 1 * MIB);
    cr_assert_eq(streaming_min(four, 4), 16 * MIB);
    cr_assert_eq(streaming_min(four, 5), 8 * MIB);
    cr_assert_gt(streaming_min(none, 2), 0);
}

static uint32_t plain_most(size_t streaming) {
    hd_group_t group = {.n = 2};
    hd_plan_thresholds(&group, &(hd_group_config_t){.streaming_min = streaming});
    return group.plain_most;
}

/* Where they stream, vectors have no say; else as far as a core's own cache goes. */
Test(thresholds, copies_by_vectors_end_before_streaming_begins) {
    uint32_t own = plain_most(SIZE_MAX);
    cr_assert_geq(own, 1 << 16);
    cr_assert_eq(plain_most((size_t)own + 1), own);
    cr_assert_eq(plain_most(own), own - 1);
    cr_assert_eq(plain_most(1000), 999);
    cr_assert_eq(plain_most(1), 0);
    cr_assert_eq(plain_most(0), 0);
}

/* The group of two members, of whose machine a profile says this. */
static hd_group_t with_stores(size_t string, size_t end, size_t streaming, size_t asked) {
    hd_group_t group = {.n = 2};
    hd_group_config_t config = {
        .streaming_min = asked,
        .crossovers = {.string = string, .string_end = end, .streaming = streaming}};
    hd_plan_thresholds(&group, &config);
    return group;
}

Test(thresholds, of_stores_are_the_profile_s_where_it_knows_them) {
    size_t automatic = (size_t)HD_CFG_AUTO, outgrown = hd_plan_streaming_min(hd_topo_get(), 2);
    hd_group_t group = with_stores(1 << 15, 1 << 17, 0, automatic);
    cr_assert(group.string_min == 1 << 15 && group.string_end == 1 << 17);
    cr_assert(group.plain_most == (1 << 15) - 1 && group.streaming_min == outgrown);
    group = with_stores(HD_NEVER, HD_NEVER, 1 << 16, automatic);
    cr_assert(group.streaming_min == 1 << 16 && group.plain_most == (1 << 16) - 1);
    group = with_stores(HD_NEVER, HD_NEVER, HD_NEVER - 1, automatic);
    cr_assert_eq(group.streaming_min, outgrown, "not later than where they outgrow the caches");
    group = with_stores(HD_NEVER, HD_NEVER, 1 << 16, 1 << 20);
    cr_assert_eq(group.streaming_min, 1 << 20, "as asked for");
    group = with_stores(HD_NEVER, HD_NEVER, 0, SIZE_MAX);
    cr_assert(group.plain_most == UINT32_MAX && group.string_min == HD_NEVER);
    cr_assert_eq(group.streaming, HD_STORES_PAGES, "unless they are faster in order");
}
