/* mpi_openmp.c: what hybrid programs do by hand (MPI_THREAD_FUNNELED): the participants are the
 * threads of OpenMP regions in MPI processes, --variant 2x3 of them. In each collective the threads
 * put together what their process gives, one of them calls MPI, and all take what is theirs out
 * again, with OpenMP's barriers in between. Whoever can leave out a copy does: a gather goes
 * straight into the root's buffer, a bcast straight into the first thread's.
 */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loop.h"
#include "mpi_calls.h"

enum { MOST_THREADS = 64 };

/* Of the process; written by the thread it is for, or by thread 0, between two barriers. */
static int processes, threads, me;
static const bench_case_t *now[MOST_THREADS]; /* the threads' cases */
static unsigned char *give, *take;            /* what the process gives and gets */
static size_t room;

static bool supports(const bench_case_t *c) {
    switch (c->coll->id) {
    case BENCH_BARRIER:
    case BENCH_BCAST:
    case BENCH_REDUCE:
    case BENCH_ALLREDUCE:
    case BENCH_ALLGATHER:
    case BENCH_GATHER:
    case BENCH_SCATTER:
    case BENCH_ALLTOALL:
        return c->form == BENCH_BLOCKING;
    default:
        return false;
    }
}

static void *join(const bench_options_t *o, uint32_t rank) {
    (void)o, (void)rank;
    return NULL;
}

static unsigned char *buffer(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes == 0 ? 64 : bytes) != 0) {
        bench_fail("buffers", "out of memory");
    }
    memset(memory, 0, bytes);
    return memory;
}

static void prepare(void *self, const bench_case_t *c) {
    (void)self;
    now[omp_get_thread_num()] = c;
#pragma omp barrier
#pragma omp master
    {
        size_t n = c->participants;
        size_t bytes = (size_t)c->count * c->width * (size_t)threads * n;
        if ((c->coll->traits & BENCH_WHOLE) != 0) {
            bytes = (size_t)c->count * c->width;
        }
        if (bytes > room) {
            free(give);
            free(take);
            give = buffer(bytes);
            take = buffer(bytes);
            room = bytes;
        }
    }
#pragma omp barrier
}

static void mpi(int code, const bench_case_t *c) {
    bench_mpi_require(code, c->coll->name);
}

/* My share of so many elements. */
static void share(uint64_t count, uint64_t *first, uint64_t *end) {
    uint64_t t = (uint64_t)omp_get_thread_num(), n = (uint64_t)threads;
    *first = count * t / n;
    *end = count * (t + 1) / n;
}

/* The threads' sources, summed into give, each thread a part. */
static void sum(const bench_case_t *c) {
    uint64_t first, end;
    share(c->count, &first, &end);
    float *restrict to = (float *)(void *)give;
    if (end > first) {
        memcpy(to + first, (const float *)(const void *)now[0]->source + first,
               (end - first) * sizeof(float));
    }
    for (int t = 1; t < threads; t++) {
        const float *restrict from = (const float *)(const void *)now[t]->source;
        for (uint64_t i = first; i < end; i++) {
            to[i] += from[i];
        }
    }
}

static void reduce(const bench_case_t *c, int root) {
    int mine = omp_get_thread_num(), count = (int)c->count;
    bool all = c->coll->id == BENCH_ALLREDUCE;
    unsigned char *to = me == root / threads ? now[root % threads]->destination : NULL;
#pragma omp barrier
    sum(c);
#pragma omp barrier
#pragma omp master
    mpi(all ? MPI_Allreduce(give, take, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD)
            : MPI_Reduce(give, to, count, MPI_FLOAT, MPI_SUM, root / threads, MPI_COMM_WORLD),
        c);
#pragma omp barrier
    if (all) {
        memcpy(now[mine]->destination, take, c->count * c->width);
    }
}

static void bcast(const bench_case_t *c, int root) {
    int mine = omp_get_thread_num(), from = me == root / threads ? root % threads : 0;
#pragma omp barrier
#pragma omp master
    mpi(MPI_Bcast(now[from]->source, (int)c->count, MPI_FLOAT, root / threads, MPI_COMM_WORLD), c);
#pragma omp barrier
    if (mine != from) {
        memcpy(c->source, now[from]->source, c->count * c->width);
    }
#pragma omp barrier
}

/* All, or one, get everybody's blocks. */
static void gather(const bench_case_t *c, int root) {
    size_t bytes = c->count * c->width, mine = (size_t)omp_get_thread_num();
    int count = (int)c->count * threads;
    bool all = c->coll->id == BENCH_ALLGATHER;
    unsigned char *to = me == root / threads ? now[root % threads]->destination : NULL;
    memcpy(give + mine * bytes, c->source, bytes);
#pragma omp barrier
#pragma omp master
    mpi(all ? MPI_Allgather(give, count, MPI_FLOAT, now[0]->destination, count, MPI_FLOAT,
                            MPI_COMM_WORLD)
            : MPI_Gather(give, count, MPI_FLOAT, to, count, MPI_FLOAT, root / threads,
                         MPI_COMM_WORLD),
        c);
#pragma omp barrier
    if (all && mine != 0) {
        memcpy(c->destination, now[0]->destination, bytes * c->participants);
    }
#pragma omp barrier
}

static void scatter(const bench_case_t *c, int root) {
    size_t bytes = c->count * c->width, mine = (size_t)omp_get_thread_num();
    int count = (int)c->count * threads;
    unsigned char *from = me == root / threads ? now[root % threads]->source : NULL;
#pragma omp barrier
#pragma omp master
    mpi(MPI_Scatter(from, count, MPI_FLOAT, take, count, MPI_FLOAT, root / threads, MPI_COMM_WORLD),
        c);
#pragma omp barrier
    memcpy(c->destination, take + mine * bytes, bytes);
}

/* give: by process, thread here, thread there; take: by process, thread there, thread here. */
static void alltoall(const bench_case_t *c) {
    size_t bytes = c->count * c->width, t = (size_t)threads, mine = (size_t)omp_get_thread_num();
    int count = (int)c->count * threads * threads;
    for (size_t p = 0; p < (size_t)processes; p++) {
        memcpy(give + (p * t + mine) * t * bytes, c->source + p * t * bytes, t * bytes);
    }
#pragma omp barrier
#pragma omp master
    mpi(MPI_Alltoall(give, count, MPI_FLOAT, take, count, MPI_FLOAT, MPI_COMM_WORLD), c);
#pragma omp barrier
    for (size_t i = 0; i < (size_t)processes * t; i++) {
        memcpy(c->destination + i * bytes, take + (i * t + mine) * bytes, bytes);
    }
}

static void barrier(const bench_case_t *c) {
#pragma omp barrier
#pragma omp master
    mpi(MPI_Barrier(MPI_COMM_WORLD), c);
#pragma omp barrier
}

static void call(void *self, const bench_case_t *c, uint32_t root) {
    (void)self;
    switch (c->coll->id) {
    case BENCH_BARRIER:
        barrier(c);
        return;
    case BENCH_REDUCE:
    case BENCH_ALLREDUCE:
        reduce(c, (int)root);
        return;
    case BENCH_BCAST:
        bcast(c, (int)root);
        return;
    case BENCH_ALLGATHER:
    case BENCH_GATHER:
        gather(c, (int)root);
        return;
    case BENCH_SCATTER:
        scatter(c, (int)root);
        return;
    default:
        alltoall(c);
    }
}

/* As in mpi.c. */
static void map_shared(bench_t *b) {
    char name[64];
    snprintf(name, sizeof(name), "/heddle-bench-%ld", (long)getpid());
    bench_mpi_require(MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
    if (me == 0) {
        shm_unlink(name);
        bench_map(b, name, true);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (me != 0) {
        bench_map(b, name, false);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) {
        shm_unlink(name);
    }
}

int main(int argc, char **argv) {
    static const bench_peer_t peer = {.name = BENCH_NAME,
                                      .version = bench_mpi_version,
                                      .supports = supports,
                                      .join = join,
                                      .prepare = prepare,
                                      .call = call};
    bench_t b;
    int provided;
    bench_mpi_require(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init");
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    bench_open(&b, &peer, argc, argv, 0);
    threads = (int)b.options.participants / processes;
    if (provided < MPI_THREAD_FUNNELED || threads * processes != (int)b.options.participants ||
        threads > MOST_THREADS) {
        bench_fail("--threads", "no multiple of the processes, or no MPI_THREAD_FUNNELED");
    }
    map_shared(&b);
    omp_set_dynamic(0);
#pragma omp parallel num_threads(threads)
    bench_participate(&b, (uint32_t)(me * threads + omp_get_thread_num()));
    MPI_Finalize();
    return 0;
}
