/* test_span.c: which endpoints live in which process, as all processes see it. */
#include "span/span.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(span, .timeout = 20);

/* Of 7 endpoints; what tells processes apart may be any numbers. */
static const uint32_t homes[] = {90, 7, 90, 12, 7, 7, 90};

Test(span, numbers_processes_by_their_lowest_endpoints) {
    static const uint32_t expected[] = {0, 1, 0, 2, 1, 1, 0};
    hd_span_t *span = hd_span_create(7, homes, 3);
    cr_assert_eq(span->n, 7);
    cr_assert_eq(span->processes, 3);
    cr_assert_eq(span->mine, 2);
    for (uint32_t i = 0; i < 7; i++) {
        cr_expect_eq(span->process_of[i], expected[i]);
    }
    hd_free(span);
}

Test(span, lists_the_endpoints_of_each_process_ascending) {
    static const uint32_t expected[] = {0, 2, 6, 1, 4, 5, 3}, local[] = {0, 0, 1, 0, 1, 2, 2};
    hd_span_t *span = hd_span_create(7, homes, 0);
    for (uint32_t i = 0; i < 7; i++) {
        cr_expect_eq(span->endpoint[i], expected[i]);
        cr_expect_eq(span->local_of[i], local[i]);
        cr_expect_eq(hd_span_endpoint(span, span->process_of[i], span->local_of[i]), i);
    }
    cr_expect_eq(hd_span_count(span, 0), 3);
    cr_expect_eq(hd_span_count(span, 1), 3);
    cr_expect_eq(hd_span_count(span, 2), 1);
    hd_free(span);
}

Test(span, is_the_same_in_all_processes_but_for_whose_it_is) {
    hd_span_t *first = hd_span_create(7, homes, 0), *other = hd_span_create(7, homes, 4);
    cr_assert_eq(first->mine, 0);
    cr_assert_eq(other->mine, 1);
    cr_assert_arr_eq(first->endpoint, other->endpoint, 7 * sizeof(uint32_t));
    cr_assert_arr_eq(first->first, other->first, 4 * sizeof(uint32_t));
    hd_free(first);
    hd_free(other);
}

Test(span, of_a_set_numbers_the_processes_that_are_in_it_by_their_lowest_members) {
    hd_span_t *team = hd_span_create(7, homes, 1);
    hd_subset_t set = {.start = 5, .stride = -2, .n = 3}; /* 5, 3, 1: processes 1, 2, 1 */
    hd_span_t *span = hd_span_of_set(team, &set);
    cr_assert_eq(span->n, 3);
    cr_assert_eq(span->processes, 2);
    cr_assert_eq(span->mine, 0);
    cr_assert_eq(span->team_process[0], 1);
    cr_assert_eq(span->team_process[1], 2);
    cr_assert_eq(span->set.local, 2);
    cr_assert_eq(hd_span_endpoint(span, 0, 1), 2);
    cr_assert_neq(span->set_hash, 0);
    hd_free(span);
    hd_free(team);
}

Test(span, sets_that_differ_have_different_names) {
    hd_span_t *team = hd_span_create(7, homes, 0);
    static const hd_subset_t sets[] = {
        {0, 1, 3, 0}, {0, 2, 3, 0}, {0, 1, 2, 0}, {2, -1, 3, 0}, {2, 2, 3, 0}};
    uint64_t names[5];
    for (uint32_t i = 0; i < 5; i++) {
        hd_span_t *span = hd_span_of_set(team, &sets[i]);
        names[i] = span->set_hash;
        hd_free(span);
        for (uint32_t j = 0; j < i; j++) {
            cr_expect_neq(names[i], names[j]);
        }
    }
    hd_free(team);
}

Test(span, without_memory_there_is_none) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    for (long n = 0; n < 2; n++) {
        hd_alloc_fail_after(n);
        hd_span_t *span = hd_span_create(7, homes, 0);
        hd_alloc_fail_after(-1);
        cr_expect_null(span);
    }
}

/* Blocks of endpoints that are together, if so many processes have so many endpoints each, one
 * after the other. */
static void check_blocks(uint32_t n, uint32_t each, uint32_t together, uint32_t blocks) {
    uint32_t process_of[512];
    for (uint32_t i = 0; i < n; i++) {
        process_of[i] = i / each;
    }
    hd_span_t *span = hd_span_create(n, process_of, 0);
    cr_expect_eq(span->together, together, "%u of %u: %u", each, n, span->together);
    cr_expect_eq(span->blocks, blocks, "%u of %u: %u", each, n, span->blocks);
    hd_free(span);
}

Test(span, knows_which_blocks_of_reductions_live_in_one_process) {
    check_blocks(4, 1, 1, 4);
    check_blocks(4, 2, 1, 4);
    check_blocks(16, 8, 8, 2);
    check_blocks(11, 8, 8, 2);
    check_blocks(32, 16, 8, 4);
    check_blocks(24, 12, 1, 24);
    check_blocks(200, 64, 64, 4);
    check_blocks(512, 128, 64, 8);
    hd_span_t *mixed = hd_span_create(7, homes, 0);
    cr_expect_eq(mixed->together, 1);
    cr_expect_eq(mixed->blocks, 7);
    hd_free(mixed);
}
