/* processes.c: see processes.h.
 *
 * The shared memory is mapped before the fork: counters, a line of text and results for each
 * process, and the boards. A board has counters and, for each member, two chunks. A round is one
 * allgather of all members, and a step of it moves one chunk of each: members write step s when all
 * have read step s - 2, and read it when all have written it. Nobody can be further than a step
 * ahead, so sums over all members tell whether all are there. No locks: whoever is killed leaves
 * nothing behind that others could wait for.
 */
#define _GNU_SOURCE
#include "processes.h"
#include "deadline.h"
#include "random.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 4096, NOTE = 240, EXTRA_TESTS = 2 };

/* Sums over all members; each is written by whoever goes a step on. */
typedef struct board {
    _Atomic uint64_t entered;       /* rounds */
    _Atomic uint64_t written, read; /* steps */
} board_t;

/* A member's part of a board. What is plain is the member's own. */
typedef struct seat {
    uint64_t rounds, steps;
    _Atomic uint64_t
        bytes[2]; /* of its call, by the parity of the round: to see whether sizes differ */
    unsigned char chunk[2][CHUNK];
} seat_t;

typedef struct desk {
    char note[NOTE];
    _Atomic uint64_t value[PROCESS_VALUES];
} desk_t;

struct process_area {
    size_t bytes;
    _Atomic uint64_t met;  /* barriers, over all processes */
    _Atomic uint32_t dead; /* of the doomed */
    uint32_t members[2];   /* of the boards of endpoints, and of those of processes */
    board_t board[2][PROCESS_BOARDS];
    seat_t *seats[2][PROCESS_BOARDS];
    desk_t desk[SHAPE_MOST_PROCESSES];
    uint64_t barriers[SHAPE_MOST_PROCESSES];
};
typedef struct process_area area_t;

static void nap(long microseconds) {
    nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
}

static double slowdown(void) {
    const char *text = getenv("HEDDLE_TEST_SLOWDOWN");
    double factor = text != NULL ? atof(text) : 1.0;
    return factor > 0 ? factor : 1.0;
}

/* --- shapes --- */

uint32_t shape_size(const shape_t *shape) {
    uint32_t n = 0;
    for (uint32_t p = 0; p < shape->processes; p++) {
        n += shape->endpoints[p];
    }
    return n;
}

shape_t shape_even(uint32_t processes, uint32_t endpoints) {
    shape_t shape = {.processes = processes};
    for (uint32_t p = 0; p < processes; p++) {
        shape.endpoints[p] = endpoints;
    }
    return shape;
}

static uint32_t hosts_of(const shape_t *shape) {
    uint32_t hosts = 0;
    for (uint32_t p = 0; p < shape->processes; p++) {
        hosts = shape->host[p] > hosts ? shape->host[p] : hosts;
    }
    return hosts;
}

const char *shape_name(const shape_t *shape) {
    static _Thread_local char name[160];
    static const char *const numberings[] = {"", " interleaved", " random"};
    bool even = true;
    for (uint32_t p = 1; p < shape->processes; p++) {
        even = even && shape->endpoints[p] == shape->endpoints[0];
    }
    size_t at = 0;
    if (even) {
        at = (size_t)snprintf(name, sizeof(name), "%ux%u", shape->processes, shape->endpoints[0]);
    }
    for (uint32_t p = 0; !even && p < shape->processes; p++) {
        at += (size_t)snprintf(name + at, sizeof(name) - at, "%s%u", p ? "," : "",
                               shape->endpoints[p]);
    }
    at += (size_t)snprintf(name + at, sizeof(name) - at, "%s", numberings[shape->numbering]);
    if (hosts_of(shape) > 0) {
        snprintf(name + at, sizeof(name) - at, " on %u hosts", hosts_of(shape));
    }
    return name;
}

/* Fills process_of by the numbering. */
static void number(const shape_t *shape, uint32_t *process_of) {
    uint32_t n = shape_size(shape), left[SHAPE_MOST_PROCESSES], at = 0;
    memcpy(left, shape->endpoints, sizeof(left));
    for (uint32_t p = 0; at < n; p = (p + 1) % shape->processes) {
        uint32_t some = shape->numbering == NUMBERING_INTERLEAVED ? left[p] > 0 : left[p];
        left[p] -= some;
        for (; some > 0; some--) {
            process_of[at++] = p;
        }
    }
    uint64_t random = shape->seed + 1;
    for (uint32_t i = n; shape->numbering == NUMBERING_RANDOM && i > 1; i--) {
        uint32_t k = (uint32_t)random_below(&random, i);
        uint32_t last = process_of[i - 1];
        process_of[i - 1] = process_of[k];
        process_of[k] = last;
    }
}

/* --- hosts --- */

static int space[SHAPE_MOST_PROCESSES]; /* descriptors of the hosts' IPC namespaces; 0: not made */

uint32_t processes_hosts(const char **why) {
    const char *names = getenv("HEDDLE_TEST_HOSTS");
    uint32_t n = 0;
    for (const char *at = names; at != NULL && *at != '\0'; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        n += *at != '\0';
    }
    if (n == 0 && why != NULL) {
        *why = geteuid() == 0 ? "no hosts: run it by scripts/netns run 3 -- ..." : "needs root";
    }
    return n;
}

void process_enter_host(uint32_t host) {
    char path[256] = "/var/run/netns/";
    const char *at = getenv("HEDDLE_TEST_HOSTS");
    at = at != NULL ? at + strspn(at, " ") : "";
    for (uint32_t h = 1; h < host; h++) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    strncat(path, at, strcspn(at, " "));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*at == '\0' || fd < 0 || setns(fd, CLONE_NEWNET) != 0 ||
        (space[host - 1] && setns(space[host - 1], CLONE_NEWIPC) != 0)) {
        fprintf(stderr, "FATAL: can't enter host %u (%s): %s\n", host, path, strerror(errno));
        exit(1);
    }
    close(fd);
}

void process_limit_files(size_t bytes) {
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    must(getrlimit(RLIMIT_FSIZE, &limit) ? UCC_ERR_NO_MESSAGE : UCC_OK, "getrlimit");
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    must(setrlimit(RLIMIT_FSIZE, &limit) ? UCC_ERR_NO_MESSAGE : UCC_OK, "setrlimit");
}

void process_set_link(bool up) {
    struct ifreq request = {.ifr_name = "net0"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) != 0) {
        perror("FATAL: net0");
        exit(1);
    }
    request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    (void)ioctl(fd, SIOCSIFFLAGS, &request);
    close(fd);
}

/* UCX takes processes for those of one host if they have the same IPC namespace, and uses shared
 * memory then: each host has one of its own. Called by the launcher, whose own one stays as it
 * is. */
static void make_spaces(uint32_t hosts) {
    int mine = open("/proc/self/ns/ipc", O_RDONLY | O_CLOEXEC);
    bool made = mine >= 0 && hosts <= SHAPE_MOST_PROCESSES;
    for (uint32_t h = 0; made && h < hosts; h++) {
        if (space[h] == 0) {
            made = unshare(CLONE_NEWIPC) == 0 &&
                   (space[h] = open("/proc/self/ns/ipc", O_RDONLY | O_CLOEXEC)) > 0;
        }
    }
    if (!made || setns(mine, CLONE_NEWIPC) != 0) {
        fprintf(stderr, "FATAL: no IPC namespaces for %u hosts: %s\n", hosts, strerror(errno));
        exit(1);
    }
    close(mine);
}

/* /sys shows the devices of whoever mounted it, and UCX looks for devices there. */
static void mount_sys(void) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_SLAVE | MS_REC, NULL) != 0 ||
        umount2("/sys", MNT_DETACH) != 0 || mount("sys", "/sys", "sysfs", 0, NULL) != 0) {
        fprintf(stderr, "FATAL: can't mount /sys for a host: %s\n", strerror(errno));
        exit(1);
    }
}

uint64_t process_wire_bytes(void) {
    FILE *file = fopen("/proc/self/net/dev", "r");
    char line[512], name[64];
    uint64_t sum = 0, in, out;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, " %63[^:]: %lu %*u %*u %*u %*u %*u %*u %*u %lu", name, &in, &out) == 3 &&
            strcmp(name, "lo") != 0) {
            sum += in + out;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return sum;
}

/* --- the exchange --- */

typedef struct member {
    area_t *area;
    uint32_t kind, board, index; /* kind: 0 among endpoints, 1 among processes */
} member_t;

typedef struct request {
    member_t member;
    const unsigned char *from;
    unsigned char *to;
    size_t bytes, done; /* of each member's */
    uint64_t round;     /* how many there were before */
    uint32_t tests;
    bool complete;
} request_t;

static seat_t *seat_of(const member_t *m) {
    return &m->area->seats[m->kind][m->board][m->index];
}

static ucc_status_t oob_allgather(void *from, void *to, size_t bytes, void *info, void **out) {
    const member_t *m = info;
    seat_t *seat = seat_of(m);
    request_t *r = must_alloc(1, sizeof(*r));
    *r = (request_t){.member = *m, .from = from, .to = to, .bytes = bytes, .round = seat->rounds++};
    atomic_store_explicit(&seat->bytes[r->round % 2], bytes, memory_order_relaxed); // see below
    // publishes the bytes; pairs with the acquire in everybody_is_in
    atomic_fetch_add_explicit(&m->area->board[m->kind][m->board].entered, 1, memory_order_release);
    *out = r;
    return UCC_OK;
}

static void compare_sizes(const request_t *r) {
    const member_t *m = &r->member;
    for (uint32_t i = 0; i < m->area->members[m->kind]; i++) {
        seat_t *seat = &m->area->seats[m->kind][m->board][i];
        // published by the add that the caller has seen
        uint64_t bytes = atomic_load_explicit(&seat->bytes[r->round % 2], memory_order_relaxed);
        if (bytes != r->bytes) {
            fprintf(stderr, "FATAL: allgather %lu of %zu bytes at member %u, of %lu at member %u\n",
                    r->round, r->bytes, m->index, bytes, i);
            abort();
        }
    }
}

/* All members have done something `times` times. */
static bool all(const member_t *m, _Atomic uint64_t *sum, uint64_t times) {
    // what they did before they added is seen
    return atomic_load_explicit(sum, memory_order_acquire) >= times * m->area->members[m->kind];
}

/* One chunk of each. False: not yet. */
static bool step(request_t *r) {
    const member_t *m = &r->member;
    board_t *board = &m->area->board[m->kind][m->board];
    seat_t *mine = seat_of(m);
    uint64_t s = mine->steps / 2; /* twice a step: written, and read */
    size_t left = r->bytes - r->done, some = left < CHUNK ? left : CHUNK;
    if (mine->steps % 2 == 0) {
        if (s >= 2 && !all(m, &board->read, s - 1)) {
            return false;
        }
        memcpy(mine->chunk[s % 2], r->from + r->done, some);
        mine->steps++;
        // publishes the chunk; pairs with the acquire in all
        atomic_fetch_add_explicit(&board->written, 1, memory_order_release);
    }
    if (!all(m, &board->written, s + 1)) {
        return false;
    }
    for (uint32_t i = 0; i < m->area->members[m->kind]; i++) {
        seat_t *seat = &m->area->seats[m->kind][m->board][i];
        memcpy(r->to + i * r->bytes + r->done, seat->chunk[s % 2], some);
    }
    mine->steps++;
    r->done += some;
    // the chunks are read before they may be written again; pairs with the acquire in all
    atomic_fetch_add_explicit(&board->read, 1, memory_order_release);
    return true;
}

static ucc_status_t oob_test(void *request) {
    request_t *r = request;
    const member_t *m = &r->member;
    if (r->complete) {
        return UCC_OK;
    }
    if (atomic_load_explicit(&m->area->dead, memory_order_relaxed) > 0) { // a number
        return UCC_ERR_NO_MESSAGE;
    }
    if (!all(m, &m->area->board[m->kind][m->board].entered, r->round + 1)) {
        sched_yield(); // whoever polls here has nothing better to do
        return UCC_INPROGRESS;
    }
    compare_sizes(r);
    while (r->done < r->bytes) {
        if (!step(r)) {
            sched_yield();
            return UCC_INPROGRESS;
        }
    }
    if (r->tests++ < EXTRA_TESTS) {
        return UCC_INPROGRESS;
    }
    r->complete = true;
    return UCC_OK;
}

static ucc_status_t oob_free(void *request) {
    free(request);
    return UCC_OK;
}

static ucc_oob_coll_t oob_of(const process_t *process, uint32_t kind, uint32_t board,
                             uint32_t index) {
    /* One for each member of each board, for the process's lifetime: reachable, so no leak. */
    static member_t *members[2][PROCESS_BOARDS];
    static atomic_flag lock = ATOMIC_FLAG_INIT;
    uint32_t n = process->area->members[kind];
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) { // orders `members`
        sched_yield();
    }
    if (members[kind][board] == NULL) {
        members[kind][board] = must_alloc(n, sizeof(member_t));
    }
    member_t *member = &members[kind][board][index];
    *member = (member_t){process->area, kind, board, index};
    atomic_flag_clear_explicit(&lock, memory_order_release); // orders `members`
    return (ucc_oob_coll_t){.allgather = oob_allgather,
                            .req_test = oob_test,
                            .req_free = oob_free,
                            .coll_info = member,
                            .n_oob_eps = n,
                            .oob_ep = index};
}

ucc_oob_coll_t process_oob(const process_t *process, uint32_t board, uint32_t endpoint) {
    return oob_of(process, 0, board, endpoint);
}

ucc_oob_coll_t process_group_oob(const process_t *process, uint32_t board) {
    return oob_of(process, 1, board, process->me);
}

/* --- meeting, telling --- */

void process_barrier(const process_t *process) {
    area_t *area = process->area;
    uint64_t wanted = ++area->barriers[process->me] * process->shape->processes;
    deadline_t deadline = deadline_start("a barrier of processes");
    // what each did before is seen by all after
    atomic_fetch_add_explicit(&area->met, 1, memory_order_acq_rel);
    while (atomic_load_explicit(&area->met, memory_order_acquire) < wanted) {
        nap(100);
        deadline_poll(&deadline);
    }
}

void process_note(const process_t *process, const char *format, ...) {
    static pthread_mutex_t noting =
        PTHREAD_MUTEX_INITIALIZER; /* a process's threads may all do so */
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&noting);
    vsnprintf(process->area->desk[process->me].note, NOTE, format, args);
    pthread_mutex_unlock(&noting);
    va_end(args);
}

void process_expect(bool condition, const char *format, ...) {
    va_list args;
    if (condition) {
        return;
    }
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void process_set(const process_t *process, uint32_t which, uint64_t value) {
    // release: see process_get
    atomic_store_explicit(&process->area->desk[process->me].value[which], value,
                          memory_order_release);
}

void process_add(const process_t *process, uint32_t which, uint64_t value) {
    // read when the process is gone
    atomic_fetch_add_explicit(&process->area->desk[process->me].value[which], value,
                              memory_order_relaxed);
}

uint64_t process_get(const process_t *process, uint32_t of, uint32_t which) {
    // acquire: with process_set, for who tells of something that others look for then
    return atomic_load_explicit(&process->area->desk[of].value[which], memory_order_acquire);
}

uint32_t process_dead(const process_t *process) {
    return atomic_load_explicit(&process->area->dead, memory_order_relaxed); // a number
}

/* --- the launcher --- */

static area_t *area_create(const shape_t *shape) {
    uint32_t members[2] = {shape_size(shape), shape->processes};
    size_t bytes =
        sizeof(area_t) + (size_t)PROCESS_BOARDS * (members[0] + members[1]) * sizeof(seat_t);
    area_t *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(area != MAP_FAILED ? UCC_OK : UCC_ERR_NO_MEMORY, "mmap");
    area->bytes = bytes;
    seat_t *seats = (seat_t *)(area + 1);
    for (uint32_t kind = 0; kind < 2; kind++) {
        area->members[kind] = members[kind];
        for (uint32_t b = 0; b < PROCESS_BOARDS; b++, seats += members[kind]) {
            area->seats[kind][b] = seats;
        }
    }
    return area;
}

static _Noreturn void be_process(process_t *process, int (*work)(const process_t *, void *),
                                 void *arg) {
    uint32_t *mine = must_alloc(process->size, sizeof(*mine));
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody outlives the launcher */
    if (process->shape->host[process->me] != 0) {
        process_enter_host(process->shape->host[process->me]);
        mount_sys();
    }
    for (uint32_t i = 0; i < process->size; i++) {
        if (process->process_of[i] == process->me) {
            mine[process->n++] = i;
        }
    }
    process->endpoint = mine;
    int result = work(process, arg);
    process_note(process, "has ended with %d", result);
    process_limit_files(RLIM_INFINITY); /* LeakSanitizer writes until all is written */
    free(mine);
    exit(result); /* and not _exit: leaks are looked for on the way */
}

/* Takes up those that have ended; how many are left. *failed becomes true when one ended badly. */
static uint32_t take_up(const shape_t *shape, area_t *area, pid_t *pid, outcome_t *outcome,
                        bool *failed) {
    uint32_t left = 0;
    for (uint32_t p = 0; p < shape->processes; p++) {
        int status = 0;
        if (pid[p] == 0) {
            continue;
        }
        if (waitpid(pid[p], &status, WNOHANG) != pid[p]) {
            left++;
            continue;
        }
        pid[p] = 0;
        outcome->status[p] = status;
        bool killed =
            WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGALRM);
        if (killed && (shape->doomed >> p & 1)) {
            atomic_fetch_add_explicit(&area->dead, 1, memory_order_relaxed); // a number
        } else {
            *failed = *failed || status != 0;
        }
    }
    return left;
}

static void show(const shape_t *shape, const area_t *area, const pid_t *pid,
                 const outcome_t *outcome) {
    for (uint32_t p = 0; p < shape->processes; p++) {
        int status = outcome->status[p];
        char how[64] = "ended well";
        if (pid[p] != 0) {
            snprintf(how, sizeof(how), "goes on, and is killed");
        } else if (WIFSIGNALED(status)) {
            snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(status));
        } else if (status != 0) {
            snprintf(how, sizeof(how), "ended with %d", WEXITSTATUS(status));
        }
        fprintf(stderr, "%s: process %u %s: %.*s\n", shape_name(shape), p, how, NOTE - 1,
                area->desk[p].note);
    }
}

static void wait_for_all(const shape_t *shape, area_t *area, double seconds, pid_t *pid,
                         outcome_t *outcome) {
    double end = test_now() + seconds * slowdown();
    bool failed = false, late = false;
    while (take_up(shape, area, pid, outcome, &failed) > 0) {
        if (failed && end > test_now() + 5) {
            end = test_now() + 5; /* the others wait for it in vain, or end likewise */
        }
        if (test_now() < end) {
            nap(2000);
            continue;
        }
        late = true;
        show(shape, area, pid, outcome);
        for (uint32_t p = 0; p < shape->processes; p++) {
            if (pid[p] != 0) {
                kill(pid[p], SIGKILL);
                waitpid(pid[p], &outcome->status[p], 0);
                pid[p] = 0;
            }
        }
    }
    outcome->ok = !failed && !late;
    bool skips = WIFEXITED(outcome->status[0]) && WEXITSTATUS(outcome->status[0]) == PROCESS_SKIPS;
    if (failed && !late && !skips) {
        show(shape, area, pid, outcome);
    }
}

void processes_use_network(void) {
    setenv("HEDDLE_NODE", "n", 1);
    unsetenv("HEDDLE_NET");
}

bool processes_share_memory(void) {
    const char *set = getenv("HEDDLE_NODE");
    return set == NULL || strcmp(set, "n") != 0;
}

outcome_t processes_run(const shape_t *shape, double seconds,
                        int (*work)(const process_t *process, void *arg), void *arg) {
    outcome_t outcome = {.ok = false};
    area_t *area = area_create(shape);
    process_t process = {.shape = shape, .size = shape_size(shape), .area = area};
    uint32_t *process_of = must_alloc(process.size, sizeof(*process_of));
    pid_t pid[SHAPE_MOST_PROCESSES] = {0};
    number(shape, process_of);
    process.process_of = process_of;
    if (hosts_of(shape) > 0) {
        make_spaces(hosts_of(shape));
    }
    fflush(NULL); /* else each process would write what is in our buffers, too */
    for (process.me = 0; process.me < shape->processes; process.me++) {
        pid[process.me] = fork();
        must(pid[process.me] >= 0 ? UCC_OK : UCC_ERR_NO_RESOURCE, "fork");
        if (pid[process.me] == 0) {
            be_process(&process, work, arg);
        }
    }
    wait_for_all(shape, area, seconds, pid, &outcome);
    for (uint32_t p = 0; p < shape->processes; p++) {
        for (uint32_t v = 0; v < PROCESS_VALUES; v++) {
            outcome.value[p][v] = area->desk[p].value[v];
        }
    }
    munmap(area, area->bytes);
    free(process_of);
    return outcome;
}
