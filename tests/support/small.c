/* small.c: see small.h. */
#include "small.h"
#include "deadline.h"

#include <stdlib.h>
#include <string.h>

enum { IDLE_ROUNDS = 200 };

world_t *small_world(uint32_t n) {
    return world_create(&(world_params_t){.size = n, .form = WORLD_OOB});
}

ucc_coll_args_t small_args(ucc_coll_type_t type) {
    ucc_coll_args_t args;
    memset(&args, 0xA5, sizeof(args));
    args.mask = 0;
    args.coll_type = type;
    args.error_type = UCC_ERR_TYPE_LOCAL;
    return args;
}

ucc_coll_buffer_info_t small_info(void *buffer, uint64_t count) {
    return (ucc_coll_buffer_info_t){.buffer = buffer,
                                    .count = count,
                                    .datatype = UCC_DT_INT32,
                                    .mem_type = UCC_MEMORY_TYPE_HOST};
}

ucc_coll_buffer_info_v_t small_info_v(void *buffer, uint32_t *counts, uint32_t *displacements) {
    return (ucc_coll_buffer_info_v_t){.buffer = buffer,
                                      .counts = (ucc_count_t *)(void *)counts,
                                      .displacements = (ucc_aint_t *)(void *)displacements,
                                      .datatype = UCC_DT_INT32,
                                      .mem_type = UCC_MEMORY_TYPE_HOST};
}

ucc_coll_args_t small_barrier(void) {
    return small_args(UCC_COLL_TYPE_BARRIER);
}

ucc_coll_args_t small_allreduce(int32_t *src, int32_t *dst, uint64_t count) {
    ucc_coll_args_t args = small_args(UCC_COLL_TYPE_ALLREDUCE);
    args.op = UCC_OP_SUM;
    args.src.info = small_info(src, count);
    args.dst.info = small_info(dst, count);
    return args;
}

ucc_coll_args_t small_bcast(int32_t *buffer, uint64_t count, uint64_t root) {
    ucc_coll_args_t args = small_args(UCC_COLL_TYPE_BCAST);
    args.root = root;
    args.src.info = small_info(buffer, count);
    return args;
}

ucc_coll_args_t small_allgather(int32_t *src, int32_t *dst, uint64_t count, uint32_t n) {
    ucc_coll_args_t args = small_args(UCC_COLL_TYPE_ALLGATHER);
    args.src.info = small_info(src, count);
    args.dst.info = small_info(dst, count * n);
    return args;
}

ucc_coll_req_h small_init(world_t *world, uint32_t i, ucc_coll_args_t *args) {
    ucc_coll_req_h request = NULL;
    must(ucc_collective_init(args, &request, world->teams[i]), "ucc_collective_init");
    return request;
}

ucc_coll_req_h small_start(world_t *world, uint32_t i, ucc_coll_args_t *args) {
    ucc_coll_req_h request = small_init(world, i, args);
    must(ucc_collective_post(request), "ucc_collective_post");
    return request;
}

static void progress(ucc_context_h *contexts, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        ucc_context_progress(contexts[i]);
    }
}

static void wait_on(ucc_context_h *contexts, uint32_t n_contexts, ucc_coll_req_h *requests,
                    uint32_t n) {
    deadline_t deadline = deadline_start("a small collective");
    for (uint32_t i = 0; i < n; i++) {
        while (requests[i] != NULL && ucc_collective_test(requests[i]) == UCC_INPROGRESS) {
            progress(contexts, n_contexts);
            deadline_poll(&deadline);
        }
    }
}

static void finalize_all(ucc_coll_req_h *requests, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (requests[i] != NULL) {
            must(ucc_collective_test(requests[i]), "a small collective");
            must(ucc_collective_finalize(requests[i]), "ucc_collective_finalize");
            requests[i] = NULL;
        }
    }
}

void small_wait(world_t *world, ucc_coll_req_h *requests, uint32_t n) {
    wait_on(world->contexts, world->n_contexts, requests, n);
}

void small_finish(world_t *world, ucc_coll_req_h *requests, uint32_t n) {
    small_wait(world, requests, n);
    finalize_all(requests, n);
}

void small_run(world_t *world, ucc_coll_args_t *args, const char *name) {
    driver_collective(world, args, name);
}

void small_idle(world_t *world) {
    for (int round = 0; round < IDLE_ROUNDS; round++) {
        progress(world->contexts, world->n_contexts);
    }
}

/* Runs args[i] on team i; each team's context is among `contexts`, n of each. */
static void run_on(ucc_team_h *teams, ucc_context_h *contexts, uint32_t n, ucc_coll_args_t *args) {
    ucc_coll_req_h *requests = must_alloc(n, sizeof(*requests));
    for (uint32_t i = 0; i < n; i++) {
        must(ucc_collective_init(&args[i], &requests[i], teams[i]), "ucc_collective_init");
        must(ucc_collective_post(requests[i]), "ucc_collective_post");
    }
    wait_on(contexts, n, requests, n);
    finalize_all(requests, n);
    free(requests);
}

bool small_teams_work(ucc_team_h *teams, ucc_context_h *contexts, uint32_t n) {
    ucc_coll_args_t *args = must_alloc(n, sizeof(*args));
    int32_t *values = must_alloc(n, sizeof(*values));
    int32_t *sums = must_alloc(n, sizeof(*sums));
    int32_t sum = 0;
    bool ok = true;
    for (uint32_t i = 0; i < n; i++) {
        values[i] = (int32_t)(i * i + 1);
        sum += values[i];
        args[i] = small_allreduce(&values[i], &sums[i], 1);
    }
    run_on(teams, contexts, n, args);
    for (uint32_t i = 0; i < n; i++) {
        args[i] = small_bcast(&values[i], 1, n - 1);
    }
    run_on(teams, contexts, n, args);
    for (uint32_t i = 0; i < n; i++) {
        ok = ok && sums[i] == sum && values[i] == (int32_t)((n - 1) * (n - 1) + 1);
    }
    free(sums);
    free(values);
    free(args);
    return ok;
}

bool small_team_works(world_t *world) {
    ucc_context_h *contexts = must_alloc(world->size, sizeof(ucc_context_h));
    for (uint32_t i = 0; i < world->size; i++) {
        contexts[i] = world_context(world, i);
    }
    bool ok = small_teams_work(world->teams, contexts, world->size);
    free(contexts);
    return ok;
}
