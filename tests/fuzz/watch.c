/* watch.c: fuzz target of what comes over the connections by which processes watch each other
 * (src/net/watch.c): hellos, words, goodbyes, whatever strangers send, and ends of all kinds.
 *
 * There is no socket: the linker puts the functions below in the place of those that watch.c calls.
 * An input is a program: each byte an instruction, with operands. It lets connections come, bring
 * bytes, take some, and end, has processes kept and dropped, and lets time pass. Hellos have the
 * right proof unless the input spoils it: this file knows the keys, and which numbers are drawn.
 * Whatever comes: no descriptor is used after its end, and all are closed at last; what is sent are
 * frames, and nothing but a challenge goes to who has not proved that it knows this process's key,
 * nor does that key itself; nobody is lost twice who was not silent, nor who is not kept.
 */
#include "net/watch.h"

#include "fuzz.h"
#include "threads/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { COME, FRAME, BYTES, ENDS, ANSWER, TAKE, LOOK, TIME, KEEP, DROP, TELL, POLICY, INSTRUCTIONS };
enum { LISTENER = 1 << 20, WIDE, EPOLL, FIRST, CONNECTIONS = 192, MOST_BYTES = 768, PEERS = 4 };
/* As watch.c has them. */
enum { MAGIC = 0x4865, VERSION = 1, HEAD = 8, HELLO_BYTES = 64, NONCE_BYTES = 16 };
enum { HELLO = 1, GOODBYE, WORDS, READY, TAKEN, MAIL, CHALLENGE };

typedef struct connection {
    bool open, accepted, listed, answered, ours, near, reset, ended;
    int answer; /* to who connects: an errno, or 0 */
    uint32_t events;
    void *line; /* what the watch calls it */
    uint8_t in[MOST_BYTES];
    size_t n_in, at; /* bytes that come; those that were read */
    size_t room;     /* bytes that it takes yet */
    int refuses;     /* what it says of more: an errno */
    uint8_t out[HEAD + HD_WATCH_MAIL];
    size_t n_out;
    bool greeted, proved; /* the watch has sent its first frame; its other end has proved */
    bool owes;            /* a hello in `in` is still to get its proof: it begins there */
    size_t hello;
    uint64_t challenge[2];
} connection_t;

static const uint64_t me[2] = {UINT64_C(0x1122334455667788), UINT64_C(0x99aabbccddeeff00)};
static const uint64_t here = 5;

static connection_t connection[CONNECTIONS];
static uint32_t n_connections, pending;
static struct {
    bool open, listed;
    uint32_t events;
    void *line;
} listener[2];
static bool epoll_open, tells, pending_ours, pending_near;
static int accept_fails, connect_fails; /* errno; 0: no */
static uint64_t now;
static uint32_t kept[PEERS];
static bool lost[PEERS], silent[PEERS]; /* silent: it may be heard of again */
static uint64_t drawn[2], my_key[2];

/* --- instead of the system --- */

uint64_t __wrap_hd_clock_ns(void);
int __wrap_hd_watch_bind(bool wide, uint16_t *port);
bool __wrap_hd_watch_listen(int fd);
int __wrap_hd_watch_connect(const hd_watch_record_t *record, uint64_t host, uint32_t *attempt);
bool __wrap_hd_watch_is_ours(const hd_watch_record_t *record, int fd);
uint32_t __wrap_hd_watch_attempt_from(const hd_watch_record_t *record, int fd);
void __wrap_hd_watch_tune(int fd, bool between_hosts, double lost_after);
double __wrap_hd_watch_silence(int fd);
bool __wrap_hd_watch_has_ceased(int fd, double seconds);
void __wrap_hd_watch_describe(hd_watch_record_t *record, uint64_t host, const char *devices);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_wait(int epoll, struct epoll_event *event, int n, int ms);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags);
int __wrap_shutdown(int fd, int how);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
ssize_t __wrap_getrandom(void *bytes, size_t n, unsigned flags);
int __wrap_close(int fd);
int __real_close(int fd);
void __real_hd_watch_describe(hd_watch_record_t *record, uint64_t host, const char *devices);

static connection_t *of(int fd) {
    CHECK(fd >= FIRST && fd < FIRST + (int)n_connections && connection[fd - FIRST].open);
    return &connection[fd - FIRST];
}

static int make(bool accepted) {
    connection_t *c = &connection[n_connections];
    if (n_connections == CONNECTIONS) {
        errno = EMFILE;
        return -1;
    }
    c->open = true;
    c->accepted = accepted;
    c->listed = c->answered = c->reset = c->ended = c->greeted = c->proved = c->owes = false;
    c->ours = pending_ours;
    c->near = pending_near;
    c->n_in = c->at = c->n_out = 0;
    c->room = SIZE_MAX;
    c->refuses = EAGAIN;
    return FIRST + (int)n_connections++;
}

/* Numbers that nothing else in here has. */
ssize_t __wrap_getrandom(void *bytes, size_t n, unsigned flags) {
    CHECK(n == sizeof(drawn) && flags == 0);
    drawn[0]++;
    drawn[1] = ~drawn[0];
    memcpy(bytes, drawn, n);
    return (ssize_t)n;
}

uint64_t __wrap_hd_clock_ns(void) {
    return now;
}

int __wrap_hd_watch_bind(bool wide, uint16_t *port) {
    listener[wide].open = true;
    *port = 7;
    return wide ? WIDE : LISTENER;
}

bool __wrap_hd_watch_listen(int fd) {
    CHECK(fd == WIDE && listener[1].open);
    return true;
}

int __wrap_hd_watch_connect(const hd_watch_record_t *record, uint64_t host, uint32_t *attempt) {
    uint32_t most = record->host == host ? 1 : record->n;
    errno = 0;
    if (*attempt >= most) {
        return -1;
    }
    (*attempt)++;
    if (connect_fails) {
        errno = connect_fails;
        return -1;
    }
    return make(false);
}

bool __wrap_hd_watch_is_ours(const hd_watch_record_t *record, int fd) {
    return record->port && of(fd)->ours;
}

uint32_t __wrap_hd_watch_attempt_from(const hd_watch_record_t *record, int fd) {
    return record->port && of(fd)->near;
}

void __wrap_hd_watch_tune(int fd, bool between_hosts, double lost_after) {
    (void)fd, (void)between_hosts, (void)lost_after;
}

double __wrap_hd_watch_silence(int fd) {
    return of(fd)->room == 0 ? 3 : of(fd)->room % 8 == 7 ? 5 : 0;
}

bool __wrap_hd_watch_has_ceased(int fd, double seconds) {
    return __wrap_hd_watch_silence(fd) > seconds;
}

void __wrap_hd_watch_describe(hd_watch_record_t *record, uint64_t host, const char *devices) {
    static hd_watch_record_t none;
    CHECK(devices);
    if (!none.magic) { /* once: it asks the system for its devices */
        __real_hd_watch_describe(&none, host, "no such device");
    }
    *record = none;
    record->host = host;
    record->n = 1;
    record->line[0].family = 4;
}

int __wrap_epoll_create1(int flags) {
    (void)flags;
    epoll_open = true;
    return EPOLL;
}

int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
    bool listens = fd == LISTENER || fd == WIDE;
    bool *listed = listens ? &listener[fd - LISTENER].listed : &of(fd)->listed;
    uint32_t *events = listens ? &listener[fd - LISTENER].events : &of(fd)->events;
    void **line = listens ? &listener[fd - LISTENER].line : &of(fd)->line;
    CHECK(epoll == EPOLL && epoll_open && !(*listed && operation == EPOLL_CTL_ADD));
    if (!*listed && operation != EPOLL_CTL_ADD) {
        errno = ENOENT;
        return -1;
    }
    *listed = operation != EPOLL_CTL_DEL;
    if (*listed) {
        *events = event->events;
        *line = event->data.ptr;
    }
    return 0;
}

static uint32_t ready(const connection_t *c) {
    uint32_t events = c->ended || c->at < c->n_in ? EPOLLIN : 0;
    bool takes = c->accepted || c->answered ? c->room > 0 || c->refuses != EAGAIN : false;
    return (events | (takes ? EPOLLOUT : 0)) & c->events;
}

int __wrap_epoll_wait(int epoll, struct epoll_event *event, int n, int ms) {
    int found = 0;
    CHECK(epoll == EPOLL && epoll_open && ms == 0);
    for (uint32_t i = 0; i < 2; i++) {
        if (listener[i].listed && pending && listener[i].events) {
            event[found].events = EPOLLIN;
            event[found++].data.ptr = listener[i].line;
        }
    }
    for (uint32_t i = 0; i < n_connections && found < n; i++) {
        const connection_t *c = &connection[i];
        if (c->open && c->listed && ready(c)) {
            event[found].events = ready(c);
            event[found++].data.ptr = c->line;
        }
    }
    return found;
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
    CHECK(listener[fd - LISTENER].open && !address && !size && flags);
    if (accept_fails || pending == 0) {
        errno = accept_fails ? accept_fails : EAGAIN;
        return -1;
    }
    pending--;
    return make(true);
}

static void peer_key(uint32_t i, uint64_t key[2]) {
    key[0] = UINT64_C(0xabcdef0000000000) + i;
    key[1] = 77;
}

/* The hello that is about to be read gets its proof: now both nonces are known. */
static void prove(connection_t *c) {
    enum { FROM = 0, TO = 16, NONCE = 32, PROOF = 48 };
    uint8_t *hello = c->in + c->hello + HEAD;
    hd_watch_proven_t proven = {.version = VERSION, .accepts = !c->accepted};
    uint64_t key[2] = {my_key[0], my_key[1]}, from, proof[2];
    memcpy(c->accepted ? proven.connector : proven.acceptor, hello + FROM, NONCE_BYTES);
    memcpy(c->accepted ? proven.acceptor : proven.connector, hello + TO, NONCE_BYTES);
    memcpy(proven.connector_nonce, c->accepted ? (void *)(hello + NONCE) : (void *)drawn,
           NONCE_BYTES);
    memcpy(proven.acceptor_nonce, c->challenge, NONCE_BYTES);
    if (!c->accepted) {
        memcpy(&from, hello + FROM, sizeof(from));
        peer_key((uint32_t)from - 1, key);
    }
    hd_watch_prove(key, &proven, proof);
    memcpy(hello + PROOF, proof, sizeof(proof));
    c->owes = false;
    c->proved = true;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags) {
    connection_t *c = of(fd);
    if (c->owes && c->at == c->hello) {
        prove(c);
    }
    size_t end = c->owes ? c->hello : c->n_in;
    size_t left = end - c->at, some = left < n ? left : n;
    CHECK(flags == MSG_DONTWAIT && n > 0);
    if (some) {
        memcpy(bytes, c->in + c->at, some);
        c->at += some;
        return (ssize_t)some;
    }
    errno = c->reset ? ECONNRESET : EAGAIN;
    return c->ended && !c->reset ? 0 : -1;
}

/* One frame, if it is whole: its bytes. */
static size_t check_frame(connection_t *c) {
    uint16_t magic;
    uint32_t length;
    if (c->n_out < HEAD) {
        return 0;
    }
    memcpy(&magic, c->out, sizeof(magic));
    memcpy(&length, c->out + 4, sizeof(length));
    uint8_t kind = c->out[2];
    CHECK(magic == MAGIC && c->out[3] == VERSION && kind >= HELLO && kind <= CHALLENGE);
    CHECK(length <= (kind == MAIL ? HD_WATCH_MAIL : HD_WATCH_WORDS));
    CHECK((kind == (c->accepted ? CHALLENGE : HELLO)) == !c->greeted);
    CHECK(kind == WORDS || kind == MAIL ||
          length == (kind == HELLO       ? HELLO_BYTES
                     : kind == CHALLENGE ? NONCE_BYTES
                     : kind == TAKEN     ? sizeof(length)
                                         : 0));
    if (c->n_out < HEAD + length) {
        return 0;
    }
    CHECK(kind == CHALLENGE || !c->accepted || c->proved);
    CHECK(kind != HELLO || memcmp(c->out + HEAD, me, sizeof(me)) == 0);
    CHECK(!memmem(c->out, HEAD + length, my_key, sizeof(my_key)));
    if (kind == CHALLENGE) {
        memcpy(c->challenge, c->out + HEAD, NONCE_BYTES);
    }
    c->greeted = true;
    return HEAD + length;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags) {
    connection_t *c = of(fd);
    size_t some = n < c->room ? n : c->room;
    CHECK(flags == (MSG_NOSIGNAL | MSG_DONTWAIT) && n > 0);
    if (some == 0) {
        errno = c->refuses;
        return -1;
    }
    c->room -= c->room == SIZE_MAX ? 0 : some;
    for (size_t at = 0, frame; at < some;) {
        size_t more = some - at < sizeof(c->out) - c->n_out ? some - at : sizeof(c->out) - c->n_out;
        memcpy(c->out + c->n_out, (const uint8_t *)bytes + at, more);
        c->n_out += more;
        at += more;
        while ((frame = check_frame(c)) > 0) {
            c->n_out -= frame;
            memmove(c->out, c->out + frame, c->n_out);
        }
    }
    return (ssize_t)some;
}

int __wrap_shutdown(int fd, int how) {
    CHECK(how == SHUT_WR);
    return of(fd)->reset ? -1 : 0;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size) {
    CHECK(level == SOL_SOCKET && name == SO_ERROR && *size == sizeof(int));
    memcpy(value, &of(fd)->answer, sizeof(int));
    return 0;
}

int __wrap_close(int fd) {
    if (fd < LISTENER) {
        return __real_close(fd);
    }
    if (fd == LISTENER || fd == WIDE) {
        CHECK(listener[fd - LISTENER].open);
        listener[fd - LISTENER].open = listener[fd - LISTENER].listed = false;
    } else if (fd == EPOLL) {
        CHECK(epoll_open);
        epoll_open = false;
    } else {
        of(fd)->open = false;
    }
    return 0;
}

/* --- what the watch says --- */

static void on_lost(void *arg, const uint64_t identity[2], hd_watch_loss_t how) {
    uint32_t i = (uint32_t)identity[0] - 1;
    CHECK(!arg && identity[1] == here && i < PEERS && kept[i] && (!lost[i] || silent[i]));
    lost[i] = how != HD_WATCH_LEFT;
    silent[i] = how == HD_WATCH_SILENT || how == HD_WATCH_UNREACHED;
}

static hd_watch_relay_t on_heard(void *arg, const uint64_t identity[2], const void *words,
                                 size_t n) {
    uint64_t sum = identity[0] + identity[1];
    for (size_t i = 0; i < n; i++) {
        sum += ((const uint8_t *)words)[i];
    }
    CHECK(!arg && n <= HD_WATCH_WORDS && sum != UINT64_MAX);
    return tells ? HD_WATCH_ALL : HD_WATCH_NOBODY;
}

static void on_mail(void *arg, const void *bytes, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += ((const uint8_t *)bytes)[i];
    }
    CHECK(!arg && n <= HD_WATCH_MAIL && sum != UINT64_MAX);
}

/* --- instructions --- */

static void peer_identity(uint32_t i, uint64_t identity[2]) {
    identity[0] = i + 1;
    identity[1] = here;
}

static connection_t *any(input_t *in) {
    uint32_t i = next_byte(in);
    return n_connections ? &connection[i % n_connections] : NULL;
}

static void bring(connection_t *c, const void *bytes, size_t n) {
    if (c && c->n_in + n <= sizeof(c->in)) {
        memcpy(c->in + c->n_in, bytes, n);
        c->n_in += n;
    }
}

/* As a process sends it; some of it may be wrong. */
static void frame(input_t *in) {
    connection_t *c = any(in);
    uint8_t bytes[HEAD + 256] = {MAGIC & 0xff, MAGIC >> 8, 0, VERSION}, how = next_byte(in);
    uint64_t from[2];
    uint32_t length = 0;
    bytes[2] = (uint8_t)(HELLO + how % 5);
    bytes[2] = bytes[2] == READY && how & 32 ? MAIL : bytes[2];
    if (bytes[2] == HELLO) {
        peer_identity(how / 4 % PEERS, from);
        memcpy(bytes + HEAD, from, sizeof(from));
        memcpy(bytes + HEAD + sizeof(from), me, sizeof(me));
        length = HELLO_BYTES;
    } else if (bytes[2] == WORDS || bytes[2] == MAIL) {
        length = next_byte(in);
    } else if (bytes[2] == TAKEN) {
        bytes[HEAD] = next_byte(in);
        length = sizeof(length);
    }
    memcpy(bytes + 4, &length, sizeof(length));
    size_t n = HEAD + length;
    if (how & 64) {
        bytes[next_byte(in) % n] ^= next_byte(in);
    }
    bool whole = bytes[2] == HELLO && !(how & 192) && c && !c->owes;
    if (whole && c->n_in + n <= sizeof(c->in)) {
        c->owes = true;
        c->hello = c->n_in;
    }
    bring(c, bytes, how & 128 ? next_byte(in) % (n + 1) : n);
}

static void come(input_t *in) {
    uint8_t how = next_byte(in);
    pending_ours = how % 8 != 7;
    pending_near = how & 8;
    pending += how >= 240 ? 70 : 1 + how / 16 % 2; /* rarely many, for it takes long */
}

static void answer(connection_t *c, uint8_t how) {
    static const int errors[] = {0, 0, ECONNREFUSED, ETIMEDOUT};
    if (c && !c->answered) {
        c->answered = true;
        c->answer = errors[how % 4];
        if (!(how & 4)) { /* who accepts begins so */
            static const uint8_t challenge[HEAD + NONCE_BYTES] = {
                MAGIC & 0xff, MAGIC >> 8, CHALLENGE, VERSION, NONCE_BYTES, 0, 0, 0, 9, 8, 7};
            memcpy(c->challenge, challenge + HEAD, NONCE_BYTES);
            bring(c, challenge, sizeof(challenge));
        }
    }
}

static void keep(hd_watch_t *watch, input_t *in) {
    uint8_t how = next_byte(in);
    uint64_t identity[2];
    hd_watch_record_t record;
    uint32_t i = how % PEERS;
    __wrap_hd_watch_describe(&record, how & 4 ? here : here + 1, "");
    peer_key(i, record.key);
    record.port = record.wide = how & 8 && how & 64 ? 0 : 7;
    record.n = 1 + (how >> 5 & 1);
    record.line[1].family = 6;
    peer_identity(i, identity);
    kept[i]++; /* before: it may be lost at once */
    if (record.port && how & 16 && silent[i]) {
        lost[i] = silent[i] = false;
    }
    if (hd_watch_keep(watch, identity, &record, sizeof(record), how & 16) != UCC_OK) {
        CHECK(record.port == 0);
        kept[i]--;
    }
}

static void drop(hd_watch_t *watch, uint32_t i) {
    uint64_t identity[2];
    peer_identity(i, identity);
    hd_watch_drop(watch, identity);
    kept[i] -= kept[i] > 0;
    lost[i] = lost[i] && kept[i];
    silent[i] = silent[i] && kept[i];
}

static void policy(input_t *in) {
    static const int errors[] = {0, 0, ECONNREFUSED, EMFILE, EHOSTUNREACH, 0, 0, 0};
    uint8_t how = next_byte(in);
    connect_fails = errors[how % 8];
    accept_fails = how & 8 ? EMFILE : 0;
    tells = how & 16;
}

static void send_mail(hd_watch_t *watch, const void *bytes, size_t n, uint8_t how) {
    uint64_t identity[2];
    double seconds;
    peer_identity(how % PEERS, identity);
    for (uint32_t i = 0; i <= how / PEERS; i++) {
        (void)hd_watch_send(watch, identity, bytes, n);
    }
    CHECK(hd_watch_sign(watch, identity, &seconds) == HD_WATCH_NO_SIGN || kept[how % PEERS]);
}

static void step(hd_watch_t *watch, input_t *in) {
    connection_t *c;
    uint8_t bytes[256];
    size_t n;
    switch (next_byte(in) % INSTRUCTIONS) {
    case COME:
        come(in);
        break;
    case FRAME:
        frame(in);
        break;
    case BYTES:
        c = any(in);
        n = next_byte(in) % 32;
        next_bytes(in, bytes, n);
        bring(c, bytes, n);
        break;
    case ENDS:
        c = any(in);
        n = next_byte(in);
        if (c) {
            c->ended = true;
            c->reset = n & 1;
        }
        break;
    case ANSWER:
        c = any(in);
        answer(c, next_byte(in));
        break;
    case TAKE:
        c = any(in);
        n = next_byte(in);
        if (c) {
            c->room = n == 255 ? SIZE_MAX : n;
            c->refuses = n & 1 ? EAGAIN : EPIPE;
        }
        break;
    case TIME:
        now += (uint64_t)next_byte(in) * 50000000;
        break;
    case KEEP:
        keep(watch, in);
        break;
    case DROP:
        drop(watch, next_byte(in) % PEERS);
        break;
    case TELL:
        n = next_byte(in);
        memset(bytes, 0x66, sizeof(bytes));
        if (n >= 192) {
            send_mail(watch, bytes, n, next_byte(in));
            break;
        }
        n %= HD_WATCH_WORDS + 1;
        hd_watch_tell(watch, bytes, n, (hd_watch_relay_t)(HD_WATCH_THOSE_HERE + n % 3));
        break;
    case POLICY:
        policy(in);
        break;
    default:
        now += 1000000;
        hd_watch_look(watch);
        break;
    }
}

static void look_at_all(hd_watch_t *watch) {
    CHECK(hd_watch_connected(watch) <= PEERS);
    for (uint32_t i = 0; i < PEERS; i++) {
        uint64_t identity[2];
        peer_identity(i, identity);
        CHECK(hd_watch_is_settled(watch, identity) || kept[i]);
        CHECK(!lost[i] || silent[i] || hd_watch_is_settled(watch, identity));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input_t in = {data, size};
    hd_watch_params_t params = {.identity = {me[0], me[1]},
                                .host = here,
                                .lost = on_lost,
                                .heard = on_heard,
                                .mail = on_mail};
    setenv("HEDDLE_LOG_LEVEL", "fatal", 0);
    hd_clock_counts_cycles = false; /* so the time is what the program says */
    n_connections = pending = 0;
    connect_fails = accept_fails = 0;
    pending_ours = true;
    pending_near = tells = false;
    now = 1000000000;
    memset(kept, 0, sizeof(kept));
    memset(lost, 0, sizeof(lost));
    memset(silent, 0, sizeof(silent));
    hd_watch_t *watch = hd_watch_open(&params);
    CHECK(watch);
    memcpy(my_key, drawn, sizeof(my_key)); /* the first number that it has drawn */
    while (in.left > 0) {
        step(watch, &in);
    }
    look_at_all(watch);
    hd_watch_close(watch);
    CHECK(!listener[0].open && !listener[1].open && !epoll_open);
    for (uint32_t i = 0; i < n_connections; i++) {
        CHECK(!connection[i].open);
    }
    return 0;
}
