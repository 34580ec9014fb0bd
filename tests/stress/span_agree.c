/* span_agree.c: all endpoints of several processes, each with a thread of its own, agree again and
 * again, with a collective after each; meanwhile each process that has a network asks another one
 * of its host for whom the job waits, until all have answered. In the end a process is killed as
 * they agree. On one host, or, by scripts/netns run 3 -- test_stress_span_agree, on three; there
 * hosts that can't watch each other agree on nothing.
 */
#include "stress.h"

#include "../support/processes.h"
#include "../support/random.h"

#include <heddle/heddle.h>
#include <signal.h>
#include <unistd.h>

enum {
    THREADS = 2,
    BESIDE = 2,
    COUNT = 5000,
    ROUNDS = 30,
    MOST_AGREEMENTS = 100000,
    ASK_EVERY_US = 500000
};
/* What processes tell each other (process_set). */
enum { PID };

typedef struct side {
    const process_t *process;
    heddle_group_t *group;
    uint32_t run;
    _Atomic uint32_t next;    /* local index */
    _Atomic uint32_t rounds;  /* of all threads: at the first, all are connected */
    _Atomic uint32_t through; /* threads, with the rounds in which nobody dies */
} side_t;

/* --- asking ----------------------------------------------------------------------------------- */

/* What the other process of this one's host answers; NULL: nothing. */
static char *ask(const process_t *process) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    ucc_status_t status =
        heddle_job_print(stream, (uint32_t)process_get(process, process->me ^ 1, PID));
    fclose(stream);
    if (status == UCC_OK) {
        return text;
    }
    free(text);
    return NULL;
}

/* Do all answer? In each a thread waits, now and then. */
static bool do_all_answer(const process_t *process) {
    unsigned answer = 0, of = 0;
    char *text = ask(process);
    bool all = text && sscanf(text, "%*[^:]: %u of %u", &answer, &of) == 2 && answer == of &&
               of == process->shape->processes;
    free(text);
    return all;
}

/* --- agreeing --------------------------------------------------------------------------------- */

/* Returns the endpoints that have failed. Who took part is seen in the bits. */
static uint64_t agree(heddle_ep_t *ep, uint32_t size, uint64_t k) {
    uint64_t all = (UINT64_C(1) << size) - 1, failed[64], n_failed, mask = 0;
    uint64_t bits = ~(UINT64_C(1) << heddle_ep_index(ep)) ^ k << 32;
    ucc_status_t status = heddle_agree(ep, &bits, failed, &n_failed);
    process_expect(status == UCC_OK, "agreement %llu: %s", (unsigned long long)k,
                   ucc_status_string(status));
    for (uint64_t i = 0; i < n_failed; i++) {
        mask |= UINT64_C(1) << failed[i];
    }
    process_expect(~(bits ^ k << 32) == (all & ~mask), "agreement %llu: bits %llx, failed %llx",
                   (unsigned long long)k, (unsigned long long)bits, (unsigned long long)mask);
    return mask;
}

static void add_up(heddle_ep_t *ep, uint32_t size, uint64_t k) {
    float from[COUNT], to[COUNT];
    size_t count = k % 2 ? COUNT : 1;
    for (size_t i = 0; i < count; i++) {
        from[i] = (float)(k % 8);
    }
    ucc_status_t status = heddle_allreduce(ep, from, to, count, UCC_DT_FLOAT32, UCC_OP_SUM);
    process_expect(status == UCC_OK && to[count - 1] == (float)(size * (k % 8)),
                   "allreduce %llu: %s", (unsigned long long)k, ucc_status_string(status));
}

static uint64_t doomed_endpoints(const process_t *process) {
    uint64_t mask = 0;
    for (uint32_t p = 0; p < process->shape->processes; p++) {
        uint64_t mine = (UINT64_C(1) << THREADS) - 1; /* endpoints are numbered by process */
        mask |= process->shape->doomed >> p & 1 ? mine << p * THREADS : 0;
    }
    return mask;
}

static void *be_endpoint(void *arg) {
    side_t *side = arg;
    const process_t *process = side->process;
    uint32_t local = atomic_fetch_add(&side->next, 1), size = process->size;
    uint64_t doomed = doomed_endpoints(process), k = 0;
    heddle_ep_t *ep;
    ucc_status_t status = heddle_join(side->group, local, &ep);
    process_expect(status == UCC_OK, "join: %s", ucc_status_string(status));
    for (; k < ROUNDS; k++) {
        process_expect(agree(ep, size, k) == 0, "agreement %llu: somebody has failed",
                       (unsigned long long)k);
        add_up(ep, size, k);
        side->rounds++;
    }
    side->through++;
    for (uint32_t after = 0; after < 2; k++) { /* until all know who is dead */
        after += agree(ep, size, k) == doomed;
        process_expect(k < MOST_AGREEMENTS, "nobody notices who was killed");
    }
    heddle_leave(ep);
    return NULL;
}

static heddle_group_t *form(const process_t *process, uint32_t endpoints) {
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = endpoints, .oob = &oob};
    heddle_group_t *group;
    ucc_status_t status = heddle_group_create(&params, &group);
    process_expect(status == UCC_OK, "a group: %s", ucc_status_string(status));
    return group;
}

static int work(const process_t *process, void *arg) {
    side_t side = {.process = process, .run = *(const uint32_t *)arg};
    pthread_t thread[THREADS];
    setenv("HEDDLE_LOG_LEVEL", "fatal", 0);
    setenv("HEDDLE_NET_SHM", "n", 1); /* a kill may cost two processes otherwise (processes.md) */
    setenv("HEDDLE_NET_LANES", "2", 1);
    process_set(process, PID, (uint64_t)getpid());
    side.group = form(process, THREADS);
    process_barrier(process);
    for (uint32_t i = 0; i < THREADS; i++) {
        process_expect(pthread_create(&thread[i], NULL, be_endpoint, &side) == 0, "no thread");
    }
    while (side.rounds == 0) {
        usleep(1000);
    }
    deadline_t deadline = deadline_start("answers of all processes");
    for (bool all = false; !all || side.through < THREADS; deadline_poll(&deadline)) {
        all = do_all_answer(process) || all;
        usleep(ASK_EVERY_US); /* nobody answers more than 16 times a second */
    }
    process_barrier(process);
    if (process->shape->doomed >> process->me & 1) {
        uint64_t random = side.run;
        usleep((useconds_t)random_below(&random, 20000));
        kill(getpid(), SIGKILL);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    process_expect(heddle_group_destroy(side.group) == UCC_OK, "destroy");
    return 0;
}

/* Hosts of which none has an address for the others. */
static int agree_unwatched(const process_t *process, void *arg) {
    uint64_t bits = 1;
    heddle_ep_t *ep;
    (void)arg;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 0);
    setenv("HEDDLE_NET_WATCH_DEVICES", "lo", 1);
    heddle_group_t *group = form(process, 1);
    process_expect(heddle_join(group, 0, &ep) == UCC_OK, "join");
    ucc_status_t status = heddle_agree(ep, &bits, NULL, NULL);
    process_expect(status == UCC_ERR_NOT_SUPPORTED, "hosts apart: %s", ucc_status_string(status));
    process_barrier(process);
    heddle_leave(ep);
    process_expect(heddle_group_destroy(group) == UCC_OK, "destroy");
    return 0;
}

int main(int argc, char **argv) {
    const char *why;
    stress_begin_alone(argc, argv);
    uint32_t hosts = processes_hosts(&why), runs = (uint32_t)stress_scaled(10), failed = 0;
    shape_t shape = shape_even(BESIDE * (hosts ? hosts : 3), THREADS);
    for (uint32_t p = 0; p < shape.processes; p++) {
        shape.host[p] = hosts ? p / BESIDE + 1 : 0;
    }
    if (hosts > 1) {
        failed += !processes_run(&shape, 60, agree_unwatched, NULL).ok;
    }
    shape.doomed = 1u << (shape.processes - 1);
    for (uint32_t run = 0; run < runs; run++) {
        failed += !processes_run(&shape, 120, work, &run).ok;
    }
    printf("%s: %u of %u runs failed\n", shape_name(&shape), failed, runs);
    return failed > 0;
}
