/* traffic.c: what each collective must at least read and write, one row each.
 *
 * In blocks of S bytes, over all n endpoints: a + b n + c n n of them. Every source is read and
 * every destination written once; in-place variations, which write less, are ignored, and vector
 * collectives are taken as if all blocks were equal.
 *
 * The bus factors are those of nccl-tests: what share of the algorithm bandwidth must pass between
 * endpoints, so that collectives and numbers of endpoints can be compared.
 */
#include "perf.h"

typedef enum { BUS_ONE, BUS_OTHERS, BUS_TWICE } bus_t; /* 1, (n - 1) / n, 2 (n - 1) / n */

typedef struct blocks {
    int64_t a, b, c;
} blocks_t;

typedef struct traffic {
    uint64_t type; /* not all are members of the enumeration */
    blocks_t read, written;
    bus_t bus;
} traffic_t;

static const traffic_t table[] = {
    /*                                      read       written */
    {UCC_COLL_TYPE_BCAST, /*          */ {1, 0, 0}, {-1, 1, 0}, BUS_ONE},
    {UCC_COLL_TYPE_MCAST, /*          */ {1, 0, 0}, {-1, 1, 0}, BUS_ONE},
    {UCC_COLL_TYPE_REDUCE, /*         */ {0, 1, 0}, {1, 0, 0}, BUS_ONE},
    {UCC_COLL_TYPE_ALLREDUCE, /*      */ {0, 1, 0}, {0, 1, 0}, BUS_TWICE},
    {UCC_COLL_TYPE_SCAN, /*           */ {0, 1, 0}, {0, 1, 0}, BUS_OTHERS},
    {UCC_COLL_TYPE_EXSCAN, /*         */ {-1, 1, 0}, {-1, 1, 0}, BUS_OTHERS},
    {UCC_COLL_TYPE_REDUCE_SCATTER, /* */ {0, 0, 1}, {0, 1, 0}, BUS_OTHERS},
    {UCC_COLL_TYPE_REDUCE_SCATTERV, /**/ {0, 0, 1}, {0, 1, 0}, BUS_OTHERS},
    {UCC_COLL_TYPE_ALLGATHER, /*      */ {0, 1, 0}, {0, 0, 1}, BUS_OTHERS},
    {UCC_COLL_TYPE_ALLGATHERV, /*     */ {0, 1, 0}, {0, 0, 1}, BUS_OTHERS},
    {UCC_COLL_TYPE_GATHER, /*         */ {0, 1, 0}, {0, 1, 0}, BUS_OTHERS},
    {UCC_COLL_TYPE_GATHERV, /*        */ {0, 1, 0}, {0, 1, 0}, BUS_OTHERS},
    {UCC_COLL_TYPE_SCATTER, /*        */ {0, 1, 0}, {0, 1, 0}, BUS_OTHERS},
    {UCC_COLL_TYPE_SCATTERV, /*       */ {0, 1, 0}, {0, 1, 0}, BUS_OTHERS},
    {UCC_COLL_TYPE_ALLTOALL, /*       */ {0, 0, 1}, {0, 0, 1}, BUS_OTHERS},
    {UCC_COLL_TYPE_ALLTOALLV, /*      */ {0, 0, 1}, {0, 0, 1}, BUS_OTHERS},
};

static const traffic_t *find(const perf_coll_t *coll) {
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].type == (uint64_t)coll->type) {
            return &table[i];
        }
    }
    return NULL; /* no data */
}

static int64_t evaluate(blocks_t blocks, int64_t n) {
    return blocks.a + blocks.b * n + blocks.c * n * n;
}

uint64_t perf_traffic(const perf_coll_t *coll, uint64_t endpoints, uint64_t bytes) {
    const traffic_t *row = find(coll);
    if (row == NULL) {
        return 0;
    }
    int64_t n = (int64_t)endpoints;
    return (uint64_t)(evaluate(row->read, n) + evaluate(row->written, n)) * bytes;
}

double perf_bus_factor(const perf_coll_t *coll, uint64_t endpoints) {
    const traffic_t *row = find(coll);
    double n = (double)endpoints;
    if (row == NULL || row->bus == BUS_ONE) {
        return 1.0;
    }
    return (row->bus == BUS_TWICE ? 2.0 : 1.0) * (n - 1.0) / n;
}
