/* One-sided collectives into symmetric memory: the source does not wait for its peers to enter. */
#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <string.h>

enum { N = 4, BYTES = 1 << 20 };

static heddle_group_t *group;
static heddle_ep_t *ep[N];
static uint8_t *memory[N];

static void setup(void) {
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

static void teardown(void) {
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(heddle_leave(ep[i]), UCC_OK);
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
