/* internal.h: what the files of span/ share: the structures of a flight, and the functions by which
 * flight.c and the files of single collectives work together. Outside this folder,
 * device/pipeline.c adds passages for memory of devices, and api/ prints by hd_flight_print_cuts.
 *
 * The files, bottom up; each calls only files before it in this list:
 *
 *   span.c             which endpoints live in which process
 *   pool.c             large memory that goes from leg to leg
 *   drain.c            references to groups that are given up later
 *   crossing.c         greeting, active sets, and failing of a team of several processes
 *   flight_plan.c      how a flight is cut
 *   flight_parts.c     numbers of slices, lists of pieces, a unit of COMBINE
 *   flight_apart.c     reductions whose operands cross one by one
 *   flight_blocks.c, flight_operands.c, flight_whole.c    the passages: one group of collectives in
 *                                                         each file
 *   flight.c           how a flight lives: the stage that shm calls, and the steps of its legs
 *   swap_parts.c       what is in the messages of a swap
 *   swap.c             how a swap lives
 *   plan.c             by which of the two a call crosses processes
 *   create.c           makes a crossing, and ends it
 *
 * A FLIGHT is the network side of one exchange. There is one per process, shared by its endpoints.
 * It lives in the memory of the exchange's slot on the board, so an operation's request may go when
 * its owner wants. There are two kinds:
 *
 *   small   the arrival combines the operands; one leg exchanges the result among the processes;
 *           the release brings what came of it. Nobody but its owner touches a user's buffer.
 *   work    all members name their buffers, and the release comes at once. The engine does the
 *           work, which is cut into slices of four kinds:
 *             LOCAL    copies and reductions that need nothing from outside
 *             NET      outer requests: one unit, which stands for a leg and lasts as long as the
 *                      leg
 *             COMBINE  combinations that a leg needs, and that are worth more than one thread or
 *                      call the user's operation
 *             SPREAD   copies of what has come from outside
 *           Whole data (bcast, reductions) comes in several segments, each with slices of its own,
 *           in flight together. A two-sided group's work has one more leg, the EXIT: a barrier
 *           after all that.
 *
 * The completer of the arrival fills a flight in (`arrived`) before the release. After that, the
 * flight belongs to whoever steps its legs, under the lane's lock. Members read what `arrived` has
 * set, and what a step has written before it raised a slice's `ready`.
 */
#ifndef HD_SPAN_INTERNAL_H
#define HD_SPAN_INTERNAL_H

#include "span/span.h"

typedef struct hd_flight hd_flight_t;

enum { HD_FLIGHT_SEGMENTS = 16, HD_FLIGHT_PAYLOAD = HD_RESULT_MAX };

/* A part of a flight's data with the leg that carries it. The exit is one without data. */
typedef struct hd_segment {
    hd_leg_t leg; /* must stay first */
    hd_flight_t *flight;
    /* index: which segment it is; unit: the unit that stands for the leg, of the segment's slice
     * NET or of the exit's slice */
    uint32_t index, unit;
    /* the leg's scratch if it is large, from the crossing's pool; else empty, and the leg uses a
     * part of the flight's legs_own */
    hd_scratch_t scratch;
    bool begun;
    /* What the leg has asked the slice COMBINE to do: combine k operands into dst, which is to hold
     * elements [first, first + count) of the result. Written before the slice becomes ready. */
    bool asked;
    const void *const *operand;
    uint32_t k;
    uint8_t *dst;
    size_t count;
    hd_net_several_t several; /* lists for the leg, if operands cross one by one */
} hd_segment_t;

_Static_assert(offsetof(hd_segment_t, leg) == 0, "the network knows a segment as its leg");

/* A passage: how one collective crosses processes. The functions are called by flight.c. */
typedef struct hd_passage {
    hd_work_row_t row; /* must stay first: the plan of a work flight points to it */
    /* Sets what leg->call still lacks. The completer calls it when all have arrived, for each
     * segment in their order. An error (logged) fails the team. */
    ucc_status_t (*prepare)(hd_segment_t *segment);
    /* Must the slice LOCAL of a segment be finished before its leg begins? */
    bool (*needs_local)(const hd_flight_t *flight);
    /* Asked when that slice is finished: has what it does been done? A device may still be at work.
     * NULL: always. */
    bool (*is_filled)(const hd_segment_t *segment);
    /* How many bytes of memory this process needs beside the legs' scratch. NULL: none. */
    size_t (*scratch)(const hd_flight_t *flight);
    /* nobody needs that memory any more when all legs have ended well: large memory then goes to
     * the next flight */
    bool lends;
} hd_passage_t;

_Static_assert(offsetof(hd_passage_t, row) == 0, "shm knows a passage as its row");

struct hd_flight {
    hd_outer_memory_t memory; /* must stay first: what the exchange's slot keeps */
    /* hd_outer_key of the exchange that the flight was last announced for; 0: none */
    _Atomic uint64_t key;
    _Atomic int32_t closing; /* why that exchange has failed; 0: it has not */
    /* All that follows is set by `arrived`, before the release. The steps of legs change only
     * `lasting`, the result and the segments, and the last of them may give `own` away. */
    hd_crossing_t *crossing;
    const hd_span_t *span;
    const hd_passage_t *passage;
    hd_exchange_ref_t ref;
    /* the completer's call; its lists of counts are their user's, valid while a unit is claimed */
    hd_call_t call;
    uint32_t n; /* members in this process */
    bool two_sided;
    hd_plan_t plan; /* the completer's; the others' say the same of what crosses */
    /* combines the processes' partial results, and makes the result of them */
    hd_reducer_t reducer;
    hd_scratch_t own, legs_own; /* memory of the passage; small scratch of all legs */
    /* of a passage of devices: pinned memory of all members (device/pipeline.c) */
    struct hd_device_relay *relay;
    _Atomic uint32_t lasting; /* segments whose legs have not ended well yet */
    hd_net_piece_t *pieces;
    hd_net_data_t *data; /* give[processes], take[processes]; of a bcast one list per segment */
    size_t pieces_room, data_room;
    alignas(HD_LINE) uint8_t operand[HD_FLIGHT_PAYLOAD], result[HD_FLIGHT_PAYLOAD];
    hd_segment_t exit;
    hd_segment_t segment[HD_FLIGHT_SEGMENTS];
};

/* Returns the flight of the operation's exchange. Members call it after the release; NULL before a
 * flight was first needed in this slot. */
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

static inline uint32_t hd_slice_of(const hd_plan_t *plan, hd_slice_kind_t kind, uint32_t segment) {
    return (uint32_t)kind * plan->segments + segment;
}
/* Returns the number of the exit's slice, which only two-sided groups have. */
static inline uint32_t hd_slice_exit(const hd_plan_t *plan) {
    return (uint32_t)HD_SLICE_KINDS * plan->segments;
}
/* For rows: hd_flight_slices returns how many slices an operation of this plan has. hd_slice_is
 * says which kind and segment slice s is; it returns false for the exit's slice. */
uint32_t hd_flight_slices(const hd_op_t *op, const hd_plan_t *plan);
bool hd_slice_is(const hd_plan_t *plan, uint32_t s, hd_slice_kind_t *kind, uint32_t *segment);

/* A part of the whole data: where it begins, and how much it is. In bytes, but for hd_cut_combine,
 * which counts in elements. */
typedef struct hd_range {
    size_t at, bytes;
} hd_range_t;
hd_range_t hd_cut_segment(const hd_plan_t *plan, size_t bytes, uint32_t segment);
/* hd_cut_windows returns how many windows so many bytes have, at least one. hd_cut_window returns
 * one of them as a part of the whole data. */
static inline uint32_t hd_cut_windows(const hd_plan_t *plan, size_t bytes) {
    size_t units = (bytes + plan->window - 1) / plan->window;
    return units ? (uint32_t)units : 1;
}
static inline hd_range_t hd_cut_window(const hd_plan_t *plan, hd_range_t range, uint32_t unit) {
    size_t skip = (size_t)unit * plan->window;
    size_t left = skip < range.bytes ? range.bytes - skip : 0;
    hd_assert(left > 0 || unit == 0); /* only a range of no bytes has an empty unit */
    return (hd_range_t){range.at + skip, left < plan->window ? left : plan->window};
}

/* flight_plan.c: the one place where sizes of what crosses processes are compared with thresholds.
 * hd_flight_plan returns the plan of an operation that goes by a flight, in this process;
 * op->place and op->span are set. row: of its work, if it has some; else ignored. */
hd_plan_t hd_flight_plan(const hd_op_t *op, const hd_work_row_t *row);
/* Returns the shape (shm/outer.h) of an operation whose arrival combines all that crosses. */
uint32_t hd_flight_small_shape(const hd_op_t *op);
/* Returns how a leg of that plan runs. leg: its call, complete but for the scratch. */
hd_net_plan_t hd_flight_leg_plan(const hd_net_team_t *team, const hd_span_t *span,
                                 const hd_call_t *call, const hd_plan_t *plan,
                                 const hd_net_call_t *leg);
/* For people: adds how an operation's legs run, and among how many processes. The stage's
 * `phases`. */
void hd_flight_phases(const hd_op_t *op, const hd_plan_t *plan, struct hd_phases *phases);
/* flight.c: returns the row of a collective's work; NULL: it never has any. */
const hd_work_row_t *hd_flight_row(uint8_t type);
/* Makes the reducer one of partial results, which are not divided where the operation is an
 * average. */
void hd_flight_make_partial(hd_reducer_t *reducer);
/* Sets op->outer and op->start of an operation whose plan is one of hd_flight_plan's. */
void hd_flight_follow(hd_op_t *op);
/* op->start of one whose arrival combines all that crosses. */
ucc_status_t hd_flight_start_small(hd_op_t *op);
extern const hd_outer_t hd_flight_stage;
/* swap.c: is this call a swap, if it has a number of the main board? All processes get the same
 * answer. */
bool hd_swap_is(const hd_op_t *op);
/* Makes its plan out of that by which it would go by a flight. */
void hd_swap_plan(const hd_op_t *op, hd_plan_t *plan);
/* Sets op->outer and op->start as its plan says. False: no memory (logged); its start fails. */
bool hd_swap_follow(hd_op_t *op);
/* The stage's pump (hd_outer_t.pump), also of swaps in a process of one endpoint. */
uint8_t hd_flight_pump(hd_op_t *op);
/* For people: prints the thresholds (heddle_info --plans). */
void hd_flight_print_cuts(FILE *out);
/* Returns which of `count` elements unit `unit` of COMBINE combines, in elements. */
enum { HD_COMBINE_UNITS = 16 };
hd_range_t hd_cut_combine(size_t count, uint32_t unit);

/* --- for the files of collectives ------------------------------------------------------------- */

/* Writes the lists of pieces that a leg gives and takes, one behind the other. The pieces added
 * after a `begin` belong to the list that was begun. */
typedef struct hd_pieces {
    hd_net_piece_t *piece;
    uint32_t n;
} hd_pieces_t;

/* Makes room for so many pieces in all, and for two lists per process or one per segment; empties
 * the lists. UCC_ERR_NO_MEMORY (logged). */
ucc_status_t hd_flight_room(hd_flight_t *flight, size_t pieces, hd_pieces_t *out);
static inline hd_net_data_t *hd_flight_give(hd_flight_t *flight) {
    return flight->data;
}
static inline hd_net_data_t *hd_flight_take(hd_flight_t *flight) {
    return flight->data + flight->span->processes;
}
/* Prepares a segment of a bcast, which is given or taken from a buffer that has the whole data. */
ucc_status_t hd_flight_prepare_bcast(hd_segment_t *segment, uint8_t *whole);
void hd_pieces_begin(const hd_pieces_t *pieces, hd_net_data_t *data);
void hd_pieces_add(hd_pieces_t *pieces, hd_net_data_t *data, const void *at, size_t bytes);

static inline const hd_work_t *hd_flight_work(const hd_flight_t *flight) {
    /* acquire: pairs with the installing of the work */
    return atomic_load_explicit(&flight->ref.exchange->work, memory_order_acquire);
}
/* Returns the number of this process's member i among the collective's endpoints. */
static inline uint32_t hd_flight_endpoint(const hd_flight_t *flight, uint32_t i) {
    return hd_span_endpoint(flight->span, flight->span->mine, i);
}
static inline bool hd_flight_has_root(const hd_flight_t *flight) {
    return flight->span->process_of[flight->call.root] == flight->span->mine;
}
static inline uint32_t hd_flight_root(const hd_flight_t *flight) {
    return flight->span->local_of[flight->call.root];
}
/* flight_apart.c: calls whose operands cross (cut.apart). Returns how many bytes their lists take
 * at the beginning of the flight's `own` memory: a multiple of a line. */
size_t hd_apart_bytes(const hd_span_t *span);
/* Fills the lists in and returns them for a leg, but for the addresses of operands, which the
 * caller enters by hd_apart_mine. */
hd_net_several_t hd_apart_list(const hd_flight_t *flight);
/* Returns where the address of this process's operand i belongs. */
const void **hd_apart_mine(const hd_flight_t *flight, uint32_t i);
/* Returns how many members, from *first on, have operands that make up this process's operand i. */
uint32_t hd_apart_members(const hd_flight_t *flight, uint32_t i, uint32_t *first);

/* Carries out a unit of COMBINE: reduces its part of the operands into segment->dst. Called by
 * rows; does nothing if the leg has asked for nothing. */
ucc_status_t hd_flight_combine(const hd_flight_t *flight, uint32_t segment, uint32_t unit);

extern const hd_passage_t hd_passage_bcast, hd_passage_reduce, hd_passage_allreduce,
    hd_passage_allgather, hd_passage_gather, hd_passage_scatter, hd_passage_alltoall,
    hd_passage_reduce_scatter, hd_passage_scan;

#endif
