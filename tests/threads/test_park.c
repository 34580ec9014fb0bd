/* test_park.c: bells, and the sleep from which they wake. Sleeping itself is in test_futex.c. */
#include "threads/clock.h"
#include "threads/threads.h"

#include <criterion/criterion.h>
#include <pthread.h>

static void init(void) {
    hd_clock_init();
    hd_park_init();
}

TestSuite(park, .init = init, .timeout = 60);

static uint32_t value(_Atomic uint32_t *word) {
    return atomic_load_explicit(word, memory_order_acquire);
}

/* On a word of its own. */
static bool enlist(hd_bell_t *bell, hd_sleeper_t *sleeper, _Atomic uint32_t *word, bool often) {
    *sleeper = (hd_sleeper_t){.word = word, .mask = UINT32_MAX};
    return hd_bell_enlist(bell, sleeper, often);
}

Test(park, ring_without_sleepers_wakes_nobody) {
    hd_bell_t bell = {0};
    hd_bell_ring(&bell);
    cr_assert_eq(value(&bell.sleepers), 0);
}

Test(park, ring_bumps_the_word_of_a_sleeper) {
    hd_bell_t bell = {0};
    hd_sleeper_t sleeper;
    _Atomic uint32_t word = 0;
    enlist(&bell, &sleeper, &word, false);
    hd_bell_ring(&bell);
    cr_assert_eq(value(&word), 1);
    hd_bell_delist(&sleeper);
}

Test(park, ring_reaches_every_sleeper_of_the_bell) {
    hd_bell_t bell = {0};
    hd_sleeper_t sleeper[5];
    _Atomic uint32_t word[5] = {0};
    for (int i = 0; i < 5; i++) {
        enlist(&bell, &sleeper[i], &word[i], false);
    }
    hd_bell_ring(&bell);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(value(&word[i]), 1);
        hd_bell_delist(&sleeper[i]);
    }
}

Test(park, sleepers_may_go_in_any_order) {
    static const int orders[][3] = {{0, 1, 2}, {1, 0, 2}, {2, 1, 0}, {1, 2, 0}};
    for (int k = 0; k < 4; k++) {
        hd_bell_t bell = {0};
        hd_sleeper_t sleeper[3];
        _Atomic uint32_t word[3] = {0};
        for (int i = 0; i < 3; i++) {
            enlist(&bell, &sleeper[i], &word[i], false);
        }
        hd_bell_delist(&sleeper[orders[k][0]]);
        hd_bell_ring(&bell);
        for (int i = 0; i < 3; i++) {
            cr_assert_eq(value(&word[i]), i != orders[k][0]);
        }
        hd_bell_delist(&sleeper[orders[k][1]]);
        hd_bell_delist(&sleeper[orders[k][2]]);
        cr_assert_eq(value(&bell.sleepers), 0);
        cr_assert_null(bell.list);
    }
}

Test(park, one_thread_may_stand_on_several_bells_with_one_word) {
    hd_bell_t a = {0}, b = {0};
    hd_sleeper_t on_a, on_b;
    _Atomic uint32_t word = 0;
    enlist(&a, &on_a, &word, false);
    enlist(&b, &on_b, &word, false);
    hd_bell_ring(&a);
    hd_bell_ring(&b);
    cr_assert_eq(value(&word), 2);
    hd_bell_delist(&on_b);
    hd_bell_delist(&on_a);
}

/* --- who is rung ------------------------------------------------------------------------------ */

Test(park, sleeper_is_rung_once) {
    hd_bell_t bell = {0};
    hd_sleeper_t sleeper;
    _Atomic uint32_t word = 0;
    enlist(&bell, &sleeper, &word, false);
    hd_bell_ring(&bell);
    hd_bell_ring(&bell);
    cr_assert(hd_sleeper_is_rung(&sleeper));
    cr_assert_eq(value(&word), 1);
    cr_assert_eq(value(&bell.sleepers), 0);
    hd_bell_delist(&sleeper);
    cr_assert_eq(value(&bell.sleepers), 0);
}

static bool is_set(const hd_awaited_t *awaited) {
    return *(const bool *)awaited->where;
}

Test(park, ring_passes_by_whose_wait_is_not_over) {
    hd_bell_t bell = {0};
    bool first = false, second = false;
    _Atomic uint32_t word[2] = {0};
    hd_sleeper_t sleeper[2] = {
        {.word = &word[0], .mask = UINT32_MAX, .awaited = {.has_come = is_set, .where = &first}},
        {.word = &word[1], .mask = UINT32_MAX, .awaited = {.has_come = is_set, .where = &second}}};
    hd_bell_enlist(&bell, &sleeper[0], false);
    hd_bell_enlist(&bell, &sleeper[1], false);
    hd_bell_ring(&bell);
    cr_assert_not(hd_sleeper_is_rung(&sleeper[0]) || hd_sleeper_is_rung(&sleeper[1]));
    second = true;
    hd_bell_ring(&bell);
    cr_assert_not(hd_sleeper_is_rung(&sleeper[0]));
    cr_assert(hd_sleeper_is_rung(&sleeper[1]));
    first = true;
    hd_bell_ring(&bell);
    cr_assert(hd_sleeper_is_rung(&sleeper[0]));
    cr_assert_eq(value(&word[0]) + value(&word[1]), 2);
    hd_bell_delist(&sleeper[0]);
    hd_bell_delist(&sleeper[1]);
}

/* More than a mask has bits: each has one all the same. */
Test(park, sleepers_on_the_bells_word_are_told_apart) {
    enum { BITS = 32, MANY = BITS + 3 };
    hd_bell_t bell = {0};
    hd_sleeper_t sleeper[MANY];
    uint32_t seen = 0;
    for (int i = 0; i < MANY; i++) {
        sleeper[i] = (hd_sleeper_t){.word = &bell.word};
        hd_bell_enlist(&bell, &sleeper[i], false);
        cr_assert_eq(__builtin_popcount(sleeper[i].mask), 1);
        cr_assert(i >= BITS || !(seen & sleeper[i].mask));
        seen |= sleeper[i].mask;
    }
    hd_bell_delist(&sleeper[5]);
    sleeper[5] = (hd_sleeper_t){.word = &bell.word};
    hd_bell_enlist(&bell, &sleeper[5], false);
    cr_assert_eq(sleeper[5].mask, UINT32_C(1) << 5);
    hd_bell_ring(&bell);
    cr_assert_eq(value(&bell.word), 1);
    for (int i = 0; i < MANY; i++) {
        cr_assert(hd_sleeper_is_rung(&sleeper[i]));
        hd_bell_delist(&sleeper[i]);
    }
    cr_assert_eq(bell.masks, 0);
}

Test(park, bell_is_watched_while_sleepers_come_and_go_often) {
    hd_bell_t bell = {0};
    hd_sleeper_t sleeper;
    _Atomic uint32_t word = 0;
    uint64_t began = hd_ticks();
    cr_assert_not(enlist(&bell, &sleeper, &word, true)); /* this one must fence all */
    cr_assert_gt(bell.watched_until, began);
    hd_bell_begin_watch(&sleeper);
    hd_bell_delist(&sleeper);
    bell.watched_until = UINT64_MAX; /* a busy machine may take longer over this than a watch */
    hd_bell_ring(&bell);
    cr_assert(enlist(&bell, &sleeper, &word, false));
    bell.watched_until = 0;
    hd_bell_ring(&bell); /* somebody sleeps: not now */
    hd_bell_delist(&sleeper);
    cr_assert(enlist(&bell, &sleeper, &word, false));
    hd_bell_delist(&sleeper);
    hd_bell_ring(&bell);
    cr_assert_eq(value(&bell.sleepers), 0);
    cr_assert_not(enlist(&bell, &sleeper, &word, false));
    hd_bell_delist(&sleeper);
}

/* Stores of ringers that came before the watch are not everywhere yet. */
Test(park, until_the_first_watcher_has_fenced_others_must_as_well) {
    hd_bell_t bell = {0};
    hd_sleeper_t first, second, third;
    _Atomic uint32_t word[3] = {0};
    cr_assert_not(enlist(&bell, &first, &word[0], true));
    cr_assert_not(enlist(&bell, &second, &word[1], true));
    hd_bell_begin_watch(&second); /* that says nothing: it did not begin the watch */
    hd_bell_delist(&second);
    hd_bell_ring(&bell); /* the first is rung, and nobody is left */
    bell.watched_until = 0;
    hd_bell_ring(&bell); /* the watch does not end under its fence */
    cr_assert_not(enlist(&bell, &second, &word[1], true));
    hd_bell_begin_watch(&first);
    cr_assert(enlist(&bell, &third, &word[2], false));
    hd_bell_delist(&first);
    hd_bell_delist(&second);
    hd_bell_delist(&third);
    bell.watched_until = 0;
    hd_bell_ring(&bell);
    cr_assert_eq(value(&bell.sleepers), 0);
}

/* --- the protocol ----------------------------------------------------------------------------- */

typedef struct duo {
    hd_bell_t bell;
    bool often; /* and on the bell's word */
    _Atomic uint32_t ready, rounds_seen;
} duo_t;

enum { ROUNDS = 3000 };

/* The protocol of park.c's head comment, without any time-out: a lost wake-up hangs the test. */
static void sleep_once(duo_t *duo, uint32_t round) {
    _Atomic uint32_t own = 0, *word = duo->often ? &duo->bell.word : &own;
    hd_sleeper_t sleeper;
    if (enlist(&duo->bell, &sleeper, word, duo->often)) {
        atomic_thread_fence(memory_order_seq_cst);
    } else {
        hd_park_fence(false);
        hd_bell_begin_watch(&sleeper);
    }
    while (value(&duo->ready) < round) {
        uint32_t seen = value(word);
        if (hd_sleeper_is_rung(&sleeper)) {
            break;
        }
        hd_park_until(word, seen, sleeper.mask, false, NULL);
    }
    hd_bell_delist(&sleeper);
}

static void *sleeper_thread(void *arg) {
    duo_t *duo = arg;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        while (value(&duo->ready) < round) {
            sleep_once(duo, round);
        }
        atomic_store_explicit(&duo->rounds_seen, round, memory_order_release);
    }
    return NULL;
}

static void run_duo(bool often) {
    duo_t duo = {.often = often};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, sleeper_thread, &duo), 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (uint32_t i = round * 7919u % 3000; i; i--) {
            hd_relax();
        }
        atomic_store_explicit(&duo.ready, round, memory_order_release);
        if (round % 100 == 0) { /* else it lasts as long as the test */
            atomic_store_explicit(&duo.bell.watched_until, 0, memory_order_relaxed);
        }
        hd_bell_ring(&duo.bell);
        while (value(&duo.rounds_seen) < round) {
            sched_yield();
        }
    }
    pthread_join(thread, NULL);
}

Test(park, no_wake_up_is_lost) {
    run_duo(false);
}

Test(park, no_wake_up_is_lost_on_a_watched_bell) {
    run_duo(true);
}

Test(park, no_wake_up_is_lost_without_membarrier) {
    hd_park_has_membarrier = false;
    run_duo(false);
}

static int released;

static void count_release(hd_home_t *home) {
    (void)home;
    released++;
}

Test(park, home_is_released_with_its_last_reference) {
    hd_home_t home = {.refs = 1, .release = count_release};
    hd_home_pin(&home);
    hd_home_unpin(&home);
    cr_assert_eq(released, 0);
    hd_home_unpin(&home);
    cr_assert_eq(released, 1);
}
