/* awaited.c: for which processes a leg or a swap waits, and what is known of those, in words: of
 * lines about long waits, and of what a process says when it is asked (ask.c).
 *
 * Nothing is asked of the other processes. What is known of one is what has been heard of its end
 * (peer.c, gossip.c), what the kernel knows of the connection to it (watch.c), and, inside a host,
 * whether it is stopped.
 */
#include "net/internal.h"

#include <string.h>

enum { FEW = 4 };

/* --- a process -------------------------------------------------------------------------------- */

/* Says how it was lost; false: it is not. */
static bool say_loss(hd_text_t *text, hd_peer_t *peer) {
    /* acquire: the time and the cause; pairs with hd_peer_lose */
    bool lost = atomic_load_explicit(&peer->lost, memory_order_acquire);
    uint64_t at = atomic_load_explicit(&peer->lost_at, memory_order_relaxed); /* likewise */
    const char *why = atomic_load_explicit(&peer->why, memory_order_relaxed); /* likewise */
    uint64_t now = hd_clock_ns();
    /* relaxed: only told */
    bool left = atomic_load_explicit(&peer->left, memory_order_relaxed);
    if (hd_net_is_given_up(peer->net)) {
        hd_text_add(text, ", which has given up this process");
    } else if (left) {
        hd_text_add(text, ", which has closed its network");
    } else if (hd_net_is_surely_dead(peer->net, peer->token)) {
        hd_text_add(text, ", which has ended");
    } else if (hd_net_is_dead(peer->net, peer->token)) {
        hd_text_add(text, ", which was given up");
    } else if (lost) {
        hd_text_add(text, ", to which the ways have broken");
    }
    if (lost) {
        hd_text_add(text, " %.1f s ago (%s)", now > at ? (double)(now - at) * 1e-9 : 0.0, why);
    }
    return lost || left;
}

/* Says what is known of one that is not lost. False: nothing is. */
static bool say_life(hd_text_t *text, const hd_peer_t *peer) {
    const hd_net_t *net = peer->net;
    const hd_who_t *who = &peer->who, *mine = &net->who;
    bool beside = peer->host && peer->host == net->host && hd_who_is_beside(who, mine);
    const char *state = beside ? hd_process_state((int32_t)who->pid) : NULL;
    double seconds = 0;
    if (state && strcmp(state, "is stopped") == 0) {
        hd_text_add(text, ", which is stopped");
        return true;
    }
    hd_watch_sign_t sign =
        net->watch ? hd_watch_sign(net->watch, peer->token, &seconds) : HD_WATCH_NO_SIGN;
    if (sign == HD_WATCH_ANSWERS) {
        hd_text_add(text, ", which is there");
    } else if (sign == HD_WATCH_MUTE) {
        hd_text_add(text, ", whose host has not answered for %.1f s", seconds);
    } else if (sign == HD_WATCH_UNCONNECTED) {
        hd_text_add(text, ", which has not been reached for %.1f s", seconds);
    }
    return sign != HD_WATCH_NO_SIGN && sign != HD_WATCH_ANSWERS;
}

bool hd_peer_say(hd_peer_t *peer, hd_text_t *text) {
    return say_loss(text, peer) || say_life(text, peer);
}

void hd_net_process_say(const hd_net_team_t *team, uint32_t process, hd_text_t *text) {
    hd_peer_t *peer = team->peer[process];
    hd_text_add(text, "process %u (host %s, pid %u)", process, peer->who.host, peer->who.pid);
    (void)hd_peer_say(peer, text);
}

/* --- several ---------------------------------------------------------------------------------- */

static void add(hd_net_awaited_t *awaited, uint32_t process) {
    uint32_t i = 0;
    while (i < awaited->n && awaited->process[i] != process) {
        i++;
    }
    if (i == awaited->n && i < HD_NET_AWAITED) {
        awaited->process[awaited->n++] = process;
    }
}

static void say_all(hd_text_t *text, const hd_net_team_t *team, const hd_net_awaited_t *awaited) {
    for (uint32_t i = 0; i < awaited->n && i < FEW; i++) {
        bool last = i + 1 == awaited->n;
        hd_text_add(text, "%s", i == 0 ? "" : last ? ", and " : ", ");
        hd_net_process_say(team, awaited->process[i], text);
    }
    if (awaited->n > FEW) {
        hd_text_add(text, ", and %s%u more processes",
                    awaited->n == HD_NET_AWAITED ? "at least " : "", awaited->n - FEW);
    }
}

/* --- a leg ------------------------------------------------------------------------------------ */

bool hd_leg_say(const hd_leg_t *leg, hd_text_t *text, hd_net_awaited_t *all) {
    const hd_net_lane_t *lane = &leg->team->net->lane[leg->lane];
    hd_net_awaited_t from = {0}, to = {0}, behind = {0};
    for (const hd_expected_t *e = leg->expected; e; e = e->next) {
        add(&from, e->source);
    }
    for (const hd_message_t *m = leg->under_way ? lane->under_way : NULL; m; m = m->next) {
        if (m->leg == leg) {
            add(m->receives ? &from : &to, m->to);
        }
    }
    for (const hd_message_t *m = leg->under_way ? hd_leg_tl(leg)->held : NULL; m; m = m->next) {
        if (m->leg == leg) {
            add(&behind, m->to);
        }
    }
    /* what it sends is mostly still under way because the other end does not go on either */
    const hd_net_awaited_t *list[] = {&from, &behind, &to};
    static const char *const before[] = {"a message of ", "", ""};
    static const char *const after[] = {"", ", to end what came before", ", to take a message"};
    bool any = false;
    for (uint32_t l = 0; l < 3; l++) {
        if (list[l]->n > 0 && !any) {
            hd_text_add(text, "%s", before[l]);
            say_all(text, leg->team, list[l]);
            hd_text_add(text, "%s", after[l]);
            any = true;
        }
        for (uint32_t i = 0; all && i < list[l]->n; i++) {
            add(all, list[l]->process[i]);
        }
    }
    return any;
}

/* --- a swap ----------------------------------------------------------------------------------- */

/* Has it yet to end what came long before exchange k? */
static bool lags(const hd_net_swaps_t *swaps, uint32_t process, uint64_t k) {
    /* relaxed: only told */
    uint64_t heard = atomic_load_explicit(&swaps->other[process].heard, memory_order_relaxed);
    return heard + HD_SWAP_LAG < k;
}

bool hd_swap_say(const hd_net_team_t *team, uint64_t k, hd_text_t *text, hd_net_awaited_t *all) {
    const hd_net_swaps_t *swaps = team->swaps;
    hd_net_awaited_t from = {0}, behind = {0};
    uint32_t needed = swaps->mine[hd_swap_slot(k)].swap.from;
    for (uint32_t p = 0; p < team->n; p++) {
        bool needs = needed >> p & 1;
        if (p != team->me && needs && !hd_swap_has_part(team, k, p)) {
            add(&from, p);
        } else if (p != team->me && !needs && lags(swaps, p, k)) {
            add(&behind, p);
        }
    }
    const hd_net_awaited_t *list = from.n > 0 ? &from : &behind;
    hd_text_add(text, "%s", from.n > 0 ? "a message of " : "");
    say_all(text, team, list);
    hd_text_add(text, "%s", behind.n > 0 && from.n == 0 ? ", to end what came before" : "");
    for (uint32_t i = 0; all && i < list->n; i++) {
        add(all, list->process[i]);
    }
    return list->n > 0;
}
