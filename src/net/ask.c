/* ask.c: answers who asks (heddle_info --job) for whom this process waits, and all processes of its
 * job. ask.h has the words.
 *
 * The question goes to all processes as words do that all tell on (gossip.c). Each that hears of it
 * answers by mail, which is told on from neighbour to neighbour, back on the way by which the
 * question has come: so each remembers for the last questions from whom it has heard them. Whoever
 * was asked himself hands the mail to the asker.
 *
 * Nobody answers but a thread that waits, for no other looks at the watch. Such a thread can see
 * what all others of its process wait for. Of a process whose threads compute the kernel takes the
 * question, and the asker sees that nobody answers.
 *
 * Only the process's own user, or root, is answered. All of it in lane 0, under its lock, but for
 * what the watch calls: that only hands on.
 */
#include "net/internal.h"

#include <stdio.h>
#include <string.h>

enum { MOST_TEAMS = 64, MOST_KNOWN = 16, MOST_A_SECOND = 16 };
static const uint64_t second = 1000000000;

/* --- mail ------------------------------------------------------------------------------------- */

/* Brings a mail nearer to whoever has asked. */
static void deliver(hd_net_t *net, const hd_mail_t *mail) {
    hd_net_asks_t *asks = &net->asks;
    for (uint32_t i = 0; i < HD_ASKERS; i++) {
        hd_asker_t *asker = &asks->askers.asker[i];
        if (asker->fd >= 0 && asker->ask == mail->ask) {
            hd_askers_hand(&asks->askers, asker, mail);
            return;
        }
    }
    for (uint32_t i = 0; i < HD_NET_ASKED; i++) {
        if (asks->asked[i].ask == mail->ask && net->watch) {
            (void)hd_watch_send(net->watch, asks->asked[i].from, mail, hd_mail_bytes(mail));
            return;
        }
    }
}

typedef struct letter {
    hd_net_item_t item; /* must stay first */
    hd_mail_t mail;
} letter_t;

static void take_letter(hd_net_lane_t *lane, hd_net_item_t *item) {
    letter_t *letter = (letter_t *)(void *)item;
    deliver(lane->net, &letter->mail);
    hd_free(letter);
}

void hd_ask_mail(void *arg, const void *bytes, size_t n) {
    hd_net_t *net = arg;
    letter_t *letter;
    if (n < offsetof(hd_mail_t, text) || n > sizeof(letter->mail) ||
        !(letter = hd_alloc(alignof(letter_t), sizeof(*letter)))) {
        return;
    }
    memcpy(&letter->mail, bytes, n);
    letter->item.take = take_letter;
    if (letter->mail.ask == 0 || letter->mail.last > 1 || hd_mail_bytes(&letter->mail) != n) {
        hd_free(letter);
        return;
    }
    hd_net_lane_hand(&net->lane[0], &letter->item);
}

/* --- what this process says ------------------------------------------------------------------- */

typedef struct report {
    hd_report_t lines; /* must stay first: say_line has its address */
    hd_net_t *net;
} report_t;

static void deliver_of(void *net, const hd_mail_t *mail) {
    deliver(net, mail);
}

static void say_line(void *to, const char *text) {
    hd_report_say(to, "T   %s\n", text);
}

static void say_waits(report_t *r, const hd_net_team_t *team, const char *what, uint64_t number,
                      const hd_text_t *text, const hd_net_awaited_t *all) {
    hd_report_say(&r->lines, "T   %s %llu waits for %s\n", what, (unsigned long long)number,
                  text->line);
    for (uint32_t i = 0; i < all->n; i++) {
        const uint64_t *token = team->peer[all->process[i]]->token;
        hd_report_say(&r->lines, "W %016llx%016llx\n", (unsigned long long)token[0],
                      (unsigned long long)token[1]);
    }
}

static const char *name_of(const hd_leg_t *leg) {
    return leg->key.class == HD_NET_FORMING || leg->key.class == HD_NET_WARMING
               ? "forming"
               : hd_type_name(leg->call.type);
}

/* The legs of the team in a lane. Another lane may be in use: then it is left out. */
static void say_legs(report_t *r, const hd_net_team_t *team, hd_net_lane_t *lane) {
    bool enters = lane->number > 0;
    if (enters && !hd_net_lane_enter(lane)) {
        return;
    }
    for (const hd_leg_t *leg = lane->legs; leg; leg = leg->next) {
        hd_text_t text = {0};
        hd_net_awaited_t all = {0};
        if (leg->team == team && hd_leg_say(leg, &text, &all)) {
            say_waits(r, team, name_of(leg), leg->key.number, &text, &all);
        }
    }
    if (enters) {
        hd_net_lane_unlock(lane);
        r->net->asks.entered = true;
    }
}

static void say_swaps(report_t *r, const hd_net_team_t *team) {
    const hd_net_swaps_t *swaps = team->swaps;
    for (uint32_t s = 0; swaps && s < HD_SWAP_SLOTS; s++) {
        /* relaxed, both: numbers; parts that have come are told by has_part */
        uint64_t k = atomic_load_explicit(&swaps->begun[s], memory_order_relaxed);
        uint64_t over = atomic_load_explicit(&swaps->over[s], memory_order_relaxed);
        hd_text_t text = {0};
        hd_net_awaited_t all = {0};
        if (k && over < k && hd_swap_say(team, k, &text, &all)) {
            say_waits(r, team, "collective", k, &text, &all);
        }
    }
}

/* The team is not freed while lane 0 has not seen its end. */
static void say_team(report_t *r, hd_net_team_t *team) {
    ucc_status_t failure = hd_net_team_failure(team);
    hd_report_say(&r->lines, "T team of %u processes, this one is process %u%s%s\n", team->n,
                  team->me, failure == UCC_OK ? "" : "; it has failed: ",
                  failure == UCC_OK ? "" : ucc_status_string(failure));
    hd_lock(&team->telling);
    if (!team->destroyed && team->tell) {
        team->tell(team->arg, say_line, r);
    }
    hd_unlock(&team->telling);
    if (failure == UCC_OK) {
        say_swaps(r, team);
    }
    for (uint32_t l = 0; l < team->lanes && failure == UCC_OK; l++) {
        say_legs(r, team, &r->net->lane[l]);
    }
}

/* Marks what is known of the process by a number, and returns the one before. */
static uint32_t mark(hd_net_t *net, const uint64_t token[2], uint32_t number) {
    hd_lock(&net->lock);
    hd_net_known_t *known = hd_gossip_find(net, token);
    uint32_t before = known ? known->number : 0;
    if (known) {
        known->number = number;
    }
    hd_unlock(&net->lock);
    return before;
}

/* all: of healthy ones, too. Of a process's peers, the latest comes first in the list. */
static void say_peers(report_t *r, const hd_net_team_t *team, bool all) {
    enum { SAID = -1 };
    hd_peer_t *first = hd_peer_first(r->net); /* they stay */
    uint32_t said = 0;
    for (uint32_t i = 0; team && i < team->n; i++) {
        if (team->peer[i]) {
            (void)mark(r->net, team->peer[i]->token, i + 1);
        }
    }
    for (hd_peer_t *peer = first; peer; peer = peer->next) {
        hd_text_t clause = {0};
        int32_t number = (int32_t)mark(r->net, peer->token, (uint32_t)SAID);
        bool latest = number != SAID, odd = latest && hd_peer_say(peer, &clause);
        if (latest && (all || (odd && said++ < MOST_KNOWN))) {
            hd_report_say(&r->lines, "K %016llx%016llx %d %u %s %d%s\n",
                          (unsigned long long)peer->token[0], (unsigned long long)peer->token[1],
                          number - 1, peer->who.pid, peer->who.host, !hd_peer_lives(peer),
                          odd ? clause.line : "");
        }
    }
    for (const hd_peer_t *peer = first; peer; peer = peer->next) {
        (void)mark(r->net, peer->token, 0);
    }
}

static uint32_t find_teams(hd_net_t *net, hd_net_team_t *team[MOST_TEAMS]) {
    uint32_t n = 0;
    hd_lock(&net->lock);
    for (uint32_t b = 0; b < HD_NET_TABLE; b++) {
        for (hd_net_team_t *t = net->table[b]; t && n < MOST_TEAMS; t = t->next) {
            team[n++] = t;
        }
    }
    hd_unlock(&net->lock);
    return n;
}

/* asked: by the asker itself, who hears of all processes that are known. */
static void answer(hd_net_t *net, uint64_t ask, bool asked) {
    hd_net_team_t *team[MOST_TEAMS];
    uint32_t n = find_teams(net, team);
    const hd_net_team_t *largest = NULL;
    report_t r = {.lines = {.mail = {.ask = ask, .by = {net->token[0], net->token[1]}},
                            .deliver = deliver_of,
                            .to = net},
                  .net = net};
    for (uint32_t i = 0; i < n; i++) {
        largest = !largest || team[i]->n > largest->n ? team[i] : largest;
    }
    hd_report_say(&r.lines, "P %d %u %u %s\n", largest ? (int)largest->me : -1,
                  largest ? largest->n : 0, net->who.pid, net->who.host);
    say_peers(&r, largest, asked);
    if (net->probing) {
        hd_report_say(
            &r.lines,
            "T a process of this host has died, and this one looks whether it still hears by "
            "shared memory\n");
    }
    if (hd_net_is_given_up(net)) {
        hd_report_say(&r.lines, "T the other processes have given up this one\n");
    }
    for (uint32_t i = 0; i < n; i++) {
        say_team(&r, team[i]);
    }
    hd_report_end(&r.lines);
}

/* --- questions -------------------------------------------------------------------------------- */

void hd_ask_hear(hd_net_t *net, uint64_t ask, const uint64_t from[2]) {
    hd_net_asks_t *asks = &net->asks;
    uint64_t now = hd_clock_ns();
    if (now - asks->since > second) {
        asks->since = now;
        asks->n_since = 0;
    }
    if (asks->n_since++ >= MOST_A_SECOND) {
        return;
    }
    hd_net_asked_t *asked = &asks->asked[asks->n_asked++ % HD_NET_ASKED];
    *asked = (hd_net_asked_t){ask, {from[0], from[1]}};
    answer(net, ask, false);
}

static void begin(void *arg, hd_asker_t *asker) {
    hd_net_t *net = arg;
    hd_net_tell_ask(net, asker->ask);
    answer(net, asker->ask, true);
}

void hd_ask_asked(void *arg) {
    ((hd_net_t *)arg)->asks.ready = true;
}

void hd_ask_look(hd_net_t *net) {
    if (net->asks.ready) {
        net->asks.ready = false;
        hd_askers_look(&net->asks.askers);
    }
}

/* --- opening, closing ------------------------------------------------------------------------- */

static void also(void *net, int fd, uint32_t events) {
    hd_watch_also(((hd_net_t *)net)->watch, fd, events);
}

void hd_ask_clear(hd_net_t *net) {
    net->asks = (hd_net_asks_t){.n_asked = 0};
    hd_askers_clear(&net->asks.askers);
    net->asks.askers.also = also;
    net->asks.askers.answer = begin;
    net->asks.askers.arg = net;
}

void hd_ask_open(hd_net_t *net, bool listens) {
    if (listens && net->watch) {
        hd_askers_open(&net->asks.askers, HD_ASK_NET);
    }
}

void hd_ask_close(hd_net_t *net) {
    if (net->watch) {
        hd_askers_close(&net->asks.askers);
    }
}

void hd_ask_abandon(hd_net_t *net) {
    if (net->watch) {
        hd_askers_abandon(&net->asks.askers);
    }
}
