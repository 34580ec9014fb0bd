/* news.c: what the net does with its watch (watch.h): who is gone, and which teams have failed, is heard of there when
 * UCX says nothing of it, or can't any more.
 *
 * Of the processes of a team each watches those that are 1, 2, 4, ... before and after it: so everybody is watched by
 * somebody, and a word that everybody who hears it tells on reaches all, also when some of them are gone. Such words are
 * that a process is DEAD and that a team was ABORTed; each is told on once. A process's token, drawn when its net is
 * opened, names it: who comes back is another one.
 *
 * The watch calls under its own lock, so what it says is handed to lane 0 as an item, and done there.
 */
#include "net/internal.h"

#include "core/hash.h"
#include "net/watch.h"

#include <string.h>

enum { LOST = 1, LEFT, DEAD, ABORT };

/* As it travels, and as it is handed to lane 0. */
typedef struct words {
    uint32_t kind;
    int32_t status;      /* of an ABORT: an error */
    uint64_t subject[2]; /* a token; of an ABORT: a team's wire id, and 0 */
} words_t;

_Static_assert(sizeof(words_t) <= HD_WATCH_WORDS, "words fit into a frame");

typedef struct news {
    hd_net_item_t item; /* must stay first */
    words_t words;
} news_t;

/* --- what has been heard --------------------------------------------------------------------------------- */

static uint64_t hash_of(const words_t *words) {
    return hd_hash_mix(hd_hash_mix(words->kind, words->subject[0]), words->subject[1]);
}

static hd_peer_t *peer_of(const hd_net_t *net, const uint64_t token[2]) {
    hd_peer_t *peer = net->peers;
    while (peer && (peer->token[0] != token[0] || peer->token[1] != token[1])) {
        peer = peer->next;
    }
    return peer;
}

static bool has_heard(const hd_net_t *net, uint64_t hash) {
    bool known = false;
    for (uint32_t i = 0; i < HD_NET_HEARD && !known; i++) {
        known = net->heard[i] == hash;
    }
    return known;
}

/* The first time it is heard, or said. Of an ABORT the status does not count: the first cause does. Of a process that is
 * known here that stays so, however much is heard later: what all tell all must come to an end. */
static bool is_new(hd_net_t *net, const words_t *words) {
    uint64_t hash = hash_of(words);
    hd_lock(&net->lock);
    hd_peer_t *peer = words->kind == DEAD ? peer_of(net, words->subject) : NULL;
    bool known = (peer && peer->told) || has_heard(net, hash);
    if (peer) {
        peer->told = true;
    }
    if (!known) {
        net->heard[net->n_heard++ % HD_NET_HEARD] = hash;
    }
    hd_unlock(&net->lock);
    return !known;
}

bool hd_net_is_dead(hd_net_t *net, const uint64_t token[2]) {
    const words_t words = {.kind = DEAD, .subject = {token[0], token[1]}};
    hd_lock(&net->lock);
    bool known = has_heard(net, hash_of(&words));
    hd_unlock(&net->lock);
    return known;
}

/* --- from the watch: under its lock ------------------------------------------------------------------------ */

static void hand(hd_net_t *net, const words_t *words) {
    news_t *news = hd_alloc(alignof(news_t), sizeof(*news));
    if (!news) {
        hd_error("no memory for the news that a process is gone, or a team has failed");
        return;
    }
    news->item.kind = HD_ITEM_NEWS;
    news->words = *words;
    hd_net_lane_hand(&net->lane[0], &news->item);
}

static void on_lost(void *arg, const uint64_t token[2], bool dead) {
    hand(arg, &(words_t){.kind = dead ? LOST : LEFT, .subject = {token[0], token[1]}});
}

static bool on_words(void *arg, const uint64_t token[2], const void *bytes, size_t n) {
    words_t words;
    (void)token;
    if (n != sizeof(words)) {
        return false;
    }
    memcpy(&words, bytes, sizeof(words));
    bool known = words.kind == DEAD ||
                 (words.kind == ABORT && words.status < 0 && words.status > UCC_ERR_LAST);
    if (!known || !is_new(arg, &words)) {
        return false;
    }
    hand(arg, &words);
    return true;
}

/* --- in lane 0: under its lock -------------------------------------------------------------------------------- */

static hd_peer_t *find_peer(hd_net_t *net, const uint64_t token[2]) {
    hd_lock(&net->lock);
    hd_peer_t *peer = peer_of(net, token);
    hd_unlock(&net->lock);
    return peer;
}

/* The others have given up this process, and will take nothing from it any more: so it gives up them. */
static void be_given_up(hd_net_t *net) {
    hd_lock(&net->lock);
    hd_peer_t *peer = net->peers; /* they stay; none is added before this one */
    hd_unlock(&net->lock);
    hd_error("other processes have given up this one: its teams with them fail");
    for (; peer; peer = peer->next) {
        hd_peer_lose(peer, "it has given up this process");
    }
}

static void take_dead(hd_net_t *net, const words_t *words) {
    hd_peer_t *peer = find_peer(net, words->subject);
    if (words->subject[0] == net->token[0] && words->subject[1] == net->token[1]) {
        be_given_up(net);
    } else if (peer) {
        hd_peer_lose(peer, words->kind == LEFT   ? "it has closed its network"
                           : words->kind == LOST ? "its connection has ended"
                                                 : "another process says that it is gone");
    }
    if (words->kind == LOST) {
        hd_net_tell_dead(net, words->subject);
    }
}

void hd_net_take_news(hd_net_t *net, hd_net_item_t *item) {
    const words_t words = ((const news_t *)(const void *)item)->words;
    hd_free(item);
    if (!net->lane[0].port.worker) {
        return; /* closed meanwhile: there are no peers, and no watch */
    }
    if (words.kind == ABORT) {
        hd_net_match_aborted(&net->lane[0], words.subject[0], (ucc_status_t)words.status);
    } else {
        take_dead(net, &words);
    }
}

/* --- telling: under a lane's lock ------------------------------------------------------------------------------- */

static void tell(hd_net_t *net, const words_t *words) {
    if (is_new(net, words) && net->watch) {
        hd_watch_tell(net->watch, words, sizeof(*words));
    }
}

void hd_net_tell_dead(hd_net_t *net, const uint64_t token[2]) {
    tell(net, &(words_t){.kind = DEAD, .subject = {token[0], token[1]}});
}

void hd_net_tell_abort(hd_net_t *net, uint64_t wire, ucc_status_t why) {
    tell(net, &(words_t){.kind = ABORT, .status = (int32_t)why, .subject = {wire, 0}});
}

/* --- opening, keeping, looking ------------------------------------------------------------------------------------ */

void hd_net_watch_open(hd_net_t *net, const hd_config_t *config) {
    hd_watch_params_t params = {.identity = {net->token[0], net->token[1]},
                                .host = hd_watch_host(),
                                .lost_after = hd_config_double(config, HD_CFG_LIB_NET_LOST_AFTER),
                                .devices = hd_config_string(config, HD_CFG_LIB_NET_WATCH_DEVICES),
                                .lost = on_lost,
                                .heard = on_words,
                                .arg = net};
    net->watch = NULL;
    if (hd_config_bool(config, HD_CFG_LIB_NET_WATCH) && !(net->watch = hd_watch_open(&params))) {
        hd_warn("the end of other processes is noticed by UCX alone, late or never");
    }
}

void hd_net_watch_close(hd_net_t *net) {
    hd_watch_t *watch = net->watch;
    net->watch = NULL; /* before: a child of a fork looks at it */
    if (watch) {
        hd_watch_close(watch);
    }
}

void hd_net_watch_keep(hd_net_t *net, hd_peer_t *peer) {
    /* relaxed: one thread keeps it */
    if (net->watch && peer->watch_bytes &&
        !atomic_exchange_explicit(&peer->kept, true, memory_order_relaxed)) {
        (void)hd_watch_keep(net->watch, peer->token, peer->watch_address, peer->watch_bytes,
                            memcmp(net->token, peer->token, sizeof(net->token)) < 0);
    }
}

bool hd_net_watch_is_settled(hd_net_t *net, const hd_peer_t *peer) {
    return !net->watch || !peer->watch_bytes || hd_watch_is_settled(net->watch, peer->token);
}
