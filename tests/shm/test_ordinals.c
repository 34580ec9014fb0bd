/* Exchanges of spanning groups have names that all processes agree on, and members the numbers of
 * their endpoints. */
#include "shm/outer.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N = 3, PERSISTENT_DEPTH = 4 };

static const uint32_t numbers[N] = {1, 4, 6}; /* of 8 */
static hd_group_t *group;

static void setup(void) {
    hd_group_config_t config = {.depth = 32,
                                .persistent_depth = PERSISTENT_DEPTH,
                                .flat_max = 8,
                                .lines_max = 256,
                                .staged_max = 16384,
                                .chunk = 1 << 20,
                                .streaming_min = SIZE_MAX,
                                .slices = 128,
                                .spanning = true};
    group = hd_group_create(N, &config);
    group->numbers = numbers;
    group->team_n = 8;
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(hd_group_join(group, i, NULL), UCC_OK);
    }
}

static void teardown(void) {
    hd_home_unpin(&group->home);
}

TestSuite(ordinals, .init = setup, .fini = teardown);

static hd_exchange_name_t name_of(hd_board_t *board, uint64_t k) {
    hd_op_t op = {.group = group};
    op.place.board = board;
    op.place.k = k;
    return hd_op_exchange_name(&op);
}

/* All n members join and leave; what the exchange was called. */
static hd_exchange_name_t use(const hd_subset_t *set, hd_match_class_t class, uint64_t key) {
    hd_board_t *board = NULL;
    uint32_t n = set ? set->local : N;
    for (uint32_t i = 0; i < n; i++) {
        board = hd_match_join(group, set, class, key, i);
        cr_assert_not_null(board);
    }
    hd_exchange_name_t name = name_of(board, board->head->use);
    for (uint32_t i = 0; i < n; i++) {
        hd_match_leave(board);
    }
    return name;
}

Test(ordinals, an_exchange_of_the_main_board_is_called_by_its_number) {
    hd_exchange_name_t name = name_of(group->board, 17);
    cr_assert_eq(name.class, HD_MATCH_NUMBERED);
    cr_assert_eq(name.key, 17);
    cr_assert_eq(name.ordinal, 1);
    cr_assert_null(name.subset);
}

Test(ordinals, a_tag_is_counted_anew_by_each_exchange_and_apart_from_other_tags) {
    for (uint64_t i = 1; i <= 5; i++) {
        hd_exchange_name_t a = use(NULL, HD_MATCH_TAG, 7), b = use(NULL, HD_MATCH_TAG, 8);
        cr_assert_eq(a.class, HD_MATCH_TAG);
        cr_assert_eq(a.key, 7);
        cr_assert_eq(a.ordinal, i);
        cr_assert_eq(b.ordinal, i);
    }
}

Test(ordinals, exchanges_of_a_tag_that_are_open_at_once_are_counted_as_they_are_opened) {
    hd_board_t *first = hd_match_join(group, NULL, HD_MATCH_TAG, 7, 0);
    hd_board_t *second = hd_match_join(group, NULL, HD_MATCH_TAG, 7, 0);
    cr_assert_eq(hd_match_join(group, NULL, HD_MATCH_TAG, 7, 1), first);
    cr_assert_eq(name_of(first, 1).ordinal, 1);
    cr_assert_eq(name_of(second, 1).ordinal, 2);
}

Test(ordinals, counts_outlive_many_other_tags) {
    enum { TAGS = 3000 };
    for (uint64_t tag = 0; tag < TAGS; tag++) {
        cr_assert_eq(use(NULL, HD_MATCH_TAG, tag << 20).ordinal, 1);
    }
    for (uint64_t tag = 0; tag < TAGS; tag++) {
        cr_assert_eq(use(NULL, HD_MATCH_TAG, tag << 20).ordinal, 2);
    }
}

Test(ordinals, an_active_set_is_counted_apart_from_other_sets_and_tags) {
    hd_subset_t even = {0, 2, 4, 2}, odd = {1, 2, 4, 1};
    cr_assert_eq(use(&even, HD_MATCH_ACTIVE_SET, 0).ordinal, 1);
    cr_assert_eq(use(&odd, HD_MATCH_ACTIVE_SET, 0).ordinal, 1);
    cr_assert_eq(use(&even, HD_MATCH_TAG, 0).ordinal, 1);
    hd_exchange_name_t name = use(&even, HD_MATCH_ACTIVE_SET, 0);
    cr_assert_eq(name.ordinal, 2);
    cr_assert_eq(name.subset->n, 4);
}

Test(ordinals, occurrences_of_a_persistent_exchange_are_its_ordinals) {
    hd_board_t *board = hd_match_join(group, NULL, HD_MATCH_PERSISTENT, 3, 0);
    hd_exchange_name_t name = name_of(board, 12);
    cr_assert_eq(name.class, HD_MATCH_PERSISTENT);
    cr_assert_eq(name.key, 3);
    cr_assert_eq(name.ordinal, 12);
}

Test(ordinals, a_sets_board_has_only_the_members_of_this_process) {
    hd_subset_t even = {0, 2, 4, 2};
    cr_assert_eq(hd_match_join(group, &even, HD_MATCH_ACTIVE_SET, 0, 0)->n, 2);
}

Test(ordinals, members_are_called_by_their_endpoints_numbers) {
    hd_op_t op = {.group = group};
    op.place.board = group->board;
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(hd_op_endpoint(&op, i), numbers[i]);
        cr_assert_eq(hd_group_member(group, numbers[i]), i);
    }
    cr_assert_eq(hd_group_member(group, 0), N);
    cr_assert_eq(hd_group_member(group, 7), N);
}

Test(ordinals, members_of_a_set_are_called_by_their_endpoints_numbers_in_the_order_of_the_set) {
    hd_subset_t down = {6, -2, 3, 2}; /* 6, 4, 2: of which 6 and 4 are here */
    hd_op_t op = {.group = group};
    op.place.board = hd_match_join(group, &down, HD_MATCH_ACTIVE_SET, 0, 0);
    cr_assert_eq(hd_op_endpoint(&op, 0), 6);
    cr_assert_eq(hd_op_endpoint(&op, 1), 4);
    cr_assert_eq(hd_op_member(&op, 0), 2);
    cr_assert_eq(hd_op_member(&op, 1), 1);
}

Test(ordinals, without_memory_to_count_nothing_is_opened) {
    use(NULL, HD_MATCH_TAG, 1); /* a board lies in the pool */
    hd_match_label_t label = {.class = HD_MATCH_TAG, .key = 5};
    hd_ordinals_t ordinals = {0};
    hd_alloc_fail_after(0);
    uint64_t ordinal = hd_ordinals_next(&ordinals, &label);
    hd_alloc_fail_after(-1);
    cr_assert_eq(ordinal, 0);
    cr_assert_eq(hd_ordinals_next(&ordinals, &label), 1);
    hd_ordinals_end(&ordinals);
}
