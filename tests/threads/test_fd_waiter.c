/* test_fd_waiter.c: threads that sleep while what they wait for comes by a descriptor. */
#include "threads/clock.h"
#include "threads/fd_waiter.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 200, MAX_POLLS = 64 };

static int fds[2];
static _Atomic uint32_t arms, busy;
static hd_fd_waiter_t outside;

/* What is in the pipe is taken out by who looks. */
static uint32_t arm(hd_fd_waiter_t *o, int *to) {
    (void)o;
    atomic_fetch_add(&arms, 1);
    if (atomic_load(&busy)) {
        atomic_fetch_sub(&busy, 1);
        return 0;
    }
    to[0] = fds[0];
    return 1;
}

static void init(void) {
    hd_clock_init();
    hd_park_init();
    cr_assert_eq(pipe2(fds, O_NONBLOCK), 0);
    cr_assert(hd_fd_waiter_init(&outside, arm));
}

TestSuite(outside, .init = init, .timeout = 60);

static void release_nothing(hd_home_t *home) {
    (void)home;
}

static hd_home_t home = {.refs = 1, .release = release_nothing, .fd_waiter = &outside};

typedef struct waiting {
    hd_task_t task;
    hd_runner_t runner;
    _Atomic bool inside, from_outside; /* what ends it */
    _Atomic uint32_t *messages;        /* taken out of the pipe, by whomever */
    uint32_t needs;
    ucc_status_t status;
} waiting_t;

static _Atomic uint32_t messages;

static ucc_status_t step(hd_task_t *task) {
    waiting_t *w = (waiting_t *)(void *)task;
    char c;
    if (read(fds[0], &c, 1) == 1) {
        atomic_fetch_add(&messages, 1);
        hd_bell_ring(&home.bell); /* the others see it, too */
    }
    bool over = atomic_load(&w->inside) || (w->needs && atomic_load(&messages) >= w->needs);
    return over ? UCC_OK : UCC_INPROGRESS;
}

static void prepare(waiting_t *w, uint32_t needs) {
    memset(w, 0, sizeof(*w));
    hd_runner_init(&w->runner, true, MAX_POLLS, 200);
    w->task.req.status = UCC_INPROGRESS;
    w->task.magic = HD_TASK_LIVE;
    w->task.context = (hd_context_t *)(void *)&w->runner;
    w->task.step = step;
    w->task.home = &home;
    w->task.impatient = true;
    w->needs = needs;
    hd_runner_push(&w->runner, &w->task);
}

static void *wait_for_it(void *arg) {
    waiting_t *w = arg;
    w->status = hd_runner_wait(&w->runner, &w->task, -1, true, 0);
    return NULL;
}

static void wait_until(_Atomic uint32_t *word, uint32_t value) {
    while (atomic_load(word) < value) {
        sched_yield();
    }
}

Test(outside, what_comes_by_a_descriptor_ends_a_sleep) {
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        waiting_t w;
        pthread_t thread;
        prepare(&w, i);
        uint32_t before = atomic_load(&arms);
        pthread_create(&thread, NULL, wait_for_it, &w);
        wait_until(&arms, before + 1);
        cr_assert_eq(write(fds[1], "x", 1), 1);
        pthread_join(thread, NULL);
        cr_assert_eq(w.status, UCC_OK);
    }
    cr_assert_lt(outside.bell.sleepers, HD_BELL_SLEEPER); /* it may still be watched */
    cr_assert_eq(outside.watched, 0);
}

Test(outside, a_bell_wakes_the_watcher) {
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        waiting_t w;
        pthread_t thread;
        prepare(&w, 0);
        uint32_t before = atomic_load(&arms);
        pthread_create(&thread, NULL, wait_for_it, &w);
        wait_until(&arms, before + 1);
        atomic_store(&w.inside, true);
        hd_bell_ring(&home.bell);
        pthread_join(thread, NULL);
        cr_assert_eq(w.status, UCC_OK);
    }
}

Test(outside, another_thread_watches_when_the_watcher_has_waited) {
    for (uint32_t i = 1; i <= ROUNDS / 4; i++) {
        waiting_t w[THREADS];
        pthread_t thread[THREADS];
        uint32_t seen = atomic_load(&messages);
        for (uint32_t t = 0; t < THREADS; t++) {
            prepare(&w[t], seen + 1);
        }
        for (uint32_t t = 0; t < THREADS; t++) {
            pthread_create(&thread[t], NULL, wait_for_it, &w[t]);
        }
        wait_until(&outside.bell.sleepers, THREADS * HD_BELL_SLEEPER);
        for (uint32_t t = 0; t + 1 < THREADS; t++) { /* all but the last, one after the other */
            atomic_store(&w[t].inside, true);
            hd_bell_ring(&home.bell);
            pthread_join(thread[t], NULL);
        }
        wait_until(&outside.watched, 1);
        cr_assert_eq(write(fds[1], "x", 1), 1);
        pthread_join(thread[THREADS - 1], NULL);
        cr_assert_eq(w[THREADS - 1].status, UCC_OK);
    }
}

Test(outside, one_that_can_not_be_armed_is_looked_at_again) {
    waiting_t w;
    pthread_t thread;
    atomic_store(&busy, 50);
    prepare(&w, 1);
    pthread_create(&thread, NULL, wait_for_it, &w);
    wait_until(&arms, 51);
    cr_assert_eq(write(fds[1], "x", 1), 1);
    pthread_join(thread, NULL);
    cr_assert_eq(w.status, UCC_OK);
}

/* By which waiting threads learn how long to spin. */
Test(outside, a_sleep_tells_whether_something_has_come) {
    _Atomic uint32_t word = 0;
    _Atomic int event = -1;
    cr_assert_not(hd_fd_waiter_sleep(&outside, &word, &event, 1000), "the time is over");
    atomic_store(&busy, 1);
    cr_assert(hd_fd_waiter_sleep(&outside, &word, &event, UINT64_MAX), "somebody is about to look");
    cr_assert_eq(write(fds[1], "x", 1), 1);
    cr_assert(hd_fd_waiter_sleep(&outside, &word, &event, UINT64_MAX), "a message");
    atomic_store(&word, 1);
    cr_assert(hd_fd_waiter_sleep(&outside, &word, &event, UINT64_MAX), "a bell");
    atomic_store(&outside.watched, 1);
    cr_assert(hd_fd_waiter_sleep(&outside, &word, &event, UINT64_MAX),
              "a bell, and another watches");
    atomic_store(&word, 0);
    cr_assert_not(hd_fd_waiter_sleep(&outside, &word, &event, 1000), "the time is over");
    atomic_store(&outside.watched, 0);
}
