/* mpi_calls.h: one collective as MPI calls; for participants that are processes (mpi.c) and for
 * those that are threads of a thread communicator (threadcomm.c).
 */
#ifndef BENCH_MPI_CALLS_H_
#define BENCH_MPI_CALLS_H_

#include <mpi.h>

#include "loop.h"

/** One participant. */
typedef struct bench_mpi {
    MPI_Comm comm;
    /** The case's counts and displacements as MPI wants them; own_counts: of alltoallv. */
    int *counts, *displacements, *own_counts, *own_displacements;
    MPI_Request *requests; /* persistent: one for each root */
} bench_mpi_t;

/** Ends the process with MPI's own words unless code is MPI_SUCCESS. */
void bench_mpi_require(int code, const char *what);
void bench_mpi_version(char *text, size_t bytes);
/** Whether the library has the collective in that form. */
bool bench_mpi_supports(const bench_case_t *c);
/** The same for bench_peer_t::prepare, release and call; self is a bench_mpi_t. */
void bench_mpi_prepare(void *self, const bench_case_t *c);
void bench_mpi_release(void *self, const bench_case_t *c);
void bench_mpi_call(void *self, const bench_case_t *c, uint32_t root);

#endif
