/* test_fork.c: what a child of fork() finds: inherited endpoints fail with a status instead of waiting for
 * threads that are not there; new groups work; the parent goes on as if nothing had been.
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

/* The operations of two endpoints on one context finish in the same round of another thread, which is still in
 * the first one's callback when the process forks: it holds the second one in hand. */
typedef struct held_round {
    scene_t scene;
    ucc_context_h context;
    ucc_coll_req_h request[3];
    _Atomic bool inside, go;
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

Test(fork, what_another_thread_held_in_hand_ends_in_the_child) {
    held_round_t h = {.inside = false};
    heddle_ep_t *ep[3];
    heddle_group_t *group;
    heddle_group_params_t params = {
        .endpoints = 3, .contexts = 1, .thread_mode = UCC_THREAD_MULTIPLE};
    pthread_t thread;
    must(heddle_group_create(&params, &group), "group");
    for (uint32_t i = 0; i < 3; i++) {
        must(heddle_join(group, i, &ep[i]), "join");
    }
    must(heddle_group_destroy(group), "group");
    h.context = heddle_ep_context(ep[0]);
    for (uint32_t i = 0; i < 3; i++) {
        ucc_coll_args_t args = small_barrier();
        if (i == 0) {
            args.mask |= UCC_COLL_ARGS_FIELD_CB;
            args.cb = (ucc_coll_callback_t){stay, &h};
        }
        must(ucc_collective_init_and_post(&args, &h.request[i], heddle_ep_team(ep[i])), "post");
    }
    cr_assert_eq(pthread_create(&thread, NULL, progress_once, &h), 0);
    while (!h.inside) {
        usleep(100);
    }
    cr_expect_eq(ucc_collective_test(h.request[1]), UCC_INPROGRESS, "the thread holds it");
    cr_expect(in_child(waits_end, &h));
    h.go = true;
    pthread_join(thread, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        cr_expect_eq(heddle_wait(h.request[i], 20), UCC_OK);
        must(ucc_collective_finalize(h.request[i]), "finalize");
        must(heddle_leave(ep[i]), "leave");
    }
}

/* --- with other threads at work inside the library while the process forks ------------------------- */

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

/* --- the list ------------------------------------------------------------------------------------- */

static uint32_t told;

static void note(hd_heirloom_t *self) {
    (void)self;
    told++;
}

static bool two_were_told(void *arg) {
    return told == 2 && hd_forks() == *(uint32_t *)arg + 1;
}

Test(fork, heirlooms_are_told_until_they_are_forgotten) {
    hd_heirloom_t a, b, c;
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
