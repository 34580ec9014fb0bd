/* test_contract_masks.c: "Fields outside a mask are uninitialised garbage: never look at them." And
 * who owns what after init and after completion. */
#include "../support/deadline.h"
#include "../support/small.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TestSuite(contract_masks, .timeout = 120);

enum { N = 3 };

Test(contract_masks, coll_args_fields_outside_the_mask_are_garbage) {
    world_t *world = small_world(N);
    int32_t src[N] = {1, 10, 100}, dst[N];
    ucc_coll_args_t args[N];
    for (uint32_t i = 0; i < N; i++) { /* flags, tag, cb, timeout, active_set, memh: all 0xA5 */
        args[i] = small_allreduce(&src[i], &dst[i], 1);
        cr_assert_neq(args[i].flags & UCC_COLL_ARGS_FLAG_IN_PLACE, 0,
                      "the garbage is meant to hurt");
    }
    small_run(world, args, "allreduce with garbage");
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(dst[i], 111);
    }
    world_destroy(world);
}

Test(contract_masks, barrier_args_may_be_garbage_but_type_and_mask) {
    world_t *world = small_world(N);
    ucc_coll_args_t args[N];
    memset(args, 0xEE, sizeof(args));
    for (uint32_t i = 0; i < N; i++) {
        args[i].mask = 0;
        args[i].coll_type = UCC_COLL_TYPE_BARRIER;
    }
    small_run(world, args, "barrier with garbage");
    world_destroy(world);
}

Test(contract_masks, lib_and_context_params_outside_the_mask_are_garbage) {
    ucc_lib_config_h config;
    ucc_lib_params_t lib_params;
    ucc_lib_h lib;
    memset(&lib_params, 0xA5, sizeof(lib_params));
    lib_params.mask = 0;
    must(ucc_lib_config_read(NULL, NULL, &config), "ucc_lib_config_read");
    cr_assert_eq(ucc_init(&lib_params, config, &lib), UCC_OK);
    ucc_lib_config_release(config);

    ucc_context_config_h context_config;
    ucc_context_params_t context_params;
    ucc_context_h context;
    memset(&context_params, 0xA5, sizeof(context_params));
    context_params.mask = 0;
    must(ucc_context_config_read(lib, NULL, &context_config), "ucc_context_config_read");
    cr_assert_eq(ucc_context_create(lib, &context_params, context_config, &context), UCC_OK);
    ucc_context_config_release(context_config);
    cr_assert_eq(ucc_context_destroy(context), UCC_OK);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

Test(contract_masks, team_params_outside_the_mask_are_garbage) {
    world_t *world = small_world(N); /* world.c fills them with 0xA5 */
    cr_assert(small_team_works(world));
    world_destroy(world);
}

Test(contract_masks, attributes_outside_the_mask_are_not_written) {
    world_t *world = small_world(1);
    ucc_lib_attr_t lib, lib_before;
    ucc_context_attr_t context, context_before;
    ucc_team_attr_t team, team_before;
    memset(&lib, 0xA5, sizeof(lib));
    memset(&context, 0xA5, sizeof(context));
    memset(&team, 0xA5, sizeof(team));
    lib.mask = context.mask = team.mask = 0;
    lib_before = lib;
    context_before = context;
    team_before = team;
    cr_assert_eq(ucc_lib_get_attr(world->libs[0], &lib), UCC_OK);
    cr_assert_eq(ucc_context_get_attr(world->contexts[0], &context), UCC_OK);
    cr_assert_eq(ucc_team_get_attr(world->teams[0], &team), UCC_OK);
    cr_assert_arr_eq(&lib, &lib_before, sizeof(lib));
    cr_assert_arr_eq(&context, &context_before, sizeof(context));
    cr_assert_arr_eq(&team, &team_before, sizeof(team));
    world_destroy(world);
}

Test(contract_masks, args_struct_is_a_stack_temporary) {
    world_t *world = small_world(N);
    int32_t src[N] = {1, 2, 3}, dst[N];
    ucc_coll_req_h requests[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = small_allreduce(&src[i], &dst[i], 1);
        requests[i] = small_init(world, i, &args);
        memset(&args, 0x5A, sizeof(args)); /* gone before the post */
    }
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(ucc_collective_post(requests[i]), UCC_OK);
    }
    small_finish(world, requests, N);
    cr_assert_eq(dst[0], 6);
    cr_assert_eq(dst[N - 1], 6);
    world_destroy(world);
}

/* AddressSanitizer sees a late read; without it the poison spoils the later operation. */
Test(contract_masks, buffers_and_counts_may_be_freed_after_completion_before_finalize) {
    enum { COUNT = 40000 };
    world_t *world = small_world(N);
    int32_t *src[N], *dst[N];
    uint32_t *counts[N], *displacements[N];
    ucc_coll_req_h requests[N];
    for (uint32_t i = 0; i < N; i++) {
        src[i] = must_alloc(COUNT, sizeof(int32_t));
        dst[i] = must_alloc(COUNT * N, sizeof(int32_t));
        counts[i] = must_alloc(N, sizeof(uint32_t));
        displacements[i] = must_alloc(N, sizeof(uint32_t));
        for (uint32_t j = 0; j < N; j++) {
            counts[i][j] = COUNT;
            displacements[i][j] = COUNT * j;
        }
        ucc_coll_args_t args = small_args(UCC_COLL_TYPE_ALLGATHERV);
        args.src.info = small_info(src[i], COUNT);
        args.dst.info_v = small_info_v(dst[i], counts[i], displacements[i]);
        requests[i] = small_start(world, i, &args);
    }
    bool freed[N] = {false};
    for (uint32_t left = N; left > 0;) { /* each frees as soon as its own part is complete */
        for (uint32_t i = 0; i < N; i++) {
            ucc_context_progress(world->contexts[i]);
            if (!freed[i] && ucc_collective_test(requests[i]) == UCC_OK) {
                memset(dst[i], 0xEE, COUNT * N * sizeof(int32_t));
                memset(counts[i], 0xEE, N * sizeof(uint32_t));
                free(src[i]);
                free(dst[i]);
                free(counts[i]);
                free(displacements[i]);
                freed[i] = true;
                left--;
            }
        }
    }
    small_finish(world, requests, N);
    cr_assert(small_team_works(world));
    world_destroy(world);
}

/* --- clients built from older headers: the tail of a struct is not there --- */

/* Memory whose byte number `bytes` is the first that cannot be touched. */
static void *ends_at_a_wall(size_t bytes, char **map) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq((void *)*map, MAP_FAILED);
    cr_assert_eq(mprotect(*map + page, page, PROT_NONE), 0);
    return *map + page - bytes;
}

static void run_with_short_args(size_t bytes) {
    world_t *world = small_world(2);
    int32_t src[2] = {3, 4}, dst[2];
    ucc_coll_req_h requests[2];
    char *map;
    ucc_coll_args_t *shortened = ends_at_a_wall(bytes, &map);
    for (uint32_t i = 0; i < 2; i++) {
        ucc_coll_args_t args = small_allreduce(&src[i], &dst[i], 1);
        memcpy(shortened, &args, bytes);
        requests[i] = small_start(world, i, shortened);
    }
    small_finish(world, requests, 2);
    cr_assert_eq(dst[0], 7);
    cr_assert_eq(dst[1], 7);
    world_destroy(world);
}

Test(contract_masks, coll_args_without_memory_handles_from_older_clients) {
    run_with_short_args(offsetof(ucc_coll_args_t, src_memh));
}

Test(contract_masks, coll_args_without_active_set_from_older_clients) {
    run_with_short_args(offsetof(ucc_coll_args_t, active_set));
}

Test(contract_masks, context_attr_without_work_buffer_size_from_older_clients) {
    world_t *world = small_world(1);
    char *map;
    size_t bytes = offsetof(ucc_context_attr_t, global_work_buffer_size);
    ucc_context_attr_t *attr = ends_at_a_wall(bytes, &map);
    attr->mask = UCC_CONTEXT_ATTR_FIELD_TYPE;
    cr_assert_eq(ucc_context_get_attr(world->contexts[0], attr), UCC_OK);
    cr_assert_eq(attr->type, UCC_CONTEXT_EXCLUSIVE);
    world_destroy(world);
}

Test(contract_masks, api_minor_of_older_clients_is_accepted) {
    for (unsigned minor = 0; minor <= UCC_API_MINOR; minor++) {
        ucc_lib_config_h config;
        ucc_lib_params_t params = {.mask = 0};
        ucc_lib_h lib;
        must(ucc_lib_config_read(NULL, NULL, &config), "ucc_lib_config_read");
        cr_assert_eq(ucc_init_version(UCC_API_MAJOR, minor, &params, config, &lib), UCC_OK);
        ucc_lib_config_release(config);
        cr_assert_eq(ucc_finalize(lib), UCC_OK);
    }
}
