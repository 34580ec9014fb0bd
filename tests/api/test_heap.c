/* test_heap.c: memory that processes of a node reach: what heddle_alloc gives, and parts of a
 * team's symmetric memory.
 */
#include "../support/deadline.h"
#include "../support/processes.h"
#include "node/heap.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(heap, .timeout = 120);

enum { BYTES = 300000 };

#define EXPECT(_condition)                                                                         \
    do {                                                                                           \
        if (!(_condition)) {                                                                       \
            fprintf(stderr, "process %u, line %d: %s\n", process->me, __LINE__, #_condition);      \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static heddle_group_t *group;

/* One endpoint in each process. */
static heddle_ep_t *joined(const process_t *process, size_t symmetric_bytes) {
    heddle_ep_t *ep = NULL;
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {
        .endpoints = 1, .oob = &oob, .symmetric_bytes = symmetric_bytes};
    must(heddle_group_create(&params, &group), "heddle_group_create");
    must(heddle_join(group, 0, &ep), "heddle_join");
    must(heddle_barrier(ep), "heddle_barrier");
    return ep;
}

static int leave(heddle_ep_t *ep) {
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
    return 0;
}

static void run(int (*work)(const process_t *process, void *arg), uint32_t doomed) {
    shape_t shape = shape_even(3, 1);
    shape.doomed = doomed;
    setenv("HEDDLE_NODE", "y", 1);
    setenv("HEDDLE_NET", "n", 1);
    outcome_t outcome = processes_run(&shape, 60, work, NULL);
    for (uint32_t p = 0; p < shape.processes; p++) {
        cr_expect(doomed >> p & 1 || outcome.status[p] == 0, "process %u", p);
    }
}

static int write_to_the_next(const process_t *process, void *arg) {
    heddle_ep_t *ep = joined(process, BYTES);
    uint32_t me = heddle_ep_index(ep), n = heddle_ep_size(ep), before = (me + n - 1) % n;
    void *mine, *next;
    size_t bytes;
    (void)arg;
    EXPECT(heddle_team_memory(heddle_ep_team(ep), me, &mine, &bytes) == UCC_OK && bytes == BYTES);
    EXPECT(((char *)mine)[BYTES - 1] == 0);
    EXPECT(heddle_team_memory(heddle_ep_team(ep), (me + 1) % n, &next, &bytes) == UCC_OK);
    EXPECT(bytes == BYTES && next != mine);
    must(heddle_barrier(ep), "heddle_barrier"); /* all have looked at theirs */
    memset(next, (int)me + 1, BYTES);
    must(heddle_barrier(ep), "heddle_barrier");
    EXPECT(((char *)mine)[0] == (char)(before + 1) &&
           ((char *)mine)[BYTES - 1] == (char)(before + 1));
    must(heddle_barrier(ep), "heddle_barrier");
    return leave(ep);
}

Test(heap, a_teams_memory_in_another_process_is_reached) {
    run(write_to_the_next, 0);
}

static int find_none(const process_t *process, void *arg) {
    heddle_ep_t *ep = joined(process, 0);
    uint32_t me = heddle_ep_index(ep), n = heddle_ep_size(ep);
    void *next;
    size_t bytes;
    (void)arg;
    EXPECT(heddle_team_memory(heddle_ep_team(ep), (me + 1) % n, &next, &bytes) ==
           UCC_ERR_NOT_FOUND);
    char *like = heddle_alloc_like(ep, BYTES, HEDDLE_ALLOC_TOUCH);
    EXPECT(like && hd_heap_has(like) && like[BYTES - 1] == 0);
    heddle_free(like);
    must(heddle_barrier(ep), "heddle_barrier");
    return leave(ep);
}

Test(heap, who_has_no_memory_of_the_team_shows_none) {
    run(find_none, 0);
}

static int outlive(const process_t *process, void *arg) {
    heddle_ep_t *ep = joined(process, BYTES);
    void *theirs;
    size_t bytes;
    (void)arg;
    if (heddle_ep_index(ep) == 1) {
        EXPECT(heddle_team_memory(heddle_ep_team(ep), 1, &theirs, &bytes) == UCC_OK);
        memset(theirs, 9, BYTES);
        must(heddle_barrier(ep), "heddle_barrier");
        must(heddle_barrier(ep), "heddle_barrier");
        kill(getpid(), SIGKILL);
    }
    must(heddle_barrier(ep), "heddle_barrier");
    EXPECT(heddle_team_memory(heddle_ep_team(ep), 1, &theirs, &bytes) == UCC_OK);
    must(heddle_barrier(ep), "heddle_barrier");
    while (heddle_barrier(ep) == UCC_OK) {
    }
    EXPECT(((char *)theirs)[0] == 9 && ((char *)theirs)[BYTES - 1] == 9);
    ((char *)theirs)[BYTES / 2 + heddle_ep_index(ep)] = 1; /* the other survivor looks, too */
    return leave(ep);
}

Test(heap, memory_of_a_process_that_dies_stays_memory) {
    run(outlive, 1u << 1);
}

/* Two on one node, one alone on another: what is refused there is refused at all. */
static int find_it_refused(const process_t *process, void *arg) {
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = 1, .oob = &oob, .symmetric_bytes = BYTES};
    (void)arg;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    EXPECT(heddle_group_create(&params, &group) == UCC_ERR_NOT_SUPPORTED);
    return 0;
}

Test(heap, a_team_on_several_nodes_is_given_no_memory_anywhere) {
    shape_t shape = shape_even(3, 1);
    setenv("HEDDLE_NODE", "y", 1);
    setenv("HEDDLE_DEBUG_NODES", "2", 1);
    outcome_t outcome = processes_run(&shape, 60, find_it_refused, NULL);
    for (uint32_t p = 0; p < shape.processes; p++) {
        cr_expect_eq(outcome.status[p], 0, "process %u", p);
    }
}
