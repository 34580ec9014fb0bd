/* test_engine.c: in which order the triggers of a thread's engine take its events, when events and
 * starts come between two steps of one round. A task of the test's own lies between the triggers.
 */
#include "../support/deadline.h"
#include "../support/small.h"
#include "request/engine.h"
#include "team/team.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>

TestSuite(engine, .timeout = 60);

enum { MOST = 3 };

static world_t *world; /* of one endpoint: what starts is over */
static ucc_ee_h ee;
static ucc_coll_req_h request[MOST];
static int32_t value[MOST];

static void set_event(void) {
    ucc_ev_t event = {.ev_type = UCC_EVENT_COMPUTE_COMPLETE};
    must(ucc_ee_set_event(ee, &event), "ucc_ee_set_event");
}

static void open_engine(void) {
    ucc_ee_params_t params = {.ee_type = UCC_EE_CPU_THREAD};
    world = world_create(&(world_params_t){.size = 1, .form = WORLD_OOB, .shared_context = true});
    must(ucc_ee_create(world->teams[0], &params, &ee), "ucc_ee_create");
    hd_runner_look_after(&world->contexts[0]->runner, NULL, 0); /* not all tasks are requests */
}

static void trigger(uint32_t k, void (*over)(void *, ucc_status_t)) {
    ucc_coll_args_t args = small_bcast(&value[k], 1, 0);
    args.mask = over ? UCC_COLL_ARGS_FIELD_CB : 0;
    args.cb = (ucc_coll_callback_t){.cb = over};
    request[k] = small_init(world, 0, &args);
    ucc_ev_t event = {.ev_type = UCC_EVENT_COMPUTE_COMPLETE, .req = request[k]};
    must(ucc_collective_triggered_post(ee, &event), "ucc_collective_triggered_post");
}

static bool has_started(uint32_t k) {
    return ucc_collective_test(request[k]) == UCC_OK;
}

static void progress(void) {
    must(ucc_context_progress(world->contexts[0]), "ucc_context_progress");
}

static void close_engine(uint32_t triggers) {
    for (uint32_t k = 0; k < triggers; k++) {
        cr_assert_eq(ucc_collective_finalize(request[k]), UCC_OK);
    }
    cr_assert_eq(ucc_ee_destroy(ee), UCC_OK);
    world_destroy(world);
}

static hd_task_t between;
static void (*_Atomic act)(void); /* what `between` does in its next step, once */

static ucc_status_t step_between(hd_task_t *task) {
    void (*now)(void) = atomic_exchange(&act, NULL);
    (void)task;
    if (now) {
        now();
    }
    return now ? UCC_OK : UCC_INPROGRESS;
}

static void push_between(void) {
    hd_context_t *context = world->teams[0]->contexts[0];
    between = (hd_task_t){.magic = HD_TASK_LIVE,
                          .context = context,
                          .home = &world->teams[0]->group->home,
                          .step = step_between,
                          .req.status = UCC_INPROGRESS};
    hd_runner_push(&context->runner, &between);
}

Test(engine, an_event_that_comes_between_two_steps_waits_for_the_oldest_trigger) {
    open_engine();
    trigger(0, NULL);
    push_between();
    trigger(1, NULL);
    atomic_store(&act, set_event);
    progress();
    cr_assert_not(has_started(1));
    progress();
    cr_assert(has_started(0));
    cr_assert_not(has_started(1));
    set_event();
    progress();
    cr_assert(has_started(1));
    close_engine(2);
}

static _Atomic bool is_starting, may_end;

static void stay(void *data, ucc_status_t status) {
    deadline_t deadline = deadline_start("the other thread");
    (void)data;
    cr_assert_eq(status, UCC_OK);
    atomic_store(&is_starting, true);
    while (!atomic_load(&may_end)) {
        sched_yield();
        deadline_poll(&deadline);
    }
}

static bool starts(void) {
    hd_lock(&ee->lock);
    bool starting = ee->starting;
    hd_unlock(&ee->lock);
    return starting;
}

static void let_start_end(void) {
    deadline_t deadline = deadline_start("the end of a start");
    atomic_store(&may_end, true);
    while (starts()) {
        sched_yield();
        deadline_poll(&deadline);
    }
}

static void *progress_aside(void *arg) {
    progress();
    return arg;
}

Test(engine, a_start_that_ends_between_two_steps_leaves_the_event_to_the_oldest_trigger) {
    pthread_t starter;
    deadline_t deadline = deadline_start("a start");
    open_engine();
    trigger(0, stay);
    trigger(1, NULL);
    push_between();
    trigger(2, NULL);
    set_event();
    set_event();
    cr_assert_eq(pthread_create(&starter, NULL, progress_aside, NULL), 0);
    while (!atomic_load(&is_starting)) {
        deadline_poll(&deadline);
    }
    atomic_store(&act, let_start_end);
    progress();
    cr_assert_eq(pthread_join(starter, NULL), 0);
    cr_assert_not(has_started(2));
    progress();
    cr_assert(has_started(1));
    cr_assert_not(has_started(2));
    set_event();
    progress();
    cr_assert(has_started(2));
    close_engine(3);
}
