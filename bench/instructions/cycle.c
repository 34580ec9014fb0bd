/* cycle.c: one thread drives both endpoints of a team through 8-byte allreduces, for callgrind to count
 * the instructions of each phase. See run.sh.
 *
 * usage: cycle [ITERATIONS]
 *
 * The phases are functions of their own, never inlined, so that a profile shows them by name: init,
 * post_to_done (post at both endpoints, progress, test, until both are complete) and finalize; persistent
 * does the same with requests that are initialised once.
 */
#include <heddle/heddle.h>
#include <stdio.h>
#include <stdlib.h>

#define PHASE static __attribute__((noinline)) void

enum { ENDPOINTS = 2, WARM_UP = 100 };

typedef struct endpoint {
    heddle_ep_t *handle;
    ucc_team_h team;
    ucc_context_h context;
    double source, result;
    ucc_coll_args_t args;
    ucc_coll_req_h request;
} endpoint_t;

static void require(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "cycle: %s: %s\n", what, ucc_status_string(status));
        exit(1);
    }
}

PHASE phase_init(endpoint_t *endpoint) {
    for (int i = 0; i < ENDPOINTS; i++) {
        endpoint_t *e = &endpoint[i];
        require(ucc_collective_init(&e->args, &e->request, e->team), "init");
    }
}

PHASE phase_post_to_done(endpoint_t *endpoint) {
    for (int i = 0; i < ENDPOINTS; i++) {
        require(ucc_collective_post(endpoint[i].request), "post");
    }
    for (int i = 0; i < ENDPOINTS; i++) {
        while (ucc_collective_test(endpoint[i].request) == UCC_INPROGRESS) {
            ucc_context_progress(endpoint[i].context);
        }
    }
}

PHASE phase_persistent(endpoint_t *endpoint) {
    phase_post_to_done(endpoint);
}

PHASE phase_finalize(endpoint_t *endpoint) {
    for (int i = 0; i < ENDPOINTS; i++) {
        require(ucc_collective_finalize(endpoint[i].request), "finalize");
    }
}

static void cycles(endpoint_t *endpoint, long iterations) {
    for (long i = 0; i < iterations; i++) {
        phase_init(endpoint);
        phase_post_to_done(endpoint);
        phase_finalize(endpoint);
    }
}

static void persistent_cycles(endpoint_t *endpoint, long iterations) {
    phase_init(endpoint);
    for (long i = 0; i < iterations; i++) {
        phase_persistent(endpoint);
    }
    phase_finalize(endpoint);
}

int main(int argc, char **argv) {
    long iterations = argc > 1 ? atol(argv[1]) : 1000;
    heddle_group_params_t params = {.endpoints = ENDPOINTS, .contexts = 1};
    heddle_group_t *group;
    endpoint_t endpoint[ENDPOINTS];
    require(heddle_group_create(&params, &group), "heddle_group_create");
    for (uint32_t i = 0; i < ENDPOINTS; i++) {
        endpoint_t *e = &endpoint[i];
        require(heddle_join(group, i, &e->handle), "heddle_join");
        e->team = heddle_ep_team(e->handle);
        e->context = heddle_ep_context(e->handle);
        e->source = i + 1;
        e->args = (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_ALLREDUCE, .op = UCC_OP_SUM};
        e->args.src.info =
            (ucc_coll_buffer_info_t){&e->source, 1, UCC_DT_FLOAT64, UCC_MEMORY_TYPE_HOST};
        e->args.dst.info =
            (ucc_coll_buffer_info_t){&e->result, 1, UCC_DT_FLOAT64, UCC_MEMORY_TYPE_HOST};
    }
    cycles(endpoint, WARM_UP + iterations);
    for (int i = 0; i < ENDPOINTS; i++) {
        endpoint[i].args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
        endpoint[i].args.flags |= UCC_COLL_ARGS_FLAG_PERSISTENT;
    }
    persistent_cycles(endpoint, WARM_UP + iterations);
    int wrong = 0;
    for (int i = 0; i < ENDPOINTS; i++) {
        wrong += endpoint[i].result != 3.0;
        require(heddle_leave(endpoint[i].handle), "heddle_leave");
    }
    require(heddle_group_destroy(group), "heddle_group_destroy");
    if (wrong) {
        fprintf(stderr, "cycle: wrong result\n");
    }
    return wrong != 0;
}
