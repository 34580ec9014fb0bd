/* summa.c: a matrix product on a grid of threads, with a team for each row and each column.
 *
 * Thread (r, c) owns block (r, c) of A, B and C. In step k the owners of A's block column k send
 * their block along their row, those of B's block row k along their column, and every thread adds
 * the product of what it got to its block of C. The blocks of step k + 1 travel while those of step
 * k are multiplied: heddle_ibcast() starts them, heddle_wait_all() waits for what is then still
 * missing.
 *
 * Checked here: every element of C, against the sum that it stands for.
 *
 * usage: summa [grid [block]]      (default 2, so 4 threads, and 64)
 */
#include <heddle/heddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct problem {
    uint32_t grid, block;
    uint64_t wrong; /* elements, over all threads */
} problem_t;

static void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "summa: %s: %s\n", what, ucc_status_string(status));
        exit(2);
    }
}

/* Small integers, so that sums of products are exact. */
static double element_a(uint64_t row, uint64_t column) {
    return (double)((3 * row + 5 * column) % 17);
}

static double element_b(uint64_t row, uint64_t column) {
    return (double)((7 * row + 2 * column) % 13);
}

typedef struct part {
    uint32_t grid, row, column;
    size_t n; /* rows and columns of a block */
    heddle_ep_t *in_row, *in_column;
    double *a, *b, *c;            /* own blocks */
    double *got_a[2], *got_b[2];  /* of this step and the next */
    ucc_coll_req_h request[2][2]; /* likewise: A's and B's */
} part_t;

/* Whoever owns the block of step k sends from its own copy of it. */
static void start(part_t *p, uint32_t k) {
    uint64_t count = p->n * p->n;
    uint32_t slot = k % 2;
    if (p->column == k) {
        memcpy(p->got_a[slot], p->a, count * sizeof(double));
    }
    if (p->row == k) {
        memcpy(p->got_b[slot], p->b, count * sizeof(double));
    }
    check(heddle_ibcast(p->in_row, p->got_a[slot], count, UCC_DT_FLOAT64, k, &p->request[slot][0]),
          "heddle_ibcast along the row");
    check(
        heddle_ibcast(p->in_column, p->got_b[slot], count, UCC_DT_FLOAT64, k, &p->request[slot][1]),
        "heddle_ibcast along the column");
}

static void finish(part_t *p, uint32_t k) {
    ucc_coll_req_h *request = p->request[k % 2];
    check(heddle_wait_all(request, 2, -1), "heddle_wait_all");
    check(heddle_request_free(&request[0]), "heddle_request_free");
    check(heddle_request_free(&request[1]), "heddle_request_free");
}

/* Some rows of the product; between them, what is on its way makes progress. */
static void multiply(part_t *p, uint32_t k) {
    const double *a = p->got_a[k % 2], *b = p->got_b[k % 2];
    for (size_t i = 0; i < p->n; i++) {
        for (size_t l = 0; l < p->n; l++) {
            for (size_t j = 0; j < p->n; j++) {
                p->c[i * p->n + j] += a[i * p->n + l] * b[l * p->n + j];
            }
        }
        if (i % 16 == 15) {
            check(heddle_progress(p->in_row), "heddle_progress");
        }
    }
}

static uint64_t count_wrong(const part_t *p) {
    uint64_t wrong = 0;
    for (size_t i = 0; i < p->n; i++) {
        for (size_t j = 0; j < p->n; j++) {
            double sum = 0.0;
            for (uint64_t l = 0; l < p->grid * p->n; l++) {
                sum += element_a(p->row * p->n + i, l) * element_b(l, p->column * p->n + j);
            }
            wrong += p->c[i * p->n + j] != sum;
        }
    }
    return wrong;
}

static void fill(part_t *p) {
    for (size_t i = 0; i < p->n; i++) {
        for (size_t j = 0; j < p->n; j++) {
            uint64_t row = p->row * p->n + i, column = p->column * p->n + j;
            p->a[i * p->n + j] = element_a(row, column);
            p->b[i * p->n + j] = element_b(row, column);
        }
    }
}

static void work(heddle_ep_t *ep, void *arg) {
    problem_t *problem = arg;
    uint32_t grid = problem->grid, me = heddle_ep_index(ep);
    part_t p = {.grid = grid, .row = me / grid, .column = me % grid, .n = problem->block};
    double *memory = calloc(7 * p.n * p.n, sizeof(double));
    if (memory == NULL) {
        check(UCC_ERR_NO_MEMORY, "memory for blocks");
    }
    double **place[] = {&p.a, &p.b, &p.c, &p.got_a[0], &p.got_a[1], &p.got_b[0], &p.got_b[1]};
    for (size_t i = 0; i < 7; i++) {
        *place[i] = memory + i * p.n * p.n;
    }
    fill(&p);

    /* the color names the team, the key orders it: number c of a row is column c */
    check(heddle_split(ep, p.row, p.column, &p.in_row), "heddle_split by rows");
    check(heddle_split(ep, p.column, p.row, &p.in_column), "heddle_split by columns");
    start(&p, 0);
    for (uint32_t k = 0; k < grid; k++) {
        finish(&p, k);
        if (k + 1 < grid) {
            start(&p, k + 1);
        }
        multiply(&p, k);
    }
    check(heddle_leave(p.in_row), "heddle_leave");
    check(heddle_leave(p.in_column), "heddle_leave");

    uint64_t wrong = count_wrong(&p);
    check(heddle_allreduce(ep, HEDDLE_IN_PLACE, &wrong, 1, UCC_DT_UINT64, UCC_OP_SUM),
          "heddle_allreduce");
    if (me == 0) {
        problem->wrong = wrong;
    }
    free(memory);
}

static uint32_t argument(int argc, char **argv, int at, uint32_t standard, uint32_t most) {
    char *end = NULL;
    long value = argc > at ? strtol(argv[at], &end, 10) : (long)standard;
    if (value < 1 || value > (long)most || (argc > at && *end != '\0')) {
        fprintf(stderr, "usage: summa [grid [block]]\n");
        exit(2);
    }
    return (uint32_t)value;
}

int main(int argc, char **argv) {
    problem_t problem = {.grid = argument(argc, argv, 1, 2, 32),
                         .block = argument(argc, argv, 2, 64, 4096)};
    check(heddle_run(problem.grid * problem.grid, work, &problem), "heddle_run");
    printf("%u x %u threads, blocks of %u x %u: %s\n", problem.grid, problem.grid, problem.block,
           problem.block, problem.wrong == 0 ? "verified" : "WRONG");
    return problem.wrong == 0 ? 0 : 1;
}
