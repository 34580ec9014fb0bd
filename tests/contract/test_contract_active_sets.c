/* test_contract_active_sets.c: collectives of a part of a team, called by its members only. */
#include "../support/small.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(contract_active_sets, .timeout = 60);

enum { N = 8, COUNT = 3 };

typedef struct active_set {
    uint64_t start;
    int64_t stride;
    uint64_t size;
} active_set_t;

static uint32_t member(active_set_t set, uint64_t k) {
    return (uint32_t)((int64_t)set.start + (int64_t)k * set.stride);
}

static void set_active(ucc_coll_args_t *args, active_set_t set, bool tagged, uint16_t tag) {
    args->mask |= UCC_COLL_ARGS_FIELD_ACTIVE_SET;
    args->active_set.start = set.start;
    args->active_set.stride = set.stride;
    args->active_set.size = set.size;
    if (tagged) {
        args->mask |= UCC_COLL_ARGS_FIELD_TAG;
        args->tag = tag;
    }
}

/* A bcast among the members from team rank `root`; the others' buffers must stay as they are. */
static void bcast_among(world_t *world, active_set_t set, uint32_t root, bool tagged) {
    int32_t buffers[N][COUNT];
    ucc_coll_req_h requests[N] = {NULL};
    for (int32_t i = 0; i < N; i++) {
        for (int32_t e = 0; e < COUNT; e++) {
            buffers[i][e] = 100 * i + e;
        }
    }
    for (uint64_t k = 0; k < set.size; k++) {
        uint32_t i = member(set, k);
        ucc_coll_args_t args = small_bcast(buffers[i], COUNT, root);
        set_active(&args, set, tagged, 3);
        requests[i] = small_start(world, i, &args);
    }
    small_finish(world, requests, N);
    for (uint32_t i = 0; i < N; i++) {
        bool is_member = false;
        for (uint64_t k = 0; k < set.size; k++) {
            is_member = is_member || member(set, k) == i;
        }
        int32_t from = (int32_t)(is_member ? root : i);
        cr_assert_arr_eq(buffers[i], ((int32_t[]){100 * from, 100 * from + 1, 100 * from + 2}),
                         sizeof(buffers[i]), "endpoint %u", i);
    }
}

static const active_set_t sets[] = {
    {0, 1, N}, {2, 1, 3}, {1, 2, 4}, {0, 7, 2}, {5, 1, 1}, {7, -1, 8}, {6, -2, 4}, {4, -4, 2},
};
enum { N_SETS = sizeof(sets) / sizeof(sets[0]) };

Test(contract_active_sets, only_members_call_bcast) {
    world_t *world = small_world(N);
    for (int s = 0; s < N_SETS; s++) {
        bcast_among(world, sets[s], member(sets[s], 0), true);
    }
    world_destroy(world);
}

Test(contract_active_sets, stride_may_be_negative) {
    world_t *world = small_world(N);
    bcast_among(world, (active_set_t){6, -2, 4}, 2, true);
    bcast_among(world, (active_set_t){6, -2, 4}, 2, false);
    world_destroy(world);
}

Test(contract_active_sets, root_is_a_team_rank) {
    world_t *world = small_world(N);
    for (int s = 0; s < N_SETS; s++) {
        for (uint64_t k = 0; k < sets[s].size; k++) {
            bcast_among(world, sets[s], member(sets[s], k), true);
        }
    }
    world_destroy(world);
}

Test(contract_active_sets, with_or_without_tag) {
    world_t *world = small_world(N);
    for (int s = 0; s < N_SETS; s++) {
        bcast_among(world, sets[s], member(sets[s], 0), false);
        bcast_among(world, sets[s], member(sets[s], sets[s].size - 1), true);
    }
    world_destroy(world);
}

Test(contract_active_sets, take_no_team_sequence_number) {
    world_t *world = small_world(N);
    for (int s = 0; s < N_SETS; s++) {
        bcast_among(world, sets[s], member(sets[s], 0), s % 2 == 0);
        cr_assert(small_team_works(world), "out of step after set %d", s);
    }
    world_destroy(world);
}

/* Two sets at once that share no member, and two with different tags that do. */
Test(contract_active_sets, several_at_once) {
    world_t *world = small_world(N);
    active_set_t even = {0, 2, 4}, odd = {7, -2, 4};
    int32_t low[N], high[N];
    ucc_coll_req_h requests[2 * N] = {NULL};
    for (uint64_t k = 0; k < 4; k++) {
        uint32_t e = member(even, k), o = member(odd, k);
        low[e] = (int32_t)e, high[e] = (int32_t)e + 50, low[o] = (int32_t)o;
        ucc_coll_args_t args = small_bcast(&low[e], 1, 4);
        set_active(&args, even, true, 1);
        ucc_coll_args_t other = small_bcast(&high[e], 1, 6);
        set_active(&other, even, true, 2);
        /* tags in different orders */
        requests[e] = small_start(world, e, k % 2 == 0 ? &args : &other);
        requests[e + N] = small_start(world, e, k % 2 == 0 ? &other : &args);
        args = small_bcast(&low[o], 1, 1);
        set_active(&args, odd, false, 0);
        requests[o] = small_start(world, o, &args);
    }
    small_finish(world, requests, 2 * N);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(low[i], i % 2 == 0 ? 4 : 1);
        cr_assert(i % 2 == 1 || high[i] == 56);
    }
    world_destroy(world);
}

/* Inits in different orders, posts in the same: on an INIT_ORDERED team, too, posts are what
 * counts. */
Test(contract_active_sets, untagged_ones_match_by_posts_on_init_ordered_teams) {
    world_t *world = world_create(
        &(world_params_t){.size = 3, .form = WORLD_OOB, .ordering = UCC_COLLECTIVE_INIT_ORDERED});
    active_set_t pair = {0, 2, 2};
    int32_t value[3][2] = {{10, 11}, {0, 0}, {-1, -1}};
    ucc_coll_req_h requests[3][2] = {{NULL}};
    for (uint32_t e = 0; e < 3; e += 2) {
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t which = e == 0 ? k : 1 - k;
            ucc_coll_args_t args = small_bcast(&value[e][which], 1, 0);
            set_active(&args, pair, false, 0);
            requests[e][which] = small_init(world, e, &args);
        }
        cr_assert_eq(ucc_collective_post(requests[e][0]), UCC_OK);
        cr_assert_eq(ucc_collective_post(requests[e][1]), UCC_OK);
    }
    small_finish(world, &requests[0][0], 6);
    cr_assert_eq(value[2][0], 10);
    cr_assert_eq(value[2][1], 11);
    world_destroy(world);
}

/* "bcast (others: ours to add)" */
Test(contract_active_sets, allreduce_among_members) {
    world_t *world = small_world(N);
    active_set_t set = {6, -2, 3}; /* 6, 4, 2 */
    int32_t src[N], dst[N];
    ucc_coll_req_h requests[N] = {NULL};
    memset(dst, 0, sizeof(dst));
    for (uint64_t k = 0; k < set.size; k++) {
        uint32_t i = member(set, k);
        src[i] = (int32_t)i;
        ucc_coll_args_t args = small_allreduce(&src[i], &dst[i], 1);
        set_active(&args, set, false, 0);
        requests[i] = small_start(world, i, &args);
    }
    small_finish(world, requests, N);
    cr_assert_arr_eq(dst, ((int32_t[]){0, 0, 12, 0, 12, 0, 12, 0}), sizeof(dst));
    cr_assert(small_team_works(world));
    world_destroy(world);
}

Test(contract_active_sets, what_lies_outside_the_team_is_refused) {
    static const active_set_t bad[] = {{6, 1, 3}, {1, -1, 3}, {0, 0, 2}, {8, 1, 1}, {0, 1, 0}};
    world_t *world = small_world(N);
    int32_t value = 0;
    for (size_t s = 0; s < sizeof(bad) / sizeof(bad[0]); s++) {
        ucc_coll_args_t args = small_bcast(&value, 1, bad[s].start);
        ucc_coll_req_h request;
        set_active(&args, bad[s], false, 0);
        cr_assert_eq(ucc_collective_init(&args, &request, world->teams[bad[s].start % N]),
                     UCC_ERR_INVALID_PARAM, "set %zu", s);
    }
    world_destroy(world);
}
