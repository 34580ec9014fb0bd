/* gossip.c: what is told to all processes by the watch's connections, and what has been heard
 * there: that a process is DEAD, that it is ACCUSED of being lost, and that a team was ABORTed. A
 * net keeps the hashes of the last words, so that each is told on once. What follows from words
 * that come is news.c's business. Any thread may call, under a lane's lock or the watch's.
 */
#include "net/internal.h"

#include "core/hash.h"

static uint64_t hash_of(const hd_words_t *words) {
    uint64_t hash = hd_hash_mix(hd_hash_mix(1, words->kind), words->subject[0]);
    hash = hd_hash_mix(hash, words->subject[1]);
    return hd_hash_mix(hd_hash_mix(hash, words->by[0]), words->by[1]);
}

static bool has_heard(const hd_net_t *net, uint64_t hash) {
    bool known = false;
    for (uint32_t i = 0; i < HD_NET_HEARD && i < net->n_heard && !known; i++) {
        known = net->heard[i] == hash;
    }
    return known;
}

/* The status of an ABORT does not count: the first cause does. Of a process that is known here it
 * stays known that it is dead, however much is heard later: what all tell all must come to an
 * end. */
bool hd_words_are_new(hd_net_t *net, const hd_words_t *words) {
    uint64_t hash = hash_of(words);
    hd_lock(&net->lock);
    hd_peer_t *peer = words->kind == HD_WORDS_DEAD ? hd_net_peer_with(net, words->subject) : NULL;
    bool known = (peer && peer->told) || has_heard(net, hash);
    if (peer) {
        peer->told = true;
    }
    if (!known) {
        net->heard[net->n_heard++ % HD_NET_HEARD] = hash;
        if (net->n_heard == 2 * HD_NET_HEARD) {
            net->n_heard = HD_NET_HEARD; /* full from now on */
        }
    }
    hd_unlock(&net->lock);
    return !known;
}

void hd_words_forget(hd_net_t *net, const hd_words_t *words) {
    uint64_t hash = hash_of(words);
    hd_lock(&net->lock);
    hd_peer_t *peer = words->kind == HD_WORDS_DEAD ? hd_net_peer_with(net, words->subject) : NULL;
    if (peer) {
        peer->told = false;
    }
    for (uint32_t i = 0; i < HD_NET_HEARD; i++) {
        net->heard[i] = net->heard[i] == hash ? 0 : net->heard[i];
    }
    hd_unlock(&net->lock);
}

bool hd_net_is_dead(hd_net_t *net, const uint64_t token[2]) {
    const hd_words_t words = {.kind = HD_WORDS_DEAD, .subject = {token[0], token[1]}};
    hd_lock(&net->lock);
    bool known = has_heard(net, hash_of(&words));
    hd_unlock(&net->lock);
    return known;
}

/* --- telling: under a lane's lock ------------------------------------------------------------- */

static void tell(hd_net_t *net, const hd_words_t *words) {
    if (hd_words_are_new(net, words) && net->watch) {
        hd_watch_tell(net->watch, words, sizeof(*words));
    }
}

void hd_net_tell_dead(hd_net_t *net, const uint64_t token[2]) {
    tell(net, &(hd_words_t){.kind = HD_WORDS_DEAD, .subject = {token[0], token[1]}});
}

void hd_net_tell_abort(hd_net_t *net, uint64_t wire, ucc_status_t why) {
    tell(net, &(hd_words_t){.kind = HD_WORDS_ABORT, .status = (int32_t)why, .subject = {wire, 0}});
}

void hd_net_accuse(hd_net_t *net, hd_peer_t *peer) {
    uint64_t none = 0;
    /* relaxed: who learns it later comes again, or has told it by then */
    if (atomic_load_explicit(&peer->left, memory_order_relaxed)) {
        hd_net_tell_dead(net, peer->token);
    }
    if (hd_net_is_dead(net, peer->token)) {
        return;
    }
    tell(net, &(hd_words_t){.kind = HD_WORDS_ACCUSED,
                            .subject = {peer->token[0], peer->token[1]},
                            .by = {net->token[0], net->token[1]}});
    /* relaxed: lane 0 looks at it again and again */
    atomic_compare_exchange_strong_explicit(&peer->accused_at, &none, hd_clock_ns(),
                                            memory_order_relaxed, memory_order_relaxed);
}
