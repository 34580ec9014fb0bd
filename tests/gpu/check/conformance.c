/* conformance.c: the tables of the conformance tests (support/sweeps.h) on memory of devices, among
 * so many endpoints, for so many seconds at most; then random cases, if there is time.
 * HEDDLE_TEST_GPU says which devices: support/device_cases.h.
 *
 * usage: test_gpu_check_conformance ENDPOINTS [plain|mixed|managed [SECONDS]]
 */
#include "gpu/support/device_cases.h"
#include "support/deadline.h"
#include "support/sweeps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t sweep_t(const batch_params_t *params);

static uint64_t seed;

static uint64_t mix(const batch_params_t *params) {
    return sweep_random(params, 50, ++seed);
}

/* Quick ones first. */
static const struct {
    const char *name;
    sweep_t *sweep;
    driver_t driver;
} rounds[] = {
    {"a few sizes, a thread for each endpoint", sweep_reduced, DRIVER_THREADS},
    {"a few sizes, all posted before any is progressed", sweep_reduced, DRIVER_DEEP},
    {"every root", sweep_roots, DRIVER_ONE},
    {"every type and operation", sweep_reductions, DRIVER_ONE},
    {"every type moved", sweep_movements, DRIVER_ONE},
    {"v types", sweep_vectors, DRIVER_ONE},
    {"large ones", sweep_large, DRIVER_THREADS},
    {"active sets", sweep_sets, DRIVER_ONE},
    {"every size", sweep_sizes, DRIVER_ONE},
};
enum { ROUNDS = sizeof(rounds) / sizeof(rounds[0]) };

static uint64_t run(const char *name, sweep_t *sweep, const batch_params_t *params) {
    double begin = test_now();
    uint64_t wrong = sweep(params);
    double taken = test_now() - begin;
    if (seed == 0 || wrong > 0 || taken > 5) {
        printf("%-50s %6.1f s, %llu wrong, seed %llu\n", name, taken, (unsigned long long)wrong,
               (unsigned long long)seed);
        fflush(stdout);
    }
    return wrong;
}

int main(int argc, char **argv) {
    static const char *const kinds[] = {[DEVICE_CASES_PLAIN] = "plain",
                                        [DEVICE_CASES_MIXED] = "mixed",
                                        [DEVICE_CASES_MANAGED] = "managed"};
    uint32_t size = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    double end = test_now() + (argc > 3 ? atof(argv[3]) : 60);
    uint64_t wrong = 0, left = 0;
    int kind = 0;
    while (argc > 2 && kind < 3 && strcmp(kinds[kind], argv[2]) != 0) {
        kind++;
    }
    if (size == 0 || size > 64 || kind == 3) {
        fprintf(stderr, "usage: conformance ENDPOINTS [plain|mixed|managed [SECONDS]]\n");
        return 2;
    }
    device_cases_begin("2,seed=3", (device_cases_t)kind);
    for (int i = 0; i < ROUNDS; i++) {
        batch_params_t params = {.world = {.size = size, .form = WORLD_OOB},
                                 .driver = rounds[i].driver};
        if (i > 0 && test_now() > end) {
            printf("%-50s no time left\n", rounds[i].name);
            left++;
            continue;
        }
        wrong += run(rounds[i].name, rounds[i].sweep, &params);
    }
    while (test_now() < end) {
        batch_params_t params = {.world = {.size = size, .form = WORLD_OOB},
                                 .driver = seed % 2 ? DRIVER_DEEP : DRIVER_THREADS};
        wrong += run("random ones", mix, &params);
    }
    device_cases_end();
    printf("%u endpoints, %s memory: %llu wrong, %llu tables left out, %llu x 50 random ones\n",
           size, kinds[kind], (unsigned long long)wrong, (unsigned long long)left,
           (unsigned long long)seed);
    return wrong != 0;
}
