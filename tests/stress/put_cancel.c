/* put_cancel.c: one-sided collectives that fail while their sources write: time-outs, aborts,
 * endpoints that leave, and sources that come late. Each endpoint gives memory of its own to the
 * team, and unmaps it as soon as its request reports the failure, or it has left: a write after
 * that ends the program.
 */
#include "stress.h"

#include <heddle/heddle.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../support/random.h"

enum { THREADS = 3, BLOCK = 300000, BYTES = BLOCK * THREADS, MOST_OPERATIONS = 6 };

typedef struct round {
    uint64_t id, seed;
    ucc_coll_type_t type;
    enum { SETS_A_TIME_OUT, ABORTS, LEAVES } way; /* of one endpoint */
    pthread_barrier_t *gate;
} round_t;

typedef struct place {
    round_t round;
    ucc_context_h context;
    uint32_t me;
} place_t;

static ucc_team_h form(const place_t *at, void *memory) {
    ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_TEAM_SIZE | UCC_TEAM_PARAM_FIELD_ID |
                                        UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE,
                                .team_size = THREADS,
                                .id = at->round.id,
                                .ep = at->me,
                                .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG};
    heddle_team_params_t extra = {.mask = HEDDLE_TEAM_PARAM_FIELD_MEMORY};
    extra.memory.address = memory;
    extra.memory.bytes = BYTES;
    ucc_team_h team;
    ucc_context_h context = at->context;
    deadline_t deadline = deadline_start("forming");
    must(heddle_team_create_post(&context, 1, &params, &extra, &team), "create_post");
    while (ucc_team_create_test(team) == UCC_INPROGRESS) {
        deadline_poll(&deadline);
    }
    return team;
}

/* The final status; the request is gone. */
static ucc_status_t run(const place_t *at, ucc_team_h team, uint8_t *memory, const uint8_t *source,
                        double timeout) {
    bool is_bcast = at->round.type == UCC_COLL_TYPE_BCAST;
    bool is_alltoall = at->round.type == UCC_COLL_TYPE_ALLTOALL;
    ucc_coll_req_h request;
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = HEDDLE_COLL_FLAG_SYMMETRIC | HEDDLE_COLL_FLAG_READY,
                            .coll_type = at->round.type,
                            .root = at->round.seed % THREADS};
    if (timeout > 0) {
        args.flags |= UCC_COLL_ARGS_FLAG_TIMEOUT;
        args.timeout = timeout;
    }
    args.src.info = (ucc_coll_buffer_info_t){is_bcast ? memory : (void *)(uintptr_t)source,
                                             is_bcast || is_alltoall ? BYTES : BLOCK, UCC_DT_INT8,
                                             UCC_MEMORY_TYPE_HOST};
    args.dst.info = (ucc_coll_buffer_info_t){memory, BYTES, UCC_DT_INT8, UCC_MEMORY_TYPE_HOST};
    must(ucc_collective_init(&args, &request, team), "init");
    (void)ucc_collective_post(request);
    ucc_status_t status = heddle_wait(request, 60);
    must(ucc_collective_finalize(request), "finalize");
    return status;
}

static void destroy(ucc_team_h team) {
    deadline_t deadline = deadline_start("destroying");
    ucc_status_t status;
    while ((status = ucc_team_destroy(team)) == UCC_INPROGRESS) {
        deadline_poll(&deadline);
    }
    must(status, "destroy");
}

static void *endpoint(void *arg) {
    const place_t *at = arg;
    uint64_t random = at->round.seed * 31 + at->me;
    bool breaks = at->me == at->round.seed / 7 % THREADS;
    uint8_t *source = must_alloc(BYTES, 1);
    uint8_t *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ucc_team_h team = form(at, memory);
    ucc_status_t status = UCC_OK;
    pthread_barrier_wait(at->round.gate);
    for (uint32_t i = 0; i < MOST_OPERATIONS && status == UCC_OK; i++) {
        if (random_below(&random, 3) == 0) {
            usleep((useconds_t)random_below(&random, 300));
        }
        bool now = breaks && i > 0;
        if (now && at->round.way == LEAVES) {
            destroy(team);
            team = NULL;
            status = UCC_ERR_NOT_FOUND;
            break;
        }
        if (now && at->round.way == ABORTS) {
            must(heddle_team_abort(team), "abort");
        }
        double timeout = 1e-6 * (double)(1 + random_below(&random, 300));
        status =
            run(at, team, memory, source, now && at->round.way == SETS_A_TIME_OUT ? timeout : 0);
    }
    if (status != UCC_OK) {
        munmap(memory, BYTES); /* at once: nobody touches it any more */
    }
    if (status == UCC_INPROGRESS) {
        stress_error("endpoint %u hangs", at->me);
    }
    pthread_barrier_wait(at->round.gate);
    if (team) {
        destroy(team);
    }
    if (status == UCC_OK) {
        munmap(memory, BYTES);
    }
    free(source);
    return NULL;
}

static void run_round(uint64_t number, const ucc_context_h context[]) {
    static const ucc_coll_type_t types[] = {UCC_COLL_TYPE_BCAST, UCC_COLL_TYPE_ALLGATHER,
                                            UCC_COLL_TYPE_ALLTOALL};
    pthread_barrier_t gate;
    pthread_t thread[THREADS];
    place_t place[THREADS];
    uint64_t random = number + 1;
    round_t round = {.id = number,
                     .seed = random_next(&random),
                     .type = types[number % 3],
                     .way = number / 3 % 3,
                     .gate = &gate};
    pthread_barrier_init(&gate, NULL, THREADS);
    for (uint32_t i = 0; i < THREADS; i++) {
        place[i] = (place_t){round, context[i], i};
        pthread_create(&thread[i], NULL, endpoint, &place[i]);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    pthread_barrier_destroy(&gate);
}

int main(int argc, char **argv) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    stress_begin(argc, argv);
    ucc_lib_params_t params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
                               .thread_mode = UCC_THREAD_MULTIPLE};
    ucc_lib_h lib;
    ucc_context_h context[THREADS];
    must(ucc_init(&params, NULL, &lib), "ucc_init");
    for (uint32_t i = 0; i < THREADS; i++) {
        ucc_context_params_t cp = {.mask = UCC_CONTEXT_PARAM_FIELD_TYPE,
                                   .type = UCC_CONTEXT_SHARED};
        must(ucc_context_create(lib, &cp, NULL, &context[i]), "ucc_context_create");
    }
    uint64_t rounds = stress_scaled(1200);
    stress_phase("sources that are late or inside", 240);
    for (uint64_t i = 0; i < rounds; i++) {
        if (stress.seed == 0 && i == rounds / 2) {
            hd_delay_arm(77);
        }
        run_round(i, context);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        must(ucc_context_destroy(context[i]), "ucc_context_destroy");
    }
    must(ucc_finalize(lib), "ucc_finalize");
    return stress_end();
}
