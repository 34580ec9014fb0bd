/* test_wait.c: when a thread that looks in vain gives up its processor. */
#include "threads/threads.h"

#include <criterion/criterion.h>
#include <sys/resource.h>

TestSuite(wait, .init = hd_clock_init, .timeout = 60);

static uint64_t ticks_of_ns(uint64_t ns) {
    return ns * hd_ticks_per_us / 1000u;
}

Test(wait, caller_that_comes_back_at_once_is_tight) {
    hd_idle_t idle = {.last = 1000000};
    cr_assert(hd_idle_is_tight(&idle, idle.last + ticks_of_ns(50)));
}

Test(wait, caller_that_did_something_in_between_is_not_tight) {
    hd_idle_t idle = {.last = 1000000};
    cr_assert_not(hd_idle_is_tight(&idle, idle.last + ticks_of_ns(5000)));
}

Test(wait, first_call_ever_is_not_tight) {
    hd_idle_t idle = {0};
    cr_assert_not(hd_idle_is_tight(&idle, hd_ticks()));
}

Test(wait, note_returns_the_time_spent_looking) {
    hd_idle_t idle = {.budget = UINT64_MAX};
    uint64_t began = hd_ticks() - ticks_of_ns(2000);
    uint64_t looked = hd_idle_note(&idle, began, UINT64_MAX, NULL);
    cr_assert_geq(looked, ticks_of_ns(1900));
    cr_assert_eq(idle.spent, looked);
}

Test(wait, preemption_does_not_count_as_looking) {
    hd_idle_t idle = {.budget = UINT64_MAX};
    uint64_t a_second_ago = hd_ticks() - ticks_of_ns(1000000000);
    cr_assert_lt(hd_idle_note(&idle, a_second_ago, UINT64_MAX, NULL), ticks_of_ns(1000000));
}

Test(wait, looking_within_the_budget_does_not_yield) {
    hd_idle_t idle = {.budget = UINT64_MAX};
    hd_idle_note(&idle, hd_ticks(), UINT64_MAX, NULL);
    uint64_t first = idle.spent;
    hd_idle_note(&idle, hd_ticks() - ticks_of_ns(100), UINT64_MAX, NULL);
    cr_assert_gt(idle.spent, first); /* a yield would have cleared it */
    cr_assert_eq(idle.budget, UINT64_MAX);
}

Test(wait, looking_beyond_the_budget_yields_and_starts_again) {
    uint64_t enough = ticks_of_ns(1000000000), now = hd_ticks();
    hd_idle_t idle = {.last = now, .spent = enough, .budget = enough};
    hd_idle_note(&idle, now, ticks_of_ns(200000), NULL);
    cr_assert_eq(idle.spent, 0);
}

/* It has other contexts to look at, or work to do: it yields after it has looked as long here. */
Test(wait, caller_that_was_away_longer_than_it_looked_does_not_yield) {
    uint64_t looked = ticks_of_ns(1000000), now = hd_ticks();
    hd_idle_t idle = {.last = now - ticks_of_ns(500000000), .spent = looked, .budget = 1};
    hd_idle_note(&idle, now, ticks_of_ns(200000), NULL);
    cr_assert_geq(idle.spent, looked);
}

Test(wait, nobody_is_known_to_wait_for_the_processor_at_first) {
    hd_idle_t idle;
    hd_idle_init(&idle);
    cr_assert_not(hd_idle_is_crowded(&idle));
    cr_assert_gt(hd_idle_left(&idle), 0);
}

Test(wait, crowded_caller_has_nothing_left_to_spin) {
    hd_idle_t idle = {.budget = 0};
    cr_assert(hd_idle_is_crowded(&idle));
    cr_assert_eq(hd_idle_left(&idle), 0);
}

/* Each yield either doubles the budget, from the shortest spin on, or leaves none. */
Test(wait, budget_is_none_or_between_the_shortest_spin_and_twice_the_longest) {
    uint64_t longest = ticks_of_ns(200000);
    hd_idle_t idle = {0};
    for (int i = 0; i < 1000; i++) {
        idle.spent = ticks_of_ns(1000000000); /* more than any preemption between the lines here */
        idle.last = hd_ticks();
        hd_idle_note(&idle, idle.last, longest, NULL);
        cr_assert(idle.budget == 0 || idle.budget >= ticks_of_ns(500));
        cr_assert_leq(idle.budget, 2 * longest);
    }
}

static uint64_t switches(void) {
    struct rusage use;
    cr_assert_eq(getrusage(RUSAGE_THREAD, &use), 0);
    return (uint64_t)(use.ru_nvcsw + use.ru_nivcsw);
}

/* By their length alone, after the first ones: one in four may be misjudged, which interrupts
 * lengthen. */
Test(wait, yields_that_let_nobody_run_are_taken_for_what_they_are) {
    int alone = 0, misjudged = 0;
    for (int i = 0; i < 10000; i++) {
        hd_idle_t idle = {.spent = ticks_of_ns(1000000000), .last = hd_ticks()};
        uint64_t before = switches();
        hd_idle_note(&idle, idle.last, UINT64_MAX, NULL);
        if (switches() == before) {
            alone++;
            misjudged += hd_idle_is_crowded(&idle);
        }
    }
    cr_assert_leq(misjudged, alone / 4, "%d of %d", misjudged, alone);
}

/* --- with processors -------------------------------------------------------------------------- */

static ucc_status_t never(hd_task_t *task) {
    (void)task;
    return UCC_INPROGRESS;
}

static long naps(void) {
    struct rusage use;
    getrusage(RUSAGE_THREAD, &use);
    return use.ru_nvcsw; /* a yield is none */
}

static void prepare_wait(hd_runner_t *runner, hd_task_t *task, hd_home_t *home) {
    hd_runner_init(runner, true, 64, 1000000); /* no yield, from which it might learn */
    runner->may_doze = true;
    *task = (hd_task_t){.magic = HD_TASK_LIVE, .step = never, .home = home};
    task->req.status = UCC_INPROGRESS;
    task->context = (hd_context_t *)(void *)runner;
    hd_runner_push(runner, task);
}

/* Asleep, they would look idle, and be left on one processor. */
Test(wait, members_of_roomy_teams_look_for_long_before_they_sleep) {
    enum { SPIN_US = 100 };
    hd_home_t roomy = {.refs = 1, .roomy = true}, other = {.refs = 1};
    hd_runner_t runner;
    hd_task_t task;
    prepare_wait(&runner, &task, &roomy);
    long before = naps();
    cr_assert_eq(hd_runner_wait(&runner, &task, 20e-6 * SPIN_US, true, SPIN_US), UCC_INPROGRESS);
    cr_assert_eq(naps(), before);
    prepare_wait(&runner, &task, &other);
    for (int i = 0; i < 1000 && naps() == before; i++) {
        hd_runner_wait(&runner, &task, 20e-6 * SPIN_US, true, SPIN_US);
    }
    cr_assert_gt(naps(), before);
}

/* Their members wait for other processes, and have processors. */
Test(wait, context_of_roomy_teams_looks_for_long_before_it_yields) {
    hd_home_t roomy = {.roomy = true}, crowded = {0};
    hd_task_t second = {.home = &crowded}, first = {.home = &roomy};
    hd_runner_t runner = {.active = &first};
    uint64_t longest = ticks_of_ns(200000);
    runner.idle = (hd_idle_t){.spent = ticks_of_ns(10000), .last = hd_ticks()};
    hd_idle_note(&runner.idle, runner.idle.last, longest, &runner);
    cr_assert_eq(runner.idle.budget, longest);
    cr_assert_neq(runner.idle.spent, 0);
    first.next = &second;
    runner.idle = (hd_idle_t){.spent = ticks_of_ns(10000), .last = hd_ticks()};
    hd_idle_note(&runner.idle, runner.idle.last, longest, &runner);
    cr_assert_eq(runner.idle.spent, 0);
}

Test(wait, success_forgets_the_time_spent_in_vain) {
    hd_idle_t idle = {.spent = 12345, .budget = 777};
    hd_idle_reset(&idle);
    cr_assert_eq(idle.spent, 0);
    cr_assert_eq(idle.budget, 777);
}

Test(wait, ticks_follow_the_clock) {
    struct timespec nap = {.tv_nsec = 20000000};
    uint64_t before = hd_ticks();
    nanosleep(&nap, NULL);
    uint64_t us = (hd_ticks() - before) / hd_ticks_per_us;
    cr_assert_geq(us, 19000);
}

Test(wait, bell_that_rings_soon_after_a_thread_went_to_sleep_has_it_spin_longer_next_time) {
    hd_idle_t idle = {0};
    cr_assert_eq(hd_idle_spin(&idle, 1000), 1000);
    hd_idle_slept(&idle, 1000, 7000, true);
    cr_assert_eq(hd_idle_spin(&idle, 1000), 2000);
    for (int i = 0; i < 10; i++) {
        hd_idle_slept(&idle, 1000, 100, true);
    }
    cr_assert_eq(hd_idle_spin(&idle, 1000), 16000, "there is a most");
    hd_idle_slept(&idle, 1000, 16000 * 20, true);
    cr_assert_eq(hd_idle_spin(&idle, 1000), 16000, "neither soon nor late");
}

Test(wait, late_bell_and_none_at_all_have_it_sleep_early_again) {
    hd_idle_t idle = {.patience = 4};
    hd_idle_slept(&idle, 1000, 16000 * 65, true);
    cr_assert_eq(hd_idle_spin(&idle, 1000), 1000);
    idle.patience = 3;
    hd_idle_slept(&idle, 1000, 10, false);
    cr_assert_eq(hd_idle_spin(&idle, 1000), 1000);
}

Test(wait, thread_that_is_to_sleep_at_once_does) {
    hd_idle_t idle = {0};
    hd_idle_slept(&idle, 0, 10, true);
    cr_assert_eq(hd_idle_spin(&idle, 0), 0);
}
