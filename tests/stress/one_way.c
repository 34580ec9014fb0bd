/* one_way.c: long runs of collectives whose sources need not wait: bcast, reduce, gather, scatter,
 * fanin, fanout, all posted far ahead. Slots of the rings are reused as early as the flow control
 * allows, and every byte is verified. Driven by a thread per endpoint, by one thread for all, and
 * by several threads on one context.
 */
#include "stress.h"

#include "../support/driver.h"
#include "../support/random.h"

enum { ENDPOINTS = 5, AHEAD = 40, WORDS_MAX = 4096, RUN = 50 };

typedef struct slot {
    ucc_coll_req_h request;
    uint64_t number;
    uint64_t *src, *dst;
} slot_t;

typedef struct run {
    world_t *world;
    uint64_t operations;
    uint32_t threads; /* thread t drives endpoints t, t + threads, ... */
    slot_t (*slot)[AHEAD];
} run_t;

typedef struct choice {
    ucc_coll_type_t type;
    uint32_t root;
    size_t words; /* per block */
} choice_t;

/* Operations come in runs of one type and root, so that nothing in between synchronizes. */
static choice_t choose(uint64_t number) {
    static const ucc_coll_type_t types[] = {
        UCC_COLL_TYPE_BCAST, UCC_COLL_TYPE_REDUCE, UCC_COLL_TYPE_GATHER, UCC_COLL_TYPE_SCATTER,
        UCC_COLL_TYPE_FANIN, UCC_COLL_TYPE_FANOUT, UCC_COLL_TYPE_BCAST,  UCC_COLL_TYPE_MCAST};
    static const size_t words[] = {1, 3, 6, 20, 100, 300, 500, 700};
    uint64_t seed = number / RUN, each = number;
    uint64_t r = random_next(&seed), s = random_next(&each);
    choice_t c = {types[r % 8], (uint32_t)(r >> 8) % ENDPOINTS, words[s % 8]};
    if (s % 97 == 0) {
        c.words = WORDS_MAX / ENDPOINTS;
    }
    return c;
}

static uint64_t word_at(uint64_t number, uint32_t endpoint, size_t i) {
    return (number * 8 + endpoint) * 0x9E3779B97F4A7C15u + i * 0x2545F4914F6CDD1Du;
}

static ucc_coll_buffer_info_t buffer(uint64_t *words, size_t n) {
    return (ucc_coll_buffer_info_t){words, n, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
}

static void post(const run_t *run, uint32_t e, uint64_t number) {
    slot_t *s = &run->slot[e][number % AHEAD];
    choice_t c = choose(number);
    bool scatters = c.type == UCC_COLL_TYPE_SCATTER, gathers = c.type == UCC_COLL_TYPE_GATHER;
    ucc_coll_args_t args = {.coll_type = c.type, .root = c.root, .op = UCC_OP_SUM};
    size_t give = c.words * (scatters ? ENDPOINTS : 1), take = c.words * (gathers ? ENDPOINTS : 1);
    s->number = number;
    memset(s->dst, 0xEE, take * sizeof(uint64_t));
    for (size_t i = 0; i < give; i++) {
        s->src[i] = word_at(number, e, i);
    }
    args.src.info = buffer(s->src, give);
    args.dst.info = buffer(s->dst, take);
    must(ucc_collective_init(&args, &s->request, run->world->teams[e]), "init");
    must(ucc_collective_post(s->request), "post");
}

/* What endpoint e should have as word i of its result; its own source where it gets none. */
static uint64_t wanted(const choice_t *c, uint64_t number, uint32_t e, size_t i) {
    uint64_t sum = 0;
    switch (c->type) {
    case UCC_COLL_TYPE_SCATTER:
        return word_at(number, c->root, e * c->words + i);
    case UCC_COLL_TYPE_GATHER:
        return word_at(number, (uint32_t)(i / c->words), i % c->words);
    case UCC_COLL_TYPE_REDUCE:
        for (uint32_t k = 0; k < ENDPOINTS; k++) {
            sum += word_at(number, k, i);
        }
        return sum;
    default:
        return word_at(number, c->root, i);
    }
}

static void verify(const slot_t *s, uint32_t e) {
    choice_t c = choose(s->number);
    bool collects = c.type == UCC_COLL_TYPE_REDUCE || c.type == UCC_COLL_TYPE_GATHER;
    bool in_source = c.type == UCC_COLL_TYPE_BCAST || c.type == UCC_COLL_TYPE_MCAST;
    if (c.type == UCC_COLL_TYPE_FANIN || c.type == UCC_COLL_TYPE_FANOUT ||
        (collects && e != c.root)) {
        return;
    }
    const uint64_t *got = in_source ? s->src : s->dst;
    size_t n = c.words * (c.type == UCC_COLL_TYPE_GATHER ? ENDPOINTS : 1), wrong = 0;
    for (size_t i = 0; i < n; i++) {
        wrong += got[i] != wanted(&c, s->number, e, i);
    }
    if (wrong != 0) {
        stress_error("operation %llu (type %d, root %u, %zu words): %zu words wrong at endpoint %u",
                     (unsigned long long)s->number, (int)c.type, c.root, n, wrong, e);
    }
}

/* False while it is under way. */
static bool finish(const run_t *run, uint32_t e, uint64_t number) {
    slot_t *s = &run->slot[e][number % AHEAD];
    ucc_status_t status = ucc_collective_test(s->request);
    if (status == UCC_INPROGRESS) {
        return false;
    }
    stress_expect(status, UCC_OK, "status");
    stress_expect(ucc_collective_finalize(s->request), UCC_OK, "finalize");
    verify(s, e);
    return true;
}

static void drive(void *arg, uint32_t thread) {
    const run_t *run = arg;
    uint64_t posted[ENDPOINTS] = {0}, finished[ENDPOINTS] = {0};
    for (bool busy = true; busy;) {
        busy = false;
        for (uint32_t e = thread; e < ENDPOINTS; e += run->threads) {
            while (posted[e] < run->operations && posted[e] - finished[e] < AHEAD) {
                post(run, e, posted[e]++);
            }
            ucc_context_progress(world_context(run->world, e));
            while (finished[e] < posted[e] && finish(run, e, finished[e])) {
                finished[e]++;
            }
            busy = busy || finished[e] < run->operations;
        }
    }
}

static void run_with(uint32_t threads, bool shared, uint64_t operations) {
    run_t run = {.operations = operations, .threads = threads};
    run.world = world_create(
        &(world_params_t){.size = ENDPOINTS, .form = WORLD_OOB, .shared_context = shared});
    run.slot = must_alloc(ENDPOINTS, sizeof(*run.slot));
    for (uint32_t e = 0; e < ENDPOINTS; e++) {
        for (uint32_t i = 0; i < AHEAD; i++) {
            run.slot[e][i].src = must_alloc(WORDS_MAX, sizeof(uint64_t));
            run.slot[e][i].dst = must_alloc(WORDS_MAX, sizeof(uint64_t));
        }
    }
    driver_threads(threads, drive, &run);
    world_destroy(run.world);
    for (uint32_t e = 0; e < ENDPOINTS; e++) {
        for (uint32_t i = 0; i < AHEAD; i++) {
            free(run.slot[e][i].src);
            free(run.slot[e][i].dst);
        }
    }
    free(run.slot);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        uint32_t threads, seed;
        bool shared;
    } part[] = {
        {"a thread per endpoint", ENDPOINTS, 0, false},
        {"one thread for all", 1, 0, false},
        {"threads on one context", 3, 0, true},
        {"a thread per endpoint, delays", ENDPOINTS, 71, false},
        {"one thread for all, delays", 1, 72, true},
        {"threads on one context, delays", 3, 73, true},
    };
    stress_begin(argc, argv);
    double began = test_now();
    for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
        double start = test_now();
        stress_phase(part[i].name, 100);
        stress_delays(part[i].seed);
        run_with(part[i].threads, part[i].shared, stress_scaled(40000));
        printf("%-32s %6.2f s\n", part[i].name, test_now() - start);
        fflush(stdout);
    }
    printf("one_way: %zu drivers, %llu operations each, %.1f s\n", sizeof(part) / sizeof(part[0]),
           (unsigned long long)stress_scaled(40000), test_now() - began);
    return stress_end();
}
