/* test_contract_oob.c: how the library uses the client's allgather, and who gets which number. The
 * board behind it (tests/support/oob.h) reads sources late and counts misuse. */
#include "../support/deadline.h"
#include "../support/small.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(contract_oob, .timeout = 120);

enum { N = 4 };

/* Sizes beyond one block of anything. */
Test(contract_oob, one_allgather_outstanding_per_endpoint_and_each_request_freed) {
    for (uint32_t n = 2; n <= 33; n += 31) {
        world_t *world = world_create(&(world_params_t){.size = n, .form = WORLD_OOB});
        oob_counts_t counts = oob_board_counts(world->board);
        cr_assert_gt(counts.calls, 0);
        cr_assert_eq(counts.overlapping, 0);
        cr_assert_eq(counts.freed_early, 0, "req_free comes after req_test said UCC_OK");
        cr_assert_eq(counts.size_changes, 0, "all endpoints give the same size");
        cr_assert_eq(counts.freed, counts.calls);
        cr_assert(small_team_works(world));
        world_destroy(world);
    }
}

/* The board reads every source only when the last endpoint has called: a source that changed or was
 * freed before req_test said UCC_OK would give a team that does not work. */
Test(contract_oob, src_stays_unchanged_until_req_test_says_ok) {
    world_t *world = world_create(&(world_params_t){.size = N, .form = WORLD_OOB});
    cr_assert(small_team_works(world));
    world_destroy(world);
}

/* req_test of the board answers "in progress" twice although all is there. */
Test(contract_oob, req_test_is_called_until_it_says_ok) {
    world_t *world = world_create(&(world_params_t){.size = 1, .form = WORLD_OOB});
    oob_board_t *board = oob_board_create(2);
    ucc_team_h teams[2];
    for (uint32_t i = 0; i < 2; i++) {
        ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB,
                                    .oob = oob_endpoint(board, i)};
        must(ucc_team_create_post(&world->contexts[0], 1, &params, &teams[i]), "create_post");
    }
    world_finish_teams(2, teams); /* both on one context, by one thread */
    ucc_context_h contexts[2] = {world->contexts[0], world->contexts[0]};
    cr_assert(small_teams_work(teams, contexts, 2));
    world_destroy_team(teams[0]);
    world_destroy_team(teams[1]);
    oob_board_destroy(board);
    world_destroy(world);
}

Test(contract_oob, no_oob_at_size_1) {
    world_t *world = world_create(&(world_params_t){.size = 1, .form = WORLD_OOB});
    oob_counts_t counts = oob_board_counts(world->board);
    cr_assert_eq(counts.calls, 0);
    cr_assert(small_team_works(world));
    world_destroy(world);
    world = world_create(&(world_params_t){.size = 1, .form = WORLD_EP_MAP});
    counts = oob_board_counts(world->board);
    cr_assert_eq(counts.calls, 0);
    cr_assert(small_team_works(world));
    world_destroy(world);
}

/* world.c creates these contexts on one thread each, because each may wait for the others. */
Test(contract_oob, context_create_with_oob_may_block) {
    world_t *world = world_create(&(world_params_t){.size = N, .form = WORLD_EP_MAP});
    oob_counts_t counts = oob_board_counts(world->board);
    cr_assert_eq(counts.overlapping + counts.freed_early + counts.size_changes, 0);
    cr_assert_eq(counts.freed, counts.calls);
    cr_assert(small_team_works(world));
    world_destroy(world);
}

/* --- ep_map --- */

static uint64_t last_first(uint64_t ep, void *n) {
    return *(uint64_t *)n - 1 - ep;
}

/* Team endpoint t is context endpoint members[t]. */
static void team_by_map(ucc_ep_map_t map, const uint32_t *members, uint32_t n, bool with_oob) {
    world_t *world = world_create(&(world_params_t){.size = N, .form = WORLD_EP_MAP});
    oob_board_t *board = oob_board_create(n);
    ucc_team_h teams[N];
    ucc_context_h contexts[N];
    for (uint32_t t = 0; t < n; t++) { /* params: no EP, clients of the map give none */
        ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_EP_MAP, .ep_map = map};
        if (with_oob) {
            params.mask |= UCC_TEAM_PARAM_FIELD_OOB;
            params.oob = oob_endpoint(board, t);
        }
        contexts[t] = world->contexts[members[t]];
        must(ucc_team_create_post(&contexts[t], 1, &params, &teams[t]), "ucc_team_create_post");
    }
    world_finish_teams(n, teams);
    cr_assert(small_teams_work(teams, contexts, n)); /* its bcast's root is endpoint n - 1 */
    for (uint32_t t = 0; t < n; t++) {
        uint32_t size = 0;
        cr_assert_eq(ucc_team_get_size(teams[t], &size), UCC_OK);
        cr_assert_eq(size, n);
        world_destroy_team(teams[t]);
    }
    oob_board_destroy(board);
    world_destroy(world);
}

Test(contract_oob, ep_map_and_oob_may_both_be_given) {
    ucc_ep_map_t full = {.type = UCC_EP_MAP_FULL, .ep_num = N};
    team_by_map(full, (uint32_t[]){0, 1, 2, 3}, N, true);
}

Test(contract_oob, ep_map_full) {
    ucc_ep_map_t full = {.type = UCC_EP_MAP_FULL, .ep_num = N};
    team_by_map(full, (uint32_t[]){0, 1, 2, 3}, N, false);
}

Test(contract_oob, ep_map_strided_forward_and_backward) {
    ucc_ep_map_t forward = {.type = UCC_EP_MAP_STRIDED, .ep_num = 2, .strided = {1, 2}};
    ucc_ep_map_t backward = {.type = UCC_EP_MAP_STRIDED, .ep_num = 3, .strided = {3, -1}};
    team_by_map(forward, (uint32_t[]){1, 3}, 2, false);
    team_by_map(backward, (uint32_t[]){3, 2, 1}, 3, false);
}

Test(contract_oob, ep_map_array_of_4_and_8_byte_elements) {
    int32_t narrow[3] = {2, 0, 3};
    uint64_t wide[3] = {2, 0, 3};
    ucc_ep_map_t by_int = {.type = UCC_EP_MAP_ARRAY, .ep_num = 3, .array = {narrow, 4}};
    ucc_ep_map_t by_long = {.type = UCC_EP_MAP_ARRAY, .ep_num = 3, .array = {wide, 8}};
    team_by_map(by_int, (uint32_t[]){2, 0, 3}, 3, false);
    team_by_map(by_long, (uint32_t[]){2, 0, 3}, 3, false);
}

Test(contract_oob, ep_map_callback) {
    uint64_t n = N;
    ucc_ep_map_t by_callback = {.type = UCC_EP_MAP_CB, .ep_num = N, .cb = {last_first, &n}};
    team_by_map(by_callback, (uint32_t[]){3, 2, 1, 0}, N, false);
}

/* The same members again: the how-manieth creation tells the teams apart. */
Test(contract_oob, several_teams_of_the_same_map_one_after_the_other_and_at_once) {
    world_t *world = world_create(&(world_params_t){.size = N, .form = WORLD_EP_MAP});
    ucc_team_h teams[3][N];
    for (uint32_t k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < N; i++) {
            ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_EP_MAP,
                                        .ep_map = {.type = UCC_EP_MAP_FULL, .ep_num = N}};
            must(ucc_team_create_post(&world->contexts[i], 1, &params, &teams[k][i]), "post");
        }
        world_finish_teams(N, teams[k]);
    }
    for (uint32_t k = 0; k < 3; k++) {
        cr_assert(small_teams_work(teams[k], world->contexts, N));
    }
    for (uint32_t k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < N; i++) {
            world_destroy_team(teams[k][i]);
        }
    }
    world_destroy(world);
}

/* --- "The rank is ep only if EP is set and EP_RANGE is CONTIG; else oob_ep." --- */

/* Gathers every endpoint's oob number; position r of the result is rank r. */
static void ranks_of(uint64_t mask, ucc_ep_range_type_t range, const uint64_t *eps,
                     int32_t *oob_of_rank) {
    world_t *world = world_create(&(world_params_t){.size = N, .form = WORLD_ID});
    oob_board_t *board = oob_board_create(N);
    ucc_team_h teams[N], old[N];
    int32_t mine[N], all[N][N];
    ucc_coll_args_t args[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB | mask,
                                    .ep = eps[i],
                                    .ep_range = range,
                                    .oob = oob_endpoint(board, i)};
        must(ucc_team_create_post(&world->contexts[i], 1, &params, &teams[i]), "create_post");
        mine[i] = (int32_t)i;
        args[i] = small_allgather(&mine[i], all[i], 1, N);
        old[i] = world->teams[i];
    }
    world_finish_teams(N, teams);
    for (uint32_t i = 0; i < N; i++) {
        world->teams[i] = teams[i];
    }
    small_run(world, args, "allgather of oob numbers");
    for (uint32_t i = 0; i < N; i++) {
        oob_of_rank[i] = all[0][i];
        world_destroy_team(teams[i]);
        world->teams[i] = old[i];
    }
    oob_board_destroy(board);
    world_destroy(world);
}

static const uint64_t reversed[N] = {3, 2, 1, 0};

Test(contract_oob, rank_is_ep_if_ep_is_set_and_range_is_contig) {
    int32_t oob[N];
    ranks_of(UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE,
             UCC_COLLECTIVE_EP_RANGE_CONTIG, reversed, oob);
    cr_assert_arr_eq(oob, ((int32_t[]){3, 2, 1, 0}), sizeof(oob));
}

Test(contract_oob, rank_is_oob_ep_if_range_is_not_contig) {
    static const uint64_t labels[N] = {700, 5, 90, 6};
    int32_t oob[N];
    ranks_of(UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE,
             UCC_COLLECTIVE_EP_RANGE_NONCONTIG, labels, oob);
    cr_assert_arr_eq(oob, ((int32_t[]){0, 1, 2, 3}), sizeof(oob));
}

Test(contract_oob, rank_is_oob_ep_if_range_is_not_given) {
    int32_t oob[N];
    ranks_of(UCC_TEAM_PARAM_FIELD_EP, UCC_COLLECTIVE_EP_RANGE_CONTIG, reversed, oob);
    cr_assert_arr_eq(oob, ((int32_t[]){0, 1, 2, 3}), sizeof(oob));
}

Test(contract_oob, rank_is_oob_ep_if_ep_is_not_given) {
    int32_t oob[N];
    ranks_of(UCC_TEAM_PARAM_FIELD_EP_RANGE, UCC_COLLECTIVE_EP_RANGE_CONTIG, reversed, oob);
    cr_assert_arr_eq(oob, ((int32_t[]){0, 1, 2, 3}), sizeof(oob));
}
