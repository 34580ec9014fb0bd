/* driver.c: see driver.h. */
#include "driver.h"
#include "deadline.h"
#include "random.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SHARED_THREADS = 3 };

const char *driver_name(driver_t driver) {
    static const char *const names[DRIVERS] = {"one thread", "one thread, deep",
                                               "thread per endpoint", "shared context",
                                               "waiting threads"};
    return driver < DRIVERS ? names[driver] : "?";
}

bool driver_wants_shared_context(driver_t driver) {
    return driver == DRIVER_SHARED;
}

bool job_set_has(const job_set_t *set, uint32_t endpoint, uint32_t *member) {
    int64_t offset = (int64_t)endpoint - set->start;
    bool has =
        offset % set->stride == 0 && offset / set->stride >= 0 && offset / set->stride < set->n;
    *member = has ? (uint32_t)(offset / set->stride) : 0;
    return has;
}

/* --- posting, testing, finishing one endpoint's part of one job --- */

typedef struct part {
    ucc_coll_req_h request; /* NULL: it has ended */
    uint32_t endpoint, member, times;
} part_t;

/* In a world of several processes some come late, now and then. */
static void be_late(const world_t *world) {
    static _Thread_local uint64_t random;
    random = random ? random : (uint64_t)getpid();
    if (world->mine != NULL && random_below(&random, 40) == 0) {
        nanosleep(&(struct timespec){.tv_nsec = (long)random_below(&random, 1000000)}, NULL);
    }
}

void (*driver_sees)(ucc_coll_req_h request);
ucc_status_t (*driver_posts)(ucc_coll_req_h request, uint32_t endpoint);

static ucc_status_t post(ucc_coll_req_h request, uint32_t endpoint) {
    return driver_posts != NULL ? driver_posts(request, endpoint) : ucc_collective_post(request);
}

/* Without a request where init failed, whose status then is the job's, and where the endpoint has
 * no part. */
static part_t start(world_t *world, job_t *job, uint32_t i) {
    part_t part = {.endpoint = i, .member = i};
    if (job->set != NULL && !job_set_has(job->set, i, &part.member)) {
        return part;
    }
    be_late(world);
    ucc_coll_req_h request = NULL;
    ucc_status_t st = ucc_collective_init(&job->args[part.member], &request, world->teams[i]);
    if (st != UCC_OK) {
        job->statuses[part.member] = st;
        return part;
    }
    st = post(request, i);
    if (st != UCC_OK) {
        job->statuses[part.member] = st;
        ucc_collective_finalize(request);
        return part;
    }
    part.request = request;
    return part;
}

/* True when this part has ended; the request is then finalized. */
static bool finish(job_t *job, part_t *part) {
    if (part->request == NULL) {
        return true;
    }
    ucc_status_t st = ucc_collective_test(part->request);
    if (st == UCC_INPROGRESS) {
        return false;
    }
    must(st == UCC_OPERATION_INITIALIZED ? UCC_ERR_LAST : UCC_OK, "test after post");
    if (driver_sees != NULL) {
        driver_sees(part->request);
    }
    if (st == UCC_OK && job->again != NULL && job->again(job->arg, part->member, ++part->times)) {
        st = post(part->request, part->endpoint);
        if (st == UCC_OK) {
            return false;
        }
    }
    job->statuses[part->member] = st;
    must(ucc_collective_finalize(part->request), "ucc_collective_finalize");
    part->request = NULL;
    return true;
}

/* Other processes need the processor, too. */
static void let_others(const world_t *world) {
    if (world->mine != NULL) {
        sched_yield();
    }
}

/* --- DRIVER_ONE, DRIVER_DEEP --- */

static void progress_all(world_t *world) {
    for (uint32_t i = 0; i < world->n_contexts; i++) {
        ucc_context_progress(world->contexts[i]);
    }
    let_others(world);
}

/* Endpoints post in an order that differs from job to job, so that anyone may come last. */
static void start_everywhere(world_t *world, job_t *job, uint32_t rotation, part_t *out) {
    uint32_t n = world_count(world);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = (k + rotation) % n;
        out[i] = start(world, job, world_endpoint(world, i));
    }
}

/* True when all parts have ended. One that is posted again may wait for another one to be: all get
 * their turn. */
static bool finish_all(job_t *job, part_t *parts, uint32_t n, uint32_t from, uint32_t step) {
    bool all = true;
    for (uint32_t i = from; i < n; i += step) {
        all = finish(job, &parts[i]) && all;
    }
    return all;
}

static void finish_everywhere(world_t *world, job_t *job, part_t *parts) {
    deadline_t deadline = deadline_start(job->name);
    while (!finish_all(job, parts, world_count(world), 0, 1)) {
        progress_all(world);
        deadline_poll(&deadline);
    }
}

static void run_one(world_t *world, job_t *jobs, uint32_t n_jobs) {
    part_t *parts = must_alloc(world_count(world), sizeof(*parts));
    for (uint32_t k = 0; k < n_jobs; k++) {
        start_everywhere(world, &jobs[k], 7 * k, parts);
        finish_everywhere(world, &jobs[k], parts);
    }
    free(parts);
}

static void run_deep(world_t *world, job_t *jobs, uint32_t n_jobs) {
    uint32_t n = world_count(world);
    part_t *parts = must_alloc((size_t)n_jobs * n, sizeof(*parts));
    for (uint32_t k = 0; k < n_jobs; k++) {
        start_everywhere(world, &jobs[k], 7 * k, parts + (size_t)k * n);
    }
    for (uint32_t k = 0; k < n_jobs; k++) {
        finish_everywhere(world, &jobs[k], parts + (size_t)k * n);
    }
    free(parts);
}

/* --- DRIVER_THREADS, DRIVER_SHARED, DRIVER_WAIT --- */

void (*driver_meets)(bool comes);

static void meet(bool comes) {
    if (driver_meets != NULL) {
        driver_meets(comes);
    }
}

typedef struct thread_job {
    void (*work)(void *arg, uint32_t index);
    void *arg;
    uint32_t index;
} thread_job_t;

static void *thread_main(void *arg) {
    thread_job_t *job = arg;
    meet(true);
    job->work(job->arg, job->index);
    meet(false);
    return NULL;
}

void driver_threads(uint32_t n, void (*work)(void *arg, uint32_t index), void *arg) {
    pthread_t *threads = must_alloc(n, sizeof(*threads));
    thread_job_t *jobs = must_alloc(n, sizeof(*jobs));
    meet(false);
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
    meet(true);
    free(jobs);
    free(threads);
}

typedef struct share {
    world_t *world;
    job_t *jobs;
    uint32_t n_jobs;
    bool waits;
    uint32_t n_threads; /* thread t drives the t-th of mine, and every n_threads-th from there */
} share_t;

/* Sleeps until the thread's part has ended. */
static void sleep_for(const part_t *part, deadline_t *deadline) {
    double left = deadline->end - test_now();
    if (heddle_wait(part->request, left > 0 ? left : 0) == UCC_INPROGRESS) {
        deadline->polls = -1u; /* looks at the clock */
    }
}

static void run_share(void *arg, uint32_t thread) {
    const share_t *share = arg;
    world_t *world = share->world;
    uint32_t n = world_count(world);
    part_t *parts = must_alloc(n, sizeof(*parts));
    for (uint32_t k = 0; k < share->n_jobs; k++) {
        job_t *job = &share->jobs[k];
        deadline_t deadline = deadline_start(job->name);
        for (uint32_t i = thread; i < n; i += share->n_threads) {
            parts[i] = start(world, job, world_endpoint(world, i));
        }
        while (!finish_all(job, parts, n, thread, share->n_threads)) {
            if (share->waits) {
                sleep_for(&parts[thread], &deadline);
            }
            for (uint32_t i = thread; !share->waits && i < n; i += share->n_threads) {
                ucc_context_progress(world_context(world, world_endpoint(world, i)));
            }
            let_others(world);
            deadline_poll(&deadline);
        }
    }
    free(parts);
}

static void run_threads(world_t *world, job_t *jobs, uint32_t n_jobs, uint32_t n_threads,
                        bool waits) {
    share_t share = {
        .world = world, .jobs = jobs, .n_jobs = n_jobs, .waits = waits, .n_threads = n_threads};
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
    case DRIVER_WAIT:
        run_threads(world, jobs, n_jobs, world_count(world), driver == DRIVER_WAIT);
        break;
    default:
        run_threads(world, jobs, n_jobs,
                    world_count(world) < SHARED_THREADS ? world_count(world) : SHARED_THREADS,
                    false);
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
