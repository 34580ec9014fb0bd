/* lane.c: a lane's lock, what other threads hand to it, and its turns.
 *
 * Whoever pumps tries the lock and, inside, takes turns until nothing moves or no leg is left: takes in what was
 * handed, lets UCX make progress, steps all legs, and tells peers how far we are if they wait for it.
 *
 * Nothing handed is forgotten. Whoever hands something pushes it, and tries the lock at its next pump. If it fails,
 * another thread holds the lock, and looks at the stack again after it has unlocked: the two fences (after the push,
 * and between the unlocking and the look) make sure that one of the two sees the other.
 *
 * The stack is Concurrency Kit's, whose entries are pushed by many and taken all at once. What its assembly orders,
 * ThreadSanitizer is told, as with the lock (threads/lock.h); a push writes into its entry after that, so the entries
 * are read by assembly, too.
 */
#include "net/internal.h"

_Static_assert(sizeof(struct ck_stack_entry) == sizeof(struct ck_stack_entry *) &&
                   offsetof(hd_net_item_t, next) == 0,
               "an item begins with its entry in the stack");

enum { MOST_TURNS = 256 }; /* of one visit: whoever pumps has other things to do, too */

void hd_net_lane_hand(hd_net_lane_t *lane, hd_net_item_t *item) {
    hd_sanitizer_before_assembly(&lane->handed);
    ck_stack_push_upmc(&lane->handed, (struct ck_stack_entry *)(void *)item);
    ck_pr_fence_atomic_load(); /* see above: the push, which is a swap, then a look at the lock */
}

/* Also true for a moment after all was taken: then a turn is taken in vain. */
static bool was_handed(hd_net_lane_t *lane) {
    return ck_pr_load_ptr(&lane->handed.head) != NULL;
}

static void take_in_leg(hd_net_lane_t *lane, hd_leg_t *leg) {
    leg->next = NULL;
    *lane->last = leg;
    lane->last = &leg->next;
    if (hd_trace_is_on()) {
        hd_trace_leg(leg, hd_type_name(leg->call.type), hd_net_plan_name(&leg->plan),
                     leg->key.number, leg->segment, lane->number);
    }
    hd_net_match_open(leg);
}

static void take_in(hd_net_lane_t *lane, hd_net_item_t *item) {
    hd_net_team_lane_t *tl;
    switch (item->kind) {
    case HD_ITEM_LEG:
        take_in_leg(lane, (hd_leg_t *)(void *)((char *)item - offsetof(hd_leg_t, item)));
        break;
    case HD_ITEM_END:
        tl = (hd_net_team_lane_t *)(void *)((char *)item - offsetof(hd_net_team_lane_t, end));
        hd_net_team_lane_end(tl);
        break;
    case HD_ITEM_FAILED:
        tl = (hd_net_team_lane_t *)(void *)((char *)item - offsetof(hd_net_team_lane_t, failed));
        hd_net_team_lane_failed(tl);
        break;
    case HD_ITEM_NEWS:
        hd_net_take_news(lane->net, item);
        break;
    case HD_ITEM_SWAP:
        hd_net_swap_send(lane, item);
        break;
    case HD_ITEM_ABORT:
        tl = (hd_net_team_lane_t *)(void *)((char *)item - offsetof(hd_net_team_lane_t, abort));
        hd_net_team_lane_abort(tl);
        break;
    }
}

/* In the order in which they were handed. False: nothing was. */
static bool take_all_in(hd_net_lane_t *lane) {
    if (!was_handed(lane)) {
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
        take_in(lane, (hd_net_item_t *)(void *)first);
        first = next;
    }
    return true;
}

/* A leg that is over may be gone when its step returns. Steps may hand in further ones, which wait on the stack. */
static void step_legs(hd_net_lane_t *lane) {
    for (hd_leg_t **at = &lane->legs; *at;) {
        hd_leg_t *leg = *at, *next = leg->next;
        if (!leg->step(leg)) {
            at = &leg->next;
            continue;
        }
        *at = next;
        if (!next) {
            lane->last = at;
        }
        lane->moved = true;
    }
}

/* What is seen there comes as an item of lane 0, which the caller takes in then. */
static void look_at_watch(hd_net_lane_t *lane) {
    if (lane->number == 0 && lane->port.worker && lane->net->watch) {
        hd_watch_look(lane->net->watch);
    }
}

/* New legs send before UCX looks for what has come: that look may be a system call. */
void hd_net_lane_turn(hd_net_lane_t *lane) {
    if (++lane->turns % HD_NET_LOOK_TURNS == 0) {
        look_at_watch(lane);
    }
    lane->moved = take_all_in(lane);
    if (lane->moved) {
        step_legs(lane);
    }
    bool progress = lane->port.worker && hd_ucx_progress(&lane->port);
    /* relaxed: looked at again and again */
    if (atomic_load_explicit(&lane->net->has_losses, memory_order_relaxed)) {
        lane->quiet = progress ? 0 : lane->quiet + 1;
        hd_peer_tell_losses(lane);
    }
    if (progress || !lane->moved) {
        step_legs(lane);
    }
    if (lane->owed) {
        hd_flow_pay(lane);
    }
    lane->moved = lane->moved || progress;
}

/* Under the lock: turns until nothing moves, or nobody is left to be moved. Has anything moved? */
static bool take_turns(hd_net_lane_t *lane) {
    bool any = false;
    uint32_t turns = 0;
    do {
        hd_net_lane_turn(lane);
        any = any || lane->moved;
    } while (lane->moved && lane->legs && ++turns < MOST_TURNS);
    return any;
}

/* The unlocking comes before the look at what was handed: see the head. */
static void unlock(hd_net_lane_t *lane) {
    int cancelling = lane->cancelling;
    hd_unlock_first(&lane->lock);
    pthread_setcancelstate(cancelling, NULL);
}

bool hd_net_lane_pump(hd_net_lane_t *lane) {
    bool any = false, entered;
    do {
        entered = hd_net_lane_enter(lane);
        if (!entered) {
            break;
        }
        any = take_turns(lane) || any;
        unlock(lane);
    } while (was_handed(lane));
    if (any) {
        hd_net_rouse();
    }
    return entered;
}

void hd_net_lane_leave(hd_net_lane_t *lane) {
    unlock(lane);
    if (was_handed(lane)) {
        (void)hd_net_lane_pump(lane);
    }
}

void hd_net_look(hd_net_t *net) {
    hd_net_lane_t *lane = &net->lane[0];
    if (hd_net_lane_enter(lane)) { /* else who is in it pumps */
        look_at_watch(lane);
        unlock(lane); /* see above: what was seen is taken in below */
    }
    hd_net_pump(net);
}

int hd_net_lane_arm(hd_net_lane_t *lane, int *watch) {
    *watch = -1;
    if (!hd_net_lane_enter(lane)) {
        return -1;
    }
    look_at_watch(lane); /* its descriptor is readable while there is more */
    if (lane->number == 0 && lane->port.worker && lane->net->watch) {
        *watch = hd_watch_descriptor(lane->net->watch);
    }
    int fd = lane->port.worker && !take_turns(lane) ? hd_ucx_arm(&lane->port) : -1;
    unlock(lane);
    return was_handed(lane) ? -1 : fd;
}

void hd_leg_start(hd_leg_t *leg) {
    hd_net_team_t *team = leg->team;
    leg->lane = leg->segment % team->lanes;
    leg->item.kind = HD_ITEM_LEG;
    hd_net_lane_hand(&team->net->lane[leg->lane], &leg->item);
}

void hd_net_lane_clear(hd_net_lane_t *lane) {
    while (lane->early) {
        hd_parked_t *parked = lane->early;
        lane->early = parked->next;
        hd_net_match_drop(lane, parked);
    }
    lane->n_early = 0;
    lane->owed = NULL;
    for (hd_message_t *next, *r = lane->under_way; r;
         r = next) { /* abandoned: nobody calls it any more */
        next = r->next;
        hd_message_put(r);
    }
    lane->under_way = NULL;
    for (hd_message_t *next, *r = lane->free_requests; r; r = next) {
        next = r->next;
        hd_free(r);
    }
    for (hd_expected_t *next, *e = lane->free_expected; e; e = next) {
        next = e->next;
        hd_free(e);
    }
    for (hd_parked_t *next, *p = lane->free_parked; p; p = next) {
        next = p->next;
        hd_free(p);
    }
    lane->free_parked = NULL;
    lane->free_requests = NULL;
    lane->free_expected = NULL;
}
