/* detached.c: OpenMP's tasks as endpoints, by the detach clause.
 *
 * A task starts its first collective and returns: no thread waits inside of it. Each completion
 * callback hands the endpoint's next step to the runtime as a task, and the last one fulfils the
 * event of the detached task, which is only complete with that. What the runtime can't know is that
 * somebody has to progress: here the thread that made the tasks.
 *
 * Tasks come in teams, one after the other, because GCC's runtime defers 64 tasks per thread at
 * most: a detached task beyond that is run at once, and its creator waits for its event, that is
 * for peers that it has not created yet.
 *
 * usage: detached [tasks [collectives [threads]]]      (default 1000, 100 and 2; at least 2
 * threads)
 */
#include <heddle/heddle.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEAM = 50 };

typedef struct task {
    heddle_ep_t *ep;
    ucc_coll_req_h request;
    omp_event_handle_t done;
    uint32_t round;
    uint64_t in, out;
} task_t;

static uint32_t collectives = 100;
static uint32_t n_left;        /* of this team's tasks */
static uint64_t wrong, n_seen; /* results */

static void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fprintf(stderr, "detached: %s: %s\n", what, ucc_status_string(status));
        exit(2);
    }
}

/* Sum over the team of (endpoint + 1) * (round + 1). */
static uint64_t expected(const task_t *t) {
    uint64_t n = heddle_ep_size(t->ep);
    return n * (n + 1) / 2 * (t->round + 1);
}

static void step(task_t *t);

/* Called by whoever progresses, or inside of the last endpoint's post. */
static void completed(void *data, ucc_status_t status) {
    task_t *t = data;
    check(status, "an allreduce");
    check(ucc_collective_finalize(t->request), "ucc_collective_finalize");
#pragma omp atomic
    n_seen++;
    if (t->out != expected(t)) {
#pragma omp atomic
        wrong++;
    }
    t->round++;
#pragma omp task firstprivate(t)
    step(t);
}

/* What the task does between two collectives, and the next of them. */
static void step(task_t *t) {
    if (t->round == collectives) {
        omp_event_handle_t done = t->done;
#pragma omp atomic
        n_left--;
        omp_fulfill_event(done);
        return;
    }
    t->in = (uint64_t)(heddle_ep_index(t->ep) + 1) * (t->round + 1);
    ucc_coll_args_t args = {
        .mask = UCC_COLL_ARGS_FIELD_CB,
        .coll_type = UCC_COLL_TYPE_ALLREDUCE,
        .op = UCC_OP_SUM,
        .src.info = {&t->in, 1, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST},
        .dst.info = {&t->out, 1, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST},
        .cb = {.cb = completed, .data = t},
    };
    check(ucc_collective_init(&args, &t->request, heddle_ep_team(t->ep)), "ucc_collective_init");
    check(ucc_collective_post(t->request), "ucc_collective_post");
}

/* One thread of the region: makes a team's tasks, then progresses until they are over. */
static void run_team(task_t *tasks, uint32_t n) {
#pragma omp atomic write
    n_left = n;
    for (uint32_t i = 0; i < n; i++) {
        task_t *t = &tasks[i];
        omp_event_handle_t done = (omp_event_handle_t)0; /* set by the construct */
#pragma omp task detach(done) firstprivate(t)
        {
            t->done = done;
            step(t);
        }
    }
    for (uint32_t left = n; left > 0;) {
        check(heddle_progress(tasks[0].ep), "heddle_progress");
#pragma omp taskyield
#pragma omp atomic read
        left = n_left;
    }
#pragma omp taskwait
}

int main(int argc, char **argv) {
    uint32_t n_tasks = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000;
    collectives = argc > 2 ? (uint32_t)atoi(argv[2]) : collectives;
    int threads = argc > 3 ? atoi(argv[3]) : 2;
    if (n_tasks < 1 || collectives < 1 || threads < 2 || threads > 1024) {
        fprintf(stderr, "usage: detached [tasks [collectives [threads]]]; at least 2 threads\n");
        return 2;
    }
    task_t *tasks = calloc(n_tasks, sizeof(*tasks));
    if (!tasks) {
        check(UCC_ERR_NO_MEMORY, "memory for the tasks");
    }
    for (uint32_t first = 0; first < n_tasks; first += TEAM) {
        uint32_t n = n_tasks - first < TEAM ? n_tasks - first : TEAM;
        heddle_group_t *group;
        heddle_group_params_t params = {
            .endpoints = n, .contexts = 1, .thread_mode = UCC_THREAD_MULTIPLE};
        check(heddle_group_create(&params, &group), "heddle_group_create");
        for (uint32_t i = 0; i < n; i++) {
            check(heddle_join(group, i, &tasks[first + i].ep), "heddle_join");
        }
        check(heddle_group_destroy(group), "heddle_group_destroy");
    }
    double began = omp_get_wtime();
#pragma omp parallel num_threads(threads)
#pragma omp single
    for (uint32_t first = 0; first < n_tasks; first += TEAM) {
        run_team(&tasks[first], n_tasks - first < TEAM ? n_tasks - first : TEAM);
    }
    double took = omp_get_wtime() - began;
    for (uint32_t i = 0; i < n_tasks; i++) {
        check(heddle_leave(tasks[i].ep), "heddle_leave");
    }
    free(tasks);
    uint64_t all = (uint64_t)n_tasks * collectives;
    printf(
        "%u OpenMP tasks on %d threads, %u collectives each: %.2f us per endpoint and collective\n",
        n_tasks, threads, collectives, took * 1e6 / (double)all);
    puts(wrong == 0 && n_seen == all ? "verified" : "WRONG");
    return wrong == 0 && n_seen == all ? 0 : 1;
}
