/* sweeps.c: see sweeps.h. A sweep is nested loops over tables; what the loops have in common is in
 * the helpers at the top.
 */
#include "sweeps.h"
#include "generic.h"
#include "random.h"

#include <heddle/heddle.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Last byte sizes of the regimes (inline, lines, staged), the size of a line's payload, and 8 and
 * 64: one flag, one line. */
static const uint64_t EDGES[] = {8, 48, 56, 64, 1024, 16384};

/* A case of this much data per collective is run in one size sweep; more is left to sweep_large. */
static const uint64_t SWEEP_BYTES = 20u << 20;

/* How many values of in_place_t differ for this type. */
static in_place_t in_places(ucc_coll_type_t type) {
    if (!coll_moves_data(type)) {
        return IN_PLACE_WHERE_MEANT;
    }
    bool bcast = type == UCC_COLL_TYPE_BCAST || type == UCC_COLL_TYPE_MCAST;
    return coll_is_rooted(type) && !bcast ? IN_PLACES : IN_PLACE_EVERYWHERE;
}

/* bcast may carry the flag, which has no meaning there. */
static in_place_t in_place_value(ucc_coll_type_t type, in_place_t value) {
    bool bcast = type == UCC_COLL_TYPE_BCAST || type == UCC_COLL_TYPE_MCAST;
    return bcast && value != IN_PLACE_NO ? IN_PLACE_EVERYWHERE : value;
}

/* Adds the case with every in-place variant. */
static void add_in_places(batch_t *batch, coll_case_t c) {
    for (in_place_t v = IN_PLACE_NO; v < in_places(c.type); v++) {
        c.in_place = in_place_value(c.type, v);
        batch_add(batch, &c);
    }
}

/* An operation that is valid on dt and differs from call to call. */
static ucc_reduction_op_t some_op(const reference_dt_t *dt, uint64_t i) {
    ucc_reduction_op_t op = (ucc_reduction_op_t)(i % UCC_OP_LAST);
    while (dt->kind != REFERENCE_USER && !reference_op_valid(dt, op)) {
        op = (ucc_reduction_op_t)((op + 1) % UCC_OP_LAST);
    }
    return op;
}

/* --- sizes --- */

/* Elements of one block when one endpoint's source is to hold `elements`. */
static uint64_t block_of_source(ucc_coll_type_t type, uint32_t size, uint64_t elements) {
    bool total = coll_has_blocks(type) && type != UCC_COLL_TYPE_GATHER &&
                 type != UCC_COLL_TYPE_GATHERV && type != UCC_COLL_TYPE_ALLGATHER &&
                 type != UCC_COLL_TYPE_ALLGATHERV;
    return total ? (elements + size - 1) / size : elements;
}

static void add_size(batch_t *batch, coll_case_t c, uint64_t elements, uint64_t limit) {
    uint64_t by_source = block_of_source(c.type, c.size, elements);
    c.count = by_source;
    if (case_bytes(&c) <= limit) {
        add_in_places(batch, c);
    }
    c.count = elements;
    if (elements != by_source && case_bytes(&c) <= limit / 8) {
        add_in_places(batch, c);
    }
}

static void add_edges(batch_t *batch, coll_case_t c) {
    add_size(batch, c, 0, SWEEP_BYTES);
    add_size(batch, c, 1, SWEEP_BYTES);
    for (size_t e = 0; e < LENGTH(EDGES); e++) {
        uint64_t elements = EDGES[e] / c.dt->extent;
        for (uint64_t d = 0; d < 3; d++) {
            c.root = (uint32_t)((e + d) % c.size);
            add_size(batch, c, elements + d - 1, SWEEP_BYTES);
        }
    }
}

uint64_t sweep_sizes(const batch_params_t *params) {
    static const ucc_datatype_t datatypes[] = {UCC_DT_UINT8, UCC_DT_FLOAT32};
    batch_t *batch = batch_open(params);
    for (uint32_t t = 0; t < COLL_TYPES; t++) {
        coll_case_t c = {.type = coll_type_at(t), .size = params->world.size, .op = UCC_OP_SUM};
        for (size_t d = 0; d < LENGTH(datatypes); d++) {
            c.dt = reference_datatype(datatypes[d]);
            if (coll_moves_data(c.type)) {
                add_edges(batch, c);
                continue;
            }
            for (c.root = 0; c.root < c.size; c.root++) {
                batch_add(batch, &c);
            }
        }
    }
    return batch_close(batch);
}

uint64_t sweep_roots(const batch_params_t *params) {
    static const uint64_t bytes[] = {0, 4, 48, 52, 1024, 1028, 16384, 16388, 40000};
    batch_t *batch = batch_open(params);
    coll_case_t c = {.dt = reference_datatype(UCC_DT_INT32), .size = params->world.size};
    for (uint32_t t = 0; t < COLL_TYPES; t++) {
        c.type = coll_type_at(t);
        for (c.root = 0; coll_is_rooted(c.type) && c.root < c.size; c.root++) {
            for (size_t s = 0; s < LENGTH(bytes); s++) {
                c.count = bytes[s] / c.dt->extent;
                c.op = some_op(c.dt, s + t);
                add_in_places(batch, c);
            }
        }
    }
    return batch_close(batch);
}

/* --- datatypes and operations --- */

uint64_t sweep_reductions(const batch_params_t *params) {
    static const uint64_t counts[] = {1, 3, 150};
    batch_t *batch = batch_open(params);
    coll_case_t c = {.size = params->world.size};
    for (uint32_t d = 0; d < reference_n_datatypes; d++) {
        c.dt = &reference_datatypes[d];
        for (c.op = UCC_OP_SUM; c.op < UCC_OP_LAST; c.op++) {
            for (uint32_t t = 0; reference_op_valid(c.dt, c.op) && t < COLL_TYPES; t++) {
                c.type = coll_type_at(t);
                for (size_t k = 0; coll_is_reduction(c.type) && k < LENGTH(counts); k++) {
                    c.count = counts[k];
                    c.root = (uint32_t)((d + k) % c.size);
                    c.layout = LAYOUT_RANDOM;
                    c.in_place = k % 2 == 0 ? IN_PLACE_NO : IN_PLACE_WHERE_MEANT;
                    batch_add(batch, &c);
                }
            }
        }
    }
    return batch_close(batch);
}

uint64_t sweep_movements(const batch_params_t *params) {
    static const uint64_t counts[] = {2, 300};
    batch_t *batch = batch_open(params);
    coll_case_t c = {.size = params->world.size, .layout = LAYOUT_GAPS};
    for (uint32_t d = 0; d < reference_n_datatypes; d++) {
        c.dt = &reference_datatypes[d];
        for (uint32_t t = 0; t < COLL_TYPES; t++) {
            c.type = coll_type_at(t);
            for (size_t k = 0; k < LENGTH(counts); k++) {
                c.count = counts[k];
                c.root = (uint32_t)((d + k) % c.size);
                c.in_place = k % 2 == 0 ? IN_PLACE_NO : IN_PLACE_EVERYWHERE;
                if (!coll_is_reduction(c.type)) {
                    batch_add(batch, &c);
                }
            }
        }
    }
    return batch_close(batch);
}

uint64_t sweep_vectors(const batch_params_t *params) {
    static const uint64_t counts[] = {0, 1, 13, 300, 5000};
    batch_t *batch = batch_open(params);
    coll_case_t c = {.size = params->world.size, .dt = reference_datatype(UCC_DT_INT16)};
    for (uint32_t t = 0; t < COLL_TYPES; t++) {
        c.type = coll_type_at(t);
        for (c.layout = 0; coll_is_v(c.type) && c.layout < LAYOUTS; c.layout++) {
            for (uint32_t widths = 0; widths < 4; widths++) {
                c.counts64 = (widths & 1) != 0;
                c.displacements64 = (widths & 2) != 0;
                for (size_t k = 0; k < LENGTH(counts); k++) {
                    c.count = counts[k];
                    c.root = (uint32_t)((widths + k) % c.size);
                    c.op = some_op(c.dt, k);
                    if (case_bytes(&c) < SWEEP_BYTES / 8) {
                        add_in_places(batch, c);
                    }
                }
            }
        }
    }
    return batch_close(batch);
}

uint64_t sweep_generic(const batch_params_t *params) {
    static const uint64_t counts[] = {0, 1, 4, 5, 90, 1400, 4000};
    reference_dt_t dts[] = {generic_contiguous(), generic_packed()};
    batch_t *batch = batch_open(params);
    coll_case_t c = {.size = params->world.size};
    for (size_t d = 0; d < LENGTH(dts); d++) {
        c.dt = &dts[d];
        for (uint32_t t = 0; t < COLL_TYPES; t++) {
            c.type = coll_type_at(t);
            bool can = coll_moves_data(c.type) && (dts[d].moved == NULL || !coll_is_v(c.type)) &&
                       (!coll_is_reduction(c.type) || dts[d].combine != NULL);
            for (size_t k = 0; can && k < LENGTH(counts); k++) {
                c.count = counts[k];
                c.root = (uint32_t)(k % c.size);
                add_in_places(batch, c);
            }
        }
    }
    uint64_t failures = batch_close(batch);
    generic_counts_t counted = generic_counts();
    for (size_t d = 0; d < LENGTH(dts); d++) {
        generic_destroy(&dts[d]);
    }
    return failures + (counted.started != counted.finished ? 1 : 0);
}

/* --- large, reduced, random --- */

uint64_t sweep_large(const batch_params_t *params) {
    static const ucc_datatype_t datatypes[] = {UCC_DT_UINT8, UCC_DT_FLOAT64};
    batch_t *batch = batch_open(params);
    for (uint32_t t = 0; t < COLL_TYPES; t++) {
        coll_case_t c = {.type = coll_type_at(t), .size = params->world.size};
        for (size_t d = 0; coll_moves_data(c.type) && d < LENGTH(datatypes); d++) {
            c.dt = reference_datatype(datatypes[d]);
            c.op = d == 0 ? UCC_OP_BXOR : UCC_OP_SUM;
            c.root = c.size - 1;
            c.count = block_of_source(c.type, c.size, (1u << 20) / c.dt->extent + 1);
            add_in_places(batch, c);
        }
    }
    return batch_close(batch);
}

uint64_t sweep_reduced(const batch_params_t *params) {
    static const uint64_t bytes[] = {0, 8, 48, 56, 1024, 4000, 16384, 40000};
    batch_t *batch = batch_open(params);
    coll_case_t c = {.size = params->world.size, .dt = reference_datatype(UCC_DT_FLOAT32)};
    for (uint32_t t = 0; t < COLL_TYPES; t++) {
        c.type = coll_type_at(t);
        for (size_t s = 0; s < LENGTH(bytes); s++) {
            c.count = block_of_source(c.type, c.size, bytes[s] / c.dt->extent);
            c.root = (uint32_t)((t + s) % c.size);
            c.op = some_op(c.dt, s);
            c.layout = (layout_t)(s % LAYOUTS);
            c.in_place = in_place_value(c.type, (in_place_t)(s % in_places(c.type)));
            batch_add(batch, &c);
        }
    }
    return batch_close(batch);
}

/* --- across processes --- */

/* In bytes of one endpoint's source. */
uint64_t sweep_edges(const batch_params_t *params) {
    static const uint64_t bytes[] = {0,         8,          48,       49,      1023,  1024,
                                     4096,      4097,       8192,     16383,   16384, 16385,
                                     64u << 10, 256u << 10, 1u << 20, 3u << 20};
    static const ucc_datatype_t datatypes[] = {UCC_DT_UINT8, UCC_DT_FLOAT32};
    batch_t *batch = batch_open(params);
    for (uint32_t t = 0; t < COLL_TYPES; t++) {
        coll_case_t c = {.type = coll_type_at(t), .size = params->world.size};
        for (size_t s = 0; s < LENGTH(bytes); s++) {
            c.root = (uint32_t)((t + s) % c.size);
            bool big = bytes[s] > 16385;
            c.dt = reference_datatype(big ? UCC_DT_FLOAT64 : datatypes[(t + s) % 2]);
            c.op = some_op(c.dt, big ? UCC_OP_SUM : s);
            c.layout = (layout_t)(s % LAYOUTS);
            c.count = block_of_source(c.type, c.size, (bytes[s] + c.dt->extent - 1) / c.dt->extent);
            if (!coll_moves_data(c.type)) {
                batch_add(batch, &c);
            } else if (!big) {
                add_in_places(batch, c);
            } else if (bytes[s] <= 256u << 10 ||
                       (!coll_has_blocks(c.type) && !coll_is_scan(c.type))) {
                c.in_place = in_place_value(c.type, (in_place_t)(s % in_places(c.type)));
                batch_add(batch, &c);
            }
        }
    }
    return batch_close(batch);
}

/* All sets that are possible with these strides and about these sizes. */
uint64_t sweep_sets(const batch_params_t *params) {
    static const int32_t strides[] = {1, 2, -1, -2, 3};
    static const uint64_t bytes[] = {0, 8, 400, 5000, 40000};
    batch_t *batch = batch_open(params);
    uint32_t size = params->world.size, some = 0;
    for (size_t k = 0; k < LENGTH(strides); k++) {
        uint32_t step = (uint32_t)(strides[k] < 0 ? -strides[k] : strides[k]);
        for (uint32_t n = 1; n <= size && (n - 1) * step < size; n++) {
            uint32_t low = some % (size - (n - 1) * step);
            job_set_t set = {strides[k] > 0 ? low : low + (n - 1) * step, strides[k], n};
            for (uint32_t t = 0; t < COLL_TYPES; t++, some++) {
                coll_case_t c = {.type = coll_type_at(t), .size = n, .set = set};
                c.dt = reference_datatype(UCC_DT_FLOAT64);
                c.count = block_of_source(c.type, n, bytes[some % LENGTH(bytes)] / c.dt->extent);
                c.root = some % n;
                c.op = some_op(c.dt, some);
                c.in_place = in_place_value(c.type, (in_place_t)(some % in_places(c.type)));
                c.tagged = some % 3 == 0 || params->world.ordering == UCC_COLLECTIVE_POST_UNORDERED;
                c.tag = (uint16_t)(some % 5);
                batch_add(batch, &c);
            }
        }
    }
    return batch_close(batch);
}

/* Of a source. Many are about as large as what small collectives of few processes, and their
 * messages, may be, or a part of that. */
static uint64_t some_bytes(uint64_t *random) {
    static const uint64_t edges[] = {48, 1024, 1344, 2048, 2688, 4096};
    if (random_below(random, 3) > 0) {
        return random_below(random, 1ull << random_below(random, 17));
    }
    uint64_t bytes = edges[random_below(random, LENGTH(edges))] / (1 + random_below(random, 3));
    return bytes + random_below(random, 17) - 8;
}

/* Some operations are tagged on any team, all are on an unordered one. */
coll_case_t sweep_random_case(uint64_t *random, const world_params_t *world) {
    uint32_t size = world->size;
    bool unordered = world->ordering == UCC_COLLECTIVE_POST_UNORDERED;
    coll_case_t c = {.size = size};
    c.type = coll_type_at((uint32_t)random_below(random, COLL_TYPES));
    c.root = (uint32_t)random_below(random, size);
    c.dt = &reference_datatypes[random_below(random, reference_n_datatypes)];
    c.op = some_op(c.dt, random_next(random) % UCC_OP_LAST);
    c.in_place = in_place_value(c.type, (in_place_t)random_below(random, in_places(c.type)));
    c.layout = (layout_t)random_below(random, LAYOUTS);
    c.counts64 = random_below(random, 2) == 0;
    c.displacements64 = random_below(random, 2) == 0;
    c.count = block_of_source(c.type, size, some_bytes(random) / c.dt->extent);
    c.seed = random_next(random);
    c.tagged = unordered || random_below(random, 8) == 0;
    c.tag = (uint16_t)random_below(random, 20);
    return c;
}

uint64_t sweep_random(const batch_params_t *params, uint64_t n, uint64_t seed) {
    batch_t *batch = batch_open(params);
    for (uint64_t k = 0; k < n; k++) {
        coll_case_t c = sweep_random_case(&seed, &params->world);
        batch_add(batch, &c);
    }
    return batch_close(batch);
}
