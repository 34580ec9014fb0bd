/* conformance_plain.c: a part of the conformance tables behind a plain main, because Criterion does
 * not run under ThreadSanitizer. HEDDLE_TEST_SLOWDOWN stretches the deadlines of its waits.
 *
 * At its end the process, which was alone all the time, has neither a socket nor UCX.
 */
#include "../support/sweeps.h"
#include "../support/count.h"
#include "../support/holdings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct plain_case {
    uint32_t size;
    driver_t driver;
    ucc_coll_sync_type_t sync;
    world_form_t form;
    uint64_t (*sweep)(const batch_params_t *params);
} plain_case_t;

static uint64_t random_sweep(const batch_params_t *params) {
    return sweep_random(params, 400, params->world.size);
}

/* Everything tagged. */
static uint64_t unordered_sweep(const batch_params_t *params) {
    batch_params_t unordered = *params;
    unordered.world.ordering = UCC_COLLECTIVE_POST_UNORDERED;
    return sweep_random(&unordered, 300, params->world.size + 1);
}

static const plain_case_t cases[] = {
    {2, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, sweep_reduced},
    {3, DRIVER_THREADS, UCC_SYNC_COLLECTIVES, WORLD_GROUP, sweep_reduced},
    {5, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_ID, sweep_reduced},
    {9, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_EP_MAP, sweep_reduced},
    {4, DRIVER_SHARED, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, sweep_reduced},
    {9, DRIVER_SHARED, UCC_SYNC_COLLECTIVES, WORLD_GROUP, sweep_reduced},
    {5, DRIVER_DEEP, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, sweep_reduced},
    {3, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, sweep_generic},
    {2, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, random_sweep},
    {4, DRIVER_THREADS, UCC_SYNC_COLLECTIVES, WORLD_GROUP, random_sweep},
    {5, DRIVER_SHARED, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, random_sweep},
    {9, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, random_sweep},
    {17, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_GROUP, random_sweep},
    {17, DRIVER_SHARED, UCC_SYNC_COLLECTIVES, WORLD_OOB, random_sweep},
    {5, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, unordered_sweep},
    {9, DRIVER_SHARED, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, unordered_sweep},
    {2, DRIVER_THREADS, UCC_NO_SYNC_COLLECTIVES, WORLD_OOB, sweep_large},
};

int main(void) {
    uint64_t failures = 0;
    holdings_t before = holdings_now();
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        const plain_case_t *c = &cases[k];
        batch_params_t params = {.world = {.size = c->size, .form = c->form, .sync = c->sync},
                                 .driver = c->driver};
        failures += c->sweep(&params);
    }
    printf("checked collectives: %" PRIu64 "\n", count_of_process());
    holdings_t after = holdings_now();
    if (after.sockets != before.sockets || after.ucx) {
        printf("FAILED: a single process has %s\n", after.ucx ? "loaded UCX" : "opened a socket");
        failures++;
    }
    return failures == 0 ? 0 : 1;
}
