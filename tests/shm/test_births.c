/* test_births.c: what participants say of a team that is formed in the memory of a group, as two
 * mappings of that memory see it: those of two processes, both of which are this one here.
 */
#include "shm/small_group.h"

#include <criterion/criterion.h>

static void init(void) {
    hd_park_init();
}

TestSuite(births, .init = init, .timeout = 20);

enum { N = 70 }; /* more than a word has bits */

static small_pair_t open_two(void) {
    small_pair_t two = small_pair_open(N);
    cr_expect_neq(two.group[0]->mapping.base, two.group[1]->mapping.base);
    return two;
}

static const uint64_t name[2] = {3, 1}, another[2] = {3, 2};

Test(births, are_over_when_all_have_said_whether_they_take_part) {
    small_pair_t two = open_two();
    hd_birth_t *birth[N];
    for (uint32_t i = 0; i < N; i++) {
        hd_group_t *group = i % 3 ? two.group[0] : two.group[1];
        birth[i] = hd_birth_come(group, name, N);
        cr_assert(birth[i]);
        cr_expect_eq(hd_birth_status(birth[i]), UCC_INPROGRESS);
        cr_expect(!hd_birth_hears(birth[i], i));
        hd_birth_say(group, birth[i], i, UCC_OK, i % 2);
        cr_expect(hd_birth_hears(birth[0], i));
    }
    for (uint32_t i = 0; i < N; i++) {
        hd_group_t *group = i % 3 ? two.group[0] : two.group[1];
        cr_expect_eq(hd_birth_status(birth[i]), UCC_OK);
        cr_expect_eq(hd_birth_has(group, birth[i], (i + 1) % N), ((i + 1) % N) % 2);
        hd_birth_leave(group, birth[i], i);
    }
    small_pair_close(two);
}

Test(births, are_led_by_who_asks_first) {
    small_pair_t two = open_two();
    hd_birth_t *one = hd_birth_come(two.group[0], name, 2),
               *same = hd_birth_come(two.group[1], name, 2);
    cr_expect_eq(hd_birth_leader(same, 1), 1);
    cr_expect_eq(hd_birth_leader(one, 0), 1);
    small_pair_close(two);
}

Test(births, are_found_by_who_comes_when_the_others_have_failed_and_left) {
    small_pair_t two = open_two();
    hd_birth_t *early = hd_birth_come(two.group[0], name, 2);
    hd_birth_say(two.group[0], early, 0, UCC_ERR_NO_MEMORY, false);
    hd_birth_leave(two.group[0], early, 0);
    hd_birth_t *late = hd_birth_come(two.group[1], name, 2);
    cr_expect_eq(hd_birth_status(late), UCC_ERR_NO_MEMORY);
    cr_expect_eq(hd_birth_culprit(late), 0);
    cr_expect(hd_birth_fail(late, 1, UCC_ERR_IO_ERROR)); /* the first cause stays */
    cr_expect_eq(hd_birth_status(late), UCC_ERR_NO_MEMORY);
    cr_expect_eq(hd_birth_culprit(late), 0);
    hd_birth_say(two.group[1], late, 1, UCC_OK, true);
    hd_birth_leave(two.group[1], late, 1);
    /* it was given back: the next of that name is a new one */
    cr_expect_eq(hd_birth_status(hd_birth_come(two.group[0], name, 2)), UCC_INPROGRESS);
    small_pair_close(two);
}

Test(births, count_each_participant_once) {
    small_pair_t two = open_two();
    hd_birth_t *birth = hd_birth_come(two.group[0], name, 2);
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(hd_birth_come(two.group[0], name, 2), birth);
        hd_birth_say(two.group[0], birth, 0, UCC_OK, true);
        hd_birth_leave(two.group[0], birth, 0);
        cr_expect_eq(hd_birth_status(birth), UCC_INPROGRESS);
    }
    hd_birth_t *same = hd_birth_come(two.group[1], name, 2);
    hd_birth_say(two.group[1], same, 1, UCC_OK, true);
    cr_expect_eq(hd_birth_status(same), UCC_OK);
    cr_expect_eq(hd_birth_culprit(same), UINT32_MAX);
    cr_expect(!hd_birth_fail(birth, 1, UCC_ERR_NOT_FOUND), "some may have read that all come");
    small_pair_close(two);
}

Test(births, that_are_given_back_are_taken_again) {
    small_pair_t two = open_two();
    hd_birth_t *first = NULL;
    for (uint64_t i = 1; i <= 100; i++) {
        const uint64_t of[2] = {i, 7};
        hd_birth_t *birth = hd_birth_come(two.group[0], of, 1);
        first = first ? first : birth;
        cr_expect_eq(birth, first);
        hd_birth_say(two.group[0], birth, 0, UCC_OK, true);
        hd_birth_leave(two.group[0], birth, 0);
    }
    hd_birth_t *one = hd_birth_come(two.group[0], name, 1);
    hd_birth_t *two_at_once = hd_birth_come(two.group[1], another, 1);
    cr_expect_neq((uint8_t *)one - two.group[0]->mapping.base,
                  (uint8_t *)two_at_once - two.group[1]->mapping.base);
    small_pair_close(two);
}

Test(births, for_which_one_found_no_memory_have_failed_for_who_finds_some_later) {
    small_pair_t two = open_two();
    hd_birth_t *other = hd_birth_come(two.group[0], another, 1);
    while (hd_mapping_give(two.group[0], HD_LINE)) {
    }
    hd_log_set_level(HD_LOG_FATAL);
    cr_expect_null(hd_birth_come(two.group[0], name, 2));
    hd_birth_say(two.group[0], other, 0, UCC_OK, true);
    hd_birth_leave(two.group[0], other, 0);
    hd_birth_t *late = hd_birth_come(two.group[1], name, 2);
    cr_assert(late);
    cr_expect_eq(hd_birth_status(late), UCC_ERR_NO_MEMORY);
    hd_birth_say(two.group[1], late, 1, UCC_OK, true);
    hd_birth_leave(two.group[1], late, 1);
    /* it was given back, and nobody of the next one of that name is missing */
    hd_birth_t *next[2];
    for (uint32_t i = 0; i < 2; i++) {
        next[i] = hd_birth_come(two.group[i], name, 2);
        cr_assert(next[i]);
        cr_expect_eq(hd_birth_status(next[i]), UCC_INPROGRESS);
    }
    /* whom all of that name have missed, nobody waits for */
    const uint64_t third[2] = {3, 3};
    cr_expect_null(hd_birth_come(two.group[0], third, 2));
    cr_expect_null(hd_birth_come(two.group[1], third, 2));
    for (uint32_t i = 0; i < 2; i++) {
        hd_birth_say(two.group[i], next[i], i, UCC_OK, true);
        hd_birth_leave(two.group[i], next[i], i);
    }
    hd_birth_t *another_time = hd_birth_come(two.group[1], third, 2);
    cr_assert(another_time);
    cr_expect_eq(hd_birth_status(another_time), UCC_INPROGRESS);
    small_pair_close(two);
}

Test(births, know_what_was_agreed_on) {
    small_pair_t two = open_two();
    cr_expect(!hd_group_is_agreed(two.group[1], 1, 0), "no decision has no name");
    hd_group_tell_agreed(two.group[0], 1, 99);
    cr_expect(hd_group_is_agreed(two.group[1], 1, 99));
    cr_expect(!hd_group_is_agreed(two.group[1], 1, 98));
    cr_expect(!hd_group_is_agreed(two.group[1], 2, 99));
    small_pair_close(two);
}

Test(births, remember_what_is_over_by_the_last_names) {
    small_pair_t two = open_two();
    for (uint64_t i = 1; i <= HD_OVER; i++) {
        cr_expect(!hd_group_is_over(two.group[1], i));
        hd_group_tell_over(two.group[i % 2], i);
        hd_group_tell_over(two.group[0], 1); /* once more says nothing */
    }
    for (uint64_t i = 1; i <= HD_OVER; i++) {
        cr_expect(hd_group_is_over(two.group[1], i));
    }
    for (uint64_t i = HD_OVER + 1; i <= 1000; i++) {
        hd_group_tell_over(two.group[0], i);
    }
    cr_expect(hd_group_is_over(two.group[1], 1000));
    cr_expect(!hd_group_is_over(two.group[1], 1));
    small_pair_close(two);
}

/* What comes from another process is looked at. */
Test(births, are_in_no_memory_that_is_another_team_s) {
    small_pair_t two = open_two();
    hd_group_config_t config = two.group[1]->config;
    hd_node_segment_t segment;
    cr_assert_eq(hd_segment_create(two.group[0]->mapping.bytes, &segment), UCC_OK);
    config.process = 1;
    cr_expect_null(hd_group_of(&segment, N, &config), "of zeros");
    hd_segment_close(&segment);
    cr_assert_eq(hd_segment_create(4096, &segment), UCC_OK);
    cr_expect_null(hd_group_of(&segment, N, &config), "too short");
    hd_segment_close(&segment);
    cr_expect_null(hd_group_of(&two.segment, N + 1, &config), "of fewer endpoints");
    config.processes = 3;
    cr_expect_null(hd_group_of(&two.segment, N, &config), "of fewer processes");
    small_pair_close(two);
}
