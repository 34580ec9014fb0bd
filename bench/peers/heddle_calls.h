/* heddle_calls.h: one collective as Heddle's blocking call; for participants that are threads of
 * one process (heddle.c) and of several (heddle_net.c).
 */
#ifndef BENCH_HEDDLE_CALLS_H_
#define BENCH_HEDDLE_CALLS_H_

#include <heddle/heddle.h>

#include "loop.h"

static ucc_status_t bench_heddle_call(heddle_ep_t *ep, const bench_case_t *c, uint32_t root) {
    const ucc_datatype_t dt = UCC_DT_FLOAT32;
    uint64_t mine = c->counts[c->rank];
    void *src = c->source, *dst = c->destination;
    switch (c->coll->id) {
    case BENCH_BARRIER:
        return heddle_barrier(ep);
    case BENCH_FANIN:
        return heddle_fanin(ep, root);
    case BENCH_FANOUT:
        return heddle_fanout(ep, root);
    case BENCH_BCAST:
        return heddle_bcast(ep, src, c->count, dt, root);
    case BENCH_REDUCE:
        return heddle_reduce(ep, src, dst, c->count, dt, UCC_OP_SUM, root);
    case BENCH_ALLREDUCE:
        return heddle_allreduce(ep, src, dst, c->count, dt, UCC_OP_SUM);
    case BENCH_REDUCE_SCATTER:
        return heddle_reduce_scatter(ep, src, dst, c->count, dt, UCC_OP_SUM);
    case BENCH_REDUCE_SCATTERV:
        return heddle_reduce_scatterv(ep, src, dst, c->counts, dt, UCC_OP_SUM);
    case BENCH_ALLGATHER:
        return heddle_allgather(ep, src, dst, c->count, dt);
    case BENCH_ALLGATHERV:
        return heddle_allgatherv(ep, src, mine, dst, c->counts, c->displacements, dt);
    case BENCH_GATHER:
        return heddle_gather(ep, src, dst, c->count, dt, root);
    case BENCH_GATHERV:
        return heddle_gatherv(ep, src, mine, dst, c->counts, c->displacements, dt, root);
    case BENCH_SCATTER:
        return heddle_scatter(ep, src, dst, c->count, dt, root);
    case BENCH_SCATTERV:
        return heddle_scatterv(ep, src, c->counts, c->displacements, dst, mine, dt, root);
    case BENCH_ALLTOALL:
        return heddle_alltoall(ep, src, dst, c->count, dt);
    case BENCH_ALLTOALLV:
        return heddle_alltoallv(ep, src, c->counts + c->rank, c->own_displacements, dst,
                                c->counts + c->rank, c->own_displacements, dt);
    default:
        return UCC_ERR_NOT_SUPPORTED;
    }
}

#endif
