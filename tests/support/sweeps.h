/* sweeps.h: the tables of cases behind the conformance tests, free of any test framework so that a
 * plain main can run them under ThreadSanitizer (tests/stress/conformance_plain.c).
 *
 * Each sweep forms the team that `params` describes, runs its table, and returns how many cases
 * were wrong; each wrong case has printed a line that names it.
 */
#ifndef TESTS_SWEEPS_H_
#define TESTS_SWEEPS_H_

#include "batch.h"

/* Every type at 0 bytes, 1 element, and one element below, at and above every regime's edge, by the
 * bytes of one endpoint's source and by the bytes of one block; in place and not. */
uint64_t sweep_sizes(const batch_params_t *params);

/* Rooted types: every root, a few sizes, in place and not. */
uint64_t sweep_roots(const batch_params_t *params);

/* Reductions: every valid pair of datatype and operation. */
uint64_t sweep_reductions(const batch_params_t *params);

/* Data movement with every predefined datatype. */
uint64_t sweep_movements(const batch_params_t *params);

/* v types: every layout, 32- and 64-bit counts and displacements, in place and not. */
uint64_t sweep_vectors(const batch_params_t *params);

/* User-defined datatypes: the contiguous one everywhere, the packed one where nothing is reduced.
 */
uint64_t sweep_generic(const batch_params_t *params);

/* Every type with 1 MiB + 1 element in each source. */
uint64_t sweep_large(const batch_params_t *params);

/* Every type at a handful of sizes that covers all regimes: for the slower drivers. */
uint64_t sweep_reduced(const batch_params_t *params);

/* Every type at, below and above the sizes where an algorithm among processes gives way to another,
 * in place and not; beyond 16 KiB only one of them, and beyond 256 KiB only some types. */
uint64_t sweep_edges(const batch_params_t *params);

/* Every type among active sets, of which some leave whole processes out. */
uint64_t sweep_sets(const batch_params_t *params);

/* A random case of everything above but active sets, for a team of this size and ordering. */
coll_case_t sweep_random_case(uint64_t *random, const world_params_t *world);

/* `n` of them; the seed makes them repeatable. */
uint64_t sweep_random(const batch_params_t *params, uint64_t n, uint64_t seed);

#endif
