/* test_thresholds.c: what plans and the engine's rows ask alike. */
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
