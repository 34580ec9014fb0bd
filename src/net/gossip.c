/* gossip.c: what is told to all processes by the watch's connections, and what has been heard
 * there: that a process is DEAD, that a link between two hosts is CUT, that the ways between two
 * processes are BROKEN, that a team was ABORTed, that somebody ASKs (ask.c), and that a decision is
 * AGREED on. What follows from words that come is news.c's business. Any thread may call, under a
 * lane's lock or the watch's, or under none.
 *
 * Each process numbers what it says, and who hears it tells it on if that number of that process is
 * new. For every process that has ever said anything, the highest number is known, and which of the
 * HD_NET_NUMBERS before it have come: so all words come to an end, however many there are. Beyond
 * that, nobody tells on that a process is dead when that is known, nor that a team was aborted, or
 * a decision agreed on, when that was heard lately. That a process is dead is new until it is
 * known, however late it comes: who is connected late hears old words beside new ones.
 *
 * Of peers, and of this process, there is room for what they say, and for what is said of them,
 * before anything is: what fails for want of memory is told all the same.
 *
 * A process that is known to be dead may live, for it was given up: what it thinks of others, who
 * have lost it, counts nothing any more. What a kernel has said counts, whoever tells it. So does a
 * decision: who told it has acted on it, and so may others who heard him. So does that this process
 * itself is dead, if somebody tells it whom it has not given up: he believes it.
 * Who goes says so himself, and all tell that on: whoever has given it up may be dead to others.
 */
#include "net/internal.h"

#include "core/hash.h"

#include <string.h>

enum { FEW = 64, MOST = 1 << 20 };

/* --- who has said what: under the net's lock -------------------------------------------------- */

/* Returns where the token is in a table of so many places, a power of two, or where it would be. */
static hd_net_known_t *place_of(hd_net_known_t *table, uint32_t room, const uint64_t token[2]) {
    uint32_t i = (uint32_t)hd_hash_mix(hd_hash_mix(1, token[0]), token[1]);
    while (table[i % room].token[0] | table[i % room].token[1] &&
           !hd_net_same_token(table[i % room].token, token)) {
        i++;
    }
    return &table[i % room];
}

hd_net_known_t *hd_gossip_find(const hd_net_t *net, const uint64_t token[2]) {
    hd_net_known_t *known = net->known_room ? place_of(net->known, net->known_room, token) : NULL;
    return known && hd_net_same_token(known->token, token) ? known : NULL;
}

/* The same, noted down if it was not known; there is room (make_room). */
static hd_net_known_t *know(hd_net_t *net, const uint64_t token[2]) {
    hd_net_known_t *known = place_of(net->known, net->known_room, token);
    if (!hd_net_same_token(known->token, token)) {
        memcpy(known->token, token, sizeof(known->token));
        net->n_known++;
    }
    return known;
}

static bool is_dead(const hd_net_t *net, const uint64_t token[2]) {
    const hd_net_known_t *known = hd_gossip_find(net, token);
    return known && known->death;
}

/* Makes room for two more processes. Called with the lock, gives it back while it allocates. False:
 * no memory. */
static bool make_room(hd_net_t *net) {
    while (net->n_known + 2 > net->known_room / 2) {
        uint32_t room = net->known_room ? 2 * net->known_room : FEW;
        hd_unlock(&net->lock);
        hd_net_known_t *table = room <= MOST ? hd_alloc(HD_LINE, room * sizeof(*table)) : NULL;
        hd_lock(&net->lock);
        if (!table) {
            return net->n_known + 2 <= net->known_room / 2;
        }
        hd_net_known_t *old = table; /* if another thread has done it meanwhile */
        if (room > net->known_room) {
            for (uint32_t i = 0; i < net->known_room; i++) {
                const hd_net_known_t *known = &net->known[i];
                if (known->token[0] | known->token[1]) {
                    *place_of(table, room, known->token) = *known;
                }
            }
            old = net->known;
            net->known = table;
            net->known_room = room;
        }
        hd_free(old);
    }
    return true;
}

/* Is that number of the process's new? It is not from then on. */
static bool count(hd_net_known_t *known, uint64_t number) {
    uint64_t behind = known->highest - number;
    if (number > known->highest) {
        uint64_t by = number - known->highest;
        known->seen = (by < HD_NET_NUMBERS ? known->seen << by : 0) | 1;
        known->highest = number;
        return true;
    }
    if (behind >= HD_NET_NUMBERS || known->seen >> behind & 1) {
        return false;
    }
    known->seen |= UINT64_C(1) << behind;
    return true;
}

/* Tells those who await the decision. */
static void settle(hd_net_t *net, uint64_t name) {
    for (hd_net_decision_t *d = net->decisions; d; d = d->next) {
        d->agreed = d->agreed || d->name == name;
    }
}

/* Notes down what the words say. first: by their number, they have not come before. False: it was
 * known. */
static bool note(hd_net_t *net, const hd_words_t *words, bool first) {
    if (words->kind == HD_WORDS_DEAD) {
        hd_net_known_t *subject = know(net, words->subject);
        bool known = subject->death >= words->status;
        subject->before = subject->death;
        subject->death = known ? subject->death : (uint8_t)words->status;
        return !known || (first && hd_net_same_token(words->by, words->subject));
    }
    if (!first) {
        return false;
    }
    if (words->kind == HD_WORDS_AGREED) {
        settle(net, words->subject[0]);
    }
    if (words->kind == HD_WORDS_ABORT || words->kind == HD_WORDS_AGREED) {
        bool known = hd_net_is_recent(net->aborts, HD_NET_ABORTS, net->n_aborts, words->subject[0]);
        if (!known) {
            hd_net_note_recent(net->aborts, HD_NET_ABORTS, &net->n_aborts, words->subject[0]);
        }
        return !known;
    }
    return true;
}

/* --- for others ------------------------------------------------------------------------------- */

bool hd_words_are_new(hd_net_t *net, const hd_words_t *words, const uint64_t from[2]) {
    hd_lock(&net->lock);
    bool known = hd_gossip_find(net, words->by) &&
                 (words->kind != HD_WORDS_DEAD || hd_gossip_find(net, words->subject));
    bool room = known || make_room(net);
    bool of_me = hd_net_same_token(words->subject, net->token) && !is_dead(net, from);
    bool own = hd_net_same_token(words->subject, words->by);
    bool fact = words->kind == HD_WORDS_DEAD && (words->status == HD_DEAD_SURE || of_me || own);
    bool of_all = words->kind == HD_WORDS_ABORT || words->kind == HD_WORDS_AGREED;
    bool counts = of_all || fact || !is_dead(net, words->by);
    bool are_new = room && counts && note(net, words, count(know(net, words->by), words->number));
    hd_unlock(&net->lock);
    if (!room) {
        hd_error("no memory for what other processes say of failures");
    }
    return are_new;
}

void hd_words_forget(hd_net_t *net, const hd_words_t *words) {
    hd_lock(&net->lock);
    hd_net_known_t *by = hd_gossip_find(net, words->by),
                   *subject = hd_gossip_find(net, words->subject);
    if (by && by->highest - words->number < HD_NET_NUMBERS) {
        by->seen &= ~(UINT64_C(1) << (by->highest - words->number));
    }
    if (words->kind == HD_WORDS_DEAD && subject) {
        subject->death = subject->before;
    }
    for (uint32_t i = 0; words->kind == HD_WORDS_ABORT && i < HD_NET_ABORTS; i++) {
        net->aborts[i] = net->aborts[i] == words->subject[0] ? 0 : net->aborts[i];
    }
    hd_unlock(&net->lock);
}

bool hd_net_is_dead(hd_net_t *net, const uint64_t token[2]) {
    hd_lock(&net->lock);
    bool dead = is_dead(net, token);
    hd_unlock(&net->lock);
    return dead;
}

bool hd_net_is_surely_dead(hd_net_t *net, const uint64_t token[2]) {
    hd_lock(&net->lock);
    const hd_net_known_t *known = hd_gossip_find(net, token);
    bool sure = known && known->death == HD_DEAD_SURE;
    hd_unlock(&net->lock);
    return sure;
}

bool hd_gossip_meet(hd_net_t *net, const uint64_t token[2]) {
    hd_lock(&net->lock);
    bool room = make_room(net);
    if (room) {
        (void)know(net, token);
    }
    hd_unlock(&net->lock);
    return room;
}

void hd_net_await(hd_net_t *net, hd_net_decision_t *decision, uint64_t name) {
    hd_lock(&net->lock);
    if (!decision->known) {
        decision->next = net->decisions;
        net->decisions = decision;
        decision->known = true;
    }
    decision->agreed = (decision->agreed && decision->name == name) ||
                       hd_net_is_recent(net->aborts, HD_NET_ABORTS, net->n_aborts, name);
    decision->name = name;
    hd_unlock(&net->lock);
}

void hd_net_await_no_more(hd_net_t *net, hd_net_decision_t *decision) {
    hd_lock(&net->lock);
    hd_net_decision_t **at = &net->decisions;
    while (*at && *at != decision) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = decision->next;
    }
    decision->known = false;
    hd_unlock(&net->lock);
}

bool hd_net_is_agreed(hd_net_t *net, const hd_net_decision_t *decision) {
    hd_lock(&net->lock);
    bool agreed = decision->agreed;
    hd_unlock(&net->lock);
    return agreed;
}

void hd_gossip_clear(hd_net_t *net) {
    hd_free(net->known);
    net->known = NULL;
    net->known_room = net->n_known = 0;
    net->n_aborts = 0;
}

/* --- telling: under a lane's lock ------------------------------------------------------------- */

/* Words leave in the order of their numbers, whichever threads tell them: else one that is held up
 * might come too late to be told apart. */
static void tell(hd_net_t *net, hd_words_t words) {
    memcpy(words.by, net->token, sizeof(words.by));
    hd_lock(&net->telling);
    words.number = ++net->n_said;
    if (hd_words_are_new(net, &words, net->token) && net->watch) {
        hd_watch_tell(net->watch, &words, sizeof(words), hd_words_last(&words));
    }
    hd_unlock(&net->telling);
}

void hd_net_tell_dead(hd_net_t *net, const uint64_t token[2], hd_death_t death) {
    tell(net, (hd_words_t){.kind = HD_WORDS_DEAD,
                           .status = (int32_t)death,
                           .subject = {token[0], token[1]}});
}

void hd_net_tell_broken(hd_net_t *net, const uint64_t token[2]) {
    tell(net, (hd_words_t){.kind = HD_WORDS_BROKEN, .subject = {token[0], token[1]}});
}

void hd_net_tell_cut(hd_net_t *net, uint64_t host) {
    tell(net, (hd_words_t){.kind = HD_WORDS_CUT, .subject = {net->host, host}});
}

void hd_net_tell_agreed(hd_net_t *net, uint64_t name) {
    tell(net, (hd_words_t){.kind = HD_WORDS_AGREED, .subject = {name, 0}});
}

void hd_net_refuse(hd_net_t *net, uint64_t wire, ucc_status_t why) {
    tell(net, (hd_words_t){.kind = HD_WORDS_ABORT, .status = (int32_t)why, .subject = {wire, 0}});
}

void hd_net_tell_ask(hd_net_t *net, uint64_t ask) {
    tell(net, (hd_words_t){.kind = HD_WORDS_ASK, .subject = {ask, 0}});
}
