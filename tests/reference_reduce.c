/* reference_reduce.c: the arithmetic of the reference, one element at a time. See reference.h.
 *
 * An element is loaded into an accumulator (float for the 16-bit floats, its own type otherwise),
 * combined with the following elements of its block of 8, and stored, which rounds. The stored
 * results of the blocks are reduced the same way until one is left. AVG divides in the last block's
 * accumulator, before that rounding.
 */
#include "reference.h"
#include "reference_half.h"

#include "support/deadline.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 8, MAX_EXTENT = 64 };

/* --- accumulators --- */

typedef unsigned __int128 uint128;
typedef __int128 int128;

typedef union accumulator {
    uint128 integer; /* truncated to the element's width when stored */
    float f;
    double d;
    long double l;
    float cf[2];
    double cd[2];
    long double cl[2];
    unsigned char bytes[MAX_EXTENT];
} accumulator_t;

static uint128 integer_load(const unsigned char *element, size_t bytes, bool is_signed) {
    uint128 value = 0;
    memcpy(&value, element, bytes); /* little-endian machines only, as the library */
    unsigned unused = (unsigned)(128 - 8 * bytes);
    value <<= unused;
    return is_signed ? (uint128)((int128)value >> unused) : value >> unused;
}

static void load(const reference_dt_t *dt, accumulator_t *acc, const unsigned char *element) {
    uint16_t half;
    switch (dt->kind) {
    case REFERENCE_INT:
    case REFERENCE_UINT:
        acc->integer = integer_load(element, dt->extent, dt->kind == REFERENCE_INT);
        break;
    case REFERENCE_FLOAT16:
        memcpy(&half, element, sizeof(half));
        acc->f = float_from_float16(half);
        break;
    case REFERENCE_BFLOAT16:
        memcpy(&half, element, sizeof(half));
        acc->f = float_from_bfloat16(half);
        break;
    default:
        memcpy(acc->bytes, element, dt->extent);
        break;
    }
}

static void store(const reference_dt_t *dt, unsigned char *element, const accumulator_t *acc) {
    uint16_t half;
    switch (dt->kind) {
    case REFERENCE_FLOAT16:
        half = float16_from_float(acc->f);
        memcpy(element, &half, sizeof(half));
        break;
    case REFERENCE_BFLOAT16:
        half = bfloat16_from_float(acc->f);
        memcpy(element, &half, sizeof(half));
        break;
    default: /* integers: the low bytes */
        memcpy(element, acc->bytes, dt->extent);
        break;
    }
}

/* --- one operation, one element --- */

static uint128 combine_integer(ucc_reduction_op_t op, bool is_signed, uint128 a, uint128 b) {
    bool less = is_signed ? (int128)a < (int128)b : a < b;
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
        return a != 0 && b != 0;
    case UCC_OP_LOR:
        return a != 0 || b != 0;
    case UCC_OP_LXOR:
        return (a != 0) != (b != 0);
    case UCC_OP_BAND:
        return a & b;
    case UCC_OP_BOR:
        return a | b;
    default:
        return a ^ b;
    }
}

static float combine_float(ucc_reduction_op_t op, float a, float b) {
    switch (op) {
    case UCC_OP_PROD:
        return a * b;
    case UCC_OP_MAX:
        return a < b ? b : a;
    case UCC_OP_MIN:
        return b < a ? b : a;
    default:
        return a + b;
    }
}

static double combine_double(ucc_reduction_op_t op, double a, double b) {
    switch (op) {
    case UCC_OP_PROD:
        return a * b;
    case UCC_OP_MAX:
        return a < b ? b : a;
    case UCC_OP_MIN:
        return b < a ? b : a;
    default:
        return a + b;
    }
}

static long double combine_long_double(ucc_reduction_op_t op, long double a, long double b) {
    switch (op) {
    case UCC_OP_PROD:
        return a * b;
    case UCC_OP_MAX:
        return a < b ? b : a;
    case UCC_OP_MIN:
        return b < a ? b : a;
    default:
        return a + b;
    }
}

/* Complex numbers: sum by parts; product (ac - bd) + (ad + bc)i, each step rounded, never fused. */
static void combine_complex(const reference_dt_t *dt, ucc_reduction_op_t op, accumulator_t *a,
                            const accumulator_t *b) {
    accumulator_t r = *a;
    bool product = op == UCC_OP_PROD;
    if (dt->kind == REFERENCE_COMPLEX32) {
        float ac = a->cf[0] * b->cf[0], bd = a->cf[1] * b->cf[1];
        float ad = a->cf[0] * b->cf[1], bc = a->cf[1] * b->cf[0];
        r.cf[0] = product ? ac - bd : a->cf[0] + b->cf[0];
        r.cf[1] = product ? ad + bc : a->cf[1] + b->cf[1];
    } else if (dt->kind == REFERENCE_COMPLEX64) {
        double ac = a->cd[0] * b->cd[0], bd = a->cd[1] * b->cd[1];
        double ad = a->cd[0] * b->cd[1], bc = a->cd[1] * b->cd[0];
        r.cd[0] = product ? ac - bd : a->cd[0] + b->cd[0];
        r.cd[1] = product ? ad + bc : a->cd[1] + b->cd[1];
    } else {
        long double ac = a->cl[0] * b->cl[0], bd = a->cl[1] * b->cl[1];
        long double ad = a->cl[0] * b->cl[1], bc = a->cl[1] * b->cl[0];
        r.cl[0] = product ? ac - bd : a->cl[0] + b->cl[0];
        r.cl[1] = product ? ad + bc : a->cl[1] + b->cl[1];
    }
    *a = r;
}

/* Is the value of pair b larger (sign > 0) or smaller (sign < 0) than that of a? */
static bool pair_value_beats(const reference_dt_t *dt, const accumulator_t *a,
                             const accumulator_t *b, int sign) {
    reference_dt_t value = {.kind = dt->value_kind, .extent = dt->value_bytes};
    accumulator_t x, y;
    load(&value, &x, a->bytes);
    load(&value, &y, b->bytes);
    switch (dt->value_kind) {
    case REFERENCE_INT:
        return sign > 0 ? (int128)y.integer > (int128)x.integer
                        : (int128)y.integer < (int128)x.integer;
    case REFERENCE_FLOAT32:
        return sign > 0 ? y.f > x.f : y.f < x.f;
    case REFERENCE_FLOAT64:
        return sign > 0 ? y.d > x.d : y.d < x.d;
    default:
        return sign > 0 ? y.l > x.l : y.l < x.l;
    }
}

/* The better value wins; of equal values the smaller index does. */
static void combine_pair(const reference_dt_t *dt, ucc_reduction_op_t op, accumulator_t *a,
                         const accumulator_t *b) {
    int sign = op == UCC_OP_MAXLOC ? 1 : -1;
    if (pair_value_beats(dt, a, b, sign)) {
        *a = *b;
    } else if (!pair_value_beats(dt, b, a, sign)) {
        int128 ia = (int128)integer_load(a->bytes + dt->index_offset, dt->index_bytes, true);
        int128 ib = (int128)integer_load(b->bytes + dt->index_offset, dt->index_bytes, true);
        if (ib < ia) {
            *a = *b;
        }
    }
}

static void combine(const reference_dt_t *dt, ucc_reduction_op_t op, accumulator_t *a,
                    const accumulator_t *b) {
    switch (dt->kind) {
    case REFERENCE_INT:
    case REFERENCE_UINT:
        a->integer = combine_integer(op, dt->kind == REFERENCE_INT, a->integer, b->integer);
        break;
    case REFERENCE_FLOAT16:
    case REFERENCE_BFLOAT16:
    case REFERENCE_FLOAT32:
        a->f = combine_float(op, a->f, b->f);
        break;
    case REFERENCE_FLOAT64:
        a->d = combine_double(op, a->d, b->d);
        break;
    case REFERENCE_FLOAT128:
        a->l = combine_long_double(op, a->l, b->l);
        break;
    case REFERENCE_PAIR:
        combine_pair(dt, op, a, b);
        break;
    case REFERENCE_USER:
        dt->combine(a->bytes, b->bytes);
        break;
    default:
        combine_complex(dt, op, a, b);
        break;
    }
}

/* AVG's last step. */
static void divide(const reference_dt_t *dt, accumulator_t *a, uint32_t n) {
    switch (dt->kind) {
    case REFERENCE_INT:
    case REFERENCE_UINT: /* below 128 bits: the sum as the element would hold it, toward zero */
        a->integer = integer_load(a->bytes, dt->extent, dt->kind == REFERENCE_INT);
        a->integer = (uint128)((int128)a->integer / (int128)n);
        break;
    case REFERENCE_FLOAT16:
    case REFERENCE_BFLOAT16:
    case REFERENCE_FLOAT32:
        a->f /= (float)n;
        break;
    case REFERENCE_FLOAT64:
        a->d /= (double)n;
        break;
    case REFERENCE_FLOAT128:
        a->l /= (long double)n;
        break;
    case REFERENCE_COMPLEX32:
        a->cf[0] /= (float)n;
        a->cf[1] /= (float)n;
        break;
    case REFERENCE_COMPLEX64:
        a->cd[0] /= (double)n;
        a->cd[1] /= (double)n;
        break;
    default:
        a->cl[0] /= (long double)n;
        a->cl[1] /= (long double)n;
        break;
    }
}

/* --- the canonical order --- */

/* Folds one block of stored elements into element `out`; n_total is AVG's divisor, 0 below the
 * root. */
static void fold_block(const reference_dt_t *dt, ucc_reduction_op_t op, const unsigned char *block,
                       uint32_t n, uint32_t n_total, unsigned char *out) {
    accumulator_t acc, next;
    memset(&acc, 0, sizeof(acc));
    load(dt, &acc, block);
    for (uint32_t i = 1; i < n; i++) {
        load(dt, &next, block + i * dt->extent);
        combine(dt, op, &acc, &next);
    }
    if (n_total != 0 && op == UCC_OP_AVG && dt->kind != REFERENCE_USER) {
        divide(dt, &acc, n_total);
    }
    store(dt, out, &acc);
}

/* elements: n operands one behind the other; overwritten. The result is left in the first. n_total:
 * AVG's divisor; 0: the result is not the last one. */
static void reduce_element(const reference_dt_t *dt, ucc_reduction_op_t op, unsigned char *elements,
                           uint32_t n, uint32_t n_total) {
    uint32_t remaining = n;
    do {
        uint32_t blocks = (remaining + BLOCK - 1) / BLOCK;
        for (uint32_t b = 0; b < blocks; b++) {
            uint32_t left = remaining - b * BLOCK;
            fold_block(dt, op, elements + (size_t)b * BLOCK * dt->extent,
                       left < BLOCK ? left : BLOCK, blocks == 1 ? n_total : 0,
                       elements + b * dt->extent);
        }
        remaining = blocks;
    } while (remaining > 1);
}

void reference_reduce(const reference_dt_t *dt, ucc_reduction_op_t op,
                      unsigned char *const *sources, uint32_t n, uint64_t count,
                      unsigned char *dst) {
    unsigned char *elements = must_alloc(n, dt->extent);
    for (uint64_t e = 0; e < count; e++) {
        for (uint32_t i = 0; i < n; i++) {
            memcpy(elements + i * dt->extent, sources[i] + e * dt->extent, dt->extent);
        }
        reduce_element(dt, op, elements, n, n);
        memcpy(dst + e * dt->extent, elements, dt->extent);
    }
    free(elements);
}

/* Is i the lowest source of its process? */
static bool is_first(const uint32_t *process_of, uint32_t i) {
    for (uint32_t j = 0; j < i; j++) {
        if (process_of[j] == process_of[i]) {
            return false;
        }
    }
    return true;
}

void reference_reduce_across(const reference_dt_t *dt, ucc_reduction_op_t op,
                             unsigned char *const *sources, const uint32_t *process_of, uint32_t n,
                             uint64_t count, unsigned char *dst) {
    unsigned char *elements = must_alloc(n, dt->extent), *results = must_alloc(n, dt->extent);
    bool *first = must_alloc(n, sizeof(*first));
    uint32_t n_processes = 0;
    for (uint32_t i = 0; i < n; i++) {
        first[i] = is_first(process_of, i);
        n_processes += first[i];
    }
    for (uint64_t e = 0; e < count; e++) {
        uint32_t p = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t k = 0;
            for (uint32_t j = i; first[i] && j < n; j++) {
                if (process_of[j] == process_of[i]) {
                    memcpy(elements + k++ * dt->extent, sources[j] + e * dt->extent, dt->extent);
                }
            }
            if (first[i]) {
                reduce_element(dt, op, elements, k, n_processes == 1 ? n : 0);
                memcpy(results + p++ * dt->extent, elements, dt->extent);
            }
        }
        if (n_processes > 1) {
            reduce_element(dt, op, results, n_processes, n);
        }
        memcpy(dst + e * dt->extent, results, dt->extent);
    }
    free(first);
    free(results);
    free(elements);
}
