/* sleepers.c: heddle_wait parks, and no wake-up is lost.
 *
 * A wake-up that got lost would show as a wait that only ends with the longest sleep (100 ms, see
 * threads/runner.c), long after the peer has posted: waits are timed from the peer's post, or from
 * their beginning where that comes later, so that one long pause is one late wait. On a busy
 * machine a thread may be kept from running that long for other reasons, so a few in ten thousand
 * are tolerated; a protocol with a hole loses many more when delays are armed. Where a thread that
 * only sleeps, one on each processor, and has nothing to do with the library, wakes up late as
 * well, nothing is made of it.
 */
#include "stress.h"

#include "../support/driver.h"
#include "../support/random.h"

#include <sched.h>

enum { LATE_MS = 60, TOLERATED_PER_10000 = 5, BUSY_MS = 15 };

static _Atomic uint64_t waits, late;
/* Threads that only sleep, one on each of the first processors. */
static struct {
    pthread_t thread[256];
    cpu_set_t on[256];
    uint32_t n;
    _Atomic uint64_t overslept; /* how often any of them did */
    _Atomic bool over;
} only;

static uint64_t now_ns(void) {
    return (uint64_t)(test_now() * 1e9);
}

/* A wait that began at `began` ended now; what it waited for came at `posted`. */
static void note_wait(uint64_t began, uint64_t posted) {
    uint64_t now = now_ns();
    atomic_fetch_add(&waits, 1);
    if (now > (posted > began ? posted : began) + LATE_MS * 1000000ull) {
        atomic_fetch_add(&late, 1);
    }
}

/* arg: the processor's set. */
static void *only_sleep(void *arg) {
    if (pthread_setaffinity_np(pthread_self(), sizeof(cpu_set_t), arg) != 0) {
        stress_error("a thread that only sleeps is not on its processor");
    }
    while (!atomic_load(&only.over)) {
        uint64_t began = now_ns();
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (now_ns() - began > BUSY_MS * 1000000ull) {
            atomic_fetch_add(&only.overslept, 1);
        }
    }
    return arg;
}

static void begin_only_sleeping(void) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        stress_error("no list of processors");
        return;
    }
    for (size_t i = 0; i < CPU_SETSIZE && only.n < 256; i++) {
        if (!CPU_ISSET(i, &allowed)) {
            continue;
        }
        CPU_SET(i, &only.on[only.n]);
        if (pthread_create(&only.thread[only.n], NULL, only_sleep, &only.on[only.n]) != 0) {
            stress_error("no thread that only sleeps");
            return;
        }
        only.n++;
    }
}

static void end_only_sleeping(void) {
    atomic_store(&only.over, true);
    for (uint32_t i = 0; i < only.n; i++) {
        pthread_join(only.thread[i], NULL);
    }
}

/* Some yields, but not for long: among other programs' threads each may take milliseconds. */
static void pause_at_random(uint64_t *random) {
    enum { LONGEST_NS = 150000 };
    uint64_t r = random_below(random, 16);
    if (r < 4) {
        nanosleep(&(struct timespec){.tv_nsec = (long)random_below(random, LONGEST_NS)}, NULL);
    } else if (r < 10) {
        uint64_t until = now_ns() + LONGEST_NS;
        for (uint64_t i = random_below(random, 400); i && now_ns() < until; i--) {
            sched_yield();
        }
    }
}

static ucc_coll_req_h posted_barrier(ucc_team_h team) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
    ucc_coll_req_h request;
    must(ucc_collective_init(&args, &request, team), "init");
    must(ucc_collective_post(request), "post");
    return request;
}

static void wait_and_finalize(ucc_coll_req_h request) {
    stress_expect(heddle_wait(request, -1), UCC_OK, "heddle_wait");
    stress_expect(ucc_collective_finalize(request), UCC_OK, "finalize");
}

/* Its last peer stores the time at which it posts into *posted. */
static void time_wait(ucc_coll_req_h request, const _Atomic uint64_t *posted) {
    uint64_t began = now_ns();
    wait_and_finalize(request);
    note_wait(began, atomic_load(posted));
}

/* --- a late peer ------------------------------------------------------------------------------ */

typedef struct pair {
    world_t *world;
    uint64_t rounds;
    uint32_t n;
    _Atomic uint64_t posted[8]; /* by endpoint: when it posted last */
} pair_t;

static void late_peer_thread(void *arg, uint32_t e) {
    pair_t *run = arg;
    uint64_t random = e + 99;
    for (uint64_t i = 0; i < run->rounds; i++) {
        bool waiter = i % run->n != e; /* one endpoint is late, in turns */
        if (!waiter) {
            pause_at_random(&random);
            atomic_store(&run->posted[i % 8], now_ns());
        }
        ucc_coll_req_h request = posted_barrier(run->world->teams[e]);
        if (waiter) {
            time_wait(request, &run->posted[i % 8]);
        } else {
            wait_and_finalize(request);
        }
    }
}

static void late_peer(void) {
    pair_t run = {.world = world_create(&(world_params_t){.size = 3, .form = WORLD_OOB}),
                  .rounds = stress_scaled(10000),
                  .n = 3};
    driver_threads(run.n, late_peer_thread, &run);
    world_destroy(run.world);
}

/* --- a counter tree: 12 sleepers -------------------------------------------------------------- */

static void crowd_thread(void *arg, uint32_t e) {
    pair_t *run = arg;
    uint64_t random = e + 7;
    for (uint64_t i = 0; i < run->rounds; i++) {
        if (i % run->n == e) {
            pause_at_random(&random);
            atomic_store(&run->posted[i % 8], now_ns());
        }
        ucc_coll_req_h request = posted_barrier(run->world->teams[e]);
        if (i % run->n != e) {
            time_wait(request, &run->posted[i % 8]);
        } else {
            wait_and_finalize(request);
        }
    }
}

static void crowd(void) {
    pair_t run = {.world = world_create(&(world_params_t){.size = 12, .form = WORLD_OOB}),
                  .rounds = stress_scaled(2000),
                  .n = 12};
    driver_threads(run.n, crowd_thread, &run);
    world_destroy(run.world);
}

/* --- many teams on one context ---------------------------------------------------------------- */

/* The sleeper's context has work in TEAMS teams; it waits for one, and the peer of each posts in an
 * order of its own. With more teams than a sleeper has places on bells, it naps. */
enum { MAX_TEAMS = 24 };

typedef struct many {
    ucc_lib_h lib[2];
    ucc_context_h context[2];
    ucc_team_h team[MAX_TEAMS][2];
    oob_board_t *board[MAX_TEAMS];
    uint32_t teams;
    uint64_t rounds;
    _Atomic uint64_t posted[2][MAX_TEAMS]; /* by round's parity */
} many_t;

static void many_thread(void *arg, uint32_t e) {
    many_t *run = arg;
    uint64_t random = e * 31 + 5;
    ucc_coll_req_h request[MAX_TEAMS];
    for (uint64_t i = 0; i < run->rounds; i++) {
        uint32_t first = (uint32_t)random_below(&random, run->teams);
        for (uint32_t k = 0; k < run->teams; k++) {
            uint32_t t = (first + k) % run->teams;
            if (e == 1) {
                if (k % 4 == 0) {
                    pause_at_random(&random);
                }
                atomic_store(&run->posted[i % 2][t], now_ns());
            }
            request[t] = posted_barrier(run->team[t][e]);
        }
        for (uint32_t t = 0; t < run->teams; t++) {
            if (e == 0) {
                time_wait(request[t], &run->posted[i % 2][t]);
            } else {
                wait_and_finalize(request[t]);
            }
        }
    }
}

static void many_teams_of(uint32_t teams, uint64_t rounds) {
    many_t *run = must_alloc(1, sizeof(*run));
    run->teams = teams;
    run->rounds = rounds;
    for (uint32_t e = 0; e < 2; e++) {
        run->lib[e] = world_lib(UCC_THREAD_SINGLE);
        run->context[e] = world_new_context(run->lib[e], UCC_CONTEXT_SHARED, NULL);
    }
    for (uint32_t t = 0; t < teams; t++) {
        run->board[t] = oob_board_create(2);
        for (uint32_t e = 0; e < 2; e++) {
            ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB,
                                        .oob = oob_endpoint(run->board[t], e)};
            must(ucc_team_create_post(&run->context[e], 1, &params, &run->team[t][e]), "create");
        }
        world_finish_teams(2, run->team[t]);
    }
    driver_threads(2, many_thread, run);
    for (uint32_t t = 0; t < teams; t++) {
        world_destroy_team(run->team[t][0]);
        world_destroy_team(run->team[t][1]);
        oob_board_destroy(run->board[t]);
    }
    for (uint32_t e = 0; e < 2; e++) {
        must(ucc_context_destroy(run->context[e]), "context_destroy");
        must(ucc_finalize(run->lib[e]), "finalize");
    }
    free(run);
}

static void many_teams(void) {
    many_teams_of(8, stress_scaled(1500));
}

static void too_many_teams(void) {
    many_teams_of(MAX_TEAMS, stress_scaled(150));
}

/* --- several sleepers on one context ---------------------------------------------------------- */

/* All endpoints on one context, a thread each: any of them may complete any task. */
static void shared_sleepers(void) {
    pair_t run = {.world = world_create(
                      &(world_params_t){.size = 4, .form = WORLD_OOB, .shared_context = true}),
                  .rounds = stress_scaled(4000),
                  .n = 4};
    driver_threads(run.n, late_peer_thread, &run);
    world_destroy(run.world);
}

/* One of two threads on a context leaves it in every round, while the other waits there for a
 * third, which is on another context. */
typedef struct mixed {
    uint64_t rounds;
    ucc_lib_h lib[2];
    ucc_context_h context[2];
    oob_board_t *board[2];
    ucc_team_h a[2], b[2];
    pthread_barrier_t start;
    _Atomic uint64_t posted_a, posted_b;
} mixed_t;

/* Thread 0 waits on team a and thread 1 on team b, both on context 0; thread 2 is the peer of both,
 * on context 1. Whoever is served first goes and waits outside the library. */
static void mixed_thread(void *arg, uint32_t index) {
    mixed_t *run = arg;
    uint64_t random = index + 1234;
    for (uint64_t i = 0; i < run->rounds; i++) {
        pthread_barrier_wait(&run->start);
        if (index < 2) {
            time_wait(posted_barrier(index == 0 ? run->a[0] : run->b[0]),
                      index == 0 ? &run->posted_a : &run->posted_b);
            continue;
        }
        pause_at_random(&random);
        ucc_coll_req_h request[2];
        for (uint32_t k = 0; k < 2; k++) {
            bool is_a = (k + i) % 2 == 0;
            atomic_store(is_a ? &run->posted_a : &run->posted_b, now_ns());
            request[k] = posted_barrier(is_a ? run->a[1] : run->b[1]);
            pause_at_random(&random);
        }
        wait_and_finalize(request[0]);
        wait_and_finalize(request[1]);
    }
}

static void leaving_neighbour(void) {
    mixed_t run = {.rounds = stress_scaled(10000)};
    pthread_barrier_init(&run.start, NULL, 3);
    for (uint32_t c = 0; c < 2; c++) {
        run.lib[c] = world_lib(UCC_THREAD_MULTIPLE);
        run.context[c] = world_new_context(run.lib[c], UCC_CONTEXT_SHARED, NULL);
    }
    for (uint32_t t = 0; t < 2; t++) {
        ucc_team_h *team = t == 0 ? run.a : run.b;
        run.board[t] = oob_board_create(2);
        for (uint32_t e = 0; e < 2; e++) {
            ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB,
                                        .oob = oob_endpoint(run.board[t], e)};
            must(ucc_team_create_post(&run.context[e], 1, &params, &team[e]), "create");
        }
        world_finish_teams(2, team);
    }
    driver_threads(3, mixed_thread, &run);
    for (uint32_t t = 0; t < 2; t++) {
        world_destroy_team(run.a[t]);
        world_destroy_team(run.b[t]);
        oob_board_destroy(run.board[t]);
    }
    for (uint32_t c = 0; c < 2; c++) {
        must(ucc_context_destroy(run.context[c]), "context_destroy");
        must(ucc_finalize(run.lib[c]), "finalize");
    }
    pthread_barrier_destroy(&run.start);
}

/* --- what sleeping costs ---------------------------------------------------------------------- */

static void idle_thread(void *arg, uint32_t e) {
    world_t *world = arg;
    if (e == 0) {
        nanosleep(&(struct timespec){.tv_nsec = 600000000}, NULL);
        wait_and_finalize(posted_barrier(world->teams[0]));
        return;
    }
    double cpu = stress_cpu(), began = test_now();
    wait_and_finalize(posted_barrier(world->teams[e]));
    cpu = stress_cpu() - cpu;
    double seconds = test_now() - began;
    if (!STRESS_TSAN && cpu > 0.02 * seconds + 0.002) {
        stress_error("a sleeper used %.1f ms of processor time in %.0f ms", cpu * 1e3,
                     seconds * 1e3);
    }
}

static void idle_costs(void) {
    world_t *world = world_create(&(world_params_t){.size = 6, .form = WORLD_OOB});
    driver_threads(6, idle_thread, world);
    world_destroy(world);
    world = world_create(&(world_params_t){.size = 6, .form = WORLD_OOB, .shared_context = true});
    driver_threads(6, idle_thread, world);
    world_destroy(world);
}

typedef struct timed {
    world_t *world;
    _Atomic bool timed_out; /* endpoint 1's wait has: endpoint 0 may come */
} timed_t;

/* A time-out leaves the request going on. */
static void timeouts_thread(void *arg, uint32_t e) {
    timed_t *run = arg;
    while (e == 0 && !atomic_load(&run->timed_out)) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    ucc_coll_req_h request = posted_barrier(run->world->teams[e]);
    if (e == 1) {
        double began = test_now();
        stress_expect(heddle_wait(request, 0.03), UCC_INPROGRESS, "a wait of 30 ms");
        if (test_now() - began < 0.029) {
            stress_error("a wait of 30 ms came back after %.1f ms", (test_now() - began) * 1e3);
        }
        atomic_store(&run->timed_out, true);
    }
    wait_and_finalize(request);
}

static void timeouts(void) {
    timed_t run = {.world = world_create(&(world_params_t){.size = 2, .form = WORLD_OOB})};
    driver_threads(2, timeouts_thread, &run);
    world_destroy(run.world);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } part[] = {
        {"a late peer", late_peer},
        {"a crowd", crowd},
        {"many teams on a context", many_teams},
        {"too many teams on a context", too_many_teams},
        {"sleepers share a context", shared_sleepers},
        {"a neighbour leaves", leaving_neighbour},
        {"what sleeping costs", idle_costs},
        {"time-outs", timeouts},
    };
    setenv("HEDDLE_PARK_SPIN_US", "1", 1); /* sleep soon: that is what is tested */
    stress_begin(argc, argv);
    begin_only_sleeping();
    double began = test_now();
    uint64_t total = 0, total_late = 0;
    for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
        double start = test_now();
        stress_phase(part[i].name, 120);
        stress_delays(977 + (uint32_t)i);
        atomic_store(&waits, 0);
        atomic_store(&late, 0);
        uint64_t before = atomic_load(&only.overslept);
        part[i].run();
        uint64_t n = atomic_load(&waits), n_late = atomic_load(&late);
        bool busy = atomic_load(&only.overslept) != before;
        printf("%-28s %7llu waits, %llu late%s, %6.2f s\n", part[i].name, (unsigned long long)n,
               (unsigned long long)n_late, busy ? " (the machine is busy)" : "",
               test_now() - start);
        fflush(stdout);
        if (!STRESS_TSAN && !busy && n_late * 10000 > TOLERATED_PER_10000 * n + 20000) {
            stress_error("%llu of %llu waits ended more than %d ms after the peer's post",
                         (unsigned long long)n_late, (unsigned long long)n, LATE_MS);
        }
        total += n;
        total_late += n_late;
    }
    end_only_sleeping();
    printf("sleepers: %llu waits, %llu of them late, %.1f s\n", (unsigned long long)total,
           (unsigned long long)total_late, test_now() - began);
    return stress_end();
}
