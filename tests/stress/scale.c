/* scale.c: thousands of task endpoints on two threads.
 *
 * A team of 4,096 endpoints is formed without any exchange and driven by two OS threads, once with
 * a context per thread and once with a context per endpoint; then 512 endpoints are formed through
 * the plain UCC calls by one thread. Every collective's result is checked; times are printed, and
 * checked against limits that only a wrong order of growth could miss. Memory is checked exactly:
 * at most 8 KiB resident per endpoint while data has fitted into the lanes.
 *
 * HEDDLE_STRESS_SCALE (percent) shrinks the teams. Under a sanitizer teams are small, and neither
 * time nor memory is judged.
 */
#include "../repro/placed.h"
#include "../support/deadline.h"
#include "../support/driver.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Nor with HD_DEBUG, which looks at everything all the time. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || HD_DEBUG
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum {
    THREADS = 2,
    TASKS = 4096,
    PLAIN_ENDPOINTS = 512,
    ROUNDS = 50,
    BYTES_PER_ENDPOINT = 8 * 1024
};

static _Atomic uint64_t failures;

static void expect(bool ok, const char *what, double value) {
    if (!ok) {
        fprintf(stderr, "FAILED: %s: %g\n", what, value);
        atomic_fetch_add_explicit(&failures, 1, memory_order_relaxed); // a count, read at the end
    }
}

static uint32_t scaled(uint32_t n) {
    const char *text = getenv("HEDDLE_STRESS_SCALE");
    uint32_t percent = text != NULL && atoi(text) > 0 ? (uint32_t)atoi(text) : 100;
    n = (uint32_t)((uint64_t)n * percent / (SANITIZED ? 1600 : 100));
    return n < 16 ? 16 : n;
}

static size_t resident_bytes(void) {
    unsigned long all = 0, resident = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm == NULL || fscanf(statm, "%lu %lu", &all, &resident) != 2) {
        fprintf(stderr, "FATAL: no /proc/self/statm\n");
        abort();
    }
    fclose(statm);
    return (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* --- a crew: some threads that drive the endpoints of one team -------------------------------- */

/* Thread t drives endpoints n * t / threads and up. Everything indexed by endpoint is touched by
 * the endpoint's thread only. */
typedef struct crew {
    uint32_t n, threads;
    bool own_contexts; /* each endpoint its own; else one for all endpoints of a thread */
    heddle_group_t *group;
    heddle_ep_t **endpoints;
    ucc_team_h *teams;
    ucc_context_h *contexts; /* by endpoint */
    ucc_coll_req_h *requests;
    int64_t *value;       /* [n]: operands and results of the short collectives */
    int64_t **src, **dst; /* [n]: blocks of alltoall */
    pthread_barrier_t meeting;
    _Atomic uint64_t entered; /* endpoints that have entered a barrier */
    double worked;            /* processor seconds of the first thread for one collective */
} crew_t;

typedef struct part {
    crew_t *crew;
    uint32_t first, end;
} part_t;

static part_t part_of(crew_t *crew, uint32_t thread) {
    uint64_t n = crew->n;
    return (part_t){crew, (uint32_t)(n * thread / crew->threads),
                    (uint32_t)(n * (thread + 1) / crew->threads)};
}

static void crew_init(crew_t *crew) {
    crew->endpoints = must_alloc(crew->n, sizeof(*crew->endpoints));
    crew->teams = must_alloc(crew->n, sizeof(*crew->teams));
    crew->contexts = must_alloc(crew->n, sizeof(*crew->contexts));
    crew->requests = must_alloc(crew->n, sizeof(*crew->requests));
    crew->value = must_alloc(crew->n, sizeof(*crew->value));
    crew->src = must_alloc(crew->n, sizeof(*crew->src));
    crew->dst = must_alloc(crew->n, sizeof(*crew->dst));
    pthread_barrier_init(&crew->meeting, NULL, crew->threads);
}

static void crew_free(crew_t *crew) {
    pthread_barrier_destroy(&crew->meeting);
    free(crew->endpoints);
    free(crew->teams);
    free(crew->contexts);
    free(crew->requests);
    free(crew->value);
    free((void *)crew->src);
    free((void *)crew->dst);
}

/* Runs one collective at all endpoints of a part, the way a task runtime does: starts all, then
 * progresses and looks until the last one is complete. */
typedef ucc_coll_args_t (*make_args_t)(crew_t *crew, uint32_t i);

static void start_part(const part_t *part, make_args_t make_args) {
    crew_t *crew = part->crew;
    for (uint32_t i = part->first; i < part->end; i++) {
        ucc_coll_args_t args = make_args(crew, i);
        must(ucc_collective_init(&args, &crew->requests[i], crew->teams[i]), "init");
        must(ucc_collective_post(crew->requests[i]), "post");
    }
}

static void finish_part(const part_t *part, const char *what) {
    crew_t *crew = part->crew;
    deadline_t deadline = deadline_start(what);
    for (uint32_t i = part->first; i < part->end; i++) {
        ucc_status_t status;
        while ((status = ucc_collective_test(crew->requests[i])) == UCC_INPROGRESS) {
            for (uint32_t j = i; j < (crew->own_contexts ? part->end : i + 1); j++) {
                ucc_context_progress(crew->contexts[j]);
            }
            deadline_poll(&deadline);
        }
        must(status, what);
        must(ucc_collective_finalize(crew->requests[i]), "finalize");
    }
}

static void run_part(const part_t *part, make_args_t make_args, const char *what) {
    start_part(part, make_args);
    finish_part(part, what);
}

/* Of this thread. On a busy machine it says more than the time that went by. */
static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds that `rounds` of it take, from when all threads are ready until all have finished. */
static void time_part(const part_t *part, uint32_t rounds, make_args_t make_args,
                      const char *what) {
    crew_t *crew = part->crew;
    pthread_barrier_wait(&crew->meeting);
    double began = test_now(), worked = processor_seconds();
    for (uint32_t r = 0; r < rounds; r++) {
        run_part(part, make_args, what);
    }
    worked = processor_seconds() - worked;
    pthread_barrier_wait(&crew->meeting);
    if (part->first == 0) {
        crew->worked = worked / rounds;
        printf("  %-12s %10.1f us, of which at work %10.1f us, %7.3f us per endpoint driven\n",
               what, (test_now() - began) * 1e6 / rounds, crew->worked * 1e6,
               crew->worked * 1e6 / (part->end - part->first));
    }
    pthread_barrier_wait(&crew->meeting);
}

/* --- the collectives -------------------------------------------------------------------------- */

static ucc_coll_buffer_info_t int64s(int64_t *buffer, uint64_t count) {
    return (ucc_coll_buffer_info_t){buffer, count, UCC_DT_INT64, UCC_MEMORY_TYPE_HOST};
}

static ucc_coll_args_t barrier_args(crew_t *crew, uint32_t i) {
    (void)crew, (void)i;
    return (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_BARRIER};
}

static uint32_t bcast_root(const crew_t *crew) {
    return crew->n / 3;
}

static ucc_coll_args_t bcast_args(crew_t *crew, uint32_t i) {
    return (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_BCAST,
                             .src.info = int64s(&crew->value[i], 1),
                             .root = bcast_root(crew)};
}

static ucc_coll_args_t allreduce_args(crew_t *crew, uint32_t i) {
    return (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_ALLREDUCE,
                             .mask = UCC_COLL_ARGS_FIELD_FLAGS,
                             .flags = UCC_COLL_ARGS_FLAG_IN_PLACE,
                             .op = UCC_OP_SUM,
                             .dst.info = int64s(&crew->value[i], 1)};
}

static ucc_coll_args_t alltoall_args(crew_t *crew, uint32_t i) {
    return (ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_ALLTOALL,
                             .src.info = int64s(crew->src[i], crew->n),
                             .dst.info = int64s(crew->dst[i], crew->n)};
}

/* Nobody has left before everybody had entered. */
static void check_barrier(const part_t *part, uint64_t round) {
    crew_t *crew = part->crew;
    // release: the entries happen before the posts below anyway; this keeps the sanitizer's view
    atomic_fetch_add_explicit(&crew->entered, part->end - part->first, memory_order_release);
    run_part(part, barrier_args, "barrier");
    uint64_t entered = atomic_load_explicit(&crew->entered, memory_order_acquire); // pairs with it
    expect(entered >= round * crew->n, "endpoints in the barrier when one left it",
           (double)entered);
}

static void check_bcast(const part_t *part) {
    crew_t *crew = part->crew;
    for (uint32_t i = part->first; i < part->end; i++) {
        crew->value[i] = i == bcast_root(crew) ? 4711 : -1;
    }
    run_part(part, bcast_args, "bcast");
    for (uint32_t i = part->first; i < part->end; i++) {
        expect(crew->value[i] == 4711, "bcast's value", (double)crew->value[i]);
    }
}

static void check_allreduce(const part_t *part) {
    crew_t *crew = part->crew;
    int64_t wanted = (int64_t)crew->n * (crew->n - 1) / 2;
    for (uint32_t i = part->first; i < part->end; i++) {
        crew->value[i] = i;
    }
    run_part(part, allreduce_args, "allreduce");
    for (uint32_t i = part->first; i < part->end; i++) {
        expect(crew->value[i] == wanted, "allreduce's sum", (double)crew->value[i]);
    }
}

static int64_t block_of(uint32_t from, uint32_t to) {
    return (int64_t)from << 32 | to;
}

static void check_alltoall(const part_t *part) {
    crew_t *crew = part->crew;
    for (uint32_t i = part->first; i < part->end; i++) {
        crew->src[i] = must_alloc(crew->n, sizeof(int64_t));
        crew->dst[i] = must_alloc(crew->n, sizeof(int64_t));
        for (uint32_t j = 0; j < crew->n; j++) {
            crew->src[i][j] = block_of(i, j);
            crew->dst[i][j] = -1; /* touched: the time below is not that of page faults */
        }
    }
    time_part(part, 1, alltoall_args, "alltoall");
    for (uint32_t i = part->first; i < part->end; i++) {
        uint32_t right = 0;
        for (uint32_t j = 0; j < crew->n; j++) {
            right += crew->dst[i][j] == block_of(j, i);
        }
        expect(right == crew->n, "alltoall's right blocks", right);
        free(crew->src[i]);
        free(crew->dst[i]);
    }
}

static void run_inline(const part_t *part) {
    for (uint64_t round = 1; round <= 10; round++) {
        check_barrier(part, round);
        check_bcast(part);
        check_allreduce(part);
    }
    uint32_t tries = 0;
    do { /* also who looks in vain works, while a busy machine runs no other thread */
        time_part(part, ROUNDS, barrier_args, "barrier");
    } while (!SANITIZED && part->crew->worked >= 10e-3 && ++tries < 5);
    if (part->first == 0 && !SANITIZED) {
        expect(part->crew->worked < 10e-3, "processor seconds per barrier", part->crew->worked);
    }
    time_part(part, ROUNDS, allreduce_args, "allreduce");
    time_part(part, ROUNDS, bcast_args, "bcast");
}

/* --- tasks: heddle_group ---------------------------------------------------------------------- */

static void join_part(const part_t *part) {
    crew_t *crew = part->crew;
    for (uint32_t i = part->first; i < part->end; i++) {
        must(heddle_join(crew->group, i, &crew->endpoints[i]), "heddle_join");
        crew->teams[i] = heddle_ep_team(crew->endpoints[i]);
        crew->contexts[i] = heddle_ep_context(crew->endpoints[i]);
    }
}

static void drive_tasks(void *arg, uint32_t thread) {
    crew_t *crew = arg;
    part_t part = part_of(crew, thread);
    size_t before = resident_bytes();
    pthread_barrier_wait(&crew->meeting);
    double began = test_now(), worked = processor_seconds();
    if (thread == 0) {
        heddle_group_params_t params = {.endpoints = crew->n,
                                        .contexts = crew->own_contexts ? 0 : crew->threads};
        must(heddle_group_create(&params, &crew->group), "heddle_group_create");
    }
    pthread_barrier_wait(&crew->meeting);
    join_part(&part);
    pthread_barrier_wait(&crew->meeting);
    double seconds = test_now() - began;
    worked = processor_seconds() - worked;
    run_inline(&part);
    if (thread == 0) {
        double each = (double)(resident_bytes() - before) / crew->n;
        printf("  created in %.3f s, of which at work %.3f s; %.0f bytes per endpoint\n", seconds,
               worked, each);
        expect(SANITIZED || worked < 2.0, "processor seconds to create the team", worked);
        expect(SANITIZED || crew->n < TASKS || each <= BYTES_PER_ENDPOINT, "bytes per endpoint",
               each);
    }
    pthread_barrier_wait(&crew->meeting);
    check_alltoall(&part);
    pthread_barrier_wait(&crew->meeting); /* an endpoint's memory goes when the last one leaves */
    for (uint32_t i = part.first; i < part.end; i++) {
        must(heddle_leave(crew->endpoints[i]), "heddle_leave");
    }
}

/* A multiple of the threads, so that each context's endpoints are one thread's. */
static void tasks(bool own_contexts) {
    uint32_t n = (scaled(TASKS) + THREADS - 1) / THREADS * THREADS;
    crew_t crew = {.n = n, .threads = THREADS, .own_contexts = own_contexts};
    printf("%" PRIu32 " tasks on %d threads, %s\n", crew.n, THREADS,
           own_contexts ? "a context each" : "a context per thread");
    crew_init(&crew);
    driver_threads(THREADS, drive_tasks, &crew);
    must(heddle_group_destroy(crew.group), "heddle_group_destroy");
    crew_free(&crew);
}

/* --- plain UCC -------------------------------------------------------------------------------- */

static void plain_ucc(void) {
    crew_t crew = {.n = scaled(PLAIN_ENDPOINTS), .threads = 1, .own_contexts = true};
    printf("%" PRIu32 " endpoints by UCC's calls and an exchange, one thread\n", crew.n);
    crew_init(&crew);
    double began = test_now();
    world_t *world = world_create(&(world_params_t){.size = crew.n, .form = WORLD_OOB});
    double seconds = test_now() - began;
    printf("  created in %.3f s: %.1f us per endpoint\n", seconds, seconds * 1e6 / crew.n);
    for (uint32_t i = 0; i < crew.n; i++) {
        crew.teams[i] = world->teams[i];
        crew.contexts[i] = world_context(world, i);
    }
    part_t part = part_of(&crew, 0);
    run_inline(&part);
    check_alltoall(&part);
    began = test_now();
    world_destroy(world);
    printf("  destroyed in %.3f s\n", test_now() - began);
    crew_free(&crew);
}

/* Each part in a process of its own, so that memory is counted from nothing. */
static bool run_in_child(uint32_t part) {
    if (part < 2) {
        tasks(part == 1);
    } else {
        plain_ucc();
    }
    uint64_t wrong = atomic_load_explicit(&failures, memory_order_relaxed); // all threads are gone
    return wrong == 0;
}

int main(void) {
    bool good = true;
    for (uint32_t part = 0; part < 3; part++) {
        good = placed_run("", run_in_child, part) && good;
    }
    return good ? 0 : 1;
}
