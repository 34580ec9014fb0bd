/* test_errors.c: endpoints whose calls disagree. Whoever depends on an endpoint that called
 * something else fails in that operation; everybody else on the next one, by the team's sticky
 * error; nobody hangs. With CHECK, all fail at once.
 *
 * One endpoint, the deviant, is given the arguments of another prepared case, so all buffers are
 * real and as large as their owner says: under AddressSanitizer nobody may write beyond one.
 */
#include "../support/cases.h"
#include "../support/deadline.h"
#include "../support/dose.h"
#include "../support/driver.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void quiet(void) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);    /* every case logs what it provokes */
    setenv("HEDDLE_TEST_SLOWDOWN", "0.34", 0); /* 20 s: a hang is found soon */
}

TestSuite(errors, .timeout = 600, .init = quiet);

enum { INLINE = 2, LINES = 150, STAGED = 3000, DIRECT = 9000, STAGED_MAX = 16 * 1024 };

static const uint64_t counts[] = {INLINE, LINES, STAGED, DIRECT};
static const uint32_t sizes[] = {2, 4, 8, 9, 33};
enum { N_COUNTS = 4, N_SIZES = 5 };

/* --- who depends on whom ---------------------------------------------------------------------- */

static bool is_direct(const coll_case_t *c) {
    uint64_t bytes = c->count * c->dt->extent;
    switch ((uint64_t)c->type) {
    case UCC_COLL_TYPE_BARRIER:
    case UCC_COLL_TYPE_FANIN:
    case UCC_COLL_TYPE_FANOUT:
        return false;
    case UCC_COLL_TYPE_SCATTER:
    case UCC_COLL_TYPE_SCATTERV:
        return bytes * c->size > STAGED_MAX;
    default:
        return bytes > STAGED_MAX;
    }
}

/* Must endpoint i, whose call is c, have something from endpoint j before it can be done? */
static bool depends(const coll_case_t *c, uint32_t i, uint32_t j) {
    switch ((uint64_t)c->type) {
    case UCC_COLL_TYPE_BCAST:
    case (uint64_t)UCC_COLL_TYPE_MCAST:
    case UCC_COLL_TYPE_SCATTER:
        return is_direct(c) || (i != c->root && j == c->root);
    case UCC_COLL_TYPE_SCATTERV: /* the others follow the root's regime */
        return (i == c->root && is_direct(c)) || (i != c->root && j == c->root);
    case UCC_COLL_TYPE_FANOUT:
        return i != c->root && j == c->root;
    case UCC_COLL_TYPE_REDUCE:
    case UCC_COLL_TYPE_GATHER:
    case UCC_COLL_TYPE_GATHERV:
    case UCC_COLL_TYPE_FANIN:
        return is_direct(c) || i == c->root;
    case (uint64_t)UCC_COLL_TYPE_SCAN: /* a prefix needs those before it */
    case (uint64_t)UCC_COLL_TYPE_EXSCAN:
        return is_direct(c) || j < i;
    default:
        return true;
    }
}

/* Of v types only pairs must agree: is there anything between i and j? */
static bool is_pair(const coll_case_t *c, uint32_t i, uint32_t j) {
    bool rooted = c->type == UCC_COLL_TYPE_GATHERV || c->type == UCC_COLL_TYPE_SCATTERV;
    return !rooted || i == c->root || j == c->root;
}

/* --- one case --------------------------------------------------------------------------------- */

typedef struct mismatch {
    coll_case_t most, odd; /* what the deviant calls instead */
    uint32_t deviant;
    bool only_counts; /* the signatures of v types don't show it */
} mismatch_t;

static bool must_fail(const mismatch_t *m, uint32_t i) {
    const coll_case_t *own = i == m->deviant ? &m->odd : &m->most;
    bool by_pairs =
        m->only_counts && coll_is_v(own->type) && own->type != UCC_COLL_TYPE_REDUCE_SCATTERV;
    for (uint32_t j = 0; j < own->size; j++) {
        if ((i == m->deviant) != (j == m->deviant) && depends(own, i, j) &&
            (!by_pairs || is_pair(own, i, j))) {
            return true;
        }
    }
    return false;
}

static world_t *make_world(uint32_t n, bool check) {
    if (!check) {
        return world_create(&(world_params_t){.size = n, .form = WORLD_GROUP});
    }
    static uint64_t id = 77;
    world_t *world = must_alloc(1, sizeof(*world));
    world->size = world->n_contexts = n;
    world->libs = must_alloc(n, sizeof(*world->libs));
    world->contexts = must_alloc(n, sizeof(*world->contexts));
    world->teams = must_alloc(n, sizeof(*world->teams));
    id++;
    for (uint32_t i = 0; i < n; i++) {
        ucc_lib_config_h config;
        ucc_lib_params_t lib_params = {.mask = 0};
        must(ucc_lib_config_read(NULL, NULL, &config), "ucc_lib_config_read");
        must(ucc_lib_config_modify(config, "CHECK", "1"), "ucc_lib_config_modify");
        must(ucc_init(&lib_params, config, &world->libs[i]), "ucc_init");
        ucc_lib_config_release(config);
        world->contexts[i] = world_new_context(world->libs[i], UCC_CONTEXT_EXCLUSIVE, NULL);
        ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_ID |
                                            UCC_TEAM_PARAM_FIELD_EP_RANGE |
                                            UCC_TEAM_PARAM_FIELD_TEAM_SIZE,
                                    .ep = i,
                                    .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG,
                                    .team_size = n,
                                    .id = id};
        must(ucc_team_create_post(&world->contexts[i], 1, &params, &world->teams[i]),
             "ucc_team_create_post");
    }
    world_finish_teams(n, world->teams);
    return world;
}

static bool say(const mismatch_t *m, const char *when, uint32_t i, ucc_status_t status) {
    fprintf(stderr,
            "WRONG: %u endpoints, %s: %s of %llu %s root %u op %d, but %s of %llu %s root %u op "
            "%d at endpoint %u: endpoint %u has status %d\n",
            m->most.size, when, reference_coll_name(m->most.type),
            (unsigned long long)m->most.count, m->most.dt->name, m->most.root, m->most.op,
            reference_coll_name(m->odd.type), (unsigned long long)m->odd.count, m->odd.dt->name,
            m->odd.root, m->odd.op, m->deviant, i, (int)status);
    return false;
}

static bool verdict(const mismatch_t *m, const ucc_status_t *first, const ucc_status_t *next,
                    bool check) {
    bool any = check, ok = true;
    for (uint32_t i = 0; i < m->most.size; i++) {
        any = any || must_fail(m, i);
    }
    for (uint32_t i = 0; i < m->most.size; i++) {
        bool failed = first[i] == UCC_ERR_INVALID_PARAM;
        if ((!failed && (check || must_fail(m, i))) || (!failed && first[i] != UCC_OK)) {
            ok = say(m, "the operation", i, first[i]);
        }
        /* if nobody depended on it, somebody may have seen it in passing, or not */
        ucc_status_t wanted = any ? UCC_ERR_INVALID_PARAM : next[0];
        if (next[i] != wanted || (wanted != UCC_OK && wanted != UCC_ERR_INVALID_PARAM)) {
            ok = say(m, "the next one", i, next[i]);
        }
    }
    return ok;
}

static bool run(const mismatch_t *m, driver_t driver, bool check) {
    uint32_t n = m->most.size;
    world_t *world = make_world(n, check);
    prepared_t *most = case_prepare(&m->most);
    prepared_t *odd = case_prepare(&m->odd);
    ucc_coll_args_t *barriers = must_alloc(n, sizeof(*barriers));
    ucc_status_t *next = must_alloc(n, sizeof(*next));
    for (uint32_t i = 0; i < n; i++) {
        barriers[i].coll_type = UCC_COLL_TYPE_BARRIER;
    }
    most->args[m->deviant] = odd->args[m->deviant];
    job_t job = {.args = most->args, .statuses = most->statuses, .name = most->name};
    job_t again = {.args = barriers, .statuses = next, .name = "the operation after a mismatch"};
    driver_run(world, driver, &job, 1);
    driver_run(world, driver, &again, 1);
    bool ok = verdict(m, most->statuses, next, check);
    world_destroy(world);
    case_free(most);
    case_free(odd);
    free(barriers);
    free(next);
    return ok;
}

/* --- the cases -------------------------------------------------------------------------------- */

typedef enum mutation { COUNT, COUNT_REGIME, OP, DATATYPE, ROOT, TYPE, MUTATIONS } mutation_t;

/* False: the mutation means nothing for this type. */
static bool mutate(mutation_t mutation, coll_case_t *c, uint32_t type_number, uint32_t deviant) {
    switch (mutation) {
    case COUNT:
        c->count++;
        return coll_moves_data(c->type);
    case COUNT_REGIME:
        c->count = c->count < DIRECT ? DIRECT : INLINE;
        return coll_moves_data(c->type);
    case OP:
        c->op = UCC_OP_MAX;
        return coll_is_reduction(c->type);
    case DATATYPE: /* for data movement, only its size matters */
        c->dt = reference_datatype(coll_is_reduction(c->type) ? UCC_DT_UINT32 : UCC_DT_INT64);
        return coll_moves_data(c->type);
    case ROOT:
        c->root = (deviant + 1) % c->size == c->root ? deviant : (deviant + 1) % c->size;
        return coll_is_rooted(c->type);
    default:
        for (uint32_t t = 1; t < COLL_TYPES; t++) { /* some other type, as likely as not similar */
            c->type = coll_type_at((type_number + t * (1 + deviant)) % COLL_TYPES);
            if (c->type != coll_type_at(type_number)) {
                return true;
            }
        }
        return false;
    }
}

static uint64_t run_type(mutation_t mutation, uint32_t n, uint32_t t, uint64_t count,
                         driver_t driver, bool check, uint64_t *n_cases) {
    uint64_t wrong = 0;
    const uint32_t deviants[3] = {0, n / 2, n - 1};
    for (uint32_t d = 0; d < (n == 2 ? 2u : 3u); d++) {
        mismatch_t m = {.deviant = n == 2 ? d : deviants[d]};
        m.most = (coll_case_t){.type = coll_type_at(t),
                               .size = n,
                               .root = (t + n) % 2 ? 0 : n - 1,
                               .count = count,
                               .dt = reference_datatype(UCC_DT_INT32),
                               .op = UCC_OP_SUM,
                               .seed = 1 + t};
        m.odd = m.most;
        m.only_counts = mutation == COUNT || mutation == COUNT_REGIME || mutation == DATATYPE;
        if (mutate(mutation, &m.odd, t, m.deviant)) {
            wrong += !run(&m, driver, check);
            ++*n_cases;
        }
    }
    return wrong;
}

static void sweep(mutation_t mutation, driver_t driver, bool check) {
    uint64_t wrong = 0, n_cases = 0;
    for (uint32_t s = 0; s < N_SIZES; s++) {
        for (uint32_t t = 0; t < COLL_TYPES; t++) {
            for (uint32_t c = 0; c < N_COUNTS; c++) {
                bool heavy = coll_has_blocks(coll_type_at(t)) && sizes[s] > 9;
                bool moves = coll_moves_data(coll_type_at(t));
                if (moves ? (c + s + t) % dose_step(4, 8) != 0 : c > 0) {
                    continue;
                }
                uint64_t count = heavy ? (counts[c] + 9) / 10 : counts[c];
                wrong += run_type(mutation, sizes[s], t, count, driver, check, &n_cases);
            }
        }
    }
    printf("%llu mismatches, %s%s\n", (unsigned long long)n_cases, driver_name(driver),
           check ? ", CHECK" : "");
    cr_assert_eq(wrong, 0, "%llu cases went wrong", (unsigned long long)wrong);
    cr_assert_gt(n_cases, 0);
}

#define MISMATCH_TESTS(_name, _mutation)                                                           \
    Test(errors, a_mismatching_##_name##_is_found_by_one_thread_for_all) {                         \
        sweep(_mutation, DRIVER_ONE, false);                                                       \
    }                                                                                              \
    Test(errors, a_mismatching_##_name##_is_found_by_a_thread_per_endpoint) {                      \
        sweep(_mutation, DRIVER_THREADS, false);                                                   \
    }                                                                                              \
    Test(errors, a_mismatching_##_name##_fails_everywhere_at_once_with_check) {                    \
        sweep(_mutation, DRIVER_ONE, true);                                                        \
    }

MISMATCH_TESTS(count, COUNT)
MISMATCH_TESTS(count_of_another_regime, COUNT_REGIME)
MISMATCH_TESTS(op, OP)
MISMATCH_TESTS(datatype, DATATYPE)
MISMATCH_TESTS(root, ROOT)
MISMATCH_TESTS(type, TYPE)

Test(errors, with_check_threads_find_all_mismatches_at_once) {
    sweep(COUNT, DRIVER_THREADS, true);
    sweep(TYPE, DRIVER_THREADS, true);
}
