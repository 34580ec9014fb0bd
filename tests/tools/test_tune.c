/* test_tune.c: which value heddle_perf --tune chooses, given what it measured. */
#include "../../tools/perf/tune_judge.c"

#include <criterion/criterion.h>

TestSuite(tune);

enum { POINTS = 4 };

/* One round: the default takes 1, others as given. */
static void measure_round(perf_tuned_t *t, double other, double control) {
    double times[] = {1.0, other};
    for (size_t i = 0; i < 2; i++) {
        for (size_t p = 0; p < POINTS; p++) {
            perf_candidate_t *c = &t->candidates[i];
            c->latest[p] = times[i];
            c->seconds[p] =
                c->seconds[p] <= 0 || times[i] < c->seconds[p] ? times[i] : c->seconds[p];
            t->control.latest[p] = control;
        }
    }
    t->n_candidates = 2;
    t->n_points = POINTS;
    perf_tune_note_noise(t);
}

Test(tune, a_gain_beyond_the_noise_is_taken) {
    static perf_tuned_t t;
    measure_round(&t, 0.90, 1.02);
    measure_round(&t, 0.91, 0.99);
    perf_tune_judge(&t);
    cr_assert_eq(t.best, 1);
    cr_assert_float_eq(t.noise, 1.02, 1e-9);
}

Test(tune, a_gain_within_the_noise_leaves_the_default) {
    static perf_tuned_t t;
    measure_round(&t, 0.92, 1.00);
    measure_round(&t, 0.95, 0.90); /* the default differs from itself by more than the gain */
    perf_tune_judge(&t);
    cr_assert_eq(t.best, 0);
    cr_assert_float_eq(t.candidates[1].ratio, 0.92, 1e-9);
}

Test(tune, a_gain_below_the_threshold_leaves_the_default) {
    static perf_tuned_t t;
    measure_round(&t, 0.98, 1.0);
    perf_tune_judge(&t);
    cr_assert_eq(t.best, 0);
}
