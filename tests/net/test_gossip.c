/* Words that processes tell each other: which are new, and whose count. */
#include "core/mem.h"
#include "net/internal.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <unistd.h>

static hd_net_t *net;

static void make(void) {
    net = hd_alloc(HD_LINE_PAIR, sizeof(*net));
    cr_assert(net);
    net->token[0] = 99;
    net->token[1] = 1;
}

static void discard(void) {
    hd_gossip_clear(net);
    hd_free(net);
}

TestSuite(gossip, .init = make, .fini = discard);

static const uint64_t neighbour[2] = {77, 1};

static bool hear(hd_words_kind_t kind, uint64_t subject, uint64_t by, uint64_t number) {
    const hd_words_t words = {.kind = kind,
                              .status = kind == HD_WORDS_DEAD ? 1 : -1,
                              .subject = {subject, kind == HD_WORDS_DEAD},
                              .by = {by, 1},
                              .number = number};
    return hd_words_are_new(net, &words, neighbour);
}

static bool say_dead(uint64_t subject, uint64_t by, uint64_t number, hd_death_t death) {
    const hd_words_t words = {.kind = HD_WORDS_DEAD,
                              .status = (int32_t)death,
                              .subject = {subject, 1},
                              .by = {by, 1},
                              .number = number};
    return hd_words_are_new(net, &words, neighbour);
}

Test(gossip, each_word_of_a_process_is_new_once_however_late_it_comes) {
    cr_expect(hear(HD_WORDS_CUT, 5, 1, 1));
    cr_expect_not(hear(HD_WORDS_CUT, 5, 1, 1));
    cr_expect(hear(HD_WORDS_CUT, 5, 1, 40));
    cr_expect(hear(HD_WORDS_CUT, 5, 1, 3), "later than a higher number");
    cr_expect_not(hear(HD_WORDS_CUT, 5, 1, 3));
    cr_expect_not(hear(HD_WORDS_CUT, 5, 1, 1));
    cr_expect(hear(HD_WORDS_CUT, 5, 2, 1), "another process has numbers of its own");
    cr_expect(hear(HD_WORDS_CUT, 5, 1, 1000));
    cr_expect_not(hear(HD_WORDS_CUT, 5, 1, 41), "too late to be told apart");
    cr_expect(hear(HD_WORDS_CUT, 5, 1, 1000 - HD_NET_NUMBERS + 1));
}

/* Thousands of teams are aborted, and every word is heard on two ways. */
Test(gossip, no_word_comes_back_as_new_however_many_there_are) {
    enum { MANY = 20000 };
    for (uint64_t i = 1; i <= MANY; i++) {
        cr_assert(hear(HD_WORDS_ABORT, 1000 + i, 1, i));
    }
    for (uint64_t i = 1; i <= MANY; i++) {
        cr_assert_not(hear(HD_WORDS_ABORT, 1000 + i, 1, i), "%llu", (unsigned long long)i);
    }
    for (uint64_t by = 1; by <= MANY; by++) {
        cr_assert(hear(HD_WORDS_CUT, 5, 1 + by, 1));
        cr_assert_not(hear(HD_WORDS_CUT, 5, 1 + by, 1));
    }
}

Test(gossip, that_a_decision_holds_is_new_once_and_counts_also_from_the_dead) {
    hd_net_decision_t decision = {.name = 0};
    hd_net_await(net, &decision, 50);
    cr_expect(hear(HD_WORDS_AGREED, 51, 1, 1));
    cr_expect_not(hd_net_is_agreed(net, &decision), "another decision");
    cr_expect(hear(HD_WORDS_DEAD, 7, 1, 2));
    cr_expect(hear(HD_WORDS_AGREED, 50, 7, 1), "others may have heard it");
    cr_expect_not(hear(HD_WORDS_AGREED, 50, 2, 1));
    cr_expect(hd_net_is_agreed(net, &decision));
    hd_net_await(net, &decision, 52);
    cr_expect_not(hd_net_is_agreed(net, &decision));
    hd_net_tell_agreed(net, 52);
    cr_expect(hd_net_is_agreed(net, &decision), "also who tells it may have others who await it");
    hd_net_await(net, &decision, 51);
    cr_expect(hd_net_is_agreed(net, &decision), "it was said before it was awaited");
    hd_net_await_no_more(net, &decision);
    cr_expect(net->decisions == NULL);
}

Test(gossip, that_a_process_is_dead_is_new_once_whoever_says_so) {
    const uint64_t token[2] = {7, 1};
    cr_expect_not(hd_net_is_dead(net, token));
    cr_expect(hear(HD_WORDS_DEAD, 7, 1, 1));
    cr_expect(hd_net_is_dead(net, token));
    cr_expect_not(hear(HD_WORDS_DEAD, 7, 2, 1));
    hd_net_tell_dead(net, token, HD_DEAD_JUDGED);
    cr_expect_eq(net->n_said, 1);
    cr_expect_not(hd_net_is_surely_dead(net, token));
    cr_expect(say_dead(7, 3, 1, HD_DEAD_SURE), "a kernel says more than a judge");
    cr_expect(hd_net_is_surely_dead(net, token));
    cr_expect_not(say_dead(7, 4, 1, HD_DEAD_SURE));
}

Test(gossip, the_words_of_the_dead_count_nothing_but_that_a_team_has_failed) {
    const uint64_t innocent[2] = {8, 1};
    cr_expect(hear(HD_WORDS_DEAD, 7, 1, 1));
    cr_expect_not(hear(HD_WORDS_DEAD, 8, 7, 1));
    cr_expect_not(hear(HD_WORDS_CUT, 5, 7, 2));
    cr_expect_not(hd_net_is_dead(net, innocent));
    cr_expect(hear(HD_WORDS_ABORT, 1000, 7, 3));
    cr_expect(say_dead(8, 7, 4, HD_DEAD_SURE), "what a kernel has said counts");
}

/* A neighbour believes somebody whom this process has given up, and who has given up it. */
Test(gossip, that_this_process_is_dead_counts_whoever_says_it_if_a_living_one_tells_it) {
    cr_expect(say_dead(7, 1, 1, HD_DEAD_JUDGED));
    const hd_words_t words = {.kind = HD_WORDS_DEAD,
                              .status = HD_DEAD_JUDGED,
                              .subject = {99, 1},
                              .by = {7, 1},
                              .number = 1};
    static const uint64_t given_up[2] = {7, 1};
    cr_expect_not(hd_words_are_new(net, &words, given_up));
    cr_expect(hd_words_are_new(net, &words, neighbour));
}

Test(gossip, who_goes_is_told_on_by_those_too_who_have_given_it_up) {
    cr_expect(say_dead(7, 1, 1, HD_DEAD_JUDGED));
    cr_expect_not(say_dead(7, 2, 1, HD_DEAD_JUDGED), "that is known");
    cr_expect(say_dead(7, 7, 1, HD_DEAD_JUDGED));
    cr_expect_not(say_dead(7, 7, 1, HD_DEAD_JUDGED), "once");
}

Test(gossip, what_nothing_has_come_of_is_new_when_it_is_said_again) {
    const hd_words_t words = {.kind = HD_WORDS_DEAD,
                              .status = HD_DEAD_SURE,
                              .subject = {7, 1},
                              .by = {1, 1},
                              .number = 1};
    cr_expect(hd_words_are_new(net, &words, neighbour));
    hd_words_forget(net, &words);
    cr_expect_not(hd_net_is_dead(net, words.subject));
    cr_expect(hd_words_are_new(net, &words, neighbour));
}

Test(gossip, that_a_process_is_dead_is_new_until_it_is_known_however_late_it_comes) {
    const uint64_t token[2] = {7, 1};
    cr_expect(hear(HD_WORDS_CUT, 5, 1, 1000));
    cr_expect(hear(HD_WORDS_DEAD, 7, 1, 2));
    cr_expect(hd_net_is_dead(net, token));
    cr_expect_not(hear(HD_WORDS_DEAD, 7, 1, 2));
    cr_expect(hear(HD_WORDS_CUT, 5, 8, 1000));
    cr_expect(say_dead(8, 8, 2, HD_DEAD_JUDGED));
    cr_expect_not(say_dead(8, 8, 2, HD_DEAD_JUDGED), "what nobody can tell apart ends, too");
}

/* 31 processes are known, as many as there is room for before there is more. */
Test(gossip, without_memory_words_of_known_processes_count) {
    for (uint64_t i = 1; i <= 31; i++) {
        const uint64_t token[2] = {i, 1};
        cr_assert(hd_gossip_meet(net, token));
    }
    hd_alloc_fail_after(0);
    bool aborted = hear(HD_WORDS_ABORT, 1000, 1, 1), dead = hear(HD_WORDS_DEAD, 2, 1, 2);
    hd_alloc_fail_after(-1);
    cr_expect(aborted && dead);
}

/* --- telling ---------------------------------------------------------------------------------- */

void __wrap_hd_watch_tell(hd_watch_t *w, const void *bytes, size_t n, hd_watch_relay_t whom);

static _Atomic uint32_t n_told;
static uint64_t told[2];

/* The first word is held up on its way, until the second one has overtaken it or won't. */
void __wrap_hd_watch_tell(hd_watch_t *w, const void *bytes, size_t n, hd_watch_relay_t whom) {
    hd_words_t words;
    (void)w, (void)whom;
    cr_assert_eq(n, sizeof(words));
    memcpy(&words, bytes, sizeof(words));
    for (uint32_t i = 0; i < 300 && words.number == 1 && atomic_load(&n_told) == 0; i++) {
        usleep(1000);
    }
    told[atomic_fetch_add(&n_told, 1)] = words.number;
}

static void *tell_one(void *name) {
    hd_net_tell_agreed(net, *(uint64_t *)name);
    return NULL;
}

Test(gossip, words_leave_in_the_order_of_their_numbers_whichever_threads_tell_them) {
    uint64_t name[2] = {50, 51};
    pthread_t thread[2];
    net->watch = (struct hd_watch *)(void *)net; /* that is never looked into */
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(pthread_create(&thread[i], NULL, tell_one, &name[i]), 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
    }
    cr_expect(told[0] == 1 && told[1] == 2);
}
