/* test_exchange.c: the allgather of a TCP bootstrap gives everybody all blocks, or everybody an
 * error in time. */
#include "../support/deadline.h"
#include "../support/random.h"
#include "job.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(bootstrap_exchange, .timeout = 120);

static void expect_all(job_t *job, ucc_status_t status) {
    for (uint32_t i = 0; i < job->size; i++) {
        cr_expect_eq(job->report[i].status, status, "rank %u: %d\n%s", i, job->report[i].status,
                     job->report[i].log);
    }
}

/* --- results ---------------------------------------------------------------------------------- */

/* Around the largest piece, and larger than what sockets hold. */
static const size_t sizes[] = {0, 1, 7, 24, 4096, 65535, 65536, 65537, 131072, 1000001, 8 << 20, 0};

static ucc_status_t gather_sizes(job_t *job, uint32_t i) {
    heddle_bootstrap_t *b;
    ucc_status_t status = job_form(job, i, &b);
    size_t most = job->size <= 3 ? 8 << 20 : 131072;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]) && status == UCC_OK; s++) {
        status = sizes[s] <= most ? job_gather(b, sizes[s], s) : UCC_OK;
    }
    return job_end(b, status);
}

/* fanout: of the tree; 0: the default. */
typedef struct shape {
    uint32_t processes, fanout;
} shape_t;

ParameterizedTestParameters(bootstrap_exchange, blocks_of_any_size_arrive) {
    static shape_t shapes[] = {{1, 0}, {2, 0}, {3, 0}, {3, 1}, {6, 0}, {7, 2}, {16, 0}, {16, 15}};
    return cr_make_param_array(shape_t, shapes, sizeof(shapes) / sizeof(shapes[0]));
}

static void set_fanout(uint32_t fanout) {
    char number[16];
    snprintf(number, sizeof(number), "%u", fanout);
    if (fanout > 0) {
        setenv("HEDDLE_BOOTSTRAP_FANOUT", number, 1);
    }
}

ParameterizedTest(shape_t *shape, bootstrap_exchange, blocks_of_any_size_arrive) {
    set_fanout(shape->fanout);
    job_t *job = job_open(shape->processes);
    job_all(job, gather_sizes);
    expect_all(job, UCC_OK);
}

static ucc_status_t gather_often(job_t *job, uint32_t i) {
    heddle_bootstrap_t *b;
    ucc_status_t status = job_form(job, i, &b);
    for (uint64_t round = 0; round < 1000 && status == UCC_OK; round++) {
        status = job_gather(b, round % 40, round);
    }
    return job_end(b, status);
}

Test(bootstrap_exchange, many_rounds_do_not_mix) {
    job_t *job = job_open(3);
    job_all(job, gather_often);
    expect_all(job, UCC_OK);
}

Test(bootstrap_exchange, nor_in_a_tree_of_several_levels) {
    set_fanout(2);
    job_t *job = job_open(8);
    job_all(job, gather_often);
    expect_all(job, UCC_OK);
}

Test(bootstrap_exchange, one_process_opens_no_socket_and_needs_no_key) {
    heddle_bootstrap_params_t params = {.size = 1};
    heddle_bootstrap_t *b;
    int probe = dup(0);
    cr_assert_eq(heddle_bootstrap_tcp(&params, &b), UCC_OK);
    int again = dup(0);
    cr_expect_eq(again, probe + 1, "a descriptor was opened");
    cr_expect_eq(job_gather(b, 1000, 1), UCC_OK);
    cr_expect_eq(heddle_bootstrap_end(b), UCC_OK);
}

/* --- failures --------------------------------------------------------------------------------- */

static ucc_status_t uneven(job_t *job, uint32_t i) {
    heddle_bootstrap_t *b;
    ucc_status_t status = job_form(job, i, &b);
    status = status == UCC_OK ? job_gather(b, 16, 0) : status;
    status = status == UCC_OK ? job_gather(b, i == 2 ? 1 << 20 : 1000, 1) : status;
    return job_end(b, status);
}

Test(bootstrap_exchange, blocks_of_different_sizes_are_an_error_at_all_that_names_both) {
    job_t *job = job_open(4);
    job_all(job, uneven);
    expect_all(job, UCC_ERR_INVALID_PARAM);
    for (uint32_t i = 0; i < 4; i++) {
        cr_expect(job_logged(job, i, "1048576 bytes at rank 2"), "%s", job->report[i].log);
        cr_expect(job_logged(job, i, "1000 at rank 0"), "%s", job->report[i].log);
    }
}

static uint32_t victim_of(const job_t *job) {
    return *(const uint32_t *)job->arg;
}

/* The victim dies when it has begun. (Had it sent all, the exchange could end well.) */
static ucc_status_t die_amid(job_t *job, uint32_t i) {
    heddle_bootstrap_t *b;
    ucc_status_t status = job_form(job, i, &b);
    if (status != UCC_OK) {
        return status;
    }
    if (i == victim_of(job)) {
        static uint8_t src[1 << 20], dst[8 << 20];
        ucc_oob_coll_t oob;
        void *request;
        heddle_bootstrap_oob(b, &oob);
        oob.allgather(src, dst, sizeof(src), oob.coll_info, &request);
        kill(getpid(), SIGKILL);
    }
    status = job_gather(b, 1 << 20, 0);
    ucc_status_t later = job_gather(b, 8, 0);
    return job_end(b, later == status ? status : UCC_ERR_LAST);
}

static void one_dies(uint32_t processes, uint32_t victim) {
    job_t *job = job_open(processes);
    job->arg = &victim;
    double begin = test_now();
    job_all(job, die_amid);
    for (uint32_t i = 0; i < processes; i++) {
        char text[16];
        snprintf(text, sizeof(text), "rank %u", victim);
        if (i != victim) {
            cr_expect_eq(job->report[i].status, UCC_ERR_IO_ERROR, "rank %u: %d\n%s", i,
                         job->report[i].status, job->report[i].log);
            cr_expect(job_logged(job, i, text), "%s", job->report[i].log);
            cr_expect_lt(job->report[i].ended - begin, 15);
        }
    }
}

Test(bootstrap_exchange, a_process_that_dies_is_an_error_at_all_others_and_in_later_exchanges) {
    one_dies(4, 2);
}

Test(bootstrap_exchange, so_is_rank_0) {
    one_dies(4, 0);
}

Test(bootstrap_exchange, so_is_one_between_others_and_one_below_it) {
    set_fanout(2); /* 0: 1, 4; 1: 2, 3; 4: 5, 6 */
    one_dies(7, 4);
    one_dies(7, 5);
    one_dies(7, 0);
}

/* Whatever moment it is: the survivors get a status, right bytes if that is UCC_OK, and do not wait
 * long. */
static ucc_status_t go_on_until_killed(job_t *job, uint32_t i) {
    heddle_bootstrap_t *b;
    heddle_bootstrap_params_t params = job_params(job, i);
    params.timeout = 0.2; /* for those who wait for a victim that had not come yet */
    params.exchange_timeout = 20;
    uint64_t random = 1;
    ucc_status_t status = heddle_bootstrap_tcp(&params, &b);
    for (uint64_t round = 0; round < 100 && status == UCC_OK; round++) {
        status =
            job_gather(b, random_below(&random, 2) ? 16 : random_below(&random, 200000), round);
    }
    return job_end(b, status);
}

Test(bootstrap_exchange, survivors_of_a_kill_at_any_moment_return) {
    uint64_t random = 20;
    uint32_t failed = 0;
    for (int k = 0; k < 15; k++) {
        job_t *job = job_open(5);
        uint32_t victim = (uint32_t)random_below(&random, 5);
        set_fanout(1 + (uint32_t)k % 4);
        for (uint32_t i = 0; i < 5; i++) {
            job_start(job, i, go_on_until_killed);
        }
        close(job->listener);
        usleep((useconds_t)random_below(&random, 30000));
        kill(job->report[victim].pid, SIGKILL);
        double begin = test_now();
        job_wait(job);
        cr_expect_lt(test_now() - begin, 15);
        for (uint32_t i = 0; i < 5; i++) {
            ucc_status_t status = job->report[i].status;
            failed += status < 0;
            cr_expect(i == victim || status == UCC_OK || status == UCC_ERR_IO_ERROR ||
                          status == UCC_ERR_TIMED_OUT,
                      "kill %d of rank %u: rank %u: %d\n%s", k, victim, i, status,
                      job->report[i].log);
        }
    }
    cr_expect_gt(failed, 0);
}

/* Rank 2 does not come to the exchange until the others have given up. */
static ucc_status_t stay_away(job_t *job, uint32_t i) {
    heddle_bootstrap_t *b;
    heddle_bootstrap_params_t params = job_params(job, i);
    params.exchange_timeout = 1;
    ucc_status_t status = heddle_bootstrap_tcp(&params, &b);
    job->report[i].ready = 1;
    if (status == UCC_OK && i == victim_of(job)) {
        kill(getpid(), SIGSTOP);
        return UCC_OK;
    }
    for (uint32_t j = 0; j < job->size; j++) {
        while (!*(volatile int *)&job->report[j].ready) {
            usleep(1000); /* who begins the exchange much later would be named as well */
        }
    }
    double begin = test_now();
    status = status == UCC_OK ? job_gather(b, 100, 0) : status;
    job->report[i].seconds = test_now() - begin;
    return job_end(b, status);
}

/* Ranks behind the victim up to `last` are below it in the tree, and hear nothing from
 * elsewhere. */
static void one_is_silent(uint32_t processes, uint32_t victim, uint32_t last, const char *line) {
    char below[64];
    snprintf(below, sizeof(below), "allgather for 1 s, from rank %u", victim);
    job_t *job = job_open(processes);
    job->arg = &victim;
    for (uint32_t i = 0; i < processes; i++) {
        job_start(job, i, stay_away);
    }
    for (uint32_t i = 0; i < processes; i++) {
        if (i != victim) {
            waitpid(job->report[i].pid, NULL, 0);
            cr_expect_eq(job->report[i].status, UCC_ERR_TIMED_OUT, "rank %u: %d\n%s", i,
                         job->report[i].status, job->report[i].log);
            cr_expect(job_logged(job, i, i > victim && i <= last ? below : line), "%s",
                      job->report[i].log);
            cr_expect_geq(job->report[i].seconds, 0.99);
        }
    }
    kill(job->report[victim].pid, SIGKILL);
}

Test(bootstrap_exchange, a_stopped_process_is_a_time_out_that_names_it) {
    one_is_silent(3, 2, 2, "within 1 s from rank 2");
}

Test(bootstrap_exchange, a_stopped_rank_0_is_a_time_out_at_all_others) {
    one_is_silent(3, 0, 0, "has waited for the result of an allgather for 1 s");
}

Test(bootstrap_exchange, who_is_stopped_is_named_wherever_it_is_in_the_tree) {
    set_fanout(2);
    one_is_silent(7, 1, 3, "within 1 s from rank 1");
    one_is_silent(7, 3, 3, "within 1 s from rank 3");
}

/* Rank 1's child holds copies of its descriptors when rank 1 dies. */
static ucc_status_t die_with_child(job_t *job, uint32_t i) {
    heddle_bootstrap_t *b;
    ucc_status_t status = job_form(job, i, &b);
    if (status == UCC_OK && i == 1) {
        pid_t child = fork();
        if (child == 0) {
            ucc_oob_coll_t oob;
            void *request;
            heddle_bootstrap_oob(b, &oob);
            job->report[2].status = oob.allgather(NULL, NULL, 0, oob.coll_info, &request);
            job->report[2].ready = 1;
            sleep(JOB_SECONDS / 2);
            _exit(0);
        }
        while (!*(volatile int *)&job->report[2].ready) {
            usleep(1000);
        }
        job->report[3].pid = child;
        kill(getpid(), SIGKILL);
    }
    double begin = test_now();
    status = status == UCC_OK ? job_gather(b, 8, 0) : status;
    job->report[i].seconds = test_now() - begin;
    return job_end(b, status);
}

Test(bootstrap_exchange, a_child_of_fork_holds_no_connection_and_is_refused) {
    job_t *job = job_open(2);
    job_start(job, 0, die_with_child);
    job_start(job, 1, die_with_child);
    waitpid(job->report[0].pid, NULL, 0);
    kill(job->report[3].pid, SIGKILL);
    cr_expect_eq(job->report[0].status, UCC_ERR_IO_ERROR, "%d\n%s", job->report[0].status,
                 job->report[0].log);
    cr_expect_lt(job->report[0].seconds, 10);
    cr_expect_eq(job->report[2].status, UCC_ERR_NOT_SUPPORTED);
}

/* --- use -------------------------------------------------------------------------------------- */

static ucc_status_t check_descriptors(job_t *job, uint32_t i) {
    heddle_bootstrap_t *b;
    ucc_status_t status = job_form(job, i, &b);
    uint32_t sockets = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        int fd = atoi(entry->d_name);
        struct stat about;
        if (entry->d_name[0] != '.' && fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode) &&
            (i != 0 || fd != job->listener)) {
            struct sockaddr_storage peer;
            socklen_t bytes = sizeof(peer);
            bool ours =
                getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.ss_family == AF_INET;
            sockets += ours;
            if (ours && !(fcntl(fd, F_GETFD) & FD_CLOEXEC)) {
                status = UCC_ERR_NO_MESSAGE;
            }
        }
    }
    if (i == 0 && !(fcntl(job->listener, F_GETFD) & FD_CLOEXEC)) {
        status = UCC_ERR_NO_MESSAGE;
    }
    closedir(folder);
    if (sockets != ((const uint32_t *)job->arg)[i]) {
        status = UCC_ERR_NOT_FOUND;
    }
    status = status == UCC_OK ? job_gather(b, 1, 0) : status;
    return job_end(b, status);
}

Test(bootstrap_exchange, every_descriptor_is_close_on_exec_and_only_neighbours_have_one) {
    static uint32_t of_three[] = {2, 1, 1}, of_seven[] = {2, 3, 1, 1, 3, 1, 1};
    job_t *job = job_open(3);
    job->arg = of_three;
    job_all(job, check_descriptors);
    expect_all(job, UCC_OK);
    set_fanout(2);
    job = job_open(7);
    job->arg = of_seven;
    job_all(job, check_descriptors);
    expect_all(job, UCC_OK);
}

static ucc_status_t misuse(job_t *job, uint32_t i) {
    heddle_bootstrap_t *b;
    ucc_status_t status = job_form(job, i, &b);
    ucc_oob_coll_t oob;
    void *request, *second;
    char src = 'x', dst[2];
    if (status != UCC_OK) {
        return status;
    }
    heddle_bootstrap_oob(b, &oob);
    if (oob.n_oob_eps != 2 || oob.oob_ep != i || heddle_bootstrap_size(NULL) != 0 ||
        oob.allgather(NULL, dst, 1, oob.coll_info, &request) != UCC_ERR_INVALID_PARAM ||
        oob.allgather(&src, dst, SIZE_MAX, oob.coll_info, &request) != UCC_ERR_INVALID_PARAM ||
        oob.allgather(&src, dst, 1, oob.coll_info, &request) != UCC_OK ||
        oob.allgather(&src, dst, 1, oob.coll_info, &second) != UCC_ERR_INVALID_PARAM ||
        heddle_bootstrap_end(b) != UCC_ERR_INVALID_PARAM) {
        return UCC_ERR_LAST;
    }
    while ((status = oob.req_test(request)) == UCC_INPROGRESS) {
        usleep(100);
    }
    oob.req_free(request);
    return job_end(b, status);
}

Test(bootstrap_exchange, misuse_is_refused_and_does_no_harm) {
    job_t *job = job_open(2);
    job_all(job, misuse);
    expect_all(job, UCC_OK);
}

static ucc_status_t give_up(job_t *job, uint32_t i) {
    heddle_bootstrap_t *b;
    ucc_status_t status = job_form(job, i, &b);
    ucc_oob_coll_t oob;
    void *request;
    char src = 'x', dst[3];
    if (status != UCC_OK || i != 1) {
        return job_end(b, status == UCC_OK ? job_gather(b, 1, 0) : status);
    }
    heddle_bootstrap_oob(b, &oob);
    oob.allgather(&src, dst, 1, oob.coll_info, &request);
    oob.req_free(request);
    return heddle_bootstrap_end(b);
}

Test(bootstrap_exchange, a_request_that_is_freed_early_ends_the_exchange_of_all) {
    job_t *job = job_open(3);
    job_all(job, give_up);
    cr_expect_eq(job->report[1].status, UCC_OK);
    cr_expect_eq(job->report[0].status, UCC_ERR_NO_MESSAGE);
    cr_expect_eq(job->report[2].status, UCC_ERR_NO_MESSAGE);
    cr_expect(job_logged(job, 2, "rank 1 has given up an allgather"), "%s", job->report[2].log);
}
