/* test_ferry.c: how operations cross nodes of which each has several processes. */
#include "../support/deadline.h"
#include "../support/small.h"
#include "../support/world.h"
#include "span/span.h"
#include "team/team.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(ferry, .timeout = 180);

enum { SECONDS = 120, PROCESSES = 4, NODES = 2, TAGS = 192 };

static ucc_coll_args_t tagged_sum(int32_t *src, int32_t *dst, uint32_t tag) {
    ucc_coll_args_t args = small_allreduce(src, dst, 1);
    args.mask |= UCC_COLL_ARGS_FIELD_TAG;
    args.tag = (ucc_coll_id_t)tag;
    return args;
}

/* Each node posts its operations in an order of its own: tags leave that to it. */
static int posts_in_its_own_order(const process_t *process, void *arg) {
    static int32_t src[TAGS], dst[TAGS];
    static ucc_coll_req_h request[TAGS];
    (void)arg;
    world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
    uint32_t me = process->endpoint[0], wrong = 0;
    process_expect(world->teams[me]->crossing->nodes != NULL, "nodes of several processes");
    for (uint32_t i = 0; i < TAGS; i++) {
        uint32_t tag = process->me % NODES ? TAGS - 1 - i : i;
        src[tag] = (int32_t)(tag * (process->me + 1));
        ucc_coll_args_t args = tagged_sum(&src[tag], &dst[tag], tag);
        request[tag] = small_start(world, me, &args);
    }
    process_note(process, "waits for %d operations", (int)TAGS);
    small_finish(world, request, TAGS);
    for (uint32_t tag = 0; tag < TAGS; tag++) {
        wrong += dst[tag] != (int32_t)(tag * (1 + 2 + 3 + 4));
    }
    process_barrier(process);
    world_destroy(world);
    return wrong != 0;
}

Test(ferry, many_tags_may_be_posted_in_another_order_at_each_node) {
    shape_t shape = shape_even(PROCESSES, 1);
    setenv("HEDDLE_NODE", "y", 1);
    setenv("HEDDLE_DEBUG_NODES", "2", 1);
    unsetenv("HEDDLE_NET");
    cr_assert(processes_run(&shape, SECONDS, posts_in_its_own_order, NULL).ok);
}
