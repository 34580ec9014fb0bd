/* limits.c: what the machine itself takes for the parts that every collective is made of, in the
 * same loops: see the last entries of bench_id_t.
 */
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/perf/kernels.h"
#include "loop.h"

enum { FLAGS = 8 };

/* A participant's line: it alone writes, the others read. */
typedef struct place {
    alignas(256) atomic_uint_fast64_t flag;
    const unsigned char *source; /* of the present case; published by the loops' meetings */
} place_t;

typedef struct self {
    place_t *places;
    uint64_t exchanges, line_exchanges, turns;
    uint64_t sink; /* depends on all that was read */
} self_t;

static alignas(256) atomic_uint_fast64_t token;       /* counts steps of the ring */
static alignas(256) atomic_uint_fast64_t line[FLAGS]; /* all write, all read */
static place_t *places;
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;

static void version(char *text, size_t bytes) {
#if defined(__x86_64__)
    const char *stores = __builtin_cpu_supports("avx512f") ? "AVX-512"
                         : __builtin_cpu_supports("avx2")  ? "AVX2"
                                                           : "no";
#else
    const char *stores = "no";
#endif
    snprintf(text, bytes, "memcpy, %s streaming stores", stores);
}

static bool supports(const bench_case_t *c) {
    if (c->coll->id == BENCH_LINE && c->participants > FLAGS) {
        return false;
    }
    return c->form == BENCH_BLOCKING && c->coll->id >= BENCH_EXCHANGE;
}

static void *join(const bench_options_t *o, uint32_t rank) {
    (void)rank;
    pthread_mutex_lock(&places_lock);
    if (places == NULL) {
        void *memory = NULL;
        if (posix_memalign(&memory, alignof(place_t), o->participants * sizeof(place_t)) != 0) {
            bench_fail("places", "out of memory");
        }
        memset(memory, 0, o->participants * sizeof(place_t));
        places = memory;
    }
    pthread_mutex_unlock(&places_lock);
    self_t *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        bench_fail("places", "out of memory");
    }
    self->places = places;
    return self;
}

static void leave(void *self) {
    volatile uint64_t sink = ((self_t *)self)->sink; /* what was read was wanted */
    (void)sink;
    free(self);
}

static void prepare(void *self, const bench_case_t *c) {
    ((self_t *)self)->places[c->rank].source = c->source;
}

/* i modulo n, for i < 2 n, without a division on the way to the flag. */
static uint32_t next(uint32_t i, uint32_t n) {
    return i < n ? i : i - n;
}

static void exchange(self_t *self, const bench_case_t *c) {
    uint64_t round = ++self->exchanges;
    /* release: as a collective publishes a payload; pairs with the acquire below */
    atomic_store_explicit(&self->places[c->rank].flag, round, memory_order_release);
    for (uint32_t k = 1; k < c->participants;
         k++) { /* not my own: looking costs half an exchange */
        uint32_t i = next(c->rank + k, c->participants), turns = 0;
        /* acquire: as a collective reads the payload; pairs with the release above */
        while (atomic_load_explicit(&self->places[i].flag, memory_order_acquire) < round) {
            bench_relax(&turns);
        }
    }
}

/* Back to back this is faster than exchange(), because one transfer of the line carries both flags;
 * it is slower between participants that do something else in between. */
static void exchange_line(self_t *self, const bench_case_t *c) {
    uint64_t round = ++self->line_exchanges;
    /* release and acquire: as in exchange() */
    atomic_store_explicit(&line[c->rank], round, memory_order_release);
    for (uint32_t k = 1; k < c->participants; k++) {
        uint32_t i = next(c->rank + k, c->participants), turns = 0;
        while (atomic_load_explicit(&line[i], memory_order_acquire) < round) {
            bench_relax(&turns);
        }
    }
}

static void ring(self_t *self, const bench_case_t *c) {
    uint64_t step = self->turns++ * c->participants + c->rank;
    /* acquire and release: a step of the ring orders what was done before it */
    while (atomic_load_explicit(&token, memory_order_acquire) != step) {
        sched_yield();
    }
    atomic_store_explicit(&token, step + 1, memory_order_release);
}

static void stream(const bench_case_t *c, size_t bytes) {
    size_t lines = bytes & ~(size_t)63;
    perf_copy_streaming(c->destination, c->source, lines);
    memcpy(c->destination + lines, c->source + lines, bytes - lines);
}

static void call(void *opaque, const bench_case_t *c, uint32_t root) {
    self_t *self = opaque;
    size_t bytes = c->count * c->width;
    (void)root;
    switch (c->coll->id) {
    case BENCH_EXCHANGE:
        exchange(self, c);
        break;
    case BENCH_LINE:
        exchange_line(self, c);
        break;
    case BENCH_RING:
        ring(self, c);
        break;
    case BENCH_YIELD:
        sched_yield();
        break;
    case BENCH_COPY:
        memcpy(c->destination, c->source, bytes);
        break;
    case BENCH_STREAM:
        stream(c, bytes);
        break;
    default:
        self->sink += perf_read(self->places[(c->rank + 1) % c->participants].source, bytes);
        break;
    }
}

int main(int argc, char **argv) {
    static const bench_peer_t peer = {.name = "limits",
                                      .version = version,
                                      .supports = supports,
                                      .join = join,
                                      .leave = leave,
                                      .prepare = prepare,
                                      .call = call};
    return bench_main(&peer, argc, argv);
}
