/* test_shortcut.c: small blocking collectives that are over without a request, and requests that
 * keep the plan of the call before: nobody can tell them from ordinary calls, whatever comes in
 * between.
 *
 * Two kinds of tests. With a thread per endpoint, the calls are those of the interface, and chance
 * decides who takes the express. Where it must be taken, one thread plays all endpoints, one step
 * after the other: hd_team_barrier() and its like never wait, and hd_api_run() goes on.
 */
#include "../support/cases.h"
#include "../support/deadline.h"
#include "../support/small.h"
#include "api/api.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void quiet(void) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);    /* errors are provoked here */
    setenv("HEDDLE_TEST_SLOWDOWN", "0.34", 0); /* 20 s: a hang is found soon */
}

TestSuite(express, .init = quiet, .timeout = 120);

/* --- endpoints -------------------------------------------------------------------------------- */

enum { MOST = 4 };

typedef struct crew {
    heddle_group_t *group;
    uint32_t n;
    heddle_ep_t *ep[MOST];
    ucc_team_h team[MOST];
    _Atomic uint32_t wrong; /* counted by threads: Criterion's asserts belong to the main one */
} crew_t;

static crew_t *new_crew(heddle_group_params_t params) {
    crew_t *crew = must_alloc(1, sizeof(*crew));
    crew->n = params.endpoints;
    must(heddle_group_create(&params, &crew->group), "heddle_group_create");
    for (uint32_t e = 0; e < crew->n; e++) {
        must(heddle_join(crew->group, e, &crew->ep[e]), "heddle_join");
        crew->team[e] = heddle_ep_team(crew->ep[e]);
    }
    must(heddle_group_destroy(crew->group), "heddle_group_destroy");
    return crew;
}

static crew_t *crew_of(uint32_t n) {
    return new_crew((heddle_group_params_t){.endpoints = n});
}

static void dismiss(crew_t *crew) {
    for (uint32_t e = 0; e < crew->n; e++) {
        cr_assert_eq(heddle_leave(crew->ep[e]), UCC_OK);
    }
    free(crew);
}

static void expect(crew_t *crew, bool good) {
    if (!good) {
        atomic_fetch_add(&crew->wrong, 1);
    }
}

/* Calls work(crew, e) on a thread per endpoint. */
static void together(crew_t *crew, void (*work)(void *crew, uint32_t e)) {
    driver_threads(crew->n, work, crew);
    cr_assert_eq(atomic_load(&crew->wrong), 0, "%u results are wrong", atomic_load(&crew->wrong));
}

static void each_kind_once(void *arg, uint32_t e) {
    crew_t *crew = arg;
    int32_t value = 1, sum = 0;
    expect(crew, heddle_barrier(crew->ep[e]) == UCC_OK);
    for (uint32_t root = 0; root < crew->n; root++) {
        expect(crew, heddle_bcast(crew->ep[e], &value, 1, UCC_DT_INT32, root) == UCC_OK);
    }
    expect(crew,
           heddle_allreduce(crew->ep[e], &value, &sum, 1, UCC_DT_INT32, UCC_OP_SUM) == UCC_OK);
    expect(crew, sum == (int32_t)crew->n);
}

/* Where nobody but one thread is there, no processor is crowded: else the express is not for us. */
static void make_room(crew_t *crew) {
    for (uint32_t e = 0; e < crew->n; e++) {
        hd_idle_init(&crew->team[e]->contexts[0]->runner.idle);
    }
}

/* The express knows the three kinds. */
static crew_t *learned_crew(uint32_t n) {
    crew_t *crew = crew_of(n);
    together(crew, each_kind_once);
    make_room(crew);
    return crew;
}

/* Returns its number. */
static uint64_t express_barrier(crew_t *crew, uint32_t e, ucc_status_t wanted) {
    uint64_t k = hd_team_barrier(crew->team[e]);
    ucc_status_t status = k == HD_EXPRESS_OVER ? UCC_OK : UCC_INPROGRESS;
    cr_assert_eq(status, wanted, "the express says %d at endpoint %u", (int)status, e);
    return k == HD_EXPRESS_OVER ? crew->team[e]->member->taken : k;
}

static ucc_status_t resume_barrier(crew_t *crew, uint32_t e, uint64_t k) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
    return hd_api_run(&args, crew->team[e], k);
}

static void every_kind_still_works(crew_t *crew) {
    together(crew, each_kind_once);
}

/* --- calls again and again -------------------------------------------------------------------- */

enum { AGAIN = 300 };

static _Atomic uint32_t came;

static void barriers(void *arg, uint32_t e) {
    crew_t *crew = arg;
    for (uint32_t i = 1; i <= AGAIN; i++) {
        atomic_fetch_add(&came, 1);
        expect(crew, heddle_barrier(crew->ep[e]) == UCC_OK);
        expect(crew, atomic_load(&came) >= i * crew->n);
    }
}

Test(express, nobody_leaves_a_repeated_barrier_before_all_have_come) {
    crew_t *crew = crew_of(3);
    together(crew, barriers);
    dismiss(crew);
}

static void bcasts(void *arg, uint32_t e) {
    crew_t *crew = arg;
    for (uint32_t i = 0; i < AGAIN; i++) {
        uint32_t root = i % crew->n, count = 1 + i / 7 % 8;
        uint64_t value[8];
        for (uint32_t j = 0; j < 8; j++) {
            value[j] = e == root && j < count ? i * 8 + j : UINT64_MAX;
        }
        expect(crew, heddle_bcast(crew->ep[e], value, count, UCC_DT_UINT64, root) == UCC_OK);
        for (uint32_t j = 0; j < 8; j++) {
            expect(crew, value[j] == (j < count ? i * 8 + j : UINT64_MAX));
        }
    }
}

Test(express, repeated_bcast_brings_the_data_of_each_root_in_each_size) {
    crew_t *crew = crew_of(4);
    together(crew, bcasts);
    dismiss(crew);
}

static void scatter_in_sizes(void *arg, uint32_t e) {
    enum { ROUNDS = 400, LARGEST = 100 };
    crew_t *crew = arg;
    uint16_t all[MOST * LARGEST], mine[LARGEST];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t root = round % crew->n, count = 1 + round / 20 * 5 % LARGEST;
        bool in_place = e == root && round % 3 == 0;
        for (uint32_t i = 0; i < crew->n * count; i++) {
            all[i] = (uint16_t)(e == root ? round * 7 + i : 0xdead);
        }
        expect(crew, heddle_scatter(crew->ep[e], all, in_place ? HEDDLE_IN_PLACE : mine, count,
                                    UCC_DT_UINT16, root) == UCC_OK);
        for (uint32_t i = 0; i < count && !in_place; i++) {
            expect(crew, mine[i] == (uint16_t)(round * 7 + e * count + i));
        }
    }
}

Test(express, repeated_scatter_brings_each_its_block_in_each_size) {
    for (uint32_t n = 2; n <= MOST; n++) {
        crew_t *crew = crew_of(n);
        together(crew, scatter_in_sizes);
        dismiss(crew);
    }
}

/* The root needs nobody, so it runs ahead until the ring of lanes is full. */
static void one_way(void *arg, uint32_t e) {
    crew_t *crew = arg;
    for (uint32_t i = 0; i < AGAIN; i++) {
        uint32_t value = e == 0 ? i : 0;
        if (e == 1 && i % 50 == 0) {
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        }
        expect(crew, heddle_bcast(crew->ep[e], &value, 1, UCC_DT_UINT32, 0) == UCC_OK);
        expect(crew, value == i);
    }
}

Test(express, root_far_ahead_of_a_slow_endpoint_overwrites_nothing) {
    crew_t *crew = crew_of(3);
    together(crew, one_way);
    dismiss(crew);
}

static const ucc_reduction_op_t ops[] = {UCC_OP_SUM, UCC_OP_MAX, UCC_OP_MIN};

static int64_t combined(uint32_t n, ucc_reduction_op_t op, int64_t first, int64_t step) {
    int64_t last = first + (n - 1) * step;
    return op == UCC_OP_SUM ? n * (first + last) / 2 : op == UCC_OP_MAX ? last : first;
}

/* Every call differs from the one before in size, operation or datatype; then some are the same. */
static void allreduces(void *arg, uint32_t e) {
    crew_t *crew = arg;
    for (uint32_t i = 0; i < AGAIN; i++) {
        uint32_t style = i < AGAIN / 2 ? i : i / 20, count = 1 + style % 7, n = crew->n;
        ucc_reduction_op_t op = ops[style % 3];
        int64_t wanted = combined(n, op, i, 3), wide[7], wide_result[7];
        int32_t narrow[7], narrow_result[7];
        bool is_wide = style % 2;
        for (uint32_t j = 0; j < count; j++) {
            wide[j] = (int64_t)i + (int64_t)e * 3;
            narrow[j] = (int32_t)wide[j];
        }
        ucc_status_t status =
            is_wide ? heddle_allreduce(crew->ep[e], wide, wide_result, count, UCC_DT_INT64, op)
                    : heddle_allreduce(crew->ep[e], narrow, narrow_result, count, UCC_DT_INT32, op);
        expect(crew, status == UCC_OK);
        for (uint32_t j = 0; j < count; j++) {
            expect(crew, (is_wide ? wide_result[j] : narrow_result[j]) == wanted);
        }
    }
}

Test(express, allreduce_of_alternating_sizes_operations_and_datatypes) {
    crew_t *crew = crew_of(3);
    together(crew, allreduces);
    dismiss(crew);
}

static void in_place(void *arg, uint32_t e) {
    crew_t *crew = arg;
    for (uint32_t i = 0; i < AGAIN; i++) {
        double apart = e, value = e, sum = -1, total = crew->n * (crew->n - 1) / 2.0;
        void *src = i % 3 ? HEDDLE_IN_PLACE : (void *)&apart;
        double *dst = i % 3 ? &value : &sum;
        expect(crew,
               heddle_allreduce(crew->ep[e], src, dst, 1, UCC_DT_FLOAT64, UCC_OP_SUM) == UCC_OK);
        expect(crew, *dst == total && apart == e);
    }
}

Test(express, allreduce_in_place_and_not_in_turns) {
    crew_t *crew = crew_of(3);
    together(crew, in_place);
    dismiss(crew);
}

static void same_count_other_datatype(void *arg, uint32_t e) {
    crew_t *crew = arg;
    float real = 1;
    int32_t whole = 1;
    for (uint32_t i = 0; i < 3; i++) {
        expect(crew, heddle_bcast(crew->ep[e], &whole, 1, UCC_DT_INT32, 0) == UCC_OK);
    }
    for (uint32_t i = 0; i < 3; i++) {
        expect(crew, heddle_bcast(crew->ep[e], &real, 1, UCC_DT_FLOAT32, 0) == UCC_OK);
    }
}

Test(express, bcast_of_another_datatype_of_the_same_size_is_learned_too) {
    crew_t *crew = crew_of(2);
    together(crew, same_count_other_datatype);
    for (uint32_t e = 0; e < crew->n; e++) {
        cr_assert_eq(crew->team[e]->call_cache->entry[HD_CACHED_BCAST + 0].dt, UCC_DT_FLOAT32);
    }
    dismiss(crew);
}

static void multicasts(void *arg, uint32_t e) {
    crew_t *crew = arg;
    int32_t value = 1;
    for (uint32_t i = 0; i < 3; i++) {
        expect(crew, heddle_mcast(crew->ep[e], &value, 1, UCC_DT_INT32, 0) == UCC_OK);
    }
}

/* Endpoint 1 takes the ordinary way: to its eyes a bcast must be a bcast. */
Test(express, multicast_does_not_teach_bcast) {
    crew_t *crew = crew_of(2);
    together(crew, multicasts);
    make_room(crew);
    int32_t sent = 3, got = 0;
    ucc_coll_args_t args = small_bcast(&got, 1, 0);
    ucc_coll_req_h request;
    cr_assert_eq(heddle_bcast(crew->ep[0], &sent, 1, UCC_DT_INT32, 0), UCC_OK);
    must(ucc_collective_init_and_post(&args, &request, crew->team[1]), "post");
    cr_assert_eq(heddle_wait(request, -1), UCC_OK);
    cr_assert_eq(got, sent);
    must(ucc_collective_finalize(request), "finalize");
    dismiss(crew);
}

/* --- who comes late --------------------------------------------------------------------------- */

Test(express, last_to_come_is_over_at_once_and_the_first_goes_on_with_an_operation) {
    crew_t *crew = learned_crew(3);
    uint64_t k[3];
    for (uint32_t round = 0; round < 20; round++) {
        k[0] = express_barrier(crew, 0, UCC_INPROGRESS);
        k[1] = express_barrier(crew, 1, UCC_INPROGRESS);
        k[2] = express_barrier(crew, 2, UCC_OK);
        cr_assert(k[0] != 0 && k[0] == k[1] && k[1] == k[2]);
        cr_assert_eq(resume_barrier(crew, 1, k[1]), UCC_OK);
        cr_assert_eq(resume_barrier(crew, 0, k[0]), UCC_OK);
        make_room(crew);
    }
    every_kind_still_works(crew);
    dismiss(crew);
}

Test(express, late_root_is_waited_for_by_an_operation) {
    crew_t *crew = learned_crew(2);
    for (int32_t round = 0; round < 20; round++) {
        int32_t sent = 100 + round, got = 0;
        uint64_t k = hd_team_bcast(crew->team[1], &got, 1, UCC_DT_INT32, 0);
        cr_assert(k != 0 && k != HD_EXPRESS_OVER);
        cr_assert_eq(hd_team_bcast(crew->team[0], &sent, 1, UCC_DT_INT32, 0), HD_EXPRESS_OVER);
        ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BCAST};
        args.src.info = small_info(&got, 1);
        cr_assert_eq(hd_api_run(&args, crew->team[1], k), UCC_OK);
        cr_assert_eq(got, sent);
        make_room(crew);
    }
    every_kind_still_works(crew);
    dismiss(crew);
}

Test(express, operand_that_is_out_already_is_not_taken_again) {
    crew_t *crew = learned_crew(2);
    int32_t mine = 5, theirs = 7, result[2] = {0, 0};
    uint64_t k =
        hd_team_allreduce(crew->team[0], HEDDLE_IN_PLACE, &mine, 1, UCC_DT_INT32, UCC_OP_SUM);
    cr_assert(k != 0 && k != HD_EXPRESS_OVER);
    ucc_coll_args_t args = small_allreduce(&theirs, &result[1], 1);
    ucc_coll_req_h request;
    must(ucc_collective_init_and_post(&args, &request, crew->team[1]), "post");
    cr_assert_eq(ucc_collective_test(request), UCC_OK); /* an ordinary peer sees nothing odd */
    cr_assert_eq(result[1], 12);
    args = small_allreduce(NULL, &mine, 1);
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
    cr_assert_eq(hd_api_run(&args, crew->team[0], k), UCC_OK);
    cr_assert_eq(mine, 12);
    must(ucc_collective_finalize(request), "finalize");
    every_kind_still_works(crew);
    dismiss(crew);
}

Test(express, ordinary_operation_that_came_first_is_met_by_the_express) {
    crew_t *crew = learned_crew(2);
    int32_t mine = 5, theirs = 7, result[2] = {0, 0};
    ucc_coll_args_t args = small_allreduce(&theirs, &result[1], 1);
    ucc_coll_req_h request;
    must(ucc_collective_init_and_post(&args, &request, crew->team[1]), "post");
    cr_assert_eq(hd_team_allreduce(crew->team[0], &mine, &result[0], 1, UCC_DT_INT32, UCC_OP_SUM),
                 HD_EXPRESS_OVER);
    cr_assert_eq(heddle_wait(request, -1), UCC_OK);
    cr_assert(result[0] == 12 && result[1] == 12);
    must(ucc_collective_finalize(request), "finalize");
    every_kind_still_works(crew);
    dismiss(crew);
}

static void with_a_late_one(void *arg, uint32_t e) {
    crew_t *crew = arg;
    for (uint32_t i = 0; i < AGAIN; i++) {
        if (i % 16 == e) {
            nanosleep(&(struct timespec){.tv_nsec = 20000 << i % 8}, NULL); /* up to 2.5 ms */
        }
        int32_t one = 1, sum = 0;
        expect(crew,
               heddle_allreduce(crew->ep[e], &one, &sum, 1, UCC_DT_INT32, UCC_OP_SUM) == UCC_OK);
        expect(crew, sum == (int32_t)crew->n);
    }
}

Test(express, late_endpoints_are_waited_for_and_sleepers_are_woken) {
    crew_t *crew = crew_of(3);
    together(crew, with_a_late_one);
    dismiss(crew);
}

/* --- errors ----------------------------------------------------------------------------------- */

Test(express, other_collective_for_the_same_number_is_found_at_both) {
    crew_t *crew = learned_crew(2);
    int32_t one = 1, sum;
    uint64_t k = express_barrier(crew, 0, UCC_INPROGRESS);
    uint64_t other = hd_team_allreduce(crew->team[1], &one, &sum, 1, UCC_DT_INT32, UCC_OP_SUM);
    cr_assert_eq(k, other);
    ucc_coll_args_t args = small_allreduce(&one, &sum, 1);
    cr_assert_eq(hd_api_run(&args, crew->team[1], other), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(resume_barrier(crew, 0, k), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(heddle_barrier(crew->ep[0]), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(heddle_barrier(crew->ep[1]), UCC_ERR_INVALID_PARAM);
    dismiss(crew);
}

/* The mismatches of two endpoints after the express was learned; each must end with an error. */
static uint32_t mismatch;

static ucc_status_t deviate(crew_t *crew, uint32_t e) {
    int32_t value[2] = {1, 1}, sum[2];
    heddle_ep_t *ep = crew->ep[e];
    switch (mismatch) {
    case 0:
        return e ? heddle_allreduce(ep, value, sum, 1, UCC_DT_INT32, UCC_OP_SUM)
                 : heddle_barrier(ep);
    case 1:
        return heddle_allreduce(ep, value, sum, 1 + e, UCC_DT_INT32, UCC_OP_SUM);
    case 2:
        return heddle_allreduce(ep, value, sum, 1, UCC_DT_INT32, e ? UCC_OP_MAX : UCC_OP_SUM);
    case 3:
        return heddle_allreduce(ep, value, sum, 1, e ? UCC_DT_UINT32 : UCC_DT_INT32, UCC_OP_SUM);
    default: /* each believes the other to be the root */
        return heddle_bcast(ep, value, 1, UCC_DT_INT32, 1 - e);
    }
}

static void call_deviating(void *arg, uint32_t e) {
    crew_t *crew = arg;
    expect(crew, deviate(crew, e) == UCC_ERR_INVALID_PARAM);
    expect(crew, heddle_barrier(crew->ep[e]) == UCC_ERR_INVALID_PARAM);
}

Test(express, disagreeing_calls_end_with_an_error_at_all) {
    for (mismatch = 0; mismatch < 5; mismatch++) {
        crew_t *crew = learned_crew(2);
        together(crew, call_deviating);
        dismiss(crew);
    }
}

/* Endpoint 2 calls only once the others have failed: what they wait for tells them nothing. */
static void two_of_three_disagree(void *arg, uint32_t e) {
    crew_t *crew = arg;
    int32_t value = 1;
    double began = test_now();
    if (e == 2) {
        while (hd_group_poisoned(crew->team[2]->group) == UCC_OK) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
        expect(crew, heddle_barrier(crew->ep[e]) == UCC_ERR_INVALID_PARAM);
        return;
    }
    ucc_status_t status = heddle_bcast(crew->ep[e], &value, 1 + e, UCC_DT_INT8, 2);
    expect(crew, status == UCC_ERR_INVALID_PARAM);
    expect(crew, test_now() - began < 5);
}

Test(express, two_that_disagree_notice_though_both_wait_for_a_third) {
    crew_t *crew = learned_crew(3);
    together(crew, two_of_three_disagree);
    dismiss(crew);
}

Test(express, abort_after_the_lane_is_out_ends_the_operation_that_goes_on) {
    crew_t *crew = learned_crew(2);
    uint64_t k = express_barrier(crew, 0, UCC_INPROGRESS);
    must(heddle_team_abort(crew->team[1]), "heddle_team_abort");
    cr_assert_eq(resume_barrier(crew, 0, k), HEDDLE_ERR_ABORTED);
    cr_assert_eq(heddle_barrier(crew->ep[0]), HEDDLE_ERR_ABORTED);
    cr_assert_eq(heddle_barrier(crew->ep[1]), HEDDLE_ERR_ABORTED);
    dismiss(crew);
}

static void barriers_until_aborted(void *arg, uint32_t e) {
    crew_t *crew = arg;
    ucc_status_t status = UCC_OK;
    for (uint32_t i = 0; status == UCC_OK; i++) {
        if (e == 0 && i == 200) {
            expect(crew, heddle_team_abort(crew->team[e]) == UCC_OK);
        }
        status = heddle_barrier(crew->ep[e]);
    }
    expect(crew, status == HEDDLE_ERR_ABORTED);
}

Test(express, abort_ends_everybody_wherever_they_are) {
    for (uint32_t round = 0; round < 20; round++) {
        crew_t *crew = crew_of(3);
        together(crew, barriers_until_aborted);
        dismiss(crew);
    }
}

Test(express, bad_arguments_are_refused_after_a_good_call_and_cost_nothing) {
    crew_t *crew = learned_crew(2);
    int32_t value = 1, sum;
    uint64_t k;
    for (uint32_t e = 0; e < crew->n; e++) {
        heddle_ep_t *ep = crew->ep[e];
        cr_assert_eq(heddle_bcast(ep, NULL, 1, UCC_DT_INT32, 0), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(heddle_bcast(ep, &value, 1, UCC_DT_INT32, 2), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(heddle_bcast(ep, &value, UINT64_MAX, UCC_DT_INT32, 0), UCC_ERR_INVALID_PARAM);
        cr_assert_eq(heddle_allreduce(ep, NULL, &sum, 1, UCC_DT_INT32, UCC_OP_SUM),
                     UCC_ERR_INVALID_PARAM);
        cr_assert_eq(heddle_allreduce(ep, &value, NULL, 1, UCC_DT_INT32, UCC_OP_SUM),
                     UCC_ERR_INVALID_PARAM);
        cr_assert_eq(heddle_allreduce(ep, HEDDLE_IN_PLACE, NULL, 1, UCC_DT_INT32, UCC_OP_SUM),
                     UCC_ERR_INVALID_PARAM);
        cr_assert_eq(heddle_bcast(ep, NULL, 0, UCC_DT_INT32, 0), UCC_OK);
        cr_assert_eq(heddle_allreduce(ep, NULL, NULL, 0, UCC_DT_INT32, UCC_OP_SUM), UCC_OK);
    }
    k = express_barrier(crew, 0, UCC_INPROGRESS);
    cr_assert_eq(express_barrier(crew, 1, UCC_OK), k);
    cr_assert_eq(resume_barrier(crew, 0, k), UCC_OK);
    every_kind_still_works(crew);
    dismiss(crew);
}

/* --- operations outstanding ------------------------------------------------------------------- */

enum {
    WINDOW = 4, /* numbers that may be published and not consumed: half the ring */
    AHEAD = 12  /* more than the ring holds: the rest waits in the queue of the handle */
};

static ucc_coll_req_h post_barrier(crew_t *crew, uint32_t e) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
    ucc_coll_req_h request;
    must(ucc_collective_init_and_post(&args, &request, crew->team[e]), "ucc_collective_post");
    return request;
}

static void finish_all(crew_t *crew, ucc_coll_req_h *request, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        expect(crew, heddle_wait(request[i], -1) == UCC_OK);
        expect(crew, ucc_collective_finalize(request[i]) == UCC_OK);
    }
}

Test(express, is_not_taken_while_the_window_is_exhausted) {
    crew_t *crew = learned_crew(2);
    ucc_coll_req_h request[2][AHEAD];
    for (uint32_t i = 0; i < AHEAD; i++) {
        request[0][i] = post_barrier(crew, 0);
        if (i + 1 >= WINDOW) {
            cr_assert_eq(express_barrier(crew, 0, UCC_INPROGRESS), 0);
        }
    }
    for (uint32_t i = 0; i < AHEAD; i++) {
        request[1][i] = post_barrier(crew, 1);
        ucc_context_progress(heddle_ep_context(crew->ep[0]));
    }
    finish_all(crew, request[0], AHEAD);
    finish_all(crew, request[1], AHEAD);
    cr_assert_eq(atomic_load(&crew->wrong), 0);
    every_kind_still_works(crew);
    dismiss(crew);
}

/* Blocking calls between posts, in the same order at all; the posted ones end in any order. */
static void mixed(void *arg, uint32_t e) {
    crew_t *crew = arg;
    for (uint32_t round = 0; round < 40; round++) {
        int32_t src[AHEAD], dst[AHEAD], sum, n = (int32_t)crew->n;
        ucc_coll_req_h request[AHEAD];
        for (uint32_t i = 0; i < AHEAD; i++) {
            src[i] = (int32_t)(round + i);
            ucc_coll_args_t args = small_allreduce(&src[i], &dst[i], 1);
            must(i % 3 == 2 ? heddle_collective_init_tagged(&args, i, &request[i], crew->team[e])
                            : ucc_collective_init(&args, &request[i], crew->team[e]),
                 "init");
            must(ucc_collective_post(request[i]), "post");
            if ((i + round) % 4 == 0) {
                expect(crew, heddle_allreduce(crew->ep[e], &src[i], &sum, 1, UCC_DT_INT32,
                                              UCC_OP_SUM) == UCC_OK);
                expect(crew, sum == n * src[i]);
            }
        }
        expect(crew, heddle_barrier(crew->ep[e]) == UCC_OK);
        finish_all(crew, request, AHEAD);
        for (uint32_t i = 0; i < AHEAD; i++) {
            expect(crew, dst[i] == n * src[i]);
        }
    }
}

Test(express, blocking_calls_go_between_outstanding_ones_in_the_order_of_the_calls) {
    crew_t *crew = crew_of(3);
    together(crew, mixed);
    dismiss(crew);
}

/* The peer of a call that need not wait plays its part by posts. It comes last to the large
 * operation, and so does all its work: endpoint 1 only has to notice. (Were that numbered, the flow
 * control would make the barriers wait for it.) */
Test(express, blocking_call_that_need_not_wait_makes_progress_all_the_same) {
    enum { WORDS = 1 << 16 };
    crew_t *crew = learned_crew(2);
    int32_t *src = must_alloc(WORDS, sizeof(*src)), *dst = must_alloc(2 * WORDS, sizeof(*dst));
    ucc_coll_req_h large[2];
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t e = 1 - i;
        ucc_coll_args_t args = small_allreduce(src, dst + e * WORDS, WORDS);
        must(heddle_collective_init_tagged(&args, 5, &large[e], crew->team[e]), "init");
        must(ucc_collective_post(large[e]), "post");
    }
    for (uint32_t i = 0; i < 100; i++) {
        ucc_coll_req_h request = post_barrier(crew, 0);
        cr_assert_eq(heddle_barrier(crew->ep[1]), UCC_OK);
        finish_all(crew, &request, 1);
    }
    cr_assert_eq(ucc_collective_test(large[1]), UCC_OK);
    finish_all(crew, large, 2);
    cr_assert_eq(atomic_load(&crew->wrong), 0);
    every_kind_still_works(crew);
    dismiss(crew);
    free(src);
    free(dst);
}

/* Tests for completion, and otherwise calls nothing but blocking collectives: they must make the
 * progress that the large operation needs. */
static void ends_by_blocking_calls_alone(void *arg, uint32_t e) {
    enum { WORDS = 1 << 16 };
    crew_t *crew = arg;
    int32_t *src = must_alloc(WORDS, sizeof(*src)), *dst = must_alloc(WORDS, sizeof(*dst));
    int32_t done = 0, all_done = 0;
    double end = test_now() + 10;
    ucc_coll_args_t args = small_allreduce(src, dst, WORDS);
    ucc_coll_req_h request;
    for (int i = 0; i < 20; i++) { /* learned */
        expect(crew, heddle_allreduce(crew->ep[e], &done, &all_done, 1, UCC_DT_INT32, UCC_OP_MIN) ==
                         UCC_OK);
    }
    must(heddle_collective_init_tagged(&args, 5, &request, crew->team[e]), "init");
    must(ucc_collective_post(request), "post");
    while (!all_done) {
        done = ucc_collective_test(request) == UCC_OK || test_now() > end;
        expect(crew, heddle_allreduce(crew->ep[e], &done, &all_done, 1, UCC_DT_INT32, UCC_OP_MIN) ==
                         UCC_OK);
    }
    expect(crew, ucc_collective_test(request) == UCC_OK);
    finish_all(crew, &request, 1);
    free(src);
    free(dst);
}

Test(express, blocking_calls_make_progress_on_what_is_outstanding) {
    crew_t *crew = crew_of(2);
    together(crew, ends_by_blocking_calls_alone);
    dismiss(crew);
}

/* --- teams that it is not for ----------------------------------------------------------------- */

static void again_and_again(void *crew, uint32_t e) {
    for (uint32_t i = 0; i < 20; i++) {
        each_kind_once(crew, e);
    }
}

Test(express, synchronizing_teams_and_handles_with_several_users_are_taught_nothing) {
    heddle_group_params_t params[] = {{.endpoints = 3, .sync_type = UCC_SYNC_COLLECTIVES},
                                      {.endpoints = 3, .thread_mode = UCC_THREAD_MULTIPLE}};
    for (uint32_t i = 0; i < 2; i++) {
        crew_t *crew = new_crew(params[i]);
        together(crew, again_and_again);
        for (uint32_t e = 0; e < crew->n; e++) {
            cr_assert_not(crew->team[e]->call_cache->entry[HD_CACHED_BARRIER].known);
            cr_assert_not(crew->team[e]->call_cache->entry[HD_CACHED_ALLREDUCE].known);
        }
        dismiss(crew);
    }
}

static void one_endpoint_leaves_early(void *arg, uint32_t e) {
    crew_t *crew = arg;
    again_and_again(arg, e);
    expect(crew, heddle_barrier(crew->ep[e]) == UCC_OK);
    expect(crew, heddle_leave(crew->ep[e]) == UCC_OK);
}

Test(express, endpoint_may_leave_as_soon_as_its_last_call_returns) {
    for (uint32_t round = 0; round < 30; round++) {
        crew_t *crew = crew_of(4);
        together(crew, one_endpoint_leaves_early);
        free(crew);
    }
}

/* --- repeated calls of the UCC interface ------------------------------------------------------ */

enum { N = 3 };

static world_t *world;

static void open_world(void) {
    world = small_world(N);
}

static void close_world(void) {
    world_destroy(world);
}

static void run_and_check(const coll_case_t *c) {
    prepared_t *p = case_prepare(c);
    job_t job = {.args = p->args, .statuses = p->statuses, .name = p->name};
    driver_run(world, DRIVER_ONE, &job, 1);
    cr_assert(case_check(p), "%s", p->name);
    case_free(p);
}

/* Each case twice, the second time with other buffers; from one to the next one thing changes. */
Test(express, calls_that_differ_in_one_thing_from_the_call_before, .init = open_world,
     .fini = close_world) {
    static const struct {
        uint32_t root, dt;
        uint64_t count;
        ucc_reduction_op_t op;
        in_place_t in_place;
        bool tagged;
    } step[] = {
        {0, 2, 3, UCC_OP_SUM, IN_PLACE_NO, false},
        {0, 2, 4, UCC_OP_SUM, IN_PLACE_NO, false},
        {0, 2, 3, UCC_OP_MAX, IN_PLACE_NO, false},
        {0, 3, 3, UCC_OP_MAX, IN_PLACE_NO, false},
        {1, 3, 3, UCC_OP_MAX, IN_PLACE_NO, false},
        {1, 3, 3, UCC_OP_MAX, IN_PLACE_WHERE_MEANT, false},
        {1, 3, 3, UCC_OP_MAX, IN_PLACE_EVERYWHERE, false},
        {2, 3, 3, UCC_OP_MAX, IN_PLACE_NO, false},
        {2, 3, 0, UCC_OP_MAX, IN_PLACE_NO, false},
        {2, 3, 3, UCC_OP_MAX, IN_PLACE_NO, false},
        {2, 3, 3, UCC_OP_MAX, IN_PLACE_NO, true},
        {2, 3, 3, UCC_OP_MAX, IN_PLACE_NO, false},
        {2, 3, 9000, UCC_OP_MAX, IN_PLACE_NO, false},
        {2, 3, 3, UCC_OP_SUM, IN_PLACE_NO, false},
    };
    for (uint32_t t = 0; t < COLL_TYPES; t++) {
        for (uint32_t i = 0; i < 2 * sizeof(step) / sizeof(step[0]); i++) {
            ucc_coll_type_t type = coll_type_at(t);
            uint64_t seed = t * 100 + i;
            coll_case_t c = {.type = type,
                             .size = N,
                             .root = coll_is_rooted(type) ? step[i / 2].root : 0,
                             .count = step[i / 2].count,
                             .dt = &reference_datatypes[step[i / 2].dt],
                             .op = step[i / 2].op,
                             .in_place = step[i / 2].in_place,
                             .layout = LAYOUT_EQUAL,
                             .tagged = step[i / 2].tagged,
                             .tag = 4,
                             .seed = seed};
            run_and_check(&c);
        }
    }
}

/* One allreduce of one element at all, args changed by `change` at all of them. */
static ucc_status_t call_changed(void (*change)(ucc_coll_args_t *args, uint32_t e)) {
    int32_t src[N], dst[N];
    ucc_coll_args_t args[N];
    ucc_status_t statuses[N];
    for (uint32_t e = 0; e < N; e++) {
        src[e] = (int32_t)e + 1;
        dst[e] = 0;
        args[e] = small_allreduce(&src[e], &dst[e], 1);
        change(&args[e], e);
    }
    ucc_coll_req_h request[N];
    for (uint32_t e = 0; e < N; e++) {
        statuses[e] = ucc_collective_init(&args[e], &request[e], world->teams[e]);
        cr_assert_eq(statuses[e], statuses[0]);
    }
    if (statuses[0] != UCC_OK) {
        return statuses[0];
    }
    for (uint32_t e = 0; e < N; e++) {
        must(ucc_collective_post(request[e]), "ucc_collective_post");
    }
    small_finish(world, request, N);
    for (uint32_t e = 0; e < N; e++) {
        cr_assert_eq(dst[e], 6);
    }
    return UCC_OK;
}

static void nothing(ucc_coll_args_t *args, uint32_t e) {
    (void)args;
    (void)e;
}

static void no_source(ucc_coll_args_t *args, uint32_t e) {
    (void)e;
    args->src.info.buffer = NULL;
}

static void no_destination(ucc_coll_args_t *args, uint32_t e) {
    (void)e;
    args->dst.info.buffer = NULL;
}

static void device_memory(ucc_coll_args_t *args, uint32_t e) {
    (void)e;
    args->dst.info.mem_type = UCC_MEMORY_TYPE_CUDA;
}

static void other_elements(ucc_coll_args_t *args, uint32_t e) {
    (void)e;
    args->src.info.datatype = UCC_DT_FLOAT32_COMPLEX;
}

static void no_such_type(ucc_coll_args_t *args, uint32_t e) {
    (void)e;
    args->coll_type = (ucc_coll_type_t)3;
}

static void no_such_operation(ucc_coll_args_t *args, uint32_t e) {
    (void)e;
    args->op = UCC_OP_LAST;
}

Test(express, what_a_first_call_refuses_a_repeated_one_refuses_too, .init = open_world,
     .fini = close_world) {
    static const struct {
        void (*change)(ucc_coll_args_t *args, uint32_t e);
        ucc_status_t status;
    } bad[] = {{no_source, UCC_ERR_INVALID_PARAM},     {no_destination, UCC_ERR_INVALID_PARAM},
               {device_memory, UCC_ERR_NOT_SUPPORTED}, {other_elements, UCC_ERR_INVALID_PARAM},
               {no_such_type, UCC_ERR_INVALID_PARAM},  {no_such_operation, UCC_ERR_INVALID_PARAM}};
    for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(call_changed(nothing), UCC_OK);
        cr_assert_eq(call_changed(nothing), UCC_OK);
        cr_assert_eq(call_changed(bad[i].change), bad[i].status, "%u", i);
        cr_assert_eq(call_changed(bad[i].change), bad[i].status, "%u", i);
        cr_assert_eq(call_changed(nothing), UCC_OK);
    }
}

static uint32_t called_back[2];

static void count_call(void *data, ucc_status_t status) {
    cr_assert_eq(status, UCC_OK);
    ++*(uint32_t *)data;
}

static void first_counter(ucc_coll_args_t *args, uint32_t e) {
    (void)e;
    args->mask |= UCC_COLL_ARGS_FIELD_CB;
    args->cb = (ucc_coll_callback_t){count_call, &called_back[0]};
}

static void second_counter(ucc_coll_args_t *args, uint32_t e) {
    first_counter(args, e);
    args->cb.data = &called_back[1];
}

Test(express, callback_is_that_of_the_call_and_no_other, .init = open_world, .fini = close_world) {
    static const struct {
        void (*change)(ucc_coll_args_t *args, uint32_t e);
        uint32_t first, second; /* calls so far */
    } step[] = {{nothing, 0, 0},        {first_counter, N, 0},         {nothing, N, 0},
                {second_counter, N, N}, {first_counter, 2 * N, N},     {nothing, 2 * N, N},
                {nothing, 2 * N, N},    {second_counter, 2 * N, 2 * N}};
    for (uint32_t i = 0; i < sizeof(step) / sizeof(step[0]); i++) {
        cr_assert_eq(call_changed(step[i].change), UCC_OK);
        cr_assert(called_back[0] == step[i].first && called_back[1] == step[i].second,
                  "step %u: %u and %u calls", i, called_back[0], called_back[1]);
    }
}

static void in_active_set(ucc_coll_args_t *args, uint32_t e) {
    (void)e;
    args->mask |= UCC_COLL_ARGS_FIELD_ACTIVE_SET;
    args->active_set.start = 0;
    args->active_set.stride = 1;
    args->active_set.size = N;
}

static void persistent(ucc_coll_args_t *args, uint32_t e) {
    (void)e;
    args->mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    args->flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
}

static void with_tag(ucc_coll_args_t *args, uint32_t e) {
    (void)e;
    args->mask |= UCC_COLL_ARGS_FIELD_TAG;
    args->tag = 9;
}

static void with_long_timeout(ucc_coll_args_t *args, uint32_t e) {
    (void)e;
    args->mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    args->flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
    args->timeout = 1000;
}

Test(express, other_kinds_of_calls_in_between_leave_no_trace, .init = open_world,
     .fini = close_world) {
    void (*const kind[])(ucc_coll_args_t *, uint32_t) = {in_active_set, persistent, with_tag,
                                                         with_long_timeout, first_counter};
    for (uint32_t i = 0; i < 3 * sizeof(kind) / sizeof(kind[0]); i++) {
        cr_assert_eq(call_changed(nothing), UCC_OK);
        cr_assert_eq(call_changed(kind[i / 3]), UCC_OK);
    }
    cr_assert_eq(call_changed(nothing), UCC_OK);
}

/* The others never call: a timeout must not be lost because the call before had none, nor stay. */
Test(express, repeated_call_has_the_timeout_of_its_own_flags, .init = open_world,
     .fini = close_world) {
    int32_t value = 1, result;
    ucc_coll_args_t args = small_allreduce(&value, &result, 1);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(call_changed(nothing), UCC_OK);
    }
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
    args.timeout = 0.01;
    cr_assert_eq(heddle_collective(&args, world->teams[0]), UCC_ERR_TIMED_OUT);
}

Test(express, repeated_calls_after_one_that_timed_out_wait_as_long_as_it_takes, .init = open_world,
     .fini = close_world) {
    ucc_coll_args_t args = small_args(UCC_COLL_TYPE_FANOUT), plain = small_args(args.coll_type);
    args.root = plain.root = 1;
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_TIMEOUT;
    args.timeout = 0.01;
    cr_assert_eq(heddle_collective(&args, world->teams[0]), UCC_ERR_TIMED_OUT);
    ucc_coll_req_h request[N];
    for (uint32_t e = 1; e < N; e++) { /* the others' share of that one */
        request[e] = small_start(world, e, &plain);
    }
    request[0] = NULL;
    small_finish(world, request, N);
    cr_assert_eq(call_changed(nothing), UCC_OK);
    request[0] = small_start(world, 0, &plain);
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    small_idle(world);
    cr_assert_eq(ucc_collective_test(request[0]), UCC_INPROGRESS);
    for (uint32_t e = 1; e < N; e++) {
        request[e] = small_start(world, e, &plain);
    }
    small_finish(world, request, N);
}
