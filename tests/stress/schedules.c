/* schedules.c: schedules that several threads drive, end tasks of, cancel, subscribe to and start
 * again, all at once; collectives as their tasks; registered algorithms, of which some fail. More
 * threads than processors.
 *
 * usage: schedules [PERCENT]
 */
#include "stress.h"

#include "../support/random.h"

#include <heddle/heddle.h>
#include <heddle/schedule.h>

/* --- one context, many threads: handlers, cancels, events from outside ------------------------ */

enum { DRIVERS = 4, SCHEDULES = 6, TASKS = 5 };

typedef struct plot plot_t;

typedef struct actor {
    ucc_coll_task_t super; /* must stay first */
    plot_t *plot;
    uint32_t number, left; /* rounds until it ends by itself; UINT32_MAX: others end it */
    _Atomic uint32_t inside, ends, begun;
} actor_t;

struct plot {
    ucc_schedule_t schedule; /* must stay first */
    ucc_coll_task_t ear;     /* listens to all of it, now and then */
    actor_t actor[TASKS];
    uint64_t random;
    uint32_t fragments;    /* heard; by the thread inside */
    _Atomic uint32_t busy; /* the owner has it: 0 or 1 */
    _Atomic uint64_t runs, canceled;
};

static plot_t plots[SCHEDULES];
static _Atomic bool over;
static heddle_ep_t *ep;

static void on_progress(ucc_coll_task_t *task) {
    actor_t *a = (actor_t *)task;
    plot_t *p = a->plot;
    if (atomic_fetch_add(&a->inside, 1) != 0) {
        stress_error("two threads are in one handler");
    }
    if (task->state == UCC_TASK_STATE_INPROGRESS) {
        uint64_t dice = random_below(&p->random, 32);
        atomic_store(&a->begun, 1);
        if (dice == 0) {
            heddle_event_manager_unsubscribe(&task->em, UCC_EVENT_FRAGMENT_COMPLETED, &p->ear);
        } else if (dice == 1) {
            ucc_event_manager_subscribe(&task->em, UCC_EVENT_FRAGMENT_COMPLETED, &p->ear);
        } else if (dice == 2) {
            ucc_event_manager_notify(&task->em, UCC_EVENT_FRAGMENT_COMPLETED);
        } else if (dice == 3 && random_below(&p->random, 8) == 0) {
            heddle_schedule_cancel(&p->schedule);
        } else if (dice == 4) {
            heddle_progress(ep);
        } else if (dice == 5 && random_below(&p->random, 64) == 0) {
            a->left = UINT32_MAX; /* it has ended otherwise */
            if (heddle_coll_task_end(task, UCC_ERR_IO_ERROR) == UCC_OK) {
                atomic_fetch_add(&a->ends, 1);
            }
        } else if (a->left != UINT32_MAX && a->left-- == 0) {
            a->left = UINT32_MAX;
            if (ucc_event_manager_notify(&task->em, UCC_EVENT_COMPLETED) == UCC_OK) {
                atomic_fetch_add(&a->ends, 1);
            }
        }
    }
    atomic_fetch_sub(&a->inside, 1);
}

static void on_fragment(ucc_coll_task_t *ear) {
    plot_t *p = (plot_t *)(void *)((char *)ear - offsetof(plot_t, ear));
    p->fragments++;
    heddle_event_manager_unsubscribe(&p->actor[0].super.em, UCC_EVENT_FRAGMENT_COMPLETED, ear);
}

static void prepare(plot_t *p, uint32_t number) {
    p->random = stress.seed + number + 1;
    stress_expect(ucc_schedule_init(&p->schedule), UCC_OK, "ucc_schedule_init");
    ucc_coll_task_init(&p->ear);
    p->ear.handlers[UCC_EVENT_FRAGMENT_COMPLETED] = on_fragment;
    for (uint32_t i = 0; i < TASKS; i++) {
        actor_t *a = &p->actor[i];
        ucc_coll_task_init(&a->super);
        a->super.handlers[UCC_EVENT_PROGRESS] = on_progress;
        a->plot = p;
        a->number = i;
        if (i > 0) { /* one or two before it */
            ucc_event_manager_subscribe(&p->actor[i - 1].super.em, UCC_EVENT_COMPLETED, &a->super);
            ucc_event_manager_subscribe(&p->actor[i / 2].super.em, UCC_EVENT_COMPLETED,
                                        i / 2 == i - 1 ? &p->ear : &a->super);
        }
        ucc_schedule_add_task(&p->schedule, &a->super);
    }
    stress_expect(heddle_schedule_attach(&p->schedule, heddle_ep_context(ep)), UCC_OK, "attach");
}

/* Whoever finds it idle looks at its result and starts it again. */
static void tend(plot_t *p) {
    uint32_t nobody = 0;
    if (!atomic_compare_exchange_strong(&p->busy, &nobody, 1)) {
        return;
    }
    ucc_status_t status = atomic_load(&p->runs) == 0 ? UCC_OK : ucc_schedule_progress(&p->schedule);
    if (status != UCC_INPROGRESS) {
        if (status != UCC_OK && status != HEDDLE_ERR_CANCELED && status != UCC_ERR_IO_ERROR) {
            stress_error("a schedule ended with %s", ucc_status_string(status));
        }
        atomic_fetch_add(&p->canceled, status != UCC_OK);
        for (uint32_t i = 0; i < TASKS; i++) {
            actor_t *a = &p->actor[i];
            if (atomic_load(&p->runs) && status == UCC_OK && atomic_load(&a->ends) != 1) {
                stress_error("a task of a complete schedule has ended %u times", a->ends);
            }
            a->left = (uint32_t)random_below(&p->random, 20);
            atomic_store(&a->ends, 0);
            atomic_store(&a->begun, 0);
        }
        atomic_fetch_add(&p->runs, 1);
        if (!atomic_load(&over)) {
            stress_expect(ucc_schedule_start(&p->schedule), UCC_OK, "ucc_schedule_start");
        }
    }
    atomic_store(&p->busy, 0);
}

static void *drive(void *arg) {
    uint64_t random = (uint64_t)(uintptr_t)arg + 77;
    while (!atomic_load(&over)) {
        plot_t *p = &plots[random_below(&random, SCHEDULES)];
        uint64_t dice = random_below(&random, 1000);
        if (dice == 0) {
            heddle_schedule_cancel(&p->schedule);
        } else if (dice == 1) {
            actor_t *a = &p->actor[random_below(&random, TASKS)];
            ucc_event_manager_notify(&a->super.em, UCC_EVENT_FRAGMENT_COMPLETED);
        } else if (dice <
                   4) { /* while it is in progress, it may be ended from here, by one of many */
            actor_t *a = &p->actor[random_below(&random, TASKS)];
            uint32_t begun = 1;
            if (atomic_compare_exchange_strong(&a->begun, &begun, 2)) {
                ucc_event_manager_subscribe(&a->super.em, UCC_EVENT_FRAGMENT_COMPLETED, &p->ear);
                heddle_event_manager_unsubscribe(&a->super.em, UCC_EVENT_FRAGMENT_COMPLETED,
                                                 &p->ear);
            }
        } else if (dice < 500) {
            heddle_progress(ep);
        } else {
            tend(p);
        }
    }
    return NULL;
}

static void crowd_of_threads(uint64_t runs) {
    heddle_group_t *group;
    heddle_group_params_t params = {
        .endpoints = 1, .contexts = 1, .thread_mode = UCC_THREAD_MULTIPLE};
    pthread_t thread[DRIVERS];
    must(heddle_group_create(&params, &group), "heddle_group_create");
    must(heddle_join(group, 0, &ep), "heddle_join");
    atomic_store(&over, false);
    for (uint32_t i = 0; i < SCHEDULES; i++) {
        prepare(&plots[i], i);
    }
    for (uintptr_t i = 0; i < DRIVERS; i++) {
        pthread_create(&thread[i], NULL, drive, (void *)i);
    }
    for (bool enough = false; !enough; sched_yield()) {
        enough = true;
        for (uint32_t i = 0; i < SCHEDULES; i++) {
            enough = enough && atomic_load(&plots[i].runs) > runs;
        }
    }
    atomic_store(&over, true);
    for (uint32_t i = 0; i < DRIVERS; i++) {
        pthread_join(thread[i], NULL);
    }
    uint64_t all = 0, canceled = 0;
    for (uint32_t i = 0; i < SCHEDULES; i++) {
        heddle_schedule_cancel(&plots[i].schedule);
        while (ucc_schedule_progress(&plots[i].schedule) == UCC_INPROGRESS) {
        }
        stress_expect(heddle_schedule_destroy(&plots[i].schedule), UCC_OK, "destroy");
        for (uint32_t k = 0; k < TASKS; k++) {
            heddle_coll_task_destroy(&plots[i].actor[k].super);
        }
        all += plots[i].runs;
        canceled += plots[i].canceled;
    }
    must(heddle_leave(ep), "heddle_leave");
    must(heddle_group_destroy(group), "heddle_group_destroy");
    printf("%llu runs, %llu of them canceled or failed\n", (unsigned long long)all,
           (unsigned long long)canceled);
}

/* --- schedules of collectives ----------------------------------------------------------------- */

enum { ENDPOINTS = 6, CHAIN = 4, COUNT = 50 };

typedef struct chain {
    ucc_schedule_t schedule;
    heddle_request_task_t task[CHAIN];
    int32_t value[COUNT];
} chain_t;

/* Allreduces in place, one after the other. */
static void prepare_chain(chain_t *c, ucc_team_h team) {
    ucc_schedule_init(&c->schedule);
    for (uint32_t i = 0; i < CHAIN; i++) {
        ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                                .flags = UCC_COLL_ARGS_FLAG_IN_PLACE,
                                .coll_type = UCC_COLL_TYPE_ALLREDUCE,
                                .op = UCC_OP_SUM};
        args.dst.info = (ucc_coll_buffer_info_t){c->value, i % 2 ? COUNT : 1, UCC_DT_INT32,
                                                 UCC_MEMORY_TYPE_HOST};
        stress_expect(heddle_collective_task_init(&c->task[i], team, &args, NULL), UCC_OK, "task");
        if (i > 0) {
            ucc_event_manager_subscribe(&c->task[i - 1].super.em, UCC_EVENT_COMPLETED,
                                        &c->task[i].super);
        }
        ucc_schedule_add_task(&c->schedule, &c->task[i].super);
    }
}

static void run_chains(chain_t **c, uint32_t n, uint64_t rounds) {
    for (uint64_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j < COUNT; j++) {
                c[i]->value[j] = 1;
            }
            stress_expect(ucc_schedule_start(&c[i]->schedule), UCC_OK, "start");
        }
        for (bool any = true; any;) {
            any = false;
            for (uint32_t i = 0; i < n; i++) {
                ucc_status_t status = ucc_schedule_progress(&c[i]->schedule);
                any |= status == UCC_INPROGRESS;
                if (status < 0) {
                    stress_error("a chain: %s", ucc_status_string(status));
                    return;
                }
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            int32_t all = ENDPOINTS * ENDPOINTS;
            if (c[i]->value[0] != all * all || c[i]->value[COUNT - 1] != all) {
                stress_error("a wrong sum: %d and %d", c[i]->value[0], c[i]->value[COUNT - 1]);
            }
        }
    }
}

static void chain_of_one(heddle_ep_t *own, void *arg) {
    chain_t c, *list = &c;
    prepare_chain(&c, heddle_ep_team(own));
    if (heddle_ep_index(own) % 2) {
        heddle_schedule_attach(&c.schedule, heddle_ep_context(own));
    }
    run_chains(&list, 1, *(uint64_t *)arg);
}

static void chains_of_one_thread(uint64_t rounds) {
    heddle_group_t *group;
    heddle_group_params_t params = {.endpoints = ENDPOINTS, .contexts = 2};
    heddle_ep_t *all[ENDPOINTS];
    chain_t c[ENDPOINTS], *list[ENDPOINTS];
    must(heddle_group_create(&params, &group), "heddle_group_create");
    for (uint32_t i = 0; i < ENDPOINTS; i++) {
        must(heddle_join(group, i, &all[i]), "heddle_join");
        prepare_chain(&c[i], heddle_ep_team(all[i]));
        heddle_schedule_attach(&c[i].schedule, heddle_ep_context(all[i]));
        list[i] = &c[i];
    }
    run_chains(list, ENDPOINTS, rounds);
    for (uint32_t i = 0; i < ENDPOINTS; i++) {
        must(heddle_leave(all[i]), "heddle_leave");
    }
    must(heddle_group_destroy(group), "heddle_group_destroy");
}

/* --- registered algorithms -------------------------------------------------------------------- */

/* Barrier by dissemination: in step i a message, a bcast over two, to the endpoint 2^i further on.
 */
typedef struct spread {
    ucc_schedule_t schedule;
    uint32_t steps;
    int32_t out, in;
    heddle_request_task_t *task; /* two per step */
    ucc_coll_task_t bad;         /* of some that fail */
} spread_t;

static _Atomic uint64_t made, freed, failures;
static _Atomic uint32_t fails_at; /* which endpoint's next run fails; UINT32_MAX: none */

static void fail(ucc_coll_task_t *task) {
    if (task->state == UCC_TASK_STATE_INPROGRESS) {
        atomic_fetch_add(&failures, 1);
        heddle_coll_task_end(task, UCC_ERR_NO_RESOURCE);
    }
}

static void prepare_transfer(heddle_request_task_t *task, ucc_team_h team, uint32_t from,
                             uint32_t to, int32_t *buffer) {
    uint64_t none = 0;
    ucc_coll_args_t args = {
        .mask = UCC_COLL_ARGS_FIELD_ACTIVE_SET, .coll_type = UCC_COLL_TYPE_BCAST, .root = from};
    args.active_set.start = from;
    args.active_set.stride = (int64_t)to - (int64_t)from;
    args.active_set.size = 2;
    args.src.info = (ucc_coll_buffer_info_t){buffer, 1, UCC_DT_INT32, UCC_MEMORY_TYPE_HOST};
    stress_expect(heddle_collective_task_init(task, team, &args, &none), UCC_OK, "task");
}

static ucc_status_t spread_init(const heddle_algorithm_call_t *call, void *arg,
                                ucc_schedule_t **schedule, void **self) {
    uint32_t n = call->size, me = call->endpoint, steps = 0;
    (void)arg;
    while (1u << steps < n) {
        steps++;
    }
    spread_t *s = must_alloc(1, sizeof(*s));
    s->task = must_alloc(2 * steps + 1, sizeof(*s->task));
    s->steps = steps;
    ucc_schedule_init(&s->schedule);
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t by = 1u << i;
        prepare_transfer(&s->task[2 * i], call->team, me, (me + by) % n, &s->out);
        prepare_transfer(&s->task[2 * i + 1], call->team, (me + n - by) % n, me, &s->in);
        for (uint32_t k = 2 * i; k < 2 * i + 2; k++) {
            for (uint32_t b = 2 * i - 2; i > 0 && b < 2 * i; b++) {
                ucc_event_manager_subscribe(&s->task[b].super.em, UCC_EVENT_COMPLETED,
                                            &s->task[k].super);
            }
            ucc_schedule_add_task(&s->schedule, &s->task[k].super);
        }
    }
    uint32_t expected = me;
    if (atomic_compare_exchange_strong(&fails_at, &expected, UINT32_MAX)) {
        if (atomic_load(&made) % 2) { /* half-way, unless that message has come already */
            s->task[steps].super.handlers[UCC_EVENT_PROGRESS] = fail;
        } else {
            ucc_coll_task_init(&s->bad);
            s->bad.handlers[UCC_EVENT_PROGRESS] = fail;
            ucc_schedule_add_task(&s->schedule, &s->bad);
        }
    }
    atomic_fetch_add(&made, 1);
    *schedule = &s->schedule;
    *self = s;
    return UCC_OK;
}

static ucc_status_t spread_start(void *self, uint64_t tag) {
    spread_t *s = self;
    for (uint32_t i = 0; i < 2 * s->steps; i++) {
        s->task[i].tag = tag + i / 2;
    }
    return UCC_OK;
}

static void spread_end(void *self) {
    spread_t *s = self;
    stress_expect(heddle_schedule_destroy(&s->schedule), UCC_OK, "heddle_schedule_destroy");
    for (uint32_t i = 0; i < 2 * s->steps; i++) {
        heddle_coll_task_destroy(&s->task[i].super);
    }
    free(s->task);
    free(s);
    atomic_fetch_add(&freed, 1);
}

static const heddle_algorithm_params_t spread = {.name = "dissemination",
                                                 .coll_types = UCC_COLL_TYPE_BARRIER,
                                                 .init = spread_init,
                                                 .start = spread_start,
                                                 .finalize = spread_end};

typedef struct meeting {
    uint64_t rounds;
    bool to_fail;
    _Atomic uint64_t arrived;
} meeting_t;

static void meet(heddle_ep_t *own, void *arg) {
    meeting_t *m = arg;
    heddle_algorithm_t *algorithm;
    uint32_t n = heddle_ep_size(own);
    must(heddle_algorithm_register(heddle_ep_team(own), &spread, &algorithm), "register");
    for (uint64_t round = 0; round < m->rounds; round++) {
        atomic_fetch_add(&m->arrived, 1);
        if (m->to_fail && round == m->rounds / 2) {
            atomic_store(&fails_at, (uint32_t)(round % n));
        }
        ucc_status_t status = heddle_barrier(own);
        if (m->to_fail && status != UCC_OK) {
            stress_expect(status, UCC_ERR_NO_RESOURCE, "a barrier that fails");
            stress_expect(heddle_ep_failure(own), UCC_ERR_NO_RESOURCE, "what failed");
            return;
        }
        stress_expect(status, UCC_OK, "a barrier by dissemination");
        if (atomic_load(&m->arrived) < (round + 1) * n) {
            stress_error("a barrier that lets through before all have come");
        }
    }
}

static void meetings(uint32_t n, uint64_t rounds, bool to_fail) {
    meeting_t m = {.rounds = rounds, .to_fail = to_fail};
    atomic_store(&fails_at, UINT32_MAX);
    stress_expect(heddle_run(n, meet, &m), UCC_OK, "heddle_run");
    if (atomic_load(&made) != atomic_load(&freed)) {
        stress_error("%llu runs were made and %llu freed", (unsigned long long)made,
                     (unsigned long long)freed);
    }
}

int main(int argc, char **argv) {
    setenv("HEDDLE_LOG_LEVEL", "fatal", 0);
    stress_begin(argc, argv);
    stress_phase("many threads on one context", 120);
    crowd_of_threads(stress_scaled(300));
    uint64_t rounds = stress_scaled(300);
    stress_phase("chains, a thread each", 120);
    stress_expect(heddle_run(ENDPOINTS, chain_of_one, &rounds), UCC_OK, "heddle_run");
    stress_phase("chains, one thread for all", 120);
    chains_of_one_thread(rounds);
    for (uint32_t n = 2; n <= 7; n += n == 3 ? 4 : 1) {
        stress_phase("a registered algorithm", 120);
        meetings(n, stress_scaled(150), false);
    }
    /* A small dose may meet no failure (a run was kept, a message came early): it goes on then. */
    for (uint64_t i = 0; i < stress_scaled(50) || (failures == 0 && i < 1000); i++) {
        stress_phase("a registered algorithm that fails", 120);
        meetings(5, 1 + i % 4, true);
    }
    printf("%llu runs of an algorithm, %llu of them failed\n", (unsigned long long)made,
           (unsigned long long)failures);
    if (failures == 0) {
        stress_error("no run of 1,000 failed: nothing was tried");
    }
    return stress_end();
}
