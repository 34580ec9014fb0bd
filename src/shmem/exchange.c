/* exchange.c: see exchange.h. All goes through a block of each process in the job's memory, as much
 * at a time as fits there.
 *
 * `arrived` counts processes twice in each round: when they have filled their block, and when they
 * have read all, after which blocks may be filled again. Who waits for a process that is gone is
 * ended by shmemrun.
 */
#include "exchange.h"

#include "job.h"
#include "pe.h"

#include <stdio.h>
#include <string.h>

static uint32_t target; /* of `arrived`; one thread at a time */

/* UCC_ERR_TIMED_OUT: HEDDLE_TIMEOUT has passed. */
static ucc_status_t watch(double began, double *next) {
    char who[64], whom[64];
    double waited = seconds() - began;
    if (waited < *next) {
        return UCC_INPROGRESS;
    }
    snprintf(who, sizeof(who), "PE %d in shmem_init", this_pe->number);
    snprintf(whom, sizeof(whom), "PEs of the %d other process%s", the_world.processes - 1,
             the_world.processes == 2 ? "" : "es");
    return heddle_watch_wait(who, whom, waited, next);
}

static ucc_status_t meet(job_t *job) {
    double began = seconds(), next = 0;
    target += (uint32_t)the_world.processes;
    /* acq_rel: hands on this process's block, or that it has read all; pairs with the one below */
    atomic_fetch_add_explicit(&job->arrived, 1, memory_order_acq_rel);
    job_wake(&job->arrived);
    for (uint32_t seen;;) {
        seen = atomic_load_explicit(&job->arrived, memory_order_acquire); /* see above */
        if ((int32_t)(seen - target) >= 0) {
            return UCC_OK;
        }
        if (watch(began, &next) == UCC_ERR_TIMED_OUT) {
            return UCC_ERR_TIMED_OUT;
        }
        job_sleep(&job->arrived, seen);
    }
}

static ucc_status_t allgather(void *mine, void *all, size_t bytes, void *info, void **request) {
    job_t *job = the_job;
    ucc_status_t status = UCC_OK;
    (void)info;
    *request = job; /* Heddle asks nothing of it but whether it is over */
    for (size_t done = 0; status == UCC_OK && done < bytes; done += EXCHANGE_BYTES) {
        size_t part = bytes - done < EXCHANGE_BYTES ? bytes - done : EXCHANGE_BYTES;
        memcpy(job->process[the_world.process].block, (const char *)mine + done, part);
        status = meet(job);
        for (int i = 0; status == UCC_OK && i < the_world.processes; i++) {
            memcpy((char *)all + (size_t)i * bytes + done, job->process[i].block, part);
        }
        status = status == UCC_OK ? meet(job) : status;
    }
    return status;
}

static ucc_status_t is_over(void *request) {
    (void)request;
    return UCC_OK;
}

void exchange_begin(ucc_oob_coll_t *oob) {
    *oob = (ucc_oob_coll_t){
        .allgather = allgather,
        .req_test = is_over,
        .req_free = is_over,
        .n_oob_eps = (uint32_t)the_world.processes,
        .oob_ep = (uint32_t)the_world.process,
    };
}
