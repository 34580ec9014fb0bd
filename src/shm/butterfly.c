/* butterfly.c: "everybody is here" where all wait for all and every endpoint has a processor.
 *
 * Up a tree to one member and down again, the last arrival takes twice the tree's height to be
 * known to all, for most of which most members do nothing. In a butterfly (Brooks, "The butterfly
 * barrier", 1986; here with blocks of up to eight, as in Hoefler et al., "Fast barrier
 * synchronization for InfiniBand", 2006) nobody waits to be told: each member combines, level by
 * level, the block of the tree that it lies in itself, and has the result at the top. For that it
 * reads one member of each block beside its own, the one that stands where it stands in its own
 * block, so that each record has about as many readers as a block has members: more where blocks
 * beside each other differ in size. Trees in which they differ too much are not climbed
 * (hd_group_climbs). What it has combined it publishes in a record of its own, which nobody else
 * writes.
 *
 *   level 0      reads the lanes of its block
 *   level l > 0  reads, of each other block below, one member's record of level l - 1
 *
 * Up to sixteen in one package read all lanes, and combine all blocks: one step in all.
 *
 * All members combine a block's payloads in the order of the tree: they have the same bits, those
 * that a tree's combiners would have. Reductions go by the canonical tree, what has no payload by
 * the one that hd_board_t's `steps_by` names.
 *
 * RECORDS. That of level l in slot k mod depth is written by its member for k, and read by members
 * that have published k and not consumed it. It is written again for k + depth, after its member
 * has published k + depth, so (floor, types.h) all have consumed k: no reader is left. And who
 * waits for k finds k or an older number. The record of the top is its member's own.
 *
 * A member owes its records below the top: it does not end alone before it has written them
 * (hd_arrive_help), and when it ends otherwise the group is poisoned.
 */
#include "shm/internal.h"

static const hd_tree_t *op_tree(const hd_op_t *op) {
    return op->place.board->tree[op->arrive_which];
}

static hd_release_t *record_of(const hd_op_t *op, uint32_t i, uint32_t level) {
    hd_assert_lt(level, op->place.board->steps);
    return &op->slot->record[(size_t)i * op->place.board->steps + level];
}

/* The block of a level that member `i` combines, or is asked about. */
typedef struct step {
    const hd_op_t *op;
    uint32_t i, position; /* the member, and where it stands in the tree's order */
    uint32_t level, block;
    uint32_t own; /* the item of this block that it lies in: a position at level 0, else a block */
} step_t;

static step_t first_step(const hd_op_t *op, uint32_t i) {
    const hd_tree_t *tree = op_tree(op);
    uint32_t block = tree->leaf[i], position = tree->level[0].first[block];
    while (tree->order[position] != i) {
        position++;
    }
    return (step_t){op, i, position, 0, block, position};
}

static void next_step(step_t *step) {
    step->own = step->block;
    step->block = op_tree(step->op)->level[step->level].parent[step->block];
    step->level++;
}

/* Which member's lane, or record of the level below, is read for that item. */
static uint32_t source_of(const step_t *step, uint32_t item) {
    return hd_tree_source(op_tree(step->op), step->level, step->position, step->own, item);
}

/* The word that is k when that item may be read. */
static const _Atomic uint64_t *word_of(const step_t *step, uint32_t item) {
    const hd_op_t *op = step->op;
    uint32_t i = source_of(step, item);
    return step->level == 0 ? &hd_board_lane(op->place.board, i, op->place.k)->seq
                            : &record_of(op, i, step->level - 1)->seq;
}

/* The first item of this block, other than the member's own, that is not there yet; the last one
 * plus 1: all are. */
static uint32_t missing_item(const step_t *step) {
    const hd_tree_level_t *level = &op_tree(step->op)->level[step->level];
    uint32_t item = level->first[step->block], end = level->first[step->block + 1];
    /* acquire: pairs with the release of a lane, and with that in hd_butterfly_go */
    while (item < end &&
           (item == step->own ||
            atomic_load_explicit(word_of(step, item), memory_order_acquire) == step->op->place.k)) {
        item++;
    }
    return item;
}

static bool is_end(const step_t *step, uint32_t item) {
    return item == op_tree(step->op)->level[step->level].first[step->block + 1];
}

/* Of this block all is there; else the first word that is not k yet. */
static const _Atomic uint64_t *missing_of(const step_t *step) {
    uint32_t item = missing_item(step);
    return is_end(step, item) ? NULL : word_of(step, item);
}

static hd_operand_t operand_of_record(const hd_release_t *record) {
    return (hd_operand_t){record->signature, record->status, record->payload};
}

/* top: of all. */
static void fold(const hd_op_t *op, uint32_t n, const hd_operand_t *from, bool top,
                 hd_release_t *into) {
    const void *payload[HD_REDUCE_BLOCK];
    hd_assert_le(n, HD_REDUCE_BLOCK);
    into->signature = op->call.signature;
    into->status = UCC_OK;
    for (uint32_t j = 0; j < n; j++) {
        payload[j] = from[j].payload;
        if (from[j].status != UCC_OK || from[j].signature != op->call.signature) {
            into->status = from[j].status != UCC_OK ? from[j].status : UCC_ERR_INVALID_PARAM;
        }
    }
    if ((op->arrival & HD_ARRIVE_REDUCING) && into->status == UCC_OK) {
        into->status = hd_reduce_block(&op->call.reducer, n, payload, into->payload,
                                       op->call.bytes / op->call.element, top);
    }
}

/* All of the block is there: its record of mine. */
static void combine(const step_t *step) {
    const hd_op_t *op = step->op;
    const hd_tree_level_t *level = &op_tree(op)->level[step->level];
    uint32_t first = level->first[step->block], n = level->first[step->block + 1] - first;
    hd_operand_t from[HD_REDUCE_BLOCK];
    hd_assert_le(n, HD_REDUCE_BLOCK);
    for (uint32_t j = 0; j < n; j++) {
        uint32_t i = source_of(step, first + j);
        from[j] = step->level == 0 ? hd_operand_of_lane(op, i)
                                   : operand_of_record(record_of(op, i, step->level - 1));
    }
    fold(op, n, from, level->n_blocks == 1, record_of(op, step->i, step->level));
}

/* My record of the top is there. */
static void end(hd_op_t *op) {
    hd_release_t *top = record_of(op, op->place.me, op_tree(op)->n_levels - 1);
    op->arrive_level = op_tree(op)->n_levels;
    if (top->status != UCC_OK) {
        hd_op_mismatch(op, op->place.me);
    }
    /* relaxed: nobody else looks at it */
    atomic_store_explicit(&top->seq, op->place.k, memory_order_relaxed);
}

/* The same for both levels of a tree of two at once: each member reads all lanes, and combines all
 * blocks. */
static const _Atomic uint64_t *go_at_once(hd_op_t *op) {
    const hd_tree_t *tree = op_tree(op);
    const hd_tree_level_t *level = &tree->level[0];
    hd_operand_t from[HD_REDUCE_BLOCK];
    hd_release_t part[HD_STEPS_AT_ONCE];
    hd_assert_le(level->n_blocks, HD_STEPS_AT_ONCE);
    for (uint32_t i = 0; i < op->place.n; i++) {
        const hd_lane_t *lane = hd_board_lane(op->place.board, i, op->place.k);
        if (i != op->place.me && !hd_lane_is_there(lane, op->place.k)) {
            return &lane->seq;
        }
    }
    for (uint32_t b = 0; b < level->n_blocks; b++) {
        uint32_t first = level->first[b], n = level->first[b + 1] - first;
        for (uint32_t j = 0; j < n; j++) {
            from[j] = hd_operand_of_lane(op, tree->order[first + j]);
        }
        fold(op, n, from, false, &part[b]);
    }
    for (uint32_t b = 0; b < level->n_blocks; b++) {
        from[b] = operand_of_record(&part[b]);
    }
    fold(op, level->n_blocks, from, true, record_of(op, op->place.me, 1));
    end(op);
    return NULL;
}

const _Atomic uint64_t *hd_butterfly_go(hd_op_t *op) {
    uint32_t n_levels = op_tree(op)->n_levels;
    if (op->arrive_level == n_levels) {
        return NULL;
    }
    if (op->place.board->at_once) {
        return go_at_once(op);
    }
    step_t step = first_step(op, op->place.me);
    while (step.level < op->arrive_level) {
        next_step(&step);
    }
    for (;; next_step(&step)) {
        const _Atomic uint64_t *missing = missing_of(&step);
        if (missing) {
            return missing;
        }
        combine(&step);
        if (step.level + 1 == n_levels) {
            end(op);
            return NULL;
        }
        op->arrive_level = step.level + 1;
        hd_release_t *mine = record_of(op, step.i, step.level);
        hd_assert_lt(mine->seq, op->place.k);
        hd_delay_point();
        /* release: the record, and all lanes that it stands for; pairs with missing_of */
        atomic_store_explicit(&mine->seq, op->place.k, memory_order_release);
        hd_bell_ring(&op->group->home.bell);
    }
}

bool hd_butterfly_owes_nothing(const hd_op_t *op) {
    return op->place.board->at_once || op->arrive_level + 1 >= op_tree(op)->n_levels;
}

const hd_release_t *hd_butterfly_result(const hd_op_t *op) {
    return record_of(op, op->place.me, op_tree(op)->n_levels - 1);
}

/* The first step of a member whose record is not there yet. False: all below the top are. */
static bool find_step(const hd_op_t *op, uint32_t i, step_t *step) {
    uint32_t last = op_tree(op)->n_levels - 1;
    *step = first_step(op, i);
    /* acquire: pairs with the release above, though only told */
    while (step->level < last && atomic_load_explicit(&record_of(op, i, step->level)->seq,
                                                      memory_order_acquire) == op->place.k) {
        next_step(step);
    }
    return step->level < last;
}

/* Goes from who is waited for to whom that one waits for, until one has all that it needs: each has
 * come less far than the one before. */
bool hd_butterfly_owes(const hd_op_t *op, uint32_t i) {
    step_t step = first_step(op, op->place.me);
    if (op->place.board->at_once || op->arrive_level == op_tree(op)->n_levels) {
        return false;
    }
    while (step.level < op->arrive_level) {
        next_step(&step);
    }
    while (step.level > 0) {
        uint32_t item = missing_item(&step), level = step.level;
        if (is_end(&step, item)) {
            return false;
        }
        uint32_t source = source_of(&step, item);
        if (!find_step(op, source, &step) || step.level >= level) {
            return false;
        }
        if (!missing_of(&step)) {
            return source == i &&
                   hd_lane_is_there(hd_board_lane(op->place.board, i, op->place.k), op->place.k);
        }
    }
    return false;
}
