/* test_collectives.c: collectives on memory of emulated devices against the naive reference: the
 * tables of the conformance tests (support/sweeps.h), on one device and several.
 */
#include "support/device_cases.h"
#include "support/dose.h"
#include "support/sweeps.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

TestSuite(device_collectives, .timeout = 240);

typedef struct team_case {
    char config[64];
    device_cases_t kind;
    uint32_t size;
    driver_t driver;
} team_case_t;

static uint64_t run(const team_case_t *c, uint64_t (*sweep)(const batch_params_t *params)) {
    batch_params_t params = {.world = {.size = c->size, .form = WORLD_OOB}, .driver = c->driver};
    device_cases_begin(c->config, c->kind);
    batch_percent = 100 / dose_step(6, 16);
    uint64_t wrong = sweep(&params);
    device_cases_end();
    return wrong;
}

#define CASES(...)                                                                                 \
    static team_case_t cases[] = {__VA_ARGS__};                                                    \
    return cr_make_param_array(team_case_t, cases, LENGTH(cases))

ParameterizedTestParameters(device_collectives, sizes) {
    CASES({"1", DEVICE_CASES_PLAIN, 1, DRIVER_ONE},
          {"1,seed=2,channels=1", DEVICE_CASES_PLAIN, 2, DRIVER_ONE},
          {"1,seed=3,policy=lazy", DEVICE_CASES_PLAIN, 3, DRIVER_ONE},
          {"1,seed=4,channels=8,policy=newest", DEVICE_CASES_MANAGED, 5, DRIVER_ONE},
          {"1,seed=5,policy=starve", DEVICE_CASES_MIXED, 9, DRIVER_ONE},
          {"2,seed=6", DEVICE_CASES_PLAIN, 2, DRIVER_ONE},
          {"4,seed=7,channels=1", DEVICE_CASES_MIXED, 5, DRIVER_ONE},
          {"2,nopeer,seed=8", DEVICE_CASES_PLAIN, 2, DRIVER_ONE},
          {"4,nopeer,seed=9,channels=8", DEVICE_CASES_MIXED, 5, DRIVER_ONE});
}

ParameterizedTest(team_case_t *c, device_collectives, sizes) {
    cr_assert_eq(run(c, sweep_sizes), 0, "%s, size %u", c->config, c->size);
}

ParameterizedTestParameters(device_collectives, reductions) {
    CASES({"1", DEVICE_CASES_PLAIN, 2, DRIVER_ONE}, {"1", DEVICE_CASES_PLAIN, 3, DRIVER_ONE},
          {"1", DEVICE_CASES_PLAIN, 8, DRIVER_ONE}, {"1", DEVICE_CASES_PLAIN, 17, DRIVER_ONE},
          {"3", DEVICE_CASES_PLAIN, 9, DRIVER_ONE},
          {"3,nopeer", DEVICE_CASES_PLAIN, 5, DRIVER_ONE});
}

ParameterizedTest(team_case_t *c, device_collectives, reductions) {
    cr_assert_eq(run(c, sweep_reductions), 0, "%s, size %u", c->config, c->size);
}

ParameterizedTestParameters(device_collectives, movements) {
    CASES({"1", DEVICE_CASES_PLAIN, 2, DRIVER_ONE}, {"1", DEVICE_CASES_PLAIN, 5, DRIVER_ONE},
          {"2,nopeer", DEVICE_CASES_PLAIN, 3, DRIVER_ONE});
}

ParameterizedTest(team_case_t *c, device_collectives, movements) {
    cr_assert_eq(run(c, sweep_movements), 0, "%s, size %u", c->config, c->size);
}

ParameterizedTestParameters(device_collectives, vectors) {
    CASES({"1", DEVICE_CASES_PLAIN, 1, DRIVER_ONE}, {"1", DEVICE_CASES_PLAIN, 3, DRIVER_ONE},
          {"1", DEVICE_CASES_MIXED, 9, DRIVER_ONE}, {"4", DEVICE_CASES_PLAIN, 5, DRIVER_ONE},
          {"4,nopeer", DEVICE_CASES_MIXED, 5, DRIVER_ONE});
}

ParameterizedTest(team_case_t *c, device_collectives, vectors) {
    cr_assert_eq(run(c, sweep_vectors), 0, "%s, size %u", c->config, c->size);
}

ParameterizedTestParameters(device_collectives, roots) {
    CASES({"1", DEVICE_CASES_PLAIN, 3, DRIVER_ONE}, {"1", DEVICE_CASES_PLAIN, 5, DRIVER_DEEP},
          {"4", DEVICE_CASES_MIXED, 5, DRIVER_ONE},
          {"4,nopeer", DEVICE_CASES_PLAIN, 5, DRIVER_DEEP});
}

ParameterizedTest(team_case_t *c, device_collectives, roots) {
    cr_assert_eq(run(c, sweep_roots), 0, "%s, size %u", c->config, c->size);
}

ParameterizedTestParameters(device_collectives, sets) {
    CASES({"1", DEVICE_CASES_PLAIN, 5, DRIVER_ONE}, {"3", DEVICE_CASES_PLAIN, 9, DRIVER_ONE});
}

ParameterizedTest(team_case_t *c, device_collectives, sets) {
    cr_assert_eq(run(c, sweep_sets), 0, "%s, size %u", c->config, c->size);
}

ParameterizedTestParameters(device_collectives, large) {
    CASES({"1", DEVICE_CASES_PLAIN, 3, DRIVER_ONE}, {"4", DEVICE_CASES_PLAIN, 4, DRIVER_THREADS},
          {"2,nopeer", DEVICE_CASES_PLAIN, 3, DRIVER_ONE});
}

ParameterizedTest(team_case_t *c, device_collectives, large) {
    cr_assert_eq(run(c, sweep_large), 0, "%s, size %u", c->config, c->size);
}

/* --- every way of driving them --- */

ParameterizedTestParameters(device_collectives, drivers) {
    CASES({"1,seed=1", DEVICE_CASES_PLAIN, 2, DRIVER_THREADS},
          {"1,seed=2", DEVICE_CASES_PLAIN, 5, DRIVER_THREADS},
          {"1,seed=3,channels=1", DEVICE_CASES_PLAIN, 9, DRIVER_SHARED},
          {"1,seed=4,policy=lazy", DEVICE_CASES_PLAIN, 16, DRIVER_DEEP},
          {"1,seed=5", DEVICE_CASES_PLAIN, 33, DRIVER_DEEP},
          {"1,seed=6", DEVICE_CASES_PLAIN, 5, DRIVER_WAIT},
          {"1,seed=7,host=threads", DEVICE_CASES_PLAIN, 3, DRIVER_THREADS},
          {"4,seed=8,host=threads,channels=1", DEVICE_CASES_MIXED, 9, DRIVER_THREADS},
          {"4,seed=9,nopeer,host=threads", DEVICE_CASES_MIXED, 5, DRIVER_SHARED},
          {"2,seed=10,nopeer,channels=1", DEVICE_CASES_PLAIN, 9, DRIVER_DEEP});
}

ParameterizedTest(team_case_t *c, device_collectives, drivers) {
    cr_assert_eq(run(c, sweep_reduced), 0, "%s, size %u, %s", c->config, c->size,
                 driver_name(c->driver));
}

static uint64_t sweep_mix(const batch_params_t *params) {
    return sweep_random(params, 200, params->world.size);
}

ParameterizedTestParameters(device_collectives, random_mix) {
    CASES({"1,seed=1", DEVICE_CASES_MIXED, 3, DRIVER_THREADS},
          {"4,seed=2,channels=8", DEVICE_CASES_MIXED, 5, DRIVER_DEEP},
          {"4,seed=3,nopeer,channels=8", DEVICE_CASES_MIXED, 5, DRIVER_THREADS},
          {"3,seed=4,policy=lazy", DEVICE_CASES_MANAGED, 9, DRIVER_SHARED});
}

ParameterizedTest(team_case_t *c, device_collectives, random_mix) {
    cr_assert_eq(run(c, sweep_mix), 0, "%s, size %u, %s", c->config, c->size,
                 driver_name(c->driver));
}
