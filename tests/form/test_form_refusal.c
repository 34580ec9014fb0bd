/* test_form_refusal.c: who can't form a team, or a group of several processes, for want of memory,
 * or by a mistake in a group's parameters, enters the exchange all the same, and says so there: the
 * others get an error, and do not wait.
 */
#include "../support/deadline.h"
#include "../support/oob.h"
#include "../support/processes.h"
#include "api/api.h"
#include "core/log.h"
#include "core/mem.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

static _Atomic uint32_t named, too_many;
static const char *culprit;

static void hear(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    named += level == HD_LOG_ERROR && culprit && strstr(line, culprit) != NULL;
    too_many += level == HD_LOG_ERROR && strstr(line, "no memory to tell") != NULL;
}

static void listen(void) {
    hd_log_capture(hear, NULL);
}

TestSuite(form_refusal, .init = listen, .timeout = 60);

/* An exchange of somebody who lacks memory. It is back when the exchange begins: the peers live in
 * the same process here. */
static _Atomic uint32_t entered;
static ucc_oob_coll_t real;

static ucc_status_t enter(void *src, void *dst, size_t bytes, void *info, void **request) {
    hd_alloc_fail_after(-1);
    entered++;
    return real.allgather(src, dst, bytes, info, request);
}

/* --- teams: one thread drives all endpoints --------------------------------------------------- */

enum { MOST = 9, N = 3, LACKS = 1 };

typedef struct stage {
    uint32_t n;
    bool unplaced; /* a draft's teams, which do not say who is who */
    ucc_lib_h lib;
    oob_board_t *board;
    ucc_context_h context[MOST];
    ucc_team_h team[MOST];
} stage_t;

static void open_stage(stage_t *s) {
    ucc_lib_params_t params = {.mask = 0};
    ucc_context_params_t context = {.mask = 0};
    s->board = oob_board_create(s->n);
    must(ucc_init(&params, NULL, &s->lib), "ucc_init");
    for (uint32_t i = 0; i < s->n; i++) {
        must(ucc_context_create(s->lib, &context, NULL, &s->context[i]), "ucc_context_create");
        s->team[i] = NULL;
    }
}

static void close_stage(stage_t *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        cr_assert_eq(ucc_team_destroy(s->team[i]), UCC_OK);
        cr_assert_eq(ucc_context_destroy(s->context[i]), UCC_OK);
    }
    cr_assert_eq(ucc_finalize(s->lib), UCC_OK);
    oob_board_destroy(s->board);
}

static ucc_status_t post(stage_t *s, uint32_t i, ucc_oob_coll_t oob) {
    ucc_team_params_t params = {
        .mask = UCC_TEAM_PARAM_FIELD_OOB | UCC_TEAM_PARAM_FIELD_EP, .oob = oob, .ep = i};
    return hd_api_create_team(&s->context[i], 1, &params, NULL, s->unplaced, &s->team[i], "a test");
}

/* What all of them say in the end: the same. */
static ucc_status_t settle(const stage_t *s) {
    deadline_t deadline = deadline_start("a team that forms or fails");
    ucc_status_t status[MOST];
    for (uint32_t i = 0; i < s->n; i++) {
        status[i] = UCC_INPROGRESS;
    }
    for (bool any = true; any; deadline_poll(&deadline)) {
        any = false;
        for (uint32_t i = 0; i < s->n; i++) {
            if (status[i] == UCC_INPROGRESS) {
                status[i] = ucc_team_create_test(s->team[i]);
                any = true;
            }
        }
    }
    for (uint32_t i = 1; i < s->n; i++) {
        cr_assert_eq(status[i], status[0], "endpoint %u: %s, endpoint 0: %s", i,
                     ucc_status_string(status[i]), ucc_status_string(status[0]));
    }
    return status[0];
}

/* Memory for so many allocations of an endpoint's that posts between the others. */
static ucc_status_t form_with(long allocations, bool unplaced) {
    stage_t s = {.n = N, .unplaced = unplaced};
    open_stage(&s);
    named = 0;
    for (uint32_t i = 0; i < N; i++) {
        ucc_oob_coll_t oob = oob_endpoint(s.board, i);
        if (i == LACKS) {
            real = oob;
            oob.allgather = enter;
            hd_alloc_fail_after(allocations);
        }
        ucc_status_t status = post(&s, i, oob);
        hd_alloc_fail_after(-1);
        cr_assert_eq(status, UCC_OK, "with %ld allocations: %s", allocations,
                     ucc_status_string(status));
    }
    ucc_status_t status = settle(&s);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(ucc_team_create_test(s.team[i]), status, "it stays that way");
    }
    close_stage(&s);
    return status;
}

static void form_in_the_end(bool unplaced) {
    long n = 0;
    ucc_status_t status;
    culprit = "endpoint 1 of 3 can't take part";
    while ((status = form_with(n, unplaced)) != UCC_OK) {
        cr_assert_eq(status, UCC_ERR_NO_MEMORY);
        cr_assert_eq(named, N - 1, "%u lines name the culprit", (unsigned)named);
        n++;
    }
    cr_assert_geq(n, 3, "the handle, what forms it, and records");
}

Test(form_refusal, who_lacks_memory_for_a_team_tells_the_others) {
    form_in_the_end(false);
}

Test(form_refusal, so_does_who_has_no_place_yet) {
    form_in_the_end(true);
}

/* There is memory for 8 refusals at once; the ninth is refused itself, and may call again. */
Test(form_refusal, who_can_not_even_tell_may_call_again) {
    for (int round = 0; round < 3; round++) {
        stage_t s = {.n = MOST};
        open_stage(&s);
        too_many = 0;
        hd_alloc_fail_after(0);
        for (uint32_t i = 0; i < MOST; i++) {
            ucc_status_t expected = i < MOST - 1 ? UCC_OK : UCC_ERR_NO_MEMORY;
            cr_assert_eq(post(&s, i, oob_endpoint(s.board, i)), expected, "endpoint %u", i);
        }
        hd_alloc_fail_after(-1);
        cr_assert_eq(too_many, 1);
        cr_assert_eq(post(&s, MOST - 1, oob_endpoint(s.board, MOST - 1)), UCC_OK);
        cr_assert_eq(settle(&s), UCC_ERR_NO_MEMORY);
        close_stage(&s);
    }
}

Test(form_refusal, who_refuses_is_not_destroyed_while_its_exchange_goes_on) {
    stage_t s = {.n = 2};
    open_stage(&s);
    hd_alloc_fail_after(0);
    cr_assert_eq(post(&s, 0, oob_endpoint(s.board, 0)), UCC_OK);
    hd_alloc_fail_after(-1);
    cr_assert_eq(ucc_team_create_test(s.team[0]), UCC_INPROGRESS);
    cr_assert_eq(ucc_team_destroy(s.team[0]), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(post(&s, 1, oob_endpoint(s.board, 1)), UCC_OK);
    cr_assert_eq(settle(&s), UCC_ERR_NO_MEMORY);
    close_stage(&s);
}

/* --- groups: a thread for each process -------------------------------------------------------- */

typedef struct creator {
    heddle_group_params_t params;
    ucc_oob_coll_t oob;
    ucc_status_t status;
} creator_t;

static void *create(void *arg) {
    creator_t *c = arg;
    heddle_group_t *group;
    c->params.oob = &c->oob;
    c->status = heddle_group_create(&c->params, &group);
    cr_assert_neq(c->status, UCC_OK, "two processes in one are refused in the end");
    return NULL;
}

/* What both are told, of whom one creates its group in another way, or with so little memory. */
static ucc_status_t create_two(heddle_group_params_t params, long allocations) {
    oob_board_t *board = oob_board_create(2);
    creator_t mine = {.params = params, .oob = oob_endpoint(board, 0)};
    creator_t peer = {.params = {.endpoints = 1}, .oob = oob_endpoint(board, 1)};
    pthread_t thread;
    real = mine.oob;
    mine.oob.allgather = enter;
    named = entered = 0;
    culprit = "process 0 of 2 can't take part";
    hd_alloc_fail_after(allocations);
    cr_assert_eq(pthread_create(&thread, NULL, create, &mine), 0);
    while (entered == 0) {
        sched_yield();
    }
    create(&peer);
    pthread_join(thread, NULL);
    cr_assert_eq(peer.status, mine.status, "with %ld allocations: %s and %s", allocations,
                 ucc_status_string(mine.status), ucc_status_string(peer.status));
    oob_board_destroy(board);
    return mine.status;
}

Test(form_refusal, who_lacks_memory_for_a_group_tells_the_other_processes) {
    long n = 0;
    while (create_two((heddle_group_params_t){.endpoints = 1}, n) == UCC_ERR_NO_MEMORY) {
        cr_assert_eq(named, 1, "the other process says why");
        n++;
    }
    cr_assert_geq(n, 3, "the group, a library, and records");
}

Test(form_refusal, wrong_parameters_of_a_group_are_told_to_the_other_processes) {
    static const heddle_group_params_t wrong[] = {
        {.endpoints = 0},
        {.endpoints = 1, .contexts = 2},
        {.endpoints = 1, .ordering = (ucc_post_ordering_t)77},
        {.endpoints = 1, .thread_mode = (ucc_thread_mode_t)77},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_assert_eq(create_two(wrong[i], -1), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(named, 1);
    }
    heddle_group_params_t symmetric = {.endpoints = 1, .symmetric_bytes = 64};
    processes_use_network();
    cr_assert_eq(create_two(symmetric, -1), UCC_ERR_NOT_SUPPORTED);
}
