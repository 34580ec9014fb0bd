/* nodes.h: several processes on the net, each a fork of the test before it has used UCX.
 *
 * Usage:
 *     static void body(node_t *node, void *arg) { ... hd_leg_start ..., node_pump ... }
 *     cr_assert_eq(nodes_run(4, settings, body, NULL), 0);
 *
 * Each process opens the net, meets the others through shared memory and makes a team of all with
 * them. A check that fails in a process (node_check) says so, and ends it; so does a wait that
 * lasts too long.
 */
#ifndef TESTS_NODES_H_
#define TESTS_NODES_H_

#include "net/net.h"

enum { NODES_MOST = 16 };

typedef struct node_shared node_shared_t;

typedef struct node {
    uint32_t n, me;
    node_shared_t *shared;
    hd_config_t *config;
    hd_net_t *net;
    hd_net_team_t *team;
    hd_net_process_t process[NODES_MOST];
    _Atomic int failed; /* what the team's owner was told; 0: nothing */
    uint32_t idle;
    double end; /* of the wait that is under way */
} node_t;

/* settings: name, value, ..., NULL. Returns how many processes failed. */
uint32_t nodes_run(uint32_t n, const char *const *settings, void (*body)(node_t *, void *),
                   void *arg);

/* One turn of a wait: pumps, and gives the processor away now and then. what: named when it lasts
 * too long. */
void node_pump(node_t *node, const char *what);
/* A wait begins. */
void node_begin(node_t *node);
/* All processes are here: through shared memory, while pumping. */
void node_meet(node_t *node);
/* A word that all processes see; i below 16. */
_Atomic uint64_t *node_word(node_t *node, uint32_t i);
/* Another team of all. */
hd_net_team_t *node_make_team(node_t *node, uint64_t wire);

#define node_check(_node, _condition, ...)                                                         \
    ((_condition) ? (void)0 : node_fail((_node), #_condition, __FILE__, __LINE__, __VA_ARGS__))
_Noreturn void node_fail(const node_t *node, const char *condition, const char *file, int line,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));

/* A leg that just runs. */
typedef struct run {
    hd_leg_t leg;
    node_t *node;
    hd_reducer_t reducer;
    uint32_t delays; /* combinations that are to say "not yet" before each one that works */
    uint32_t delayed;
    ucc_status_t cancel; /* not UCC_OK: cancel it */
    ucc_status_t status;
    _Atomic bool over;
} run_t;

/* Its leg's team, step and combine are set, everything else is the caller's. */
void run_init(run_t *run, node_t *node, uint8_t type);
/* Chooses the scratch. algorithm: 0: as plan.c says. */
void run_plan(run_t *run, uint8_t algorithm, uint32_t radix, size_t bytes);
ucc_status_t run_wait(run_t *run, const char *what);

#endif
