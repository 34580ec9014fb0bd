/* test_awaited.c: for which process one waits, in lines about long waits, and when it is asked. The
 * last process comes late: when the others have said what is looked for, or, where it asks itself,
 * when it has got the answer. It does nothing for the library meanwhile.
 */
#include "../support/deadline.h"
#include "../support/small.h"
#include "../support/world.h"
#include "core/log.h"
#include "net/internal.h"
#include "span/span.h"
#include "team/team.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(awaited, .init = processes_use_network, .timeout = 180);

enum { SECONDS = 120, PROCESSES = 3, LATE = PROCESSES - 1, COUNT = 20000, MOST_RANKS = 8 };
/* What processes tell each other (process_set). */
enum { PID, HEARD, ASKED };

/* What a case does once all are there, and what it has the waiting ones say. */
typedef struct wait_case {
    uint32_t endpoints; /* of each process */
    uint64_t count;     /* of an allreduce; 0: a team of all is made of the first one */
    bool stops;         /* the late one is stopped for a while */
    const char *begins; /* of the line */
} wait_case_t;

static char expected[128];
static const char *begins, *also;
static _Atomic bool heard;

static void hear(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)arg;
    if (strstr(line, begins) && strstr(line, expected) && strstr(line, also)) {
        atomic_store(&heard, true);
    }
}

static void sleep_ms(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void join(const process_t *process, world_t *world, const wait_case_t *c) {
    static int32_t x[COUNT], y[MOST_RANKS][COUNT];
    ucc_coll_req_h request[MOST_RANKS] = {NULL};
    ucc_team_h team[MOST_RANKS] = {NULL};
    deadline_t deadline = deadline_start("a wait for a process that comes late");
    ucc_status_t status = UCC_INPROGRESS;
    for (uint32_t i = 0; i < process->n; i++) {
        uint32_t e = process->endpoint[i];
        if (c->count) {
            ucc_coll_args_t args = small_allreduce(x, y[e], c->count);
            request[e] = small_start(world, e, &args);
        } else {
            must(ucc_team_create_from_parent(e, 1, world->teams[e], &team[e]), "split");
        }
    }
    while (status == UCC_INPROGRESS) {
        status = UCC_OK;
        for (uint32_t i = 0; i < process->n; i++) {
            uint32_t e = process->endpoint[i];
            ucc_status_t one = UCC_OK;
            ucc_context_progress(world_context(world, e));
            one = c->count ? ucc_collective_test(request[e]) : ucc_team_create_test(team[e]);
            status = one == UCC_OK ? status : one;
        }
        process_set(process, HEARD, atomic_load(&heard));
        deadline_poll(&deadline);
    }
    must(status, "the wait");
    for (uint32_t i = 0; i < process->n; i++) {
        uint32_t e = process->endpoint[i];
        if (c->count) {
            must(ucc_collective_finalize(request[e]), "finalize");
        }
        while (team[e] && ucc_team_destroy(team[e]) == UCC_INPROGRESS) {
        }
    }
}

static world_t *begin(const process_t *process) {
    world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
    process_set(process, PID, (uint64_t)getpid());
    process_barrier(process);
    return world;
}

static bool all_heard(const process_t *process) {
    bool all = true;
    for (uint32_t p = 0; p < LATE; p++) {
        all = all && process_get(process, p, HEARD);
    }
    return all;
}

/* Its name is what is looked for from now on. Returns its process id. */
static unsigned long expect_the_last(const process_t *process) {
    unsigned long late = (unsigned long)process_get(process, LATE, PID);
    char host[64] = "";
    gethostname(host, sizeof(host) - 1);
    snprintf(expected, sizeof(expected), "process %d (host %.39s, pid %lu)", LATE, host, late);
    return late;
}

static int wait_for_the_last(const process_t *process, void *arg) {
    const wait_case_t *c = arg;
    begins = c->begins;
    also = c->stops ? "), which is stopped" : "pid ";
    world_t *world = begin(process);
    unsigned long late = expect_the_last(process);
    hd_log_capture(hear, NULL);
    if (process->me == LATE && c->stops) {
        raise(SIGSTOP); /* process 0 lets it go on */
    }
    while (process->me == LATE && !all_heard(process)) {
        sleep_ms(5);
    }
    if (process->me == 0 && c->stops) { /* goes on when this one has heard */
        pid_t waker = fork();
        if (waker == 0) {
            while (!all_heard(process)) {
                sleep_ms(5);
            }
            kill((pid_t)late, SIGCONT);
            _exit(0);
        }
    }
    join(process, world, c);
    hd_log_capture(NULL, NULL);
    process_barrier(process);
    world_destroy(world);
    return 0;
}

static void says(const wait_case_t *c) {
    shape_t shape = shape_even(PROCESSES, c->endpoints);
    wait_case_t copy = *c;
    unsetenv("HEDDLE_LOG_LEVEL");
    setenv("HEDDLE_STALL", "0.05", 1);
    cr_assert(processes_run(&shape, SECONDS, wait_for_the_last, &copy).ok);
}

Test(awaited, a_small_collective_of_single_endpoints_names_the_process) {
    says(&(wait_case_t){.endpoints = 1, .count = 1, .begins = "for a message of "});
}

Test(awaited, a_small_collective_of_several_endpoints_names_the_process) {
    says(&(wait_case_t){.endpoints = 2, .count = 1, .begins = "for a message of "});
}

Test(awaited, a_large_collective_names_the_process) {
    says(&(wait_case_t){.endpoints = 2, .count = COUNT, .begins = " for "});
}

Test(awaited, a_team_that_forms_names_the_process) {
    says(&(wait_case_t){.endpoints = 1, .begins = "team from a parent of "});
}

static const process_t *this_process;

static void hear_and_tell(hd_log_level_t level, const char *line, void *arg) {
    hear(level, line, arg);
    process_set(this_process, HEARD, atomic_load(&heard));
}

/* The team is complete when its first operation is launched: until then that waits for those who
 * form it. */
static int begin_late(const process_t *process, void *arg) {
    (void)arg;
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = 1, .oob = &oob};
    heddle_group_t *group;
    heddle_ep_t *ep;
    this_process = process;
    begins = "barrier ";
    also = ", to form the team";
    process_set(process, PID, (uint64_t)getpid());
    must(heddle_group_create(&params, &group), "heddle_group_create");
    must(heddle_join(group, 0, &ep), "heddle_join");
    hd_log_capture(hear_and_tell, NULL);
    process_barrier(process);
    expect_the_last(process);
    while (process->me == LATE && !all_heard(process)) {
        sleep_ms(5);
    }
    must(heddle_barrier(ep), "heddle_barrier");
    hd_log_capture(NULL, NULL);
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
    return 0;
}

Test(awaited, a_first_collective_names_who_forms_the_team) {
    shape_t shape = shape_even(PROCESSES, 1);
    unsetenv("HEDDLE_LOG_LEVEL");
    setenv("HEDDLE_STALL", "0.05", 1);
    cr_assert(processes_run(&shape, SECONDS, begin_late, NULL).ok);
}

Test(awaited, a_process_that_is_stopped_is_told_from_others) {
    says(&(wait_case_t){.endpoints = 1, .count = 1, .stops = true, .begins = "a message of "});
}

/* --- who is asked ----------------------------------------------------------------------------- */

/* What the process answers; NULL: nothing. */
static char *ask(uint32_t pid, ucc_status_t *status) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    *status = heddle_job_print(stream, pid);
    fclose(stream);
    return text;
}

static bool has(const char *text, const char *what) {
    bool has = strstr(text, what);
    if (!has) {
        fprintf(stderr, "no '%s' in:\n%s", what, text);
    }
    return has;
}

/* Asks process 0 until both wait. */
static int ask_as_the_last(const process_t *process) {
    char line[256], *text = NULL, host[64] = "";
    unsigned long first = (unsigned long)process_get(process, 0, PID);
    ucc_status_t status = UCC_OK;
    bool wait = false, right = true;
    deadline_t deadline = deadline_start("an answer");
    gethostname(host, sizeof(host) - 1);
    while (!wait) {
        free(text);
        text = ask((uint32_t)first, &status);
        wait = status == UCC_OK && strstr(text, "2 processes wait, ");
        deadline_poll(&deadline);
    }
    snprintf(line, sizeof(line), "\nprocess 0 (host %.39s, pid %lu)\n  team of 3 processes", host,
             first);
    right = has(text, line) && right;
    right = has(text, "2 of 3 processes answer\n") && right;
    right = has(text, "    endpoint 0: through with all collectives up to 0") && right;
    right = has(text, "    endpoint 1: through with all collectives up to 0") && right;
    right = has(text, " 1 waits for a message of process 2 (host ") && right;
    snprintf(line, sizeof(line), "\nprocess 2 (host %.39s, pid %d) does not answer: ", host,
             (int)getpid());
    right = has(text, line) && right;
    snprintf(line, sizeof(line),
             "\n2 processes wait, directly or not, for process 2 (host %.39s, pid %d), which does "
             "not answer\n",
             host, (int)getpid());
    right = has(text, line) && right;
    free(text);
    return right ? 0 : 1;
}

/* Of one that is stopped: itself says nothing, and another one says why. */
static int ask_a_stopped_one(const process_t *process) {
    uint32_t first = (uint32_t)process_get(process, 0, PID);
    pid_t second = (pid_t)process_get(process, 1, PID);
    ucc_status_t status;
    bool told = false;
    deadline_t deadline = deadline_start("a process that is stopped");
    char line[64];
    snprintf(line, sizeof(line), "pid %d), which is stopped, does not answer\n", (int)second);
    kill(second, SIGSTOP);
    while (!told) {
        char *text = ask(first, &status);
        told = status == UCC_OK && strstr(text, line);
        free(text);
        deadline_poll(&deadline);
    }
    free(ask((uint32_t)second, &status));
    kill(second, SIGCONT);
    return status == UCC_ERR_TIMED_OUT ? 0 : 5;
}

/* As another user, and of this process, whose only thread asks. */
static int ask_in_vain(const process_t *process) {
    ucc_status_t status;
    uint32_t first = (uint32_t)process_get(process, 0, PID);
    free(ask((uint32_t)getpid(), &status));
    if (status != UCC_ERR_TIMED_OUT) {
        return 2;
    }
    if (geteuid() != 0) {
        return 0;
    }
    if (seteuid(65534) != 0) {
        return 3;
    }
    free(ask(first, &status));
    return seteuid(0) == 0 && status == UCC_ERR_NO_RESOURCE ? 0 : 4;
}

static int ask_about_the_last(const process_t *process, void *arg) {
    const wait_case_t c = {.count = 1};
    int failed = 0;
    (void)arg;
    world_t *world = begin(process);
    if (process->me == LATE) {
        failed = ask_as_the_last(process);
        failed = failed ? failed : ask_in_vain(process);
        failed = failed ? failed : ask_a_stopped_one(process);
    }
    join(process, world, &c);
    process_barrier(process);
    world_destroy(world);
    return failed;
}

Test(awaited, a_process_that_is_asked_answers_for_its_job_and_the_verdict_names_the_culprit) {
    shape_t shape = shape_even(PROCESSES, 1);
    begins = "nothing";
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    cr_assert(processes_run(&shape, SECONDS, ask_about_the_last, NULL).ok);
}

/* Is there a connection by which this process hears that one? */
static bool hears(const world_t *world, uint32_t other) {
    const hd_net_team_t *team = world->teams[world_endpoint(world, 0)]->crossing->team;
    return hd_watch_hears(team->net->watch, team->peer[other]->token);
}

/* The last one asks process 0. Each watches those that are 1, 2 and 4 before and after it. */
static int ask_around(const process_t *process, void *arg) {
    enum { FAR = 3 };
    const wait_case_t c = {.count = 1};
    uint32_t last = process->shape->processes - 1;
    ucc_status_t status;
    bool told = process->me != last, failed = false;
    (void)arg;
    world_t *world = begin(process);
    failed = process->me == 0 && hears(world, FAR);
    deadline_t deadline = deadline_start("answers that come by way of others");
    while (!told) {
        char line[128], *text = ask((uint32_t)process_get(process, 0, PID), &status);
        snprintf(line, sizeof(line), ", pid %lu)\n  team of %u processes, this one is process %d\n",
                 (unsigned long)process_get(process, FAR, PID), last + 1, FAR);
        told = status == UCC_OK && strstr(text, "5 of 6 processes answer\n") &&
               strstr(text, line) &&
               strstr(text, "\n5 processes wait, directly or not, for process 5 (");
        free(text);
        deadline_poll(&deadline);
    }
    join(process, world, &c);
    process_barrier(process);
    world_destroy(world);
    return failed;
}

Test(awaited, answers_of_processes_that_the_asked_one_does_not_watch_come_by_way_of_others) {
    shape_t shape = shape_even(6, 1);
    begins = "nothing";
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    cr_assert(processes_run(&shape, SECONDS, ask_around, NULL).ok);
}

static int ask_a_closed_one(const process_t *process, void *arg) {
    ucc_status_t status = UCC_ERR_NOT_SUPPORTED;
    (void)arg;
    world_t *world = begin(process);
    if (process->me == LATE) {
        free(ask((uint32_t)process_get(process, 0, PID), &status));
    }
    process_barrier(process);
    world_destroy(world);
    return status == UCC_ERR_NOT_SUPPORTED ? 0 : 1;
}

Test(awaited, a_process_is_not_asked_if_its_configuration_says_so) {
    shape_t shape = shape_even(PROCESSES, 1);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    setenv("HEDDLE_NET_ASK", "n", 1);
    cr_assert(processes_run(&shape, SECONDS, ask_a_closed_one, NULL).ok);
}

Test(awaited, who_can_not_be_asked_is_refused) {
    ucc_status_t status;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    free(ask((uint32_t)getpid(), &status));
    cr_expect_eq(status, UCC_ERR_NOT_SUPPORTED, "it has no other processes");
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    waitpid(child, NULL, 0);
    free(ask((uint32_t)child, &status));
    cr_expect_eq(status, UCC_ERR_NOT_FOUND);
    free(ask(0, &status));
    cr_expect_eq(status, UCC_ERR_INVALID_PARAM);
    cr_expect_eq(heddle_job_print(NULL, 1), UCC_ERR_INVALID_PARAM);
}
