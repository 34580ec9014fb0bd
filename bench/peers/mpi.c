/* mpi.c: any MPI library; participants are its processes, which share the loops' lines through a
 * shared memory object. Built once for each library.
 */
#include <mpi.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loop.h"
#include "mpi_calls.h"

static bench_mpi_t self; /* a process is one participant */

static void *join(const bench_options_t *o, uint32_t rank) {
    (void)o, (void)rank;
    self.comm = MPI_COMM_WORLD;
    return &self;
}

/* Process 0 makes the shared memory, the others attach; then its name is no longer needed. */
static void map_shared(bench_t *b, int rank) {
    char name[64];
    snprintf(name, sizeof(name), "/heddle-bench-%ld", (long)getpid());
    bench_mpi_require(MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
    if (rank == 0) {
        shm_unlink(name); /* what a killed process of that number may have left */
        bench_map(b, name, true);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0) {
        bench_map(b, name, false);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        shm_unlink(name);
    }
}

int main(int argc, char **argv) {
    static const bench_peer_t peer = {.name = BENCH_NAME,
                                      .version = bench_mpi_version,
                                      .supports = bench_mpi_supports,
                                      .join = join,
                                      .prepare = bench_mpi_prepare,
                                      .release = bench_mpi_release,
                                      .call = bench_mpi_call};
    bench_t b;
    int rank, size;
    bench_mpi_require(MPI_Init(&argc, &argv), "MPI_Init");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bench_open(&b, &peer, argc, argv, (uint32_t)size);
    map_shared(&b, rank);
    bench_participate(&b, (uint32_t)rank);
    MPI_Finalize();
    return 0;
}
