/* net.c: two processes with four threads each, all of which pump and start legs at random:
 * barriers, allreduces and alltoalls of matched and numbered exchanges, some of which come before
 * their peers', over one lane or two.
 */
#include "stress.h"

#include "../support/deadline.h"
#include "../support/nodes.h"
#include "../support/random.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, NODES = 2, MOST_BYTES = 40000 };

typedef struct job {
    node_t *node;
    uint32_t thread;
    int rounds;
} job_t;

static uint8_t byte_of(uint64_t k, uint32_t from, uint32_t to, size_t i) {
    return (uint8_t)(k * 31 + from * 7 + to * 3 + i);
}

static void wait_for(run_t *run) {
    uint32_t idle = 0;
    deadline_t deadline = deadline_start("a leg");
    while (!atomic_load(&run->over)) {
        hd_net_pump(run->node->net);
        if (++idle % 8 == 0) {
            sched_yield();
        }
        deadline_poll(&deadline);
    }
    free(run->leg.call.scratch);
}

/* The exchange is thread t's k-th: the same in both processes, so its key is the thread and k. */
static void name_it(run_t *run, uint32_t thread, uint64_t k) {
    if (k % 2) {
        run->leg.key = (hd_net_key_t){.number = thread, .ordinal = k, .class = HD_NET_TAG};
    } else {
        run->leg.key = (hd_net_key_t){.number = k * THREADS + thread, .class = HD_NET_NUMBERED};
    }
    run->leg.segment = (uint32_t)(k % 3);
}

static void allreduce(node_t *node, uint32_t thread, uint64_t k, size_t count) {
    run_t run;
    double *x = must_alloc(count + 1, sizeof(*x));
    run_init(&run, node, HD_ALLREDUCE);
    name_it(&run, thread, k);
    for (size_t i = 0; i < count; i++) {
        x[i] = (double)(node->me + i + k);
    }
    must(hd_reducer_init(&run.reducer, UCC_DT_FLOAT64, UCC_OP_SUM, NODES), "reducer");
    run.leg.call.operand = x;
    run.leg.call.result = x;
    run.leg.call.count = count;
    run.leg.call.element = sizeof(double);
    run_plan(&run, 0, 0, count * sizeof(double));
    hd_leg_start(&run.leg);
    wait_for(&run);
    node_check(node, run.status == UCC_OK, "allreduce: %d", run.status);
    for (size_t i = 0; i < count; i++) {
        node_check(node, x[i] == (double)(2 * (i + k) + 1), "allreduce %zu: element %zu is %f",
                   count, i, x[i]);
    }
    free(x);
}

static void alltoall(node_t *node, uint32_t thread, uint64_t k, size_t bytes) {
    run_t run;
    uint32_t other = 1 - node->me;
    uint8_t *out = must_alloc(bytes + 1, 1), *in = must_alloc(bytes + 1, 1);
    hd_net_piece_t out_piece[2] = {{out, bytes / 2}, {out + bytes / 2, bytes - bytes / 2}};
    hd_net_piece_t in_piece = {in, bytes};
    hd_net_data_t give[NODES], take[NODES];
    give[0] = give[1] = (hd_net_data_t){out_piece, 2, bytes};
    take[0] = take[1] = (hd_net_data_t){&in_piece, 1, bytes};
    for (size_t i = 0; i < bytes; i++) {
        out[i] = byte_of(k, node->me, other, i);
    }
    run_init(&run, node, HD_ALLTOALL);
    name_it(&run, thread, k);
    run.leg.call.give = give;
    run.leg.call.take = take;
    run_plan(&run, 0, 0, bytes);
    hd_leg_start(&run.leg);
    wait_for(&run);
    node_check(node, run.status == UCC_OK, "alltoall: %d", run.status);
    for (size_t i = 0; i < bytes; i++) {
        node_check(node, in[i] == byte_of(k, other, node->me, i), "alltoall %zu: byte %zu", bytes,
                   i);
    }
    free(out);
    free(in);
}

static void barrier(node_t *node, uint32_t thread, uint64_t k) {
    run_t run;
    run_init(&run, node, HD_BARRIER);
    name_it(&run, thread, k);
    run_plan(&run, 0, 0, 0);
    hd_leg_start(&run.leg);
    wait_for(&run);
    node_check(node, run.status == UCC_OK, "barrier: %d", run.status);
}

static void *work(void *arg) {
    const job_t *job = arg;
    uint64_t same = job->thread + 1, mine = job->thread * 10 + job->node->me;
    for (int k = 0; k < job->rounds; k++) {
        size_t bytes = (size_t)random_below(&same, random_below(&same, 4) ? 600 : MOST_BYTES);
        uint64_t kind = random_below(&same, 3);
        for (uint64_t i = random_below(&mine, 30); i > 0; i--) {
            if (i % 8 == 0) {
                sched_yield();
            }
        }
        if (kind == 0) {
            barrier(job->node, job->thread, (uint64_t)k);
        } else if (kind == 1) {
            allreduce(job->node, job->thread, (uint64_t)k, bytes / 8);
        } else {
            alltoall(job->node, job->thread, (uint64_t)k, bytes);
        }
    }
    return NULL;
}

static void body(node_t *node, void *arg) {
    pthread_t thread[THREADS];
    job_t job[THREADS];
    for (uint32_t t = 0; t < THREADS; t++) {
        job[t] = (job_t){node, t, *(const int *)arg};
        pthread_create(&thread[t], NULL, work, &job[t]);
    }
    for (uint32_t t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
    }
}

int main(int argc, char **argv) {
    static const char *const shm[] = {"NET_LANES", "2", NULL};
    static const char *const tcp[] = {"NET_SHM", "n", "NET_TLS", "tcp", NULL};
    stress_begin_alone(argc, argv);
    int rounds = (int)stress_scaled(400);
    uint32_t failed = nodes_run(NODES, shm, body, &rounds);
    failed += nodes_run(NODES, tcp, body, &rounds);
    if (failed) {
        stress_error("%u processes failed", failed);
    }
    return stress_end();
}
