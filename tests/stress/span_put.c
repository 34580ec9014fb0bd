/* span_put.c: one-sided collectives among processes that share memory, of which one
 * is killed, stopped or aborts the team at a random moment, mostly while it writes.
 *
 *     test_stress_span_put [PERCENT [FIRST_SEED]]
 *
 * Each scenario is made from a seed: 2 or 3 processes with 1 or 2 threads each write into each
 * other's parts of the team's memory. If one is killed, or aborts, every other endpoint must get an
 * error, soon. From then on its part is its own: it marks it, and nobody may change that. Who is
 * only stopped holds up the others, and everything goes on.
 */
#include "stress.h"

#include "../support/probe.h"
#include "../support/processes.h"
#include "../support/random.h"

#include <heddle/heddle.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ENDPOINTS = 6, MOST_BLOCK = 1 << 20, BYTES = MOST_ENDPOINTS * MOST_BLOCK };
enum { ROUNDS = 40, PATTERN = 0xA5, STEP = 4096, HANGS_S = 30 };

typedef enum kind { KILL, STOP, ABORT, KINDS } kind_t;
static const char *const kind_name[KINDS] = {"kill", "stop", "abort"};

/* What processes leave. */
enum { RUNNING, WRONG, COMPLETED, FAILED };

typedef struct scenario {
    uint64_t seed;
    kind_t kind;
    shape_t shape;
    uint32_t victim, after_us, for_us;
} scenario_t;

typedef struct side {
    const process_t *process;
    const scenario_t *s;
    heddle_group_t *group;
    _Atomic uint32_t next; /* local index */
    heddle_ep_t *ep[MOST_ENDPOINTS];
    _Atomic uint32_t bad, completed, failed;
} side_t;

static void wait_us(uint32_t us) {
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L}, NULL);
}

/* By a child of the victim, forked before it has threads. */
static void commit(const process_t *process, const scenario_t *s) {
    pid_t victim = getppid();
    while (process_get(process, process->me, RUNNING) == 0) {
        wait_us(200);
    }
    wait_us(s->after_us);
    kill(victim, s->kind == KILL ? SIGKILL : SIGSTOP);
    if (s->kind == STOP) {
        wait_us(s->for_us);
        kill(victim, SIGCONT);
    }
}

static unsigned char content(uint64_t seed, uint32_t round, uint32_t from, uint32_t to) {
    return (unsigned char)(seed + 3 * round + 17 * from + 41 * to + 1);
}

typedef struct call {
    ucc_coll_type_t type;
    size_t block;
    uint32_t root;
} call_t;

/* The same at all. */
static call_t call_of(const scenario_t *s, uint32_t round, uint32_t n) {
    static const ucc_coll_type_t types[] = {UCC_COLL_TYPE_ALLTOALL, UCC_COLL_TYPE_ALLGATHER,
                                            UCC_COLL_TYPE_BCAST};
    uint64_t random = s->seed * 1000 + round;
    call_t call = {.type = types[random_below(&random, 3)]};
    call.block = 1 + random_below(&random, random_below(&random, 4) ? MOST_BLOCK : 4000);
    call.root = (uint32_t)random_below(&random, n);
    return call;
}

/* Sources lie outside the team's memory, but for a bcast's. */
static void fill(const side_t *side, const call_t *call, uint32_t round, uint32_t me, uint32_t n,
                 unsigned char *source, unsigned char *part) {
    if (call->type == UCC_COLL_TYPE_BCAST) {
        memset(part, me == call->root ? content(side->s->seed, round, me, 0) : 0, call->block);
        return;
    }
    for (uint32_t to = 0; to < n; to++) {
        bool each = call->type == UCC_COLL_TYPE_ALLTOALL;
        memset(source + to * call->block, content(side->s->seed, round, me, each ? to : 0),
               call->block);
    }
}

static bool is_right(const side_t *side, const call_t *call, uint32_t round, uint32_t me,
                     uint32_t n, const unsigned char *part) {
    bool each = call->type == UCC_COLL_TYPE_ALLTOALL, bcast = call->type == UCC_COLL_TYPE_BCAST;
    for (uint32_t b = 0; b < (bcast ? 1 : n); b++) {
        const unsigned char *block = part + b * call->block;
        unsigned char value = content(side->s->seed, round, bcast ? call->root : b, each ? me : 0);
        if (block[0] != value || memcmp(block, block + 1, call->block - 1) != 0) {
            return false;
        }
    }
    return true;
}

static ucc_status_t run(heddle_ep_t *ep, const call_t *call, unsigned char *source,
                        unsigned char *part) {
    uint64_t n = heddle_ep_size(ep);
    bool bcast = call->type == UCC_COLL_TYPE_BCAST, each = call->type == UCC_COLL_TYPE_ALLTOALL;
    ucc_coll_req_h request;
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = HEDDLE_COLL_FLAG_SYMMETRIC | HEDDLE_COLL_FLAG_READY,
                            .coll_type = call->type,
                            .root = call->root};
    args.src.info = (ucc_coll_buffer_info_t){bcast ? part : source, (each ? n : 1) * call->block,
                                             UCC_DT_INT8, UCC_MEMORY_TYPE_HOST};
    args.dst.info =
        (ucc_coll_buffer_info_t){part, n * call->block, UCC_DT_INT8, UCC_MEMORY_TYPE_HOST};
    must(ucc_collective_init(&args, &request, heddle_ep_team(ep)), "init");
    (void)ucc_collective_post(request);
    ucc_status_t status = heddle_wait(request, HANGS_S);
    if (status == UCC_INPROGRESS) {
        stress_error("%s HANGS", "a one-sided collective");
        abort();
    }
    must(ucc_collective_finalize(request), "finalize");
    return status;
}

/* An error was reported: the part is mine alone. Marks soon get ahead of a writer. */
static bool is_left_alone(unsigned char *part) {
    bool alone = true;
    for (size_t at = BYTES; at > 0; at -= STEP) {
        part[at - 1] = PATTERN;
    }
    wait_us(3000);
    for (size_t at = BYTES; at > 0; at -= STEP) {
        alone = alone && part[at - 1] == PATTERN;
    }
    return alone;
}

static bool aborts(const side_t *side, uint32_t round, uint32_t k) {
    const scenario_t *s = side->s;
    return s->kind == ABORT && side->process->me == s->victim && k == 0 &&
           round == s->after_us % 10 + 1;
}

static void *work_on(void *arg) {
    side_t *side = arg;
    uint32_t k = atomic_fetch_add(&side->next, 1);
    size_t bytes;
    unsigned char *part, *source = must_alloc(1, BYTES);
    must(heddle_join(side->group, k, &side->ep[k]), "heddle_join");
    heddle_ep_t *ep = side->ep[k];
    uint32_t me = heddle_ep_index(ep), n = heddle_ep_size(ep), round = 0;
    must(heddle_team_memory(heddle_ep_team(ep), me, (void **)&part, &bytes), "heddle_team_memory");
    ucc_status_t status = heddle_barrier(ep);
    process_set(side->process, RUNNING, 1);
    for (; round < ROUNDS && status == UCC_OK; round++) {
        call_t call = call_of(side->s, round, n);
        fill(side, &call, round, me, n, source, part);
        status = heddle_barrier(ep); /* what READY promises */
        if (aborts(side, round, k)) {
            must(heddle_team_abort(heddle_ep_team(ep)), "abort");
        }
        status = status == UCC_OK ? run(ep, &call, source, part) : status;
        if (status == UCC_OK && !is_right(side, &call, round, me, n, part)) {
            stress_error("seed %" PRIu64 ", round %u: endpoint %u has something wrong",
                         side->s->seed, round, me);
            atomic_fetch_add(&side->bad, 1);
        }
        status = status == UCC_OK ? heddle_barrier(ep) : status;
    }
    atomic_fetch_add(&side->completed, round);
    atomic_fetch_add(&side->failed, status != UCC_OK);
    if (status != UCC_OK && !is_left_alone(part)) {
        stress_error("seed %" PRIu64 ": endpoint %u is written to after an error", side->s->seed,
                     me);
        atomic_fetch_add(&side->bad, 1);
    }
    must(heddle_leave(ep), "heddle_leave");
    free(source);
    return NULL;
}

static int work(const process_t *process, void *arg) {
    const scenario_t *s = arg;
    side_t side = {.process = process, .s = s};
    pthread_t thread[MOST_ENDPOINTS];
    bool sinner = process->me == s->victim && s->kind != ABORT;
    pid_t child = sinner ? fork() : -1;
    if (child == 0) {
        commit(process, s);
        _exit(0);
    }
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = process->n, .oob = &oob, .symmetric_bytes = BYTES};
    must(heddle_group_create(&params, &side.group), "heddle_group_create");
    for (uint32_t k = 0; k < process->n; k++) {
        pthread_create(&thread[k], NULL, work_on, &side);
    }
    for (uint32_t k = 0; k < process->n; k++) {
        pthread_join(thread[k], NULL);
    }
    must(heddle_group_destroy(side.group), "heddle_group_destroy");
    if (child > 0) {
        waitpid(child, NULL, 0);
    }
    process_add(process, WRONG, side.bad);
    process_add(process, COMPLETED, side.completed);
    process_add(process, FAILED, side.failed);
    return 0;
}

/* The order between two threads of a process may go through another process, which ThreadSanitizer
 * does not see. */
#if defined(__SANITIZE_THREAD__)
enum { MOST_THREADS = 1 };
#else
enum { MOST_THREADS = 2 };
#endif

static scenario_t draw(uint64_t seed) {
    uint64_t random = seed + 1;
    scenario_t s = {.seed = seed, .kind = (kind_t)(seed % KINDS)};
    s.shape.processes = 2 + (uint32_t)random_below(&random, 2);
    for (uint32_t p = 0; p < s.shape.processes; p++) {
        s.shape.endpoints[p] = 1 + (uint32_t)random_below(&random, MOST_THREADS);
    }
    s.victim = (uint32_t)random_below(&random, s.shape.processes);
    s.after_us = (uint32_t)random_below(&random, 30000);
    s.for_us = (uint32_t)random_below(&random, 50000);
    s.shape.doomed = s.kind == KILL ? 1u << s.victim : 0;
    return s;
}

static void run_scenario(uint64_t seed, uint64_t completed[KINDS], uint64_t failed[KINDS]) {
    scenario_t s = draw(seed);
    outcome_t outcome = processes_run(&s.shape, 2 * HANGS_S, work, &s);
    uint64_t wrong = 0;
    for (uint32_t p = 0; p < s.shape.processes; p++) {
        wrong += outcome.value[p][WRONG] + (outcome.status[p] != 0 && !(s.shape.doomed >> p & 1));
        completed[s.kind] += outcome.value[p][COMPLETED];
        failed[s.kind] += outcome.value[p][FAILED];
        /* of a stop, nobody has an error; one that dies may do so when all is over */
        wrong += s.kind == STOP && outcome.value[p][FAILED] > 0;
        wrong += s.kind == ABORT && outcome.value[p][FAILED] != s.shape.endpoints[p];
    }
    if (wrong > 0) {
        stress_error("seed %" PRIu64 " (%s, %s): %" PRIu64 " wrong", seed, kind_name[s.kind],
                     shape_name(&s.shape), wrong);
    }
}

int main(int argc, char **argv) {
    uint64_t completed[KINDS] = {0}, failed[KINDS] = {0};
    stress_begin_alone(argc, argv);
    setenv("HEDDLE_NODE", "y", 1);
    setenv("HEDDLE_NET", "n", 1);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 0, n = stress_scaled(100);
    for (uint64_t seed = first; seed < first + n; seed++) {
        run_scenario(seed, completed, failed);
    }
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        printf("%-6s %8" PRIu64 " collectives, %6" PRIu64 " endpoints with an error\n",
               kind_name[kind], completed[kind], failed[kind]);
    }
    return stress_end();
}
