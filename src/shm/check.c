/* check.c: the equations of types.h, checked over whole boards and groups in builds for that
 * (HD_DEBUG=2) and by tests.
 *
 * Others are at work meanwhile. So only what holds at any moment is checked, and values that only
 * grow are loaded in the order in which the equation stays true: what is smaller first, where it is
 * a lower bound of what may grow in between; last, where the larger one is bounded by its growth.
 */
#include "shm/internal.h"

#if HD_DEBUG >= 2 || defined(HD_TEST)

enum { MOST_PEERS = 64 }; /* looked at in one check: a board of thousands is seen in turns */

static uint64_t load(const _Atomic uint64_t *word) {
    /* acquire: loads stay in the order in which they are written here */
    return atomic_load_explicit(word, memory_order_acquire);
}

/* A number that was ever in slot `slot`, or none. */
static bool fits_slot(const hd_board_t *board, uint32_t slot, uint64_t seq) {
    return seq == 0 || (seq & board->mask) == slot;
}

/* The first of those peers that this check looks at. */
static uint32_t first_peer(const hd_board_t *board, uint64_t k) {
    return board->n > MOST_PEERS ? (uint32_t)(k * MOST_PEERS % board->n) : 0;
}

static const hd_shared_t *peer_at(const hd_board_t *board, uint32_t i) {
    return hd_board_peer(board, i % board->n); /* NULL before it has joined */
}

static uint32_t n_peers(const hd_board_t *board) {
    return board->n < MOST_PEERS ? board->n : MOST_PEERS;
}

/* What waits is numbered without a gap up to the last number given out, and nothing of it is over.
 */
static void check_queue(const hd_member_t *m, uint64_t consumed) {
    const hd_op_t *op = m->queue;
    uint64_t next = op ? op->place.k : m->taken + 1;
    hd_op_t *const *tail = &m->queue;
    hd_always_lt(consumed, next);
    for (; op; op = op->queue_next) {
        hd_always(op->task.queued && op->place.member == m);
        hd_always_eq(op->place.k, next);
        hd_always(!op->task.deadline ||
                  (m->queue_deadline && m->queue_deadline <= op->task.deadline));
        tail = &op->queue_next;
        next++;
    }
    hd_always_eq(next, m->taken + 1);
    hd_always(m->queue_tail == tail);
}

/* What one member knows of itself, under its lock. */
static void check_own(const hd_board_t *board, uint32_t me) {
    const hd_member_t *m = board->member[me];
    uint64_t consumed = load(&m->shared->consumed), open = m->taken - consumed;
    hd_always(m->shared == board->shared[me]);
    hd_always_le(consumed, m->taken);
    hd_always_le(m->floor, consumed);
    hd_always_eq(m->over & 1, 0); /* else it would be consumed */
    hd_always(open >= 64 || m->over >> open == 0);
    for (uint32_t slot = 0; slot < board->depth; slot++) {
        uint64_t seq = load(&m->shared->lane[slot].seq);
        hd_always(fits_slot(board, slot, seq));
        hd_always_le(seq, m->taken);
        hd_always(seq <= consumed || seq - consumed <= board->depth / 2); /* the window */
    }
    check_queue(m, consumed);
}

/* What I may know of a peer that publishes and consumes meanwhile. */
static void check_peer(const hd_board_t *board, const hd_member_t *mine, const hd_shared_t *peer,
                       uint64_t floor) {
    hd_always_le(floor, load(&peer->consumed)); /* a lower bound when it was computed, and so now */
    for (uint32_t slot = 0; slot < board->depth; slot++) {
        uint64_t seq = load(&peer->lane[slot].seq);
        hd_always(fits_slot(board, slot, seq));
        /* the floor: when it was published, I had consumed what was in the slot before */
        hd_always_le(seq, load(&mine->shared->consumed) + board->depth);
    }
}

static void check_exchange(const hd_board_t *board, uint32_t slot, uint64_t consumed) {
    const hd_exchange_t *x = &board->exchange[slot];
    uint64_t arrived = load(&x->arrived), done = load(&x->done);
    hd_always(fits_slot(board, slot, arrived) && fits_slot(board, slot, done));
    /* mine is among those that have arrived, and I had consumed what was in the slot before */
    hd_always_le(arrived, consumed + board->depth);
    hd_always_le(done, consumed + board->depth);
    const hd_slot_t *own = &board->slot[slot];
    hd_always(!board->tree[0] == !own->block[0] && !board->tree[1] == !own->block[1]);
    /* acquire: pairs with `complete`; before, whoever seals the group may be making them */
    if (atomic_load_explicit(&board->group->complete, memory_order_acquire)) {
        hd_always_eq(!board->steps, !own->record);
    }
}

void hd_board_check(const hd_board_t *board, uint32_t me) {
    const hd_member_t *mine = board->member[me];
    hd_always_eq(board->mask, board->depth - 1);
    hd_always_lt(me, board->n);
    hd_always_lt(1, board->depth); /* others have neither windows nor floors */
    uint64_t common = load(&board->head->floor),
             floor = common > mine->floor ? common : mine->floor;
    check_own(board, me);
    for (uint32_t i = 0, first = first_peer(board, mine->taken); i < n_peers(board); i++) {
        const hd_shared_t *peer = peer_at(board, first + i);
        if (peer) {
            check_peer(board, mine, peer, floor);
        } else {
            hd_always_eq(floor, 0); /* nobody consumes before all have joined */
        }
    }
    for (uint32_t slot = 0; slot < board->depth; slot++) {
        check_exchange(board, slot, load(&mine->shared->consumed));
    }
}

void hd_board_check_slot(const hd_board_t *board, uint64_t k) {
    uint32_t first = first_peer(board, k);
    for (uint32_t i = 0; k > board->depth && board->depth > 1 && i < n_peers(board); i++) {
        const hd_shared_t *peer = peer_at(board, first + i);
        hd_always(peer);
        hd_always_le(k - board->depth, load(&peer->consumed));
    }
}

static void check_tree(const hd_tree_t *tree, uint32_t n) {
    if (tree) {
        hd_always_eq(tree->n_endpoints, n);
        ucc_status_t status = hd_tree_check(tree, NULL);
        hd_always(status == UCC_OK || status == UCC_ERR_NO_MEMORY); /* it takes some itself */
    }
}

void hd_group_check(const hd_group_t *group) {
    const hd_board_t *board = group->board;
    /* relaxed: whoever calls this has seen all joins, or there are no more to come */
    uint32_t joined = atomic_load_explicit(&hd_common(group)->joined, memory_order_relaxed),
             there = 0;
    hd_always(board->group == group && board->n == group->n && board->depth == group->depth);
    hd_always_le(group->lines_max, HD_LINES_LIMIT);
    hd_always_eq(group->lines_per_slot, hd_lines_for(group->lines_max));
    hd_always_eq(group->staged_slot % HD_LINE, 0);
    hd_always_lt(group->staged_slot, (uint32_t)1 << 28); /* a lane's byte count has 28 bits */
    for (uint32_t i = 0; i < group->n; i++) {
        there += hd_board_peer(board, i) != NULL;
    }
    hd_always_le(joined & ~HD_GROUP_ABANDONED, there);
    hd_always_le(atomic_load_explicit(&hd_common(group)->n_left, memory_order_relaxed),
                 there); /* as above */
    hd_always(board->tree[0] == group->canonical);
    check_tree(group->canonical, group->n);
    check_tree(group->by_topology, group->n);
}

#else
typedef int hd_no_check_t; /* an empty file is not C */
#endif
