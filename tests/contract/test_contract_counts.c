/* test_contract_counts.c: what `count` means for each type, as in the released header, on teams of
 * three with two elements per block. */
#include "../support/deadline.h"
#include "../support/generic.h"
#include "../support/small.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(contract_counts, .timeout = 120);

enum { N = 3, PER_RANK = 2, TOTAL = N * PER_RANK, ROOT = 1, UNTOUCHED = -77 };

typedef struct buffers {
    int32_t src[N][16], dst[N][16];
} buffers_t;

/* Element e of endpoint i's source is 100 i + e. */
static buffers_t fresh_buffers(void) {
    buffers_t b;
    for (int32_t i = 0; i < N; i++) {
        for (int32_t e = 0; e < 16; e++) {
            b.src[i][e] = 100 * i + e;
            b.dst[i][e] = UNTOUCHED;
        }
    }
    return b;
}

static void run(ucc_coll_args_t *args, const char *name) {
    world_t *world = small_world(N);
    small_run(world, args, name);
    world_destroy(world);
}

Test(contract_counts, allgather_src_per_rank_dst_total) {
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_ALLGATHER);
        args[i].src.info = small_info(b.src[i], PER_RANK);
        args[i].dst.info = small_info(b.dst[i], TOTAL);
    }
    run(args, "allgather");
    for (int i = 0; i < N; i++) {
        cr_assert_arr_eq(b.dst[i], ((int32_t[]){0, 1, 100, 101, 200, 201, UNTOUCHED}), 7 * 4);
    }
}

Test(contract_counts, alltoall_both_totals) {
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_ALLTOALL);
        args[i].src.info = small_info(b.src[i], TOTAL);
        args[i].dst.info = small_info(b.dst[i], TOTAL);
    }
    run(args, "alltoall");
    cr_assert_arr_eq(b.dst[0], ((int32_t[]){0, 1, 100, 101, 200, 201, UNTOUCHED}), 7 * 4);
    cr_assert_arr_eq(b.dst[2], ((int32_t[]){4, 5, 104, 105, 204, 205, UNTOUCHED}), 7 * 4);
}

Test(contract_counts, gather_src_per_rank_dst_total_at_the_root) {
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_GATHER);
        args[i].root = ROOT;
        args[i].src.info = small_info(b.src[i], PER_RANK);
        if (i == ROOT) {
            args[i].dst.info = small_info(b.dst[i], TOTAL);
        }
    }
    run(args, "gather");
    cr_assert_arr_eq(b.dst[ROOT], ((int32_t[]){0, 1, 100, 101, 200, 201, UNTOUCHED}), 7 * 4);
    cr_assert_eq(b.dst[0][0], UNTOUCHED);
}

Test(contract_counts, scatter_src_total_at_the_root_dst_per_rank) {
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_SCATTER);
        args[i].root = ROOT;
        args[i].dst.info = small_info(b.dst[i], PER_RANK);
        if (i == ROOT) {
            args[i].src.info = small_info(b.src[i], TOTAL);
        }
    }
    run(args, "scatter");
    for (int i = 0; i < N; i++) {
        cr_assert_arr_eq(b.dst[i], ((int32_t[]){100 + 2 * i, 101 + 2 * i, UNTOUCHED}), 3 * 4);
    }
}

Test(contract_counts, reduce_scatter_src_total_dst_per_rank) {
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_REDUCE_SCATTER);
        args[i].op = UCC_OP_SUM;
        args[i].src.info = small_info(b.src[i], TOTAL);
        args[i].dst.info = small_info(b.dst[i], PER_RANK);
    }
    run(args, "reduce_scatter");
    for (int i = 0; i < N; i++) {
        cr_assert_arr_eq(b.dst[i], ((int32_t[]){300 + 6 * i, 303 + 6 * i, UNTOUCHED}), 3 * 4);
    }
}

Test(contract_counts, bcast_src_only_dst_is_all_zero) {
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_BCAST);
        args[i].root = ROOT;
        args[i].src.info = small_info(b.src[i], PER_RANK);
        memset(&args[i].dst, 0, sizeof(args[i].dst));
    }
    run(args, "bcast");
    for (int i = 0; i < N; i++) {
        cr_assert_arr_eq(b.src[i], ((int32_t[]){100, 101, 100 * i + 2}), 3 * 4);
    }
}

Test(contract_counts, reduce_scatterv_dst_counts_with_displacements_null) {
    buffers_t b = fresh_buffers();
    uint32_t counts[N] = {1, 0, 3};
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_REDUCE_SCATTERV);
        args[i].op = UCC_OP_SUM;
        args[i].src.info = small_info(b.src[i], 4);
        args[i].dst.info_v = small_info_v(b.dst[i], counts, NULL);
    }
    run(args, "reduce_scatterv");
    cr_assert_arr_eq(b.dst[0], ((int32_t[]){300, UNTOUCHED}), 2 * 4);
    cr_assert_eq(b.dst[1][0], UNTOUCHED);
    cr_assert_arr_eq(b.dst[2], ((int32_t[]){303, 306, 309, UNTOUCHED}), 4 * 4);
}

/* --- counts that are no multiple of n --- */

Test(contract_counts, in_place_reduce_scatter_gives_the_first_ones_what_is_left_over) {
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_REDUCE_SCATTER);
        args[i].mask = UCC_COLL_ARGS_FIELD_FLAGS;
        args[i].flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
        args[i].op = UCC_OP_SUM;
        args[i].dst.info = small_info(b.src[i], 8); /* 3, 3 and 2 */
    }
    run(args, "reduce_scatter in place");
    cr_assert_arr_eq(b.src[0], ((int32_t[]){300, 303, 306}), 3 * 4);
    cr_assert_arr_eq(b.src[1] + 3, ((int32_t[]){309, 312, 315}), 3 * 4);
    cr_assert_arr_eq(b.src[2] + 6, ((int32_t[]){318, 321, 208}), 3 * 4);
}

static void reduce_scatter_in_place_of(uint32_t n, uint32_t count) {
    int32_t **buffer = must_alloc(n, sizeof(*buffer));
    ucc_coll_args_t *args = must_alloc(n, sizeof(*args));
    for (uint32_t i = 0; i < n; i++) {
        buffer[i] = must_alloc(count, sizeof(int32_t));
        for (uint32_t e = 0; e < count; e++) {
            buffer[i][e] = (int32_t)(e + i);
        }
        args[i] = small_args(UCC_COLL_TYPE_REDUCE_SCATTER);
        args[i].mask = UCC_COLL_ARGS_FIELD_FLAGS;
        args[i].flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
        args[i].op = UCC_OP_SUM;
        args[i].dst.info = small_info(buffer[i], count);
    }
    world_t *world = small_world(n);
    small_run(world, args, "uneven reduce_scatter");
    world_destroy(world);
    uint32_t wrong = 0, at = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t own = count / n + (i < count % n); own > 0; own--, at++) {
            wrong += buffer[i][at] != (int32_t)(n * at + n * (n - 1) / 2);
        }
        free(buffer[i]);
    }
    cr_assert_eq(wrong, 0, "%u elements among %u", count, n);
    cr_assert_eq(at, count);
    free(buffer);
    free(args);
}

Test(contract_counts, uneven_reduce_scatter_of_every_regime_and_team) {
    static const uint32_t counts[] = {1, 5, 11, 100, 1001, 5003, 300001};
    for (uint32_t c = 0; c < 7; c++) {
        reduce_scatter_in_place_of(2, counts[c]);
        reduce_scatter_in_place_of(3, counts[c]);
        reduce_scatter_in_place_of(12, counts[c]);
    }
}

Test(contract_counts, what_is_left_over_in_gather_and_allgather_is_nobodys) {
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_ALLGATHER);
        args[i].src.info = small_info(b.src[i], PER_RANK);
        args[i].dst.info = small_info(b.dst[i], TOTAL + 2);
    }
    run(args, "allgather");
    for (int i = 0; i < N; i++) {
        cr_assert_arr_eq(b.dst[i], ((int32_t[]){0, 1, 100, 101, 200, 201, UNTOUCHED}), 7 * 4);
        args[i] = small_args(UCC_COLL_TYPE_GATHER);
        args[i].root = ROOT;
        args[i].src.info = small_info(b.src[i] + 4, PER_RANK);
        args[i].dst.info = small_info(b.dst[i], i == ROOT ? TOTAL + 1 : 0);
    }
    run(args, "gather");
    cr_assert_arr_eq(b.dst[ROOT], ((int32_t[]){4, 5, 104, 105, 204, 205, UNTOUCHED}), 7 * 4);
}

Test(contract_counts, less_than_an_element_for_each_is_nothing) {
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_GATHER);
        args[i].root = ROOT;
        args[i].src.info = small_info(b.src[i], 0);
        args[i].dst.info = small_info(b.dst[i], N - 1);
    }
    run(args, "gather of nothing");
    cr_assert_eq(b.dst[ROOT][0], UNTOUCHED);
}

/* An element that its user packs as a number of 4 bytes and one of 8: room for a number of each
 * endpoint. */
Test(contract_counts, one_packed_element_may_hold_the_blocks_of_all) {
    reference_dt_t dt = generic_packed();
    static const ucc_coll_type_t types[] = {UCC_COLL_TYPE_ALLGATHER, UCC_COLL_TYPE_ALLTOALL,
                                            UCC_COLL_TYPE_GATHER};
    world_t *world = small_world(N);
    for (int t = 0; t < 3; t++) {
        buffers_t b = fresh_buffers();
        ucc_coll_args_t args[N];
        for (int i = 0; i < N; i++) {
            args[i] = small_args(types[t]);
            args[i].root = ROOT;
            args[i].src.info = small_info(b.src[i], types[t] == UCC_COLL_TYPE_ALLTOALL ? N : 1);
            args[i].dst.info = small_info(b.dst[i], 1);
            args[i].dst.info.datatype = dt.handle;
        }
        small_run(world, args, reference_coll_name(types[t]));
        int32_t first = types[t] == UCC_COLL_TYPE_ALLTOALL ? ROOT : 0;
        int32_t expected[] = {first, UNTOUCHED, 100 + first, 200 + first, UNTOUCHED};
        cr_assert_arr_eq(b.dst[ROOT], expected, sizeof(expected), "%s",
                         reference_coll_name(types[t]));
        cr_assert(small_team_works(world), "out of step after %s", reference_coll_name(types[t]));
    }
    world_destroy(world);
    generic_destroy(&dt);
}

Test(contract_counts, dst_says_how_much_and_what_an_allreduce_reduces) {
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_allreduce(b.src[i], b.dst[i], PER_RANK);
        args[i].src.info.count = i == 0 ? 1 : 9;
        args[i].src.info.datatype = UCC_DT_UINT32;
    }
    run(args, "allreduce");
    for (int i = 0; i < N; i++) {
        cr_assert_arr_eq(b.dst[i], ((int32_t[]){300, 303, UNTOUCHED}), 3 * 4);
    }
}

/* --- v types: counts and displacements in elements --- */

static uint32_t counts_of_blocks[N] = {2, 0, 1};
static uint32_t displacements_of_gap[N] = {3, 2, 0}; /* out of order, with a hole at 1 and 2 */

static const int32_t gathered[] = {200, UNTOUCHED, UNTOUCHED, 0, 1, UNTOUCHED};

Test(contract_counts, allgatherv_counts_and_displacements_in_elements) {
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_ALLGATHERV);
        args[i].src.info = small_info(b.src[i], counts_of_blocks[i]);
        args[i].dst.info_v = small_info_v(b.dst[i], counts_of_blocks, displacements_of_gap);
    }
    run(args, "allgatherv");
    for (int i = 0; i < N; i++) {
        cr_assert_arr_eq(b.dst[i], gathered, sizeof(gathered));
    }
}

Test(contract_counts, gatherv_counts_and_displacements_in_elements) {
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_GATHERV);
        args[i].root = ROOT;
        args[i].src.info = small_info(b.src[i], counts_of_blocks[i]);
        if (i == ROOT) {
            args[i].dst.info_v = small_info_v(b.dst[i], counts_of_blocks, displacements_of_gap);
        }
    }
    run(args, "gatherv");
    cr_assert_arr_eq(b.dst[ROOT], gathered, sizeof(gathered));
}

Test(contract_counts, scatterv_counts_and_displacements_in_elements) {
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_SCATTERV);
        args[i].root = ROOT;
        args[i].dst.info = small_info(b.dst[i], counts_of_blocks[i]);
        if (i == ROOT) {
            args[i].src.info_v = small_info_v(b.src[i], counts_of_blocks, displacements_of_gap);
        }
    }
    run(args, "scatterv");
    cr_assert_arr_eq(b.dst[0], ((int32_t[]){103, 104, UNTOUCHED}), 3 * 4);
    cr_assert_eq(b.dst[1][0], UNTOUCHED);
    cr_assert_arr_eq(b.dst[2], ((int32_t[]){100, UNTOUCHED}), 2 * 4);
}

Test(contract_counts, alltoallv_counts_and_displacements_in_elements) {
    static uint32_t send[N][N] = {{0, 2, 1}, {1, 0, 0}, {2, 1, 0}};
    static uint32_t receive[N][N] = {{0, 1, 2}, {2, 0, 1}, {1, 0, 0}};
    static uint32_t from[N] = {6, 0, 4}; /* the same arrangement at all */
    static uint32_t to[N] = {4, 0, 2};
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_ALLTOALLV);
        args[i].src.info_v = small_info_v(b.src[i], send[i], from);
        args[i].dst.info_v = small_info_v(b.dst[i], receive[i], to);
    }
    run(args, "alltoallv");
    cr_assert_arr_eq(b.dst[0], ((int32_t[]){106, UNTOUCHED, 206, 207, UNTOUCHED}), 5 * 4);
    cr_assert_arr_eq(b.dst[1], ((int32_t[]){UNTOUCHED, UNTOUCHED, 200, UNTOUCHED, 0, 1}), 6 * 4);
    cr_assert_arr_eq(b.dst[2], ((int32_t[]){UNTOUCHED, UNTOUCHED, UNTOUCHED, UNTOUCHED, 4}), 5 * 4);
}

/* --- widths: each flag on its own --- */

static void allgatherv_with_widths(bool counts64, bool displacements64) {
    static uint64_t wide_counts[N] = {2, 0, 1}, wide_displacements[N] = {3, 2, 0};
    uint64_t flags = (counts64 ? UCC_COLL_ARGS_FLAG_COUNT_64BIT : 0) |
                     (displacements64 ? UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT : 0);
    buffers_t b = fresh_buffers();
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = small_args(UCC_COLL_TYPE_ALLGATHERV);
        args[i].mask = UCC_COLL_ARGS_FIELD_FLAGS;
        args[i].flags = flags;
        args[i].src.info = small_info(b.src[i], counts_of_blocks[i]);
        args[i].dst.info_v = small_info_v(b.dst[i], counts_of_blocks, displacements_of_gap);
        if (counts64) {
            args[i].dst.info_v.counts = wide_counts;
        }
        if (displacements64) {
            args[i].dst.info_v.displacements = wide_displacements;
        }
    }
    run(args, "allgatherv with widths");
    cr_assert_arr_eq(b.dst[0], gathered, sizeof(gathered));
    cr_assert_arr_eq(b.dst[N - 1], gathered, sizeof(gathered));
}

Test(contract_counts, without_flags_counts_and_displacements_are_uint32) {
    allgatherv_with_widths(false, false);
}

Test(contract_counts, count_64bit_flag_alone) {
    allgatherv_with_widths(true, false);
}

Test(contract_counts, displacements_64bit_flag_alone) {
    allgatherv_with_widths(false, true);
}

Test(contract_counts, both_64bit_flags) {
    allgatherv_with_widths(true, true);
}
