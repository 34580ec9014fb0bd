/* chaos.c: programs that err. Each scenario is a process of its own, made from a seed: a few
 * endpoints, on threads of their own or driven by one, run a list of random collectives, and one of
 * them errs at a random place. It never joins, returns early, leaves, calls another collective or
 * with another count, root, datatype or operation, dies inside a reduction, forks and goes on in
 * the child, is late for a time-out, aborts, destroys the group before all have joined, or is only
 * slow.
 *
 * What must come of it: every endpoint ends with a status, or waits, and a line in the log says so
 * and names whom it waits for; following the names leads to the endpoint that erred. Nobody hangs
 * in silence, nothing crashes, and where every argument was right, data that came with UCC_OK is
 * right.
 *
 * usage: chaos [PERCENT] [FIRST_SEED]     100 percent are 400 scenarios; FIRST_SEED repeats a
 * failure environment: CHAOS_SCENARIOS, the number of scenarios; CHAOS_KEEP=1 prints every scenario
 * and its log
 */
#include "stress.h"

#include "../support/cases.h"
#include "../support/random.h"

#include <fcntl.h>
#include <heddle/heddle.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 12, STEPS_MAX = 12, LOG_MAX = 1 << 20, BOUND_S = 20, AT_ONCE = 3 };

#define STALL   "0.05"
#define TIMEOUT 0.1

typedef enum fault {
    FAULT_NONE,
    FAULT_SLOW,
    FAULT_NEVER_JOINS,
    FAULT_RETURNS,
    FAULT_LEAVES,
    FAULT_TYPE,
    FAULT_COUNT,
    FAULT_ZERO,
    FAULT_ROOT,
    FAULT_OP,
    FAULT_DT,
    FAULT_DIES,
    FAULT_FORKS,
    FAULT_TIMES_OUT,
    FAULT_ABORTS,
    FAULT_GROUP_GONE,
    FAULTS
} fault_t;

static const char *const fault_name[FAULTS] = {
    "none", "slow", "never joins", "returns early", "leaves", "type",      "count",  "zero count",
    "root", "op",   "datatype",    "dies",          "forks",  "times out", "aborts", "group gone"};

typedef enum driver_kind { BY_CALLS, BY_LOOPS, BY_WAIT, BY_ONE, DRIVER_KINDS } driver_kind_t;

static const char *const driver_kind_name[DRIVER_KINDS] = {"blocking calls", "loops", "waits",
                                                           "one thread"};

typedef enum fate { RUNNING, ENDED, FAILED, AWAY } fate_t;

typedef struct scenario {
    uint64_t seed, random;
    uint32_t n, steps, victim, fault_step;
    fault_t fault;
    driver_kind_t driver;
    bool check, tagged, shared;
    const char *arrival;
    prepared_t *step[STEPS_MAX];
    heddle_group_t *group;
    struct endpoint {
        heddle_ep_t *ep;
        ucc_coll_req_h request;
        _Atomic uint32_t at;
        _Atomic int outcome; /* fate_t */
        ucc_status_t status;
    } endpoint[MOST];
    _Atomic uint32_t joined;
    _Atomic uint32_t right[STEPS_MAX]; /* bits: the endpoints at which it ended with UCC_OK */
} scenario_t;

static scenario_t *current; /* for the reduction that dies */
static _Thread_local uint32_t me = UINT32_MAX;

/* --- making one ------------------------------------------------------------------------------- */

static uint64_t below(scenario_t *s, uint64_t limit) {
    return random_below(&s->random, limit);
}

static void finish(scenario_t *s, uint32_t i, fate_t outcome, ucc_status_t status) {
    s->endpoint[i].status = status;
    atomic_store(&s->endpoint[i].outcome, (int)outcome);
}

/* A reduction over bytes of which the victim never comes back. */
static ucc_status_t deadly_reduce(const ucc_reduce_cb_params_t *p) {
    scenario_t *s = current;
    if (me == s->victim) {
        finish(s, me, AWAY, UCC_OK);
        pthread_exit(NULL);
    }
    unsigned char *out = p->dst;
    const unsigned char *first = p->src1;
    for (size_t i = 0; i < p->count; i++) {
        out[i] = first[i];
        for (size_t j = 0; j < p->n_vectors; j++) {
            out[i] ^= ((const unsigned char *)p->src2)[j * p->stride + i];
        }
    }
    return UCC_OK;
}

static ucc_datatype_t deadly_datatype(void) {
    ucc_generic_dt_ops_t ops = {.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS,
                                .flags =
                                    UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE,
                                .contig_size = 1,
                                .reduce = {.cb = deadly_reduce}};
    ucc_datatype_t dt;
    must(ucc_dt_create_generic(&ops, NULL, &dt), "ucc_dt_create_generic");
    return dt;
}

static coll_case_t random_case(scenario_t *s, uint32_t step) {
    static const uint64_t counts[] = {1, 3, 6, 7, 40, 150, 1000, 5000, 40000};
    static const ucc_datatype_t dts[] = {UCC_DT_INT32, UCC_DT_FLOAT64, UCC_DT_UINT8};
    uint64_t most = below(s, 4) == 0 ? 9 : 6;
    coll_case_t c = {.type = coll_type_at((uint32_t)below(s, COLL_TYPES)),
                     .size = s->n,
                     .root = (uint32_t)below(s, s->n),
                     .count = counts[below(s, most)],
                     .dt = reference_datatype(dts[below(s, 3)]),
                     .op = below(s, 2) ? UCC_OP_SUM : UCC_OP_MAX,
                     .in_place = (in_place_t)below(s, IN_PLACES),
                     .layout = (layout_t)below(s, LAYOUTS),
                     .tagged = s->tagged,
                     .tag = (uint16_t)(step / 2),
                     .seed = random_next(&s->random)};
    c.dt = c.dt ? c.dt : &reference_datatypes[0];
    return c;
}

/* The step at which the victim errs must be one whose collective has what it gets wrong. */
static void shape_fault_step(scenario_t *s, coll_case_t *c) {
    switch (s->fault) {
    case FAULT_COUNT:
    case FAULT_ZERO:
        while (!coll_moves_data(c->type) || coll_is_v(c->type)) {
            *c = random_case(s, s->fault_step);
        }
        break;
    case FAULT_ROOT:
        /* of the others, whoever believes to be the root would use buffers that it has not */
        while (c->type != UCC_COLL_TYPE_BCAST && c->type != UCC_COLL_TYPE_MCAST &&
               c->type != UCC_COLL_TYPE_FANIN && c->type != UCC_COLL_TYPE_FANOUT) {
            *c = random_case(s, s->fault_step);
        }
        break;
    case FAULT_OP:
    case FAULT_DT:
        while (!coll_is_reduction(c->type)) {
            *c = random_case(s, s->fault_step);
        }
        break;
    case FAULT_DIES:
        c->type = UCC_COLL_TYPE_ALLREDUCE;
        c->dt = reference_datatype(UCC_DT_UINT8);
        c->in_place = IN_PLACE_NO;
        break;
    default:
        break;
    }
}

/* Other counts than the buffers have room for would be an error of this program, not of the one it
 * plays: all are smaller. */
static void spoil(scenario_t *s) {
    prepared_t *p = s->step[s->fault_step];
    ucc_coll_args_t *a = &p->args[s->victim];
    switch (s->fault) {
    case FAULT_TYPE:
        if (a->coll_type == UCC_COLL_TYPE_BARRIER) {
            a->coll_type = UCC_COLL_TYPE_FANIN;
            a->root = s->victim;
        } else {
            a->coll_type = UCC_COLL_TYPE_BARRIER;
        }
        break;
    case FAULT_COUNT:
        a->src.info.count = a->src.info.count / s->n / 2 * s->n;
        a->dst.info.count = a->dst.info.count / s->n / 2 * s->n;
        break;
    case FAULT_ZERO:
        a->src.info.count = a->dst.info.count = 0;
        break;
    case FAULT_ROOT:
        a->root = (p->c.root + 1 + below(s, s->n - 1)) % s->n;
        break;
    case FAULT_OP:
        a->op = p->c.op == UCC_OP_SUM ? UCC_OP_MAX : UCC_OP_SUM;
        break;
    case FAULT_DT:
        a->src.info.datatype = a->dst.info.datatype = UCC_DT_INT8;
        break;
    case FAULT_DIES: {
        ucc_datatype_t dt = deadly_datatype();
        for (uint32_t i = 0; i < s->n; i++) {
            p->args[i].src.info.datatype = p->args[i].dst.info.datatype = dt;
        }
        break;
    }
    default:
        break;
    }
}

static bool errs_in_arguments(fault_t fault) {
    return (fault >= FAULT_TYPE && fault <= FAULT_DT) || fault == FAULT_DIES;
}

/* Everything that follows from the seed, but no buffers yet. */
static void choose(scenario_t *s, uint64_t seed) {
    static const char *const arrivals[] = {"auto", "flat", "counter", "static", "butterfly"};
    *s = (scenario_t){.seed = seed, .random = seed * 0x9E3779B97F4A7C15u + 1};
    s->n = 2 + (uint32_t)below(s, below(s, 3) ? 5 : MOST - 1);
    s->steps = 2 + (uint32_t)below(s, STEPS_MAX - 1);
    s->victim = (uint32_t)below(s, s->n);
    s->fault_step = (uint32_t)below(s, s->steps);
    s->fault = (fault_t)below(s, FAULTS);
    s->driver = (driver_kind_t)below(s, DRIVER_KINDS);
    s->check = below(s, 5) == 0;
    s->tagged = below(s, 5) == 0;
    s->shared = below(s, 3) == 0;
    s->arrival = arrivals[below(s, 5)];
    if (s->driver == BY_ONE &&
        (s->fault == FAULT_SLOW || s->fault == FAULT_DIES || s->fault == FAULT_TIMES_OUT)) {
        s->driver = BY_LOOPS; /* of one thread, all endpoints would be late or dead */
    }
}

static void print_scenario(const scenario_t *s) {
    printf("seed %llu: %s; %u endpoints, %s, %u steps, endpoint %u at step %u%s%s%s, arrival %s\n",
           (unsigned long long)s->seed, fault_name[s->fault], s->n, driver_kind_name[s->driver],
           s->steps, s->victim, s->fault_step, s->check ? ", checked" : "",
           s->tagged ? ", tagged" : "", s->shared ? ", one context" : "", s->arrival);
}

static void prepare(scenario_t *s) {
    for (uint32_t i = 0; i < s->steps; i++) {
        coll_case_t c = random_case(s, i);
        if (i == s->fault_step) {
            shape_fault_step(s, &c);
        }
        s->step[i] = case_prepare(&c);
        for (uint32_t e = 0; s->fault == FAULT_TIMES_OUT && e < s->n; e++) {
            ucc_coll_args_t *a = &s->step[i]->args[e];
            a->flags =
                (a->mask & UCC_COLL_ARGS_FIELD_FLAGS ? a->flags : 0) | UCC_COLL_ARGS_FLAG_TIMEOUT;
            a->mask |= UCC_COLL_ARGS_FIELD_FLAGS;
            a->timeout = TIMEOUT;
        }
    }
    spoil(s);
}

/* --- running one ------------------------------------------------------------------------------ */

static void nap(double seconds) {
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

/* An endpoint that was inherited through fork is of no use in the child, and says so. */
static void use_in_child(const scenario_t *s, heddle_ep_t *ep) {
    pid_t pid = fork();
    if (pid == 0) {
        alarm(BOUND_S);
        _exit(heddle_barrier(ep) < 0 ? 0 : 1);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status)) {
        printf("UNEXPECTED: seed %llu: a barrier in the child: status %x\n",
               (unsigned long long)s->seed, (unsigned)status);
    }
}

/* What the victim does instead of, or before, the step; false: it takes no further part. */
static bool err(scenario_t *s, uint32_t i) {
    heddle_ep_t *ep = s->endpoint[i].ep;
    switch (s->fault) {
    case FAULT_SLOW:
        nap(0.3);
        return true;
    case FAULT_TIMES_OUT:
        nap(3 * TIMEOUT);
        return true;
    case FAULT_RETURNS:
        finish(s, i, AWAY, UCC_OK);
        return false;
    case FAULT_LEAVES:
        finish(s, i, AWAY, heddle_leave(ep));
        return false;
    case FAULT_FORKS:
        use_in_child(s, ep);
        return true;
    case FAULT_ABORTS:
        (void)heddle_team_abort(heddle_ep_team(ep));
        return true;
    default:
        return true;
    }
}

/* Some by their own calls, which take another path. */
static ucc_status_t call(heddle_ep_t *ep, ucc_coll_args_t *a) {
    bool plain = !(a->mask & UCC_COLL_ARGS_FIELD_TAG) && !(a->mask & UCC_COLL_ARGS_FIELD_FLAGS);
    if (plain && a->coll_type == UCC_COLL_TYPE_BARRIER) {
        return heddle_barrier(ep);
    }
    if (plain && a->coll_type == UCC_COLL_TYPE_BCAST) {
        return heddle_bcast(ep, a->src.info.buffer, a->src.info.count, a->src.info.datatype,
                            (uint32_t)a->root);
    }
    if (plain && a->coll_type == UCC_COLL_TYPE_ALLREDUCE) {
        return heddle_allreduce(ep, a->src.info.buffer, a->dst.info.buffer, a->dst.info.count,
                                a->dst.info.datatype, a->op);
    }
    return heddle_collective(a, heddle_ep_team(ep));
}

static ucc_status_t start(struct endpoint *e, ucc_coll_args_t *args) {
    ucc_status_t status = ucc_collective_init(args, &e->request, heddle_ep_team(e->ep));
    if (status != UCC_OK) {
        return status;
    }
    status = ucc_collective_post(e->request);
    if (status < 0) {
        (void)ucc_collective_finalize(e->request);
    }
    return status;
}

static ucc_status_t run_step(scenario_t *s, struct endpoint *e, ucc_coll_args_t *args) {
    if (s->driver == BY_CALLS) {
        return call(e->ep, args);
    }
    ucc_status_t status = start(e, args);
    if (status != UCC_OK) {
        return status;
    }
    if (s->driver == BY_WAIT) {
        status = heddle_wait(e->request, -1);
    } else {
        while ((status = ucc_collective_test(e->request)) == UCC_INPROGRESS) {
            (void)ucc_context_progress(heddle_ep_context(e->ep));
        }
    }
    ucc_status_t freed = ucc_collective_finalize(e->request);
    return status == UCC_OK ? freed : status;
}

static bool joins(scenario_t *s, uint32_t i) {
    if (i == s->victim && (s->fault == FAULT_NEVER_JOINS || s->fault == FAULT_GROUP_GONE)) {
        finish(s, i, AWAY, UCC_OK);
        return false;
    }
    ucc_status_t status = heddle_join(s->group, i, &s->endpoint[i].ep);
    if (status != UCC_OK) {
        finish(s, i, FAILED, status);
    }
    atomic_fetch_add(&s->joined, 1);
    return status == UCC_OK;
}

static void over(scenario_t *s, uint32_t i, ucc_status_t status) {
    ucc_status_t left = heddle_leave(s->endpoint[i].ep);
    if (left != UCC_OK) {
        printf("UNEXPECTED: seed %llu: endpoint %u: heddle_leave: %s\n",
               (unsigned long long)s->seed, i, ucc_status_string(left));
    }
    finish(s, i, status == UCC_OK ? ENDED : FAILED, status);
}

typedef struct thread_arg {
    scenario_t *s;
    uint32_t i;
} thread_arg_t;

static void *run_endpoint(void *arg) {
    scenario_t *s = ((thread_arg_t *)arg)->s;
    uint32_t i = me = ((thread_arg_t *)arg)->i;
    struct endpoint *e = &s->endpoint[i];
    ucc_status_t status = UCC_OK;
    if (!joins(s, i)) {
        return NULL;
    }
    for (uint32_t step = 0; step < s->steps && status == UCC_OK; step++) {
        atomic_store(&e->at, step);
        if (i == s->victim && step == s->fault_step && !err(s, i)) {
            return NULL;
        }
        status = run_step(s, e, &s->step[step]->args[i]);
        if (status == UCC_OK) {
            atomic_fetch_or(&s->right[step], 1u << i);
        }
    }
    over(s, i, status);
    return NULL;
}

/* One turn of an endpoint that a common thread drives. */
static void turn(scenario_t *s, uint32_t i) {
    struct endpoint *e = &s->endpoint[i];
    uint32_t step = atomic_load(&e->at);
    ucc_status_t status = UCC_OK;
    if (!e->request) {
        if (i == s->victim && step == s->fault_step && !err(s, i)) {
            return;
        }
        status = start(e, &s->step[step]->args[i]);
    } else {
        (void)ucc_context_progress(heddle_ep_context(e->ep));
        status = ucc_collective_test(e->request);
        if (status == UCC_INPROGRESS) {
            return;
        }
        (void)ucc_collective_finalize(e->request);
        e->request = NULL;
        if (status == UCC_OK) {
            atomic_fetch_or(&s->right[step], 1u << i);
            atomic_store(&e->at, ++step);
        }
    }
    if (status != UCC_OK || step == s->steps) {
        over(s, i, status);
    }
}

static void *run_all(void *arg) {
    scenario_t *s = arg;
    for (uint32_t i = 0; i < s->n; i++) {
        (void)joins(s, i);
    }
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = 0; i < s->n; i++) {
            if (atomic_load(&s->endpoint[i].outcome) == RUNNING) {
                turn(s, i);
                any = true;
            }
        }
    }
    return NULL;
}

/* --- the verdict ------------------------------------------------------------------------------ */

/* Does this text name endpoint i, alone or in a list: "endpoint 3", "endpoints 1, 3-5 and 9"? */
static bool names(const char *text, uint32_t i) {
    for (const char *at = text; (at = strstr(at, "endpoint")) != NULL;) {
        at += strlen("endpoint");
        at += strspn(at, "s: ");
        for (;;) {
            char *end;
            if (*at < '0' || *at > '9') {
                break;
            }
            unsigned long first = strtoul(at, &end, 10), last = first;
            if (*end == '-' && end[1] >= '0' && end[1] <= '9') {
                last = strtoul(end + 1, &end, 10);
            }
            if (i >= first && i <= last) {
                return true;
            }
            at = end;
            if (*at == '(') {
                at = strchr(at, ')') ? strchr(at, ')') + 1 : at;
            } else if (strncmp(at, " (", 2) == 0) {
                at = strchr(at, ')') ? strchr(at, ')') + 1 : at;
            }
            if (strncmp(at, ", ", 2) == 0) {
                at += 2;
            }
            if (strncmp(at, " and ", 5) == 0) {
                at += 5;
            } else if (strncmp(at, "and ", 4) == 0) {
                at += 4;
            }
        }
    }
    return false;
}

/* The number behind the last "endpoint " of a text; UINT32_MAX: there is none. */
static uint32_t last_endpoint(const char *text) {
    const char *found = NULL;
    for (const char *at = text; (at = strstr(at, "endpoint ")) != NULL;) {
        at += strlen("endpoint ");
        found = at;
    }
    return found ? (uint32_t)strtoul(found, NULL, 10) : UINT32_MAX;
}

/* Whom the lines of an endpoint that waits name, as bits: "... endpoint 1 of 4 has waited 0.1 s for
 * ...". */
static void read_lines(const scenario_t *s, char *log, uint32_t named[MOST]) {
    char *rest = log;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        char *waited = strstr(line, " has waited ");
        if (!waited) {
            continue;
        }
        *waited = '\0';
        uint32_t who = last_endpoint(line);
        for (uint32_t j = 0; who < s->n && j < s->n; j++) {
            named[who] |= names(waited + 1, j) ? 1u << j : 0;
        }
    }
}

/* Whoever names the one who erred, or names somebody that does, as bits. In larger teams one
 * endpoint speaks for all that wait in the same exchange. */
static uint32_t led_to_the_cause(const scenario_t *s, const uint32_t named[MOST],
                                 uint32_t waiting) {
    enum { ALL_SPEAK = 8 };
    uint32_t found = 1u << s->victim;
    for (uint32_t round = 0; round < s->n; round++) {
        bool told = (found & waiting & ~(1u << s->victim)) != 0;
        for (uint32_t i = 0; i < s->n; i++) {
            bool by_another = told && s->n > ALL_SPEAK && !named[i];
            found |= (waiting >> i & 1) && (by_another || (named[i] & found)) ? 1u << i : 0;
        }
    }
    return found;
}

/* Does nobody wait for ever after this fault? */
static bool ends_everywhere(fault_t fault) {
    return fault == FAULT_NONE || fault == FAULT_SLOW || fault == FAULT_FORKS ||
           fault == FAULT_TIMES_OUT || fault == FAULT_ABORTS || fault == FAULT_LEAVES ||
           fault == FAULT_GROUP_GONE;
}

/* Everybody has ended, or waits and a line leads to the one who erred. */
static bool is_explained(scenario_t *s, char *log) {
    uint32_t named[MOST] = {0}, waiting = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        waiting |= atomic_load(&s->endpoint[i].outcome) == RUNNING ? 1u << i : 0;
    }
    if (!waiting || ends_everywhere(s->fault)) {
        return !waiting;
    }
    read_lines(s, log, named);
    if ((waiting >> s->victim & 1) && !named[s->victim] && s->n <= 8) {
        return false; /* the one who erred waits, too, and must hear for whom */
    }
    return (waiting & ~led_to_the_cause(s, named, waiting)) == 0;
}

static bool log_text(char *text) {
    ssize_t n = pread(STDERR_FILENO, text, LOG_MAX - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return n >= 0;
}

/* Data that came with UCC_OK everywhere, though somebody erred elsewhere. */
static bool data_is_right(scenario_t *s) {
    for (uint32_t step = 0; step < s->steps; step++) {
        bool erred = errs_in_arguments(s->fault) && step == s->fault_step;
        if (!erred && atomic_load(&s->right[step]) == (1u << s->n) - 1 &&
            !case_check(s->step[step])) {
            return false;
        }
    }
    return true;
}

/* In the child. Returns its exit status. */
static int run_scenario(scenario_t *s) {
    static char log[LOG_MAX];
    static thread_arg_t arg[MOST];
    pthread_t thread[MOST];
    current = s;
    prepare(s);
    heddle_group_params_t params = {.endpoints = s->n};
    if (s->shared) {
        params.contexts = 1;
        params.thread_mode = UCC_THREAD_MULTIPLE;
    }
    must(heddle_group_create(&params, &s->group), "heddle_group_create");
    uint32_t threads = s->driver == BY_ONE ? 1 : s->n;
    for (uint32_t i = 0; i < threads; i++) {
        arg[i] = (thread_arg_t){s, i};
        must(pthread_create(&thread[i], NULL, s->driver == BY_ONE ? run_all : run_endpoint,
                            s->driver == BY_ONE ? (void *)s : &arg[i])
                 ? UCC_ERR_NO_RESOURCE
                 : UCC_OK,
             "pthread_create");
        pthread_detach(thread[i]);
    }
    if (s->fault == FAULT_GROUP_GONE) {
        while (atomic_load(&s->joined) + 1 < s->n) {
            nap(0.001);
        }
        (void)heddle_group_destroy(s->group); /* nobody else can join any more */
    }
    double end = test_now() + BOUND_S * stress_slowdown();
    bool explained = false;
    for (double wait = 0.0002; !explained && test_now() < end;
         wait = wait < 0.02 ? 2 * wait : wait) {
        nap(wait);
        explained = log_text(log) && is_explained(s, log);
    }
    if (!explained) {
        for (uint32_t i = 0; i < s->n; i++) {
            printf("UNEXPLAINED: endpoint %u: outcome %d at step %u: %s\n", i,
                   atomic_load(&s->endpoint[i].outcome), atomic_load(&s->endpoint[i].at),
                   ucc_status_string(s->endpoint[i].status));
        }
        return 1;
    }
    if (s->fault == FAULT_NONE || s->fault == FAULT_SLOW || s->fault == FAULT_FORKS) {
        for (uint32_t i = 0; i < s->n; i++) {
            if (s->endpoint[i].status != UCC_OK) {
                printf("UNEXPECTED: endpoint %u: %s\n", i,
                       ucc_status_string(s->endpoint[i].status));
                return 1;
            }
        }
    }
    if (!data_is_right(s)) {
        return 1;
    }
    log_text(log);
    return strstr(log, "UNEXPECTED") ? 1 : 0;
}

/* --- many ------------------------------------------------------------------------------------- */

typedef struct child {
    pid_t pid;
    uint64_t seed;
    int log;
} child_t;

static child_t launch(uint64_t seed) {
    static scenario_t s;
    choose(&s, seed);
    char path[] = "/tmp/heddle-chaos-XXXXXX";
    child_t child = {.seed = seed, .log = mkstemp(path)};
    must(child.log >= 0 ? UCC_OK : UCC_ERR_NO_RESOURCE, "mkstemp");
    unlink(path);
    fflush(NULL);
    child.pid = fork();
    if (child.pid != 0) {
        must(child.pid > 0 ? UCC_OK : UCC_ERR_NO_RESOURCE, "fork");
        return child;
    }
    dup2(child.log, STDOUT_FILENO);
    dup2(child.log, STDERR_FILENO);
    setvbuf(stdout, NULL, _IOLBF, 4096);
    fcntl(child.log, F_SETFL, fcntl(child.log, F_GETFL) | O_APPEND);
    setenv("HEDDLE_STALL", STALL, 1);
    setenv("HEDDLE_LOG_LEVEL", "warn", 1);
    setenv("HEDDLE_ARRIVAL", s.arrival, 1);
    setenv("HEDDLE_CHECK", s.check ? "1" : "0", 1);
    alarm((unsigned)(2 * BOUND_S * stress_slowdown()));
    int status = run_scenario(&s);
    fflush(NULL);
    _exit(status);
}

/* Waits for one of them; what it did wrong is printed. */
static void reap(child_t *children, uint32_t *n) {
    int status = 0;
    pid_t pid = wait(&status);
    for (uint32_t i = 0; i < *n; i++) {
        if (children[i].pid != pid) {
            continue;
        }
        static char log[LOG_MAX];
        static scenario_t s;
        bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        ssize_t bytes = pread(children[i].log, log, sizeof(log) - 1, 0);
        log[bytes > 0 ? bytes : 0] = '\0';
        if (failed || getenv("CHAOS_KEEP")) {
            choose(&s, children[i].seed);
            print_scenario(&s);
            fwrite(log, 1, strlen(log) < 6000 ? strlen(log) : 6000, stdout);
        }
        if (failed) {
            stress_error("seed %llu, %s: wait status %x", (unsigned long long)children[i].seed,
                         fault_name[s.fault], (unsigned)status);
        }
        close(children[i].log);
        children[i] = children[--*n];
        return;
    }
}

int main(int argc, char **argv) {
    child_t children[AT_ONCE];
    uint32_t n = 0;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    stress_begin_alone(argc, argv); /* forks, so it has no thread */
    const char *given = getenv("CHAOS_SCENARIOS");
    uint64_t scenarios = given ? strtoull(given, NULL, 0) : stress_scaled(400);
    for (uint64_t i = 0; i < scenarios; i++) {
        children[n++] = launch(first + i);
        if (n == AT_ONCE) {
            reap(children, &n);
        }
    }
    while (n) {
        reap(children, &n);
    }
    printf("%llu scenarios\n", (unsigned long long)scenarios);
    return stress_end();
}
