/* news.c: what the net does with its watch (watch.h): who is gone, and which teams have failed, is
 * heard of there when UCX says nothing of it, or can't any more.
 *
 * Of the processes of a team each watches those that are 1, 2, 4, ... before and after it: so
 * everybody is watched by somebody, and a word that everybody who hears it tells on reaches all,
 * also when some of them are gone. Such words are that a process is DEAD and that a team was
 * ABORTed; each is told on once. A process's token, drawn when its net is opened, names it: who
 * comes back is another one.
 *
 * Of two processes between which alone something has broken, one has to go, and all the others must
 * know which. So who has found no more than silence ACCUSES the other process, by name. If that one
 * lives it hears of it, by way of others, waits for a moment, and decides. Who has lost processes
 * of several other hosts, or several of its own, goes itself. Else those of the host with the lower
 * number stay, and of one host those with the lower token. Whoever goes is DEAD. Who does not
 * answer for long is dead, too, and the accuser says so. Nobody else does anything about it before.
 * What the kernel of a process's host says of it needs no such question.
 *
 * The watch calls under its own lock, so what it says is handed to lane 0 as an item, and done
 * there.
 */
#include "net/internal.h"

#include <string.h>

enum { ANSWER = 5 }; /* times the grace */

typedef struct news {
    hd_net_item_t item; /* must stay first */
    hd_words_t words;
} news_t;

/* --- in lane 0: under its lock ---------------------------------------------------------------- */

/* The others have given up this process, and will take nothing from it any more: so it gives up
 * them. */
static void be_given_up(hd_net_t *net) {
    if (net->given_up) {
        return;
    }
    hd_lock(&net->lock);
    hd_peer_t *peer = net->peers; /* they stay; none is added before this one */
    hd_unlock(&net->lock);
    hd_error("other processes have given up this one: its teams with them fail");
    net->given_up = true;
    for (; peer; peer = peer->next) {
        hd_peer_lose(peer, "it has given up this process");
    }
}

static bool is_me(const hd_net_t *net, const uint64_t token[2]) {
    return token[0] == net->token[0] && token[1] == net->token[1];
}

static void take_dead(hd_net_t *net, const hd_words_t *words, hd_peer_t *peer) {
    if (is_me(net, words->subject)) {
        be_given_up(net);
    } else if (peer) {
        hd_peer_lose(peer, "another process says that it is gone");
    }
}

/* Does this process stay, of the two that have lost each other? */
static bool i_stay(const hd_net_t *net, const hd_peer_t *peer, const uint64_t token[2]) {
    if (peer && peer->host != net->host) {
        return net->host < peer->host;
    }
    return net->token[0] != token[0] ? net->token[0] < token[0] : net->token[1] < token[1];
}

static void surrender(hd_net_t *net) {
    hd_net_tell_dead(net, net->token);
    be_given_up(net);
}

/* Another process has lost this one, which lives. */
static void hear_accuser(hd_net_t *net, const uint64_t accuser[2]) {
    hd_peer_t *peer = hd_peer_find(net, accuser);
    if (net->given_up || hd_net_is_dead(net, accuser)) {
        return;
    }
    if (peer) {
        peer->accuses = true;
        net->accused_at = net->accused_at ? net->accused_at : hd_clock_ns();
        /* relaxed: only told to look */
        atomic_store_explicit(&net->has_losses, true, memory_order_relaxed);
    } else if (i_stay(net, NULL, accuser)) {
        hd_net_tell_dead(net, accuser);
    } else {
        surrender(net);
    }
}

static bool is_opponent(const hd_peer_t *peer) {
    return peer->accuses || atomic_load_explicit(&peer->accused_at, memory_order_relaxed);
}

/* Counts the processes of this host that this one has lost, or that have lost it, and the other
 * hosts with such processes. */
static uint32_t count_opponents(const hd_net_t *net, const hd_peer_t *first) {
    uint32_t n = 0;
    for (const hd_peer_t *peer = first; peer; peer = peer->next) {
        bool counted = !is_opponent(peer);
        for (const hd_peer_t *p = first; p != peer && !counted && peer->host != net->host;
             p = p->next) {
            counted = is_opponent(p) && p->host == peer->host;
        }
        n += !counted;
    }
    return n;
}

void hd_net_decide(hd_net_t *net, uint64_t now) {
    if (!net->accused_at || net->given_up ||
        (int64_t)(now - net->accused_at) <= (int64_t)net->grace_ns) {
        return;
    }
    net->accused_at = 0;
    hd_lock(&net->lock);
    hd_peer_t *first = net->peers; /* they stay; others come before this one */
    hd_unlock(&net->lock);
    bool goes = count_opponents(net, first) > 1;
    for (const hd_peer_t *peer = first; peer && !goes; peer = peer->next) {
        goes =
            peer->accuses && !hd_net_is_dead(net, peer->token) && !i_stay(net, peer, peer->token);
    }
    if (goes) {
        surrender(net);
        return;
    }
    for (hd_peer_t *peer = first; peer; peer = peer->next) {
        if (peer->accuses) {
            hd_peer_lose(peer, "it has lost this process");
            hd_net_tell_dead(net, peer->token);
        }
    }
}

/* Has a message of any team come from the peer, in lane 0, where processes greet? Returns the
 * number of processes of that team, and the peer's number in it; 0: no message has come. */
static uint32_t has_sent(hd_net_t *net, const hd_peer_t *peer, uint32_t *number) {
    uint32_t of = 0;
    hd_lock(&net->lock);
    for (uint32_t b = 0; b < HD_NET_TABLE && !of; b++) {
        for (const hd_net_team_t *team = net->table[b]; team && !of; team = team->next) {
            for (uint32_t i = 0; i < team->n && !of; i++) {
                *number = i;
                of = team->peer[i] == peer && team->lane[0].peer[i].in ? team->n : 0;
            }
        }
    }
    hd_unlock(&net->lock);
    return of;
}

static void take_unreached(hd_net_t *net, hd_peer_t *peer) {
    hd_watch_record_t record;
    char name[HD_WATCH_NAME];
    uint32_t number, of = has_sent(net, peer, &number);
    if (!of) {
        hd_peer_lose(peer, "there is no way to its host");
        hd_net_accuse(net, peer);
        return;
    }
    (void)hd_watch_parse(&record, peer->watch_address, peer->watch_bytes); /* it was, before */
    hd_watch_name(&record, net->host, name);
    hd_warn("process %u of a team of %u, at %s, can't be reached to watch it: its end may go "
            "unnoticed",
            number, of, name);
}

/* Takes note of what this process's own watch has found of the peer. */
static void take_loss(hd_net_t *net, const hd_words_t *words, hd_peer_t *peer) {
    switch (words->kind) {
    case HD_WORDS_LEFT:
        atomic_store_explicit(&peer->left, true, memory_order_relaxed); /* see hd_net_accuse */
        hd_peer_lose(peer, "it has closed its network");
        break;
    case HD_WORDS_LOST:
        hd_peer_lose(peer, "its connection has ended");
        hd_net_tell_dead(net, words->subject);
        break;
    case HD_WORDS_SILENT:
        hd_peer_lose(peer, "there is no sign of it any more");
        hd_net_accuse(net, peer);
        break;
    case HD_WORDS_UNREACHED:
        take_unreached(net, peer);
        break;
    }
}

static void take_news(hd_net_lane_t *lane, hd_net_item_t *item) {
    hd_net_t *net = lane->net;
    const hd_words_t words = ((const news_t *)(const void *)item)->words;
    hd_free(item);
    if (!net->lane[0].port.worker) {
        return; /* closed meanwhile: there are no peers, and no watch */
    }
    hd_peer_t *peer = words.kind == HD_WORDS_ABORT ? NULL : hd_peer_find(net, words.subject);
    if (words.kind == HD_WORDS_ABORT) {
        hd_net_match_aborted(&net->lane[0], words.subject[0], (ucc_status_t)words.status);
    } else if (words.kind == HD_WORDS_DEAD) {
        take_dead(net, &words, peer);
    } else if (words.kind == HD_WORDS_ACCUSED && is_me(net, words.subject)) {
        hear_accuser(net, words.by);
    } else if (words.kind != HD_WORDS_ACCUSED && peer) {
        take_loss(net, &words, peer);
    }
}

void hd_net_judge(hd_net_t *net, hd_peer_t *peer, uint64_t now) {
    uint64_t since = atomic_load_explicit(&peer->accused_at, memory_order_relaxed); /* as above */
    if (peer->judged || net->given_up || atomic_load_explicit(&peer->left, memory_order_relaxed)) {
        return;
    }
    if (hd_net_is_dead(net, peer->token)) {
        peer->judged = true;
    } else if (!since) {
        hd_net_accuse(net, peer); /* others may have no other way to learn of it */
    } else if (now - since > ANSWER * net->grace_ns) {
        hd_net_tell_dead(net, peer->token);
        peer->judged = true;
    }
}

/* --- from the watch: under its lock ----------------------------------------------------------- */

static bool hand(hd_net_t *net, const hd_words_t *words) {
    news_t *news = hd_alloc(alignof(news_t), sizeof(*news));
    if (!news) {
        hd_error("no memory for the news that a process is gone, or a team has failed");
        return false;
    }
    news->item.take = take_news;
    news->words = *words;
    hd_net_lane_hand(&net->lane[0], &news->item);
    return true;
}

static void on_lost(void *arg, const uint64_t token[2], hd_watch_loss_t how) {
    static const uint32_t kind[] = {[HD_WATCH_LEFT] = HD_WORDS_LEFT,
                                    [HD_WATCH_DEAD] = HD_WORDS_LOST,
                                    [HD_WATCH_SILENT] = HD_WORDS_SILENT,
                                    [HD_WATCH_UNREACHED] = HD_WORDS_UNREACHED};
    (void)hand(arg, &(hd_words_t){.kind = kind[how], .subject = {token[0], token[1]}});
}

static bool on_words(void *arg, const uint64_t token[2], const void *bytes, size_t n) {
    hd_words_t words;
    (void)token;
    if (n != sizeof(words)) {
        return false;
    }
    memcpy(&words, bytes, sizeof(words));
    bool known = words.kind == HD_WORDS_DEAD || words.kind == HD_WORDS_ACCUSED ||
                 (words.kind == HD_WORDS_ABORT && words.status < 0 && words.status > UCC_ERR_LAST);
    if (!known || !hd_words_are_new(arg, &words)) {
        return false;
    }
    if (!hand(arg, &words)) {
        hd_words_forget(arg, &words); /* when somebody says it again, it is new */
    }
    return true;
}

/* --- opening, keeping, looking ---------------------------------------------------------------- */

void hd_net_watch_open(hd_net_t *net, const hd_config_t *config) {
    net->host = hd_watch_host();
    net->given_up = false;
    net->accused_at = 0;
    hd_watch_params_t params = {.identity = {net->token[0], net->token[1]},
                                .host = net->host,
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
