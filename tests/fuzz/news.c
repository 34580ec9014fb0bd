/* news.c: fuzz target of what processes tell each other by the connections on which they watch each
 * other (src/net/news.c, gossip.c): that a process is dead, that a link between two hosts is cut,
 * that a team was aborted, or that a decision is agreed on; and of what the watch says of them.
 *
 * The functions below stand for src/net/watch.c. An input is a program: each byte an instruction,
 * with operands. It lets words come, of peers, of strangers, of teams that are there, gone or
 * unknown, makes and destroys teams, and fails them. Whatever comes: nothing is told on, or told,
 * twice, nothing that is malformed, and no team fails twice.
 */
#include "fake_ucx.h"
#include "fuzz.h"

#include "net/internal.h"
#include "net/watch.h"

enum { WORDS, RAW, LOST, PUMP, MAKE, DESTROY, FAIL, MESSAGE, INSTRUCTIONS };
enum { PROCESSES = 5, ME = 2, TEAMS = 4, MOST_TOLD = 512 };
/* As they travel (hd_words_kind_t). */
enum { DEAD = 3, ABORT, CUT = 7, BROKEN, ASK, AGREED };

typedef struct words {
    uint32_t kind;
    int32_t status;
    uint64_t subject[2], by[2], number;
} words_t;

static hd_net_t *net;
static hd_net_team_t *team[TEAMS];
static uint32_t failures[TEAMS];
static hd_watch_params_t watch; /* as the net has opened it */
static hd_net_process_t process[PROCESSES];
static uint8_t address[PROCESSES][512];
static words_t said[MOST_TOLD]; /* told, or told on */
static uint32_t n_said;
static uint64_t numbers;

/* --- watch.h --- */

static hd_watch_t *const the_watch = (hd_watch_t *)(void *)&watch;

hd_watch_t *hd_watch_open(const hd_watch_params_t *params) {
    watch = *params;
    return the_watch;
}

void hd_watch_close(hd_watch_t *w) {
    CHECK(w == the_watch);
}

void hd_watch_abandon(hd_watch_t *w) {
    CHECK(w == the_watch);
}

const void *hd_watch_address(const hd_watch_t *w, size_t *bytes) {
    static const uint8_t record[24];
    CHECK(w == the_watch);
    *bytes = sizeof(record);
    return record;
}

ucc_status_t hd_watch_keep(hd_watch_t *w, const uint64_t identity[2], const void *at, size_t bytes,
                           bool connects) {
    CHECK(w == the_watch && at && bytes == 24 && identity[1] == 5 && identity[0] - 1 < PROCESSES);
    /* or it asks what has become of one that is lost */
    CHECK(connects || memcmp(watch.identity, identity, sizeof(watch.identity)) > 0);
    return UCC_OK;
}

void hd_watch_drop(hd_watch_t *w, const uint64_t identity[2]) {
    CHECK(w == the_watch && identity);
}

bool hd_watch_is_settled(hd_watch_t *w, const uint64_t identity[2]) {
    CHECK(w == the_watch && identity);
    return true;
}

bool hd_watch_reaches(hd_watch_t *w, uint64_t host) {
    CHECK(w == the_watch && host);
    return false;
}

bool hd_watch_hears(hd_watch_t *w, const uint64_t identity[2]) {
    CHECK(w == the_watch && identity);
    return true;
}

bool hd_watch_look(hd_watch_t *w) {
    CHECK(w == the_watch);
    return false;
}

int hd_watch_descriptor(const hd_watch_t *w) {
    CHECK(w == the_watch);
    return -1;
}

uint32_t hd_watch_connected(hd_watch_t *w) {
    CHECK(w == the_watch);
    return 0;
}

/* Of a question that was heard, or of nobody's. */
bool hd_watch_send(hd_watch_t *w, const uint64_t identity[2], const void *bytes, size_t n) {
    hd_mail_t mail;
    CHECK(w == the_watch && identity[1] == 5 && n <= HD_WATCH_MAIL &&
          n >= offsetof(hd_mail_t, text) && n <= sizeof(mail));
    memcpy(&mail, bytes, n);
    CHECK(mail.ask && mail.last <= 1 && hd_mail_bytes(&mail) == n);
    return identity[0] & 1;
}

void hd_watch_also(hd_watch_t *w, int fd, uint32_t events) {
    CHECK(w == the_watch && fd >= 0 && events);
}

hd_watch_sign_t hd_watch_sign(hd_watch_t *w, const uint64_t identity[2], double *seconds) {
    CHECK(w == the_watch);
    *seconds = 1;
    return (hd_watch_sign_t)(identity[0] % (HD_WATCH_UNCONNECTED + 1));
}

/* The first time that it is said. */
static void say(const words_t *words) {
    CHECK((words->kind == DEAD && words->status >= 1 && words->status <= 2) || words->kind == CUT ||
          words->kind == BROKEN || words->kind == ASK ||
          (words->kind == AGREED && words->status == 0) ||
          (words->kind == ABORT && words->status < 0 && words->status > UCC_ERR_LAST));
    for (uint32_t i = 0; i < n_said; i++) {
        bool same = said[i].kind == words->kind &&
                    memcmp(said[i].subject, words->subject, sizeof(words->subject)) == 0;
        /* who hears that he has to go says so himself, too */
        bool own = memcmp(words->subject, words->by, sizeof(words->by)) == 0;
        CHECK(!same || words->kind == CUT || words->kind == BROKEN || words->kind == ASK ||
              (words->kind == DEAD && (own || said[i].status < words->status)));
        /* a death is new until it is known, whatever its number */
        CHECK(words->kind == DEAD || said[i].number != words->number ||
              memcmp(said[i].by, words->by, sizeof(words->by)) != 0);
    }
    if (n_said < MOST_TOLD) {
        said[n_said++] = *words;
    }
}

void hd_watch_tell(hd_watch_t *w, const void *bytes, size_t n, hd_watch_relay_t whom) {
    words_t words;
    CHECK(whom != HD_WATCH_NOBODY);
    CHECK(w == the_watch && n == sizeof(words));
    memcpy(&words, bytes, sizeof(words));
    say(&words);
}

/* --- instructions --- */

static void on_failed(void *arg, ucc_status_t why) {
    CHECK(why < 0 && ++*(uint32_t *)arg == 1);
}

/* From a process to this one: true is what is told on. */
static void hear(const void *bytes, size_t n, uint8_t from) {
    words_t words;
    const uint64_t token[2] = {1 + from % PROCESSES, 5};
    uint8_t *copy = calloc(n ? n : 1, 1); /* of its size, for sanitizers */
    CHECK(copy);
    if (n) {
        memcpy(copy, bytes, n);
    }
    if (watch.heard(watch.arg, token, copy, n)) {
        CHECK(n == sizeof(words));
        memcpy(&words, copy, sizeof(words));
        say(&words);
        CHECK(words.kind != DEAD || hd_net_is_dead(net, words.subject));
    }
    free(copy);
}

static void hear_words(input_t *in) {
    uint8_t how = next_byte(in), which = next_byte(in);
    words_t words = {.kind = how & 1 ? DEAD : ABORT, .status = -1 - how % 32};
    words.subject[0] = how & 1 ? 1 + which % (PROCESSES + 2) : 100 + which % (2 * TEAMS);
    words.subject[1] = how & 1 ? 5 : 0;
    if (how & 1 && which == 255) {
        memcpy(words.subject, net->token, sizeof(words.subject));
    }
    if (how & 2 && how & 1) {
        words.kind = CUT;
        words.subject[0] = 1 + which % 4;
        words.subject[1] = which & 128 ? net->host : UINT64_C(1) + which / 4 % 4;
    }
    if (words.kind == DEAD) {
        words.status = how & 16 ? 1 : 2;
    }
    if (words.kind == ABORT && how % 16 / 4 == 3) {
        words.kind = ASK;
    }
    words.by[0] = 1 + next_byte(in) % (PROCESSES + 1);
    words.by[1] = 5;
    words.number = how & 32 ? next_byte(in) : ++numbers;
    if (how & 64) {
        words.kind = next_byte(in);
        words.status = (int32_t)next_number(in, 4);
    }
    if (how & 128) {
        words.subject[next_byte(in) % 2] = next_number(in, 8);
    }
    hear(&words, sizeof(words), which);
}

/* To this process alone: an answer to a question, or what looks like one. */
static void take_mail(input_t *in, uint8_t how) {
    hd_mail_t mail = {.ask = 100 + next_byte(in) % (2 * TEAMS), .by = {1, 5}, .last = how & 1};
    mail.bytes = next_byte(in);
    size_t n = hd_mail_bytes(&mail) < sizeof(mail) ? hd_mail_bytes(&mail) : sizeof(mail);
    if (how & 2) {
        n = next_byte(in) % (HD_WATCH_MAIL + 1);
    }
    if (how & 4) {
        ((uint8_t *)&mail)[next_byte(in) % offsetof(hd_mail_t, text)] = next_byte(in);
    }
    uint8_t *copy = calloc(n ? n : 1, 1); /* of its size, for sanitizers */
    CHECK(copy);
    memcpy(copy, &mail, n);
    watch.mail(watch.arg, copy, n);
    free(copy);
}

static void hear_raw(input_t *in) {
    uint8_t bytes[HD_WATCH_WORDS], n = next_byte(in);
    if (n >= 192) {
        take_mail(in, n);
        return;
    }
    n %= HD_WATCH_WORDS + 1;
    next_bytes(in, bytes, n);
    hear(bytes, n, 0);
}

static void lose(uint8_t how) {
    const uint64_t token[2] = {1 + how % (PROCESSES + 1), 5};
    watch.lost(watch.arg, token, (hd_watch_loss_t)(how >> 6));
}

static void make(uint32_t t) {
    hd_net_team_params_t params = {.wire = 100 + t,
                                   .n = PROCESSES,
                                   .me = ME,
                                   .process = process,
                                   .despite_losses = true,
                                   .failed = on_failed,
                                   .arg = &failures[t]};
    if (!team[t]) {
        failures[t] = 0;
        CHECK(hd_net_team_create(net, &params, &team[t]) == UCC_OK);
    }
}

static void destroy(uint32_t t) {
    if (team[t]) {
        hd_net_team_destroy(team[t]);
        team[t] = NULL;
    }
}

/* A message that says of a team what the words do. */
static void message(uint8_t how) {
    uint8_t header[HD_WIRE_BYTES];
    hd_wire_t wire = {.kind = HD_WIRE_ABORT,
                      .class = HD_NET_NUMBERED,
                      .source = how % PROCESSES,
                      .status = (ucc_status_t)(-1 - how % 32),
                      .team = 100 + how / 8 % (2 * TEAMS)};
    hd_wire_write(&wire, header);
    fake_ucx_put(header, sizeof(header), NULL, 0, false);
}

static void step(input_t *in) {
    uint8_t how;
    switch (next_byte(in) % INSTRUCTIONS) {
    case WORDS:
        hear_words(in);
        break;
    case RAW:
        hear_raw(in);
        break;
    case LOST:
        lose(next_byte(in));
        break;
    case MAKE:
        make(next_byte(in) % TEAMS);
        break;
    case DESTROY:
        destroy(next_byte(in) % TEAMS);
        break;
    case FAIL:
        how = next_byte(in);
        if (team[how % TEAMS]) {
            hd_net_team_abort(team[how % TEAMS], (ucc_status_t)(-1 - how / TEAMS % 32));
        }
        break;
    case MESSAGE:
        message(next_byte(in));
        break;
    default:
        net->lane[0].mourned = 0; /* looks for losses now, not ten milliseconds later */
        hd_net_pump(net);
        break;
    }
}

/* --- a run --- */

static void open_net(void) {
    hd_config_t *config;
    size_t bytes;
    setenv("HEDDLE_LOG_LEVEL", "fatal", 0);
    CHECK(hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &config) == UCC_OK);
    CHECK(hd_config_modify(config, NULL, "NET_LANES", "1") == UCC_OK);
    CHECK(hd_config_modify(config, NULL, "NET_GRACE", "0") == UCC_OK);
    CHECK(hd_config_modify(config, NULL, "NET_ASK", "n") == UCC_OK);
    CHECK(hd_net_open(config, false, &net) == UCC_OK);
    hd_config_release(config);
    const void *mine = hd_net_address(net, false, &bytes);
    CHECK(bytes <= sizeof(address[0]));
    for (uint32_t i = 0; i < PROCESSES; i++) {
        const uint64_t token[2] = {i + 1, 5};
        memcpy(address[i], mine, bytes);
        memcpy(address[i] + AT_ADDRESS_TOKEN, token, sizeof(token));
        fuzz_check_address(address[i], bytes);
        process[i] =
            (hd_net_process_t){.identity = {i + 1, 5}, .address = address[i], .bytes = bytes};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input_t in = {data, size};
    if (!net) {
        open_net();
    }
    fake_ucx_renew(net);
    n_said = 0;
    numbers = 0;
    make(0);
    while (in.left > 0) {
        step(&in);
    }
    hd_net_pump(net);
    for (uint32_t t = 0; t < TEAMS; t++) {
        destroy(t);
    }
    hd_net_pump(net);
    hd_park_clear(&net->lane[0]);
    CHECK(net->lane[0].n_early + net->lane[0].n_early_aborts == 0 && fake_ucx_kept() == 0);
    return 0;
}
