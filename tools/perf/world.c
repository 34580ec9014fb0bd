/* world.c: see world.h.
 *
 * Of the ways to find the other processes, the first that is asked for counts:
 *
 *     --processes N --rank R   this process is R of N, started by hand; --address, --key-file or the variables
 *     --processes N            this process starts N others, which meet at a loopback address with a key drawn for
 *                              them, and waits for their ends
 *     a key in the environment rank and size as the launcher says (heddle_bootstrap_env)
 */
#include "run.h"
#include "world.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    uint32_t processes, me;
    ucc_oob_coll_t oob;
} world = {.processes = 1};

static bool alone(perf_options_t *o) {
    o->host_workers = o->workers;
    o->local = o->endpoints;
    o->most_local = o->endpoints;
    o->processes = 1;
    return true;
}

const ucc_oob_coll_t *perf_world_oob(void) {
    return world.processes > 1 ? &world.oob : NULL;
}

void perf_world_gather(const void *mine, size_t bytes, void *all) {
    if (world.processes == 1) {
        if (bytes != 0) {
            memcpy(all, mine, bytes);
        }
        return;
    }
    void *request = NULL;
    perf_require(
        world.oob.allgather((void *)(uintptr_t)mine, all, bytes, world.oob.coll_info, &request),
        "the processes' exchange");
    ucc_status_t status;
    while ((status = world.oob.req_test(request)) == UCC_INPROGRESS) {
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL); /* the processors may be needed */
    }
    perf_require(status, "the processes' exchange");
    perf_require(world.oob.req_free(request), "the processes' exchange");
}

void perf_world_share(void *data, size_t bytes) {
    if (world.processes == 1) {
        return;
    }
    unsigned char *all = perf_allocate(world.processes * bytes);
    perf_world_gather(data, bytes, all);
    memcpy(data, all, bytes);
    free(all);
}

void perf_world_meet(void) {
    char mine = 0, *all = perf_allocate(world.processes);
    perf_world_gather(&mine, sizeof(mine), all);
    free(all);
}

#ifdef PERF_HAVE_BOOTSTRAP

#include <arpa/inet.h>
#include <errno.h>
#include <heddle/bootstrap.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>

static heddle_bootstrap_t *bootstrap;

void perf_world_close(void) {
    (void)heddle_bootstrap_end(bootstrap);
    bootstrap = NULL;
    world.processes = 1;
}

/* What each process tells the others of itself. */
typedef struct card {
    char host[64];   /* its name, and when its system started */
    uint64_t places; /* processors that it may use, hashed */
    uint32_t endpoints, workers;
    uint64_t asked; /* what is measured, hashed: must be the same */
} card_t;

static uint64_t hash(uint64_t x, const void *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        x = (x ^ ((const unsigned char *)at)[i]) * UINT64_C(1099511628211);
    }
    return x;
}

static uint64_t hash_asked(const perf_options_t *o) {
    const uint64_t facts[] = {o->bytes_min,
                              o->bytes_max,
                              o->factor,
                              (uint64_t)o->datatype->dt,
                              (uint64_t)o->operation->op,
                              o->in_place,
                              o->persistent,
                              o->verify,
                              o->uneven,
                              o->touch,
                              o->limits,
                              o->overlap,
                              o->back_to_back,
                              o->root,
                              o->alternate,
                              o->messages,
                              o->reference,
                              (uint64_t)o->api,
                              o->warmup,
                              o->iterations};
    uint64_t x = hash(UINT64_C(14695981039346656037), facts, sizeof(facts));
    x = hash(x, &o->seconds, sizeof(o->seconds));
    for (size_t i = 0; i < o->n_chosen; i++) {
        x = hash(x, o->chosen[i]->name, strlen(o->chosen[i]->name));
    }
    return x;
}

static card_t my_card(const perf_options_t *o) {
    card_t card = {.endpoints = o->endpoints, .workers = o->workers, .asked = hash_asked(o)};
    FILE *boot = fopen("/proc/sys/kernel/random/boot_id", "r");
    size_t used = 0;
    if (boot != NULL) {
        used = fread(card.host, 1, 36, boot);
        fclose(boot);
    }
    (void)gethostname(card.host + used, sizeof(card.host) - used - 1);
    cpu_set_t places;
    CPU_ZERO(&places);
    (void)sched_getaffinity(0, sizeof(places), &places);
    card.places = hash(UINT64_C(14695981039346656037), &places, sizeof(places));
    return card;
}

/* The numbers of this process's endpoints, and its threads' among those that share its processors. */
static bool take_places(perf_options_t *o) {
    card_t *all = perf_allocate(world.processes * sizeof(*all)), mine = my_card(o);
    perf_world_gather(&mine, sizeof(mine), all);
    bool same = true;
    o->local = o->endpoints;
    o->processes = world.processes;
    o->process = world.me;
    o->endpoints = 0;
    o->most_local = 0;
    for (uint32_t p = 0; p < world.processes; p++) {
        o->first = p == world.me ? o->endpoints : o->first;
        o->endpoints += all[p].endpoints;
        o->most_local = all[p].endpoints > o->most_local ? all[p].endpoints : o->most_local;
        same = same && all[p].asked == mine.asked;
        if (memcmp(all[p].host, mine.host, sizeof(mine.host)) == 0 &&
            all[p].places == mine.places) {
            o->host_first = p == world.me ? o->host_workers : o->host_first;
            o->host_workers += all[p].workers;
        }
    }
    free(all);
    if (!same) {
        fprintf(stderr, "heddle_perf: the processes have been asked for different things\n");
    }
    return same;
}

static bool join(perf_options_t *o, const heddle_bootstrap_params_t *params, bool launched) {
    ucc_status_t status = launched ? heddle_bootstrap_env(params, &bootstrap)
                                   : heddle_bootstrap_tcp(params, &bootstrap);
    if (status != UCC_OK) {
        fprintf(stderr, "heddle_perf: the processes can't meet: %s\n", ucc_status_string(status));
        return false;
    }
    world.processes = heddle_bootstrap_size(bootstrap);
    world.me = heddle_bootstrap_rank(bootstrap);
    heddle_bootstrap_oob(bootstrap, &world.oob);
    return world.processes == 1 ? alone(o) : take_places(o);
}

/* ------------------------------------------------------------------------------------------------
 * Processes of our own
 * ---------------------------------------------------------------------------------------------- */

static int listen_here(char *address, size_t size) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, bytes) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) != 0) {
        fprintf(stderr, "heddle_perf: no address on this host to meet at: %s\n", strerror(errno));
        return -1;
    }
    snprintf(address, size, "127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

/* Waits for all; after the first that fails, the others have a few seconds. Returns how that one has ended. */
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

/* In the child: goes with its parent. */
static bool measure_as(perf_options_t *o, uint32_t rank, int listener, const char *address,
                       const unsigned char *key, size_t key_bytes, pid_t parent) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    heddle_bootstrap_params_t params = {.rank = rank,
                                        .size = o->processes,
                                        .address = address,
                                        .listener = rank == 0 ? listener : 0,
                                        .key = key,
                                        .key_bytes = key_bytes};
    return join(o, &params, false);
}

static bool start(perf_options_t *o, int *exit_status) {
    unsigned char key[32];
    char address[32];
    pid_t parent = getpid();
    *exit_status = 1;
    if (getrandom(key, sizeof(key), 0) != sizeof(key)) {
        fprintf(stderr, "heddle_perf: no random numbers for a key\n");
        return false;
    }
    int listener = listen_here(address, sizeof(address));
    pid_t *child = calloc(o->processes, sizeof(*child));
    if (listener < 0 || child == NULL) {
        free(child);
        return false;
    }
    fflush(NULL);
    for (uint32_t rank = 0; rank < o->processes; rank++) {
        child[rank] = fork();
        if (child[rank] == 0) {
            free(child);
            bool joined = measure_as(o, rank, listener, address, key, sizeof(key), parent);
            close(listener);
            return joined;
        }
        if (child[rank] < 0) {
            fprintf(stderr, "heddle_perf: cannot start a process: %s\n", strerror(errno));
            for (uint32_t i = 0; i < rank; i++) {
                kill(child[i], SIGKILL);
            }
            break;
        }
    }
    close(listener);
    *exit_status = wait_for_all(child, o->processes);
    free(child);
    return false;
}

bool perf_world_open(perf_options_t *o, int *exit_status) {
    *exit_status = 1;
    heddle_bootstrap_params_t params = {
        .rank = o->rank, .size = o->processes, .address = o->address, .key_file = o->key_file};
    if (o->ranked) {
        return join(o, &params, false);
    }
    if (o->processes > 1) {
        return start(o, exit_status);
    }
    if (o->processes == 0 && (o->key_file != NULL || getenv("HEDDLE_BOOTSTRAP_KEY") != NULL ||
                              getenv("HEDDLE_BOOTSTRAP_KEY_FILE") != NULL)) {
        return join(o, &params, true);
    }
    return alone(o);
}

#else /* no libsodium, so no libheddle_bootstrap */

void perf_world_close(void) {
}

bool perf_world_open(perf_options_t *o, int *exit_status) {
    *exit_status = 2;
    if (o->processes > 1 || o->ranked || o->key_file != NULL) {
        fprintf(stderr, "heddle_perf: built without libheddle_bootstrap, which several processes "
                        "need to meet\n");
        return false;
    }
    return alone(o);
}

#endif
