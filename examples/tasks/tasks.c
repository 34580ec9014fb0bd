/* tasks.c: a thousand endpoints, a handful of threads.
 *
 * Each endpoint is a task: a piece of state, no thread. A driver thread owns a range of them, posts
 * the collective for each, and progresses the one context that they share until all are complete;
 * one progress call works for all. Only calls of the UCC interface are used after joining.
 *
 * usage: tasks [tasks [drivers [iterations]]]      (default 1000, 2 and 20)
 */
#include <heddle/heddle.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "tasks: %s: %s\n", what, ucc_status_string(status));
        exit(2);
    }
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

typedef struct task {
    uint32_t number;
    heddle_ep_t *ep;
    ucc_coll_req_h request;
    uint64_t *out, *in; /* one number per peer */
} task_t;

typedef struct driver {
    heddle_group_t *group;
    pthread_barrier_t *start; /* an ordinary barrier, so that all drivers begin a round together */
    uint32_t index, n_drivers, n_tasks, iterations;
    pthread_t thread;
    task_t *tasks; /* the driver's own */
    uint32_t n_own;
    uint64_t wrong;
    double times[3];
} driver_t;

/* One collective: how a task describes its part, what it puts in before, what it expects after. */
typedef struct kind {
    const char *name;
    void (*describe)(const driver_t *d, const task_t *task, ucc_coll_args_t *args);
    void (*fill)(const driver_t *d, task_t *task, uint32_t round);
    uint64_t (*wrong)(const driver_t *d, const task_t *task, uint32_t round);
} kind_t;

/* ------------------------------------------------------------------------------------------------
 * Barrier
 * ---------------------------------------------------------------------------------------------- */

static void barrier_describe(const driver_t *d, const task_t *task, ucc_coll_args_t *args) {
    (void)d;
    (void)task;
    args->coll_type = UCC_COLL_TYPE_BARRIER;
}

static void nothing_fill(const driver_t *d, task_t *task, uint32_t round) {
    (void)d;
    (void)task;
    (void)round;
}

static uint64_t nothing_wrong(const driver_t *d, const task_t *task, uint32_t round) {
    (void)d;
    (void)task;
    (void)round;
    return 0;
}

/* ------------------------------------------------------------------------------------------------
 * Allreduce: the sum of number + round
 * ---------------------------------------------------------------------------------------------- */

static ucc_coll_buffer_info_t numbers(uint64_t *buffer, uint64_t count) {
    return (ucc_coll_buffer_info_t){.buffer = buffer,
                                    .count = count,
                                    .datatype = UCC_DT_UINT64,
                                    .mem_type = UCC_MEMORY_TYPE_HOST};
}

static void allreduce_describe(const driver_t *d, const task_t *task, ucc_coll_args_t *args) {
    (void)d;
    args->coll_type = UCC_COLL_TYPE_ALLREDUCE;
    args->op = UCC_OP_SUM;
    args->src.info = numbers(task->out, 1);
    args->dst.info = numbers(task->in, 1);
}

static void allreduce_fill(const driver_t *d, task_t *task, uint32_t round) {
    (void)d;
    task->out[0] = task->number + (uint64_t)round;
    task->in[0] = 0;
}

static uint64_t allreduce_wrong(const driver_t *d, const task_t *task, uint32_t round) {
    uint64_t n = d->n_tasks;
    return task->in[0] != n * (n - 1) / 2 + n * round;
}

/* ------------------------------------------------------------------------------------------------
 * Alltoall: to the peer that is k places further round the ring goes k
 * ---------------------------------------------------------------------------------------------- */

static void alltoall_describe(const driver_t *d, const task_t *task, ucc_coll_args_t *args) {
    args->coll_type = UCC_COLL_TYPE_ALLTOALL;
    args->src.info = numbers(task->out, d->n_tasks);
    args->dst.info = numbers(task->in, d->n_tasks);
}

static void alltoall_fill(const driver_t *d, task_t *task, uint32_t round) {
    for (uint64_t k = 0; k < d->n_tasks; k++) {
        task->out[(task->number + k) % d->n_tasks] = k + ((uint64_t)round << 32);
    }
    memset(task->in, 0xff, d->n_tasks * sizeof(uint64_t));
}

static uint64_t alltoall_wrong(const driver_t *d, const task_t *task, uint32_t round) {
    uint64_t wrong = 0;
    for (uint64_t peer = 0; peer < d->n_tasks; peer++) {
        uint64_t k = (d->n_tasks + task->number - peer) % d->n_tasks;
        wrong += task->in[peer] != k + ((uint64_t)round << 32);
    }
    return wrong;
}

static const kind_t kinds[] = {
    {"barrier", barrier_describe, nothing_fill, nothing_wrong},
    {"allreduce, 8 bytes", allreduce_describe, allreduce_fill, allreduce_wrong},
    {"alltoall, 8 bytes", alltoall_describe, alltoall_fill, alltoall_wrong},
};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ------------------------------------------------------------------------------------------------
 * A driver
 * ---------------------------------------------------------------------------------------------- */

/* Posts for all own tasks, then progresses until the last is complete. */
static void run_once(driver_t *d, const kind_t *kind) {
    ucc_context_h context = heddle_ep_context(d->tasks[0].ep);
    for (uint32_t i = 0; i < d->n_own; i++) {
        task_t *task = &d->tasks[i];
        ucc_coll_args_t args = {.mask = 0};
        kind->describe(d, task, &args);
        check(ucc_collective_init(&args, &task->request, heddle_ep_team(task->ep)), kind->name);
        check(ucc_collective_post(task->request), kind->name);
    }
    for (uint32_t i = 0; i < d->n_own; i++) {
        ucc_status_t status;
        while ((status = ucc_collective_test(d->tasks[i].request)) == UCC_INPROGRESS) {
            ucc_context_progress(context);
        }
        check(status, kind->name);
        check(ucc_collective_finalize(d->tasks[i].request), kind->name);
    }
}

/* Times the collective only: inputs are written before, results compared after. Round 0 is not
 * counted: it touches memory for the first time. */
static void run_kind(driver_t *d, size_t which) {
    const kind_t *kind = &kinds[which];
    for (uint32_t round = 0; round <= d->iterations; round++) {
        for (uint32_t i = 0; i < d->n_own; i++) {
            kind->fill(d, &d->tasks[i], round);
        }
        (void)pthread_barrier_wait(d->start);
        double begin = seconds();
        run_once(d, kind);
        d->times[which] += round > 0 ? seconds() - begin : 0.0;
        for (uint32_t i = 0; i < d->n_own; i++) {
            d->wrong += kind->wrong(d, &d->tasks[i], round);
        }
    }
}

/* Joins the tasks that share context number d->index: task i is on context i * drivers / tasks. */
static void join_tasks(driver_t *d) {
    d->tasks = calloc(d->n_tasks / d->n_drivers + 1, sizeof(task_t));
    for (uint32_t i = 0; i < d->n_tasks; i++) {
        if ((uint64_t)i * d->n_drivers / d->n_tasks != d->index) {
            continue;
        }
        task_t *task = d->tasks == NULL ? NULL : &d->tasks[d->n_own++];
        uint64_t *memory = calloc(2 * (size_t)d->n_tasks, sizeof(uint64_t));
        if (task == NULL || memory == NULL) {
            check(UCC_ERR_NO_MEMORY, "memory for the tasks");
        }
        *task = (task_t){.number = i, .out = memory, .in = memory + d->n_tasks};
        check(heddle_join(d->group, i, &task->ep), "heddle_join");
    }
}

static void *drive(void *arg) {
    driver_t *d = arg;
    join_tasks(d);
    for (size_t which = 0; which < N_KINDS; which++) {
        run_kind(d, which);
    }
    for (uint32_t i = 0; i < d->n_own; i++) {
        check(heddle_leave(d->tasks[i].ep), "heddle_leave");
        free(d->tasks[i].out);
    }
    free(d->tasks);
    return NULL;
}

static uint32_t argument(int argc, char **argv, int at, uint32_t standard, uint32_t most) {
    char *end = NULL;
    long value = argc > at ? strtol(argv[at], &end, 10) : (long)standard;
    if (value < 1 || value > (long)most || (argc > at && *end != '\0')) {
        fprintf(stderr, "usage: tasks [tasks [drivers [iterations]]]\n");
        exit(2);
    }
    return (uint32_t)value;
}

int main(int argc, char **argv) {
    uint32_t tasks = argument(argc, argv, 1, 1000, 16384);
    uint32_t n = argument(argc, argv, 2, tasks < 2 ? tasks : 2, tasks);
    uint32_t iterations = argument(argc, argv, 3, 20, 1000000);

    heddle_group_t *group = NULL;
    check(heddle_group_create(&(heddle_group_params_t){.endpoints = tasks, .contexts = n}, &group),
          "heddle_group_create");
    pthread_barrier_t start;
    driver_t *drivers = calloc(n, sizeof(driver_t));
    if (drivers == NULL || pthread_barrier_init(&start, NULL, n) != 0) {
        check(UCC_ERR_NO_MEMORY, "memory for the drivers");
    }
    for (uint32_t i = 0; i < n; i++) {
        drivers[i] = (driver_t){.group = group,
                                .start = &start,
                                .index = i,
                                .n_drivers = n,
                                .n_tasks = tasks,
                                .iterations = iterations};
        if (pthread_create(&drivers[i].thread, NULL, drive, &drivers[i]) != 0) {
            check(UCC_ERR_NO_RESOURCE, "pthread_create");
        }
    }
    uint64_t wrong = 0;
    double times[N_KINDS] = {0.0};
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(drivers[i].thread, NULL);
        wrong += drivers[i].wrong;
        for (size_t which = 0; which < N_KINDS; which++) {
            times[which] =
                drivers[i].times[which] > times[which] ? drivers[i].times[which] : times[which];
        }
    }
    check(heddle_group_destroy(group), "heddle_group_destroy");
    pthread_barrier_destroy(&start);
    free(drivers);

    printf("%u tasks on %u threads, %u iterations\n", tasks, n, iterations);
    for (size_t which = 0; which < N_KINDS; which++) {
        double each = times[which] * 1e6 / iterations;
        printf("%-20s %12.1f us per collective %10.3f us per endpoint\n", kinds[which].name, each,
               each / tasks);
    }
    puts(wrong == 0 ? "verified" : "WRONG");
    return wrong == 0 ? 0 : 1;
}
