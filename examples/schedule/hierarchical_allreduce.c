/* hierarchical_allreduce.c: an allreduce over nodes and leaders as a schedule of collectives, after
 * the example of "UCC Schedule and Tasks".
 *
 * Every `node` endpoints form a sub-team, and their first ones another. Three tasks, each a
 * collective of one of them: reduce to the node's leader; allreduce among the leaders, which the
 * others don't have; bcast in the node.
 *
 * usage: hierarchical_allreduce [threads [node [count [times]]]]      (default 6, 2, 1000 and 50)
 */
#include <heddle/heddle.h>
#include <heddle/schedule.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct problem {
    uint32_t node;
    uint64_t count, times;
    _Atomic uint64_t wrong;
} problem_t;

typedef struct teams {
    heddle_ep_t *node, *leaders; /* leaders: NULL but for a leader */
} teams_t;

static void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "hierarchical_allreduce: %s: %s\n", what, ucc_status_string(status));
        exit(2);
    }
}

static ucc_coll_buffer_info_t info(double *buffer, uint64_t count) {
    return (ucc_coll_buffer_info_t){.buffer = buffer,
                                    .count = count,
                                    .datatype = UCC_DT_FLOAT64,
                                    .mem_type = UCC_MEMORY_TYPE_HOST};
}

/* One task: this collective on that team; after `before`, if there is one. */
static heddle_request_task_t *add(ucc_schedule_t *schedule, heddle_request_task_t *task,
                                  heddle_request_task_t *before, heddle_ep_t *ep,
                                  ucc_coll_type_t type, double *src, double *dst, uint64_t count) {
    ucc_coll_args_t args = {.coll_type = type, .op = UCC_OP_SUM, .root = 0};
    args.src.info = info(src, count);
    args.dst.info = info(dst, count);
    if (src == dst && type != UCC_COLL_TYPE_BCAST) {
        args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
        args.flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
    }
    check(heddle_collective_task_init(task, heddle_ep_team(ep), &args, NULL), "task");
    if (before) {
        check(ucc_event_manager_subscribe(&before->super.em, UCC_EVENT_COMPLETED, &task->super),
              "subscribe");
    }
    check(ucc_schedule_add_task(schedule, &task->super), "add_task");
    return task;
}

static void run(ucc_schedule_t *schedule) {
    ucc_status_t status;
    check(ucc_schedule_start(schedule), "start");
    do {
        status = ucc_schedule_progress(schedule);
    } while (status == UCC_INPROGRESS);
    check(status, "schedule");
}

static void work(heddle_ep_t *ep, void *arg) {
    problem_t *p = arg;
    uint32_t me = heddle_ep_index(ep), n = heddle_ep_size(ep);
    teams_t teams;
    check(heddle_split(ep, me / p->node, me, &teams.node), "heddle_split");
    check(heddle_split(ep, me % p->node == 0 ? 0 : -1, me, &teams.leaders), "heddle_split");

    double *src = malloc(p->count * sizeof(*src)), *dst = malloc(p->count * sizeof(*dst));
    ucc_schedule_t schedule;
    heddle_request_task_t task[3], *last;
    if (!src || !dst) {
        exit(2);
    }
    check(ucc_schedule_init(&schedule), "ucc_schedule_init");
    last = add(&schedule, &task[0], NULL, teams.node, UCC_COLL_TYPE_REDUCE, src, dst, p->count);
    if (teams.leaders) {
        last = add(&schedule, &task[1], last, teams.leaders, UCC_COLL_TYPE_ALLREDUCE, dst, dst,
                   p->count);
    }
    add(&schedule, &task[2], last, teams.node, UCC_COLL_TYPE_BCAST, dst, dst, p->count);
    check(heddle_schedule_attach(&schedule, heddle_ep_context(ep)), "attach");

    for (uint64_t time = 0; time < p->times; time++) {
        for (uint64_t i = 0; i < p->count; i++) {
            src[i] = (double)(me + i + time);
        }
        run(&schedule);
        for (uint64_t i = 0; i < p->count; i++) {
            p->wrong += dst[i] != (double)n * (n - 1) / 2 + (double)(n * (i + time));
        }
    }
    check(heddle_schedule_destroy(&schedule), "heddle_schedule_destroy");
    free(src);
    free(dst);
    if (teams.leaders) {
        check(heddle_leave(teams.leaders), "heddle_leave");
    }
    check(heddle_leave(teams.node), "heddle_leave");
}

int main(int argc, char **argv) {
    uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 6;
    problem_t p = {.node = argc > 2 && atoi(argv[2]) > 0 ? (uint32_t)atoi(argv[2]) : 2,
                   .count = argc > 3 ? (uint64_t)atoi(argv[3]) : 1000,
                   .times = argc > 4 ? (uint64_t)atoi(argv[4]) : 50};
    check(heddle_run(n, work, &p), "heddle_run");
    printf(
        "hierarchical allreduce of %u threads in nodes of %u, %llu times: %llu values are wrong\n",
        n, p.node, (unsigned long long)p.times, (unsigned long long)p.wrong);
    return p.wrong == 0 ? 0 : 1;
}
