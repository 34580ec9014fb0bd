/* test_futex.c: sleeping on a word, and waking who sleeps there. */
#include "threads/clock.h"
#include "threads/threads.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

TestSuite(futex, .init = hd_clock_init, .timeout = 60);

static uint64_t us_since(uint64_t ticks) {
    return (hd_ticks() - ticks) / hd_ticks_per_us;
}

Test(futex, sleep_ends_at_once_if_the_word_has_changed) {
    _Atomic uint32_t word = 1;
    hd_park_sleep(&word, 0, UINT64_MAX);
}

Test(futex, sleep_ends_with_its_timeout) {
    _Atomic uint32_t word = 0;
    uint64_t began = hd_ticks();
    hd_park_sleep(&word, 0, 20000000);
    cr_assert_geq(us_since(began), 19000);
}

Test(futex, sleep_until_a_time_that_has_passed_says_that_it_is_over) {
    _Atomic uint32_t word = 0;
    struct timespec past = {0};
    cr_assert_not(hd_park_until(&word, 0, UINT32_MAX, false, &past));
    cr_assert(
        hd_park_until(&word, 1, UINT32_MAX, false, &past)); /* the word has changed: not a sleep */
}

static void *sleep_for_ever(void *word) {
    while (atomic_load_explicit((_Atomic uint32_t *)word, memory_order_acquire) == 0) {
        hd_park_sleep(word, 0, UINT64_MAX);
    }
    return NULL;
}

Test(futex, sleeper_is_woken) {
    _Atomic uint32_t word = 0;
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, sleep_for_ever, &word), 0);
    usleep(20000); /* most likely it sleeps by now */
    atomic_store_explicit(&word, 1, memory_order_release);
    hd_park_wake(&word, UINT32_MAX, false);
    pthread_join(thread, NULL);
}

Test(futex, signal_makes_an_event_readable) {
    struct pollfd event = {.fd = eventfd(0, EFD_NONBLOCK), .events = POLLIN};
    cr_assert_eq(poll(&event, 1, 0), 0);
    hd_park_signal(event.fd);
    cr_assert_eq(poll(&event, 1, 0), 1);
    close(event.fd);
}
