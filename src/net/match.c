/* match.c: which leg a message is for. Messages and legs come in any order: what comes before its leg is parked with
 * the team, what comes before the leg asks for it, with the leg. Eager data is copied, for UCX wants it back; a
 * rendezvous leaves its data with the sender until a leg takes it into the user's memory. What is parked of each
 * process is bounded: one that sends more than its quotas allow fails the team, not this process.
 *
 * Legs and what is parked for them hang in buckets by their key and segment.
 *
 * Processes that were called with different arguments may send what nobody expects: all take themselves for a root, say.
 * So a message that is parked with a leg has to have its signature, and nothing may be left with a leg that ends, nor come
 * for one that has ended: a lane remembers the last ones. Any of it fails the team, everywhere.
 */
#include "net/internal.h"

#include "core/hash.h"
#include "threads/clock.h"

#include <string.h>

static uint64_t hash_of(const hd_net_key_t *key, uint32_t segment) {
    uint64_t x = key->number * UINT64_C(0x9E3779B97F4A7C15) + key->ordinal + key->subset + segment +
                 ((uint64_t)key->class << 32);
    return x * UINT64_C(0xD6E8FEB86659FD93);
}

static uint32_t bucket(const hd_net_key_t *key, uint32_t segment) {
    return (uint32_t)(hash_of(key, segment) >> 58);
}
_Static_assert(HD_NET_BUCKETS == 64, "a bucket's number has 6 bits");

static hd_net_key_t key_of(const hd_wire_t *wire) {
    return (hd_net_key_t){wire->number, wire->ordinal, wire->subset, wire->class};
}

static bool is_for(const hd_leg_t *leg, const hd_wire_t *wire) {
    return leg->key.number == wire->number && leg->key.ordinal == wire->ordinal &&
           leg->key.subset == wire->subset && leg->key.class == wire->class &&
           leg->segment == wire->segment;
}

/* A peer, or a stranger, might send any number of them: one line a second. Under a lane's lock, so the time is each
 * lane's own. */
bool hd_net_match_may_log(hd_net_lane_t *lane) {
    uint64_t now = hd_clock_ns();
    if (now - lane->logged < 1000000000 && lane->logged) {
        return false;
    }
    lane->logged = now;
    return true;
}

/* --- parking --------------------------------------------------------------------------------------------------------- */

/* Small ones are kept for the next. */
static hd_parked_t *parked_get(hd_net_lane_t *lane, size_t bytes) {
    hd_parked_t *parked = lane->free_parked;
    if (bytes > HD_NET_PARKED_SMALL) {
        return hd_alloc(alignof(hd_parked_t), sizeof(*parked) + bytes);
    }
    if (parked) {
        lane->free_parked = parked->next;
        return parked;
    }
    return hd_alloc(HD_LINE, sizeof(*parked) + HD_NET_PARKED_SMALL);
}

static void parked_put(hd_net_lane_t *lane, hd_parked_t *parked) {
    if (parked->bytes > HD_NET_PARKED_SMALL) {
        hd_free(parked);
        return;
    }
    parked->next = lane->free_parked;
    lane->free_parked = parked;
}

static hd_parked_t *make_parked(hd_net_lane_t *lane, const hd_wire_t *wire, void *data,
                                bool rendezvous) {
    size_t bytes = rendezvous ? 0 : wire->bytes;
    hd_parked_t *parked = parked_get(lane, bytes);
    if (!parked) {
        return NULL;
    }
    parked->wire = *wire;
    parked->bytes = bytes;
    parked->rendezvous = rendezvous ? data : NULL;
    if (bytes) {
        memcpy(parked->data, data, bytes);
    }
    return parked;
}

static void count_off(hd_net_team_lane_t *tl, const hd_parked_t *parked) {
    hd_net_team_peer_t *peer = &tl->peer[parked->wire.source];
    peer->parked_messages--;
    peer->parked_bytes -= parked->bytes;
}

void hd_net_match_drop(hd_net_lane_t *lane, hd_parked_t *parked) {
    if (parked->rendezvous && lane->port.worker) {
        hd_ucx_release(&lane->port, parked->rendezvous);
    }
    parked_put(lane, parked);
}

static void drop_list(hd_net_team_lane_t *tl, hd_parked_t **list) {
    while (*list) {
        hd_parked_t *parked = *list;
        *list = parked->next;
        count_off(tl, parked);
        hd_net_match_drop(hd_net_team_lane_of(tl), parked);
    }
}

void hd_net_match_drop_all(hd_net_team_lane_t *tl) {
    for (uint32_t b = 0; b < HD_NET_BUCKETS; b++) {
        drop_list(tl, &tl->parked[b]);
    }
}

/* The team fails, here and elsewhere. */
static hd_ucx_arrival_t give_up(hd_net_team_t *team, ucc_status_t why) {
    hd_net_team_fail(team, why);
    hd_net_team_abort(team, why);
    return HD_UCX_DONE;
}

/* Where a leg is remembered when it is over. No two numbered ones of which a message may still come share a place: a
 * process is HD_NET_AHEAD numbers ahead at most, in up to 16 segments each. */
static uint64_t *memory_of(hd_net_team_lane_t *tl, const hd_net_key_t *key, uint32_t segment) {
    uint64_t place = key->class == HD_NET_NUMBERED ? key->number + (uint64_t)HD_NET_AHEAD * segment
                                                   : hash_of(key, segment) >> 48;
    return &tl->closed[place % HD_NET_CLOSED];
}

/* Not 0, and no other's. */
static uint64_t name_of(const hd_net_key_t *key, uint32_t segment) {
    uint64_t hash = hd_hash_mix(hd_hash_mix(key->class, key->number), key->ordinal);
    return hd_hash_mix(hd_hash_mix(hash, key->subset), segment) | 1;
}

void hd_net_match_differs(hd_net_team_t *team, uint32_t source) {
    hd_error("process %u was called with other arguments, or for another root, than process %u",
             source, team->me);
    (void)give_up(team, UCC_ERR_INVALID_PARAM);
}

/* A message that nobody will ever expect. */
static hd_ucx_arrival_t mismatched(hd_net_team_t *team, const hd_wire_t *wire) {
    hd_net_match_differs(team, wire->source);
    return HD_UCX_DONE;
}

static hd_ucx_arrival_t park(hd_net_team_lane_t *tl, hd_parked_t **list, const hd_wire_t *wire,
                             void *data, bool rendezvous) {
    hd_net_team_peer_t *peer = &tl->peer[wire->source];
    size_t bytes = rendezvous ? 0 : wire->bytes;
    if (peer->parked_messages >= HD_NET_PARKED_MESSAGES ||
        peer->parked_bytes + bytes > HD_NET_PARKED_BYTES) {
        hd_error(
            "process %u has sent %u messages, %zu bytes of them eagerly, for collectives that were "
            "not posted here",
            wire->source, peer->parked_messages, peer->parked_bytes);
        return give_up(tl->team, UCC_ERR_NO_RESOURCE);
    }
    hd_parked_t *parked = make_parked(hd_net_team_lane_of(tl), wire, data, rendezvous);
    if (!parked) {
        hd_error("no memory for a message of %zu bytes that came early", (size_t)wire->bytes);
        return give_up(tl->team, UCC_ERR_NO_MEMORY);
    }
    parked->next = *list;
    *list = parked;
    peer->parked_messages++;
    peer->parked_bytes += bytes;
    return rendezvous ? HD_UCX_KEPT : HD_UCX_DONE;
}

/* --- matching ---------------------------------------------------------------------------------------------------------- */

static hd_net_key_t numbered(uint64_t k) {
    return (hd_net_key_t){.number = k, .ordinal = 1, .class = HD_NET_NUMBERED};
}

bool hd_net_match_has_leg(hd_net_team_lane_t *tl, uint64_t k) {
    const hd_net_key_t key = numbered(k);
    const hd_leg_t *leg = tl->open[bucket(&key, 0)];
    while (leg && !(leg->key.class == HD_NET_NUMBERED && leg->key.number == k)) {
        leg = leg->next_open;
    }
    return leg || *memory_of(tl, &key, 0) == name_of(&key, 0);
}

bool hd_net_match_has_parked(const hd_net_team_lane_t *tl, uint64_t k, uint32_t *source) {
    const hd_net_key_t key = numbered(k);
    const hd_parked_t *parked = tl->parked[bucket(&key, 0)];
    while (parked && !(parked->wire.class == HD_NET_NUMBERED && parked->wire.number == k)) {
        parked = parked->next;
    }
    *source = parked ? parked->wire.source : 0;
    return parked != NULL;
}

/* Unlinked, or NULL. */
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
    uint32_t b = bucket(&key, wire->segment);
    hd_leg_t *leg = tl->open[b];
    while (leg && !is_for(leg, wire)) {
        leg = leg->next_open;
    }
    if (!leg) {
        bool over = *memory_of(tl, &key, wire->segment) == name_of(&key, wire->segment);
        bool swap = key.class == HD_NET_NUMBERED && hd_net_swap_has_begun(tl->team, key.number);
        return over || swap ? mismatched(tl->team, wire)
                            : park(tl, &tl->parked[b], wire, data, rendezvous);
    }
    if (leg->failure != UCC_OK) {
        return HD_UCX_DONE;
    }
    hd_expected_t *expected = take_expected(leg, wire);
    if (expected) {
        return hd_leg_take(leg, expected, wire, data, rendezvous);
    }
    return wire->signature == leg->call.signature ? park(tl, &leg->parked, wire, data, rendezvous)
                                                  : mismatched(tl->team, wire);
}

void hd_net_match_expect(hd_leg_t *leg, hd_expected_t *expected) {
    for (hd_parked_t **at = &leg->parked; *at; at = &(*at)->next) {
        hd_parked_t *parked = *at;
        if (parked->wire.source != expected->source || parked->wire.step != expected->step) {
            continue;
        }
        *at = parked->next;
        count_off(hd_leg_tl(leg), parked);
        bool rendezvous = parked->rendezvous != NULL;
        hd_ucx_arrival_t end =
            hd_leg_take(leg, expected, &parked->wire,
                        rendezvous ? parked->rendezvous : parked->data, rendezvous);
        if (end == HD_UCX_KEPT) {
            parked->rendezvous = NULL; /* the receive has it */
        }
        hd_net_match_drop(&leg->team->net->lane[leg->lane], parked);
        return;
    }
    expected->next = leg->expected;
    leg->expected = expected;
}

/* --- legs come and go ---------------------------------------------------------------------------------------------------- */

static void abort_team(hd_net_team_t *team, const hd_wire_t *wire) {
    hd_info("another process says that the team has failed: %d", (int)wire->status);
    hd_net_team_relay(team, wire->status);
}

static const uint32_t anybody = UINT32_MAX; /* source of what was heard by the watch */

static void deliver_early(hd_net_lane_t *lane, hd_net_team_lane_t *tl) {
    for (hd_parked_t **at = &lane->early; *at;) {
        hd_parked_t *parked = *at;
        if (parked->wire.team != tl->team->wire) {
            at = &parked->next;
            continue;
        }
        *at = parked->next;
        lane->n_early--;
        bool known = parked->wire.source < tl->team->n && parked->wire.source != tl->team->me;
        if (parked->wire.kind == HD_WIRE_ABORT && (known || parked->wire.source == anybody)) {
            abort_team(tl->team, &parked->wire);
        } else if (known) {
            deliver(tl, &parked->wire, parked->data, false);
        }
        parked_put(lane, parked);
    }
}

void hd_net_match_open(hd_leg_t *leg) {
    hd_net_team_lane_t *tl = hd_leg_tl(leg);
    uint32_t b = bucket(&leg->key, leg->segment);
    leg->next_open = tl->open[b];
    tl->open[b] = leg;
    leg->opened = true;
    hd_flow_opened(tl, leg);
    uint32_t source;
    if (leg->key.class == HD_NET_NUMBERED && leg->lane == 0 && /* every exchange has a leg there */
        hd_net_swap_has_come(tl->team, leg->key.number, &source)) {
        hd_net_match_differs(tl->team, source);
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
            (void)mismatched(tl->team, &parked->wire);
        }
    }
    if (leg->key.class == HD_NET_FORMING && leg->key.number == 0) {
        tl->returns = leg->key.ordinal == 1;
        deliver_early(hd_net_team_lane_of(tl), tl);
    }
}

static hd_ucx_arrival_t arrive_early(hd_net_lane_t *lane, const hd_wire_t *wire, void *data,
                                     bool rendezvous, bool gone);

/* Greetings that are left when one is over are for the next one. */
static void put_back(hd_net_team_lane_t *tl, hd_parked_t **list) {
    hd_net_lane_t *lane = hd_net_team_lane_of(tl);
    while (*list) {
        hd_parked_t *parked = *list;
        *list = parked->next;
        count_off(tl, parked);
        (void)arrive_early(lane, &parked->wire, parked->data, parked->rendezvous != NULL, true);
        hd_net_match_drop(lane, parked);
    }
}

void hd_net_match_close(hd_leg_t *leg) {
    hd_net_team_lane_t *tl = hd_leg_tl(leg);
    hd_leg_t **at = &tl->open[bucket(&leg->key, leg->segment)];
    while (*at != leg) {
        at = &(*at)->next_open;
    }
    *at = leg->next_open;
    leg->opened = false;
    if (leg->key.class == HD_NET_FORMING && leg->key.number == 0) {
        tl->greeted = true;
        if (tl->returns) {
            put_back(tl, &leg->parked);
        }
    }
    if (leg->failure == UCC_OK && leg->parked) {
        (void)mismatched(tl->team, &leg->parked->wire);
        leg->failure = UCC_ERR_INVALID_PARAM;
    }
    if (leg->failure == UCC_OK) {
        *memory_of(tl, &leg->key, leg->segment) = name_of(&leg->key, leg->segment);
    }
    drop_list(tl, &leg->parked);
    hd_flow_closed(tl, leg);
}

/* --- what UCX brings -------------------------------------------------------------------------------------------------------- */

void hd_net_match_drop_early(hd_net_lane_t *lane, uint64_t ns) {
    for (hd_parked_t **at = &lane->early; *at;) {
        hd_parked_t *parked = *at;
        if (ns - parked->since < HD_NET_EARLY_SECONDS * UINT64_C(1000000000)) {
            at = &parked->next;
            continue;
        }
        *at = parked->next;
        lane->n_early--;
        parked_put(lane, parked);
    }
}

/* A greeting of a team whose wire id may be used again. */
static bool may_return(const hd_wire_t *wire) {
    return wire->kind == HD_WIRE_DATA && wire->class == HD_NET_FORMING && wire->number == 0 &&
           wire->ordinal == 1;
}

/* Nobody sends two of a kind for one attempt, and a process's messages come in order: so an abort ends the attempt that a
 * greeting of the same process was for, and a greeting begins the next one. Was there such a greeting? */
static bool forget_attempts(hd_net_lane_t *lane, const hd_wire_t *wire) {
    bool greets = may_return(wire), any = false;
    for (hd_parked_t **at = &lane->early; *at;) {
        hd_parked_t *parked = *at;
        const hd_wire_t *old = &parked->wire;
        bool over =
            old->team == wire->team && old->source == wire->source &&
            (greets ? old->kind == HD_WIRE_ABORT || (may_return(old) && old->step == wire->step)
                    : wire->kind == HD_WIRE_ABORT && may_return(old));
        if (!over) {
            at = &parked->next;
            continue;
        }
        *at = parked->next;
        lane->n_early--;
        any = true;
        parked_put(lane, parked);
    }
    return any;
}

/* For a team that is not known here: maybe not yet, or not again. */
static hd_ucx_arrival_t arrive_early(hd_net_lane_t *lane, const hd_wire_t *wire, void *data,
                                     bool rendezvous, bool gone) {
    bool forgotten = lane->early && forget_attempts(lane, wire);
    if ((gone && !may_return(wire)) || (forgotten && wire->kind == HD_WIRE_ABORT)) {
        return HD_UCX_DONE;
    }
    bool forms = wire->kind == HD_WIRE_DATA && wire->class == HD_NET_FORMING && !rendezvous;
    if (!forms && wire->kind != HD_WIRE_ABORT) { /* another process may have given up forming it */
        if (hd_net_match_may_log(lane)) {
            hd_warn("a message for a team that is not known here was dropped");
        }
        return HD_UCX_DONE;
    }
    uint64_t now = hd_clock_ns();
    hd_net_match_drop_early(lane, now);
    hd_parked_t *parked = lane->n_early < HD_NET_EARLY_MESSAGES && wire->bytes <= HD_NET_EARLY_BYTES
                              ? make_parked(lane, wire, data, false)
                              : NULL;
    if (!parked) {
        if (hd_net_match_may_log(lane)) {
            hd_warn("a message for a team that is still forming was dropped: %u are kept",
                    lane->n_early);
        }
        return HD_UCX_DONE;
    }
    parked->since = now;
    parked->next = lane->early;
    lane->early = parked;
    lane->n_early++;
    return HD_UCX_DONE;
}

hd_ucx_arrival_t hd_net_match_arrive(hd_ucx_port_t *port, const void *header, size_t header_bytes,
                                     void *data, size_t bytes, bool rendezvous) {
    hd_net_lane_t *lane = (hd_net_lane_t *)(void *)port;
    hd_wire_t wire;
    bool gone;
    if (header_bytes < HD_WIRE_BYTES) {
        return hd_net_swap_arrive(lane, header, header_bytes, data, bytes, rendezvous);
    }
    const char *wrong = hd_wire_parse(header, header_bytes, bytes, &wire);
    if (wrong) {
        if (hd_net_match_may_log(lane)) {
            hd_warn("a message was dropped: %s", wrong);
        }
        return HD_UCX_DONE;
    }
    lane->moved = true;
    hd_net_add_up(&lane->traffic.messages_received, wire.kind == HD_WIRE_DATA);
    hd_net_add_up(&lane->traffic.bytes_received, wire.bytes);
    hd_net_team_t *team = hd_net_team_find(lane->net, wire.team, &gone);
    if (!team) {
        return arrive_early(lane, &wire, data, rendezvous, gone);
    }
    if (wire.source >= team->n || wire.source == team->me || lane->number >= team->lanes) {
        if (hd_net_match_may_log(lane)) {
            hd_warn("a message was dropped: it says to be of process %u of %u, in lane %u of %u",
                    wire.source, team->n, lane->number, team->lanes);
        }
        return HD_UCX_DONE;
    }
    hd_net_team_lane_t *tl = &team->lane[lane->number];
    bool failed = hd_net_team_failure(team) != UCC_OK;
    if (may_return(&wire) && (failed || tl->greeted)) {
        return arrive_early(lane, &wire, data, rendezvous, true); /* of the next attempt */
    }
    if (wire.kind == HD_WIRE_ABORT && lane->early && forget_attempts(lane, &wire)) {
        return HD_UCX_DONE; /* likewise: this one has nothing to do with it */
    }
    if (failed) {
        return HD_UCX_DONE;
    }
    if (wire.kind == HD_WIRE_ABORT) {
        abort_team(team, &wire);
        return HD_UCX_DONE;
    }
    hd_flow_in(&tl->peer[wire.source], &wire);
    return wire.kind == HD_WIRE_DATA ? deliver(tl, &wire, data, rendezvous) : HD_UCX_DONE;
}

void hd_net_match_aborted(hd_net_lane_t *lane, uint64_t id, ucc_status_t why) {
    const hd_wire_t wire = {.kind = HD_WIRE_ABORT,
                            .class = HD_NET_NUMBERED,
                            .source = anybody,
                            .team = id,
                            .status = why};
    bool gone;
    hd_net_team_t *team = hd_net_team_find(lane->net, id, &gone);
    if (!team) {
        (void)arrive_early(lane, &wire, NULL, false, gone);
    } else if (hd_net_team_failure(team) == UCC_OK) {
        abort_team(team, &wire);
    }
}
