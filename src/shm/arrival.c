/* arrival.c: "everybody is here", for groups of any size.
 *
 * Flat (up to FLAT_MAX members): each looks at all lanes itself; see hd_op_all_lanes.
 *
 * Tree: the blocks of a tree (core/tree.h) collect arrivals. Two ways to combine a block:
 *   counter  the last of the block's members to arrive combines it and goes on to the block above.
 *            Nobody waits for a particular thread to run: right for tasks and for more threads
 *            than processors. Costs one contended atomic addition per member.
 *   static   the block's first member waits for the others' lines, combines, publishes the block's
 *            own line. No line has two writers: right when every endpoint has a processor.
 * Whoever combines the top block writes the exchange's result line. Where every endpoint has a
 * processor and all wait for all, a butterfly takes half as many steps: see butterfly.c.
 *
 * Release: all read the result line, unless arrival is static and the machine has several domains.
 * Then the result travels from domain to domain over lines of release, as hd_tree_release says; the
 * tree by topology shapes that also for reductions. Only where all members wait for all: elsewhere
 * a member that waits for nobody would have to stay for others' sake. A bcast's data travels the
 * same way from the root's lane.
 *
 * A line of slot k is used again at k + depth without a lock: its writer w publishes k + depth
 * before it writes, so (floor, types.h) all have consumed k: whoever was to read the line has done
 * so, and its reads happen before the write (consume releases, the floor's scan acquires). And who
 * waits for k in that slot finds k or an older number, never a newer one. On boards of depth 1
 * nobody starts a use before all have left the last. Nobody is waited for in vain: w owes the line
 * from its launch on, can't end alone before (hd_arrive_help), and if it ends it has poisoned the
 * group.
 *
 * Combining compares signatures and, for small reductions, applies the operation to the block's
 * payloads in the order of their numbers: the operand order never depends on who came last. A
 * reduction therefore arrives by the canonical tree, everything else by the tree that follows the
 * machine.
 *
 * An operation with an outer stage (outer.h) ends its arrival otherwise: whoever combines the top
 * block calls the stage, and the result line is written by hd_outer_release, by any thread. Nobody
 * reads the line before, nobody else writes it, and who combined the top stays until nobody will:
 * so all that is said here of lines that are used again holds for it as well.
 *
 * Counters only grow: each use of a slot adds exactly the block's size, so "last" is a remainder.
 */
#include "shm/outer.h"

#include "core/copy.h"

#include <string.h>

_Static_assert((int)HD_TREE_FANIN == (int)HD_REDUCE_BLOCK,
               "a block of a canonical tree is reduced at once");

_Static_assert((int)HD_TREE_FANIN <= (int)HD_REDUCE_BLOCK, "operands of any block fit");

static const hd_tree_t *op_tree(const hd_op_t *op) {
    return op->place.board->tree[op->arrive_which];
}

static hd_block_t *block_at(const hd_op_t *op, uint32_t level, uint32_t b) {
    return &op->slot->block[op->arrive_which][hd_tree_slot(op_tree(op), level, b)];
}

/* Operand i of a block: a lane at level 0, a block of the level below elsewhere. */
static hd_operand_t operand_of(const hd_op_t *op, uint32_t level, uint32_t position) {
    if (level == 0) {
        return hd_operand_of_lane(op, op_tree(op)->order[position]);
    }
    const hd_block_t *below = block_at(op, level - 1, position);
    return (hd_operand_t){below->signature, below->status, below->payload};
}

/* All operands of block b of this level are there: folds them into the block's record. */
static void combine(hd_op_t *op, uint32_t level, uint32_t b) {
    const hd_tree_level_t *at = &op_tree(op)->level[level];
    hd_block_t *block = block_at(op, level, b);
    const void *source[HD_REDUCE_BLOCK];
    uint32_t size = at->first[b + 1] - at->first[b];
    hd_assert_le(size, HD_REDUCE_BLOCK);
    block->signature = op->call.signature;
    block->status = UCC_OK;
    for (uint32_t i = 0; i < size; i++) {
        hd_operand_t from = operand_of(op, level, at->first[b] + i);
        if (from.status != UCC_OK || from.signature != op->call.signature) {
            block->status = from.status != UCC_OK ? from.status : UCC_ERR_INVALID_PARAM;
        }
        source[i] = from.payload;
    }
    if ((op->arrival & HD_ARRIVE_REDUCING) && block->status == UCC_OK) {
        block->status = hd_reduce_block(&op->call.reducer, size, source, block->payload,
                                        op->call.bytes / op->call.element, at->n_blocks == 1);
    }
}

/* The top block is combined: tells everybody, or the outer stage. */
static void announce(hd_op_t *op, const hd_block_t *top) {
    hd_exchange_t *x = op->exchange;
    if (op->arrival) {
        if (op->arrival & HD_ARRIVE_OUTER) {
            hd_outer_arrived(op, (ucc_status_t)top->status, top->payload);
            return;
        }
        if (top->status == UCC_OK) {
            memcpy(x->result, top->payload, op->call.bytes);
        }
    }
    hd_assert_lt(x->arrived, op->place.k); /* by one member alone */
    x->arrived_status = top->status;
    if (top->status != UCC_OK) {
        hd_op_mismatch(op, op->place.me);
    }
    hd_delay_point();
    /* release: status and result; pairs with the acquire in hd_arrived */
    atomic_store_explicit(&x->arrived, op->place.k, memory_order_release);
    hd_bell_ring(&op->group->home.bell);
}

static inline __attribute__((always_inline)) void arrive_by_counter(hd_op_t *op) {
    const hd_tree_t *tree = op_tree(op);
    uint32_t b = tree->leaf[op->place.me];
    for (uint32_t level = 0; level < tree->n_levels; level++) {
        const hd_tree_level_t *at = &tree->level[level];
        uint32_t size = at->first[b + 1] - at->first[b];
        hd_block_t *block = block_at(op, level, b);
        hd_delay_point();
        /* acq_rel: hands on my lane (or the block below), takes in those of who came before */
        uint64_t before = atomic_fetch_add_explicit(&block->count, 1, memory_order_acq_rel);
        if ((before + 1) % size != 0) {
            return;
        }
        combine(op, level, b);
        if (level + 1 == tree->n_levels) {
            announce(op, block);
            return;
        }
        b = at->parent[b];
    }
}

/* Is operand `position` of this level published? */
static bool operand_is_there(const hd_op_t *op, uint32_t level, uint32_t position) {
    if (level == 0) {
        uint32_t i = op_tree(op)->order[position];
        return i == op->place.me ||
               hd_lane_is_there(hd_board_lane(op->place.board, i, op->place.k), op->place.k);
    }
    /* acquire: pairs with the release below */
    return atomic_load_explicit(&block_at(op, level - 1, position)->seq, memory_order_acquire) ==
           op->place.k;
}

/* Static arrival: I combine a block of level l if I am the first member of its first block below,
 * recursively. Goes up as far as what is there allows. */
static bool combine_mine(hd_op_t *op) {
    const hd_tree_t *tree = op_tree(op);
    uint32_t b = tree->leaf[op->place.me],
             first = 0; /* my position must be the first of its block */
    for (uint32_t level = 0; level < tree->n_levels; level++) {
        const hd_tree_level_t *at = &tree->level[level];
        if (level == 0 ? tree->order[at->first[b]] != op->place.me : at->first[b] != first) {
            return true;
        }
        if (level >= op->arrive_level) {
            for (uint32_t p = at->first[b]; p < at->first[b + 1]; p++) {
                if (!operand_is_there(op, level, p)) {
                    return false;
                }
            }
            combine(op, level, b);
            op->arrive_level = level + 1;
            hd_block_t *block = block_at(op, level, b);
            if (level + 1 == tree->n_levels) {
                announce(op, block);
                return true;
            }
            hd_assert_lt(block->seq, op->place.k);
            hd_delay_point();
            /* release: the block's record; pairs with operand_is_there */
            atomic_store_explicit(&block->seq, op->place.k, memory_order_release);
            hd_bell_ring(&op->group->home.bell);
        }
        first = b;
        b = level + 1 < tree->n_levels ? at->parent[b] : 0;
    }
    return true;
}

/* --- release ---------------------------------------------------------------------------------- */

/* A bcast combines nothing. */
#define BEYOND_ALL_LEVELS UINT32_MAX

static hd_release_t *line_at(const hd_op_t *op, uint32_t slot) {
    return &op->slot->block[1][slot].release;
}

/* In a butterfly, a member is released by its own record of the top. */
#define BY_ITSELF (HD_TREE_ORIGIN - 1)

/* The line that releases me, unless that is the origin's. Apart: most operations wait for that. */
static __attribute__((noinline)) const hd_release_t *releasing(const hd_op_t *op) {
    return op->release.from == BY_ITSELF ? hd_butterfly_result(op) : line_at(op, op->release.from);
}

/* What I wait for is there; *status is the one announced with it. Its payload may be read. */
static bool has_come(hd_op_t *op, ucc_status_t *status) {
    if (op->release.from == HD_TREE_ORIGIN) {
        hd_exchange_t *x = op->exchange;
        /* acquire: pairs with the release in announce */
        if (atomic_load_explicit(&x->arrived, memory_order_acquire) != op->place.k) {
            hd_op_await(op, &x->arrived);
            return false;
        }
        *status = (ucc_status_t)x->arrived_status;
        return true;
    }
    const hd_release_t *line = releasing(op);
    /* acquire: pairs with the release in hand_on */
    if (atomic_load_explicit(&line->seq, memory_order_acquire) != op->place.k) {
        hd_op_await(op, &line->seq);
        return false;
    }
    *status = line->signature == op->call.signature ? (ucc_status_t)line->status
                                                    : hd_op_mismatch(op, op->place.me);
    return true;
}

/* Writes the lines of my blocks, the outermost first: it has the longest way before it. */
static void hand_on(hd_op_t *op, ucc_status_t status, const void *payload, size_t bytes) {
    const hd_tree_t *tree = op->place.board->tree[1];
    uint32_t mine[HD_TREE_MAX_LEVELS], b = tree->leaf[op->place.me];
    for (uint32_t level = 0; level < op->release.relays; level++) {
        mine[level] = b;
        b = tree->level[level].parent[b];
    }
    for (uint32_t level = op->release.relays; level-- > 0;) {
        if (tree->level[level].line[mine[level]]) {
            hd_release_t *line = line_at(op, hd_tree_slot(tree, level, mine[level]));
            line->status = status;
            line->signature = op->call.signature;
            if (bytes) {
                memcpy(line->payload, payload, bytes);
            }
            hd_assert_lt(line->seq, op->place.k);
            hd_delay_point();
            /* release: the line's other fields and all that I know; pairs with has_come */
            atomic_store_explicit(&line->seq, op->place.k, memory_order_release);
        }
    }
    op->release.relays = 0;
    hd_bell_ring(&op->group->home.bell);
}

const void *hd_arrive_result(const hd_op_t *op) {
    return op->release.from == HD_TREE_ORIGIN ? op->exchange->result : releasing(op)->payload;
}

/* Hands on to my blocks what has come, and so many bytes of payload with it; true when I owe them
 * nothing. */
static bool relay_mine(hd_op_t *op, size_t carried) {
    ucc_status_t status;
    if (op->release.relays == 0) {
        return true;
    }
    if (op->arrive_level == BEYOND_ALL_LEVELS || !has_come(op, &status)) {
        return false; /* a bcast hands on in its own wait */
    }
    hand_on(op, status, hd_arrive_result(op), status == UCC_OK ? carried : 0);
    return true;
}

static inline bool may_owe(const hd_op_t *op) {
    return op->arriving && op->group->static_arrival;
}

static bool by_butterfly(const hd_op_t *op) {
    return op->plan.arrival == HD_ARRIVAL_BUTTERFLY;
}

static bool help_tree(hd_op_t *op) {
    return combine_mine(op) &&
           relay_mine(op, op->arrival & HD_ARRIVE_REDUCING ? op->call.bytes : 0);
}

static __attribute__((noinline)) bool help(hd_op_t *op) {
    if (by_butterfly(op)) {
        (void)hd_butterfly_go(op);
        return hd_butterfly_owes_nothing(op);
    }
    return help_tree(op);
}

/* The same for a member that waits for all. False: there is more to be waited for than the line
 * that releases it. */
static __attribute__((noinline)) bool go_on(hd_op_t *op) {
    if (by_butterfly(op)) {
        const _Atomic uint64_t *missing = hd_butterfly_go(op);
        if (missing) {
            hd_op_await(op, missing);
        }
        return !missing;
    }
    return help_tree(op);
}

bool hd_arrive_help(hd_op_t *op) {
    return !may_owe(op) || help(op);
}

ucc_status_t hd_arrive_done(hd_op_t *op) {
    return hd_arrive_help(op) ? UCC_OK : UCC_INPROGRESS;
}

bool hd_arrive_help_outer(hd_op_t *op, size_t carried) {
    return !may_owe(op) || (combine_mine(op) && relay_mine(op, carried));
}

/* Who combines block b of this level, and writes its line of release. */
static uint32_t writer_of(const hd_tree_t *tree, uint32_t level, uint32_t b) {
    for (; level > 0; level--) {
        b = tree->level[level].first[b];
    }
    return tree->order[tree->level[0].first[b]];
}

/* Is block b of this level i's to combine, not yet combined, and are all its operands there? */
static bool owes_block(const hd_op_t *op, uint32_t i, uint32_t level, uint32_t b) {
    const hd_tree_t *tree = op_tree(op);
    const hd_tree_level_t *at = &tree->level[level];
    if (level + 1 == tree->n_levels && op->outer && hd_outer_has_arrived(op)) {
        return false; /* it is the outer stage that is waited for */
    }
    const _Atomic uint64_t *seq =
        level + 1 == tree->n_levels ? &op->exchange->arrived : &block_at(op, level, b)->seq;
    if (writer_of(tree, level, b) != i ||
        /* acquire: pairs with the releases in combine_mine and announce, though only told */
        atomic_load_explicit(seq, memory_order_acquire) == op->place.k) {
        return false;
    }
    for (uint32_t p = at->first[b]; p < at->first[b + 1]; p++) {
        if (!operand_is_there(op, level, p)) {
            return false;
        }
    }
    return true;
}

bool hd_arrive_owes(const hd_op_t *op, uint32_t i) {
    const hd_tree_t *tree = op_tree(op);
    if (by_butterfly(op)) {
        return hd_butterfly_owes(op, i);
    }
    bool combines = op->arrive_level != BEYOND_ALL_LEVELS; /* a bcast does not */
    uint32_t b = tree->leaf[i], level = 0;
    for (; combines && level < tree->n_levels; level++) {
        if (owes_block(op, i, level, b)) {
            return true;
        }
        b = tree->level[level].parent[b];
    }
    /* acquire: pairs with announce, though only told */
    if (op->release.from == HD_TREE_ORIGIN ||
        (combines &&
         atomic_load_explicit(&op->exchange->arrived, memory_order_acquire) != op->place.k)) {
        return false;
    }
    tree = op->place.board->tree[1];
    for (level = 0; level + 1 < tree->n_levels; level++) {
        if (op->release.from < tree->level[level + 1].first_slot) {
            break;
        }
    }
    return i == writer_of(tree, level, op->release.from - tree->level[level].first_slot) &&
           /* acquire: pairs with hand_on, though only told */
           atomic_load_explicit(&line_at(op, op->release.from)->seq, memory_order_acquire) !=
               op->place.k;
}

bool hd_arrive_is_mine(const hd_op_t *op, uint32_t i) {
    const hd_tree_t *tree = op_tree(op);
    uint32_t mine = tree->leaf[op->place.me], its = tree->leaf[i];
    bool below = false;
    for (uint32_t level = 0; level < tree->n_levels; level++) {
        if (writer_of(tree, level, mine) != op->place.me) {
            break;
        }
        below = below || mine == its;
        mine = tree->level[level].parent[mine];
        its = tree->level[level].parent[its];
    }
    return below;
}

void hd_relay_enter(hd_op_t *op) {
    const hd_tree_t *tree = op->place.board->tree[1];
    op->arriving = true;
    op->arrive_level = BEYOND_ALL_LEVELS;
    op->arrive_which = 1;
    op->release = hd_tree_release(tree, op->place.me, op->call.root);
}

ucc_status_t hd_relay_data(hd_op_t *op, const void **data) {
    ucc_status_t status;
    if (!has_come(op, &status)) {
        return UCC_INPROGRESS;
    }
    const hd_release_t *line = line_at(op, op->release.from);
    *data = op->plan.data == HD_REGIME_INLINE
                ? line->payload
                : (const uint8_t *)((uintptr_t)op->exchange + (uintptr_t)line->at);
    return status;
}

ucc_status_t hd_relay(hd_op_t *op, const void *data) {
    if (op->release.relays == 0) {
        return UCC_OK;
    }
    if (op->plan.data == HD_REGIME_INLINE) {
        hand_on(op, UCC_OK, data, op->call.bytes);
        return UCC_OK;
    }
    /* not the user's buffer: that is free once this operation is over. My staging slot of k is not
       used otherwise, as my lane has no data, and is used again no sooner than my lane. */
    void *staging = hd_lane_staging(op);
    if (!staging) {
        hd_error("%s: no memory for a staging ring", hd_op_type_name(op));
        hd_group_poison(op->group, UCC_ERR_NO_MEMORY); /* others wait for me */
        return UCC_ERR_NO_MEMORY;
    }
    hd_copy(staging, data, op->call.bytes, HD_STORES_PLAIN);
    ptrdiff_t at = (ptrdiff_t)((uintptr_t)staging - (uintptr_t)op->exchange);
    hand_on(op, UCC_OK, &at, sizeof(at));
    return UCC_OK;
}

/* --- arriving --------------------------------------------------------------------------------- */

_Static_assert(HD_ARRIVE_REDUCING == true, "a bool says it");

static inline void enter(hd_op_t *op, bool reducing) {
    op->arriving = true;
    op->arrival = reducing;
    op->arrive_which = reducing ? 0 : 1;
    op->arrive_level = 0;
    op->release = (hd_tree_release_t){HD_TREE_ORIGIN, 0};
}

/* The first endpoint of the arrival tree combines its top. */
static void release_by_lines(hd_op_t *op) {
    op->release = hd_tree_release(op->place.board->tree[1], op->place.me, op_tree(op)->order[0]);
}

static __attribute__((noinline)) void begin_fixed(hd_op_t *op, bool reducing) {
    if (by_butterfly(op)) {
        const hd_board_t *board = op->place.board;
        op->arrive_which = reducing || board->at_once ? 0 : board->steps_by;
        op->release.from = BY_ITSELF;
    } else if (op->plan.all_wait) {
        release_by_lines(op);
    }
    (void)help(op);
}

void hd_arrive(hd_op_t *op, bool reducing) {
    if (hd_op_is_flat(op)) {
        return;
    }
    enter(op, reducing);
    if (op->group->static_arrival) {
        begin_fixed(op, reducing);
    } else {
        arrive_by_counter(op);
    }
}

void hd_arrive_outer(hd_op_t *op, bool reducing, bool all_wait, size_t carried) {
    enter(op, reducing);
    op->arrival |= HD_ARRIVE_OUTER;
    if (op->group->static_arrival) {
        if (all_wait) {
            release_by_lines(op);
        }
        hd_arrive_help_outer(op, carried);
    } else {
        arrive_by_counter(op);
    }
}

ucc_status_t hd_arrived(hd_op_t *op) {
    if (hd_op_is_flat(op)) {
        return hd_op_all_lanes(op);
    }
    if (may_owe(op) && !go_on(op)) {
        return UCC_INPROGRESS;
    }
    ucc_status_t status;
    if (!has_come(op, &status)) {
        return UCC_INPROGRESS;
    }
    op->saw_all = true;
    return status;
}

ucc_status_t hd_arrived_outer(hd_op_t *op) {
    ucc_status_t status;
    if (!has_come(op, &status)) {
        op->task.awaited = NULL; /* the outer stage must go on, too */
        return UCC_INPROGRESS;
    }
    op->saw_all = true;
    return status;
}
