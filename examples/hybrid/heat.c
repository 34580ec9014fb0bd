/* heat.c: MPI processes x OpenMP threads, where every thread is an endpoint of one Heddle team over
 * all processes. A rod is heated at one end; its cells are divided among all threads. Each step
 * exchanges the cells at the edges with the neighbours (an alltoallv with two partners), and the
 * heat that is in the rod is summed by an allreduce that goes on while the next step is computed.
 * Heat is neither made nor lost inside, so the sums tell whether all is well.
 *
 *     mpicc -fopenmp heat.c $(pkg-config --cflags --libs heddle) -lm -o heat
 *     mpiexec -n 2 ./heat [THREADS [CELLS [STEPS]]]
 *
 * MPI is needed to find the other processes, and by one thread at a time: MPI_THREAD_FUNNELED is
 * enough.
 */
#include <heddle/heddle.h>
/* mpi.h is for bootstrap_mpi.h to include */
#include <heddle/bootstrap_mpi.h>

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rod {
    double *cell, *next; /* cells + 2: at both ends those of the neighbours */
    size_t cells;
} rod_t;

static void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "%s: %s\n", what, ucc_status_string(status));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* My edge cells to the neighbours, and theirs to mine; the ends of the rod keep what they have. */
static void exchange_edges(heddle_ep_t *ep, rod_t *rod) {
    uint32_t me = heddle_ep_index(ep), n = heddle_ep_size(ep);
    uint64_t *counts = calloc(4 * (size_t)n, sizeof(*counts)), *out = counts + n, *in = out + n;
    double *c = rod->cell;
    if (me > 0) {
        counts[me - 1] = 1;
        out[me - 1] = 1;
        in[me - 1] = 0;
    }
    if (me + 1 < n) {
        counts[me + 1] = 1;
        out[me + 1] = rod->cells;
        in[me + 1] = rod->cells + 1;
    }
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = UCC_COLL_ARGS_FLAG_COUNT_64BIT |
                                     UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT,
                            .coll_type = UCC_COLL_TYPE_ALLTOALLV};
    args.src.info_v = (ucc_coll_buffer_info_v_t){.buffer = c,
                                                 .counts = counts,
                                                 .displacements = out,
                                                 .datatype = UCC_DT_FLOAT64,
                                                 .mem_type = UCC_MEMORY_TYPE_HOST};
    args.dst.info_v = args.src.info_v;
    args.dst.info_v.displacements = in;
    ucc_coll_req_h request;
    check(ucc_collective_init(&args, &request, heddle_ep_team(ep)), "alltoallv");
    check(ucc_collective_post(request), "alltoallv");
    check(heddle_wait(request, -1), "alltoallv");
    check(ucc_collective_finalize(request), "alltoallv");
    free(counts);
}

static double step(rod_t *rod) {
    double heat = 0;
    for (size_t i = 1; i <= rod->cells; i++) {
        rod->next[i] =
            rod->cell[i] + 0.25 * (rod->cell[i - 1] - 2 * rod->cell[i] + rod->cell[i + 1]);
        heat += rod->next[i];
    }
    double *was = rod->cell;
    rod->cell = rod->next;
    rod->next = was;
    return heat;
}

/* Returns the largest relative error of the sums, which must be 0 but for rounding. */
static double heat_rod(heddle_ep_t *ep, size_t cells, int steps) {
    uint32_t me = heddle_ep_index(ep), n = heddle_ep_size(ep);
    double *memory = calloc(2 * (cells + 2), sizeof(*memory)), worst = 0, expected = 1000;
    rod_t rod = {memory, memory + cells + 2, cells};
    if (me == 0) {
        rod.cell[1] = expected;
    }
    double mine = 0, sum = 0;
    ucc_coll_req_h request = NULL;
    for (int s = 0; s < steps; s++) {
        exchange_edges(ep, &rod);
        rod.cell[0] = me == 0 ? rod.cell[1] : rod.cell[0]; /* no heat goes out at the ends */
        rod.cell[cells + 1] = me + 1 == n ? rod.cell[cells] : rod.cell[cells + 1];
        double heat = step(&rod);
        if (request) { /* the sum of the step before, which went on meanwhile */
            check(heddle_wait(request, -1), "allreduce");
            check(heddle_request_free(&request), "allreduce");
            worst = fmax(worst, fabs(sum - expected) / expected);
        }
        mine = heat;
        check(heddle_iallreduce(ep, &mine, &sum, 1, UCC_DT_FLOAT64, UCC_OP_SUM, &request),
              "allreduce");
    }
    if (request) {
        check(heddle_wait(request, -1), "allreduce");
        check(heddle_request_free(&request), "allreduce");
        worst = fmax(worst, fabs(sum - expected) / expected);
    }
    free(memory);
    return worst;
}

int main(int argc, char **argv) {
    int given, rank, processes;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    int threads = argc > 1 ? atoi(argv[1]) : 2, steps = argc > 3 ? atoi(argv[3]) : 200;
    size_t cells = argc > 2 ? (size_t)atoi(argv[2]) : 10000;

    ucc_oob_coll_t oob;
    heddle_group_t *group;
    check(heddle_bootstrap_mpi(MPI_COMM_WORLD, &oob), "heddle_bootstrap_mpi");
    check(heddle_group_create(&(heddle_group_params_t){.endpoints = (uint32_t)threads, .oob = &oob},
                              &group),
          "heddle_group_create");
    check(heddle_bootstrap_mpi_end(&oob), "heddle_bootstrap_mpi_end");

    double worst = 0;
#pragma omp parallel num_threads(threads) reduction(max : worst)
    {
        heddle_ep_t *ep;
        check(heddle_join(group, (uint32_t)omp_get_thread_num(), &ep), "heddle_join");
        worst = heat_rod(ep, cells, steps);
        check(heddle_leave(ep), "heddle_leave");
    }
    heddle_group_destroy(group);
    if (rank == 0) {
        printf("%d processes x %d threads, %d steps: heat is kept to %.1e of it\n", processes,
               threads, steps, worst);
    }
    MPI_Finalize();
    return worst < 1e-9 ? 0 : 1;
}
