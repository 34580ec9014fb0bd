/* test_form.c: processes find each other, or all are told why not. */
#include "../support/deadline.h"
#include "bootstrap/bootstrap.h"
#include "job.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(bootstrap_form, .timeout = 120);

static void expect(const job_t *job, uint32_t i, ucc_status_t status, const char *text) {
    cr_expect_eq(job->report[i].status, status, "process %u: %d instead of %d\n%s", i,
                 job->report[i].status, status, job->report[i].log);
    cr_expect(job_logged(job, i, text), "process %u did not say '%s', but:\n%s", i, text,
              job->report[i].log);
}

static ucc_status_t form_and_gather(const heddle_bootstrap_params_t *params) {
    heddle_bootstrap_t *b;
    ucc_status_t status = heddle_bootstrap_tcp(params, &b);
    if (status != UCC_OK) {
        return b == NULL ? status : UCC_ERR_LAST;
    }
    return job_end(b, job_gather(b, 100, 0));
}

/* --- the ways of finding each other ----------------------------------------------------------- */

static ucc_status_t timed(job_t *job, uint32_t i) {
    heddle_bootstrap_t *b;
    double begin = test_now();
    ucc_status_t status = job_form(job, i, &b);
    job->report[i].seconds = test_now() - begin;
    status = status == UCC_OK ? job_gather(b, 100, 0) : status;
    return job_end(b, status);
}

Test(bootstrap_form, sixteen_processes_form) {
    job_t *job = job_open(16);
    double begin = test_now(), most = 0;
    job_all(job, timed);
    for (uint32_t i = 0; i < 16; i++) {
        expect(job, i, UCC_OK, "");
        most = job->report[i].seconds > most ? job->report[i].seconds : most;
    }
    fprintf(stderr,
            "16 processes: formed in %.4f s at most, %.4f s with fork, an allgather and exit\n",
            most, test_now() - begin);
    cr_expect_lt(most, 15);
}

/* Nobody has a listener; rank 0 comes last. */
static ucc_status_t late_root(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i);
    params.listener = 0;
    if (i == 0) {
        usleep(300000);
    }
    return form_and_gather(&params);
}

Test(bootstrap_form, the_others_wait_for_rank_0_to_listen) {
    job_t *job = job_open(3);
    snprintf(job->address, sizeof(job->address), "127.0.0.1:%u", job_free_port());
    job_all(job, late_root);
    for (uint32_t i = 0; i < 3; i++) {
        expect(job, i, UCC_OK, "");
    }
}

static ucc_status_t by_environment(job_t *job, uint32_t i) {
    char number[16];
    snprintf(number, sizeof(number), "%u", i);
    setenv("PMI_RANK", number, 1);
    setenv("PMI_SIZE", "2", 1);
    setenv("HEDDLE_BOOTSTRAP_ADDRESS", job->address, 1);
    setenv("HEDDLE_BOOTSTRAP_KEY", "another key of some thirty-two bytes", 1);
    setenv("HEDDLE_BOOTSTRAP_TIMEOUT", "20", 1);
    heddle_bootstrap_t *b;
    ucc_status_t status = heddle_bootstrap_env(NULL, &b);
    if (status == UCC_OK && (heddle_bootstrap_rank(b) != i || heddle_bootstrap_size(b) != 2)) {
        return UCC_ERR_LAST;
    }
    status = status == UCC_OK ? job_gather(b, 10, 0) : status;
    return job_end(b, status);
}

Test(bootstrap_form, everything_may_come_from_the_environment) {
    job_t *job = job_open(2);
    snprintf(job->address, sizeof(job->address), ":%u", job_free_port());
    job->keeps_memory = true;
    job_all(job, by_environment);
    for (uint32_t i = 0; i < 2; i++) {
        expect(job, i, UCC_OK, "");
        cr_expect(!job_logged(job, i, "another key"), "the key is in the log");
    }
}

static ucc_status_t by_ipv6(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i);
    params.listener = 0;
    return form_and_gather(&params);
}

Test(bootstrap_form, an_ipv6_address_stands_in_brackets) {
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool there = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
    close(fd);
    if (!there) {
        cr_skip_test("no IPv6 here");
    }
    job_t *job = job_open(2);
    snprintf(job->address, sizeof(job->address), "[::1]:%u", job_free_port());
    job_all(job, by_ipv6);
    expect(job, 0, UCC_OK, "");
    expect(job, 1, UCC_OK, "");
}

/* The local address of the socket that listens at the port, as the system's table has it. */
static bool listens_at(uint16_t port, uint32_t *address) {
    char line[256];
    FILE *table = fopen("/proc/net/tcp", "r");
    bool found = false;
    while (table && !found && fgets(line, sizeof(line), table)) {
        unsigned at, p, state;
        found = sscanf(line, " %*u: %x:%x %*x:%*x %x", &at, &p, &state) == 3 && p == port &&
                state == 10;
        *address = at;
    }
    if (table) {
        fclose(table);
    }
    return found;
}

static ucc_status_t look_at_listener(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i);
    params.listener = 0;
    if (i == 1) {
        uint32_t address = 0;
        while (!listens_at(job->port, &address)) {
            usleep(1000);
        }
        if (address != htonl(INADDR_LOOPBACK)) {
            return UCC_ERR_LAST;
        }
    }
    ucc_status_t status = form_and_gather(&params);
    uint32_t address;
    return i == 0 && listens_at(job->port, &address) ? UCC_ERR_LAST : status;
}

Test(bootstrap_form, without_a_host_only_the_loopback_listens_and_not_longer_than_forming_lasts) {
    uint32_t address;
    if (access("/proc/net/tcp", R_OK) != 0 || listens_at(0, &address)) {
        cr_skip_test("no /proc/net/tcp");
    }
    job_t *job = job_open(2);
    job->port = job_free_port();
    snprintf(job->address, sizeof(job->address), ":%u", job->port);
    job_all(job, look_at_listener);
    expect(job, 0, UCC_OK, "");
    expect(job, 1, UCC_OK, "");
}

/* --- processes that do not fit ---------------------------------------------------------------- */

static ucc_status_t same_rank(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i == 2 ? 1 : i);
    params.size = 4; /* rank 3 never comes, so both ranks 1 have time */
    return form_and_gather(&params);
}

Test(bootstrap_form, two_processes_of_one_rank_are_told_so_and_so_is_rank_0) {
    job_t *job = job_open(3);
    job_all(job, same_rank);
    for (uint32_t i = 0; i < 3; i++) {
        expect(job, i, UCC_ERR_INVALID_PARAM, "two processes have rank 1");
    }
}

static ucc_status_t two_roots(job_t *job, uint32_t i) {
    (void)i;
    heddle_bootstrap_params_t params = job_params(job, 0);
    params.listener = 0;
    params.size = 2;
    return form_and_gather(&params);
}

Test(bootstrap_form, two_ranks_0_are_told_so) {
    job_t *job = job_open(2);
    snprintf(job->address, sizeof(job->address), "127.0.0.1:%u", job_free_port());
    job_all(job, two_roots);
    expect(job, 0, UCC_ERR_INVALID_PARAM, "two processes have rank 0");
    expect(job, 1, UCC_ERR_INVALID_PARAM, "two processes have rank 0");
}

static ucc_status_t wrong_size(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i);
    params.size = i == 1 ? 5 : 4;
    return form_and_gather(&params);
}

Test(bootstrap_form, different_sizes_are_told_at_both) {
    job_t *job = job_open(2);
    job_all(job, wrong_size);
    expect(job, 0, UCC_ERR_INVALID_PARAM, "says size 5, rank 0 says 4");
    expect(job, 1, UCC_ERR_INVALID_PARAM, "this process says 5, rank 0 says 4");
}

/* Either end in another version, spoken by hand. i == 0: a true rank 0. */
static ucc_status_t wrong_version_at_rank(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i);
    if (i == 0) {
        return form_and_gather(&params);
    }
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(job->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    uint8_t out[HD_WIRE_VERDICT];
    hd_wire_t w;
    hd_wire_open(&w, false, params.key, params.key_bytes, 2, 1);
    w.version = 7;
    hd_wire_write_hello(&w, out);
    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        send(fd, out, HD_WIRE_HELLO, 0) != HD_WIRE_HELLO) {
        return UCC_ERR_IO_ERROR;
    }
    for (;;) {
        size_t bytes;
        uint8_t *space = hd_wire_space(&w, &bytes);
        ssize_t n = recv(fd, space, bytes, 0);
        if (n <= 0) {
            return UCC_ERR_IO_ERROR;
        }
        hd_wire_event_t event = hd_wire_took(&w, (size_t)n);
        if (event == HD_WIRE_CHALLENGED) {
            hd_wire_write_proof(&w, out);
            send(fd, out, HD_WIRE_PROOF, 0);
        } else if (event == HD_WIRE_JUDGED) {
            return w.peer.verdict == HD_WIRE_WRONG_VERSION && w.peer.version == HD_WIRE_VERSION
                       ? UCC_OK
                       : UCC_ERR_LAST;
        } else if (event != HD_WIRE_MORE) {
            return UCC_ERR_NO_MESSAGE;
        }
    }
}

Test(bootstrap_form, another_version_is_told_at_rank_0_and_to_the_other) {
    job_t *job = job_open(2);
    job_all(job, wrong_version_at_rank);
    expect(job, 0, UCC_ERR_INVALID_PARAM, "of version 7, that of rank 0 of version 2");
    expect(job, 1, UCC_OK, "");
}

static ucc_status_t wrong_version_at_root(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i);
    if (i == 1) {
        return form_and_gather(&params);
    }
    int fd = accept(job->listener, NULL, NULL);
    uint8_t out[HD_WIRE_VERDICT];
    hd_wire_t w;
    hd_wire_open(&w, true, params.key, params.key_bytes, 2, 0);
    w.version = 7;
    w.fanout = 4;
    for (;;) {
        size_t bytes;
        uint8_t *space = hd_wire_space(&w, &bytes);
        ssize_t n = recv(fd, space, bytes, 0);
        if (n <= 0) {
            return UCC_OK;
        }
        hd_wire_event_t event = hd_wire_took(&w, (size_t)n);
        if (event == HD_WIRE_GREETED) {
            hd_wire_write_challenge(&w, out);
            send(fd, out, HD_WIRE_CHALLENGE, 0);
        } else if (event == HD_WIRE_PROVEN) {
            hd_wire_write_verdict(&w, HD_WIRE_WRONG_VERSION, out);
            send(fd, out, HD_WIRE_VERDICT, 0);
        }
    }
}

Test(bootstrap_form, another_version_at_rank_0_is_told_to_the_others) {
    job_t *job = job_open(2);
    job_all(job, wrong_version_at_root);
    expect(job, 1, UCC_ERR_INVALID_PARAM, "this one is 2, that of rank 0 is 7");
}

static ucc_status_t one_other_key(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i == 3 ? 2 : i);
    params.size = 3;
    if (i == 3) {
        params.key = "not the key of the job, but as long";
        params.key_bytes = 35;
        ucc_status_t status = form_and_gather(&params);
        job->report[0].ready = 1;
        return status;
    }
    while (i == 2 && !*(volatile int *)&job->report[0].ready) {
        usleep(1000); /* comes when the other one was turned away */
    }
    return form_and_gather(&params);
}

Test(bootstrap_form, who_has_another_key_is_turned_away_and_the_others_form) {
    job_t *job = job_open(4);
    job_all(job, one_other_key);
    expect(job, 3, UCC_ERR_INVALID_PARAM, "have both the same key?");
    expect(job, 0, UCC_OK, "does not know the job's key");
    expect(job, 1, UCC_OK, "");
    expect(job, 2, UCC_OK, "");
}

/* --- jobs ------------------------------------------------------------------------------------- */

static ucc_status_t of_two_jobs(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i == 3 ? 2 : i);
    params.size = 3;
    params.job = i == 3 ? "the other" : "this one";
    if (i == 3) {
        ucc_status_t status = form_and_gather(&params);
        job->report[0].ready = 1;
        return status;
    }
    while (i == 2 && !*(volatile int *)&job->report[0].ready) {
        usleep(1000); /* comes when the other one was sent away */
    }
    return form_and_gather(&params);
}

Test(bootstrap_form, a_process_of_another_job_is_sent_away_and_the_others_form) {
    job_t *job = job_open(4);
    job_all(job, of_two_jobs);
    expect(job, 3, UCC_ERR_INVALID_PARAM, "is of job 'the other', rank 0 of 'this one'");
    expect(job, 0, UCC_OK, "is sent away: it is of job 'the other', not 'this one'");
    expect(job, 1, UCC_OK, "");
    expect(job, 2, UCC_OK, "");
}

static ucc_status_t two_roots_of_jobs(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, 0);
    char name[] = "a name of which the first forty bytes are the same: 0";
    name[sizeof(name) - 2] = (char)('0' + i);
    params.listener = 0;
    params.job = name;
    params.size = 2;
    params.timeout = 3;
    return form_and_gather(&params);
}

Test(bootstrap_form, an_address_in_use_by_another_job_is_told) {
    job_t *job = job_open(2);
    snprintf(job->address, sizeof(job->address), "127.0.0.1:%u", job_free_port());
    job_all(job, two_roots_of_jobs);
    uint32_t second = job->report[0].status == UCC_ERR_NO_RESOURCE ? 0 : 1;
    expect(job, second, UCC_ERR_NO_RESOURCE, "rank 0 of job 'a name of which the fi~");
    expect(job, 1 - second, UCC_ERR_TIMED_OUT, "1 of 2 processes");
}

/* --- the tree --------------------------------------------------------------------------------- */

Test(bootstrap_form, every_process_has_one_place_in_the_tree_and_the_tree_is_shallow) {
    static const uint32_t sizes[] = {1, 2, 5, 6, 7, 64, 1000, 65536}, fanouts[] = {1, 2, 4, 70000};
    for (int k = 0; k < 32; k++) {
        uint32_t size = sizes[k / 4], fanout = fanouts[k % 4], children = 0;
        for (uint32_t r = 0; r < size && (fanout > 1 || size < 100); r++) {
            hd_tree_t tree = hd_tree_place(r, size, fanout);
            uint32_t next = r + 1;
            cr_assert(tree.own.first == r && tree.children <= fanout);
            for (uint32_t i = 0; i < tree.children; i++) {
                hd_range_t child = hd_tree_child(&tree, i);
                hd_tree_t theirs = hd_tree_place(child.first, size, fanout);
                cr_assert(child.first == next && child.n > 0, "%u of %u", r, size);
                cr_assert(theirs.parent == r && theirs.own.n == child.n);
                cr_assert(hd_tree_towards(&tree, next) == i);
                cr_assert(hd_tree_towards(&tree, next + child.n - 1) == i);
                next += child.n;
            }
            cr_assert_eq(next, r + tree.own.n, "%u of %u by %u", r, size, fanout);
            children += tree.children;
        }
        cr_expect(children == size - 1 || (fanout == 1 && size >= 100));
    }
    uint32_t depth = 0;
    for (uint32_t r = 65535; r != 0; r = hd_tree_place(r, 65536, 4).parent) {
        depth++;
    }
    cr_expect_leq(depth, 9);
}

/* --- how far a process has got ---------------------------------------------------------------- */

/* The report of this process, which is ready once it has sent and received so many bytes. */
static report_t *watched;
static size_t to_give, to_take;

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags);
ssize_t __real_recv(int fd, void *to, size_t bytes, int flags);

static void note_passed(size_t *left, ssize_t n) {
    size_t passed = n > 0 ? (size_t)n : 0;
    *left -= passed < *left ? passed : *left;
    if (watched && to_give == 0 && to_take == 0) {
        *(volatile int *)&watched->ready = 1;
    }
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
    ssize_t n = __real_sendmsg(fd, message, flags);
    note_passed(&to_give, n);
    return n;
}

ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags) {
    ssize_t n = __real_recv(fd, to, bytes, flags);
    note_passed(&to_take, n);
    return n;
}

/* In a child: so much passes between it and rank 0 until what is waited for. */
static void watch_bytes(report_t *own, size_t give, size_t take) {
    to_give = give;
    to_take = take;
    watched = own;
}

static void wait_for_ready(const report_t *report) {
    deadline_t deadline = deadline_start("a process to be ready");
    while (!*(const volatile int *)&report->ready) {
        usleep(1000);
        deadline_poll(&deadline);
    }
}

/* Rank 1 is rank 2's parent, and is stopped when it has told rank 0 its port. */
static ucc_status_t with_a_stopped_parent(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i);
    params.timeout = 5;
    if (i == 1) {
        watch_bytes(&job->report[1], HD_WIRE_HELLO + HD_WIRE_PROOF + HD_WIRE_HEAD, 0);
    }
    return form_and_gather(&params);
}

Test(bootstrap_form, who_does_not_reach_its_parent_says_so_to_all) {
    setenv("HEDDLE_BOOTSTRAP_FANOUT", "1", 1);
    job_t *job = job_open(3);
    job_start(job, 0, with_a_stopped_parent);
    job_start(job, 1, with_a_stopped_parent);
    wait_for_ready(&job->report[1]);
    kill(job->report[1].pid, SIGSTOP);
    job_start(job, 2, with_a_stopped_parent);
    waitpid(job->report[0].pid, NULL, 0);
    waitpid(job->report[2].pid, NULL, 0);
    kill(job->report[1].pid, SIGKILL);
    for (uint32_t i = 0; i < 3; i += 2) {
        expect(job, i, UCC_ERR_TIMED_OUT, "rank 2 has found no rank 1 at 127.0.0.1:");
        expect(job, i, UCC_ERR_TIMED_OUT, "HEDDLE_BOOTSTRAP_FANOUT");
    }
}

/* --- processes that do not come, or go -------------------------------------------------------- */

static ucc_status_t in_vain(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i);
    params.size = 12;
    params.timeout = i == 0 ? 2 : 20; /* a busy machine may be slow: it is rank 0 that gives up */
    double begin = test_now();
    ucc_status_t status = form_and_gather(&params);
    job->report[i].seconds = test_now() - begin;
    return status;
}

Test(bootstrap_form, who_has_not_come_in_time_is_named_at_all) {
    job_t *job = job_open(2);
    job_all(job, in_vain);
    for (uint32_t i = 0; i < 2; i++) {
        expect(
            job, i, UCC_ERR_TIMED_OUT,
            "2 of 12 processes have come within 2 s, not rank 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
    }
    cr_expect_geq(job->report[0].seconds, 1.9);
}

static ucc_status_t no_root(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, 1 + i);
    params.timeout = 0.3;
    return form_and_gather(&params);
}

Test(bootstrap_form, without_rank_0_the_others_time_out_and_say_why) {
    job_t *job = job_open(2);
    snprintf(job->address, sizeof(job->address), "127.0.0.1:%u", job_free_port());
    job->size = 3;
    job_start(job, 1, no_root);
    waitpid(job->report[1].pid, NULL, 0);
    expect(job, 1, UCC_ERR_TIMED_OUT, "Connection refused");
}

static ucc_status_t one_dies(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i);
    params.size = 5; /* one never comes */
    if (i != 0) {
        watch_bytes(&job->report[i], 0, HD_WIRE_CHALLENGE + HD_WIRE_VERDICT);
    }
    return form_and_gather(&params);
}

Test(bootstrap_form, a_process_that_dies_while_forming_is_an_error_at_all_others) {
    job_t *job = job_open(4);
    for (uint32_t i = 0; i < 4; i++) {
        job_start(job, i, one_dies);
    }
    close(job->listener);
    for (uint32_t i = 1; i < 4; i++) {
        wait_for_ready(&job->report[i]); /* it is accepted, and waits for the others */
    }
    kill(job->report[3].pid, SIGKILL);
    double begin = test_now();
    job_wait(job);
    for (uint32_t i = 0; i < 3; i++) {
        expect(job, i, UCC_ERR_IO_ERROR, "rank 3 (127.0.0.1");
        cr_expect_lt(job->report[i].ended - begin, 15);
    }
}

/* --- descriptors ------------------------------------------------------------------------------ */

/* Rank 0 can open files for two more processes, and not for three. The job's size is just below the
 * limit: one above it would be refused at once. */
static ucc_status_t few_descriptors(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i);
    if (i == 0) {
        const rlim_t most = params.size + 1;
        struct rlimit limit = {most, most};
        params.listener = dup2(job->listener, 3);
        for (int fd = 4; fd < 1024; fd++) {
            close(fd);
        }
        while ((rlim_t)dup(0) < most - 4) { /* one is for epoll */
        }
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    return form_and_gather(&params);
}

Test(bootstrap_form, running_out_of_descriptors_is_told_at_all_who_are_there) {
    job_t *job = job_open(8);
    uint32_t told = 0;
    for (uint32_t i = 0; i < 4; i++) {
        job_start(job, i, few_descriptors);
    }
    close(job->listener);
    waitpid(job->report[0].pid, NULL, 0);
    expect(job, 0, UCC_ERR_NO_RESOURCE, "ulimit -n");
    while (told < 2) { /* the third had no room, and tries on until its time-out */
        told = 0;
        for (uint32_t i = 1; i < 4; i++) {
            told += *(volatile ucc_status_t *)&job->report[i].status == UCC_ERR_NO_RESOURCE &&
                    job_logged(job, i, "ulimit -n");
        }
        usleep(1000);
    }
    for (uint32_t i = 1; i < 4; i++) {
        kill(job->report[i].pid, SIGKILL);
    }
}

static ucc_status_t too_small_a_limit(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i);
    struct rlimit limit = {64, 64};
    params.size = 64;
    setrlimit(RLIMIT_NOFILE, &limit);
    return form_and_gather(&params);
}

Test(bootstrap_form, a_limit_below_the_size_is_told_before_anybody_comes) {
    job_t *job = job_open(1);
    job_all(job, too_small_a_limit);
    expect(job, 0, UCC_ERR_NO_RESOURCE, "64 processes need as many descriptors");
}

static ucc_status_t no_descriptor_for_a_socket(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i + 1);
    params.size = 2;
    struct rlimit limit = {3, 3};
    setrlimit(RLIMIT_NOFILE, &limit);
    return form_and_gather(&params);
}

Test(bootstrap_form, no_descriptor_for_a_connection_is_told) {
    job_t *job = job_open(1);
    job_all(job, no_descriptor_for_a_socket);
    expect(job, 0, UCC_ERR_NO_RESOURCE, "ulimit -n");
}

/* --- parameters ------------------------------------------------------------------------------- */

static ucc_status_t refused(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, 1);
    (void)i;
    ((void (*)(heddle_bootstrap_params_t *))job->arg)(&params);
    return form_and_gather(&params);
}

static char key_path[64];

static void write_key(const char *content, size_t bytes, mode_t mode) {
    snprintf(key_path, sizeof(key_path), "/tmp/heddle-key-%d", (int)getpid());
    int fd = open(key_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t n = write(fd, content, bytes);
    (void)n;
    fchmod(fd, mode);
    close(fd);
}

static void zero_size(heddle_bootstrap_params_t *p) {
    p->size = 0;
}
static void large_rank(heddle_bootstrap_params_t *p) {
    p->rank = 2;
}
static void empty_key(heddle_bootstrap_params_t *p) {
    p->key_bytes = 0;
}
static void no_key(heddle_bootstrap_params_t *p) {
    p->key = NULL;
}
static void empty_variable(heddle_bootstrap_params_t *p) {
    p->key = NULL;
    setenv("HEDDLE_BOOTSTRAP_KEY", "", 1);
}
static void no_file(heddle_bootstrap_params_t *p) {
    p->key = NULL;
    p->key_file = "/nowhere/at/all";
}
static void key_in_file(heddle_bootstrap_params_t *p) {
    p->key = NULL;
    p->key_file = key_path;
}
static void a_folder(heddle_bootstrap_params_t *p) {
    p->key = NULL;
    p->key_file = "/tmp";
}
static void no_port(heddle_bootstrap_params_t *p) {
    p->address = "somewhere";
}
static void no_address(heddle_bootstrap_params_t *p) {
    p->address = NULL;
}
static void bad_timeout(heddle_bootstrap_params_t *p) {
    p->timeout = 0;
    setenv("HEDDLE_BOOTSTRAP_TIMEOUT", "soon", 1);
}
static void bad_fanout(heddle_bootstrap_params_t *p) {
    (void)p;
    setenv("HEDDLE_BOOTSTRAP_FANOUT", "0", 1);
}
static void bad_listener(heddle_bootstrap_params_t *p) {
    p->rank = 0;
    p->listener = 2;
}
static void address_elsewhere(heddle_bootstrap_params_t *p) {
    p->rank = 0;
    p->address = "192.0.2.1:9"; /* of no host */
}

static void port_0(heddle_bootstrap_params_t *p) {
    p->address = "127.0.0.1:0"; /* the system would choose one, which nobody knows */
}

static void expect_refusal(void (*spoil)(heddle_bootstrap_params_t *), ucc_status_t status,
                           const char *text) {
    job_t *job = job_open(2);
    job->arg = (void *)spoil;
    job->keeps_memory = spoil == empty_variable || spoil == bad_timeout || spoil == bad_fanout;
    job_start(job, 0, refused);
    job_wait(job);
    expect(job, 0, status, text);
}

Test(bootstrap_form, wrong_parameters_are_refused_by_name) {
    expect_refusal(zero_size, UCC_ERR_INVALID_PARAM, "size 0 is not between");
    expect_refusal(large_rank, UCC_ERR_INVALID_PARAM, "rank 2 is not below size 2");
    expect_refusal(no_port, UCC_ERR_INVALID_PARAM, "'somewhere', is not of the form host:port");
    expect_refusal(port_0, UCC_ERR_INVALID_PARAM, "'127.0.0.1:0', is not of the form host:port");
    expect_refusal(no_address, UCC_ERR_INVALID_PARAM, "HEDDLE_BOOTSTRAP_ADDRESS");
    expect_refusal(bad_timeout, UCC_ERR_INVALID_PARAM, "HEDDLE_BOOTSTRAP_TIMEOUT=soon");
    expect_refusal(bad_fanout, UCC_ERR_INVALID_PARAM, "HEDDLE_BOOTSTRAP_FANOUT=0");
    expect_refusal(bad_listener, UCC_ERR_INVALID_PARAM, "listener 2 is no listening socket");
    expect_refusal(address_elsewhere, UCC_ERR_NO_RESOURCE, "cannot listen at 192.0.2.1:9");
    heddle_bootstrap_t *b;
    cr_expect_eq(heddle_bootstrap_tcp(NULL, &b), UCC_ERR_INVALID_PARAM);
    cr_expect_eq(heddle_bootstrap_end(NULL), UCC_OK);
}

Test(bootstrap_form, the_line_that_says_why_can_be_asked_for) {
    heddle_bootstrap_params_t params = {.size = 0};
    heddle_bootstrap_t *b;
    cr_expect_str_eq(heddle_bootstrap_last_error(), "");
    cr_expect_eq(heddle_bootstrap_tcp(&params, &b), UCC_ERR_INVALID_PARAM);
    cr_expect_str_eq(heddle_bootstrap_last_error(),
                     "heddle_bootstrap_tcp: size 0 is not between 1 and 65536");
    heddle_bootstrap_forget_error();
    cr_expect_str_eq(heddle_bootstrap_last_error(), "");
}

Test(bootstrap_form, keys_that_are_none_are_refused) {
    expect_refusal(empty_key, UCC_ERR_INVALID_PARAM, "params.key_bytes is 0");
    expect_refusal(no_key, UCC_ERR_INVALID_PARAM, "HEDDLE_BOOTSTRAP_KEY_FILE");
    expect_refusal(empty_variable, UCC_ERR_INVALID_PARAM, "HEDDLE_BOOTSTRAP_KEY is empty");
    expect_refusal(no_file, UCC_ERR_NOT_FOUND, "/nowhere/at/all");
    expect_refusal(a_folder, UCC_ERR_INVALID_PARAM, "no regular file");
    write_key("\n", 1, 0600);
    expect_refusal(key_in_file, UCC_ERR_INVALID_PARAM, "is empty");
    static char large[HD_LARGEST_KEY + 100];
    memset(large, 'k', sizeof(large));
    write_key(large, sizeof(large), 0600);
    expect_refusal(key_in_file, UCC_ERR_INVALID_PARAM, "more than 4096 bytes");
    unlink(key_path);
}

static ucc_status_t from_file(job_t *job, uint32_t i) {
    heddle_bootstrap_params_t params = job_params(job, i);
    key_in_file(&params);
    return form_and_gather(&params);
}

Test(bootstrap_form, a_key_may_lie_in_a_file_and_others_should_not_read_it) {
    write_key("a key of thirty-two bytes, in a file\n", 37, 0644);
    job_t *job = job_open(2);
    job_all(job, from_file);
    unlink(key_path);
    expect(job, 0, UCC_OK, "other users may read the key file");
    expect(job, 1, UCC_OK, "other users may read the key file");
    cr_expect(!job_logged(job, 0, "thirty-two"), "the key is in the log");
}
