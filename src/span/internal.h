/* internal.h: what the files of span/ share. Outside this folder, device/pipeline.c adds passages
 * for memory of devices, and api/ prints by hd_flight_print_cuts.
 *
 * The files, bottom up; each calls only files before it in this list:
 *
 *   span.c             which endpoints live in which process
 *   crossing.c         a crossing's life: making, greeting, active sets, failing, end
 *   flight_plan.c      how a flight is cut
 *   flight_parts.c     what passages share: their row, pieces, operands
 *   flight_blocks.c, flight_operands.c, flight_whole.c    the passages: one group of collectives in
 *                                                         each file
 *   flight.c           how a flight lives: the stage that shm calls, and the steps of its legs
 *   ferry_rounds.c, ferry.c    teams of several nodes, of which some have several processes
 *   swap_parts.c       what is in the messages of a swap
 *   swap.c             how a swap lives, and by which of the two a call crosses processes
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
 *             COMBINE  combinations that a leg needs, and that are worth more than one thread or
 *                      call the user's operation
 *             SPREAD   copies of what has come from outside
 *             NET      outer requests: one unit, which stands for a leg and lasts as long as the
 *                      leg
 *           Whole data (bcast, reductions) comes in several segments, each with slices of its own,
 *           in flight together. A two-sided group's work has one more leg, the EXIT: a barrier
 *           after all that, which is one more segment without data.
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

/* A part of a flight's data with the leg that carries it. */
typedef struct hd_segment {
    hd_leg_t leg; /* must stay first */
    hd_flight_t *flight;
    uint32_t index;       /* which segment it is */
    hd_scratch_t scratch; /* the leg's; only small memory stays when the leg has ended well */
    bool begun;
    /* What the leg has asked the slice COMBINE to do: combine k operands of `count` elements into
     * dst. Written before the slice becomes ready. */
    bool asked;
    const void *const *operand;
    uint32_t k;
    uint8_t *dst;
    size_t count;
    hd_net_several_t several; /* lists for the leg, if operands cross one by one */
} hd_segment_t;

_Static_assert(offsetof(hd_segment_t, leg) == 0, "the network knows a segment as its leg");

/* --- slices ----------------------------------------------------------------------------------- */

/* The slices of a kind lie one behind the other; the exit's is the one behind the last NET. */
typedef enum hd_slice_kind { HD_LOCAL, HD_COMBINE, HD_SPREAD, HD_NET } hd_slice_kind_t;

static inline uint32_t hd_slice_of(const hd_plan_t *plan, hd_slice_kind_t kind, uint32_t segment) {
    return (uint32_t)kind * plan->segments + segment;
}

/* How many units a slice has. */
typedef enum hd_unit_kind {
    HD_UNIT = 0,       /* one */
    HD_UNIT_MEMBERS,   /* one for each member of this process */
    HD_UNIT_ENDPOINTS, /* one for each endpoint */
    HD_UNIT_WINDOWS,   /* one for each window of the segment */
    HD_UNIT_PARTS      /* HD_COMBINE_UNITS */
} hd_unit_kind_t;

/* A passage: how one collective crosses processes. */
typedef struct hd_passage {
    hd_work_row_t row; /* HD_PASSAGE_ROW; must stay first: the plan of a work flight points to it */
    /* by kind of slices, but for NET: how many units a slice has, and what one of them does; NULL:
     * nothing */
    struct {
        uint8_t units; /* hd_unit_kind_t */
        ucc_status_t (*run)(const hd_flight_t *flight, const hd_op_t *op, uint32_t segment,
                            uint32_t unit);
    } slice[HD_NET];
    /* Sets what leg->call still lacks. The completer calls it when all have arrived, for each
     * segment in their order. An error (logged) fails the team. */
    ucc_status_t (*prepare)(hd_segment_t *segment);
    /* Is all there that the segment's leg reads, by what LOCAL does? NULL: LOCAL does nothing for
     * it. */
    bool (*is_filled)(const hd_segment_t *segment);
    /* How many entries the flight's table has, and how many bytes of memory each stands for. NULL:
     * one; none. */
    uint32_t (*entries)(const hd_flight_t *flight);
    size_t (*entry)(const hd_flight_t *flight, uint32_t i);
    /* nobody needs that memory any more when all legs have ended well: large memory then goes to
     * the next flight */
    bool lends;
} hd_passage_t;

_Static_assert(offsetof(hd_passage_t, row) == 0, "shm knows a passage as its row");

/* flight_parts.c: the row of all passages. How the work is cut, flight_plan.c decides. */
void hd_flight_lay_out(const hd_op_t *op, uint32_t s, hd_slice_t *slice);
ucc_status_t hd_flight_run(const hd_op_t *op, const hd_work_t *work, uint32_t s, uint32_t unit);
#define HD_PASSAGE_ROW                                                                             \
    { .layout = hd_flight_lay_out, .run = hd_flight_run, .streams_more = 1 }

struct hd_flight {
    hd_outer_memory_t memory; /* must stay first: what the exchange's slot keeps */
    /* hd_outer_key of the exchange that the flight was last announced for; 0: none */
    _Atomic uint64_t key;
    _Atomic int32_t closing; /* why that exchange has failed; 0: it has not */
    /* All that follows is set by `arrived`, before the release. The steps of legs change only
     * `lasting`, the result and the segments, and may give `own` away. */
    hd_crossing_t *crossing;
    const hd_span_t *span;
    const hd_passage_t *passage; /* NULL: the flight is small */
    const hd_work_t *work;       /* what the members have named to the engine */
    hd_exchange_ref_t ref;
    /* the completer's call; its lists of counts are their user's, valid while a unit is claimed */
    hd_call_t call;
    uint32_t n;     /* members in this process */
    hd_plan_t plan; /* the completer's; the others' say the same of what crosses */
    /* combines the processes' partial results, and makes the result of them */
    hd_reducer_t reducer;
    /* Memory of the passage: if operands cross one by one, where each of this process's lies; a
     * table of where the memory of each entry begins, and the size of all at the end; that memory,
     * once for each operand of this process. */
    hd_scratch_t own;
    const void **operands;
    size_t *table;
    uint8_t *blocks;
    /* of a passage of devices: pinned memory of all members (device/pipeline.c) */
    struct hd_device_relay *relay;
    _Atomic uint32_t lasting; /* segments with data whose legs have not ended well yet */
    /* The lists of pieces that legs give and take, one behind the other. give: of each process, or
     * of a bcast's segments; take: of each process. */
    hd_scratch_t lists;
    hd_net_data_t *give, *take;
    hd_net_piece_t *piece;
    size_t pieces; /* so many are in use */
    alignas(HD_LINE) uint8_t operand[HD_FLIGHT_PAYLOAD], result[HD_FLIGHT_PAYLOAD];
    hd_segment_t segment[HD_FLIGHT_SEGMENTS + 1];
};

/* Returns the flight of the operation's exchange. Members call it after the release; NULL before a
 * flight was first needed in this slot. */
static inline hd_flight_t *hd_flight_of(const hd_op_t *op) {
    /* acquire: pairs with take_flight */
    return (hd_flight_t *)(void *)atomic_load_explicit(&op->slot->flight, memory_order_acquire);
}

/* --- flight_plan.c: where sizes of what crosses processes are compared with thresholds -------- */

/* Returns the plan of an operation that goes by a flight. row: of its work, if it has some. */
hd_plan_t hd_flight_plan(const hd_op_t *op, const hd_work_row_t *row);
/* Returns the shape (shm/outer.h) of an operation whose arrival combines all that crosses. */
uint32_t hd_flight_small_shape(const hd_op_t *op);
/* Returns how many slices an operation of this plan has. */
uint32_t hd_flight_slices(const hd_op_t *op, const hd_plan_t *plan);
/* Returns the size by which the network plans the legs (hd_net_plan_of): all processes agree on
 * it. */
size_t hd_flight_leg_bytes(const hd_span_t *span, const hd_call_t *call, const hd_plan_t *plan);
/* The stage's `phases`: adds how an operation's legs run, and among how many processes. */
void hd_flight_phases(const hd_op_t *op, const hd_plan_t *plan, struct hd_phases *phases);
/* For people: prints the thresholds (heddle_info --plans). */
void hd_flight_print_cuts(FILE *out);

/* A part of the whole data, in bytes. */
typedef struct hd_range {
    size_t at, bytes;
} hd_range_t;
hd_range_t hd_cut_segment(const hd_plan_t *plan, size_t bytes, uint32_t segment);
/* hd_cut_windows returns how many windows the segment has; hd_cut_window, one of them. */
uint32_t hd_cut_windows(const hd_plan_t *plan, size_t bytes, uint32_t segment);
hd_range_t hd_cut_window(const hd_plan_t *plan, size_t bytes, uint32_t segment, uint32_t unit);

/* --- flight_parts.c: for passages ------------------------------------------------------------- */

/* Begins a list of pieces: those that are added up to the next `begin` belong to it. */
void hd_pieces_begin(hd_flight_t *flight, hd_net_data_t *data);
void hd_pieces_add(hd_flight_t *flight, hd_net_data_t *data, const void *at, size_t bytes);
/* Prepares a segment of a bcast, which is given or taken from a buffer that has the whole data. */
void hd_flight_prepare_bcast(hd_segment_t *segment, uint8_t *whole);

/* Operands cross one by one (plan.apart) if they must have the bits of one process wherever
 * endpoints live, and combining them process by process would give other bits (hd_span_t). Then one
 * operand crosses for each block of `together` endpoints, which is a level of the canonical tree
 * and lives in one process. A process that makes a part of the result combines this part of all
 * operands, in the order of the endpoints. */

/* Returns how many operands this process makes of its members'. */
static inline uint32_t hd_flight_operands(const hd_flight_t *flight) {
    return flight->plan.apart ? hd_span_blocks(flight->span, flight->span->mine) : 1;
}
/* Combines the members' operands, so many bytes from `at` on, to this process's. to: where the
 * first one's bytes go; those of the next are `stride` further. */
ucc_status_t hd_flight_reduce(const hd_flight_t *flight, size_t at, size_t bytes, uint8_t *to,
                              size_t stride);
/* Gives a leg this process's operands, which are listed, from `at` on. */
void hd_flight_give_operands(hd_segment_t *segment, size_t at);
/* Combines what the leg of the segment has asked for, so many bytes from `at` on; nothing if it has
 * not asked. */
ucc_status_t hd_flight_combine(const hd_segment_t *segment, size_t at, size_t bytes, void *to);
/* A unit of COMBINE whose results lie in segment->dst. */
enum { HD_COMBINE_UNITS = 16 };
ucc_status_t hd_flight_run_combine(const hd_flight_t *flight, const hd_op_t *op, uint32_t segment,
                                   uint32_t unit);
/* Is the segment's slice LOCAL finished? */
bool hd_flight_has_local(const hd_segment_t *segment);

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

extern const hd_passage_t hd_passage_blocks, hd_passage_bcast, hd_passage_reduce,
    hd_passage_reduce_scatter, hd_passage_scan;

/* --- who gives and takes ---------------------------------------------------------------------- */

/* Members of a process, one after the other. */
typedef struct hd_members {
    uint32_t first, end;
} hd_members_t;

/* Returns the members of that process whose data others need, or that need data of others. */
hd_members_t hd_span_givers(const hd_span_t *span, const hd_call_t *call, uint32_t process);
hd_members_t hd_span_takers(const hd_span_t *span, const hd_call_t *call, uint32_t process);

/* Does the member with this call wait for what others give? */
static inline bool hd_call_waits(const hd_call_t *call) {
    uint8_t flow = hd_coll[call->type].flow;
    return flow == HD_AMONG_ALL || call->is_root == (flow == HD_TO_ROOT);
}

/* --- flight.c --------------------------------------------------------------------------------- */

/* Returns the row of a collective's work. */
const hd_work_row_t *hd_flight_row(uint8_t type);
/* Sets op->outer and op->start of an operation whose plan is one of hd_flight_plan's. */
void hd_flight_follow(hd_op_t *op);
/* The stage's `pump` and `closed` (hd_outer_t), also of swaps. */
uint8_t hd_flight_pump(hd_op_t *op);
void hd_flight_closed(hd_op_t *op, ucc_status_t why);

/* --- ferry.c (ferry.h): what crosses nodes with several processes
 * --------------------------------------- */

/* Returns the plan of an operation of a crossing that has nodes. */
hd_plan_t hd_ferry_plan(const hd_op_t *op);
/* Sets op->outer and op->start of it. */
void hd_ferry_follow(hd_op_t *op);

/* --- swap_parts.c: what crosses processes in a swap, as bytes --------------------------------- */

enum { HD_SWAP_MEMBERS = 64 }; /* most endpoints of one process in a swap */

/* A swap, as this process sees it. */
typedef struct hd_swap {
    hd_net_team_t *team;
    const hd_span_t *span;
    const hd_call_t *call;
    hd_net_swap_t *net; /* what the net knows of it; the net's memory */
    /* by member: its contribution, NULL where it has none; `data` is NULL until they are known */
    const void *const *data;
} hd_swap_t;

/* Are all contributions and parts of this call at most `most` bytes? All processes get the same
 * answer. */
bool hd_swap_suits(const hd_span_t *span, const hd_call_t *call, size_t most);
/* hd_swap_source returns a member's contribution, hd_swap_gives its size. */
const void *hd_swap_source(const hd_call_t *call);
size_t hd_swap_gives(const hd_span_t *span, const hd_call_t *call);
/* Returns how many bytes the part of process p for process q has, if there is one. */
size_t hd_swap_part_bytes(const hd_span_t *span, const hd_call_t *call, uint32_t p, uint32_t q);
/* Fills in what this process does in exchange k. */
void hd_swap_set(hd_net_swap_t *net, const hd_span_t *span, const hd_call_t *call, uint64_t k);
/* Writes this process's parts to where the net sends them from: from the contributions, or, in a
 * reduction, the partial result if it is there already. An error is that of a reduction among
 * several members. */
ucc_status_t hd_swap_write(const hd_swap_t *swap, const void *partial);
/* Called when all parts are there that are needed. Returns a process whose part belongs to another
 * call; span->processes: there is none. */
uint32_t hd_swap_odd(const hd_swap_t *swap);
/* Makes all results of this process. reducer: combines all operands of the team to a final result.
 * If the process has one member, the results are what that member receives. */
void hd_swap_compose(const hd_swap_t *swap, const hd_reducer_t *reducer, void *results);
/* Returns where in the results those of a local member begin, and sets *bytes to their size. */
size_t hd_swap_takes(const hd_span_t *span, const hd_call_t *call, uint32_t member, size_t *bytes);

/* flight.c: returns the name that all processes know the operation's exchange by, among those of
 * the span. */
hd_net_key_t hd_exchange_key(const hd_op_t *op, const hd_span_t *span);

#endif
