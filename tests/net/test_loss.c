/* test_loss.c: a process is killed in the middle of something: whoever needs it gets an error, and
 * nothing hangs. */
#include "../support/deadline.h"
#include "../support/nodes.h"
#include "net/internal.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(net_loss, .timeout = 120);

/* LeakSanitizer, which stops all threads, crashes at times beside the one that UCX has. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "detect_leaks=0";
}

static const char *const shm[] = {"LOG_LEVEL", "fatal", NULL};
static const char *const tcp[] = {"NET_SHM", "n", "NET_TLS", "tcp", NULL};

enum { N = 3, VICTIM = 1 };

/* Allreduces until one fails; so many bytes each. */
static void work_until_it_fails(node_t *node, void *arg) {
    size_t count = *(const size_t *)arg / sizeof(double);
    double *x = must_alloc(count, sizeof(*x)), *y = must_alloc(count, sizeof(*y));
    ucc_status_t status = UCC_OK;
    double began = 0;
    for (uint64_t k = 1; status == UCC_OK; k++) {
        run_t *run = must_alloc(1, sizeof(*run));
        run_init(run, node, HD_ALLREDUCE);
        must(hd_reducer_init(&run->reducer, UCC_DT_FLOAT64, UCC_OP_SUM, node->n), "reducer");
        run->leg.key = (hd_net_key_t){.number = k, .class = HD_NET_NUMBERED};
        run->leg.call.operand = x;
        run->leg.call.result = y;
        run->leg.call.count = count;
        run->leg.call.element = sizeof(double);
        run_plan(run, 0, 0, count * sizeof(double));
        hd_leg_start(&run->leg);
        if (node->me == VICTIM && k == 20) {
            for (int i = 0; i < 5; i++) {
                hd_net_pump(node->net);
            }
            kill(getpid(), SIGKILL);
        }
        began = test_now();
        status = run_wait(run, "an allreduce with a process that was killed");
        free(run);
    }
    node_check(node, test_now() - began < 20, "it took %.1f s", test_now() - began);
    node_check(node, atomic_load(&node->failed) != UCC_OK, "the team was not told");
    hd_net_team_destroy(node->team);
    began = test_now();
    hd_net_close(node->net);
    node_check(node, test_now() - began < 10, "closing took %.1f s", test_now() - began);
    node->net = NULL;
    hd_config_release(node->config);
    free(x);
    free(y);
    exit(0);
}

static void lose_one(const char *const *settings, size_t bytes) {
    cr_assert_eq(nodes_run(N, settings, work_until_it_fails, &bytes), 1,
                 "not only the victim failed");
}

Test(net_loss, small_messages_by_shared_memory) {
    lose_one(shm, 8);
}
Test(net_loss, large_messages_by_shared_memory) {
    lose_one(shm, 1 << 20);
}
Test(net_loss, small_messages_by_tcp) {
    lose_one(tcp, 8);
}
Test(net_loss, large_messages_by_tcp) {
    lose_one(tcp, 1 << 20);
}

/* --- who does not send to a process ----------------------------------------------------------- */

enum { MANY = 9, FAR = 5 };

static void leave(node_t *node) {
    hd_net_team_destroy(node->team);
    hd_net_close(node->net);
    hd_config_release(node->config);
    exit(0);
}

static void gather_from_one_that_is_killed(node_t *node, void *arg) {
    (void)arg;
    uint64_t mine = node->me, all[MANY] = {0};
    hd_net_piece_t piece[MANY];
    hd_net_data_t data[MANY], give = {&(hd_net_piece_t){&mine, sizeof(mine)}, 1, sizeof(mine)};
    if (node->me == FAR) {
        kill(getpid(), SIGKILL);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        piece[i] = (hd_net_piece_t){&all[i], sizeof(mine)};
        data[i] = (hd_net_data_t){&piece[i], 1, sizeof(mine)};
    }
    if (node->me == 0) {
        run_t run;
        run_init(&run, node, HD_GATHERV);
        run.leg.key = (hd_net_key_t){.number = 1, .class = HD_NET_NUMBERED};
        run.leg.call.give = &give;
        run.leg.call.take = data;
        run_plan(&run, HD_NET_DIRECT, MANY, 0);
        hd_leg_start(&run.leg);
        double began = test_now();
        ucc_status_t status = run_wait(&run, "a gather from a process that was killed");
        node_check(node, status == UCC_ERR_IO_ERROR, "%d", status);
        node_check(node, test_now() - began < 20, "it took %.1f s", test_now() - began);
        atomic_store(node_word(node, 0), 1);
    }
    while (!atomic_load(node_word(node, 0))) {
        node_pump(node, "the root's end");
    }
    leave(node);
}

Test(net_loss, who_only_receives_from_a_process_hears_of_its_death) {
    cr_assert_eq(nodes_run(MANY, shm, gather_from_one_that_is_killed, NULL), 1,
                 "not only the victim failed");
}

/* --- words that not all have heard ------------------------------------------------------------ */

/* Process 0 tells process 1 alone, and is silent from then on, but alive. */
static void abort_at_one(node_t *node, void *arg) {
    (void)arg;
    if (node->me == 0) {
        const hd_wire_t wire = {
            .kind = HD_WIRE_ABORT, .class = HD_NET_NUMBERED, .status = UCC_ERR_NO_MESSAGE};
        hd_net_lane_t *lane = &node->net->lane[0];
        hd_lock(&lane->lock);
        hd_message_tell(&node->team->lane[0], 1, &wire);
        hd_unlock(&lane->lock);
        while (!atomic_load(node_word(node, 1))) { /* UCX sends it */
            node_pump(node, "process 1");
        }
        while (atomic_load(node_word(node, 0)) < 1) {
            usleep(1000);
        }
    } else {
        while (!atomic_load(&node->failed)) {
            node_pump(node, "the word that the team has failed");
        }
        node_check(node, atomic_load(&node->failed) == UCC_ERR_NO_MESSAGE, "%d", node->failed);
        atomic_fetch_add(node_word(node, node->me == 1 ? 1 : 0), 1);
        while (atomic_load(node_word(node, 0)) < 1) {
            node_pump(node, "process 2");
        }
    }
    leave(node);
}

Test(net_loss, who_is_told_that_a_team_has_failed_tells_it_on) {
    static const char *const by_ucx[] = {"NET_WATCH", "n", NULL};
    static const char *const by_watch[] = {"NET_WATCH", "y", NULL};
    cr_assert_eq(nodes_run(3, by_ucx, abort_at_one, NULL), 0);
    cr_assert_eq(nodes_run(3, by_watch, abort_at_one, NULL), 0);
}

/* --- one that does nothing -------------------------------------------------------------------- */

static ucc_status_t barrier(node_t *node, uint64_t number) {
    run_t run;
    run_init(&run, node, HD_BARRIER);
    run.leg.key = (hd_net_key_t){.number = number, .class = HD_NET_NUMBERED};
    run_plan(&run, HD_NET_DIRECT, 2, 0);
    hd_leg_start(&run.leg);
    return run_wait(&run, "a barrier");
}

/* By process 0; the other one does nothing for it. */
static void begin_large_bcast(node_t *node, run_t *run) {
    static char data[8 << 20];
    static hd_net_piece_t piece = {data, sizeof(data)};
    static hd_net_data_t give = {&piece, 1, sizeof(data)};
    run_init(run, node, HD_BCAST);
    run->leg.key = (hd_net_key_t){.number = 2, .class = HD_NET_NUMBERED};
    run->leg.call.give = &give;
    run_plan(run, HD_NET_DIRECT, 2, sizeof(data));
    hd_leg_start(&run->leg);
    for (int i = 0; i < 1000; i++) {
        node_pump(node, "the beginning");
    }
}

/* Process 0 sends it a large message, and gives up: the ways between the two are cut, but nobody is
 * dead, and in their next team they have new ones. */
static void cancel_towards_one_that_computes(node_t *node, void *arg) {
    (void)arg;
    node_check(node, barrier(node, 1) == UCC_OK, "nothing has happened yet");
    if (node->me == 0) {
        run_t run;
        begin_large_bcast(node, &run);
        run.cancel = UCC_ERR_TIMED_OUT;
        ucc_status_t status = run_wait(&run, "the end of a bcast towards one that computes");
        node_check(node, status == UCC_ERR_TIMED_OUT, "%d", status);
        atomic_store(node_word(node, 0), 1);
        while (!atomic_load(node_word(node, 1))) {
            node_pump(node, "the other's end");
        }
    } else {
        while (!atomic_load(node_word(node, 0))) {
            usleep(1000); /* it computes */
        }
        atomic_store(node_word(node, 1), 1);
    }
    node_check(node, !hd_net_team_has_lost(node->team, 1 - node->me), "the other is there");
    bool together = false;
    for (uint64_t wire = 78; wire < 88 && !together; wire++) { /* one side may learn of it late */
        hd_net_team_t *old = node->team;
        node_meet(node);
        node->team = node_make_team(node, wire);
        node_check(node, node->team, "no team");
        atomic_store(node_word(node, 2 + node->me), barrier(node, 1) == UCC_OK);
        hd_net_team_destroy(old);
        node_meet(node);
        together = atomic_load(node_word(node, 2)) && atomic_load(node_word(node, 3));
        node_meet(node);
    }
    node_check(node, together, "they do not meet again");
}

Test(net_loss, a_process_that_keeps_a_buffer_of_what_has_failed_is_cut_off) {
    static const char *const by_shm[] = {"NET_CUT_OFF", "0.3", NULL};
    static const char *const by_tcp[] = {"NET_CUT_OFF", "0.3", "NET_SHM", "n",
                                         "NET_TLS",     "tcp", NULL};
    cr_assert_eq(nodes_run(2, by_shm, cancel_towards_one_that_computes, NULL), 0);
    cr_assert_eq(nodes_run(2, by_tcp, cancel_towards_one_that_computes, NULL), 0);
}

/* The kernel may copy from the buffer, which nobody can call back: it is kept until the other end
 * has been there. */
static void keep_what_the_kernel_may_read(node_t *node, void *arg) {
    (void)arg;
    node_check(node, barrier(node, 1) == UCC_OK, "nothing has happened yet");
    if (node->me == 0) {
        run_t run;
        begin_large_bcast(node, &run);
        run.cancel = UCC_ERR_TIMED_OUT;
        for (double began = test_now(); test_now() - began < 2;) { /* HD_NET_ORPHAN_MS, twice */
            node_pump(node, "the other's computing");
            node_check(node, !atomic_load(&run.over), "the buffer is given back");
        }
        atomic_store(node_word(node, 0), 1);
        ucc_status_t status = run_wait(&run, "the end of a bcast towards one that computed");
        node_check(node, status == UCC_ERR_TIMED_OUT, "%d", status);
        atomic_store(node_word(node, 1), 1);
    }
    while (!atomic_load(node_word(node, 0))) {
        usleep(1000); /* it computes */
    }
    if (node->me == 1) { /* nobody takes here what is for the team from now on */
        hd_net_team_fail(node->team, UCC_ERR_TIMED_OUT);
    }
    while (!atomic_load(node_word(node, 1))) {
        node_pump(node, "the other's end");
    }
}

Test(net_loss, a_buffer_that_the_kernel_may_read_is_kept_until_the_reader_has_been_there) {
    static const char *const unsurvived[] = {"NET_SURVIVE", "n", "NET_CUT_OFF", "0.2", NULL};
    cr_assert_eq(nodes_run(2, unsurvived, keep_what_the_kernel_may_read, NULL), 0);
}

/* --- processes that lose each other ----------------------------------------------------------- */

static void watch_all(node_t *node) {
    hd_net_lane_t *lane = &node->net->lane[0];
    bool watched = false;
    while (!watched) {
        node_pump(node, "connections to all");
        hd_lock(&lane->lock);
        watched = hd_net_team_is_watched(node->team);
        hd_unlock(&lane->lock);
    }
    node_meet(node);
}

/* Every process is on a host of its own from now on, host i + 1 for process i, as far as losses are
 * concerned. */
static void part_hosts(node_t *node) {
    watch_all(node);
    node->net->host = node->me + 1;
    for (uint32_t i = 0; i < node->n; i++) {
        if (i != node->me) {
            node->team->peer[i]->host = i + 1;
        }
    }
    node_meet(node);
}

/* The watch finds that nothing comes from the other's host. */
static void find_silent(node_t *node, uint32_t other) {
    hd_net_lane_t *lane = &node->net->lane[0];
    hd_lock(&lane->lock);
    hd_net_lose_silent(node->net, node->team->peer[other]);
    hd_unlock(&lane->lock);
}

static const char *const patient[] = {"NET_GRACE", "1", "NET_LOST_AFTER", "1", NULL};
static const char *const hasty[] = {"NET_GRACE", "0.1", "NET_LOST_AFTER", "0.2", NULL};

/* Word i: process i has been given up; word 5: process 2 has lost somebody. */
static void lose_each_other(node_t *node, void *arg) {
    const bool *both = arg;
    part_hosts(node);
    if (node->me == 0 || (node->me == 1 && *both)) {
        find_silent(node, 1 - node->me);
    }
    if (node->me == 2) {
        while (!hd_net_team_has_lost(node->team, 0) && !hd_net_team_has_lost(node->team, 1)) {
            node_pump(node, "a word of who has to go");
        }
        atomic_store(node_word(node, 5), 1);
    }
    while (!atomic_load(node_word(node, 5)) ||
           atomic_load(node_word(node, 0)) + atomic_load(node_word(node, 1)) == 0) {
        node_pump(node, "the end of the matter");
        atomic_store(node_word(node, node->me), hd_net_is_given_up(node->net));
    }
    node_meet(node);
    atomic_store(node_word(node, node->me), hd_net_is_given_up(node->net));
    node_meet(node);
    uint64_t gone = atomic_load(node_word(node, 0)) + atomic_load(node_word(node, 1));
    node_check(node, gone == 1 && !atomic_load(node_word(node, 2)), "%d have gone", (int)gone);
    for (uint32_t i = 0; node->me == 2 && i < 2; i++) {
        node_check(node, hd_net_team_has_lost(node->team, i) == atomic_load(node_word(node, i)),
                   "process 2 has lost another one");
    }
    node_meet(node);
    leave(node);
}

Test(net_loss, of_two_that_lose_each_other_one_stays_with_all_others) {
    bool both = true;
    cr_assert_eq(nodes_run(3, patient, lose_each_other, &both), 0);
}

Test(net_loss, who_is_lost_by_one_process_alone_answers_and_one_of_the_two_stays) {
    bool both = false;
    cr_assert_eq(nodes_run(3, patient, lose_each_other, &both), 0);
}

/* Process 0 finds the host of process 1 silent, and if `all`, process 2 does, too. Process 1
 * computes for a while. */
static void lose_one_that_is_silent(node_t *node, void *arg) {
    const bool all = *(const bool *)arg;
    part_hosts(node);
    if (node->me == 0 || (node->me == 2 && all)) {
        find_silent(node, 1);
    }
    double end = test_now() + 2; /* many times what a judgement takes */
    while (test_now() < end) {
        if (node->me == 1) {
            usleep(1000);
        } else {
            node_pump(node, "what the others make of it");
        }
    }
    bool lost = node->me != 1 && hd_net_team_has_lost(node->team, 1);
    node_check(node, node->me == 1 || lost == all, "process 1 is %s", lost ? "lost" : "there");
    node_meet(node);
    while (!atomic_load(node_word(node, 4))) {
        node_pump(node, "the one that goes");
        if (hd_net_is_given_up(node->net)) {
            atomic_store(node_word(node, 4), 1);
        }
    }
    node_meet(node);
    leave(node);
}

Test(net_loss, who_is_silent_to_one_host_and_computes_is_there_until_he_looks) {
    bool all = false;
    cr_assert_eq(nodes_run(3, hasty, lose_one_that_is_silent, &all), 0);
}

Test(net_loss, who_is_silent_to_all_other_hosts_is_gone) {
    bool all = true;
    cr_assert_eq(nodes_run(3, hasty, lose_one_that_is_silent, &all), 0);
}

/* Process 1 breaks the way to process 0, as UCX does when it has no descriptor. */
static void break_ways(node_t *node, void *arg) {
    const uint32_t breaks = *(const uint32_t *)arg;
    bool given_up = false;
    watch_all(node);
    for (uint32_t i = 0; i < breaks && !given_up; i++) {
        hd_net_team_t *old = node->team;
        for (uint32_t p = 0; node->me == 1 && p < node->n; p++) {
            if (p != 1) {
                hd_peer_lose(old->peer[p], "the test says so");
            }
        }
        double end = test_now() + 0.1;
        while (test_now() < end) {
            node_pump(node, "what others make of it");
        }
        node_meet(node);
        given_up = hd_net_is_given_up(node->net);
        for (uint32_t p = 0; p < node->n; p++) {
            node_check(node, given_up || i == breaks - 1 || !hd_net_team_has_lost(old, p),
                       "process %u counts as dead after %u breaks", p, i + 1);
        }
        if (i < breaks - 1) {
            node->team = node_make_team(node, 100 + i);
            node_check(node, node->team, "no team");
            node_check(node, barrier(node, 1) == UCC_OK, "they meet again");
            hd_net_team_destroy(old);
        }
        node_meet(node);
    }
    atomic_store(node_word(node, node->me), 1);
    node_begin(node);
    while (breaks > 4 && !atomic_load(node_word(node, 3))) {
        node_pump(node, "the end of the matter");
        if (node->me != 1 && hd_net_team_has_lost(node->team, 1)) {
            atomic_fetch_or(node_word(node, 4), UINT64_C(1) << node->me);
        }
        if (atomic_load(node_word(node, 4)) == 5) {
            atomic_store(node_word(node, 3), 1);
        }
    }
    node_check(node, hd_net_is_given_up(node->net) == (node->me == 1 && breaks > 4), "process %u",
               node->me);
    node_meet(node);
    leave(node);
}

Test(net_loss, who_has_lost_the_ways_to_one_that_lives_has_new_ones_in_the_next_team) {
    uint32_t breaks = 3;
    cr_assert_eq(nodes_run(3, hasty, break_ways, &breaks), 0);
}

Test(net_loss, who_loses_the_ways_to_several_others_again_and_again_goes_itself) {
    uint32_t breaks = 5;
    cr_assert_eq(nodes_run(3, hasty, break_ways, &breaks), 0);
}

/* Host 1 has lost hosts 2 and 3, which both live: it goes, though its number is the lowest. */
static void lose_two(node_t *node, void *arg) {
    (void)arg;
    part_hosts(node);
    if (node->me == 0) {
        find_silent(node, 1);
        find_silent(node, 2);
    }
    node_begin(node);
    while (!atomic_load(node_word(node, 0)) ||
           (node->me != 0 && !hd_net_team_has_lost(node->team, 0))) {
        node_pump(node, "the end of the matter");
        if (hd_net_is_given_up(node->net)) {
            atomic_store(node_word(node, node->me), 1);
        }
    }
    node_meet(node);
    node_check(node, hd_net_is_given_up(node->net) == (node->me == 0), "process %u", node->me);
    for (uint32_t i = 1; node->me != 0 && i < 3; i++) {
        node_check(node, !hd_net_team_has_lost(node->team, i), "process %u is there", i);
    }
    node_meet(node);
    leave(node);
}

Test(net_loss, a_host_that_has_lost_two_others_goes_itself) {
    cr_assert_eq(nodes_run(3, patient, lose_two, NULL), 0);
}

/* All other hosts lose that of process 0, which computes for long meanwhile: when it comes back it
 * has been given up, and what it thinks of process 1 counts nothing. */
static void come_back_late(node_t *node, void *arg) {
    (void)arg;
    part_hosts(node);
    if (node->me != 0) {
        find_silent(node, 0);
    }
    if (node->me == 0) {
        while (!atomic_load(node_word(node, 5))) {
            usleep(1000); /* it computes */
        }
        find_silent(node, 1);
    }
    node_begin(node);
    while (!atomic_load(node_word(node, 0))) {
        node_pump(node, "the end of the matter");
        if (node->me == 2 && hd_net_team_has_lost(node->team, 0)) {
            atomic_store(node_word(node, 5), 1);
        }
        if (hd_net_is_given_up(node->net)) {
            atomic_store(node_word(node, node->me), 1);
        }
    }
    double end = test_now() + 1;
    while (test_now() < end) {
        node_pump(node, "what it says of others");
    }
    node_check(node, hd_net_is_given_up(node->net) == (node->me == 0), "process %u", node->me);
    node_check(node, node->me != 2 || !hd_net_team_has_lost(node->team, 1), "process 1 is there");
    node_meet(node);
    leave(node);
}

Test(net_loss, the_word_of_one_that_was_given_up_counts_nothing) {
    cr_assert_eq(nodes_run(3, hasty, come_back_late, NULL), 0);
}

/* --- whether a process still hears ------------------------------------------------------------ */

/* Takes all descriptors that this process may have, of 256; gives them back. */
static void take_all_descriptors(int taken[256]) {
    const struct rlimit few = {256, 256};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (uint32_t i = 0; i < 256; i++) {
        taken[i] = dup(0);
    }
}

static void give_descriptors_back(const int taken[256]) {
    for (uint32_t i = 0; i < 256; i++) {
        if (taken[i] >= 0) {
            close(taken[i]);
        }
    }
}

/* UCX would begin one, and end the process later. */
static void make_a_way_with_few_descriptors(node_t *node, void *arg) {
    (void)arg;
    int taken[256];
    hd_net_lane_t *lane = &node->net->lane[0];
    if (node->me == 0) {
        hd_peer_lose(node->team->peer[1], "the test says so");
        hd_peer_t *peer = hd_peer_of(node->net, &node->process[1]);
        node_check(node, peer && peer != node->team->peer[1], "there is no new peer");
        hd_lock(&lane->lock);
        hd_net_let_go(node->net);
        take_all_descriptors(taken);
        for (uint32_t i = 256, left = 3; i-- > 0 && left > 0;) { /* enough to begin */
            left -= taken[i] >= 0;
            close(taken[i]);
            taken[i] = -1;
        }
        node_check(node, !hd_peer_link(peer, lane), "a way with three descriptors");
        give_descriptors_back(taken);
        hd_unlock(&lane->lock);
        node_check(node, atomic_load(&peer->lost) && !peer->link[0].ucx.ep, "UCX was asked");
    }
    node_meet(node);
    leave(node);
}

Test(net_loss, no_way_is_made_with_too_few_descriptors) {
    cr_assert_eq(nodes_run(2, shm, make_a_way_with_few_descriptors, NULL), 0);
}

/* Process 0 has no descriptor left when it asks itself, but, with `held`, those that are held for
 * that; without, it asks again when it has some. */
static void ask_oneself_without_descriptors(node_t *node, void *arg) {
    const bool held = *(const bool *)arg;
    int taken[256];
    hd_net_t *net = node->net;
    hd_net_lane_t *lane = &net->lane[0];
    watch_all(node);
    hd_lock(&lane->lock);
    if (node->me == 0) {
        node_check(node, net->n_held == HD_UCX_DESCRIPTORS, "%u are held", net->n_held);
        if (!held) {
            hd_net_let_go(net);
        }
        take_all_descriptors(taken);
        hd_net_probe(net);
        node_check(node, net->probing == held && !net->probe_again == held && net->n_held == 0,
                   held ? "it does not ask" : "it asks without a descriptor");
        if (!held) {
            give_descriptors_back(taken);
        }
        atomic_store(&net->has_losses, true);
    }
    hd_unlock(&lane->lock);
    while (node->me == 0 && atomic_load(&lane->probed) == 0) {
        node_pump(node, "a message of one's own");
    }
    if (node->me == 0 && held) {
        give_descriptors_back(taken);
    }
    node_check(node, !hd_net_is_given_up(net), "it hears itself");
    node_meet(node);
    leave(node);
}

Test(net_loss, who_lacks_descriptors_asks_himself_later) {
    bool held = false;
    cr_assert_eq(nodes_run(2, shm, ask_oneself_without_descriptors, &held), 0);
}

Test(net_loss, who_has_run_out_of_descriptors_can_ask_himself) {
    bool held = true;
    cr_assert_eq(nodes_run(2, shm, ask_oneself_without_descriptors, &held), 0);
}

/* Process 0 asks itself; deaf: what it has sent is not what it waits for, as if it did not come. */
static void ask_oneself(node_t *node, void *arg) {
    const bool deaf = *(const bool *)arg;
    hd_net_t *net = node->net;
    hd_net_lane_t *lane = &net->lane[0];
    watch_all(node);
    hd_lock(&lane->lock);
    if (node->me == 0) {
        hd_net_probe(net);
        node_check(node, net->probing, "nothing is asked");
        net->n_probes += deaf;
        atomic_store(&net->has_losses, true);
    }
    hd_unlock(&lane->lock);
    node_begin(node);
    for (bool over = false; node->me == 0 && !over;) {
        node_pump(node, "what becomes of it");
        hd_lock(&lane->lock);
        over = !net->probing;
        hd_unlock(&lane->lock);
    }
    node_meet(node);
    node_begin(node);
    while (deaf && node->me != 0 && !hd_net_team_has_lost(node->team, 0)) {
        node_pump(node, "a word that process 0 has gone");
    }
    node_check(node, hd_net_is_given_up(net) == (deaf && node->me == 0), "process %u", node->me);
    node_meet(node);
    leave(node);
}

Test(net_loss, who_hears_a_message_of_his_own_stays) {
    bool deaf = false;
    cr_assert_eq(nodes_run(2, shm, ask_oneself, &deaf), 0);
}

Test(net_loss, who_does_not_hear_a_message_of_his_own_goes) {
    bool deaf = true;
    cr_assert_eq(nodes_run(3, shm, ask_oneself, &deaf), 0);
}
