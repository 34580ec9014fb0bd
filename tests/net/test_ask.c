/* What a process answers who asks it for whom it waits. The net is made up, but for its watch. */
#include "core/mem.h"
#include "net/ask.h"
#include "net/internal.h"
#include "threads/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MANY = 80000, BOUND_S = 20 };

static hd_net_t *net;
static hd_net_team_t *team;

static void on_lost(void *arg, const uint64_t identity[2], hd_watch_loss_t how) {
    (void)arg, (void)identity, (void)how;
}

static hd_watch_relay_t on_words(void *arg, const uint64_t identity[2], const void *words,
                                 size_t n) {
    (void)arg, (void)identity, (void)words, (void)n;
    return HD_WATCH_NOBODY;
}

static hd_peer_t *add_peer(uint64_t number) {
    hd_peer_t *peer = hd_alloc(alignof(hd_peer_t), sizeof(*peer));
    cr_assert(peer);
    *peer = (hd_peer_t){.token = {number, 1}, .net = net, .next = net->peers};
    peer->who = (hd_who_t){.pid = (uint32_t)number, .host = "there"};
    net->peers = peer;
    cr_assert(hd_gossip_meet(net, peer->token));
    return peer;
}

/* A team of so many processes, this one the first, and whoever asks at fd[0]. */
static void make(uint32_t n, int fd[2]) {
    net = hd_alloc(HD_LINE_PAIR, sizeof(*net));
    team = hd_alloc(HD_LINE_PAIR, sizeof(*team));
    cr_assert(net && team && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd) == 0);
    net->token[0] = net->lanes = 1;
    net->lane[0].net = net;
    const hd_watch_params_t params = {
        .identity = {1, 1}, .host = 5, .lost = on_lost, .heard = on_words};
    net->watch = hd_watch_open(&params);
    cr_assert(net->watch);
    team->net = net;
    team->n = n;
    team->peer = hd_alloc(HD_LINE, n * sizeof(hd_peer_t *));
    for (uint32_t i = 1; i < n; i++) {
        team->peer[i] = add_peer(i + 1);
    }
    cr_assert(hd_net_team_enter(team));
    hd_ask_clear(net);
    net->asks.askers.asker[0].fd = fd[1];
    net->asks.askers.asker[0].since = hd_clock_ns();
    net->asks.ready = true;
}

static void discard(const int fd[2]) {
    hd_ask_close(net);
    close(fd[0]);
    hd_watch_close(net->watch);
    for (hd_peer_t *next, *peer = net->peers; peer; peer = next) {
        next = peer->next;
        hd_free(peer);
    }
    hd_gossip_clear(net);
    hd_free(team->peer);
    hd_free(team);
    hd_free(net);
}

/* Asks, and returns how many processes were named; *line: of the one of that number. */
static uint32_t ask(const int fd[2], int number, char line[256]) {
    static char text[1 << 23];
    const hd_question_t question = {HD_ASK_MAGIC, HD_ASK_VERSION};
    hd_mail_t mail = {.last = 0};
    size_t n = 0;
    uint32_t named = 0;
    cr_assert_eq(send(fd[0], &question, sizeof(question), 0), (ssize_t)sizeof(question));
    hd_ask_look(net);
    cr_assert_eq(recv(fd[0], &mail, sizeof(mail), 0), (ssize_t)sizeof(question));
    for (mail.last = 0; !mail.last;) {
        net->asks.ready = true; /* what was queued comes */
        hd_ask_look(net);
        cr_assert_gt(recv(fd[0], &mail, sizeof(mail), 0), 0);
        cr_assert_lt(n + mail.bytes, sizeof(text));
        memcpy(text + n, mail.text, mail.bytes);
        n += mail.bytes;
    }
    for (char *rest = text, *at; (at = strsep(&rest, "\n")) && *at;) {
        int is;
        if (sscanf(at, "K %*s %d", &is) == 1) {
            named++;
            if (is == number) {
                snprintf(line, 256, "%s", at);
            }
        }
    }
    return named;
}

/* The ways to process 2 have broken, so there are two peers of it: the later one counts. */
Test(ask, each_process_is_named_once_with_its_number) {
    int fd[2];
    char line[256] = "";
    make(4, fd);
    add_peer(3)->who.pid = 77;
    add_peer(9);
    cr_expect_eq(ask(fd, 2, line), 4);
    cr_expect_str_eq(line, "K 00000000000000030000000000000001 2 77 there 0");
    net->asks.askers.asker[0].ask = 0; /* it asks anew */
    net->asks.ready = true;
    cr_expect_eq(ask(fd, -1, line), 4);
    cr_expect_str_eq(line, "K 00000000000000090000000000000001 -1 9 there 0");
    discard(fd);
}

Test(ask, of_tens_of_thousands_of_processes_one_hears_soon, .timeout = BOUND_S) {
    int fd[2];
    char line[256] = "";
    make(MANY, fd);
    cr_expect_eq(ask(fd, MANY - 1, line), MANY - 1);
    cr_expect(strstr(line, " 79999 80000 there "), "%s", line);
    discard(fd);
}
