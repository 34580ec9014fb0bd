/* match.c: which leg a message is for. Messages and legs come in any order: a message finds its
 * leg, and what the leg expects of that source at that step, or is parked (park.c) until the leg is
 * there and asks for it.
 *
 * A message that is parked with a leg has to have the leg's signature: else other processes were
 * called with other arguments, and the team fails, everywhere.
 *
 * UCX brings messages by way of net.c, start.c opens legs, and news.c says what the watch has heard
 * of a team; all under the lane's lock.
 */
#include "net/internal.h"

static hd_net_key_t key_of(const hd_wire_t *wire) {
    return (hd_net_key_t){wire->number, wire->ordinal, wire->subset, wire->class};
}

static bool is_for(const hd_leg_t *leg, const hd_wire_t *wire) {
    return leg->key.number == wire->number && leg->key.ordinal == wire->ordinal &&
           leg->key.subset == wire->subset && leg->key.class == wire->class &&
           leg->segment == wire->segment;
}

/* Nobody will ever expect this message: it is dropped, and the team fails. */
static hd_ucx_arrival_t mismatched(hd_net_team_t *team, const hd_wire_t *wire) {
    hd_net_team_differs(team, wire->source);
    return HD_UCX_DONE;
}

/* Unlinks what the leg expects of that source at that step; NULL: it expects nothing. */
static hd_expected_t *take_expected(hd_leg_t *leg, const hd_wire_t *wire) {
    for (hd_expected_t **at = &leg->expected; *at; at = &(*at)->next) {
        if ((*at)->source == wire->source && (*at)->step == wire->step) {
            hd_expected_t *found = *at;
            *at = found->next;
            return found;
        }
    }
    return NULL;
}

static hd_ucx_arrival_t deliver(hd_net_team_lane_t *tl, const hd_wire_t *wire, void *data,
                                bool rendezvous) {
    hd_net_key_t key = key_of(wire);
    uint32_t b = hd_park_bucket(&key, wire->segment);
    hd_leg_t *leg = tl->open[b];
    while (leg && !is_for(leg, wire)) {
        leg = leg->next_open;
    }
    if (!leg) {
        bool over = hd_park_was_closed(tl, &key, wire->segment);
        bool swap = key.class == HD_NET_NUMBERED && hd_net_swap_has_begun(tl->team, key.number);
        return over || swap ? mismatched(tl->team, wire)
                            : hd_park(tl, &tl->parked[b], wire, data, rendezvous);
    }
    if (leg->failure != UCC_OK) {
        return HD_UCX_DONE;
    }
    hd_expected_t *expected = take_expected(leg, wire);
    if (expected) {
        return hd_leg_take(leg, expected, wire, data, rendezvous);
    }
    return wire->signature == leg->call.signature
               ? hd_park(tl, &leg->parked, wire, data, rendezvous)
               : mismatched(tl->team, wire);
}

/* --- legs come -------------------------------------------------------------------------------- */

static void abort_team(hd_net_team_t *team, const hd_wire_t *wire) {
    hd_info("another process says that the team has failed: %d", (int)wire->status);
    hd_net_team_relay(team, wire->status);
}

static const uint32_t anybody = UINT32_MAX; /* source of what was heard by the watch */

static void deliver_early(hd_net_lane_t *lane, hd_net_team_lane_t *tl) {
    hd_parked_t *parked;
    while ((parked = hd_park_next_early(lane, tl->team->wire))) {
        bool known = parked->wire.source < tl->team->n && parked->wire.source != tl->team->me;
        if (parked->wire.kind == HD_WIRE_ABORT && (known || parked->wire.source == anybody)) {
            abort_team(tl->team, &parked->wire);
        } else if (known) {
            deliver(tl, &parked->wire, parked->data, false);
        }
        hd_park_drop(lane, parked);
    }
}

void hd_net_match_open(hd_leg_t *leg) {
    hd_net_team_lane_t *tl = hd_leg_tl(leg);
    uint32_t b = hd_park_bucket(&leg->key, leg->segment);
    leg->next_open = tl->open[b];
    tl->open[b] = leg;
    leg->opened = true;
    hd_flow_opened(tl, leg);
    uint32_t source;
    if (leg->key.class == HD_NET_NUMBERED && leg->lane == 0 && /* every exchange has a leg there */
        hd_net_swap_has_come(tl->team, leg->key.number, &source)) {
        hd_net_team_differs(tl->team, source);
    }
    for (hd_parked_t **at = &tl->parked[b]; *at;) {
        hd_parked_t *parked = *at;
        if (!is_for(leg, &parked->wire)) {
            at = &parked->next;
            continue;
        }
        *at = parked->next;
        parked->next = leg->parked;
        leg->parked = parked;
        if (parked->wire.signature != leg->call.signature) {
            hd_net_team_differs(tl->team, parked->wire.source);
        }
    }
    if (leg->key.class == HD_NET_FORMING && leg->key.number == 0) {
        deliver_early(hd_net_team_lane_of(tl), tl);
    }
}

/* --- messages come ---------------------------------------------------------------------------- */

static hd_ucx_arrival_t arrive(hd_net_team_lane_t *tl, const hd_wire_t *wire, void *data,
                               bool rendezvous) {
    if (wire->kind == HD_WIRE_LEFT) { /* those who agree need to know also when it has failed */
        hd_net_team_left(tl->team, wire->source, wire->number);
        return HD_UCX_DONE;
    }
    if (hd_net_team_failure(tl->team) != UCC_OK) {
        return HD_UCX_DONE;
    }
    if (wire->kind == HD_WIRE_ABORT) {
        abort_team(tl->team, wire);
        return HD_UCX_DONE;
    }
    hd_flow_in(&tl->peer[wire->source], wire);
    return wire->kind == HD_WIRE_DATA ? deliver(tl, wire, data, rendezvous) : HD_UCX_DONE;
}

hd_ucx_arrival_t hd_net_match_arrive(hd_net_lane_t *lane, const void *header, size_t header_bytes,
                                     void *data, size_t bytes, bool rendezvous) {
    hd_wire_t wire;
    bool gone;
    const char *wrong = hd_wire_parse(header, header_bytes, bytes, &wire);
    if (wrong) {
        if (hd_net_lane_may_log(lane)) {
            hd_warn("a message was dropped: %s", wrong);
        }
        return HD_UCX_DONE;
    }
    if (wire.kind == HD_WIRE_PROBE) {
        if (wire.team == lane->net->token[0]) {
            atomic_store_explicit(&lane->probed, wire.number, memory_order_relaxed); /* a number */
        }
        return HD_UCX_DONE;
    }
    lane->moved = true;
    hd_net_add_up(&lane->traffic.messages_received, wire.kind == HD_WIRE_DATA);
    hd_net_add_up(&lane->traffic.bytes_received, wire.bytes);
    hd_net_team_t *team = hd_net_team_find(lane, wire.team, &gone);
    if (!team) {
        return gone ? HD_UCX_DONE : hd_park_early(lane, &wire, data, rendezvous);
    }
    if (wire.source >= team->n || wire.source == team->me) {
        if (hd_net_lane_may_log(lane)) {
            hd_warn("a message was dropped: it says to be of process %u of %u", wire.source,
                    team->n);
        }
        return HD_UCX_DONE;
    }
    return arrive(&team->lane[lane->number], &wire, data, rendezvous);
}

void hd_net_match_aborted(hd_net_lane_t *lane, uint64_t id, ucc_status_t why) {
    const hd_wire_t wire = {.kind = HD_WIRE_ABORT,
                            .class = HD_NET_NUMBERED,
                            .source = anybody,
                            .team = id,
                            .status = why};
    bool gone;
    hd_net_team_t *team = hd_net_team_find(lane, id, &gone);
    if (!team && !gone) {
        (void)hd_park_early(lane, &wire, NULL, false);
    } else if (team && hd_net_team_failure(team) == UCC_OK) {
        abort_team(team, &wire);
    }
}
