/* internal.h: between the files that carry operations of teams of several processes: flight.c (how
 * a flight lives), flight_plan.c (how it is cut), and one file per kind of collective.
 *
 * A FLIGHT is the network side of one exchange, one per process, shared by its endpoints. It lives
 * in the memory of the exchange's slot on the board, so an operation's request may go when its
 * owner wants. There are two kinds:
 *
 *   small   the arrival combines the operands; one leg exchanges what came of it; the release
 *           brings the result. No user's buffer is touched by anybody but its owner.
 *   work    the buffers are named to all, and the release comes at once. The work is cut into
 *           slices of four kinds:
 *             LOCAL    copies and reductions that need nothing from outside
 *             NET      outer requests: one unit, which stands for a leg and lasts as long as that
 *             COMBINE  what a leg has to combine that is worth more than one thread, or is the
 *                      user's operation
 *             SPREAD   copies of what has come from outside
 *           Whole data (bcast, reductions) comes in several segments, each with slices of its own,
 *           in flight together. A two-sided group's work has one more leg, a barrier after all
 *           that.
 *
 * All of a flight but what `arrived` sets belongs to whoever steps its legs, under the lane's lock.
 * Members read what `arrived` set before the release, and what a step wrote before it raised
 * `ready`.
 */
#ifndef HD_SPAN_INTERNAL_H
#define HD_SPAN_INTERNAL_H

#include "span/span.h"

typedef struct hd_flight hd_flight_t;

enum { HD_FLIGHT_SEGMENTS = 16, HD_FLIGHT_PAYLOAD = HD_RESULT_MAX };

/* A leg, and what a segment has beside it. */
typedef struct hd_segment {
    hd_leg_t leg; /* must stay first */
    hd_flight_t *flight;
    uint32_t index, unit; /* unit: of the slice NET that stands for the leg */
    hd_scratch_t
        scratch; /* the leg's, of the crossing's pool; NULL: it has none, or a part of legs_own */
    bool begun;
    /* what COMBINE is asked to do: set before it becomes ready */
    bool asked;
    const void *const *operand;
    uint32_t k;
    uint8_t *dst;
    size_t first, count;
    hd_net_several_t several; /* of a call whose operands cross */
} hd_segment_t;

/* How one collective crosses processes. */
typedef struct hd_passage {
    hd_work_row_t row; /* must stay first: of the plan of a work flight */
    /* By the completer, all having arrived: sets what leg->call lacks. Segments in their order. */
    ucc_status_t (*prepare)(hd_segment_t *segment);
    /* Does this leg need the slice LOCAL of its segment to be finished before it begins? */
    bool (*needs_local)(const hd_flight_t *flight);
    /* That slice is finished: is what it has done there? NULL: it is. */
    bool (*is_filled)(const hd_segment_t *segment);
    /* Bytes of scratch memory that this process needs beside the legs'; NULL: none. */
    size_t (*scratch)(const hd_flight_t *flight);
    /* nobody needs that memory when all legs have ended well: it goes to the next flight */
    bool lends;
} hd_passage_t;

/* How a call is cut, from what all endpoints agree on. */
typedef struct hd_cut {
    bool small;
    uint32_t segments;
    size_t segment; /* bytes of one but the last */
    size_t window;  /* bytes of a unit, whole elements */
    uint8_t leg;    /* enum hd_type: of its legs */
    bool apart;     /* operands cross: one of each block of endpoints that are together (span.h) */
    bool parallel;  /* combinations go to the engine */
} hd_cut_t;

struct hd_flight {
    hd_outer_memory_t memory; /* must stay first: hung on the exchange */
    _Atomic uint64_t key;     /* hd_outer_key of the exchange that it is for now; 0: none */
    _Atomic int32_t closing;  /* that exchange has failed: why */
    /* set by `arrived`, before the release */
    hd_crossing_t *crossing;
    const hd_span_t *span;
    const hd_passage_t *passage;
    hd_exchange_ref_t ref;
    hd_call_t
        call;   /* the completer's; its vectors are its owner's: valid while a unit is claimed */
    uint32_t n; /* members here */
    bool two_sided;
    hd_cut_t cut;
    hd_reducer_t reducer;          /* of the partials of processes, and of the result */
    hd_scratch_t own, legs_own;    /* the passage's, and the legs' */
    struct hd_device_relay *relay; /* of a passage of devices (device/relay.c): the members' */
    _Atomic uint32_t lasting;      /* legs that have not ended well; not the exit's */
    hd_net_piece_t *pieces;
    hd_net_data_t *data; /* give[processes], take[processes] */
    size_t pieces_room, data_room;
    alignas(HD_LINE) uint8_t operand[HD_FLIGHT_PAYLOAD], result[HD_FLIGHT_PAYLOAD];
    hd_segment_t exit;
    hd_segment_t segment[HD_FLIGHT_SEGMENTS];
};

/* The exchange of an operation that takes part: its flight. By members, after the release. */
static inline hd_flight_t *hd_flight_of(const hd_op_t *op) {
    /* acquire: pairs with the installing CAS in flight.c */
    return (hd_flight_t *)(void *)atomic_load_explicit(&op->exchange->flight, memory_order_acquire);
}

/* --- slices ----------------------------------------------------------------------------------- */

typedef enum hd_slice_kind {
    HD_LOCAL,
    HD_NET,
    HD_COMBINE,
    HD_SPREAD,
    HD_SLICE_KINDS
} hd_slice_kind_t;

static inline uint32_t hd_slice_of(const hd_cut_t *cut, hd_slice_kind_t kind, uint32_t segment) {
    return (uint32_t)kind * cut->segments + segment;
}
/* The one of the exit barrier, where there is one. */
static inline uint32_t hd_slice_exit(const hd_cut_t *cut) {
    return (uint32_t)HD_SLICE_KINDS * cut->segments;
}
/* For rows: how many, and what a slice number means; false: the exit's. */
uint32_t hd_flight_slices(const hd_op_t *op);
bool hd_slice_is(const hd_cut_t *cut, uint32_t s, hd_slice_kind_t *kind, uint32_t *segment);

/* Elements [first, first + count) of the whole data, and where they begin: what a segment, or a
 * unit of it, is. */
typedef struct hd_range {
    size_t at, bytes;
} hd_range_t;
hd_range_t hd_cut_segment(const hd_cut_t *cut, size_t bytes, uint32_t segment);
/* Unit u of units: windows of the range. */
static inline uint32_t hd_cut_windows(const hd_cut_t *cut, size_t bytes) {
    size_t units = (bytes + cut->window - 1) / cut->window;
    return units ? (uint32_t)units : 1;
}
static inline hd_range_t hd_cut_window(const hd_cut_t *cut, hd_range_t range, uint32_t unit) {
    size_t skip = (size_t)unit * cut->window;
    size_t left = skip < range.bytes ? range.bytes - skip : 0;
    hd_assert(left > 0 || unit == 0); /* there is no such unit, but for a range of no bytes */
    return (hd_range_t){range.at + skip, left < cut->window ? left : cut->window};
}

/* flight_plan.c: the one place where sizes of what crosses processes are compared with thresholds.
 * op->place and the request's span are set. */
hd_cut_t hd_flight_cut(const hd_op_t *op);
/* How a leg runs that is cut like that; its call has all but scratch. */
hd_net_plan_t hd_flight_leg_plan(const hd_net_team_t *team, const hd_span_t *span,
                                 const hd_call_t *call, const hd_cut_t *cut,
                                 const hd_net_call_t *leg);
/* Among how many processes, and as what, an operation's legs cross. For people. */
void hd_flight_phases(const hd_op_t *op, struct hd_phases *phases);
/* The thresholds, for people. */
void hd_flight_print_cuts(FILE *out);
/* COMBINE's unit u of all units, of so many elements. */
enum { HD_COMBINE_UNITS = 16 };
hd_range_t hd_cut_combine(size_t count, uint32_t unit);

/* --- for the files of collectives ------------------------------------------------------------- */

/* The lists of pieces that a leg gives and takes, one after the other: between `begin` of one rank
 * and the next all pieces added are that rank's. */
typedef struct hd_pieces {
    hd_net_piece_t *piece;
    uint32_t n;
} hd_pieces_t;

/* Room for so many pieces in all, and for lists to and from each process. UCC_ERR_NO_MEMORY. */
ucc_status_t hd_flight_room(hd_flight_t *flight, size_t pieces, hd_pieces_t *out);
static inline hd_net_data_t *hd_flight_give(hd_flight_t *flight) {
    return flight->data;
}
static inline hd_net_data_t *hd_flight_take(hd_flight_t *flight) {
    return flight->data + flight->span->processes;
}
/* A segment of a bcast: given, and taken, from a buffer that has all of it. */
ucc_status_t hd_flight_prepare_bcast(hd_segment_t *segment, uint8_t *whole);
void hd_pieces_begin(const hd_pieces_t *pieces, hd_net_data_t *data);
void hd_pieces_add(hd_pieces_t *pieces, hd_net_data_t *data, const void *at, size_t bytes);

static inline const hd_work_t *hd_flight_work(const hd_flight_t *flight) {
    /* acquire: pairs with the installing of the work */
    return atomic_load_explicit(&flight->ref.exchange->work, memory_order_acquire);
}
/* This process's member i: its number among the collective's endpoints. */
static inline uint32_t hd_flight_endpoint(const hd_flight_t *flight, uint32_t i) {
    return hd_span_endpoint(flight->span, flight->span->mine, i);
}
static inline bool hd_flight_has_root(const hd_flight_t *flight) {
    return flight->span->process_of[flight->call.root] == flight->span->mine;
}
static inline uint32_t hd_flight_root(const hd_flight_t *flight) {
    return flight->span->local_of[flight->call.root];
}
/* flight_apart.c: calls whose operands cross (cut.apart). Bytes that their lists take, a multiple
 * of a line. */
size_t hd_apart_bytes(const hd_span_t *span);
/* Fills the lists in, which lie at the beginning of the flight's memory: no addresses of operands
 * yet. */
hd_net_several_t hd_apart_list(const hd_flight_t *flight);
/* Where the address of this process's operand i belongs. */
const void **hd_apart_mine(const hd_flight_t *flight, uint32_t i);
/* This process's members whose operands make its operand i: from the first on, so many. */
uint32_t hd_apart_members(const hd_flight_t *flight, uint32_t i, uint32_t *first);

/* A unit of COMBINE: reduces the part of the operands into segment->dst. */
ucc_status_t hd_flight_combine(const hd_flight_t *flight, uint32_t segment, uint32_t unit);

extern const hd_passage_t hd_passage_bcast, hd_passage_reduce, hd_passage_allreduce,
    hd_passage_allgather, hd_passage_gather, hd_passage_scatter, hd_passage_alltoall,
    hd_passage_reduce_scatter, hd_passage_scan;

#endif
