/* tune.h: what --tune varies, what decides, and what came out. */
#ifndef HEDDLE_PERF_TUNE_H_
#define HEDDLE_PERF_TUNE_H_

#include "perf.h"

enum { PERF_TUNE_CANDIDATES = 12, PERF_TUNE_COLLECTIVES = 4, PERF_TUNE_POINTS = 64 };

/** A variable of the library's configuration, the values to try, and which measurements decide. */
typedef struct perf_variable {
    const char *name;
    const char *meaning;
    const char *candidates[PERF_TUNE_CANDIDATES]; /**< the default is tried anyway */
    const char *collectives[PERF_TUNE_COLLECTIVES];
    uint64_t bytes_min, bytes_max, factor;
    double seconds; /**< aim per point and round */
} perf_variable_t;

/** One value of a variable and its measurements. */
typedef struct perf_candidate {
    char value[32];
    double seconds[PERF_TUNE_POINTS]; /**< per point: median time, of the best round */
    double latest[PERF_TUNE_POINTS];  /**< the same of the present round */
    double ratio; /**< geometric mean over the points of time over the default's */
} perf_candidate_t;

/** candidates[0] is the default. */
typedef struct perf_tuned {
    const perf_variable_t *variable;
    perf_candidate_t candidates[PERF_TUNE_CANDIDATES + 1];
    size_t n_candidates, n_points, rounds;
    perf_candidate_t control; /**< the default once more, at the other end of each round */
    double noise; /**< by what factor, at most, the control and the default differed in a round */
    size_t best;
} perf_tuned_t;

/** After a round of all candidates and the control: notes by how much two equals differed. */
void perf_tune_note_noise(perf_tuned_t *tuned);

/** Finds the candidates' ratios, and the best one: the default, unless another's gain is beyond the
 *  threshold and the noise. */
void perf_tune_judge(perf_tuned_t *tuned);

/** Whether a collective decides: the command line may restrict a variable's to some. */
bool perf_tune_chosen(const perf_options_t *options, const char *collective);

enum { PERF_TUNE_PATH = 4096 };

/** The machine's profile, in a file beside that of the configuration. */
typedef struct perf_tuned_profile {
    char path[PERF_TUNE_PATH]; /**< absolute; "": none was measured */
    double seconds;
} perf_tuned_profile_t;

/** Writes the configuration file; false when that failed (logged). */
bool perf_tune_write(const perf_options_t *options, const perf_tuned_profile_t *profile,
                     const perf_tuned_t *tuned, size_t n);

#endif
