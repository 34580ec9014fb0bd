/* test_legs.c: how legs begin, meet and fail: messages before their legs, mismatches, cancelling,
 * teams that end, and the net itself, opened by many threads at once. */
#include "../support/deadline.h"
#include "../support/nodes.h"
#include "../support/ucx_losses.h"
#include "core/log.h"
#include "net/internal.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(net_legs, .timeout = 120);

static const char *const shm[] = {NULL};
static const char *const tcp[] = {"NET_SHM", "n", "NET_TLS", "tcp", NULL};

static void everywhere(uint32_t n, void (*body)(node_t *, void *), void *arg) {
    cr_assert_eq(nodes_run(n, shm, body, arg), 0, "by shared memory");
    cr_assert_eq(nodes_run(n, tcp, body, arg), 0, "by tcp");
}

/* From process 0 to process 1: a bcast, of which both know the size. */
static run_t *message(node_t *node, hd_net_key_t key, void *at, size_t bytes) {
    static hd_net_data_t data[1024];
    static hd_net_piece_t piece[1024];
    static uint32_t next;
    run_t *run = must_alloc(1, sizeof(*run));
    uint32_t i = next++ % 1024;
    piece[i] = (hd_net_piece_t){at, bytes};
    data[i] = (hd_net_data_t){&piece[i], 1, bytes};
    run_init(run, node, HD_BCAST);
    run->leg.key = key;
    run->leg.call.give = run->leg.call.take = &data[i];
    run_plan(run, HD_NET_DIRECT, 0, bytes);
    return run;
}

static void end(run_t *run, ucc_status_t expected, const char *what) {
    ucc_status_t status = run_wait(run, what);
    node_check(run->node, status == expected, "%s: %d", what, status);
    free(run);
}

static hd_net_key_t tagged(uint64_t tag, uint64_t ordinal) {
    return (hd_net_key_t){.number = tag, .ordinal = ordinal, .class = HD_NET_TAG};
}

/* --- messages before their legs --------------------------------------------------------------- */

enum { MANY = 300 };

/* Process 1 opens its legs in the other order, and when all that comes eagerly has come. */
static void backwards(node_t *node, void *arg) {
    size_t bytes = *(const size_t *)arg;
    uint8_t *x = must_alloc(MANY, bytes);
    run_t *run[MANY];
    for (uint32_t i = 0; node->me == 0 && i < MANY; i++) {
        memset(x + i * bytes, (int)i + 1, bytes);
        run[i] = message(node, tagged(i / 3, i % 3), x + i * bytes, bytes);
        hd_leg_start(&run[i]->leg);
        hd_net_pump(node->net);
    }
    node_meet(node);
    for (uint32_t i = MANY; node->me == 1 && i-- > 0;) {
        run[i] = message(node, tagged(i / 3, i % 3), x + i * bytes, bytes);
        hd_leg_start(&run[i]->leg);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        end(run[i], UCC_OK, "a tagged message");
        for (size_t j = 0; j < bytes; j++) {
            node_check(node, x[i * bytes + j] == (uint8_t)(i + 1), "message %u", i);
        }
    }
    free(x);
}

Test(net_legs, small_messages_wait_for_their_legs) {
    size_t bytes = 100;
    everywhere(2, backwards, &bytes);
}

/* Above the quota their data stays with the sender. */
Test(net_legs, so_many_messages_wait_that_they_are_kept_by_the_sender) {
    size_t bytes = 4000;
    everywhere(2, backwards, &bytes);
}

static void parked_is_bounded(node_t *node, void *arg) {
    (void)arg;
    enum { BYTES = 4000, HERE = 200 };
    uint8_t *x = must_alloc(HERE, BYTES);
    run_t *run[HERE];
    for (uint32_t i = 0; node->me == 0 && i < HERE; i++) {
        run[i] = message(node, tagged(i, 0), x, BYTES);
        hd_leg_start(&run[i]->leg);
        hd_net_pump(node->net);
    }
    node_meet(node);
    for (int i = 0; i < 2000; i++) {
        node_pump(node, "looking");
    }
    hd_net_team_peer_t *peer = &node->team->lane[0].peer[1 - node->me];
    node_check(node, peer->parked_bytes <= HD_NET_MATCHED_QUOTA + 2 * BYTES, "%zu bytes are parked",
               peer->parked_bytes);
    for (uint32_t i = 0; node->me == 1 && i < HERE; i++) {
        run[i] = message(node, tagged(i, 0), x, BYTES);
        hd_leg_start(&run[i]->leg);
    }
    for (uint32_t i = 0; i < HERE; i++) {
        end(run[i], UCC_OK, "a tagged message");
    }
    node_check(node, peer->parked_bytes == 0 && peer->parked_messages == 0, "something is left");
    free(x);
}

Test(net_legs, what_waits_for_legs_is_bounded) {
    everywhere(2, parked_is_bounded, NULL);
}

/* --- a message of gigabytes -------------------------------------------------------------------- */

/* Memory of so many bytes, all of which are the same few pages. */
static void *folded(size_t bytes) {
    enum { PIECE = 2 << 20 };
    int fd = memfd_create("piece", MFD_CLOEXEC);
    uint8_t *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fd < 0 || ftruncate(fd, PIECE) != 0 || at == MAP_FAILED) {
        return NULL;
    }
    for (size_t i = 0; i < bytes; i += PIECE) {
        if (mmap(at + i, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
            MAP_FAILED) {
            return NULL;
        }
    }
    close(fd);
    return at;
}

/* Process 1 answers each message, and with it says what it has taken. */
static void after_gigabytes(node_t *node, void *arg) {
    const size_t bytes = *(const size_t *)arg;
    const hd_net_team_peer_t *peer = &node->team->lane[0].peer[1 - node->me];
    void *x = folded(bytes);
    node_check(node, x != NULL, "no memory is mapped");
    for (uint32_t i = 0; i < 4; i++) {
        run_t *run = message(node, tagged(i, 0), x, i == 0 ? bytes : 1000);
        hd_leg_start(&run->leg);
        end(run, UCC_OK, "a message");
        run_t answer;
        run_init(&answer, node, HD_BARRIER);
        answer.leg.key = tagged(100 + i, 0);
        run_plan(&answer, HD_NET_DIRECT, 2, 0);
        hd_leg_start(&answer.leg);
        node_check(node, run_wait(&answer, "an answer") == UCC_OK, "answer %u", i);
        node_check(node, peer->out - peer->out_taken < HD_NET_MATCHED_QUOTA,
                   "%u bytes count as not taken after message %u", peer->out - peer->out_taken, i);
    }
}

Test(net_legs, after_a_message_of_gigabytes_messages_go_eagerly_as_before) {
    size_t bytes = (size_t)1 << 31;
    cr_assert_eq(nodes_run(2, shm, after_gigabytes, &bytes), 0);
}

/* --- numbered exchanges ----------------------------------------------------------------------- */

static uint32_t count_over(run_t *const *run, uint32_t n) {
    uint32_t over = 0;
    for (uint32_t i = 0; i < n; i++) {
        over += atomic_load(&run[i]->over);
    }
    return over;
}

static void run_ahead(node_t *node, void *arg) {
    (void)arg;
    enum { HERE = 200 };
    uint64_t x[HERE] = {0};
    run_t *run[HERE];
    for (uint32_t i = 0; node->me == 0 && i < HERE; i++) {
        x[i] = i + 1;
        run[i] = message(node, (hd_net_key_t){.number = i + 1, .class = HD_NET_NUMBERED}, &x[i], 8);
        hd_leg_start(&run[i]->leg);
    }
    /* The first ones go when the two are connected; time for one more to go, which must not. */
    uint32_t over = node->me == 0 ? count_over(run, HERE) : HD_NET_AHEAD;
    while (over < HD_NET_AHEAD) {
        node_pump(node, "running ahead");
        over = count_over(run, HERE);
    }
    for (int i = 0; i < 2000; i++) {
        node_pump(node, "running ahead");
    }
    over = node->me == 0 ? count_over(run, HERE) : over;
    node_check(node, node->me == 1 || over == HD_NET_AHEAD, "%u are over", over);
    node_meet(node);
    for (uint32_t i = 0; i < HERE; i++) {
        if (node->me == 1) {
            run[i] =
                message(node, (hd_net_key_t){.number = i + 1, .class = HD_NET_NUMBERED}, &x[i], 8);
            hd_leg_start(&run[i]->leg);
        }
        end(run[i], UCC_OK, "a numbered message");
        node_check(node, x[i] == i + 1, "message %u", i);
    }
}

Test(net_legs, a_process_is_never_more_than_sixteen_numbers_ahead) {
    everywhere(2, run_ahead, NULL);
}

/* Nobody answers the root otherwise, so credits must come by themselves. */
static void one_way(node_t *node, void *arg) {
    (void)arg;
    uint64_t x = 0;
    for (uint64_t k = 1; k <= 3000; k++) {
        x = node->me == 0 ? k : 0;
        run_t *run = message(node, (hd_net_key_t){.number = k, .class = HD_NET_NUMBERED}, &x, 8);
        hd_leg_start(&run->leg);
        end(run, UCC_OK, "one of a long row");
        node_check(node, x == k, "message %llu", (unsigned long long)k);
    }
}

Test(net_legs, a_root_that_hears_nothing_goes_on) {
    everywhere(3, one_way, NULL);
}

/* --- mismatches ------------------------------------------------------------------------------- */

typedef struct mismatch {
    size_t bytes[2];
    uint32_t signature[2];
} mismatch_t;

static void mismatch(node_t *node, void *arg) {
    const mismatch_t *m = arg;
    hd_log_set_level(HD_LOG_FATAL);
    uint32_t me = node->me;
    uint8_t *x = must_alloc(1, m->bytes[me] + 64);
    memset(x + m->bytes[me], 0x77, 64);
    run_t *run = message(node, tagged(1, 0), x, m->bytes[me]);
    run->leg.call.signature = m->signature[me];
    hd_leg_start(&run->leg);
    ucc_status_t status = run_wait(run, "a mismatch");
    /* A sender may have been done before the receiver saw it. */
    node_check(node, status == UCC_ERR_INVALID_PARAM || (me == 0 && status == UCC_OK), "%d",
               status);
    node_begin(node);
    while (me == 0 && atomic_load(&node->failed) == UCC_OK) {
        node_pump(node, "the sender is told");
    }
    node_check(node, atomic_load(&node->failed) == UCC_ERR_INVALID_PARAM, "%d",
               atomic_load(&node->failed));
    for (size_t i = 0; i < 64; i++) {
        node_check(node, x[m->bytes[me] + i] == 0x77, "byte %zu beyond was written", i);
    }
    run_t *later = message(node, tagged(2, 0), x, 8);
    hd_leg_start(&later->leg);
    end(later, UCC_ERR_INVALID_PARAM, "a later leg of a team that has failed");
    free(run);
    free(x);
}

Test(net_legs, other_arguments_fail_both_sides) {
    mismatch_t small = {{8, 8}, {1, 2}}, large = {{1 << 20, 1 << 20}, {1, 2}};
    everywhere(2, mismatch, &small);
    everywhere(2, mismatch, &large);
}
Test(net_legs, other_sizes_fail_both_sides_and_nothing_is_written_beyond) {
    mismatch_t more = {{4000, 1000}, {1, 1}}, less = {{1000, 4000}, {1, 1}},
               large = {{1 << 20, 1 << 10}, {1, 1}};
    everywhere(2, mismatch, &more);
    everywhere(2, mismatch, &less);
    everywhere(2, mismatch, &large);
}

/* Nobody expects what the other one sends. It comes before process 1 has a leg, while that is open,
 * or after its end. */
typedef struct stranger {
    hd_net_key_t key;
    int when; /* process 1 begins: -1: late, 0: at once, 1: and process 0 late */
    size_t bytes;
} stranger_t;

static void two_roots(node_t *node, void *arg) {
    const stranger_t *stranger = arg;
    hd_log_set_level(HD_LOG_FATAL);
    uint8_t *x = must_alloc(1, stranger->bytes);
    if (stranger->when == (node->me == 1 ? -1 : 1)) {
        double until = test_now() + 0.05;
        for (node_begin(node); test_now() < until;) {
            node_pump(node, "waiting");
        }
    }
    run_t *run = message(node, stranger->key, x, stranger->bytes);
    run->leg.call.root = node->me;
    run->leg.call.signature = 10 + node->me;
    hd_leg_start(&run->leg);
    ucc_status_t status = run_wait(run, "a root");
    node_check(node, status == UCC_OK || status == UCC_ERR_INVALID_PARAM, "%d", status);
    for (node_begin(node); atomic_load(&node->failed) == UCC_OK;) {
        node_pump(node, "hearing of it");
    }
    node_check(node, atomic_load(&node->failed) == UCC_ERR_INVALID_PARAM, "%d",
               atomic_load(&node->failed));
    free(run);
    free(x);
}

Test(net_legs, two_roots_of_one_bcast_fail_both_sides) {
    for (int when = -1; when <= 1; when++) {
        stranger_t numbered = {{.number = 7, .class = HD_NET_NUMBERED}, when, 100},
                   matched = {tagged(5, 3), when, 100};
        everywhere(2, two_roots, &numbered);
        everywhere(2, two_roots, &matched);
    }
}

/* A message of the same arguments that nobody expects is left with its leg. */
static void sends_twice(node_t *node, void *arg) {
    (void)arg;
    hd_log_set_level(HD_LOG_FATAL);
    uint64_t x = 0;
    run_t *run[2];
    for (uint32_t i = 0; i < 2; i++) { /* two legs of process 0 go by one name */
        run[i] = message(node, tagged(9, 0), &x, 8);
        if (node->me == 0) {
            hd_leg_start(&run[i]->leg);
            (void)run_wait(run[i], "a bcast");
        }
    }
    node_meet(node);
    if (node->me == 1) {
        hd_leg_start(&run[0]->leg);
        (void)run_wait(run[0], "a bcast");
    }
    for (node_begin(node); atomic_load(&node->failed) == UCC_OK;) {
        node_pump(node, "hearing of it");
    }
    node_check(node, atomic_load(&node->failed) == UCC_ERR_INVALID_PARAM, "%d",
               atomic_load(&node->failed));
    free(run[0]);
    free(run[1]);
}

Test(net_legs, what_nobody_expects_fails_both_sides) {
    everywhere(2, sends_twice, NULL);
}

static void chooses(node_t *node, void *arg) {
    (void)arg;
    hd_net_call_t call = {.type = HD_BCAST, .n = 2};
    hd_net_plan_t first = hd_net_plan_of(node->team, &call, 8);
    hd_config_t *own = node->config;
    must(hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &node->config), "configuration");
    must(hd_config_modify(node->config, NULL, "NET_BCAST", "chain"), "NET_BCAST");
    hd_net_team_t *team = node_make_team(node, 78);
    hd_net_plan_t second = hd_net_plan_of(team, &call, 8);
    node_check(node, first.algorithm == HD_NET_TREE, "%u", first.algorithm);
    node_check(node, second.algorithm == HD_NET_CHAIN, "%u", second.algorithm);
    node_meet(node);
    hd_net_team_destroy(team);
    hd_config_release(node->config);
    node->config = own;
}

Test(net_legs, algorithms_are_those_of_the_library_that_the_team_is_of) {
    cr_assert_eq(nodes_run(2, shm, chooses, NULL), 0);
}

/* --- cancelling ------------------------------------------------------------------------------- */

/* Process 1 never comes; process 0 gives up, and tells it. */
static void cancel(node_t *node, void *arg) {
    size_t bytes = *(const size_t *)arg;
    uint8_t *x = must_alloc(1, bytes);
    if (node->me == 0) {
        run_t *run[2] = {message(node, tagged(1, 0), x, bytes), NULL};
        run[1] = message(node, tagged(2, 0), x, bytes);
        run[1]->leg.call.root = 1; /* which never sends */
        hd_leg_start(&run[0]->leg);
        hd_leg_start(&run[1]->leg);
        for (int i = 0; i < 500; i++) {
            node_pump(node, "waiting");
        }
        hd_net_team_abort(node->team, UCC_ERR_TIMED_OUT);
        run[1]->cancel = UCC_ERR_TIMED_OUT;
        end(run[1], UCC_ERR_TIMED_OUT, "a cancelled receive");
        ucc_status_t status = run_wait(run[0], "a send to somebody who does not come");
        node_check(node, status == UCC_ERR_TIMED_OUT || (status == UCC_OK && bytes < 100000), "%d",
                   status);
        free(run[0]);
        node_check(node, atomic_load(&node->failed) == UCC_OK, "who aborts knows it");
    }
    node_begin(node);
    while (node->me == 1 && atomic_load(&node->failed) == UCC_OK) {
        node_pump(node, "being told");
    }
    node_check(node, node->me == 0 || atomic_load(&node->failed) == UCC_ERR_TIMED_OUT, "%d",
               atomic_load(&node->failed));
    node_meet(node);
    free(x);
}

Test(net_legs, a_cancelled_leg_ends_when_nothing_of_it_is_under_way) {
    size_t small = 8, large = 1 << 20;
    everywhere(2, cancel, &small);
    everywhere(2, cancel, &large);
}

/* --- teams that come and go ------------------------------------------------------------------- */

static ucc_status_t barrier(node_t *node, hd_net_team_t *team, hd_net_key_t key) {
    run_t *run = must_alloc(1, sizeof(*run));
    run_init(run, node, HD_BARRIER);
    run->leg.team = team;
    run->leg.key = key;
    run_plan(run, 0, 0, 0);
    hd_leg_start(&run->leg);
    ucc_status_t status = run_wait(run, "a barrier");
    free(run);
    return status;
}

static void early(node_t *node, void *arg) {
    (void)arg;
    hd_net_key_t hello = {.class = HD_NET_FORMING};
    for (uint64_t wire = 1000; wire < 1020; wire++) {
        if (node->me == wire % 3) { /* the others' messages come before it knows the team */
            for (int i = 0; i < 300; i++) {
                node_pump(node, "being late");
            }
        }
        hd_net_team_t *team = node_make_team(node, wire);
        node_check(node, team, "no team");
        node_check(node, barrier(node, team, hello) == UCC_OK, "hello");
        node_check(node, barrier(node, team, tagged(1, 0)) == UCC_OK, "barrier");
        hd_net_team_destroy(team);
    }
}

Test(net_legs, a_forming_team_may_hear_of_itself_before_it_is_known) {
    everywhere(3, early, NULL);
}

enum { AHEAD = 5000 };

/* Process 0 greets in all teams before process 1 knows of the first. */
static void far_ahead(node_t *node, void *arg) {
    static hd_net_team_t *team[AHEAD];
    run_t *run = must_alloc(AHEAD, sizeof(*run));
    hd_net_lane_t *lane = &node->net->lane[0];
    (void)arg;
    while (node->me == 1 && lane->n_early < AHEAD) {
        node_pump(node, "being late");
    }
    for (uint32_t i = 0; i < AHEAD; i++) {
        team[i] = node_make_team(node, 1000 + i);
        node_check(node, team[i], "no team");
        run_init(&run[i], node, HD_BARRIER);
        run[i].leg.team = team[i];
        run[i].leg.key = (hd_net_key_t){.class = HD_NET_FORMING};
        run_plan(&run[i], 0, 0, 0);
        hd_leg_start(&run[i].leg);
        node_pump(node, "beginning");
    }
    for (uint32_t i = 0; i < AHEAD; i++) {
        node_check(node, run_wait(&run[i], "a greeting") == UCC_OK, "team %u", i);
    }
    node_meet(node);
    for (uint32_t i = 0; i < AHEAD; i++) {
        hd_net_team_destroy(team[i]);
    }
    free(run);
}

Test(net_legs, a_process_may_be_thousands_of_teams_ahead) {
    cr_assert_eq(nodes_run(2, shm, far_ahead, NULL), 0);
}

/* The greeting of that team fails with this status. */
static void greet_in_vain(node_t *node, uint64_t wire, ucc_status_t why) {
    hd_net_team_t *team = node_make_team(node, wire);
    node_check(node, team, "no team");
    ucc_status_t status = barrier(node, team, (hd_net_key_t){.class = HD_NET_FORMING});
    node_check(node, status == why, "%d", status);
    hd_net_team_destroy(team);
}

/* Of teams that this process will never be in. */
static void hear_of_aborts(node_t *node, void *arg) {
    hd_net_lane_t *lane = &node->net->lane[0];
    (void)arg;
    hd_lock(&lane->lock);
    for (uint64_t wire = 0; wire < 3 * HD_NET_EARLY_ABORTS; wire++) {
        hd_net_match_aborted(lane, wire, HEDDLE_ERR_ABORTED);
    }
    node_check(node, lane->n_early == 0, "they count as greetings");
    node_check(node, lane->n_early_aborts <= HD_NET_EARLY_ABORTS + HD_NET_EARLY_BUCKETS,
               "%u are kept", lane->n_early_aborts);
    hd_unlock(&lane->lock);
    greet_in_vain(node, 3 * HD_NET_EARLY_ABORTS - 1, HEDDLE_ERR_ABORTED); /* the youngest is */
}

Test(net_legs, aborts_of_others_teams_are_forgotten_before_there_are_too_many) {
    cr_assert_eq(nodes_run(2, shm, hear_of_aborts, NULL), 0);
}

/* Process 1 has no room for greetings. */
static void refuse(node_t *node, void *arg) {
    hd_net_lane_t *lane = &node->net->lane[0];
    (void)arg;
    hd_lock(&lane->lock);
    lane->n_early = node->me == 1 ? HD_NET_EARLY_MESSAGES : 0;
    hd_unlock(&lane->lock);
    node_meet(node);
    if (node->me == 0) {
        greet_in_vain(node, 1000, UCC_ERR_NO_RESOURCE);
    }
    node_meet(node);
    hd_lock(&lane->lock);
    lane->n_early -= node->me == 1 ? HD_NET_EARLY_MESSAGES : 0;
    hd_unlock(&lane->lock);
    if (node->me == 1) { /* it learns what has become of the team that it could not keep in mind */
        greet_in_vain(node, 1000, UCC_ERR_NO_RESOURCE);
    }
}

Test(net_legs, a_greeting_for_which_there_is_no_room_fails_its_team) {
    cr_assert_eq(nodes_run(2, shm, refuse, NULL), 0);
}

static void after_the_end(node_t *node, void *arg) {
    uint64_t x[4000] = {0};
    size_t bytes = *(const size_t *)arg;
    hd_net_team_t *team = node_make_team(node, 99);
    node_check(node, barrier(node, team, tagged(1, 0)) == UCC_OK, "barrier");
    if (node->me == 1) {
        hd_net_team_destroy(team);
    }
    node_meet(node);
    for (uint64_t tag = 2; node->me == 0 && tag < 40; tag++) {
        run_t *run = message(node, tagged(tag, 0), x, bytes);
        run->leg.team = team;
        hd_leg_start(&run->leg);
        ucc_status_t status = run_wait(run, "a message for a team that was destroyed");
        node_check(node, status == UCC_OK || bytes > 1000, "%d", status);
        free(run);
    }
    if (node->me == 0) {
        hd_net_team_destroy(team);
    }
    node_check(node, barrier(node, node->team, tagged(1, 0)) == UCC_OK, "the other team lives");
}

Test(net_legs, what_comes_for_a_destroyed_team_is_dropped) {
    size_t small = 8;
    everywhere(2, after_the_end, &small);
}

/* Process 1 has no memory for what comes before its leg: that costs the team, but nobody is lost,
 * and another team of the same processes goes on. */
static void without_memory(node_t *node, void *arg) {
    size_t bytes = *(const size_t *)arg;
    uint8_t *x = must_alloc(1, bytes);
    hd_net_team_t *beside = node_make_team(node, 99);
    hd_peer_t *other = node->team->peer[1 - node->me];
    run_t *run = message(node, tagged(1, 0), x, bytes);
    hd_log_set_level(HD_LOG_FATAL);
    node_check(node, barrier(node, beside, tagged(1, 0)) == UCC_OK, "barrier");
    if (node->me == 1) {
        hd_alloc_fail_after(0);
    }
    node_meet(node);
    if (node->me == 0) {
        hd_leg_start(&run->leg);
    }
    for (node_begin(node); atomic_load(&node->failed) == UCC_OK;) {
        node_pump(node, "hearing of it");
    }
    hd_alloc_fail_after(-1);
    node_check(node, atomic_load(&node->failed) == UCC_ERR_NO_MEMORY, "%d",
               atomic_load(&node->failed));
    if (node->me == 0) {
        ucc_status_t status = run_wait(run, "a message for which there is no memory");
        node_check(node, status == UCC_OK || status == UCC_ERR_NO_MEMORY, "%d", status);
    }
    node_check(node, barrier(node, beside, tagged(2, 0)) == UCC_OK, "the other team goes on");
    node_check(node, hd_peer_lives(other) && !atomic_load(&other->lost), "nobody is lost");
    hd_net_team_destroy(beside);
    free(run);
    free(x);
}

Test(net_legs, who_lacks_memory_for_a_message_fails_its_team_and_loses_nobody) {
    size_t small = 8, large = 1 << 20;
    everywhere(2, without_memory, &small);
    everywhere(2, without_memory, &large);
}

/* --- the net itself --------------------------------------------------------------------------- */

static _Atomic uint32_t go;
static hd_config_t *config;

static void *open_and_close(void *arg) {
    (void)arg;
    for (int i = 0; i < 3; i++) {
        hd_net_t *net;
        ucc_status_t status;
        size_t bytes;
        atomic_fetch_add(&go, 1);
        while ((status = hd_net_open(config, false, &net)) == UCC_INPROGRESS) {
            sched_yield();
        }
        if (status != UCC_OK || net != hd_net_opened() || !hd_net_address(net, false, &bytes)) {
            return (void *)1;
        }
        hd_net_pump(net);
        hd_net_close(net);
    }
    return NULL;
}

static int eight_threads(void) {
    pthread_t thread[8];
    int failed = 0;
    void *result;
    must(hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &config), "configuration");
    for (int t = 0; t < 8; t++) {
        pthread_create(&thread[t], NULL, open_and_close, NULL);
    }
    for (int t = 0; t < 8; t++) {
        pthread_join(thread[t], &result);
        failed += result != NULL;
    }
    failed += hd_net_opened() != NULL;
    hd_config_release(config);
    return failed;
}

/* Runs it in a process that has used nothing before. */
static int alone(int (*body)(void)) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        exit(body());
    }
    waitpid(child, &status, 0);
    return status;
}

Test(net_legs, eight_threads_open_one_net_and_the_last_closes_it) {
    cr_assert_eq(alone(eight_threads), 0);
}

static ucc_status_t open_with(const char *name, const char *value) {
    hd_net_t *net;
    must(hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &config), "configuration");
    must(hd_config_modify(config, NULL, name, value), name);
    hd_log_set_level(HD_LOG_FATAL);
    ucc_status_t status = hd_net_open(config, false, &net);
    if (status == UCC_OK) {
        hd_net_close(net);
    }
    hd_config_release(config);
    return status;
}

static int without(void) {
    return open_with("NET", "n") != UCC_ERR_NOT_SUPPORTED ||
           open_with("NET_LIBRARY", "/nowhere/libucp.so") != UCC_ERR_NOT_SUPPORTED ||
           open_with("NET_LIBRARY", "libm.so.6") != UCC_ERR_NOT_SUPPORTED ||
           open_with("NET_TLS", "nosuchtransport") == UCC_OK ||
           open_with("NET_LANES", "3") != UCC_OK;
}

Test(net_legs, a_net_that_can_not_be_is_refused_and_one_that_can_opens_later) {
    cr_assert_eq(alone(without), 0);
}

static int left; /* descriptors */

static int with_so_many_left(void) {
    struct rlimit before, limit;
    int last = 0;
    must(open_with("NET", "y"), "the first net"); /* its library is loaded */
    getrlimit(RLIMIT_NOFILE, &before);
    limit = (struct rlimit){256, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int fd; (fd = dup(0)) >= 0;) {
        last = fd;
    }
    for (int i = 0; i < left; i++) {
        close(last - i);
    }
    ucc_status_t status = open_with("NET", "y");
    setrlimit(RLIMIT_NOFILE, &before); /* a sanitizer needs some as the process ends */
    return left > 60 ? status != UCC_OK : status != UCC_OK && status != UCC_ERR_NO_RESOURCE;
}

Test(net_legs, few_descriptors_are_an_error_and_not_the_end_of_the_process) {
    for (left = 0; left <= 100; left += left < 48 ? 1 : 13) {
        cr_assert_eq(alone(with_so_many_left), 0, "%d left", left);
    }
}

static void on_failed(void *arg, ucc_status_t why) {
    (void)arg, (void)why;
}

/* Each byte of an address that is cut off, or turned over. */
static int addresses(void) {
    hd_net_t *net;
    size_t bytes;
    int accepted = 0;
    must(hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &config), "configuration");
    must(hd_net_open(config, false, &net), "net");
    hd_log_set_level(HD_LOG_FATAL);
    const uint8_t *mine = hd_net_address(net, false, &bytes);
    for (size_t i = 0; i < 2 * bytes; i++) {
        size_t n = i < bytes ? i : bytes;
        uint8_t *copy = malloc(n + 1);
        memcpy(copy, mine, n);
        if (i >= bytes) {
            copy[i - bytes] ^= 0x10;
        }
        hd_net_process_t process[2] = {{.identity = {1, 1}}, {{2, i}, copy, n}};
        hd_net_team_params_t params = {
            .wire = 5, .n = 2, .me = 0, .process = process, .failed = on_failed};
        hd_net_team_t *team;
        if (hd_net_team_create(net, &params, &team) == UCC_OK) {
            accepted++;
            hd_net_team_destroy(team);
        }
        free(copy);
    }
    hd_net_close(net);
    hd_config_release(config);
    return accepted != 0;
}

Test(net_legs, malformed_addresses_are_refused) {
    cr_assert_eq(alone(addresses), 0);
}

/* A net with a second context, and the descriptor on which a lane of it is slept on. */
static hd_net_t *open_wide(int *both) {
    hd_net_t *net, *wide;
    must(hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &config), "configuration");
    must(hd_net_open(config, false, &net), "net");
    must(hd_net_open(config, true, &wide), "net for other hosts");
    hd_net_close(wide);
    hd_config_release(config);
    *both = net->lane[0].port.far ? net->lane[0].port.both : -1;
    return net;
}

static int fork_wide(void) {
    int both, status = 0;
    hd_net_t *net = open_wide(&both);
    pid_t child = fork();
    if (child == 0) {
        _exit(fcntl(both, F_GETFD) != -1 || fcntl(0, F_GETFD) == -1);
    }
    waitpid(child, &status, 0);
    bool kept = both < 0 || fcntl(both, F_GETFD) != -1;
    hd_net_close(net);
    return status != 0 || !kept || fcntl(both, F_GETFD) != -1;
}

Test(net_legs, the_child_of_a_fork_has_no_descriptor_of_its_parents_lanes) {
    cr_assert_eq(alone(fork_wide), 0);
}

/* Something is under way when the net ends. */
static int end_in_disorder(void) {
    static hd_message_t message;
    int both;
    hd_net_t *net = open_wide(&both);
    net->lane[0].under_way = &message;
    hd_net_close(net);
    _exit(fcntl(both, F_GETFD) != -1); /* what UCX keeps is nobody's leak */
}

Test(net_legs, a_lane_whose_worker_ucx_keeps_has_no_descriptor_left) {
    cr_assert_eq(alone(end_in_disorder), 0);
}

static void forks(node_t *node, void *arg) {
    (void)arg;
    node_check(node, barrier(node, node->team, tagged(1, 0)) == UCC_OK, "barrier");
    run_t *run = message(node, tagged(2, 0), arg, 8);
    if (node->me == 1) {
        hd_leg_start(&run->leg);
        hd_net_pump(node->net);
        int status = 0;
        pid_t child = fork();
        /* its copies are dead, and nothing that it does with them reaches the parent's net */
        if (child == 0) {
            int wrong = hd_net_opened() != NULL;
            wrong += hd_leg_cancel(&run->leg, UCC_ERR_NOT_SUPPORTED) != UCC_ERR_NOT_SUPPORTED;
            hd_net_team_destroy(node->team);
            hd_net_close(node->net);
            _exit(wrong);
        }
        waitpid(child, &status, 0);
        node_check(node, status == 0, "%d", status);
    }
    node_meet(node);
    if (node->me == 0) {
        hd_leg_start(&run->leg);
    }
    end(run, UCC_OK, "the parent goes on");
}

Test(net_legs, a_fork_leaves_the_parents_net_alone) {
    uint64_t x = 0;
    everywhere(2, forks, &x);
}
