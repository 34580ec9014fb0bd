/* synthetic.c: teams on machines that nobody owns.
 *
 * Each machine is an hwloc description in a child process. Teams of up to 64 endpoints say that
 * they are placed on it, compactly or scattered, and run with static arrival over the tree that
 * follows the machine. The tree must respect the machine's domains, be in use, and every collective
 * over it give what the reference says; a barrier must hold everybody back.
 *
 * HEDDLE_STRESS_SCALE (percent) scales the number of barriers and random collectives. Under
 * ThreadSanitizer, half of that, and each size has one placing on each machine.
 */
#include "../repro/placed.h"
#include "../support/cases.h"
#include "../support/dose.h"
#include "../support/driver.h"
#include "../support/random.h"
#include "team/team.h"

#include <inttypes.h>
#include <string.h>

typedef struct machine {
    const char *description;
    uint32_t packages, nodes; /* what it must be understood as; 0: whatever this machine has */
} machine_t;

static const machine_t machines[] = {
    {"", 0, 0},
    {"core:8 pu:1", 1, 1},
    {"pack:2 core:4 pu:2", 2, 1},
    {"pack:2 numa:4 core:16 pu:2", 2, 8},
    {"pack:4 l3:2 core:4 pu:1", 4, 1},
    {"numa:3 core:3 pu:1", 1, 3},
    {"pack:8 numa:1 l3:4 core:2 pu:2", 8, 8},
};
enum { N_MACHINES = sizeof(machines) / sizeof(machines[0]) };

static const uint32_t team_sizes[] = {1, 2, 3, 7, 8, 9, 17, 33, 64};
enum { N_SIZES = sizeof(team_sizes) / sizeof(team_sizes[0]) };

static uint32_t scaled(uint32_t n) {
    const char *text = getenv("HEDDLE_STRESS_SCALE");
    uint32_t percent = text != NULL && atoi(text) > 0 ? (uint32_t)atoi(text) : 100;
#ifdef __SANITIZE_THREAD__
    percent = (percent + 1) / 2;
#endif
    n = n * percent / 100;
    return n > 0 ? n : 1;
}

static bool fail(const world_t *world, uint32_t machine, const char *what) {
    fprintf(stderr, "FAILED: '%s', %" PRIu32 " endpoints: %s\n", machines[machine].description,
            world->size, what);
    return false;
}

/* --- the tree --------------------------------------------------------------------------------- */

static bool tree_follows_machine(const world_t *world, uint32_t machine, placing_t placing) {
    hd_group_t *group = world->teams[0]->group;
    if (world->size == 1) {
        return true;
    }
    if (!hd_group_is_complete(group) || !group->static_arrival) {
        return fail(world, machine, "arrival is not static");
    }
    if (placing == PLACING_NONE) {
        return group->by_topology == group->canonical ||
               fail(world, machine, "a tree by topology though nobody said where endpoints run");
    }
    if (group->by_topology == group->canonical) {
        return fail(world, machine, "no tree by topology");
    }
    if (hd_tree_check(group->by_topology, group->locality) != UCC_OK) {
        return fail(world, machine, "the tree crosses a border of the machine");
    }
    return true;
}

/* --- barriers --------------------------------------------------------------------------------- */

typedef struct barriers {
    world_t *world;
    uint32_t rounds;
    _Atomic uint64_t entered, early;
} barriers_t;

static void run_barriers(void *arg, uint32_t index) {
    barriers_t *b = arg;
    for (uint64_t round = 1; round <= b->rounds; round++) {
        // relaxed: the barrier under test orders it; a lost order shows as a number too low
        atomic_fetch_add_explicit(&b->entered, 1, memory_order_relaxed);
        must(heddle_barrier(b->world->endpoints[index]), "heddle_barrier");
        // relaxed: see above
        uint64_t entered = atomic_load_explicit(&b->entered, memory_order_relaxed);
        if (entered < round * b->world->size) {
            atomic_fetch_add_explicit(&b->early, 1, memory_order_relaxed); // a count
        }
    }
}

static bool barrier_holds(world_t *world, uint32_t machine) {
    barriers_t b = {.world = world, .rounds = scaled(10)};
    driver_threads(world->size, run_barriers, &b);
    return atomic_load_explicit(&b.early, memory_order_relaxed) == 0 || // threads are gone
           fail(world, machine, "an endpoint left a barrier early");
}

/* --- everything else, against the reference --------------------------------------------------- */

static bool run_case(world_t *world, driver_t driver, const coll_case_t *c) {
    prepared_t *p = case_prepare(c);
    job_t job = {.args = p->args, .statuses = p->statuses, .name = p->name};
    driver_run(world, driver, &job, 1);
    bool good = case_check(p);
    case_free(p);
    return good;
}

static bool collectives_work(world_t *world, driver_t driver, uint64_t seed) {
    static const uint64_t counts[] = {1, 6, 100, 3000};
    uint64_t random = seed;
    bool good = true;
    for (uint32_t i = 0; i < COLL_TYPES; i++) {
        for (uint32_t repeat = 0; repeat < scaled(2); repeat++) {
            coll_case_t c = {.type = coll_type_at(i),
                             .size = world->size,
                             .count = counts[random_below(&random, 4)],
                             .dt = reference_datatype(UCC_DT_FLOAT64),
                             .op = UCC_OP_SUM,
                             .in_place = (in_place_t)random_below(&random, IN_PLACES),
                             .layout = (layout_t)random_below(&random, LAYOUTS),
                             .counts64 = true,
                             .displacements64 = true,
                             .seed = random_next(&random)};
            if (coll_has_blocks(c.type) && c.count > 100) {
                c.count = 100;
            }
            if (coll_is_rooted(c.type)) {
                c.root = (uint32_t)random_below(&random, world->size);
            }
            good = run_case(world, driver, &c) && good;
        }
    }
    return good;
}

static bool team_works(uint32_t machine, uint32_t n, placing_t placing, driver_t driver) {
    world_params_t params = {.size = n, .shared_context = driver_wants_shared_context(driver)};
    world_t *world = placed_world(&params, placing);
    bool good = tree_follows_machine(world, machine, placing);
    good = collectives_work(world, driver, machine * 1000 + n * 10 + (uint32_t)placing) && good;
    if (driver == DRIVER_THREADS) {
        good = barrier_holds(world, machine) && good;
    }
    world_destroy(world);
    return good;
}

/* On each machine, all placings with all drivers; for each size, all placings on some machine. */
static bool has_turn(uint32_t machine, uint32_t size_index, uint32_t placing) {
    return dose_has_variants() || placing == (machine + size_index / PLACINGS) % PLACINGS;
}

static bool machine_works(uint32_t machine) {
    static const driver_t drivers[] = {DRIVER_THREADS, DRIVER_ONE, DRIVER_SHARED};
    const machine_t *m = &machines[machine];
    setenv("HEDDLE_ARRIVAL", "static", 1);
    setenv("HEDDLE_TREE", "topology", 1);
    const hd_topo_t *topo = hd_topo_get();
    uint32_t packages = hd_topo_n_domains(topo, HD_TOPO_PACKAGE);
    uint32_t nodes = hd_topo_n_domains(topo, HD_TOPO_NUMA);
    if (m->packages && (packages != m->packages || nodes != m->nodes)) {
        fprintf(stderr, "FAILED: '%s' has %" PRIu32 " packages and %" PRIu32 " nodes\n",
                m->description, packages, nodes);
        return false;
    }
    bool good = true;
    for (uint32_t s = 0; s < N_SIZES; s++) {
        for (uint32_t placing = 0; placing < PLACINGS; placing++) {
            driver_t driver = drivers[(s + placing + machine) % 3];
            if (has_turn(machine, s, placing)) {
                good = team_works(machine, team_sizes[s], (placing_t)placing, driver) && good;
            }
        }
    }
    return good;
}

int main(void) {
    bool good = true;
    for (uint32_t machine = 0; machine < N_MACHINES; machine++) {
        double began = test_now();
        bool one = placed_run(machines[machine].description, machine_works, machine);
        printf("'%s': %s (%.1f s)\n", machines[machine].description, one ? "right" : "WRONG",
               test_now() - began);
        good = good && one;
    }
    return good ? 0 : 1;
}
