/* outer.h: what shm has for an OUTER STAGE: what carries an exchange beyond its group, as a network
 * among processes does, or devices.
 *
 * An operation with an outer stage (op->outer) is an ordinary one on its board: same number, lane,
 * signature, window, poison. Its group is spanning, so that its arrival always has a tree, and a
 * last one.
 *
 *     every member    hd_outer_start, or hd_outer_start_work where the engine moves the data
 *     the completer   (whoever completes the arrival) calls stage->arrived, once
 *     any thread      acts for the exchange, by the ref that `arrived` got:
 *                       hd_outer_release  writes the result line: those who wait for it go on
 *                       hd_outer_ready    lets the engine go on with a slice
 *                       hd_outer_claim    before an outer request on users' buffers is started
 *                       hd_outer_finish   after it has completed
 *     waiting members call stage->pump in each step, and work on what is ready
 *
 * Small: the arrival combines operands, `arrived` gets the result, the release brings what came of
 * it outside. Large: `arrived` releases at once; the slices of the stage's own row (hd_work_row_t)
 * are worked on as they become ready, and the exchange is over when all of them are finished, as
 * always.
 *
 * UNITS THAT BECOME READY LATER (hd_slice_later). A slice's `ready` says how many of its units may
 * be claimed; it only grows. Whoever raises it publishes what the units need, and a claimer takes
 * that in.
 *
 * A SLICE OF OUTER REQUESTS (hd_slice_outer). Its units are no copies but requests of the stage,
 * which may read or write users' buffers for as long as they last. No member claims them, for none
 * is ever ready: the stage claims a unit when it starts the request, and finishes it when the
 * request has completed. So the exchange can't end, be cancelled, or be reported before that, by
 * the protocol of engine.c. `under_way` has a bit for each unit that is claimed and not finished: a
 * completion that comes twice, or for a use of the slot that is over, finds no bit.
 *
 * THE OUTER WORD of an exchange, (key:48 | inside:14 | released:1 | closed:1), says who may act.
 * The key is the exchange's number and 16 bits of its board's use. The word is 0 before each use of
 * the board: no exchange finds its own key there, left by an older one.
 *     completer  an older key, or 0        -> (key, 0, open)             then it calls `arrived`
 *     enter      (key, i, open)            -> (key, i + 1, open)         ready, claim
 *     leave      (key, i)                  -> (key, i - 1)
 *     release    (key, i, not released)    -> (key, i, released)         then the result line, then
 *                `arrived`
 *     closer     anything but closed       -> (key, i or 0, closed)
 * finish enters without asking: the unit whose bit it took pins the exchange until it is counted,
 * and it is inside before that. Everything but entering a closed or an older exchange is refused at
 * any time: acts return false, and have done nothing.
 *
 * Closing. The completer closes when it has seen the end, and ends only when nobody is inside any
 * more; the others just end. (They need not wait: what is inside touches no buffer of theirs then,
 * since all units are finished, and the completer, not having consumed its number, keeps the slot
 * from being used again.) Whoever cancels closes first, then the slices; when no claimed unit is
 * unfinished and nobody is inside, and a release that has begun has been written, nothing of this
 * exchange touches a buffer or the slot, and nothing ever will: acts fail at the word, claims at
 * the slices. So a completion that never comes keeps only those waiting whose buffers it might
 * touch; a stage must bring each request to an end once it is told by stage->closed.
 *   Why one look at `inside`, after the slices, is enough: who entered by the word did so before it
 *   was closed,
 * and is counted. Who finishes a unit is counted before that unit is (release, acquire in
 * `finished`): seeing the unit finished, the closer sees the count.
 *
 * A member may end early (HD_OUTER_GOES) as soon as it owes the tree nothing, but not the
 * completer.
 *
 * Nobody else is told of a failure by shm. A failure here (time-out, mismatch, abort) poisons the
 * group, and its members cancel what they are in, each of them calling stage->closed; the stage
 * tells the others. A group that fails while it is in nothing tells what hangs on it
 * (group->outside). A failure there is brought in by a release or a finish with its status, or by
 * hd_group_poison.
 */
#ifndef HD_SHM_OUTER_H
#define HD_SHM_OUTER_H

#include "shm/claim.h"
#include "shm/internal.h"

/* An exchange, for those who act for it. Whoever keeps one also keeps its group (hd_home_pin), from
 * `arrived` on until its last call with it has returned. */
typedef struct hd_exchange_ref {
    hd_board_t *board;
    hd_exchange_t *exchange;
    hd_slot_t *slot;
    uint64_t k, key;
    uint32_t slices; /* 0: the engine has no part in it */
} hd_exchange_ref_t;

struct hd_phases;

/* A stage: a constant, shared by all operations that it carries on. Its functions are called under
 * no lock, and may be called by several members at a time. None of them waits. */
struct hd_outer {
    /* Once per exchange, by its completer: all have arrived. Not if a member has cancelled before.
     * status: UCC_OK, or the members' calls don't match (logged; the group is poisoned). payload:
     * of op->call.bytes, combined from all operands; NULL without HD_OUTER_REDUCES, or if they
     * don't match. It stays as it is until the release. */
    void (*arrived)(hd_op_t *op, const hd_exchange_ref_t *ref, ucc_status_t status,
                    const void *payload);
    /* By a member that waits, before or after `arrived`: goes on as far as possible now. Returns
     * how impatient its task is then (threads/threads.h): how it is announced that this has an end.
     */
    uint8_t (*pump)(hd_op_t *op);
    /* By each member that cancels, in each of its steps until nothing is under way: the exchange
     * has failed. Brings requests that are under way to an end. Maybe without `arrived` ever. Its
     * number on the board and the board's use name the exchange (hd_outer_key). */
    void (*closed)(hd_op_t *op, ucc_status_t why);
    /* By a member of hd_outer_start_giving with HD_OUTER_TAKES, after the release: takes its own.
     * from: the address that was the release's payload. */
    void (*take)(hd_op_t *op, const void *from);
    /* Of a member that may go when it has its own, by whatever way: true if it has, and waits no
     * more. NULL: it waits for the release. */
    bool (*take_early)(hd_op_t *op);
    /* For people, of a member that waits for what is outside: adds for whom. */
    void (*awaits)(const hd_op_t *op, hd_text_t *text);
    /* For people: adds what is done outside by this plan of the operation. */
    void (*phases)(const hd_op_t *op, const hd_plan_t *plan, struct hd_phases *phases);
};

/* What an outer stage keeps with an exchange's slot (hd_slot.flight): installed by a CAS, lives
 * as long as the board. */
struct hd_outer_memory {
    void (*release)(hd_outer_memory_t *memory);
    /* Of what hangs on a group (group->outside): the group has just failed. By any thread, under
     * any lock; once. NULL: not told. */
    void (*failed)(hd_outer_memory_t *memory, ucc_status_t why);
    /* Of the same: the group ends, and all of it is still there: nothing above looks at it after
     * this. NULL: nothing does. */
    void (*ends)(hd_outer_memory_t *memory);
};

/* The shape of an operation. The first three are the same at all members. */
enum {
    HD_OUTER_REDUCES = 1,  /* the arrival combines operands, of at most HD_RESULT_MAX bytes */
    HD_OUTER_BRINGS = 2,   /* the release brings a payload of op->call.bytes */
    HD_OUTER_ALL_WAIT = 4, /* no member has HD_OUTER_GOES */
    HD_OUTER_TAKES = 8,    /* I copy that payload to op->call.dst */
    HD_OUTER_GOES = 16,    /* I wait for nobody */
    HD_OUTER_WORKS = 32,   /* set by hd_outer_start_work */
    HD_OUTER_GIVES = 64    /* set by hd_outer_start_giving */
};

/* op->start of an operation with an outer stage is one that ends in one of these. Its plan
 * (op->plan) is that of hd_plan_of_outer. */
ucc_status_t hd_outer_start(hd_op_t *op, uint32_t shape);
/* By a plan of hd_plan_of_outer_giving. Each member has so many bytes in its lane, HD_INLINE_MAX or
 * up to group->staging_slot: for `arrived` and whoever is in the exchange. Payload of the release:
 * an address. Neither HD_OUTER_REDUCES nor HD_OUTER_BRINGS. */
ucc_status_t hd_outer_start_giving(hd_op_t *op, uint32_t shape, const void *data, size_t bytes);
/* By a plan of hd_plan_of_outer_work. The engine moves data between these buffers. */
ucc_status_t hd_outer_start_work(hd_op_t *op, const void *src, void *dst);

/* --- for rows: layout of a slice -------------------------------------------------------------- */

/* Copies, of which the first `ready` may be claimed for now. */
static inline void hd_slice_later(hd_slice_t *slice, uint32_t units, uint32_t parts,
                                  uint32_t ready) {
    hd_slice_set(slice, units, parts, 1);
    /* relaxed: published with the claim word */
    atomic_store_explicit(&slice->ready, ready, memory_order_relaxed);
}

enum { HD_OUTER_UNITS = 32 }; /* most requests of a slice */

/* Outer requests, from 1 to HD_OUTER_UNITS; by a member in exchange k. */
static inline void hd_slice_outer(hd_slice_t *slice, uint32_t units, uint64_t k) {
    hd_slice_later(slice, units, 1, 0);
    /* relaxed: likewise */
    atomic_store_explicit(&slice->under_way, hd_generation(k), memory_order_relaxed);
}

/* Is slice s finished? By a member of this exchange, or by its row. */
bool hd_outer_is_finished(const hd_op_t *op, uint32_t s);

/* --- acts: by any thread; false: the exchange is closed or over, and nothing was done --------- */

/* Releases those who wait, with a status and, if that is UCC_OK, with a payload: op->call.bytes of
 * the members, or none. More than HD_RESULT_MAX are read where they are, until `arrived` is called
 * for the next exchange in the same slot. False also if it has been released. */
bool hd_outer_release(const hd_exchange_ref_t *ref, ucc_status_t status, const void *payload,
                      size_t bytes);
/* The first `ready` units of slice s may be claimed. What they need has been written. */
bool hd_outer_ready(const hd_exchange_ref_t *ref, uint32_t s, uint32_t ready);
/* The next unit of a slice of outer requests is mine to start. False also if there is none. */
bool hd_outer_claim(const hd_exchange_ref_t *ref, uint32_t s, uint32_t *unit);
/* It has completed, and touches no buffer any more. An error fails the group. After closing, too.
 * False: it is not under way. */
bool hd_outer_finish(const hd_exchange_ref_t *ref, uint32_t s, uint32_t unit, ucc_status_t status);

/* The exchange does not end before as many drops: its completer and whoever cancels wait for them.
 * Holding pins no slice. False: it is closed or over. */
bool hd_outer_hold(const hd_exchange_ref_t *ref);
void hd_outer_drop(const hd_exchange_ref_t *ref);
/* Is slice s finished? By whoever holds the exchange, or has a unit under way in it. */
bool hd_outer_slice_is_finished(const hd_exchange_ref_t *ref, uint32_t s);

/* Of op's exchange: what its ref has for a key. */
uint64_t hd_outer_key(const hd_op_t *op);

/* --- for op.c, arrival.c ---------------------------------------------------------------------- */

/* The arrival is complete: by its completer. */
void hd_outer_arrived(hd_op_t *op, ucc_status_t status, const void *payload);
/* It was, so what is waited for lies outside. */
bool hd_outer_has_arrived(const hd_op_t *op);
/* Poisons the group and closes the exchange; UCC_INPROGRESS while anything is under way, then why.
 */
ucc_status_t hd_outer_cancel(hd_op_t *op, ucc_status_t why);

#endif
