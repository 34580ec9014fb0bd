/* stall.c: random endpoints stay away from a collective, or have not even joined; whoever waits
 * must say for whom, and name nobody else. Then those that were missing come, and all must end
 * well.
 *
 * Any line may name an endpoint that is only late, on a busy machine: what counts is that sooner or
 * later one names exactly those that are missing.
 */
#include "stress.h"

#include "../support/driver.h"
#include "../support/random.h"
#include "core/log.h"

#include <heddle/heddle.h>
#include <sched.h>

enum { MOST = 20, MOST_MISSING = 3, LARGE = 6000, MOST_LINES = 256 };

typedef enum kind { BARRIER, SMALL, BIG, BCAST, TAGGED, PERSISTENT, AHEAD, N_KINDS } kind_t;
typedef enum means { POLL, WAIT, N_MEANS } means_t;

typedef struct scenario {
    uint32_t n, before; /* endpoints, and collectives before the one that is waited for */
    kind_t kind;
    means_t means;
    bool joins_late; /* the missing ones */
    bool missing[MOST];
    uint32_t root; /* of BCAST: one that is missing */
    heddle_group_t *group;
    _Atomic uint32_t ready;
    atomic_bool named; /* a line names those that are missing, and nobody else */
    double *data[MOST];
} scenario_t;

/* --- lines ------------------------------------------------------------------------------------ */

static struct {
    pthread_mutex_t lock;
    scenario_t *of;
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_awaited(const scenario_t *s, uint32_t e) {
    return s->kind == BCAST ? e == s->root : s->missing[e];
}

/* Does what follows "has waited 1.0 s for" name those that are awaited? */
static bool names_them(const scenario_t *s, const char *line) {
    const char *list = strstr(line, " s for ");
    bool right = list && strncmp(line, "[heddle WARN] stall: ", 21) == 0;
    for (uint32_t e = 0; right && e < s->n; e++) {
        char name[32];
        snprintf(name, sizeof(name), "endpoint %u (", e);
        right = (strstr(list, name) != NULL) == is_awaited(s, e);
    }
    return right;
}

static void hear(hd_log_level_t level, const char *line, void *arg) {
    (void)arg;
    pthread_mutex_lock(&heard.lock);
    if (heard.of && level == HD_LOG_WARN && names_them(heard.of, line)) {
        atomic_store(&heard.of->named, true);
    }
    if (level < HD_LOG_WARN) {
        stress_error("%s", line);
    }
    pthread_mutex_unlock(&heard.lock);
}

static void listen_for(scenario_t *s) {
    pthread_mutex_lock(&heard.lock);
    heard.of = s;
    pthread_mutex_unlock(&heard.lock);
}

/* --- endpoints -------------------------------------------------------------------------------- */

static ucc_coll_args_t args_of(const scenario_t *s, uint32_t e) {
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_BARRIER, .op = UCC_OP_SUM};
    ucc_coll_buffer_info_t one = {s->data[e], s->kind == BIG ? LARGE : 1, UCC_DT_FLOAT64,
                                  UCC_MEMORY_TYPE_HOST};
    switch (s->kind) {
    case SMALL:
    case BIG:
        args.coll_type = UCC_COLL_TYPE_ALLREDUCE;
        args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
        args.dst.info = one;
        break;
    case BCAST:
        args.coll_type = UCC_COLL_TYPE_BCAST;
        args.root = s->root;
        args.src.info = one;
        break;
    case TAGGED:
        args.mask = UCC_COLL_ARGS_FIELD_TAG;
        args.tag = 9;
        break;
    case PERSISTENT:
        args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
        break;
    default:
        break;
    }
    return args;
}

static void run_one(const scenario_t *s, uint32_t e, heddle_ep_t *ep) {
    enum { POSTS = 12 }; /* more than the ring takes */
    ucc_coll_req_h request[POSTS];
    uint32_t posts = s->kind == AHEAD ? POSTS : 1;
    for (uint32_t i = 0; i < posts; i++) {
        ucc_coll_args_t args = args_of(s, e);
        must(ucc_collective_init(&args, &request[i], heddle_ep_team(ep)), "init");
        must(ucc_collective_post(request[i]), "post");
    }
    for (uint32_t i = 0; i < posts; i++) {
        while (s->means == POLL && ucc_collective_test(request[i]) == UCC_INPROGRESS) {
            ucc_context_progress(heddle_ep_context(ep));
        }
        stress_expect(heddle_wait(request[i], -1), UCC_OK, "the collective");
        stress_expect(ucc_collective_finalize(request[i]), UCC_OK, "finalize");
    }
}

/* No blocking call before all have joined, if some join late. */
static void endpoint(void *arg, uint32_t e) {
    scenario_t *s = arg;
    heddle_ep_t *ep;
    bool late = s->missing[e];
    if (late && s->joins_late) {
        while (!atomic_load(&s->named)) {
            sched_yield();
        }
    }
    must(heddle_join(s->group, e, &ep), "join");
    for (uint32_t i = 0; !s->joins_late && i < s->before; i++) {
        stress_expect(heddle_barrier(ep), UCC_OK, "barrier");
    }
    while (late && !atomic_load(&s->named)) {
        sched_yield();
    }
    run_one(s, e, ep);
    /* nobody goes before all are done */
    stress_expect(heddle_barrier(ep), UCC_OK, "barrier");
    stress_expect(heddle_leave(ep), UCC_OK, "leave");
}

/* --- scenarios -------------------------------------------------------------------------------- */

static scenario_t *choose(uint64_t *random) {
    static const char *const arrival[] = {"auto", "flat", "static", "counter"};
    scenario_t *s = must_alloc(1, sizeof(*s));
    s->n = 2 + (uint32_t)random_below(random, random_below(random, 3) ? 7 : MOST - 1);
    s->before = (uint32_t)random_below(random, 12);
    s->kind = (kind_t)random_below(random, N_KINDS);
    s->means = (means_t)random_below(random, N_MEANS);
    s->joins_late = random_below(random, 4) == 0;
    if (s->kind == BCAST) {
        s->joins_late = false; /* then all that have not joined are awaited */
    }
    uint32_t most = s->n - 1 < MOST_MISSING ? s->n - 1 : MOST_MISSING;
    for (uint64_t i = 1 + random_below(random, most); i; i--) {
        s->root = (uint32_t)random_below(random, s->n);
        s->missing[s->root] = true;
    }
    for (uint32_t e = 0; e < s->n; e++) {
        s->data[e] = must_alloc(LARGE, sizeof(double));
    }
    setenv("HEDDLE_ARRIVAL", arrival[random_below(random, 4)], 1);
    must(heddle_group_create(&(heddle_group_params_t){.endpoints = s->n}, &s->group), "group");
    return s;
}

static void drop(scenario_t *s) {
    must(heddle_group_destroy(s->group), "group destroy");
    for (uint32_t e = 0; e < s->n; e++) {
        free(s->data[e]);
    }
    free(s);
}

int main(int argc, char **argv) {
    stress_begin(argc, argv);
    setenv("HEDDLE_STALL", "0.02", 1);
    hd_log_capture(hear, NULL);
    uint64_t random = 20261121 + stress.seed, scenarios = stress_scaled(200);
    for (uint64_t i = 0; i < scenarios; i++) {
        stress_phase("endpoints that stay away", 60);
        scenario_t *s = choose(&random);
        listen_for(s);
        driver_threads(s->n, endpoint, s);
        listen_for(NULL);
        drop(s);
    }
    return stress_end();
}
