/* reference.c: data movement of the reference; the arithmetic is in reference_reduce.c. See
 * reference.h. Every function is a direct transcription of the table there.
 */
#include "reference.h"

#include "support/deadline.h"

#include <heddle/heddle.h>
#include <stdlib.h>
#include <string.h>

static uint64_t at(const reference_coll_t *c, const uint64_t *matrix, uint32_t row,
                   uint32_t column) {
    return matrix[(size_t)row * c->size + column];
}

static void move(const reference_dt_t *dt, unsigned char *dst, const unsigned char *src,
                 uint64_t count) {
    if (dt->moved == NULL) {
        memmove(dst, src, count * dt->extent);
        return;
    }
    for (uint64_t e = 0; e < count; e++) {
        for (size_t b = 0; b < dt->extent; b++) {
            if (dt->moved[b]) {
                dst[e * dt->extent + b] = src[e * dt->extent + b];
            }
        }
    }
}

static void gather_at(const reference_coll_t *c, uint32_t i, bool own_in_place) {
    for (uint32_t j = 0; j < c->size; j++) {
        if (j != i || !own_in_place) {
            uint64_t offset = at(c, c->dst_displacements, i, j) * c->dt->extent;
            move(c->dt, c->dst[i] + offset, c->src[j], at(c, c->counts, i, j));
        }
    }
}

/* In place the contributions are the peers' own blocks, where they lie in the peers' dst. */
static void allgather(const reference_coll_t *c) {
    unsigned char **src = must_alloc(c->size, sizeof(*src));
    for (uint32_t j = 0; j < c->size; j++) {
        src[j] =
            c->in_place ? c->dst[j] + at(c, c->dst_displacements, j, j) * c->dt->extent : c->src[j];
    }
    reference_coll_t view = *c;
    view.src = src;
    for (uint32_t i = 0; i < c->size; i++) {
        gather_at(&view, i, c->in_place);
    }
    free(src);
}

static void scatter(const reference_coll_t *c) {
    for (uint32_t i = 0; i < c->size; i++) {
        if (i != c->root || !c->in_place) {
            uint64_t offset = at(c, c->src_displacements, c->root, i) * c->dt->extent;
            move(c->dt, c->dst[i], c->src[c->root] + offset, at(c, c->counts, c->root, i));
        }
    }
}

/* Elements from the start of endpoint i's dst to the end of its furthest block. */
static uint64_t dst_span(const reference_coll_t *c, uint32_t i) {
    uint64_t span = 0;
    for (uint32_t j = 0; j < c->size; j++) {
        uint64_t end = at(c, c->dst_displacements, i, j) + at(c, c->counts, j, i);
        span = end > span ? end : span;
    }
    return span;
}

static void alltoall_from(const reference_coll_t *c, unsigned char *const *src,
                          const uint64_t *displacements) {
    for (uint32_t i = 0; i < c->size; i++) {
        for (uint32_t j = 0; j < c->size; j++) {
            move(c->dt, c->dst[j] + at(c, c->dst_displacements, j, i) * c->dt->extent,
                 src[i] + at(c, displacements, i, j) * c->dt->extent, at(c, c->counts, i, j));
        }
    }
}

/* In place everybody's dst is copied away before anybody writes there. */
static void alltoall(const reference_coll_t *c) {
    if (!c->in_place) {
        alltoall_from(c, c->src, c->src_displacements);
        return;
    }
    unsigned char **copies = must_alloc(c->size, sizeof(*copies));
    for (uint32_t i = 0; i < c->size; i++) {
        uint64_t bytes = dst_span(c, i) * c->dt->extent;
        copies[i] = must_alloc(bytes, 1);
        memcpy(copies[i], c->dst[i], bytes);
    }
    alltoall_from(c, copies, c->dst_displacements);
    for (uint32_t i = 0; i < c->size; i++) {
        free(copies[i]);
    }
    free(copies);
}

static void bcast(const reference_coll_t *c) {
    for (uint32_t i = 0; i < c->size; i++) {
        move(c->dt, c->dst[i], c->dst[c->root], c->counts[0]);
    }
}

/* The reduction of all operands, `count` elements; the caller frees it. */
static unsigned char *reduction(const reference_coll_t *c, uint64_t count) {
    unsigned char **operands = must_alloc(c->size, sizeof(*operands));
    unsigned char *result = must_alloc(count, c->dt->extent);
    for (uint32_t i = 0; i < c->size; i++) {
        bool in_dst = c->in_place && (c->type != UCC_COLL_TYPE_REDUCE || i == c->root);
        operands[i] = in_dst ? c->dst[i] : c->src[i];
    }
    if (c->process_of != NULL) {
        reference_reduce_across(c->dt, c->op, operands, c->process_of, c->size, count, result);
    } else {
        reference_reduce(c->dt, c->op, operands, c->size, count, result);
    }
    free(operands);
    return result;
}

static void reduce(const reference_coll_t *c) {
    unsigned char *result = reduction(c, c->counts[0]);
    for (uint32_t i = 0; i < c->size; i++) {
        if (c->type == UCC_COLL_TYPE_ALLREDUCE || i == c->root) {
            memcpy(c->dst[i], result, c->counts[0] * c->dt->extent);
        }
    }
    free(result);
}

/* Strictly from the left; each prefix is stored before it is combined with the next source. */
static void scan(const reference_coll_t *c) {
    size_t bytes = c->counts[0] * c->dt->extent;
    unsigned char *prefix = must_alloc(bytes ? bytes : 1, 1);
    unsigned char *operand = must_alloc(bytes ? bytes : 1, 1);
    for (uint32_t i = 0; i < c->size; i++) {
        memcpy(operand, c->in_place ? c->dst[i] : c->src[i], bytes);
        if (c->type == UCC_COLL_TYPE_EXSCAN && i > 0) {
            memcpy(c->dst[i], prefix, bytes);
        }
        if (i == 0) {
            memcpy(prefix, operand, bytes);
        } else {
            unsigned char *two[2] = {prefix, operand};
            reference_reduce(c->dt, c->op, two, 2, c->counts[0], prefix);
        }
        if (c->type == UCC_COLL_TYPE_SCAN) {
            memcpy(c->dst[i], prefix, bytes);
        }
    }
    free(prefix);
    free(operand);
}

static void reduce_scatter(const reference_coll_t *c) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < c->size; i++) {
        total += c->counts[i];
    }
    unsigned char *result = reduction(c, total);
    uint64_t offset = 0;
    for (uint32_t i = 0; i < c->size; i++) {
        memcpy(c->dst[i] + (c->in_place ? offset : 0), result + offset,
               c->counts[i] * c->dt->extent);
        offset += c->counts[i] * c->dt->extent;
    }
    free(result);
}

void reference_collective(const reference_coll_t *c) {
    switch ((uint64_t)c->type) {
    case UCC_COLL_TYPE_ALLGATHER:
    case UCC_COLL_TYPE_ALLGATHERV:
        allgather(c);
        break;
    case UCC_COLL_TYPE_GATHER:
    case UCC_COLL_TYPE_GATHERV:
        gather_at(c, c->root, c->in_place);
        break;
    case UCC_COLL_TYPE_SCATTER:
    case UCC_COLL_TYPE_SCATTERV:
        scatter(c);
        break;
    case UCC_COLL_TYPE_ALLTOALL:
    case UCC_COLL_TYPE_ALLTOALLV:
        alltoall(c);
        break;
    case UCC_COLL_TYPE_BCAST:
    case (uint64_t)UCC_COLL_TYPE_MCAST:
        bcast(c);
        break;
    case UCC_COLL_TYPE_REDUCE:
    case UCC_COLL_TYPE_ALLREDUCE:
        reduce(c);
        break;
    case UCC_COLL_TYPE_REDUCE_SCATTER:
    case UCC_COLL_TYPE_REDUCE_SCATTERV:
        reduce_scatter(c);
        break;
    case (uint64_t)UCC_COLL_TYPE_SCAN:
    case (uint64_t)UCC_COLL_TYPE_EXSCAN:
        scan(c);
        break;
    default: /* barrier, fanin, fanout move nothing */
        break;
    }
}

const char *reference_coll_name(ucc_coll_type_t type) {
    static const char *const names[] = {
        "allgather", "allgatherv", "allreduce",      "alltoall",        "alltoallv",
        "barrier",   "bcast",      "fanin",          "fanout",          "gather",
        "gatherv",   "reduce",     "reduce_scatter", "reduce_scatterv", "scatter",
        "scatterv",  "mcast",      "scan",           "exscan"};
    for (size_t bit = 0; bit < sizeof(names) / sizeof(names[0]); bit++) {
        if ((uint64_t)type == UCC_BIT(bit)) {
            return names[bit];
        }
    }
    return "?";
}
