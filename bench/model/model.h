/* model.h: the critical paths of small collectives, counted instead of measured.
 *
 * A group is formed with every endpoint said to be held where hd_topo_place puts it. The trees,
 * who combines and who hands on are then those of the library; the model only follows them:
 *
 *   a TRANSFER  is one endpoint's read of a line that another wrote last
 *   a PATH      is a chain of transfers, each of which waits for the one before. Reads that one
 *               endpoint issues together overlap: the chain that is complete last counts
 *   up, down    are the transfers across packages on the way to the origin of a release, and from
 *               there; where everybody reads everybody, those to lower and to higher numbers
 *   readers     is how many read the most wanted line
 *
 * Not counted: what a write costs (its line is taken away from those who read it last), reads of
 * the lines of an earlier exchange while waiting, watching for mismatches, and the scan by which a
 * run of bcasts learns how far everybody is.
 */
#ifndef HD_BENCH_MODEL_H
#define HD_BENCH_MODEL_H

#include "shm/internal.h"

typedef enum distance {
    SAME_CACHE, /* one L3, or one core */
    SAME_NODE,
    SAME_PACKAGE,
    ACROSS,
    N_DISTANCES
} distance_t;

typedef struct path {
    uint32_t hops[N_DISTANCES];
} path_t;

typedef enum collective { BARRIER, BCAST, ALLREDUCE, N_COLLECTIVES } collective_t;

typedef struct cost {
    path_t path;        /* of a bcast: the longest of all roots' */
    uint32_t transfers; /* in all; of a bcast: the most of all roots' */
    uint32_t up, down;
    uint32_t readers;
    bool sound; /* all are released, and every line that is read is written */
} cost_t;

/* How much later a transfer over that distance is complete than one in the same cache: decides
 * which of two chains is the longer one. */
extern uint32_t distance_weight[N_DISTANCES];

uint32_t path_length(const path_t *path);
/* Distinct packages that the group's endpoints lie in. */
uint32_t packages_used(const hd_group_t *group);
/* The group is complete; everybody's place in it is known. */
cost_t cost_of(const hd_group_t *group, collective_t collective);

#endif
