/* test_check.c: under HEDDLE_CHECK=1 operations without data take part: a count of 0 at some
 * endpoints only fails at all of them in the same operation, and the log says where it is; at all,
 * it is as good as ever.
 */
#include "../support/small.h"
#include "core/log.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_N = 20, COUNT = 4 };

static char last_line[512];
static int32_t src[MAX_N][MAX_N * COUNT], dst[MAX_N][MAX_N * COUNT];

static const ucc_coll_type_t types[] = {
    UCC_COLL_TYPE_ALLREDUCE, UCC_COLL_TYPE_ALLGATHER, UCC_COLL_TYPE_ALLTOALL, UCC_COLL_TYPE_BCAST,
    UCC_COLL_TYPE_GATHER,    UCC_COLL_TYPE_REDUCE,    UCC_COLL_TYPE_SCATTER};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

static void capture(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    if (level <= HD_LOG_ERROR && !strstr(line, "the team has failed")) {
        snprintf(last_line, sizeof(last_line), "%s", line);
    }
}

static void check(void) {
    setenv("HEDDLE_CHECK", "1", 1);
    hd_log_capture(capture, NULL);
}

TestSuite(check, .init = check, .timeout = 120);

static ucc_coll_args_t call(ucc_coll_type_t type, uint32_t n, uint32_t i, uint64_t count) {
    ucc_coll_args_t args = small_args(type);
    bool blocks_in = type == UCC_COLL_TYPE_ALLTOALL || type == UCC_COLL_TYPE_SCATTER;
    bool blocks_out = type == UCC_COLL_TYPE_ALLTOALL || type == UCC_COLL_TYPE_ALLGATHER ||
                      type == UCC_COLL_TYPE_GATHER;
    args.op = UCC_OP_SUM;
    args.root = 1;
    args.src.info = small_info(src[i], count * (blocks_in ? n : 1));
    args.dst.info = small_info(dst[i], count * (blocks_out ? n : 1));
    return args;
}

/* Runs the calls of those with a coll_type; all end with this status. */
static void run(world_t *world, ucc_coll_args_t args[], ucc_status_t expected) {
    ucc_coll_req_h request[MAX_N] = {NULL};
    for (uint32_t i = 0; i < world->size; i++) {
        if (args[i].coll_type) {
            cr_assert_eq(ucc_collective_init(&args[i], &request[i], world->teams[i]), UCC_OK);
            (void)ucc_collective_post(request[i]); /* of the last it may fail at once */
        }
    }
    small_wait(world, request, world->size);
    for (uint32_t i = 0; i < world->size; i++) {
        if (request[i]) {
            cr_assert_eq(ucc_collective_test(request[i]), expected, "%s at %u",
                         reference_coll_name(args[i].coll_type), i);
            cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
        }
    }
}

static void one_is_empty(uint32_t n, uint32_t odd) {
    ucc_coll_args_t args[MAX_N];
    char words[64];
    for (int t = 0; t < N_TYPES; t++) {
        world_t *world = small_world(n);
        for (uint32_t i = 0; i < n; i++) {
            args[i] = call(types[t], n, i, i == odd ? 0 : COUNT);
        }
        run(world, args, UCC_ERR_INVALID_PARAM);
        snprintf(words, sizeof(words), "endpoint %u has count 0, endpoint ", odd);
        cr_assert(strstr(last_line, words) && strstr(last_line, "has count 4"), "%s", last_line);
        world_destroy(world);
    }
}

Test(check, a_count_of_0_at_one_endpoint_fails_at_all_of_a_flat_team) {
    one_is_empty(4, 2);
    one_is_empty(4, 1); /* the root */
}

Test(check, a_count_of_0_at_one_endpoint_fails_at_all_of_a_tree) {
    one_is_empty(MAX_N, 13);
}

Test(check, no_data_at_all_endpoints_is_fine) {
    ucc_coll_args_t args[MAX_N];
    for (uint32_t n = 1; n <= MAX_N; n += n < 4 ? 1 : 16) {
        world_t *world = small_world(n);
        for (int repeat = 0; repeat < 12; repeat++) {
            for (int t = 0; t < N_TYPES; t++) {
                for (uint32_t i = 0; i < n; i++) { /* op and root are garbage, buffers NULL */
                    args[i] = small_args(types[t]);
                    args[i].src.info = small_info(NULL, 0);
                    args[i].dst.info = small_info(NULL, 0);
                }
                run(world, args, UCC_OK);
            }
        }
        cr_assert(n == 1 || small_team_works(world));
        world_destroy(world);
    }
}

Test(check, requests_without_data_can_be_persistent) {
    enum { N = 3 };
    world_t *world = small_world(N);
    ucc_coll_req_h request[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = call(UCC_COLL_TYPE_ALLREDUCE, N, i, 0);
        args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
        request[i] = small_init(world, i, &args);
    }
    for (int start = 0; start < 10; start++) {
        for (uint32_t i = 0; i < N; i++) {
            cr_assert_eq(ucc_collective_post(request[i]), UCC_OK);
        }
        small_wait(world, request, N);
    }
    small_finish(world, request, N);
    cr_assert(small_team_works(world));
    world_destroy(world);
}

Test(check, a_count_of_0_is_found_with_a_tag_and_in_an_active_set) {
    enum { N = 4 };
    for (int tagged = 0; tagged < 2; tagged++) {
        world_t *world = small_world(N);
        ucc_coll_args_t args[N] = {{0}};
        for (uint32_t i = 1; i < N; i += 2) {
            args[i] = call(UCC_COLL_TYPE_BCAST, N, i, i == 3 ? 0 : COUNT);
            args[i].mask |= tagged ? UCC_COLL_ARGS_FIELD_TAG | UCC_COLL_ARGS_FIELD_ACTIVE_SET
                                   : UCC_COLL_ARGS_FIELD_ACTIVE_SET;
            args[i].tag = 7;
            args[i].active_set.start = 1;
            args[i].active_set.stride = 2;
            args[i].active_set.size = 2;
        }
        run(world, args, UCC_ERR_INVALID_PARAM);
        cr_assert(strstr(last_line, "endpoint 3 has count 0, endpoint 1 has count 4"), "%s",
                  last_line);
        world_destroy(world);
    }
}
