/*
 * Kernels of the types that vector units do not know: 128-bit integers, float128, and pairs.
 *
 * Element by element, sources from left to right; an element is written after all its sources are
 * read. Elements go through memcpy, for they may lie at any address.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/reduce_kernels.h"
#include "core/reduce_scalar.h"

/* Defines kernel _name: a = _load(element), a = _combine(a, b), then _store(element, a, n). */
#define WIDE_KERNEL(_name, _acc, _bytes, _load, _combine, _store)                                  \
    static void _name##_kernel(uint32_t k, const void *const *src, void *dst, size_t count,        \
                               uint32_t n) {                                                       \
        (void)n;                                                                                   \
        for (size_t at = 0; at < count * _bytes; at += _bytes) {                                   \
            _acc a = _load((const char *)src[0] + at);                                             \
            for (uint32_t j = 1; j < k; j++) {                                                     \
                a = _combine(a, _load((const char *)src[j] + at));                                 \
            }                                                                                      \
            _store((char *)dst + at, a, n);                                                        \
        }                                                                                          \
    }

/* ---- 128-bit integers ---- */

static inline hd_uint128 load_u128(const char *element) {
    hd_uint128 a;

    memcpy(&a, element, sizeof(a));
    return a;
}

static inline hd_int128 load_i128(const char *element) {
    return (hd_int128)load_u128(element);
}

#define STORE_128(_element, _a, _n) memcpy(_element, &(_a), 16)

#define INTEGER_KERNEL(_name, _type, _load) WIDE_KERNEL(_name, _type, 16, _load, _name, STORE_128)

INTEGER_KERNEL(sum_u128, hd_uint128, load_u128)
INTEGER_KERNEL(prod_u128, hd_uint128, load_u128)
INTEGER_KERNEL(max_u128, hd_uint128, load_u128)
INTEGER_KERNEL(min_u128, hd_uint128, load_u128)
INTEGER_KERNEL(max_i128, hd_int128, load_i128)
INTEGER_KERNEL(min_i128, hd_int128, load_i128)
INTEGER_KERNEL(land_u128, hd_uint128, load_u128)
INTEGER_KERNEL(lor_u128, hd_uint128, load_u128)
INTEGER_KERNEL(lxor_u128, hd_uint128, load_u128)

/* ---- float128: long double ---- */

#define SUM(a, b)  ((a) + (b))
#define PROD(a, b) ((a) * (b))

#if LDBL_MANT_DIG == 64 || LDBL_MANT_DIG == 113
#define HAVE_FLOAT128 1

/* Bytes that carry the value: the x87 format has 10, then padding. */
enum { FLOAT128_VALUE_BYTES = LDBL_MANT_DIG == 64 ? 10 : 16 };

typedef struct complex128 {
    long double re, im;
} complex128_t;

static inline long double load_f128(const char *element) {
    long double a = 0;

    memcpy(&a, element, FLOAT128_VALUE_BYTES);
    return a;
}

static inline void store_f128(char *element, long double a, uint32_t n) {
    const long double nan = __builtin_nanl("");

    (void)n;
    memset(element, 0, 16);
    memcpy(element, a == a ? &a : &nan, FLOAT128_VALUE_BYTES);
}

static inline void store_average_f128(char *element, long double a, uint32_t n) {
    store_f128(element, a / (long double)n, n);
}

/* Of two zeros the positive one is larger. */
static inline long double max_f128(long double a, long double b) {
    if (a != a || b != b) {
        return __builtin_nanl("");
    }
    if (a == b) {
        return signbit(a) ? b : a;
    }
    return a > b ? a : b;
}

static inline long double min_f128(long double a, long double b) {
    if (a != a || b != b) {
        return __builtin_nanl("");
    }
    if (a == b) {
        return signbit(a) ? a : b;
    }
    return a < b ? a : b;
}

static inline complex128_t load_c128(const char *element) {
    return (complex128_t){load_f128(element), load_f128(element + 16)};
}

static inline void store_c128(char *element, complex128_t a, uint32_t n) {
    store_f128(element, a.re, n);
    store_f128(element + 16, a.im, n);
}

static inline complex128_t prod_c128(complex128_t a, complex128_t b) {
    return (complex128_t){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

WIDE_KERNEL(sum_f128, long double, 16, load_f128, SUM, store_f128)
WIDE_KERNEL(avg_f128, long double, 16, load_f128, SUM, store_average_f128)
WIDE_KERNEL(prod_f128, long double, 16, load_f128, PROD, store_f128)
WIDE_KERNEL(max_f128, long double, 16, load_f128, max_f128, store_f128)
WIDE_KERNEL(min_f128, long double, 16, load_f128, min_f128, store_f128)
WIDE_KERNEL(prod_c128, complex128_t, 32, load_c128, prod_c128, store_c128)
#endif

const hd_kernel_table_t hd_kernels_wide = {
    [HD_NUMBER(UCC_DT_INT128)] = {[UCC_OP_MAX] = max_i128_kernel, [UCC_OP_MIN] = min_i128_kernel},
    [HD_NUMBER(UCC_DT_UINT128)] =
        {
            [UCC_OP_SUM] = sum_u128_kernel,
            [UCC_OP_PROD] = prod_u128_kernel,
            [UCC_OP_MAX] = max_u128_kernel,
            [UCC_OP_MIN] = min_u128_kernel,
            [UCC_OP_LAND] = land_u128_kernel,
            [UCC_OP_LOR] = lor_u128_kernel,
            [UCC_OP_LXOR] = lxor_u128_kernel,
        },
#if defined(HAVE_FLOAT128)
    [HD_NUMBER(UCC_DT_FLOAT128)] =
        {
            [UCC_OP_SUM] = sum_f128_kernel,
            [UCC_OP_PROD] = prod_f128_kernel,
            [UCC_OP_MAX] = max_f128_kernel,
            [UCC_OP_MIN] = min_f128_kernel,
            [UCC_OP_AVG] = avg_f128_kernel,
        },
    [HD_NUMBER(UCC_DT_FLOAT128_COMPLEX)] = {[UCC_OP_PROD] = prod_c128_kernel},
#endif
};

/* ---- pairs ---- */

#define IS_NAN(x)    ((x) != (x))
#define IS_NO_NAN(x) 0

/* Defines whether pair b takes the place of pair a, and the two kernels. _sign: '>' or '<'. The
 * winner is copied whole, with its padding. */
#define PAIR_KERNEL(_name, _pair, _sign, _is_nan)                                                  \
    static inline int _name##_replaces(const char *a_bytes, const char *b_bytes) {                 \
        _pair a, b;                                                                                \
        memcpy(&a, a_bytes, sizeof(a));                                                            \
        memcpy(&b, b_bytes, sizeof(b));                                                            \
        if (_is_nan(a.value) != _is_nan(b.value)) {                                                \
            return _is_nan(b.value);                                                               \
        }                                                                                          \
        if (b.value _sign a.value) {                                                               \
            return 1;                                                                              \
        }                                                                                          \
        return !(a.value _sign b.value) && b.index < a.index;                                      \
    }                                                                                              \
    static void _name##_kernel(uint32_t k, const void *const *src, void *dst, size_t count,        \
                               uint32_t n) {                                                       \
        (void)n;                                                                                   \
        for (size_t at = 0; at < count * sizeof(_pair); at += sizeof(_pair)) {                     \
            const char *winner = (const char *)src[0] + at;                                        \
            for (uint32_t j = 1; j < k; j++) {                                                     \
                const char *other = (const char *)src[j] + at;                                     \
                winner = _name##_replaces(winner, other) ? other : winner;                         \
            }                                                                                      \
            if (winner != (char *)dst + at) {                                                      \
                memcpy((char *)dst + at, winner, sizeof(_pair));                                   \
            }                                                                                      \
        }                                                                                          \
    }

#define PAIRS(X)                                                                                   \
    X(FLOAT32_INT32, float32_int32, IS_NAN)                                                        \
    X(FLOAT64_INT32, float64_int32, IS_NAN)                                                        \
    X(INT16_INT32, int16_int32, IS_NO_NAN)                                                         \
    X(INT32_INT32, int32_int32, IS_NO_NAN)                                                         \
    X(INT64_INT32, int64_int32, IS_NO_NAN)                                                         \
    X(FLOAT32_INT64, float32_int64, IS_NAN)                                                        \
    X(FLOAT64_INT64, float64_int64, IS_NAN)                                                        \
    X(INT64_INT64, int64_int64, IS_NO_NAN)                                                         \
    X(FLOAT128_INT32, float128_int32, IS_NAN)

#define DEFINE_PAIR_KERNELS(_dt, _name, _is_nan)                                                   \
    PAIR_KERNEL(maxloc_##_name, heddle_##_name##_t, >, _is_nan)                                    \
    PAIR_KERNEL(minloc_##_name, heddle_##_name##_t, <, _is_nan)
PAIRS(DEFINE_PAIR_KERNELS)

#define PAIR_ENTRY(_dt, _name, _is_nan)                                                            \
    [HD_NUMBER(HEDDLE_DT_##_dt) -                                                                  \
        HEDDLE_DT_PAIR_FIRST] = {maxloc_##_name##_kernel, minloc_##_name##_kernel},
const hd_kernel_fn hd_kernels_pair[HD_N_PAIRS][2] = {PAIRS(PAIR_ENTRY)};
