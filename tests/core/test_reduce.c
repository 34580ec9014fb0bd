/* test_reduce.c: every reduction gives exactly the bits that reduce.h promises.
 *
 * The oracle below is written from that promise alone: one element at a time, integers in 128 bits,
 * float16 through double arithmetic, blocks of 8 by plain recursion. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/log.h"
#include "core/reduce.h"

enum { MAX_ELEMENT = 32, MAX_COUNT = 600, VALUE_128 = LDBL_MANT_DIG == 64 ? 10 : 16 };

typedef enum kind { SIGNED, UNSIGNED, HALF, BRAIN, SINGLE, DOUBLE, EXTENDED, PAIR } kind_t;

typedef struct type {
    ucc_datatype_t dt;
    kind_t kind; /* of a part; PAIR: see value */
    size_t size; /* of a part */
    int parts;   /* 2: complex */
    kind_t value;
    size_t value_size, index_at, index_size;
} type_t;

#define PART(_dt, _kind, _size, _parts)                                                            \
    { .dt = _dt, .kind = _kind, .size = _size, .parts = _parts }
#define PAIR_TYPE(_dt, _t, _value)                                                                 \
    {                                                                                              \
        .dt = _dt, .kind = PAIR, .size = sizeof(_t), .parts = 1, .value = _value,                  \
        .value_size = sizeof(((_t *)0)->value), .index_at = offsetof(_t, index),                   \
        .index_size = sizeof(((_t *)0)->index)                                                     \
    }

static const type_t types[] = {
    PART(UCC_DT_INT8, SIGNED, 1, 1),
    PART(UCC_DT_INT16, SIGNED, 2, 1),
    PART(UCC_DT_INT32, SIGNED, 4, 1),
    PART(UCC_DT_INT64, SIGNED, 8, 1),
    PART(UCC_DT_INT128, SIGNED, 16, 1),
    PART(UCC_DT_UINT8, UNSIGNED, 1, 1),
    PART(UCC_DT_UINT16, UNSIGNED, 2, 1),
    PART(UCC_DT_UINT32, UNSIGNED, 4, 1),
    PART(UCC_DT_UINT64, UNSIGNED, 8, 1),
    PART(UCC_DT_UINT128, UNSIGNED, 16, 1),
    PART(UCC_DT_FLOAT16, HALF, 2, 1),
    PART(UCC_DT_FLOAT32, SINGLE, 4, 1),
    PART(UCC_DT_FLOAT64, DOUBLE, 8, 1),
    PART(UCC_DT_BFLOAT16, BRAIN, 2, 1),
    PART(UCC_DT_FLOAT128, EXTENDED, 16, 1),
    PART(UCC_DT_FLOAT32_COMPLEX, SINGLE, 4, 2),
    PART(UCC_DT_FLOAT64_COMPLEX, DOUBLE, 8, 2),
    PART(UCC_DT_FLOAT128_COMPLEX, EXTENDED, 16, 2),
    PAIR_TYPE(HEDDLE_DT_FLOAT32_INT32, heddle_float32_int32_t, SINGLE),
    PAIR_TYPE(HEDDLE_DT_FLOAT64_INT32, heddle_float64_int32_t, DOUBLE),
    PAIR_TYPE(HEDDLE_DT_INT16_INT32, heddle_int16_int32_t, SIGNED),
    PAIR_TYPE(HEDDLE_DT_INT32_INT32, heddle_int32_int32_t, SIGNED),
    PAIR_TYPE(HEDDLE_DT_INT64_INT32, heddle_int64_int32_t, SIGNED),
    PAIR_TYPE(HEDDLE_DT_FLOAT32_INT64, heddle_float32_int64_t, SINGLE),
    PAIR_TYPE(HEDDLE_DT_FLOAT64_INT64, heddle_float64_int64_t, DOUBLE),
    PAIR_TYPE(HEDDLE_DT_INT64_INT64, heddle_int64_int64_t, SIGNED),
    PAIR_TYPE(HEDDLE_DT_FLOAT128_INT32, heddle_float128_int32_t, EXTENDED),
};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

static size_t extent(const type_t *t) {
    return t->size * (size_t)t->parts;
}

static bool meaningful(const type_t *t, ucc_reduction_op_t op) {
    bool integer = t->kind == SIGNED || t->kind == UNSIGNED;

    if (t->kind == PAIR) {
        return op == UCC_OP_MAXLOC || op == UCC_OP_MINLOC;
    }
    switch (op) {
    case UCC_OP_SUM:
    case UCC_OP_PROD:
        return true;
    case UCC_OP_MAX:
    case UCC_OP_MIN:
        return t->parts == 1;
    case UCC_OP_AVG:
        return !integer || t->size < 16;
    case UCC_OP_MAXLOC:
    case UCC_OP_MINLOC:
        return false;
    default:
        return integer && op < UCC_OP_LAST;
    }
}

/* ---- the oracle: one part of one element of one block ---- */

typedef __int128 i128;
typedef unsigned __int128 u128;

static i128 integer_of(const unsigned char *p, size_t size, bool is_signed) {
    u128 v = 0;

    for (size_t i = size; i-- > 0;) {
        v = v << 8 | p[i];
    }
    if (is_signed && size < 16 && (p[size - 1] & 0x80) != 0) {
        v |= ~(u128)0 << (8 * size);
    }
    return (i128)v;
}

static u128 combine_integer(ucc_reduction_op_t op, bool is_signed, u128 a, u128 b) {
    bool less = is_signed ? (i128)a < (i128)b : a < b;

    switch (op) {
    case UCC_OP_SUM:
    case UCC_OP_AVG:
        return a + b;
    case UCC_OP_PROD:
        return a * b;
    case UCC_OP_MAX:
        return less ? b : a;
    case UCC_OP_MIN:
        return less ? a : b;
    case UCC_OP_LAND:
        return a && b;
    case UCC_OP_LOR:
        return a || b;
    case UCC_OP_LXOR:
        return !a != !b;
    case UCC_OP_BAND:
        return a & b;
    case UCC_OP_BOR:
        return a | b;
    default:
        return a ^ b;
    }
}

/* Value of a 16-bit float, exactly. */
static double half_value(unsigned bits, int fraction_bits) {
    int exponent_max = (1 << (15 - fraction_bits)) - 1;
    int exponent = (int)(bits >> fraction_bits) & exponent_max;
    int fraction = (int)bits & ((1 << fraction_bits) - 1);
    int bias = exponent_max / 2;
    double v;

    if (exponent == exponent_max) {
        v = fraction != 0 ? (double)NAN : (double)INFINITY;
    } else if (exponent == 0) {
        v = ldexp(fraction, 1 - bias - fraction_bits);
    } else {
        v = ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    }
    return (bits & 0x8000) != 0 ? -v : v;
}

/* Nearest 16-bit float: the value is counted in units of the last place. */
static unsigned half_bits(double v, int fraction_bits) {
    int exponent_max = (1 << (15 - fraction_bits)) - 1;
    int bias = exponent_max / 2;
    unsigned sign = signbit(v) ? 0x8000 : 0;
    int exponent;
    double units;

    if (isnan(v)) {
        return (unsigned)exponent_max << fraction_bits | 1u << (fraction_bits - 1);
    }
    if (isinf(v)) {
        return sign | (unsigned)exponent_max << fraction_bits;
    }
    frexp(v, &exponent);
    exponent -= 1;
    if (exponent < 1 - bias || v == 0) {
        exponent = 1 - bias;
    }
    units = rint(ldexp(fabs(v), fraction_bits - exponent));
    /* adding the exponent on top lets a carry do the right thing */
    unsigned bits = (unsigned)units;
    if (bits >= 1u << fraction_bits) {
        bits += (unsigned)(exponent + bias - 1) << fraction_bits;
    }
    return bits >= (unsigned)exponent_max << fraction_bits
               ? sign | (unsigned)exponent_max << fraction_bits
               : sign | bits;
}

static int better(long double a, long double b, bool want_max) { /* is b the winner? */
    if (isnan(a) || isnan(b)) {
        return !isnan(a);
    }
    if (a == 0 && b == 0) {
        return want_max ? signbit(a) && !signbit(b) : !signbit(a) && signbit(b);
    }
    return want_max ? b > a : b < a;
}

/* One step in each format; volatile keeps every rounding. */
#define DEFINE_STEP(_name, _t)                                                                     \
    static _t _name(ucc_reduction_op_t op, _t a, _t b) {                                           \
        volatile _t r;                                                                             \
        if (op == UCC_OP_PROD) {                                                                   \
            r = a * b;                                                                             \
        } else if (op == UCC_OP_MAX || op == UCC_OP_MIN) {                                         \
            r = better((long double)a, (long double)b, op == UCC_OP_MAX) ? b : a;                  \
        } else {                                                                                   \
            r = a + b;                                                                             \
        }                                                                                          \
        return r;                                                                                  \
    }                                                                                              \
    static void _name##_complex_product(_t *a, const _t *b) {                                      \
        volatile _t ac = a[0] * b[0], bd = a[1] * b[1], ad = a[0] * b[1], bc = a[1] * b[0];        \
        a[0] = ac - bd;                                                                            \
        a[1] = ad + bc;                                                                            \
    }
DEFINE_STEP(step_single, float)
DEFINE_STEP(step_double, double)
DEFINE_STEP(step_extended, long double)

/* Parts of an element in the accumulator's format. */
typedef union accumulator {
    u128 i;
    float f[2];
    double d[2];
    long double l[2];
} accumulator_t;

static accumulator_t load(const type_t *t, const unsigned char *p) {
    accumulator_t a;
    uint16_t h;

    memset(&a, 0, sizeof(a));
    memcpy(&h, p, extent(t) < 2 ? 1 : 2);
    switch (t->kind) {
    case HALF:
        a.f[0] = (float)half_value(h, 10);
        break;
    case BRAIN:
        a.f[0] = (float)half_value(h, 7);
        break;
    case SINGLE:
        memcpy(a.f, p, extent(t));
        break;
    case DOUBLE:
        memcpy(a.d, p, extent(t));
        break;
    case EXTENDED:
        for (int i = 0; i < t->parts; i++) {
            memcpy(&a.l[i], p + 16 * i, VALUE_128);
        }
        break;
    default:
        a.i = (u128)integer_of(p, t->size, t->kind == SIGNED);
    }
    return a;
}

static void step(const type_t *t, ucc_reduction_op_t op, accumulator_t *a, accumulator_t b) {
    bool complex_product = t->parts == 2 && op == UCC_OP_PROD;

    switch (t->kind) {
    case HALF:
    case BRAIN:
    case SINGLE:
        if (complex_product) {
            step_single_complex_product(a->f, b.f);
            break;
        }
        a->f[0] = step_single(op, a->f[0], b.f[0]);
        a->f[1] = step_single(op, a->f[1], b.f[1]);
        break;
    case DOUBLE:
        if (complex_product) {
            step_double_complex_product(a->d, b.d);
            break;
        }
        a->d[0] = step_double(op, a->d[0], b.d[0]);
        a->d[1] = step_double(op, a->d[1], b.d[1]);
        break;
    case EXTENDED:
        if (complex_product) {
            step_extended_complex_product(a->l, b.l);
            break;
        }
        a->l[0] = step_extended(op, a->l[0], b.l[0]);
        a->l[1] = step_extended(op, a->l[1], b.l[1]);
        break;
    default:
        a->i = combine_integer(op, t->kind == SIGNED, a->i, b.i);
    }
}

static void store(const type_t *t, unsigned char *p, const accumulator_t *a, uint32_t divisor) {
    uint16_t h;

    for (int i = 0; i < t->parts; i++, p += t->size) {
        float f = a->f[i] / (float)divisor;
        double d = a->d[i] / (double)divisor;
        long double l = a->l[i] / (long double)divisor;

        switch (t->kind) {
        case HALF:
        case BRAIN:
            h = (uint16_t)half_bits((double)f, t->kind == HALF ? 10 : 7);
            memcpy(p, &h, 2);
            break;
        case SINGLE:
            memcpy(p, isnan(f) ? (const void *)"\0\0\xc0\x7f" : &f, 4);
            break;
        case DOUBLE:
            memcpy(p, isnan(d) ? (const void *)"\0\0\0\0\0\0\xf8\x7f" : &d, 8);
            break;
        case EXTENDED:
            l = isnan(l) ? fabsl(__builtin_nanl("")) : l;
            memset(p, 0, 16);
            memcpy(p, &l, VALUE_128);
            break;
        default: {
            i128 sum = integer_of((const unsigned char *)&a->i, t->size, t->kind == SIGNED);
            i128 quotient = t->size < 16 ? sum / (i128)divisor : sum;
            memcpy(p, &quotient, t->size);
        }
        }
    }
}

/* Does pair b win over pair a? */
static bool pair_wins(const type_t *t, bool want_max, const unsigned char *a,
                      const unsigned char *b) {
    type_t value = {.kind = t->value, .size = t->value_size, .parts = 1};
    long double x, y;

    if (t->value ==
        SIGNED) { /* 64 bits fit the fraction of a long double, or are compared as such */
        i128 i = integer_of(a, t->value_size, true), j = integer_of(b, t->value_size, true);
        x = 0;
        y = i == j ? 0 : i < j ? 1 : -1;
    } else {
        accumulator_t p = load(&value, a), q = load(&value, b);
        x = t->value == SINGLE   ? (long double)p.f[0]
            : t->value == DOUBLE ? (long double)p.d[0]
                                 : p.l[0];
        y = t->value == SINGLE   ? (long double)q.f[0]
            : t->value == DOUBLE ? (long double)q.d[0]
                                 : q.l[0];
    }
    if (isnan(x) != isnan(y)) {
        return isnan(y);
    }
    if (isnan(x) || x == y) {
        return integer_of(b + t->index_at, t->index_size, true) <
               integer_of(a + t->index_at, t->index_size, true);
    }
    return want_max ? y > x : y < x;
}

/* elements[i]: operand i of the block. out may be one of them. */
static void oracle_block(const type_t *t, ucc_reduction_op_t op, uint32_t k,
                         const unsigned char *const *elements, unsigned char *out, bool last,
                         uint32_t n) {
    const unsigned char *winner = elements[0];
    accumulator_t a;

    if (k == 1) {
        memmove(out, elements[0], extent(t));
        return;
    }
    if (t->kind == PAIR) {
        for (uint32_t i = 1; i < k; i++) {
            winner = pair_wins(t, op == UCC_OP_MAXLOC, winner, elements[i]) ? elements[i] : winner;
        }
        memmove(out, winner, extent(t));
        return;
    }
    a = load(t, elements[0]);
    for (uint32_t i = 1; i < k; i++) {
        step(t, op, &a, load(t, elements[i]));
    }
    store(t, out, &a, last && op == UCC_OP_AVG ? n : 1);
}

/* Elements one behind the other, overwritten; the result is left in the first. */
static void oracle_tree(const type_t *t, ucc_reduction_op_t op, unsigned char *elements,
                        uint32_t n_now, uint32_t n) {
    uint32_t blocks = (n_now + 7) / 8;

    for (uint32_t b = 0; b < blocks; b++) {
        uint32_t k = n_now - 8 * b < 8 ? n_now - 8 * b : 8;
        const unsigned char *operands[8];

        for (uint32_t i = 0; i < k; i++) {
            operands[i] = elements + (8 * b + i) * extent(t);
        }
        oracle_block(t, op, k, operands, elements + b * extent(t), blocks == 1, n);
    }
    if (blocks > 1) {
        oracle_tree(t, op, elements, blocks, n);
    }
}

/* ---- operands ---- */

static uint64_t random_state;

static uint64_t random_bits(void) {
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static double special_value(void) {
    static const double values[] = {0.0, -0.0, INFINITY, -INFINITY, 1.0, -1.0, 2.0, 3.0, -3.0, 0.1};

    return values[random_bits() % (sizeof(values) / sizeof(values[0]))];
}

/* Any bits (NaNs of all kinds among them), special values, and ordinary ones. */
static void random_part(kind_t kind, size_t size, unsigned char *p) {
    uint64_t choice = random_bits() % 8;
    double v = choice < 2 ? special_value() : ldexp((double)(int64_t)random_bits(), -62);
    bool any_bits = choice == 7 && kind != EXTENDED; /* not all bits are a long double */
    float f = (float)v;
    long double l = choice == 7 ? (long double)NAN : (long double)v + ldexpl(1.0L, -60);
    uint16_t h;

    for (size_t i = 0; i < size; i++) {
        p[i] = (unsigned char)random_bits();
    }
    switch (any_bits ? UNSIGNED : kind) {
    case HALF:
    case BRAIN:
        h = (uint16_t)half_bits(v, kind == HALF ? 10 : 7);
        memcpy(p, &h, 2);
        break;
    case SINGLE:
        memcpy(p, &f, 4);
        break;
    case DOUBLE:
        memcpy(p, &v, 8);
        break;
    case EXTENDED:
        memcpy(p, choice < 2 ? &(long double){(long double)v} : &l, VALUE_128);
        break;
    default:
        if (choice < 2) { /* zeros, for the logical operations */
            memset(p, 0, size);
        }
    }
}

static void random_elements(const type_t *t, unsigned char *p, size_t count) {
    for (size_t e = 0; e < count; e++, p += extent(t)) {
        if (t->kind != PAIR) {
            for (int i = 0; i < t->parts; i++) {
                random_part(t->kind, t->size, p + t->size * (size_t)i);
            }
            continue;
        }
        for (size_t i = 0; i < t->size; i++) {
            p[i] = (unsigned char)random_bits(); /* padding */
        }
        random_part(t->value, t->value_size, p);
        if (t->value == SIGNED) { /* few values, so that there are ties */
            int64_t v = (int64_t)(random_bits() % 3) - 1;
            memcpy(p, &v, t->value_size);
        }
        int64_t index = (int64_t)(random_bits() % 5) - 2;
        memcpy(p + t->index_at, &index, t->index_size);
    }
}

/* ---- running ---- */

static int n_logged;

static void count_line(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)line;
    (void)arg;
    n_logged++;
}

static void setup(void) {
    n_logged = 0;
    random_state = 1;
    hd_log_set_level(HD_LOG_ERROR);
    hd_log_capture(count_line, NULL);
}

static void teardown(void) {
    hd_log_capture(NULL, NULL);
}

TestSuite(reduce, .init = setup, .fini = teardown, .timeout = 200);

static void fail_at(const type_t *t, ucc_reduction_op_t op, const unsigned char *got,
                    const unsigned char *want, size_t count, const char *what, uint32_t k) {
    size_t e = 0;
    char text[2][2 * MAX_ELEMENT + 1];

    while (e + 1 < count && memcmp(got + e * extent(t), want + e * extent(t), extent(t)) == 0) {
        e++;
    }
    for (size_t i = 0; i < extent(t); i++) {
        sprintf(text[0] + 2 * i, "%02x", got[e * extent(t) + i]);
        sprintf(text[1] + 2 * i, "%02x", want[e * extent(t) + i]);
    }
    cr_assert_fail("%s: %s on %s, %u operands, %zu elements, kernels %s: element %zu is %s, not %s",
                   what, hd_reduction_name(op), hd_dt_name(t->dt), k, count, hd_reduce_isa_name(),
                   e, text[0], text[1]);
}

static void check_equal(const type_t *t, ucc_reduction_op_t op, const unsigned char *got,
                        const unsigned char *want, size_t count, const char *what, uint32_t k) {
    if (count != 0 && memcmp(got, want, count * extent(t)) != 0) {
        fail_at(t, op, got, want, count, what, k);
    }
}

enum { BUFFER = MAX_COUNT * MAX_ELEMENT + 64, GUARD = 0xa5 };
static unsigned char operands[8][BUFFER], expected[BUFFER], result[BUFFER], backup[BUFFER];

/* Operand i begins at an address with remainder i * shift, so nothing is aligned with shift 1. */
static void one_block(const type_t *t, ucc_reduction_op_t op, uint32_t k, size_t shift, bool last) {
    static const size_t counts[] = {0,  1,  2,  3,  4,  5,  7,   8,   9,   15,  16, 17,
                                    31, 32, 33, 63, 64, 65, 127, 255, 256, 257, 600};
    const void *src[8];
    hd_reducer_t r;

    for (uint32_t i = 0; i < k; i++) {
        random_elements(t, operands[i] + i * shift, MAX_COUNT);
        src[i] = operands[i] + i * shift;
    }
    for (size_t e = 0; e < MAX_COUNT; e++) {
        const unsigned char *elements[8];
        for (uint32_t i = 0; i < k; i++) {
            elements[i] = (const unsigned char *)src[i] + e * extent(t);
        }
        oracle_block(t, op, k, elements, expected + e * extent(t), last, k);
    }
    cr_assert_eq(hd_reducer_init(&r, t->dt, op, k), UCC_OK);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        size_t bytes = counts[c] * extent(t);

        memset(result, GUARD, sizeof(result));
        cr_assert_eq(hd_reduce_block(&r, k, src, result + 3 * shift, counts[c], last), UCC_OK);
        check_equal(t, op, result + 3 * shift, expected, counts[c], "block", k);
        cr_assert_eq(result[3 * shift + bytes], GUARD);
    }
    for (uint32_t i = 0; i < k; i++) { /* in place of every operand */
        memcpy(backup, operands[i], sizeof(backup));
        cr_assert_eq(hd_reduce_block(&r, k, src, operands[i] + i * shift, 300, last), UCC_OK);
        check_equal(t, op, operands[i] + i * shift, expected, 300, "in place", k);
        memcpy(operands[i], backup, sizeof(backup));
    }
}

static void all_blocks(hd_isa_t isa) {
    if (!hd_isa_force(isa)) {
        cr_skip("this CPU lacks them");
    }
    for (size_t i = 0; i < N_TYPES; i++) {
        for (int op = 0; op < UCC_OP_LAST; op++) {
            if (!meaningful(&types[i], (ucc_reduction_op_t)op)) {
                continue;
            }
            for (uint32_t k = 1; k <= 8; k++) {
                one_block(&types[i], (ucc_reduction_op_t)op, k, k % 2, op != UCC_OP_AVG || k != 5);
            }
        }
    }
}

Test(reduce, the_base_kernels_agree_with_the_oracle) {
    all_blocks(HD_ISA_BASE);
}

Test(reduce, the_avx2_kernels_agree_with_the_oracle) {
    all_blocks(HD_ISA_AVX2);
}

Test(reduce, the_avx512_kernels_agree_with_the_oracle) {
    all_blocks(HD_ISA_AVX512);
}

Test(reduce, every_float16_and_bfloat16_survives_a_sum_with_zero_in_all_kernels) {
    static const ucc_datatype_t dts[] = {UCC_DT_FLOAT16, UCC_DT_BFLOAT16};
    static uint16_t all[65536], zero[65536], out[65536];

    for (int i = 0; i < 65536; i++) {
        all[i] = (uint16_t)i;
        zero[i] = 0x8000; /* -0 changes nothing, not even -0 */
    }
    for (int isa = 0; isa < HD_ISA_LAST; isa++) {
        for (int d = 0; d < 2 && hd_isa_force((hd_isa_t)isa); d++) {
            unsigned infinity = d == 0 ? 0x7c00 : 0x7f80, nan = d == 0 ? 0x7e00 : 0x7fc0;
            hd_reducer_t r;

            cr_assert_eq(hd_reducer_init(&r, dts[d], UCC_OP_SUM, 2), UCC_OK);
            hd_reduce_block(&r, 2, (const void *const[]){all, zero}, out, 65536, true);
            for (unsigned i = 0; i < 65536; i++) {
                cr_assert_eq(out[i], (i & 0x7fff) > infinity ? nan : i, "%x became %x", i, out[i]);
            }
        }
    }
}

/* ---- the tree ---- */

static void one_tree(const type_t *t, ucc_reduction_op_t op, uint32_t n, size_t count, uint32_t m,
                     bool in_place) {
    enum { OFFSET_SRC = 24, OFFSET_DST = 40 };
    size_t bytes = count * extent(t);
    unsigned char *memory = malloc((bytes + 64) * n), *other = malloc((bytes + 64) * n);
    unsigned char *want = malloc(bytes + 1), *column = malloc(extent(t) * n);
    const void **src = malloc(n * sizeof(*src));
    void **dst = malloc(n * sizeof(*dst));
    hd_reducer_t r;

    memset(other, GUARD, (bytes + 64) * n);
    for (uint32_t i = 0; i < n; i++) {
        src[i] = memory + (bytes + 64) * i;
        random_elements(t, memory + (bytes + 64) * i + OFFSET_SRC, count);
    }
    for (uint32_t j = 0; j < m; j++) { /* in place: in another order than the sources */
        dst[j] = (in_place ? memory : other) + (bytes + 64) * (n - 1 - j);
    }
    for (size_t e = 0; e < count; e++) {
        for (uint32_t i = 0; i < n; i++) {
            memcpy(column + i * extent(t), (const char *)src[i] + OFFSET_SRC + e * extent(t),
                   extent(t));
        }
        oracle_tree(t, op, column, n, n);
        memcpy(want + e * extent(t), column, extent(t));
    }
    cr_assert_eq(hd_reducer_init(&r, t->dt, op, n), UCC_OK);
    size_t dst_offset = in_place ? OFFSET_SRC : OFFSET_DST;
    cr_assert_eq(hd_reduce_tree(&r, n, src, OFFSET_SRC, m, dst, dst_offset, count, HD_STORES_PLAIN),
                 UCC_OK);
    for (uint32_t j = 0; j < m; j++) {
        check_equal(t, op, (unsigned char *)dst[j] + dst_offset, want, count, "tree", n);
    }
    for (uint32_t j = 0; !in_place && j < n; j++) { /* nothing else was written */
        unsigned char *line = other + (bytes + 64) * j;
        cr_assert(line[OFFSET_DST - 1] == GUARD && line[OFFSET_DST + bytes] == GUARD);
    }
    free(memory);
    free(other);
    free(want);
    free(column);
    free(src);
    free(dst);
}

Test(reduce, the_tree_agrees_with_the_oracle_for_every_type_and_operation) {
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 63, 64, 65, 100};

    for (size_t i = 0; i < N_TYPES; i++) {
        for (int op = 0; op < UCC_OP_LAST; op++) {
            for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
                if (meaningful(&types[i], (ucc_reduction_op_t)op)) {
                    uint32_t m = sizes[s] < 3 ? sizes[s] : 3;
                    one_tree(&types[i], (ucc_reduction_op_t)op, sizes[s], 5, m, s % 2 == 0);
                }
            }
        }
    }
}

Test(reduce, the_tree_works_in_windows_with_many_operands_and_destinations) {
    static const struct {
        int type;
        ucc_reduction_op_t op;
        uint32_t n;
        size_t count;
    } cases[] = {
        {11, UCC_OP_SUM, 2, 5000},  {11, UCC_OP_AVG, 8, 3001},    {11, UCC_OP_SUM, 9, 5000},
        {10, UCC_OP_AVG, 65, 4321}, {12, UCC_OP_MAX, 64, 2000},   {15, UCC_OP_PROD, 20, 1500},
        {17, UCC_OP_PROD, 73, 500}, {18, UCC_OP_MINLOC, 66, 700}, {3, UCC_OP_BXOR, 513, 300},
        {11, UCC_OP_SUM, 4097, 30}, {0, UCC_OP_SUM, 40000, 3},    {0, UCC_OP_SUM, 2, 9001},
        {3, UCC_OP_BXOR, 3, 3001},
    };

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        const type_t *t = &types[cases[c].type];
        uint32_t n = cases[c].n;

        one_tree(t, cases[c].op, n, cases[c].count, n, true);
        one_tree(t, cases[c].op, n, cases[c].count, n, false);
        one_tree(t, cases[c].op, n, cases[c].count, 1, true);
        one_tree(t, cases[c].op, n, cases[c].count, 0, false);
    }
}

/* ---- streaming stores ---- */

typedef enum placement { APART, FIRST_IN_PLACE, SECOND_IN_PLACE, ALL_IN_PLACE } placement_t;

enum { STREAM_N = 20, STREAM_M = 5, STREAM_BYTES = 700 * MAX_ELEMENT + 256 };
static _Alignas(64) unsigned char stream_src[STREAM_N][STREAM_BYTES];
static _Alignas(64) unsigned char stream_backup[STREAM_N][STREAM_BYTES];
static _Alignas(64) unsigned char stream_dst[STREAM_M][STREAM_BYTES], stream_want[STREAM_BYTES];

static bool is_in_place(placement_t placement, uint32_t j) {
    return placement == ALL_IN_PLACE || (placement == FIRST_IN_PLACE && j == 0) ||
           (placement == SECOND_IN_PLACE && j == 1);
}

typedef struct stream_case {
    uint32_t n, m;
    size_t at[STREAM_M]; /* where the destinations begin that are not in place */
    placement_t placement;
} stream_case_t;

/* Results of plain stores, to one place apart, are what streaming ones have to give everywhere. */
static void one_stream(const type_t *t, ucc_reduction_op_t op, const stream_case_t *c,
                       size_t count) {
    enum { SRC_AT = 32, DST_AT = 24 };
    size_t bytes = count * extent(t);
    void *want_at = stream_want, *dst[STREAM_M];
    const void *src[STREAM_N];
    hd_reducer_t r;

    for (uint32_t i = 0; i < c->n; i++) {
        src[i] = stream_src[i];
    }
    for (uint32_t j = 0; j < c->m; j++) { /* another order than that of the sources */
        unsigned char *place = stream_src[(j + 1) % c->n] + SRC_AT - DST_AT;

        memset(stream_dst[j], GUARD, bytes + 256);
        dst[j] = is_in_place(c->placement, j) ? place : stream_dst[j] + c->at[j];
    }
    cr_assert_eq(hd_reducer_init(&r, t->dt, op, c->n), UCC_OK);
    cr_assert_eq(hd_reduce_tree(&r, c->n, src, SRC_AT, 1, &want_at, 0, count, HD_STORES_PLAIN),
                 UCC_OK);
    cr_assert_eq(
        hd_reduce_tree(&r, c->n, src, SRC_AT, c->m, dst, DST_AT, count, HD_STORES_STREAMING),
        UCC_OK);
    hd_copy_fence();
    for (uint32_t j = 0; j < c->m; j++) {
        const unsigned char *got = (unsigned char *)dst[j] + DST_AT;

        check_equal(t, op, got, stream_want, count, "streaming", c->n);
        for (const unsigned char *p = stream_dst[j]; p < stream_dst[j] + bytes + 256; p++) {
            cr_assert((p >= got && p < got + bytes) || *p == GUARD, "wrote outside");
        }
    }
    for (uint32_t i = 0; i < c->n; i++) { /* nothing else of the sources either */
        unsigned char *end = stream_src[i] + SRC_AT + bytes;

        cr_assert_arr_eq(stream_src[i], stream_backup[i], SRC_AT);
        cr_assert_arr_eq(end, stream_backup[i] + SRC_AT + bytes, 64);
        memcpy(stream_src[i], stream_backup[i], SRC_AT + bytes);
    }
}

static void all_streams(hd_isa_t isa) {
    static const stream_case_t cases[] = {
        {1, 1, {0}, APART},
        {1, 3, {0, 8, 40}, APART},
        {2, 1, {0}, APART},
        {2, 1, {16}, APART},
        {2, 1, {7}, APART},
        {2, 1, {0}, ALL_IN_PLACE},
        {2, 2, {40, 104}, APART},
        {2, 2, {48, 48}, APART},
        {2, 2, {0, 24}, APART},
        {2, 2, {16, 0}, SECOND_IN_PLACE},
        {2, 2, {0, 1}, FIRST_IN_PLACE},
        {2, 2, {0}, ALL_IN_PLACE},
        {3, 4, {96, 32, 32, 96}, APART},
        {4, 2, {31, 31}, APART},
        {4, 5, {0, 0, 0, 0, 0}, APART},
        {5, 3, {8, 16, 3}, APART},
        {7, 3, {0, 0, 64}, SECOND_IN_PLACE},
        {8, 2, {0, 64}, APART},
        {8, 5, {0, 1, 2, 3, 4}, ALL_IN_PLACE},
        {9, 1, {0}, APART},
        {9, 3, {0, 5, 32}, SECOND_IN_PLACE},
        {20, 2, {4, 4}, APART},
        {20, 5, {0}, ALL_IN_PLACE},
    };
    static const size_t counts[] = {1, 9, 64, 65, 700};

    if (!hd_isa_force(isa)) {
        cr_skip("this CPU lacks them");
    }
    for (size_t i = 0; i < N_TYPES; i++) {
        for (int k = 0; k < STREAM_N; k++) {
            random_elements(&types[i], stream_src[k] + 32, 700 + 64 / extent(&types[i]));
        }
        memcpy(stream_backup, stream_src, sizeof(stream_src));
        for (int op = 0; op < UCC_OP_LAST; op++) {
            for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]) * 5; c++) {
                if (meaningful(&types[i], (ucc_reduction_op_t)op)) {
                    one_stream(&types[i], (ucc_reduction_op_t)op, &cases[c / 5], counts[c % 5]);
                }
            }
        }
    }
}

Test(reduce, streaming_stores_give_the_same_bits_with_the_base_kernels) {
    all_streams(HD_ISA_BASE);
}

Test(reduce, streaming_stores_give_the_same_bits_with_the_avx2_kernels) {
    all_streams(HD_ISA_AVX2);
}

Test(reduce, streaming_stores_give_the_same_bits_with_the_avx512_kernels) {
    all_streams(HD_ISA_AVX512);
}

Test(reduce, blocks_reduced_one_by_one_give_the_bits_of_the_tree) {
    enum { N = 20, COUNT = 100 };
    static uint16_t values[N][COUNT], partial[3][COUNT], by_blocks[COUNT], by_tree[COUNT];
    const void *src[N], *partials[3] = {partial[0], partial[1], partial[2]};
    hd_reducer_t r;

    for (int i = 0; i < N; i++) {
        random_elements(&types[10], (unsigned char *)values[i], COUNT);
        src[i] = values[i];
    }
    cr_assert_eq(hd_reducer_init(&r, UCC_DT_FLOAT16, UCC_OP_AVG, N), UCC_OK);
    hd_reduce_block(&r, 8, src, partial[0], COUNT, false);
    hd_reduce_block(&r, 8, src + 8, partial[1], COUNT, false);
    hd_reduce_block(&r, 4, src + 16, partial[2], COUNT, false);
    hd_reduce_block(&r, 3, partials, by_blocks, COUNT, true);
    hd_reduce_tree(&r, N, src, 0, 1, (void *const[]){by_tree}, 0, COUNT, HD_STORES_PLAIN);
    cr_assert_arr_eq(by_blocks, by_tree, sizeof(by_tree));
}

/* ---- single rules, by example ---- */

Test(reduce, averages_of_integers_wrap_like_sums_and_truncate_toward_zero) {
    static const int8_t a8[] = {-3, 3, 100, -128}, b8[] = {-4, 4, 100, 127};
    static const int8_t want8[] = {-3, 3, -28, 0}; /* 200 is -56 in 8 bits */
    static const int64_t a64[] = {INT64_MIN, (int64_t)1 << 60, -1}, b64[] = {1, 3, 0};
    static const int64_t want64[] = {-(INT64_MAX / 2), ((int64_t)1 << 59) + 1, 0};
    int8_t got8[4];
    int64_t got64[3];
    hd_reducer_t r;

    cr_assert_eq(hd_reducer_init(&r, UCC_DT_INT8, UCC_OP_AVG, 2), UCC_OK);
    hd_reduce_block(&r, 2, (const void *const[]){a8, b8}, got8, 4, true);
    cr_assert_arr_eq(got8, want8, sizeof(want8));
    cr_assert_eq(hd_reducer_init(&r, UCC_DT_INT64, UCC_OP_AVG, 2), UCC_OK);
    hd_reduce_block(&r, 2, (const void *const[]){a64, b64}, got64, 3, true);
    cr_assert_arr_eq(got64, want64, sizeof(want64));
}

Test(reduce, more_operands_than_an_integer_can_count_are_averaged) {
    enum { MANY = 300 };
    static const uint8_t one = 1, zero = 0;
    const void *src[MANY];
    uint8_t got = 99;
    hd_reducer_t r;

    for (int i = 0; i < MANY; i++) {
        src[i] = i < 250 ? &one : &zero;
    }
    cr_assert_eq(hd_reducer_init(&r, UCC_DT_UINT8, UCC_OP_AVG, MANY), UCC_OK);
    hd_reduce_tree(&r, MANY, src, 0, 1, (void *const[]){&got}, 0, 1, HD_STORES_PLAIN);
    cr_assert_eq(got, 0); /* 250 / 300; not by 300 modulo 256 */
}

Test(reduce, only_meaningful_pairs_of_type_and_operation_are_accepted) {
    int refused = 0;

    for (size_t i = 0; i < N_TYPES; i++) {
        for (int op = -1; op <= UCC_OP_LAST; op++) {
            bool ok = op >= 0 && op < UCC_OP_LAST && meaningful(&types[i], (ucc_reduction_op_t)op);
            hd_reducer_t r;
            ucc_status_t status = hd_reducer_init(&r, types[i].dt, (ucc_reduction_op_t)op, 4);

            bool exists = op >= 0 && op < UCC_OP_LAST;
            ucc_status_t no = exists ? UCC_ERR_NOT_SUPPORTED : UCC_ERR_INVALID_PARAM;
            cr_assert_eq(status, ok ? UCC_OK : no, "%s on %s gave %d",
                         hd_reduction_name((ucc_reduction_op_t)op), hd_dt_name(types[i].dt),
                         (int)status);
            refused += !ok;
        }
    }
    cr_assert_eq(n_logged, refused);
    cr_assert_eq(hd_reducer_init(&(hd_reducer_t){0}, UINT64_MAX, UCC_OP_SUM, 4),
                 UCC_ERR_INVALID_PARAM);
}

static float reduce_floats(ucc_reduction_op_t op, float a, float b) {
    hd_reducer_t r;
    float c;

    cr_assert_eq(hd_reducer_init(&r, UCC_DT_FLOAT32, op, 2), UCC_OK);
    cr_assert_eq(hd_reduce_block(&r, 2, (const void *const[]){&a, &b}, &c, 1, true), UCC_OK);
    return c;
}

Test(reduce, maximum_and_minimum_know_nans_and_signed_zeros) {
    cr_assert(!signbit(reduce_floats(UCC_OP_MAX, -0.0f, 0.0f)));
    cr_assert(!signbit(reduce_floats(UCC_OP_MAX, 0.0f, -0.0f)));
    cr_assert(signbit(reduce_floats(UCC_OP_MIN, -0.0f, 0.0f)));
    cr_assert(signbit(reduce_floats(UCC_OP_MIN, 0.0f, -0.0f)));
    cr_assert(isnan(reduce_floats(UCC_OP_MAX, NAN, 1.0f)));
    cr_assert(isnan(reduce_floats(UCC_OP_MAX, INFINITY, -NAN)));
    cr_assert(isnan(reduce_floats(UCC_OP_MIN, -NAN, 1.0f)));
    cr_assert(isnan(reduce_floats(UCC_OP_MIN, -INFINITY, NAN)));
    cr_assert_eq(reduce_floats(UCC_OP_MAX, -INFINITY, -1.0f), -1.0f);
    cr_assert_eq(reduce_floats(UCC_OP_MIN, -2.0f, -1.0f), -2.0f);
}

Test(reduce, float16_accumulates_in_float32_inside_a_block) {
    /* 2048 + 1 rounds to 2048 in float16; 2048 + 1 + 1 in float32 is 2050 */
    uint16_t a = 0x6800, one = 0x3c00, c;
    hd_reducer_t r;

    cr_assert_eq(hd_reducer_init(&r, UCC_DT_FLOAT16, UCC_OP_SUM, 3), UCC_OK);
    hd_reduce_block(&r, 3, (const void *const[]){&a, &one, &one}, &c, 1, true);
    cr_assert_eq(c, 0x6801);
}

Test(reduce, complex_products_are_not_fused) {
    /* (1 + 2^-12)^2 - (1 + 2^-11): zero when both products are rounded, 2^-24 when one is not */
    float a[2] = {1.0f + 0x1p-12f, 1.0f + 0x1p-11f}, b[2] = {1.0f + 0x1p-12f, 1.0f}, c[2];
    hd_reducer_t r;

    for (int isa = 0; isa < HD_ISA_LAST; isa++) {
        if (hd_isa_force((hd_isa_t)isa)) {
            cr_assert_eq(hd_reducer_init(&r, UCC_DT_FLOAT32_COMPLEX, UCC_OP_PROD, 2), UCC_OK);
            hd_reduce_block(&r, 2, (const void *const[]){a, b}, c, 1, true);
            cr_assert_eq(c[0], 0.0f);
        }
    }
}

Test(reduce, integers_wrap) {
    int8_t a = 127, b = 1, c;
    hd_reducer_t r;

    cr_assert_eq(hd_reducer_init(&r, UCC_DT_INT8, UCC_OP_SUM, 2), UCC_OK);
    hd_reduce_block(&r, 2, (const void *const[]){&a, &b}, &c, 1, true);
    cr_assert_eq(c, -128);
}

Test(reduce, of_equal_values_the_smaller_index_wins) {
    heddle_float64_int32_t pairs[] = {{0.0, 3}, {-0.0, 1}, {-1.0, 0}, {0.0, 2}}, c;
    const void *src[] = {&pairs[0], &pairs[1], &pairs[2], &pairs[3]};
    hd_reducer_t r;

    cr_assert_eq(hd_reducer_init(&r, HEDDLE_DT_FLOAT64_INT32, UCC_OP_MAXLOC, 4), UCC_OK);
    hd_reduce_block(&r, 4, src, &c, 1, true);
    cr_assert_eq(c.index, 1);
}

/* ---- generic datatypes ---- */

typedef struct blob {
    uint64_t value;
    unsigned char rest[6000]; /* larger than any scratch window of the library is likely to be */
} blob_t;

static int n_calls;

/* Neither associative nor commutative on purpose: it shows the order of the calls. */
static ucc_status_t affine(const ucc_reduce_cb_params_t *p) {
    size_t size = hd_dt_size((ucc_datatype_t)(uintptr_t)p->dt | UCC_DATATYPE_GENERIC);

    n_calls++;
    cr_assert_eq(p->n_vectors, 1);
    cr_assert_eq(p->cb_ctx, &n_calls);
    for (size_t i = 0; i < p->count; i++) {
        uint64_t a, b;
        memcpy(&a, (char *)p->src1 + i * size, sizeof(a));
        memcpy(&b, (char *)p->src2 + i * size, sizeof(b));
        a = a * 31 + b;
        memmove((char *)p->dst + i * size, (char *)p->src1 + i * size, size);
        memcpy((char *)p->dst + i * size, &a, sizeof(a));
    }
    return UCC_OK;
}

static ucc_status_t failing(const ucc_reduce_cb_params_t *p) {
    (void)p;
    return UCC_ERR_NO_RESOURCE;
}

static ucc_datatype_t generic(size_t size, ucc_status_t (*cb)(const ucc_reduce_cb_params_t *)) {
    ucc_generic_dt_ops_t ops;
    ucc_datatype_t dt;

    memset(&ops, 0, sizeof(ops));
    ops.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS;
    ops.flags = UCC_GENERIC_DT_OPS_FLAG_CONTIG | (cb ? UCC_GENERIC_DT_OPS_FLAG_REDUCE : 0);
    ops.contig_size = size;
    ops.reduce.cb = cb;
    ops.reduce.cb_ctx = &n_calls;
    cr_assert_eq(ucc_dt_create_generic(&ops, NULL, &dt), UCC_OK);
    return dt;
}

static uint64_t affine_tree(const uint64_t *values, uint32_t n) {
    uint64_t next[16], r;

    if (n <= 8) {
        r = values[0];
        for (uint32_t i = 1; i < n; i++) {
            r = r * 31 + values[i];
        }
        return r;
    }
    for (uint32_t b = 0; b * 8 < n; b++) {
        next[b] = affine_tree(values + 8 * b, n - 8 * b < 8 ? n - 8 * b : 8);
    }
    return affine_tree(next, (n + 7) / 8);
}

static void check_generic(ucc_datatype_t dt, uint32_t n, size_t count, bool in_place) {
    hd_stores_t stores = (n + count) % 2 == 0 ? HD_STORES_PLAIN : HD_STORES_STREAMING;
    size_t size = hd_dt_size(dt);
    unsigned char *memory = calloc(2 * n * count, size);
    uint64_t *values = malloc(n * count * sizeof(*values));
    const void *src[128];
    void *dst[128];
    hd_reducer_t r;

    for (uint32_t i = 0; i < n; i++) {
        src[i] = memory + i * count * size;
        dst[i] = memory + ((in_place ? 0 : n) + (n - 1 - i)) * count * size;
        for (size_t e = 0; e < count; e++) {
            values[e * n + i] = random_bits();
            memcpy(memory + (i * count + e) * size, &values[e * n + i], sizeof(*values));
        }
    }
    cr_assert_eq(hd_reducer_init(&r, dt, (ucc_reduction_op_t)99, n), UCC_OK);
    cr_assert(hd_reducer_is_user(&r));
    cr_assert_eq(hd_reduce_tree(&r, n, src, 0, n, dst, 0, count, stores), UCC_OK);
    for (uint32_t j = 0; j < n; j++) {
        for (size_t e = 0; e < count; e++) {
            uint64_t got;
            memcpy(&got, (char *)dst[j] + e * size, sizeof(got));
            cr_assert_eq(got, affine_tree(values + e * n, n), "%u operands of %zu bytes", n, size);
        }
    }
    free(memory);
    free(values);
}

Test(reduce, a_generic_type_is_reduced_by_its_callback_in_the_canonical_order) {
    static const size_t sizes[] = {8, 24, 1000, sizeof(blob_t)};

    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        ucc_datatype_t dt = generic(sizes[s], affine);

        for (uint32_t n = 1; n <= 20; n++) {
            check_generic(dt, n, 7, false);
            check_generic(dt, n, 7, true);
        }
        check_generic(dt, 100, 3, true);
        check_generic(dt, 5, 1000, true);
        ucc_dt_destroy(dt);
    }
    cr_assert_gt(n_calls, 0);
}

Test(reduce, an_error_of_the_callback_is_returned_and_logged_once) {
    ucc_datatype_t dt = generic(8, failing);
    uint64_t values[9] = {0}, out;
    const void *src[9];
    hd_reducer_t r;

    for (int i = 0; i < 9; i++) {
        src[i] = &values[i];
    }
    cr_assert_eq(hd_reducer_init(&r, dt, UCC_OP_SUM, 9), UCC_OK);
    cr_assert_eq(hd_reduce_tree(&r, 9, src, 0, 1, (void *const[]){&out}, 0, 1, HD_STORES_PLAIN),
                 UCC_ERR_NO_RESOURCE);
    cr_assert_eq(n_logged, 1);
    ucc_dt_destroy(dt);
}

static void *start_pack(void *context, const void *buffer, size_t count) {
    (void)buffer;
    (void)count;
    return context;
}
static void *start_unpack(void *context, void *buffer, size_t count) {
    (void)buffer;
    (void)count;
    return context;
}
static size_t packed_size(void *state) {
    return state == NULL;
}
static size_t pack(void *state, size_t offset, void *dest, size_t max_length) {
    (void)state;
    (void)offset;
    (void)dest;
    return max_length;
}
static ucc_status_t unpack(void *state, size_t offset, const void *src, size_t length) {
    (void)state;
    (void)offset;
    (void)src;
    return length == 0 ? UCC_ERR_INVALID_PARAM : UCC_OK;
}
static void finish(void *state) {
    (void)state;
}

Test(reduce, a_generic_type_without_a_reduction_or_without_a_size_is_refused) {
    ucc_datatype_t plain = generic(8, NULL), scattered;
    ucc_generic_dt_ops_t ops = {
        .mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
        .flags = UCC_GENERIC_DT_OPS_FLAG_REDUCE,
        .start_pack = start_pack,
        .start_unpack = start_unpack,
        .packed_size = packed_size,
        .pack = pack,
        .unpack = unpack,
        .finish = finish,
        .reduce = {.cb = affine},
    };
    hd_reducer_t r;

    cr_assert_eq(ucc_dt_create_generic(&ops, NULL, &scattered), UCC_OK);
    cr_assert_eq(hd_reducer_init(&r, plain, UCC_OP_SUM, 2), UCC_ERR_NOT_SUPPORTED);
    cr_assert_eq(hd_reducer_init(&r, scattered, UCC_OP_SUM, 2), UCC_ERR_NOT_SUPPORTED);
    cr_assert_eq(n_logged, 2);
    ucc_dt_destroy(plain);
    ucc_dt_destroy(scattered);
}
