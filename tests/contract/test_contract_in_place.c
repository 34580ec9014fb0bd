/* test_contract_in_place.c: where in-place data lies, and that what has no meaning is ignored.
 * Teams of three, two elements per block, sums. */
#include "../support/small.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(contract_in_place, .timeout = 120);

enum { N = 3, ROOT = 1, UNTOUCHED = -77 };

/* What clients leave in a buffer description that has no meaning. */
typedef enum junk { JUNK_ZEROS, JUNK_GARBAGE, JUNK_MPI_IN_PLACE, JUNK_EXTREME, JUNKS } junk_t;

static void set_junk(ucc_coll_buffer_info_t *info, junk_t junk) {
    memset(info, junk == JUNK_GARBAGE ? 0xA5 : 0, sizeof(*info));
    if (junk == JUNK_MPI_IN_PLACE) {
        *info = small_info((void *)(intptr_t)-1, 2);
    } else if (junk == JUNK_EXTREME) {
        *info = (ucc_coll_buffer_info_t){.buffer = (void *)(intptr_t)-1,
                                         .count = SIZE_MAX,
                                         .datatype = (ucc_datatype_t)-1,
                                         .mem_type = UCC_MEMORY_TYPE_UNKNOWN};
    }
}

static ucc_coll_args_t in_place_args(ucc_coll_type_t type, junk_t src) {
    ucc_coll_args_t args = small_args(type);
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
    args.op = UCC_OP_SUM;
    args.root = ROOT;
    set_junk(&args.src.info, src);
    return args;
}

static void run(ucc_coll_args_t *args, const char *name) {
    world_t *world = small_world(N);
    small_run(world, args, name);
    world_destroy(world);
}

Test(contract_in_place, allgather_own_block_already_in_dst) {
    int32_t dst[N][6];
    ucc_coll_args_t args[N];
    memset(dst, 0, sizeof(dst));
    for (int i = 0; i < N; i++) {
        dst[i][2 * i] = 10 * i;
        dst[i][2 * i + 1] = 10 * i + 1;
        args[i] = in_place_args(UCC_COLL_TYPE_ALLGATHER, JUNK_GARBAGE);
        args[i].dst.info = small_info(dst[i], 6);
    }
    run(args, "allgather in place");
    for (int i = 0; i < N; i++) {
        cr_assert_arr_eq(dst[i], ((int32_t[]){0, 1, 10, 11, 20, 21}), sizeof(dst[i]));
    }
}

static void gather_in_place(bool flag_on_all, junk_t root_src, junk_t others_dst) {
    int32_t src[N][2], dst[6] = {-1, -1, 10, 11, -1, -1};
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        src[i][0] = 10 * i;
        src[i][1] = 10 * i + 1;
        args[i] = in_place_args(UCC_COLL_TYPE_GATHER, root_src);
        if (i == ROOT) {
            args[i].dst.info = small_info(dst, 6);
        } else {
            args[i].src.info = small_info(src[i], 2);
            set_junk(&args[i].dst.info, others_dst);
            args[i].mask = flag_on_all ? args[i].mask : 0;
        }
    }
    run(args, "gather in place");
    cr_assert_arr_eq(dst, ((int32_t[]){0, 1, 10, 11, 20, 21}), sizeof(dst));
}

Test(contract_in_place, gather_own_block_already_in_dst) {
    gather_in_place(false, JUNK_GARBAGE, JUNK_GARBAGE);
}

Test(contract_in_place, gather_flag_on_roots_only_or_on_all) {
    gather_in_place(false, JUNK_ZEROS, JUNK_ZEROS);
    gather_in_place(true, JUNK_ZEROS, JUNK_ZEROS);
}

Test(contract_in_place, gather_src_of_root_and_dst_of_others_is_any_garbage) {
    for (junk_t junk = 0; junk < JUNKS; junk++) {
        gather_in_place(false, junk, junk);
        gather_in_place(true, junk, junk);
    }
}

static void reduce_in_place(bool flag_on_all, junk_t root_src, junk_t others_dst) {
    int32_t src[N][2] = {{1, 2}, {0, 0}, {100, 200}}, dst[2] = {10, 20};
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        args[i] = in_place_args(UCC_COLL_TYPE_REDUCE, root_src);
        if (i == ROOT) {
            args[i].dst.info = small_info(dst, 2);
        } else {
            args[i].src.info = small_info(src[i], 2);
            set_junk(&args[i].dst.info, others_dst);
            args[i].mask = flag_on_all ? args[i].mask : 0;
        }
    }
    run(args, "reduce in place");
    cr_assert_arr_eq(dst, ((int32_t[]){111, 222}), sizeof(dst));
    cr_assert_arr_eq(src[2], ((int32_t[]){100, 200}), sizeof(src[2]));
}

Test(contract_in_place, reduce_flag_on_roots_only_or_on_all) {
    reduce_in_place(false, JUNK_ZEROS, JUNK_ZEROS);
    reduce_in_place(true, JUNK_ZEROS, JUNK_ZEROS);
}

Test(contract_in_place, reduce_src_of_root_and_dst_of_others_is_any_garbage) {
    for (junk_t junk = 0; junk < JUNKS; junk++) {
        reduce_in_place(false, junk, junk);
        reduce_in_place(true, junk, junk);
    }
}

static void scatter_in_place(bool flag_on_all, junk_t root_dst, junk_t others_src) {
    int32_t src[6] = {0, 1, 10, 11, 20, 21}, dst[N][2];
    ucc_coll_args_t args[N];
    memset(dst, 0x7F, sizeof(dst));
    for (int i = 0; i < N; i++) {
        args[i] = in_place_args(UCC_COLL_TYPE_SCATTER, others_src);
        if (i == ROOT) {
            args[i].src.info = small_info(src, 6);
            set_junk(&args[i].dst.info, root_dst);
        } else {
            args[i].dst.info = small_info(dst[i], 2);
            args[i].mask = flag_on_all ? args[i].mask : 0;
        }
    }
    run(args, "scatter in place");
    cr_assert_arr_eq(dst[0], ((int32_t[]){0, 1}), sizeof(dst[0]));
    cr_assert_arr_eq(dst[2], ((int32_t[]){20, 21}), sizeof(dst[2]));
    cr_assert_arr_eq(src, ((int32_t[]){0, 1, 10, 11, 20, 21}), sizeof(src));
}

Test(contract_in_place, scatter_src_of_others_and_dst_of_root_is_any_garbage) {
    for (junk_t junk = 0; junk < JUNKS; junk++) {
        scatter_in_place(false, junk, junk);
        scatter_in_place(true, junk, junk);
    }
}

Test(contract_in_place, non_root_dst_of_gather_and_reduce_is_insignificant) {
    static const ucc_coll_type_t types[] = {UCC_COLL_TYPE_GATHER, UCC_COLL_TYPE_REDUCE};
    for (size_t t = 0; t < 2; t++) {
        for (junk_t junk = 0; junk < JUNKS; junk++) {
            int32_t src[N][2] = {{1, 2}, {10, 20}, {100, 200}}, dst[6];
            bool gather = types[t] == UCC_COLL_TYPE_GATHER;
            ucc_coll_args_t args[N];
            for (int i = 0; i < N; i++) {
                args[i] = in_place_args(types[t], JUNK_ZEROS);
                args[i].mask = 0;
                args[i].src.info = small_info(src[i], 2);
                set_junk(&args[i].dst.info, junk);
            }
            args[ROOT].dst.info = small_info(dst, gather ? 6 : 2);
            run(args, "non-root dst is junk");
            cr_assert_eq(dst[0], gather ? 1 : 111);
            cr_assert_eq(dst[1], gather ? 2 : 222);
        }
    }
}

Test(contract_in_place, allreduce_src_is_any_garbage) {
    for (junk_t junk = 0; junk < JUNKS; junk++) {
        int32_t dst[N][2] = {{1, 2}, {10, 20}, {100, 200}};
        ucc_coll_args_t args[N];
        for (int i = 0; i < N; i++) {
            args[i] = in_place_args(UCC_COLL_TYPE_ALLREDUCE, junk);
            args[i].dst.info = small_info(dst[i], 2);
        }
        run(args, "allreduce in place");
        for (int i = 0; i < N; i++) {
            cr_assert_arr_eq(dst[i], ((int32_t[]){111, 222}), sizeof(dst[i]));
        }
    }
}

Test(contract_in_place, alltoall_src_is_any_garbage) {
    for (junk_t junk = 0; junk < JUNKS; junk++) {
        int32_t dst[N][3] = {{0, 1, 2}, {10, 11, 12}, {20, 21, 22}};
        ucc_coll_args_t args[N];
        for (int i = 0; i < N; i++) {
            args[i] = in_place_args(UCC_COLL_TYPE_ALLTOALL, junk);
            args[i].dst.info = small_info(dst[i], 3);
        }
        run(args, "alltoall in place");
        for (int32_t i = 0; i < N; i++) {
            cr_assert_arr_eq(dst[i], ((int32_t[]){i, 10 + i, 20 + i}), sizeof(dst[i]));
        }
    }
}

/* "dst.count is the total, my result lies at offset rank * total / n inside dst" */
Test(contract_in_place, reduce_scatter_result_at_rank_offset) {
    for (junk_t junk = 0; junk < JUNKS; junk++) {
        int32_t dst[N][6];
        ucc_coll_args_t args[N];
        for (int i = 0; i < N; i++) {
            for (int e = 0; e < 6; e++) {
                dst[i][e] = 100 * i + e;
            }
            args[i] = in_place_args(UCC_COLL_TYPE_REDUCE_SCATTER, junk);
            args[i].dst.info = small_info(dst[i], 6);
        }
        run(args, "reduce_scatter in place");
        for (int i = 0; i < N; i++) {
            cr_assert_eq(dst[i][2 * i], 300 + 6 * i);
            cr_assert_eq(dst[i][2 * i + 1], 303 + 6 * i);
        }
    }
}

/* "reduce_scatterv at the sum of the counts before mine" */
Test(contract_in_place, reduce_scatterv_result_at_sum_of_counts_before_mine) {
    uint32_t counts[N] = {1, 2, 3};
    int32_t dst[N][6];
    ucc_coll_args_t args[N];
    for (int i = 0; i < N; i++) {
        for (int e = 0; e < 6; e++) {
            dst[i][e] = 100 * i + e;
        }
        args[i] = in_place_args(UCC_COLL_TYPE_REDUCE_SCATTERV, JUNK_EXTREME);
        args[i].dst.info_v = small_info_v(dst[i], counts, NULL);
    }
    run(args, "reduce_scatterv in place");
    cr_assert_eq(dst[0][0], 300);
    cr_assert_arr_eq(&dst[1][1], ((int32_t[]){303, 306}), 8);
    cr_assert_arr_eq(&dst[2][3], ((int32_t[]){309, 312, 315}), 12);
}

Test(contract_in_place, flag_is_ignored_where_it_has_no_meaning) {
    static const ucc_coll_type_t types[] = {UCC_COLL_TYPE_BARRIER, UCC_COLL_TYPE_FANIN,
                                            UCC_COLL_TYPE_FANOUT, UCC_COLL_TYPE_BCAST};
    for (size_t t = 0; t < 4; t++) {
        int32_t buffer[N] = {1, 10, 100};
        ucc_coll_args_t args[N];
        for (int i = 0; i < N; i++) {
            args[i] = in_place_args(types[t], JUNK_GARBAGE);
            if (types[t] == UCC_COLL_TYPE_BCAST) {
                args[i].src.info = small_info(&buffer[i], 1);
            }
        }
        run(args, "in-place flag without a meaning");
        cr_assert_eq(buffer[0], types[t] == UCC_COLL_TYPE_BCAST ? 10 : 1);
    }
}
