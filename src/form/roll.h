/* roll.h: calling the roll: what members of an exchange (endpoints that form a team, or contexts)
 * have to find out when they live in several processes: who lives where, and how each process is
 * reached by the network.
 *
 *     take      after a first exchange, which told each member's process and number: makes the
 *               span. From now on all members go the same way together
 *     open      every member gets the process's network; the first to come makes it. Each has a
 *               reference, so its address stays what it is until the last of them is done
 *     accounts  a second exchange: how each got on, and how long its process's address is. Whoever
 *               is in trouble says so here, instead of leaving the others waiting for its part. All
 *               memory that the rest needs is there before it; if an address is longer than that,
 *               all see it, make more room, and exchange accounts again
 *     slices    a third: the addresses, of which each member of a process gives a slice
 *
 * So whoever lacks memory, or anything else, tells the others before it leaves: nobody waits for it
 * in an exchange. Who lacks it before the first exchange takes part in that one all the same, with
 * a record that says why it can't go on.
 *
 * By its owner alone.
 */
#ifndef HD_TEAM_ROLL_H
#define HD_TEAM_ROLL_H

#include "span/span.h"

/* A member, as the first exchange told. */
typedef struct hd_called {
    uint64_t process[2];
    uint32_t number, place; /* among the members, and in the exchange */
} hd_called_t;

typedef struct hd_account {
    int32_t status;
    uint32_t bytes; /* of its process's address */
} hd_account_t;

typedef struct hd_roll {
    hd_span_t *span;           /* NULL: there was no memory */
    uint32_t *place_of;        /* by number: its place in the exchange */
    uint64_t (*identity)[2];   /* by process */
    hd_net_t *net;             /* a reference */
    uint32_t number;           /* this member's */
    ucc_status_t trouble;      /* why it can't go on */
    hd_account_t mine;         /* for the second exchange, */
    hd_account_t *told;        /* and what came of it, by place: memory of the owner's */
    uint32_t room;             /* for addresses of so many bytes there is memory, the same at all */
    uint8_t *my_slice;         /* for the third, */
    uint8_t *slices;           /* and what came of it, */
    uint32_t slice;            /* of so many bytes each */
    hd_net_process_t *process; /* and what that says; the addresses lie behind */
} hd_roll_t;

/* Sorts `called`, n of them; NULL: there was no memory for them, which the others hear of. */
void hd_roll_take(hd_roll_t *roll, hd_called_t *called, uint32_t n, uint32_t my_number);
/* UCC_INPROGRESS: come again; else UCC_OK: `mine` is to be exchanged. */
ucc_status_t hd_roll_open(hd_roll_t *roll, const hd_config_t *config);
/* After the second exchange, the same at all: UCC_OK: the third follows, of `slice` bytes;
 * UCC_INPROGRESS: `mine` is to be exchanged once more; else what the first member in trouble says,
 * and its number. */
ucc_status_t hd_roll_heard(hd_roll_t *roll, uint32_t *number);
/* After the third: processes as the net knows them, by number, in one block with their addresses,
 * which is the caller's then (hd_free). */
hd_net_process_t *hd_roll_processes(hd_roll_t *roll);
void hd_roll_end(hd_roll_t *roll);

/* An allgather of `oob`, from its beginning to its end: for calls that block by contract. who:
 * takes part, for the log ("context"); stall: ticks after which the wait is talked about. */
ucc_status_t hd_roll_exchange(const ucc_oob_coll_t *oob, const char *who, uint64_t stall,
                              void *mine, void *all, size_t bytes);
/* The same by who can't go on, as `mine` says; what the others say is of no interest any more. */
void hd_roll_refuse(const ucc_oob_coll_t *oob, const char *who, uint64_t stall, void *mine,
                    size_t bytes);
/* Zeroed memory to take part in an exchange with, from HD_LINE_PAIR on: of the heap; or, where that
 * has none, one of a few pieces that the library has for this. NULL: they are in use, or too small
 * (logged). */
void *hd_roll_room(size_t bytes);
void hd_roll_end_room(void *room);

#endif
