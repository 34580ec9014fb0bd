/* test_lock.c: the one-word lock when its holder takes long. */
#define _GNU_SOURCE
#include "threads/lock.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

TestSuite(lock, .init = hd_clock_init, .timeout = 60);

static hd_lock_t lock;

/* How often the thread slept; a yield does not count. */
static long sleeps(pid_t thread) {
    char path[64], line[128];
    long n = -1;
    snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)thread);
    FILE *status = fopen(path, "r");
    cr_assert_not_null(status);
    while (n < 0 && fgets(line, sizeof(line), status) != NULL) {
        (void)sscanf(line, "voluntary_ctxt_switches: %ld", &n);
    }
    fclose(status);
    return n;
}

static _Atomic pid_t waiter;

static void *take(void *arg) {
    *(long *)arg = sleeps(gettid());
    atomic_store(&waiter, gettid());
    hd_lock(&lock);
    hd_unlock(&lock);
    return NULL;
}

Test(lock, one_that_is_held_is_refused_until_it_is_given_back) {
    cr_assert(hd_lock_try(&lock));
    cr_assert_not(hd_lock_try(&lock));
    hd_unlock(&lock);
    cr_assert(hd_lock_try(&lock));
}

Test(lock, one_of_all_zeros_is_held_by_nobody) {
    hd_lock_t zeros;
    memset(&zeros, 0, sizeof(zeros));
    cr_assert(hd_lock_try(&zeros));
}

Test(lock, one_that_was_taken_alone_is_refused_to_others) {
    hd_lock_alone(&lock);
    cr_assert_not(hd_lock_try(&lock));
    hd_unlock(&lock);
    cr_assert(hd_lock_try(&lock));
}

Test(lock, child_of_a_fork_may_forget_who_held_it) {
    hd_lock(&lock);
    hd_lock_forget(&lock);
    cr_assert(hd_lock_try(&lock));
    cr_assert_not(hd_lock_try(&lock));
}

/* Under SCHED_FIFO a waiter that only yields would never let a holder of lower priority run. On a
 * machine full of other work a yield takes long, and so does the way to the first sleep. */
Test(lock, whoever_waits_long_sleeps) {
    enum { STEP_MS = 20, BOUND_MS = 20000 };
    pthread_t thread;
    long before = 0;
    bool slept = false;
    hd_lock(&lock);
    cr_assert_eq(pthread_create(&thread, NULL, take, &before), 0);
    for (int ms = 0; ms < BOUND_MS && !slept; ms += STEP_MS) {
        nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000}, NULL);
        pid_t tid = atomic_load(&waiter);
        slept = tid && sleeps(tid) > before;
    }
    hd_unlock(&lock);
    pthread_join(thread, NULL);
    cr_assert(slept);
}
