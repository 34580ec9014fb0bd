/* span_mixed.c: a long mixture of all collectives on one team over three processes of four threads
 * each: on one host, or, by scripts/netns run 3 -- test_stress_span_mixed, on three, whose frames
 * come up to a millisecond late: any type, size, datatype and root, tagged or not, persistent or
 * not, some of active sets. Every endpoint posts them in an order of its own, as far as tags let
 * it, with several under way, and pauses now and then. All results are right, and the processes'
 * memory does not grow.
 *
 *     test_stress_span_mixed [COLLECTIVES]
 *
 * Operation k is drawn from k alone, so everybody knows it. Endpoints of a process share what was
 * prepared for it. An endpoint picks any operation in a window that begins with its first
 * unfinished one: so all come to post what anybody waits for.
 */
#include "stress.h"

#include "../support/probe.h"
#include "../support/random.h"
#include "../support/sweeps.h"
#include "../support/wire.h"

#include <inttypes.h>
#include <malloc.h>
#include <sched.h>
#include <unistd.h>

enum {
    WINDOW = 8,
    MOST_DELAY = 1000 /* microseconds */,
    RING = 64,
    SEGMENTS = 10,
    SETTLED = 3,
    THREADS = 4,
    PROCESSES = 3
};

/* Results of the processes. */
enum { CHECKED, WRONG, WIRE, HEAP, RSS = HEAP + 2 };

typedef struct entry {
    uint64_t k;
    prepared_t *prepared; /* NULL: free */
    uint32_t left;        /* endpoints of mine that are not through with it */
} entry_t;

typedef struct mix {
    const process_t *process;
    world_t *world;
    uint64_t from, to;    /* operations */
    pthread_mutex_t lock; /* of the ring */
    entry_t ring[RING];
    _Atomic uint64_t wrong, checked;
} mix_t;

typedef struct running {
    prepared_t *prepared; /* NULL: it has ended, or is another's */
    ucc_coll_req_h request;
    uint32_t member, times;
    bool taken; /* posted, or there is nothing to post */
} running_t;

/* --- operation k --- */

static coll_case_t draw(const mix_t *mix, uint64_t k) {
    uint64_t random = 0x5DEECE66Du + k * 0xD1B54A32D192ED03u;
    coll_case_t c = sweep_random_case(&random, &mix->world->params);
    if (random_below(&random, 100) < 50) {
        c.tagged = true;
        c.tag = (uint16_t)random_below(&random, 40);
    }
    uint32_t kind = (uint32_t)random_below(&random, 40), size = c.size;
    if (kind < 4) { /* of few different sets */
        c.set = kind == 0   ? (job_set_t){0, 2, (size + 1) / 2}
                : kind == 1 ? (job_set_t){size - 1, -3, (size + 2) / 3}
                : kind == 2 ? (job_set_t){size / 2, 1, size - size / 2}
                            : (job_set_t){1, 1, size > 1 ? 2 : 1};
        c.set.start = size > 1 ? c.set.start : 0;
        c.size = c.set.n;
        c.root %= c.size;
    } else if (kind < 8) {
        c.times = 2;
        c.tag = (uint16_t)(100 + k % 60000); /* a second post must not meet another operation's */
    }
    c.process_of = mix->world->process_of;
    c.process = mix->process->me;
    c.host = process_hosts(mix->process);
    c.by_nodes = true;
    return c;
}

static bool has_part(const coll_case_t *c, uint32_t endpoint, uint32_t *member) {
    *member = endpoint;
    return c->set.n == 0 || job_set_has(&c->set, endpoint, member);
}

/* Operations that are matched by their order have to be posted in it. */
static bool same_queue(const coll_case_t *a, const coll_case_t *b) {
    bool tags = a->tagged == b->tagged && (!a->tagged || a->tag == b->tag);
    return tags && memcmp(&a->set, &b->set, sizeof(a->set)) == 0 &&
           (a->times > 0) == (b->times > 0);
}

/* NULL: an older one is not over yet. */
static prepared_t *take(mix_t *mix, uint64_t k, const coll_case_t *c) {
    entry_t *entry = &mix->ring[k % RING];
    prepared_t *prepared = NULL;
    pthread_mutex_lock(&mix->lock);
    if (entry->prepared == NULL) {
        *entry = (entry_t){.k = k, .prepared = case_prepare(c)};
        for (uint32_t i = 0; i < world_count(mix->world); i++) {
            uint32_t member;
            entry->left += has_part(c, world_endpoint(mix->world, i), &member);
        }
    }
    if (entry->k == k) {
        prepared = entry->prepared;
    }
    pthread_mutex_unlock(&mix->lock);
    return prepared;
}

static void give_back(mix_t *mix, uint64_t k) {
    entry_t *entry = &mix->ring[k % RING];
    prepared_t *over = NULL;
    pthread_mutex_lock(&mix->lock);
    if (--entry->left == 0) {
        over = entry->prepared;
        entry->prepared = NULL;
    }
    pthread_mutex_unlock(&mix->lock);
    if (over != NULL) {
        mix->wrong += atomic_load(&over->wrong) ? 1 : 0;
        case_free(over);
    }
}

/* --- an endpoint --- */

typedef struct traveller {
    mix_t *mix;
    uint32_t endpoint;
    uint64_t random, low; /* the first that is not over */
    running_t at[WINDOW]; /* of operation k at k % WINDOW, for k from low */
} traveller_t;

/* Nothing that is matched by order with operation k is before it. */
static bool may_go(const traveller_t *t, uint64_t k, const coll_case_t *c) {
    for (uint64_t j = t->low; j < k; j++) {
        uint32_t member;
        coll_case_t earlier = draw(t->mix, j);
        if (!t->at[j % WINDOW].taken && has_part(&earlier, t->endpoint, &member) &&
            same_queue(&earlier, c)) {
            return false;
        }
    }
    return true;
}

static bool try_one(traveller_t *t, uint64_t k) {
    running_t *r = &t->at[k % WINDOW];
    coll_case_t c = draw(t->mix, k);
    if (!has_part(&c, t->endpoint, &r->member)) {
        r->taken = true;
        return true;
    }
    prepared_t *prepared = may_go(t, k, &c) ? take(t->mix, k, &c) : NULL;
    if (prepared == NULL) {
        return false;
    }
    r->prepared = prepared;
    r->taken = true;
    must(ucc_collective_init(&prepared->args[r->member], &r->request,
                             t->mix->world->teams[t->endpoint]),
         prepared->name);
    must(ucc_collective_post(r->request), prepared->name);
    return true;
}

/* True when it has ended. */
static bool look_at(traveller_t *t, uint64_t k) {
    running_t *r = &t->at[k % WINDOW];
    prepared_t *p = r->prepared;
    ucc_status_t status = ucc_collective_test(r->request);
    if (status == UCC_INPROGRESS) {
        return false;
    }
    if (status == UCC_OK && p->c.times > 0) {
        job_t job = case_job(p);
        if (job.again(job.arg, r->member, ++r->times)) {
            must(ucc_collective_post(r->request), p->name);
            return false;
        }
    }
    p->statuses[r->member] = status;
    must(ucc_collective_finalize(r->request), p->name);
    t->mix->wrong += !case_check_member(p, r->member);
    t->mix->checked += r->member == 0;
    r->prepared = NULL;
    give_back(t->mix, k);
    return true;
}

static void pause_now_and_then(uint64_t *random) {
    if (random_below(random, 3000) == 0) {
        nanosleep(&(struct timespec){.tv_nsec = (long)random_below(random, 2000000)}, NULL);
    } else {
        sched_yield();
    }
}

static void travel(void *arg, uint32_t index) {
    mix_t *mix = arg;
    traveller_t t = {.mix = mix, .endpoint = world_endpoint(mix->world, index), .low = mix->from};
    t.random = mix->from * 1000003 + t.endpoint;
    ucc_context_h context = world_context(mix->world, t.endpoint);
    deadline_t deadline = deadline_start("a mixture");
    while (t.low < mix->to) {
        uint64_t end = t.low + WINDOW < mix->to ? t.low + WINDOW : mix->to;
        uint64_t pick = t.low + random_below(&t.random, end - t.low);
        bool moved = !t.at[pick % WINDOW].taken && try_one(&t, pick);
        must(ucc_context_progress(context), "ucc_context_progress");
        for (uint64_t k = t.low; k < end; k++) {
            moved = (t.at[k % WINDOW].prepared != NULL && look_at(&t, k)) || moved;
        }
        while (t.low < end && t.at[t.low % WINDOW].taken && t.at[t.low % WINDOW].prepared == NULL) {
            t.at[t.low++ % WINDOW] = (running_t){.taken = false};
        }
        if (moved) {
            deadline = deadline_start("a mixture");
        } else {
            pause_now_and_then(&t.random);
            deadline_poll(&deadline);
        }
    }
}

/* --- a process --- */

static uint64_t heap_bytes(void) {
    malloc_trim(0);
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static uint64_t rss_bytes(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*u %lu", &pages) != 1) {
        pages = 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void run_team(const process_t *process, ucc_post_ordering_t ordering, uint64_t n) {
    mix_t mix = {.process = process};
    world_params_t params = {.size = process->size, .ordering = ordering, .process = process};
    pthread_mutex_init(&mix.lock, NULL);
    mix.world = world_create(&params);
    uint64_t heap = 0, rss = 0;
    for (uint64_t segment = 0; segment < SEGMENTS; segment++) {
        mix.from = n * segment / SEGMENTS;
        mix.to = n * (segment + 1) / SEGMENTS;
        process_note(process, "ordering %d, operations %" PRIu64 " to %" PRIu64, (int)ordering,
                     mix.from, mix.to);
        driver_threads(process->n, travel, &mix);
        process_barrier(process);
        if (segment == SETTLED) {
            heap = heap_bytes();
            rss = rss_bytes();
        }
    }
    bool unordered = ordering == UCC_COLLECTIVE_POST_UNORDERED;
    uint64_t heap_now = heap_bytes(), rss_now = rss_bytes();
    process_set(process, HEAP + unordered, heap_now > heap ? heap_now - heap : 0);
    process_set(process, RSS + unordered, rss_now > rss ? rss_now - rss : 0);
    process_add(process, CHECKED, mix.checked);
    process_add(process, WRONG, mix.wrong);
    world_destroy(mix.world);
    pthread_mutex_destroy(&mix.lock);
}

static int work(const process_t *process, void *arg) {
    uint64_t n = *(const uint64_t *)arg, wire = process_wire_bytes();
    if (process->shape->host[process->me] != 0) {
        setenv("HEDDLE_NET_SHM", "n", 1); /* see span.c */
    }
    mallopt(M_ARENA_MAX, 2); /* threads come and go, and would leave arenas behind */
    run_team(process, UCC_COLLECTIVE_POST_ORDERED, n / 2);
    run_team(process, UCC_COLLECTIVE_POST_UNORDERED, n - n / 2);
    process_set(process, WIRE, process_wire_bytes() - wire);
    return 0;
}

/* --- the judgement --- */

/* Sanitizers have memory of their own, and keep what was freed. */
#ifdef __SANITIZE_ADDRESS__
enum { MEASURES = 0 };
#else
enum { MEASURES = !STRESS_TSAN };
#endif

/* What the C library's allocator, UCX, and the pools of boards (each has a flight of 8 KiB) keep
 * back wavers by less than this, however long the run: there are as many boards as were ever in use
 * at once. UCX's pools in shared memory become resident as they are first used, up to 18 MiB of
 * them late on a busy machine; a mapping that is lost per operation would be 64 KiB each time. */
static const uint64_t MOST_HEAP = 1536u << 10, MOST_RSS = 32u << 20;

static void judge(const shape_t *shape, const outcome_t *outcome) {
    uint64_t wrong = 0, heap = 0, rss = 0, wire = 0, checked = 0;
    for (uint32_t p = 0; p < shape->processes; p++) {
        wrong += outcome->value[p][WRONG];
        checked += outcome->value[p][CHECKED];
        wire += shape->host[p] != 0 ? outcome->value[p][WIRE] : 0;
        for (int k = 0; k < 2; k++) {
            heap = outcome->value[p][HEAP + k] > heap ? outcome->value[p][HEAP + k] : heap;
            rss = outcome->value[p][RSS + k] > rss ? outcome->value[p][RSS + k] : rss;
        }
    }
    printf("%-28s %6" PRIu64 " collectives checked, heap +%" PRIu64 " KiB, resident +%" PRIu64
           " KiB",
           shape_name(shape), checked, heap >> 10, rss >> 10);
    if (wire > 0) {
        printf(", %" PRIu64 " bytes on the wire", wire / 2);
    }
    if (!outcome->ok || wrong > 0) {
        stress_error("%" PRIu64 " wrong%s", wrong, outcome->ok ? "" : ", and did not end");
    }
    if (MEASURES && (heap > MOST_HEAP || rss > MOST_RSS)) {
        stress_error("memory has grown: %" PRIu64 " bytes of heap, %" PRIu64 " resident", heap,
                     rss);
    }
}

static void run(shape_t shape, uint64_t n) {
    double start = test_now();
    outcome_t outcome = processes_run(&shape, 120 + (double)n / 50, work, &n);
    judge(&shape, &outcome);
    printf(", %.1f s\n", test_now() - start);
    fflush(stdout);
}

int main(int argc, char **argv) {
    const char *why = "there are fewer than 3";
    stress_begin_alone(1, argv);
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 0) : stress_scaled(6000);
    bool hosts = processes_hosts(&why) >= PROCESSES;
    shape_t shape = shape_even(PROCESSES, THREADS);
    for (uint32_t p = 0; hosts && p < PROCESSES; p++) {
        shape.host[p] = p + 1;
    }
    if (!hosts) {
        run(shape_even(1, THREADS), n);
    }
    if (!probe_network()) {
        return stress_skip("several processes", "this build has no network");
    }
    if (hosts && getenv("HEDDLE_TEST_DELAYS") == NULL && !wire_begin(MOST_DELAY, &why)) {
        printf("skipped: delays: %s\n", why);
    }
    run(shape, n);
    wire_end();
    return stress_end();
}
