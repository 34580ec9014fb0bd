/* list.h: all kernels, by groups that are compiled by themselves.
 *
 * X(name): lanes_<name> in lanes.h; the kernels are hd_reduce_<name> and hd_scan_<name>, and for
 * those of HD_FEW also hd_reduce_<name>_2, _4 and _8. Averages have no scans. hd_move_<name> is
 * hd_body_<name> in move.h, and hd_word stands alone.
 */
#ifndef HD_GPU_KERNEL_LIST_H
#define HD_GPU_KERNEL_LIST_H

#define HD_LIST_UNSIGNED(X, _s)                                                                    \
    X(sum_##_s)                                                                                    \
    X(prod_##_s)                                                                                   \
    X(max_##_s)                                                                                    \
    X(min_##_s)                                                                                    \
    X(land_##_s)                                                                                   \
    X(lor_##_s)                                                                                    \
    X(lxor_##_s)                                                                                   \
    X(band_##_s)                                                                                   \
    X(bor_##_s)                                                                                    \
    X(bxor_##_s)

#define HD_LIST_ORDERED(X, _s)                                                                     \
    X(max_##_s)                                                                                    \
    X(min_##_s)

#define HD_LIST_FLOAT(X, _s)                                                                       \
    X(sum_##_s)                                                                                    \
    X(prod_##_s)                                                                                   \
    X(max_##_s)                                                                                    \
    X(min_##_s)

#define HD_LIST_INTEGERS(X)                                                                        \
    HD_LIST_UNSIGNED(X, u32)                                                                       \
    HD_LIST_UNSIGNED(X, u64)                                                                       \
    HD_LIST_UNSIGNED(X, u128)                                                                      \
    HD_LIST_ORDERED(X, i32)                                                                        \
    HD_LIST_ORDERED(X, i64)                                                                        \
    HD_LIST_ORDERED(X, i128)
#define HD_LIST_INTEGERS_AVG(X) X(avg_u32) X(avg_u64) X(avg_i32) X(avg_i64)
#define HD_LIST_INTEGERS_FEW(X) X(sum_u32) X(sum_u64)

#define HD_LIST_SMALL(X)                                                                           \
    HD_LIST_UNSIGNED(X, u8)                                                                        \
    HD_LIST_UNSIGNED(X, u16)                                                                       \
    HD_LIST_ORDERED(X, i8)                                                                         \
    HD_LIST_ORDERED(X, i16)
#define HD_LIST_SMALL_AVG(X) X(avg_u8) X(avg_u16) X(avg_i8) X(avg_i16)
#define HD_LIST_SMALL_FEW(X)

#define HD_LIST_FLOATS(X)                                                                          \
    HD_LIST_FLOAT(X, f32)                                                                          \
    HD_LIST_FLOAT(X, f64)                                                                          \
    X(prod_c32)                                                                                    \
    X(prod_c64)
#define HD_LIST_FLOATS_AVG(X) X(avg_f32) X(avg_f64)
#define HD_LIST_FLOATS_FEW(X) X(sum_f32) X(sum_f64)

#define HD_LIST_HALVES(X)                                                                          \
    HD_LIST_FLOAT(X, f16)                                                                          \
    HD_LIST_FLOAT(X, bf16)
#define HD_LIST_HALVES_AVG(X) X(avg_f16) X(avg_bf16)
#define HD_LIST_HALVES_FEW(X) X(sum_f16) X(sum_bf16)

#define HD_LIST_LOC(X, _name)                                                                      \
    X(maxloc_##_name)                                                                              \
    X(minloc_##_name)
#define HD_LIST_PAIRS(X)                                                                           \
    HD_LIST_LOC(X, float32_int32)                                                                  \
    HD_LIST_LOC(X, float64_int32)                                                                  \
    HD_LIST_LOC(X, int16_int32)                                                                    \
    HD_LIST_LOC(X, int32_int32)                                                                    \
    HD_LIST_LOC(X, int64_int32)                                                                    \
    HD_LIST_LOC(X, float32_int64)                                                                  \
    HD_LIST_LOC(X, float64_int64)                                                                  \
    HD_LIST_LOC(X, int64_int64)
#define HD_LIST_PAIRS_AVG(X)
#define HD_LIST_PAIRS_FEW(X)

/* Those of all groups. */
#define HD_LIST_REDUCTIONS(X)                                                                      \
    HD_LIST_FLOATS(X)                                                                              \
    HD_LIST_FLOATS_AVG(X)                                                                          \
    HD_LIST_HALVES(X)                                                                              \
    HD_LIST_HALVES_AVG(X)                                                                          \
    HD_LIST_INTEGERS(X)                                                                            \
    HD_LIST_INTEGERS_AVG(X)                                                                        \
    HD_LIST_SMALL(X)                                                                               \
    HD_LIST_SMALL_AVG(X)                                                                           \
    HD_LIST_PAIRS(X)                                                                               \
    HD_LIST_PAIRS_AVG(X)
#define HD_LIST_SCANS(X)                                                                           \
    HD_LIST_FLOATS(X)                                                                              \
    HD_LIST_HALVES(X)                                                                              \
    HD_LIST_INTEGERS(X)                                                                            \
    HD_LIST_SMALL(X)                                                                               \
    HD_LIST_PAIRS(X)
#define HD_LIST_FEW(X)                                                                             \
    HD_LIST_FLOATS_FEW(X)                                                                          \
    HD_LIST_HALVES_FEW(X)                                                                          \
    HD_LIST_INTEGERS_FEW(X)                                                                        \
    HD_LIST_SMALL_FEW(X)                                                                           \
    HD_LIST_PAIRS_FEW(X)

#define HD_LIST_MOVES(X) X(spread) X(pairs) X(swaps) X(rows)

#endif
