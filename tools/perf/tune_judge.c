/* tune_judge.c: which value of a variable is best, and whether the measurements can tell (--tune).
 */
#include "tune.h"

#include <math.h>

/* Gains below this are not worth a line in a configuration. */
static const double THRESHOLD = 0.97;

/* Geometric mean over n points of a's time over b's. */
static double mean_ratio(const double *a, const double *b, size_t n) {
    double logs = 0.0;
    for (size_t p = 0; p < n; p++) {
        logs += log(a[p] / b[p]);
    }
    return exp(logs / (double)n);
}

void perf_tune_note_noise(perf_tuned_t *t) {
    double ratio = mean_ratio(t->control.latest, t->candidates[0].latest, t->n_points);
    double factor = ratio < 1.0 ? 1.0 / ratio : ratio;
    t->noise = factor > t->noise ? factor : t->noise;
}

void perf_tune_judge(perf_tuned_t *t) {
    const double *base = t->candidates[0].seconds;
    double beyond = t->noise > 1.0 ? 1.0 / t->noise : 1.0;
    double least = beyond < THRESHOLD ? beyond : THRESHOLD;
    t->best = 0;
    for (size_t i = 0; i < t->n_candidates; i++) {
        perf_candidate_t *c = &t->candidates[i];
        c->ratio = mean_ratio(c->seconds, base, t->n_points);
        if (i > 0 && c->ratio < least) {
            least = c->ratio;
            t->best = i;
        }
    }
}
