/* reproducibility.c: reductions of random floats give the same bits, always.
 *
 * The operands of endpoint i are a fixed random vector per (team size, datatype, operation), and a
 * collective of any size reduces the first elements of it. So there is one right vector of bits per
 * (team size, datatype, operation), whatever the collective, its size and so its regime, in place
 * or not, the machine's description, the places and trees and ways of arrival, and whoever drives
 * the endpoints at whatever pace. It is kept where all children see it: the first result is stored,
 * every later one is compared with it. The first one is also compared with the reference.
 *
 * HEDDLE_STRESS_SCALE (percent) scales the number of runs; ThreadSanitizer does a tenth of it.
 */
#include "../reference.h"
#include "../repro/placed.h"
#include "../support/driver.h"
#include "../support/random.h"
#include "threads/delay.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

/* --- what is reduced -------------------------------------------------------------------------- */

enum { MAX_BYTES = 96 * 1024 + 4, RUNS = 1920, JOBS = 20 };

static const uint32_t team_sizes[] = {7, 33, 64};

typedef struct kind {
    ucc_datatype_t dt;
    size_t element;
    ucc_reduction_op_t op;
} kind_t;

static const kind_t kinds[] = {
    {UCC_DT_FLOAT32, 4, UCC_OP_SUM},
    {UCC_DT_BFLOAT16, 2, UCC_OP_SUM},
    {UCC_DT_FLOAT32, 4, UCC_OP_AVG},
    {UCC_DT_BFLOAT16, 2, UCC_OP_PROD},
};

/* Around the edges of the regimes, by one endpoint's operand. */
static const size_t sizes[] = {4,    8,     44,    48,    52,        1020,     1024,
                               1028, 16380, 16384, 16388, 40 * 1024, MAX_BYTES};

enum {
    N_SIZES = sizeof(team_sizes) / sizeof(team_sizes[0]),
    N_KINDS = sizeof(kinds) / sizeof(kinds[0]),
    N_BYTES = sizeof(sizes) / sizeof(sizes[0])
};

/* Shared with all children. */
typedef struct kept {
    size_t elements; /* known so far; larger results come later */
    unsigned char bits[MAX_BYTES];
} kept_t;

typedef struct shared {
    uint64_t runs, results, by_driver[DRIVERS], by_type[3];
    kept_t kept[N_SIZES][N_KINDS];
} shared_t;

static shared_t *shared;

static bool is_product(const kind_t *kind) {
    return kind->op == UCC_OP_PROD;
}

/* Sums: magnitudes from 2^-20 to 2^19, so that every order rounds differently. Products: from 1/2
 * to 2, so that they stay finite. */
static uint32_t random_float(const kind_t *kind, uint64_t *random) {
    uint64_t bits = random_next(random);
    uint32_t exponent = 127 - 20 + (uint32_t)(bits >> 40) % 40;
    if (is_product(kind)) {
        exponent = 126 + (uint32_t)(bits >> 40) % 2;
    }
    return (uint32_t)(bits & 0x80000000u) | exponent << 23 | (uint32_t)(bits >> 8 & 0x7fffff);
}

static void fill_operand(const kind_t *kind, uint32_t n, uint32_t i, unsigned char *operand) {
    uint64_t random = ((uint64_t)n << 40) ^ ((uint64_t)i << 20) ^ (uint64_t)(kind - kinds);
    for (size_t at = 0; at < MAX_BYTES; at += kind->element) {
        uint32_t value = random_float(kind, &random);
        uint16_t upper = (uint16_t)(value >> 16);
        memcpy(operand + at, kind->element == 4 ? (void *)&value : (void *)&upper, kind->element);
    }
}

static unsigned char **make_operands(const kind_t *kind, uint32_t n) {
    unsigned char **operands = must_alloc(n, sizeof(*operands));
    for (uint32_t i = 0; i < n; i++) {
        operands[i] = must_alloc(1, MAX_BYTES);
        fill_operand(kind, n, i, operands[i]);
    }
    return operands;
}

static void free_operands(unsigned char **operands, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        free(operands[i]);
    }
    free(operands);
}

/* --- judging ---------------------------------------------------------------------------------- */

/* Elements first to first + count of the result for (n, kind). Blocks come in order, so at most the
 * end of it is unknown: first <= kept->elements. */
static bool same_bits(uint32_t size_index, const kind_t *kind, const unsigned char *result,
                      size_t first, size_t count, const char *what) {
    kept_t *kept = &shared->kept[size_index][kind - kinds];
    shared->results++;
    if (first == kept->elements) { /* the next unknown stretch */
        memcpy(kept->bits + first * kind->element, result, count * kind->element);
        kept->elements += count;
        return true;
    }
    size_t known = kept->elements > first ? kept->elements - first : 0;
    known = known < count ? known : count;
    if (memcmp(kept->bits + first * kind->element, result, known * kind->element) != 0) {
        fprintf(stderr, "FAILED: other bits than before: %s\n", what);
        return false;
    }
    if (known < count) { /* a longer result than any before */
        return same_bits(size_index, kind, result + known * kind->element, first + known,
                         count - known, what);
    }
    return true;
}

/* After all runs: the kept bits are the canonical order's, and not those of any order. */
static bool is_canonical(uint32_t size_index, const kind_t *kind) {
    uint32_t n = team_sizes[size_index];
    kept_t *kept = &shared->kept[size_index][kind - kinds];
    unsigned char **operands = make_operands(kind, n);
    unsigned char *wanted = must_alloc(1, MAX_BYTES);
    const reference_dt_t *dt = reference_datatype(kind->dt);
    size_t bytes = kept->elements * kind->element;
    reference_reduce(dt, kind->op, operands, n, kept->elements, wanted);
    bool good = bytes > 0 && memcmp(wanted, kept->bits, bytes) == 0;
    unsigned char *first = operands[0];
    memmove(operands, operands + 1, (n - 1) * sizeof(*operands));
    operands[n - 1] = first;
    reference_reduce(dt, kind->op, operands, n, kept->elements, wanted);
    bool sensitive = memcmp(wanted, kept->bits, bytes) != 0;
    if (!good || !sensitive) {
        fprintf(stderr, "FAILED: %" PRIu32 " endpoints, %s, %s: %s\n", n, dt->name,
                reference_op_name(kind->op),
                good ? "any order gives these bits" : "not the reference's bits");
    }
    free(wanted);
    free_operands(operands, n);
    return good && sensitive;
}

/* --- one run: a collective on all endpoints --------------------------------------------------- */

typedef struct run {
    char name[200];
    ucc_coll_type_t type;
    const kind_t *kind;
    size_t elements;
    uint32_t root;
    bool in_place;
    uint64_t *counts; /* reduce_scatterv */
    unsigned char **operands, **dst;
    ucc_coll_args_t *args;
    ucc_status_t *statuses;
} run_t;

static ucc_coll_buffer_info_t info(void *buffer, uint64_t count, ucc_datatype_t dt) {
    return (ucc_coll_buffer_info_t){buffer, count, dt, UCC_MEMORY_TYPE_HOST};
}

static void set_destination(run_t *run, uint32_t i, uint32_t n) {
    ucc_coll_args_t *args = &run->args[i];
    ucc_datatype_t dt = run->kind->dt;
    if (run->type == UCC_COLL_TYPE_REDUCE_SCATTERV) {
        args->dst.info_v = (ucc_coll_buffer_info_v_t){.buffer = run->dst[i],
                                                      .counts = run->counts,
                                                      .displacements = NULL,
                                                      .datatype = dt,
                                                      .mem_type = UCC_MEMORY_TYPE_HOST};
        args->flags |= UCC_COLL_ARGS_FLAG_COUNT_64BIT;
    } else if (run->type == UCC_COLL_TYPE_REDUCE_SCATTER && !run->in_place) {
        args->dst.info = info(run->dst[i], run->elements / n, dt);
    } else {
        args->dst.info = info(run->dst[i], run->elements, dt);
    }
}

static void prepare(run_t *run, uint32_t n) {
    run->dst = must_alloc(n, sizeof(*run->dst));
    run->args = must_alloc(n, sizeof(*run->args));
    run->statuses = must_alloc(n, sizeof(*run->statuses));
    run->counts = must_alloc(n, sizeof(*run->counts));
    for (uint32_t i = 0; i < n; i++) {
        run->counts[i] = run->elements * (i + 1) / n - run->elements * i / n;
    }
    for (uint32_t i = 0; i < n; i++) {
        bool in_place = run->in_place && (run->type != UCC_COLL_TYPE_REDUCE || i == run->root);
        run->dst[i] = must_alloc(run->elements, run->kind->element);
        run->args[i] =
            (ucc_coll_args_t){.coll_type = run->type,
                              .mask = UCC_COLL_ARGS_FIELD_FLAGS,
                              .flags = in_place ? UCC_COLL_ARGS_FLAG_IN_PLACE : 0,
                              .op = run->kind->op,
                              .root = run->root,
                              .src.info = info(run->operands[i], run->elements, run->kind->dt)};
        if (in_place) {
            memcpy(run->dst[i], run->operands[i], run->elements * run->kind->element);
        }
        set_destination(run, i, n);
    }
}

static bool check(const run_t *run, uint32_t size_index) {
    uint32_t n = team_sizes[size_index];
    size_t first = 0;
    bool good = true;
    for (uint32_t i = 0; i < n && good; i++) {
        if (run->statuses[i] != UCC_OK) {
            fprintf(stderr, "FAILED: status %d: %s\n", (int)run->statuses[i], run->name);
            return false;
        }
        bool scattered =
            run->type == UCC_COLL_TYPE_REDUCE_SCATTER || run->type == UCC_COLL_TYPE_REDUCE_SCATTERV;
        size_t count = scattered ? run->counts[i] : run->elements;
        size_t skip = scattered && run->in_place ? first * run->kind->element : 0;
        if (run->type != UCC_COLL_TYPE_REDUCE || i == run->root) {
            good = same_bits(size_index, run->kind, run->dst[i] + skip, first, count, run->name);
        }
        first += scattered ? count : 0;
    }
    return good;
}

static void clean(run_t *run, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        free(run->dst[i]);
    }
    free(run->dst);
    free(run->args);
    free(run->statuses);
    free(run->counts);
}

/* --- one team: some runs ---------------------------------------------------------------------- */

static const char *const machines[] = {"", "pack:2 numa:4 core:16 pu:2", "pack:4 l3:2 core:4 pu:1",
                                       "numa:3 core:3 pu:1"};
static const char *const arrivals[] = {"static", "counter", "flat", "auto", "butterfly"};
static const char *const trees[] = {"topology", "number"};
enum { N_MACHINES = sizeof(machines) / sizeof(machines[0]), N_ARRIVALS = 5 };

typedef struct setting {
    uint32_t machine, size_index, arrival, tree;
    placing_t placing;
    driver_t driver;
} setting_t;

static run_t draw_run(const setting_t *s, const kind_t *kind, unsigned char **operands,
                      uint64_t *random) {
    static const ucc_coll_type_t types[] = {UCC_COLL_TYPE_ALLREDUCE, UCC_COLL_TYPE_REDUCE,
                                            UCC_COLL_TYPE_REDUCE_SCATTER};
    uint32_t n = team_sizes[s->size_index];
    size_t bytes = sizes[random_below(random, N_BYTES)];
    uint32_t type = (uint32_t)random_below(random, 3);
    run_t run = {.type = types[type],
                 .kind = kind,
                 .operands = operands,
                 .elements = bytes / kind->element,
                 .in_place = random_below(random, 2) != 0};
    if (run.type == UCC_COLL_TYPE_REDUCE) {
        run.root = (uint32_t)random_below(random, n);
    }
    if (run.type == UCC_COLL_TYPE_REDUCE_SCATTER && run.elements % n != 0) {
        run.type = UCC_COLL_TYPE_REDUCE_SCATTERV;
    }
    snprintf(run.name, sizeof(run.name),
             "%s%s of %zu bytes, kind %d, %" PRIu32
             " endpoints, machine '%s', arrival %s, tree %s, "
             "placing %d, %s",
             reference_coll_name(run.type), run.in_place ? " in place" : "", bytes,
             (int)(kind - kinds), n, machines[s->machine], arrivals[s->arrival], trees[s->tree],
             (int)s->placing, driver_name(s->driver));
    shared->runs++;
    shared->by_driver[s->driver]++;
    shared->by_type[type]++;
    return run;
}

static bool run_setting(const setting_t *s, uint32_t n_runs, uint64_t *random) {
    uint32_t n = team_sizes[s->size_index];
    const kind_t *kind = &kinds[random_below(random, N_KINDS)];
    setenv("HEDDLE_ARRIVAL", arrivals[s->arrival], 1);
    setenv("HEDDLE_TREE", trees[s->tree], 1);
    world_t *world = placed_world(
        &(world_params_t){.size = n, .shared_context = driver_wants_shared_context(s->driver)},
        s->placing);
    unsigned char **operands = make_operands(kind, n);
    run_t runs[JOBS];
    job_t jobs[JOBS];
    for (uint32_t j = 0; j < n_runs; j++) {
        runs[j] = draw_run(s, kind, operands, random);
        prepare(&runs[j], n);
        jobs[j] = (job_t){.args = runs[j].args, .statuses = runs[j].statuses, .name = runs[j].name};
    }
    hd_delay_arm((uint32_t)random_next(random) | 1);
    driver_run(world, s->driver, jobs, n_runs);
    hd_delay_arm(0);
    bool good = true;
    for (uint32_t j = 0; j < n_runs; j++) {
        good = check(&runs[j], s->size_index) && good;
        clean(&runs[j], n);
    }
    free_operands(operands, n);
    world_destroy(world);
    return good;
}

static uint64_t percent(void) {
    const char *text = getenv("HEDDLE_STRESS_SCALE");
    uint64_t scale = text != NULL && atoi(text) > 0 ? (uint64_t)atoi(text) : 100;
#ifdef __SANITIZE_THREAD__
    scale = (scale + 9) / 10;
#endif
    return scale;
}

/* Every team size, driver and way of arrival on this machine; trees, places, runs by chance. */
static bool run_machine(uint32_t machine) {
    uint64_t random = 7 + machine;
    uint32_t settings = N_SIZES * N_ARRIVALS * DRIVERS;
    uint32_t n_runs = (uint32_t)(RUNS * percent() / (100 * settings * N_MACHINES));
    n_runs = n_runs < 1 ? 1 : n_runs > JOBS ? JOBS : n_runs;
    bool good = true;
    for (uint32_t i = 0; i < settings; i++) {
        setting_t s = {.machine = machine,
                       .size_index = i % N_SIZES,
                       .arrival = i / N_SIZES % N_ARRIVALS,
                       .driver = (driver_t)(i / N_SIZES / N_ARRIVALS),
                       .tree = (uint32_t)random_below(&random, 2),
                       .placing = (placing_t)random_below(&random, PLACINGS)};
        good = run_setting(&s, n_runs, &random) && good;
    }
    return good;
}

int main(void) {
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    double began = test_now();
    bool good = true;
    for (uint32_t machine = 0; machine < N_MACHINES; machine++) {
        good = placed_run(machines[machine], run_machine, machine) && good;
    }
    for (uint32_t size_index = 0; size_index < N_SIZES; size_index++) {
        for (uint32_t kind = 0; kind < N_KINDS; kind++) {
            good = is_canonical(size_index, &kinds[kind]) && good;
        }
    }
    printf("%" PRIu64 " runs, %" PRIu64 " results compared: %s (%.1f s)\n", shared->runs,
           shared->results, good ? "the same bits" : "NOT the same bits", test_now() - began);
    printf("  allreduce %" PRIu64 ", reduce %" PRIu64 ", reduce_scatter(v) %" PRIu64 "\n",
           shared->by_type[0], shared->by_type[1], shared->by_type[2]);
    for (uint32_t d = 0; d < DRIVERS; d++) {
        printf("  %s: %" PRIu64 "\n", driver_name((driver_t)d), shared->by_driver[d]);
    }
    return good ? 0 : 1;
}
