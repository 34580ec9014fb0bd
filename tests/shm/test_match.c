/* Matching by key: order of joins, pools, subsets. */
#include "small_group.h"

enum { N = 3 };

static hd_group_t *group;

static void setup(void) {
    group = small_group(N);
}

static void teardown(void) {
    hd_home_unpin(&group->home);
}

TestSuite(match, .init = setup, .fini = teardown);

static hd_board_t *join(uint64_t tag, uint32_t me) {
    hd_board_t *board = hd_match_join(group, NULL, HD_MATCH_TAG, tag, me);
    cr_assert_not_null(board);
    return board;
}

Test(match, meets_in_the_oldest_exchange_of_a_tag) {
    hd_board_t *first = join(5, 0), *second = join(5, 0);
    cr_assert_neq(first, second);
    cr_assert_eq(join(5, 1), first);
    cr_assert_eq(join(5, 1), second);
    cr_assert_eq(join(5, 2), first);
    cr_assert_eq(join(5, 2), second);
}

Test(match, keeps_tags_and_classes_apart) {
    hd_board_t *tag5 = join(5, 0), *tag6 = join(6, 0);
    hd_board_t *init5 = hd_match_join(group, NULL, HD_MATCH_INIT, 5, 0);
    cr_assert_neq(tag5, tag6);
    cr_assert_neq(tag5, init5);
    cr_assert_eq(join(6, 1), tag6);
    cr_assert_eq(hd_match_join(group, NULL, HD_MATCH_INIT, 5, 2), init5);
}

Test(match, tells_64_bit_tags_apart) {
    cr_assert_neq(join(1, 0), join(1 + ((uint64_t)1 << 40), 0));
    cr_assert_neq(join(UINT64_MAX, 1), join(UINT16_MAX, 1));
}

Test(match, reuses_a_board_only_when_all_have_left) {
    hd_board_t *board = join(1, 0);
    uint64_t use = board->head->use;
    join(1, 1);
    join(1, 2);
    hd_match_leave(board);
    hd_match_leave(board);
    hd_board_t *other = join(2, 0);
    cr_assert_neq(other, board);
    hd_match_leave(board);
    cr_assert_eq(join(3, 0), board);
    cr_assert_eq(board->head->use, use + 1);
}

Test(match, gives_a_full_exchange_no_fourth_member) {
    hd_board_t *board = join(1, 0);
    join(1, 1);
    join(1, 2);
    cr_assert_neq(join(1, 0), board);
}

static hd_board_t *join_set(uint64_t start, int64_t stride, uint32_t n, uint32_t me) {
    hd_subset_t set = {start, stride, n, n};
    hd_board_t *board = hd_match_join(group, &set, HD_MATCH_ACTIVE_SET, 0, me);
    cr_assert_not_null(board);
    return board;
}

Test(match, keeps_active_sets_apart) {
    hd_board_t *board = join_set(2, -1, 2, 0);
    cr_assert_eq(board->n, 2);
    cr_assert_neq(join_set(0, 1, 2, 0), board);
    cr_assert_neq(join_set(2, -2, 2, 0), board);
    cr_assert_neq(join_set(2, -1, 3, 0), board);
    cr_assert_eq(join_set(2, -1, 2, 1), board);
}

Test(match, a_board_serves_any_active_set_of_its_size) {
    hd_board_t *board = join_set(0, 1, 2, 0);
    join_set(0, 1, 2, 1);
    hd_match_leave(board);
    hd_match_leave(board);
    cr_assert_neq(join(7, 0), board);
    cr_assert_neq(join_set(0, 1, 3, 0), board);
    cr_assert_eq(join_set(2, -2, 2, 1), board);
}
