/* test_plan.c: which algorithm a collective among processes takes by itself, at both sides of each
 * threshold. Why it is that one stands in docs/scaling.md. */
#include "net/internal.h"

#include <criterion/criterion.h>
#include <stdlib.h>

typedef struct row {
    uint8_t type;
    uint32_t n;
    size_t bytes;
    uint8_t algorithm;
    uint32_t radix; /* 0: whatever */
} row_t;

enum { KIB = 1024, MIB = 1024 * 1024 };

static hd_net_plan_t plan(const row_t *row, bool parallel) {
    const uint8_t automatic[HD_NET_FAMILIES] = {0};
    hd_net_call_t call = {.type = row->type, .n = row->n, .parallel = parallel};
    return hd_net_plan_with(automatic, &call, row->bytes);
}

static void check_rows(const row_t *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        hd_net_plan_t is = plan(&rows[i], false);
        cr_expect_eq(is.algorithm, rows[i].algorithm, "%s of %zu bytes among %u: %u",
                     hd_type_name(rows[i].type), rows[i].bytes, rows[i].n, is.algorithm);
        cr_expect(!rows[i].radix || is.radix == rows[i].radix, "%s of %zu bytes among %u: radix %u",
                  hd_type_name(rows[i].type), rows[i].bytes, rows[i].n, is.radix);
    }
}
#define CHECK_ROWS(_rows) check_rows((_rows), sizeof(_rows) / sizeof((_rows)[0]))

Test(net_plan, one_process_needs_no_messages) {
    for (uint8_t type = 0; type < HD_SCAN; type++) {
        row_t row = {type, 1, 100, HD_NET_NOTHING, 0};
        check_rows(&row, 1);
    }
}

Test(net_plan, a_barrier_of_few_is_direct) {
    static const row_t rows[] = {{HD_BARRIER, 2, 0, HD_NET_DIRECT, 0},
                                 {HD_BARRIER, 8, 0, HD_NET_DIRECT, 0},
                                 {HD_BARRIER, 9, 0, HD_NET_DISSEMINATION, 4},
                                 {HD_BARRIER, 1000, 0, HD_NET_DISSEMINATION, 4},
                                 {HD_FANIN, 2, 0, HD_NET_TREE, 8},
                                 {HD_FANOUT, 1000, 0, HD_NET_TREE, 8}};
    CHECK_ROWS(rows);
}

Test(net_plan, a_bcast_is_scattered_where_the_parts_are_large) {
    static const row_t rows[] = {{HD_BCAST, 2, 16 * MIB, HD_NET_TREE, 2},
                                 {HD_BCAST, 3, 8 * KIB, HD_NET_TREE, 8},
                                 {HD_BCAST, 3, 8 * KIB + 1, HD_NET_TREE, 2},
                                 {HD_BCAST, 3, 64 * KIB - 1, HD_NET_TREE, 2},
                                 {HD_BCAST, 3, 64 * KIB, HD_NET_SCATTER_ALLGATHER, 0},
                                 {HD_BCAST, 8, 64 * KIB, HD_NET_SCATTER_ALLGATHER, 0},
                                 {HD_BCAST, 8, MIB, HD_NET_SCATTER_ALLGATHER, 0},
                                 {HD_BCAST, 17, 64 * KIB, HD_NET_TREE, 2},
                                 {HD_BCAST, 64, 256 * KIB - 1, HD_NET_TREE, 2},
                                 {HD_BCAST, 64, 256 * KIB, HD_NET_SCATTER_ALLGATHER, 0},
                                 {HD_MCAST, 64, 256 * KIB, HD_NET_SCATTER_ALLGATHER, 0},
                                 {HD_BCAST, 1024, MIB, HD_NET_TREE, 2}};
    CHECK_ROWS(rows);
}

Test(net_plan, an_allgather_goes_by_its_block_among_many) {
    static const row_t rows[] = {{HD_ALLGATHER, 8, 8, HD_NET_DIRECT, 0},
                                 {HD_ALLGATHER, 9, 910, HD_NET_BRUCK, 0},
                                 {HD_ALLGATHER, 9, 911, HD_NET_DIRECT, 0},
                                 {HD_ALLGATHER, 12, MIB, HD_NET_DIRECT, 0},
                                 {HD_ALLGATHER, 13, 2 * KIB, HD_NET_BRUCK, 0},
                                 {HD_ALLGATHER, 1000, 2 * KIB, HD_NET_BRUCK, 0},
                                 {HD_ALLGATHER, 13, 2 * KIB + 1, HD_NET_RING, 0},
                                 {HD_ALLGATHERV, 12, 0, HD_NET_DIRECT, 0},
                                 {HD_ALLGATHERV, 13, 0, HD_NET_RING, 0}};
    CHECK_ROWS(rows);
}

Test(net_plan, reductions_of_many_are_exchanged_up_to_more_bytes) {
    static const row_t rows[] = {{HD_ALLREDUCE, 2, 64 * KIB, HD_NET_EXCHANGE, 8},
                                 {HD_ALLREDUCE, 2, 64 * KIB + 8, HD_NET_REDUCE_ALLGATHER, 0},
                                 {HD_ALLREDUCE, 3, 16 * KIB, HD_NET_EXCHANGE, 8},
                                 {HD_ALLREDUCE, 3, 16 * KIB + 8, HD_NET_REDUCE_ALLGATHER, 0},
                                 {HD_ALLREDUCE, 64, 16 * KIB + 8, HD_NET_REDUCE_ALLGATHER, 0},
                                 {HD_ALLREDUCE, 1024, 256 * KIB, HD_NET_EXCHANGE, 8},
                                 {HD_ALLREDUCE, 1024, 256 * KIB + 8, HD_NET_REDUCE_ALLGATHER, 0},
                                 {HD_REDUCE, 2, MIB, HD_NET_TREE, 8},
                                 {HD_REDUCE, 3, 16 * KIB + 8, HD_NET_REDUCE_ALLGATHER, 0},
                                 {HD_REDUCE, 1024, 256 * KIB, HD_NET_TREE, 8},
                                 {HD_REDUCE, 1024, 256 * KIB + 8, HD_NET_REDUCE_ALLGATHER, 0}};
    CHECK_ROWS(rows);
}

Test(net_plan, what_threads_share_is_combined_once) {
    static const row_t rows[] = {{HD_ALLREDUCE, 9, 64, HD_NET_REDUCE_ALLGATHER, 0},
                                 {HD_REDUCE, 9, 64, HD_NET_REDUCE_ALLGATHER, 0},
                                 {HD_ALLREDUCE, 8, 64, HD_NET_EXCHANGE, 0},
                                 {HD_REDUCE, 8, 64, HD_NET_TREE, 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_expect_eq(plan(&rows[i], true).algorithm, rows[i].algorithm, "row %zu", i);
    }
}

Test(net_plan, small_blocks_to_and_from_a_root_go_by_a_tree) {
    static const row_t rows[] = {{HD_GATHER, 16, 8, HD_NET_DIRECT, 0},
                                 {HD_GATHER, 17, 2 * KIB, HD_NET_TREE, 8},
                                 {HD_GATHER, 17, 2 * KIB + 1, HD_NET_DIRECT, 0},
                                 {HD_SCATTER, 17, 2 * KIB, HD_NET_TREE, 8},
                                 {HD_GATHERV, 1000, 0, HD_NET_DIRECT, 0},
                                 {HD_SCATTERV, 1000, 0, HD_NET_DIRECT, 0},
                                 {HD_ALLTOALL, 1000, 8, HD_NET_PAIRWISE, 16},
                                 {HD_REDUCE_SCATTER, 1000, 8, HD_NET_DIRECT, 0}};
    CHECK_ROWS(rows);
}

static const uint8_t types[] = {HD_BCAST, HD_MCAST, HD_ALLGATHER, HD_ALLGATHERV};

/* A round is a step, and a message has 16 bits for it. */
static void check_rounds(const hd_net_team_t *team, uint32_t n, bool may_ring) {
    for (size_t t = 0; t < sizeof(types); t++) {
        for (size_t bytes = 0; bytes <= 64 << 20; bytes = bytes * 8 + 1) {
            hd_net_call_t call = {.type = types[t], .n = n};
            uint8_t algorithm = hd_net_plan_of(team, &call, bytes).algorithm;
            bool rings = algorithm == HD_NET_RING || algorithm == HD_NET_SCATTER_ALLGATHER;
            cr_expect(may_ring || !rings, "%s of %u, %zu bytes", hd_type_name(types[t]), n, bytes);
        }
    }
}

Test(net_plan, more_processes_than_a_message_has_steps_for_use_no_ring) {
    hd_config_t *config;
    hd_net_team_t *team = calloc(1, sizeof(*team));
    cr_assert_eq(hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &config), UCC_OK);
    hd_net_read_choices(team->choice, config);
    check_rounds(team, 100000, false);
    hd_config_modify(config, NULL, "NET_BCAST", "scatter_allgather");
    hd_config_modify(config, NULL, "NET_ALLGATHER", "ring");
    hd_net_read_choices(team->choice, config);
    check_rounds(team, 100000, false);
    hd_net_call_t call = {.type = HD_ALLGATHERV, .n = 65535};
    cr_expect_eq(hd_net_plan_of(team, &call, 0).algorithm, HD_NET_RING);
    hd_config_release(config);
    free(team);
}
