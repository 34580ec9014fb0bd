/* park.c: messages that came before somebody expected them, and the legs that they may be for. What
 * comes before its leg is parked with the team, what comes before the leg asks for it, with the
 * leg; what comes for a team that is not known yet, with the lane. Eager data is copied, for UCX
 * wants it back; a rendezvous leaves its data with the sender until a leg takes it into the user's
 * memory. What is parked of each process is bounded: one that sends more than its quotas allow
 * fails the team, not this process.
 *
 * Legs and what is parked for them hang in buckets by their key and segment. match.c opens legs,
 * and parks what comes for none; a leg takes what was parked for it, and is closed here when it is
 * over.
 *
 * Processes that were called with different arguments may send what nobody expects: all take
 * themselves for a root, say. So nothing may be left with a leg that ends, nor come for one that
 * has ended: a lane remembers the last ones. Any of it fails the team, everywhere.
 *
 * All of it under the lane's lock.
 */
#include "net/internal.h"

#include "core/hash.h"
#include "threads/clock.h"

#include <string.h>

/* --- legs by their keys ----------------------------------------------------------------------- */

static uint64_t hash_of(const hd_net_key_t *key, uint32_t segment) {
    uint64_t x = key->number * UINT64_C(0x9E3779B97F4A7C15) + key->ordinal + key->subset + segment +
                 ((uint64_t)key->class << 32);
    return x * UINT64_C(0xD6E8FEB86659FD93);
}

uint32_t hd_park_bucket(const hd_net_key_t *key, uint32_t segment) {
    return (uint32_t)(hash_of(key, segment) >> 58);
}
_Static_assert(HD_NET_BUCKETS == 64, "a bucket's number has 6 bits");

/* Returns where a leg of this key is remembered when it is over. No two numbered ones of which a
 * message may still come share a place: a process is HD_NET_AHEAD numbers ahead at most, in up to
 * 16 segments each. */
static uint64_t *memory_of(hd_net_team_lane_t *tl, const hd_net_key_t *key, uint32_t segment) {
    uint64_t place = key->class == HD_NET_NUMBERED ? key->number + (uint64_t)HD_NET_AHEAD * segment
                                                   : hash_of(key, segment) >> 48;
    return &tl->closed[place % HD_NET_CLOSED];
}

/* The name of a leg of this key: not 0, and no other leg's. */
static uint64_t name_of(const hd_net_key_t *key, uint32_t segment) {
    uint64_t hash = hd_hash_mix(hd_hash_mix(1, key->class), key->number);
    hash = hd_hash_mix(hd_hash_mix(hash, key->ordinal), key->subset);
    return hd_hash_mix(hash, segment) | 1;
}

bool hd_park_was_closed(hd_net_team_lane_t *tl, const hd_net_key_t *key, uint32_t segment) {
    return *memory_of(tl, key, segment) == name_of(key, segment);
}

static hd_net_key_t numbered(uint64_t k) {
    return (hd_net_key_t){.number = k, .ordinal = 1, .class = HD_NET_NUMBERED};
}

bool hd_park_has_leg(hd_net_team_lane_t *tl, uint64_t k) {
    const hd_net_key_t key = numbered(k);
    const hd_leg_t *leg = tl->open[hd_park_bucket(&key, 0)];
    while (leg && !(leg->key.class == HD_NET_NUMBERED && leg->key.number == k)) {
        leg = leg->next_open;
    }
    return leg || hd_park_was_closed(tl, &key, 0);
}

bool hd_park_has_parked(const hd_net_team_lane_t *tl, uint64_t k, uint32_t *source) {
    const hd_net_key_t key = numbered(k);
    const hd_parked_t *parked = tl->parked[hd_park_bucket(&key, 0)];
    while (parked && !(parked->wire.class == HD_NET_NUMBERED && parked->wire.number == k)) {
        parked = parked->next;
    }
    *source = parked ? parked->wire.source : 0;
    return parked != NULL;
}

/* --- parking ---------------------------------------------------------------------------------- */

/* Small messages are parked in memory that is used again. */
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

void hd_park_drop(hd_net_lane_t *lane, hd_parked_t *parked) {
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
        hd_park_drop(hd_net_team_lane_of(tl), parked);
    }
}

void hd_park_drop_all(hd_net_team_lane_t *tl) {
    for (uint32_t b = 0; b < HD_NET_BUCKETS; b++) {
        drop_list(tl, &tl->parked[b]);
    }
}

static hd_ucx_arrival_t give_up(hd_net_team_t *team, ucc_status_t why) {
    hd_net_team_fail(team, why);
    return HD_UCX_DONE;
}

hd_ucx_arrival_t hd_park(hd_net_team_lane_t *tl, hd_parked_t **list, const hd_wire_t *wire,
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

hd_parked_t *hd_park_find(hd_leg_t *leg, uint32_t source, uint32_t step) {
    for (hd_parked_t **at = &leg->parked; *at; at = &(*at)->next) {
        hd_parked_t *parked = *at;
        if (parked->wire.source == source && parked->wire.step == step) {
            *at = parked->next;
            count_off(hd_leg_tl(leg), parked);
            return parked;
        }
    }
    return NULL;
}

/* --- for teams that are not known ------------------------------------------------------------- */

static hd_parked_t **early_for(hd_net_lane_t *lane, uint64_t wire) {
    return &lane->early[hd_hash_mix(1, wire) % HD_NET_EARLY_BUCKETS];
}

static uint32_t *early_count(hd_net_lane_t *lane, const hd_wire_t *wire) {
    return wire->kind == HD_WIRE_ABORT ? &lane->n_early_aborts : &lane->n_early;
}

/* Unlinks the early message that hangs at *at in one of the lane's buckets. */
static hd_parked_t *take_early(hd_net_lane_t *lane, hd_parked_t **at) {
    hd_parked_t *parked = *at;
    *at = parked->next;
    --*early_count(lane, &parked->wire);
    return parked;
}

static void drop_old(hd_net_lane_t *lane, hd_parked_t **at, uint64_t ns) {
    while (*at) {
        if (ns - (*at)->since < HD_NET_EARLY_SECONDS * UINT64_C(1000000000)) {
            at = &(*at)->next;
        } else {
            parked_put(lane, take_early(lane, at));
        }
    }
}

/* Now and then drops what came too long ago. ns: now. */
static void sweep(hd_net_lane_t *lane, uint64_t ns) {
    if (ns - lane->swept > HD_NET_SWEEP_SECONDS * UINT64_C(1000000000)) {
        lane->swept = ns;
        for (uint32_t b = 0; b < HD_NET_EARLY_BUCKETS; b++) {
            drop_old(lane, &lane->early[b], ns);
        }
    }
}

/* Everybody hears of every abort, also of teams that he will never be in. */
static void drop_oldest_abort(hd_net_lane_t *lane, hd_parked_t **at) {
    hd_parked_t **oldest = NULL;
    for (; *at; at = &(*at)->next) { /* who came last is first */
        oldest = (*at)->wire.kind == HD_WIRE_ABORT ? at : oldest;
    }
    if (oldest) {
        parked_put(lane, take_early(lane, oldest));
    }
}

/* There is no room for a greeting. Its team fails for all who form it, who would wait for ever. */
static hd_ucx_arrival_t refuse_early(hd_net_lane_t *lane, const hd_wire_t *wire) {
    if (hd_net_lane_may_log(lane)) {
        hd_error(
            "a team that is forming is refused: processes are so far ahead of this one that %u "
            "messages wait here for teams that it has not begun to form",
            lane->n_early);
    }
    hd_net_refuse(lane->net, wire->team, UCC_ERR_NO_RESOURCE);
    return HD_UCX_DONE;
}

hd_ucx_arrival_t hd_park_early(hd_net_lane_t *lane, const hd_wire_t *wire, void *data,
                               bool rendezvous) {
    bool forms = wire->kind == HD_WIRE_DATA && wire->class == HD_NET_FORMING && !rendezvous;
    if (!forms && wire->kind != HD_WIRE_ABORT) { /* another process may have given up forming it */
        if (wire->kind != HD_WIRE_LEFT && hd_net_lane_may_log(lane)) {
            hd_warn("a message for a team that is not known here was dropped");
        }
        return HD_UCX_DONE;
    }
    uint64_t now = hd_clock_ns();
    hd_parked_t **at = early_for(lane, wire->team);
    sweep(lane, now);
    if (wire->kind == HD_WIRE_ABORT && lane->n_early_aborts >= HD_NET_EARLY_ABORTS) {
        drop_oldest_abort(lane, at);
    }
    /* An abort is always kept: it answers one who greets here, and would wait for ever. */
    bool room = lane->n_early < HD_NET_EARLY_MESSAGES || wire->kind == HD_WIRE_ABORT;
    hd_parked_t *parked =
        room && wire->bytes <= HD_NET_EARLY_BYTES ? make_parked(lane, wire, data, false) : NULL;
    if (!parked) {
        return refuse_early(lane, wire);
    }
    parked->since = now;
    parked->next = *at;
    *at = parked;
    ++*early_count(lane, wire);
    return HD_UCX_DONE;
}

hd_parked_t *hd_park_next_early(hd_net_lane_t *lane, uint64_t wire) {
    hd_parked_t **at = early_for(lane, wire);
    while (*at && (*at)->wire.team != wire) {
        at = &(*at)->next;
    }
    return *at ? take_early(lane, at) : NULL;
}

/* --- the end ---------------------------------------------------------------------------------- */

void hd_park_close(hd_leg_t *leg) {
    hd_net_team_lane_t *tl = hd_leg_tl(leg);
    hd_leg_t **at = &tl->open[hd_park_bucket(&leg->key, leg->segment)];
    while (*at != leg) {
        at = &(*at)->next_open;
    }
    *at = leg->next_open;
    leg->opened = false;
    if (leg->key.class == HD_NET_FORMING && leg->key.number == 0) {
        tl->greeted = true;
    }
    if (leg->failure == UCC_OK && leg->parked) {
        hd_net_team_differs(tl->team, leg->parked->wire.source);
        leg->failure = UCC_ERR_INVALID_PARAM;
    }
    if (leg->failure == UCC_OK) {
        *memory_of(tl, &leg->key, leg->segment) = name_of(&leg->key, leg->segment);
    }
    drop_list(tl, &leg->parked);
    hd_flow_closed(tl, leg);
}

void hd_park_clear(hd_net_lane_t *lane) {
    for (uint32_t b = 0; b < HD_NET_EARLY_BUCKETS; b++) {
        while (lane->early[b]) {
            hd_park_drop(lane, take_early(lane, &lane->early[b]));
        }
    }
    for (hd_parked_t *next, *parked = lane->free_parked; parked; parked = next) {
        next = parked->next;
        hd_free(parked);
    }
    lane->free_parked = NULL;
}
