/* turn.c: what a lane's holder does in a turn, and who pumps.
 *
 * Whoever pumps tries the lock and, inside, takes turns until nothing moves or no leg is left:
 * takes in what was handed, lets UCX make progress, steps all legs, and tells peers how far this
 * process is if they wait for it. When the lock is free again whoever pumps looks at what was
 * handed meanwhile (lane.c).
 */
#include "net/internal.h"

enum { MOST_TURNS = 256 }; /* of one visit: whoever pumps has other things to do, too */

/* A leg that is over may be gone when its step returns. Steps may hand in further ones, which wait
 * on the stack. */
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

/* Who answered has been in the other lanes: what was handed to them meanwhile is taken in. */
static void look_at_others(hd_net_t *net) {
    net->asks.entered = false;
    for (uint32_t l = 1; l < net->lanes; l++) {
        if (hd_net_lane_was_handed(&net->lane[l])) {
            (void)hd_net_lane_pump(&net->lane[l]);
        }
    }
}

/* Looks at the watch, if the lane is lane 0. What is seen there comes as an item of lane 0, which
 * the caller takes in afterwards. */
static void look_at_watch(hd_net_lane_t *lane) {
    if (lane->number == 0 && lane->port.worker && lane->net->watch) {
        hd_watch_look(lane->net->watch);
        hd_ask_look(lane->net);
        if (lane->net->asks.entered) {
            look_at_others(lane->net);
        }
    }
}

/* After many turns, or after a while: who tests now and then tells on what he hears, too. */
static bool is_time_to_look(hd_net_lane_t *lane) {
    uint64_t now = hd_clock_ns();
    bool is_time = lane->turns % HD_NET_LOOK_TURNS == 0 ||
                   now - lane->looked > HD_NET_LOOK_MS * UINT64_C(1000000);
    lane->looked = is_time ? now : lane->looked;
    return is_time;
}

/* New legs send before UCX looks for what has come: that look may be a system call. */
void hd_net_lane_turn(hd_net_lane_t *lane) {
    if (++lane->turns % HD_NET_CLOCK_TURNS == 0 && lane->number == 0 && is_time_to_look(lane)) {
        look_at_watch(lane);
    }
    lane->moved = hd_net_lane_take(lane);
    if (lane->moved) {
        step_legs(lane);
    }
    bool open = lane->port.worker, progress = open && hd_ucx_progress(&lane->port);
    /* A lane is closed before what losses are told by is freed. relaxed: looked at again and
     * again */
    if (open && atomic_load_explicit(&lane->net->has_losses, memory_order_relaxed)) {
        lane->quiet = progress ? 0 : lane->quiet + 1;
        if (lane->turns % HD_NET_LOSS_TURNS == 0) {
            hd_net_tell_losses(lane);
        }
    }
    if (progress || !lane->moved) {
        step_legs(lane);
    }
    if (lane->owed) {
        hd_flow_pay(lane);
    }
    lane->moved = lane->moved || progress;
}

/* Takes turns, under the lock, until nothing moves or no leg is left. Has anything moved? */
static bool take_turns(hd_net_lane_t *lane) {
    bool any = false;
    uint32_t turns = 0;
    do {
        hd_net_lane_turn(lane);
        any = any || lane->moved;
    } while (lane->moved && lane->legs && ++turns < MOST_TURNS);
    return any;
}

bool hd_net_lane_pump(hd_net_lane_t *lane) {
    bool any = false, entered;
    do {
        entered = hd_net_lane_enter(lane);
        if (!entered) {
            break;
        }
        any = take_turns(lane) || any;
        hd_net_lane_unlock(lane);
    } while (hd_net_lane_was_handed(lane));
    if (any) {
        hd_net_rouse();
    }
    return entered;
}

void hd_net_lane_leave(hd_net_lane_t *lane) {
    hd_net_lane_unlock(lane);
    if (hd_net_lane_was_handed(lane)) {
        (void)hd_net_lane_pump(lane);
    }
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
    /* relaxed: looked at again and again */
    if (lane->port.worker && atomic_load_explicit(&lane->net->has_losses, memory_order_relaxed)) {
        hd_net_tell_losses(lane); /* who sleeps takes few turns */
    }
    int fd = lane->port.worker && !take_turns(lane) ? hd_ucx_arm(&lane->port) : -1;
    hd_net_lane_unlock(lane);
    return hd_net_lane_was_handed(lane) ? -1 : fd;
}

bool hd_net_pump(hd_net_t *net) {
    bool all = true;
    for (uint32_t l = 0; l < net->lanes; l++) {
        all = hd_net_lane_pump(&net->lane[l]) && all;
    }
    return all;
}

void hd_net_look(hd_net_t *net) {
    hd_net_lane_t *lane = &net->lane[0];
    if (hd_net_lane_enter(lane)) { /* else who is in it pumps */
        look_at_watch(lane);
        hd_net_lane_unlock(lane); /* what was seen is taken in below */
    }
    hd_net_pump(net);
}
