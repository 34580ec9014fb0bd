/* test_request.c: which request a call gets: one that keeps a plan for it, if there is one. */
#include "../support/deadline.h"
#include "../support/small.h"
#include "request/request.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N = 2, MOST_KEPT = 8, MANY = 20 };

static int32_t src[N], dst[N * MANY];

/* Call i of many, each of another shape: an allreduce of i + 1 elements. */
static void start_sized(world_t *world, ucc_coll_req_h *request, uint64_t i) {
    static int32_t operand[N][MANY], sum[N][MANY];
    for (uint32_t e = 0; e < N; e++) {
        operand[e][i] = (int32_t)(e + 1);
        ucc_coll_args_t args = small_allreduce(operand[e], sum[e], i + 1);
        request[e] = small_start(world, e, &args);
    }
}

static ucc_coll_req_h sized(world_t *world, uint64_t i) {
    ucc_coll_req_h request[N];
    start_sized(world, request, i);
    ucc_coll_req_h first = request[0];
    small_finish(world, request, N);
    return first;
}

static ucc_coll_req_h combined(world_t *world, ucc_reduction_op_t op, ucc_datatype_t dt) {
    static int32_t operand[N], result[N];
    ucc_coll_req_h request[N];
    for (uint32_t e = 0; e < N; e++) {
        operand[e] = (int32_t)e + 1;
        ucc_coll_args_t args = small_allreduce(&operand[e], &result[e], 1);
        args.op = op;
        args.src.info.datatype = args.dst.info.datatype = dt;
        request[e] = small_start(world, e, &args);
    }
    ucc_coll_req_h first = request[0];
    small_finish(world, request, N);
    cr_assert_eq(result[0], op == UCC_OP_SUM ? 3 : 2);
    return first;
}

static ucc_coll_req_h rooted(world_t *world, uint64_t root) {
    ucc_coll_req_h request[N];
    for (uint32_t e = 0; e < N; e++) {
        src[e] = (int32_t)(10 * root + e);
        ucc_coll_args_t args = small_bcast(&src[e], 1, root);
        request[e] = small_start(world, e, &args);
    }
    ucc_coll_req_h first = request[0];
    small_finish(world, request, N);
    for (uint32_t e = 0; e < N; e++) {
        cr_assert_eq(src[e], (int32_t)(11 * root));
    }
    return first;
}

static ucc_coll_req_h gathered(world_t *world, uint32_t counts_of_peer) {
    static uint32_t counts[N], displacements[N];
    ucc_coll_req_h request[N];
    counts[0] = 1;
    counts[1] = counts_of_peer;
    displacements[1] = 1;
    for (uint32_t e = 0; e < N; e++) {
        ucc_coll_args_t args = small_args(UCC_COLL_TYPE_ALLGATHERV);
        static int32_t block[N][MANY];
        block[e][0] = (int32_t)e + 7;
        args.src.info = small_info(block[e], counts[e]);
        args.dst.info_v = small_info_v(&dst[e * MANY], counts, displacements);
        request[e] = small_start(world, e, &args);
    }
    ucc_coll_req_h first = request[0];
    small_finish(world, request, N);
    cr_assert_eq(dst[0], 7);
    cr_assert_eq(dst[MANY + 1], 8);
    return first;
}

static ucc_coll_req_h tagged(world_t *world, uint64_t tag) {
    ucc_coll_req_h request[N];
    for (uint32_t e = 0; e < N; e++) {
        ucc_coll_args_t args = small_bcast(&src[e], 1, 0);
        args.mask |= UCC_COLL_ARGS_FIELD_TAG;
        args.tag = (uint16_t)tag;
        request[e] = small_start(world, e, &args);
    }
    ucc_coll_req_h first = request[0];
    small_finish(world, request, N);
    return first;
}

/* Member 0 gets the first `first` of four, member 1 the others. */
static ucc_coll_req_h reduced(world_t *world, ucc_reduction_op_t op, uint32_t first) {
    enum { ALL = 4 };
    static int32_t operand[N][ALL], result[N][ALL];
    static uint32_t counts[N];
    ucc_coll_req_h request[N];
    counts[0] = first;
    counts[1] = ALL - first;
    for (uint32_t e = 0; e < N; e++) {
        ucc_coll_args_t args = small_args(UCC_COLL_TYPE_REDUCE_SCATTERV);
        for (int32_t i = 0; i < ALL; i++) {
            operand[e][i] = 10 * i + (int32_t)e;
        }
        memset(result[e], 0, sizeof(result[e]));
        args.op = op;
        args.src.info = small_info(operand[e], ALL);
        args.dst.info_v = small_info_v(result[e], counts, NULL);
        request[e] = small_start(world, e, &args);
    }
    ucc_coll_req_h mine = request[0];
    small_finish(world, request, N);
    for (uint32_t e = 0; e < N; e++) {
        for (uint32_t i = 0; i < counts[e]; i++) {
            int32_t at = (int32_t)(e == 0 ? i : first + i);
            cr_assert_eq(result[e][i], op == UCC_OP_SUM ? 20 * at + 1 : 10 * at + 1);
        }
    }
    return mine;
}

/* In place: its plan is not kept. */
static ucc_coll_req_h swapped(world_t *world) {
    static int32_t block[N][N];
    ucc_coll_req_h request[N];
    for (uint32_t e = 0; e < N; e++) {
        block[e][e] = (int32_t)e + 5;
        ucc_coll_args_t args = small_args(UCC_COLL_TYPE_ALLGATHER);
        args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
        args.dst.info = small_info(block[e], N);
        request[e] = small_start(world, e, &args);
    }
    ucc_coll_req_h first = request[0];
    small_finish(world, request, N);
    cr_assert_eq(block[0][1], 6);
    cr_assert_eq(block[1][0], 5);
    return first;
}

static uint32_t made(const world_t *world) {
    return world->teams[0]->n_requests;
}

Test(request, calls_in_turn_find_the_request_that_keeps_their_plan) {
    world_t *world = small_world(N);
    ucc_coll_req_h first[] = {sized(world, 0), rooted(world, 0), rooted(world, 1),
                              gathered(world, 3), sized(world, 4)};
    uint32_t before = made(world);
    cr_assert_leq(before, 5);
    for (int round = 0; round < 3; round++) {
        cr_assert_eq(sized(world, 0), first[0]);
        cr_assert_eq(rooted(world, 0), first[1]);
        cr_assert_eq(rooted(world, 1), first[2]);
        cr_assert_eq(gathered(world, (uint32_t)(2 + round)), first[3], "other counts, same plan");
        cr_assert_eq(sized(world, 4), first[4]);
    }
    cr_assert_eq(made(world), before);
    world_destroy(world);
}

Test(request, no_more_are_made_for_plans_than_a_few) {
    world_t *world = small_world(N);
    for (uint64_t i = 0; i < 3 * MANY; i++) {
        (void)sized(world, i % MANY);
    }
    cr_assert_eq(made(world), MOST_KEPT);
    ucc_coll_req_h kept = sized(world, 0);
    (void)sized(world, 1);
    cr_assert_eq(sized(world, 0), kept, "the oldest go first");
    world_destroy(world);
}

Test(request, calls_whose_plans_can_t_be_kept_spare_the_others) {
    world_t *world = small_world(N);
    ucc_coll_req_h kept = sized(world, 0), other = tagged(world, 1);
    cr_assert_neq(kept, other);
    for (uint64_t tag = 2; tag < 12; tag++) {
        cr_assert_eq(sized(world, 0), kept);
        cr_assert_eq(tagged(world, tag), other);
    }
    cr_assert_eq(made(world), 2);
    world_destroy(world);
}

Test(request, plain_calls_whose_plans_can_t_be_kept_share_a_request) {
    world_t *world = small_world(N);
    ucc_coll_req_h first = sized(world, 0), second = sized(world, 1), other = swapped(world);
    for (int round = 0; round < 10; round++) {
        cr_assert_eq(sized(world, 0), first);
        cr_assert_eq(swapped(world), other);
        cr_assert_eq(sized(world, 1), second);
        cr_assert_eq(swapped(world), other);
    }
    cr_assert_eq(made(world), 3);
    world_destroy(world);
}

Test(request, a_plan_of_an_incomplete_team_is_not_kept) {
    heddle_group_t *group;
    heddle_group_params_t params = {.endpoints = N};
    heddle_ep_t *ep[N];
    ucc_coll_req_h request;
    ucc_coll_args_t args = small_barrier();
    cr_assert_eq(heddle_group_create(&params, &group), UCC_OK);
    cr_assert_eq(heddle_join(group, 0, &ep[0]), UCC_OK);
    ucc_team_h team = heddle_ep_team(ep[0]);
    cr_assert_eq(ucc_collective_init(&args, &request, team), UCC_OK);
    const hd_request_t *r = (hd_request_t *)(void *)request;
    cr_assert_eq(r->op.plan.path, HD_PATH_NOTHING);
    cr_assert_eq(r->shape.type, 0);
    cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
    cr_assert_eq(heddle_join(group, 1, &ep[1]), UCC_OK);
    cr_assert_eq(ucc_collective_init(&args, &request, team), UCC_OK);
    r = (hd_request_t *)(void *)request;
    cr_assert(r->express);
    cr_assert_eq(r->shape.type, ~(uint64_t)UCC_COLL_TYPE_BARRIER);
    cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
    for (uint32_t e = 0; e < N; e++) {
        cr_assert_eq(heddle_leave(ep[e]), UCC_OK);
    }
    cr_assert_eq(heddle_group_destroy(group), UCC_OK);
}

Test(request, a_request_in_progress_is_nobody_else_s) {
    world_t *world = small_world(N);
    ucc_coll_req_h request[MANY][N];
    (void)sized(world, 0);
    for (uint32_t i = 0; i < MANY; i++) {
        start_sized(world, request[i], i % 3);
        for (uint32_t before = 0; before < i; before++) {
            cr_assert_neq(request[before][0], request[i][0]);
        }
    }
    for (uint32_t i = 0; i < MANY; i++) {
        small_finish(world, request[i], N);
    }
    cr_assert(small_team_works(world));
    world_destroy(world);
}

/* A trigger's wait reads it, though there is nothing else to do. */
Test(request, an_empty_call_does_not_keep_the_time_out_of_an_earlier_one) {
    int32_t x[N] = {0}, y[N];
    world_t *world = small_world(N);
    ucc_coll_req_h requests[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_allreduce(&x[i], &y[i], 1);
        args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags |= UCC_COLL_ARGS_FLAG_TIMEOUT;
        args.timeout = 60;
        requests[i] = small_start(world, i, &args);
    }
    const hd_request_t *before = (hd_request_t *)requests[0];
    cr_assert_eq(before->timeout, 60);
    small_finish(world, requests, N);
    ucc_coll_args_t none = small_allreduce(&x[0], &y[0], 0);
    ucc_coll_req_h request = small_init(world, 0, &none);
    cr_assert_eq((hd_request_t *)request, before, "the same request is used again");
    cr_assert_eq(before->timeout, 0);
    must(ucc_collective_finalize(request), "finalize");
    world_destroy(world);
}

Test(request, a_call_that_is_refused_leaves_the_kept_plans_in_place) {
    world_t *world = small_world(N);
    ucc_coll_req_h kept = sized(world, 0), request;
    (void)rooted(world, 0);
    ucc_coll_args_t args = small_bcast(&src[0], 1, N);
    cr_assert_eq(ucc_collective_init(&args, &request, world->teams[0]), UCC_ERR_INVALID_PARAM);
    args = small_bcast(NULL, 1, 0);
    cr_assert_eq(ucc_collective_init(&args, &request, world->teams[0]), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(sized(world, 0), kept);
    world_destroy(world);
}

Test(request, reductions_of_uneven_blocks_keep_their_plan_by_operation) {
    world_t *world = small_world(N);
    ucc_coll_req_h sum = reduced(world, UCC_OP_SUM, 2), max = reduced(world, UCC_OP_MAX, 2);
    cr_assert_neq(sum, max);
    for (uint32_t first = 0; first <= 4; first++) {
        cr_assert_eq(reduced(world, UCC_OP_SUM, first), sum);
        cr_assert_eq(reduced(world, UCC_OP_MAX, 4 - first), max);
    }
    cr_assert_eq(made(world), 2);
    world_destroy(world);
}

Test(request, operations_and_datatypes_have_requests_of_their_own) {
    world_t *world = small_world(N);
    ucc_coll_req_h sum = combined(world, UCC_OP_SUM, UCC_DT_INT32),
                   max = combined(world, UCC_OP_MAX, UCC_DT_INT32),
                   of_unsigned = combined(world, UCC_OP_SUM, UCC_DT_UINT32);
    cr_assert(sum != max && max != of_unsigned && of_unsigned != sum);
    for (int round = 0; round < 3; round++) {
        cr_assert_eq(combined(world, UCC_OP_SUM, UCC_DT_INT32), sum);
        cr_assert_eq(combined(world, UCC_OP_MAX, UCC_DT_INT32), max);
        cr_assert_eq(combined(world, UCC_OP_SUM, UCC_DT_UINT32), of_unsigned);
    }
    world_destroy(world);
}
