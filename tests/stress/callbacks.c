/* callbacks.c: threads that share endpoints' contexts run user-defined reductions whose callbacks
 * now and then call the library, or end their thread, while other teams reduce and meet. Whatever
 * was called inside is refused, every operation ends, and those of healthy teams are right.
 */
#include "stress.h"

#include "core/log.h"

#include <heddle/heddle.h>

enum { N = 3, COUNT = 64 };

static _Atomic uint64_t refused, ended, calls, calls_of_mortals;
static _Thread_local heddle_ep_t *own; /* of the calling worker */
static _Thread_local bool may_die;

static void call_inside(void) {
    ucc_status_t progress = ucc_context_progress(heddle_ep_context(own));
    ucc_status_t barrier = heddle_barrier(own);
    refused += progress == UCC_ERR_INVALID_PARAM;
    if (barrier != UCC_ERR_INVALID_PARAM) {
        stress_error("a barrier inside a callback: %s", ucc_status_string(barrier));
    }
}

static ucc_status_t add(const ucc_reduce_cb_params_t *params) {
    uint64_t call = calls++;
    if (call % 7 == 0) {
        call_inside();
    }
    if (may_die && ++calls_of_mortals % 5 == 0) { /* counted by itself: the others come between */
        ended++;
        pthread_exit(NULL);
    }
    for (size_t i = 0; i < params->count; i++) {
        ((int64_t *)params->dst)[i] = ((int64_t *)params->src1)[i] + ((int64_t *)params->src2)[i];
    }
    return UCC_OK;
}

typedef struct worker {
    heddle_ep_t *ep;
    ucc_datatype_t dt;
    uint64_t rounds;
    bool may_die;
} worker_t;

static void *work(void *arg) {
    worker_t *w = arg;
    static const int64_t sum = N * (N + 1) / 2;
    int64_t from[COUNT], to[COUNT];
    own = w->ep;
    may_die = w->may_die;
    for (uint64_t round = 0; round < w->rounds; round++) {
        for (int i = 0; i < COUNT; i++) {
            from[i] = heddle_ep_index(own) + 1;
            to[i] = 0;
        }
        ucc_status_t status = heddle_allreduce(own, from, to, COUNT, w->dt, UCC_OP_SUM);
        if (status == UCC_OK) {
            status = heddle_barrier(own);
        }
        if (w->may_die && status != UCC_OK) {
            stress_expect(status, UCC_ERR_NO_MESSAGE, "a team whose callback did not return");
            break;
        }
        stress_expect(status, UCC_OK, "a healthy team");
        if (to[0] != sum || to[COUNT - 1] != sum) {
            stress_error("wrong sum %lld", (long long)to[0]);
        }
    }
    return NULL;
}

/* One team of N threads; all on one context, or each on its own. */
typedef struct crew {
    heddle_group_t *group;
    worker_t worker[N];
    pthread_t thread[N];
} crew_t;

static void start(crew_t *crew, ucc_datatype_t dt, uint64_t rounds, bool shared, bool mortal) {
    heddle_group_params_t params = {.endpoints = N,
                                    .contexts = shared ? 1 : 0,
                                    .thread_mode =
                                        shared ? UCC_THREAD_MULTIPLE : UCC_THREAD_SINGLE};
    stress_expect(heddle_group_create(&params, &crew->group), UCC_OK, "heddle_group_create");
    for (uint32_t i = 0; i < N; i++) {
        crew->worker[i] = (worker_t){.dt = dt, .rounds = rounds, .may_die = mortal};
        stress_expect(heddle_join(crew->group, i, &crew->worker[i].ep), UCC_OK, "heddle_join");
    }
    for (uint32_t i = 0; i < N; i++) {
        if (pthread_create(&crew->thread[i], NULL, work, &crew->worker[i]) != 0) {
            abort();
        }
    }
}

static void end(crew_t *crew) {
    for (uint32_t i = 0; i < N; i++) {
        pthread_join(crew->thread[i], NULL);
    }
    for (uint32_t i = 0; i < N; i++) { /* what the dead left behind ends, too */
        ucc_context_progress(heddle_ep_context(crew->worker[i].ep));
    }
    for (uint32_t i = 0; i < N; i++) {
        stress_expect(heddle_leave(crew->worker[i].ep), UCC_OK, "heddle_leave");
    }
    stress_expect(heddle_group_destroy(crew->group), UCC_OK, "heddle_group_destroy");
}

static void run(ucc_datatype_t dt, bool mortal) {
    enum { CREWS = 3 };
    crew_t crew[CREWS];
    for (uint64_t round = 0; round < stress_scaled(20); round++) {
        for (int i = 0; i < CREWS; i++) {
            start(&crew[i], dt, 8, (round + (uint64_t)i) % 2, mortal && i == 0);
        }
        for (int i = 0; i < CREWS; i++) {
            end(&crew[i]);
        }
    }
}

int main(int argc, char **argv) {
    ucc_generic_dt_ops_t ops = {
        .mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
        .flags = UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
        .contig_size = sizeof(int64_t),
        .reduce = {.cb = add},
    };
    ucc_datatype_t dt;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 0);
    stress_begin(argc, argv);
    stress_expect(ucc_dt_create_generic(&ops, NULL, &dt), UCC_OK, "ucc_dt_create_generic");
    stress_phase("callbacks that call", 120);
    run(dt, false);
    stress_phase("callbacks that call or end their threads", 120);
    run(dt, true);
    ucc_dt_destroy(dt);
    if (refused == 0 || ended == 0) {
        stress_error("%llu calls refused, %llu threads ended: nothing was tried",
                     (unsigned long long)refused, (unsigned long long)ended);
    }
    return stress_end();
}
