/* recursive_doubling.c: an allreduce as a schedule of tasks, after the example of "UCC Schedule and
 * Tasks".
 *
 * Task i exchanges what it has with the endpoint whose number differs in bit i, and adds what
 * comes; task i + 1 begins when task i has completed. To send and to receive are bcasts over an
 * active set of two (see examples/teams/neighbours.c). The context drives the schedule: its owner
 * does nothing but to call progress.
 *
 * usage: recursive_doubling [threads [count [times]]]      (default 4, 1000 and 50; threads: a
 * power of two)
 */
#include <heddle/heddle.h>
#include <heddle/schedule.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TASKS = 16 };

typedef struct allreduce allreduce_t;

typedef struct task {
    ucc_coll_task_t super; /* must stay first */
    allreduce_t *schedule;
    uint32_t peer;
    enum { STAGE_START, STAGE_PROGRESS } stage;
    ucc_coll_req_h request[2];
} task_t;

struct allreduce {
    ucc_schedule_t super; /* must stay first */
    heddle_ep_t *ep;
    int32_t *dst, *scratch;
    uint64_t count;
    uint32_t n_tasks;
    task_t task[MOST_TASKS];
};

static void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "recursive_doubling: %s: %s\n", what, ucc_status_string(status));
        exit(2);
    }
}

/* `from` sends to `to`; both call, with the same order of sends. */
static ucc_coll_req_h transfer(const allreduce_t *s, uint32_t from, uint32_t to, int32_t *buffer) {
    ucc_coll_req_h request;
    uint32_t lower = from < to ? from : to, upper = from < to ? to : from;
    ucc_coll_args_t args = {
        .mask = UCC_COLL_ARGS_FIELD_ACTIVE_SET, .coll_type = UCC_COLL_TYPE_BCAST, .root = from};
    args.active_set.start = lower;
    args.active_set.stride = upper - lower;
    args.active_set.size = 2;
    args.src.info = (ucc_coll_buffer_info_t){.buffer = buffer,
                                             .count = s->count,
                                             .datatype = UCC_DT_INT32,
                                             .mem_type = UCC_MEMORY_TYPE_HOST};
    check(ucc_collective_init_and_post(&args, &request, heddle_ep_team(s->ep)), "bcast of two");
    return request;
}

static void start_exchange(task_t *self) {
    allreduce_t *s = self->schedule;
    uint32_t me = heddle_ep_index(s->ep), lower = me < self->peer ? me : self->peer;
    uint32_t upper = me < self->peer ? self->peer : me;
    self->request[0] = transfer(s, lower, upper, me == lower ? s->dst : s->scratch);
    self->request[1] = transfer(s, upper, lower, me == upper ? s->dst : s->scratch);
}

static int has_ended(task_t *self) {
    for (int i = 0; i < 2; i++) {
        ucc_status_t status = ucc_collective_test(self->request[i]);
        if (status == UCC_INPROGRESS) {
            return 0;
        }
        check(status, "exchange");
    }
    return 1;
}

static void on_progress(ucc_coll_task_t *task) {
    task_t *self = (task_t *)task;
    allreduce_t *s = self->schedule;
    if (task->state != UCC_TASK_STATE_INPROGRESS) {
        return;
    }
    switch (self->stage) {
    case STAGE_START:
        start_exchange(self);
        self->stage = STAGE_PROGRESS;
        /* fall through */
    case STAGE_PROGRESS:
        if (!has_ended(self)) {
            return;
        }
        for (int i = 0; i < 2; i++) {
            check(ucc_collective_finalize(self->request[i]), "finalize");
        }
        for (uint64_t i = 0; i < s->count; i++) {
            s->dst[i] += s->scratch[i];
        }
        self->stage = STAGE_START; /* for the next run */
        check(ucc_event_manager_notify(&task->em, UCC_EVENT_COMPLETED), "notify");
    }
}

static void on_completed(ucc_coll_task_t *task) {
    task->state = UCC_TASK_STATE_INPROGRESS;
}

static void prepare(allreduce_t *s, heddle_ep_t *ep, int32_t *dst, int32_t *scratch,
                    uint64_t count) {
    uint32_t me = heddle_ep_index(ep);
    s->ep = ep;
    s->dst = dst;
    s->scratch = scratch;
    s->count = count;
    s->n_tasks = (uint32_t)__builtin_ctz(heddle_ep_size(ep));
    check(ucc_schedule_init(&s->super), "ucc_schedule_init");
    for (uint32_t i = 0; i < s->n_tasks; i++) {
        task_t *task = &s->task[i];
        check(ucc_coll_task_init(&task->super), "ucc_coll_task_init");
        task->stage = STAGE_START;
        task->schedule = s;
        task->peer = me ^ 1u << i;
        task->super.handlers[UCC_EVENT_PROGRESS] = on_progress;
        task->super.handlers[UCC_EVENT_COMPLETED] = on_completed;
        if (i > 0) {
            check(ucc_event_manager_subscribe(&s->task[i - 1].super.em, UCC_EVENT_COMPLETED,
                                              &task->super),
                  "ucc_event_manager_subscribe");
        }
        check(ucc_schedule_add_task(&s->super, &task->super), "ucc_schedule_add_task");
    }
    check(heddle_schedule_attach(&s->super, heddle_ep_context(ep)), "heddle_schedule_attach");
}

typedef struct problem {
    uint64_t count, times;
    _Atomic uint64_t wrong;
} problem_t;

static void work(heddle_ep_t *ep, void *arg) {
    problem_t *p = arg;
    uint32_t me = heddle_ep_index(ep), n = heddle_ep_size(ep);
    int32_t *dst = malloc(p->count * sizeof(*dst)), *scratch = malloc(p->count * sizeof(*scratch));
    allreduce_t schedule;
    if (!dst || !scratch) {
        exit(2);
    }
    prepare(&schedule, ep, dst, scratch, p->count);
    for (uint64_t time = 0; time < p->times; time++) {
        for (uint64_t i = 0; i < p->count; i++) {
            dst[i] = (int32_t)(me * (i + 1) + time);
        }
        ucc_status_t status;
        check(ucc_schedule_start(&schedule.super), "ucc_schedule_start");
        do {
            status = ucc_schedule_progress(&schedule.super);
        } while (status == UCC_INPROGRESS);
        check(status, "schedule");
        for (uint64_t i = 0; i < p->count; i++) {
            p->wrong += dst[i] != (int32_t)(n * (n - 1) / 2 * (i + 1) + n * time);
        }
    }
    check(heddle_schedule_destroy(&schedule.super), "heddle_schedule_destroy");
    free(dst);
    free(scratch);
}

int main(int argc, char **argv) {
    uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 4;
    problem_t p = {.count = argc > 2 ? (uint64_t)atoi(argv[2]) : 1000,
                   .times = argc > 3 ? (uint64_t)atoi(argv[3]) : 50};
    if (n == 0 || n & (n - 1)) {
        fprintf(stderr, "recursive_doubling: %u threads are not a power of two\n", n);
        return 2;
    }
    check(heddle_run(n, work, &p), "heddle_run");
    printf("recursive doubling among %u threads, %llu times: %llu values are wrong\n", n,
           (unsigned long long)p.times, (unsigned long long)p.wrong);
    return p.wrong == 0 ? 0 : 1;
}
