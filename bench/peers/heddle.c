/* heddle.c: Heddle's blocking calls, one thread per endpoint. */
#include <heddle/heddle.h>
#include <pthread.h>
#include <stdio.h>

#include "loop.h"

static heddle_group_t *group;
static pthread_mutex_t group_lock = PTHREAD_MUTEX_INITIALIZER;

static void require(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        bench_fail(what, ucc_status_string(status));
    }
}

static void version(char *text, size_t bytes) {
    snprintf(text, bytes, "Heddle, UCC interface %s", ucc_get_version_string());
}

static bool supports(const bench_case_t *c) {
    return c->form == BENCH_BLOCKING && c->coll->id <= BENCH_ALLTOALLV;
}

/* The group is made by whoever comes first and dies with the process. */
static void *join(const bench_options_t *o, uint32_t rank) {
    heddle_ep_t *ep;
    pthread_mutex_lock(&group_lock);
    if (group == NULL) {
        require(heddle_group_create(&(heddle_group_params_t){.endpoints = o->participants}, &group),
                "heddle_group_create");
    }
    pthread_mutex_unlock(&group_lock);
    require(heddle_join(group, rank, &ep), "heddle_join");
    return ep;
}

static void leave(void *self) {
    require(heddle_leave(self), "heddle_leave");
}

static ucc_status_t call_blocking(heddle_ep_t *ep, const bench_case_t *c, uint32_t root) {
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

static void call(void *self, const bench_case_t *c, uint32_t root) {
    require(call_blocking(self, c, root), c->coll->name);
}

int main(int argc, char **argv) {
    static const bench_peer_t peer = {.name = "heddle",
                                      .version = version,
                                      .supports = supports,
                                      .join = join,
                                      .leave = leave,
                                      .call = call};
    return bench_main(&peer, argc, argv);
}
