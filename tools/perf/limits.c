/* limits.c: what the machine allows, measured by the same threads on the same processors, in turn
 * with the collective (--limits).
 *
 *     X      workers 0 and 1 exchange two flags, over and over
 *     ring   a token goes round all workers, each of which only yields until it holds it
 *     M(T)   all workers copy T bytes at once, each from its own source to its own destination;
 *            memcpy and non-temporal stores in turn, the faster one counts
 *     R(T)   each worker reads T bytes that the next one has just written
 *
 * With several processes there is one limit:
 *
 *     H(T)   a message of T bytes goes from the first process to the last and back, through UCX
 *            (ping.c): half the time
 *
 * and T is what must go from one process to another at least. With --mem cuda there are two, both
 * of which worker 0 measures while the others sleep:
 *
 *     L      an empty launch on a device and its event, until the host has seen it
 *     C(T)   devices copy T bytes each within their memory, until the host has seen that they have
 *
 * and T is the traffic of the collective, halved, for each device. Else T is the traffic of the
 * collective (traffic.c) divided by the traffic of one copied byte, 2, and by the number of
 * workers: S for an allreduce of S. R, and with --touch M, stand between two flag exchanges exactly
 * as the collective does in touch.c, and include what that includes.
 */
#include "device.h"
#include "kernels.h"
#include "run.h"
#include "world.h"

#include <sched.h>
#include <stdlib.h>

enum {
    EXCHANGE_BATCHES = 10, /* per slice */
    EXCHANGE_ROUNDS = 200, /* per batch */
    RING_ROTATIONS = 50,   /* per slice, unless they take longer than RING_MS */
    RING_MS = 20,
    MESSAGE_SAMPLES = 3, /* per slice */
    MOST_SAMPLES = 500,  /* copies and reads per slice */
    SHORT_COPY = 64 << 10,
    SHORT_BATCH = 16 /* copies of less than SHORT_COPY per sample */
};

static const uint64_t RING_STOP = UINT64_MAX;

/* The largest that must go from one process to another, at least 8. */
static uint64_t message_bytes(const perf_case_t *c) {
    double messages, bytes, processes = c->options->processes;
    perf_wire_least(c, &messages, &bytes);
    switch (c->coll->type) {
    case UCC_COLL_TYPE_ALLREDUCE: /* as between two */
    case UCC_COLL_TYPE_BCAST:
    case UCC_COLL_TYPE_REDUCE:
        bytes = (double)c->bytes;
        break;
    case UCC_COLL_TYPE_GATHER:
    case UCC_COLL_TYPE_GATHERV:
    case UCC_COLL_TYPE_SCATTER:
    case UCC_COLL_TYPE_SCATTERV:
        bytes /= processes - 1.0;
        break;
    default:
        bytes /= processes * (processes - 1.0);
        break;
    }
    return bytes < 8.0 ? 8 : (uint64_t)bytes;
}

static uint64_t device_bytes(const perf_case_t *c) {
    const perf_options_t *o = c->options;
    return perf_traffic(c->coll, o->endpoints, c->bytes) / 2 / perf_device_summary()->devices;
}

void perf_limits_plan(perf_run_t *run) {
    const perf_options_t *o = run->options;
    const perf_case_t *c = &run->now;
    perf_limit_plan_t *plan = &run->plan;
    *plan = (perf_limit_plan_t){.between_flags = o->touch || run->crowded, .samples = 1};
    if (!o->limits) {
        return;
    }
    if (o->processes > 1) {
        plan->kinds[PERF_LIMIT_MESSAGE] = true;
        plan->bytes = message_bytes(c);
        return;
    }
    bool data = c->coll->source != PERF_SHAPE_NONE;
    if (o->memory != UCC_MEMORY_TYPE_HOST && (data || o->stream || o->workers < 2)) {
        plan->kinds[PERF_LIMIT_LAUNCH] = c->bytes < PERF_SMALL;
        plan->kinds[PERF_LIMIT_DEVICE] = !plan->kinds[PERF_LIMIT_LAUNCH];
        plan->bytes = plan->kinds[PERF_LIMIT_DEVICE] ? device_bytes(c) : 0;
        return;
    }
    bool small = c->bytes < PERF_SMALL, large = c->bytes >= PERF_LARGE;
    plan->kinds[PERF_LIMIT_EXCHANGE] = !large && !run->crowded;
    plan->kinds[PERF_LIMIT_RING] = !large && run->crowded;
    plan->kinds[PERF_LIMIT_COPY] = !small;
    plan->kinds[PERF_LIMIT_STREAMING] = !small;
    plan->kinds[PERF_LIMIT_READ] = !small && !large;
    if (!small) {
        plan->bytes = perf_traffic(c->coll, o->endpoints, c->bytes) / 2 / o->workers;
        plan->allocated = (plan->bytes + 127) / 128 * 128;
    }
}

static void add(perf_worker_t *w, perf_limit_kind_t kind, double seconds) {
    perf_samples_t *samples = &w->limits[kind];
    if (samples->count == samples->capacity) {
        samples->capacity = samples->capacity == 0 ? 64 : 2 * samples->capacity;
        samples->seconds =
            realloc(samples->seconds, samples->capacity * sizeof(samples->seconds[0]));
        if (samples->seconds == NULL) {
            perf_fatal("samples", UCC_ERR_NO_MEMORY);
        }
    }
    samples->seconds[samples->count++] = seconds;
}

/* ------------------------------------------------------------------------------------------------
 * X and the ring
 * ---------------------------------------------------------------------------------------------- */

static void exchange_slice(perf_worker_t *w) {
    perf_run_t *run = w->run;
    if (w->index > 1) {
        return;
    }
    perf_flag_t *mine = &run->exchange[w->index], *theirs = &run->exchange[1 - w->index];
    for (uint32_t batch = 0; batch <= EXCHANGE_BATCHES; batch++) {
        uint64_t begin = perf_clock_ticks();
        for (uint32_t i = 0; i < EXCHANGE_ROUNDS; i++) {
            perf_exchange_round(mine, theirs, ++w->exchanges);
        }
        double seconds = perf_clock_seconds(perf_clock_ticks() - begin) / EXCHANGE_ROUNDS;
        if (batch != 0) { /* the first one waited until both were awake */
            add(w, PERF_LIMIT_EXCHANGE, seconds);
        }
    }
}

/* The token counts the hops; worker i holds it while it is i modulo the number of workers. Worker 0
 * has reset it before the meeting, and ends the ring. */
static void ring_slice(perf_worker_t *w) {
    perf_run_t *run = w->run;
    uint64_t n = run->options->workers, rotations = 0, begin = 0, token;
    for (;;) {
        /* acquire: as a payload that the token protects would be read; pairs with the release below
         */
        while ((token = atomic_load_explicit(&run->token.value, memory_order_acquire)) !=
                   RING_STOP &&
               token % n != w->index) {
            sched_yield();
        }
        if (token == RING_STOP) {
            return;
        }
        if (w->index == 0) {
            uint64_t now = perf_clock_ticks();
            begin = rotations == 0 ? now : begin; /* the first token is there at once */
            double seconds = perf_clock_seconds(now - begin);
            if (rotations == RING_ROTATIONS || (rotations > 0 && seconds > RING_MS * 1e-3)) {
                add(w, PERF_LIMIT_RING, seconds / (double)rotations);
                token = RING_STOP - 1;
            }
            rotations++;
        }
        /* release: pairs with the acquire above */
        atomic_store_explicit(&run->token.value, token + 1, memory_order_release);
    }
}

/* ------------------------------------------------------------------------------------------------
 * M and R
 * ---------------------------------------------------------------------------------------------- */

static void copy(const perf_worker_t *w, perf_limit_kind_t kind) {
    uint64_t bytes = w->run->plan.allocated;
    if (kind == PERF_LIMIT_COPY) {
        memcpy(w->copy_destination, w->copy_source, bytes);
    } else {
        perf_copy_streaming(w->copy_destination, w->copy_source, bytes);
    }
}

static double copy_between_flags(perf_worker_t *w, perf_limit_kind_t kind) {
    uint64_t bytes = w->run->plan.allocated;
    if (w->run->options->touch) {
        perf_write(w->copy_source, w->meetings, bytes);
    }
    perf_spin(w);
    uint64_t begin = perf_clock_ticks();
    copy(w, kind);
    perf_spin(w);
    uint64_t ticks = perf_clock_ticks() - begin;
    if (w->run->options->touch) {
        w->sink |= perf_read(w->copy_destination, bytes);
    }
    return perf_clock_seconds(ticks);
}

static double copy_tight(const perf_worker_t *w, perf_limit_kind_t kind) {
    uint32_t batch = w->run->plan.allocated < SHORT_COPY ? SHORT_BATCH : 1;
    uint64_t begin = perf_clock_ticks();
    for (uint32_t i = 0; i < batch; i++) {
        copy(w, kind);
    }
    return perf_clock_seconds(perf_clock_ticks() - begin) / batch;
}

static void copy_slice(perf_worker_t *w) {
    const perf_limit_plan_t *plan = &w->run->plan;
    for (unsigned kind = PERF_LIMIT_COPY; kind <= PERF_LIMIT_STREAMING; kind++) {
        perf_spin(w);
        for (size_t i = 0; i <= plan->samples; i++) {
            double seconds =
                plan->between_flags ? copy_between_flags(w, kind) : copy_tight(w, kind);
            if (i != 0) { /* the first one found what the collective left in the caches */
                add(w, kind, seconds);
            }
        }
    }
}

static void read_slice(perf_worker_t *w) {
    const perf_run_t *run = w->run;
    const perf_worker_t *next = &run->workers[(w->index + 1) % run->options->workers];
    for (size_t i = 0; i <= run->plan.samples; i++) {
        perf_write(w->copy_source, w->meetings, run->plan.allocated);
        perf_spin(w);
        uint64_t begin = perf_clock_ticks();
        w->sink |= perf_read(next->copy_source, run->plan.allocated);
        perf_spin(w);
        if (i != 0) {
            add(w, PERF_LIMIT_READ, perf_clock_seconds(perf_clock_ticks() - begin));
        }
    }
}

static void device_slice(perf_worker_t *w) {
    const perf_run_t *run = w->run;
    bool copies = run->plan.kinds[PERF_LIMIT_DEVICE];
    uint64_t samples = run->now.iterations / run->now.batch / run->slices;
    uint64_t batch = run->options->stream ? run->now.batch : 1;
    samples = samples > MOST_SAMPLES ? MOST_SAMPLES : samples;
    for (uint64_t i = 0; i <= samples; i++) {
        double seconds =
            copies ? perf_device_copy(run->plan.bytes, batch) : perf_device_launch(batch);
        if (i != 0) { /* the first one found what the collective left */
            add(w, copies ? PERF_LIMIT_DEVICE : PERF_LIMIT_LAUNCH, seconds);
        }
    }
}

static void prepare(perf_worker_t *w) {
    uint64_t bytes = w->run->plan.allocated;
    if (bytes > w->copy_source_bytes) {
        perf_grow(&w->copy_source, &w->copy_source_bytes, bytes);
        perf_grow(&w->copy_destination, &w->copy_destination_bytes, bytes);
        perf_write(w->copy_source, 1, bytes); /* from the thread that will use them */
        perf_write(w->copy_destination, 2, bytes);
    }
}

void perf_limits_slice(perf_worker_t *w) {
    perf_run_t *run = w->run;
    const bool *kinds = run->plan.kinds;
    if (kinds[PERF_LIMIT_MESSAGE]) {
        if (w->index == 0) {
            for (uint32_t i = 0; i < MESSAGE_SAMPLES; i++) {
                add(w, PERF_LIMIT_MESSAGE, perf_ping_half(run->plan.bytes));
            }
        }
        perf_meet(run);
        return;
    }
    if (kinds[PERF_LIMIT_LAUNCH] || kinds[PERF_LIMIT_DEVICE]) {
        if (w->index == 0) {
            device_slice(w);
        }
        perf_meet(run);
        return;
    }
    prepare(w);
    if (w->index == 0) {
        uint64_t per_slice = run->now.iterations / run->now.batch / run->slices;
        run->plan.samples = per_slice > MOST_SAMPLES ? MOST_SAMPLES : per_slice;
        /* relaxed: the meeting publishes it */
        atomic_store_explicit(&run->token.value, 0, memory_order_relaxed);
    }
    perf_meet(run);
    if (kinds[PERF_LIMIT_EXCHANGE]) {
        exchange_slice(w);
        perf_meet(run);
    }
    if (kinds[PERF_LIMIT_RING]) {
        ring_slice(w);
        perf_meet(run);
    }
    if (kinds[PERF_LIMIT_COPY]) {
        copy_slice(w);
        perf_meet(run);
    }
    if (kinds[PERF_LIMIT_READ]) {
        read_slice(w);
        perf_meet(run);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Result
 * ---------------------------------------------------------------------------------------------- */

static int compare_seconds(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The median over the samples of the slowest worker's time. X and the ring have worker 0's. */
static double median(const perf_run_t *run, perf_limit_kind_t kind) {
    perf_samples_t *slowest = &run->workers[0].limits[kind];
    if (!run->plan.kinds[kind] || slowest->count == 0) {
        return -1.0;
    }
    bool everybody = kind >= PERF_LIMIT_COPY && kind <= PERF_LIMIT_READ;
    for (uint32_t w = 1; everybody && w < run->options->workers; w++) {
        const double *other = run->workers[w].limits[kind].seconds;
        for (size_t i = 0; i < slowest->count; i++) {
            slowest->seconds[i] = other[i] > slowest->seconds[i] ? other[i] : slowest->seconds[i];
        }
    }
    qsort(slowest->seconds, slowest->count, sizeof(double), compare_seconds);
    return slowest->seconds[slowest->count / 2];
}

static void choose(const perf_run_t *run, perf_limits_t *limits) {
    bool touch = run->options->touch, crowded = run->crowded;
    double synchronize = crowded ? limits->ring : limits->exchange;
    if (run->plan.kinds[PERF_LIMIT_MESSAGE]) { /* with --touch, a barrier after it */
        limits->limit = limits->message;
        limits->formula = "H(T)";
        return;
    }
    if (limits->launch > 0.0 || limits->device > 0.0) {
        limits->limit = limits->device > 0.0 ? limits->device : limits->launch;
        limits->formula = limits->device > 0.0 ? "C(T)" : "L";
        return;
    }
    if (limits->copy < 0.0) { /* with --touch, the collective and the exchange after it */
        limits->limit = touch ? 2.0 * synchronize : synchronize;
        limits->formula = crowded ? (touch ? "2 ring" : "ring") : (touch ? "2X" : "X");
    } else if (limits->read < 0.0) {
        limits->limit = limits->copy;
        limits->formula = "M(T)";
    } else {
        limits->limit = limits->copy + limits->read + 2.0 * synchronize;
        limits->formula = crowded ? "M(T)+R(T)+2 ring" : "M(T)+R(T)+2X";
    }
}

perf_limits_t perf_limits_result(const perf_run_t *run) {
    perf_limits_t limits = {.limit = -1.0, .formula = ""};
    double plain = median(run, PERF_LIMIT_COPY), streaming = median(run, PERF_LIMIT_STREAMING);
    limits.bytes = run->plan.bytes;
    limits.exchange = median(run, PERF_LIMIT_EXCHANGE);
    limits.ring = median(run, PERF_LIMIT_RING);
    limits.read = median(run, PERF_LIMIT_READ);
    limits.message = median(run, PERF_LIMIT_MESSAGE);
    limits.launch = median(run, PERF_LIMIT_LAUNCH);
    limits.device = median(run, PERF_LIMIT_DEVICE);
    limits.copy = streaming < plain ? streaming : plain;
    if (run->options->limits) {
        choose(run, &limits);
    }
    return limits;
}
