/* test_butterfly.c: all wait for all in steps, of which each endpoint takes its own; and what comes
 * of it has the bits that other arrivals have. */
#include "../support/deadline.h"
#include "../support/random.h"

#include "shm/internal.h"
#include "team/team.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

TestSuite(butterfly, .timeout = 120);

enum { MOST = 100, NUMBERS = 6 };

typedef struct crew {
    uint32_t n;
    heddle_group_t *group;
    heddle_ep_t *ep[MOST];
    ucc_coll_req_h request[MOST];
} crew_t;

static crew_t crew_of(uint32_t n, const char *arrival) {
    crew_t crew = {.n = n};
    setenv("HEDDLE_ARRIVAL", arrival, 1);
    heddle_group_params_t params = {.endpoints = n};
    must(heddle_group_create(&params, &crew.group), "heddle_group_create");
    for (uint32_t i = 0; i < n; i++) {
        must(heddle_join(crew.group, i, &crew.ep[i]), "heddle_join");
    }
    return crew;
}

static void dismiss(crew_t *crew) {
    for (uint32_t i = 0; i < crew->n; i++) {
        must(heddle_leave(crew->ep[i]), "heddle_leave");
    }
    must(heddle_group_destroy(crew->group), "heddle_group_destroy");
}

static const hd_group_t *group_of(const crew_t *crew) {
    return ((struct ucc_team *)heddle_ep_team(crew->ep[0]))->group;
}

static void post(crew_t *crew, uint32_t i, ucc_coll_args_t *args) {
    must(ucc_collective_init(args, &crew->request[i], heddle_ep_team(crew->ep[i])), "init");
    must(ucc_collective_post(crew->request[i]), "post");
}

static void progress(const crew_t *crew, uint32_t i) {
    must(ucc_context_progress(heddle_ep_context(crew->ep[i])), "progress");
}

static void finish(crew_t *crew, uint32_t i) {
    deadline_t deadline = deadline_start("a butterfly");
    while (ucc_collective_test(crew->request[i]) == UCC_INPROGRESS) {
        for (uint32_t j = 0; j < crew->n; j++) {
            progress(crew, j);
        }
        deadline_poll(&deadline);
    }
    must(ucc_collective_test(crew->request[i]), "the collective");
    must(ucc_collective_finalize(crew->request[i]), "finalize");
}

/* --- who waits -------------------------------------------------------------------------------- */

static void nobody_goes_before(uint32_t n, uint32_t late) {
    crew_t crew = crew_of(n, "butterfly");
    ucc_coll_args_t barrier = {.coll_type = UCC_COLL_TYPE_BARRIER};
    cr_assert(group_of(&crew)->butterfly);
    /* more often than there are slots, so that records are written again */
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < n; i++) {
            if (i != late) {
                post(&crew, i, &barrier);
            }
        }
        for (uint32_t i = 0; i < 4 * n; i++) {
            progress(&crew, i % n);
        }
        for (uint32_t i = 0; i < n; i++) {
            cr_assert(i == late || ucc_collective_test(crew.request[i]) == UCC_INPROGRESS,
                      "%u of %u went before %u, round %u", i, n, late, round);
        }
        post(&crew, late, &barrier);
        for (uint32_t i = 0; i < n; i++) {
            finish(&crew, i);
        }
    }
    dismiss(&crew);
}

Test(butterfly, nobody_goes_before_the_last_one_has_come) {
    static const uint32_t sizes[] = {9, 12, 17, 64, 65, 73};
    for (uint32_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        nobody_goes_before(sizes[s], 0);
        nobody_goes_before(sizes[s], sizes[s] - 1);
        nobody_goes_before(sizes[s], sizes[s] / 2);
    }
}

/* Each endpoint looks once after all have come, in the order of their numbers: none needs another's
 * second look but those whose blocks below were combined later. */
Test(butterfly, each_level_takes_each_endpoint_one_look) {
    crew_t crew = crew_of(64, "butterfly");
    ucc_coll_args_t barrier = {.coll_type = UCC_COLL_TYPE_BARRIER};
    for (uint32_t i = 0; i < 64; i++) {
        post(&crew, i, &barrier);
    }
    for (uint32_t i = 0; i < 64; i++) {
        progress(&crew, i); /* level 0 */
    }
    for (uint32_t i = 0; i < 64; i++) {
        progress(&crew, i); /* level 1 */
        cr_assert_eq(ucc_collective_test(crew.request[i]), UCC_OK, "%u", i);
        must(ucc_collective_finalize(crew.request[i]), "finalize");
    }
    dismiss(&crew);
}

/* --- teams that form -------------------------------------------------------------------------- */

enum { EAGER = 12 };

static heddle_group_t *forming;

static void *join_and_meet(void *number) {
    heddle_ep_t *ep;
    must(heddle_join(forming, (uint32_t)(uintptr_t)number, &ep), "heddle_join");
    for (int i = 0; i < 3; i++) {
        must(heddle_barrier(ep), "heddle_barrier");
    }
    must(heddle_leave(ep), "heddle_leave");
    return NULL;
}

/* Whoever joins last makes the steps, while others have posted. */
Test(butterfly, endpoints_may_post_while_the_last_one_joins) {
    setenv("HEDDLE_ARRIVAL", "butterfly", 1);
    for (int team = 0; team < 50; team++) {
        pthread_t thread[EAGER];
        heddle_group_params_t params = {.endpoints = EAGER};
        must(heddle_group_create(&params, &forming), "heddle_group_create");
        for (uintptr_t i = 0; i < EAGER; i++) {
            cr_assert_eq(pthread_create(&thread[i], NULL, join_and_meet, (void *)i), 0);
        }
        for (int i = 0; i < EAGER; i++) {
            pthread_join(thread[i], NULL);
        }
        must(heddle_group_destroy(forming), "heddle_group_destroy");
    }
}

/* --- what comes of it ------------------------------------------------------------------------- */

static void sum(const char *arrival, uint32_t n, float operand[][NUMBERS], float *result) {
    static float into[MOST][NUMBERS];
    crew_t crew = crew_of(n, arrival);
    for (uint32_t i = 0; i < n; i++) {
        ucc_coll_args_t args = {
            .coll_type = UCC_COLL_TYPE_ALLREDUCE,
            .op = UCC_OP_SUM,
            .src.info = {operand[i], NUMBERS, UCC_DT_FLOAT32, UCC_MEMORY_TYPE_HOST},
            .dst.info = {into[i], NUMBERS, UCC_DT_FLOAT32, UCC_MEMORY_TYPE_HOST}};
        post(&crew, i, &args);
    }
    for (uint32_t i = 0; i < n; i++) {
        finish(&crew, i);
    }
    for (uint32_t i = 1; i < n; i++) {
        cr_assert_arr_eq(into[i], into[0], sizeof(into[0]), "%s: %u of %u", arrival, i, n);
    }
    memcpy(result, into[0], sizeof(into[0]));
    dismiss(&crew);
}

Test(butterfly, sums_have_the_bits_of_other_arrivals) {
    static const char *const others[] = {"counter", "static"};
    static float operand[MOST][NUMBERS];
    uint64_t random = 25;
    for (uint32_t n = 9; n <= MOST; n += n < 20 ? 1 : 9) {
        for (uint32_t i = 0; i < n * NUMBERS; i++) {
            operand[i / NUMBERS][i % NUMBERS] =
                (float)random_below(&random, 1000000) / (float)(1 + random_below(&random, 1000));
        }
        float mine[NUMBERS], theirs[NUMBERS];
        sum("butterfly", n, operand, mine);
        for (int o = 0; o < 2; o++) {
            sum(others[o], n, operand, theirs);
            cr_assert_arr_eq(mine, theirs, sizeof(mine), "%u endpoints, %s", n, others[o]);
        }
    }
}

/* --- who calls something else ----------------------------------------------------------------- */

Test(butterfly, a_call_that_differs_fails_all) {
    crew_t crew = crew_of(20, "butterfly");
    static int64_t number[20];
    for (uint32_t i = 0; i < 20; i++) {
        ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLREDUCE,
                                .op = i == 13 ? UCC_OP_MAX : UCC_OP_SUM,
                                .src.info = {&number[i], 1, UCC_DT_INT64, UCC_MEMORY_TYPE_HOST},
                                .dst.info = {&number[i], 1, UCC_DT_INT64, UCC_MEMORY_TYPE_HOST}};
        post(&crew, i, &args);
    }
    for (uint32_t i = 0; i < 20; i++) {
        deadline_t deadline = deadline_start("a butterfly");
        while (ucc_collective_test(crew.request[i]) == UCC_INPROGRESS) {
            progress(&crew, i);
            deadline_poll(&deadline);
        }
        cr_assert_lt(ucc_collective_test(crew.request[i]), 0, "%u", i);
        (void)ucc_collective_finalize(crew.request[i]);
    }
    cr_assert_lt(hd_group_poisoned(group_of(&crew)), 0);
    dismiss(&crew);
}
