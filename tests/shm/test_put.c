/* One-sided collectives into symmetric memory: the source does not wait for its peers to enter. */
#include "../support/small.h"
#include "core/log.h"
#include "core/mem.h"
#include "team/team.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4, BYTES = 1 << 20 };

static heddle_group_t *group;
static heddle_ep_t *ep[N];
static uint8_t *memory[N];

static void open_group(void) {
    heddle_group_params_t params = {.endpoints = N, .symmetric_bytes = BYTES};
    cr_assert_eq(heddle_group_create(&params, &group), UCC_OK);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(heddle_join(group, i, &ep[i]), UCC_OK);
    }
    for (uint32_t i = 0; i < N; i++) {
        size_t bytes;
        cr_assert_eq(heddle_team_memory(heddle_ep_team(ep[0]), i, (void **)&memory[i], &bytes),
                     UCC_OK);
        cr_assert_eq(bytes, BYTES);
    }
}

static void setup(void) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    open_group();
}

static void teardown(void) {
    for (uint32_t i = 0; i < N; i++) {
        cr_assert(!ep[i] || heddle_leave(ep[i]) == UCC_OK);
    }
    heddle_group_destroy(group);
}

TestSuite(put, .init = setup, .fini = teardown);

static ucc_coll_args_t one_sided(ucc_coll_type_t type) {
    return (ucc_coll_args_t){.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                             .flags = HEDDLE_COLL_FLAG_SYMMETRIC | HEDDLE_COLL_FLAG_READY,
                             .coll_type = type,
                             .root = 2};
}

static ucc_coll_buffer_info_t at(uint8_t *buffer, uint64_t count) {
    return (ucc_coll_buffer_info_t){buffer, count, UCC_DT_INT8, UCC_MEMORY_TYPE_HOST};
}

static void finish(ucc_coll_req_h *request) {
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(heddle_wait(request[i], 10), UCC_OK);
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
    }
}

Test(put, bcast_is_delivered_before_any_leaf_enters) {
    ucc_coll_req_h request[N];
    memset(memory[2] + 64, 7, 100000);
    for (uint32_t step = 0; step < N; step++) {
        uint32_t i = (step + 2) % N; /* the root first */
        ucc_coll_args_t args = one_sided(UCC_COLL_TYPE_BCAST);
        args.src.info = at(memory[i] + 64, 100000);
        cr_assert_eq(ucc_collective_init_and_post(&args, &request[i], heddle_ep_team(ep[i])),
                     UCC_OK);
        if (step == 0) {
            cr_assert_eq(ucc_collective_test(request[i]), UCC_OK);
            for (uint32_t peer = 0; peer < N; peer++) {
                cr_assert(memory[peer][64] == 7 && memory[peer][100063] == 7);
                cr_assert(memory[peer][63] == 0 && memory[peer][100064] == 0);
            }
        }
    }
    finish(request);
}

Test(put, alltoall_lands_at_every_peer) {
    ucc_coll_req_h request[N];
    enum { BLOCK = 5000 };
    uint8_t src[N][N * BLOCK];
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t j = 0; j < N; j++) {
            memset(src[i] + j * BLOCK, (int)(10 * i + j + 1), BLOCK);
        }
        ucc_coll_args_t args = one_sided(UCC_COLL_TYPE_ALLTOALL);
        args.src.info = at(src[i], N * BLOCK);
        args.dst.info = at(memory[i] + 4096, N * BLOCK);
        cr_assert_eq(ucc_collective_init_and_post(&args, &request[i], heddle_ep_team(ep[i])),
                     UCC_OK);
    }
    finish(request);
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t j = 0; j < N; j++) {
            cr_assert_eq(memory[i][4096 + j * BLOCK], 10 * j + i + 1);
            cr_assert_eq(memory[i][4096 + (j + 1) * BLOCK - 1], 10 * j + i + 1);
        }
    }
}

/* Endpoint `odd` has its buffer elsewhere; who must find that, does. */
static void misplaced(ucc_coll_type_t type, uint32_t odd, bool all) {
    enum { BLOCK = 100 };
    static uint8_t src[N * BLOCK];
    ucc_coll_req_h request[N];
    for (uint32_t i = 0; i < N; i++) {
        ucc_coll_args_t args = one_sided(type);
        args.src.info = at(src, type == UCC_COLL_TYPE_ALLTOALL ? N * BLOCK : BLOCK);
        args.dst.info = at(memory[i] + (i == odd ? 8192 : 4096), N * BLOCK);
        if (type == UCC_COLL_TYPE_BCAST) {
            args.src.info = at(memory[i] + (i == odd ? 8192 : 4096), BLOCK);
        }
        cr_assert_eq(ucc_collective_init(&args, &request[i], heddle_ep_team(ep[i])), UCC_OK);
        (void)ucc_collective_post(request[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        ucc_status_t status = heddle_wait(request[i], 10);
        if (all || i == odd) {
            cr_assert_eq(status, UCC_ERR_INVALID_PARAM, "endpoint %u has %d", i, (int)status);
        }
        cr_assert_eq(ucc_collective_finalize(request[i]), UCC_OK);
    }
    for (uint32_t i = 0; i < N; i++) { /* at the latest here, everybody knows */
        cr_assert_eq(heddle_barrier(ep[i]), UCC_ERR_INVALID_PARAM);
    }
}

Test(put, an_offset_that_differs_fails_an_allgather_everywhere) {
    misplaced(UCC_COLL_TYPE_ALLGATHER, 1, true);
}

Test(put, an_offset_that_differs_fails_an_alltoall_everywhere) {
    misplaced(UCC_COLL_TYPE_ALLTOALL, 3, true);
}

Test(put, an_offset_that_differs_fails_the_leaf_of_a_bcast_that_has_it) {
    misplaced(UCC_COLL_TYPE_BCAST, 1, false);
}

Test(put, refuses_a_buffer_outside_the_memory) {
    uint8_t outside[8];
    ucc_coll_req_h request;
    ucc_coll_args_t args = one_sided(UCC_COLL_TYPE_BCAST);
    args.src.info = at(outside, sizeof(outside));
    cr_assert_eq(ucc_collective_init(&args, &request, heddle_ep_team(ep[0])),
                 UCC_ERR_INVALID_PARAM);
    args.src.info = at(memory[0] + BYTES - 4, 8);
    cr_assert_eq(ucc_collective_init(&args, &request, heddle_ep_team(ep[0])),
                 UCC_ERR_INVALID_PARAM);
}

/* --- failures: what is reported to be over is not written to any more ------------------------- */

static ucc_coll_req_h post(uint32_t i, ucc_coll_type_t type, double timeout) {
    ucc_coll_req_h request;
    ucc_coll_args_t args = one_sided(type);
    if (timeout > 0) {
        args.flags |= UCC_COLL_ARGS_FLAG_TIMEOUT;
        args.timeout = timeout;
    }
    args.src.info = at(memory[i] + 64, type == UCC_COLL_TYPE_ALLTOALL ? 1000 * N : 1000);
    args.dst.info = at(memory[i] + 65536, 1000 * N);
    cr_assert_eq(ucc_collective_init(&args, &request, heddle_ep_team(ep[i])), UCC_OK);
    (void)ucc_collective_post(request);
    return request;
}

static ucc_status_t end_of(ucc_coll_req_h request) {
    ucc_status_t status = heddle_wait(request, 20);
    cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
    return status;
}

Test(put, a_root_that_comes_after_a_leafs_time_out_writes_nothing) {
    ucc_status_t status = end_of(post(0, UCC_COLL_TYPE_BCAST, 1e-3));
    cr_assert_eq(status, UCC_ERR_TIMED_OUT);
    memset(memory[2] + 64, 7, 1000);
    status = end_of(post(2, UCC_COLL_TYPE_BCAST, 0));
    cr_assert_eq(status, UCC_ERR_TIMED_OUT);
    cr_assert_eq(memory[0][64], 0);
}

Test(put, a_time_out_is_reported_when_the_last_writer_has_left) {
    hd_shared_t **shared = heddle_ep_team(ep[0])->group->board->shared;
    ucc_coll_req_h request = post(0, UCC_COLL_TYPE_BCAST, 1e-3);
    /* as if the root were inside its copy */
    atomic_fetch_add(&shared[2]->writing, 1);
    cr_assert_eq(heddle_wait(request, 0.05), UCC_INPROGRESS);
    atomic_fetch_sub(&shared[2]->writing, 1);
    cr_assert_eq(end_of(request), UCC_ERR_TIMED_OUT);
}

Test(put, an_abort_is_reported_when_the_last_writer_has_left) {
    hd_shared_t **shared = heddle_ep_team(ep[0])->group->board->shared;
    ucc_coll_req_h before = post(0, UCC_COLL_TYPE_ALLTOALL, 0);
    atomic_fetch_add(&shared[1]->writing, 1);
    cr_assert_eq(heddle_team_abort(heddle_ep_team(ep[3])), UCC_OK);
    ucc_coll_req_h after = post(3, UCC_COLL_TYPE_ALLGATHER, 0); /* never launched */
    cr_assert_eq(heddle_wait(before, 0.02), UCC_INPROGRESS);
    cr_assert_eq(heddle_wait(after, 0.02), UCC_INPROGRESS);
    atomic_fetch_sub(&shared[1]->writing, 1);
    cr_assert_eq(end_of(before), HEDDLE_ERR_ABORTED);
    cr_assert_eq(end_of(after), HEDDLE_ERR_ABORTED);
}

/* The record of a request that was used in a small set before. */
static void use_in_a_pair(void) {
    ucc_coll_req_h request[2];
    static int32_t x[2];
    for (uint32_t i = 0; i < 2; i++) {
        ucc_coll_args_t args = small_bcast(&x[i], 1, 0);
        args.mask |= UCC_COLL_ARGS_FIELD_ACTIVE_SET;
        args.active_set.start = 0;
        args.active_set.stride = 1;
        args.active_set.size = 2;
        cr_assert_eq(ucc_collective_init_and_post(&args, &request[i], heddle_ep_team(ep[i])),
                     UCC_OK);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(end_of(request[i]), UCC_OK);
    }
}

static _Atomic uint32_t told;

static void look_for_writer(hd_log_level_t level, const char *line, void *arg) {
    (void)level, (void)arg;
    told += strstr(line, "for endpoint 3 (") && strstr(line, " to finish its copy");
}

static void open_with_stall(void) {
    setenv("HEDDLE_STALL", "0.02", 1);
    hd_log_capture(look_for_writer, NULL);
    open_group();
}

TestSuite(put_stall, .init = open_with_stall, .fini = teardown);

Test(put_stall, names_the_writer_also_where_the_request_has_been_on_a_smaller_board) {
    hd_shared_t **shared = heddle_ep_team(ep[0])->group->board->shared;
    use_in_a_pair();
    atomic_fetch_add(&shared[3]->writing, 1);
    cr_assert_eq(heddle_team_abort(heddle_ep_team(ep[3])), UCC_OK);
    ucc_coll_req_h request = post(1, UCC_COLL_TYPE_ALLGATHER, 0);
    cr_assert_eq(heddle_wait(request, 0.3), UCC_INPROGRESS);
    cr_assert_gt(told, 0);
    atomic_fetch_sub(&shared[3]->writing, 1);
    cr_assert_eq(end_of(request), HEDDLE_ERR_ABORTED);
}

Test(put, a_post_without_memory_is_over_when_the_last_writer_has_left) {
    hd_shared_t **shared = heddle_ep_team(ep[0])->group->board->shared;
    ucc_coll_req_h request;
    ucc_coll_args_t args = one_sided(UCC_COLL_TYPE_ALLGATHER);
    args.mask |= UCC_COLL_ARGS_FIELD_TAG;
    args.tag = 9;
    args.src.info = at(memory[0] + 64, 1000);
    args.dst.info = at(memory[0] + 65536, 1000 * N);
    cr_assert_eq(ucc_collective_init(&args, &request, heddle_ep_team(ep[0])), UCC_OK);
    atomic_fetch_add(&shared[1]->writing, 1);
    hd_alloc_fail_after(0);
    (void)ucc_collective_post(request);
    hd_alloc_fail_after(-1);
    cr_assert_eq(heddle_wait(request, 0.02), UCC_INPROGRESS);
    atomic_fetch_sub(&shared[1]->writing, 1);
    cr_assert_eq(end_of(request), UCC_ERR_NO_MEMORY);
}

/* --- leaving: nothing is written to the memory of who is gone --------------------------------- */

Test(put, nothing_is_written_to_who_has_left) {
    static const ucc_coll_type_t types[] = {UCC_COLL_TYPE_BCAST, UCC_COLL_TYPE_ALLTOALL,
                                            UCC_COLL_TYPE_ALLGATHER};
    memset(memory[2] + 64, 7, 4000);
    cr_assert_eq(heddle_leave(ep[3]), UCC_OK);
    ep[3] = NULL;
    for (uint32_t t = 0; t < 3; t++) {
        cr_assert_eq(end_of(post(2, types[t], 0)), UCC_ERR_NOT_FOUND);
        for (uint32_t at = 0; at < 65536 + 1000 * N; at++) {
            cr_assert_eq(memory[3][at], 0);
        }
    }
}

/* One that is formed, and one that has not heard yet that it is. */
Test(put, a_team_is_destroyed_when_the_last_writer_has_left) {
    for (uint32_t leaver = 0; leaver < 2; leaver++) {
        ucc_team_h teams[2];
        uint8_t *own[2];
        world_t *world = world_create(&(world_params_t){.size = 2, .form = WORLD_OOB});
        for (uint32_t i = 0; i < 2; i++) {
            ucc_team_params_t p = {.mask = UCC_TEAM_PARAM_FIELD_ID | UCC_TEAM_PARAM_FIELD_EP |
                                           UCC_TEAM_PARAM_FIELD_TEAM_SIZE,
                                   .id = 4,
                                   .ep = i,
                                   .team_size = 2};
            heddle_team_params_t extra = {.mask = HEDDLE_TEAM_PARAM_FIELD_MEMORY};
            own[i] = calloc(1, 4096);
            extra.memory.address = own[i];
            extra.memory.bytes = 4096;
            cr_assert_eq(heddle_team_create_post(&world->contexts[i], 1, &p, &extra, &teams[i]),
                         UCC_OK);
        }
        cr_assert_eq(ucc_team_create_test(teams[0]), UCC_INPROGRESS);
        cr_assert_eq(ucc_team_create_test(teams[1]), UCC_OK); /* the last to join */
        hd_shared_t *writer = teams[0]->group->board->shared[1 - leaver];
        atomic_fetch_add(&writer->writing, 1);
        cr_assert_eq(ucc_team_destroy(teams[leaver]), UCC_INPROGRESS);
        cr_assert_eq(ucc_team_destroy(teams[leaver]), UCC_INPROGRESS);
        cr_assert_eq(hd_group_poisoned(teams[0]->group), UCC_OK, "leaving fails nobody");
        atomic_fetch_sub(&writer->writing, 1);
        cr_assert_eq(ucc_team_destroy(teams[leaver]), UCC_OK);
        free(own[leaver]);
        cr_assert_eq(ucc_team_destroy(teams[1 - leaver]), UCC_OK);
        free(own[1 - leaver]);
        world_destroy(world);
    }
}
