/* outer_net.h: an outer stage for tests: a "network" in plain memory between two groups of one
 * process, each of which takes itself for a process of its own.
 *
 * Messages and requests lie in a queue until somebody of either group pumps, who then delivers some
 * of them, in a random order. Small operations send what their group's arrival combined. A large
 * allreduce is cut into segments, of which either side owns every other one. Per segment there are
 * three slices:
 *     LOCAL    the sources of the group are reduced into member 0's destination
 *     REQUESTS two outer requests: the owner receives the other side's partial, and sends the
 *              result; the other sends its partial from its user's destination, and gets the result
 *              written there
 *     SPREAD   ready later: the owner reduces both partials into all destinations, the other copies
 *              the result from member 0's destination to the others'
 */
#ifndef TESTS_OUTER_NET_H_
#define TESTS_OUTER_NET_H_

#include "shm/outer.h"

#include <pthread.h>

enum { NET_SIDES = 2, NET_MOST_REQUESTS = 4096, NET_MOST_SEGMENTS = 64 };

typedef struct net net_t;

/* One side: the stage of one group. */
typedef struct side {
    hd_outer_t stage; /* first: op->outer points to it */
    net_t *net;
    uint32_t me;
    hd_group_t *group;
    hd_work_row_t row;
    _Atomic uint64_t arrived, closed; /* calls so far */
} side_t;

typedef struct net_item net_item_t;

struct net {
    side_t side[NET_SIDES];
    uint32_t n; /* members of each group */
    pthread_mutex_t lock;
    uint64_t random;
    net_item_t *queue; /* messages, and requests that both sides have started */
    net_item_t *posted[NET_SIDES];
    size_t segment;
    /* faults */
    bool mute;             /* nothing is delivered */
    uint32_t fail_request; /* the so many-th request fails; 0: none */
    ucc_status_t fail_requests_with;
    ucc_status_t fail_status;  /* of the releases of small operations */
    bool twice;                /* every completion and release comes twice, the second in vain */
    uint32_t requests;         /* so many have completed */
    _Atomic uint64_t refused;  /* acts that came twice or late, and were */
    _Atomic uint64_t accepted; /* ... and were not: an error */
    hd_exchange_ref_t old[NET_SIDES]; /* of the last exchanges that are over */
};

/* Two groups of n members. arrival: hd_cfg_arrival_t; depth: of their boards. */
net_t *net_create(uint32_t n, int arrival, uint32_t depth, size_t segment, uint64_t seed);
/* Nothing may be under way. */
void net_destroy(net_t *net);
/* Messages and requests that nobody has delivered. */
uint32_t net_waiting(net_t *net);

/* One endpoint, and the operation that it runs. */
typedef struct point {
    hd_op_t op;
    net_t *net;
    uint32_t side, me;
    bool posted, over;
    uint64_t ticks; /* to a time-out; 0: none */
    ucc_status_t status;
} point_t;

void point_init(point_t *p, net_t *net, uint32_t side, uint32_t me);
/* Prepares the next operation: an allreduce of float64, in place if src is NULL. */
void point_allreduce(point_t *p, const double *src, double *dst, size_t count);
void point_barrier(point_t *p);
/* To side 0's member 0, which alone waits. */
void point_reduce(point_t *p, const double *src, double *dst, size_t count);
/* From member 0 of side 0 to all on side 1, by a pointer to the network's memory; `bytes` at most
 * 4096. */
void point_bcast(point_t *p, void *buffer, size_t bytes);
/* Posts it if its board lets it, or goes on with it. True when it is over. */
bool point_step(point_t *p);

#endif
