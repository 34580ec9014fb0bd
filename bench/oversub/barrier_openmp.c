/* barrier_openmp.c: microseconds of an OpenMP barrier among T threads.
 *
 * usage: barrier_openmp THREADS [SECONDS]
 *
 * Prints one number: the wall time of a loop of barriers over their count. The loop is as long as
 * SECONDS allows (default 1), judged by a short loop before. Compiled once per OpenMP runtime.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

/* Wall time of `count` barriers; the slowest thread counts. */
static double loop(int threads, long count) {
    double longest = 0.0;
#pragma omp parallel num_threads(threads) reduction(max : longest)
    {
#pragma omp barrier
        double begin = omp_get_wtime();
        for (long i = 0; i < count; i++) {
#pragma omp barrier
        }
        longest = omp_get_wtime() - begin;
    }
    return longest;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    double seconds = argc > 2 ? atof(argv[2]) : 1.0;
    if (threads < 1 || seconds <= 0.0) {
        fprintf(stderr, "usage: barrier_openmp threads [seconds]\n");
        return 2;
    }
    omp_set_dynamic(0); /* as many threads as asked for, not as many as processors */
    loop(threads, 2);
    /* Lengthen the trial until it can be timed, so that a slow barrier is not run thousands of
     * times before anybody knows that it is slow. */
    long count = 4;
    double taken = loop(threads, count);
    while (taken < seconds / 20 && count < 10000000) {
        count *= 2;
        taken = loop(threads, count);
    }
    count = (long)((double)count * seconds / taken);
    count = count < 4 ? 4 : count;
    taken = loop(threads, count);
    printf("%.4f\n", taken * 1e6 / (double)count);
    return 0;
}
