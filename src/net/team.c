/* team.c: the teams that messages are welcome for, by wire id, and how a team fails.
 *
 * A team is put into the table by whoever makes it, and taken out when it is destroyed
 * (team_make.c). A team fails once: the first cause counts. Its owner is told, and each lane by an
 * item, and the other processes if they have to know. What lanes do then is what the items' makers
 * have set.
 */
#include "net/internal.h"

/* --- the table -------------------------------------------------------------------------------- */

static hd_net_team_t **bucket_of(hd_net_t *net, uint64_t wire) {
    return &net->table[(wire * UINT64_C(0x9E3779B97F4A7C15)) >> 56];
}
_Static_assert(HD_NET_TABLE == 256, "a bucket's number has 8 bits");

static hd_net_team_t **find(hd_net_t *net, uint64_t wire) {
    hd_net_team_t **at = bucket_of(net, wire);
    while (*at && (*at)->wire != wire) {
        at = &(*at)->next;
    }
    return at;
}

hd_net_team_t *hd_net_team_find(const hd_net_lane_t *lane, uint64_t wire, bool *gone) {
    hd_net_t *net = lane->net;
    *gone = false;
    hd_lock(&net->lock);
    hd_net_team_t *team = *find(net, wire);
    if (team && lane->number >= team->lanes) { /* it may be freed as soon as the lock is free */
        *gone = true;
        team = NULL;
    }
    *gone = *gone || (!team && hd_net_is_recent(net->gone, HD_NET_GONE, net->n_gone, wire));
    hd_unlock(&net->lock);
    return team;
}

bool hd_net_has_team(hd_net_t *net, uint64_t wire) {
    hd_lock(&net->lock);
    bool has = *find(net, wire) != NULL;
    hd_unlock(&net->lock);
    return has;
}

bool hd_net_has_survivors(hd_net_t *net, uint64_t over) {
    bool has = false;
    hd_lock(&net->lock);
    for (uint32_t b = 0; b < HD_NET_TABLE && !has; b++) {
        for (const hd_net_team_t *team = net->table[b]; team && !has; team = team->next) {
            has = team->over.name == over && hd_net_team_failure(team) == UCC_OK;
        }
    }
    hd_unlock(&net->lock);
    return has;
}

bool hd_net_team_enter(hd_net_team_t *team) {
    hd_net_t *net = team->net;
    hd_lock(&net->lock);
    hd_net_team_t **at = find(net, team->wire);
    bool first = *at == NULL;
    if (first) {
        *at = team;
    }
    hd_unlock(&net->lock);
    return first;
}

void hd_net_team_forget(hd_net_team_t *team) {
    hd_net_t *net = team->net;
    hd_lock(&net->lock);
    *find(net, team->wire) = team->next;
    hd_net_note_recent(net->gone, HD_NET_GONE, &net->n_gone, team->wire);
    hd_unlock(&net->lock);
}

/* --- what is known of it ---------------------------------------------------------------------- */

uint32_t hd_net_team_lanes(const hd_net_team_t *team) {
    return team->lanes;
}

void hd_net_team_warms(hd_net_team_t *team, uint32_t lane, hd_warmth_t warmth) {
    for (uint32_t i = 0; i < team->n; i++) {
        hd_peer_link_t *link = team->peer[i] ? &team->peer[i]->link[lane] : NULL;
        if (link && link->warmth < HD_WARM) {
            link->warmth = (uint8_t)warmth;
        }
    }
}

bool hd_net_team_is_beside(const hd_net_team_t *team, uint32_t process) {
    /* without a watch, nobody says where he is */
    return process == team->me || team->peer[process]->host == 0 ||
           team->peer[process]->host == team->net->host;
}

bool hd_net_team_has_lost(const hd_net_team_t *team, uint32_t process) {
    return process != team->me && !hd_peer_lives(team->peer[process]);
}

bool hd_net_team_has_left(const hd_net_team_t *team, uint32_t process) {
    /* relaxed: only decides whom to wait for; who hears of it late comes again */
    return atomic_load_explicit(&team->lane[0].peer[process].left_before, memory_order_relaxed) !=
           0;
}

void hd_net_team_tell_loss(const hd_net_team_t *team, uint32_t process) {
    const hd_peer_t *peer = team->peer[process];
    /* relaxed: see hd_net_team_has_lost */
    if (atomic_load_explicit(&peer->left, memory_order_relaxed)) {
        hd_net_tell_dead(team->net, peer->token, HD_DEAD_SURE);
    }
}

bool hd_net_team_has_watch(const hd_net_team_t *team) {
    uint64_t hidden = 0; /* the host to which no other one can connect: it connects to others */
    bool all = team->net->watch;
    for (uint32_t i = 0; i < team->n && all; i++) {
        hd_watch_record_t record;
        size_t bytes = i == team->me ? 0 : team->peer[i]->watch_bytes;
        const void *address = i == team->me ? hd_watch_address(team->net->watch, &bytes)
                                            : team->peer[i]->watch_address;
        all = hd_watch_parse(&record, address, bytes);
        if (all && (!record.wide || !record.n)) {
            all = !hidden || hidden == record.host;
            hidden = record.host;
        }
    }
    return all;
}

bool hd_net_team_look_for_losses(hd_net_team_t *team) {
    bool lost = false;
    /* acquire: the losses that it counts; pairs with hd_peer_lose */
    uint64_t losses = atomic_load_explicit(&team->net->losses, memory_order_acquire);
    for (uint32_t i = 0; i < team->n && !lost; i++) {
        /* relaxed: as above */
        lost = i != team->me &&
               (atomic_load_explicit(&team->peer[i]->lost, memory_order_relaxed) ||
                atomic_load_explicit(&team->lane[0].peer[i].left_before, memory_order_relaxed));
    }
    atomic_store_explicit(&team->bereft, losses << 1 | lost, memory_order_relaxed); /* likewise */
    return lost;
}

void hd_net_team_left(hd_net_team_t *team, uint32_t source, uint64_t last) {
    hd_net_team_peer_t *peer = &team->lane[0].peer[source];
    /* relaxed: before what tells of it */
    atomic_store_explicit(&peer->left_at, hd_clock_ns(), memory_order_relaxed);
    /* release: the time; pairs with hd_net_team_lacks */
    atomic_store_explicit(&peer->left_before, last + 1, memory_order_release);
    /* release: the same; pairs with hd_net_team_look_for_losses */
    atomic_fetch_add_explicit(&team->net->losses, 1, memory_order_release);
    /* relaxed: only told to look */
    atomic_store_explicit(&team->net->has_losses, true, memory_order_relaxed);
}

/* What it has sent before may still come, in other lanes or by rendezvous; but of numbered
 * exchanges it is known which it has taken part in. */
bool hd_net_team_lacks(const hd_net_team_t *team, uint32_t process, const hd_net_key_t *key,
                       uint64_t ns) {
    const hd_net_team_peer_t *peer = &team->lane[0].peer[process];
    /* acquire: the time; pairs with hd_net_team_left */
    uint64_t before = atomic_load_explicit(&peer->left_before, memory_order_acquire);
    if (before == 0 || process == team->me) {
        return false;
    }
    if (key->class == HD_NET_NUMBERED) {
        return key->number >= before;
    }
    uint64_t at = atomic_load_explicit(&peer->left_at, memory_order_relaxed); /* see above */
    return (int64_t)(ns - at) > (int64_t)team->net->grace_ns;
}

/* --- failure ---------------------------------------------------------------------------------- */

static void fail(hd_net_team_t *team, ucc_status_t why, bool tell_owner) {
    int none = UCC_OK;
    /* relaxed: the status is all that it says */
    if (!atomic_compare_exchange_strong_explicit(&team->failure, &none, (int)why,
                                                 memory_order_relaxed, memory_order_relaxed)) {
        return; /* it had failed before */
    }
    hd_lock(&team->telling);
    if (!team->destroyed) {
        if (tell_owner) {
            team->failed(team->arg, why);
        }
        for (uint32_t l = 0; l < team->lanes; l++) {
            hd_net_lane_hand(&team->net->lane[l], &team->lane[l].failed);
        }
    }
    hd_unlock(&team->telling);
}

/* Fails the team, and lets lane 0 tell the other processes. relays: another process has told this
 * one, whose owner learns of it here. */
static void spread(hd_net_team_t *team, ucc_status_t why, bool relays) {
    int none = UCC_OK;
    /* relaxed: read by lane 0, to which the item brings it */
    if (!atomic_compare_exchange_strong_explicit(&team->aborting, &none, (int)why,
                                                 memory_order_relaxed, memory_order_relaxed)) {
        return;
    }
    fail(team, why, relays); /* whoever aborts it knows */
    hd_lock(&team->telling);
    if (!team->destroyed) { /* or lane 0 may have seen its end */
        team->relays = relays;
        hd_net_lane_hand(&team->net->lane[0], &team->lane[0].abort);
    }
    hd_unlock(&team->telling);
}

void hd_net_team_abort(hd_net_team_t *team, ucc_status_t why) {
    if (team->forks == hd_forks()) {
        spread(team, why, false);
    }
}

void hd_net_team_relay(hd_net_team_t *team, ucc_status_t why) {
    spread(team, why, true);
}

void hd_net_team_fail(hd_net_team_t *team, ucc_status_t why) {
    fail(team, why, true);
    hd_net_team_abort(team, why);
}

void hd_net_team_differs(hd_net_team_t *team, uint32_t source) {
    hd_error("process %u was called with other arguments, or for another root, than process %u",
             source, team->me);
    hd_net_team_fail(team, UCC_ERR_INVALID_PARAM);
}
