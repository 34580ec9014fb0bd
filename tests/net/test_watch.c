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

/* What all processes see. */
typedef struct world {
    struct {
        _Atomic uint32_t there, connected, lost, heard, done;
        size_t bytes;
        uint8_t address[HD_WATCH_ADDRESS];
        uint64_t lost_identity;
        char words[HD_WATCH_WORDS];
    } side[MOST];
    _Atomic uint32_t stage;
} world_t;

static world_t *world;
static uint32_t me;
static bool forwards;
static uint64_t host = 5;

static void lost(void *arg, const uint64_t identity[2], hd_watch_loss_t how) {
    (void)arg;
    if (how == HD_WATCH_LEFT) {
        return;
    }
    world->side[me].lost_identity = identity[0];
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

static hd_watch_t *open_side(uint32_t side) {
    hd_watch_params_t params = {.host = host, .lost = lost, .heard = heard};
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

/* What was not read makes a reset of its end, which is no proof between hosts; so it is asked, and
 * refuses. This side has never connected to it before. */
Test(watch, a_process_of_another_host_that_ends_with_words_unread_is_lost_at_who_had_accepted) {
    make_world();
    host = 6;
    pid_t other = child(0, 1, 2, 1, false);
    host = 5;
    hd_watch_t *w = open_side(1);
    hd_watch_record_t record;
    cr_assert(hd_watch_parse(&record, world->side[1].address, world->side[1].bytes));
    if (record.n == 0) {
        kill(other, SIGKILL);
        cr_skip_test("no device but the loopback one");
    }
    keep(w, 0);
    cr_assert(look_until(w, &world->side[0].connected, 1));
    cr_assert(look_until(w, &world->side[1].connected, 1));
    kill(other, SIGSTOP);
    for (int i = 0; i < 50; i++) {
        hd_watch_tell(w, "words", 6, true);
        hd_watch_look(w);
        usleep(1000);
    }
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    cr_assert(look_until(w, &world->side[1].lost, 1));
    cr_assert_eq(world->side[1].lost_identity, 1000);
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
    hd_watch_tell(w, "all was lost", 13, false);
    hd_watch_tell(w, "all is lost", 12, true); /* before anybody is connected */
    cr_assert(look_until(w, &world->side[1].heard, 1));
    cr_assert(look_until(w, &world->side[2].heard, 1));
    cr_assert_str_eq(world->side[2].words, "all is lost");
    atomic_store(&world->stage, 1);
    waitpid(middle, NULL, 0);
    waitpid(far, NULL, 0);
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
        hd_watch_tell(w, words, sizeof(words), false);
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
        got = recv(fd, &c, 1, MSG_DONTWAIT);
        got = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 1 : got;
        usleep(100);
    }
    close(fd);
    return got <= 0;
}

Test(watch, strangers_are_closed_and_nothing_else_happens) {
    make_world();
    pid_t other = child(1, 0, 1, 1, true);
    hd_watch_t *w = open_side(0);
    keep(w, 1);
    cr_assert(look_until(w, &world->side[0].connected, 1));
    uint8_t frame[HD_WATCH_WORDS + 8] = {0x64, 0x48, 1, 0, 32}; /* a hello of nobody, to nobody */
    cr_assert(is_closed_after(w, frame, 40));
    frame[2] = 3; /* words, from one who has not said hello */
    cr_assert(is_closed_after(w, frame, 40));
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
    uint8_t frame[40] = {0x64, 0x48, 1, 0, 32};
    uint64_t identity[2];
    identity_of(1, identity);
    memcpy(frame + 8, identity, sizeof(identity));
    identity_of(0, identity);
    memcpy(frame + 24, identity, sizeof(identity));
    int fd = connect_to_watch(w);
    cr_assert_eq(send(fd, frame, sizeof(frame), 0), (ssize_t)sizeof(frame));
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
