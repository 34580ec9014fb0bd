/* board.c: rings of lanes, and the flow control that makes their reuse safe (types.h has the
 * proof).
 *
 * Who may call: create, add_member, destroy, reset: whoever forms or frees the board. may_publish
 * and consume: under the member's lock (or alone on it).
 */
#include "shm/outer.h"

#include <string.h>

static size_t shared_bytes(uint32_t depth) {
    return sizeof(hd_shared_t) + depth * sizeof(hd_lane_t);
}

static bool create_blocks(hd_board_t *board, int which) {
    const hd_tree_t *tree = board->tree[which];
    for (uint32_t d = 0; tree && d < board->depth; d++) {
        hd_slot_t *slot = &board->slot[d];
        slot->block[which] = which == 1 && tree == board->tree[0]
                                 ? slot->block[0]
                                 : hd_alloc(HD_LINE_PAIR, tree->n_slots * sizeof(hd_block_t));
        if (!slot->block[which]) {
            return false;
        }
    }
    return true;
}

void hd_work_free(hd_work_t *work) {
    if (work) {
        hd_free(work->slice);
        hd_free((void *)work->src);
        hd_free(work->dst);
        hd_free((void *)work->call);
        hd_free(work);
    }
}

uint32_t hd_board_slices(const hd_board_t *board) {
    return board->n > board->group->slices ? board->n : board->group->slices;
}

hd_board_t *hd_board_create(hd_group_t *group, uint32_t n, uint32_t depth,
                            const hd_tree_t *canonical, const hd_tree_t *by_topology) {
    hd_board_t *board = hd_alloc(HD_LINE_PAIR, sizeof(*board));
    if (!board) {
        return NULL;
    }
    hd_assert(depth > 0 && (depth & (depth - 1)) == 0);
    hd_assert_le(depth / 2, 64); /* bits of hd_member_t::over */
    board->group = group;
    board->n = n;
    board->depth = depth;
    board->mask = depth - 1;
    board->tree[0] = canonical;
    board->tree[1] = by_topology;
    board->exchange = hd_alloc(HD_LINE_PAIR, depth * sizeof(hd_exchange_t));
    board->slot = hd_alloc(HD_LINE, depth * sizeof(hd_slot_t));
    board->member = hd_alloc(HD_LINE_PAIR, n * sizeof(hd_member_t *));
    board->shared = hd_alloc(HD_LINE_PAIR, n * sizeof(hd_shared_t *));
    if (!board->exchange || !board->slot || !board->member || !board->shared ||
        !create_blocks(board, 0) || !create_blocks(board, 1)) {
        hd_board_destroy(board);
        return NULL;
    }
    return board;
}

ucc_status_t hd_board_set_topology(hd_board_t *board, const hd_tree_t *by_topology) {
    if (by_topology == board->tree[1]) {
        return UCC_OK;
    }
    const hd_tree_t *before =
        board->tree[1]; /* none, or the canonical one, whose blocks it shares */
    hd_assert(!before || before == board->tree[0]);
    board->tree[1] = by_topology;
    if (create_blocks(board, 1)) {
        return UCC_OK;
    }
    for (uint32_t d = 0; d < board->depth; d++) {
        hd_slot_t *slot = &board->slot[d];
        if (slot->block[1] != slot->block[0]) {
            hd_free(slot->block[1]);
        }
        slot->block[1] = before ? slot->block[0] : NULL;
    }
    board->tree[1] = before;
    return UCC_ERR_NO_MEMORY;
}

static void member_init(hd_member_t *member, hd_shared_t *shared) {
    *member = (hd_member_t){.shared = shared, .queue_tail = &member->queue};
}

/* Both parts in one piece of memory. */
hd_member_t *hd_board_add_member(hd_board_t *board, uint32_t i) {
    hd_member_t *member = hd_alloc(HD_LINE_PAIR, sizeof(hd_member_t) + shared_bytes(board->depth));
    if (member) {
        hd_shared_t *shared = (hd_shared_t *)(member + 1);
        member_init(member, shared);
        board->member[i] = member;
        /* release: for those who look who has joined (stall.c); others know that all have */
        __atomic_store_n(&board->shared[i], shared, __ATOMIC_RELEASE);
    }
    return member;
}

void hd_board_unlock(hd_board_t *board) {
    for (uint32_t i = 0; i < board->n; i++) {
        if (board->member[i]) {
            hd_lock_forget(&board->member[i]->lock);
        }
    }
}

void hd_board_reset(hd_board_t *board) {
    for (uint32_t i = 0; i < board->n; i++) {
        hd_member_t *m = board->member[i];
        hd_shared_t *shared = m->shared;
        hd_data_line_t *lines = m->lines;
        /* relaxed, here and below: nobody uses the board */
        uint8_t *staging = atomic_load_explicit(&m->staging, memory_order_relaxed);
        ptrdiff_t offset = atomic_load_explicit(&shared->lines, memory_order_relaxed);
        if (lines) {
            memset(lines, 0,
                   (size_t)board->depth * board->group->lines_per_slot * sizeof(hd_data_line_t));
        }
        memset(shared, 0, shared_bytes(board->depth));
        member_init(m, shared);
        m->lines = lines;
        atomic_store_explicit(&m->staging, staging, memory_order_relaxed);
        atomic_store_explicit(&shared->lines, offset, memory_order_relaxed);
    }
    for (uint32_t d = 0; d < board->depth; d++) {
        hd_exchange_t *x = &board->exchange[d];
        hd_slot_t *slot = &board->slot[d];
        for (int t = 0; t < 2; t++) {
            if (board->tree[t] && (t == 0 || slot->block[1] != slot->block[0])) {
                memset(slot->block[t], 0, board->tree[t]->n_slots * sizeof(hd_block_t));
            }
        }
        hd_work_t *work = atomic_load_explicit(&slot->work, memory_order_relaxed); /* nobody else */
        if (work) {
            memset(work->slice, 0, hd_board_slices(board) * sizeof(hd_slice_t));
        }
        /* relaxed: nobody uses the board; the lock or counter that handed it over orders this */
        atomic_store_explicit(&x->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&x->done, 0, memory_order_relaxed);
        atomic_store_explicit(&x->slices_done, 0, memory_order_relaxed);
        atomic_store_explicit(&x->hint, 0, memory_order_relaxed);
        atomic_store_explicit(&x->work_status, 0, memory_order_relaxed);
        atomic_store_explicit(&x->outer, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&board->floor, 0, memory_order_relaxed);
    atomic_store_explicit(&board->said, 0, memory_order_relaxed);
}

void hd_board_destroy(hd_board_t *board) {
    for (uint32_t i = 0; board->member && i < board->n; i++) {
        if (board->member[i]) {
            /* relaxed: the last reference */
            hd_free_local(atomic_load_explicit(&board->member[i]->staging, memory_order_relaxed));
            hd_free(board->member[i]->lines);
            hd_free(board->member[i]);
        }
    }
    for (uint32_t d = 0; board->slot && d < board->depth; d++) {
        hd_slot_t *slot = &board->slot[d];
        /* relaxed: the last reference */
        hd_work_free(atomic_load_explicit(&slot->work, memory_order_relaxed));
        /* relaxed: likewise */
        hd_outer_memory_t *flight = atomic_load_explicit(&slot->flight, memory_order_relaxed);
        if (flight) {
            flight->release(flight);
        }
        if (slot->block[1] != slot->block[0]) {
            hd_free(slot->block[1]);
        }
        hd_free(slot->block[0]);
    }
    hd_free(board->member);
    hd_free(board->shared);
    hd_free(board->exchange);
    hd_free(board->slot);
    if (board->own_tree) {
        hd_tree_destroy(board->own_tree);
    }
    hd_free(board);
}

/* Scans everybody's consumed counts, going on where the last look met a laggard. */
bool hd_board_floor_reaches(hd_board_t *board, hd_member_t *member, uint64_t target) {
    /* acquire: whoever stored it had seen the counts with acquire, and so have we now */
    uint64_t known = atomic_load_explicit(&board->floor, memory_order_acquire);
    if (known > member->floor) {
        member->floor = known;
    }
    if (member->floor >= target) {
        return true;
    }
    if (member->floor_target != target) {
        member->floor_target = target;
        member->floor_cursor = 0;
    }
    /* if nobody lags, the look at all says more than was asked: where the slowest is */
    uint64_t least = member->floor_cursor == 0 ? UINT64_MAX : target;
    for (; member->floor_cursor < board->n; member->floor_cursor++) {
        const hd_shared_t *peer = board->shared[member->floor_cursor];
        /* acquire: pairs with consume; the peer's reads of the slot happen before our writes */
        uint64_t consumed = atomic_load_explicit(&peer->consumed, memory_order_acquire);
        if (consumed < target) {
            return false;
        }
        least = consumed < least ? consumed : least;
    }
    hd_assert_le(target, least);
    target = least;
    member->floor = target;
    /* release: hands on what the acquires above saw; a lost race leaves a larger or equal floor */
    while (known < target &&
           !atomic_compare_exchange_weak_explicit(&board->floor, &known, target,
                                                  memory_order_acq_rel, memory_order_acquire)) {
    }
    return true;
}

void hd_board_consume_early(hd_member_t *member, uint64_t k, uint64_t consumed) {
    hd_assert_eq(member->over >> (k - consumed - 1) & 1, 0); /* over once */
    member->over |= (uint64_t)1 << (k - consumed - 1);
    if (!(member->over & 1)) {
        return;
    }
    while (member->over & 1) {
        member->over >>= 1;
        consumed++;
    }
    hd_delay_point();
    /* release: our reads of these exchanges happen before anybody's reuse of their slots */
    atomic_store_explicit(&member->shared->consumed, consumed, memory_order_release);
}

uint32_t hd_group_member(const hd_group_t *group, uint32_t number) {
    if (!group->numbers) {
        return number;
    }
    uint32_t first = 0,
             end = group->n; /* the first whose number is not less lies in [first, end] */
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if (group->numbers[middle] < number) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first < group->n && group->numbers[first] == number ? first : group->n;
}
