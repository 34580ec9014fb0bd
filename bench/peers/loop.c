/* loop.c: shared memory, cases, repetition and timing; see loop.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../../tools/perf/kernels.h"
#include "parts.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

enum { MAX_SAMPLES = 8192, MIN_SAMPLES = 20, MIN_TRIALS = 3 };

/* Destinations begin this much after a page: with source and destination at the same place of their
 * pages every load would seem to depend on an earlier store. A multiple of 64. */
enum { DESTINATION_OFFSET = 2112 };

/* A participant's line: it writes, all read. Far enough apart that no prefetcher couples two. */
typedef struct line {
    alignas(256) atomic_uint_fast64_t round;
    atomic_uint_fast64_t entered; /* calls begun while meetings are verified */
    uint64_t wrong;               /* written between meetings, read by participant 0 after one */
} line_t;

/* Written by participant 0 before a meeting, read by all after it and before the next. */
typedef struct plan {
    alignas(256) uint64_t batch; /* calls per sample */
    uint64_t samples;
    uint32_t trials;
    bool settled;
} plan_t;

/* In one mapping: this, then a line, then MAX_SAMPLES samples for each participant. */
struct bench_shared {
    plan_t plan;
    line_t lines[];
};

typedef struct participant {
    const bench_t *bench;
    void *self; /* the peer's */
    uint32_t rank;
    uint64_t round; /* meetings so far */
    uint64_t calls; /* of this case, chooses the root */
    uint64_t sink;  /* depends on all that was read, so that nothing is read in vain */
    bench_case_t now;
} participant_t;

static uint32_t turns_before_yield = 100000;

_Noreturn void bench_fail(const char *what, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", what, why);
    fflush(NULL);
    _Exit(1); /* not exit(): other threads are still inside the peer's library */
}

/* ------------------------------------------------------------------------------------------------
 * Clock and places
 * ---------------------------------------------------------------------------------------------- */

static bool use_counter;
static double seconds_per_tick = 1e-9;
static cpu_set_t places;

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t ticks(void) {
#if defined(__x86_64__)
    if (use_counter) {
        _mm_lfence(); /* the stamp is taken after all before it has happened */
        return __rdtsc();
    }
#endif
    return nanoseconds();
}

static double seconds(uint64_t difference) {
    return (double)difference * seconds_per_tick;
}

/* The time stamp counter where it runs at one rate in every power state. Only differences taken on
 * one thread are formed. */
static void clock_start(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    use_counter = __get_cpuid(0x80000007U, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
    if (use_counter) {
        uint64_t begin = nanoseconds(), first = ticks(), now;
        do {
            now = nanoseconds();
        } while (now - begin < UINT64_C(10000000));
        seconds_per_tick = (double)(now - begin) * 1e-9 / (double)(ticks() - first);
    }
#endif
}

static void pin(uint32_t rank, uint32_t participants) {
    if (participants > (uint32_t)CPU_COUNT(&places)) {
        return;
    }
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &places) && rank-- == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            (void)pthread_setaffinity_np(pthread_self(), sizeof(one), &one); /* a wish */
            return;
        }
    }
}

void bench_relax(uint32_t *turns) {
    if (++*turns >= turns_before_yield) {
        sched_yield();
        *turns = 0;
    }
}

/* ------------------------------------------------------------------------------------------------
 * Opening
 * ---------------------------------------------------------------------------------------------- */

void bench_open(bench_t *b, const bench_peer_t *peer, int argc, char **argv,
                uint32_t participants) {
    memset(b, 0, sizeof(*b));
    b->peer = peer;
    bench_parse(&b->options, argc, argv);
    if (participants != 0) {
        b->options.participants = participants;
    }
    if (b->options.participants == 0) {
        bench_misuse("--threads", "0");
    }
    if (sched_getaffinity(0, sizeof(places), &places) != 0) {
        bench_fail("sched_getaffinity", strerror(errno));
    }
    if (b->options.participants > (uint32_t)CPU_COUNT(&places)) {
        turns_before_yield = 500;
    }
    clock_start();
    alarm(b->options.time_limit); /* 0 is none; the signal's default ends the process */
}

static size_t shared_bytes(const bench_t *b) {
    uint32_t n = b->options.participants;
    return sizeof(bench_shared_t) + n * (sizeof(line_t) + MAX_SAMPLES * sizeof(uint64_t));
}

void bench_map(bench_t *b, const char *name, bool create) {
    int fd = -1;
    if (name != NULL) {
        fd = shm_open(name, create ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0600);
        if (fd < 0 || (create && ftruncate(fd, (off_t)shared_bytes(b)) != 0)) {
            bench_fail(name, strerror(errno));
        }
    }
    int flags = MAP_SHARED | (name == NULL ? MAP_ANONYMOUS : 0);
    void *memory = mmap(NULL, shared_bytes(b), PROT_READ | PROT_WRITE, flags, fd, 0);
    if (memory == MAP_FAILED) {
        bench_fail("mmap", strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    b->shared = memory; /* zero: no meeting has been held */
}

/* ------------------------------------------------------------------------------------------------
 * Meeting
 * ---------------------------------------------------------------------------------------------- */

static uint64_t *samples_of(const bench_t *b, uint32_t rank) {
    uint64_t *first = (uint64_t *)(void *)&b->shared->lines[b->options.participants];
    return first + (size_t)rank * MAX_SAMPLES;
}

/* Everybody stores a round and sees everybody's: with two participants, two stores. */
static void meet(participant_t *p) {
    line_t *lines = p->bench->shared->lines;
    uint32_t n = p->bench->options.participants;
    uint64_t round = ++p->round;
    /* release: what I wrote before is visible to whoever sees the round; pairs with the acquire */
    atomic_store_explicit(&lines[p->rank].round, round, memory_order_release);
    for (uint32_t k = 1; k < n; k++) { /* not my own: looking costs half a meeting */
        uint32_t i = p->rank + k < n ? p->rank + k : p->rank + k - n, turns = 0;
        /* acquire: I see what the other wrote before; pairs with the release above */
        while (atomic_load_explicit(&lines[i].round, memory_order_acquire) < round) {
            bench_relax(&turns);
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Laying out a case
 * ---------------------------------------------------------------------------------------------- */

static void *allocate(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes == 0 ? 64 : bytes) != 0) {
        bench_fail("buffers", "out of memory");
    }
    return memory;
}

static void *allocate_buffer(const bench_peer_t *peer, size_t bytes) {
    void *memory = peer->allocate == NULL ? allocate(bytes) : peer->allocate(bytes);
    if (memory == NULL) {
        bench_fail("buffers", "out of memory");
    }
    return memory;
}

/* Uneven blocks: half the share and one and a half times the share, in turn; with an odd number of
 * participants the last has just its share, so that the total stays. */
static void lay_out_blocks(bench_case_t *c) {
    uint32_t n = c->participants;
    uint64_t half = (c->coll->traits & BENCH_UNEVEN) != 0 ? c->count / 2 : 0;
    for (uint32_t i = 0; i < n; i++) {
        bool last_odd = n % 2 == 1 && i == n - 1;
        c->counts[i] = last_odd ? c->count : i % 2 == 0 ? c->count - half : c->count + half;
        c->counts[i + n] = c->counts[i];
        c->displacements[i] = c->total;
        c->total += c->counts[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        c->own_displacements[i] = bench_position(c, c->rank, i);
    }
}

static void case_begin(participant_t *p, const bench_coll_t *coll, uint64_t bytes) {
    const bench_options_t *o = &p->bench->options;
    bench_case_t *c = &p->now;
    *c = (bench_case_t){.coll = coll,
                        .form = o->form,
                        .participants = o->participants,
                        .rank = p->rank,
                        .bytes = bytes,
                        .width = p->bench->peer->float64 ? sizeof(double) : sizeof(float)};
    c->roots = (coll->traits & BENCH_ROOTED) != 0 && o->alternating ? o->participants : 1;
    if (coll->source != BENCH_NOTHING || coll->destination != BENCH_NOTHING) {
        uint64_t share = (coll->traits & BENCH_WHOLE) != 0 ? bytes : bytes / c->participants;
        c->count = share < c->width ? 1 : share / c->width;
    } else {
        c->bytes = 0;
    }
    c->counts = allocate(2 * c->participants * sizeof(uint64_t));
    c->displacements = allocate(c->participants * sizeof(uint64_t));
    c->own_displacements = allocate(c->participants * sizeof(uint64_t));
    lay_out_blocks(c);
    uint64_t source = bench_elements(c, coll->source);
    uint64_t destination = bench_elements(c, coll->destination);
    const bench_peer_t *peer = p->bench->peer;
    c->source = allocate_buffer(peer, source * c->width);
    c->destination =
        (unsigned char *)allocate_buffer(peer, destination * c->width + DESTINATION_OFFSET) +
        DESTINATION_OFFSET;
    bench_fill(c);
}

static void case_end(const bench_peer_t *peer, bench_case_t *c) {
    void (*deallocate)(void *memory) = peer->deallocate == NULL ? free : peer->deallocate;
    free(c->counts);
    free(c->displacements);
    free(c->own_displacements);
    deallocate(c->source);
    deallocate(c->destination - DESTINATION_OFFSET);
}

/* ------------------------------------------------------------------------------------------------
 * Verification
 * ---------------------------------------------------------------------------------------------- */

static void call(participant_t *p) {
    uint32_t root = (uint32_t)(p->calls++ % p->now.roots);
    p->bench->peer->call(p->self, &p->now, root);
}

static uint64_t verify_data(participant_t *p) {
    const bench_peer_t *peer = p->bench->peer;
    bench_case_t *c = &p->now;
    uint64_t wrong = 0;
    for (uint32_t root = 0; root < c->roots; root++) {
        if (root != 0 && root != c->roots - 1) {
            continue; /* the first and the last stand for all */
        }
        bench_fill(c);
        if (peer->give != NULL) {
            peer->give(p->self, c);
        }
        meet(p);
        peer->call(p->self, c, root);
        if (peer->take != NULL) {
            peer->take(p->self, c);
        }
        wrong += bench_receives(c, root) ? bench_check(c, root) : 0;
        meet(p);
    }
    return wrong;
}

/* Nobody who has to wait for others may return before they have entered. */
static uint64_t verify_meeting(participant_t *p) {
    const bench_case_t *c = &p->now;
    line_t *lines = p->bench->shared->lines;
    /* few where each may take many time slices */
    uint32_t calls = c->participants <= (uint32_t)CPU_COUNT(&places) ? 100 : 5;
    uint64_t wrong = 0;
    /* relaxed: my own line, which only I write */
    uint64_t entered = atomic_load_explicit(&lines[p->rank].entered, memory_order_relaxed);
    for (uint32_t i = 0; i < calls; i++) {
        uint32_t root = i % c->roots;
        entered++;
        /* relaxed: the collective under test orders it before the load below, if it is right */
        atomic_store_explicit(&lines[p->rank].entered, entered, memory_order_relaxed);
        p->bench->peer->call(p->self, c, root);
        for (uint32_t r = 0; r < c->participants && bench_receives(c, root); r++) {
            if ((c->coll->traits & BENCH_ROOT_SENDS) == 0 || r == root) {
                /* relaxed: see the store */
                wrong += atomic_load_explicit(&lines[r].entered, memory_order_relaxed) < entered;
            }
        }
    }
    meet(p);
    return wrong;
}

static void verify(participant_t *p) {
    const bench_coll_t *coll = p->now.coll;
    bool meets = coll->id == BENCH_BARRIER || coll->id == BENCH_FANIN || coll->id == BENCH_FANOUT;
    bool moves = coll->destination != BENCH_NOTHING || coll->id == BENCH_BCAST;
    uint64_t wrong = 0;
    if (p->bench->options.verify && meets) {
        wrong = verify_meeting(p);
    } else if (p->bench->options.verify && moves) {
        wrong = verify_data(p);
    }
    p->bench->shared->lines[p->rank].wrong = wrong;
    meet(p);
}

static uint64_t wrong_in_all(const bench_t *b) {
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < b->options.participants; i++) {
        wrong += b->shared->lines[i].wrong;
    }
    return wrong;
}

/* ------------------------------------------------------------------------------------------------
 * Timing
 * ---------------------------------------------------------------------------------------------- */

static uint64_t sample_touch(participant_t *p) {
    const bench_case_t *c = &p->now;
    uint32_t root = (uint32_t)(p->calls % c->roots);
    uint64_t elements;
    if (bench_sends(c, root)) {
        perf_write(c->source, p->calls, bench_elements(c, c->coll->source) * c->width);
    }
    meet(p);
    uint64_t begin = ticks();
    call(p);
    meet(p);
    uint64_t taken = ticks() - begin;
    if (bench_receives(c, root)) {
        const unsigned char *buffer = bench_result(c, &elements);
        p->sink += perf_read(buffer, elements * c->width);
    }
    return taken;
}

static uint64_t sample_tight(participant_t *p, uint64_t batch) {
    meet(p);
    uint64_t begin = ticks();
    for (uint64_t i = 0; i < batch; i++) {
        call(p);
    }
    return ticks() - begin;
}

/* Seconds that all samples took, with all that belongs to them. */
static double measure(participant_t *p, uint64_t samples, uint64_t batch) {
    uint64_t *mine = samples_of(p->bench, p->rank);
    uint64_t begin = ticks();
    for (uint64_t s = 0; s < samples; s++) {
        mine[s] = p->bench->options.touch ? sample_touch(p) : sample_tight(p, batch);
    }
    return seconds(ticks() - begin);
}

/* Participant 0: what to try next, or finally do, after `taken` seconds for the plan. */
static void decide(const bench_options_t *o, plan_t *plan, double taken) {
    double each = taken / (double)plan->samples;
    if (++plan->trials < MIN_TRIALS && taken < o->seconds) {
        return; /* first calls are slow: they make connections and touch pages */
    }
    if (!o->touch && each < o->seconds / 50 && plan->batch < UINT64_C(1) << 40) {
        plan->batch *= each < o->seconds / 500 ? 8 : 2;
        return;
    }
    double fit = o->seconds / each;
    /* a peer that takes very long per call gets few samples instead of many minutes */
    double least = MIN_SAMPLES * each > 10 * o->seconds ? 5 : MIN_SAMPLES;
    fit = fit < least ? least : fit > MAX_SAMPLES ? MAX_SAMPLES : fit;
    plan->samples = (uint64_t)fit;
    plan->settled = true;
}

static void settle(participant_t *p) {
    plan_t *plan = &p->bench->shared->plan;
    if (p->rank == 0) {
        *plan = (plan_t){.batch = 1, .samples = p->bench->options.touch ? 3 : 1};
    }
    meet(p);
    while (!plan->settled) {
        double taken = measure(p, plan->samples, plan->batch);
        meet(p); /* all have read the plan */
        if (p->rank == 0) {
            decide(&p->bench->options, plan, taken);
        }
        meet(p);
    }
}

static int compare_ticks(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Participant 0, after the last meeting: the slowest participant counts in every sample. */
static void print(const bench_t *b, const bench_case_t *c, uint64_t wrong) {
    const bench_options_t *o = &b->options;
    char version[256] = "";
    if (b->peer->version != NULL) {
        b->peer->version(version, sizeof(version));
    }
    for (char *at = version; *at != '\0'; at++) {
        *at = *at == '"' || *at == '\\' || (unsigned char)*at < ' ' ? ' ' : *at;
    }
    printf("{\"peer\": \"%s%s%s\", \"version\": \"%s\", \"collective\": \"%s\", "
           "\"bytes\": %llu, \"participants\": %u, \"kind\": \"%s\", \"form\": \"%s\", "
           "\"root\": \"%s\"",
           b->peer->name, o->variant[0] == '\0' ? "" : "-", o->variant, version, c->coll->name,
           (unsigned long long)c->bytes, c->participants, bench_kinds[o->touch],
           bench_forms[c->form],
           (c->coll->traits & BENCH_ROOTED) != 0 ? bench_roots[o->alternating] : "none");
    if (wrong == 0) {
        const plan_t *plan = &b->shared->plan;
        uint64_t *slowest = samples_of(b, 0), n = plan->samples;
        for (uint32_t r = 1; r < c->participants; r++) {
            const uint64_t *other = samples_of(b, r);
            for (uint64_t s = 0; s < n; s++) {
                slowest[s] = other[s] > slowest[s] ? other[s] : slowest[s];
            }
        }
        qsort(slowest, n, sizeof(slowest[0]), compare_ticks);
        double us = 1e6 / (double)plan->batch;
        printf(", \"min_us\": %.5g, \"median_us\": %.5g, \"p90_us\": %.5g, "
               "\"p99_us\": %.5g, \"iterations\": %llu",
               seconds(slowest[0]) * us, seconds(slowest[n / 2]) * us,
               seconds(slowest[n - 1 - n / 10]) * us, seconds(slowest[n - 1 - n / 100]) * us,
               (unsigned long long)(n * plan->batch));
    }
    printf(", \"wrong\": %llu, \"verified\": %s}\n", (unsigned long long)wrong,
           o->verify ? "true" : "false");
    fflush(stdout);
}

/* ------------------------------------------------------------------------------------------------
 * A case, a participant, a run
 * ---------------------------------------------------------------------------------------------- */

static void run_case(participant_t *p, const bench_coll_t *coll, uint64_t bytes) {
    const bench_peer_t *peer = p->bench->peer;
    case_begin(p, coll, bytes);
    if (!peer->supports(&p->now)) {
        case_end(p->bench->peer, &p->now);
        return;
    }
    if (peer->prepare != NULL) {
        peer->prepare(p->self, &p->now);
    }
    p->calls = 0;
    meet(p);
    verify(p);
    uint64_t wrong = wrong_in_all(p->bench);
    if (wrong == 0) {
        settle(p);
        (void)measure(p, p->bench->shared->plan.samples, p->bench->shared->plan.batch);
    }
    meet(p);
    if (p->rank == 0) {
        print(p->bench, &p->now, wrong);
    }
    if (peer->release != NULL) {
        peer->release(p->self, &p->now);
    }
    meet(p); /* nobody frees what another may still be reading */
    case_end(p->bench->peer, &p->now);
}

void bench_participate(const bench_t *b, uint32_t rank) {
    const bench_options_t *o = &b->options;
    participant_t p = {.bench = b, .rank = rank};
    if (!o->unbound) {
        pin(rank, o->participants);
    }
    if (b->peer->join != NULL) {
        p.self = b->peer->join(o, rank);
    }
    meet(&p);
    for (size_t i = 0; i < o->n_colls; i++) {
        const bench_coll_t *coll = o->colls[i];
        bool moves = coll->source != BENCH_NOTHING;
        for (size_t j = 0; j < (moves ? o->n_bytes : 1); j++) {
            run_case(&p, coll, o->bytes[j]);
        }
    }
    meet(&p);
    if (b->peer->leave != NULL) {
        b->peer->leave(p.self);
    }
    volatile uint64_t sink = p.sink; /* what was read was wanted */
    (void)sink;
}

typedef struct thread {
    const bench_t *bench;
    uint32_t rank;
    pthread_t id;
} thread_t;

static void *thread_main(void *arg) {
    const thread_t *thread = arg;
    bench_participate(thread->bench, thread->rank);
    return NULL;
}

int bench_main(const bench_peer_t *peer, int argc, char **argv) {
    bench_t b;
    bench_open(&b, peer, argc, argv, 0);
    bench_map(&b, NULL, true);
    thread_t *threads = allocate(b.options.participants * sizeof(thread_t));
    for (uint32_t i = 0; i < b.options.participants; i++) {
        threads[i] = (thread_t){.bench = &b, .rank = i};
        int error = pthread_create(&threads[i].id, NULL, thread_main, &threads[i]);
        if (error != 0) {
            bench_fail("pthread_create", strerror(error));
        }
    }
    for (uint32_t i = 0; i < b.options.participants; i++) {
        pthread_join(threads[i].id, NULL);
    }
    free(threads);
    return 0;
}
