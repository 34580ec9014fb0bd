/* far.h: the windows through which data cross between members who do not reach each other's
 * buffers, and what a process keeps of an exchange that uses them. far.c says what they are for;
 * far_memory.c is below it, and below the boards, whose memory this is.
 */
#ifndef HD_SHM_FAR_H
#define HD_SHM_FAR_H

#include "shm/internal.h"

enum {
    HD_FAR_WINDOWS = 4,           /* of a ring */
    HD_FAR_PIECE = 32 * 1024,     /* bytes of a window that are used, unless an element has more */
    HD_FAR_LEAST = 4 * 1024,      /* but for short data */
    HD_FAR_LARGEST = 1024 * 1024, /* of an `in` or `out` window */
    HD_FAR_KINDS = 3              /* of slices */
};

#define HD_FAR_NONE UINT32_MAX

/* Shared. Both counts begin with 0 for each exchange that has the set. */
typedef struct window {
    alignas(HD_LINE) _Atomic uint32_t filled; /* how often; by its writer */
    _Atomic uint32_t emptied;                 /* by each of its readers */
    uint32_t rounds;                          /* its writer counts so many */
    uint64_t block;                           /* bytes of the block of which it has a piece */
} hd_window_t;

/* One window, wherever it is. */
typedef struct place {
    hd_window_t *word;
    uint8_t *data;
} hd_window_place_t;

/* Private. Arrays have an entry for each member of the board, or for each process among them;
 * processes are counted here as they come in the order of members. */
struct hd_far {
    hd_lock_t lock;            /* guards preparing and closing */
    _Atomic uint64_t prepared; /* the last exchange for which what follows is valid */
    uint64_t closed;           /* the last one that was cancelled before that */
    uint32_t set, n, processes, mine;
    uint32_t *number;  /* by member: its number in the group */
    uint32_t *process; /* by member: which of the processes */
    uint32_t *mapping; /* by process: its mapping's number */
    uint32_t *member;  /* mine, ascending; `near` of them */
    uint32_t near;
    /* by rounds */
    uint32_t rounds, positions;
    uint32_t *executor, *rank; /* by position; rank: among its executor's */
    uint32_t *own, *other;     /* positions that this process executes, or does not; ascending */
    uint32_t *share;           /* by process: positions of a round that it executes */
    uint32_t n_own, n_other, readers;
    uint32_t *feeds, *takes; /* by pairs: parts to and from each member, of each near one */
    uint32_t room;           /* of so many near ones */
    ucc_status_t (*arrived)(hd_op_t *op); /* hd_arrived */
    hd_slice_t slice[HD_FAR_KINDS];
    hd_work_t work; /* buffers and calls, by member; of near ones */
    const void *
        *source; /* HD_FAR_WINDOWS times an entry for each member: operands of an execution */
    void **target;
};

/* What this process keeps with the slot of op's exchange; NULL: nothing yet, or no memory. */
hd_far_t *hd_far_of(const hd_op_t *op);
hd_far_t *hd_far_install(const hd_op_t *op);

/* The windows of a member's ring, of a process's, and of a pair's, for the use of this number. */
hd_window_place_t hd_far_in_window(const hd_op_t *op, const hd_far_t *far, uint32_t m,
                                   uint32_t use);
hd_window_place_t hd_far_out_window(const hd_op_t *op, const hd_far_t *far, uint32_t p,
                                    uint32_t use);
/* From process p to process q. */
hd_window_place_t hd_far_pair_window(const hd_op_t *op, const hd_far_t *far, uint32_t p, uint32_t q,
                                     uint32_t use);

static inline bool hd_far_is_filled(hd_window_place_t at, uint32_t use) {
    /* acquire: pairs with hd_far_fill; what it holds */
    return atomic_load_explicit(&at.word->filled, memory_order_acquire) > use / HD_FAR_WINDOWS;
}

static inline bool hd_far_is_empty(hd_window_place_t at, uint32_t use, uint32_t readers) {
    /* acquire: pairs with hd_far_empty; those who read what was there are done */
    return atomic_load_explicit(&at.word->emptied, memory_order_acquire) ==
           use / HD_FAR_WINDOWS * readers;
}

static inline void hd_far_fill(hd_window_place_t at, uint32_t use) {
    hd_delay_point();
    /* release: the data; pairs with hd_far_is_filled */
    atomic_store_explicit(&at.word->filled, use / HD_FAR_WINDOWS + 1, memory_order_release);
}

static inline void hd_far_empty(hd_window_place_t at) {
    hd_delay_point();
    /* release: my reads; pairs with hd_far_is_empty */
    atomic_fetch_add_explicit(&at.word->emptied, 1, memory_order_release);
}

/* The exchange's set of windows, by whoever has found all arrived; HD_FAR_NONE: it has none, and
 * none is free. */
uint32_t hd_far_set_of(const hd_op_t *op);
/* By the last one who was at work there. */
void hd_far_give_back(const hd_op_t *op, uint32_t set);

#endif
