/* threadcomm.c: MPICH's thread communicators: the ranks are threads of one process, started by an
 * OpenMP parallel region as in its own examples.
 */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "loop.h"
#include "mpi_calls.h"

static MPI_Comm threads;

static bool supports(const bench_case_t *c) {
    return c->form == BENCH_BLOCKING && bench_mpi_supports(c);
}

static void *join(const bench_options_t *o, uint32_t rank) {
    (void)o, (void)rank;
    bench_mpi_t *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        bench_fail("participant", "out of memory");
    }
    self->comm = threads;
    return self;
}

static void leave(void *self) {
    free(self);
}

int main(int argc, char **argv) {
    static const bench_peer_t peer = {.name = BENCH_NAME,
                                      .version = bench_mpi_version,
                                      .supports = supports,
                                      .join = join,
                                      .leave = leave,
                                      .prepare = bench_mpi_prepare,
                                      .release = bench_mpi_release,
                                      .call = bench_mpi_call};
    bench_t b;
    int provided;
    bench_mpi_require(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided),
                      "MPI_Init_thread");
    if (provided != MPI_THREAD_MULTIPLE) {
        bench_fail("MPI_Init_thread", "no MPI_THREAD_MULTIPLE");
    }
    bench_open(&b, &peer, argc, argv, 0);
    bench_map(&b, NULL, true);
    int n = (int)b.options.participants;
    bench_mpi_require(MPIX_Threadcomm_init(MPI_COMM_WORLD, n, &threads), "MPIX_Threadcomm_init");
    omp_set_dynamic(0);
#pragma omp parallel num_threads(n)
    {
        int rank;
        bench_mpi_require(MPIX_Threadcomm_start(threads), "MPIX_Threadcomm_start");
        MPI_Comm_rank(threads, &rank);
        bench_participate(&b, (uint32_t)rank);
        bench_mpi_require(MPIX_Threadcomm_finish(threads), "MPIX_Threadcomm_finish");
    }
    MPIX_Threadcomm_free(&threads);
    MPI_Finalize();
    return 0;
}
