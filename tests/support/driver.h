/* driver.h: runs prepared collectives on a world, the ways applications do.
 *
 * A job is one collective of all endpoints of the world, or of those of an active set. Jobs of one
 * call are posted in order by every endpoint, and an endpoint may be jobs ahead of its peers. Of a
 * world in several processes each drives its own endpoints. All loops are what any UCC client
 * writes: post, then test and progress until it is no longer in progress, then finalize.
 */
#ifndef TESTS_DRIVER_H_
#define TESTS_DRIVER_H_

#include "world.h"

typedef enum driver {
    /* one thread for all endpoints of the process; a job ends before the next one starts */
    DRIVER_ONE,
    DRIVER_DEEP,    /* one thread for all; all jobs are posted before any is progressed */
    DRIVER_THREADS, /* one thread per endpoint */
    DRIVER_SHARED,  /* a few threads, each driving some endpoints, on one shared context */
    DRIVER_WAIT,    /* one thread per endpoint, which sleeps until its part has ended */
    DRIVERS
} driver_t;

/* Endpoints start, start + stride, ...: n of them. */
typedef struct job_set {
    uint32_t start;
    int32_t stride;
    uint32_t n;
} job_set_t;

/* *member: which of the set the endpoint is. False: none. */
bool job_set_has(const job_set_t *set, uint32_t endpoint, uint32_t *member);

typedef struct job {
    ucc_coll_args_t *args;  /* [world size, or members of the set] */
    ucc_status_t *statuses; /* the same, out: final status at each endpoint */
    const char *name;       /* shown when it hangs */
    const job_set_t *set;   /* NULL: all endpoints */
    /* NULL, or args make a persistent request, which is posted again while this says so. Called by
     * whoever drives the endpoint, each time that its part has ended well. */
    bool (*again)(void *arg, uint32_t member, uint32_t times);
    void *arg;
} job_t;

const char *driver_name(driver_t driver);

/* The context arrangement a driver needs. */
bool driver_wants_shared_context(driver_t driver);

void driver_run(world_t *world, driver_t driver, job_t *jobs, uint32_t n_jobs);

/* One collective by DRIVER_ONE; aborts unless it ends with UCC_OK everywhere. */
void driver_collective(world_t *world, ucc_coll_args_t *args, const char *name);

/* NULL, or called by threads of driver_threads: before others begin with what it has done, or end;
 * and after that. */
extern void (*driver_meets)(bool comes);
/* NULL, or called by a thread that has seen that a request has ended, which may be another one than
 * has ended it. */
extern void (*driver_sees)(ucc_coll_req_h request);
/* NULL, or posts an endpoint's part, in another way than ucc_collective_post does. */
extern ucc_status_t (*driver_posts)(ucc_coll_req_h request, uint32_t endpoint);

/* Calls work(arg, i) on n threads at once, i = 0 .. n - 1, and waits for them. */
void driver_threads(uint32_t n, void (*work)(void *arg, uint32_t index), void *arg);

#endif
