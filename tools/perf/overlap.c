/* overlap.c: how much of a nonblocking collective hides behind computation (--overlap).
 *
 * As the nonblocking OSU benchmarks do it: the time of the collective alone, a dummy computation
 * made as long as that, and both at once: init and post, the computation with progress calls
 * between its pieces, completion, finalize. If the two ran side by side all the time, the total is
 * the computation's own; what is longer has not been hidden:
 *
 *     overlap = 100 (1 - (total - compute) / pure), but at least 0 and at most 100
 *
 * The three are measured in turn, one sample of each at a time; medians count.
 */
#include "run.h"
#include "world.h"

#include <stdlib.h>

enum { PURE, COMPUTE, TOTAL, KINDS };
enum { MAX_SAMPLES = 20000, PIECES = 10, CALIBRATION = 1 << 20 };

/* A chain of dependent operations, no memory; goes on where the last piece ended, so that two
 * pieces cannot run side by side. */
static void compute(perf_worker_t *w, uint64_t rounds) {
    double x = w->compute_state;
    for (uint64_t i = 0; i < rounds; i++) {
        x = x * 0.999999 + 1e-6;
    }
    w->compute_state = x;
}

typedef struct plan {
    uint64_t rounds; /**< per piece */
    uint64_t pieces;
    uint64_t samples;
} plan_t;

static plan_t make_plan(perf_worker_t *w, double seconds) {
    const perf_options_t *o = w->run->options;
    if (w->compute_rate <= 0.0) {
        uint64_t begin = perf_clock_ticks();
        compute(w, CALIBRATION);
        w->compute_rate = CALIBRATION / perf_clock_seconds(perf_clock_ticks() - begin);
    }
    plan_t plan = {.pieces = PIECES};
    if (o->interval > 0.0) {
        double pieces = seconds / o->interval;
        plan.pieces = pieces < 1.0 ? 1 : pieces > 1e6 ? 1000000 : (uint64_t)pieces;
    }
    plan.rounds = (uint64_t)(seconds * w->compute_rate / (double)plan.pieces) + 1;
    double fit = o->seconds / (4.0 * seconds); /* three kinds, and the barriers between them */
    plan.samples = o->iterations != 0 ? o->iterations : fit < 5.0 ? 5 : (uint64_t)fit;
    plan.samples = plan.samples > MAX_SAMPLES ? MAX_SAMPLES : plan.samples;
    return plan;
}

static uint64_t sample_pure(perf_worker_t *w) {
    uint64_t begin = perf_clock_ticks();
    perf_start(w);
    perf_finish(w);
    return perf_clock_ticks() - begin;
}

static uint64_t sample_compute(perf_worker_t *w, const plan_t *plan) {
    uint64_t begin = perf_clock_ticks();
    for (uint64_t i = 0; i < plan->pieces; i++) {
        compute(w, plan->rounds);
    }
    return perf_clock_ticks() - begin;
}

/* Endpoints of one worker share a context: one progress call serves all. */
static uint64_t sample_total(perf_worker_t *w, const plan_t *plan) {
    ucc_context_h context = w->endpoints[0].context;
    uint64_t begin = perf_clock_ticks();
    perf_start(w);
    for (uint64_t i = 0; i < plan->pieces; i++) {
        compute(w, plan->rounds);
        ucc_context_progress(context);
    }
    perf_finish(w);
    return perf_clock_ticks() - begin;
}

/* Worker 0: the median over the samples of the slowest worker's time. */
static double median(perf_run_t *run, size_t first, size_t samples) {
    uint64_t *slowest = run->workers[0].samples + first;
    for (uint32_t w = 1; w < run->options->workers; w++) {
        const uint64_t *other = run->workers[w].samples + first;
        for (size_t s = 0; s < samples; s++) {
            slowest[s] = other[s] > slowest[s] ? other[s] : slowest[s];
        }
    }
    perf_slowest(slowest, samples);
    qsort(slowest, samples, sizeof(slowest[0]), perf_compare_ticks);
    return perf_clock_seconds(slowest[samples / 2]);
}

static void report(perf_run_t *run, const plan_t *plan) {
    size_t n = plan->samples;
    perf_overlap_t result = {.coll = run->now.coll,
                             .bytes = run->now.bytes,
                             .iterations = n,
                             .pure = median(run, PURE * n, n),
                             .compute = median(run, COMPUTE * n, n),
                             .total = median(run, TOTAL * n, n),
                             .verified = run->options->verify,
                             .wrong = perf_wrong_in_all(run)};
    double hidden = 1.0 - (result.total - result.compute) / result.pure;
    result.percent = 100.0 * (hidden < 0.0 ? 0.0 : hidden > 1.0 ? 1.0 : hidden);
    perf_report_overlap(&result);
    run->wrong += result.wrong;
}

/* The pure time that the computation is made as long as. Sampled apart, as it is later, since loops
 * for an estimate find cold caches and hold the barriers in between. */
static double pure_time(perf_worker_t *w) {
    perf_run_t *run = w->run;
    double rough = perf_estimate(w, 1);
    rough = rough < 5e-3 ? perf_estimate(w, 20) : rough;
    double fit = 20e-3 / rough;
    size_t n = fit < 3.0 ? 3 : fit > 500.0 ? 500 : (size_t)fit;
    perf_samples_reserve(w, n);
    for (size_t s = 0; s < n; s++) {
        perf_next_turn(w);
        perf_align(w);
        w->samples[s] = sample_pure(w);
    }
    perf_meet(run);
    if (w->index == 0) {
        run->estimate = median(run, 0, n);
        perf_world_share(&run->estimate, sizeof(run->estimate));
    }
    perf_meet(run);
    return run->estimate;
}

void perf_overlap(perf_worker_t *w) {
    plan_t plan = make_plan(w, pure_time(w));
    size_t n = plan.samples;
    perf_samples_reserve(w, KINDS * n);
    for (size_t s = 0; s < n; s++) {
        perf_next_turn(w);
        perf_align(w);
        w->samples[PURE * n + s] = sample_pure(w);
        perf_align(w);
        w->samples[COMPUTE * n + s] = sample_compute(w, &plan);
        perf_align(w);
        w->samples[TOTAL * n + s] = sample_total(w, &plan);
    }
    perf_meet(w->run);
    if (w->index == 0) {
        report(w->run, &plan);
    }
}
