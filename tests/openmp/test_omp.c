/* test_omp.c: <heddle/omp.h>: groups of parallel regions, kept, nested, of leagues and of several
 * threads; its collectives.
 */
#include "other.h"

#include "support/deadline.h"
#include "support/world.h"

#include <criterion/criterion.h>
#include <heddle/omp.h>
#include <pthread.h>
#include <stdatomic.h>

TestSuite(omp, .timeout = 60);

enum { MOST = 6, MANY = 100000 };

static void begin(void) {
    omp_set_dynamic(0);
    omp_set_max_active_levels(4);
}

static bool adds(uint64_t count) {
    double *x = must_alloc(count, sizeof(*x));
    double n = omp_get_num_threads(), sum = n * (n - 1) / 2;
    for (uint64_t i = 0; i < count; i++) {
        x[i] = omp_get_thread_num() + (double)i * n;
    }
    bool right = heddle_omp_allreduce(x, count, UCC_DT_FLOAT64, UCC_OP_SUM) == UCC_OK;
    for (uint64_t i = 0; i < count; i++) {
        right = right && x[i] == sum + (double)i * n * n;
    }
    free(x);
    return right;
}

Test(omp, threads_of_regions_of_any_size_have_all_sums, .init = begin) {
    for (int round = 0; round < 50; round++) {
        for (int n = 1; n <= MOST; n++) {
            int wrong = 0;
#pragma omp parallel num_threads(n) reduction(+ : wrong)
            wrong += omp_get_num_threads() != n || !adds(1) || !adds(round % 10 ? 100 : MANY);
            cr_assert_eq(wrong, 0, "%d threads", n);
        }
    }
    cr_assert(adds(3), "outside of regions");
    heddle_omp_free(&heddle_omp_default);
}

Test(omp, the_next_region_of_as_many_threads_finds_the_group_again, .init = begin) {
    heddle_ep_t *ep[2][MOST] = {{NULL}};
    for (int round = 0; round < 2; round++) {
#pragma omp parallel num_threads(3)
        cr_assert_eq(heddle_omp_ep(&ep[round][omp_get_thread_num()]), UCC_OK);
#pragma omp parallel num_threads(4)
        cr_assert(adds(1));
    }
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(ep[0][i], ep[1][i]);
        cr_assert_eq(heddle_ep_index(ep[0][i]), (uint32_t)i);
        cr_assert_eq(heddle_ep_size(ep[0][i]), 3);
    }
    heddle_omp_free(&heddle_omp_default);
}

Test(omp, one_program_has_one_group_for_a_region_however_many_files, .init = begin) {
    int wrong = 0;
#pragma omp parallel num_threads(4) reduction(+ : wrong)
    {
        int64_t x = 1;
        if (omp_get_thread_num() % 2) {
            x = other_sum(x);
        } else {
            wrong += heddle_omp_allreduce(&x, 1, UCC_DT_INT64, UCC_OP_SUM) != UCC_OK;
        }
        wrong += x != 4;
    }
    cr_assert_eq(wrong, 0);
    heddle_omp_free(&heddle_omp_default);
}

Test(omp, nested_regions_have_groups_of_their_own, .init = begin) {
    int wrong = 0;
    for (int round = 0; round < 20; round++) {
#pragma omp parallel num_threads(3) reduction(+ : wrong)
        {
            int outer = omp_get_thread_num();
            wrong += !adds(2);
#pragma omp parallel num_threads(2) reduction(+ : wrong)
            {
                int64_t x = 10 * outer + omp_get_thread_num();
                wrong += heddle_omp_allreduce(&x, 1, UCC_DT_INT64, UCC_OP_SUM) != UCC_OK;
                wrong += omp_get_num_threads() != 2 || x != 20 * outer + 1;
#pragma omp parallel num_threads(2) reduction(+ : wrong)
                wrong += !adds(5);
            }
            wrong += !adds(2);
        }
    }
    cr_assert_eq(wrong, 0);
    heddle_omp_free(&heddle_omp_default);
}

Test(omp, so_do_the_teams_of_a_league, .init = begin) {
    int wrong = 0;
#pragma omp teams num_teams(2) thread_limit(2) reduction(+ : wrong)
    {
        int team = omp_get_team_num();
#pragma omp parallel num_threads(2) reduction(+ : wrong)
        {
            int64_t x = 10 * team + omp_get_thread_num();
            wrong += heddle_omp_allreduce(&x, 1, UCC_DT_INT64, UCC_OP_SUM) != UCC_OK;
            wrong += x != (omp_get_num_threads() == 2 ? 20 * team + 1 : 10 * team);
        }
    }
    cr_assert_eq(wrong, 0);
    heddle_omp_free(&heddle_omp_default);
}

Test(omp, an_array_that_threads_share_has_all_sums_when_any_returns, .init = begin) {
    static float shared[MANY];
    for (int n = 1; n <= MOST; n++) {
        for (uint64_t count = 1; count <= MANY; count *= 10) {
            int wrong = 0;
#pragma omp parallel num_threads(n) reduction(+ : wrong)
            {
                float *mine = must_alloc(count, sizeof(*mine));
                for (uint64_t i = 0; i < count; i++) {
                    mine[i] = (float)(omp_get_thread_num() + (int)(i % 7));
                }
                wrong +=
                    heddle_omp_reduce(mine, shared, count, UCC_DT_FLOAT32, UCC_OP_MAX) != UCC_OK;
                for (uint64_t i = 0; i < count; i++) {
                    wrong += shared[i] != (float)(n - 1 + (int)(i % 7));
                }
                wrong += heddle_omp_barrier() != UCC_OK; /* all have read it */
                free(mine);
            }
            cr_assert_eq(wrong, 0, "%d threads, %d elements", n, (int)count);
        }
    }
    heddle_omp_free(&heddle_omp_default);
}

Test(omp, the_other_collectives_are_those_of_heddle_h, .init = begin) {
    int wrong = 0;
#pragma omp parallel num_threads(5) reduction(+ : wrong)
    {
        int32_t me = omp_get_thread_num(), x = me, all[5], prefix = me + 1;
        wrong += heddle_omp_bcast(&x, 1, UCC_DT_INT32, 3) != UCC_OK || x != 3;
        wrong += heddle_omp_scan(&prefix, 1, UCC_DT_INT32, UCC_OP_SUM) != UCC_OK;
        wrong += prefix != (me + 1) * (me + 2) / 2;
        wrong += heddle_omp_allgather(&me, all, 1, UCC_DT_INT32) != UCC_OK;
        for (int i = 0; i < 5; i++) {
            wrong += all[i] != i;
        }
    }
    cr_assert_eq(wrong, 0);
    heddle_omp_free(&heddle_omp_default);
}

Test(omp, what_is_free_is_made_anew, .init = begin) {
    for (int round = 0; round < 20; round++) {
        int wrong = 0;
#pragma omp parallel num_threads(3) reduction(+ : wrong)
        wrong += !adds(10);
        cr_assert_eq(wrong, 0);
        heddle_omp_free(&heddle_omp_default);
        cr_assert_null(heddle_omp_default.regions);
    }
}

Test(omp, what_no_thread_can_reduce_is_refused_by_all_and_the_next_call_matches, .init = begin) {
    int wrong = 0;
#pragma omp parallel num_threads(4) reduction(+ : wrong)
    {
        double mine = 1;
        static double shared;
        wrong +=
            heddle_omp_reduce(&mine, NULL, 1, UCC_DT_FLOAT64, UCC_OP_SUM) != UCC_ERR_INVALID_PARAM;
        wrong += heddle_omp_reduce(HEDDLE_IN_PLACE, &shared, 1, UCC_DT_FLOAT64, UCC_OP_SUM) !=
                 UCC_ERR_INVALID_PARAM;
        wrong += heddle_omp_reduce(&mine, NULL, 0, UCC_DT_FLOAT64, UCC_OP_SUM) != UCC_OK;
        wrong += heddle_omp_reduce(&mine, &shared, 1, UCC_DT_FLOAT64, UCC_OP_SUM) != UCC_OK;
        wrong += shared != 4;
    }
    cr_assert_eq(wrong, 0);
    heddle_omp_free(&heddle_omp_default);
}

Test(omp, in_a_region_nothing_is_given_back_that_its_threads_may_use, .init = begin) {
    int wrong = 0;
#pragma omp parallel num_threads(3) reduction(+ : wrong)
    {
        heddle_omp_t own = HEDDLE_OMP_INITIALIZER; /* of regions inside of this one */
        wrong += !adds(1);
        heddle_omp_free(&heddle_omp_default);
        wrong += !adds(1);
#pragma omp parallel num_threads(2) reduction(+ : wrong)
        {
            heddle_ep_t *ep;
            wrong += heddle_omp_ep_in(&own, &ep) != UCC_OK || heddle_barrier(ep) != UCC_OK;
            heddle_omp_free(&heddle_omp_default);
            wrong += heddle_barrier(ep) != UCC_OK;
        }
        heddle_omp_free(&own);
        wrong += own.regions != NULL;
    }
    cr_assert_eq(wrong, 0);
    heddle_omp_free(&heddle_omp_default);
    cr_assert_null(heddle_omp_default.regions);
}

/* Each module that dlopen() has loaded may number objects by itself. */
Test(omp, objects_with_the_same_number_are_told_apart, .init = begin) {
    static heddle_omp_t mine = HEDDLE_OMP_INITIALIZER;
    heddle_omp_t *const both[] = {&heddle_omp_default, &mine};
    ucc_team_h team[2] = {NULL, NULL};
    int wrong = 0;
    for (int i = 0; i < 2; i++) {
        heddle_omp_ids_ = 0;
#pragma omp parallel num_threads(2) reduction(+ : wrong)
        {
            heddle_ep_t *ep;
            wrong += heddle_omp_ep_in(both[i], &ep) != UCC_OK;
#pragma omp master
            team[i] = heddle_ep_team(ep);
        }
    }
    cr_assert_eq(wrong, 0);
    cr_assert_neq(team[0], team[1]);
    heddle_omp_free(&mine);
    heddle_omp_free(&heddle_omp_default);
}

/* --- several threads that open regions -------------------------------------------------------- */

static void *opens_regions(void *arg) {
    static _Atomic int64_t next;
    heddle_omp_t omp = HEDDLE_OMP_INITIALIZER;
    int64_t who = atomic_fetch_add(&next, 1);
    int wrong = 0;
    begin();
    for (int round = 0; round < 200; round++) {
#pragma omp parallel num_threads(2 + round % 2) reduction(+ : wrong)
        {
            heddle_ep_t *ep;
            int64_t x = 10 * who, n = omp_get_num_threads();
            wrong += heddle_omp_ep_in(&omp, &ep) != UCC_OK;
            wrong +=
                heddle_allreduce(ep, HEDDLE_IN_PLACE, &x, 1, UCC_DT_INT64, UCC_OP_SUM) != UCC_OK;
            wrong += x != n * 10 * who;
        }
    }
    heddle_omp_free(&omp);
    *(int *)arg = wrong;
    return NULL;
}

Test(omp, threads_that_open_regions_at_the_same_time_have_an_object_each, .init = begin) {
    pthread_t thread[3];
    int wrong[3];
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(pthread_create(&thread[i], NULL, opens_regions, &wrong[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        cr_assert_eq(wrong[i], 0, "thread %d", i);
    }
}

static void await_a_call_at_thread_0(void) {
    deadline_t deadline = deadline_start("a call at thread 0");
    heddle_omp_region_t *region = NULL;
    while (!region || !region->seat[0].ep ||
           !__atomic_load_n(&region->seat[0].busy, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&heddle_omp_default.lock);
        region = heddle_omp_default.regions;
        pthread_mutex_unlock(&heddle_omp_default.lock);
        deadline_poll(&deadline);
    }
}

static _Atomic int clashed;

/* Its thread 1 comes when the other region has found out. */
static void *opens_first(void *arg) {
    ucc_status_t *status = arg;
#pragma omp parallel num_threads(2)
    {
        deadline_t deadline = deadline_start("the clash");
        while (omp_get_thread_num() == 1 && !clashed) {
            deadline_poll(&deadline);
        }
        status[omp_get_thread_num()] = heddle_omp_barrier();
    }
    return NULL;
}

Test(omp, where_they_have_not_both_regions_fail_and_nobody_waits, .init = begin) {
    pthread_t thread;
    ucc_status_t status[4] = {UCC_OK, UCC_OK, UCC_OK, UCC_OK};
    cr_assert_eq(pthread_create(&thread, NULL, opens_first, status), 0);
    await_a_call_at_thread_0();
#pragma omp parallel num_threads(2)
    {
        deadline_t deadline = deadline_start("the clash");
        while (omp_get_thread_num() == 1 && !clashed) {
            deadline_poll(&deadline);
        }
        status[2 + omp_get_thread_num()] = heddle_omp_barrier();
        clashed = 1;
    }
    pthread_join(thread, NULL);
    cr_assert_eq(status[2], UCC_ERR_INVALID_PARAM);
    cr_assert_eq(status[0], HEDDLE_ERR_ABORTED);
    for (int i = 1; i < 4; i += 2) { /* these two may find each other as well */
        cr_assert(status[i] == HEDDLE_ERR_ABORTED || status[i] == UCC_ERR_INVALID_PARAM, "%d: %d",
                  i, status[i]);
    }
    heddle_omp_free(&heddle_omp_default);
    int wrong = 0;
#pragma omp parallel num_threads(2) reduction(+ : wrong)
    wrong += !adds(1);
    cr_assert_eq(wrong, 0);
    heddle_omp_free(&heddle_omp_default);
}
