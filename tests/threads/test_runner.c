/* test_runner.c: a context's task list, with tasks that count their steps. */
#include "threads/callback.h"
#include "threads/delay.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_POLLS = 64 };

static void init(void) {
    hd_clock_init();
    hd_park_init();
}

TestSuite(runner, .init = init, .timeout = 60);

/* A task that ends in its `ends_at`th step, or when `flag` is set. */
typedef struct counted {
    hd_task_t task;
    _Atomic uint32_t steps;
    uint32_t ends_at;
    _Atomic bool flag;
    ucc_status_t ends_with;
    uint32_t order; /* in which order tasks were stepped first */
} counted_t;

static uint32_t next_order;

static ucc_status_t step(hd_task_t *task) {
    counted_t *c = (counted_t *)(void *)task;
    if (atomic_fetch_add(&c->steps, 1) == 0) {
        c->order = next_order++;
    }
    return atomic_load(&c->steps) == c->ends_at || atomic_load(&c->flag) ? c->ends_with
                                                                         : UCC_INPROGRESS;
}

static void release_nothing(hd_home_t *home) {
    (void)home;
}

static hd_home_t home = {.refs = 1, .release = release_nothing};

static hd_runner_t the_runner;

static void prepare(counted_t *c, uint32_t ends_at) {
    memset(c, 0, sizeof(*c));
    c->task.req.status = UCC_INPROGRESS;
    c->task.magic = HD_TASK_LIVE;
    c->task.context = (hd_context_t *)(void *)&the_runner; /* whose first member it would be */
    c->task.step = step;
    c->task.home = &home;
    c->ends_at = ends_at;
}

static hd_runner_t *new_runner(bool multiple) {
    hd_runner_init(&the_runner, multiple, MAX_POLLS, 200);
    return &the_runner;
}

Test(runner, new_one_is_empty) {
    hd_runner_t *runner = new_runner(true);
    cr_assert(hd_runner_is_empty(runner));
    cr_assert_not(hd_runner_progress(runner, NULL));
}

/* Idle loops of other libraries call it all the time. */
Test(runner, progress_of_an_empty_one_reads_no_clock) {
    hd_runner_t *runner = new_runner(true);
    for (int i = 0; i < 100; i++) {
        cr_assert_not(hd_runner_progress(runner, NULL));
    }
    cr_assert_eq(runner->idle.last, 0);
    cr_assert_eq(runner->idle.spent, 0);
}

Test(runner, pushed_task_is_in_it_until_it_ends) {
    hd_runner_t *runner = new_runner(true);
    counted_t c;
    prepare(&c, 0);
    hd_runner_push(runner, &c.task);
    cr_assert_not(hd_runner_is_empty(runner));
    hd_runner_progress(runner, NULL);
    cr_assert_not(hd_runner_is_empty(runner));
    atomic_store(&c.flag, true);
    cr_assert(hd_runner_progress(runner, NULL));
    cr_assert(hd_runner_is_empty(runner));
}

Test(runner, task_ends_with_the_status_of_its_last_step) {
    hd_runner_t *runner = new_runner(false);
    counted_t c;
    prepare(&c, 1);
    c.ends_with = UCC_ERR_TIMED_OUT;
    hd_runner_push(runner, &c.task);
    cr_assert(hd_runner_progress(runner, NULL));
    cr_assert_eq(hd_task_status(&c.task), UCC_ERR_TIMED_OUT);
}

Test(runner, ended_task_is_not_stepped_again) {
    hd_runner_t *runner = new_runner(false);
    counted_t c;
    prepare(&c, 1);
    hd_runner_push(runner, &c.task);
    hd_runner_progress(runner, NULL);
    hd_runner_progress(runner, NULL);
    cr_assert_eq(c.steps, 1);
}

Test(runner, tasks_are_stepped_in_the_order_of_their_posts) {
    hd_runner_t *runner = new_runner(false);
    counted_t c[10];
    for (uint32_t i = 0; i < 10; i++) {
        prepare(&c[i], i % 3 == 0 ? 1 : 2);
        hd_runner_push(runner, &c[i].task);
        if (i == 4) {
            hd_runner_progress(runner, NULL);
        }
    }
    while (!hd_runner_is_empty(runner)) {
        hd_runner_progress(runner, NULL);
    }
    for (uint32_t i = 0; i < 10; i++) {
        cr_assert_eq(c[i].order, i);
    }
}

Test(runner, list_survives_ends_anywhere) {
    for (uint32_t mask = 0; mask < 32; mask++) {
        hd_runner_t *runner = new_runner(false);
        counted_t c[5], late;
        for (uint32_t i = 0; i < 5; i++) {
            prepare(&c[i], 0);
            atomic_store(&c[i].flag, mask >> i & 1);
            hd_runner_push(runner, &c[i].task);
        }
        hd_runner_progress(runner, NULL);
        prepare(&late, 0);
        hd_runner_push(runner, &late.task);
        for (uint32_t i = 0; i < 5; i++) {
            cr_assert_eq(hd_task_status(&c[i].task), mask >> i & 1 ? UCC_OK : UCC_INPROGRESS);
            atomic_store(&c[i].flag, true);
        }
        atomic_store(&late.flag, true);
        hd_runner_progress(runner, NULL);
        cr_assert(hd_runner_is_empty(runner));
        cr_assert_eq(hd_task_status(&late.task), UCC_OK);
    }
}

Test(runner, tight_caller_gets_many_looks_per_call) {
    hd_runner_t *runner = new_runner(false);
    counted_t c;
    prepare(&c, 0);
    hd_runner_push(runner, &c.task);
    uint32_t most = 0;
    for (int i = 0; i < 1000; i++) { /* preemption makes some calls look leisurely */
        uint32_t before = c.steps;
        hd_runner_progress(runner, NULL);
        uint32_t looks = c.steps - before;
        most = looks > most ? looks : most;
    }
    cr_assert_gt(most, 1);
    cr_assert_leq(most, MAX_POLLS);
}

Test(runner, fruitless_calls_report_the_time_they_took) {
    hd_runner_t *runner = new_runner(false);
    counted_t c;
    prepare(&c, 0);
    hd_runner_push(runner, &c.task);
    uint64_t vain = 0;
    for (int i = 0; i < 100; i++) {
        cr_assert_not(hd_runner_progress(runner, &vain));
    }
    cr_assert_gt(vain, 0);
}

Test(runner, call_that_finds_another_inside_steps_nothing) {
    hd_runner_t *runner = new_runner(true);
    counted_t c;
    prepare(&c, 1);
    hd_runner_push(runner, &c.task);
    cr_assert(hd_lock_try(&runner->lock));
    for (int i = 0; i < 100; i++) {
        cr_assert_not(hd_runner_progress(runner, NULL));
    }
    cr_assert_eq(c.steps, 0);
    hd_unlock(&runner->lock);
    cr_assert(hd_runner_progress(runner, NULL));
}

/* --- callbacks -------------------------------------------------------------------------------- */

typedef struct called {
    hd_runner_t *runner;
    counted_t *task, *next;
    uint32_t times;
    ucc_status_t status, seen;
} called_t;

static void note_call(void *data, ucc_status_t status) {
    called_t *called = data;
    called->times++;
    called->status = status;
    called->seen = hd_task_status(&called->task->task);
}

Test(runner, callback_comes_once_after_the_status) {
    hd_runner_t *runner = new_runner(true);
    counted_t c;
    called_t called = {.task = &c};
    prepare(&c, 2);
    c.ends_with = UCC_ERR_NO_MEMORY;
    c.task.callback = (ucc_coll_callback_t){note_call, &called};
    hd_runner_push(runner, &c.task);
    while (!hd_runner_progress(runner, NULL)) {
    }
    hd_runner_progress(runner, NULL);
    cr_assert_eq(called.times, 1);
    cr_assert_eq(called.status, UCC_ERR_NO_MEMORY);
    cr_assert_eq(called.seen, UCC_ERR_NO_MEMORY);
}

static void free_task(void *data, ucc_status_t status) {
    (void)status;
    memset(data, 0xEE, sizeof(counted_t));
    free(data);
}

Test(runner, task_may_be_gone_after_its_callback) {
    hd_runner_t *runner = new_runner(true);
    for (uint32_t i = 0; i < 20; i++) {
        counted_t *c = malloc(sizeof(*c));
        prepare(c, 1);
        c->task.callback = (ucc_coll_callback_t){free_task, c};
        hd_runner_push(runner, &c->task);
    }
    cr_assert(hd_runner_progress(runner, NULL));
    cr_assert(hd_runner_is_empty(runner));
}

static void push_next(void *data, ucc_status_t status) {
    called_t *called = data;
    (void)status;
    called->times++;
    hd_runner_push(called->runner, &called->next->task);
    hd_runner_progress(called->runner, NULL); /* the lock is not held: nested progress works */
}

Test(runner, callback_may_push_and_progress) {
    hd_runner_t *runner = new_runner(true);
    counted_t first, second;
    called_t called = {.runner = runner, .task = &first, .next = &second};
    prepare(&first, 1);
    prepare(&second, 1);
    first.task.callback = (ucc_coll_callback_t){push_next, &called};
    hd_runner_push(runner, &first.task);
    hd_runner_progress(runner, NULL);
    cr_assert_eq(called.times, 1);
    cr_assert_eq(hd_task_status(&second.task), UCC_OK);
}

/* --- many threads ----------------------------------------------------------------------------- */

enum { THREADS = 4, TASKS = 4000 };

static _Atomic uint32_t completions;

static void count_completion(void *data, ucc_status_t status) {
    (void)data;
    (void)status;
    atomic_fetch_add(&completions, 1);
}

static void *push_many(void *arg) {
    hd_runner_t *runner = arg;
    counted_t *c = calloc(TASKS, sizeof(*c));
    for (uint32_t i = 0; i < TASKS; i++) {
        prepare(&c[i], 1 + i % 3);
        c[i].task.callback.cb = count_completion;
        hd_runner_push(runner, &c[i].task);
        if (i % 8 == 0) {
            hd_runner_progress(runner, NULL);
        }
    }
    for (uint32_t i = 0; i < TASKS; i++) {
        while (hd_task_status(&c[i].task) == UCC_INPROGRESS) {
            hd_runner_progress(runner, NULL);
        }
    }
    return c; /* a neighbour may still be calling back */
}

Test(runner, no_task_is_lost_among_threads) {
    hd_runner_t *runner = new_runner(true);
    pthread_t thread[THREADS];
    hd_delay_arm(31);
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_create(&thread[i], NULL, push_many, runner), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *tasks;
        pthread_join(thread[i], &tasks);
        free(tasks);
    }
    cr_assert_eq(completions, THREADS * TASKS);
    cr_assert(hd_runner_is_empty(runner));
}

/* --- waiting ---------------------------------------------------------------------------------- */

Test(runner, wait_returns_the_final_status) {
    hd_runner_t *runner = new_runner(true);
    counted_t c;
    prepare(&c, 500);
    c.ends_with = UCC_ERR_TIMED_OUT;
    hd_runner_push(runner, &c.task);
    cr_assert_eq(hd_runner_wait(runner, &c.task, -1, false, 50), UCC_ERR_TIMED_OUT);
}

Test(runner, wait_without_time_is_one_progress_and_a_test) {
    hd_runner_t *runner = new_runner(true);
    counted_t c;
    prepare(&c, 1);
    hd_runner_push(runner, &c.task);
    cr_assert_eq(hd_runner_wait(runner, &c.task, 0, true, 50), UCC_OK);
    prepare(&c, 0);
    hd_runner_push(runner, &c.task);
    cr_assert_eq(hd_runner_wait(runner, &c.task, 0, true, 50), UCC_INPROGRESS);
    cr_assert_gt(c.steps, 0);
}

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

Test(runner, wait_gives_up_after_its_time) {
    hd_runner_t *runner = new_runner(true);
    counted_t c;
    prepare(&c, 0);
    hd_runner_push(runner, &c.task);
    double began = seconds(CLOCK_MONOTONIC);
    cr_assert_eq(hd_runner_wait(runner, &c.task, 0.05, true, 10), UCC_INPROGRESS);
    cr_assert_geq(seconds(CLOCK_MONOTONIC) - began, 0.049);
}

Test(runner, parked_wait_uses_no_processor) {
    hd_runner_t *runner = new_runner(true);
    counted_t c;
    prepare(&c, 0);
    hd_runner_push(runner, &c.task);
    double cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
    cr_assert_eq(hd_runner_wait(runner, &c.task, 0.4, true, 10), UCC_INPROGRESS);
    cr_assert_lt(seconds(CLOCK_THREAD_CPUTIME_ID) - cpu, 0.04);
}

/* The bits below HD_BELL_SLEEPER say that the bell is watched, which goes on for a while. */
static bool has_sleepers(const hd_bell_t *bell) {
    return atomic_load(&bell->sleepers) >= HD_BELL_SLEEPER;
}

Test(runner, sleeper_pins_the_group_only_while_it_sleeps) {
    hd_runner_t *runner = new_runner(true);
    counted_t c;
    prepare(&c, 0);
    hd_runner_push(runner, &c.task);
    hd_runner_wait(runner, &c.task, 0.02, true, 0);
    cr_assert_eq(home.refs, 1);
    cr_assert_not(has_sleepers(&home.bell));
    cr_assert_not(has_sleepers(&runner->bell));
}

/* User's code may end the thread, or jump: nobody must then be left on a bell. */
static void note_sleepers(void *arg) {
    const hd_runner_t *runner = arg;
    cr_expect_eq(home.refs, 1);
    cr_expect_not(has_sleepers(&home.bell));
    cr_expect_not(has_sleepers(&runner->bell));
}

static void abandon_nothing(hd_task_t *task) {
    (void)task;
}

static ucc_status_t step_with_callback(hd_task_t *task) {
    counted_t *c = (counted_t *)(void *)task;
    c->steps++;
    hd_callback_run(task, note_sleepers, task->context, abandon_nothing);
    return UCC_INPROGRESS;
}

Test(runner, sleeper_is_on_no_bell_while_its_last_look_runs_a_datatypes_callback) {
    hd_runner_t *runner = new_runner(true);
    counted_t c;
    prepare(&c, 0);
    c.task.step = step_with_callback;
    c.task.context = (hd_context_t *)(void *)runner; /* its first member */
    hd_runner_push(runner, &c.task);
    while (c.steps < 2) { /* a wait may be over before the second look */
        cr_assert_eq(hd_runner_wait(runner, &c.task, 0.005, true, 0), UCC_INPROGRESS);
    }
    note_sleepers(runner);
}

static void note_sleepers_at_completion(void *data, ucc_status_t status) {
    (void)status;
    note_sleepers(data);
}

Test(runner, sleeper_is_on_no_bell_while_its_last_look_completes_tasks) {
    hd_runner_t *runner = new_runner(true);
    counted_t c;
    prepare(&c, 2); /* the second look is the last before a sleep */
    c.task.callback = (ucc_coll_callback_t){note_sleepers_at_completion, runner};
    runner->max_polls = 1;
    hd_runner_push(runner, &c.task);
    cr_assert_eq(hd_runner_wait(runner, &c.task, -1, true, 0), UCC_OK);
    note_sleepers(runner);
}

static jmp_buf out;

static void jump_out(void *arg) {
    (void)arg;
    longjmp(out, 1);
}

static ucc_status_t step_out(hd_task_t *task) {
    counted_t *c = (counted_t *)(void *)task;
    if (c->steps++ == 0) {
        hd_callback_run(task, jump_out, NULL, abandon_nothing);
    }
    return UCC_OK;
}

static __attribute__((noinline)) void wait_until_jump(hd_runner_t *runner, hd_task_t *task) {
    if (setjmp(out) == 0) {
        hd_runner_wait(runner, task, -1, true, 0);
    }
}

Test(runner, nobody_waits_in_a_context_whose_callback_jumped_out_of_the_wait) {
    hd_runner_t *runner = new_runner(true);
    counted_t c;
    runner->promised = true;
    prepare(&c, 0);
    c.task.step = step_out;
    c.task.listed = true;
    c.task.context = (hd_context_t *)(void *)runner;
    hd_runner_push(runner, &c.task);
    wait_until_jump(runner, &c.task);
    cr_assert_not(hd_callback_refuses("the next call"));
    cr_assert_eq(runner->waiter, 0);
    cr_assert_eq(hd_runner_wait(runner, &c.task, -1, true, 0), UCC_OK);
    cr_assert_eq(runner->waiter, 0);
}

static __attribute__((noinline)) void progress_until_jump(hd_runner_t *runner) {
    if (setjmp(out) == 0) {
        hd_runner_progress(runner, NULL);
    }
}

Test(runner, task_that_finished_before_a_callback_jumped_out_is_stepped_in_its_next_life) {
    hd_runner_t *runner = new_runner(true);
    counted_t sound, jumper;
    prepare(&sound, 1);
    prepare(&jumper, 0);
    jumper.task.step = step_out;
    jumper.task.listed = true;
    hd_runner_push(runner, &sound.task);
    hd_runner_push(runner, &jumper.task);
    progress_until_jump(runner);
    cr_assert_not(hd_callback_refuses("the next call"));
    cr_assert_eq(hd_task_status(&sound.task), UCC_INPROGRESS);
    cr_assert_not(hd_runner_is_empty(runner));
    cr_assert(hd_runner_progress(runner, NULL));
    cr_assert_eq(hd_task_status(&sound.task), UCC_OK);
    cr_assert_eq(hd_task_status(&jumper.task), UCC_OK);
    cr_assert_eq(sound.steps, 1);
    sound.ends_at = 0;
    sound.task.req.status = UCC_INPROGRESS;
    hd_runner_push(runner, &sound.task);
    hd_runner_progress(runner, NULL);
    cr_assert_gt(sound.steps, 1);
    cr_assert_eq(hd_task_status(&sound.task), UCC_INPROGRESS);
}

static uint64_t look_as_a_cancelled_thread(hd_task_t *task, uint64_t now) {
    (void)task;
    pthread_testcancel(); /* as reading, writing and sleeping do */
    return now;
}

static void *progress_cancelled(void *arg) {
    hd_runner_t *runner = arg;
    pthread_cancel(pthread_self());
    hd_runner_progress(runner, NULL);
    return runner;
}

Test(runner, cancelled_thread_gives_the_lock_back_before_it_ends) {
    hd_runner_t *runner = new_runner(true);
    counted_t c;
    pthread_t thread;
    void *returned = NULL;
    hd_runner_look_after(runner, look_as_a_cancelled_thread, 1);
    prepare(&c, 0);
    hd_runner_push(runner, &c.task);
    cr_assert_eq(pthread_create(&thread, NULL, progress_cancelled, runner), 0);
    pthread_join(thread, &returned);
    cr_assert_eq(returned, runner);
    cr_assert(hd_lock_try(&runner->lock));
}

static void *ring_late(void *arg) {
    counted_t *c = arg;
    while (!has_sleepers(&home.bell)) {
        sched_yield();
    }
    atomic_store(&c->flag, true);
    hd_bell_ring(&home.bell);
    return NULL;
}

Test(runner, sleeper_is_woken_by_its_group) {
    hd_runner_t *runner = new_runner(true);
    for (int i = 0; i < 200; i++) {
        counted_t c;
        pthread_t thread;
        prepare(&c, 0);
        hd_runner_push(runner, &c.task);
        cr_assert_eq(pthread_create(&thread, NULL, ring_late, &c), 0);
        cr_assert_eq(hd_runner_wait(runner, &c.task, -1, true, 0), UCC_OK);
        pthread_join(thread, NULL);
    }
}

static void *progress_late(void *arg) {
    hd_runner_t *runner = arg;
    while (!has_sleepers(&runner->bell)) {
        sched_yield();
    }
    counted_t *c = (counted_t *)(void *)runner->active;
    atomic_store(&c->flag, true); /* nobody rings: another thread's progress finds it */
    while (hd_task_status(&c->task) == UCC_INPROGRESS) {
        hd_runner_progress(runner, NULL);
    }
    return NULL;
}

Test(runner, sleeper_is_woken_when_another_thread_completes_its_task) {
    hd_runner_t *runner = new_runner(true);
    counted_t c;
    pthread_t thread;
    prepare(&c, 0);
    hd_runner_push(runner, &c.task);
    hd_runner_progress(runner, NULL);
    cr_assert_eq(pthread_create(&thread, NULL, progress_late, runner), 0);
    cr_assert_eq(hd_runner_wait(runner, &c.task, -1, true, 0), UCC_OK);
    pthread_join(thread, NULL);
}

static void *complete_late(void *arg) {
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    hd_task_complete(arg, UCC_OK);
    return NULL;
}

/* Its poster completes it, having handed it to no context: no bell rings. */
Test(runner, sleeper_soon_sees_that_a_task_was_completed_in_its_post) {
    double shortest = 1;
    for (int i = 0; i < 10; i++) { /* on a busy machine one of them is undisturbed */
        hd_runner_t *runner = new_runner(true);
        counted_t c;
        pthread_t thread;
        prepare(&c, 0);
        double began = seconds(CLOCK_MONOTONIC);
        cr_assert_eq(pthread_create(&thread, NULL, complete_late, &c.task), 0);
        cr_assert_eq(hd_runner_wait(runner, &c.task, -1, true, 0), UCC_OK);
        double took = seconds(CLOCK_MONOTONIC) - began;
        shortest = took < shortest ? took : shortest;
        pthread_join(thread, NULL);
    }
    cr_assert_lt(shortest, 0.06);
}

/* Refused by something that rings no bell, and only since the sleeper is enlisted. */
static ucc_status_t step_refused(hd_task_t *task) {
    task->impatient = has_sleepers(&home.bell);
    return step(task);
}

static void *set_late(void *arg) {
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    atomic_store((_Atomic bool *)arg, true);
    return NULL;
}

Test(runner, sleeper_only_naps_for_a_task_that_was_refused_in_the_last_look) {
    double shortest = 1;
    for (int i = 0; i < 10; i++) {
        hd_runner_t *runner = new_runner(true);
        counted_t c;
        pthread_t thread;
        prepare(&c, 0);
        c.task.step = step_refused;
        hd_runner_push(runner, &c.task);
        double began = seconds(CLOCK_MONOTONIC);
        cr_assert_eq(pthread_create(&thread, NULL, set_late, &c.flag), 0);
        cr_assert_eq(hd_runner_wait(runner, &c.task, -1, true, 0), UCC_OK);
        double took = seconds(CLOCK_MONOTONIC) - began;
        shortest = took < shortest ? took : shortest;
        pthread_join(thread, NULL);
    }
    cr_assert_lt(shortest, 0.06);
}

/* With more groups than a sleeper has places on bells, it naps: nobody rings here. */
Test(runner, work_in_many_groups_is_found_without_bells) {
    enum { GROUPS = 40 };
    hd_runner_t *runner = new_runner(true);
    static hd_home_t homes[GROUPS];
    static counted_t c[GROUPS];
    for (int i = 0; i < GROUPS; i++) {
        homes[i] = (hd_home_t){.refs = 1, .release = release_nothing};
        prepare(&c[i], i == GROUPS - 1 ? 5000 : 0);
        c[i].task.home = &homes[i];
        hd_runner_push(runner, &c[i].task);
    }
    cr_assert_eq(hd_runner_wait(runner, &c[GROUPS - 1].task, -1, true, 0), UCC_OK);
    for (int i = 0; i < GROUPS; i++) {
        cr_assert_eq(homes[i].refs, 1);
    }
}
