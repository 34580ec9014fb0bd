/* structures.c: our general structures beside Concurrency Kit's: what an operation takes, among one
 * thread, two, and more than there are processors.
 *
 * usage: bench_structures [--rounds N] [--threads N]... [NAME]...
 *
 * In every round both do the same work, one after the other, and who begins alternates. Printed are
 * the fastest and the median round of each, in ns per operation of all threads together, and the
 * quartiles of Concurrency Kit's time over ours within a round: above 1, ours is faster. NAME:
 * contests that contain it.
 */
#include "structures.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ROUNDS = 1001, ROUND_NS = 3000000 };

static uint32_t rounds = 41;

void *zeroed(uint64_t bytes) {
    uint64_t whole = (bytes + 127) / 128 * 128;
    void *memory = aligned_alloc(128, whole);
    if (!memory) {
        fprintf(stderr, "bench_structures: no memory\n");
        exit(1);
    }
    return memset(memory, 0, whole);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* --- one round -------------------------------------------------------------------------------- */

typedef struct worker {
    const rival_t *rival;
    void *shared;
    pthread_barrier_t *meeting;
    uint32_t thread;
    uint64_t operations;
    double began, ended;
} worker_t;

static void pin(uint32_t thread) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(thread % (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set),
                           &set); /* where it may not, it runs anywhere */
}

static void *run_worker(void *arg) {
    worker_t *w = arg;
    pin(w->thread);
    pthread_barrier_wait(w->meeting);
    w->began = now();
    w->rival->work(w->shared, w->thread, w->operations);
    w->ended = now();
    return NULL;
}

/* ns from the first thread's start to the last one's end. */
static double run_round(const rival_t *rival, uint32_t threads, uint64_t operations) {
    pthread_t id[MAX_THREADS];
    worker_t worker[MAX_THREADS];
    pthread_barrier_t meeting;
    void *shared = rival->create(threads);
    double began, ended;
    pthread_barrier_init(&meeting, NULL, threads);
    for (uint32_t i = 0; i < threads; i++) {
        worker[i] = (worker_t){rival, shared, &meeting, i, operations, 0, 0};
        if (i && pthread_create(&id[i], NULL, run_worker, &worker[i]) != 0) {
            fprintf(stderr, "bench_structures: no thread\n");
            exit(1);
        }
    }
    run_worker(&worker[0]);
    began = worker[0].began;
    ended = worker[0].ended;
    for (uint32_t i = 1; i < threads; i++) {
        pthread_join(id[i], NULL);
        began = worker[i].began < began ? worker[i].began : began;
        ended = worker[i].ended > ended ? worker[i].ended : ended;
    }
    pthread_barrier_destroy(&meeting);
    rival->destroy(shared);
    return ended - began;
}

/* --- all rounds ------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How many operations of each thread take a round's time. */
static uint64_t calibrate(const contest_t *c, uint32_t threads) {
    uint64_t operations = 64;
    while (operations < (1u << 24) && run_round(&c->ours, threads, operations) < ROUND_NS / 2) {
        operations *= 2;
    }
    return operations;
}

static void run_contest(const contest_t *c, uint32_t threads) {
    static double ours[MAX_ROUNDS], ck[MAX_ROUNDS], ratio[MAX_ROUNDS];
    uint64_t operations = calibrate(c, threads);
    double all = (double)(operations * threads);
    for (uint32_t r = 0; r < rounds; r++) {
        bool we_begin = r % 2 == 0;
        ours[r] = we_begin ? run_round(&c->ours, threads, operations) / all : 0;
        ck[r] = run_round(&c->ck, threads, operations) / all;
        ours[r] = we_begin ? ours[r] : run_round(&c->ours, threads, operations) / all;
        ratio[r] = ck[r] / ours[r];
    }
    qsort(ours, rounds, sizeof(double), compare);
    qsort(ck, rounds, sizeof(double), compare);
    qsort(ratio, rounds, sizeof(double), compare);
    printf("%-44s %7u %9.1f %9.1f %9.1f %9.1f   %5.2f %5.2f %5.2f  %s\n", c->what, threads, ours[0],
           ours[rounds / 2], ck[0], ck[rounds / 2], ratio[rounds / 4], ratio[rounds / 2],
           ratio[rounds * 3 / 4], c->unit);
    fflush(stdout);
}

static bool is_asked_for(const char *what, char *const *names) {
    bool asked = !*names;
    for (; *names; names++) {
        asked = asked || strstr(what, *names);
    }
    return asked;
}

static void usage(void) {
    fprintf(stderr, "usage: bench_structures [--rounds N] [--threads N]... [NAME]...\n");
    exit(2);
}

int main(int argc, char **argv) {
    const contest_t *all[] = {lock_contests, stack_contests, table_contests};
    uint32_t threads[MAX_THREADS] = {1, 2, 8}, n_threads = 3, n_given = 0;
    char **names = argv + 1;
    for (; *names && strncmp(*names, "--", 2) == 0; names += 2) {
        unsigned long value = names[1] ? strtoul(names[1], NULL, 10) : 0;
        if (strcmp(*names, "--rounds") == 0 && value && value <= MAX_ROUNDS) {
            rounds = (uint32_t)value;
        } else if (strcmp(*names, "--threads") == 0 && value && value <= MAX_THREADS &&
                   n_given < MAX_THREADS) {
            threads[n_given++] = (uint32_t)value;
            n_threads = n_given;
        } else {
            usage();
        }
    }
    (void)argc;
    printf("# ns: fastest and median of %u rounds, %ld processors; ck/ours: quartiles\n", rounds,
           sysconf(_SC_NPROCESSORS_ONLN));
    printf("%-44s %7s %19s %19s   %17s  %s\n", "structure", "threads", "ours", "ck", "ck/ours",
           "operation");
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        for (const contest_t *c = all[i]; c->what; c++) {
            for (uint32_t t = 0; is_asked_for(c->what, names) && t < n_threads; t++) {
                if (threads[t] <= c->most) {
                    run_contest(c, threads[t]);
                }
            }
        }
    }
    return 0;
}
