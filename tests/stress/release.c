/* release.c: what comes down a machine of several domains: runs of bcasts from changing roots,
 * small allreduces, barriers, and reductions for one root, all posted far ahead, so that lines of
 * release are used again as early as the flow control allows. Every byte is verified.
 *
 * Each machine is an hwloc description in a child process; endpoints say that they are held on it,
 * along it or across it, and arrival is static; or a butterfly, where all wait for all, whose
 * records are used again likewise.
 */
#include "stress.h"

#include "../repro/placed.h"
#include "../support/driver.h"
#include "../support/random.h"
#include "team/team.h"

enum { MAX_ENDPOINTS = 33, AHEAD = 20, WORDS_MAX = 2100, RUN = 30, THREADS = 3 };

static const char *const machines[] = {
    "pack:2 l3:1 core:12 pu:1", "pack:2 numa:2 l3:2 core:4 pu:1",
    "pack:4 l3:2 core:4 pu:1",  "numa:3 l3:1 core:8 pu:1",
    "pack:9 core:3 pu:1",
};
static const uint32_t sizes[] = {3, 8, 12, 24, 33};
enum {
    N_MACHINES = sizeof(machines) / sizeof(machines[0]),
    N_SIZES = sizeof(sizes) / sizeof(sizes[0])
};

typedef struct slot {
    ucc_coll_req_h request;
    uint64_t number;
    uint64_t *words, *result;
} slot_t;

typedef struct run {
    world_t *world;
    uint32_t n;
    uint64_t operations;
    slot_t (*slot)[AHEAD];
} run_t;

typedef struct choice {
    ucc_coll_type_t type;
    uint32_t root;
    size_t words;
} choice_t;

/* In runs of one type and root, so that nothing in between synchronizes. */
static choice_t choose(uint64_t number, uint32_t n) {
    static const ucc_coll_type_t types[] = {
        UCC_COLL_TYPE_BCAST,  UCC_COLL_TYPE_BCAST,   UCC_COLL_TYPE_BCAST, UCC_COLL_TYPE_ALLREDUCE,
        UCC_COLL_TYPE_REDUCE, UCC_COLL_TYPE_BARRIER, UCC_COLL_TYPE_FANIN, UCC_COLL_TYPE_ALLREDUCE};
    static const size_t words[] = {1, 6, 3, 7, 100, 300, 1, 2};
    uint64_t seed = number / RUN, each = number;
    uint64_t r = random_next(&seed), s = random_next(&each);
    choice_t c = {types[r % 8], (uint32_t)(r >> 8) % n, words[s % 8]};
    if (s % 61 == 0) {
        c.words = WORDS_MAX; /* direct */
    }
    return c;
}

static uint64_t word_at(uint64_t number, uint32_t endpoint, size_t i) {
    return (number * 64 + endpoint) * 0x9E3779B97F4A7C15u + i * 0x2545F4914F6CDD1Du;
}

static void post(const run_t *run, uint32_t e, uint64_t number) {
    slot_t *s = &run->slot[e][number % AHEAD];
    choice_t c = choose(number, run->n);
    ucc_coll_args_t args = {.coll_type = c.type, .root = c.root, .op = UCC_OP_SUM};
    s->number = number;
    memset(s->result, 0xEE, c.words * sizeof(uint64_t));
    for (size_t i = 0; i < c.words; i++) {
        s->words[i] = word_at(number, e, i);
    }
    args.src.info =
        (ucc_coll_buffer_info_t){s->words, c.words, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
    args.dst.info =
        (ucc_coll_buffer_info_t){s->result, c.words, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
    must(ucc_collective_init(&args, &s->request, run->world->teams[e]), "init");
    must(ucc_collective_post(s->request), "post");
}

static uint64_t wanted(const run_t *run, const choice_t *c, uint64_t number, size_t i) {
    uint64_t sum = 0;
    if (c->type == UCC_COLL_TYPE_BCAST) {
        return word_at(number, c->root, i);
    }
    for (uint32_t e = 0; e < run->n; e++) {
        sum += word_at(number, e, i);
    }
    return sum;
}

static void verify(const run_t *run, const slot_t *s, uint32_t e) {
    choice_t c = choose(s->number, run->n);
    if (c.type == UCC_COLL_TYPE_BARRIER || c.type == UCC_COLL_TYPE_FANIN ||
        (c.type == UCC_COLL_TYPE_REDUCE && e != c.root)) {
        return;
    }
    const uint64_t *got = c.type == UCC_COLL_TYPE_BCAST ? s->words : s->result;
    size_t wrong = 0;
    for (size_t i = 0; i < c.words; i++) {
        wrong += got[i] != wanted(run, &c, s->number, i);
    }
    if (wrong) {
        stress_error("operation %llu (type %d, root %u, %zu words): %zu words wrong at endpoint %u",
                     (unsigned long long)s->number, (int)c.type, c.root, c.words, wrong, e);
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
    verify(run, s, e);
    return true;
}

/* Thread t drives endpoints t, t + THREADS, ... */
static void drive(void *arg, uint32_t thread) {
    const run_t *run = arg;
    uint64_t posted[MAX_ENDPOINTS] = {0}, finished[MAX_ENDPOINTS] = {0};
    for (bool busy = true; busy;) {
        busy = false;
        for (uint32_t e = thread; e < run->n; e += THREADS) {
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

/* Teams over several packages or nodes that all can run release from domain to domain. */
static void expect_lines(const hd_group_t *group, uint32_t n) {
    bool apart = false;
    for (uint32_t i = 1; i < n; i++) {
        apart = apart || group->locality[i].numa != group->locality[0].numa;
    }
    const hd_tree_t *tree = group->board->tree[1];
    if (!group->static_arrival || (apart && n > 8 && (!tree || tree->n_lines == 0))) {
        stress_error("%u endpoints: no lines of release", n);
    }
}

static void run_on(uint32_t n, placing_t placing, bool shared, uint64_t operations) {
    run_t run = {.n = n, .operations = operations};
    world_params_t params = {.size = n, .shared_context = shared};
    run.world = placed_world(&params, placing);
    expect_lines(run.world->teams[0]->group, n);
    run.slot = must_alloc(n, sizeof(*run.slot));
    for (uint32_t i = 0; i < n * AHEAD; i++) {
        slot_t *slot = &run.slot[i / AHEAD][i % AHEAD];
        slot->words = must_alloc(WORDS_MAX, sizeof(uint64_t));
        slot->result = must_alloc(WORDS_MAX, sizeof(uint64_t));
    }
    driver_threads(THREADS, drive, &run);
    world_destroy(run.world);
    for (uint32_t i = 0; i < n * AHEAD; i++) {
        free(run.slot[i / AHEAD][i % AHEAD].words);
        free(run.slot[i / AHEAD][i % AHEAD].result);
    }
    free(run.slot);
}

static struct {
    int argc;
    char **argv;
} program;

static bool machine_works(uint32_t machine) {
    static const char *const arrivals[] = {"static", "butterfly"};
    setenv("HEDDLE_TREE", "topology", 1);
    /* relays must have room for what came in lines, however little is staged */
    setenv("HEDDLE_STAGED_MAX", machine % 2 ? "64" : "16k", 1);
    setenv("HEDDLE_LINES_MAX", "1k", 1);
    stress_begin(program.argc, program.argv);
    for (uint32_t s = 0; s < 2 * N_SIZES; s++) {
        setenv("HEDDLE_ARRIVAL", arrivals[s / N_SIZES], 1);
        stress_phase(machines[machine], 60);
        stress_delays((s + machine) % 2 ? 90 + s : 0);
        placing_t placing = (s + machine) % 3 ? PLACING_COMPACT : PLACING_SCATTERED;
        run_on(sizes[s % N_SIZES], placing, s % 2, stress_scaled(750));
    }
    return stress_end() == 0;
}

int main(int argc, char **argv) {
    bool good = true;
    program.argc = argc;
    program.argv = argv;
    for (uint32_t machine = 0; machine < N_MACHINES; machine++) {
        double began = test_now();
        bool one = placed_run(machines[machine], machine_works, machine);
        printf("'%s': %s (%.1f s)\n", machines[machine], one ? "right" : "WRONG",
               test_now() - began);
        good = good && one;
    }
    return good ? 0 : 1;
}
