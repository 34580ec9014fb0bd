/* tsan_client.c: a correct program, in which everything that threads share is separated by
 * collectives.
 *
 * Built with ThreadSanitizer by test_contract_sanitizer.c, and run on the library as it is shipped.
 * With an argument, it is not correct: the barrier is left out, and the sanitizer must say so.
 */
#include <heddle/heddle.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { N = 3, ROUNDS = 50, LARGE = 40000 };

static long shared[N];
static double large[N][LARGE];
static bool racy;
static int wrong; /* written by endpoint 0 alone */

static void check(heddle_ep_t *ep, bool good) {
    if (!good && heddle_ep_index(ep) == 0) {
        wrong++;
    }
}

/* Everybody reads what everybody has written. */
static void neighbours(heddle_ep_t *ep, uint32_t me) {
    for (long i = 0; i < ROUNDS; i++) {
        shared[me] = i;
        if (!racy) {
            heddle_barrier(ep);
        }
        long sum = 0;
        for (int j = 0; j < N; j++) {
            sum += shared[j];
        }
        check(ep, racy || sum == N * i);
        heddle_barrier(ep);
    }
}

/* Small and large data, whose results are read, and whose sources are written again at once. */
static void data(heddle_ep_t *ep, uint32_t me) {
    static const uint64_t counts[] = {1, 100, 1000, LARGE};
    for (int i = 0; i < 12; i++) {
        uint64_t count = counts[i % 4];
        for (uint64_t j = 0; j < count; j++) {
            large[me][j] = me + i;
        }
        heddle_bcast(ep, large[me], count, UCC_DT_FLOAT64, (uint32_t)i % N);
        check(ep, large[me][count - 1] == i % N + i);
        heddle_allreduce(ep, HEDDLE_IN_PLACE, large[me], count, UCC_DT_FLOAT64, UCC_OP_SUM);
        check(ep, large[me][0] == N * (i % N + i));
    }
}

static ucc_status_t add(const ucc_reduce_cb_params_t *params) {
    for (size_t i = 0; i < params->count; i++) {
        ((long *)params->dst)[i] = ((long *)params->src1)[i] + ((long *)params->src2)[i];
    }
    return UCC_OK;
}

static ucc_datatype_t user_type;

/* A user's reduction runs on any thread, on any endpoint's data. */
static void callbacks(heddle_ep_t *ep, uint32_t me) {
    static long values[N][1000];
    for (int i = 0; i < 10; i++) {
        for (int j = 0; j < 1000; j++) {
            values[me][j] = me;
        }
        heddle_allreduce(ep, HEDDLE_IN_PLACE, values[me], 1000, user_type, UCC_OP_SUM);
        check(ep, values[me][999] == N * (N - 1) / 2);
    }
}

/* UCC's calls, and requests that are tested by the client's own inline load. */
static void nonblocking(heddle_ep_t *ep, uint32_t me) {
    for (long i = 0; i < ROUNDS; i++) {
        ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
        ucc_coll_req_h request;
        shared[me] = i;
        ucc_collective_init_and_post(&args, &request, heddle_ep_team(ep));
        while (ucc_collective_test(request) == UCC_INPROGRESS) {
            ucc_context_progress(heddle_ep_context(ep));
        }
        ucc_collective_finalize(request);
        check(ep, shared[(me + 1) % N] == i);
        heddle_barrier(ep);
    }
}

/* --- waits for what another thread has completed ---------------------------------------------- */

/* Two endpoints on one context, and a third thread that progresses it. */
static struct {
    heddle_ep_t *ep[2];
    ucc_context_h context;
    atomic_bool stop;
} trio;

static void *helper(void *arg) {
    while (!atomic_load(&trio.stop)) {
        ucc_context_progress(trio.context);
    }
    return arg;
}

static ucc_status_t wait_somehow(ucc_coll_req_h *request, long way) {
    size_t index;
    ucc_status_t status = UCC_INPROGRESS;
    switch (way % 3) {
    case 0:
        return heddle_wait_all(request, 1, 30);
    case 1:
        return heddle_wait_any(request, 1, &index, 30);
    default:
        while (status == UCC_INPROGRESS) {
            status = heddle_test(*request);
        }
        return status;
    }
}

static void *waiter(void *arg) {
    heddle_ep_t *ep = arg;
    uint32_t me = heddle_ep_index(ep);
    for (long i = 0; i < 20L * ROUNDS; i++) {
        ucc_coll_req_h request;
        shared[me] = i;
        bool good = heddle_ibarrier(ep, &request) == UCC_OK && wait_somehow(&request, i) == UCC_OK;
        check(ep, good && shared[1 - me] == i);
        heddle_request_free(&request);
        heddle_barrier(ep);
    }
    return NULL;
}

static void waits(void) {
    heddle_group_params_t params = {
        .endpoints = 2, .contexts = 1, .thread_mode = UCC_THREAD_MULTIPLE};
    heddle_group_t *group;
    pthread_t thread[3];
    heddle_group_create(&params, &group);
    for (uint32_t i = 0; i < 2; i++) {
        heddle_join(group, i, &trio.ep[i]);
    }
    trio.context = heddle_ep_context(trio.ep[0]);
    pthread_create(&thread[2], NULL, helper, NULL);
    for (int i = 0; i < 2; i++) {
        pthread_create(&thread[i], NULL, waiter, trio.ep[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
    }
    atomic_store(&trio.stop, true);
    pthread_join(thread[2], NULL);
    heddle_leave(trio.ep[0]);
    heddle_leave(trio.ep[1]);
    heddle_group_destroy(group);
}

static void work(heddle_ep_t *ep, void *arg) {
    uint32_t me = heddle_ep_index(ep);
    (void)arg;
    neighbours(ep, me);
    data(ep, me);
    callbacks(ep, me);
    nonblocking(ep, me);
}

int main(int argc, char **argv) {
    (void)argv;
    racy = argc > 1;
    ucc_generic_dt_ops_t ops = {.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
                                .flags =
                                    UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
                                .contig_size = sizeof(long),
                                .reduce.cb = add};
    if (ucc_dt_create_generic(&ops, NULL, &user_type) != UCC_OK) {
        return 3;
    }
    ucc_status_t status = heddle_run(N, work, NULL);
    ucc_dt_destroy(user_type);
    if (!racy) {
        waits();
    }
    return status != UCC_OK || wrong ? 2 : 0;
}
