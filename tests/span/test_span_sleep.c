/* test_span_sleep.c: who waits for other processes sleeps, whatever the operation is. */
#include "../support/deadline.h"
#include "../support/generic.h"
#include "../support/small.h"
#include "../support/world.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

TestSuite(span_sleep, .timeout = 120);

enum { SECONDS = 60, COUNT = 20000, LATE_MS = 500, ROUNDS = 3 };

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

typedef struct element {
    uint32_t a, b, c;
} element_t;

/* Process 1 comes late; process 0 has the processor's time to lose meanwhile. */
static int reduce_late(const process_t *process, void *arg) {
    const bool *user_defined = arg;
    static element_t x[COUNT], y[COUNT];
    world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
    uint32_t me = process->endpoint[0];
    reference_dt_t dt = generic_contiguous();
    uint32_t elements = sizeof(element_t) / sizeof(int32_t);
    ucc_coll_args_t args = small_allreduce((int32_t *)(void *)x, (int32_t *)(void *)y,
                                           *user_defined ? COUNT : COUNT * elements);
    if (*user_defined) {
        args.src.info.datatype = args.dst.info.datatype = dt.handle;
    }
    double least = 1e9;
    for (uint32_t round = 0; round <= ROUNDS; round++) { /* the first one makes what is made once */
        ucc_coll_req_h request;
        process_barrier(process);
        if (process->me == 1 && round > 0) {
            nanosleep(&(struct timespec){.tv_nsec = LATE_MS * 1000000L}, NULL);
        }
        double before = cpu_seconds();
        if (ucc_collective_init(&args, &request, world->teams[me]) != UCC_OK ||
            ucc_collective_post(request) != UCC_OK || heddle_wait(request, SECONDS) != UCC_OK) {
            return 1;
        }
        double took = cpu_seconds() - before;
        least = round > 0 && took < least ? took : least;
        ucc_collective_finalize(request);
    }
    process_set(process, 0, (uint64_t)(least * 1000));
    process_barrier(process);
    world_destroy(world);
    generic_destroy(&dt);
    return 0;
}

static void waits_asleep(bool user_defined) {
    shape_t shape = shape_even(2, 1);
    setenv("HEDDLE_PARK_SPIN_US", "0", 1);
    outcome_t outcome = processes_run(&shape, SECONDS, reduce_late, &user_defined);
    cr_assert(outcome.ok);
    cr_assert_lt(outcome.value[0][0], LATE_MS / 10, "%lu ms of processor time in a wait of %d ms",
                 (unsigned long)outcome.value[0][0], LATE_MS);
}

Test(span_sleep, in_a_reduction) {
    waits_asleep(false);
}

Test(span_sleep, in_a_user_defined_reduction) {
    waits_asleep(true);
}

/* --- cancelled threads ------------------------------------------------------------------------ */

enum { THREADS = 3, CANCELS = 6, APART_MS = 60 };

typedef struct member {
    heddle_group_t *group;
    uint32_t index;
    bool late;
} member_t;

static void sleep_ms(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void *meet_twice(void *arg) {
    const member_t *m = arg;
    heddle_ep_t *ep;
    must(heddle_join(m->group, m->index, &ep), "heddle_join");
    must(heddle_barrier(ep), "heddle_barrier");
    if (m->late) {
        sleep_ms(2 * APART_MS);
    }
    must(heddle_barrier(ep), "heddle_barrier"); /* is no cancellation point */
    heddle_leave(ep);
    return NULL;
}

/* One of process 0's threads is cancelled while all of them wait for process 1, asleep or in the
 * network's calls. */
static int cancel_one(const process_t *process, void *arg) {
    (void)arg;
    for (uint32_t round = 0; round < CANCELS; round++) {
        ucc_oob_coll_t oob = process_group_oob(process, round % PROCESS_BOARDS);
        heddle_group_params_t params = {.endpoints = THREADS, .oob = &oob};
        heddle_group_t *group;
        pthread_t thread[THREADS];
        member_t member[THREADS];
        must(heddle_group_create(&params, &group), "heddle_group_create");
        for (uint32_t i = 0; i < THREADS; i++) {
            member[i] = (member_t){group, i, process->me == 1};
            pthread_create(&thread[i], NULL, meet_twice, &member[i]);
        }
        if (process->me == 0) {
            sleep_ms(APART_MS);
            pthread_cancel(thread[round % THREADS]);
        }
        for (uint32_t i = 0; i < THREADS; i++) {
            pthread_join(thread[i], NULL);
        }
        heddle_group_destroy(group);
        process_barrier(process);
    }
    return 0;
}

Test(span_sleep, a_thread_that_is_cancelled_in_it_keeps_no_lock_and_is_woken_no_more) {
    shape_t shape = shape_even(2, THREADS);
    cr_assert(processes_run(&shape, SECONDS, cancel_one, NULL).ok);
}
