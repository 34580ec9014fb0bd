/* span_survivors.c: one fault costs one process, never the job. Rounds of 3 to 12 processes that
 * run collectives until something happens to some of them; then every other one loops over
 * heddle_shrink and a barrier, as docs/processes.md shows, and all of them must meet in one team.
 *
 *     test_stress_span_survivors [PERCENT [FIRST_SEED [PART]]]
 *
 *   shm    one or two are killed, over shared memory: 2,000 rounds
 *   tcp    the same over TCP: 1,000 rounds
 *   stop   up to three are stopped for 0.1 to 30 s, and another one may be killed: 100 rounds
 *   link   hosts that lose each other: 100 rounds, by scripts/netns run 4 -- ... only; there the
 *          parts with kills alone have a tenth of their rounds
 *   agree  one or two are killed, over either; after each attempt the survivors agree, in the old
 *          team, on having the new one, and all have it at once: 1,000 rounds
 *
 * So many rounds by HEDDLE_STRESS_SCALE=100 or PERCENT, a few otherwise. Some of the processes
 * compute for up to 2 s meanwhile, some have no descriptors left.
 *
 * What a round is follows from its seed. Which team a process has is a mask of processes, left in
 * shared memory: a team ends by a collective that finds that all are where they have to be. Whoever
 * has been given up finds that in its log, which is a file that the launcher reads, too.
 */
#include "net/net.h"

#include "stress.h"

#include "../support/heaps.h"
#include "../support/probe.h"
#include "../support/processes.h"
#include "../support/random.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <heddle/heddle.h>
#include <inttypes.h>
#include <math.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MOST_PROCESSES = 12,
    MOST_BYTES = 1 << 20,
    MOST_EVENTS = 8,
    KEPT_TEAMS = 16, /* that have failed, and stay for a while */
    AGREE_EVERY = 4, /* operations */
    LOG_BYTES = 1 << 16,
    MOST_SHOWN = 6000, /* of a process's log */
    LATE_S = 5,        /* from the last fault to the one team; longer is told, and ... */
    LIMIT_S = 30       /* ... so long is a failure */
};

typedef enum part { SHM, TCP, STOP, LINK, AGREE, PARTS } part_t;
static const char *const part_name[PARTS] = {"shm", "tcp", "stop", "link", "agree"};

typedef enum fault { KILLED, STOPPED, DOWN, CUT, FAULTS } fault_t;
static const char *const fault_name[FAULTS] = {"is killed", "is stopped", "has its host down",
                                               "can't send to hosts"};

/* After all are running. */
typedef struct event {
    fault_t fault;
    uint32_t process;
    uint32_t after_us, for_us;
    uint32_t hosts; /* CUT: bits of those to which nothing gets from its host any more */
} event_t;

typedef struct scenario {
    uint64_t seed;
    part_t part;
    shape_t shape;
    bool by_tcp, quorum;
    uint32_t n_events, doomed;
    event_t event[MOST_EVENTS];
    uint32_t computes_us[MOST_PROCESSES], computes_at[MOST_PROCESSES]; /* 0: it does not */
    bool lacks[MOST_PROCESSES]; /* descriptors, when all are running */
    uint32_t spare[MOST_PROCESSES];
    int log[MOST_PROCESSES];
} scenario_t;

/* What processes leave. Times in microseconds of the clock. REFUSED: for want of a majority. */
enum {
    RUNS,
    PID,
    OVER_AT,
    MASK,
    FORMED_AT,
    FREE_AT,
    ATTEMPTS,
    GIVEN_UP,
    REFUSED,
    DONE,
    FIRST_ERROR
};
/* GIVEN_UP */
enum { DEAF = 1, LOST = 2 };

typedef struct side {
    const process_t *process;
    const scenario_t *s;
    heddle_group_t *group;
    pthread_barrier_t meet;
    _Atomic uint32_t next; /* local index */
    _Atomic uint32_t bad;
    _Atomic uint64_t decided; /* calls of heddle_shrink after which endpoint 0 has decided ... */
    _Atomic bool out;         /* ... whether this process can't go on */
} side_t;

/* An endpoint of it. */
typedef struct endpoint {
    side_t *side;
    uint32_t local;
    heddle_ep_t *first, *team;
    heddle_ep_t *kept[KEPT_TEAMS];
    uint32_t n_kept;
    uint64_t mask;
    char *src, *dst;
    uint64_t random;
    uint64_t operations, calls;
} endpoint_t;

static uint64_t now_us(void) {
    return (uint64_t)(test_now() * 1e6);
}

static void wait_us(uint64_t us) {
    nanosleep(&(struct timespec){.tv_sec = (time_t)(us / 1000000),
                                 .tv_nsec = (long)(us % 1000000 * 1000)},
              NULL);
}

/* --- faults ----------------------------------------------------------------------------------- */

/* What is sent to the host goes to a device that nobody has, without a word of it; or not any
 * more. */
static void set_way(uint32_t host, bool there) {
    struct arpreq request = {.arp_flags = ATF_COM | ATF_PERM,
                             .arp_ha = {.sa_family = ARPHRD_ETHER, .sa_data = {2, 0, 0, 0, 0, 77}},
                             .arp_dev = "net0"};
    struct sockaddr_in *to = (struct sockaddr_in *)(void *)&request.arp_pa;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    to->sin_family = AF_INET;
    to->sin_addr.s_addr = htonl(UINT32_C(0x0a4d0000) + host);
    if (fd < 0 || (ioctl(fd, there ? SIOCDARP : SIOCSARP, &request) != 0 && !there)) {
        perror("FATAL: a neighbour");
        exit(1);
    }
    close(fd);
}

static bool all_run(const process_t *process) {
    bool all = true;
    for (uint32_t p = 0; p < process->shape->processes; p++) {
        all = all && process_get(process, p, RUNS);
    }
    return all;
}

/* In a child of the process that it happens to. */
static void commit(const process_t *process, const event_t *event) {
    pid_t victim = getppid();
    while (!all_run(process)) {
        wait_us(200);
    }
    wait_us(event->after_us);
    switch (event->fault) {
    case KILLED:
        process_set(process, OVER_AT, now_us());
        kill(victim, SIGKILL);
        break;
    case STOPPED:
        kill(victim, SIGSTOP);
        wait_us(event->for_us);
        process_set(process, OVER_AT, now_us());
        kill(victim, SIGCONT);
        break;
    case DOWN:
        process_set_link(false);
        process_set(process, OVER_AT, now_us());
        break;
    case CUT:
        for (uint32_t h = 1; h < 32; h++) {
            if (event->hosts >> h & 1) {
                set_way(h, false);
            }
        }
        process_set(process, OVER_AT, now_us());
        break;
    case FAULTS:
        break;
    }
}

static const event_t *event_of(const scenario_t *s, uint32_t process) {
    const event_t *event = NULL;
    for (uint32_t e = 0; e < s->n_events; e++) {
        event = s->event[e].process == process ? &s->event[e] : event;
    }
    return event;
}

/* Forks who commits it, while there are no threads. */
static pid_t await_fault(const process_t *process, const scenario_t *s) {
    const event_t *event = event_of(s, process->me);
    pid_t pid = event ? fork() : 0;
    if (event && pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        commit(process, event);
        _exit(0);
    }
    return pid;
}

static void mend_links(const process_t *process) {
    if (process->shape->host[process->me] != 0) {
        process_set_link(true); /* a round before this one has left it down */
        for (uint32_t p = 0; p < process->shape->processes; p++) {
            set_way(process->shape->host[p], true); /* likewise */
        }
    }
}

/* So many descriptors may be opened from now on. */
static void limit_descriptors(uint32_t spare) {
    int next = dup(0);
    struct rlimit limit = {(rlim_t)next + spare, (rlim_t)next + spare};
    close(next);
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* --- what the processes know of each other ---------------------------------------------------- */

/* A process that is given up says so, and nobody counts on it any more. */
static void look_at_log(const process_t *process, int log) {
    static char text[LOG_BYTES];
    ssize_t n = pread(log, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    if (strstr(text, "blocked its queue")) {
        process_set(process, GIVEN_UP, DEAF);
    } else if (strstr(text, "this process goes") || strstr(text, "given up this one")) {
        process_set(process, GIVEN_UP, LOST);
    }
}

/* Has it crashed? The launcher takes up those that have ended. */
static bool is_gone(const process_t *process, uint32_t other) {
    pid_t pid = (pid_t)process_get(process, other, PID);
    return pid && kill(pid, 0) != 0 && !process_get(process, other, DONE);
}

/* Nothing has happened to it that would excuse it. */
static bool counts(const process_t *process, const scenario_t *s, uint32_t other) {
    return !(s->doomed >> other & 1) && !s->lacks[other] &&
           !process_get(process, other, GIVEN_UP) && !process_get(process, other, REFUSED) &&
           !is_gone(process, other);
}

static bool is_over(const process_t *process, const scenario_t *s) {
    bool over = true;
    for (uint32_t e = 0; e < s->n_events; e++) {
        over = over && process_get(process, s->event[e].process, OVER_AT);
    }
    return over;
}

/* Are all where they have to be? Those that have lost each other, each in a team of those that it
 * has; else in one. */
static bool is_settled(const process_t *process, const scenario_t *s) {
    uint64_t any = 0;
    bool settled = is_over(process, s);
    for (uint32_t p = 0; p < s->shape.processes && settled; p++) {
        uint64_t mask = counts(process, s, p) ? process_get(process, p, MASK) : 0;
        bool partial = mask != (UINT64_C(1) << s->shape.processes) - 1;
        settled = !counts(process, s, p) || (mask >> p & 1 && (s->part != LINK || partial));
        settled = settled && (s->part == LINK || !any || !mask || mask == any);
        any = mask ? mask : any;
        for (uint32_t q = 0; q < s->shape.processes && settled; q++) {
            settled =
                !(mask >> q & 1) || !counts(process, s, q) || process_get(process, q, MASK) == mask;
            settled = settled && !(mask >> q & 1 && s->doomed >> q & 1);
        }
    }
    return settled;
}

/* When the last thing happened that others had to wait for. */
static uint64_t free_at(const process_t *process, const scenario_t *s) {
    uint64_t at = 0;
    for (uint32_t p = 0; p < s->shape.processes; p++) {
        uint64_t over = process_get(process, p, OVER_AT), idle = process_get(process, p, FREE_AT);
        at = over > at ? over : at;
        at = idle > at ? idle : at;
    }
    return at;
}

static bool is_late(const process_t *process, const scenario_t *s) {
    return all_run(process) && is_over(process, s) &&
           now_us() > free_at(process, s) + (uint64_t)(LIMIT_S * 1e6 * stress_slowdown());
}

/* --- collectives ------------------------------------------------------------------------------ */

static void complain(const side_t *side, const char *what, ucc_status_t status) {
    dprintf(side->s->log[side->process->me], "%s: %s\n", what, ucc_status_string(status));
}

/* Operation k of a team: the same at all. UCC_ERR_LAST: wrong data. */
static ucc_status_t collective(const endpoint_t *e, uint64_t k) {
    heddle_ep_t *team = e->team;
    uint64_t random = e->side->s->seed * 7919 + k * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t n = heddle_ep_size(team), me = heddle_ep_index(team);
    uint32_t root = (uint32_t)random_below(&random, n), type = (uint32_t)random_below(&random, 6);
    uint64_t count = UINT64_C(1) << random_below(&random, 18), each = count / n + 1;
    int64_t *src = (int64_t *)(void *)e->src, *dst = (int64_t *)(void *)e->dst;
    ucc_status_t status;
    src[0] = src[count - 1] = me + 1;
    switch (type) {
    case 0:
        return heddle_barrier(team);
    case 1:
        src[count - 1] = me == root ? (int64_t)k : -1;
        status = heddle_bcast(team, src, count, UCC_DT_INT64, root);
        return status == UCC_OK && src[count - 1] != (int64_t)k ? UCC_ERR_LAST : status;
    case 2:
        return heddle_reduce(team, src, dst, count, UCC_DT_INT64, UCC_OP_SUM, root);
    case 3:
        return heddle_alltoall(team, src, dst, each, UCC_DT_INT64);
    case 4:
        status = heddle_allgather(team, src, dst, each, UCC_DT_INT64);
        return status == UCC_OK && dst[root * each] != root + 1 ? UCC_ERR_LAST : status;
    default:
        status = heddle_allreduce(team, src, dst, count, UCC_DT_INT64, UCC_OP_SUM);
        bool right = dst[count - 1] == (int64_t)n * (n + 1) / 2;
        return status == UCC_OK && !right ? UCC_ERR_LAST : status;
    }
}

/* Says who is in a team, when all are in it. */
static ucc_status_t see_members(endpoint_t *e, heddle_ep_t *team) {
    const side_t *side = e->side;
    int64_t me = side->process->me, member[SHAPE_MOST_PROCESSES * 3];
    ucc_status_t status = heddle_allgather(team, &me, member, 1, UCC_DT_INT64);
    uint64_t mask = 0;
    for (uint32_t i = 0; i < heddle_ep_size(team) && status == UCC_OK; i++) {
        mask |= UINT64_C(1) << member[i];
    }
    if (status == UCC_OK) {
        e->mask = mask;
        if (e->local == 0) {
            process_set(side->process, FORMED_AT, now_us());
            process_set(side->process, MASK, mask);
        }
    }
    return status;
}

static void compute(const endpoint_t *e) {
    const side_t *side = e->side;
    uint32_t me = side->process->me;
    uint64_t end = now_us() + side->s->computes_us[me];
    if (e->operations != side->s->computes_at[me] || !side->s->computes_us[me]) {
        return;
    }
    if (side->s->computes_us[me] % 4) {
        wait_us(side->s->computes_us[me]);
    }
    while (now_us() < end) {
    }
    process_set(side->process, FREE_AT, now_us());
}

/* Who is given up has a team with nobody else. */
static bool is_alone(const endpoint_t *e) {
    const process_t *process = e->side->process;
    if (e->local == 0 && e->mask == UINT64_C(1) << process->me) {
        look_at_log(process, e->side->s->log[process->me]);
    }
    return process_get(process, process->me, GIVEN_UP);
}

/* Runs collectives until one fails, or all agree that everybody is where it has to be. *over: they
 * do. */
static ucc_status_t run_all(endpoint_t *e, bool *over) {
    ucc_status_t status = UCC_OK;
    for (uint64_t k = 1; status == UCC_OK && !*over; k++) {
        compute(e);
        e->operations++;
        status = collective(e, k);
        if (status == UCC_OK && k % AGREE_EVERY == 0) {
            const side_t *side = e->side;
            bool late = is_late(side->process, side->s);
            int64_t ends = late || is_settled(side->process, side->s) || is_alone(e), all = 0;
            status = heddle_allreduce(e->team, &ends, &all, 1, UCC_DT_INT64, UCC_OP_MIN);
            *over = status == UCC_OK && all == 1;
        }
    }
    if (status == UCC_ERR_LAST) {
        complain(e->side, "wrong data", status);
        atomic_fetch_add(&e->side->bad, 1);
    } else if (status != UCC_OK && e->local == 0 &&
               !process_get(e->side->process, e->side->process->me, FIRST_ERROR)) {
        process_set(e->side->process, FIRST_ERROR, now_us());
    }
    return status;
}

/* --- the survivors ---------------------------------------------------------------------------- */

/* Leaves a team now, or at the end. */
static void leave(endpoint_t *e, heddle_ep_t *team) {
    if (team == e->first) {
        return;
    }
    if (e->n_kept < KEPT_TEAMS && e->side->s->seed % 2) {
        e->kept[e->n_kept++] = team;
    } else {
        heddle_leave(team);
    }
}

/* Nobody waits any more for a process that can't go on. */
static bool decide(const side_t *side, ucc_status_t status) {
    look_at_log(side->process, side->s->log[side->process->me]);
    process_set(side->process, REFUSED, side->s->quorum && status == UCC_ERR_NO_RESOURCE ? 1 : 0);
    return process_get(side->process, side->process->me, GIVEN_UP) ||
           is_late(side->process, side->s) ||
           (!counts(side->process, side->s, side->process->me) &&
            is_settled(side->process, side->s));
}

/* Endpoints of one process make the same calls, so the first of them decides for all. */
static bool is_out(endpoint_t *e, ucc_status_t status) {
    side_t *side = e->side;
    double end = test_now() + LIMIT_S * stress_slowdown();
    e->calls++;
    if (e->local == 0) {
        atomic_store(&side->out, decide(side, status));
        atomic_store(&side->decided, e->calls);
    }
    while (atomic_load(&side->decided) < e->calls) {
        wait_us(100);
        if (test_now() > end) {
            complain(side, "endpoints of one process don't make the same calls", status);
            atomic_fetch_add(&side->bad, 1);
            return true;
        }
    }
    return atomic_load(&side->out);
}

/* As docs/processes.md has it. Some processes shrink a new team that has failed, some the old one
 * again. False: this process can't go on. */
static bool shrink(endpoint_t *e) {
    heddle_ep_t *left = NULL;
    bool newest = random_below(&e->random, 2);
    ucc_status_t status;
    bool out = false;
    uint64_t attempts = 1;
    while (!out && ((status = heddle_shrink(e->team, &left)) != UCC_OK ||
                    (status = heddle_barrier(left)) != UCC_OK)) {
        out = is_out(e, status);
        if (left && newest && !out) {
            leave(e, e->team);
            e->team = left;
        } else if (left) {
            heddle_leave(left);
        }
        left = NULL;
        wait_us(status == UCC_ERR_NO_RESOURCE ? 20000 : 0);
        attempts++;
    }
    if (e->local == 0) {
        process_add(e->side->process, ATTEMPTS, attempts);
    }
    if (left) {
        leave(e, e->team);
        e->team = left;
        out = is_out(e, UCC_OK);
    }
    return !out;
}

/* Likewise, with a common decision after each attempt, in the team that has failed. False: as
 * above. */
static bool settle(endpoint_t *e) {
    heddle_ep_t *left = NULL;
    uint64_t good = 0, attempts = 0;
    bool out = false;
    while (!good && !out) {
        ucc_status_t status = heddle_shrink(e->team, &left);
        status = status == UCC_OK ? heddle_barrier(left) : status;
        good = status == UCC_OK;
        attempts++;
        status = heddle_agree(e->team, &good, NULL, NULL);
        good = good && status == UCC_OK;
        out = is_out(e, status);
        if (left && !good) {
            heddle_leave(left);
            left = NULL;
        }
    }
    if (e->local == 0) {
        process_add(e->side->process, ATTEMPTS, attempts);
    }
    if (left) {
        leave(e, e->team);
        e->team = left;
    }
    return !out;
}

static void live(endpoint_t *e) {
    side_t *side = e->side;
    const scenario_t *s = side->s;
    uint32_t me = side->process->me;
    bool over = false, goes_on = true;
    ucc_status_t status = see_members(e, e->team);
    if (status != UCC_OK) {
        complain(side, "the first team", status);
    }
    if (pthread_barrier_wait(&side->meet) == PTHREAD_BARRIER_SERIAL_THREAD) {
        if (s->lacks[me]) {
            limit_descriptors(s->spare[me]);
        }
        process_set(side->process, RUNS, 1);
    }
    while (!over && goes_on) {
        status = status == UCC_OK ? run_all(e, &over) : status;
        process_note(side->process, "mask %" PRIx64 ": operation %" PRIu64 ": %s", e->mask,
                     e->operations, ucc_status_string(status));
        goes_on = over || (s->part == AGREE ? settle(e) : shrink(e));
        status = over || !goes_on ? status : see_members(e, e->team);
    }
}

static void *thread(void *arg) {
    side_t *side = arg;
    endpoint_t e = {.side = side, .local = atomic_fetch_add(&side->next, 1)};
    e.random = side->s->seed * 31 + side->process->me;
    e.src = heaps_alloc(MOST_BYTES + 4096, true);
    e.dst = heaps_alloc(MOST_BYTES + 4096, true);
    memset(e.src, 0, MOST_BYTES + 4096);
    memset(e.dst, 0, MOST_BYTES + 4096);
    must(heddle_join(side->group, e.local, &e.first), "heddle_join");
    e.team = e.first;
    live(&e);
    pthread_barrier_wait(&side->meet);
    while (e.n_kept > 0) {
        heddle_leave(e.kept[--e.n_kept]);
    }
    if (e.team != e.first) {
        heddle_leave(e.team);
    }
    heddle_leave(e.first);
    heaps_free(e.src);
    heaps_free(e.dst);
    return NULL;
}

static void configure(const scenario_t *s) {
    setenv("HEDDLE_LOG_LEVEL", "warn", 0);
    setenv("UCX_LOG_LEVEL", "fatal", 0);
    setenv("HEDDLE_NET_QUORUM", s->quorum ? "y" : "n", 1);
    if (s->by_tcp) {
        setenv("HEDDLE_NET_SHM", "n", 1);
        setenv("HEDDLE_NET_TLS", "tcp", 1);
    }
}

static int work(const process_t *process, void *arg) {
    const scenario_t *s = arg;
    side_t side = {.process = process, .s = s};
    pthread_t threads[SHAPE_MOST_PROCESSES];
    configure(s);
    process_set(process, PID, (uint64_t)getpid());
    dup2(s->log[process->me], STDERR_FILENO);
    mend_links(process);
    pid_t fate = await_fault(process, s);
    process_barrier(process);
    ucc_oob_coll_t oob = process_group_oob(process, 0);
    heddle_group_params_t params = {.endpoints = process->n, .oob = &oob};
    must(heddle_group_create(&params, &side.group), "heddle_group_create");
    pthread_barrier_init(&side.meet, NULL, process->n);
    for (uint32_t i = 0; i < process->n; i++) {
        must(pthread_create(&threads[i], NULL, thread, &side) ? UCC_ERR_NO_RESOURCE : UCC_OK,
             "thread");
    }
    for (uint32_t i = 0; i < process->n; i++) {
        pthread_join(threads[i], NULL);
    }
    heddle_group_destroy(side.group);
    if (hd_net_opened() && s->part != STOP) { /* something is left of a team */
        complain(&side, "the network is open at the end", UCC_ERR_LAST);
        atomic_fetch_add(&side.bad, 1);
    }
    if (fate > 0) {
        waitpid(fate, NULL, 0);
    }
    process_set(process, DONE, now_us());
    return atomic_load(&side.bad) ? 1 : 0;
}

/* --- scenarios -------------------------------------------------------------------------------- */

static event_t *add_event(scenario_t *s, fault_t fault, uint32_t process, uint64_t *random) {
    event_t *event = &s->event[s->n_events++];
    *event = (event_t){.fault = fault, .process = process};
    event->after_us = (uint32_t)random_below(random, 60000);
    return event;
}

static uint32_t somebody(const scenario_t *s, uint64_t *random) {
    uint32_t process;
    do {
        process = (uint32_t)random_below(random, s->shape.processes);
    } while (event_of(s, process));
    return process;
}

static void draw_kills(scenario_t *s, uint32_t n, uint64_t *random) {
    for (uint32_t i = 0; i < n; i++) {
        event_t *event = add_event(s, KILLED, somebody(s, random), random);
        event->after_us = i == 0                         ? event->after_us
                          : random_below(random, 2) == 0 ? s->event[0].after_us
                                                         : (uint32_t)random_below(random, 1500000);
        s->doomed |= 1u << event->process;
    }
}

static void draw_stops(scenario_t *s, uint64_t *random) {
    uint32_t n = 1 + (uint32_t)random_below(random, 3);
    n = n < s->shape.processes - 1 ? n : s->shape.processes - 1;
    draw_kills(s, (uint32_t)random_below(random, 2), random);
    for (uint32_t i = 0; i < n; i++) {
        event_t *event = add_event(s, STOPPED, somebody(s, random), random);
        double tenths = (double)random_below(random, 1000) / 1000;
        event->for_us = (uint32_t)(1e5 * pow(300, tenths)); /* 0.1 to 30 s */
    }
}

/* A host loses all others, or one; or all hosts lose those of the other half. The first processes
 * of the hosts see to it. */
static void draw_links(scenario_t *s, uint32_t hosts, uint64_t *random) {
    uint32_t kind = (uint32_t)random_below(random, 3), a = (uint32_t)random_below(random, hosts);
    uint32_t half = 1 + (uint32_t)random_below(random, (1u << hosts) - 2), after_us = 0;
    s->quorum = random_below(random, 2);
    if (kind == 0) {
        add_event(s, DOWN, a, random);
    } else if (kind == 1) {
        uint32_t b = (a + 1) % hosts;
        add_event(s, CUT, a, random)->hosts = 2u << b;
        if (random_below(random, 2)) {
            add_event(s, CUT, b, random)->hosts = 2u << a;
        }
    } else {
        for (uint32_t h = 0; h < hosts; h++) {
            uint32_t others = half >> h & 1 ? ~half & ((1u << hosts) - 1) : half;
            add_event(s, CUT, h, random)->hosts = others << 1;
        }
    }
    for (uint32_t e = 0; e < s->n_events; e++) {
        after_us = after_us ? after_us : s->event[e].after_us;
        s->event[e].after_us = after_us;
    }
}

static void draw_rest(scenario_t *s, uint64_t *random) {
    bool some_compute = random_below(random, 3) == 0, one_lacks = random_below(random, 8) == 0;
    for (uint32_t p = 0; p < s->shape.processes; p++) {
        if (some_compute && random_below(random, 3) == 0 && s->part != STOP) {
            s->computes_us[p] = (uint32_t)random_below(random, 2000000);
            s->computes_at[p] = (uint32_t)random_below(random, 100);
        }
    }
    if (one_lacks && (s->part == SHM || s->part == TCP)) {
        uint32_t p = somebody(s, random);
        s->lacks[p] = true;
        s->spare[p] = (uint32_t)random_below(random, 12);
    }
}

static scenario_t draw(uint64_t seed, part_t part, uint32_t hosts) {
    uint64_t random = seed * UINT64_C(0xD1B54A32D192ED03) + 17 + part;
    scenario_t s = {.seed = seed, .part = part};
    uint32_t least = part == LINK ? hosts : 3;
    s.shape.processes = least + (uint32_t)random_below(&random, part == LINK ? hosts + 1 : 10);
    bool threads = random_below(&random, 4) == 0;
    for (uint32_t p = 0; p < s.shape.processes; p++) {
        s.shape.endpoints[p] = 1 + (threads ? (uint32_t)random_below(&random, 3) : 0);
        s.shape.host[p] = hosts ? p % hosts + 1 : 0;
    }
    s.by_tcp = part == TCP || (part != SHM && random_below(&random, 2) == 0);
    if (part == LINK) {
        /* a host whose link is down has no way by TCP inside it, either */
        s.by_tcp = s.by_tcp && s.shape.processes == hosts;
        draw_links(&s, hosts, &random);
    } else if (part == STOP) {
        draw_stops(&s, &random);
    } else {
        draw_kills(&s, s.shape.processes > 3 ? 1 + (uint32_t)random_below(&random, 2) : 1, &random);
    }
    draw_rest(&s, &random);
    s.shape.doomed = s.doomed;
    return s;
}

/* --- what came of it -------------------------------------------------------------------------- */

enum { MOST_TIMES = 4000, MOST_TEAMS = 8 };
static struct seen {
    uint64_t rounds, faults, kills;
    uint64_t one_team, deaf[MOST_PROCESSES], given_up, splits, hangs, other, late, attempts;
    uint64_t teams[2][MOST_TEAMS]; /* part link: rounds with so many, without and with a quorum */
    uint32_t n_times;
    double longest_lack; /* of rounds in which a process lacked descriptors */
    double time[MOST_TIMES];
} seen[PARTS];

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(part_t part) {
    struct seen *at = &seen[part];
    qsort(at->time, at->n_times, sizeof(at->time[0]), by_size);
    printf("%s: %" PRIu64 " rounds, %" PRIu64 " faults, of them %" PRIu64 " kills: %" PRIu64
           " ended in one team of all; a process too many lost because it was deaf:",
           part_name[part], at->rounds, at->faults, at->kills, at->one_team);
    for (uint32_t i = 1; i < 4; i++) {
        printf(" %u in %" PRIu64, i, at->deaf[i]);
    }
    printf("; otherwise: in %" PRIu64 "; splits %" PRIu64 ", hangs %" PRIu64 ", other failures "
           "%" PRIu64 "\n",
           at->given_up, at->splits, at->hangs, at->other);
    if (part == LINK) {
        for (uint32_t q = 0; q < 2; q++) {
            printf("link, NET_QUORUM=%s: teams that went on:", q ? "y" : "n");
            for (uint32_t i = 0; i < MOST_TEAMS; i++) {
                printf(" %u in %" PRIu64 ",", i, at->teams[q][i]);
            }
            printf(" rounds\n");
        }
    }
    if (at->n_times > 0) {
        printf("%s: seconds until the new team: median %.3f, 90th %.3f, 99th %.3f, most %.3f; "
               "%.3f with too few descriptors; late, for the load, in %" PRIu64 " rounds; %" PRIu64
               " attempts at most\n",
               part_name[part], at->time[at->n_times / 2], at->time[at->n_times * 9 / 10],
               at->time[at->n_times * 99 / 100], at->time[at->n_times - 1], at->longest_lack,
               at->late, at->attempts);
    }
    fflush(stdout);
}

static void tell(const scenario_t *s, const outcome_t *o, const char *what) {
    static char text[LOG_BYTES];
    printf("%s seed %" PRIu64 ": %s: %s by %s%s\n", part_name[s->part], s->seed, what,
           shape_name(&s->shape), s->by_tcp ? "TCP" : "shared memory", s->quorum ? ", quorum" : "");
    for (uint32_t e = 0; e < s->n_events; e++) {
        const event_t *event = &s->event[e];
        printf("  process %u %s after %u us, for %u us, %x\n", event->process,
               fault_name[event->fault], event->after_us, event->for_us, event->hosts);
    }
    for (uint32_t p = 0; p < s->shape.processes; p++) {
        ssize_t n = pread(s->log[p], text, sizeof(text) - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        text[n > MOST_SHOWN ? MOST_SHOWN : n] = '\0';
        printf("  process %u%s: status %x, mask %" PRIx64 ", given up %" PRIu64 ", refused %" PRIu64
               ", attempts %" PRIu64 ", computes %u us at %u; formed %.3f s, done %.3f s\n%s",
               p, s->lacks[p] ? " (lacks descriptors)" : "", o->status[p], o->value[p][MASK],
               o->value[p][GIVEN_UP], o->value[p][REFUSED], o->value[p][ATTEMPTS],
               s->computes_us[p], s->computes_at[p], (double)o->value[p][FORMED_AT] * 1e-6,
               (double)o->value[p][DONE] * 1e-6, text);
    }
    fflush(stdout);
}

/* Seconds from the last thing that others had to wait for until the last one was in its team. */
static double time_of(const scenario_t *s, const outcome_t *o) {
    uint64_t from = 0, to = 0;
    for (uint32_t p = 0; p < s->shape.processes; p++) {
        const uint64_t *value = o->value[p];
        bool counts = !(s->doomed >> p & 1) && !s->lacks[p] && !value[GIVEN_UP] && !value[REFUSED];
        from = value[OVER_AT] > from ? value[OVER_AT] : from;
        from = value[FREE_AT] > from ? value[FREE_AT] : from;
        to = counts && value[FORMED_AT] > to ? value[FORMED_AT] : to;
    }
    return to > from ? (double)(to - from) * 1e-6 : 0;
}

typedef struct result {
    uint32_t teams, deaf, given_up, hung, failed, errors;
} result_t;

static result_t see(const scenario_t *s, const outcome_t *o) {
    result_t r = {.teams = 0};
    uint64_t masks[MOST_PROCESSES];
    for (uint32_t p = 0; p < s->shape.processes; p++) {
        const uint64_t *value = o->value[p];
        bool doomed = s->doomed >> p & 1, known = false;
        r.hung += !doomed && WIFSIGNALED(o->status[p]) && WTERMSIG(o->status[p]) == SIGKILL;
        r.failed += !doomed && o->status[p] != 0;
        r.deaf += !s->lacks[p] && value[GIVEN_UP] == DEAF;
        r.given_up += !s->lacks[p] && value[GIVEN_UP] == LOST;
        if (doomed || s->lacks[p] || o->status[p] || value[GIVEN_UP] || value[REFUSED]) {
            continue;
        }
        r.errors += value[FIRST_ERROR] != 0;
        for (uint32_t i = 0; i < r.teams; i++) {
            known = known || masks[i] == value[MASK];
        }
        if (!known) {
            masks[r.teams++] = value[MASK];
        }
    }
    return r;
}

static bool judge(const scenario_t *s, const outcome_t *o, const result_t *r) {
    struct seen *at = &seen[s->part];
    bool killed = s->doomed != 0, link = s->part == LINK;
    uint32_t most = link ? (s->quorum ? 1 : 2) : 1;
    at->teams[s->quorum][r->teams < MOST_TEAMS ? r->teams : MOST_TEAMS - 1]++;
    at->hangs += r->hung > 0;
    at->other += !r->hung && r->failed > 0;
    at->splits += !r->hung && r->teams > most;
    at->given_up += r->given_up > 0;
    at->deaf[r->deaf]++;
    bool good = !r->failed && r->teams <= most && (link || (!r->given_up && r->teams == 1));
    good = good && (s->part == STOP && !killed ? !r->errors : true);
    good = good && (!s->by_tcp || link || !r->deaf) &&
           r->deaf <= (uint32_t)__builtin_popcount(s->doomed);
    at->one_team += good && !r->deaf;
    if (!good) {
        char what[120];
        snprintf(what, sizeof(what), "BAD: %u teams, %u hang, %u failed, %u deaf, %u given up",
                 r->teams, r->hung, r->failed, r->deaf, r->given_up);
        tell(s, o, what);
    } else if (r->deaf > 1 || (link && r->given_up)) {
        tell(s, o, "good, but see");
    }
    return good;
}

/* A process waits LATE_S with a processor to run on; where there are more that want one, longer. */
static double fair_limit(void) {
    double load = 0, processors = (double)sysconf(_SC_NPROCESSORS_ONLN);
    (void)getloadavg(&load, 1);
    return LATE_S * (load > 2 * processors ? load / (2 * processors) : 1);
}

static void note_time(const scenario_t *s, const outcome_t *outcome, const result_t *result) {
    struct seen *at = &seen[s->part];
    double seconds = time_of(s, outcome);
    bool lacks = false;
    for (uint32_t p = 0; p < s->shape.processes; p++) {
        lacks = lacks || s->lacks[p];
    }
    if (lacks) {
        at->longest_lack = seconds > at->longest_lack ? seconds : at->longest_lack;
    } else if (at->n_times < MOST_TIMES && seconds > 0) {
        at->time[at->n_times++] = seconds;
    }
    if (seconds > fair_limit() && !result->failed && s->part != LINK) {
        at->late++;
        tell(s, outcome, "late");
    }
}

static void run(scenario_t *s) {
    struct seen *at = &seen[s->part];
    uint64_t longest = 0;
    for (uint32_t p = 0; p < s->shape.processes; p++) {
        s->log[p] = memfd_create("log", 0);
        (void)fcntl(s->log[p], F_SETFL, O_APPEND);
    }
    for (uint32_t e = 0; e < s->n_events; e++) {
        longest = s->event[e].for_us > longest ? s->event[e].for_us : longest;
        at->kills += s->event[e].fault == KILLED;
    }
    at->rounds++;
    at->faults += s->n_events;
    outcome_t outcome = processes_run(&s->shape, LIMIT_S + 20 + (double)longest * 1e-6, work, s);
    result_t result = see(s, &outcome);
    if (!judge(s, &outcome, &result)) {
        stress_error("%s seed %" PRIu64 ": see the output", part_name[s->part], s->seed);
    }
    note_time(s, &outcome, &result);
    for (uint32_t p = 0; p < s->shape.processes; p++) {
        at->attempts =
            outcome.value[p][ATTEMPTS] > at->attempts ? outcome.value[p][ATTEMPTS] : at->attempts;
        close(s->log[p]);
    }
}

int main(int argc, char **argv) {
    static const uint64_t full[PARTS] = {2000, 1000, 100, 100, 1000};
    const char *why = "";
    stress_begin_alone(argc, argv);
    if (!probe_network()) {
        return stress_skip("several processes", "this build has no network");
    }
    uint32_t hosts = processes_hosts(&why);
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    bool asked = argc > 1 || (getenv("HEDDLE_STRESS_SCALE") && stress.percent >= 100);
    for (int part = 0; part < PARTS; part++) {
        bool wanted = hosts > 1 ? part != STOP : part != LINK;
        if (!wanted || (argc > 3 && strcmp(argv[3], part_name[part]) != 0)) {
            continue;
        }
        uint64_t most = hosts > 1 && part != LINK ? full[part] / 10 : full[part];
        uint64_t n = stress_scaled(asked ? most : most / 100);
        for (uint64_t i = 0; i < n; i++) {
            scenario_t s = draw(first + i, (part_t)part, hosts);
            run(&s);
            if (i % 50 == 49) {
                report((part_t)part);
            }
        }
        report((part_t)part);
    }
    return stress_end();
}
