/* team_make.c: making a team, and its end: what span/ and form/ call for that, any thread, and what
 * each lane does then.
 *
 * A team that is destroyed leaves the table at once, so that no message finds it any more. Each
 * lane then sees its end (an item), gives back what is parked there, and the last one frees the
 * team: whoever found it in the table held a lane's lock, and that lane sees the end later.
 */
#include "net/internal.h"

#include "core/descriptors.h"

#include <string.h>

/* --- what lanes do ---------------------------------------------------------------------------- */

static void free_team(hd_net_team_t *team) {
    hd_net_swaps_leave(team->swaps);
    hd_free(team);
}

/* The team's lane that has this item so many bytes behind its beginning. */
static hd_net_team_lane_t *lane_with(hd_net_item_t *item, size_t offset) {
    return (hd_net_team_lane_t *)(void *)((char *)item - offset);
}

/* Tells those to whom there is a way; who has none has never heard of this process, and hears of
 * its end by the watch. */
static void tell_leave(hd_net_team_lane_t *tl) {
    const hd_net_team_t *team = tl->team;
    const hd_net_lane_t *lane = hd_net_team_lane_of(tl);
    const hd_wire_t wire = {.kind = HD_WIRE_LEFT, .class = HD_NET_NUMBERED, .number = team->last};
    for (uint32_t i = 0; lane->port.worker && i < team->n; i++) {
        if (!hd_net_team_has_lost(team, i) && i != team->me &&
            team->peer[i]->link[lane->number].ucx.ep) {
            hd_message_tell(tl, i, &wire);
        }
    }
}

static void take_end(hd_net_lane_t *lane, hd_net_item_t *item) {
    hd_net_team_lane_t *tl = lane_with(item, offsetof(hd_net_team_lane_t, end));
    hd_net_team_t *team = tl->team;
    if (team->leaves && lane->number == 0) {
        tell_leave(tl);
    }
    hd_park_drop_all(tl);
    hd_flow_forget(tl);
    if (team->swaps && lane->number == 0) {
        hd_net_swap_forget(lane, team);
    }
    /* acq_rel: the last lane frees what the others have done with */
    if (atomic_fetch_sub_explicit(&team->lanes_left, 1, memory_order_acq_rel) == 1) {
        free_team(team);
    }
}

static void take_failure(hd_net_lane_t *lane, hd_net_item_t *item) {
    (void)lane;
    hd_park_drop_all(lane_with(item, offsetof(hd_net_team_lane_t, failed)));
}

/* Tells the process, if there is a way to it. A failure makes no connections: the watch tells it to
 * those to which there is none, but while they greet each other its own ones may not be there. */
static void tell_linked(hd_net_team_lane_t *tl, uint32_t to, const hd_wire_t *wire) {
    const hd_net_lane_t *lane = hd_net_team_lane_of(tl);
    const hd_peer_t *peer = tl->team->peer[to];
    bool watched = lane->net->watch && peer->watch_bytes;
    if (peer->link[lane->number].ucx.ep || !watched || !tl->greeted) {
        hd_message_tell(tl, to, wire);
    }
}

/* Whoever has found out that the team is lost tells all processes, and, through the watch, those
 * whom UCX does not reach any more. Whoever was told tells its neighbours: the first may be gone
 * before it has told all. */
static void take_abort(hd_net_lane_t *lane, hd_net_item_t *item) {
    hd_net_team_lane_t *tl = lane_with(item, offsetof(hd_net_team_lane_t, abort));
    hd_net_team_t *team = tl->team;
    hd_wire_t wire = {
        .kind = HD_WIRE_ABORT,
        .class = HD_NET_NUMBERED,
        .status = (ucc_status_t)atomic_load_explicit(&team->aborting, memory_order_relaxed)};
    for (uint64_t by = 1; by < team->n; by = team->relays ? by * 2 : by + 1) {
        tell_linked(tl, hd_net_team_ahead(team, team->me, (uint32_t)by), &wire);
        if (team->relays && hd_net_team_behind(team, team->me, (uint32_t)by) !=
                                hd_net_team_ahead(team, team->me, (uint32_t)by)) {
            tell_linked(tl, hd_net_team_behind(team, team->me, (uint32_t)by), &wire);
        }
    }
    hd_net_refuse(lane->net, team->wire, wire.status);
}

/* --- making one ------------------------------------------------------------------------------- */

void hd_net_read_choices(uint8_t choice[HD_NET_FAMILIES], const hd_config_t *config) {
    for (uint32_t f = 0; f < HD_NET_FAMILIES; f++) {
        const char *word =
            config ? hd_config_string(config, (hd_cfg_id_t)(HD_CFG_LIB_NET_BARRIER + f)) : "";
        choice[f] = (uint8_t)hd_net_algorithm_named(word); /* of "auto": HD_NET_NOTHING */
    }
}

enum { FOR_OTHERS = 64 }; /* descriptors, beside one for each way */

static size_t padded(size_t bytes) {
    return (bytes + HD_LINE - 1) / HD_LINE * HD_LINE;
}

/* Allocates one block: the team with its lanes, its peers, and what each lane knows of each of
 * them. */
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
        team->lane[l].end.take = take_end;
        team->lane[l].failed.take = take_failure;
        team->lane[l].abort.take = take_abort;
        for (uint32_t i = 0; i < n; i++) {
            team->lane[l].peer[i].tl = &team->lane[l];
        }
    }
    return team;
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
        /* A segment's lane is the same in all processes: so many as the process has that has the
         * fewest. */
        team->lanes = team->peer[i]->lanes < team->lanes ? team->peer[i]->lanes : team->lanes;
    }
    return UCC_OK;
}

/* Watches the processes 1, 2, 4, ... before and after this one: so everybody is watched, and what
 * each tells its neighbours on reaches all (news.c). */
static void keep_neighbours(hd_net_team_t *team) {
    for (uint64_t by = 1; by < team->n; by *= 2) {
        hd_net_watch_keep(team->net, team->peer[hd_net_team_behind(team, team->me, (uint32_t)by)]);
        hd_net_watch_keep(team->net, team->peer[hd_net_team_ahead(team, team->me, (uint32_t)by)]);
    }
}

bool hd_net_team_is_watched(hd_net_team_t *team) {
    bool settled = true;
    if (team->net->watch) {
        hd_watch_look(team->net->watch);
    }
    for (uint64_t by = 1; by < team->n && settled; by *= 2) {
        settled = hd_net_watch_is_settled(
                      team->net, team->peer[hd_net_team_behind(team, team->me, (uint32_t)by)]) &&
                  hd_net_watch_is_settled(
                      team->net, team->peer[hd_net_team_ahead(team, team->me, (uint32_t)by)]);
    }
    return settled;
}

/* Takes over what the parameters say of the team. */
static void set(hd_net_team_t *team, hd_net_t *net, const hd_net_team_params_t *params) {
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
}

ucc_status_t hd_net_team_create(hd_net_t *net, const hd_net_team_params_t *params,
                                hd_net_team_t **out) {
    hd_net_team_t *team = allocate(net->lanes, params->n);
    *out = NULL;
    if (!team) {
        hd_error("no memory for a team of %u processes", params->n);
        return UCC_ERR_NO_MEMORY;
    }
    set(team, net, params);
    (void)hd_descriptors_reserve(team->lanes * team->n + FOR_OTHERS);
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
    if (!hd_net_team_enter(team)) {
        hd_error("there is a team with wire id %llx", (unsigned long long)team->wire);
        free_team(team);
        hd_net_close(net);
        return UCC_ERR_NO_RESOURCE;
    }
    if (!params->despite_losses) {
        keep_neighbours(team);
    }
    if (params->over) {
        hd_net_await(net, &team->over, params->over);
        /* relaxed: only told to look */
        atomic_store_explicit(&net->has_losses, true, memory_order_relaxed);
    }
    *out = team;
    return UCC_OK;
}

/* --- its end ---------------------------------------------------------------------------------- */

void hd_net_team_leave(hd_net_team_t *team, uint64_t last) {
    team->leaves = true;
    team->last = last;
}

void hd_net_team_tells(hd_net_team_t *team,
                       void (*tell)(void *arg, void (*line)(void *to, const char *text),
                                    void *to)) {
    if (team->forks == hd_forks()) { /* else the lock may be held by a thread of the parent */
        hd_lock(&team->telling);
        team->tell = tell;
        hd_unlock(&team->telling);
    }
}

void hd_net_team_destroy(hd_net_team_t *team) {
    hd_net_t *net = team->net;
    if (team->forks != hd_forks()) {
        free_team(team); /* the child of a fork: its net is gone, and so are its lanes */
        return;
    }
    hd_lock(&team->telling);
    team->destroyed = true;
    hd_unlock(&team->telling);
    hd_net_team_forget(team);
    hd_net_await_no_more(net, &team->over);
    uint32_t lanes = team->lanes;
    for (uint32_t l = 0; l < lanes; l++) {
        hd_net_lane_hand(&net->lane[l], &team->lane[l].end);
    }
    /* Lanes see it now, if nobody is in them: else soon, or when the net is closed. */
    hd_net_pump(net);
    hd_net_close(net);
}
