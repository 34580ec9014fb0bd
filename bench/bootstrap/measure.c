/* measure.c: what the TCP bootstrap costs: N processes on this host form, and gather blocks.
 *
 *     bench_bootstrap [PROCESSES [BYTES [ROUNDS]]]
 *
 * Prints seconds until all have formed and of an allgather (the median of ROUNDS), and the bytes
 * and messages that went through the sockets of rank 0, and of the busiest other process, while
 * forming and in an allgather. The linker puts counting functions in the place of recv and sendmsg.
 */
#include <heddle/bootstrap.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ROUNDS = 100, PAUSE = 5000 };

typedef struct traffic {
    unsigned long long received, sent;
    double seconds; /* of this process's processor */
} traffic_t;

typedef struct process {
    double begun, formed, round[MOST_ROUNDS]; /* seconds of the clock that all share */
    traffic_t forming, gathering;             /* gathering: of all rounds */
    int right;
} process_t;

static traffic_t traffic;

ssize_t __real_recv(int fd, void *to, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags) {
    ssize_t n = __real_recv(fd, to, bytes, flags);
    traffic.received += n > 0 ? (unsigned long long)n : 0;
    return n;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
    ssize_t n = __real_sendmsg(fd, message, flags);
    traffic.sent += n > 0 ? (unsigned long long)n : 0;
    return n;
}

static double seconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static traffic_t so_far(void) {
    traffic.seconds = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    return traffic;
}

static traffic_t less(traffic_t a, traffic_t b) {
    return (traffic_t){a.received - b.received, a.sent - b.sent, a.seconds - b.seconds};
}

static int gather(heddle_bootstrap_t *b, const uint8_t *src, uint8_t *dst, size_t bytes) {
    ucc_oob_coll_t oob;
    void *request;
    ucc_status_t status;
    heddle_bootstrap_oob(b, &oob);
    if (oob.allgather((void *)(uintptr_t)src, dst, bytes, oob.coll_info, &request) != UCC_OK) {
        return 0;
    }
    while ((status = oob.req_test(request)) == UCC_INPROGRESS) {
        usleep(PAUSE); /* on a machine with fewer processors than processes, others need them */
    }
    oob.req_free(request);
    return status == UCC_OK;
}

static int run(uint32_t rank, uint32_t size, int listener, const char *address, size_t bytes,
               int rounds, process_t *me) {
    heddle_bootstrap_params_t params = {.rank = rank,
                                        .size = size,
                                        .address = address,
                                        .listener = rank == 0 ? listener : 0,
                                        .key = "0123456789abcdef0123456789abcdef",
                                        .key_bytes = 32,
                                        .timeout = 300};
    heddle_bootstrap_t *b;
    uint8_t *src = malloc(bytes), *dst = malloc(bytes * size);
    me->begun = seconds_of(CLOCK_MONOTONIC);
    traffic_t before = so_far();
    if (!src || !dst || heddle_bootstrap_tcp(&params, &b) != UCC_OK) {
        return 0;
    }
    me->forming = less(so_far(), before);
    me->formed = seconds_of(CLOCK_MONOTONIC);
    memset(src, (int)(rank % 251), bytes);
    gather(b, src, dst, 0); /* the first round begins at about one time */
    before = so_far();
    for (int i = 0; i < rounds; i++) {
        double begun = seconds_of(CLOCK_MONOTONIC);
        if (!gather(b, src, dst, bytes)) {
            return 0;
        }
        me->round[i] = seconds_of(CLOCK_MONOTONIC) - begun;
    }
    me->gathering = less(so_far(), before);
    for (uint32_t r = 0; r < size; r++) {
        if (dst[r * bytes] != r % 251 || dst[(r + 1) * bytes - 1] != r % 251) {
            return 0;
        }
    }
    heddle_bootstrap_end(b);
    return 1;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print(const char *who, const char *what, traffic_t t, int rounds) {
    printf("  %-18s %-9s received %11llu, sent %11llu bytes, processor %.4f s\n", who, what,
           t.received / (unsigned)rounds, t.sent / (unsigned)rounds, t.seconds / rounds);
}

static void report(process_t *all, uint32_t size, int rounds) {
    uint32_t busiest = 1;
    double begun = all[0].begun, formed = 0;
    for (uint32_t r = 0; r < size; r++) {
        traffic_t t = all[r].gathering, most = all[busiest].gathering;
        busiest = r > 0 && t.received + t.sent > most.received + most.sent ? r : busiest;
        begun = all[r].begun < begun ? all[r].begun : begun;
        formed = all[r].formed > formed ? all[r].formed : formed;
    }
    qsort(all[0].round, (size_t)rounds, sizeof(double), by_size);
    printf("%u processes: formed in %.3f s, an allgather takes %.4f s\n", size, formed - begun,
           all[0].round[rounds / 2]);
    print("rank 0", "forming", all[0].forming, 1);
    print("busiest other", "forming", all[busiest].forming, 1);
    print("rank 0", "allgather", all[0].gathering, rounds);
    print("busiest other", "allgather", all[busiest].gathering, rounds);
}

int main(int argc, char **argv) {
    uint32_t size = argc > 1 ? (uint32_t)atoi(argv[1]) : 16;
    size_t bytes = argc > 2 ? (size_t)atoi(argv[2]) : 504;
    int rounds = argc > 3 ? atoi(argv[3]) : 5, right = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t at_bytes = sizeof(at);
    char address[32];
    if (size < 2 || bytes < 1 || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: bench_bootstrap [PROCESSES [BYTES [ROUNDS]]]\n");
        return 2;
    }
    process_t *all =
        mmap(NULL, size * sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (all == MAP_FAILED || listener < 0 ||
        bind(listener, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        listen(listener, (int)size) != 0 ||
        getsockname(listener, (struct sockaddr *)&at, &at_bytes) != 0) {
        perror("bench_bootstrap");
        return 1;
    }
    snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(at.sin_port));
    for (uint32_t r = 0; r < size; r++) {
        if (fork() == 0) {
            all[r].right = run(r, size, listener, address, bytes, rounds, &all[r]);
            _exit(0);
        }
    }
    close(listener);
    while (wait(NULL) > 0) {
    }
    for (uint32_t r = 0; r < size; r++) {
        right = right && all[r].right;
    }
    if (!right) {
        fprintf(stderr, "bench_bootstrap: an exchange failed\n");
        return 1;
    }
    report(all, size, rounds);
    return 0;
}
