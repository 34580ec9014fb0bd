/* lane.c: what other threads hand to a lane, and how its holder takes that in.
 *
 * An ITEM (a leg that starts, a team that ends or fails, news, a part of a swap) is pushed by any
 * thread, and comes to its `take` under the lane's lock, in the order in which items were handed.
 * Its `take` is set by whoever hands it.
 *
 * Nothing handed is forgotten. Whoever hands something pushes it, and tries the lock at its next
 * pump. If it fails, another thread holds the lock, and looks at the stack again after it has
 * unlocked: the two fences (after the push, and between the unlocking and the look:
 * hd_net_lane_unlock) make sure that one of the two sees the other.
 *
 * The stack is Concurrency Kit's, whose entries are pushed by many and taken all at once. What its
 * assembly orders, ThreadSanitizer is told, as with the lock (threads/lock.h); a push writes into
 * its entry after that, so the entries are written and read by assembly, too.
 */
#include "net/internal.h"

_Static_assert(sizeof(struct ck_stack_entry) == sizeof(struct ck_stack_entry *) &&
                   offsetof(hd_net_item_t, next) == 0,
               "an item begins with its entry in the stack");

/* ck_stack_push_upmc, but for how it writes into the entry: whoever takes that may write it,
 * too. */
static void push(struct ck_stack *stack, struct ck_stack_entry *entry) {
    struct ck_stack_entry *top = ck_pr_load_ptr(&stack->head);
    do {
        ck_pr_store_ptr(&entry->next, top);
        ck_pr_fence_store();
    } while (!ck_pr_cas_ptr_value(&stack->head, top, entry, &top));
}

void hd_net_lane_hand(hd_net_lane_t *lane, hd_net_item_t *item) {
    hd_sanitizer_before_assembly(&lane->handed);
    push(&lane->handed, (struct ck_stack_entry *)(void *)item);
    ck_pr_fence_atomic_load(); /* see above: the push, which is a swap, then a look at the lock */
}

bool hd_net_lane_take(hd_net_lane_t *lane) {
    if (!hd_net_lane_was_handed(lane)) {
        return false;
    }
    struct ck_stack_entry *all = ck_stack_batch_pop_upmc(&lane->handed), *first = NULL;
    hd_sanitizer_after_assembly(&lane->handed);
    while (all) { /* the last is on top */
        struct ck_stack_entry *next = ck_pr_load_ptr(&all->next);
        ck_pr_store_ptr(&all->next, first);
        first = all;
        all = next;
    }
    while (first) {
        struct ck_stack_entry *next =
            ck_pr_load_ptr(&first->next); /* an item may be gone when it was taken in */
        hd_net_item_t *item = (hd_net_item_t *)(void *)first;
        item->take(lane, item);
        first = next;
    }
    return true;
}

/* A peer, or a stranger, might send any number of messages that are dropped: each lane logs one
 * line a second about them. */
bool hd_net_lane_may_log(hd_net_lane_t *lane) {
    uint64_t now = hd_clock_ns();
    if (now - lane->logged < 1000000000 && lane->logged) {
        return false;
    }
    lane->logged = now;
    return true;
}
