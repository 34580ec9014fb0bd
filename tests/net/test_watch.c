/* Processes that watch each other: a forked child for each, over the loopback address. */
#include "core/log.h"
#include "net/watch.h"

#include "support/random.h"
#include "threads/clock.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 4, BOUND_S = 20 };
/* As watch.c has them. */
enum { VERSION = 1, HELLO = 1, WORDS = 3, CHALLENGE = 7 };

/* What all processes see. */
typedef struct world {
    struct {
        _Atomic uint32_t there, connected, lost, heard, done;
        size_t bytes;
        uint8_t address[HD_WATCH_ADDRESS];
        uint64_t lost_identity;
        hd_watch_loss_t how;
        char words[HD_WATCH_WORDS];
    } side[MOST];
    _Atomic uint32_t stage;
} world_t;

static world_t *world;
static uint32_t me;
static bool forwards;
static uint64_t host = 5;
static double lost_after, silence; /* s; silence: what the kernel says; 0: the truth */

bool __wrap_hd_watch_has_ceased(int descriptor, double seconds);
bool __real_hd_watch_has_ceased(int descriptor, double seconds);

bool __wrap_hd_watch_has_ceased(int descriptor, double seconds) {
    return silence > 0 ? silence > seconds : __real_hd_watch_has_ceased(descriptor, seconds);
}

static int recv_fails; /* once, with that errno */

ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags);
ssize_t __real_recv(int fd, void *bytes, size_t n, int flags);

ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags) {
    if (recv_fails) {
        errno = recv_fails;
        recv_fails = 0;
        return -1;
    }
    return __real_recv(fd, bytes, n, flags);
}

static void lost(void *arg, const uint64_t identity[2], hd_watch_loss_t how) {
    (void)arg;
    if (how == HD_WATCH_LEFT) {
        return;
    }
    world->side[me].lost_identity = identity[0];
    world->side[me].how = how;
    atomic_fetch_add(&world->side[me].lost, 1);
}

static hd_watch_relay_t heard(void *arg, const uint64_t identity[2], const void *words,
                              size_t bytes) {
    (void)arg;
    (void)identity;
    memcpy(world->side[me].words, words, bytes);
    bool first = atomic_fetch_add(&world->side[me].heard, 1) == 0;
    return first && forwards ? HD_WATCH_ALL : HD_WATCH_NOBODY;
}

static void identity_of(uint32_t side, uint64_t identity[2]) {
    identity[0] = 1000 + side;
    identity[1] = 77;
}

static hd_watch_relay_t (*on_heard)(void *arg, const uint64_t identity[2], const void *words,
                                    size_t bytes) = heard;

static hd_watch_t *open_side(uint32_t side) {
    hd_watch_params_t params = {
        .host = host, .lost_after = lost_after, .lost = lost, .heard = on_heard};
    size_t bytes;
    me = side;
    identity_of(side, params.identity);
    hd_watch_t *w = hd_watch_open(&params);
    cr_assert(w);
    const void *address = hd_watch_address(w, &bytes);
    memcpy(world->side[side].address, address, bytes);
    world->side[side].bytes = bytes;
    atomic_store(&world->side[side].there, 1);
    return w;
}

/* Looks until it has become true, or for so long that it never will. */
static bool look_until(hd_watch_t *w, _Atomic uint32_t *word, uint32_t value) {
    uint64_t end = hd_ticks() + hd_seconds_to_ticks(BOUND_S);
    while (atomic_load(word) < value && hd_ticks() < end) {
        hd_watch_look(w);
        atomic_store(&world->side[me].connected, hd_watch_connected(w));
        usleep(200);
    }
    return atomic_load(word) >= value;
}

static void keep(hd_watch_t *w, uint32_t other) {
    uint64_t identity[2];
    identity_of(other, identity);
    cr_assert(look_until(w, &world->side[other].there, 1));
    cr_assert_eq(hd_watch_keep(w, identity, world->side[other].address, world->side[other].bytes,
                               me < other),
                 UCC_OK);
}

static void make_world(void) {
    world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(world, 0, sizeof(*world));
}

/* Of this process's watch: some but the loopback one. */
static bool has_devices(void) {
    hd_watch_record_t record;
    cr_assert(hd_watch_parse(&record, world->side[me].address, world->side[me].bytes));
    return record.n > 0;
}

static int listen_at(uint16_t *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 8) == 0 &&
              getsockname(fd, (struct sockaddr *)&at, &size) == 0);
    *port = ntohs(at.sin_port);
    return fd;
}

/* A child that keeps these, and looks until the stage has come; then goes as told. */
static pid_t child(uint32_t side, uint32_t first, uint32_t end, uint32_t stage, bool goodbye) {
    pid_t pid = fork();
    if (pid) {
        return pid;
    }
    hd_watch_t *w = open_side(side);
    for (uint32_t i = first; i < end; i++) {
        if (i != side) {
            keep(w, i);
        }
    }
    (void)look_until(w, &world->stage, stage);
    if (goodbye) {
        hd_watch_close(w);
    }
    _exit(0);
}

Test(watch, a_killed_process_is_lost_at_once_and_once) {
    make_world();
    pid_t other = child(1, 0, 1, 9, false);
    hd_watch_t *w = open_side(0);
    keep(w, 1);
    cr_assert(look_until(w, &world->side[0].connected, 1));
    cr_assert_eq(world->side[0].lost, 0);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    cr_assert(look_until(w, &world->side[0].lost, 1));
    cr_assert_eq(world->side[0].lost_identity, 1001);
    for (int i = 0; i < 2000; i++) {
        hd_watch_look(w);
    }
    cr_assert_eq(world->side[0].lost, 1);
    hd_watch_close(w);
}

/* Side 0, of another host, in a process of its own, and side 1, which it connects to. */
static hd_watch_t *meet_another_host(pid_t *other) {
    make_world();
    host = 6;
    *other = child(0, 1, 2, 1, false);
    host = 5;
    hd_watch_t *w = open_side(1);
    if (!has_devices()) {
        kill(*other, SIGKILL);
        cr_skip_test("no device but the loopback one");
    }
    keep(w, 0);
    cr_assert(look_until(w, &world->side[0].connected, 1));
    cr_assert(look_until(w, &world->side[1].connected, 1));
    return w;
}

/* What was not read makes a reset of its end, which is no proof between hosts; so it is asked, and
 * refuses. This side has never connected to it before. */
Test(watch, a_process_of_another_host_that_ends_with_words_unread_is_lost_at_who_had_accepted) {
    pid_t other;
    hd_watch_t *w = meet_another_host(&other);
    kill(other, SIGSTOP);
    for (int i = 0; i < 50; i++) {
        hd_watch_tell(w, "words", 6, HD_WATCH_ALL);
        hd_watch_look(w);
        usleep(1000);
    }
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    cr_assert(look_until(w, &world->side[1].lost, 1));
    cr_assert_eq(world->side[1].lost_identity, 1000);
    hd_watch_close(w);
}

/* The other one, which lives, finds a reset, and connects again: then its end is noticed. */
Test(watch, a_silent_host_is_lost_whatever_is_under_way_and_is_heard_again) {
    pid_t other;
    hd_watch_t *w = meet_another_host(&other);
    silence = 4.1;
    cr_assert(look_until(w, &world->side[1].lost, 1));
    cr_expect_eq(world->side[1].how, HD_WATCH_SILENT);
    silence = 0;
    world->side[1].connected = 0;
    cr_assert(look_until(w, &world->side[1].connected, 1));
    cr_expect_eq(world->side[0].lost, 0);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    cr_assert(look_until(w, &world->side[1].lost, 2));
    cr_expect_eq(world->side[1].how, HD_WATCH_DEAD);
    hd_watch_close(w);
}

/* A router, or a route that is gone, when the kernel's own time is over. */
Test(watch, a_line_that_is_given_up_because_no_way_leads_to_its_host_is_silent) {
    pid_t other;
    hd_watch_t *w = meet_another_host(&other);
    for (uint64_t identity[2]; identity_of(0, identity), !hd_watch_is_settled(w, identity);) {
        hd_watch_look(w);
    }
    recv_fails = EHOSTUNREACH;
    hd_watch_tell(w, "words", 6, HD_WATCH_ALL); /* the other one says that it has taken them */
    cr_assert(look_until(w, &world->side[1].lost, 1));
    cr_expect_eq(world->side[1].how, HD_WATCH_SILENT);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    hd_watch_close(w);
}

/* Nobody has these addresses, which are for documents. */
Test(watch, a_process_of_many_addresses_that_do_not_answer_is_lost_as_soon_as_one_of_few) {
    uint64_t identity[2], began = hd_ticks();
    make_world();
    lost_after = 0.5;
    hd_watch_t *w = open_side(0);
    hd_watch_record_t record;
    cr_assert(hd_watch_parse(&record, world->side[0].address, world->side[0].bytes));
    record.host = 6;
    record.wide = 9;
    record.n = HD_WATCH_LINES;
    for (uint8_t i = 0; i < record.n; i++) {
        record.line[i].family = 4;
        memcpy(record.line[i].bytes, (const uint8_t[]){192, 0, 2, (uint8_t)(200 + i)}, 4);
    }
    identity_of(1, identity);
    cr_assert_eq(hd_watch_keep(w, identity, &record, sizeof(record), true), UCC_OK);
    cr_expect(look_until(w, &world->side[0].lost, 1));
    cr_expect_eq(world->side[0].how, HD_WATCH_UNREACHED);
    cr_expect_lt(hd_ticks_to_seconds(hd_ticks() - began), 10);
    hd_watch_close(w);
}

/* As of a bridge for containers, which has the same address on every host. */
Test(watch, an_address_that_this_host_has_too_says_nothing_of_another_one) {
    uint64_t identity[2];
    make_world();
    lost_after = 0.1;
    hd_watch_t *w = open_side(0);
    if (!has_devices()) {
        cr_skip_test("no device but the loopback one");
    }
    hd_watch_record_t record;
    cr_assert(hd_watch_parse(&record, world->side[0].address, world->side[0].bytes));
    record.host = 6;
    int fd = listen_at(&record.wide); /* elsewhere: a port at which nobody listens there */
    identity_of(1, identity);
    cr_assert_eq(hd_watch_keep(w, identity, &record, sizeof(record), true), UCC_OK);
    cr_expect(look_until(w, &world->side[0].lost, 1));
    cr_expect_eq(world->side[0].how, HD_WATCH_UNREACHED);
    close(fd);
    hd_watch_close(w);
}

Test(watch, a_process_that_says_goodbye_is_not_lost) {
    make_world();
    pid_t other = child(1, 0, 1, 1, true);
    hd_watch_t *w = open_side(0);
    keep(w, 1);
    cr_assert(look_until(w, &world->side[0].connected, 1));
    atomic_store(&world->stage, 1);
    waitpid(other, NULL, 0);
    for (int i = 0; i < 2000 && hd_watch_connected(w); i++) {
        hd_watch_look(w);
        usleep(1000);
    }
    cr_assert_eq(hd_watch_connected(w), 0);
    cr_assert_eq(world->side[0].lost, 0);
    hd_watch_close(w);
}

Test(watch, a_stopped_process_is_there) {
    make_world();
    pid_t other = child(1, 0, 1, 1, true);
    hd_watch_t *w = open_side(0);
    keep(w, 1);
    cr_assert(look_until(w, &world->side[0].connected, 1));
    kill(other, SIGSTOP);
    for (int i = 0; i < 1500; i++) {
        hd_watch_look(w);
        usleep(1000);
    }
    cr_assert_eq(world->side[0].lost, 0);
    kill(other, SIGCONT);
    atomic_store(&world->stage, 1);
    waitpid(other, NULL, 0);
    hd_watch_close(w);
}

Test(watch, a_process_that_died_before_it_was_connected_is_lost_whoever_connects) {
    for (uint32_t dead = 0; dead < 2; dead++) {
        make_world();
        pid_t other = child(dead, 0, 0, 0, false);
        waitpid(other, NULL, 0);
        hd_watch_t *w = open_side(1 - dead);
        keep(w, dead);
        cr_assert(look_until(w, &world->side[1 - dead].lost, 1));
        hd_watch_close(w);
    }
}

Test(watch, words_reach_those_who_are_connected_to_none_but_a_third) {
    make_world();
    forwards = true;
    pid_t middle = child(1, 0, 3, 1, true), far = child(2, 1, 2, 1, true);
    hd_watch_t *w = open_side(0);
    keep(w, 1);
    hd_watch_tell(w, "all was lost", 13, HD_WATCH_THOSE_HERE);
    hd_watch_tell(w, "all is lost", 12, HD_WATCH_ALL); /* before anybody is connected */
    cr_assert(look_until(w, &world->side[1].heard, 1));
    cr_assert(look_until(w, &world->side[2].heard, 1));
    cr_assert_str_eq(world->side[2].words, "all is lost");
    atomic_store(&world->stage, 1);
    waitpid(middle, NULL, 0);
    waitpid(far, NULL, 0);
    hd_watch_close(w);
}

static hd_watch_relay_t hear_loss(void *arg, const uint64_t identity[2], const void *words,
                                  size_t bytes) {
    (void)arg, (void)identity;
    uint32_t losses = atomic_load(&world->side[me].heard);
    char next[HD_WATCH_WORDS] = "";
    snprintf(next, sizeof(next), "loss %u", losses); /* in the order in which they were told */
    atomic_fetch_add(&world->side[me].heard, bytes == sizeof(next) && !strcmp(words, next));
    atomic_fetch_add(&world->side[me].done, !strcmp(words, "other"));
    return HD_WATCH_NOBODY;
}

/* Of the others a newcomer hears the last. */
Test(watch, who_comes_late_hears_all_losses_whatever_else_was_told_since) {
    enum { LOSSES = 40, BETWEEN = 150 };
    make_world();
    hd_watch_t *w = open_side(0);
    for (uint32_t i = 0; i < LOSSES; i++) {
        char words[HD_WATCH_WORDS] = "";
        snprintf(words, sizeof(words), "loss %u", i);
        hd_watch_tell(w, words, sizeof(words), HD_WATCH_EVER);
        for (uint32_t j = 0; j < BETWEEN; j++) {
            hd_watch_tell(w, "other", 6, HD_WATCH_ALL);
        }
    }
    on_heard = hear_loss;
    pid_t other = child(1, 0, 1, 1, true);
    keep(w, 1);
    cr_expect(look_until(w, &world->side[1].heard, LOSSES), "%u", world->side[1].heard);
    cr_expect(look_until(w, &world->side[1].done, 1000));
    atomic_store(&world->stage, 1);
    waitpid(other, NULL, 0);
    cr_expect_lt(world->side[1].done, 1100, "%u", world->side[1].done);
    hd_watch_close(w);
}

enum { STORM = 5000 };

/* It computes while thousands of words come, and its socket would be full many times over. */
Test(watch, who_computes_for_long_is_not_lost_and_misses_no_word) {
    make_world();
    pid_t other = fork();
    if (other == 0) {
        hd_watch_t *w = open_side(1);
        keep(w, 0);
        (void)look_until(w, &world->side[0].connected, 1);
        atomic_store(&world->side[1].done, 1);
        while (!atomic_load(&world->side[0].done)) {
            usleep(1000); /* it computes */
        }
        (void)look_until(w, &world->side[1].heard, STORM);
        (void)look_until(w, &world->stage, 1);
        hd_watch_close(w);
        _exit(0);
    }
    hd_watch_t *w = open_side(0);
    keep(w, 1);
    cr_assert(look_until(w, &world->side[0].connected, 1));
    cr_assert(look_until(w, &world->side[1].done, 1));
    for (uint32_t i = 0; i < STORM; i++) {
        char words[HD_WATCH_WORDS] = "";
        snprintf(words, sizeof(words), "word %u", i);
        hd_watch_tell(w, words, sizeof(words), HD_WATCH_THOSE_HERE);
        hd_watch_look(w);
    }
    atomic_store(&world->side[0].done, 1);
    cr_assert(look_until(w, &world->side[1].heard, STORM));
    cr_expect_str_eq(world->side[1].words, "word 4999");
    cr_expect_eq(world->side[0].lost, 0);
    atomic_store(&world->stage, 1);
    waitpid(other, NULL, 0);
    hd_watch_close(w);
}

static int connect_to_watch(const hd_watch_t *w) {
    hd_watch_record_t record;
    size_t size;
    const void *address = hd_watch_address(w, &size);
    cr_assert(hd_watch_parse(&record, address, size));
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(record.port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* A connection of somebody else's, who sends these bytes. Is it closed? */
static bool is_closed_after(hd_watch_t *w, const void *bytes, size_t n) {
    int fd = connect_to_watch(w);
    (void)!send(fd, bytes, n, MSG_NOSIGNAL);
    uint64_t end = hd_ticks() + hd_seconds_to_ticks(BOUND_S);
    char c;
    ssize_t got = 1;
    while (got > 0 && hd_ticks() < end) {
        hd_watch_look(w);
        got = recv(fd, &c, 1, MSG_DONTWAIT); /* the challenge, then the end */
        got = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 1 : got;
        usleep(100);
    }
    close(fd);
    return got <= 0;
}

/* Until so many bytes have come. */
static void receive_all(hd_watch_t *w, int fd, void *bytes, size_t n) {
    uint64_t end = hd_ticks() + hd_seconds_to_ticks(BOUND_S);
    for (size_t at = 0; at < n;) {
        hd_watch_look(w);
        ssize_t got = recv(fd, (char *)bytes + at, n - at, MSG_DONTWAIT);
        cr_assert(got != 0 && hd_ticks() < end);
        at += got > 0 ? (size_t)got : 0;
    }
}

/* Answers the challenge as side `side` does, which this test's watch has for one that connects. */
static void say_hello(hd_watch_t *w, int fd, uint32_t side) {
    uint8_t frame[72] = {0x65, 0x48, HELLO, VERSION, 64}, challenge[24];
    hd_watch_record_t record;
    size_t size;
    const void *address = hd_watch_address(w, &size);
    cr_assert(hd_watch_parse(&record, address, size));
    receive_all(w, fd, challenge, sizeof(challenge));
    cr_assert_eq(challenge[2], CHALLENGE);
    hd_watch_proven_t proven = {.version = VERSION, .connector_nonce = {3, 4}};
    uint64_t proof[2];
    identity_of(side, proven.connector);
    identity_of(me, proven.acceptor);
    memcpy(proven.acceptor_nonce, challenge + 8, sizeof(proven.acceptor_nonce));
    hd_watch_prove(record.key, &proven, proof);
    memcpy(frame + 8, proven.connector, 16);
    memcpy(frame + 24, proven.acceptor, 16);
    memcpy(frame + 40, proven.connector_nonce, 16);
    memcpy(frame + 56, proof, 16);
    cr_assert_eq(send(fd, frame, sizeof(frame), 0), (ssize_t)sizeof(frame));
}

Test(watch, strangers_are_closed_and_nothing_else_happens) {
    make_world();
    pid_t other = child(1, 0, 1, 1, true);
    hd_watch_t *w = open_side(0);
    keep(w, 1);
    cr_assert(look_until(w, &world->side[0].connected, 1));
    uint8_t frame[HD_WATCH_WORDS + 8] = {0x65, 0x48, HELLO, VERSION, 64}; /* of nobody, to nobody */
    cr_assert(is_closed_after(w, frame, 72));
    frame[2] = WORDS; /* from one who has not said hello */
    cr_assert(is_closed_after(w, frame, 72));
    frame[2] = CHALLENGE; /* from one who is challenged */
    frame[4] = 16;
    cr_assert(is_closed_after(w, frame, 24));
    frame[2] = 200; /* no such kind */
    cr_assert(is_closed_after(w, frame, 40));
    frame[4] = frame[5] = frame[6] = frame[7] = 0xff; /* longer than any frame */
    cr_assert(is_closed_after(w, frame, 8));
    cr_assert(is_closed_after(w, "GET / HTTP/1.1\r\n\r\n", 18));
    cr_assert_eq(hd_watch_connected(w), 1);
    cr_assert_eq(world->side[0].lost + world->side[0].heard, 0);
    atomic_store(&world->stage, 1);
    waitpid(other, NULL, 0);
    hd_watch_close(w);
}

/* As of a process that began to connect, waited in vain for one that computed, and closed. */
Test(watch, a_connection_that_its_other_end_has_given_up_is_no_loss) {
    make_world();
    pid_t other = child(1, 0, 1, 1, true);
    hd_watch_t *w = open_side(0);
    keep(w, 1);
    cr_assert(look_until(w, &world->side[0].connected, 1));
    int fd = connect_to_watch(w);
    say_hello(w, fd, 1);
    close(fd);
    for (int i = 0; i < 500; i++) {
        hd_watch_look(w);
        usleep(200);
    }
    cr_assert_eq(world->side[0].lost, 0);
    cr_assert_eq(hd_watch_connected(w), 1);
    atomic_store(&world->stage, 1);
    waitpid(other, NULL, 0);
    hd_watch_close(w);
}

Test(watch, malformed_addresses_are_refused) {
    make_world();
    hd_watch_t *w = open_side(0);
    uint64_t identity[2] = {1, 2};
    uint8_t bytes[HD_WATCH_ADDRESS];
    memcpy(bytes, world->side[0].address, world->side[0].bytes);
    for (size_t n = 0; n < world->side[0].bytes; n++) {
        cr_assert_eq(hd_watch_keep(w, identity, bytes, n, true), UCC_ERR_INVALID_PARAM);
    }
    uint64_t random = 9;
    for (int i = 0; i < 100000; i++) {
        hd_watch_record_t record;
        for (size_t j = 0; j < sizeof(bytes); j++) {
            bytes[j] =
                i % 2 && j < 8 ? world->side[0].address[j] : (uint8_t)random_below(&random, 256);
        }
        (void)hd_watch_parse(&record, bytes, (size_t)random_below(&random, sizeof(bytes)));
    }
    hd_watch_close(w);
}

/* --- proofs ----------------------------------------------------------------------------------- */

/* Bytes that went one way. */
typedef struct record {
    uint8_t bytes[4096];
    size_t n;
} record_t;

static void pass_on(int from, int to, record_t *record) {
    ssize_t got =
        recv(from, record->bytes + record->n, sizeof(record->bytes) - record->n, MSG_DONTWAIT);
    if (got > 0) {
        cr_assert_eq(send(to, record->bytes + record->n, (size_t)got, MSG_NOSIGNAL), got);
        record->n += (size_t)got;
    }
}

/* Side 0 connects to side 1, this process, by way of somebody who writes down what goes by. */
static pid_t connect_through(uint16_t port) {
    pid_t pid = fork();
    if (pid == 0) {
        hd_watch_record_t record;
        uint64_t identity[2];
        hd_watch_t *w = open_side(0);
        (void)look_until(w, &world->side[1].there, 1);
        cr_assert(hd_watch_parse(&record, world->side[1].address, world->side[1].bytes));
        record.port = port;
        identity_of(1, identity);
        (void)hd_watch_keep(w, identity, &record, sizeof(record), true);
        (void)look_until(w, &world->stage, 1);
        _exit(0);
    }
    return pid;
}

Test(watch, a_handshake_shows_no_key_and_is_good_for_one_connection) {
    uint16_t port;
    record_t there = {.n = 0}, back = {.n = 0};
    make_world();
    int listener = listen_at(&port);
    pid_t other = connect_through(port);
    hd_watch_t *w = open_side(1);
    keep(w, 0);
    int near = accept(listener, NULL, NULL), far = connect_to_watch(w);
    uint64_t end = hd_ticks() + hd_seconds_to_ticks(BOUND_S);
    while (!atomic_load(&world->side[0].connected) && hd_ticks() < end) {
        pass_on(near, far, &there);
        pass_on(far, near, &back);
        hd_watch_look(w);
    }
    cr_assert_eq(world->side[0].connected, 1);
    cr_assert_eq(hd_watch_connected(w), 1);
    for (uint32_t side = 0; side < 2; side++) {
        hd_watch_record_t record;
        cr_assert(hd_watch_parse(&record, world->side[side].address, world->side[side].bytes));
        cr_assert_eq(record.key[0] == 0, 0);
        for (uint32_t half = 0; half < 2; half++) {
            cr_expect_null(memmem(there.bytes, there.n, &record.key[half], 8));
            cr_expect_null(memmem(back.bytes, back.n, &record.key[half], 8));
        }
    }
    cr_expect(is_closed_after(w, there.bytes, there.n), "it can be played again");
    cr_expect_eq(hd_watch_connected(w), 1);
    cr_expect_eq(world->side[1].lost, 0);
    atomic_store(&world->stage, 1);
    waitpid(other, NULL, 0);
    hd_watch_close(w);
}

static _Atomic uint32_t versions;

static void hear_version(hd_log_level_t level, const char *line, void *arg) {
    (void)level, (void)arg;
    versions += strstr(line, "frames are of version 0, those of this process of version 1") ||
                strstr(line, "is watched by version 5 of this protocol, this one by version 6");
}

Test(watch, another_version_is_refused_with_a_line) {
    uint8_t old[40] = {0x65, 0x48, HELLO, 0, 32};
    uint64_t identity[2] = {1, 2};
    make_world();
    hd_log_capture(hear_version, NULL);
    hd_watch_t *w = open_side(0);
    cr_expect(is_closed_after(w, old, sizeof(old)));
    cr_expect(is_closed_after(w, old, sizeof(old)));
    cr_expect_eq(versions, 1, "%u lines", versions);
    world->side[0].address[4] = 5;
    cr_expect_eq(hd_watch_keep(w, identity, world->side[0].address, world->side[0].bytes, true),
                 UCC_ERR_INVALID_PARAM);
    cr_expect_eq(versions, 2);
    hd_watch_close(w);
}

/* --- what lines call it ----------------------------------------------------------------------- */

Test(watch, a_process_is_named_by_an_address) {
    hd_watch_record_t record = {.host = 5, .port = 4000, .wide = 5000, .n = 1};
    char name[HD_WATCH_NAME];
    record.line[0].family = 4;
    memcpy(record.line[0].bytes, "\x0a\x4d\x00\x02", 4);
    hd_watch_name(&record, 5, name);
    cr_assert_str_eq(name, "127.0.0.1:4000");
    hd_watch_name(&record, 6, name);
    cr_assert_str_eq(name, "10.77.0.2:5000");
    record.line[0].family = 6;
    memcpy(record.line[0].bytes, "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07", 16);
    hd_watch_name(&record, 6, name);
    cr_assert_str_eq(name, "[fd00::7]:5000");
    record.n = 0;
    hd_watch_name(&record, 6, name);
    cr_assert_str_eq(name, "a host without an address");
}

static _Atomic uint32_t unreached;

static void hear_line(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    unreached += level == HD_LOG_WARN &&
                 strstr(line, "the process at a host without an address, of a team, can't be "
                              "reached to watch it") != NULL;
}

/* After some seconds of trying. It is told once. */
Test(watch, a_process_that_can_not_be_reached_is_named) {
    uint64_t identity[2];
    make_world();
    hd_log_capture(hear_line, NULL);
    hd_watch_t *w = open_side(0);
    hd_watch_record_t record;
    cr_assert(hd_watch_parse(&record, world->side[0].address, world->side[0].bytes));
    record.host = 6; /* of which no address is known */
    record.n = 0;
    identity_of(1, identity);
    cr_assert_eq(hd_watch_keep(w, identity, &record, offsetof(hd_watch_record_t, line), true),
                 UCC_OK);
    cr_assert(look_until(w, &unreached, 1));
    cr_assert_eq(world->side[0].lost, 0);
    hd_watch_close(w);
}
