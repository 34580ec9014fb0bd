/* test_share.c: which processes a line about a long wait names, while a team forms whose processes
 * share memory. One comes late: when the others have said what is looked for.
 */
#include "../support/deadline.h"
#include "../support/processes.h"
#include "../support/world.h"
#include "core/log.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

TestSuite(share, .timeout = 180);

enum { SECONDS = 120, PROCESSES = 3 };
enum { PID, HEARD }; /* what processes tell each other (process_set) */

static const process_t *this_process;
static uint32_t late_one; /* process */
static const char *begins, *ends;
static char late[96];

static void hear(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)arg;
    const char *at = strstr(line, begins);
    at = at ? strstr(at, late) : NULL;
    if (at && strcmp(at + strlen(late), ends) == 0) {
        process_set(this_process, HEARD, 1);
    }
}

static void listen(const process_t *process) {
    char host[64] = "";
    this_process = process;
    process_set(process, PID, (uint64_t)getpid());
    process_barrier(process);
    gethostname(host, sizeof(host) - 1);
    snprintf(late, sizeof(late), "process %u (host %.39s, pid %lu)", late_one, host,
             (unsigned long)process_get(process, late_one, PID));
    hd_log_capture(hear, NULL);
}

/* By the last one: until the others have heard. */
static void come_late(const process_t *process) {
    deadline_t deadline = deadline_start("lines about a wait");
    bool all = false;
    while (process->me == late_one && !all) {
        all = true;
        for (uint32_t p = 0; p < PROCESSES; p++) {
            all = all && (p == late_one || process_get(process, p, HEARD));
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000L}, NULL);
        deadline_poll(&deadline);
    }
}

static void run(uint32_t comes_late, int (*work)(const process_t *process, void *arg), void *arg) {
    late_one = comes_late;
    shape_t shape = shape_even(PROCESSES, 1);
    unsetenv("HEDDLE_LOG_LEVEL");
    setenv("HEDDLE_STALL", "0.05", 1);
    cr_assert(processes_run(&shape, SECONDS, work, arg).ok);
}

/* begun: the last one has posted its creation, and does not go on. */
static int split_late(const process_t *process, void *begun) {
    world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
    uint32_t e = process->endpoint[0];
    deadline_t deadline = deadline_start("a team of a parent's endpoints");
    ucc_status_t status;
    ucc_team_h team;
    listen(process);
    if (!begun) {
        come_late(process);
    }
    must(ucc_team_create_from_parent(e, 1, world->teams[e], &team), "from parent");
    if (begun) {
        come_late(process);
    }
    while ((status = ucc_team_create_test(team)) == UCC_INPROGRESS) {
        deadline_poll(&deadline);
    }
    must(status, "create_test");
    hd_log_capture(NULL, NULL);
    while (ucc_team_destroy(team) == UCC_INPROGRESS) {
    }
    process_barrier(process);
    world_destroy(world);
    return 0;
}

Test(share, of_a_split_the_processes_are_named_whose_endpoints_have_not_called) {
    begins = "for endpoint 2 of ";
    ends = ", to come";
    run(2, split_late, NULL);
}

Test(share, of_a_team_that_gets_its_memory_the_processes_are_named_that_have_not_come) {
    begins = "team from a parent of 3: ";
    ends = ", which is there, to share memory with";
    run(2, split_late, "begun");
}

/* --- by an exchange --------------------------------------------------------------------------- */

static ucc_oob_coll_t real;
static unsigned calls;

static ucc_status_t allgather(void *source, void *destination, size_t bytes, void *info,
                              void **request) {
    calls++;
    return real.allgather(source, destination, bytes, info, request);
}

/* The second exchange tells the doors' numbers: the late process knows them, and does not go on. */
static ucc_status_t test(void *request) {
    ucc_status_t status = real.req_test(request);
    if (status == UCC_OK && calls == 2) {
        come_late(this_process);
    }
    return status;
}

static int group_late(const process_t *process, void *arg) {
    heddle_group_t *group;
    (void)arg;
    listen(process);
    real = process_group_oob(process, 0);
    ucc_oob_coll_t oob = real;
    oob.allgather = allgather;
    oob.req_test = test;
    heddle_group_params_t params = {.endpoints = 1, .oob = &oob};
    must(heddle_group_create(&params, &group), "heddle_group_create");
    hd_log_capture(NULL, NULL);
    must(heddle_group_destroy(group), "heddle_group_destroy");
    return 0;
}

Test(share, of_a_group_the_processes_are_named_that_do_not_answer_at_their_doors) {
    begins = " s for ";
    ends = ", which has not answered, to share memory with";
    run(2, group_late, NULL);
    run(0, group_late, NULL); /* from whom the others would have it */
}
