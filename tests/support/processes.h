/* processes.h: a test in several processes, on this host or on several.
 *
 *     static int work(const process_t *process, void *arg) { ... return 0; }
 *
 *     shape_t shape = {.processes = 2, .endpoints = {3, 1}};
 *     outcome_t outcome = processes_run(&shape, 60, work, NULL);
 *
 * A shape says how many endpoints live in which process, on which host each process is, and how
 * endpoints are numbered over them. The caller forks, so it must have no threads, and must not have
 * used the library. All processes share some memory, through which they exchange what forms teams,
 * meet, and leave results. Nobody spins: two processors must do for everybody.
 *
 * A host is a network namespace, which scripts/netns makes and names in HEDDLE_TEST_HOSTS, and an
 * IPC namespace, so that UCX has shared memory inside it and none to others.
 */
#ifndef TESTS_PROCESSES_H_
#define TESTS_PROCESSES_H_

#include <stdbool.h>
#include <stdint.h>
#include <ucc/api/ucc.h>

enum {
    SHAPE_MOST_PROCESSES = 16,
    PROCESS_BOARDS = 8, /* exchanges that may go on at once */
    PROCESS_VALUES = 16,
    /* what a process may end with that can't do what it should here: nothing is shown then */
    PROCESS_SKIPS = 77
};

typedef enum numbering {
    NUMBERING_CONSECUTIVE, /* all endpoints of process 0, then those of process 1, ... */
    NUMBERING_INTERLEAVED, /* one of each process in turn, while it has some left */
    NUMBERING_RANDOM       /* a permutation, drawn from the seed */
} numbering_t;

typedef struct shape {
    uint32_t processes;
    uint32_t endpoints[SHAPE_MOST_PROCESSES]; /* of each process */
    uint32_t host[SHAPE_MOST_PROCESSES]; /* 0: the caller's; h: the h-th of HEDDLE_TEST_HOSTS */
    numbering_t numbering;
    uint64_t seed;
    /* bits: processes that may be killed: that is no failure, and ends exchanges of the others */
    uint32_t doomed;
} shape_t;

/* What one of the processes knows. */
typedef struct process {
    const shape_t *shape;
    uint32_t me;                /* its number in the shape */
    uint32_t size;              /* endpoints of all processes */
    const uint32_t *process_of; /* by endpoint: number in the shape */
    uint32_t n;                 /* endpoints of mine ... */
    const uint32_t *endpoint;   /* ... ascending */
    struct process_area *area;
} process_t;

typedef struct outcome {
    bool ok;                          /* all ended by themselves, with status 0 */
    int status[SHAPE_MOST_PROCESSES]; /* as of waitpid */
    uint64_t value[SHAPE_MOST_PROCESSES][PROCESS_VALUES]; /* as the processes left them */
} outcome_t;

/* By process, its host; NULL: all are on the caller's. */
static inline const uint32_t *process_hosts(const process_t *process) {
    return process->shape->host[0] != 0 ? process->shape->host : NULL;
}

/* Processes of one machine that are run from now on talk over the network. */
void processes_use_network(void);
/* Else they share memory, as they do unless the environment forbids it. */
bool processes_share_memory(void);

/* Runs work in all processes of the shape; its result is the process's exit status. Whoever has not
 * ended after that many seconds (times HEDDLE_TEST_SLOWDOWN), or 5 seconds after another one has
 * failed, is killed; a line each says what they did. */
outcome_t processes_run(const shape_t *shape, double seconds,
                        int (*work)(const process_t *process, void *arg), void *arg);

/* "2x3", "1,2,4 interleaved", "2x2 on 2 hosts". Static storage of the thread's. */
const char *shape_name(const shape_t *shape);
uint32_t shape_size(const shape_t *shape);
/* n processes with so many endpoints each. */
shape_t shape_even(uint32_t processes, uint32_t endpoints);

/* How many hosts there are; 0: none, and *why says so in a few words. */
uint32_t processes_hosts(const char **why);

/* Moves the calling process, which has one thread, to the h-th host (from 1). Ends it if that
 * fails. */
void process_enter_host(uint32_t host);

/* The calling process makes no files, and so no segments, of more than that many bytes, until its
 * work is done. What it says may go to a file that has more already: that is lost, and no signal
 * ends it. */
void process_limit_files(size_t bytes);
/* The link of the host that the calling process is on goes down, or comes up. */
void process_set_link(bool up);

/* --- in a process --- */

/* The OOB of an endpoint of mine among all endpoints. It is as nasty as tests/support/oob.h:
 * sources are read late, and results come a few tests later than they could. Each endpoint has at
 * most one outstanding call on a board. Aborts when sizes differ. */
ucc_oob_coll_t process_oob(const process_t *process, uint32_t board, uint32_t endpoint);
/* The same among processes; numbers are the shape's. */
ucc_oob_coll_t process_group_oob(const process_t *process, uint32_t board);

/* Waits for all processes, without a call of the library. */
void process_barrier(const process_t *process);
/* What it does now: shown if it does not end. */
__attribute__((format(printf, 2, 3))) void process_note(const process_t *process,
                                                        const char *format, ...);
/* Else says that, and ends this process with 1. */
__attribute__((format(printf, 2, 3))) void process_expect(bool condition, const char *format, ...);
/* A result of this process's. */
void process_set(const process_t *process, uint32_t which, uint64_t value);
void process_add(const process_t *process, uint32_t which, uint64_t value);
/* A result of another's, as it stands. */
uint64_t process_get(const process_t *process, uint32_t of, uint32_t which);
/* How many of the doomed are dead, as far as the launcher has noticed. */
uint32_t process_dead(const process_t *process);
/* Bytes that have gone through this host's network so far, both ways, without those that stay
 * inside the host. */
uint64_t process_wire_bytes(void);

#endif
