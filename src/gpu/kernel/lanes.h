/* lanes.h: what a reduction does to one vector: core's scalar functions on each of its lanes.
 *
 * For every pair of type and operation: open (a vector becomes accumulators), fold (accumulators
 * and a vector are combined), close (accumulators become a vector; n is AVG's divisor at the root
 * of the tree, and 0 below it). What is in lanes beyond an element is computed as well, or not, and
 * never stored. All rules are core/reduce.h's.
 */
#ifndef HD_GPU_KERNEL_LANES_H
#define HD_GPU_KERNEL_LANES_H

#include "gpu/kernel/access.h"

/* Accumulators: those of float16 are twice as wide as its elements. */
typedef struct hd_accumulators {
    uint32_t w[2 * HD_GPU_VECTOR / 4];
} hd_accumulators_t;

typedef struct hd_lanes {
    hd_accumulators_t (*open)(hd_words_t v);
    hd_accumulators_t (*fold)(hd_accumulators_t a, hd_words_t v);
    hd_words_t (*close)(hd_accumulators_t a, uint32_t n);
    uint32_t size; /* bytes of an element */
    uint32_t unit; /* its natural alignment */
} hd_lanes_t;

/* Defines the lanes _name: elements of type _elem, accumulators of type _acc. _finish(a, n) makes
 * an element. */
#define HD_LANES(_name, _elem, _acc, _align, _load, _combine, _finish)                             \
    enum {                                                                                         \
        _name##_size = sizeof(_elem),                                                              \
        _name##_unit = _align,                                                                     \
        _name##_lanes = HD_GPU_VECTOR / sizeof(_elem)                                              \
    };                                                                                             \
    HD_BODY hd_accumulators_t _name##_open(hd_words_t v) {                                         \
        hd_accumulators_t opened = {{0}};                                                          \
        _elem e[_name##_lanes];                                                                    \
        _acc a[_name##_lanes];                                                                     \
        memcpy(e, &v, sizeof(v));                                                                  \
        HD_UNROLL                                                                                  \
        for (int i = 0; i < _name##_lanes; i++) {                                                  \
            a[i] = _load(e[i]);                                                                    \
        }                                                                                          \
        memcpy(&opened, a, sizeof(a));                                                             \
        return opened;                                                                             \
    }                                                                                              \
    HD_BODY hd_accumulators_t _name##_fold(hd_accumulators_t folded, hd_words_t v) {               \
        _elem e[_name##_lanes];                                                                    \
        _acc a[_name##_lanes];                                                                     \
        memcpy(e, &v, sizeof(v));                                                                  \
        memcpy(a, &folded, sizeof(a));                                                             \
        HD_UNROLL                                                                                  \
        for (int i = 0; i < _name##_lanes; i++) {                                                  \
            a[i] = _combine(a[i], _load(e[i]));                                                    \
        }                                                                                          \
        memcpy(&folded, a, sizeof(a));                                                             \
        return folded;                                                                             \
    }                                                                                              \
    HD_BODY hd_words_t _name##_close(hd_accumulators_t closed, uint32_t n) {                       \
        hd_words_t v;                                                                              \
        _elem e[_name##_lanes];                                                                    \
        _acc a[_name##_lanes];                                                                     \
        (void)n;                                                                                   \
        memcpy(a, &closed, sizeof(a));                                                             \
        HD_UNROLL                                                                                  \
        for (int i = 0; i < _name##_lanes; i++) {                                                  \
            e[i] = _finish(a[i], n);                                                               \
        }                                                                                          \
        memcpy(&v, e, sizeof(v));                                                                  \
        return v;                                                                                  \
    }

#define HD_LANES_OF(_name)                                                                         \
    { _name##_open, _name##_fold, _name##_close, _name##_size, _name##_unit }

/* ---- integers ---- */

#define HD_BAND(a, b) ((a) & (b))
#define HD_BOR(a, b)  ((a) | (b))
#define HD_BXOR(a, b) ((a) ^ (b))

typedef hd_uint128 hd_u128 __attribute__((may_alias, aligned(1)));
typedef hd_int128 hd_i128 __attribute__((may_alias, aligned(1)));

#define HD_UNSIGNED_LANES(_s, _type, _bytes)                                                       \
    HD_LANES(lanes_sum_##_s, hd_##_s, _type, _bytes, HD_SAME, sum_##_s, HD_SAME_AT)                \
    HD_LANES(lanes_prod_##_s, hd_##_s, _type, _bytes, HD_SAME, prod_##_s, HD_SAME_AT)              \
    HD_LANES(lanes_land_##_s, hd_##_s, _type, _bytes, HD_SAME, land_##_s, HD_SAME_AT)              \
    HD_LANES(lanes_lor_##_s, hd_##_s, _type, _bytes, HD_SAME, lor_##_s, HD_SAME_AT)                \
    HD_LANES(lanes_lxor_##_s, hd_##_s, _type, _bytes, HD_SAME, lxor_##_s, HD_SAME_AT)              \
    HD_LANES(lanes_band_##_s, hd_##_s, _type, _bytes, HD_SAME, (_type)HD_BAND, HD_SAME_AT)         \
    HD_LANES(lanes_bor_##_s, hd_##_s, _type, _bytes, HD_SAME, (_type)HD_BOR, HD_SAME_AT)           \
    HD_LANES(lanes_bxor_##_s, hd_##_s, _type, _bytes, HD_SAME, (_type)HD_BXOR, HD_SAME_AT)
HD_UNSIGNED_LANES(u8, uint8_t, 1)
HD_UNSIGNED_LANES(u16, uint16_t, 2)
HD_UNSIGNED_LANES(u32, uint32_t, 4)
HD_UNSIGNED_LANES(u64, uint64_t, 8)
HD_UNSIGNED_LANES(u128, hd_uint128, 8)

#define HD_ORDERED_LANES(_s, _type, _bytes)                                                        \
    HD_LANES(lanes_max_##_s, hd_##_s, _type, _bytes, HD_SAME, max_##_s, HD_SAME_AT)                \
    HD_LANES(lanes_min_##_s, hd_##_s, _type, _bytes, HD_SAME, min_##_s, HD_SAME_AT)
HD_ORDERED_LANES(u8, uint8_t, 1)
HD_ORDERED_LANES(u16, uint16_t, 2)
HD_ORDERED_LANES(u32, uint32_t, 4)
HD_ORDERED_LANES(u64, uint64_t, 8)
HD_ORDERED_LANES(u128, hd_uint128, 8)
HD_ORDERED_LANES(i8, int8_t, 1)
HD_ORDERED_LANES(i16, int16_t, 2)
HD_ORDERED_LANES(i32, int32_t, 4)
HD_ORDERED_LANES(i64, int64_t, 8)
HD_ORDERED_LANES(i128, hd_int128, 8)

#define HD_QUOTIENT_U8(x, _n)  ((_n) ? HD_AVG_U8(x, _n) : (x))
#define HD_QUOTIENT_U16(x, _n) ((_n) ? HD_AVG_U16(x, _n) : (x))
#define HD_QUOTIENT_U32(x, _n) ((_n) ? HD_AVG_U32(x, _n) : (x))
#define HD_QUOTIENT_U64(x, _n) ((_n) ? HD_AVG_U64(x, _n) : (x))
#define HD_QUOTIENT_I8(x, _n)  ((_n) ? HD_AVG_I8(x, _n) : (x))
#define HD_QUOTIENT_I16(x, _n) ((_n) ? HD_AVG_I16(x, _n) : (x))
#define HD_QUOTIENT_I32(x, _n) ((_n) ? HD_AVG_I32(x, _n) : (x))
#define HD_QUOTIENT_I64(x, _n) ((_n) ? HD_AVG_I64(x, _n) : (x))

HD_LANES(lanes_avg_u8, hd_u8, uint8_t, 1, HD_SAME, sum_u8, HD_QUOTIENT_U8)
HD_LANES(lanes_avg_u16, hd_u16, uint16_t, 2, HD_SAME, sum_u16, HD_QUOTIENT_U16)
HD_LANES(lanes_avg_u32, hd_u32, uint32_t, 4, HD_SAME, sum_u32, HD_QUOTIENT_U32)
HD_LANES(lanes_avg_u64, hd_u64, uint64_t, 8, HD_SAME, sum_u64, HD_QUOTIENT_U64)
HD_LANES(lanes_avg_i8, hd_u8, uint8_t, 1, HD_SAME, sum_u8, HD_QUOTIENT_I8)
HD_LANES(lanes_avg_i16, hd_u16, uint16_t, 2, HD_SAME, sum_u16, HD_QUOTIENT_I16)
HD_LANES(lanes_avg_i32, hd_u32, uint32_t, 4, HD_SAME, sum_u32, HD_QUOTIENT_I32)
HD_LANES(lanes_avg_i64, hd_u64, uint64_t, 8, HD_SAME, sum_u64, HD_QUOTIENT_I64)

/* ---- floats ---- */

#define HD_QUOTIENT_F32(x, _n) ((_n) ? HD_AVG_F32(x, _n) : nan_f32(x))
#define HD_QUOTIENT_F64(x, _n) ((_n) ? HD_AVG_F64(x, _n) : nan_f64(x))

HD_LANES(lanes_sum_f32, hd_f32, float, 4, HD_SAME, sum_f32, HD_NAN_F32)
HD_LANES(lanes_avg_f32, hd_f32, float, 4, HD_SAME, sum_f32, HD_QUOTIENT_F32)
HD_LANES(lanes_prod_f32, hd_f32, float, 4, HD_SAME, prod_f32, HD_NAN_F32)
HD_LANES(lanes_prod_c32, hd_c32, hd_c32, 4, HD_SAME, prod_c32, HD_NAN_C32)
HD_LANES(lanes_sum_f64, hd_f64, double, 8, HD_SAME, sum_f64, HD_NAN_F64)
HD_LANES(lanes_avg_f64, hd_f64, double, 8, HD_SAME, sum_f64, HD_QUOTIENT_F64)
HD_LANES(lanes_prod_f64, hd_f64, double, 8, HD_SAME, prod_f64, HD_NAN_F64)
HD_LANES(lanes_prod_c64, hd_c64, hd_c64, 8, HD_SAME, prod_c64, HD_NAN_C64)

/* The device has instructions that convert as core's functions do, but for the payload of a NaN, of
 * which nothing is left in the end. Core's take as long as memory does. */
#if defined(__CUDA_ARCH__)
HD_BODY float widen_half(uint16_t h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
HD_BODY uint16_t narrow_half(float x) {
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return x == x ? h : (uint16_t)0x7e00;
}
#else
HD_BODY float widen_half(uint16_t h) {
    return widen_f16(h);
}
HD_BODY uint16_t narrow_half(float x) {
    return narrow_f16(x);
}
#endif

#define HD_NARROW_F16(x, _n)    narrow_half(x)
#define HD_QUOTIENT_F16(x, _n)  narrow_half((_n) ? (x) / (float)(_n) : (x))
#define HD_QUOTIENT_BF16(x, _n) narrow_bf16((_n) ? (x) / (float)(_n) : (x))

HD_LANES(lanes_sum_f16, hd_u16, float, 2, widen_half, sum_f32, HD_NARROW_F16)
HD_LANES(lanes_avg_f16, hd_u16, float, 2, widen_half, sum_f32, HD_QUOTIENT_F16)
HD_LANES(lanes_prod_f16, hd_u16, float, 2, widen_half, prod_f32, HD_NARROW_F16)
HD_LANES(lanes_sum_bf16, hd_u16, float, 2, widen_bf16, sum_f32, HD_NARROW_BF16)
HD_LANES(lanes_avg_bf16, hd_u16, float, 2, widen_bf16, sum_f32, HD_QUOTIENT_BF16)
HD_LANES(lanes_prod_bf16, hd_u16, float, 2, widen_bf16, prod_f32, HD_NARROW_BF16)

#define HD_KEY_LANES(_s, _bits, _key, _infinity, _nan)                                             \
    typedef _bits hd_lane_bits_##_s __attribute__((may_alias, aligned(1)));                        \
    HD_LANES(lanes_max_##_s, hd_lane_bits_##_s, _key, sizeof(_bits), max_load_##_s, max_keys_##_s, \
             max_finish_##_s)                                                                      \
    HD_LANES(lanes_min_##_s, hd_lane_bits_##_s, _key, sizeof(_bits), min_load_##_s, min_keys_##_s, \
             min_finish_##_s)
HD_KEY_TYPES(HD_KEY_LANES)

/* ---- pairs ---- */

/* As they lie in memory, so that padding goes with the winner. */
typedef uint64_t hd_pair8 __attribute__((may_alias, aligned(1)));
typedef struct {
    uint64_t lo, hi;
} __attribute__((packed, may_alias)) hd_pair16;

HD_BODY float pair_f32(uint64_t word) {
    return float_of_bits((uint32_t)word);
}
HD_BODY double pair_f64(uint64_t word) {
    double x;
    memcpy(&x, &word, sizeof(x));
    return x;
}

#define HD_VALUE_F32_8(p)  pair_f32(p)
#define HD_VALUE_I16_8(p)  ((int16_t)(p))
#define HD_VALUE_I32_8(p)  ((int32_t)(p))
#define HD_VALUE_F32_16(p) pair_f32((p).lo)
#define HD_VALUE_F64_16(p) pair_f64((p).lo)
#define HD_VALUE_I64_16(p) ((int64_t)(p).lo)
#define HD_INDEX_I32_8(p)  ((int32_t)((p) >> 32))
#define HD_INDEX_I32_16(p) ((int32_t)(p).hi)
#define HD_INDEX_I64_16(p) ((int64_t)(p).hi)

#define HD_IS_NAN(x)    ((x) != (x))
#define HD_IS_NO_NAN(x) 0

/* _sign: '>' or '<'; as in core/reduce_wide.c. */
#define HD_PAIR_LANES(_name, _pair, _unit, _value, _index, _sign, _is_nan)                         \
    HD_BODY _pair better_##_name(_pair a, _pair b) {                                               \
        bool replaces;                                                                             \
        if (_is_nan(_value(a)) != _is_nan(_value(b))) {                                            \
            replaces = _is_nan(_value(b));                                                         \
        } else if (_value(b) _sign _value(a)) {                                                    \
            replaces = true;                                                                       \
        } else {                                                                                   \
            replaces = !(_value(a) _sign _value(b)) && _index(b) < _index(a);                      \
        }                                                                                          \
        return replaces ? b : a;                                                                   \
    }                                                                                              \
    HD_LANES(lanes_##_name, _pair, _pair, _unit, HD_SAME, better_##_name, HD_SAME_AT)

#define HD_PAIRS(X)                                                                                \
    X(float32_int32, hd_pair8, 4, HD_VALUE_F32_8, HD_INDEX_I32_8, HD_IS_NAN)                       \
    X(float64_int32, hd_pair16, 8, HD_VALUE_F64_16, HD_INDEX_I32_16, HD_IS_NAN)                    \
    X(int16_int32, hd_pair8, 4, HD_VALUE_I16_8, HD_INDEX_I32_8, HD_IS_NO_NAN)                      \
    X(int32_int32, hd_pair8, 4, HD_VALUE_I32_8, HD_INDEX_I32_8, HD_IS_NO_NAN)                      \
    X(int64_int32, hd_pair16, 8, HD_VALUE_I64_16, HD_INDEX_I32_16, HD_IS_NO_NAN)                   \
    X(float32_int64, hd_pair16, 8, HD_VALUE_F32_16, HD_INDEX_I64_16, HD_IS_NAN)                    \
    X(float64_int64, hd_pair16, 8, HD_VALUE_F64_16, HD_INDEX_I64_16, HD_IS_NAN)                    \
    X(int64_int64, hd_pair16, 8, HD_VALUE_I64_16, HD_INDEX_I64_16, HD_IS_NO_NAN)

#define HD_PAIR_LANES_OF(_name, _pair, _unit, _value, _index, _is_nan)                             \
    HD_PAIR_LANES(maxloc_##_name, _pair, _unit, _value, _index, >, _is_nan)                        \
    HD_PAIR_LANES(minloc_##_name, _pair, _unit, _value, _index, <, _is_nan)
HD_PAIRS(HD_PAIR_LANES_OF)

#endif
