/* reference_elements.c: the datatypes that the reference knows, which operations they have, random
 * elements, and the bytes that carry no value. See reference.h.
 */
#include "reference.h"
#include "reference_half.h"

#include <float.h>
#include <heddle/heddle.h>
#include <string.h>

#define PREDEFINED(number, label, k, bytes, align)                                                 \
    {                                                                                              \
        .name = label, .handle = UCC_PREDEFINED_DT(number), .kind = k, .extent = bytes,            \
        .alignment = align                                                                         \
    }

#define PAIR(number, struct_name, k)                                                               \
    {                                                                                              \
        .name = #struct_name, .handle = UCC_PREDEFINED_DT(number), .kind = REFERENCE_PAIR,         \
        .extent = sizeof(heddle_##struct_name##_t),                                                \
        .alignment = _Alignof(heddle_##struct_name##_t), .value_kind = k,                          \
        .value_bytes = sizeof(((heddle_##struct_name##_t *)0)->value),                             \
        .index_offset = offsetof(heddle_##struct_name##_t, index),                                 \
        .index_bytes = sizeof(((heddle_##struct_name##_t *)0)->index)                              \
    }

const reference_dt_t reference_datatypes[] = {
    PREDEFINED(0, "int8", REFERENCE_INT, 1, 1),
    PREDEFINED(1, "int16", REFERENCE_INT, 2, 2),
    PREDEFINED(2, "int32", REFERENCE_INT, 4, 4),
    PREDEFINED(3, "int64", REFERENCE_INT, 8, 8),
    PREDEFINED(4, "int128", REFERENCE_INT, 16, 16),
    PREDEFINED(5, "uint8", REFERENCE_UINT, 1, 1),
    PREDEFINED(6, "uint16", REFERENCE_UINT, 2, 2),
    PREDEFINED(7, "uint32", REFERENCE_UINT, 4, 4),
    PREDEFINED(8, "uint64", REFERENCE_UINT, 8, 8),
    PREDEFINED(9, "uint128", REFERENCE_UINT, 16, 16),
    PREDEFINED(10, "float16", REFERENCE_FLOAT16, 2, 2),
    PREDEFINED(11, "float32", REFERENCE_FLOAT32, 4, 4),
    PREDEFINED(12, "float64", REFERENCE_FLOAT64, 8, 8),
    PREDEFINED(13, "bfloat16", REFERENCE_BFLOAT16, 2, 2),
    PREDEFINED(14, "float128", REFERENCE_FLOAT128, 16, 16),
    PREDEFINED(15, "float32_complex", REFERENCE_COMPLEX32, 8, 4),
    PREDEFINED(16, "float64_complex", REFERENCE_COMPLEX64, 16, 8),
    PREDEFINED(17, "float128_complex", REFERENCE_COMPLEX128, 32, 16),
    PAIR(64, float32_int32, REFERENCE_FLOAT32),
    PAIR(65, float64_int32, REFERENCE_FLOAT64),
    PAIR(66, int16_int32, REFERENCE_INT),
    PAIR(67, int32_int32, REFERENCE_INT),
    PAIR(68, int64_int32, REFERENCE_INT),
    PAIR(69, float32_int64, REFERENCE_FLOAT32),
    PAIR(70, float64_int64, REFERENCE_FLOAT64),
    PAIR(71, int64_int64, REFERENCE_INT),
    PAIR(72, float128_int32, REFERENCE_FLOAT128),
};

const uint32_t reference_n_datatypes = sizeof(reference_datatypes) / sizeof(reference_datatypes[0]);

const reference_dt_t *reference_datatype(ucc_datatype_t handle) {
    for (uint32_t i = 0; i < reference_n_datatypes; i++) {
        if (reference_datatypes[i].handle == handle) {
            return &reference_datatypes[i];
        }
    }
    return NULL;
}

const char *reference_op_name(ucc_reduction_op_t op) {
    static const char *const names[UCC_OP_LAST] = {"sum",    "prod",   "max",  "min", "land",
                                                   "lor",    "lxor",   "band", "bor", "bxor",
                                                   "maxloc", "minloc", "avg"};
    return (unsigned)op < UCC_OP_LAST ? names[op] : "?";
}

static bool is_integer(reference_kind_t kind) {
    return kind == REFERENCE_INT || kind == REFERENCE_UINT;
}

static bool is_complex(reference_kind_t kind) {
    return kind >= REFERENCE_COMPLEX32 && kind <= REFERENCE_COMPLEX128;
}

bool reference_op_valid(const reference_dt_t *dt, ucc_reduction_op_t op) {
    if (dt->kind == REFERENCE_USER) {
        return dt->combine != NULL;
    }
    if (dt->kind == REFERENCE_PAIR || op == UCC_OP_MINLOC || op == UCC_OP_MAXLOC) {
        return dt->kind == REFERENCE_PAIR && (op == UCC_OP_MINLOC || op == UCC_OP_MAXLOC);
    }
    switch (op) {
    case UCC_OP_SUM:
    case UCC_OP_PROD:
        return true;
    case UCC_OP_MAX:
    case UCC_OP_MIN:
        return !is_complex(dt->kind);
    case UCC_OP_AVG:
        return !is_integer(dt->kind) || dt->extent < 16;
    default:
        return is_integer(dt->kind);
    }
}

/* --- elements --- */

static void clear(unsigned char *element, size_t from, size_t to) {
    memset(element + from, 0, to - from);
}

void reference_clear_padding(const reference_dt_t *dt, unsigned char *elements, uint64_t count) {
    enum { VALUE_BYTES = LDBL_MANT_DIG == 64 ? 10 : 16 };
    for (uint64_t e = 0; e < count; e++) {
        unsigned char *element = elements + e * dt->extent;
        if (dt->kind == REFERENCE_FLOAT128 || dt->kind == REFERENCE_COMPLEX128) {
            for (size_t part = 0; part < dt->extent; part += sizeof(long double)) {
                clear(element, part + VALUE_BYTES, part + sizeof(long double));
            }
        } else if (dt->kind == REFERENCE_PAIR) {
            size_t value = dt->value_bytes == sizeof(long double) ? VALUE_BYTES : dt->value_bytes;
            clear(element, value, dt->index_offset);
            clear(element, dt->index_offset + dt->index_bytes, dt->extent);
        }
    }
}

/* A value of magnitude 0.5 to 1.5 and random sign; products of 33 of them stay finite. */
static long double random_real(uint64_t bits) {
    long double magnitude = 0.5L + (long double)(bits >> 2) * 0x1p-62L;
    return (bits & 1) != 0 ? -magnitude : magnitude;
}

static void random_part(reference_kind_t kind, unsigned char *at, uint64_t bits) {
    long double value = random_real(bits);
    uint16_t half;
    float f = (float)value;
    double d = (double)value;
    switch (kind) {
    case REFERENCE_FLOAT16:
        half = float16_from_float(f);
        memcpy(at, &half, sizeof(half));
        break;
    case REFERENCE_BFLOAT16:
        half = bfloat16_from_float(f);
        memcpy(at, &half, sizeof(half));
        break;
    case REFERENCE_FLOAT32:
    case REFERENCE_COMPLEX32:
        memcpy(at, &f, sizeof(f));
        break;
    case REFERENCE_FLOAT64:
    case REFERENCE_COMPLEX64:
        memcpy(at, &d, sizeof(d));
        break;
    default:
        memcpy(at, &value, sizeof(value));
        break;
    }
}

static void random_bytes(unsigned char *at, size_t n, uint64_t (*random)(void *state),
                         void *state) {
    while (n > 0) {
        uint64_t bits = random(state);
        size_t part = n < sizeof(bits) ? n : sizeof(bits);
        memcpy(at, &bits, part);
        at += part;
        n -= part;
    }
}

/* Pairs draw from few values and indices, so that ties occur. */
static void random_pair(const reference_dt_t *dt, unsigned char *element, uint64_t bits) {
    int64_t value = (int64_t)(bits % 5) - 2;
    int64_t index = (int64_t)((bits >> 32) % 7);
    float f = (float)value;
    double d = (double)value;
    long double l = (long double)value;
    memset(element, 0, dt->extent);
    switch (dt->value_kind) {
    case REFERENCE_INT:
        memcpy(element, &value, dt->value_bytes);
        break;
    case REFERENCE_FLOAT32:
        memcpy(element, &f, sizeof(f));
        break;
    case REFERENCE_FLOAT64:
        memcpy(element, &d, sizeof(d));
        break;
    default:
        memcpy(element, &l, sizeof(l));
        break;
    }
    memcpy(element + dt->index_offset, &index, dt->index_bytes);
}

void reference_random_element(const reference_dt_t *dt, ucc_reduction_op_t op,
                              unsigned char *element, uint64_t (*random)(void *state),
                              void *state) {
    bool logical = op == UCC_OP_LAND || op == UCC_OP_LOR || op == UCC_OP_LXOR;
    if (dt->kind == REFERENCE_USER || (is_integer(dt->kind) && !logical)) {
        random_bytes(element, dt->extent, random, state);
    } else if (is_integer(dt->kind)) { /* zeros must be neither rare nor the rule */
        random_bytes(element, dt->extent, random, state);
        if (random(state) % 4 == 0) {
            memset(element, 0, dt->extent);
        }
    } else if (dt->kind == REFERENCE_PAIR) {
        random_pair(dt, element, random(state));
    } else {
        size_t part = is_complex(dt->kind) ? dt->extent / 2 : dt->extent;
        for (size_t offset = 0; offset < dt->extent; offset += part) {
            random_part(dt->kind, element + offset, random(state));
        }
    }
}
