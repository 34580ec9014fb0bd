/* test_contract_reductions.c: which reductions there are, and what clients learn of those that
 * there are not: they fall back to code of their own on UCC_ERR_NOT_SUPPORTED only. */
#include "../support/small.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(contract_reductions, .timeout = 120);

enum { N = 3, ROOT = 2 };

/* Value e of endpoint i, of both signs, whose sums are no multiples of N and stay below 127. */
static int value(int i, int e) {
    return (i + 1) * (e % 2 ? -7 : 9) + e;
}

#define CHECK_AVERAGE(_dt, _type)                                                                  \
    do {                                                                                           \
        _type src[N][4], dst[N][4];                                                                \
        ucc_coll_args_t args[N];                                                                   \
        for (int i = 0; i < N; i++) {                                                              \
            for (int e = 0; e < 4; e++) {                                                          \
                src[i][e] = (_type)value(i, e);                                                    \
            }                                                                                      \
            args[i] = small_args(type);                                                            \
            args[i].op = UCC_OP_AVG;                                                               \
            args[i].root = ROOT;                                                                   \
            args[i].src.info = small_info(src[i], 4);                                              \
            args[i].dst.info = small_info(dst[i], 4);                                              \
            args[i].src.info.datatype = args[i].dst.info.datatype = (_dt);                         \
        }                                                                                          \
        small_run(world, args, #_dt);                                                              \
        for (int e = 0; e < 4; e++) {                                                              \
            _type sum = (_type)(src[0][e] + src[1][e] + src[2][e]);                                \
            /* as released UCC computes it */                                                      \
            cr_assert_eq(dst[ROOT][e], (_type)((double)sum * (1.0 / N)), "%s, %d", #_dt, e);       \
        }                                                                                          \
    } while (0)

static void check_averages(ucc_coll_type_t type) {
    world_t *world = small_world(N);
    CHECK_AVERAGE(UCC_DT_INT8, int8_t);
    CHECK_AVERAGE(UCC_DT_INT16, int16_t);
    CHECK_AVERAGE(UCC_DT_INT32, int32_t);
    CHECK_AVERAGE(UCC_DT_INT64, int64_t);
    CHECK_AVERAGE(UCC_DT_UINT8, uint8_t);
    CHECK_AVERAGE(UCC_DT_UINT16, uint16_t);
    CHECK_AVERAGE(UCC_DT_UINT32, uint32_t);
    world_destroy(world);
}

Test(contract_reductions, averages_of_integers_are_truncated_in_allreduce) {
    check_averages(UCC_COLL_TYPE_ALLREDUCE);
}

Test(contract_reductions, averages_of_integers_are_truncated_in_reduce) {
    check_averages(UCC_COLL_TYPE_REDUCE);
}

/* What released UCC's host reductions know: rows of datatypes, sets of operations. */
static bool ucc_knows(ucc_datatype_t dt, ucc_reduction_op_t op) {
    bool sums = op == UCC_OP_SUM || op == UCC_OP_PROD || op == UCC_OP_AVG;
    if (op == UCC_OP_MAXLOC || op == UCC_OP_MINLOC) {
        return false;
    }
    switch (dt) {
    case UCC_DT_FLOAT32_COMPLEX:
    case UCC_DT_FLOAT64_COMPLEX:
    case UCC_DT_FLOAT128_COMPLEX:
        return sums;
    case UCC_DT_BFLOAT16:
    case UCC_DT_FLOAT32:
    case UCC_DT_FLOAT64:
    case UCC_DT_FLOAT128:
        return sums || op == UCC_OP_MAX || op == UCC_OP_MIN;
    case UCC_DT_INT128:
    case UCC_DT_UINT128:
    case UCC_DT_FLOAT16:
        return false;
    default:
        return true;
    }
}

Test(contract_reductions, there_is_what_ucc_has_and_the_rest_is_there_or_not_supported) {
    world_t *world = small_world(N);
    uint64_t buffer[8] = {0};
    for (uint64_t number = 0; number < UCC_DT_PREDEFINED_LAST; number++) {
        for (int op = 0; op < UCC_OP_LAST; op++) {
            ucc_datatype_t dt = UCC_PREDEFINED_DT(number);
            ucc_coll_args_t args = small_allreduce(NULL, NULL, 1);
            ucc_coll_req_h request;
            args.op = (ucc_reduction_op_t)op;
            args.src.info.buffer = args.dst.info.buffer = buffer;
            args.src.info.datatype = args.dst.info.datatype = dt;
            ucc_status_t status = ucc_collective_init(&args, &request, world->teams[0]);
            if (ucc_knows(dt, args.op) || status == UCC_OK) {
                cr_assert_eq(status, UCC_OK, "datatype %d, op %d", (int)number, op);
                cr_assert_eq(ucc_collective_finalize(request), UCC_OK);
            } else {
                cr_assert_eq(status, UCC_ERR_NOT_SUPPORTED, "datatype %d, op %d", (int)number, op);
            }
        }
    }
    world_destroy(world);
}
