/* cg.c: conjugate gradients inside one OpenMP parallel region.
 *
 * Solves the 2-D Poisson equation on a square grid (five-point stencil, zero border), without ever
 * storing the matrix. The vectors are shared, each thread owns a band of rows; two dot products per
 * step are heddle_allreduce(), and a heddle_barrier() makes the neighbours' rows of p complete
 * before the stencil reads them. So the region is entered once, not once per loop.
 *
 * Checked here: the answer agrees with a serial run within rounding, and a second parallel run
 * gives the same bits, because Heddle's reductions combine operands in an order that depends on
 * nothing but their number.
 *
 * usage: cg [grid [threads]]      (default 96 and 4)
 */
#include <heddle/heddle.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double tolerance = 1e-10; /* of the residual, relative to the right-hand side */

static void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "cg: %s: %s\n", what, ucc_status_string(status));
        exit(2);
    }
}

/* Vectors have a border of zeros all around: (grid + 2) rows of (grid + 2) numbers. */
typedef struct system {
    size_t grid;
    double *b, *x, *r, *p, *q;
    int steps;       /* taken; written by one thread */
    double residual; /* norm of r over norm of b; written by one thread */
} system_t;

/* The rows that a thread owns, and how its partial sums become everybody's. */
typedef struct part {
    size_t first, last; /* rows first ... last - 1; the border is row 0 */
    heddle_ep_t *ep;    /* NULL: the only one */
} part_t;

static double total(const part_t *part, double mine) {
    if (part->ep != NULL) {
        check(heddle_allreduce(part->ep, HEDDLE_IN_PLACE, &mine, 1, UCC_DT_FLOAT64, UCC_OP_SUM),
              "heddle_allreduce");
    }
    return mine;
}

static void synchronize(const part_t *part) {
    if (part->ep != NULL) {
        check(heddle_barrier(part->ep), "heddle_barrier");
    }
}

/* q = A p, and this part of p . q */
static double apply(const system_t *s, const part_t *part) {
    size_t width = s->grid + 2;
    double dot = 0.0;
    for (size_t row = part->first; row < part->last; row++) {
        for (size_t i = row * width + 1; i <= row * width + s->grid; i++) {
            s->q[i] = 4.0 * s->p[i] - s->p[i - 1] - s->p[i + 1] - s->p[i - width] - s->p[i + width];
            dot += s->p[i] * s->q[i];
        }
    }
    return dot;
}

/* x += alpha p, r -= alpha q, and this part of r . r */
static double advance(const system_t *s, const part_t *part, double alpha) {
    size_t width = s->grid + 2;
    double dot = 0.0;
    for (size_t row = part->first; row < part->last; row++) {
        for (size_t i = row * width + 1; i <= row * width + s->grid; i++) {
            s->x[i] += alpha * s->p[i];
            s->r[i] -= alpha * s->q[i];
            dot += s->r[i] * s->r[i];
        }
    }
    return dot;
}

/* p = r + beta p */
static void redirect(const system_t *s, const part_t *part, double beta) {
    size_t width = s->grid + 2;
    for (size_t row = part->first; row < part->last; row++) {
        for (size_t i = row * width + 1; i <= row * width + s->grid; i++) {
            s->p[i] = s->r[i] + beta * s->p[i];
        }
    }
}

/* x = 0, so r = b; alpha = 0 keeps both and yields r . r */
static double begin(const system_t *s, const part_t *part) {
    size_t width = s->grid + 2;
    for (size_t row = part->first; row < part->last; row++) {
        memcpy(s->r + row * width, s->b + row * width, width * sizeof(double));
        memset(s->x + row * width, 0, width * sizeof(double));
        memset(s->q + row * width, 0, width * sizeof(double));
        memset(s->p + row * width, 0, width * sizeof(double));
    }
    return advance(s, part, 0.0);
}

/* What every thread does; all of them see the same sums, hence leave after the same step. */
static void solve(system_t *s, const part_t *part) {
    double norm = total(part, begin(s, part)), rr = norm;
    int step = 0, most = 10 * (int)s->grid + 10;
    redirect(s, part, 0.0);
    while (sqrt(rr) > tolerance * sqrt(norm) && step < most) {
        synchronize(part); /* the neighbours' rows of p are complete */
        double alpha = rr / total(part, apply(s, part));
        double next = total(part, advance(s, part, alpha));
        redirect(s, part, next / rr); /* nobody reads p any more: all have passed the first sum */
        rr = next;
        step++;
    }
    if (part->first == 1) {
        s->steps = step;
        s->residual = norm > 0.0 ? sqrt(rr / norm) : 0.0;
    }
}

static void solve_parallel(system_t *s, int threads) {
    heddle_group_t *group = NULL;
#pragma omp parallel num_threads(threads)
    {
        size_t n = (size_t)omp_get_num_threads(), me = (size_t)omp_get_thread_num();
/* OpenMP may start fewer threads than asked for: the size is known only here */
#pragma omp single
        check(heddle_group_create(&(heddle_group_params_t){.endpoints = (uint32_t)n}, &group),
              "heddle_group_create");
        part_t part = {.first = 1 + s->grid * me / n, .last = 1 + s->grid * (me + 1) / n};
        check(heddle_join(group, (uint32_t)me, &part.ep), "heddle_join");
        solve(s, &part);
        check(heddle_leave(part.ep), "heddle_leave");
    }
    check(heddle_group_destroy(group), "heddle_group_destroy");
}

static void system_init(system_t *s, size_t grid) {
    size_t width = grid + 2, n = width * width;
    s->grid = grid;
    s->b = calloc(5 * n, sizeof(double));
    if (s->b == NULL) {
        fprintf(stderr, "cg: a grid of %zu by %zu does not fit into memory\n", grid, grid);
        exit(2);
    }
    s->x = s->b + n;
    s->r = s->x + n;
    s->p = s->r + n;
    s->q = s->p + n;
    for (size_t row = 1; row <= grid; row++) {
        for (size_t column = 1; column <= grid; column++) {
            s->b[row * width + column] = sin((double)(3 * row)) + cos((double)(5 * column * row));
        }
    }
}

/* Largest difference of the solutions over the largest value. */
static double difference(const system_t *a, const system_t *b) {
    double largest = 0.0, worst = 0.0;
    for (size_t i = 0; i < (a->grid + 2) * (a->grid + 2); i++) {
        largest = fmax(largest, fabs(a->x[i]));
        worst = fmax(worst, fabs(a->x[i] - b->x[i]));
    }
    return largest > 0.0 ? worst / largest : worst;
}

static long argument(int argc, char **argv, int at, long standard, long most) {
    char *end = NULL;
    long value = argc > at ? strtol(argv[at], &end, 10) : standard;
    if (value < 1 || value > most || (argc > at && *end != '\0')) {
        fprintf(stderr, "usage: cg [grid [threads]]\n");
        exit(2);
    }
    return value;
}

int main(int argc, char **argv) {
    size_t grid = (size_t)argument(argc, argv, 1, 96, 20000);
    int threads = (int)argument(argc, argv, 2, 4, 1024);
    system_t serial, first, second;
    system_init(&serial, grid);
    system_init(&first, grid);
    system_init(&second, grid);

    double start = omp_get_wtime();
    solve(&serial, &(part_t){.first = 1, .last = grid + 1});
    double middle = omp_get_wtime();
    solve_parallel(&first, threads);
    double end = omp_get_wtime();
    solve_parallel(&second, threads);

    double apart = difference(&serial, &first);
    size_t bytes = (grid + 2) * (grid + 2) * sizeof(double);
    bool same = memcmp(first.x, second.x, bytes) == 0 && first.steps == second.steps;
    printf("serial:   %d steps, residual %.2e, %.2f ms\n", serial.steps, serial.residual,
           (middle - start) * 1e3);
    printf("parallel: %d steps, residual %.2e, %.2f ms, %d threads\n", first.steps, first.residual,
           (end - middle) * 1e3, threads);
    printf("solutions differ by %.2e; a second parallel run gives %s bits\n", apart,
           same ? "the same" : "OTHER");
    bool good = same && apart < 1e-7 && first.residual <= tolerance && serial.residual <= tolerance;
    puts(good ? "verified" : "WRONG");
    free(serial.b);
    free(first.b);
    free(second.b);
    return good ? 0 : 1;
}
