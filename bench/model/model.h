/* model.h: the critical paths of small collectives, counted and timed instead of measured.
 *
 * A group is formed with every endpoint said to be held where hd_topo_place puts it. The trees,
 * who combines and who hands on are then those of the library; the model only follows them:
 *
 *   a TRANSFER  is one endpoint's read of a line that another wrote last
 *   a PATH      is a chain of transfers, each of which waits for the one before. Reads that one
 *               endpoint issues together overlap: the chain that is complete last counts
 *   up, down    are the transfers across packages on the way to the origin of a release, and from
 *               there; where everybody reads others, those to lower and to higher numbers
 *   readers     is how many read the most wanted line
 *
 * TIME. Each transfer of a path takes, in nanoseconds (time.c has the numbers, which are round
 * ones: machines differ, and what counts is which of two ways takes longer),
 *
 *   its writer's taking the line from those who read it last: as long as the farthest is away
 *   its read: as long as the writer is away
 *   for each further line that the reader reads at once, a part of that; or for each further reader
 *   of the line another part, whichever takes longer
 *
 * The form is that of S. Ramos and T. Hoefler, "Modeling communication in cache-coherent SMP
 * systems" (HPDC 2013).
 *
 * Not counted: reads of the lines of an earlier exchange while waiting, watching for mismatches,
 * and the scan by which a run of bcasts learns how far everybody is.
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
    double ns;
} path_t;

typedef enum collective { BARRIER, BCAST, ALLREDUCE, N_COLLECTIVES } collective_t;

typedef struct cost {
    path_t path;        /* of a bcast: the longest of all roots' */
    uint32_t transfers; /* in all; of a bcast: the most of all roots' */
    uint32_t up, down;
    uint32_t readers;
    bool sound; /* all are released, and every line that is read is written */
} cost_t;

/* A way to run a collective: by which trees. */
typedef struct way {
    char name[48];
    /* Up to one member, and down again; up alone: a butterfly; down alone: from a root; neither:
     * everybody reads everybody, or the root. */
    const hd_tree_t *up, *down;
} way_t;

/* --- time.c ----------------------------------------------------------------------------------- */

distance_t distance(const hd_group_t *group, uint32_t a, uint32_t b);
/* A line, as its readers want it. */
typedef struct line {
    distance_t farthest;
    uint32_t readers;
    double served_ns; /* until it has gone to all of them */
} line_t;

void add_reader(line_t *line, distance_t d);
/* Of that line to one of its readers, which reads `more` other lines with it. */
double transfer_ns(const line_t *line, distance_t d, uint32_t more);

/* --- cost.c ----------------------------------------------------------------------------------- */

uint32_t path_length(const path_t *path);
/* Distinct packages that the group's endpoints lie in. */
uint32_t packages_used(const hd_group_t *group);
/* The group is complete; everybody's place in it is known. */
cost_t cost_of_way(const hd_group_t *group, collective_t collective, const way_t *way);
/* The library's. */
way_t chosen_way(const hd_group_t *group, collective_t collective);

/* --- ways.c ----------------------------------------------------------------------------------- */

/* The way of all that are known for which the model predicts the least time. */
cost_t best_cost(const hd_group_t *group, collective_t collective, way_t *way);

#endif
