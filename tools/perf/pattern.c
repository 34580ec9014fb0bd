/* pattern.c: sources and the expectation that results are compared with.
 *
 * Data movement is compared byte by byte: byte i of the block that endpoint s sends to endpoint d is
 * a function of (s, d, i), where d is 0 when everybody receives the same block.
 *
 * Reductions use small whole numbers v(s, i) that depend on i modulo PERF_PERIOD only, chosen so that
 * every datatype holds all partial results exactly (up to a few thousand endpoints for the wide
 * ones; the 16-bit ones get a tolerance). So any order of operands gives the same expectation, and it
 * is computed once, with a plain loop over endpoints, in double precision.
 */
#include "perf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const perf_datatype_t datatypes[] = {
    {"int8", UCC_DT_INT8, 1, PERF_KIND_SIGNED},
    {"int16", UCC_DT_INT16, 2, PERF_KIND_SIGNED},
    {"int32", UCC_DT_INT32, 4, PERF_KIND_SIGNED},
    {"int64", UCC_DT_INT64, 8, PERF_KIND_SIGNED},
    {"uint8", UCC_DT_UINT8, 1, PERF_KIND_UNSIGNED},
    {"uint16", UCC_DT_UINT16, 2, PERF_KIND_UNSIGNED},
    {"uint32", UCC_DT_UINT32, 4, PERF_KIND_UNSIGNED},
    {"uint64", UCC_DT_UINT64, 8, PERF_KIND_UNSIGNED},
    {"float16", UCC_DT_FLOAT16, 2, PERF_KIND_FLOAT},
    {"bfloat16", UCC_DT_BFLOAT16, 2, PERF_KIND_FLOAT},
    {"float32", UCC_DT_FLOAT32, 4, PERF_KIND_FLOAT},
    {"float64", UCC_DT_FLOAT64, 8, PERF_KIND_FLOAT},
    {"float32_complex", UCC_DT_FLOAT32_COMPLEX, 8, PERF_KIND_COMPLEX},
    {"float64_complex", UCC_DT_FLOAT64_COMPLEX, 16, PERF_KIND_COMPLEX},
};

static const perf_operation_t operations[] = {
    {"sum", UCC_OP_SUM},   {"prod", UCC_OP_PROD}, {"max", UCC_OP_MAX},   {"min", UCC_OP_MIN},
    {"land", UCC_OP_LAND}, {"lor", UCC_OP_LOR},   {"lxor", UCC_OP_LXOR}, {"band", UCC_OP_BAND},
    {"bor", UCC_OP_BOR},   {"bxor", UCC_OP_BXOR}, {"avg", UCC_OP_AVG},
};

enum { POISON = 0xa5 };

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
    switch (op) {
    case UCC_OP_SUM:
    case UCC_OP_PROD:
        return true;
    case UCC_OP_AVG:
        return !integer;
    case UCC_OP_MAX:
    case UCC_OP_MIN:
        return datatype->kind != PERF_KIND_COMPLEX;
    case UCC_OP_LAND:
    case UCC_OP_LOR:
    case UCC_OP_LXOR:
    case UCC_OP_BAND:
    case UCC_OP_BOR:
    case UCC_OP_BXOR:
        return integer;
    default:
        return false;
    }
}

/* ------------------------------------------------------------------------------------------------
 * Whole numbers to and from every datatype
 * ---------------------------------------------------------------------------------------------- */

/* Only small non-negative whole numbers are encoded, and only 16-bit results decoded: no rounding. */
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

/* Little-endian hosts only, as the library: the low bytes of the 64-bit number are the element. */
static void encode(const perf_datatype_t *datatype, double real, double imaginary, void *element) {
    float narrow[2] = {(float)real, (float)imaginary};
    double wide[2] = {real, imaginary};
    uint16_t half = datatype->dt == UCC_DT_FLOAT16 ? to_float16(real) : to_bfloat16(real);
    int64_t whole = (int64_t)real;
    const void *from = &whole;
    if (datatype->kind == PERF_KIND_FLOAT || datatype->kind == PERF_KIND_COMPLEX) {
        uint32_t part = datatype->kind == PERF_KIND_COMPLEX ? datatype->bytes / 2 : datatype->bytes;
        from = part == 2 ? (const void *)&half : part == 4 ? (const void *)narrow : wide;
    }
    memcpy(element, from, datatype->bytes);
}

static void decode_float(const perf_datatype_t *datatype, const void *element, double value[2]) {
    float narrow[2] = {0.0F, 0.0F};
    uint16_t half;
    uint32_t part = datatype->kind == PERF_KIND_COMPLEX ? datatype->bytes / 2 : datatype->bytes;
    value[0] = 0.0;
    value[1] = 0.0;
    if (part == 2) {
        memcpy(&half, element, sizeof(half));
        value[0] = datatype->dt == UCC_DT_FLOAT16 ? from_float16(half) : from_bfloat16(half);
    } else if (part == 4) {
        memcpy(narrow, element, datatype->bytes);
        value[0] = (double)narrow[0];
        value[1] = (double)narrow[1];
    } else {
        memcpy(value, element, datatype->bytes);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Reductions
 * ---------------------------------------------------------------------------------------------- */

/* The value of endpoint s at element i. Sums stay small (0..6 each); products have at most three
 * factors other than one; logical operations need zeros that are neither everywhere nor nowhere. */
static double input_value(const perf_options_t *o, uint32_t s, uint64_t i) {
    uint64_t k = i % PERF_PERIOD;
    switch (o->operation->op) {
    case UCC_OP_PROD:
        return (s + k) % o->endpoints < 3 ? (double)(1 + k % 3) : 1.0;
    case UCC_OP_LAND:
        return (k % 5 == 0 && s == k % o->endpoints) ? 0.0 : (double)(1 + (s + k) % 3);
    case UCC_OP_LOR:
        return (k % 3 == 0 && s == k % o->endpoints) ? 2.0 : 0.0;
    case UCC_OP_BAND:
        return (double)(0x7f ^ (1U << ((s * 3 + k) % 7)));
    case UCC_OP_BOR:
        return (double)(1U << ((s * 3 + k) % 7));
    case UCC_OP_MAX:
    case UCC_OP_MIN:
        return (double)((s * 29 + k * 31) % 113);
    default:
        return (double)((s * 5 + k * 3) % 7);
    }
}

static double input_imaginary(const perf_options_t *o, uint32_t s, uint64_t i) {
    if (o->datatype->kind != PERF_KIND_COMPLEX || o->operation->op == UCC_OP_PROD) {
        return 0.0;
    }
    return (double)((s * 3 + (i % PERF_PERIOD)) % 5);
}

static double combine(ucc_reduction_op_t op, double a, double b) {
    int64_t x = (int64_t)a, y = (int64_t)b;
    switch (op) {
    case UCC_OP_PROD:
        return a * b;
    case UCC_OP_MAX:
        return a > b ? a : b;
    case UCC_OP_MIN:
        return a < b ? a : b;
    case UCC_OP_LAND:
        return (double)(x != 0 && y != 0);
    case UCC_OP_LOR:
        return (double)(x != 0 || y != 0);
    case UCC_OP_LXOR:
        return (double)((x != 0) != (y != 0));
    case UCC_OP_BAND:
        return (double)(x & y);
    case UCC_OP_BOR:
        return (double)(x | y);
    case UCC_OP_BXOR:
        return (double)(x ^ y);
    default:
        return a + b;
    }
}

void perf_expectation_compute(const perf_options_t *o, perf_expectation_t *expectation) {
    ucc_reduction_op_t op = o->operation->op;
    for (uint32_t k = 0; k < PERF_PERIOD; k++) {
        double real = input_value(o, 0, k), imaginary = input_imaginary(o, 0, k);
        for (uint32_t s = 1; s < o->endpoints; s++) {
            real = combine(op, real, input_value(o, s, k));
            imaginary += input_imaginary(o, s, k);
        }
        double divisor = op == UCC_OP_AVG ? (double)o->endpoints : 1.0;
        expectation->real[k] = real / divisor;
        expectation->imaginary[k] = imaginary / divisor;
    }
}

static void fill_values(const perf_case_t *c, uint32_t s, uint64_t count, unsigned char *buffer) {
    const perf_datatype_t *datatype = c->options->datatype;
    uint64_t first = count < PERF_PERIOD ? count : PERF_PERIOD;
    for (uint64_t i = 0; i < first; i++) {
        encode(datatype, input_value(c->options, s, i), input_imaginary(c->options, s, i),
               buffer + i * datatype->bytes);
    }
    size_t period = (size_t)PERF_PERIOD * datatype->bytes;
    for (size_t at = period; at < count * datatype->bytes; at += period) {
        size_t left = count * datatype->bytes - at;
        memcpy(buffer + at, buffer, left < period ? left : period);
    }
}

/* 16-bit types round once per block of eight endpoints, averages once more. */
static double tolerance(const perf_options_t *o) {
    bool average = o->operation->op == UCC_OP_AVG;
    double epsilon = 0.0;
    switch (o->datatype->dt) {
    case UCC_DT_FLOAT16:
        epsilon = 0x1p-9;
        break;
    case UCC_DT_BFLOAT16:
        epsilon = 0x1p-6;
        break;
    case UCC_DT_FLOAT32:
    case UCC_DT_FLOAT32_COMPLEX:
        epsilon = average ? 0x1p-21 : 0.0;
        break;
    default:
        epsilon = average ? 0x1p-50 : 0.0;
        break;
    }
    return epsilon;
}

static bool float_equal(const perf_options_t *o, const void *element, double real,
                        double imaginary) {
    double value[2];
    decode_float(o->datatype, element, value);
    double slack = tolerance(o);
    /* written so that a NaN is unequal */
    return fabs(value[0] - real) <= slack * fabs(real) &&
           fabs(value[1] - imaginary) <= slack * fabs(imaginary);
}

static uint64_t check_values(const perf_case_t *c, uint64_t first, uint64_t count,
                             const unsigned char *buffer, const perf_expectation_t *expectation) {
    const perf_options_t *o = c->options;
    size_t width = o->datatype->bytes;
    bool integer = o->datatype->kind == PERF_KIND_SIGNED || o->datatype->kind == PERF_KIND_UNSIGNED;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t k = (first + i) % PERF_PERIOD;
        unsigned char exact[16];
        if (integer) {
            encode(o->datatype, expectation->real[k], 0.0, exact);
            wrong += memcmp(buffer + i * width, exact, width) != 0;
        } else {
            wrong += !float_equal(o, buffer + i * width, expectation->real[k],
                                  expectation->imaginary[k]);
        }
    }
    return wrong;
}

/* ------------------------------------------------------------------------------------------------
 * Data movement
 * ---------------------------------------------------------------------------------------------- */

static unsigned char moved_byte(uint32_t s, uint32_t d, uint64_t i) {
    return (unsigned char)(i % PERF_PERIOD + (uint64_t)s * 37 + (uint64_t)d * 101 + (s >> 3));
}

static void fill_bytes(const perf_case_t *c, uint32_t s, uint32_t d, uint64_t count,
                       unsigned char *buffer) {
    uint64_t bytes = count * c->options->datatype->bytes;
    for (uint64_t i = 0; i < bytes; i++) {
        buffer[i] = moved_byte(s, d, i);
    }
}

static uint64_t check_bytes(const perf_case_t *c, uint32_t s, uint32_t d, uint64_t count,
                            const unsigned char *buffer) {
    uint32_t width = c->options->datatype->bytes;
    uint64_t wrong = 0;
    for (uint64_t element = 0; element < count; element++) {
        bool same = true;
        for (uint64_t i = element * width; i < (element + 1) * width; i++) {
            same = same && buffer[i] == moved_byte(s, d, i);
        }
        wrong += !same;
    }
    return wrong;
}

static void fill_movement(const perf_case_t *c, perf_endpoint_t *e, unsigned char *in) {
    uint32_t n = c->options->endpoints, width = c->options->datatype->bytes;
    bool rooted = (c->coll->traits & PERF_ROOTED) != 0;
    if (c->coll->source == PERF_SHAPE_BLOCK) {
        bool blocks = in == e->destination && c->coll->destination == PERF_SHAPE_BLOCKS;
        uint64_t at = blocks ? perf_block_position(c, e, e->index) : 0;
        bool one = c->coll->destination == PERF_SHAPE_NONE;
        if (!one || e->index == c->options->root) {
            fill_bytes(c, e->index, 0, one ? c->count : c->counts[e->index], in + at * width);
        }
        return;
    }
    if (rooted && e->index != c->options->root) {
        return;
    }
    for (uint32_t d = 0; d < n; d++) {
        fill_bytes(c, e->index, d, perf_block_count(c, e->index, d),
                   in + perf_block_position(c, e, d) * width);
    }
}

static uint64_t check_movement(const perf_case_t *c, const perf_endpoint_t *e) {
    uint32_t n = c->options->endpoints, width = c->options->datatype->bytes;
    uint32_t root = c->options->root;
    if (c->coll->destination == PERF_SHAPE_NONE) { /* bcast, mcast: one buffer for both */
        return check_bytes(c, root, 0, c->count, e->source);
    }
    if (c->coll->destination == PERF_SHAPE_BLOCK) { /* scatter: in place the block stays in src */
        const unsigned char *at = e->destination;
        if (perf_is_in_place(c, e->index)) {
            at = e->source + perf_block_position(c, e, e->index) * width;
        }
        return check_bytes(c, root, e->index, c->counts[e->index], at);
    }
    if ((c->coll->traits & PERF_ROOTED) != 0 && e->index != root) {
        return 0;
    }
    bool pairwise = (c->coll->traits & PERF_PAIRWISE) != 0;
    uint64_t wrong = 0;
    for (uint32_t s = 0; s < n; s++) {
        wrong += check_bytes(c, s, pairwise ? e->index : 0, perf_block_count(c, e->index, s),
                             e->destination + perf_block_position(c, e, s) * width);
    }
    return wrong;
}

/* ------------------------------------------------------------------------------------------------
 * Both
 * ---------------------------------------------------------------------------------------------- */

void perf_pattern_fill(const perf_case_t *c, perf_endpoint_t *e) {
    uint64_t source = perf_source_bytes(c), destination = perf_destination_bytes(c);
    if (source != 0) {
        memset(e->source, POISON, source);
    }
    if (destination != 0) {
        memset(e->destination, POISON, destination);
    }
    if (c->coll->source == PERF_SHAPE_NONE) {
        return;
    }
    bool scatters =
        c->coll->type == UCC_COLL_TYPE_SCATTER || c->coll->type == UCC_COLL_TYPE_SCATTERV;
    bool in_place = perf_is_in_place(c, e->index) && !scatters;
    unsigned char *in = in_place ? e->destination : e->source;
    if ((c->coll->traits & PERF_REDUCES) != 0) {
        uint64_t count = c->coll->source == PERF_SHAPE_BLOCKS ? c->total : c->count;
        fill_values(c, e->index, count, in);
    } else {
        fill_movement(c, e, in);
    }
}

uint64_t perf_pattern_check(const perf_case_t *c, const perf_endpoint_t *e,
                            const perf_expectation_t *expectation) {
    if (c->coll->source == PERF_SHAPE_NONE) {
        return 0;
    }
    if ((c->coll->traits & PERF_REDUCES) == 0) {
        return check_movement(c, e);
    }
    if ((c->coll->traits & PERF_ROOTED) != 0 && e->index != c->options->root) {
        return 0;
    }
    if (c->coll->source == PERF_SHAPE_BLOCK) {
        return check_values(c, 0, c->count, e->destination, expectation);
    }
    uint64_t first = c->displacements[e->index];
    const unsigned char *at = e->destination;
    if (perf_is_in_place(c, e->index)) {
        at += first * c->options->datatype->bytes;
    }
    return check_values(c, first, c->counts[e->index], at, expectation);
}
