/* test_collectives_span.c: collectives on memory of emulated devices in teams of several processes,
 * each of which has devices of its own, against the naive reference: the tables of the conformance
 * tests (support/sweeps.h).
 */
#include "support/device_cases.h"
#include "support/dose.h"
#include "support/probe.h"
#include "support/processes.h"
#include "support/sweeps.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

enum { SECONDS = 240, WRONG = 0 };

TestSuite(device_span, .timeout = 300);

typedef struct team_case {
    char config[2][64]; /* of processes with even and with odd numbers */
    shape_t shape;
    device_cases_t kind;
    driver_t driver;
    uint32_t times; /* persistent */
    ucc_coll_sync_type_t sync;
    ucc_post_ordering_t ordering;
    bool on_streams;
    enum sweep {
        SIZES,
        REDUCED,
        REDUCTIONS,
        EDGES,
        VECTORS,
        ROOTS,
        SETS,
        LARGE,
        MOVEMENTS,
        MIX
    } sweep;
} team_case_t;

static uint64_t sweep_mix(const batch_params_t *params) {
    return sweep_random(params, 150, params->world.size);
}

/* No pointers in cases: Criterion hands them to another process. */
static uint64_t (*const sweep[])(const batch_params_t *params) = {
    [SIZES] = sweep_sizes, [REDUCED] = sweep_reduced, [REDUCTIONS] = sweep_reductions,
    [EDGES] = sweep_edges, [VECTORS] = sweep_vectors, [ROOTS] = sweep_roots,
    [SETS] = sweep_sets,   [LARGE] = sweep_large,     [MOVEMENTS] = sweep_movements,
    [MIX] = sweep_mix};

static int work(const process_t *process, void *arg) {
    const team_case_t *c = arg;
    batch_params_t params = {.world = {.size = process->size,
                                       .form = WORLD_OOB,
                                       .sync = c->sync,
                                       .ordering = c->ordering,
                                       .process = process},
                             .driver = c->driver,
                             .times = c->times};
    device_cases_begin(c->config[process->me % 2], c->kind);
    if (c->on_streams) {
        device_cases_on_streams();
    }
    batch_percent = 100 / dose_step(2, 4);
    process_set(process, WRONG, sweep[c->sweep](&params));
    device_cases_end();
    return 0;
}

/* On all processes: how many are wrong. */
static uint64_t run(team_case_t *c) {
    if (!probe_network()) {
        cr_skip_test("this build has no network");
    }
    outcome_t outcome = processes_run(&c->shape, SECONDS, work, c);
    uint64_t wrong = outcome.ok ? 0 : 1;
    for (uint32_t p = 0; p < c->shape.processes; p++) {
        wrong += outcome.value[p][WRONG];
    }
    return wrong;
}

#define CASES(...)                                                                                 \
    static team_case_t cases[] = {__VA_ARGS__};                                                    \
    return cr_make_param_array(team_case_t, cases, LENGTH(cases))

#define EVEN(_processes, _endpoints)                                                               \
    { .processes = (_processes), .endpoints = {(_endpoints), (_endpoints)}, .seed = 3 }
#define UNEVEN(_a, _b, _c, _numbering)                                                             \
    { .processes = 3, .endpoints = {(_a), (_b), (_c)}, .numbering = (_numbering), .seed = 5 }

ParameterizedTestParameters(device_span, sizes) {
    CASES({{"1", "1"}, EVEN(2, 1), DEVICE_CASES_PLAIN, DRIVER_ONE, .sweep = SIZES},
          {{"2,seed=2,policy=lazy", "1,seed=3"},
           EVEN(2, 2),
           DEVICE_CASES_MIXED,
           DRIVER_ONE,
           .sweep = SIZES},
          {{"2,nopeer,seed=4", "2,seed=5,policy=newest"},
           UNEVEN(1, 2, 4, NUMBERING_RANDOM),
           DEVICE_CASES_MIXED,
           DRIVER_ONE,
           .sweep = REDUCED},
          {{"1,seed=6", "2,nopeer,seed=7"},
           EVEN(2, 2),
           DEVICE_CASES_MANAGED,
           DRIVER_ONE,
           .sweep = REDUCED});
}

ParameterizedTest(team_case_t *c, device_span, sizes) {
    cr_assert_eq(run(c), 0, "%s, %s", c->config[0], shape_name(&c->shape));
}

ParameterizedTestParameters(device_span, reductions) {
    CASES({{"1", "1"}, EVEN(2, 1), DEVICE_CASES_PLAIN, DRIVER_ONE, .sweep = REDUCTIONS},
          {{"2", "1"},
           UNEVEN(3, 1, 2, NUMBERING_INTERLEAVED),
           DEVICE_CASES_PLAIN,
           DRIVER_ONE,
           .sweep = REDUCTIONS});
}

ParameterizedTest(team_case_t *c, device_span, reductions) {
    cr_assert_eq(run(c), 0, "%s, %s", c->config[0], shape_name(&c->shape));
}

ParameterizedTestParameters(device_span, edges) {
    CASES({{"1", "2,nopeer"}, EVEN(2, 3), DEVICE_CASES_MIXED, DRIVER_ONE, .sweep = EDGES},
          {{"1", "1"}, EVEN(2, 1), DEVICE_CASES_PLAIN, DRIVER_ONE, .sweep = EDGES});
}

ParameterizedTest(team_case_t *c, device_span, edges) {
    cr_assert_eq(run(c), 0, "%s, %s", c->config[0], shape_name(&c->shape));
}

ParameterizedTestParameters(device_span, vectors) {
    CASES({{"1", "1"}, EVEN(2, 1), DEVICE_CASES_PLAIN, DRIVER_ONE, .sweep = VECTORS},
          {{"2,nopeer", "1"},
           UNEVEN(1, 3, 2, NUMBERING_RANDOM),
           DEVICE_CASES_MIXED,
           DRIVER_ONE,
           .sweep = VECTORS});
}

ParameterizedTest(team_case_t *c, device_span, vectors) {
    cr_assert_eq(run(c), 0, "%s, %s", c->config[0], shape_name(&c->shape));
}

ParameterizedTestParameters(device_span, others) {
    CASES({{"2", "1"}, EVEN(2, 2), DEVICE_CASES_PLAIN, DRIVER_DEEP, .sweep = ROOTS},
          {{"1", "2"},
           UNEVEN(2, 1, 2, NUMBERING_INTERLEAVED),
           DEVICE_CASES_PLAIN,
           DRIVER_ONE,
           .sweep = SETS},
          {{"2,nopeer", "1"}, EVEN(2, 2), DEVICE_CASES_PLAIN, DRIVER_ONE, .sweep = LARGE},
          {{"1", "1"}, EVEN(2, 2), DEVICE_CASES_PLAIN, DRIVER_ONE, .sweep = MOVEMENTS});
}

ParameterizedTest(team_case_t *c, device_span, others) {
    cr_assert_eq(run(c), 0, "%s, %s", c->config[0], shape_name(&c->shape));
}

/* --- every way of driving them, and of matching --- */

ParameterizedTestParameters(device_span, drivers) {
    CASES(
        {{"1,host=threads", "2,host=threads,nopeer"},
         EVEN(2, 3),
         DEVICE_CASES_MIXED,
         DRIVER_THREADS,
         .sweep = MIX},
        {{"2,host=threads", "1,policy=starve"},
         EVEN(2, 2),
         DEVICE_CASES_MIXED,
         DRIVER_SHARED,
         .sweep = MIX},
        {{"1,policy=lazy", "2,seed=9"}, EVEN(2, 2), DEVICE_CASES_MIXED, DRIVER_DEEP, .sweep = MIX},
        {{"1,policy=lazy", "1,seed=9"}, EVEN(2, 1), DEVICE_CASES_PLAIN, DRIVER_DEEP, .sweep = MIX},
        {{"1", "2"}, EVEN(2, 2), DEVICE_CASES_PLAIN, DRIVER_WAIT, .sweep = MIX},
        {{"1", "2"}, EVEN(2, 2), DEVICE_CASES_MIXED, DRIVER_THREADS, .times = 3, .sweep = MIX},
        {{"1", "2"},
         EVEN(2, 2),
         DEVICE_CASES_PLAIN,
         DRIVER_DEEP,
         .sync = UCC_SYNC_COLLECTIVES,
         .sweep = MIX},
        {{"1", "2"},
         EVEN(2, 2),
         DEVICE_CASES_PLAIN,
         DRIVER_DEEP,
         .ordering = UCC_COLLECTIVE_POST_UNORDERED,
         .sweep = MIX},
        {{"1", "2"},
         EVEN(2, 1),
         DEVICE_CASES_PLAIN,
         DRIVER_THREADS,
         .ordering = UCC_COLLECTIVE_INIT_ORDERED,
         .sweep = MIX});
}

ParameterizedTest(team_case_t *c, device_span, drivers) {
    cr_assert_eq(run(c), 0, "%s, %s, %s", c->config[0], shape_name(&c->shape),
                 driver_name(c->driver));
}

/* --- in the order of streams, which have nothing else to do --- */

ParameterizedTestParameters(device_span, posts_on_streams) {
    CASES({{"1", "1"},
           EVEN(2, 1),
           DEVICE_CASES_PLAIN,
           DRIVER_ONE,
           .on_streams = true,
           .sweep = SIZES},
          {{"2,nopeer,seed=4", "2,seed=5,policy=newest"},
           UNEVEN(1, 2, 4, NUMBERING_RANDOM),
           DEVICE_CASES_MIXED,
           DRIVER_ONE,
           .on_streams = true,
           .sweep = REDUCED},
          {{"1,seed=6", "2,nopeer,seed=7"},
           EVEN(2, 2),
           DEVICE_CASES_MANAGED,
           DRIVER_ONE,
           .on_streams = true,
           .sweep = REDUCED},
          {{"1,seed=6", "1,seed=7,policy=lazy"},
           EVEN(2, 2),
           DEVICE_CASES_PINNED,
           DRIVER_ONE,
           .on_streams = true,
           .sweep = REDUCED},
          {{"1", "2,nopeer"},
           EVEN(2, 3),
           DEVICE_CASES_MIXED,
           DRIVER_ONE,
           .on_streams = true,
           .sweep = EDGES},
          {{"2,nopeer", "1"},
           UNEVEN(1, 3, 2, NUMBERING_RANDOM),
           DEVICE_CASES_MIXED,
           DRIVER_ONE,
           .on_streams = true,
           .sweep = VECTORS},
          {{"2", "1"},
           EVEN(2, 2),
           DEVICE_CASES_PLAIN,
           DRIVER_ONE,
           .on_streams = true,
           .sweep = ROOTS},
          {{"1", "2"},
           UNEVEN(2, 1, 2, NUMBERING_INTERLEAVED),
           DEVICE_CASES_PLAIN,
           DRIVER_ONE,
           .on_streams = true,
           .sweep = SETS},
          {{"1,host=threads", "2,host=threads,nopeer"},
           EVEN(2, 3),
           DEVICE_CASES_MIXED,
           DRIVER_THREADS,
           .on_streams = true,
           .sweep = MIX},
          {{"2,host=threads", "1,policy=starve"},
           EVEN(2, 2),
           DEVICE_CASES_MIXED,
           DRIVER_SHARED,
           .on_streams = true,
           .sweep = MIX},
          {{"1", "2"},
           EVEN(2, 2),
           DEVICE_CASES_PINNED,
           DRIVER_WAIT,
           .on_streams = true,
           .sweep = MIX},
          {{"1", "2"},
           EVEN(2, 2),
           DEVICE_CASES_MIXED,
           DRIVER_THREADS,
           .times = 3,
           .on_streams = true,
           .sweep = MIX},
          {{"1", "2"},
           EVEN(2, 2),
           DEVICE_CASES_PLAIN,
           DRIVER_THREADS,
           .sync = UCC_SYNC_COLLECTIVES,
           .on_streams = true,
           .sweep = MIX},
          {{"1", "2"},
           EVEN(2, 2),
           DEVICE_CASES_PLAIN,
           DRIVER_THREADS,
           .ordering = UCC_COLLECTIVE_POST_UNORDERED,
           .on_streams = true,
           .sweep = MIX});
}

ParameterizedTest(team_case_t *c, device_span, posts_on_streams) {
    cr_assert_eq(run(c), 0, "%s, %s, %s", c->config[0], shape_name(&c->shape),
                 driver_name(c->driver));
}
