/* test_lock.c: the one-word lock when its holder takes long. */
#define _GNU_SOURCE
#include "threads/lock.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

TestSuite(lock, .init = hd_clock_init, .timeout = 60);

static hd_lock_t lock;

/* How often the calling thread slept; a yield does not count. */
static long sleeps(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

static void *take(void *arg) {
    long before = sleeps();
    hd_lock(&lock);
    hd_unlock(&lock);
    *(long *)arg = sleeps() - before;
    return NULL;
}

/* Under SCHED_FIFO a waiter that only yields would never let a holder of lower priority run. */
Test(lock, whoever_waits_long_sleeps) {
    pthread_t thread;
    long slept = 0;
    hd_lock(&lock);
    cr_assert_eq(pthread_create(&thread, NULL, take, &slept), 0);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    hd_unlock(&lock);
    pthread_join(thread, NULL);
    cr_assert_gt(slept, 0);
}
