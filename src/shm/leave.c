/* leave.c: endpoints that are gone while others go on: those that have left the team (heddle_leave,
 * ucc_team_destroy), and, in the child of a fork, all the others.
 *
 * Leaving is local, and right while the others only finish what the leaver took part in: its lanes
 * are out. But nothing can complete that it never took part in. Whoever waits for such a thing
 * finds out here, on its slow path, and fails the team. A child's copy of a group can complete
 * nothing at all: it is poisoned before fork() returns, and its locks and bells forget the threads
 * that are not there.
 */
#include "shm/internal.h"

#include <stddef.h>

/* What can't be known any more is not waited for; both are the same for every operation. */
enum { LEFT = UCC_ERR_NOT_FOUND, INHERITED = UCC_ERR_NOT_SUPPORTED };

/* --- leaving ---------------------------------------------------------------------------------- */

uint64_t hd_group_leave(hd_group_t *group, uint32_t ep) {
    uint64_t last = group->board->member[ep]->taken;
    hd_shared_t *shared = group->board->shared[ep];
    /* release: what I have published; pairs with has_left */
    if (atomic_exchange_explicit(&shared->left, 1, memory_order_release) == 0) {
        /* seq_cst: the same, for whoever looks at the count first; and see put.c, whose writers
           must see it or be seen by a leaver who looks for them after this */
        uint32_t before =
            atomic_fetch_add_explicit(&hd_common(group)->n_left, 1, memory_order_seq_cst);
        hd_assert_lt(before, group->n);
        (void)before;
        hd_bell_alarm(&group->home.bell);
        hd_bell_ring(&group->home.bell);
    }
    return last;
}

bool hd_group_has_left(const hd_group_t *group, uint32_t ep) {
    const hd_shared_t *shared = hd_board_peer(group->board, ep); /* not all may have joined */
    /* acquire: pairs with hd_group_leave */
    return shared && atomic_load_explicit(&shared->left, memory_order_acquire) != 0;
}

bool hd_group_has_leavers(const hd_group_t *group) {
    /* acquire: pairs with hd_group_leave */
    return atomic_load_explicit(&hd_common(group)->n_left, memory_order_acquire) != 0;
}

/* Member i of op's board has left the team: has it taken no part in op? */
static bool took_no_part(const hd_op_t *op, uint32_t i) {
    const hd_board_t *board = op->place.board;
    if (board->entry && !hd_match_has_joined(board, i)) {
        return true;
    }
    /* acquire: it may have come meanwhile. What a leaver has not published, it never will */
    return op->numbered && atomic_load_explicit(&hd_board_lane(board, i, op->place.k)->seq,
                                                memory_order_acquire) < op->place.k;
}

static void say_missed(const hd_op_t *op, uint64_t ep) {
    char title[256];
    hd_error("%s: endpoint %llu has left the team before it, endpoint %u waits in vain",
             hd_op_title(op, hd_op_type_name(op), title, sizeof(title)), (unsigned long long)ep,
             op->team_ep);
}

ucc_status_t hd_op_watch_leavers(hd_op_t *op) {
    hd_group_t *group = op->group;
    if (!hd_group_has_leavers(group)) {
        return UCC_OK;
    }
    for (uint32_t i = 0; i < op->place.n; i++) {
        if (i != op->place.me && hd_group_has_left(group, hd_op_member(op, i)) &&
            took_no_part(op, i)) {
            if (hd_group_poisoned(group) == UCC_OK) {
                say_missed(op, hd_op_endpoint(op, i));
            }
            hd_group_poison(group, (ucc_status_t)LEFT);
            return (ucc_status_t)LEFT;
        }
    }
    return UCC_OK;
}

/* --- inheriting ------------------------------------------------------------------------------- */

/* In the child, before fork() returns: whatever threads are there in the copy, they are not here.
 */
static void inherited(hd_fork_hook_t *self) {
    hd_group_t *group = (hd_group_t *)(void *)((char *)self - offsetof(hd_group_t, fork_hook));
    if (hd_group_is_mapped(group)) {
        hd_mapping_inherited(group, group->windows, group->windows_end);
        hd_births_init(group->births);
    }
    hd_bell_forget(&group->home.bell);
    hd_board_unlock(group->board);
    hd_match_unlock(group->match);
    hd_waits_unlock(group);
    hd_terms_unlock();
    hd_group_poison(group, (ucc_status_t)INHERITED);
}

void hd_group_watch_forks(hd_group_t *group) {
    group->forks = hd_forks();
    hd_fork_watch(&group->fork_hook, inherited);
}
