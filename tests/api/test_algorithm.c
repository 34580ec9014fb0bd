/* test_algorithm.c: requests as tasks of schedules, schedules driven by contexts, and algorithms
 * that are registered for a team's collectives, which clients then use without knowing. */
#include "../support/deadline.h"
#include "../support/small.h"
#include "core/log.h"

#include <criterion/criterion.h>
#include <heddle/schedule.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic int n_errors, n_warnings;
static char last_line[512];

static void count_lines(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    n_errors += level == HD_LOG_ERROR;
    n_warnings += level == HD_LOG_WARN;
    if (level <= HD_LOG_WARN) {
        snprintf(last_line, sizeof(last_line), "%s", line);
    }
}

static char logged_call[1024];

static void keep_call(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)arg;
    if (strstr(line, "allreduce endpoint 0")) {
        snprintf(logged_call, sizeof(logged_call), "%s", line);
    }
}

static void init(void) {
    hd_log_capture(count_lines, NULL);
}

TestSuite(algorithm, .init = init, .timeout = 120);

/* --- requests as tasks ------------------------------------------------------------------------ */

enum { N = 3 };

typedef struct two {
    ucc_schedule_t schedule;
    heddle_request_task_t task[2];
    int32_t src, sum, all[N];
} two_t;

static void prepare_two(world_t *world, uint32_t i, two_t *t) {
    ucc_coll_args_t args = small_allreduce(&t->src, &t->sum, 1);
    cr_assert_eq(ucc_schedule_init(&t->schedule), UCC_OK);
    cr_assert_eq(heddle_collective_task_init(&t->task[0], world->teams[i], &args, NULL), UCC_OK);
    args = small_allgather(&t->sum, t->all, 1, N);
    cr_assert_eq(heddle_collective_task_init(&t->task[1], world->teams[i], &args, NULL), UCC_OK);
    ucc_event_manager_subscribe(&t->task[0].super.em, UCC_EVENT_COMPLETED, &t->task[1].super);
    ucc_schedule_add_task(&t->schedule, &t->task[0].super);
    ucc_schedule_add_task(&t->schedule, &t->task[1].super);
}

static ucc_status_t drive(ucc_schedule_t **s, uint32_t n) {
    deadline_t deadline = deadline_start("schedules");
    ucc_status_t first = UCC_OK;
    for (bool any = true; any; deadline_poll(&deadline)) {
        any = false;
        for (uint32_t i = 0; i < n; i++) {
            ucc_status_t status = ucc_schedule_progress(s[i]);
            any |= status == UCC_INPROGRESS;
            first = status < 0 && first == UCC_OK ? status : first;
        }
    }
    return first;
}

static void run_two(bool attached) {
    world_t *world = small_world(N);
    two_t t[N];
    ucc_schedule_t *s[N];
    for (uint32_t i = 0; i < N; i++) {
        prepare_two(world, i, &t[i]);
        s[i] = &t[i].schedule;
        if (attached) {
            cr_assert_eq(heddle_schedule_attach(s[i], world_context(world, i)), UCC_OK);
        }
    }
    for (int32_t round = 1; round <= 3; round++) {
        for (uint32_t i = 0; i < N; i++) {
            t[i].src = round * (int32_t)(i + 1);
            cr_assert_eq(ucc_schedule_start(s[i]), UCC_OK);
        }
        cr_assert_eq(drive(s, N), UCC_OK);
        for (uint32_t i = 0; i < N; i++) {
            cr_assert_eq(t[i].all[(i + 1) % N], 6 * round);
        }
    }
    world_destroy(world);
}

Test(algorithm, collectives_are_tasks_of_a_schedule_that_is_driven_by_hand) {
    run_two(false);
}

Test(algorithm, collectives_are_tasks_of_a_schedule_that_contexts_drive) {
    run_two(true);
}

Test(algorithm, a_persistent_request_is_a_task) {
    world_t *world = small_world(2);
    ucc_schedule_t schedule[2], *s[2] = {&schedule[0], &schedule[1]};
    heddle_request_task_t task[2];
    ucc_coll_req_h request[2];
    int32_t src[2], sum[2];
    for (uint32_t i = 0; i < 2; i++) {
        ucc_coll_args_t args = small_allreduce(&src[i], &sum[i], 1);
        args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
        request[i] = small_init(world, i, &args);
        ucc_schedule_init(s[i]);
        cr_assert_eq(heddle_request_task_init(&task[i], request[i]), UCC_OK);
        ucc_schedule_add_task(s[i], &task[i].super);
    }
    for (int32_t round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < 2; i++) {
            src[i] = round + (int32_t)i;
            ucc_schedule_start(s[i]);
        }
        cr_assert_eq(drive(s, 2), UCC_OK);
        cr_assert_eq(sum[1], 2 * round + 1);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
    }
    world_destroy(world);
}

static void end_early(ucc_coll_task_t *task) {
    if (task->state == UCC_TASK_STATE_INPROGRESS) {
        cr_assert_eq(heddle_coll_task_end(task, UCC_ERR_IO_ERROR), UCC_OK);
        task->handlers[UCC_EVENT_PROGRESS] = NULL;
    }
}

Test(algorithm, a_task_that_is_ended_early_is_over_when_its_request_is) {
    for (int attached = 0; attached < 2; attached++) {
        world_t *world = small_world(2);
        ucc_schedule_t schedule, *s = &schedule;
        heddle_request_task_t task;
        int32_t src[2] = {1, 2}, sum[2] = {0, 0};
        ucc_coll_args_t args = small_allreduce(&src[0], &sum[0], 1);
        ucc_schedule_init(s);
        heddle_collective_task_init(&task, world->teams[0], &args, NULL);
        task.super.handlers[UCC_EVENT_PROGRESS] = end_early;
        ucc_schedule_add_task(s, &task.super);
        if (attached) {
            heddle_schedule_attach(s, world_context(world, 0));
        }
        ucc_schedule_start(s);
        for (int i = 0; i < 10; i++) {
            cr_assert_eq(ucc_schedule_progress(s), UCC_INPROGRESS, "its buffers are at work");
        }
        cr_assert_eq(heddle_coll_task_destroy(&task.super), UCC_ERR_INVALID_PARAM);
        args = small_allreduce(&src[1], &sum[1], 1);
        ucc_coll_req_h request = small_start(world, 1, &args);
        cr_assert_eq(drive(&s, 1), UCC_ERR_IO_ERROR);
        small_wait(world, &request, 1);
        cr_assert_eq(sum[0], 3);
        cr_assert_eq(task.request, NULL, "it was finalized");
        cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
        world_destroy(world);
    }
}

Test(algorithm, a_collective_that_can_not_be_fails_its_schedule) {
    world_t *world = small_world(1);
    ucc_schedule_t schedule, *s = &schedule;
    heddle_request_task_t task;
    int32_t buffer[2];
    ucc_coll_args_t args = small_allreduce(buffer, buffer + 1, 1);
    args.op = (ucc_reduction_op_t)4711;
    ucc_schedule_init(s);
    cr_assert_eq(heddle_collective_task_init(&task, world->teams[0], &args, NULL), UCC_OK);
    ucc_schedule_add_task(s, &task.super);
    ucc_schedule_start(s);
    cr_assert_lt(drive(&s, 1), UCC_OK);
    cr_assert_eq(task.request, NULL);
    world_destroy(world);
}

Test(algorithm, a_canceled_schedule_waits_for_its_request_which_an_abort_ends) {
    world_t *world = small_world(N);
    two_t t;
    ucc_schedule_t *s = &t.schedule;
    prepare_two(world, 0, &t);
    heddle_schedule_attach(s, world_context(world, 0));
    ucc_schedule_start(s);
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(ucc_schedule_progress(s), UCC_INPROGRESS);
    }
    cr_assert_eq(heddle_schedule_cancel(s), UCC_OK);
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(ucc_schedule_progress(s), UCC_INPROGRESS, "its buffers are still in use");
    }
    heddle_team_abort(world->teams[1]);
    cr_assert_eq(drive(&s, 1), HEDDLE_ERR_CANCELED);
    cr_assert_eq(t.task[0].super.status, HEDDLE_ERR_ABORTED);
    cr_assert_eq(t.task[1].super.status, HEDDLE_ERR_CANCELED);
    world_destroy(world);
}

Test(algorithm, a_context_can_not_be_destroyed_while_it_drives_a_schedule) {
    ucc_lib_h lib = world_lib(UCC_THREAD_SINGLE);
    ucc_context_h context = world_new_context(lib, UCC_CONTEXT_SHARED, NULL);
    ucc_schedule_t schedule, *s = &schedule;
    ucc_coll_task_t task;
    ucc_schedule_init(s);
    ucc_coll_task_init(&task);
    ucc_schedule_add_task(s, &task);
    heddle_schedule_attach(s, context);
    ucc_schedule_start(s);
    cr_assert_eq(ucc_context_destroy(context), UCC_ERR_INVALID_PARAM);
    heddle_schedule_cancel(s);
    cr_assert_eq(drive(&s, 1), HEDDLE_ERR_CANCELED);
    cr_assert_eq(ucc_context_destroy(context), UCC_OK);
    ucc_finalize(lib);
}

static ucc_schedule_t *own_schedule;

static void wait_for_own(ucc_coll_task_t *task) {
    deadline_t deadline = deadline_start("a line about the handler's own schedule");
    while (n_warnings == 0) {
        cr_assert_eq(ucc_schedule_progress(own_schedule), UCC_INPROGRESS);
        deadline_poll(&deadline);
    }
    heddle_coll_task_end(task, UCC_OK);
}

Test(algorithm, a_handler_that_waits_for_its_own_schedule_is_told) {
    setenv("HEDDLE_STALL", "0.05", 1);
    world_t *world = small_world(1);
    ucc_schedule_t schedule;
    ucc_coll_task_t task;
    ucc_schedule_init(&schedule);
    ucc_coll_task_init(&task);
    task.handlers[UCC_EVENT_PROGRESS] = wait_for_own;
    ucc_schedule_add_task(&schedule, &task);
    heddle_schedule_attach(&schedule, world_context(world, 0));
    own_schedule = &schedule;
    n_warnings = 0;
    ucc_schedule_start(&schedule);
    cr_assert_eq(drive(&own_schedule, 1), UCC_OK);
    cr_assert(strstr(last_line, "one of its own handlers"));
    world_destroy(world);
}

/* --- algorithms ------------------------------------------------------------------------------- */

/* Allreduce of int32 sums: everybody sends everything to everybody, by bcasts with tags. */
typedef struct crowd {
    ucc_schedule_t schedule; /* must stay first */
    ucc_coll_task_t sum;
    uint32_t size, me;
    uint64_t count;
    bool fails;
    int32_t *src, *dst, *all;
    heddle_request_task_t task[];
} crowd_t;

typedef struct control {
    _Atomic int made, started, finalized, joined, left, asked;
    uint32_t fails_at; /* the endpoint; N: none */
    bool declines, hangs;
    uint64_t max_count;
} control_t;

static control_t control;

static void reset_control(void) {
    memset(&control, 0, sizeof(control));
    control.fails_at = UINT32_MAX;
    control.max_count = UINT64_MAX;
    n_errors = 0;
}

static void add_up(ucc_coll_task_t *task) {
    crowd_t *c = (crowd_t *)(void *)((char *)task - offsetof(crowd_t, sum));
    if (task->state != UCC_TASK_STATE_INPROGRESS) {
        return;
    }
    for (uint64_t i = 0; i < c->count; i++) {
        int32_t sum = 0;
        for (uint32_t e = 0; e < c->size; e++) {
            sum += c->all[e * c->count + i];
        }
        c->dst[i] = sum;
    }
    heddle_coll_task_end(task, UCC_OK);
}

/* Half-way: after its own bcast. */
static void fail(ucc_coll_task_t *task) {
    heddle_coll_task_end(task, UCC_ERR_IO_ERROR);
}

static ucc_status_t make(const heddle_algorithm_call_t *call, void *arg, ucc_schedule_t **schedule,
                         void **self) {
    cr_assert_eq(arg, &control);
    if (control.declines) {
        return UCC_ERR_NOT_SUPPORTED;
    }
    uint64_t count = call->args->dst.info.count;
    cr_assert_eq(call->bytes, count * sizeof(int32_t));
    crowd_t *c = calloc(1, sizeof(*c) + call->size * sizeof(c->task[0]));
    *c = (crowd_t){.size = call->size,
                   .me = call->endpoint,
                   .count = count,
                   .src = call->args->src.info.buffer,
                   .dst = call->args->dst.info.buffer,
                   .all = calloc(call->size * count, sizeof(int32_t))};
    ucc_schedule_init(&c->schedule);
    ucc_coll_task_init(&c->sum);
    c->sum.handlers[UCC_EVENT_PROGRESS] = call->endpoint == control.fails_at ? fail
                                          : control.hangs                    ? NULL
                                                                             : add_up;
    for (uint32_t e = 0; e < call->size; e++) {
        ucc_coll_args_t args = small_bcast(c->all + e * count, count, e);
        uint64_t none = 0;
        heddle_collective_task_init(&c->task[e], call->team, &args, &none);
        ucc_schedule_add_task(&c->schedule, &c->task[e].super);
        if (call->endpoint != control.fails_at || e == call->endpoint) {
            ucc_event_manager_subscribe(&c->task[e].super.em, UCC_EVENT_COMPLETED, &c->sum);
        }
    }
    ucc_schedule_add_task(&c->schedule, &c->sum);
    control.made++;
    *schedule = &c->schedule;
    *self = c;
    return UCC_OK;
}

static ucc_status_t start(void *self, uint64_t tag) {
    crowd_t *c = self;
    for (uint32_t e = 0; e < c->size; e++) {
        c->task[e].tag = tag + e;
    }
    memcpy(c->all + c->me * c->count, c->src, c->count * sizeof(int32_t));
    control.started++;
    return UCC_OK;
}

static void finalize(void *self) {
    crowd_t *c = self;
    cr_assert_eq(heddle_schedule_destroy(&c->schedule), UCC_OK);
    for (uint32_t e = 0; e < c->size; e++) {
        heddle_coll_task_destroy(&c->task[e].super);
    }
    heddle_coll_task_destroy(&c->sum);
    free(c->all);
    free(c);
    control.finalized++;
}

static bool is_small(const heddle_algorithm_call_t *call, void *arg) {
    (void)arg;
    control.asked++;
    return call->args->dst.info.count <= control.max_count;
}

static ucc_status_t join(ucc_team_h team, void *arg, void **team_data) {
    (void)team;
    (void)arg;
    *team_data = &control;
    control.joined++;
    return UCC_OK;
}

static void leave(void *team_data) {
    cr_assert_eq(team_data, &control);
    control.left++;
}

static const heddle_algorithm_params_t crowd = {.name = "crowd",
                                                .coll_types = UCC_COLL_TYPE_ALLREDUCE,
                                                .arg = &control,
                                                .matches = is_small,
                                                .join = join,
                                                .leave = leave,
                                                .init = make,
                                                .start = start,
                                                .finalize = finalize};

static void register_all(world_t *world, heddle_algorithm_t **a) {
    for (uint32_t i = 0; i < world->size; i++) {
        cr_assert_eq(heddle_algorithm_register(world->teams[i], &crowd, &a[i]), UCC_OK);
    }
}

/* What any client does. */
static void allreduce(world_t *world, uint64_t count, ucc_status_t wanted) {
    uint32_t n = world->size;
    ucc_coll_req_h request[16];
    int32_t *src = calloc(n * count, sizeof(*src)), *dst = calloc(n * count, sizeof(*dst));
    for (uint32_t i = 0; i < n; i++) {
        for (uint64_t j = 0; j < count; j++) {
            src[i * count + j] = (int32_t)(i + j);
        }
        ucc_coll_args_t args = small_allreduce(src + i * count, dst + i * count, count);
        request[i] = small_start(world, i, &args);
    }
    small_wait(world, request, n);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(ucc_collective_test(request[i]), wanted);
        for (uint64_t j = 0; j < count && wanted == UCC_OK; j++) {
            cr_assert_eq(dst[i * count + j], (int32_t)(n * (n - 1) / 2 + n * j));
        }
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
    }
    free(src);
    free(dst);
}

Test(algorithm, a_registered_one_is_used_by_clients_that_know_nothing_of_it) {
    world_t *world = small_world(N);
    heddle_algorithm_t *a[N];
    reset_control();
    allreduce(world, 5, UCC_OK); /* plans are kept from before */
    register_all(world, a);
    for (int round = 1; round <= 3; round++) {
        allreduce(world, 5, UCC_OK);
        cr_assert_eq(control.started, N * round);
        cr_assert_eq(control.finalized, N * round);
    }
    cr_assert_eq(control.joined, N);
    world_destroy(world);
    cr_assert_eq(control.left, N);
}

Test(algorithm, the_call_log_names_it) {
    heddle_algorithm_t *a[N];
    setenv("HEDDLE_COLL_TRACE", "info", 1);
    hd_log_capture(keep_call, NULL);
    world_t *world = small_world(N);
    reset_control();
    allreduce(world, 5, UCC_OK);
    cr_assert_not_null(strstr(logged_call, "; inline, arrival flat, numbered"), "%s", logged_call);
    register_all(world, a);
    allreduce(world, 5, UCC_OK);
    cr_assert_not_null(strstr(logged_call, "; algorithm \"crowd\", "), "%s", logged_call);
    world_destroy(world);
}

Test(algorithm, other_collectives_and_sizes_and_tagged_ones_are_ours) {
    world_t *world = small_world(N);
    heddle_algorithm_t *a[N];
    reset_control();
    control.max_count = 4;
    register_all(world, a);
    allreduce(world, 5, UCC_OK);
    cr_assert_eq(control.made, 0);
    int asked = control.asked;
    cr_assert_gt(asked, 0);
    allreduce(world, 4, UCC_OK);
    cr_assert_eq(control.made, N);
    asked = control.asked;
    ucc_coll_args_t args[N];
    int32_t value[N], sum[N];
    for (uint32_t i = 0; i < N; i++) {
        value[i] = 1;
        args[i] = small_allreduce(&value[i], &sum[i], 1);
        args[i].mask |= UCC_COLL_ARGS_FIELD_TAG;
        args[i].tag = 7;
    }
    small_run(world, args, "tagged");
    for (uint32_t i = 0; i < N; i++) {
        args[i] = small_barrier();
    }
    small_run(world, args, "barrier");
    cr_assert_eq(control.asked, asked);
    world_destroy(world);
}

Test(algorithm, what_it_declines_is_ours) {
    world_t *world = small_world(N);
    heddle_algorithm_t *a[N];
    reset_control();
    control.declines = true;
    register_all(world, a);
    allreduce(world, 5, UCC_OK);
    cr_assert_eq(control.made, 0);
    world_destroy(world);
}

Test(algorithm, what_was_unregistered_is_not_used) {
    world_t *world = small_world(N);
    heddle_algorithm_t *a[N];
    reset_control();
    register_all(world, a);
    allreduce(world, 2, UCC_OK);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(heddle_algorithm_unregister(a[i]), UCC_OK);
    }
    allreduce(world, 2, UCC_OK);
    cr_assert_eq(control.made, N);
    world_destroy(world);
    cr_assert_eq(control.left, N);
}

Test(algorithm, it_is_unregistered_once) {
    world_t *world = small_world(1);
    heddle_algorithm_t *a;
    reset_control();
    cr_assert_eq(heddle_algorithm_register(world->teams[0], &crowd, &a), UCC_OK);
    cr_assert_eq(heddle_algorithm_unregister(a), UCC_OK);
    cr_assert_eq(heddle_algorithm_unregister(a), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(n_errors, 1);
    allreduce(world, 2, UCC_OK);
    world_destroy(world);
}

/* What a program gets wrong that hands out one schedule, or starts it itself. */
static ucc_schedule_t *kept;
static heddle_algorithm_params_t single;

static ucc_status_t make_one(const heddle_algorithm_call_t *call, void *arg,
                             ucc_schedule_t **schedule, void **self) {
    ucc_status_t status = make(call, arg, schedule, self);
    if (kept) {
        *schedule = kept;
    }
    kept = *schedule;
    return status;
}

Test(algorithm, a_schedule_is_one_request_s) {
    world_t *world = small_world(1);
    heddle_algorithm_t *a;
    ucc_coll_req_h request, other = NULL;
    int32_t src = 7, sum = 0, more = 0;
    reset_control();
    kept = NULL;
    single = crowd;
    single.init = make_one;
    cr_assert_eq(heddle_algorithm_register(world->teams[0], &single, &a), UCC_OK);
    ucc_coll_args_t args = small_allreduce(&src, &sum, 1);
    request = small_start(world, 0, &args);
    args.dst.info.buffer = &more;
    cr_assert_eq(ucc_collective_init(&args, &other, world->teams[0]), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(n_errors, 1);
    small_wait(world, &request, 1);
    cr_assert_eq(ucc_collective_test(request), UCC_OK);
    cr_assert_eq(sum, 7);
    cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
    world_destroy(world);
}

static ucc_status_t start_twice(void *self, uint64_t tag) {
    crowd_t *c = self;
    cr_assert_eq(ucc_schedule_start(&c->schedule), UCC_ERR_INVALID_PARAM);
    return start(self, tag);
}

Test(algorithm, its_schedule_is_started_by_the_post_only) {
    world_t *world = small_world(1);
    heddle_algorithm_t *a;
    reset_control();
    single = crowd;
    single.start = start_twice;
    cr_assert_eq(heddle_algorithm_register(world->teams[0], &single, &a), UCC_OK);
    allreduce(world, 3, UCC_OK);
    cr_assert_eq(n_errors, 1);
    world_destroy(world);
}

/* Its only task is the very collective, without a tag. */
typedef struct again {
    ucc_schedule_t schedule;
    heddle_request_task_t task;
} again_t;

static ucc_status_t make_again(const heddle_algorithm_call_t *call, void *arg,
                               ucc_schedule_t **schedule, void **self) {
    again_t *a = calloc(1, sizeof(*a));
    (void)arg;
    ucc_schedule_init(&a->schedule);
    heddle_collective_task_init(&a->task, call->team, call->args, NULL);
    ucc_schedule_add_task(&a->schedule, &a->task.super);
    control.made++;
    *schedule = &a->schedule;
    *self = a;
    return UCC_OK;
}

static ucc_status_t init_again(const heddle_algorithm_call_t *call, void *arg,
                               ucc_schedule_t **schedule, void **self) {
    ucc_coll_args_t args = *call->args;
    ucc_coll_req_h request;
    (void)arg;
    (void)schedule;
    (void)self;
    return ucc_collective_init(&args, &request, call->team);
}

static void free_again(void *self) {
    control.finalized++;
    free(self);
}

Test(algorithm, one_that_runs_itself_fails_instead_of_never_ending) {
    world_t *world = small_world(2);
    heddle_algorithm_t *a[2];
    reset_control();
    single = crowd;
    single.init = make_again;
    single.start = NULL;
    single.finalize = free_again;
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(heddle_algorithm_register(world->teams[i], &single, &a[i]), UCC_OK);
    }
    allreduce(world, 1, UCC_ERR_INVALID_PARAM);
    world_destroy(world);
    cr_assert_eq(control.made, control.finalized);
    cr_assert_leq(control.made, 2 * 15);
}

Test(algorithm, one_that_initialises_itself_fails_instead_of_never_ending) {
    world_t *world = small_world(1);
    heddle_algorithm_t *a;
    ucc_coll_req_h request;
    int32_t src = 1, sum;
    reset_control();
    single = crowd;
    single.init = init_again;
    cr_assert_eq(heddle_algorithm_register(world->teams[0], &single, &a), UCC_OK);
    ucc_coll_args_t args = small_allreduce(&src, &sum, 1);
    cr_assert_eq(ucc_collective_init(&args, &request, world->teams[0]), UCC_ERR_INVALID_PARAM);
    cr_assert_gt(n_errors, 1, "%d", n_errors); /* of the innermost call, and of those around it */
    world_destroy(world);
}

Test(algorithm, teams_made_from_a_context_have_what_was_registered_with_it) {
    oob_board_t *board = NULL;
    (void)board;
    heddle_group_t *group;
    heddle_group_params_t params = {.endpoints = 2};
    heddle_ep_t *ep[2], *sub[2];
    heddle_algorithm_t *a[2];
    static const uint32_t list[2] = {1, 0};
    reset_control();
    must(heddle_group_create(&params, &group), "heddle_group_create");
    for (uint32_t i = 0; i < 2; i++) {
        must(heddle_join(group, i, &ep[i]), "heddle_join");
        cr_assert_eq(heddle_algorithm_register_context(heddle_ep_context(ep[i]), &crowd, &a[i]),
                     UCC_OK);
        must(heddle_subset(ep[i], list, 2, &sub[i]), "heddle_subset");
    }
    int32_t one[2] = {1, 2}, sum[2];
    for (int on_sub = 0; on_sub < 2; on_sub++) {
        ucc_coll_req_h request[2];
        for (uint32_t i = 0; i < 2; i++) {
            ucc_coll_args_t args = small_allreduce(&one[i], &sum[i], 1);
            must(ucc_collective_init_and_post(&args, &request[i],
                                              heddle_ep_team(on_sub ? sub[i] : ep[i])),
                 "post");
        }
        for (uint32_t i = 0; i < 2; i++) {
            while (ucc_collective_test(request[i]) == UCC_INPROGRESS) {
                heddle_progress(ep[0]);
                heddle_progress(ep[1]);
            }
            cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
            cr_assert_eq(sum[i], 3);
        }
        cr_assert_eq(control.made, on_sub ? 2 : 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(heddle_algorithm_unregister(a[i]), UCC_OK);
        cr_assert_eq(heddle_leave(sub[i]), UCC_OK);
        cr_assert_eq(heddle_leave(ep[i]), UCC_OK);
    }
    heddle_group_destroy(group);
}

Test(algorithm, a_persistent_request_runs_it_again_and_again) {
    world_t *world = small_world(N);
    heddle_algorithm_t *a[N];
    ucc_coll_req_h request[2][N];
    int32_t src[2][N], sum[2][N];
    reset_control();
    register_all(world, a);
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            ucc_coll_args_t args = small_allreduce(&src[k][i], &sum[k][i], 1);
            args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
            args.flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
            request[k][i] = small_init(world, i, &args);
        }
    }
    for (int32_t round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < N; i++) { /* started in another order at each endpoint */
            for (uint32_t k = 0; k < 2; k++) {
                uint32_t which = (k + i) % 2;
                src[which][i] = round + (int32_t)which;
                cr_assert_eq(ucc_collective_post(request[which][i]), UCC_OK);
            }
        }
        small_wait(world, request[0], N);
        small_wait(world, request[1], N);
        cr_assert_eq(sum[0][1], N * round);
        cr_assert_eq(sum[1][2], N * (round + 1));
    }
    cr_assert_eq(control.made, 2 * N);
    cr_assert_eq(control.started, 2 * N * 4);
    small_finish(world, request[0], N);
    small_finish(world, request[1], N);
    world_destroy(world);
}

Test(algorithm, several_run_at_once_and_in_between_ours) {
    enum { DEEP = 6 };
    world_t *world = small_world(N);
    heddle_algorithm_t *a[N];
    ucc_coll_req_h request[DEEP][N];
    int32_t src[DEEP][N], sum[DEEP][N][8];
    int32_t wide[N][8];
    reset_control();
    control.max_count = 1;
    register_all(world, a);
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = 0; k < DEEP; k++) {
            src[k][i] = (int32_t)(k + i);
            wide[i][0] = 1;
            ucc_coll_args_t args = k % 2 ? small_allreduce(wide[i], sum[k][i], 8)
                                         : small_allreduce(&src[k][i], sum[k][i], 1);
            request[k][i] = small_start(world, i, &args);
        }
    }
    for (uint32_t k = 0; k < DEEP; k++) {
        small_finish(world, request[k], N);
        for (uint32_t i = 0; i < N; i++) {
            cr_assert_eq(sum[k][i][0], k % 2 ? N : (int32_t)(N * k + 3));
        }
    }
    cr_assert_eq(control.made, N * DEEP / 2);
    world_destroy(world);
}

/* One that fails at one endpoint: everybody is told, and one line says where and why. */
Test(algorithm, a_failure_half_way_is_everybody_s_and_told_once) {
    world_t *world = small_world(N);
    heddle_algorithm_t *a[N];
    reset_control();
    control.fails_at = 1;
    register_all(world, a);
    allreduce(world, 4, UCC_ERR_IO_ERROR);
    cr_assert_eq(n_errors, 1, "%d lines, such as %s", n_errors, last_line);
    cr_assert(strstr(last_line, "allreduce at endpoint 1 of 3, by the algorithm \"crowd\": failed"),
              "%s", last_line);
    cr_assert_eq(control.finalized, N);
    world_destroy(world);
}

Test(algorithm, an_abort_ends_what_hangs) {
    world_t *world = small_world(N);
    heddle_algorithm_t *a[N];
    ucc_coll_req_h request[N];
    int32_t src[N] = {0}, sum[N];
    reset_control();
    control.hangs = true; /* the last task of each never ends by itself */
    register_all(world, a);
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_allreduce(&src[i], &sum[i], 1);
        request[i] = small_start(world, i, &args);
    }
    small_idle(world);
    cr_assert_eq(ucc_collective_test(request[2]), UCC_INPROGRESS);
    cr_assert_eq(ucc_collective_finalize(request[2]), UCC_ERR_INVALID_PARAM);
    heddle_team_abort(world->teams[0]);
    small_wait(world, request, N);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(ucc_collective_test(request[i]), HEDDLE_ERR_ABORTED);
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
    }
    world_destroy(world);
}

Test(algorithm, a_time_out_ends_what_hangs) {
    world_t *world = small_world(N);
    heddle_algorithm_t *a[N];
    ucc_coll_req_h request[N];
    int32_t src[N] = {0}, sum[N];
    reset_control();
    control.hangs = true;
    register_all(world, a);
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_allreduce(&src[i], &sum[i], 1);
        args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
        args.timeout = i == 0 ? 0.02 : 1000;
        request[i] = small_start(world, i, &args);
    }
    small_wait(world, request, N);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(ucc_collective_test(request[i]), UCC_ERR_TIMED_OUT);
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
    }
    cr_assert_eq(n_errors, 1, "%d lines, such as %s", n_errors, last_line);
    world_destroy(world);
}

/* Registered at one endpoint only: its peers wait for it in vain, and a time-out at any tells all.
 */
Test(algorithm, a_wrong_mix_ends_with_a_time_out_and_not_silently) {
    setenv("HEDDLE_STALL", "0.05", 1);
    world_t *world = small_world(N);
    heddle_algorithm_t *a;
    ucc_coll_req_h request[N];
    int32_t src[N] = {0}, sum[N];
    reset_control();
    n_warnings = 0;
    cr_assert_eq(heddle_algorithm_register(world->teams[1], &crowd, &a), UCC_OK);
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_allreduce(&src[i], &sum[i], 1);
        args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
        args.timeout = 0.4;
        request[i] = small_start(world, i, &args);
    }
    small_wait(world, request, N);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_lt(ucc_collective_test(request[i]), UCC_OK);
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
    }
    cr_assert_gt(n_warnings, 0);
    world_destroy(world);
}

/* What the others call next is not what they wait for: that is found as for any mismatch. */
Test(algorithm, a_wrong_mix_fails_everywhere_at_the_next_collective) {
    world_t *world = small_world(N);
    heddle_algorithm_t *a;
    ucc_coll_req_h request[2][N];
    int32_t src[N] = {0}, sum[N];
    reset_control();
    cr_assert_eq(heddle_algorithm_register(world->teams[1], &crowd, &a), UCC_OK);
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_allreduce(&src[i], &sum[i], 1);
        request[0][i] = small_start(world, i, &args);
        args = small_barrier();
        request[1][i] = small_init(world, i, &args);
    }
    for (uint32_t i = 0; i < N; i++) { /* may find it at once */
        (void)ucc_collective_post(request[1][i]);
    }
    small_wait(world, request[0], N);
    small_wait(world, request[1], N);
    for (uint32_t i = 0; i < 2 * N; i++) {
        cr_assert_lt(ucc_collective_test(request[i / N][i % N]), UCC_OK);
        cr_assert_eq(ucc_collective_finalize(request[i / N][i % N]), UCC_OK);
    }
    cr_assert_gt(n_errors, 0);
    world_destroy(world);
}

/* --- handlers that do what they like ---------------------------------------------------------- */

typedef struct bold {
    ucc_schedule_t schedule, other; /* the second is started by a task of the first */
    ucc_coll_task_t task, last;
    heddle_ep_t *ep;
    int32_t sum;
} bold_t;

static void do_all(ucc_coll_task_t *task) {
    bold_t *b = (bold_t *)(void *)((char *)task - offsetof(bold_t, task));
    int32_t one = 1;
    if (task->state != UCC_TASK_STATE_INPROGRESS) {
        return;
    }
    must(heddle_allreduce(b->ep, &one, &b->sum, 1, UCC_DT_INT32, UCC_OP_SUM), "inside a handler");
    must(heddle_progress(b->ep), "progress inside a handler");
    must(ucc_schedule_start(&b->other), "a start inside a handler");
    deadline_t deadline = deadline_start("a schedule driven inside a handler of another");
    while (ucc_schedule_progress(&b->other) == UCC_INPROGRESS) {
        deadline_poll(&deadline);
    }
    must(heddle_coll_task_end(task, UCC_OK), "heddle_coll_task_end");
}

static void end_last(ucc_coll_task_t *task) {
    if (task->state == UCC_TASK_STATE_INPROGRESS) {
        must(heddle_barrier(((bold_t *)(void *)((char *)task - offsetof(bold_t, last)))->ep),
             "a barrier inside a handler");
        must(heddle_coll_task_end(task, UCC_OK), "heddle_coll_task_end");
    }
}

static void be_bold(heddle_ep_t *ep, void *arg) {
    bold_t b = {.ep = ep};
    ucc_schedule_t *s = &b.schedule;
    (void)arg;
    ucc_schedule_init(&b.schedule);
    ucc_schedule_init(&b.other);
    ucc_coll_task_init(&b.task);
    ucc_coll_task_init(&b.last);
    b.task.handlers[UCC_EVENT_PROGRESS] = do_all;
    b.last.handlers[UCC_EVENT_PROGRESS] = end_last;
    ucc_schedule_add_task(&b.schedule, &b.task);
    ucc_schedule_add_task(&b.other, &b.last);
    heddle_schedule_attach(&b.schedule, heddle_ep_context(ep));
    heddle_schedule_attach(&b.other, heddle_ep_context(ep));
    for (int i = 0; i < 10; i++) {
        must(ucc_schedule_start(&b.schedule), "ucc_schedule_start");
        must(drive(&s, 1), "a schedule whose handlers wait");
        must(b.sum == (int32_t)heddle_ep_size(ep) ? UCC_OK : UCC_ERR_LAST, "the sum");
    }
}

Test(algorithm, handlers_wait_for_collectives_and_drive_other_schedules) {
    cr_assert_eq(heddle_run(3, be_bold, NULL), UCC_OK);
}

/* --- forks ------------------------------------------------------------------------------------ */

/* 0 if a child of this process finds that, of its copies of these requests, all end, and with an
 * error. */
static int ends_in_a_child(ucc_coll_req_h *request, uint32_t n) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        for (uint32_t i = 0; i < n; i++) {
            if (heddle_wait(request[i], 30) >= UCC_OK ||
                ucc_collective_finalize(request[i]) != UCC_OK) {
                _exit(1);
            }
        }
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(algorithm, what_is_in_progress_at_a_fork_fails_in_the_child) {
    world_t *world = small_world(N);
    heddle_algorithm_t *a[N];
    ucc_coll_req_h request[N];
    int32_t src[N] = {0}, sum[N];
    reset_control();
    control.hangs = true;
    register_all(world, a);
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_allreduce(&src[i], &sum[i], 1);
        request[i] = small_start(world, i, &args);
    }
    small_idle(world);
    cr_assert_eq(ends_in_a_child(request, N), 0);
    heddle_team_abort(world->teams[0]);
    small_wait(world, request, N);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(ucc_collective_test(request[i]), HEDDLE_ERR_ABORTED);
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
    }
    world_destroy(world);
}

static _Atomic bool inside_handler, may_return;

static void stay(ucc_coll_task_t *task) {
    if (task->state == UCC_TASK_STATE_INPROGRESS) {
        inside_handler = true;
        while (!may_return) {
            usleep(1000);
        }
        heddle_coll_task_end(task, UCC_OK);
    }
}

typedef struct staying {
    ucc_schedule_t schedule;
    ucc_coll_task_t task;
} staying_t;

static ucc_status_t make_staying(const heddle_algorithm_call_t *call, void *arg,
                                 ucc_schedule_t **schedule, void **self) {
    staying_t *s = calloc(1, sizeof(*s));
    (void)call;
    (void)arg;
    ucc_schedule_init(&s->schedule);
    ucc_coll_task_init(&s->task);
    s->task.handlers[UCC_EVENT_PROGRESS] = stay;
    ucc_schedule_add_task(&s->schedule, &s->task);
    *schedule = &s->schedule;
    *self = s;
    return UCC_OK;
}

static void *wait_for(void *request) {
    cr_assert_eq(heddle_wait(request, -1), UCC_OK);
    return NULL;
}

Test(algorithm, what_another_thread_is_inside_of_at_a_fork_fails_in_the_child) {
    world_t *world = small_world(1);
    heddle_algorithm_t *a;
    heddle_algorithm_params_t params = {
        .coll_types = UCC_COLL_TYPE_BARRIER, .init = make_staying, .finalize = free};
    ucc_coll_args_t args = small_barrier();
    ucc_coll_req_h request;
    pthread_t thread;
    cr_assert_eq(heddle_algorithm_register(world->teams[0], &params, &a), UCC_OK);
    request = small_start(world, 0, &args);
    pthread_create(&thread, NULL, wait_for, request);
    while (!inside_handler) {
        usleep(1000);
    }
    cr_assert_eq(ends_in_a_child(&request, 1), 0);
    may_return = true;
    pthread_join(thread, NULL);
    cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
    world_destroy(world);
}

static ucc_status_t bad_init(const heddle_algorithm_call_t *call, void *arg,
                             ucc_schedule_t **schedule, void **self) {
    (void)call;
    (void)arg;
    (void)schedule;
    (void)self;
    return UCC_ERR_NO_RESOURCE;
}

Test(algorithm, an_error_of_its_init_is_that_of_the_call) {
    world_t *world = small_world(1);
    heddle_algorithm_t *a;
    heddle_algorithm_params_t params = crowd;
    ucc_coll_req_h request = NULL;
    int32_t src = 1, sum;
    reset_control();
    params.init = bad_init;
    cr_assert_eq(heddle_algorithm_register(world->teams[0], &params, &a), UCC_OK);
    ucc_coll_args_t args = small_allreduce(&src, &sum, 1);
    cr_assert_eq(ucc_collective_init(&args, &request, world->teams[0]), UCC_ERR_NO_RESOURCE);
    cr_assert(strstr(last_line, "init of the algorithm \"crowd\" returned"), "%s", last_line);
    cr_assert_eq(request, NULL);
    world_destroy(world);
}

static int n_called;

static void count_call(void *data, ucc_status_t status) {
    *(ucc_status_t *)data = status;
    n_called++;
}

Test(algorithm, the_client_s_callback_is_called_once_when_it_is_over) {
    world_t *world = small_world(N);
    heddle_algorithm_t *a[N];
    ucc_coll_req_h request[N];
    ucc_status_t told[N];
    int32_t src[N], sum[N];
    reset_control();
    register_all(world, a);
    for (uint32_t i = 0; i < N; i++) {
        told[i] = UCC_ERR_LAST;
        src[i] = (int32_t)i;
        ucc_coll_args_t args = small_allreduce(&src[i], &sum[i], 1);
        args.mask |= UCC_COLL_ARGS_FIELD_CB;
        args.cb = (ucc_coll_callback_t){.cb = count_call, .data = &told[i]};
        request[i] = small_start(world, i, &args);
    }
    small_finish(world, request, N);
    cr_assert_eq(n_called, N);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(told[i], UCC_OK);
        cr_assert_eq(sum[i], N * (N - 1) / 2);
    }
    world_destroy(world);
}

static void blocking(heddle_ep_t *ep, void *arg) {
    heddle_algorithm_t *a;
    int32_t one = 1, sum;
    (void)arg;
    for (int i = 0; i < 3; i++) { /* teaches the handle */
        must(heddle_allreduce(ep, &one, &sum, 1, UCC_DT_INT32, UCC_OP_SUM), "allreduce");
    }
    must(heddle_algorithm_register(heddle_ep_team(ep), &crowd, &a), "register");
    for (int i = 0; i < 10; i++) {
        must(heddle_allreduce(ep, &one, &sum, 1, UCC_DT_INT32, UCC_OP_SUM), "allreduce");
        must(sum == (int32_t)heddle_ep_size(ep) ? UCC_OK : UCC_ERR_LAST, "the sum");
    }
    must(heddle_algorithm_unregister(a), "unregister");
    must(heddle_allreduce(ep, &one, &sum, 1, UCC_DT_INT32, UCC_OP_SUM), "allreduce");
}

Test(algorithm, blocking_calls_of_threads_use_it) {
    reset_control();
    cr_assert_eq(heddle_run(4, blocking, NULL), UCC_OK);
    cr_assert_eq(control.started, 40);
    cr_assert_eq(control.finalized, 40);
}

/* --- of a v type ------------------------------------------------------------------------------ */

/* Does nothing. */
typedef struct idle {
    ucc_schedule_t schedule;
    ucc_coll_task_t task;
} idle_t;

static void end_at_once(ucc_coll_task_t *task) {
    if (task->state == UCC_TASK_STATE_INPROGRESS) {
        heddle_coll_task_end(task, UCC_OK);
    }
}

static ucc_status_t make_idle(const heddle_algorithm_call_t *call, void *arg,
                              ucc_schedule_t **schedule, void **self) {
    (void)call;
    idle_t *idle = arg;
    ucc_schedule_init(&idle->schedule);
    ucc_coll_task_init(&idle->task);
    idle->task.handlers[UCC_EVENT_PROGRESS] = end_at_once;
    ucc_schedule_add_task(&idle->schedule, &idle->task);
    *schedule = &idle->schedule;
    *self = idle;
    return UCC_OK;
}

static ucc_status_t start_idle(void *self, uint64_t tag) {
    (void)self;
    (void)tag;
    return UCC_OK;
}

static void finalize_idle(void *self) {
    idle_t *idle = self;
    cr_assert_eq(heddle_schedule_destroy(&idle->schedule), UCC_OK);
    heddle_coll_task_destroy(&idle->task);
}

Test(algorithm, a_v_type_that_it_runs_is_called_so) {
    world_t *world = small_world(1);
    idle_t idle;
    heddle_algorithm_t *a;
    heddle_algorithm_params_t params = {.name = "idle",
                                        .coll_types = UCC_COLL_TYPE_ALLGATHERV,
                                        .arg = &idle,
                                        .init = make_idle,
                                        .start = start_idle,
                                        .finalize = finalize_idle};
    int32_t src = 1, dst = 0;
    uint32_t counts[] = {1}, displacements[] = {0};
    ucc_coll_args_t args = small_args(UCC_COLL_TYPE_ALLGATHERV);
    args.src.info = small_info(&src, 1);
    args.dst.info_v = small_info_v(&dst, counts, displacements);
    cr_assert_eq(heddle_algorithm_register(world->teams[0], &params, &a), UCC_OK);
    ucc_coll_req_h request = small_start(world, 0, &args);
    small_wait(world, &request, 1);
    cr_assert_eq(dst, 0, "it has run");
    cr_assert_eq(ucc_collective_post(request), UCC_ERR_INVALID_PARAM);
    cr_assert(strstr(last_line, "allgatherv at endpoint 0: posted with status"), "%s", last_line);
    cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
    world_destroy(world);
}

Test(algorithm, what_is_missing_is_named) {
    world_t *world = small_world(1);
    heddle_algorithm_t *a;
    heddle_algorithm_params_t params = crowd;
    reset_control();
    params.init = NULL;
    cr_assert_eq(heddle_algorithm_register(world->teams[0], &params, &a), UCC_ERR_INVALID_PARAM);
    params = crowd;
    params.coll_types = UCC_BIT(40);
    cr_assert_eq(heddle_algorithm_register(world->teams[0], &params, &a), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(heddle_algorithm_register(NULL, &crowd, &a), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(heddle_algorithm_unregister(NULL), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(n_errors, 4);
    world_destroy(world);
}

/* --- a schedule alone, of a team of two driven by one thread ---------------------------------- */

typedef struct duo {
    heddle_group_t *group;
    heddle_ep_t *ep[2];
    ucc_team_h team[2];
} duo_t;

static duo_t open_duo(void) {
    heddle_group_params_t params = {.endpoints = 2, .contexts = 1};
    duo_t duo;
    must(heddle_group_create(&params, &duo.group), "group");
    for (uint32_t i = 0; i < 2; i++) {
        must(heddle_join(duo.group, i, &duo.ep[i]), "join");
        duo.team[i] = heddle_ep_team(duo.ep[i]);
    }
    return duo;
}

static void close_duo(duo_t *duo) {
    for (uint32_t i = 0; i < 2; i++) {
        must(heddle_leave(duo->ep[i]), "leave");
    }
    must(heddle_group_destroy(duo->group), "destroy");
}

static ucc_schedule_t lone;
static ucc_coll_task_t lone_task;
static heddle_request_task_t lone_barrier;
static ucc_coll_args_t lone_args;

static ucc_status_t make_barrier(const heddle_algorithm_call_t *call, void *arg,
                                 ucc_schedule_t **schedule, void **self) {
    static const uint64_t none = 0;
    (void)arg;
    lone_args = small_barrier();
    ucc_schedule_init(&lone);
    heddle_collective_task_init(&lone_barrier, call->team, &lone_args, &none);
    ucc_schedule_add_task(&lone, &lone_barrier.super);
    *schedule = &lone;
    *self = NULL;
    return UCC_OK;
}

static ucc_status_t take_lone_tag(void *self, uint64_t tag) {
    (void)self;
    lone_barrier.tag = tag;
    return UCC_OK;
}

static void destroy_lone(void *self) {
    (void)self;
    must(heddle_schedule_destroy(&lone), "schedule_destroy");
}

/* From outside of any round, while its request is in progress: the peer never comes. */
Test(algorithm, an_error_that_is_told_to_a_request_in_progress_ends_the_run) {
    duo_t duo = open_duo();
    heddle_algorithm_params_t params = {.name = "barrier",
                                        .coll_types = UCC_COLL_TYPE_ALLREDUCE,
                                        .init = make_barrier,
                                        .start = take_lone_tag,
                                        .finalize = destroy_lone};
    heddle_algorithm_t *a;
    ucc_coll_req_h request;
    int32_t one = 1, sum;
    must(heddle_algorithm_register(duo.team[0], &params, &a), "register");
    ucc_coll_args_t args = small_allreduce(&one, &sum, 1);
    must(ucc_collective_init(&args, &request, duo.team[0]), "init");
    must(ucc_collective_post(request), "post");
    cr_assert_eq(heddle_wait(request, 0.01), UCC_INPROGRESS);
    cr_assert_eq(heddle_coll_task_end(&lone_barrier.super, UCC_ERR_NO_RESOURCE), UCC_OK);
    cr_assert_eq(heddle_wait(request, -1), UCC_ERR_NO_RESOURCE);
    must(ucc_collective_finalize(request), "finalize");
    close_duo(&duo);
}

static ucc_status_t hand_out_lone(const heddle_algorithm_call_t *call, void *arg,
                                  ucc_schedule_t **schedule, void **self) {
    (void)call;
    (void)arg;
    *schedule = &lone;
    *self = NULL;
    return UCC_OK;
}

static void keep_lone(void *self) {
    (void)self;
}

/* Canceling it then is its own business, and not the team's, of which one has a barrier in it. */
Test(algorithm, a_schedule_that_it_kept_is_its_own_again) {
    duo_t duo = open_duo();
    heddle_algorithm_params_t params = {.name = "kept",
                                        .coll_types = UCC_COLL_TYPE_ALLREDUCE,
                                        .init = hand_out_lone,
                                        .finalize = keep_lone};
    heddle_algorithm_t *a;
    ucc_coll_req_h request;
    int32_t one = 1, sum;
    ucc_schedule_init(&lone);
    ucc_coll_task_init(&lone_task);
    lone_task.handlers[UCC_EVENT_PROGRESS] = end_at_once;
    ucc_schedule_add_task(&lone, &lone_task);
    must(heddle_algorithm_register(duo.team[0], &params, &a), "register");
    ucc_coll_args_t args = small_allreduce(&one, &sum, 1);
    must(ucc_collective_init(&args, &request, duo.team[0]), "init");
    must(ucc_collective_post(request), "post");
    must(heddle_wait(request, -1), "wait");
    must(ucc_collective_finalize(request), "finalize");
    must(heddle_algorithm_unregister(a), "unregister");
    lone_args = small_barrier();
    heddle_collective_task_init(&lone_barrier, duo.team[0], &lone_args, NULL);
    ucc_schedule_add_task(&lone, &lone_barrier.super);
    must(ucc_schedule_start(&lone), "start");
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(ucc_schedule_progress(&lone), UCC_INPROGRESS);
    }
    heddle_schedule_cancel(&lone);
    must(ucc_collective_init(&lone_args, &request, duo.team[1]), "init");
    must(ucc_collective_post(request), "post");
    must(heddle_wait(request, -1), "the peer's barrier");
    must(ucc_collective_finalize(request), "finalize");
    while (ucc_schedule_progress(&lone) == UCC_INPROGRESS) {
    }
    cr_assert_lt(ucc_schedule_progress(&lone), UCC_OK);
    must(heddle_schedule_destroy(&lone), "schedule_destroy");
    close_duo(&duo);
}

static duo_t late_duo;

static void add_a_barrier(ucc_coll_task_t *task) {
    (void)task;
    lone_args = small_barrier();
    heddle_collective_task_init(&lone_barrier, late_duo.team[0], &lone_args, NULL);
    must(ucc_schedule_add_task(&lone, &lone_barrier.super), "add");
}

/* What is added for the next run holds no team before that. */
Test(algorithm, a_collective_that_is_added_at_the_end_of_a_run_holds_no_team) {
    ucc_coll_task_t listener;
    late_duo = open_duo();
    ucc_schedule_init(&lone);
    ucc_coll_task_init(&lone_task);
    ucc_coll_task_init(&listener);
    lone_task.handlers[UCC_EVENT_PROGRESS] = end_at_once;
    listener.handlers[UCC_EVENT_COMPLETED] = add_a_barrier;
    ucc_schedule_add_task(&lone, &lone_task);
    ucc_event_manager_subscribe(&lone.super.em, UCC_EVENT_COMPLETED, &listener);
    must(ucc_schedule_start(&lone), "start");
    while (ucc_schedule_progress(&lone) == UCC_INPROGRESS) {
    }
    cr_assert_eq(ucc_schedule_progress(&lone), UCC_OK);
    close_duo(&late_duo);
    must(heddle_schedule_destroy(&lone), "schedule_destroy");
}
