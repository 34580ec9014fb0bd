/* test_who.c: what lines about long waits say of endpoints that live in other processes of a team
 * whose memory is shared. The late processes come when the others have heard what they look for.
 */
#include "../support/deadline.h"
#include "../support/processes.h"
#include "../support/world.h"
#include "core/log.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 120, MOST = 8 };
/* What processes tell each other (process_set). */
enum { PID, HEARD };

static void set_up(void) {
    unsetenv("HEDDLE_LOG_LEVEL");
    setenv("HEDDLE_STALL", "0.02", 1);
    setenv("HEDDLE_NODE", "y", 1);
}

TestSuite(who, .init = set_up, .timeout = 180);

typedef struct wait_case {
    uint32_t processes, endpoints; /* of each */
    uint32_t late;                 /* processes from this one on */
    uint32_t hear;      /* bits: processes that are to hear it; 0: all that are not late */
    uint32_t named;     /* whose pid is said */
    bool joins_late;    /* they have not joined yet */
    bool stops;         /* they are stopped for a while */
    const char *format; /* of what is said, with a host and a pid */
    const char *also;   /* on the same line; NULL: anything */
    const char *never;  /* what no line may say; NULL: anything */
} wait_case_t;

static char expected[256];
static const char *also, *never;
static _Atomic bool heard, wrong;

static void hear(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)arg;
    if (strstr(line, "stall: ") && strstr(line, expected) && (!also || strstr(line, also))) {
        atomic_store(&heard, true);
    }
    if (never && strstr(line, never)) {
        fprintf(stderr, "it is said: %s\n", line);
        atomic_store(&wrong, true);
    }
}

static void sleep_ms(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static bool all_heard(const process_t *process, const wait_case_t *c) {
    bool all = true;
    for (uint32_t p = 0; p < c->late; p++) {
        all = all && ((c->hear && !(c->hear >> p & 1)) || process_get(process, p, HEARD));
    }
    return all;
}

static void wait_until_heard(const process_t *process, const wait_case_t *c) {
    while (!all_heard(process, c)) {
        sleep_ms(5);
    }
}

typedef struct crew {
    uint32_t n;
    heddle_group_t *group;
    heddle_ep_t *ep[MOST];
} crew_t;

/* A barrier of all, driven by one thread. */
static void meet(const process_t *process, crew_t *crew) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER};
    ucc_coll_req_h request[MOST];
    deadline_t deadline = deadline_start("a barrier of all");
    ucc_status_t status = UCC_INPROGRESS;
    for (uint32_t i = 0; i < crew->n; i++) {
        must(ucc_collective_init(&args, &request[i], heddle_ep_team(crew->ep[i])), "init");
        must(ucc_collective_post(request[i]), "post");
    }
    while (status == UCC_INPROGRESS) {
        status = UCC_OK;
        for (uint32_t i = 0; i < crew->n; i++) {
            ucc_context_progress(heddle_ep_context(crew->ep[i]));
            ucc_status_t one = ucc_collective_test(request[i]);
            status = one == UCC_OK ? status : one;
        }
        process_set(process, HEARD, atomic_load(&heard));
        deadline_poll(&deadline);
    }
    must(status, "barrier");
    for (uint32_t i = 0; i < crew->n; i++) {
        must(ucc_collective_finalize(request[i]), "finalize");
    }
}

static void join(crew_t *crew) {
    for (uint32_t i = 0; i < crew->n; i++) {
        must(heddle_join(crew->group, i, &crew->ep[i]), "join");
    }
}

/* Goes on when the others have heard. */
static void stop(const process_t *process, const wait_case_t *c) {
    pid_t me = getpid(), waker = fork();
    if (waker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        wait_until_heard(process, c);
        kill(me, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    waitpid(waker, NULL, 0);
}

static int wait_for_the_late(const process_t *process, void *arg) {
    const wait_case_t *c = arg;
    bool late = process->me >= c->late;
    char host[64] = "";
    crew_t crew = {.n = c->endpoints};
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    process_set(process, PID, (uint64_t)getpid());
    must(heddle_group_create(&(heddle_group_params_t){.endpoints = crew.n, .oob = &oob},
                             &crew.group),
         "group");
    gethostname(host, sizeof(host) - 1);
    snprintf(expected, sizeof(expected), c->format, host,
             (unsigned)process_get(process, c->named, PID));
    also = c->also;
    never = c->never;
    if (!late || !c->joins_late) {
        join(&crew);
    }
    if (!c->joins_late) {
        meet(process, &crew); /* everybody has a past */
    }
    process_barrier(process);
    hd_log_capture(hear, NULL);
    if (late && c->stops) {
        stop(process, c);
    } else if (late) {
        wait_until_heard(process, c);
    }
    if (late && c->joins_late) {
        join(&crew);
    }
    meet(process, &crew);
    hd_log_capture(NULL, NULL);
    for (uint32_t i = 0; i < crew.n; i++) {
        must(heddle_leave(crew.ep[i]), "leave");
    }
    must(heddle_group_destroy(crew.group), "destroy");
    return atomic_load(&wrong);
}

static void says(wait_case_t c) {
    shape_t shape = shape_even(c.processes, c.endpoints);
    outcome_t outcome = processes_run(&shape, SECONDS, wait_for_the_late, &c);
    cr_assert(outcome.ok);
}

Test(who, an_endpoint_of_another_process_is_told_with_host_and_pid) {
    says((wait_case_t){.processes = 3,
                       .endpoints = 1,
                       .late = 2,
                       .named = 2,
                       .format =
                           "for endpoint 2 of process 2 (host %.39s, pid %u; last in barrier 1; ",
                       .never = "has ended"});
}

Test(who, of_a_process_that_is_stopped_it_is_said) {
    says((wait_case_t){.processes = 2,
                       .endpoints = 1,
                       .late = 1,
                       .named = 1,
                       .stops = true,
                       .format = "of process 1 (host %.39s, pid %u; last in barrier 1; ",
                       .also = " is stopped)"});
}

Test(who, one_that_has_not_joined_is_told_with_its_process) {
    says((wait_case_t){.processes = 2,
                       .endpoints = 1,
                       .late = 1,
                       .named = 1,
                       .joins_late = true,
                       .format = "endpoint 1 of process 1 (host %.39s, pid %u; has not joined)"});
}

Test(who, many_of_one_process_are_told_with_it) {
    says((wait_case_t){.processes = 2,
                       .endpoints = 5,
                       .late = 1,
                       .named = 1,
                       .format = "for 5 of 10 endpoints: 5-9 of process 1 (host %.39s, pid %u)"});
}

Test(who, many_of_several_are_told_with_the_processes_numbers) {
    says((wait_case_t){.processes = 4,
                       .endpoints = 3,
                       .late = 1,
                       .named = 1,
                       .format = "for 9 of 12 endpoints: 3-11 of processes 1-3"});
}

/* Two machines, as far as the processes know: 0 and 2 share memory. */
Test(who, on_one_node_of_several_they_have_their_numbers_in_the_team) {
    setenv("HEDDLE_DEBUG_NODES", "2", 1);
    says((wait_case_t){.processes = 3,
                       .endpoints = 1,
                       .late = 2,
                       .named = 2,
                       .hear = 1 << 0,
                       .format = "for endpoint 2 of process 2 (host %.39s, pid %u; last in "});
}

/* Process 3 is late, with which process 1 shares memory: that one does not send what process 0
 * waits for, which exchanges data for process 2, too. */
Test(who, a_node_waits_for_the_process_of_another_one_that_exchanges_data_for_it) {
    setenv("HEDDLE_DEBUG_NODES", "2", 1);
    says((wait_case_t){.processes = 4,
                       .endpoints = 1,
                       .late = 3,
                       .hear = 1 << 0,
                       .named = 1,
                       .format = "for a message of process 1 (host %.39s, pid %u)"});
}

Test(who, a_process_whose_node_another_one_exchanges_data_for_names_that) {
    setenv("HEDDLE_DEBUG_NODES", "2", 1);
    says((wait_case_t){.processes = 4,
                       .endpoints = 1,
                       .late = 3,
                       .hear = 1 << 2,
                       .named = 0,
                       .format = "for process 0 (host %.39s, pid %u)"});
}
