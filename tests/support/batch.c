/* batch.c: see batch.h. A bunch is bounded by jobs and by bytes, so that all endpoints run many
 * collectives back to back but memory stays small. */
#include "batch.h"
#include "count.h"
#include "deadline.h"
#include "random.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_JOBS = 48 };

static const uint64_t MAX_BYTES = 16u << 20;

struct batch {
    batch_params_t params;
    world_t *world;
    prepared_t *cases[MAX_JOBS];
    uint32_t n_cases;
    uint64_t bytes, seeds, failures;
    uint64_t drawn; /* which cases are run, if not all */
};

uint32_t batch_percent = 100;

batch_t *batch_open(const batch_params_t *params) {
    batch_t *batch = must_alloc(1, sizeof(*batch));
    batch->params = *params;
    batch->drawn = params->world.size * 1000 + batch_percent;
    batch->params.world.shared_context = driver_wants_shared_context(params->driver);
    batch->world = world_create(&batch->params.world);
    return batch;
}

static void check_all(batch_t *batch) {
    for (uint32_t k = 0; k < batch->n_cases; k++) {
        batch->failures += case_check(batch->cases[k]) ? 0 : 1;
        case_free(batch->cases[k]);
    }
}

static void flush(batch_t *batch) {
    job_t jobs[MAX_JOBS];
    for (uint32_t k = 0; k < batch->n_cases; k++) {
        jobs[k] = case_job(batch->cases[k]);
    }
    driver_run(batch->world, batch->params.driver, jobs, batch->n_cases);
    check_all(batch);
    count_checked(batch->n_cases);
    batch->n_cases = 0;
    batch->bytes = 0;
}

void batch_add(batch_t *batch, const coll_case_t *c) {
    coll_case_t own = *c;
    bool drawn = batch_percent >= 100 || random_below(&batch->drawn, 100) < batch_percent;
    if (!drawn || (case_memory != NULL && !case_memory->takes(c))) {
        return;
    }
    own.size = own.set.n > 0 ? own.set.n : batch->world->size;
    own.process_of = batch->world->process_of;
    world_form_t form = batch->params.world.form;
    own.by_nodes = form != WORLD_EP_MAP;
    own.turned = form == WORLD_EPS ? batch->world->size : 0;
    const process_t *process = batch->params.world.process;
    own.host = process != NULL ? process_hosts(process) : NULL;
    own.process = own.process_of != NULL ? batch->params.world.process->me : 0;
    own.times = own.times > 0 ? own.times : batch->params.times;
    if (own.seed == 0) {
        own.seed = ++batch->seeds;
    }
    batch->cases[batch->n_cases++] = case_prepare(&own);
    batch->bytes += case_bytes(&own);
    if (batch->n_cases == MAX_JOBS || batch->bytes > MAX_BYTES) {
        flush(batch);
    }
}

uint64_t batch_close(batch_t *batch) {
    if (batch->n_cases > 0) {
        flush(batch);
    }
    uint64_t failures = batch->failures;
    if (failures > 0) {
        fprintf(stderr, "%llu wrong: size %u, %s, %s, %s\n", (unsigned long long)failures,
                batch->world->size, world_form_name(batch->params.world.form),
                batch->params.world.sync == UCC_SYNC_COLLECTIVES ? "SYNC" : "NO_SYNC",
                driver_name(batch->params.driver));
    }
    world_destroy(batch->world);
    free(batch);
    return failures + (case_memory != NULL ? case_memory->wrong() : 0);
}
