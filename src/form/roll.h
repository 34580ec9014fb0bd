/* roll.h: calling the roll. Members of an exchange (endpoints that form a team, contexts, or
 * processes) have to find out, when they live in several processes, who lives where, and how each
 * process is reached by the network. The owner of a roll makes the exchanges itself; the roll says
 * what is exchanged, and reads what has come:
 *
 *      take      after a first exchange, which told each member's process and number: makes the
 *                span. From now on all members go the same way together
 *      open      every member gets the process's network; the first member to come makes it. Each
 *                has a reference, so the address stays what it is until the last of them is done
 *      accounts  a second exchange: how each member got on, and how long its process's address is.
 *                A member in trouble says so here, instead of leaving the others waiting for its
 *                part. All memory that the rest needs is there before this exchange; if an address
 *                is longer than the memory, all members see that, make more room, and exchange
 *                accounts again
 *      slices    a third exchange: the addresses, of which each member of a process gives a slice
 *
 * So a member that lacks memory, or anything else, tells the others before it leaves: nobody waits
 * for it in an exchange. A member that lacks memory before the first exchange takes part in that
 * one all the same, with a record that says why it can't go on.
 *
 * A roll has one owner, and only the owner calls these functions.
 */
#ifndef HD_FORM_ROLL_H
#define HD_FORM_ROLL_H

#include "span/span.h"

/* A member, as the first exchange told of it. */
typedef struct hd_called {
    uint64_t process[2];
    uint32_t number, place; /* its number among the members, and its place in the exchange */
} hd_called_t;

typedef struct hd_account {
    int32_t status;
    uint32_t bytes; /* length of its process's address */
} hd_account_t;

typedef struct hd_roll {
    hd_span_t *span;         /* who lives where; NULL: there was no memory */
    uint32_t *place_of;      /* by member's number: the member's place in the exchange */
    uint64_t (*identity)[2]; /* by process of the span */
    hd_net_t *net;           /* a reference */
    uint32_t number;         /* this member's */
    ucc_status_t trouble;    /* why this member can't go on; UCC_OK: it can */
    hd_account_t mine;       /* what this member gives to the second exchange */
    hd_account_t *told;      /* what all gave to it, by place; the owner's memory */
    /* there is memory for addresses of so many bytes; all have the same number */
    uint32_t room;
    uint8_t *my_slice;         /* what this member gives to the third exchange */
    uint8_t *slices;           /* what all gave to it, by place */
    uint32_t slice;            /* bytes of a slice */
    hd_net_process_t *process; /* room for what the slices say, with the addresses behind */
} hd_roll_t;

/* Makes the span of n members, whom `called` lists, and all memory for the rest. Sorts `called`;
 * NULL: the caller had no memory for the list. If anything is missing, roll->trouble says so, and
 * the next exchange tells the others. */
void hd_roll_take(hd_roll_t *roll, hd_called_t *called, uint32_t n, uint32_t my_number);
/* Opens the network. UCC_INPROGRESS: the caller comes again. UCC_OK, also in trouble: `mine` is to
 * be exchanged next. */
ucc_status_t hd_roll_open(hd_roll_t *roll, const hd_config_t *config);
/* Called after the second exchange. UCC_OK: the third exchange follows, of `slice` bytes.
 * UCC_INPROGRESS: `mine` is to be exchanged once more. Else it returns why the first member in
 * trouble can't go on, and sets *number to that member's. All members get the same, but for one
 * without a span, which gets its own trouble. */
ucc_status_t hd_roll_heard(hd_roll_t *roll, uint32_t *number);
/* Called after the third exchange. Returns the processes as the net knows them, by number, in one
 * block with their addresses, which is the caller's then (hd_free). */
hd_net_process_t *hd_roll_processes(hd_roll_t *roll);
/* Frees all that the roll still has. */
void hd_roll_end(hd_roll_t *roll);

/* Makes an allgather of `oob`, from its beginning to its end: for calls that block by contract.
 * who: what takes part, for the log ("context"). stall: ticks after which the wait is logged. */
ucc_status_t hd_roll_exchange(const ucc_oob_coll_t *oob, const char *who, uint64_t stall,
                              void *mine, void *all, size_t bytes);
/* Takes part in that allgather for a member that can't go on, as `mine` says. What the others say
 * is of no interest any more. */
void hd_roll_refuse(const ucc_oob_coll_t *oob, const char *who, uint64_t stall, void *mine,
                    size_t bytes);
/* Returns zeroed memory to take part in an exchange with, aligned to HD_LINE_PAIR: from the heap,
 * or, if that has none, one of a few pieces that the library keeps for this. NULL: those are in
 * use, or too small (logged). */
void *hd_roll_room(size_t bytes);
/* Gives back what hd_roll_room returned. */
void hd_roll_end_room(void *room);

#endif
