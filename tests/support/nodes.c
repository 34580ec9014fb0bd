/* nodes.c: see nodes.h. */
#include "nodes.h"

#include "deadline.h"
#include "team/team.h"
#include "threads/clock.h"

#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

enum { ADDRESS_ROOM = 64 * 1024 };

struct node_shared {
    _Atomic uint32_t here[2]; /* arrivals, generations */
    _Atomic uint64_t word[16];
    uint64_t identity[NODES_MOST][2];
    size_t bytes[NODES_MOST];
    uint8_t address[NODES_MOST][ADDRESS_ROOM];
};

void node_fail(const node_t *node, const char *condition, const char *file, int line,
               const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "process %u of %u: %s:%d: %s: ", node->me, node->n, file, line, condition);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    fflush(NULL);
    _exit(1);
}

void node_begin(node_t *node) {
    node->end = 0;
    node->idle = 0;
}

void node_pump(node_t *node, const char *what) {
    hd_net_pump(node->net);
    if (++node->idle % 8 == 0) {
        sched_yield();
    }
    if (node->idle % 4096 == 0) {
        double now = test_now();
        node->end = node->end > 0 ? node->end : now + 60;
        node_check(node, now < node->end, "%s hangs", what);
    }
}

void node_meet(node_t *node) {
    node_shared_t *shared = node->shared;
    uint32_t generation = atomic_load(&shared->here[1]);
    if (atomic_fetch_add(&shared->here[0], 1) + 1 == node->n) {
        atomic_store(&shared->here[0], 0);
        atomic_fetch_add(&shared->here[1], 1);
    }
    node_begin(node);
    while (atomic_load(&shared->here[1]) == generation) {
        node_pump(node, "meeting");
    }
}

_Atomic uint64_t *node_word(node_t *node, uint32_t i) {
    return &node->shared->word[i];
}

static void on_failed(void *arg, ucc_status_t why) {
    node_t *node = arg;
    atomic_store(&node->failed, (int)why);
}

hd_net_team_t *node_make_team(node_t *node, uint64_t wire) {
    hd_net_team_params_t params = {.wire = wire,
                                   .n = node->n,
                                   .me = node->me,
                                   .process = node->process,
                                   .config = node->config,
                                   .failed = on_failed,
                                   .arg = node};
    hd_net_team_t *team;
    (void)hd_net_team_create(node->net, &params, &team);
    return team;
}

static hd_config_t *configure(const char *const *settings) {
    hd_config_t *config;
    must(hd_config_read(HD_CFG_SCOPE_LIB, NULL, NULL, &config), "configuration");
    for (; settings && *settings; settings += 2) {
        must(hd_config_modify(config, NULL, settings[0], settings[1]), settings[0]);
    }
    return config;
}

static void join(node_t *node) {
    node_shared_t *shared = node->shared;
    size_t bytes;
    ucc_status_t status = hd_net_open(node->config, false, &node->net);
    node_check(node, status == UCC_OK, "%d", status);
    const void *address = hd_net_address(node->net, false, &bytes);
    node_check(node, bytes <= ADDRESS_ROOM, "%zu", bytes);
    memcpy(shared->address[node->me], address, bytes);
    shared->bytes[node->me] = bytes;
    shared->identity[node->me][0] = 4711;
    shared->identity[node->me][1] = node->me;
    node_meet(node);
    for (uint32_t i = 0; i < node->n; i++) {
        node->process[i] = (hd_net_process_t){
            .identity = {4711, i}, .address = shared->address[i], .bytes = shared->bytes[i]};
    }
    node->team = node_make_team(node, 77);
    node_check(node, node->team, "no team");
    node_meet(node);
}

static void live(node_t *node, const char *const *settings, void (*body)(node_t *, void *),
                 void *arg) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    hd_clock_init();
    node->config = configure(settings);
    join(node);
    body(node, arg);
    node_meet(node);
    if (node->team) {
        hd_net_team_destroy(node->team);
    }
    node_meet(node); /* nobody closes while another still sends */
    hd_net_close(node->net);
    hd_config_release(node->config);
}

uint32_t nodes_run(uint32_t n, const char *const *settings, void (*body)(node_t *, void *),
                   void *arg) {
    uint32_t failed = 0;
    node_shared_t *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared != MAP_FAILED ? UCC_OK : UCC_ERR_NO_MEMORY, "shared memory");
    fflush(NULL);
    for (uint32_t i = 0; i < n; i++) {
        if (fork() == 0) {
            node_t node = {.n = n, .me = i, .shared = shared};
            live(&node, settings, body, arg);
            fflush(NULL);
            exit(0); /* so that a sanitizer looks for leaks */
        }
    }
    for (uint32_t ended = 0; ended < n;
         ended++) { /* in any order: what is not reaped seems to live */
        int status = 0;
        pid_t who = wait(&status);
        if (status != 0) {
            if (WIFSIGNALED(status)) {
                fprintf(stderr, "process %d of %u: signal %d\n", (int)who, n, WTERMSIG(status));
            }
            failed++;
        }
    }
    munmap(shared, sizeof(*shared));
    return failed;
}

/* --- legs ------------------------------------------------------------------------------------- */

static bool step(hd_leg_t *leg) {
    run_t *run = leg->owner;
    ucc_status_t status = run->cancel != UCC_OK ? hd_leg_cancel(leg, run->cancel) : hd_leg_go(leg);
    if (status == UCC_INPROGRESS) {
        return false;
    }
    run->status = status;
    atomic_store(&run->over, true);
    return true;
}

static ucc_status_t combine(hd_leg_t *leg, uint32_t k, const void *const *operand, void *dst,
                            size_t first, size_t count, bool last) {
    run_t *run = leg->owner;
    (void)first;
    if (run->delayed < run->delays) {
        run->delayed++;
        return UCC_INPROGRESS;
    }
    run->delayed = 0;
    hd_reducer_t reducer = run->reducer;
    reducer.root = last ? reducer.root : reducer.inner;
    return hd_reduce_tree(&reducer, k, operand, 0, 1, &dst, 0, count, HD_STORES_PLAIN);
}

void run_init(run_t *run, node_t *node, uint8_t type) {
    memset(run, 0, sizeof(*run));
    run->node = node;
    run->leg.team = node->team;
    run->leg.step = step;
    run->leg.owner = run;
    run->leg.call.type = type;
    run->leg.call.n = node->n;
    run->leg.call.me = node->me;
    run->leg.call.signature = 5;
    run->leg.call.combine = combine;
}

void run_plan(run_t *run, uint8_t algorithm, uint32_t radix, size_t bytes) {
    hd_leg_t *leg = &run->leg;
    leg->plan = hd_net_plan_of(leg->team, &leg->call, bytes);
    if (algorithm && leg->call.n > 1) {
        leg->plan = (hd_net_plan_t){algorithm, radix};
    }
    size_t scratch = hd_net_scratch(&leg->call, &leg->plan);
    leg->call.scratch = scratch ? aligned_alloc(64, (scratch + 63) / 64 * 64) : NULL;
}

ucc_status_t run_wait(run_t *run, const char *what) {
    node_begin(run->node);
    while (!atomic_load(&run->over)) {
        node_pump(run->node, what);
    }
    free(run->leg.call.scratch);
    run->leg.call.scratch = NULL;
    return run->status;
}
