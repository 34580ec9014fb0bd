/* board.c: rings of lanes, and the flow control that makes their reuse safe (types.h has the
 * proof).
 *
 * Who may call: create, add_member, destroy, reset: whoever forms or frees the board. may_publish
 * and consume: under the member's lock (or alone on it).
 */
#include "shm/leaning.h"
#include "shm/outer.h"

#include <string.h>

static size_t shared_bytes(uint32_t depth) {
    return sizeof(hd_shared_t) + depth * sizeof(hd_lane_t);
}

static uint32_t slices_of(const hd_group_t *group, uint32_t n) {
    return n > group->slices ? n : group->slices;
}

uint32_t hd_board_slices(const hd_board_t *board) {
    return slices_of(board->group, board->n);
}

/* Most steps of a butterfly on a board of these trees. */
static uint32_t steps_of(const hd_group_t *group, const hd_tree_t *canonical,
                         const hd_tree_t *by_topology) {
    if (!group->butterfly || !canonical) {
        return 0;
    }
    uint32_t steps = group->steps_by ? by_topology->n_levels : 0;
    return steps > canonical->n_levels ? steps : canonical->n_levels;
}

/* --- in a mapping ----------------------------------------------------------------------------- */

/* How far from the board's place in a mapping its parts lie; those of which there are several stand
 * so far from each other. */
typedef struct layout {
    size_t head, entry, exchange, block[2], record, slice, slices, buffers, each_buffers;
    size_t shared, each_shared, lines, each_lines, staging, each_staging, bytes;
} layout_t;

/* Of a group's main board, whose trees are decided when all have joined, there is room for the
 * blocks of any, and what only its member writes begins at a page, to lie where that member runs.
 * Boards found by matching are small. */
static layout_t lay_out(const hd_group_t *group, uint32_t n, uint32_t depth, size_t entry,
                        const hd_tree_t *canonical, const hd_tree_t *by_topology) {
    enum { PAGE = 4096 };
    layout_t l = {0};
    bool large = entry == 0;
    const hd_tree_t *tree[2] = {canonical, by_topology};
    size_t each = large ? PAGE : HD_LINE_PAIR, at = 0, of_one = shared_bytes(depth);
    l.head = hd_mapping_place(&at, sizeof(hd_head_t), HD_LINE_PAIR);
    l.entry = hd_mapping_place(&at, entry, HD_LINE_PAIR);
    l.exchange = hd_mapping_place(&at, depth * sizeof(hd_exchange_t), HD_LINE_PAIR);
    for (int t = 0; t < 2; t++) {
        size_t blocks = large ? (size_t)n * HD_TREE_MAX_LEVELS : tree[t] ? tree[t]->n_slots : 0;
        l.block[t] = hd_mapping_place(&at, depth * blocks * sizeof(hd_block_t), HD_LINE_PAIR);
    }
    size_t steps = large ? HD_STEPS_MOST : steps_of(group, canonical, by_topology);
    l.record = hd_mapping_place(&at, depth * n * steps * sizeof(hd_release_t), HD_LINE_PAIR);
    l.slices = slices_of(group, n) * sizeof(hd_slice_t);
    l.slice = hd_mapping_place(&at, depth * l.slices, HD_LINE_PAIR);
    l.each_buffers = ((size_t)n * 3 * sizeof(void *) + HD_LINE - 1) / HD_LINE * HD_LINE;
    l.buffers = hd_mapping_place(&at, depth * l.each_buffers, HD_LINE_PAIR);
    l.each_shared = hd_mapping_place(&of_one, 0, each);
    l.shared = hd_mapping_place(&at, n * l.each_shared, each);
    l.each_lines = depth * group->lines_per_slot * sizeof(hd_data_line_t);
    l.lines = hd_mapping_place(&at, n * l.each_lines, PAGE);
    l.each_staging = (size_t)depth * group->staging_slot;
    l.staging = hd_mapping_place(&at, n * l.each_staging, PAGE);
    l.bytes = hd_mapping_place(&at, 0, HD_LINE_PAIR);
    return l;
}

static layout_t layout_of(const hd_board_t *board) {
    return lay_out(board->group, board->n, board->depth, board->entry_bytes, board->tree[0],
                   board->tree[1]);
}

size_t hd_board_bytes(const hd_group_t *group, uint32_t n, uint32_t depth, size_t entry,
                      const hd_tree_t *canonical, const hd_tree_t *by_topology) {
    return lay_out(group, n, depth, entry, canonical, by_topology).bytes;
}

static size_t records_bytes(const hd_board_t *board) {
    return (size_t)board->n * board->steps * sizeof(hd_release_t);
}

/* --- making and ending ------------------------------------------------------------------------ */

static bool create_blocks(hd_board_t *board, int which) {
    const hd_tree_t *tree = board->tree[which];
    layout_t l = board->at ? layout_of(board) : (layout_t){0};
    for (uint32_t d = 0; tree && d < board->depth; d++) {
        hd_slot_t *slot = &board->slot[d];
        size_t bytes = tree->n_slots * sizeof(hd_block_t);
        if (which == 1 && tree == board->tree[0]) {
            slot->block[which] = slot->block[0];
        } else {
            slot->block[which] =
                board->at ? (hd_block_t *)(void *)(board->at + l.block[which] + d * bytes)
                          : hd_alloc(HD_LINE_PAIR, bytes);
        }
        if (!slot->block[which]) {
            return false;
        }
    }
    return true;
}

/* Both trees are known. */
static bool create_records(hd_board_t *board) {
    layout_t l = board->at ? layout_of(board) : (layout_t){0};
    board->steps = steps_of(board->group, board->tree[0], board->tree[1]);
    board->steps_by = board->group->steps_by;
    board->at_once = board->steps && board->group->at_once && board->tree[0]->n_levels == 2 &&
                     board->tree[0]->level[0].n_blocks <= HD_STEPS_AT_ONCE;
    for (uint32_t d = 0; board->steps && d < board->depth; d++) {
        size_t bytes = records_bytes(board);
        board->slot[d].record = board->at
                                    ? (hd_release_t *)(void *)(board->at + l.record + d * bytes)
                                    : hd_alloc(HD_LINE_PAIR, bytes);
        if (!board->slot[d].record) {
            return false;
        }
    }
    return true;
}

static void free_block(const hd_board_t *board, void *block) {
    if (!board->at) {
        hd_free(block);
    }
}

void hd_work_free(hd_work_t *work) {
    if (work && !work->placed) {
        hd_free(work->slice);
        hd_free((void *)work->src);
        hd_free(work->dst);
        hd_free((void *)work->call);
    }
    hd_free(work);
}

hd_work_t *hd_board_create_work(const hd_board_t *board, uint32_t slot) {
    hd_work_t *work = hd_alloc(HD_LINE, sizeof(*work));
    uint32_t n = board->n;
    if (!work) {
        return NULL;
    }
    if (board->at) {
        layout_t l = layout_of(board);
        void **buffers = (void **)(void *)(board->at + l.buffers + slot * l.each_buffers);
        *work = (hd_work_t){.slice = (hd_slice_t *)(void *)(board->at + l.slice + slot * l.slices),
                            .src = (const void **)buffers,
                            .dst = buffers + n,
                            .call = (const hd_call_t **)(void *)(buffers + 2 * (size_t)n),
                            .placed = true};
        return work;
    }
    work->slice = hd_alloc(HD_LINE_PAIR, hd_board_slices(board) * sizeof(*work->slice));
    work->src = hd_alloc(HD_LINE, n * sizeof(*work->src));
    work->dst = hd_alloc(HD_LINE, n * sizeof(*work->dst));
    work->call = hd_alloc(HD_LINE, n * sizeof(*work->call));
    if (!work->slice || !work->src || !work->dst || !work->call) {
        hd_work_free(work);
        return NULL;
    }
    return work;
}

/* Where all members lie in the mapping; they may have joined there, or not. */
static void place(hd_board_t *board) {
    layout_t l = layout_of(board);
    board->head = (hd_head_t *)(void *)(board->at + l.head);
    board->entry =
        board->entry_bytes ? (struct hd_match_entry *)(void *)(board->at + l.entry) : NULL;
    board->exchange = (hd_exchange_t *)(void *)(board->at + l.exchange);
    for (uint32_t i = 0; i < board->n; i++) {
        board->shared[i] = (hd_shared_t *)(void *)(board->at + l.shared + i * l.each_shared);
    }
}

hd_board_t *hd_board_create(hd_group_t *group, uint32_t n, uint32_t depth, size_t entry,
                            const hd_tree_t *canonical, const hd_tree_t *by_topology, uint8_t *at) {
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
    board->at = at;
    board->entry_bytes = entry;
    board->tree[0] = canonical;
    board->tree[1] = by_topology;
    board->slot = hd_alloc(HD_LINE, depth * sizeof(hd_slot_t));
    board->member = hd_alloc(HD_LINE_PAIR, n * sizeof(hd_member_t *));
    board->shared = hd_alloc(HD_LINE_PAIR, n * sizeof(hd_shared_t *));
    if (!at) {
        board->head = hd_alloc(HD_LINE, sizeof(hd_head_t));
        board->exchange = hd_alloc(HD_LINE_PAIR, depth * sizeof(hd_exchange_t));
        board->entry = entry ? hd_alloc(HD_LINE, entry) : NULL;
    } else if (board->shared) {
        place(board);
    }
    if (!board->head || !board->exchange || (entry && !board->entry) || !board->slot ||
        !board->member || !board->shared || !create_blocks(board, 0) || !create_blocks(board, 1) ||
        !create_records(board)) {
        hd_board_destroy(board);
        return NULL;
    }
    return board;
}

ucc_status_t hd_board_set_topology(hd_board_t *board, const hd_tree_t *by_topology) {
    const hd_tree_t *before =
        board->tree[1]; /* none, or the canonical one, whose blocks it shares */
    hd_assert(!before || before == board->tree[0]);
    board->tree[1] = by_topology;
    if ((by_topology == before || create_blocks(board, 1)) && create_records(board)) {
        return UCC_OK;
    }
    for (uint32_t d = 0; d < board->depth; d++) {
        hd_slot_t *slot = &board->slot[d];
        if (slot->block[1] != slot->block[0]) {
            free_block(board, slot->block[1]);
        }
        slot->block[1] = before ? slot->block[0] : NULL;
        free_block(board, slot->record);
        slot->record = NULL;
    }
    board->tree[1] = before;
    board->steps = 0;
    return UCC_ERR_NO_MEMORY;
}

static void member_init(hd_member_t *member, hd_shared_t *shared) {
    *member = (hd_member_t){.shared = shared, .queue_tail = &member->queue};
}

/* The rings that others make on demand are there from the beginning: untouched, they cost nothing.
 */
static void place_rings(const hd_board_t *board, hd_member_t *member, uint32_t i) {
    layout_t l = layout_of(board);
    hd_shared_t *shared = board->shared[i];
    uintptr_t lines = (uintptr_t)(board->at + l.lines + i * l.each_lines);
    /* relaxed, both: published with the first lane */
    if (l.each_lines) {
        atomic_store_explicit(&shared->lines, (ptrdiff_t)(lines - (uintptr_t)shared),
                              memory_order_relaxed);
    }
    atomic_store_explicit(&member->staging, board->at + l.staging + i * l.each_staging,
                          memory_order_relaxed);
}

/* Both parts in one piece of memory, unless one lies in a mapping. */
hd_member_t *hd_board_add_member(hd_board_t *board, uint32_t i) {
    size_t shared_too = board->at ? 0 : shared_bytes(board->depth);
    hd_member_t *member = hd_alloc(HD_LINE_PAIR, sizeof(hd_member_t) + shared_too);
    if (!member) {
        return NULL;
    }
    hd_shared_t *shared = board->at ? board->shared[i] : (hd_shared_t *)(member + 1);
    member_init(member, shared);
    board->member[i] = member;
    if (board->at) {
        place_rings(board, member, i);
    } else {
        /* release: for those who look who has joined (stall.c); others know that all have */
        __atomic_store_n(&board->shared[i], shared, __ATOMIC_RELEASE);
    }
    return member;
}

hd_shared_t *hd_board_peer(const hd_board_t *board, uint32_t i) {
    /* acquire: pairs with the release above */
    hd_shared_t *shared = __atomic_load_n(&board->shared[i], __ATOMIC_ACQUIRE);
    /* acquire: pairs with hd_group_join, where all are in place before they have joined */
    bool here = shared && (!board->at || board->entry ||
                           atomic_load_explicit(&shared->thread, memory_order_acquire) != 0);
    return here ? shared : NULL;
}

void hd_board_unlock(hd_board_t *board) {
    for (uint32_t i = 0; i < board->n; i++) {
        if (board->member[i]) {
            hd_lock_forget(&board->member[i]->lock);
        }
    }
}

void hd_board_reset_member(hd_board_t *board, uint32_t i) {
    hd_member_t *m = board->member[i];
    hd_data_line_t *lines = m->lines;
    hd_leaning_t *leaning = atomic_load_explicit(&m->leaning, memory_order_relaxed);
    /* relaxed, all: nobody uses the board */
    uint8_t *staging = atomic_load_explicit(&m->staging, memory_order_relaxed);
    member_init(m, m->shared);
    m->lines = lines;
    atomic_store_explicit(&m->leaning, leaning, memory_order_relaxed);
    hd_leaning_reset(leaning, board->depth);
    atomic_store_explicit(&m->staging, staging, memory_order_relaxed);
}

static void reset_shared(const hd_board_t *board, hd_shared_t *shared) {
    /* relaxed, both: nobody uses the board */
    ptrdiff_t offset = atomic_load_explicit(&shared->lines, memory_order_relaxed);
    if (offset) {
        memset(hd_lines_at(shared, offset), 0,
               (size_t)board->depth * board->group->lines_per_slot * sizeof(hd_data_line_t));
    }
    memset(shared, 0, shared_bytes(board->depth));
    atomic_store_explicit(&shared->lines, offset, memory_order_relaxed);
}

/* All that was ever claimed, by whichever mapping. */
static void reset_work(const hd_board_t *board, uint32_t d) {
    /* relaxed: nobody uses the board */
    const hd_work_t *work = atomic_load_explicit(&board->slot[d].work, memory_order_relaxed);
    if (board->at) {
        layout_t l = layout_of(board);
        memset(board->at + l.slice + d * l.slices, 0, l.slices);
    } else if (work) {
        memset(work->slice, 0, hd_board_slices(board) * sizeof(hd_slice_t));
    }
}

void hd_board_reset(hd_board_t *board) {
    for (uint32_t i = 0; i < board->n; i++) {
        reset_shared(board, board->shared[i]);
        if (board->member[i]) {
            hd_board_reset_member(board, i);
        }
    }
    for (uint32_t d = 0; d < board->depth; d++) {
        hd_exchange_t *x = &board->exchange[d];
        hd_slot_t *slot = &board->slot[d];
        for (int t = 0; t < 2; t++) {
            if (board->tree[t] && (t == 0 || slot->block[1] != slot->block[0])) {
                memset(slot->block[t], 0, board->tree[t]->n_slots * sizeof(hd_block_t));
            }
        }
        if (board->steps) {
            memset(slot->record, 0, records_bytes(board));
        }
        reset_work(board, d);
        /* relaxed: nobody uses the board; the lock or counter that handed it over orders this */
        atomic_store_explicit(&x->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&x->done, 0, memory_order_relaxed);
        atomic_store_explicit(&x->slices_done, 0, memory_order_relaxed);
        atomic_store_explicit(&x->hint, 0, memory_order_relaxed);
        atomic_store_explicit(&x->work_status, 0, memory_order_relaxed);
        atomic_store_explicit(&x->outer, 0, memory_order_relaxed);
        atomic_store_explicit(&x->far, 0, memory_order_relaxed);
        atomic_store_explicit(&x->ferry, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&board->head->floor, 0, memory_order_relaxed);
    atomic_store_explicit(&board->head->said, 0, memory_order_relaxed);
}

void hd_board_destroy(hd_board_t *board) {
    for (uint32_t i = 0; board->member && i < board->n; i++) {
        if (board->member[i] && !board->at) {
            /* relaxed: the last reference */
            hd_free_local(atomic_load_explicit(&board->member[i]->staging, memory_order_relaxed));
            hd_free(board->member[i]->lines);
        }
        if (board->member[i]) {
            hd_free(atomic_load_explicit(&board->member[i]->leaning, memory_order_relaxed));
        }
        hd_free(board->member[i]);
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
        /* relaxed: likewise */
        hd_far_free(atomic_load_explicit(&slot->far, memory_order_relaxed));
        if (slot->block[1] != slot->block[0]) {
            free_block(board, slot->block[1]);
        }
        free_block(board, slot->block[0]);
        free_block(board, slot->record);
    }
    hd_free(board->member);
    hd_free(board->shared);
    if (!board->at) {
        hd_free(board->head);
        hd_free(board->entry);
        hd_free(board->exchange);
    }
    hd_free(board->slot);
    if (board->own_tree) {
        hd_tree_destroy(board->own_tree);
    }
    hd_free(board);
}

/* Scans everybody's consumed counts, going on where the last look met a laggard. */
bool hd_board_floor_reaches(hd_board_t *board, hd_member_t *member, uint64_t target) {
    /* acquire: whoever stored it had seen the counts with acquire, and so have we now */
    uint64_t known = atomic_load_explicit(&board->head->floor, memory_order_acquire);
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
           !atomic_compare_exchange_weak_explicit(&board->head->floor, &known, target,
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
