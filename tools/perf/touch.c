/* touch.c: memory as applications use it (--touch).
 *
 * An iteration rewrites the sources, so that they are in the writer's caches and nowhere else; then
 *
 *     flag exchange | clock starts | collective, flag exchange | clock stops
 *
 * and at last each worker reads its result, so that the next collective finds it where a reader
 * left it. The slowest worker's time counts: it holds the collective, the exchange after it, and as
 * much of the exchange before it as the first worker to leave it is ahead of the last.
 */
#include "kernels.h"
#include "run.h"

#include <sched.h>

void perf_spin(perf_worker_t *w) {
    perf_run_t *run = w->run;
    if (run->options->processes > 1) { /* they share no flags */
        w->meetings++;
        perf_align(w);
        return;
    }
    const uint32_t patience = run->crowded ? 64 : 100000;
    uint64_t number = ++w->meetings;
    /* release: what this worker wrote is seen by whoever leaves; pairs with the acquire below */
    atomic_store_explicit(&run->barrier[w->index].value, number, memory_order_release);
    for (uint32_t i = 0; i < run->options->workers; i++) {
        uint32_t spins = 0;
        /* acquire: pairs with the release above */
        while (atomic_load_explicit(&run->barrier[i].value, memory_order_acquire) < number) {
            if (++spins >= patience) {
                sched_yield();
                spins = 0;
            }
        }
    }
}

typedef struct region {
    unsigned char *at;
    uint64_t bytes;
} region_t;

/* What endpoint e contributes. */
static region_t input(const perf_case_t *c, const perf_endpoint_t *e) {
    uint64_t width = c->options->datatype->bytes;
    bool one_source = c->coll->destination == PERF_SHAPE_NONE || perf_scatters(c->coll);
    if (c->coll->source == PERF_SHAPE_NONE || (one_source && e->index != e->root)) {
        return (region_t){NULL, 0};
    }
    bool reduces = (c->coll->traits & PERF_REDUCES) != 0;
    bool blocks = c->coll->source == PERF_SHAPE_BLOCKS;
    uint64_t one = reduces || one_source ? c->count : c->counts[e->index];
    uint64_t count = blocks ? c->total : one;
    if (!perf_is_in_place(c, e) || perf_scatters(c->coll)) {
        return (region_t){e->source, count * width};
    }
    /* gather and allgather in place: the own block among the results */
    bool among = !blocks && c->coll->destination == PERF_SHAPE_BLOCKS;
    uint64_t position = among ? perf_block_position(c, e, e->index) : 0;
    return (region_t){e->destination + position * width, count * width};
}

/* What endpoint e receives. */
static region_t result(const perf_case_t *c, const perf_endpoint_t *e) {
    uint64_t width = c->options->datatype->bytes;
    bool is_root = e->index == e->root;
    if (c->coll->source == PERF_SHAPE_NONE) {
        return (region_t){NULL, 0};
    }
    if (c->coll->destination == PERF_SHAPE_NONE) { /* bcast */
        return (region_t){e->source, is_root ? 0 : c->count * width};
    }
    if (perf_scatters(c->coll)) {
        bool stays = perf_is_in_place(c, e);
        return (region_t){e->destination, stays ? 0 : c->counts[e->index] * width};
    }
    if ((c->coll->traits & PERF_ROOTED) != 0 && !is_root) {
        return (region_t){NULL, 0};
    }
    if (c->coll->destination == PERF_SHAPE_BLOCKS) {
        return (region_t){e->destination, c->total * width};
    }
    if (c->coll->source == PERF_SHAPE_BLOCK) { /* reduce, allreduce */
        return (region_t){e->destination, c->count * width};
    }
    uint64_t first = perf_is_in_place(c, e) ? c->displacements[e->index] : 0; /* reduce_scatter */
    return (region_t){e->destination + first * width, c->counts[e->index] * width};
}

uint64_t perf_touch_iteration(perf_worker_t *w) {
    const perf_case_t *c = &w->run->now;
    /* Bytes that as numbers of every floating-point type are near one: no overflow and no
     * denormals, whatever the operation. Two values in turn, since storing what is there may cost
     * less. */
    uint64_t value = 0x3e + (w->meetings / 2) % 2;
    perf_next_turn(w);
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        region_t in = input(c, &w->endpoints[i]);
        if (in.bytes != 0) {
            perf_write(in.at, value, in.bytes);
        }
    }
    perf_spin(w);
    uint64_t begin = perf_clock_ticks();
    perf_call(w);
    perf_spin(w);
    uint64_t ticks = perf_clock_ticks() - begin;
    for (uint32_t i = 0; i < w->n_endpoints; i++) {
        region_t out = result(c, &w->endpoints[i]);
        if (out.bytes != 0) {
            w->sink |= perf_read(out.at, out.bytes);
        }
    }
    return ticks;
}
