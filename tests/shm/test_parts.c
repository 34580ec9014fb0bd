/* test_parts.c: whether members of several processes write into each other's parts of the team's
 * memory is decided once, alike for all; and how one-sided collectives go among processes that do,
 * whoever dies, leaves or is stopped.
 */
#include "../support/deadline.h"
#include "../support/processes.h"
#include "shm/parts.h"
#include "shm/reach.h"
#include "shm/small_group.h"
#include "team/team.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the decision, as two mappings see it, both of which are this process's here ------------ */

static void init(void) {
    hd_park_init();
}

TestSuite(parts, .init = init, .timeout = 20);

enum { PROCESSES = 2, PART = 4096 };

typedef struct two {
    small_pair_t pair; /* endpoint i lives in process i */
    hd_heap_view_t *view[PROCESSES];
    uint8_t *part[PROCESSES];
} two_t;

static two_t open_two(bool has_parts) {
    two_t two = {.pair = small_pair_open(PROCESSES)};
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct hd_region *region = &two.pair.group[i]->region[i];
        if (has_parts) {
            *region = (struct hd_region){hd_part_alloc(two.pair.group[i], PART), PART, true};
            cr_assert(region->address);
            hd_part_show(two.pair.group[i], i);
        }
        two.part[i] = region->address;
    }
    for (uint32_t i = 0; i < PROCESSES; i++) {
        cr_assert_eq(hd_group_join(two.pair.group[i], i, NULL), UCC_OK);
    }
    return two;
}

static void close_two(two_t two) {
    small_pair_close(two.pair);
}

/* What this mapping wants is fetched, or can't be. */
static void serve(two_t *two, uint32_t i, bool can) {
    hd_reach_slot_t slot;
    cr_assert(hd_reach_take(two->pair.group[i]->reach, &slot), "it has asked for nothing");
    hd_node_segment_t segment;
    cr_assert(hd_heap_segment(slot.name, &segment));
    hd_heap_view_t *view = can ? hd_heap_view_map(slot.name, &segment) : NULL;
    hd_reach_give(two->pair.group[i]->reach, slot.slot, view);
    cr_assert_not(hd_reach_take(two->pair.group[i]->reach, &slot), "one heap has both parts");
}

static bool is_complete(const two_t *two, uint32_t i) {
    return hd_group_is_complete(two->pair.group[i]);
}

Test(parts, are_written_to_when_the_last_process_has_mapped_them) {
    two_t two = open_two(true);
    cr_expect(!is_complete(&two, 0) && !is_complete(&two, 1));
    serve(&two, 0, true);
    cr_expect(!is_complete(&two, 0) && !is_complete(&two, 0), "said twice");
    serve(&two, 1, true);
    cr_expect_not(is_complete(&two, 0));
    cr_expect(is_complete(&two, 1) && is_complete(&two, 0));
    cr_expect(hd_put_reaches(two.pair.group[0]) && hd_put_reaches(two.pair.group[1]));
    for (uint32_t i = 0; i < PROCESSES; i++) {
        const struct hd_region *theirs = &two.pair.group[i]->region[1 - i];
        cr_assert_eq(theirs->bytes, PART);
        cr_expect_neq(theirs->address, (void *)two.part[1 - i], "this is another mapping");
        memset(theirs->address, (int)i + 1, PART);
        cr_expect(two.part[1 - i][0] == i + 1 && two.part[1 - i][PART - 1] == i + 1);
    }
    close_two(two);
}

Test(parts, are_written_to_by_nobody_if_one_process_can_not_map_them) {
    for (uint32_t odd = 0; odd < PROCESSES; odd++) {
        two_t two = open_two(true);
        cr_expect(!is_complete(&two, 0) && !is_complete(&two, 1));
        serve(&two, odd, false);
        serve(&two, 1 - odd, true);
        cr_expect(is_complete(&two, odd) && is_complete(&two, 1 - odd));
        cr_expect(!hd_put_reaches(two.pair.group[0]) && !hd_put_reaches(two.pair.group[1]));
        close_two(two);
    }
}

Test(parts, of_a_team_that_has_none_are_not_waited_for) {
    two_t two = open_two(false);
    cr_expect(is_complete(&two, 0) && is_complete(&two, 1));
    cr_expect(!hd_put_reaches(two.pair.group[0]) && !hd_put_reaches(two.pair.group[1]));
    close_two(two);
}

Test(parts, of_a_team_that_has_failed_are_not_waited_for) {
    two_t two = open_two(true);
    cr_expect_not(is_complete(&two, 0));
    hd_group_poison(two.pair.group[1], UCC_ERR_IO_ERROR);
    cr_expect(is_complete(&two, 0) && is_complete(&two, 1));
    cr_expect(!hd_put_reaches(two.pair.group[0]) && !hd_put_reaches(two.pair.group[1]));
    close_two(two);
}

Test(parts, whoever_comes_too_late_finds_it_decided) {
    two_t two = open_two(true);
    cr_expect(!is_complete(&two, 0) && !is_complete(&two, 1));
    serve(&two, 0, true);
    cr_expect_not(is_complete(&two, 0));
    two.pair.group[0]->awaits_since -= 6000000 * hd_ticks_per_us;
    cr_expect(is_complete(&two, 0));
    serve(&two, 1, true);
    cr_expect(is_complete(&two, 1));
    cr_expect(!hd_put_reaches(two.pair.group[0]) && !hd_put_reaches(two.pair.group[1]));
    close_two(two);
}

/* --- among processes -------------------------------------------------------------------------- */

TestSuite(parts_span, .timeout = 120);

enum { MOST = 4, BYTES = 1 << 20, BLOCK = 20000 };

typedef struct side {
    const process_t *process;
    heddle_group_t *group;
    heddle_ep_t *ep[MOST];
    uint8_t *memory[MOST];
} side_t;

static void join(side_t *s) {
    for (uint32_t k = 0; k < s->process->n; k++) {
        size_t bytes;
        must(heddle_join(s->group, k, &s->ep[k]), "heddle_join");
        must(heddle_team_memory(heddle_ep_team(s->ep[k]), heddle_ep_index(s->ep[k]),
                                (void **)&s->memory[k], &bytes),
             "heddle_team_memory");
    }
}

static side_t begin(const process_t *process) {
    side_t s = {.process = process};
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = process->n, .oob = &oob, .symmetric_bytes = BYTES};
    must(heddle_group_create(&params, &s.group), "heddle_group_create");
    return s;
}

static ucc_coll_req_h post(side_t *s, uint32_t k, ucc_coll_type_t type) {
    ucc_coll_req_h request;
    uint32_t n = s->process->size;
    uint64_t all = (uint64_t)n * BLOCK;
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = HEDDLE_COLL_FLAG_SYMMETRIC | HEDDLE_COLL_FLAG_READY,
                            .coll_type = type};
    args.src.info =
        (ucc_coll_buffer_info_t){s->memory[k] + 64, type == UCC_COLL_TYPE_ALLTOALL ? all : BLOCK,
                                 UCC_DT_INT8, UCC_MEMORY_TYPE_HOST};
    args.dst.info =
        (ucc_coll_buffer_info_t){s->memory[k] + BYTES / 2, all, UCC_DT_INT8, UCC_MEMORY_TYPE_HOST};
    must(ucc_collective_init(&args, &request, heddle_ep_team(s->ep[k])), "init");
    (void)ucc_collective_post(request);
    return request;
}

/* Of all endpoints of this process, each of which gets on in its own context. */
static ucc_status_t end(uint32_t n, ucc_coll_req_h *request) {
    ucc_status_t status = UCC_OK;
    deadline_t deadline = deadline_start("a collective");
    for (bool some = true; some; deadline_poll(&deadline)) {
        some = false;
        for (uint32_t k = 0; k < n; k++) {
            some |= heddle_wait(request[k], n > 1 ? 1e-4 : 1) == UCC_INPROGRESS;
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        ucc_status_t one = ucc_collective_test(request[k]);
        status = status == UCC_OK ? one : status;
        must(ucc_collective_finalize(request[k]), "finalize");
    }
    return status;
}

static ucc_status_t run(side_t *s, ucc_coll_type_t type) {
    ucc_coll_req_h request[MOST];
    for (uint32_t k = 0; k < s->process->n; k++) {
        request[k] = post(s, k, type);
    }
    return end(s->process->n, request);
}

/* All know that the team is complete: the decision is there when they post. */
static void meet(side_t *s) {
    process_expect(run(s, UCC_COLL_TYPE_BARRIER) == UCC_OK, "a barrier fails");
}

static int leave(side_t *s) {
    for (uint32_t k = 0; k < s->process->n; k++) {
        if (s->ep[k]) {
            must(heddle_leave(s->ep[k]), "heddle_leave");
        }
    }
    must(heddle_group_destroy(s->group), "heddle_group_destroy");
    return 0;
}

static void in_processes(shape_t shape, int (*work)(const process_t *process, void *arg)) {
    setenv("HEDDLE_NODE", "y", 1);
    setenv("HEDDLE_NET", "n", 1);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    outcome_t outcome = processes_run(&shape, 60, work, NULL);
    for (uint32_t p = 0; p < shape.processes; p++) {
        cr_expect(shape.doomed >> p & 1 || outcome.status[p] == 0, "process %u", p);
    }
}

/* The root's data are there, though nobody else has come. */
static int is_delivered(const process_t *process, void *arg) {
    side_t s = begin(process);
    ucc_coll_req_h request[MOST];
    uint32_t n = process->n;
    (void)arg;
    join(&s);
    bool has_root = heddle_ep_index(s.ep[0]) == 0;
    meet(&s);
    if (has_root) {
        memset(s.memory[0] + 64, 7, BLOCK);
        request[0] = post(&s, 0, UCC_COLL_TYPE_BCAST);
        process_expect(ucc_collective_test(request[0]) == UCC_OK, "the root waits for others");
    }
    process_barrier(process);
    for (uint32_t k = 0; k < n; k++) {
        const uint8_t *at = s.memory[k] + 64;
        process_expect(at[0] == 7 && at[BLOCK - 1] == 7, "nothing has come");
        process_expect(at[-1] == 0 && at[BLOCK] == 0, "too much has come");
    }
    process_barrier(process);
    for (uint32_t k = has_root; k < n; k++) {
        request[k] = post(&s, k, UCC_COLL_TYPE_BCAST);
    }
    process_expect(end(n, request) == UCC_OK, "a bcast fails");
    return leave(&s);
}

Test(parts_span, a_bcast_is_delivered_before_any_leaf_enters) {
    in_processes(shape_even(2, 1), is_delivered);
    in_processes(
        (shape_t){
            .processes = 3,
            .endpoints = {1, 2, 1},
        },
        is_delivered);
}

static uint8_t content(uint32_t from, uint32_t to, uint32_t round) {
    return (uint8_t)(10 * from + to + 50 * round + 1);
}

static void check_blocks(const side_t *s, bool alltoall, uint32_t round) {
    for (uint32_t k = 0; k < s->process->n; k++) {
        for (uint32_t from = 0; from < s->process->size; from++) {
            const uint8_t *block = s->memory[k] + BYTES / 2 + from * BLOCK;
            uint8_t value = content(from, alltoall ? heddle_ep_index(s->ep[k]) : 0, round);
            process_expect(block[0] == value && block[BLOCK - 1] == value,
                           "%s %u: block %u is wrong", alltoall ? "alltoall" : "allgather", round,
                           from);
        }
    }
}

static int exchange(const process_t *process, void *arg) {
    enum { ROUNDS = 20 };
    side_t s = begin(process);
    (void)arg;
    join(&s); /* the first rounds may begin before all have joined */
    for (uint32_t round = 0; round < ROUNDS; round++) {
        bool alltoall = round % 2 == 0;
        for (uint32_t k = 0; k < process->n; k++) {
            for (uint32_t to = 0; to < process->size; to++) {
                memset(s.memory[k] + 64 + to * BLOCK, content(heddle_ep_index(s.ep[k]), to, round),
                       BLOCK);
            }
        }
        process_expect(run(&s, alltoall ? UCC_COLL_TYPE_ALLTOALL : UCC_COLL_TYPE_ALLGATHER) ==
                           UCC_OK,
                       "round %u fails", round);
        check_blocks(&s, alltoall, round);
        meet(&s); /* what READY promises */
    }
    return leave(&s);
}

Test(parts_span, alltoall_and_allgather_land_at_every_peer) {
    in_processes(shape_even(2, 2), exchange);
    in_processes(
        (shape_t){
            .processes = 3,
            .endpoints = {2, 1, 1},
        },
        exchange);
}

/* One process posts before the other has joined, when it can't know whether they will write; the
 * other one when it knows. */
static int begin_early(const process_t *process, void *arg) {
    side_t s = begin(process);
    void *theirs;
    size_t bytes;
    (void)arg;
    if (process->me == 1) {
        process_barrier(process);
    }
    join(&s);
    while (process->me == 1 &&
           heddle_team_memory(heddle_ep_team(s.ep[0]), 1 - heddle_ep_index(s.ep[0]), &theirs,
                              &bytes) != UCC_OK) {
        sched_yield();
    }
    memset(s.memory[0] + 64, (int)heddle_ep_index(s.ep[0]) + 1, BLOCK);
    ucc_coll_req_h request = post(&s, 0, UCC_COLL_TYPE_ALLGATHER);
    if (process->me == 0) {
        process_barrier(process);
    }
    process_expect(end(1, &request) == UCC_OK, "it fails");
    for (uint32_t p = 0; p < 2; p++) {
        const uint8_t *block = s.memory[0] + BYTES / 2 + p * BLOCK;
        process_expect(block[0] == p + 1 && block[BLOCK - 1] == p + 1, "block %u is wrong", p);
    }
    return leave(&s);
}

Test(parts_span, a_call_of_before_the_others_have_joined_is_the_others_call) {
    in_processes(shape_even(2, 1), begin_early);
}

static _Atomic uint32_t *writing(const side_t *s, uint32_t ep) {
    return &heddle_ep_team(s->ep[0])->group->board->shared[ep]->writing;
}

/* Endpoint 1 dies inside its copy, as it seems; the others are sure of their memory all the same.
 */
static int survive(const process_t *process, void *arg) {
    side_t s = begin(process);
    (void)arg;
    join(&s);
    meet(&s);
    if (process->me == 1) {
        atomic_fetch_add(writing(&s, 1), 1);
        process_barrier(process);
        kill(getpid(), SIGKILL);
    }
    process_barrier(process);
    ucc_coll_req_h request = post(&s, 0, UCC_COLL_TYPE_ALLTOALL);
    process_expect(end(1, &request) == UCC_ERR_IO_ERROR, "the dead is waited for");
    return leave(&s);
}

Test(parts_span, a_process_that_is_killed_inside_its_copy_holds_up_nobody) {
    shape_t shape = shape_even(3, 1);
    shape.doomed = 1u << 1;
    in_processes(shape, survive);
}

/* Endpoint 1 is inside its copy, and stays there: nobody's error is reported before it is out. */
static int wait_for_writer(const process_t *process, void *arg) {
    side_t s = begin(process);
    (void)arg;
    join(&s);
    meet(&s);
    if (process->me == 1) {
        atomic_fetch_add(writing(&s, 1), 1);
    }
    process_barrier(process);
    if (process->me == 0) {
        ucc_coll_req_h request = post(&s, 0, UCC_COLL_TYPE_ALLTOALL);
        must(heddle_team_abort(heddle_ep_team(s.ep[0])), "abort");
        process_expect(heddle_wait(request, 0.1) == UCC_INPROGRESS, "the writer is not waited for");
        process_barrier(process);
        process_expect(end(1, &request) == HEDDLE_ERR_ABORTED, "it ends otherwise");
    } else {
        process_barrier(process);
        atomic_fetch_sub(writing(&s, 1), 1);
    }
    process_barrier(process);
    return leave(&s);
}

Test(parts_span, an_abort_is_reported_when_the_last_writer_of_another_process_has_left) {
    in_processes(shape_even(2, 1), wait_for_writer);
}

/* Endpoint 1 is inside its copy while endpoint 0 leaves, whose part ends then. */
static int leave_under_a_writer(const process_t *process, void *arg) {
    side_t s = begin(process);
    void *theirs;
    size_t bytes;
    (void)arg;
    join(&s);
    meet(&s);
    const volatile uint8_t *memory = s.memory[0];
    must(heddle_team_memory(heddle_ep_team(s.ep[0]), 0, &theirs, &bytes), "heddle_team_memory");
    if (process->me == 1) {
        atomic_fetch_add(writing(&s, 1), 1);
        process_barrier(process);
        usleep(100 * 1000);
        *(volatile uint8_t *)theirs = 7;
        atomic_fetch_sub(writing(&s, 1), 1);
    } else {
        process_barrier(process);
        must(heddle_leave(s.ep[0]), "heddle_leave");
        s.ep[0] = NULL;
        process_expect(memory[0] == 7, "it left while its memory was written");
    }
    process_barrier(process);
    return leave(&s);
}

Test(parts_span, who_leaves_waits_for_who_writes_into_its_memory) {
    in_processes(shape_even(2, 1), leave_under_a_writer);
}

/* Endpoint 1 leaves before the others' call. */
static int write_to_the_gone(const process_t *process, void *arg) {
    side_t s = begin(process);
    (void)arg;
    join(&s);
    meet(&s);
    uint8_t *memory = s.memory[0];
    if (process->me == 1) {
        must(heddle_leave(s.ep[0]), "heddle_leave"); /* the group has its part until it ends */
        s.ep[0] = NULL;
        process_barrier(process);
        process_barrier(process);
        for (uint32_t i = 0; i < BYTES; i++) {
            process_expect(memory[i] == 0, "byte %u was written", i);
        }
        return leave(&s);
    }
    process_barrier(process);
    memset(memory, 7, BYTES / 4);
    ucc_coll_req_h request = post(&s, 0, UCC_COLL_TYPE_ALLGATHER);
    process_expect(end(1, &request) == UCC_ERR_NOT_FOUND, "it ends otherwise");
    process_barrier(process);
    return leave(&s);
}

Test(parts_span, nothing_is_written_to_another_process_that_has_left) {
    in_processes(shape_even(2, 1), write_to_the_gone);
}
