/* duplicate.c: two teams of all processes and threads, used at the same time by different threads:
 * what MPI programs duplicate a communicator for. In each process half of the threads belong to one
 * library, which sums by its own team, and half to another one, which broadcasts and gathers by its
 * own; neither needs to know of the other, and no message of one is ever taken for the other's.
 *
 *     mpicc -fopenmp duplicate.c $(pkg-config --cflags --libs heddle) -o duplicate
 *     mpiexec -n 2 ./duplicate [THREADS_OF_EACH [ROUNDS]]
 */
#include <heddle/heddle.h>
#include <heddle/bootstrap_mpi.h>

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "%s: %s\n", what, ucc_status_string(status));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* One library: sums. */
static int sum_up(heddle_ep_t *ep, int rounds) {
    uint64_t n = heddle_ep_size(ep), me = heddle_ep_index(ep), wrong = 0;
    for (uint64_t r = 0; r < (uint64_t)rounds; r++) {
        uint64_t x = r * 1000 + me;
        check(heddle_allreduce(ep, HEDDLE_IN_PLACE, &x, 1, UCC_DT_UINT64, UCC_OP_SUM), "allreduce");
        wrong += x != r * 1000 * n + n * (n - 1) / 2;
    }
    return wrong != 0;
}

/* The other one: a root that goes round tells all, and all tell all what they have heard. */
static int tell(heddle_ep_t *ep, int rounds) {
    uint64_t n = heddle_ep_size(ep), me = heddle_ep_index(ep), wrong = 0;
    uint64_t *heard = calloc(n, sizeof(*heard));
    for (uint64_t r = 0; r < (uint64_t)rounds; r++) {
        uint64_t x = me == r % n ? r * r : 0;
        check(heddle_bcast(ep, &x, 1, UCC_DT_UINT64, (uint32_t)(r % n)), "bcast");
        x += me;
        check(heddle_allgather(ep, &x, heard, 1, UCC_DT_UINT64), "allgather");
        for (uint64_t i = 0; i < n; i++) {
            wrong += heard[i] != r * r + i;
        }
    }
    free(heard);
    return wrong != 0;
}

int main(int argc, char **argv) {
    int given, rank, wrong = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int each = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 500;

    ucc_oob_coll_t oob;
    heddle_group_t *group[2];
    heddle_group_params_t params = {.endpoints = (uint32_t)each, .oob = &oob};
    check(heddle_bootstrap_mpi(MPI_COMM_WORLD, &oob), "heddle_bootstrap_mpi");
    for (int g = 0; g < 2; g++) {
        check(heddle_group_create(&params, &group[g]), "heddle_group_create");
    }
    check(heddle_bootstrap_mpi_end(&oob), "heddle_bootstrap_mpi_end");

#pragma omp parallel num_threads(2 * each) reduction(| : wrong)
    {
        int thread = omp_get_thread_num();
        heddle_ep_t *ep;
        check(heddle_join(group[thread % 2], (uint32_t)(thread / 2), &ep), "heddle_join");
        wrong = thread % 2 ? tell(ep, rounds) : sum_up(ep, rounds);
        check(heddle_leave(ep), "heddle_leave");
    }
    for (int g = 0; g < 2; g++) {
        heddle_group_destroy(group[g]);
    }
    if (rank == 0) {
        printf("two teams at once, %d rounds: %s\n", rounds, wrong ? "WRONG" : "all right");
    }
    MPI_Finalize();
    return wrong;
}
