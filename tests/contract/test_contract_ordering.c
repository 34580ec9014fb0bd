/* test_contract_ordering.c: which operation of one endpoint meets which of another's: by post, by
 * init, or by tag. */
#include "../support/deadline.h"
#include "../support/small.h"

#include <criterion/criterion.h>

TestSuite(contract_ordering, .timeout = 120);

enum { N = 3 };

static world_t *ordered_world(ucc_post_ordering_t ordering) {
    return world_create(&(world_params_t){.size = N, .form = WORLD_OOB, .ordering = ordering});
}

static void set_persistent(ucc_coll_args_t *args) {
    args->mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args->flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
}

static void set_tag(ucc_coll_args_t *args, uint16_t tag) {
    args->mask |= UCC_COLL_ARGS_FIELD_TAG;
    args->tag = tag;
}

/* Endpoint i posts requests[i][0 .. n - 1] beginning with number i, and all are then finished. */
static void post_rotated_and_finish(world_t *world, ucc_coll_req_h *requests, uint32_t n) {
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = 0; k < n; k++) {
            cr_assert_eq(ucc_collective_post(requests[i * n + (k + i) % n]), UCC_OK);
        }
    }
    small_finish(world, requests, N * n);
}

/* "UCC draws the sequence at init; MPI clients map persistent collectives one to one and may start
 * them in different orders" */
Test(contract_ordering, persistent_requests_may_be_started_in_different_orders) {
    world_t *world = small_world(N);
    int32_t src[N], sums[N], values[N];
    ucc_coll_req_h requests[N][3];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args[3] = {small_allreduce(&src[i], &sums[i], 1),
                                   small_bcast(&values[i], 1, 2), small_barrier()};
        for (uint32_t k = 0; k < 3; k++) {
            set_persistent(&args[k]);
            requests[i][k] = small_init(world, i, &args[k]);
        }
    }
    for (int32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < N; i++) {
            src[i] = round + (int32_t)i;
            values[i] = 100 * round + (int32_t)i;
            for (uint32_t k = 0; k < 3; k++) { /* another order at each endpoint and round */
                uint32_t which = (k + i + (uint32_t)round) % 3;
                cr_assert_eq(ucc_collective_post(requests[i][which]), UCC_OK);
            }
        }
        small_wait(world, &requests[0][0], 3 * N);
        for (uint32_t i = 0; i < N; i++) {
            cr_assert_eq(sums[i], 3 * round + 3);
            cr_assert_eq(values[i], 100 * round + 2);
        }
    }
    small_finish(world, &requests[0][0], 3 * N);
    world_destroy(world);
}

/* Plain operations in between keep their own order. */
Test(contract_ordering, persistent_requests_do_not_count_among_plain_ones) {
    world_t *world = small_world(N);
    int32_t src[N] = {1, 2, 3}, sums[N];
    ucc_coll_req_h requests[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_allreduce(&src[i], &sums[i], 1);
        set_persistent(&args);
        requests[i] = small_init(world, i, &args);
    }
    cr_assert_eq(ucc_collective_post(requests[0]), UCC_OK); /* before the plain ones ... */
    cr_assert(small_team_works(world));
    cr_assert_eq(ucc_collective_post(requests[1]), UCC_OK); /* ... and after them */
    cr_assert_eq(ucc_collective_post(requests[2]), UCC_OK);
    small_finish(world, requests, N);
    cr_assert_eq(sums[0], 6);
    world_destroy(world);
}

/* "A request that was initialised and never posted leaves no hole." */
Test(contract_ordering, unposted_requests_leave_no_hole) {
    world_t *world = small_world(N);
    ucc_coll_args_t args = small_barrier();
    ucc_coll_req_h unposted = small_init(world, 1, &args);
    cr_assert(small_team_works(world));
    cr_assert_eq(ucc_collective_finalize(unposted), UCC_OK);
    cr_assert(small_team_works(world));
    world_destroy(world);
}

/* --- tags --- */

static void tagged_operations_in_any_order(ucc_post_ordering_t ordering) {
    enum { TAGS = 12 };
    world_t *world = ordered_world(ordering);
    int32_t src[N][TAGS], dst[N][TAGS];
    ucc_coll_req_h requests[N][TAGS];
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t t = 0; t < TAGS; t++) {
            src[i][t] = (int32_t)((i + 1) * (t + 1));
            ucc_coll_args_t args = small_allreduce(&src[i][t], &dst[i][t], 1);
            set_tag(&args, (uint16_t)(0xFFFF - t));
            requests[i][t] = small_init(world, i, &args);
        }
    }
    post_rotated_and_finish(world, &requests[0][0], TAGS);
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t t = 0; t < TAGS; t++) {
            cr_assert_eq(dst[i][t], (int32_t)(6 * (t + 1)), "endpoint %u tag %u", i, t);
        }
    }
    cr_assert(ordering != UCC_COLLECTIVE_POST_ORDERED || small_team_works(world));
    world_destroy(world);
}

/* "TAG in the mask means match by tag on any team." */
Test(contract_ordering, tag_matches_by_tag_on_an_ordered_team) {
    tagged_operations_in_any_order(UCC_COLLECTIVE_POST_ORDERED);
}

Test(contract_ordering, tag_matches_by_tag_on_an_unordered_team) {
    tagged_operations_in_any_order(UCC_COLLECTIVE_POST_UNORDERED);
}

Test(contract_ordering, tag_matches_by_tag_on_init_unordered_teams) {
    tagged_operations_in_any_order(UCC_COLLECTIVE_INIT_UNORDERED);
    tagged_operations_in_any_order(UCC_COLLECTIVE_INIT_AND_POST_UNORDERED);
}

Test(contract_ordering, tagged_operations_take_no_sequence_number) {
    world_t *world = small_world(N);
    int32_t src[N] = {1, 2, 3}, dst[N];
    ucc_coll_req_h requests[N];
    ucc_coll_args_t args = small_allreduce(&src[0], &dst[0], 1);
    set_tag(&args, 9);
    requests[0] = small_start(world, 0, &args);
    cr_assert(small_team_works(world)); /* plain ones pass it by */
    for (uint32_t i = 1; i < N; i++) {
        args = small_allreduce(&src[i], &dst[i], 1);
        set_tag(&args, 9);
        requests[i] = small_start(world, i, &args);
    }
    small_finish(world, requests, N);
    cr_assert_eq(dst[0], 6);
    world_destroy(world);
}

Test(contract_ordering, equal_tags_match_in_the_order_of_their_posts) {
    enum { TIMES = 5 };
    world_t *world = ordered_world(UCC_COLLECTIVE_POST_UNORDERED);
    int32_t values[N][TIMES];
    ucc_coll_req_h requests[N][TIMES];
    for (uint32_t i = 0; i < N; i++) {
        for (int32_t t = 0; t < TIMES; t++) {
            values[i][t] = i == 0 ? 50 + t : -1;
            ucc_coll_args_t args = small_bcast(&values[i][t], 1, 0);
            set_tag(&args, 1);
            requests[i][t] = small_start(world, i, &args);
        }
    }
    small_finish(world, &requests[0][0], N * TIMES);
    for (int32_t t = 0; t < TIMES; t++) {
        cr_assert_eq(values[N - 1][t], 50 + t);
    }
    world_destroy(world);
}

Test(contract_ordering, tags_of_64_bits_through_heddle) {
    world_t *world = small_world(N);
    int32_t src[N][2], dst[N][2];
    ucc_coll_req_h requests[N][2];
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t t = 0; t < 2; t++) { /* the tags differ in their highest bit only */
            src[i][t] = t == 0 ? 1 : 10;
            ucc_coll_args_t args = small_allreduce(&src[i][t], &dst[i][t], 1);
            uint64_t tag = 7 | (uint64_t)t << 63;
            must(heddle_collective_init_tagged(&args, tag, &requests[i][t], world->teams[i]),
                 "heddle_collective_init_tagged");
        }
    }
    post_rotated_and_finish(world, &requests[0][0], 2);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(dst[i][0], 3);
        cr_assert_eq(dst[i][1], 30);
    }
    world_destroy(world);
}

/* --- teams that are ordered by init --- */

static void init_order_decides(ucc_post_ordering_t ordering) {
    enum { OPERATIONS = 6 };
    world_t *world = ordered_world(ordering);
    int32_t src[N][OPERATIONS], dst[N][OPERATIONS];
    ucc_coll_req_h requests[N][OPERATIONS];
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = 0; k < OPERATIONS; k++) {
            src[i][k] = (int32_t)(k + 1);
            ucc_coll_args_t args = small_allreduce(&src[i][k], &dst[i][k], 1);
            requests[i][k] = small_init(world, i, &args);
        }
    }
    post_rotated_and_finish(world, &requests[0][0], OPERATIONS);
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = 0; k < OPERATIONS; k++) {
            cr_assert_eq(dst[i][k], (int32_t)(N * (k + 1)));
        }
    }
    world_destroy(world);
}

Test(contract_ordering, init_ordered_teams_match_by_init_whatever_the_order_of_posts) {
    init_order_decides(UCC_COLLECTIVE_INIT_ORDERED);
}

Test(contract_ordering, init_and_post_ordered_teams_work_like_post_ordered_ones) {
    world_t *world = ordered_world(UCC_COLLECTIVE_INIT_AND_POST_ORDERED);
    cr_assert(small_team_works(world));
    world_destroy(world);
}
