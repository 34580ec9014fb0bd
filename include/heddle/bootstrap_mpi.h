/* bootstrap_mpi.h: the out-of-band exchange of programs that use MPI (ucc_oob_coll_t), from a
 * communicator.
 *
 * Everything is in this header, and compiled with the program: neither libheddle nor
 * libheddle_bootstrap is linked with MPI, and any MPI-3 library works, from C and from C++.
 *
 *     ucc_oob_coll_t oob;
 *     heddle_bootstrap_mpi(MPI_COMM_WORLD, &oob);
 *     ... contexts, teams or groups with &oob, one participant per process ...
 *     heddle_bootstrap_mpi_end(&oob);
 */
#ifndef HEDDLE_BOOTSTRAP_MPI_H_
#define HEDDLE_BOOTSTRAP_MPI_H_

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <ucc/api/ucc.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Blocks of more bytes than this are gathered as elements of a derived datatype, for MPI counts in
 * int. */
#ifndef HEDDLE_BOOTSTRAP_MPI_LARGEST
#define HEDDLE_BOOTSTRAP_MPI_LARGEST (INT_MAX / 2)
#endif

typedef struct heddle_bootstrap_mpi_request {
    MPI_Request request;
    MPI_Datatype datatype; /* to be freed; MPI_BYTE: not */
} heddle_bootstrap_mpi_request_t;

static inline ucc_status_t heddle_bootstrap_mpi_status(int error) {
    return error == MPI_SUCCESS ? UCC_OK : UCC_ERR_NO_MESSAGE;
}

/* One element of this type is a block of so many bytes: `many` times a chunk, and the rest. */
static inline int heddle_bootstrap_mpi_block(size_t bytes, MPI_Datatype *block) {
    const size_t chunk_bytes = (size_t)(HEDDLE_BOOTSTRAP_MPI_LARGEST);
    const size_t many = bytes / chunk_bytes, rest = bytes % chunk_bytes;
    int lengths[2] = {1, (int)rest};
    MPI_Aint offsets[2] = {0, (MPI_Aint)(many * chunk_bytes)};
    MPI_Datatype chunk, parts[2];
    int error =
        many > INT_MAX ? MPI_ERR_COUNT : MPI_Type_contiguous((int)chunk_bytes, MPI_BYTE, &chunk);
    if (error != MPI_SUCCESS) {
        return error;
    }
    parts[1] = MPI_BYTE;
    error = MPI_Type_contiguous((int)many, chunk, &parts[0]);
    if (error == MPI_SUCCESS) {
        error = MPI_Type_create_struct(2, lengths, offsets, parts, block);
        MPI_Type_free(&parts[0]);
    }
    MPI_Type_free(&chunk);
    return error == MPI_SUCCESS ? MPI_Type_commit(block) : error;
}

static inline ucc_status_t heddle_bootstrap_mpi_allgather(void *src, void *dst, size_t bytes,
                                                          void *info, void **request) {
    heddle_bootstrap_mpi_request_t *r = (heddle_bootstrap_mpi_request_t *)malloc(sizeof(*r));
    int count = 1, error = MPI_SUCCESS;
    *request = NULL;
    if (!r) {
        return UCC_ERR_NO_MEMORY;
    }
    r->datatype = MPI_BYTE;
    if (bytes <= (size_t)(HEDDLE_BOOTSTRAP_MPI_LARGEST)) {
        count = (int)bytes;
    } else {
        error = heddle_bootstrap_mpi_block(bytes, &r->datatype);
    }
    if (error == MPI_SUCCESS) {
        error = MPI_Iallgather(src, count, r->datatype, dst, count, r->datatype, *(MPI_Comm *)info,
                               &r->request);
    }
    if (error != MPI_SUCCESS) {
        free(r);
        return heddle_bootstrap_mpi_status(error);
    }
    *request = r;
    return UCC_OK;
}

static inline ucc_status_t heddle_bootstrap_mpi_test(void *request) {
    heddle_bootstrap_mpi_request_t *r = (heddle_bootstrap_mpi_request_t *)request;
    int done = 0;
    int error = MPI_Test(&r->request, &done, MPI_STATUS_IGNORE);
    return error == MPI_SUCCESS && !done ? UCC_INPROGRESS : heddle_bootstrap_mpi_status(error);
}

static inline ucc_status_t heddle_bootstrap_mpi_free(void *request) {
    heddle_bootstrap_mpi_request_t *r = (heddle_bootstrap_mpi_request_t *)request;
    int error = MPI_SUCCESS;
    if (r->datatype != MPI_BYTE) {
        error = MPI_Type_free(&r->datatype);
    }
    free(r);
    return heddle_bootstrap_mpi_status(error);
}

/** Fills in an allgather among the processes of a communicator, one participant each: n_oob_eps is
 *  its size, oob_ep the rank in it. Works on a duplicate, so its messages meet no others, and
 *  errors of MPI end as a status, not the program. MPI must have been initialized, and the thread
 *  that calls this or uses the exchange must be one that may call MPI.
 *
 *  Collective over comm, as MPI_Comm_dup is, and blocking. Blocks may have any size.
 *  @param [out] oob  valid until heddle_bootstrap_mpi_end()
 *  @return UCC_OK; UCC_ERR_NO_MEMORY; UCC_ERR_NO_MESSAGE: an error of MPI; UCC_ERR_INVALID_PARAM:
 *          NULL, or an intercommunicator */
static inline ucc_status_t heddle_bootstrap_mpi(MPI_Comm comm, ucc_oob_coll_t *oob) {
    int size = 0, rank = 0, inter = 0;
    if (!oob || comm == MPI_COMM_NULL || MPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS ||
        inter) {
        return UCC_ERR_INVALID_PARAM;
    }
    MPI_Comm *own = (MPI_Comm *)malloc(sizeof(*own));
    if (!own) {
        return UCC_ERR_NO_MEMORY;
    }
    int error = MPI_Comm_dup(comm, own);
    if (error != MPI_SUCCESS) {
        free(own);
        return heddle_bootstrap_mpi_status(error);
    }
    MPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN);
    MPI_Comm_size(*own, &size);
    MPI_Comm_rank(*own, &rank);
    oob->allgather = heddle_bootstrap_mpi_allgather;
    oob->req_test = heddle_bootstrap_mpi_test;
    oob->req_free = heddle_bootstrap_mpi_free;
    oob->coll_info = own;
    oob->n_oob_eps = (uint32_t)size;
    oob->oob_ep = (uint32_t)rank;
    return UCC_OK;
}

/** Frees the duplicate: before MPI_Finalize(), by every process, when no exchange is under way and
 *  nothing will use oob any more. Collective, as MPI_Comm_free is. NULL, or one that has ended, is
 *  UCC_OK. */
static inline ucc_status_t heddle_bootstrap_mpi_end(ucc_oob_coll_t *oob) {
    if (!oob || !oob->coll_info) {
        return UCC_OK;
    }
    MPI_Comm *own = (MPI_Comm *)oob->coll_info;
    int error = MPI_Comm_free(own);
    free(own);
    oob->coll_info = NULL;
    return heddle_bootstrap_mpi_status(error);
}

#ifdef __cplusplus
}
#endif

#endif
