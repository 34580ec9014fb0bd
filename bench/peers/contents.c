/* contents.c: what sources contain, and what results must be, by definition of each collective. */
#include <string.h>

#include "parts.h"

/* ------------------------------------------------------------------------------------------------
 * Who has what
 * ---------------------------------------------------------------------------------------------- */

/* alltoallv: where the blocks of participant r begin: the sum of its blocks before b. */
uint64_t bench_position(const bench_case_t *c, uint32_t r, uint32_t b) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < b; i++) {
        at += c->counts[c->coll->id == BENCH_ALLTOALLV ? r + i : i];
    }
    return at;
}

uint64_t bench_elements(const bench_case_t *c, bench_shape_t shape) {
    switch (shape) {
    case BENCH_BLOCK:
        return (c->coll->traits & BENCH_WHOLE) != 0 ? c->count : c->counts[c->rank];
    case BENCH_BLOCKS:
        if (c->coll->id == BENCH_ALLTOALLV) {
            return bench_position(c, c->rank, c->participants);
        }
        return c->total;
    case BENCH_NOTHING:
        break;
    }
    return 0;
}

bool bench_sends(const bench_case_t *c, uint32_t root) {
    return (c->coll->traits & BENCH_ROOT_SENDS) == 0 || c->rank == root;
}

bool bench_receives(const bench_case_t *c, uint32_t root) {
    if (c->coll->id == BENCH_BCAST) {
        return c->rank != root;
    }
    return (c->coll->traits & BENCH_ROOT_RECEIVES) == 0 || c->rank == root;
}

unsigned char *bench_result(const bench_case_t *c, uint64_t *elements) {
    if (c->coll->id == BENCH_BCAST) {
        *elements = c->count;
        return c->source;
    }
    *elements = bench_elements(c, c->coll->destination);
    return c->destination;
}

/* ------------------------------------------------------------------------------------------------
 * Contents
 * ---------------------------------------------------------------------------------------------- */

/* Element i of a participant's source: exactly representable, as are all sums of them. */
static double content(uint32_t rank, uint64_t i) {
    return (double)((i + rank * UINT64_C(7919)) % 65521 + 1);
}

static void put(const bench_case_t *c, unsigned char *buffer, uint64_t i, double value) {
    if (c->width == sizeof(float)) {
        float narrow = (float)value;
        memcpy(buffer + i * sizeof(narrow), &narrow, sizeof(narrow));
    } else {
        memcpy(buffer + i * sizeof(value), &value, sizeof(value));
    }
}

static double get(const bench_case_t *c, const unsigned char *buffer, uint64_t i) {
    double value;
    if (c->width == sizeof(float)) {
        float narrow;
        memcpy(&narrow, buffer + i * sizeof(narrow), sizeof(narrow));
        return (double)narrow;
    }
    memcpy(&value, buffer + i * sizeof(value), sizeof(value));
    return value;
}

void bench_fill(bench_case_t *c) {
    uint64_t elements = bench_elements(c, c->coll->source);
    for (uint64_t i = 0; i < elements; i++) {
        put(c, c->source, i, content(c->rank, i));
    }
    memset(c->destination, 0xff, bench_elements(c, c->coll->destination) * c->width);
}

/* Wrong elements among `elements` that should be those of `from`, or everybody's sum, at `at`. */
static uint64_t check_run(const bench_case_t *c, const unsigned char *buffer, uint64_t begin,
                          uint64_t elements, uint32_t from, uint64_t at) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < elements; i++) {
        double expected = 0.0;
        if ((c->coll->traits & BENCH_SUMS) != 0) {
            for (uint32_t r = 0; r < c->participants; r++) {
                expected += content(r, at + i);
            }
        } else {
            expected = content(from, at + i);
        }
        wrong += get(c, buffer, begin + i) != expected;
    }
    return wrong;
}

uint64_t bench_check(const bench_case_t *c, uint32_t root) {
    uint64_t elements, wrong = 0;
    const unsigned char *buffer = bench_result(c, &elements);
    switch (c->coll->id) {
    case BENCH_BCAST:
        return check_run(c, buffer, 0, elements, root, 0);
    case BENCH_COPY:
    case BENCH_STREAM:
        return check_run(c, buffer, 0, elements, c->rank, 0);
    case BENCH_REDUCE_SCATTER:
    case BENCH_REDUCE_SCATTERV:
    case BENCH_SCATTER:
    case BENCH_SCATTERV:
        return check_run(c, buffer, 0, elements, root, c->displacements[c->rank]);
    case BENCH_ALLGATHER:
    case BENCH_ALLGATHERV:
    case BENCH_GATHER:
    case BENCH_GATHERV:
        for (uint32_t r = 0; r < c->participants; r++) {
            wrong += check_run(c, buffer, c->displacements[r], c->counts[r], r, 0);
        }
        return wrong;
    case BENCH_ALLTOALL:
    case BENCH_ALLTOALLV:
        for (uint32_t r = 0; r < c->participants; r++) {
            uint32_t pair = c->coll->id == BENCH_ALLTOALLV ? r + c->rank : r;
            wrong += check_run(c, buffer, c->own_displacements[r], c->counts[pair], r,
                               bench_position(c, r, c->rank));
        }
        return wrong;
    default:
        return check_run(c, buffer, 0, elements, 0, 0);
    }
}
