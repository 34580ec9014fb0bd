/* blocks.c: see blocks.h. */
#include "blocks.h"
#include "deadline.h"
#include "random.h"

#include <heddle/heddle.h>
#include <stdlib.h>

static uint64_t random_count(const coll_case_t *c, uint64_t *random) {
    switch (coll_is_v(c->type) ? c->layout : LAYOUT_EQUAL) {
    case LAYOUT_EQUAL:
        return c->count;
    case LAYOUT_ZEROS:
        return random_below(random, 2) == 0 ? 0 : c->count;
    default:
        return random_below(random, 2 * c->count + 1);
    }
}

/* alltoallv: a matrix, symmetric in place, where what i sends to j is replaced by what j sends to
 * i. All others: one row of counts that everybody knows. */
static void fill_counts(const coll_case_t *c, uint64_t *counts, uint64_t *random) {
    bool matrix = c->type == UCC_COLL_TYPE_ALLTOALLV;
    for (uint32_t i = 0; i < c->size; i++) {
        for (uint32_t j = 0; j < c->size; j++) {
            uint64_t *count = &counts[(size_t)i * c->size + j];
            if (i == 0 || (matrix && (c->in_place == IN_PLACE_NO || j >= i))) {
                *count = random_count(c, random);
            } else if (matrix) {
                *count = counts[(size_t)j * c->size + i];
            } else {
                *count = counts[j];
            }
        }
    }
}

static void shuffle(uint32_t *order, uint32_t n, uint64_t *random) {
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = (uint32_t)random_below(random, i);
        uint32_t last = order[i - 1];
        order[i - 1] = order[k];
        order[k] = last;
    }
}

/* Places n blocks; the count of block j is counts[j * stride]. */
static void place(const coll_case_t *c, const uint64_t *counts, size_t stride,
                  uint64_t *displacements, uint64_t *random) {
    layout_t layout = coll_is_v(c->type) ? c->layout : LAYOUT_EQUAL;
    uint32_t *order = must_alloc(c->size, sizeof(*order));
    for (uint32_t j = 0; j < c->size; j++) {
        order[j] = j;
    }
    if (layout == LAYOUT_SHUFFLED) {
        shuffle(order, c->size, random);
    }
    uint64_t next = 0;
    for (uint32_t k = 0; k < c->size; k++) {
        if (layout == LAYOUT_GAPS || layout == LAYOUT_SHUFFLED) {
            next += random_below(random, 4);
        }
        displacements[order[k]] = next;
        next += counts[order[k] * stride];
    }
    free(order);
}

blocks_t blocks_create(const coll_case_t *c, uint64_t *random) {
    size_t n = c->size;
    blocks_t b = {.counts = must_alloc(n * n, sizeof(uint64_t)),
                  .src_displacements = must_alloc(n * n, sizeof(uint64_t)),
                  .dst_displacements = must_alloc(n * n, sizeof(uint64_t))};
    fill_counts(c, b.counts, random);
    for (size_t i = 0; i < n; i++) {
        bool matrix = c->type == UCC_COLL_TYPE_ALLTOALLV;
        place(c, b.counts + i * n, 1, b.src_displacements + i * n, random);
        place(c, matrix ? b.counts + i : b.counts, matrix ? n : 1, b.dst_displacements + i * n,
              random);
    }
    return b;
}

void blocks_free(blocks_t *blocks) {
    free(blocks->counts);
    free(blocks->src_displacements);
    free(blocks->dst_displacements);
}

bool case_in_place_at(const coll_case_t *c, uint32_t i) {
    if (c->in_place == IN_PLACE_NO || !coll_moves_data(c->type)) {
        return false;
    }
    if (c->type == UCC_COLL_TYPE_BCAST || (uint64_t)c->type == UCC_BIT(16)) {
        return false;
    }
    return !coll_is_rooted(c->type) || i == c->root;
}

static uint64_t span(const uint64_t *counts, size_t stride, const uint64_t *displacements,
                     uint32_t n) {
    uint64_t furthest = 0;
    for (uint32_t j = 0; j < n; j++) {
        uint64_t end = displacements[j] + counts[j * stride];
        furthest = end > furthest ? end : furthest;
    }
    return furthest;
}

static uint64_t src_span(const coll_case_t *c, const blocks_t *b, uint32_t i) {
    size_t row = (size_t)i * c->size;
    return span(b->counts + row, 1, b->src_displacements + row, c->size);
}

static uint64_t dst_span(const coll_case_t *c, const blocks_t *b, uint32_t i) {
    size_t row = (size_t)i * c->size;
    bool matrix = c->type == UCC_COLL_TYPE_ALLTOALLV;
    return span(matrix ? b->counts + i : b->counts, matrix ? c->size : 1,
                b->dst_displacements + row, c->size);
}

uint64_t blocks_total(const coll_case_t *c, const blocks_t *b) {
    uint64_t total = 0;
    for (uint32_t j = 0; j < c->size; j++) {
        total += b->counts[j];
    }
    return total;
}

uint64_t blocks_src_elements(const coll_case_t *c, const blocks_t *b, uint32_t i) {
    bool scatter = c->type == UCC_COLL_TYPE_SCATTER || c->type == UCC_COLL_TYPE_SCATTERV;
    if (scatter) { /* in place the root's own block stays in its source */
        return i == c->root ? src_span(c, b, i) : 0;
    }
    if (case_in_place_at(c, i)) {
        return 0;
    }
    switch ((uint64_t)c->type) {
    case UCC_COLL_TYPE_REDUCE:
    case UCC_COLL_TYPE_ALLREDUCE:
    case (uint64_t)UCC_COLL_TYPE_SCAN:
    case (uint64_t)UCC_COLL_TYPE_EXSCAN:
        return b->counts[0];
    case UCC_COLL_TYPE_GATHER:
    case UCC_COLL_TYPE_GATHERV:
    case UCC_COLL_TYPE_ALLGATHER:
    case UCC_COLL_TYPE_ALLGATHERV:
        return b->counts[i];
    case UCC_COLL_TYPE_ALLTOALL:
    case UCC_COLL_TYPE_ALLTOALLV:
        return src_span(c, b, i);
    case UCC_COLL_TYPE_REDUCE_SCATTER:
    case UCC_COLL_TYPE_REDUCE_SCATTERV:
        return blocks_total(c, b);
    default:
        return 0;
    }
}

uint64_t blocks_dst_elements(const coll_case_t *c, const blocks_t *b, uint32_t i) {
    bool at_root = i == c->root;
    switch ((uint64_t)c->type) {
    case UCC_COLL_TYPE_BCAST:
    case UCC_BIT(16):
    case UCC_COLL_TYPE_ALLREDUCE:
    case (uint64_t)UCC_COLL_TYPE_SCAN:
    case (uint64_t)UCC_COLL_TYPE_EXSCAN:
        return b->counts[0];
    case UCC_COLL_TYPE_REDUCE:
        return at_root ? b->counts[0] : 0;
    case UCC_COLL_TYPE_GATHER:
    case UCC_COLL_TYPE_GATHERV:
        return at_root ? dst_span(c, b, i) : 0;
    case UCC_COLL_TYPE_ALLGATHER:
    case UCC_COLL_TYPE_ALLGATHERV:
    case UCC_COLL_TYPE_ALLTOALL:
    case UCC_COLL_TYPE_ALLTOALLV:
        return dst_span(c, b, i);
    case UCC_COLL_TYPE_SCATTER:
    case UCC_COLL_TYPE_SCATTERV:
        return case_in_place_at(c, i) ? 0 : b->counts[i];
    case UCC_COLL_TYPE_REDUCE_SCATTER:
    case UCC_COLL_TYPE_REDUCE_SCATTERV:
        return case_in_place_at(c, i) ? blocks_total(c, b) : b->counts[i];
    default:
        return 0;
    }
}
