/* test_told.c: what processes that share memory answer who asks for whom they wait. The last
 * process comes late: it asks, as another program would, and does nothing for its teams meanwhile.
 */
#include "../support/deadline.h"
#include "../support/processes.h"
#include "../support/small.h"
#include "../support/world.h"
#include "threads/asker.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <heddle/heddle.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

TestSuite(told, .timeout = 180);

enum { SECONDS = 120, EARLIER_S = 10, PROCESSES = 3, LATE = PROCESSES - 1, MOST_ENDPOINTS = 8 };
enum { PID, GOES_ON }; /* what processes tell each other (process_set) */

/* The pid of each process; host: of all of them. */
static unsigned long pid[PROCESSES];
static char host[40];

static void learn(const process_t *process) {
    process_set(process, PID, (uint64_t)getpid());
    process_barrier(process);
    gethostname(host, sizeof(host) - 1);
    for (uint32_t p = 0; p < PROCESSES; p++) {
        pid[p] = (unsigned long)process_get(process, p, PID);
    }
}

/* --- asking ----------------------------------------------------------------------------------- */

static char *ask(unsigned long of, ucc_status_t *status) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    *status = heddle_job_print(stream, (uint32_t)of);
    fclose(stream);
    return text;
}

/* Is each of the lines there, in this order? %0, %1 and %2 stand for the processes' names. */
static bool has_all(const char *text, const char *const *lines) {
    for (; *lines; lines++) {
        char line[512] = "", name[96];
        for (const char *at = *lines; *at; at++) {
            if (*at == '%') {
                uint32_t p = (uint32_t)(*++at - '0');
                snprintf(name, sizeof(name), "process %u (host %.39s, pid %lu)", p, host, pid[p]);
            } else {
                snprintf(name, sizeof(name), "%c", *at);
            }
            strcat(line, name);
        }
        const char *at = strstr(text, line);
        if (!at) {
            return false;
        }
        text = at + strlen(line) - (line[strlen(line) - 1] == '\n');
    }
    return true;
}

/* Asks until that is said. False: something else is, to the end. */
static bool says(unsigned long of, const char *const *lines) {
    deadline_t deadline = deadline_start("an answer");
    for (bool told = false; !told;) {
        ucc_status_t status;
        char *text = ask(of, &status);
        told = status == UCC_OK && has_all(text, lines);
        if (!told && test_now() > deadline.end - EARLIER_S) {
            fprintf(stderr, "%s, and not '%s':\n%s\n", ucc_status_string(status), *lines, text);
            free(text);
            return false;
        }
        free(text);
    }
    return true;
}

/* --- a collective whose last process comes late ----------------------------------------------- */

typedef struct wait_case {
    uint32_t endpoints;    /* of each process */
    ucc_coll_args_t args;  /* of all endpoints */
    const char *lines[16]; /* what is said while they wait */
} wait_case_t;

static int wait_for_the_last(const process_t *process, void *arg) {
    const wait_case_t *c = arg;
    ucc_coll_req_h request[MOST_ENDPOINTS] = {NULL};
    deadline_t deadline = deadline_start("a wait for a process that comes late");
    world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
    bool right = true, over = false;
    learn(process);
    if (process->me == LATE) {
        right = says(pid[0], c->lines);
    }
    for (uint32_t i = 0; i < process->n; i++) {
        ucc_coll_args_t args = c->args;
        uint32_t e = process->endpoint[i];
        request[e] = small_start(world, e, &args);
    }
    while (!over) {
        over = true;
        for (uint32_t i = 0; i < process->n; i++) {
            uint32_t e = process->endpoint[i];
            ucc_context_progress(world_context(world, e));
            over = over && ucc_collective_test(request[e]) == UCC_OK;
        }
        deadline_poll(&deadline);
    }
    for (uint32_t i = 0; i < process->n; i++) {
        must(ucc_collective_finalize(request[process->endpoint[i]]), "finalize");
    }
    process_barrier(process);
    world_destroy(world);
    return right ? 0 : 1;
}

static void run(uint32_t endpoints, int (*work)(const process_t *process, void *arg), void *arg) {
    shape_t shape = shape_even(PROCESSES, endpoints);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    cr_assert(processes_run(&shape, SECONDS, work, arg).ok);
}

Test(told, a_process_that_is_asked_answers_for_its_job_and_the_verdict_names_the_culprit) {
    wait_case_t c = {
        .endpoints = 2,
        .args = small_barrier(),
        .lines = {"job of process ", ": 3 of 3 processes answer\n",
                  "\n%0\n  team of 3 processes, this one is process 0\n",
                  "\n    endpoint 0: still in barrier 1", "; its thread ",
                  "\n    endpoint 1: still in barrier 1",
                  "\n    barrier 1 waits for endpoints 4 and 5 of %2, which is there\n",
                  "\n%1\n  team of 3 processes, this one is process 1\n    endpoint 2: ",
                  "\n    barrier 1 waits for endpoints 4 and 5 of %2, which is there\n",
                  "\n%2\n  team of 3 processes, this one is process 2\n",
                  "\n    endpoint 4: in no collective yet",
                  "\n2 processes wait, directly or not, for %2, which waits for no other process: "
                  "see what its endpoints do\n"}};
    setenv("HEDDLE_STALL", "1", 1);
    run(c.endpoints, wait_for_the_last, &c);
}

/* Of a tag's exchange, nothing but those who wait in it says its name. */
Test(told, a_collective_with_a_tag_is_named_when_it_has_waited) {
    wait_case_t c = {.endpoints = 1, .args = small_barrier()};
    c.args.mask |= UCC_COLL_ARGS_FIELD_TAG;
    c.args.tag = 77;
    c.lines[0] = "\n%0\n  team of 3 processes, this one is process 0\n";
    c.lines[1] = "\n    barrier with tag 77 waits for endpoint 2 of %2, which is there\n";
    c.lines[2] = "\n2 processes wait, directly or not, for %2, ";
    setenv("HEDDLE_STALL", "0.1", 1);
    run(c.endpoints, wait_for_the_last, &c);
}

/* Of all processes, with an endpoint each. */
static heddle_group_t *create_group(const process_t *process) {
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = 1, .oob = &oob};
    heddle_group_t *group;
    must(heddle_group_create(&params, &group), "heddle_group_create");
    return group;
}

/* Of a bcast, who waits for its root alone says so, though others have not come either. */
static int wait_for_a_root(const process_t *process, void *arg) {
    heddle_ep_t *ep;
    int32_t data = 0;
    bool right = true;
    (void)arg;
    learn(process);
    heddle_group_t *group = create_group(process);
    must(heddle_join(group, 0, &ep), "heddle_join");
    must(heddle_barrier(ep), "heddle_barrier");
    if (process->me == LATE) {
        const char *const lines[] = {": 3 of 3 processes answer\n",
                                     "\n    bcast 2 waits for endpoint 2 of %2, which is there\n",
                                     "\n1 process waits for %2, which waits for no other process",
                                     NULL};
        right = says(pid[0], lines);
        process_set(process, GOES_ON, 1);
    }
    deadline_t deadline = deadline_start("the last process");
    while (process->me == 1 && !process_get(process, LATE, GOES_ON)) {
        deadline_poll(&deadline);
    }
    must(heddle_bcast(ep, &data, 1, UCC_DT_INT32, LATE), "heddle_bcast");
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
    return right ? 0 : 1;
}

Test(told, who_waits_for_a_root_names_nobody_else) {
    setenv("HEDDLE_STALL", "0.1", 1);
    run(1, wait_for_a_root, NULL);
}

/* --- endpoints that have not joined ----------------------------------------------------------- */

static int join_late(const process_t *process, void *arg) {
    heddle_ep_t *ep;
    bool right = true;
    (void)arg;
    learn(process);
    heddle_group_t *group = create_group(process);
    if (process->me == LATE) {
        const char *const lines[] = {
            "\n%0\n",
            "\n    endpoint 0: ",
            "\n    forming waits for endpoint 2 of %2, which is there, to join\n",
            "\n    endpoint 2: has not joined\n",
            "\n2 processes wait, directly or not, for %2, ",
            NULL};
        right = says(pid[0], lines);
    }
    must(heddle_join(group, 0, &ep), "heddle_join");
    must(heddle_barrier(ep), "heddle_barrier");
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
    return right ? 0 : 1;
}

Test(told, endpoints_that_have_not_joined_are_named) {
    run(1, join_late, NULL);
}

/* A team is made of the first one. All have begun, and the last one does not go on. */
static int form_late(const process_t *process, void *arg) {
    world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
    uint32_t e = process->endpoint[0];
    deadline_t deadline = deadline_start("a team of a parent's endpoints");
    ucc_status_t status;
    ucc_team_h team;
    bool right = true;
    (void)arg;
    learn(process);
    must(ucc_team_create_from_parent(e, 1, world->teams[e], &team), "from parent");
    if (process->me == LATE) {
        const char *const lines[] = {": 3 of 3 processes answer\n",
                                     "\n%0\n",
                                     "\n    forming waits for %2, which is there, to come\n",
                                     "\n%1\n",
                                     "\n    forming waits for %2, which is there, to come\n",
                                     "\n2 processes wait, directly or not, for %2, ",
                                     NULL};
        right = says(pid[0], lines);
    }
    while ((status = ucc_team_create_test(team)) == UCC_INPROGRESS) {
        deadline_poll(&deadline);
    }
    must(status, "create_test");
    while (ucc_team_destroy(team) == UCC_INPROGRESS) {
    }
    process_barrier(process);
    world_destroy(world);
    return right ? 0 : 1;
}

Test(told, of_a_team_that_forms_those_are_named_that_have_not_come) {
    run(1, form_late, NULL);
}

/* --- processes that can't answer -------------------------------------------------------------- */

static int stop_one(const process_t *process, void *arg) {
    world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
    bool right = true;
    ucc_status_t status = UCC_OK;
    (void)arg;
    learn(process);
    if (process->me == LATE) {
        const char *const lines[] = {": 2 of 3 processes answer\n",
                                     "\n%1, which is stopped, does not answer\n",
                                     "\nnobody waits for another process\n", NULL};
        kill((pid_t)pid[1], SIGSTOP);
        right = says(pid[0], lines);
        free(ask(pid[1], &status));
        kill((pid_t)pid[1], SIGCONT);
    }
    process_barrier(process);
    world_destroy(world);
    return right && (process->me != LATE || status == UCC_ERR_TIMED_OUT) ? 0 : 1;
}

Test(told, of_a_process_that_is_stopped_the_others_say_so) {
    run(1, stop_one, NULL);
}

/* The last process dies; its survivors keep their team. */
static int lose_one(const process_t *process, void *arg) {
    heddle_ep_t *ep;
    bool right = true;
    (void)arg;
    learn(process);
    heddle_group_t *group = create_group(process);
    must(heddle_join(group, 0, &ep), "heddle_join");
    must(heddle_barrier(ep), "heddle_barrier");
    process_barrier(process);
    if (process->me == LATE) {
        kill(getpid(), SIGKILL);
    }
    if (process->me == 1) {
        const char *const lines[] = {
            ": 2 of 3 processes answer\n",
            "\n%0\n  team of 3 processes, this one is process 0; it has failed: ",
            "\n%2, which has ended, does not answer\n", NULL};
        right = says(pid[0], lines);
        process_set(process, GOES_ON, 1);
    }
    deadline_t deadline = deadline_start("the process that asks");
    while (process->me == 0 && !process_get(process, 1, GOES_ON)) {
        deadline_poll(&deadline);
    }
    (void)heddle_leave(ep);
    (void)heddle_group_destroy(group);
    return right ? 0 : 1;
}

Test(told, a_process_that_has_died_is_told_as_ended) {
    shape_t shape = shape_even(PROCESSES, 1);
    shape.doomed = 1u << LATE;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
    cr_assert(processes_run(&shape, SECONDS, lose_one, NULL).ok);
}

/* --- teams of several machines ---------------------------------------------------------------- */

/* Processes 0 and 2 count as one machine, and process 1 as another one. Over the network the last
 * one does not answer; beside it, it does. */
Test(told, processes_that_share_memory_and_use_the_network_are_told_once) {
    wait_case_t c = {
        .endpoints = 1,
        .args = small_barrier(),
        .lines = {": 3 of 3 processes answer\n", "\n%0\n", "  team of 3 processes, this one is ",
                  "process 0\n", "\n%1\n  team of 3 processes, this one is process 1\n",
                  "\n%2\n  2 processes of a team that share memory, this one is process 2\n",
                  "\n2 processes wait, directly or not, for %2, which waits for no other "}};
    setenv("HEDDLE_DEBUG_NODES", "2", 1);
    run(c.endpoints, wait_for_the_last, &c);
}

/* --- who asks, and how ------------------------------------------------------------------------ */

static int dial(unsigned long of) {
    struct sockaddr_un at;
    uint32_t bytes = hd_ask_address(&at, HD_ASK_NODE, (uint32_t)of);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int failed = connect(fd, (const struct sockaddr *)&at, bytes);
    process_expect(fd >= 0 && !failed, "no connection: %s", strerror(errno));
    return fd;
}

/* Until it is one of those that are not turned away: who has asked before may not have gone yet. */
static int dial_and_stay(unsigned long of) {
    int fd = dial(of);
    for (struct pollfd wait = {.fd = fd, .events = POLLIN}; poll(&wait, 1, 200) != 0;
         wait.fd = fd) {
        close(fd);
        fd = dial(of);
    }
    return fd;
}

/* Is this taken for a question? If not, the process closes the connection, without an answer. */
static bool is_refused(unsigned long of, const void *bytes, size_t n) {
    char answer[512];
    int fd = dial(of);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    (void)send(fd, bytes, n, MSG_NOSIGNAL); /* it may have been closed already */
    bool ended = poll(&wait, 1, SECONDS * 1000) == 1;
    ssize_t got = recv(fd, answer, sizeof(answer), 0);
    if (got == (ssize_t)sizeof(hd_question_t)) { /* only of another version: which one answers */
        got = recv(fd, answer, sizeof(answer), 0);
    }
    close(fd);
    return ended && got <= 0;
}

static bool as_another_user(unsigned long of) {
    ucc_status_t status;
    const hd_question_t question = {HD_ASK_MAGIC, HD_ASK_VERSION};
    if (geteuid() != 0) {
        return true;
    }
    if (seteuid(65534) != 0) {
        return false;
    }
    free(ask(of, &status));
    bool right = status == UCC_ERR_NO_RESOURCE;                   /* this one does not trust it */
    right = is_refused(of, &question, sizeof(question)) && right; /* nor it this one */
    return seteuid(0) == 0 && right;
}

static int ask_badly(const process_t *process, void *arg) {
    world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
    bool right = true;
    (void)arg;
    learn(process);
    if (process->me == LATE) {
        const char *const lines[] = {": 3 of 3 processes answer\n", NULL};
        uint8_t noise[1024];
        const hd_question_t bad[] = {{HD_ASK_MAGIC, HD_ASK_VERSION + 1}, {1, HD_ASK_VERSION}};
        memset(noise, 0x5a, sizeof(noise));
        memcpy(noise, &(hd_question_t){HD_ASK_MAGIC, HD_ASK_VERSION}, sizeof(hd_question_t));
        right = is_refused(pid[0], noise, sizeof(noise)) && is_refused(pid[0], noise, 3) &&
                is_refused(pid[0], &bad[0], sizeof(bad[0])) &&
                is_refused(pid[0], &bad[1], sizeof(bad[1]));
        right = as_another_user(pid[0]) && right;
        int idle[HD_ASKERS - 1];
        for (uint32_t i = 0; i < HD_ASKERS - 1; i++) {
            idle[i] = dial(pid[0]); /* who says nothing hinders nobody */
        }
        right = says(pid[0], lines) && right;
        right = says((unsigned long)getpid(), lines) && right; /* it waits for its own answer */
        ucc_status_t status;
        int last = dial_and_stay(pid[0]); /* as many as it takes at once */
        free(ask(pid[0], &status));
        right = status == UCC_ERR_NO_RESOURCE && right;
        close(last);
        right = says(pid[0], lines) && right;
        for (uint32_t i = 0; i < HD_ASKERS - 1; i++) {
            close(idle[i]);
        }
    }
    process_barrier(process);
    world_destroy(world);
    return right ? 0 : 1;
}

Test(told, other_users_and_nonsense_are_refused_and_hinder_nobody) {
    run(1, ask_badly, NULL);
}

static int ask_a_closed_one(const process_t *process, void *arg) {
    world_t *world = world_create(&(world_params_t){.size = process->size, .process = process});
    ucc_status_t status = UCC_ERR_NOT_SUPPORTED;
    (void)arg;
    learn(process);
    if (process->me == LATE) {
        free(ask(pid[0], &status));
    }
    process_barrier(process);
    world_destroy(world);
    return status == UCC_ERR_NOT_SUPPORTED ? 0 : 1;
}

Test(told, a_process_is_not_asked_if_its_configuration_says_so) {
    setenv("HEDDLE_NET_ASK", "n", 1);
    run(1, ask_a_closed_one, NULL);
}
