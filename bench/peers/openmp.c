/* openmp.c: the barrier of an OpenMP runtime, and its sum of one double: the participants are the
 * threads of one parallel region. Built once for each compiler.
 */
#include <omp.h>
#include <stdio.h>

#include "loop.h"

/* Three sums in turn: a call adds to one, reads it, and clears the next, which everybody has last
 * read before the barrier that ended the call in between. A reduction names its variable, so there
 * are three variables and not an array. */
static double first, second, third;
static uint64_t turn;
#pragma omp threadprivate(turn)

static void version(char *text, size_t bytes) {
    snprintf(text, bytes, "OpenMP %d, %s", _OPENMP, __VERSION__);
}

static bool supports(const bench_case_t *c) {
    bool value = c->coll->id == BENCH_ALLREDUCE && c->count == 1;
    return c->form == BENCH_BLOCKING && (c->coll->id == BENCH_BARRIER || value);
}

static double sum(const double *mine, int participants, bool clears) {
    switch (turn++ % 3) {
    case 0:
        if (clears) {
            second = 0.0;
        }
#pragma omp for schedule(static) reduction(+ : first)
        for (int i = 0; i < participants; i++) {
            first += *mine;
        }
        return first;
    case 1:
        if (clears) {
            third = 0.0;
        }
#pragma omp for schedule(static) reduction(+ : second)
        for (int i = 0; i < participants; i++) {
            second += *mine;
        }
        return second;
    default:
        if (clears) {
            first = 0.0;
        }
#pragma omp for schedule(static) reduction(+ : third)
        for (int i = 0; i < participants; i++) {
            third += *mine;
        }
        return third;
    }
}

static void call(void *self, const bench_case_t *c, uint32_t root) {
    (void)self, (void)root;
    if (c->coll->id == BENCH_BARRIER) {
#pragma omp barrier
        return;
    }
    const double *mine = (const double *)(void *)c->source;
    *(double *)(void *)c->destination = sum(mine, (int)c->participants, c->rank == 0);
}

int main(int argc, char **argv) {
    static const bench_peer_t peer = {.name = BENCH_NAME,
                                      .float64 = true,
                                      .version = version,
                                      .supports = supports,
                                      .call = call};
    bench_t b;
    bench_open(&b, &peer, argc, argv, 0);
    bench_map(&b, NULL, true);
    omp_set_dynamic(0); /* as many threads as asked for, not as many as processors */
#pragma omp parallel num_threads((int)b.options.participants)
    {
        if (omp_get_num_threads() != (int)b.options.participants) {
            bench_fail("omp parallel", "fewer threads than asked for");
        }
        bench_participate(&b, (uint32_t)omp_get_thread_num());
    }
    return 0;
}
