/* Links between hosts that are broken: which hosts are gone, and which go. The net is made up: one
 * team, each process of it on a host of its own, host i + 1 for process i, and this process is
 * process 0. */
#include "core/mem.h"
#include "net/internal.h"
#include "threads/clock.h"

#include <criterion/criterion.h>

enum { MOST = 32 };
static const uint64_t second = 1000000000;

static hd_net_t *net;
static hd_net_team_t *team;
static hd_peer_t peers[MOST];
static hd_peer_t *by_number[MOST];

static void make(uint32_t n, uint32_t me) {
    net = hd_alloc(HD_LINE_PAIR, sizeof(*net));
    team = hd_alloc(HD_LINE_PAIR, sizeof(*team) + sizeof(team->lane[0]));
    cr_assert(net && team);
    net->host = net->token[0] = me + 1;
    net->grace_ns = second / 5;
    net->silent_ns = 4 * second;
    team->net = net;
    team->n = n;
    team->me = me;
    team->peer = by_number;
    for (uint32_t i = 0; i < n; i++) {
        peers[i] = (hd_peer_t){.token = {i + 1, 0}, .host = i + 1, .net = net, .next = net->peers};
        by_number[i] = i == me ? NULL : &peers[i];
        net->peers = i == me ? net->peers : &peers[i];
        cr_assert(i == me || hd_gossip_meet(net, peers[i].token));
    }
    cr_assert(hd_net_team_enter(team));
}

static void discard(void) {
    hd_gossip_clear(net);
    hd_cuts_clear(net);
    hd_free(team);
    hd_free(net);
}

/* What follows so many seconds after the last new word, in which everybody has looked, however
 * late it is by now. True: this process goes. */
static bool judge(uint64_t seconds) {
    return hd_cuts_judge(net, net->cuts_changed + seconds * second);
}

static bool is_gone(uint32_t process) {
    return hd_net_is_dead(net, peers[process].token);
}

/* Both sides say that nothing reaches the other. */
static void part(uint32_t one, uint32_t other) {
    hd_cuts_hear(net, one + 1, other + 1);
    hd_cuts_hear(net, other + 1, one + 1);
}

Test(cuts, a_host_is_gone_when_no_way_leads_to_it_and_not_while_somebody_who_may_see_it_computes) {
    make(4, 0);
    hd_cuts_find(net, 2, true);
    hd_cuts_hear(net, 4, 2);
    cr_expect_not(judge(2));
    cr_expect_not(is_gone(1), "process 2 has not said anything");
    hd_cuts_hear(net, 3, 2);
    cr_expect_not(judge(3));
    cr_expect(is_gone(1));
    cr_expect_not(is_gone(2) || is_gone(3));
    discard();
}

Test(cuts, of_two_hosts_that_lose_each_other_each_gives_up_the_other) {
    make(2, 0);
    hd_cuts_find(net, 2, true);
    cr_expect_not(judge(0));
    cr_expect_not(is_gone(1), "it may still go itself");
    cr_expect_not(judge(2));
    cr_expect(is_gone(1));
    discard();
}

Test(cuts, of_two_halves_each_gives_up_the_other) {
    make(4, 0);
    hd_cuts_find(net, 3, true);
    hd_cuts_find(net, 4, true);
    hd_cuts_hear(net, 2, 3);
    cr_expect_not(judge(2));
    cr_expect_not(is_gone(2) || is_gone(3), "process 1 may reach process 3");
    hd_cuts_hear(net, 2, 4);
    cr_expect_not(judge(3));
    cr_expect(is_gone(2) && is_gone(3) && !is_gone(1));
    discard();
}

/* Process 8 has lines to 7, 6, 4, 0 and to 9, 10, 12: process 3 has none to it, and nothing to
 * say. */
Test(cuts, only_those_who_have_a_line_to_a_host_are_waited_for) {
    static const uint32_t with_line[] = {4, 6, 7, 9, 10, 12};
    make(16, 0);
    hd_cuts_find(net, 9, true);
    for (uint32_t i = 0; i < 5; i++) {
        hd_cuts_hear(net, with_line[i] + 1, 9);
    }
    cr_expect_not(judge(2));
    cr_expect_not(is_gone(8));
    hd_cuts_hear(net, with_line[5] + 1, 9);
    cr_expect_not(judge(3));
    cr_expect(is_gone(8));
    discard();
}

Test(cuts, of_two_that_live_the_one_of_the_higher_number_goes_by_itself) {
    for (uint32_t me = 0; me < 3; me++) {
        make(3, me);
        part(0, 1);
        cr_expect_not(judge(4), "more links may be found to be broken");
        cr_expect_eq(judge(6), me == 1, "process %u", me);
        cr_expect_not(is_gone(0) || is_gone(1) || is_gone(2), "nobody gives up one that lives");
        discard();
    }
}

Test(cuts, a_host_that_has_lost_more_others_goes_before_these) {
    for (uint32_t me = 0; me < 4; me++) {
        make(4, me);
        part(0, 2);
        part(0, 3);
        cr_expect_eq(judge(6), me == 0, "process %u", me);
        discard();
    }
}

/* Of 16 hosts all have lost each other, which is 120 cuts, and process 16 has lost these, and 17,
 * too: it goes whichever cuts are heard of last, and process 17 stays. */
Test(cuts, hosts_judge_alike_however_many_cuts_there_are_and_in_whatever_order_they_are_heard) {
    for (uint32_t run = 0; run < 4; run++) {
        uint32_t me = 16 + run % 2;
        make(18, me);
        for (uint32_t i = 0; i < 18 * 18; i++) {
            uint32_t k = run < 2 ? i : 18 * 18 - 1 - i, one = k / 18, other = k % 18;
            if (one < other && (other < 17 || one == 16)) {
                part(one, other);
            }
        }
        cr_expect_eq(judge(6), me == 16, "run %u", run);
        discard();
    }
}

/* Host 2 has been lost by all, and is dead; nobody else goes for its cuts. */
Test(cuts, cuts_of_the_dead_count_nothing) {
    make(3, 2);
    part(1, 2);
    hd_cuts_hear(net, 1, 2);
    hd_net_tell_dead(net, peers[1].token, HD_DEAD_JUDGED);
    cr_expect_not(judge(6));
    discard();
}

Test(cuts, a_cut_that_is_not_said_any_more_is_forgotten) {
    make(3, 1);
    part(0, 1);
    cr_expect_not(judge(30));
    cr_expect_eq(net->n_cuts, 0);
    discard();
}
