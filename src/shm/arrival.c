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
 * Whoever combines the top block writes the exchange's result line, which all read.
 *
 * Combining compares signatures and, for small reductions, applies the operation to the block's
 * payloads in the order of their numbers: the operand order never depends on who came last. A
 * reduction therefore arrives by the canonical tree, everything else by the tree that follows the
 * machine.
 *
 * Counters only grow: each use of a slot adds exactly the block's size, so "last" is a remainder.
 */
#include "shm/shm.h"

#include <string.h>

static const hd_tree_t *op_tree(const hd_op_t *op) {
    return op->board->tree[op->arrive_which];
}

static hd_block_t *block_at(const hd_op_t *op, uint32_t level, uint32_t b) {
    return &op->exchange->block[op->arrive_which][hd_tree_slot(op_tree(op), level, b)];
}

/* Operand i of a block: a lane at level 0, a block of the level below elsewhere. */
typedef struct operand {
    uint32_t signature;
    int32_t status;
    const uint8_t *payload;
} operand_t;

static operand_t operand_of(const hd_op_t *op, uint32_t level, uint32_t position) {
    if (level == 0) {
        const hd_lane_t *lane = hd_board_lane(op->board, op_tree(op)->order[position], op->k);
        return (operand_t){lane->signature, UCC_OK, lane->payload};
    }
    const hd_block_t *below = block_at(op, level - 1, position);
    return (operand_t){below->signature, below->status, below->payload};
}

/* All operands of block b of this level are there: folds them into the block's record. */
static void combine(hd_op_t *op, uint32_t level, uint32_t b) {
    const hd_tree_level_t *at = &op_tree(op)->level[level];
    hd_block_t *block = block_at(op, level, b);
    const void *source[HD_REDUCE_BLOCK];
    uint32_t size = at->first[b + 1] - at->first[b];
    block->signature = op->signature;
    block->status = UCC_OK;
    for (uint32_t i = 0; i < size; i++) {
        operand_t from = operand_of(op, level, at->first[b] + i);
        if (from.status != UCC_OK || from.signature != op->signature) {
            block->status = from.status != UCC_OK ? from.status : UCC_ERR_INVALID_PARAM;
        }
        if (op->reducing) {
            source[i] = from.payload;
        }
    }
    if (op->reducing && block->status == UCC_OK) {
        block->status = hd_reduce_block(&op->reducer, size, source, block->payload,
                                        op->bytes / op->element, at->n_blocks == 1);
    }
}

/* The top block is combined: tells everybody. */
static void announce(hd_op_t *op, const hd_block_t *top) {
    hd_exchange_t *x = op->exchange;
    x->arrived_status = top->status;
    if (op->reducing && top->status == UCC_OK) {
        memcpy(x->result, top->payload, op->bytes);
    }
    if (top->status != UCC_OK) {
        hd_op_mismatch(op, op->me, 0);
    }
    hd_delay_point();
    /* release: status and result; pairs with the acquire in hd_arrived */
    atomic_store_explicit(&x->arrived, op->k, memory_order_release);
    hd_bell_ring(&op->group->home.bell);
}

static void arrive_by_counter(hd_op_t *op) {
    const hd_tree_t *tree = op_tree(op);
    uint32_t b = tree->leaf[op->me];
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
        return hd_lane_is_there(hd_board_lane(op->board, op_tree(op)->order[position], op->k),
                                op->k);
    }
    /* acquire: pairs with the release below */
    return atomic_load_explicit(&block_at(op, level - 1, position)->seq, memory_order_acquire) ==
           op->k;
}

/* Static arrival: I combine a block of level l if I am the first member of its first block below,
 * recursively. Goes up as far as what is there allows. */
bool hd_arrive_help(hd_op_t *op) {
    const hd_tree_t *tree = op_tree(op);
    if (!op->arriving || !op->group->static_arrival) {
        return true;
    }
    uint32_t b = tree->leaf[op->me], first = 0; /* my position must be the first of its block */
    for (uint32_t level = 0; level < tree->n_levels; level++) {
        const hd_tree_level_t *at = &tree->level[level];
        if (level == 0 ? tree->order[at->first[b]] != op->me : at->first[b] != first) {
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
            hd_delay_point();
            /* release: the block's record; pairs with operand_is_there */
            atomic_store_explicit(&block->seq, op->k, memory_order_release);
            hd_bell_ring(&op->group->home.bell);
        }
        first = b;
        b = level + 1 < tree->n_levels ? at->parent[b] : 0;
    }
    return true;
}

void hd_arrive(hd_op_t *op, bool reducing) {
    if (hd_op_is_flat(op)) {
        return;
    }
    op->arriving = true;
    op->reducing = reducing;
    op->arrive_which = reducing ? 0 : 1;
    op->arrive_level = 0;
    if (op->group->static_arrival) {
        hd_arrive_help(op);
    } else {
        arrive_by_counter(op);
    }
}

ucc_status_t hd_arrived(hd_op_t *op) {
    if (hd_op_is_flat(op)) {
        return hd_op_all_lanes(op);
    }
    if (!hd_arrive_help(op)) {
        return UCC_INPROGRESS;
    }
    /* acquire: pairs with the release in announce */
    if (atomic_load_explicit(&op->exchange->arrived, memory_order_acquire) != op->k) {
        return UCC_INPROGRESS;
    }
    op->saw_all = true;
    return (ucc_status_t)op->exchange->arrived_status;
}
