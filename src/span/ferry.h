/* ferry.h: FERRYS: how the operations of a team cross nodes of which some have several processes
 * (hd_nodes_t). The operation is an ordinary one on its node's board, whose members arrive there;
 * then its data goes in ROUNDS, by way of an AREA of memory that all processes of the node have:
 *
 *     fill     each member copies what it gives in this round into its slot of the area
 *     combine  of a reduction: each makes its share of the node's partial result
 *     carry    when all have, one process of the node, the round's CARRIER, has a leg send from the
 *              area and receive into it: any member of it that is in the operation starts the leg,
 *              any thread of it drives it on
 *     take     each copies its own out of the area
 *
 * There are HD_FERRY_DEPTH rounds under way at a time. Round r is carried by process (number + r)
 * modulo the fewest processes of a node, on every node. A member stays until it has taken its last
 * round: so each process of the node has somebody in the operation who starts its legs.
 *
 * Nobody but its owner ever touches a user's buffer, and legs touch the area and memory of their
 * own. So whoever cancels waits for nobody, alive or dead; a leg of a failed team ends later, and
 * keeps the group until then.
 *
 * What each counts, it writes itself, and all look at it:
 *     filled(i), combined(i), taken(i)   of member i: so many rounds
 *     done[d]                            1 + the last round of slot d that has been carried: by
 * that                                        round's leg
 * Member i fills round r when all have taken round r - DEPTH. Combining and carrying r need
 * filled > r of all (combined > r, of a reduction); taking it, done[r % DEPTH] = r + 1. So nobody
 * writes into a slot that others still read, and the leg of round r starts when that of r - DEPTH
 * is over. By induction on the lowest round that not all have taken, something can always be done.
 *
 * Which bytes these are, ferry_rounds.c knows; areas and legs, and how an operation lives, ferry.c.
 */
#ifndef HD_SPAN_FERRY_H
#define HD_SPAN_FERRY_H

#include "span/internal.h"

enum { HD_FERRY_DEPTH = 2, HD_FERRY_SLOT = 64 * 1024, HD_FERRY_BLOCKS = 1024 * 1024 };

/* Shared. A line of its own. Each number is written by the member alone. */
typedef struct hd_ferry_member {
    alignas(HD_LINE) _Atomic uint32_t filled, combined, taken;
    uint64_t most; /* bytes of its largest block; of v types whose sizes not all know */
} hd_ferry_member_t;

/* Shared. All of it is put to its beginning by whoever takes the area. */
typedef struct hd_ferry_area {
    alignas(HD_LINE_PAIR) _Atomic uint32_t left; /* members that have not left it */
    uint64_t use;                                /* how-manieth use of the area this is */
    alignas(HD_LINE) _Atomic uint32_t done[HD_FERRY_DEPTH];
    uint64_t most; /* of all nodes: what the round of sizes brings */
    hd_ferry_member_t member[];
} hd_ferry_area_t;

/* Where the parts of an area lie, from its beginning; those of slot d are d * `stride` further. The
 * same in all processes of a node. */
typedef struct hd_ferry_layout {
    size_t slot, slots, tables, partial, result, stride, bytes; /* slot: bytes of one */
} hd_ferry_layout_t;

typedef enum hd_ferry_kind {
    HD_FERRY_NOTHING,  /* no data: all wait for all */
    HD_FERRY_WHOLE,    /* bcast */
    HD_FERRY_REDUCED,  /* node by node */
    HD_FERRY_OPERANDS, /* all operands to all, who combine them: prefixes, users' operations */
    HD_FERRY_BLOCKED,  /* one block of each: (all)gather(v) */
    HD_FERRY_PAIRS     /* one of each for each: scatter(v), alltoall(v) */
} hd_ferry_kind_t;

typedef enum hd_ferry_round { HD_FERRY_SIZES, HD_FERRY_DATA, HD_FERRY_EXIT } hd_ferry_round_t;

/* An operation in its area, as one of its members sees it in one step. */
typedef struct hd_ferry_view {
    const hd_op_t *op;
    const hd_crossing_t *crossing;
    const hd_span_t *span; /* by nodes */
    hd_ferry_area_t *area;
    hd_ferry_layout_t at;
    hd_ferry_kind_t kind;
    bool sizes;      /* the first round tells how large blocks are */
    uint32_t n, me;  /* members here */
    size_t chunk;    /* bytes of a round: of the whole, or of each block */
    size_t bytes;    /* all of these; not known before the round of sizes */
    uint32_t rounds; /* as far as that is known */
    hd_work_t work;  /* the member's own buffers, as entry 0; see hd_ferry_look */
    const void *src[1];
    void *dst[1];
    const hd_call_t *call[1];
} hd_ferry_view_t;

/* What a leg carries. */
typedef struct hd_ferry_lists {
    uint32_t n;                   /* nodes */
    hd_net_data_t *give, *take;   /* by node */
    hd_net_piece_t *piece, *next; /* room for all; the first that is not used */
    uint64_t most;                /* the operand of a round of sizes */
} hd_ferry_lists_t;

/* --- ferry_rounds.c --------------------------------------------------------------------------- */

hd_ferry_layout_t hd_ferry_lay_out(const hd_group_t *group);
hd_ferry_kind_t hd_ferry_kind(const hd_call_t *call);
/* Sets what does not change while the operation is in its area; and `rounds`, which is looked at
 * again when the round of sizes is over. */
void hd_ferry_look(hd_ferry_view_t *v, const hd_op_t *op, hd_ferry_area_t *area);
void hd_ferry_count(hd_ferry_view_t *v);
hd_ferry_round_t hd_ferry_round(const hd_ferry_view_t *v, uint32_t round);
/* How an operation is cut: bytes of a round, and of all; 0: not known. */
size_t hd_ferry_chunk(const hd_op_t *op);
size_t hd_ferry_bytes(const hd_op_t *op);

void hd_ferry_fill(const hd_ferry_view_t *v, uint32_t round);
ucc_status_t hd_ferry_combine(const hd_ferry_view_t *v, uint32_t round);
/* Must this member wait with taking, since others before it call the user's operation? */
bool hd_ferry_takes_turns(const hd_ferry_view_t *v);
ucc_status_t hd_ferry_take(const hd_ferry_view_t *v, uint32_t round);
/* How many pieces the lists of a leg have at most. */
size_t hd_ferry_pieces(const hd_ferry_view_t *v);
/* Sets the call of the round's leg, but for its processes and scratch; returns the size by which
 * the network plans it. */
size_t hd_ferry_set_call(const hd_ferry_view_t *v, uint32_t round, hd_ferry_lists_t *lists,
                         hd_net_call_t *call);

#endif
