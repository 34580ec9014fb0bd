/* span_one_sided.c: alltoall and alltoallv with displacements in the peers' memory
 * (support/one_sided.h), in teams that span processes of one host, or of several hosts: by
 * scripts/netns run 3 -- test_stress_span_one_sided.
 */
#include "stress.h"

#include "../support/dose.h"
#include "../support/one_sided.h"
#include "../support/probe.h"

#include <inttypes.h>

enum { CHECKED, WRONG };

static const one_sided_memory_t memories[] = {MAPPED_BY_CONTEXT, MAPPED_BY_ALL_HANDLES,
                                              MAPPED_BY_OWN_HANDLE};
enum { N_MEMORIES = sizeof(memories) / sizeof(memories[0]) };

/* Under ThreadSanitizer, each shape has one kind of memory, and each kind of memory some shape. */
static bool has_turn(const process_t *process, uint32_t memory) {
    uint32_t turn = process->size + process->shape->processes;
    return dose_has_variants() || memory == turn % N_MEMORIES;
}

static int work(const process_t *process, void *arg) {
    (void)arg;
    if (process->shape->host[process->me] != 0) {
        /* Namespaces share what the network looks for shared memory by: they would not be hosts. */
        setenv("HEDDLE_NET_SHM", "n", 1);
    }
    for (uint32_t m = 0; m < N_MEMORIES; m++) {
        if (!has_turn(process, m)) {
            continue;
        }
        uint64_t checked = 0;
        one_sided_t *w = one_sided_open(&(one_sided_params_t){.size = process->size,
                                                              .process = process,
                                                              .tune = ONE_SIDED_TUNE,
                                                              .memory = memories[m]});
        process_note(process, "memory %" PRIu32, m);
        process_add(process, WRONG, one_sided_sweep(w, &checked));
        process_add(process, CHECKED, checked);
        one_sided_close(w);
        process_barrier(process);
    }
    return 0;
}

static void run(shape_t shape) {
    outcome_t outcome = processes_run(&shape, 120, work, NULL);
    uint64_t wrong = 0;
    for (uint32_t p = 0; p < shape.processes; p++) {
        wrong += outcome.value[p][WRONG];
    }
    if (!outcome.ok || wrong > 0) {
        stress_error("%s: %" PRIu64 " wrong%s", shape_name(&shape), wrong,
                     outcome.ok ? "" : ", and did not end");
    }
    printf("%-28s %6" PRIu64 " collectives checked%s\n", shape_name(&shape),
           outcome.value[0][CHECKED], outcome.ok && wrong == 0 ? "" : "  FAILED");
    fflush(stdout);
}

/* Process p lives on host p modulo so many. */
static shape_t over_hosts(shape_t shape, uint32_t hosts) {
    for (uint32_t p = 0; hosts > 0 && p < shape.processes; p++) {
        shape.host[p] = p % hosts + 1;
    }
    return shape;
}

int main(int argc, char **argv) {
    const char *why = "";
    stress_begin_alone(argc, argv);
    if (!probe_network()) {
        return stress_skip("several processes", "this build has no network");
    }
    uint32_t hosts = processes_hosts(&why);
    hosts = hosts < 2 ? 0 : hosts;
    shape_t mixed = {.processes = 3, .endpoints = {1, 2, 1}, .numbering = NUMBERING_INTERLEAVED};
    run(over_hosts(shape_even(2, 1), hosts));
    run(over_hosts(shape_even(3, 1), hosts));
    run(over_hosts(shape_even(4, 1), hosts));
    run(over_hosts(shape_even(2, 2), hosts));
    run(over_hosts(mixed, hosts));
    return stress_end();
}
