/* create.c: makes a crossing while its team forms (form/ calls hd_crossing_create), hangs it on the
 * team's group, and frees it when that group ends. Nobody else in span/ calls it. */
#include "span/internal.h"

#include "threads/trace.h"

/* The net's `failed`: the team is lost, because other processes have said so or can't be reached.
 * They need not be told. Called under a lane's lock. */
static void lost(void *arg, ucc_status_t why) {
    hd_crossing_t *crossing = arg;
    /* relaxed: the flag says nothing else */
    atomic_store_explicit(&crossing->aborted, 1, memory_order_relaxed);
    hd_group_poison(crossing->group, why);
}

/* The net's `swapped`: all parts of a swap are there; wakes who waits for them. Called under a
 * lane's lock. */
static void swapped(void *arg) {
    const hd_crossing_t *crossing = arg;
    hd_bell_ring(&crossing->group->home.bell);
}

/* What hangs on the group is told that the group has failed in this process. */
static void tell(hd_outer_memory_t *memory, ucc_status_t why) {
    hd_crossing_abort(hd_crossing_of(memory), why);
}

/* Frees the crossing; called when the last reference to its group has been given up. */
static void release(hd_outer_memory_t *memory) {
    hd_crossing_t *crossing = hd_crossing_of(memory);
    /* relaxed: this is the last user */
    hd_span_t *set = atomic_load_explicit(&crossing->sets, memory_order_relaxed);
    /* relaxed: as above; the greeting has kept the group to its end */
    hd_assert(atomic_load_explicit(&crossing->greeted, memory_order_relaxed) != HD_GREETING ||
              hd_group_is_inherited(crossing->group));
    hd_net_team_destroy(crossing->team);
    /* in the child of a fork, the parent's reference does not count */
    if (!hd_group_is_inherited(crossing->group)) {
        hd_net_close(crossing->net);
    }
    while (set) {
        hd_span_t *next = set->next;
        hd_free(set);
        set = next;
    }
    hd_free(crossing->origin.endpoint);
    hd_free(crossing->hello_scratch);
    hd_free(crossing->words);
    hd_pool_clear(&crossing->pool); /* after the team's end, when all legs are over */
    hd_free(crossing->swap_place);
    /* relaxed: as above */
    hd_free_local(atomic_load_explicit(&crossing->swap_results, memory_order_relaxed));
    hd_free(crossing->span);
    hd_free(crossing);
}

/* Has the team more endpoints on this host than there are processors? */
static bool is_crowded(const hd_crossing_t *crossing) {
    const hd_span_t *span = crossing->span;
    uint32_t here = 0;
    for (uint32_t p = 0; p < span->processes; p++) {
        here += hd_net_team_is_beside(crossing->team, p) ? hd_span_count(span, p) : 0;
    }
    return here > hd_topo_n_pus(hd_topo_get());
}

ucc_status_t hd_crossing_create(hd_group_t *group, hd_span_t *span, hd_net_t *net, uint64_t wire,
                                const hd_net_process_t *process, uint64_t *labels, uint32_t terms,
                                hd_origin_t origin, const hd_config_t *config) {
    size_t bytes = sizeof(hd_crossing_t) + span->processes * sizeof(*process);
    hd_crossing_t *crossing = hd_alloc(HD_LINE, bytes);
    if (!crossing) {
        hd_error("no memory for a team of %u processes", span->processes);
        return UCC_ERR_NO_MEMORY;
    }
    crossing->process = (hd_net_process_t *)(void *)(crossing + 1);
    for (uint32_t p = 0; p < span->processes; p++) {
        crossing->process[p].identity[0] = process[p].identity[0];
        crossing->process[p].identity[1] = process[p].identity[1];
    }
    /* In a team whose wire id may be used again (one of survivors, which has an origin), a part
     * that comes too late might be taken for one of the next team's: there are no swaps then. */
    size_t most = hd_net_swap_most(span->processes);
    crossing->swap_most = (size_t)hd_config_uint(config, HD_CFG_LIB_NET_SWAP_MAX);
    crossing->swap_most = crossing->swap_most < most ? crossing->swap_most : most;
    bool swaps = span->processes <= HD_SWAP_PROCESSES && !origin.endpoint && !group->two_sided &&
                 crossing->swap_most > 0;
    hd_net_team_params_t params = {.wire = wire,
                                   .n = span->processes,
                                   .me = span->mine,
                                   .process = process,
                                   .config = config,
                                   .swaps = swaps,
                                   .early = hd_span_count(span, span->mine) > 1,
                                   .failed = lost,
                                   .swapped = swapped,
                                   .arg = crossing};
    crossing->memory.release = release;
    crossing->memory.failed = tell;
    crossing->group = group;
    crossing->span = span;
    crossing->net = net;
    crossing->wire = wire;
    crossing->since = hd_ticks();
    crossing->terms = terms;
    crossing->placement =
        hd_config_choice(config, HD_CFG_LIB_REPRODUCIBLE) == HD_CFG_REPRODUCIBLE_PLACEMENT;
    hd_span_drain_init();
    if (hd_trace_is_on()) {
        hd_trace_process(span->mine, span->processes);
    }
    ucc_status_t status = UCC_OK;
    if (swaps && hd_span_count(span, span->mine) > 1) {
        crossing->swap_place = hd_alloc(HD_LINE, HD_SWAP_SLOTS * sizeof(*crossing->swap_place));
        status = crossing->swap_place ? UCC_OK : UCC_ERR_NO_MEMORY;
    }
    if (status == UCC_OK) {
        status = hd_net_team_create(net, &params, &crossing->team);
    } else {
        hd_error("no memory for a team of %u processes", span->processes);
    }
    if (status != UCC_OK) {
        hd_free(crossing->swap_place);
        hd_free(crossing);
        return status;
    }
    crossing->crowded = is_crowded(crossing);
    group->home.roomy = !crossing->crowded;
    hd_free(group->labels);
    group->labels = crossing->labels = labels;
    crossing->origin = origin;
    group->numbers = span->endpoint + span->first[span->mine];
    group->team_n = span->n;
    group->outside = &crossing->memory;
    group->home.fd_waiter = hd_net_fd_waiter();
    return UCC_OK;
}
