/* outer.c: exchanges that go on outside their group, over a network in plain memory between two
 * groups (support/outer_net.h): a thread per endpoint, one thread for all, with and without random
 * delays, and with aborts and requests that fail while others are under way.
 */
#include "stress.h"

#include "../support/outer_net.h"
#include "../support/random.h"
#include "core/config.h"

enum { MOST = 8, MOST_SMALL = HD_RESULT_MAX / sizeof(double) };

/* --- a thread per endpoint -------------------------------------------------------------------- */

typedef struct worker {
    net_t *net;
    uint32_t side, me, rounds;
    size_t count;
    uint64_t seed;
    bool sleeps, may_fail;
} worker_t;

static double expected(const net_t *net, size_t j) {
    double total = NET_SIDES * net->n;
    return total * ((total - 1) / 2 + (double)j);
}

/* As a client waits: progress, then sleep. */
static ucc_status_t wait_in(hd_runner_t *runner, point_t *p) {
    while (!p->posted && !point_step(p)) {
        sched_yield();
    }
    if (p->over) {
        return p->status;
    }
    p->op.task.magic = HD_TASK_LIVE;
    p->op.task.context = (hd_context_t *)(void *)runner; /* its first member: see hd_task_runner */
    p->op.task.req.status = UCC_INPROGRESS;
    hd_runner_push(runner, &p->op.task);
    return hd_runner_wait(runner, &p->op.task, -1, true, 50);
}

static ucc_status_t spin(point_t *p) {
    while (!point_step(p)) {
        sched_yield();
    }
    return p->status;
}

static void *work(void *arg) {
    const worker_t *w = arg;
    point_t *p = must_alloc(1, sizeof(*p));
    hd_runner_t *runner = must_alloc(1, sizeof(*runner));
    double *x = must_alloc(w->count + MOST_SMALL, sizeof(*x));
    uint64_t random = w->seed;
    uint32_t number = w->side * w->net->n + w->me;
    hd_runner_init(runner, false, 1000, 100);
    point_init(p, w->net, w->side, w->me);
    for (uint32_t round = 0; round < w->rounds; round++) {
        /* alike at all: small, large, small ... */
        size_t count = round % 2 == 0 && w->count > 1 ? w->count : 1 + round % MOST_SMALL;
        for (size_t j = 0; j < count; j++) {
            x[j] = (double)number + (double)j;
        }
        point_allreduce(p, NULL, x, count);
        ucc_status_t status = w->sleeps ? wait_in(runner, p) : spin(p);
        if (status != UCC_OK) {
            if (!w->may_fail) {
                stress_error("round %u: %s", round, ucc_status_string(status));
            }
            /* an abort between two operations has no operation to tell the other side of it */
            hd_group_poison(w->net->side[1 - w->side].group, status);
            break;
        }
        for (size_t j = 0; j < count; j++) {
            if (x[j] != expected(w->net, j)) {
                stress_error("round %u: wrong result at %zu", round, j);
                break;
            }
        }
        if (w->may_fail && w->me == 0 && random_below(&random, 8 * w->net->n) == 0) {
            hd_group_poison(w->net->side[w->side].group, UCC_ERR_NOT_FOUND);
        }
    }
    /* whoever reports an error may do with its buffer what it wants */
    memset(x, 0x55, w->count * sizeof(*x));
    free(x);
    free(runner);
    free(p);
    return NULL;
}

static void threads(net_t *net, size_t count, uint32_t rounds, bool sleeps, bool may_fail,
                    uint64_t seed) {
    worker_t w[MOST];
    pthread_t thread[MOST];
    uint32_t total = NET_SIDES * net->n;
    for (uint32_t i = 0; i < total; i++) {
        w[i] = (worker_t){net, i / net->n, i % net->n, rounds, count, seed + i, sleeps, may_fail};
        if (pthread_create(&thread[i], NULL, work, &w[i]) != 0) {
            abort();
        }
    }
    for (uint32_t i = 0; i < total; i++) {
        pthread_join(thread[i], NULL);
    }
    if (atomic_load(&net->accepted) != 0) {
        stress_error("an act that came late or twice was accepted");
    }
    net_destroy(net);
}

/* --- one thread for all ----------------------------------------------------------------------- */

static void alone(uint32_t n, size_t count, uint32_t rounds, uint64_t seed) {
    net_t *net = net_create(n, HD_CFG_ARRIVAL_COUNTER, 8, count, seed);
    uint32_t total = NET_SIDES * n;
    point_t *p = must_alloc(total, sizeof(*p));
    double *x = must_alloc(total * count, sizeof(*x));
    uint64_t random = seed;
    net->twice = true;
    for (uint32_t i = 0; i < total; i++) {
        point_init(&p[i], net, i / n, i % n);
    }
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < total; i++) {
            for (size_t j = 0; j < count; j++) {
                x[i * count + j] = (double)i + (double)j;
            }
            point_allreduce(&p[i], NULL, x + i * count, count);
        }
        for (uint32_t left = total; left;) {
            uint32_t i = (uint32_t)random_below(&random, total);
            left -= !p[i].over && point_step(&p[i]);
        }
        for (uint32_t i = 0; i < total; i++) {
            stress_expect(p[i].status, UCC_OK, "one thread");
            for (size_t j = 0; j < count; j += 1 + count / 97) {
                if (x[i * count + j] != expected(net, j)) {
                    stress_error("round %u: wrong result at %zu of %u", round, j, i);
                    break;
                }
            }
        }
    }
    if (atomic_load(&net->accepted) != 0) {
        stress_error("an act that came late or twice was accepted");
    }
    net_destroy(net);
    free(x);
    free(p);
}

int main(int argc, char **argv) {
    stress_begin(argc, argv);
    hd_clock_init();
    hd_park_init();
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);

    stress_phase("8 B, one thread for all", 60);
    alone(3, 1, (uint32_t)stress_scaled(3000), 1);
    alone(20, 1, (uint32_t)stress_scaled(500), 2);

    stress_phase("400 KB, one thread for all", 60);
    alone(2, 50000, (uint32_t)stress_scaled(60), 3);

    stress_phase("64 MiB over two groups", 120);
    net_t *net = net_create(1, HD_CFG_ARRIVAL_AUTO, 8, (size_t)4 << 20, 4);
    threads(net, (size_t)8 << 20, 1, false, false, 4);

    for (uint32_t seed = 1; seed <= 2; seed++) {
        stress_delays(seed == 1 ? 0 : seed);
        for (int arrival = HD_CFG_ARRIVAL_STATIC; arrival <= HD_CFG_ARRIVAL_COUNTER; arrival++) {
            stress_phase("8 B, a thread each", 60);
            net = net_create(3, arrival, 8, 100000, seed);
            net->twice = true;
            threads(net, 1, (uint32_t)stress_scaled(2000), false, false, seed);

            stress_phase("8 B and 160 KB, threads that sleep", 60);
            net = net_create(4, arrival, 4, 20000, seed);
            net->twice = true;
            threads(net, 20000, (uint32_t)stress_scaled(200), true, false, seed);
        }
        stress_phase("aborts", 120);
        for (uint64_t i = 0, rounds = stress_scaled(150); i < rounds; i++) {
            net = net_create(1 + (uint32_t)(i % 3), HD_CFG_ARRIVAL_COUNTER, 8, 20000, i);
            net->twice = true;
            threads(net, 20000, 1000, i % 2, true, i);
        }
        stress_phase("requests that fail", 120);
        for (uint64_t i = 0, rounds = stress_scaled(150); i < rounds; i++) {
            net = net_create(1 + (uint32_t)(i % 3), HD_CFG_ARRIVAL_COUNTER, 8, 20000, i);
            net->fail_request = (uint32_t)(1 + i % 50);
            net->fail_requests_with = UCC_ERR_NO_RESOURCE;
            threads(net, 20000, 1000, false, true, i);
        }
    }
    return stress_end();
}
