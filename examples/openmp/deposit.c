/* deposit.c: particles that leave their charge on a grid, as in particle-in-cell codes: every
 * thread has its own particles and its own copy of the grid, and the copies have to be added up, at
 * each step.
 *
 * Twice: by OpenMP's reduction(+ : grid[:n]), and by heddle_omp_reduce() of <heddle/omp.h>. Both
 * charges must agree within rounding; a second run by Heddle must give the same bits. How long each
 * took stands in the last line.
 *
 * usage: deposit [cells [threads [steps]]]      (default 2000, 4 and 200)
 */
#include <heddle/omp.h>
#include <math.h>

enum { PARTICLES = 500 }; /* of each thread */

typedef struct run {
    size_t cells;
    int threads, steps;
    double *grid; /* shared: the charge of the latest step */
} run_t;

static void fail(const char *what) {
    fprintf(stderr, "deposit: %s\n", what);
    exit(2);
}

/* Where particle i of a thread is at a step, in cells; and its charge. */
static double position(const run_t *r, int thread, int i, int step) {
    uint64_t x =
        977 * (uint64_t)i + 7919 * (uint64_t)thread + (uint64_t)(i % 11 + 1) * 13 * (uint64_t)step;
    return (double)(x % (16 * r->cells)) / 16;
}

/* Each leaves its charge in the two cells that it is nearest to. */
static void deposit(const run_t *r, double *grid, int thread, int step) {
    for (int i = 0; i < PARTICLES; i++) {
        double x = position(r, thread, i, step), part = x - floor(x), charge = 1.0 / (1 + i % 5);
        size_t cell = (size_t)x;
        grid[cell] += charge * (1 - part);
        grid[cell + 1 < r->cells ? cell + 1 : 0] += charge * part;
    }
}

/* The runtime makes, clears and adds up the copies. */
static void step_by_openmp(const run_t *r, int step) {
    double *grid = r->grid;
    size_t n = r->cells;
#pragma omp single
    memset(grid, 0, n * sizeof(*grid));
#pragma omp for schedule(static) reduction(+ : grid[:n])
    for (int thread = 0; thread < r->threads; thread++) {
        deposit(r, grid, thread, step);
    }
}

static void step_by_heddle(const run_t *r, double *mine, int step) {
    memset(mine, 0, r->cells * sizeof(*mine));
    deposit(r, mine, omp_get_thread_num(), step);
    if (heddle_omp_reduce(mine, r->grid, r->cells, UCC_DT_FLOAT64, UCC_OP_SUM) != UCC_OK) {
        fail("heddle_omp_reduce");
    }
}

/* In seconds. */
static double go(const run_t *r, int by_heddle) {
    double began = 0, ended = 0;
#pragma omp parallel num_threads(r->threads)
    {
        double *mine = malloc(r->cells * sizeof(*mine));
        if (mine == NULL || omp_get_num_threads() != r->threads) {
            fail("no memory, or fewer threads than asked for");
        }
        for (int step = -1; step < r->steps; step++) { /* the first one is not counted */
            if (by_heddle) {
                step_by_heddle(r, mine, step < 0 ? 0 : step);
            } else {
                step_by_openmp(r, step < 0 ? 0 : step);
            }
#pragma omp barrier /* all have read the grid */
#pragma omp master
            began = step < 0 ? omp_get_wtime() : began;
        }
#pragma omp master
        ended = omp_get_wtime();
        free(mine);
    }
    return ended - began;
}

static int argument(int argc, char **argv, int i, int otherwise) {
    int value = argc > i ? atoi(argv[i]) : otherwise;
    if (value < 1) {
        fail("usage: deposit [cells [threads [steps]]]");
    }
    return value;
}

int main(int argc, char **argv) {
    run_t r = {.cells = (size_t)argument(argc, argv, 1, 2000),
               .threads = argument(argc, argv, 2, 4),
               .steps = argument(argc, argv, 3, 200)};
    double *by_openmp = malloc(r.cells * sizeof(double)), *again = malloc(r.cells * sizeof(double));
    double *by_heddle = malloc(r.cells * sizeof(double));
    if (by_openmp == NULL || again == NULL || by_heddle == NULL) {
        fail("no memory");
    }
    omp_set_dynamic(0); /* as many threads as asked for */
    r.grid = by_openmp;
    double openmp_s = go(&r, 0);
    r.grid = by_heddle;
    double heddle_s = go(&r, 1);
    r.grid = again;
    (void)go(&r, 1);
    int same = memcmp(again, by_heddle, r.cells * sizeof(double)) == 0;
    double apart = 0;
    for (size_t i = 0; i < r.cells; i++) {
        apart = fmax(apart, fabs(by_openmp[i] - by_heddle[i]));
    }
    int right = same && apart < 1e-9;
    printf("%zu cells, %d threads, %d steps: %s\n", r.cells, r.threads, r.steps,
           right  ? "agreed, and the same bits twice"
           : same ? "WRONG: the charges differ"
                  : "WRONG: other bits the second time");
    printf("a step: %.2f us by reduction(+ : grid[:n]), %.2f us by heddle_omp_reduce: %.1f times "
           "as fast\n",
           openmp_s * 1e6 / r.steps, heddle_s * 1e6 / r.steps, openmp_s / heddle_s);
    heddle_omp_free(&heddle_omp_default);
    free(by_openmp);
    free(by_heddle);
    free(again);
    return right ? 0 : 1;
}
