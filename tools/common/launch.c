/* launch.c: see launch.h. */
#include "launch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The processes' own: what params point at. */
static unsigned char key[32];
static char address[32];

static int listen_here(const char *program) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, bytes) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) != 0) {
        fprintf(stderr, "%s: no address on this host to meet at: %s\n", program, strerror(errno));
        return -1;
    }
    snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

/* Waits for all; after the first that fails, the others have a few seconds. Returns how that one
 * has ended. */
static int wait_for_all(pid_t *child, uint32_t n) {
    const uint32_t patience = 500; /* times 10 ms */
    uint32_t left = n, waited = 0;
    int failed = 0, status;
    while (left > 0) {
        pid_t ended = waitpid(-1, &status, failed != 0 ? WNOHANG : 0);
        if (ended < 0 && errno != EINTR) {
            break;
        }
        for (uint32_t i = 0; ended > 0 && i < n; i++) {
            if (child[i] == ended) {
                child[i] = 0;
                left--;
            }
        }
        if (ended > 0 && status != 0 && failed == 0) {
            failed = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        if (ended == 0) {
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        }
        for (uint32_t i = 0; failed != 0 && ++waited > patience && i < n; i++) {
            if (child[i] > 0) {
                kill(child[i], SIGKILL);
            }
        }
    }
    return failed;
}

bool launch_processes(const char *program, uint32_t n, heddle_bootstrap_params_t *params,
                      int *exit_status) {
    pid_t parent = getpid();
    *exit_status = 1;
    if (getrandom(key, sizeof(key), 0) != sizeof(key)) {
        fprintf(stderr, "%s: no random numbers for a key\n", program);
        return false;
    }
    int listener = listen_here(program);
    pid_t *child = calloc(n, sizeof(*child));
    if (listener < 0 || child == NULL) {
        free(child);
        return false;
    }
    fflush(NULL);
    for (uint32_t rank = 0; rank < n; rank++) {
        child[rank] = fork();
        if (child[rank] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* goes with its parent */
            if (getppid() != parent) {
                _exit(1);
            }
            free(child);
            if (rank != 0) {
                close(listener);
            }
            *params = (heddle_bootstrap_params_t){.rank = rank,
                                                  .size = n,
                                                  .address = address,
                                                  .listener = rank == 0 ? listener : 0,
                                                  .key = key,
                                                  .key_bytes = sizeof(key)};
            return true;
        }
        if (child[rank] < 0) {
            fprintf(stderr, "%s: cannot start a process: %s\n", program, strerror(errno));
            for (uint32_t i = 0; i < rank; i++) {
                kill(child[i], SIGKILL);
            }
            n = rank;
            break;
        }
    }
    close(listener);
    int failed = wait_for_all(child, n);
    *exit_status = n == 0 ? 1 : failed;
    free(child);
    return false;
}
