/* test_contract_one_sided.c: "One-sided fields that clients set: accept all. WORK_BUFFER_SIZE is
 * nonzero." */
#include "../support/deadline.h"
#include "../support/small.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(contract_one_sided, .timeout = 60);

enum { N = 3 };

static uint64_t work_buffer_size(ucc_context_h context) {
    ucc_context_attr_t attr = {.mask = UCC_CONTEXT_ATTR_FIELD_WORK_BUFFER_SIZE};
    must(ucc_context_get_attr(context, &attr), "ucc_context_get_attr");
    return attr.global_work_buffer_size;
}

/* An alltoall with these additions works on the world. */
static void alltoall_works(world_t *world, uint64_t mask, uint64_t flags, ucc_memory_type_t type) {
    int32_t src[N][N], dst[N][N];
    void *work[N];
    ucc_coll_args_t args[N];
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t j = 0; j < N; j++) {
            src[i][j] = (int32_t)(10 * i + j);
        }
        work[i] = must_alloc(1, work_buffer_size(world->contexts[i]));
        args[i] = small_args(UCC_COLL_TYPE_ALLTOALL);
        args[i].mask = mask;
        args[i].flags = flags;
        args[i].global_work_buffer = work[i];
        args[i].src.info = small_info(src[i], N);
        args[i].dst.info = small_info(dst[i], N);
        args[i].src.info.mem_type = type;
        args[i].dst.info.mem_type = type;
    }
    small_run(world, args, "alltoall with one-sided fields");
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t j = 0; j < N; j++) {
            cr_assert_eq(dst[i][j], (int32_t)(10 * j + i));
        }
        free(work[i]);
    }
}

Test(contract_one_sided, work_buffer_size_is_that_of_the_released_default_transport) {
    world_t *world = small_world(1);
    cr_assert_eq(work_buffer_size(world->contexts[0]), 5);
    world_destroy(world);
}

Test(contract_one_sided, mem_mapped_buffers_and_global_work_buffer_on_alltoall_are_accepted) {
    world_t *world = small_world(N);
    alltoall_works(world, UCC_COLL_ARGS_FIELD_FLAGS | UCC_COLL_ARGS_FIELD_GLOBAL_WORK_BUFFER,
                   UCC_COLL_ARGS_FLAG_MEM_MAPPED_BUFFERS, UCC_MEMORY_TYPE_HOST);
    alltoall_works(world, UCC_COLL_ARGS_FIELD_GLOBAL_WORK_BUFFER, 0, UCC_MEMORY_TYPE_HOST);
    world_destroy(world);
}

Test(contract_one_sided, latency_hint_and_the_other_hints_are_accepted) {
    world_t *world = small_world(N);
    alltoall_works(world, UCC_COLL_ARGS_FIELD_FLAGS, UCC_COLL_ARGS_HINT_OPTIMIZE_LATENCY,
                   UCC_MEMORY_TYPE_HOST);
    alltoall_works(world, UCC_COLL_ARGS_FIELD_FLAGS,
                   UCC_COLL_ARGS_HINT_OPTIMIZE_OVERLAP_CPU |
                       UCC_COLL_ARGS_HINT_OPTIMIZE_OVERLAP_GPU |
                       UCC_COLL_ARGS_HINT_CONTIG_SRC_BUFFER | UCC_COLL_ARGS_HINT_CONTIG_DST_BUFFER,
                   UCC_MEMORY_TYPE_HOST);
    world_destroy(world);
}

Test(contract_one_sided, mem_type_unknown_is_accepted_anywhere) {
    world_t *world = small_world(N);
    alltoall_works(world, 0, 0, UCC_MEMORY_TYPE_UNKNOWN);
    world_destroy(world);
}

Test(contract_one_sided, team_flag_coll_work_buffer_is_accepted) {
    world_t *world = small_world(N);
    ucc_team_h teams[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_TEAM_SIZE |
                                            UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_ID |
                                            UCC_TEAM_PARAM_FIELD_FLAGS,
                                    .flags = UCC_TEAM_FLAG_COLL_WORK_BUFFER,
                                    .team_size = N,
                                    .ep = i,
                                    .id = 12};
        must(ucc_team_create_post(&world->contexts[i], 1, &params, &teams[i]), "create_post");
    }
    world_finish_teams(N, teams);
    cr_assert(small_teams_work(teams, world->contexts, N));
    for (uint32_t i = 0; i < N; i++) {
        world_destroy_team(teams[i]);
    }
    world_destroy(world);
}

Test(contract_one_sided, mem_params_on_the_context_are_accepted) {
    static char memory[2][4096];
    ucc_mem_map_t segments[2] = {{memory[0], sizeof(memory[0])}, {memory[1], sizeof(memory[1])}};
    ucc_lib_h lib = world_lib(UCC_THREAD_SINGLE);
    ucc_context_config_h config;
    ucc_context_params_t params = {.mask = UCC_CONTEXT_PARAM_FIELD_MEM_PARAMS,
                                   .mem_params = {.segments = segments, .n_segments = 2}};
    ucc_context_h context;
    must(ucc_context_config_read(lib, NULL, &config), "ucc_context_config_read");
    cr_assert_eq(ucc_context_create(lib, &params, config, &context), UCC_OK);
    ucc_context_config_release(config);
    cr_assert_eq(ucc_context_destroy(context), UCC_OK);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}
