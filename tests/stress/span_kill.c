/* span_kill.c: processes that are killed, stopped, or cut off from the network at a random moment:
 * while a team forms, in the middle of any collective, between collectives. On one host, or, by
 * scripts/netns run 3 -- test_stress_span_kill, over several.
 *
 *     test_stress_span_kill [PERCENT [FIRST_SEED [KIND]]]
 *
 * Each scenario is made from a seed: 2 to 6 processes with 1 to 3 threads each form a team, the
 * survivors a second one, and all run random collectives until something goes wrong. Then every
 * survivor must have got an error, soon; the survivors' second team works, and so does a new one
 * that they make of what is left of the first. Nobody hangs or crashes. Who was only stopped, or
 * cut off for a moment, is not lost, and everything goes on.
 *
 * Who kills is a child of the victim, forked before it has threads.
 */
#include "stress.h"

#include "../support/heaps.h"
#include "../support/probe.h"
#include "../support/processes.h"
#include "../support/random.h"

#include <arpa/inet.h>
#include <heddle/heddle.h>
#include <inttypes.h>
#include <net/if.h>
#include <net/route.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MOST_ENDPOINTS = 18,
    MOST_BYTES = 2 << 20,
    MOST_TEAMS = 20, /* made of what is left, one after the other */
    SHRINKS_S = 20,  /* until one works */
    STOPPED_OPERATIONS = 300,
    HANGS_S = 30 /* from the moment of the fault to the end of every survivor's collective */
};

/* ONE_WAY: between the victim's host and the next; the third has a way to both. */
typedef enum kind { KILL, STOP, LINK_DOWN, FLAP, ONE_WAY, FEW_DESCRIPTORS, KINDS } kind_t;
static const char *const kind_name[KINDS] = {"kill",       "stop",    "link down",
                                             "link flaps", "one way", "few descriptors"};

/* What processes leave. Times in microseconds of the clock. */
enum { AT, FORMED, ERROR_AT, DONE, STAGE, ATTEMPTS, GIVEN_UP, NO_GROUP, LEFT };
/* STAGE */
enum { FORMING = 1, RUNNING, FAILED, AFTER, OVER };

typedef struct scenario {
    uint64_t seed;
    kind_t kind;
    shape_t shape;
    uint32_t victim;
    uint32_t after_us, for_us; /* the fault's moment; how long */
    bool forming; /* the moment counts from the beginning; else from the first collective */
    bool by_tcp, small;
    uint32_t descriptors;
} scenario_t;

typedef struct side {
    const process_t *process;
    const scenario_t *s;
    heddle_group_t *group;
    pthread_barrier_t meet;
    bool formed;
    _Atomic uint32_t next; /* local index */
    _Atomic uint32_t bad;
} side_t;

static uint64_t now_us(void) {
    return (uint64_t)(test_now() * 1e6);
}

/* --- the fault -------------------------------------------------------------------------------- */

/* There is no way to the host's address any more, or what there was. */
static void set_way(uint32_t host, bool there) {
    struct rtentry route = {.rt_flags = RTF_UP | RTF_HOST | RTF_REJECT};
    struct sockaddr_in *to = (struct sockaddr_in *)(void *)&route.rt_dst;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    to->sin_family = AF_INET;
    to->sin_addr.s_addr = htonl(UINT32_C(0x0a4d0000) + host);
    if (fd < 0 || (ioctl(fd, there ? SIOCDELRT : SIOCADDRT, &route) != 0 && !there)) {
        perror("FATAL: a route");
        exit(1);
    }
    close(fd);
}

static uint32_t next_host(const scenario_t *s) {
    return s->shape.host[(s->victim + 1) % s->shape.processes];
}

static void wait_us(uint32_t us) {
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L}, NULL);
}

static void commit(const process_t *process, const scenario_t *s) {
    pid_t victim = getppid();
    while (!s->forming && process_get(process, process->me, STAGE) < RUNNING) {
        wait_us(500);
    }
    wait_us(s->after_us);
    process_set(process, AT, now_us());
    switch (s->kind) {
    case KILL:
        kill(victim, SIGKILL);
        break;
    case STOP:
        kill(victim, SIGSTOP);
        wait_us(s->for_us);
        kill(victim, SIGCONT);
        break;
    case LINK_DOWN:
        process_set_link(false);
        break;
    case FLAP:
        process_set_link(false);
        wait_us(s->for_us);
        process_set_link(true);
        break;
    case ONE_WAY:
        set_way(next_host(s), false);
        break;
    case FEW_DESCRIPTORS:
    case KINDS:
        break;
    }
}

/* Nobody gets more descriptors than these. */
static void set_limit(uint32_t n) {
    struct rlimit limit = {n, n};
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Those that are there have to do. */
static void end_descriptors(void) {
    int next = dup(0);
    close(next);
    set_limit((uint32_t)next);
}

static pid_t begin_fault(const process_t *process, const scenario_t *s) {
    if (process->shape->host[process->me] != 0) {
        process_set_link(true); /* a scenario before this one has left it down */
        for (uint32_t p = 0; p < s->shape.processes; p++) {
            set_way(s->shape.host[p], true); /* likewise */
        }
    }
    if (process->me != s->victim) {
        return 0;
    }
    if (s->kind == FEW_DESCRIPTORS) {
        if (s->forming) {
            set_limit(s->descriptors);
        }
        return 0;
    }
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        commit(process, s);
        _exit(0);
    }
    return pid;
}

/* --- what the processes do -------------------------------------------------------------------- */

static bool is_faulty(const scenario_t *s, uint32_t process) {
    if (s->kind == LINK_DOWN || s->kind == FLAP) {
        return s->shape.host[process] == s->shape.host[s->victim];
    }
    return process == s->victim;
}

/* Does it survive together with me? Where a link is down, each side does. */
static bool is_with(const scenario_t *s, uint32_t me, uint32_t other) {
    return is_faulty(s, me) == is_faulty(s, other);
}

static bool goes_on(const scenario_t *s) {
    return s->kind == STOP || s->kind == FLAP;
}

/* Endpoints of those who survive with me. Groups number process by process. */
static uint32_t survivors(const side_t *side, uint32_t list[MOST_ENDPOINTS]) {
    uint32_t n = 0, at = 0;
    for (uint32_t p = 0; p < side->s->shape.processes; p++) {
        for (uint32_t i = 0; i < side->s->shape.endpoints[p]; i++, at++) {
            if (is_with(side->s, side->process->me, p)) {
                list[n++] = at;
            }
        }
    }
    return n;
}

typedef struct buffers {
    char *src, *dst;
} buffers_t;

/* Collective k of a team: the same at all. Wrong data is an error of its own. */
static ucc_status_t collective(heddle_ep_t *ep, const scenario_t *s, uint64_t k, buffers_t b) {
    static const uint64_t sizes[] = {8, 48, 64, 1000, 4000, 40000, 200000, 1500000};
    uint64_t random = s->seed * 7919 + k * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t n = heddle_ep_size(ep), me = heddle_ep_index(ep);
    uint32_t root = (uint32_t)random_below(&random, n), type = (uint32_t)random_below(&random, 12);
    uint64_t bytes = sizes[random_below(&random, s->small ? 4 : 8)], count = bytes / 8;
    uint64_t each = count / n + 1;
    int64_t *src = (int64_t *)(void *)b.src, *dst = (int64_t *)(void *)b.dst;
    ucc_datatype_t dt = UCC_DT_INT64;
    ucc_status_t status;
    src[0] = src[count - 1] = me + 1;
    switch (type) {
    case 0:
        return heddle_barrier(ep);
    case 1:
        src[count - 1] = me == root ? (int64_t)k : -1;
        status = heddle_bcast(ep, src, count, dt, root);
        return status == UCC_OK && src[count - 1] != (int64_t)k ? UCC_ERR_LAST : status;
    case 2:
        return heddle_reduce(ep, src, dst, count, dt, UCC_OP_SUM, root);
    case 3:
        return heddle_allgather(ep, src, dst, each, dt);
    case 4:
        return heddle_alltoall(ep, src, dst, each, dt);
    case 5:
        return heddle_gather(ep, src, dst, each, dt, root);
    case 6:
        return heddle_scatter(ep, src, dst, each, dt, root);
    case 7:
        return heddle_reduce_scatter(ep, src, dst, each, dt, UCC_OP_SUM);
    case 8:
        return heddle_scan(ep, src, dst, count, dt, UCC_OP_SUM);
    case 9:
        return heddle_fanin(ep, root);
    case 10:
        return heddle_fanout(ep, root);
    default:
        status = heddle_allreduce(ep, src, dst, count, dt, UCC_OP_SUM);
        bool right = dst[count - 1] == (int64_t)n * (n + 1) / 2;
        return status == UCC_OK && !right ? UCC_ERR_LAST : status;
    }
}

static void complain(side_t *side, const char *what, ucc_status_t status) {
    fprintf(stderr, "seed %" PRIu64 ", process %u: %s: %s\n", side->s->seed, side->process->me,
            what, ucc_status_string(status));
    atomic_fetch_add(&side->bad, 1);
}

/* Until an error, or the end. */
static ucc_status_t run_all(side_t *side, heddle_ep_t *ep, uint64_t first, uint64_t n,
                            buffers_t b) {
    ucc_status_t status = UCC_OK;
    for (uint64_t k = first; k < first + n && status == UCC_OK; k++) {
        status = collective(ep, side->s, k, b);
    }
    return status;
}

/* Has everybody who survives with me got so far? And has none of them failed before? */
static bool all_formed(const side_t *side) {
    bool formed = true;
    for (uint32_t p = 0; p < side->s->shape.processes; p++) {
        if (!is_with(side->s, side->process->me, p)) {
            continue;
        }
        while (!process_get(side->process, p, FORMED)) {
            wait_us(200);
        }
        formed = formed && process_get(side->process, p, FORMED) == 2;
    }
    return formed;
}

static bool survives(const side_t *side) {
    return side->s->kind != KILL || side->process->me != side->s->victim;
}

/* Has the group of one that survives with me not been made? It goes then, as its right is, and is
 * lost. */
static bool lacks_somebody(const side_t *side) {
    bool lacks = false;
    for (uint32_t p = 0; p < side->s->shape.processes; p++) {
        lacks = lacks ||
                (is_with(side->s, side->process->me, p) && process_get(side->process, p, NO_GROUP));
    }
    return lacks;
}

/* What is left of a team works; it may take several attempts until all know the same of who is
 * lost. */
static void shrink(side_t *side, heddle_ep_t *ep, uint32_t n, buffers_t b) {
    heddle_ep_t *made[MOST_TEAMS] = {ep};
    uint32_t at = 0, attempts = 0;
    uint64_t end = now_us() + SHRINKS_S * UINT64_C(1000000);
    ucc_status_t status = UCC_ERR_NO_MESSAGE;
    while (status != UCC_OK && at + 1 < MOST_TEAMS && now_us() < end) {
        wait_us(attempts++ ? 1000 : 0);
        heddle_ep_t *left = NULL;
        status = heddle_shrink(made[at], &left);
        ucc_status_t formed = status == UCC_OK ? heddle_barrier(left) : status;
        status = formed == UCC_OK ? run_all(side, left, 2000000, 10, b) : formed;
        if (left && formed == UCC_OK) {
            made[++at] = left;
        } else if (left) {
            heddle_leave(left);
        }
    }
    if (status != UCC_OK) {
        complain(side, "what is left of the team", status);
    } else if (side->s->kind == ONE_WAY) {
        process_set(side->process, LEFT, heddle_ep_size(made[at]));
    } else if (heddle_ep_size(made[at]) != n && !lacks_somebody(side)) {
        process_set(side->process, GIVEN_UP, 1);
        fprintf(stderr, "seed %" PRIu64 ", process %u: %u of %u endpoints are left\n",
                side->s->seed, side->process->me, heddle_ep_size(made[at]), n);
        atomic_fetch_add(&side->bad, 1);
    }
    process_set(side->process, ATTEMPTS, attempts);
    while (at > 0) {
        heddle_leave(made[at--]);
    }
}

static void after(side_t *side, heddle_ep_t *ep, heddle_ep_t *second, buffers_t b) {
    uint32_t list[MOST_ENDPOINTS], n = survivors(side, list);
    if (survives(side) && !goes_on(side->s) && side->s->kind != FEW_DESCRIPTORS) {
        shrink(side, ep, n, b);
    }
    if (second) {
        ucc_status_t status = run_all(side, second, 1000000, 30, b);
        /* A way that has no descriptor at one end may end at any other's cost. */
        if (status != UCC_OK && side->s->kind != FEW_DESCRIPTORS) {
            complain(side, "the survivors' other team", status);
        }
    }
}

/* Everything between joining and leaving. */
static void live(side_t *side, heddle_ep_t *ep, uint32_t local, buffers_t b) {
    heddle_ep_t *second = NULL;
    uint32_t list[MOST_ENDPOINTS], n = survivors(side, list);
    ucc_status_t status = heddle_barrier(ep);
    if (pthread_barrier_wait(&side->meet) == PTHREAD_BARRIER_SERIAL_THREAD) {
        process_set(side->process, FORMED, status == UCC_OK ? 2 : 1);
        side->formed = survives(side) && side->s->kind != ONE_WAY && all_formed(side);
    }
    pthread_barrier_wait(&side->meet);
    if (status != UCC_OK && goes_on(side->s) && side->s->kind == STOP) {
        complain(side, "a team whose process was stopped did not form", status);
    }
    if (side->formed && heddle_subset(ep, list, n, &second) != UCC_OK) {
        second = NULL;
    }
    if (status == UCC_OK) {
        uint64_t most =
            goes_on(side->s) || side->s->kind == FEW_DESCRIPTORS ? STOPPED_OPERATIONS : UINT32_MAX;
        process_set(side->process, STAGE, RUNNING);
        if (side->s->kind == FEW_DESCRIPTORS && !side->s->forming && local == 0 &&
            side->process->me == side->s->victim) {
            end_descriptors();
        }
        status = run_all(side, ep, 0, most, b);
    }
    if (local == 0) {
        process_set(side->process, ERROR_AT, status == UCC_OK ? 0 : now_us());
    }
    if (status == UCC_ERR_LAST) {
        complain(side, "wrong data", status);
    } else if (status != UCC_OK && side->s->kind == STOP) {
        complain(side, "a stopped process was given up", status);
    }
    process_set(side->process, STAGE, FAILED);
    pthread_barrier_wait(&side->meet);
    after(side, ep, second, b);
    if (second) {
        heddle_leave(second);
    }
}

static void *thread(void *arg) {
    side_t *side = arg;
    uint32_t local = atomic_fetch_add(&side->next, 1);
    heddle_ep_t *ep = NULL;
    buffers_t b = {heaps_alloc(MOST_BYTES, true), heaps_alloc(MOST_BYTES, true)};
    memset(b.src, 0, MOST_BYTES);
    memset(b.dst, 0, MOST_BYTES);
    must(heddle_join(side->group, local, &ep), "heddle_join");
    live(side, ep, local, b);
    pthread_barrier_wait(&side->meet);
    heddle_leave(ep);
    heaps_free(b.src);
    heaps_free(b.dst);
    return NULL;
}

static void configure(const scenario_t *s) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 0);
    setenv("UCX_LOG_LEVEL", "fatal", 0);
    if (s->by_tcp) {
        setenv("HEDDLE_NET_SHM", "n", 1);
        setenv("HEDDLE_NET_TLS", "tcp", 1);
    }
    if (s->kind == FEW_DESCRIPTORS) {
        setenv("HEDDLE_TIMEOUT", "15", 0);
    }
}

static int work(const process_t *process, void *arg) {
    const scenario_t *s = arg;
    side_t side = {.process = process, .s = s};
    pthread_t threads[MOST_ENDPOINTS];
    configure(s);
    process_set(process, STAGE, FORMING);
    pid_t killer = begin_fault(process, s);
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = process->n, .oob = &oob};
    ucc_status_t status = heddle_group_create(&params, &side.group);
    if (status == UCC_OK) {
        pthread_barrier_init(&side.meet, NULL, process->n);
        for (uint32_t i = 0; i < process->n; i++) {
            must(pthread_create(&threads[i], NULL, thread, &side) ? UCC_ERR_NO_RESOURCE : UCC_OK,
                 "thread");
        }
        for (uint32_t i = 0; i < process->n; i++) {
            pthread_join(threads[i], NULL);
        }
        heddle_group_destroy(side.group);
    } else {
        process_set(process, NO_GROUP, 1);
        process_set(process, FORMED, 1);
        process_set(process, ERROR_AT, now_us());
        if (s->kind == STOP) {
            complain(&side, "a group whose process was stopped was not made", status);
        }
    }
    process_set(process, STAGE, OVER);
    if (killer > 0) {
        waitpid(killer, NULL, 0); /* it may still have to put up the link */
    }
    process_set(process, DONE, now_us());
    return atomic_load(&side.bad) ? 1 : 0;
}

/* --- scenarios -------------------------------------------------------------------------------- */

static scenario_t draw(uint64_t seed, uint32_t hosts, int only) {
    uint64_t random = seed * UINT64_C(0xD1B54A32D192ED03) + 17;
    scenario_t s = {.seed = seed};
    uint32_t dice = (uint32_t)random_below(&random, 20);
    s.kind = dice < (hosts ? 11 : 16) ? KILL : dice == 16 ? FEW_DESCRIPTORS : STOP;
    if (hosts && dice >= 13) { /* and some are stopped */
        s.kind = dice == 19 && hosts > 2 ? ONE_WAY : LINK_DOWN;
    }
    s.kind = only >= 0 ? (kind_t)only : s.kind;
    s.shape.processes = 2 + (uint32_t)random_below(&random, 5);
    if (s.kind == ONE_WAY) {
        s.shape.processes = 3;
    }
    for (uint32_t p = 0; p < s.shape.processes; p++) {
        s.shape.endpoints[p] = 1 + (uint32_t)random_below(&random, 3);
        s.shape.host[p] = hosts ? p % hosts + 1 : 0;
    }
    s.victim = (uint32_t)random_below(&random, s.shape.processes);
    s.by_tcp = random_below(&random, hosts ? 2 : 3) == 0;
    if ((s.kind == LINK_DOWN || s.kind == FLAP) && s.shape.processes > hosts) {
        /* which takes the device also between processes of the host whose link is down */
        s.by_tcp = false;
    }
    s.small = random_below(&random, 3) == 0;
    s.forming = random_below(&random, 4) == 0;
    s.after_us = (uint32_t)random_below(&random, s.forming ? 200000 : 100000);
    s.for_us = 1000 * (uint32_t)random_below(&random, random_below(&random, 4) == 0 ? 6000 : 800);
    s.forming = s.forming && s.kind != ONE_WAY; /* then its victim may be gone before it is heard */
    s.for_us = s.kind == FLAP && s.for_us > 2000000 ? 2000000 : s.for_us;
    s.descriptors = 8 + (uint32_t)random_below(&random, 60);
    if (s.kind == KILL) {
        s.shape.doomed = 1u << s.victim;
    }
    return s;
}

static struct {
    uint64_t n[KINDS], bad[KINDS], forming[KINDS], errors[KINDS];
    double worst[KINDS], sum[KINDS];
    uint64_t given_up; /* scenarios after which more were lost than had to be */
    uint64_t attempts; /* most of them, to make a team of those that are left */
    uint64_t blocked;  /* scenarios after which survivors waited for each other */
} seen;

/* Of the two that have lost each other one is left, with the third, and nobody else is with the
 * other one. */
static bool one_is_left(const scenario_t *s, const outcome_t *outcome) {
    const uint32_t *n = s->shape.endpoints;
    uint32_t a = s->victim, b = (a + 1) % 3, c = (a + 2) % 3;
    const uint64_t left[] = {outcome->value[a][LEFT], outcome->value[b][LEFT],
                             outcome->value[c][LEFT]};
    bool a_stays = left[0] == n[a] + n[c] && left[1] == n[b] && left[2] == left[0];
    bool b_stays = left[1] == n[b] + n[c] && left[0] == n[a] && left[2] == left[1];
    if (!a_stays && !b_stays) {
        fprintf(stderr, "seed %" PRIu64 ": processes %u, %u, %u have teams of %u, %u, %u\n",
                s->seed, a, b, c, (unsigned)left[0], (unsigned)left[1], (unsigned)left[2]);
    }
    return a_stays || b_stays;
}

/* Whoever is killed between taking a place in one of UCX's queues in shared memory and filling it
 * blocks that queue for good (docs/processes.md): survivors wait for each other. Rare enough not to
 * happen twice in a run, nor to a seed again. */
static bool may_have_blocked(const scenario_t *s, const outcome_t *outcome) {
    bool any = false, others = true;
    for (uint32_t p = 0; p < s->shape.processes; p++) {
        bool waited = WIFSIGNALED(outcome->status[p]) && WTERMSIG(outcome->status[p]) == SIGKILL;
        any = any || (waited && p != s->victim);
        others = others && (waited || outcome->status[p] == 0);
    }
    return s->kind == KILL && !s->by_tcp && any && others && seen.blocked++ == 0;
}

static void run(scenario_t *s) {
    outcome_t outcome = processes_run(&s->shape, HANGS_S + 20, work, s);
    if (!outcome.ok && may_have_blocked(s, &outcome)) {
        printf("seed %" PRIu64 ": survivors waited for each other, as after a kill that blocks a "
               "queue of UCX's; once more\n",
               s->seed);
        outcome = processes_run(&s->shape, HANGS_S + 20, work, s);
    }
    uint64_t at = outcome.value[s->victim][AT];
    bool formed = true, given_up = false;
    seen.n[s->kind]++;
    for (uint32_t p = 0; p < s->shape.processes; p++) {
        if (s->kind == KILL && p == s->victim) {
            continue;
        }
        formed = formed && outcome.value[p][FORMED] == 2;
        seen.attempts =
            outcome.value[p][ATTEMPTS] > seen.attempts ? outcome.value[p][ATTEMPTS] : seen.attempts;
        given_up = given_up || outcome.value[p][GIVEN_UP];
        uint64_t error = outcome.value[p][ERROR_AT];
        if (error && error > at && at) {
            double seconds = (double)(error - at) * 1e-6;
            seen.errors[s->kind]++;
            seen.sum[s->kind] += seconds;
            seen.worst[s->kind] = seconds > seen.worst[s->kind] ? seconds : seen.worst[s->kind];
        }
    }
    seen.forming[s->kind] += !formed;
    seen.given_up += given_up;
    if (outcome.ok && s->kind == ONE_WAY) {
        outcome.ok = one_is_left(s, &outcome);
    }
    if (!outcome.ok) {
        seen.bad[s->kind]++;
        stress_error("seed %" PRIu64 ": %s of process %u of %s by %s after %u us, for %u us",
                     s->seed, kind_name[s->kind], s->victim, shape_name(&s->shape),
                     s->by_tcp ? "TCP" : "shared memory", s->after_us, s->for_us);
    }
}

static void report(void) {
    for (int k = 0; k < KINDS; k++) {
        if (seen.n[k]) {
            printf("%-16s %5" PRIu64 " scenarios, %5" PRIu64 " while forming, %" PRIu64
                   " bad; %" PRIu64 " errors, after %.2f s in the mean, %.2f at most\n",
                   kind_name[k], seen.n[k], seen.forming[k], seen.bad[k], seen.errors[k],
                   seen.errors[k] ? seen.sum[k] / (double)seen.errors[k] : 0.0, seen.worst[k]);
        }
    }
    printf("teams of those that were left: %" PRIu64 " attempts at most; %" PRIu64
           " scenarios lost a process that lived\n",
           seen.attempts, seen.given_up);
    fflush(stdout);
}

int main(int argc, char **argv) {
    const char *why = "";
    stress_begin_alone(argc, argv);
    if (!probe_network()) {
        return stress_skip("several processes", "this build has no network");
    }
    uint32_t hosts = processes_hosts(&why);
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1, n = stress_scaled(hosts ? 10 : 16);
    int only = -1;
    for (int k = 0; argc > 3 && k < KINDS; k++) {
        only = strcmp(argv[3], kind_name[k]) == 0 ? k : only;
    }
    for (uint64_t i = 0; i < n; i++) {
        scenario_t s = draw(first + i, hosts < 2 ? 0 : hosts, only);
        run(&s);
        if (i % 50 == 49) {
            report();
        }
    }
    report();
    return stress_end();
}
