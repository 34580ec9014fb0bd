/* test_hostile.c: whatever else connects to rank 0, or listens in its place, or sits on the way: it
 * does not get in, does not stop the others, and changes no byte of a result.
 */
#include "../support/deadline.h"
#include "../support/random.h"
#include "bootstrap/bootstrap.h"
#include "job.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(bootstrap_hostile, .timeout = 120);

static void expect_all(job_t *job, uint32_t n, ucc_status_t status) {
    for (uint32_t i = 0; i < n; i++) {
        cr_expect_eq(job->report[i].status, status, "rank %u: %d\n%s", i, job->report[i].status,
                     job->report[i].log);
    }
}

static int connect_to(uint16_t port) {
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void send_all(int fd, const void *bytes, size_t n) {
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent <= 0) {
            return;
        }
        bytes = (const char *)bytes + sent;
        n -= (size_t)sent;
    }
}

static size_t receive_all(int fd, void *to, size_t n) {
    size_t used = 0;
    while (used < n) {
        ssize_t got = recv(fd, (char *)to + used, n - used, 0);
        if (got <= 0) {
            break;
        }
        used += (size_t)got;
    }
    return used;
}

/* --- strangers at rank 0 ---------------------------------------------------------------------- */

/* A hello of rank 1 that is right in itself. */
static void write_hello(uint8_t out[HD_WIRE_HELLO]) {
    hd_wire_t w;
    hd_wire_open(&w, false, "x", 1, 3, 1);
    hd_wire_write_hello(&w, out);
}

static void silent(int fd) {
    (void)fd;
}

static void garbage(int fd) {
    uint8_t bytes[100000];
    uint64_t random = (uint64_t)fd;
    random_fill(&random, bytes, sizeof(bytes));
    send_all(fd, bytes, sizeof(bytes));
}

static void web_client(int fd) {
    static const char text[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\n\r\n";
    send_all(fd, text, sizeof(text));
}

static void truncated(int fd) {
    uint8_t hello[HD_WIRE_HELLO];
    write_hello(hello);
    send_all(fd, hello, sizeof(hello) - 1);
}

static void cut_off(int fd) {
    truncated(fd);
    shutdown(fd, SHUT_RDWR);
}

static void without_key(int fd) {
    uint8_t hello[HD_WIRE_HELLO], challenge[HD_WIRE_CHALLENGE], proof[HD_WIRE_PROOF] = {0};
    write_hello(hello);
    send_all(fd, hello, sizeof(hello));
    receive_all(fd, challenge, sizeof(challenge));
    send_all(fd, proof, sizeof(proof));
}

static void reflecting(int fd) {
    uint8_t hello[HD_WIRE_HELLO], challenge[HD_WIRE_CHALLENGE];
    write_hello(hello);
    send_all(fd, hello, sizeof(hello));
    receive_all(fd, challenge, sizeof(challenge));
    send_all(fd, challenge, sizeof(challenge));
}

static void oversized(int fd) {
    static uint8_t bytes[4 << 20];
    write_hello(bytes);
    send_all(fd, bytes, sizeof(bytes));
}

static void (*const strangers[])(int fd) = {silent,  garbage,     web_client, truncated,
                                            cut_off, without_key, reflecting, oversized};
enum { STRANGERS = sizeof(strangers) / sizeof(strangers[0]), EACH = 30 };

static ucc_status_t among_strangers(job_t *job, uint32_t i) {
    if (i == 3) {
        for (int k = 0; k < EACH * STRANGERS; k++) {
            int fd = connect_to(job->port);
            if (fd >= 0) {
                strangers[k % STRANGERS](fd); /* and stays connected */
            }
        }
        job->report[0].ready = 1;
        sleep(JOB_SECONDS);
    }
    while (i == 2 && !*(volatile int *)&job->report[0].ready) {
        usleep(1000); /* the strangers are first */
    }
    heddle_bootstrap_params_t params = job_params(job, i);
    params.size = 3;
    heddle_bootstrap_t *b;
    ucc_status_t status = heddle_bootstrap_tcp(&params, &b);
    status = status == UCC_OK ? job_gather(b, 1000, 0) : status;
    return job_end(b, status);
}

Test(bootstrap_hostile, strangers_of_all_kinds_do_not_keep_a_job_from_forming) {
    job_t *job = job_open(4);
    for (uint32_t i = 0; i < 4; i++) {
        job_start(job, i, among_strangers);
    }
    for (uint32_t i = 0; i < 3; i++) {
        waitpid(job->report[i].pid, NULL, 0);
    }
    kill(job->report[3].pid, SIGKILL);
    expect_all(job, 3, UCC_OK);
}

static ucc_status_t root_with_a_silent_one(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i);
    heddle_bootstrap_t *b;
    params.timeout = 1;
    ucc_status_t status = heddle_bootstrap_tcp(&params, &b);
    return job_end(b, status);
}

/* The same where rank 1 listens for its child, rank 2, which comes after the strangers. */
static ucc_status_t below_strangers(job_t *job, uint32_t i) {
    if (i == 3) {
        uint16_t port = job_listening_port(*(volatile pid_t *)&job->report[1].pid);
        for (int k = 0; k < EACH * STRANGERS; k++) {
            int fd = connect_to(port);
            if (fd >= 0) {
                strangers[k % STRANGERS](fd);
            }
        }
        job->report[0].ready = 1;
        sleep(JOB_SECONDS);
    }
    while (i == 2 && !*(volatile int *)&job->report[0].ready) {
        usleep(1000);
    }
    heddle_bootstrap_params_t params = job_params(job, i);
    params.size = 3;
    heddle_bootstrap_t *b;
    ucc_status_t status = heddle_bootstrap_tcp(&params, &b);
    status = status == UCC_OK ? job_gather(b, 1000, 0) : status;
    return job_end(b, status);
}

Test(bootstrap_hostile, nor_do_they_where_a_child_is_waited_for) {
    setenv("HEDDLE_BOOTSTRAP_FANOUT", "1", 1);
    job_t *job = job_open(4);
    for (uint32_t i = 0; i < 4; i++) {
        job_start(job, i, below_strangers);
    }
    for (uint32_t i = 0; i < 3; i++) {
        waitpid(job->report[i].pid, NULL, 0);
    }
    kill(job->report[3].pid, SIGKILL);
    expect_all(job, 3, UCC_OK);
    cr_expect(job_logged(job, 1, "is closed: it "), "%s", job->report[1].log);
}

Test(bootstrap_hostile, a_connection_that_proves_nothing_is_closed_in_time) {
    job_t *job = job_open(2);
    double begin = test_now();
    job_start(job, 0, root_with_a_silent_one);
    int fd = connect_to(job->port);
    struct timeval much = {.tv_sec = 30};
    char byte;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &much, sizeof(much));
    cr_expect_eq(recv(fd, &byte, 1, 0), 0, "not closed");
    cr_expect_geq(test_now() - begin, 0.4);
    job_wait(job);
    cr_expect_eq(job->report[0].status, UCC_ERR_TIMED_OUT);
    cr_expect(job_logged(job, 0, "has not proved in time that it knows the job's key"), "%s",
              job->report[0].log);
    cr_expect(job_logged(job, 0, "1 connections did not know the job's key"), "%s",
              job->report[0].log);
}

/* --- somebody else in rank 0's place ---------------------------------------------------------- */

enum { FAKE_SILENT, FAKE_CLOSING, FAKE_GARBAGE, FAKE_WITHOUT_KEY, FAKE_REFLECTING, FAKES };

static void fake_answer(int fd, int kind) {
    uint8_t bytes[4096];
    hd_wire_t w;
    uint64_t random = 1;
    switch (kind) {
    case FAKE_GARBAGE:
        random_fill(&random, bytes, sizeof(bytes));
        send_all(fd, bytes, sizeof(bytes));
        break;
    case FAKE_WITHOUT_KEY:
        hd_wire_open(&w, true, "guessed", 7, 2, 0);
        receive_all(fd, w.hello, sizeof(w.hello));
        hd_wire_write_challenge(&w, bytes);
        send_all(fd, bytes, HD_WIRE_CHALLENGE);
        receive_all(fd, bytes, HD_WIRE_PROOF);
        hd_wire_write_verdict(&w, HD_WIRE_ACCEPTED, bytes);
        send_all(fd, bytes, HD_WIRE_VERDICT);
        break;
    case FAKE_REFLECTING:
        for (ssize_t n; (n = recv(fd, bytes, sizeof(bytes), 0)) > 0;) {
            send_all(fd, bytes, (size_t)n);
        }
        break;
    default:
        break;
    }
    if (kind == FAKE_SILENT) {
        return; /* stays open */
    }
    shutdown(fd, SHUT_WR);
    close(fd);
}

/* At once. Others are tried again until the time is up. */
static bool is_refused(int kind) {
    return kind == FAKE_GARBAGE || kind == FAKE_WITHOUT_KEY;
}

static ucc_status_t with_fake_root(job_t *job, uint32_t i) {
    int kind = *(int *)job->arg;
    heddle_bootstrap_params_t params = job_params(job, i);
    heddle_bootstrap_t *b;
    if (i == 0) {
        for (;;) {
            fake_answer(accept(job->listener, NULL, NULL), kind);
        }
    }
    params.timeout = is_refused(kind) ? 20 : 0.7;
    ucc_status_t status = heddle_bootstrap_tcp(&params, &b);
    return status != UCC_OK && !b ? status : UCC_OK;
}

ParameterizedTestParameters(bootstrap_hostile, who_is_not_rank_0_is_not_believed) {
    static int kinds[] = {FAKE_SILENT, FAKE_CLOSING, FAKE_GARBAGE, FAKE_WITHOUT_KEY,
                          FAKE_REFLECTING};
    return cr_make_param_array(int, kinds, FAKES);
}

ParameterizedTest(int *kind, bootstrap_hostile, who_is_not_rank_0_is_not_believed) {
    job_t *job = job_open(2);
    job->arg = kind;
    job_start(job, 0, with_fake_root);
    job_start(job, 1, with_fake_root);
    waitpid(job->report[1].pid, NULL, 0);
    kill(job->report[0].pid, SIGKILL);
    cr_expect_eq(job->report[1].status,
                 is_refused(*kind) ? UCC_ERR_INVALID_PARAM : UCC_ERR_TIMED_OUT, "%d: %d\n%s", *kind,
                 job->report[1].status, job->report[1].log);
}

/* --- somebody on the way ---------------------------------------------------------------------- */

typedef struct attack {
    enum { FLIP, REPEAT, CUT, DROP } what;
    int direction; /* 0: from the rank to rank 0 */
    size_t at;     /* byte of that direction */
    uint16_t port; /* where the attacker listens */
    int listener;
} attack_t;

/* Bytes of a direction before the frames of the first exchange. */
enum {
    RANK_FRAMES = HD_WIRE_HELLO + HD_WIRE_PROOF,
    ROOT_FRAMES = HD_WIRE_CHALLENGE + HD_WIRE_VERDICT + HD_WIRE_HEAD,
    BLOCK = 200
};

static void forward(const attack_t *attack, int direction, int from, int to, size_t *passed) {
    static uint8_t frame[2 * HD_WIRE_HEAD + BLOCK * 4];
    uint8_t bytes[4096];
    ssize_t n = recv(from, bytes, sizeof(bytes), 0);
    if (n <= 0) {
        _exit(0); /* both ends notice */
    }
    for (ssize_t i = 0; i < n; i++, (*passed)++) {
        bool here = direction == attack->direction && *passed >= attack->at;
        if (here && *passed == attack->at && attack->what == FLIP) {
            bytes[i] ^= 0x10;
        }
        if (here && attack->what == CUT) {
            send_all(to, bytes, (size_t)i);
            _exit(0);
        }
        if (here && attack->what == DROP && *passed < attack->at + HD_WIRE_HEAD) {
            memmove(bytes + i, bytes + i + 1, (size_t)(n - i - 1)); /* a frame's head is missing */
            n--;
            i--;
            continue;
        }
        if (direction == attack->direction && attack->what == REPEAT) {
            size_t frame_bytes = HD_WIRE_HEAD + BLOCK + HD_WIRE_MAC;
            if (here && *passed < attack->at + frame_bytes) {
                frame[*passed - attack->at] = bytes[i];
            }
            if (*passed + 1 == attack->at + frame_bytes) { /* once more, before what follows */
                send_all(to, bytes, (size_t)i + 1);
                send_all(to, frame, frame_bytes);
                memmove(bytes, bytes + i + 1, (size_t)(n - i - 1));
                n -= i + 1;
                i = -1;
            }
        }
    }
    send_all(to, bytes, (size_t)n);
}

static ucc_status_t sit_between(job_t *job, const attack_t *attack) {
    int rank = accept(attack->listener, NULL, NULL), root = connect_to(job->port);
    size_t passed[2] = {0, 0};
    close(attack->listener);
    struct pollfd both[2] = {{.fd = rank, .events = POLLIN}, {.fd = root, .events = POLLIN}};
    while (poll(both, 2, -1) > 0) {
        if (both[0].revents) {
            forward(attack, 0, rank, root, &passed[0]);
        }
        if (both[1].revents) {
            forward(attack, 1, root, rank, &passed[1]);
        }
    }
    return UCC_OK;
}

static ucc_status_t under_attack(job_t *job, uint32_t i) {
    attack_t *attack = job->arg;
    char address[32];
    heddle_bootstrap_params_t params = job_params(job, i);
    heddle_bootstrap_t *b;
    if (i == 3) {
        return sit_between(job, attack);
    }
    close(attack->listener);
    params.size = 3;
    params.timeout = 2;
    if (i == 2) {
        snprintf(address, sizeof(address), "127.0.0.1:%u", attack->port);
        params.address = address;
    }
    ucc_status_t status = heddle_bootstrap_tcp(&params, &b);
    for (uint64_t round = 0; round < 3 && status == UCC_OK; round++) {
        status = job_gather(b, BLOCK, round); /* NO_MESSAGE: a byte is wrong */
    }
    return job_end(b, status);
}

static void run_attack(attack_t attack, const char *name) {
    job_t *job = job_open(4);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(at);
    attack.listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(attack.listener, (struct sockaddr *)&at, sizeof(at));
    listen(attack.listener, 1);
    getsockname(attack.listener, (struct sockaddr *)&at, &bytes);
    attack.port = ntohs(at.sin_port);
    job->arg = &attack;
    for (uint32_t i = 0; i < 4; i++) {
        job_start(job, i, under_attack);
    }
    close(attack.listener);
    for (uint32_t i = 0; i < 3; i++) {
        waitpid(job->report[i].pid, NULL, 0);
        cr_expect(job->report[i].status < 0 && job->report[i].status != UCC_ERR_NO_MESSAGE,
                  "%s: rank %u: %d\n%s", name, i, job->report[i].status, job->report[i].log);
    }
    kill(job->report[3].pid, SIGKILL);
    job_wait(job);
}

Test(bootstrap_hostile, a_changed_byte_on_the_way_ends_in_an_error_at_all) {
    run_attack((attack_t){FLIP, 0, RANK_FRAMES + 3, 0, 0}, "header to rank 0");
    run_attack((attack_t){FLIP, 0, RANK_FRAMES + HD_WIRE_HEAD + 50, 0, 0}, "block to rank 0");
    run_attack((attack_t){FLIP, 1, ROOT_FRAMES + 20, 0, 0}, "header from rank 0");
    run_attack((attack_t){FLIP, 1, ROOT_FRAMES + HD_WIRE_HEAD + 300, 0, 0}, "result");
    run_attack((attack_t){FLIP, 1, ROOT_FRAMES - HD_WIRE_HEAD, 0, 0}, "start");
}

Test(bootstrap_hostile, a_repeated_frame_ends_in_an_error_at_all) {
    run_attack((attack_t){REPEAT, 0, RANK_FRAMES, 0, 0}, "block to rank 0");
}

Test(bootstrap_hostile, a_connection_cut_in_mid_frame_ends_in_an_error_at_all) {
    run_attack((attack_t){CUT, 0, RANK_FRAMES + HD_WIRE_HEAD + 10, 0, 0}, "block to rank 0");
    run_attack((attack_t){CUT, 1, ROOT_FRAMES + 1, 0, 0}, "header from rank 0");
}

Test(bootstrap_hostile, a_missing_piece_ends_in_an_error_at_all) {
    run_attack((attack_t){DROP, 0, RANK_FRAMES, 0, 0}, "head to rank 0");
}
