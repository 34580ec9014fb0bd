/* mpi.c: one process of an MPI program: the exchange of bootstrap_mpi.h gives all blocks, of sizes
 * around the one from which a derived datatype takes over (here 1,000 bytes), beside a collective
 * of the program's own. Compiled as C and as C++, by tests/bootstrap/test_mpi.c. Prints "N
 * processes: right" at rank 0.
 */
#define HEDDLE_BOOTSTRAP_MPI_LARGEST 1000
#include <heddle/bootstrap_mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char byte_of(uint32_t rank, size_t j, size_t n) {
    return (unsigned char)(rank * 37 + j * 11 + (j >> 8) + n);
}

static int gather(const ucc_oob_coll_t *oob, size_t n) {
    unsigned char *src = (unsigned char *)malloc(n + 1);
    unsigned char *dst = (unsigned char *)malloc(n * oob->n_oob_eps + 1);
    void *request = NULL;
    int wrong = 0;
    for (size_t j = 0; j < n; j++) {
        src[j] = byte_of(oob->oob_ep, j, n);
    }
    ucc_status_t status = oob->allgather(src, dst, n, oob->coll_info, &request);
    MPI_Barrier(MPI_COMM_WORLD); /* the program's own messages meet none of ours */
    while (status == UCC_OK && (status = oob->req_test(request)) == UCC_INPROGRESS) {
        status = UCC_OK;
    }
    if (status != UCC_OK || oob->req_free(request) != UCC_OK) {
        return 1;
    }
    for (uint32_t r = 0; r < oob->n_oob_eps; r++) {
        for (size_t j = 0; j < n; j++) {
            wrong += dst[r * n + j] != byte_of(r, j, n);
        }
    }
    free(src);
    free(dst);
    return wrong;
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {0, 1, 72, 999, 1000, 1001, 2000, 65536, 1000003};
    ucc_oob_coll_t oob;
    int wrong = 0, all = 0;
    memset(&oob, 0, sizeof(oob));
    MPI_Init(&argc, &argv);
    if (heddle_bootstrap_mpi(MPI_COMM_WORLD, NULL) != UCC_ERR_INVALID_PARAM ||
        heddle_bootstrap_mpi(MPI_COMM_NULL, &oob) != UCC_ERR_INVALID_PARAM ||
        heddle_bootstrap_mpi(MPI_COMM_WORLD, &oob) != UCC_OK) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        wrong += gather(&oob, sizes[s]);
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (oob.oob_ep == 0) {
        printf("%u processes: %s\n", oob.n_oob_eps, all == 0 ? "right" : "wrong");
    }
    if (heddle_bootstrap_mpi_end(&oob) != UCC_OK || heddle_bootstrap_mpi_end(&oob) != UCC_OK) {
        all = 1;
    }
    MPI_Finalize();
    return all == 0 ? 0 : 1;
}
