/* span.c: which endpoints live in which process (span.h). Given which endpoint lives in which
 * process, hd_span_create sorts endpoints by process and processes by their lowest endpoints, and
 * fills the lists of a span in. form/ calls it, and crossing.c for active sets. Nothing here has
 * state or takes a lock. */
#include "span/internal.h"

#include "core/hash.h"
#include "core/reduce.h"

#include <stdlib.h>

/* An endpoint, with what tells its process apart: the number that was given, then the process's
 * lowest endpoint. */
typedef struct home {
    uint32_t process, endpoint;
} home_t;

static int by_process(const void *a, const void *b) {
    const home_t *x = a, *y = b;
    int order = (x->process > y->process) - (x->process < y->process);
    return order ? order : (x->endpoint > y->endpoint) - (x->endpoint < y->endpoint);
}

/* Fills `home` in and sorts it process by process, in the order of their lowest endpoints,
 * ascending in each. Returns how many processes there are. */
static uint32_t sort_homes(home_t *home, uint32_t n, const uint32_t *process_of) {
    uint32_t processes = 0, given = 0, lowest = 0;
    for (uint32_t i = 0; i < n; i++) {
        home[i] = (home_t){.process = process_of[i], .endpoint = i};
    }
    qsort(home, n, sizeof(*home), by_process);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || home[i].process != given) {
            given = home[i].process;
            lowest = home[i].endpoint;
            processes++;
        }
        home[i].process = lowest;
    }
    qsort(home, n, sizeof(*home), by_process);
    return processes;
}

/* Makes a span from the sorted endpoints: one block of memory, with its lists behind it. NULL: no
 * memory. */
static hd_span_t *create(const home_t *home, uint32_t n, uint32_t processes, uint32_t my_endpoint) {
    size_t lists = (size_t)4 * n + (size_t)3 * processes + 2;
    hd_span_t *span = hd_alloc(HD_LINE, sizeof(*span) + lists * sizeof(uint32_t));
    if (!span) {
        return NULL;
    }
    uint32_t *process_of = (uint32_t *)(span + 1), *local_of = process_of + n;
    uint32_t *endpoint = local_of + n, *first = endpoint + n;
    uint32_t begun = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (home[i].endpoint == home[i].process) { /* the lowest one begins its process */
            first[begun++] = i;
        }
        endpoint[i] = home[i].endpoint;
        process_of[home[i].endpoint] = begun - 1;
        local_of[home[i].endpoint] = i - first[begun - 1];
    }
    hd_assert_eq(begun, processes);
    first[processes] = n;
    *span = (hd_span_t){.n = n,
                        .even = true,
                        .processes = processes,
                        .mine = process_of[my_endpoint],
                        .process_of = process_of,
                        .local_of = local_of,
                        .first = first,
                        .endpoint = endpoint,
                        .first_block = first + processes + 1,
                        .block = first + 2 * ((size_t)processes + 1)};
    for (uint32_t p = 1; p < processes; p++) {
        span->even = span->even && hd_span_count(span, p) == hd_span_count(span, 0);
    }
    return span;
}

/* Does each block of so many endpoints live in one process? */
static bool are_together(const hd_span_t *span, uint64_t endpoints) {
    for (uint64_t e = 0; e < span->n; e++) {
        if (span->process_of[e] != span->process_of[e - e % endpoints]) {
            return false;
        }
    }
    return true;
}

/* Finds the blocks, and lists those of each process. */
static void find_blocks(hd_span_t *span) {
    uint32_t *first_block = (uint32_t *)(uintptr_t)span->first_block, n = 0;
    uint32_t *block = (uint32_t *)(uintptr_t)span->block;
    uint64_t together = 1;
    while (together * HD_REDUCE_BLOCK < span->n && are_together(span, together * HD_REDUCE_BLOCK)) {
        together *= HD_REDUCE_BLOCK;
    }
    span->together = (uint32_t)together;
    span->blocks = (uint32_t)((span->n + together - 1) / together);
    for (uint32_t p = 0; p < span->processes; p++) {
        first_block[p] = n;
        for (uint32_t i = 0; i < hd_span_count(span, p); i += span->together) {
            block[n++] = hd_span_endpoint(span, p, i) / span->together;
        }
    }
    first_block[span->processes] = n;
    hd_assert_eq(n, span->blocks); /* only the last one has fewer endpoints */
}

#if HD_DEBUG >= 2
/* Checks that each endpoint is where its process counts it, and that processes are numbered by
 * their lowest endpoints. */
static void check_span(const hd_span_t *span) {
    hd_always_lt(span->mine, span->processes);
    hd_always_eq(span->first[0], 0);
    hd_always_eq(span->first[span->processes], span->n);
    for (uint32_t p = 0; p < span->processes; p++) {
        hd_always_lt(0, hd_span_count(span, p));
        hd_always(p == 0 || hd_span_endpoint(span, p - 1, 0) < hd_span_endpoint(span, p, 0));
        for (uint32_t i = 0; i < hd_span_count(span, p); i++) {
            uint32_t endpoint = hd_span_endpoint(span, p, i);
            hd_always(span->process_of[endpoint] == p && span->local_of[endpoint] == i);
        }
    }
    hd_always(span->blocks >= 1 && span->together >= 1);
}
#endif

hd_span_t *hd_span_create(uint32_t n, const uint32_t *process_of, uint32_t my_endpoint) {
    home_t *home = hd_alloc(HD_LINE, n * sizeof(*home));
    uint32_t processes = home ? sort_homes(home, n, process_of) : 0;
    hd_span_t *span = home ? create(home, n, processes, my_endpoint) : NULL;
    hd_free(home);
    if (!span) {
        hd_error("no memory for the list of processes of %u endpoints", n);
        return NULL;
    }
    find_blocks(span);
    hd_checked(check_span(span));
    return span;
}

hd_span_t *hd_span_of_set(const hd_span_t *team, const hd_subset_t *set) {
    uint32_t *process_of = hd_alloc(HD_LINE, set->n * sizeof(*process_of)), me = 0;
    if (!process_of) {
        hd_error("no memory for the list of processes of %u endpoints", set->n);
        return NULL;
    }
    for (uint32_t i = 0; i < set->n; i++) {
        uint32_t endpoint = (uint32_t)((int64_t)set->start + (int64_t)i * set->stride);
        process_of[i] = team->process_of[endpoint];
        me = process_of[i] == team->mine ? i : me;
    }
    hd_span_t *span = hd_span_create(set->n, process_of, me);
    if (span) {
        uint32_t *team_process = (uint32_t *)(uintptr_t)span->block + span->blocks;
        for (uint32_t p = 0; p < span->processes; p++) {
            team_process[p] = process_of[hd_span_endpoint(span, p, 0)];
        }
        span->team_process = team_process;
        span->set = *set;
        span->set.local = hd_span_count(span, span->mine);
        uint64_t hash = hd_hash_mix(hd_hash_mix(0x5e7u, set->start), (uint64_t)set->stride);
        span->set_hash = hd_hash_mix(hash, set->n) | 1;
    }
    hd_free(process_of);
    return span;
}

void hd_nodes_free(hd_nodes_t *nodes) {
    if (nodes) {
        hd_free(nodes->span);
        hd_free(nodes);
    }
}

hd_nodes_t *hd_nodes_create(const hd_span_t *processes, hd_span_t *span) {
    uint32_t n = span->processes;
    size_t lists = ((size_t)n + 1 + processes->processes) * sizeof(uint32_t);
    hd_nodes_t *nodes = hd_alloc(HD_LINE, sizeof(*nodes) + lists);
    if (!nodes) {
        hd_error("no memory for the list of nodes of %u endpoints", span->n);
        hd_free(span);
        return NULL;
    }
    *nodes = (hd_nodes_t){.span = span, .least = processes->processes};
    nodes->first = (uint32_t *)(void *)(nodes + 1);
    nodes->process = nodes->first + n + 1;
    for (uint32_t node = 0, at = 0; node < n; node++) {
        nodes->first[node] = at;
        for (uint32_t p = 0; p < processes->processes; p++) {
            if (span->process_of[hd_span_endpoint(processes, p, 0)] == node) {
                nodes->process[at++] = processes->team_process ? processes->team_process[p] : p;
            }
        }
        nodes->first[node + 1] = at;
        uint32_t here = at - nodes->first[node];
        nodes->least = here < nodes->least ? here : nodes->least;
    }
    return nodes;
}

/* Returns all members of that process, or only the root, if it is one of them. */
static hd_members_t members(const hd_span_t *span, const hd_call_t *call, uint32_t process,
                            bool only_root) {
    if (!only_root) {
        return (hd_members_t){0, hd_span_count(span, process)};
    }
    uint32_t root = span->local_of[call->root];
    return (hd_members_t){root, root + (span->process_of[call->root] == process)};
}

hd_members_t hd_span_givers(const hd_span_t *span, const hd_call_t *call, uint32_t process) {
    return members(span, call, process, hd_coll[call->type].flow == HD_FROM_ROOT);
}

hd_members_t hd_span_takers(const hd_span_t *span, const hd_call_t *call, uint32_t process) {
    return members(span, call, process, hd_coll[call->type].flow == HD_TO_ROOT);
}
