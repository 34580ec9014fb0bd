/* test_wire.c: no message that was cut, changed, repeated, reflected or taken from elsewhere is
 * believed. Both ends of a connection in memory.
 */
#include "bootstrap/wire.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <stdint.h>
#include <string.h>

TestSuite(bootstrap_wire, .timeout = 60);

static const uint8_t key[] = "the key that both ends know.....";

typedef struct pair {
    hd_wire_t root, rank;
} pair_t;

/* All bytes, as many at a time as are asked for; the event that ends it. n left: *rest. */
static hd_wire_event_t feed_some(hd_wire_t *w, const uint8_t *bytes, size_t n, size_t *rest) {
    hd_wire_event_t event = HD_WIRE_MORE;
    *rest = n;
    while (event == HD_WIRE_MORE && *rest > 0) {
        size_t room;
        uint8_t *space = hd_wire_space(w, &room);
        room = room < *rest ? room : *rest;
        cr_assert_gt(room, 0);
        memcpy(space, bytes + n - *rest, room);
        *rest -= room;
        event = hd_wire_took(w, room);
    }
    return event;
}

static hd_wire_event_t feed(hd_wire_t *w, const uint8_t *bytes, size_t n) {
    size_t rest;
    return feed_some(w, bytes, n, &rest);
}

static void open_pair(pair_t *p) {
    cr_assert_geq(sodium_init(), 0);
    hd_wire_open(&p->root, true, key, sizeof(key), 4, 0);
    p->root.fanout = 4;
    hd_wire_open(&p->rank, false, key, sizeof(key), 4, 2);
}

/* Up to the verdict; `flip` is a byte of the handshake that is changed on its way, -1 none. Its
 * steps' events. */
static bool shake(pair_t *p, int flip) {
    uint8_t out[HD_WIRE_VERDICT];
    int base = 0;
    struct step {
        int bytes;
        hd_wire_event_t event;
    } steps[] = {{HD_WIRE_HELLO, HD_WIRE_GREETED},
                 {HD_WIRE_CHALLENGE, HD_WIRE_CHALLENGED},
                 {HD_WIRE_PROOF, HD_WIRE_PROVEN},
                 {HD_WIRE_VERDICT, HD_WIRE_JUDGED}};
    for (int i = 0; i < 4; i++) {
        switch (i) {
        case 0:
            hd_wire_write_hello(&p->rank, out);
            break;
        case 1:
            hd_wire_write_challenge(&p->root, out);
            break;
        case 2:
            hd_wire_write_proof(&p->rank, out);
            break;
        default:
            hd_wire_write_verdict(&p->root, HD_WIRE_ACCEPTED, out);
            break;
        }
        if (flip >= base && flip < base + steps[i].bytes) {
            out[flip - base] ^= 0x40;
        }
        base += steps[i].bytes;
        if (feed(i % 2 == 0 ? &p->root : &p->rank, out, (size_t)steps[i].bytes) != steps[i].event) {
            return false;
        }
    }
    return p->rank.peer.verdict == HD_WIRE_ACCEPTED;
}

static void joined(pair_t *p) {
    open_pair(p);
    cr_assert(shake(p, -1));
    cr_assert_eq(p->root.peer.rank, 2);
}

/* One frame of a block of n bytes from the rank, as it goes over the wire. */
static size_t write_block(pair_t *p, uint8_t *block, size_t n, uint8_t *out) {
    hd_transfer_t t = {
        .round = 1, .block = n, .total = n, .ready = HD_WIRE_ALL, .base = block, .open = true};
    size_t bytes;
    uint8_t mac[HD_WIRE_MAC];
    hd_wire_write_piece(&p->rank, &t, out, &bytes, mac);
    if (bytes > 0) {
        memcpy(out + HD_WIRE_HEAD, block, bytes);
        memcpy(out + HD_WIRE_HEAD + bytes, mac, HD_WIRE_MAC);
        bytes += HD_WIRE_MAC;
    }
    return HD_WIRE_HEAD + bytes;
}

static void expect_block(hd_wire_t *w, uint64_t round, uint8_t *to, size_t n) {
    w->expecting =
        (hd_transfer_t){.round = round, .block = n, .total = n, .base = to, .open = true};
}

Test(bootstrap_wire, a_handshake_byte_that_is_changed_is_found_wherever_it_is) {
    for (int flip = 0; flip < HD_WIRE_HELLO + HD_WIRE_CHALLENGE + HD_WIRE_PROOF + HD_WIRE_VERDICT;
         flip++) {
        pair_t p;
        open_pair(&p);
        cr_expect(!shake(&p, flip), "byte %d", flip);
    }
}

Test(bootstrap_wire, who_has_another_key_proves_nothing_at_either_end) {
    uint8_t other[] = "another key that is as long.....", out[HD_WIRE_VERDICT];
    pair_t p;
    open_pair(&p);
    p.rank.key = other;
    cr_expect(!shake(&p, -1));
    cr_expect_str_eq(p.root.why, "does not know the job's key");
    /* a rank 0 that accepts whatever comes */
    open_pair(&p);
    hd_wire_write_hello(&p.rank, out);
    memcpy(p.root.hello, out, HD_WIRE_HELLO);
    hd_wire_write_challenge(&p.root, out);
    cr_expect_eq(feed(&p.rank, out, HD_WIRE_CHALLENGE), HD_WIRE_CHALLENGED);
    p.root.key = other;
    hd_wire_write_verdict(&p.root, HD_WIRE_ACCEPTED, out);
    cr_expect_eq(feed(&p.rank, out, HD_WIRE_VERDICT), HD_WIRE_BAD);
}

Test(bootstrap_wire, a_proof_cannot_be_replayed) {
    pair_t p;
    uint8_t hello[HD_WIRE_HELLO], challenge[HD_WIRE_CHALLENGE], proof[HD_WIRE_PROOF];
    open_pair(&p);
    hd_wire_write_hello(&p.rank, hello);
    cr_assert_eq(feed(&p.root, hello, sizeof(hello)), HD_WIRE_GREETED);
    hd_wire_write_challenge(&p.root, challenge);
    cr_assert_eq(feed(&p.rank, challenge, sizeof(challenge)), HD_WIRE_CHALLENGED);
    hd_wire_write_proof(&p.rank, proof);
    hd_wire_open(&p.root, true, key, sizeof(key), 4, 0);
    cr_assert_eq(feed(&p.root, hello, sizeof(hello)), HD_WIRE_GREETED);
    hd_wire_write_challenge(&p.root, challenge);
    cr_expect_eq(feed(&p.root, proof, sizeof(proof)), HD_WIRE_BAD);
}

Test(bootstrap_wire, what_an_end_has_written_itself_is_not_believed) {
    pair_t p;
    uint8_t out[HD_WIRE_HEAD + 100], block[10] = "reflected", to[10];
    open_pair(&p);
    hd_wire_write_hello(&p.rank, out);
    feed(&p.root, out, HD_WIRE_HELLO);
    hd_wire_write_challenge(&p.root, out);
    feed(&p.rank, out, HD_WIRE_CHALLENGE);
    hd_wire_write_proof(&p.rank, out); /* its own proof, as the HMAC of an accepting verdict */
    memmove(out + HD_WIRE_VERDICT_FIELDS, out, HD_WIRE_PROOF);
    memset(out, 0, HD_WIRE_VERDICT_FIELDS);
    cr_expect_eq(feed(&p.rank, out, HD_WIRE_VERDICT), HD_WIRE_BAD);
    joined(&p);
    size_t n = write_block(&p, block, sizeof(block), out);
    expect_block(&p.rank, 1, to, sizeof(to));
    cr_expect_eq(feed(&p.rank, out, n), HD_WIRE_BAD);
}

Test(bootstrap_wire, a_block_arrives_and_not_twice) {
    pair_t p;
    uint8_t out[HD_WIRE_HEAD + 100], block[10] = "a message", to[10];
    joined(&p);
    size_t n = write_block(&p, block, sizeof(block), out), rest;
    expect_block(&p.root, 1, to, sizeof(to));
    cr_assert_eq(feed(&p.root, out, n), HD_WIRE_RECEIVED);
    cr_expect_arr_eq(to, block, sizeof(block));
    expect_block(&p.root, 1, to, sizeof(to));
    cr_expect_eq(feed_some(&p.root, out, n, &rest), HD_WIRE_BAD);
    cr_expect_str_eq(p.root.why, "sent a message that does not authenticate");
}

Test(bootstrap_wire, a_frame_of_another_connection_is_not_believed) {
    pair_t p, q;
    uint8_t out[HD_WIRE_HEAD + 100], block[10] = "a message", to[10];
    joined(&p);
    joined(&q);
    size_t n = write_block(&q, block, sizeof(block), out);
    expect_block(&p.root, 1, to, sizeof(to));
    cr_expect_eq(feed(&p.root, out, n), HD_WIRE_BAD);
}

Test(bootstrap_wire, a_frame_byte_that_is_changed_is_found_wherever_it_is) {
    uint8_t out[HD_WIRE_HEAD + 100], block[40] = "a message", to[40];
    pair_t p;
    for (size_t flip = 0; flip < HD_WIRE_HEAD + sizeof(block) + HD_WIRE_MAC; flip++) {
        joined(&p);
        size_t n = write_block(&p, block, sizeof(block), out);
        cr_assert_eq(n, HD_WIRE_HEAD + sizeof(block) + HD_WIRE_MAC);
        out[flip] ^= 1;
        expect_block(&p.root, 1, to, sizeof(to));
        cr_expect_eq(feed(&p.root, out, n), HD_WIRE_BAD, "byte %zu", flip);
        size_t room;
        hd_wire_space(&p.root, &room);
        cr_expect_eq(room, 0, "goes on after a bad message");
    }
}

Test(bootstrap_wire, truncated_messages_are_waited_for_and_never_used) {
    uint8_t out[HD_WIRE_HEAD + 100], block[40] = "a message", to[40];
    pair_t p;
    joined(&p);
    size_t n = write_block(&p, block, sizeof(block), out);
    expect_block(&p.root, 1, to, sizeof(to));
    for (size_t i = 0; i + 1 < n; i++) {
        cr_assert_eq(feed(&p.root, out + i, 1), HD_WIRE_MORE, "byte %zu", i);
    }
    cr_expect_eq(feed(&p.root, out + n - 1, 1), HD_WIRE_RECEIVED);
}

/* --- headers that authenticate, and are wrong all the same ------------------------------------ */

static hd_wire_event_t receive(hd_transfer_t sent, hd_transfer_t expected, const char **why,
                               uint64_t *block) {
    static uint8_t from[HD_WIRE_PIECE * 2], to[HD_WIRE_PIECE * 2],
        out[HD_WIRE_HEAD + HD_WIRE_PIECE + HD_WIRE_MAC];
    pair_t p;
    size_t bytes;
    uint8_t mac[HD_WIRE_MAC];
    joined(&p);
    sent.base = from;
    sent.ready = HD_WIRE_ALL;
    expected.base = to;
    hd_wire_write_piece(&p.rank, &sent, out, &bytes, mac);
    memcpy(out + HD_WIRE_HEAD, from, bytes);
    memcpy(out + HD_WIRE_HEAD + bytes, mac, HD_WIRE_MAC);
    p.root.expecting = expected;
    size_t rest;
    hd_wire_event_t event =
        feed_some(&p.root, out, HD_WIRE_HEAD + bytes + (bytes > 0 ? HD_WIRE_MAC : 0), &rest);
    *why = p.root.why;
    *block = p.root.peer.block;
    return event;
}

Test(bootstrap_wire, another_piece_than_the_one_to_come_is_refused) {
    static const struct {
        hd_transfer_t sent, expected;
        hd_wire_event_t event;
    } rows[] = {
        {{1, 100, 100, 0, 0, NULL, true}, {1, 100, 100, 0, 0, NULL, true}, HD_WIRE_RECEIVED},
        {{1, 0, 0, 0, 0, NULL, true}, {1, 0, 0, 0, 0, NULL, true}, HD_WIRE_RECEIVED},
        {{1, 100, 100, 0, 0, NULL, true}, {1, 100, 400, 0, 0, NULL, true}, HD_WIRE_MORE},
        {{1, 100, 0, 0, 0, NULL, true}, {1, 100, 400, 0, 0, NULL, true}, HD_WIRE_BAD}, /* empty */
        {{1, 100, 100, 0, 0, NULL, true},
         {1, 100, 50, 0, 0, NULL, true},
         HD_WIRE_BAD}, /* too long */
        {{1, 100, 100, 20, 0, NULL, true}, {1, 100, 100, 0, 0, NULL, true}, HD_WIRE_BAD},
        {{2, 100, 100, 0, 0, NULL, true}, {1, 100, 100, 0, 0, NULL, true}, HD_WIRE_BAD},
        {{1, 100, 100, 0, 0, NULL, true}, {1, 100, 100, 0, 0, NULL, false}, HD_WIRE_BAD},
        {{1, 100, 100, 0, 0, NULL, true}, {1, 0, 0, 0, 0, NULL, true}, HD_WIRE_UNEQUAL},
        {{1, 100, 100, 0, 0, NULL, true}, {1, 99, 99, 0, 0, NULL, true}, HD_WIRE_UNEQUAL},
        {{1, 0, 0, 0, 0, NULL, true}, {1, 100, 100, 0, 0, NULL, true}, HD_WIRE_UNEQUAL},
        {{1, UINT64_MAX, 5, 0, 0, NULL, true}, {1, 5, 5, 0, 0, NULL, true}, HD_WIRE_UNEQUAL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *why;
        uint64_t block;
        hd_wire_event_t event = receive(rows[i].sent, rows[i].expected, &why, &block);
        cr_expect_eq(event, rows[i].event, "row %zu: %d", i, event);
        if (event == HD_WIRE_UNEQUAL) {
            cr_expect_eq(block, rows[i].sent.block);
        }
    }
}

Test(bootstrap_wire, a_start_comes_once_and_from_rank_0_only) {
    pair_t p;
    uint8_t out[HD_WIRE_HEAD];
    joined(&p);
    hd_wire_write_start(&p.root, out);
    cr_expect_eq(feed(&p.rank, out, sizeof(out)), HD_WIRE_STARTED);
    hd_wire_write_start(&p.root, out);
    cr_expect_eq(feed(&p.rank, out, sizeof(out)), HD_WIRE_BAD);
    joined(&p);
    hd_wire_write_start(&p.rank, out);
    cr_expect_eq(feed(&p.root, out, sizeof(out)), HD_WIRE_BAD);
}

Test(bootstrap_wire, what_is_said_while_forming_comes_once_and_from_the_right_end) {
    pair_t p;
    uint8_t out[HD_WIRE_HEAD];
    const hd_place_t at = {.family = 4, .port = 65535, .host = {10, 0, 0, 7}};
    joined(&p);
    hd_wire_write_listens(&p.rank, 65535, out);
    cr_expect_eq(feed(&p.root, out, sizeof(out)), HD_WIRE_LISTENING);
    cr_expect_eq(p.root.peer.port, 65535);
    hd_wire_write_parent(&p.root, &at, out);
    cr_expect_eq(feed(&p.rank, out, sizeof(out)), HD_WIRE_ADDRESSED);
    cr_expect_eq(memcmp(&p.rank.peer.at, &at, sizeof(at)), 0);
    hd_wire_write_linked(&p.rank, out);
    cr_expect_eq(feed(&p.root, out, sizeof(out)), HD_WIRE_HAS_LINKED);
    hd_wire_write_linked(&p.rank, out);
    cr_expect_eq(feed(&p.root, out, sizeof(out)), HD_WIRE_BAD);
    hd_wire_write_parent(&p.root, &at, out);
    cr_expect_eq(feed(&p.rank, out, sizeof(out)), HD_WIRE_BAD);
    joined(&p);
    hd_wire_write_listens(&p.root, 1, out);
    cr_expect_eq(feed(&p.rank, out, sizeof(out)), HD_WIRE_BAD);
    hd_wire_write_parent(&p.rank, &at, out);
    cr_expect_eq(feed(&p.root, out, sizeof(out)), HD_WIRE_BAD);
    joined(&p);
    hd_wire_write_parent(&p.root, &(hd_place_t){.family = 5, .port = 1}, out);
    cr_expect_eq(feed(&p.rank, out, sizeof(out)), HD_WIRE_BAD);
    hd_wire_write_listens(&p.rank, 0, out);
    cr_expect_eq(feed(&p.root, out, sizeof(out)), HD_WIRE_BAD);
}

Test(bootstrap_wire, both_ends_hear_the_others_job_and_it_is_printable) {
    pair_t p;
    open_pair(&p);
    p.rank.job = "\033[2J of a rank";
    p.root.job = "a name of forty bytes, which is too long";
    p.rank.to = 3;
    cr_assert(shake(&p, -1));
    cr_expect_str_eq(p.root.peer.job, "?[2J of a rank");
    cr_expect_eq(p.root.peer.to, 3);
    cr_expect_str_eq(p.rank.peer.job, "a name of forty bytes, which is too lon");
    cr_expect_eq(p.rank.peer.fanout, 4);
}

Test(bootstrap_wire, an_abort_is_an_error_and_its_text_is_printable) {
    pair_t p;
    char text[400];
    uint8_t out[HD_WIRE_HEAD + HD_WIRE_FAIL + HD_WIRE_MAC];
    joined(&p);
    memset(text, 'x', sizeof(text));
    memcpy(text, "\033[2J\n\377", 6);
    text[399] = '\0';
    size_t n = hd_wire_write_abort(&p.root, UCC_OK, text, out); /* a lie */
    cr_assert_leq(n, sizeof(out));
    cr_expect_eq(feed(&p.rank, out, n), HD_WIRE_ABORTED);
    cr_expect_eq(p.rank.peer.status, UCC_ERR_NO_MESSAGE);
    cr_expect_eq(strlen(p.rank.peer.text), HD_WIRE_TEXT - 1);
    cr_expect_eq(strncmp(p.rank.peer.text, "?[2J??xx", 8), 0, "%s", p.rank.peer.text);
    joined(&p);
    n = hd_wire_write_abort(&p.rank, UCC_ERR_TIMED_OUT, "", out);
    cr_expect_eq(feed(&p.root, out, n), HD_WIRE_ABORTED);
    cr_expect_eq(p.root.peer.status, UCC_ERR_TIMED_OUT);
}
