/* mpi.h: as much of MPI as oneCCL's programs need to meet, for programs that ../ranks.cpp runs.
 * Ranks are its threads. */
#ifndef HEDDLE_RANKS_MPI_H_
#define HEDDLE_RANKS_MPI_H_

#include <heddle/heddle.h>

#ifdef __cplusplus
extern "C" {
#endif

heddle_ep_t *heddle_ranks_endpoint(void); /* the calling thread's; ranks.cpp has it */
void heddle_ranks_end(int status);        /* of all */

typedef int MPI_Comm;
typedef size_t MPI_Datatype; /* its bytes */

#define MPI_COMM_WORLD    0
#define MPI_SUCCESS       0
#define MPI_ERR_OTHER     1
#define MPI_BYTE          sizeof(char)
#define MPI_CHAR          sizeof(char)
#define MPI_INT           sizeof(int)
#define MPI_UNSIGNED_LONG sizeof(unsigned long)
#define MPI_DOUBLE        sizeof(double)

static inline int MPI_Init(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    return MPI_SUCCESS;
}

static inline int MPI_Initialized(int *flag) {
    *flag = 1;
    return MPI_SUCCESS;
}

static inline int MPI_Finalize(void) {
    return MPI_SUCCESS;
}

static inline int MPI_Finalized(int *flag) {
    *flag = 0;
    return MPI_SUCCESS;
}

static inline int MPI_Comm_rank(MPI_Comm comm, int *rank) {
    (void)comm;
    *rank = (int)heddle_ep_index(heddle_ranks_endpoint());
    return MPI_SUCCESS;
}

static inline int MPI_Comm_size(MPI_Comm comm, int *size) {
    (void)comm;
    *size = (int)heddle_ep_size(heddle_ranks_endpoint());
    return MPI_SUCCESS;
}

static inline int MPI_Barrier(MPI_Comm comm) {
    (void)comm;
    return heddle_barrier(heddle_ranks_endpoint()) == UCC_OK ? MPI_SUCCESS : MPI_ERR_OTHER;
}

static inline int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    (void)comm;
    ucc_status_t status = heddle_bcast(heddle_ranks_endpoint(), buffer, (size_t)count * type,
                                       UCC_DT_UINT8, (uint32_t)root);
    return status == UCC_OK ? MPI_SUCCESS : MPI_ERR_OTHER;
}

static inline int MPI_Abort(MPI_Comm comm, int status) {
    (void)comm;
    heddle_ranks_end(status);
    return MPI_ERR_OTHER;
}

#ifdef __cplusplus
}
#endif

#endif
