/*
 * What one step does to one scalar: the functions that the vector kernels are made of.
 *
 * For every type: how an element becomes an accumulator, how two are combined, how an accumulator
 * becomes an element. All are free of branches that a compiler could not turn into selects, and all
 * vector widths give the same bits. Included by reduce_vector.h, and by the kernels of devices
 * (gpu/kernel/lanes.h), so it is CUDA's C++ as well. The 128-bit integers are reduce_wide.c's.
 *
 * Sums and products of floats end in nan_*(): which payload a sum of two NaNs carries depends on
 * the order in which the compiler puts the operands into an instruction, so no payload survives.
 *
 * MAX and MIN of floats work on keys: integers in the order of the floats, -0 below +0. A negative
 * float's bits have to be inverted but for the sign; that is its own inverse. All NaNs share one
 * key at the winning end, which no number has.
 */
#ifndef HD_CORE_REDUCE_SCALAR_H
#define HD_CORE_REDUCE_SCALAR_H

#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define HD_INLINE static __device__ __forceinline__
#else
#define HD_INLINE static inline __attribute__((always_inline, unused))
#endif

/* Elements as they lie in users' buffers: at any address, and of any declared type. */
typedef uint8_t hd_u8 __attribute__((may_alias, aligned(1)));
typedef uint16_t hd_u16 __attribute__((may_alias, aligned(1)));
typedef uint32_t hd_u32 __attribute__((may_alias, aligned(1)));
typedef uint64_t hd_u64 __attribute__((may_alias, aligned(1)));
typedef int8_t hd_i8 __attribute__((may_alias, aligned(1)));
typedef int16_t hd_i16 __attribute__((may_alias, aligned(1)));
typedef int32_t hd_i32 __attribute__((may_alias, aligned(1)));
typedef int64_t hd_i64 __attribute__((may_alias, aligned(1)));
typedef float hd_f32 __attribute__((may_alias, aligned(1)));
typedef double hd_f64 __attribute__((may_alias, aligned(1)));

typedef struct {
    float re, im;
} __attribute__((packed, may_alias)) hd_c32;

typedef struct {
    double re, im;
} __attribute__((packed, may_alias)) hd_c64;

typedef unsigned __int128 hd_uint128;
typedef __int128 hd_int128;

#define HD_SAME(x)        (x)
#define HD_SAME_AT(x, _n) (x)

/* ---- integers ---- */

/* Suffix, type, and an unsigned type at least as wide as int: products of promoted 16-bit numbers
 * would overflow an int. */
#define HD_UNSIGNED_TYPES(X)                                                                       \
    X(u8, uint8_t, uint32_t)                                                                       \
    X(u16, uint16_t, uint32_t)                                                                     \
    X(u32, uint32_t, uint32_t)                                                                     \
    X(u64, uint64_t, uint64_t)

#define HD_DEFINE_UNSIGNED(_s, _type, _wide)                                                       \
    HD_INLINE _type sum_##_s(_type a, _type b) {                                                   \
        return (_type)((_wide)a + b);                                                              \
    }                                                                                              \
    HD_INLINE _type prod_##_s(_type a, _type b) {                                                  \
        return (_type)((_wide)a * b);                                                              \
    }                                                                                              \
    HD_INLINE _type land_##_s(_type a, _type b) {                                                  \
        return (_type)((a != 0) & (b != 0));                                                       \
    }                                                                                              \
    HD_INLINE _type lor_##_s(_type a, _type b) {                                                   \
        return (_type)((a | b) != 0);                                                              \
    }                                                                                              \
    HD_INLINE _type lxor_##_s(_type a, _type b) {                                                  \
        return (_type)((a != 0) ^ (b != 0));                                                       \
    }

HD_UNSIGNED_TYPES(HD_DEFINE_UNSIGNED)
HD_DEFINE_UNSIGNED(u128, hd_uint128, hd_uint128)

HD_INLINE uint8_t band_u8(uint8_t a, uint8_t b) {
    return a & b;
}
HD_INLINE uint8_t bor_u8(uint8_t a, uint8_t b) {
    return a | b;
}
HD_INLINE uint8_t bxor_u8(uint8_t a, uint8_t b) {
    return a ^ b;
}

#define HD_ORDERED_TYPES(X)                                                                        \
    X(u8, uint8_t)                                                                                 \
    X(u16, uint16_t)                                                                               \
    X(u32, uint32_t)                                                                               \
    X(u64, uint64_t)                                                                               \
    X(i8, int8_t)                                                                                  \
    X(i16, int16_t)                                                                                \
    X(i32, int32_t)                                                                                \
    X(i64, int64_t)

#define HD_DEFINE_ORDERED(_s, _type)                                                               \
    HD_INLINE _type max_##_s(_type a, _type b) {                                                   \
        return a > b ? a : b;                                                                      \
    }                                                                                              \
    HD_INLINE _type min_##_s(_type a, _type b) {                                                   \
        return a < b ? a : b;                                                                      \
    }

HD_ORDERED_TYPES(HD_DEFINE_ORDERED)
HD_DEFINE_ORDERED(u128, hd_uint128)
HD_DEFINE_ORDERED(i128, hd_int128)

/* The sum wraps; its quotient is truncated toward zero. In double it is exact up to 32 bits: both
 * are below 2^32, so a quotient that is no integer is further from one than double's rounding. */
#define HD_AVG_NARROW(_type, x, _n) ((_type)((double)(_type)(x) / (double)(_n)))
#define HD_AVG_U8(x, _n)            HD_AVG_NARROW(uint8_t, x, _n)
#define HD_AVG_I8(x, _n)            ((uint8_t)HD_AVG_NARROW(int8_t, x, _n))
#define HD_AVG_U16(x, _n)           HD_AVG_NARROW(uint16_t, x, _n)
#define HD_AVG_I16(x, _n)           ((uint16_t)HD_AVG_NARROW(int16_t, x, _n))
#define HD_AVG_U32(x, _n)           HD_AVG_NARROW(uint32_t, x, _n)
#define HD_AVG_I32(x, _n)           ((uint32_t)HD_AVG_NARROW(int32_t, x, _n))
#define HD_AVG_U64(x, _n)           ((x) / (_n))
#define HD_AVG_I64(x, _n)           ((uint64_t)((int64_t)(x) / (int64_t)(_n)))

/* ---- floats: sum, product, average ---- */

HD_INLINE uint32_t bits_f32(float x) {
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

HD_INLINE float float_of_bits(uint32_t bits) {
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

HD_INLINE float sum_f32(float a, float b) {
    return a + b;
}
HD_INLINE float prod_f32(float a, float b) {
    return a * b;
}
HD_INLINE float nan_f32(float a) {
    return a == a ? a : __builtin_nanf("");
}
HD_INLINE double sum_f64(double a, double b) {
    return a + b;
}
HD_INLINE double prod_f64(double a, double b) {
    return a * b;
}
HD_INLINE double nan_f64(double a) {
    return a == a ? a : __builtin_nan("");
}

/* Complex products subtract by adding what these return: gcc 12 turns an alternation of subtraction
 * and addition of products into fused instructions even where -ffp-contract=off forbids it. */
HD_INLINE float negated_f32(float x) {
    return float_of_bits(bits_f32(x) ^ 0x80000000);
}
HD_INLINE double negated_f64(double x) {
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    bits ^= UINT64_C(1) << 63;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

HD_INLINE hd_c32 prod_c32(hd_c32 a, hd_c32 b) {
    hd_c32 c = {a.re * b.re + negated_f32(a.im * b.im), a.re * b.im + a.im * b.re};
    return c;
}
HD_INLINE hd_c32 nan_c32(hd_c32 a) {
    hd_c32 c = {nan_f32(a.re), nan_f32(a.im)};
    return c;
}
HD_INLINE hd_c64 prod_c64(hd_c64 a, hd_c64 b) {
    hd_c64 c = {a.re * b.re + negated_f64(a.im * b.im), a.re * b.im + a.im * b.re};
    return c;
}
HD_INLINE hd_c64 nan_c64(hd_c64 a) {
    hd_c64 c = {nan_f64(a.re), nan_f64(a.im)};
    return c;
}

#define HD_NAN_F32(x, _n) nan_f32(x)
#define HD_NAN_F64(x, _n) nan_f64(x)
#define HD_AVG_F32(x, _n) nan_f32((x) / (float)(_n))
#define HD_AVG_F64(x, _n) nan_f64((x) / (double)(_n))
#define HD_NAN_C32(x, _n) nan_c32(x)
#define HD_NAN_C64(x, _n) nan_c64(x)

/* ---- the 16-bit floats ---- */

HD_INLINE float widen_bf16(uint16_t h) {
    return float_of_bits((uint32_t)h << 16);
}

/* Half a unit of the last place kept is added, a little less where that place is even. */
HD_INLINE uint16_t narrow_bf16(float x) {
    uint32_t bits = bits_f32(x);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;

    return (uint16_t)(x == x ? rounded : 0x7fc0);
}

#define HD_NARROW_BF16(x, _n)     narrow_bf16(x)
#define HD_AVG_NARROW_BF16(x, _n) narrow_bf16((x) / (float)(_n))

/* Subnormals go through an integer, so that no mode that flushes subnormals matters. */
HD_INLINE float widen_f16(uint16_t h) {
    uint32_t magnitude = h & 0x7fffu;
    uint32_t normal = (magnitude << 13) + ((127u - 15u) << 23);
    uint32_t special = normal + ((127u - 15u) << 23); /* exponent 31 becomes 255 */
    uint32_t subnormal = bits_f32((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t bits = magnitude < 0x400 ? subnormal : magnitude < 0x7c00 ? normal : special;

    return float_of_bits(bits | (uint32_t)(h & 0x8000u) << 16);
}

/* Below the normal range, adding 0.5 puts the bits that stay, rounded, into the sum's low end. */
HD_INLINE uint16_t narrow_f16(float x) {
    uint32_t bits = bits_f32(x);
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t subnormal = bits_f32(float_of_bits(magnitude) + 0.5f) - bits_f32(0.5f);
    uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
    uint32_t half = magnitude < 0x47800000 ? finite : 0x7c00; /* 65536 and more */

    return (uint16_t)(magnitude <= 0x7f800000 ? half | (bits >> 16 & 0x8000) : 0x7e00);
}

/* ---- floats: order ---- */

/* Suffix, type of the bits, its signed twin, bits of infinity, bits of the NaN that results. */
#define HD_KEY_TYPES(X)                                                                            \
    X(f16, uint16_t, int16_t, 0x7c00, 0x7e00)                                                      \
    X(bf16, uint16_t, int16_t, 0x7f80, 0x7fc0)                                                     \
    X(f32, uint32_t, int32_t, 0x7f800000, 0x7fc00000)                                              \
    X(f64, uint64_t, int64_t, 0x7ff0000000000000, 0x7ff8000000000000)

/* The key of NaNs is the one that wins. */
#define HD_MAX_KEY(_key) (_key)(((uint64_t)1 << (8 * sizeof(_key) - 1)) - 1)
#define HD_MIN_KEY(_key) (_key)(-HD_MAX_KEY(_key) - 1)

#define HD_DEFINE_KEYS(_s, _bits, _key, _infinity, _nan)                                           \
    HD_INLINE _key flip_##_s(_key key) {                                                           \
        const _bits magnitude_bits = (_bits) ~(_bits)0 >> 1;                                       \
        return (_key)(key ^ (_key)((_bits)(key < 0 ? ~(_bits)0 : 0) & magnitude_bits));            \
    }                                                                                              \
    HD_INLINE _key key_##_s(_bits bits, _key nan_key) {                                            \
        const _bits magnitude_bits = (_bits) ~(_bits)0 >> 1;                                       \
        return (bits & magnitude_bits) > _infinity ? nan_key : flip_##_s((_key)bits);              \
    }                                                                                              \
    HD_INLINE _bits bits_of_key_##_s(_key key, _key nan_key) {                                     \
        return key == nan_key ? (_bits)_nan : (_bits)flip_##_s(key);                               \
    }                                                                                              \
    HD_INLINE _key max_load_##_s(_bits x) {                                                        \
        return key_##_s(x, HD_MAX_KEY(_key));                                                      \
    }                                                                                              \
    HD_INLINE _bits max_finish_##_s(_key x, uint32_t n) {                                          \
        (void)n;                                                                                   \
        return bits_of_key_##_s(x, HD_MAX_KEY(_key));                                              \
    }                                                                                              \
    HD_INLINE _key max_keys_##_s(_key a, _key b) {                                                 \
        return a > b ? a : b;                                                                      \
    }                                                                                              \
    HD_INLINE _key min_load_##_s(_bits x) {                                                        \
        return key_##_s(x, HD_MIN_KEY(_key));                                                      \
    }                                                                                              \
    HD_INLINE _bits min_finish_##_s(_key x, uint32_t n) {                                          \
        (void)n;                                                                                   \
        return bits_of_key_##_s(x, HD_MIN_KEY(_key));                                              \
    }                                                                                              \
    HD_INLINE _key min_keys_##_s(_key a, _key b) {                                                 \
        return a < b ? a : b;                                                                      \
    }

HD_KEY_TYPES(HD_DEFINE_KEYS)

#endif
