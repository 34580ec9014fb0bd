/* test_conformance.c: every collective against the naive reference. One test per sweep; the
 * parameters of a sweep say over which teams it runs. The tables themselves are in
 * tests/support/sweeps.c.
 *
 * The bulk is driven by one thread for all endpoints, which is fast; `drivers` and `random_mix` run
 * smaller tables with the other drivers, `forms` with every way of forming a team. Tests run in
 * processes of their own; how many collectives they checked is added up in a file.
 * HEDDLE_STRESS_SCALE: of how many percent of the cases; by default 30, or 8 under
 * AddressSanitizer.
 *
 * With CONFORMANCE_DEVICES, the program is another one: all buffers are in memory of emulated
 * devices, which are so configured, and each test fails if the emulator finds anything.
 * CONFORMANCE_COPY_MIN: they copy blocks of so many bytes to each other.
 */
#include "../support/count.h"
#include "../support/sweeps.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#ifdef CONFORMANCE_DEVICES
#include "../gpu/support/device_cases.h"

static void begin(void) {
#ifdef CONFORMANCE_COPY_MIN
    setenv("HEDDLE_GPU_COPY_MIN", CONFORMANCE_COPY_MIN, 1);
#endif
    device_cases_begin(CONFORMANCE_DEVICES, DEVICE_CASES_ANY);
}

static void end(void) {
    device_cases_end();
}
#else
#if defined(__SANITIZE_ADDRESS__)
enum { PERCENT = 8 };
#else
enum { PERCENT = 30 };
#endif

static void begin(void) {
    const char *text = getenv("HEDDLE_STRESS_SCALE");
    batch_percent = text != NULL && atoi(text) > 0 ? (uint32_t)atoi(text) : PERCENT;
}

static void end(void) {
}
#endif

TestSuite(conformance, .timeout = 240, .init = begin, .fini = end);

/* --- the sum of checked collectives; these two run in the process that starts the tests --- */

ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
    (void)tests;
    char path[] = "/tmp/heddle-conformance-XXXXXX";
    int fd = mkstemp(path);
    if (fd >= 0) {
        close(fd);
        setenv("HEDDLE_TEST_COUNT_FILE", path, 1);
    }
}

ReportHook(POST_ALL)(struct criterion_global_stats *stats) {
    (void)stats;
    const char *path = getenv("HEDDLE_TEST_COUNT_FILE");
    if (path != NULL) {
        printf("checked collectives: %llu\n", (unsigned long long)count_of_file(path));
        fflush(stdout);
        unlink(path);
    }
}

static batch_params_t params_of(uint32_t size, driver_t driver, ucc_coll_sync_type_t sync,
                                world_form_t form) {
    return (batch_params_t){.world = {.size = size, .form = form, .sync = sync}, .driver = driver};
}

/* --- one thread for all endpoints: team sizes, both kinds of synchronization --- */

typedef struct team_case {
    uint32_t size;
    ucc_coll_sync_type_t sync;
} team_case_t;

#define BOTH_SYNCS(n)                                                                              \
    {n, UCC_NO_SYNC_COLLECTIVES}, {                                                                \
        n, UCC_SYNC_COLLECTIVES                                                                    \
    }

ParameterizedTestParameters(conformance, sizes) {
    static team_case_t cases[] = {BOTH_SYNCS(1),  BOTH_SYNCS(2), BOTH_SYNCS(3), BOTH_SYNCS(4),
                                  BOTH_SYNCS(5),  BOTH_SYNCS(7), BOTH_SYNCS(8), BOTH_SYNCS(9),
                                  BOTH_SYNCS(16), BOTH_SYNCS(33)};
    return cr_make_param_array(team_case_t, cases, LENGTH(cases));
}

ParameterizedTest(team_case_t *c, conformance, sizes) {
    batch_params_t params = params_of(c->size, DRIVER_ONE, c->sync, WORLD_OOB);
    cr_assert_eq(sweep_sizes(&params), 0, "size %u sync %d", c->size, c->sync);
}

ParameterizedTestParameters(conformance, roots) {
    static team_case_t cases[] = {BOTH_SYNCS(2), BOTH_SYNCS(3), BOTH_SYNCS(4), BOTH_SYNCS(5)};
    return cr_make_param_array(team_case_t, cases, LENGTH(cases));
}

ParameterizedTest(team_case_t *c, conformance, roots) {
    batch_params_t params = params_of(c->size, DRIVER_ONE, c->sync, WORLD_OOB);
    cr_assert_eq(sweep_roots(&params), 0, "size %u sync %d", c->size, c->sync);
}

ParameterizedTestParameters(conformance, vectors) {
    static team_case_t cases[] = {BOTH_SYNCS(1), BOTH_SYNCS(2), BOTH_SYNCS(3),
                                  BOTH_SYNCS(5), BOTH_SYNCS(8), BOTH_SYNCS(16)};
    return cr_make_param_array(team_case_t, cases, LENGTH(cases));
}

ParameterizedTest(team_case_t *c, conformance, vectors) {
    batch_params_t params = params_of(c->size, DRIVER_ONE, c->sync, WORLD_OOB);
    cr_assert_eq(sweep_vectors(&params), 0, "size %u sync %d", c->size, c->sync);
}

ParameterizedTestParameters(conformance, reductions) {
    static uint32_t sizes[] = {1, 2, 3, 5, 8, 9, 17, 33};
    return cr_make_param_array(uint32_t, sizes, LENGTH(sizes));
}

ParameterizedTest(uint32_t *size, conformance, reductions) {
    batch_params_t params = params_of(*size, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB);
    cr_assert_eq(sweep_reductions(&params), 0, "size %u", *size);
}

ParameterizedTestParameters(conformance, movements) {
    static uint32_t sizes[] = {1, 2, 5, 9};
    return cr_make_param_array(uint32_t, sizes, LENGTH(sizes));
}

ParameterizedTest(uint32_t *size, conformance, movements) {
    batch_params_t params = params_of(*size, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB);
    cr_assert_eq(sweep_movements(&params), 0, "size %u", *size);
}

/* --- the other drivers --- */

typedef struct driver_case {
    uint32_t size;
    driver_t driver;
    ucc_coll_sync_type_t sync;
    world_form_t form;
} driver_case_t;

static driver_case_t driver_cases[] = {
    {1, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
    {2, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
    {2, DRIVER_THREADS, UCC_SYNC_COLLECTIVES, WORLD_OOB},
    {3, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_GROUP},
    {4, DRIVER_THREADS, UCC_SYNC_COLLECTIVES, WORLD_EP_MAP},
    {5, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_ID},
    {8, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
    {9, DRIVER_THREADS, UCC_SYNC_COLLECTIVES, WORLD_GROUP},
    {16, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
    {33, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
    {1, DRIVER_SHARED, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
    {2, DRIVER_SHARED, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
    {3, DRIVER_SHARED, UCC_SYNC_COLLECTIVES, WORLD_GROUP},
    {5, DRIVER_SHARED, UCC_NO_SYNC_COLLECTIVES, WORLD_ID},
    {8, DRIVER_SHARED, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
    {9, DRIVER_SHARED, UCC_SYNC_COLLECTIVES, WORLD_OOB},
    {16, DRIVER_SHARED, UCC_NO_SYNC_COLLECTIVES, WORLD_GROUP},
    {33, DRIVER_SHARED, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
    {1, DRIVER_DEEP, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
    {2, DRIVER_DEEP, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
    {3, DRIVER_DEEP, UCC_SYNC_COLLECTIVES, WORLD_EP_MAP},
    {5, DRIVER_DEEP, UCC_NO_SYNC_COLLECTIVES, WORLD_GROUP},
    {9, DRIVER_DEEP, UCC_NO_SYNC_COLLECTIVES, WORLD_ID},
    {16, DRIVER_DEEP, UCC_SYNC_COLLECTIVES, WORLD_OOB},
    {33, DRIVER_DEEP, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
    {3, DRIVER_WAIT, UCC_NO_SYNC_COLLECTIVES, WORLD_PARENT},
    {5, DRIVER_WAIT, UCC_SYNC_COLLECTIVES, WORLD_EPS},
    {9, DRIVER_WAIT, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
};

ParameterizedTestParameters(conformance, drivers) {
    return cr_make_param_array(driver_case_t, driver_cases, LENGTH(driver_cases));
}

ParameterizedTest(driver_case_t *c, conformance, drivers) {
    batch_params_t params = params_of(c->size, c->driver, c->sync, c->form);
    cr_assert_eq(sweep_reduced(&params), 0, "size %u, %s", c->size, driver_name(c->driver));
}

/* --- active sets, persistent requests --- */

ParameterizedTestParameters(conformance, sets) {
    static driver_case_t cases[] = {{5, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {9, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {9, DRIVER_DEEP, UCC_SYNC_COLLECTIVES, WORLD_GROUP},
                                    {16, DRIVER_SHARED, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB}};
    return cr_make_param_array(driver_case_t, cases, LENGTH(cases));
}

ParameterizedTest(driver_case_t *c, conformance, sets) {
    batch_params_t params = params_of(c->size, c->driver, c->sync, c->form);
    cr_assert_eq(sweep_sets(&params), 0, "size %u, %s", c->size, driver_name(c->driver));
}

/* Requests that are posted several times, with other contents. */
ParameterizedTestParameters(conformance, persistent) {
    static driver_case_t cases[] = {{2, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {3, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {5, DRIVER_DEEP, UCC_SYNC_COLLECTIVES, WORLD_GROUP},
                                    {9, DRIVER_SHARED, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB}};
    return cr_make_param_array(driver_case_t, cases, LENGTH(cases));
}

ParameterizedTest(driver_case_t *c, conformance, persistent) {
    batch_params_t params = params_of(c->size, c->driver, c->sync, c->form);
    params.times = 3;
    uint64_t wrong = sweep_reduced(&params) + sweep_vectors(&params);
    cr_assert_eq(wrong, 0, "size %u, %s", c->size, driver_name(c->driver));
}

/* The full table of sizes, with threads. */
ParameterizedTestParameters(conformance, sizes_by_threads) {
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 33};
    static driver_case_t cases[2 * LENGTH(sizes)];
    for (size_t k = 0; k < LENGTH(cases); k++) {
        cases[k] = (driver_case_t){.size = sizes[k / 2],
                                   .driver = k % 2 == 0 ? DRIVER_THREADS : DRIVER_SHARED,
                                   .sync = (k / 2) % 2 == 0 ? UCC_NO_SYNC_COLLECTIVES
                                                            : UCC_SYNC_COLLECTIVES,
                                   .form = WORLD_OOB};
    }
    return cr_make_param_array(driver_case_t, cases, LENGTH(cases));
}

ParameterizedTest(driver_case_t *c, conformance, sizes_by_threads) {
    batch_params_t params = params_of(c->size, c->driver, c->sync, c->form);
    cr_assert_eq(sweep_sizes(&params), 0, "size %u, %s", c->size, driver_name(c->driver));
}

ParameterizedTestParameters(conformance, random_mix) {
    return cr_make_param_array(driver_case_t, driver_cases, LENGTH(driver_cases));
}

ParameterizedTest(driver_case_t *c, conformance, random_mix) {
    batch_params_t params = params_of(c->size, c->driver, c->sync, c->form);
    uint64_t n = c->size <= 9 ? 400 : 100;
    cr_assert_eq(sweep_random(&params, n, c->size), 0, "size %u, %s", c->size,
                 driver_name(c->driver));
}

/* --- unordered teams, where everything is matched by tag --- */

ParameterizedTestParameters(conformance, unordered) {
    static driver_case_t cases[] = {{2, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {5, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_GROUP},
                                    {5, DRIVER_DEEP, UCC_SYNC_COLLECTIVES, WORLD_OOB},
                                    {9, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {9, DRIVER_SHARED, UCC_SYNC_COLLECTIVES, WORLD_OOB},
                                    {33, DRIVER_DEEP, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB}};
    return cr_make_param_array(driver_case_t, cases, LENGTH(cases));
}

ParameterizedTest(driver_case_t *c, conformance, unordered) {
    batch_params_t params = params_of(c->size, c->driver, c->sync, c->form);
    params.world.ordering = UCC_COLLECTIVE_POST_UNORDERED;
    cr_assert_eq(sweep_random(&params, 300, c->size), 0, "size %u, %s", c->size,
                 driver_name(c->driver));
}

/* --- configurations: other arrivals, rings, thresholds must give the same results --- */

static const char *const settings[][2] = {
    {"HEDDLE_ARRIVAL", "flat"},      {"HEDDLE_ARRIVAL", "static"}, {"HEDDLE_ARRIVAL", "counter"},
    {"HEDDLE_TREE", "number"},       {"HEDDLE_CHECK", "y"},        {"HEDDLE_RING", "4"},
    {"HEDDLE_LINES_MAX", "0"},       {"HEDDLE_STAGED_MAX", "0"},   {"HEDDLE_STAGED_MAX", "64k"},
    {"HEDDLE_CHUNK", "4096"},        {"HEDDLE_SPIN_POLLS", "1"},   {"HEDDLE_FLAT_MAX", "2"},
    {"HEDDLE_ARRIVAL", "butterfly"},
};

typedef struct setting_case {
    size_t setting; /* index, because a pointer means nothing in the test's process */
    uint32_t size;
} setting_case_t;

ParameterizedTestParameters(conformance, settings) {
    static const uint32_t sizes[] = {2, 9, 33};
    static setting_case_t cases[LENGTH(settings) * LENGTH(sizes)];
    for (size_t k = 0; k < LENGTH(cases); k++) {
        cases[k] = (setting_case_t){k / LENGTH(sizes), sizes[k % LENGTH(sizes)]};
    }
    return cr_make_param_array(setting_case_t, cases, LENGTH(cases));
}

ParameterizedTest(setting_case_t *c, conformance, settings) {
    static const driver_t drivers[] = {DRIVER_ONE, DRIVER_THREADS, DRIVER_DEEP, DRIVER_SHARED};
    setenv(settings[c->setting][0], settings[c->setting][1], 1);
    for (size_t d = 0; d < LENGTH(drivers); d++) {
        batch_params_t params = params_of(c->size, drivers[d], d % 2, WORLD_OOB);
        uint64_t wrong = sweep_reduced(&params) + sweep_random(&params, 100, c->size + d);
        cr_assert_eq(wrong, 0, "%s=%s, size %u, %s", settings[c->setting][0],
                     settings[c->setting][1], c->size, driver_name(drivers[d]));
    }
}

/* --- ways of forming a team, user-defined datatypes, large messages --- */

ParameterizedTestParameters(conformance, forms) {
    static driver_case_t cases[] = {{1, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_EP_MAP},
                                    {4, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_EP_MAP},
                                    {9, DRIVER_ONE, UCC_SYNC_COLLECTIVES, WORLD_EP_MAP},
                                    {1, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_ID},
                                    {4, DRIVER_ONE, UCC_SYNC_COLLECTIVES, WORLD_ID},
                                    {16, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_ID},
                                    {1, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_GROUP},
                                    {4, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_GROUP},
                                    {33, DRIVER_ONE, UCC_SYNC_COLLECTIVES, WORLD_GROUP}};
    return cr_make_param_array(driver_case_t, cases, LENGTH(cases));
}

ParameterizedTest(driver_case_t *c, conformance, forms) {
    batch_params_t params = params_of(c->size, c->driver, c->sync, c->form);
    cr_assert_eq(sweep_reduced(&params), 0, "size %u, %s", c->size, world_form_name(c->form));
}

ParameterizedTestParameters(conformance, generic_datatypes) {
    static driver_case_t cases[] = {{1, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {2, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {3, DRIVER_ONE, UCC_SYNC_COLLECTIVES, WORLD_OOB},
                                    {5, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {9, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {9, DRIVER_SHARED, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {17, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB}};
    return cr_make_param_array(driver_case_t, cases, LENGTH(cases));
}

ParameterizedTest(driver_case_t *c, conformance, generic_datatypes) {
    batch_params_t params = params_of(c->size, c->driver, c->sync, c->form);
    cr_assert_eq(sweep_generic(&params), 0, "size %u, %s", c->size, driver_name(c->driver));
}

ParameterizedTestParameters(conformance, large) {
    static driver_case_t cases[] = {{1, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {2, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {2, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {3, DRIVER_ONE, UCC_SYNC_COLLECTIVES, WORLD_OOB},
                                    {4, DRIVER_SHARED, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {5, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB},
                                    {8, DRIVER_ONE, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB}};
    return cr_make_param_array(driver_case_t, cases, LENGTH(cases));
}

ParameterizedTest(driver_case_t *c, conformance, large) {
    batch_params_t params = params_of(c->size, c->driver, c->sync, c->form);
    cr_assert_eq(sweep_large(&params), 0, "size %u, %s", c->size, driver_name(c->driver));
}
