/* trial.h: one collective on memory of devices of which anything may go wrong: nothing hangs, and
 * nothing aborts.
 *
 *     trial_open(&t, &c);
 *     trial_use_streams(&t);    // posts are on streams
 *     ... from here on something may fail ...
 *     ended_well = trial_run(&t);
 *     right = trial_check(&t);
 *     trial_close(&t);
 *
 * Between device_cases_begin and device_cases_end.
 */
#ifndef TESTS_GPU_TRIAL_H_
#define TESTS_GPU_TRIAL_H_

#include "support/cases.h"
#include "support/world.h"

typedef struct trial {
    world_t *world;
    prepared_t *prepared;
    ucc_coll_req_h *request; /* [size] */
    void **stream;           /* [size] or NULL */
} trial_t;

/* A team of as many endpoints as the case has, or of team > 0. */
void trial_open(trial_t *t, const coll_case_t *c, uint32_t team);
/* Endpoint i's stream is on device device_cases_device(i). */
void trial_use_streams(trial_t *t);
/* Init, post and end at every endpoint, by one thread. Whoever can't begin aborts the team, so that
 * others need not wait for it. True: UCC_OK everywhere. */
bool trial_run(trial_t *t);
/* What is on streams has ended. */
void trial_await(const trial_t *t);
/* Each endpoint that was told UCC_OK has the right result, and nothing else was written. */
bool trial_check(const trial_t *t);
void trial_close(trial_t *t);

#endif
