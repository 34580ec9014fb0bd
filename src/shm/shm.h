/* shm.h: collectives among the endpoints of one process, through shared memory.
 *
 * GROUP     all endpoints of one team in this process. Refcounted; holds everything a peer may
 *           touch, except the requests that a claim pins (see the engine).
 * BOARD     a ring of `depth` numbered exchanges among n members. A group has one main board for
 *           plain ordered collectives, and further boards for tagged, persistent and active-set
 *           ones, which differ only in how a collective finds its board and number:
 *             main board      number k taken at post, depth 8
 *             persistent      a private board per init number; number k = occurrence, depth 4
 *             tagged and other matched ones: a board of depth 1 from a pool; number = use of it
 * MEMBER    what one endpoint owns of a board: its lanes, its consumed count, its window.
 * LANE      one member's slot for exchange k: sequence, signature, regime, payload or pointer.
 * EXCHANGE  what the members share about number k beyond lanes: arrival blocks, result, work.
 *
 * Protocol of exchange k (slot k mod depth), seen by member m:
 *   1. publish: fill lane, release-store its seq = k. Everybody publishes a lane for every k, also
 *      those with no data to give: that is how mismatches are found instead of waited for.
 *   2. look at the lanes (flat) or at the arrival tree's root line (beyond FLAT_MAX members), as
 *      far as the collective depends on them; copy or reduce.
 *   3. consume: k is over for m; m never looks at exchange k again.
 *
 * Flow control. Let D be the depth and H = D/2 (1 if D is 1). Member m publishes k only if
 *      (window)  k - consumed(m) <= H      and      (floor)  min over all consumed >= k - D.
 * The floor is what makes reuse of slot k mod D safe: all have consumed k - D. The window makes the
 * floor cheap: seeing a peer's lane carry j proves (window) that it has consumed j - H, so whoever
 * sees all lanes of j knows floor >= j - H, which covers every k up to j - H + D = j + H. A run of
 * synchronizing operations never scans; only runs of one-way operations do (hd_board_may_publish).
 * No deadlock: let k be the smallest number not consumed by all. Nobody is kept from publishing k by
 * the floor (k - D < k is consumed by all) nor by the window (all before k are consumed), so all
 * publish k once their callers have posted it, and an exchange all have published completes.
 * Boards of depth 1 are not subject to this: the pool hands one out only when all have left it.
 *
 * Nobody looks at its own lane: a load from a line that peers are just fetching from here takes as long
 * as their fetch. What is in it is known anyway.
 *
 * REGIMES (chosen by the source of the data by its own byte count, see hd_lane_publish):
 *   INLINE   in the lane's own line
 *   LINES    in lines of 8 bytes sequence + 56 bytes data: flag and data arrive together
 *   STAGED   copied to the member's staging slot
 *   DIRECT   pointers; the ENGINE (engine.c) moves the data in claimed chunks once all arrived
 * After the first three the source is done: its buffer is its own again.
 */
#ifndef HD_SHM_H
#define HD_SHM_H

#include "core/coll.h"
#include "core/fork.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/reduce.h"
#include "core/topo.h"
#include "core/tree.h"
#include "shm/plan.h"
#include "threads/delay.h"
#include "threads/stall.h"
#include "threads/threads.h"

#include <string.h>

typedef struct hd_group hd_group_t;
typedef struct hd_board hd_board_t;
typedef struct hd_member hd_member_t;
typedef struct hd_op hd_op_t;
typedef struct hd_outer hd_outer_t;
typedef struct hd_outer_memory hd_outer_memory_t;

enum {
    HD_LINES_LIMIT = 4096, /* LINES_MAX is cut to this: readers gather lines on the stack */
    HD_INLINE_MAX = 48,    /* payload bytes in a lane's line */
    HD_LINE_DATA = 56,     /* data bytes in a line of the LINES regime */
    HD_RESULT_MAX = 48,    /* payload bytes of a block record and of the result line */
};

/* What a DIRECT member lets its peers work on. call is read only after a successful claim. */
typedef struct hd_expose {
    const void *src;
    void *dst;
    const hd_call_t *call;
} hd_expose_t;

/* Written by its owner only, before seq; read by all after seq. One line; lanes stand two lines
 * apart because adjacent-line prefetchers couple pairs. */
typedef struct hd_lane {
    alignas(HD_LINE_PAIR) _Atomic uint64_t seq; /* k once published; only ever grows */
    uint32_t signature;                         /* what must agree across members, hashed */
    uint32_t regime_bytes;                      /* regime in the top 4 bits, bytes below */
    union {
        uint8_t payload[HD_INLINE_MAX];
        const uint8_t *data; /* LINES: first line; STAGED: first byte */
        hd_expose_t direct;
    };
} hd_lane_t;

_Static_assert(offsetof(hd_lane_t, payload) + HD_INLINE_MAX == HD_LINE,
               "whoever sees the number of a lane has its payload, in the same line");
_Static_assert(sizeof(hd_lane_t) == HD_LINE_PAIR, "lanes stand two lines apart");
_Static_assert(HD_REGIME_DIRECT < 16, "a lane's regime has four bits");

typedef struct hd_data_line {
    alignas(HD_LINE) _Atomic uint64_t seq;
    uint8_t data[HD_LINE_DATA];
} hd_data_line_t;

_Static_assert(sizeof(hd_data_line_t) == HD_LINE && offsetof(hd_data_line_t, seq) == 0,
               "a line of data is a line, which its number fills up");

struct hd_member {
    /* line 1: read by peers when they compute the floor; written by the owner at completion */
    alignas(HD_LINE_PAIR) _Atomic uint64_t consumed; /* all numbers <= this are over for me */
    _Atomic uint32_t left; /* main board: the endpoint has left the team; `taken` is its last */
    /* line 2: the owner's; under `lock` when several threads use the endpoint */
    alignas(HD_LINE_PAIR) hd_lock_t lock;
    uint64_t taken;        /* last number given to a post */
    uint64_t over;         /* bit i: consumed + 1 + i is over */
    uint64_t floor;        /* a lower bound of everybody's consumed */
    uint32_t floor_cursor; /* members below it are known to have consumed floor_target */
    uint64_t floor_target;
    hd_op_t *queue, **queue_tail;
    uint64_t queue_deadline;         /* the earliest of those in the queue; 0: none */
    _Atomic(uint8_t *) staging;      /* depth slots of group->staged_slot; NULL until first use */
    _Atomic(hd_data_line_t *) lines; /* depth runs of group->lines_per_slot; likewise */
    _Atomic uint32_t writing;        /* main board: puts of mine inside their copies (put.c) */
    /* for those who wait for this member too long (stall.c) */
    _Atomic int32_t thread;   /* last seen to wait, or -(that joined) (main board); 0: not known */
    _Atomic uint32_t at_work; /* inside a chunk of the engine */
    hd_lane_t lane[];         /* depth of them */
};

_Static_assert(offsetof(hd_member_t, lock) == HD_LINE_PAIR,
               "what peers read of a member has lines of its own");
_Static_assert(offsetof(hd_member_t, lane) % HD_LINE_PAIR == 0, "lanes begin at a pair of lines");

/* A block's line of release (core/tree.h): what came down from the origin. Written by the block's first
 * endpoint, read by those to whom hd_tree_release names it. */
typedef struct hd_release {
    alignas(HD_LINE) _Atomic uint64_t seq; /* k once written */
    int32_t status;
    uint32_t signature; /* the writer's */
    union {
        uint8_t payload[HD_RESULT_MAX];
        const uint8_t *data; /* bcast beyond HD_RESULT_MAX: in the writer's staging slot */
    };
} hd_release_t;

_Static_assert(sizeof(hd_release_t) == HD_LINE, "what is released is in the line of its number");

/* One block of an arrival tree in one exchange. Who uses the first line is decided once per group. */
typedef struct hd_block {
    union {
        /* arrival by counter: arrivals ever; each use of the slot adds `size` */
        alignas(HD_LINE) _Atomic uint64_t count;
        hd_release_t release; /* static arrival, tree by topology */
    };
    alignas(HD_LINE) _Atomic uint64_t seq; /* k once combined (read only with static arrival) */
    uint32_t signature;
    int32_t status; /* UCC_OK, or what went wrong below */
    uint8_t payload[HD_RESULT_MAX];
} hd_block_t;

_Static_assert(sizeof(hd_block_t) == 2 * HD_LINE,
               "a block's record is one line, beside the one above");
_Static_assert((int)HD_INLINE_MAX == (int)HD_RESULT_MAX,
               "what came in a lane's line goes on in a block's, and in the result's");

/* One member's share of an exchange's work; initialised by that member before it publishes. */
typedef struct hd_slice {
    alignas(HD_LINE) _Atomic uint64_t claim; /* generation:32 | closed:1 | next:31, see engine.c */
    _Atomic uint64_t finished;               /* generation:32 | units finished:32 */
    _Atomic uint32_t
        ready;          /* so many units, the first ones, may be claimed: all, but see outer.h */
    uint32_t units;     /* pieces of work in this slice, at least 1 */
    uint32_t batch;     /* pieces taken by one claim */
    uint32_t parts;     /* pieces that one block is cut into */
    hd_expose_t expose; /* its owner's buffers; only where engine.c says so */
    _Atomic uint64_t
        under_way; /* generation:32 | a bit per unit; only in an outer stage's slices */
} hd_slice_t;

_Static_assert(sizeof(hd_slice_t) == HD_LINE, "one look at a slice tells all about it");

/* Memory for DIRECT work in one exchange; installed on first use, lives as long as the board.
 * src, dst, call: entry i written by member i before it publishes, read after all arrived, or (call)
 * after a successful claim; not used where lanes or slices carry the same (engine.c). */
typedef struct hd_work {
    hd_slice_t *slice;
    const void **src;
    void **dst;
    const hd_call_t **call;
} hd_work_t;

/* How the work of a DIRECT exchange is cut, and what is to be done: the engine knows no more of a
 * collective. Pure functions of the arguments that all members agree on, but for the v types, where a
 * slice's units are counted by its owner. Slice s belongs to member s mod n of the exchange's n members: it
 * registers the slice, and begins its work with it. There may be fewer slices than members, or more, as far
 * as hd_engine_room goes. */
typedef struct hd_work_row {
    /* by the owner of slice s, by way of hd_slice_set or what outer.h has */
    void (*layout)(const hd_op_t *op, uint32_t s, hd_slice_t *slice);
    /* after a claim: does one unit of slice s */
    ucc_status_t (*run)(const hd_op_t *op, const hd_work_t *work, uint32_t s, uint32_t unit);
    /* an outer stage's: how many slices there are, at least 1; of work.c's rows plan.c decides it */
    uint32_t (*slices)(const hd_op_t *op);
    /* by what plan.c cuts the work */
    uint8_t streams_each, streams_more; /* a byte of a unit is so often read or written */
    uint8_t receives;                   /* hd_work_receives_t */
    bool windowed;                      /* slices are runs of windows of one block */
    bool pulled;                        /* others take from one, who is soon done with its own */
    bool vector, reducing;              /* as the collective is */
} hd_work_row_t;

/* All units may be claimed from the beginning. */
static inline void hd_slice_set(hd_slice_t *slice, uint32_t units, uint32_t parts, uint32_t batch) {
    slice->units = units;
    slice->parts = parts;
    slice->batch = batch;
    /* relaxed: published with the claim word */
    atomic_store_explicit(&slice->ready, units, memory_order_relaxed);
}

typedef enum hd_work_receives {
    HD_WORK_OWN_BLOCK = 0, /* bytes: a member's block, or all of it where there is one */
    HD_WORK_ALL_BLOCKS,    /* n times that */
    HD_WORK_TOTAL          /* total */
} hd_work_receives_t;

/* Of the collectives inside one process. */
extern const hd_work_row_t hd_work_rows[HD_N_TYPES];

typedef struct hd_exchange {
    /* result line: written once per use by the last arriver (or the tree's root); read by all */
    alignas(HD_LINE_PAIR) _Atomic uint64_t arrived; /* k when all have arrived (trees only) */
    int32_t arrived_status;
    uint8_t result[HD_RESULT_MAX];
    /* end line: written once per use by whoever finishes the last slice (trees only) */
    alignas(HD_LINE) _Atomic uint64_t done; /* k when all work is finished */
    int32_t done_status;
    /* work line: touched once per slice (trees only), but for the status. The first two are put to 0 by
     * member 0 before it publishes: nobody works before that */
    alignas(HD_LINE) _Atomic uint32_t slices_done;
    _Atomic uint32_t hint;        /* first slice that may still have units */
    _Atomic uint64_t work_status; /* generation:32 | first error that a chunk met:32 */
    _Atomic(hd_work_t *) work;
    hd_block_t *block[2]; /* [0] canonical tree, [1] topology tree (may be the same array) */
    /* outer line: only for exchanges that go on outside the group (outer.h) */
    alignas(HD_LINE) _Atomic uint64_t outer;
    _Atomic(hd_outer_memory_t *) flight;
} hd_exchange_t;

_Static_assert(offsetof(hd_exchange_t, result) + HD_RESULT_MAX <= HD_LINE &&
                   offsetof(hd_exchange_t, done) == HD_LINE &&
                   offsetof(hd_exchange_t, slices_done) == 2 * HD_LINE,
               "result, end and work have a line each");

/* Members of an active set: team endpoints start, start + stride, ... */
typedef struct hd_subset {
    uint64_t start;
    int64_t stride;
    uint32_t n;
} hd_subset_t;

struct hd_board {
    hd_group_t *group;
    uint32_t n, depth, mask;
    const hd_tree_t *tree[2]; /* NULL: flat. [0] canonical, [1] by topology */
    hd_tree_t *own_tree;      /* active sets: to be destroyed with the board */
    hd_exchange_t *exchange;  /* depth of them */
    hd_member_t **member;     /* by number; allocated by (and near) their endpoints */
    alignas(HD_LINE) _Atomic uint64_t floor; /* largest floor anybody computed by scanning */
    /* boards found by matching (match.c): */
    struct hd_match_entry *entry;
    uint64_t use;              /* how often it was taken; depth-1 boards: number of the exchange */
    _Atomic uint32_t to_leave; /* members that have not left this use yet */
    hd_board_t *next_free;
    hd_subset_t subset;    /* whose use this is; n is 0: all endpoints */
    _Atomic uint64_t said; /* which wait the last line about this board was for (stall.c) */
};

typedef struct hd_match hd_match_t;

#define HD_GROUP_ABANDONED (UINT32_C(1) << 31) /* in `joined`: it never becomes n */

struct hd_group {
    hd_home_t home; /* must stay first */
    uint64_t serial;
    uint32_t n;
    uint32_t depth, persistent_depth, flat_max;
    uint32_t lines_max; /* of one that publishes; half of it where all do */
    uint32_t lines_per_slot;
    uint32_t staged_slot; /* bytes of a staging slot */
    uint32_t staged_max;  /* up to which it is used: direct_above if everybody has a processor */
    size_t direct_above;
    size_t chunk;
    size_t streaming_min;  /* bytes an endpoint receives from which stores go past the caches */
    bool dedicated;        /* every endpoint is held on a processor of its own */
    bool check;            /* CHECK: operations without data take part, too */
    bool two_sided;        /* SYNC or CHECK: every operation is entered and left by all together */
    bool static_arrival;   /* fixed combiners instead of last arrivers: everybody has a processor */
    uint32_t slices;       /* see hd_engine_room */
    bool spanning;         /* boards of any size have a tree */
    uint32_t staging_slot; /* bytes of a member's staging slot, for staged data or a relay's */
    _Atomic int32_t poison;  /* 0, or the status all operations end with; set once */
    _Atomic uint32_t n_left; /* endpoints that have left (leave.c) */
    uint64_t stall;          /* ticks after which a wait is talked about; 0: never */
    uint64_t timeout;        /* ticks after which an operation without a time-out fails; 0: never */
    hd_board_t *board;
    hd_tree_t *canonical, *by_topology;
    hd_locality_t *locality; /* by endpoint */
    _Atomic uint32_t joined; /* endpoints whose members are in place; HD_GROUP_ABANDONED */
    hd_match_t *match;
    uint64_t *labels; /* by endpoint: the user's names of endpoints; NULL: 0..n-1 */
    struct hd_region {
        void *address;
        size_t bytes;
        bool owned;
    } * region;                /* by endpoint: the team's memory */
    int arrival, tree_choice;  /* configuration, for seal */
    _Atomic uint32_t complete; /* all have joined; trees and arrival are decided */
    hd_heirloom_t heirloom;    /* see leave.c */
    uint32_t forks;            /* hd_forks() when it was made */
    _Atomic bool said_inherited;
};

_Static_assert(offsetof(hd_group_t, home) == 0, "threads/ knows a group as its home");

/* --- an operation ----------------------------------------------------------------------------- */

typedef enum hd_op_state {
    HD_OP_QUEUED = 0, /* waits for its window; not published */
    HD_OP_WAITING,    /* published; the family's step runs */
    HD_OP_ENGINE,     /* DIRECT: waits for all, works, waits for the end */
    HD_OP_CANCEL,     /* closing the exchange; waits for chunks in flight */
    HD_OP_ARMED /* no post yet: a stand-in for an operation that waits for its event (team/ee.c) */
} hd_op_state_t;

/* Where an endpoint stands: its member of a board, and the number of its exchange there. */
typedef struct hd_place {
    hd_board_t *board; /* NULL: not known yet */
    hd_member_t *member;
    uint64_t k;
    uint32_t me, n; /* my number on the board, and how many there are */
    bool locked;    /* several threads may use this endpoint */
    bool of_set;    /* the board is an active set's: its members have numbers of their own */
} hd_place_t;

struct hd_op {
    hd_task_t task; /* must stay first */
    hd_call_t call; /* what is asked; fixed at init */
    hd_place_t place;
    struct ucc_team *team;
    ucc_status_t (*start)(hd_op_t *op);   /* publishes; family's */
    ucc_status_t (*wait)(hd_op_t *op);    /* family's step after publishing */
    ucc_status_t (*prepare)(hd_op_t *op); /* before start: packs, or sums counts anew; or NULL */
    ucc_status_t (*finish)(hd_op_t *op);  /* packed datatypes: after success; else NULL */
    /* set per post */
    hd_group_t *group;
    hd_lane_t *lane;
    hd_exchange_t *exchange;
    hd_op_state_t state;
    uint32_t team_ep;           /* my number in the team; place.me is my number on the board */
    ucc_status_t why;           /* CANCEL: what to report */
    void (*leave)(hd_op_t *op); /* matched boards: gives the board back; else NULL */
    uint32_t cursor;            /* lanes before it are dealt with */
    uint32_t finished;          /* so many slices after mine are finished (flat) */
    hd_plan_t plan;             /* how it runs; made at init, or by start (hd_op_choose_plan) */
    bool own_finished;          /* so is mine, as I know without looking */
    hd_expose_t expose;         /* DIRECT: what my lane says */
    uint32_t watch;             /* lane the mismatch watch looks at next */
    uint32_t arrive_level;      /* static arrival: next level to combine */
    uint32_t arrive_which;      /* tree in use */
    hd_tree_release_t release;  /* my part in it; relays is 0 once I have handed on */
    bool arriving;              /* entered the arrival tree */
    bool saw_all;               /* every lane of k was seen: says where the floor is */
    uint8_t arrival;            /* HD_ARRIVE_*: what the arrival tree is for */
    bool any_direct;            /* some lane is DIRECT */
    bool exposed;               /* peers may work on my buffers: by the engine, or one-sidedly */
    bool numbered; /* takes part in the board's flow control (not on boards of depth 1) */
    hd_op_t *queue_next;
    hd_outer_t *outer;    /* the stage that goes on outside the group; NULL: there is none */
    uint32_t outer_shape; /* HD_OUTER_* of outer.h */
    bool completer;       /* outer: I have completed the arrival */
    uint32_t turn;        /* the user's reduction: the slice that I work on */
};

/* What an arrival tree is for, besides to tell that all have come. */
enum {
    HD_ARRIVE_REDUCING = 1, /* it combines payloads */
    HD_ARRIVE_OUTER = 2 /* who completes it calls the outer stage instead of telling everybody */
};

_Static_assert(offsetof(hd_op_t, task) == 0, "threads/ knows an operation as its task");

/* --- board.c ---------------------------------------------------------------------------------- */

/* n members, none in place yet. trees may be NULL. */
hd_board_t *hd_board_create(hd_group_t *group, uint32_t n, uint32_t depth,
                            const hd_tree_t *canonical, const hd_tree_t *by_topology);
/* Allocates member i on the calling thread's node. */
hd_member_t *hd_board_add_member(hd_board_t *board, uint32_t i);
void hd_board_destroy(hd_board_t *board);
/* Before first use: the tree by which everything but reductions arrives. */
ucc_status_t hd_board_set_topology(hd_board_t *board, const hd_tree_t *by_topology);
/* In the child of a fork: no member's lock is held. */
void hd_board_unlock(hd_board_t *board);
/* Puts all sequence state back to the start; nobody may be using the board. */
void hd_board_reset(hd_board_t *board);
#if HD_DEBUG >= 2 || defined(HD_TEST)
/* check.c: all equations that hold at any moment between a board's members, as one of them sees it. Under
 * that member's lock. */
void hd_board_check(const hd_board_t *board, uint32_t me);
/* Everybody is done with what was in the slot of number k, which is about to be published. */
void hd_board_check_slot(const hd_board_t *board, uint64_t k);
/* By the last to join, and by who frees the group. */
void hd_group_check(const hd_group_t *group);
#endif
/* Have all consumed `target`? Looks at their counts. Under the member's lock. */
bool hd_board_floor_reaches(hd_board_t *board, hd_member_t *member, uint64_t target);
/* k is over for this member, but not the oldest that is. Under the member's lock. */
void hd_board_consume_early(hd_member_t *member, uint64_t k, uint64_t consumed);

/* May `member` publish number k now (window and floor)? Under the member's lock. */
static inline bool hd_board_may_publish(hd_board_t *board, hd_member_t *member, uint64_t k) {
    uint64_t depth = board->depth;
    if (depth == 1) {
        return true; /* the pool hands the board out only when all have left it */
    }
    /* relaxed: our own count, only we write it */
    uint64_t consumed = atomic_load_explicit(&member->consumed, memory_order_relaxed);
    if (k - consumed > depth / 2) {
        return false;
    }
    return k <= depth || member->floor >= k - depth ||
           hd_board_floor_reaches(board, member, k - depth);
}

/* k is over for this member; the caller rings the group's bell after unlocking. saw_all: it saw every
 * lane of k, which bounds the floor. Under the member's lock. */
static inline void hd_board_consume(hd_board_t *board, hd_member_t *member, uint64_t k,
                                    bool saw_all) {
    uint64_t half = board->depth / 2;
    if (saw_all && k > half && member->floor < k - half) {
        member->floor = k - half;
    }
    /* relaxed: our own count, only we write it */
    uint64_t consumed = atomic_load_explicit(&member->consumed, memory_order_relaxed);
    hd_assert_lt(consumed, k); /* over once */
    hd_assert_le(k, member->taken);
    hd_assert_le(k - consumed, half); /* the window, for it was published */
    if (k != consumed + 1 || member->over != 0) {
        hd_board_consume_early(member, k, consumed);
        return;
    }
    hd_delay_point();
    /* release: our reads of this exchange happen before anybody's reuse of its slot */
    atomic_store_explicit(&member->consumed, k, memory_order_release);
}

static inline hd_lane_t *hd_board_lane(const hd_board_t *board, uint32_t i, uint64_t k) {
    return &board->member[i]->lane[k & board->mask];
}

/* Member i's lines for number k; NULL: it has none yet. */
static inline hd_data_line_t *hd_lines_of(const hd_board_t *board, uint32_t i, uint64_t k) {
    /* acquire: pairs with the release that installed the zeroed lines */
    hd_data_line_t *lines = atomic_load_explicit(&board->member[i]->lines, memory_order_acquire);
    return lines ? lines + (k & board->mask) * board->group->lines_per_slot : NULL;
}

/* --- queue.c: the order in which a member's operations are published ----------------------------------- */

typedef enum hd_turn {
    HD_TURN_NOW, /* the caller launches it */
    HD_TURN_NEXT, /* queued, and the caller puts its task into the context's list, if it is not there */
    HD_TURN_LATER /* queued behind others: it may already be somebody else's */
} hd_turn_t;

/* Gives the operation its place on this board and its number there. */
hd_turn_t hd_board_enter(hd_op_t *op, hd_board_t *board);
/* An operation that was not launched in time: the others will miss it. Says so, and poisons the group. */
void hd_op_time_out(const hd_op_t *op);

/* --- lane.c ----------------------------------------------------------------------------------- */

/* Lines that take so many bytes. */
static inline size_t hd_lines_for(size_t bytes) {
    return (bytes + HD_LINE_DATA - 1) / HD_LINE_DATA;
}
/* Publishes what was put into the lane. */
static inline void hd_lane_fill(hd_lane_t *lane, uint64_t k, uint32_t signature, hd_regime_t regime,
                                size_t bytes) {
    hd_assert_lt(lane->seq, k); /* mine: published once, and in order */
    hd_assert(regime == HD_REGIME_DIRECT || bytes >> 28 == 0);
    /* relaxed, and atomic only for those who look at lanes that they don't wait for (stall.c) */
    __atomic_store_n(&lane->signature, signature, __ATOMIC_RELAXED);
    lane->regime_bytes =
        (uint32_t)regime << 28 | (uint32_t)(regime == HD_REGIME_DIRECT ? 0 : bytes);
    hd_delay_point();
    /* release: publishes the line's other fields, staging, and what else peers may then read;
       pairs with the acquire in hd_lane_is_there */
    atomic_store_explicit(&lane->seq, k, memory_order_release);
}
/* The same for a payload in lines. */
void hd_lane_fill_lines(hd_lane_t *lane, uint64_t k, uint32_t signature, hd_data_line_t *line,
                        const uint8_t *data, size_t bytes);
/* Publishes `bytes` from data under the plan's regime; DIRECT: op->expose; NONE: no data. The two after it, for
 * those who know that. */
ucc_status_t hd_lane_publish(hd_op_t *op, const void *data, size_t bytes);
ucc_status_t hd_lane_expose(hd_op_t *op);
ucc_status_t hd_lane_announce(hd_op_t *op);
/* A staging slot to assemble a payload in; publish_staged then lets it travel in lines or in the lane if that
 * is the plan. */
void *hd_lane_staging(hd_op_t *op);
ucc_status_t hd_lane_publish_staged(hd_op_t *op, size_t bytes);

static inline hd_regime_t hd_lane_regime(const hd_lane_t *lane) {
    return (hd_regime_t)(lane->regime_bytes >> 28);
}
static inline size_t hd_lane_bytes(const hd_lane_t *lane) {
    return lane->regime_bytes & 0x0fffffffu;
}
/* Has member i published number k? */
static inline bool hd_lane_is_there(const hd_lane_t *lane, uint64_t k) {
    /* acquire: pairs with the release in publish; the payload is readable after it */
    return atomic_load_explicit(&lane->seq, memory_order_acquire) == k;
}
/* Asks for the beginning of a payload that will be read in several steps, each of which tells where the
 * next is. */
static inline void hd_lane_prefetch(const hd_lane_t *lane) {
    enum { MOST = 1024 };
    size_t bytes = hd_lane_regime(lane) == HD_REGIME_STAGED ? hd_lane_bytes(lane) : 0;
    for (size_t at = 0; at < bytes && at < MOST; at += HD_LINE) {
        __builtin_prefetch(lane->data + at);
    }
}
/* Copies part of a published payload; false if a line of it is still being written. */
bool hd_lane_read(const hd_lane_t *lane, uint64_t k, size_t offset, size_t bytes, void *dst);
/* The payload as contiguous memory, in place or gathered into scratch; NULL: not complete yet. */
const void *hd_lane_view(const hd_lane_t *lane, uint64_t k, void *scratch);

/* --- op.c: what all families share -------------------------------------------------------------- */

/* Gives a prepared operation (group, board, member, k, me, n set) its first push. */
ucc_status_t hd_op_launch(hd_op_t *op);
/* The same for one whose lane the express has put out, short of the first step: the caller has just looked. */
void hd_op_resume(hd_op_t *op);
/* From a wait that returns UCC_INPROGRESS: nothing to be done before this word is k. */
static inline void hd_op_await(hd_op_t *op, const _Atomic uint64_t *word) {
    op->task.awaited = word;
    op->task.awaited_value = op->place.k;
}
/* From op->prepare of an operation that calls user's code (callback.h). */
ucc_status_t hd_op_calls_user(hd_op_t *op);
/* Its packing or unpacking did not return: the team fails, and the next step ends it. */
void hd_op_abandon(hd_task_t *task);
/* In progress, in a group that was poisoned, and its buffers are gone: its steps neither read nor write them, and
 * end it when no peer does. By the only user of its context. */
void hd_op_disown(hd_op_t *op);
/* An operation that fails without having been launched. Its memory may be a peer's to write to all the
 * same (put.c): UCC_INPROGRESS until it is not, if the task is stepped on; then why. */
ucc_status_t hd_op_fail_unlaunched(hd_op_t *op, ucc_status_t why);
/* task.step of a launched operation: the family's wait, poison, deadline, mismatch watch. */
ucc_status_t hd_op_step(hd_task_t *task);
/* Lane i of this exchange if published; checks its signature. UCC_INPROGRESS: not there yet. */
ucc_status_t hd_op_lane(hd_op_t *op, uint32_t i, const hd_lane_t **lane);
/* Walks op->cursor over the others' lanes; UCC_OK when every one was there and matched. */
ucc_status_t hd_op_all_lanes(hd_op_t *op);
void hd_group_poison(hd_group_t *group, ucc_status_t status);
static inline ucc_status_t hd_group_poisoned(const hd_group_t *group) {
    /* acquire: pairs with hd_group_poison, though only the value matters */
    return (ucc_status_t)atomic_load_explicit(&group->poison, memory_order_acquire);
}
/* As the caller calls it: a reduce_scatter in place, of uneven blocks, runs as a reduce_scatterv. */
const char *hd_op_type_name(const hd_op_t *op);

/* --- mismatch.c: calls that disagree, and what is said about them ------------------------------- */

/* What all endpoints of a collective must call alike; fields without a meaning for it are 0. */
typedef struct hd_terms {
    uint8_t type;
    bool rooted, reducing; /* as the type is */
    bool user;             /* the reduction is the user's: its element's size must agree, no more */
    bool in_place;         /* where it changes what peers do */
    bool one_sided;        /* put.c; offset: of the buffer in its owner's part of the memory */
    bool uneven;   /* reduce_scatter in place with a remainder: bytes are those of all blocks */
    bool empty;    /* zero bytes at this endpoint, which takes part for the sake of CHECK */
    uint32_t root; /* member number */
    ucc_reduction_op_t op;
    uint64_t dt; /* agrees only in reductions; else for messages */
    size_t element, bytes, offset;
    uint64_t counts; /* reduce_scatterv: all of them, hashed */
} hd_terms_t;

#define HD_TERMS_ANY_DT UINT64_MAX /* generic, or not the same in all calls of these terms */

/* The type exactly, the rest hashed. */
uint32_t hd_terms_signature(const hd_terms_t *terms);
/* Remembers what this signature stands for, for the messages below. */
void hd_terms_note(const hd_terms_t *terms, uint32_t signature);
/* In the child of a fork: the table is nobody's at the moment. */
void hd_terms_unlock(void);
/* Endpoint number in the team of member i of op's board. */
uint64_t hd_op_endpoint(const hd_op_t *op, uint32_t i);
/* "bcast 17", "bcast with tag 5": how messages name an operation that has its board. Returns text. */
const char *hd_op_title(const hd_op_t *op, const char *type, char *text, size_t size);
/* Peer's lane differs from mine, or somebody's (peer is me): poisons the group, logs who calls what,
 * returns the status to fail with. */
ucc_status_t hd_op_mismatch(hd_op_t *op, uint32_t peer) __attribute__((cold));
/* The same for blocks of a v type: peer sent so many bytes where I expected others. */
ucc_status_t hd_op_sizes_differ(hd_op_t *op, uint32_t peer, size_t sent, size_t expected);
/* The line alone, about any two members. */
void hd_op_say_sizes(const hd_op_t *op, uint32_t from, uint32_t to, size_t sent, size_t expected);

/* --- express.c: small collectives of few endpoints ---------------------------------------------- */

/* HD_EXPRESS_OVER: it is over. 0: nothing has happened. Else the number whose lane is out, to be gone on with by
 * an operation. looks: how often one lane that is awaited is looked at again. The place's number is not looked
 * at. */
#define HD_EXPRESS_OVER UINT64_MAX
uint64_t hd_express_barrier(const hd_place_t *at, const hd_call_t *call, uint32_t looks);
uint64_t hd_express_bcast(const hd_place_t *at, const hd_call_t *call, uint32_t looks);
uint64_t hd_express_scatter(const hd_place_t *at, const hd_call_t *call, uint32_t looks);
uint64_t hd_express_allreduce(const hd_place_t *at, const hd_call_t *call, uint32_t looks);
/* The same for a call that is repeated with these addresses instead of its own. */
uint64_t hd_express_bcast_of(const hd_place_t *at, const hd_call_t *call, void *buffer,
                             uint32_t looks);
uint64_t hd_express_scatter_of(const hd_place_t *at, const hd_call_t *call, const void *src,
                               void *dst, uint32_t looks);
uint64_t hd_express_allreduce_of(const hd_place_t *at, const hd_call_t *call, const void *src,
                                 void *dst, uint32_t looks);

/* --- family.c: who carries a collective out ------------------------------------------------------ */

typedef struct hd_family {
    ucc_status_t (*start)(hd_op_t *op); /* publishes, and sets op->wait */
    /* all of it, if it is small and the others are there; NULL: it has no such way */
    uint64_t (*express)(const hd_place_t *at, const hd_call_t *call, uint32_t looks);
    ucc_status_t (*wait)(hd_op_t *op); /* what is left of it once that has put the lane out */
} hd_family_t;

extern const hd_family_t hd_family[HD_N_TYPES];

/* --- arrival.c -------------------------------------------------------------------------------- */

static inline bool hd_op_is_flat(const hd_op_t *op) {
    return op->place.board->tree[0] == NULL;
}
/* After publishing, beyond FLAT_MAX members: enters the arrival tree. reducing: combine inline
 * payloads with op->call.reducer in canonical order. Which = 0 canonical, 1 topology. */
void hd_arrive(hd_op_t *op, bool reducing);
/* Static arrival: do my share of combining and of handing the release on; true when I owe nothing
 * more. */
bool hd_arrive_help(hd_op_t *op);
/* The same three for an operation with an outer stage (outer.h), whose arrival ends in hd_outer_arrived;
 * carried: bytes that the release brings. */
void hd_arrive_outer(hd_op_t *op, bool reducing, bool all_wait, size_t carried);
bool hd_arrive_help_outer(hd_op_t *op, size_t carried);
ucc_status_t hd_arrived_outer(hd_op_t *op);
/* UCC_OK when all have arrived (tree or flat), an error if they don't match. */
ucc_status_t hd_arrived(hd_op_t *op);
/* For stall.c: does member i owe a line to those who wait in this exchange, and has all it needs for it? */
bool hd_arrive_owes(const hd_op_t *op, uint32_t i);
/* Likewise: is member i one of those whose arrivals I combine? */
bool hd_arrive_is_mine(const hd_op_t *op, uint32_t i);
/* After UCC_OK from hd_arrived, when reducing: the result. */
const void *hd_arrive_result(const hd_op_t *op);

/* Bcast over several domains (small regimes, beyond FLAT_MAX): the origin is the root's lane; the
 * first member of each domain reads it and hands the data on. */
/* Before publishing. */
void hd_relay_enter(hd_op_t *op);
/* op->release.from is a line: the data it announces. UCC_INPROGRESS: not there yet. */
ucc_status_t hd_relay_data(hd_op_t *op, const void **data);
/* I have the data: hands it on. */
ucc_status_t hd_relay(hd_op_t *op, const void *data);

/* --- engine.c: the DIRECT regime ----------------------------------------------------------------- */

/* Registers my buffers and my slice; before publishing. */
ucc_status_t hd_engine_register(hd_op_t *op, const void *src, void *dst);
/* The same where my own data goes out with my lane: there is nothing to do in my slice. */
ucc_status_t hd_engine_register_idle(hd_op_t *op, const void *src, void *dst);
/* Publishes as DIRECT and enters the arrival; op->wait becomes the engine's. */
ucc_status_t hd_engine_start(hd_op_t *op, const void *src, void *dst);
/* From a family's wait: all lanes were seen and some are DIRECT, or mine is. */
ucc_status_t hd_engine_step(hd_op_t *op);
/* The same when the caller has already seen every lane. */
ucc_status_t hd_engine_work(hd_op_t *op);
/* For members that wait for all lanes, of which some may be DIRECT: take() gets what came with each
 * lane (NULL: my own; it sets op->any_direct, or returns UCC_INPROGRESS to be called again), then the
 * engine works on the rest, if there is any. */
ucc_status_t hd_engine_after_lanes(hd_op_t *op,
                                   ucc_status_t (*take)(hd_op_t *, uint32_t, const hd_lane_t *));
/* Most slices that an exchange on this board can have. */
uint32_t hd_engine_room(const hd_board_t *board);
/* NULL is allowed. By the owner of the board, at its end. */
void hd_engine_free_work(hd_work_t *work);
/* In the child of a fork: it is nobody's turn. */
void hd_engine_unlock(void);
/* Closes the exchange; UCC_OK when nobody touches anybody's buffers any more. */
ucc_status_t hd_engine_cancel(hd_op_t *op, ucc_status_t why);
/* Works on all slices that have units to claim, in whatever order they become ready. Only on boards with a
 * tree. */
ucc_status_t hd_engine_work_unordered(hd_op_t *op);
/* In an exchange that can't end yet: notes the failure of a unit; one more slice is finished, of so many. */
void hd_engine_note_failure(hd_exchange_t *x, uint64_t k, ucc_status_t status);
void hd_engine_slice_done(hd_group_t *group, hd_exchange_t *x, uint64_t k, uint32_t slices);

/* Runs a claimed unit, and makes its results visible to whoever is told that it is finished. */
ucc_status_t hd_work_run(const hd_op_t *op, const hd_work_t *work, uint32_t slice, uint32_t unit);

/* Reduces the small operands that all members of a flat board published; mine is known. UCC_INPROGRESS: a
 * line is still being written. */
ucc_status_t hd_reduce_lanes(const hd_board_t *board, uint32_t me, uint64_t k,
                             const hd_reducer_t *reducer, const void *operand, void *dst,
                             size_t count);

/* --- families ----------------------------------------------------------------------------------- */

/* One-sided variants of bcast, mcast, allgather, alltoall into symmetric memory (put.c). fits: the
 * buffer lies in every member's part of it. */
ucc_status_t hd_put_start(hd_op_t *op);
bool hd_put_fits(const hd_op_t *op, const uint8_t *buffer, size_t bytes);
/* How far from the beginning of my part my buffer lies; the same at all. */
size_t hd_put_offset(const hd_op_t *op, const uint8_t *buffer);
/* Poisons the group; UCC_INPROGRESS while a peer is inside its copy, then why. */
ucc_status_t hd_put_cancel(hd_op_t *op, ucc_status_t why);
/* By whoever has poisoned the group, or left it: is a member still inside its copy? None enters any more. */
bool hd_put_lingers(hd_group_t *group);
/* _wait: of small ones that all look at lanes; the lane is out. */
ucc_status_t hd_barrier_start(hd_op_t *op);
ucc_status_t hd_fanin_start(hd_op_t *op);
ucc_status_t hd_fanout_start(hd_op_t *op);
ucc_status_t hd_bcast_start(hd_op_t *op);
ucc_status_t hd_bcast_wait(hd_op_t *op);
ucc_status_t hd_reduce_start(hd_op_t *op);
ucc_status_t hd_allreduce_start(hd_op_t *op);
ucc_status_t hd_allreduce_wait(hd_op_t *op);
ucc_status_t hd_scan_start(hd_op_t *op);           /* and exscan */
ucc_status_t hd_reduce_scatter_start(hd_op_t *op); /* and reduce_scatterv */
ucc_status_t hd_allgather_start(hd_op_t *op);
ucc_status_t hd_allgatherv_start(hd_op_t *op);
ucc_status_t hd_gather_start(hd_op_t *op);
ucc_status_t hd_gatherv_start(hd_op_t *op);
ucc_status_t hd_scatter_start(hd_op_t *op);
ucc_status_t hd_scatter_wait(hd_op_t *op);
ucc_status_t hd_scatterv_start(hd_op_t *op);
ucc_status_t hd_alltoall_start(hd_op_t *op);
ucc_status_t hd_alltoallv_start(hd_op_t *op);

/* --- match.c: boards for collectives that are not matched by their number ----------------------- */

typedef enum hd_match_class {
    HD_MATCH_TAG,        /* key: the user's tag */
    HD_MATCH_INIT,       /* key: how-manieth init of an INIT_* ordered team */
    HD_MATCH_PERSISTENT, /* the same for persistent requests */
    HD_MATCH_ACTIVE_SET  /* key: 0 */
} hd_match_class_t;

/* For a group of n endpoints. */
hd_match_t *hd_match_create(uint32_t n);
void hd_match_destroy(hd_match_t *match);
/* Joins the oldest exchange of (class, key, subset) that member `me` has not joined, or opens one. subset
 * NULL: all endpoints.
 * Any thread. NULL: out of memory (logged). */
hd_board_t *hd_match_join(hd_group_t *group, const hd_subset_t *subset, hd_match_class_t class,
                          uint64_t key, uint32_t me);
/* The caller is done with the board; the last one gives it back to the pool. */
void hd_match_leave(hd_board_t *board);
/* "bcast with tag 5": the exchange of number k on a board that was joined, for messages. */
void hd_match_title(const hd_board_t *board, uint64_t k, const char *type, char *text, size_t size);
/* Has member i joined the exchange for which this board is in use? By a member that has. */
bool hd_match_has_joined(const hd_board_t *board, uint32_t i);
/* In the child of a fork: no lock is held. */
void hd_match_unlock(hd_match_t *match);

/* --- group.c ------------------------------------------------------------------------------------ */

typedef struct hd_group_config {
    uint32_t depth, persistent_depth, flat_max;
    size_t lines_max, staged_max, direct_above, chunk;
    size_t streaming_min; /* HD_CFG_AUTO: by the machine's caches */
    bool two_sided, check;
    int arrival;             /* hd_cfg_arrival_t */
    int tree;                /* hd_cfg_tree_t */
    uint64_t stall, timeout; /* ticks; 0: never */
    uint32_t slices;         /* most slices of an exchange, if there are fewer members */
    bool spanning; /* operations may have an outer stage (outer.h): all arrive by a tree */
} hd_group_config_t;

/* One reference, for the creator. */
hd_group_t *hd_group_create(uint32_t n, const hd_group_config_t *config);
/* What follows from where the endpoints run (group->locality): trees, who combines arrivals, thresholds. By the
 * last one to join, or for a group that nobody will use (heddle_info). */
ucc_status_t hd_group_seal(hd_group_t *group);
/* Endpoint ep takes its place: its member on the main board, its locality (NULL: unknown).
 * Concurrently for different endpoints; the last one decides on trees and arrival. */
ucc_status_t hd_group_join(hd_group_t *group, uint32_t ep, const hd_locality_t *where);
/* All have joined, and what follows from that is decided. */
bool hd_group_is_complete(const hd_group_t *group);
/* The same, but for the deciding, which may be under way. */
bool hd_group_all_joined(const hd_group_t *group);
/* By an endpoint that has joined and goes: the group will never be complete, and is poisoned. False if all have
 * joined: then it can only be left. */
bool hd_group_abandon(hd_group_t *group, ucc_status_t why);

/* --- stall.c ------------------------------------------------------------------------------------ */

/* A look, now, whether all have joined was in vain: says who has not, if that is due (threads/stall.h). */
void hd_group_stalled(const hd_group_t *group, hd_stall_t *stall, uint64_t now, uint32_t me);
/* How long a post has waited. Nothing is written at a post: another number, board or use of the board (a
 * persistent one's numbers begin anew with each) than these means that the wait is a new one. */
typedef struct hd_op_waits {
    hd_stall_t stall;
    uint64_t k, use;
    const hd_board_t *board;
} hd_op_waits_t;

/* Of an operation in its context's list, between two steps: says whom it waits for, if that is due; lets it
 * time out. Returns when (ticks) to be called again at the latest. */
uint64_t hd_op_look_after(hd_op_t *op, hd_op_waits_t *waits, uint64_t now);
/* One line: it has timed out, waiting for whom. */
void hd_op_log_timeout(const hd_op_t *op);

/* --- leave.c: endpoints that are gone ------------------------------------------------------------ */

/* By endpoint ep, which has joined and has nothing in progress: it will post nothing more. Says once too often
 * is harmless. */
void hd_group_leave(hd_group_t *group, uint32_t ep);
/* Of an operation that waits on its board: UCC_ERR_NOT_FOUND, logged, and the group poisoned, if it needs an
 * endpoint that left before it. Under no lock of the board but the caller's own member's. */
ucc_status_t hd_op_watch_leavers(hd_op_t *op);
/* From now on a child's copy of this group fails. */
void hd_group_watch_forks(hd_group_t *group);
/* This is such a copy; and one line that says so. */
bool hd_group_is_inherited(const hd_group_t *group);
void hd_group_say_inherited(hd_group_t *group);

#endif
