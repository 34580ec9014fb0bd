/* thread_multiple.c: what may run concurrently, each promise as a stress of its own.
 *
 *   separate        threads with libraries, contexts and teams of their own
 *   one_context     several threads post, test, progress and finalize on one context
 *   handed_over     a thread completes and finalizes what another posted
 *   tagged_handle   several threads post tagged collectives on one handle
 *   creation        teams come and go in all ways while others communicate
 *   chained         a callback finalizes its request and starts the next collective
 *   churn           libraries, contexts and teams are created, used once, and destroyed
 */
#include "stress.h"

#include "../support/driver.h"
#include "../support/random.h"

#include <sched.h>

static uint32_t run_seed;

static ucc_coll_args_t allreduce_args(uint64_t *src, uint64_t *dst, size_t words) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLREDUCE, .op = UCC_OP_SUM};
    args.src.info = (ucc_coll_buffer_info_t){src, words, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
    args.dst.info = (ucc_coll_buffer_info_t){dst, words, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
    return args;
}

static uint64_t value_of(uint64_t round, uint32_t endpoint) {
    return round * 1000003u + endpoint * 17u + 1;
}

static uint64_t sum_of(uint64_t round, uint32_t size) {
    uint64_t sum = 0;
    for (uint32_t e = 0; e < size; e++) {
        sum += value_of(round, e);
    }
    return sum;
}

static void finish(ucc_coll_req_h request, ucc_context_h context) {
    ucc_status_t status;
    while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        ucc_context_progress(context);
    }
    stress_expect(status, UCC_OK, "status");
    stress_expect(ucc_collective_finalize(request), UCC_OK, "finalize");
}

/* One allreduce of an endpoint; every 16th is large enough for the chunk engine. */
static void allreduce(ucc_team_h team, ucc_context_h context, uint32_t endpoint, uint32_t size,
                      uint64_t round, const uint16_t *tag) {
    enum { LARGE = 4096 };
    uint64_t src[LARGE], dst[LARGE];
    size_t words = round % 16 == 0 ? LARGE : round % 4 == 0 ? 40 : 2;
    ucc_coll_args_t args = allreduce_args(src, dst, words);
    ucc_coll_req_h request;
    for (size_t i = 0; i < words; i++) {
        src[i] = value_of(round + i, endpoint);
    }
    if (tag != NULL) {
        args.mask |= UCC_COLL_ARGS_FIELD_TAG;
        args.tag = *tag;
    }
    must(ucc_collective_init(&args, &request, team), "init");
    must(ucc_collective_post(request), "post");
    finish(request, context);
    for (size_t i = 0; i < words; i++) {
        if (dst[i] != sum_of(round + i, size)) {
            stress_error("allreduce %llu at endpoint %u: word %zu of %zu is wrong",
                         (unsigned long long)round, endpoint, i, words);
            break;
        }
    }
}

/* A team of endpoints that share `context` or have one each. */
static world_t *new_world(uint32_t size, bool shared, world_form_t form) {
    return world_create(&(world_params_t){.size = size, .form = form, .shared_context = shared});
}

/* --- separate --------------------------------------------------------------------------------- */

enum { PAIRS = 3 };

typedef struct separate {
    world_t *world[PAIRS];
    uint64_t rounds;
} separate_t;

static void separate_thread(void *arg, uint32_t index) {
    separate_t *run = arg;
    world_t *world = run->world[index / 2];
    uint32_t e = index % 2;
    for (uint64_t i = 0; i < run->rounds; i++) {
        allreduce(world->teams[e], world_context(world, e), e, 2, i, NULL);
    }
}

static void separate(void) {
    separate_t run = {.rounds = stress_scaled(20000)};
    for (uint32_t p = 0; p < PAIRS; p++) {
        run.world[p] = new_world(2, false, (world_form_t)p);
    }
    driver_threads(2 * PAIRS, separate_thread, &run);
    for (uint32_t p = 0; p < PAIRS; p++) {
        world_destroy(run.world[p]);
    }
}

/* --- one context ------------------------------------------------------------------------------ */

enum { SHARERS = 6 };

typedef struct one_context {
    world_t *world;
    uint64_t rounds;
} one_context_t;

static void one_context_thread(void *arg, uint32_t e) {
    one_context_t *run = arg;
    for (uint64_t i = 0; i < run->rounds; i++) {
        allreduce(run->world->teams[e], run->world->contexts[0], e, SHARERS, i, NULL);
    }
}

static void one_context(void) {
    one_context_t run = {.world = new_world(SHARERS, true, WORLD_OOB),
                         .rounds = stress_scaled(10000)};
    driver_threads(SHARERS, one_context_thread, &run);
    world_destroy(run.world);
}

/* --- handed over ------------------------------------------------------------------------------ */

/* Endpoint e is posted by thread 2e and completed by thread 2e + 1, through a ring of requests. */
enum { HANDED_ENDPOINTS = 3, RING = 64 };

typedef struct handed {
    world_t *world;
    uint64_t rounds;
    struct hand {
        _Atomic(ucc_coll_req_h) request;
        uint64_t src, dst;
    } ring[HANDED_ENDPOINTS][RING];
} handed_t;

static void handed_poster(handed_t *run, uint32_t e) {
    for (uint64_t i = 0; i < run->rounds; i++) {
        struct hand *h = &run->ring[e][i % RING];
        while (atomic_load_explicit(&h->request, memory_order_acquire) != NULL) {
            sched_yield();
        }
        h->src = value_of(i, e);
        ucc_coll_args_t args = allreduce_args(&h->src, &h->dst, 1);
        ucc_coll_req_h request;
        must(ucc_collective_init(&args, &request, run->world->teams[e]), "init");
        must(ucc_collective_post(request), "post");
        atomic_store_explicit(&h->request, request, memory_order_release);
    }
}

static void handed_finisher(handed_t *run, uint32_t e) {
    for (uint64_t i = 0; i < run->rounds; i++) {
        struct hand *h = &run->ring[e][i % RING];
        ucc_coll_req_h request;
        while ((request = atomic_load_explicit(&h->request, memory_order_acquire)) == NULL) {
            ucc_context_progress(run->world->contexts[0]);
        }
        finish(request, run->world->contexts[0]);
        if (h->dst != sum_of(i, HANDED_ENDPOINTS)) {
            stress_error("handed over: result %llu is wrong", (unsigned long long)i);
        }
        atomic_store_explicit(&h->request, NULL, memory_order_release);
    }
}

static void handed_thread(void *arg, uint32_t index) {
    if (index % 2 == 0) {
        handed_poster(arg, index / 2);
    } else {
        handed_finisher(arg, index / 2);
    }
}

static void handed_over(void) {
    handed_t *run = must_alloc(1, sizeof(*run));
    run->world = new_world(HANDED_ENDPOINTS, true, WORLD_OOB);
    run->rounds = stress_scaled(20000);
    driver_threads(2 * HANDED_ENDPOINTS, handed_thread, run);
    world_destroy(run->world);
    free(run);
}

/* --- tagged posts on one handle --------------------------------------------------------------- */

enum { TAG_ENDPOINTS = 2, TAG_THREADS = 3 };

static void tagged_thread(void *arg, uint32_t index) {
    one_context_t *run = arg;
    uint32_t e = index % TAG_ENDPOINTS;
    uint16_t tag = (uint16_t)(index / TAG_ENDPOINTS * 1000u);
    for (uint64_t i = 0; i < run->rounds; i++) {
        allreduce(run->world->teams[e], run->world->contexts[0], e, TAG_ENDPOINTS, i, &tag);
    }
}

static void tagged_handle(void) {
    one_context_t run = {.world = new_world(TAG_ENDPOINTS, true, WORLD_OOB),
                         .rounds = stress_scaled(8000)};
    driver_threads(TAG_ENDPOINTS * TAG_THREADS, tagged_thread, &run);
    world_destroy(run.world);
}

/* --- creation while others communicate -------------------------------------------------------- */

enum { MAKERS = 3 };

typedef struct creation {
    world_t *talking;
    world_t *home[MAKERS]; /* parents of derived teams, one endpoint's thread each pair */
    uint64_t rounds;
    _Atomic uint32_t makers_left;
} creation_t;

/* Both endpoints of a pair are driven by the maker's thread. */
static void use_pair(ucc_team_h *teams, const world_t *world, uint64_t round) {
    uint64_t src[2], dst[2];
    ucc_coll_req_h request[2];
    for (uint32_t e = 0; e < 2; e++) {
        src[e] = value_of(round, e);
        ucc_coll_args_t args = allreduce_args(&src[e], &dst[e], 1);
        must(ucc_collective_init(&args, &request[e], teams[e]), "init");
        must(ucc_collective_post(request[e]), "post");
    }
    for (uint32_t e = 0; e < 2; e++) {
        finish(request[e], world_context(world, e));
        if (dst[e] != sum_of(round, 2)) {
            stress_error("a new team's allreduce is wrong");
        }
    }
}

static void derive(const world_t *world, uint64_t round) {
    ucc_team_h teams[2];
    for (uint32_t e = 0; e < 2; e++) {
        must(ucc_team_create_from_parent(e, 1, world->teams[e], &teams[e]), "create_from_parent");
    }
    world_finish_teams(2, teams);
    use_pair(teams, world, round);
    for (uint32_t e = 0; e < 2; e++) {
        world_destroy_team(teams[e]);
    }
}

static void creation_thread(void *arg, uint32_t index) {
    creation_t *run = arg;
    if (index < MAKERS) {
        for (uint64_t i = 0; i < run->rounds; i++) {
            world_t *world = new_world(2, index == 0, (world_form_t)(i % 2 ? WORLD_ID : WORLD_OOB));
            use_pair(world->teams, world, i);
            world_destroy(world);
            derive(run->home[index], i);
        }
        atomic_fetch_sub(&run->makers_left, 1);
        return;
    }
    uint32_t e = index - MAKERS;
    /* both talkers stop after the same round: endpoint 0 says when, in the data */
    for (uint64_t i = 0, last = 0; !last; i++) {
        uint64_t stop = e == 0 && atomic_load(&run->makers_left) == 0;
        ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BCAST, .root = 0};
        ucc_coll_req_h request;
        args.src.info = (ucc_coll_buffer_info_t){&stop, 1, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
        must(ucc_collective_init(&args, &request, run->talking->teams[e]), "init");
        must(ucc_collective_post(request), "post");
        finish(request, world_context(run->talking, e));
        allreduce(run->talking->teams[e], world_context(run->talking, e), e, 2, i, NULL);
        last = stop;
    }
}

static void creation(void) {
    creation_t run = {.talking = new_world(2, false, WORLD_OOB), .rounds = stress_scaled(600)};
    atomic_init(&run.makers_left, MAKERS);
    for (uint32_t i = 0; i < MAKERS; i++) {
        run.home[i] = new_world(2, false, WORLD_EP_MAP);
    }
    driver_threads(MAKERS + 2, creation_thread, &run);
    for (uint32_t i = 0; i < MAKERS; i++) {
        world_destroy(run.home[i]);
    }
    world_destroy(run.talking);
}

/* --- chains of callbacks ---------------------------------------------------------------------- */

enum { CHAINS = 8, CHAIN_ENDPOINTS = 3 };

typedef struct chain {
    world_t *world;
    uint32_t endpoint, tag;
    uint64_t round, rounds;
    uint64_t src, dst;
    ucc_coll_req_h request;
    _Atomic uint32_t over;
} chain_t;

static void chain_start(chain_t *c);

static void chain_next(void *data, ucc_status_t status) {
    chain_t *c = data;
    stress_expect(status, UCC_OK, "callback's status");
    if (c->dst != sum_of(c->round, CHAIN_ENDPOINTS)) {
        stress_error("chained: round %llu of tag %u is wrong", (unsigned long long)c->round,
                     c->tag);
    }
    stress_expect(ucc_collective_finalize(c->request), UCC_OK, "finalize in the callback");
    if (++c->round == c->rounds) {
        atomic_store_explicit(&c->over, 1, memory_order_release);
    } else if (c->round % 100 != 0) { /* bounds the depth of a recursion through post */
        chain_start(c);
    } else {
        atomic_store_explicit(&c->over, 2, memory_order_release);
    }
}

static void chain_start(chain_t *c) {
    c->src = value_of(c->round, c->endpoint);
    ucc_coll_args_t args = allreduce_args(&c->src, &c->dst, 1);
    args.mask = UCC_COLL_ARGS_FIELD_CB | UCC_COLL_ARGS_FIELD_TAG;
    args.tag = (uint16_t)c->tag;
    args.cb = (ucc_coll_callback_t){.cb = chain_next, .data = c};
    must(ucc_collective_init(&args, &c->request, c->world->teams[c->endpoint]), "init");
    must(ucc_collective_post(c->request), "post");
}

static void chain_thread(void *arg, uint32_t e) {
    chain_t(*chain)[CHAINS] = arg;
    for (uint32_t t = 0; t < CHAINS; t++) {
        chain_start(&chain[e][t]);
    }
    for (uint32_t t = 0; t < CHAINS;) {
        chain_t *c = &chain[e][t];
        uint32_t over = atomic_load_explicit(&c->over, memory_order_acquire);
        if (over == 1) {
            t++;
        } else if (over == 2) {
            atomic_store(&c->over, 0);
            chain_start(c);
        } else {
            ucc_context_progress(world_context(c->world, e));
        }
    }
}

static void chained(void) {
    for (uint32_t shared = 0; shared < 2; shared++) {
        world_t *world = new_world(CHAIN_ENDPOINTS, shared != 0, WORLD_OOB);
        chain_t(*chain)[CHAINS] = must_alloc(CHAIN_ENDPOINTS, sizeof(*chain));
        for (uint32_t e = 0; e < CHAIN_ENDPOINTS; e++) {
            for (uint32_t t = 0; t < CHAINS; t++) {
                chain[e][t] = (chain_t){.world = world, .endpoint = e, .tag = t};
                chain[e][t].rounds = stress_scaled(2000);
            }
        }
        driver_threads(CHAIN_ENDPOINTS, chain_thread, chain);
        world_destroy(world);
        free(chain);
    }
}

/* --- churn ------------------------------------------------------------------------------------ */

typedef struct churn {
    oob_board_t *board;
    uint64_t rounds;
} churn_t;

/* Every thread is an endpoint of one team after the other, and leaves without waiting. */
static void churn_thread(void *arg, uint32_t e) {
    churn_t *run = arg;
    for (uint64_t i = 0; i < run->rounds; i++) {
        ucc_lib_h lib = world_lib(i % 2 ? UCC_THREAD_SINGLE : UCC_THREAD_MULTIPLE);
        ucc_context_h context = world_new_context(lib, UCC_CONTEXT_EXCLUSIVE, NULL);
        ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB,
                                    .oob = oob_endpoint(run->board, e)};
        ucc_team_h team;
        ucc_status_t status;
        must(ucc_team_create_post(&context, 1, &params, &team), "team_create_post");
        while ((status = ucc_team_create_test(team)) == UCC_INPROGRESS) {
            sched_yield();
        }
        must(status, "team_create_test");
        for (uint64_t k = 0; k < i % 5; k++) {
            allreduce(team, context, e, 4, i * 16 + k, NULL);
        }
        world_destroy_team(team);
        must(ucc_context_destroy(context), "context_destroy");
        must(ucc_finalize(lib), "finalize");
    }
}

static void churn(void) {
    churn_t run = {.board = oob_board_create(4), .rounds = stress_scaled(1500)};
    driver_threads(4, churn_thread, &run);
    oob_board_destroy(run.board);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } part[] = {
        {"separate", separate},
        {"one context", one_context},
        {"handed over", handed_over},
        {"tagged posts on one handle", tagged_handle},
        {"creation meanwhile", creation},
        {"chained callbacks", chained},
        {"churn", churn},
    };
    stress_begin(argc, argv);
    double began = test_now();
    for (run_seed = 0; run_seed < 2; run_seed++) {
        stress_delays(run_seed * 4711);
        for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
            double start = test_now();
            stress_phase(part[i].name, 60);
            part[i].run();
            printf("%-28s %s %6.2f s\n", part[i].name, run_seed ? "delays" : "      ",
                   test_now() - start);
            fflush(stdout);
        }
    }
    printf("thread_multiple: %zu promises in %.1f s\n", sizeof(part) / sizeof(part[0]),
           test_now() - began);
    return stress_end();
}
