/* gpu_span.c: random collectives on memory of emulated devices in teams of several processes, each
 * of which has devices of its own and more threads than there are processors. Under ThreadSanitizer
 * it looks at what threads of the host do; what devices do, the emulator looks at. Every other
 * round of each kind is on streams.
 *
 *     test_stress_gpu_span [PERCENT]
 */
#include "stress.h"

#include "gpu/support/device_cases.h"
#include "support/probe.h"
#include "support/processes.h"
#include "support/sweeps.h"

enum { CASES = 60, TIMES = 16, WRONG = 0 };

typedef struct round {
    const char *config[2]; /* of processes with even and with odd numbers */
    device_cases_t kind;
    shape_t shape;
    driver_t driver;
    ucc_post_ordering_t ordering;
    uint32_t times;
} round_t;

static const round_t rounds[] = {
    {{"1,host=threads", "2,host=threads"},
     DEVICE_CASES_PLAIN,
     {.processes = 2, .endpoints = {3, 3}},
     DRIVER_THREADS,
     UCC_COLLECTIVE_POST_ORDERED,
     3},
    {{"2,host=threads,channels=1", "1,host=threads,policy=lazy"},
     DEVICE_CASES_MIXED,
     {.processes = 3, .endpoints = {1, 3, 2}, .numbering = NUMBERING_RANDOM, .seed = 4},
     DRIVER_DEEP,
     UCC_COLLECTIVE_POST_UNORDERED,
     0},
    {{"2,host=threads,nopeer", "2,host=threads"},
     DEVICE_CASES_MIXED,
     {.processes = 2, .endpoints = {4, 2}, .numbering = NUMBERING_INTERLEAVED},
     DRIVER_SHARED,
     UCC_COLLECTIVE_POST_ORDERED,
     0},
    {{"1,host=threads,policy=newest", "1,host=threads,policy=starve"},
     DEVICE_CASES_MANAGED,
     {.processes = 4, .endpoints = {1, 1, 1, 1}},
     DRIVER_WAIT,
     UCC_COLLECTIVE_POST_ORDERED,
     0},
};

enum { ROUNDS = sizeof(rounds) / sizeof(rounds[0]) };

static int work(const process_t *process, void *arg) {
    uint64_t seed = *(const uint64_t *)arg;
    const round_t *r = &rounds[seed % ROUNDS];
    char config[96];
    batch_params_t params = {.world = {.size = process->size,
                                       .form = WORLD_OOB,
                                       .ordering = r->ordering,
                                       .process = process},
                             .driver = r->driver,
                             .times = r->times};
    snprintf(config, sizeof(config), "%s,seed=%llu", r->config[process->me % 2],
             (unsigned long long)(seed * 16 + process->me));
    device_cases_begin(config, r->kind);
    if (seed / ROUNDS % 2 == 1 && r->driver != DRIVER_DEEP) {
        device_cases_on_streams();
    }
    process_set(process, WRONG, sweep_random(&params, CASES, seed));
    device_cases_end();
    return 0;
}

int main(int argc, char **argv) {
    uint64_t wrong = 0, all = 0;
    stress_begin_alone(argc, argv);
    if (!probe_network()) {
        return stress_skip("several processes", "this build has no network");
    }
    uint64_t end = stress_scaled(TIMES) > ROUNDS ? stress_scaled(TIMES) : ROUNDS;
    for (uint64_t seed = 1; seed <= end; seed++) {
        const shape_t *shape = &rounds[seed % ROUNDS].shape;
        outcome_t outcome = processes_run(shape, 120, work, &seed);
        for (uint32_t p = 0; p < shape->processes; p++) {
            wrong += outcome.value[p][WRONG];
        }
        if (!outcome.ok || wrong > 0) {
            stress_error("round %llu: %llu wrong%s", (unsigned long long)seed,
                         (unsigned long long)wrong, outcome.ok ? "" : ", and did not end");
        }
        all += CASES;
    }
    printf("checked collectives: %llu\n", (unsigned long long)all);
    return stress_end();
}
