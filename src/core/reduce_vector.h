/*
 * The vector kernels, compiled once per vector unit.
 *
 * The including file defines HD_TARGET (the attribute that names the unit), HD_KERNELS (the table
 * to define) and the functions widen_halves and narrow_halves (float16 to float and back, n of
 * them).
 *
 * A kernel reads its k sources in one pass. Two forms: "in registers", a loop made for one k, for
 * the operand counts and operations that matter most; and "in strips", for every k from 3 on: the
 * accumulators of a strip of elements wait in the first cache level while source after source goes
 * by. (One such source is a function of its own: gcc 12 would jam the loop over sources into the
 * loop over elements and then fail to vectorise it.) Both fold every element from left to right, so
 * they give the same bits; and both read all sources of an element before they write it, so the
 * destination may be one of them. Compilers can't know that and have to be told that iterations are
 * independent.
 */
#include "core/reduce_kernels.h"
#include "core/reduce_scalar.h"

#if defined(__clang__)
/* The warning that a loop so marked was not vectorised (complex products, builds without
 * optimization) tells nothing. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define HD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HD_INDEPENDENT _Pragma("GCC ivdep")
#endif

enum { HD_STRIP = 256 /* elements */ };

/* Defines kernel _name: elements of type _elem become accumulators of type _acc by _load, _combine
 * joins two, _finish(accumulator, n) gives the result. _often: make loops for 3, 4 and 8 sources
 * too, not only for 2. */
#define HD_KERNEL(_name, _elem, _acc, _load, _combine, _finish, _often)                            \
    HD_TARGET HD_INLINE void _name##_in_registers(const uint32_t k, const void *const *src,        \
                                                  void *dst, size_t count, uint32_t n) {           \
        const _elem *s0 = src[0], *s1 = src[1];                                                    \
        const _elem *s2 = src[k > 2 ? 2 : 0], *s3 = src[k > 3 ? 3 : 0];                            \
        const _elem *s4 = src[k > 4 ? 4 : 0], *s5 = src[k > 4 ? 5 : 0];                            \
        const _elem *s6 = src[k > 4 ? 6 : 0], *s7 = src[k > 4 ? 7 : 0];                            \
        _elem *d = dst;                                                                            \
        (void)n;                                                                                   \
        HD_INDEPENDENT                                                                             \
        for (size_t i = 0; i < count; i++) {                                                       \
            _acc a = _combine(_load(s0[i]), _load(s1[i]));                                         \
            a = k > 2 ? _combine(a, _load(s2[i])) : a;                                             \
            a = k > 3 ? _combine(a, _load(s3[i])) : a;                                             \
            if (k > 4) { /* 8 */                                                                   \
                a = _combine(_combine(a, _load(s4[i])), _load(s5[i]));                             \
                a = _combine(_combine(a, _load(s6[i])), _load(s7[i]));                             \
            }                                                                                      \
            d[i] = _finish(a, n);                                                                  \
        }                                                                                          \
    }                                                                                              \
    HD_TARGET static __attribute__((noinline)) void _name##_add_strip(                             \
        _acc *restrict a, const _elem *s, size_t part) {                                           \
        for (size_t i = 0; i < part; i++) {                                                        \
            a[i] = _combine(a[i], _load(s[i]));                                                    \
        }                                                                                          \
    }                                                                                              \
    HD_TARGET HD_INLINE void _name##_in_strips(uint32_t k, const void *const *src, void *dst,      \
                                               size_t count, uint32_t n) {                         \
        _acc a[HD_STRIP];                                                                          \
        (void)n;                                                                                   \
        for (size_t done = 0; done < count; done += HD_STRIP) {                                    \
            const size_t part = count - done < HD_STRIP ? count - done : HD_STRIP;                 \
            const _elem *s = (const _elem *)src[0] + done;                                         \
            const _elem *t = (const _elem *)src[1] + done;                                         \
            _elem *d = (_elem *)dst + done;                                                        \
            for (size_t i = 0; i < part; i++) {                                                    \
                a[i] = _combine(_load(s[i]), _load(t[i]));                                         \
            }                                                                                      \
            for (uint32_t j = 2; j < k - 1; j++) {                                                 \
                _name##_add_strip(a, (const _elem *)src[j] + done, part);                          \
            }                                                                                      \
            s = (const _elem *)src[k - 1] + done;                                                  \
            HD_INDEPENDENT                                                                         \
            for (size_t i = 0; i < part; i++) {                                                    \
                d[i] = _finish(_combine(a[i], _load(s[i])), n);                                    \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    HD_TARGET static void _name##_kernel(uint32_t k, const void *const *src, void *dst,            \
                                         size_t count, uint32_t n) {                               \
        if (k == 2) {                                                                              \
            _name##_in_registers(2, src, dst, count, n);                                           \
        } else if (_often && k == 3) {                                                             \
            _name##_in_registers(3, src, dst, count, n);                                           \
        } else if (_often && k == 4) {                                                             \
            _name##_in_registers(4, src, dst, count, n);                                           \
        } else if (_often && k == 8) {                                                             \
            _name##_in_registers(8, src, dst, count, n);                                           \
        } else {                                                                                   \
            _name##_in_strips(k, src, dst, count, n);                                              \
        }                                                                                          \
    }

/* ---- integers ---- */

HD_KERNEL(band_u8, hd_u8, uint8_t, HD_SAME, band_u8, HD_SAME_AT, 1)
HD_KERNEL(bor_u8, hd_u8, uint8_t, HD_SAME, bor_u8, HD_SAME_AT, 1)
HD_KERNEL(bxor_u8, hd_u8, uint8_t, HD_SAME, bxor_u8, HD_SAME_AT, 1)

#define HD_UNSIGNED_KERNELS(_s, _type, _wide)                                                      \
    HD_KERNEL(sum_##_s, hd_##_s, _type, HD_SAME, sum_##_s, HD_SAME_AT, (sizeof(_type) >= 4))       \
    HD_KERNEL(prod_##_s, hd_##_s, _type, HD_SAME, prod_##_s, HD_SAME_AT, 0)                        \
    HD_KERNEL(land_##_s, hd_##_s, _type, HD_SAME, land_##_s, HD_SAME_AT, 0)                        \
    HD_KERNEL(lor_##_s, hd_##_s, _type, HD_SAME, lor_##_s, HD_SAME_AT, 0)                          \
    HD_KERNEL(lxor_##_s, hd_##_s, _type, HD_SAME, lxor_##_s, HD_SAME_AT, 0)
HD_UNSIGNED_TYPES(HD_UNSIGNED_KERNELS)

#define HD_ORDERED_KERNELS(_s, _type)                                                              \
    HD_KERNEL(max_##_s, hd_##_s, _type, HD_SAME, max_##_s, HD_SAME_AT, (sizeof(_type) >= 4))       \
    HD_KERNEL(min_##_s, hd_##_s, _type, HD_SAME, min_##_s, HD_SAME_AT, (sizeof(_type) >= 4))
HD_ORDERED_TYPES(HD_ORDERED_KERNELS)

HD_KERNEL(avg_u8, hd_u8, uint8_t, HD_SAME, sum_u8, HD_AVG_U8, 0)
HD_KERNEL(avg_i8, hd_u8, uint8_t, HD_SAME, sum_u8, HD_AVG_I8, 0)
HD_KERNEL(avg_u16, hd_u16, uint16_t, HD_SAME, sum_u16, HD_AVG_U16, 0)
HD_KERNEL(avg_i16, hd_u16, uint16_t, HD_SAME, sum_u16, HD_AVG_I16, 0)
HD_KERNEL(avg_u32, hd_u32, uint32_t, HD_SAME, sum_u32, HD_AVG_U32, 0)
HD_KERNEL(avg_i32, hd_u32, uint32_t, HD_SAME, sum_u32, HD_AVG_I32, 0)
HD_KERNEL(avg_u64, hd_u64, uint64_t, HD_SAME, sum_u64, HD_AVG_U64, 0)
HD_KERNEL(avg_i64, hd_u64, uint64_t, HD_SAME, sum_u64, HD_AVG_I64, 0)

/* ---- floats ---- */

HD_KERNEL(sum_f32, hd_f32, float, HD_SAME, sum_f32, HD_NAN_F32, 1)
HD_KERNEL(avg_f32, hd_f32, float, HD_SAME, sum_f32, HD_AVG_F32, 1)
HD_KERNEL(prod_f32, hd_f32, float, HD_SAME, prod_f32, HD_NAN_F32, 0)
HD_KERNEL(prod_c32, hd_c32, hd_c32, HD_SAME, prod_c32, HD_NAN_C32, 0)
HD_KERNEL(sum_f64, hd_f64, double, HD_SAME, sum_f64, HD_NAN_F64, 1)
HD_KERNEL(avg_f64, hd_f64, double, HD_SAME, sum_f64, HD_AVG_F64, 1)
HD_KERNEL(prod_f64, hd_f64, double, HD_SAME, prod_f64, HD_NAN_F64, 0)
HD_KERNEL(prod_c64, hd_c64, hd_c64, HD_SAME, prod_c64, HD_NAN_C64, 0)

HD_KERNEL(sum_bf16, hd_u16, float, widen_bf16, sum_f32, HD_NARROW_BF16, 1)
HD_KERNEL(avg_bf16, hd_u16, float, widen_bf16, sum_f32, HD_AVG_NARROW_BF16, 0)
HD_KERNEL(prod_bf16, hd_u16, float, widen_bf16, prod_f32, HD_NARROW_BF16, 0)

#define HD_KEY_KERNELS(_s, _bits, _key, _infinity, _nan)                                           \
    typedef _bits hd_bits_##_s __attribute__((may_alias, aligned(1)));                             \
    HD_KERNEL(max_##_s, hd_bits_##_s, _key, max_load_##_s, max_keys_##_s, max_finish_##_s,         \
              (sizeof(_key) >= 4))                                                                 \
    HD_KERNEL(min_##_s, hd_bits_##_s, _key, min_load_##_s, min_keys_##_s, min_finish_##_s,         \
              (sizeof(_key) >= 4))
HD_KEY_TYPES(HD_KEY_KERNELS)

/* ---- float16: always in strips, because conversion is what differs between vector units ---- */

#define HD_HALF_KERNEL(_name, _combine, _finish)                                                   \
    HD_TARGET static void _name##_kernel(uint32_t k, const void *const *src, void *dst,            \
                                         size_t count, uint32_t n) {                               \
        float a[HD_STRIP], b[HD_STRIP];                                                            \
        (void)n;                                                                                   \
        for (size_t done = 0; done < count; done += HD_STRIP) {                                    \
            const size_t part = count - done < HD_STRIP ? count - done : HD_STRIP;                 \
            widen_halves(a, (const hd_u16 *)src[0] + done, part);                                  \
            for (uint32_t j = 1; j < k; j++) {                                                     \
                widen_halves(b, (const hd_u16 *)src[j] + done, part);                              \
                for (size_t i = 0; i < part; i++) {                                                \
                    a[i] = _combine(a[i], b[i]);                                                   \
                }                                                                                  \
            }                                                                                      \
            for (size_t i = 0; i < part; i++) {                                                    \
                a[i] = _finish(a[i], n);                                                           \
            }                                                                                      \
            narrow_halves((hd_u16 *)dst + done, a, part);                                          \
        }                                                                                          \
    }

HD_HALF_KERNEL(sum_f16, sum_f32, HD_NAN_F32)
HD_HALF_KERNEL(avg_f16, sum_f32, HD_AVG_F32)
HD_HALF_KERNEL(prod_f16, prod_f32, HD_NAN_F32)

/* ---- the table ---- */

#define HD_UNSIGNED_ENTRIES(_dt, _s)                                                               \
    [HD_NUMBER(_dt)] = {                                                                           \
        [UCC_OP_SUM] = sum_##_s##_kernel,   [UCC_OP_PROD] = prod_##_s##_kernel,                    \
        [UCC_OP_MAX] = max_##_s##_kernel,   [UCC_OP_MIN] = min_##_s##_kernel,                      \
        [UCC_OP_LAND] = land_##_s##_kernel, [UCC_OP_LOR] = lor_##_s##_kernel,                      \
        [UCC_OP_LXOR] = lxor_##_s##_kernel, [UCC_OP_AVG] = avg_##_s##_kernel,                      \
    }

#define HD_SIGNED_ENTRIES(_dt, _s)                                                                 \
    [HD_NUMBER(_dt)] = {[UCC_OP_MAX] = max_##_s##_kernel,                                          \
                        [UCC_OP_MIN] = min_##_s##_kernel,                                          \
                        [UCC_OP_AVG] = avg_##_s##_kernel}

#define HD_FLOAT_ENTRIES(_dt, _s)                                                                  \
    [HD_NUMBER(_dt)] = {                                                                           \
        [UCC_OP_SUM] = sum_##_s##_kernel, [UCC_OP_PROD] = prod_##_s##_kernel,                      \
        [UCC_OP_MAX] = max_##_s##_kernel, [UCC_OP_MIN] = min_##_s##_kernel,                        \
        [UCC_OP_AVG] = avg_##_s##_kernel,                                                          \
    }

const hd_kernel_table_t HD_KERNELS = {
    [HD_NUMBER(UCC_DT_UINT8)] =
        {
            [UCC_OP_SUM] = sum_u8_kernel,
            [UCC_OP_PROD] = prod_u8_kernel,
            [UCC_OP_MAX] = max_u8_kernel,
            [UCC_OP_MIN] = min_u8_kernel,
            [UCC_OP_LAND] = land_u8_kernel,
            [UCC_OP_LOR] = lor_u8_kernel,
            [UCC_OP_LXOR] = lxor_u8_kernel,
            [UCC_OP_BAND] = band_u8_kernel,
            [UCC_OP_BOR] = bor_u8_kernel,
            [UCC_OP_BXOR] = bxor_u8_kernel,
            [UCC_OP_AVG] = avg_u8_kernel,
        },
    HD_UNSIGNED_ENTRIES(UCC_DT_UINT16, u16),
    HD_UNSIGNED_ENTRIES(UCC_DT_UINT32, u32),
    HD_UNSIGNED_ENTRIES(UCC_DT_UINT64, u64),
    HD_SIGNED_ENTRIES(UCC_DT_INT8, i8),
    HD_SIGNED_ENTRIES(UCC_DT_INT16, i16),
    HD_SIGNED_ENTRIES(UCC_DT_INT32, i32),
    HD_SIGNED_ENTRIES(UCC_DT_INT64, i64),
    HD_FLOAT_ENTRIES(UCC_DT_FLOAT16, f16),
    HD_FLOAT_ENTRIES(UCC_DT_BFLOAT16, bf16),
    HD_FLOAT_ENTRIES(UCC_DT_FLOAT32, f32),
    HD_FLOAT_ENTRIES(UCC_DT_FLOAT64, f64),
    [HD_NUMBER(UCC_DT_FLOAT32_COMPLEX)] = {[UCC_OP_PROD] = prod_c32_kernel},
    [HD_NUMBER(UCC_DT_FLOAT64_COMPLEX)] = {[UCC_OP_PROD] = prod_c64_kernel},
};
