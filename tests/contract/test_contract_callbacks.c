/* test_contract_callbacks.c: what a datatype's callbacks (reduction, pack, unpack) may do, and what
 * comes of those that do something else: a status and a line, at worst a failed team; never a
 * corrupt context, nor a process whose other reductions stop.
 */
#include "core/log.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Atomic int lines; /* that name the mistake */
static _Atomic int alive; /* that tell of a context that was left behind */

static void listen(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    lines += level == HD_LOG_ERROR && strstr(line, "callback") != NULL;
    alive += strstr(line, "are alive") != NULL;
}

static void start(void) {
    hd_log_capture(listen, NULL);
}

TestSuite(callbacks, .init = start, .timeout = 20);

enum { N = 2, COUNT = 100 };

/* N endpoints; all on one context, or each on its own. */
typedef struct crew {
    heddle_group_t *group;
    heddle_ep_t *ep[N];
    ucc_context_h context;
} crew_t;

static crew_t assemble(bool one_context, ucc_thread_mode_t mode) {
    heddle_group_params_t params = {
        .endpoints = N, .contexts = one_context ? 1 : 0, .thread_mode = mode};
    crew_t crew;
    cr_assert_eq(heddle_group_create(&params, &crew.group), UCC_OK);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(heddle_join(crew.group, i, &crew.ep[i]), UCC_OK);
    }
    crew.context = heddle_ep_context(crew.ep[0]);
    return crew;
}

static void dismiss(crew_t *crew) {
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(heddle_leave(crew->ep[i]), UCC_OK);
    }
    cr_assert_eq(heddle_group_destroy(crew->group), UCC_OK);
}

/* --- datatypes whose callbacks run a plan ----------------------------------------------------- */

static void (*plan)(void); /* what the callbacks do besides their work; NULL: nothing */

static void follow_plan(void) {
    if (plan) {
        plan();
    }
}

static ucc_status_t add(const ucc_reduce_cb_params_t *params) {
    const int32_t *a = params->src1, *b = params->src2;
    int32_t *dst = params->dst;
    follow_plan();
    for (size_t i = 0; i < params->count; i++) {
        dst[i] = a[i] + b[i];
    }
    return UCC_OK;
}

static ucc_datatype_t reducible(void) {
    ucc_generic_dt_ops_t ops = {
        .mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
        .flags = UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
        .contig_size = sizeof(int32_t),
        .reduce = {.cb = add},
    };
    ucc_datatype_t dt;
    cr_assert_eq(ucc_dt_create_generic(&ops, NULL, &dt), UCC_OK);
    return dt;
}

/* int32_t of which every second one travels */
typedef struct stream {
    int32_t *at;
    size_t count;
} stream_t;

static void *start_pack(void *context, const void *buffer, size_t count) {
    (void)context;
    static stream_t streams[8]; /* not allocated: who jumps out of pack never gets to finish */
    static uint32_t next;
    stream_t *stream = &streams[next++ % 8];
    *stream = (stream_t){(int32_t *)(uintptr_t)buffer, count};
    return stream;
}

static void *start_unpack(void *context, void *buffer, size_t count) {
    return start_pack(context, buffer, count);
}

static size_t packed_size(void *state) {
    return ((stream_t *)state)->count * sizeof(int32_t);
}

static bool plan_in_pack, plan_in_unpack;

static void finish(void *state) {
    (void)state;
}

static size_t pack(void *state, size_t offset, void *dest, size_t max_length) {
    const stream_t *stream = state;
    if (plan_in_pack) {
        follow_plan();
    }
    for (size_t i = 0; i < max_length / sizeof(int32_t); i++) {
        memcpy((char *)dest + i * sizeof(int32_t), &stream->at[2 * (offset / sizeof(int32_t) + i)],
               sizeof(int32_t));
    }
    return max_length;
}

static ucc_status_t unpack(void *state, size_t offset, const void *src, size_t length) {
    const stream_t *stream = state;
    if (plan_in_unpack) {
        follow_plan();
    }
    for (size_t i = 0; i < length / sizeof(int32_t); i++) {
        memcpy(&stream->at[2 * (offset / sizeof(int32_t) + i)],
               (const char *)src + i * sizeof(int32_t), sizeof(int32_t));
    }
    return UCC_OK;
}

static ucc_datatype_t scattered(void) {
    ucc_generic_dt_ops_t ops = {.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
                                .start_pack = start_pack,
                                .start_unpack = start_unpack,
                                .packed_size = packed_size,
                                .pack = pack,
                                .unpack = unpack,
                                .finish = finish};
    ucc_datatype_t dt;
    cr_assert_eq(ucc_dt_create_generic(&ops, NULL, &dt), UCC_OK);
    return dt;
}

/* --- requests --------------------------------------------------------------------------------- */

static int32_t from[N][2 * COUNT], to[N][2 * COUNT];
static uint32_t completed[4]; /* by what is handed to the completion callback */

static void count_completion(void *data, ucc_status_t status) {
    (void)status;
    ++*(uint32_t *)data;
}

static ucc_coll_req_h prepare(heddle_ep_t *ep, ucc_coll_type_t type, ucc_datatype_t dt,
                              uint32_t *counter) {
    uint32_t me = heddle_ep_index(ep);
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_CB,
                            .coll_type = type,
                            .op = UCC_OP_SUM,
                            .cb = {count_completion, counter}};
    ucc_coll_req_h request;
    args.src.info = (ucc_coll_buffer_info_t){from[me], COUNT, dt, UCC_MEMORY_TYPE_HOST};
    args.dst.info = (ucc_coll_buffer_info_t){to[me], COUNT, dt, UCC_MEMORY_TYPE_HOST};
    for (int32_t i = 0; type != UCC_COLL_TYPE_BARRIER && i < 2 * COUNT; i++) {
        from[me][i] = type == UCC_COLL_TYPE_BCAST && me ? 0 : i + (int32_t)me;
    }
    cr_assert_eq(ucc_collective_init(&args, &request, heddle_ep_team(ep)), UCC_OK);
    return request;
}

static void drive(const crew_t *crew, ucc_coll_req_h *request, uint32_t n) {
    bool busy = true;
    while (busy) {
        busy = false;
        for (uint32_t i = 0; i < N; i++) {
            ucc_context_progress(heddle_ep_context(crew->ep[i]));
        }
        for (uint32_t i = 0; i < n; i++) {
            busy = busy || ucc_collective_test(request[i]) == UCC_INPROGRESS;
        }
    }
}

/* A user-defined allreduce by one driver, which must succeed. */
static void reduce_elsewhere(ucc_datatype_t dt) {
    crew_t other = assemble(true, UCC_THREAD_SINGLE);
    ucc_coll_req_h request[N];
    plan = NULL;
    for (uint32_t i = 0; i < N; i++) {
        request[i] = prepare(other.ep[i], UCC_COLL_TYPE_ALLREDUCE, dt, &completed[3]);
        cr_assert_eq(ucc_collective_post(request[i]), UCC_OK);
    }
    drive(&other, request, N);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(ucc_collective_test(request[i]), UCC_OK);
        cr_assert_eq(to[i][7], 2 * 7 + 1);
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
    }
    dismiss(&other);
}

/* --- calls from inside ------------------------------------------------------------------------ */

static struct {
    crew_t *crew;
    ucc_coll_req_h outer, idle;
    ucc_status_t progress, ep_progress, post, wait, wait_all, wait_all_limited, wait_any, barrier;
    uint32_t calls;
} inside;

static void call_everything(void) {
    inside.calls++;
    for (int i = 0; i < 3; i++) {
        inside.progress = ucc_context_progress(inside.crew->context);
    }
    inside.ep_progress = heddle_progress(inside.crew->ep[0]);
    inside.post = ucc_collective_post(inside.idle);
    inside.barrier = heddle_barrier(inside.crew->ep[0]);
    if (inside.outer) {
        size_t index;
        inside.wait = heddle_wait(inside.outer, -1);
        inside.wait_all = heddle_wait_all(&inside.outer, 1, -1);
        inside.wait_all_limited = heddle_wait_all(&inside.outer, 1, 0.001);
        inside.wait_any = heddle_wait_any(&inside.outer, 1, &index, -1);
    }
}

/* Two requests with callbacks, and one before and one after them in the context's list. */
static void run_with_calls_inside(ucc_coll_type_t type, ucc_datatype_t dt, ucc_thread_mode_t mode) {
    crew_t crew = assemble(true, mode);
    ucc_coll_req_h request[N + 1];
    memset(&inside, 0, sizeof(inside));
    memset(completed, 0, sizeof(completed));
    lines = 0;
    inside.crew = &crew;
    inside.idle = prepare(crew.ep[0], UCC_COLL_TYPE_BARRIER, UCC_DT_INT32, &completed[2]);
    plan = call_everything;
    for (uint32_t i = 0; i < N; i++) {
        request[i] = prepare(crew.ep[i], type, dt, &completed[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        inside.outer = request[0];
        cr_assert_eq(ucc_collective_post(request[i]), UCC_OK);
    }
    drive(&crew, request, N);
    plan = NULL;
    cr_assert_gt(inside.calls, 0);
    cr_assert_eq(inside.post, UCC_ERR_INVALID_PARAM);
    cr_assert_eq(inside.progress, UCC_ERR_INVALID_PARAM);
    cr_assert_eq(inside.ep_progress, UCC_ERR_INVALID_PARAM);
    cr_assert_eq(inside.barrier, UCC_ERR_INVALID_PARAM);
    cr_assert_eq(inside.wait_all, inside.wait);
    cr_assert_eq(inside.wait_all_limited, inside.wait);
    cr_assert_eq(inside.wait_any, inside.wait);
    cr_assert(inside.wait == UCC_ERR_INVALID_PARAM || inside.wait == UCC_OK);
    cr_assert_eq(lines, inside.calls); /* once each */
    /* what was refused can be done afterwards */
    cr_assert_eq(ucc_collective_post(inside.idle), UCC_OK);
    request[N] = prepare(crew.ep[1], UCC_COLL_TYPE_BARRIER, UCC_DT_INT32, &completed[2]);
    cr_assert_eq(ucc_collective_post(request[N]), UCC_OK);
    drive(&crew, &inside.idle, 1);
    drive(&crew, request, N + 1);
    for (uint32_t i = 0; i <= N; i++) {
        cr_assert_eq(ucc_collective_test(request[i]), UCC_OK);
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
        cr_assert_eq(completed[i], i < N ? 1 : 2);
    }
    cr_assert_eq(ucc_collective_finalize(inside.idle), UCC_OK);
    dismiss(&crew);
}

Test(callbacks, calls_inside_a_reduction_are_refused) {
    ucc_datatype_t dt = reducible();
    run_with_calls_inside(UCC_COLL_TYPE_ALLREDUCE, dt, UCC_THREAD_SINGLE);
    cr_assert_eq(to[0][7], 2 * 7 + 1);
    run_with_calls_inside(UCC_COLL_TYPE_ALLREDUCE, dt, UCC_THREAD_MULTIPLE);
    cr_assert_eq(to[1][9], 2 * 9 + 1);
    ucc_dt_destroy(dt);
}

Test(callbacks, calls_inside_pack_are_refused) {
    ucc_datatype_t dt = scattered();
    plan_in_pack = true;
    run_with_calls_inside(UCC_COLL_TYPE_BCAST, dt, UCC_THREAD_SINGLE);
    cr_assert_eq(from[1][8], 8);
    run_with_calls_inside(UCC_COLL_TYPE_BCAST, dt, UCC_THREAD_MULTIPLE);
    ucc_dt_destroy(dt);
}

Test(callbacks, calls_inside_unpack_are_refused) {
    ucc_datatype_t dt = scattered();
    plan_in_unpack = true;
    run_with_calls_inside(UCC_COLL_TYPE_BCAST, dt, UCC_THREAD_SINGLE);
    cr_assert_eq(from[1][8], 8);
    run_with_calls_inside(UCC_COLL_TYPE_BCAST, dt, UCC_THREAD_MULTIPLE);
    ucc_dt_destroy(dt);
}

/* --- callbacks that don't return -------------------------------------------------------------- */

static _Atomic int left; /* callbacks that did not return */

static void end_thread_once(void) {
    if (left++ == 0) {
        pthread_exit(NULL);
    }
}

typedef struct worker {
    heddle_ep_t *ep;
    ucc_datatype_t dt;
    bool returned;
    ucc_status_t status;
} worker_t;

static void *work(void *arg) {
    worker_t *w = arg;
    uint32_t me = heddle_ep_index(w->ep);
    w->status = heddle_allreduce(w->ep, from[me], to[me], COUNT, w->dt, UCC_OP_SUM);
    w->returned = true;
    return NULL;
}

Test(callbacks, one_that_ends_its_thread_fails_its_team_and_stops_nobody_else) {
    for (int round = 0; round < 20; round++) {
        bool shared = round % 2;
        ucc_datatype_t dt = reducible();
        crew_t crew = assemble(shared, shared ? UCC_THREAD_MULTIPLE : UCC_THREAD_SINGLE);
        pthread_t thread[N];
        worker_t worker[N];
        left = 0;
        plan = end_thread_once;
        for (uint32_t i = 0; i < N; i++) {
            worker[i] = (worker_t){.ep = crew.ep[i], .dt = dt};
            cr_assert_eq(pthread_create(&thread[i], NULL, work, &worker[i]), 0);
        }
        for (uint32_t i = 0; i < N; i++) {
            pthread_join(thread[i], NULL);
        }
        cr_assert_eq(worker[0].returned + worker[1].returned, 1);
        cr_assert_eq(worker[worker[1].returned].status, UCC_ERR_NO_MESSAGE);
        reduce_elsewhere(dt);
        for (uint32_t i = 0; i < N; i++) { /* the thread is gone; its operation must end, too */
            ucc_context_progress(heddle_ep_context(crew.ep[i]));
        }
        dismiss(&crew);
        ucc_dt_destroy(dt);
    }
}

static jmp_buf back;

static void jump_once(void) {
    if (left++ == 0) {
        longjmp(back, 1);
    }
}

static __attribute__((noinline)) void drive_until_jump(const crew_t *crew,
                                                       ucc_coll_req_h *request) {
    if (setjmp(back) == 0) {
        for (uint32_t i = 0; i < N; i++) {
            (void)ucc_collective_post(request[i]);
        }
        drive(crew, request, N);
    }
}

static void fail_by_jump(ucc_coll_type_t type, ucc_datatype_t dt, ucc_thread_mode_t mode) {
    crew_t crew = assemble(true, mode);
    ucc_coll_req_h request[N], barrier[N];
    memset(completed, 0, sizeof(completed));
    left = 0;
    plan = jump_once;
    for (uint32_t i = 0; i < N; i++) {
        request[i] = prepare(crew.ep[i], type, dt, &completed[i]);
    }
    drive_until_jump(&crew, request);
    plan = NULL;
    for (uint32_t i = 0; i < N; i++) { /* the failed team says so */
        barrier[i] = prepare(crew.ep[i], UCC_COLL_TYPE_BARRIER, UCC_DT_INT32, &completed[2]);
        (void)ucc_collective_post(barrier[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        while (ucc_collective_test(request[i]) == UCC_INPROGRESS ||
               ucc_collective_test(barrier[i]) == UCC_INPROGRESS) {
            ucc_context_progress(crew.context);
        }
    }
    cr_assert(ucc_collective_test(request[0]) < 0 || ucc_collective_test(request[1]) < 0);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_leq(completed[i], 1);
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
        cr_assert_eq(ucc_collective_finalize(barrier[i]), UCC_OK);
    }
    dismiss(&crew);
}

Test(callbacks, one_that_jumps_out_fails_its_team_and_stops_nobody_else) {
    ucc_datatype_t sum = reducible(), moved = scattered();
    static const ucc_thread_mode_t modes[] = {UCC_THREAD_SINGLE, UCC_THREAD_MULTIPLE};
    for (int i = 0; i < 2; i++) {
        fail_by_jump(UCC_COLL_TYPE_ALLREDUCE, sum, modes[i]);
        reduce_elsewhere(sum);
        plan_in_pack = true;
        fail_by_jump(UCC_COLL_TYPE_BCAST, moved, modes[i]);
        plan_in_pack = false;
        plan_in_unpack = true;
        fail_by_jump(UCC_COLL_TYPE_BCAST, moved, modes[i]);
        plan_in_unpack = false;
        reduce_elsewhere(sum);
    }
    ucc_dt_destroy(sum);
    ucc_dt_destroy(moved);
}

/* Nobody calls ucc_context_progress: such programs only make blocking calls. */
Test(callbacks, endpoints_leave_a_team_that_one_failed_by_ending_its_thread) {
    for (int round = 0; round < 10; round++) {
        ucc_datatype_t dt = reducible();
        crew_t crew = assemble(false, UCC_THREAD_SINGLE);
        pthread_t thread[N];
        worker_t worker[N];
        left = 0;
        plan = end_thread_once;
        for (uint32_t i = 0; i < N; i++) {
            worker[i] = (worker_t){.ep = crew.ep[i], .dt = dt};
            cr_assert_eq(pthread_create(&thread[i], NULL, work, &worker[i]), 0);
        }
        for (uint32_t i = 0; i < N; i++) {
            pthread_join(thread[i], NULL);
        }
        plan = NULL;
        dismiss(&crew);
        ucc_dt_destroy(dt);
    }
}

static void *wait_for_endpoint_0(void *request) {
    heddle_wait(request, 10);
    return request;
}

static __attribute__((noinline)) void wait_until_jump(ucc_coll_req_h request) {
    if (setjmp(back) == 0) {
        heddle_wait(request, 10);
    }
}

/* A thread that waits at endpoint 0 also looks after endpoint 1, whose unpack does not return. */
static void fail_in_a_neighbours_context(void (*how)(void)) {
    ucc_datatype_t dt = scattered();
    crew_t crew = assemble(false, UCC_THREAD_MULTIPLE);
    alive = left = 0;
    plan = how;
    plan_in_unpack = true;
    ucc_coll_req_h moved = prepare(crew.ep[1], UCC_COLL_TYPE_BCAST, dt, &completed[1]);
    cr_assert_eq(ucc_collective_post(moved), UCC_OK);
    ucc_coll_req_h root = prepare(crew.ep[0], UCC_COLL_TYPE_BCAST, dt, &completed[0]);
    cr_assert_eq(ucc_collective_post(root), UCC_OK);
    ucc_coll_req_h barrier =
        prepare(crew.ep[0], UCC_COLL_TYPE_BARRIER, UCC_DT_INT32, &completed[2]);
    cr_assert_eq(ucc_collective_post(barrier), UCC_OK);
    if (how == jump_once) {
        wait_until_jump(barrier);
    } else {
        pthread_t thread;
        void *returned = NULL;
        cr_assert_eq(pthread_create(&thread, NULL, wait_for_endpoint_0, barrier), 0);
        pthread_join(thread, &returned);
        cr_assert_null(returned);
    }
    plan_in_unpack = false;
    cr_assert_eq(left, 1);
    cr_assert_eq(heddle_leave(crew.ep[1]), UCC_OK);
    cr_assert_eq(heddle_leave(crew.ep[0]), UCC_OK);
    cr_assert_eq(heddle_group_destroy(crew.group), UCC_OK);
    cr_assert_eq(alive, 0);
    ucc_dt_destroy(dt);
}

Test(callbacks, one_that_does_not_return_leaves_no_context_behind) {
    fail_in_a_neighbours_context(end_thread_once);
    fail_in_a_neighbours_context(jump_once);
}

/* --- two teams at once ------------------------------------------------------------------------ */

static _Atomic int entered[2], within[2], most_within[2]; /* by team */
static _Atomic int waited_in_vain;

/* Team 0's reduction does not return before team 1's has been called, which must not wait for it.
 */
static void wait_for_the_other_team(int team) {
    struct timespec nap = {.tv_nsec = 1000000};
    int now = ++within[team];
    entered[team] = 1;
    if (now > most_within[team]) {
        most_within[team] = now;
    }
    for (int i = 0; team == 0 && !entered[1] && i < 5000; i++) {
        nanosleep(&nap, NULL);
    }
    waited_in_vain |= team == 0 && !entered[1];
    within[team]--;
}

static ucc_status_t add_of_team(const ucc_reduce_cb_params_t *params) {
    wait_for_the_other_team(params->cb_ctx != NULL);
    return add(params);
}

static ucc_datatype_t of_team(int team) {
    static int token;
    ucc_generic_dt_ops_t ops = {
        .mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
        .flags = UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
        .contig_size = sizeof(int32_t),
        .reduce = {.cb = add_of_team, .cb_ctx = team ? &token : NULL},
    };
    ucc_datatype_t dt;
    cr_assert_eq(ucc_dt_create_generic(&ops, NULL, &dt), UCC_OK);
    return dt;
}

enum { LARGE = 1 << 18 }; /* elements: many chunks, which several threads would like to take */

typedef struct member {
    crew_t *crew;
    uint32_t me;
    ucc_datatype_t dt;
    int32_t *src, *dst;
} member_t;

static void *reduce_large(void *arg) {
    member_t *m = arg;
    for (int i = 0; i < LARGE; i++) {
        m->src[i] = i;
    }
    return (void *)(intptr_t)heddle_allreduce(m->crew->ep[m->me], m->src, m->dst, LARGE, m->dt,
                                              UCC_OP_SUM);
}

Test(callbacks, reductions_of_two_teams_do_not_wait_for_each_other) {
    crew_t crew[2] = {assemble(false, UCC_THREAD_MULTIPLE), assemble(false, UCC_THREAD_MULTIPLE)};
    ucc_datatype_t dt[2] = {of_team(0), of_team(1)};
    member_t member[2][N];
    pthread_t thread[2][N];
    for (int team = 0; team < 2; team++) {
        for (uint32_t i = 0; i < N; i++) {
            member[team][i] = (member_t){.crew = &crew[team],
                                         .me = i,
                                         .dt = dt[team],
                                         .src = calloc(LARGE, sizeof(int32_t)),
                                         .dst = calloc(LARGE, sizeof(int32_t))};
            cr_assert_eq(pthread_create(&thread[team][i], NULL, reduce_large, &member[team][i]), 0);
        }
        for (int ms = 0; team == 0 && !entered[0] && ms < 10000; ms++) {
            struct timespec nap = {.tv_nsec = 1000000};
            nanosleep(&nap, NULL);
        }
        cr_assert(entered[0]);
    }
    for (int team = 1; team >= 0; team--) {
        for (uint32_t i = 0; i < N; i++) {
            void *status;
            pthread_join(thread[team][i], &status);
            cr_assert_eq((intptr_t)status, UCC_OK);
            cr_assert_eq(member[team][i].dst[LARGE - 1], N * (LARGE - 1));
            free(member[team][i].src);
            free(member[team][i].dst);
        }
    }
    cr_assert_not(waited_in_vain);
    cr_assert_eq(most_within[0], 1, "a collective's callbacks are not concurrent");
    cr_assert_eq(most_within[1], 1, "a collective's callbacks are not concurrent");
    for (int team = 0; team < 2; team++) {
        dismiss(&crew[team]);
        ucc_dt_destroy(dt[team]);
    }
}
