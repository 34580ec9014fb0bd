/* datatypes.c: datatypes, operations, and small whole numbers in each of them.
 *
 * Only non-negative whole numbers that every datatype holds exactly are written. Little-endian
 * hosts only, as the library.
 */
#include "perf.h"

#include <math.h>
#include <string.h>

#define PAIR(name, dt, value)                                                                      \
    {                                                                                              \
#name, dt, sizeof(heddle_##name##_t), PERF_KIND_PAIR, value,                               \
            offsetof(heddle_##name##_t, index), sizeof(((heddle_##name##_t *)0)->index)            \
    }

static const perf_datatype_t datatypes[] = {
    {"int8", UCC_DT_INT8, 1, PERF_KIND_SIGNED, 0, 0, 0},
    {"int16", UCC_DT_INT16, 2, PERF_KIND_SIGNED, 0, 0, 0},
    {"int32", UCC_DT_INT32, 4, PERF_KIND_SIGNED, 0, 0, 0},
    {"int64", UCC_DT_INT64, 8, PERF_KIND_SIGNED, 0, 0, 0},
    {"int128", UCC_DT_INT128, 16, PERF_KIND_SIGNED, 0, 0, 0},
    {"uint8", UCC_DT_UINT8, 1, PERF_KIND_UNSIGNED, 0, 0, 0},
    {"uint16", UCC_DT_UINT16, 2, PERF_KIND_UNSIGNED, 0, 0, 0},
    {"uint32", UCC_DT_UINT32, 4, PERF_KIND_UNSIGNED, 0, 0, 0},
    {"uint64", UCC_DT_UINT64, 8, PERF_KIND_UNSIGNED, 0, 0, 0},
    {"uint128", UCC_DT_UINT128, 16, PERF_KIND_UNSIGNED, 0, 0, 0},
    {"float16", UCC_DT_FLOAT16, 2, PERF_KIND_FLOAT, 0, 0, 0},
    {"bfloat16", UCC_DT_BFLOAT16, 2, PERF_KIND_FLOAT, 0, 0, 0},
    {"float32", UCC_DT_FLOAT32, 4, PERF_KIND_FLOAT, 0, 0, 0},
    {"float64", UCC_DT_FLOAT64, 8, PERF_KIND_FLOAT, 0, 0, 0},
    {"float128", UCC_DT_FLOAT128, 16, PERF_KIND_FLOAT, 0, 0, 0},
    {"float32_complex", UCC_DT_FLOAT32_COMPLEX, 8, PERF_KIND_COMPLEX, 0, 0, 0},
    {"float64_complex", UCC_DT_FLOAT64_COMPLEX, 16, PERF_KIND_COMPLEX, 0, 0, 0},
    {"float128_complex", UCC_DT_FLOAT128_COMPLEX, 32, PERF_KIND_COMPLEX, 0, 0, 0},
    PAIR(float32_int32, HEDDLE_DT_FLOAT32_INT32, UCC_DT_FLOAT32),
    PAIR(float64_int32, HEDDLE_DT_FLOAT64_INT32, UCC_DT_FLOAT64),
    PAIR(int16_int32, HEDDLE_DT_INT16_INT32, UCC_DT_INT16),
    PAIR(int32_int32, HEDDLE_DT_INT32_INT32, UCC_DT_INT32),
    PAIR(int64_int32, HEDDLE_DT_INT64_INT32, UCC_DT_INT64),
    PAIR(float32_int64, HEDDLE_DT_FLOAT32_INT64, UCC_DT_FLOAT32),
    PAIR(float64_int64, HEDDLE_DT_FLOAT64_INT64, UCC_DT_FLOAT64),
    PAIR(int64_int64, HEDDLE_DT_INT64_INT64, UCC_DT_INT64),
    PAIR(float128_int32, HEDDLE_DT_FLOAT128_INT32, UCC_DT_FLOAT128),
};

_Static_assert(sizeof(long double) == 16, "float128 is long double");

static const perf_operation_t operations[] = {
    {"sum", UCC_OP_SUM},   {"prod", UCC_OP_PROD},     {"max", UCC_OP_MAX},
    {"min", UCC_OP_MIN},   {"land", UCC_OP_LAND},     {"lor", UCC_OP_LOR},
    {"lxor", UCC_OP_LXOR}, {"band", UCC_OP_BAND},     {"bor", UCC_OP_BOR},
    {"bxor", UCC_OP_BXOR}, {"maxloc", UCC_OP_MAXLOC}, {"minloc", UCC_OP_MINLOC},
    {"avg", UCC_OP_AVG},
};

static const perf_datatype_t *by_handle(ucc_datatype_t dt) {
    const perf_datatype_t *datatype = datatypes;
    while (datatype->dt != dt) {
        datatype++;
    }
    return datatype;
}

const perf_datatype_t *perf_datatype_find(const char *name) {
    for (size_t i = 0; i < sizeof(datatypes) / sizeof(datatypes[0]); i++) {
        if (strcmp(datatypes[i].name, name) == 0) {
            return &datatypes[i];
        }
    }
    return NULL;
}

const perf_operation_t *perf_operation_find(const char *name) {
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        if (strcmp(operations[i].name, name) == 0) {
            return &operations[i];
        }
    }
    return NULL;
}

void perf_datatypes_print(FILE *stream) {
    for (size_t i = 0; i < sizeof(datatypes) / sizeof(datatypes[0]); i++) {
        fprintf(stream, " %s", datatypes[i].name);
    }
}

void perf_operations_print(FILE *stream) {
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        fprintf(stream, " %s", operations[i].name);
    }
}

bool perf_reducible(const perf_datatype_t *datatype, ucc_reduction_op_t op) {
    bool integer = datatype->kind == PERF_KIND_SIGNED || datatype->kind == PERF_KIND_UNSIGNED;
    bool pair = datatype->kind == PERF_KIND_PAIR;
    switch (op) {
    case UCC_OP_SUM:
    case UCC_OP_PROD:
        return !pair;
    case UCC_OP_AVG:
        return !pair && !integer;
    case UCC_OP_MAX:
    case UCC_OP_MIN:
        return !pair && datatype->kind != PERF_KIND_COMPLEX;
    case UCC_OP_LAND:
    case UCC_OP_LOR:
    case UCC_OP_LXOR:
    case UCC_OP_BAND:
    case UCC_OP_BOR:
    case UCC_OP_BXOR:
        return integer;
    case UCC_OP_MAXLOC:
    case UCC_OP_MINLOC:
        return pair;
    default:
        return false;
    }
}

/* ------------------------------------------------------------------------------------------------
 * Whole numbers to and from every datatype
 * ---------------------------------------------------------------------------------------------- */

static uint16_t to_float16(double value) {
    if (value == 0.0) {
        return 0;
    }
    int exponent = 0;
    double fraction = frexp(value, &exponent); /* in [0.5, 1) */
    return (uint16_t)(((exponent + 14) << 10) | (int)((fraction * 2.0 - 1.0) * 1024.0));
}

static double from_float16(uint16_t bits) {
    int exponent = (bits >> 10) & 0x1f;
    double fraction = (bits & 0x3ff) / 1024.0;
    double value = exponent == 0 ? ldexp(fraction, -14) : ldexp(1.0 + fraction, exponent - 15);
    if (exponent == 0x1f) {
        value = fraction == 0.0 ? INFINITY : NAN;
    }
    return (bits & 0x8000) != 0 ? -value : value;
}

static uint16_t to_bfloat16(double value) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

static double from_bfloat16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float narrow;
    memcpy(&narrow, &bits, sizeof(narrow));
    return (double)narrow;
}

/* One floating-point number of `bytes`. */
static void encode_float(ucc_datatype_t dt, size_t bytes, double value, void *to) {
    uint16_t half = dt == UCC_DT_FLOAT16 ? to_float16(value) : to_bfloat16(value);
    float narrow = (float)value;
    long double wide = (long double)value;
    memcpy(to,
           bytes == 2   ? (const void *)&half
           : bytes == 4 ? (const void *)&narrow
           : bytes == 8 ? (const void *)&value
                        : (const void *)&wide,
           bytes);
}

static double decode_float(ucc_datatype_t dt, size_t bytes, const void *from) {
    uint16_t half = 0;
    float narrow = 0.0F;
    double value = 0.0;
    long double wide = 0.0L;
    switch (bytes) {
    case 2:
        memcpy(&half, from, sizeof(half));
        return dt == UCC_DT_FLOAT16 ? from_float16(half) : from_bfloat16(half);
    case 4:
        memcpy(&narrow, from, sizeof(narrow));
        return (double)narrow;
    case 8:
        memcpy(&value, from, sizeof(value));
        return value;
    default:
        memcpy(&wide, from, sizeof(wide));
        return (double)wide;
    }
}

void perf_encode(const perf_datatype_t *datatype, double first, double second, void *element) {
    unsigned char *to = element;
    uint64_t whole = (uint64_t)first, index = (uint64_t)second;
    uint32_t bytes = datatype->bytes;
    memset(to, 0, bytes);
    switch (datatype->kind) {
    case PERF_KIND_SIGNED:
    case PERF_KIND_UNSIGNED:
        memcpy(to, &whole, bytes < sizeof(whole) ? bytes : sizeof(whole));
        break;
    case PERF_KIND_FLOAT:
        encode_float(datatype->dt, bytes, first, to);
        break;
    case PERF_KIND_COMPLEX:
        encode_float(datatype->dt, bytes / 2, first, to);
        encode_float(datatype->dt, bytes / 2, second, to + bytes / 2);
        break;
    case PERF_KIND_PAIR:
        perf_encode(by_handle(datatype->value), first, 0.0, to);
        memcpy(to + datatype->index_offset, &index, datatype->index_bytes);
        break;
    }
}

void perf_decode(const perf_datatype_t *datatype, const void *element, double value[2]) {
    const unsigned char *from = element;
    uint64_t whole = 0, index = 0;
    uint32_t bytes = datatype->bytes;
    value[1] = 0.0;
    switch (datatype->kind) {
    case PERF_KIND_SIGNED:
    case PERF_KIND_UNSIGNED:
        memcpy(&whole, from, bytes < sizeof(whole) ? bytes : sizeof(whole));
        value[0] = (double)whole;
        break;
    case PERF_KIND_FLOAT:
        value[0] = decode_float(datatype->dt, bytes, from);
        break;
    case PERF_KIND_COMPLEX:
        value[0] = decode_float(datatype->dt, bytes / 2, from);
        value[1] = decode_float(datatype->dt, bytes / 2, from + bytes / 2);
        break;
    case PERF_KIND_PAIR:
        perf_decode(by_handle(datatype->value), from, value);
        memcpy(&index, from + datatype->index_offset, datatype->index_bytes);
        value[1] = (double)index;
        break;
    }
}
