/* test_contract_one_sided.c: "One-sided fields that clients set: accept all. WORK_BUFFER_SIZE is
 * nonzero." */
#include "../support/deadline.h"
#include "../support/one_sided.h"
#include "../support/small.h"

#include <criterion/criterion.h>
#include <pthread.h>
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

/* --- displacements in the peers' memory ------------------------------------------------------- */

static uint64_t sweep(uint32_t size, one_sided_memory_t memory, const char *tune) {
    one_sided_t *w =
        one_sided_open(&(one_sided_params_t){.size = size, .tune = tune, .memory = memory});
    uint64_t wrong = one_sided_sweep(w, NULL);
    one_sided_close(w);
    return wrong;
}

Test(contract_one_sided, tuned_alltoallv_puts_blocks_where_their_senders_say) {
    for (uint32_t size = 1; size <= 4; size++) {
        cr_assert_eq(sweep(size, MAPPED_BY_CONTEXT, ONE_SIDED_TUNE), 0, "%u endpoints", size);
    }
}

Test(contract_one_sided, tuned_alltoallv_finds_memory_by_handles_of_all_endpoints) {
    for (uint32_t size = 2; size <= 4; size++) {
        cr_assert_eq(sweep(size, MAPPED_BY_ALL_HANDLES, ONE_SIDED_TUNE), 0, "%u endpoints", size);
    }
}

Test(contract_one_sided, tuned_alltoallv_finds_memory_by_an_endpoints_own_handle) {
    cr_assert_eq(sweep(3, MAPPED_BY_OWN_HANDLE, ONE_SIDED_TUNE), 0);
}

typedef struct driven {
    one_sided_params_t params;
    uint64_t wrong;
} driven_t;

static void *drive(void *arg) {
    driven_t *d = arg;
    one_sided_t *w = one_sided_open(&d->params);
    d->wrong = one_sided_sweep(w, NULL);
    one_sided_close(w);
    return NULL;
}

Test(contract_one_sided, tuned_alltoallv_among_threads_that_drive_an_endpoint_each) {
    pthread_t threads[4];
    driven_t driven[4];
    oob_board_t *board = oob_board_create(4);
    setenv("UCC_TL_UCP_TUNE", ONE_SIDED_TUNE, 1);
    for (uint32_t i = 0; i < 4; i++) {
        driven[i] = (driven_t){.params = {.size = 4, .board = board, .endpoint = i}};
        cr_assert_eq(pthread_create(&threads[i], NULL, drive, &driven[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(driven[i].wrong, 0, "endpoint %u", i);
    }
    oob_board_destroy(board);
}

/* Everybody sends its first element to everybody; displacements are 10 * (endpoint + 1) + peer, so
 * where it arrives says whose they were. */
static bool is_one_sided(const char *tune, uint64_t mask, uint64_t flags) {
    uint32_t ones[N], zeros[N] = {0}, at[N][N];
    ucc_coll_args_t args[N];
    ucc_status_t status[N];
    one_sided_t *w = one_sided_open(&(one_sided_params_t){.size = N, .tune = tune});
    for (uint32_t k = 0; k < N; k++) {
        ones[k] = 1;
        for (uint32_t p = 0; p < N; p++) {
            at[k][p] = 10 * (k + 1) + p;
        }
        *(int32_t *)(void *)w->end[k].src = (int32_t)(k + 1);
        args[k] = one_sided_args(w, k, ones, zeros, at[k]);
        args[k].mask = mask;
        args[k].flags = flags;
    }
    one_sided_statuses(w, args, status);
    bool one_sided = true, usual = true;
    for (uint32_t k = 0; k < N; k++) {
        const int32_t *dst = (const int32_t *)(const void *)w->end[k].dst;
        must(status[k], "alltoallv");
        for (uint32_t p = 0; p < N; p++) {
            one_sided &= dst[10 * (p + 1) + k] == (int32_t)(p + 1);
            usual &= dst[10 * (k + 1) + p] == (int32_t)(p + 1);
        }
    }
    one_sided_close(w);
    cr_assert_neq(one_sided, usual);
    return one_sided;
}

enum {
    WORK = UCC_COLL_ARGS_FIELD_GLOBAL_WORK_BUFFER,
    FLAGS = UCC_COLL_ARGS_FIELD_FLAGS,
    MAPPED = UCC_COLL_ARGS_FLAG_MEM_MAPPED_BUFFERS
};

/* As the released library reads it: alltoallv counts as a message of 0 bytes, for not all know its
 * size. */
Test(contract_one_sided, tune_is_read_as_ucc_reads_it) {
    static const char *const yes[] = {
        "alltoallv:@onesided",
        "alltoallv:0-inf:@onesided",
        "alltoallv:@2",
        "ALLTOALLV:@OneSided",
        "@onesided:inf:alltoallv:host,cuda:[2-8]",
        "allreduce:0-4k:@knomial#alltoallv:0-1M:[3]:@onesided",
        "alltoall,alltoallv:0-inf:@onesided",
        "alltoallv:@onesided:[2,3-4]",
    };
    static const char *const no[] = {
        "alltoallv:4k-inf:@onesided",
        "alltoallv:@pairwise",
        "alltoall:0-inf:@onesided",
        "alltoallv:cuda:@onesided",
        "alltoallv:@onesided:[4-inf]",
        "alltoallv:@onesided:0",
        "alltoallv:0-inf:100",
        "alltoallv:no such thing:@onesided",
        "x",
        "",
    };
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        cr_assert(is_one_sided(yes[i], FLAGS | WORK, MAPPED), "%s", yes[i]);
    }
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        cr_assert(!is_one_sided(no[i], FLAGS | WORK, MAPPED), "%s", no[i]);
    }
    cr_assert(!is_one_sided(NULL, FLAGS | WORK, MAPPED));
}

/* Where the released library would take its next algorithm, whose displacements have the usual
 * meaning. */
Test(contract_one_sided, tuned_alltoallv_needs_a_work_buffer_and_mapped_buffers) {
    cr_assert(!is_one_sided(ONE_SIDED_TUNE, FLAGS, MAPPED));
    cr_assert(!is_one_sided(ONE_SIDED_TUNE, FLAGS | WORK, 0));
    cr_assert(!is_one_sided(ONE_SIDED_TUNE, 0, 0));
    cr_assert(is_one_sided(ONE_SIDED_TUNE, WORK, 0), "flags are not set at all: it does");
}

/* What all endpoints get whose endpoint 1 does something else; -1: not all the same. */
static ucc_status_t fails_with(one_sided_memory_t memory,
                               void (*change)(one_sided_t *w, ucc_coll_args_t *args,
                                              uint32_t *at)) {
    uint32_t ones[N], zeros[N] = {0}, at[N][N];
    ucc_coll_args_t args[N];
    ucc_status_t status[N];
    one_sided_t *w =
        one_sided_open(&(one_sided_params_t){.size = N, .tune = ONE_SIDED_TUNE, .memory = memory});
    for (uint32_t k = 0; k < N; k++) {
        ones[k] = 1;
        for (uint32_t p = 0; p < N; p++) {
            at[k][p] = k;
        }
        args[k] = one_sided_args(w, k, ones, zeros, at[k]);
        if (k == 1 || memory == MAPPED_BY_NOBODY) {
            change(w, &args[k], at[k]);
        }
    }
    one_sided_statuses(w, args, status);
    for (uint32_t k = 1; k < N; k++) {
        cr_assert_eq(status[k], status[0], "endpoint %u: %s, endpoint 0: %s", k,
                     ucc_status_string(status[k]), ucc_status_string(status[0]));
    }
    one_sided_close(w);
    return status[0];
}

static void beyond_the_memory(one_sided_t *w, ucc_coll_args_t *args, uint32_t *at) {
    (void)w;
    (void)args;
    at[2] = ONE_SIDED_BYTES / sizeof(int32_t);
}

/* A block that begins inside, and ends outside. */
static void across_the_end(one_sided_t *w, ucc_coll_args_t *args, uint32_t *at) {
    static uint32_t two[N] = {2, 2, 2};
    (void)w;
    args->src.info_v.counts = (ucc_count_t *)two;
    at[2] = ONE_SIDED_BYTES / sizeof(int32_t) - 1;
}

static void nothing(one_sided_t *w, ucc_coll_args_t *args, uint32_t *at) {
    (void)w;
    (void)args;
    (void)at;
}

Test(contract_one_sided, blocks_outside_of_mapped_memory_are_refused_and_written_nowhere) {
    cr_assert_eq(fails_with(MAPPED_BY_CONTEXT, beyond_the_memory), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(fails_with(MAPPED_BY_CONTEXT, across_the_end), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(fails_with(MAPPED_BY_ALL_HANDLES, across_the_end), UCC_ERR_INVALID_PARAM);
    cr_assert_eq(fails_with(MAPPED_BY_NOBODY, nothing), UCC_ERR_INVALID_PARAM);
}

/* What the released library has no one-sided variant of, nor another meaning for. */
Test(contract_one_sided, tuned_alltoallv_with_a_tag_or_an_active_set_is_not_supported) {
    uint32_t ones[N] = {1, 1, 1}, zeros[N] = {0};
    ucc_coll_req_h request;
    one_sided_t *w = one_sided_open(&(one_sided_params_t){.size = N, .tune = ONE_SIDED_TUNE});
    ucc_coll_args_t args = one_sided_args(w, 0, ones, zeros, zeros);
    args.mask |= UCC_COLL_ARGS_FIELD_TAG;
    args.tag = 4;
    cr_assert_eq(ucc_collective_init(&args, &request, w->end[0].team), UCC_ERR_NOT_SUPPORTED);
    args = one_sided_args(w, 0, ones, zeros, zeros);
    args.mask |= UCC_COLL_ARGS_FIELD_ACTIVE_SET;
    args.active_set.start = 0;
    args.active_set.stride = 1;
    args.active_set.size = 2;
    cr_assert_eq(ucc_collective_init(&args, &request, w->end[0].team), UCC_ERR_NOT_SUPPORTED);
    one_sided_close(w);
}
