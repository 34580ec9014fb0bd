/* ranks.c: see ranks.h. */
#include "ranks.h"

#include "device_cases.h"
#include "emucuda/calls.h"
#include "support/deadline.h"
#include "support/driver.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = RANKS_COUNT * 4 };

world_t *ranks_world;
rank_t rank[RANKS_MOST];
static int devices;

static void must_cu(CUresult result, const char *call) {
    must(result == CUDA_SUCCESS ? UCC_OK : UCC_ERR_NO_MESSAGE, call);
}

static int device_of(uint32_t i) {
    return (int)i % devices;
}

static void make_teams(uint32_t n) {
    ranks_world =
        world_create(&(world_params_t){.size = n, .form = WORLD_OOB, .shared_context = true});
}

static void make_engine(uint32_t i) {
    ucc_ee_params_t params = {.ee_type = UCC_EE_CUDA_STREAM,
                              .ee_context = rank[i].stream,
                              .ee_context_size = sizeof(void *)};
    must(ucc_ee_create(ranks_world->teams[i], &params, &rank[i].ee), "ucc_ee_create");
}

void ranks_renew_engines(void) {
    for (uint32_t i = 0; i < ranks_world->size; i++) {
        make_engine(i);
    }
}

void ranks_renew(void) {
    uint32_t n = ranks_world->size;
    world_destroy(ranks_world);
    for (uint32_t i = 0; i < n; i++) {
        must(ucc_ee_destroy(rank[i].ee), "ucc_ee_destroy");
    }
    make_teams(n);
    ranks_renew_engines();
}

void ranks_form(uint32_t n, int n_devices) {
    case_memory = NULL;
    devices = n_devices;
    make_teams(n);
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = (size_t)RANKS_MOST * BYTES;
        rank[i].stream = device_stream(device_of(i));
        rank[i].src = device_take(device_of(i), bytes);
        rank[i].dst = device_take(device_of(i), bytes);
        rank[i].kept = device_take(device_of(i), bytes);
        make_engine(i);
    }
}

void ranks_open(const char *config, uint32_t n, int n_devices) {
    device_cases_begin(config, DEVICE_CASES_PLAIN);
    ranks_form(n, n_devices);
}

void ranks_part(void) {
    uint32_t n = ranks_world->size;
    world_destroy(ranks_world); /* teams first */
    for (uint32_t i = 0; i < n; i++) {
        must(ucc_ee_destroy(rank[i].ee), "ucc_ee_destroy");
        device_stream_end(rank[i].stream);
        device_put(rank[i].src);
        device_put(rank[i].dst);
        device_put(rank[i].kept);
    }
}

void ranks_close(void) {
    ranks_part();
    device_cases_end();
}

/* --- what streams do beside ------------------------------------------------------------------- */

static CUdeviceptr at(const void *pointer) {
    return (CUdeviceptr)(uintptr_t)pointer;
}

void rank_fill(uint32_t i, void *memory, int32_t value, size_t count) {
    device_enter(device_of(i));
    must_cu(cuMemsetD32Async(at(memory), (unsigned)value, count, rank[i].stream), "cuMemset");
    device_leave();
}

void rank_keep(uint32_t i, const int32_t *from, size_t offset, size_t count) {
    device_enter(device_of(i));
    must_cu(cuMemcpyDtoDAsync_v2(at(rank[i].kept + offset), at(from), count * 4, rank[i].stream),
            "cuMemcpy");
    device_leave();
}

void rank_await(uint32_t i) {
    device_enter(device_of(i));
    must_cu(cuStreamSynchronize(rank[i].stream), "cuStreamSynchronize");
    device_leave();
}

void rank_check(uint32_t i, size_t offset, size_t count, int32_t value) {
    int32_t *seen = must_alloc(count, sizeof(*seen));
    device_from(seen, rank[i].kept + offset, count * sizeof(*seen));
    for (size_t k = 0; k < count; k++) {
        if (seen[k] != value) {
            fprintf(stderr, "FATAL: endpoint %u, element %zu: %d, not %d\n", i, offset + k, seen[k],
                    value);
            abort();
        }
    }
    free(seen);
}

/* --- a rank ----------------------------------------------------------------------------------- */

static _Atomic bool over;

/* What a process group's own thread does. */
static void *progress(void *arg) {
    ucc_context_h context = world_context(ranks_world, (uint32_t)(uintptr_t)arg);
    static const int token;
    while (!atomic_load(&over)) {
        ucc_context_progress(context);
        sched_yield();
    }
    heddle_emucuda_host_release(&token);
    return NULL;
}

ucc_coll_req_h rank_trigger(uint32_t i, ucc_coll_args_t *args) {
    ucc_coll_req_h request;
    ucc_ev_t compute = {.ev_type = UCC_EVENT_COMPUTE_COMPLETE}, *posted;
    args->mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    args->flags |= UCC_COLL_ARGS_FLAG_TIMEOUT;
    args->timeout = 60;
    must(ucc_collective_init(args, &request, ranks_world->teams[i]), "ucc_collective_init");
    compute.req = request;
    must(ucc_collective_triggered_post(rank[i].ee, &compute), "ucc_collective_triggered_post");
    must(ucc_ee_get_event(rank[i].ee, &posted), "ucc_ee_get_event");
    must(posted->ev_type == UCC_EVENT_COLLECTIVE_POST ? UCC_OK : UCC_ERR_LAST, "its type");
    must(posted->req == request ? UCC_OK : UCC_ERR_LAST, "its request");
    must(ucc_ee_ack_event(rank[i].ee, posted), "ucc_ee_ack_event");
    must(ucc_ee_get_event(rank[i].ee, &posted) == UCC_ERR_NOT_FOUND ? UCC_OK : UCC_ERR_LAST,
         "no other event");
    return request;
}

static void await_status(ucc_coll_req_h request) {
    deadline_t deadline = deadline_start("a triggered collective");
    /* acquire: what came before completion */
    while (__atomic_load_n(&request->status, __ATOMIC_ACQUIRE) == UCC_INPROGRESS) {
        sched_yield();
        deadline_poll(&deadline);
    }
    must(__atomic_load_n(&request->status, __ATOMIC_ACQUIRE), "its status");
    must(ucc_collective_finalize(request), "ucc_collective_finalize");
}

ucc_coll_buffer_info_t rank_info(void *buffer, uint64_t count) {
    return (ucc_coll_buffer_info_t){buffer, count, UCC_DT_INT32, UCC_MEMORY_TYPE_CUDA};
}

ucc_coll_req_h rank_allreduce(uint32_t i) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLREDUCE, .op = UCC_OP_SUM};
    args.src.info = rank_info(rank[i].src, RANKS_COUNT);
    args.dst.info = rank_info(rank[i].dst, RANKS_COUNT);
    return rank_trigger(i, &args);
}

/* Blocks wherever they lie: no buffer, and their addresses, in elements. */
static ucc_coll_req_h trigger_alltoallv(uint32_t i) {
    static _Thread_local uint64_t counts[RANKS_MOST], from[RANKS_MOST], to[RANKS_MOST];
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = UCC_COLL_ARGS_FLAG_COUNT_64BIT |
                                     UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT,
                            .coll_type = UCC_COLL_TYPE_ALLTOALLV};
    for (uint32_t k = 0; k < ranks_world->size; k++) {
        counts[k] = RANKS_COUNT;
        from[k] = (uintptr_t)rank[i].src / sizeof(int32_t);
        to[k] = (uintptr_t)(rank[i].dst + (size_t)k * RANKS_COUNT) / sizeof(int32_t);
    }
    args.src.info_v =
        (ucc_coll_buffer_info_v_t){NULL, counts, from, UCC_DT_INT32, UCC_MEMORY_TYPE_CUDA};
    args.dst.info_v =
        (ucc_coll_buffer_info_v_t){NULL, counts, to, UCC_DT_INT32, UCC_MEMORY_TYPE_CUDA};
    return rank_trigger(i, &args);
}

static ucc_coll_req_h trigger_send(uint32_t i, uint32_t from, uint32_t to, void *buffer) {
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_TAG | UCC_COLL_ARGS_FIELD_ACTIVE_SET,
                            .coll_type = UCC_COLL_TYPE_BCAST,
                            .root = from,
                            .tag = (uint16_t)(10 + from)};
    args.active_set.start = from;
    args.active_set.size = 2;
    args.active_set.stride = (int64_t)to - (int64_t)from;
    args.src.info = rank_info(buffer, RANKS_COUNT);
    return rank_trigger(i, &args);
}

static void be_rank(void *arg, uint32_t i) {
    (void)arg;
    uint32_t n = ranks_world->size;
    ucc_coll_args_t barrier = {.coll_type = UCC_COLL_TYPE_BARRIER};
    ucc_coll_req_h request[4];
    rank_fill(i, rank[i].src, (int32_t)i + 1, RANKS_COUNT);
    request[0] = rank_allreduce(i);
    rank_keep(i, rank[i].dst, 0, RANKS_COUNT);
    rank_fill(i, rank[i].src, (int32_t)i + 100, RANKS_COUNT);
    rank_fill(i, rank[i].dst, -1, RANKS_MOST * RANKS_COUNT);
    request[1] = trigger_alltoallv(i);
    rank_keep(i, rank[i].dst, RANKS_COUNT, (size_t)n * RANKS_COUNT);
    request[2] = rank_trigger(i, &barrier);
    rank_fill(i, rank[i].src, (int32_t)i + 200, RANKS_COUNT);
    request[3] = NULL;
    if (i < 2) {
        request[3] = trigger_send(i, 0, 1, rank[i].src);
        rank_keep(i, rank[i].src, (size_t)(n + 1) * RANKS_COUNT, RANKS_COUNT);
    }
    rank_fill(i, rank[i].src, 0, RANKS_COUNT);
    for (int k = 0; k < 4; k++) {
        if (request[k]) {
            await_status(request[k]);
        }
    }
    rank_await(i);
}

void ranks_run(const char *config, uint32_t n, int n_devices) {
    pthread_t progressor[RANKS_MOST];
    ranks_open(config, n, n_devices);
    atomic_store(&over, false);
    for (uint32_t i = 0; i < n; i++) {
        pthread_create(&progressor[i], NULL, progress, (void *)(uintptr_t)i);
    }
    driver_threads(n, be_rank, NULL);
    atomic_store(&over, true);
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(progressor[i], NULL);
    }
    for (uint32_t i = 0; i < n; i++) {
        rank_check(i, 0, RANKS_COUNT, (int32_t)(n * (n + 1) / 2));
        for (uint32_t k = 0; k < n; k++) {
            rank_check(i, (size_t)(1 + k) * RANKS_COUNT, RANKS_COUNT, (int32_t)k + 100);
        }
        if (i < 2) {
            rank_check(i, (size_t)(n + 1) * RANKS_COUNT, RANKS_COUNT, 200);
        }
    }
    ranks_close();
    heddle_emucuda_reset();
}
