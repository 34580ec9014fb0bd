/* test_shrink.c: what is left of a team of several processes becomes a team. */
#include "../support/deadline.h"
#include "../support/processes.h"
#include "../support/ucx_losses.h"
#include "../support/world.h"

#include <criterion/criterion.h>
#include <heddle/drafts_names.h>
#include <signal.h>
#include <unistd.h>

TestSuite(shrink, .timeout = 120);

enum { MOST = 16, SECONDS = 40, VICTIM = 1 };

/* One thread drives all: posts at each endpoint, and waits. The first status that is not UCC_OK. */
static ucc_status_t barrier(const world_t *world, ucc_team_h *teams) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
    ucc_coll_req_h request[MOST];
    ucc_status_t result = UCC_OK;
    uint32_t n = world_count(world), left = n;
    for (uint32_t k = 0; k < n; k++) {
        ucc_status_t status = ucc_collective_init(&args, &request[k], teams[k]);
        status = status == UCC_OK ? ucc_collective_post(request[k]) : status;
        must(status < 0 && status != UCC_ERR_IO_ERROR && status != HEDDLE_ERR_ABORTED ? status
                                                                                      : UCC_OK,
             "post");
    }
    deadline_t deadline = deadline_start("a barrier");
    for (bool over[MOST] = {false}; left > 0;) {
        for (uint32_t k = 0; k < n; k++) {
            ucc_context_progress(world_context(world, world_endpoint(world, k)));
            ucc_status_t status = over[k] ? UCC_INPROGRESS : ucc_collective_test(request[k]);
            if (status != UCC_INPROGRESS) {
                over[k] = true;
                left--;
                result = result == UCC_OK ? status : result;
                ucc_collective_finalize(request[k]);
            }
        }
        deadline_poll(&deadline);
    }
    return result;
}

static void mine_of(const world_t *world, ucc_team_h *teams) {
    for (uint32_t k = 0; k < world_count(world); k++) {
        teams[k] = world->teams[world_endpoint(world, k)];
    }
}

/* All endpoints of mine: UCC_OK, and their teams; else those are gone again. */
static ucc_status_t shrink_once(const world_t *world, ucc_team_h *of, ucc_team_h *teams) {
    uint32_t n = world_count(world), left = n;
    ucc_status_t result = UCC_OK, status[MOST] = {0};
    for (uint32_t k = 0; k < n; k++) {
        must(heddle_team_shrink(of[k], &teams[k]), "heddle_team_shrink");
        status[k] = UCC_INPROGRESS;
    }
    deadline_t deadline = deadline_start("what is left to form a team");
    while (left > 0) {
        for (uint32_t k = 0; k < n; k++) {
            if (status[k] == UCC_INPROGRESS &&
                (status[k] = ucc_team_create_test(teams[k])) != UCC_INPROGRESS) {
                left--;
                result = result == UCC_OK ? status[k] : result;
            }
        }
        deadline_poll(&deadline);
    }
    for (uint32_t k = 0; result != UCC_OK && k < n; k++) {
        world_destroy_team(teams[k]);
    }
    return result;
}

static void shrink(const world_t *world, ucc_team_h *of, ucc_team_h *teams) {
    uint32_t attempts = 1;
    while (shrink_once(world, of, teams) != UCC_OK) {
        must(++attempts < 50 ? UCC_OK : UCC_ERR_LAST, "attempts to shrink a team");
    }
}

static void destroy(const world_t *world, ucc_team_h *teams) {
    for (uint32_t k = 0; k < world_count(world); k++) {
        world_destroy_team(teams[k]);
    }
}

/* A barrier that has ended everywhere when this returns: what a process does to the team next does
 * not reach others inside it. */
static void meet(const process_t *process, const world_t *world, ucc_team_h *teams) {
    must(barrier(world, teams), "a barrier of all");
    process_barrier(process);
}

static uint64_t number_of(ucc_team_h team, uint64_t *size) {
    ucc_team_attr_t attr = {.mask = UCC_TEAM_ATTR_FIELD_SIZE | UCC_TEAM_ATTR_FIELD_EP};
    must(ucc_team_get_attr(team, &attr), "ucc_team_get_attr");
    *size = attr.size;
    return attr.ep;
}

static world_t *open_world(const process_t *process) {
    return world_create(
        &(world_params_t){.size = process->size, .form = WORLD_OOB, .process = process});
}

/* --- a process is killed ---------------------------------------------------------------------- */

/* Makes a team of all, kills the victim, and returns whether the team failed as it should. */
static bool loses_victim(const process_t *process, world_t **world, ucc_team_h *teams) {
    *world = open_world(process);
    mine_of(*world, teams);
    meet(process, *world, teams);
    if (process->me == VICTIM) {
        kill(getpid(), SIGKILL);
    }
    return barrier(*world, teams) == UCC_ERR_IO_ERROR;
}

static int lose_one(const process_t *process, void *arg) {
    (void)arg;
    world_t *world;
    ucc_team_h old[MOST], left[MOST];
    int bad = !loses_victim(process, &world, old);
    shrink(world, old, left);
    for (uint32_t k = 0; k < world_count(world); k++) {
        uint64_t size, number = 0, ep = number_of(left[k], &size);
        for (uint32_t i = 0; i < world_endpoint(world, k); i++) {
            number += process->process_of[i] != VICTIM;
        }
        bad |= size != process->size - process->shape->endpoints[VICTIM] || ep != number;
    }
    bad |= barrier(world, left) != UCC_OK;
    destroy(world, left);
    world_destroy(world);
    return bad;
}

Test(shrink, who_is_left_keeps_the_order_and_goes_on) {
    shape_t shapes[] = {{.processes = 3, .endpoints = {2, 1, 2}},
                        {.processes = 4, .endpoints = {1, 2, 3, 1}}};
    for (uint32_t i = 0; i < 2; i++) {
        shapes[i].doomed = 1 << VICTIM;
        shapes[i].numbering = i ? NUMBERING_INTERLEAVED : NUMBERING_CONSECUTIVE;
        cr_assert(processes_run(&shapes[i], SECONDS, lose_one, NULL).ok);
    }
}

Test(shrink, one_process_that_is_left_is_a_team) {
    shape_t shape = {.processes = 2, .endpoints = {3, 1}, .doomed = 1 << VICTIM};
    cr_assert(processes_run(&shape, SECONDS, lose_one, NULL).ok);
}

static void shrink_until_refused(ucc_team_h team) {
    deadline_t deadline = deadline_start("a refusal");
    ucc_team_h left;
    ucc_status_t status;
    while ((status = heddle_team_shrink(team, &left)) != UCC_ERR_NO_RESOURCE) {
        if (status == UCC_OK) { /* the loss is not known yet */
            world_destroy_team(left);
        }
        deadline_poll(&deadline);
    }
}

/* With NET_QUORUM, half of a team is no team. */
static int lose_half(const process_t *process, void *arg) {
    (void)arg;
    setenv("HEDDLE_NET_QUORUM", "y", 1);
    world_t *world;
    ucc_team_h old[MOST], left[MOST];
    int bad = !loses_victim(process, &world, old);
    if (2 * world_count(world) > process->size) {
        shrink(world, old, left);
        destroy(world, left);
    } else {
        shrink_until_refused(old[0]);
    }
    world_destroy(world);
    return bad;
}

Test(shrink, no_more_than_half_of_a_team_is_none_if_the_configuration_says_so) {
    shape_t shape = {.processes = 2, .endpoints = {1, 1}, .doomed = 1 << VICTIM};
    cr_assert(processes_run(&shape, SECONDS, lose_half, NULL).ok);
    shape.endpoints[0] = 2;
    cr_assert(processes_run(&shape, SECONDS, lose_half, NULL).ok);
}

/* A team of a list, made and destroyed before, has just the members that are left then. */
static int lose_all_but_a_list(const process_t *process, void *arg) {
    (void)arg;
    world_t *world = open_world(process);
    ucc_team_h old[MOST], left[MOST], listed;
    uint64_t members[] = {0, 2}, *list = members;
    mine_of(world, old);
    meet(process, world, old);
    if (process->me != VICTIM) {
        must(ucc_create_team_from_eps(old[0], &list, 2, &listed), "ucc_create_team_from_eps");
        deadline_t deadline = deadline_start("a team of a list to form");
        while (ucc_team_create_test(listed) == UCC_INPROGRESS) {
            deadline_poll(&deadline);
        }
        must(barrier(world, &listed), "a barrier of the list");
        world_destroy_team(listed);
    }
    process_barrier(process);
    if (process->me == VICTIM) {
        kill(getpid(), SIGKILL);
    }
    int bad = barrier(world, old) != UCC_ERR_IO_ERROR;
    usleep(process->me ? 300000 : 0); /* process 0 greets one that has not begun */
    shrink(world, old, left);
    bad |= barrier(world, left) != UCC_OK;
    destroy(world, left);
    world_destroy(world);
    return bad;
}

Test(shrink, those_that_are_left_were_a_team_of_a_list_before) {
    shape_t shape = {.processes = 3, .endpoints = {1, 1, 1}, .doomed = 1 << VICTIM};
    cr_assert(processes_run(&shape, SECONDS, lose_all_but_a_list, NULL).ok);
}

/* --- two, one after the other ----------------------------------------------------------------- */

/* All but process 1. */
static void await_the_living(const process_t *process) {
    deadline_t deadline = deadline_start("the others");
    process_set(process, 0, 1);
    for (uint32_t p = 0; p < process->shape->processes; p++) {
        while (p != 1 && process_get(process, p, 0) != 1) {
            deadline_poll(&deadline);
        }
    }
}

/* Process 1 is killed, and then, in the team of those that are left, process 2. Returns whether a
 * team did not fail as it should. */
static int lose_both(const process_t *process, const world_t *world, ucc_team_h *first,
                     ucc_team_h *second) {
    mine_of(world, first);
    meet(process, world, first);
    if (process->me == 1) {
        kill(getpid(), SIGKILL);
    }
    int bad = barrier(world, first) != UCC_ERR_IO_ERROR;
    shrink(world, first, second);
    await_the_living(process); /* or some would make a second team that is good */
    if (process->me == 2) {
        kill(getpid(), SIGKILL);
    }
    return bad | (barrier(world, second) != UCC_ERR_IO_ERROR);
}

static int lose_two(const process_t *process, void *arg) {
    (void)arg;
    world_t *world = open_world(process);
    ucc_team_h first[MOST], second[MOST], third[MOST];
    int bad = lose_both(process, world, first, second);
    /* Some may not have got the second team: ids are the same from either. */
    shrink(world, process->me % 2 ? first : second, third);
    bad |= barrier(world, third) != UCC_OK;
    destroy(world, third);
    destroy(world, second);
    world_destroy(world);
    return bad;
}

Test(shrink, those_with_a_team_that_broke_again_meet_those_who_got_none) {
    shape_t shape = {.processes = 4, .endpoints = {1, 1, 1, 2}, .doomed = 6};
    cr_assert(processes_run(&shape, SECONDS, lose_two, NULL).ok);
}

/* With NET_QUORUM, half of the first team is no team, also for those who come from the second. */
static int lose_half_by_and_by(const process_t *process, void *arg) {
    (void)arg;
    setenv("HEDDLE_NET_QUORUM", "y", 1);
    world_t *world = open_world(process);
    ucc_team_h first[MOST], second[MOST];
    int bad = lose_both(process, world, first, second);
    shrink_until_refused(process->me == 0 ? first[0] : second[0]);
    destroy(world, second);
    world_destroy(world);
    return bad;
}

Test(shrink, a_quorum_is_one_of_the_team_that_all_come_from) {
    shape_t shape = {.processes = 4, .endpoints = {1, 1, 1, 1}, .doomed = 6};
    cr_assert(processes_run(&shape, SECONDS, lose_half_by_and_by, NULL).ok);
}

/* --- nobody is lost --------------------------------------------------------------------------- */

/* Both a team and the one that replaces it are aborted. parts: process 1 leaves the second one, and
 * shrinks the first one again; the others shrink the second. */
static int abort_twice(const process_t *process, void *arg) {
    const bool parts = *(const bool *)arg;
    world_t *world = open_world(process);
    ucc_team_h old[MOST], left[MOST], again[MOST];
    mine_of(world, old);
    meet(process, world, old);
    heddle_team_abort(old[0]);
    int bad = barrier(world, old) != HEDDLE_ERR_ABORTED;
    shrink(world, old, left);
    meet(process, world, left);
    heddle_team_abort(left[0]);
    if (parts && process->me == 1) {
        destroy(world, left);
        shrink(world, old, again);
    } else {
        shrink(world, left, again);
        destroy(world, left);
    }
    bad |= barrier(world, again) != UCC_OK;
    destroy(world, again);
    world_destroy(world);
    return bad;
}

Test(shrink, an_aborted_team_is_replaced_by_one_of_all) {
    shape_t shape = shape_even(2, 2);
    bool parts = false;
    cr_assert(processes_run(&shape, SECONDS, abort_twice, &parts).ok);
}

Test(shrink, those_who_left_a_team_and_those_who_have_it_meet_though_nobody_is_lost) {
    shape_t shape = shape_even(2, 1);
    bool parts = true;
    cr_assert(processes_run(&shape, SECONDS, abort_twice, &parts).ok);
    shape = shape_even(3, 2);
    cr_assert(processes_run(&shape, SECONDS, abort_twice, &parts).ok);
}

/* The same with endpoints of one process that come from different teams. */
static int part_ways_inside(const process_t *process, void *arg) {
    (void)arg;
    world_t *world = open_world(process);
    ucc_team_h old[MOST], left[MOST], again[MOST];
    mine_of(world, old);
    meet(process, world, old);
    shrink(world, old, left);
    meet(process, world, left);
    heddle_team_abort(left[0]);
    int bad = barrier(world, left) != HEDDLE_ERR_ABORTED;
    ucc_team_h from[MOST];
    for (uint32_t k = 0; k < world_count(world); k++) {
        from[k] = (k + process->me) % 2 ? old[k] : left[k];
    }
    shrink(world, from, again);
    bad |= barrier(world, again) != UCC_OK;
    destroy(world, again);
    shrink(world, old, again);
    bad |= barrier(world, again) != UCC_OK;
    destroy(world, again);
    destroy(world, left);
    world_destroy(world);
    return bad;
}

Test(shrink, endpoints_of_one_process_meet_from_whichever_team_they_come) {
    shape_t shape = shape_even(2, 3);
    cr_assert(processes_run(&shape, SECONDS, part_ways_inside, NULL).ok);
}

/* Processes are attempts behind one that has given up several times. */
static int come_late(const process_t *process, void *arg) {
    (void)arg;
    enum { ATTEMPTS = 5 };
    world_t *world = open_world(process);
    ucc_team_h old[MOST], left[MOST];
    mine_of(world, old);
    meet(process, world, old);
    for (uint32_t i = 0; process->me == 0 && i < ATTEMPTS; i++) {
        must(heddle_team_shrink(old[0], &left[0]), "heddle_team_shrink");
        world_destroy_team(left[0]);
    }
    process_barrier(process);
    shrink(world, old, left);
    int bad = barrier(world, left) != UCC_OK;
    destroy(world, left);
    world_destroy(world);
    return bad;
}

Test(shrink, who_is_attempts_behind_catches_up) {
    shape_t shape = shape_even(3, 1);
    cr_assert(processes_run(&shape, SECONDS, come_late, NULL).ok);
}

/* Who is first comes while the others still have the team. */
static int shrink_again_and_again(const process_t *process, void *arg) {
    (void)arg;
    world_t *world = open_world(process);
    ucc_team_h old[MOST], left[MOST];
    mine_of(world, old);
    int bad = barrier(world, old) != UCC_OK;
    for (uint32_t i = 0; i < 40 && !bad; i++) {
        bad = shrink_once(world, old, left) != UCC_OK || barrier(world, left) != UCC_OK;
        if (process->me == i % process->shape->processes) {
            usleep(2000);
        }
        destroy(world, left);
    }
    world_destroy(world);
    return bad;
}

Test(shrink, the_same_processes_again_and_again_meet_each_time) {
    shape_t shapes[] = {shape_even(2, 1), {.processes = 3, .endpoints = {2, 1, 2}}};
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert(processes_run(&shapes[i], SECONDS, shrink_again_and_again, NULL).ok);
    }
}

static int try_alone(const process_t *process, void *arg) {
    (void)arg;
    world_t *world = open_world(process);
    ucc_team_h left = NULL;
    int bad = heddle_team_shrink(world->teams[0], &left) != UCC_ERR_NOT_SUPPORTED || left;
    bad |= heddle_team_shrink(world->teams[0], NULL) != UCC_ERR_INVALID_PARAM;
    bad |= heddle_team_shrink(NULL, &left) != UCC_ERR_INVALID_PARAM;
    world_destroy(world);
    return bad;
}

Test(shrink, a_team_inside_a_process_has_nobody_to_lose) {
    shape_t shape = shape_even(1, 2);
    cr_assert(processes_run(&shape, SECONDS, try_alone, NULL).ok);
}
