/* verdict_model.c: who is given up when links between hosts break, src/net/cuts.c, news.c and
 * gossip.c.
 *
 * Processes on hosts have LINES to some others (watch.c). Each has a log of WORDS, told by it or
 * heard; who has a line reads them in their order, one after the other, and tells on what is new to
 * it. A process may be stopped, or compute, at any point; its kernel still takes what comes. A link
 * between two hosts breaks with all lines over it, at any time, and what was on its way is there or
 * not.
 *
 *   CUT a b   host a finds host b silent; the accused says the same of its side
 *   DEAD p q  q says that p is dead; sure: its kernel has said so
 *
 * A host is given up if no way along lines that are not cut leads to it: that rests on what kernels
 * have said, and on no time. Of hosts that live, for both sides of a cut have said so, those go
 * that have the most cuts, of several the one with the highest number, until no cut is left; each
 * of them goes by itself, when nothing has changed for long: nobody who runs has anything to do.
 * Who hears that it was given up goes, and says so.
 *
 * Properties: no host goes that nothing happened to; no more go than have to; those who are left,
 * and can hear of each other, have given up the same; every broken link comes to an end; no word is
 * told twice by one process.
 */
#include "explorer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4, LOG = 40, UP = 0xff };

/* planted bugs */
enum { NO_BUG, BY_TIME, BLAMES_OTHERS, PAIR_BY_PAIR, LOCAL_ERROR, DEAD_ARE_HEARD, RING_OF_WORDS };

typedef enum kind { CUT = 1, DEAD } kind_t;

typedef struct process {
    uint8_t stopped, died, gone; /* gone: knows that it was given up */
    uint8_t dead;                /* bit p: knows that p is dead */
    uint8_t n, word[LOG];
    uint8_t read[MOST];  /* of whose log so many words */
    uint8_t limit[MOST]; /* of this log, so many words reach whom; UP: all */
} process_t;

typedef struct state {
    uint8_t broken; /* bit: of pair_of(host, host) */
    uint8_t hurt;   /* bit: a host that something happened to */
    uint8_t stops, breaks, kills, errors;
    process_t p[MOST];
} state_t;

typedef struct variant {
    uint8_t n, host[MOST];
    uint8_t no_line;   /* bit pair_of(process, process) */
    uint8_t broken;    /* to begin with: bit pair_of(host, host) */
    uint8_t may_break; /* later, one of these */
    uint8_t stops, kills;
    uint8_t coarse; /* who reads reads all that there is */
    uint8_t most;   /* hosts that may be given up, of those that words reach */
} variant_t;

#define PAIR(low, high) (1u << ((high) * ((high)-1) / 2 + (low)))

enum { LINK, TWO_RELAYS, ISOLATED, LATER, FAN, TWO_OF_A_HOST, HALVES, KILLED };
static const char *const variant_names[] = {
    "link", "two-relays", "isolated", "later", "fan", "two-of-a-host", "halves", "killed", NULL};
static const variant_t variants[] = {
    /* the link between two of three hosts */
    [LINK] = {.n = 3, .host = {0, 1, 2}, .broken = PAIR(0, 1), .stops = 3, .most = 1},
    /* of four */
    [TWO_RELAYS] =
        {.n = 4, .host = {0, 1, 2, 3}, .broken = PAIR(0, 1), .stops = 2, .coarse = 1, .most = 1},
    /* one of three hosts has lost both others */
    [ISOLATED] = {.n = 3, .host = {0, 1, 2}, .broken = PAIR(0, 1) | PAIR(0, 2), .stops = 2},
    /* a link is broken, and another one may break */
    [LATER] = {.n = 3,
               .host = {0, 1, 2},
               .broken = PAIR(0, 1),
               .may_break = PAIR(0, 2) | PAIR(1, 2),
               .stops = 1,
               .most = 2},
    /* one of four hosts has lost two others */
    [FAN] =
        {.n = 4, .host = {0, 1, 2, 3}, .broken = PAIR(0, 1) | PAIR(0, 2), .coarse = 1, .most = 1},
    /* 0 is beside 2, and 1 beside 3, and 2 and 3 are of one host */
    [TWO_OF_A_HOST] = {.n = 4,
                       .host = {0, 1, 2, 2},
                       .no_line = PAIR(0, 3) | PAIR(1, 2),
                       .broken = PAIR(0, 1),
                       .stops = 2,
                       .most = 1},
    [HALVES] = {.n = 4,
                .host = {0, 1, 2, 3},
                .broken = PAIR(0, 2) | PAIR(0, 3) | PAIR(1, 2) | PAIR(1, 3),
                .coarse = 1},
    [KILLED] = {.n = 3, .host = {0, 1, 2}, .broken = PAIR(0, 1), .stops = 1, .kills = 1, .most = 2},
};

static variant_t cfg;
static uint32_t bug;

static uint8_t pair_of(uint32_t a, uint32_t b) {
    return (uint8_t)(a < b ? PAIR(a, b) : PAIR(b, a));
}

static uint8_t make_word(kind_t kind, uint32_t a, uint32_t b, uint32_t c) {
    return (uint8_t)((uint32_t)kind << 6 | a << 4 | b << 2 | c);
}
static uint32_t first_of(uint8_t word) {
    return word >> 4 & 3;
}
static uint32_t second_of(uint8_t word) {
    return word >> 2 & 3;
}
static uint32_t third_of(uint8_t word) {
    return word & 3;
}

static void start(void *state, uint32_t variant, uint32_t which) {
    state_t *s = state;
    cfg = variants[variant];
    bug = which;
    memset(s, 0, sizeof(*s));
    s->broken = cfg.broken;
    s->stops = cfg.stops;
    s->kills = cfg.kills;
    s->errors = which == LOCAL_ERROR;
    s->breaks = cfg.may_break != 0;
    for (uint32_t a = 0; a < cfg.n; a++) {
        for (uint32_t b = 0; b < cfg.n; b++) {
            bool is_broken =
                cfg.host[a] != cfg.host[b] && (cfg.broken & pair_of(cfg.host[a], cfg.host[b]));
            bool none = a == b || (cfg.no_line & pair_of(a, b));
            s->p[a].limit[b] = is_broken || none ? 0 : UP;
            s->hurt |= (uint8_t)(is_broken << cfg.host[a]);
        }
    }
}

static bool has_line(uint32_t a, uint32_t b) {
    return a != b && !(cfg.no_line & pair_of(a, b));
}

static bool is_broken(const state_t *s, uint32_t a, uint32_t b) {
    return cfg.host[a] != cfg.host[b] && (s->broken & pair_of(cfg.host[a], cfg.host[b]));
}

/* --- what a process knows --------------------------------------------------------------------- */

static bool knows(const process_t *p, uint8_t word) {
    uint32_t from = bug == RING_OF_WORDS && p->n > 2 ? p->n - 2u : 0;
    for (uint32_t i = from; i < p->n; i++) {
        if (p->word[i] == word) {
            return true;
        }
    }
    return false;
}

static bool knows_cut(const process_t *p, uint32_t a, uint32_t b) {
    return knows(p, make_word(CUT, a, b, 0)) || knows(p, make_word(CUT, b, a, 0));
}

static bool is_dead_host(const process_t *p, uint32_t host) {
    bool dead = true;
    for (uint32_t q = 0; q < cfg.n; q++) {
        dead = dead && (cfg.host[q] != host || (p->dead >> q & 1));
    }
    return dead;
}

/* A cut of hosts that are both still there, as far as the process knows. */
static bool is_open(const process_t *p, uint32_t a, uint32_t b) {
    return a != b && knows_cut(p, a, b) && !is_dead_host(p, a) && !is_dead_host(p, b);
}

/* Both have said so, so both live. */
static bool is_mutual(const process_t *p, uint32_t a, uint32_t b) {
    return is_open(p, a, b) && knows(p, make_word(CUT, a, b, 0)) &&
           knows(p, make_word(CUT, b, a, 0));
}

/* Bits of processes that words reach from this one, by what it knows. */
static uint32_t reached(const process_t *self, uint32_t me) {
    uint32_t set = 1u << me;
    for (uint32_t round = 0; round < cfg.n; round++) {
        for (uint32_t a = 0; a < cfg.n; a++) {
            for (uint32_t b = 0; b < cfg.n; b++) {
                bool passes =
                    has_line(a, b) && !(self->dead >> a & 1) && !(self->dead >> b & 1) &&
                    (cfg.host[a] == cfg.host[b] || !knows_cut(self, cfg.host[a], cfg.host[b]));
                set |= (uint32_t)((set >> a & 1) && passes) << b;
            }
        }
    }
    return set;
}

static uint32_t hosts_of(uint32_t set) {
    uint32_t hosts = 0;
    for (uint32_t p = 0; p < cfg.n; p++) {
        hosts |= (set >> p & 1) << cfg.host[p];
    }
    return hosts;
}

/* --- telling ---------------------------------------------------------------------------------- */

static bool add(state_t *s, uint32_t me, uint8_t word) {
    process_t *p = &s->p[me];
    if (knows(p, word)) {
        return false;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->word[i] == word) {
            model_violation("a word is told twice by the same process");
        }
    }
    if (p->n == LOG) {
        fprintf(stderr, "a log is full\n");
        exit(2);
    }
    p->word[p->n++] = word;
    return true;
}

static void say(state_t *s, uint32_t me, uint8_t word) {
    if (!s->p[me].gone) {
        (void)add(s, me, word);
    }
}

static void give_up(state_t *s, uint32_t me, uint32_t host) {
    for (uint32_t q = 0; q < cfg.n; q++) {
        if (cfg.host[q] == host && !(s->p[me].dead >> q & 1)) {
            s->p[me].dead |= (uint8_t)(1u << q);
            (void)add(s, me, make_word(DEAD, q, me, 0));
        }
    }
}

static void surrender(state_t *s, uint32_t me) {
    (void)add(s, me, make_word(DEAD, me, me, 0));
    s->p[me].gone = 1;
}

static void take(state_t *s, uint32_t me, uint8_t word) {
    process_t *p = &s->p[me];
    kind_t kind = (kind_t)(word >> 6);
    bool own = kind == DEAD && first_of(word) == me;
    bool sure = kind == DEAD && third_of(word);
    bool by_dead = kind == CUT ? is_dead_host(p, first_of(word)) : p->dead >> second_of(word) & 1;
    if (by_dead && !sure && !own && bug != DEAD_ARE_HEARD) {
        return;
    }
    if (kind == DEAD && (p->dead >> first_of(word) & 1)) {
        return; /* nobody tells that on that is known */
    }
    if (!add(s, me, word)) {
        return;
    }
    if (kind == DEAD) {
        p->dead |= (uint8_t)((first_of(word) != me) << first_of(word));
        if (first_of(word) == me) { /* all have to know, whoever said so */
            surrender(s, me);
        }
        p->gone |= first_of(word) == me;
    } else if (kind == CUT && second_of(word) == cfg.host[me]) {
        say(s, me, make_word(CUT, cfg.host[me], first_of(word), 0));
    }
}

static bool may_read(const state_t *s, uint32_t me, uint32_t from) {
    uint8_t limit = s->p[from].limit[me];
    return s->p[me].read[from] < (limit == UP ? s->p[from].n : limit);
}

static void read_one(state_t *s, uint32_t me, uint32_t from) {
    uint8_t word = s->p[from].word[s->p[me].read[from]++];
    static const char *const names[] = {"", "CUT", "DEAD"};
    model_say("take_news: of %u: %s %u %u %u", from, names[word >> 6], first_of(word),
              second_of(word), third_of(word));
    take(s, me, word);
}

static bool read_some(state_t *s, uint32_t me, uint32_t from) {
    if (!has_line(me, from) || !may_read(s, me, from)) {
        return false;
    }
    read_one(s, me, from);
    for (uint32_t i = 0; i < cfg.n && cfg.coarse; i++) { /* that one's are the first */
        uint32_t q = (from + i) % cfg.n;
        while (has_line(me, q) && may_read(s, me, q)) {
            read_one(s, me, q);
        }
    }
    return true;
}

/* Its kernel tells it of the other: that the host is silent, or that the process has died. */
static bool notice(state_t *s, uint32_t me, uint32_t other) {
    process_t *p = &s->p[me];
    uint32_t mine = cfg.host[me], theirs = cfg.host[other];
    if (!has_line(me, other) || (p->dead >> other & 1) || p->gone) {
        return false;
    }
    if (is_broken(s, me, other)) {
        model_say("on_lost: host %u is silent", theirs);
        bool is_new = !knows(p, make_word(CUT, mine, theirs, 0));
        say(s, me, make_word(CUT, mine, theirs, 0));
        return is_new;
    }
    if (s->p[other].died) {
        model_say("on_lost: process %u has died", other);
        p->dead |= (uint8_t)(1u << other);
        say(s, me, make_word(DEAD, other, me, 1));
        return true;
    }
    return false;
}

/* --- judging ---------------------------------------------------------------------------------- */

/* The host of the most cuts that both sides know of, among these hosts and without those in `out`.
 * MOST: there are none. */
static uint32_t worst_host(const process_t *p, uint32_t hosts, uint32_t out) {
    uint32_t worst = MOST, most = 0;
    for (uint32_t a = 0; a < MOST; a++) {
        uint32_t n = 0;
        for (uint32_t b = 0; b < MOST; b++) {
            bool among = (hosts >> a & 1) && (hosts >> b & 1) && !(out >> a & 1) && !(out >> b & 1);
            n += among && is_mutual(p, a, b);
        }
        if (n > 0 && bug == PAIR_BY_PAIR) {
            n = 1;
        }
        if (n > 0 && n >= most) {
            most = n;
            worst = a;
        }
    }
    return worst;
}

/* Bits of the hosts that have to go. */
static uint32_t those_to_go(const process_t *p, uint32_t hosts) {
    uint32_t out = 0, worst;
    while ((worst = worst_host(p, hosts, out)) != MOST) {
        out |= 1u << worst;
    }
    return out;
}

static bool has_unread(const state_t *s, uint32_t me) {
    for (uint32_t q = 0; q < cfg.n; q++) {
        if (has_line(me, q) && may_read(s, me, q)) {
            return true;
        }
    }
    return false;
}

/* So much time has passed that nobody who runs has anything to do. */
static bool is_calm(const state_t *s) {
    for (uint32_t p = 0; p < cfg.n; p++) {
        state_t copy = *s;
        if (s->p[p].stopped || s->p[p].died) {
            continue;
        }
        for (uint32_t q = 0; q < cfg.n; q++) {
            if ((has_line(p, q) && may_read(s, p, q)) || notice(&copy, p, q)) {
                return false;
            }
        }
    }
    return true;
}

static bool judge(state_t *s, uint32_t me) {
    process_t *p = &s->p[me];
    uint32_t mine = cfg.host[me], n = p->n;
    if (p->gone ? bug != DEAD_ARE_HEARD : has_unread(s, me)) {
        return false;
    }
    uint32_t hosts = hosts_of(reached(p, me)), to_go = those_to_go(p, hosts);
    bool blames = p->gone || bug == BLAMES_OTHERS;
    if ((to_go >> mine & 1) && !blames && is_calm(s)) {
        model_say("hd_cuts_judge: surrenders");
        surrender(s, me);
        return true;
    }
    for (uint32_t b = 0; b < MOST; b++) {
        bool silent = bug == BY_TIME && !knows(p, make_word(CUT, b, mine, 0)) && is_calm(s);
        if (b != mine && is_open(p, mine, b) && (!(hosts >> b & 1) || silent || blames)) {
            give_up(s, me, b);
            model_say("give_up_host: %u", b);
        }
    }
    return p->n > n;
}

/* --- what happens ----------------------------------------------------------------------------- */

static void break_link(state_t *s, uint32_t pair, bool lost) {
    s->broken |= (uint8_t)pair;
    for (uint32_t a = 0; a < cfg.n; a++) {
        for (uint32_t b = 0; b < cfg.n; b++) {
            if (a != b && is_broken(s, a, b) && s->p[a].limit[b] == UP) {
                s->p[a].limit[b] = lost ? s->p[b].read[a] : s->p[a].n;
                s->hurt |= (uint8_t)(1u << cfg.host[a]);
            }
        }
    }
}

/* choices: the pair of hosts, and whether what is on its way is lost; or whom to kill */
static bool happen(state_t *s, uint32_t choice) {
    uint32_t pair = 1u << choice / 2;
    if (choice < 12) {
        if (!s->breaks || !(cfg.may_break & pair) || (s->broken & pair)) {
            return false;
        }
        s->breaks = 0;
        break_link(s, pair, choice % 2);
        model_say("(a link breaks: %u)", choice / 2);
        return true;
    }
    uint32_t who = choice - 12;
    if (!s->kills || who >= cfg.n) {
        return false;
    }
    s->kills--;
    s->p[who].died = 1;
    s->hurt |= (uint8_t)(1u << cfg.host[who]);
    for (uint32_t q = 0; q < cfg.n; q++) {
        s->p[who].limit[q] = s->p[who].limit[q] == UP ? s->p[who].n : s->p[who].limit[q];
    }
    model_say("(process %u is killed)", who);
    return true;
}

enum { READ = 0, NOTICE = MOST, JUDGE = 2 * MOST, STOP, GO_ON, ERROR, CHOICES = 4 * MOST };

static void sort(process_t *p, uint32_t from, uint32_t to) {
    for (uint32_t i = from + 1; i < to; i++) {
        for (uint32_t j = i; j > from && p->word[j - 1] > p->word[j]; j--) {
            uint8_t between = p->word[j];
            p->word[j] = p->word[j - 1];
            p->word[j - 1] = between;
        }
    }
}

/* Where all is read at once, the order of words that all have read, or nobody has, says nothing:
 * states that differ in it alone are one. */
static void make_equal(state_t *s) {
    for (uint32_t a = 0; a < cfg.n; a++) {
        uint32_t least = s->p[a].n, most = 0;
        for (uint32_t b = 0; b < cfg.n; b++) {
            uint32_t read = s->p[b].read[a], limit = s->p[a].limit[b];
            bool reads = has_line(b, a) && !(limit != UP && read >= limit);
            least = reads && read < least ? read : least;
            most = (reads || limit != UP) && read > most ? read : most;
        }
        sort(&s->p[a], 0, least);
        sort(&s->p[a], most > least ? most : least, s->p[a].n);
    }
}

static bool take_step(state_t *s, uint32_t actor, uint32_t choice);

static bool step(void *state, uint32_t actor, uint32_t choice) {
    bool took = take_step(state, actor, choice);
    if (took && cfg.coarse) {
        make_equal(state);
    }
    return took;
}

static bool take_step(state_t *s, uint32_t actor, uint32_t choice) {
    if (actor == MOST) {
        return happen(s, choice);
    }
    process_t *p = &s->p[actor];
    if (actor >= cfg.n || p->died) {
        return false;
    }
    if (choice == GO_ON || choice == STOP) {
        bool stops = choice == STOP;
        if (p->stopped == stops || (stops && !s->stops)) {
            return false;
        }
        s->stops = (uint8_t)(s->stops - stops);
        p->stopped = stops;
        model_say(stops ? "(computes)" : "(goes on)");
        return true;
    }
    if (p->stopped) {
        return false;
    }
    if (choice < NOTICE) {
        return choice < cfg.n && read_some(s, actor, choice);
    }
    if (choice < JUDGE) {
        return choice - NOTICE < cfg.n && notice(s, actor, choice - NOTICE);
    }
    if (choice == JUDGE) {
        return judge(s, actor);
    }
    if (choice == ERROR && s->errors && !p->gone) {
        uint32_t other = (actor + 1) % cfg.n;
        s->errors--;
        model_say("(has no descriptor)");
        p->dead |= (uint8_t)(1u << other);
        say(s, actor, make_word(DEAD, other, actor, 0));
        return true;
    }
    return false;
}

/* Bits of those that the process can really hear of, or be heard by. */
static uint32_t really_reached(const state_t *s, uint32_t me) {
    uint32_t set = 1u << me;
    for (uint32_t round = 0; round < cfg.n; round++) {
        for (uint32_t a = 0; a < cfg.n; a++) {
            for (uint32_t b = 0; b < cfg.n; b++) {
                bool passes =
                    has_line(a, b) && !is_broken(s, a, b) && !s->p[a].died && !s->p[b].died;
                set |= (uint32_t)((set >> a & 1) && passes) << b;
            }
        }
    }
    return set;
}

static const char *end(const void *state) {
    const state_t *s = state;
    uint32_t lost = 0;
    for (uint32_t a = 0; a < cfg.n; a++) {
        const process_t *p = &s->p[a];
        uint32_t set = really_reached(s, a);
        for (uint32_t b = 0; b < cfg.n && !p->died; b++) {
            bool here = set >> b & 1;
            if ((p->dead >> b & 1) && !(s->hurt >> cfg.host[b] & 1)) {
                return "a process is given up that nothing happened to";
            }
            if (here && b != a && !p->gone && !s->p[b].gone) {
                if (p->dead != s->p[b].dead) {
                    return "two that are left do not agree who is dead";
                }
                if (is_broken(s, a, b) && has_line(a, b)) {
                    return "a link is broken, and nobody goes";
                }
            }
            lost |= (uint32_t)(here && ((p->dead >> b & 1) || s->p[b].gone)) << cfg.host[b];
        }
    }
    return (uint32_t)__builtin_popcount(lost) > cfg.most ? "more hosts are given up than have to"
                                                         : NULL;
}

static const model_bug_t bugs[] = {
    {"none", 0, ""},
    {"by-time", TWO_RELAYS,
     "who hears nothing for a time gives up the other, though those compute by "
     "way of whom the answer would come"},
    {"blames-others", FAN, "who cannot reach others gives up each of them, and never goes itself"},
    {"pair-by-pair", FAN,
     "of two hosts the one with the higher number goes, whoever of them has "
     "lost more"},
    {"local-error", LINK, "who has no descriptor says that the other is dead"},
    {"dead-are-heard", LINK, "who has been given up judges others, and that counts"},
    {"ring-of-words", LINK, "who has heard more words forgets that it has told one"},
    {NULL, 0, NULL},
};

static const model_t model = {
    .name = "verdict",
    .bytes = sizeof(state_t),
    .actors = MOST + 1,
    .choices = CHOICES,
    .variants = variant_names,
    .bugs = bugs,
    .start = start,
    .step = step,
    .end = end,
};

int main(int argc, char **argv) {
    return model_main(&model, argc, argv);
}
