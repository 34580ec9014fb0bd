/* chains.c: collectives in the order of streams, as programs use them: each endpoint's stream
 * produces, takes part, keeps what came out, and overwrites what went in, many times without
 * anybody waiting; then the host looks at all that was kept. Then the same captured into a graph,
 * which is launched a few times. Random sizes, until so many seconds are over.
 *
 * HEDDLE_TEST_GPU=cuda and LD_PRELOAD=libcuda.so.1: real devices; else emulated ones, which also
 * look at the order.
 *
 * usage: test_gpu_check_chains ENDPOINTS [SECONDS]
 */
#include "emucuda/calls.h"
#include "support/deadline.h"
#include "support/random.h"

#include <heddle/heddle.h>
#include <heddle_emucuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST = 64,
    ROUNDS = 40,
    LAUNCHES = 3,
    MOST_COUNT = 1 << 18,
    NON_BLOCKING = 1,
    NO_TIMING = 2
};

typedef struct endpoint {
    heddle_ep_t *ep;
    CUcontext context;
    CUstream stream;
    CUevent event;
    CUdeviceptr src, dst, kept; /* most_count, most_count, ROUNDS times that */
} endpoint_t;

static endpoint_t endpoints[MOST];
static uint32_t n, rounds, count;
static size_t most_count;
static int devices;

#define CHECK(call) check((call), #call)

static void check(CUresult result, const char *call) {
    const char *name = "?";
    if (result != CUDA_SUCCESS) {
        cuGetErrorName(result, &name);
        fprintf(stderr, "chains: %s: %s\n", call, name);
        abort();
    }
}

/* Odd rounds are broadcasts, of round r's root. */
static bool is_bcast(uint32_t r) {
    return r % 2 == 1;
}

static uint32_t value(uint32_t r, uint32_t i) {
    return 1000 * r + 7 * i + count % 5;
}

static uint32_t expected(uint32_t r) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n && !is_bcast(r); i++) {
        sum += value(r, i);
    }
    return is_bcast(r) ? value(r, r % n) : sum;
}

static void chain(endpoint_t *e, uint32_t i) {
    const size_t bytes = count * sizeof(uint32_t);
    void *src = (void *)(uintptr_t)e->src, *dst = (void *)(uintptr_t)e->dst;
    CHECK(cuCtxSetCurrent(e->context));
    for (uint32_t r = 0; r < rounds; r++) {
        CHECK(cuMemsetD32Async(e->src, value(r, i), count, e->stream));
        if (is_bcast(r)) {
            must(heddle_bcast_on(e->ep, e->stream, src, count, UCC_DT_UINT32, r % n), "bcast");
        } else {
            must(heddle_allreduce_on(e->ep, e->stream, src, dst, count, UCC_DT_UINT32, UCC_OP_SUM),
                 "allreduce");
        }
        CHECK(cuMemcpyDtoDAsync_v2(e->kept + r * most_count * sizeof(uint32_t),
                                   is_bcast(r) ? e->src : e->dst, bytes, e->stream));
        CHECK(cuMemsetD32Async(e->src, 0xdeadbeef, count, e->stream));
        CHECK(cuMemsetD32Async(e->dst, 0xdeadbeef, count, e->stream));
    }
}

static void *chain_main(void *arg) {
    endpoint_t *e = arg;
    chain(e, (uint32_t)(e - endpoints));
    return NULL;
}

static void all_chains(void) {
    pthread_t threads[MOST];
    for (uint32_t i = 0; i < n; i++) {
        if (pthread_create(&threads[i], NULL, chain_main, &endpoints[i]) != 0) {
            abort();
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* Wrong words of what was kept; which is gone then. */
static uint64_t look(void) {
    uint32_t *seen = must_alloc(count, sizeof(*seen));
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < n; i++) {
        endpoint_t *e = &endpoints[i];
        CHECK(cuCtxSetCurrent(e->context));
        CHECK(cuStreamSynchronize(e->stream));
        for (uint32_t r = 0; r < rounds; r++) {
            CUdeviceptr at = e->kept + r * most_count * sizeof(uint32_t);
            CHECK(cuMemcpyDtoH_v2(seen, at, count * sizeof(*seen)));
            for (uint32_t k = 0; k < count; k++) {
                wrong += seen[k] != expected(r);
            }
        }
        CHECK(cuMemsetD8_v2(e->kept, 0x5a, ROUNDS * most_count * sizeof(uint32_t)));
        CHECK(cuStreamSynchronize(NULL));
    }
    free(seen);
    return wrong;
}

/* All streams are parts of the first one's capture: they begin after an event of it, and it ends
 * after events of theirs. */
static CUgraphExec capture(void) {
    endpoint_t *first = &endpoints[0];
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuCtxSetCurrent(first->context));
    CHECK(cuStreamBeginCapture_v2(first->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuEventRecord(first->event, first->stream));
    for (uint32_t i = 1; i < n; i++) {
        CHECK(cuCtxSetCurrent(endpoints[i].context));
        CHECK(cuStreamWaitEvent(endpoints[i].stream, first->event, 0));
    }
    all_chains();
    for (uint32_t i = 1; i < n; i++) {
        CHECK(cuCtxSetCurrent(endpoints[i].context));
        CHECK(cuEventRecord(endpoints[i].event, endpoints[i].stream));
        CHECK(cuCtxSetCurrent(first->context));
        CHECK(cuStreamWaitEvent(first->stream, endpoints[i].event, 0));
    }
    CHECK(cuCtxSetCurrent(first->context));
    CHECK(cuStreamEndCapture(first->stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphDestroy(graph));
    return exec;
}

static uint64_t captured(void) {
    uint64_t wrong = 0;
    CUgraphExec exec = capture();
    for (int i = 0; i < LAUNCHES; i++) {
        CHECK(cuCtxSetCurrent(endpoints[0].context));
        CHECK(cuGraphLaunch(exec, endpoints[0].stream));
        CHECK(cuStreamSynchronize(endpoints[0].stream));
        wrong += look();
    }
    CHECK(cuCtxSetCurrent(endpoints[0].context));
    CHECK(cuGraphExecDestroy(exec));
    return wrong;
}

static void open_endpoint(heddle_group_t *group, uint32_t i) {
    endpoint_t *e = &endpoints[i];
    const size_t bytes = most_count * sizeof(uint32_t);
    must(heddle_join(group, i, &e->ep), "heddle_join");
    CHECK(cuDevicePrimaryCtxRetain(&e->context, (int)i % devices));
    CHECK(cuCtxSetCurrent(e->context));
    CHECK(cuStreamCreate(&e->stream, NON_BLOCKING));
    CHECK(cuEventCreate(&e->event, NO_TIMING));
    CHECK(cuMemAlloc_v2(&e->src, bytes));
    CHECK(cuMemAlloc_v2(&e->dst, bytes));
    CHECK(cuMemAlloc_v2(&e->kept, ROUNDS * bytes));
}

static uint64_t findings(bool real) {
    heddle_emucuda_report_t r = {0};
    if (!real) {
        heddle_emucuda_report(&r, sizeof(r));
    }
    return r.races + r.deadlocks + r.faults;
}

int main(int argc, char **argv) {
    static const uint32_t small[] = {1, 3, 250, 1024};
    const char *mode = getenv("HEDDLE_TEST_GPU");
    bool real = mode && strcmp(mode, "cuda") == 0;
    heddle_group_t *group;
    n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    double end = test_now() + (argc > 2 ? atof(argv[2]) : 10);
    uint64_t wrong = 0, chains = 0, graphs = 0, seed = 1;
    if (n < 1 || n > MOST) {
        fprintf(stderr, "usage: test_gpu_check_chains ENDPOINTS [SECONDS]\n");
        return 2;
    }
    most_count = real ? MOST_COUNT : 1024;
    setenv("HEDDLE_GPU", real ? "cuda" : "emulated:2,seed=5", 1);
    heddle_group_params_t params = {.endpoints = n};
    must(heddle_group_create(&params, &group), "heddle_group_create");
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&devices));
    for (uint32_t i = 0; i < n; i++) {
        open_endpoint(group, i);
    }
    do {
        count = real && random_below(&seed, 2) ? (uint32_t)random_below(&seed, MOST_COUNT) + 1
                                               : small[random_below(&seed, 4)];
        rounds = 1 + (uint32_t)random_below(&seed, ROUNDS);
        all_chains();
        wrong += look();
        chains++;
        rounds = 1 + (uint32_t)random_below(&seed, 4);
        wrong += captured();
        graphs++;
    } while (test_now() < end && wrong == 0);
    for (uint32_t i = 0; i < n; i++) {
        must(heddle_leave(endpoints[i].ep), "heddle_leave");
    }
    must(heddle_group_destroy(group), "heddle_group_destroy");
    uint64_t found = findings(real);
    printf("%u endpoints: %llu chains, %llu graphs, %llu wrong words, %llu findings\n", n,
           (unsigned long long)chains, (unsigned long long)graphs, (unsigned long long)wrong,
           (unsigned long long)found);
    return wrong != 0 || found != 0;
}
