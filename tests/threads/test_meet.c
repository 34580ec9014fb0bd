/* test_meet.c: where endpoints of one process find each other. */
#include "core/mem.h"
#include "threads/meet.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

TestSuite(meet, .timeout = 60);

static hd_meet_key_t key_of(uint64_t id) {
    return (hd_meet_key_t){.kind = HD_MEET_ID, .id = id};
}

static hd_meeting_t *meet(const hd_meet_key_t *key, uint32_t size, uint32_t *me, uint64_t label,
                          bool included) {
    hd_meeting_t *meeting = NULL;
    cr_assert_eq(hd_meet(key, size, me, label, included, &meeting), UCC_OK);
    return meeting;
}

static hd_meeting_t *join(const hd_meet_key_t *key, uint32_t size, uint32_t me) {
    return meet(key, size, &me, 100 + me, true);
}

static hd_meet_key_t list_of(uint64_t number) {
    return (hd_meet_key_t){.kind = HD_MEET_LIST, .id = number};
}

Test(meet, equal_keys_meet) {
    hd_meet_key_t key = key_of(1);
    hd_meeting_t *a = join(&key, 2, 0), *b = join(&key, 2, 1);
    cr_assert_not_null(a);
    cr_assert_eq(a, b);
    hd_meeting_release(a, false);
    hd_meeting_release(b, false);
}

Test(meet, meeting_is_complete_when_all_have_come) {
    hd_meet_key_t key = key_of(2);
    hd_meeting_t *a = join(&key, 2, 1);
    cr_assert_not(hd_meeting_is_complete(a));
    hd_meeting_t *b = join(&key, 2, 0);
    cr_assert(hd_meeting_is_complete(a));
    hd_meeting_release(a, false);
    hd_meeting_release(b, false);
}

Test(meet, whatever_differs_in_the_key_keeps_apart) {
    uint64_t list[2] = {1, 2}, other[2] = {1, 3};
    hd_meet_key_t base = {
        .kind = HD_MEET_LIST, .scope = 11, .id = 3, .list = hd_fingerprint(list, 2)};
    hd_meet_key_t keys[6] = {base, base, base, base, base, base};
    keys[1].kind = HD_MEET_SPLIT;
    keys[2].scope = 12;
    keys[3].id = 4;
    keys[4].list = hd_fingerprint(other, 2);
    keys[5].list = hd_fingerprint(list, 1);
    hd_meeting_t *meeting[6];
    for (int i = 0; i < 6; i++) {
        meeting[i] = join(&keys[i], 2, 0);
        for (int j = 0; j < i; j++) {
            cr_assert_neq(meeting[i], meeting[j], "keys %d and %d", i, j);
        }
    }
    for (int i = 0; i < 6; i++) {
        hd_meeting_release(meeting[i], false);
    }
}

Test(meet, fingerprint_tells_lists_apart) {
    uint64_t list[3] = {7, 8, 9}, copy[3] = {7, 8, 9}, swapped[3] = {8, 7, 9}, zeros[3] = {0};
    hd_fingerprint_t f[5] = {hd_fingerprint(list, 3), hd_fingerprint(list, 2),
                             hd_fingerprint(swapped, 3), hd_fingerprint(zeros, 3),
                             hd_fingerprint(zeros, 2)};
    hd_fingerprint_t again = hd_fingerprint(copy, 3);
    cr_assert_eq(f[0].word[0], again.word[0]);
    cr_assert_eq(f[0].word[1], again.word[1]);
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < i; j++) {
            cr_assert(f[i].word[0] != f[j].word[0] && f[i].word[1] != f[j].word[1]);
        }
    }
}

/* Whoever contradicts an open meeting fails it, for those who are in it and for those who still
 * come. */
static void contradicts(hd_meet_key_t key, hd_meet_kind_t kind, uint32_t size, uint32_t me) {
    hd_meeting_t *first = join(&key, 3, 0), *none = NULL;
    hd_meet_key_t odd = key;
    odd.kind = kind;
    cr_assert_eq(hd_meet(&odd, size, &me, 0, true, &none), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(hd_meeting_failed(first), UCC_ERR_INVALID_PARAM);
    uint32_t late = 2;
    cr_assert_eq(hd_meet(&key, 3, &late, 0, true, &none), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(none, first, "there was memory");
    hd_meeting_t *again = join(&key, 3, 0); /* it may try again, knowing that it has failed */
    cr_assert_neq(again, first);
    cr_assert_eq(hd_meeting_failed(again), UCC_OK);
    hd_meeting_release(first, false);
    hd_meeting_release(again, false);
}

Test(meet, another_size_with_the_same_id_is_a_contradiction) {
    contradicts(key_of(5), HD_MEET_ID, 4, 3);
}

Test(meet, the_same_number_twice_with_the_same_id_is_a_contradiction) {
    contradicts(key_of(25), HD_MEET_ID, 3, 0);
}

Test(meet, another_way_to_number_with_the_same_id_is_a_contradiction) {
    contradicts(key_of(35), HD_MEET_LABELS, 3, HD_MEET_ANY);
}

Test(meet, who_lacks_memory_for_a_meeting_has_not_been_counted) {
    hd_meet_key_t key = key_of(55);
    hd_meeting_t *none;
    for (long allocations = 0; allocations < 3; allocations++) {
        uint32_t me = 0;
        hd_alloc_fail_after(allocations);
        cr_assert_eq(hd_meet(&key, 2, &me, 0, true, &none), UCC_ERR_NO_MEMORY);
        hd_alloc_fail_after(-1);
        cr_assert_null(none);
    }
    hd_meeting_t *first = join(&key, 2, 0), *second = join(&key, 2, 1);
    cr_assert_eq(first, second);
    hd_meeting_release(first, false);
    hd_meeting_release(second, false);
}

Test(meet, participant_that_gives_up_fails_those_who_have_come_and_those_who_will) {
    hd_meet_key_t key = list_of(45);
    hd_meeting_t *a = join(&key, 3, 0), *b = join(&key, 3, 1), *none = NULL;
    uint32_t last = 2;
    hd_meeting_fail(a, UCC_ERR_NO_MEMORY);
    hd_meeting_fail(a, UCC_ERR_TIMED_OUT); /* the first cause stays */
    hd_meeting_release(a, false);
    cr_assert_eq(hd_meeting_failed(b), UCC_ERR_NO_MEMORY);
    cr_assert(hd_meeting_has_come(b, 0));
    cr_assert_not(hd_meeting_has_come(b, 2));
    cr_assert_eq(hd_meet(&key, 3, &last, 0, true, &none), UCC_ERR_NO_MEMORY);
    hd_meeting_release(b, false);
    hd_meeting_t *fresh = join(&key, 3, 2);
    cr_assert_eq(hd_meeting_failed(fresh), UCC_OK);
    hd_meeting_release(fresh, false);
}

static int dropped;
static void *make_one(void *arg) {
    return arg;
}
static void count_drop(void *object) {
    (void)object;
    dropped++;
}

Test(meet,
     a_number_to_shrink_a_team_that_has_failed_fails_for_who_comes_when_all_others_have_left) {
    const hd_meet_key_t key = {.kind = HD_MEET_SHRINK, .scope = 4711, .id = 1};
    hd_meeting_t *a = join(&key, 2, 0), *b = NULL;
    int object;
    dropped = 0;
    (void)hd_meeting_object(a, make_one, &object, count_drop);
    hd_meeting_fail(a, UCC_ERR_IO_ERROR);
    hd_meeting_release(a, false);
    cr_assert_eq(dropped, 1, "what it was about stays");
    uint32_t me = 1;
    cr_assert_eq(hd_meet(&key, 2, &me, 0, true, &b), UCC_ERR_IO_ERROR);
    hd_meetings_end(key.scope);
}

Test(meet, participant_that_comes_again_opens_the_next_meeting) {
    hd_meet_key_t key = list_of(6);
    hd_meeting_t *first = join(&key, 2, 0), *second = join(&key, 2, 0);
    cr_assert_neq(first, second);
    cr_assert_eq(join(&key, 2, 1), first);
    cr_assert_eq(join(&key, 2, 1), second);
    for (int i = 0; i < 2; i++) {
        hd_meeting_release(first, false);
        hd_meeting_release(second, false);
    }
}

Test(meet, complete_meeting_has_left_the_table) {
    hd_meet_key_t key = key_of(7);
    hd_meeting_t *first = join(&key, 1, 0), *second = join(&key, 1, 0);
    cr_assert_neq(first, second);
    hd_meeting_release(first, false);
    hd_meeting_release(second, false);
}

Test(meet, any_gives_the_free_numbers) {
    hd_meet_key_t key = key_of(8);
    uint32_t seen = 0;
    hd_meeting_t *meeting = join(&key, 4, 1);
    for (int i = 0; i < 3; i++) {
        uint32_t me = HD_MEET_ANY;
        cr_assert_eq(meet(&key, 4, &me, 0, true), meeting);
        cr_assert_lt(me, 4);
        seen |= 1u << me;
    }
    cr_assert_eq(seen, 0xd); /* all but the one that was taken */
    for (int i = 0; i < 4; i++) {
        hd_meeting_release(meeting, false);
    }
}

Test(meet, labels_and_inclusion_are_everybodys) {
    hd_meet_key_t key = key_of(9);
    hd_meeting_t *meeting = NULL;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t me = i;
        meeting = meet(&key, 3, &me, 50 + i, i != 1);
    }
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(hd_meeting_label(meeting, i), 50 + i);
        cr_assert_eq(hd_meeting_included(meeting, i), i != 1);
    }
    for (int i = 0; i < 3; i++) {
        hd_meeting_release(meeting, false);
    }
}

static int made, dropped;

static void *make(void *arg) {
    made++;
    return arg;
}

static void drop(void *object) {
    (void)object;
    dropped++;
}

Test(meet, object_is_made_once_and_dropped_with_the_meeting) {
    hd_meet_key_t key = key_of(10);
    int object;
    hd_meeting_t *meeting = join(&key, 2, 0);
    cr_assert_eq(join(&key, 2, 1), meeting);
    cr_assert_eq(hd_meeting_object(meeting, make, &object, drop), &object);
    cr_assert_eq(hd_meeting_object(meeting, make, NULL, drop), &object);
    cr_assert_eq(made, 1);
    hd_meeting_release(meeting, false);
    cr_assert_eq(dropped, 0);
    hd_meeting_release(meeting, false);
    cr_assert_eq(dropped, 1);
}

Test(meet, object_that_cannot_be_made_is_not_tried_again) {
    hd_meet_key_t key = key_of(11);
    hd_meeting_t *meeting = join(&key, 1, 0);
    cr_assert_null(hd_meeting_object(meeting, make, NULL, drop));
    cr_assert_null(hd_meeting_object(meeting, make, &key, drop));
    hd_meeting_release(meeting, false);
    cr_assert_eq(dropped, 0);
}

Test(meet, meeting_that_all_gave_up_is_forgotten) {
    hd_meet_key_t key = key_of(12);
    hd_meeting_t *stale = join(&key, 3, 0);
    join(&key, 3, 1);
    hd_meeting_release(stale, false);
    hd_meeting_release(stale, false);
    hd_meeting_t *fresh = join(&key, 3, 2);
    cr_assert_not(hd_meeting_is_complete(fresh));
    join(&key, 3, 0);
    join(&key, 3, 1);
    cr_assert(hd_meeting_is_complete(fresh));
    for (int i = 0; i < 3; i++) {
        hd_meeting_release(fresh, false);
    }
}

Test(meet, who_does_not_wait_is_counted_all_the_same) {
    hd_meet_key_t key = key_of(13);
    hd_meeting_t *meeting = join(&key, 3, 0);
    int object;
    hd_meeting_release(meeting, true);
    cr_assert_eq(join(&key, 3, 1), meeting);
    cr_assert_eq(join(&key, 3, 2), meeting);
    cr_assert(hd_meeting_is_complete(meeting));
    hd_meeting_object(meeting, make, &object, drop);
    hd_meeting_release(meeting, false);
    cr_assert_eq(dropped, 0);
    hd_meeting_release(meeting, false);
    cr_assert_eq(dropped, 1);
}

Test(meet, who_was_told_of_a_failure_comes_for_the_next_one) {
    hd_meet_key_t key = key_of(14);
    hd_meeting_t *stale = join(&key, 3, 0), *none = NULL;
    uint32_t me = 2;
    join(&key, 3, 1);
    hd_meeting_fail(stale, UCC_ERR_NO_MEMORY);
    hd_meeting_release(stale, false);
    cr_assert_eq(hd_meet(&key, 3, &me, 102, true, &none), UCC_ERR_NO_MEMORY);
    hd_meeting_t *fresh = join(&key, 3, 0);
    cr_assert_eq(join(&key, 3, 2), fresh);
    hd_meeting_release(stale, false); /* endpoint 1 learns of it only now */
    cr_assert_eq(join(&key, 3, 1), fresh);
    cr_assert(hd_meeting_is_complete(fresh));
    for (int i = 0; i < 3; i++) {
        hd_meeting_release(fresh, false);
    }
}

/* --- from many threads ------------------------------------------------------------------------ */

enum { THREADS = 6, ROUNDS = 300 };

static _Atomic uint64_t sum;

static void *crowd(void *arg) {
    (void)arg;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        hd_meet_key_t key = key_of(1000 + round);
        uint32_t me = HD_MEET_ANY;
        hd_meeting_t *meeting = meet(&key, THREADS, &me, round, true);
        while (!hd_meeting_is_complete(meeting)) {
            sched_yield();
        }
        atomic_fetch_add(&sum, me + 1);
        hd_meeting_release(meeting, false);
    }
    return NULL;
}

Test(meet, threads_meet_in_every_round) {
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_create(&thread[i], NULL, crowd, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    cr_assert_eq(atomic_load(&sum), (uint64_t)ROUNDS * THREADS * (THREADS + 1) / 2);
}
