/* watch.c: connections to other processes, by which one knows that they are still there. watch.h
 * says what for.
 *
 *   PEER   a process that is kept: wanted by `keeps` of those above
 *   LINE   a connection. Of whom, is known when it is open:
 *
 *        CONNECTING --connected--> GREETING --their hello--> OPEN --goodbye, or the end--> gone
 *             ^                       ^
 *        to a peer                accepted: from whomever, with a deadline
 *
 *        acceptor  --CHALLENGE: a nonce------------------------->  connector
 *                  <--HELLO: both processes, a nonce, a proof----
 *                  --HELLO: both processes, a proof------------->
 *                  <--READY--------------------------------------
 *
 * A proof is a hash of both identities and both nonces, keyed by the acceptor's key (proof.c).
 * Nonces are random, so a proof is good for one connection; it says whose it is, so nobody can hand
 * it back. What comes after the hellos has no proof of its own: who can change what is on its way
 * between two processes can put words there. Words are sent when the other's hello has come.
 *
 * A frame is {magic, kind, version, length} and up to HD_WATCH_WORDS bytes; a line that brings
 * anything else is closed, and if it was open, its process counts as lost.
 *
 * WORDS are kept in a log, in the order in which they were told, and each line has its place in it.
 * Who reads them says how many it has taken (TAKEN), and no more than WINDOW are on the way: so a
 * process that computes for long finds its socket never full, which its kernel's peer would take
 * for its end, and no word is lost on a line that is slow. Lines that are MOST_WORDS behind miss
 * the oldest. Lines to come hear what lasts of the last KEPT_WORDS, and before those what lasts for
 * ever, which stays in the log, in its order.
 *
 * The one who is told to connects, and tries again; the other waits, and connects, too, if nothing
 * comes: of two who have died before they were connected, somebody must notice the first.
 */
#include "net/watch.h"

#include "core/descriptors.h"
#include "core/fork.h"
#include "core/log.h"
#include "core/mem.h"
#include "threads/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdalign.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FRAME_MAGIC = 0x4865,
    VERSION = 1, /* of frames; before there were proofs: 0 */
    HEAD = 8,
    FRAME = HEAD + HD_WATCH_MAIL,
    SENDING = 16 * (HEAD + HD_WATCH_WORDS),
    MOST_MAIL = 4096, /* of a line */
    STRANGERS = 64,   /* accepted lines that have not said who they are */
    WINDOW = 32,
    KEPT_WORDS = 1024, /* for lines to come */
    FEW_WORDS = 2 * KEPT_WORDS,
    MOST_WORDS = 1 << 16,
    MORE_LINES = 16, /* descriptors */
    SPARE = 64,      /* likewise */
    EVENTS = 32
};
/* Who connects waits for long: the other process may compute, and each new try leaves a connection
 * for it to clear away. */
static const double greeting_time = 5, own_greeting_time = 60, connecting_time = 2,
                    least_connecting_time = 0.25, retry_after = 0.5, patience = 1,
                    first_retry = 0.01, default_lost_after = 4, more_if_unreached = 1,
                    tend_every = 0.25,
                    mute_after = 2; /* twice as long as a host that is there keeps silent */

/* READY: the connector has the acceptor's hello. TAKEN: so many words and mails, modulo 2^32. */
typedef enum kind { HELLO = 1, GOODBYE, WORDS, READY, TAKEN, MAIL, CHALLENGE } kind_t;

typedef struct head {
    uint16_t magic;
    uint8_t kind, version;
    uint32_t length;
} head_t;

typedef struct hello {
    uint64_t from[2], to[2];
    uint64_t nonce[2]; /* of the connector; the acceptor's hello says it again */
    uint64_t proof[2];
} hello_t;

_Static_assert(sizeof(head_t) == HEAD && sizeof(hello_t) <= HD_WATCH_WORDS, "frames fit");

typedef struct peer {
    uint64_t identity[2];
    uint32_t keeps, lines;
    bool lost, gone; /* gone: has said goodbye */
    bool silent;     /* how it was lost: it is asked anew if somebody keeps it again */
    bool reached;    /* a connection to it has been made, or its host has made one */
    hd_watch_record_t record;
    uint32_t attempt, good; /* good: that by which it has been reached as itself; 0: none has */
    uint64_t due;           /* ticks: when to connect, if there is no line; 0: never */
    uint32_t tries;         /* rounds of all addresses in vain */
    uint64_t down_since; /* ticks: nothing has come of any address since then; 0: something has */
    bool warned;
    struct peer *next;
} peer_t;

/* What waits to be sent by one line alone. */
typedef struct mail {
    struct mail *next;
    size_t n;
    uint8_t bytes[];
} mail_t;

typedef enum state { CONNECTING, GREETING, OPEN, CLOSED } state_t;

typedef struct line {
    int fd;
    state_t state;
    bool accepted;
    bool ready;       /* both have the other's hello: its end is the end of the process */
    uint32_t attempt; /* of the peer's, by which it was begun */
    peer_t *peer;     /* NULL: not known yet, or not kept */
    uint64_t identity[2], deadline;
    bool challenged;                 /* the challenge has been sent, or has come */
    uint64_t challenge[2], nonce[2]; /* the acceptor's nonce, and the connector's */
    uint64_t serial;                 /* no other line has it; never 0 */
    uint64_t at;                     /* of the log: the next word to send */
    uint64_t since;                  /* and the first one that was told after it had been opened */
    uint32_t sent, theirs;           /* words sent, and those of them that the other has taken */
    uint32_t taken, told_taken;      /* words taken, and those of them that the other knows of */
    uint8_t in[FRAME], out[SENDING];
    size_t n_in, n_out;
    mail_t *mail, *last_mail;
    uint32_t n_mail;
    struct line *next;
} line_t;

typedef struct word {
    uint64_t from; /* serial of the line that has brought it; 0: this process's own */
    hd_watch_relay_t whom;
    size_t n;
    uint8_t bytes[HD_WATCH_WORDS];
} word_t;

/* Of the process's watch: static, so that forks find the watch whole. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* whether the thread inside may be cancelled: not there, where it would keep the lock */
static int cancelling;

static void take(void) {
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_mutex_lock(&lock);
    cancelling = before;
}

static void give_back(void) {
    int before = cancelling;
    pthread_mutex_unlock(&lock);
    pthread_setcancelstate(before, NULL);
}

static bool try_take(void) {
    bool taken = pthread_mutex_trylock(&lock) == 0;
    if (taken) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    }
    return taken;
}

struct hd_watch {
    hd_watch_params_t params;
    int epoll, listener, wide; /* wide: for other hosts; -1: none */
    bool listens_wide;
    uint64_t deaf_until; /* ticks: no descriptor was left for who came; 0: it listens */
    bool told_deaf, told_version;
    uint64_t tended_at; /* ticks: when descriptors are counted, and silent lines ended, again */
    hd_watch_record_t record;
    size_t record_bytes;
    peer_t *peers;
    line_t *lines;
    uint32_t strangers;
    bool has_closed; /* lines to be freed */
    uint64_t serials;
    /* The log of words: those from `first` to `end`, by their numbers modulo `room`. */
    word_t *word;
    uint32_t room;
    uint64_t first, end;
};

static uint64_t in_seconds(double seconds) {
    return hd_ticks() + hd_seconds_to_ticks(seconds);
}

/* In a time that does not depend on what they are. */
static bool is_same(const uint64_t a[2], const uint64_t b[2]) {
    return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;
}

/* --- lines: all of this under the lock -------------------------------------------------------- */

static void take_first(line_t *line) {
    mail_t *mail = line->mail;
    line->mail = mail->next;
    line->n_mail--;
    hd_free(mail);
}

static void close_line(hd_watch_t *w, line_t *line) {
    if (line->state == CLOSED) {
        return;
    }
    while (line->mail) {
        take_first(line);
    }
    w->strangers -= line->accepted && line->state != OPEN;
    line->state = CLOSED;
    /* Closing alone would leave it in the set while a child of this process has a copy. */
    (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, line->fd, NULL);
    close(line->fd);
    if (line->peer) {
        line->peer->lines--;
        line->peer->due = in_seconds(retry_after);
        line->peer = NULL;
    }
    w->has_closed = true;
}

static void free_closed(hd_watch_t *w) {
    line_t **at = &w->lines;
    while (w->has_closed && *at) {
        line_t *line = *at;
        if (line->state == CLOSED) {
            *at = line->next;
            hd_free(line);
        } else {
            at = &line->next;
        }
    }
    w->has_closed = false;
}

static peer_t *find(hd_watch_t *w, const uint64_t identity[2]) {
    peer_t *peer = w->peers;
    while (peer && !is_same(peer->identity, identity)) {
        peer = peer->next;
    }
    return peer;
}

static void lose(hd_watch_t *w, peer_t *peer, hd_watch_loss_t how) {
    if (!peer->lost && !peer->gone) {
        peer->lost = true;
        peer->silent = how == HD_WATCH_SILENT || how == HD_WATCH_UNREACHED;
        w->params.lost(w->params.arg, peer->identity, how);
    }
}

static bool is_here(const hd_watch_t *w, const peer_t *peer) {
    return peer->record.host == w->params.host;
}

/* The kernel gives a line that is open up for want of answers alone, and then says what it was told
 * meanwhile, if anything was. */
static bool is_silence(int why) {
    return why == ETIMEDOUT || why == EHOSTUNREACH || why == ENETUNREACH || why == EHOSTDOWN;
}

/* It has ended, or brings what nobody sends. why: an errno; 0: its end has come. One that was
 * accepted may have been given up by its other end before that knew that it was: then the process
 * is asked anew. So it is after a reset from another host, which may come of that host's own
 * time-out, or of what lies between, and after an error that is none of the other process. */
static void break_line(hd_watch_t *w, line_t *line, int why) {
    peer_t *peer = line->peer;
    bool ready = line->ready, greeting = line->state == GREETING;
    close_line(w, line);
    if (peer && ready) {
        bool sure = why == 0 || why == EPIPE;
        if (sure || (is_here(w, peer) && (why == ECONNRESET || why == EPROTO))) {
            lose(w, peer, HD_WATCH_DEAD);
        } else if (!is_here(w, peer) && (is_silence(why) || why == EPROTO)) {
            lose(w, peer, HD_WATCH_SILENT);
        } else {
            peer->down_since = hd_ticks();
            peer->due = peer->down_since;
        }
    } else if (peer && greeting && !peer->down_since) {
        peer->down_since = hd_ticks();
    }
}

static void await(hd_watch_t *w, const line_t *line, uint32_t events, int operation) {
    struct epoll_event event = {.events = events, .data.ptr = (void *)(uintptr_t)line};
    (void)epoll_ctl(w->epoll, operation, line->fd, &event);
}

static void flush(hd_watch_t *w, line_t *line) {
    if (line->state == CONNECTING || line->state == CLOSED) {
        return;
    }
    while (line->n_out) {
        ssize_t sent = send(line->fd, line->out, line->n_out, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno != EAGAIN && errno != EWOULDBLOCK) {
                break_line(w, line, errno);
                return;
            }
            break;
        }
        line->n_out -= (size_t)sent;
        memmove(line->out, line->out + sent, line->n_out);
    }
    await(w, line, line->n_out ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
}

/* False: there is no room before the line has taken more. */
static bool put(line_t *line, kind_t kind, const void *bytes, size_t n) {
    head_t head = {FRAME_MAGIC, (uint8_t)kind, VERSION, (uint32_t)n};
    if (line->n_out + HEAD + n > sizeof(line->out)) {
        return false;
    }
    memcpy(line->out + line->n_out, &head, HEAD);
    if (n) {
        memcpy(line->out + line->n_out + HEAD, bytes, n);
    }
    line->n_out += HEAD + n;
    return true;
}

/* Was it told before the line was opened, and not for such lines? */
static bool is_past(const line_t *line, const word_t *word) {
    return line->at < line->since &&
           (word->whom == HD_WATCH_THOSE_HERE ||
            (word->whom == HD_WATCH_ALL && line->at + KEPT_WORDS < line->since));
}

/* Says how many words were taken, and sends what may be sent of the log. */
static void put_words(hd_watch_t *w, line_t *line) {
    if (line->state != OPEN) {
        return;
    }
    if (line->taken != line->told_taken && put(line, TAKEN, &line->taken, sizeof(line->taken))) {
        line->told_taken = line->taken;
    }
    line->at = line->at > w->first ? line->at : w->first;
    for (; line->at < w->end; line->at++) {
        const word_t *word = &w->word[line->at % w->room];
        if (word->from == line->serial || is_past(line, word)) {
            continue;
        }
        if (line->sent - line->theirs == WINDOW || !put(line, WORDS, word->bytes, word->n)) {
            break;
        }
        line->sent++;
    }
}

/* Sends what is for this line alone, after all words; half of the window stays free for those. */
static void send_mail(hd_watch_t *w, line_t *line) {
    bool goes = true;
    while (goes && line->state == OPEN && line->mail) {
        goes = line->at == w->end && line->sent - line->theirs < WINDOW / 2 &&
               put(line, MAIL, line->mail->bytes, line->mail->n);
        if (goes) {
            take_first(line);
            line->sent++;
            flush(w, line);
        }
    }
}

static bool draw(uint64_t number[2]) {
    enum { BYTES = 16 };
    return getrandom(number, BYTES, 0) == BYTES;
}

/* What the acceptor, or the connector, of this line proves by. */
static void prove(const hd_watch_t *w, const line_t *line, bool accepts, uint64_t proof[2]) {
    const uint64_t *mine = w->params.identity, *theirs = line->identity;
    const uint64_t *key = line->accepted ? w->record.key : line->peer->record.key;
    hd_watch_proven_t proven = {.version = VERSION, .accepts = accepts};
    memcpy(proven.connector, line->accepted ? theirs : mine, sizeof(proven.connector));
    memcpy(proven.acceptor, line->accepted ? mine : theirs, sizeof(proven.acceptor));
    memcpy(proven.connector_nonce, line->nonce, sizeof(line->nonce));
    memcpy(proven.acceptor_nonce, line->challenge, sizeof(line->challenge));
    hd_watch_prove(key, &proven, proof);
}

static bool greet(const hd_watch_t *w, line_t *line) {
    hello_t hello;
    memcpy(hello.from, w->params.identity, sizeof(hello.from));
    memcpy(hello.to, line->identity, sizeof(hello.to));
    memcpy(hello.nonce, line->nonce, sizeof(hello.nonce));
    prove(w, line, line->accepted, hello.proof);
    return put(line, HELLO, &hello, sizeof(hello));
}

static line_t *add_line(hd_watch_t *w, int fd, state_t state, bool between_hosts) {
    line_t *line = hd_alloc(64, sizeof(*line));
    if (!line) {
        close(fd);
        return NULL;
    }
    hd_watch_tune(fd, between_hosts, w->params.lost_after);
    line->fd = fd;
    line->state = state;
    line->serial = ++w->serials;
    line->next = w->lines;
    w->lines = line;
    await(w, line, state == CONNECTING ? EPOLLOUT : EPOLLIN, EPOLL_CTL_ADD);
    return line;
}

static double time_to_lose(const hd_watch_t *w) {
    return w->params.lost_after > 0 ? w->params.lost_after : default_lost_after;
}

/* Of one that has been reached before, its host or link must be gone: a process's kernel answers,
 * whatever the process does. One that never was may be behind a wall: whoever is told has to know
 * whether it was heard of otherwise. This host is there, and refuses who asks for one that is
 * gone. */
static void lose_if_down_for_long(hd_watch_t *w, peer_t *peer) {
    double limit = time_to_lose(w) + (peer->reached ? 0 : more_if_unreached);
    uint64_t now = hd_ticks();
    if (!is_here(w, peer) && (peer->reached || peer->record.n) &&
        now - peer->down_since > hd_seconds_to_ticks(limit)) {
        lose(w, peer, peer->reached ? HD_WATCH_SILENT : HD_WATCH_UNREACHED);
    }
}

/* Begins a line to the peer, by its next address. */
static void begin_line(hd_watch_t *w, peer_t *peer) {
    peer->down_since = peer->down_since ? peer->down_since : hd_ticks();
    errno = 0;
    int fd = hd_watch_connect(&peer->record, w->params.host, &peer->attempt);
    if (fd < 0 && errno == ECONNREFUSED && is_here(w, peer)) {
        lose(w, peer, HD_WATCH_DEAD);
        return;
    }
    bool is_out = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                             errno == ENOMEM); /* of something: it says nothing of the peer */
    if (is_out) {
        (void)hd_descriptors_reserve(MORE_LINES);
    }
    line_t *line = fd < 0 ? NULL : add_line(w, fd, CONNECTING, !is_here(w, peer));
    if (!line) {
        double wait = first_retry * (double)(1u << (peer->tries < 7 ? peer->tries : 7));
        peer->attempt = 0;
        peer->tries++;
        peer->due = in_seconds(wait < patience ? wait : patience);
        if (fd < 0 && !is_out) {
            lose_if_down_for_long(w, peer);
        }
        if (!peer->lost && !peer->warned && peer->tries > 10) {
            char name[HD_WATCH_NAME];
            peer->warned = true;
            hd_watch_name(&peer->record, w->params.host, name);
            hd_warn("the process at %s, of a team, can't be reached to watch it: its end may go "
                    "unnoticed",
                    name);
        }
        return;
    }
    /* all are to be tried before the peer counts as lost */
    double each = is_here(w, peer) ? connecting_time : time_to_lose(w) / peer->record.n;
    each = each < least_connecting_time ? least_connecting_time : each;
    line->deadline = in_seconds(each < connecting_time ? each : connecting_time);
    line->attempt = peer->attempt;
    line->peer = peer;
    peer->lines++;
    memcpy(line->identity, peer->identity, sizeof(line->identity));
}

/* Has this host that address of the peer's, too, such as a bridge's for containers? Then it is this
 * host that answers. */
static bool is_of_mine(const hd_watch_t *w, const peer_t *peer, uint32_t attempt) {
    bool is = false;
    for (uint32_t i = 0; i < w->record.n && attempt && !is; i++) {
        is = memcmp(&w->record.line[i], &peer->record.line[attempt - 1],
                    sizeof(w->record.line[i])) == 0;
    }
    return is;
}

/* Nobody listens there any more: the process is gone. One of another host may not listen yet; and
 * other addresses than the one by which it has been reached may be somebody else's. */
static void refused(hd_watch_t *w, line_t *line, int why) {
    peer_t *peer = line->peer;
    bool dead = why == ECONNREFUSED && peer && (is_here(w, peer) || peer->good == line->attempt);
    if (peer && why == ECONNREFUSED && !is_of_mine(w, peer, line->attempt)) {
        peer->down_since = 0; /* its host has answered */
    }
    close_line(w, line);
    if (dead) {
        lose(w, peer, HD_WATCH_DEAD);
    } else if (peer) {
        peer->due = hd_ticks(); /* the next address */
    }
}

static void connected(hd_watch_t *w, line_t *line) {
    int why = 0;
    socklen_t size = sizeof(why);
    if (getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0 || why) {
        refused(w, line, why);
        return;
    }
    line->state = GREETING;
    line->deadline = in_seconds(own_greeting_time);
    if (line->peer) {
        line->peer->reached = true;
        line->peer->down_since = 0;
    }
    flush(w, line); /* from now on, what comes counts */
}

/* --- what comes ------------------------------------------------------------------------------- */

/* Where an accepted line comes from, its process listens, too: if it is refused there, it is gone.
 * So all who had a line know it, not only those who had connected. */
static void note_address(line_t *line) {
    peer_t *peer = line->peer;
    if (peer && line->accepted && line->ready && !peer->good) {
        peer->good = hd_watch_attempt_from(&peer->record, line->fd);
    }
}

static void open_line(hd_watch_t *w, line_t *line) {
    w->strangers -= line->accepted;
    line->state = OPEN;
    peer_t *peer = line->peer ? line->peer : find(w, line->identity);
    if (peer && !line->peer) {
        peer->lines++;
    }
    line->peer = peer;
    if (peer) {
        peer->gone = false;
        peer->lost = peer->lost && !peer->silent; /* its end is to be noticed again */
        peer->reached = true;
        peer->attempt = peer->tries = 0;
        peer->down_since = 0;
    }
    if (!line->accepted) {
        line->ready = true;
        peer->good = line->attempt;
        put(line, READY, NULL, 0);
    }
    line->since = w->end;
    line->at = w->first;
}

/* The other end has accepted: it hears who this is. */
static bool take_challenge(const hd_watch_t *w, line_t *line, const uint8_t *bytes, size_t n) {
    if (n != sizeof(line->challenge) || line->state != GREETING || line->challenged ||
        !line->peer || !draw(line->nonce)) {
        return false;
    }
    line->challenged = true;
    memcpy(line->challenge, bytes, n);
    return greet(w, line);
}

static bool take_hello(hd_watch_t *w, line_t *line, const uint8_t *bytes, size_t n) {
    hello_t hello;
    uint64_t proof[2];
    if (n != sizeof(hello) || line->state != GREETING || !line->challenged ||
        (!line->accepted && !line->peer)) {
        return false;
    }
    memcpy(&hello, bytes, sizeof(hello));
    if (line->accepted) {
        memcpy(line->identity, hello.from, sizeof(hello.from));
        memcpy(line->nonce, hello.nonce, sizeof(hello.nonce));
    }
    prove(w, line, !line->accepted, proof);
    if (!is_same(hello.to, w->params.identity) || !is_same(hello.from, line->identity) ||
        !is_same(hello.proof, proof) || (line->accepted && !greet(w, line))) {
        return false;
    }
    open_line(w, line);
    return true;
}

/* The first word that has to be kept: all lines have sent those before it. */
static uint64_t first_needed(const hd_watch_t *w) {
    uint64_t needed = w->end - w->first > KEPT_WORDS ? w->end - KEPT_WORDS : w->first;
    for (const line_t *line = w->lines; line; line = line->next) {
        needed = line->state == OPEN && line->at < needed ? line->at : needed;
    }
    return needed > w->first ? needed : w->first;
}

/* Forgets words before that one. Those that last for ever move up to it. */
static void forget(hd_watch_t *w, uint64_t needed) {
    uint64_t first = needed;
    for (uint64_t i = needed; i-- > w->first;) {
        if (w->word[i % w->room].whom == HD_WATCH_EVER) {
            w->word[--first % w->room] = w->word[i % w->room];
        }
    }
    w->first = first;
}

static bool enlarge_log(hd_watch_t *w) {
    uint32_t room = w->room ? 2 * w->room : FEW_WORDS;
    word_t *word = room <= MOST_WORDS ? hd_alloc(64, room * sizeof(*word)) : NULL;
    for (uint64_t i = w->first; word && i < w->end; i++) {
        word[i % room] = w->word[i % w->room];
    }
    if (word) {
        hd_free(w->word);
        w->word = word;
        w->room = room;
    }
    return word != NULL;
}

static void make_room(hd_watch_t *w) {
    if (w->end - w->first < w->room) {
        return;
    }
    forget(w, first_needed(w));
    /* before it is full again, a part of it has to be free: forgetting looks at all words */
    if (w->end - w->first > w->room - w->room / 4 && !enlarge_log(w)) {
        forget(w, w->end - (w->room - w->room / 4)); /* the slowest lines miss those */
        w->first += w->end - w->first == w->room;
    }
}

static void tell_all(hd_watch_t *w, const void *words, size_t n, hd_watch_relay_t whom,
                     const line_t *from) {
    make_room(w);
    word_t *word = &w->word[w->end++ % w->room];
    word->from = from ? from->serial : 0;
    word->whom = whom;
    word->n = n;
    memcpy(word->bytes, words, n);
    for (line_t *line = w->lines; line; line = line->next) {
        if (line->state == OPEN &&
            line != from) { /* that one is flushed by whoever takes from it */
            put_words(w, line);
            flush(w, line);
        }
    }
}

/* False: it can't have taken so many. */
static bool take_taken(line_t *line, const uint8_t *bytes, size_t n) {
    uint32_t taken;
    if (n != sizeof(taken) || line->state != OPEN) {
        return false;
    }
    memcpy(&taken, bytes, sizeof(taken));
    if (taken - line->theirs > line->sent - line->theirs) {
        return false;
    }
    line->theirs = taken;
    return true;
}

/* False: nobody of ours says such a thing. */
static bool take_frame(hd_watch_t *w, line_t *line, kind_t kind, const uint8_t *bytes, size_t n) {
    hd_watch_relay_t relay;
    switch (kind) {
    case CHALLENGE:
        return take_challenge(w, line, bytes, n);
    case HELLO:
        return take_hello(w, line, bytes, n);
    case READY:
        line->ready = line->state == OPEN && line->accepted;
        note_address(line);
        return line->ready;
    case GOODBYE:
        if (line->state != OPEN) {
            return false;
        }
        if (line->peer && !line->peer->gone && !line->peer->lost) {
            line->peer->gone = true;
            w->params.lost(w->params.arg, line->peer->identity, HD_WATCH_LEFT);
        }
        close_line(w, line);
        return true;
    case WORDS:
        if (line->state != OPEN) {
            return false;
        }
        line->taken++;
        relay = w->params.heard(w->params.arg, line->identity, bytes, n);
        if (relay != HD_WATCH_NOBODY) {
            tell_all(w, bytes, n, relay, line);
        }
        return true;
    case TAKEN:
        return take_taken(line, bytes, n);
    case MAIL:
        if (line->state != OPEN) {
            return false;
        }
        line->taken++;
        if (w->params.mail) {
            w->params.mail(w->params.arg, bytes, n);
        }
        return true;
    }
    return false;
}

/* Once: anybody may connect. */
static void tell_version(hd_watch_t *w, unsigned version) {
    if (!w->told_version) {
        w->told_version = true;
        hd_warn("a connection to watch by is refused: its frames are of version %u, those of this "
                "process of version %u",
                version, (unsigned)VERSION);
    }
}

static void take_in(hd_watch_t *w, line_t *line) {
    while (line->state == GREETING || line->state == OPEN) {
        ssize_t got =
            recv(line->fd, line->in + line->n_in, sizeof(line->in) - line->n_in, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            break;
        }
        if (got <= 0) {
            break_line(w, line, got ? errno : 0);
            return;
        }
        line->n_in += (size_t)got;
        head_t head;
        while (line->n_in >= HEAD) {
            memcpy(&head, line->in, HEAD);
            uint32_t most = head.kind == MAIL ? HD_WATCH_MAIL : HD_WATCH_WORDS;
            if (head.magic == FRAME_MAGIC && head.version != VERSION) {
                tell_version(w, head.version);
            }
            if (head.magic != FRAME_MAGIC || head.version != VERSION || head.length > most) {
                break_line(w, line, EPROTO);
                return;
            }
            if (line->n_in < HEAD + head.length) {
                break;
            }
            if (!take_frame(w, line, (kind_t)head.kind, line->in + HEAD, head.length)) {
                break_line(w, line, EPROTO);
                return;
            }
            if (line->state == CLOSED) {
                return;
            }
            line->n_in -= HEAD + head.length;
            memmove(line->in, line->in + HEAD + head.length, line->n_in);
        }
    }
    put_words(w, line);
    flush(w, line);
    send_mail(w, line);
}

static void hear(const hd_watch_t *w, uint32_t events) {
    const int *listener[] = {&w->listener, &w->wide};
    for (size_t i = 0; i < 2; i++) {
        struct epoll_event event = {.events = events, .data.ptr = (void *)(uintptr_t)listener[i]};
        if (*listener[i] >= 0) {
            (void)epoll_ctl(w->epoll, EPOLL_CTL_MOD, *listener[i], &event);
        }
    }
}

/* Too many descriptors: who sleeps until somebody comes must not be woken all the time
 * meanwhile. */
static void be_deaf(hd_watch_t *w) {
    int why = errno;
    if (hd_descriptors_reserve(MORE_LINES)) {
        return; /* they can be had at the next look */
    }
    if (!w->told_deaf) {
        w->told_deaf = true;
        hd_warn("no descriptor for a process that would watch this one: %s", strerror(why));
    }
    w->deaf_until = in_seconds(patience);
    hear(w, 0);
}

/* Whoever it is, from its host one can come here: if nothing does any more, that host is gone. */
static void note_reached(hd_watch_t *w, int fd) {
    for (peer_t *peer = w->peers; peer; peer = peer->next) {
        peer->reached = peer->reached || hd_watch_attempt_from(&peer->record, fd);
    }
}

/* Those who have not said who they are: the one that came first makes room. */
static void drop_stranger(hd_watch_t *w) {
    line_t *oldest = NULL;
    for (line_t *line = w->lines; line; line = line->next) {
        oldest = line->accepted && line->state == GREETING ? line : oldest;
    }
    if (oldest) {
        take_in(w, oldest);
    }
    if (oldest && oldest->state == GREETING) {
        close_line(w, oldest);
    }
}

static void challenge(hd_watch_t *w, line_t *line) {
    line->challenged = draw(line->challenge);
    if (!line->challenged) {
        close_line(w, line);
        return;
    }
    put(line, CHALLENGE, line->challenge, sizeof(line->challenge));
    flush(w, line);
}

static void accept_some(hd_watch_t *w, int listener) {
    for (uint32_t i = 0; i < STRANGERS; i++) { /* others come with the next look */
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                be_deaf(w);
            }
            return; /* those who connect wait */
        }
        if (!hd_watch_is_ours(&w->record, fd)) {
            close(fd);
            continue;
        }
        if (w->strangers >= STRANGERS) {
            drop_stranger(w);
        }
        line_t *line = add_line(w, fd, GREETING, listener == w->wide);
        if (line) {
            line->accepted = true;
            note_reached(w, fd);
            line->deadline = in_seconds(greeting_time);
            w->strangers++;
            challenge(w, line);
        }
    }
}

/* The kernel ends a line on which nothing was under way. On others it counts from when that was
 * sent, which may be the very word that the host is silent. A host that is there may keep silent
 * for a second, too, when nothing is said. */
static void end_silent_lines(hd_watch_t *w) {
    double limit = time_to_lose(w) > mute_after ? time_to_lose(w) : mute_after;
    for (line_t *line = w->lines; line; line = line->next) {
        if (line->state != OPEN || !line->peer || is_here(w, line->peer) ||
            !hd_watch_has_ceased(line->fd, limit)) {
            continue;
        }
        take_in(w, line); /* what came before it fell silent */
        if (line->state == OPEN) {
            hd_watch_abort(line->fd); /* its end would say that this process is gone */
            break_line(w, line, ETIMEDOUT);
        }
    }
}

static void look_at_clock(hd_watch_t *w) {
    uint64_t now = hd_ticks();
    if (now > w->tended_at) { /* descriptors: others may connect at any time, and UCX takes want of
                                 them badly */
        w->tended_at = in_seconds(tend_every);
        (void)hd_descriptors_reserve(SPARE);
        end_silent_lines(w);
    }
    if (w->deaf_until && now > w->deaf_until) {
        w->deaf_until = 0;
        hear(w, EPOLLIN);
    }
    for (line_t *line = w->lines; line; line = line->next) {
        if (line->state == CONNECTING && now > line->deadline) {
            refused(w, line, ETIMEDOUT);
        } else if (line->state == GREETING && now > line->deadline) {
            close_line(w, line);
        }
    }
    for (peer_t *peer = w->peers; peer; peer = peer->next) {
        if (!peer->lines && !peer->lost && !peer->gone && peer->due && now > peer->due) {
            begin_line(w, peer);
        }
    }
}

bool hd_watch_look(hd_watch_t *w) {
    struct epoll_event event[EVENTS];
    if (!try_take()) {
        return false;
    }
    int n = epoll_wait(w->epoll, event, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        line_t *line = event[i].data.ptr;
        if (event[i].data.ptr == &w->listener || event[i].data.ptr == &w->wide) {
            accept_some(w, *(const int *)event[i].data.ptr);
        } else if (event[i].data.ptr == w) {
            w->params.asked(w->params.arg);
        } else if (line->state == CONNECTING) {
            connected(w, line);
        } else if (line->state != CLOSED) {
            take_in(w, line);
        }
    }
    look_at_clock(w);
    free_closed(w);
    give_back();
    return n > 0;
}

/* --- what is asked ---------------------------------------------------------------------------- */

static bool listen_with(hd_watch_t *w, int *listener) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = listener};
    return epoll_ctl(w->epoll, EPOLL_CTL_ADD, *listener, &event) == 0;
}

hd_watch_t *hd_watch_open(const hd_watch_params_t *params) {
    hd_watch_t *w = hd_alloc(64, sizeof(*w));
    if (!w) {
        hd_error("no memory to watch other processes");
        return NULL;
    }
    hd_fork_guard(&lock);
    w->params = *params;
    w->wide = w->listener = w->epoll = -1;
    hd_watch_describe(&w->record, params->host, params->devices ? params->devices : "");
    if (!draw(w->record.key)) {
        hd_error("no random numbers to watch other processes by: %s", strerror(errno));
        hd_watch_abandon(w);
        return NULL;
    }
    w->listener = hd_watch_bind(false, &w->record.port);
    w->epoll = w->listener < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);
    if (w->epoll < 0 || !listen_with(w, &w->listener) || !enlarge_log(w)) {
        hd_error("no socket or memory to watch other processes by: %s", strerror(errno));
        hd_watch_abandon(w);
        return NULL;
    }
    if (w->record.n) {
        w->wide = hd_watch_bind(true, &w->record.wide);
    }
    if (w->wide < 0) {
        w->record.n = w->record.wide = 0;
    }
    w->record_bytes = offsetof(hd_watch_record_t, line) + w->record.n * sizeof(w->record.line[0]);
    return w;
}

/* A process of another host is kept. */
static void listen_wide(hd_watch_t *w) {
    if (!w->listens_wide && w->wide >= 0) {
        w->listens_wide = true; /* once is enough to fail, too */
        if (!hd_watch_listen(w->wide) || !listen_with(w, &w->wide)) {
            hd_error("no socket to watch processes of other hosts by: %s", strerror(errno));
        }
    }
}

const void *hd_watch_address(const hd_watch_t *w, size_t *bytes) {
    *bytes = w->record_bytes;
    return &w->record;
}

int hd_watch_descriptor(const hd_watch_t *w) {
    return w->epoll;
}

static void refuse_address(const hd_watch_t *w, const hd_watch_record_t *record, size_t bytes) {
    if (record->magic == w->record.magic && record->version != w->record.version) {
        hd_error("a process is watched by version %u of this protocol, this one by version %u",
                 record->version, w->record.version);
    } else {
        hd_error("a process's address of %zu bytes is malformed", bytes);
    }
}

ucc_status_t hd_watch_keep(hd_watch_t *w, const uint64_t identity[2], const void *address,
                           size_t bytes, bool connects) {
    hd_watch_record_t record;
    if (!hd_watch_parse(&record, address, bytes)) {
        refuse_address(w, &record, bytes);
        return UCC_ERR_INVALID_PARAM;
    }
    take();
    peer_t *peer = find(w, identity);
    if (!peer && (peer = hd_alloc(64, sizeof(*peer)))) {
        memcpy(peer->identity, identity, sizeof(peer->identity));
        peer->next = w->peers;
        w->peers = peer;
        for (line_t *line = w->lines; line; line = line->next) { /* it was earlier than I */
            if (line->state == OPEN && !line->peer && is_same(line->identity, identity)) {
                line->peer = peer;
                peer->lines++;
            }
        }
    }
    if (record.host != w->params.host) {
        listen_wide(w);
    }
    if (peer) {
        peer->record = record;
        for (line_t *line = w->lines; line; line = line->next) {
            if (line->peer == peer) {
                note_address(line);
            }
        }
        peer->keeps++;
        peer->gone = false;
        peer->due = connects ? hd_ticks() : in_seconds(patience);
        if (connects && peer->silent) {
            peer->silent = peer->lost = false;
            peer->down_since = 0;
            peer->attempt = 0;
        }
        if (connects && !peer->lines && !peer->lost) {
            begin_line(w, peer);
        }
    }
    give_back();
    if (!peer) {
        hd_error("no memory to watch a process");
    }
    return peer ? UCC_OK : UCC_ERR_NO_MEMORY;
}

/* What has come and is not read would turn the end into a reset, which may overtake the goodbye. */
static void say_goodbye(hd_watch_t *w, line_t *line) {
    for (uint64_t before = UINT64_MAX; line->state == OPEN && line->at != before;) {
        before = line->at;
        line->theirs = line->sent; /* nobody asks how far it is any more */
        put_words(w, line);
        flush(w, line);
    }
    if (line->state == OPEN) {
        put(line, GOODBYE, NULL, 0);
        flush(w, line);
    }
    if (line->state == OPEN && shutdown(line->fd, SHUT_WR) == 0) {
        while (recv(line->fd, line->in, sizeof(line->in), MSG_DONTWAIT) > 0) {
        }
    }
    close_line(w, line);
}

void hd_watch_drop(hd_watch_t *w, const uint64_t identity[2]) {
    take();
    peer_t **at = &w->peers;
    while (*at && !is_same((*at)->identity, identity)) {
        at = &(*at)->next;
    }
    peer_t *peer = *at;
    if (peer && --peer->keeps == 0) {
        *at = peer->next;
        for (line_t *line = w->lines; line; line = line->next) {
            if (line->peer == peer) {
                say_goodbye(w, line);
            }
        }
        hd_free(peer);
    }
    give_back();
}

bool hd_watch_is_settled(hd_watch_t *w, const uint64_t identity[2]) {
    take();
    const peer_t *peer = find(w, identity);
    bool settled = !peer || peer->lost || peer->gone || peer->warned;
    for (const line_t *line = w->lines; line && !settled; line = line->next) {
        settled = line->peer == peer && line->ready;
    }
    give_back();
    return settled;
}

void hd_watch_tell(hd_watch_t *w, const void *words, size_t bytes, hd_watch_relay_t whom) {
    take();
    tell_all(w, words, bytes < HD_WATCH_WORDS ? bytes : HD_WATCH_WORDS, whom, NULL);
    give_back();
}

bool hd_watch_send(hd_watch_t *w, const uint64_t identity[2], const void *bytes, size_t n) {
    bool sent = false;
    take();
    for (line_t *line = w->lines; line && !sent && n <= HD_WATCH_MAIL; line = line->next) {
        mail_t *mail = NULL;
        if (line->state == OPEN && is_same(line->identity, identity) && line->n_mail < MOST_MAIL) {
            mail = hd_alloc(alignof(mail_t), sizeof(*mail) + n);
        }
        if (mail) {
            *mail = (mail_t){.n = n};
            memcpy(mail->bytes, bytes, n);
            *(line->mail ? &line->last_mail->next : &line->mail) = mail;
            line->last_mail = mail;
            line->n_mail++;
            send_mail(w, line);
            sent = true;
        }
    }
    give_back();
    return sent;
}

void hd_watch_also(hd_watch_t *w, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = w};
    if (events == 0) {
        (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, fd, NULL);
    } else if (epoll_ctl(w->epoll, EPOLL_CTL_MOD, fd, &event) != 0) {
        (void)epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event);
    }
}

hd_watch_sign_t hd_watch_sign(hd_watch_t *w, const uint64_t identity[2], double *seconds) {
    hd_watch_sign_t sign = HD_WATCH_NO_SIGN;
    take();
    const peer_t *peer = find(w, identity);
    uint64_t now = hd_ticks();
    if (peer && peer->down_since) {
        sign = HD_WATCH_UNCONNECTED;
        *seconds = now > peer->down_since ? hd_ticks_to_seconds(now - peer->down_since) : 0;
    }
    for (const line_t *line = peer ? w->lines : NULL; line; line = line->next) {
        if (line->peer == peer && line->state == OPEN && sign != HD_WATCH_ANSWERS) {
            *seconds = is_here(w, peer) ? 0 : hd_watch_silence(line->fd);
            sign = *seconds > mute_after ? HD_WATCH_MUTE : HD_WATCH_ANSWERS;
        }
    }
    give_back();
    return sign;
}

uint32_t hd_watch_connected(hd_watch_t *w) {
    uint32_t n = 0;
    take();
    for (const peer_t *peer = w->peers; peer; peer = peer->next) {
        for (const line_t *line = w->lines; line; line = line->next) {
            if (line->peer == peer && line->state == OPEN) {
                n++;
                break;
            }
        }
    }
    give_back();
    return n;
}

bool hd_watch_hears(hd_watch_t *w, const uint64_t identity[2]) {
    bool hears = false;
    take();
    for (const line_t *line = w->lines; line && !hears; line = line->next) {
        hears = line->state == OPEN && is_same(line->identity, identity);
    }
    give_back();
    return hears;
}

bool hd_watch_reaches(hd_watch_t *w, uint64_t host) {
    bool reaches = false;
    take();
    for (const line_t *line = w->lines; line && !reaches; line = line->next) {
        reaches = line->peer && line->peer->record.host == host &&
                  (line->state == OPEN || line->state == GREETING);
    }
    give_back();
    return reaches;
}

void hd_watch_abandon(hd_watch_t *w) {
    while (w->lines) {
        line_t *line = w->lines;
        w->lines = line->next;
        if (line->state != CLOSED) {
            close(line->fd);
        }
        while (line->mail) {
            take_first(line);
        }
        hd_free(line);
    }
    while (w->peers) {
        peer_t *peer = w->peers;
        w->peers = peer->next;
        hd_free(peer);
    }
    hd_free(w->word);
    if (w->epoll >= 0) {
        close(w->epoll);
    }
    if (w->listener >= 0) {
        close(w->listener);
    }
    if (w->wide >= 0) {
        close(w->wide);
    }
    hd_free(w);
}

void hd_watch_close(hd_watch_t *w) {
    take();
    for (line_t *line = w->lines; line; line = line->next) {
        say_goodbye(w, line);
    }
    give_back();
    hd_watch_abandon(w);
}
