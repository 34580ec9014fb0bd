/* test_sleep.c: whom a publication wakes among those who sleep in operations of the group. */
#define _GNU_SOURCE
#include "shm/internal.h"
#include "../support/small.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static void sleep_at_once(void) {
    setenv("HEDDLE_PARK_SPIN_US", "0", 1);
}

TestSuite(sleep, .init = sleep_at_once, .timeout = 60);

enum { ROUNDS = 10, GAP_US = 1000 };

typedef struct run {
    uint32_t n;
    ucc_status_t (*call)(heddle_ep_t *ep, uint32_t n);
    _Atomic long switches; /* of those who came first, over all rounds */
    _Atomic int failures;
} run_t;

static long sleeps(void) {
    struct rusage use;
    getrusage(RUSAGE_THREAD, &use);
    return use.ru_nvcsw; /* a yield is none */
}

/* One after the other, everybody else asleep by then. */
static void come_one_by_one(heddle_ep_t *ep, void *arg) {
    run_t *run = arg;
    uint32_t me = heddle_ep_index(ep);
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec gap = {.tv_nsec = (long)me * GAP_US * 1000};
        run->failures += heddle_barrier(ep) != UCC_OK;
        if (me) {
            nanosleep(&gap, NULL);
        }
        long before = sleeps();
        run->failures += run->call(ep, run->n) != UCC_OK;
        if (me == 0) {
            run->switches += sleeps() - before;
        }
    }
}

static void first_one_sleeps_through(uint32_t n, ucc_status_t (*call)(heddle_ep_t *, uint32_t)) {
    run_t run = {.n = n, .call = call};
    cr_assert_eq(heddle_run(n, come_one_by_one, &run), UCC_OK);
    cr_assert_eq(run.failures, 0);
    /* woken by each of the others, it would sleep n - 1 times a round; on a busy machine it may
     * come late itself */
    cr_assert_leq(run.switches, 3 * ROUNDS, "%ld sleeps in %d rounds of %u", run.switches, ROUNDS,
                  n);
}

static ucc_status_t barrier(heddle_ep_t *ep, uint32_t n) {
    (void)n;
    return heddle_barrier(ep);
}

static ucc_status_t allreduce(heddle_ep_t *ep, uint32_t n) {
    double x = 1;
    ucc_status_t status = heddle_allreduce(ep, &x, &x, 1, UCC_DT_FLOAT64, UCC_OP_SUM);
    return status == UCC_OK && x != n ? UCC_ERR_NO_MESSAGE : status;
}

Test(sleep, one_wake_up_ends_a_flat_barrier) {
    first_one_sleeps_through(8, barrier);
}

Test(sleep, one_wake_up_ends_a_barrier_by_tree) {
    first_one_sleeps_through(20, barrier);
}

Test(sleep, one_wake_up_ends_an_allreduce) {
    first_one_sleeps_through(8, allreduce);
}

/* --- what ends it otherwise ------------------------------------------------------------------- */

enum { LATE_US = 20000 };

/* The root comes last but one: nobody may wait for the last. */
static void bcast_without_the_last(heddle_ep_t *ep, void *arg) {
    run_t *run = arg;
    uint32_t me = heddle_ep_index(ep);
    struct timespec late = {.tv_nsec = LATE_US * 1000L}, later = {.tv_nsec = 4 * LATE_US * 1000L};
    if (me == 0) {
        nanosleep(&late, NULL);
    } else if (me == run->n - 1) {
        nanosleep(&later, NULL);
    }
    uint64_t began = hd_ticks();
    int value = me == 0 ? 42 : 0;
    run->failures += heddle_bcast(ep, &value, 1, UCC_DT_INT32, 0) != UCC_OK || value != 42;
    uint64_t us = (hd_ticks() - began) / hd_ticks_per_us;
    if (me != 0 && me != run->n - 1 && us > 3 * LATE_US) {
        run->switches++; /* late once: the machine may be busy */
    }
}

Test(sleep, who_waits_for_the_root_waits_for_nobody_else) {
    run_t run = {.n = 6};
    int late = 0;
    for (int i = 0; i < 5; i++) {
        run.switches = 0;
        cr_assert_eq(heddle_run(run.n, bcast_without_the_last, &run), UCC_OK);
        late += run.switches > 0;
    }
    cr_assert_eq(run.failures, 0);
    cr_assert_lt(late, 5);
}

/* Both sleep in calls that wait for different lanes, neither of which comes. */
static void disagree_on_roots(heddle_ep_t *ep, void *arg) {
    run_t *run = arg;
    uint32_t me = heddle_ep_index(ep);
    int value = 0;
    struct timespec gap = {.tv_nsec = (long)me * GAP_US * 1000};
    nanosleep(&gap, NULL);
    run->failures += heddle_bcast(ep, &value, 1, UCC_DT_INT32, (me + 1) % run->n) != UCC_OK;
}

Test(sleep, sleepers_find_that_they_disagree) {
    run_t run = {.n = 6};
    heddle_run(run.n, disagree_on_roots, &run);
    cr_assert_eq(run.failures, (int)run.n);
}
