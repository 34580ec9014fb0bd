/* bootstrap.c: fuzz target of what libheddle_bootstrap reads: src/bootstrap/wire.c from the
 * network, and node lists, numbers and addresses from the environment.
 *
 * The first byte of an input says which end is fed, and how; the rest is what comes. Bytes alone
 * would never pass an HMAC, so in two of the modes this program plays the other end: the input then
 * says which messages that sends, with which fields, and which of their bytes are changed
 * afterwards; their HMACs are right (and made up: the linker puts a quick one in libsodium's
 * place). Whatever comes: nothing is written beyond a transfer's memory, events keep their order,
 * and a changed message is never believed.
 */
#include "bootstrap/bootstrap.h"
#include "fuzz.h"

#include <sodium.h>

static const uint8_t key[32] = "this key is known to both ends..";

/* Of changed_at. */
#define NEVER SIZE_MAX

enum { RAW_TO_ROOT, RAW_TO_RANK, SPOKEN_TO_ROOT, SPOKEN_TO_RANK, TEXTS, MODES };

/* Nonces that are the same in every run of an input. */
static uint64_t nonces;

static void draw(void *const to, const size_t n) {
    nonces++;
    for (size_t i = 0; i < n; i++) {
        ((uint8_t *)to)[i] = (uint8_t)(nonces * 31 + i);
    }
}

static const char *draw_name(void) {
    return "counter";
}

static uint32_t draw_word(void) {
    return (uint32_t)++nonces;
}

static randombytes_implementation drawing = {
    .implementation_name = draw_name, .random = draw_word, .buf = draw};

/* --- instead of libsodium --------------------------------------------------------------------- */

/* Not SHA-256, which would take most of the time: any change of key or bytes changes it, which is
 * all that is needed. */
typedef struct mac {
    uint64_t state, bytes;
} mac_t;

static uint64_t mix(uint64_t state, uint64_t word) {
    state = (state ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return state ^ state >> 29;
}

int __wrap_crypto_auth_hmacsha256_init(crypto_auth_hmacsha256_state *state, const unsigned char *by,
                                       size_t n);
int __wrap_crypto_auth_hmacsha256_update(crypto_auth_hmacsha256_state *state,
                                         const unsigned char *bytes, unsigned long long n);
int __wrap_crypto_auth_hmacsha256_final(crypto_auth_hmacsha256_state *state, unsigned char *out);

int __wrap_crypto_auth_hmacsha256_update(crypto_auth_hmacsha256_state *state,
                                         const unsigned char *bytes, unsigned long long n) {
    mac_t mac;
    uint64_t word = 0;
    memcpy(&mac, state, sizeof(mac));
    mac.bytes += n;
    for (; n >= sizeof(word); n -= sizeof(word), bytes += sizeof(word)) {
        memcpy(&word, bytes, sizeof(word));
        mac.state = mix(mac.state, word);
    }
    word = 0;
    if (n) {
        memcpy(&word, bytes, n);
    }
    mac.state = mix(mac.state, word);
    memcpy(state, &mac, sizeof(mac));
    return 0;
}

int __wrap_crypto_auth_hmacsha256_init(crypto_auth_hmacsha256_state *state, const unsigned char *by,
                                       size_t n) {
    const mac_t none = {0};
    memcpy(state, &none, sizeof(none));
    return __wrap_crypto_auth_hmacsha256_update(state, by, n);
}

int __wrap_crypto_auth_hmacsha256_final(crypto_auth_hmacsha256_state *state, unsigned char *out) {
    mac_t mac;
    memcpy(&mac, state, sizeof(mac));
    for (size_t at = 0; at < crypto_auth_hmacsha256_BYTES; at += sizeof(mac.state)) {
        mac.state = mix(mac.state, mac.bytes);
        memcpy(out + at, &mac.state, sizeof(mac.state));
    }
    return 0;
}

static uint32_t next_word(input_t *in) {
    return (uint32_t)next_number(in, 2);
}

/* Memory of a transfer, of exactly its size, so that a sanitizer sees what goes beyond. */
static void expect(hd_wire_t *w, input_t *in) {
    uint64_t block = next_word(in) % 300, many = w->accepting ? 1 : w->size;
    if (next_byte(in) == 0x55) { /* rarely, for it takes long: more than one piece */
        block = 70000 / many;
    }
    free(w->expecting.base);
    w->expecting =
        (hd_transfer_t){.round = next_byte(in) % 4, .block = block, .total = block * many};
    w->expecting.base = malloc(w->expecting.total + 1);
    CHECK(w->expecting.base);
    w->expecting.open = true;
}

/* What a process does with its parent's place, without a network. */
static void check_place(const hd_place_t *at) {
    const hd_conn_t none = {.fd = -1};
    char text[HD_NAME_BYTES], host[64], port[8];
    CHECK((at->family == 4 || at->family == 6) && at->port > 0);
    hd_address_reach(at, &none, text, sizeof(text));
    CHECK(hd_address_split(text, host, sizeof(host), port, sizeof(port)));
}

/* All bytes of a message; the events that they give. changed_at: the first byte that was tampered
 * with, NEVER if none: nothing is believed from there on. */
static bool feed(hd_wire_t *w, input_t *in, const uint8_t *bytes, size_t n, size_t changed_at) {
    const uint8_t *begin = bytes;
    static const hd_wire_stage_t handshake_until = HD_WIRE_AT_HEAD;
    while (n > 0) {
        size_t room;
        bool shaking = w->stage < handshake_until;
        uint8_t *space = hd_wire_space(w, &room);
        if (room == 0) {
            CHECK(w->stage == HD_WIRE_AT_END);
            return false;
        }
        size_t part = room < n ? room : n;
        if (in->left > 0 && (in->at[0] & 7) == 0) {
            part = 1 + next_byte(in) % part; /* bytes come as they like */
        }
        memcpy(space, bytes, part);
        bytes += part;
        n -= part;
        hd_wire_event_t event = hd_wire_took(w, part);
        bool changed = (size_t)(bytes - begin) > changed_at;
        CHECK(w->got <= w->want && w->expecting.at <= w->expecting.total);
        switch (event) {
        case HD_WIRE_MORE:
            break;
        case HD_WIRE_GREETED:
            CHECK(w->accepting && shaking);
            uint8_t challenge[HD_WIRE_CHALLENGE];
            hd_wire_write_challenge(w, challenge);
            break;
        case HD_WIRE_CHALLENGED:
            CHECK(!w->accepting && shaking);
            break;
        case HD_WIRE_PROVEN:
        case HD_WIRE_JUDGED:
            CHECK(w->accepting == (event == HD_WIRE_PROVEN) && shaking && !changed);
            CHECK(strnlen(w->peer.job, HD_WIRE_JOB) < HD_WIRE_JOB);
            CHECK(w->accepting || w->peer.verdict != HD_WIRE_ACCEPTED || w->peer.fanout > 0);
            break;
        case HD_WIRE_STARTED:
            CHECK(!w->accepting && !shaking && !changed);
            break;
        case HD_WIRE_ADDRESSED:
            CHECK(!w->accepting && !shaking && !changed);
            check_place(&w->peer.at);
            break;
        case HD_WIRE_LISTENING:
            CHECK(w->accepting && !shaking && !changed && w->peer.port > 0);
            break;
        case HD_WIRE_HAS_LINKED:
            CHECK(w->accepting && !shaking && !changed);
            break;
        case HD_WIRE_RECEIVED:
            CHECK(!shaking && !changed && w->expecting.at == w->expecting.total);
            expect(w, in);
            break;
        case HD_WIRE_ABORTED:
            CHECK(!shaking && !changed && w->peer.status < 0);
            CHECK(strnlen(w->peer.text, sizeof(w->peer.text)) < sizeof(w->peer.text));
            return false;
        case HD_WIRE_UNEQUAL:
            CHECK(!shaking && !changed);
            return false;
        case HD_WIRE_BAD:
            CHECK(w->why);
            return false;
        }
    }
    return true;
}

/* --- bytes as they are ------------------------------------------------------------------------ */

static void feed_raw(bool accepting, input_t *in) {
    hd_wire_t w;
    uint8_t hello[HD_WIRE_HELLO];
    hd_wire_open(&w, accepting, key, sizeof(key), 4, accepting ? 0 : 1);
    if (!accepting) {
        hd_wire_write_hello(&w, hello);
    }
    input_t none = {NULL, 0};
    feed(&w, &none, in->at, in->left, NEVER);
    CHECK(w.stage <= HD_WIRE_AT_VERDICT || w.stage == HD_WIRE_AT_END); /* no HMAC is right */
    hd_wire_close(&w);
}

/* --- messages of an end that knows the key ---------------------------------------------------- */

/* The head of a frame with whatever fields: its HMAC is right. */
static size_t write_odd_frame(hd_wire_t *from, input_t *in, uint8_t *out) {
    static uint8_t payload[HD_WIRE_PIECE];
    hd_transfer_t t = {.round = next_byte(in) % 4, .ready = HD_WIRE_ALL, .base = payload};
    size_t bytes;
    uint8_t mac[HD_WIRE_MAC];
    t.block = next_word(in) % 300;
    t.at = next_byte(in) & 1 ? 0 : next_word(in);
    t.total = t.at + next_word(in) % (next_byte(in) == 0x55 ? 70000 : 300);
    if (t.at >= sizeof(payload) || t.total - t.at > sizeof(payload) - t.at) {
        t.at = 0;
        t.total %= sizeof(payload);
    }
    hd_wire_write_piece(from, &t, out, &bytes, mac);
    if (bytes > 0) {
        memcpy(out + HD_WIRE_HEAD, t.base + t.at, bytes);
        memcpy(out + HD_WIRE_HEAD + bytes, mac, sizeof(mac));
        bytes += sizeof(mac);
    }
    return HD_WIRE_HEAD + bytes;
}

/* The piece that is expected, or as much of it as is said to be there. */
static size_t write_right_frame(hd_wire_t *from, const hd_wire_t *to, input_t *in, uint8_t *out) {
    static uint8_t payload[HD_WIRE_PIECE + 70000];
    hd_transfer_t t = to->expecting;
    size_t bytes;
    uint8_t mac[HD_WIRE_MAC];
    t.base = payload;
    t.ready = next_byte(in) & 1 ? HD_WIRE_ALL : t.at + 1 + next_byte(in);
    hd_wire_write_piece(from, &t, out, &bytes, mac);
    if (bytes > 0) {
        memcpy(out + HD_WIRE_HEAD, t.base + t.at, bytes);
        memcpy(out + HD_WIRE_HEAD + bytes, mac, sizeof(mac));
        bytes += sizeof(mac);
    }
    return HD_WIRE_HEAD + bytes;
}

static size_t write_abort(hd_wire_t *from, input_t *in, uint8_t *out) {
    char text[300];
    size_t length = next_word(in) % sizeof(text);
    for (size_t i = 0; i < length; i++) {
        text[i] = (char)(next_byte(in) | 1);
    }
    text[length < sizeof(text) ? length : sizeof(text) - 1] = '\0';
    return hd_wire_write_abort(from, (ucc_status_t)(int8_t)next_byte(in), text, out);
}

/* Changes a byte of a message, or leaves it. Which, or NEVER. */
static size_t tamper(input_t *in, uint8_t *message, size_t n) {
    if (next_byte(in) % 8 != 0) {
        return NEVER;
    }
    uint8_t flip = next_byte(in);
    size_t at = next_word(in) % n;
    message[at] ^= flip;
    return flip != 0 ? at : NEVER;
}

/* Of those that are said while forming, by whichever end. */
static size_t write_forming(hd_wire_t *from, input_t *in, uint8_t *out) {
    hd_place_t at = {.family = next_byte(in) % 8, .port = (uint16_t)next_word(in)};
    switch (next_byte(in) % 4) {
    case 0:
        hd_wire_write_start(from, out);
        break;
    case 1:
        hd_wire_write_listens(from, at.port, out);
        break;
    case 2:
        hd_wire_write_linked(from, out);
        break;
    default:
        next_bytes(in, at.host, sizeof(at.host));
        hd_wire_write_parent(from, &at, out);
        break;
    }
    return HD_WIRE_HEAD;
}

static size_t write_frame(hd_wire_t *from, const hd_wire_t *to, input_t *in, uint8_t *out) {
    switch (next_byte(in) % 5) {
    case 0:
        return write_odd_frame(from, in, out);
    case 1:
        return write_abort(from, in, out);
    case 2:
        return write_forming(from, in, out);
    default:
        return write_right_frame(from, to, in, out);
    }
}

/* The handshake of an end that knows the key; false: `to` has ended. */
static bool shake_hands(hd_wire_t *to, hd_wire_t *from, input_t *in) {
    uint8_t out[HD_WIRE_HELLO + HD_WIRE_VERDICT];
    if (to->accepting) {
        from->size = next_word(in);
        from->rank = next_word(in);
        from->to = next_word(in);
        from->version = next_byte(in);
        hd_wire_write_hello(from, out);
        bool changed = tamper(in, out, HD_WIRE_HELLO) != NEVER;
        if (!feed(to, in, out, HD_WIRE_HELLO, NEVER)) {
            return false;
        }
        memcpy(from->challenge, to->challenge, sizeof(from->challenge));
        hd_wire_write_proof(from, out);
        size_t changed_at = tamper(in, out, HD_WIRE_PROOF);
        if (!feed(to, in, out, HD_WIRE_PROOF, changed ? 0 : changed_at)) {
            return false;
        }
        hd_wire_write_verdict(to, HD_WIRE_ACCEPTED, out);
        memcpy(from->session, to->session, sizeof(from->session));
        return true;
    }
    hd_wire_write_hello(to, out);
    memcpy(from->hello, out, sizeof(from->hello));
    from->size = next_word(in);
    from->version = next_byte(in);
    hd_wire_write_challenge(from, out);
    bool changed = tamper(in, out, HD_WIRE_CHALLENGE) != NEVER;
    if (!feed(to, in, out, HD_WIRE_CHALLENGE, NEVER)) {
        return false;
    }
    from->fanout = next_word(in) % 9;
    hd_wire_write_verdict(from, (hd_wire_verdict_t)(next_byte(in) % (HD_WIRE_N_VERDICTS + 2)), out);
    size_t changed_at = tamper(in, out, HD_WIRE_VERDICT);
    return feed(to, in, out, HD_WIRE_VERDICT, changed ? 0 : changed_at);
}

static void speak(bool accepting, input_t *in) {
    static uint8_t out[HD_WIRE_HEAD + HD_WIRE_PIECE + HD_WIRE_FAIL + HD_WIRE_MAC];
    hd_wire_t to, from;
    hd_wire_open(&to, accepting, key, sizeof(key), 4, accepting ? 0 : 1);
    hd_wire_open(&from, !accepting, key, sizeof(key), 4, accepting ? 1 : 0);
    char job[HD_WIRE_JOB + 8];
    next_bytes(in, (uint8_t *)job, sizeof(job) - 1);
    job[sizeof(job) - 1] = '\0';
    from.job = job;
    if (shake_hands(&to, &from, in)) {
        expect(&to, in);
        for (bool goes_on = true; goes_on && in->left > 0;) {
            size_t n = write_frame(&from, &to, in, out);
            CHECK(n <= sizeof(out));
            size_t changed_at = tamper(in, out, n);
            goes_on = feed(&to, in, out, n, changed_at) && changed_at == NEVER;
        }
    }
    free(to.expecting.base);
    hd_wire_close(&to);
    hd_wire_close(&from);
}

/* --- the environment -------------------------------------------------------------------------- */

static void parse_texts(const input_t *in) {
    char *text = malloc(in->left + 1), host[24], port[8];
    uint64_t number;
    CHECK(text);
    memcpy(text, in->at, in->left);
    text[in->left] = '\0';
    if (hd_launcher_first_host(text, host, sizeof(host))) {
        CHECK(strlen(host) > 0 && !strpbrk(host, "[],"));
    }
    if (hd_address_split(text, host, sizeof(host), port, sizeof(port))) {
        CHECK(strlen(host) > 0 && hd_launcher_number(port, 65535, &number));
    }
    if (hd_launcher_number(text, 1000, &number)) {
        CHECK(number <= 1000);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input_t in = {data, size};
    CHECK(randombytes_set_implementation(&drawing) == 0 && sodium_init() >= 0);
    nonces = 0;
    switch (next_byte(&in) % MODES) {
    case RAW_TO_ROOT:
        feed_raw(true, &in);
        break;
    case RAW_TO_RANK:
        feed_raw(false, &in);
        break;
    case SPOKEN_TO_ROOT:
        speak(true, &in);
        break;
    case SPOKEN_TO_RANK:
        speak(false, &in);
        break;
    default:
        parse_texts(&in);
        break;
    }
    return 0;
}
