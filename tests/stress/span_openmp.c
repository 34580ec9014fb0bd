/* span_openmp.c: the calls of omp.h in parallel regions that span processes, after
 * heddle_omp_across. */
#include "../support/processes.h"

#include <stdatomic.h>
#include <stdlib.h>

/* omp.h's allocations, of which so many succeed; below 0: all. */
static _Atomic int allocations_left = -1;

static void *failing_calloc(size_t n, size_t size) {
    int left = allocations_left;
    while (left > 0 && !atomic_compare_exchange_weak(&allocations_left, &left, left - 1)) {
    }
    return left == 0 ? NULL : calloc(n, size);
}

#define calloc failing_calloc
#include <heddle/omp.h>
#undef calloc
#include <stdio.h>

enum { ROUNDS = 200, MOST = 16, MANY = 100000 };

static int failed(const process_t *process, const char *what) {
    fprintf(stderr, "process %u: %s\n", process->me, what);
    return 1;
}

/* Every thread of both processes' regions gives its number in all, and gets the sum of all. */
static int sum_over_all(const process_t *process, int threads, uint32_t all) {
    int wrong = 0;
#pragma omp parallel num_threads(threads) reduction(+ : wrong)
    for (int i = 0; i < ROUNDS; i++) {
        heddle_ep_t *ep;
        wrong += heddle_omp_ep(&ep) != UCC_OK;
        double x = (double)heddle_ep_index(ep) + i;
        double expected = all * (all - 1) / 2.0 + (double)i * all;
        wrong += heddle_ep_size(ep) != all;
        wrong += heddle_omp_allreduce(&x, 1, UCC_DT_FLOAT64, UCC_OP_SUM) != UCC_OK || x != expected;
        wrong += heddle_omp_barrier() != UCC_OK;
    }
    return wrong ? failed(process, "wrong sums") : 0;
}

/* Element i of endpoint e's array; the sum over n of them. */
static double element(uint64_t e, uint64_t i) {
    return (double)(e + i % 7);
}

static double elements(uint64_t n, uint64_t i) {
    return (double)(n * (n - 1) / 2 + n * (i % 7));
}

/* The array that this process's threads share has all sums when any of them returns, in whichever
 * process. */
static int reduces(uint64_t count, uint32_t me, uint32_t all) {
    static double shared[MANY];
    double *mine = calloc(count, sizeof(*mine));
    int wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        mine[i] = element(me, i);
    }
    wrong += heddle_omp_reduce(mine, shared, count, UCC_DT_FLOAT64, UCC_OP_SUM) != UCC_OK;
    for (uint64_t i = 0; i < count; i++) {
        wrong += shared[i] != elements(all, i);
    }
    wrong += heddle_omp_barrier() != UCC_OK; /* all have read it */
    free(mine);
    return wrong;
}

static int others_are_right(uint32_t me, uint32_t all) {
    uint32_t x = me, prefix = me + 1, gathered[MOST];
    int wrong = 0;
    for (uint32_t root = 0; root < all; root++) {
        x = me;
        wrong += heddle_omp_bcast(&x, 1, UCC_DT_UINT32, root) != UCC_OK || x != root;
    }
    wrong += heddle_omp_scan(&prefix, 1, UCC_DT_UINT32, UCC_OP_SUM) != UCC_OK;
    wrong += prefix != (me + 1) * (me + 2) / 2;
    wrong += heddle_omp_allgather(&me, gathered, 1, UCC_DT_UINT32) != UCC_OK;
    for (uint32_t i = 0; i < all; i++) {
        wrong += gathered[i] != i;
    }
    return wrong;
}

/* Every call of omp.h, where endpoints are numbered by process, and by thread inside of each. */
static int all_calls_span(const process_t *process) {
    int wrong = 0;
#pragma omp parallel num_threads((int)process->n) reduction(+ : wrong)
    {
        heddle_ep_t *ep;
        wrong += heddle_omp_ep(&ep) != UCC_OK;
        uint32_t me = heddle_ep_index(ep), all = heddle_ep_size(ep);
        wrong += me != process->endpoint[omp_get_thread_num()] || all != process->size;
        for (int round = 0; round < 10; round++) {
            const uint64_t counts[] = {0, 1, 64, 65, 1000, MANY};
            for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                wrong += reduces(counts[i], me, all);
            }
            wrong += others_are_right(me, all);
        }
    }
    return wrong ? failed(process, "a call of omp.h is wrong") : 0;
}

/* What no thread can reduce, all refuse; then calls match again. */
static int refusals_match(const process_t *process) {
    int wrong = 0;
    double shared[100];
#pragma omp parallel num_threads((int)process->n) reduction(+ : wrong)
    {
        double mine[100] = {0};
        for (uint64_t count = 1; count <= 100; count += 99) {
            wrong += heddle_omp_reduce(mine, NULL, count, UCC_DT_FLOAT64, UCC_OP_SUM) !=
                     UCC_ERR_INVALID_PARAM;
            wrong += heddle_omp_reduce(mine, shared, count, UCC_DT_FLOAT64, UCC_OP_BAND) !=
                     UCC_ERR_NOT_SUPPORTED;
            wrong += heddle_omp_reduce(mine, shared, count, UCC_DT_FLOAT64, UCC_OP_SUM) != UCC_OK;
        }
    }
    return wrong ? failed(process, "a reduction that is refused") : 0;
}

/* Regions inside of regions, and calls outside of them, stay in the process. */
static int nested_stay_inside(const process_t *process) {
    int wrong = 0;
    double alone = 1;
    wrong += heddle_omp_allreduce(&alone, 1, UCC_DT_FLOAT64, UCC_OP_SUM) != UCC_OK || alone != 1;
    int mine = (int)process->n + 2; /* of a new size in all processes */
    uint32_t all = process->size + 2 * process->shape->processes;
#pragma omp parallel num_threads(mine) reduction(+ : wrong)
    {
        double x = 1;
        wrong += heddle_omp_allreduce(&x, 1, UCC_DT_FLOAT64, UCC_OP_SUM) != UCC_OK || x != all;
#pragma omp parallel num_threads(2) reduction(+ : wrong)
        {
            double y = 1;
            wrong += heddle_omp_allreduce(&y, 1, UCC_DT_FLOAT64, UCC_OP_SUM) != UCC_OK ||
                     y != omp_get_num_threads();
        }
    }
    return wrong ? failed(process, "a nested region is not alone") : 0;
}

/* So do those of a league's teams, also of the first one, whose number is that of no league. */
static int leagues_stay_inside(const process_t *process) {
    int wrong = 0;
#pragma omp teams num_teams(2) thread_limit(2) reduction(+ : wrong)
#pragma omp parallel num_threads((int)process->n) reduction(+ : wrong)
    {
        heddle_ep_t *ep;
        wrong += heddle_omp_ep(&ep) != UCC_OK || omp_get_num_teams() != 2;
        wrong += heddle_ep_size(ep) != (uint32_t)omp_get_num_threads();
        wrong += heddle_barrier(ep) != UCC_OK;
    }
    return wrong ? failed(process, "a league's team is not alone") : 0;
}

/* The last process has no memory for its part of a region: nobody waits for it, no thread of the
 * region tries again, and after heddle_omp_free all is well. */
static int failures_are_told(const process_t *process) {
    int status = 0, mine = (int)process->n;
    for (int left = 0; left < 3; left++) {
        int good = 0;
        heddle_omp_free(&heddle_omp_default);
        process_barrier(process);
        allocations_left = process->me == process->shape->processes - 1 ? left : -1;
#pragma omp parallel num_threads(mine) reduction(+ : good)
        {
            good += heddle_omp_barrier() == UCC_OK;
            good += heddle_omp_barrier() == UCC_OK;
        }
        allocations_left = -1;
        status |= good ? failed(process, "a barrier without all threads") : 0;
        process_barrier(process);
        heddle_omp_free(&heddle_omp_default);
        status |= sum_over_all(process, mine, process->size);
    }
    return status;
}

static int work(const process_t *process, void *arg) {
    (void)arg;
    ucc_oob_coll_t oob = process_group_oob(process, 0), bad = oob;
    int mine = (int)process->n, status = 0;
    bad.req_test = NULL;
    omp_set_dynamic(0);
    omp_set_max_active_levels(2);
    status |= sum_over_all(process, mine, process->n); /* before: only this process's */
    if (heddle_omp_across(&heddle_omp_default, &bad) != UCC_ERR_INVALID_PARAM) {
        status |= failed(process, "an exchange without req_test");
    }
    if (heddle_omp_across(&heddle_omp_default, &oob) != UCC_OK) {
        return failed(process, "heddle_omp_across");
    }
    status |= sum_over_all(process, mine, process->size);
    status |= sum_over_all(process, mine + 1, process->size + process->shape->processes);
    status |= sum_over_all(process, mine, process->size);
    status |= all_calls_span(process);
    status |= refusals_match(process);
    status |= nested_stay_inside(process);
    status |= leagues_stay_inside(process);
    heddle_omp_free(&heddle_omp_default); /* what comes next spans processes, too */
    status |= leagues_stay_inside(process);
    status |= sum_over_all(process, mine, process->size);
    status |= failures_are_told(process);
    if (heddle_omp_across(&heddle_omp_default, NULL) != UCC_OK) {
        return failed(process, "back to the process");
    }
    status |= sum_over_all(process, mine, process->n);
    heddle_omp_free(&heddle_omp_default);
    return status;
}

int main(void) {
    shape_t shapes[] = {shape_even(2, 1), shape_even(2, 3), {.processes = 2, .endpoints = {3, 1}}};
    int bad = 0;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        bool ok = processes_run(&shapes[i], 60, work, NULL).ok;
        printf("%s %s\n", ok ? "ok" : "FAILED", shape_name(&shapes[i]));
        bad += !ok;
    }
    return bad > 0;
}
