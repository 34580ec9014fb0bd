/* heddle_net.c: Heddle's blocking calls among the threads of several processes, one team over all.
 * --variant 2x3 means 2 processes with 3 threads each, of which --threads must be the product. The
 * loops' lines are in memory that the processes inherit; they find each other over TCP, as programs
 * without MPI do. With BENCH_HEAPS=1 in the environment, buffers are heddle_alloc's.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <heddle/bootstrap.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heddle_calls.h"

static uint32_t processes, threads, me;
static heddle_group_t *group;

static void require(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        bench_fail(what, ucc_status_string(status));
    }
}

static void version(char *text, size_t bytes) {
    snprintf(text, bytes, "Heddle, UCC interface %s", ucc_get_version_string());
}

static bool supports(const bench_case_t *c) {
    return c->form == BENCH_BLOCKING && c->coll->id <= BENCH_ALLTOALLV;
}

static void *join(const bench_options_t *o, uint32_t rank) {
    heddle_ep_t *ep;
    (void)o;
    require(heddle_join(group, rank - me * threads, &ep), "heddle_join");
    return ep;
}

static void leave(void *self) {
    require(heddle_leave(self), "heddle_leave");
}

static void call(void *self, const bench_case_t *c, uint32_t root) {
    require(bench_heddle_call(self, c, root), c->coll->name);
}

static void *allocate(size_t bytes) {
    return heddle_alloc(bytes < 4096 ? 4096 : bytes, HEDDLE_ALLOC_NEAR);
}

typedef struct thread {
    const bench_t *bench;
    uint32_t rank;
    pthread_t id;
} thread_t;

static void *thread_main(void *arg) {
    const thread_t *thread = arg;
    bench_participate(thread->bench, thread->rank);
    return NULL;
}

static int listen_here(char *address, size_t size) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, bytes) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) != 0) {
        bench_fail("listen", "no address to meet at");
    }
    snprintf(address, size, "127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

static void run_process(const bench_t *b, const heddle_bootstrap_params_t *params) {
    heddle_bootstrap_t *bootstrap;
    ucc_oob_coll_t oob;
    require(heddle_bootstrap_tcp(params, &bootstrap), "heddle_bootstrap_tcp");
    heddle_bootstrap_oob(bootstrap, &oob);
    require(
        heddle_group_create(&(heddle_group_params_t){.endpoints = threads, .oob = &oob}, &group),
        "heddle_group_create");
    thread_t *thread = calloc(threads, sizeof(*thread));
    for (uint32_t i = 0; thread != NULL && i < threads; i++) {
        thread[i] = (thread_t){.bench = b, .rank = me * threads + i};
        if (pthread_create(&thread[i].id, NULL, thread_main, &thread[i]) != 0) {
            bench_fail("pthread_create", "no thread");
        }
    }
    for (uint32_t i = 0; thread != NULL && i < threads; i++) {
        pthread_join(thread[i].id, NULL);
    }
    free(thread);
    require(heddle_group_destroy(group), "heddle_group_destroy");
    (void)heddle_bootstrap_end(bootstrap);
}

int main(int argc, char **argv) {
    static bench_peer_t peer = {.name = "heddle",
                                .version = version,
                                .supports = supports,
                                .join = join,
                                .leave = leave,
                                .call = call};
    bench_t b;
    unsigned char key[32];
    char address[32];
    int status, failed = 0;
    const char *heaps = getenv("BENCH_HEAPS");
    if (heaps != NULL && *heaps == '1') {
        peer.allocate = allocate;
        peer.deallocate = heddle_free;
    }
    bench_open(&b, &peer, argc, argv, 0);
    bench_map(&b, NULL, true);
    if (sscanf(b.options.variant, "%ux%u", &processes, &threads) != 2 || processes == 0 ||
        processes * threads != b.options.participants) {
        bench_fail("--variant", "PROCESSESxTHREADS, whose product is --threads");
    }
    int listener = listen_here(address, sizeof(address));
    if (getrandom(key, sizeof(key), 0) != sizeof(key)) {
        bench_fail("getrandom", "no key");
    }
    for (me = 0; me < processes; me++) {
        pid_t child = fork();
        if (child == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_process(&b, &(heddle_bootstrap_params_t){.rank = me,
                                                         .size = processes,
                                                         .address = address,
                                                         .listener = me == 0 ? listener : 0,
                                                         .key = key,
                                                         .key_bytes = sizeof(key)});
            exit(0);
        }
        if (child < 0) {
            bench_fail("fork", "no process");
        }
    }
    while (wait(&status) > 0) {
        failed = failed != 0 || status != 0;
    }
    return failed;
}
