/* news.c: what the net does with its watch (watch.h): who is gone, and which teams have failed, is
 * heard of there when UCX says nothing of it, or can't any more.
 *
 * Of the processes of a team each watches those that are 1, 2, 4, ... before and after it: so
 * everybody is watched by somebody, and a word that everybody who hears it tells on reaches all,
 * also when some of them are gone. Such words are that a process is DEAD, that a link between two
 * hosts is CUT, and that a team was ABORTed (gossip.c). A process's token, drawn when its net is
 * opened, names it: who comes back is another one.
 *
 * LOST IS NOT DEAD. A peer is lost when its ways break: then teams that were made before, and need
 * it, fail. A process is dead if the kernel of its host says so, or if it has to go. So the watch
 * is asked of a peer whose ways break, and connects to it. If the process is there, the next team
 * with it has a new peer, and new ways (peer.c); and so it has at the other end, which is told that
 * the ways are BROKEN, for UCX drops what comes by a way that one end alone has cut. What one
 * process lacks, such as descriptors, costs no other one anything. Only if the ways to a process
 * break again and again though it is there, one of the two goes; and who has that with more than
 * half of the others goes itself.
 *
 * BETWEEN HOSTS there may be silence. Whoever finds it says, once for its host, that the link to
 * the other one is CUT; a process of that host which hears it, by way of others, says the same of
 * its own side. If nothing comes from there, the host is gone, and so are its processes. If both
 * sides are heard, both live, and one of the hosts has to go: all know the same cuts, and the rule
 * is the same everywhere (has_to_go). Its processes go, and if one has not after a while, the other
 * side says so.
 *
 * Nobody judges but in lane 0, after reading what has come; and if it has not looked for long, then
 * after another while: it may be the one that was given up meanwhile.
 *
 * The watch calls under its own lock, so what it says is handed to lane 0 as an item, and done
 * there.
 */
#include "net/internal.h"

#include <string.h>

enum {
    SETTLED = 2,    /* times the grace: so long cuts have to be known before they are judged */
    ANSWER = 5,     /* and so long the others have to say that they are there, or to go */
    MOST_BREAKS = 3 /* of the ways to a process that is there */
};
/* ns: of the time in which it has not judged, so much counts; and a cut that was judged so long ago
 * is a new one if somebody says so again. */
static const uint64_t away = 200000000, past = 10000000000;

typedef struct news {
    hd_net_item_t item; /* must stay first */
    hd_words_t words;
} news_t;

/* --- in lane 0, under its lock: who is gone --------------------------------------------------- */

/* Returns the first of the net's peers, which stay; others come before it. */
static hd_peer_t *peers_of(hd_net_t *net) {
    hd_lock(&net->lock);
    hd_peer_t *first = net->peers;
    hd_unlock(&net->lock);
    return first;
}

/* The others have given up this process, and will take nothing from it any more: so it gives up
 * them. */
static void be_given_up(hd_net_t *net) {
    if (hd_net_is_given_up(net)) {
        return;
    }
    hd_error("other processes have given up this one: its teams with them fail");
    /* relaxed: see hd_net_is_given_up; before the peers are lost, by release */
    atomic_store_explicit(&net->given_up, true, memory_order_relaxed);
    for (hd_peer_t *peer = peers_of(net); peer; peer = peer->next) {
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

/* Loses all peers of the process with this token. left: it has said so. */
static void lose_all(hd_net_t *net, const uint64_t token[2], bool left, const char *why) {
    for (hd_peer_t *peer = peers_of(net); peer; peer = peer->next) {
        if (!hd_net_same_token(peer->token, token)) {
            continue;
        }
        if (left) {
            /* relaxed: whoever learns it later asks again */
            atomic_store_explicit(&peer->left, true, memory_order_relaxed);
        }
        hd_peer_lose(peer, why);
    }
}

static void take_dead(hd_net_t *net, const uint64_t token[2]) {
    if (hd_net_same_token(token, net->token)) {
        be_given_up(net);
    } else {
        lose_all(net, token, false, "another process says that it is gone");
        look_for_damage(net, token);
    }
}

/* --- in lane 0: links between hosts ----------------------------------------------------------- */

/* Returns what is known of the link between two hosts, as nothing if it was not known. NULL: so
 * many links are broken that this one is not noted. */
static hd_cut_t *find_cut(hd_net_t *net, uint64_t one, uint64_t other) {
    uint64_t low = one < other ? one : other, high = one < other ? other : one;
    uint64_t now = hd_clock_ns();
    bool mine = one == net->host || other == net->host;
    hd_cut_t *cut = NULL;
    for (uint32_t i = 0; i < net->n_cuts; i++) {
        hd_cut_t *c = &net->cut[i];
        bool is_past = c->over && now - c->since > past;
        bool is_foreign = c->host[0] != net->host && c->host[1] != net->host;
        if (c->host[0] == low && c->host[1] == high && !is_past) {
            return c;
        }
        bool makes_room = is_past || (mine && is_foreign && net->n_cuts == HD_NET_CUTS);
        cut = makes_room ? c : cut;
    }
    if (!cut && net->n_cuts < HD_NET_CUTS) {
        cut = &net->cut[net->n_cuts++];
    }
    if (cut) {
        *cut = (hd_cut_t){.host = {low, high}};
    } else {
        hd_warn("more than %d links between hosts are broken", HD_NET_CUTS);
    }
    return cut;
}

/* Host `by` says that nothing reaches `other` from it. False: that was known. */
static bool note_cut(hd_net_t *net, uint64_t by, uint64_t other) {
    hd_cut_t *cut = find_cut(net, by, other);
    if (!cut || cut->over || cut->said[by > other]) {
        return false;
    }
    cut->said[by > other] = true;
    cut->since = hd_clock_ns();
    /* relaxed: only told to look */
    atomic_store_explicit(&net->has_losses, true, memory_order_relaxed);
    return true;
}

/* Says that nothing reaches that host from this one, if no process of this one has. */
static void say_cut(hd_net_t *net, uint64_t host) {
    if (host != 0 && !hd_net_is_given_up(net) && note_cut(net, net->host, host)) {
        hd_net_tell_cut(net, host);
    }
}

static void hear_cut(hd_net_t *net, uint64_t by, uint64_t other) {
    (void)note_cut(net, by, other);
    if (other == net->host) {
        say_cut(net, by);
    }
}

/* Returns the host of the most cuts, of several the one with the highest number, leaving out cuts
 * of bits in `done`. 0: there are none. Cuts of which one side alone has been heard count, too: the
 * word of the other may be on its way. */
static uint64_t worst_host(const hd_net_t *net, uint64_t done) {
    uint64_t worst = 0;
    uint32_t most = 0;
    for (uint32_t i = 0; i < 2 * net->n_cuts; i++) {
        uint64_t host = net->cut[i / 2].host[i % 2];
        uint32_t n = 0;
        for (uint32_t j = 0; j < net->n_cuts; j++) {
            const hd_cut_t *c = &net->cut[j];
            n += !(done >> j & 1) && !c->over && (c->host[0] == host || c->host[1] == host);
        }
        if (n > most || (n == most && n > 0 && host > worst)) {
            most = n;
            worst = host;
        }
    }
    return worst;
}
_Static_assert(HD_NET_CUTS <= 64, "a bit each");

/* Does the host have to go, of those that have lost each other? Those with the most cuts go, one
 * after the other, until none is left. */
static bool has_to_go(const hd_net_t *net, uint64_t host) {
    uint64_t done = 0, worst;
    while ((worst = worst_host(net, done)) != 0 && worst != host) {
        for (uint32_t i = 0; i < net->n_cuts; i++) {
            const hd_cut_t *c = &net->cut[i];
            done |= (uint64_t)(c->host[0] == worst || c->host[1] == worst) << i;
        }
    }
    return worst == host;
}

/* Says that all processes of that host are dead. */
static void give_up_host(hd_net_t *net, uint64_t host, const char *why) {
    for (hd_peer_t *peer = peers_of(net); peer; peer = peer->next) {
        if (peer->host == host && hd_peer_lives(peer)) {
            hd_net_tell_dead(net, peer->token, HD_DEAD_JUDGED);
            lose_all(net, peer->token, false, why);
        }
    }
}

/* Judges a cut of this host. True: this process has to go. */
static bool judge_cut(hd_net_t *net, hd_cut_t *cut, uint64_t now) {
    uint32_t mine = cut->host[1] == net->host;
    uint64_t waited = now - cut->since, grace = net->grace_ns;
    bool lives = cut->said[!mine];
    if (lives && waited > SETTLED * grace && has_to_go(net, net->host)) {
        return true;
    }
    if (waited > (lives ? SETTLED + ANSWER : ANSWER) * grace) {
        give_up_host(net, cut->host[!mine],
                     lives ? "its host goes, of two that have lost each other"
                           : "its host does not answer");
        cut->over = true;
        cut->since = now;
    }
    return false;
}

static void judge_cuts(hd_net_t *net, uint64_t now) {
    for (uint32_t i = 0; i < net->n_cuts; i++) {
        hd_cut_t *cut = &net->cut[i];
        if (cut->over) {
            continue;
        }
        if (cut->host[0] != net->host && cut->host[1] != net->host) {
            cut->over = now - cut->since > (SETTLED + 2 * ANSWER) * net->grace_ns;
        } else if (judge_cut(net, cut, now)) {
            surrender(net, "a link between hosts is broken, and this host is the one to go");
            return;
        }
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
    if (waited < ANSWER * net->grace_ns) {
        return; /* it may go itself */
    }
    if (mine) {
        hd_net_tell_dead(net, peer->token, HD_DEAD_JUDGED);
        lose_all(net, peer->token, false, "the ways to it break again and again");
    } else if (waited > 2 * ANSWER * net->grace_ns) {
        surrender(net, "the ways to another one break again and again");
    }
}

static void judge_peers(hd_net_t *net, uint64_t now) {
    hd_peer_t *broken = NULL;
    uint32_t living = 0, n_broken = 0;
    for (hd_peer_t *peer = peers_of(net); peer; peer = peer->next) {
        bool latest = hd_peer_find(net, peer->token) == peer, alive = hd_peer_lives(peer);
        living += latest && alive;
        /* acquire: the time; pairs with hd_peer_lose */
        if (!alive || !atomic_load_explicit(&peer->lost, memory_order_acquire)) {
            continue;
        }
        if (!peer->asked) {
            ask(net, peer);
        }
        if (latest && peer->breaks > MOST_BREAKS) {
            n_broken++;
            broken = peer;
        }
    }
    if (n_broken > 1 && 2 * n_broken > living) {
        surrender(net, "its ways to most others break again and again");
    } else if (broken) {
        uint64_t since = atomic_load_explicit(&broken->lost_at, memory_order_relaxed);
        part(net, broken, now > since ? now - since : 0);
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
    for (uint32_t i = 0; missed && i < net->n_cuts; i++) { /* time in which nothing was heard */
        hd_cut_t *cut = &net->cut[i];
        bool before = cut->since < now - missed;
        cut->since = cut->over ? cut->since : before ? cut->since + missed : now;
    }
    if (!hd_net_is_given_up(net) && hd_net_is_deaf(net, now)) {
        surrender(net, "a process that was killed has blocked its queue in shared memory "
                       "(docs/processes.md)");
    }
    if (!hd_net_is_given_up(net)) {
        judge_peers(net, now);
    }
    if (!hd_net_is_given_up(net)) {
        judge_cuts(net, now);
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
        lose_all(net, peer->token, false, "there is no way to its host");
        say_cut(net, peer->host);
        return;
    }
    (void)hd_watch_parse(&record, peer->watch_address, peer->watch_bytes); /* it was, before */
    hd_watch_name(&record, net->host, name);
    hd_warn("process %u of a team of %u, at %s, can't be reached to watch it: its end may go "
            "unnoticed",
            number, of, name);
}

void hd_net_lose_silent(hd_net_t *net, const hd_peer_t *peer) {
    lose_all(net, peer->token, false, "there is no sign of it any more");
    say_cut(net, peer->host);
}

/* Takes note of what this process's own watch has found of the peer. */
static void take_loss(hd_net_t *net, const hd_words_t *words, hd_peer_t *peer) {
    switch (words->kind) {
    case HD_WORDS_LEFT:
        lose_all(net, words->subject, true, "it has closed its network");
        break;
    case HD_WORDS_LOST:
        lose_all(net, words->subject, false, "its connection has ended");
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
    const hd_words_t words = ((const news_t *)(const void *)item)->words;
    hd_free(item);
    if (!net->lane[0].port.worker) {
        return; /* closed meanwhile: there are no peers, and no watch */
    }
    if (words.kind == HD_WORDS_ABORT) {
        hd_net_match_aborted(&net->lane[0], words.subject[0], (ucc_status_t)words.status);
    } else if (words.kind == HD_WORDS_DEAD) {
        take_dead(net, words.subject);
    } else if (words.kind == HD_WORDS_CUT) {
        hear_cut(net, words.subject[0], words.subject[1]);
    } else if (words.kind == HD_WORDS_BROKEN) {
        if (hd_net_same_token(words.subject, net->token)) {
            take_broken(net, words.by);
        }
    } else {
        hd_peer_t *peer = hd_peer_find(net, words.subject);
        if (peer) {
            take_loss(net, &words, peer);
        }
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
    case HD_WORDS_ABORT:
        return words->status < 0 && words->status > UCC_ERR_LAST;
    default:
        return false;
    }
}

static hd_watch_relay_t on_words(void *arg, const uint64_t token[2], const void *bytes, size_t n) {
    hd_words_t words;
    (void)token;
    if (n != sizeof(words)) {
        return HD_WATCH_NOBODY;
    }
    memcpy(&words, bytes, sizeof(words));
    if (!make_sense(&words) || !hd_words_are_new(arg, &words)) {
        return HD_WATCH_NOBODY;
    }
    if (!hand(arg, &words)) {
        hd_words_forget(arg, &words); /* when somebody says it again, it is new */
    }
    return hd_words_last(&words) ? HD_WATCH_ALL : HD_WATCH_THOSE_HERE;
}

/* --- opening, keeping, looking ---------------------------------------------------------------- */

void hd_net_watch_open(hd_net_t *net, const hd_config_t *config) {
    net->host = hd_watch_host();
    atomic_store_explicit(&net->given_up, false, memory_order_relaxed); /* nobody has it yet */
    net->n_cuts = 0;
    net->judged = hd_clock_ns();
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
