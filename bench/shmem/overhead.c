/* overhead.c: what OpenSHMEM's calls cost beside Heddle's own: a program for shmemrun, in one
 * process. Rounds of
 * either alternate in one run; printed are the medians of rounds, in nanoseconds per call at PE 0,
 * and their differences.
 *
 * usage: shmemrun -n N bench_shmem_overhead [ROUNDS [CALLS]]      (default 101 rounds of 2,000
 * calls)
 */
#include <heddle/heddle.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long source, dest;
static heddle_ep_t *endpoint; /* as the library has one: of a group of all PEs */
static heddle_group_t *group; /* PE 0's */

static void shmem_barriers(int calls) {
    for (int i = 0; i < calls; i++) {
        shmem_barrier_all();
    }
}

static void heddle_barriers(int calls) {
    for (int i = 0; i < calls; i++) {
        heddle_barrier(endpoint);
    }
}

static void shmem_sums(int calls) {
    for (int i = 0; i < calls; i++) {
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &dest, &source, 1);
    }
}

static void heddle_sums(int calls) {
    for (int i = 0; i < calls; i++) {
        heddle_allreduce(endpoint, &source, &dest, 1, UCC_DT_INT64, UCC_OP_SUM);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double time_calls(void (*work)(int calls), int calls) {
    shmem_barrier_all();
    double began = now();
    work(calls);
    return (now() - began) / calls;
}

static int compare(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static void measure(const char *what, void (*openshmem)(int), void (*plain)(int), int rounds,
                    int calls) {
    double *times = malloc(sizeof(double) * 3 * (size_t)rounds), *plain_times = times + rounds;
    double *differences = plain_times + rounds;
    for (int i = 0; i < rounds; i++) { /* each is the first of a pair in turn */
        double first = time_calls(i % 2 ? plain : openshmem, calls);
        double second = time_calls(i % 2 ? openshmem : plain, calls);
        times[i] = i % 2 ? second : first;
        plain_times[i] = i % 2 ? first : second;
        differences[i] = times[i] - plain_times[i];
    }
    qsort(times, (size_t)rounds, sizeof(double), compare);
    qsort(plain_times, (size_t)rounds, sizeof(double), compare);
    qsort(differences, (size_t)rounds, sizeof(double), compare);
    if (shmem_my_pe() == 0) {
        printf("%-30s %9.1f ns, Heddle's %9.1f ns, difference of a pair %7.1f ns (quartiles %.1f, "
               "%.1f)\n",
               what, times[rounds / 2], plain_times[rounds / 2], differences[rounds / 2],
               differences[rounds / 4], differences[rounds - 1 - rounds / 4]);
    }
    free(times);
}

int main(int argc, char **argv) {
    shmem_init();
    int rounds = argc > 1 ? atoi(argv[1]) : 101, calls = argc > 2 ? atoi(argv[2]) : 2000;
    if (shmem_my_pe() == 0) {
        heddle_group_params_t params = {.endpoints = (uint32_t)shmem_n_pes()};
        if (heddle_group_create(&params, &group) != UCC_OK) {
            shmem_global_exit(1);
        }
    }
    shmem_barrier_all();
    heddle_group_t *all = *(heddle_group_t **)shmem_ptr(&group, 0);
    if (heddle_join(all, (uint32_t)shmem_my_pe(), &endpoint) != UCC_OK) {
        shmem_global_exit(1);
    }
    measure("shmem_barrier_all", shmem_barriers, heddle_barriers, rounds, calls);
    measure("shmem_long_sum_reduce, 8 B", shmem_sums, heddle_sums, rounds, calls);
    heddle_leave(endpoint);
    shmem_barrier_all();
    if (group) {
        heddle_group_destroy(group);
    }
    shmem_finalize();
    return 0;
}
