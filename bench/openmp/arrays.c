/* arrays.c: sums of arrays among the threads of a parallel region: OpenMP's reduction(+ : a[:n])
 * and <heddle/omp.h>, in turn, in one run. Both do the same for a user: each thread clears an array
 * of its own, adds to it, and all read the sums.
 *
 *     arrays [THREADS [MOST_BYTES [SECONDS]]]      a line for each size: medians of the rounds,
 *                                                  microseconds per call
 */
#include <heddle/omp.h>
#include <inttypes.h>

enum { ROUNDS = 9, WAYS = 3 };

static const char *const way_name[WAYS] = {"reduction(+ : a[:n])", "heddle_omp_reduce",
                                           "heddle_omp_allreduce"};

typedef struct arrays {
    int threads;
    size_t n;     /* elements */
    double *sums; /* shared */
    double **own; /* [threads]: each thread's own */
    const double *more;
} arrays_t;

static void must(bool right, const char *what) {
    if (!right) {
        fprintf(stderr, "FATAL: %s\n", what);
        exit(1);
    }
}

static void add(double *to, const double *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        to[i] += from[i];
    }
}

/* The runtime clears and adds to arrays that it makes. */
static void by_openmp(const arrays_t *a) {
    double *sums = a->sums;
    const double *more = a->more;
    size_t n = a->n;
#pragma omp single
    memset(sums, 0, n * sizeof(*sums));
#pragma omp for schedule(static) reduction(+ : sums[:n])
    for (int i = 0; i < a->threads; i++) {
        add(sums, more, n);
    }
}

static void by_heddle(const arrays_t *a, bool all) {
    double *own = a->own[omp_get_thread_num()];
    memset(own, 0, a->n * sizeof(*own));
    add(own, a->more, a->n);
    ucc_status_t status = all ? heddle_omp_allreduce(own, a->n, UCC_DT_FLOAT64, UCC_OP_SUM)
                              : heddle_omp_reduce(own, a->sums, a->n, UCC_DT_FLOAT64, UCC_OP_SUM);
    must(status == UCC_OK, "heddle_omp_reduce");
}

static void call(const arrays_t *a, int way) {
    if (way == 0) {
        by_openmp(a);
    } else {
        by_heddle(a, way == 2);
    }
}

/* Inside of the region: each thread looks at what is its own to look at. */
static void check(const arrays_t *a, int way) {
    const double *sums = way == 2 ? a->own[omp_get_thread_num()] : a->sums;
    for (size_t i = 0; i < a->n; i++) {
        must(sums[i] == a->threads * a->more[i], "a wrong sum");
    }
}

static double measure(const arrays_t *a, int way, uint64_t calls) {
    double took = 0;
#pragma omp parallel num_threads(a->threads)
    {
        call(a, way);
#pragma omp barrier
        double began = omp_get_wtime();
        for (uint64_t k = 0; k < calls; k++) {
            call(a, way);
        }
#pragma omp barrier
        check(a, way);
#pragma omp master
        took = omp_get_wtime() - began;
    }
    return took * 1e6 / (double)calls;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run(const arrays_t *a, double seconds) {
    double took[WAYS][ROUNDS];
    uint64_t calls[WAYS];
    for (int way = 0; way < WAYS; way++) {
        double once = measure(a, way, 3);
        calls[way] = 1 + (uint64_t)(seconds * 1e6 / ROUNDS / WAYS / once);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int way = 0; way < WAYS; way++) {
            took[way][round] = measure(a, way, calls[way]);
        }
    }
    printf("%2d %9zu", a->threads, a->n * sizeof(double));
    for (int way = 0; way < WAYS; way++) {
        qsort(took[way], ROUNDS, sizeof(double), compare);
        printf(" %12.2f", took[way][ROUNDS / 2]);
    }
    printf(" %8.2f\n", took[0][ROUNDS / 2] / took[1][ROUNDS / 2]);
    fflush(stdout);
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    size_t most = (argc > 2 ? (size_t)atoll(argv[2]) : (size_t)16 << 20) / sizeof(double);
    double seconds = argc > 3 ? atof(argv[3]) : 0.5;
    must(threads > 0 && most > 0, "usage: arrays [THREADS [MOST_BYTES [SECONDS]]]");
    omp_set_dynamic(0); /* as many threads as asked for */
    double **own = calloc((size_t)threads, sizeof(*own)), *more = malloc(most * sizeof(*more));
    arrays_t a = {
        .threads = threads, .sums = malloc(most * sizeof(double)), .own = own, .more = more};
    must(own && more && a.sums, "no memory");
    for (size_t i = 0; i < most; i++) {
        more[i] = (double)(i % 1000);
    }
#pragma omp parallel num_threads(threads)
    {
        must(omp_get_num_threads() == threads, "fewer threads than asked for");
        own[omp_get_thread_num()] = malloc(most * sizeof(double));
        must(own[omp_get_thread_num()] != NULL, "no memory");
    }
    printf("# %s; microseconds; last: the first over the second\n# threads bytes", __VERSION__);
    for (int way = 0; way < WAYS; way++) {
        printf("  %s", way_name[way]);
    }
    puts("");
    for (a.n = 1; a.n <= most; a.n *= a.n < 8 ? 8 : 4) {
        run(&a, seconds);
    }
    for (int i = 0; i < threads; i++) {
        free(own[i]);
    }
    free(own);
    free(more);
    free(a.sums);
    heddle_omp_free(&heddle_omp_default);
    return 0;
}
