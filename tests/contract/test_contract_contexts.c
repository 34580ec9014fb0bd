/* test_contract_contexts.c: "EXCLUSIVE means single-threaded use of the context; clients keep
 * several live teams on one", and "requested collective types, reductions and sync are hints, no
 * filter". */
#include "../support/deadline.h"
#include "../support/small.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(contract_contexts, .timeout = 120);

enum { N = 2 };

#define ALL_TYPES ((uint64_t)UCC_BIT(16) - 1)

/* A second team on the contexts of a world; the status of its creation. */
static ucc_status_t second_team(world_t *world, ucc_team_h *teams) {
    for (uint32_t i = 0; i < N; i++) {
        ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_TEAM_SIZE |
                                            UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_ID,
                                    .team_size = N,
                                    .ep = i,
                                    .id = 1000};
        ucc_status_t st = ucc_team_create_post(&world->contexts[i], 1, &params, &teams[i]);
        if (st != UCC_OK) {
            return st;
        }
    }
    world_finish_teams(N, teams);
    return UCC_OK;
}

Test(contract_contexts, exclusive_contexts_carry_several_live_teams) {
    world_t *world = small_world(N);
    ucc_team_h teams[N];
    cr_assert_eq(second_team(world, teams), UCC_OK);
    cr_assert(small_teams_work(teams, world->contexts, N));
    cr_assert(small_team_works(world));
    cr_assert(small_teams_work(teams, world->contexts, N));
    for (uint32_t i = 0; i < N; i++) {
        world_destroy_team(teams[i]);
    }
    cr_assert(small_team_works(world));
    world_destroy(world);
}

Test(contract_contexts, exclusive_contexts_are_strict_by_configuration) {
    setenv("HEDDLE_STRICT_EXCLUSIVE", "y", 1);
    world_t *world = small_world(N);
    ucc_team_h teams[N];
    cr_assert_lt(second_team(world, teams), 0);
    cr_assert(small_team_works(world));
    world_destroy(world);
}

Test(contract_contexts, exclusive_and_shared_contexts_are_reported) {
    static const ucc_context_type_t types[] = {UCC_CONTEXT_EXCLUSIVE, UCC_CONTEXT_SHARED};
    ucc_lib_h lib = world_lib(UCC_THREAD_MULTIPLE);
    for (size_t t = 0; t < 2; t++) {
        ucc_context_h context = world_new_context(lib, types[t], NULL);
        ucc_context_attr_t attr = {.mask = UCC_CONTEXT_ATTR_FIELD_TYPE};
        cr_assert_eq(ucc_context_get_attr(context, &attr), UCC_OK);
        cr_assert_eq(attr.type, types[t]);
        cr_assert_eq(ucc_context_destroy(context), UCC_OK);
    }
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

/* --- hints --- */

static ucc_lib_h lib_with(ucc_lib_params_t params) {
    ucc_lib_config_h config;
    ucc_lib_h lib;
    must(ucc_lib_config_read(NULL, NULL, &config), "ucc_lib_config_read");
    must(ucc_init(&params, config, &lib), "ucc_init");
    ucc_lib_config_release(config);
    return lib;
}

static ucc_lib_attr_t attributes_of(ucc_lib_h lib) {
    ucc_lib_attr_t attr = {.mask = UCC_LIB_ATTR_FIELD_THREAD_MODE | UCC_LIB_ATTR_FIELD_COLL_TYPES |
                                   UCC_LIB_ATTR_FIELD_REDUCTION_TYPES |
                                   UCC_LIB_ATTR_FIELD_SYNC_TYPE};
    must(ucc_lib_get_attr(lib, &attr), "ucc_lib_get_attr");
    return attr;
}

Test(contract_contexts, requested_types_reductions_and_sync_are_hints_no_filter) {
    ucc_lib_h lib = lib_with((ucc_lib_params_t){.mask = UCC_LIB_PARAM_FIELD_COLL_TYPES |
                                                        UCC_LIB_PARAM_FIELD_REDUCTION_TYPES |
                                                        UCC_LIB_PARAM_FIELD_SYNC_TYPE,
                                                .coll_types = UCC_COLL_TYPE_BARRIER,
                                                .reduction_types = UCC_BIT(UCC_OP_MAX),
                                                .sync_type = UCC_SYNC_COLLECTIVES});
    ucc_context_h context = world_new_context(lib, UCC_CONTEXT_EXCLUSIVE, NULL);
    ucc_context_h contexts[N] = {context, context};
    ucc_team_h teams[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_TEAM_SIZE |
                                            UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_ID |
                                            UCC_TEAM_PARAM_FIELD_SYNC_TYPE,
                                    .team_size = N,
                                    .ep = i,
                                    .id = 5,
                                    .sync_type = UCC_NO_SYNC_COLLECTIVES};
        must(ucc_team_create_post(&context, 1, &params, &teams[i]), "ucc_team_create_post");
    }
    world_finish_teams(N, teams);
    cr_assert(small_teams_work(teams, contexts, N)); /* an allreduce SUM and a bcast */
    world_destroy_team(teams[0]);
    world_destroy_team(teams[1]);
    cr_assert_eq(ucc_context_destroy(context), UCC_OK);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

Test(contract_contexts, lib_get_attr_reports_all_types_when_none_was_requested) {
    ucc_lib_h lib = lib_with((ucc_lib_params_t){.mask = 0});
    ucc_lib_attr_t attr = attributes_of(lib);
    cr_assert_eq(attr.coll_types & ALL_TYPES, ALL_TYPES);
    for (uint32_t op = UCC_OP_SUM; op < UCC_OP_LAST; op++) {
        cr_assert_neq(attr.reduction_types & UCC_BIT(op), 0, "operation %u", op);
    }
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

Test(contract_contexts, lib_get_attr_reports_what_was_requested) {
    ucc_lib_h lib = lib_with(
        (ucc_lib_params_t){.mask = UCC_LIB_PARAM_FIELD_COLL_TYPES | UCC_LIB_PARAM_FIELD_THREAD_MODE,
                           .coll_types = UCC_COLL_TYPE_BARRIER | UCC_COLL_TYPE_ALLTOALL,
                           .thread_mode = UCC_THREAD_MULTIPLE});
    ucc_lib_attr_t attr = attributes_of(lib);
    cr_assert_eq(attr.coll_types & (UCC_COLL_TYPE_BARRIER | UCC_COLL_TYPE_ALLTOALL),
                 UCC_COLL_TYPE_BARRIER | UCC_COLL_TYPE_ALLTOALL);
    cr_assert_eq(attr.thread_mode, UCC_THREAD_MULTIPLE);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}
