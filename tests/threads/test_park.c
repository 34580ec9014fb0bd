/* test_park.c: bells, and the sleep from which they wake. */
#include "threads/clock.h"
#include "threads/threads.h"

#include <criterion/criterion.h>
#include <pthread.h>

static void init(void) {
    hd_clock_init();
    hd_park_init();
}

TestSuite(park, .init = init, .timeout = 60);

static uint64_t us_since(uint64_t ticks) {
    return (hd_ticks() - ticks) / hd_ticks_per_us;
}

static uint32_t value(_Atomic uint32_t *word) {
    return atomic_load_explicit(word, memory_order_acquire);
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
    hd_bell_enlist(&bell, &sleeper, &word, NULL);
    hd_bell_ring(&bell);
    cr_assert_eq(value(&word), 1);
    hd_bell_delist(&sleeper);
}

Test(park, ring_reaches_every_sleeper_of_the_bell) {
    hd_bell_t bell = {0};
    hd_sleeper_t sleeper[5];
    _Atomic uint32_t word[5] = {0};
    for (int i = 0; i < 5; i++) {
        hd_bell_enlist(&bell, &sleeper[i], &word[i], NULL);
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
            hd_bell_enlist(&bell, &sleeper[i], &word[i], NULL);
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
    hd_bell_enlist(&a, &on_a, &word, NULL);
    hd_bell_enlist(&b, &on_b, &word, NULL);
    hd_bell_ring(&a);
    hd_bell_ring(&b);
    cr_assert_eq(value(&word), 2);
    hd_bell_delist(&on_b);
    hd_bell_delist(&on_a);
}

Test(park, sleep_ends_at_once_if_the_word_has_changed) {
    _Atomic uint32_t word = 1;
    hd_park_sleep(&word, 0, UINT64_MAX);
}

Test(park, sleep_ends_with_its_timeout) {
    _Atomic uint32_t word = 0;
    uint64_t began = hd_ticks();
    hd_park_sleep(&word, 0, 20000000);
    cr_assert_geq(us_since(began), 19000);
}

typedef struct duo {
    hd_bell_t bell;
    _Atomic uint32_t ready, rounds_seen;
} duo_t;

enum { ROUNDS = 3000 };

/* The protocol of park.c's head comment, without any time-out: a lost wake-up hangs the test. */
static void *sleeper_thread(void *arg) {
    duo_t *duo = arg;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        while (value(&duo->ready) < round) {
            _Atomic uint32_t word = 0;
            hd_sleeper_t sleeper;
            hd_bell_enlist(&duo->bell, &sleeper, &word, NULL);
            hd_park_fence();
            if (value(&duo->ready) < round) {
                hd_park_sleep(&word, 0, UINT64_MAX);
            }
            hd_bell_delist(&sleeper);
        }
        atomic_store_explicit(&duo->rounds_seen, round, memory_order_release);
    }
    return NULL;
}

static void run_duo(void) {
    duo_t duo = {.ready = 0};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, sleeper_thread, &duo), 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (uint32_t i = round * 7919u % 3000; i; i--) {
            hd_relax();
        }
        atomic_store_explicit(&duo.ready, round, memory_order_release);
        hd_bell_ring(&duo.bell);
        while (value(&duo.rounds_seen) < round) {
            sched_yield();
        }
    }
    pthread_join(thread, NULL);
}

Test(park, no_wake_up_is_lost) {
    run_duo();
}

Test(park, no_wake_up_is_lost_without_membarrier) {
    hd_park_has_membarrier = false;
    run_duo();
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
