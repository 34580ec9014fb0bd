/* teams.c: sub-teams, nonblocking collectives and waiting for several requests, by a thread per
 * endpoint; with contexts of their own, shared ones with locks, and a progress thread. Every result
 * is verified.
 */
#include "stress.h"

#include "../support/deadline.h"
#include "../support/random.h"

#include <heddle/heddle.h>

enum { ENDPOINTS = 6, AHEAD = 12, MAX_COUNT = 3000 };

typedef struct run {
    heddle_group_params_t params;
    uint64_t seed;
    uint32_t rounds;
    _Atomic uint64_t wrong;
    heddle_group_t *group;
} run_t;

static int64_t at(uint32_t endpoint, uint32_t k) {
    return 1000 * (int64_t)endpoint + k;
}

/* Several prefixes at a time; requests are freed in the order in which they end. */
static uint64_t run_ahead(heddle_ep_t *ep, uint64_t count) {
    uint32_t me = heddle_ep_index(ep);
    int64_t *src = must_alloc(AHEAD * count, sizeof(*src));
    int64_t *dst = must_alloc(AHEAD * count, sizeof(*dst));
    ucc_coll_req_h request[AHEAD];
    uint64_t wrong = 0;
    for (uint32_t k = 0; k < AHEAD; k++) {
        for (uint64_t i = 0; i < count; i++) {
            src[k * count + i] = at(me, k);
        }
        int64_t *from = src + k * count, *to = dst + k * count;
        must(k % 2 ? heddle_iscan(ep, from, to, count, UCC_DT_INT64, UCC_OP_SUM, &request[k])
                   : heddle_iallreduce(ep, from, to, count, UCC_DT_INT64, UCC_OP_SUM, &request[k]),
             "start");
    }
    for (uint32_t ended = 0; ended < AHEAD; ended++) {
        size_t k;
        must(heddle_wait_any(request, AHEAD, &k, 120), "heddle_wait_any");
        must(heddle_request_free(&request[k]), "heddle_request_free");
        int64_t n = k % 2 ? me + 1 : heddle_ep_size(ep), want = 500 * n * (n - 1) + n * (int64_t)k;
        for (uint64_t i = 0; i < count; i++) {
            wrong += dst[k * count + i] != want;
        }
    }
    free(src);
    free(dst);
    return wrong;
}

static void *work(void *arg) {
    run_t *run = ((void **)arg)[0];
    uint32_t me = (uint32_t)(uintptr_t)((void **)arg)[1];
    heddle_ep_t *ep;
    must(heddle_join(run->group, me, &ep), "heddle_join");
    for (uint32_t round = 0; round < run->rounds; round++) {
        uint64_t random = run->seed + round; /* the same at all */
        uint64_t counts[] = {1, 20, 300, MAX_COUNT}, count = counts[random_below(&random, 4)];
        uint32_t colors = 1 + (uint32_t)random_below(&random, 3);
        int64_t color = (int64_t)(me % (colors + 1)) - 1;
        heddle_ep_t *sub;
        must(heddle_split(ep, color, -(int64_t)me, &sub), "heddle_split");
        uint64_t wrong = run_ahead(ep, count) + ((sub != NULL) != (color >= 0));
        if (sub) {
            wrong += run_ahead(sub, count);
            must(heddle_leave(sub), "heddle_leave");
        }
        atomic_fetch_add_explicit(&run->wrong, wrong, memory_order_relaxed); /* a sum */
    }
    must(heddle_leave(ep), "heddle_leave");
    return NULL;
}

static uint64_t run_once(heddle_group_params_t params, uint32_t rounds) {
    run_t run = {.params = params, .seed = 17, .rounds = rounds};
    void *args[ENDPOINTS][2];
    pthread_t thread[ENDPOINTS];
    must(heddle_group_create(&run.params, &run.group), "heddle_group_create");
    for (uint32_t i = 0; i < ENDPOINTS; i++) {
        args[i][0] = &run;
        args[i][1] = (void *)(uintptr_t)i;
        must(pthread_create(&thread[i], NULL, work, args[i]) ? UCC_ERR_NO_RESOURCE : UCC_OK,
             "pthread_create");
    }
    for (uint32_t i = 0; i < ENDPOINTS; i++) {
        pthread_join(thread[i], NULL);
    }
    must(heddle_group_destroy(run.group), "heddle_group_destroy");
    return run.wrong;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        heddle_group_params_t params;
        uint32_t seed;
    } part[] = {
        {"contexts of their own", {.endpoints = ENDPOINTS}, 0},
        {"with locks", {.endpoints = ENDPOINTS, .thread_mode = UCC_THREAD_MULTIPLE}, 0},
        {"two contexts with locks, delays",
         {.endpoints = ENDPOINTS, .contexts = 2, .thread_mode = UCC_THREAD_MULTIPLE},
         91},
        {"a progress thread", {.endpoints = ENDPOINTS, .progress_thread = 1}, 0},
        {"a progress thread, one context, delays",
         {.endpoints = ENDPOINTS, .contexts = 1, .progress_thread = 1},
         92},
    };
    stress_begin(argc, argv);
    for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
        double start = test_now();
        stress_phase(part[i].name, 100);
        stress_delays(part[i].seed);
        uint64_t wrong = run_once(part[i].params, (uint32_t)stress_scaled(40));
        if (wrong) {
            stress_error("%llu wrong elements with %s", (unsigned long long)wrong, part[i].name);
        }
        printf("%-40s %6.2f s\n", part[i].name, test_now() - start);
        fflush(stdout);
    }
    return stress_end();
}
