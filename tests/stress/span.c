/* span.c: the conformance tables on teams that span processes of one host, or of several hosts: by
 * scripts/netns run 3 -- test_stress_span. Every process makes the same cases, drives its own
 * endpoints, and looks at their results.
 *
 *     test_stress_span [PERCENT [SHAPE [PART]]]
 *
 * (with TEST_HEAPS=all, or =some, on buffers in heaps: support/heaps.h) runs that many of the
 * random cases, and with less than 100 a part of the tables (half, a quarter under
 * AddressSanitizer), on the shapes and parts whose names contain these words. The last line of each
 * shape says how many collectives were checked, and between hosts how many bytes crossed.
 */
#include "stress.h"

#include "../support/count.h"
#include "../support/dose.h"
#include "../support/probe.h"
#include "../support/sweeps.h"
#include "shm/near.h"

#include <inttypes.h>

enum { CHECKED, WRONG, WIRE, NEAR };

static const char *only_shape = "", *only_part = "";

/* --- parts --- */

typedef struct part {
    const char *name;
    driver_t driver;
    ucc_coll_sync_type_t sync;
    world_form_t form;
    ucc_post_ordering_t ordering;
    uint32_t times; /* persistent */
    uint64_t (*sweep)(const batch_params_t *params);
} part_t;

static uint64_t random_sweep(const batch_params_t *params) {
    return sweep_random(params, stress_scaled(STRESS_TSAN ? 2000 : 400),
                        params->world.size + params->driver);
}

static const part_t parts[] = {
    {"edges", DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, UCC_COLLECTIVE_POST_ORDERED, 0,
     sweep_edges},
    {"one thread", DRIVER_ONE, UCC_SYNC_COLLECTIVES, WORLD_OOB, UCC_COLLECTIVE_POST_ORDERED, 0,
     sweep_reduced},
    {"group", DRIVER_THREADS, UCC_SYNC_COLLECTIVES, WORLD_GROUP, UCC_COLLECTIVE_POST_ORDERED, 0,
     sweep_reduced},
    {"map", DRIVER_DEEP, UCC_NO_SYNC_COLLECTIVES, WORLD_EP_MAP, UCC_COLLECTIVE_POST_ORDERED, 0,
     random_sweep},
    {"persistent", DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, UCC_COLLECTIVE_POST_ORDERED,
     3, sweep_reduced},
    {"persistent, shared", DRIVER_SHARED, UCC_SYNC_COLLECTIVES, WORLD_PARENT,
     UCC_COLLECTIVE_POST_ORDERED, 5, random_sweep},
    {"init ordered", DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB,
     UCC_COLLECTIVE_INIT_ORDERED, 0, random_sweep},
    {"unordered", DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, UCC_COLLECTIVE_POST_UNORDERED,
     0, random_sweep},
    {"unordered, deep", DRIVER_DEEP, UCC_SYNC_COLLECTIVES, WORLD_EPS, UCC_COLLECTIVE_POST_UNORDERED,
     0, random_sweep},
    {"waiting", DRIVER_WAIT, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, UCC_COLLECTIVE_POST_ORDERED, 0,
     random_sweep},
    {"generic", DRIVER_SHARED, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, UCC_COLLECTIVE_POST_ORDERED, 0,
     sweep_generic},
    {"sets", DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, UCC_COLLECTIVE_POST_ORDERED, 0,
     sweep_sets},
    {"roots", DRIVER_DEEP, UCC_NO_SYNC_COLLECTIVES, WORLD_EPS, UCC_COLLECTIVE_POST_ORDERED, 0,
     sweep_roots},
    {"random", DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_PARENT, UCC_COLLECTIVE_POST_ORDERED,
     0, random_sweep},
};

/* Groups number their endpoints process by process. ThreadSanitizer has no time for tables. */
static bool can(const part_t *part, const shape_t *shape) {
    bool numbers = part->form != WORLD_GROUP || shape->numbering == NUMBERING_CONSECUTIVE;
    bool has_time = part->sweep == random_sweep || part->form == WORLD_GROUP;
    return numbers && (!STRESS_TSAN || has_time);
}

/* --- in a process --- */

/* The lowest-numbered process on a host counts its bytes. */
static bool counts_wire(const process_t *process) {
    uint32_t host = process->shape->host[process->me];
    for (uint32_t p = 0; p < process->me; p++) {
        if (process->shape->host[p] == host) {
            return false;
        }
    }
    return host != 0;
}

static int work(const process_t *process, void *arg) {
    (void)arg;
    uint64_t wire = process_wire_bytes();
    if (process->shape->host[process->me] != 0) {
        /* Namespaces share what the network looks for shared memory by: they would not be hosts. */
        setenv("HEDDLE_NET_SHM", "n", 1);
    }
    for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
        const part_t *part = &parts[k];
        if (strstr(part->name, only_part) == NULL || !can(part, process->shape)) {
            continue;
        }
        batch_params_t params = {.world = {.size = process->size,
                                           .form = part->form,
                                           .sync = part->sync,
                                           .ordering = part->ordering,
                                           .process = process},
                                 .driver = part->driver,
                                 .times = part->times};
        bool whole = part->sweep == random_sweep || stress.percent >= 100;
        batch_percent = whole ? 100 : 100 / dose_step(2, 4);
        process_note(process, "%s, after %" PRIu64, part->name, count_of_process());
        process_add(process, WRONG, part->sweep(&params));
        process_set(process, CHECKED, count_of_process());
        process_note(process, "%s is over", part->name);
        process_barrier(process);
    }
    process_set(process, NEAR, atomic_load(&hd_near_found));
    process_set(process, WIRE, counts_wire(process) ? process_wire_bytes() - wire : 0);
    return 0;
}

/* --- shapes --- */

static uint64_t total;

static void run(shape_t shape) {
    const char *name = shape_name(&shape);
    if (strstr(name, only_shape) == NULL) {
        return;
    }
    double start = test_now();
    outcome_t outcome = processes_run(&shape, 240, work, NULL);
    double seconds = test_now() - start;
    uint64_t checked = outcome.value[0][CHECKED], wrong = 0, wire = 0, near = 0;
    for (uint32_t p = 0; p < shape.processes; p++) {
        wrong += outcome.value[p][WRONG];
        wire += outcome.value[p][WIRE];
        near += outcome.value[p][NEAR];
    }
    if (!outcome.ok || wrong > 0) {
        stress_error("%s: %" PRIu64 " wrong%s", name, wrong, outcome.ok ? "" : ", and did not end");
    }
    printf("%-28s %6" PRIu64 " collectives checked, %5.1f s", name, checked, seconds);
    if (wire > 0) {
        printf(", %" PRIu64 " bytes on the wire", wire / 2); /* each was sent, and received */
    }
    if (near > 0) {
        printf(", %" PRIu64 " in reach", near);
    }
    printf("%s\n", outcome.ok && wrong == 0 ? "" : "  FAILED");
    fflush(stdout);
    bool hosts = shape.host[0] != 0;
    if (hosts && shape.processes > 1 && outcome.ok && wire < 1000 * (uint64_t)shape.processes) {
        stress_error("%s: nothing crossed between the hosts", name);
    }
    total += checked;
}

static shape_t uneven(uint32_t a, uint32_t b, uint32_t c) {
    return (shape_t){.processes = 3, .endpoints = {a, b, c}};
}

static shape_t numbered(shape_t shape, numbering_t numbering) {
    shape.numbering = numbering;
    shape.seed = 7;
    return shape;
}

/* Process p lives on host p modulo so many. */
static shape_t over_hosts(shape_t shape, uint32_t hosts) {
    for (uint32_t p = 0; p < shape.processes; p++) {
        shape.host[p] = p % hosts + 1;
    }
    return shape;
}

static void one_host(void) {
    run(shape_even(2, 1));
    run(shape_even(2, 2));
    run(shape_even(2, 3));
    run(uneven(1, 2, 4));
    run(shape_even(4, 1));
    run(shape_even(8, 1));
    run(numbered(shape_even(2, 2), NUMBERING_INTERLEAVED));
    run(numbered(uneven(3, 1, 2), NUMBERING_RANDOM));
}

/* With HEDDLE_DEBUG_NODES: teams of several nodes, of several processes each. */
static void several_nodes(void) {
    run(shape_even(4, 2));
    run(shape_even(6, 1));
    run(numbered(uneven(3, 1, 2), NUMBERING_INTERLEAVED));
    run(numbered(shape_even(4, 3), NUMBERING_RANDOM));
}

static void several_hosts(uint32_t hosts) {
    run(over_hosts(shape_even(4, 2), 2));
    run(over_hosts(shape_even(2, 1), 2));
    run(over_hosts(shape_even(2, 4), 2));
    run(over_hosts(numbered(shape_even(4, 2), NUMBERING_INTERLEAVED), 2));
    if (hosts < 3) {
        printf("skipped: 3 hosts: there are %u\n", hosts);
        return;
    }
    run(over_hosts(shape_even(3, 1), 3));
    run(over_hosts(uneven(1, 2, 4), 3));
    run(over_hosts(numbered(shape_even(6, 1), NUMBERING_RANDOM), 3));
}

int main(int argc, char **argv) {
    const char *why = "";
    stress_begin_alone(argc, argv);
    only_shape = argc > 2 ? argv[2] : "";
    only_part = argc > 3 ? argv[3] : "";
    uint32_t hosts = processes_hosts(&why);
    if (hosts < 2) {
        run(shape_even(1, 3));
    }
    if (!probe_network()) {
        return stress_skip("several processes", "this build has no network");
    }
    if (hosts < 2) {
        one_host();
        if (getenv("HEDDLE_DEBUG_NODES") != NULL) {
            several_nodes();
        }
    } else {
        several_hosts(hosts);
    }
    printf("checked collectives: %" PRIu64 "\n", total);
    return stress_end();
}
