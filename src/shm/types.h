/* types.h: the data structures of collectives among the endpoints of one process, and what always
 * holds of them.
 *
 * GROUP     all endpoints of one team in this process. Refcounted; holds everything a peer may
 *           touch, except the requests that a claim pins (see the engine). Its memory, and that of
 *           its boards, may be mapped several times (mapping.c): then each mapping has a group of
 *           its own. What all of them share is in the types whose comments say so: hd_common_t,
 *           hd_head_t, hd_shared_t, hd_exchange_t, hd_block_t, hd_slice_t; none of these has a
 *           pointer into that memory.
 * BOARD     a ring of `depth` numbered exchanges among n members. A group has one main board for
 *           plain ordered collectives, and further boards for tagged, persistent and active-set
 *           ones, which differ only in how a collective finds its board and number:
 *             main board      number k taken at post, depth 8
 *             persistent      a private board per init number; number k = occurrence, depth 4
 *             tagged and other matched ones: a board of depth 1 from a pool; number = use of it
 * MEMBER    what one endpoint alone uses of a board: its numbers, its window, its queue.
 * SHARED    what its peers touch of it: its lanes, its consumed count.
 * LANE      one member's slot for exchange k: sequence, signature, regime, payload or where it is.
 * EXCHANGE  what the members share about number k beyond lanes: result, end, counts of its work.
 * SLOT      what a process keeps for the exchanges at one place of the ring: arrival blocks, work.
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
 * No deadlock: let k be the smallest number not consumed by all. Nobody is kept from publishing k
 * by the floor (k - D < k is consumed by all) nor by the window (all before k are consumed), so all
 * publish k once their callers have posted it, and an exchange all have published completes. Boards
 * of depth 1 are not subject to this: the pool hands one out only when all have left it.
 *
 * Nobody looks at its own lane: a load from a line that peers are just fetching from here takes as
 * long as their fetch. What is in it is known anyway.
 *
 * REGIMES (of a lane; plan.c chooses):
 *   INLINE   in the lane's own line
 *   LINES    in lines of 8 bytes sequence + 56 bytes data: flag and data arrive together
 *   STAGED   copied to the member's staging slot
 *   DIRECT   pointers; the ENGINE (engine.c) moves the data in claimed chunks once all arrived
 * After the first three the source is done: its buffer is its own again.
 */
#ifndef HD_SHM_TYPES_H
#define HD_SHM_TYPES_H

#include "core/coll.h"
#include "core/fork.h"
#include "core/mem.h"
#include "core/topo.h"
#include "core/tree.h"
#include "shm/plan.h"
#include "shm/profile.h"
#include "threads/threads.h"

typedef struct hd_group hd_group_t;
typedef struct hd_board hd_board_t;
typedef struct hd_member hd_member_t;
typedef struct hd_shared hd_shared_t;
typedef struct hd_op hd_op_t;
typedef struct hd_outer hd_outer_t;
typedef struct hd_outer_memory hd_outer_memory_t;
typedef struct hd_far hd_far_t;
typedef struct hd_reach hd_reach_t;
typedef struct hd_part hd_part_t;
typedef struct hd_leaning hd_leaning_t;
typedef struct hd_births hd_births_t;
typedef struct hd_waits hd_waits_t;
typedef struct hd_birth hd_birth_t;

enum {
    HD_LINES_LIMIT = 4096, /* LINES_MAX is cut to this: readers gather lines on the stack */
    HD_INLINE_MAX = 48,    /* payload bytes in a lane's line */
    HD_LINE_DATA = 56,     /* data bytes in a line of the LINES regime */
    HD_RESULT_MAX = 48,    /* payload bytes of a block record and of the result line */
    HD_STEPS_MOST = 8,     /* of a butterfly */
    HD_STEPS_AT_ONCE = 2,  /* so many blocks of it may be combined by each member */
    HD_STEP_READERS = 32   /* of one record, at most */
};

/* What a DIRECT member lets its peers work on. call is read only after a successful claim. */
typedef struct hd_expose {
    const void *src;
    void *dst;
    const hd_call_t *call;
} hd_expose_t;

/* Where a member's buffers are, as those of other processes know them (near.c): words of reach.h,
 * and the slots that its process reaches. */
typedef struct hd_near {
    uint64_t src, dst, reach;
} hd_near_t;

_Static_assert(sizeof(hd_near_t) == sizeof(hd_expose_t), "either is published in the same place");

/* Written by its owner only, before seq; read by all after seq. One line; lanes stand two lines
 * apart because adjacent-line prefetchers couple pairs. */
typedef struct hd_lane {
    alignas(HD_LINE_PAIR) _Atomic uint64_t seq; /* k once published; only ever grows */
    uint32_t signature;                         /* what must agree across members, hashed */
    uint32_t regime_bytes;                      /* regime in the top 4 bits, bytes below */
    union {
        uint8_t payload[HD_INLINE_MAX];
        ptrdiff_t at; /* LINES: first line; STAGED: first byte: how far from here (hd_lane_data) */
        hd_expose_t direct;
        hd_near_t near; /* on the path FAR */
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

/* Shared. Written by its owner, read by all. */
struct hd_shared {
    /* line 1: read by peers when they compute the floor; written by the owner at completion */
    alignas(HD_LINE_PAIR) _Atomic uint64_t consumed; /* all numbers <= this are over for me */
    _Atomic uint32_t left; /* main board: the endpoint has left the team */
    /* line 2. depth runs of group->lines_per_slot lines: how far from here; 0 until first use */
    alignas(HD_LINE) _Atomic ptrdiff_t lines;
    _Atomic uint32_t writing; /* main board: puts of mine inside their copies (put.c) */
    /* for those who wait for this member too long (stall.c) */
    _Atomic int32_t thread;   /* last seen to wait, or -(that joined) (main board); 0: not yet */
    _Atomic uint32_t at_work; /* inside a chunk of the engine */
    /* threads of mine that work, or are about to, on buffers of any process (near.c) */
    _Atomic uint32_t inside;
    /* the number on the main board that was last seen to wait for long, and since when, in ticks */
    _Atomic uint64_t waits_for, waits_since;
    hd_lane_t lane[]; /* depth of them */
};

_Static_assert(offsetof(hd_shared_t, lane) == HD_LINE_PAIR, "lanes begin at a pair of lines");

/* Under `lock` when several threads use the endpoint. */
struct hd_member {
    alignas(HD_LINE_PAIR) hd_lock_t lock;
    hd_shared_t *shared;
    uint64_t taken; /* last number given to a post */
    uint64_t over;  /* bit i: consumed + 1 + i is over */
    uint64_t floor; /* a lower bound of everybody's consumed */
    hd_op_t *queue, **queue_tail;
    uint64_t queue_deadline; /* the earliest of those in the queue; 0: none */
    uint64_t floor_target;
    uint32_t floor_cursor;           /* members below it are known to have consumed floor_target */
    _Atomic(uint8_t *) staging;      /* depth slots of group->staged_slot; NULL until first use */
    hd_data_line_t *lines;           /* to be freed: see `shared` */
    _Atomic(hd_leaning_t *) leaning; /* leaning.h; NULL until first use */
};

/* A block's line of release (core/tree.h): what came down from the origin. Written by the block's
 * first endpoint, read by those to whom hd_tree_release names it. Or one step's record of one
 * member (butterfly.c). */
typedef struct hd_release {
    alignas(HD_LINE) _Atomic uint64_t seq; /* k once written */
    int32_t status;
    uint32_t signature; /* the writer's */
    union {
        uint8_t payload[HD_RESULT_MAX];
        /* bcast beyond HD_RESULT_MAX: the writer's staging slot: how far from the exchange */
        ptrdiff_t at;
    };
} hd_release_t;

_Static_assert(sizeof(hd_release_t) == HD_LINE, "what is released is in the line of its number");

/* Shared. One block of an arrival tree in one exchange. Who uses the first line is decided once per
 * group. */
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

/* Shared. One member's share of an exchange's work; initialised by that member before it
 * publishes. */
typedef struct hd_slice {
    alignas(HD_LINE) _Atomic uint64_t claim; /* generation:32 | closed:1 | next:31, see engine.c */
    _Atomic uint64_t finished;               /* generation:32 | units finished:32 */
    _Atomic uint32_t
        ready;      /* so many units, the first ones, may be claimed: all, but see outer.h */
    uint32_t units; /* pieces of work in this slice, at least 1 */
    uint32_t batch; /* pieces taken by one claim */
    uint32_t parts; /* pieces that one block is cut into */
    union {         /* its owner's buffers; only where engine.c, or near.c, says so */
        hd_expose_t expose;
        hd_near_t near;
    };
    union {
        /* generation:32 | a bit per unit; only in an outer stage's slices */
        _Atomic uint64_t under_way;
        uint64_t vectors; /* near.c: how far from the mapping's base its owner's counts are */
    };
} hd_slice_t;

_Static_assert(sizeof(hd_slice_t) == HD_LINE, "one look at a slice tells all about it");

/* Memory for DIRECT work in one exchange; installed on first use, lives as long as the board. src,
 * dst, call: entry i written by member i before it publishes, read after all arrived, or (call)
 * after a successful claim; not used where lanes or slices carry the same (engine.c). */
typedef struct hd_work {
    hd_slice_t *slice;
    const void **src;
    void **dst;
    const hd_call_t **call;
    bool placed; /* the arrays are part of a board's place in a mapping */
} hd_work_t;

/* How the work of a DIRECT exchange is cut, and what is to be done: the engine knows no more of a
 * collective. Pure functions of the arguments that all members agree on, but for the v types, where
 * a slice's units are counted by its owner. Slice s belongs to member s mod n of the exchange's n
 * members: it registers the slice, and begins its work with it. There may be fewer slices than
 * members, or more, as far as hd_board_slices goes. */
typedef struct hd_work_row {
    /* by the owner of slice s, by way of hd_slice_set or what outer.h has */
    void (*layout)(const hd_op_t *op, uint32_t s, hd_slice_t *slice);
    /* after a claim: does one unit of slice s */
    ucc_status_t (*run)(const hd_op_t *op, const hd_work_t *work, uint32_t s, uint32_t unit);
    /* devices': how many slices there are, at least 1; NULL: whoever makes the plan decides it */
    uint32_t (*slices)(const hd_op_t *op);
    /* by what plan.c cuts the work */
    uint8_t streams_each, streams_more; /* a byte of a unit is so often read or written */
    uint8_t receives;                   /* hd_work_receives_t */
    bool windowed;                      /* slices are runs of windows of one block */
    bool pulled;                        /* others take from one, who is soon done with its own */
    bool by_destination;                /* slices are those of members that get data, not give it */
    bool vector, reducing;              /* as the collective is */
} hd_work_row_t;

typedef enum hd_work_receives {
    HD_WORK_OWN_BLOCK = 0, /* bytes: a member's block, or all of it where there is one */
    HD_WORK_ALL_BLOCKS,    /* n times that */
    HD_WORK_TOTAL          /* total */
} hd_work_receives_t;

/* Shared. */
typedef struct hd_exchange {
    /* result line: written once per use by the last arriver (or the tree's root); read by all */
    alignas(HD_LINE_PAIR) _Atomic uint64_t arrived; /* k when all have arrived (trees only) */
    int32_t arrived_status;
    uint8_t result[HD_RESULT_MAX];
    /* end line: written once per use by whoever finishes the last slice (trees only) */
    alignas(HD_LINE) _Atomic uint64_t done; /* k when all work is finished */
    int32_t done_status;
    /* work line: touched once per slice (trees only), but for the status. The first two are put to
     * 0 by member 0 before it publishes: nobody works before that */
    alignas(HD_LINE) _Atomic uint32_t slices_done;
    _Atomic uint32_t hint;        /* first slice that may still have units */
    _Atomic uint64_t work_status; /* generation:32 | first error that a chunk met:32 */
    hd_lock_t turn;               /* held by who is inside the user's reduction: only ever tried */
    _Atomic uint64_t far;         /* 1 + the set of windows that it has; 0: none (far.c) */
    /* outer line: only for exchanges that go on outside the group (outer.h) */
    alignas(HD_LINE) _Atomic uint64_t outer;
    _Atomic uint64_t ferry; /* key:48 | 1 + the area that it has (span/ferry.c) */
} hd_exchange_t;

_Static_assert(offsetof(hd_exchange_t, result) + HD_RESULT_MAX <= HD_LINE &&
                   offsetof(hd_exchange_t, done) == HD_LINE &&
                   offsetof(hd_exchange_t, slices_done) == 2 * HD_LINE,
               "result, end and work have a line each");

/* What a mapping keeps with a slot of the ring, for the exchanges that have it in turn: where their
 * memory lies, and what is nobody else's. */
typedef struct hd_slot {
    hd_block_t *block[2]; /* [0] canonical tree, [1] topology tree (may be the same array) */
    hd_release_t *record; /* butterfly.c: `steps` of each member; NULL: there are none */
    _Atomic(hd_work_t *) work;
    _Atomic(hd_outer_memory_t *) flight; /* of an outer stage */
    _Atomic(hd_far_t *) far;             /* of work on buffers that not all reach */
} hd_slot_t;

/* Members of an active set: team endpoints start, start + stride, ... */
typedef struct hd_subset {
    uint64_t start;
    int64_t stride;
    uint32_t n;
    uint32_t local; /* of them in this process: the members of its boards */
} hd_subset_t;

/* Shared. What there is of a board beside its exchanges and members. */
typedef struct hd_head {
    alignas(HD_LINE) _Atomic uint64_t floor; /* largest floor anybody computed by scanning */
    /* boards found by matching (match.c): */
    uint64_t use;              /* how often it was taken; depth-1 boards: number of the exchange */
    _Atomic uint32_t to_leave; /* members that have not left this use yet */
    hd_subset_t subset;        /* whose use this is; n is 0: all endpoints */
    uint64_t ordinal;          /* of this use, in spanning groups: see hd_exchange_name_t */
    _Atomic uint64_t said;     /* which wait the last line about this board was for (stall.c) */
} hd_head_t;

struct hd_board {
    hd_group_t *group;
    uint32_t n, depth, mask;
    uint32_t id;              /* of those found by matching: its number there */
    const hd_tree_t *tree[2]; /* NULL: flat. [0] canonical, [1] by topology */
    hd_tree_t *own_tree;      /* active sets: to be destroyed with the board */
    uint32_t steps, steps_by; /* of a butterfly, the most; and which tree it goes by that reduces
                               * nothing. 0: the group has none */
    bool at_once;             /* it takes one step in all */
    hd_exchange_t *exchange;  /* depth of them */
    hd_slot_t *slot;          /* likewise */
    /* by number; allocated by (and near) their endpoints. NULL: of another mapping */
    hd_member_t **member;
    hd_shared_t **shared; /* by number; likewise, or where they lie in this mapping */
    hd_head_t *head;
    struct hd_match_entry *entry; /* boards found by matching (match.c) */
    uint64_t named, ordinal;      /* of those, in a mapping: the last use that was named, and how */
    uint8_t *at; /* where all of the shared memory above lies in a mapping; NULL: in none */
    size_t entry_bytes;
};

typedef struct hd_match hd_match_t;

#define HD_GROUP_ABANDONED (UINT32_C(1) << 31) /* in `joined`: it never becomes n */

enum { HD_FAR_MOST = 256 }; /* mappings that may be apart */

/* Shared: the line before a group (hd_common). So is the group's first one, of its bell: what all
 * look at is at or next to the group's own address. */
typedef struct hd_common {
    alignas(HD_LINE) _Atomic int32_t poison; /* 0, or what all operations end with; set once */
    _Atomic uint32_t n_left;                 /* endpoints that have left (leave.c) */
    _Atomic uint32_t joined;    /* endpoints whose members are in place; HD_GROUP_ABANDONED */
    _Atomic bool said_mismatch; /* which is one line, whoever finds it */
    /* processes that one of those that share this has lost, as bits: set before the poison */
    _Atomic uint64_t lost[(HD_FAR_MOST + 63) / 64];
    _Atomic uint64_t given_away; /* bytes of the mapping that boards have (mapping.c) */
    _Atomic uint64_t ferries; /* where the table of areas lies, from the base (span/ferry.c); 0: not
                              * made yet */
} hd_common_t;

/* Shared. An endpoint's part of the team's memory. */
struct hd_part {
    _Atomic uint64_t word; /* of reach.h; 0: it has none, or has not joined */
    uint64_t bytes;
};

/* May members write into each other's parts (put.c)? Once it is not OPEN, it stays as it is. */
typedef enum hd_puts { HD_PUTS_OPEN = 0, HD_PUTS_NO, HD_PUTS_YES } hd_puts_t;

typedef struct hd_group_config {
    uint32_t depth, persistent_depth, flat_max;
    size_t lines_max, staged_max, direct_above, chunk;
    size_t streaming_min; /* HD_CFG_AUTO: by the machine's caches */
    size_t pull_min;
    hd_crossovers_t crossovers; /* of the machine's profile; all zero: without one */
    bool two_sided, check;
    uint8_t xpmem;           /* hd_cfg_xpmem_t */
    int arrival;             /* hd_cfg_arrival_t */
    int tree;                /* hd_cfg_tree_t */
    uint64_t stall, timeout; /* ticks; 0: never */
    uint32_t staging_min;    /* bytes of a member's staging slot, at least; a multiple of a line */
    uint32_t slices;         /* most slices of an exchange, if there are fewer members */
    bool spanning; /* operations may have an outer stage (outer.h): all arrive by a tree */
    /* its memory can be mapped, also by others, so many times more (hd_group_again); 0: it is
     * private. Not with `spanning` */
    uint32_t mappings;
    /* or its members live in so many processes of one node, each of which has a mapping of its own
     * (hd_group_of); 0 or 1: they live in one. process: the number of this one */
    uint32_t processes, process;
    uint32_t number; /* of this process in the team, for people */
    bool apart;      /* mappings' members don't reach each other's buffers */
    bool pairs;      /* two endpoints share a mapping (hd_group_again_for) */
    bool asked;      /* its process answers who asks for its teams (form/told.h) */
} hd_group_config_t;

/* What follows from where the endpoints run. */
typedef struct hd_ruling {
    bool known;     /* every endpoint said where it runs, and runs nowhere else */
    bool dedicated; /* every endpoint is held on a processor of its own */
    bool lacking;   /* there are more endpoints than processors */
} hd_ruling_t;

/* Shared, at the beginning of a mapping: what all of them have to know alike. */
typedef struct hd_charter {
    alignas(HD_LINE_PAIR) uint32_t n, mappings;
    hd_group_config_t config;  /* but for `stall` and `timeout`, which are each process's own */
    _Atomic uint32_t is_ruled; /* 1: by the last endpoint to join */
    hd_ruling_t ruling;
    _Atomic uint64_t processors[HD_TOPO_SET_WORDS]; /* a set: what its processes may use together */
    /* parts.c: mappings that reach all parts; and what follows (hd_puts_t), once for all of them */
    _Atomic uint32_t reaching, puts;
} hd_charter_t;

/* Where the group's memory is mapped several times: of this one (mapping.c). */
typedef struct hd_mapping {
    uint8_t *base;      /* NULL: it is not mapped, but private memory */
    size_t bytes;       /* up to the end of what is shared */
    uint32_t n, number; /* how many there are, and which of them this is */
    bool made;          /* it was the first one */
    hd_group_t *first;  /* that of this process which was made first; a reference. NULL: this one */
    int fd; /* of the first one of several processes, until it is taken (hd_group_take_segment) */
    _Atomic uint32_t settled; /* see hd_group_is_complete */
    /* Of the first, where two endpoints share a mapping: by pair, that which one of them has; under
     * the lock */
    hd_lock_t lock;
    hd_group_t **half;
} hd_mapping_t;

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
    size_t streaming_min; /* bytes an endpoint receives from which stores go past the caches */
    bool dedicated;       /* every endpoint is held on a processor of its own */
    bool check;           /* CHECK: operations without data take part, too */
    bool two_sided;       /* SYNC or CHECK: every operation is entered and left by all together */
    bool static_arrival;  /* fixed combiners instead of last arrivers: everybody has a processor */
    bool butterfly;       /* and none at all, where all wait for all (butterfly.c) */
    /* hd_arrival_t, beyond few members: [1]: where all wait for all; [1][1]: and reduce */
    uint8_t arrives_by[2][2];
    uint8_t steps_by;      /* see hd_board_t */
    bool at_once;          /* so do those of its boards that have few members */
    uint32_t slices;       /* see hd_board_slices */
    bool spanning;         /* boards of any size have a tree */
    uint32_t staging_slot; /* bytes of a member's staging slot, for staged data or a relay's */
    void (*_Atomic on_poison)(const hd_group_t *group); /* NULL: nothing */
    uint64_t stall;   /* ticks after which a wait is talked about; 0: never */
    uint64_t timeout; /* ticks after which an operation without a time-out fails; 0: never */
    hd_board_t *board;
    hd_tree_t *canonical, *by_topology;
    hd_locality_t *locality; /* by endpoint; shared */
    hd_match_t *match;
    uint64_t *labels; /* by endpoint of the team: the user's names of endpoints; shared */
    uint32_t team_n;  /* endpoints of the team in all its processes */
    /* by member, ascending: its endpoint's number in a team of several processes; NULL: the same */
    const uint32_t *numbers;
    hd_outer_memory_t *outside; /* what lies above keeps with it then; released with the group */
    struct hd_region {
        void *address;
        size_t bytes;
        bool owned;
    } * region; /* by endpoint: the memory of the team, where it is here; of other processes, too */
    int arrival, tree_choice;  /* configuration, for seal */
    _Atomic uint32_t complete; /* all have joined; trees and arrival are decided */
    /* of a group with something outside: all have joined; and how many of this and that are ready
     * (hd_group_ready) */
    _Atomic uint32_t sealed, halves;
    hd_fork_hook_t fork_hook; /* see leave.c */
    uint32_t forks;           /* hd_forks() when it was made */
    _Atomic bool said_inherited;
    hd_group_config_t config; /* as given */
    hd_mapping_t mapping;
    hd_charter_t *charter; /* NULL: not mapped */
    hd_births_t *births;   /* likewise */
    /* what lies above keeps with a group of several processes; `ends` and `release` are called as
     * those of `outside` */
    hd_outer_memory_t *kin;
    bool apart;        /* members of other mappings don't reach this one's buffers, nor it theirs */
    uint32_t *home_of; /* by endpoint: the number of its mapping; shared. NULL: not mapped */
    uint8_t *far;      /* windows (far.c); NULL: there are none */
    /* bytes of a block from which data are read by the kernel (pull.c), and that a member receives
     * from which they aren't after all */
    size_t pull_min, pull_end;
    uint8_t *readers;            /* who does; shared */
    uint8_t *yields;             /* of processors (hd_processors_share); shared */
    uint64_t token[2];           /* by which it is known that this process is read, and no other */
    size_t windows, windows_end; /* where those lie, from the mapping's base */
    /* by endpoint: the team's memory, as other processes know it (parts.c); shared. NULL: all
     * endpoints live in this one */
    hd_part_t *part;
    uint32_t near_above; /* of those apart: what would be DIRECT if all reached all buffers */
    uint32_t plain_most; /* bytes of results up to which nothing but plain stores is asked for */
    size_t string_min, string_end; /* bytes that a core copies: by string instructions between */
    uint8_t streaming;             /* hd_stores_t: by which stores go past the caches */
    uint8_t *who;                  /* the processes, as people know them (who.c); shared */
    hd_reach_t *reach; /* heaps that members have buffers in (reach.h); NULL: they are not apart */
    /* parts.c. awaits_parts: all have joined, but that is not decided yet; since when, in ticks */
    _Atomic uint32_t awaits_parts;
    uint64_t awaits_since;
    hd_lock_t parts_lock; /* guards what follows, and others' entries of region until then */
    bool reaches_parts;   /* this mapping has said so */
    bool puts;            /* of members that are apart: it was decided that they may */
    hd_crossovers_t crossovers;
    hd_lock_t waits_lock;        /* guards what is there: */
    _Atomic(hd_waits_t *) waits; /* waits.c; NULL until first use */
};

_Static_assert(offsetof(hd_group_t, home) == 0, "threads/ knows a group as its home");
_Static_assert(sizeof(hd_common_t) == HD_LINE && offsetof(hd_group_t, home.bell.lock) == HD_LINE,
               "a line before a group and its first one are shared, and what follows may lie in "
               "another page");

static inline hd_common_t *hd_common(const hd_group_t *group) {
    return (hd_common_t *)((uintptr_t)group - sizeof(hd_common_t));
}

/* --- an operation ----------------------------------------------------------------------------- */

/* The phases of an operation, in the only order that occurs; op.c goes from one to the next (into
 * LOCAL, whoever waits for the arrival). What crosses processes is part of LOCAL here, whose units
 * it is, or of ARRIVE, which it releases. */
typedef enum hd_phase_kind {
    HD_PHASE_MATCH = 0, /* waits for its exchange, its window there, or an event; not published */
    HD_PHASE_COPY_IN,   /* launched; its frame has something to do before it publishes */
    HD_PHASE_ARRIVE,    /* published; the family's step runs */
    HD_PHASE_LOCAL,     /* DIRECT: works on the engine's units, waits for the end */
    HD_PHASE_NETWORK,   /* among processes; only in what people are told (phases.h) */
    HD_PHASE_COPY_OUT,  /* its board is left; its frame has something to do yet */
    HD_PHASE_KINDS
} hd_phase_kind_t;

/* An operation's FRAME: what its owner does before it publishes and after its exchange is over, for
 * its buffers' sake. Constants, of the folders above; NULL where there is nothing to do. */
typedef struct hd_frame {
    const char *needs; /* what COPY_IN and COPY_OUT wait for, in lines about it */
    /* At the launch. UCC_OK: the operation publishes now (op->start); UCC_INPROGRESS: when copy_in,
     * which is called in each of its steps unless the group has failed, returns that. */
    ucc_status_t (*enter)(hd_op_t *op);
    ucc_status_t (*copy_in)(hd_op_t *op);
    /* The launch has failed in `enter` or op->start: takes back what `enter` has done. */
    void (*undo)(hd_op_t *op);
    /* The exchange is over with this status, or the operation has failed before it was in one.
     * Returns the status with which the operation ends; UCC_INPROGRESS: it has left its board
     * (hd_op_leave), and copy_out is called in each of its steps until it returns that. */
    ucc_status_t (*finish)(hd_op_t *op, ucc_status_t status);
    ucc_status_t (*copy_out)(hd_op_t *op);
    void (*drop)(hd_op_t *op); /* the operation ends before `enter` has been called */
} hd_frame_t;

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
    const hd_frame_t *frame;              /* packed datatypes, devices; NULL: it has none */
    /* its step in MATCH, of whoever makes operations (request/); of those in a board's queue it is
     * hd_op_step_queued */
    ucc_status_t (*match)(hd_op_t *op);
    /* set per post */
    hd_group_t *group;
    hd_lane_t *lane;
    hd_exchange_t *exchange;
    hd_slot_t *slot; /* its process's part */
    uint8_t phase;   /* hd_phase_kind_t */
    /* Its step is more than the family's, or another one: it is in MATCH, COPY_IN or COPY_OUT,
     * cancels, is abandoned, or calls user's code. */
    bool apart;
    bool cancels;               /* closes the exchange, and waits for chunks in flight */
    bool abandoned;             /* user's code has not returned */
    uint32_t team_ep;           /* my number in the team; place.me is my number on the board */
    ucc_status_t why;           /* cancels: what to report */
    bool calls_user;            /* a step may call user's code (threads/callback.h) */
    bool completer;             /* outer: I have completed the arrival */
    uint8_t outer_shape;        /* HD_OUTER_* of outer.h */
    void (*leave)(hd_op_t *op); /* matched boards: gives the board back; else NULL */
    uint32_t cursor;            /* lanes before it are dealt with */
    uint32_t finished;          /* so many slices after mine are finished (flat) */
    hd_plan_t plan;             /* how it runs; made at init, or by the first start */
    hd_expose_t expose;         /* DIRECT, published: what my lane says */
    uint32_t watch;             /* lane the mismatch watch looks at next */
    uint32_t arrive_level;      /* static arrival: next level to combine */
    uint32_t arrive_which;      /* tree in use */
    hd_tree_release_t release;  /* my part in it; relays is 0 once I have handed on */
    bool arriving;              /* entered the arrival tree */
    bool saw_all;               /* every lane of k was seen: says where the floor is */
    uint8_t arrival;            /* HD_ARRIVE_*: what the arrival tree is for */
    bool any_direct;            /* some lane is DIRECT */
    bool exposed;               /* peers may work on my buffers: by the engine, or one-sidedly */
    bool numbered;           /* takes part in the board's flow control (not on boards of depth 1) */
    bool own_finished;       /* so is mine, as I know without looking */
    uint32_t turn;           /* the user's reduction: the slice that I work on */
    hd_op_t *queue_next;     /* MATCH: of its member's queue, or of the handle's early operations */
    const hd_outer_t *outer; /* the stage that goes on outside the group; NULL: there is none */
    /* of the whole collective, in whichever processes its endpoints live; place has what this board
     * counts */
    uint32_t n, me;
    const struct hd_span *span; /* which of those live where (span/span.h); NULL: all live here */
    struct hd_device_part
        *device; /* what devices have to know of it (device/internal.h); NULL: nothing yet */
};

/* What an arrival tree is for, besides to tell that all have come. */
enum {
    HD_ARRIVE_REDUCING = 1, /* it combines payloads */
    HD_ARRIVE_OUTER = 2 /* who completes it calls the outer stage instead of telling everybody */
};

_Static_assert(offsetof(hd_op_t, task) == 0, "threads/ knows an operation as its task");

#endif
