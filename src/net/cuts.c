/* cuts.c: links between hosts that are broken, and who goes for that. A process that finds another
 * host silent says, once for its host, that the link to it is CUT; a process of that host which
 * hears it, by way of others, says the same of its own side, and by that, that it lives. news.c
 * calls this, in lane 0, under its lock.
 *
 * No time-out tells whether the other host lives: words go by way of processes, which may compute
 * for long. What tells it are the lines that all know of: each process of a team has one to those
 * that are 1, 2, 4, ... before and after it (team_make.c), and each that is broken is said to be
 * CUT by whoever has it, when he looks. So a host is GONE if no way along lines that are not cut
 * leads from here to a living process of it. While somebody who has a line to it computes, it is
 * not known whether it is gone, and who needs to know waits. Only lines of this process's own teams
 * count: of a way by teams that it is not in it knows nothing.
 *
 * If both sides of a cut have been heard, both live, and one of the hosts has to go: the rule is
 * the same everywhere (has_to_go). Only the host itself applies it, so two that know different cuts
 * for a moment never give up each other: at worst both go. So it waits until those have found out,
 * too, who look late, or whose kernel alone notices that words on their way are not answered.
 *
 * A link may come back. Who finds a host silent asks its kernel again and again. Where that answers
 * nothing is judged, and after a while the cut is not said any more; what is not said any more is
 * forgotten. A cut whose sides both wait is said again and again.
 */
#include "net/internal.h"

#include "threads/clock.h"

#include <string.h>

enum {
    PATIENCE = 5, /* times the grace: so long a cut is known before a host is found to be gone */
    FEW = 64
};
/* ns: so much longer than it takes to find a host silent the cuts have to be the same before one
 * goes; from one judgement to the next; from one time that a cut is said to the next; how long what
 * was said counts; how long a host answers before its cut is not said any more */
static const uint64_t settled = 1000000000, judge_every = 100000000, say_every = 5000000000,
                      said_for = 20000000000, back_for = 10000000000;

/* How long ago that was. Words may have come since `now` was read. */
static uint64_t age(uint64_t then, uint64_t now) {
    return now > then ? now - then : 0;
}

/* --- what was said ---------------------------------------------------------------------------- */

/* Returns where the link between two hosts is in the list, or where it would be. */
static uint32_t place_of(const hd_net_t *net, uint64_t low, uint64_t high) {
    uint32_t from = 0, end = net->n_cuts;
    while (from < end) {
        uint32_t mid = from + (end - from) / 2;
        const uint64_t *host = net->cut[mid].host;
        bool before = host[0] < low || (host[0] == low && host[1] < high);
        from = before ? mid + 1 : from;
        end = before ? end : mid;
    }
    return from;
}

/* Returns what is known of the link between two hosts. NULL: nothing is. */
static hd_cut_t *find_cut(const hd_net_t *net, uint64_t one, uint64_t other) {
    uint64_t low = one < other ? one : other, high = one < other ? other : one;
    uint32_t i = place_of(net, low, high);
    bool known = i < net->n_cuts && net->cut[i].host[0] == low && net->cut[i].host[1] == high;
    return known ? &net->cut[i] : NULL;
}

/* There is room for all, as hosts that know different ones would judge differently. NULL: no
 * memory. */
static hd_cut_t *add_cut(hd_net_t *net, uint64_t one, uint64_t other, uint64_t now) {
    uint64_t low = one < other ? one : other, high = one < other ? other : one;
    if (net->n_cuts == net->cut_room) {
        uint32_t room = net->cut_room ? 2 * net->cut_room : FEW;
        hd_cut_t *more = hd_alloc(alignof(hd_cut_t), room * sizeof(*more));
        if (!more) {
            hd_warn("no memory for a link between hosts that is broken");
            return NULL; /* it will be said again */
        }
        if (net->n_cuts) {
            memcpy(more, net->cut, net->n_cuts * sizeof(*more));
        }
        hd_free(net->cut);
        net->cut = more;
        net->cut_room = room;
    }
    uint32_t i = place_of(net, low, high);
    hd_cut_t *cut = &net->cut[i];
    memmove(cut + 1, cut, (net->n_cuts++ - i) * sizeof(*cut));
    *cut = (hd_cut_t){.host = {low, high}, .since = now};
    return cut;
}

/* Host `by` says that nothing reaches `other` from it. NULL: there is no room for that. *again: it
 * has said so a moment ago. */
static hd_cut_t *note(hd_net_t *net, uint64_t by, uint64_t other, bool *again) {
    uint64_t now = hd_clock_ns();
    hd_cut_t *cut = find_cut(net, by, other);
    cut = cut ? cut : add_cut(net, by, other, now);
    if (!cut) {
        return NULL;
    }
    uint64_t *said = &cut->said[by > other];
    *again = *said && age(*said, now) < say_every / 2;
    net->cuts_changed = *said ? net->cuts_changed : now;
    *said = now;
    /* relaxed: only told to look */
    atomic_store_explicit(&net->has_losses, true, memory_order_relaxed);
    return cut;
}

void hd_cuts_find(hd_net_t *net, uint64_t host, bool found) {
    bool again;
    hd_cut_t *cut =
        host != 0 && !hd_net_is_given_up(net) ? note(net, net->host, host, &again) : NULL;
    if (cut) {
        cut->found = cut->found || found;
        if (!again) {
            hd_net_tell_cut(net, host);
        }
    }
}

void hd_cuts_hear(hd_net_t *net, uint64_t by, uint64_t other) {
    bool again;
    (void)note(net, by, other, &again);
    if (other == net->host) {
        hd_cuts_find(net, by, false);
    }
}

void hd_cuts_clear(hd_net_t *net) {
    hd_free(net->cut);
    net->cut = NULL;
    net->n_cuts = net->cut_room = 0;
}

static uint64_t later(uint64_t then, uint64_t by, uint64_t now) {
    return then && age(then, now) > by ? then + by : then ? now : 0;
}

void hd_cuts_miss(hd_net_t *net, uint64_t missed, uint64_t now) {
    for (hd_cut_t *cut = net->cut; cut < net->cut + net->n_cuts; cut++) {
        cut->since = later(cut->since, missed, now);
        cut->said[0] = later(cut->said[0], missed, now);
        cut->said[1] = later(cut->said[1], missed, now);
    }
    net->cuts_changed = later(net->cuts_changed, missed, now);
}

static void forget_old(hd_net_t *net, uint64_t now) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < net->n_cuts; i++) {
        hd_cut_t *cut = &net->cut[i];
        for (uint32_t side = 0; side < 2; side++) {
            bool old = cut->said[side] && age(cut->said[side], now) > said_for;
            cut->said[side] = old ? 0 : cut->said[side];
        }
        if (cut->said[0] || cut->said[1]) {
            net->cut[left++] = *cut;
        }
    }
    net->n_cuts = left;
}

/* --- who is gone ------------------------------------------------------------------------------ */

/* Who is not known to be dead, or gone. Under the net's lock. */
static hd_net_known_t *living(const hd_net_t *net, const hd_peer_t *peer) {
    hd_net_known_t *known = hd_gossip_find(net, peer->token);
    /* relaxed: looked at again */
    bool lives = known && !known->death && !atomic_load_explicit(&peer->left, memory_order_relaxed);
    return lives ? known : NULL;
}

/* Marks process j of the team as reached, if there is a way to it from i, which is. False: there is
 * none, or it was. */
static bool reach_one(hd_net_t *net, const hd_net_team_t *team, uint32_t i, uint32_t j) {
    const hd_peer_t *peer = team->peer[j];
    hd_net_known_t *known = j == team->me ? NULL : living(net, peer);
    uint64_t from = i == team->me ? net->host : team->peer[i]->host;
    if (!known || known->reached == net->n_reaches ||
        (from != peer->host && find_cut(net, from, peer->host))) {
        return false;
    }
    known->reached = net->n_reaches;
    return true;
}

static bool reach_from(hd_net_t *net, const hd_net_team_t *team, uint32_t i) {
    bool any = false;
    for (uint64_t by = 1; by < team->n; by *= 2) {
        any = reach_one(net, team, i, hd_net_team_ahead(team, i, (uint32_t)by)) || any;
        any = reach_one(net, team, i, hd_net_team_behind(team, i, (uint32_t)by)) || any;
    }
    return any;
}

static bool is_reached(const hd_net_t *net, const hd_net_team_t *team, uint32_t i) {
    const hd_net_known_t *known = i == team->me ? NULL : living(net, team->peer[i]);
    return i == team->me || (known && known->reached == net->n_reaches);
}

/* Marks all processes that a way leads to from this one. Under the net's lock. */
static void reach(hd_net_t *net) {
    net->n_reaches++;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t b = 0; b < HD_NET_TABLE; b++) {
            for (const hd_net_team_t *team = net->table[b]; team; team = team->next) {
                for (uint32_t i = 0; i < team->n; i++) {
                    any = (is_reached(net, team, i) && reach_from(net, team, i)) || any;
                }
            }
        }
    }
}

/* Does no way lead to the host, though processes of it are in teams of this one? Under the net's
 * lock. */
static bool is_gone(const hd_net_t *net, uint64_t host) {
    bool there = false, reached = false;
    for (uint32_t b = 0; b < HD_NET_TABLE; b++) {
        for (const hd_net_team_t *team = net->table[b]; team; team = team->next) {
            for (uint32_t i = 0; i < team->n; i++) {
                bool of_it = i != team->me && team->peer[i]->host == host;
                there = there || (of_it && living(net, team->peer[i]));
                reached = reached || (of_it && is_reached(net, team, i));
            }
        }
    }
    return there && !reached;
}

/* --- who has to go, of hosts that live -------------------------------------------------------- */

static bool host_lives(hd_net_t *net, uint64_t host) {
    bool lives = host == net->host;
    hd_lock(&net->lock);
    for (const hd_peer_t *peer = net->peers; peer && !lives; peer = peer->next) {
        lives = peer->host == host && living(net, peer);
    }
    hd_unlock(&net->lock);
    return lives;
}

/* Finds the cuts that count: those of two hosts that have lost each other, and live. True: this
 * host has lost some, so that it may have to go. */
static bool may_have_to_go(hd_net_t *net) {
    bool mine = false;
    for (hd_cut_t *cut = net->cut; cut < net->cut + net->n_cuts; cut++) {
        bool counts = cut->said[0] && cut->said[1] && host_lives(net, cut->host[0]) &&
                      host_lives(net, cut->host[1]);
        bool of_mine = cut->host[0] == net->host || cut->host[1] == net->host;
        uint64_t other = cut->host[cut->host[0] == net->host];
        mine = mine || (counts && of_mine && !(net->watch && hd_watch_reaches(net->watch, other)));
        cut->count[0] = cut->count[1] = counts;
    }
    return mine;
}

static uint32_t count_of(const hd_net_t *net, uint64_t host) {
    uint32_t n = 0;
    for (const hd_cut_t *cut = net->cut; cut < net->cut + net->n_cuts; cut++) {
        n += cut->count[0] && (cut->host[0] == host || cut->host[1] == host);
    }
    return n;
}

/* Returns the host of the most cuts, of several the one with the highest number. 0: no cut
 * counts. */
static uint64_t worst_host(const hd_net_t *net) {
    uint64_t worst = 0;
    uint32_t most = 0;
    for (uint32_t i = 0; i < 2 * net->n_cuts; i++) {
        uint64_t host = net->cut[i / 2].host[i % 2];
        uint32_t n = net->cut[i / 2].count[i % 2];
        if (n > most || (n == most && n > 0 && host > worst)) {
            most = n;
            worst = host;
        }
    }
    return worst;
}

/* The cuts of that host don't count any more. */
static void leave_out(hd_net_t *net, uint64_t host) {
    hd_cut_t *end = net->cut + net->n_cuts;
    for (hd_cut_t *cut = net->cut; cut < end; cut++) {
        if (cut->count[0] == 0 || (cut->host[0] != host && cut->host[1] != host)) {
            continue;
        }
        uint64_t other = cut->host[cut->host[0] == host];
        cut->count[0] = cut->count[1] = 0;
        for (hd_cut_t *of_other = net->cut; of_other < end; of_other++) {
            uint32_t side = of_other->host[1] == other;
            of_other->count[side] -= of_other->count[side] && of_other->host[side] == other;
        }
    }
}

/* Does this host have to go? Those with the most cuts go, one after the other, until none is
 * left. */
static bool has_to_go(hd_net_t *net) {
    for (uint32_t i = 0; i < 2 * net->n_cuts; i++) {
        hd_cut_t *cut = &net->cut[i / 2];
        cut->count[i % 2] = cut->count[i % 2] ? count_of(net, cut->host[i % 2]) : 0;
    }
    uint64_t worst;
    while ((worst = worst_host(net)) != 0 && worst != net->host) {
        leave_out(net, worst);
    }
    return worst == net->host;
}

/* --- judging ---------------------------------------------------------------------------------- */

/* Looks after a cut that this process has found. True: the host is gone. *looked: it was looked
 * before where ways lead, and that stays so when hosts are given up that none leads to. */
static bool judge_cut(hd_net_t *net, hd_cut_t *cut, uint64_t now, bool *looked) {
    uint32_t mine = cut->host[1] == net->host;
    uint64_t other = cut->host[!mine];
    if (!host_lives(net, other)) {
        cut->found = false; /* it is forgotten by and by */
        return false;
    }
    if (net->watch && hd_watch_reaches(net->watch, other)) {
        cut->found = age(cut->since, now) < back_for;
        return false;
    }
    if (age(cut->said[mine], now) > say_every) {
        cut->said[mine] = now;
        hd_net_tell_cut(net, other);
    }
    if (age(cut->since, now) < PATIENCE * net->grace_ns) {
        return false;
    }
    hd_lock(&net->lock);
    if (!*looked) {
        reach(net);
        *looked = true;
    }
    bool gone = is_gone(net, other);
    hd_unlock(&net->lock);
    return gone;
}

/* Says that all processes of that host are dead. */
static void give_up_host(hd_net_t *net, uint64_t host) {
    for (hd_peer_t *peer = hd_peer_first(net); peer; peer = peer->next) {
        if (peer->host == host && hd_peer_lives(peer)) {
            hd_net_tell_dead(net, peer->token, HD_DEAD_JUDGED);
            hd_peer_lose_all(net, peer->token, "no way leads to its host any more");
        }
    }
}

bool hd_cuts_judge(hd_net_t *net, uint64_t now) {
    if (net->n_cuts == 0 || age(net->cuts_judged, now) < judge_every) {
        return false;
    }
    bool looked = false;
    net->cuts_judged = now;
    forget_old(net, now);
    /* Before others are judged: those who have gone are dead, so no way leads over them, and one
     * who has to go with them but does not know it yet would find all others gone. */
    if (may_have_to_go(net)) {
        bool changes = age(net->cuts_changed, now) <= net->silent_ns + settled;
        if (changes || has_to_go(net)) {
            return !changes;
        }
    }
    for (uint32_t i = 0; i < net->n_cuts; i++) {
        if (net->cut[i].found && judge_cut(net, &net->cut[i], now, &looked)) {
            give_up_host(net, net->cut[i].host[net->cut[i].host[0] == net->host]);
        }
    }
    return false;
}
