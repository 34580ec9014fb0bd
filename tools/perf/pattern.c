/* pattern.c: sources and the expectation that results are compared with.
 *
 * Data movement is compared byte by byte: byte i of the block that endpoint s sends to endpoint d
 * is a function of (s, d, i), where d is 0 when everybody receives the same block.
 *
 * Reductions use small whole numbers v(s, i) that depend on i modulo PERF_PERIOD only, chosen so
 * that every datatype holds all partial results exactly (up to a few thousand endpoints for the
 * wide ones; the 16-bit ones get a tolerance). So any order of operands gives the same expectation,
 * and it is computed once, with a plain loop over endpoints, in double precision.
 */
#include "perf.h"

#include <math.h>
#include <string.h>

enum { POISON = 0xa5 };

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
    case UCC_OP_MAXLOC: /* every other value twice, so that the index has to decide */
    case UCC_OP_MINLOC:
        s = k % 2 == 0 ? s / 2 : s;
        return (double)((s * 29 + k * 31) % 113);
    default:
        return (double)((s * 5 + k * 3) % 7);
    }
}

/* The imaginary part, or a pair's index: falling, so that the winner of equal values is not simply
 * the first. */
static double input_second(const perf_options_t *o, uint32_t s, uint64_t i) {
    if (o->datatype->kind == PERF_KIND_PAIR) {
        return (double)(o->endpoints - s);
    }
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

/* b replaces a where it wins: the value decides, of equal values the smaller index. */
static void combine_pair(ucc_reduction_op_t op, double a[2], const double b[2]) {
    bool better = op == UCC_OP_MAXLOC ? b[0] > a[0] : b[0] < a[0];
    if (better || (a[0] == b[0] && b[1] < a[1])) {
        a[0] = b[0];
        a[1] = b[1];
    }
}

/* Of the first `operands` endpoints. */
static void compute(const perf_options_t *o, uint32_t operands, perf_expectation_t *expectation) {
    ucc_reduction_op_t op = o->operation->op;
    for (uint32_t k = 0; k < PERF_PERIOD; k++) {
        double sum[2] = {input_value(o, 0, k), input_second(o, 0, k)};
        for (uint32_t s = 1; s < operands; s++) {
            double next[2] = {input_value(o, s, k), input_second(o, s, k)};
            if (o->datatype->kind == PERF_KIND_PAIR) {
                combine_pair(op, sum, next);
            } else {
                sum[0] = combine(op, sum[0], next[0]);
                sum[1] += next[1];
            }
        }
        double divisor = op == UCC_OP_AVG ? (double)o->endpoints : 1.0;
        expectation->first[k] = sum[0] / divisor;
        expectation->second[k] = sum[1] / divisor;
    }
}

void perf_expectation_compute(const perf_options_t *o, perf_expectation_t *expectation) {
    compute(o, o->endpoints, expectation);
}

static void fill_values(const perf_case_t *c, uint32_t s, uint64_t count, unsigned char *buffer) {
    const perf_datatype_t *datatype = c->options->datatype;
    uint64_t first = count < PERF_PERIOD ? count : PERF_PERIOD;
    for (uint64_t i = 0; i < first; i++) {
        perf_encode(datatype, input_value(c->options, s, i), input_second(c->options, s, i),
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

static bool nearly_equal(const perf_options_t *o, const void *element, double first,
                         double second) {
    double value[2];
    perf_decode(o->datatype, element, value);
    double slack = tolerance(o);
    /* written so that a NaN is unequal */
    return fabs(value[0] - first) <= slack * fabs(first) &&
           fabs(value[1] - second) <= slack * fabs(second);
}

static uint64_t check_values(const perf_case_t *c, uint64_t first, uint64_t count,
                             const unsigned char *buffer, const perf_expectation_t *expectation) {
    const perf_options_t *o = c->options;
    size_t width = o->datatype->bytes;
    bool integer = o->datatype->kind == PERF_KIND_SIGNED || o->datatype->kind == PERF_KIND_UNSIGNED;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t k = (first + i) % PERF_PERIOD;
        unsigned char exact[PERF_ELEMENT_MAX];
        if (integer) { /* sums wrap around: compared as they are stored */
            perf_encode(o->datatype, expectation->first[k], 0.0, exact);
            wrong += memcmp(buffer + i * width, exact, width) != 0;
        } else {
            wrong +=
                !nearly_equal(o, buffer + i * width, expectation->first[k], expectation->second[k]);
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
        if (!one || e->index == e->root) {
            fill_bytes(c, e->index, 0, one ? c->count : c->counts[e->index], in + at * width);
        }
        return;
    }
    if (rooted && e->index != e->root) {
        return;
    }
    for (uint32_t d = 0; d < n; d++) {
        fill_bytes(c, e->index, d, perf_block_count(c, e->index, d),
                   in + perf_block_position(c, e, d) * width);
    }
}

static uint64_t check_movement(const perf_case_t *c, const perf_endpoint_t *e) {
    uint32_t n = c->options->endpoints, width = c->options->datatype->bytes;
    uint32_t root = e->root;
    if (c->coll->destination == PERF_SHAPE_NONE) { /* bcast, mcast: one buffer for both */
        return check_bytes(c, root, 0, c->count, e->source);
    }
    if (c->coll->destination == PERF_SHAPE_BLOCK) { /* scatter: in place the block stays in src */
        const unsigned char *at = e->destination;
        if (perf_is_in_place(c, e)) {
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
    bool in_place = perf_is_in_place(c, e) && !perf_scatters(c->coll);
    unsigned char *in = in_place ? e->destination : e->source;
    if ((c->coll->traits & PERF_REDUCES) != 0) {
        uint64_t count = c->coll->source == PERF_SHAPE_BLOCKS ? c->total : c->count;
        fill_values(c, e->index, count, in);
    } else {
        fill_movement(c, e, in);
    }
}

/* scan, exscan, whose first endpoint has no result */
static uint64_t check_prefix(const perf_case_t *c, const perf_endpoint_t *e) {
    perf_expectation_t prefix;
    uint32_t operands = e->index + ((uint64_t)c->coll->type == UCC_COLL_TYPE_SCAN);
    if (operands == 0) {
        return 0;
    }
    compute(c->options, operands, &prefix);
    return check_values(c, 0, c->count, e->destination, &prefix);
}

uint64_t perf_pattern_check(const perf_case_t *c, const perf_endpoint_t *e,
                            const perf_expectation_t *expectation) {
    if (c->coll->source == PERF_SHAPE_NONE) {
        return 0;
    }
    if ((c->coll->traits & PERF_REDUCES) == 0) {
        return check_movement(c, e);
    }
    if ((c->coll->traits & PERF_ROOTED) != 0 && e->index != e->root) {
        return 0;
    }
    if ((c->coll->traits & PERF_PREFIX) != 0) {
        return check_prefix(c, e);
    }
    if (c->coll->source == PERF_SHAPE_BLOCK) {
        return check_values(c, 0, c->count, e->destination, expectation);
    }
    uint64_t first = c->displacements[e->index];
    const unsigned char *at = e->destination;
    if (perf_is_in_place(c, e)) {
        at += first * c->options->datatype->bytes;
    }
    return check_values(c, first, c->counts[e->index], at, expectation);
}
