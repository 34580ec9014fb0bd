/* driver.c: see driver.h. */
#include "driver.h"
#include "deadline.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHARED_THREADS = 3 };

const char *driver_name(driver_t driver) {
    static const char *const names[DRIVERS] = {"one thread", "one thread, deep",
                                               "thread per endpoint", "shared context"};
    return driver < DRIVERS ? names[driver] : "?";
}

bool driver_wants_shared_context(driver_t driver) {
    return driver == DRIVER_SHARED;
}

/* --- posting, testing, finishing one endpoint's part of one job --- */

/* NULL where init failed: the status then is the job's. */
static ucc_coll_req_h start(world_t *world, job_t *job, uint32_t i) {
    ucc_coll_req_h request = NULL;
    ucc_status_t st = ucc_collective_init(&job->args[i], &request, world->teams[i]);
    if (st != UCC_OK) {
        job->statuses[i] = st;
        return NULL;
    }
    st = ucc_collective_post(request);
    if (st != UCC_OK) {
        job->statuses[i] = st;
        ucc_collective_finalize(request);
        return NULL;
    }
    return request;
}

/* True when this part has ended; the request is then finalized. */
static bool finish(job_t *job, uint32_t i, ucc_coll_req_h *request) {
    if (*request == NULL) {
        return true;
    }
    ucc_status_t st = ucc_collective_test(*request);
    if (st == UCC_INPROGRESS) {
        return false;
    }
    must(st == UCC_OPERATION_INITIALIZED ? UCC_ERR_LAST : UCC_OK, "test after post");
    job->statuses[i] = st;
    must(ucc_collective_finalize(*request), "ucc_collective_finalize");
    *request = NULL;
    return true;
}

/* --- DRIVER_ONE, DRIVER_DEEP --- */

static void progress_all(world_t *world) {
    for (uint32_t i = 0; i < world->n_contexts; i++) {
        ucc_context_progress(world->contexts[i]);
    }
}

/* Endpoints post in an order that differs from job to job, so that anyone may come last. */
static void start_everywhere(world_t *world, job_t *job, uint32_t rotation, ucc_coll_req_h *out) {
    for (uint32_t k = 0; k < world->size; k++) {
        uint32_t i = (k + rotation) % world->size;
        out[i] = start(world, job, i);
    }
}

static void finish_everywhere(world_t *world, job_t *job, ucc_coll_req_h *requests) {
    deadline_t deadline = deadline_start(job->name);
    for (uint32_t i = 0; i < world->size; i++) {
        while (!finish(job, i, &requests[i])) {
            progress_all(world);
            deadline_poll(&deadline);
        }
    }
}

static void run_one(world_t *world, job_t *jobs, uint32_t n_jobs) {
    ucc_coll_req_h *requests = must_alloc(world->size, sizeof(*requests));
    for (uint32_t k = 0; k < n_jobs; k++) {
        start_everywhere(world, &jobs[k], 7 * k, requests);
        finish_everywhere(world, &jobs[k], requests);
    }
    free(requests);
}

static void run_deep(world_t *world, job_t *jobs, uint32_t n_jobs) {
    ucc_coll_req_h *requests = must_alloc((size_t)n_jobs * world->size, sizeof(*requests));
    for (uint32_t k = 0; k < n_jobs; k++) {
        start_everywhere(world, &jobs[k], 7 * k, requests + (size_t)k * world->size);
    }
    for (uint32_t k = 0; k < n_jobs; k++) {
        finish_everywhere(world, &jobs[k], requests + (size_t)k * world->size);
    }
    free(requests);
}

/* --- DRIVER_THREADS, DRIVER_SHARED --- */

typedef struct thread_job {
    void (*work)(void *arg, uint32_t index);
    void *arg;
    uint32_t index;
} thread_job_t;

static void *thread_main(void *arg) {
    thread_job_t *job = arg;
    job->work(job->arg, job->index);
    return NULL;
}

void driver_threads(uint32_t n, void (*work)(void *arg, uint32_t index), void *arg) {
    pthread_t *threads = must_alloc(n, sizeof(*threads));
    thread_job_t *jobs = must_alloc(n, sizeof(*jobs));
    for (uint32_t i = 0; i < n; i++) {
        jobs[i] = (thread_job_t){.work = work, .arg = arg, .index = i};
        if (pthread_create(&threads[i], NULL, thread_main, &jobs[i]) != 0) {
            fprintf(stderr, "FATAL: cannot start thread %u of %u\n", i, n);
            abort();
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    free(jobs);
    free(threads);
}

typedef struct share {
    world_t *world;
    job_t *jobs;
    uint32_t n_jobs;
    uint32_t n_threads; /* thread t drives endpoints t, t + n_threads, ... */
} share_t;

static void run_share(void *arg, uint32_t thread) {
    const share_t *share = arg;
    world_t *world = share->world;
    ucc_coll_req_h *requests = must_alloc(world->size, sizeof(*requests));
    for (uint32_t k = 0; k < share->n_jobs; k++) {
        job_t *job = &share->jobs[k];
        deadline_t deadline = deadline_start(job->name);
        for (uint32_t i = thread; i < world->size; i += share->n_threads) {
            requests[i] = start(world, job, i);
        }
        for (uint32_t i = thread; i < world->size; i += share->n_threads) {
            while (!finish(job, i, &requests[i])) {
                ucc_context_progress(world_context(world, i));
                deadline_poll(&deadline);
            }
        }
    }
    free(requests);
}

static void run_threads(world_t *world, job_t *jobs, uint32_t n_jobs, uint32_t n_threads) {
    share_t share = {.world = world, .jobs = jobs, .n_jobs = n_jobs, .n_threads = n_threads};
    driver_threads(n_threads, run_share, &share);
}

void driver_run(world_t *world, driver_t driver, job_t *jobs, uint32_t n_jobs) {
    switch (driver) {
    case DRIVER_ONE:
        run_one(world, jobs, n_jobs);
        break;
    case DRIVER_DEEP:
        run_deep(world, jobs, n_jobs);
        break;
    case DRIVER_THREADS:
        run_threads(world, jobs, n_jobs, world->size);
        break;
    default:
        run_threads(world, jobs, n_jobs,
                    world->size < SHARED_THREADS ? world->size : SHARED_THREADS);
        break;
    }
}

void driver_collective(world_t *world, ucc_coll_args_t *args, const char *name) {
    job_t job = {.args = args, .name = name};
    job.statuses = must_alloc(world->size, sizeof(*job.statuses));
    driver_run(world, DRIVER_ONE, &job, 1);
    for (uint32_t i = 0; i < world->size; i++) {
        must(job.statuses[i], name);
    }
    free(job.statuses);
}
