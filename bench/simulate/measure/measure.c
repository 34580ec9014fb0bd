/* measure.c: bench_measure_legs: how long legs take among 2 and 4 processes of this host, over
 * UCX's shared memory and over its TCP, for bench_simulate --fit to compare with. Each line: way,
 * processes, what, bytes, ns.
 *
 * Batches are short, and the fastest of many counts: other programs on the machine only make
 * batches slower.
 */
#include "../../../tests/support/nodes.h"

#include "core/reduce.h"
#include "net/internal.h"
#include "threads/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 10, STREAM = 64, MOST_BYTES = 256 * 1024, MOST_PROCESSES = 4 };

typedef struct job {
    const char *way;
    double seconds; /* for each line */
} job_t;

typedef struct board {
    node_t *node;
    uint64_t number;
    uint8_t *give, *take;
    hd_net_piece_t piece[2 * MOST_PROCESSES];
    hd_net_data_t data[2 * MOST_PROCESSES];
} board_t;

static void leg(board_t *b, uint8_t type, uint32_t root, size_t bytes, run_t *run) {
    hd_net_call_t *call = &run->leg.call;
    bool reduces = hd_coll[type].reducing;
    run_init(run, b->node, type);
    for (uint32_t i = 0; i < 2 * b->node->n; i++) {
        uint32_t n = b->node->n;
        b->piece[i] = (hd_net_piece_t){(i < n ? b->give : b->take) + i % n * bytes, bytes};
        b->data[i] = (hd_net_data_t){&b->piece[i], bytes > 0, bytes};
    }
    run->leg.key = (hd_net_key_t){.class = HD_NET_NUMBERED, .number = b->number++};
    call->root = root;
    call->give = b->data;
    call->take = type == HD_BCAST ? b->data : b->data + b->node->n;
    if (reduces) {
        call->operand = b->give;
        call->result = b->take;
        call->element = 8;
        call->count = bytes / 8;
        (void)hd_reducer_init(&run->reducer, UCC_DT_FLOAT64, UCC_OP_SUM, b->node->n);
    }
    run_plan(run, 0, 0, bytes);
    hd_leg_start(&run->leg);
}

static void one(board_t *b, uint8_t type, uint32_t root, size_t bytes) {
    run_t run;
    leg(b, type, root, bytes, &run);
    run_wait(&run, "a measured leg");
}

/* A message there and one back: half of that. */
static void ping_pong(board_t *b, uint8_t type, size_t bytes) {
    (void)type;
    one(b, HD_BCAST, 0, bytes);
    one(b, HD_BCAST, 1, bytes);
}

/* As many messages as there can be at once, one way. */
static void stream(board_t *b, uint8_t type, size_t bytes) {
    static run_t run[STREAM];
    (void)type;
    for (uint32_t i = 0; i < STREAM; i++) {
        leg(b, HD_BCAST, 0, bytes, &run[i]);
    }
    for (uint32_t i = 0; i < STREAM; i++) {
        run_wait(&run[i], "a stream");
    }
    one(b, HD_BARRIER, 0, 0);
}

static void collective(board_t *b, uint8_t type, size_t bytes) {
    one(b, type, 0, bytes);
}

/* ns of one, by process 0. All do as many batches as it says. */
static void measure(board_t *b, const job_t *job, const char *what, uint8_t type, size_t bytes,
                    void (*run)(board_t *, uint8_t, size_t), double times) {
    node_t *node = b->node;
    uint64_t best = UINT64_MAX;
    double begin = (double)hd_clock_ns() / 1e9;
    for (bool go = true; go;) {
        uint64_t since = hd_clock_ns();
        for (uint32_t i = 0; i < BATCH; i++) {
            run(b, type, bytes);
        }
        uint64_t ns = hd_clock_ns() - since;
        best = ns < best ? ns : best;
        if (node->me == 0) {
            atomic_store(node_word(node, 0), (double)hd_clock_ns() / 1e9 - begin < job->seconds);
        }
        node_meet(node);
        go = atomic_load(node_word(node, 0));
        node_meet(node);
    }
    if (node->me == 0) {
        printf("%s %u %s %zu %.0f\n", job->way, node->n, what, bytes, (double)best / BATCH / times);
        fflush(stdout);
    }
}

static void body(node_t *node, void *arg) {
    static const struct {
        uint8_t type;
        size_t bytes;
    } rows[] = {{HD_BARRIER, 0},           {HD_ALLREDUCE, 8},          {HD_ALLREDUCE, 4096},
                {HD_ALLREDUCE, 16 * 1024}, {HD_ALLREDUCE, 128 * 1024}, {HD_ALLGATHER, 8},
                {HD_ALLGATHER, 4096},      {HD_ALLGATHER, 32 * 1024},  {HD_ALLTOALL, 8},
                {HD_ALLTOALL, 4096},       {HD_ALLTOALL, 32 * 1024}};
    const job_t *job = arg;
    board_t b = {.node = node,
                 .give = calloc(MOST_PROCESSES, MOST_BYTES),
                 .take = calloc(MOST_PROCESSES, MOST_BYTES)};
    node_check(node, b.give && b.take, "no memory");
    if (node->n == 2) {
        static const size_t sizes[] = {8, 4096, 32 * 1024, 128 * 1024};
        for (uint32_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            measure(&b, job, "pingpong", 0, sizes[s], ping_pong, 2);
        }
        measure(&b, job, "stream", 0, 8, stream, STREAM);
        measure(&b, job, "stream", 0, 4096, stream, STREAM);
    }
    for (uint32_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        measure(&b, job, hd_type_name(rows[r].type), rows[r].type, rows[r].bytes, collective, 1);
    }
    free(b.give);
    free(b.take);
}

int main(int argc, char **argv) {
    static const char *const shm[] = {NULL};
    static const char *const tcp[] = {"NET_SHM", "n", "NET_TLS", "tcp", NULL};
    double seconds = argc > 1 ? atof(argv[1]) : 0.5;
    uint32_t failed = 0;
    for (uint32_t n = 2; n <= MOST_PROCESSES; n += 2) {
        job_t job = {"shared-memory", seconds};
        failed += nodes_run(n, shm, body, &job);
        job.way = "tcp";
        failed += nodes_run(n, tcp, body, &job);
    }
    return failed > 0;
}
