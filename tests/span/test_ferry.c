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

/* --- without memory --------------------------------------------------------------------------- */

enum { MOST_ALLOCATIONS = 25, BLOCK = 3000 };

/* Runs one collective to its end, whatever that is. */
static ucc_status_t runs(world_t *world, uint32_t me, ucc_coll_args_t *args) {
    deadline_t deadline = deadline_start("a collective of a process without memory");
    ucc_coll_req_h request;
    ucc_status_t status = ucc_collective_init(args, &request, world->teams[me]);
    if (status != UCC_OK) {
        heddle_team_abort(world->teams[me]); /* the others wait for it */
        return status;
    }
    status = ucc_collective_post(request);
    while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        ucc_context_progress(world_context(world, me));
        deadline_poll(&deadline);
    }
    ucc_collective_finalize(request);
    return status;
}

/* What has failed here is told when the network is driven on. */
static void drive_until_all(const process_t *process, world_t *world, uint64_t round) {
    deadline_t deadline = deadline_start("other processes to end a collective");
    process_set(process, 0, round);
    for (uint32_t p = 0; p < PROCESSES; p++) {
        while (process_get(process, p, 0) < round) {
            ucc_context_progress(world_context(world, process->endpoint[0]));
            deadline_poll(&deadline);
        }
    }
}

/* Process 1 has memory for ever more allocations; in the end for all. */
static int lacks_memory(const process_t *process, void *arg) {
    static int32_t src[BLOCK], dst[PROCESSES * BLOCK];
    bool tagged = *(bool *)arg, over = false;
    for (long left = 0; left <= MOST_ALLOCATIONS; left++) {
        world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
        uint32_t me = process->endpoint[0];
        ucc_coll_args_t barrier = small_barrier();
        ucc_coll_args_t args = small_allgather(src, dst, BLOCK, PROCESSES);
        args.mask |= tagged ? UCC_COLL_ARGS_FIELD_TAG : 0;
        args.tag = 7;
        process_note(process, "%ld allocations", left);
        (void)runs(world, me, &barrier);
        process_barrier(process);
        hd_alloc_fail_after(process->me == 1 && left < MOST_ALLOCATIONS ? left : -1);
        ucc_status_t status = runs(world, me, &args);
        hd_alloc_fail_after(-1);
        drive_until_all(process, world, (uint64_t)left + 1);
        over = status == UCC_OK;
        process_barrier(process);
        world_destroy(world);
    }
    return !over;
}

static void ends_everywhere(bool tagged) {
    shape_t shape = shape_even(PROCESSES, 1);
    setenv("HEDDLE_NODE", "y", 1);
    setenv("HEDDLE_DEBUG_NODES", "2", 1);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    unsetenv("HEDDLE_NET");
    cr_assert(processes_run(&shape, SECONDS, lacks_memory, &tagged).ok);
}

Test(ferry, a_process_without_memory_fails_the_collective_everywhere) {
    ends_everywhere(false);
}

Test(ferry, a_process_without_memory_fails_a_tagged_collective_everywhere) {
    ends_everywhere(true);
}
