/* What follows from ways that break, and from the time. The net is made up, but for its watch. */
#include "core/mem.h"
#include "net/internal.h"
#include "threads/clock.h"

#include <criterion/criterion.h>
#include <sys/resource.h>
#include <unistd.h>

static const uint64_t second = 1000000000;

static hd_net_t *net;
static hd_peer_t peer;
static bool hears;

bool __wrap_hd_watch_hears(hd_watch_t *w, const uint64_t identity[2]);

bool __wrap_hd_watch_hears(hd_watch_t *w, const uint64_t identity[2]) {
    (void)w, (void)identity;
    return hears;
}

static void on_lost(void *arg, const uint64_t identity[2], hd_watch_loss_t how) {
    (void)arg, (void)identity, (void)how;
}

static hd_watch_relay_t on_words(void *arg, const uint64_t identity[2], const void *words,
                                 size_t n) {
    (void)arg, (void)identity, (void)words, (void)n;
    return HD_WATCH_NOBODY;
}

/* This process, and one of another host whose ways have broken so often, and by now again. */
static void make(uint64_t me, uint32_t breaks) {
    const hd_watch_params_t params = {
        .identity = {me, 1}, .host = 5, .lost = on_lost, .heard = on_words};
    static hd_watch_record_t record;
    size_t bytes;
    net = hd_alloc(HD_LINE_PAIR, sizeof(*net));
    cr_assert(net && (net->watch = hd_watch_open(&params)));
    net->lane[0].net = net;
    net->token[0] = me;
    net->token[1] = 1;
    net->grace_ns = second / 5;
    net->judged = hd_clock_ns();
    memcpy(&record, hd_watch_address(net->watch, &bytes), offsetof(hd_watch_record_t, line));
    record.host = 6;
    record.n = 0; /* it can't be reached */
    peer = (hd_peer_t){.token = {50, 1},
                       .net = net,
                       .host = 6,
                       .breaks = breaks,
                       .broken_at = hd_clock_ns(),
                       .watch_address = &record,
                       .watch_bytes = offsetof(hd_watch_record_t, line)};
    net->peers = &peer;
    cr_assert(hd_gossip_meet(net, peer.token));
    hd_peer_lose(&peer, "UCX says so");
}

static void discard(void) {
    hd_watch_close(net->watch);
    hd_gossip_clear(net);
    hd_free(net);
}

/* What follows so many seconds after the ways broke, however late it is by now. */
static void judge(uint64_t seconds) {
    hd_net_judge(net, peer.broken_at + seconds * second);
}

static bool is_given_up(void) {
    return hd_net_is_dead(net, peer.token);
}

Test(news, ways_that_break_again_and_again_cost_the_one_of_the_higher_token_after_a_while) {
    for (uint32_t i = 0; i < 2; i++) {
        hears = i;
        make(7, 4);
        judge(0);
        cr_expect_not(is_given_up(), "it may go itself");
        judge(2);
        cr_expect(is_given_up() && !hd_net_is_given_up(net), "whether or not it is heard");
        discard();
    }
}

Test(news, who_is_to_go_goes_if_it_hears_the_other_one) {
    hears = true;
    make(99, 7);
    judge(1);
    cr_expect_not(hd_net_is_given_up(net), "the other one may give it up");
    judge(3);
    cr_expect(hd_net_is_given_up(net) && hd_net_is_dead(net, net->token) && !is_given_up());
    discard();
}

/* Whether the other one is heard does not count then; of two that lack them, one goes first. */
Test(news, of_two_the_one_without_descriptors_goes) {
    for (uint32_t i = 0; i < 4; i++) {
        struct rlimit limit;
        hears = i % 2;
        make(i < 2 ? 7 : 99, 4);
        int next = dup(0);
        close(next);
        cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur = limit.rlim_max = (rlim_t)next + 3;
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        judge(i < 2 ? 0 : 1);
        cr_expect_not(hd_net_is_given_up(net), "too early");
        judge(i < 2 ? 2 : 3);
        cr_expect(hd_net_is_given_up(net) && hd_net_is_dead(net, net->token) && !is_given_up());
        discard();
    }
}

/* As where a link between hosts breaks: both have given up the other one then. */
Test(news, of_two_that_have_never_heard_each_other_nobody_goes_for_the_other) {
    make(99, 4);
    judge(10);
    cr_expect_not(is_given_up(), "it is the other one's turn");
    discard();
    make(99, 7);
    judge(1);
    cr_expect_not(is_given_up(), "too early");
    judge(3);
    cr_expect(is_given_up());
    cr_expect_not(hd_net_is_given_up(net));
    discard();
}

/* What a lane's turn may look at is freed then: the watch, peers, and what is known of others. */
Test(news, nobody_judges_when_the_net_is_being_closed) {
    make(7, 4);
    for (uint32_t i = 0; i < 1000; i++) {
        hd_net_lane_turn(&net->lane[0]);
    }
    int watch;
    (void)hd_net_lane_arm(&net->lane[0], &watch);
    cr_expect_not(peer.asked);
    cr_expect_eq(net->lane[0].mourned, 0);
    discard();
}
