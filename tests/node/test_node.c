/* test_node.c: two nodes of one process, and strangers: offers, fetches, connections, and what can
 * be short. tests/node/test_processes.c has real processes.
 */
#include "../support/forbidden.h"
#include "two.h"

#include "core/log.h"
#include "core/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

TestSuite(node, .timeout = 120);

static char lines[16][512];
static int n_lines;

static void keep_line(hd_log_level_t level, const char *line, void *arg) {
    (void)level;
    (void)arg;
    if (n_lines < 16) {
        snprintf(lines[n_lines++], sizeof(lines[0]), "%s", line);
    }
}

static void keep_lines(void) {
    hd_log_set_level(HD_LOG_INFO);
    hd_log_capture(keep_line, NULL);
}

static int count_lines(const char *text) {
    int n = 0;
    for (int i = 0; i < n_lines; i++) {
        n += strstr(lines[i], text) != NULL;
    }
    return n;
}

/* --- segments --------------------------------------------------------------------------------- */

Test(node, a_segment_comes_to_whom_it_is_offered) {
    hd_node_t *a = opened(), *b = opened();
    uint32_t before = descriptors();
    hd_node_offer_t *offer = offer_to(a, b);
    cr_expect_eq(hd_node_offer_test(offer), UCC_INPROGRESS);
    hd_node_fetch_t *fetch = fetch_from(b, a);
    cr_expect_eq(hd_node_fetch_state(fetch), HD_NODE_PENDING);
    UNTIL(hd_node_offer_test(offer) != UCC_INPROGRESS, a, b);
    cr_expect_eq(hd_node_offer_test(offer), UCC_OK);
    cr_expect_eq(hd_node_offer_state(offer, 0), HD_NODE_DONE);
    expect_segment(fetch);
    hd_node_segment_t again;
    cr_expect_eq(hd_node_fetch_test(fetch, &again), UCC_OK);
    cr_expect_eq(again.fd, -1, "it is given once");
    cr_expect_eq(descriptors(), before + 2, "only the connection is left");
    hd_node_fetch_end(fetch);
    hd_node_offer_end(offer);
    settle(a, b);
    cr_expect_eq(descriptors(), before, "not even that");
    hd_node_close(a);
    hd_node_close(b);
    cr_expect_eq(descriptors(), before - 8);
}

Test(node, a_fetch_waits_for_its_offer) {
    hd_node_t *a = opened(), *b = opened();
    hd_node_fetch_t *fetch = fetch_from(b, a);
    settle(a, b);
    cr_expect_eq(hd_node_fetch_state(fetch), HD_NODE_PENDING);
    hd_node_offer_t *offer = offer_to(a, b);
    UNTIL(hd_node_fetch_state(fetch) != HD_NODE_PENDING, a, b);
    expect_segment(fetch);
    UNTIL(hd_node_offer_state(offer, 0) == HD_NODE_DONE, a, b);
    cr_expect_eq(offer->segment.fd, -1, "nobody may fetch it any more");
}

Test(node, several_segments_come_over_one_connection) {
    enum { N = 20 };
    hd_node_t *a = opened(), *b = opened();
    hd_node_fetch_t *fetch[N];
    hd_node_offer_t *offer[N];
    uint64_t doors[1][2] = {{b->address.door[0], b->address.door[1]}};
    for (uint64_t i = 0; i < N; i++) {
        const uint64_t own[2] = {7, i};
        hd_node_segment_t segment;
        cr_assert_eq(hd_segment_create(1000 + i, &segment), UCC_OK);
        if (i % 2) {
            cr_assert_eq(hd_node_fetch(b, &a->address, own, &fetch[i]), UCC_OK);
            settle(a, b);
        }
        cr_assert_eq(hd_node_offer(a, own, &segment, (const uint64_t(*)[2])doors, 1, &offer[i]),
                     UCC_OK);
        if (i % 2 == 0) {
            cr_assert_eq(hd_node_fetch(b, &a->address, own, &fetch[i]), UCC_OK);
        }
    }
    for (uint64_t i = 0; i < N; i++) {
        hd_node_segment_t segment;
        UNTIL(hd_node_offer_test(offer[i]) == UCC_OK, a, b);
        cr_assert_eq(hd_node_fetch_test(fetch[i], &segment), UCC_OK);
        cr_expect_eq(segment.bytes, 1000 + i);
    }
    cr_expect_eq(lines_of(a), 1);
    cr_expect_eq(lines_of(b), 1);
}

Test(node, who_is_not_expected_is_refused) {
    hd_node_t *a = opened(), *b = opened(), *c = opened();
    hd_node_fetch_t *early = fetch_from(c, a);
    settle(a, c);
    hd_node_offer_t *offer = offer_to(a, b);
    UNTIL(hd_node_fetch_state(early) != HD_NODE_PENDING, a, c);
    cr_expect_eq(hd_node_fetch_state(early), HD_NODE_UNEXPECTED);
    hd_node_fetch_t *late = fetch_from(c, a);
    UNTIL(hd_node_fetch_state(late) != HD_NODE_PENDING, a, c);
    cr_expect_eq(hd_node_fetch_state(late), HD_NODE_UNEXPECTED);
    cr_expect_eq(hd_node_offer_test(offer), UCC_INPROGRESS);
}

Test(node, a_segment_is_fetched_once) {
    hd_node_t *a = opened(), *b = opened();
    hd_node_offer_t *offer = offer_to(a, b);
    hd_node_fetch_t *first = fetch_from(b, a), *second = fetch_from(b, a);
    UNTIL(hd_node_fetch_state(first) != HD_NODE_PENDING, a, b);
    UNTIL(hd_node_fetch_state(second) != HD_NODE_PENDING, a, b);
    bool first_has = hd_node_fetch_state(first) == HD_NODE_DONE;
    expect_segment(first_has ? first : second);
    cr_expect_eq(hd_node_fetch_state(first_has ? second : first), HD_NODE_UNEXPECTED);
    UNTIL(hd_node_offer_test(offer) == UCC_OK, a, b);
    hd_node_fetch_t *third = fetch_from(b, a);
    UNTIL(hd_node_fetch_state(third) != HD_NODE_PENDING, a, b);
    cr_expect_eq(hd_node_fetch_state(third), HD_NODE_UNEXPECTED);
}

Test(node, what_is_withdrawn_is_refused_before_and_after) {
    hd_node_t *a = opened(), *b = opened();
    uint32_t before = descriptors();
    hd_node_fetch_t *waits = fetch_from(b, a);
    settle(a, b);
    hd_node_withdraw(a, name);
    UNTIL(hd_node_fetch_state(waits) != HD_NODE_PENDING, a, b);
    cr_expect_eq(hd_node_fetch_state(waits), HD_NODE_WITHDRAWN);
    hd_node_segment_t segment;
    cr_expect_eq(hd_node_fetch_test(waits, &segment), UCC_ERR_NOT_FOUND);
    hd_node_fetch_t *late = fetch_from(b, a);
    UNTIL(hd_node_fetch_state(late) != HD_NODE_PENDING, a, b);
    cr_expect_eq(hd_node_fetch_state(late), HD_NODE_WITHDRAWN);
    hd_node_fetch_end(waits);
    hd_node_fetch_end(late);
    settle(a, b);
    cr_expect_eq(descriptors(), before);
}

Test(node, an_offer_that_ends_early_is_withdrawn) {
    hd_node_t *a = opened(), *b = opened();
    uint32_t before = descriptors();
    hd_node_offer_t *offer = offer_to(a, b);
    hd_node_withdraw(a, name);
    cr_expect_eq(hd_node_offer_state(offer, 0), HD_NODE_WITHDRAWN);
    cr_expect_eq(hd_node_offer_test(offer), UCC_ERR_NOT_FOUND);
    hd_node_offer_end(offer);
    cr_expect_eq(descriptors(), before);
    hd_node_fetch_t *late = fetch_from(b, a);
    UNTIL(hd_node_fetch_state(late) != HD_NODE_PENDING, a, b);
    cr_expect_eq(hd_node_fetch_state(late), HD_NODE_WITHDRAWN);
}

Test(node, a_fetch_that_is_taken_back_can_be_made_again) {
    hd_node_t *a = opened(), *b = opened();
    uint32_t before = descriptors();
    hd_node_fetch_t *fetch = fetch_from(b, a); /* not connected yet */
    hd_node_fetch_end(fetch);
    settle(a, b);
    fetch = fetch_from(b, a); /* waits there */
    settle(a, b);
    cr_expect_eq(a->n_requests, 1);
    hd_node_fetch_end(fetch);
    settle(a, b);
    cr_expect_eq(a->n_requests, 0);
    hd_node_offer_t *offer = offer_to(a, b);
    fetch = fetch_from(b, a);
    for (int i = 0; i < 50 && a->offers->slot[0].number == 0; i++) {
        hd_node_progress(i % 2 ? a : b);
    }
    cr_assert_neq(a->offers->slot[0].number, 0, "it is on its way");
    hd_node_fetch_end(fetch);
    settle(a, b);
    cr_expect_eq(hd_node_offer_state(offer, 0), HD_NODE_PENDING);
    fetch = fetch_from(b, a);
    UNTIL(hd_node_offer_test(offer) == UCC_OK, a, b);
    hd_node_offer_end(offer);
    hd_node_fetch_end(fetch); /* which nobody has asked for its segment */
    settle(a, b);
    cr_expect_eq(descriptors(), before);
}

Test(node, what_makes_no_sense_is_an_error) {
    hd_node_t *a = opened(), *b = opened();
    hd_node_fetch_t *fetch;
    hd_node_peer_t *peer;
    hd_node_offer_t *offer = offer_to(a, b), *other;
    const uint64_t null[2] = {0}, own[2] = {9, 9};
    hd_node_address_t far = b->address;
    far.identity[0]++;
    cr_expect_eq(hd_node_fetch(a, &far, name, &fetch), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(hd_node_fetch(a, &a->address, name, &fetch), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(hd_node_fetch(a, &b->address, null, &fetch), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(hd_node_meet(a, &far, true, &peer), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(hd_node_meet(a, &a->address, true, &peer), UCC_ERR_INVALID_PARAM);
    hd_node_segment_t segment;
    uint64_t twice[2][2] = {{1, 2}, {1, 2}}, mine[1][2];
    memcpy(mine[0], a->address.door, sizeof(mine[0]));
    cr_assert_eq(hd_segment_create(BYTES, &segment), UCC_OK);
    cr_expect_eq(hd_node_offer(a, null, &segment, NULL, 0, &other), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(hd_node_offer(a, name, &segment, NULL, 0, &other), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(hd_node_offer(a, own, &segment, (const uint64_t(*)[2])twice, 2, &other),
                 UCC_ERR_INVALID_PARAM);
    cr_expect_eq(hd_node_offer(a, own, &segment, (const uint64_t(*)[2])mine, 1, &other),
                 UCC_ERR_INVALID_PARAM);
    cr_expect_geq(fcntl(segment.fd, F_GETFD), 0, "it is still the caller's");
    cr_expect_eq(hd_node_offer(a, own, &segment, NULL, 0, &other), UCC_OK);
    cr_expect_eq(hd_node_offer_test(other), UCC_OK, "nobody is waited for");
    hd_node_offer_end(other);
    hd_node_offer_end(offer);
}

Test(node, those_who_ask_too_much_are_refused_and_others_are_not) {
    enum { MANY = HD_NODE_REQUESTS_OF_ONE + 300 };
    hd_node_t *a = opened(), *b = opened(), *c = opened();
    hd_node_fetch_t *fetch[MANY];
    uint32_t crowded = 0;
    for (int i = 0; i < MANY; i++) { /* at first, nobody reads */
        fetch[i] = fetch_from(b, a);
    }
    settle(a, b);
    for (int i = 0; i < MANY; i++) {
        crowded += hd_node_fetch_state(fetch[i]) == HD_NODE_CROWDED;
    }
    cr_expect_eq(crowded, MANY - HD_NODE_REQUESTS_OF_ONE);
    cr_expect_eq(a->n_requests, HD_NODE_REQUESTS_OF_ONE);
    hd_node_fetch_t *other = fetch_from(c, a);
    settle(a, c);
    hd_node_withdraw(a, name);
    UNTIL(hd_node_fetch_state(other) == HD_NODE_WITHDRAWN, a, b, c);
    for (int i = 0; i < MANY; i++) {
        UNTIL(hd_node_fetch_state(fetch[i]) != HD_NODE_PENDING, a, b);
        hd_node_fetch_end(fetch[i]);
    }
    settle(a, b);
    cr_expect_eq(a->n_requests, 0);
}

/* Those that the socket does not take are sent when it does. */
Test(node, a_peer_that_does_not_read_for_long_gets_all_that_it_is_owed) {
    enum { MANY = 2000 };
    hd_node_t *a = opened(), *b = opened();
    hd_node_peer_t *peer = meet(b, a, true);
    UNTIL(hd_node_peer_state(peer) == HD_NODE_DONE, a, b);
    static hd_node_fetch_t *fetch[MANY];
    for (int i = 0; i < MANY; i++) {
        fetch[i] = fetch_from(b, a);
        hd_node_progress(b);
    }
    cr_expect(peer->line->blocked);
    hd_node_withdraw(a, name);
    for (int i = 0; i < MANY; i++) {
        UNTIL(hd_node_fetch_state(fetch[i]) == HD_NODE_WITHDRAWN, a, b);
    }
}

Test(node, what_is_taken_back_while_nobody_reads_is_taken_back_when_somebody_does) {
    enum { MANY = 500 };
    hd_node_t *a = opened(), *b = opened();
    hd_node_peer_t *peer = meet(b, a, true);
    UNTIL(hd_node_peer_state(peer) == HD_NODE_DONE, a, b);
    hd_node_fetch_t *fetch[MANY];
    for (int i = 0; i < MANY; i++) {
        fetch[i] = fetch_from(b, a);
    }
    cr_assert(peer->line->blocked);
    for (int i = 0; i < MANY; i++) {
        hd_node_fetch_end(fetch[i]);
    }
    hd_node_progress(a);
    cr_expect_gt(a->n_requests, 0);
    settle(a, b);
    cr_expect_eq(a->n_requests, 0);
    cr_expect_null(peer->fetches);
    cr_expect_eq(peer->uses, 1);
}

/* --- connections ------------------------------------------------------------------------------ */

Test(node, two_that_meet_have_one_connection_whoever_begins) {
    for (int i = 0; i < 200; i++) {
        hd_node_t *a = opened(), *b = opened();
        hd_node_peer_t *of_a = meet(a, b, i % 4 != 1);
        for (int k = 0; k < i / 4 % 5; k++) {
            hd_node_progress(k % 2 ? a : b);
        }
        hd_node_peer_t *of_b = meet(b, a, i % 4 != 2);
        UNTIL(hd_node_peer_state(of_a) == HD_NODE_DONE && hd_node_peer_state(of_b) == HD_NODE_DONE,
              a, b);
        settle(a, b);
        cr_expect_eq(lines_of(a), 1);
        cr_expect_eq(lines_of(b), 1);
        if (i % 2) {
            uint32_t lines_so_far = a->serials + b->serials;
            hd_node_part(of_a);
            settle(a, b);
            cr_expect_eq(hd_node_peer_state(of_b), HD_NODE_DONE, "the other one holds it");
            cr_expect_eq(a->serials + b->serials, lines_so_far);
            hd_node_part(of_b);
        } else {
            hd_node_part(of_b);
            hd_node_part(of_a);
        }
        settle(a, b);
        cr_expect_eq(lines_of(a), 0);
        cr_expect_eq(lines_of(b), 0);
        cr_expect_null(a->peers);
        cr_expect_null(b->peers);
        hd_node_close(a);
        hd_node_close(b);
    }
}

Test(node, one_that_waits_for_the_other_to_connect_does_so_itself_in_the_end) {
    hd_node_t *a = opened(), *b = opened();
    hd_node_peer_t *peer = meet(a, b, false);
    cr_expect_eq(lines_of(a), 0);
    UNTIL(hd_node_peer_state(peer) == HD_NODE_DONE, a, b);
    hd_node_close(b);
    UNTIL(hd_node_peer_state(peer) == HD_NODE_LEFT, a);
}

/* Both connect; the one whose line stays ends it before it is answered. */
Test(node, one_that_has_given_way_to_a_connection_that_ends_connects_again) {
    hd_node_t *b = opened();
    hd_node_address_t address;
    hd_node_peer_t *peer;
    hd_node_message_t m = hello_to(b);
    int door = impostor(b, &address), fd;
    cr_assert_eq(hd_node_meet(b, &address, true, &peer), UCC_OK);
    cr_assert_geq(fd = accept(door, NULL, NULL), 0);
    int crossing = stranger(b);
    memcpy(m.from, address.door, sizeof(m.from));
    say(crossing, &m, -1, 0);
    close(crossing);
    UNTIL(accept(door, NULL, NULL) >= 0, b);
    cr_assert_eq(hear(fd, b, &m), sizeof(m));
    cr_expect_eq(hear(fd, b, &m), 0, "it has given way");
    cr_expect_eq(hd_node_peer_state(peer), HD_NODE_PENDING);
}

Test(node, a_connection_that_nobody_used_is_made_anew) {
    hd_node_t *a = opened(), *b = opened();
    for (int i = 0; i < 100; i++) {
        hd_node_t *one = i % 2 ? a : b, *other = i % 2 ? b : a;
        hd_node_peer_t *peer = meet(one, other, true);
        for (int k = 0; k < i / 2 % 6; k++) { /* as far as it comes */
            hd_node_progress(k % 2 ? one : other);
        }
        hd_node_part(peer);
        if (i % 3) { /* the next one begins while this one ends */
            settle(a, b);
            cr_expect_eq(lines_of(a) + lines_of(b), 0);
        }
    }
    hd_node_peer_t *peer = meet(a, b, true);
    UNTIL(hd_node_peer_state(peer) == HD_NODE_DONE, a, b);
    cr_expect_eq(hd_node_losses(a) + hd_node_losses(b), 0);
}

Test(node, one_holds_what_the_other_is_about_to_end) {
    for (int i = 0; i < 100; i++) {
        hd_node_t *a = opened(), *b = opened();
        hd_node_peer_t *of_a = meet(a, b, true);
        UNTIL(hd_node_peer_state(of_a) == HD_NODE_DONE, a, b);
        settle(a, b);
        hd_node_peer_t *of_b;
        if (i % 2) {
            hd_node_part(of_a);
            of_b = meet(b, a, true);
        } else {
            of_b = meet(b, a, true);
            hd_node_part(of_a);
        }
        settle(a, b);
        UNTIL(hd_node_peer_state(of_b) == HD_NODE_DONE, a, b);
        cr_expect_eq(lines_of(a), 1);
        cr_expect_eq(lines_of(b), 1);
        hd_node_close(a);
        UNTIL(hd_node_peer_state(of_b) == HD_NODE_LEFT, b);
        hd_node_part(of_b);
        hd_node_close(b);
    }
}

Test(node, one_that_leaves_says_so) {
    hd_node_t *a = opened(), *b = opened();
    hd_node_peer_t *peer = meet(a, b, true);
    hd_node_fetch_t *fetch = fetch_from(a, b);
    UNTIL(hd_node_peer_state(peer) == HD_NODE_DONE, a, b);
    cr_expect_eq(hd_node_losses(a), 0);
    settle(a, b);
    hd_node_fetch_t *unread = fetch_from(a, b); /* nobody reads it: the end is an error first */
    hd_node_close(b);
    UNTIL(hd_node_losses(a) == 1, a);
    cr_expect_eq(hd_node_peer_state(peer), HD_NODE_LEFT);
    cr_expect_eq(hd_node_fetch_state(fetch), HD_NODE_LEFT);
    cr_expect_eq(hd_node_fetch_state(unread), HD_NODE_LEFT);
    hd_node_fetch_end(unread);
    hd_node_fetch_end(fetch);
    hd_node_part(peer);
    cr_expect_null(a->peers);
}

Test(node, nobody_behind_a_door_is_an_error) {
    hd_node_t *a = opened(), *b = opened();
    hd_node_address_t gone = b->address;
    hd_node_close(b);
    hd_node_fetch_t *fetch;
    hd_node_segment_t segment;
    cr_assert_eq(hd_node_fetch(a, &gone, name, &fetch), UCC_OK);
    cr_expect_eq(hd_node_fetch_test(fetch, &segment), UCC_ERR_NOT_FOUND);
    cr_expect_eq(hd_node_fetch_state(fetch), HD_NODE_ABSENT);
    hd_node_fetch_end(fetch);
    cr_expect_null(a->peers);
}

Test(node, an_offer_to_somebody_who_is_gone_ends) {
    hd_node_t *a = opened(), *b = opened();
    uint32_t before = descriptors();
    hd_node_offer_t *offer = offer_to(a, b);
    hd_node_close(b);
    UNTIL(hd_node_offer_test(offer) != UCC_INPROGRESS, a);
    cr_expect_eq(hd_node_offer_state(offer, 0), HD_NODE_ABSENT);
    cr_expect_eq(descriptors(), before - 4, "the segment is closed");
    hd_node_offer_end(offer);
}

Test(node, another_layout_is_refused_by_a_line_that_names_both) {
    hd_node_t *a = opened(), *b;
    cr_assert_eq(hd_node_open(0xabc, NULL, &b), UCC_OK);
    keep_lines();
    hd_node_fetch_t *fetch = fetch_from(b, a);
    UNTIL(hd_node_fetch_state(fetch) != HD_NODE_PENDING, a, b);
    cr_expect_eq(hd_node_fetch_state(fetch), HD_NODE_UNLIKE);
    cr_expect_eq(count_lines("its layout is 0x4d, that of this process 0xabc"), 1);
    cr_expect_eq(count_lines("its layout is 0xabc, that of this process 0x4d"), 1);
    cr_expect_eq(lines_of(a) + lines_of(b), 0);
}

Test(node, the_process_has_one_node) {
    hd_node_t *first, *second, *third;
    uint32_t before = descriptors();
    cr_assert_eq(hd_node_enter(LAYOUT, NULL, &first), UCC_OK);
    cr_assert_eq(hd_node_enter(LAYOUT, NULL, &second), UCC_OK);
    cr_expect_eq(first, second);
    hd_node_leave(first);
    cr_assert_eq(hd_node_enter(LAYOUT, NULL, &third), UCC_OK);
    cr_expect_eq(third, second);
    hd_node_leave(third);
    hd_node_leave(second);
    cr_expect_eq(descriptors(), before);
}

Test(node, addresses_tell_who_can_be_reached) {
    hd_node_t *a = opened(), *b = opened();
    cr_expect(hd_node_may_reach(hd_node_address(a), hd_node_address(b)));
    hd_node_address_t other = b->address;
    other.identity[1]++;
    cr_expect_not(hd_node_may_reach(hd_node_address(a), &other));
    other = b->address;
    other.uid++;
    cr_expect_not(hd_node_may_reach(hd_node_address(a), &other));
    cr_expect_not(hd_node_is_same(a->address.door, b->address.door));
    cr_expect_eq(a->address.pid, (uint32_t)getpid());
}

/* --- strangers -------------------------------------------------------------------------------- */

Test(node, who_does_not_know_the_door_is_not_answered) {
    hd_node_t *a = opened();
    hd_node_message_t m = hello_to(a);
    keep_lines();
    for (int i = 0; i < 10; i++) {
        int fd = stranger(a);
        m.name[1] ^= 1;
        say(fd, &m, -1, 0);
        m.name[1] ^= 1;
        cr_expect_eq(hear(fd, a, &m), 0);
        m = hello_to(a);
        close(fd);
    }
    cr_expect_eq(n_lines, 1, "once");
    cr_expect_null(a->peers);
}

Test(node, another_version_is_told_which_this_one_is) {
    hd_node_t *a = opened();
    hd_node_message_t m = hello_to(a), verdict;
    m.version = 9;
    keep_lines();
    int fd = stranger(a);
    say(fd, &m, -1, 0);
    cr_assert_eq(hear(fd, a, &verdict), sizeof(verdict));
    cr_expect_eq(verdict.code, HD_NODE_OTHER_VERSION);
    cr_expect_eq(verdict.version, HD_NODE_VERSION);
    cr_expect_eq(verdict.word, LAYOUT);
    cr_expect_eq(hear(fd, a, &verdict), 0);
    cr_expect_eq(count_lines("it has version 9 of the protocol, this process version 2"), 1);
}

static void expect_turned_away(hd_node_t *a, const hd_node_message_t *m, size_t bytes) {
    hd_node_message_t answer;
    uint8_t raw[2 * HD_NODE_MESSAGE] = {0};
    int fd = stranger(a);
    memcpy(raw, m, sizeof(*m));
    cr_assert_eq(send(fd, raw, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
    cr_expect_eq(hear(fd, a, &answer), 0);
    close(fd);
}

Test(node, strangers_who_talk_nonsense_are_turned_away) {
    hd_node_t *a = opened();
    hd_node_message_t m = hello_to(a);
    expect_turned_away(a, &m, sizeof(m) - 1);
    expect_turned_away(a, &m, sizeof(m) + 1);
    expect_turned_away(a, &m, 1);
    m.kind = HD_NODE_FETCH;
    expect_turned_away(a, &m, sizeof(m));
    m = hello_to(a);
    memcpy(m.from, a->address.door, sizeof(m.from)); /* it calls itself by its host's name */
    expect_turned_away(a, &m, sizeof(m));
    cr_expect_null(a->peers);
    cr_expect_eq(a->strangers, 0);
}

Test(node, many_silent_strangers_keep_nobody_out_for_long) {
    enum { MANY = 300 };
    hd_node_t *a = opened(), *b = opened();
    uint32_t before = descriptors();
    int fd[MANY];
    for (int i = 0; i < MANY; i++) {
        fd[i] = stranger(a);
        hd_node_progress(a);
    }
    cr_expect_leq(a->strangers, HD_NODE_STRANGERS);
    cr_expect_leq(descriptors(), before + MANY + HD_NODE_STRANGERS);
    hd_node_offer_t *offer = offer_to(a, b);
    hd_node_fetch_t *fetch = fetch_from(b, a);
    UNTIL(hd_node_offer_test(offer) == UCC_OK, a, b);
    expect_segment(fetch);
    UNTIL(a->strangers == 0, a, b); /* their time is over */
    (void)fd;
}

Test(node, descriptors_of_strangers_are_not_let_in) {
    hd_node_t *a = opened();
    uint32_t before = descriptors();
    hd_node_message_t m = hello_to(a);
    int fd = stranger(a);
    say(fd, &m, 0, 3);
    cr_expect_eq(hear(fd, a, &m), 0);
    close(fd);
    cr_expect_eq(descriptors(), before);
}

Test(node, a_second_connection_of_a_peer_is_refused_while_the_first_one_is_there) {
    hd_node_t *a = opened();
    hd_node_message_t m = hello_to(a);
    int first = stranger(a);
    say(first, &m, -1, 0);
    cr_assert_eq(hear(first, a, &m), sizeof(m));
    cr_expect_eq(m.code, HD_NODE_WELCOME);
    int second = stranger(a);
    m = hello_to(a);
    say(second, &m, -1, 0);
    cr_assert_eq(hear(second, a, &m), sizeof(m));
    cr_expect_eq(m.code, HD_NODE_CROSSED);
    cr_expect_eq(hear(second, a, &m), 0);
    int third = stranger(a); /* it is read before the end of the first one is, maybe */
    m = hello_to(a);
    say(third, &m, -1, 0);
    close(first);
    cr_assert_eq(hear(third, a, &m), sizeof(m));
    cr_expect_eq(m.code, HD_NODE_WELCOME);
    cr_expect_eq(lines_of(a), 1);
}

/* --- peers that do what ours do not ----------------------------------------------------------- */

/* Behind the door of `address`, somebody has let b in, and heard what it wants. */
static int let_in(hd_node_t *b, int door, hd_node_message_t *wants) {
    hd_node_message_t m, welcome = hd_node_write(HD_NODE_VERDICT);
    int fd = -1;
    UNTIL((fd = accept4(door, NULL, NULL, SOCK_CLOEXEC)) >= 0, b);
    cr_assert_eq(hear(fd, b, &m), sizeof(m));
    cr_assert_eq(m.kind, HD_NODE_HELLO);
    welcome.word = LAYOUT;
    say(fd, &welcome, -1, 0);
    cr_assert_eq(hear(fd, b, wants), sizeof(m));
    cr_assert_eq(wants->kind, HD_NODE_FETCH);
    return fd;
}

typedef struct fake {
    hd_node_t *b;
    int door, fd;
    hd_node_fetch_t *fetch;
    hd_node_message_t answer; /* of a segment of BYTES */
} fake_t;

static fake_t fake(void) {
    hd_node_address_t address;
    fake_t f = {.b = opened()};
    f.door = impostor(f.b, &address);
    cr_assert_eq(hd_node_fetch(f.b, &address, name, &f.fetch), UCC_OK);
    f.fd = let_in(f.b, f.door, &f.answer);
    f.answer.kind = HD_NODE_SEGMENT;
    f.answer.word = BYTES;
    return f;
}

static hd_node_segment_t made(void) {
    hd_node_segment_t segment;
    cr_assert_eq(hd_segment_create(BYTES, &segment), UCC_OK);
    return segment;
}

Test(node, a_segment_from_elsewhere_is_taken_and_acknowledged) {
    fake_t f = fake();
    say(f.fd, &f.answer, made().fd, 1);
    UNTIL(hd_node_fetch_state(f.fetch) != HD_NODE_PENDING, f.b);
    hd_node_segment_t segment;
    cr_assert_eq(hd_node_fetch_test(f.fetch, &segment), UCC_OK);
    cr_expect(fcntl(segment.fd, F_GETFD) & FD_CLOEXEC);
    hd_node_message_t m;
    cr_assert_eq(hear(f.fd, f.b, &m), sizeof(m));
    cr_expect_eq(m.kind, HD_NODE_TAKEN);
    cr_expect_eq(m.code, HD_NODE_DONE);
}

Test(node, a_segment_without_seals_is_refused_and_its_sender_told) {
    fake_t f = fake();
    int plain = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_eq(ftruncate(plain, BYTES), 0);
    uint32_t before = descriptors();
    say(f.fd, &f.answer, plain, 1);
    UNTIL(hd_node_fetch_state(f.fetch) != HD_NODE_PENDING, f.b);
    cr_expect_eq(hd_node_fetch_state(f.fetch), HD_NODE_BAD_SEGMENT);
    hd_node_message_t m;
    cr_assert_eq(hear(f.fd, f.b, &m), sizeof(m));
    cr_expect_eq(m.kind, HD_NODE_TAKEN);
    cr_expect_eq(m.code, HD_NODE_BAD_SEGMENT);
    cr_expect_eq(descriptors(), before);
}

Test(node, surplus_descriptors_are_closed_and_end_the_connection) {
    const uint32_t surplus[] = {2, 4, 5, 50};
    for (size_t i = 0; i < 4; i++) {
        fake_t f = fake();
        hd_node_segment_t segment = made();
        uint32_t before = descriptors();
        say(f.fd, &f.answer, segment.fd, surplus[i]);
        UNTIL(hd_node_fetch_state(f.fetch) != HD_NODE_PENDING, f.b);
        cr_expect_eq(hd_node_fetch_state(f.fetch), HD_NODE_SPURNED);
        cr_expect_eq(descriptors(), before - 1, "%u descriptors", surplus[i]);
        hd_node_fetch_end(f.fetch);
        hd_node_close(f.b);
        close(f.door);
    }
}

Test(node, descriptors_with_other_messages_are_closed_and_end_the_connection) {
    fake_t f = fake();
    hd_node_segment_t segment = made();
    uint32_t before = descriptors();
    hd_node_message_t hold = hd_node_write(HD_NODE_HOLD);
    say(f.fd, &hold, segment.fd, 1);
    UNTIL(hd_node_fetch_state(f.fetch) != HD_NODE_PENDING, f.b);
    cr_expect_eq(hd_node_fetch_state(f.fetch), HD_NODE_SPURNED);
    cr_expect_eq(descriptors(), before - 1);
}

/* No message, but a descriptor: its length is that of an end. */
Test(node, a_descriptor_without_a_message_is_closed) {
    fake_t f = fake();
    hd_node_segment_t segment = made();
    uint32_t before = descriptors();
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr header = {.msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(control), &segment.fd, sizeof(int));
    cr_assert_eq(sendmsg(f.fd, &header, MSG_NOSIGNAL), 0);
    UNTIL(hd_node_fetch_state(f.fetch) != HD_NODE_PENDING, f.b);
    cr_expect_eq(descriptors(), before - 1);
}

Test(node, a_segment_that_nobody_asked_for_is_closed) {
    fake_t f = fake();
    hd_node_segment_t segment = made();
    uint32_t before = descriptors();
    f.answer.number += 5;
    say(f.fd, &f.answer, segment.fd, 1);
    f.answer.number -= 5;
    f.answer.name[0]++;
    say(f.fd, &f.answer, segment.fd, 1);
    f.answer.name[0]--;
    say(f.fd, &f.answer, segment.fd, 1);
    say(f.fd, &f.answer, segment.fd, 1);
    UNTIL(hd_node_fetch_state(f.fetch) == HD_NODE_DONE, f.b);
    settle(f.b, f.b);
    cr_expect_eq(descriptors(), before + 1);
}

Test(node, one_that_closes_without_an_answer_is_given_up) {
    hd_node_t *b = opened();
    hd_node_address_t address;
    hd_node_fetch_t *fetch;
    int door = impostor(b, &address), fd, tries = 0;
    cr_assert_eq(hd_node_fetch(b, &address, name, &fetch), UCC_OK);
    deadline_t deadline = deadline_start("giving up");
    while (hd_node_fetch_state(fetch) == HD_NODE_PENDING) {
        hd_node_progress(b);
        if ((fd = accept(door, NULL, NULL)) >= 0) {
            close(fd);
            tries++;
        }
        deadline_poll(&deadline);
    }
    cr_expect_eq(hd_node_fetch_state(fetch), HD_NODE_SPURNED);
    cr_expect_gt(tries, 1);
}

Test(node, one_whose_door_is_crowded_is_tried_again) {
    hd_node_t *b = opened();
    hd_node_address_t address;
    hd_node_fetch_t *fetch;
    hd_node_message_t wants;
    int door = impostor(b, &address), fill[4];
    socklen_t bytes;
    struct sockaddr_un at = place_of(address.door, &bytes);
    cr_assert_eq(listen(door, 0), 0);
    for (int i = 0; i < 4; i++) {
        fill[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
        (void)connect(fill[i], (struct sockaddr *)&at, bytes);
    }
    cr_assert_eq(hd_node_fetch(b, &address, name, &fetch), UCC_OK);
    cr_expect_eq(lines_of(b), 0);
    cr_expect_eq(hd_node_fetch_state(fetch), HD_NODE_PENDING);
    close(accept(door, NULL, NULL));
    let_in(b, door, &wants);
}

/* --- shortages -------------------------------------------------------------------------------- */

/* Room for so many more descriptors than there are now, whatever numbers those have. */
static void allow(rlim_t more) {
    int top = 0, fd;
    DIR *folder = opendir("/proc/self/fd");
    for (const struct dirent *entry; (entry = readdir(folder));) {
        top = atoi(entry->d_name) > top ? atoi(entry->d_name) : top;
    }
    closedir(folder);
    while ((fd = dup(0)) < top) {
    }
    close(fd);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max = (rlim_t)fd + more;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static rlim_t room_left(void) {
    int fd[8];
    rlim_t n = 0;
    while (n < 8 && (fd[n] = dup(0)) >= 0) {
        n++;
    }
    for (rlim_t i = 0; i < n; i++) {
        close(fd[i]);
    }
    return n;
}

Test(node, without_descriptors_there_is_no_door_and_nothing_is_left_open) {
    hd_node_t *node;
    keep_lines();
    allow(4);
    cr_assert_eq(hd_node_open(LAYOUT, NULL, &node), UCC_OK);
    cr_expect_eq(room_left(), 0);
    hd_node_close(node);
    for (rlim_t room = 4; room-- > 0;) {
        n_lines = 0;
        (void)dup(0);
        cr_assert_eq(room_left(), room);
        cr_expect_eq(hd_node_open(LAYOUT, NULL, &node), UCC_ERR_NO_RESOURCE);
        cr_expect_null(node);
        cr_expect_eq(n_lines, 1);
        cr_expect_eq(room_left(), room);
    }
}

Test(node, a_segment_that_finds_no_descriptor_is_an_error_on_both_sides) {
    hd_node_t *a = opened(), *b = opened();
    hd_node_fetch_t *fetch = fetch_from(b, a);
    settle(a, b);
    hd_node_offer_t *offer = offer_to(a, b);
    allow(0);
    UNTIL(hd_node_offer_test(offer) != UCC_INPROGRESS, a, b);
    cr_expect_eq(hd_node_offer_state(offer, 0), HD_NODE_NO_DESCRIPTOR);
    cr_expect_eq(hd_node_fetch_state(fetch), HD_NODE_NO_DESCRIPTOR);
    hd_node_segment_t segment;
    cr_expect_eq(hd_node_fetch_test(fetch, &segment), UCC_ERR_NO_RESOURCE);
}

Test(node, without_a_descriptor_nobody_is_connected_to) {
    hd_node_t *a = opened(), *b = opened();
    allow(0);
    hd_node_fetch_t *fetch = fetch_from(b, a);
    cr_expect_eq(hd_node_fetch_state(fetch), HD_NODE_NO_DESCRIPTOR);
}

Test(node, without_a_descriptor_those_who_come_wait_and_nobody_spins) {
    hd_node_t *a = opened(), *b = opened();
    hd_node_offer_t *offer = offer_to(a, b);
    keep_lines();
    hd_node_fetch_t *fetch = fetch_from(b, a);
    close(a->spare);
    a->spare = -1;
    allow(0);
    int idle = 0;
    for (int i = 0; i < 200; i++) {
        struct pollfd at = {.fd = hd_node_fd(a), .events = POLLIN};
        idle += poll(&at, 1, 0) == 0;
        hd_node_progress(a);
        hd_node_progress(b);
    }
    cr_expect_gt(idle, 150);
    cr_expect_eq(count_lines("no descriptor"), 1);
    cr_expect_eq(hd_node_fetch_state(fetch), HD_NODE_PENDING);
    close(0);
    close(1);
    UNTIL(hd_node_fetch_state(fetch) == HD_NODE_DONE, a, b);
    UNTIL(hd_node_offer_test(offer) == UCC_OK, a, b);
}

/* Wherever memory ends: no crash, no hang, no descriptor left. */
Test(node, without_memory_it_ends_with_an_error) {
    uint32_t before = descriptors(), done = 0;
    for (long n = 0; n < 30; n++) {
        hd_node_t *a = NULL, *b = NULL;
        hd_node_offer_t *offer = NULL;
        hd_node_fetch_t *fetch = NULL;
        uint64_t doors[1][2];
        hd_node_segment_t segment = made();
        hd_alloc_fail_after(n);
        if (hd_node_open(LAYOUT, NULL, &a) == UCC_OK && hd_node_open(LAYOUT, NULL, &b) == UCC_OK) {
            memcpy(doors[0], b->address.door, sizeof(doors[0]));
            if (hd_node_offer(a, name, &segment, (const uint64_t(*)[2])doors, 1, &offer) ==
                    UCC_OK &&
                hd_node_fetch(b, &a->address, name, &fetch) == UCC_OK) {
                for (int i = 0; i < 20; i++) {
                    hd_node_progress(a);
                    hd_node_progress(b);
                }
                done += hd_node_fetch_state(fetch) == HD_NODE_DONE;
            }
        }
        hd_alloc_fail_after(-1);
        if (fetch) { /* what there was no memory for is tried again */
            UNTIL(hd_node_fetch_state(fetch) != HD_NODE_PENDING, a, b);
            hd_node_fetch_end(fetch);
        }
        if (offer) {
            hd_node_offer_end(offer);
        }
        if (b) {
            hd_node_close(b);
        }
        if (a) {
            hd_node_close(a);
        }
        hd_segment_close(&segment);
        cr_expect_eq(descriptors(), before, "after %ld allocations", n);
    }
    cr_expect_gt(done, 10);
}

Test(node, where_sockets_are_forbidden_there_is_no_door) {
    hd_node_t *a = opened(), *b = opened(), *c;
    if (!forbid_call(SYS_socket, EACCES)) {
        cr_skip_test("no seccomp");
    }
    keep_lines();
    uint32_t before = descriptors();
    cr_expect_eq(hd_node_open(LAYOUT, NULL, &c), UCC_ERR_NOT_SUPPORTED);
    cr_expect_eq(count_lines("no door for processes of this machine: abstract socket: Permission"),
                 1);
    cr_expect_eq(descriptors(), before);
    hd_node_fetch_t *fetch = fetch_from(a, b);
    cr_expect_eq(hd_node_fetch_state(fetch), HD_NODE_FORBIDDEN);
    cr_expect_eq(count_lines("no connection to process"), 1);
}

/* --- forks ------------------------------------------------------------------------------------ */

/* What the child of a fork finds, in the middle of it all. */
static int inherit(hd_node_t *a, hd_node_t *of_process, hd_node_offer_t *offer,
                   hd_node_fetch_t *fetch, hd_node_peer_t *peer, uint32_t open_before) {
    hd_node_segment_t segment;
    hd_node_t *mine = NULL;
    hd_node_peer_t *other;
    bool fine = descriptors() == open_before;
    fine = fine && hd_node_peer_state(peer) == HD_NODE_INHERITED;
    fine = fine && hd_node_fetch_test(fetch, &segment) == UCC_ERR_INVALID_PARAM;
    fine = fine && (hd_node_offer_state(offer, 0) == HD_NODE_INHERITED ||
                    hd_node_offer_state(offer, 0) == HD_NODE_DONE);
    fine = fine && hd_node_meet(a, &peer->node->address, true, &other) == UCC_ERR_INVALID_PARAM;
    fine = fine && !hd_node_progress(a);
    hd_node_part(peer);
    hd_node_fetch_end(fetch);
    hd_node_offer_end(offer);
    fine = fine && hd_node_enter(LAYOUT, NULL, &mine) == UCC_OK && mine != of_process;
    fine = fine && !hd_node_is_same(mine->address.door, of_process->address.door);
    hd_node_leave(of_process);
    hd_node_close(a);
    if (mine) {
        hd_node_leave(mine);
    }
    return fine && descriptors() == open_before ? 0 : 1;
}

Test(node, the_child_of_a_fork_has_none_of_it_and_disturbs_nothing) {
    uint32_t open_before = descriptors();
    hd_node_t *a, *b = opened(), *of_process;
    cr_assert_eq(hd_node_enter(LAYOUT, NULL, &of_process), UCC_OK);
    a = opened();
    hd_node_peer_t *peer = meet(b, a, true);
    hd_node_offer_t *offer = offer_to(a, b);
    hd_node_fetch_t *fetch = fetch_from(b, a);
    for (int i = 0; i < 12; i++) {
        pid_t child = fork();
        if (child == 0) {
            int result = inherit(a, of_process, offer, fetch, peer, open_before);
            hd_node_close(b);
            _exit(result);
        }
        int status;
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0, "after %d steps", i);
        if (i > 2) {
            hd_node_progress(i % 2 ? a : b);
        }
    }
    UNTIL(hd_node_offer_test(offer) == UCC_OK, a, b);
    expect_segment(fetch);
    settle(a, b);
    cr_expect_eq(hd_node_peer_state(peer), HD_NODE_DONE);
    cr_expect_eq(hd_node_losses(a) + hd_node_losses(b), 0);
}
