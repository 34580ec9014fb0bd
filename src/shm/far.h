/* far.h: the windows through which data cross between members who do not reach each other's
 * buffers, and what a process keeps of an exchange that uses them. far.c says what they are for;
 * far_memory.c is below it, and below the boards, whose memory this is.
 */
#ifndef HD_SHM_FAR_H
#define HD_SHM_FAR_H

#include "shm/internal.h"

enum {
    HD_FAR_WINDOWS = 4,                /* of a ring */
    HD_FAR_LEAST = 8 * 1024,           /* bytes of a piece, unless an element has more */
    HD_FAR_LARGEST = 1024 * 1024,      /* of an `in` or `out` window */
    HD_FAR_KINDS = 4,                  /* of slices */
    HD_FAR_PULL = 256 * 1024,          /* bytes that one unit reads where data are pulled */
    HD_FAR_SHARED = 64 * 1024,         /* at least, where both ends copy */
    HD_FAR_SOURCES = HD_FAR_SHORT / 16 /* sources that a window tells of */
};

#define HD_FAR_NONE UINT32_MAX

/* Shared. Both words are (epoch:32 | count:32): the set's use of that epoch counts from 0. */
typedef struct hd_window {
    alignas(HD_LINE) _Atomic uint64_t filled; /* how often; by its writer */
    _Atomic uint64_t emptied;                 /* by each of its readers */
    uint32_t rounds;                          /* its writer counts so many */
    bool tells;     /* it has no data, but says where they are (hd_far_source_t) */
    uint64_t block; /* bytes of the block of which it has a piece */
    /* ends.c: which parts are taken, and how many the source has written; by epoch, as above */
    _Atomic uint64_t taken, written;
} hd_window_t;

/* A source that others read by the kernel: where it is in its process, and its bytes. */
typedef struct hd_far_source {
    uint64_t at, bytes;
} hd_far_source_t;

_Static_assert(sizeof(hd_far_source_t) * HD_FAR_SOURCES == HD_FAR_SHORT, "a window of sources");

/* By pairs, or by rounds? */
static inline bool hd_far_is_by_pairs(const hd_coll_t *coll) {
    return coll->pairwise || (!coll->reducing && !coll->bcast && coll->flow != HD_AMONG_ALL);
}

/* Bytes of a pair's window. Of many processes there are many pairs, whose windows are short: a
 * cache holds 8 MiB. */
static inline size_t hd_far_pair_bytes(uint32_t mappings) {
    size_t share = ((size_t)8 << 20) / HD_FAR_WINDOWS / mappings / mappings / 4096 * 4096;
    return share < HD_FAR_SHORT ? HD_FAR_SHORT : share < HD_FAR_LONG ? share : HD_FAR_LONG;
}

/* One window, wherever it is. */
typedef struct hd_window_place {
    hd_window_t *word;
    uint8_t *data;
} hd_window_place_t;

/* What one member has for another one: its parts begin with that number in their ring. */
typedef struct hd_far_pair {
    uint32_t s, d, first;
} hd_far_pair_t;

typedef struct hd_far_ring {
    uint32_t first, pairs, parts; /* its first pair in the list, how many, and their parts */
} hd_far_ring_t;

/* Private. Arrays have an entry for each member of the board, or for each process among them;
 * processes are counted here as they come in the order of members. */
struct hd_far {
    hd_lock_t lock; /* guards preparing and closing */
    /* Exchanges are known by keys that don't come again on their board (hd_far_key). */
    _Atomic uint64_t prepared; /* the last one for which what follows is valid */
    uint64_t closed;           /* the last one that was cancelled before that */
    uint32_t n, processes, mine;
    /* its set of windows, if there are other processes: which one, its use, and where it lies, with
     * the rings' data in it */
    uint32_t set;
    uint64_t epoch;
    uint8_t *base;
    size_t in, out, pair;
    uint32_t *number;  /* by member: its number in the group */
    uint32_t *process; /* by member: which of the processes; HD_FAR_NONE: it takes no part */
    uint32_t *direct;  /* by member: 1 if its own data go this way */
    uint32_t *mapping; /* by process: its mapping's number */
    uint32_t *member;  /* mine, ascending; `near` of them */
    uint32_t near;
    /* by rounds */
    uint32_t rounds, positions;
    uint32_t *executor, *rank; /* by position; rank: among its executor's */
    uint32_t *own, *other;     /* positions that this process executes, or does not; ascending */
    uint32_t *share;           /* by process: positions of a round that it executes */
    size_t piece;              /* bytes of a piece, by rounds; of a part that goes by windows */
    bool pulls;                /* by rounds: others read it where it is */
    bool shared, is_source;    /* both ends copy (ends.c); this process has it, the other reads */
    bool open;                 /* of the reader: the source can write to all targets */
    /* by pairs, by process: it pulls what mine have for it; mine pull what it has for them */
    uint32_t *pulled, *pulling;
    uint32_t n_own, n_other;
    hd_far_pair_t *pairs; /* by pairs: the rings' pairs, one ring after the other ... */
    hd_far_ring_t *ring[HD_FAR_KINDS]; /* ... and, by process, the rings that units take parts of */
    uint32_t room;                     /* for so many near members */
    ucc_status_t (*arrived)(hd_op_t *op); /* hd_arrived */
    hd_slice_t slice[HD_FAR_KINDS];
    hd_work_t work; /* buffers and calls, by member; of near ones */
    /* By member: room for two pointers for each member, which only that one uses, at work */
    void ***scratch;
    /* near.c: the last key for which what follows is decided, and `work` is whole; are all buffers
     * in reach? */
    _Atomic uint64_t decided;
    ucc_status_t nearness;      /* as hd_near_begins returns it */
    bool vanishes;              /* it is near, and some buffers vanish with their process */
    _Atomic size_t near_window; /* how the work is cut then: as each member writes it */
    _Atomic uint32_t near_slices;
    hd_call_t *shown; /* by member: calls of other processes' members; NULL: none yet */
    uint64_t
        *vectors; /* by member: of this process's, where its counts are shown; 0: nowhere yet */
};

/* --- pull.c: by the kernel -------------------------------------------------------------------- */

/* Does the process of this mapping read all others' buffers by the kernel? By whoever has found
 * that all have arrived. */
bool hd_pull_reads(const hd_group_t *group, uint32_t mapping);
/* Copies so many bytes from there in that mapping's process. UCC_ERR_IO_ERROR (logged): they can't
 * be read. */
ucc_status_t hd_pull(const hd_op_t *op, uint32_t mapping, void *to, uint64_t from, size_t bytes);

/* Does the process of this mapping write to all others', too? */
bool hd_pull_writes(const hd_group_t *group, uint32_t mapping);
/* Would the kernel let others copy to that memory of this process? What devices have mapped, or
 * secret memory, only the process itself reaches. */
bool hd_pull_is_open(const void *at, size_t bytes);
/* Copies so many bytes to there in that mapping's process. UCC_ERR_IO_ERROR (logged): they can't
 * be written. */
ucc_status_t hd_push(const hd_op_t *op, uint32_t mapping, uint64_t to, const void *from,
                     size_t bytes);

/* --- ends.c: parts that both ends copy -------------------------------------------------------- */

enum { HD_ENDS_MOST = 32767 }; /* parts */

/* By the reader, before anybody takes a part: none is taken in this use of the set. */
void hd_ends_open(const hd_far_t *far, hd_window_t *window);
/* Takes the next of so many parts. False: there is none any more. */
bool hd_ends_take(const hd_far_t *far, hd_window_t *window, uint32_t parts, bool is_source,
                  uint32_t *part);
/* By the source: a part that it has taken is written, or failed. */
void hd_ends_wrote(const hd_far_t *far, hd_window_t *window);
/* By the reader: are all parts taken, and those of the source written? */
bool hd_ends_are_done(const hd_far_t *far, const hd_window_t *window, uint32_t parts);
/* By a reader that cancels: no part is taken any more. False: the source writes one. */
bool hd_ends_close(const hd_far_t *far, hd_window_t *window);

/* What this process keeps with the slot of op's exchange; NULL: nothing yet, or no memory. */
hd_far_t *hd_far_of(const hd_op_t *op);
/* arrived: see hd_far_start. */
hd_far_t *hd_far_install(const hd_op_t *op, ucc_status_t (*arrived)(hd_op_t *op));

/* The windows of a member's ring, of a process's, and of a pair's, for the use of this number. */
hd_window_place_t hd_far_in_window(const hd_far_t *far, uint32_t m, uint32_t use);
hd_window_place_t hd_far_out_window(const hd_op_t *op, const hd_far_t *far, uint32_t p,
                                    uint32_t use);
/* From process p to process q. */
hd_window_place_t hd_far_pair_window(const hd_op_t *op, const hd_far_t *far, uint32_t p, uint32_t q,
                                     uint32_t use);

/* The count of a word, in this use of the set. */
static inline uint32_t hd_far_count(const hd_far_t *far, uint64_t word) {
    return word >> 32 << 32 == far->epoch ? (uint32_t)word : 0;
}

static inline bool hd_far_is_filled(const hd_far_t *far, hd_window_place_t at, uint32_t use) {
    /* acquire: pairs with hd_far_fill; what it holds */
    uint64_t word = atomic_load_explicit(&at.word->filled, memory_order_acquire);
    return hd_far_count(far, word) > use / HD_FAR_WINDOWS;
}

static inline bool hd_far_is_empty(const hd_far_t *far, hd_window_place_t at, uint32_t use,
                                   uint32_t readers) {
    /* acquire: pairs with hd_far_empty; those who read what was there are done */
    uint64_t word = atomic_load_explicit(&at.word->emptied, memory_order_acquire);
    return hd_far_count(far, word) == use / HD_FAR_WINDOWS * readers;
}

static inline void hd_far_fill(const hd_far_t *far, hd_window_place_t at, uint32_t use) {
    hd_delay_point();
    /* release: the data; pairs with hd_far_is_filled */
    atomic_store_explicit(&at.word->filled, far->epoch | (use / HD_FAR_WINDOWS + 1),
                          memory_order_release);
}

static inline void hd_far_empty(const hd_far_t *far, hd_window_place_t at) {
    /* relaxed: a guess */
    uint64_t word = atomic_load_explicit(&at.word->emptied, memory_order_relaxed), next;
    do {
        next = far->epoch | (hd_far_count(far, word) + 1);
        hd_delay_point();
        /* release: my reads; pairs with hd_far_is_empty, also after those of others */
    } while (!atomic_compare_exchange_weak_explicit(&at.word->emptied, &word, next,
                                                    memory_order_release, memory_order_relaxed));
}

/* What an exchange is called among those of its board, of all uses. */
static inline uint64_t hd_far_key(const hd_op_t *op) {
    const hd_board_t *board = op->place.board;
    return op->place.k + (board->entry && board->depth > 1 ? board->head->use << 40 : 0);
}

/* Takes a set of windows for op's exchange, by whoever has found all arrived, unless it has one.
 * False: there is none now. */
bool hd_far_take_set(const hd_op_t *op, hd_far_t *far);
/* By the last one who was at work there. */
void hd_far_give_set(const hd_op_t *op, const hd_far_t *far);

#endif
