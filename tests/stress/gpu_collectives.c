/* gpu_collectives.c: random collectives on memory of emulated devices, by more threads than there
 * are processors, for a few seconds: on one device and several, with and without peer access, and
 * copies between devices. Under ThreadSanitizer it looks at what threads of the host do; what
 * devices do, the emulator looks at.
 */
#include "gpu/support/device_cases.h"
#include "support/deadline.h"
#include "support/sweeps.h"

#include <stdio.h>
#include <stdlib.h>

enum { CASES = 60 };

typedef struct round {
    const char *config;
    device_cases_t kind;
    uint32_t size;
    driver_t driver;
    uint32_t
        run; /* so many endpoints in a row are on one device, which reduces their blocks first */
} round_t;

static const round_t rounds[] = {
    {"1,seed=1,host=threads", DEVICE_CASES_PLAIN, 8, DRIVER_THREADS, 1},
    {"2,seed=2,host=threads,channels=1", DEVICE_CASES_MIXED, 5, DRIVER_THREADS, 1},
    {"4,seed=3,host=threads,nopeer", DEVICE_CASES_MIXED, 6, DRIVER_THREADS, 1},
    {"3,seed=4,host=threads,policy=lazy", DEVICE_CASES_MANAGED, 7, DRIVER_WAIT, 1},
    {"2,seed=5,host=threads,policy=newest", DEVICE_CASES_MIXED, 9, DRIVER_SHARED, 1},
    {"2,seed=6,host=threads", DEVICE_CASES_PLAIN, 17, DRIVER_THREADS, 8},
};

int main(int argc, char **argv) {
    double end = test_now() + (argc > 1 ? atof(argv[1]) : 5);
    uint64_t seed = 0, wrong = 0, all = 0;
    do {
        const round_t *r = &rounds[seed % (sizeof(rounds) / sizeof(rounds[0]))];
        batch_params_t params = {.world = {.size = r->size, .form = WORLD_OOB},
                                 .driver = r->driver};
        setenv("HEDDLE_GPU_COPY_MIN", seed % 2 ? "1m" : "100", 1);
        setenv("HEDDLE_GPU_PARTIAL_MIN", r->run > 1 ? "0" : "1m", 1);
        device_cases_begin(r->config, r->kind);
        device_cases_in_runs(r->run);
        wrong += sweep_random(&params, CASES, ++seed);
        device_cases_end();
        heddle_emucuda_reset(); /* nothing to a real driver: see device_cases.h */
        all += CASES;
    } while (test_now() < end || seed < sizeof(rounds) / sizeof(rounds[0]));
    printf("%llu collectives, %llu wrong\n", (unsigned long long)all, (unsigned long long)wrong);
    return wrong != 0;
}
