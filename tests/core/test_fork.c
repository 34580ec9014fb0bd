/* test_fork.c: what a child of fork() finds: inherited endpoints fail with a status instead of
 * waiting for threads that are not there; new groups work; the parent goes on as if nothing had
 * been.
 */
#include "../support/deadline.h"
#include "../support/small.h"
#include "core/fork.h"
#include "core/log.h"
#include "team/team.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic uint32_t errors;

static void count_error(hd_log_level_t level, const char *line, void *arg) {
    (void)line, (void)arg;
    errors += level <= HD_LOG_ERROR;
}

static void watch_log(void) {
    hd_log_capture(count_error, NULL);
}

TestSuite(fork, .timeout = 60, .init = watch_log);

/* Runs it in a child; true if it says so, and ends in time. */
static bool in_child(bool (*run)(void *arg), void *arg) {
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        errors = 0;
        _exit(run(arg) ? 0 : 1);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

typedef struct scene {
    heddle_ep_t *ep[2];
    ucc_coll_req_h request;
    ucc_team_h forming;
    ucc_context_h context;
} scene_t;

static scene_t scene_open(ucc_thread_mode_t mode) {
    scene_t s = {{NULL}, NULL, NULL, NULL};
    heddle_group_t *group;
    heddle_group_params_t params = {.endpoints = 2, .thread_mode = mode};
    must(heddle_group_create(&params, &group), "group");
    must(heddle_join(group, 0, &s.ep[0]), "join");
    must(heddle_join(group, 1, &s.ep[1]), "join");
    must(heddle_group_destroy(group), "group");
    return s;
}

static bool blocking_call_fails(void *arg) {
    scene_t *s = arg;
    return heddle_barrier(s->ep[0]) == UCC_ERR_NOT_SUPPORTED && errors > 0 &&
           heddle_leave(s->ep[0]) == UCC_OK;
}

static bool post_fails(void *arg) {
    scene_t *s = arg;
    ucc_coll_args_t args = small_barrier();
    ucc_coll_req_h request;
    return ucc_collective_init(&args, &request, heddle_ep_team(s->ep[1])) == UCC_OK &&
           ucc_collective_post(request) == UCC_ERR_NOT_SUPPORTED && errors > 0 &&
           ucc_collective_finalize(request) == UCC_OK;
}

static bool wait_fails(void *arg) {
    scene_t *s = arg;
    return heddle_wait(s->request, -1) == UCC_ERR_NOT_SUPPORTED && errors > 0 &&
           ucc_collective_finalize(s->request) == UCC_OK;
}

static bool deriving_fails(void *arg) {
    scene_t *s = arg;
    heddle_ep_t *sub = s->ep[1];
    ucc_team_h team;
    uint32_t both[] = {0, 1};
    uint64_t list[] = {0, 1}, *eps = list;
    return heddle_subset(s->ep[0], both, 2, &sub) == UCC_ERR_NOT_SUPPORTED && errors > 0 && !sub &&
           ucc_create_team_from_eps(heddle_ep_team(s->ep[0]), &eps, 2, &team) ==
               UCC_ERR_NOT_SUPPORTED &&
           ucc_team_create_from_parent(0, 1, heddle_ep_team(s->ep[0]), &team) ==
               UCC_ERR_NOT_SUPPORTED;
}

static bool forming_fails(void *arg) {
    scene_t *s = arg;
    return ucc_team_create_test(s->forming) == UCC_ERR_NOT_SUPPORTED && errors > 0 &&
           ucc_team_destroy(s->forming) == UCC_OK;
}

static void sum(heddle_ep_t *ep, void *arg) {
    double x = 1;
    if (heddle_allreduce(ep, HEDDLE_IN_PLACE, &x, 1, UCC_DT_FLOAT64, UCC_OP_SUM) == UCC_OK &&
        x == heddle_ep_size(ep)) {
        atomic_fetch_add((_Atomic uint32_t *)arg, 1);
    }
}

static bool new_group_works(void *arg) {
    _Atomic uint32_t right = 0;
    (void)arg;
    return heddle_run(3, sum, &right) == UCC_OK && right == 3;
}

/* One endpoint of an id that the parent has in use, too: they must not be taken for each other. */
static bool new_team_of_a_known_id_works(void *arg) {
    scene_t *s = arg;
    ucc_team_h teams[2];
    for (uint32_t i = 0; i < 2; i++) {
        ucc_team_params_t p = {.mask = UCC_TEAM_PARAM_FIELD_ID | UCC_TEAM_PARAM_FIELD_EP |
                                       UCC_TEAM_PARAM_FIELD_TEAM_SIZE,
                               .id = 4,
                               .ep = i,
                               .team_size = 2};
        if (ucc_team_create_post(&s->context, 1, &p, &teams[i]) != UCC_OK) {
            return false;
        }
    }
    ucc_context_h contexts[2] = {s->context, s->context};
    world_finish_teams(2, teams);
    return small_teams_work(teams, contexts, 2);
}

Test(fork, inherited_endpoints_fail_in_the_child_and_work_in_the_parent) {
    for (int mode = 0; mode < 2; mode++) {
        scene_t s = scene_open(mode ? UCC_THREAD_MULTIPLE : UCC_THREAD_SINGLE);
        ucc_coll_args_t args = small_barrier();
        ucc_coll_req_h other;
        cr_assert(in_child(blocking_call_fails, &s));
        cr_assert(in_child(post_fails, &s));
        cr_assert(in_child(deriving_fails, &s));
        must(ucc_collective_init_and_post(&args, &s.request, heddle_ep_team(s.ep[0])), "post");
        cr_assert(in_child(wait_fails, &s));
        must(ucc_collective_init_and_post(&args, &other, heddle_ep_team(s.ep[1])), "post");
        cr_assert_eq(heddle_wait(s.request, 20), UCC_OK);
        cr_assert_eq(heddle_wait(other, 20), UCC_OK);
        must(ucc_collective_finalize(s.request), "finalize");
        must(ucc_collective_finalize(other), "finalize");
        must(heddle_leave(s.ep[0]), "leave");
        must(heddle_leave(s.ep[1]), "leave");
    }
}

Test(fork, new_groups_work_in_the_child) {
    scene_t s = scene_open(UCC_THREAD_SINGLE);
    cr_assert(in_child(new_group_works, &s));
    must(heddle_leave(s.ep[0]), "leave");
    must(heddle_leave(s.ep[1]), "leave");
}

Test(fork, teams_that_are_being_formed_stay_the_parents) {
    ucc_lib_h lib = world_lib(UCC_THREAD_SINGLE);
    scene_t s = {.context = world_new_context(lib, UCC_CONTEXT_SHARED, NULL)};
    ucc_team_params_t p = {.mask = UCC_TEAM_PARAM_FIELD_ID | UCC_TEAM_PARAM_FIELD_EP |
                                   UCC_TEAM_PARAM_FIELD_TEAM_SIZE,
                           .id = 4,
                           .ep = 0,
                           .team_size = 2};
    must(ucc_team_create_post(&s.context, 1, &p, &s.forming), "post");
    cr_assert(in_child(forming_fails, &s));
    cr_assert(in_child(new_team_of_a_known_id_works, &s));
    cr_assert_eq(ucc_team_create_test(s.forming), UCC_INPROGRESS);
    must(ucc_team_destroy(s.forming), "destroy");
    must(ucc_context_destroy(s.context), "context");
    must(ucc_finalize(lib), "finalize");
}

/* --- what other threads held as the process forked --------------------------------- */

static bool leaving_works(void *arg) {
    scene_t *s = arg;
    return heddle_barrier(s->ep[0]) == UCC_ERR_NOT_SUPPORTED && heddle_leave(s->ep[0]) == UCC_OK &&
           heddle_leave(s->ep[1]) == UCC_OK;
}

/* Its thread is not in the child, and may have held the group's lock. */
Test(fork, groups_with_a_progress_thread_can_be_left_in_the_child) {
    scene_t s;
    heddle_group_t *group;
    heddle_group_params_t params = {.endpoints = 2, .progress_thread = 1};
    must(heddle_group_create(&params, &group), "group");
    must(heddle_join(group, 0, &s.ep[0]), "join");
    must(heddle_join(group, 1, &s.ep[1]), "join");
    must(heddle_group_destroy(group), "group");
    for (int i = 0; i < 20; i++) {
        cr_assert(in_child(leaving_works, &s));
    }
    must(heddle_leave(s.ep[0]), "leave");
    must(heddle_leave(s.ep[1]), "leave");
}

static bool init_and_leave_work(void *arg) {
    return post_fails(arg) && heddle_leave(((scene_t *)arg)->ep[1]) == UCC_OK;
}

Test(fork, handles_that_another_thread_had_locked_are_free_in_the_child) {
    scene_t s = scene_open(UCC_THREAD_MULTIPLE);
    hd_lock(&heddle_ep_team(s.ep[1])->lock);
    cr_assert(in_child(init_and_leave_work, &s));
    hd_unlock(&heddle_ep_team(s.ep[1])->lock);
    must(heddle_leave(s.ep[0]), "leave");
    must(heddle_leave(s.ep[1]), "leave");
}

/* The operations of two endpoints on one context finish in the same round of another thread, which
 * is still in the first one's callback when the process forks: it holds the second one in hand. */
typedef struct held_round {
    scene_t scene;
    ucc_context_h context;
    ucc_coll_req_h request[3], triggered;
    _Atomic bool inside, go;
    bool ended;
} held_round_t;

static void stay(void *data, ucc_status_t status) {
    held_round_t *h = data;
    (void)status;
    h->inside = true;
    while (!h->go) {
        usleep(100);
    }
}

static void *progress_once(void *arg) {
    held_round_t *h = arg;
    ucc_context_progress(h->context);
    return NULL;
}

static bool waits_end(void *arg) {
    held_round_t *h = arg;
    for (int i = 0; i < 3; i++) {
        ucc_status_t status = heddle_wait(h->request[i], -1);
        if (status != UCC_OK && status != UCC_ERR_NOT_SUPPORTED) {
            return false;
        }
    }
    return heddle_wait(h->request[1], -1) == UCC_ERR_NOT_SUPPORTED && errors > 0;
}

static void open_held_round(held_round_t *h, heddle_ep_t **ep, uint32_t n) {
    heddle_group_t *group;
    heddle_group_params_t params = {
        .endpoints = n, .contexts = 1, .thread_mode = UCC_THREAD_MULTIPLE};
    must(heddle_group_create(&params, &group), "group");
    for (uint32_t i = 0; i < n; i++) {
        must(heddle_join(group, i, &ep[i]), "join");
    }
    must(heddle_group_destroy(group), "group");
    h->context = heddle_ep_context(ep[0]);
}

static void post_held(held_round_t *h, heddle_ep_t **ep, uint32_t i) {
    ucc_coll_args_t args = small_barrier();
    if (i == 0) {
        args.mask |= UCC_COLL_ARGS_FIELD_CB;
        args.cb = (ucc_coll_callback_t){stay, h};
    }
    must(ucc_collective_init_and_post(&args, &h->request[i], heddle_ep_team(ep[i])), "post");
}

static pthread_t stay_in_hand(held_round_t *h) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, progress_once, h), 0);
    while (!h->inside) {
        usleep(100);
    }
    return thread;
}

static void close_held_round(held_round_t *h, heddle_ep_t **ep, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        cr_expect_eq(heddle_wait(h->request[i], 20), UCC_OK);
        must(ucc_collective_finalize(h->request[i]), "finalize");
        must(heddle_leave(ep[i]), "leave");
    }
}

static void forks_while_another_holds(void (*make)(held_round_t *h)) {
    held_round_t h = {.ended = false};
    heddle_ep_t *ep[3];
    open_held_round(&h, ep, 3);
    for (uint32_t i = 0; i < 3; i++) {
        post_held(&h, ep, i);
    }
    pthread_t thread = stay_in_hand(&h);
    cr_expect_eq(ucc_collective_test(h.request[1]), UCC_INPROGRESS, "the thread holds it");
    make(&h);
    cr_expect(h.ended);
    h.go = true;
    pthread_join(thread, NULL);
    close_held_round(&h, ep, 3);
}

static void fork_plainly(held_round_t *h) {
    h->ended = in_child(waits_end, h);
}

Test(fork, what_another_thread_held_in_hand_ends_in_the_child) {
    forks_while_another_holds(fork_plainly);
}

/* The other thread's context is none of this callback's, from which the process forks. */
static void fork_here(void *data, ucc_status_t status) {
    held_round_t *h = data;
    (void)status;
    h->ended = in_child(waits_end, h);
}

static void fork_in_a_callback(held_round_t *h) {
    scene_t s;
    heddle_group_t *group;
    heddle_group_params_t params = {
        .endpoints = 2, .contexts = 1, .thread_mode = UCC_THREAD_MULTIPLE};
    ucc_coll_req_h request[2];
    must(heddle_group_create(&params, &group), "group");
    for (uint32_t i = 0; i < 2; i++) {
        ucc_coll_args_t args = small_barrier();
        must(heddle_join(group, i, &s.ep[i]), "join");
        if (i == 0) {
            args.mask |= UCC_COLL_ARGS_FIELD_CB;
            args.cb = (ucc_coll_callback_t){fork_here, h};
        }
        must(ucc_collective_init_and_post(&args, &request[i], heddle_ep_team(s.ep[i])), "post");
    }
    must(heddle_group_destroy(group), "group");
    for (uint32_t i = 0; i < 2; i++) {
        cr_expect_eq(heddle_wait(request[i], 20), UCC_OK);
        must(ucc_collective_finalize(request[i]), "finalize");
        must(heddle_leave(s.ep[i]), "leave");
    }
}

Test(fork, what_another_thread_held_in_hand_ends_in_a_child_of_another_contexts_callback) {
    forks_while_another_holds(fork_in_a_callback);
}

static bool triggered_ends(void *arg) {
    held_round_t *h = arg;
    return heddle_wait(h->triggered, -1) == UCC_ERR_NOT_SUPPORTED && errors > 0;
}

Test(fork, a_triggered_post_that_another_thread_had_in_hand_ends_in_the_child) {
    held_round_t h = {.triggered = NULL};
    heddle_ep_t *ep[2];
    ucc_ee_h ee;
    ucc_ee_params_t engine = {.ee_type = UCC_EE_CPU_THREAD};
    open_held_round(&h, ep, 2);
    must(ucc_ee_create(heddle_ep_team(ep[1]), &engine, &ee), "ucc_ee_create");
    post_held(&h, ep, 0);
    ucc_coll_args_t args = small_barrier();
    must(ucc_collective_init(&args, &h.triggered, heddle_ep_team(ep[1])), "init");
    ucc_ev_t event = {.ev_type = UCC_EVENT_COMPUTE_COMPLETE, .req = h.triggered};
    must(ucc_collective_triggered_post(ee, &event), "ucc_collective_triggered_post");
    must(ucc_ee_set_event(ee, &event), "ucc_ee_set_event");
    post_held(&h, ep, 1);
    pthread_t thread = stay_in_hand(&h); /* in the same round, the event has been taken */
    cr_expect(in_child(triggered_ends, &h));
    h.go = true;
    pthread_join(thread, NULL);
    must(heddle_barrier(ep[0]), "heddle_barrier");
    cr_expect_eq(heddle_wait(h.triggered, 20), UCC_OK);
    must(ucc_collective_finalize(h.triggered), "finalize");
    must(ucc_ee_destroy(ee), "ucc_ee_destroy");
    close_held_round(&h, ep, 2);
}

/* --- a fork inside a datatype's callback ------------------------------------------------------ */

/* 0: the child, in which every callback returns, too. */
static pid_t forked = -1;

static ucc_status_t fork_and_add(const ucc_reduce_cb_params_t *p) {
    if (forked < 0) {
        forked = fork();
        alarm(forked == 0 ? 30 : 0);
    }
    for (size_t i = 0; i < p->count; i++) {
        int32_t total = ((const int32_t *)p->src1)[i];
        for (size_t v = 0; v < p->n_vectors; v++) {
            total += ((const int32_t *)(const void *)((char *)p->src2 + v * p->stride))[i];
        }
        ((int32_t *)p->dst)[i] = total;
    }
    return UCC_OK;
}

/* Large: reduced in turns, of which the library keeps one. */
enum { MANY = 1 << 16 };
static int32_t term[2][MANY], total[2][MANY];

static ucc_status_t reduce_and_fork(scene_t *s, ucc_datatype_t dt) {
    ucc_coll_req_h request[2];
    for (int i = 0; i < 2; i++) {
        ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLREDUCE, .op = UCC_OP_SUM};
        args.src.info = (ucc_coll_buffer_info_t){term[i], MANY, dt, UCC_MEMORY_TYPE_HOST};
        args.dst.info = (ucc_coll_buffer_info_t){total[i], MANY, dt, UCC_MEMORY_TYPE_HOST};
        must(ucc_collective_init(&args, &request[i], heddle_ep_team(s->ep[i])), "init");
    }
    ucc_collective_post(request[0]);
    ucc_collective_post(request[1]); /* fails in a child that the first post has made */
    ucc_status_t status = heddle_wait(request[0], -1);
    heddle_wait(request[1], -1);
    ucc_collective_finalize(request[0]);
    ucc_collective_finalize(request[1]);
    return status;
}

Test(fork, a_process_may_fork_inside_a_datatypes_callback_which_returns_in_both) {
    scene_t s = scene_open(UCC_THREAD_MULTIPLE);
    ucc_generic_dt_ops_t ops = {
        .mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
        .flags = UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
        .contig_size = sizeof(int32_t),
        .reduce = {.cb = fork_and_add},
    };
    ucc_datatype_t dt;
    must(ucc_dt_create_generic(&ops, NULL, &dt), "ucc_dt_create_generic");
    ucc_status_t status = reduce_and_fork(&s, dt);
    if (forked == 0) {
        _exit(status == UCC_OK || status == UCC_ERR_NOT_SUPPORTED ? 0 : 1);
    }
    int ended = 1;
    cr_assert_eq(waitpid(forked, &ended, 0), forked);
    cr_expect_eq(ended, 0, "the child ended with %d", ended);
    cr_expect_eq(status, UCC_OK);
    ucc_dt_destroy(dt);
    must(heddle_leave(s.ep[0]), "leave");
    must(heddle_leave(s.ep[1]), "leave");
}

/* --- with other threads at work inside the library while the process forks -------------------- */

static _Atomic bool stop;

static void busy(heddle_ep_t *ep, void *arg) {
    double x = 1, go_on = 1;
    (void)arg;
    while (go_on != 0) {
        heddle_allreduce(ep, HEDDLE_IN_PLACE, &x, 1, UCC_DT_FLOAT64, UCC_OP_MAX);
        go_on = stop ? 0 : 1;
        heddle_allreduce(ep, HEDDLE_IN_PLACE, &go_on, 1, UCC_DT_FLOAT64, UCC_OP_MIN);
    }
}

static void *run_busy(void *arg) {
    while (!stop) { /* groups come and go, too */
        heddle_run(2, sum, arg);
    }
    cr_assert_eq(heddle_run(2, busy, NULL), UCC_OK);
    return NULL;
}

Test(fork, children_are_born_whole_whatever_other_threads_do) {
#if defined(__SANITIZE_ADDRESS__)
    cr_skip_test(
        "AddressSanitizer's allocator keeps its locks over a fork: whoever allocates in the "
        "child may wait for a thread that is not there");
#endif
    pthread_t thread;
    _Atomic uint32_t right = 0;
    cr_assert_eq(pthread_create(&thread, NULL, run_busy, &right), 0);
    for (int i = 0; i < 20; i++) {
        cr_assert(in_child(new_group_works, NULL));
    }
    stop = true;
    pthread_join(thread, NULL);
}

/* --- the list --------------------------------------------------------------------------------- */

static uint32_t told;

static void note(hd_fork_hook_t *self) {
    (void)self;
    told++;
}

static bool two_were_told(void *arg) {
    return told == 2 && hd_forks() == *(uint32_t *)arg + 1;
}

Test(fork, fork_hooks_are_told_until_they_are_forgotten) {
    hd_fork_hook_t a, b, c;
    uint32_t forks = hd_forks();
    hd_fork_watch(&a, note);
    hd_fork_watch(&b, note);
    hd_fork_watch(&c, note);
    hd_fork_forget(&b);
    cr_assert(in_child(two_were_told, &forks));
    cr_assert_eq(told, 0);
    cr_assert_eq(hd_forks(), forks);
    hd_fork_forget(&c);
    hd_fork_forget(&a);
}
