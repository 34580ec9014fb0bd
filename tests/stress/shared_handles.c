/* shared_handles.c: 4 endpoints, each handle used by 8 threads at once: allgathers and allreduces
 * with completion callbacks, up to 1,000 outstanding per endpoint, on one context per endpoint and
 * on one for all. Every byte is verified by the callback, on whichever thread it comes.
 *
 *   tagged   in every batch each endpoint posts 1,000 operations in an order of its own, shared out
 *            among its threads; the callback finalizes
 *   owned    16-bit tags: thread t posts the tags that are t modulo 8, in an order of its own, and
 *            finalizes itself
 *   ordered  threads take turns in posting, as the specification asks
 */
#include "stress.h"

#include "../support/driver.h"
#include "../support/random.h"

enum {
    ENDPOINTS = 4,
    THREADS = 8, /* per endpoint */
    SLOTS = 1000,
    SHARE = SLOTS / THREADS,
    LARGEST = 24 * 1024,
    SMALL_MAX = 2048
};

typedef enum mode { MODE_TAGGED, MODE_OWNED, MODE_ORDERED } posting_t;

typedef struct slot {
    struct run *run;
    uint32_t endpoint;
    uint64_t key; /* which operation: equal at all endpoints */
    ucc_coll_req_h request;
    uint64_t *src, *dst;
    size_t words; /* per block */
    bool gathers;
    _Atomic uint32_t called_back;
    _Atomic uint64_t completed; /* uses that are over; the next one may begin */
} slot_t;

typedef struct endpoint {
    slot_t slot[SLOTS];
    pthread_mutex_t turn; /* ordered: who posts */
    uint64_t posted;      /* ordered, under turn */
} endpoint_t;

typedef struct run {
    world_t *world;
    posting_t mode;
    uint64_t batches;
    endpoint_t *endpoint;
    _Atomic uint64_t done;
} run_t;

/* What follows from an operation's key alone. */
static uint64_t mix(uint64_t a) {
    return random_next(&a);
}

static size_t words_of(uint64_t key, uint32_t slot) {
    uint64_t r = mix(key);
    if (slot % 50 == 0) {
        return 1 + r % (LARGEST / 8);
    }
    return r % 4 == 0 ? 1 + (r >> 8) % (SMALL_MAX / 8) : 1 + (r >> 8) % 6;
}

static uint64_t word_at(uint64_t key, uint32_t endpoint, size_t i) {
    return (key * 0x9E3779B97F4A7C15u + endpoint) * 0xBF58476D1CE4E5B9u + i * 0x2545F4914F6CDD1Du;
}

static void fill(slot_t *s, uint64_t key, uint32_t index) {
    s->key = key;
    s->words = words_of(key, index);
    s->gathers = mix(key) >> 40 & 1;
    for (size_t i = 0; i < s->words; i++) {
        s->src[i] = word_at(key, s->endpoint, i);
    }
    memset(s->dst, 0xEE, s->words * 8 * (s->gathers ? ENDPOINTS : 1) + 8);
}

static void verify(const slot_t *s) {
    size_t wrong = 0, n = s->words;
    for (size_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        for (uint32_t e = 0; e < ENDPOINTS; e++) {
            uint64_t word = word_at(s->key, e, i);
            wrong += s->gathers && s->dst[e * n + i] != word;
            sum += word;
        }
        wrong += !s->gathers && s->dst[i] != sum;
        wrong += s->src[i] != word_at(s->key, s->endpoint, i);
    }
    wrong += s->dst[n * (s->gathers ? ENDPOINTS : 1)] != 0xEEEEEEEEEEEEEEEEu;
    if (wrong != 0) {
        stress_error("%s of %zu words, key %llx, endpoint %u: %zu words are wrong",
                     s->gathers ? "allgather" : "allreduce", n, (unsigned long long)s->key,
                     s->endpoint, wrong);
    }
}

static void completed(void *data, ucc_status_t status) {
    slot_t *s = data;
    run_t *run = s->run;
    stress_expect(status, UCC_OK, "callback's status");
    if (atomic_fetch_add(&s->called_back, 1) != 0) {
        stress_error("called back twice");
    }
    verify(s);
    if (run->mode != MODE_OWNED) {
        stress_expect(ucc_collective_finalize(s->request), UCC_OK, "finalize in the callback");
    }
    atomic_fetch_add(&run->done, 1);
    atomic_fetch_add_explicit(&s->completed, 1, memory_order_release); /* the slot may be reused */
}

static void post(run_t *run, slot_t *s, uint64_t tag) {
    ucc_coll_args_t args;
    memset(&args, 0xA5, sizeof(args));
    args.mask = UCC_COLL_ARGS_FIELD_CB;
    args.cb = (ucc_coll_callback_t){.cb = completed, .data = s};
    args.coll_type = s->gathers ? UCC_COLL_TYPE_ALLGATHER : UCC_COLL_TYPE_ALLREDUCE;
    args.op = UCC_OP_SUM;
    args.src.info = (ucc_coll_buffer_info_t){s->src, s->words, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
    args.dst.info = args.src.info;
    args.dst.info.buffer = s->dst;
    args.dst.info.count *= s->gathers ? ENDPOINTS : 1;
    ucc_team_h team = run->world->teams[s->endpoint];
    atomic_store(&s->called_back, 0);
    if (run->mode == MODE_TAGGED) {
        must(heddle_collective_init_tagged(&args, tag, &s->request, team), "init tagged");
    } else {
        if (run->mode == MODE_OWNED) {
            args.mask |= UCC_COLL_ARGS_FIELD_TAG;
            args.tag = (uint16_t)tag;
        }
        must(ucc_collective_init(&args, &s->request, team), "init");
    }
    must(ucc_collective_post(s->request), "post");
}

/* Until the slot has been used so often; the use before may be another thread's. */
static void wait_for(run_t *run, slot_t *s, uint64_t uses) {
    while (atomic_load_explicit(&s->completed, memory_order_acquire) != uses) {
        ucc_context_progress(world_context(run->world, s->endpoint));
    }
}

static void shuffle(uint32_t *order, uint32_t n, uint64_t seed) {
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)random_below(&seed, i), t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
}

/* The operations of one thread in one batch, in the order of their posts. */
static void choose(const run_t *run, uint32_t e, uint32_t t, uint64_t batch, uint32_t *mine) {
    uint32_t order[SLOTS];
    uint64_t seed = (batch * ENDPOINTS + e) * 2654435761u + 1;
    if (run->mode == MODE_TAGGED) {
        for (uint32_t i = 0; i < SLOTS; i++) {
            order[i] = i;
        }
        shuffle(order, SLOTS, seed); /* the same in all threads of the endpoint */
        memcpy(mine, order + t * SHARE, SHARE * sizeof(*mine));
        return;
    }
    for (uint32_t i = 0; i < SHARE; i++) {
        mine[i] = i * THREADS + t;
    }
    shuffle(mine, SHARE, seed + t);
}

static void run_batches(run_t *run, uint32_t e, uint32_t t) {
    endpoint_t *ep = &run->endpoint[e];
    uint32_t mine[SHARE];
    for (uint64_t batch = 0; batch < run->batches; batch++) {
        choose(run, e, t, batch, mine);
        for (uint32_t i = 0; i < SHARE; i++) {
            wait_for(run, &ep->slot[mine[i]], batch);
            uint64_t key = batch * SLOTS + mine[i] + 1;
            fill(&ep->slot[mine[i]], key, mine[i]);
            post(run, &ep->slot[mine[i]], run->mode == MODE_OWNED ? mine[i] : key << 20);
        }
        for (uint32_t i = 0; i < SHARE; i++) {
            slot_t *s = &ep->slot[mine[i]];
            if (run->mode == MODE_OWNED) {
                while (ucc_collective_test(s->request) == UCC_INPROGRESS) {
                    ucc_context_progress(world_context(run->world, e));
                }
                wait_for(run, s, batch + 1); /* the callback may still run elsewhere */
                stress_expect(ucc_collective_finalize(s->request), UCC_OK, "finalize");
            } else if (batch + 1 == run->batches) {
                wait_for(run, s, run->batches);
            }
        }
    }
}

static void run_ordered(run_t *run, uint32_t e) {
    endpoint_t *ep = &run->endpoint[e];
    for (;;) {
        pthread_mutex_lock(&ep->turn);
        uint64_t number = ep->posted;
        slot_t *s = &ep->slot[number % SLOTS];
        bool over = number == run->batches * SLOTS;
        bool ready =
            !over && atomic_load_explicit(&s->completed, memory_order_acquire) == number / SLOTS;
        if (ready) {
            ep->posted++;
            fill(s, number + 1, (uint32_t)(number % SLOTS));
            post(run, s, 0);
        }
        pthread_mutex_unlock(&ep->turn);
        if (over) {
            break;
        }
        if (!ready || number % 64 == 0) {
            ucc_context_progress(world_context(run->world, e));
        }
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        wait_for(run, &ep->slot[i], run->batches);
    }
}

static void work(void *arg, uint32_t index) {
    run_t *run = arg;
    uint32_t e = index % ENDPOINTS;
    if (run->mode == MODE_ORDERED) {
        run_ordered(run, e);
    } else {
        run_batches(run, e, index / ENDPOINTS);
    }
}

static endpoint_t *make_endpoints(run_t *run) {
    endpoint_t *endpoint = must_alloc(ENDPOINTS, sizeof(*endpoint));
    for (uint32_t e = 0; e < ENDPOINTS; e++) {
        pthread_mutex_init(&endpoint[e].turn, NULL);
        for (uint32_t i = 0; i < SLOTS; i++) {
            size_t most = i % 50 == 0 ? LARGEST : SMALL_MAX;
            slot_t *s = &endpoint[e].slot[i];
            s->run = run;
            s->endpoint = e;
            s->src = must_alloc(1, most);
            s->dst = must_alloc(1, most * ENDPOINTS + 8);
        }
    }
    return endpoint;
}

static void free_endpoints(endpoint_t *endpoint) {
    for (uint32_t e = 0; e < ENDPOINTS; e++) {
        for (uint32_t i = 0; i < SLOTS; i++) {
            free(endpoint[e].slot[i].src);
            free(endpoint[e].slot[i].dst);
        }
    }
    free(endpoint);
}

/* A context per endpoint, used by its 8 threads: not one of world.h's arrangements. */
static world_t *make_world(bool shared) {
    world_t *world = must_alloc(1, sizeof(*world));
    world->size = ENDPOINTS;
    world->n_contexts = shared ? 1 : ENDPOINTS;
    world->libs = must_alloc(ENDPOINTS, sizeof(*world->libs));
    world->contexts = must_alloc(ENDPOINTS, sizeof(*world->contexts));
    world->teams = must_alloc(ENDPOINTS, sizeof(*world->teams));
    world->board = oob_board_create(ENDPOINTS);
    for (uint32_t i = 0; i < world->n_contexts; i++) {
        world->libs[i] = world_lib(UCC_THREAD_MULTIPLE);
        world->contexts[i] = world_new_context(world->libs[i], UCC_CONTEXT_SHARED, NULL);
    }
    for (uint32_t e = 0; e < ENDPOINTS; e++) {
        ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_OOB,
                                    .oob = oob_endpoint(world->board, e)};
        ucc_context_h context = world_context(world, e);
        must(ucc_team_create_post(&context, 1, &params, &world->teams[e]), "ucc_team_create_post");
    }
    world_finish_teams(ENDPOINTS, world->teams);
    return world;
}

static uint64_t run_mode(posting_t mode, bool shared, uint64_t operations) {
    run_t run = {.mode = mode, .batches = operations / (SLOTS * ENDPOINTS)};
    run.batches += run.batches == 0;
    run.world = make_world(shared);
    run.endpoint = make_endpoints(&run);
    driver_threads(ENDPOINTS * THREADS, work, &run);
    uint64_t done = atomic_load(&run.done);
    if (done != run.batches * SLOTS * ENDPOINTS) {
        stress_error("%llu operations called back instead of %llu", (unsigned long long)done,
                     (unsigned long long)(run.batches * SLOTS * ENDPOINTS));
    }
    world_destroy(run.world);
    free_endpoints(run.endpoint);
    return done;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        posting_t mode;
        bool shared, delays;
        uint64_t operations;
    } phase[] = {
        {"tagged, a context per endpoint", MODE_TAGGED, false, false, 240000},
        {"tagged, one context", MODE_TAGGED, true, false, 160000},
        {"owned tags, a context per endpoint", MODE_OWNED, false, false, 120000},
        {"owned tags, one context", MODE_OWNED, true, false, 120000},
        {"ordered, a context per endpoint", MODE_ORDERED, false, false, 120000},
        {"ordered, one context", MODE_ORDERED, true, false, 120000},
        {"tagged, delays, a context per endpoint", MODE_TAGGED, false, true, 40000},
        {"tagged, delays, one context", MODE_TAGGED, true, true, 20000},
        {"owned tags, delays, one context", MODE_OWNED, true, true, 20000},
        {"ordered, delays, a context per endpoint", MODE_ORDERED, false, true, 20000},
        {"ordered, delays, one context", MODE_ORDERED, true, true, 20000},
    };
    stress_begin(argc, argv);
    double began = test_now();
    uint64_t done = 0;
    for (size_t i = 0; i < sizeof(phase) / sizeof(phase[0]); i++) {
        double start = test_now();
        stress_phase(phase[i].name, 120);
        stress_delays(phase[i].delays ? 20261u + (uint32_t)i : 0);
        uint64_t n = run_mode(phase[i].mode, phase[i].shared, stress_scaled(phase[i].operations));
        done += n;
        printf("%-40s %8llu operations, %6.2f s\n", phase[i].name, (unsigned long long)n,
               test_now() - start);
        fflush(stdout);
    }
    printf("shared_handles: %llu operations, %d threads, %.1f s\n", (unsigned long long)done,
           ENDPOINTS * THREADS, test_now() - began);
    return stress_end();
}
