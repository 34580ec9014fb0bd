/* cycle.c: one thread drives all endpoints of a team through one kind of collective, for callgrind
 * to count the instructions of each phase (run.sh), and for lackey the cache lines (lines.sh).
 *
 * usage: cycle ITERATIONS [COLLECTIVE [ENDPOINTS]]
 *
 * COLLECTIVE is barrier, bcast, allreduce, scatter, alltoall, alltoallv, allgatherv,
 * reduce_scatterv (8 bytes per endpoint; the default is allreduce), large (an allreduce of 64 KiB)
 * or mixed (allreduce, bcast and reduce in turn, from and to changing roots: no call is like the
 * one before). The phases are functions of their own, never inlined, so that a profile shows them
 * by name:
 *     init, post_to_done, finalize   at all endpoints, by UCC's calls; post_to_done is post at
 *                                    each, then progress and test until all are complete
 *     persistent                     post_to_done of requests that are initialised once
 *     last_ucc                       init, post, test, finalize at endpoint 0, after all others
 *                                    have posted: what a collective costs whose peers are there
 *                                    already
 *     last_blocking                  the same by heddle.h's blocking call; mixed and v types, whose
 *                                    calls take wide counts only: by heddle_collective
 *
 * A phase is called between two stores to `mark`, which a trace of memory shows, and whose address
 * is printed: outside of the phases, so that nothing of that is counted.
 */
#include <heddle/heddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PHASE static __attribute__((noinline)) void

enum { WARM_UP = 100, MOST = 64, LARGE = 8192, KINDS = 4 };

typedef struct endpoint {
    heddle_ep_t *handle;
    ucc_team_h team;
    ucc_context_h context;
    double *source, *result;
    uint32_t *counts, *displacements;
    ucc_coll_args_t args;
    ucc_coll_req_h request;
} endpoint_t;

/* In the order in which lines.py names them. */
typedef enum phase {
    PHASE_INIT,
    PHASE_POST_TO_DONE,
    PHASE_FINALIZE,
    PHASE_PERSISTENT,
    PHASE_LAST_UCC,
    PHASE_LAST_BLOCKING,
    N_PHASES
} phase_t;

static volatile int
    mark[2 * N_PHASES]; /* a word for the beginning of each phase, and one for its end */

static uint32_t endpoints = 2;
static uint64_t count = 1;
static bool mixed;

static void require(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "cycle: %s: %s\n", what, ucc_status_string(status));
        exit(1);
    }
}

/* --- phases ----------------------------------------------------------------------------------- */

PHASE phase_init(endpoint_t *endpoint) {
    for (uint32_t i = 0; i < endpoints; i++) {
        endpoint_t *e = &endpoint[i];
        require(ucc_collective_init(&e->args, &e->request, e->team), "init");
    }
}

PHASE phase_post_to_done(endpoint_t *endpoint) {
    for (uint32_t i = 0; i < endpoints; i++) {
        require(ucc_collective_post(endpoint[i].request), "post");
    }
    for (uint32_t i = 0; i < endpoints; i++) {
        while (ucc_collective_test(endpoint[i].request) == UCC_INPROGRESS) {
            ucc_context_progress(endpoint[i].context);
        }
    }
}

PHASE phase_persistent(endpoint_t *endpoint) {
    phase_post_to_done(endpoint);
}

PHASE phase_finalize(endpoint_t *endpoint) {
    for (uint32_t i = 0; i < endpoints; i++) {
        require(ucc_collective_finalize(endpoint[i].request), "finalize");
    }
}

PHASE phase_last_ucc(endpoint_t *e) {
    require(ucc_collective_init(&e->args, &e->request, e->team), "init");
    require(ucc_collective_post(e->request), "post");
    while (ucc_collective_test(e->request) == UCC_INPROGRESS) {
        ucc_context_progress(e->context);
    }
    require(ucc_collective_finalize(e->request), "finalize");
}

PHASE phase_last_blocking(endpoint_t *e) {
    ucc_status_t status = UCC_ERR_NOT_SUPPORTED;
    switch (e->args.coll_type) {
    case UCC_COLL_TYPE_BARRIER:
        status = heddle_barrier(e->handle);
        break;
    case UCC_COLL_TYPE_BCAST:
        status = heddle_bcast(e->handle, e->source, count, UCC_DT_FLOAT64, endpoints - 1);
        break;
    case UCC_COLL_TYPE_SCATTER:
        status =
            heddle_scatter(e->handle, e->source, e->result, count, UCC_DT_FLOAT64, endpoints - 1);
        break;
    case UCC_COLL_TYPE_ALLTOALL:
        status = heddle_alltoall(e->handle, e->source, e->result, count, UCC_DT_FLOAT64);
        break;
    default:
        status =
            heddle_allreduce(e->handle, e->source, e->result, count, UCC_DT_FLOAT64, UCC_OP_SUM);
        break;
    }
    require(status, "blocking call");
}

PHASE phase_last_collective(endpoint_t *e) {
    require(heddle_collective(&e->args, e->team), "blocking call");
}

/* --- what is counted -------------------------------------------------------------------------- */

/* always_inline: no phase is called through a pointer, which would be another way to be called. */
static inline __attribute__((always_inline)) void
measured(phase_t number, void (*phase)(endpoint_t *endpoint), endpoint_t *endpoint) {
    mark[2 * number] = 1;
    phase(endpoint);
    mark[2 * number + 1] = 1;
}

/* Call number i. */
static void next_kind(endpoint_t *endpoint, long i) {
    static const ucc_coll_type_t type[KINDS] = {UCC_COLL_TYPE_ALLREDUCE, UCC_COLL_TYPE_BCAST,
                                                UCC_COLL_TYPE_REDUCE, UCC_COLL_TYPE_REDUCE};
    for (uint32_t e = 0; mixed && e < endpoints; e++) {
        endpoint[e].args.coll_type = type[i % KINDS];
        endpoint[e].args.root = i % KINDS == KINDS - 1 ? 0 : endpoints - 1;
    }
}

static void cycles(endpoint_t *endpoint, long iterations) {
    for (long i = 0; i < iterations; i++) {
        next_kind(endpoint, i);
        measured(PHASE_INIT, phase_init, endpoint);
        measured(PHASE_POST_TO_DONE, phase_post_to_done, endpoint);
        measured(PHASE_FINALIZE, phase_finalize, endpoint);
    }
}

static void persistent_cycles(endpoint_t *endpoint, long iterations) {
    for (uint32_t i = 0; i < endpoints; i++) {
        endpoint[i].args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        endpoint[i].args.flags |= UCC_COLL_ARGS_FLAG_PERSISTENT;
    }
    phase_init(endpoint);
    for (long i = 0; i < iterations; i++) {
        measured(PHASE_PERSISTENT, phase_persistent, endpoint);
    }
    phase_finalize(endpoint);
    for (uint32_t i = 0; i < endpoints; i++) {
        endpoint[i].args.mask &= ~(uint64_t)UCC_COLL_ARGS_FIELD_FLAGS;
        endpoint[i].args.flags = 0;
    }
}

/* All but endpoint 0 post, it runs `last`, the others end. */
static void last_cycles(endpoint_t *endpoint, long iterations, phase_t number,
                        void (*last)(endpoint_t *)) {
    for (long n = 0; n < iterations; n++) {
        next_kind(endpoint, n);
        for (uint32_t i = 1; i < endpoints; i++) {
            endpoint_t *e = &endpoint[i];
            require(ucc_collective_init(&e->args, &e->request, e->team), "init");
            require(ucc_collective_post(e->request), "post");
        }
        measured(number, last, &endpoint[0]);
        for (uint32_t i = 1; i < endpoints; i++) {
            while (ucc_collective_test(endpoint[i].request) == UCC_INPROGRESS) {
                ucc_context_progress(endpoint[i].context);
            }
            require(ucc_collective_finalize(endpoint[i].request), "finalize");
        }
    }
}

/* --- the team --------------------------------------------------------------------------------- */

static bool is_vector(const char *collective) {
    return collective[strlen(collective) - 1] == 'v';
}

/* Blocks that lie as in an alltoall, described by counts where the type has them. */
static void take_vectors(endpoint_t *e, const char *collective) {
    for (uint32_t j = 0; j < endpoints; j++) {
        e->counts[j] = (uint32_t)count;
        e->displacements[j] = (uint32_t)(j * count);
    }
    ucc_coll_buffer_info_v_t info = {.counts = (ucc_count_t *)e->counts,
                                     .displacements = (ucc_aint_t *)e->displacements,
                                     .datatype = UCC_DT_FLOAT64,
                                     .mem_type = UCC_MEMORY_TYPE_HOST};
    e->args.dst.info_v = info;
    e->args.dst.info_v.buffer = e->result;
    if (strcmp(collective, "allgatherv") == 0) {
        e->args.coll_type = UCC_COLL_TYPE_ALLGATHERV;
        e->args.src.info.count = count;
    } else if (strcmp(collective, "reduce_scatterv") == 0) {
        e->args.coll_type = UCC_COLL_TYPE_REDUCE_SCATTERV;
    } else {
        e->args.coll_type = UCC_COLL_TYPE_ALLTOALLV;
        e->args.src.info_v = info;
        e->args.src.info_v.buffer = e->source;
    }
}

static void prepare(endpoint_t *e, uint32_t i, const char *collective) {
    bool exchanges = strncmp(collective, "alltoall", strlen("alltoall")) == 0;
    bool scatters = exchanges || is_vector(collective) || strcmp(collective, "scatter") == 0;
    size_t bytes = count * endpoints * sizeof(double);
    /* on lines: where malloc happens to put them must not count */
    bytes = (bytes + 63) / 64 * 64;
    e->source = aligned_alloc(64, bytes);
    e->result = aligned_alloc(64, bytes);
    e->counts = malloc(endpoints * sizeof(*e->counts));
    e->displacements = malloc(endpoints * sizeof(*e->displacements));
    require(e->source && e->result && e->counts && e->displacements ? UCC_OK : UCC_ERR_NO_MEMORY,
            "buffers");
    for (uint64_t j = 0; j < count * endpoints; j++) {
        e->source[j] = i + 1;
        e->result[j] = 0;
    }
    e->team = heddle_ep_team(e->handle);
    e->context = heddle_ep_context(e->handle);
    e->args = (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_ALLREDUCE, .op = UCC_OP_SUM};
    e->args.root = endpoints - 1;
    e->args.src.info = (ucc_coll_buffer_info_t){e->source, scatters ? count * endpoints : count,
                                                UCC_DT_FLOAT64, UCC_MEMORY_TYPE_HOST};
    e->args.dst.info =
        (ucc_coll_buffer_info_t){e->result, count, UCC_DT_FLOAT64, UCC_MEMORY_TYPE_HOST};
    if (is_vector(collective)) {
        take_vectors(e, collective);
    } else if (exchanges) {
        e->args.coll_type = UCC_COLL_TYPE_ALLTOALL;
        e->args.dst.info.count = count * endpoints;
    } else if (scatters) {
        e->args.coll_type = UCC_COLL_TYPE_SCATTER;
    } else if (strcmp(collective, "barrier") == 0) {
        e->args.coll_type = UCC_COLL_TYPE_BARRIER;
    } else if (strcmp(collective, "bcast") == 0) {
        e->args.coll_type = UCC_COLL_TYPE_BCAST;
    }
}

/* What endpoint 0 must have in the end: the root's number n, or the sum of all numbers. */
static bool is_right(const endpoint_t *e) {
    double n = endpoints;
    if (mixed) { /* the bcasts have changed what is summed */
        return e->source[0] == n && e->result[0] == n * n;
    }
    switch (e->args.coll_type) {
    case UCC_COLL_TYPE_BARRIER:
        return true;
    case UCC_COLL_TYPE_BCAST:
        return e->source[0] == n;
    case UCC_COLL_TYPE_SCATTER:
        return e->result[0] == n;
    case UCC_COLL_TYPE_ALLGATHERV:
    case UCC_COLL_TYPE_ALLTOALL:
    case UCC_COLL_TYPE_ALLTOALLV:
        return e->result[0] == 1 && e->result[(endpoints - 1) * count] == n;
    default:
        return e->result[count - 1] == n * (n + 1) / 2;
    }
}

/* contexts: one for all endpoints, or 0: each has its own. */
static heddle_group_t *open_team(endpoint_t *endpoint, uint32_t contexts, const char *collective) {
    heddle_group_params_t params = {.endpoints = endpoints, .contexts = contexts};
    heddle_group_t *group;
    require(heddle_group_create(&params, &group), "heddle_group_create");
    for (uint32_t i = 0; i < endpoints; i++) {
        require(heddle_join(group, i, &endpoint[i].handle), "heddle_join");
        prepare(&endpoint[i], i, collective);
    }
    return group;
}

static bool close_team(endpoint_t *endpoint, heddle_group_t *group) {
    bool right = is_right(&endpoint[0]);
    for (uint32_t i = 0; i < endpoints; i++) {
        require(heddle_leave(endpoint[i].handle), "heddle_leave");
        free(endpoint[i].source);
        free(endpoint[i].result);
        free(endpoint[i].counts);
        free(endpoint[i].displacements);
    }
    require(heddle_group_destroy(group), "heddle_group_destroy");
    return right;
}

int main(int argc, char **argv) {
    long iterations = argc > 1 ? atol(argv[1]) : 1000;
    const char *collective = argc > 2 ? argv[2] : "allreduce";
    endpoints = argc > 3 ? (uint32_t)atoi(argv[3]) : 2;
    if (endpoints < 1 || endpoints > MOST) {
        fprintf(stderr, "cycle: 1 to %d endpoints\n", MOST);
        return 2;
    }
    count = strcmp(collective, "large") == 0 ? LARGE : 1;
    mixed = strcmp(collective, "mixed") == 0;
    endpoint_t endpoint[MOST];
    printf("mark %p caller %p %p\n", (void *)(uintptr_t)mark, (void *)endpoint,
           (void *)(endpoint + MOST));
    fflush(stdout);
    heddle_group_t *group = open_team(endpoint, 1, collective);
    cycles(endpoint, WARM_UP + iterations);
    persistent_cycles(endpoint, WARM_UP + iterations);
    bool right = close_team(endpoint, group);
    /* a blocking call takes the short way only where nothing else is outstanding in its context */
    group = open_team(endpoint, 0, collective);
    last_cycles(endpoint, WARM_UP + iterations, PHASE_LAST_UCC, phase_last_ucc);
    last_cycles(endpoint, WARM_UP + iterations, PHASE_LAST_BLOCKING,
                mixed || is_vector(collective) ? phase_last_collective : phase_last_blocking);
    right = close_team(endpoint, group) && right;
    if (!right) {
        fprintf(stderr, "cycle: wrong result\n");
    }
    return right ? 0 : 1;
}
