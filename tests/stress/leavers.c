/* leavers.c: endpoints that leave while others go on, and that give up while their team is formed.
 * Whoever is left gets a status, never a wait without end; what all took part in before is right.
 */
#include "stress.h"

#include "../support/driver.h"
#include "../support/oob.h"
#include "../support/random.h"
#include "../support/world.h"

#include <heddle/heddle.h>
#include <sched.h>

enum { MOST = 6 };

static void pause_at_random(uint64_t *random) {
    uint64_t r = random_below(random, 32);
    if (r == 0) {
        nanosleep(&(struct timespec){.tv_nsec = (long)random_below(random, 2000000)}, NULL);
    } else if (r < 8) {
        sched_yield();
    }
}

/* --- leaving ---------------------------------------------------------------------------------- */

typedef struct leaving {
    heddle_group_t *group;
    uint32_t n, least;    /* of all limits */
    uint32_t limit[MOST]; /* operations after which an endpoint leaves */
    uint64_t seed;
} leaving_t;

static ucc_status_t one(heddle_ep_t *ep, uint32_t k, uint32_t n) {
    if (k % 3 == 0) {
        return heddle_barrier(ep);
    }
    uint64_t x = k;
    ucc_status_t status = heddle_allreduce(ep, HEDDLE_IN_PLACE, &x, 1, UCC_DT_UINT64, UCC_OP_SUM);
    if (status == UCC_OK && x != (uint64_t)k * n) {
        stress_expect(UCC_ERR_LAST, UCC_OK, "a wrong sum");
    }
    return status;
}

static void leaving_thread(void *arg, uint32_t e) {
    leaving_t *run = arg;
    uint64_t random = run->seed + e;
    heddle_ep_t *ep;
    ucc_status_t status = UCC_OK;
    uint32_t k = 0;
    stress_expect(heddle_join(run->group, e, &ep), UCC_OK, "join");
    while (k < run->limit[e] && status == UCC_OK) {
        pause_at_random(&random);
        status = one(ep, ++k, run->n);
    }
    if (status == UCC_OK && k > run->least) {
        stress_expect(UCC_ERR_LAST, UCC_ERR_NOT_FOUND, "an operation without one that has left");
    } else if (status != UCC_OK) {
        stress_expect(status, UCC_ERR_NOT_FOUND, "an operation");
    }
    stress_expect(heddle_leave(ep), UCC_OK, "leave");
}

static void leaving(uint64_t rounds) {
    uint64_t random = 17;
    for (uint64_t i = 0; i < rounds; i++) {
        leaving_t run = {.n = 2 + (uint32_t)random_below(&random, MOST - 1), .seed = 100 * i};
        heddle_group_params_t params = {.endpoints = run.n};
        run.least = UINT32_MAX;
        for (uint32_t e = 0; e < run.n; e++) {
            run.limit[e] = 20 + (uint32_t)random_below(&random, 4);
            run.least = run.limit[e] < run.least ? run.limit[e] : run.least;
        }
        stress_expect(heddle_group_create(&params, &run.group), UCC_OK, "group");
        driver_threads(run.n, leaving_thread, &run);
        stress_expect(heddle_group_destroy(run.group), UCC_OK, "group");
    }
}

/* --- forming ---------------------------------------------------------------------------------- */

typedef struct forming {
    uint32_t n;
    uint64_t id;
    bool by_oob, contradicts, gives_up;
    uint32_t odd;  /* who does */
    uint32_t gone; /* it destroyed its handle while it was forming; written by it */
    oob_board_t *board;
    ucc_lib_h lib[MOST];
    ucc_context_h context[MOST];
    pthread_barrier_t posted; /* nobody is so late that all others have given up and gone */
    _Atomic uint32_t ready;
} forming_t;

static void forming_thread(void *arg, uint32_t e) {
    forming_t *run = arg;
    bool odd = e == run->odd;
    ucc_team_h team = NULL;
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_ID | UCC_TEAM_PARAM_FIELD_EP |
                                        UCC_TEAM_PARAM_FIELD_TEAM_SIZE,
                                .id = run->id,
                                .ep = e,
                                .team_size = run->n + (odd && run->contradicts)};
    if (run->by_oob) {
        params = (ucc_team_params_t){.mask = UCC_TEAM_PARAM_FIELD_OOB,
                                     .oob = oob_endpoint(run->board, e)};
    }
    ucc_status_t status = ucc_team_create_post(&run->context[e], 1, &params, &team);
    pthread_barrier_wait(&run->posted);
    if (status == UCC_OK) {
        do {
            status = ucc_team_create_test(team);
            if (status == UCC_INPROGRESS && odd && run->gives_up &&
                ucc_team_destroy(team) == UCC_OK) {
                status = UCC_ERR_NOT_FOUND;
                team = NULL;
                run->gone = 1; /* read when all threads have ended */
            }
            sched_yield();
        } while (status == UCC_INPROGRESS);
    }
    atomic_fetch_add(&run->ready, status == UCC_OK);
    if (team) {
        stress_expect(ucc_team_destroy(team), UCC_OK, "destroy");
    }
}

static void forming(uint64_t rounds) {
    uint64_t random = 23;
    for (uint64_t i = 0; i < rounds; i++) {
        forming_t run = {.n = 2 + (uint32_t)random_below(&random, 3), .id = 1000 + i};
        run.by_oob = random_below(&random, 2) == 0;
        run.contradicts = !run.by_oob && random_below(&random, 3) == 0;
        run.gives_up = random_below(&random, 2) == 0;
        run.odd = (uint32_t)random_below(&random, run.n);
        run.board = oob_board_create(run.n);
        pthread_barrier_init(&run.posted, NULL, run.n);
        for (uint32_t e = 0; e < run.n; e++) {
            run.lib[e] = world_lib(UCC_THREAD_SINGLE);
            run.context[e] = world_new_context(run.lib[e], UCC_CONTEXT_SHARED, NULL);
        }
        driver_threads(run.n, forming_thread, &run);
        uint32_t ready = atomic_load(&run.ready);
        /* who goes when all have joined has left a team; before, nobody gets one */
        if (ready != (run.contradicts ? 0 : run.n - run.gone) && (ready != 0 || !run.gives_up)) {
            fprintf(stderr, "%u of %u endpoints have a team\n", ready, run.n);
            stress_expect(UCC_ERR_LAST, UCC_OK, "forming");
        }
        for (uint32_t e = 0; e < run.n; e++) {
            stress_expect(ucc_context_destroy(run.context[e]), UCC_OK, "context");
            stress_expect(ucc_finalize(run.lib[e]), UCC_OK, "lib");
        }
        pthread_barrier_destroy(&run.posted);
        oob_board_destroy(run.board);
    }
}

int main(int argc, char **argv) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1); /* what is logged here is meant */
    stress_begin(argc, argv);
    stress_phase("endpoints that leave early", 120);
    leaving(stress_scaled(200));
    stress_phase("endpoints that give up while forming", 120);
    forming(stress_scaled(500));
    return stress_end();
}
