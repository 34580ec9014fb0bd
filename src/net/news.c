/* news.c: what the net does with its watch (watch.h): who is gone, and which teams have failed, is
 * heard of there when UCX says nothing of it, or can't any more.
 *
 * Of the processes of a team each watches those that are 1, 2, 4, ... before and after it: so
 * everybody is watched by somebody, and a word that everybody who hears it tells on reaches all,
 * also when some of them are gone. Such words are that a process is DEAD, that a link between two
 * hosts is CUT, that a team was ABORTed, and that a decision is AGREED on (gossip.c). A process's
 * token, drawn when its net is opened, names it: who comes back is another one.
 *
 * LOST IS NOT DEAD. A peer is lost when its ways break: then teams that were made before, and need
 * it, fail. A process is dead if the kernel of its host says so, or if it has to go. So the watch
 * is asked of a peer whose ways break, and connects to it. If the process is there, the next team
 * with it has a new peer, and new ways (peer.c); and so it has at the other end, which is told that
 * the ways are BROKEN, for UCX drops what comes by a way that one end alone has cut. What one
 * process lacks, such as descriptors, costs no other one anything. Only if the ways to a process
 * break again and again though it is there, one of the two goes: the one that lacks descriptors, if
 * one does; and who has that with more than half of the others goes itself.
 *
 * BETWEEN HOSTS there may be silence: cuts.c finds out which hosts are gone, and which have to go.
 *
 * Nobody judges but in lane 0, after reading what has come; and if it has not looked for long, then
 * after another while: it may be the one that was given up meanwhile.
 *
 * The watch calls under its own lock, so what it says is handed to lane 0 as an item, and done
 * there.
 */
#include "net/internal.h"

#include "core/descriptors.h"

#include <string.h>

enum {
    ANSWER = 5,     /* times the grace: so long one of two has to go */
    MOST_BREAKS = 3 /* of the ways to a process that is there */
};
/* ns: of the time in which it has not judged, so much counts */
static const uint64_t away = 200000000;
/* ns: of two that lack descriptors, the one whose turn it is not waits so much longer to go */
static const uint64_t in_turn_after = 1000000000;

typedef struct news {
    hd_net_item_t item; /* must stay first */
    hd_words_t words;
    uint64_t from[2]; /* who has told them: a token; of what this process has found: 0, 0 */
} news_t;

/* --- in lane 0, under its lock: who is gone --------------------------------------------------- */

/* The others have given up this process, and will take nothing from it any more: so it gives up
 * them. */
static void be_given_up(hd_net_t *net) {
    if (hd_net_is_given_up(net)) {
        return;
    }
    hd_error("other processes have given up this one: its teams with them fail");
    /* relaxed: see hd_net_is_given_up; before the peers are lost, by release */
    atomic_store_explicit(&net->given_up, true, memory_order_relaxed);
    for (hd_peer_t *peer = hd_peer_first(net); peer; peer = peer->next) {
        hd_peer_lose(peer, "it has given up this process");
    }
}

static void surrender(hd_net_t *net, const char *why) {
    hd_error("this process goes, and the others stay: %s", why);
    hd_net_tell_dead(net, net->token, HD_DEAD_JUDGED);
    be_given_up(net);
}

/* Will a death have left something behind in this host's shared memory? */
static void look_for_damage(hd_net_t *net, const uint64_t token[2]) {
    const hd_peer_t *peer = hd_peer_find(net, token);
    if (peer && peer->host == net->host) {
        hd_net_probe(net);
    }
}

static void take_dead(hd_net_t *net, const uint64_t token[2]) {
    if (hd_net_same_token(token, net->token)) {
        if (!hd_net_is_given_up(net)) {
            hd_net_tell_dead(net, token, HD_DEAD_JUDGED);
        }
        be_given_up(net);
    } else {
        hd_peer_lose_all(net, token, "another process says that it is gone");
        look_for_damage(net, token);
    }
}

/* --- in lane 0: peers that were lost ---------------------------------------------------------- */

/* Asks the watch what has become of the process, which is lost, and may live: it connects to it,
 * if it does not do so already. Without a watch UCX's word is all that there is. */
static void ask(hd_net_t *net, hd_peer_t *peer) {
    peer->asked = true;
    if (!net->watch || !peer->watch_bytes) {
        hd_net_tell_dead(net, peer->token, HD_DEAD_SURE);
    } else {
        /* relaxed: set before the peer was lost, if at all */
        if (!atomic_load_explicit(&peer->was_told, memory_order_relaxed)) {
            hd_net_tell_broken(net, peer->token);
        }
        (void)hd_watch_keep(net->watch, peer->token, peer->watch_address, peer->watch_bytes, true);
    }
}

void hd_net_miss(hd_net_t *net, hd_peer_t *peer) {
    /* relaxed: if it leaves later, it is missed again */
    if (atomic_load_explicit(&peer->left, memory_order_relaxed)) {
        hd_net_tell_dead(net, peer->token, HD_DEAD_SURE); /* others may not know */
    }
}

/* The other end has cut the ways to this process. */
static void take_broken(hd_net_t *net, const uint64_t by[2]) {
    hd_peer_t *peer = hd_peer_find(net, by);
    if (peer) {
        atomic_store_explicit(&peer->was_told, true, memory_order_relaxed); /* before the loss */
        hd_peer_lose(peer, "the other process has cut them");
    }
}

/* The ways to the peer break again and again, though it lives: one of the two goes. */
static void part(hd_net_t *net, hd_peer_t *peer, uint64_t waited) {
    bool mine = memcmp(net->token, peer->token, sizeof(net->token)) < 0;
    if (waited >= ANSWER * net->grace_ns + (mine ? 0 : in_turn_after) &&
        !hd_descriptors_reserve(HD_NET_WAY_DESCRIPTORS)) {
        surrender(net, "the ways to another one break again and again, and this process has too "
                       "few descriptors (RLIMIT_NOFILE)");
        return;
    }
    bool heard = net->watch && hd_watch_hears(net->watch, peer->token);
    bool in_turn = mine || peer->breaks > 2 * MOST_BREAKS; /* never both at once */
    if (!in_turn || waited < (mine ? ANSWER : 2 * ANSWER) * net->grace_ns) {
        return; /* it may go itself, or give up this one */
    }
    if (mine || !heard) { /* one that is not heard may be dead: nobody goes for that */
        hd_net_tell_dead(net, peer->token, HD_DEAD_JUDGED);
        hd_peer_lose_all(net, peer->token, "the ways to it break again and again");
    } else {
        surrender(net, "the ways to another one break again and again");
    }
}

/* How many other processes live? One may have several peers. */
static uint32_t count_living(hd_net_t *net) {
    uint32_t n = 0;
    for (hd_peer_t *peer = hd_peer_first(net); peer; peer = peer->next) {
        n += hd_peer_lives(peer) && hd_peer_find(net, peer->token) == peer;
    }
    return n;
}

/* Called again and again, so that it looks at lost peers only. */
static void judge_peers(hd_net_t *net, uint64_t now) {
    hd_peer_t *broken = NULL;
    uint32_t n_broken = 0;
    for (hd_peer_t *peer = hd_peer_first(net); peer; peer = peer->next) {
        /* acquire: the time; pairs with hd_peer_lose */
        if (!atomic_load_explicit(&peer->lost, memory_order_acquire) || !hd_peer_lives(peer)) {
            continue;
        }
        if (!peer->asked) {
            ask(net, peer);
        }
        if (peer->breaks > MOST_BREAKS && hd_peer_find(net, peer->token) == peer) {
            n_broken++;
            broken = peer;
        }
    }
    if (n_broken > 1 && 2 * n_broken > count_living(net)) {
        surrender(net, "its ways to most others break again and again");
    } else if (broken) {
        part(net, broken, now > broken->broken_at ? now - broken->broken_at : 0);
    }
}

/* Takes in all that has come by the watch. Who was away hears, with it, what it has missed. */
static void read_mail(hd_net_t *net) {
    enum { LOOKS = 64 };
    hd_net_lane_t *lane = &net->lane[0];
    for (uint32_t i = 0; i < LOOKS && net->watch && hd_watch_look(net->watch); i++) {
    }
    lane->moved = hd_net_lane_take(lane) || lane->moved;
}

void hd_net_judge(hd_net_t *net, uint64_t now) {
    uint64_t since = now - net->judged, missed = since > away ? since - away : 0;
    net->judged = now;
    read_mail(net);
    if (missed) { /* in that time nothing was heard */
        hd_cuts_miss(net, missed, now);
    }
    if (!hd_net_is_given_up(net) && hd_net_is_deaf(net, now)) {
        surrender(net, "a process that was killed, or lacked memory, has blocked its queue in "
                       "shared memory (docs/processes.md)");
    }
    if (!hd_net_is_given_up(net)) {
        judge_peers(net, now);
    }
    if (!hd_net_is_given_up(net) && hd_cuts_judge(net, now)) {
        surrender(net, "a link between hosts is broken, and this host is the one to go");
    }
}

/* --- in lane 0: what the watch has found ------------------------------------------------------ */

/* Has a message of any team come from the peer, in lane 0, where processes greet? Returns the
 * number of processes of that team, and the peer's number in it; 0: no message has come. */
static uint32_t has_sent(hd_net_t *net, const hd_peer_t *peer, uint32_t *number) {
    uint32_t of = 0;
    hd_lock(&net->lock);
    for (uint32_t b = 0; b < HD_NET_TABLE && !of; b++) {
        for (const hd_net_team_t *team = net->table[b]; team && !of; team = team->next) {
            for (uint32_t i = 0; i < team->n && !of; i++) {
                bool it = team->peer[i] && hd_net_same_token(team->peer[i]->token, peer->token);
                *number = i;
                of = it && team->lane[0].peer[i].in ? team->n : 0;
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
        hd_peer_lose_all(net, peer->token, "there is no way to its host");
        hd_cuts_find(net, peer->host, true);
        return;
    }
    (void)hd_watch_parse(&record, peer->watch_address, peer->watch_bytes); /* it was, before */
    hd_watch_name(&record, net->host, name);
    hd_warn("process %u of a team of %u, at %s, can't be reached to watch it: its end may go "
            "unnoticed",
            number, of, name);
}

void hd_net_lose_silent(hd_net_t *net, hd_peer_t *peer) {
    hd_peer_lose_all(net, peer->token, "there is no sign of it any more");
    peer->asked = false; /* its kernel is asked again: the link may come back */
    hd_cuts_find(net, peer->host, true);
}

/* Takes note of what this process's own watch has found of the peer. */
static void take_loss(hd_net_t *net, const hd_words_t *words, hd_peer_t *peer) {
    switch (words->kind) {
    case HD_WORDS_LEFT:
        hd_peer_part(net, words->subject);
        break;
    case HD_WORDS_LOST:
        hd_peer_lose_all(net, words->subject, "its connection has ended");
        hd_net_tell_dead(net, words->subject, HD_DEAD_SURE);
        look_for_damage(net, words->subject);
        break;
    case HD_WORDS_SILENT:
        hd_net_lose_silent(net, peer);
        break;
    case HD_WORDS_UNREACHED:
        take_unreached(net, peer);
        break;
    }
}

static void take_news(hd_net_lane_t *lane, hd_net_item_t *item) {
    hd_net_t *net = lane->net;
    const news_t news = *(const news_t *)(const void *)item;
    const hd_words_t words = news.words;
    hd_free(item);
    if (!net->lane[0].port.worker) {
        return; /* closed meanwhile: there are no peers, and no watch */
    }
    if (words.kind == HD_WORDS_ABORT) {
        hd_net_match_aborted(&net->lane[0], words.subject[0], (ucc_status_t)words.status);
    } else if (words.kind == HD_WORDS_DEAD) {
        take_dead(net, words.subject);
    } else if (words.kind == HD_WORDS_CUT) {
        hd_cuts_hear(net, words.subject[0], words.subject[1]);
    } else if (words.kind == HD_WORDS_BROKEN) {
        if (hd_net_same_token(words.subject, net->token)) {
            take_broken(net, words.by);
        }
    } else if (words.kind == HD_WORDS_ASK) {
        hd_ask_hear(net, words.subject[0], news.from);
    } else {
        hd_peer_t *peer = hd_peer_find(net, words.subject);
        if (peer) {
            take_loss(net, &words, peer);
        }
    }
}

/* --- from the watch: under its lock ----------------------------------------------------------- */

static bool hand(hd_net_t *net, const hd_words_t *words, const uint64_t from[2]) {
    news_t *news = hd_alloc(alignof(news_t), sizeof(*news));
    if (!news) {
        hd_error("no memory for the news that a process is gone, or a team has failed");
        return false;
    }
    news->item.take = take_news;
    news->words = *words;
    memcpy(news->from, from, sizeof(news->from));
    hd_net_lane_hand(&net->lane[0], &news->item);
    return true;
}

static void on_lost(void *arg, const uint64_t token[2], hd_watch_loss_t how) {
    static const uint32_t kind[] = {[HD_WATCH_LEFT] = HD_WORDS_LEFT,
                                    [HD_WATCH_DEAD] = HD_WORDS_LOST,
                                    [HD_WATCH_SILENT] = HD_WORDS_SILENT,
                                    [HD_WATCH_UNREACHED] = HD_WORDS_UNREACHED};
    static const uint64_t nobody[2];
    (void)hand(arg, &(hd_words_t){.kind = kind[how], .subject = {token[0], token[1]}}, nobody);
}

static bool make_sense(const hd_words_t *words) {
    static const uint64_t nobody[2];
    if (words->number == 0 || hd_net_same_token(words->by, nobody)) {
        return false;
    }
    switch (words->kind) {
    case HD_WORDS_DEAD:
        return !hd_net_same_token(words->subject, nobody) &&
               (words->status == HD_DEAD_JUDGED || words->status == HD_DEAD_SURE);
    case HD_WORDS_BROKEN:
        return !hd_net_same_token(words->subject, nobody);
    case HD_WORDS_CUT:
        return words->subject[0] && words->subject[1] && words->subject[0] != words->subject[1];
    case HD_WORDS_ASK:
        return words->subject[0] != 0;
    case HD_WORDS_ABORT:
        return words->status < 0 && words->status > UCC_ERR_LAST;
    case HD_WORDS_AGREED:
        return words->subject[0] && !words->subject[1] && words->status == UCC_OK;
    default:
        return false;
    }
}

static hd_watch_relay_t on_words(void *arg, const uint64_t token[2], const void *bytes, size_t n) {
    hd_words_t words;
    if (n != sizeof(words)) {
        return HD_WATCH_NOBODY;
    }
    memcpy(&words, bytes, sizeof(words));
    if (!make_sense(&words) || !hd_words_are_new(arg, &words, token)) {
        return HD_WATCH_NOBODY;
    }
    if (words.kind != HD_WORDS_AGREED && !hand(arg, &words, token)) { /* that is noted already */
        hd_words_forget(arg, &words); /* when somebody says it again, it is new */
    }
    return hd_words_last(&words);
}

/* --- opening, keeping, looking ---------------------------------------------------------------- */

void hd_net_watch_open(hd_net_t *net, const hd_config_t *config) {
    net->host = hd_watch_host();
    atomic_store_explicit(&net->given_up, false, memory_order_relaxed); /* nobody has it yet */
    hd_cuts_clear(net);
    net->judged = hd_clock_ns();
    hd_watch_params_t params = {.identity = {net->token[0], net->token[1]},
                                .host = net->host,
                                .lost_after = hd_config_double(config, HD_CFG_LIB_NET_LOST_AFTER),
                                .devices = hd_config_string(config, HD_CFG_LIB_NET_WATCH_DEVICES),
                                .lost = on_lost,
                                .heard = on_words,
                                .mail = hd_ask_mail,
                                .asked = hd_ask_asked,
                                .arg = net};
    net->watch = NULL;
    hd_ask_clear(net); /* a child of a fork closes what there is as soon as there is a watch */
    if (hd_config_bool(config, HD_CFG_LIB_NET_WATCH) && !(net->watch = hd_watch_open(&params))) {
        hd_warn("the end of other processes is noticed by UCX alone, late or never");
    }
    hd_ask_open(net, hd_config_bool(config, HD_CFG_LIB_NET_ASK));
}

void hd_net_watch_close(hd_net_t *net) {
    hd_watch_t *watch = net->watch;
    hd_ask_close(net);
    hd_cuts_clear(net);
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
