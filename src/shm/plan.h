/* plan.h: how a call runs, as data: a value that is made once, in request/plan.c (hd_plan_of),
 * which asks the wings: hd_plan_here for what happens among the endpoints of this process (plan.c),
 * or hd_span_plan for what crosses processes as well, and hd_device_plan for what devices do.
 * Families, engine, flights and frames do what it says; the trace, the logs and heddle_info print
 * it. Nothing else compares a size, or a number of members, with a threshold.
 *
 * A plan is made from what all members of a call agree on: its type, sizes and operation, the team,
 * and what the team's endpoints exchanged when it was formed. So all of them have the same `path`,
 * `arrival` and `all_wait` without a word. The other fields are a member's own: `regime` and
 * `lines` follow from its part in the collective (root or not) and, in the v types, from its own
 * counts, which the others find in its lane. So do a v type's `stores`, which only who copies
 * minds.
 */
#ifndef HD_SHM_PLAN_H
#define HD_SHM_PLAN_H

#include "core/coll.h"
#include "core/copy.h"
#include "core/topo.h"

struct hd_group;
struct hd_group_config;
struct hd_ruling;
struct hd_op;
struct hd_place;
struct hd_work_row;

/* How a member's data travels: types.h says what each is. */
typedef enum hd_regime {
    HD_REGIME_NONE = 0, /* no data from this member */
    HD_REGIME_INLINE,
    HD_REGIME_LINES,
    HD_REGIME_STAGED,
    HD_REGIME_DIRECT
} hd_regime_t;

typedef enum hd_path {
    HD_PATH_NOTHING = 0, /* nothing to do, or not decided yet */
    HD_PATH_LANES,  /* each member looks at the lanes it depends on, and takes the data from them */
    HD_PATH_TREE,   /* up a tree of arrival, or, with a bcast's data, down its lines of release */
    HD_PATH_ENGINE, /* every lane is DIRECT: the engine works once all have arrived */
    HD_PATH_MIXED,  /* nobody knows all sizes: each source decides for itself, and its lane tells */
    HD_PATH_FAR,    /* as ENGINE, where not all reach all buffers: through windows (far.c) */
    HD_PATH_PUT,    /* written straight into the peers' symmetric memory */
    HD_PATH_DEVICE, /* as ENGINE, whose units enqueue what devices do */
    HD_PATH_FERRY /* in rounds, by way of memory of the node, which one of its processes sends from
                     * and receives into (span/ferry.c) */
} hd_path_t;

/* How it becomes known that all are there. */
typedef enum hd_arrival {
    HD_ARRIVAL_FLAT = 0, /* each member that must know looks at all lanes */
    HD_ARRIVAL_COUNTER,  /* a tree whose blocks are combined by the last to come */
    HD_ARRIVAL_STATIC,   /* a tree whose blocks are combined by fixed members */
    HD_ARRIVAL_BUTTERFLY /* each member combines all blocks above it, from one of each below */
} hd_arrival_t;

/* Where the members name their buffers to whoever works on them. */
typedef enum hd_naming {
    HD_NAMED_IN_LANES = 0, /* few members, all DIRECT: at each other's lanes they look anyway */
    HD_NAMED_IN_SLICES,    /* few members, whose lanes may carry data */
    HD_NAMED_IN_ARRAYS     /* many: in arrays of the exchange, whose lines have several writers */
} hd_naming_t;

/* How what the endpoints of a process have in common crosses to the other processes. */
typedef enum hd_network {
    HD_NETWORK_NONE = 0, /* nothing does */
    HD_NETWORK_LEGS,     /* collectives among the processes, one for each segment (span/flight.c) */
    HD_NETWORK_SWAP      /* one message from each process to each that needs one (span/swap.c) */
} hd_network_t;

/* Where it is done. */
typedef enum hd_where {
    HD_ON_HOST = 0,
    HD_ON_DEVICES, /* all: the engine's units enqueue it (device/op.c) */
    HD_ON_BOTH,    /* segments' copies and reductions, and the network is the host's (pipeline.c) */
    HD_BY_STAND_INS /* copies to and from memory of the host, which does the rest (device/span.c) */
} hd_where_t;

typedef struct hd_plan {
    uint8_t path;    /* hd_path_t */
    uint8_t arrival; /* hd_arrival_t */
    bool all_wait;   /* every member waits until all have arrived */
    bool express;    /* so small, and among so few, that a post may look for the others at once */
    uint8_t regime;  /* hd_regime_t: of this member's lane */
    uint8_t data;    /* hd_regime_t: of the lanes that carry data; NONE: none do, or each its own */
    uint8_t lines;   /* of each lane that this member waits for; 0: none, or not known to it */
    /* the engine's part, on the paths ENGINE and MIXED: how the work is cut */
    uint8_t naming; /* hd_naming_t */
    uint8_t stores; /* hd_stores_t: of results */
    /* the part of other processes: the same in all processes, but for `path` (a process with one
       endpoint has nothing to gather) and what devices do */
    uint8_t network;  /* hd_network_t */
    uint8_t leg;      /* enum hd_type: which collective the legs are */
    bool apart;       /* operands cross, one of each block of endpoints that live together
                        (hd_span_t); each process then combines all of them */
    bool parallel;    /* what a leg combines becomes units of the engine */
    uint8_t segments; /* the parts of the data that have a leg each */
    uint8_t where;    /* hd_where_t */
    uint32_t slices;  /* shares of the work; 0: the engine has no part */
    size_t window;    /* bytes of a unit: of one member's block, or of each operand */
    size_t segment;   /* bytes of each segment, but for the last */
    const struct hd_work_row *row; /* what the units are; NULL: the engine has no part */
} hd_plan_t;

/* The part of one process that needs no other: of member place->me of place->n, of an active set or
 * of the whole team; the rest of place is not looked at. The group is complete. */
hd_plan_t hd_plan_here(const struct hd_group *group, const hd_call_t *call,
                       const struct hd_place *place);
/* Among members that are apart: is what such a plan does STAGED, but would not be if all reached
 * all buffers? What is done instead; and of one on the path MIXED, may this member's data go out
 * DIRECT, too? */
bool hd_plan_leans(const struct hd_group *group, const hd_call_t *call,
                   const struct hd_place *place, const hd_plan_t *plan);
hd_plan_t hd_plan_direct(const struct hd_group *group, const hd_call_t *call,
                         const struct hd_place *place);
/* How the engine would cut the work of members that are apart, if they reach all buffers. */
void hd_plan_cut_near(const struct hd_op *op, size_t *window, uint32_t *slices);
bool hd_plan_leans_alone(const struct hd_group *group, const hd_call_t *call,
                         const hd_plan_t *plan);
/* Of an operation with an outer stage (outer.h), by its shape: its arrival combines operands, its
 * release brings op->call.bytes, all wait for it. */
hd_plan_t hd_plan_of_outer(const struct hd_op *op, bool reduces, bool brings, bool all_wait);
/* What a release brings travels in its line (INLINE), or is read where it is (STAGED). */
hd_regime_t hd_plan_release(size_t bytes);
/* Of one whose members have so many bytes in their lanes, and whose release says where its payload
 * is. */
hd_plan_t hd_plan_of_outer_giving(const struct hd_op *op, size_t bytes, bool all_wait);
/* Of one whose work a row of the stage's cuts. Its slices are the row's to count, or, if that
 * doesn't, the caller's. */
hd_plan_t hd_plan_of_outer_work(const struct hd_op *op, const struct hd_work_row *row);
/* Of a call of whose members some have their buffers on devices: the row's units enqueue it there.
 */
hd_plan_t hd_plan_of_device(const struct hd_op *op, const struct hd_work_row *row);
/* Of such a type nobody knows the others' sizes: its path is MIXED unless the engine does all of
 * it. */
bool hd_plan_is_mixed(uint8_t type);
/* What a post of a v type decides anew, its plan being one of an earlier post or of init: by its
 * counts on everything, or, on the path MIXED, on this member's part; or, where such a type always
 * takes the engine, on the stores. */
void hd_plan_post_allgatherv(const struct hd_group *group, const hd_call_t *call,
                             const struct hd_place *place, hd_plan_t *plan);
void hd_plan_post_reduce_scatterv(const struct hd_group *group, const hd_call_t *call,
                                  const struct hd_place *place, hd_plan_t *plan);
void hd_plan_post_alltoallv(const struct hd_group *group, const hd_call_t *call,
                            const struct hd_place *place, hd_plan_t *plan);
void hd_plan_post_gatherv(const struct hd_group *group, const hd_call_t *call,
                          const struct hd_place *place, hd_plan_t *plan);
void hd_plan_post_scatterv(const struct hd_group *group, const hd_call_t *call,
                           const struct hd_place *place, hd_plan_t *plan);
/* The same of any type on the path MIXED, not compiled for one. */
void hd_plan_post_mixed(const struct hd_group *group, const hd_call_t *call,
                        const struct hd_place *place, hd_plan_t *plan);
void hd_plan_post_directly(const struct hd_group *group, const hd_call_t *call,
                           const struct hd_place *place, hd_plan_t *plan);
/* family.c: op->start of an operation whose plan (op->plan) is one of hd_plan_here's. Of v types it
 * decides anew what depends on a post's counts. */
ucc_status_t (*hd_plan_start(const struct hd_op *op))(struct hd_op *op);

/* "inline", "staged tree", "direct", ...: what a plan says to people. A constant. */
const char *hd_plan_name(const hd_plan_t *plan);
const char *hd_regime_name(hd_regime_t regime);
const char *hd_stores_name(uint8_t stores);

/* --- thresholds (thresholds.c) --------------------------------------------------------------- */

/* Blocks of so many bytes, each one unit: so many of them are taken by one claim. */
uint32_t hd_plan_batch(size_t block);
/* Results that are copied on while the first-level cache holds them are made in steps of so many
 * bytes: whole elements, and no more than HD_PUSH_WINDOW unless one element is larger. */
enum { HD_PUSH_WINDOW = 8 * 1024 };
size_t hd_plan_push(size_t element);

/* A group's thresholds, as configured; and what changes as soon as it is known where all run. */
void hd_plan_thresholds(struct hd_group *group, const struct hd_group_config *config);
void hd_plan_ruled(struct hd_group *group, const struct hd_ruling *ruling);
/* Bytes that each of n endpoints receives from which results are written past the caches of a
 * machine: what all of them read and write outgrows the caches that they share; those of one core
 * hold it at least. */
size_t hd_plan_streaming_min(const hd_topo_t *topo, uint32_t n);
/* Does a set of n endpoints need no tree, unless the configuration or the machine wants one? */
bool hd_plan_is_flat(const struct hd_group *group, uint32_t n);
/* Before the blocks of scatterv and alltoallv, their offsets. */
static inline size_t hd_plan_table_bytes(uint32_t n) {
    return ((size_t)n + 1) * sizeof(uint32_t);
}

#endif
