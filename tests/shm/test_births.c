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

typedef struct two {
    hd_group_t *maker, *other;
    hd_node_segment_t segment;
} two_t;

static two_t open_two(void) {
    hd_group_config_t config = small_config();
    config.processes = 2;
    config.apart = true;
    two_t two = {.maker = hd_group_create(N, &config)};
    cr_assert(two.maker);
    two.segment = hd_group_take_segment(two.maker);
    config.process = 1;
    two.other = hd_group_of(&two.segment, N, &config);
    cr_assert(two.other);
    cr_expect_neq(two.maker->mapping.base, two.other->mapping.base);
    return two;
}

static void close_two(two_t two) {
    hd_segment_close(&two.segment);
    hd_home_unpin(&two.other->home);
    hd_home_unpin(&two.maker->home);
}

static const uint64_t name[2] = {3, 1}, another[2] = {3, 2};

Test(births, are_over_when_all_have_said_whether_they_take_part) {
    two_t two = open_two();
    hd_birth_t *birth[N];
    for (uint32_t i = 0; i < N; i++) {
        hd_group_t *group = i % 3 ? two.maker : two.other;
        birth[i] = hd_birth_come(group, name, N);
        cr_assert(birth[i]);
        cr_expect_eq(hd_birth_status(birth[i]), UCC_INPROGRESS);
        cr_expect(!hd_birth_hears(birth[i], i));
        hd_birth_say(group, birth[i], i, UCC_OK, i % 2);
        cr_expect(hd_birth_hears(birth[0], i));
    }
    for (uint32_t i = 0; i < N; i++) {
        hd_group_t *group = i % 3 ? two.maker : two.other;
        cr_expect_eq(hd_birth_status(birth[i]), UCC_OK);
        cr_expect_eq(hd_birth_has(group, birth[i], (i + 1) % N), ((i + 1) % N) % 2);
        hd_birth_leave(group, birth[i], i);
    }
    close_two(two);
}

Test(births, are_led_by_who_asks_first) {
    two_t two = open_two();
    hd_birth_t *one = hd_birth_come(two.maker, name, 2), *same = hd_birth_come(two.other, name, 2);
    cr_expect_eq(hd_birth_leader(same, 1), 1);
    cr_expect_eq(hd_birth_leader(one, 0), 1);
    close_two(two);
}

Test(births, are_found_by_who_comes_when_the_others_have_failed_and_left) {
    two_t two = open_two();
    hd_birth_t *early = hd_birth_come(two.maker, name, 2);
    hd_birth_say(two.maker, early, 0, UCC_ERR_NO_MEMORY, false);
    hd_birth_leave(two.maker, early, 0);
    hd_birth_t *late = hd_birth_come(two.other, name, 2);
    cr_expect_eq(hd_birth_status(late), UCC_ERR_NO_MEMORY);
    cr_expect(hd_birth_fail(late, UCC_ERR_IO_ERROR)); /* the first cause stays */
    cr_expect_eq(hd_birth_status(late), UCC_ERR_NO_MEMORY);
    hd_birth_say(two.other, late, 1, UCC_OK, true);
    hd_birth_leave(two.other, late, 1);
    /* it was given back: the next of that name is a new one */
    cr_expect_eq(hd_birth_status(hd_birth_come(two.maker, name, 2)), UCC_INPROGRESS);
    close_two(two);
}

Test(births, count_each_participant_once) {
    two_t two = open_two();
    hd_birth_t *birth = hd_birth_come(two.maker, name, 2);
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(hd_birth_come(two.maker, name, 2), birth);
        hd_birth_say(two.maker, birth, 0, UCC_OK, true);
        hd_birth_leave(two.maker, birth, 0);
        cr_expect_eq(hd_birth_status(birth), UCC_INPROGRESS);
    }
    hd_birth_t *same = hd_birth_come(two.other, name, 2);
    hd_birth_say(two.other, same, 1, UCC_OK, true);
    cr_expect_eq(hd_birth_status(same), UCC_OK);
    cr_expect(!hd_birth_fail(birth, UCC_ERR_NOT_FOUND), "some may have read that all come");
    close_two(two);
}

Test(births, that_are_given_back_are_taken_again) {
    two_t two = open_two();
    hd_birth_t *first = NULL;
    for (uint64_t i = 1; i <= 100; i++) {
        const uint64_t of[2] = {i, 7};
        hd_birth_t *birth = hd_birth_come(two.maker, of, 1);
        first = first ? first : birth;
        cr_expect_eq(birth, first);
        hd_birth_say(two.maker, birth, 0, UCC_OK, true);
        hd_birth_leave(two.maker, birth, 0);
    }
    hd_birth_t *one = hd_birth_come(two.maker, name, 1);
    hd_birth_t *two_at_once = hd_birth_come(two.other, another, 1);
    cr_expect_neq((uint8_t *)one - two.maker->mapping.base,
                  (uint8_t *)two_at_once - two.other->mapping.base);
    close_two(two);
}

Test(births, know_what_was_agreed_on) {
    two_t two = open_two();
    cr_expect(!hd_group_is_agreed(two.other, 1, 0), "no decision has no name");
    hd_group_tell_agreed(two.maker, 1, 99);
    cr_expect(hd_group_is_agreed(two.other, 1, 99));
    cr_expect(!hd_group_is_agreed(two.other, 1, 98));
    cr_expect(!hd_group_is_agreed(two.other, 2, 99));
    close_two(two);
}

/* What comes from another process is looked at. */
Test(births, are_in_no_memory_that_is_another_team_s) {
    two_t two = open_two();
    hd_group_config_t config = two.other->config;
    hd_node_segment_t segment;
    cr_assert_eq(hd_segment_create(two.maker->mapping.bytes, &segment), UCC_OK);
    config.process = 1;
    cr_expect_null(hd_group_of(&segment, N, &config), "of zeros");
    hd_segment_close(&segment);
    cr_assert_eq(hd_segment_create(4096, &segment), UCC_OK);
    cr_expect_null(hd_group_of(&segment, N, &config), "too short");
    hd_segment_close(&segment);
    cr_expect_null(hd_group_of(&two.segment, N + 1, &config), "of fewer endpoints");
    config.processes = 3;
    cr_expect_null(hd_group_of(&two.segment, N, &config), "of fewer processes");
    close_two(two);
}
