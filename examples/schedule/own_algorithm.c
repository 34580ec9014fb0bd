/* own_algorithm.c: an allreduce of one's own, registered with a team, which a program that was
 * written for UCC then runs without knowing.
 *
 * The algorithm passes everything around a ring: in step i each endpoint sends to the next what it
 * received in step i - 1 from the one before, and adds it to its result. It is slower than the
 * library's; it is here to show how one is made: a schedule of tasks, each a message or a sum;
 * messages are bcasts over active sets of two, under the tags that each run is given. Then endpoint
 * 1 is made to fail half-way: whoever had what it needs before may end well, the others are told,
 * and all are at the next call.
 *
 * usage: own_algorithm [threads [count [times]]]      (default 4, 1000 and 20)
 */
#include <heddle/heddle.h>
#include <heddle/schedule.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t runs;

static void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "own_algorithm: %s: %s\n", what, ucc_status_string(status));
        exit(2);
    }
}

/* --- the algorithm ---------------------------------------------------------------------------- */

typedef struct ring ring_t;

/* One step: to the next, from the one before, and the sum of what came. */
typedef struct step {
    heddle_request_task_t send, receive;
    ucc_coll_task_t sum;
    ring_t *ring;
    const double *received;
} step_t;

struct ring {
    ucc_schedule_t schedule;
    const double *src;
    double *dst;
    uint64_t count;
    uint32_t steps;
    double *block; /* by step: what is sent in it */
    step_t *step;
};

static void add(ucc_coll_task_t *task) {
    step_t *s = (step_t *)(void *)((char *)task - offsetof(step_t, sum));
    if (task->state != UCC_TASK_STATE_INPROGRESS) {
        return;
    }
    for (uint64_t i = 0; i < s->ring->count; i++) {
        s->ring->dst[i] += s->received[i];
    }
    check(heddle_coll_task_end(task, UCC_OK), "heddle_coll_task_end");
}

static void fail(ucc_coll_task_t *task) {
    if (task->state == UCC_TASK_STATE_INPROGRESS) {
        check(heddle_coll_task_end(task, UCC_ERR_IO_ERROR), "heddle_coll_task_end");
    }
}

static void after(ucc_coll_task_t *first, ucc_coll_task_t *second) {
    check(ucc_event_manager_subscribe(&first->em, UCC_EVENT_COMPLETED, second), "subscribe");
}

/* A message between two endpoints; its tag comes with the run. */
static void message(heddle_request_task_t *task, ucc_team_h team, uint32_t from, uint32_t to,
                    double *buffer, uint64_t count) {
    const uint64_t tag = 0;
    ucc_coll_args_t args = {
        .mask = UCC_COLL_ARGS_FIELD_ACTIVE_SET, .coll_type = UCC_COLL_TYPE_BCAST, .root = from};
    args.active_set.start = from;
    args.active_set.stride = (int64_t)to - (int64_t)from;
    args.active_set.size = 2;
    args.src.info = (ucc_coll_buffer_info_t){buffer, count, UCC_DT_FLOAT64, UCC_MEMORY_TYPE_HOST};
    check(heddle_collective_task_init(task, team, &args, &tag), "heddle_collective_task_init");
}

/* Decides by what all endpoints pass alike, and by nothing else. */
static bool matches(const heddle_algorithm_call_t *call, void *arg) {
    const ucc_coll_args_t *args = call->args;
    bool flagged = (args->mask & UCC_COLL_ARGS_FIELD_FLAGS) && args->flags != 0;
    (void)arg;
    return call->size > 1 && !flagged && args->op == UCC_OP_SUM &&
           args->dst.info.datatype == UCC_DT_FLOAT64;
}

static ucc_status_t init(const heddle_algorithm_call_t *call, void *arg, ucc_schedule_t **schedule,
                         void **self) {
    const uint32_t *fails_at = arg;
    uint32_t n = call->size, me = call->endpoint, next = (me + 1) % n, last = (me + n - 1) % n;
    ring_t *r = calloc(1, sizeof(*r));
    if (!r) {
        return UCC_ERR_NO_MEMORY;
    }
    r->src = call->args->src.info.buffer;
    r->dst = call->args->dst.info.buffer;
    r->count = call->args->dst.info.count;
    r->steps = n - 1;
    r->block = malloc(n * r->count * sizeof(*r->block));
    r->step = calloc(r->steps, sizeof(*r->step));
    if (!r->block || !r->step) {
        free(r->block);
        free(r->step);
        free(r);
        return UCC_ERR_NO_MEMORY;
    }
    check(ucc_schedule_init(&r->schedule), "ucc_schedule_init");
    for (uint32_t i = 0; i < r->steps; i++) {
        step_t *s = &r->step[i];
        double *sent = r->block + i * r->count, *received = sent + r->count;
        s->ring = r;
        s->received = received;
        message(&s->send, call->team, me, next, sent, r->count);
        message(&s->receive, call->team, last, me, received, r->count);
        check(ucc_coll_task_init(&s->sum), "ucc_coll_task_init");
        s->sum.handlers[UCC_EVENT_PROGRESS] = *fails_at == me && i == r->steps / 2 ? fail : add;
        after(&s->receive.super, &s->sum);
        if (i > 0) {
            after(&r->step[i - 1].receive.super, &s->send.super);
            after(&r->step[i - 1].receive.super, &s->receive.super);
        }
        ucc_schedule_add_task(&r->schedule, &s->send.super);
        ucc_schedule_add_task(&r->schedule, &s->receive.super);
        ucc_schedule_add_task(&r->schedule, &s->sum);
    }
    *schedule = &r->schedule;
    *self = r;
    return UCC_OK;
}

static ucc_status_t start(void *self, uint64_t tag) {
    ring_t *r = self;
    for (uint32_t i = 0; i < r->steps; i++) {
        r->step[i].send.tag = r->step[i].receive.tag = tag + i;
    }
    memcpy(r->block, r->src, r->count * sizeof(*r->src));
    memmove(r->dst, r->src, r->count * sizeof(*r->src));
    runs++;
    return UCC_OK;
}

static void finalize(void *self) {
    ring_t *r = self;
    check(heddle_schedule_destroy(&r->schedule), "heddle_schedule_destroy");
    for (uint32_t i = 0; i < r->steps; i++) {
        heddle_coll_task_destroy(&r->step[i].send.super);
        heddle_coll_task_destroy(&r->step[i].receive.super);
        heddle_coll_task_destroy(&r->step[i].sum);
    }
    free(r->block);
    free(r->step);
    free(r);
}

/* --- a client --------------------------------------------------------------------------------- */

/* As in any program that is written for UCC. */
static ucc_status_t allreduce(ucc_team_h team, ucc_context_h context, const double *src,
                              double *dst, uint64_t count) {
    ucc_coll_req_h request;
    ucc_status_t status;
    ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLREDUCE, .op = UCC_OP_SUM};
    args.src.info =
        (ucc_coll_buffer_info_t){(void *)src, count, UCC_DT_FLOAT64, UCC_MEMORY_TYPE_HOST};
    args.dst.info = (ucc_coll_buffer_info_t){dst, count, UCC_DT_FLOAT64, UCC_MEMORY_TYPE_HOST};
    check(ucc_collective_init(&args, &request, team), "ucc_collective_init");
    status = ucc_collective_post(request);
    while (status == UCC_OK && (status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        status = ucc_context_progress(context);
    }
    ucc_collective_finalize(request);
    return status;
}

typedef struct problem {
    uint64_t count, times;
    uint32_t fails_at; /* the endpoint that is to fail; UINT32_MAX: none */
    _Atomic uint64_t wrong, told;
} problem_t;

static void work(heddle_ep_t *ep, void *arg) {
    problem_t *p = arg;
    uint32_t me = heddle_ep_index(ep), n = heddle_ep_size(ep);
    double *src = malloc(p->count * sizeof(*src)), *dst = malloc(p->count * sizeof(*dst));
    heddle_algorithm_t *algorithm;
    heddle_algorithm_params_t params = {.name = "ring",
                                        .coll_types = UCC_COLL_TYPE_ALLREDUCE,
                                        .arg = &p->fails_at,
                                        .matches = matches,
                                        .init = init,
                                        .start = start,
                                        .finalize = finalize};
    if (!src || !dst) {
        exit(2);
    }
    check(heddle_algorithm_register(heddle_ep_team(ep), &params, &algorithm), "register");
    for (uint64_t time = 0; time < p->times; time++) {
        for (uint64_t i = 0; i < p->count; i++) {
            src[i] = (double)(me + i + time);
        }
        ucc_status_t status =
            allreduce(heddle_ep_team(ep), heddle_ep_context(ep), src, dst, p->count);
        if (status != UCC_OK) {
            p->wrong += status != UCC_ERR_IO_ERROR || p->fails_at == UINT32_MAX;
        } else {
            p->wrong += me == p->fails_at;
        }
        for (uint64_t i = 0; i < p->count && status == UCC_OK; i++) {
            p->wrong += dst[i] != (double)n * (n - 1) / 2 + (double)(n * (i + time));
        }
    }
    ucc_status_t end = heddle_barrier(ep),
                 noted = heddle_ep_failure(ep); /* heddle_run need not return it */
    p->told += end == UCC_ERR_IO_ERROR && noted == UCC_ERR_IO_ERROR;
    check(heddle_algorithm_unregister(algorithm), "unregister");
    free(src);
    free(dst);
}

int main(int argc, char **argv) {
    uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 4;
    problem_t p = {.count = argc > 2 ? (uint64_t)atoi(argv[2]) : 1000,
                   .times = argc > 3 ? (uint64_t)atoi(argv[3]) : 20,
                   .fails_at = UINT32_MAX};
    if (n < 2) {
        fprintf(stderr, "own_algorithm: a ring has 2 threads or more\n");
        return 2;
    }
    check(heddle_run(n, work, &p), "heddle_run");
    printf("a ring of %u threads, run %llu times: %llu values are wrong\n", n,
           (unsigned long long)runs, (unsigned long long)p.wrong);
    if (runs != n * p.times) {
        printf("the algorithm was not used\n");
        return 1;
    }
    problem_t failing = {.count = p.count, .times = 1, .fails_at = 1};
    check(heddle_run(n, work, &failing), "heddle_run");
    printf("a ring of which one fails half-way: %llu of %u endpoints were told\n",
           (unsigned long long)failing.told, n);
    return p.wrong == 0 && p.told == 0 && failing.wrong == 0 && failing.told == n ? 0 : 1;
}
