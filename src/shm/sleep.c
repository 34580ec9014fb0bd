/* sleep.c: what an operation waits for, told to those who ring for its sleepers.
 *
 * Everybody who publishes anything in a group rings, and n endpoints that sleep in one barrier
 * would be woken n times each, n - 1 of them in vain. So a sleeper says what it waits for: the word
 * of the hint (hd_task_t), or where that is the lane of one member and all members are waited for,
 * all lanes. Or that the group fails, or loses a member. What else may end a wait (a peer that
 * called something else) is found by who looks, and sleepers do that now and then.
 */
#include "shm/internal.h"

/* relaxed, here and below: a ringer sees what it has published, and what was there when somebody
 * was enlisted, or else the sleeper does in its last look (park.c) */
static uint32_t losses(const hd_group_t *group) {
    return atomic_load_explicit(&hd_common(group)->n_left, memory_order_relaxed);
}

static bool is_troubled(const hd_awaited_t *awaited) {
    const hd_group_t *group = awaited->home;
    return hd_group_poisoned(group) || losses(group) != awaited->losses;
}

static bool word_has_come(const hd_awaited_t *awaited) {
    const _Atomic uint64_t *word = awaited->where;
    return atomic_load_explicit(word, memory_order_relaxed) == awaited->value ||
           is_troubled(awaited);
}

static bool lanes_have_come(const hd_awaited_t *awaited) {
    const hd_board_t *board = awaited->where;
    uint32_t i = 0;
    while (i < board->n &&
           hd_lane_is_there(hd_board_lane(board, i, awaited->value), awaited->value)) {
        i++;
    }
    return i == board->n || is_troubled(awaited);
}

/* For those who have the same memory elsewhere. Lanes stand there as far from each other as the
 * first two of them. */
static void tell_far(const hd_op_t *op, bool lanes, hd_awaited_t *awaited) {
    const hd_place_t *at = &op->place;
    const hd_mapping_t *mapping = &op->group->mapping;
    awaited->first = lanes ? &hd_board_lane(at->board, 0, at->k)->seq : op->task.awaited;
    awaited->n_words = lanes ? at->n : 1;
    awaited->stride =
        lanes && at->n > 1
            ? (ptrdiff_t)((uintptr_t)at->board->shared[1] - (uintptr_t)at->board->shared[0])
            : 0;
    if ((uintptr_t)awaited->first - (uintptr_t)mapping->base >= mapping->bytes) {
        awaited->n_words = 0; /* it lies in this process alone */
    }
}

void hd_op_awaits(const hd_task_t *task, hd_awaited_t *awaited) {
    if (!task->awaited ||
        task->magic == HD_TASK_SCHEDULE) { /* all others that hint are operations */
        return;
    }
    const hd_op_t *op = (const hd_op_t *)(const void *)task;
    const hd_place_t *at = &op->place;
    bool lanes = op->plan.all_wait && op->plan.arrival != HD_ARRIVAL_BUTTERFLY &&
                 op->cursor < at->n &&
                 task->awaited == &hd_board_lane(at->board, op->cursor, at->k)->seq;
    *awaited =
        (hd_awaited_t){.has_come = lanes ? lanes_have_come : word_has_come,
                       .home = op->group,
                       .where = lanes ? (const void *)at->board : (const void *)task->awaited,
                       .value = task->awaited_value,
                       .losses = losses(op->group)};
    if (hd_group_is_mapped(op->group)) {
        tell_far(op, lanes, awaited);
    }
}
