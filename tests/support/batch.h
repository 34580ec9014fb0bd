/* batch.h: collects cases, runs them through a driver in bunches, checks and counts them.
 *
 *     batch_t *batch = batch_open(&(batch_params_t){.world = {.size = 5}, .driver = DRIVER_ONE});
 *     batch_add(batch, &c); ...
 *     failures = batch_close(batch);
 */
#ifndef TESTS_BATCH_H_
#define TESTS_BATCH_H_

#include "cases.h"
#include "driver.h"

typedef struct batch_params {
    world_params_t world; /* shared_context follows from the driver */
    driver_t driver;
    uint32_t
        times; /* 0, or every case that does not say so itself is persistent, posted so often */
} batch_params_t;

typedef struct batch batch_t;

/* Of the cases that are added, so many percent are run, other ones in other worlds and for other
 * numbers. 100 at first. */
extern uint32_t batch_percent;

batch_t *batch_open(const batch_params_t *params);
/* Copies the case; its size must be the world's or its set's, its seed may be 0 (one is then
 * drawn). */
void batch_add(batch_t *batch, const coll_case_t *c);
/* Runs what is left; returns how many of all cases were wrong. */
uint64_t batch_close(batch_t *batch);

#endif
