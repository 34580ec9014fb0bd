/* team.c: the teams that messages are welcome for, by wire id, and how a team fails and ends.
 *
 * A team that is destroyed leaves the table at once, so that no message finds it any more. Each lane then sees its end
 * (an item), gives back what is parked there, and the last one frees the team: whoever found it in the table held a
 * lane's lock, and that lane sees the end later.
 */
#include "net/internal.h"

#include <string.h>

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

hd_net_team_t *hd_net_team_find(hd_net_t *net, uint64_t wire, bool *gone) {
    *gone = false;
    hd_lock(&net->lock);
    hd_net_team_t *team = *find(net, wire);
    for (uint32_t i = 0; !team && !*gone && i < HD_NET_GONE && i < net->n_gone; i++) {
        *gone = net->gone[i] == wire;
    }
    hd_unlock(&net->lock);
    return team;
}

bool hd_net_has_team(hd_net_t *net, uint64_t wire) {
    bool gone;
    return hd_net_team_find(net, wire, &gone) != NULL;
}

/* --- making one -------------------------------------------------------------------------------------------------- */

static size_t padded(size_t bytes) {
    return (bytes + HD_LINE - 1) / HD_LINE * HD_LINE;
}

/* One block: the team with its lanes, its peers, and what each lane knows of each of them. */
static hd_net_team_t *allocate(uint32_t lanes, uint32_t n) {
    size_t head = padded(sizeof(hd_net_team_t) + lanes * sizeof(hd_net_team_lane_t));
    size_t peers = padded(n * sizeof(hd_peer_t *));
    size_t flow = padded(n * sizeof(hd_net_team_peer_t));
    hd_net_team_t *team = hd_alloc(HD_LINE, head + peers + lanes * flow);
    if (!team) {
        return NULL;
    }
    char *at = (char *)team + head;
    team->peer = (hd_peer_t **)(void *)at;
    at += peers;
    for (uint32_t l = 0; l < lanes; l++, at += flow) {
        team->lane[l].team = team;
        team->lane[l].peer = (hd_net_team_peer_t *)(void *)at;
        team->lane[l].end.kind = HD_ITEM_END;
        team->lane[l].failed.kind = HD_ITEM_FAILED;
        team->lane[l].abort.kind = HD_ITEM_ABORT;
        for (uint32_t i = 0; i < n; i++) {
            team->lane[l].peer[i].tl = &team->lane[l];
        }
    }
    return team;
}

static void free_team(hd_net_team_t *team) {
    hd_net_swaps_leave(team->swaps);
    hd_free(team);
}

static ucc_status_t find_peers(hd_net_team_t *team, const hd_net_team_params_t *params) {
    for (uint32_t i = 0; i < team->n; i++) {
        if (i == team->me) {
            continue;
        }
        team->peer[i] = hd_peer_of(team->net, &params->process[i]);
        if (!team->peer[i]) {
            return UCC_ERR_NO_MEMORY;
        }
        /* relaxed: one that is lost later fails the team then */
        if (atomic_load_explicit(&team->peer[i]->lost, memory_order_relaxed) &&
            !params->despite_losses) {
            hd_error("process %u of a new team was lost before", i);
            return UCC_ERR_IO_ERROR;
        }
        /* A segment's lane is the same in all processes: so many as the process has that has the fewest. */
        team->lanes = team->peer[i]->lanes < team->lanes ? team->peer[i]->lanes : team->lanes;
    }
    return UCC_OK;
}

/* The process so far behind this one, in a circle. */
static uint32_t behind(const hd_net_team_t *team, uint32_t by) {
    return (uint32_t)(((uint64_t)team->me + team->n - by) % team->n);
}
static uint32_t ahead(const hd_net_team_t *team, uint32_t by) {
    return (uint32_t)(((uint64_t)team->me + by) % team->n);
}

/* So everybody is watched, and what each tells its neighbours on reaches all (news.c). */
static void keep_neighbours(hd_net_team_t *team) {
    for (uint64_t by = 1; by < team->n; by *= 2) {
        hd_net_watch_keep(team->net, team->peer[behind(team, (uint32_t)by)]);
        hd_net_watch_keep(team->net, team->peer[ahead(team, (uint32_t)by)]);
    }
}

bool hd_net_team_is_watched(hd_net_team_t *team) {
    bool settled = true;
    if (team->net->watch) {
        hd_watch_look(team->net->watch);
    }
    for (uint64_t by = 1; by < team->n && settled; by *= 2) {
        settled = hd_net_watch_is_settled(team->net, team->peer[behind(team, (uint32_t)by)]) &&
                  hd_net_watch_is_settled(team->net, team->peer[ahead(team, (uint32_t)by)]);
    }
    return settled;
}

ucc_status_t hd_net_team_create(hd_net_t *net, const hd_net_team_params_t *params,
                                hd_net_team_t **out) {
    hd_net_team_t *team = allocate(net->lanes, params->n);
    *out = NULL;
    if (!team) {
        hd_error("no memory for a team of %u processes", params->n);
        return UCC_ERR_NO_MEMORY;
    }
    team->net = net;
    team->wire = params->wire;
    team->n = params->n;
    team->me = params->me;
    team->lanes = net->lanes;
    team->forks = hd_forks();
    team->failed = params->failed;
    team->swapped = params->swapped;
    team->arg = params->arg;
    hd_net_read_choices(team->choice, params->config);
    ucc_status_t status = find_peers(team, params);
    if (status == UCC_OK && params->swaps &&
        !(team->swaps = hd_net_swaps_create(team, params->early))) {
        hd_error("no memory for a team of %u processes", params->n);
        status = UCC_ERR_NO_MEMORY;
    }
    if (status != UCC_OK) {
        hd_free(team);
        return status;
    }
    atomic_init(&team->lanes_left, team->lanes);
    hd_net_keep(net);
    hd_lock(&net->lock);
    hd_net_team_t **at = find(net, team->wire);
    bool twice = *at != NULL;
    if (!twice) {
        *at = team;
    }
    hd_unlock(&net->lock);
    if (twice) {
        hd_error("there is a team with wire id %llx", (unsigned long long)team->wire);
        free_team(team);
        hd_net_close(net);
        return UCC_ERR_NO_RESOURCE;
    }
    if (!params->despite_losses) {
        keep_neighbours(team);
    }
    *out = team;
    return UCC_OK;
}

/* --- its end --------------------------------------------------------------------------------------------------------- */

void hd_net_team_destroy(hd_net_team_t *team) {
    hd_net_t *net = team->net;
    if (team->forks != hd_forks()) {
        free_team(team); /* the child of a fork: its net is gone, and so are its lanes */
        return;
    }
    hd_lock(&team->telling);
    team->destroyed = true;
    hd_unlock(&team->telling);
    hd_lock(&net->lock);
    *find(net, team->wire) = team->next;
    net->gone[net->n_gone++ % HD_NET_GONE] = team->wire;
    if (net->n_gone == 2 * HD_NET_GONE) {
        net->n_gone = HD_NET_GONE; /* full from now on */
    }
    hd_unlock(&net->lock);
    uint32_t lanes = team->lanes;
    for (uint32_t l = 0; l < lanes; l++) {
        hd_net_lane_hand(&net->lane[l], &team->lane[l].end);
    }
    hd_net_pump(
        net); /* now, if nobody is in the lanes: else they see it soon, or when the net is closed */
    hd_net_close(net);
}

void hd_net_team_lane_end(hd_net_team_lane_t *tl) {
    hd_net_team_t *team = tl->team;
    hd_net_lane_t *lane = hd_net_team_lane_of(tl);
    hd_net_match_drop_all(tl);
    hd_flow_forget(tl);
    if (team->swaps && lane->number == 0) {
        hd_net_swap_forget(lane, team);
    }
    /* acq_rel: the last lane frees what the others have done with */
    if (atomic_fetch_sub_explicit(&team->lanes_left, 1, memory_order_acq_rel) == 1) {
        free_team(team);
    }
}

uint32_t hd_net_team_lanes(const hd_net_team_t *team) {
    return team->lanes;
}

void hd_net_team_warms(hd_net_team_t *team, uint32_t lane, bool over) {
    for (uint32_t i = 0; i < team->n; i++) {
        hd_peer_link_t *link = team->peer[i] ? &team->peer[i]->link[lane] : NULL;
        if (link && link->warmth < 2) {
            link->warmth = over ? 2 : 1;
        }
    }
}

bool hd_net_team_is_beside(const hd_net_team_t *team, uint32_t process) {
    /* without a watch, nobody says where he is */
    return process == team->me || team->peer[process]->host == 0 ||
           team->peer[process]->host == team->net->host;
}

bool hd_net_team_has_lost(const hd_net_team_t *team, uint32_t process) {
    /* relaxed: who learns it later comes again */
    return process != team->me &&
           atomic_load_explicit(&team->peer[process]->lost, memory_order_relaxed);
}

/* --- failure ------------------------------------------------------------------------------------------------------------ */

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

void hd_net_team_fail(hd_net_team_t *team, ucc_status_t why) {
    fail(team, why, true);
}

void hd_net_team_lane_failed(hd_net_team_lane_t *tl) {
    hd_net_match_drop_all(tl);
}

/* The others are told, by lane 0. */
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

/* Who has found it out tells all, and, through the watch, those whom UCX does not reach any more. Who was told tells its
 * neighbours: the first may be gone before it has told all. */
void hd_net_team_lane_abort(hd_net_team_lane_t *tl) {
    hd_net_team_t *team = tl->team;
    hd_wire_t wire = {
        .kind = HD_WIRE_ABORT,
        .class = HD_NET_NUMBERED,
        .status = (ucc_status_t)atomic_load_explicit(&team->aborting, memory_order_relaxed)};
    bool some = team->relays && !tl->returns; /* else all have to forget this attempt (match.c) */
    for (uint64_t by = 1; by < team->n; by = some ? by * 2 : by + 1) {
        hd_message_tell(tl, ahead(team, (uint32_t)by), &wire);
        if (some && behind(team, (uint32_t)by) != ahead(team, (uint32_t)by)) {
            hd_message_tell(tl, behind(team, (uint32_t)by), &wire);
        }
    }
    hd_net_tell_abort(team->net, team->wire, wire.status);
}
