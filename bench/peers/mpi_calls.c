/* mpi_calls.c: see mpi_calls.h. BENCH_MPI_PERSISTENT is defined where the library has MPI 4's
 * persistent collectives.
 */
#include "mpi_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_mpi_require(int code, const char *what) {
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, text, &length);
        bench_fail(what, text);
    }
}

void bench_mpi_version(char *text, size_t bytes) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(library, &length);
    library[strcspn(library, "\n,")] = '\0'; /* what follows is how and where it was built */
    char *tab = strchr(library, '\t');       /* "MPICH Version:\t5.0.2" */
    if (tab != NULL) {
        memmove(tab, tab + strspn(tab, "\t "), strlen(tab + strspn(tab, "\t ")) + 1);
    }
    snprintf(text, bytes, "%s", library);
}

bool bench_mpi_supports(const bench_case_t *c) {
#if !defined(BENCH_MPI_PERSISTENT)
    if (c->form == BENCH_PERSISTENT) {
        return false;
    }
#endif
    bool one_way = c->coll->id == BENCH_FANIN || c->coll->id == BENCH_FANOUT;
    return c->coll->id <= BENCH_ALLTOALLV && !one_way;
}

static int call_blocking(bench_mpi_t *m, const bench_case_t *c, int root) {
    const MPI_Datatype dt = MPI_FLOAT;
    const MPI_Op op = MPI_SUM;
    MPI_Comm comm = m->comm;
    int count = (int)c->count, mine = m->counts[c->rank];
    void *src = c->source, *dst = c->destination;
    switch (c->coll->id) {
    case BENCH_BARRIER:
        return MPI_Barrier(comm);
    case BENCH_BCAST:
        return MPI_Bcast(src, count, dt, root, comm);
    case BENCH_REDUCE:
        return MPI_Reduce(src, dst, count, dt, op, root, comm);
    case BENCH_ALLREDUCE:
        return MPI_Allreduce(src, dst, count, dt, op, comm);
    case BENCH_REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(src, dst, count, dt, op, comm);
    case BENCH_REDUCE_SCATTERV:
        return MPI_Reduce_scatter(src, dst, m->counts, dt, op, comm);
    case BENCH_ALLGATHER:
        return MPI_Allgather(src, count, dt, dst, count, dt, comm);
    case BENCH_ALLGATHERV:
        return MPI_Allgatherv(src, mine, dt, dst, m->counts, m->displacements, dt, comm);
    case BENCH_GATHER:
        return MPI_Gather(src, count, dt, dst, count, dt, root, comm);
    case BENCH_GATHERV:
        return MPI_Gatherv(src, mine, dt, dst, m->counts, m->displacements, dt, root, comm);
    case BENCH_SCATTER:
        return MPI_Scatter(src, count, dt, dst, count, dt, root, comm);
    case BENCH_SCATTERV:
        return MPI_Scatterv(src, m->counts, m->displacements, dt, dst, mine, dt, root, comm);
    case BENCH_ALLTOALL:
        return MPI_Alltoall(src, count, dt, dst, count, dt, comm);
    default:
        return MPI_Alltoallv(src, m->own_counts, m->own_displacements, dt, dst, m->own_counts,
                             m->own_displacements, dt, comm);
    }
}

static int start(bench_mpi_t *m, const bench_case_t *c, int root, MPI_Request *r) {
    const MPI_Datatype dt = MPI_FLOAT;
    const MPI_Op op = MPI_SUM;
    MPI_Comm comm = m->comm;
    int count = (int)c->count, mine = m->counts[c->rank];
    void *src = c->source, *dst = c->destination;
    switch (c->coll->id) {
    case BENCH_BARRIER:
        return MPI_Ibarrier(comm, r);
    case BENCH_BCAST:
        return MPI_Ibcast(src, count, dt, root, comm, r);
    case BENCH_REDUCE:
        return MPI_Ireduce(src, dst, count, dt, op, root, comm, r);
    case BENCH_ALLREDUCE:
        return MPI_Iallreduce(src, dst, count, dt, op, comm, r);
    case BENCH_REDUCE_SCATTER:
        return MPI_Ireduce_scatter_block(src, dst, count, dt, op, comm, r);
    case BENCH_REDUCE_SCATTERV:
        return MPI_Ireduce_scatter(src, dst, m->counts, dt, op, comm, r);
    case BENCH_ALLGATHER:
        return MPI_Iallgather(src, count, dt, dst, count, dt, comm, r);
    case BENCH_ALLGATHERV:
        return MPI_Iallgatherv(src, mine, dt, dst, m->counts, m->displacements, dt, comm, r);
    case BENCH_GATHER:
        return MPI_Igather(src, count, dt, dst, count, dt, root, comm, r);
    case BENCH_GATHERV:
        return MPI_Igatherv(src, mine, dt, dst, m->counts, m->displacements, dt, root, comm, r);
    case BENCH_SCATTER:
        return MPI_Iscatter(src, count, dt, dst, count, dt, root, comm, r);
    case BENCH_SCATTERV:
        return MPI_Iscatterv(src, m->counts, m->displacements, dt, dst, mine, dt, root, comm, r);
    case BENCH_ALLTOALL:
        return MPI_Ialltoall(src, count, dt, dst, count, dt, comm, r);
    default:
        return MPI_Ialltoallv(src, m->own_counts, m->own_displacements, dt, dst, m->own_counts,
                              m->own_displacements, dt, comm, r);
    }
}

#if defined(BENCH_MPI_PERSISTENT)
static int make(bench_mpi_t *m, const bench_case_t *c, int root, MPI_Request *r) {
    const MPI_Datatype dt = MPI_FLOAT;
    const MPI_Op op = MPI_SUM;
    const MPI_Info info = MPI_INFO_NULL;
    MPI_Comm comm = m->comm;
    int count = (int)c->count, mine = m->counts[c->rank];
    void *src = c->source, *dst = c->destination;
    switch (c->coll->id) {
    case BENCH_BARRIER:
        return MPI_Barrier_init(comm, info, r);
    case BENCH_BCAST:
        return MPI_Bcast_init(src, count, dt, root, comm, info, r);
    case BENCH_REDUCE:
        return MPI_Reduce_init(src, dst, count, dt, op, root, comm, info, r);
    case BENCH_ALLREDUCE:
        return MPI_Allreduce_init(src, dst, count, dt, op, comm, info, r);
    case BENCH_REDUCE_SCATTER:
        return MPI_Reduce_scatter_block_init(src, dst, count, dt, op, comm, info, r);
    case BENCH_REDUCE_SCATTERV:
        return MPI_Reduce_scatter_init(src, dst, m->counts, dt, op, comm, info, r);
    case BENCH_ALLGATHER:
        return MPI_Allgather_init(src, count, dt, dst, count, dt, comm, info, r);
    case BENCH_ALLGATHERV:
        return MPI_Allgatherv_init(src, mine, dt, dst, m->counts, m->displacements, dt, comm, info,
                                   r);
    case BENCH_GATHER:
        return MPI_Gather_init(src, count, dt, dst, count, dt, root, comm, info, r);
    case BENCH_GATHERV:
        return MPI_Gatherv_init(src, mine, dt, dst, m->counts, m->displacements, dt, root, comm,
                                info, r);
    case BENCH_SCATTER:
        return MPI_Scatter_init(src, count, dt, dst, count, dt, root, comm, info, r);
    case BENCH_SCATTERV:
        return MPI_Scatterv_init(src, m->counts, m->displacements, dt, dst, mine, dt, root, comm,
                                 info, r);
    case BENCH_ALLTOALL:
        return MPI_Alltoall_init(src, count, dt, dst, count, dt, comm, info, r);
    default:
        return MPI_Alltoallv_init(src, m->own_counts, m->own_displacements, dt, dst, m->own_counts,
                                  m->own_displacements, dt, comm, info, r);
    }
}
#endif

static int *narrow(const uint64_t *wide, uint32_t n) {
    int *array = malloc(n * sizeof(int));
    if (array == NULL) {
        bench_fail("counts", "out of memory");
    }
    for (uint32_t i = 0; i < n; i++) {
        array[i] = (int)wide[i];
    }
    return array;
}

void bench_mpi_prepare(void *self, const bench_case_t *c) {
    bench_mpi_t *m = self;
    m->counts = narrow(c->counts, c->participants);
    m->displacements = narrow(c->displacements, c->participants);
    m->own_counts = narrow(c->counts + c->rank, c->participants);
    m->own_displacements = narrow(c->own_displacements, c->participants);
#if defined(BENCH_MPI_PERSISTENT)
    if (c->form == BENCH_PERSISTENT) {
        m->requests = malloc(c->roots * sizeof(MPI_Request));
        if (m->requests == NULL) {
            bench_fail("requests", "out of memory");
        }
        for (uint32_t root = 0; root < c->roots; root++) {
            bench_mpi_require(make(m, c, (int)root, &m->requests[root]), c->coll->name);
        }
    }
#endif
}

void bench_mpi_release(void *self, const bench_case_t *c) {
    bench_mpi_t *m = self;
    if (c->form == BENCH_PERSISTENT) {
        for (uint32_t root = 0; root < c->roots; root++) {
            MPI_Request_free(&m->requests[root]);
        }
        free(m->requests);
    }
    free(m->counts);
    free(m->displacements);
    free(m->own_counts);
    free(m->own_displacements);
}

static void complete(MPI_Request *request) {
    int done = 0;
    while (!done) {
        bench_mpi_require(MPI_Test(request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    }
}

void bench_mpi_call(void *self, const bench_case_t *c, uint32_t root) {
    bench_mpi_t *m = self;
    MPI_Request request;
    switch (c->form) {
    case BENCH_BLOCKING:
        bench_mpi_require(call_blocking(m, c, (int)root), c->coll->name);
        break;
    case BENCH_NONBLOCKING:
        bench_mpi_require(start(m, c, (int)root, &request), c->coll->name);
        complete(&request);
        break;
    case BENCH_PERSISTENT:
        bench_mpi_require(MPI_Start(&m->requests[root]), "MPI_Start");
        complete(&m->requests[root]);
        break;
    }
}
