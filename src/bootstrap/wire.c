/* wire.c: see wire.h. */
#include "bootstrap/wire.h"

#include <sodium.h>
#include <string.h>

enum {
    LABEL = 16,
    FIELDS = HD_WIRE_HEADER - 8,
    /* the sender, within HMACs of frames */
    FROM_ACCEPTING = 0,
    FROM_CONNECTING = 1
};

_Static_assert(HD_WIRE_MAC == crypto_auth_hmacsha256_BYTES, "HMAC-SHA256");
_Static_assert(HD_WIRE_FAIL >= HD_WIRE_HEAD && HD_WIRE_FAIL >= HD_WIRE_HELLO &&
                   HD_WIRE_FAIL >= HD_WIRE_VERDICT,
               "hd_wire_t.in holds what is read");

static const uint8_t magic[8] = {'H', 'D', 'L', 'B', 'O', 'O', 'T', '\n'};

static void put32(uint8_t *to, uint32_t value) {
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

static void put64(uint8_t *to, uint64_t value) {
    put32(to, (uint32_t)value);
    put32(to + 4, (uint32_t)(value >> 32));
}

static uint32_t get32(const uint8_t *from) {
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

static uint64_t get64(const uint8_t *from) {
    return get32(from) | (uint64_t)get32(from + 4) << 32;
}

static void put_job(uint8_t to[HD_WIRE_JOB], const char *job) {
    memset(to, 0, HD_WIRE_JOB);
    memcpy(to, job, strnlen(job, HD_WIRE_JOB - 1));
}

/* What a peer says may reach a terminal. */
static void get_text(char *to, const uint8_t *from, size_t length) {
    for (size_t i = 0; i < length; i++) {
        to[i] = from[i] >= ' ' && from[i] <= '~' ? (char)from[i] : '?';
    }
    to[length] = '\0';
}

static void get_job(char to[HD_WIRE_JOB], const uint8_t from[HD_WIRE_JOB]) {
    get_text(to, from, strnlen((const char *)from, HD_WIRE_JOB - 1));
}

/* --- HMACs ------------------------------------------------------------------------------------ */

/* Of the handshake: every one covers the hello and the challenge, and so both nonces. */
static void handshake_mac(const hd_wire_t *w, const char *label, const uint8_t *fields,
                          size_t bytes, uint8_t out[HD_WIRE_MAC]) {
    crypto_auth_hmacsha256_state state;
    uint8_t padded[LABEL] = {0};
    memcpy(padded, label, strlen(label));
    crypto_auth_hmacsha256_init(&state, w->key, w->key_bytes);
    crypto_auth_hmacsha256_update(&state, padded, sizeof(padded));
    crypto_auth_hmacsha256_update(&state, w->hello, sizeof(w->hello));
    crypto_auth_hmacsha256_update(&state, w->challenge, sizeof(w->challenge));
    if (bytes > 0) {
        crypto_auth_hmacsha256_update(&state, fields, bytes);
    }
    crypto_auth_hmacsha256_final(&state, out);
    sodium_memzero(&state, sizeof(state));
}

static void frame_mac(const hd_wire_t *w, uint8_t sender, uint8_t part, uint64_t number,
                      const uint8_t *content, size_t bytes, uint8_t out[HD_WIRE_MAC]) {
    crypto_auth_hmacsha256_state state;
    uint8_t prefix[10] = {sender, part};
    put64(prefix + 2, number);
    crypto_auth_hmacsha256_init(&state, w->session, sizeof(w->session));
    crypto_auth_hmacsha256_update(&state, prefix, sizeof(prefix));
    if (bytes > 0) {
        crypto_auth_hmacsha256_update(&state, content, bytes);
    }
    crypto_auth_hmacsha256_final(&state, out);
    sodium_memzero(&state, sizeof(state));
}

/* In constant time. */
static bool same_mac(const uint8_t *a, const uint8_t *b) {
    return sodium_memcmp(a, b, HD_WIRE_MAC) == 0;
}

static void derive_session(hd_wire_t *w) {
    handshake_mac(w, "session", NULL, 0, w->session);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void enter(hd_wire_t *w, hd_wire_stage_t stage) {
    static const size_t bytes[] = {[HD_WIRE_AT_HELLO] = HD_WIRE_HELLO,
                                   [HD_WIRE_AT_CHALLENGE] = HD_WIRE_CHALLENGE,
                                   [HD_WIRE_AT_PROOF] = HD_WIRE_PROOF,
                                   [HD_WIRE_AT_VERDICT] = HD_WIRE_VERDICT,
                                   [HD_WIRE_AT_HEAD] = HD_WIRE_HEAD,
                                   [HD_WIRE_AT_PAYLOAD_MAC] = HD_WIRE_MAC,
                                   [HD_WIRE_AT_END] = 0};
    w->stage = stage;
    w->got = 0;
    w->want = stage == HD_WIRE_AT_PAYLOAD ? w->payload : bytes[stage];
}

void hd_wire_open(hd_wire_t *w, bool accepting, const void *key, size_t key_bytes, uint32_t size,
                  uint32_t rank) {
    memset(w, 0, sizeof(*w));
    w->key = key;
    w->key_bytes = key_bytes;
    w->accepting = accepting;
    w->version = HD_WIRE_VERSION;
    w->size = size;
    w->rank = rank;
    w->job = "";
    enter(w, accepting ? HD_WIRE_AT_HELLO : HD_WIRE_AT_CHALLENGE);
}

void hd_wire_close(hd_wire_t *w) {
    sodium_memzero(w->session, sizeof(w->session));
    enter(w, HD_WIRE_AT_END);
}

void hd_wire_write_hello(hd_wire_t *w, uint8_t out[HD_WIRE_HELLO]) {
    memcpy(w->hello, magic, sizeof(magic));
    put32(w->hello + 8, w->version);
    put32(w->hello + 12, w->size);
    put32(w->hello + 16, w->rank);
    put32(w->hello + 20, w->to);
    randombytes_buf(w->hello + 24, HD_WIRE_NONCE);
    put_job(w->hello + 56, w->job);
    memcpy(out, w->hello, HD_WIRE_HELLO);
}

void hd_wire_write_challenge(hd_wire_t *w, uint8_t out[HD_WIRE_CHALLENGE]) {
    memcpy(w->challenge, magic, sizeof(magic));
    put32(w->challenge + 8, w->version);
    put32(w->challenge + 12, w->size);
    randombytes_buf(w->challenge + 16, HD_WIRE_NONCE);
    memcpy(out, w->challenge, HD_WIRE_CHALLENGE);
}

void hd_wire_write_proof(const hd_wire_t *w, uint8_t out[HD_WIRE_PROOF]) {
    handshake_mac(w, "proof", NULL, 0, out);
}

void hd_wire_write_verdict(hd_wire_t *w, hd_wire_verdict_t code, uint8_t out[HD_WIRE_VERDICT]) {
    put32(out, (uint32_t)code);
    put32(out + 4, w->version);
    put32(out + 8, w->size);
    put32(out + 12, w->fanout);
    put32(out + 16, w->listens_all);
    put32(out + 20, 0);
    put_job(out + 24, w->job);
    handshake_mac(w, "verdict", out, HD_WIRE_VERDICT_FIELDS, out + HD_WIRE_VERDICT_FIELDS);
    derive_session(w);
}

/* fields: what a kind has its own use for. */
static void write_frame(hd_wire_t *w, hd_wire_kind_t kind, const uint8_t fields[FIELDS],
                        const uint8_t *payload, size_t bytes, uint8_t head[HD_WIRE_HEAD],
                        uint8_t mac[HD_WIRE_MAC]) {
    uint8_t sender = w->accepting ? FROM_ACCEPTING : FROM_CONNECTING;
    uint64_t number = w->numbers_out++;
    put32(head, (uint32_t)kind);
    put32(head + 4, (uint32_t)bytes);
    memcpy(head + 8, fields, FIELDS);
    frame_mac(w, sender, 'h', number, head, HD_WIRE_HEADER, head + HD_WIRE_HEADER);
    if (bytes > 0) {
        frame_mac(w, sender, 'p', number, payload, bytes, mac);
    }
}

static const uint8_t no_fields[FIELDS];

void hd_wire_write_start(hd_wire_t *w, uint8_t out[HD_WIRE_HEAD]) {
    write_frame(w, HD_WIRE_START, no_fields, NULL, 0, out, NULL);
}

void hd_wire_write_parent(hd_wire_t *w, const hd_place_t *at, uint8_t out[HD_WIRE_HEAD]) {
    uint8_t fields[FIELDS];
    put32(fields, at->family);
    put32(fields + 4, at->port);
    memcpy(fields + 8, at->host, sizeof(at->host));
    write_frame(w, HD_WIRE_PARENT, fields, NULL, 0, out, NULL);
}

void hd_wire_write_listens(hd_wire_t *w, uint16_t port, uint8_t out[HD_WIRE_HEAD]) {
    uint8_t fields[FIELDS] = {0};
    put32(fields, port);
    write_frame(w, HD_WIRE_LISTENS, fields, NULL, 0, out, NULL);
}

void hd_wire_write_linked(hd_wire_t *w, uint8_t out[HD_WIRE_HEAD]) {
    write_frame(w, HD_WIRE_LINKED, no_fields, NULL, 0, out, NULL);
}

bool hd_wire_has_piece(const hd_transfer_t *transfer) {
    return transfer->open && transfer->ready > transfer->at;
}

static size_t at_most_a_piece(uint64_t bytes) {
    return bytes < HD_WIRE_PIECE ? (size_t)bytes : HD_WIRE_PIECE;
}

void hd_wire_write_piece(hd_wire_t *w, const hd_transfer_t *transfer, uint8_t head[HD_WIRE_HEAD],
                         size_t *bytes, uint8_t mac[HD_WIRE_MAC]) {
    uint64_t ready = transfer->ready < transfer->total ? transfer->ready : transfer->total;
    uint8_t fields[FIELDS];
    *bytes = at_most_a_piece(ready - transfer->at);
    const uint8_t *from = *bytes > 0 ? transfer->base + transfer->at : NULL;
    put64(fields, transfer->round);
    put64(fields + 8, transfer->block);
    put64(fields + 16, transfer->at);
    write_frame(w, HD_WIRE_DATA, fields, from, *bytes, head, mac);
}

size_t hd_wire_write_abort(hd_wire_t *w, ucc_status_t status, const char *text, uint8_t *out) {
    uint8_t *payload = out + HD_WIRE_HEAD;
    size_t length = strnlen(text, HD_WIRE_TEXT - 1), bytes = 4 + length;
    put32(payload, (uint32_t)status);
    memcpy(payload + 4, text, length);
    write_frame(w, HD_WIRE_ABORT, no_fields, payload, bytes, out, payload + bytes);
    return HD_WIRE_HEAD + bytes + HD_WIRE_MAC;
}

/* --- reading ---------------------------------------------------------------------------------- */

static hd_wire_event_t bad(hd_wire_t *w, const char *why) {
    w->why = why;
    w->expecting.open = false;
    enter(w, HD_WIRE_AT_END);
    return HD_WIRE_BAD;
}

uint8_t *hd_wire_space(hd_wire_t *w, size_t *bytes) {
    *bytes = w->want - w->got;
    switch (w->stage) {
    case HD_WIRE_AT_PAYLOAD:
        return (w->kind == HD_WIRE_DATA ? w->expecting.base + w->expecting.at : w->in) + w->got;
    case HD_WIRE_AT_PAYLOAD_MAC:
        return w->mac + w->got;
    default:
        return w->in + w->got;
    }
}

static hd_wire_event_t take_hello(hd_wire_t *w) {
    memcpy(w->hello, w->in, HD_WIRE_HELLO);
    if (memcmp(w->hello, magic, sizeof(magic)) != 0) {
        return bad(w, "does not speak this protocol");
    }
    w->peer.version = get32(w->hello + 8);
    w->peer.size = get32(w->hello + 12);
    w->peer.rank = get32(w->hello + 16);
    w->peer.to = get32(w->hello + 20);
    get_job(w->peer.job, w->hello + 56);
    enter(w, HD_WIRE_AT_PROOF);
    return HD_WIRE_GREETED;
}

static hd_wire_event_t take_challenge(hd_wire_t *w) {
    memcpy(w->challenge, w->in, HD_WIRE_CHALLENGE);
    if (memcmp(w->challenge, magic, sizeof(magic)) != 0) {
        return bad(w, "does not speak this protocol");
    }
    enter(w, HD_WIRE_AT_VERDICT);
    return HD_WIRE_CHALLENGED;
}

static hd_wire_event_t take_proof(hd_wire_t *w) {
    uint8_t right[HD_WIRE_MAC];
    handshake_mac(w, "proof", NULL, 0, right);
    if (!same_mac(right, w->in)) {
        return bad(w, "does not know the job's key");
    }
    enter(w, HD_WIRE_AT_HEAD);
    return HD_WIRE_PROVEN;
}

static hd_wire_event_t take_verdict(hd_wire_t *w) {
    uint8_t right[HD_WIRE_MAC];
    handshake_mac(w, "verdict", w->in, HD_WIRE_VERDICT_FIELDS, right);
    if (!same_mac(right, w->in + HD_WIRE_VERDICT_FIELDS)) {
        return bad(w, "does not know the job's key");
    }
    w->peer.verdict = get32(w->in);
    w->peer.version = get32(w->in + 4);
    w->peer.size = get32(w->in + 8);
    w->peer.fanout = get32(w->in + 12);
    w->peer.listens_all = get32(w->in + 16) != 0;
    get_job(w->peer.job, w->in + 24);
    if (w->peer.verdict >= HD_WIRE_N_VERDICTS || w->peer.fanout == 0) {
        return bad(w, "gave an answer that this version does not know");
    }
    derive_session(w);
    enter(w, HD_WIRE_AT_HEAD);
    return HD_WIRE_JUDGED;
}

/* The frame is over; so is, with its last piece, the transfer. */
static hd_wire_event_t end_data(hd_wire_t *w) {
    w->expecting.at += w->payload;
    enter(w, HD_WIRE_AT_HEAD);
    if (w->expecting.at < w->expecting.total) {
        return HD_WIRE_MORE;
    }
    w->expecting.open = false;
    return HD_WIRE_RECEIVED;
}

static hd_wire_event_t begin_data(hd_wire_t *w) {
    const hd_transfer_t *expecting = &w->expecting;
    uint64_t round = get64(w->in + 8), block = get64(w->in + 16), at = get64(w->in + 24);
    if (!expecting->open) {
        return bad(w, "sent data that nobody waits for");
    }
    if (round == expecting->round && block != expecting->block) {
        w->peer.block = block;
        bad(w, "exchanges blocks of another size");
        return HD_WIRE_UNEQUAL;
    }
    uint64_t left = expecting->total - expecting->at;
    if (round != expecting->round || at != expecting->at || w->payload > at_most_a_piece(left) ||
        (w->payload == 0 && left > 0)) {
        return bad(w, "sent another piece of data than the one to come");
    }
    if (w->payload == 0) {
        return end_data(w);
    }
    enter(w, HD_WIRE_AT_PAYLOAD);
    return HD_WIRE_MORE;
}

/* A frame of a kind that comes once, from one of the ends, and before the first exchange. */
static hd_wire_event_t take_once(hd_wire_t *w, hd_wire_event_t event) {
    bool from_accepting = w->kind == HD_WIRE_START || w->kind == HD_WIRE_PARENT;
    uint32_t bit = UINT32_C(1) << w->kind;
    if (w->accepting == from_accepting || w->kinds & bit || w->payload != 0) {
        return bad(w, "sent a message out of turn");
    }
    w->kinds |= bit;
    enter(w, HD_WIRE_AT_HEAD);
    return event;
}

static hd_wire_event_t take_parent(hd_wire_t *w) {
    const uint8_t *fields = w->in + 8;
    uint32_t family = get32(fields), port = get32(fields + 4);
    if ((family != 4 && family != 6) || port == 0 || port > UINT16_MAX) {
        return bad(w, "sent an address that is none");
    }
    w->peer.at = (hd_place_t){.family = (uint16_t)family, .port = (uint16_t)port};
    memcpy(w->peer.at.host, fields + 8, sizeof(w->peer.at.host));
    return take_once(w, HD_WIRE_ADDRESSED);
}

static hd_wire_event_t take_listens(hd_wire_t *w) {
    uint32_t port = get32(w->in + 8);
    if (port == 0 || port > UINT16_MAX) {
        return bad(w, "sent a port that is none");
    }
    w->peer.port = (uint16_t)port;
    return take_once(w, HD_WIRE_LISTENING);
}

static hd_wire_event_t begin_frame(hd_wire_t *w) {
    uint8_t right[HD_WIRE_MAC];
    uint8_t sender = w->accepting ? FROM_CONNECTING : FROM_ACCEPTING;
    frame_mac(w, sender, 'h', w->numbers_in, w->in, HD_WIRE_HEADER, right);
    if (!same_mac(right, w->in + HD_WIRE_HEADER)) {
        return bad(w, "sent a message that does not authenticate");
    }
    w->kind = get32(w->in);
    w->payload = get32(w->in + 4);
    if (w->payload == 0) {
        w->numbers_in++; /* else when its payload is over */
    }
    switch (w->kind) {
    case HD_WIRE_START:
        return take_once(w, HD_WIRE_STARTED);
    case HD_WIRE_PARENT:
        return take_parent(w);
    case HD_WIRE_LISTENS:
        return take_listens(w);
    case HD_WIRE_LINKED:
        return take_once(w, HD_WIRE_HAS_LINKED);
    case HD_WIRE_DATA:
        return begin_data(w);
    case HD_WIRE_ABORT:
        if (w->payload < 4 || w->payload > HD_WIRE_FAIL) {
            return bad(w, "sent an abort of a wrong size");
        }
        enter(w, HD_WIRE_AT_PAYLOAD);
        return HD_WIRE_MORE;
    default:
        return bad(w, "sent a message of an unknown kind");
    }
}

/* A status that is no error would be taken for success. */
static hd_wire_event_t take_abort(hd_wire_t *w) {
    int32_t status = (int32_t)get32(w->in);
    size_t length = w->payload - 4;
    get_text(w->peer.text, w->in + 4, length);
    w->peer.status =
        status < 0 && status > UCC_ERR_LAST ? (ucc_status_t)status : UCC_ERR_NO_MESSAGE;
    w->expecting.open = false;
    enter(w, HD_WIRE_AT_END);
    return HD_WIRE_ABORTED;
}

static hd_wire_event_t end_frame(hd_wire_t *w) {
    uint8_t right[HD_WIRE_MAC];
    uint8_t sender = w->accepting ? FROM_CONNECTING : FROM_ACCEPTING;
    const uint8_t *content = w->kind == HD_WIRE_DATA ? w->expecting.base + w->expecting.at : w->in;
    frame_mac(w, sender, 'p', w->numbers_in, content, w->payload, right);
    if (!same_mac(right, w->mac)) {
        return bad(w, "sent a message that does not authenticate");
    }
    w->numbers_in++;
    return w->kind == HD_WIRE_DATA ? end_data(w) : take_abort(w);
}

hd_wire_event_t hd_wire_took(hd_wire_t *w, size_t n) {
    w->got += n;
    if (w->got < w->want) {
        return HD_WIRE_MORE;
    }
    switch (w->stage) {
    case HD_WIRE_AT_HELLO:
        return take_hello(w);
    case HD_WIRE_AT_CHALLENGE:
        return take_challenge(w);
    case HD_WIRE_AT_PROOF:
        return take_proof(w);
    case HD_WIRE_AT_VERDICT:
        return take_verdict(w);
    case HD_WIRE_AT_HEAD:
        return begin_frame(w);
    case HD_WIRE_AT_PAYLOAD:
        enter(w, HD_WIRE_AT_PAYLOAD_MAC);
        return HD_WIRE_MORE;
    case HD_WIRE_AT_PAYLOAD_MAC:
        return end_frame(w);
    case HD_WIRE_AT_END:
        break;
    }
    return bad(w, "is read after its end");
}
