/* test_clock.c: calibration of ticks, with clocks that are interrupted at the worst moment. */
#include "threads/clock.h"

#include <criterion/criterion.h>
#include <time.h>

/* A machine whose counter runs at 2,500 ticks per microsecond; each read takes 20 ns. */
static struct {
    uint64_t now, reads, preempted_at, preempted_for, period;
    double rate;
} fake;

static void pass(void) {
    fake.now += 20;
    if (++fake.reads == fake.preempted_at) {
        fake.now += fake.preempted_for;
        fake.preempted_at += fake.period;
    }
}

static uint64_t fake_ns(void) {
    uint64_t seen = fake.now;
    pass();
    return seen;
}

static uint64_t fake_ticks(void) {
    uint64_t seen = (uint64_t)((double)fake.now * fake.rate);
    pass();
    return seen;
}

static const hd_clock_reader_t reader = {fake_ns, fake_ticks};

static void start(uint64_t preempted_at, uint64_t period) {
    fake.now = 1000000;
    fake.reads = 0;
    fake.rate = 2.5;
    fake.preempted_at = preempted_at;
    fake.preempted_for = 5000000;
    fake.period = period;
}

Test(clock, rate_is_that_of_the_counter) {
    start(0, 0);
    cr_assert_eq(hd_clock_rate(&reader), 2500);
}

Test(clock, preemption_at_any_read_does_not_bend_the_rate) {
    for (uint64_t at = 1; at < 400; at++) {
        start(at, 0);
        uint64_t rate = hd_clock_rate(&reader);
        cr_assert(rate >= 2450 && rate <= 2550, "%llu after a preemption at read %llu",
                  (unsigned long long)rate, (unsigned long long)at);
    }
}

Test(clock, repeated_preemption_does_not_bend_the_rate) {
    for (uint64_t at = 1; at < 12; at++) {
        start(at, 7);
        uint64_t rate = hd_clock_rate(&reader);
        cr_assert(rate >= 2450 && rate <= 2550, "%llu", (unsigned long long)rate);
    }
}

/* Faster and faster: its pace follows the processor's. */
static uint64_t drifting_ticks(void) {
    double now = (double)fake.now;
    pass();
    return (uint64_t)(now + 0.25e-5 * now * now);
}

Test(clock, counter_without_a_rate_is_found_out) {
    static const hd_clock_reader_t drifting = {fake_ns, drifting_ticks};
    start(0, 0);
    cr_assert_eq(hd_clock_rate(&drifting), 0);
}

Test(clock, counter_that_is_not_invariant_or_not_synchronised_is_not_trusted) {
    cr_assert(hd_clock_trusts(true, "tsc kvm-clock\n"));
    cr_assert(hd_clock_trusts(true, NULL));
    cr_assert_not(hd_clock_trusts(false, "tsc hpet\n"));
    cr_assert_not(hd_clock_trusts(true, "hpet acpi_pm\n")); /* the kernel struck it off */
}

/* Whatever ticks are, they pass as fast as they say. */
static void follows_the_clock(void) {
    uint64_t ns = hd_clock_ns(), ticks = hd_ticks();
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    double counted = (double)(hd_ticks() - ticks) / (double)hd_ticks_per_us;
    double passed = (double)(hd_clock_ns() - ns) * 1e-3;
    cr_assert(counted > 0.5 * passed && counted < 2 * passed, "%.0f us in %.0f us", counted,
              passed);
}

Test(clock, ticks_follow_the_clock) {
    hd_clock_init();
    follows_the_clock();
}

Test(clock, ticks_are_nanoseconds_where_the_counter_is_not_used) {
    hd_clock_counts_cycles = false; /* as calibration leaves it */
    hd_ticks_per_us = 1000;
    follows_the_clock();
}
