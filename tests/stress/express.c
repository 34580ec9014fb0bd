/* express.c: small blocking collectives by threads that come at random times, so that one endpoint
 * takes the express, another goes on with an operation, and a third posts an ordinary one, all for
 * the same number; with nonblocking and tagged operations outstanding meanwhile. Every result is
 * checked.
 *
 * What is called follows from the operation's number, so all endpoints agree; when they call it is
 * every endpoint's own dice.
 */
#include "stress.h"

#include "../support/driver.h"
#include "../support/random.h"

#include <sched.h>

enum { MAX_ENDPOINTS = 8, OUTSTANDING = 12, MAX_COUNT = 6, MAX_BYTES = MAX_COUNT * 8, RUN = 24 };

typedef enum what { BARRIER, BCAST, ALLREDUCE, WHATS } what_t;

typedef enum how { BLOCKING, NONBLOCKING, TAGGED } how_t;

typedef struct choice {
    what_t what;
    how_t how;
    ucc_datatype_t dt;
    ucc_reduction_op_t op;
    uint32_t root, count;
    bool in_place;
} choice_t;

/* One operation outstanding at one endpoint. */
typedef struct slot {
    ucc_coll_req_h request; /* NULL: none */
    uint64_t number;
    uint8_t src[MAX_BYTES], dst[MAX_BYTES + 8];
} slot_t;

typedef struct run {
    heddle_group_t *group;
    uint32_t n;
    uint64_t operations;
    uint32_t hurry;        /* one in so many calls is delayed at all */
    _Atomic uint64_t came; /* endpoints that came to a barrier, ever */
} run_t;

/* --- what every operation is ------------------------------------------------------------------ */

static const ucc_datatype_t types[] = {UCC_DT_FLOAT64, UCC_DT_INT64,  UCC_DT_INT32,
                                       UCC_DT_FLOAT32, UCC_DT_UINT16, UCC_DT_INT8};
static const uint32_t sizes[] = {8, 8, 4, 4, 2, 1};

static uint32_t type_of(ucc_datatype_t dt) {
    uint32_t t = 0;
    while (types[t] != dt) {
        t++;
    }
    return t;
}

/* Operations come in runs of one kind, which is what the express learns; some differ. */
static choice_t choose(const run_t *run, uint64_t number) {
    static const ucc_reduction_op_t ops[] = {UCC_OP_SUM, UCC_OP_MAX, UCC_OP_MIN};
    uint64_t each = number * 2 + 1, seed = number / RUN * 2;
    uint64_t s = random_next(&each), r = random_next(s % 8 == 0 ? &each : &seed);
    choice_t c = {.what = (what_t)(r % WHATS),
                  .dt = types[(r >> 8) % 6],
                  .op = ops[(r >> 16) % 3],
                  .root = (uint32_t)(r >> 24) % run->n,
                  .count = 1 + (uint32_t)(r >> 32) % MAX_COUNT,
                  .in_place = r >> 40 & 1};
    c.how = s >> 8 & 7 ? BLOCKING : s >> 12 & 3 ? NONBLOCKING : TAGGED;
    return c;
}

/* Small enough that sums of all endpoints fit every type. */
static int value_at(uint64_t number, uint32_t endpoint, uint32_t i) {
    uint64_t seed = number * 64 + endpoint * 8 + i;
    return (int)(random_next(&seed) % 15);
}

static void put(ucc_datatype_t dt, void *buffer, uint32_t i, int value) {
    switch (type_of(dt)) {
    case 0:
        ((double *)buffer)[i] = value;
        break;
    case 1:
        ((int64_t *)buffer)[i] = value;
        break;
    case 2:
        ((int32_t *)buffer)[i] = value;
        break;
    case 3:
        ((float *)buffer)[i] = (float)value;
        break;
    case 4:
        ((uint16_t *)buffer)[i] = (uint16_t)value;
        break;
    default:
        ((int8_t *)buffer)[i] = (int8_t)value;
        break;
    }
}

static int wanted_at(const run_t *run, const choice_t *c, uint64_t number, uint32_t i) {
    if (c->what == BCAST) {
        return value_at(number, c->root, i);
    }
    int result = value_at(number, 0, i);
    for (uint32_t e = 1; e < run->n; e++) {
        int v = value_at(number, e, i);
        result = c->op == UCC_OP_SUM   ? result + v
                 : c->op == UCC_OP_MAX ? (v > result ? v : result)
                                       : (v < result ? v : result);
    }
    return result;
}

/* The operand is in src, or in dst where there is one buffer; the rest of dst must stay. */
static void fill(const choice_t *c, uint64_t number, uint32_t endpoint, slot_t *s) {
    bool one_buffer = c->in_place || c->what == BCAST;
    s->number = number;
    memset(s->dst, 0xEE, sizeof(s->dst));
    for (uint32_t i = 0; i < c->count; i++) {
        put(c->dt, one_buffer ? s->dst : s->src, i, value_at(number, endpoint, i));
    }
}

static void verify(const run_t *run, uint32_t endpoint, const slot_t *s) {
    choice_t c = choose(run, s->number);
    uint8_t wanted[MAX_BYTES + 8];
    memset(wanted, 0xEE, sizeof(wanted));
    for (uint32_t i = 0; i < c.count; i++) {
        put(c.dt, wanted, i, wanted_at(run, &c, s->number, i));
    }
    if (c.what != BARRIER && memcmp(wanted, s->dst, sizeof(wanted)) != 0) {
        stress_error("%s %llu of %u elements of %u bytes, root %u, is wrong at endpoint %u",
                     c.what == BCAST ? "bcast" : "allreduce", (unsigned long long)s->number,
                     c.count, sizes[type_of(c.dt)], c.root, endpoint);
    }
}

/* --- calling it ------------------------------------------------------------------------------- */

static void pause_at_random(const run_t *run, uint64_t *random) {
    uint64_t r = random_next(random);
    if (r % run->hurry != 0) {
        return;
    }
    r >>= 8;
    if (r % 64 == 0) {
        nanosleep(&(struct timespec){.tv_nsec = (long)((r >> 16) % 200000)}, NULL);
    } else if (r % 4 == 0) {
        sched_yield();
    } else {
        for (uint64_t i = (r >> 16) % 3000; i; i--) {
            atomic_signal_fence(memory_order_seq_cst); /* keeps the loop */
        }
    }
}

/* Nobody leaves a blocking barrier before all have come to it. */
static void barrier(run_t *run, heddle_ep_t *ep, uint64_t *barriers) {
    atomic_fetch_add_explicit(&run->came, 1, memory_order_relaxed);
    stress_expect(heddle_barrier(ep), UCC_OK, "heddle_barrier");
    if (atomic_load_explicit(&run->came, memory_order_relaxed) < ++*barriers * run->n) {
        stress_error("barrier %llu was left early", (unsigned long long)*barriers);
    }
}

static void call_blocking(run_t *run, heddle_ep_t *ep, const choice_t *c, slot_t *s,
                          uint64_t *barriers) {
    switch (c->what) {
    case BARRIER:
        barrier(run, ep, barriers);
        break;
    case BCAST:
        stress_expect(heddle_bcast(ep, s->dst, c->count, c->dt, c->root), UCC_OK, "heddle_bcast");
        break;
    default:
        stress_expect(heddle_allreduce(ep, c->in_place ? HEDDLE_IN_PLACE : s->src, s->dst, c->count,
                                       c->dt, c->op),
                      UCC_OK, "heddle_allreduce");
        break;
    }
}

static void post(heddle_ep_t *ep, const choice_t *c, slot_t *s) {
    static const ucc_coll_type_t type[] = {UCC_COLL_TYPE_BARRIER, UCC_COLL_TYPE_BCAST,
                                           UCC_COLL_TYPE_ALLREDUCE};
    ucc_coll_args_t args = {.coll_type = type[c->what], .op = c->op, .root = c->root};
    args.dst.info = (ucc_coll_buffer_info_t){s->dst, c->count, c->dt, UCC_MEMORY_TYPE_HOST};
    args.src.info = args.dst.info;
    if (c->what == ALLREDUCE) {
        args.src.info.buffer = s->src;
        args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = c->in_place ? (uint64_t)UCC_COLL_ARGS_FLAG_IN_PLACE : 0;
    }
    ucc_team_h team = heddle_ep_team(ep);
    must(c->how == TAGGED ? heddle_collective_init_tagged(&args, s->number, &s->request, team)
                          : ucc_collective_init(&args, &s->request, team),
         "init");
    stress_expect(ucc_collective_post(s->request), UCC_OK, "post");
}

static void finish(const run_t *run, heddle_ep_t *ep, slot_t *s) {
    if (s->request) {
        stress_expect(heddle_wait(s->request, -1), UCC_OK, "heddle_wait");
        stress_expect(ucc_collective_finalize(s->request), UCC_OK, "finalize");
        s->request = NULL;
        verify(run, heddle_ep_index(ep), s);
    }
}

/* --- a run ------------------------------------------------------------------------------------ */

static void work(void *arg, uint32_t e) {
    run_t *run = arg;
    heddle_ep_t *ep;
    slot_t slot[OUTSTANDING] = {{.request = NULL}}, own;
    uint64_t random = e * 7919 + run->operations, barriers = 0;
    must(heddle_join(run->group, e, &ep), "heddle_join");
    for (uint64_t number = 1; number <= run->operations; number++) {
        choice_t c = choose(run, number);
        slot_t *s = c.how == BLOCKING ? &own : &slot[number % OUTSTANDING];
        pause_at_random(run, &random);
        if (c.how == BLOCKING) {
            fill(&c, number, e, s);
            call_blocking(run, ep, &c, s, &barriers);
            verify(run, e, s);
        } else {
            finish(run, ep, s);
            fill(&c, number, e, s);
            post(ep, &c, s);
        }
        if (random_below(&random, 16) == 0) {
            finish(run, ep, &slot[random_below(&random, OUTSTANDING)]);
        }
    }
    for (uint32_t i = 0; i < OUTSTANDING; i++) {
        finish(run, ep, &slot[i]);
    }
    /* nobody waits for the others here: the last of them may still look at this one's lanes */
    stress_expect(heddle_leave(ep), UCC_OK, "heddle_leave");
}

static void run_one(uint32_t n, ucc_thread_mode_t mode, uint32_t hurry, uint64_t operations) {
    run_t run = {.n = n, .operations = operations, .hurry = hurry};
    heddle_group_params_t params = {.endpoints = n, .thread_mode = mode};
    must(heddle_group_create(&params, &run.group), "heddle_group_create");
    driver_threads(n, work, &run);
    must(heddle_group_destroy(run.group), "heddle_group_destroy");
}

/* --- one handle, two threads ------------------------------------------------------------------ */

/* Barriers need no order among an endpoint's threads: any two of the same number match. */
typedef struct shared {
    heddle_ep_t *ep[2];
    uint64_t operations;
    _Atomic uint64_t came[2]; /* by endpoint */
} shared_t;

static void share(void *arg, uint32_t t) {
    shared_t *run = arg;
    for (uint64_t i = 1; i <= run->operations; i++) {
        atomic_fetch_add_explicit(&run->came[t % 2], 1, memory_order_relaxed);
        stress_expect(heddle_barrier(run->ep[t % 2]), UCC_OK, "heddle_barrier");
        /* i of this thread's are over, so the other endpoint has begun as many */
        if (atomic_load_explicit(&run->came[1 - t % 2], memory_order_relaxed) < i) {
            stress_error("thread %u left barrier %llu early", t, (unsigned long long)i);
        }
    }
}

/* Fresh handles again and again: what the first calls leave in them must not trouble the second. */
static void share_handles(uint64_t operations) {
    enum { EACH = 50 };
    for (uint64_t done = 0; done < operations; done += EACH) {
        shared_t run = {.operations = EACH};
        heddle_group_params_t params = {.endpoints = 2, .thread_mode = UCC_THREAD_MULTIPLE};
        heddle_group_t *group;
        must(heddle_group_create(&params, &group), "heddle_group_create");
        must(heddle_join(group, 0, &run.ep[0]), "heddle_join");
        must(heddle_join(group, 1, &run.ep[1]), "heddle_join");
        must(heddle_group_destroy(group), "heddle_group_destroy");
        driver_threads(4, share, &run);
        must(heddle_leave(run.ep[0]), "heddle_leave");
        must(heddle_leave(run.ep[1]), "heddle_leave");
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        uint32_t n, hurry;
        ucc_thread_mode_t mode;
        bool delays;
        uint64_t operations;
    } phase[] = {
        {"2 endpoints, seldom late", 2, 64, UCC_THREAD_SINGLE, false, 200000},
        {"2 endpoints, often late", 2, 2, UCC_THREAD_SINGLE, false, 100000},
        {"3 endpoints", 3, 8, UCC_THREAD_SINGLE, false, 60000},
        {"5 endpoints", 5, 8, UCC_THREAD_SINGLE, false, 30000},
        {"8 endpoints", 8, 8, UCC_THREAD_SINGLE, false, 15000},
        {"2 endpoints, locked", 2, 8, UCC_THREAD_MULTIPLE, false, 60000},
        {"2 endpoints, delays", 2, 16, UCC_THREAD_SINGLE, true, 60000},
        {"4 endpoints, delays", 4, 4, UCC_THREAD_SINGLE, true, 15000},
        {"8 endpoints, delays", 8, 4, UCC_THREAD_SINGLE, true, 6000},
    };
    stress_begin(argc, argv);
    double began = test_now();
    for (size_t i = 0; i < sizeof(phase) / sizeof(phase[0]); i++) {
        double start = test_now();
        uint64_t operations = stress_scaled(phase[i].operations);
        stress_phase(phase[i].name, 120);
        stress_delays(phase[i].delays ? 90210u + (uint32_t)i : 0);
        run_one(phase[i].n, phase[i].mode, phase[i].hurry, operations);
        printf("%-28s %8llu operations, %6.2f s\n", phase[i].name, (unsigned long long)operations,
               test_now() - start);
        fflush(stdout);
    }
    double start = test_now();
    uint64_t operations = stress_scaled(20000);
    stress_phase("2 endpoints, 2 threads each", 120);
    stress_delays(90299);
    share_handles(operations);
    printf("%-28s %8llu operations, %6.2f s\n", "2 endpoints, 2 threads each",
           (unsigned long long)operations, test_now() - start);
    printf("express: %.1f s\n", test_now() - began);
    return stress_end();
}
