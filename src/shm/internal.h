/* internal.h: what the files of shm/ have for each other. None of them calls one that calls it
 * (scripts/check-layers): from the bottom, poison; board and match; mismatch, lane and arrival;
 * work, engine and outer; the plans, which name rows of work; the families, and express; op, and
 * above it queue.
 */
#ifndef HD_SHM_INTERNAL_H
#define HD_SHM_INTERNAL_H

#include "core/log.h"
#include "node/segment.h"
#include "shm/ordinals.h"
#include "shm/shm.h"
#include "threads/delay.h"

#include <pthread.h>

/* --- mapping.c -------------------------------------------------------------------------------- */

/* A group, all zero but for its mapping and its bell, in memory that can be mapped n times, by this
 * process or by n: the first of these mappings, of this number, and of so many bytes at least.
 * NULL: no memory, or the system lacks something (logged). */
hd_group_t *hd_mapping_create(uint32_t n, uint32_t number, bool by_processes, size_t least);
/* The same in memory of another process that has n mappings, in that of this number. NULL: as
 * above, or that memory is something else (logged). */
hd_group_t *hd_mapping_of(const hd_node_segment_t *segment, uint32_t n, uint32_t number);
/* Is there room for so many bytes from the base on? */
bool hd_mapping_has(const hd_group_t *group, size_t least);
/* The same memory in another mapping, of this number; takes over the caller's reference to the
 * first. NULL: no memory (logged). */
hd_group_t *hd_mapping_again(hd_group_t *first, uint32_t number);
/* Unmaps it, and the group with it. */
void hd_mapping_end(hd_group_t *group);
/* Where such memory is laid out, from its base: what is taken by n mappings themselves; and the
 * next place of so many bytes. */
size_t hd_mapping_first(uint32_t n);
size_t hd_mapping_place(size_t *cursor, size_t bytes, size_t alignment);
/* So many bytes of what is not laid out, for good; zero. NULL: there are none left. */
uint8_t *hd_mapping_give(hd_group_t *group, size_t bytes);
/* Is half of what is not laid out still there if so many bytes of it are given? */
bool hd_mapping_spares(const hd_group_t *group, size_t bytes);
/* Makes a mutex there for several processes, one of whom may die while it holds it. */
void hd_mapping_init_mutex(pthread_mutex_t *mutex);
/* In the child of a fork. So far from the base lie windows, whose contents it does not need; they
 * end at a page. */
void hd_mapping_inherited(hd_group_t *group, size_t windows, size_t windows_end);

/* --- board.c ---------------------------------------------------------------------------------- */

/* What a board takes in a mapping: of this group, with so many members, in a ring of so many, and
 * with so many bytes for match.c. trees: its own; NULL, both: any of so many members. */
size_t hd_board_bytes(const hd_group_t *group, uint32_t n, uint32_t depth, size_t entry,
                      const hd_tree_t *canonical, const hd_tree_t *by_topology);
/* n members, none in place yet. trees may be NULL. at: where it lies in the group's mapping, new
 * there or not; NULL: in private memory. */
hd_board_t *hd_board_create(hd_group_t *group, uint32_t n, uint32_t depth, size_t entry,
                            const hd_tree_t *canonical, const hd_tree_t *by_topology, uint8_t *at);
/* Allocates member i on the calling thread's node. In a mapping: member i is one of this mapping's.
 */
hd_member_t *hd_board_add_member(hd_board_t *board, uint32_t i);
/* What peers see of member i; NULL: it has not joined (of a group's main board). */
hd_shared_t *hd_board_peer(const hd_board_t *board, uint32_t i);
void hd_board_destroy(hd_board_t *board);
/* Before first use: the tree by which everything but reductions arrives. */
ucc_status_t hd_board_set_topology(hd_board_t *board, const hd_tree_t *by_topology);
/* In the child of a fork: no member's lock is held. */
void hd_board_unlock(hd_board_t *board);
/* Puts all sequence state back to the start; nobody may be using the board. */
void hd_board_reset(hd_board_t *board);
/* The same for what is member i's own. */
void hd_board_reset_member(hd_board_t *board, uint32_t i);
#if HD_DEBUG >= 2 || defined(HD_TEST)
/* check.c: all equations that hold at any moment between a board's members, as one of them sees it.
 * Under that member's lock. */
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
    hd_assert_lt(1, depth); /* of the others, the pool hands one out only when all have left it */
    /* relaxed: our own count, only we write it */
    uint64_t consumed = atomic_load_explicit(&member->shared->consumed, memory_order_relaxed);
    if (2 * (k - consumed) > depth) {
        return false;
    }
    /* signed: in the first round of the ring, nobody has to have consumed anything */
    return (int64_t)member->floor >= (int64_t)(k - depth) ||
           hd_board_floor_reaches(board, member, k - depth);
}

/* k is over for this member; the caller rings the group's bell after unlocking. saw_all: it saw
 * every lane of k, which bounds the floor. Under the member's lock. */
static inline void hd_board_consume(hd_board_t *board, hd_member_t *member, uint64_t k,
                                    bool saw_all) {
    uint64_t half = board->depth / 2;
    if (saw_all && (int64_t)member->floor < (int64_t)(k - half)) { /* signed: as above */
        member->floor = k - half;
    }
    hd_shared_t *shared = member->shared;
    /* relaxed: our own count, only we write it */
    uint64_t consumed = atomic_load_explicit(&shared->consumed, memory_order_relaxed);
    hd_assert_lt(consumed, k); /* over once */
    hd_assert_le(k, member->taken);
    hd_assert_le(k - consumed, half); /* the window, for it was published */
    if (k != consumed + 1 || member->over != 0) {
        hd_board_consume_early(member, k, consumed);
        return;
    }
    hd_delay_point();
    /* release: our reads of this exchange happen before anybody's reuse of its slot */
    atomic_store_explicit(&shared->consumed, k, memory_order_release);
}

static inline hd_lane_t *hd_board_lane(const hd_board_t *board, uint32_t i, uint64_t k) {
    return &board->shared[i]->lane[k & board->mask];
}

static inline hd_data_line_t *hd_lines_at(const hd_shared_t *shared, ptrdiff_t lines) {
    return (hd_data_line_t *)((uintptr_t)shared + (uintptr_t)lines);
}

/* Member i's lines for number k; NULL: it has none yet. */
static inline hd_data_line_t *hd_lines_of(const hd_board_t *board, uint32_t i, uint64_t k) {
    const hd_shared_t *shared = board->shared[i];
    /* acquire: pairs with the release that installed the zeroed lines */
    ptrdiff_t lines = atomic_load_explicit(&shared->lines, memory_order_acquire);
    return lines ? hd_lines_at(shared, lines) + (k & board->mask) * board->group->lines_per_slot
                 : NULL;
}

/* --- lane.c: publishing, and looking at what the others have published ------------------------ */

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
/* Publishes `bytes` from data under the plan's regime; DIRECT: op->expose; NONE: no data.
 * hd_lane_put wakes nobody: for lanes that nobody waits for by itself. The two after them, for
 * those who know the regime. */
ucc_status_t hd_lane_publish(hd_op_t *op, const void *data, size_t bytes);
ucc_status_t hd_lane_put(hd_op_t *op, const void *data, size_t bytes);
ucc_status_t hd_lane_expose(hd_op_t *op);
ucc_status_t hd_lane_announce(hd_op_t *op);
/* My staging slot of this number; NULL: no memory. */
void *hd_lane_staging(hd_op_t *op);

static inline hd_regime_t hd_lane_regime(const hd_lane_t *lane) {
    return (hd_regime_t)(lane->regime_bytes >> 28);
}
static inline size_t hd_lane_bytes(const hd_lane_t *lane) {
    return lane->regime_bytes & 0x0fffffffu;
}
/* LINES, STAGED: where the payload begins. */
static inline const uint8_t *hd_lane_data(const hd_lane_t *lane) {
    return (const uint8_t *)((uintptr_t)lane + (uintptr_t)lane->at);
}
/* By the lane's owner: it begins there. */
static inline void hd_lane_point(hd_lane_t *lane, const void *data) {
    lane->at = (ptrdiff_t)((uintptr_t)data - (uintptr_t)lane);
}
/* Has member i published number k? */
static inline bool hd_lane_is_there(const hd_lane_t *lane, uint64_t k) {
    /* acquire: pairs with the release in publish; the payload is readable after it */
    return atomic_load_explicit(&lane->seq, memory_order_acquire) == k;
}
/* For people: which collective its owner has called. */
static inline uint8_t hd_lane_type(const hd_lane_t *lane) {
    /* relaxed: only told */
    return (uint8_t)(__atomic_load_n(&lane->signature, __ATOMIC_RELAXED) >> 27);
}
/* Asks for the beginning of a payload that will be read in several steps, each of which tells where
 * the next is. */
static inline void hd_lane_prefetch(const hd_lane_t *lane) {
    enum { MOST = 1024 };
    size_t bytes = hd_lane_regime(lane) == HD_REGIME_STAGED ? hd_lane_bytes(lane) : 0;
    for (size_t at = 0; at < bytes && at < MOST; at += HD_LINE) {
        __builtin_prefetch(hd_lane_data(lane) + at);
    }
}
/* The payload is one block; takes it if it has as many bytes as expected, else fails the team. */
ucc_status_t hd_lane_take(hd_op_t *op, uint32_t from, const hd_lane_t *lane, size_t expected,
                          void *dst);
/* Stages and publishes data, but for the owner's part of it, which nobody else reads. */
ucc_status_t hd_lane_stage_others(hd_op_t *op, const uint8_t *data, size_t bytes, size_t own,
                                  size_t own_bytes);
/* Publishes op->call.send's blocks of so large elements, but for that of member `but`, with a table
 * of their offsets (n + 1 of uint32_t) before them. */
ucc_status_t hd_lane_publish_blocks(hd_op_t *op, size_t element, uint32_t but);
/* The payload is such blocks; takes mine, likewise. */
ucc_status_t hd_lane_take_own(hd_op_t *op, uint32_t from, const hd_lane_t *lane, size_t expected,
                              void *dst);
/* Copies part of a published payload; false if a line of it is still being written. */
bool hd_lane_read(const hd_lane_t *lane, uint64_t k, size_t offset, size_t bytes, void *dst);
const void *hd_lane_view_outside(const hd_lane_t *lane, uint64_t k, void *scratch);
/* The payload as contiguous memory, in place or gathered into scratch; NULL: not complete yet. Most
 * payloads are in the lane: those of small reductions are seen without a call. */
static inline const void *hd_lane_view(const hd_lane_t *lane, uint64_t k, void *scratch) {
    return hd_lane_regime(lane) == HD_REGIME_INLINE ? lane->payload
                                                    : hd_lane_view_outside(lane, k, scratch);
}
/* Lane i of this exchange if published; checks its signature. UCC_INPROGRESS: not there yet. */
ucc_status_t hd_op_lane(hd_op_t *op, uint32_t i, const hd_lane_t **lane);
/* Walks op->cursor over the others' lanes; UCC_OK when every one was there and matched. */
ucc_status_t hd_op_all_lanes(hd_op_t *op);
/* From a wait that returns UCC_INPROGRESS: nothing to be done before this word is k. */
static inline void hd_op_await(hd_op_t *op, const _Atomic uint64_t *word) {
    op->task.awaited = word;
    op->task.awaited_value = op->place.k;
}

/* sleep.c: hd_home_t's awaits, for the operations of a group. */
void hd_op_awaits(const hd_task_t *task, hd_awaited_t *awaited);

/* --- waits.c ---------------------------------------------------------------------------------- */

/* The operation has waited for long: for the board's member `root` alone, or for all others
 * (UINT32_MAX). */
void hd_waits_note(const hd_op_t *op, uint32_t root, uint64_t now);
/* In the child of a fork. */
void hd_waits_unlock(hd_group_t *group);
void hd_waits_free(hd_group_t *group);

/* --- mismatch.c: what is said of calls that disagree ------------------------------------------ */

/* In the child of a fork: the table is nobody's at the moment. */
void hd_terms_unlock(void);
/* Member i of op's board: which one of the group that is, and its endpoint's number in the team,
 * for people. */
uint32_t hd_op_member(const hd_op_t *op, uint32_t i);
uint64_t hd_op_endpoint(const hd_op_t *op, uint32_t i);
/* The same of a board of that active set; set->n is 0: of one for all endpoints. */
uint32_t hd_set_member(const hd_group_t *group, const hd_subset_t *set, uint32_t i);
/* The caller's member of the group. */
static inline uint32_t hd_op_own_member(const hd_op_t *op) {
    return hd_group_member(op->group, op->team_ep);
}
/* "bcast 17", "bcast with tag 5": how messages name an operation that has its board. Returns text.
 */
const char *hd_op_title(const hd_op_t *op, const char *type, char *text, size_t size);
/* Peer's lane differs from mine, or somebody's (peer is me): poisons the group, logs who calls
 * what, returns the status to fail with. */
ucc_status_t hd_op_mismatch(hd_op_t *op, uint32_t peer) __attribute__((cold));
/* The same for blocks of a v type: peer sent so many bytes where I expected others. */
ucc_status_t hd_op_sizes_differ(hd_op_t *op, uint32_t peer, size_t sent, size_t expected);
/* The line alone, about any two members, and the error for it. */
ucc_status_t hd_op_say_sizes(const hd_op_t *op, uint32_t from, uint32_t to, size_t sent,
                             size_t expected);

/* --- match.c ---------------------------------------------------------------------------------- */

/* What the table takes in a mapping, for a group of n endpoints. */
size_t hd_match_bytes(uint32_t n);
/* at: where it lies in the group's mapping, new there or not; NULL: in private memory. */
hd_match_t *hd_match_create(hd_group_t *group, uint8_t *at);
void hd_match_destroy(hd_match_t *match);
/* The board of this mapping that lies where `board` does in its own; NULL: no memory. */
hd_board_t *hd_match_same_board(hd_group_t *group, const hd_board_t *board);
/* "bcast with tag 5": the exchange of number k on a board that was joined, for messages. */
void hd_match_title(const hd_board_t *board, uint64_t k, const char *type, char *text, size_t size);
/* Has member i joined the exchange for which this board is in use? By a member that has. */
bool hd_match_has_joined(const hd_board_t *board, uint32_t i);
/* In the child of a fork: no lock is held. */
void hd_match_unlock(hd_match_t *match);

/* --- births.c --------------------------------------------------------------------------------- */

size_t hd_births_bytes(void);
size_t hd_birth_bytes(void); /* of each, but for its bits */
/* By the creator of the group, where memory is zero; and in the child of a fork, for its copy. */
void hd_births_init(hd_births_t *births);

/* --- arrival.c -------------------------------------------------------------------------------- */

static inline bool hd_op_is_flat(const hd_op_t *op) {
    return op->place.board->tree[0] == NULL;
}
/* What a member brings to a block, or a block to the one above. */
typedef struct hd_operand {
    uint32_t signature;
    int32_t status;
    const uint8_t *payload; /* looked at by reductions only */
} hd_operand_t;

/* Of member i, whose lane is there, or is mine. */
static inline hd_operand_t hd_operand_of_lane(const hd_op_t *op, uint32_t i) {
    if (i == op->place.me) {
        return (hd_operand_t){op->call.signature, UCC_OK, hd_call_operand(&op->call)};
    }
    const hd_lane_t *lane = hd_board_lane(op->place.board, i, op->place.k);
    return (hd_operand_t){lane->signature, UCC_OK, lane->payload};
}

/* After publishing, beyond FLAT_MAX members: enters the arrival tree. reducing: combine inline
 * payloads with op->call.reducer in canonical order. Which = 0 canonical, 1 topology. */
void hd_arrive(hd_op_t *op, bool reducing);
/* Static arrival: do my share of combining and of handing the release on; true when I owe nothing
 * more. */
bool hd_arrive_help(hd_op_t *op);
/* The same three for an operation with an outer stage (outer.h), whose arrival ends in
 * hd_outer_arrived; carried: bytes that the release brings. */
void hd_arrive_outer(hd_op_t *op, bool reducing, bool all_wait, size_t carried);
bool hd_arrive_help_outer(hd_op_t *op, size_t carried);
ucc_status_t hd_arrived_outer(hd_op_t *op);
/* UCC_OK when all have arrived (tree or flat), an error if they don't match. */
ucc_status_t hd_arrived(hd_op_t *op);
/* The wait of a member that waits for nobody: over when it owes nobody anything. */
ucc_status_t hd_arrive_done(hd_op_t *op);
/* For stall.c: does member i owe a line to those who wait in this exchange, and has all it needs
 * for it? */
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

/* --- group.c ---------------------------------------------------------------------------------- */

/* Do n members meet in a butterfly by number, where all wait for all? */
bool hd_group_climbs(const hd_group_t *group, uint32_t n);

/* --- butterfly.c ------------------------------------------------------------------------------ */

/* Does as many steps as what is there allows. NULL: all; else the word that the next one needs to
 * be k. */
const _Atomic uint64_t *hd_butterfly_go(hd_op_t *op);
bool hd_butterfly_owes_nothing(const hd_op_t *op);
/* All steps are done: my record of the top. */
const hd_release_t *hd_butterfly_result(const hd_op_t *op);
/* See hd_arrive_owes. */
bool hd_butterfly_owes(const hd_op_t *op, uint32_t i);

/* --- engine.c: the DIRECT regime -------------------------------------------------------------- */

/* The work of op's exchange; NULL: no memory for it. */
hd_work_t *hd_engine_work_of(hd_op_t *op);
/* Registers my buffers and my slice; before publishing. */
ucc_status_t hd_engine_register(hd_op_t *op, const void *src, void *dst);
/* The same where my own data goes out with my lane: there is nothing to do in my slice. */
ucc_status_t hd_engine_register_idle(hd_op_t *op, const void *src, void *dst);
/* By destination, the same where others may have data for me: a unit for each block. */
ucc_status_t hd_engine_register_blocks(hd_op_t *op, const void *src, void *dst);
/* Publishes as DIRECT and enters the arrival; op->wait becomes the engine's. */
ucc_status_t hd_engine_start(hd_op_t *op, const void *src, void *dst);
/* From a family's wait: all lanes were seen and some are DIRECT, or mine is. */
ucc_status_t hd_engine_step(hd_op_t *op);
/* The same when the caller has already seen every lane. */
ucc_status_t hd_engine_work(hd_op_t *op);
/* Takes what came with a lane (NULL: my own), or sets op->any_direct; UCC_INPROGRESS: to be called
 * again. */
typedef ucc_status_t (*hd_take_fn)(hd_op_t *op, uint32_t from, const hd_lane_t *lane);
/* For members that wait for all lanes, of which some may be DIRECT: takes each, then the engine
 * works on the rest, if there is any. */
ucc_status_t hd_engine_after_lanes(hd_op_t *op, hd_take_fn take);
/* The first half of that. UCC_OK: all are there and taken, and I owe the arrival nothing. */
static inline __attribute__((always_inline)) ucc_status_t hd_op_take_lanes(hd_op_t *op,
                                                                           hd_take_fn take) {
    for (; op->cursor < op->place.n; op->cursor++) {
        const hd_lane_t *lane = NULL;
        ucc_status_t status = UCC_OK;
        if (op->cursor != op->place.me) {
            status = hd_op_lane(op, op->cursor, &lane);
        }
        if (status == UCC_OK) {
            status = take(op, op->cursor, lane);
        }
        if (status != UCC_OK) {
            return status;
        }
    }
    op->saw_all = true;
    return hd_arrive_help(op) ? UCC_OK : UCC_INPROGRESS;
}
/* Most slices that an exchange on this board can have. */
uint32_t hd_board_slices(const hd_board_t *board);
/* NULL is allowed. By the owner of the board, at its end. */
void hd_work_free(hd_work_t *work);
/* The work of a slot of the board's ring; NULL: no memory. */
hd_work_t *hd_board_create_work(const hd_board_t *board, uint32_t slot);
/* Closes the exchange; UCC_OK when nobody touches anybody's buffers any more. */
ucc_status_t hd_engine_cancel(hd_op_t *op, ucc_status_t why);
/* Works on all slices that have units to claim, in whatever order they become ready. Only on boards
 * with a tree. */
ucc_status_t hd_engine_work_unordered(hd_op_t *op);
/* In an exchange that can't end yet: notes the failure of a unit (true: it is the first one); has
 * one been noted, as far as is known? One more slice is finished, of so many. */
bool hd_engine_note_failure(hd_exchange_t *x, uint64_t k, ucc_status_t status);
bool hd_engine_has_failed(const hd_exchange_t *x, uint64_t k);
void hd_engine_slice_done(hd_group_t *group, hd_exchange_t *x, uint64_t k, uint32_t slices);
/* The latter in two steps: was that the last one? Then what the exchange has is given back, before
 * everybody is told of the end. */
bool hd_engine_count_slice(hd_exchange_t *x, uint32_t slices);
void hd_engine_end(hd_group_t *group, hd_exchange_t *x, uint64_t k);
/* Where nobody is told, and each member finds every slice finished: what came of the work. */
ucc_status_t hd_engine_status(hd_group_t *group, hd_exchange_t *x, uint64_t k);
/* Gives back the exchange's turn in the user's reduction. */
void hd_engine_end_turn(hd_op_t *op);
/* Has everybody been told? *status: what came of it. */
bool hd_engine_has_ended(hd_op_t *op, ucc_status_t *status);

/* --- far.c: the same among members who do not reach each other's buffers ---------------------- */

/* What the windows take in a mapping. */
size_t hd_far_bytes(uint32_t n, uint32_t mappings);

/* --- who.c: the processes of a group, for people ---------------------------------------------- */

size_t hd_who_bytes(uint32_t mappings);
/* This process, before any of its endpoints joins. */
void hd_who_write(hd_group_t *group);
/* Is it this process's mapping, or one in it? */
bool hd_who_is_here(const hd_group_t *group, uint32_t mapping);
/* Its number in the team. False: that process has not mapped the group yet. */
bool hd_who_number(const hd_group_t *group, uint32_t mapping, uint32_t *number);
/* "process 1 (host node7, pid 4711": the bracket is the caller's to go on with. */
void hd_who_say(const hd_group_t *group, uint32_t mapping, hd_text_t *text);
/* As hd_thread_state; NULL if it can't be known. */
const char *hd_who_thread_state(const hd_group_t *group, uint32_t mapping, int32_t thread);

/* What its processes tell each other of reading by the kernel (pull.c) takes so many bytes. */
size_t hd_pull_bytes(uint32_t mappings);
/* Lets the others read this process, before any of its endpoints joins; and finds out whether it
 * reads them, when all have joined. */
void hd_pull_open(hd_group_t *group);
void hd_pull_try(hd_group_t *group);
/* For people: by which way that mapping's process gets far data, and why not by the better one. */
void hd_pull_say(const hd_group_t *group, uint32_t mapping, hd_text_t *text);
/* Bytes of the pieces of such a call among n members. */
size_t hd_far_window(const hd_group_t *group, const hd_call_t *call, uint32_t n);
/* op->start on the path FAR. arrived: hd_arrived, of which no more copies are to be compiled. */
ucc_status_t hd_far_start(hd_op_t *op, ucc_status_t (*arrived)(hd_op_t *op));
/* On the path MIXED, as hd_engine_register, hd_lane_expose, hd_engine_step and
 * hd_engine_after_lanes; buffers are those of the call. */
ucc_status_t hd_far_register(hd_op_t *op, ucc_status_t (*arrived)(hd_op_t *op));
ucc_status_t hd_far_expose(hd_op_t *op);
ucc_status_t hd_far_step(hd_op_t *op);
ucc_status_t hd_far_after_lanes(hd_op_t *op, hd_take_fn take);
/* As hd_engine_cancel. */
ucc_status_t hd_far_cancel(hd_op_t *op, ucc_status_t why);
void hd_far_free(hd_far_t *far);

/* --- work.c: what the units are --------------------------------------------------------------- */

/* Of the collectives inside one process. */
extern const hd_work_row_t hd_work_rows[HD_N_TYPES];
/* The same, but that who gets the data copies them; NULL: there is no such way of this call. */
const hd_work_row_t *hd_work_by_destination(const hd_call_t *call);
void hd_work_swap(uint8_t *a, uint8_t *b, size_t bytes);
typedef struct hd_data {
    uint8_t *at;
    size_t bytes;
} hd_data_t;

/* Block i of a buffer that the vector describes, in elements of so many bytes. */
static inline hd_data_t hd_vector_block(const void *base, const hd_vector_t *v, size_t element,
                                        uint32_t i) {
    return (hd_data_t){hd_at(base, hd_vector_displacement(v, i) * element),
                       hd_vector_count(v, i) * element};
}
/* What member i gives to endpoint e, and where it takes what e gives, as member i's own call says.
 * In place, a pair's blocks lie in the same place. */
hd_data_t hd_work_given(const hd_work_t *work, uint32_t i, uint32_t e);
hd_data_t hd_work_taken(const hd_work_t *work, uint32_t i, uint32_t e);

/* All units may be claimed from the beginning. */
static inline void hd_slice_set(hd_slice_t *slice, uint32_t units, uint32_t parts, uint32_t batch) {
    slice->units = units;
    slice->parts = parts;
    slice->batch = batch;
    /* relaxed: published with the claim word */
    atomic_store_explicit(&slice->ready, units, memory_order_relaxed);
}

/* The prefixes of so many bytes at the beginning of all sources and destinations, by op's call. */
ucc_status_t hd_work_scan(const hd_op_t *op, const hd_work_t *work, size_t bytes);

/* Runs a claimed unit, and makes its results visible to whoever is told that it is finished. */
ucc_status_t hd_work_run(const hd_op_t *op, const hd_work_t *work, uint32_t slice, uint32_t unit);

/* Reduces the small operands that all members of a flat board published, from this offset (bytes)
 * on; mine is known. UCC_INPROGRESS: a line is still being written. */
ucc_status_t hd_reduce_lanes(const hd_board_t *board, uint32_t me, uint64_t k,
                             const hd_reducer_t *reducer, const uint8_t *operand, size_t offset,
                             void *dst, size_t count);

/* --- families --------------------------------------------------------------------------------- */

/* One-sided variants of bcast, mcast, allgather, alltoall into symmetric memory (put.c). */
ucc_status_t hd_put_start(hd_op_t *op);
/* Poisons the group; UCC_INPROGRESS while a peer is inside its copy, then why. */
ucc_status_t hd_put_cancel(hd_op_t *op, ucc_status_t why);
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
ucc_status_t hd_alltoallv_start_pulled(hd_op_t *op); /* on the path MIXED, by destination */
/* What the owner takes from its buffer is not staged. */
ucc_status_t hd_reduce_scatter_start_staged(hd_op_t *op);
ucc_status_t hd_scatter_start_staged(hd_op_t *op);
ucc_status_t hd_alltoall_start_staged(hd_op_t *op);
/* On the path MIXED, where members don't reach each other's buffers. */
ucc_status_t hd_gatherv_start_apart(hd_op_t *op);
ucc_status_t hd_scatterv_start_apart(hd_op_t *op);
ucc_status_t hd_alltoallv_start_apart(hd_op_t *op);

/* --- stall.c, leave.c ------------------------------------------------------------------------- */

/* One line: it has timed out, waiting for whom. */
void hd_op_log_timeout(const hd_op_t *op);
/* Of an operation that waits on its board: UCC_ERR_NOT_FOUND, logged, and the group poisoned, if it
 * needs an endpoint that left before it. Under no lock of the board but the caller's own
 * member's. */
ucc_status_t hd_op_watch_leavers(hd_op_t *op);
/* From now on a child's copy of this group fails. */
void hd_group_watch_forks(hd_group_t *group);

#endif
