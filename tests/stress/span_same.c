/* span_same.c: the same program on four endpoints in one process, in two and in four: what it
 * computes is the same, up to the rounding of sums, whose bits depend on nothing but which
 * endpoints share a process: not on delays, nor on who drives. Four processes of one endpoint round
 * as one process of four does. Where reductions were told to be the same wherever endpoints are
 * (HEDDLE_REPRODUCIBLE=placement), they are.
 *
 * ThreadSanitizer is spared the other shapes, whose bits are all that is to be seen of them.
 *
 * With the argument 1000 each of the shapes has 1,000 runs: that takes long.
 */
#include "stress.h"

#include "../support/cases.h"
#include "../support/dose.h"
#include "../support/probe.h"
#include "../support/processes.h"
#include "../support/random.h"

#include <inttypes.h>

enum { MOST = 6, RUNS = 100, RUNS_OF_TEAM = 50, MOST_CASES = 64 };

/* Results of the processes: hashes of what each of the first endpoints has received, of all others
 * together, and counts. */
enum { EXACT = 0, ROUNDED = MOST + 1, WRONG = 2 * (MOST + 1), CHECKED };

typedef struct program {
    bool placement;
    uint32_t size;
    uint64_t runs;
} program_t;

/* --- the program --- */

static bool rounds(const coll_case_t *c) {
    return coll_is_reduction(c->type) && !coll_is_scan(c->type) && c->dt->kind >= REFERENCE_FLOAT16;
}

static uint32_t make_cases(const process_t *process, const program_t *program, prepared_t **out) {
    static const uint64_t counts[] = {1, 6, 30, 700, 5000};
    static const ucc_datatype_t datatypes[] = {UCC_DT_FLOAT32, UCC_DT_FLOAT64, UCC_DT_FLOAT16,
                                               UCC_DT_INT32, UCC_DT_BFLOAT16};
    uint32_t n = 0;
    for (uint32_t t = 0; t < 2 * COLL_TYPES; t++) {
        coll_case_t c = {.type = coll_type_at(t % COLL_TYPES),
                         .size = program->size,
                         .root = t % program->size,
                         .count = counts[t % 5],
                         .op = t % 7 == 0 ? UCC_OP_AVG : UCC_OP_SUM,
                         .layout = LAYOUT_RANDOM,
                         .tagged = t % 5 == 4,
                         .tag = 3,
                         .seed = 1000 + t,
                         .keeps = true,
                         .placement = program->placement,
                         .process_of = process->process_of,
                         .process = process->me};
        c.dt = reference_datatype(datatypes[(t / 2 + t / COLL_TYPES) % 5]);
        out[n++] = case_prepare(&c);
    }
    coll_case_t large = {.type = UCC_COLL_TYPE_ALLREDUCE,
                         .size = program->size,
                         .count = program->size > MOST ? 50000 : 200000,
                         .dt = reference_datatype(UCC_DT_FLOAT32),
                         .op = UCC_OP_SUM,
                         .seed = 99,
                         .keeps = true,
                         .placement = program->placement,
                         .process_of = process->process_of,
                         .process = process->me};
    out[n++] = case_prepare(&large);
    large.count = program->size > MOST ? 50001 : 700001; /* many segments */
    large.in_place = IN_PLACE_WHERE_MEANT;
    out[n++] = case_prepare(&large);
    return n;
}

enum { LARGE = 2 }; /* cases, the last ones: now and then */

/* One run: all cases, one after the other or many at a time. */
static uint64_t run_once(world_t *world, driver_t driver, prepared_t **cases, uint32_t n,
                         uint64_t run) {
    job_t jobs[MOST_CASES];
    uint64_t wrong = 0;
    n -= run % 20 != 0 ? LARGE : 0;
    for (uint32_t k = 0; k < n; k++) {
        case_restore(cases[k]);
        jobs[k] = case_job(cases[k]);
    }
    driver_run(world, driver, jobs, n);
    for (uint32_t k = 0; k < n; k++) {
        wrong += !case_check(cases[k]);
    }
    return wrong;
}

/* What an endpoint has in the end. Padding of no case has a value: there is none. */
static uint64_t hash_of(prepared_t **cases, uint32_t n, uint32_t i, bool of_rounded) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t k = 0; k < n; k++) {
        const region_t *region = &cases[k]->dst[i];
        for (size_t b = 0; rounds(&cases[k]->c) == of_rounded && region->memory != NULL &&
                           b < region->elements * cases[k]->c.dt->extent;
             b++) {
            hash = (hash ^ region->data[b]) * 0x100000001b3u;
        }
    }
    return hash;
}

static int work(const process_t *process, void *arg) {
    static const driver_t drivers[] = {DRIVER_THREADS, DRIVER_ONE, DRIVER_SHARED, DRIVER_DEEP};
    static const world_form_t forms[] = {WORLD_OOB, WORLD_EP_MAP, WORLD_PARENT};
    const program_t *program = arg;
    prepared_t *cases[MOST_CASES];
    uint32_t n = make_cases(process, program, cases);
    uint64_t random = 77 + process->me, run = 0;
    if (program->placement) {
        setenv("HEDDLE_REPRODUCIBLE", "placement", 1);
    }
    for (uint32_t round = 0; run < program->runs; round++) {
        world_params_t params = {
            .size = program->size, .form = forms[round % 3], .process = process};
        driver_t driver = drivers[round % 4];
        params.shared_context = driver_wants_shared_context(driver);
        params.form =
            params.shared_context && params.form == WORLD_EP_MAP ? WORLD_OOB : params.form;
        world_t *world = world_create(&params);
        for (uint32_t k = 0; k < RUNS_OF_TEAM && run < program->runs; k++, run++) {
            process_note(process, "run %" PRIu64 ", %s", run, driver_name(driver));
            stress_delays((uint32_t)random_next(&random) | 1);
            process_add(process, WRONG, run_once(world, driver, cases, n, run));
            process_add(process, CHECKED, n - (run % 20 != 0 ? LARGE : 0));
            stress_delays(0);
        }
        world_destroy(world);
        process_barrier(process);
    }
    for (uint32_t k = 0; k < process->n; k++) {
        uint32_t i = process->endpoint[k], to = i < MOST ? i : MOST;
        process_add(process, EXACT + to, hash_of(cases, n, i, false) * (2 * i + 1));
        process_add(process, ROUNDED + to, hash_of(cases, n, i, true) * (2 * i + 1));
    }
    for (uint32_t k = 0; k < n; k++) {
        case_free(cases[k]);
    }
    return 0;
}

/* --- the comparison --- */

typedef struct result {
    uint64_t exact[MOST + 1], rounded[MOST + 1];
    bool ok;
} result_t;

static result_t run_some(shape_t shape, bool placement, uint64_t runs) {
    program_t program = {
        .placement = placement, .size = shape_size(&shape), .runs = stress_scaled(runs)};
    const char *name = shape_name(&shape);
    result_t result = {.ok = true};
    double start = test_now();
    outcome_t outcome = processes_run(&shape, 240.0 + 2.0 * (double)program.runs, work, &program);
    uint64_t wrong = 0;
    for (uint32_t p = 0; p < shape.processes; p++) {
        wrong += outcome.value[p][WRONG];
        for (uint32_t i = 0; i <= MOST; i++) { /* those of others are 0 */
            result.exact[i] += outcome.value[p][EXACT + i];
            result.rounded[i] += outcome.value[p][ROUNDED + i];
        }
    }
    result.ok = outcome.ok && wrong == 0;
    if (!result.ok) {
        stress_error("%s: %" PRIu64 " wrong%s", name, wrong, outcome.ok ? "" : ", and did not end");
    }
    printf("%-28s %6" PRIu64 " runs, %6" PRIu64 " collectives checked, %5.1f s%s\n", name,
           program.runs, outcome.value[0][CHECKED], test_now() - start,
           placement ? ", the same wherever endpoints are" : "");
    fflush(stdout);
    return result;
}

static void compare(const char *name, const result_t *one, const result_t *other, bool same_bits) {
    same_bits = same_bits || processes_share_memory(); /* as in one process, always */
    if (!one->ok || !other->ok) {
        return; /* has been told */
    }
    if (memcmp(one->exact, other->exact, sizeof(one->exact)) != 0) {
        stress_error("%s: other results than one process has", name);
    }
    bool same = memcmp(one->rounded, other->rounded, sizeof(one->rounded)) == 0;
    if (same != same_bits) {
        stress_error(same ? "%s: no sum is rounded otherwise: this shows nothing"
                          : "%s: sums are rounded otherwise than in one process",
                     name);
    }
}

static result_t run(shape_t shape, bool placement) {
    return run_some(shape, placement, RUNS);
}

/* Wherever endpoints are: whole blocks of 8 in a process, parts of them, and none. */
static void run_everywhere(void) {
    static const struct {
        shape_t shape;
        uint64_t runs;
    } others[] = {
        {{.processes = 3, .endpoints = {1, 2, 4}}, 100},
        {{.processes = 3, .endpoints = {1, 2, 4}, .numbering = NUMBERING_INTERLEAVED}, 100},
        {{.processes = 3, .endpoints = {1, 2, 4}, .numbering = NUMBERING_RANDOM, .seed = 5}, 100},
        {{.processes = 2, .endpoints = {16, 8}}, 10},
        {{.processes = 2, .endpoints = {12, 12}}, 10},
        {{.processes = 2, .endpoints = {8, 3}}, 10},
        {{.processes = 3, .endpoints = {9, 1, 7}, .numbering = NUMBERING_RANDOM, .seed = 8}, 10},
    };
    result_t one[3] = {0};
    uint32_t size[3] = {0};
    for (size_t s = 0; s < sizeof(others) / sizeof(others[0]); s++) {
        uint32_t n = shape_size(&others[s].shape), k = n < 8 ? 0 : n == 24 ? 1 : 2;
        if (size[k] != n) {
            size[k] = n;
            one[k] = run_some(shape_even(1, n), true, 10);
        }
        result_t other = run_some(others[s].shape, true, others[s].runs);
        compare(shape_name(&others[s].shape), &one[k], &other, true);
    }
}

int main(int argc, char **argv) {
    stress_begin_alone(argc, argv);
    result_t one = run(shape_even(1, 4), false);
    if (!probe_network()) {
        return stress_skip("several processes", "this build has no network");
    }
    shape_t two = shape_even(2, 2), mixed = shape_even(2, 2), four = shape_even(4, 1);
    mixed.numbering = NUMBERING_INTERLEAVED;
    result_t of_two = run(two, false), of_mixed = run(mixed, false), of_four = run(four, false);
    compare("2x2", &one, &of_two, false);
    compare("2x2 interleaved", &one, &of_mixed, false);
    compare("4x1", &one, &of_four, true);
    if (!probe_setting("REPRODUCIBLE", "placement")) {
        printf("skipped: the same bits wherever endpoints are: there is no such setting\n");
        return stress_end();
    }
    of_two = run(two, true);
    of_mixed = run(mixed, true);
    of_four = run(four, true);
    compare("2x2, placement", &one, &of_two, true);
    compare("2x2 interleaved, placement", &one, &of_mixed, true);
    compare("4x1, placement", &one, &of_four, true);
    if (dose_has_variants()) {
        run_everywhere();
    }
    return stress_end();
}
