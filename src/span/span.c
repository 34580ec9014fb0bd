/* span.c: which endpoints live in which process (span.h). Given which endpoint lives in which
 * process, hd_span_create sorts endpoints by process and processes by their lowest endpoints, and
 * fills the lists of a span in. form/ calls it, and crossing.c for active sets. Nothing here has
 * state or takes a lock. */
#include "span/span.h"

#include "core/hash.h"
#include "core/reduce.h"

#include <stdlib.h>

/* An endpoint, with what identifies its process while it is sorted. */
typedef struct home {
    /* given: the number that tells its process apart; lowest: the lowest endpoint of that process
     */
    uint32_t given, lowest;
    uint32_t endpoint;
} home_t;

static int by_process(const void *a, const void *b) {
    const home_t *x = a, *y = b;
    int by_given = (x->given > y->given) - (x->given < y->given);
    return by_given ? by_given : (x->endpoint > y->endpoint) - (x->endpoint < y->endpoint);
}

static int by_lowest(const void *a, const void *b) {
    const home_t *x = a, *y = b;
    int order = (x->lowest > y->lowest) - (x->lowest < y->lowest);
    return order ? order : (x->endpoint > y->endpoint) - (x->endpoint < y->endpoint);
}

/* Fills `home` in and sorts it process by process, in the order of their lowest endpoints,
 * ascending in each. Returns how many processes there are. */
static uint32_t sort_homes(home_t *home, uint32_t n, const uint32_t *process_of) {
    uint32_t processes = 0;
    for (uint32_t i = 0; i < n; i++) {
        home[i] = (home_t){.given = process_of[i], .endpoint = i};
    }
    qsort(home, n, sizeof(*home), by_process);
    for (uint32_t i = 0; i < n; i++) {
        bool first = i == 0 || home[i].given != home[i - 1].given;
        home[i].lowest = first ? home[i].endpoint : home[i - 1].lowest;
        processes += first;
    }
    qsort(home, n, sizeof(*home), by_lowest);
    return processes;
}

/* Allocates one block: the span, and its five lists behind it. The fifth, which has no pointer,
 * says for each process which number it was given. */
static hd_span_t *allocate(uint32_t n, uint32_t processes) {
    size_t lists = (size_t)3 * n + (size_t)2 * processes + 1;
    hd_span_t *span = hd_alloc(HD_LINE, sizeof(*span) + lists * sizeof(uint32_t));
    if (span) {
        uint32_t *at = (uint32_t *)(span + 1);
        span->process_of = at;
        span->local_of = at + n;
        span->endpoint = at + 2 * (size_t)n;
        span->first = at + 3 * (size_t)n;
        span->n = n;
        span->processes = processes;
    }
    return span;
}

/* Fills the lists in from the sorted endpoints. */
static void fill(hd_span_t *span, const home_t *home, uint32_t my_endpoint) {
    uint32_t *process_of = (uint32_t *)(uintptr_t)span->process_of;
    uint32_t *local_of = (uint32_t *)(uintptr_t)span->local_of;
    uint32_t *endpoint = (uint32_t *)(uintptr_t)span->endpoint;
    uint32_t *first = (uint32_t *)(uintptr_t)span->first;
    uint32_t *given = first + span->processes + 1;
    uint32_t process = 0;
    for (uint32_t i = 0; i < span->n; i++) {
        if (i == 0 || home[i].given != home[i - 1].given) {
            process += i > 0;
            first[process] = i;
            given[process] = home[i].given;
        }
        endpoint[i] = home[i].endpoint;
        process_of[home[i].endpoint] = process;
        local_of[home[i].endpoint] = i - first[process];
    }
    first[span->processes] = span->n;
    span->mine = process_of[my_endpoint];
}

/* Does each block of so many endpoints live in one process? */
static bool are_together(const hd_span_t *span, uint64_t endpoints) {
    uint64_t e = 0;
    while (e < span->n && span->process_of[e] == span->process_of[e - e % endpoints]) {
        e++;
    }
    return e == span->n;
}

/* Finds `together` and `blocks`. */
static void find_blocks(hd_span_t *span) {
    uint64_t together = 1;
    while (together * HD_REDUCE_BLOCK < span->n && are_together(span, together * HD_REDUCE_BLOCK)) {
        together *= HD_REDUCE_BLOCK;
    }
    span->together = (uint32_t)together;
    span->blocks = (uint32_t)((span->n + together - 1) / together);
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
    hd_span_t *span = NULL;
    if (home) {
        span = allocate(n, sort_homes(home, n, process_of));
    }
    if (span) {
        fill(span, home, my_endpoint);
        find_blocks(span);
        span->even = true;
        for (uint32_t p = 1; p < span->processes; p++) {
            span->even = span->even && hd_span_count(span, p) == hd_span_count(span, 0);
        }
        hd_checked(check_span(span));
    } else {
        hd_error("no memory for the list of processes of %u endpoints", n);
    }
    hd_free(home);
    return span;
}

hd_span_t *hd_span_of_set(const hd_span_t *team, const hd_subset_t *set) {
    uint32_t *process_of = hd_alloc(HD_LINE, set->n * sizeof(*process_of)), me = 0;
    for (uint32_t i = 0; process_of && i < set->n; i++) {
        uint32_t endpoint = (uint32_t)((int64_t)set->start + (int64_t)i * set->stride);
        process_of[i] = team->process_of[endpoint];
        me = process_of[i] == team->mine ? i : me;
    }
    hd_span_t *span = process_of ? hd_span_create(set->n, process_of, me) : NULL;
    if (!process_of) {
        hd_error("no memory for the list of processes of %u endpoints", set->n);
    }
    hd_free(process_of);
    if (span) {
        /* the fifth list, behind `first`: each process's number in the team */
        span->team_process = span->first + span->processes + 1;
        span->set = *set;
        span->set.local = hd_span_count(span, span->mine);
        uint64_t hash = hd_hash_mix(hd_hash_mix(0x5e7u, set->start), (uint64_t)set->stride);
        span->set_hash = hd_hash_mix(hash, set->n) | 1;
    }
    return span;
}
