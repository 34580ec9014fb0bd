/* Flow control of a board: the window, the floor, and what seeing all lanes says about it. */
#include "small_group.h"

enum { N = 3, DEPTH = SMALL_DEPTH };

static hd_group_t *group;
static hd_board_t *board;

static void setup(void) {
    group = small_group(N);
    board = group->board;
}

static void teardown(void) {
    hd_home_unpin(&group->home);
}

TestSuite(board, .init = setup, .fini = teardown);

/* As if they had been posted and published. */
static void consume(uint32_t i, uint64_t first, uint64_t last, bool saw_all) {
    hd_member_t *member = board->member[i];
    member->taken = member->taken < last ? last : member->taken;
    for (uint64_t k = first; k <= last; k++) {
        hd_board_consume(board, member, k, saw_all);
    }
}

Test(board, lets_half_the_ring_be_outstanding) {
    for (uint64_t k = 1; k <= DEPTH / 2; k++) {
        cr_assert(hd_board_may_publish(board, board->member[0], k));
    }
    cr_assert_not(hd_board_may_publish(board, board->member[0], DEPTH / 2 + 1));
    consume(0, 1, 1, false);
    cr_assert(hd_board_may_publish(board, board->member[0], DEPTH / 2 + 1));
}

Test(board, does_not_reuse_a_slot_before_all_have_consumed_it) {
    consume(0, 1, DEPTH, false);
    cr_assert_not(hd_board_may_publish(board, board->member[0], DEPTH + 1));
    consume(1, 1, 1, false);
    cr_assert_not(hd_board_may_publish(board, board->member[0], DEPTH + 1), "member 2 lags");
    consume(2, 1, 1, false);
    cr_assert(hd_board_may_publish(board, board->member[0], DEPTH + 1));
    cr_assert_not(hd_board_may_publish(board, board->member[0], DEPTH + 2));
}

Test(board, knows_the_floor_without_a_scan_after_seeing_all_lanes) {
    consume(0, 1, DEPTH, true); /* the others' counts stay at zero: a scan would forbid */
    cr_assert(hd_board_may_publish(board, board->member[0], DEPTH + DEPTH / 2));
}

Test(board, counts_only_a_prefix_as_consumed) {
    consume(0, 2, 2, false);
    cr_assert_eq(atomic_load(&board->shared[0]->consumed), 0);
    consume(0, 1, 1, false);
    cr_assert_eq(atomic_load(&board->shared[0]->consumed), 2);
}

Test(board, shares_a_floor_that_one_member_computed) {
    for (uint32_t i = 0; i < N; i++) {
        consume(i, 1, DEPTH, false);
    }
    cr_assert(hd_board_may_publish(board, board->member[0], 2 * DEPTH - DEPTH / 2));
    cr_assert_geq(atomic_load(&board->head->floor), DEPTH / 2);
}

Test(board, starts_afresh_after_a_reset) {
    for (uint32_t i = 0; i < N; i++) {
        consume(i, 1, DEPTH, false);
    }
    hd_board_reset(board);
    cr_assert_eq(atomic_load(&board->shared[1]->consumed), 0);
    cr_assert_not(hd_board_may_publish(board, board->member[1], DEPTH / 2 + 1));
}
