/* measure.c: the timing of one case.
 *
 * The measured iterations are cut into slices when limits are measured, too: a slice of the
 * collective, a slice of each limit, and again, so that a change in the machine's speed meets both.
 * Within a slice the loop is tight: collectives that synchronize all endpoints run back to back,
 * and a sample is a batch of them where one would be too short to time. Before a sample of a
 * one-way one (rooted, or a scan) there is an untimed barrier; with --back-to-back a sample is so
 * many iterations that the root may run as far ahead as the library lets it. With --touch an
 * iteration is that of touch.c. With --stream a sample is a batch of calls, until the streams have
 * done them.
 */
#include "run.h"
#include "world.h"

#include <stdlib.h>

enum {
    MAX_SAMPLES = 100000,
    MAX_SAMPLES_IN_ALL = 1 << 23,
    MAX_SAMPLES_EXCHANGED = 20000, /* that processes show each other */
    BATCH = 16,
    BACK_TO_BACK = 20
};

double perf_estimate(perf_worker_t *w, uint64_t iterations) {
    perf_run_t *run = w->run;
    uint64_t begin = perf_clock_ticks();
    for (uint64_t i = 0; i < iterations; i++) {
        if (run->options->touch) {
            perf_touch_iteration(w);
            continue;
        }
        if (perf_is_one_way(run)) {
            perf_align(w);
        }
        perf_next_turn(w);
        perf_call(w);
    }
    perf_settle(w);
    if (w->index == 0) {
        run->estimate = perf_clock_seconds(perf_clock_ticks() - begin) / (double)iterations;
        perf_world_share(&run->estimate, sizeof(run->estimate));
    }
    perf_meet(run);
    double seconds = run->estimate;
    perf_meet(run); /* nobody overwrites it before all have read it */
    return seconds;
}

void perf_samples_reserve(perf_worker_t *w, size_t samples) {
    if (samples > w->capacity) {
        free(w->samples);
        w->samples = perf_allocate(samples * sizeof(w->samples[0]));
        w->capacity = samples;
    }
}

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most) {
    return value < least ? least : value > most ? most : value;
}

/* Worker 0. Iterations are a multiple of batch * slices. */
static void choose_iterations(perf_run_t *run, double seconds) {
    const perf_options_t *o = run->options;
    perf_case_t *c = &run->now;
    bool one_way = perf_is_one_way(run);
    double fit = o->seconds / (seconds > 1e-9 ? seconds : 1e-9);
    uint64_t want = o->iterations != 0 ? o->iterations : fit > 1e9 ? 1000000000 : (uint64_t)fit;
    uint64_t least = o->iterations == 0 ? 5 : 1;
    run->slices = o->limits ? PERF_SLICES : 1;
    c->batch = !one_way && !o->touch && seconds < 2e-6 ? BATCH : 1;
    c->batch = o->stream && (o->iterations != 0 || seconds < 1e-3) ? BATCH : c->batch;
    if (one_way && o->back_to_back) {
        c->batch = clamp(want / BACK_TO_BACK, 1, want);
    }
    uint64_t most = clamp(MAX_SAMPLES_IN_ALL / o->workers, least, MAX_SAMPLES);
    most = o->processes > 1 ? clamp(MAX_SAMPLES_EXCHANGED, least, most) : most;
    uint64_t samples = clamp(want / c->batch, least, most);
    samples = clamp(samples / run->slices, 1, samples) * run->slices;
    c->iterations = samples * c->batch;
    c->warmup = o->warmup;
    if (o->iterations == 0 && (double)c->warmup * seconds > o->seconds / 2) {
        c->warmup = 1;
    }
    uint64_t decided[] = {run->slices, c->batch, c->iterations, c->warmup};
    perf_world_share(decided, sizeof(decided));
    run->slices = decided[0];
    c->batch = decided[1];
    c->iterations = decided[2];
    c->warmup = decided[3];
}

static void tight_slice(perf_worker_t *w, uint64_t slice, uint64_t *samples, size_t n) {
    const perf_case_t *c = &w->run->now;
    bool one_way = perf_is_one_way(w->run);
    perf_align(w);
    uint64_t first = perf_clock_ticks(), last = first;
    for (size_t s = 0; s < n; s++) {
        if (one_way) {
            perf_align(w);
            last = perf_clock_ticks();
        }
        for (uint64_t k = 0; k < c->batch; k++) {
            perf_next_turn(w);
            perf_call(w);
        }
        perf_settle(w);
        uint64_t now = perf_clock_ticks();
        samples[s] = now - last;
        last = now;
    }
    w->elapsed[slice] = last - first;
}

static void one_slice(perf_worker_t *w, uint64_t slice, size_t n) {
    bool touch = w->run->options->touch;
    uint64_t *samples = w->samples + slice * n, warmup = w->run->now.warmup;
    if (slice > 0 && warmup > 2) {
        warmup = 2; /* the caches hold what the limits left there */
    }
    for (uint64_t i = 0; i < warmup; i++) {
        if (touch) {
            perf_touch_iteration(w);
        } else {
            perf_next_turn(w);
            perf_call(w);
        }
    }
    perf_settle(w);
    perf_meet(w->run);
    if (!touch) {
        tight_slice(w, slice, samples, n);
        return;
    }
    for (size_t s = 0; s < n; s++) {
        samples[s] = perf_touch_iteration(w);
    }
}

static void run_slices(perf_worker_t *w) {
    perf_run_t *run = w->run;
    const perf_case_t *c = &run->now;
    size_t per_slice = c->iterations / c->batch / run->slices;
    for (unsigned kind = 0; kind < PERF_LIMIT_KINDS; kind++) {
        w->limits[kind].count = 0;
    }
    for (uint64_t slice = 0; slice < run->slices; slice++) {
        one_slice(w, slice, per_slice);
        perf_meet(run);
        if (run->options->limits) {
            perf_limits_slice(w);
        }
    }
}

int perf_compare_ticks(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

uint64_t perf_wrong_in_all(const perf_run_t *run) {
    const perf_options_t *o = run->options;
    uint64_t mine = 0, wrong = 0, *all = perf_allocate(o->processes * sizeof(*all));
    for (uint32_t w = 0; w < o->workers; w++) {
        mine += run->workers[w].wrong;
    }
    perf_world_gather(&mine, sizeof(mine), all);
    for (uint32_t p = 0; p < o->processes; p++) {
        wrong += all[p];
    }
    free(all);
    return wrong;
}

/* Clocks of different processes tick differently: picoseconds go over. */
void perf_slowest(uint64_t *ticks, size_t n) {
    uint32_t processes = perf_world_oob() == NULL ? 1 : (uint32_t)perf_world_oob()->n_oob_eps;
    if (processes == 1) {
        return;
    }
    uint64_t *all = perf_allocate(processes * n * sizeof(*all));
    for (size_t i = 0; i < n; i++) {
        ticks[i] = (uint64_t)(perf_clock_seconds(ticks[i]) * 1e12);
    }
    perf_world_gather(ticks, n * sizeof(*ticks), all);
    for (size_t i = 0; i < n; i++) {
        uint64_t most = 0;
        for (uint32_t p = 0; p < processes; p++) {
            most = all[p * n + i] > most ? all[p * n + i] : most;
        }
        ticks[i] = perf_clock_ticks_of((double)most * 1e-12);
    }
    free(all);
}

/* Worker 0, after the meeting: merges the samples of all workers of all processes, of which the
 * slowest counts, into its own and sorts them; likewise the loops' times. */
static void merge(perf_run_t *run, size_t samples) {
    perf_worker_t *first = &run->workers[0];
    for (uint32_t w = 1; w < run->options->workers; w++) {
        const perf_worker_t *other = &run->workers[w];
        for (size_t s = 0; s < samples; s++) {
            if (other->samples[s] > first->samples[s]) {
                first->samples[s] = other->samples[s];
            }
        }
        for (size_t s = 0; s < run->slices; s++) {
            if (other->elapsed[s] > first->elapsed[s]) {
                first->elapsed[s] = other->elapsed[s];
            }
        }
    }
    perf_slowest(first->samples, samples);
    perf_slowest(first->elapsed, run->slices);
    qsort(first->samples, samples, sizeof(uint64_t), perf_compare_ticks);
    qsort(first->elapsed, run->slices, sizeof(uint64_t), perf_compare_ticks);
}

static double sum(const uint64_t *ticks, size_t n) {
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++) {
        all += ticks[i];
    }
    return perf_clock_seconds(all);
}

static void report(perf_run_t *run) {
    const perf_case_t *c = &run->now;
    const perf_options_t *o = run->options;
    size_t samples = c->iterations / c->batch;
    merge(run, samples);
    const uint64_t *slowest = run->workers[0].samples, *elapsed = run->workers[0].elapsed;
    double batch = (double)c->batch, iterations = (double)c->iterations;
    uint64_t source = perf_source_bytes(c), destination = perf_destination_bytes(c);
    /* back to back: the loop's own time, since per-sample maxima overlap when threads share
     * processors */
    bool whole = !perf_is_one_way(run) && !o->touch;
    perf_result_t result = {
        .coll = c->coll,
        .bytes = c->bytes,
        .iterations = c->iterations,
        .batch = c->batch,
        .data_bytes = source > destination ? source : destination,
        .bus_factor = perf_bus_factor(c->coll, o->endpoints),
        .min = perf_clock_seconds(slowest[0]) / batch,
        .median = perf_clock_seconds(slowest[samples / 2]) / batch,
        .p99 = perf_clock_seconds(slowest[samples - 1 - samples / 100]) / batch,
        .mean = (whole ? sum(elapsed, run->slices) : sum(slowest, samples)) / iterations,
        .limits = perf_limits_result(run),
        .verified = o->verify,
        .wrong = perf_wrong_in_all(run),
    };
    if (result.limits.limit > 0.0) {
        double loop = perf_clock_seconds(elapsed[run->slices / 2]) * (double)run->slices;
        double time = whole && run->crowded ? loop / iterations : result.median;
        result.ratio = time / result.limits.limit;
    }
    perf_report_result(&result);
    run->wrong += result.wrong;
}

void perf_measure(perf_worker_t *w) {
    perf_run_t *run = w->run;
    double seconds = perf_estimate(w, 1);
    if (seconds < 5e-3) {
        seconds = perf_estimate(w, 20);
    }
    if (w->index == 0) {
        choose_iterations(run, seconds);
    }
    perf_meet(run);
    perf_samples_reserve(w, run->now.iterations / run->now.batch);
    run_slices(w);
    perf_meet(run);
    if (w->index == 0) {
        report(run);
    }
}
